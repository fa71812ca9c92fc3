#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::decode_tests::provider;
use super::*;
use placet_core::part::{MediaSource, Native};
use placet_core::turn::{AllowedTools, StateMode};
use placet_core::{
    Effect, Env, Item, ItemBody, Message, Part, Role, Schema, Status, ToolChoice, ToolDefinition, TurnRequest,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn decode(body: &Value) -> TurnRequest {
    decode_request(body.to_string().as_bytes(), &provider(), &Env::system())
        .unwrap_or_else(|error| panic!("{error}"))
        .request
}

fn onto(body: &Value, decoded: &TurnRequest, request: &TurnRequest) -> Value {
    let encoded = encode_request_onto(body, decoded, request, &Dialect::new(provider()))
        .unwrap_or_else(|error| panic!("{error:?}"));
    serde_json::from_slice(&encoded.body).unwrap()
}

/// A body in one of the two spellings, with much in it that has no words of ours.
fn body(snake: bool) -> Value {
    let body = json!({
        "contents": [
            {"role": "user", "parts": [{"text": "Look.", "thought": false}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"}}]},
            {"role": "model", "parts": [{"text": "Hm.", "thought": true}, {"functionCall": {"name": "crm.look_up", "args": {"firstName": "A"}}, "thoughtSignature": "c2ln"}, {"functionCall": {"name": "crm.look_up", "args": {}, "id": "b"}}]},
            {"role": "function", "parts": [{"functionResponse": {"name": "crm.look_up", "response": {"return_value": 5}}}, {"functionResponse": {"name": "crm.look_up", "id": "b", "response": {"error": "gone"}, "scheduling": "SILENT"}}, {"text": "And?"}]},
            {"parts": [{"fileData": {"fileUri": "gs://bucket/a.pdf", "mimeType": "application/pdf"}}, {"text": "more"}], "odd": 1}
        ],
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
        "tools": [
            {"googleSearch": {"excludeDomains": ["a.com"]}},
            {"functionDeclarations": [{"name": "crm.look_up", "description": "Looks up.", "parameters": {"type": "OBJECT", "properties": {"firstName": {"type": "STRING", "nullable": true}}}}, {"name": "plain", "description": "", "behavior": "BLOCKING"}], "codeExecution": null}
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["plain"], "streamFunctionCallArguments": true}},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "generationConfig": {"temperature": 0.5, "topK": 40, "candidateCount": 1, "stopSequences": ["X"], "responseModalities": ["TEXT"], "speechConfig": {"a": 1}, "thinkingConfig": {"includeThoughts": true, "thinkingBudget": -1}},
        "labels": {"team": "x"},
        "modelArmorConfig": {"promptTemplateName": "p"}
    });
    fn respell(value: Value) -> Value {
        match value {
            Value::Object(map) => map
                .into_iter()
                .map(|(key, value)| {
                    let opaque = matches!(key.as_str(), "args" | "response" | "labels" | "properties");
                    (parts::snake(&key), if opaque { value } else { respell(value) })
                })
                .collect(),
            Value::Array(list) => list.into_iter().map(respell).collect(),
            other => other,
        }
    }
    if snake { respell(body) } else { body }
}

#[test]
fn both_spellings_are_read_as_the_same_request() {
    let requests = [false, true].map(|snake| decode(&body(snake)));
    for request in &requests {
        assert_eq!(request.instructions.as_deref(), Some("Be brief."));
        assert_eq!(request.tool_choice, ToolChoice::Tool("plain".into()));
        assert_eq!((request.controls.temperature, request.controls.top_k), (Some(0.5), Some(40)));
        assert_eq!(request.controls.stop, ["X"]);
        assert_eq!(request.controls.reasoning_summary.as_deref(), Some("auto"));
        assert_eq!(request.controls.metadata["team"], "x");
        assert_eq!(request.controls.safety.len(), 1);
        assert!(request.controls.modalities.is_empty(), "text is what is answered anyway");
        let schema = json!({"type": "object", "properties": {"firstName": {"type": ["string", "null"]}}});
        let google = request.tools[0].schema.as_value();
        assert_eq!(google["type"], schema["type"]);
        assert_eq!(request.tools[1].effect, Effect::Once);
        let kinds: Vec<&str> = request.items.iter().map(|item| item.body.kind()).collect();
        assert_eq!(
            kinds,
            ["message", "reasoning", "tool_call", "tool_call", "tool_result", "tool_result", "message", "message"]
        );
        let ItemBody::Message(message) = &request.items[0].body else { panic!("a message") };
        let Part::Image(image) = &message.parts[1] else { panic!("a picture") };
        assert_eq!(image.detail.as_deref(), Some("high"));
        let (ItemBody::ToolCall(first), ItemBody::ToolCall(second)) = (&request.items[2].body, &request.items[3].body)
        else {
            panic!("calls")
        };
        let (ItemBody::ToolResult(one), ItemBody::ToolResult(two)) = (&request.items[4].body, &request.items[5].body)
        else {
            panic!("results")
        };
        assert_eq!((&one.call, &two.call), (&first.id, &second.id), "one by its tool, the other by its id");
        assert_eq!((one.outcome.text().as_str(), one.outcome.status), (r#"{"return_value":5}"#, Status::Completed));
        assert_eq!((two.outcome.text().as_str(), two.outcome.status), ("gone", Status::Failed));
        assert_eq!(two.native.as_ref().unwrap().value, json!({"functionResponse": {"scheduling": "SILENT"}}));
        assert_eq!(first.native.as_ref().unwrap().value, json!({"thoughtSignature": "c2ln"}));
        let ItemBody::Message(message) = &request.items[7].body else { panic!("a message") };
        let Part::File(file) = &message.parts[0] else { panic!("a file") };
        assert!(matches!(&file.source, MediaSource::ProviderFile(file) if file.id == "gs://bucket/a.pdf"));
    }
}

#[test]
fn a_body_comes_back_as_it_was_and_an_edit_stays_where_it_is_made() {
    for snake in [false, true] {
        let body = body(snake);
        let decoded = decode(&body);
        assert_eq!(onto(&body, &decoded, &decoded), body);

        let mut edited = decoded.clone();
        edited.tools.push(Arc::new(ToolDefinition::new(
            "new",
            "New.",
            Schema::new(json!({"type": "object", "properties": {}})),
            Effect::Read,
        )));
        let mut wanted = body.clone();
        let declarations = if snake { "function_declarations" } else { "functionDeclarations" };
        wanted["tools"][1][declarations].as_array_mut().unwrap().push(
            json!({"name": "new", "description": "New.", "parametersJsonSchema": {"type": "object", "properties": {}}}),
        );
        let found = onto(&body, &decoded, &edited);
        assert_eq!(found, wanted, "{found:#}");

        for (at, part, path) in
            [(0, 0, "/contents/0/parts/0/text"), (6, 0, "/contents/2/parts/2/text"), (7, 1, "/contents/3/parts/1/text")]
        {
            let mut edited = decoded.clone();
            let mut item = Item::clone(&edited.items[at]);
            let ItemBody::Message(message) = &mut item.body else { panic!("a message") };
            message.parts[part] = Part::text("changed");
            edited.items[at] = Arc::new(item);
            let mut wanted = body.clone();
            *wanted.pointer_mut(path).unwrap() = "changed".into();
            let found = onto(&body, &decoded, &edited);
            assert_eq!(found, wanted, "{path}: {found:#}");
        }

        let mut edited = decoded.clone();
        edited.controls.temperature = None;
        edited.items.push(Arc::new(Item::user(Env::system().new_id(), "More.")));
        let found = onto(&body, &decoded, &edited);
        assert!(
            found
                .pointer("/generationConfig/temperature")
                .or(found.pointer("/generation_config/temperature"))
                .is_none()
        );
        assert_eq!(found["contents"][4], json!({"role": "user", "parts": [{"text": "More."}]}));
        assert_eq!(found["contents"][2], body["contents"][2]);
    }
}

#[test]
fn choices_of_tools() {
    let choice = |config: Value| {
        let body = json!({"contents": [], "toolConfig": {"functionCallingConfig": config}});
        let request = decode(&body);
        (request.tool_choice, request.native.map_or(Value::Null, |native| native.value))
    };
    let allowed =
        |required| ToolChoice::Allowed(AllowedTools { names: vec!["a".into(), "b".into()], required, hosted: false });
    assert_eq!(choice(json!({"mode": "AUTO"})), (ToolChoice::Auto, Value::Null));
    assert_eq!(choice(json!({"mode": "NONE"})), (ToolChoice::None, Value::Null));
    assert_eq!(choice(json!({"mode": "ANY"})), (ToolChoice::Required, Value::Null));
    assert_eq!(choice(json!({"mode": "ANY", "allowedFunctionNames": ["a", "b"]})), (allowed(true), Value::Null));
    assert_eq!(choice(json!({"mode": "VALIDATED", "allowedFunctionNames": ["a", "b"]})), (allowed(false), Value::Null));
    let validated = json!({"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}});
    assert_eq!(choice(json!({"mode": "VALIDATED"})), (ToolChoice::Auto, validated.clone()));
    let request = TurnRequest {
        native: Some(Native { provider: provider(), value: validated.clone() }),
        ..decode(&json!({"contents": []}))
    };
    let encoded = encode_request(&request, &Dialect::new(provider())).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&encoded.body).unwrap()["toolConfig"], validated["toolConfig"]);
}

#[test]
fn the_older_words_for_the_answers_schema_are_kept() {
    let body = json!({"contents": [], "generationConfig": {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}}});
    let mut request = decode(&body);
    let output = request.output.clone().unwrap();
    assert_eq!(
        (output.strict, output.schema.as_value()),
        (false, &json!({"type": "object", "properties": {"a": {"type": "string"}}})),
        "others cannot hold a model to it strictly"
    );
    let written = |request: &TurnRequest| -> Value {
        let encoded = encode_request(request, &Dialect::new(provider())).unwrap();
        serde_json::from_slice::<Value>(&encoded.body).unwrap()["generationConfig"].clone()
    };
    assert_eq!(written(&request), body["generationConfig"]);
    request.output.as_mut().unwrap().schema = Schema::new(json!({"type": "object", "properties": {}}));
    assert_eq!(
        written(&request),
        json!({"responseMimeType": "application/json", "responseJsonSchema": {"type": "object", "properties": {}}})
    );
    let plain =
        decode(&json!({"contents": [], "generationConfig": {"responseMimeType": "application/json"}})).output.unwrap();
    assert_eq!((plain.strict, plain.schema.as_value()), (false, &json!({"type": "object"})));
}

#[test]
fn what_is_no_request_is_told_with_its_place() {
    for (body, field) in [
        (json!([]), ""),
        (json!({}), "contents"),
        (json!({"contents": "x"}), "contents"),
        (json!({"contents": [5]}), "contents[0]"),
        (json!({"contents": [{"parts": 5}]}), "contents[0].parts"),
        (json!({"contents": [], "tools": 5}), "tools"),
        (
            json!({"contents": [], "tools": [{"functionDeclarations": [{"description": "x"}]}]}),
            "tools[0].functionDeclarations[0]",
        ),
    ] {
        let error = decode_request(body.to_string().as_bytes(), &provider(), &Env::system()).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
    let error = decode_request(b"{\"contents\": [", &provider(), &Env::system()).unwrap_err();
    assert!(error.problem.contains("column"), "{error}");
}

#[test]
fn the_path_says_the_model_and_the_method() {
    let sse = target("/v1beta/models/gemini-3-flash:streamGenerateContent", Some("key=x&alt=sse")).unwrap();
    assert_eq!((sse.model.as_str(), sse.stream, sse.array), ("gemini-3-flash", true, false));
    assert!(target("/v1beta/models/gemini-3-flash:streamGenerateContent", None).unwrap().array);
    let vertex = target("/v1/projects/p/locations/l/publishers/google/models/g:generateContent", None).unwrap();
    assert_eq!((vertex.model.as_str(), vertex.method.as_str(), vertex.stream), ("g", "generateContent", false));
    for path in ["/v1beta/models", "/v1beta/models/x", "/v1beta/models/:generateContent", "/v1/other/x:y"] {
        assert_eq!(target(path, None), None, "{path}");
    }
}

#[test]
fn unknown_roles_and_parts_survive() {
    let body = json!({"contents": [
        {"role": "narrator", "parts": [{"text": "x"}]},
        {"role": "user", "parts": [{"newPart": {"a": 1}}, "plain"]},
        {"role": "model", "parts": [{"newPart": {"b": 2}}, {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB"}, "thoughtSignature": "c2ln"}]}
    ]});
    let request = decode(&body);
    let kinds: Vec<&str> = request.items.iter().map(|item| item.body.kind()).collect();
    assert_eq!(kinds, ["native", "message", "native", "hosted_call"]);
    let encoded = encode_request(&request, &Dialect::new(provider())).unwrap();
    let mut wanted = body["contents"].clone();
    wanted[1]["parts"][1] = json!({"text": "plain"});
    assert_eq!(serde_json::from_slice::<Value>(&encoded.body).unwrap()["contents"], wanted);
    assert_eq!(request.controls.state, None::<StateMode>);
    assert!(matches!(&request.items[1].body, ItemBody::Message(Message { role: Role::User, .. })));
}

/// Clients return a stream piece by piece.
#[test]
fn pieces_of_a_text_are_one_message_and_pieces_of_sealed_thinking_one_thought() {
    let native = Native { provider: "anthropic".into(), value: json!({"signature": "s"}) };
    let body = json!({"contents": [{"role": "model", "parts": [
        {"text": "I ", "thought": true}, {"text": "think.", "thought": true},
        {"text": "", "thought": true, "thoughtSignature": seal::seal(&native)},
        {"text": "Le"}, {"text": "t "}, {"text": "me."}, {"functionCall": {"name": "f", "args": {}}}
    ]}]});
    let request = decode(&body);
    assert_eq!(request.items.len(), 3);
    let ItemBody::Reasoning(reasoning) = &request.items[0].body else { panic!("thinking") };
    assert_eq!((reasoning.text.as_str(), reasoning.native.as_ref()), ("I think.", Some(&native)));
    let ItemBody::Message(message) = &request.items[1].body else { panic!("a message") };
    assert_eq!((message.text().as_str(), message.parts.len()), ("Let me.", 3));
    let mut edited = request.clone();
    edited.controls.temperature = Some(0.5);
    let mut wanted = body.clone();
    wanted["contents"][0]["parts"].as_array_mut().unwrap().remove(2);
    wanted["generationConfig"] = json!({"temperature": 0.5});
    assert_eq!(onto(&body, &request, &edited), wanted);
    // Some providers tell what thinking is known by at the very end.
    let late = json!({"contents": [{"role": "model", "parts": [
        {"text": "I ", "thought": true}, {"text": "think.", "thought": true}, {"functionCall": {"name": "f", "args": {}}},
        {"text": "", "thought": true, "thoughtSignature": seal::seal(&native)}
    ]}]});
    let request = decode(&late);
    let ItemBody::Reasoning(reasoning) = &request.items[0].body else { panic!("thinking") };
    assert_eq!((reasoning.text.as_str(), reasoning.native.as_ref()), ("I think.", Some(&native)));
    assert!(matches!(&request.items[1].body, ItemBody::ToolCall(_)) && request.items.len() == 2);
}

/// Every value replaced by foreign ones, one at a time: a body is refused with its place, or read; and what is read comes back as
/// it was.
#[test]
fn foreign_values_are_refused_or_come_back() {
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
    let (whole, env) = (body(false), Env::system());
    let mut all = Vec::new();
    places(&whole, "", &mut all);
    let (mut read, mut tried) = (0, 0);
    let foreign = [Value::Null, json!(7), json!("x"), json!([{"a": [null]}]), json!({"a": {"b": 1}}), json!(-0.5)];
    for (at, place) in all.iter().enumerate() {
        // Each place gets two of them, and its neighbours others.
        for foreign in [&foreign[at % 6], &foreign[(at / 6 + at + 3) % 6]] {
            let mut broken = whole.clone();
            *broken.pointer_mut(place).unwrap() = foreign.clone();
            tried += 1;
            let decoded = match decode_request(broken.to_string().as_bytes(), &provider(), &env) {
                Ok(decoded) => decoded,
                Err(error) => {
                    assert!(error.field.is_some(), "{place}: {error}");
                    continue;
                }
            };
            read += 1;
            let dialect = Dialect::new(provider());
            if let Ok(encoded) = encode_request_onto(&broken, &decoded.request, &decoded.request, &dialect) {
                assert_eq!(serde_json::from_slice::<Value>(&encoded.body).unwrap(), broken, "{place}");
            }
            let mut edited = decoded.request.clone();
            edited.controls.seed = Some(7);
            if let Ok(encoded) = encode_request_onto(&broken, &decoded.request, &edited, &dialect) {
                assert!(serde_json::from_slice::<Value>(&encoded.body).unwrap().is_object(), "{place}");
            }
        }
    }
    assert!(read * 10 > tried * 8, "{read} of {tried}");
}
