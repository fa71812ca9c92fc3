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
mod tests;
