//! The one decoder and the one encoder of server-sent events. Neither does input or output.
//!
//! Bytes are buffered as bytes and cut into lines first; text is decoded line by line after that, so that a character
//! split over two pieces is whole again. Lines end with LF, CRLF or CR. What this module does not know (fields, comments)
//! is passed over.

use std::collections::VecDeque;

/// The longest event that is taken by default: 16 MiB. One event of a model holds at most a whole answer.
pub const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name, where the stream gave one.
    pub event: Option<String>,
    /// Its data; the lines of one event are joined by LF.
    pub data: String,
    /// Its id, where this event set one.
    pub id: Option<String>,
    /// The time to wait before connecting again, in milliseconds, where this event set one.
    pub retry: Option<u64>,
}

/// An event is longer than the decoder takes. Nothing after it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than the limit of {limit} bytes")]
pub struct EventTooLong {
    /// The limit in bytes.
    pub limit: usize,
}

/// Takes bytes as they arrive and gives events.
///
/// ```
/// let mut decoder = placet_wire::sse::SseDecoder::new();
/// decoder.push(b"data: on").unwrap();
/// assert_eq!(decoder.next_event(), None);
/// decoder.push(b"e\r\n\r\n").unwrap();
/// assert_eq!(decoder.next_event().unwrap().data, "one");
/// ```
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// The last byte was a CR that ended a line: an LF right after it belongs to that end.
    after_cr: bool,
    /// No line has been read yet, so a byte order mark may stand before it.
    at_start: bool,
    /// The event that is being read.
    open: Open,
    ready: VecDeque<SseEvent>,
    failed: Option<EventTooLong>,
}

/// An event whose blank line has not come. Its room is used again for the next one.
#[derive(Debug, Default)]
struct Open {
    name: String,
    data: Vec<u8>,
    has_data: bool,
    id: Option<String>,
    retry: Option<u64>,
}

impl Default for SseDecoder {
    fn default() -> Self {
        SseDecoder::new()
    }
}

impl SseDecoder {
    /// A decoder that takes events of up to [`MAX_EVENT_BYTES`].
    #[must_use]
    pub fn new() -> Self {
        SseDecoder::with_limit(MAX_EVENT_BYTES)
    }

    /// A decoder that takes events of up to `limit` bytes.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        SseDecoder {
            limit,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            open: Open::default(),
            ready: VecDeque::new(),
            failed: None,
        }
    }

    /// Takes the next bytes. What they complete is then given by [`SseDecoder::next_event`].
    ///
    /// # Errors
    /// [`EventTooLong`], from then on always. Events that were whole before it are still given.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), EventTooLong> {
        let mut ready = std::mem::take(&mut self.ready);
        let pushed = self.take(bytes, &mut |open| ready.push_back(open.event()));
        self.ready = ready;
        pushed
    }

    /// Takes the next bytes and hands each event that they complete to `each`: its name and its data. As [`SseDecoder::push`], but
    /// nothing is kept of an event.
    ///
    /// # Errors
    /// As [`SseDecoder::push`].
    pub(crate) fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(Option<&str>, &str)) -> Result<(), EventTooLong> {
        self.take(bytes, &mut |open| open.hand(each))
    }

    /// The next whole event, if there is one.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    /// The stream has ended: gives what came after the last blank line, which a server that closes at once leaves open.
    /// Whoever uses it must bear that its data may be cut.
    pub fn finish(&mut self) -> Option<SseEvent> {
        if let Some(event) = self.ready.pop_front() {
            return Some(event);
        }
        let mut event = None;
        self.close(&mut |open| event = Some(open.event()));
        event
    }

    /// The stream has ended: hands what was left open to `each`. As [`SseDecoder::finish`].
    pub(crate) fn feed_end(&mut self, each: &mut dyn FnMut(Option<&str>, &str)) {
        self.close(&mut |open| open.hand(each));
    }

    /// Ends the open event as if a blank line had come.
    fn close(&mut self, whole: &mut dyn FnMut(&mut Open)) {
        if self.failed.is_some() {
            return;
        }
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.end_line(&line, whole);
        }
        self.open.end(whole);
    }

    fn take(&mut self, mut bytes: &[u8], whole: &mut dyn FnMut(&mut Open)) -> Result<(), EventTooLong> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.bound(self.line.len() + bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.bound(self.line.len() + end)?;
            self.after_cr = bytes[end] == b'\r';
            if self.line.is_empty() {
                self.end_line(&bytes[..end], whole);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                self.end_line(&line, whole);
                line.clear();
                self.line = line;
            }
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    fn bound(&mut self, line: usize) -> Result<(), EventTooLong> {
        if self.open.data.len() + line <= self.limit {
            return Ok(());
        }
        let error = EventTooLong { limit: self.limit };
        self.failed = Some(error);
        (self.line, self.open) = (Vec::new(), Open::default());
        Err(error)
    }

    fn end_line(&mut self, line: &[u8], whole: &mut dyn FnMut(&mut Open)) {
        let line =
            if std::mem::take(&mut self.at_start) { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) } else { line };
        if line.is_empty() { self.open.end(whole) } else { self.open.line(line) }
    }
}

impl Open {
    fn line(&mut self, line: &[u8]) {
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.push_str(&String::from_utf8_lossy(value));
            }
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.retry = String::from_utf8_lossy(value).parse().ok();
            }
            _ => {}
        }
    }

    /// A blank line: what has data is an event. What is not taken of it is forgotten.
    fn end(&mut self, whole: &mut dyn FnMut(&mut Open)) {
        if std::mem::take(&mut self.has_data) {
            whole(self);
        }
        self.name.clear();
        self.data.clear();
        (self.id, self.retry) = (None, None);
    }

    fn hand(&self, each: &mut dyn FnMut(Option<&str>, &str)) {
        let name = Some(self.name.as_str()).filter(|name| !name.is_empty());
        each(name, &String::from_utf8_lossy(&self.data));
    }

    fn event(&mut self) -> SseEvent {
        let name = std::mem::take(&mut self.name);
        let data = match String::from_utf8(std::mem::take(&mut self.data)) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        SseEvent {
            event: Some(name).filter(|name| !name.is_empty()),
            data,
            id: self.id.take(),
            retry: self.retry.take(),
        }
    }
}

/// Appends an event to `out` as bytes of a stream.
///
/// Lines of the data that end with CR or CRLF come out as if they ended with LF, because the format cannot tell them
/// apart. Line breaks in a name or id are left out.
pub fn encode(event: &SseEvent, out: &mut Vec<u8>) {
    let mut field = |name: &str, value: &str| {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend(value.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')));
        out.push(b'\n');
    };
    if let Some(name) = &event.event {
        field("event", name);
    }
    if let Some(id) = &event.id {
        field("id", id);
    }
    if let Some(retry) = event.retry {
        field("retry", &retry.to_string());
    }
    let mut rest = event.data.as_str();
    loop {
        let end = rest.find(['\n', '\r']);
        field("data", &rest[..end.unwrap_or(rest.len())]);
        let Some(end) = end else { break };
        rest = rest[end..].strip_prefix("\r\n").unwrap_or(&rest[end + 1..]);
    }
    out.push(b'\n');
}

/// Appends an event without a name, whose data `write` appends: one line, as JSON is.
pub(crate) fn encode_data(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"data: ");
    write(out);
    out.extend_from_slice(b"\n\n");
}

/// Appends an event with a name, whose data `write` appends: one line, as JSON is.
pub(crate) fn encode_named_data(name: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    encode_data(out, write);
}

/// Appends a comment to `out`: keeps a connection open and means nothing to the reader.
pub fn encode_comment(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b": ");
    out.extend(text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')));
    out.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests;
