//! Reading usage, and how an answer ended, from its bytes as they pass.

use super::Speech;
use super::usage::{read, read_whole};
use crate::openai_responses;
use bytes::{Bytes, BytesMut};
use memchr::memmem;
use placet_core::{ProviderError, Usage};
use std::collections::VecDeque;

/// The longest event that is read for usage. A longer one passes unread.
const MAX_EVENT: usize = 8 * 1024 * 1024;
/// The longest body that is read for usage.
const MAX_BODY: usize = 32 * 1024 * 1024;
/// How many of the last events are kept to tell how a stream ended: usage and an end mark may follow the event that ends it.
const KEPT: usize = 3;

/// Sees an answer pass.
#[derive(Debug)]
pub struct Watch {
    speech: Speech,
    kind: Kind,
    usage: Option<Usage>,
    /// Whether the event that holds usage alone is taken out.
    strips: bool,
    /// The beginning of an event, or of a body, whose end has not come.
    open: BytesMut,
    /// Whether what comes is no longer read: it is too large.
    is_blind: bool,
    last: VecDeque<Bytes>,
    /// The first event, where it says what the answer goes by.
    first: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Events,
    Body,
}

/// How much of an answer has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It has its end, as its protocol ends an answer.
    Whole,
    /// It ended with an error of its protocol.
    Failed,
    /// Its end is missing.
    Cut,
}

impl Watch {
    /// Watches a stream of events. With `strips`, the event of a Chat answer that holds usage alone is taken out: the client
    /// did not ask for it.
    #[must_use]
    pub fn events(speech: Speech, strips: bool) -> Self {
        Watch::new(speech, Kind::Events, strips && speech == Speech::OpenaiChat)
    }

    /// Watches one JSON body.
    #[must_use]
    pub fn body(speech: Speech) -> Self {
        Watch::new(speech, Kind::Body, false)
    }

    fn new(speech: Speech, kind: Kind, strips: bool) -> Self {
        let (open, last) = (BytesMut::new(), VecDeque::new());
        Watch { speech, kind, usage: None, strips, open, is_blind: false, last, first: None }
    }

    /// What was used, as far as it was said.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Sees a piece and gives what of it goes on: the same bytes, but for an event that is taken out. Where events are taken
    /// out, one whose end has not come is held back.
    pub fn pass(&mut self, piece: Bytes) -> Bytes {
        match self.kind {
            Kind::Body => self.pass_body(piece),
            Kind::Events if self.strips => self.pass_strictly(piece),
            Kind::Events => self.pass_events(piece),
        }
    }

    fn pass_body(&mut self, piece: Bytes) -> Bytes {
        if self.is_blind || self.open.len() + piece.len() > MAX_BODY {
            self.is_blind = true;
            self.open = BytesMut::new();
            return piece;
        }
        // Nearly every body comes in one piece, which then is not copied.
        if self.open.is_empty() && self.last.is_empty() {
            self.last.push_back(piece.clone());
        } else {
            if let Some(first) = self.last.pop_front() {
                self.open.extend_from_slice(&first);
            }
            self.open.extend_from_slice(&piece);
        }
        piece
    }

    fn pass_events(&mut self, piece: Bytes) -> Bytes {
        if self.open.is_empty() && ends_event(&piece) {
            self.see(&piece);
            self.keep(&piece);
        } else if self.is_blind {
            self.keep(&piece);
        } else {
            self.open.extend_from_slice(&piece);
            let whole = whole_events(&self.open);
            if whole > 0 {
                let events = self.open.split_to(whole).freeze();
                self.see(&events);
                self.keep(&events);
            }
            self.bound();
        }
        piece
    }

    fn pass_strictly(&mut self, piece: Bytes) -> Bytes {
        if self.is_blind {
            self.keep(&piece);
            return piece;
        }
        let events = if self.open.is_empty() && ends_event(&piece) {
            piece
        } else {
            self.open.extend_from_slice(&piece);
            let whole = whole_events(&self.open);
            if whole == 0 && self.open.len() > MAX_EVENT {
                self.is_blind = true;
                return std::mem::take(&mut self.open).freeze();
            }
            self.open.split_to(whole).freeze()
        };
        let events = if self.see(&events) { self.without_usage(&events) } else { events };
        self.keep(&events);
        events
    }

    /// An event that grows without end is not kept.
    fn bound(&mut self) {
        if self.open.len() > MAX_EVENT {
            self.is_blind = true;
            self.open = BytesMut::new();
        }
    }

    fn keep(&mut self, piece: &Bytes) {
        if self.speech == Speech::OpenaiResponses && self.first.is_none() && !piece.is_empty() {
            self.first = Some(piece.slice(..event_end(piece)));
        }
        let mut events = Vec::with_capacity(KEPT);
        let mut end = piece.len();
        while end > 0 && events.len() < KEPT {
            let start = last_event(&piece[..end]);
            events.push(piece.slice(start..end));
            end = start;
        }
        for event in events.into_iter().rev() {
            if self.last.len() == KEPT {
                self.last.pop_front();
            }
            self.last.push_back(event);
        }
    }

    /// Reads whole events; says whether one of them holds usage alone.
    fn see(&mut self, events: &[u8]) -> bool {
        if !names_usage(events) {
            return false;
        }
        let mut has_only_usage = false;
        for event in split_events(events) {
            if names_usage(event) {
                has_only_usage |= self.read_event(event);
            }
        }
        has_only_usage
    }

    fn read_event(&mut self, event: &[u8]) -> bool {
        let said = read(self.speech, &data_of(event), self.usage.unwrap_or_default());
        self.usage = said.usage.or(self.usage);
        said.is_only_usage
    }

    fn without_usage(&self, events: &Bytes) -> Bytes {
        let mut kept = BytesMut::with_capacity(events.len());
        for event in split_events(events) {
            if !names_usage(event) || !read(self.speech, &data_of(event), Usage::default()).is_only_usage {
                kept.extend_from_slice(event);
            }
        }
        kept.freeze()
    }

    /// The bytes have ended: gives what was held back, and says how the answer ended.
    pub fn end(&mut self) -> (Bytes, Passage) {
        match self.kind {
            Kind::Body => {
                if !self.is_blind {
                    let whole = self.last.front().cloned().unwrap_or_else(|| self.open.split().freeze());
                    self.usage = read_whole(self.speech, &whole).or(self.usage);
                    // A stream that is one list of answers: the last one counts.
                    if self.usage.is_none() && whole.trim_ascii_start().starts_with(b"[") {
                        let list: Vec<&serde_json::value::RawValue> =
                            serde_json::from_slice(&whole).unwrap_or_default();
                        self.usage = list.iter().rev().find_map(|one| read_whole(self.speech, one.get().as_bytes()));
                    }
                }
                (Bytes::new(), Passage::Whole)
            }
            Kind::Events => {
                let rest = self.open.split().freeze();
                if !rest.is_empty() {
                    self.see(&rest);
                }
                self.keep(&rest);
                let held = if self.strips { rest } else { Bytes::new() };
                (held, self.passage())
            }
        }
    }

    /// Appends the event that ends a stream which broke off after it had begun. It goes by what the answer said of itself; `id`
    /// names it where it said nothing.
    pub fn encode_break(&self, id: &str, error: &ProviderError, out: &mut Vec<u8>) {
        let first = self.first.as_ref().and_then(|event| serde_json::from_slice::<Head>(&data_of(event)).ok());
        match first.map(|head| head.response).filter(serde_json::Value::is_object) {
            Some(response) => {
                let numbers = self.last.iter().rev().flat_map(|piece| split_events(piece));
                let last = numbers.filter_map(|event| serde_json::from_slice::<Numbered>(&data_of(event)).ok());
                let next = last.map(|event| event.sequence_number.saturating_add(1)).max().unwrap_or(1);
                openai_responses::encode_failed_after(&response, next, error, out);
            }
            None => self.speech.encode_break(id, error, out),
        }
    }

    /// How the answer ended, by its last events.
    fn passage(&self) -> Passage {
        // The words that end an answer may also stand in what is said, where their quotes are escaped or they are no type.
        let has = |name: &str| self.last.iter().any(|piece| memmem::find(piece, name.as_bytes()).is_some());
        let any = |is: &dyn Fn(&[u8]) -> bool| self.last.iter().any(|piece| split_events(piece).any(is));
        let is_whole = match self.speech {
            Speech::OpenaiChat => {
                any(&|event| data_of(event).trim_ascii() == b"[DONE]")
                    || self.last.iter().any(|piece| has_value(piece, b"\"finish_reason\""))
            }
            Speech::OpenaiResponses => any(&|event| is_of(event, &["response.completed", "response.incomplete"])),
            Speech::AnthropicMessages => any(&|event| is_of(event, &["message_stop"])),
            Speech::Gemini => has("\"finishReason\"") || has("\"finish_reason\"") || has("\"blockReason\""),
        };
        let has_failed = self.speech == Speech::OpenaiResponses && any(&|event| is_of(event, &["response.failed"]));
        if has_failed || any(&is_error) {
            Passage::Failed
        } else if is_whole {
            Passage::Whole
        } else {
            Passage::Cut
        }
    }
}

/// The event that a Responses answer begins with.
#[derive(serde::Deserialize)]
struct Head {
    response: serde_json::Value,
}

/// An event of a Responses answer.
#[derive(serde::Deserialize)]
struct Numbered {
    sequence_number: u64,
}

/// How an answer begins that comes as a stream of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Nothing has been said yet.
    Nothing,
    /// Something has.
    Said,
    /// The first thing that is said is an error: this is the data of its event.
    Failed(Vec<u8>),
}

impl Opening {
    /// Reads the beginning of a stream. What only says that an answer will come says nothing.
    #[must_use]
    pub fn read(speech: Speech, beginning: &[u8]) -> Self {
        const ANNOUNCE: [&str; 5] =
            ["response.created", "response.queued", "response.in_progress", "message_start", "ping"];
        let announces = match speech {
            Speech::OpenaiResponses | Speech::AnthropicMessages => &ANNOUNCE[..],
            Speech::OpenaiChat | Speech::Gemini => &[],
        };
        let whole = whole_events(beginning);
        for event in split_events(&beginning[..whole]) {
            let data = data_of(event);
            if tells_error(event) {
                return Opening::Failed(data.into_owned());
            }
            // Comments keep a connection alive.
            if !data.is_empty() && !is_of(event, announces) {
                return Opening::Said;
            }
        }
        Opening::Nothing
    }
}

/// Keeps events that may tell of an error whole, so that nothing of one goes on before it has been looked at.
#[derive(Debug, Default)]
pub struct Whole {
    held: BytesMut,
    /// Whether the beginning of the event that is being told has gone on.
    is_within: bool,
}

impl Whole {
    /// Up to how many bytes the beginning of any event is held.
    const SHORT: usize = 1024;
    /// Up to how many bytes the beginning of an event is held that looks like an error.
    const LONG: usize = 1 << 20;

    /// Gives what of a piece can go on, after what was held of those before it. Of an event whose end has not come nothing
    /// goes on for as long as it is short or looks like an error; a client could not read it anyway.
    pub fn pass(&mut self, piece: Bytes) -> Bytes {
        // Nearly every piece ends here.
        if self.held.is_empty() && ends_event(&piece) {
            self.is_within = false;
            return piece;
        }
        let mut piece = if self.held.is_empty() {
            piece
        } else {
            self.held.extend_from_slice(&piece);
            self.held.split().freeze()
        };
        let whole = whole_events(&piece);
        if whole == 0 && self.is_within {
            return piece;
        }
        let open = &piece[whole..];
        let is_held = open.len() < Whole::SHORT || (open.len() < Whole::LONG && looks_like_error(open));
        self.is_within = !open.is_empty() && !is_held;
        if is_held {
            self.held.extend_from_slice(&piece.split_off(whole));
        }
        piece
    }

    /// The bytes have ended: gives what is held, which may be an event without its last empty line. The beginning of an error
    /// is not given.
    pub fn end(&mut self) -> Bytes {
        let held = self.held.split().freeze();
        if looks_like_error(&held) && !tells_error(&held) { Bytes::new() } else { held }
    }

    /// Whether the beginning of an event has gone on whose end has not come.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.is_within
    }
}

/// Whether it may be the beginning of an event that tells of an error.
fn looks_like_error(beginning: &[u8]) -> bool {
    [&b"\"error\""[..], b"event: error", b"event:error", b"response.failed"]
        .iter()
        .any(|word| memmem::find(beginning, word).is_some())
}

/// Whether an event tells of an error.
fn tells_error(event: &[u8]) -> bool {
    is_error(event) || is_of(event, &["response.failed"])
}

/// Events in which the errors that a provider tells are without what `clean` takes out of their data; nothing where that is nothing.
/// An event of which a part is still to come is not looked at.
#[must_use]
pub fn with_clean_errors(events: &Bytes, clean: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Bytes> {
    // Nearly every piece ends here.
    memmem::find(events, b"\"error\"")?;
    let mut out = BytesMut::new();
    let mut has_changed = false;
    for event in split_events(events) {
        match tells_error(event).then(|| clean(&data_of(event))).flatten() {
            Some(data) => {
                has_changed = true;
                let text = event.strip_suffix(b"\n\n").unwrap_or(event).trim_ascii_end();
                let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"data:"));
                for line in lines.filter(|line| !line.is_empty()) {
                    out.extend_from_slice(line.trim_ascii_end());
                    out.extend_from_slice(b"\n");
                }
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(&data);
                out.extend_from_slice(if ends_event(event) { b"\n\n" } else { b"\n" });
            }
            None => out.extend_from_slice(event),
        }
    }
    has_changed.then(|| out.freeze())
}

/// Whether an event is of one of these types.
fn is_of(event: &[u8], kinds: &[&str]) -> bool {
    #[derive(serde::Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, rename = "type")]
        kind: std::borrow::Cow<'a, str>,
    }
    kinds.iter().any(|kind| memmem::find(event, kind.as_bytes()).is_some())
        && serde_json::from_slice::<Typed<'_>>(&data_of(event)).is_ok_and(|typed| kinds.contains(&&*typed.kind))
}

/// Whether an event tells of an error, in the way of any protocol.
fn is_error(event: &[u8]) -> bool {
    if memmem::find(event, b"\"error\"").is_none() {
        return false;
    }
    #[derive(serde::Deserialize)]
    struct Any<'a> {
        #[serde(default, rename = "type")]
        kind: Option<std::borrow::Cow<'a, str>>,
        #[serde(default, borrow)]
        error: Option<&'a serde_json::value::RawValue>,
    }
    let data = data_of(event);
    serde_json::from_slice::<Any<'_>>(&data)
        .is_ok_and(|any| any.kind.as_deref() == Some("error") || any.error.is_some_and(|error| error.get() != "null"))
}

/// Whether a field of that name has a value other than null.
fn has_value(bytes: &[u8], name: &[u8]) -> bool {
    memmem::find_iter(bytes, name).any(|at| {
        let rest = bytes.get(at + name.len()..).unwrap_or_default().trim_ascii_start();
        rest.strip_prefix(b":").is_some_and(|value| !value.trim_ascii_start().starts_with(b"null"))
    })
}

/// Whether usage may stand in there: a field that begins so and is not null.
fn names_usage(bytes: &[u8]) -> bool {
    const BEGINNING: &[u8] = b"\"usage";
    memmem::find_iter(bytes, BEGINNING).any(|at| {
        let rest = bytes.get(at + BEGINNING.len()..).unwrap_or_default();
        let Some(quote) = memchr::memchr(b'"', rest) else { return false };
        let value = rest.get(quote + 1..).unwrap_or_default().trim_ascii_start();
        value.strip_prefix(b":").is_some_and(|value| value.trim_ascii_start().starts_with(b"{"))
    })
}

fn ends_event(piece: &[u8]) -> bool {
    MARKS.iter().any(|mark| piece.ends_with(mark))
}

/// How many bytes at the beginning are whole events.
fn whole_events(bytes: &[u8]) -> usize {
    let after = |mark: &[u8]| memmem::rfind(bytes, mark).map_or(0, |at| at + mark.len());
    after(b"\n\n").max(after(b"\r\n\r\n")).max(after(b"\r\r"))
}

/// Events, each with the blank line that ends it.
fn split_events(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let (event, rest) = bytes.split_at(event_end(bytes));
        bytes = rest;
        Some(event)
    })
}

/// The marks that end an event: a line's end and an empty line.
const MARKS: [&[u8]; 3] = [b"\n\n", b"\r\n\r\n", b"\r\r"];

/// Where the first event ends.
fn event_end(bytes: &[u8]) -> usize {
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &bytes[from..]) {
        let line_end = &bytes[from + at..];
        if let Some(mark) = MARKS.iter().find(|mark| line_end.starts_with(mark)) {
            return from + at + mark.len();
        }
        from += at + 1;
    }
    bytes.len()
}

/// Where the last event begins.
fn last_event(bytes: &[u8]) -> usize {
    let mut to = bytes.len() - bytes.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
    while let Some(at) = memchr::memrchr2(b'\n', b'\r', &bytes[..to]) {
        if ends_event(&bytes[..=at]) {
            return at + 1;
        }
        to = at;
    }
    0
}

/// The data of an event. Several lines of it are joined.
fn data_of(event: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let mut lines = event
        .split(|byte| matches!(byte, b'\n' | b'\r'))
        .filter_map(|line| line.strip_prefix(b"data:"))
        .map(|data| data.strip_prefix(b" ").unwrap_or(data));
    let Some(first) = lines.next() else { return std::borrow::Cow::Borrowed(&[]) };
    let mut joined: Option<Vec<u8>> = None;
    for line in lines {
        let whole = joined.get_or_insert_with(|| first.to_vec());
        whole.push(b'\n');
        whole.extend_from_slice(line);
    }
    joined.map_or(std::borrow::Cow::Borrowed(first), std::borrow::Cow::Owned)
}

#[cfg(test)]
mod tests;
