#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use crate::protocol::Protocol;
use placet_core::env::ManualClock;
use placet_core::{Env, ErrorKind, Timestamp};
use serde_json::{Value, json};

/// What becomes of a client's body in another protocol: the body and what was left out, or the refusal.
fn through(from: Protocol, to: Protocol, body: &Value) -> Result<(Value, Vec<String>), String> {
    let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1);
    let mut read =
        from.decode_request(body.to_string().as_bytes(), &from.as_str().into(), &env).expect("a request").request;
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

fn anthropic(more: Value) -> Value {
    let mut body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]});
    body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    body
}

#[test]
fn a_tool_that_only_code_may_call_is_refused_elsewhere() {
    let tool = |callers: Value| {
        let schema = json!({"type": "object", "properties": {}});
        anthropic(json!({"tools": [{"name": "f", "description": "Does it.", "input_schema": schema,
            "allowed_callers": callers, "defer_loading": true}]}))
    };
    for to in others(Protocol::AnthropicMessages) {
        let refused = through(Protocol::AnthropicMessages, to, &tool(json!(["code_execution_20260120"]))).unwrap_err();
        assert!(refused.contains("`tool.allowed_callers`") && refused.contains("`f`"), "{to}: {refused}");
        // Who may call it directly may do so anywhere, and nobody else will.
        let (_, omitted) =
            through(Protocol::AnthropicMessages, to, &tool(json!(["direct", "code_execution_20260120"]))).unwrap();
        assert_eq!(omitted, ["tool.native.allowed_callers", "tool.native.defer_loading"], "{to}");
    }
    let own = tool(json!(["code_execution_20260120"]));
    let (body, omitted) = through(Protocol::AnthropicMessages, Protocol::AnthropicMessages, &own).unwrap();
    assert_eq!((&body["tools"], omitted), (&own["tools"], Vec::new()));
    let programs = json!({"model": "m", "input": "a", "tools": [{"type": "function", "name": "f", "parameters":
        {"type": "object", "properties": {}}, "strict": false, "allowed_callers": ["programmatic"]}]});
    for to in others(Protocol::OpenaiResponses) {
        let refused = through(Protocol::OpenaiResponses, to, &programs).unwrap_err();
        assert!(refused.contains("`tool.allowed_callers`"), "{to}: {refused}");
    }
}

#[test]
fn a_tool_of_the_provider_that_only_code_may_call_is_refused_elsewhere() {
    let search = |callers: Value| {
        anthropic(json!({"tools": [
            {"type": "web_search_20260209", "name": "web_search", "allowed_callers": callers}]}))
    };
    let asked = search(json!(["code_execution_20260120"]));
    for to in [Protocol::OpenaiResponses, Protocol::Gemini] {
        let refused = through(Protocol::AnthropicMessages, to, &asked).unwrap_err();
        assert!(refused.contains("`hosted.web_search.allowed_callers`"), "{to}: {refused}");
        let (_, omitted) = through(Protocol::AnthropicMessages, to, &search(json!(["direct"]))).unwrap();
        assert_eq!(omitted, ["hosted.web_search.allowed_callers"], "{to}");
    }
    // The words of another provider for who may call a tool mean nothing here.
    let programs = |callers: Value| json!({"model": "m", "input": "a", "tools": [{"type": "web_search", "allowed_callers": callers}]});
    for to in [Protocol::AnthropicMessages, Protocol::Gemini] {
        let refused = through(Protocol::OpenaiResponses, to, &programs(json!(["programmatic"]))).unwrap_err();
        assert!(refused.contains("`hosted.web_search.allowed_callers`"), "{to}: {refused}");
        let both = programs(json!(["direct", "programmatic"]));
        let (body, omitted) = through(Protocol::OpenaiResponses, to, &both).unwrap();
        assert_eq!(omitted, ["hosted.web_search.allowed_callers"], "{to}: {body}");
        assert!(!body.to_string().contains("allowed_callers"), "{to}: {body}");
    }
}

#[test]
fn a_place_of_work_a_filter_and_stored_words_are_refused_elsewhere() {
    for to in others(Protocol::AnthropicMessages) {
        let refused = through(Protocol::AnthropicMessages, to, &anthropic(json!({"inference_geo": "us"}))).unwrap_err();
        assert!(refused.contains("`native.inference_geo`"), "{to}: {refused}");
        let (_, omitted) =
            through(Protocol::AnthropicMessages, to, &anthropic(json!({"inference_geo": "global"}))).unwrap();
        assert_eq!(omitted, ["native.inference_geo"], "{to}");
    }
    let stored = json!({"model": "m", "input": "a", "prompt": {"id": "pmpt_1"}});
    for to in others(Protocol::OpenaiResponses) {
        let refused = through(Protocol::OpenaiResponses, to, &stored).unwrap_err();
        assert!(refused.contains("`native.prompt`"), "{to}: {refused}");
    }
    let filtered = json!({"contents": [{"role": "user", "parts": [{"text": "a"}]}],
        "modelArmorConfig": {"promptTemplateName": "t"}});
    for to in others(Protocol::Gemini) {
        let refused = through(Protocol::Gemini, to, &filtered).unwrap_err();
        assert!(refused.contains("`native.modelArmorConfig`"), "{to}: {refused}");
    }
}

#[test]
fn a_conversation_that_is_kept_elsewhere_is_refused_by_name() {
    for (key, value) in [("previous_response_id", json!("resp_1")), ("conversation", json!({"id": "conv_1"}))] {
        let said = json!({"type": "message", "role": "assistant", "content": "Ours, b."});
        let input = json!([{"role": "user", "content": "a"}, said, {"role": "user", "content": "c"}]);
        let body = json!({"model": "m", "input": input, key: value});
        for to in others(Protocol::OpenaiResponses) {
            let refused = through(Protocol::OpenaiResponses, to, &body).unwrap_err();
            assert!(refused.contains(&format!("`provider_state.{key}`")), "{to}: {refused}");
        }
        // Its own provider gets everything that the client says is new.
        let (own, omitted) = through(Protocol::OpenaiResponses, Protocol::OpenaiResponses, &body).unwrap();
        assert_eq!((&own[key], own["input"].as_array().unwrap().len(), omitted), (&body[key], 3, Vec::new()));
        // Another provider of the same protocol does not hold it either.
        let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1);
        let read = Protocol::OpenaiResponses.decode_request(body.to_string().as_bytes(), &"client".into(), &env);
        let refused = Protocol::OpenaiResponses.encode_request(&read.unwrap().request, &"own".into(), false);
        assert!(refused.unwrap_err().message.contains(key));
    }
}

/// What may be searched with a body is what its protocol says of its choice.
#[test]
fn a_choice_of_no_tool_is_one_of_no_search_where_its_protocol_says_so() {
    let schema = json!({"type": "object", "properties": {}});
    let search_form = |to: Protocol, body: &Value| match to {
        Protocol::OpenaiChat => body.get("web_search_options").is_some(),
        _ => body["tools"].to_string().to_lowercase().contains("search"),
    };
    let forbids = |to: Protocol, body: &Value| match to {
        Protocol::OpenaiResponses => body["tool_choice"] == "none",
        Protocol::AnthropicMessages => body["tool_choice"]["type"] == "none",
        _ => false,
    };
    let function = json!({"name": "f", "description": "Does it.", "input_schema": schema});
    let none = anthropic(json!({"tool_choice": {"type": "none"}, "tools": [
        function, {"type": "web_search_20250305", "name": "web_search"}]}));
    for to in Protocol::ALL {
        let (body, _) = through(Protocol::AnthropicMessages, to, &none).unwrap();
        assert!(!search_form(to, &body) || forbids(to, &body), "{to}: {body}");
        assert!(body["tools"].to_string().contains("Does it."), "{to}: {body}");
    }
    let none = json!({"model": "m", "input": "a", "tool_choice": "none", "tools": [{"type": "web_search"}]});
    for to in Protocol::ALL {
        let (body, _) = through(Protocol::OpenaiResponses, to, &none).unwrap();
        assert!(!search_form(to, &body) || forbids(to, &body), "{to}: {body}");
    }
    // Of these two the choice is one of functions, and the search goes on.
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "a"}], "tool_choice": "none",
        "web_search_options": {}, "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]});
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "a"}]}],
        "tools": [{"functionDeclarations": [{"name": "f", "description": "Does it.", "parameters": {"type": "OBJECT"}}]},
            {"googleSearch": {}}],
        "toolConfig": {"functionCallingConfig": {"mode": "NONE"}}});
    for (from, asked) in [(Protocol::OpenaiChat, chat), (Protocol::Gemini, gemini)] {
        for to in Protocol::ALL {
            let (body, _) = through(from, to, &asked).unwrap();
            assert!(search_form(to, &body) && !forbids(to, &body), "{from} {to}: {body}");
            let may_call = match to {
                Protocol::OpenaiChat => body["tool_choice"] != "none",
                Protocol::Gemini => body["toolConfig"]["functionCallingConfig"]["mode"] != "NONE",
                Protocol::OpenaiResponses => body["tool_choice"]["tools"] != json!([{"type": "web_search"}]),
                Protocol::AnthropicMessages => body["tools"].as_array().unwrap().len() != 1,
            };
            assert!(!may_call, "{from} {to}: {body}");
        }
    }
    // A choice of some tools that does not name the search leaves it out.
    let some = |entries: Value| {
        json!({"model": "m", "input": "a",
        "tools": [{"type": "function", "name": "f", "parameters": schema}, {"type": "web_search"}],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": entries}})
    };
    let function = json!({"type": "function", "name": "f"});
    for to in [Protocol::OpenaiChat, Protocol::Gemini] {
        let (body, _) = through(Protocol::OpenaiResponses, to, &some(json!([function]))).unwrap();
        assert!(!search_form(to, &body), "{to}: {body}");
        let (body, _) =
            through(Protocol::OpenaiResponses, to, &some(json!([function, {"type": "web_search"}]))).unwrap();
        assert!(search_form(to, &body), "{to}: {body}");
    }
}

#[test]
fn a_tool_of_its_own_provider_is_not_asked_for_elsewhere() {
    for choice in ["web_search", "code_interpreter", "mcp"] {
        let body =
            json!({"model": "m", "input": "a", "tools": [{"type": "web_search"}], "tool_choice": {"type": choice}});
        for to in others(Protocol::OpenaiResponses) {
            let refused = through(Protocol::OpenaiResponses, to, &body).unwrap_err();
            assert!(refused.contains("tool_choice"), "{choice} {to}: {refused}");
        }
        let (own, omitted) = through(Protocol::OpenaiResponses, Protocol::OpenaiResponses, &body).unwrap();
        assert_eq!((&own["tool_choice"]["type"], omitted.len()), (&json!(choice), 0));
    }
}
