//! Known values, in all their forms, found in one pass.

use super::beginnings::Beginnings;
use super::encodings::Forms;
use super::{FRAGMENT, Span};
use aho_corasick::{AhoCorasick, Input};

/// The kind under which known values are counted.
pub(super) const KIND: &str = "known_value";

/// A set of byte strings: finds every occurrence, overlapping ones too.
struct Needles {
    beginnings: Beginnings,
    /// Absent when the set is too large for an automaton; then each pattern is searched by itself.
    automaton: Option<AhoCorasick>,
}

impl Needles {
    fn new(patterns: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let beginnings = Beginnings::new(patterns);
        Needles { automaton: AhoCorasick::new(&beginnings.patterns).ok(), beginnings }
    }

    /// Calls `found` with start and end of every occurrence at or after `from`.
    fn find(&self, bytes: &[u8], from: usize, mut found: impl FnMut(usize, usize)) {
        if let Some(automaton) = &self.automaton {
            for hit in automaton.find_overlapping_iter(Input::new(bytes).range(from..)) {
                found(hit.start(), hit.end());
            }
            return;
        }
        for pattern in &self.beginnings.patterns {
            for (at, window) in bytes[from..].windows(pattern.len()).enumerate() {
                if window == pattern.as_slice() {
                    found(from + at, from + at + pattern.len());
                }
            }
        }
    }
}

/// The known values of one redactor.
pub(super) struct Known {
    plain: Needles,
    wrapped: Needles,
}

impl Known {
    pub(super) fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut forms = Forms::default();
        for value in values {
            forms.add(value);
            for line in telling_lines(value) {
                forms.add(line);
            }
        }
        Known {
            plain: Needles::new(forms.plain.into_iter().chain(forms.wrapped.iter().cloned())),
            wrapped: Needles::new(forms.wrapped),
        }
    }

    /// Adds the spans of all values at or after `from`; returns where a value may have begun that the text does not finish.
    ///
    /// At the end of a text such a beginning is itself a span when it is [`FRAGMENT`] bytes or longer: somebody cut the text.
    pub(super) fn scan(&self, bytes: &[u8], from: usize, at_end: bool, spans: &mut Vec<Span>) -> usize {
        self.plain
            .find(bytes, from, |start, end| spans.push(Span { told: start, start, end, kind: KIND, rank: usize::MAX }));
        let mut open = self.plain.beginnings.open_end(bytes, from);
        if let Some(view) = Unwrapped::new(bytes, from) {
            self.wrapped.find(&view.bytes, 0, |start, end| {
                let (start, end) = (view.places[start], view.places[end - 1] + 1);
                spans.push(Span { told: start, start, end, kind: KIND, rank: usize::MAX });
            });
            let at = self.wrapped.beginnings.open_end(&view.bytes, 0);
            if let Some(&place) = view.places.get(at) {
                let long = !at_end || view.bytes.len() - at >= FRAGMENT;
                open = if long { open.min(place) } else { open };
            }
        }
        if at_end && bytes.len() - open >= FRAGMENT {
            spans.push(Span { told: open, start: open, end: bytes.len(), kind: KIND, rank: usize::MAX });
        }
        open
    }
}

/// Lines of a value of several lines that betray it by themselves, as a key's body does.
fn telling_lines(value: &str) -> impl Iterator<Item = &str> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"+/=_-.".contains(&b);
    let several = value.trim_end().contains('\n');
    value
        .lines()
        .map(str::trim)
        .filter(move |line| several && line.len() >= 20 && !line.starts_with("-----") && line.bytes().all(token))
}

/// A text without its single line breaks, and where each byte stood.
struct Unwrapped {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Unwrapped {
    /// Absent when there is no line break to take out.
    fn new(bytes: &[u8], from: usize) -> Option<Self> {
        // A carriage return at the end may be half of a break.
        if !bytes[from..].contains(&b'\n') && !bytes[from..].ends_with(b"\r") {
            return None;
        }
        let mut view = Unwrapped { bytes: Vec::with_capacity(bytes.len() - from), places: Vec::new() };
        view.places.reserve(bytes.len() - from);
        let before = |at: usize, n: usize| at.checked_sub(n).map(|i| bytes[i]);
        for at in from..bytes.len() {
            let dropped = match bytes[at] {
                // An empty line is not how programs wrap; keeping its break also bounds how far a value can be spread.
                b'\n' => {
                    let empty =
                        before(at, 1) == Some(b'\n') || (before(at, 1) == Some(b'\r') && before(at, 2) == Some(b'\n'));
                    !empty
                }
                b'\r' => bytes.get(at + 1).is_none_or(|&next| next == b'\n'),
                _ => false,
            };
            if !dropped {
                view.bytes.push(bytes[at]);
                view.places.push(at);
            }
        }
        Some(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_without_an_automaton_finds_the_same() {
        let patterns = ["abab", "bab", "zz"].map(|p| p.as_bytes().to_vec());
        let with = Needles::new(patterns.clone());
        let without = Needles { automaton: None, ..Needles::new(patterns) };
        let all = |needles: &Needles| {
            let mut found = Vec::new();
            needles.find(b"xabababzzz", 1, |start, end| found.push((start, end)));
            found.sort_unstable();
            found
        };
        assert_eq!(all(&with), all(&without));
        assert_eq!(all(&with).len(), 6);
    }

    #[test]
    fn only_single_breaks_are_taken_out() {
        let text =
            |input: &str| Unwrapped::new(input.as_bytes(), 0).map(|v| String::from_utf8_lossy(&v.bytes).into_owned());
        assert_eq!(text("ab"), None);
        assert_eq!(text("ab\ncd\r\nef"), Some("abcdef".to_owned()));
        assert_eq!(text("ab\n\ncd"), Some("ab\ncd".to_owned()));
        assert_eq!(text("ab\r\n\r\ncd"), Some("ab\ncd".to_owned()));
        assert_eq!(text("ab\rcd\n"), Some("ab\rcd".to_owned()));
    }
}
