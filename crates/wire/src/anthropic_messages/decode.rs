//! From what a Messages server answers to turn events.

use super::answer::{WireUsage, is_hosted_block, stop_reason};
use crate::failure::{RAW_BYTES, cut, decode_error_value};
use crate::names::Names;
use crate::reading::{Reading, event_decoder, read_json};
use placet_core::item::HostedCall;
use placet_core::part::Native;
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnFinished, TurnStarted, WholeItem};
use placet_core::{ErrorKind, ItemBody, ProviderError, ProviderId, ProviderState, StopReason, TurnEvent};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// What a text stands under that should have been a JSON object and is none, so that it can go back in an object's place.
pub(super) const INVALID_JSON: &str = "INVALID_JSON";

event_decoder! {
    /// Reads the stream of one answer: bytes in, events out. Unknown blocks are kept whole; unknown events and deltas are kept
    /// with the end of the answer.
    ///
    /// The answer is finished with `message_stop`, or with a stop reason and then the end of the stream; a stream that ends without
    /// either was interrupted. After [`TurnEvent::Finished`] or [`TurnEvent::Failed`] nothing more is given.
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
    if is_error(&value) {
        return Err(told_error(provider, &value));
    }
    let mut answer = Answer::new(provider.clone(), names);
    let mut events = Vec::new();
    let Value::Object(message) = value else { return Err(no_message(provider, &value)) };
    let Some(Value::Array(content)) = message.get("content") else {
        return Err(no_message(provider, &Value::Object(message)));
    };
    answer.start(&message, &mut events);
    for (index, block) in content.iter().enumerate() {
        answer.open(index as u64, block.clone(), &mut events);
        answer.close(index as u64, &mut events);
    }
    answer.told(message.get("stop_reason"));
    let beside = message.into_iter().filter(|(key, _)| {
        !matches!(key.as_str(), "id" | "type" | "role" | "model" | "content" | "usage" | "stop_reason")
    });
    answer.keep(beside);
    // A whole body is not cut, so a missing stop reason is only a forgotten one.
    answer.stop.get_or_insert(StopReason::End);
    answer.end(&mut events);
    Ok(events)
}

fn no_message(provider: &ProviderId, value: &Value) -> ProviderError {
    let problem = "the answer is no message; expected an object with `content`";
    let mut error = ProviderError::new(ErrorKind::Protocol, provider.clone(), problem);
    error.raw = Some(cut(&value.to_string(), RAW_BYTES));
    error
}

/// What to do where an answer is not JSON.
pub(super) const NOT_JSON: &str =
    "check that the base URL points to an API of Anthropic's protocol; it usually ends before /v1/messages";

/// Whether a value is an error: of this protocol, or of something in between that speaks another.
fn is_error(value: &Value) -> bool {
    let has_error = value.get("error").is_some_and(|error| !error.is_null());
    word(value, "type") == Some("error") || (has_error && !value.get("content").is_some_and(Value::is_array))
}

fn told_error(provider: &ProviderId, value: &Value) -> ProviderError {
    let mut error = decode_error_value(provider, value);
    error.request_id = word(value, "request_id").map(str::to_owned);
    error
}

/// The text at `key`; an empty one is taken for an absent one.
fn word<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The event of which there are most, read without a tree.
#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    index: u64,
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    text: Option<String>,
    thinking: Option<String>,
    partial_json: Option<String>,
    signature: Option<String>,
}

/// A block that has begun and not ended.
#[derive(Debug)]
struct Block {
    wire_index: u64,
    place: u32,
    kind: BlockKind,
    /// Its fields, but for those that became events.
    fields: Map<String, Value>,
    /// The pieces of its `input` so far.
    input: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
    RedactedThinking,
    ToolUse,
    /// A hosted tool's, or one that has no name of ours.
    Whole,
}

#[derive(Debug)]
struct Answer {
    provider: ProviderId,
    names: Names,
    is_started: bool,
    is_done: bool,
    stop: Option<StopReason>,
    usage: WireUsage,
    open: Vec<Block>,
    places: u32,
    /// What only the provider understands of the answer as a whole.
    beside: Map<String, Value>,
    unknown: Vec<Value>,
}

impl Answer {
    fn new(provider: ProviderId, names: Names) -> Self {
        Answer {
            provider,
            names,
            is_started: false,
            is_done: false,
            stop: None,
            usage: WireUsage::default(),
            open: Vec::new(),
            places: 0,
            beside: Map::new(),
            unknown: Vec::new(),
        }
    }

    fn native(&self, value: impl Into<Value>) -> Native {
        Native { provider: self.provider.clone(), value: value.into() }
    }

    fn value(&mut self, mut value: Value, out: &mut Vec<TurnEvent>) {
        if is_error(&value) {
            let error = told_error(&self.provider, &value);
            return self.fail_with(error, out);
        }
        let index = value.get("index").and_then(Value::as_u64);
        match word(&value, "type") {
            Some("message_start") => {
                // The beginning of another answer: the one so far was given up.
                if self.places > 0 {
                    let problem = "a second answer began within the first; what arrived is partial".to_owned();
                    return self.fail(ErrorKind::Interrupted, problem, out);
                }
                if let Some(Value::Object(message)) = value.get("message") {
                    self.start(message, out);
                }
            }
            Some("content_block_start") => {
                let block = value.get_mut("content_block").map(Value::take).unwrap_or_default();
                self.open(index.unwrap_or(u64::from(self.places)), block, out);
            }
            Some("content_block_delta") => {
                let delta = value.get_mut("delta").map(Value::take).unwrap_or_default();
                let index = index.or(self.open.last().map(|block| block.wire_index)).unwrap_or_default();
                self.other_delta(index, delta, out);
            }
            Some("content_block_stop") => {
                if let Some(index) = index.or(self.open.last().map(|block| block.wire_index)) {
                    self.close(index, out);
                }
            }
            Some("message_delta") => {
                let Value::Object(mut object) = value else { return };
                if let Some(Value::Object(usage)) = object.remove("usage") {
                    self.used(&usage, out);
                }
                if let Some(Value::Object(mut delta)) = object.remove("delta") {
                    self.told(delta.remove("stop_reason").as_ref());
                    self.keep(delta);
                }
                object.remove("type");
                self.keep(object);
            }
            Some("message_stop") => {
                self.stop.get_or_insert(StopReason::End);
                self.end(out);
            }
            Some("ping") | None => {}
            Some(_) => self.unknown.push(value),
        }
    }

    fn start(&mut self, message: &Map<String, Value>, out: &mut Vec<TurnEvent>) {
        let text =
            |key: &str| message.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        if !std::mem::replace(&mut self.is_started, true) {
            out.push(TurnEvent::Started(TurnStarted { model: text("model"), response_id: text("id") }));
        }
        if let Some(Value::Object(usage)) = message.get("usage") {
            self.used(usage, out);
        }
        for key in ["container", "context_management", "diagnostics"] {
            if let Some(value) = message.get(key) {
                self.keep([(key.to_owned(), value.clone())]);
            }
        }
    }

    fn used(&mut self, usage: &Map<String, Value>, out: &mut Vec<TurnEvent>) {
        if self.usage.update(usage) {
            out.push(TurnEvent::Usage(self.usage.counted()));
        }
    }

    /// Why the answer ended, as the provider says.
    fn told(&mut self, reason: Option<&Value>) {
        let Some(reason) = reason.and_then(Value::as_str).filter(|reason| !reason.is_empty()) else { return };
        let (stop, is_exact) = stop_reason(reason);
        self.stop = Some(stop);
        if !is_exact {
            self.beside.insert("stop_reason".into(), reason.into());
        }
    }

    fn keep(&mut self, fields: impl IntoIterator<Item = (String, Value)>) {
        self.beside.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
    }

    fn open(&mut self, wire_index: u64, block: Value, out: &mut Vec<TurnEvent>) {
        self.close(wire_index, out);
        let Value::Object(mut fields) = block else {
            self.unknown.push(json!({"content_block": block}));
            return;
        };
        let place = self.places;
        self.places += 1;
        let kind = match fields.get("type").and_then(Value::as_str) {
            Some("text") => BlockKind::Text,
            Some("thinking") => BlockKind::Thinking,
            Some("redacted_thinking") => BlockKind::RedactedThinking,
            Some("tool_use") => BlockKind::ToolUse,
            _ => BlockKind::Whole,
        };
        let mut taken = |key: &str| match fields.remove(key) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        match kind {
            BlockKind::Text => push_text(TurnEvent::Text, place, taken("text"), out),
            BlockKind::Thinking => push_text(TurnEvent::Reasoning, place, taken("thinking"), out),
            BlockKind::ToolUse => {
                let (id, name) = (taken("id"), taken("name"));
                let given = |text: String| Some(text).filter(|text| !text.is_empty());
                let name = given(name).map(|name| self.names.original(&name).as_str().to_owned());
                let beyond = |(key, value): (&String, &Value)| {
                    (!matches!(key.as_str(), "type" | "input") && !value.is_null())
                        .then(|| (key.clone(), value.clone()))
                };
                let beyond: Map<String, Value> = fields.iter().filter_map(beyond).collect();
                let native = (!beyond.is_empty()).then(|| self.native(beyond));
                let provider_id = given(id);
                out.push(TurnEvent::Call(CallDelta {
                    index: place,
                    provider_id,
                    name,
                    native,
                    ..CallDelta::default()
                }));
            }
            BlockKind::RedactedThinking | BlockKind::Whole => {}
        }
        if matches!(kind, BlockKind::Text | BlockKind::Thinking) {
            fields.remove("type");
            fields.retain(|_, value| !value.is_null());
        }
        self.open.push(Block { wire_index, place, kind, fields, input: String::new() });
    }

    /// The open block with this index. Pieces of one that never began begin one.
    fn block(&mut self, wire_index: u64, kind: &str, out: &mut Vec<TurnEvent>) -> Option<usize> {
        let find = |open: &[Block]| open.iter().rposition(|block| block.wire_index == wire_index);
        if let Some(found) = find(&self.open) {
            return Some(found);
        }
        self.open(wire_index, json!({"type": kind}), out);
        find(&self.open)
    }

    fn delta(&mut self, wire_index: u64, delta: Known, out: &mut Vec<TurnEvent>) {
        let kind = match &delta {
            Known::Text(_) => "text",
            Known::Thinking(_) | Known::Signature(_) => "thinking",
            Known::Input(_) => "tool_use",
        };
        let Some(block) = self.block(wire_index, kind, out).and_then(|found| self.open.get_mut(found)) else { return };
        match (delta, block.kind) {
            (Known::Text(text), BlockKind::Text) => push_text(TurnEvent::Text, block.place, text, out),
            (Known::Thinking(text), BlockKind::Thinking) => push_text(TurnEvent::Reasoning, block.place, text, out),
            (Known::Signature(signature), BlockKind::Thinking) => {
                block.fields.insert("signature".into(), signature.into());
            }
            (Known::Input(piece), BlockKind::ToolUse) => {
                if !piece.is_empty() {
                    // Only whether there was any has to be remembered.
                    if block.input.is_empty() {
                        block.input.push('.');
                    }
                    let delta = CallDelta { index: block.place, arguments: piece, ..CallDelta::default() };
                    out.push(TurnEvent::Call(delta));
                }
            }
            (Known::Input(piece), BlockKind::Whole) => block.input.push_str(&piece),
            // A piece of another sort than its block: what is known of neither is kept.
            (Known::Text(text), _) => merge(&mut block.fields, "text", text.into()),
            (Known::Thinking(text), _) => merge(&mut block.fields, "thinking", text.into()),
            (Known::Signature(text), _) => merge(&mut block.fields, "signature", text.into()),
            (Known::Input(text), _) => merge(&mut block.fields, "input", text.into()),
        }
    }

    fn other_delta(&mut self, wire_index: u64, delta: Value, out: &mut Vec<TurnEvent>) {
        let known_delta = Delta::deserialize(&delta).ok().and_then(known);
        if let Some(known) = known_delta {
            return self.delta(wire_index, known, out);
        }
        let Value::Object(mut fields) = delta else { return };
        let is_citation = fields.get("type").and_then(Value::as_str) == Some("citations_delta");
        let found = self.open.iter().rposition(|block| block.wire_index == wire_index);
        match found.and_then(|found| self.open.get_mut(found)) {
            Some(block) if is_citation => {
                let citation = fields.remove("citation").unwrap_or_default();
                match block.fields.get_mut("citations") {
                    Some(Value::Array(citations)) => citations.push(citation),
                    _ => {
                        block.fields.insert("citations".into(), json!([citation]));
                    }
                }
            }
            Some(block) if block.kind == BlockKind::Whole => {
                for (key, value) in fields.into_iter().filter(|(key, _)| key != "type") {
                    merge(&mut block.fields, &key, value);
                }
            }
            _ => self.unknown.push(json!({"type": "content_block_delta", "index": wire_index, "delta": fields})),
        }
    }

    fn close(&mut self, wire_index: u64, out: &mut Vec<TurnEvent>) {
        if let Some(found) = self.open.iter().rposition(|block| block.wire_index == wire_index) {
            let block = self.open.remove(found);
            self.close_block(block, out);
        }
    }

    fn close_block(&mut self, block: Block, out: &mut Vec<TurnEvent>) {
        let Block { place: index, kind, mut fields, input, .. } = block;
        match kind {
            BlockKind::Text => {
                // A list that holds nothing says nothing.
                fields.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
                if !fields.is_empty() {
                    let native = self.native(fields);
                    out.push(TurnEvent::TextState(ReasoningState { index, native }));
                }
            }
            BlockKind::Thinking => {
                fields.retain(|key, value| key != "signature" || value.as_str() != Some(""));
                if !fields.is_empty() {
                    let native = self.native(fields);
                    out.push(TurnEvent::ReasoningState(ReasoningState { index, native }));
                }
            }
            BlockKind::RedactedThinking => {
                let native = self.native(fields);
                out.push(TurnEvent::ReasoningState(ReasoningState { index, native }));
            }
            BlockKind::ToolUse if input.is_empty() => {
                let arguments = match fields.get("input") {
                    Some(input @ Value::Object(_)) => input.to_string(),
                    Some(Value::String(text)) if !text.is_empty() => text.clone(),
                    _ => "{}".to_owned(),
                };
                out.push(TurnEvent::Call(CallDelta { index, arguments, ..CallDelta::default() }));
            }
            BlockKind::ToolUse => {}
            BlockKind::Whole => {
                if !input.is_empty() {
                    let input = serde_json::from_str(&input).unwrap_or_else(|_| json!({ INVALID_JSON: input }));
                    fields.insert("input".into(), input);
                }
                let body = match fields.get("type").and_then(Value::as_str) {
                    Some(kind) if is_hosted_block(kind) => {
                        let kind = kind.to_owned();
                        HostedCall { provider: self.provider.clone(), kind, value: fields.into() }.into()
                    }
                    _ => ItemBody::Native(self.native(fields)),
                };
                out.push(TurnEvent::Whole(Box::new(WholeItem { index, body })));
            }
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
        if let Ok(piece) = serde_json::from_str::<Piece<'_>>(data)
            && piece.kind == "content_block_delta"
            && let Some(delta) = known(piece.delta)
        {
            self.delta(piece.index, delta, out);
            return Ok(());
        }
        let mut value = serde_json::from_str::<Value>(data)?;
        // Something in between that drops the type may have left the event's name.
        if word(&value, "type").is_none()
            && let (Some(name), Value::Object(object)) = (name, &mut value)
        {
            object.insert("type".into(), name.into());
        }
        self.value(value, out);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<TurnEvent>) {
        if self.is_done {
            return;
        }
        let Some(stop) = self.stop.clone() else {
            return self.broke_off(out);
        };
        for block in std::mem::take(&mut self.open) {
            self.close_block(block, out);
        }
        self.is_done = true;
        let mut finished = TurnFinished::new(stop);
        finished.service_tier = self.usage.tier.take();
        if let Some(id) = self.beside.get("container").and_then(|container| word(container, "id")) {
            let value = json!({"container": id});
            finished.provider_state = Some(ProviderState { provider: self.provider.clone(), value });
        }
        let mut beside = std::mem::take(&mut self.beside);
        let usage = self.usage.take_beyond();
        if !usage.is_empty() {
            beside.insert("usage".into(), usage.into());
        }
        if !self.unknown.is_empty() {
            beside.insert("events".into(), std::mem::take(&mut self.unknown).into());
        }
        finished.native = (!beside.is_empty()).then(|| self.native(beside));
        out.push(TurnEvent::Finished(finished));
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

/// A delta of a sort that becomes an event.
enum Known {
    Text(String),
    Thinking(String),
    Signature(String),
    Input(String),
}

fn known(delta: Delta<'_>) -> Option<Known> {
    match &*delta.kind {
        "text_delta" => delta.text.map(Known::Text),
        "thinking_delta" => delta.thinking.map(Known::Thinking),
        "signature_delta" => delta.signature.map(Known::Signature),
        "input_json_delta" => delta.partial_json.map(Known::Input),
        _ => None,
    }
}

/// Puts a piece of a field to what there is of it: texts grow, of the rest the last counts.
fn merge(fields: &mut Map<String, Value>, key: &str, value: Value) {
    match (fields.get_mut(key), value) {
        (_, Value::Null) => {}
        (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
        (_, value) => {
            fields.insert(key.to_owned(), value);
        }
    }
}

fn push_text(event: fn(TextDelta) -> TurnEvent, index: u32, text: String, out: &mut Vec<TurnEvent>) {
    if !text.is_empty() {
        out.push(event(TextDelta { index, text }));
    }
}
