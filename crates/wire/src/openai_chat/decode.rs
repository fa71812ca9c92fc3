//! From what a Chat Completions server answers to turn events.

use crate::failure::{RAW_BYTES, cut, decode_error_value};
use crate::names::Names;
use crate::sse::{SseDecoder, SseEvent};
use placet_core::part::Native;
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnFinished, TurnStarted};
use placet_core::{ErrorKind, ProviderError, ProviderId, StopReason, TurnEvent, Usage};
use serde_json::{Map, Value, json};

/// The place of thinking, text and refusal; calls follow, one place each.
const SAID: u32 = 0;

/// Reads the stream of one answer: bytes in, events out. Unknown fields, words and events are passed over.
///
/// The answer is finished when a finish reason has come and then `[DONE]` or the end of the stream; a stream that ends
/// without a finish reason was interrupted. After [`TurnEvent::Finished`] or [`TurnEvent::Failed`] nothing more is given.
#[derive(Debug)]
pub struct EventDecoder {
    sse: SseDecoder,
    answer: Answer,
}

impl EventDecoder {
    pub(super) fn new(provider: ProviderId, names: Names) -> Self {
        EventDecoder { sse: SseDecoder::new(), answer: Answer::new(provider, names) }
    }

    /// Takes the next bytes and appends what they mean to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<TurnEvent>) {
        let pushed = self.sse.push(bytes);
        while let Some(event) = self.sse.next_event() {
            self.answer.event(&event, false, out);
        }
        if let Err(error) = pushed {
            self.answer.fail(ErrorKind::LimitReached, error.to_string(), out);
        }
    }

    /// The stream has ended, well or not: appends what follows from that.
    pub fn end(&mut self, out: &mut Vec<TurnEvent>) {
        while let Some(event) = self.sse.finish() {
            self.answer.event(&event, true, out);
        }
        self.answer.end(out);
    }

    /// Whether a finish reason has come, so that the answer is whole even if the connection breaks now.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.answer.stop.is_some()
    }

    /// Whether nothing more will be given.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.answer.is_done
    }
}

/// Reads an answer that came whole.
///
/// # Errors
/// [`ProviderError`] where it is an error in spite of its status, or no answer of this protocol.
pub fn decode_response(provider: &ProviderId, names: Names, body: &[u8]) -> Result<Vec<TurnEvent>, ProviderError> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| not_json(provider, &error, &String::from_utf8_lossy(body)))?;
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

/// One model of a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel {
    /// Its id.
    pub id: String,
    /// What the server says of it.
    pub description: Option<String>,
}

/// Reads the answer to `GET /models`: an object with `data` or `models`, or a bare array; entries are objects with an `id`
/// or `name`, or texts.
///
/// # Errors
/// [`ProviderError`] of kind *protocol* where there is no list.
pub fn decode_models(provider: &ProviderId, body: &[u8]) -> Result<Vec<ListedModel>, ProviderError> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| not_json(provider, &error, &String::from_utf8_lossy(body)))?;
    let list = value.as_array().or_else(|| ["data", "models"].iter().find_map(|key| value.get(key)?.as_array()));
    let Some(list) = list else {
        return Err(ProviderError::new(ErrorKind::Protocol, provider.clone(), "the answer holds no list of models"));
    };
    let models = list.iter().filter_map(|entry| {
        let word = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let id = entry.as_str().or_else(|| word("id")).or_else(|| word("name")).or_else(|| word("model"))?;
        Some(ListedModel { id: id.to_owned(), description: word("description").map(str::to_owned) })
    });
    Ok(models.collect())
}

/// What a person can do about an answer of something that is no such API.
const BASE_URL_HINT: &str = "check that the base URL points to an OpenAI-compatible API; it usually ends with /v1";

/// The error that a web page in place of an answer is, of kind *protocol*: whoever sent it will send it again.
#[must_use]
pub fn decode_page(provider: &ProviderId, body: &[u8]) -> ProviderError {
    let mut failure = ProviderError::new(ErrorKind::Protocol, provider.clone(), "the answer is a web page, not JSON")
        .with_hint(BASE_URL_HINT);
    failure.raw = Some(cut(&String::from_utf8_lossy(body), RAW_BYTES));
    failure
}

fn not_json(provider: &ProviderId, error: &serde_json::Error, text: &str) -> ProviderError {
    let mut failure =
        ProviderError::new(ErrorKind::Protocol, provider.clone(), format!("the answer is not JSON ({error})"))
            .with_hint(BASE_URL_HINT);
    failure.raw = Some(cut(text, RAW_BYTES));
    failure
}

#[derive(Debug)]
struct Answer {
    provider: ProviderId,
    names: Names,
    is_started: bool,
    has_choice: bool,
    is_done: bool,
    /// The choice that is followed: the first that comes. Others were never asked for.
    choice: Option<u64>,
    has_said: bool,
    stop: Option<StopReason>,
    calls: Vec<OpenCall>,
    usage: RawUsage,
    /// The field that thinking came in, and what came beside it.
    thinking_field: Option<&'static str>,
    thinking_details: Vec<Value>,
}

#[derive(Debug, Default)]
struct OpenCall {
    wire_index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
}

impl OpenCall {
    fn is_whole(&self) -> bool {
        !self.arguments.is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
    }
}

/// The counters as the server gives them: cumulative, and each field on its own.
#[derive(Debug, Default, Clone, Copy)]
struct RawUsage {
    prompt: Option<u64>,
    completion: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    cache_write: Option<u64>,
    reasoning: Option<u64>,
}

/// The text at `key`; an empty one is taken for an absent one.
fn word<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

impl Answer {
    fn new(provider: ProviderId, names: Names) -> Self {
        Answer {
            provider,
            names,
            is_started: false,
            has_choice: false,
            is_done: false,
            choice: None,
            has_said: false,
            stop: None,
            calls: Vec::new(),
            usage: RawUsage::default(),
            thinking_field: None,
            thinking_details: Vec::new(),
        }
    }

    fn event(&mut self, event: &SseEvent, is_last: bool, out: &mut Vec<TurnEvent>) {
        let data = event.data.trim();
        if self.is_done || data.is_empty() {
            return;
        }
        if data == "[DONE]" {
            if self.stop.is_some() {
                self.end(out);
            }
            return;
        }
        match serde_json::from_str::<Value>(data) {
            Ok(value) if event.event.as_deref() == Some("error") => {
                let error = decode_error_value(&self.provider, &value);
                self.fail_with(error, out);
            }
            Ok(value) => self.chunk(&value, out),
            // The stream broke off within this event, which the end of the answer will tell.
            Err(_) if is_last => {}
            Err(error) => {
                let failure = not_json(&self.provider, &error, data);
                self.fail_with(failure, out);
            }
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
        for choice in value.get("choices").and_then(Value::as_array).into_iter().flatten() {
            let index = choice.get("index").and_then(number).unwrap_or(0);
            if *self.choice.get_or_insert(index) != index {
                continue;
            }
            self.has_choice = true;
            if is_error(choice) {
                let error = decode_error_value(&self.provider, choice);
                return self.fail_with(error, out);
            }
            match (choice.get("delta"), choice.get("message")) {
                (Some(delta), _) if delta.is_object() => self.delta(delta, out),
                // Some servers repeat at the end what they have streamed.
                (_, Some(message)) if !self.has_said && self.calls.is_empty() => self.delta(message, out),
                _ => {}
            }
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
                        _ => self.text(word(piece, "text").unwrap_or_default(), out),
                    }
                }
            }
            _ => {}
        }
        if let Some(text) = word(delta, "refusal") {
            self.has_said = true;
            push_text(TurnEvent::Refusal, text, out);
        }
        if let Some(Value::Array(calls)) = delta.get("tool_calls") {
            for (position, call) in calls.iter().enumerate() {
                self.call(call, position, calls.len(), out);
            }
        }
        // The ancestor of tool calls, which a few servers still speak.
        if let Some(function) = delta.get("function_call").filter(|function| function.is_object()) {
            self.call(&json!({"index": 0, "function": function}), 0, 1, out);
        }
    }

    fn text(&mut self, text: &str, out: &mut Vec<TurnEvent>) {
        self.has_said |= !text.is_empty();
        push_text(TurnEvent::Text, text, out);
    }

    /// Thinking comes in one of two fields, sometimes in both at once, and sometimes with details that must go back.
    fn thinking(&mut self, delta: &Value, out: &mut Vec<TurnEvent>) {
        let found = ["reasoning_content", "reasoning"].into_iter().find_map(|field| Some((field, word(delta, field)?)));
        let details = delta.get("reasoning_details").and_then(Value::as_array);
        if let Some((field, text)) = found {
            self.thinking_field.get_or_insert(field);
            push_text(TurnEvent::Reasoning, text, out);
        } else if let Some(details) = details {
            let text: String =
                details.iter().filter_map(|detail| word(detail, "text").or_else(|| word(detail, "summary"))).collect();
            push_text(TurnEvent::Reasoning, &text, out);
        }
        for detail in details.into_iter().flatten() {
            merge_detail(&mut self.thinking_details, detail);
        }
    }

    fn call(&mut self, piece: &Value, position: usize, siblings: usize, out: &mut Vec<TurnEvent>) {
        let none = Value::Null;
        let function = piece.get("function").or_else(|| piece.get("custom")).unwrap_or(&none);
        let (id, name) = (word(piece, "id"), word(function, "name"));
        let arguments = match function.get("arguments").or_else(|| function.get("input")) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(value) => value.to_string(),
        };
        let index = piece.get("index").and_then(number);
        let found = match index {
            Some(index) => self.by_index(index, id, name, &arguments),
            None => self.by_identity(id, name, &arguments, position, siblings),
        };
        let place = match found {
            Some(place) => place,
            None if id.is_none() && name.is_none() && arguments.is_empty() => return,
            None => {
                self.calls.push(OpenCall { wire_index: index, ..OpenCall::default() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[place];
        let mut delta =
            CallDelta { index: SAID + 1 + u32::try_from(place).unwrap_or(u32::MAX - 1), ..CallDelta::default() };
        if let (None, Some(id)) = (&call.id, id) {
            call.id = Some(id.to_owned());
            delta.provider_id = Some(id.to_owned());
        }
        if let (None, Some(name)) = (&call.name, name) {
            call.name = Some(name.to_owned());
            delta.name = Some(self.names.original(name).as_str().to_owned());
        }
        // A server that repeats the whole object adds nothing.
        if !(function.get("arguments").is_some_and(Value::is_object) && call.arguments == arguments) {
            call.arguments.push_str(&arguments);
            delta.arguments = arguments;
        }
        let beyond = Map::from_iter(
            piece
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(key, value)| {
                    !matches!(key.as_str(), "index" | "id" | "type" | "function" | "custom") && !value.is_null()
                })
                .map(|(key, value)| (key.clone(), value.clone())),
        );
        if !beyond.is_empty() {
            let native = Native { provider: self.provider.clone(), value: Value::Object(beyond) };
            delta.native = Some(native);
        }
        out.push(TurnEvent::Call(delta));
    }

    /// The open call that a piece with this index goes on. The same index with another id and a name is a new call, as is
    /// one with a name after arguments that are whole.
    fn by_index(&self, index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) -> Option<usize> {
        let place = self.calls.iter().rposition(|call| call.wire_index == Some(index))?;
        let call = &self.calls[place];
        let is_other = match (id, &call.id) {
            (Some(id), Some(known)) => id != known && name.is_some(),
            (Some(_), None) | (None, _) => {
                name.is_some() && call.name.is_some() && !arguments.is_empty() && call.is_whole()
            }
        };
        (!is_other).then_some(place)
    }

    /// The open call that a piece without an index goes on: the one with its id; without an id and a name the last one, or
    /// the one at the same position of several; a name opens a new call unless it only repeats that of an unfinished one.
    fn by_identity(
        &self,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
        position: usize,
        siblings: usize,
    ) -> Option<usize> {
        if let Some(id) = id {
            return self.calls.iter().rposition(|call| call.id.as_deref() == Some(id));
        }
        let last = self.calls.len().checked_sub(1)?;
        let place =
            if siblings > 1 && siblings <= self.calls.len() { self.calls.len() - siblings + position } else { last };
        match name {
            None => Some(place),
            Some(name) => {
                let call = &self.calls[place];
                let repeats = call.name.as_deref() == Some(name) && !call.is_whole() && !arguments.starts_with('{');
                repeats.then_some(place)
            }
        }
    }

    fn end(&mut self, out: &mut Vec<TurnEvent>) {
        if self.is_done {
            return;
        }
        let Some(stop) = self.stop.clone() else {
            let said = if self.is_started { "the answer ended before its end marker" } else { "the answer is empty" };
            return self.fail(ErrorKind::Interrupted, format!("{said}; what arrived is partial"), out);
        };
        self.is_done = true;
        if self.thinking_field.is_some() || !self.thinking_details.is_empty() {
            let mut value = Map::new();
            if let Some(field) = self.thinking_field {
                value.insert("field".into(), field.into());
            }
            if !self.thinking_details.is_empty() {
                value.insert("details".into(), std::mem::take(&mut self.thinking_details).into());
            }
            let native = Native { provider: self.provider.clone(), value: value.into() };
            out.push(TurnEvent::ReasoningState(ReasoningState { index: SAID, native }));
        }
        out.push(TurnEvent::Finished(TurnFinished::new(stop)));
    }

    fn fail(&mut self, kind: ErrorKind, message: String, out: &mut Vec<TurnEvent>) {
        self.fail_with(ProviderError::new(kind, self.provider.clone(), message), out);
    }

    fn fail_with(&mut self, error: ProviderError, out: &mut Vec<TurnEvent>) {
        if !std::mem::replace(&mut self.is_done, true) {
            out.push(TurnEvent::Failed(Box::new(error)));
        }
    }
}

fn push_text(event: fn(TextDelta) -> TurnEvent, text: &str, out: &mut Vec<TurnEvent>) {
    if !text.is_empty() {
        out.push(event(TextDelta { index: SAID, text: text.to_owned() }));
    }
}

/// A whole number, also where it came as a text.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
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

impl RawUsage {
    /// Takes over what is given; the last value of a field counts. Whether anything was.
    fn update(&mut self, usage: &Map<String, Value>) -> bool {
        let details = |key: &str, field: &str| usage.get(key).and_then(|details| details.get(field)).and_then(number);
        let plain = |key: &str| usage.get(key).and_then(number);
        let given = [
            (&mut self.prompt, plain("prompt_tokens")),
            (&mut self.completion, plain("completion_tokens")),
            (&mut self.total, plain("total_tokens")),
            (
                &mut self.cached,
                details("prompt_tokens_details", "cached_tokens").or_else(|| plain("prompt_cache_hit_tokens")),
            ),
            (&mut self.cache_write, details("prompt_tokens_details", "cache_write_tokens")),
            (
                &mut self.reasoning,
                details("completion_tokens_details", "reasoning_tokens").or_else(|| plain("reasoning_tokens")),
            ),
        ];
        let mut has_any = false;
        for (field, value) in given {
            has_any |= value.is_some();
            *field = value.or(*field);
        }
        has_any
    }

    /// The disjoint counters. Cached input is within the prompt; reasoning is within the completion, but for servers whose
    /// total shows that they count it beside.
    fn counted(&self) -> Usage {
        let (prompt, completion) = (self.prompt.unwrap_or(0), self.completion.unwrap_or(0));
        let (cache_read, cache_write) = (self.cached.unwrap_or(0), self.cache_write.unwrap_or(0));
        let reasoning = self.reasoning.unwrap_or(0);
        let is_beside =
            reasoning > 0 && self.total == Some(prompt.saturating_add(completion).saturating_add(reasoning));
        Usage {
            input: prompt.saturating_sub(cache_read).saturating_sub(cache_write),
            cache_read,
            cache_write,
            cache_write_long: 0,
            output: if is_beside { completion.saturating_add(reasoning) } else { completion.max(reasoning) },
            reasoning,
            ..Usage::default()
        }
    }
}
