//! From turn events to the stream that a client of this protocol reads.

use super::answer::{stop_word, usage_form};
use super::errors::encode_error_event;
use super::sealed::{Owner, seal, seal_item};
use crate::citations::{self, Citation};
use crate::envelope;
use crate::request::AnswerHead;
use crate::shown;
use crate::stopped::{self, is_malformed};
use placet_core::part::Native;
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnFinished};
use placet_core::{ErrorKind, ItemBody, Part, ProviderError, StopReason, TurnEvent, Usage};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;

/// Writes one answer as a stream of events.
///
/// Blocks follow one another and are never mixed, because clients do not expect it: what comes for a second call while the
/// first is not whole waits. An answer of which nothing has come yet has no beginning either, so that the beginning can tell
/// how much input there was.
#[derive(Debug)]
pub struct EventEncoder {
    head: AnswerHead,
    is_begun: bool,
    is_ended: bool,
    usage: Option<Usage>,
    blocks: u64,
    open: Option<Open>,
    /// What waits for the open block to end.
    waiting: VecDeque<TurnEvent>,
    /// State of the open block that stands behind it, sealed.
    behind: Option<String>,
    /// Places of calls and of thinking that have been written.
    calls: Vec<u32>,
    /// A call was written whose arguments are no JSON.
    has_malformed: bool,
    thoughts: Vec<u32>,
    /// Places of texts that have been written.
    texts: Vec<u32>,
    /// The state of a text that was told last, of another provider.
    told: Option<ReasoningState>,
    has_refused: bool,
}

/// The block that is being written.
#[derive(Debug)]
struct Open {
    place: u32,
    slot: Slot,
    /// The arguments so far, of a call.
    arguments: String,
    /// Where a text is from, as another provider says; a later state may say it anew.
    citations: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Text,
    Refusal,
    Reasoning,
    Call,
}

/// The encoder of an answer.
#[must_use]
pub fn encode_events(head: AnswerHead) -> EventEncoder {
    EventEncoder {
        head,
        is_begun: false,
        is_ended: false,
        usage: None,
        blocks: 0,
        open: None,
        waiting: VecDeque::new(),
        behind: None,
        calls: Vec::new(),
        has_malformed: false,
        thoughts: Vec::new(),
        texts: Vec::new(),
        told: None,
        has_refused: false,
    }
}

/// Counts what is written to it.
struct Length(u64);

impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes an event of the stream: its name, which clients of this protocol go by, and its data on one line.
fn event(name: &str, data: &impl Serialize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    // JSON has no raw line breaks, so it is one line; what is written here always serialises.
    let _ = serde_json::to_writer(&mut *out, data);
    out.extend_from_slice(b"\n\n");
}

#[derive(Serialize)]
struct Start<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    index: u64,
    content_block: &'a Value,
}

#[derive(Serialize)]
struct Stop {
    #[serde(rename = "type")]
    kind: &'static str,
    index: u64,
}

#[derive(Serialize)]
struct Piece<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    index: u64,
    delta: Delta<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Delta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: &'a str },
    #[serde(rename = "citations_delta")]
    Citation { citation: &'a Value },
}

impl EventEncoder {
    /// Writes what an event means, as whole events of the stream.
    pub fn push(&mut self, turn_event: &TurnEvent, out: &mut Vec<u8>) {
        if self.is_ended {
            return;
        }
        match turn_event {
            TurnEvent::Started(_) => {}
            TurnEvent::Usage(usage) => self.usage = Some(*usage),
            TurnEvent::Finished(finished) => {
                self.settle(out);
                self.finish(finished, out);
            }
            TurnEvent::Failed(error) => self.fail(error, out),
            TurnEvent::Unknown(_) => {}
            content if self.must_wait(content) => self.waiting.push_back(content.clone()),
            content => {
                self.begin(out);
                self.content(content, out);
                self.go_on(out);
            }
        }
    }

    /// The answer has ended, well or not: closes what is open. One without its end becomes an error, never a success.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if !self.is_ended {
            let problem = "the answer ended before its end marker; what arrived is partial";
            let error = ProviderError::new(ErrorKind::Interrupted, self.head.provider.clone(), problem);
            self.fail(&error, out);
        }
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        self.is_ended = true;
        encode_error_event(error, out);
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.is_begun, true) {
            return;
        }
        let mut usage = self.usage.unwrap_or_else(|| Usage { input: self.estimate(), ..Usage::default() });
        usage.output = usage.output.max(1);
        let message = json!({
            "type": "message_start",
            "message": {
                "id": self.head.id,
                "type": "message",
                "role": "assistant",
                "model": self.head.model,
                "content": [],
                "stop_reason": null,
                "stop_sequence": null,
                "usage": usage_form(&usage, Some("standard"), None),
            },
        });
        event("message_start", &message, out);
    }

    /// About how much input there was, where only the end of the answer tells: four bytes of the request are a token.
    /// Clients take how full the window is from it until then.
    fn estimate(&self) -> u64 {
        let mut length = Length(0);
        if let Some(request) = self.head.request.as_deref() {
            // Counting cannot fail.
            let _ = serde_json::to_writer(&mut length, request);
        }
        length.0 / 4
    }

    /// The place of an event, where it is one of a block that grows.
    fn place(content: &TurnEvent) -> Option<(u32, Slot)> {
        match content {
            TurnEvent::Text(delta) => Some((delta.index, Slot::Text)),
            TurnEvent::TextState(state) => Some((state.index, Slot::Text)),
            TurnEvent::Refusal(delta) => Some((delta.index, Slot::Refusal)),
            TurnEvent::Reasoning(delta) => Some((delta.index, Slot::Reasoning)),
            TurnEvent::ReasoningState(state) => Some((state.index, Slot::Reasoning)),
            TurnEvent::Call(delta) => Some((delta.index, Slot::Call)),
            _ => None,
        }
    }

    /// Whether something has to wait, because a call is being written that is not whole.
    fn must_wait(&self, content: &TurnEvent) -> bool {
        let Some(open) = self.open.as_ref().filter(|open| open.slot == Slot::Call) else { return false };
        EventEncoder::place(content) != Some((open.place, open.slot)) && !is_whole(&open.arguments)
    }

    /// Writes what waited and need not wait any longer. What waits for one place keeps its order.
    fn go_on(&mut self, out: &mut Vec<u8>) {
        while let Some(next) = self.waiting.front() {
            if self.must_wait(next) {
                // Later pieces of the open call may stand behind others.
                let place = self.open.as_ref().map(|open| (open.place, open.slot));
                let Some(found) = self.waiting.iter().position(|event| EventEncoder::place(event) == place) else {
                    return;
                };
                if let Some(event) = self.waiting.remove(found) {
                    self.content(&event, out);
                }
            } else if let Some(event) = self.waiting.pop_front() {
                self.content(&event, out);
            }
        }
    }

    /// Writes whatever waits, because nothing more will come.
    fn settle(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        self.go_on(out);
        while !self.waiting.is_empty() {
            self.close(out);
            self.go_on(out);
        }
        self.close(out);
    }

    fn content(&mut self, content: &TurnEvent, out: &mut Vec<u8>) {
        match content {
            TurnEvent::Text(delta) => self.text(Slot::Text, delta, out),
            TurnEvent::Refusal(delta) => {
                self.has_refused = true;
                self.text(Slot::Refusal, delta, out);
            }
            TurnEvent::Reasoning(delta) => self.text(Slot::Reasoning, delta, out),
            TurnEvent::ReasoningState(state) => self.reasoning_state(state, out),
            TurnEvent::TextState(state) => self.text_state(state, out),
            TurnEvent::Call(delta) => self.call(delta, out),
            TurnEvent::Whole(whole) => self.whole(&whole.body, out),
            _ => {}
        }
    }

    fn is_open(&self, place: u32, slot: Slot) -> bool {
        self.open.as_ref().is_some_and(|open| open.place == place && open.slot == slot)
    }

    fn start(&self, block: &Value, out: &mut Vec<u8>) {
        let start = Start { kind: "content_block_start", index: self.blocks, content_block: block };
        event("content_block_start", &start, out);
    }

    fn stop(&mut self, out: &mut Vec<u8>) {
        event("content_block_stop", &Stop { kind: "content_block_stop", index: self.blocks }, out);
        self.blocks += 1;
    }

    /// Begins a block that grows.
    fn open(&mut self, place: u32, slot: Slot, block: &Value, out: &mut Vec<u8>) {
        self.close(out);
        self.start(block, out);
        match slot {
            Slot::Call => self.calls.push(place),
            Slot::Reasoning => self.thoughts.push(place),
            Slot::Text => self.texts.push(place),
            Slot::Refusal => {}
        }
        self.open = Some(Open { place, slot, arguments: String::new(), citations: Vec::new() });
    }

    fn delta(&self, delta: Delta<'_>, out: &mut Vec<u8>) {
        let piece = Piece { kind: "content_block_delta", index: self.blocks, delta };
        event("content_block_delta", &piece, out);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let Some(open) = self.open.take() else { return };
        self.has_malformed |= open.slot == Slot::Call && is_malformed(&open.arguments);
        if open.slot == Slot::Call && open.arguments.trim().is_empty() {
            // A call without arguments says so: clients want an object.
            self.delta(Delta::Input { partial_json: "{}" }, out);
        }
        for citation in &open.citations {
            self.delta(Delta::Citation { citation }, out);
        }
        self.stop(out);
        if let Some(data) = self.behind.take() {
            self.hidden(data, out);
        }
    }

    /// A block that is whole from the beginning.
    fn block(&mut self, block: &Value, out: &mut Vec<u8>) {
        self.close(out);
        self.start(block, out);
        self.stop(out);
    }

    fn text(&mut self, slot: Slot, delta: &TextDelta, out: &mut Vec<u8>) {
        if delta.text.is_empty() {
            return;
        }
        if !self.is_open(delta.index, slot) {
            self.open(delta.index, slot, &empty_block(slot), out);
        }
        let delta = match slot {
            Slot::Reasoning => Delta::Thinking { thinking: &delta.text },
            _ => Delta::Text { text: &delta.text },
        };
        self.delta(delta, out);
    }

    fn is_own(&self, native: &Native) -> bool {
        native.provider == self.head.provider
    }

    fn hidden(&mut self, data: String, out: &mut Vec<u8>) {
        self.block(&json!({"type": "redacted_thinking", "data": data}), out);
    }

    fn reasoning_state(&mut self, state: &ReasoningState, out: &mut Vec<u8>) {
        let native = &state.native;
        let is_open = self.is_open(state.index, Slot::Reasoning);
        let signature = if !self.is_own(native) {
            envelope::seal(native)
        } else if native.value.get("type").and_then(Value::as_str) == Some("redacted_thinking") {
            return self.block(&native.value, out);
        } else {
            native.value.get("signature").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        if !is_open && !self.is_own(native) && self.thoughts.contains(&state.index) {
            // The thinking has ended; its state comes behind what followed.
            return self.hidden(seal(Owner::Reasoning, native), out);
        }
        if !is_open {
            let mut block = empty_block(Slot::Reasoning);
            if let (true, Value::Object(fields)) = (self.is_own(native), &native.value) {
                let beyond =
                    fields.iter().filter(|(key, _)| !matches!(key.as_str(), "signature" | "type" | "thinking"));
                beyond.for_each(|(key, value)| block[key.as_str()] = value.clone());
            }
            self.open(state.index, Slot::Reasoning, &block, out);
        }
        self.delta(Delta::Signature { signature: &signature }, out);
    }

    fn text_state(&mut self, state: &ReasoningState, out: &mut Vec<u8>) {
        let native = &state.native;
        if !self.is_own(native) {
            if self.told.as_ref() == Some(state) {
                return;
            }
            self.told = Some(state.clone());
            if self.is_open(state.index, Slot::Text) {
                // A later one may replace it.
                self.behind = Some(seal(Owner::Text, native));
                if let Some(open) = &mut self.open {
                    open.citations = citations::of(&native.value).iter().map(Citation::citation).collect();
                }
            } else if self.texts.contains(&state.index) {
                self.hidden(seal(Owner::Text, native), out);
            } else {
                self.hidden(seal(Owner::NextText, native), out);
            }
            return;
        }
        if !self.is_open(state.index, Slot::Text) {
            self.open(state.index, Slot::Text, &empty_block(Slot::Text), out);
        }
        for citation in native.value.get("citations").and_then(Value::as_array).into_iter().flatten() {
            self.delta(Delta::Citation { citation }, out);
        }
    }

    fn call(&mut self, delta: &CallDelta, out: &mut Vec<u8>) {
        if !self.is_open(delta.index, Slot::Call) {
            if self.calls.contains(&delta.index) {
                // It was whole, so there is nothing that could be added to it.
                return;
            }
            let foreign = delta.native.as_ref().filter(|native| !self.is_own(native));
            if let Some(native) = foreign {
                self.hidden(seal(Owner::NextCall, native), out);
            }
            let own = delta.native.as_ref().filter(|native| self.is_own(native));
            self.close(out);
            let id = delta.provider_id.clone().filter(|id| !id.is_empty()).unwrap_or_else(|| self.call_id());
            let mut block = json!({"type": "tool_use", "id": id, "name": delta.name.as_deref().unwrap_or_default()});
            block["input"] = json!({});
            for (key, value) in own.and_then(|native| native.value.as_object()).into_iter().flatten() {
                block[key.as_str()] = value.clone();
            }
            self.open(delta.index, Slot::Call, &block, out);
        } else if let Some(native) = delta.native.as_ref().filter(|native| !self.is_own(native)) {
            // Told late, so it stands behind the call.
            self.behind = Some(seal(Owner::Call, native));
        }
        if !delta.arguments.is_empty() {
            if let Some(open) = &mut self.open {
                open.arguments.push_str(&delta.arguments);
            }
            self.delta(Delta::Input { partial_json: &delta.arguments }, out);
        }
    }

    /// An id for a call that came without one, which no other call of any answer has.
    fn call_id(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
        let head: String = self.head.id.chars().map(plain).collect();
        format!("toolu_{head}_{}", self.blocks)
    }

    fn whole(&mut self, body: &ItemBody, out: &mut Vec<u8>) {
        match body {
            ItemBody::HostedCall(call) if call.provider == self.head.provider => self.own_block(&call.value, out),
            ItemBody::Native(native) if self.is_own(native) => self.own_block(&native.value, out),
            ItemBody::HostedCall(call) => {
                self.hidden(seal_item(&call.provider, body), out);
                if let Some(media) = shown::made(call) {
                    self.shown(&Part::Image(media), out);
                }
            }
            ItemBody::Message(message) => {
                for part in &message.parts {
                    match part {
                        Part::Text(text) if text.text.is_empty() => {}
                        Part::Text(text) => self.said(&text.text, out),
                        Part::Native(native) if self.is_own(native) => self.own_block(&native.value, out),
                        Part::Native(native) => {
                            self.hidden(seal_item(&native.provider, &ItemBody::Native(native.clone())), out);
                        }
                        part => self.shown(part, out),
                    }
                }
            }
            ItemBody::Artifact(artifact) => self.shown(&shown::part_of(&artifact.media), out),
            other => {
                let provider = self.head.provider.clone();
                self.hidden(seal_item(&provider, other), out);
            }
        }
    }

    /// A text that comes whole.
    fn said(&mut self, text: &str, out: &mut Vec<u8>) {
        self.open(u32::MAX, Slot::Refusal, &empty_block(Slot::Text), out);
        self.delta(Delta::Text { text }, out);
        self.close(out);
    }

    /// What is no text, as one: the protocol's answers hold no media.
    fn shown(&mut self, part: &Part, out: &mut Vec<u8>) {
        if let Some(text) = shown::markdown(part) {
            if let Some(native) = shown::state(part).filter(|native| !self.is_own(native)) {
                self.hidden(seal(Owner::NextText, native), out);
            }
            self.said(&text, out);
        }
    }

    /// A block of the provider's own. Input of a tool comes in pieces, as clients expect it.
    fn own_block(&mut self, block: &Value, out: &mut Vec<u8>) {
        let input = block
            .get("input")
            .filter(|_| matches!(block.get("type").and_then(Value::as_str), Some("server_tool_use" | "mcp_tool_use")));
        let Some(input) = input else { return self.block(block, out) };
        let mut start = block.clone();
        start["input"] = json!({});
        self.close(out);
        self.start(&start, out);
        self.delta(Delta::Input { partial_json: &input.to_string() }, out);
        self.stop(out);
    }

    fn finish(&mut self, finished: &TurnFinished, out: &mut Vec<u8>) {
        self.is_ended = true;
        let own =
            finished.native.as_ref().filter(|native| self.is_own(native)).and_then(|native| native.value.as_object());
        let usage = self.usage.unwrap_or_else(|| Usage { input: self.estimate(), ..Usage::default() });
        let stop = match &finished.stop {
            StopReason::End if self.has_refused && self.calls.is_empty() => &StopReason::Refusal,
            stop => stopped::told(stop, self.has_malformed),
        };
        let data = end_form(stop, !self.calls.is_empty(), &usage, finished.service_tier.as_deref(), own);
        event("message_delta", &data, out);
        event("message_stop", &json!({"type": "message_stop"}), out);
    }
}

/// Fields of an end that stand beside its delta, not in it.
const BESIDE_DELTA: [&str; 2] = ["context_management", "input_transformations"];

/// The event that ends an answer.
fn end_form(
    stop: &StopReason,
    has_calls: bool,
    usage: &Usage,
    tier: Option<&str>,
    own: Option<&Map<String, Value>>,
) -> Value {
    let (delta, beside) = end_fields(stop, has_calls, own);
    let beyond = own.and_then(|own| own.get("usage")?.as_object());
    let mut data = json!({"type": "message_delta", "delta": delta, "usage": usage_form(usage, tier, beyond)});
    for (key, value) in beside {
        data[key.as_str()] = value;
    }
    data
}

/// What is said of the end of an answer: of the message, and beside it.
pub(super) fn end_fields(
    stop: &StopReason,
    has_calls: bool,
    own: Option<&Map<String, Value>>,
) -> (Map<String, Value>, Map<String, Value>) {
    let (mut delta, mut beside) = (Map::new(), Map::new());
    let told = own.and_then(|own| own.get("stop_reason")?.as_str());
    delta.insert("stop_reason".into(), told.unwrap_or(stop_word(stop, has_calls)).into());
    delta.insert("stop_sequence".into(), Value::Null);
    for (key, value) in own.into_iter().flatten() {
        match key.as_str() {
            "usage" | "stop_reason" | "events" => {}
            key if BESIDE_DELTA.contains(&key) => {
                beside.insert(key.to_owned(), value.clone());
            }
            key => {
                delta.insert(key.to_owned(), value.clone());
            }
        }
    }
    (delta, beside)
}

/// A block that has only begun.
fn empty_block(slot: Slot) -> Value {
    match slot {
        Slot::Reasoning => json!({"type": "thinking", "thinking": "", "signature": ""}),
        _ => json!({"type": "text", "text": ""}),
    }
}

/// Whether arguments are whole.
fn is_whole(arguments: &str) -> bool {
    !arguments.trim().is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}
