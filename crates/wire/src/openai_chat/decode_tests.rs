#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use placet_core::{Accumulator, Env, ErrorKind, ItemBody, ProviderError, StopReason, ToolName, Turn, TurnEvent, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

fn provider() -> ProviderId {
    ProviderId::new("test")
}

fn names() -> Names {
    Names::of(&[ToolName::new("crm.lookup")])
}

/// The events of a stream that arrives in these pieces.
fn decode_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<TurnEvent> {
    let mut decoder = decode_events(&Dialect::new(provider()), names());
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut events);
    }
    decoder.end(&mut events);
    events
}

fn stream(chunks: &[Value], done: bool) -> String {
    let mut text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    if done {
        text.push_str("data: [DONE]\n\n");
    }
    text
}

fn fold(events: &[TurnEvent]) -> Result<Turn, ProviderError> {
    let mut accumulator = Accumulator::new();
    for event in events {
        accumulator.push(event);
    }
    accumulator.finish(&provider(), &Env::system())
}

fn turn(chunks: &[Value]) -> Turn {
    let text = stream(chunks, true);
    fold(&decode_pieces([text.as_bytes()])).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn delta(delta: Value) -> Value {
    json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}], "usage": null})
}

fn finish(reason: &str) -> Value {
    json!({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn calls(turn: &Turn) -> Vec<(Option<&str>, &str, &str)> {
    turn.calls().map(|call| (call.provider_id.as_deref(), call.name.as_str(), call.arguments.as_text())).collect()
}

fn pieces(list: &[Value]) -> Turn {
    let mut chunks: Vec<Value> = list.iter().map(|calls| delta(json!({"tool_calls": calls}))).collect();
    chunks.push(finish("tool_calls"));
    turn(&chunks)
}

#[test]
fn text_with_usage_at_the_end() {
    let turn = turn(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": "Hel"})),
        delta(json!({"content": "lo"})),
        finish("stop"),
        json!({"id": "c1", "choices": [], "usage": {
            "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            "completion_tokens_details": {"reasoning_tokens": 5}
        }}),
    ]);
    assert_eq!((turn.text().as_str(), &turn.stop), ("Hello", &StopReason::End));
    assert_eq!((turn.model.as_deref(), turn.response_id.as_deref()), (Some("m"), Some("c1")));
    let usage = Usage { input: 30, cache_read: 60, cache_write: 10, output: 20, reasoning: 5, ..Usage::default() };
    assert_eq!(turn.usage, Some(usage));
}

#[test]
fn usage_is_cumulative_by_field_and_an_empty_one_says_nothing() {
    let usage = |usage: Value| json!({"id": "c", "choices": [{"index": 0, "delta": {"content": "x"}}], "usage": usage});
    let turn = turn(&[
        usage(json!({"prompt_tokens": 7, "completion_tokens": 1})),
        usage(json!({"completion_tokens": 2})),
        usage(json!({})),
        finish("stop"),
        json!({"choices": [], "usage": null}),
    ]);
    assert_eq!(turn.usage, Some(Usage { input: 7, output: 2, ..Usage::default() }));
}

#[test]
fn reasoning_counted_beside_the_completion_is_output_too() {
    let chunk = json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 33,
        "completion_tokens_details": {"reasoning_tokens": 20}}});
    let usage = turn(&[finish("stop"), chunk]).usage.unwrap();
    assert_eq!((usage.output, usage.reasoning), (23, 20));
    let groq = json!({"choices": [], "x_groq": {"usage": {"prompt_tokens": 4, "completion_tokens": 2}}});
    assert_eq!(turn(&[finish("stop"), groq]).usage.map(|usage| (usage.input, usage.output)), Some((4, 2)));
}

#[test]
fn the_end_in_its_many_forms() {
    for (reason, stop) in [
        ("stop", StopReason::End),
        ("eos", StopReason::End),
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::ContentFilter),
        ("something_new", StopReason::Other("something_new".into())),
    ] {
        for done in [true, false] {
            let text = stream(&[delta(json!({"content": "x"})), finish(reason)], done);
            assert_eq!(fold(&decode_pieces([text.as_bytes()])).unwrap().stop, stop);
        }
    }
}

#[test]
fn without_a_finish_reason_the_answer_was_interrupted() {
    for text in [
        String::new(),
        stream(&[delta(json!({"content": "half"}))], false),
        stream(&[delta(json!({"content": "half"}))], true),
        stream(&[delta(json!({"content": "half"})), finish("")], true),
        format!("{}data: {{\"id\": \"c1\", \"cho", stream(&[delta(json!({"content": "half"}))], false)),
        ": keep-alive\n\n".to_owned(),
    ] {
        let events = decode_pieces([text.as_bytes()]);
        assert_eq!(fold(&events).unwrap_err().kind, ErrorKind::Interrupted, "{text}");
    }
}

#[test]
fn calls_are_told_apart_however_they_are_numbered() {
    let call = |index: Option<u32>, id: Option<&str>, name: Option<&str>, arguments: Value| {
        let mut call = json!({"function": {"arguments": arguments}});
        if let Some(index) = index {
            call["index"] = index.into();
        }
        if let Some(id) = id {
            call["id"] = id.into();
        }
        if let Some(name) = name {
            call["function"]["name"] = name.into();
        }
        call
    };
    let plain = |index, id, name, arguments: &str| call(index, id, name, arguments.into());
    let wanted = [(Some("a"), "f", "{\"x\":1}"), (Some("b"), "g", "{\"y\":2}")];
    let table = [
        (
            "in order",
            vec![
                json!([plain(Some(0), Some("a"), Some("f"), "")]),
                json!([plain(Some(0), None, None, "{\"x\":")]),
                json!([plain(Some(0), None, None, "1}")]),
                json!([plain(Some(1), Some("b"), Some("g"), "{\"y\":2}")]),
            ],
        ),
        (
            "interleaved",
            vec![
                json!([plain(Some(0), Some("a"), Some("f"), "{\"x\"")]),
                json!([plain(Some(1), Some("b"), Some("g"), "{\"y\"")]),
                json!([plain(Some(0), None, None, ":1}"), plain(Some(1), None, None, ":2}")]),
            ],
        ),
        (
            "empty texts for identity",
            vec![
                json!([plain(Some(0), Some("a"), Some("f"), "{\"x\"")]),
                json!([plain(Some(0), Some(""), Some(""), ":1}")]),
                json!([plain(Some(1), Some("b"), Some("g"), "{\"y\":2}")]),
                json!([plain(Some(1), Some(""), Some(""), "")]),
            ],
        ),
        (
            "no index",
            vec![
                json!([plain(None, Some("a"), Some("f"), "{\"x\":")]),
                json!([plain(None, None, None, "1}")]),
                json!([plain(None, Some("b"), Some("g"), "{\"y\"")]),
                json!([plain(None, Some("b"), None, ":2}")]),
            ],
        ),
        (
            "no index, several at once",
            vec![
                json!([plain(None, Some("a"), Some("f"), "{\"x\":"), plain(None, Some("b"), Some("g"), "{\"y\":")]),
                json!([plain(None, None, None, "1}"), plain(None, None, None, "2}")]),
            ],
        ),
        (
            "one index for all",
            vec![
                json!([plain(Some(0), Some("a"), Some("f"), "{\"x\":1}")]),
                json!([plain(Some(0), Some("b"), Some("g"), "{\"y\":2}")]),
            ],
        ),
        (
            "odd indices",
            vec![
                json!([plain(Some(1), Some("a"), Some("f"), "{\"x\":1}")]),
                json!([plain(Some(7), Some("b"), Some("g"), "{\"y\":2}")]),
            ],
        ),
        (
            "arguments as objects",
            vec![
                json!([call(Some(0), Some("a"), Some("f"), json!({"x": 1}))]),
                json!([call(Some(1), Some("b"), Some("g"), json!({"y": 2}))]),
            ],
        ),
        (
            "the name repeated with every piece",
            vec![
                json!([plain(Some(0), Some("a"), Some("f"), "{\"x\"")]),
                json!([plain(Some(0), Some("a"), Some("f"), ":1}")]),
                json!([plain(Some(1), Some("b"), Some("g"), "{\"y\"")]),
                json!([plain(Some(1), Some("b"), Some("g"), ":2}")]),
            ],
        ),
        (
            "nothing in between",
            vec![
                json!([plain(Some(0), Some("a"), Some("f"), "{\"x\":1}")]),
                json!([{"index": 0}, {}, null, 3]),
                json!([plain(Some(1), Some("b"), Some("g"), "{\"y\":2}")]),
            ],
        ),
    ];
    for (case, chunks) in table {
        let turn = pieces(&chunks);
        assert_eq!(calls(&turn), wanted, "{case}");
        assert_eq!(turn.stop, StopReason::ToolCalls, "{case}");
    }
    let without_ids = pieces(&[
        json!([plain(Some(0), None, Some("f"), "{\"x\":1}")]),
        json!([plain(Some(0), None, Some("f"), "{\"x\":2}")]),
    ]);
    assert_eq!(calls(&without_ids), [(None, "f", "{\"x\":1}"), (None, "f", "{\"x\":2}")]);
}

#[test]
fn no_arguments_in_every_form() {
    for arguments in [json!(""), json!(null), json!("null"), json!("{}"), json!({})] {
        let turn = pieces(&[json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}])]);
        let call = turn.calls().next().unwrap();
        assert_eq!(call.arguments.parse(), Ok(serde_json::Map::new()), "{arguments}");
    }
    let turn = pieces(&[json!([{"index": 0, "id": "a", "function": {"name": "f"}}])]);
    assert_eq!(turn.calls().next().unwrap().arguments.replay_text(), "{}");
}

#[test]
fn an_aliased_name_comes_back_as_the_tools_own() {
    let alias = crate::names::alias("crm.lookup").into_owned();
    let turn = pieces(&[json!([{"index": 0, "id": "a", "function": {"name": alias, "arguments": "{}"}}])]);
    assert_eq!(turn.calls().next().unwrap().name.as_str(), "crm.lookup");
}

#[test]
fn a_cut_turn_stays_cut_though_it_holds_half_a_call() {
    let turn = turn(&[
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\": \"ha"}}]})),
        finish("length"),
    ]);
    assert!(turn.stop.is_cut());
    assert!(turn.calls().next().unwrap().arguments.parse().is_err());
}

#[test]
fn the_ancestor_of_tool_calls_is_understood() {
    let turn = turn(&[
        delta(json!({"function_call": {"name": "f", "arguments": "{\"x\""}})),
        delta(json!({"function_call": {"arguments": ":1}"}})),
        finish("function_call"),
    ]);
    assert_eq!(calls(&turn), [(None, "f", "{\"x\":1}")]);
}

#[test]
fn thinking_comes_in_either_field_and_knows_the_way_back() {
    for field in ["reasoning_content", "reasoning"] {
        let turn = turn(&[
            delta(json!({field: "Let me "})),
            delta(json!({field: "think."})),
            delta(json!({"content": "4"})),
            finish("stop"),
        ]);
        let ItemBody::Reasoning(reasoning) = &turn.items[0].body else { panic!("thinking comes first") };
        assert_eq!((reasoning.text.as_str(), turn.text().as_str()), ("Let me think.", "4"));
        assert_eq!(reasoning.native.as_ref().unwrap().value, json!({"field": field}));
    }
}

#[test]
fn details_of_thinking_are_put_together_by_index() {
    let detail = |value: Value| delta(json!({"reasoning_details": [value]}));
    let turn = turn(&[
        detail(json!({"type": "reasoning.text", "text": "Let ", "index": 0, "signature": null})),
        detail(json!({"type": "reasoning.text", "text": "me", "index": 0, "signature": "sig"})),
        detail(json!({"type": "reasoning.encrypted", "data": "AA", "index": 1})),
        detail(json!({"type": "reasoning.encrypted", "data": "BB", "index": 1})),
        finish("stop"),
    ]);
    let ItemBody::Reasoning(reasoning) = &turn.items[0].body else { panic!("thinking") };
    assert_eq!(reasoning.text, "Let me");
    assert_eq!(
        reasoning.native.as_ref().unwrap().value["details"],
        json!([
            {"type": "reasoning.text", "text": "Let me", "index": 0, "signature": "sig"},
            {"type": "reasoning.encrypted", "data": "AABB", "index": 1}
        ])
    );
}

#[test]
fn content_in_pieces_is_text_and_thinking() {
    let turn = turn(&[
        delta(json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]})),
        delta(json!({"content": [{"type": "text", "text": "yes"}, {"type": "new_thing", "x": 1}]})),
        finish("stop"),
    ]);
    assert_eq!(turn.text(), "yes");
    assert!(matches!(&turn.items[0].body, ItemBody::Reasoning(reasoning) if reasoning.text == "hm"));
}

#[test]
fn a_refusal_is_a_stop_of_its_own() {
    let turn = turn(&[delta(json!({"refusal": "I'm "})), delta(json!({"refusal": "sorry"})), finish("stop")]);
    assert_eq!((turn.text().as_str(), turn.stop), ("I'm sorry", StopReason::Refusal));
}

#[test]
fn an_error_within_the_stream_ends_it_and_the_text_stays() {
    for (error, kind) in [
        (json!({"error": {"code": 502, "message": "gone"}}), ErrorKind::Unavailable),
        (json!({"error": {"type": "overloaded_error", "message": "gone"}}), ErrorKind::Overloaded),
        (json!({"error": "gone"}), ErrorKind::Unavailable),
        (json!({"object": "error", "message": "gone", "code": 429}), ErrorKind::RateLimited),
        (json!({"x_groq": {"error": {"message": "gone", "type": "server_error"}}}), ErrorKind::Unavailable),
        (
            json!({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "error",
            "error": {"code": 502, "message": "gone"}}]}),
            ErrorKind::Unavailable,
        ),
        (
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "insufficient_system_resource"}]}),
            ErrorKind::Overloaded,
        ),
    ] {
        let text = stream(
            &[delta(json!({"content": "half"})), error.clone(), delta(json!({"content": "late"})), finish("stop")],
            true,
        );
        let events = decode_pieces([text.as_bytes()]);
        let mut accumulator = Accumulator::new();
        events.iter().for_each(|event| accumulator.push(event));
        assert_eq!(accumulator.text(), "half", "{error}");
        assert_eq!(fold(&events).unwrap_err().kind, kind, "{error}");
        assert!(matches!(events.last(), Some(TurnEvent::Failed(_))), "{error}");
    }
    let named = "event: error\ndata: {\"message\": \"gone\"}\n\n";
    assert!(fold(&decode_pieces([named.as_bytes()])).unwrap_err().message.contains("gone"));
}

#[test]
fn what_is_no_json_is_a_protocol_error_that_shows_it() {
    let error = fold(&decode_pieces([&b"data: <html>\n\n"[..]])).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol);
    assert_eq!(error.raw.as_deref(), Some("<html>"));
}

#[test]
fn only_the_first_choice_is_followed() {
    let choice = |index: u32, text: &str| json!({"id": "c", "choices": [{"index": index, "delta": {"content": text}}]});
    let turn = turn(&[choice(0, "a"), choice(1, "X"), choice(0, "b"), finish("stop")]);
    assert_eq!(turn.text(), "ab");
}

#[test]
fn a_whole_answer_gives_the_same_turn_as_a_streamed_one() {
    let body = json!({"id": "c1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Let me look.", "refusal": null, "reasoning_content": "hm",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]
        }}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}});
    let whole = fold(&decode_response(&provider(), names(), body.to_string().as_bytes()).unwrap()).unwrap();
    let streamed = turn(&[
        delta(json!({"reasoning_content": "hm"})),
        delta(json!({"content": "Let me look."})),
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}}]})),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}),
    ]);
    assert_eq!((whole.text(), &whole.stop, whole.usage), (streamed.text(), &streamed.stop, streamed.usage));
    assert_eq!(calls(&whole), calls(&streamed));
    assert_eq!(whole.items.len(), 3);
}

#[test]
fn a_whole_answer_may_be_an_error_or_nothing_of_ours() {
    let decode = |body: &str| decode_response(&provider(), names(), body.as_bytes()).unwrap_err();
    assert_eq!(decode(r#"{"error": {"message": "no", "code": 503}}"#).kind, ErrorKind::Overloaded);
    assert_eq!(decode(r#"{"hello": 1}"#).kind, ErrorKind::Protocol);
    assert_eq!(decode("<html>").kind, ErrorKind::Protocol);
    let lenient = json!({"choices": [{"message": {"content": "yes"}}]}).to_string();
    let turn = fold(&decode_response(&provider(), names(), lenient.as_bytes()).unwrap()).unwrap();
    assert_eq!((turn.text().as_str(), turn.stop), ("yes", StopReason::End));
}

#[test]
fn a_list_of_models_is_read_in_every_shape() {
    let ids = |body: Value| -> Vec<String> {
        decode_models(&provider(), body.to_string().as_bytes()).unwrap().into_iter().map(|model| model.id).collect()
    };
    assert_eq!(ids(json!({"object": "list", "data": [{"id": "a"}, {"id": "b", "owned_by": 3}]})), ["a", "b"]);
    assert_eq!(ids(json!({"models": [{"name": "a"}, {"model": "b"}, {}]})), ["a", "b"]);
    assert_eq!(ids(json!([{"id": "a"}, "b"])), ["a", "b"]);
    assert_eq!(decode_models(&provider(), b"{}").unwrap_err().kind, ErrorKind::Protocol);
}

/// A stream with a bit of everything.
fn rich_stream() -> Vec<Value> {
    vec![
        json!({"choices": [], "prompt_filter_results": [{}]}),
        delta(json!({"role": "assistant", "content": "", "reasoning": "hm €"})),
        delta(json!({"content": "Grüße 😀"})),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"x\":\"ü\"}"}}]})),
        delta(json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]})),
        finish("tool_calls"),
        json!({"id": "c1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}),
    ]
}

#[test]
fn where_a_stream_is_cut_into_pieces_does_not_matter() {
    for line_end in ["\n", "\r\n"] {
        let bytes = stream(&rich_stream(), true).replace('\n', line_end).into_bytes();
        let whole = decode_pieces([bytes.as_slice()]);
        assert!(matches!(whole.last(), Some(TurnEvent::Finished(_))));
        for cut in 0..=bytes.len() {
            assert_eq!(decode_pieces([&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
        }
        assert_eq!(decode_pieces(bytes.chunks(1)), whole);
    }
}

#[test]
fn a_stream_that_ends_early_is_never_a_finished_answer_without_its_finish_reason() {
    let text = stream(&rich_stream(), true);
    let end = text.find("\"finish_reason\":\"tool_calls\"").unwrap();
    for cut in (0..text.len()).filter(|cut| *cut < end) {
        let events = decode_pieces([&text.as_bytes()[..cut]]);
        let Some(TurnEvent::Failed(error)) = events.last() else { panic!("cut at {cut}: {events:?}") };
        assert_eq!(error.kind, ErrorKind::Interrupted, "cut at {cut}");
    }
}

/// Every field taken away and every text and number replaced, one at a time: nothing is worth a panic, and nothing but
/// the finish reason and the words themselves is worth losing the answer.
#[test]
fn missing_fields_and_foreign_values_do_no_harm() {
    fn places(value: &Value, path: &str, out: &mut Vec<String>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
            Value::Array(list) => list.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
            _ => Vec::new(),
        };
        for (key, value) in children {
            let path = format!("{path}/{key}");
            places(value, &path, out);
            out.push(path);
        }
    }
    let chunks = rich_stream();
    for (index, chunk) in chunks.iter().enumerate() {
        let mut paths = Vec::new();
        places(chunk, "", &mut paths);
        for path in paths {
            for with in
                [Some(json!("x")), Some(json!(7)), Some(json!(null)), Some(json!({"x": []})), Some(json!([1])), None]
            {
                let mut changed = chunks.clone();
                let (parent, key) = path.rsplit_once('/').unwrap();
                match (changed[index].pointer_mut(parent), &with) {
                    (Some(Value::Object(map)), None) => {
                        map.shift_remove(key);
                    }
                    _ => *changed[index].pointer_mut(&path).unwrap() = with.clone().unwrap_or_default(),
                }
                let text = stream(&changed, true);
                let result = fold(&decode_pieces([text.as_bytes()]));
                // What carries the finish reason or the name of a call is worth the answer, and nothing else is.
                let carries = matches!(index, 3 | 5 | 6)
                    && ["/choices", "/choices/0", "/choices/0/delta"].contains(&path.as_str());
                let is_essential = carries
                    || ["finish_reason", "tool_calls", "/choices/0/index"].iter().any(|word| path.contains(word));
                assert!(result.is_ok() || is_essential, "{path} -> {with:?}: {:?}", result.err());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode_pieces([bytes.as_slice()]);
        let _ = decode_response(&provider(), names(), &bytes);
        let _ = decode_models(&provider(), &bytes);
    }

    /// A turn that ends with an error of some kind or a finish, and nothing after it.
    #[test]
    fn there_is_exactly_one_end(cut in 0usize..2000, garbage in "[a-z\n:{}\"]{0,20}") {
        let mut text = stream(&rich_stream(), true).into_bytes();
        text.truncate(cut.min(text.len()));
        text.extend(garbage.bytes());
        let events = decode_pieces([text.as_slice()]);
        let ends = events.iter().filter(|event| matches!(event, TurnEvent::Finished(_) | TurnEvent::Failed(_))).count();
        prop_assert_eq!(ends, 1);
        prop_assert!(matches!(events.last(), Some(TurnEvent::Finished(_) | TurnEvent::Failed(_))));
    }
}
