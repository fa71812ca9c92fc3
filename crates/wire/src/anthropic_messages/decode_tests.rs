#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use placet_core::env::ManualClock;
use placet_core::item::Reasoning;
use placet_core::part::Part;
use placet_core::{Accumulator, Env, ErrorKind, ItemBody, ProviderError, StopReason, Timestamp, Turn, TurnEvent};
use serde_json::{Value, json};

pub(super) fn own() -> ProviderId {
    ProviderId::new("own")
}

pub(super) fn env() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1)
}

/// Events as a server writes them.
pub(super) fn sse(events: &[Value]) -> String {
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message"));
    events.iter().map(event).collect()
}

pub(super) fn start(usage: Value) -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    }})
}

pub(super) fn block(index: u64, block: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![json!({"type": "content_block_start", "index": index, "content_block": block})];
    let delta = |delta: &Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    events.extend(deltas.iter().map(delta));
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

pub(super) fn text_delta(text: &str) -> Value {
    json!({"type": "text_delta", "text": text})
}

fn input(text: &str) -> Value {
    json!({"type": "input_json_delta", "partial_json": text})
}

pub(super) fn stop(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ]
}

/// An answer of these blocks.
fn answer(blocks: Vec<Vec<Value>>, reason: &str) -> Vec<Value> {
    let mut events = vec![start(json!({"input_tokens": 5, "output_tokens": 1}))];
    events.extend(blocks.into_iter().flatten());
    events.extend(stop(reason));
    events
}

pub(super) fn read(bytes: &[u8]) -> Vec<TurnEvent> {
    let mut decoder = decode_events(&Dialect::new(own()), Names::default());
    let mut events = Vec::new();
    decoder.push(bytes, &mut events);
    decoder.end(&mut events);
    events
}

pub(super) fn fold(events: &[TurnEvent]) -> Result<Turn, ProviderError> {
    let mut accumulator = Accumulator::new();
    events.iter().for_each(|event| accumulator.push(event));
    accumulator.finish(&own(), &env())
}

fn turn(events: &[Value]) -> Turn {
    fold(&read(sse(events).as_bytes())).expect("a whole answer")
}

fn whole(content: Value, reason: &str) -> Turn {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": content,
        "stop_reason": reason, "stop_sequence": null, "usage": {"input_tokens": 5, "output_tokens": 7},
    });
    fold(&decode_response(&own(), Names::default(), body.to_string().as_bytes()).unwrap()).unwrap()
}

fn failure(events: &[Value]) -> ProviderError {
    fold(&read(sse(events).as_bytes())).expect_err("an answer that broke off")
}

fn bodies(turn: &Turn) -> Vec<&ItemBody> {
    turn.items.iter().map(|item| &item.body).collect()
}

fn native(value: Value) -> Native {
    Native { provider: own(), value }
}

use placet_core::part::Native;

fn said_so_far(events: &[Value]) -> String {
    let mut accumulator = Accumulator::new();
    read(sse(events).as_bytes()).iter().for_each(|event| accumulator.push(event));
    accumulator.text()
}

/// An answer in which everything occurs.
fn everything() -> Vec<Value> {
    let thinking = json!({"type": "thinking", "thinking": "", "signature": ""});
    let mut events = answer(
        vec![
            block(
                0,
                thinking,
                &[
                    json!({"type": "thinking_delta", "thinking": "Hm… ", "estimated_tokens": 3}),
                    json!({"type": "thinking_delta", "thinking": "grüß 😀"}),
                    json!({"type": "signature_delta", "signature": "c2ln"}),
                ],
            ),
            block(
                1,
                json!({"type": "text", "text": "", "citations": null}),
                &[
                    text_delta("Zürich ✓"),
                    json!({"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "Zürich"}}),
                ],
            ),
            block(
                2,
                json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
                &[input(""), input("{\"query\": \"Zür"), input("ich\"}")],
            ),
            block(3, json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}), &[]),
            block(
                4,
                json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}, "caller": {"type": "direct"}}),
                &[input("{\"path\": \"a"), input("\\n😀\"}")],
            ),
            block(5, json!({"type": "hologram", "payload": "x"}), &[json!({"type": "hologram_delta", "bit": "y"})]),
        ],
        "tool_use",
    );
    events.insert(2, json!({"type": "ping"}));
    events.insert(5, json!({"type": "new_event_2027", "foo": 1}));
    events
}

#[test]
fn rule_1_anthropic() {
    let decode = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut decoder = decode_events(&Dialect::new(own()), Names::default());
        let mut events = Vec::new();
        pieces.for_each(|piece| decoder.push(piece, &mut events));
        decoder.end(&mut events);
        events
    };
    let text = sse(&everything());
    let expected = read(text.as_bytes());
    assert!(matches!(expected.last(), Some(TurnEvent::Finished(_))), "{expected:?}");
    for text in [text.replace('\n', "\r"), text.replace("data: ", "data:"), format!("\u{feff}{text}")] {
        assert_eq!(read(text.as_bytes()), expected);
    }
    for text in [text.clone(), text.replace('\n', "\r\n")] {
        for size in 1..40 {
            assert_eq!(decode(&mut text.as_bytes().chunks(size)), expected, "in pieces of {size}");
        }
    }
    // Cut at every offset, with everything that can be cut once.
    let short = [
        vec![start(json!({}))],
        block(
            0,
            json!({"type": "thinking", "thinking": ""}),
            &[json!({"type": "signature_delta", "signature": "c2ln"})],
        ),
        block(1, json!({"type": "tool_use", "id": "t", "name": "f"}), &[input("{\"a\":\"ü😀\"}")]),
        block(2, json!({"type": "text", "text": ""}), &[text_delta("Zürich ✓")]),
        stop("tool_use"),
    ];
    let text = sse(&short.concat());
    let expected = read(text.as_bytes());
    for text in [text.clone(), text.replace('\n', "\r\n")] {
        for cut in 0..=text.len() {
            let (head, tail) = text.as_bytes().split_at(cut);
            assert_eq!(decode(&mut [head, tail].into_iter()), expected, "cut at {cut}");
        }
    }
}

#[test]
fn row_61_anthropic() {
    // Characters of several bytes, one byte at a time.
    let text = sse(&everything());
    let mut decoder = decode_events(&Dialect::new(own()), Names::default());
    let mut events = Vec::new();
    text.as_bytes().chunks(1).for_each(|byte| decoder.push(byte, &mut events));
    decoder.end(&mut events);
    assert_eq!(fold(&events).unwrap().text(), "Zürich ✓");
}

#[test]
fn rule_2_anthropic() {
    let expected = read(sse(&everything()).as_bytes());
    // Without names, with wrong names, and with names only.
    let lines = |event: &Value| format!("data: {event}\n\n");
    let nameless: String = everything().iter().map(lines).collect();
    assert_eq!(read(nameless.as_bytes()), expected);
    let misnamed: String = everything().iter().map(|event| format!("event: message\n{}", lines(event))).collect();
    assert_eq!(read(misnamed.as_bytes()), expected);
    let typeless = everything().into_iter().map(|mut event| {
        let kind = event.as_object_mut().unwrap().remove("type").unwrap();
        format!("event: {}\n{}", kind.as_str().unwrap(), lines(&event))
    });
    let events = read(typeless.collect::<String>().as_bytes());
    assert_eq!(fold(&events).unwrap().text(), "Zürich ✓");
}

#[test]
fn rule_3_anthropic() {
    let turn = turn(&everything());
    assert_eq!(turn.stop, StopReason::ToolCalls);
    let hologram = json!({"type": "hologram", "payload": "x", "bit": "y"});
    assert_eq!(turn.items.last().unwrap().body, ItemBody::Native(native(hologram)));
    // Events that nobody knows are kept with the end.
    let kept = &turn.native.as_ref().unwrap().value["events"];
    assert_eq!(*kept, json!([{"type": "new_event_2027", "foo": 1}]));
    // So are words for the end.
    let odd = answer(vec![block(0, json!({"type": "text", "text": "a"}), &[])], "bored");
    assert_eq!(self::turn(&odd).stop, StopReason::Other("bored".to_owned()));
    // And deltas that nobody knows.
    let odd = answer(
        vec![block(0, json!({"type": "text", "text": "a"}), &[json!({"type": "mood_delta", "mood": "good"})])],
        "end_turn",
    );
    let turn = self::turn(&odd);
    assert_eq!(turn.text(), "a");
    assert_eq!(turn.native.unwrap().value["events"][0]["delta"], json!({"type": "mood_delta", "mood": "good"}));
}

#[test]
fn rule_4_anthropic() {
    let all = answer(vec![block(0, json!({"type": "text", "text": ""}), &[text_delta("Half a sen")])], "end_turn");
    // Without the stop reason it was interrupted, with it the last marker may be missing.
    let error = failure(&all[..4]);
    assert_eq!(error.kind, ErrorKind::Interrupted);
    assert!(error.kind.is_transient());
    assert_eq!(said_so_far(&all[..4]), "Half a sen");
    assert_eq!(turn(&all[..5]).stop, StopReason::End);
    assert_eq!(failure(&[]).message, "the answer is empty; what arrived is partial");
    // Some copies give no stop reason, but the last marker.
    let mut unsaid = all.clone();
    unsaid.remove(4);
    assert_eq!(turn(&unsaid).stop, StopReason::End);
    // An event that broke off in its middle is not read at all.
    let text = sse(&all);
    let events = read(&text.as_bytes()[..text.len() - 20]);
    assert_eq!(fold(&events).unwrap().text(), "Half a sen");
}

#[test]
fn rule_5_and_row_44_and_45_anthropic() {
    let mut events = answer(
        vec![
            block(0, json!({"type": "text", "text": ""}), &[text_delta("The answer is")]),
            block(1, json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}), &[]),
        ],
        "end_turn",
    );
    events.truncate(6);
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"});
    events.push(error);
    events.extend(stop("end_turn"));
    let read = read(sse(&events).as_bytes());
    let Some(TurnEvent::Failed(error)) = read.last() else { panic!("{read:?}") };
    assert_eq!((error.kind.clone(), error.code.as_deref()), (ErrorKind::Overloaded, Some("overloaded_error")));
    assert_eq!((error.message.as_str(), error.request_id.as_deref()), ("Overloaded", Some("req_1")));
    assert!(error.kind.is_transient());
    assert_eq!(said_so_far(&events), "The answer is");
    // What something in between says in another protocol's words.
    let foreign = sse(&[start(json!({})), json!({"error": {"message": "too many", "type": "rate_limit_error"}})]);
    assert_eq!(fold(&self::read(foreign.as_bytes())).unwrap_err().kind, ErrorKind::RateLimited);
}

#[test]
fn row_44_anthropic() {
    rule_5_and_row_44_and_45_anthropic();
}

#[test]
fn row_45_anthropic() {
    // A status of 200 is never that of an error.
    let body = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let error = decode_response(&own(), Names::default(), body.to_string().as_bytes()).unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::Overloaded, None));
}

#[test]
fn rule_5_anthropic() {
    rule_5_and_row_44_and_45_anthropic();
}

#[test]
fn rule_6_and_tricky_4_c() {
    for deltas in [vec![], vec![input("")], vec![input(""), input("")]] {
        let call = block(0, json!({"type": "tool_use", "id": "toolu_1", "name": "ping", "input": {}}), &deltas);
        let turn = turn(&answer(vec![call], "tool_use"));
        let call = turn.calls().next().unwrap();
        assert_eq!(call.arguments.as_text(), "{}");
        assert_eq!(call.provider_id.as_deref(), Some("toolu_1"));
    }
}

#[test]
fn tricky_4_c() {
    rule_6_and_tricky_4_c();
}

#[test]
fn row_10_anthropic() {
    rule_6_and_tricky_4_c();
    // And in an answer that comes whole.
    for input in [json!({}), Value::Null] {
        let turn = whole(json!([{"type": "tool_use", "id": "toolu_1", "name": "ping", "input": input}]), "tool_use");
        assert_eq!(turn.calls().next().unwrap().arguments.parse(), Ok(serde_json::Map::new()));
    }
}

#[test]
fn row_12_anthropic() {
    // Whatever protocol it goes out in, a call without arguments has the arguments `{}`.
    let call = block(0, json!({"type": "tool_use", "id": "toolu_1", "name": "ping", "input": {}}), &[input("")]);
    let events = read(sse(&answer(vec![call], "tool_use")).as_bytes());
    let pieces = events.iter().filter_map(|event| match event {
        TurnEvent::Call(delta) => Some(delta.arguments.as_str()),
        _ => None,
    });
    assert_eq!(pieces.collect::<String>(), "{}");
}

#[test]
fn rule_6_anthropic() {
    let call = block(
        0,
        json!({"type": "tool_use", "id": "toolu_5", "name": "write", "input": {}}),
        &[input("{\"path\":\"a\",\"content\":\"lor")],
    );
    let turn = turn(&answer(vec![call.clone()], "max_tokens"));
    assert!(turn.stop.is_cut(), "its calls are not to be run");
    let cut = turn.calls().next().unwrap();
    assert!(cut.arguments.parse().is_err());
    // A full window is a cut as well.
    let turn = self::turn(&answer(vec![call], "model_context_window_exceeded"));
    assert!(turn.stop.is_cut());
    assert_eq!(turn.native.unwrap().value["stop_reason"], "model_context_window_exceeded");
}

#[test]
fn row_63_anthropic() {
    rule_6_anthropic();
}

#[test]
fn rule_7_and_tricky_4_e() {
    let begun = json!({
        "input_tokens": 50, "cache_creation_input_tokens": 120, "cache_read_input_tokens": 2400, "output_tokens": 1,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 20},
        "service_tier": "standard", "inference_geo": "global",
    });
    let ended = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {
        "input_tokens": 50, "cache_creation_input_tokens": 120, "cache_read_input_tokens": 2400, "output_tokens": 9,
        "output_tokens_details": {"thinking_tokens": 4}, "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
        "iterations": [{"type": "message"}],
    }});
    let turn = turn(&[start(begun.clone()), ended, json!({"type": "message_stop"})]);
    let usage = turn.usage.unwrap();
    assert_eq!((usage.input, usage.cache_read), (50, 2400));
    assert_eq!((usage.cache_write, usage.cache_write_long), (100, 20));
    assert_eq!((usage.output, usage.reasoning, usage.searches), (9, 4, 2));
    assert_eq!(usage.total_input(), 2570);
    assert_eq!(turn.service_tier.as_deref(), Some("standard"));
    let beyond = &turn.native.unwrap().value["usage"];
    assert_eq!(beyond["iterations"], json!([{"type": "message"}]));
    assert_eq!(beyond["server_tool_use"]["web_fetch_requests"], 1);
    // What the end does not repeat stays as it was at the beginning.
    let ended = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}});
    let usage = self::turn(&[start(begun), ended]).usage.unwrap();
    assert_eq!((usage.total_input(), usage.output), (2570, 7));
}

#[test]
fn tricky_4_e() {
    rule_7_and_tricky_4_e();
}

#[test]
fn rule_7_anthropic() {
    rule_7_and_tricky_4_e();
}

#[test]
fn row_34_anthropic() {
    rule_7_and_tricky_4_e();
}

#[test]
fn row_35_anthropic() {
    rule_7_and_tricky_4_e();
}

#[test]
pub(super) fn tricky_4_a_is_kept() {
    let hidden = block(
        0,
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        &[json!({"type": "signature_delta", "signature": "c2lnLXN5bg=="})],
    );
    let call = block(1, json!({"type": "tool_use", "id": "toolu_4", "name": "f", "input": {}}), &[]);
    let turn = turn(&answer(vec![hidden, call], "tool_use"));
    let signed = Reasoning { text: String::new(), native: Some(native(json!({"signature": "c2lnLXN5bg=="}))) };
    assert_eq!(*bodies(&turn)[0], ItemBody::Reasoning(signed));
    assert!(matches!(bodies(&turn)[1], ItemBody::ToolCall(_)));
}

#[test]
pub(super) fn tricky_4_b_each_thinking_has_its_own_signature() {
    let content = json!([
        {"type": "thinking", "thinking": "One.", "signature": "c2lnMQ=="},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "thinking", "thinking": "Two.", "signature": "c2lnMg=="},
        {"type": "text", "text": "Done."},
    ]);
    let streamed = answer(
        vec![
            block(
                0,
                json!({"type": "thinking", "thinking": ""}),
                &[
                    json!({"type": "thinking_delta", "thinking": "One."}),
                    json!({"type": "signature_delta", "signature": "c2lnMQ=="}),
                ],
            ),
            block(1, json!({"type": "redacted_thinking", "data": "aGlkZGVu"}), &[]),
            block(2, json!({"type": "thinking", "thinking": "Two.", "signature": "c2lnMg=="}), &[]),
            block(3, json!({"type": "text", "text": "Done."}), &[]),
        ],
        "end_turn",
    );
    for turn in [whole(content, "end_turn"), turn(&streamed)] {
        let thoughts: Vec<_> = turn
            .items
            .iter()
            .filter_map(|item| match &item.body {
                ItemBody::Reasoning(reasoning) => {
                    Some((reasoning.text.as_str(), reasoning.native.as_ref()?.value.clone()))
                }
                _ => None,
            })
            .collect();
        let expected = [
            ("One.", json!({"signature": "c2lnMQ=="})),
            ("", json!({"type": "redacted_thinking", "data": "aGlkZGVu"})),
            ("Two.", json!({"signature": "c2lnMg=="})),
        ];
        assert_eq!(thoughts, expected);
        assert_eq!(turn.text(), "Done.");
    }
}

#[test]
fn row_41_anthropic() {
    tricky_4_b_each_thinking_has_its_own_signature();
}

#[test]
fn row_39_anthropic() {
    tricky_4_a_is_kept();
}

#[test]
pub(super) fn tricky_4_d_input_of_hosted_tools_is_kept() {
    let turn = turn(&everything());
    let hosted: Vec<_> = turn
        .items
        .iter()
        .filter_map(|item| match &item.body {
            ItemBody::HostedCall(call) => Some(&call.value),
            _ => None,
        })
        .collect();
    assert_eq!(hosted[0]["input"], json!({"query": "Zürich"}));
    assert_eq!(hosted[1]["type"], "web_search_tool_result");
    assert_eq!(turn.calls().count(), 1, "a hosted call is none of ours");
    let mcp = json!({"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "ask", "server_name": "wiki", "input": {}});
    let turn = self::turn(&answer(vec![block(0, mcp, &[input("{\"q\":1}")])], "end_turn"));
    let ItemBody::HostedCall(call) = bodies(&turn)[0] else { panic!("{turn:?}") };
    assert_eq!((call.kind.as_str(), &call.value["input"]), ("mcp_tool_use", &json!({"q": 1})));
}

#[test]
pub(super) fn tricky_4_f_a_pause_is_told() {
    let hosted = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let turn = turn(&answer(vec![block(0, hosted, &[input("{\"query\":\"a\"}")])], "pause_turn"));
    assert_eq!(turn.stop, StopReason::Pause);
    assert_eq!(self::turn(&answer(vec![], "compaction")).stop, StopReason::Pause);
}

#[test]
fn tricky_4_h() {
    // Nothing after a tool's result is an answer all the same.
    let turn = turn(&answer(vec![], "end_turn"));
    assert_eq!((turn.stop.clone(), turn.items.len()), (StopReason::End, 0));
    let turn = self::turn(&answer(vec![block(0, json!({"type": "text", "text": ""}), &[])], "end_turn"));
    assert_eq!(turn.items.len(), 0, "an empty text is none");
    assert!(whole(json!([]), "end_turn").items.is_empty());
}

#[test]
fn tricky_4_i() {
    for begun in
        [json!({"type": "text", "text": "", "citations": null}), json!({"type": "text", "text": "", "citations": []})]
    {
        let citations =
            [json!({"type": "page_location", "cited_text": "a"}), json!({"type": "page_location", "cited_text": "b"})];
        let deltas: Vec<Value> = std::iter::once(text_delta("So."))
            .chain(citations.iter().map(|citation| json!({"type": "citations_delta", "citation": citation})))
            .collect();
        let turn = turn(&answer(vec![block(0, begun.clone(), &deltas)], "end_turn"));
        let ItemBody::Message(message) = bodies(&turn)[0] else { panic!("{turn:?}") };
        let Part::Text(text) = &message.parts[0] else { panic!("{message:?}") };
        assert_eq!(text.native, Some(native(json!({"citations": citations}))));
        let plain = self::turn(&answer(vec![block(0, begun, &[text_delta("So.")])], "end_turn"));
        let ItemBody::Message(message) = bodies(&plain)[0] else { panic!("{plain:?}") };
        assert_eq!(message.parts, [Part::text("So.")]);
    }
}

#[test]
fn tricky_4_j() {
    let details =
        json!({"type": "refusal", "category": "cyber", "explanation": "No.", "recommended_model": "claude-y"});
    let ended = json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_sequence": null, "stop_details": details}, "usage": {"output_tokens": 5}});
    let turn = turn(&[start(json!({"input_tokens": 18, "output_tokens": 1})), ended, json!({"type": "message_stop"})]);
    assert_eq!((turn.stop, turn.items.len()), (StopReason::Refusal, 0));
    assert_eq!(turn.native.unwrap().value["stop_details"], details);
}

#[test]
fn the_stop_text_the_container_and_what_was_edited_are_kept() {
    let container = json!({"id": "container_1", "expires_at": "2026-07-30T18:54:08Z"});
    let ended = json!({
        "type": "message_delta",
        "delta": {"stop_reason": "stop_sequence", "stop_sequence": "END", "container": container},
        "usage": {"output_tokens": 5}, "context_management": {"applied_edits": []},
    });
    let turn = turn(&[start(json!({})), ended, json!({"type": "message_stop"})]);
    assert_eq!(turn.stop, StopReason::StopSequence);
    let kept = turn.native.unwrap().value;
    assert_eq!((&kept["stop_sequence"], &kept["container"]), (&json!("END"), &container));
    assert_eq!(kept["context_management"], json!({"applied_edits": []}));
    assert_eq!(turn.provider_state.unwrap().value, json!({"container": "container_1"}));
}

#[test]
fn rule_9_anthropic() {
    let call = |index| block(index, json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}), &[]);
    let turn = turn(&answer(vec![call(0), call(1)], "tool_use"));
    let ids: std::collections::BTreeSet<_> = turn.calls().map(|call| call.id.clone()).collect();
    assert_eq!(ids.len(), 2, "two calls, though the provider calls both the same");
}

#[test]
fn rule_10_anthropic() {
    let mut headers = http::HeaderMap::new();
    headers.insert("request-id", "req_1".parse().unwrap());
    let body =
        json!({"type": "error", "error": {"type": "not_found_error", "message": "model: x"}, "request_id": "req_1"});
    let error = decode_error(&own(), 404, &headers, body.to_string().as_bytes());
    assert_eq!(
        (error.kind, error.status, error.request_id.as_deref()),
        (ErrorKind::NotFound, Some(404), Some("req_1"))
    );
    assert_eq!((error.message.as_str(), error.code.as_deref()), ("model: x", Some("not_found_error")));
    let error = decode_error(&own(), 502, &headers, b"<html><h1>Bad Gateway</h1></html>");
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Unavailable, "Bad Gateway"));
}

#[test]
fn rule_11_anthropic() {
    let kinds = [
        (400, "invalid_request_error", ErrorKind::InvalidRequest, false),
        (401, "authentication_error", ErrorKind::Authentication, false),
        (402, "billing_error", ErrorKind::QuotaExhausted, false),
        (403, "permission_error", ErrorKind::Permission, false),
        (404, "not_found_error", ErrorKind::NotFound, false),
        (413, "request_too_large", ErrorKind::InvalidRequest, false),
        (429, "rate_limit_error", ErrorKind::RateLimited, true),
        (500, "api_error", ErrorKind::Unavailable, true),
        (504, "timeout_error", ErrorKind::Timeout, true),
        (529, "overloaded_error", ErrorKind::Overloaded, true),
    ];
    for (status, kind, ours, is_transient) in kinds {
        let body = json!({"type": "error", "error": {"type": kind, "message": "m"}}).to_string();
        let error = decode_error(&own(), status, &http::HeaderMap::new(), body.as_bytes());
        assert_eq!((error.kind.clone(), error.kind.is_transient()), (ours, is_transient), "{kind}");
    }
    let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}});
    let error = decode_error(&own(), 400, &http::HeaderMap::new(), body.to_string().as_bytes());
    assert_eq!(error.kind, ErrorKind::ContextLength);
}

#[test]
fn a_second_beginning_is_passed_over_before_the_first_block_and_breaks_the_answer_after_it() {
    let mut events = answer(vec![block(0, json!({"type": "text", "text": ""}), &[text_delta("once")])], "end_turn");
    events.insert(1, events[0].clone());
    assert_eq!(turn(&events).text(), "once");
    let again = events[0].clone();
    events.insert(5, again);
    let error = failure(&events);
    assert_eq!(error.kind, ErrorKind::Interrupted);
}

#[test]
fn what_gateways_leave_out_does_no_harm() {
    // No end of a block, no beginning of one, two blocks at one index.
    let events = vec![
        start(json!({})),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t2", "name": "g", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"y\":2}"}}),
        json!({"type": "message_stop"}),
    ];
    let mut text = sse(&events);
    text.push_str("data: [DONE]\n\n");
    let turn = fold(&read(text.as_bytes())).unwrap();
    assert_eq!(turn.text(), "a");
    let calls: Vec<_> =
        turn.calls().map(|call| (call.provider_id.as_deref().unwrap(), call.arguments.as_text())).collect();
    assert_eq!(calls, [("t1", "{\"x\":1}"), ("t2", "{\"y\":2}")]);
    assert_eq!(turn.stop, StopReason::ToolCalls);
}

#[test]
fn row_21_anthropic() {
    let mut events = everything();
    for place in (1..events.len()).rev() {
        events.insert(place, json!({"type": "ping"}));
    }
    let text = sse(&events).replace("\n\n", "\n\n: keepalive\n\n");
    assert_eq!(fold(&read(text.as_bytes())).unwrap().text(), "Zürich ✓");
}

#[test]
fn names_that_went_out_under_an_alias_come_back() {
    let tools = ["mcp:crm.lookup".into()];
    let names = Names::within(128, &tools);
    let alias = crate::names::alias_within(128, "mcp:crm.lookup").into_owned();
    let call = block(0, json!({"type": "tool_use", "id": "toolu_1", "name": alias, "input": {}}), &[]);
    let mut decoder = decode_events(&Dialect::new(own()), names);
    let mut events = Vec::new();
    decoder.push(sse(&answer(vec![call], "tool_use")).as_bytes(), &mut events);
    decoder.end(&mut events);
    assert!(decoder.is_whole() && decoder.is_done());
    assert_eq!(fold(&events).unwrap().calls().next().unwrap().name.as_str(), "mcp:crm.lookup");
}

#[test]
fn what_is_no_answer_is_an_error() {
    for body in ["", "<html>", "[]", "1", "{}", "{\"type\":\"message\"}"] {
        let error = decode_response(&own(), Names::default(), body.as_bytes()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{body}");
    }
    let error = fold(&read(b"data: {broken}\n\ndata: {}\n\n")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol);
}

#[test]
fn models_and_counts() {
    let list = json!({"data": [{"type": "model", "id": "claude-x", "display_name": "Claude X", "created_at": "2026-01-01T00:00:00Z"}], "has_more": false});
    let models = decode_models(&own(), list.to_string().as_bytes()).unwrap();
    assert_eq!((models[0].id.as_str(), models[0].description.as_deref()), ("claude-x", Some("Claude X")));
    let encoded = encode_models(&models);
    assert_eq!(decode_models(&own(), encoded.to_string().as_bytes()), Ok(models));
    assert_eq!((&encoded["first_id"], &encoded["data"][0]["lifecycle"]), (&json!("claude-x"), &json!("active")));
    assert!(decode_models(&own(), b"{}").is_err());
    assert_eq!(decode_count(&own(), encode_count(1581).to_string().as_bytes()), Ok(1581));
    assert!(decode_count(&own(), b"{}").is_err());
}

proptest::proptest! {
    #[test]
    fn no_bytes_do_harm(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let _ = read(&bytes);
        let _ = decode_response(&own(), Names::default(), &bytes);
        let _ = decode_request(&bytes, &own(), &env());
    }

    #[test]
    fn no_part_of_an_event_does_harm(event in 0usize..30, key in 0usize..8, value in 0usize..6) {
        // One field of one event is missing or of another type.
        let mut events = everything();
        let count = events.len();
        let fields = events[event % count].as_object_mut().unwrap();
        let keys: Vec<String> = fields.keys().cloned().collect();
        let values = [Value::Null, json!(1), json!("x"), json!([]), json!({}), json!(-1)];
        fields.insert(keys[key % keys.len()].clone(), values[value].clone());
        let events = read(sse(&events).as_bytes());
        proptest::prop_assert!(matches!(events.last(), Some(TurnEvent::Finished(_) | TurnEvent::Failed(_))));
    }
}
