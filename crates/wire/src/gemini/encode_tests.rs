#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::contents::PLACEHOLDER;
use super::decode_tests::provider;
use super::*;
use placet_core::item::{HostedCall, Reasoning};
use placet_core::part::{Inline, Media, MediaSource, Native, Text};
use placet_core::turn::CacheControl;
use placet_core::{
    Arguments, CallId, Effect, Env, ErrorKind, Item, ItemBody, Message, Origin, Outcome, Part, ProviderError, Role,
    Schema, Stage, Status, ToolCall, ToolDefinition, ToolResult, TurnRequest,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn item(body: impl Into<ItemBody>) -> Arc<Item> {
    Arc::new(Item::new(Env::system().new_id(), Origin::User, body))
}

fn user(text: &str) -> Arc<Item> {
    item(Message { role: Role::User, parts: vec![Part::text(text)], native: None })
}

fn native(provider: &str, value: Value) -> Option<Native> {
    Some(Native { provider: provider.into(), value })
}

fn call(name: &str, id: Option<&str>, signature: Option<&str>) -> ToolCall {
    ToolCall {
        id: Env::system().new_id(),
        provider_id: id.map(str::to_owned),
        name: name.into(),
        arguments: Arguments::from_text("{\"x\":1}"),
        native: signature.and_then(|signature| native("google", json!({"thoughtSignature": signature}))),
    }
}

fn result(call: &ToolCall, status: Status, text: &str) -> ToolResult {
    ToolResult::of(call, Outcome::new(status, Stage::Execute, None, text))
}

fn request(items: Vec<Arc<Item>>) -> TurnRequest {
    TurnRequest { model: "m".into(), items, ..TurnRequest::default() }
}

fn encode_as(request: &TurnRequest, dialect: &Dialect) -> Result<(Value, Vec<String>), ProviderError> {
    let encoded = encode_request(request, dialect)?;
    let omitted = encoded.omitted.iter().map(|omission| omission.what.clone()).collect();
    Ok((serde_json::from_slice(&encoded.body).unwrap(), omitted))
}

fn encode(request: &TurnRequest) -> (Value, Vec<String>) {
    encode_as(request, &Dialect::new(provider())).unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn state_of_others_is_left_out_and_reported() {
    let foreign = |value: Value| native("anthropic", value);
    let mut asked = call("f", Some("a"), None);
    asked.native = foreign(json!({"x": 1}));
    let answered = ToolResult { native: foreign(json!({})), ..result(&asked, Status::Completed, "ok") };
    let request = TurnRequest {
        native: foreign(json!({"thinking": 1})),
        ..request(vec![
            item(Message {
                role: Role::User,
                parts: vec![Part::Text(Text { native: foreign(json!({})), ..Text::new("hi") })],
                native: foreign(json!({"odd": 1})),
            }),
            item(Reasoning { text: "hm".into(), native: foreign(json!({"signature": "s"})) }),
            item(HostedCall { provider: "openai".into(), kind: "web_search_call".into(), value: json!({}) }),
            Arc::new(Item::new(Env::system().new_id(), Origin::Model, ItemBody::Native(foreign(json!({})).unwrap()))),
            item(asked),
            item(answered),
        ])
    };
    let (body, mut omitted) = encode(&request);
    omitted.sort();
    assert_eq!(
        omitted,
        [
            "hosted_call",
            "message.native.odd",
            "native.thinking",
            "native_item",
            "reasoning",
            "text.native",
            "tool_call.native",
            "tool_result.native"
        ]
    );
    assert!(!body.to_string().contains("anthropic") && body["contents"].as_array().unwrap().len() == 3, "{body}");
}

#[test]
fn rule_8_gemini_state_keeps_its_place_byte_for_byte() {
    let signed = |text: &str, signature: &str| {
        item(Message {
            role: Role::Assistant,
            parts: vec![Part::Text(Text {
                native: native("google", json!({"thoughtSignature": signature, "groundingMetadata": {"a": 1}})),
                ..Text::new(text)
            })],
            native: None,
        })
    };
    let asked = call("f", None, Some("c2ln+/=="));
    let answered = result(&asked, Status::Completed, "ok");
    let (body, omitted) = encode(&request(vec![
        user("hi"),
        item(Reasoning { text: "Hm.".into(), native: native("google", json!({"thoughtSignature": "dGg-_"})) }),
        item(HostedCall {
            provider: "google".into(),
            kind: "executableCode".into(),
            value: json!({"executableCode": {"code": "1"}, "thoughtSignature": "aG9z"}),
        }),
        signed("", "dHg="),
        item(asked),
        item(answered),
        user("go on"),
    ]));
    assert!(omitted.is_empty(), "{omitted:?}");
    assert_eq!(
        body["contents"][1],
        json!({"role": "model", "parts": [
            {"text": "Hm.", "thought": true, "thoughtSignature": "dGg-_"},
            {"executableCode": {"code": "1"}, "thoughtSignature": "aG9z"},
            {"text": "", "thoughtSignature": "dHg="},
            {"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln+/=="}
        ]})
    );
}

#[test]
fn row_52_gemini_signatures_are_sent_back() {
    let asked = call("f", None, Some("c2ln"));
    let answered = result(&asked, Status::Completed, "ok");
    let (body, _) = encode(&request(vec![user("hi"), item(asked), item(answered)]));
    assert_eq!(body["contents"][1]["parts"][0]["thoughtSignature"], "c2ln");
}

#[test]
fn row_53_gemini_a_signature_is_a_sibling_of_the_call() {
    let asked = call("f", None, Some("c2ln"));
    let (body, _) = encode(&request(vec![user("hi"), item(asked)]));
    let part = &body["contents"][1]["parts"][0];
    assert!(part["functionCall"].get("thoughtSignature").is_none() && part.get("thoughtSignature").is_some());
}

#[test]
fn row_54_gemini_parallel_calls_are_one_content_and_their_results_another() {
    let calls: Vec<ToolCall> = (0..3).map(|i| call(&format!("f{i}"), (i > 0).then_some("id"), None)).collect();
    let mut items = vec![user("hi")];
    items.extend(calls.iter().map(|call| item(call.clone())));
    // In any order, and with something in between.
    items.push(item(result(&calls[2], Status::Completed, "2")));
    items.push(item(result(&calls[0], Status::Completed, "0")));
    items.push(user("wait"));
    items.push(item(result(&calls[1], Status::Completed, "1")));
    let (body, _) = encode(&request(items));
    let contents = body["contents"].as_array().unwrap();
    let roles: Vec<_> = contents
        .iter()
        .map(|content| (content["role"].as_str().unwrap(), content["parts"].as_array().unwrap().len()))
        .collect();
    assert_eq!(roles, [("user", 1), ("model", 3), ("user", 3), ("user", 1)]);
    let names: Vec<_> = contents[2]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["functionResponse"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["f0", "f1", "f2"], "without ids the order tells them apart");
    assert!(contents[2]["parts"][0]["functionResponse"].get("id").is_none());
    let missing = request(vec![user("hi"), item(calls[0].clone()), user("go on")]);
    assert_eq!(encode_as(&missing, &Dialect::new(provider())).unwrap_err().kind, ErrorKind::InvalidRequest);
}

#[test]
fn row_55_gemini_the_placeholder_stands_on_the_first_call_alone_and_only_where_it_must() {
    let dialect = Dialect { placeholder_signature: true, ..Dialect::new(provider()) };
    let round = |signature: Option<&str>| {
        let (first, second) = (call("f", None, signature), call("g", None, None));
        let answers = [result(&first, Status::Completed, "1"), result(&second, Status::Completed, "2")];
        let mut items = vec![item(first), item(second)];
        items.extend(answers.map(item));
        items
    };
    let mut items = vec![user("hi")];
    items.extend(round(None));
    items.extend(round(Some("c2ln")));
    let signatures = |dialect: &Dialect| {
        let (body, _) = encode_as(&request(items.clone()), dialect).unwrap();
        [1, 3].map(|at: usize| [0, 1].map(|i: usize| body["contents"][at]["parts"][i].get("thoughtSignature").cloned()))
    };
    assert_eq!(signatures(&dialect), [[Some(json!(PLACEHOLDER)), None], [Some(json!("c2ln")), None]]);
    assert_eq!(signatures(&Dialect::new(provider()))[0], [None, None]);
}

#[test]
fn row_11_gemini_a_call_without_arguments_is_sent_with_an_empty_object() {
    for text in ["", "null", "{}"] {
        let asked = ToolCall { arguments: Arguments::from_text(text), ..call("f", None, None) };
        let (body, _) = encode(&request(vec![user("hi"), item(asked)]));
        assert_eq!(body["contents"][1]["parts"][0]["functionCall"]["args"], json!({}));
    }
}

#[test]
fn row_60_gemini_references_in_a_result_stay_a_text() {
    let asked = call("f", None, None);
    let respond = |text: &str, status: Status| {
        let (body, _) = encode(&request(vec![user("hi"), item(asked.clone()), item(result(&asked, status, text))]));
        body["contents"][2]["parts"][0]["functionResponse"]["response"].clone()
    };
    assert_eq!(respond(r#"{"a":{"$ref":"x"}}"#, Status::Completed), json!({"output": r#"{"a":{"$ref":"x"}}"#}));
    assert_eq!(respond(r#"{"$defs":{}}"#, Status::Failed), json!({"error": r#"{"$defs":{}}"#}));
    assert_eq!(respond(r#"{"a":1}"#, Status::Completed), json!({"a": 1}));
    assert_eq!(
        respond("{\"a\": 1}", Status::Completed),
        json!({"output": "{\"a\": 1}"}),
        "the text would not come back"
    );
    assert_eq!(respond("[1]", Status::Completed), json!({"output": "[1]"}));
    assert_eq!(respond("no", Status::Mistaken), json!({"error": "no"}));
    assert_eq!(respond(r#"{"error":"no"}"#, Status::Completed), json!({"output": r#"{"error":"no"}"#}));
    assert_eq!(respond(r#"{"error":{"code":1}}"#, Status::Failed), json!({"error": {"code": 1}}));
}

fn tool(schema: Value) -> ToolDefinition {
    ToolDefinition::new("f", "Does.", Schema::new(schema), Effect::Read)
}

#[test]
fn tricky_5_g_schemas_go_out_as_json_schema_or_in_the_subset() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
        "properties": {"a": {"type": ["string", "null"]}, "n": {"type": "integer", "exclusiveMinimum": 0}}
    });
    let with =
        |schema: &Value| TurnRequest { tools: vec![Arc::new(tool(schema.clone()))], ..request(vec![user("hi")]) };
    let (body, _) = encode(&with(&schema));
    assert_eq!(body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"], schema);
    let subset = Dialect { schemas: SchemaForm::OpenApi, ..Dialect::new(provider()) };
    let error = encode_as(&with(&schema), &subset).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("`tool`") && error.message.contains("additionalProperties"), "{error}");
    let mut open = schema;
    open.as_object_mut().unwrap().remove("additionalProperties");
    let (body, _) = encode_as(&with(&open), &subset).unwrap();
    assert_eq!(
        body["tools"][0]["functionDeclarations"][0]["parameters"],
        json!({"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": true}, "n": {"type": "INTEGER", "minimum": 1}}})
    );
}

#[test]
fn row_58_gemini_no_keyword_that_the_subset_does_not_know_goes_out_in_it() {
    let subset = Dialect { schemas: SchemaForm::OpenApi, ..Dialect::new(provider()) };
    for (keyword, value) in [
        ("$schema", json!("x")),
        ("const", json!("a")),
        ("examples", json!(["a"])),
        ("$comment", json!("x")),
        ("x-odd", json!(1)),
    ] {
        let mut field = json!({"type": "string"});
        field[keyword] = value;
        let request = TurnRequest {
            tools: vec![Arc::new(tool(json!({"type": "object", "properties": {"a": field}})))],
            ..request(vec![user("hi")])
        };
        let (body, _) = encode_as(&request, &subset).unwrap();
        assert!(!body.to_string().contains(&format!("\"{keyword}\"")), "{body}");
    }
}

#[test]
fn row_59_gemini_a_reference_has_nothing_beside_it() {
    let schema = json!({
        "type": "object",
        "properties": {"list": {"type": "array", "items": {"$ref": "#/$defs/a", "description": "One."}}},
        "$defs": {"a": {"type": "object", "properties": {"x": {"type": "string"}}}}
    });
    let request = TurnRequest { tools: vec![Arc::new(tool(schema))], ..request(vec![user("hi")]) };
    let (body, _) = encode(&request);
    let items = &body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]["properties"]["list"]["items"];
    assert_eq!(*items, json!({"type": "object", "properties": {"x": {"type": "string"}}, "description": "One."}));
}

#[test]
fn tricky_5_i_what_vertex_takes_is_told_by_its_dialect() {
    use placet_core::hosted::{HostedTool, RemoteMcp, WebSearch};
    let with = |tool: HostedTool| TurnRequest { hosted: vec![tool], ..request(vec![user("hi")]) };
    let search =
        with(HostedTool::WebSearch(WebSearch { blocked_domains: vec!["a.com".into()], ..WebSearch::default() }));
    let mcp = with(HostedTool::RemoteMcp(RemoteMcp {
        label: "m".into(),
        url: Some("https://m".into()),
        ..RemoteMcp::default()
    }));
    let (api, vertex) = (Dialect::gemini_api(provider()), Dialect::vertex(provider()));
    assert_eq!(
        encode_as(&search, &vertex).unwrap().0["tools"],
        json!([{"googleSearch": {"excludeDomains": ["a.com"]}}])
    );
    assert_eq!(encode_as(&search, &api).unwrap_err().kind, ErrorKind::Unsupported);
    assert_eq!(encode_as(&mcp, &vertex).unwrap_err().kind, ErrorKind::Unsupported);
    assert_eq!(
        encode_as(&mcp, &api).unwrap().0["tools"],
        json!([{"mcpServers": [{"name": "m", "streamableHttpTransport": {"url": "https://m"}}]}])
    );
    // Its own fields come and go as they are.
    let armor = json!({"promptTemplateName": "p"});
    let request = TurnRequest {
        native: native("google", json!({"modelArmorConfig": armor, "generationConfig": {"responseFormat": [1]}})),
        ..request(vec![user("hi")])
    };
    let (body, _) = encode_as(&request, &vertex).unwrap();
    assert_eq!((&body["modelArmorConfig"], &body["generationConfig"]), (&armor, &json!({"responseFormat": [1]})));
}

#[test]
fn tools_of_both_sorts_go_together_only_where_the_model_takes_them() {
    use placet_core::hosted::{HostedOptions, HostedTool};
    let request = TurnRequest {
        tools: vec![Arc::new(tool(json!({"type": "object", "properties": {}})))],
        hosted: vec![HostedTool::UrlContext(HostedOptions::default())],
        ..request(vec![user("hi")])
    };
    let (body, _) = encode(&request);
    assert_eq!(body["toolConfig"], json!({"includeServerSideToolInvocations": true}));
    assert_eq!(body["tools"][1], json!({"urlContext": {}}));
    let dialect = Dialect { mixed_tools: false, ..Dialect::new(provider()) };
    assert_eq!(encode_as(&request, &dialect).unwrap_err().kind, ErrorKind::Unsupported);
}

#[test]
fn thinking_is_told_in_the_measure_that_the_model_knows() {
    let with = |effort: Option<&str>, budget: Option<u64>, thinking: Thinking| {
        let mut request = request(vec![user("hi")]);
        request.controls.reasoning_effort = effort.map(str::to_owned);
        request.controls.reasoning_budget = budget;
        let (body, omitted) = encode_as(&request, &Dialect { thinking, ..Dialect::new(provider()) }).unwrap();
        (body["generationConfig"]["thinkingConfig"].clone(), omitted)
    };
    let reported = |field: &str| vec![field.to_owned()];
    assert_eq!(with(Some("low"), None, Thinking::Levels), (json!({"thinkingLevel": "LOW"}), vec![]));
    assert_eq!(
        with(Some("low"), Some(5), Thinking::Levels),
        (json!({"thinkingLevel": "LOW"}), reported("reasoning_budget"))
    );
    assert_eq!(with(None, Some(5), Thinking::Levels), (json!({"thinkingBudget": 5}), vec![]));
    assert_eq!(
        with(Some("none"), None, Thinking::Levels),
        (json!({"thinkingLevel": "MINIMAL"}), reported("reasoning_effort"))
    );
    assert_eq!(with(Some("none"), None, Thinking::Budgets), (json!({"thinkingBudget": 0}), vec![]));
    assert_eq!(
        with(Some("high"), Some(5), Thinking::Budgets),
        (json!({"thinkingBudget": 5}), reported("reasoning_effort"))
    );
    assert_eq!(with(Some("high"), None, Thinking::None), (Value::Null, reported("reasoning_effort")));
}

#[test]
fn operator_messages_stand_before_the_conversation() {
    let system = |text: &str| item(Message { role: Role::System, parts: vec![Part::text(text)], native: None });
    let leading = TurnRequest { instructions: Some("a".into()), ..request(vec![system("b"), user("hi")]) };
    let (body, _) = encode(&leading);
    assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "a"}, {"text": "b"}]}));
    let late = request(vec![user("hi"), system("b")]);
    let error = encode_as(&late, &Dialect { late_system: LateSystem::Refuse, ..Dialect::new(provider()) }).unwrap_err();
    assert_eq!((error.kind.clone(), error.message.contains("`message.system`")), (ErrorKind::Unsupported, true));
    let (body, omitted) = encode(&late);
    assert_eq!(omitted, ["message.system.place"]);
    assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "b"}]}));
}

#[test]
fn held_content_and_its_making() {
    let mut request = TurnRequest { instructions: Some("Be brief.".into()), ..request(vec![user("hi")]) };
    let made = encode_cached_content(&request, &Dialect::new(provider()), Some(300)).unwrap();
    let wanted = json!({"model": "models/m", "systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": [{"role": "user", "parts": [{"text": "hi"}]}], "ttl": "300s"});
    assert_eq!(serde_json::from_slice::<Value>(&made.body).unwrap(), wanted);
    let held = decode_cached_content(&provider(), br#"{"name": "cachedContents/1", "expireTime": "2026-11-30T00:00:00Z", "usageMetadata": {"totalTokenCount": 7}}"#).unwrap();
    assert_eq!((held.name.as_str(), held.tokens), ("cachedContents/1", Some(7)));
    request.controls.cache = Some(CacheControl { content: Some(held.name), ..CacheControl::default() });
    assert_eq!(encode(&request).0["cachedContent"], "cachedContents/1");
    assert_eq!(decode_cached_content(&provider(), b"{}").unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn counts_models_and_embeddings_both_ways() {
    let request = request(vec![user("hi")]);
    let counted = encode_count_request(&request, &Dialect::new(provider())).unwrap();
    let decoded = decode_count_request(&counted.body, &provider(), &Env::system()).unwrap();
    assert_eq!((decoded.request.model.as_str(), decoded.request.items.len()), ("m", 1));
    assert_eq!(decode_count(&provider(), encode_count(31).to_string().as_bytes()).unwrap(), 31);

    let list =
        json!({"models": [{"name": "models/a", "description": "A."}, {"name": "models/b"}, {}], "nextPageToken": "t"})
            .to_string();
    let models = decode_models(&provider(), list.as_bytes()).unwrap();
    assert_eq!(models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(next_page(list.as_bytes()).as_deref(), Some("t"));
    assert_eq!(decode_models(&provider(), encode_models(&models).to_string().as_bytes()).unwrap()[0], models[0]);
    assert_eq!(decode_models(&provider(), b"[]").unwrap_err().kind, ErrorKind::Protocol);

    let request = placet_core::EmbeddingRequest {
        model: "e".into(),
        inputs: vec!["a".into(), "b".into()],
        dimensions: Some(3),
        task: Some("RETRIEVAL_QUERY".into()),
        ..Default::default()
    };
    let encoded = encode_embedding_request(&request, &Dialect::new(provider())).unwrap();
    assert_eq!(decode_embedding_request(&encoded.body).unwrap(), request);
    let one =
        decode_embedding_request(br#"{"content": {"parts": [{"text": "a"}]}, "output_dimensionality": 2}"#).unwrap();
    assert_eq!((one.inputs, one.dimensions), (vec!["a".to_owned()], Some(2)));
    for body in ["{}", r#"{"requests": []}"#, r#"{"requests": [{"content": {"parts": [{"inlineData": {}}]}}]}"#] {
        assert!(decode_embedding_request(body.as_bytes()).is_err(), "{body}");
    }
    let vectors = placet_core::Embeddings { vectors: vec![vec![0.1, -2.5], vec![1.0, 0.0]], ..Default::default() };
    assert_eq!(
        decode_embeddings(&provider(), encode_embeddings(&vectors, true).to_string().as_bytes()).unwrap(),
        vectors
    );
    let single = decode_embeddings(
        &provider(),
        br#"{"embedding": {"values": [1, 2]}, "usageMetadata": {"promptTokenCount": 4}}"#,
    )
    .unwrap();
    assert_eq!((single.vectors, single.usage.map(|usage| usage.input)), (vec![vec![1.0, 2.0]], Some(4)));
    let vertex = decode_embeddings(
        &provider(),
        br#"{"predictions": [{"embeddings": {"values": [1], "statistics": {"token_count": 5}}}]}"#,
    )
    .unwrap();
    assert_eq!(vertex.usage.map(|usage| usage.input), Some(5));
    assert_eq!(decode_embeddings(&provider(), b"{}").unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn errors_have_googles_shape_and_say_how_long_to_wait() {
    let mut error = ProviderError::new(ErrorKind::RateLimited, provider(), "Slow down.");
    error.retry_after_ms = Some(1500);
    let (status, body) = encode_error(&error);
    assert_eq!(
        (status, &body["error"]["code"], &body["error"]["status"]),
        (429, &json!(429), &json!("RESOURCE_EXHAUSTED"))
    );
    assert_eq!(body["error"]["details"][1]["retryDelay"], "1.5s");
    for kind in [
        ErrorKind::InvalidRequest,
        ErrorKind::Authentication,
        ErrorKind::Permission,
        ErrorKind::NotFound,
        ErrorKind::RateLimited,
        ErrorKind::Overloaded,
        ErrorKind::Timeout,
    ] {
        let (status, body) = encode_error(&ProviderError::new(kind.clone(), provider(), "x"));
        assert_eq!(decode_error(&provider(), status, &http::HeaderMap::new(), body.to_string().as_bytes()).kind, kind);
    }
    let mut out = Vec::new();
    encode_error_event(&error, &mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("data: {\"error\"") && text.ends_with("\n\n"), "{text}");
}

#[test]
fn media_in_results_follow_the_text() {
    let asked = call("f", Some("a"), None);
    let mut shown = result(&asked, Status::Completed, "see");
    shown.outcome.content.push(Part::Image(Media {
        mime_type: Some("image/png".into()),
        ..Media::new(MediaSource::Inline(Inline { base64: "AAAA".into() }))
    }));
    let request = request(vec![user("hi"), item(asked), item(shown)]);
    let (body, _) = encode(&request);
    assert_eq!(
        body["contents"][2]["parts"][0],
        json!({"functionResponse": {"id": "a", "name": "f", "response": {"output": "see"}, "parts": [{"inlineData": {"data": "AAAA", "mimeType": "image/png"}}]}})
    );
    let error = encode_as(&request, &Dialect { result_media: false, ..Dialect::new(provider()) }).unwrap_err();
    assert!(error.message.contains("`tool_result.image`"), "{error}");
}

#[test]
fn a_result_without_its_call_is_sent_all_the_same() {
    let id: CallId = Env::system().new_id();
    let orphan = ToolResult { call: id, ..result(&call("f", Some("x"), None), Status::Completed, "late") };
    let (body, _) = encode(&request(vec![user("hi"), item(orphan)]));
    assert_eq!(body["contents"][1]["parts"][0]["functionResponse"]["id"], "x");
}

#[test]
fn whose_turn_it_is_is_told_where_nothing_is_said() {
    let asked = call("f", None, None);
    let answered = result(&asked, Status::Completed, "ok");
    let (body, omitted) = encode(&request(vec![user(""), item(asked), item(answered)]));
    let roles: Vec<&str> =
        body["contents"].as_array().unwrap().iter().filter_map(|said| said["role"].as_str()).collect();
    assert_eq!(roles, ["user", "model", "user"], "{body}");
    assert_eq!((&body["contents"][0]["parts"], omitted), (&json!([{"text": ""}]), Vec::new()));
    let both = item(Message { role: Role::User, parts: vec![Part::text(""), Part::text("a")], native: None });
    assert_eq!(encode(&request(vec![both])).0["contents"][0]["parts"], json!([{"text": "a"}]));
}
