//! A changed request, put onto the client's own body.

use super::encode::{encode, own_object, parsed};
use super::parts::{is_item, is_reasoning};
use super::request::ATTACHED;
use super::{Dialect, UserField, is_own_id};
use crate::encoded::Encoded;
use crate::envelope;
use crate::overlay::{origins, overlay};
use placet_core::part::{Native, Text};
use placet_core::{Message, Part, ProviderError, ProviderId, Role, TurnRequest};
use serde_json::{Map, Value, json};

/// What its provider says of a message that was read from an answer: its id, its phase. It stands with its first text.
pub(super) fn message_head_of<'a>(message: &'a Message, dialect: &Dialect) -> Option<&'a Map<String, Value>> {
    let text = message.parts.iter().find_map(|part| match part {
        Part::Text(text) => Some::<&Text>(text),
        _ => None,
    })?;
    own_object(text.native.as_ref(), dialect)?.get("message")?.as_object()
}

/// The provider's id of a message of the model.
pub(super) fn message_id<'a>(message: &'a Message, dialect: &Dialect) -> Option<&'a str> {
    let head = message_head_of(message, dialect).filter(|_| message.role == Role::Assistant)?;
    head.get("id")?.as_str()
}

/// The body of a request that was `decoded` from `body` and has become `request` since: the client's own body, with the
/// difference. What this server cannot take is left out or refused, as in [`super::encode_request`]; what we sealed for the client is
/// opened or taken out.
///
/// # Errors
/// As [`super::encode_request`].
pub fn encode_request_onto(
    body: &Value,
    decoded: &TurnRequest,
    request: &TurnRequest,
    dialect: &Dialect,
) -> Result<Encoded, ProviderError> {
    let mut dialect = dialect.clone();
    if dialect.user == UserField::SafetyIdentifier
        && body.get("user").is_some()
        && body.get("safety_identifier").is_none()
    {
        dialect.user = UserField::User;
    }
    let mut whole = dialect.unlimited();
    whole.stream = body.get("stream").and_then(Value::as_bool) == Some(true);
    let encoded = encode(request, &dialect, true)?;
    let mut body = body.clone();
    if let Some(Value::Array(items)) = body.get_mut("input") {
        clean(items, &dialect.provider);
    }
    // Nothing was changed, and nothing is left out: there is nothing to compare.
    if decoded == request && whole == dialect {
        return Ok(Encoded { body: body.to_string().into(), ..encoded });
    }
    let mut before = parsed(&encode(decoded, &whole, true)?.body);
    let mut after = parsed(&encoded.body);
    if before != after {
        if let Some(Value::Array(items)) = body.get("input") {
            conform(items, &mut before, &mut after);
        }
        let tools = tools(&body, &before, &after);
        body = overlay(&body, &before, &after);
        if let (Some(tools), Some(map)) = (tools, body.as_object_mut()) {
            map.insert("tools".into(), tools);
        }
    }
    Ok(Encoded { body: body.to_string().into(), ..encoded })
}

/// Opens what we sealed and takes out what is another provider's, as well as ids of ours.
fn clean(items: &mut Vec<Value>, provider: &ProviderId) {
    items.retain_mut(|item| {
        let Some(map) = item.as_object_mut() else { return true };
        let is_ours = map.get("id").and_then(Value::as_str).is_some_and(is_own_id);
        let is_thinking = map.get("type").is_some_and(|kind| kind == "reasoning");
        if is_ours {
            map.shift_remove("id");
        }
        if !is_thinking {
            return true;
        }
        let content = map.get("encrypted_content").and_then(Value::as_str).filter(|text| !text.is_empty());
        match content {
            Some(text) if envelope::is_sealed(text) => match envelope::open(text) {
                Some(Native { provider: owner, value }) if owner == *provider => match value.get(ATTACHED) {
                    None if is_reasoning(&value) => {
                        *item = value;
                        if let Some(map) = item.as_object_mut() {
                            map.shift_remove("status");
                        }
                        true
                    }
                    Some(of) => match value.get("value").and_then(|body| body.get("value")) {
                        Some(inner) if of == "item" && is_item(inner) => {
                            *item = inner.clone();
                            true
                        }
                        _ => false,
                    },
                    None => false,
                },
                _ => false,
            },
            Some(_) => true,
            None => !is_ours,
        }
    });
}

/// Writes items in the form in which the body has them: texts as they are or as lists of one part, the operator's role by the
/// body's word for it, calls under its ids.
fn conform(body: &[Value], before: &mut Value, after: &mut Value) {
    let (Some(Value::Array(before)), Some(Value::Array(after))) = (before.get_mut("input"), after.get_mut("input"))
    else {
        return;
    };
    if body.len() != before.len() {
        return;
    }
    let origins = origins(before, after);
    for (body, before) in body.iter().zip(before.iter_mut()) {
        conform_item(body, before);
    }
    for (after, origin) in after.iter_mut().zip(origins) {
        if let Some(origin) = origin {
            conform_item(&body[origin], after);
        }
    }
}

fn conform_item(body: &Value, item: &mut Value) {
    let is_operator = |item: &Value| item.get("role").is_some_and(|role| role == "system" || role == "developer");
    if is_operator(body) && is_operator(item) {
        item["role"] = body["role"].clone();
    }
    // Where an id came twice we tell the calls apart, and the client does not.
    if let (Some(theirs), Some(_)) = (body.get("call_id"), item.get("call_id")) {
        item["call_id"] = theirs.clone();
    }
    for key in ["content", "output"] {
        let (Some(theirs), Some(ours)) = (body.get(key), item.get_mut(key)) else { continue };
        match (theirs, &*ours) {
            (Value::Array(parts), Value::String(text)) => {
                let kind = parts.first().and_then(|part| part.get("type")).and_then(Value::as_str);
                *ours = json!([{"type": kind.unwrap_or("input_text"), "text": text}]);
            }
            (Value::String(_), Value::Array(parts)) => {
                let is_only_text = |part: &Map<String, Value>| {
                    part.iter().all(|(key, value)| {
                        matches!(key.as_str(), "type" | "text") || value.as_array().is_some_and(Vec::is_empty)
                    })
                };
                if let [Value::Object(part)] = parts.as_slice()
                    && is_only_text(part)
                    && let Some(text) = part.get("text").cloned()
                {
                    *ours = text;
                }
            }
            _ => {}
        }
    }
}

/// The tools, where they changed: the client's own in its order, whatever ours is, and new ones before or after them all.
fn tools(body: &Value, before: &Value, after: &Value) -> Option<Value> {
    let list = |value: &Value| value.get("tools").and_then(Value::as_array).cloned();
    let (body, before, after) = (list(body)?, list(before)?, list(after)?);
    if body.len() != before.len() || before == after {
        return None;
    }
    let is_function = |tool: &Value| {
        let kind = tool.get("type").and_then(Value::as_str);
        matches!(kind, Some("function" | "custom" | "namespace"))
    };
    // Where in the body the tools stand that we write one after the other.
    let (mut order, others): (Vec<usize>, Vec<usize>) = (0..body.len()).partition(|index| is_function(&body[*index]));
    order.extend(others);
    let (mut first, mut own, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (tool, origin) in after.iter().zip(origins(&before, &after)) {
        match origin {
            Some(origin) => own.push((order[origin], overlay(&body[order[origin]], &before[origin], tool))),
            None if own.is_empty() => first.push(tool.clone()),
            None => last.push(tool.clone()),
        }
    }
    own.sort_by_key(|(place, _)| *place);
    first.extend(own.into_iter().map(|(_, tool)| tool));
    first.extend(last);
    Some(Value::Array(first))
}
