#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use placet_core::part::Native;
use placet_core::{Accumulator, Env, ErrorKind, ItemBody, Part, ProviderError, StopReason, Turn, TurnEvent, Usage};
use serde_json::{Value, json};

pub(super) fn provider() -> ProviderId {
    ProviderId::new("google")
}

pub(super) fn pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<TurnEvent> {
    let mut decoder = decode_events(&Dialect::new(provider()), Names::default());
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut events);
    }
    decoder.end(&mut events);
    events
}

pub(super) fn fold(events: &[TurnEvent]) -> Result<Turn, ProviderError> {
    let mut accumulator = Accumulator::new();
    events.iter().for_each(|event| accumulator.push(event));
    accumulator.finish(&provider(), &Env::system())
}

fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

/// A chunk with these parts.
fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}], "modelVersion": "m", "responseId": "r"})
}

fn finish(reason: &str) -> Value {
    json!({"candidates": [{"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": reason, "index": 0}],
        "modelVersion": "m", "responseId": "r"})
}

fn read(chunks: &[Value]) -> Result<Turn, ProviderError> {
    fold(&pieces([sse(chunks).as_bytes()]))
}

fn turn(chunks: &[Value]) -> Turn {
    read(chunks).unwrap_or_else(|error| panic!("{error:?}"))
}

fn whole(body: &Value) -> Result<Turn, ProviderError> {
    fold(&decode_response(&provider(), Names::default(), body.to_string().as_bytes())?)
}

fn calls(turn: &Turn) -> Vec<(Option<&str>, &str, &str)> {
    turn.calls().map(|call| (call.provider_id.as_deref(), call.name.as_str(), call.arguments.as_text())).collect()
}

fn state(native: &Option<Native>) -> Value {
    native.as_ref().map_or(Value::Null, |native| native.value.clone())
}

/// The state of each item, in order.
fn states(turn: &Turn) -> Vec<Value> {
    let states = turn.items.iter().map(|item| match &item.body {
        ItemBody::Reasoning(reasoning) => state(&reasoning.native),
        ItemBody::ToolCall(call) => state(&call.native),
        ItemBody::Message(message) => match &message.parts[0] {
            Part::Text(text) => state(&text.native),
            Part::Image(media) => state(&media.native),
            _ => Value::Null,
        },
        _ => Value::Null,
    });
    states.collect()
}

fn rich() -> Vec<Value> {
    vec![
        parts(json!([{"text": "Hm €. ", "thought": true}])),
        parts(json!([{"text": "Grüße 😀"}])),
        parts(
            json!([{"executableCode": {"language": "PYTHON", "code": "print(\"{}\\\"\")"}, "thoughtSignature": "c2ln"}]),
        ),
        parts(json!([{"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "}\n"}}])),
        parts(json!([{"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thoughtSignature": "aW1n"}])),
        parts(json!([{"functionCall": {"name": "f", "args": {"x": "ü"}, "id": "a"}, "thoughtSignature": "c2"}])),
        parts(json!([{"functionCall": {"name": "g", "willContinue": true}}])),
        parts(
            json!([{"functionCall": {"partialArgs": [{"jsonPath": "$.y", "stringValue": "1"}], "willContinue": true}}]),
        ),
        json!({"candidates": [{"content": {"parts": [{"functionCall": {}}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}}),
    ]
}

#[test]
fn rule_1_gemini_bytes_may_be_cut_anywhere() {
    let compact = sse(&rich());
    let array = format!("[{}\n]", rich().iter().map(Value::to_string).collect::<Vec<_>>().join("\n, \r\n"));
    let array = array.as_str();
    let expected = pieces([compact.as_bytes()]);
    assert!(matches!(expected.last(), Some(TurnEvent::Finished(_))), "{expected:?}");
    assert_eq!(fold(&expected).unwrap().items.len(), 7);
    for (text, step) in [
        (compact.clone(), 1),
        (compact.replace('\n', "\r\n"), 1),
        (array.to_owned(), 3),
        (compact.replace("data: ", "data:"), 37),
        (format!("\u{feff}: hi\n\n{compact}"), 37),
        (array.replace(",\"", ", \n\""), 37),
    ] {
        // Arguments keep the space that they were written with.
        let plain = |events: Vec<TurnEvent>| -> Vec<TurnEvent> {
            let plain = |event| match event {
                TurnEvent::Call(mut call) => {
                    call.arguments =
                        serde_json::from_str::<Value>(&call.arguments).map_or(call.arguments, |v| v.to_string());
                    TurnEvent::Call(call)
                }
                event => event,
            };
            events.into_iter().map(plain).collect()
        };
        for cut in (0..=text.len()).step_by(step) {
            let (head, tail) = text.as_bytes().split_at(cut);
            assert_eq!(plain(pieces([head, tail])), expected, "cut at {cut} of {text}");
        }
        assert_eq!(plain(pieces(text.as_bytes().chunks(1))), expected);
    }
}

#[test]
fn row_61_gemini_characters_may_be_split() {
    let text = sse(&[parts(json!([{"text": "日本語 😀"}])), finish("STOP")]);
    for size in 1..8 {
        assert_eq!(fold(&pieces(text.as_bytes().chunks(size))).unwrap().text(), "日本語 😀");
    }
}

#[test]
fn rule_2_gemini_events_need_no_name() {
    let named: String = rich().iter().map(|chunk| format!("event: message\nid: 7\ndata: {chunk}\n\n")).collect();
    assert_eq!(pieces([named.as_bytes()]), pieces([sse(&rich()).as_bytes()]));
}

#[test]
fn rule_3_gemini_what_is_unknown_is_kept() {
    let turn = turn(&[
        json!({"weather": "fine"}),
        json!({"candidates": [{"content": {"parts": [
            {"text": "a", "partMetadata": {"x": 1}}, {"newThing": {"y": 2}}, {"text": "b", "odd": [1]}, {}, 7, null
        ]}, "newField": 3, "finishReason": "SOMETHING_NEW"}], "modelStatus": {"modelStage": "STABLE"},
            "usageMetadata": {"promptTokenCount": 1, "newCount": 5}}),
    ]);
    assert_eq!(turn.text(), "ab");
    assert_eq!(turn.stop, StopReason::Other("SOMETHING_NEW".into()));
    assert_eq!(states(&turn), [json!({"partMetadata": {"x": 1}}), Value::Null, json!({"odd": [1]})]);
    assert_eq!(
        turn.items[1].body,
        ItemBody::Native(Native { provider: provider(), value: json!({"newThing": {"y": 2}}) })
    );
    assert_eq!(
        state(&turn.native),
        json!({
            "candidate": {"newField": 3}, "response": {"weather": "fine", "modelStatus": {"modelStage": "STABLE"}},
            "usage": {"newCount": 5}
        })
    );
}

#[test]
fn rule_4_gemini_a_stream_without_a_finish_reason_was_interrupted() {
    for text in [
        String::new(),
        "[".to_owned(),
        sse(&[parts(json!([{"text": "half"}]))]),
        format!("[{}", parts(json!([{"text": "half"}]))),
        sse(&[parts(json!([{"functionCall": {"name": "f", "args": {}}}]))]),
    ] {
        let error = fold(&pieces([text.as_bytes()])).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Interrupted, "{text}");
        assert!(error.kind.is_transient());
    }
    let text = sse(&rich());
    let end = text.find("\"finishReason\"").unwrap();
    for cut in 0..end {
        assert_eq!(fold(&pieces([&text.as_bytes()[..cut]])).unwrap_err().kind, ErrorKind::Interrupted, "cut at {cut}");
    }
    // It may go on after one: this really happens with the provider's own tools.
    let more = turn(&[parts(json!([{"text": "a"}])), finish("STOP"), parts(json!([{"text": "b"}])), finish("STOP")]);
    assert_eq!((more.text().as_str(), more.stop), ("ab", StopReason::End));
}

#[test]
fn rule_5_gemini_an_error_may_come_in_a_good_answer() {
    let error = json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    for chunk in [error.clone(), json!([error])] {
        let events =
            pieces([sse(&[parts(json!([{"text": "half"}, {"functionCall": {"name": "f"}}])), chunk, finish("STOP")])
                .as_bytes()]);
        let mut accumulator = Accumulator::new();
        events.iter().for_each(|event| accumulator.push(event));
        assert_eq!(accumulator.text(), "half");
        let error = accumulator.finish(&provider(), &Env::system()).unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str(), error.code.as_deref()),
            (ErrorKind::Overloaded, "The model is overloaded.", Some("UNAVAILABLE"))
        );
    }
    assert_eq!(whole(&error).unwrap_err().kind, ErrorKind::Overloaded);
}

#[test]
fn rule_6_gemini_no_arguments_are_an_empty_object_and_a_cut_is_a_cut() {
    for call in [json!({"name": "f"}), json!({"name": "f", "args": {}}), json!({"name": "f", "args": null})] {
        let turn = turn(&[parts(json!([{"functionCall": call}])), finish("STOP")]);
        let call = turn.calls().next().unwrap();
        assert_eq!((call.arguments.parse(), call.arguments.replay_text()), (Ok(serde_json::Map::new()), "{}"));
    }
    for (reason, stop) in [("MAX_TOKENS", StopReason::MaxTokens), ("SAFETY", StopReason::ContentFilter)] {
        let turn = turn(&[
            parts(json!([{"functionCall": {"name": "f", "willContinue": true}}])),
            parts(
                json!([{"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "ha", "willContinue": true}], "willContinue": true}}]),
            ),
            finish(reason),
        ]);
        assert_eq!(turn.stop, stop);
        assert!(turn.stop.is_cut());
    }
}

#[test]
fn row_63_gemini_a_cut_call_is_reported_as_cut() {
    let turn = turn(&[parts(json!([{"functionCall": {"name": "f", "args": {"a": 1}}}])), finish("MAX_TOKENS")]);
    assert!(turn.stop.is_cut());
}

#[test]
fn rule_7_gemini_usage_is_cumulative_and_the_last_value_counts() {
    let chunk = |usage: Value| json!({"candidates": [], "usageMetadata": usage, "responseId": "r"});
    let turn = turn(&[
        chunk(json!({"promptTokenCount": 10, "candidatesTokenCount": 1, "totalTokenCount": 11})),
        parts(json!([{"text": "a"}])),
        chunk(json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 7})),
        finish("STOP"),
        chunk(json!({"trafficType": "ON_DEMAND"})),
    ]);
    assert_eq!(turn.usage, Some(Usage { input: 10, output: 12, reasoning: 7, ..Usage::default() }));
    assert_eq!(state(&turn.native)["usage"], json!({"trafficType": "ON_DEMAND"}));
}

#[test]
fn row_32_gemini_usage_on_every_chunk_is_no_sum() {
    let one = json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 2}});
    assert_eq!(turn(&[one.clone(), one.clone(), one]).usage.map(|usage| usage.total()), Some(6));
}

#[test]
fn rule_9_gemini_ids_may_be_missing_or_used_again() {
    let call = |id: Option<&str>| json!({"functionCall": {"name": "f", "args": {}, "id": id}});
    let turn = turn(&[parts(json!([call(None), call(Some("a")), call(Some("a"))])), finish("STOP")]);
    assert_eq!(calls(&turn), [(None, "f", "{}"), (Some("a"), "f", "{}"), (Some("a"), "f", "{}")]);
    let ids: std::collections::HashSet<_> = turn.calls().map(|call| &call.id).collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn rule_10_gemini_errors_in_every_shape() {
    let said = json!({"error": {"code": 400, "message": "Bad.", "status": "INVALID_ARGUMENT"}});
    for (body, message) in [
        (said.to_string(), "Bad."),
        (json!([said]).to_string(), "Bad."),
        ("<h1>Bad gateway</h1>".to_owned(), "Bad gateway"),
        ("no".to_owned(), "no"),
    ] {
        let error = decode_error(&provider(), 400, &http::HeaderMap::new(), body.as_bytes());
        assert_eq!((error.kind, error.message.as_str(), error.status), (ErrorKind::InvalidRequest, message, Some(400)));
        assert_eq!(error.raw, Some(body));
    }
}

#[test]
fn rule_11_gemini_only_what_may_pass_is_tried_again() {
    for (status, word, transient) in [
        (429, "RESOURCE_EXHAUSTED", true),
        (500, "INTERNAL", true),
        (503, "UNAVAILABLE", true),
        (504, "DEADLINE_EXCEEDED", true),
        (400, "INVALID_ARGUMENT", false),
        (401, "UNAUTHENTICATED", false),
        (403, "PERMISSION_DENIED", false),
        (404, "NOT_FOUND", false),
    ] {
        let body = json!({"error": {"code": status, "message": "m", "status": word}}).to_string();
        let error = decode_error(&provider(), status, &http::HeaderMap::new(), body.as_bytes());
        assert_eq!((error.kind.is_transient(), error.code.as_deref()), (transient, Some(word)), "{word}");
    }
}

#[test]
fn tricky_5_a_a_call_makes_a_tool_turn_unless_the_answer_was_cut() {
    let call = parts(json!([{"functionCall": {"name": "f", "args": {}}}]));
    let stop = |reason: &str| {
        let events = pieces([sse(&[call.clone(), finish(reason)]).as_bytes()]);
        match events.last() {
            Some(TurnEvent::Finished(finished)) => finished.stop.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(stop("STOP"), StopReason::ToolCalls);
    assert_eq!(stop("MAX_TOKENS"), StopReason::MaxTokens);
    assert_eq!(stop("SAFETY"), StopReason::ContentFilter);
    assert_eq!(stop("UNEXPECTED_TOOL_CALL"), StopReason::Other("UNEXPECTED_TOOL_CALL".into()));
    assert_eq!(turn(&[parts(json!([{"text": "x"}])), finish("STOP")]).stop, StopReason::End);
}

#[test]
fn row_48_gemini_a_call_and_its_end_may_come_apart() {
    let turn = turn(&[parts(json!([{"functionCall": {"name": "f", "args": {"a": 1}}}])), finish("STOP")]);
    assert_eq!((turn.stop.clone(), calls(&turn)), (StopReason::ToolCalls, vec![(None, "f", "{\"a\":1}")]));
}

#[test]
fn row_49_gemini_a_filter_wins_over_calls() {
    for reason in ["SAFETY", "RECITATION", "PROHIBITED_CONTENT", "SPII", "BLOCKLIST", "MODEL_ARMOR", "IMAGE_SAFETY"] {
        let turn = turn(&[parts(json!([{"functionCall": {"name": "f"}}])), finish(reason)]);
        assert_eq!(turn.stop, StopReason::ContentFilter);
        let kept = state(&turn.native)["candidate"]["finishReason"].clone();
        assert_eq!(kept, if reason == "SAFETY" { Value::Null } else { reason.into() });
    }
}

#[test]
fn row_6_gemini_parallel_calls_in_separate_chunks_stay_apart() {
    let call = |name: &str, x: u8| parts(json!([{"functionCall": {"name": name, "args": {"x": x}}}]));
    let turn = turn(&[call("f", 1), call("f", 2), call("g", 3), finish("STOP")]);
    assert_eq!(calls(&turn), [(None, "f", "{\"x\":1}"), (None, "f", "{\"x\":2}"), (None, "g", "{\"x\":3}")]);
}

#[test]
fn tricky_5_b_of_parallel_calls_only_the_first_is_signed() {
    let turn = turn(&[
        parts(json!([
            {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "g", "args": {}}}
        ])),
        finish("STOP"),
    ]);
    assert_eq!(states(&turn), [json!({"thoughtSignature": "c2ln"}), Value::Null]);
}

#[test]
fn tricky_5_c_a_signature_may_sit_on_an_empty_part() {
    let turn = turn(&[
        parts(json!([{"text": "Hm.", "thought": true}])),
        parts(json!([{"text": "", "thought": true, "thoughtSignature": "dGg="}])),
        parts(json!([{"text": "42"}])),
        json!({"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": "dHg="}]}, "finishReason": "STOP"}]}),
    ]);
    assert_eq!(turn.text(), "42");
    assert_eq!(
        states(&turn),
        [json!({}), json!({"thoughtSignature": "dGg="}), Value::Null, json!({"thoughtSignature": "dHg="})]
    );
}

#[test]
fn row_56_gemini_a_signed_part_is_never_merged() {
    let turn = turn(&[
        parts(json!([{"text": "a"}, {"text": "b"}, {"text": "c", "thoughtSignature": "c2ln"}, {"text": "d"}])),
        finish("STOP"),
    ]);
    let texts: Vec<String> = turn
        .items
        .iter()
        .map(|item| match &item.body {
            ItemBody::Message(message) => message.text(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["ab", "c", "d"]);
    assert_eq!(states(&turn)[1], json!({"thoughtSignature": "c2ln"}));
}

#[test]
fn tricky_5_d_candidates_without_content_and_no_candidates() {
    for candidate in [
        json!({"finishReason": "STOP"}),
        json!({"content": {"role": "model"}, "finishReason": "STOP"}),
        json!({"content": {"parts": []}, "finishReason": "STOP"}),
    ] {
        let turn = whole(&json!({"candidates": [candidate], "modelVersion": "m"})).unwrap();
        assert_eq!((turn.items.len(), turn.stop), (0, StopReason::End));
    }
    let feedback = json!({"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "No."});
    let blocked = whole(&json!({"promptFeedback": feedback, "modelVersion": "m"})).unwrap();
    assert_eq!((blocked.items.len(), blocked.stop), (0, StopReason::ContentFilter));
    assert_eq!(blocked.native.unwrap().value["response"]["promptFeedback"], feedback);
    let nothing = whole(&json!({"usageMetadata": {"promptTokenCount": 3}, "modelVersion": "m"})).unwrap_err();
    assert_eq!(nothing.kind, ErrorKind::Unavailable);
    assert_eq!(whole(&json!({"hello": 1})).unwrap_err().kind, ErrorKind::Protocol);
    // A forgotten finish reason of a whole body.
    assert_eq!(whole(&json!({"candidates": [{"content": {"parts": [{"text": "x"}]}}]})).unwrap().text(), "x");
}

#[test]
fn row_50_gemini_a_finish_without_content() {
    let end = json!({"candidates": [{"finishReason": "STOP", "index": 0}], "usageMetadata": {"promptTokenCount": 2}});
    let turn = turn(&[parts(json!([{"text": "x"}])), end]);
    assert_eq!((turn.text().as_str(), turn.stop, turn.usage.map(|usage| usage.input)), ("x", StopReason::End, Some(2)));
}

#[test]
fn row_51_gemini_a_malformed_call_is_a_failure() {
    for reason in ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"] {
        let body = json!({"candidates": [{"finishReason": reason, "finishMessage": "print(", "index": 0}], "modelVersion": "m"});
        let error = whole(&body).unwrap_err();
        assert!(error.kind.is_transient() && error.message.contains("print("), "{error:?}");
        assert_eq!(error.code.as_deref(), Some(reason));
        assert_eq!(read(&[body]).unwrap_err().code.as_deref(), Some(reason));
    }
    let error = whole(&json!({"candidates": [{"finishReason": "MISSING_THOUGHT_SIGNATURE"}]})).unwrap_err();
    assert!(!error.kind.is_transient());
}

#[test]
fn tricky_5_e_arguments_may_come_value_by_value() {
    let piece = |call: Value| parts(json!([{"functionCall": call}]));
    let set = |path: &str, text: &str| json!({"partialArgs": [{"jsonPath": path, "stringValue": text}], "willContinue": true});
    let turn = turn(&[
        json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "willContinue": true}, "thoughtSignature": "c2ln"}]}}]}),
        piece(
            json!({"partialArgs": [{"jsonPath": "$.a", "stringValue": "x", "willContinue": true}], "willContinue": true}),
        ),
        piece(
            json!({"partialArgs": [{"jsonPath": "$.a", "stringValue": "y"}, {"jsonPath": "$.n[1].k", "numberValue": 0.5}], "willContinue": true}),
        ),
        piece(json!({})),
        // The same name again is another call, with a state of its own.
        piece(json!({"name": "f", "willContinue": true})),
        piece(set("$.a", "z")),
        piece(json!({})),
        // The end of it may be missing, before the next one and at the end.
        piece(json!({"name": "g", "willContinue": true})),
        piece(set("$.b", "1")),
        piece(json!({"name": "h"})),
        piece(json!({"name": "g", "willContinue": true})),
        piece(set("$.b", "2")),
        finish("STOP"),
    ]);
    assert_eq!(
        calls(&turn),
        [
            (None, "f", r#"{"a":"xy","n":[null,{"k":0.5}]}"#),
            (None, "f", r#"{"a":"z"}"#),
            (None, "g", r#"{"b":"1"}"#),
            (None, "h", "{}"),
            (None, "g", r#"{"b":"2"}"#)
        ]
    );
    assert_eq!(states(&turn)[0], json!({"thoughtSignature": "c2ln"}));
}

#[test]
fn row_57_gemini_a_place_that_is_none_breaks_the_answer_off() {
    let error = read(&[
        parts(json!([{"functionCall": {"name": "f", "willContinue": true}}])),
        parts(json!([{"functionCall": {"partialArgs": [{"jsonPath": "$.a[999999999]", "numberValue": 1}], "willContinue": true}}])),
        finish("STOP"),
    ])
    .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol);
}

#[test]
fn tricky_5_f_thoughts_are_counted_beside_and_cached_input_within() {
    let usage = json!({
        "promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 20, "thoughtsTokenCount": 30,
        "toolUsePromptTokenCount": 7, "totalTokenCount": 157, "serviceTier": "standard",
        "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 9}, {"modality": "TEXT", "tokenCount": 91}]
    });
    let turn = turn(&[
        json!({"candidates": [{"finishReason": "STOP", "groundingMetadata": {"webSearchQueries": ["a", "b"]}}], "usageMetadata": usage}),
    ]);
    let wanted =
        Usage { input: 47, cache_read: 60, output: 50, reasoning: 30, input_audio: 9, searches: 2, ..Usage::default() };
    assert_eq!((turn.usage, turn.service_tier.as_deref()), (Some(wanted), Some("standard")));
    assert_eq!(turn.usage.unwrap().total(), 157);
}

#[test]
fn tricky_5_h_errors_say_what_sort_they_are() {
    let error = |status: u16, body: Value| {
        decode_error(&provider(), status, &http::HeaderMap::new(), body.to_string().as_bytes())
    };
    let expired = error(
        403,
        json!({"error": {"code": 403, "message": "CachedContent not found (or permission denied)", "status": "PERMISSION_DENIED"}}),
    );
    assert_eq!(expired.kind, ErrorKind::Permission);
    let limited = error(
        429,
        json!([{"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]}}]),
    );
    assert_eq!(limited.kind, ErrorKind::RateLimited);
    assert!(limited.raw.unwrap().contains("\"retryDelay\":\"34s\""), "whoever decides about retry finds it");
}

#[test]
fn citations_and_sources_stand_with_the_text() {
    let turn = turn(&[
        json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "groundingMetadata": {}, "citationMetadata": {"citations": [{"uri": "u"}]}}]}),
        json!({"candidates": [{"content": {"parts": [{"text": "b"}]}, "finishReason": "STOP", "safetyRatings": [{"category": "C"}],
            "groundingMetadata": {"webSearchQueries": ["q"]}, "citationMetadata": {"citations": [{"uri": "v"}]}}]}),
    ]);
    assert_eq!(turn.text(), "ab");
    let wanted = json!({"groundingMetadata": {"webSearchQueries": ["q"]}, "citationMetadata": {"citations": [{"uri": "u"}, {"uri": "v"}]}});
    assert_eq!(states(&turn), [wanted]);
    assert_eq!(state(&turn.native), json!({"candidate": {"safetyRatings": [{"category": "C"}]}}));
}

#[test]
fn only_the_first_candidate_is_followed() {
    let candidate = |index: u8, text: &str| json!({"candidates": [{"index": index, "content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]});
    assert_eq!(turn(&[candidate(0, "a"), candidate(1, "X"), candidate(0, "b")]).text(), "ab");
}

#[test]
fn an_aliased_name_comes_back_as_the_tools_own() {
    let name = placet_core::ToolName::new("größe");
    let names = Names::of([&name]);
    let body = json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": crate::names::alias("größe"), "args": {}}}]}, "finishReason": "STOP"}]});
    let events = decode_response(&provider(), names, body.to_string().as_bytes()).unwrap();
    assert_eq!(calls(&fold(&events).unwrap()), [(None, "größe", "{}")]);
}

/// Every field taken away and every value replaced, one at a time: nothing is worth a panic, and what is not touched stays.
#[test]
fn missing_fields_and_foreign_values_do_no_harm() {
    fn places(value: &Value, path: &str, out: &mut Vec<String>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
            Value::Array(list) => list.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
            _ => Vec::new(),
        };
        for (key, value) in children {
            let path = format!("{path}/{key}");
            places(value, &path, out);
            out.push(path);
        }
    }
    let chunks = Value::Array(rich());
    let mut all = Vec::new();
    places(&chunks, "", &mut all);
    let mut survived = 0;
    for place in &all {
        for foreign in [Value::Null, json!(7), json!("x"), json!([{"a": [null]}]), json!({"a": {"b": 1}}), json!(-0.5)]
        {
            let mut broken = chunks.clone();
            *broken.pointer_mut(place).unwrap() = foreign;
            let text = sse(broken.as_array().unwrap());
            let result = fold(&pieces([text.as_bytes()]));
            survived += usize::from(result.is_ok());
        }
    }
    assert!(survived * 10 > all.len() * 6 * 9, "{survived} of {}", all.len() * 6);
}

#[test]
fn a_whole_answer_is_the_fold_of_its_stream() {
    let mut body = rich().swap_remove(8);
    let list: Vec<Value> = rich()
        .iter()
        .flat_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array().unwrap().clone())
        .collect();
    body["candidates"][0]["content"]["parts"] = list.into();
    let (whole, streamed) = (whole(&body).unwrap(), turn(&rich()));
    assert_eq!((whole.text(), calls(&whole), states(&whole)), (streamed.text(), calls(&streamed), states(&streamed)));
    let array = Value::Array(rich());
    let events = decode_response(&provider(), Names::default(), array.to_string().as_bytes()).unwrap();
    assert_eq!(events, pieces([sse(&rich()).as_bytes()]));
}

#[test]
fn row_10_gemini_a_call_may_have_no_arguments_at_all() {
    let turn = turn(&[parts(json!([{"functionCall": {"name": "f"}}])), finish("STOP")]);
    assert_eq!(calls(&turn), [(None, "f", "{}")]);
}

#[test]
fn row_21_gemini_what_keeps_a_connection_open_is_no_event() {
    let text = format!(": keep-alive\n\ndata:\n\ndata: [DONE]\n\n{}\ndata: {{}}\n\n", sse(&rich()));
    assert_eq!(pieces([text.as_bytes()]), pieces([sse(&rich()).as_bytes()]));
}

#[test]
fn row_31_gemini_usage_may_come_after_everything() {
    let last = json!({"usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 6}, "responseId": "r"});
    let turn = turn(&[parts(json!([{"text": "x"}])), finish("STOP"), last]);
    assert_eq!(turn.usage.map(|usage| (usage.input, usage.output)), Some((5, 6)));
}

#[test]
fn row_39_gemini_a_thought_that_is_only_a_signature_is_kept() {
    let turn = turn(&[parts(json!([{"thought": true, "thoughtSignature": "c2ln"}, {"text": "x"}])), finish("STOP")]);
    assert_eq!(states(&turn), [json!({"thoughtSignature": "c2ln"}), Value::Null]);
    assert!(matches!(&turn.items[0].body, ItemBody::Reasoning(_)));
}

#[test]
fn row_41_gemini_every_thought_keeps_its_own_signature() {
    let thought = |text: &str, signature: &str| json!({"text": text, "thought": true, "thoughtSignature": signature});
    let turn = turn(&[parts(json!([thought("a", "MQ=="), thought("b", "Mg==")])), finish("STOP")]);
    assert_eq!(states(&turn), [json!({"thoughtSignature": "MQ=="}), json!({"thoughtSignature": "Mg=="})]);
}

#[test]
fn row_46_gemini_an_error_chunk_is_no_stop() {
    let error = json!({"error": {"code": 500, "message": "Internal error.", "status": "INTERNAL"}});
    let error = read(&[parts(json!([{"text": "half"}])), error]).unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::Unavailable, Some(500)));
}
