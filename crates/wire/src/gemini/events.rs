//! From turn events to what a Gemini client reads.

use super::TEXT_STATE;
use super::decode::reason_of;
use super::failures::{encode_error, error_of_end};
use super::{parts, seal, usage};
use crate::citations::Sources;
use crate::further::{as_candidate, is_further};
use crate::probabilities::{Pieces, as_result};
use crate::request::AnswerHead;
use crate::shown;
use placet_core::part::{Media, MediaSource, Native, Text};
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnFinished};
use placet_core::{Arguments, ItemBody, Part, ProviderError, StopReason, TurnEvent, Usage};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The encoder of one answer, as server-sent events. [`EventEncoder::as_array`] makes it the elements of one JSON array.
#[must_use]
pub fn encode_events(head: AnswerHead) -> EventEncoder {
    let mut tail = b"],\"role\":\"model\"},\"index\":0}]".to_vec();
    let mut field = |name: &str, value: &str| {
        tail.extend_from_slice(b",\"");
        tail.extend_from_slice(name.as_bytes());
        tail.extend_from_slice(b"\":");
        write(value, &mut tail);
    };
    field("modelVersion", &head.model);
    field("responseId", &head.id);
    tail.push(b'}');
    EventEncoder {
        head,
        tail,
        array: false,
        has_written: false,
        waiting: BTreeMap::new(),
        state: None,
        written: Vec::new(),
        text_state: Map::new(),
        thoughts: Vec::new(),
        sources: Sources::default(),
        pieces: Pieces::default(),
        usage: None,
        malformed: None,
        has_refused: false,
        has_calls: false,
        is_done: false,
    }
}

/// Which of the things at one index it is. Thinking comes before what it led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    Thought,
    Text,
    Call,
    Whole,
}

#[derive(Debug)]
enum Waiting {
    Said { text: String, native: Option<Native> },
    Call(CallDelta),
    Whole(Box<ItemBody>),
}

/// Writes the events of one answer.
///
/// A call is written once its arguments are whole, because clients know no pieces of one; what follows it waits until then,
/// which is no time at all unless calls come interleaved.
#[derive(Debug)]
pub struct EventEncoder {
    head: AnswerHead,
    /// What ends a chunk after its parts.
    tail: Vec<u8>,
    array: bool,
    has_written: bool,
    waiting: BTreeMap<(u32, Slot), Waiting>,
    /// State that has come, whose place may still get text or a later state.
    state: Option<(u32, Slot, Native)>,
    /// State that stands on the wire.
    written: Vec<(u32, Slot, Map<String, Value>)>,
    text_state: Map<String, Value>,
    /// What was thought since the last call.
    thoughts: Vec<seal::Thinking>,
    /// Where the text is from, as another provider says.
    sources: Sources,
    pieces: Pieces,
    usage: Option<Usage>,
    /// A call whose arguments are no object.
    malformed: Option<String>,
    has_refused: bool,
    has_calls: bool,
    is_done: bool,
}

/// Writing JSON into memory cannot go wrong.
fn write(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, value);
}

impl EventEncoder {
    /// As the elements of one JSON array, which is what a client gets that does not ask for server-sent events.
    #[must_use]
    pub fn as_array(mut self) -> Self {
        self.array = true;
        self
    }

    /// Appends what an event means to `out`.
    pub fn push(&mut self, event: &TurnEvent, out: &mut Vec<u8>) {
        if self.is_done {
            return;
        }
        self.sources.note(event, &self.head.provider);
        self.pieces.note(event, &self.head.provider);
        self.has_refused |= matches!(event, TurnEvent::Refusal(delta) if !delta.text.is_empty());
        self.has_calls |= matches!(event, TurnEvent::Call(_));
        match event {
            TurnEvent::Text(delta) | TurnEvent::Refusal(delta) => self.said(delta, Slot::Text, out),
            TurnEvent::Reasoning(delta) => {
                self.thought(delta.index).text.push_str(&delta.text);
                self.said(delta, Slot::Thought, out);
            }
            TurnEvent::ReasoningState(state) => {
                self.thought(state.index).native = Some(state.native.clone());
                self.state(state, Slot::Thought, out);
            }
            TurnEvent::TextState(state) => self.state(state, Slot::Text, out),
            TurnEvent::Call(delta) => self.call(delta),
            TurnEvent::Whole(whole) => {
                if self.is_free(out) {
                    self.flush_state(out);
                    self.item(&whole.body, out);
                } else {
                    let body = Waiting::Whole(Box::new(whole.body.clone()));
                    self.waiting.insert((whole.index, Slot::Whole), body);
                }
            }
            TurnEvent::Usage(usage) => self.usage = Some(*usage),
            TurnEvent::Finished(finished) => self.finish(finished, out),
            TurnEvent::Failed(error) => self.fail(error, out),
            _ => {}
        }
    }

    /// The answer has ended: closes what is open. Without its end it was interrupted, which is told as an error.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if !self.is_done {
            let error = error_of_end(&self.head.provider);
            self.fail(&error, out);
        }
        if std::mem::take(&mut self.array) {
            out.extend_from_slice(if self.has_written { b"]" } else { b"[]" });
        }
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        self.is_done = true;
        let (_, value) = encode_error(error);
        self.chunk(out, |_, out| write(&value, out));
    }

    /// One chunk: an event, or an element of the array.
    fn chunk(&mut self, out: &mut Vec<u8>, body: impl FnOnce(&mut Self, &mut Vec<u8>)) {
        let is_first = !std::mem::replace(&mut self.has_written, true);
        match (self.array, is_first) {
            (true, true) => out.push(b'['),
            (true, false) => out.extend_from_slice(b",\r\n"),
            // The JSON that follows is one line, so that this is the whole frame of an event.
            (false, _) => out.extend_from_slice(b"data: "),
        }
        body(self, out);
        if !self.array {
            out.extend_from_slice(b"\n\n");
        }
    }

    /// A chunk of one part.
    fn part(&mut self, out: &mut Vec<u8>, part: impl FnOnce(&mut Vec<u8>)) {
        self.chunk(out, |encoder, out| {
            out.extend_from_slice(b"{\"candidates\":[{\"content\":{\"parts\":[");
            part(out);
            out.extend_from_slice(&encoder.tail);
        });
    }

    fn said_part(&mut self, text: &str, slot: Slot, beside: Option<&Map<String, Value>>, out: &mut Vec<u8>) {
        self.part(out, |out| {
            out.extend_from_slice(b"{\"text\":");
            write(text, out);
            if slot == Slot::Thought {
                out.extend_from_slice(b",\"thought\":true");
            }
            for (key, value) in
                beside.into_iter().flatten().filter(|(key, _)| !matches!(key.as_str(), "text" | "thought"))
            {
                out.push(b',');
                write(key, out);
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        });
    }

    /// Whether nothing waits any more. Calls that are whole by now are written.
    fn is_free(&mut self, out: &mut Vec<u8>) -> bool {
        if self.waiting.is_empty() {
            return true;
        }
        let is_whole = |waiting: &Waiting| match waiting {
            Waiting::Call(call) => call.name.is_some() && Written::of(&call.arguments).is_some(),
            _ => true,
        };
        if !self.waiting.values().all(is_whole) {
            return false;
        }
        self.flush_waiting(out);
        true
    }

    fn flush_waiting(&mut self, out: &mut Vec<u8>) {
        for ((index, slot), waiting) in std::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Said { text, native } => {
                    if let Some(native) = native {
                        self.flush_state(out);
                        self.state = Some((index, slot, native));
                    }
                    self.text(index, slot, &text, out);
                }
                Waiting::Call(call) => {
                    self.flush_state(out);
                    self.call_part(&call, out);
                }
                Waiting::Whole(body) => {
                    self.flush_state(out);
                    self.item(&body, out);
                }
            }
        }
    }

    fn said(&mut self, delta: &TextDelta, slot: Slot, out: &mut Vec<u8>) {
        if delta.text.is_empty() {
            return;
        }
        if self.is_free(out) {
            return self.text(delta.index, slot, &delta.text, out);
        }
        let waiting = self.waiting.entry((delta.index, slot));
        let waiting = waiting.or_insert_with(|| Waiting::Said { text: String::new(), native: None });
        if let Waiting::Said { text, .. } = waiting {
            text.push_str(&delta.text);
        }
    }

    fn text(&mut self, index: u32, slot: Slot, text: &str, out: &mut Vec<u8>) {
        match self.state.take() {
            // The state came first, so that both are one part.
            Some((at, of, native)) if (at, of) == (index, slot) && !text.is_empty() => {
                let beside = self.wire_state(slot, native);
                self.said_part(text, slot, beside.as_ref(), out);
                if let Some(beside) = beside {
                    self.written.push((index, slot, beside));
                }
                return;
            }
            state => self.state = state,
        }
        if text.is_empty() {
            return;
        }
        self.flush_state(out);
        self.said_part(text, slot, None, out);
    }

    fn state(&mut self, state: &ReasoningState, slot: Slot, out: &mut Vec<u8>) {
        if !self.is_free(out) {
            let waiting = self.waiting.entry((state.index, slot));
            let waiting = waiting.or_insert_with(|| Waiting::Said { text: String::new(), native: None });
            if let Waiting::Said { native, .. } = waiting {
                *native = Some(state.native.clone());
            }
            return;
        }
        if self.state.as_ref().is_some_and(|(index, of, _)| (*index, *of) != (state.index, slot)) {
            self.flush_state(out);
        }
        self.state = Some((state.index, slot, state.native.clone()));
    }

    /// What stands beside a part for some state; what is said of the whole answer is kept for its end. That of another
    /// provider is sealed.
    fn wire_state(&mut self, slot: Slot, native: Native) -> Option<Map<String, Value>> {
        if native.provider != self.head.provider {
            return Some(sealed(&native));
        }
        let Value::Object(mut beside) = native.value else { return None };
        if slot == Slot::Text {
            for key in TEXT_STATE {
                if let Some(value) = beside.shift_remove(key) {
                    self.text_state.insert(key.to_owned(), value);
                }
            }
        }
        (!beside.is_empty()).then_some(beside)
    }

    /// Writes state whose place has its text already, or never got one, as an empty part.
    fn flush_state(&mut self, out: &mut Vec<u8>) {
        let Some((index, slot, native)) = self.state.take() else { return };
        let Some(beside) = self.wire_state(slot, native) else { return };
        let known = self.written.iter().rev().find(|(at, of, _)| (*at, *of) == (index, slot));
        if known.is_some_and(|(_, _, known)| *known == beside) {
            return;
        }
        self.said_part("", slot, Some(&beside), out);
        self.written.push((index, slot, beside));
    }

    /// The thinking of an index, since the last call.
    fn thought(&mut self, index: u32) -> &mut seal::Thinking {
        let place = self.thoughts.iter().position(|thought| thought.index == index).unwrap_or_else(|| {
            self.thoughts.push(seal::Thinking { index, ..seal::Thinking::default() });
            self.thoughts.len() - 1
        });
        &mut self.thoughts[place]
    }

    fn call(&mut self, delta: &CallDelta) {
        let waiting = self.waiting.entry((delta.index, Slot::Call));
        let waiting =
            waiting.or_insert_with(|| Waiting::Call(CallDelta { index: delta.index, ..CallDelta::default() }));
        let Waiting::Call(call) = waiting else { return };
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        call.provider_id = given(&delta.provider_id).or(call.provider_id.take());
        call.name = given(&delta.name).or(call.name.take());
        call.arguments.push_str(&delta.arguments);
        call.native = delta.native.clone().or(call.native.take());
    }

    fn call_part(&mut self, call: &CallDelta, out: &mut Vec<u8>) {
        let name = call.name.as_deref().unwrap_or("unnamed");
        let Some(arguments) = Written::of(&call.arguments) else {
            let start: String = call.arguments.chars().take(200).collect();
            self.malformed.get_or_insert_with(|| format!("Malformed function call: {name}({start}"));
            return;
        };
        let (mut beside, mut inner) = (Map::new(), Map::new());
        let thoughts = std::mem::take(&mut self.thoughts);
        let foreign = |native: &Native| native.provider != self.head.provider;
        let is_foreign = |thought: &seal::Thinking| thought.native.as_ref().is_some_and(foreign);
        // There are clients that keep the signatures of calls and leave thoughts out of their history.
        let carried = Some(&call.native).filter(|native| native.as_ref().is_none_or(foreign)).and_then(|native| {
            let thoughts = thoughts.into_iter().filter(is_foreign).collect();
            seal::seal_call(&seal::CarriedBack { thoughts, own: native.clone() })
        });
        match &call.native {
            _ if carried.is_some() => beside.extend(carried.map(|seal| ("thoughtSignature".to_owned(), seal.into()))),
            Some(native) if native.provider != self.head.provider => beside = sealed(native),
            Some(Native { value: Value::Object(map), .. }) => {
                beside = map.clone();
                if let Some(Value::Object(more)) = beside.shift_remove("functionCall") {
                    inner = more;
                }
            }
            _ => {}
        }
        self.part(out, |out| {
            out.extend_from_slice(b"{\"functionCall\":{");
            if let Some(id) = &call.provider_id {
                out.extend_from_slice(b"\"id\":");
                write(id, out);
                out.push(b',');
            }
            out.extend_from_slice(b"\"name\":");
            write(name, out);
            out.extend_from_slice(b",\"args\":");
            match &arguments {
                // As the model wrote it, but on one line: line breaks within JSON are nothing but space.
                Written::Object(text) if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_none() => {
                    out.extend_from_slice(text.as_bytes());
                }
                Written::Object(text) => {
                    out.extend(text.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
                }
                Written::Other(object) => write(object, out),
            }
            rest(inner.iter().filter(|(key, _)| !matches!(key.as_str(), "id" | "name" | "args")), out);
            out.push(b'}');
            rest(beside.iter(), out);
            out.push(b'}');
        });
    }

    /// Something whole. What has no place in this protocol travels sealed.
    fn item(&mut self, body: &ItemBody, out: &mut Vec<u8>) {
        let provider = self.head.provider.clone();
        let own = |native: &Native| native.provider == provider && native.value.is_object();
        match body {
            ItemBody::Message(message) => {
                for part in &message.parts {
                    match part {
                        Part::Text(text) => self.whole_text(text, Slot::Text, out),
                        Part::Image(media) | Part::Audio(media) | Part::File(media) => self.media(media, out),
                        Part::Native(native) if own(native) => self.part(out, |out| write(&native.value, out)),
                        Part::Native(native) => self.sealed_item(&ItemBody::Native(native.clone()), out),
                        _ => {}
                    }
                }
            }
            ItemBody::Reasoning(reasoning) => {
                let text = Text { native: reasoning.native.clone(), ..Text::new(reasoning.text.as_str()) };
                self.whole_text(&text, Slot::Thought, out);
            }
            ItemBody::ToolCall(call) => self.call_part(&delta_of(0, call), out),
            ItemBody::HostedCall(call) if call.provider == provider && call.value.is_object() => {
                self.part(out, |out| write(&call.value, out));
            }
            ItemBody::Native(native) if is_further(native) => self.further(native, out),
            ItemBody::Native(native) if own(native) => self.part(out, |out| write(&native.value, out)),
            // The picture is seen, and the call goes back as it was.
            ItemBody::HostedCall(call) if shown::made(call).is_some() => {
                let Some(media) = shown::made(call) else { return };
                let signature = seal::seal_item(body).map(|signature| json!({"thoughtSignature": signature}));
                let native = signature.map(|value| Native { provider, value });
                self.media(&Media { native, ..media }, out);
            }
            ItemBody::Artifact(artifact) => self.media(&artifact.media, out),
            // Between us and a human; no client is told.
            ItemBody::Approval(_) => {}
            other => self.sealed_item(other, out),
        }
    }

    /// A further answer is a candidate of its own.
    fn further(&mut self, native: &Native, out: &mut Vec<u8>) {
        let Some(candidate) = as_candidate(native) else { return };
        let chunk = json!({
            "candidates": [candidate], "modelVersion": self.head.model, "responseId": self.head.id,
        });
        self.chunk(out, |_, out| write(&chunk, out));
    }

    fn whole_text(&mut self, text: &Text, slot: Slot, out: &mut Vec<u8>) {
        let beside = text.native.clone().and_then(|native| self.wire_state(slot, native));
        if !text.text.is_empty() || beside.is_some() {
            self.said_part(&text.text, slot, beside.as_ref(), out);
        }
    }

    fn sealed_item(&mut self, body: &ItemBody, out: &mut Vec<u8>) {
        if let Some(signature) = seal::seal_item(body) {
            let beside = Map::from_iter([("thoughtSignature".to_owned(), signature.into())]);
            self.said_part("", Slot::Thought, Some(&beside), out);
        }
    }

    fn media(&mut self, media: &Media, out: &mut Vec<u8>) {
        let (key, field, content) = match &media.source {
            MediaSource::Inline(inline) => ("inlineData", "data", &*inline.base64),
            MediaSource::Url(url) => ("fileData", "fileUri", url.url.as_str()),
            MediaSource::ProviderFile(file) => ("fileData", "fileUri", file.id.as_str()),
            MediaSource::Artifact(artifact) => ("fileData", "fileUri", artifact.id.as_str()),
            _ => return,
        };
        let mut blob = Map::new();
        blob.insert(field.to_owned(), content.into());
        blob.extend(media.mime_type.as_ref().map(|mime| ("mimeType".to_owned(), mime.as_str().into())));
        blob.extend(media.name.as_ref().map(|name| ("displayName".to_owned(), name.as_str().into())));
        let mut form = Map::new();
        form.insert(key.to_owned(), Value::Object(blob));
        if let Some(level) = media.detail.as_deref().and_then(parts::level) {
            form.insert("mediaResolution".to_owned(), json!({"level": level}));
        }
        match &media.native {
            Some(native) if native.provider != self.head.provider => form.extend(sealed(native)),
            Some(Native { value: Value::Object(map), .. }) => {
                for (key, value) in map {
                    form.entry(key.as_str()).or_insert_with(|| value.clone());
                }
            }
            _ => {}
        }
        self.part(out, |out| write(&form, out));
    }

    fn finish(&mut self, finished: &TurnFinished, out: &mut Vec<u8>) {
        self.flush_waiting(out);
        self.flush_state(out);
        self.is_done = true;
        let none = Map::new();
        let own = finished.native.as_ref().filter(|native| native.provider == self.head.provider);
        let kept = |key: &str| own.and_then(|native| native.value.get(key)?.as_object()).unwrap_or(&none);
        let mut candidate = Map::new();
        candidate.insert("content".to_owned(), json!({"parts": [{"text": ""}], "role": "model"}));
        // A refusal ends like anything else elsewhere.
        let stop = match &finished.stop {
            StopReason::End if self.has_refused && !self.has_calls => &StopReason::Refusal,
            stop => stop,
        };
        candidate.insert("finishReason".to_owned(), reason_of(stop).into());
        candidate.insert("index".to_owned(), 0.into());
        if *stop == StopReason::Refusal {
            candidate.insert("finishMessage".to_owned(), "The model refused.".into());
        }
        candidate.extend(self.sources.grounding().map(|grounding| ("groundingMetadata".to_owned(), grounding)));
        if !self.pieces.0.is_empty() {
            candidate.insert("logprobsResult".to_owned(), as_result(&self.pieces.0));
        }
        candidate.extend(std::mem::take(&mut self.text_state));
        candidate.extend(kept("candidate").clone());
        if let (Some(message), false) = (self.malformed.take(), finished.stop.is_cut()) {
            candidate.insert("finishReason".to_owned(), "MALFORMED_FUNCTION_CALL".into());
            candidate.insert("finishMessage".to_owned(), message.into());
        }
        let mut chunk = Map::new();
        // The provider's own word for a request that was blocked has no candidate.
        let feedback = kept("response").get("promptFeedback");
        let is_blocked = feedback.is_some_and(|feedback| {
            ["blockReason", "block_reason"].iter().any(|key| feedback.get(key).is_some_and(Value::is_string))
        });
        if !(is_blocked && finished.stop == StopReason::ContentFilter) {
            chunk.insert("candidates".to_owned(), Value::Array(vec![Value::Object(candidate)]));
        }
        let mut kept_usage = kept("usage").clone();
        if let Some(tier) = &finished.service_tier {
            kept_usage.insert("serviceTier".to_owned(), tier.as_str().into());
        }
        if let Some(usage) = &self.usage {
            chunk.insert("usageMetadata".to_owned(), usage::encode(usage, Some(&kept_usage)));
        } else if !kept_usage.is_empty() {
            chunk.insert("usageMetadata".to_owned(), Value::Object(kept_usage));
        }
        chunk.insert("modelVersion".to_owned(), self.head.model.as_str().into());
        chunk.insert("responseId".to_owned(), self.head.id.as_str().into());
        chunk.extend(kept("response").clone());
        self.chunk(out, |_, out| write(&chunk, out));
    }
}

/// Arguments that are an object.
enum Written<'t> {
    /// They are written as one: no tree is needed.
    Object(&'t str),
    /// There are none, or they stand in a text.
    Other(Map<String, Value>),
}

impl<'t> Written<'t> {
    fn of(text: &'t str) -> Option<Self> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok().then_some(Written::Object(text));
        }
        Arguments::from_text(text).parse().ok().map(Written::Other)
    }
}

fn rest<'v>(fields: impl Iterator<Item = (&'v String, &'v Value)>, out: &mut Vec<u8>) {
    for (key, value) in fields {
        out.push(b',');
        write(key, out);
        out.push(b':');
        write(value, out);
    }
}

fn sealed(native: &Native) -> Map<String, Value> {
    Map::from_iter([("thoughtSignature".to_owned(), seal::seal(native).into())])
}

pub(super) fn delta_of(index: u32, call: &placet_core::ToolCall) -> CallDelta {
    CallDelta {
        index,
        provider_id: call.provider_id.clone(),
        name: Some(call.name.as_str().to_owned()),
        arguments: call.arguments.as_text().to_owned(),
        native: call.native.clone(),
    }
}
