#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use crate::envelope;
use crate::sse::SseDecoder;
use placet_core::env::ManualClock;
use placet_core::item::{HostedCall, Reasoning};
use placet_core::part::{Inline, Media, MediaSource, Native, Text};
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnFinished, TurnStarted, WholeItem};
use placet_core::{Arguments, Env, Item, ItemBody, Message, Part, Role, StopReason, Timestamp, Turn, TurnEvent, Usage};
use serde_json::{Value, json};
use std::sync::Arc;

fn own() -> ProviderId {
    ProviderId::new("openai")
}

fn env() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 3)
}

fn head(request: Option<Value>) -> AnswerHead {
    AnswerHead {
        id: "resp_0199ab".into(),
        model: "the-model".into(),
        created: 7,
        provider: own(),
        stream_usage: true,
        request: request.map(Arc::new),
    }
}

fn bytes(head: AnswerHead, events: &[TurnEvent]) -> Vec<u8> {
    let mut encoder = encode_events(head);
    let mut out = Vec::new();
    events.iter().for_each(|event| encoder.push(event, &mut out));
    encoder.end(&mut out);
    out
}

/// The events as the client reads them. Each is named as its type says, and they are numbered without gaps.
fn written(head: AnswerHead, events: &[TurnEvent]) -> Vec<Value> {
    let mut decoder = SseDecoder::new();
    decoder.push(&bytes(head, events)).unwrap();
    let mut list = Vec::new();
    while let Some(event) = decoder.next_event() {
        let value: Value = serde_json::from_str(&event.data).unwrap();
        assert_eq!(event.event.as_deref(), value["type"].as_str());
        assert_eq!(value["sequence_number"], list.len());
        list.push(value);
    }
    list
}

fn kinds(list: &[Value]) -> Vec<&str> {
    list.iter().map(|event| event["type"].as_str().unwrap().trim_start_matches("response.")).collect()
}

fn text(index: u32, text: &str) -> TurnEvent {
    TurnEvent::Text(TextDelta { index, text: text.into() })
}

fn thinking(index: u32, text: &str) -> TurnEvent {
    TurnEvent::Reasoning(TextDelta { index, text: text.into() })
}

fn call(index: u32, id: &str, name: &str, arguments: &str) -> TurnEvent {
    TurnEvent::Call(CallDelta {
        index,
        provider_id: Some(id.into()),
        name: Some(name.into()),
        arguments: arguments.into(),
        native: None,
    })
}

fn finished(stop: StopReason) -> TurnEvent {
    TurnEvent::Finished(TurnFinished::new(stop))
}

fn started() -> TurnEvent {
    TurnEvent::Started(TurnStarted::default())
}

fn usage() -> TurnEvent {
    TurnEvent::Usage(Usage { input: 30, cache_read: 60, cache_write: 10, output: 20, reasoning: 5, ..Usage::default() })
}

fn output(list: &[Value]) -> Vec<Value> {
    list.last().unwrap()["response"]["output"].as_array().unwrap().clone()
}

#[test]
fn an_answer_has_its_whole_life() {
    let list = written(
        head(None),
        &[
            started(),
            thinking(0, "Hm."),
            text(1, "Hel"),
            text(1, "lo"),
            call(2, "c1", "read", "{\"p\":"),
            call(2, "", "", "1}"),
            usage(),
            finished(StopReason::ToolCalls),
        ],
    );
    assert_eq!(
        kinds(&list),
        [
            "created",
            "in_progress",
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ]
    );
    for event in &list {
        if event["type"].as_str().unwrap().starts_with("response.output_text.d") {
            assert_eq!(event["logprobs"], json!([]));
        }
    }
    let response = &list.last().unwrap()["response"];
    assert_eq!(
        (&response["id"], &response["status"], &response["model"]),
        (&json!("resp_0199ab"), &json!("completed"), &json!("the-model"))
    );
    assert_eq!(list[0]["response"]["id"], response["id"]);
    assert_eq!(
        response["usage"],
        json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 120})
    );
    for key in ["id", "created_at", "model", "object", "output", "parallel_tool_calls", "tool_choice", "tools"] {
        assert!(response.get(key).is_some(), "{key}");
    }
    let output = output(&list);
    assert_eq!(
        output[1]["content"],
        json!([{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}])
    );
    assert_eq!((&output[2]["call_id"], &output[2]["arguments"]), (&json!("c1"), &json!("{\"p\":1}")));
    // Ids: the item's is not the call's, and each item has the one that it was announced with.
    let announced: Vec<&Value> = list
        .iter()
        .filter(|event| event["type"] == "response.output_item.added")
        .map(|event| &event["item"]["id"])
        .collect();
    assert_eq!(announced, output.iter().map(|item| &item["id"]).collect::<Vec<_>>());
    for (item, prefix) in output.iter().zip(["rs_", "msg_", "fc_"]) {
        let id = item["id"].as_str().unwrap();
        assert!(id.starts_with(prefix) && is_own_id(id) && id != "c1", "{id}");
    }
}

#[test]
fn row_28_responses() {
    // What Codex needs: the type within the data, the answer under `response`, numbers, `logprobs`, whole items when done.
    let list = written(
        head(None),
        &[text(0, "hi"), call(1, "c1", "exec_command", "{\"cmd\":\"ls\"}"), finished(StopReason::ToolCalls)],
    );
    assert!(list.iter().all(|event| event["type"].is_string() && event["sequence_number"].is_u64()));
    let done = list.iter().rfind(|event| event["type"] == "response.output_item.done").unwrap();
    assert_eq!(
        (&done["item"]["name"], &done["item"]["arguments"]),
        (&json!("exec_command"), &json!("{\"cmd\":\"ls\"}"))
    );
    assert_eq!(list.last().unwrap()["response"]["output"].as_array().unwrap().len(), 2);
}

#[test]
fn row_29_responses() {
    // Whatever comes, each item is announced and ended once, and there is one terminal event.
    let streams: [&[TurnEvent]; 6] = [
        &[],
        &[finished(StopReason::End)],
        &[text(0, "cut")],
        &[call(0, "c", "read", "{\"p\":"), finished(StopReason::MaxTokens), text(9, "late")],
        &[
            text(0, "a"),
            call(1, "x", "read", ""),
            call(2, "y", "read", ""),
            text(0, "b"),
            call(1, "", "", "{}"),
            finished(StopReason::End),
            finished(StopReason::End),
        ],
        &[
            text(0, "a"),
            TurnEvent::Failed(Box::new(ProviderError::new(ErrorKind::Overloaded, own(), "busy"))),
            text(0, "b"),
        ],
    ];
    for events in streams {
        let list = written(head(None), events);
        let kinds = kinds(&list);
        assert_eq!(kinds[..2], ["created", "in_progress"]);
        let terminal = |kind: &&&str| matches!(**kind, "completed" | "incomplete" | "failed");
        assert_eq!(kinds.iter().filter(terminal).count(), 1, "{kinds:?}");
        assert!(terminal(&kinds.last().unwrap()), "{kinds:?}");
        let count = |kind: &str| kinds.iter().filter(|found| **found == kind).count();
        if *kinds.last().unwrap() != "failed" {
            assert_eq!(count("output_item.added"), count("output_item.done"));
            assert_eq!(output(&list).len(), count("output_item.added"));
        }
    }
}

#[test]
fn an_answer_that_broke_off_is_never_called_whole() {
    let list = written(head(None), &[text(0, "half")]);
    let last = list.last().unwrap();
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("failed")));
    assert_eq!(last["response"]["error"]["code"], "server_error");
    assert_eq!(last["response"]["output"], json!([]), "what is half is not among what is done");
}

#[test]
fn a_cut_answer_says_so_and_so_does_its_last_item() {
    let list =
        written(head(None), &[text(0, "a"), call(1, "c", "read", "{\"p\":\"ha"), finished(StopReason::MaxTokens)]);
    let response = &list.last().unwrap()["response"];
    assert_eq!(
        (&response["status"], &response["incomplete_details"]),
        (&json!("incomplete"), &json!({"reason": "max_output_tokens"}))
    );
    assert_eq!(
        (&response["output"][0]["status"], &response["output"][1]["status"]),
        (&json!("completed"), &json!("incomplete"))
    );
    let reason = |stop: StopReason| {
        written(head(None), &[finished(stop)]).last().unwrap()["response"]["incomplete_details"]["reason"].clone()
    };
    assert_eq!(reason(StopReason::ContentFilter), "content_filter");
    assert_eq!(reason(StopReason::Refusal), "content_filter", "a refusal without a word of it");
    assert_eq!(reason(StopReason::Other("steered".into())), "steered");
    assert_eq!(reason(StopReason::StopSequence), Value::Null);
}

#[test]
fn arguments_that_are_none_are_an_empty_object() {
    for none in ["", "null", "\"null\"", " "] {
        let list = written(head(None), &[call(0, "c", "ping", none), finished(StopReason::ToolCalls)]);
        let deltas: String = list
            .iter()
            .filter(|event| event["type"] == "response.function_call_arguments.delta")
            .map(|event| event["delta"].as_str().unwrap())
            .collect();
        assert_eq!((deltas.as_str(), &output(&list)[0]["arguments"]), ("{}", &json!("{}")), "{none:?}");
    }
}

#[test]
fn parallel_calls_go_out_by_their_places() {
    let list = written(
        head(None),
        &[
            call(5, "a", "read", ""),
            call(9, "b", "read", ""),
            call(9, "", "", "{\"n\":2}"),
            call(5, "", "", "{\"n\":1}"),
            finished(StopReason::ToolCalls),
        ],
    );
    let found: Vec<_> = output(&list).iter().map(|item| (item["call_id"].clone(), item["arguments"].clone())).collect();
    assert_eq!(found, [(json!("a"), json!("{\"n\":1}")), (json!("b"), json!("{\"n\":2}"))]);
    let places: Vec<_> = list
        .iter()
        .filter(|event| event["type"] == "response.output_item.added")
        .map(|event| event["output_index"].as_u64().unwrap())
        .collect();
    assert_eq!(places, [0, 1]);
}

#[test]
fn a_refusal_is_one() {
    let events = [TurnEvent::Refusal(TextDelta { index: 0, text: "No.".into() }), finished(StopReason::Refusal)];
    let list = written(head(None), &events);
    assert_eq!(
        kinds(&list)[2..8],
        [
            "output_item.added",
            "content_part.added",
            "refusal.delta",
            "refusal.done",
            "content_part.done",
            "output_item.done"
        ]
    );
    assert_eq!(output(&list)[0]["content"], json!([{"type": "refusal", "refusal": "No."}]));
    assert_eq!(list.last().unwrap()["type"], "response.completed");
}

/// A request as Codex sends it to a model that it knows: the tools stand in an item, in namespaces.
fn code_mode() -> Value {
    json!({"model": "m", "input": [
        {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [
            {"type": "namespace", "name": "functions", "description": "", "tools": [
                {"type": "custom", "name": "exec", "description": "Runs.", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
                {"type": "function", "name": "wait", "description": "Waits.", "strict": false, "parameters": {"type": "object", "properties": {}}}]}]},
        {"type": "message", "role": "user", "content": "go"}]})
}

#[test]
fn a_client_reads_calls_in_its_own_words() {
    let list = written(
        head(Some(code_mode())),
        &[
            call(0, "c1", "functions__exec", "{ \"input\": \"say \\\"hi\\\"\" }"),
            call(1, "c2", "functions__wait", "{}"),
            finished(StopReason::ToolCalls),
        ],
    );
    let output = output(&list);
    let item = &output[0];
    assert_eq!(
        (&item["type"], &item["name"], &item["namespace"], &item["input"], item.get("arguments")),
        (&json!("custom_tool_call"), &json!("exec"), &json!("functions"), &json!("say \"hi\""), None)
    );
    assert_eq!(
        (&output[1]["type"], &output[1]["name"], &output[1]["namespace"]),
        (&json!("function_call"), &json!("wait"), &json!("functions"))
    );
    let input: String = list
        .iter()
        .filter(|event| event["type"] == "response.custom_tool_call_input.delta")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(input, "say \"hi\"");
    // And sends them back so.
    let mut next = code_mode();
    next["input"].as_array_mut().unwrap().extend(output);
    let decoded = decode_request(next.to_string().as_bytes(), &own(), &env()).unwrap().request;
    let calls: Vec<_> = decoded
        .items
        .iter()
        .filter_map(|item| match &item.body {
            ItemBody::ToolCall(call) => Some((call.name.as_str(), call.arguments.as_text(), call.native.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(calls, [("functions__exec", r#"{"input":"say \"hi\""}"#, None), ("functions__wait", "{}", None)]);
}

fn foreign(value: Value) -> Native {
    Native { provider: "google".into(), value }
}

#[test]
fn state_of_another_provider_comes_back_through_the_client() {
    let hosted = ItemBody::HostedCall(HostedCall {
        provider: "google".into(),
        kind: "executable_code".into(),
        value: json!({"executableCode": {"code": "1"}}),
    });
    let bodies: Vec<ItemBody> = vec![
        Reasoning { text: "Hm.".into(), native: Some(foreign(json!({"thoughtSignature": "c2ln+/="}))) }.into(),
        Message {
            role: Role::Assistant,
            parts: vec![Part::Text(Text {
                native: Some(foreign(json!({"thoughtSignature": "dGV4dA=="}))),
                ..Text::new("Hi.")
            })],
            native: None,
        }
        .into(),
        hosted.clone(),
        placet_core::ToolCall {
            id: env().new_id(),
            provider_id: Some("c1".into()),
            name: "read".into(),
            arguments: Arguments::from_text("{}"),
            native: Some(foreign(json!({"thoughtSignature": "Y2FsbA=="}))),
        }
        .into(),
        placet_core::ToolCall {
            id: env().new_id(),
            provider_id: Some("c2".into()),
            name: "read".into(),
            arguments: Arguments::from_text("{}"),
            native: None,
        }
        .into(),
        Reasoning { text: String::new(), native: Some(foreign(json!({"redacted": "x"}))) }.into(),
    ];
    let turn = Turn {
        id: env().new_id(),
        model: None,
        response_id: None,
        items: bodies
            .iter()
            .map(|body| Arc::new(Item::new(env().new_id(), placet_core::Origin::Model, body.clone())))
            .collect(),
        stop: StopReason::ToolCalls,
        usage: None,
        provider_state: None,
        service_tier: None,
        native: None,
    };
    for output in [
        output(&written(head(None), &crate::events_of(&turn))),
        encode_response(&head(None), &turn)["output"].as_array().unwrap().clone(),
    ] {
        let text = Value::from(output.clone()).to_string();
        assert!(!text.contains("thoughtSignature") && !text.contains("executableCode"), "sealed: {text}");
        let next = json!({"model": "m", "input": output});
        let decoded = decode_request(next.to_string().as_bytes(), &own(), &env()).unwrap();
        let back: Vec<ItemBody> = decoded
            .request
            .items
            .iter()
            .map(|item| match item.body.clone() {
                ItemBody::ToolCall(mut call) => {
                    call.id = env().new_id();
                    ItemBody::ToolCall(call)
                }
                body => body,
            })
            .collect();
        assert_eq!(back, bodies);
        // This protocol's own provider is never sent an envelope, whichever way the request goes out.
        let dialect = Dialect { stream: false, ..Dialect::new(own()) };
        let fresh = encode_request(&decoded.request, &dialect).unwrap();
        let onto = encode_request_onto(&decoded.body, &decoded.request, &decoded.request, &dialect).unwrap();
        for body in [&fresh.body, &onto.body] {
            let text = String::from_utf8_lossy(body);
            assert!(!text.contains("placet1.") && !text.contains(OWN_ID) && text.contains("Hi."), "{text}");
        }
        let left_out: Vec<_> = fresh.omitted.iter().map(|omission| omission.what.as_str()).collect();
        assert_eq!(left_out, ["reasoning", "text.native", "hosted_call", "tool_call.native"]);
    }
}

#[test]
fn thinking_whose_id_came_too_late_comes_back_with_it() {
    let state = json!({"type": "reasoning", "id": "rs_true", "summary": [{"type": "summary_text", "text": "Hm."}]});
    let native = Native { provider: own(), value: state.clone() };
    let list = written(
        head(None),
        &[
            thinking(0, "Hm."),
            TurnEvent::ReasoningState(ReasoningState { index: 0, native }),
            finished(StopReason::End),
        ],
    );
    let item = &output(&list)[0];
    assert!(item["id"] != "rs_true" && envelope::is_sealed(item["encrypted_content"].as_str().unwrap()));
    let next = json!({"model": "m", "input": [item]});
    let decoded = decode_request(next.to_string().as_bytes(), &own(), &env()).unwrap();
    let ItemBody::Reasoning(reasoning) = &decoded.request.items[0].body else { panic!() };
    assert_eq!((reasoning.text.as_str(), &reasoning.native.as_ref().unwrap().value), ("Hm.", &state));
    let dialect = Dialect { stream: false, ..Dialect::new(own()) };
    let onto = encode_request_onto(&decoded.body, &decoded.request, &decoded.request, &dialect).unwrap();
    let body: Value = serde_json::from_slice(&onto.body).unwrap();
    assert_eq!(body["input"], json!([state]));
}

#[test]
fn own_state_goes_out_as_it_is() {
    let native = |value: Value| Native { provider: own(), value };
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}});
    let message = json!({"message": {"id": "msg_1", "phase": "final_answer"}, "annotations": [{"type": "url_citation", "url": "https://example.com", "title": "t", "start_index": 0, "end_index": 1}]});
    let list = written(
        head(None),
        &[
            TurnEvent::ReasoningState(ReasoningState { index: 0, native: native(reasoning.clone()) }),
            TurnEvent::Whole(Box::new(WholeItem {
                index: 1,
                body: HostedCall { provider: own(), kind: "web_search_call".into(), value: search.clone() }.into(),
            })),
            TurnEvent::TextState(ReasoningState {
                index: 2,
                native: native(json!({"message": {"id": "msg_1", "phase": "final_answer"}})),
            }),
            text(2, "Hi"),
            TurnEvent::TextState(ReasoningState { index: 2, native: native(message) }),
            finished(StopReason::End),
        ],
    );
    let output = output(&list);
    assert_eq!((&output[0], &output[1]), (&reasoning, &search));
    assert_eq!((&output[2]["id"], &output[2]["phase"]), (&json!("msg_1"), &json!("final_answer")));
    assert_eq!(output[2]["content"][0]["annotations"][0]["title"], "t");
    assert!(kinds(&list).contains(&"output_text.annotation.added"));
    let opening = list.iter().find(|event| event["item"]["type"] == "web_search_call").unwrap();
    assert_eq!(opening["item"]["status"], "in_progress");
}

#[test]
fn a_picture_that_a_model_made_is_an_item_of_its_own() {
    let picture = Part::Image(Media {
        mime_type: Some("image/png".into()),
        ..Media::new(MediaSource::Inline(Inline { base64: "AAAA".into() }))
    });
    let body =
        ItemBody::Message(Message { role: Role::Assistant, parts: vec![Part::text("See:"), picture], native: None });
    let list =
        written(head(None), &[TurnEvent::Whole(Box::new(WholeItem { index: 0, body })), finished(StopReason::End)]);
    let output = output(&list);
    assert_eq!(
        (&output[0]["content"][0]["text"], &output[1]["type"], &output[1]["result"]),
        (&json!("See:"), &json!("image_generation_call"), &json!("AAAA"))
    );
}

#[test]
fn the_request_is_repeated_without_its_credentials() {
    let request = json!({"model": "m", "input": "x", "instructions": "Be brief.", "temperature": 0.5, "store": false, "tools": [
        {"type": "function", "name": "read"},
        {"type": "mcp", "server_label": "crm", "server_url": "https://mcp.example", "authorization": "s3cret", "headers": {"x-key": "s3cret"}}]});
    let list = written(head(Some(request)), &[finished(StopReason::End)]);
    let response = &list[0]["response"];
    assert_eq!(
        (&response["instructions"], &response["temperature"], &response["store"]),
        (&json!("Be brief."), &json!(0.5), &json!(false))
    );
    assert_eq!(response["tools"][0], json!({"type": "function", "name": "read", "parameters": null, "strict": null}));
    assert!(!response.to_string().contains("s3cret"));
}

#[test]
fn rule_10_responses() {
    // What an error is survives both ways, and its texts are texts.
    for kind in [
        ErrorKind::InvalidRequest,
        ErrorKind::Unsupported,
        ErrorKind::ContextLength,
        ErrorKind::ContentFiltered,
        ErrorKind::Authentication,
        ErrorKind::Permission,
        ErrorKind::NotFound,
        ErrorKind::Conflict,
        ErrorKind::RateLimited,
        ErrorKind::QuotaExhausted,
        ErrorKind::Overloaded,
        ErrorKind::Timeout,
        ErrorKind::Unavailable,
    ] {
        let (status, body) = encode_error(&ProviderError::new(kind.clone(), own(), "why"));
        let back = decode_error(&own(), status, &http::HeaderMap::new(), body.to_string().as_bytes());
        assert_eq!((back.kind, back.message.as_str()), (kind, "why"), "{body}");
        assert!(body["error"]["param"].is_null() && body["error"]["code"].is_string());
    }
    for (body, message) in [
        (r#"{"code": "bad", "error": "xAI says no"}"#, "xAI says no"),
        (r#"[{"error": {"message": "in a list"}}]"#, "in a list"),
        ("plain text", "plain text"),
        ("<html><body>Bad gateway</body></html>", "Bad gateway"),
        (r#"{"detail": [{"loc": ["body", "input"], "msg": "missing"}]}"#, "body.input: missing"),
    ] {
        let mut headers = http::HeaderMap::new();
        headers.insert("x-request-id", "req_1".parse().unwrap());
        let error = decode_error(&own(), 400, &headers, body.as_bytes());
        assert_eq!(
            (error.message.as_str(), error.status, error.request_id.as_deref()),
            (message, Some(400), Some("req_1"))
        );
        assert_eq!(error.raw.as_deref(), Some(body));
    }
    // The upstream's own status is kept.
    let mut error = ProviderError::new(ErrorKind::Overloaded, own(), "busy");
    error.status = Some(529);
    assert_eq!(encode_error(&error).0, 529);
}

#[test]
fn rule_11_responses() {
    // Clients read from the message how long to wait.
    let mut error = ProviderError::new(ErrorKind::RateLimited, own(), "Slow down.");
    error.retry_after_ms = Some(1500);
    let list = written(head(None), &[TurnEvent::Failed(Box::new(error.clone()))]);
    let said = &list.last().unwrap()["response"]["error"];
    assert_eq!(*said, json!({"code": "rate_limit_exceeded", "message": "Slow down. Please try again in 1.5s."}));
    let mut out = Vec::new();
    encode_error_event(&error, &mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("event: error\ndata: {\"type\":\"error\"") && text.ends_with("}\n\n"), "{text}");
    let mut decoder = decode_events(&Dialect::new(own()), Names::default());
    let mut events = Vec::new();
    decoder.push(text.as_bytes(), &mut events);
    assert!(
        matches!(events.as_slice(), [TurnEvent::Failed(error)] if error.kind == ErrorKind::RateLimited && error.kind.is_transient())
    );
}
