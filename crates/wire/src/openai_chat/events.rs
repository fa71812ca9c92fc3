//! From turn events to the stream that a client of this protocol reads.

use super::delta::{call_head, field, more, piece, put};
use super::layout::{Place, sealed};
use super::usage::usage_form;
use super::{custom_input, encode_error_event};
use crate::citations::Sources;
use crate::further::{as_choice, is_further};
use crate::probabilities::Pieces;
use crate::request::AnswerHead;
use crate::shown;
use crate::sse::encode_data;
use crate::stopped::{self, is_cut_short};
use crate::tiers;
use placet_core::item::Message;
use placet_core::part::{Media, MediaSource, Native};
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnFinished};
use placet_core::{Arguments, ErrorKind, ItemBody, Part, ProviderError, StopReason, TurnEvent, Usage};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Writes the stream of one answer: events in, bytes out, whole events at a time.
///
/// Thinking goes out as `reasoning_content`. What this protocol has no field for travels sealed, at the end. Words for an end
/// that are not the protocol's own become `stop`, with the word itself in `native_finish_reason`.
#[derive(Debug)]
pub struct EventEncoder {
    head: AnswerHead,
    /// Every chunk up to its choices.
    before: Vec<u8>,
    /// Every chunk after its choices.
    after: &'static [u8],
    is_started: bool,
    is_done: bool,
    has_refused: bool,
    usage: Option<Usage>,
    calls: Vec<OutCall>,
    /// Which of them stands at a place.
    numbers: HashMap<u32, usize>,
    ids: HashSet<String>,
    /// The client's tools that take a text.
    custom: HashSet<String>,
    places: BTreeMap<(u32, u8), Place>,
    /// Where the text is from, as another provider says.
    sources: Sources,
    pieces: Pieces,
    needs_layout: bool,
}

#[derive(Debug, Default)]
struct OutCall {
    id: Option<String>,
    name: Option<String>,
    is_custom: bool,
    is_open: bool,
    /// Arguments that are not written yet: of a call without a name, of a tool that takes a text, or what may turn out to be
    /// no arguments at all.
    held: String,
    has_written: bool,
    /// All of its arguments so far.
    arguments: String,
    fields: Map<String, Value>,
}

impl OutCall {
    /// The kind of the call, and the field that holds what it is called with.
    fn words(&self) -> (&'static str, &'static str) {
        if self.is_custom { ("custom", "input") } else { ("function", "arguments") }
    }
}

/// An encoder of the answer with this head.
#[must_use]
pub fn encode_events(head: AnswerHead) -> EventEncoder {
    EventEncoder::new(head)
}

/// What may stand for no arguments, and how it begins.
fn may_be_none(arguments: &str) -> bool {
    let text = arguments.trim_start();
    ["null", "\"null\"", "\"\""].iter().any(|none| none.starts_with(text.trim_end()))
}

impl EventEncoder {
    fn new(head: AnswerHead) -> Self {
        let mut before = b"{\"id\":".to_vec();
        put(&mut before, &head.id);
        before.extend_from_slice(b",\"object\":\"chat.completion.chunk\",\"created\":");
        put(&mut before, &head.created);
        before.extend_from_slice(b",\"model\":");
        put(&mut before, &head.model);
        let after: &[u8] = if head.stream_usage { b",\"usage\":null}" } else { b"}" };
        EventEncoder::between(before, after, head)
    }

    /// As [`encode_events`], but that its chunks say only what differs between them.
    pub(super) fn bare(head: AnswerHead) -> Self {
        EventEncoder::between(b"{\"object\":null".to_vec(), b"}", head)
    }

    fn between(before: Vec<u8>, after: &'static [u8], head: AnswerHead) -> Self {
        let tools = head.request.as_ref().and_then(|request| request.get("tools")?.as_array());
        let custom = tools.into_iter().flatten().filter(|tool| tool["type"] == "custom");
        let custom = custom.filter_map(|tool| tool["custom"]["name"].as_str().map(str::to_owned)).collect();
        EventEncoder {
            before,
            after,
            head,
            is_started: false,
            is_done: false,
            has_refused: false,
            usage: None,
            calls: Vec::new(),
            numbers: HashMap::new(),
            ids: HashSet::new(),
            custom,
            places: BTreeMap::new(),
            sources: Sources::default(),
            pieces: Pieces::default(),
            needs_layout: false,
        }
    }

    /// Takes one event and appends the chunks that follow from it to `out`. After the end nothing more is written.
    pub fn push(&mut self, event: &TurnEvent, out: &mut Vec<u8>) {
        if self.is_done {
            return;
        }
        self.sources.note(event, &self.head.provider);
        self.pieces.note(event, &self.head.provider);
        match event {
            TurnEvent::Started(_) => self.start(out),
            TurnEvent::Text(delta) => {
                self.text(delta.index, &delta.text, out);
            }
            TurnEvent::Refusal(delta) => self.refusal(delta, out),
            TurnEvent::Reasoning(delta) => {
                let place = self.places.entry((delta.index, 0)).or_insert(Place::Reasoning(String::new(), None));
                if let Place::Reasoning(text, _) = place {
                    text.push_str(&delta.text);
                }
                if !delta.text.is_empty() {
                    self.delta(out, |out| piece(out, "reasoning_content", &delta.text));
                }
            }
            TurnEvent::ReasoningState(state) => self.reasoning_state(state, out),
            TurnEvent::TextState(state) => self.text_state(state, out),
            TurnEvent::Call(delta) => self.call(delta, out),
            TurnEvent::Whole(whole) => self.whole(whole.index, &whole.body, out),
            TurnEvent::Usage(usage) => self.usage = Some(*usage),
            TurnEvent::Finished(finished) => self.finish(finished, out),
            TurnEvent::Failed(error) => {
                self.is_done = true;
                encode_error_event(error, out);
            }
            _ => {}
        }
    }

    /// No more events come: without an end so far, the stream ends with an error.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_done, true) {
            let message = "the answer ended before its end marker; what arrived is partial";
            encode_error_event(&ProviderError::new(ErrorKind::Interrupted, self.head.provider.clone(), message), out);
        }
    }

    fn is_own(&self, native: &Native) -> bool {
        native.provider == self.head.provider
    }

    fn start(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_started, true) {
            self.chunk(out, |out| out.extend_from_slice(b"\"role\":\"assistant\",\"content\":\"\""), None);
        }
    }

    /// A chunk whose delta holds what `write` writes.
    fn delta(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.start(out);
        self.chunk(out, write, None);
    }

    fn chunk(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>), finish: Option<&Map<String, Value>>) {
        encode_data(out, |out| {
            out.extend_from_slice(&self.before);
            out.extend_from_slice(b",\"choices\":[{\"index\":0,\"delta\":{");
            write(out);
            match finish {
                None => out.extend_from_slice(b"},\"finish_reason\":null}]"),
                Some(fields) => {
                    out.push(b'}');
                    for (key, value) in fields {
                        out.push(b',');
                        put(out, key);
                        out.push(b':');
                        put(out, value);
                    }
                    out.extend_from_slice(b"}]");
                }
            }
            out.extend_from_slice(self.after);
        });
    }

    fn text(&mut self, index: u32, text: &str, out: &mut Vec<u8>) {
        if let Place::Text(length, _) = self.places.entry((index, 1)).or_insert(Place::Text(0, None)) {
            *length += text.len();
        }
        if !text.is_empty() {
            self.delta(out, |out| piece(out, "content", text));
        }
    }

    fn refusal(&mut self, delta: &TextDelta, out: &mut Vec<u8>) {
        if let Place::Refusal(length) = self.places.entry((delta.index, 2)).or_insert(Place::Refusal(0)) {
            *length += delta.text.len();
        }
        self.has_refused = true;
        if !delta.text.is_empty() {
            self.delta(out, |out| piece(out, "refusal", &delta.text));
        }
    }

    fn reasoning_state(&mut self, state: &ReasoningState, out: &mut Vec<u8>) {
        let place = self.places.entry((state.index, 0)).or_insert(Place::Reasoning(String::new(), None));
        if let Place::Reasoning(_, native) = place {
            *native = Some(state.native.clone());
        }
        if !self.is_own(&state.native) {
            self.needs_layout = true;
        } else if let Some(details) = state.native.value.get("details") {
            self.delta(out, |out| {
                out.extend_from_slice(b"\"reasoning_details\":");
                put(out, details);
            });
        }
    }

    fn text_state(&mut self, state: &ReasoningState, out: &mut Vec<u8>) {
        let place = self.places.entry((state.index, 1)).or_insert(Place::Text(0, None));
        if let Place::Text(_, native) = place {
            *native = Some(state.native.clone());
        }
        match state.native.value.get("annotations").filter(|_| self.is_own(&state.native)) {
            Some(annotations) => {
                let annotations = annotations.as_array().into_iter().flatten().map(annotation_form);
                self.delta(out, |out| field(out, "annotations", &annotations.collect()));
            }
            None => self.needs_layout = true,
        }
    }

    fn call(&mut self, delta: &CallDelta, out: &mut Vec<u8>) {
        let number = *self.numbers.entry(delta.index).or_insert(self.calls.len());
        if number == self.calls.len() {
            self.calls.push(OutCall::default());
        }
        let is_own = delta.native.as_ref().is_some_and(|native| self.is_own(native));
        let call = &mut self.calls[number];
        let given = |text: &Option<String>| text.as_ref().filter(|text| !text.is_empty()).cloned();
        call.id = call.id.take().or_else(|| given(&delta.provider_id));
        call.name = call.name.take().or_else(|| given(&delta.name));
        if let (Some(native), true) = (&delta.native, is_own) {
            for (key, value) in native.value.as_object().into_iter().flatten() {
                call.fields.insert(key.clone(), value.clone());
            }
        }
        call.is_custom |= call.fields.remove("type").is_some_and(|kind| kind == "custom")
            || call.name.as_ref().is_some_and(|name| self.custom.contains(name));
        call.held.push_str(&delta.arguments);
        call.arguments.push_str(&delta.arguments);
        if let Some(name) = call.name.clone() {
            self.open(number, &name, out);
            let call = &mut self.calls[number];
            if call.is_custom {
                // A text is written at once, when all of it is there.
            } else if call.has_written || !may_be_none(&call.held) {
                self.arguments(number, out);
            }
        }
        let id = self.calls[number].id.clone().unwrap_or_default();
        let foreign = delta.native.clone().filter(|_| !is_own);
        self.needs_layout |= foreign.is_some();
        match self.places.entry((delta.index, 3)).or_insert(Place::Call(String::new(), None)) {
            Place::Call(known, native) => {
                *known = id;
                *native = foreign.or(native.take());
            }
            _ => self.needs_layout = true,
        }
    }

    /// Writes the beginning of a call, if it is not written yet, and fields of it that have no name of ours.
    fn open(&mut self, number: usize, name: &str, out: &mut Vec<u8>) {
        if self.calls[number].is_open {
            let fields = std::mem::take(&mut self.calls[number].fields);
            if !fields.is_empty() {
                self.delta(out, |out| {
                    call_head(out, number);
                    more(out, &fields);
                    out.extend_from_slice(b"}]");
                });
            }
            return;
        }
        let id = self.id(number);
        let call = &mut self.calls[number];
        call.is_open = true;
        let fields = std::mem::take(&mut call.fields);
        let (kind, arguments) = call.words();
        self.delta(out, |out| {
            call_head(out, number);
            out.extend_from_slice(b",\"id\":");
            put(out, &id);
            let rest = json!({"type": kind, kind: {"name": name, arguments: ""}});
            more(out, rest.as_object().unwrap_or(&Map::new()));
            more(out, &fields);
            out.extend_from_slice(b"}]");
        });
    }

    /// The id that the client hears of a call: the one it came with, where no other call of this answer has it.
    fn id(&mut self, number: usize) -> String {
        let own = self.calls[number].id.clone();
        let mut id = own.unwrap_or_else(|| format!("call_{}_{number}", self.head.id));
        while !self.ids.insert(id.clone()) {
            id = format!("{id}_{number}");
        }
        self.calls[number].id = Some(id.clone());
        id
    }

    /// Writes the arguments that are held back.
    fn arguments(&mut self, number: usize, out: &mut Vec<u8>) {
        let call = &mut self.calls[number];
        if call.held.is_empty() {
            return;
        }
        call.has_written = true;
        let held = std::mem::take(&mut call.held);
        let (kind, arguments) = call.words();
        self.delta(out, |out| {
            call_head(out, number);
            out.extend_from_slice(b",\"");
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(b"\":{");
            piece(out, arguments, &held);
            out.extend_from_slice(b"}}]");
        });
    }

    fn whole(&mut self, index: u32, body: &ItemBody, out: &mut Vec<u8>) {
        match body {
            ItemBody::Message(message) => self.message(index, message, out),
            ItemBody::Artifact(artifact) => match shown::part_of(&artifact.media) {
                Part::Image(media) => self.images(&[image_form(&media)], out),
                part => self.shown(index, &part, out),
            },
            ItemBody::Native(native) if is_further(native) => {
                self.start(out);
                let Some((index, message, reason)) = as_choice(native) else { return };
                let own = self.is_own(native).then(|| native.value.get("finish_reason")).flatten();
                let choice = json!([{
                    "index": index, "delta": message, "finish_reason": own.cloned().unwrap_or_else(|| reason.into()),
                }]);
                encode_data(out, |out| {
                    out.extend_from_slice(&self.before);
                    out.extend_from_slice(b",\"choices\":");
                    put(out, &choice);
                    out.extend_from_slice(self.after);
                });
            }
            body => {
                if let ItemBody::HostedCall(call) = body
                    && let Some(media) = shown::made(call)
                {
                    self.images(&[image_form(&media)], out);
                }
                self.places.insert((index, 4), Place::Whole(Box::new(body.clone())));
                self.needs_layout = true;
            }
        }
    }

    /// A message that holds more than text: what was said in a sound stands with it.
    fn message(&mut self, index: u32, message: &Message, out: &mut Vec<u8>) {
        let own = message.native.as_ref().filter(|native| self.is_own(native)).map(|native| &native.value);
        let sound = message.parts.iter().find_map(|part| match part {
            Part::Audio(Media { source: MediaSource::Inline(inline), .. }) => Some(&*inline.base64),
            _ => None,
        });
        let known = own.and_then(|own| own.get("audio")?.as_object()).cloned();
        let has_sound = sound.is_some() || known.is_some();
        let text: String = message.parts.iter().filter_map(Part::as_text).collect();
        for part in &message.parts {
            match part {
                Part::Text(_) | Part::Image(_) => {}
                Part::Audio(Media { source: MediaSource::Inline(_), .. }) => {}
                Part::Native(native) => {
                    let body = Box::new(ItemBody::Native(native.clone()));
                    self.places.insert((index, 4), Place::Whole(body));
                    self.needs_layout = true;
                }
                // The protocol has no field for it.
                part => self.shown(index, part, out),
            }
        }
        if has_sound {
            let mut audio = known.unwrap_or_else(|| {
                Map::from_iter([
                    ("id".to_owned(), format!("audio_{}", self.head.id).into()),
                    ("expires_at".to_owned(), 0.into()),
                ])
            });
            audio.extend(sound.map(|sound| ("data".to_owned(), Value::from(sound))));
            audio.insert("transcript".into(), text.into());
            self.delta(out, |out| field(out, "audio", &audio.into()));
        } else {
            self.text(index, &text, out);
        }
        let images: Vec<Value> = match own.and_then(|own| own.get("images")?.as_array()) {
            Some(images) => images.clone(),
            None => {
                let images = message.parts.iter().filter_map(|part| match part {
                    Part::Image(media) => Some(image_form(media)),
                    _ => None,
                });
                images.collect()
            }
        };
        if !images.is_empty() {
            self.images(&images, out);
        }
    }

    fn images(&mut self, images: &[Value], out: &mut Vec<u8>) {
        self.delta(out, |out| field(out, "images", &images.into()));
    }

    /// What has no field in this protocol, as a text.
    fn shown(&mut self, index: u32, part: &Part, out: &mut Vec<u8>) {
        if let Some(text) = shown::markdown(part) {
            self.text(index, &text, out);
        }
    }

    fn finish(&mut self, finished: &TurnFinished, out: &mut Vec<u8>) {
        self.start(out);
        self.is_done = true;
        let stop = stopped::told(&finished.stop, self.calls.iter().any(|call| is_cut_short(&call.arguments)));
        let is_cut = stop.is_cut();
        for number in 0..self.calls.len() {
            self.close(number, is_cut, out);
        }
        let annotations = self.sources.annotations();
        if !annotations.is_empty() {
            let annotations = annotations.into_iter().map(|flat| annotation_form(&flat.into()));
            self.delta(out, |out| field(out, "annotations", &annotations.collect()));
        }
        if self.needs_layout {
            for ((index, _), place) in &mut self.places {
                let call = self.numbers.get(index).and_then(|number| self.calls.get(*number));
                if let (Place::Call(id, _), Some(call)) = (place, call) {
                    *id = call.id.clone().unwrap_or_default();
                }
            }
            let places: Vec<Place> = std::mem::take(&mut self.places).into_values().collect();
            self.chunk(out, |out| field(out, "reasoning_details", &json!([sealed(&places)])), None);
        }
        let own = finished.native.as_ref().filter(|native| self.is_own(native)).map(|native| &native.value);
        let (reason, native_reason) = self.reason(stop);
        let mut fields = Map::new();
        fields.extend(self.pieces.in_chat().map(|pieces| ("logprobs".to_owned(), pieces)));
        let choice = own.and_then(|own| own["choices"][0].as_object());
        let message = choice.and_then(|choice| choice.get("message")?.as_object());
        for (key, value) in choice.into_iter().flatten().filter(|(key, _)| *key != "message") {
            fields.insert(key.clone(), value.clone());
        }
        fields.insert("finish_reason".into(), reason.into());
        if let Some(word) = native_reason {
            fields.insert("native_finish_reason".into(), word.into());
        }
        let mut top = Map::new();
        for (key, value) in own.and_then(Value::as_object).into_iter().flatten() {
            if key != "choices" && key != "usage" {
                top.insert(key.clone(), value.clone());
            }
        }
        if let Some(tier) = &finished.service_tier {
            top.insert("service_tier".into(), tiers::openai(tier, true).unwrap_or(tier).into());
        }
        more(&mut self.before, &top);
        let write = |out: &mut Vec<u8>| {
            let start = out.len();
            more(out, message.unwrap_or(&Map::new()));
            // Without the comma that stands before each field.
            if out.len() > start {
                out.remove(start);
            }
        };
        self.chunk(out, write, Some(&fields));
        if self.head.stream_usage {
            let mut usage = usage_form(&self.usage.unwrap_or_default());
            for (key, value) in own.and_then(|own| own["usage"].as_object()).into_iter().flatten() {
                usage[key.as_str()] = value.clone();
            }
            encode_data(out, |out| {
                out.extend_from_slice(&self.before);
                out.extend_from_slice(b",\"choices\":[],\"usage\":");
                put(out, &usage);
                out.push(b'}');
            });
        }
        encode_data(out, |out| out.extend_from_slice(b"[DONE]"));
    }

    /// Writes what is missing of a call: its beginning where it never got a name, `{}` where it has no arguments. A call of an
    /// answer that was cut stays as it is.
    fn close(&mut self, number: usize, is_cut: bool, out: &mut Vec<u8>) {
        let name = self.calls[number].name.clone().unwrap_or_else(|| "unnamed".to_owned());
        self.open(number, &name, out);
        let call = &mut self.calls[number];
        if call.is_custom {
            call.held = custom_input(&call.held).into_owned();
        } else if !call.has_written && !is_cut && Arguments::from_text(call.held.as_str()).is_absent() {
            call.held = "{}".to_owned();
        }
        self.arguments(number, out);
    }

    /// The word for an end, and the word itself where the protocol has none for it.
    fn reason<'s>(&self, stop: &'s StopReason) -> (&'static str, Option<&'s str>) {
        let plain = if self.calls.is_empty() { "stop" } else { "tool_calls" };
        match stop {
            StopReason::End | StopReason::ToolCalls => (plain, None),
            StopReason::MaxTokens => ("length", None),
            StopReason::ContentFilter => ("content_filter", None),
            StopReason::Refusal if self.has_refused => (plain, None),
            StopReason::Refusal => ("content_filter", Some(stop.as_str())),
            StopReason::StopSequence => ("stop", Some(stop.as_str())),
            StopReason::Pause => ("length", Some(stop.as_str())),
            other => (plain, Some(other.as_str())),
        }
    }
}

/// An annotation in the form of this protocol, which holds its fields one level deeper than the other that the same provider may
/// speak.
fn annotation_form(annotation: &Value) -> Value {
    let Some(flat) = annotation.as_object().filter(|flat| flat.get("type").is_some_and(|kind| kind == "url_citation"))
    else {
        return annotation.clone();
    };
    if !flat.contains_key("url") {
        return annotation.clone();
    }
    let inner: Map<String, Value> =
        flat.iter().filter(|(key, _)| *key != "type").map(|(key, value)| (key.clone(), value.clone())).collect();
    json!({"type": "url_citation", "url_citation": inner})
}

/// A picture in the form in which servers of this protocol give them.
fn image_form(media: &Media) -> Value {
    let mime = media.mime_type.as_deref().unwrap_or("image/png");
    let url = match &media.source {
        MediaSource::Inline(inline) => format!("data:{mime};base64,{}", inline.base64),
        MediaSource::Url(url) => url.url.clone(),
        MediaSource::ProviderFile(file) => file.id.clone(),
        _ => String::new(),
    };
    json!({"type": "image_url", "image_url": {"url": url}})
}
