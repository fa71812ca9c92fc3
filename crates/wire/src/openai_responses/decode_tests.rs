#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use placet_core::part::Native;
use placet_core::{
    Accumulator, Env, ErrorKind, ItemBody, Part, ProviderError, StopReason, ToolName, Turn, TurnEvent, Usage,
};
use serde_json::{Value, json};

fn provider() -> ProviderId {
    ProviderId::new("test")
}

fn decode_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<TurnEvent> {
    let mut decoder = decode_events(&Dialect::new(provider()), Names::of(&[ToolName::new("crm.lookup")]));
    let mut events = Vec::new();
    pieces.into_iter().for_each(|piece| decoder.push(piece, &mut events));
    decoder.end(&mut events);
    events
}

fn fold(events: &[TurnEvent]) -> Result<Turn, ProviderError> {
    let mut accumulator = Accumulator::new();
    events.iter().for_each(|event| accumulator.push(event));
    accumulator.finish(&provider(), &Env::system())
}

/// A stream of these events, numbered, with their names.
fn stream(events: &[Value]) -> String {
    let write = |(number, event): (usize, &Value)| {
        let mut event = event.clone();
        event["sequence_number"] = number.into();
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
    };
    events.iter().enumerate().map(write).collect()
}

fn events(list: &[Value]) -> Vec<TurnEvent> {
    let text = stream(list);
    decode_pieces([text.as_bytes()])
}

fn turn(list: &[Value]) -> Turn {
    fold(&events(list)).unwrap_or_else(|error| panic!("{error:?}"))
}

fn created() -> Value {
    json!({"type": "response.created", "response": {"id": "resp_1", "model": "m-1", "status": "in_progress", "output": []}})
}

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn delta(kind: &str, index: u64, delta: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": index, "content_index": 0, "item_id": "x", "delta": delta})
}

fn message(id: &str, text: &str) -> Value {
    json!({"type": "message", "id": id, "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]})
}

fn function(call_id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{call_id}"), "call_id": call_id, "name": name, "arguments": arguments, "status": "completed"})
}

fn completed(output: &[Value]) -> Value {
    json!({"type": "response.completed", "response": {"id": "resp_1", "model": "m-1", "status": "completed", "output": output, "usage": {
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 120}}})
}

fn incomplete(reason: &str) -> Value {
    json!({"type": "response.incomplete", "response": {"id": "resp_1", "status": "incomplete", "output": [],
        "incomplete_details": {"reason": reason}}})
}

/// A stream of everything: thinking, text, calls of both sorts, a hosted tool, characters of several bytes.
fn rich() -> String {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Grüß"},
        {"type": "summary_text", "text": "Gott 🦀"}], "encrypted_content": "gAAA=="});
    stream(&[
        created(),
        added(0, json!({"type": "reasoning", "id": "rs_1", "summary": []})),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "Grüß"}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "Gott 🦀"}),
        done(0, reasoning.clone()),
        added(1, json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [], "phase": "commentary"})),
        delta("output_text", 1, "Zürich "),
        delta("output_text", 1, "✓ 🦀"),
        done(1, message("msg_1", "Zürich ✓ 🦀")),
        added(2, function("a", "crm", "")),
        delta("function_call_arguments", 2, "{\"q\":\"ö\\n"),
        delta("function_call_arguments", 2, "\"}"),
        done(2, function("a", "crm", "{\"q\":\"ö\\n\"}")),
        added(3, json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "b", "name": "exec", "input": ""})),
        delta("custom_tool_call_input", 3, "say \"hi\"\n"),
        delta("custom_tool_call_input", 3, "→ ok"),
        done(
            3,
            json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "b", "name": "exec", "input": "say \"hi\"\n→ ok"}),
        ),
        done(4, json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}})),
        completed(&[reasoning]),
    ])
}

fn calls(turn: &Turn) -> Vec<(Option<&str>, &str, &str)> {
    turn.calls().map(|call| (call.provider_id.as_deref(), call.name.as_str(), call.arguments.as_text())).collect()
}

fn native_of(turn: &Turn, at: usize) -> Option<&Native> {
    match &turn.items[at].body {
        ItemBody::Reasoning(reasoning) => reasoning.native.as_ref(),
        ItemBody::ToolCall(call) => call.native.as_ref(),
        ItemBody::Message(message) => message.parts.iter().find_map(|part| match part {
            Part::Text(text) => text.native.as_ref(),
            _ => None,
        }),
        ItemBody::Native(native) => Some(native),
        _ => None,
    }
}

#[test]
fn everything_has_its_place() {
    let text = rich();
    let turn = fold(&decode_pieces([text.as_bytes()])).unwrap();
    let kinds: Vec<_> = turn.items.iter().map(|item| item.body.kind()).collect();
    assert_eq!(kinds, ["reasoning", "message", "tool_call", "tool_call", "hosted_call"]);
    let ItemBody::Reasoning(thought) = &turn.items[0].body else { panic!() };
    assert_eq!(thought.text, "Grüß\n\nGott 🦀");
    assert_eq!(turn.text(), "Zürich ✓ 🦀");
    assert_eq!(
        calls(&turn),
        [(Some("a"), "crm", "{\"q\":\"ö\\n\"}"), (Some("b"), "exec", r#"{"input":"say \"hi\"\n→ ok"}"#)]
    );
    assert_eq!(turn.stop, StopReason::ToolCalls);
    let usage =
        Usage { input: 30, cache_read: 60, cache_write: 10, output: 20, reasoning: 5, searches: 1, ..Usage::default() };
    assert_eq!(turn.usage, Some(usage));
    assert_eq!(turn.provider_state.unwrap().value, json!({"previous_response_id": "resp_1"}));
}

/// A small stream with characters of several bytes.
fn small() -> String {
    stream(&[
        created(),
        delta("output_text", 0, "Zürich ✓ 🦀"),
        delta("function_call_arguments", 1, "{\"q\":\"ö\"}"),
        done(1, function("a", "crm", "{\"q\":\"ö\"}")),
        completed(&[]),
    ])
}

#[test]
fn rule_1_responses() {
    let cut_at = |text: &str, step: usize| {
        let whole = decode_pieces([text.as_bytes()]);
        assert!(matches!(whole.last(), Some(TurnEvent::Finished(_))));
        for cut in (0..=text.len()).step_by(step) {
            let (head, tail) = text.as_bytes().split_at(cut);
            assert_eq!(decode_pieces([head, tail]), whole, "cut at {cut}");
        }
        whole
    };
    let plain = cut_at(&small(), 1);
    assert_eq!(cut_at(&small().replace('\n', "\r\n"), 1), plain, "line ends say nothing");
    assert_eq!(cut_at(&small().replace('\n', "\r"), 1), plain);
    let rich = rich();
    let plain = cut_at(&rich, 11);
    assert_eq!(decode_pieces([format!("\u{feff}{}", rich.replace("data: ", "data:")).as_bytes()]), plain);
    assert_eq!(decode_pieces(rich.as_bytes().chunks(1)), plain);
    assert_eq!(decode_pieces([rich.replace('\n', "\r\n").as_bytes()]), plain);
}

#[test]
fn row_61_responses() {
    // Every character of several bytes arrives in two pieces.
    let text = rich();
    let whole = decode_pieces([text.as_bytes()]);
    for (at, _) in text.char_indices().filter(|(_, c)| c.len_utf8() > 1) {
        let (head, tail) = text.as_bytes().split_at(at + 1);
        assert_eq!(decode_pieces([head, tail]), whole);
    }
}

#[test]
fn rule_2_responses() {
    // The JSON's type counts; where it is missing, the event's name does.
    let list = [created(), delta("output_text", 0, "hi"), completed(&[])];
    let wrong: String = list.iter().map(|event| format!("event: odd\ndata: {event}\n\n")).collect();
    let nameless: String = list.iter().map(|event| format!("data: {event}\n\n")).collect();
    let typeless: String = list
        .iter()
        .map(|event| {
            let mut bare = event.clone();
            let kind = bare.as_object_mut().unwrap().remove("type").unwrap();
            format!("event: {}\ndata: {bare}\n\n", kind.as_str().unwrap())
        })
        .collect();
    for text in [wrong, nameless, typeless] {
        assert_eq!(fold(&decode_pieces([text.as_bytes()])).unwrap().text(), "hi", "{text}");
    }
}

#[test]
fn rule_3_responses() {
    let turn = turn(&[
        created(),
        json!({"type": "response.brand_new.delta", "delta": "x"}),
        done(0, json!({"type": "brand_new", "id": "bn_1", "odd": {"deep": [1]}})),
        done(1, json!({"type": "brand_new_call", "id": "bc_1"})),
        done(
            2,
            json!({"type": "message", "role": "assistant", "odd": 1, "content": [
            {"type": "brand_new_part", "odd": 2}, {"type": "output_text", "text": "t", "odd": 3}]}),
        ),
        incomplete("brand_new_reason"),
    ]);
    assert_eq!(native_of(&turn, 0).unwrap().value["odd"], json!({"deep": [1]}));
    assert!(matches!(&turn.items[1].body, ItemBody::HostedCall(call) if call.kind == "brand_new_call"));
    let ItemBody::Message(message) = &turn.items[2].body else { panic!() };
    assert!(matches!(&message.parts[0], Part::Native(native) if native.value["odd"] == 2));
    assert_eq!(native_of(&turn, 3).unwrap().value, json!({"message": {"odd": 1}, "odd": 3}));
    assert_eq!(turn.stop, StopReason::Other("brand_new_reason".into()));
    let unknown = events(&[created(), json!({"type": "response.brand_new.delta", "delta": "x"})]);
    assert!(
        unknown
            .iter()
            .any(|event| matches!(event, TurnEvent::Unknown(unknown) if unknown.kind() == "response.brand_new.delta"))
    );
}

#[test]
fn rule_4_responses() {
    for cut in [&[created()][..], &[created(), delta("output_text", 0, "half")], &[]] {
        let error = fold(&events(cut)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Interrupted);
        assert!(error.kind.is_transient());
    }
    for terminal in [completed(&[]), incomplete("max_output_tokens")] {
        assert!(fold(&events(&[created(), terminal])).is_ok());
    }
    let mut decoder = decode_events(&Dialect::new(provider()), Names::default());
    let mut out = Vec::new();
    decoder.push(stream(&[created()]).as_bytes(), &mut out);
    assert!(!decoder.is_whole() && !decoder.is_done());
    decoder.push(stream(&[completed(&[])]).as_bytes(), &mut out);
    assert!(decoder.is_whole() && decoder.is_done());
    let before = out.len();
    decoder.push(stream(&[delta("output_text", 0, "late")]).as_bytes(), &mut out);
    decoder.end(&mut out);
    assert_eq!(out.len(), before, "nothing comes after the end");
}

#[test]
fn rule_5_responses() {
    let mut accumulator = Accumulator::new();
    let list = events(&[
        created(),
        delta("output_text", 0, "partial"),
        added(1, function("a", "read", "")),
        delta("function_call_arguments", 1, "{}"),
        json!({"type": "response.failed", "response": {"id": "resp_1", "status": "failed", "error": {"code": "server_error", "message": "boom"}}}),
    ]);
    list.iter().for_each(|event| accumulator.push(event));
    assert_eq!(accumulator.text(), "partial");
    let error = accumulator.finish(&provider(), &Env::system()).unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Unavailable, "boom"));
    // An error in an answer that came whole, in spite of its status.
    let body = json!({"error": {"message": "no", "type": "invalid_request_error", "code": "insufficient_quota"}});
    let error = decode_response(&provider(), Names::default(), body.to_string().as_bytes()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::QuotaExhausted);
    for body in ["", "[]", "{}", "<html>", "{\"id\": \"x\"}"] {
        let error = decode_response(&provider(), Names::default(), body.as_bytes()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{body}");
    }
}

#[test]
fn rule_6_responses() {
    for arguments in ["", "null", "\"null\""] {
        let turn = turn(&[created(), done(0, function("a", "ping", arguments)), completed(&[])]);
        let call = turn.calls().next().unwrap();
        assert_eq!((call.arguments.parse(), call.arguments.replay_text()), (Ok(serde_json::Map::new()), "{}"));
    }
    let absent = json!({"type": "function_call", "call_id": "a", "name": "ping"});
    let turn = turn(&[created(), done(0, absent), completed(&[])]);
    assert_eq!(turn.calls().next().unwrap().arguments.parse(), Ok(serde_json::Map::new()));
}

#[test]
fn rule_7_responses() {
    let mut last = completed(&[]);
    last["response"]["usage"]["input_tokens"] = 200.into();
    let mut queued = created();
    queued["response"]["usage"] = Value::Null;
    let turn = turn(&[queued, last]);
    assert_eq!(turn.usage.unwrap().total_input(), 200);
}

#[test]
fn tricky_3_a() {
    // The items of the stream count; what the end holds is another number of them, or none.
    let extra = [message("msg_0", "other"), message("msg_1", "one")];
    for output in [&[][..], &extra] {
        let turn =
            turn(&[created(), delta("output_text", 0, "one"), done(0, message("msg_1", "one")), completed(output)]);
        assert_eq!((turn.items.len(), turn.text().as_str()), (1, "one"));
    }
    // A server that tells of no item in its stream tells of them at the end.
    let list = [message("msg_1", "one"), function("a", "read", "{}")];
    let turn = turn(&[created(), completed(&list)]);
    assert_eq!((turn.text().as_str(), calls(&turn)), ("one", vec![(Some("a"), "read", "{}")]));
}

#[test]
fn row_23_responses() {
    let turn = turn(&[created(), done(0, message("msg_1", "kept")), completed(&[])]);
    assert_eq!(turn.text(), "kept");
    // Announced, and its end only in the last event.
    let lost = turn_of_lost();
    assert_eq!(lost.text(), "kept, too");
}

fn turn_of_lost() -> Turn {
    turn(&[
        created(),
        done(0, function("a", "read", "{}")),
        added(1, json!({"type": "message", "id": "msg_2", "role": "assistant", "content": []})),
        delta("output_text", 1, "kept"),
        completed(&[message("msg_2", "kept, too")]),
    ])
}

#[test]
fn tricky_3_b() {
    // Another id with every event: the index tells what belongs together.
    let turn = turn(&[
        created(),
        added(0, json!({"type": "message", "id": "msg_a", "role": "assistant", "content": []})),
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "msg_b", "delta": "a"}),
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "msg_c", "delta": "b"}),
        done(0, message("msg_d", "ab")),
        completed(&[message("msg_e", "ab")]),
    ]);
    assert_eq!((turn.items.len(), turn.text().as_str()), (1, "ab"));
    assert_eq!(native_of(&turn, 0).unwrap().value["message"]["id"], "msg_d");
}

fn search_without_action() -> Turn {
    turn(&[
        created(),
        added(0, json!({"type": "web_search_call", "id": "ws_1", "status": "in_progress"})),
        json!({"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"}),
        done(0, json!({"type": "web_search_call", "id": "ws_1", "status": "completed"})),
        done(1, message("msg_1", "ok")),
        completed(&[]),
    ])
}

#[test]
fn tricky_3_c() {
    let turn = search_without_action();
    assert!(matches!(&turn.items[0].body, ItemBody::HostedCall(call) if call.kind == "web_search_call"));
    assert_eq!(turn.text(), "ok");
}

#[test]
fn row_20_responses() {
    assert_eq!(search_without_action().items.len(), 2);
}

#[test]
fn tricky_3_d() {
    let flat = json!({"type": "error", "code": "server_error", "message": "boom", "param": null});
    let nested = json!({"type": "error", "error": {"type": "server_error", "code": "server_error", "message": "boom", "param": null}});
    let bare = json!({"error": {"code": "server_error", "message": "boom"}, "type": "odd"});
    let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "other", "message": "later"}}});
    for event in [flat, nested, bare] {
        let list = events(&[created(), event, failed.clone()]);
        let ends: Vec<_> = list.iter().filter(|event| matches!(event, TurnEvent::Failed(_))).collect();
        let [TurnEvent::Failed(error)] = ends.as_slice() else { panic!("{list:?}") };
        assert_eq!((error.code.as_deref(), error.message.as_str()), (Some("server_error"), "boom"));
        assert!(error.kind.is_transient());
    }
}

#[test]
fn row_22_responses() {
    let quota = json!({"type": "error", "error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "none left"}});
    let error = fold(&events(&[created(), quota])).unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::QuotaExhausted, "none left"));
}

#[test]
fn tricky_3_e() {
    let item = json!({"type": "message", "id": "m", "role": "assistant", "content": [{"type": "refusal", "refusal": "No, sorry."}]});
    let streamed = [
        created(),
        delta("refusal", 0, "No, "),
        delta("refusal", 0, "sorry."),
        json!({"type": "response.refusal.done", "output_index": 0, "content_index": 0, "refusal": "No, sorry."}),
        done(0, item.clone()),
        completed(&[]),
    ];
    for list in [&streamed[..], &[created(), done(0, item), completed(&[])]] {
        let turn = turn(list);
        assert_eq!((turn.text().as_str(), &turn.stop), ("No, sorry.", &StopReason::Refusal));
    }
}

#[test]
fn tricky_3_f() {
    let stop = |reason: &str| turn(&[created(), delta("output_text", 0, "x"), incomplete(reason)]).stop;
    assert_eq!(stop("max_output_tokens"), StopReason::MaxTokens);
    assert_eq!(stop("content_filter"), StopReason::ContentFilter);
    assert_eq!(stop("max_messages"), StopReason::Other("max_messages".into()));
    assert_eq!(stop("steered"), StopReason::Other("steered".into()));
}

#[test]
fn tricky_3_g() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"});
    let turn = turn(&[created(), done(0, reasoning), incomplete("max_output_tokens")]);
    assert_eq!((turn.items.len(), turn.text().as_str(), &turn.stop), (1, "", &StopReason::MaxTokens));
    assert!(turn.stop.is_cut());
}

#[test]
fn tricky_3_i() {
    let item = json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Let me see."}]});
    let streamed = [
        created(),
        delta("reasoning_text", 0, "Let me "),
        delta("reasoning_text", 0, "see."),
        done(0, item.clone()),
        completed(&[]),
    ];
    for list in [&streamed[..], &[created(), done(0, item.clone()), completed(&[])]] {
        let turn = turn(list);
        let ItemBody::Reasoning(reasoning) = &turn.items[0].body else { panic!() };
        assert_eq!(reasoning.text, "Let me see.");
        assert_eq!(reasoning.native.as_ref().unwrap().value, item);
    }
    // In both at once: the same thinking, told once.
    let both = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "see"}], "content": [{"type": "reasoning_text", "text": "see"}]});
    let turn = turn(&[
        created(),
        delta("reasoning_text", 0, "see"),
        delta("reasoning_summary_text", 0, "see"),
        done(0, both),
        completed(&[]),
    ]);
    let ItemBody::Reasoning(reasoning) = &turn.items[0].body else { panic!() };
    assert_eq!(reasoning.text, "see");
}

#[test]
fn tricky_3_j() {
    for status in ["queued", "in_progress"] {
        let body =
            json!({"id": "resp_9", "object": "response", "status": status, "output": [], "usage": null, "error": null})
                .to_string();
        let found = pending(body.as_bytes()).unwrap();
        assert_eq!((found.id.as_str(), found.status.as_str()), ("resp_9", status));
        let events = decode_response(&provider(), Names::default(), body.as_bytes()).unwrap();
        assert!(matches!(events.as_slice(), [TurnEvent::Started(_)]), "no end: {events:?}");
    }
    let done = json!({"id": "resp_9", "status": "completed", "output": [message("m", "there")]}).to_string();
    assert_eq!(pending(done.as_bytes()), None);
    assert_eq!(
        fold(&decode_response(&provider(), Names::default(), done.as_bytes()).unwrap()).unwrap().text(),
        "there"
    );
    // A stream that broke is taken up again after the last event.
    let mut decoder = decode_events(&Dialect::new(provider()), Names::default());
    let mut out = Vec::new();
    let queued = json!({"type": "response.queued", "response": {"id": "resp_9", "status": "queued"}});
    decoder.push(stream(&[queued, delta("output_text", 0, "half")]).as_bytes(), &mut out);
    assert_eq!(decoder.resume_point(), Some(("resp_9", 1)));
    for (status, kind) in [("failed", ErrorKind::Unavailable), ("cancelled", ErrorKind::Cancelled)] {
        let body = json!({"id": "resp_9", "status": status, "output": [], "error": null}).to_string();
        assert_eq!(decode_response(&provider(), Names::default(), body.as_bytes()).unwrap_err().kind, kind);
    }
}

#[test]
fn tricky_3_k() {
    // A made-up tool that wraps others is a call like any other: whole, and of a tool that nobody has.
    let arguments = r#"{"tool_uses":[{"recipient_name":"functions.read","parameters":{"p":1}}]}"#;
    for name in ["parallel", "multi_tool_use.parallel"] {
        let turn = turn(&[created(), done(0, function("a", name, arguments)), completed(&[])]);
        assert_eq!(calls(&turn), [(Some("a"), name, arguments)]);
        assert!(turn.calls().next().unwrap().arguments.parse().is_ok());
    }
}

#[test]
fn tricky_3_l() {
    let mut last = completed(&[]);
    last["response"]["usage"]["input_tokens_details"] = json!({"cached_tokens": 60});
    assert_eq!(turn(&[created(), last.clone()]).usage.unwrap().cache_write, 0);
    last["response"]["usage"] = json!({"input_tokens": 3, "output_tokens": 4, "total_tokens": 7});
    assert_eq!(turn(&[created(), last]).usage, Some(Usage { input: 3, output: 4, ..Usage::default() }));
    // And it is always written.
    let form = super::answer_forms::usage_form(&Usage::default(), None);
    assert_eq!(form["input_tokens_details"]["cache_write_tokens"], 0);
}

#[test]
fn row_9_responses() {
    let turn = turn(&[
        created(),
        added(0, function("a", "read", "")),
        delta("function_call_arguments", 0, ""),
        json!({"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{\"p\":1}"}),
        done(0, function("a", "read", "{\"p\":1}")),
        completed(&[]),
    ]);
    assert_eq!(calls(&turn), [(Some("a"), "read", "{\"p\":1}")]);
}

#[test]
fn row_14_responses() {
    // No content index, no item id: neither is needed.
    let turn = turn(&[
        created(),
        added(0, function("a", "read", "")),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"p\":"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "[1]}"}),
        done(0, function("a", "read", "{\"p\":[1]}")),
        completed(&[]),
    ]);
    assert_eq!(calls(&turn), [(Some("a"), "read", "{\"p\":[1]}")]);
}

#[test]
fn row_15_responses() {
    let turn = turn(&[created(), completed(&[json!({"type": "from_the_future", "x": 1}), message("m", "text")])]);
    assert_eq!((turn.text().as_str(), turn.usage.unwrap().total()), ("text", 120));
    assert_eq!(native_of(&turn, 0).unwrap().value, json!({"type": "from_the_future", "x": 1}));
}

#[test]
fn row_21_responses() {
    let turn = turn(&[
        json!({"type": "ping", "cost": 1}),
        created(),
        json!({"type": "keepalive"}),
        delta("output_text", 0, "a"),
        json!({"type": "ping"}),
        json!({"type": "response.brand_new"}),
        delta("output_text", 0, "b"),
        completed(&[]),
    ]);
    assert_eq!(turn.text(), "ab");
    let with_marker = stream(&[created(), completed(&[])]) + "data: [DONE]\n\n: a comment\n\n";
    assert!(fold(&decode_pieces([with_marker.as_bytes()])).is_ok());
}

#[test]
fn row_63_responses() {
    let cut = json!({"type": "function_call", "call_id": "a", "name": "write", "arguments": "{\"text\":\"half", "status": "incomplete"});
    let turn = turn(&[
        created(),
        added(0, function("a", "write", "")),
        delta("function_call_arguments", 0, "{\"text\":\"half"),
        done(0, cut),
        incomplete("max_output_tokens"),
    ]);
    assert!(turn.stop.is_cut(), "its calls are not run");
    assert!(turn.calls().next().unwrap().arguments.parse().is_err());
}

#[test]
fn parallel_calls_are_told_apart_by_their_places() {
    let turn = turn(&[
        created(),
        added(0, function("a", "read", "")),
        added(1, function("b", "read", "")),
        delta("function_call_arguments", 1, "{\"p\":2}"),
        delta("function_call_arguments", 0, "{\"p\":1}"),
        done(1, function("b", "read", "{\"p\":2}")),
        done(0, function("a", "read", "{\"p\":1}")),
        completed(&[]),
    ]);
    assert_eq!(calls(&turn), [(Some("a"), "read", "{\"p\":1}"), (Some("b"), "read", "{\"p\":2}")]);
}

#[test]
fn names_come_back_from_aliases_and_namespaces() {
    let mut names = Names::of(&[ToolName::new("crm.lookup")]);
    names.note_in("functions", "exec", ToolName::new("functions__exec"));
    let alias = crate::names::alias("crm.lookup").into_owned();
    let item = |name: &str, namespace: Option<&str>| json!({"type": "function_call", "call_id": name, "name": name, "namespace": namespace, "arguments": "{}"});
    let output = [item(&alias, None), item("exec", Some("functions")), item("exec", None), item("late", Some("late"))];
    let body = json!({"id": "r", "status": "completed", "output": output}).to_string();
    let turn = fold(&decode_response(&provider(), names, body.as_bytes()).unwrap()).unwrap();
    let found: Vec<_> = turn.calls().map(|call| call.name.as_str()).collect();
    assert_eq!(found, ["crm.lookup", "functions__exec", "exec", "late"]);
}

#[test]
fn what_the_answer_says_beyond_our_words_is_kept() {
    let mut last = completed(&[]);
    last["response"]["moderation"] = json!({"flagged": false});
    last["response"]["service_tier"] = "flex".into();
    last["response"]["usage"]["cost_in_usd_ticks"] = 7.into();
    let turn = turn(&[created(), last]);
    assert_eq!(
        turn.native.unwrap().value,
        json!({"moderation": {"flagged": false}, "usage": {"cost_in_usd_ticks": 7}})
    );
    assert_eq!(turn.service_tier.as_deref(), Some("flex"));
}

#[test]
fn an_answer_that_was_not_kept_is_not_continued() {
    let body = |store: Value| json!({"id": "resp_1", "status": "completed", "output": [], "store": store}).to_string();
    let state = |store: Value| {
        let events = decode_response(&provider(), Names::default(), body(store).as_bytes()).unwrap();
        fold(&events).unwrap().provider_state.map(|state| state.value)
    };
    assert_eq!(state(json!(false)), None);
    assert_eq!(state(json!(true)), Some(json!({"previous_response_id": "resp_1"})));
    assert_eq!(state(Value::Null), Some(json!({"previous_response_id": "resp_1"})));
    let local = Dialect::local(provider());
    let mut decoder = decode_events(&local, Names::default());
    let mut events = Vec::new();
    decoder.push(stream(&[created(), completed(&[])]).as_bytes(), &mut events);
    assert_eq!(fold(&events).unwrap().provider_state, None);
    let conversation =
        json!({"id": "r", "status": "completed", "output": [], "conversation": {"id": "conv_1"}}).to_string();
    let events = decode_response(&provider(), Names::default(), conversation.as_bytes()).unwrap();
    assert_eq!(fold(&events).unwrap().provider_state.unwrap().value, json!({"conversation": {"id": "conv_1"}}));
}

#[test]
fn counts_and_lists_are_read_and_written() {
    assert_eq!(decode_count(&provider(), encode_count(16).to_string().as_bytes()), Ok(16));
    assert_eq!(decode_count(&provider(), b"{}").unwrap_err().kind, ErrorKind::Protocol);
    let list = encode_models(["a", "b"], 5, "placet");
    assert_eq!(list["data"][0], json!({"id": "a", "object": "model", "created": 5, "owned_by": "placet"}));
    let read = decode_models(&provider(), list.to_string().as_bytes()).unwrap();
    assert_eq!(read.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}
