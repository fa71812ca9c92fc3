//! Further answers to one request, beside the one that is followed.
//!
//! Two protocols have them: Chat calls them choices, Gemini candidates. Each is kept as an item in its provider's words, which no
//! conversation goes on from, and is told in the words of the other to its clients.

use placet_core::part::Native;
use serde_json::{Map, Value, json};

/// Whether an item in its provider's words is a further answer.
pub(crate) fn is_further(native: &Native) -> bool {
    native.value.get("choice").is_some_and(Value::is_u64) || is_candidate(&native.value)
}

/// Whether it is one in Gemini's words.
pub(crate) fn is_candidate(value: &Value) -> bool {
    value.get("candidate").is_some_and(Value::is_u64)
}

/// A further answer in Chat's words: its number, its message and why it ended.
pub(crate) fn as_choice(native: &Native) -> Option<(u64, Value, Option<&'static str>)> {
    let value = &native.value;
    if let Some(index) = value.get("choice").and_then(Value::as_u64) {
        let reason = match value["finish_reason"].as_str() {
            None => None,
            Some("length") => Some("length"),
            Some("tool_calls" | "function_call") => Some("tool_calls"),
            Some("content_filter") => Some("content_filter"),
            Some(_) => Some("stop"),
        };
        return Some((index, value.get("message").cloned().unwrap_or_else(|| json!({})), reason));
    }
    let index = value.get("candidate").and_then(Value::as_u64)?;
    let (mut text, mut thought, mut calls, mut images) = (String::new(), String::new(), Vec::new(), Vec::new());
    for part in value["content"]["parts"].as_array().into_iter().flatten() {
        if let Some(said) = part["text"].as_str() {
            if part["thought"] == true { &mut thought } else { &mut text }.push_str(said);
        } else if let Some(call) = part.get("functionCall") {
            let number = calls.len();
            let id = call["id"].as_str().map_or_else(|| format!("call_{index}_{number}"), str::to_owned);
            let arguments = call.get("args").map_or_else(|| "{}".to_owned(), Value::to_string);
            calls.push(json!({"index": number, "id": id, "type": "function",
                "function": {"name": call["name"], "arguments": arguments}}));
        } else if let (Some(mime), Some(data)) =
            (part["inlineData"]["mimeType"].as_str(), part["inlineData"]["data"].as_str())
        {
            images.push(json!({"type": "image_url", "image_url": {"url": format!("data:{mime};base64,{data}")}}));
        }
    }
    let reason = match value["finishReason"].as_str() {
        None => None,
        Some("STOP") if !calls.is_empty() => Some("tool_calls"),
        Some("MAX_TOKENS") => Some("length"),
        Some("SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => Some("content_filter"),
        Some(_) => Some("stop"),
    };
    let mut message = Map::new();
    message.insert("content".to_owned(), text.into());
    if !thought.is_empty() {
        message.insert("reasoning_content".to_owned(), thought.into());
    }
    for (key, list) in [("tool_calls", calls), ("images", images)] {
        if !list.is_empty() {
            message.insert(key.to_owned(), list.into());
        }
    }
    Some((index, message.into(), reason))
}

/// A further answer as a candidate of Gemini's.
pub(crate) fn as_candidate(native: &Native) -> Option<Map<String, Value>> {
    let value = native.value.as_object()?;
    if let Some(index) = value.get("candidate").filter(|index| index.is_u64()) {
        let mut candidate = value.clone();
        candidate.shift_remove("candidate");
        candidate.insert("index".to_owned(), index.clone());
        return Some(candidate);
    }
    let index = value.get("choice").filter(|index| index.is_u64())?;
    let message = value.get("message").unwrap_or(&Value::Null);
    let mut parts = Vec::new();
    let thought = ["reasoning_content", "reasoning"].into_iter().find_map(|key| message[key].as_str());
    parts.extend(thought.map(|text| json!({"text": text, "thought": true})));
    for key in ["content", "refusal"] {
        parts.extend(message[key].as_str().filter(|text| !text.is_empty()).map(|text| json!({"text": text})));
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = call.get("function").or_else(|| call.get("custom")).unwrap_or(&Value::Null);
        let arguments = function["arguments"].as_str().or_else(|| function["input"].as_str()).unwrap_or("{}");
        let arguments = serde_json::from_str::<Map<String, Value>>(arguments);
        let arguments = arguments.unwrap_or_else(|_| Map::from_iter([("input".to_owned(), function["input"].clone())]));
        parts.push(json!({"functionCall": {"id": call["id"], "name": function["name"], "args": arguments}}));
    }
    for image in message["images"].as_array().into_iter().flatten() {
        let data = image["image_url"]["url"].as_str().and_then(|url| url.strip_prefix("data:")?.split_once(";base64,"));
        parts.extend(data.map(|(mime, data)| json!({"inlineData": {"mimeType": mime, "data": data}})));
    }
    let reason = match value.get("finish_reason").and_then(Value::as_str) {
        Some("length") => "MAX_TOKENS",
        Some("content_filter") => "SAFETY",
        _ => "STOP",
    };
    let content = json!({"parts": parts, "role": "model"});
    Some(Map::from_iter([
        ("content".to_owned(), content),
        ("finishReason".to_owned(), reason.into()),
        ("index".to_owned(), index.clone()),
    ]))
}
