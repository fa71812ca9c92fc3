//! A request encoded onto the body that it came from.

use super::Dialect;
use super::encode::{Places, encode};
use super::parts::snake;
use super::request::beginnings;
use super::seal;
use crate::encoded::Encoded;
use crate::names::Names;
use crate::overlay::overlay;
use placet_core::env::ManualClock;
use placet_core::{Env, ProviderError, Timestamp, TurnRequest};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The client's own body with what changed between `decoded`, which it was read as, and `request`. Unchanged it is the body.
/// Its unknown fields, its spelling and its contents stay as they are wherever nothing was changed.
///
/// # Errors
/// As [`super::encode_request`].
pub fn encode_request_onto(
    body: &Value,
    decoded: &TurnRequest,
    request: &TurnRequest,
    dialect: &Dialect,
) -> Result<Encoded, ProviderError> {
    // Only the order of the items is looked at, so that their ids may be any.
    let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(0)), 0);
    let first = beginnings(body, &dialect.provider, &env);
    let places = Places {
        known: decoded.items.iter().map(|item| item.id.clone()).collect(),
        first: first.iter().filter_map(|(at, _)| decoded.items.get(*at)).map(|item| item.id.clone()).collect(),
        words: first
            .iter()
            .filter_map(|(at, word)| Some((decoded.items.get(*at)?.id.clone(), word.clone()?)))
            .collect(),
    };
    let (mut after, omitted) = encode(request, dialect, Some(&places))?;
    let names = Names::of(request.tools.iter().map(|tool| &tool.name));
    let mut body = body.clone();
    scrub(&mut body);
    if decoded == request {
        return Ok(Encoded { body: body.to_string().into(), omitted, names });
    }
    let (mut before, _) = encode(decoded, dialect, Some(&places))?;
    if let Value::Object(fields) = &mut body {
        let renamed = spellings(fields);
        respell(&mut before, &renamed);
        respell(&mut after, &renamed);
        align_tools(fields, &mut before, &mut after);
    }
    let body = overlay(&body, &Value::Object(before), &Value::Object(after));
    Ok(Encoded { body: body.to_string().into(), omitted, names })
}

/// Takes out of a body what is sealed in it: it is another provider's, and this one would refuse it as a signature.
fn scrub(body: &mut Value) {
    let Some(contents) = body.get_mut("contents").and_then(Value::as_array_mut) else { return };
    for content in contents {
        let Some(parts) = content.get_mut("parts").and_then(Value::as_array_mut) else { continue };
        parts.retain_mut(|part| {
            let Value::Object(part) = part else { return true };
            for key in ["thoughtSignature", "thought_signature"] {
                if part.get(key).and_then(Value::as_str).is_some_and(seal::is_sealed) {
                    part.shift_remove(key);
                    // Nothing but the state was in it.
                    let is_bare = part.keys().all(|key| key == "text" || key == "thought");
                    return !(is_bare && part.get("text").is_none_or(|text| *text == ""));
                }
            }
            true
        });
    }
}

/// The names that the encoder writes and that have two spellings.
const NAMES: [&str; 45] = [
    "allowedFunctionNames",
    "cachedContent",
    "codeExecution",
    "computerUse",
    "displayName",
    "excludeDomains",
    "fileData",
    "fileSearch",
    "fileSearchStoreNames",
    "fileUri",
    "frequencyPenalty",
    "functionCall",
    "functionCallingConfig",
    "functionDeclarations",
    "functionResponse",
    "generationConfig",
    "googleSearch",
    "includeServerSideToolInvocations",
    "includeThoughts",
    "inlineData",
    "maxOutputTokens",
    "mcpServers",
    "mediaResolution",
    "metadataFilter",
    "mimeType",
    "parametersJsonSchema",
    "presencePenalty",
    "responseJsonSchema",
    "responseLogprobs",
    "responseMimeType",
    "responseModalities",
    "responseSchema",
    "safetySettings",
    "serviceTier",
    "stopSequences",
    "streamableHttpTransport",
    "systemInstruction",
    "thinkingBudget",
    "thinkingConfig",
    "thinkingLevel",
    "thoughtSignature",
    "toolConfig",
    "topK",
    "topP",
    "urlContext",
];

/// Fields whose content is the client's own and not the protocol's.
fn is_opaque(key: &str) -> bool {
    matches!(
        key,
        "args"
            | "response"
            | "labels"
            | "parameters"
            | "parametersJsonSchema"
            | "parameters_json_schema"
            | "responseSchema"
            | "response_schema"
            | "responseJsonSchema"
            | "response_json_schema"
    )
}

/// The names that the body spells with underscores and nowhere without.
fn spellings(body: &Map<String, Value>) -> BTreeSet<&'static str> {
    fn keys<'v>(value: &'v Value, found: &mut BTreeSet<&'v str>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    found.insert(key);
                    if !is_opaque(key) {
                        keys(value, found);
                    }
                }
            }
            Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    for (key, value) in body {
        found.insert(key.as_str());
        if !is_opaque(key) {
            keys(value, &mut found);
        }
    }
    NAMES.iter().copied().filter(|name| !found.contains(name) && found.contains(snake(name).as_str())).collect()
}

/// Spells an encoding as the body does.
fn respell(map: &mut Map<String, Value>, renamed: &BTreeSet<&'static str>) {
    if renamed.is_empty() {
        return;
    }
    *map = std::mem::take(map)
        .into_iter()
        .map(|(key, mut inner)| {
            if !is_opaque(&key) {
                respell_value(&mut inner, renamed);
            }
            let key = if renamed.contains(key.as_str()) { snake(&key) } else { key };
            (key, inner)
        })
        .collect();
}

fn respell_value(value: &mut Value, renamed: &BTreeSet<&'static str>) {
    match value {
        Value::Object(map) => respell(map, renamed),
        Value::Array(list) => list.iter_mut().for_each(|element| respell_value(element, renamed)),
        _ => {}
    }
}

/// Puts the entries of `tools` into the body's order, so that they can be compared one by one. Where they do not match, the
/// whole list is replaced once something in it changes.
fn align_tools(body: &mut Map<String, Value>, before: &mut Map<String, Value>, after: &mut Map<String, Value>) {
    if before.get("tools") == after.get("tools") {
        return;
    }
    let list = |map: &Map<String, Value>| map.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    let (known, ours) = (list(body), list(before));
    let fits = |entry: &Value, known: &Value| {
        let has = |key: &String| known.get(key).is_some_and(|value| !value.is_null());
        entry.as_object().is_some_and(|entry| entry.keys().all(has))
    };
    let order = |mut entries: Vec<Value>| {
        let mut ordered = Vec::with_capacity(entries.len());
        for known in &known {
            if let Some(at) = entries.iter().position(|entry| fits(entry, known)) {
                ordered.push(entries.remove(at));
            }
        }
        (ordered, entries)
    };
    let (ordered, left) = order(ours);
    if !known.is_empty() && left.is_empty() && ordered.len() == known.len() {
        before.insert("tools".to_owned(), Value::Array(ordered));
        let (mut ordered, left) = order(list(after));
        ordered.extend(left);
        if !ordered.is_empty() {
            after.insert("tools".to_owned(), Value::Array(ordered));
        }
    } else {
        body.shift_remove("tools");
        before.shift_remove("tools");
    }
}
