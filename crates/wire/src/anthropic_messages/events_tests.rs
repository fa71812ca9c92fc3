#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::decode_tests::{fold, own, read};
use super::*;
use crate::request::AnswerHead;
use crate::sse::SseDecoder;
use placet_core::item::HostedCall;
use placet_core::part::Native;
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnFinished, TurnStarted, WholeItem};
use placet_core::{ErrorKind, ItemBody, ProviderError, ProviderId, StopReason, TurnEvent, Usage};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn head(provider: ProviderId) -> AnswerHead {
    AnswerHead {
        id: "msg_1".into(),
        model: "claude-x".into(),
        created: 1,
        provider,
        stream_usage: true,
        request: Some(Arc::new(
            json!({"model": "claude-x", "messages": [{"role": "user", "content": "x".repeat(400)}]}),
        )),
    }
}

pub(super) fn written(provider: ProviderId, events: &[TurnEvent]) -> Vec<u8> {
    let mut encoder = encode_events(head(provider));
    let mut out = Vec::new();
    events.iter().for_each(|event| encoder.push(event, &mut out));
    encoder.end(&mut out);
    out
}

/// The data of each event, whose name is that of its type.
fn data(bytes: &[u8]) -> Vec<Value> {
    let mut decoder = SseDecoder::new();
    decoder.push(bytes).unwrap();
    let events = std::iter::from_fn(|| decoder.next_event());
    let data = events.map(|event| {
        let value: Value = serde_json::from_str(&event.data).unwrap();
        assert_eq!(value["type"].as_str(), event.event.as_deref());
        value
    });
    let data: Vec<Value> = data.collect();
    check(&data);
    data
}

/// What every client relies on.
fn check(events: &[Value]) {
    let mut open: Option<u64> = None;
    let mut next = 0;
    let mut ids = std::collections::BTreeSet::new();
    for (place, event) in events.iter().enumerate() {
        let index = event["index"].as_u64();
        match event["type"].as_str().unwrap() {
            "message_start" => {
                assert_eq!(place, 0);
                let message = &event["message"];
                assert_eq!(message["content"], json!([]));
                assert!(message["stop_reason"].is_null() && message["stop_sequence"].is_null());
                assert!(message["usage"]["input_tokens"].is_u64() && message["usage"]["output_tokens"].is_u64());
                assert_eq!((&message["type"], &message["role"]), (&json!("message"), &json!("assistant")));
            }
            "content_block_start" => {
                assert_eq!((open, index), (None, Some(next)), "blocks follow one another: {event}");
                open = index;
                next += 1;
                let block = &event["content_block"];
                match block["type"].as_str().unwrap() {
                    "text" => assert_eq!(block["text"], ""),
                    "thinking" => assert_eq!((&block["thinking"], &block["signature"]), (&json!(""), &json!(""))),
                    "tool_use" => {
                        assert_eq!(block["input"], json!({}));
                        assert!(ids.insert(block["id"].as_str().unwrap().to_owned()), "each call once: {block}");
                    }
                    _ => {}
                }
            }
            "content_block_delta" => assert_eq!(index, open),
            "content_block_stop" => {
                assert_eq!(index, open);
                open = None;
            }
            "message_delta" => {
                assert!(open.is_none());
                assert!(event["delta"]["stop_reason"].is_string() && event["delta"].get("stop_sequence").is_some());
                assert!(event["usage"]["input_tokens"].is_u64() && event["usage"]["output_tokens"].is_u64());
            }
            "message_stop" => assert_eq!(place, events.len() - 1),
            "error" => assert_eq!(place, events.len() - 1),
            other => panic!("clients do not know `{other}`"),
        }
    }
}

fn text(index: u32, text: &str) -> TurnEvent {
    TurnEvent::Text(TextDelta { index, text: text.into() })
}

fn call(index: u32, id: &str, name: &str, arguments: &str) -> TurnEvent {
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    TurnEvent::Call(CallDelta {
        index,
        provider_id: given(id),
        name: given(name),
        arguments: arguments.into(),
        native: None,
    })
}

fn started() -> TurnEvent {
    TurnEvent::Started(TurnStarted { model: Some("claude-x".into()), response_id: Some("msg_1".into()) })
}

fn finished(stop: StopReason) -> TurnEvent {
    TurnEvent::Finished(TurnFinished::new(stop))
}

fn usage(input: u64, output: u64) -> TurnEvent {
    TurnEvent::Usage(Usage { input, output, ..Usage::default() })
}

#[test]
fn an_answer_is_written_as_clients_expect_it() {
    let events = [
        started(),
        usage(12, 1),
        TurnEvent::Reasoning(TextDelta { index: 0, text: "Hm.".into() }),
        TurnEvent::ReasoningState(ReasoningState {
            index: 0,
            native: Native { provider: own(), value: json!({"signature": "c2ln"}) },
        }),
        text(1, "Zürich "),
        text(1, "✓"),
        call(2, "toolu_1", "read", "{\"a\":"),
        call(2, "", "", "1}"),
        call(3, "toolu_2", "list", ""),
        usage(12, 30),
        finished(StopReason::ToolCalls),
    ];
    let data = data(&written(own(), &events));
    let types: Vec<&str> = data.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types.iter().filter(|kind| **kind == "content_block_start").count(), 4);
    assert_eq!(data[0]["message"]["usage"]["input_tokens"], 12);
    let deltas: Vec<&Value> = data.iter().filter_map(|event| event.get("delta")).collect();
    let expected = [
        json!({"type": "thinking_delta", "thinking": "Hm."}),
        json!({"type": "signature_delta", "signature": "c2ln"}),
        json!({"type": "text_delta", "text": "Zürich "}),
        json!({"type": "text_delta", "text": "✓"}),
        json!({"type": "input_json_delta", "partial_json": "{\"a\":"}),
        json!({"type": "input_json_delta", "partial_json": "1}"}),
        json!({"type": "input_json_delta", "partial_json": "{}"}),
        json!({"stop_reason": "tool_use", "stop_sequence": null}),
    ];
    assert_eq!(deltas, expected.iter().collect::<Vec<_>>());
    assert_eq!(types[types.len() - 2..], ["message_delta", "message_stop"]);
    assert_eq!(data[data.len() - 2]["usage"]["output_tokens"], 30);
}

#[test]
fn row_13_anthropic() {
    let data = data(&written(own(), &[started(), call(0, "toolu_1", "f", ""), finished(StopReason::End)]));
    assert_eq!(data[1]["content_block"], json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}));
    assert_eq!(data[2]["delta"]["partial_json"], "{}");
}

#[test]
fn row_36_anthropic() {
    let counted = Usage {
        input: 5,
        cache_read: 100,
        cache_write: 20,
        cache_write_long: 3,
        output: 9,
        reasoning: 4,
        ..Usage::default()
    };
    let data = data(&written(own(), &[started(), TurnEvent::Usage(counted), text(0, "a"), finished(StopReason::End)]));
    for usage in [&data[0]["message"]["usage"], &data[data.len() - 2]["usage"]] {
        assert_eq!(usage["input_tokens"], 5, "what was cached is not in it");
        assert_eq!(
            (&usage["cache_read_input_tokens"], &usage["cache_creation_input_tokens"]),
            (&json!(100), &json!(23))
        );
        assert_eq!(usage["cache_creation"], json!({"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 3}));
    }
    let turn =
        fold(&read(&written(own(), &[started(), TurnEvent::Usage(counted), text(0, "a"), finished(StopReason::End)])))
            .unwrap();
    assert_eq!(turn.usage, Some(counted));
}

#[test]
fn row_37_anthropic() {
    // A provider that tells only at the end: until then there is an estimate.
    let data = data(&written(own(), &[started(), text(0, "a"), usage(321, 5), finished(StopReason::End)]));
    let estimate = data[0]["message"]["usage"]["input_tokens"].as_u64().unwrap();
    assert!((100..200).contains(&estimate), "{estimate}");
    assert_eq!(data[data.len() - 2]["usage"]["input_tokens"], 321);
}

#[test]
fn row_38_anthropic() {
    let data = data(&written(own(), &[started(), text(0, "a"), finished(StopReason::End)]));
    assert!(data[data.len() - 2]["usage"]["output_tokens"].is_u64());
    let whole = encode_response(&head(own()), &fold(&[started(), text(0, "a"), finished(StopReason::End)]).unwrap());
    assert!(whole["usage"]["input_tokens"].is_u64());
}

#[test]
fn calls_that_come_mixed_are_written_one_after_the_other() {
    let events = [
        started(),
        call(1, "a", "f", "{\"x\":"),
        call(2, "b", "g", "{\"y\""),
        text(3, "between"),
        call(1, "", "", "1}"),
        call(2, "", "", ":2}"),
        call(4, "c", "h", ""),
        call(1, "", "", ""),
        finished(StopReason::ToolCalls),
    ];
    let bytes = written(own(), &events);
    data(&bytes);
    let turn = fold(&read(&bytes)).unwrap();
    let calls: Vec<_> =
        turn.calls().map(|call| (call.provider_id.as_deref().unwrap(), call.arguments.as_text())).collect();
    assert_eq!(calls, [("a", "{\"x\":1}"), ("b", "{\"y\":2}"), ("c", "{}")]);
    assert_eq!(turn.text(), "between");
}

#[test]
fn a_call_without_an_id_gets_one() {
    let turn = fold(&read(&written(
        own(),
        &[started(), call(0, "", "f", "{}"), call(1, "", "g", "{}"), finished(StopReason::ToolCalls)],
    )))
    .unwrap();
    let ids: std::collections::BTreeSet<_> = turn.calls().map(|call| call.provider_id.clone().unwrap()).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.iter().all(|id| id.starts_with("toolu_msg_1_")), "{ids:?}");
}

#[test]
fn why_it_ended_is_told_in_the_protocols_words() {
    let word = |events: &[TurnEvent], stop: StopReason| {
        let mut all = vec![started()];
        all.extend_from_slice(events);
        all.push(finished(stop));
        let data = data(&written(own(), &all));
        data[data.len() - 2]["delta"]["stop_reason"].as_str().unwrap().to_owned()
    };
    let said = [text(0, "a")];
    let asked = [call(0, "a", "f", "{}")];
    assert_eq!(word(&said, StopReason::End), "end_turn");
    assert_eq!(word(&said, StopReason::ToolCalls), "end_turn");
    assert_eq!(word(&asked, StopReason::End), "tool_use");
    assert_eq!(word(&asked, StopReason::MaxTokens), "max_tokens", "a cut answer is a cut one, whatever is in it");
    assert_eq!(word(&said, StopReason::StopSequence), "stop_sequence");
    assert_eq!(word(&said, StopReason::ContentFilter), "refusal");
    assert_eq!(word(&said, StopReason::Pause), "pause_turn");
    let refusal = [TurnEvent::Refusal(TextDelta { index: 0, text: "No.".into() })];
    assert_eq!(word(&refusal, StopReason::End), "refusal");
    assert_eq!(word(&said, StopReason::Other("bored".into())), "bored");
}

#[test]
fn an_answer_that_broke_off_never_ends_well() {
    let error = ProviderError::new(ErrorKind::Overloaded, own(), "Overloaded");
    let failed = data(&written(
        own(),
        &[started(), text(0, "a"), TurnEvent::Failed(Box::new(error)), finished(StopReason::End)],
    ));
    assert_eq!(failed.last().unwrap()["error"], json!({"type": "overloaded_error", "message": "Overloaded"}));
    let cut = data(&written(own(), &[started(), text(0, "a")]));
    assert_eq!(cut.last().unwrap()["type"], "error");
    assert_eq!(cut.last().unwrap()["error"]["type"], "api_error");
    let never = data(&written(own(), &[]));
    assert_eq!((never.len(), &never[0]["type"]), (1, &json!("error")));
    assert_eq!(fold(&read(&written(own(), &[started(), text(0, "a")]))).unwrap_err().kind, ErrorKind::Unavailable);
}

#[test]
fn errors_have_the_protocols_shape() {
    let of = |kind: ErrorKind| encode_error(&ProviderError::new(kind, own(), "m"));
    let (status, body) = of(ErrorKind::RateLimited);
    assert_eq!(
        (status, body),
        (429, json!({"type": "error", "error": {"type": "rate_limit_error", "message": "m"}, "request_id": null}))
    );
    for (kind, status, word) in [
        (ErrorKind::InvalidRequest, 400, "invalid_request_error"),
        (ErrorKind::Unsupported, 400, "invalid_request_error"),
        (ErrorKind::Authentication, 401, "authentication_error"),
        (ErrorKind::QuotaExhausted, 402, "billing_error"),
        (ErrorKind::Permission, 403, "permission_error"),
        (ErrorKind::NotFound, 404, "not_found_error"),
        (ErrorKind::Timeout, 504, "timeout_error"),
        (ErrorKind::Overloaded, 529, "overloaded_error"),
        (ErrorKind::Protocol, 500, "api_error"),
        (ErrorKind::Other("odd".into()), 500, "api_error"),
    ] {
        let (told, body) = of(kind);
        assert_eq!((told, body["error"]["type"].as_str()), (status, Some(word)));
    }
    let (_, body) = of(ErrorKind::ContextLength);
    assert_eq!(body["error"]["message"], "prompt is too long: m");
    let mut large = ProviderError::new(ErrorKind::InvalidRequest, own(), "m");
    large.status = Some(413);
    let (status, body) = encode_error(&large);
    assert_eq!((status, body["error"]["type"].as_str()), (413, Some("request_too_large")));
    // Read back it is the same sort of error.
    for kind in [ErrorKind::Overloaded, ErrorKind::RateLimited, ErrorKind::ContextLength, ErrorKind::QuotaExhausted] {
        let (status, body) = of(kind.clone());
        assert_eq!(decode_error(&own(), status, &http::HeaderMap::new(), body.to_string().as_bytes()).kind, kind);
    }
}

#[test]
fn other_providers_state_reaches_the_client_and_comes_back() {
    let google = ProviderId::new("google");
    let state = |word: &str| Native { provider: google.clone(), value: json!({"thoughtSignature": word}) };
    let hosted = HostedCall { provider: google.clone(), kind: "executableCode".into(), value: json!({"x": 1}) };
    let mut signed = CallDelta {
        index: 2,
        provider_id: Some("toolu_1".into()),
        name: Some("f".into()),
        arguments: "{}".into(),
        native: Some(state("call")),
    };
    let events = [
        started(),
        TurnEvent::Reasoning(TextDelta { index: 0, text: "Hm.".into() }),
        TurnEvent::ReasoningState(ReasoningState { index: 0, native: state("thought") }),
        text(1, "a"),
        TurnEvent::TextState(ReasoningState { index: 1, native: state("text") }),
        TurnEvent::Call(signed.clone()),
        TurnEvent::Whole(Box::new(WholeItem { index: 3, body: hosted.clone().into() })),
        {
            signed.index = 4;
            signed.native = None;
            signed.provider_id = Some("toolu_2".into());
            signed.arguments = "{\"a\":".into();
            TurnEvent::Call(signed)
        },
        TurnEvent::Call(CallDelta {
            index: 4,
            arguments: "1}".into(),
            native: Some(state("late")),
            ..CallDelta::default()
        }),
        TurnEvent::Reasoning(TextDelta { index: 5, text: "So.".into() }),
        text(6, "b"),
        TurnEvent::ReasoningState(ReasoningState { index: 5, native: state("late thought") }),
        finished(StopReason::ToolCalls),
    ];
    // The client believes to speak to `own`; the answer is Google's.
    let bytes = written(own(), &events);
    data(&bytes);
    let turn = fold(&events).unwrap();
    let streamed: Vec<Value> = blocks_of(&bytes);
    let whole = encode_response(&head(own()), &turn);
    for content in [json!(streamed), whole["content"].clone()] {
        let mut messages = vec![json!({"role": "assistant", "content": content})];
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}, {"type": "tool_result", "tool_use_id": "toolu_2", "content": "y"},
        ]}));
        let body = json!({"model": "m", "messages": messages});
        let decoded = decode_request(body.to_string().as_bytes(), &own(), &super::decode_tests::env()).unwrap();
        let back: Vec<&ItemBody> = decoded
            .request
            .items
            .iter()
            .map(|item| &item.body)
            .filter(|body| !matches!(body, ItemBody::ToolResult(_)))
            .collect();
        let native = |body: &ItemBody| match body {
            ItemBody::Reasoning(reasoning) => reasoning.native.clone(),
            ItemBody::ToolCall(call) => call.native.clone(),
            ItemBody::Message(message) => match &message.parts[0] {
                placet_core::Part::Text(text) => text.native.clone(),
                _ => None,
            },
            _ => None,
        };
        let found: Vec<_> = back.iter().map(|body| (body.kind(), native(body))).collect();
        let expected = [
            ("reasoning", Some(state("thought"))),
            ("message", Some(state("text"))),
            ("tool_call", Some(state("call"))),
            ("hosted_call", None),
            ("tool_call", Some(state("late"))),
            ("reasoning", Some(state("late thought"))),
            ("message", None),
        ];
        assert_eq!(found, expected);
        assert_eq!(*back[3], ItemBody::HostedCall(hosted.clone()));
    }
}

/// The blocks that a client puts together of a stream, as the vendors' own clients do it.
pub(super) fn blocks_of(bytes: &[u8]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let mut input = String::new();
    for event in data(bytes) {
        match event["type"].as_str().unwrap() {
            "content_block_start" => blocks.push(event["content_block"].clone()),
            "content_block_delta" => {
                let block = blocks.last_mut().unwrap();
                let delta = &event["delta"];
                let grow = |block: &mut Value, key: &str| {
                    block[key] = format!("{}{}", block[key].as_str().unwrap(), delta[key].as_str().unwrap()).into();
                };
                match delta["type"].as_str().unwrap() {
                    "text_delta" => grow(block, "text"),
                    "thinking_delta" => grow(block, "thinking"),
                    "signature_delta" => block["signature"] = delta["signature"].clone(),
                    "input_json_delta" => input.push_str(delta["partial_json"].as_str().unwrap()),
                    "citations_delta" => match block.get_mut("citations").and_then(Value::as_array_mut) {
                        Some(citations) => citations.push(delta["citation"].clone()),
                        None => block["citations"] = json!([delta["citation"]]),
                    },
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" if !input.is_empty() => {
                blocks.last_mut().unwrap()["input"] =
                    serde_json::from_str(&input).unwrap_or(json!({"INVALID_JSON": input}));
                input.clear();
            }
            _ => {}
        }
    }
    blocks
}

#[test]
fn what_is_known_of_a_text_stands_in_front_of_it_for_an_answer_is_what_its_last_block_says() {
    let state = |value: &str| {
        let native = Native { provider: "other".into(), value: json!({"id": value}) };
        TurnEvent::TextState(ReasoningState { index: 0, native })
    };
    let text = |text: &str| TurnEvent::Text(TextDelta { index: 0, text: text.into() });
    let blocks = |events: &[TurnEvent]| -> Vec<Value> {
        let starts = data(&written(own(), events)).into_iter().filter(|event| event["type"] == "content_block_start");
        starts.map(|event| event["content_block"]["type"].clone()).collect()
    };
    let end = TurnEvent::Finished(TurnFinished::new(StopReason::End));
    // Told before and again behind, the same.
    let same = [state("m"), text("hello"), state("m"), end.clone()];
    assert_eq!(blocks(&same), ["redacted_thinking", "text"]);
    let other = [state("m"), text("hello"), state("n"), end];
    assert_eq!(blocks(&other), ["redacted_thinking", "text", "redacted_thinking"]);
}
