//! From what a Chat Completions server answers to turn events.

use super::calls::{Calls, Piece};
use super::chunk::{PlainChunk, given};
use super::models::NOT_JSON;
use super::remains::Remains;
use super::usage::{RawUsage, number};
use crate::failure::{RAW_BYTES, cut, decode_error_value};
use crate::names::Names;
use crate::reading::{Reading, event_decoder, read_json};
use placet_core::part::Native;
use placet_core::turn::{ReasoningState, TextDelta, TurnFinished, TurnStarted};
use placet_core::{ErrorKind, ProviderError, ProviderId, StopReason, TurnEvent};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The place of thinking, text and refusal; calls follow, one place each.
pub(super) const SAID: u32 = 0;

event_decoder! {
    /// Reads the stream of one answer: bytes in, events out. Unknown fields, words and events are passed over.
    ///
    /// The answer is finished when a finish reason has come and then `[DONE]` or the end of the stream; a stream that ends
    /// without a finish reason was interrupted. After [`TurnEvent::Finished`] or [`TurnEvent::Failed`] nothing more is given.
    Answer
}

impl EventDecoder {
    pub(super) fn new(provider: ProviderId, names: Names) -> Self {
        EventDecoder::of(Answer::new(provider, names))
    }
}

/// Reads an answer that came whole.
///
/// # Errors
/// [`ProviderError`] where it is an error in spite of its status, or no answer of this protocol.
pub fn decode_response(provider: &ProviderId, names: Names, body: &[u8]) -> Result<Vec<TurnEvent>, ProviderError> {
    let value = read_json(provider, NOT_JSON, body)?;
    let mut answer = Answer::new(provider.clone(), names);
    let mut events = Vec::new();
    answer.chunk(&value, &mut events);
    if let Some(TurnEvent::Failed(error)) = events.pop_if(|event| matches!(event, TurnEvent::Failed(_))) {
        return Err(*error);
    }
    if !answer.has_choice {
        let mut error = ProviderError::new(
            ErrorKind::Protocol,
            provider.clone(),
            "the answer holds no choice; expected a chat completion with `choices`",
        );
        error.raw = Some(cut(&value.to_string(), RAW_BYTES));
        return Err(error);
    }
    // A whole body is not cut, so a missing finish reason is only a forgotten one.
    answer.stop.get_or_insert(StopReason::End);
    answer.end(&mut events);
    Ok(events)
}

#[derive(Debug)]
struct Answer {
    provider: ProviderId,
    is_started: bool,
    has_choice: bool,
    is_done: bool,
    /// The choice that is followed: the first that comes. Others are kept aside.
    choice: Option<u64>,
    has_said: bool,
    stop: Option<StopReason>,
    has_empty_reason: bool,
    calls: Calls,
    usage: RawUsage,
    service_tier: Option<String>,
    /// The field that thinking came in, and what came beside it.
    thinking_field: Option<&'static str>,
    thinking_details: Vec<Value>,
    /// What was told of them.
    thinking_told: Option<Value>,
    remains: Remains,
}

/// The text at `key`; an empty one is taken for an absent one.
pub(super) fn word<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

impl Answer {
    fn new(provider: ProviderId, names: Names) -> Self {
        Answer {
            calls: Calls::new(provider.clone(), names),
            provider,
            is_started: false,
            has_choice: false,
            is_done: false,
            choice: None,
            has_said: false,
            stop: None,
            has_empty_reason: false,
            usage: RawUsage::default(),
            service_tier: None,
            thinking_field: None,
            thinking_details: Vec::new(),
            thinking_told: None,
            remains: Remains::default(),
        }
    }

    /// Takes a plain chunk; whether it was one. It means what the same chunk means as a tree.
    fn plain(&mut self, chunk: &PlainChunk<'_>, out: &mut Vec<TurnEvent>) -> bool {
        let [choice] = &chunk.choices;
        if *self.choice.get_or_insert(choice.index) != choice.index {
            return false;
        }
        if !self.is_started {
            self.begin(given(&chunk.model), given(&chunk.id), true, out);
        }
        if let Some(fingerprint) = given(&chunk.system_fingerprint) {
            self.remains.top_text("system_fingerprint", fingerprint);
        }
        if let Some(tier) = given(&chunk.service_tier) {
            self.tier(tier);
        }
        self.has_choice = true;
        let delta = &choice.delta;
        let fields = [("reasoning_content", &delta.reasoning_content), ("reasoning", &delta.reasoning)];
        if let Some((field, text)) = fields.into_iter().find_map(|(field, text)| Some((field, given(text)?))) {
            self.thinking_field.get_or_insert(field);
            push_text(TurnEvent::Reasoning, text, out);
        }
        if let Some(text) = given(&delta.content) {
            self.text(text, out);
        }
        for call in delta.tool_calls.iter().flatten() {
            let piece = Piece {
                index: Some(call.index),
                id: given(&call.id),
                name: given(&call.function.name),
                arguments: Cow::Borrowed(given(&call.function.arguments).unwrap_or_default()),
                is_object: false,
                is_custom: false,
                beyond: Map::new(),
            };
            self.says(out);
            self.calls.take(piece, 0, 1, out);
        }
        true
    }

    fn tier(&mut self, tier: &str) {
        if self.service_tier.as_deref() != Some(tier) {
            self.service_tier = Some(tier.to_owned());
        }
    }

    fn chunk(&mut self, value: &Value, out: &mut Vec<TurnEvent>) {
        if self.is_done {
            return;
        }
        let is_error = |value: &Value| value.get("error").is_some_and(|error| !error.is_null());
        let beside = value.get("x_groq");
        for place in [Some(value), beside].into_iter().flatten() {
            let is_plain_error = place.get("choices").is_none()
                && (word(place, "object") == Some("error")
                    || place.get("detail").is_some_and(|detail| !detail.is_null()));
            if is_error(place) || is_plain_error {
                let error = decode_error_value(&self.provider, place);
                return self.fail_with(error, out);
            }
        }
        self.start(value, out);
        // Before the choices: the chunk that carries usage often has none.
        for place in [Some(value), beside].into_iter().flatten() {
            if let Some(Value::Object(usage)) = place.get("usage")
                && self.usage.update(usage)
            {
                out.push(TurnEvent::Usage(self.usage.counted()));
            }
        }
        if let Some(tier) = word(value, "service_tier") {
            self.tier(tier);
        }
        self.remains.top(value);
        for choice in value.get("choices").and_then(Value::as_array).into_iter().flatten() {
            let index = choice.get("index").and_then(number).unwrap_or(0);
            if *self.choice.get_or_insert(index) != index {
                self.remains.other_choice(index, choice);
                continue;
            }
            self.remains.choice(choice);
            self.has_choice = true;
            if is_error(choice) {
                let error = decode_error_value(&self.provider, choice);
                return self.fail_with(error, out);
            }
            match (choice.get("delta"), choice.get("message")) {
                (Some(delta), _) if delta.is_object() => self.delta(delta, out),
                // Some servers repeat at the end what they have streamed.
                (_, Some(message)) if !self.has_said && self.calls.count() == 0 => self.delta(message, out),
                _ => {}
            }
            self.has_empty_reason |= choice.get("finish_reason").is_some_and(|reason| reason == "");
            if let Some(reason) = word(choice, "finish_reason") {
                match stop_reason(reason) {
                    Ok(stop) => self.stop = Some(stop),
                    Err(kind) => {
                        return self.fail(kind, format!("the answer broke off with the finish reason `{reason}`"), out);
                    }
                }
            }
        }
    }

    fn start(&mut self, value: &Value, out: &mut Vec<TurnEvent>) {
        let (model, response_id) = (word(value, "model"), word(value, "id"));
        let has_content = value.get("choices").and_then(Value::as_array).is_some_and(|choices| !choices.is_empty());
        self.begin(model, response_id, has_content, out);
    }

    fn begin(&mut self, model: Option<&str>, response_id: Option<&str>, has_content: bool, out: &mut Vec<TurnEvent>) {
        if self.is_started || (model.is_none() && response_id.is_none() && !has_content) {
            return;
        }
        self.is_started = true;
        let (model, response_id) = (model.map(str::to_owned), response_id.map(str::to_owned));
        out.push(TurnEvent::Started(TurnStarted { model, response_id }));
    }

    fn delta(&mut self, delta: &Value, out: &mut Vec<TurnEvent>) {
        self.thinking(delta, out);
        match delta.get("content") {
            Some(Value::String(text)) => self.text(text, out),
            Some(Value::Array(pieces)) => {
                for piece in pieces {
                    match word(piece, "type") {
                        Some("thinking") => {
                            let thought = match piece.get("thinking") {
                                Some(Value::Array(inner)) => {
                                    inner.iter().filter_map(|piece| word(piece, "text")).collect()
                                }
                                Some(Value::String(text)) => text.clone(),
                                _ => String::new(),
                            };
                            push_text(TurnEvent::Reasoning, &thought, out);
                        }
                        _ => match word(piece, "text").or_else(|| piece.as_str()) {
                            Some(text) => self.text(text, out),
                            None => self.remains.piece(piece),
                        },
                    }
                }
            }
            _ => {}
        }
        if let Some(text) = word(delta, "refusal") {
            self.has_said = true;
            self.says(out);
            push_text(TurnEvent::Refusal, text, out);
        }
        if let Some(Value::Array(calls)) = delta.get("tool_calls") {
            for (position, call) in calls.iter().enumerate() {
                self.says(out);
                self.calls.take(Piece::of(call, call.get("index").and_then(number)), position, calls.len(), out);
            }
        }
        // The ancestor of tool calls, which a few servers still speak.
        if let Some(function) = delta.get("function_call").filter(|function| function.is_object()) {
            self.calls.take(Piece::of(&serde_json::json!({ "function": function }), Some(0)), 0, 1, out);
        }
        self.remains.message(delta);
    }

    /// What thinking has to come back with, told as soon as something else is said: a client that reads on has closed it then.
    /// What comes later is told at the end.
    fn thought(&mut self, out: &mut Vec<TurnEvent>) {
        if self.thinking_field.is_none() && self.thinking_details.is_empty() {
            return;
        }
        let mut value = Map::new();
        if let Some(field) = self.thinking_field {
            value.insert("field".into(), field.into());
        }
        if !self.thinking_details.is_empty() {
            value.insert("details".into(), self.thinking_details.clone().into());
        }
        let value = Value::from(value);
        if self.thinking_told.as_ref() != Some(&value) {
            let native = Native { provider: self.provider.clone(), value: value.clone() };
            out.push(TurnEvent::ReasoningState(ReasoningState { index: SAID, native }));
            self.thinking_told = Some(value);
        }
    }

    fn says(&mut self, out: &mut Vec<TurnEvent>) {
        if self.thinking_told.is_none() {
            self.thought(out);
        }
    }

    fn text(&mut self, text: &str, out: &mut Vec<TurnEvent>) {
        if !text.is_empty() {
            self.has_said = true;
            self.says(out);
        }
        push_text(TurnEvent::Text, text, out);
    }

    /// Thinking comes in one of two fields, sometimes in both at once, and sometimes with details that must go back.
    fn thinking(&mut self, delta: &Value, out: &mut Vec<TurnEvent>) {
        let found = ["reasoning_content", "reasoning"].into_iter().find_map(|field| Some((field, word(delta, field)?)));
        let details = delta.get("reasoning_details").and_then(Value::as_array);
        if let Some((field, text)) = found {
            self.thinking_field.get_or_insert(field);
            push_text(TurnEvent::Reasoning, text, out);
        } else if let Some(details) = details.filter(|_| self.thinking_field.is_none()) {
            let text: String =
                details.iter().filter_map(|detail| word(detail, "text").or_else(|| word(detail, "summary"))).collect();
            push_text(TurnEvent::Reasoning, &text, out);
        }
        for detail in details.into_iter().flatten() {
            merge_detail(&mut self.thinking_details, detail);
        }
    }
}

impl Reading for Answer {
    const NOT_JSON: &'static str = NOT_JSON;

    fn provider(&self) -> &ProviderId {
        &self.provider
    }

    fn is_started(&self) -> bool {
        self.is_started
    }

    fn data(&mut self, name: Option<&str>, data: &str, out: &mut Vec<TurnEvent>) -> Result<(), serde_json::Error> {
        if name.is_none()
            && let Ok(plain) = serde_json::from_str::<PlainChunk<'_>>(data)
            && self.plain(&plain, out)
        {
            return Ok(());
        }
        let value = serde_json::from_str::<Value>(data)?;
        if name == Some("error") {
            let error = decode_error_value(&self.provider, &value);
            self.fail_with(error, out);
        } else {
            self.chunk(&value, out);
        }
        Ok(())
    }

    fn mark(&mut self, out: &mut Vec<TurnEvent>) {
        // Some servers leave the reason of a tool turn empty.
        if self.stop.is_none() && self.has_empty_reason && self.calls.are_whole() {
            self.stop = Some(StopReason::ToolCalls);
        }
        if self.stop.is_some() {
            self.end(out);
        }
    }

    fn end(&mut self, out: &mut Vec<TurnEvent>) {
        if self.is_done {
            return;
        }
        let Some(stop) = self.stop.clone() else {
            return self.broke_off(out);
        };
        self.is_done = true;
        self.calls.close(out);
        self.thought(out);
        let beyond = std::mem::take(&mut self.usage.beyond);
        let remains = std::mem::take(&mut self.remains);
        let native = remains.finish(&self.provider, beyond, self.has_said, SAID + 1 + self.calls.count(), out);
        let service_tier = self.service_tier.take();
        out.push(TurnEvent::Finished(TurnFinished { service_tier, native, ..TurnFinished::new(stop) }));
    }

    fn is_whole(&self) -> bool {
        self.stop.is_some()
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn set_done(&mut self) {
        self.is_done = true;
    }
}

fn push_text(event: fn(TextDelta) -> TurnEvent, text: &str, out: &mut Vec<TurnEvent>) {
    if !text.is_empty() {
        out.push(event(TextDelta { index: SAID, text: text.to_owned() }));
    }
}

/// Pieces of one detail have the same index and type; their texts are put together, of the rest the last counts.
fn merge_detail(details: &mut Vec<Value>, piece: &Value) {
    let key = |value: &Value| (value.get("index").and_then(number), value.get("type").cloned());
    let (index, _) = key(piece);
    let open = details.iter_mut().rfind(|detail| index.is_some() && key(detail) == key(piece));
    let (Some(Value::Object(open)), Value::Object(piece)) = (open, piece) else {
        details.push(piece.clone());
        return;
    };
    for (name, value) in piece {
        match (open.get_mut(name), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more))
                if matches!(name.as_str(), "text" | "summary" | "data") =>
            {
                text.push_str(more);
            }
            _ => {
                open.insert(name.clone(), value.clone());
            }
        }
    }
}

/// What a finish reason means. Some are no end but a failure.
fn stop_reason(reason: &str) -> Result<StopReason, ErrorKind> {
    Ok(match reason {
        "stop" | "eos" | "eos_token" | "end_turn" => StopReason::End,
        "tool_calls" | "function_call" | "tool_use" => StopReason::ToolCalls,
        "length" | "max_tokens" | "model_length" => StopReason::MaxTokens,
        "content_filter" => StopReason::ContentFilter,
        "error" => return Err(ErrorKind::Unavailable),
        "insufficient_system_resource" => return Err(ErrorKind::Overloaded),
        other => StopReason::Other(other.to_owned()),
    })
}
