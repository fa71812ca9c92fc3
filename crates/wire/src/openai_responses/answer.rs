//! From turn events to what a client of this protocol reads.

use super::OWN_ID;
use super::answer_forms::{may_be_absent, part, repeated, usage_form};
use super::failure::response_error;
use super::tools::{ClientTools, custom_input};
use super::write::{List, Object};
use crate::probabilities::of_end;
use crate::request::AnswerHead;
use crate::sse;
use crate::stopped::{self, is_cut_short};
use crate::tiers;
use placet_core::part::Native;
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnFinished};
use placet_core::{Arguments, ErrorKind, ProviderError, StopReason, TurnEvent, Usage};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};

/// Writes the stream of one answer: events in, bytes out, each event whole.
///
/// The answer opens with the first event, and ends with one terminal event: `response.completed`, `response.incomplete`, or
/// `response.failed` where it failed or broke off.
#[derive(Debug)]
pub struct EventEncoder {
    pub(super) head: AnswerHead,
    /// The fields of the answer that repeat the request, as they stand in an object: without braces, after a comma.
    repeated: Vec<u8>,
    tools: ClientTools,
    sequence: u64,
    minted: u64,
    is_started: bool,
    is_done: bool,
    pub(super) items: Vec<OpenItem>,
    /// What they go by.
    pub(super) ids: HashSet<String>,
    /// How likely the pieces of texts were, as another provider says at the end.
    pub(super) pieces: Vec<Value>,
    /// The item of each place that is open.
    open: BTreeMap<(u32, Sort), usize>,
    /// The last item of each place that was closed.
    closed: BTreeMap<(u32, Sort), usize>,
    usage: Option<Usage>,
    /// How many bytes of text stand in the messages that are whole.
    pub(super) said: usize,
    /// The answer as it was last written, for whoever wants it whole.
    pub(super) last: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    Reasoning,
    Text,
    Refusal,
    Call,
    /// An item that came whole.
    Whole,
}

/// An item of the answer; its place in the list is its output index.
#[derive(Debug)]
pub(super) struct OpenItem {
    pub(super) id: String,
    pub(super) sort: Sort,
    pub(super) text: String,
    pub(super) native: Option<Native>,
    pub(super) call_id: String,
    pub(super) name: String,
    /// How much of the arguments has been written, and one more; zero is "not announced".
    pub(super) written: usize,
    /// Whether it is a call of a custom tool, known once it is announced.
    pub(super) is_custom: bool,
    /// The item as it was written whole.
    pub(super) done: Option<Vec<u8>>,
}

impl EventEncoder {
    pub(super) fn new(head: AnswerHead) -> Self {
        let request = head.request.clone();
        EventEncoder {
            repeated: repeated(request.as_deref()),
            tools: ClientTools::of(request.as_deref()),
            head,
            sequence: 0,
            minted: 0,
            is_started: false,
            is_done: false,
            items: Vec::new(),
            ids: HashSet::new(),
            pieces: Vec::new(),
            open: BTreeMap::new(),
            closed: BTreeMap::new(),
            usage: None,
            said: 0,
            last: Vec::new(),
        }
    }

    /// Appends what an event is for the client. What comes after the end is passed over.
    pub fn push(&mut self, event: &TurnEvent, out: &mut Vec<u8>) {
        if self.is_done {
            return;
        }
        match event {
            TurnEvent::Started(_) => self.start(out),
            TurnEvent::Text(delta) => self.said(Sort::Text, delta, out),
            TurnEvent::Refusal(delta) => self.said(Sort::Refusal, delta, out),
            TurnEvent::Reasoning(delta) => self.said(Sort::Reasoning, delta, out),
            TurnEvent::TextState(state) => self.state(Sort::Text, state, out),
            TurnEvent::ReasoningState(state) => self.state(Sort::Reasoning, state, out),
            TurnEvent::Call(delta) => self.call(delta, out),
            TurnEvent::Whole(whole) => self.whole(whole, out),
            TurnEvent::Usage(usage) => self.usage = Some(*usage),
            TurnEvent::Finished(finished) => self.finish(finished, out),
            TurnEvent::Failed(error) => self.fail(error, out),
            _ => {}
        }
    }

    /// The events have ended. Where no end was among them, the answer broke off, and the client is told so.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if !self.is_done {
            let message = "the answer ended before its end marker; what arrived is partial";
            let error = ProviderError::new(ErrorKind::Interrupted, self.head.provider.clone(), message);
            self.fail(&error, out);
        }
    }

    pub(super) fn event(&mut self, kind: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
        numbered(&mut self.sequence, kind, out, write);
    }

    pub(super) fn mint(&mut self, prefix: &str) -> String {
        let own = self.head.id.split_once('_').map_or(self.head.id.as_str(), |(_, rest)| rest);
        let own: String = own.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
        self.minted += 1;
        format!("{prefix}_{OWN_ID}{own}{:02x}", self.minted)
    }

    pub(super) fn start(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        let response = self.response("in_progress", &[], |_| {});
        for kind in ["response.created", "response.in_progress"] {
            self.event(kind, out, |event| event.raw("response", &response));
        }
    }

    /// The answer as an object, with these items and what `more` writes.
    fn response(&self, status: &str, output: &[&[u8]], more: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.repeated.len() + 256);
        let mut object = Object::new(&mut out);
        object.field("id", &self.head.id);
        object.field("object", "response");
        object.field("created_at", &self.head.created);
        object.field("model", &self.head.model);
        object.field("status", status);
        let mut list = List::new(object.key("output"));
        for item in output {
            list.next().extend_from_slice(item);
        }
        list.end();
        more(&mut object);
        object.end();
        out.pop();
        out.extend_from_slice(&self.repeated);
        out.push(b'}');
        out
    }

    /// Opens an item at a place, after those that are whole by now are closed.
    fn open(&mut self, index: u32, sort: Sort, id: Option<&str>, out: &mut Vec<u8>) -> usize {
        self.start(out);
        self.close_before(Some((index, sort)), out);
        let prefix = match sort {
            Sort::Reasoning => "rs",
            Sort::Text | Sort::Refusal => "msg",
            Sort::Call | Sort::Whole => "fc",
        };
        let is_free = |id: &&str| !self.ids.contains(*id);
        let id = id.filter(is_free).map(str::to_owned).unwrap_or_else(|| self.mint(prefix));
        self.ids.insert(id.clone());
        self.items.push(OpenItem {
            id,
            sort,
            text: String::new(),
            native: None,
            call_id: String::new(),
            name: String::new(),
            written: 0,
            is_custom: false,
            done: None,
        });
        let at = self.items.len() - 1;
        self.open.insert((index, sort), at);
        at
    }

    /// Closes what will get nothing more when something new begins: all texts and thinking, and calls whose arguments are
    /// whole. Pieces of other calls may still come.
    pub(super) fn close_before(&mut self, but: Option<(u32, Sort)>, out: &mut Vec<u8>) {
        let is_whole = |at: usize| {
            let item = &self.items[at];
            let text = item.text.trim_end();
            item.sort != Sort::Call
                || (text.ends_with('}') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
        };
        let whole: Vec<(u32, Sort)> = self
            .open
            .iter()
            .filter(|(place, at)| Some(**place) != but && is_whole(**at))
            .map(|(place, _)| *place)
            .collect();
        for place in whole {
            if let Some(at) = self.open.remove(&place) {
                self.closed.insert(place, at);
                self.close(at, "completed", out);
            }
        }
    }

    pub(super) fn own<'n>(&self, native: Option<&'n Native>) -> Option<&'n Map<String, Value>> {
        native.filter(|native| native.provider == self.head.provider)?.value.as_object()
    }

    pub(super) fn said(&mut self, sort: Sort, delta: &TextDelta, out: &mut Vec<u8>) {
        if delta.text.is_empty() {
            return;
        }
        let at = match self.open.get(&(delta.index, sort)) {
            Some(at) => *at,
            None => self.open(delta.index, sort, None, out),
        };
        self.begin(at, out);
        let item = &mut self.items[at];
        item.text.push_str(&delta.text);
        let (kind, part) = match sort {
            Sort::Reasoning => ("response.reasoning_summary_text.delta", "summary_index"),
            Sort::Refusal => ("response.refusal.delta", "content_index"),
            Sort::Text | Sort::Call | Sort::Whole => ("response.output_text.delta", "content_index"),
        };
        numbered(&mut self.sequence, kind, out, |event| {
            event.field("item_id", &item.id);
            event.field("output_index", &at);
            event.field(part, &0);
            event.field("delta", &delta.text);
            if sort == Sort::Text {
                event.field("logprobs", &[(); 0]);
            }
        });
    }

    /// Announces an item and its first part, once.
    pub(super) fn begin(&mut self, at: usize, out: &mut Vec<u8>) {
        let item = &self.items[at];
        if item.written > 0 {
            return;
        }
        self.items[at].written = 1;
        let (id, sort) = (self.items[at].id.clone(), self.items[at].sort);
        let phase = self.message_head(at).and_then(|head| head.get("phase").cloned());
        self.event("response.output_item.added", out, |event| {
            event.field("output_index", &at);
            let mut item = Object::new(event.key("item"));
            item.field("id", &id);
            if sort == Sort::Reasoning {
                item.field("type", "reasoning");
                item.field("summary", &[(); 0]);
            } else {
                item.field("type", "message");
                item.field("status", "in_progress");
                item.field("role", "assistant");
                if let Some(phase) = &phase {
                    item.field("phase", phase);
                }
                item.field("content", &[(); 0]);
            }
            item.end();
        });
        let (kind, place) = match sort {
            Sort::Reasoning => ("response.reasoning_summary_part.added", "summary_index"),
            _ => ("response.content_part.added", "content_index"),
        };
        self.event(kind, out, |event| {
            event.field("item_id", &id);
            event.field("output_index", &at);
            event.field(place, &0);
            event.raw("part", &part(sort, "", None));
        });
    }

    fn message_head(&self, at: usize) -> Option<&Map<String, Value>> {
        self.own(self.items[at].native.as_ref())?.get("message")?.as_object()
    }

    pub(super) fn state(&mut self, sort: Sort, state: &ReasoningState, out: &mut Vec<u8>) {
        let place = (state.index, sort);
        let at = match self.open.get(&place) {
            Some(at) => *at,
            None if self.closed.contains_key(&place) => return self.late(place, state, out),
            None => {
                let own = self.own(Some(&state.native));
                let said =
                    if sort == Sort::Reasoning { own } else { own.and_then(|own| own.get("message")?.as_object()) };
                let id = said.and_then(|said| said.get("id")?.as_str()).map(str::to_owned);
                self.open(state.index, sort, id.as_deref(), out)
            }
        };
        self.items[at].native = Some(state.native.clone());
    }

    /// State of a place that is whole: behind it, sealed, where nothing like it has followed.
    fn late(&mut self, place: (u32, Sort), state: &ReasoningState, out: &mut Vec<u8>) {
        let Some(at) = self.closed.get(&place).copied() else { return };
        let is_like = |item: &OpenItem| item.sort == place.1;
        if self.items[at].native.as_ref() == Some(&state.native) || self.items[at + 1..].iter().any(is_like) {
            return;
        }
        self.items[at].native = Some(state.native.clone());
        let of = if place.1 == Sort::Reasoning { "reasoning" } else { "text" };
        self.seal(of, state.native.provider.clone(), state.native.value.clone(), out);
    }

    pub(super) fn call(&mut self, delta: &CallDelta, out: &mut Vec<u8>) {
        let place = (delta.index, Sort::Call);
        let at = match self.open.get(&place) {
            Some(at) => *at,
            None => {
                let own = self.own(delta.native.as_ref());
                let id = own.and_then(|own| own.get("id")?.as_str()).map(str::to_owned);
                self.open(delta.index, Sort::Call, id.as_deref(), out)
            }
        };
        let given = |text: &Option<String>| text.as_ref().filter(|text| !text.is_empty()).cloned();
        let item = &mut self.items[at];
        if let Some(id) = given(&delta.provider_id).filter(|_| item.call_id.is_empty()) {
            item.call_id = id;
        }
        if let Some(name) = given(&delta.name).filter(|_| item.name.is_empty()) {
            item.name = name;
        }
        if let Some(native) = &delta.native {
            item.native = Some(native.clone());
        }
        item.text.push_str(&delta.arguments);
        self.write_arguments(at, false, out);
    }

    pub(super) fn is_custom(&self, at: usize) -> bool {
        let item = &self.items[at];
        match self.tools.get(&item.name) {
            Some(tool) => tool.is_custom,
            None => self
                .own(item.native.as_ref())
                .is_some_and(|own| own.get("type").is_some_and(|kind| kind == "custom_tool_call")),
        }
    }

    /// Announces a call and writes what has come of its arguments. A custom tool's input is known when they are whole.
    pub(super) fn write_arguments(&mut self, at: usize, is_last: bool, out: &mut Vec<u8>) {
        // The name has to stand in what is announced; it comes first in every protocol.
        if self.items[at].name.is_empty() && !is_last {
            return;
        }
        if self.items[at].call_id.is_empty() {
            self.items[at].call_id = self.mint("call");
        }
        // `null` and its like mean no arguments, which are written `{}`.
        if is_last && Arguments::from_text(self.items[at].text.as_str()).is_absent() {
            self.items[at].text = "{}".to_owned();
        }
        if self.items[at].written == 0 {
            self.items[at].written = 1;
            self.items[at].is_custom = self.is_custom(at);
            let item = self.call_item(at, "in_progress", true);
            self.event("response.output_item.added", out, |event| {
                event.field("output_index", &at);
                event.raw("item", &item);
            });
        }
        let item = &mut self.items[at];
        if item.is_custom {
            if is_last {
                let input = custom_input(&item.text);
                numbered(&mut self.sequence, "response.custom_tool_call_input.delta", out, |event| {
                    event.field("item_id", &item.id);
                    event.field("output_index", &at);
                    event.field("delta", &input);
                });
            }
            return;
        }
        if !is_last && may_be_absent(&item.text) {
            return;
        }
        let rest = item.text.get(item.written - 1..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        numbered(&mut self.sequence, "response.function_call_arguments.delta", out, |event| {
            event.field("item_id", &item.id);
            event.field("output_index", &at);
            event.field("delta", rest);
        });
        item.written = item.text.len() + 1;
    }

    /// A call as an item. Before its arguments have come it has none.
    pub(super) fn call_item(&self, at: usize, status: &str, is_opening: bool) -> Vec<u8> {
        let item = &self.items[at];
        let is_custom = self.is_custom(at);
        let client = self.tools.get(&item.name);
        let own = self.own(item.native.as_ref());
        let own_space = own.and_then(|own| own.get("namespace")?.as_str());
        let namespace = client.map_or(own_space, |client| client.namespace.as_deref());
        let bare = own_space.and_then(|space| item.name.strip_prefix(space)?.strip_prefix("__"));
        let name = client.map_or(bare.unwrap_or(&item.name), |client| client.name.as_str());
        let arguments = if is_opening { "" } else { item.text.as_str() };
        let mut out = Vec::new();
        let mut object = Object::new(&mut out);
        object.field("id", &item.id);
        object.field("type", if is_custom { "custom_tool_call" } else { "function_call" });
        object.field("status", status);
        object.field("call_id", &item.call_id);
        object.field("name", name);
        if is_custom {
            object.field("input", &custom_input(arguments));
        } else {
            object.field("arguments", arguments);
        }
        if let Some(namespace) = namespace {
            object.field("namespace", namespace);
        }
        if let Some(own) = own {
            let known = ["id", "type", "status", "call_id", "name", "input", "arguments", "namespace"];
            object.merge(own, &known);
        }
        object.end();
        out
    }

    fn finish(&mut self, finished: &TurnFinished, out: &mut Vec<u8>) {
        self.start(out);
        let has_refused = self.items.iter().any(|item| item.sort == Sort::Refusal);
        let has_cut_call = self.items.iter().any(|item| item.sort == Sort::Call && is_cut_short(&item.text));
        let reason = match stopped::told(&finished.stop, has_cut_call) {
            StopReason::MaxTokens => Some("max_output_tokens"),
            // More would have come: it is no end.
            StopReason::Pause => Some("max_output_tokens"),
            StopReason::ContentFilter => Some("content_filter"),
            // A refusal without a word of it.
            StopReason::Refusal if !has_refused => Some("content_filter"),
            StopReason::Other(reason) if matches!(reason.as_str(), "max_messages" | "steered") => Some(reason.as_str()),
            StopReason::Other(reason) if reason == "model_context_window_exceeded" => Some("max_output_tokens"),
            _ => None,
        };
        let status = if reason.is_some() { "incomplete" } else { "completed" };
        let foreign = finished.native.as_ref().filter(|native| native.provider != self.head.provider);
        self.pieces = foreign.map(|native| of_end(&native.value)).unwrap_or_default();
        self.tell_pieces();
        let last = self.open.values().max().copied();
        for (_, at) in std::mem::take(&mut self.open) {
            self.close(at, if Some(at) == last { status } else { "completed" }, out);
        }
        let native = self.own(finished.native.as_ref()).cloned().unwrap_or_default();
        let usage = self.usage.map(|usage| usage_form(&usage, native.get("usage").and_then(Value::as_object)));
        let output: Vec<&[u8]> = self.items.iter().filter_map(|item| item.done.as_deref()).collect();
        let response = self.response(status, &output, |response| {
            response.field("error", &Value::Null);
            response.field("incomplete_details", &reason.map(|reason| json!({"reason": reason})));
            response.field("usage", &usage);
            // Another provider's word for a tier means nothing here, and strict readers stumble over it.
            if let Some(tier) = finished.service_tier.as_deref().and_then(|tier| tiers::openai(tier, false)) {
                response.field("service_tier", tier);
            }
            response.merge(&native, &["usage", "service_tier", "error", "incomplete_details"]);
        });
        self.terminal(if reason.is_some() { "response.incomplete" } else { "response.completed" }, response, out);
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        self.start(out);
        // What is open stays open: it is partial, and calls in it must not be taken for whole.
        let output: Vec<&[u8]> = self.items.iter().filter_map(|item| item.done.as_deref()).collect();
        let usage = self.usage.map(|usage| usage_form(&usage, None));
        let response = self.response("failed", &output, |response| {
            response.raw("error", &response_error(error));
            response.field("incomplete_details", &Value::Null);
            response.field("usage", &usage);
        });
        self.terminal("response.failed", response, out);
    }

    fn terminal(&mut self, kind: &str, response: Vec<u8>, out: &mut Vec<u8>) {
        self.event(kind, out, |event| event.raw("response", &response));
        self.last = response;
        self.is_done = true;
    }
}

/// Writes an event with the next number.
fn numbered(sequence: &mut u64, kind: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
    let number = *sequence;
    *sequence += 1;
    sse::encode_named_data(kind, out, |out| {
        let mut object = Object::new(out);
        object.field("type", kind);
        object.field("sequence_number", &number);
        write(&mut object);
        object.end();
    });
}
