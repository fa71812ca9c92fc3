//! How the pieces of a stream are told apart: as server-sent events, or as the elements of one JSON array.

use crate::sse::{EventTooLong, MAX_EVENT_BYTES, SseDecoder};

/// Takes bytes and gives the JSON texts in them. Which of the two forms it is, the first byte says.
#[derive(Debug)]
pub(super) struct Framing {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Nothing but space has come.
    Unknown(Vec<u8>),
    Sse(SseDecoder),
    Array(Elements),
}

impl Framing {
    pub(super) fn new() -> Self {
        Framing { kind: Kind::Unknown(Vec::new()) }
    }

    /// Takes the next bytes and hands every text that they complete to `each`.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) -> Result<(), EventTooLong> {
        if let Kind::Unknown(start) = &mut self.kind {
            start.extend_from_slice(bytes);
            let text = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
            let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
            // A mark of the byte order that has not come in full.
            let is_open = start.len() < 3 && b"\xEF\xBB\xBF".starts_with(start);
            let Some(first) = first.filter(|_| !is_open) else { return Ok(()) };
            let is_array = matches!(first, b'[' | b'{');
            let start = std::mem::take(start);
            self.kind = if is_array { Kind::Array(Elements::default()) } else { Kind::Sse(SseDecoder::new()) };
            return self.take(&start, &mut each);
        }
        self.take(bytes, &mut each)
    }

    fn take(&mut self, bytes: &[u8], each: &mut dyn FnMut(&str)) -> Result<(), EventTooLong> {
        match &mut self.kind {
            Kind::Unknown(_) => Ok(()),
            Kind::Sse(sse) => sse.feed(bytes, &mut |_, data| each(data)),
            Kind::Array(elements) => elements.push(bytes, each),
        }
    }

    /// The stream has ended: gives what it left open, which may be cut.
    pub(super) fn finish(&mut self, mut each: impl FnMut(&str)) {
        match &mut self.kind {
            Kind::Unknown(_) => {}
            Kind::Sse(sse) => sse.feed_end(&mut |_, data| each(data)),
            Kind::Array(elements) => {
                let rest = std::mem::take(&mut elements.buffer);
                if !rest.is_empty() {
                    each(&String::from_utf8_lossy(&rest));
                }
            }
        }
    }
}

/// The objects of an array, found by their braces.
#[derive(Debug, Default)]
struct Elements {
    /// The object that is being read, from its brace on.
    buffer: Vec<u8>,
    depth: usize,
    in_text: bool,
    after_backslash: bool,
}

impl Elements {
    fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(&str)) -> Result<(), EventTooLong> {
        let mut from = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if self.in_text {
                match byte {
                    _ if std::mem::take(&mut self.after_backslash) => {}
                    b'\\' => self.after_backslash = true,
                    b'"' => self.in_text = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'{' => {
                    if self.depth == 0 {
                        from = at;
                    }
                    self.depth += 1;
                }
                b'}' if self.depth == 1 => {
                    self.depth = 0;
                    if self.buffer.is_empty() {
                        each(&String::from_utf8_lossy(&bytes[from..=at]));
                    } else {
                        self.buffer.extend_from_slice(&bytes[from..=at]);
                        each(&String::from_utf8_lossy(&self.buffer));
                        self.buffer.clear();
                    }
                    from = at + 1;
                }
                b'}' => self.depth = self.depth.saturating_sub(1),
                b'"' if self.depth > 0 => self.in_text = true,
                _ => {}
            }
        }
        if self.depth > 0 {
            if self.buffer.len() + bytes.len() - from > MAX_EVENT_BYTES {
                return Err(EventTooLong { limit: MAX_EVENT_BYTES });
            }
            self.buffer.extend_from_slice(&bytes[from..]);
        }
        Ok(())
    }
}
