//! The forms that answers are made of.

use super::answer::Sort;
use super::write::{List, Object};
use placet_core::Usage;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// A part of a message, or of thinking.
pub(super) fn part(sort: Sort, text: &str, own: Option<&Map<String, Value>>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    match sort {
        Sort::Reasoning => {
            object.field("type", "summary_text");
            object.field("text", text);
        }
        Sort::Refusal => {
            object.field("type", "refusal");
            object.field("refusal", text);
        }
        Sort::Text | Sort::Call | Sort::Whole => {
            object.field("type", "output_text");
            object.field("text", text);
            let mut list = List::new(object.key("annotations"));
            for annotation in annotations(own) {
                list.push(&*annotation);
            }
            list.end();
            match own.and_then(|own| own.get("logprobs")) {
                Some(list) => object.field("logprobs", list),
                None => object.field("logprobs", &[(); 0]),
            }
            if let Some(own) = own {
                object.merge(own, &["type", "text", "annotations", "logprobs", "message"]);
            }
        }
    }
    object.end();
    out
}

/// Usage as the protocol counts it: what was cached is a part of the input.
pub(super) fn usage_form(usage: &Usage, beyond: Option<&Map<String, Value>>) -> Value {
    let mut form = json!({
        "input_tokens": usage.total_input(),
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write.saturating_add(usage.cache_write_long),
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total(),
    });
    for (details, count) in [("input_tokens_details", usage.input_audio), ("output_tokens_details", usage.output_audio)]
    {
        if count > 0 {
            form[details]["audio_tokens"] = count.into();
        }
    }
    if let (Some(form), Some(beyond)) = (form.as_object_mut(), beyond) {
        for (key, value) in beyond {
            form.entry(key.as_str()).or_insert_with(|| value.clone());
        }
    }
    form
}

/// Whether what has come of some arguments may turn out to mean none.
pub(super) fn may_be_absent(text: &str) -> bool {
    let text = text.trim_start();
    ["null", "\"null\"", "\"\""].iter().any(|word| word.starts_with(text.trim_end()))
}

/// The fields of an answer that repeat the request, with the protocol's defaults where it does not say. Credentials of MCP
/// servers are not repeated.
pub(super) fn repeated(request: Option<&Value>) -> Vec<u8> {
    let none = Value::Null;
    let given = |key: &str| request.and_then(|request| request.get(key)).filter(|value| !value.is_null());
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    let defaults = [
        ("background", json!(false)),
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("max_tool_calls", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", json!(true)),
        ("previous_response_id", Value::Null),
        ("prompt_cache_key", Value::Null),
        ("reasoning", json!({"effort": null, "summary": null})),
        ("safety_identifier", Value::Null),
        ("store", json!(true)),
        ("temperature", Value::Null),
        ("text", json!({"format": {"type": "text"}})),
        ("tool_choice", json!("auto")),
        ("top_logprobs", Value::Null),
        ("top_p", Value::Null),
        ("truncation", json!("disabled")),
        ("user", Value::Null),
    ];
    for (key, default) in &defaults {
        object.field(key, given(key).unwrap_or(default));
    }
    let mut tools = List::new(object.key("tools"));
    for tool in given("tools").unwrap_or(&none).as_array().into_iter().flatten() {
        let Some(map) = tool.as_object() else { continue };
        let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
        let mut form = Object::new(tools.next());
        form.merge(map, if kind == "mcp" { &["authorization", "headers"] } else { &[] });
        for key in ["parameters", "strict"] {
            if kind == "function" && !map.contains_key(key) {
                form.field(key, &Value::Null);
            }
        }
        form.end();
    }
    tools.end();
    object.end();
    // Without the closing brace, and a comma for the opening one.
    out.pop();
    if let Some(first) = out.first_mut() {
        *first = b',';
    }
    out
}

/// The annotations of a text. Those of the chat protocol, which the same provider may speak as well, hold their fields one level
/// deeper.
pub(super) fn annotations(own: Option<&Map<String, Value>>) -> impl Iterator<Item = Cow<'_, Value>> {
    let list = own.and_then(|own| own.get("annotations")?.as_array()).into_iter().flatten();
    list.map(|annotation| match annotation.get("url_citation").and_then(Value::as_object) {
        Some(inner) => {
            let mut flat = inner.clone();
            flat.insert("type".into(), "url_citation".into());
            Cow::Owned(Value::Object(flat))
        }
        None => Cow::Borrowed(annotation),
    })
}
