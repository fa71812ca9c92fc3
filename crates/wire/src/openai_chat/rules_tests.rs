//! The rules that hold for every protocol, and the faults that others had: each is a test under its number.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use crate::answer::events_of;
use crate::request::AnswerHead;
use http::{HeaderMap, HeaderValue};
use placet_core::env::ManualClock;
use placet_core::part::Native;
use placet_core::turn::{CallDelta, TextDelta, TurnFinished, TurnStarted};
use placet_core::*;
use serde_json::{Value, json};
use std::sync::Arc;

fn own() -> ProviderId {
    ProviderId::new("own")
}

fn env() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 3)
}

fn chunk(delta: Value) -> Value {
    json!({
        "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}],
    })
}

fn ended(reason: Value) -> Value {
    json!({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn calls(list: Value) -> Value {
    chunk(json!({ "tool_calls": list }))
}

fn text_of_stream(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

fn events(bytes: &[u8]) -> Vec<TurnEvent> {
    let mut decoder = decode_events(&Dialect::new(own()), Names::default());
    let mut events = Vec::new();
    decoder.push(bytes, &mut events);
    decoder.end(&mut events);
    events
}

fn fold(events: &[TurnEvent]) -> (String, Result<Turn, ProviderError>) {
    let mut accumulator = Accumulator::new();
    events.iter().for_each(|event| accumulator.push(event));
    (accumulator.text(), accumulator.finish(&own(), &env()))
}

fn turn(chunks: &[Value]) -> Turn {
    fold(&events(text_of_stream(chunks).as_bytes())).1.unwrap_or_else(|error| panic!("{error:?}"))
}

fn told(turn: &Turn) -> Vec<(&str, &str, &str)> {
    let calls = turn.calls();
    calls.map(|c| (c.provider_id.as_deref().unwrap_or_default(), c.name.as_str(), c.arguments.as_text())).collect()
}

fn head() -> AnswerHead {
    AnswerHead {
        id: "chatcmpl-1".into(),
        model: "m".into(),
        created: 7,
        provider: own(),
        stream_usage: true,
        request: None,
    }
}

/// What a client reads of these events: the chunks, without the end marker.
fn emitted(head: AnswerHead, events: &[TurnEvent]) -> (Vec<Value>, String) {
    let mut encoder = encode_events(head);
    let mut bytes = Vec::new();
    events.iter().for_each(|event| encoder.push(event, &mut bytes));
    encoder.end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    let chunks = data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect();
    (chunks, text)
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
    TurnEvent::Started(TurnStarted::default())
}

fn finished(stop: StopReason) -> TurnEvent {
    TurnEvent::Finished(TurnFinished::new(stop))
}

fn text(text: &str) -> TurnEvent {
    TurnEvent::Text(TextDelta { index: 0, text: text.into() })
}

#[test]
fn rule_1_chat_bytes_are_cut_anywhere_and_lines_end_anyhow() {
    let stream = text_of_stream(&[
        chunk(json!({"role": "assistant", "content": "größe ☃ 𝄞"})),
        calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"ü\":"}}])),
        calls(json!([{"index": 0, "function": {"arguments": "1}"}}])),
        ended(json!("tool_calls")),
    ]);
    let stream = format!("\u{feff}: hello\nretry: 5\nid: 1\n{stream}data:[DONE]\n\n");
    let whole = events(stream.as_bytes());
    assert!(matches!(whole.last(), Some(TurnEvent::Finished(_))));
    for text in [stream.clone(), stream.replace('\n', "\r\n"), stream.replace('\n', "\r")] {
        for cut in 0..=text.len() {
            let (head, tail) = text.as_bytes().split_at(cut);
            let mut decoder = decode_events(&Dialect::new(own()), Names::default());
            let mut found = Vec::new();
            decoder.push(head, &mut found);
            decoder.push(tail, &mut found);
            decoder.end(&mut found);
            assert_eq!(found, whole, "cut at {cut}");
        }
    }
}

#[test]
fn rule_2_chat_the_name_of_an_event_does_not_matter() {
    let plain = text_of_stream(&[chunk(json!({"content": "a"})), ended(json!("stop"))]);
    let named = plain.replace("data: ", "event: message\ndata: ");
    assert_eq!(events(named.as_bytes()), events(plain.as_bytes()));
}

#[test]
fn rule_3_chat_what_is_unknown_is_kept_and_no_error() {
    let mut odd = chunk(json!({"content": "a", "odd_delta": 1}));
    odd["odd_top"] = json!({"x": 1});
    odd["choices"][0]["odd_choice"] = json!([2]);
    let turn = turn(&[odd, json!({"type": "ping"}), ended(json!("strange_reason"))]);
    assert_eq!((turn.text().as_str(), turn.stop.as_str()), ("a", "strange_reason"));
    let kept = turn.native.unwrap();
    assert_eq!(kept.value["odd_top"], json!({"x": 1}));
    assert_eq!(kept.value["choices"][0], json!({"odd_choice": [2], "message": {"odd_delta": 1}}));
}

#[test]
fn rule_4_chat_a_stream_without_a_finish_reason_is_interrupted() {
    for tail in ["", "data: [DONE]\n\n"] {
        let stream = text_of_stream(&[chunk(json!({"content": "half"}))]) + tail;
        let (partial, result) = fold(&events(stream.as_bytes()));
        let error = result.unwrap_err();
        assert_eq!((partial.as_str(), error.kind.clone()), ("half", ErrorKind::Interrupted));
        assert!(error.kind.is_transient());
    }
}

#[test]
fn rule_5_chat_an_error_midstream_keeps_the_text_and_drops_the_calls() {
    let stream = text_of_stream(&[
        chunk(json!({"content": "half"})),
        calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}])),
        json!({"error": {"message": "gone", "code": 502}}),
        ended(json!("tool_calls")),
    ]);
    let (partial, result) = fold(&events(stream.as_bytes()));
    assert_eq!((partial.as_str(), result.unwrap_err().kind), ("half", ErrorKind::Unavailable));
}

#[test]
fn rule_6_chat_arguments_that_are_none_are_an_empty_object_and_a_cut_turn_stays_cut() {
    for arguments in [json!(""), json!("null"), json!("\"null\""), Value::Null] {
        let piece = json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}]);
        let turn = turn(&[calls(piece), ended(json!("tool_calls"))]);
        let call = turn.calls().next().unwrap();
        assert_eq!((call.arguments.parse().unwrap().len(), call.arguments.replay_text()), (0, "{}"));
    }
    let half = json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"a\": \"ha"}}]);
    assert!(turn(&[calls(half), ended(json!("length"))]).stop.is_cut());
}

#[test]
fn rule_7_chat_usage_is_the_last_of_each_field_and_never_added() {
    let usage = |prompt: Value, completion: Value| json!({"id": "c1", "choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}});
    let turn = turn(&[
        usage(json!(5), json!(1)),
        chunk(json!({"content": "a"})),
        ended(json!("stop")),
        usage(Value::Null, json!(9)),
        json!({"choices": [], "usage": {}}),
    ]);
    let usage = turn.usage.unwrap();
    assert_eq!((usage.input, usage.output), (5, 9));
}

#[test]
fn rule_8_chat_thinking_goes_back_to_its_own_provider_alone() {
    let details = json!([{"type": "reasoning.encrypted", "data": "b64==", "index": 0}]);
    let answer = turn(&[
        chunk(json!({"reasoning": "", "reasoning_details": details})),
        calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}])),
        ended(json!("tool_calls")),
    ]);
    let mut request = TurnRequest { model: "m".into(), items: answer.items.clone(), ..TurnRequest::default() };
    let call = answer.calls().next().unwrap();
    let outcome = Outcome::new(Status::Completed, Stage::Execute, None, "done");
    let result = ToolResult::of(call, outcome);
    request.items.push(Arc::new(Item::new(env().new_id(), Origins::none(), result)));
    let encoded = encode_request(&request, &Dialect::new(own())).unwrap();
    let body: Value = serde_json::from_slice(&encoded.body).unwrap();
    assert_eq!(body["messages"][0]["reasoning_details"], details);
    let other = encode_request(&request, &Dialect::new("other".into())).unwrap();
    assert!(!String::from_utf8_lossy(&other.body).contains("b64=="));
    assert_eq!(other.omitted[0].what, "reasoning");
}

#[test]
fn rule_9_chat_ids_that_are_missing_or_used_again_are_told_apart() {
    let body = json!({"model": "m", "messages": [
        {"role": "assistant", "tool_calls": [{"id": "same", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "same", "content": "one"},
        {"role": "assistant", "tool_calls": [{"id": "same", "function": {"name": "g", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "same", "content": "two"},
    ]});
    let request = decode_request(body.to_string().as_bytes(), &own(), &env()).unwrap().request;
    let results = request.items.iter().filter_map(|item| match &item.body {
        ItemBody::ToolResult(result) => Some((result.tool.as_str(), result.outcome.text())),
        _ => None,
    });
    assert_eq!(results.collect::<Vec<_>>(), [("f", "one".to_owned()), ("g", "two".to_owned())]);
    let encoded: Value = serde_json::from_slice(&encode_request(&request, &Dialect::new(own())).unwrap().body).unwrap();
    assert_ne!(encoded["messages"][1]["tool_call_id"], encoded["messages"][3]["tool_call_id"]);
    // Towards a client every call has an id of its own.
    let (chunks, _) = emitted(
        head(),
        &[
            started(),
            call(1, "", "f", "{}"),
            call(2, "x", "f", "{}"),
            call(3, "x", "f", "{}"),
            finished(StopReason::End),
        ],
    );
    let ids: Vec<&str> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0]["id"].as_str()).collect();
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{ids:?}");
}

#[test]
fn rule_10_chat_errors_are_read_in_every_shape() {
    let mut headers = HeaderMap::new();
    headers.insert("x-request-id", HeaderValue::from_static("req_1"));
    for (body, message) in [
        (r#"{"error":{"message":"no","type":"t","param":null,"code":"c"}}"#, "no"),
        (r#"[{"error":{"message":"no"}}]"#, "no"),
        (r#"{"error":"no"}"#, "no"),
        (r#"{"object":"error","message":"no","code":1}"#, "no"),
        (r#"{"detail":"no"}"#, "no"),
        ("no", "no"),
        ("<html><body>no</body></html>", "no"),
    ] {
        let error = decode_error(&own(), 500, &headers, body.as_bytes());
        assert_eq!((error.message.as_str(), error.status), (message, Some(500)), "{body}");
        assert_eq!((error.request_id.as_deref(), error.raw.as_deref()), (Some("req_1"), Some(body)));
    }
}

#[test]
fn rule_11_chat_what_may_be_tried_again_is_told_from_what_may_not() {
    let kind = |status: u16, code: &str| {
        let body = json!({"error": {"message": "x", "code": code}}).to_string();
        decode_error(&own(), status, &HeaderMap::new(), body.as_bytes()).kind
    };
    for status in [408, 429, 500, 502, 503, 529] {
        assert!(kind(status, "").is_transient(), "{status}");
    }
    for (status, code) in
        [(429, "insufficient_quota"), (400, "context_length_exceeded"), (400, ""), (401, ""), (404, "")]
    {
        assert!(!kind(status, code).is_transient(), "{status} {code}");
    }
}

#[test]
fn row_1_chat_a_call_without_an_index_is_the_only_one() {
    let turn = turn(&[
        calls(json!([{"id": "a", "function": {"name": "f", "arguments": "{\"a\":"}}])),
        calls(json!([{"function": {"arguments": "1}"}}])),
        ended(json!("tool_calls")),
    ]);
    assert_eq!(told(&turn), [("a", "f", "{\"a\":1}")]);
}

#[test]
fn row_2_chat_calls_without_indices_are_told_apart_by_id_and_place() {
    let turn = turn(&[
        calls(
            json!([{"id": "a", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "function": {"name": "g", "arguments": "{\"x\":"}}]),
        ),
        calls(json!([{"id": "b", "function": {"arguments": "2}"}}])),
        ended(json!("tool_calls")),
    ]);
    assert_eq!(told(&turn), [("a", "f", "{}"), ("b", "g", "{\"x\":2}")]);
}

#[test]
fn row_3_chat_one_index_with_two_ids_is_two_calls() {
    let turn = turn(&[
        calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}}])),
        calls(json!([{"index": 0, "id": "b", "function": {"name": "f", "arguments": "{\"x\":2}"}}])),
        ended(json!("tool_calls")),
    ]);
    assert_eq!(told(&turn), [("a", "f", "{\"x\":1}"), ("b", "f", "{\"x\":2}")]);
}

#[test]
fn row_4_chat_interleaved_pieces_go_by_their_index() {
    let turn = turn(&[
        calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}])),
        calls(json!([{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{"}}])),
        calls(json!([{"index": 0, "function": {"arguments": "\"x\":1}"}}])),
        calls(json!([{"index": 1, "function": {"arguments": "\"y\":2}"}}])),
        ended(json!("tool_calls")),
    ]);
    assert_eq!(told(&turn), [("a", "f", "{\"x\":1}"), ("b", "g", "{\"y\":2}")]);
}

/// The indices under which a client hears of calls, in order of their beginnings.
fn indices(chunks: &[Value]) -> Vec<u64> {
    let pieces = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0]);
    pieces.filter(|piece| piece["id"].is_string()).filter_map(|piece| piece["index"].as_u64()).collect()
}

#[test]
fn row_5_chat_every_call_gets_an_index_of_its_own() {
    // Places as another protocol numbers them, with thinking and text between.
    let (chunks, _) = emitted(
        head(),
        &[
            started(),
            call(3, "a", "f", "{}"),
            text("x"),
            call(7, "b", "f", "{}"),
            call(9, "c", "f", "{}"),
            finished(StopReason::ToolCalls),
        ],
    );
    assert_eq!(indices(&chunks), [0, 1, 2]);
}

#[test]
fn row_6_chat_the_counter_is_one_of_the_whole_stream() {
    let answer = turn(&[
        calls(json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}])),
        calls(json!([{"index": 0, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}])),
        ended(json!("tool_calls")),
    ]);
    assert_eq!(told(&answer).len(), 2);
    assert_eq!(indices(&emitted(head(), &events_of(&answer)).0), [0, 1]);
}

#[test]
fn row_7_chat_an_empty_id_or_name_takes_nothing_away() {
    let turn = turn(&[
        calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":"}}])),
        calls(json!([{"index": 0, "id": "", "function": {"name": "", "arguments": "1}"}}])),
        ended(json!("tool_calls")),
    ]);
    assert_eq!(told(&turn), [("a", "f", "{\"x\":1}")]);
}

#[test]
fn row_8_chat_a_name_that_is_empty_later_changes_nothing() {
    let turn = turn(&[
        calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}])),
        calls(json!([{"index": 0, "function": {"name": "", "arguments": "{}"}}])),
        ended(json!("tool_calls")),
    ]);
    assert_eq!(told(&turn), [("a", "f", "{}")]);
}

#[test]
fn row_9_chat_an_empty_piece_of_arguments_is_nothing() {
    let turn = turn(&[
        calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}])),
        calls(json!([{"index": 0, "function": {"arguments": ""}}])),
        calls(json!([{"index": 0, "function": {}}])),
        ended(json!("tool_calls")),
    ]);
    assert_eq!(told(&turn), [("a", "f", "{}")]);
    let (chunks, _) = emitted(
        head(),
        &[
            started(),
            call(1, "a", "f", "{"),
            call(1, "", "", ""),
            call(1, "", "", "}"),
            finished(StopReason::ToolCalls),
        ],
    );
    let pieces =
        chunks.iter().filter_map(|c| c["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str());
    assert_eq!(pieces.collect::<String>(), "{}");
}

#[test]
fn row_12_chat_a_call_without_arguments_is_written_as_an_empty_object() {
    for pieces in [vec![""], vec!["null"], vec!["nu", "ll"], vec![" "], vec!["\"\""], vec!["\"nul", "l\""]] {
        let mut list = vec![started(), call(1, "a", "f", "")];
        list.extend(pieces.iter().map(|piece| call(1, "", "", piece)));
        list.push(finished(StopReason::ToolCalls));
        let (chunks, text) = emitted(head(), &list);
        let written =
            chunks.iter().filter_map(|c| c["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str());
        assert_eq!(written.collect::<String>(), "{}", "{text}");
    }
}

#[test]
fn row_18_chat_no_choices_are_no_fault() {
    let usage = json!({"id": "c1", "model": "m", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}});
    let turn = turn(&[json!({"choices": []}), chunk(json!({"content": "a"})), ended(json!("stop")), usage]);
    assert_eq!((turn.text().as_str(), turn.usage.unwrap().input), ("a", 3));
}

#[test]
fn row_19_chat_a_whole_call_in_one_chunk_with_an_object_is_taken() {
    let piece = json!([{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]);
    let turn = turn(&[calls(piece), ended(json!("stop"))]);
    assert_eq!((told(&turn), turn.stop.as_str()), (vec![("a", "f", "{\"x\":1}")], "tool_calls"));
}

#[test]
fn row_30_chat_the_usage_chunk_has_no_choices_and_comes_once() {
    let usage = |input| TurnEvent::Usage(Usage { input, output: 1, ..Usage::default() });
    let list = [started(), usage(1), text("a"), usage(9), finished(StopReason::End)];
    let (chunks, written) = emitted(head(), &list);
    let (last, others) = chunks.split_last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]["prompt_tokens"]), (&json!([]), &json!(9)));
    assert!(others.iter().all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some()), "{written}");
    assert!(written.ends_with("data: [DONE]\n\n"));
    // Who did not ask for it gets none.
    let (chunks, _) = emitted(AnswerHead { stream_usage: false, ..head() }, &list);
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none() && chunk["choices"] != json!([])));
}

#[test]
fn row_31_chat_usage_after_the_finish_reason_is_read() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 5}}});
    let turn = turn(&[chunk(json!({"content": "a"})), ended(json!("stop")), usage]);
    let usage = turn.usage.unwrap();
    assert_eq!((usage.input, usage.cache_read, usage.cache_write, usage.output), (15, 10, 5, 7));
}

#[test]
fn row_32_chat_the_last_usage_that_says_something_counts() {
    let mut first = chunk(json!({"content": "a"}));
    first["usage"] = json!({"prompt_tokens": 3, "completion_tokens": 1});
    let mut last = ended(json!("stop"));
    last["usage"] = json!({"prompt_tokens": 3, "completion_tokens": 2});
    let turn = turn(&[first, last, json!({"choices": [], "usage": {}})]);
    assert_eq!(turn.usage.unwrap().output, 2);
}

#[test]
fn row_33_chat_an_empty_finish_reason_is_none() {
    let mut first = chunk(json!({"content": "a"}));
    first["choices"][0]["finish_reason"] = "".into();
    assert_eq!(turn(&[first.clone(), ended(json!("stop"))]).text(), "a");
    let (_, result) = fold(&events(text_of_stream(&[first]).as_bytes()));
    assert_eq!(result.unwrap_err().kind, ErrorKind::Interrupted);
}

#[test]
fn row_34_chat_the_prompt_is_all_input_once() {
    let usage = Usage {
        input: 5,
        cache_read: 70,
        cache_write: 20,
        cache_write_long: 5,
        output: 9,
        reasoning: 4,
        ..Usage::default()
    };
    let (chunks, _) = emitted(head(), &[started(), TurnEvent::Usage(usage), finished(StopReason::End)]);
    let form = &chunks.last().unwrap()["usage"];
    assert_eq!((&form["prompt_tokens"], &form["total_tokens"]), (&json!(100), &json!(109)));
    assert_eq!(form["prompt_tokens_details"]["cached_tokens"], 70);
    assert_eq!(form["prompt_tokens_details"]["cache_write_tokens"], 25);
    assert_eq!(form["completion_tokens_details"]["reasoning_tokens"], 4);
}

#[test]
fn row_38_chat_usage_is_always_there() {
    let (chunks, _) = emitted(head(), &[started(), text("a"), finished(StopReason::End)]);
    let usage = &chunks.last().unwrap()["usage"];
    assert!(["prompt_tokens", "completion_tokens", "total_tokens"].iter().all(|key| usage[key].is_u64()));
    let events = events(text_of_stream(&[chunk(json!({"content": "a"})), ended(json!("stop"))]).as_bytes());
    let body = encode_response(&head(), &fold(&events).1.unwrap());
    assert!(body["usage"]["total_tokens"].is_u64());
}

#[test]
fn row_46_chat_an_error_chunk_is_an_error_and_no_end() {
    let stream = text_of_stream(&[
        chunk(json!({"content": "half"})),
        json!({"id": "c1", "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error", "error": {"code": 502, "message": "lost"}}]}),
    ]);
    let (partial, result) = fold(&events(stream.as_bytes()));
    assert_eq!((partial.as_str(), result.unwrap_err().message.as_str()), ("half", "lost"));
    // And so it is told to a client.
    let error = ProviderError::new(ErrorKind::Overloaded, own(), "busy");
    let (chunks, written) = emitted(head(), &[started(), text("half"), TurnEvent::Failed(Box::new(error))]);
    assert_eq!(chunks.last().unwrap()["error"]["message"], "busy");
    assert!(!written.contains("[DONE]") && !written.contains("\"finish_reason\":\"stop\""));
    let (chunks, _) = emitted(head(), &[started(), text("half")]);
    assert!(chunks.last().unwrap()["error"]["message"].as_str().unwrap().contains("partial"));
}

#[test]
fn row_61_chat_a_character_that_is_split_over_pieces_is_whole() {
    let stream = text_of_stream(&[chunk(json!({"content": "日本語 𝄞 é"})), ended(json!("stop"))]);
    let mut decoder = decode_events(&Dialect::new(own()), Names::default());
    let mut found = Vec::new();
    stream.as_bytes().iter().for_each(|byte| decoder.push(&[*byte], &mut found));
    decoder.end(&mut found);
    assert_eq!(fold(&found).0, "日本語 𝄞 é");
}

#[test]
fn row_62_chat_a_truncated_call_is_told_by_its_arguments_whatever_the_end_says() {
    const CUT: &str = "{\"a\": \"ha";
    let call = |id: &str, arguments: &str| json!({"id": id, "function": {"name": "f", "arguments": arguments}});
    for reason in ["tool_calls", "stop", "length"] {
        let streamed = [
            calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"a\": "}}])),
            calls(json!([{"index": 0, "function": {"arguments": "\"ha"}}])),
            calls(json!([{"index": 1, "id": "b", "function": {"name": "f", "arguments": "{\"a\": 1}"}}])),
            ended(json!(reason)),
        ];
        let whole = json!({"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": reason, "message":
            {"role": "assistant", "content": null, "tool_calls": [call("a", CUT), call("b", "{\"a\": 1}")]}}]});
        let events = super::decode_response(&"openai".into(), Names::default(), whole.to_string().as_bytes()).unwrap();
        let mut fold = placet_core::Accumulator::new();
        events.iter().for_each(|event| fold.push(event));
        let env = placet_core::Env::deterministic(
            placet_core::env::ManualClock::new(placet_core::Timestamp::from_millis(1)),
            1,
        );
        for turn in [turn(&streamed), fold.finish(&"openai".into(), &env).unwrap()] {
            let arguments: Vec<_> = turn.calls().map(|call| call.arguments.clone()).collect();
            assert_eq!(arguments.len(), 2, "{reason}");
            // As the model wrote it, and known to be cut; the one beside it is whole.
            assert_eq!(arguments[0].as_text(), CUT, "{reason}");
            let problem = arguments[0].parse().unwrap_err();
            assert!(matches!(problem, placet_core::tool::MalformedArguments::NotJson { incomplete: true, .. }));
            arguments[1].parse().expect("whole arguments");
            // Nor is it made whole for a client.
            let told = super::encode_response(&head(), &turn);
            let told = &told["choices"][0]["message"]["tool_calls"];
            assert_eq!(told[0]["function"]["arguments"], CUT, "{reason}");
            assert_eq!(told[1]["function"]["arguments"], "{\"a\": 1}", "{reason}");
        }
    }
}

#[test]
fn row_63_chat_a_cut_answer_with_a_call_is_a_cut_to_the_client() {
    let list = [started(), call(1, "a", "f", "{\"x\": \"ha"), finished(StopReason::MaxTokens)];
    let (chunks, written) = emitted(head(), &list);
    let reasons: Vec<&str> = chunks.iter().filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons, ["length"], "{written}");
    assert!(!written.contains("{}\""), "nothing is made up to end it: {written}");
}

#[test]
fn row_64_chat_fragments_of_a_detail_are_one() {
    let piece = |data: &str| json!([{"type": "reasoning.text", "index": 0, "text": data}]);
    let turn = turn(&[
        chunk(json!({"reasoning_details": piece("a")})),
        chunk(json!({"reasoning_details": piece("b")})),
        ended(json!("stop")),
    ]);
    let ItemBody::Reasoning(reasoning) = &turn.items[0].body else { panic!("thinking") };
    let details = &reasoning.native.as_ref().unwrap().value["details"];
    assert_eq!(details, &json!([{"type": "reasoning.text", "index": 0, "text": "ab"}]));
}

#[test]
fn row_65_chat_a_plain_stop_with_calls_is_a_tool_turn() {
    let turn = turn(&[
        chunk(json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]})),
        calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}])),
        ended(json!("stop")),
    ]);
    assert_eq!(turn.stop, StopReason::ToolCalls);
}

#[test]
fn row_66_chat_encrypted_thinking_of_another_protocol_survives_the_hop() {
    let native = Native { provider: "xai".into(), value: json!({"encrypted_content": "abc=="}) };
    let list = [
        started(),
        TurnEvent::ReasoningState(turn::ReasoningState { index: 0, native: native.clone() }),
        call(1, "a", "f", "{}"),
        finished(StopReason::ToolCalls),
    ];
    let body = encode_response(&head(), &fold(&list).1.unwrap());
    let messages = json!([body["choices"][0]["message"], {"role": "tool", "tool_call_id": "a", "content": "x"}]);
    let request = json!({"model": "m", "messages": messages}).to_string();
    let request = decode_request(request.as_bytes(), &own(), &env()).unwrap().request;
    let ItemBody::Reasoning(reasoning) = &request.items[0].body else { panic!("thinking") };
    assert_eq!(reasoning.native.as_ref(), Some(&native));
}

#[test]
fn row_67_chat_calls_with_an_empty_finish_reason_and_an_end_marker_are_a_tool_turn() {
    let mut last = calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]));
    last["choices"][0]["finish_reason"] = "".into();
    let done =
        |chunk: &Value| fold(&events((text_of_stream(std::slice::from_ref(chunk)) + "data: [DONE]\n\n").as_bytes())).1;
    assert_eq!(done(&last).unwrap().stop, StopReason::ToolCalls);
    let mut half = last.clone();
    half["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] = "{\"a".into();
    assert_eq!(done(&half).unwrap_err().kind, ErrorKind::Interrupted);
    last["choices"][0]["message"] = last["choices"][0]["delta"].take();
    let events = decode_response(&own(), Names::default(), last.to_string().as_bytes()).unwrap();
    assert_eq!(fold(&events).1.unwrap().stop, StopReason::ToolCalls);
}

#[test]
fn row_68_chat_thinking_is_read_from_either_field() {
    for field in ["reasoning", "reasoning_content"] {
        let turn = turn(&[chunk(json!({field: "hm"})), chunk(json!({"content": "a"})), ended(json!("stop"))]);
        let ItemBody::Reasoning(reasoning) = &turn.items[0].body else { panic!("thinking") };
        assert_eq!((reasoning.text.as_str(), turn.text().as_str()), ("hm", "a"));
    }
}

#[test]
fn row_69_chat_a_usage_chunk_without_choices_is_legal_wherever_it_stands() {
    for choices in [json!([]), Value::Null] {
        let usage = json!({"object": "text_completion", "choices": choices,
            "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
        for place in 0..=3 {
            let mut chunks = vec![chunk(json!({"content": "a"})), chunk(json!({"content": "b"})), ended(json!("stop"))];
            chunks.insert(place, usage.clone());
            let turn = turn(&chunks);
            let usage = turn.usage.unwrap();
            assert_eq!((turn.text().as_str(), &turn.stop), ("ab", &StopReason::End), "at {place}");
            assert_eq!((usage.input, usage.output), (1, 2), "at {place}");
        }
    }
}

/// What a client can rely on, event by event.
#[test]
fn what_is_emitted_has_what_clients_require() {
    let list = [
        started(),
        TurnEvent::Reasoning(TextDelta { index: 0, text: "hm".into() }),
        text("a"),
        call(1, "x", "f", "{\"a\":1}"),
        TurnEvent::Usage(Usage::default()),
        finished(StopReason::End),
    ];
    let (chunks, written) = emitted(head(), &list);
    for chunk in &chunks {
        assert_eq!(chunk["id"], "chatcmpl-1");
        assert_eq!(
            (&chunk["object"], &chunk["created"], &chunk["model"]),
            (&json!("chat.completion.chunk"), &json!(7), &json!("m"))
        );
    }
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let first = chunks.iter().find(|chunk| chunk["choices"][0]["delta"].get("tool_calls").is_some()).unwrap();
    assert_eq!(
        first["choices"][0]["delta"]["tool_calls"][0],
        json!({"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": ""}})
    );
    let reasons: Vec<&str> = chunks.iter().filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons, ["tool_calls"]);
    assert!(written.ends_with("data: [DONE]\n\n"));
    let body = encode_response(&head(), &fold(&list).1.unwrap());
    for key in ["id", "choices", "created", "model", "object", "usage"] {
        assert!(body.get(key).is_some(), "{key}");
    }
    let message = &body["choices"][0]["message"];
    assert_eq!((&message["role"], &body["object"]), (&json!("assistant"), &json!("chat.completion")));
    assert!(message["refusal"].is_null() && message.get("content").is_some());
}
