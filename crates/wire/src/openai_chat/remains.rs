//! What an answer holds beside texts, thinking and calls: nothing of it is lost.
//!
//! Sound and pictures become a message of their own; citations are state of the text; further choices, which the protocol can be
//! asked for, are kept as items that no conversation goes on from. Fields that have no name of ours stand in the state of
//! the answer as a whole, in the places where they stood.

use super::decode::{SAID, word};
use placet_core::item::Message;
use placet_core::part::{Inline, Media, MediaSource, Native, Text};
use placet_core::turn::{ReasoningState, WholeItem};
use placet_core::{ItemBody, Part, ProviderId, Role, TurnEvent};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Remains {
    top: Map<String, Value>,
    choice: Map<String, Value>,
    message: Map<String, Value>,
    logprobs: Map<String, Value>,
    annotations: Vec<Value>,
    audio: Map<String, Value>,
    images: Vec<Value>,
    others: BTreeMap<u64, Map<String, Value>>,
}

/// Adds the entries of a list to one that is there already.
fn append(into: &mut Map<String, Value>, key: &str, more: &Value) {
    match (into.get_mut(key), more) {
        (Some(Value::Array(list)), Value::Array(more)) => list.extend(more.iter().cloned()),
        (None, more @ Value::Array(_)) => {
            into.insert(key.to_owned(), more.clone());
        }
        _ => {}
    }
}

/// Adds a piece of text to one that is there already.
fn extend(into: &mut Map<String, Value>, key: &str, piece: &str) {
    match into.get_mut(key) {
        Some(Value::String(text)) => text.push_str(piece),
        _ => {
            into.insert(key.to_owned(), piece.into());
        }
    }
}

impl Remains {
    /// A text at the top of a chunk.
    pub(super) fn top_text(&mut self, key: &str, text: &str) {
        if self.top.get(key).and_then(Value::as_str) != Some(text) {
            self.top.insert(key.to_owned(), text.into());
        }
    }

    /// What stands at the top of a chunk or body. The last value of a field counts.
    pub(super) fn top(&mut self, chunk: &Value) {
        for (key, value) in chunk.as_object().into_iter().flatten() {
            let is_known = matches!(
                key.as_str(),
                "id" | "object" | "created" | "model" | "choices" | "usage" | "service_tier" | "obfuscation" | "error"
            );
            if !is_known && !value.is_null() {
                self.top.insert(key.clone(), value.clone());
            }
        }
    }

    /// What stands in the choice that is followed.
    pub(super) fn choice(&mut self, choice: &Value) {
        for (key, value) in choice.as_object().into_iter().flatten() {
            match key.as_str() {
                "index" | "delta" | "message" | "finish_reason" | "error" => {}
                "logprobs" => {
                    for key in ["content", "refusal"] {
                        append(&mut self.logprobs, key, &value[key]);
                    }
                }
                _ if value.is_null() => {}
                _ => {
                    self.choice.insert(key.clone(), value.clone());
                }
            }
        }
    }

    /// What stands in a message or a piece of one.
    pub(super) fn message(&mut self, message: &Value) {
        for (key, value) in message.as_object().into_iter().flatten() {
            match key.as_str() {
                "role" | "content" | "refusal" | "tool_calls" | "function_call" | "reasoning_content" | "reasoning"
                | "reasoning_details" => {}
                "annotations" => self.annotations.extend(value.as_array().into_iter().flatten().cloned()),
                "images" => self.images.extend(value.as_array().into_iter().flatten().cloned()),
                "audio" => {
                    for (key, value) in value.as_object().into_iter().flatten() {
                        match (key.as_str(), value) {
                            (_, Value::Null) => {}
                            ("data" | "transcript", Value::String(piece)) => extend(&mut self.audio, key, piece),
                            _ => {
                                self.audio.insert(key.clone(), value.clone());
                            }
                        }
                    }
                }
                _ if value.is_null() => {}
                _ => {
                    self.message.insert(key.clone(), value.clone());
                }
            }
        }
    }

    /// A piece of content that is no text: a picture, or something that has no name here.
    pub(super) fn piece(&mut self, piece: &Value) {
        if piece["image_url"]["url"].is_string() {
            self.images.push(piece.clone());
        } else if !piece.is_null() && piece["text"] != "" {
            append(&mut self.message, "content", &json!([piece]));
        }
    }

    /// A choice beside the one that is followed, put together from its pieces.
    pub(super) fn other_choice(&mut self, index: u64, choice: &Value) {
        let known = self.others.entry(index).or_default();
        if let Some(reason) = word(choice, "finish_reason") {
            known.insert("finish_reason".into(), reason.into());
        }
        let piece = choice.get("delta").filter(|delta| delta.is_object()).or_else(|| choice.get("message"));
        let Value::Object(message) = known.entry("message").or_insert_with(|| json!({})) else { return };
        for (key, value) in piece.and_then(Value::as_object).into_iter().flatten() {
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                ("tool_calls", Value::Array(calls)) => {
                    let list = message.entry("tool_calls").or_insert_with(|| json!([]));
                    calls.iter().for_each(|call| merge_call(list, call));
                }
                ("role", _) => {}
                (_, Value::String(piece)) => extend(message, key, piece),
                (_, Value::Array(_)) => append(message, key, value),
                _ => {
                    message.insert(key.clone(), value.clone());
                }
            }
        }
    }

    /// The events of all this, from the place `next` on, and the state of the answer as a whole.
    pub(super) fn finish(
        self,
        provider: &ProviderId,
        usage: Map<String, Value>,
        has_said: bool,
        next: u32,
        out: &mut Vec<TurnEvent>,
    ) -> Option<Native> {
        let native = |value: Value| Native { provider: provider.clone(), value };
        let Remains { top: mut state, mut choice, mut message, logprobs, annotations, audio, images, others } = self;
        if has_said && !annotations.is_empty() {
            let native = native(json!({ "annotations": annotations }));
            out.push(TurnEvent::TextState(ReasoningState { index: SAID, native }));
        } else if !annotations.is_empty() {
            message.insert("annotations".into(), annotations.into());
        }
        let mut next = next;
        let mut whole = |body: ItemBody| {
            out.push(TurnEvent::Whole(Box::new(WholeItem { index: next, body })));
            next = next.saturating_add(1);
        };
        if !audio.is_empty() || !images.is_empty() {
            whole(media(audio, images, native).into());
        }
        for (index, mut other) in others {
            other.insert("choice".into(), index.into());
            whole(native(other.into()).into());
        }
        if !logprobs.is_empty() {
            choice.insert("logprobs".into(), logprobs.into());
        }
        if !message.is_empty() {
            choice.insert("message".into(), message.into());
        }
        if !choice.is_empty() {
            state.insert("choices".into(), json!([choice]));
        }
        if !usage.is_empty() {
            state.insert("usage".into(), usage.into());
        }
        (!state.is_empty()).then(|| native(state.into()))
    }
}

/// Puts a piece of a call to the call of the same index.
fn merge_call(list: &mut Value, piece: &Value) {
    let Value::Array(list) = list else { return };
    let index = piece.get("index").cloned().unwrap_or_else(|| list.len().into());
    let known = list.iter_mut().find(|call| call["index"] == index);
    let Some(call) = known else {
        let mut call = piece.clone();
        call["index"] = index;
        list.push(call);
        return;
    };
    for kind in ["function", "custom"] {
        let Some(more) = piece.get(kind).and_then(Value::as_object) else { continue };
        if let Value::Object(function) = &mut call[kind] {
            for (key, value) in more {
                match value {
                    Value::String(piece) if matches!(key.as_str(), "arguments" | "input") => {
                        extend(function, key, piece)
                    }
                    Value::Null => {}
                    _ => {
                        function.insert(key.clone(), value.clone());
                    }
                }
            }
        }
    }
}

/// Sound with what was said in it, and pictures. Their fields are kept without their bytes, to name them by later.
fn media(audio: Map<String, Value>, images: Vec<Value>, native: impl Fn(Value) -> Native) -> Message {
    let mut parts = Vec::new();
    let mut state = Map::new();
    if !audio.is_empty() {
        if let Some(text) = audio.get("transcript").and_then(Value::as_str) {
            parts.push(Part::Text(Text::new(text)));
        }
        if let Some(data) = audio.get("data").and_then(Value::as_str) {
            parts.push(Part::Audio(Media::new(MediaSource::Inline(Inline { base64: data.into() }))));
        }
        let named = audio.into_iter().filter(|(key, _)| !matches!(key.as_str(), "transcript" | "data"));
        state.insert("audio".into(), named.collect::<Map<_, _>>().into());
    }
    if !images.is_empty() {
        for image in &images {
            if let Some(url) = image["image_url"]["url"].as_str() {
                parts.push(Part::Image(super::media::read_url(url)));
            }
        }
        state.insert("images".into(), images.into());
    }
    Message { role: Role::Assistant, parts, native: Some(native(state.into())) }
}
