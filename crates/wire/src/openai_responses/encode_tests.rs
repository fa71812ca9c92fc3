#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use placet_core::env::ManualClock;
use placet_core::hosted::{HostedTool, RemoteMcp, WebSearch};
use placet_core::item::{HostedCall, Reasoning};
use placet_core::part::Native;
use placet_core::turn::StateMode;
use placet_core::{
    Arguments, CallId, Effect, Env, ErrorKind, Item, ItemBody, Message, Origin, Outcome, Part, ProviderState, Role,
    Schema, Stage, Status, Timestamp, ToolCall, ToolChoice, ToolDefinition, ToolResult, TurnRequest,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn own() -> ProviderId {
    ProviderId::new("openai")
}

fn dialect() -> Dialect {
    Dialect { stream: false, ..Dialect::new(own()) }
}

fn body_of(request: &TurnRequest, dialect: &Dialect) -> (Value, Vec<String>) {
    let encoded = encode_request(request, dialect).unwrap_or_else(|error| panic!("{error:?}"));
    let omitted = encoded.omitted.iter().map(|omission| omission.what.clone()).collect();
    (serde_json::from_slice(&encoded.body).unwrap(), omitted)
}

fn body(request: &TurnRequest) -> Value {
    let (body, omitted) = body_of(request, &dialect());
    assert!(omitted.is_empty(), "{omitted:?}");
    body
}

struct Made(Env);

impl Made {
    fn new() -> Self {
        Made(Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 3))
    }

    fn item(&self, body: impl Into<ItemBody>) -> Arc<Item> {
        Arc::new(Item::new(self.0.new_id(), Origin::User, body))
    }

    fn says(&self, role: Role, text: &str) -> Arc<Item> {
        self.item(Message { role, parts: vec![Part::text(text)], native: None })
    }

    fn call(&self, wire_id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall {
            id: self.0.new_id(),
            provider_id: Some(wire_id.to_owned()),
            name: name.into(),
            arguments: Arguments::from_text(arguments),
            native: None,
        }
    }

    fn result(&self, call: &ToolCall, text: &str) -> Arc<Item> {
        self.item(ToolResult::of(call, Outcome::new(Status::Completed, Stage::Execute, None, text)))
    }
}

fn native(value: Value) -> Native {
    Native { provider: own(), value }
}

fn reasoning(value: Value) -> Reasoning {
    Reasoning { text: String::new(), native: Some(native(value)) }
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition::new(
        name,
        "It does.",
        Schema::new(json!({"type": "object", "properties": {}, "additionalProperties": false})),
        Effect::Once,
    )
}

fn request(items: Vec<Arc<Item>>) -> TurnRequest {
    TurnRequest { model: "m".into(), items, ..TurnRequest::default() }
}

/// A finished round: a question, thinking, a call and its result; then a new question.
fn conversation(made: &Made) -> TurnRequest {
    let mut call = made.call("call_1", "read", "{}");
    call.native = Some(native(json!({"id": "fc_1"})));
    let result = made.result(&call, "done");
    let thought = reasoning(json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"}));
    let mut request = request(vec![
        made.says(Role::User, "first"),
        made.item(thought),
        made.item(call),
        result,
        made.says(Role::User, "second"),
    ]);
    request.tools = vec![Arc::new(tool("read"))];
    request
}

fn kinds(body: &Value) -> Vec<String> {
    let kind = |item: &Value| item["type"].as_str().unwrap_or_default().to_owned();
    body["input"].as_array().unwrap().iter().map(kind).collect()
}

#[test]
fn state_of_others_is_left_out_and_reported() {
    let other = ProviderId::new("other");
    for field in [
        "message.native",
        "reasoning",
        "tool_call.native",
        "tool_result.native",
        "hosted_call",
        "text.native",
        "image.native",
        "tool.native",
        "provider_state",
        "native",
    ] {
        let (without, with) = crate::fields::examples::example(field, &other);
        let (body, omitted) = body_of(&with, &dialect());
        let told = match field {
            "message.native" => "message.native.odd",
            "tool.native" => "tool.native.defer_loading",
            "image.native" => "image.native.odd",
            "native" => "native.odd_field",
            field => field,
        };
        assert_eq!(omitted, [told], "{field}");
        assert_eq!(body, body_of(&without, &dialect()).0, "{field}");
    }
    let (_, with) = crate::fields::examples::example("image.provider_file", &other);
    assert_eq!(encode_request(&with, &dialect()).unwrap_err().kind, ErrorKind::Unsupported);
}

#[test]
fn a_conversation_goes_out_in_its_order() {
    let made = Made::new();
    let mut request = conversation(&made);
    request.instructions = Some("Be brief.".into());
    let body = body(&request);
    assert_eq!(body["instructions"], "Be brief.");
    assert_eq!(
        body["input"],
        json!([
            {"type": "message", "role": "user", "content": "first"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"},
            {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}", "id": "fc_1"},
            {"type": "function_call_output", "call_id": "call_1", "output": "done"},
            {"type": "message", "role": "user", "content": "second"},
        ])
    );
    let keys: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["model", "instructions", "tools", "input"], "what stays the same comes first");
    assert_eq!(body["tools"][0]["strict"], false, "an absent one would mean true");
}

#[test]
fn state_mode_stateful() {
    // Only what is new is sent, over several turns with tools.
    let made = Made::new();
    let mut request = conversation(&made);
    request.controls.state = Some(StateMode::Stateful);
    let first = body(&request);
    assert_eq!((first["store"].clone(), kinds(&first).len()), (json!(true), 5), "nothing is held yet");
    request.provider_state = Some(ProviderState { provider: own(), value: json!({"previous_response_id": "resp_1"}) });
    let second = body(&request);
    assert_eq!(second["previous_response_id"], "resp_1");
    assert_eq!(kinds(&second), ["function_call_output", "message"]);
    assert_eq!(second["input"][0]["call_id"], "call_1", "the call stays known");
    request.items.push(made.says(Role::Assistant, "answer"));
    request.items.push(made.says(Role::User, "third"));
    let third = body(&request);
    assert_eq!(third["input"], json!([{"type": "message", "role": "user", "content": "third"}]));
    request.controls.store = Some(false);
    assert_eq!(encode_request(&request, &dialect()).unwrap_err().kind, ErrorKind::InvalidRequest);
    request.controls.store = None;
    let local = Dialect::local(own());
    let error = encode_request(&request, &local).unwrap_err();
    assert!(error.kind == ErrorKind::Unsupported && error.message.contains("`state.stateful`"));
}

#[test]
fn row_27_responses() {
    // Whoever hands on the state of the last answer need not say more: what the provider holds is not sent again.
    let made = Made::new();
    for state in [json!({"previous_response_id": "resp_1"}), json!({"conversation": "conv_1"})] {
        let mut request = conversation(&made);
        request.provider_state = Some(ProviderState { provider: own(), value: state.clone() });
        let sent = body(&request);
        assert_eq!(kinds(&sent), ["function_call_output", "message"]);
        for (key, value) in state.as_object().unwrap() {
            assert_eq!(sent[key], *value);
        }
        // That of another provider holds nothing here.
        request.provider_state = Some(ProviderState { provider: "other".into(), value: state });
        let (sent, omitted) = body_of(&request, &dialect());
        assert_eq!((kinds(&sent).len(), omitted), (5, vec!["provider_state".to_owned()]));
    }
}

#[test]
fn state_mode_replay() {
    let made = Made::new();
    let mut request = conversation(&made);
    request.controls.state = Some(StateMode::Replay);
    request.provider_state = Some(ProviderState { provider: own(), value: json!({"previous_response_id": "resp_1"}) });
    let body = body(&request);
    assert_eq!(body.get("previous_response_id"), None);
    assert_eq!((kinds(&body).len(), &body["input"][1]["id"]), (5, &json!("rs_1")));
}

#[test]
fn state_mode_zero_retention() {
    let made = Made::new();
    let mut request = conversation(&made);
    request.controls.state = Some(StateMode::ZeroRetention);
    request.provider_state = Some(ProviderState { provider: own(), value: json!({"previous_response_id": "resp_1"}) });
    let body = body(&request);
    assert_eq!((&body["store"], body.get("previous_response_id"), body.get("include")), (&json!(false), None, None));
    assert_eq!(kinds(&body).len(), 5);
    request.controls.store = Some(true);
    assert_eq!(encode_request(&request, &dialect()).unwrap_err().kind, ErrorKind::InvalidRequest);
}

#[test]
fn tricky_3_h() {
    let made = Made::new();
    let mut request = conversation(&made);
    request.controls.state = Some(StateMode::EncryptedReasoning);
    let encrypted = body(&request);
    assert_eq!((&encrypted["store"], &encrypted["include"]), (&json!(false), &json!(["reasoning.encrypted_content"])));
    let thought = &encrypted["input"][1];
    assert_eq!(
        *thought,
        json!({"type": "reasoning", "summary": [], "encrypted_content": "enc"}),
        "no id: it finds nothing"
    );
    assert_eq!(encrypted["input"][2].get("id"), None);
    // Kept by the provider: ids, in their order.
    request.controls.state = None;
    let kept = body(&request);
    assert_eq!((&kept["input"][1]["id"], &kept["input"][2]["id"]), (&json!("rs_1"), &json!("fc_1")));
}

#[test]
fn row_24_responses() {
    let made = Made::new();
    let mut request = conversation(&made);
    request.controls.state = Some(StateMode::EncryptedReasoning);
    let text = body(&request).to_string();
    assert!(!text.contains("rs_1") && text.contains("\"enc\""));
    // What did not come encrypted and was not kept cannot go back: it is left out, and the call has no id that points to it.
    request.items[1] = made.item(reasoning(
        json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}),
    ));
    let (body, omitted) = body_of(&request, &dialect());
    assert_eq!(
        (kinds(&body), omitted),
        (
            vec!["message".into(), "function_call".into(), "function_call_output".into(), "message".to_owned()],
            vec!["reasoning".to_owned()]
        )
    );
    assert_eq!(body["input"][1].get("id"), None);
}

#[test]
fn row_25_responses() {
    let made = Made::new();
    let mut request = conversation(&made);
    request.controls.store = Some(false);
    let body = body(&request);
    assert!(body["input"].as_array().unwrap().iter().all(|item| item.get("id").is_none()), "{body}");
}

#[test]
fn row_26_responses() {
    let made = Made::new();
    let whole = conversation(&made);
    let sent = body(&whole);
    assert_eq!(kinds(&sent)[1..3], ["reasoning", "function_call"], "thinking stands right before what it led to");
    // Thinking that led to nothing does not go out: the server refuses it without what followed.
    let mut alone = whole.clone();
    alone.items.truncate(2);
    alone.items.push(made.says(Role::User, "Go on"));
    let (sent, omitted) = body_of(&alone, &dialect());
    assert_eq!((kinds(&sent), omitted), (vec!["message".to_owned(); 2], vec!["reasoning".to_owned()]));
    let mut last = whole.clone();
    last.items.truncate(2);
    assert_eq!(body_of(&last, &dialect()).1, ["reasoning"]);
    // A call whose thinking does not go out has no id, by which the server would look for it.
    let with_id = |item: &Arc<Item>| match &item.body {
        ItemBody::ToolCall(call) => {
            let native = Some(Native { provider: own(), value: json!({"id": "fc_1"}) });
            Arc::new(Item { body: ToolCall { native, ..call.clone() }.into(), ..Item::clone(item) })
        }
        _ => item.clone(),
    };
    let named = TurnRequest { items: whole.items.iter().map(with_id).collect(), ..whole.clone() };
    let sent = body(&named);
    assert_eq!((&sent["input"][1]["type"], &sent["input"][2]["id"]), (&json!("reasoning"), &json!("fc_1")));
    let forgets = Dialect { replay_reasoning: false, ..dialect() };
    let (sent, omitted) = body_of(&named, &forgets);
    assert_eq!((&sent["input"][1]["type"], omitted), (&json!("function_call"), vec!["reasoning".to_owned()]));
    assert!(sent["input"][1].get("id").is_none(), "{sent}");
}

#[test]
fn row_16_responses() {
    let made = Made::new();
    let body = body(&conversation(&made));
    assert_eq!(body["input"][1], json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"}));
}

#[test]
fn rule_8_responses() {
    // Byte for byte to its own provider, to no other, and in its place.
    let made = Made::new();
    let state =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA/+==", "odd": [null, 1.5]});
    let mut request =
        request(vec![made.item(reasoning(state.clone())), made.says(Role::Assistant, ""), made.says(Role::User, "x")]);
    let sent = body(&request);
    assert_eq!(sent["input"][0], state);
    assert_eq!(kinds(&sent).len(), 3, "empty text is not dropped");
    let other = Dialect { stream: false, ..Dialect::new("azure".into()) };
    let (sent, omitted) = body_of(&request, &other);
    assert!(!sent.to_string().contains("gAAA") && omitted == ["reasoning"]);
    request.items.remove(0);
    assert_eq!(body_of(&request, &other).1, [""; 0]);
}

#[test]
fn row_66_responses() {
    let made = Made::new();
    let xai = Dialect { stream: false, ..Dialect::xai(own()) };
    let (body, _) = body_of(&conversation(&made), &xai);
    assert_eq!(body["input"][1]["encrypted_content"], "enc");
}

#[test]
fn row_17_responses() {
    let made = Made::new();
    let state = json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]});
    let request =
        request(vec![made.says(Role::User, "x"), made.item(reasoning(state.clone())), made.says(Role::Assistant, "y")]);
    let (body, omitted) = body_of(&request, &Dialect::local(own()));
    assert_eq!((&body["input"][1], omitted.len()), (&state, 0));
}

#[test]
fn row_70_responses() {
    let made = Made::new();
    let mut request = request(vec![made.says(Role::User, "x")]);
    request.controls.include = vec!["reasoning.encrypted_content".into(), "file_search_call.results".into()];
    let plain = Dialect { encrypted_reasoning: false, ..dialect() };
    let (body, omitted) = body_of(&request, &plain);
    assert_eq!((&body["include"], omitted.len()), (&json!(["file_search_call.results"]), 1));
}

#[test]
fn rule_9_responses() {
    // An id that two calls share, and one that is missing: each result goes with its own call.
    let made = Made::new();
    let (first, second) = (made.call("call_1", "read", "{}"), made.call("call_1", "read", "{}"));
    let third = ToolCall { provider_id: None, ..made.call("", "read", "{}") };
    let results = [made.result(&first, "1"), made.result(&second, "2"), made.result(&third, "3")];
    let mut items: Vec<_> = [first, second, third].into_iter().map(|call| made.item(call)).collect();
    items.extend(results);
    let body = body(&request(items));
    let ids: Vec<&str> =
        body["input"].as_array().unwrap().iter().map(|item| item["call_id"].as_str().unwrap()).collect();
    assert_eq!(ids[..3], ids[3..]);
    assert_eq!(ids[0], "call_1");
    assert!(CallId::parse(ids[1]).is_ok() && CallId::parse(ids[2]).is_ok());
}

#[test]
fn odd_names_go_out_under_an_alias() {
    let made = Made::new();
    let call = made.call("c", "crm.lookup", "");
    let result = made.result(&call, "ok");
    let mut request = request(vec![made.item(call), result]);
    request.tools = vec![Arc::new(tool("crm.lookup"))];
    request.tool_choice = ToolChoice::Tool("crm.lookup".into());
    let encoded = encode_request(&request, &dialect()).unwrap();
    let body: Value = serde_json::from_slice(&encoded.body).unwrap();
    let alias = body["tools"][0]["name"].as_str().unwrap();
    assert_eq!((&body["tool_choice"]["name"], &body["input"][0]["name"]), (&json!(alias), &json!(alias)));
    assert_eq!(body["input"][0]["arguments"], "{}");
    assert_eq!(encoded.names.original(alias).as_str(), "crm.lookup");
}

#[test]
fn namespaces_and_custom_tools_go_out_as_they_came_or_flat() {
    let made = Made::new();
    let mut exec = tool("functions__exec");
    let space = json!({"name": "functions", "description": "All."});
    exec.native = Some(native(
        json!({"type": "custom", "name": "exec", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}, "namespace": space}),
    ));
    let mut wait = tool("functions__wait");
    wait.native = Some(native(json!({"name": "wait", "namespace": space})));
    let call = made.call("c", "functions__exec", r#"{"input":"say \"hi\""}"#);
    let result = made.result(&call, "ok");
    let mut request = request(vec![made.item(call), result]);
    request.tools = vec![Arc::new(exec), Arc::new(wait), Arc::new(tool("plain"))];
    let body = body(&request);
    let space = &body["tools"][0];
    assert_eq!(
        (&space["type"], &space["name"], &space["description"]),
        (&json!("namespace"), &json!("functions"), &json!("All."))
    );
    assert_eq!(
        (&space["tools"][0]["type"], &space["tools"][0]["format"]["syntax"]),
        (&json!("custom"), &json!("lark"))
    );
    assert_eq!((&space["tools"][1]["type"], &space["tools"][1]["name"]), (&json!("function"), &json!("wait")));
    assert_eq!(body["tools"][1]["name"], "plain");
    assert_eq!(
        body["input"][0],
        json!({"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": "say \"hi\"", "namespace": "functions"})
    );
    assert_eq!(body["input"][1]["type"], "custom_tool_call_output");
    // A server that has neither gets functions with one text; that it does not hold the model to a grammar is told.
    let xai = Dialect { stream: false, ..Dialect::xai(own()) };
    let (_, omitted) = body_of(&request, &xai);
    assert!(omitted.iter().any(|what| what == "tool.grammar"), "{omitted:?}");
    for tool in &mut request.tools {
        if let Some(native) = &mut Arc::make_mut(tool).native {
            native.value.as_object_mut().unwrap().shift_remove("format");
        }
    }
    let (flat, omitted) = body_of(&request, &xai);
    let names: Vec<_> =
        flat["tools"].as_array().unwrap().iter().map(|tool| (tool["type"].clone(), tool["name"].clone())).collect();
    assert_eq!(names, ["functions__exec", "functions__wait", "plain"].map(|name| (json!("function"), json!(name))));
    assert_eq!(flat["input"][0]["arguments"], r#"{"input":"say \"hi\""}"#);
    assert_eq!(omitted, [""; 0]);
}

#[test]
fn xai_is_spoken_to_in_its_dialect() {
    let made = Made::new();
    let mut request = request(vec![made.says(Role::User, "x")]);
    request.instructions = Some("Be brief.".into());
    let nested = json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "object", "properties": {}, "additionalProperties": false}}});
    let strict = ToolDefinition { schema: Schema::new(nested), strict: Some(true), ..tool("read") };
    request.tools = vec![Arc::new(strict)];
    request.hosted =
        vec![HostedTool::WebSearch(WebSearch::default()), HostedTool::Raw(native(json!({"type": "x_search"})))];
    let xai = Dialect { stream: false, ..Dialect::xai(own()) };
    let (body, omitted) = body_of(&request, &xai);
    assert!(!body.to_string().contains("additionalProperties") && !body.to_string().contains("strict"), "{body}");
    assert_eq!(omitted, ["tool.strict"]);
    assert_eq!(body["input"][0], json!({"type": "message", "role": "system", "content": "Be brief."}));
    assert_eq!((&body["tools"][1]["type"], &body["tools"][2]["type"]), (&json!("web_search"), &json!("x_search")));
    request.hosted = vec![HostedTool::RemoteMcp(RemoteMcp { label: "a".into(), ..RemoteMcp::default() })];
    let error = encode_request(&request, &xai).unwrap_err();
    assert!(error.kind == ErrorKind::Unsupported && error.message.contains("hosted.remote_mcp"), "{error}");
}

#[test]
fn what_a_model_does_not_take_is_left_out_or_refused() {
    let made = Made::new();
    let mut request = request(vec![made.says(Role::User, "x")]);
    request.controls.temperature = Some(0.5);
    request.controls.reasoning_effort = Some("low".into());
    let plain = Dialect { sampling: false, reasoning_effort: false, ..dialect() };
    let (body, omitted) = body_of(&request, &plain);
    assert_eq!((body.get("temperature"), body.get("reasoning"), omitted.len()), (None, None, 2));
    request.controls.background = Some(true);
    let error = encode_request(&request, &Dialect { background: false, ..dialect() }).unwrap_err();
    assert!(error.kind == ErrorKind::Unsupported && error.message.contains("`background`"));
}

#[test]
fn the_servers_tools_are_listed_once() {
    // The list that the provider made of an MCP server's tools goes back in its place, so that it is not made again.
    let made = Made::new();
    let list = json!({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "crm", "tools": []});
    let held = HostedCall { provider: own(), kind: "mcp_list_tools".into(), value: list.clone() };
    let mut request = request(vec![
        made.says(Role::User, "x"),
        made.item(held),
        made.says(Role::Assistant, "y"),
        made.says(Role::User, "z"),
    ]);
    request.hosted = vec![HostedTool::RemoteMcp(RemoteMcp {
        label: "crm".into(),
        url: Some("https://mcp.example".into()),
        ..RemoteMcp::default()
    })];
    let body = body(&request);
    assert_eq!(body["input"][1], list);
    assert_eq!(kinds(&body).iter().filter(|kind| *kind == "mcp_list_tools").count(), 1);
    // Where the provider holds it already, it is not sent at all.
    request.controls.state = Some(StateMode::Stateful);
    request.provider_state = Some(ProviderState { provider: own(), value: json!({"previous_response_id": "r"}) });
    assert_eq!(kinds(&self::body(&request)), ["message"]);
}

#[test]
fn an_mcp_server_is_named_in_one_way() {
    let made = Made::new();
    let mcp = RemoteMcp { label: "crm".into(), url: Some("https://mcp.example".into()), ..RemoteMcp::default() };
    let kind = |mcp: RemoteMcp| {
        let mut request = request(vec![made.says(Role::User, "x")]);
        request.hosted = vec![HostedTool::RemoteMcp(mcp)];
        encode_request(&request, &dialect()).unwrap_err().kind
    };
    assert_eq!(kind(RemoteMcp { connector: Some("c".into()), ..mcp.clone() }), ErrorKind::InvalidRequest);
    let headers = json!({"headers": {"Authorization": "x"}}).as_object().cloned().unwrap();
    assert_eq!(
        kind(RemoteMcp { authorization: Some("t".into()), extra: headers, ..mcp.clone() }),
        ErrorKind::InvalidRequest
    );
    assert_eq!(kind(RemoteMcp { denied_tools: vec!["d".into()], ..mcp }), ErrorKind::Unsupported);
}

#[test]
fn extra_replaces_and_native_stands_beside() {
    let made = Made::new();
    let mut request = request(vec![made.says(Role::User, "x")]);
    request.controls.reasoning_effort = Some("low".into());
    request.native =
        Some(native(json!({"reasoning": {"context": "all_turns", "effort": "high"}, "client_metadata": {"a": 1}})));
    request.extra = json!({"model": "other", "odd": 1}).as_object().cloned().unwrap();
    let body = body(&request);
    assert_eq!(body["reasoning"], json!({"effort": "low", "context": "all_turns"}));
    assert_eq!(
        (&body["model"], &body["odd"], &body["client_metadata"]),
        (&json!("other"), &json!(1), &json!({"a": 1}))
    );
}

#[test]
fn a_count_asks_for_less() {
    let made = Made::new();
    let mut request = request(vec![made.says(Role::User, "x")]);
    request.controls.max_output_tokens = Some(5);
    request.controls.store = Some(false);
    let encoded = encode_count_request(&request, &Dialect::new(own())).unwrap();
    let body: Value = serde_json::from_slice(&encoded.body).unwrap();
    let keys: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["model", "input"]);
}

#[test]
fn adding_a_tool_changes_nothing_before_it() {
    let made = Made::new();
    let mut request = conversation(&made);
    let before = encode_request(&request, &dialect()).unwrap().body;
    assert_eq!(before, encode_request(&request, &dialect()).unwrap().body, "the same bytes");
    request.tools.push(Arc::new(tool("new")));
    let after = encode_request(&request, &dialect()).unwrap().body;
    let end = before.windows(2).position(|pair| pair == b"}]").unwrap();
    assert_eq!(before[..=end], after[..=end]);
}
