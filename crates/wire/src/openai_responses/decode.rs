//! From what a Responses server answers to turn events.

use super::order::Order;
use super::parts::{call_native, message_head, text_native, thought_at, whole_body, word};
use super::write;
use crate::failure::{RAW_BYTES, cut, decode_error_value};
use crate::names::Names;
use crate::reading::{Reading, event_decoder, read_json};
use placet_core::part::Native;
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnStarted, WholeItem};
use placet_core::{ErrorKind, ItemBody, Message, Part, ProviderError, ProviderId, Role, TurnEvent, Unknown};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// How many parts of one item have places of their own.
pub(super) const PARTS: u64 = 256;

event_decoder! {
    /// Reads the stream of one answer: bytes in, events out. Unknown events are handed on as [`TurnEvent::Unknown`], unknown items
    /// and parts as native ones.
    ///
    /// The answer is finished with `response.completed` or `response.incomplete`; a stream that ends without was interrupted.
    /// After [`TurnEvent::Finished`] or [`TurnEvent::Failed`] nothing more is given.
    Answer
}

impl EventDecoder {
    pub(super) fn new(provider: ProviderId, names: Names, is_stateful: bool) -> Self {
        EventDecoder::of(Answer::new(provider, names, is_stateful))
    }

    /// Where the stream of a background answer can be taken up again: the answer's id and the number of the last event, for
    /// `starting_after`. `None` where the server numbers nothing.
    #[must_use]
    pub fn resume_point(&self) -> Option<(&str, u64)> {
        Some((self.answer.response_id.as_deref()?, self.answer.sequence?))
    }
}

/// An answer that is not there yet: it was asked for in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// By which id to ask for it (`GET /v1/responses/{id}`).
    pub id: String,
    /// `queued` or `in_progress`.
    pub status: String,
}

/// Whether a body is an answer that is not there yet. It is to be asked for again; [`decode_response`] gives no end for it.
#[must_use]
pub fn pending(body: &[u8]) -> Option<Pending> {
    #[derive(Deserialize)]
    struct Head {
        id: String,
        status: String,
    }
    let head: Head = serde_json::from_slice(body).ok()?;
    matches!(head.status.as_str(), "queued" | "in_progress").then_some(Pending { id: head.id, status: head.status })
}

/// Reads an answer that came whole. One that is not there yet (see [`pending`]) gives what it holds and no end.
///
/// # Errors
/// [`ProviderError`] where it is an error in spite of its status, or no answer of this protocol.
pub fn decode_response(provider: &ProviderId, names: Names, body: &[u8]) -> Result<Vec<TurnEvent>, ProviderError> {
    let value = read_json(provider, NOT_JSON, body)?;
    let is_set = |key: &str| value.get(key).is_some_and(|value| !value.is_null());
    let status = value.get("status").and_then(Value::as_str).unwrap_or("completed").to_owned();
    if is_set("error") && status != "failed" {
        return Err(decode_error_value(provider, &value));
    }
    if !value.get("output").is_some_and(Value::is_array) && matches!(status.as_str(), "completed" | "incomplete") {
        let mut error = ProviderError::new(
            ErrorKind::Protocol,
            provider.clone(),
            "the answer holds no output; expected a response with `output`",
        );
        error.raw = Some(cut(&value.to_string(), RAW_BYTES));
        return Err(error);
    }
    let mut answer = Answer::new(provider.clone(), names, true);
    let mut events = Vec::new();
    if matches!(status.as_str(), "queued" | "in_progress") {
        answer.start(&value, &mut events);
        answer.output(&value, &mut events);
        answer.usage(&value, &mut events);
        return Ok(events);
    }
    answer.terminal(&status, &value, &mut events);
    match events.pop_if(|event| matches!(event, TurnEvent::Failed(_))) {
        Some(TurnEvent::Failed(error)) => Err(*error),
        _ => Ok(events),
    }
}

/// What to do where an answer is not JSON.
const NOT_JSON: &str = "check that the base URL points to an API that serves /v1/responses; it usually ends with /v1";

/// A piece of something: what nearly all events are. The rest is read as a whole.
#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    output_index: Option<u64>,
    content_index: Option<u64>,
    summary_index: Option<u64>,
    sequence_number: Option<u64>,
    delta: Option<String>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<Cow<'a, str>>,
}

/// Events that say nothing that their item does not say, too.
const REPEATED: [&str; 11] = [
    "response.content_part.",
    "response.reasoning_summary_part.",
    "response.output_text.annotation.",
    "response.web_search_call",
    "response.file_search_call",
    "response.code_interpreter_call",
    "response.image_generation_call",
    "response.mcp_",
    "response.shell_call",
    "response.apply_patch_call",
    "response.compaction",
];

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) provider: ProviderId,
    pub(super) names: Names,
    pub(super) is_stateful: bool,
    pub(super) is_started: bool,
    pub(super) is_whole: bool,
    pub(super) is_done: bool,
    pub(super) has_done_items: bool,
    pub(super) has_calls: bool,
    pub(super) has_refused: bool,
    pub(super) response_id: Option<String>,
    pub(super) sequence: Option<u64>,
    /// By output index: ids of items may change on the way.
    pub(super) items: BTreeMap<u64, OpenItem>,
    pub(super) last: u64,
    pub(super) searches: u64,
    pub(super) order: Order,
}

#[derive(Debug, Default)]
pub(super) struct OpenItem {
    pub(super) is_done: bool,
    pub(super) id: Option<String>,
    pub(super) head: Map<String, Value>,
    pub(super) said: BTreeMap<u64, Said>,
    pub(super) thought: Option<Thought>,
    call: Option<OpenCall>,
}

/// How much of a part has been handed on, in bytes.
#[derive(Debug, Default)]
pub(super) struct Said {
    text: usize,
    refusal: usize,
    pub(super) state: Option<Native>,
}

/// How much thinking has been handed on. It may come twice, as a summary and in full: what comes first counts.
#[derive(Debug)]
pub(super) struct Thought {
    field: &'static str,
    part: u64,
    sent: usize,
    /// Its parts, where it comes in full.
    pub(super) said: Vec<String>,
    /// What was told of it before its end.
    pub(super) told: Option<Value>,
}

#[derive(Debug, Default)]
struct OpenCall {
    is_custom: bool,
    is_closed: bool,
    has_name: bool,
    has_id: bool,
    native: Option<Native>,
    /// How much of the arguments (of a custom tool: of its input) has been handed on, in bytes.
    sent: usize,
}

impl Answer {
    fn new(provider: ProviderId, names: Names, is_stateful: bool) -> Self {
        Answer {
            provider,
            names,
            is_stateful,
            is_started: false,
            is_whole: false,
            is_done: false,
            has_done_items: false,
            has_calls: false,
            has_refused: false,
            response_id: None,
            sequence: None,
            items: BTreeMap::new(),
            last: 0,
            searches: 0,
            order: Order::default(),
        }
    }

    /// Takes a piece, or what only repeats pieces; whether it was one.
    fn piece(&mut self, piece: Piece<'_>, out: &mut Vec<TurnEvent>) -> bool {
        let index = piece.output_index.unwrap_or(self.last);
        let part = piece.content_index.unwrap_or(0);
        match (&*piece.kind, piece.delta) {
            ("response.output_text.delta", Some(delta)) => self.text(index, part, delta, out),
            ("response.refusal.delta", Some(delta)) => self.refusal(index, part, delta, out),
            ("response.reasoning_summary_text.delta" | "response.reasoning_summary.delta", Some(delta)) => {
                self.think(index, "summary", piece.summary_index.unwrap_or(0), delta, out);
            }
            ("response.reasoning_text.delta" | "response.reasoning.delta", Some(delta)) => {
                self.think(index, "content", part, delta, out);
            }
            ("response.function_call_arguments.delta", Some(delta)) => self.arguments(index, false, delta, out),
            ("response.custom_tool_call_input.delta", Some(delta)) => self.arguments(index, true, delta, out),
            (_, Some(_)) => return false,
            // What follows closes a place and opens none.
            ("response.output_text.done", None) => match piece.text {
                Some(text) => {
                    self.text_to(index, part, &text, out);
                    return true;
                }
                None => return false,
            },
            ("response.function_call_arguments.done", None) => match piece.arguments {
                Some(arguments) => {
                    self.arguments_to(index, false, &arguments, out);
                    return true;
                }
                None => return false,
            },
            ("response.reasoning_summary_text.done" | "response.reasoning_text.done", None) => return true,
            ("response.content_part.done", None) => return false,
            (kind, None) => return REPEATED.iter().any(|known| kind.starts_with(known)),
        }
        self.last = index;
        true
    }

    fn whole(&mut self, kind: &str, map: Map<String, Value>, out: &mut Vec<TurnEvent>) {
        let number = |key: &str| map.get(key).and_then(Value::as_u64);
        let index = number("output_index").unwrap_or(self.last);
        let part = number("content_index").unwrap_or(0);
        let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
        let none = Value::Null;
        match kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                self.start(map.get("response").unwrap_or(&none), out);
            }
            "response.output_item.added" => {
                if let Some(Value::Object(item)) = map.get("item") {
                    self.last = index;
                    self.added(index, item, out);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = map.get("item") {
                    self.last = index;
                    self.has_done_items = true;
                    self.done(index, item, out);
                }
            }
            "response.output_text.done" => self.text_to(index, part, text("text"), out),
            "response.refusal.done" => self.refusal_to(index, part, text("refusal"), out),
            "response.function_call_arguments.done" => self.arguments_to(index, false, text("arguments"), out),
            "response.custom_tool_call_input.done" => self.arguments_to(index, true, text("input"), out),
            "response.content_part.done" => {
                if let Some(Value::Object(said)) = map.get("part") {
                    self.part_done(index, part, said, out);
                }
            }
            // The item says it in one.
            "response.reasoning_summary_text.done" | "response.reasoning_text.done" => {}
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                let status = kind.trim_start_matches("response.");
                self.terminal(status, map.get("response").unwrap_or(&none), out);
            }
            "error" => self.error(&Value::Object(map), out),
            "" | "keepalive" | "ping" if map.get("error").is_none_or(Value::is_null) => {}
            _ if !kind.starts_with("response.") && map.get("error").is_some_and(|error| !error.is_null()) => {
                self.error(&Value::Object(map), out);
            }
            _ if REPEATED.iter().any(|known| kind.starts_with(known)) => {}
            _ if kind.starts_with("response.") => out.push(TurnEvent::Unknown(Unknown(map))),
            _ => {}
        }
    }

    pub(super) fn start(&mut self, response: &Value, out: &mut Vec<TurnEvent>) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        let text = |key: &str| response.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        self.response_id = text("id").map(str::to_owned);
        let model = text("model").map(str::to_owned);
        out.push(TurnEvent::Started(TurnStarted { model, response_id: self.response_id.clone() }));
    }

    fn text(&mut self, index: u64, part: u64, text: String, out: &mut Vec<TurnEvent>) {
        if text.is_empty() {
            return;
        }
        let item = self.items.entry(index).or_default();
        let said = item.said.entry(part).or_default();
        // Who writes this on has to know the message's id before its first piece.
        if said.text == 0
            && !item.head.is_empty()
            && let Some(native) = text_native(&self.provider, &item.head, &Map::new())
        {
            said.state = Some(native.clone());
            out.push(TurnEvent::TextState(ReasoningState { index: place(index, part), native }));
        }
        said.text += text.len();
        out.push(TurnEvent::Text(TextDelta { index: place(index, part), text }));
    }

    fn refusal(&mut self, index: u64, part: u64, text: String, out: &mut Vec<TurnEvent>) {
        if text.is_empty() {
            return;
        }
        self.has_refused = true;
        self.items.entry(index).or_default().said.entry(part).or_default().refusal += text.len();
        out.push(TurnEvent::Refusal(TextDelta { index: place(index, part), text }));
    }

    /// What is missing of a text that is known whole by now.
    pub(super) fn text_to(&mut self, index: u64, part: u64, whole: &str, out: &mut Vec<TurnEvent>) {
        let sent = self.items.get(&index).and_then(|item| item.said.get(&part)).map_or(0, |said| said.text);
        self.text(index, part, missing(whole, sent), out);
    }

    fn refusal_to(&mut self, index: u64, part: u64, whole: &str, out: &mut Vec<TurnEvent>) {
        let sent = self.items.get(&index).and_then(|item| item.said.get(&part)).map_or(0, |said| said.refusal);
        self.refusal(index, part, missing(whole, sent), out);
    }

    fn think(&mut self, index: u64, field: &'static str, part: u64, text: String, out: &mut Vec<TurnEvent>) {
        if text.is_empty() {
            return;
        }
        let item = self.items.entry(index).or_default();
        let thought = item.thought.get_or_insert(Thought { field, part, sent: 0, said: Vec::new(), told: None });
        if thought.field != field {
            return;
        }
        let is_next = std::mem::replace(&mut thought.part, part) != part && thought.sent > 0;
        if field == "content" {
            match thought.said.last_mut().filter(|_| !is_next) {
                Some(said) => said.push_str(&text),
                None => thought.said.push(text.clone()),
            }
        }
        let text = if is_next { format!("\n\n{text}") } else { text };
        thought.sent += text.len();
        out.push(TurnEvent::Reasoning(TextDelta { index: place(index, 0), text }));
    }

    fn added(&mut self, index: u64, item: &Map<String, Value>, out: &mut Vec<TurnEvent>) {
        let open = self.items.entry(index).or_default();
        open.id = word(item, "id").map(str::to_owned);
        match word(item, "type") {
            Some("message") => open.head = message_head(item),
            Some("reasoning") => open.head = item.clone(),
            Some("function_call" | "custom_tool_call") => self.call(index, item, out),
            _ => {}
        }
    }

    pub(super) fn done(&mut self, index: u64, item: &Value, out: &mut Vec<TurnEvent>) {
        let none = Map::new();
        let map = item.as_object().unwrap_or(&none);
        if std::mem::replace(&mut self.items.entry(index).or_default().is_done, true) {
            return;
        }
        match word(map, "type").or_else(|| map.contains_key("role").then_some("message")) {
            Some("message") => self.message(index, map, out),
            Some("reasoning") => {
                let thought = self.items.get(&index).and_then(|item| item.thought.as_ref());
                let has = |field: &str| !thought_at(map, field).is_empty();
                let field = thought.map(|thought| thought.field).filter(|field| has(field));
                let field = field.unwrap_or(if has("summary") { "summary" } else { "content" });
                let sent = thought.filter(|thought| thought.field == field).map_or(0, |thought| thought.sent);
                let part = thought.map_or(0, |thought| thought.part);
                let rest = missing(&thought_at(map, field), sent);
                self.think(index, field, part, rest, out);
                let thought = self.items.get(&index).and_then(|item| item.thought.as_ref());
                if thought.is_some_and(|thought| thought.told.as_ref() == Some(item)) {
                    return;
                }
                let native = Native { provider: self.provider.clone(), value: item.clone() };
                out.push(TurnEvent::ReasoningState(ReasoningState { index: place(index, 0), native }));
            }
            Some(kind @ ("function_call" | "custom_tool_call")) => {
                let is_custom = kind == "custom_tool_call";
                self.call(index, map, out);
                let whole = match map.get(if is_custom { "input" } else { "arguments" }) {
                    Some(Value::String(text)) => Cow::Borrowed(text.as_str()),
                    None | Some(Value::Null) => Cow::Borrowed(""),
                    Some(other) => Cow::Owned(other.to_string()),
                };
                self.arguments_to(index, is_custom, &whole, out);
                self.close_call(index, out);
            }
            kind => {
                if kind == Some("web_search_call") {
                    self.searches += 1;
                }
                let body = whole_body(&self.provider, item);
                out.push(TurnEvent::Whole(Box::new(WholeItem { index: place(index, 0), body })));
            }
        }
    }

    fn message(&mut self, index: u64, item: &Map<String, Value>, out: &mut Vec<TurnEvent>) {
        let head = message_head(item);
        let content = item.get("content");
        if let Some(Value::String(text)) = content {
            self.text_to(index, 0, text, out);
        }
        for (i, part) in content.and_then(Value::as_array).into_iter().flatten().enumerate() {
            let i = i as u64;
            let none = Map::new();
            let map = part.as_object().unwrap_or(&none);
            let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
            match word(map, "type") {
                Some("output_text" | "text") => {
                    self.text_to(index, i, text("text"), out);
                    self.text_state(index, i, &head, map, out);
                }
                Some("refusal") => self.refusal_to(index, i, text("refusal"), out),
                _ => {
                    let part = Part::Native(Native { provider: self.provider.clone(), value: part.clone() });
                    let body = ItemBody::Message(Message { role: Role::Assistant, parts: vec![part], native: None });
                    out.push(TurnEvent::Whole(Box::new(WholeItem { index: place(index, i), body })));
                }
            }
        }
    }

    /// What an item says of a call, as far as that is new.
    fn call(&mut self, index: u64, item: &Map<String, Value>, out: &mut Vec<TurnEvent>) {
        self.has_calls = true;
        let native = call_native(&self.provider, item);
        let call = self.items.entry(index).or_default().call.get_or_insert_default();
        call.is_custom |= word(item, "type") == Some("custom_tool_call");
        let mut delta = CallDelta { index: place(index, 0), ..CallDelta::default() };
        if let Some(id) = word(item, "call_id").filter(|_| !call.has_id) {
            call.has_id = true;
            delta.provider_id = Some(id.to_owned());
        }
        if let Some(name) = word(item, "name").filter(|_| !call.has_name) {
            call.has_name = true;
            delta.name = Some(self.names.original_in(word(item, "namespace"), name).as_str().to_owned());
        }
        if native.is_some() && native != call.native {
            call.native.clone_from(&native);
            delta.native = native;
        }
        if delta.provider_id.is_some() || delta.name.is_some() || delta.native.is_some() {
            out.push(TurnEvent::Call(delta));
        }
    }

    fn arguments(&mut self, index: u64, is_custom: bool, piece: String, out: &mut Vec<TurnEvent>) {
        if piece.is_empty() {
            return;
        }
        self.has_calls = true;
        let call = self.items.entry(index).or_default().call.get_or_insert_default();
        call.is_custom |= is_custom;
        let opens = if call.sent == 0 { INPUT_OPENS } else { "" };
        call.sent += piece.len();
        let arguments = if call.is_custom { format!("{opens}{}", inner_json(&piece)) } else { piece };
        out.push(TurnEvent::Call(CallDelta { index: place(index, 0), arguments, ..CallDelta::default() }));
    }

    fn arguments_to(&mut self, index: u64, is_custom: bool, whole: &str, out: &mut Vec<TurnEvent>) {
        let call = self.items.get(&index).and_then(|item| item.call.as_ref());
        let rest = missing(whole, call.map_or(0, |call| call.sent));
        self.arguments(index, is_custom, rest, out);
    }

    /// The input of a custom tool is whole: so is the text that it became.
    fn close_call(&mut self, index: u64, out: &mut Vec<TurnEvent>) {
        let Some(call) = self.items.get_mut(&index).and_then(|item| item.call.as_mut()) else { return };
        if !call.is_custom || std::mem::replace(&mut call.is_closed, true) {
            return;
        }
        let opens = if call.sent == 0 { INPUT_OPENS } else { "" };
        let arguments = format!("{opens}{INPUT_CLOSES}");
        out.push(TurnEvent::Call(CallDelta { index: place(index, 0), arguments, ..CallDelta::default() }));
    }

    pub(super) fn error(&mut self, value: &Value, out: &mut Vec<TurnEvent>) {
        let error = decode_error_value(&self.provider, value);
        self.fail_with(error, out);
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
        let name = name.unwrap_or_default();
        let from = out.len();
        if let Ok(mut piece) = serde_json::from_str::<Piece<'_>>(data) {
            if piece.kind.is_empty() {
                piece.kind = Cow::Borrowed(name);
            }
            self.sequence = piece.sequence_number.or(self.sequence);
            if self.piece(piece, out) {
                self.arrange(from, out);
                return Ok(());
            }
        }
        if let Value::Object(map) = serde_json::from_str::<Value>(data)? {
            let kind = word(&map, "type").unwrap_or(name).to_owned();
            self.sequence = map.get("sequence_number").and_then(Value::as_u64).or(self.sequence);
            let ended = self.ended(&kind, &map);
            self.whole(&kind, map, out);
            self.arrange(from, out);
            if let Some(places) = ended {
                self.order.end(places, out);
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<TurnEvent>) {
        let from = out.len();
        self.broke_off(out);
        self.arrange(from, out);
    }

    fn is_whole(&self) -> bool {
        self.is_whole
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn set_done(&mut self) {
        self.is_done = true;
    }
}

/// What the input of a custom tool is written between: an object with one text, the argument that any provider understands.
pub(super) const INPUT_OPENS: &str = "{\"input\":\"";
const INPUT_CLOSES: &str = "\"}";

pub(super) fn place(index: u64, part: u64) -> u32 {
    let index = index.min(u64::from(u32::MAX) / PARTS - 1);
    u32::try_from(index * PARTS + part.min(PARTS - 1)).unwrap_or(u32::MAX)
}

/// What of `whole` comes after its first `sent` bytes.
fn missing(whole: &str, sent: usize) -> String {
    whole.get(sent..).unwrap_or_default().to_owned()
}

/// A text as it stands between the quotes of a JSON text.
fn inner_json(text: &str) -> String {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    write::value(&mut quoted, text);
    let quoted = String::from_utf8(quoted).unwrap_or_default();
    quoted[1..quoted.len().saturating_sub(1)].to_owned()
}
