#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use crate::names::Names;
use crate::protocol::Protocol::{self, AnthropicMessages, Gemini, OpenaiChat, OpenaiResponses};
use crate::{AnswerHead, left_out};
use placet_core::env::ManualClock;
use placet_core::{Accumulator, Env, ErrorKind, Timestamp, Turn};
use serde_json::{Value, json};

fn env() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1)
}

/// What becomes of a client's body in another protocol: the body and what was left out, or the refusal.
fn through(from: Protocol, to: Protocol, body: &Value) -> Result<(Value, Vec<String>), String> {
    let read = from.decode_request(body.to_string().as_bytes(), &"client".into(), &env());
    let mut read = read.expect("a request").request;
    read.model = "m".into();
    let written = to.encode_request(&read, &to.as_str().into(), false).map_err(|error| {
        assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
        error.message
    })?;
    let body = serde_json::from_slice(&written.body).expect("JSON");
    Ok((body, written.omitted.into_iter().map(|omission| omission.what).collect()))
}

fn others(than: Protocol) -> impl Iterator<Item = Protocol> {
    Protocol::ALL.into_iter().filter(move |protocol| *protocol != than)
}

fn with(mut body: Value, more: Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    body
}

fn chat(more: Value) -> Value {
    with(json!({"model": "m", "messages": [{"role": "user", "content": "a"}]}), more)
}

fn responses(more: Value) -> Value {
    with(json!({"model": "m", "input": "a"}), more)
}

fn anthropic(more: Value) -> Value {
    with(json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]}), more)
}

fn gemini(more: Value) -> Value {
    with(json!({"contents": [{"role": "user", "parts": [{"text": "a"}]}]}), more)
}

fn say(content: Value) -> Value {
    anthropic(json!({"messages": [{"role": "user", "content": content}]}))
}

#[test]
fn search_results_and_documents_of_blocks_are_told_as_their_texts() {
    let result = json!({"type": "search_result", "source": "https://example.com/a", "title": "On skies",
        "content": [{"type": "text", "text": "The sky is blue."}, {"type": "text", "text": "At noon."}],
        "citations": {"enabled": true}});
    let document = json!({"type": "document", "title": "On seas", "context": "From 1990.", "source": {"type": "content",
        "content": [{"type": "text", "text": "The sea is green."},
            {"type": "image", "source": {"type": "url", "url": "https://example.com/s.png"}}]}});
    let plain = json!({"type": "document", "source": {"type": "content", "content": "The land is brown."}});
    let body = say(json!([result, document, plain, {"type": "text", "text": "Well?"}]));
    for to in others(AnthropicMessages) {
        let (written, omitted) = through(AnthropicMessages, to, &body).unwrap();
        let text = written.to_string();
        for said in [
            "On skies",
            "https://example.com/a",
            "The sky is blue.",
            "At noon.",
            "On seas",
            "From 1990.",
            "The sea is green.",
            "https://example.com/s.png",
            "The land is brown.",
            "Well?",
        ] {
            assert!(text.contains(said), "{to}: {said}: {text}");
        }
        assert_eq!(omitted, ["search_result.citations"], "{to}");
    }
    let (written, omitted) = through(AnthropicMessages, AnthropicMessages, &body).unwrap();
    assert_eq!((&written["messages"], omitted), (&body["messages"], Vec::new()), "there they are blocks");
    // Within the result of a tool, too.
    let body = anthropic(json!({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [result]}]}],
        "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]}));
    for to in Protocol::ALL {
        let (written, _) = through(AnthropicMessages, to, &body).unwrap();
        assert!(written.to_string().contains("The sky is blue."), "{to}: {written}");
    }
}

#[test]
fn what_a_user_says_in_words_of_one_protocol_is_refused_elsewhere() {
    let block = |block: Value| (AnthropicMessages, say(json!([{"type": "text", "text": "a"}, block])));
    let item = |item: Value| (OpenaiResponses, responses(json!({"input": [{"role": "user", "content": "a"}, item]})));
    let part = |part: Value| (OpenaiChat, chat(json!({"messages": [{"role": "user", "content": [part]}]})));
    let given = |part: Value| (Gemini, gemini(json!({"contents": [{"role": "user", "parts": [part]}]})));
    for ((from, body), named) in [
        (block(json!({"type": "container_upload", "file_id": "f"})), "native_part.container_upload"),
        (block(json!({"type": "document", "source": {"type": "odd"}})), "native_part.document"),
        (item(json!({"type": "item_reference", "id": "msg_1"})), "native_item.item_reference"),
        (item(json!({"id": "msg_1"})), "native_item.item_reference"),
        (item(json!({"type": "compaction", "encrypted_content": "x"})), "native_item.compaction"),
        (
            item(json!({"type": "mcp_approval_response", "approve": true, "approval_request_id": "r"})),
            "native_item.mcp_approval_response",
        ),
        (
            item(json!({"type": "computer_call_output", "call_id": "c", "output": {}})),
            "hosted_call.computer_call_output",
        ),
        (part(json!({"type": "video_url", "video_url": {"url": "https://x"}})), "native_part.video_url"),
        (given(json!({"executableCode": {"code": "1", "language": "PYTHON"}})), "native_part.executableCode"),
        ((Gemini, gemini(json!({"contents": [{"role": "odd", "parts": [{"text": "a"}]}]}))), "native_item.odd"),
    ] {
        for to in others(from) {
            let refused = through(from, to, &body).unwrap_err();
            assert!(refused.contains(&format!("`{named}`")), "{from} to {to}: {refused}");
        }
    }
}

#[test]
fn a_summary_stays_what_was_said() {
    let body = anthropic(json!({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "compaction", "content": "They spoke of skies."},
            {"type": "text", "text": "Yes."}]},
        {"role": "user", "content": "b"}]}));
    for to in others(AnthropicMessages) {
        let (written, omitted) = through(AnthropicMessages, to, &body).unwrap();
        assert!(written.to_string().contains("They spoke of skies."), "{to}: {written}");
        assert_eq!(omitted, [""; 0], "{to}");
    }
}

#[test]
fn a_grammar_goes_where_there_are_grammars() {
    let of_chat = json!([{"type": "custom", "custom": {"name": "math", "description": "Works it out.", "format":
        {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: \"1\""}}}}]);
    let of_responses = json!([{"type": "custom", "name": "math", "description": "Works it out.", "format":
        {"type": "grammar", "syntax": "lark", "definition": "start: \"1\""}}]);
    let called = |tools: &Value| {
        chat(json!({"tools": tools, "messages": [{"role": "user", "content": "a"},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "math", "input": "1"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "1"}, {"role": "user", "content": "b"}]}))
    };
    let (written, omitted) = through(OpenaiChat, OpenaiResponses, &called(&of_chat)).unwrap();
    assert_eq!((&written["tools"], &omitted), (&of_responses, &vec!["tool_call.native".to_owned()]));
    assert_eq!(written["input"][1]["type"], "custom_tool_call");
    let asked = responses(json!({"tools": of_responses, "input": [{"role": "user", "content": "a"},
        {"type": "custom_tool_call", "call_id": "c", "name": "math", "input": "1"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "1"}]}));
    let (written, omitted) = through(OpenaiResponses, OpenaiChat, &asked).unwrap();
    assert_eq!((&written["tools"], omitted), (&of_chat, Vec::new()));
    assert_eq!(written["messages"][1]["tool_calls"][0]["custom"], json!({"name": "math", "input": "1"}));
    for to in [AnthropicMessages, Gemini] {
        for (from, body) in [(OpenaiChat, called(&of_chat)), (OpenaiResponses, asked.clone())] {
            let (written, omitted) = through(from, to, &body).unwrap();
            assert!(omitted.iter().any(|what| what == "tool.grammar"), "{to}: {omitted:?}");
            // The model is told what nobody else holds it to.
            let told = "Works it out.\n\nWhat it is called with has to match this lark grammar:\nstart: \"1\"";
            assert!(written["tools"].to_string().contains(&json!(told).to_string()), "{to}: {written}");
        }
    }
    // Without one it is a tool with a text anywhere.
    let free = responses(json!({"tools": [{"type": "custom", "name": "math", "format": {"type": "text"}}]}));
    for to in [AnthropicMessages, Gemini, OpenaiChat] {
        assert_eq!(through(OpenaiResponses, to, &free).unwrap().1, [""; 0], "{to}");
    }
}

#[test]
fn several_answers_are_asked_for_or_refused() {
    let two = chat(json!({"n": 2}));
    let candidates = gemini(json!({"generationConfig": {"candidateCount": 2}}));
    let (written, omitted) = through(OpenaiChat, Gemini, &two).unwrap();
    assert_eq!((&written["generationConfig"]["candidateCount"], omitted), (&json!(2), Vec::new()));
    let (written, omitted) = through(Gemini, OpenaiChat, &candidates).unwrap();
    assert_eq!((&written["n"], omitted), (&json!(2), Vec::new()));
    for to in [OpenaiResponses, AnthropicMessages] {
        for (from, body) in [(OpenaiChat, &two), (Gemini, &candidates)] {
            let refused = through(from, to, body).unwrap_err();
            assert!(refused.contains("`native.n`"), "{from} {to}: {refused}");
        }
    }
    for to in Protocol::ALL {
        let (_, omitted) = through(OpenaiChat, to, &chat(json!({"n": 1}))).unwrap();
        assert_eq!(omitted, [""; 0], "{to}: one is what is given anyway");
    }
}

#[test]
fn json_is_no_hint() {
    let refused = through(OpenaiChat, AnthropicMessages, &chat(json!({"response_format": {"type": "json_object"}})));
    assert!(refused.unwrap_err().contains("`output.any_object`"));
    let refused =
        through(OpenaiResponses, AnthropicMessages, &responses(json!({"text": {"format": {"type": "json_object"}}})));
    assert!(refused.unwrap_err().contains("`output.any_object`"));
    let (written, _) = through(OpenaiChat, Gemini, &chat(json!({"response_format": {"type": "json_object"}}))).unwrap();
    assert_eq!(written["generationConfig"]["responseMimeType"], "application/json");
    let odd = chat(json!({"response_format": {"type": "grammar", "grammar": "x"}}));
    for to in others(OpenaiChat) {
        assert!(through(OpenaiChat, to, &odd).unwrap_err().contains("`native.response_format`"), "{to}");
    }
    let odd = gemini(json!({"generationConfig": {"responseMimeType": "text/x.enum", "responseSchema":
        {"type": "STRING", "enum": ["a"]}}}));
    for to in others(Gemini) {
        let refused = through(Gemini, to, &odd).unwrap_err();
        assert!(refused.contains("`native.generationConfig.responseMimeType`"), "{to}: {refused}");
    }
}

#[test]
fn calls_held_to_their_schemas_are_strict_tools_where_the_schemas_are_fit() {
    let body = |schema: Value| {
        gemini(json!({"tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}))
    };
    let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
        "additionalProperties": false});
    let open = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    for (to, place) in [
        (OpenaiChat, "/tools/0/function/strict"),
        (OpenaiResponses, "/tools/0/strict"),
        (AnthropicMessages, "/tools/0/strict"),
    ] {
        let (written, omitted) = through(Gemini, to, &body(closed.clone())).unwrap();
        assert_eq!((written.pointer(place), omitted), (Some(&json!(true)), Vec::new()), "{to}");
        let refused = through(Gemini, to, &body(open.clone())).unwrap_err();
        assert!(refused.contains("`tool_choice.validated`"), "{to}: {refused}");
    }
    let (written, _) = through(Gemini, Gemini, &body(open)).unwrap();
    assert_eq!(written["toolConfig"], json!({"functionCallingConfig": {"mode": "VALIDATED"}}));
}

#[test]
fn googles_schema_is_strict_only_where_openai_takes_it() {
    let ask = |schema: Value| {
        gemini(json!({"generationConfig": {"responseMimeType": "application/json", "responseSchema": schema}}))
    };
    let open = ask(json!({"type": "OBJECT", "propertyOrdering": ["b", "a"], "properties": {
        "a": {"type": "STRING", "format": "enum", "enum": ["x", "y"]}, "b": {"type": "INTEGER", "nullable": true}}}));
    let plain = json!({"type": "object", "properties": {
        "a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": ["integer", "null"]}}});
    let (written, omitted) = through(Gemini, OpenaiChat, &open).unwrap();
    let format = &written["response_format"]["json_schema"];
    assert_eq!((&format["schema"], &format["strict"], omitted), (&plain, &json!(false), Vec::new()));
    let (written, _) = through(Gemini, OpenaiResponses, &open).unwrap();
    assert_eq!((&written["text"]["format"]["schema"], &written["text"]["format"]["strict"]), (&plain, &json!(false)));
    let closed = gemini(json!({"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema":
        {"type": "object", "propertyOrdering": ["a"], "properties": {"a": {"type": "string"}}, "required": ["a"],
            "additionalProperties": false}}}));
    let (written, _) = through(Gemini, OpenaiChat, &closed).unwrap();
    let format = &written["response_format"]["json_schema"];
    assert!(format["strict"] == true && format["schema"].get("propertyOrdering").is_none(), "{format}");
    let (written, _) = through(Gemini, AnthropicMessages, &open).unwrap();
    let schema = &written["output_config"]["format"]["schema"];
    assert!(schema["additionalProperties"] == false && schema.get("propertyOrdering").is_none(), "{schema}");
    // A tool's, too.
    let tool = gemini(json!({"tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT",
        "propertyOrdering": ["a"], "properties": {"a": {"type": "STRING", "format": "enum", "enum": ["x"]}}}}]}]}));
    for to in others(Gemini) {
        let (written, omitted) = through(Gemini, to, &tool).unwrap();
        let text = written["tools"].to_string();
        assert!(!text.contains("propertyOrdering") && !text.contains("format") && omitted.is_empty(), "{to}: {text}");
    }
}

#[test]
fn a_schema_that_an_answer_cannot_be_held_to_is_refused() {
    let ask = |schema: Value| {
        chat(json!({"response_format": {"type": "json_schema", "json_schema":
            {"name": "n", "strict": true, "schema": schema}}}))
    };
    let recursive = json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties":
        {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}, "name": {"type": "string", "minLength": 2}},
        "required": ["next", "name"], "additionalProperties": false}}});
    let short = json!({"type": "object", "properties": {"name": {"type": "string", "minLength": 2}},
        "required": ["name"], "additionalProperties": false});
    for (schema, said) in [(recursive, "#/$defs/node"), (short, "minLength")] {
        let refused = through(OpenaiChat, AnthropicMessages, &ask(schema)).unwrap_err();
        assert!(refused.contains("`output.strict`") && refused.contains(said), "{refused}");
    }
}

#[test]
fn references_that_lead_nowhere_are_refused() {
    for target in ["#/$defs/none", "https://example.com/schema.json"] {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": target}}});
        for from in [OpenaiChat, AnthropicMessages] {
            let body = match from {
                OpenaiChat => chat(json!({"tools": [{"type": "function", "function":
                    {"name": "f", "parameters": schema}}]})),
                _ => anthropic(json!({"tools": [{"name": "f", "input_schema": schema}]})),
            };
            for to in Protocol::ALL {
                let refused = through(from, to, &body).unwrap_err();
                assert!(refused.contains("`tool`") && refused.contains(target) && refused.contains("`f`"), "{refused}");
            }
        }
        let body = chat(json!({"response_format": {"type": "json_schema", "json_schema":
            {"name": "n", "strict": true, "schema": schema}}}));
        for to in Protocol::ALL {
            let refused = through(OpenaiChat, to, &body).unwrap_err();
            assert!(refused.contains("`output.strict`") && refused.contains(target), "{to}: {refused}");
        }
    }
}

#[test]
fn each_field_that_is_left_out_is_named() {
    let body = chat(json!({"logit_bias": {"1": 2}, "prediction": {"type": "content", "content": "x"}, "odd": 1,
        "messages": [{"role": "user", "name": "ann", "content": "a"}]}));
    for to in others(OpenaiChat) {
        let (_, omitted) = through(OpenaiChat, to, &body).unwrap();
        for named in ["native.logit_bias", "native.prediction", "native.odd", "message.native.name"] {
            assert!(omitted.iter().any(|what| what == named), "{to}: {named}: {omitted:?}");
        }
    }
    let body = gemini(json!({"generationConfig": {"mediaResolution": "MEDIA_RESOLUTION_LOW",
        "thinkingConfig": {"thinkingBudget": -1}}, "toolConfig": {"retrievalConfig": {"languageCode": "de"}}}));
    let (_, omitted) = through(Gemini, OpenaiChat, &body).unwrap();
    for named in ["native.generationConfig.mediaResolution", "native.toolConfig.retrievalConfig"] {
        assert!(omitted.iter().any(|what| what == named), "{named}: {omitted:?}");
    }
    let body = responses(json!({"reasoning": {"context": "auto"}, "stream_options": {"include_obfuscation": false}}));
    let (_, mut omitted) = through(OpenaiResponses, AnthropicMessages, &body).unwrap();
    omitted.sort();
    assert_eq!(omitted, ["native.reasoning.context", "native.stream_options.include_obfuscation"]);
    let body = anthropic(json!({"speed": "fast", "tools": [{"name": "f", "input_schema": {"type": "object",
        "properties": {}}, "defer_loading": true, "input_examples": [{}]}]}));
    let (_, omitted) = through(AnthropicMessages, OpenaiResponses, &body).unwrap();
    assert_eq!(omitted, ["tool.native.defer_loading", "tool.native.input_examples", "native.speed"]);
}

fn turn(from: Protocol, body: &Value) -> Turn {
    let provider = from.as_str().into();
    let events = from.decode_response(&provider, Names::default(), body.to_string().as_bytes()).expect("an answer");
    let mut fold = Accumulator::new();
    events.iter().for_each(|event| fold.push(event));
    fold.finish(&provider, &env()).expect("a turn")
}

fn head() -> AnswerHead {
    AnswerHead {
        id: "a1".into(),
        model: "m".into(),
        created: 0,
        provider: "client".into(),
        stream_usage: true,
        request: None,
    }
}

/// The answer as a client of `to` reads it, whole and streamed.
fn told(to: Protocol, turn: &Turn) -> [String; 2] {
    let mut encoder = to.encode_events(head());
    let mut streamed = Vec::new();
    for event in crate::events_of(turn) {
        encoder.push(&event, &mut streamed);
    }
    encoder.end(&mut streamed);
    [to.encode_response(&head(), turn).to_string(), String::from_utf8(streamed).unwrap()]
}

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[test]
fn a_picture_reaches_every_client() {
    let of_gemini = json!({"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
        {"text": "Here."}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]}}]});
    let of_chat = json!({"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {
        "role": "assistant", "content": "Here.",
        "images": [{"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}}]}}]});
    let of_parts = json!({"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {
        "role": "assistant", "content": [{"type": "text", "text": "Here."},
            {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}}]}}]});
    let of_responses = json!({"id": "r", "object": "response", "status": "completed", "model": "m", "output": [
        {"type": "message", "id": "msg", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Here.", "annotations": []}]},
        {"type": "image_generation_call", "id": "ig", "status": "completed", "result": PNG}]});
    for (from, body) in
        [(Gemini, &of_gemini), (OpenaiChat, &of_chat), (OpenaiChat, &of_parts), (OpenaiResponses, &of_responses)]
    {
        let turn = turn(from, body);
        for to in Protocol::ALL {
            for text in told(to, &turn) {
                assert!(text.contains(PNG) && text.contains("Here."), "{from} to {to}: {text}");
            }
            assert!(!left_out(to, &head(), &turn).iter().any(|omission| omission.what == "media"), "{from} to {to}");
        }
    }
}

#[test]
fn what_is_neither_text_nor_picture_is_told_as_a_link() {
    let body = json!({"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
        {"text": "Here."}, {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0xLjQ="}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "https://example.com/clip-of-the-sky.mp4"}}]}}]});
    let turn = turn(Gemini, &body);
    for to in Protocol::ALL {
        for text in told(to, &turn) {
            assert!(text.contains("JVBERi0xLjQ=") && text.contains("clip-of-the-sky.mp4"), "{to}: {text}");
        }
    }
}

#[test]
fn a_picture_shown_as_a_text_is_read_back_as_one() {
    let body = json!({"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
        {"inlineData": {"mimeType": "image/png", "data": PNG}}]}}]});
    let answer = AnthropicMessages.encode_response(&head(), &turn(Gemini, &body));
    let asked = anthropic(json!({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "b"}]}));
    let (written, omitted) = through(AnthropicMessages, Gemini, &asked).unwrap();
    assert_eq!(written["contents"][1]["parts"], json!([{"inlineData": {"data": PNG, "mimeType": "image/png"}}]));
    assert_eq!(omitted, [""; 0]);
    // So is one that a client of Responses returns as the item that it got.
    let answer = OpenaiResponses.encode_response(&head(), &turn(Gemini, &body));
    let mut items = vec![json!({"role": "user", "content": "a"})];
    items.extend(answer["output"].as_array().unwrap().iter().cloned());
    let (written, _) = through(OpenaiResponses, Gemini, &responses(json!({"input": items}))).unwrap();
    assert_eq!(written["contents"][1]["parts"], json!([{"inlineData": {"data": PNG, "mimeType": "image/png"}}]));
    // And one that a client of Chat returns with the message that it got.
    let answer = OpenaiChat.encode_response(&head(), &turn(Gemini, &body));
    let asked = chat(json!({"messages": [{"role": "user", "content": "a"}, answer["choices"][0]["message"],
        {"role": "user", "content": "b"}]}));
    let (written, _) = through(OpenaiChat, Gemini, &asked).unwrap();
    assert_eq!(written["contents"][1]["parts"], json!([{"inlineData": {"data": PNG, "mimeType": "image/png"}}]));
}

#[test]
fn a_picture_keeps_its_signature_and_is_refused_where_a_model_says_only_texts() {
    let body = json!({"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
        {"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": "c2lnbmVk"}]}}]});
    let turn = turn(Gemini, &body);
    let answer = AnthropicMessages.encode_response(&head(), &turn);
    let named = |to| left_out(to, &head(), &turn).into_iter().map(|omission| omission.what).collect::<Vec<_>>();
    // The provider counted nothing, which is told where clients hear of a count all the same.
    let uncounted = || "usage".to_owned();
    assert_eq!(named(AnthropicMessages), [uncounted()]);
    assert_eq!(named(OpenaiChat), [uncounted(), "state of media".to_owned()]);
    let asked = anthropic(json!({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "b"}]}));
    let (written, _) = through(AnthropicMessages, Gemini, &asked).unwrap();
    assert_eq!(written["contents"][1]["parts"], body["candidates"][0]["content"]["parts"]);
    for to in others(Gemini) {
        let refused = through(AnthropicMessages, to, &asked).unwrap_err();
        assert!(refused.contains("`image.assistant`"), "{to}: {refused}");
    }
}

#[test]
fn a_picture_that_a_tool_made_goes_back_as_that_tools_call() {
    let call = json!({"type": "image_generation_call", "id": "ig", "status": "completed", "result": PNG});
    let body = json!({"id": "r", "object": "response", "status": "completed", "model": "m", "output": [call]});
    let turn = turn(OpenaiResponses, &body);
    let answer = AnthropicMessages.encode_response(&head(), &turn);
    let asked = anthropic(json!({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "b"}]}));
    let (written, _) = through(AnthropicMessages, OpenaiResponses, &asked).unwrap();
    assert_eq!((&written["input"][1], written["input"].as_array().unwrap().len()), (&call, 3));
    let answer = Gemini.encode_response(&head(), &turn);
    let asked = gemini(json!({"contents": [{"role": "user", "parts": [{"text": "a"}]},
        answer["candidates"][0]["content"], {"role": "user", "parts": [{"text": "b"}]}]}));
    let (written, _) = through(Gemini, OpenaiResponses, &asked).unwrap();
    assert_eq!((&written["input"][1], written["input"].as_array().unwrap().len()), (&call, 3));
}

#[test]
fn a_further_answer_is_kept_or_told() {
    let of_gemini = json!({"candidates": [
        {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [{"text": "First."}]}},
        {"index": 1, "finishReason": "MAX_TOKENS", "content": {"role": "model", "parts": [
            {"text": "Second."}, {"functionCall": {"name": "f", "args": {"a": 1}}}]}}]});
    let of_chat = json!({"id": "c", "model": "m", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "First."}},
        {"index": 1, "finish_reason": "length", "message": {"role": "assistant", "content": "Second.", "tool_calls": [
            {"id": "call_1_0", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]}}]});
    for (from, body) in [(Gemini, &of_gemini), (OpenaiChat, &of_chat)] {
        let turn = turn(from, body);
        assert_eq!(turn.text(), "First.");
        for text in told(OpenaiChat, &turn).into_iter().chain(told(Gemini, &turn)) {
            assert!(text.contains("Second.") && text.contains("First."), "{from}: {text}");
        }
        let answer = OpenaiChat.encode_response(&head(), &turn);
        assert_eq!(answer["choices"][1]["index"], 1);
        assert_eq!(answer["choices"][1]["finish_reason"], "length", "{answer}");
        assert_eq!(answer["choices"][1]["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
        let answer = Gemini.encode_response(&head(), &turn);
        assert_eq!(
            (&answer["candidates"][1]["index"], &answer["candidates"][1]["finishReason"]),
            (&json!(1), &json!("MAX_TOKENS"))
        );
        assert_eq!(answer["candidates"][1]["content"]["parts"][1]["functionCall"]["args"], json!({"a": 1}));
        for to in Protocol::ALL {
            let named: Vec<_> = left_out(to, &head(), &turn).into_iter().map(|omission| omission.what).collect();
            let is_told = named.iter().any(|what| what == "further answers");
            assert_eq!(is_told, matches!(to, OpenaiResponses | AnthropicMessages), "{to}: {named:?}");
        }
    }
    // Pieces of two candidates in a stream are put together apart.
    let mut decoder = Gemini.decode_events(&"gemini".into(), Names::default());
    let mut events = Vec::new();
    for piece in [(0, "Fi"), (1, "Sec"), (0, "rst."), (1, "ond.")] {
        let chunk = json!({"candidates": [{"index": piece.0, "content": {"parts": [{"text": piece.1}]},
            "finishReason": if piece.1.ends_with('.') { json!("STOP") } else { Value::Null }}]});
        decoder.push(format!("data: {chunk}\n\n").as_bytes(), &mut events);
    }
    decoder.end(&mut events);
    let mut fold = Accumulator::new();
    events.iter().for_each(|event| fold.push(event));
    let turn = fold.finish(&"gemini".into(), &env()).unwrap();
    let answer = OpenaiChat.encode_response(&head(), &turn);
    let texts = [0, 1].map(|n| answer["choices"][n]["message"]["content"].as_str().unwrap_or_default().to_owned());
    assert_eq!(texts, ["First.", "Second."]);
}

#[test]
fn sounds_and_films_go_only_where_the_protocol_has_a_part_for_them() {
    let sound = chat(json!({"messages": [{"role": "user", "content": [
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}]}]}));
    for to in [OpenaiResponses, AnthropicMessages] {
        assert!(through(OpenaiChat, to, &sound).unwrap_err().contains("`audio.inline`"), "{to}");
    }
    assert!(through(OpenaiChat, Gemini, &sound).unwrap().0.to_string().contains("audio/wav"));
    let film = |part: Value| gemini(json!({"contents": [{"role": "user", "parts": [part]}]}));
    for part in [
        json!({"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}}),
        json!({"fileData": {"mimeType": "video/webm", "fileUri": "https://example.com/a"}}),
        json!({"fileData": {"fileUri": "https://www.youtube.com/watch?v=abc"}}),
    ] {
        for to in others(Gemini) {
            assert!(through(Gemini, to, &film(part.clone())).unwrap_err().contains("`file.video`"), "{to}: {part}");
        }
        assert_eq!(through(Gemini, Gemini, &film(part.clone())).unwrap().0["contents"][0]["parts"][0], part);
    }
}

#[test]
fn tiers_are_told_in_the_words_of_each_protocol() {
    let of = |from: Protocol, tier: &str| match from {
        OpenaiChat => chat(json!({"service_tier": tier})),
        OpenaiResponses => responses(json!({"service_tier": tier})),
        AnthropicMessages => anthropic(json!({"service_tier": tier})),
        Gemini => gemini(json!({"serviceTier": tier})),
    };
    let none = Value::Null;
    for (from, tier, wanted) in [
        (Gemini, "standard", ["default", "default", "standard_only", "standard"].map(Value::from)),
        (OpenaiChat, "standard", ["default", "default", "standard_only", "standard"].map(Value::from)),
        (AnthropicMessages, "standard_only", ["default", "default", "standard_only", "standard"].map(Value::from)),
        (AnthropicMessages, "auto", ["auto", "auto", "auto", "unspecified"].map(Value::from)),
        (Gemini, "FLEX", ["flex".into(), "flex".into(), none.clone(), "flex".into()]),
        (OpenaiResponses, "scale", ["scale".into(), "scale".into(), none.clone(), none.clone()]),
        (OpenaiResponses, "ultrafast", [none.clone(), "ultrafast".into(), none.clone(), none.clone()]),
        (OpenaiChat, "moonlit", [const { Value::Null }; 4]),
    ] {
        for (to, wanted) in Protocol::ALL.into_iter().zip(wanted) {
            let (body, omitted) = through(from, to, &of(from, tier)).unwrap();
            let told = if to == Gemini { &body["serviceTier"] } else { &body["service_tier"] };
            assert_eq!((told, omitted.len()), (&wanted, usize::from(wanted.is_null())), "{from} {tier} {to}");
            assert!(omitted.iter().all(|what| what == "service_tier"), "{omitted:?}");
        }
    }
    let answer = json!({"id": "msg", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "a"}],
        "usage": {"input_tokens": 1, "output_tokens": 1, "service_tier": "standard"}});
    let turn = turn(AnthropicMessages, &answer);
    for to in [OpenaiChat, OpenaiResponses] {
        assert_eq!(to.encode_response(&head(), &turn)["service_tier"], "default", "{to}");
    }
}

#[test]
fn tools_that_a_client_runs_by_plain_calls_are_its_own_elsewhere() {
    let asked = anthropic(json!({"tools": [
        {"name": "f", "description": "Does it.", "input_schema": {"type": "object", "properties": {}}},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 100},
        {"type": "memory_20250818", "name": "memory"}],
        "tool_choice": {"type": "tool", "name": "bash"},
        "messages": [{"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "bash", "input": {"command": "ls"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "a.txt"}]}]}));
    for (to, names) in [
        (OpenaiChat, "/tools/*/function/name"),
        (OpenaiResponses, "/tools/*/name"),
        (Gemini, "/tools/0/functionDeclarations/*/name"),
    ] {
        let (body, omitted) = through(AnthropicMessages, to, &asked).unwrap();
        let declared = (0..4).map(|n| body.pointer(&names.replace('*', &n.to_string())).unwrap().clone());
        let wanted = ["f", "bash", "str_replace_based_edit_tool", "memory"];
        assert_eq!(declared.collect::<Vec<_>>(), wanted, "{to}: {body}");
        assert_eq!(omitted, ["hosted.text_editor.max_characters"], "{to}");
        let text = body.to_string();
        assert!(text.contains("restart") && text.contains("view_range") && text.contains("a.txt"), "{to}: {text}");
        assert!(!text.contains("bash_2025") && !text.contains("\"shell\""), "{to}: {text}");
        let choice = if to == Gemini { &body["toolConfig"] } else { &body["tool_choice"] };
        assert!(choice.to_string().contains("\"bash\""), "{to}: {choice}");
    }
    // What calls them is a call like any other for the client.
    let answer = json!({"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": null, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}}]}}]});
    let told = AnthropicMessages.encode_response(&head(), &turn(OpenaiChat, &answer));
    assert_eq!(
        told["content"],
        json!([{"type": "tool_use", "id": "call_1", "name": "bash", "input": {"command": "ls"}}])
    );
    let (own, omitted) = through(AnthropicMessages, AnthropicMessages, &asked).unwrap();
    assert_eq!((&own["tools"], &own["tool_choice"], omitted), (&asked["tools"], &asked["tool_choice"], Vec::new()));
    let by_code = anthropic(json!({"tools": [
        {"type": "bash_20250124", "name": "bash", "allowed_callers": ["code_execution_20260120"]}]}));
    for to in others(AnthropicMessages) {
        let refused = through(AnthropicMessages, to, &by_code).unwrap_err();
        assert!(refused.contains("`hosted.shell.allowed_callers`"), "{to}: {refused}");
    }
}

#[test]
fn a_tool_of_one_provider_never_becomes_anothers() {
    let of = |from: Protocol, tool: Value| match from {
        OpenaiResponses => responses(json!({"tools": [tool]})),
        AnthropicMessages => anthropic(json!({"tools": [tool]})),
        _ => gemini(json!({"tools": [tool]})),
    };
    let auto = json!({"type": "auto", "file_ids": ["file_1"]});
    for (from, tool, field, is_held) in [
        (OpenaiResponses, json!({"type": "shell"}), "shell", false),
        (OpenaiResponses, json!({"type": "shell", "environment": {"type": "local"}}), "shell", false),
        (OpenaiResponses, json!({"type": "shell", "environment": {"type": "container_auto"}}), "shell", true),
        (OpenaiResponses, json!({"type": "local_shell"}), "shell", false),
        (OpenaiResponses, json!({"type": "apply_patch"}), "apply_patch", false),
        (OpenaiResponses, json!({"type": "tool_search", "execution": "client"}), "tool_search", false),
        (OpenaiResponses, json!({"type": "computer"}), "computer_use", false),
        (
            OpenaiResponses,
            json!({"type": "computer_use_preview", "environment": "browser", "display_width": 9, "display_height": 9}),
            "computer_use",
            false,
        ),
        (OpenaiResponses, json!({"type": "file_search", "vector_store_ids": ["vs_1"]}), "file_search", true),
        (OpenaiResponses, json!({"type": "code_interpreter", "container": "cntr_1"}), "code_interpreter", true),
        (OpenaiResponses, json!({"type": "code_interpreter", "container": auto}), "code_interpreter", true),
        (
            AnthropicMessages,
            json!({"type": "computer_20250124", "name": "computer", "display_width_px": 9, "display_height_px": 9}),
            "computer_use",
            false,
        ),
        (Gemini, json!({"fileSearch": {"fileSearchStoreNames": ["a"], "metadataFilter": "a=1"}}), "file_search", true),
        (Gemini, json!({"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}), "computer_use", false),
    ] {
        let asked = of(from, tool);
        for to in others(from) {
            let refused = through(from, to, &asked).unwrap_err();
            assert!(refused.contains(&format!("`hosted.{field}`")), "{from} {to}: {refused}");
        }
        // Of another provider with the same protocol, only what nobody holds is asked for.
        let again = through(from, from, &asked);
        assert_eq!(again.is_err(), is_held, "{from}: {again:?}");
        let read = from.decode_request(asked.to_string().as_bytes(), &from.as_str().into(), &env()).unwrap();
        let own = from.encode_request(&read.request, &from.as_str().into(), false).unwrap();
        let body: Value = serde_json::from_slice(&own.body).unwrap();
        assert_eq!((&body["tools"], own.omitted.len()), (&asked["tools"], 0), "{from}");
    }
}

#[test]
fn a_tool_is_strict_elsewhere_where_its_schema_is_fit_for_it() {
    let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
        "additionalProperties": false});
    let optional = json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false});
    let place = |to: Protocol| if to == OpenaiChat { "/tools/0/function/strict" } else { "/tools/0/strict" };
    // In Responses nothing said is strict.
    for (schema, wanted) in [(&closed, Some(true)), (&optional, None)] {
        for more in [json!({}), json!({"defer_loading": false})] {
            let tool = with(json!({"type": "function", "name": "f", "parameters": schema}), more);
            let asked = responses(json!({"tools": [tool]}));
            for to in [OpenaiChat, AnthropicMessages] {
                let (body, _) = through(OpenaiResponses, to, &asked).unwrap();
                assert_eq!(body.pointer(place(to)), wanted.map(Value::from).as_ref(), "{to}: {body}");
            }
        }
    }
    let off = json!({"type": "function", "name": "f", "parameters": closed, "strict": false});
    let (body, _) = through(OpenaiResponses, OpenaiChat, &responses(json!({"tools": [off]}))).unwrap();
    assert_eq!(body["tools"][0]["function"]["strict"], false);
    // Anthropic holds a model to fields that may be missing, OpenAI does not.
    let of_anthropic = |schema: &Value| {
        anthropic(json!({"tools": [{"name": "f", "description": "Does it.", "input_schema": schema, "strict": true}]}))
    };
    for to in [OpenaiChat, OpenaiResponses] {
        let (body, omitted) = through(AnthropicMessages, to, &of_anthropic(&closed)).unwrap();
        assert_eq!((body.pointer(place(to)), omitted.len()), (Some(&json!(true)), 0), "{to}: {body}");
        let (body, omitted) = through(AnthropicMessages, to, &of_anthropic(&optional)).unwrap();
        assert!(body.pointer(place(to)).is_none_or(|strict| *strict == false), "{to}: {body}");
        assert_eq!(omitted, ["tool.strict"], "{to}");
        let shaped =
            |schema: &Value| anthropic(json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}));
        for (schema, strict) in [(&closed, true), (&optional, false)] {
            let (body, _) = through(AnthropicMessages, to, &shaped(schema)).unwrap();
            let format =
                if to == OpenaiChat { &body["response_format"]["json_schema"] } else { &body["text"]["format"] };
            assert_eq!((&format["schema"], &format["strict"]), (schema, &json!(strict)), "{to}");
            let (own, omitted) = through(AnthropicMessages, AnthropicMessages, &shaped(schema)).unwrap();
            assert_eq!((&own["output_config"]["format"]["schema"], omitted.len()), (schema, 0));
        }
    }
    let (own, omitted) = through(AnthropicMessages, AnthropicMessages, &of_anthropic(&optional)).unwrap();
    assert_eq!((&own["tools"], omitted.len()), (&of_anthropic(&optional)["tools"], 0));
    // What Anthropic does not hold a model to.
    let of_chat = |field: Value| {
        let schema = with(closed.clone(), json!({"properties": {"a": field}}));
        chat(json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": schema, "strict": true}}]}))
    };
    for field in [
        json!({"type": "string", "minLength": 1}),
        json!({"type": "integer", "minimum": 1}),
        json!({"anyOf": [{"$ref": "#"}, {"type": "null"}]}),
    ] {
        let (body, omitted) = through(OpenaiChat, AnthropicMessages, &of_chat(field.clone())).unwrap();
        assert_eq!((body["tools"][0].get("strict"), omitted), (None, vec!["tool.strict".to_owned()]), "{field}");
        assert_eq!(body["tools"][0]["input_schema"]["properties"]["a"], field);
    }
    let open = json!({"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]});
    let (body, omitted) = through(OpenaiChat, AnthropicMessages, &of_chat(open)).unwrap();
    let tool = &body["tools"][0];
    assert_eq!((&tool["strict"], omitted.len()), (&json!(true), 0));
    assert_eq!(tool["input_schema"]["properties"]["a"]["additionalProperties"], false);
}

#[test]
fn how_likely_each_piece_was_is_told_in_the_words_of_each_protocol() {
    let piece = |token: &str, logprob: f64, top: Value| json!({"token": token, "bytes": token.as_bytes(), "logprob": logprob, "top_logprobs": top});
    let likely = json!([{"token": "Hi", "bytes": [72, 105], "logprob": -0.5}, {"token": "Ho", "bytes": [72, 111], "logprob": -1.5}]);
    let pieces = json!([piece("Hi", -0.5, likely), piece(" you", -0.25, json!([]))]);
    let result = json!({"chosenCandidates": [{"token": "Hi", "logProbability": -0.5}, {"token": " you", "logProbability": -0.25}],
        "topCandidates": [{"candidates": [{"token": "Hi", "logProbability": -0.5}, {"token": "Ho", "logProbability": -1.5}]}, {"candidates": []}]});
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let of_chat = json!({"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": "stop",
        "logprobs": {"content": pieces, "refusal": null}, "message": {"role": "assistant", "content": "Hi you"}}]});
    let mut with_call = of_chat.clone();
    with_call["choices"][0]["message"]["tool_calls"] = json!([call]);
    let of_responses = json!({"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": [
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [
            {"type": "output_text", "text": "Hi you", "annotations": [], "logprobs": pieces}]}]});
    let of_gemini = json!({"candidates": [{"index": 0, "finishReason": "STOP", "logprobsResult": result,
        "content": {"role": "model", "parts": [{"text": "Hi you"}]}}]});
    for (from, body) in
        [(OpenaiChat, of_chat), (OpenaiChat, with_call), (OpenaiResponses, of_responses), (Gemini, of_gemini)]
    {
        let turn = turn(from, &body);
        for (to, place, wanted) in [
            (OpenaiChat, "/choices/0/logprobs/content", &pieces),
            (OpenaiResponses, "/output/0/content/0/logprobs", &pieces),
            (Gemini, "/candidates/0/logprobsResult", &result),
        ] {
            let answer = to.encode_response(&head(), &turn);
            assert_eq!(answer.pointer(place), Some(wanted), "{from} {to}: {answer}");
            for text in told(to, &turn) {
                assert!(text.contains("-1.5") && text.contains("-0.25"), "{from} {to}: {text}");
            }
            let named: Vec<_> = left_out(to, &head(), &turn).into_iter().map(|omission| omission.what).collect();
            assert!(
                !named.iter().any(|what| what == "logprobs" || what.starts_with("native")),
                "{from} {to}: {named:?}"
            );
        }
        let named: Vec<_> =
            left_out(AnthropicMessages, &head(), &turn).into_iter().map(|omission| omission.what).collect();
        assert!(named.iter().any(|what| what == "logprobs"), "{from}: {named:?}");
    }
}
