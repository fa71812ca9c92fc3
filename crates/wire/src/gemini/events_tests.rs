#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::decode_tests::{fold, pieces, provider};
use super::response::events_of;
use super::*;
use crate::request::AnswerHead;
use placet_core::item::{HostedCall, Reasoning};
use placet_core::part::{Native, Text};
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnFinished};
use placet_core::{
    Arguments, Env, ErrorKind, Item, ItemBody, Message, Origin, Part, ProviderError, Role, StopReason, ToolCall, Turn,
    TurnEvent, Usage,
};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn head() -> AnswerHead {
    AnswerHead {
        id: "resp_1".into(),
        model: "model-1".into(),
        created: 0,
        provider: provider(),
        stream_usage: true,
        request: None,
    }
}

pub(super) fn written(events: &[TurnEvent], array: bool) -> String {
    let mut encoder = encode_events(head());
    if array {
        encoder = encoder.as_array();
    }
    let mut out = Vec::new();
    events.iter().for_each(|event| encoder.push(event, &mut out));
    encoder.end(&mut out);
    String::from_utf8(out).unwrap()
}

fn chunks(text: &str) -> Vec<Value> {
    text.split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn parts_of(text: &str) -> Vec<Value> {
    chunks(text)
        .iter()
        .flat_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array().cloned().unwrap_or_default())
        .collect()
}

fn text(index: u32, text: &str) -> TurnEvent {
    TurnEvent::Text(TextDelta { index, text: text.into() })
}

fn call(index: u32, name: &str, arguments: &str) -> TurnEvent {
    TurnEvent::Call(CallDelta {
        index,
        name: (!name.is_empty()).then(|| name.to_owned()),
        arguments: arguments.into(),
        ..CallDelta::default()
    })
}

fn finished(stop: StopReason) -> TurnEvent {
    TurnEvent::Finished(TurnFinished::new(stop))
}

#[test]
fn a_stream_has_the_shape_that_clients_know() {
    let usage = Usage { input: 30, cache_read: 60, output: 12, reasoning: 5, ..Usage::default() };
    let events = [
        text(0, "Hel"),
        text(0, "lo \"\n\" €"),
        call(1, "f", "{\"a\":"),
        call(1, "", "\"b\"}"),
        TurnEvent::Usage(usage),
        finished(StopReason::ToolCalls),
    ];
    let text = written(&events, false);
    let found = chunks(&text);
    assert_eq!(found.len(), 4);
    for chunk in &found {
        assert_eq!((&chunk["modelVersion"], &chunk["responseId"]), (&json!("model-1"), &json!("resp_1")));
        assert_eq!(
            (&chunk["candidates"][0]["index"], &chunk["candidates"][0]["content"]["role"]),
            (&json!(0), &json!("model"))
        );
    }
    assert_eq!(
        parts_of(&text),
        [
            json!({"text": "Hel"}),
            json!({"text": "lo \"\n\" €"}),
            json!({"functionCall": {"name": "f", "args": {"a": "b"}}}),
            json!({"text": ""})
        ]
    );
    let last = &found[3];
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(
        last["usageMetadata"],
        json!({"promptTokenCount": 90, "cachedContentTokenCount": 60, "candidatesTokenCount": 7, "thoughtsTokenCount": 5, "totalTokenCount": 102})
    );
    let array: Vec<Value> = serde_json::from_str(&written(&events, true)).unwrap();
    assert_eq!(array, found);
}

#[test]
fn an_answer_without_its_end_ends_with_an_error() {
    for array in [false, true] {
        let whole = written(&[text(0, "half")], array);
        let error = fold(&pieces([whole.as_bytes()])).unwrap_err();
        assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Overloaded, Some("UNAVAILABLE")), "{whole}");
        let failed = TurnEvent::Failed(Box::new(ProviderError::new(ErrorKind::RateLimited, provider(), "slow")));
        let error = fold(&pieces([written(&[text(0, "half"), failed], array).as_bytes()])).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::RateLimited, "slow"));
    }
    assert_eq!(
        serde_json::from_str::<Value>(&written(&[finished(StopReason::End)], true)).unwrap().as_array().unwrap().len(),
        1
    );
}

#[test]
fn interleaved_calls_are_written_whole_and_in_order() {
    let events = [
        call(0, "f", "{\"x\""),
        call(1, "g", "{\"y\""),
        text(2, "so"),
        call(0, "", ":1}"),
        call(1, "", ":2}"),
        finished(StopReason::ToolCalls),
    ];
    let found = parts_of(&written(&events, false));
    assert_eq!(
        found,
        [
            json!({"functionCall": {"name": "f", "args": {"x": 1}}}),
            json!({"functionCall": {"name": "g", "args": {"y": 2}}}),
            json!({"text": "so"}),
            json!({"text": ""})
        ]
    );
    let streamed = [call(0, "f", "{}"), text(1, "so"), finished(StopReason::End)];
    assert_eq!(parts_of(&written(&streamed, false))[0]["functionCall"]["name"], "f");
}

#[test]
fn half_a_call_is_no_call() {
    let broken = written(&[call(0, "f", "{\"x\": \"ha"), finished(StopReason::MaxTokens)], false);
    assert_eq!(chunks(&broken).last().unwrap()["candidates"][0]["finishReason"], "MAX_TOKENS");
    assert!(!broken.contains("functionCall\":"));
    let malformed = written(&[call(0, "f", "{\"x\": }"), finished(StopReason::ToolCalls)], false);
    let last = chunks(&malformed).pop().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "MALFORMED_FUNCTION_CALL");
    assert!(last["candidates"][0]["finishMessage"].as_str().unwrap().contains("{\"x\": }"));
}

#[test]
fn stops_have_googles_words() {
    let reason =
        |stop: StopReason| chunks(&written(&[finished(stop)], false))[0]["candidates"][0]["finishReason"].clone();
    for (stop, word) in [
        (StopReason::End, "STOP"),
        (StopReason::StopSequence, "STOP"),
        (StopReason::MaxTokens, "MAX_TOKENS"),
        (StopReason::ContentFilter, "SAFETY"),
        (StopReason::Refusal, "SAFETY"),
        (StopReason::Other("UNEXPECTED_TOOL_CALL".into()), "UNEXPECTED_TOOL_CALL"),
        (StopReason::Other("strange".into()), "OTHER"),
        (StopReason::Pause, "OTHER"),
    ] {
        assert_eq!(reason(stop), word);
    }
}

fn item(body: impl Into<ItemBody>) -> Arc<Item> {
    Arc::new(Item::new(Env::system().new_id(), Origin::Model, body))
}

pub(super) fn turn_of(bodies: Vec<ItemBody>) -> Turn {
    Turn {
        id: Env::system().new_id(),
        model: None,
        response_id: None,
        items: bodies.into_iter().map(item).collect(),
        stop: StopReason::End,
        usage: None,
        provider_state: None,
        service_tier: None,
        native: None,
    }
}

fn said(words: &str, native: Option<Native>) -> ItemBody {
    Message { role: Role::Assistant, parts: vec![Part::Text(Text { native, ..Text::new(words) })], native: None }.into()
}

/// State of another provider comes back to its own item when the client returns the conversation.
#[test]
fn foreign_state_travels_sealed_and_comes_back() {
    let foreign = |value: Value| Some(Native { provider: "anthropic".into(), value });
    let call = ToolCall {
        id: Env::system().new_id(),
        provider_id: Some("toolu_1".into()),
        name: "f".into(),
        arguments: Arguments::from_text("{\"a\":1}"),
        native: foreign(json!({"caller": {"type": "direct"}})),
    };
    let bodies = vec![
        Reasoning { text: "Hm.".into(), native: foreign(json!({"signature": "äÄ+/="})) }.into(),
        Reasoning { text: String::new(), native: foreign(json!({"data": "redacted"})) }.into(),
        ItemBody::HostedCall(HostedCall {
            provider: "anthropic".into(),
            kind: "server_tool_use".into(),
            value: json!({"id": "s"}),
        }),
        said("Found.", foreign(json!({"citations": [1]}))),
        ItemBody::Native(Native { provider: "anthropic".into(), value: json!({"type": "odd"}) }),
        call.into(),
    ];
    let turn = turn_of(bodies.clone());
    // As streamed by a decoder: state after its text.
    let mut streamed = Vec::new();
    let mut events = events_of(&turn).into_iter().peekable();
    while let Some(event) = events.next() {
        let is_state = matches!(event, TurnEvent::ReasoningState(_) | TurnEvent::TextState(_));
        if is_state && matches!(events.peek(), Some(TurnEvent::Text(_) | TurnEvent::Reasoning(_))) {
            streamed.extend(events.next());
        }
        streamed.push(event);
    }
    let streamed = parts_of(&written(&streamed, false));
    let whole = encode_response(&head(), &turn)["candidates"][0]["content"]["parts"].as_array().unwrap().clone();
    for parts in [whole, streamed] {
        assert!(!json!(parts).to_string().contains("anthropic"), "{parts:?}");
        // Clients write signatures in the alphabet they like.
        let parts: Vec<Value> = parts
            .into_iter()
            .filter(|part| *part != json!({"text": ""}))
            .map(|mut part| {
                if let Some(Value::String(signature)) = part.get_mut("thoughtSignature") {
                    *signature = signature.replace('+', "-").replace('/', "_");
                }
                part
            })
            .collect();
        let body =
            json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": parts}]});
        let decoded = decode_request(body.to_string().as_bytes(), &provider(), &Env::system()).unwrap();
        let found: Vec<ItemBody> = decoded.request.items[1..]
            .iter()
            .map(|item| match item.body.clone() {
                ItemBody::ToolCall(mut call) => {
                    let ItemBody::ToolCall(wanted) = &bodies[5] else { panic!("a call") };
                    call.id = wanted.id.clone();
                    call.into()
                }
                other => other,
            })
            .collect();
        assert_eq!(found, bodies);
        // To this provider none of it is ever sent, not even in an unchanged body.
        let onto =
            encode_request_onto(&decoded.body, &decoded.request, &decoded.request, &Dialect::new(provider())).unwrap();
        assert!(!String::from_utf8_lossy(&onto.body).contains("cGxhY2V0MS"));
        let again: Value = serde_json::from_slice(&onto.body).unwrap();
        assert_eq!(again["contents"][1]["parts"].as_array().unwrap().len(), 3, "{again:#}");
    }
}

/// There are clients that leave thoughts out of their history; the call that they led to brings them back.
#[test]
fn thinking_comes_back_with_the_call_it_led_to() {
    let foreign = |value: Value| Some(Native { provider: "anthropic".into(), value });
    for own in [None, foreign(json!({"caller": {"type": "direct"}}))] {
        let call = ToolCall {
            id: Env::system().new_id(),
            provider_id: Some("toolu_1".into()),
            name: "f".into(),
            arguments: Arguments::from_text("{\"a\":1}"),
            native: own,
        };
        let second = ToolCall { id: Env::system().new_id(), provider_id: Some("toolu_2".into()), ..call.clone() };
        let bodies: Vec<ItemBody> = vec![
            Reasoning { text: "Hm, so.".into(), native: foreign(json!({"signature": "äÄ+/="})) }.into(),
            Reasoning { text: String::new(), native: foreign(json!({"data": "redacted"})) }.into(),
            call.into(),
            second.into(),
        ];
        let parts = parts_of(&written(&events_of(&turn_of(bodies.clone())), false));
        for keeps_thoughts in [true, false] {
            let parts: Vec<&Value> = parts
                .iter()
                .filter(|part| **part != json!({"text": ""}) && (keeps_thoughts || part["thought"] != true))
                .collect();
            let body =
                json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": parts}]});
            let decoded = decode_request(body.to_string().as_bytes(), &provider(), &Env::system()).unwrap();
            let found = decoded.request.items[1..].iter().map(|item| item.body.clone());
            let found = found.zip(&bodies).map(|(found, wanted)| match (found, wanted) {
                (ItemBody::ToolCall(call), ItemBody::ToolCall(wanted)) => {
                    ToolCall { id: wanted.id.clone(), ..call }.into()
                }
                (other, _) => other,
            });
            assert_eq!(found.collect::<Vec<_>>(), bodies, "{keeps_thoughts}");
            assert_eq!(decoded.request.items.len(), bodies.len() + 1);
            let onto =
                encode_request_onto(&decoded.body, &decoded.request, &decoded.request, &Dialect::new(provider()));
            assert!(!String::from_utf8_lossy(&onto.unwrap().body).contains("cGxhY2V0MS"));
        }
    }
}

#[test]
fn state_that_comes_twice_is_written_once_and_sources_at_the_end() {
    let state = |value: Value| {
        TurnEvent::TextState(ReasoningState { index: 0, native: Native { provider: provider(), value } })
    };
    let sources = json!({"webSearchQueries": ["q"]});
    let whole = written(
        &[
            text(0, "a"),
            state(json!({"thoughtSignature": "c2ln"})),
            text(1, "b"),
            state(json!({"thoughtSignature": "c2ln", "groundingMetadata": sources})),
            finished(StopReason::End),
        ],
        false,
    );
    assert_eq!(
        parts_of(&whole),
        [
            json!({"text": "a"}),
            json!({"text": "", "thoughtSignature": "c2ln"}),
            json!({"text": "b"}),
            json!({"text": ""})
        ]
    );
    assert_eq!(chunks(&whole).last().unwrap()["candidates"][0]["groundingMetadata"], sources);
}

#[test]
fn row_12_gemini_a_call_without_arguments_is_told_with_an_empty_object() {
    for arguments in ["", "null", "{}", "\"{}\""] {
        let found = parts_of(&written(&[call(0, "f", arguments), finished(StopReason::ToolCalls)], false));
        assert_eq!(found[0], json!({"functionCall": {"name": "f", "args": {}}}), "{arguments}");
    }
}

#[test]
fn row_5_gemini_parallel_calls_are_told_apart() {
    let found = parts_of(&written(&[call(3, "f", "{}"), call(7, "f", "{}"), finished(StopReason::ToolCalls)], false));
    assert_eq!(found.iter().filter(|part| part.get("functionCall").is_some()).count(), 2);
}
