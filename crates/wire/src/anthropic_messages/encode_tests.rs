#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::decode_tests::{env, own};
use super::*;
use crate::envelope;
use placet_core::hosted::{HostedTool, RemoteMcp};
use placet_core::item::{HostedCall, Message, Reasoning};
use placet_core::part::{CacheMark, Inline, Media, MediaSource, Native, Text};
use placet_core::turn::{CacheControl, CacheStrategy, OutputFormat};
use placet_core::*;
use serde_json::{Value, json};
use std::sync::Arc;

fn dialect() -> Dialect {
    Dialect::new(own())
}

fn item(body: impl Into<ItemBody>) -> Arc<Item> {
    Arc::new(Item::new(ItemId::parse("item_1").unwrap(), Origins::none(), body))
}

fn said(role: Role, text: &str) -> Arc<Item> {
    item(Message { role, parts: vec![Part::text(text)], native: None })
}

fn user(text: &str) -> Arc<Item> {
    said(Role::User, text)
}

fn call(id: &str, arguments: &str) -> Arc<Item> {
    item(ToolCall {
        id: CallId::parse(&format!("call_{id}")).unwrap(),
        provider_id: Some(format!("toolu_{id}")),
        name: "f".into(),
        arguments: Arguments::from_text(arguments),
        native: None,
    })
}

fn outcome(status: Status, content: Vec<Part>) -> Outcome {
    Outcome { content, ..Outcome::new(status, Stage::Execute, None, "") }
}

fn result(id: &str, outcome: Outcome) -> Arc<Item> {
    item(ToolResult {
        call: CallId::parse(&format!("call_{id}")).unwrap(),
        provider_id: Some(format!("toolu_{id}")),
        tool: "f".into(),
        capability: None,
        outcome,
        native: None,
    })
}

fn done(id: &str) -> Arc<Item> {
    result(id, outcome(Status::Completed, vec![Part::text(format!("done {id}"))]))
}

fn thought(text: &str, provider: &str, value: Value) -> Arc<Item> {
    item(Reasoning { text: text.into(), native: Some(Native { provider: provider.into(), value }) })
}

fn request(items: Vec<Arc<Item>>) -> TurnRequest {
    TurnRequest { model: "m".into(), items, ..TurnRequest::default() }
}

fn tool(name: &str) -> Arc<ToolDefinition> {
    let schema = Schema::new(json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    Arc::new(ToolDefinition::new(name, "Does it.", schema, Effect::Read))
}

fn encode_with(request: &TurnRequest, dialect: &Dialect) -> (Value, Vec<String>) {
    let encoded = encode_request(request, dialect).expect("it is taken");
    let what = encoded.omitted.into_iter().map(|omission| omission.what).collect();
    (serde_json::from_slice(&encoded.body).unwrap(), what)
}

fn encode(request: &TurnRequest) -> Value {
    let (body, omitted) = encode_with(request, &dialect());
    assert!(omitted.is_empty(), "{omitted:?}");
    body
}

fn refused(request: &TurnRequest, dialect: &Dialect) -> ProviderError {
    encode_request(request, dialect).expect_err("it is refused")
}

fn decode(body: &Value) -> DecodedRequest {
    decode_request(body.to_string().as_bytes(), &own(), &env()).expect("a request")
}

use crate::request::DecodedRequest;

fn onto(decoded: &DecodedRequest, request: &TurnRequest) -> (Value, Vec<String>) {
    let dialect = Dialect { stream: decoded.stream, ..dialect() };
    let encoded = encode_request_onto(&decoded.body, &decoded.request, request, &dialect).expect("it is taken");
    let what = encoded.omitted.into_iter().map(|omission| omission.what).collect();
    (serde_json::from_slice(&encoded.body).unwrap(), what)
}

/// What the client of a coding assistant sends, in small.
fn assistant_body() -> Value {
    json!({
        "model": "claude-x",
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "<reminder>\nBe good.\n</reminder>"},
                {"type": "text", "text": "What is the weather?"},
            ]},
            {"role": "system", "content": "# Environment", "output_config": {"effort": "medium"}},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "cat a"}, "caller": {"type": "direct"}},
                {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {}},
            ]},
            {"role": "user", "content": [
                {"tool_use_id": "toolu_1", "type": "tool_result", "content": "code 1", "is_error": false},
                {"tool_use_id": "toolu_2", "type": "tool_result", "content": [{"type": "text", "text": "no"}], "is_error": true,
                 "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            ]},
        ],
        "system": [
            {"type": "text", "text": "x-billing: v=1;"},
            {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral", "scope": "global"}},
        ],
        "tools": [
            {"name": "Bash", "description": "Runs.", "input_schema": {"$schema": "https://json-schema.org/draft/2020-12/schema",
             "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"], "additionalProperties": false}},
            {"name": "Later", "description": "", "input_schema": {"type": "object"}, "defer_loading": true},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
        ],
        "metadata": {"user_id": "{\"device_id\":\"d\"}"},
        "max_tokens": 128_000,
        "thinking": {"type": "adaptive", "display": "omitted"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "medium"},
        "stream": true,
        "unheard_of": {"a": null},
    })
}

#[test]
fn a_body_comes_back_as_it_was_and_an_edit_changes_its_place_only() {
    let body = assistant_body();
    let decoded = decode(&body);
    assert!(decoded.stream);
    assert_eq!(onto(&decoded, &decoded.request).0, body);

    let mut edited = decoded.request.clone();
    edited.model = "claude-y".into();
    edited.tools.push(tool("extra"));
    edited.instructions = Some("First.".into());
    let mut expected = body.clone();
    expected["model"] = "claude-y".into();
    expected["tools"]
        .as_array_mut()
        .unwrap()
        .insert(2, encode(&TurnRequest { tools: vec![tool("extra")], ..request(vec![]) })["tools"][0].clone());
    expected["system"].as_array_mut().unwrap().insert(0, json!({"type": "text", "text": "First."}));
    assert_eq!(onto(&decoded, &edited).0, expected);

    // A text that came as a text, and one that came in a list.
    let mut edited = decoded.request.clone();
    for (place, text) in [(1, "Changed."), (2, "Changed too.")] {
        let mut changed = Item::clone(&edited.items[place]);
        let ItemBody::Message(message) = &mut changed.body else { panic!("{changed:?}") };
        *message.parts.last_mut().unwrap() = Part::text(text);
        edited.items[place] = Arc::new(changed);
    }
    let mut expected = body;
    expected["messages"][0]["content"][1]["text"] = "Changed.".into();
    expected["messages"][1]["content"] = "Changed too.".into();
    assert_eq!(onto(&decoded, &edited).0, expected);
}

#[test]
fn the_same_without_the_body_says_the_same() {
    let body = assistant_body();
    let decoded = decode(&body);
    let (again, omitted) = encode_with(&decoded.request, &dialect());
    assert!(omitted.is_empty(), "{omitted:?}");
    for key in
        ["model", "system", "metadata", "max_tokens", "thinking", "context_management", "output_config", "stream"]
    {
        assert_eq!(again[key], body[key], "{key}");
    }
    assert_eq!(again["messages"][2], body["messages"][2]);
    assert_eq!(again["messages"][1]["output_config"], json!({"effort": "medium"}));
    assert_eq!(again["messages"][3]["content"][1]["cache_control"], json!({"type": "ephemeral", "ttl": "1h"}));
    assert_eq!(again["tools"][1]["defer_loading"], true);
    assert_eq!(again["tools"][2], body["tools"][2]);
    // And read again it is the same request.
    assert_eq!(decode(&again).request.controls, decoded.request.controls);
}

#[test]
fn what_a_client_says_is_told_in_our_words() {
    let DecodedRequest { request, .. } = decode(&assistant_body());
    let ItemBody::Message(system) = &request.items[0].body else { panic!("{request:?}") };
    assert_eq!((&system.role, system.parts.len()), (&Role::System, 2));
    let roles: Vec<_> = request.items.iter().map(|item| item.body.kind()).collect();
    assert_eq!(
        roles,
        ["message", "message", "message", "reasoning", "tool_call", "tool_call", "tool_result", "tool_result"]
    );
    let ItemBody::ToolResult(failed) = &request.items[7].body else { panic!("{request:?}") };
    assert_eq!((failed.outcome.status, failed.tool.as_str()), (Status::Failed, "Bash"));
    let ItemBody::ToolCall(second) = &request.items[5].body else { panic!("{request:?}") };
    assert_eq!(failed.call, second.id);
    assert_eq!(failed.provider_id.as_deref(), Some("toolu_2"));
    assert_eq!(second.arguments.as_text(), "{}");
    assert_eq!(request.controls.reasoning_effort.as_deref(), Some("medium"));
    assert_eq!(request.controls.reasoning_summary.as_deref(), Some("none"));
    assert_eq!(request.controls.user.as_deref(), Some("{\"device_id\":\"d\"}"));
    assert_eq!(request.controls.max_output_tokens, Some(128_000));
    let HostedTool::WebSearch(search) = &request.hosted[0] else { panic!("{request:?}") };
    assert_eq!(search.max_uses, Some(8));
    let native = request.native.unwrap().value;
    assert_eq!(native["unheard_of"], json!({"a": null}));
    assert_eq!(native["tools"], json!({"web_search": {"type": "web_search_20250305"}}));
}

#[test]
fn what_is_no_request_is_refused_with_its_place() {
    let field = |body: Value| decode_request(body.to_string().as_bytes(), &own(), &env()).unwrap_err().field.unwrap();
    assert_eq!(field(json!([])), "body");
    assert_eq!(field(json!({"messages": []})), "model");
    assert_eq!(field(json!({"model": "m"})), "messages");
    assert_eq!(field(json!({"model": "m", "messages": [{"role": "king", "content": "a"}]})), "messages[0].role");
    assert_eq!(field(json!({"model": "m", "messages": [{"role": "user"}]})), "messages[0].content");
    assert_eq!(field(json!({"model": "m", "messages": [], "max_tokens": "1"})), "max_tokens");
    assert_eq!(field(json!({"model": "m", "messages": [], "tools": [{}]})), "tools[0].name");
    let body = json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "tool_result"}]}]});
    assert_eq!(field(body), "messages[0].content[0].tool_use_id");
    let error = decode_request(b"{\"model\": ", &own(), &env()).unwrap_err();
    assert!(error.to_string().contains("line 1 column"), "{error}");
}

#[test]
fn rule_8_anthropic() {
    let own_thought = thought("Hm.", "own", json!({"signature": "c2ln"}));
    let hidden = thought("", "own", json!({"type": "redacted_thinking", "data": "aGlkZGVu"}));
    let foreign = thought("Hm.", "other", json!({"thoughtSignature": "eA=="}));
    let request = request(vec![user("a"), own_thought, hidden, foreign, said(Role::Assistant, "b"), user("c")]);
    let (body, omitted) = encode_with(&request, &dialect());
    let expected = json!([
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "text", "text": "b"},
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
    assert_eq!(omitted, ["reasoning"]);
}

#[test]
fn other_providers_state_travels_sealed_and_is_never_sent_to_this_one() {
    let state = Native { provider: "google".into(), value: json!({"thoughtSignature": "eA=="}) };
    let body = json!({"model": "m", "stream": true, "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": envelope::seal(&state)},
            {"type": "redacted_thinking", "data": sealed::seal(sealed::Owner::NextCall, &state)},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
            {"type": "text", "text": "b"},
            {"type": "redacted_thinking", "data": sealed::seal(sealed::Owner::Text, &state)},
            {"type": "redacted_thinking", "data": sealed::seal_item(&"google".into(), &ItemBody::Native(state.clone()))},
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "c"}]},
    ]});
    let decoded = decode(&body);
    let bodies: Vec<_> = decoded.request.items.iter().map(|item| &item.body).collect();
    assert!(matches!(bodies[1], ItemBody::Reasoning(reasoning) if reasoning.native.as_ref() == Some(&state)));
    assert!(matches!(bodies[2], ItemBody::ToolCall(call) if call.native.as_ref() == Some(&state)));
    let ItemBody::Message(message) = bodies[3] else { panic!("{bodies:?}") };
    assert!(matches!(&message.parts[0], Part::Text(text) if text.native.as_ref() == Some(&state)));
    assert_eq!(*bodies[4], ItemBody::Native(state));

    let (sent, omitted) = onto(&decoded, &decoded.request);
    assert!(!sent.to_string().contains("placet1."), "{sent}");
    assert_eq!(omitted, ["reasoning"]);
    assert_eq!(sent["messages"][1]["content"].as_array().unwrap().len(), 2);
    let (sent, omitted) = encode_with(&decoded.request, &dialect());
    assert!(!sent.to_string().contains("placet1."), "{sent}");
    assert_eq!(omitted, ["reasoning", "tool_call.native", "text.native", "native_item"]);
}

#[test]
fn tricky_4_a() {
    super::decode_tests::tricky_4_a_is_kept();
    let request = request(vec![
        user("a"),
        thought("", "own", json!({"signature": "c2lnLXN5bg=="})),
        call("4", "{\"city\":\"Paris\"}"),
        done("4"),
    ]);
    let expected = json!([
        {"type": "thinking", "thinking": "", "signature": "c2lnLXN5bg=="},
        {"type": "tool_use", "id": "toolu_4", "name": "f", "input": {"city": "Paris"}},
    ]);
    assert_eq!(encode(&request)["messages"][1]["content"], expected);
}

#[test]
fn tricky_4_b() {
    super::decode_tests::tricky_4_b_each_thinking_has_its_own_signature();
    // What came goes back byte for byte, thinking before the calls it led to.
    let content = json!([
        {"type": "thinking", "thinking": "One.", "signature": "c2lnMQ=="},
        {"type": "text", "text": "Let me look."},
        {"type": "thinking", "thinking": "Two.", "signature": "c2lnMg=="},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"b": 1, "a": [1.0, 2e3]}},
    ]);
    let body = json!({"model": "m", "max_tokens": 5, "messages": [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "c"}]},
    ]});
    assert_eq!(encode(&decode(&body).request)["messages"][1]["content"], content);
}

#[test]
fn row_40_anthropic() {
    tricky_4_b();
}

#[test]
fn tricky_4_d() {
    super::decode_tests::tricky_4_d_input_of_hosted_tools_is_kept();
    let block = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}});
    let hosted = HostedCall { provider: own(), kind: "server_tool_use".into(), value: block.clone() };
    let foreign = HostedCall { provider: "other".into(), kind: "web_search_call".into(), value: json!({}) };
    let request = request(vec![user("a"), item(hosted), item(foreign)]);
    let (body, omitted) = encode_with(&request, &dialect());
    assert_eq!(body["messages"][1]["content"], json!([block]));
    assert_eq!(omitted, ["hosted_call"]);
}

#[test]
fn tricky_4_f() {
    super::decode_tests::tricky_4_f_a_pause_is_told();
    // The same conversation with what came goes out again, as one message of the model.
    let block = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}});
    let paused = item(HostedCall { provider: own(), kind: "server_tool_use".into(), value: block.clone() });
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
    let went_on = item(HostedCall { provider: own(), kind: "web_search_tool_result".into(), value: found.clone() });
    let body = encode(&request(vec![user("a"), thought("", "own", json!({"signature": "c2ln"})), paused.clone()]));
    assert_eq!(body["messages"][1]["content"][1], block);
    let body = encode(&request(vec![user("a"), paused, went_on, said(Role::Assistant, "So.")]));
    assert_eq!(body["messages"].as_array().unwrap().len(), 2);
    assert_eq!(body["messages"][1]["content"], json!([block, found, {"type": "text", "text": "So."}]));
}

#[test]
fn row_42_anthropic() {
    tricky_4_f();
}

#[test]
fn tricky_4_g() {
    let picture = Media {
        mime_type: Some("image/png".into()),
        ..Media::new(MediaSource::Inline(Inline { base64: "AA==".into() }))
    };
    let shown = outcome(Status::Completed, vec![Part::text("See:"), Part::Image(picture)]);
    let refused = Outcome::new(Status::Refused, Stage::Granted, Some(Reason::NotAuthorised), "no such tool");
    // The user spoke before the results were known, and the results came in another order.
    let request = request(vec![
        user("a"),
        call("1", "{}"),
        call("2", ""),
        call("3", "null"),
        user("Hurry."),
        done("2"),
        result("1", shown),
        result("3", refused),
    ]);
    let body = encode(&request);
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{body}");
    let expected = json!([
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "done 2"},
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [
            {"type": "text", "text": "See:"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
        ]},
        {"type": "tool_result", "tool_use_id": "toolu_3", "content": "no such tool", "is_error": true},
        {"type": "text", "text": "Hurry."},
    ]);
    assert_eq!(messages[2]["content"], expected);
    let inputs: Vec<_> = messages[1]["content"].as_array().unwrap().iter().map(|block| &block["input"]).collect();
    assert_eq!(inputs, [&json!({}), &json!({}), &json!({})]);
    // A call without a result is not sent at all.
    let error = self::refused(&self::request(vec![user("a"), call("1", "{}")]), &dialect());
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert!(error.message.contains("toolu_1"), "{error}");
}

#[test]
fn row_43_anthropic() {
    tricky_4_g();
}

#[test]
fn row_11_anthropic() {
    for arguments in ["", "null", "\"null\"", "{}"] {
        let body = encode(&request(vec![user("a"), call("1", arguments), done("1")]));
        assert_eq!(body["messages"][1]["content"][0]["input"], json!({}), "{arguments}");
    }
    // Half an object can go back in an object only.
    let body = encode(&request(vec![user("a"), call("1", "{\"a\": \"b"), done("1")]));
    assert_eq!(body["messages"][1]["content"][0]["input"], json!({"INVALID_JSON": "{\"a\": \"b"}));
    let body = encode(&request(vec![user("a"), call("1", "\"{\\\"a\\\":1}\""), done("1")]));
    assert_eq!(body["messages"][1]["content"][0]["input"], json!({"a": 1}));
}

#[test]
fn empty_texts_are_not_sent() {
    let request = request(vec![user("a"), said(Role::Assistant, ""), user("")]);
    assert_eq!(encode(&request)["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn tricky_4_k() {
    let items = vec![said(Role::System, "Be good."), user("a"), said(Role::System, "Now be quick."), user("b")];
    let request = TurnRequest { instructions: Some("You are X.".into()), ..request(items) };
    let body = encode(&request);
    assert_eq!(body["system"], json!([{"type": "text", "text": "You are X."}, {"type": "text", "text": "Be good."}]));
    let roles: Vec<_> =
        body["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "system", "user"]);
    // A model that cannot hear it there is told before, and that is reported.
    let (body, omitted) = encode_with(&request, &Dialect { mid_system: false, ..dialect() });
    assert_eq!(body["system"][2]["text"], "Now be quick.");
    assert_eq!(body["messages"].as_array().unwrap().len(), 2);
    assert_eq!(omitted, ["message.system.place"]);
}

#[test]
fn tricky_4_l() {
    let body = json!({"model": "claude-x", "messages": [{"role": "user", "content": "hello"}]});
    let decoded = decode(&body);
    assert_eq!(decoded.request.controls.max_output_tokens, None);
    let request = TurnRequest {
        tools: vec![tool("f")],
        controls: turn::Controls { temperature: Some(0.5), ..Default::default() },
        ..decoded.request
    };
    let encoded = encode_count_request(&request, &dialect()).unwrap();
    let body: Value = serde_json::from_slice(&encoded.body).unwrap();
    let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["model", "tools", "messages"]);
}

#[test]
fn tricky_4_m() {
    let strict = |count: usize| {
        let properties: serde_json::Map<_, _> =
            (0..count).map(|i| (format!("p{i}"), json!({"type": "string"}))).collect();
        let schema = Schema::new(json!({"type": "object", "properties": properties, "additionalProperties": false}));
        Arc::new(ToolDefinition {
            strict: Some(true),
            ..ToolDefinition::new(format!("t{count}"), "d", schema, Effect::Read)
        })
    };
    let with = |tools: Vec<Arc<ToolDefinition>>| TurnRequest { tools, ..request(vec![user("a")]) };
    let body = encode(&with(vec![strict(20), strict(4)]));
    assert_eq!((&body["tools"][0]["strict"], &body["tools"][1]["strict"]), (&json!(true), &json!(true)));
    // More than the provider takes: the tool stays, its strictness does not.
    let (body, omitted) = encode_with(&with(vec![strict(20), strict(5)]), &dialect());
    assert_eq!((&body["tools"][0]["strict"], body["tools"][1].get("strict")), (&json!(true), None));
    assert_eq!(omitted, ["tool.strict"]);
    // A schema that takes everything takes every object.
    let anything = ToolDefinition {
        strict: Some(true),
        ..ToolDefinition::new("any", "d", Schema::new(json!(true)), Effect::Read)
    };
    let (body, omitted) = encode_with(&with(vec![Arc::new(anything)]), &dialect());
    assert_eq!(body["tools"][0]["input_schema"], json!({"type": "object", "properties": {}}));
    assert_eq!((body["tools"][0].get("strict"), omitted), (None, vec!["tool.strict".to_owned()]));
}

#[test]
fn row_47_anthropic() {
    let controls = turn::Controls { temperature: Some(0.2), top_p: Some(0.9), top_k: Some(5), ..Default::default() };
    let request = TurnRequest { controls, ..request(vec![user("a")]) };
    for dialect in [Dialect { sampling: false, ..dialect() }, Dialect { version: ApiVersion::V2026, ..dialect() }] {
        let (body, omitted) = encode_with(&request, &dialect);
        assert!(body.get("temperature").or(body.get("top_p")).or(body.get("top_k")).is_none(), "{body}");
        assert_eq!(omitted, ["temperature", "top_p", "top_k"]);
    }
    assert_eq!(encode(&request)["temperature"], 0.2);
    assert_eq!((ApiVersion::V2023.header(), ApiVersion::V2026.header()), ("2023-06-01", "2026-10-21"));
}

#[test]
fn a_limit_is_always_set_and_never_made_up_here() {
    let request = request(vec![user("a")]);
    assert_eq!(encode(&request)["max_tokens"], 32_000);
    let dialect = Dialect { max_tokens: 8192, ..dialect() };
    assert_eq!(encode_with(&request, &dialect).0["max_tokens"], 8192);
    let controls = turn::Controls { max_output_tokens: Some(7), ..Default::default() };
    assert_eq!(encode_with(&TurnRequest { controls, ..request }, &dialect).0["max_tokens"], 7);
}

fn thinking(dialect: &Dialect, change: impl FnOnce(&mut turn::Controls)) -> (Value, Vec<String>) {
    let mut request = request(vec![user("a")]);
    change(&mut request.controls);
    encode_with(&request, dialect)
}

#[test]
fn thinking_is_told_as_the_model_takes_it() {
    let with = |mode| Dialect { thinking: mode, ..dialect() };
    let effort = |word: &str| {
        let word = word.to_owned();
        move |controls: &mut turn::Controls| controls.reasoning_effort = Some(word)
    };
    let (body, _) = thinking(&with(Thinking::Adaptive), effort("high"));
    assert_eq!((&body["thinking"], &body["output_config"]), (&json!({"type": "adaptive"}), &json!({"effort": "high"})));
    let (body, _) = thinking(&with(Thinking::Adaptive), effort("minimal"));
    assert_eq!(body["output_config"]["effort"], "low");
    let older = Dialect { effort: false, thinking_display: false, ..with(Thinking::Budget) };
    for (word, budget) in [("minimal", 1024), ("low", 1024), ("medium", 4096), ("high", 8192), ("xhigh", 16384)] {
        let (body, omitted) = thinking(&older, effort(word));
        assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": budget}));
        assert!(body.get("output_config").is_none() && omitted.is_empty());
    }
    let (body, _) = thinking(&older, effort("none"));
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    let (body, omitted) = thinking(&Dialect { effort: false, ..with(Thinking::None) }, effort("low"));
    assert_eq!((body.get("thinking"), omitted), (None, vec!["reasoning_effort".to_owned()]));
    let (body, omitted) = thinking(&with(Thinking::Adaptive), |controls| controls.reasoning_budget = Some(5000));
    assert_eq!((&body["thinking"], omitted), (&json!({"type": "adaptive"}), vec!["reasoning_budget".to_owned()]));
    // The limit leaves room for the answer beside the thinking, unless somebody set it.
    let (body, _) = thinking(&Dialect { max_tokens: 4096, ..older.clone() }, effort("high"));
    assert_eq!(body["max_tokens"], 8192 + 1024);
    let (body, omitted) = thinking(&older, |controls| {
        controls.reasoning_budget = Some(9000);
        controls.max_output_tokens = Some(4000);
    });
    assert_eq!((&body["thinking"]["budget_tokens"], &body["max_tokens"]), (&json!(2000), &json!(4000)));
    assert_eq!(omitted, ["reasoning_budget.part"]);
    let (body, omitted) = thinking(&older, |controls| {
        controls.reasoning_budget = Some(9000);
        controls.max_output_tokens = Some(1500);
    });
    assert_eq!((body.get("thinking"), omitted), (None, vec!["reasoning_budget".to_owned()]));
    // A model that thinks takes no temperature but the usual one.
    let (body, omitted) = thinking(&dialect(), |controls| {
        controls.reasoning_budget = Some(1024);
        (controls.temperature, controls.top_p, controls.top_k) = (Some(0.5), Some(0.97), Some(3));
    });
    assert_eq!((body.get("temperature"), &body["top_p"]), (None, &json!(0.97)));
    assert_eq!(omitted, ["temperature", "top_k"]);
    let (body, omitted) = thinking(&dialect(), |controls| controls.reasoning_summary = Some("none".into()));
    assert!(body.get("thinking").is_none() && omitted.is_empty());
    let (body, _) = thinking(&dialect(), |controls| {
        controls.reasoning_effort = Some("low".into());
        controls.reasoning_summary = Some("none".into());
    });
    assert_eq!(body["thinking"], json!({"type": "adaptive", "display": "omitted"}));
    // A call that is demanded comes before thinking, which is a hint.
    let mut request =
        TurnRequest { tools: vec![tool("f")], tool_choice: ToolChoice::Required, ..request(vec![user("a")]) };
    request.controls.reasoning_budget = Some(2048);
    let (body, omitted) = encode_with(&request, &dialect());
    assert_eq!((body.get("thinking"), &body["tool_choice"]), (None, &json!({"type": "any"})));
    assert_eq!(omitted, ["reasoning_budget"]);
}

#[test]
fn a_clients_own_word_for_thinking_stands() {
    for thinking in [
        json!({"type": "adaptive"}),
        json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}),
        json!({"type": "adaptive", "display": "summarized"}),
        json!({"type": "adaptive", "display": "updates"}),
        json!({"type": "enabled", "budget_tokens": 2048}),
        json!({"type": "enabled", "budget_tokens": 2048, "display": "omitted"}),
        json!({"type": "disabled"}),
        json!({"type": "between_tools"}),
        Value::Null,
    ] {
        for effort in
            [Value::Null, json!({"effort": "low"}), json!({"effort": "low", "task_budget": {"type": "tokens"}})]
        {
            let mut body = json!({"model": "m", "max_tokens": 8000, "messages": [{"role": "user", "content": "a"}]});
            for (key, value) in [("thinking", &thinking), ("output_config", &effort)] {
                if !value.is_null() {
                    body[key] = value.clone();
                }
            }
            let (again, _) = encode_with(&decode(&body).request, &dialect());
            assert_eq!(again.get("thinking"), body.get("thinking"), "{body}");
            assert_eq!(again.get("output_config"), body.get("output_config"), "{body}");
        }
    }
}

#[test]
fn marks_go_where_they_are_set_or_asked_for() {
    let marked = Part::Text(Text { cache: Some(CacheMark { ttl: Some("1h".into()) }), ..Text::new("a") });
    let message = item(Message { role: Role::User, parts: vec![marked], native: None });
    let base = TurnRequest { instructions: Some("Be brief.".into()), ..request(vec![message]) };
    let with = |cache: CacheControl| {
        let mut request = base.clone();
        request.controls.cache = Some(cache);
        request
    };
    let mark = |body: &Value| body["messages"][0]["content"][0].get("cache_control").cloned();
    assert_eq!(mark(&encode(&base)), Some(json!({"type": "ephemeral", "ttl": "1h"})));
    let automatic = with(CacheControl { strategy: Some(CacheStrategy::Auto), ..Default::default() });
    assert_eq!(encode(&automatic)["cache_control"], json!({"type": "ephemeral"}));
    let (body, _) = encode_with(&automatic, &Dialect { cache: Cache::Marks, ..dialect() });
    assert_eq!(body["system"], json!([{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]));
    assert!(body.get("cache_control").is_none() && mark(&body).is_some());
    let bypass = with(CacheControl { strategy: Some(CacheStrategy::Bypass), ..Default::default() });
    assert_eq!(mark(&encode(&bypass)), None);
    let (body, omitted) = encode_with(&base, &Dialect { cache: Cache::None, ..dialect() });
    assert_eq!((mark(&body), omitted), (None, vec!["text.cache".to_owned()]));
    let (body, omitted) = encode_with(&base, &Dialect { long_cache: false, ..dialect() });
    assert_eq!((mark(&body), omitted), (Some(json!({"type": "ephemeral"})), vec!["cache.ttl".to_owned()]));
}

#[test]
fn the_shape_of_an_answer_is_told() {
    let output =
        |strict, schema| OutputFormat { name: "output".into(), description: None, schema: Schema::new(schema), strict };
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let request = TurnRequest { output: Some(output(true, schema.clone())), ..request(vec![user("a")]) };
    assert_eq!(encode(&request)["output_config"], json!({"format": {"type": "json_schema", "schema": schema}}));
    let error = refused(&request, &Dialect { structured_output: false, ..dialect() });
    assert_eq!(error.kind, ErrorKind::Unsupported);
    // The older place of it is read as well.
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"}], "output_format": {"type": "json_schema", "schema": schema}});
    assert_eq!(decode(&body).request.output.unwrap().schema.as_value(), &schema);
}

#[test]
fn mcp_servers_keep_their_restrictions() {
    let server = json!({"type": "url", "url": "https://mcp.example", "name": "crm", "authorization_token": "t"});
    let base = |extra: Value| {
        let mut body = json!({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "a"}], "mcp_servers": [server]});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    };
    let allowed = json!({"tools": [{"type": "mcp_toolset", "mcp_server_name": "crm", "default_config": {"enabled": false, "defer_loading": true},
        "configs": {"lookup": {"enabled": true, "defer_loading": false}}, "cache_control": {"type": "ephemeral"}}]});
    let denied = json!({"tools": [{"type": "mcp_toolset", "mcp_server_name": "crm", "configs": {"delete": {"enabled": false}}}]});
    let none =
        json!({"tools": [{"type": "mcp_toolset", "mcp_server_name": "crm", "default_config": {"enabled": false}}]});
    for (extra, allow, deny) in [(&allowed, vec!["lookup"], vec![]), (&denied, vec![], vec!["delete"])] {
        let body = base(extra.clone());
        let decoded = decode(&body);
        let HostedTool::RemoteMcp(mcp) = &decoded.request.hosted[0] else { panic!("{decoded:?}") };
        assert_eq!(
            (mcp.allowed_tools.clone(), mcp.denied_tools.clone()),
            (allow.iter().map(|s| (*s).to_owned()).collect(), deny.iter().map(|s| (*s).to_owned()).collect())
        );
        assert_eq!(mcp.authorization.as_deref(), Some("t"));
        let (again, omitted) = encode_with(&decoded.request, &dialect());
        assert_eq!((&again["tools"], &again["mcp_servers"]), (&body["tools"], &body["mcp_servers"]));
        assert!(omitted.is_empty(), "{omitted:?}");
        assert!(beta_headers(&decoded.request).contains(&"mcp-client-2025-11-20"));
    }
    // A toolset of which everything is off is no server of which everything is on.
    let decoded = decode(&base(none.clone()));
    assert!(matches!(decoded.request.hosted[0], HostedTool::Raw(_)));
    let (again, _) = encode_with(&decoded.request, &dialect());
    assert_eq!((&again["tools"], &again["mcp_servers"]), (&none["tools"], &json!([server])));
    // The older form, and one that narrows what was kept.
    let mut legacy = base(json!({}));
    legacy["mcp_servers"][0]["tool_configuration"] = json!({"allowed_tools": ["ask"], "enabled": true});
    let mut decoded = decode(&legacy).request;
    assert_eq!(encode_with(&decoded, &dialect()).0["mcp_servers"], legacy["mcp_servers"]);
    assert!(beta_headers(&decoded).contains(&"mcp-client-2025-04-04"));
    let HostedTool::RemoteMcp(mcp) = &mut decoded.hosted[0] else { panic!("{decoded:?}") };
    mcp.allowed_tools = vec!["other".into()];
    let (again, _) = encode_with(&decoded, &dialect());
    assert_eq!(again["mcp_servers"][0]["tool_configuration"]["allowed_tools"], json!(["other"]));
    let ours = TurnRequest {
        hosted: vec![HostedTool::RemoteMcp(RemoteMcp { label: "crm".into(), ..RemoteMcp::default() })],
        ..request(vec![user("a")])
    };
    assert!(refused(&ours, &dialect()).message.contains("hosted.remote_mcp.url"));
}

#[test]
fn hosted_tools_of_a_client_come_back() {
    let tools = json!([
        {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a.example"], "user_location": {"type": "approximate"}},
        {"type": "web_fetch_20250910", "name": "web_fetch", "citations": {"enabled": true}, "max_uses": 2},
        {"type": "code_execution_20260120", "name": "code_execution"},
        {"type": "bash_20250124", "name": "bash", "cache_control": {"type": "ephemeral"}},
        {"type": "text_editor_20250124", "name": "str_replace_editor"},
        {"type": "memory_20250818", "name": "memory"},
        {"type": "computer_20251124", "name": "computer", "display_width_px": 10, "display_height_px": 20, "enable_zoom": true},
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
        {"type": "advisor_20260301", "name": "advisor", "model": "claude-y"},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 1},
    ]);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"}], "tools": tools, "tool_choice": {"type": "tool", "name": "web_search"}});
    let decoded = decode(&body);
    let kinds: Vec<_> = decoded.request.hosted.iter().map(HostedTool::kind).collect();
    let expected =
        ["web_search", "web_fetch", "code_interpreter", "raw", "raw", "raw", "raw", "tool_search", "raw", "raw"];
    assert_eq!(kinds, expected);
    let (again, omitted) = encode_with(&decoded.request, &dialect());
    let sorted = |value: &Value| {
        let mut entries: Vec<_> = value
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| {
                entry
                    .as_object()
                    .unwrap()
                    .iter()
                    .collect::<std::collections::BTreeMap<_, _>>()
                    .into_iter()
                    .map(|(k, v)| format!("{k}={v}"))
                    .collect::<String>()
            })
            .collect();
        entries.sort();
        entries
    };
    assert_eq!(sorted(&again["tools"]), sorted(&tools));
    assert!(omitted.is_empty(), "{omitted:?}");
    let betas = beta_headers(&decoded.request);
    assert_eq!(betas, ["context-management-2025-06-27", "computer-use-2025-11-24", "advisor-tool-2026-03-01"]);
}

#[test]
fn beta_features_are_named() {
    let of = |body: Value| {
        let mut base = json!({"model": "m", "messages": [{"role": "user", "content": "a"}]});
        base.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        beta_headers(&decode(&base).request)
    };
    assert!(of(json!({})).is_empty());
    assert_eq!(of(json!({"context_management": {"edits": [{"type": "compact_20260112"}]}})), ["compact-2026-01-12"]);
    let both =
        json!({"context_management": {"edits": [{"type": "clear_thinking_20251015"}, {"type": "compact_20260112"}]}});
    assert_eq!(of(both), ["context-management-2025-06-27", "compact-2026-01-12"]);
    assert_eq!(of(json!({"cache_control": {"type": "ephemeral", "ttl": "1h"}})), ["extended-cache-ttl-2025-04-11"]);
    assert_eq!(of(json!({"speed": "fast"})), ["fast-mode-2026-02-01"]);
    assert!(of(json!({"speed": "standard"})).is_empty());
    assert_eq!(
        of(
            json!({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "file_1"}}]}]})
        ),
        ["files-api-2025-04-14"]
    );
    assert_eq!(
        of(assistant_body()),
        ["context-management-2025-06-27", "mid-conversation-output-config-2026-07-01", "extended-cache-ttl-2025-04-11"]
    );
}

#[test]
fn other_providers_fields_are_reported() {
    let foreign = Native { provider: "other".into(), value: json!({"x": 1}) };
    let base = TurnRequest {
        native: Some(foreign.clone()),
        provider_state: Some(ProviderState { provider: "other".into(), value: json!({}) }),
        ..request(vec![user("a"), item(foreign)])
    };
    assert_eq!(encode_with(&base, &dialect()).1, ["native.x", "native_item", "provider_state"]);
    let own_state = ProviderState { provider: own(), value: json!({"container": "c_1"}) };
    assert_eq!(
        encode(&TurnRequest { provider_state: Some(own_state), ..request(vec![user("a")]) })["container"],
        "c_1"
    );
}

#[test]
fn names_go_out_under_an_alias_where_they_must() {
    let name = "mcp:crm.lookup";
    let request = TurnRequest {
        tools: vec![tool(name), tool(&"x".repeat(100))],
        tool_choice: ToolChoice::Tool(name.into()),
        ..request(vec![user("a")])
    };
    let encoded = encode_request(&request, &dialect()).unwrap();
    let body: Value = serde_json::from_slice(&encoded.body).unwrap();
    let alias = body["tools"][0]["name"].as_str().unwrap();
    assert_eq!(encoded.names.original(alias).as_str(), name);
    assert_eq!(
        (body["tool_choice"]["name"].as_str(), body["tools"][1]["name"].as_str()),
        (Some(alias), Some(&*"x".repeat(100)))
    );
}

#[test]
fn a_result_whose_call_is_gone_is_kept() {
    let body = json!({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_gone", "content": "c"}]}]});
    let decoded = decode(&body);
    let ItemBody::ToolResult(result) = &decoded.request.items[0].body else { panic!("{decoded:?}") };
    assert_eq!((result.tool.as_str(), result.provider_id.as_deref()), ("toolu_gone", Some("toolu_gone")));
    assert_eq!(encode(&decoded.request)["messages"], body["messages"]);
}

#[test]
fn a_reused_id_stands_for_each_call_in_its_turn() {
    let turn = |text: &str| {
        [
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": text}]}),
        ]
    };
    let messages: Vec<Value> = [turn("one"), turn("two")].into_iter().flatten().collect();
    let decoded = decode(&json!({"model": "m", "messages": messages}));
    let calls: Vec<_> = decoded
        .request
        .items
        .iter()
        .filter_map(|item| match &item.body {
            ItemBody::ToolCall(call) => Some(call.id.clone()),
            ItemBody::ToolResult(result) => Some(result.call.clone()),
            _ => None,
        })
        .collect();
    assert_eq!((&calls[0], &calls[2]), (&calls[1], &calls[3]));
    assert_ne!(calls[0], calls[2]);
    let body = encode(&decoded.request);
    assert_eq!(body["messages"][3]["content"][0]["content"], "two");
    assert_eq!(body["messages"][2]["content"][0]["id"], body["messages"][3]["content"][0]["tool_use_id"]);
    assert_ne!(body["messages"][2]["content"][0]["id"], body["messages"][0]["content"][0]["id"]);
}

#[test]
fn options_of_another_providers_tool_are_left_out_or_refused() {
    let search = |extra: Value| {
        let tool = placet_core::hosted::WebSearch { extra: extra.as_object().unwrap().clone(), ..Default::default() };
        TurnRequest { hosted: vec![HostedTool::WebSearch(tool)], ..request(vec![user("a")]) }
    };
    let foreign =
        search(json!({"type": "web_search_preview", "external_web_access": true, "response_inclusion": "full"}));
    let (body, omitted) = encode_with(&foreign, &dialect());
    let expected = json!({"type": "web_search_20260209", "response_inclusion": "full", "name": "web_search"});
    assert_eq!(body["tools"], json!([expected]));
    assert_eq!(omitted, ["hosted.web_search.type", "hosted.web_search.external_web_access"]);
    assert_eq!(encode(&search(json!({"type": "web_search_20250305"})))["tools"][0]["type"], "web_search_20250305");
    for restriction in [json!({"external_web_access": false}), json!({"allowed_tools": {"read_only": true}})] {
        assert_eq!(refused(&search(restriction), &dialect()).kind, ErrorKind::Unsupported);
    }
}

#[test]
fn spaces_that_the_provider_wrote_between_its_sources_go_back() {
    let cited = json!([{"type": "web_search_result_location", "url": "https://e.com", "title": "E", "cited_text": "x", "encrypted_index": "i"}]);
    let said = json!([{"type": "text", "text": "One.", "citations": cited}, {"type": "text", "text": "\n\n"}, {"type": "text", "text": "Two."}]);
    let plain = json!([{"type": "text", "text": " "}, {"type": "text", "text": "Two."}]);
    for (content, kept, omitted) in [(&said, 3, 0), (&plain, 1, 1)] {
        let body = json!({"model": "m", "max_tokens": 1, "messages": [
            {"role": "user", "content": "a"}, {"role": "assistant", "content": content}, {"role": "user", "content": "b"}]});
        let read = decode_request(body.to_string().as_bytes(), &own(), &env()).unwrap().request;
        let encoded = encode_request(&read, &dialect()).unwrap();
        let written: Value = serde_json::from_slice(&encoded.body).unwrap();
        assert_eq!(written["messages"][1]["content"].as_array().map(Vec::len), Some(kept), "{written}");
        assert_eq!(encoded.omitted.len(), omitted);
    }
}
