//! Secrets told by their shape: nobody knows the value, but it looks like a key.
//!
//! One automaton looks for the literal beginnings of all shapes ([`table`]); a small matcher ([`matchers`]) then reads on from
//! each. There are no regular expressions on purpose. A matcher's answer depends on the few bytes before a beginning ([`CONTEXT`])
//! and on a bounded number after it, and it says [`Verdict::Open`] when the text ends before the answer is certain; so a
//! stream knows exactly what it must hold back, and gives what the whole text would have given.

mod matchers;
mod table;

use super::Span;
use super::beginnings::Beginnings;
use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, Input};
use matchers::{Reader, Runs};
use std::sync::LazyLock;
use table::SHAPES;

pub(super) use matchers::{named_value, userinfo_secret};

/// How many bytes before a beginning its matcher may look at.
pub(super) const CONTEXT: usize = 16;

/// What a matcher makes of a beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// No secret.
    None,
    /// The text ends before it is certain.
    Open,
    /// The secret's start and end.
    Found(usize, usize),
}

static BEGINNINGS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let needles = SHAPES.iter().map(|shape| shape.needle);
    // Few short needles: a table of all transitions is small, and twice as fast as the automatic choice.
    let kind = Some(AhoCorasickKind::DFA);
    AhoCorasickBuilder::new().kind(kind).ascii_case_insensitive(true).build(needles).ok()
});

/// Adds the spans of all shapes at or after `from`; returns where a secret may have begun that the text does not finish.
pub(super) fn scan(bytes: &[u8], from: usize, at_end: bool, spans: &mut Vec<Span>) -> usize {
    let mut open = bytes.len();
    let mut runs = Runs::default();
    let mut look = |rank: usize, at: usize| {
        let shape = &SHAPES[rank];
        let reader = Reader::new(bytes, at, shape.reach, at_end);
        match shape.matches(reader, at, &mut runs) {
            Verdict::None => {}
            Verdict::Open => open = open.min(at),
            Verdict::Found(start, end) => {
                if !table::HARMLESS.iter().any(|harmless| bytes.get(start..end) == Some(harmless.as_bytes())) {
                    spans.push(Span { told: at, start, end, kind: shape.kind, rank });
                }
            }
        }
    };
    match &*BEGINNINGS {
        Some(automaton) => {
            for hit in automaton.find_overlapping_iter(Input::new(bytes).range(from..)) {
                look(hit.pattern().as_usize(), hit.start());
            }
        }
        None => {
            for at in from..bytes.len() {
                for (rank, _) in SHAPES.iter().enumerate().filter(|(_, shape)| shape.begins(&bytes[at..])) {
                    look(rank, at);
                }
            }
        }
    }
    if !at_end {
        open = open.min(open_beginning(bytes, from));
    }
    open
}

/// Where the longest end of `bytes` begins that is the start of a beginning.
fn open_beginning(bytes: &[u8], from: usize) -> usize {
    static NEEDLES: LazyLock<Beginnings> =
        LazyLock::new(|| Beginnings::new(SHAPES.iter().map(|shape| shape.needle.to_ascii_lowercase().into_bytes())));
    let from = from.max(bytes.len().saturating_sub(table::LONGEST_NEEDLE));
    let mut end = [0; table::LONGEST_NEEDLE];
    let end = &mut end[..bytes.len() - from];
    end.copy_from_slice(&bytes[from..]);
    end.make_ascii_lowercase();
    from + NEEDLES.open_end(end, 0)
}

#[cfg(test)]
mod tests;
