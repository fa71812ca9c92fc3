//! Redaction of a text that comes in chunks.

use super::{Redactions, Redactor, into_text, render, shapes};
use std::fmt;
use zeroize::Zeroize;

/// Redacts a text chunk by chunk: the outputs together are what the whole text would have given, wherever it was cut.
///
/// It holds back only what could still become a secret: a beginning of a known value or of a key's prefix, or a token whose end has not been
/// seen. That is bounded by the longest known value in its longest form and by the reach of the longest shape (32 KiB, for private
/// keys); mostly it is nothing or a few characters.
pub struct StreamRedactor {
    redactor: Redactor,
    /// A little of what went out, which shapes may look at, then what is held.
    held: Vec<u8>,
    /// How much of `held` went out already.
    context: usize,
    /// How much of what is held belongs to a secret whose mark went out already.
    covered: usize,
    /// Not worth looking again before so much is held.
    patience: usize,
    report: Redactions,
}

impl fmt::Debug for StreamRedactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRedactor")
            .field("held", &self.held())
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

impl StreamRedactor {
    pub(super) fn new(redactor: Redactor) -> Self {
        StreamRedactor {
            redactor,
            held: Vec::new(),
            context: 0,
            covered: 0,
            patience: 0,
            report: Redactions::default(),
        }
    }

    /// Takes the next chunk, and gives what can be said of the text so far.
    pub fn push(&mut self, chunk: &str) -> String {
        into_text(self.push_bytes(chunk.as_bytes()))
    }

    /// Ends the text: gives what was held back. The next chunk begins another text.
    pub fn finish(&mut self) -> String {
        into_text(self.finish_bytes())
    }

    /// Like [`StreamRedactor::push`], for bytes of any encoding, cut anywhere.
    pub fn push_bytes(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(chunk);
        if self.held() < self.patience {
            return Vec::new();
        }
        self.advance(false)
    }

    /// Like [`StreamRedactor::finish`], for bytes.
    pub fn finish_bytes(&mut self) -> Vec<u8> {
        let out = self.advance(true);
        self.held.zeroize();
        (self.context, self.covered, self.patience) = (0, 0, 0);
        out
    }

    /// How many bytes are held back now.
    pub fn held(&self) -> usize {
        self.held.len() - self.context
    }

    /// What was taken out so far.
    pub fn report(&self) -> &Redactions {
        &self.report
    }

    fn advance(&mut self, at_end: bool) -> Vec<u8> {
        let (spans, open) = self.redactor.scan(&self.held, self.context, at_end);
        let until = if at_end { self.held.len() } else { open };
        let mut out = Vec::with_capacity(until - self.context);
        let done = render(&self.held, &spans, self.context + self.covered, until, &mut out, &mut self.report);
        // A secret that reaches beyond what is certain has its mark out; what overlaps it later only makes it longer.
        self.covered = done - until;
        let gone = until.saturating_sub(shapes::CONTEXT);
        self.held.drain(..gone);
        self.context = until - gone;
        // A long block that grows by small chunks is looked at as often as it doubles thrice, not at each of them.
        let held = self.held();
        self.patience = if held > 1024 { held + held / 8 } else { 0 };
        out
    }
}

impl Drop for StreamRedactor {
    fn drop(&mut self) {
        self.held.zeroize();
    }
}
