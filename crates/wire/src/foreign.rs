//! What another provider's client asked for in its own words and that may not be left out.
//!
//! State of another provider is left out and reported as a whole. Some of its fields say more than how something is to be done: who may
//! call a tool, where the work may be done, which stored words the conversation begins with. To leave those out would lift a
//! restriction or lose content, so that a request with them is refused.

use crate::options;
use placet_core::part::Native;
use placet_core::{ErrorKind, ProviderError, ProviderId, TurnRequest};
use serde_json::{Map, Value};

/// Fields of a request, by their name on the wire, that are more than a hint, and what they say.
const REQUEST: [(&str, &str); 9] = [
    ("inference_geo", "where the work may be done is for its own provider to keep"),
    ("modelArmorConfig", "what is to be filtered is for its own provider to keep"),
    ("prompt", "the words that it stands for are kept by its own provider"),
    ("thread", "the conversation that it stands for is kept by its own provider"),
    ("tool_choice", "a tool of its own provider cannot be asked for elsewhere"),
    ("output_format", "the shape of the answer is in another protocol's words"),
    ("outputConfig", "the shape of the answer is in another protocol's words"),
    ("continuationToken", "the answer that goes on is kept by its own provider"),
    ("cachedContent", "the content that it stands for is kept by its own provider"),
];

/// Fields of a state that stand for a conversation which a provider holds.
pub(crate) const HELD: [&str; 2] = ["previous_response_id", "conversation"];

/// The field of a state that says that the items of the request are not the whole conversation but what follows what is held.
pub(crate) const FOLLOWS: &str = "items_follow";

/// What a request's items follow, where they are not the whole conversation: a field of its state.
pub(crate) fn followed(request: &TurnRequest) -> Option<&'static str> {
    let state = request.provider_state.as_ref().filter(|state| state.value.get(FOLLOWS) == Some(&Value::Bool(true)))?;
    HELD.into_iter().find(|key| state.value.get(*key).is_some_and(says_something))
}

/// Refuses what state of others holds and that may not be left out. `keeps`: the server goes on from answers that it kept.
///
/// # Errors
/// [`ProviderError`] of kind *unsupported* that names the field.
pub(crate) fn refuse(request: &TurnRequest, provider: &ProviderId, keeps: bool) -> Result<(), ProviderError> {
    let is_own = request.provider_state.as_ref().is_some_and(|state| state.provider == *provider);
    if let Some(key) = followed(request).filter(|_| !(is_own && keeps)) {
        let why = "the conversation so far is kept elsewhere; send the whole of it";
        return Err(unsupported(provider, &format!("provider_state.{key}"), why));
    }
    for tool in &request.tools {
        let Some(fields) = fields(tool.native.as_ref(), provider) else { continue };
        if let Some(key) = restriction(fields) {
            let why = format!("the provider cannot hold `{}` to it", tool.name);
            return Err(unsupported(provider, &format!("tool.{key}"), &why));
        }
    }
    let Some(native) = fields(request.native.as_ref(), provider) else { return Ok(()) };
    for (key, why) in REQUEST {
        if native.get(key).is_some_and(says_something) {
            return Err(unsupported(provider, &format!("native.{key}"), why));
        }
    }
    // What a client's own tools of its provider have beyond our words, by kind.
    for (kind, kept) in native.get("tools").and_then(Value::as_object).into_iter().flatten() {
        if kind == "mcp_servers" {
            return Err(unsupported(provider, "hosted.remote_mcp", "only its own provider knows these servers"));
        }
        if let Some(key) = kept.as_object().and_then(restriction) {
            let why = "the provider's tool cannot be restricted so";
            return Err(unsupported(provider, &format!("hosted.{kind}.{key}"), why));
        }
    }
    Ok(())
}

/// The fields of state that is another provider's.
fn fields<'n>(native: Option<&'n Native>, provider: &ProviderId) -> Option<&'n Map<String, Value>> {
    native.filter(|native| native.provider != *provider)?.value.as_object()
}

/// The first option that keeps a tool from something.
fn restriction(fields: &Map<String, Value>) -> Option<&str> {
    let found = fields.iter().find(|(key, value)| says_something(value) && options::keeps_from(key, value));
    found.map(|(key, _)| key.as_str())
}

/// `global` is anywhere.
pub(crate) fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty() && text != "global",
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

pub(crate) fn unsupported(provider: &ProviderId, field: &str, why: &str) -> ProviderError {
    ProviderError::new(ErrorKind::Unsupported, provider.clone(), format!("it cannot take `{field}`: {why}"))
        .with_hint("nothing was sent; leave it out, or use a model that can take it")
}

#[cfg(test)]
mod tests {
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
            let refused =
                through(Protocol::AnthropicMessages, to, &tool(json!(["code_execution_20260120"]))).unwrap_err();
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
            let refused =
                through(Protocol::AnthropicMessages, to, &anthropic(json!({"inference_geo": "us"}))).unwrap_err();
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
}
