//! The one redactor: it takes credentials out of text, bytes and JSON.
//!
//! Two kinds of secrets are found: *known values*, which the [`SecretRegistry`] was told, in every form in which programs write them
//! (raw, in JSON once and twice escaped, percent-encoded, base64 at any alignment and broken into lines, hexadecimal); and
//! *shapes* of credentials that nobody told it (key prefixes of providers, AWS, GitHub and many more, JSON web tokens, private
//! key blocks, passwords in addresses, authorization headers). Each becomes [`MARK`]. Overlapping finds become one, so that no tail of
//! a longer secret stays behind a shorter one.
//!
//! **Redact first, then cut.** Whoever bounds a text bounds what comes out of here. Where a text was cut before it came here
//! nevertheless, a beginning of a known value at its very end is taken out too, from [`FRAGMENT`] bytes on; a beginning shorter than
//! that, or the remainder of a value at the start of a text, is not.
//!
//! What a whole text gives, a [`StreamRedactor`] gives chunk by chunk, wherever the chunks are cut.
//!
//! This is a seatbelt, not a wall: a program that encrypts a secret, or spells it backwards, gets it through.
//!
//! ```
//! use placet_core::redact::{Redactions, SecretRegistry};
//! use placet_core::secret::Secret;
//!
//! let mut registry = SecretRegistry::new();
//! registry.register(Secret::new("OPENAI_API_KEY", "an-unusual-key"));
//! let redactor = registry.redactor();
//! let mut report = Redactions::default();
//! let text = redactor.redact_text_reporting("key=an-unusual-key postgres://me:hunter2@db/x", &mut report);
//! assert_eq!(text, "key=[redacted] postgres://me:[redacted]@db/x");
//! assert_eq!(report.total(), 2);
//! ```

mod beginnings;
mod encodings;
mod known;
mod names;
mod paths;
mod registry;
mod shapes;
mod stream;

pub use crate::secret::MARK;
pub use names::{NameClass, classify_name, is_secret_name};
pub use paths::credential_path;
pub use registry::{LEAST_LENGTH, Registration, SecretRegistry, is_secret_variable};
pub use stream::StreamRedactor;

use known::Known;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::secret::Secret;

/// From how many bytes on a beginning of a known value is taken out at the end of a text.
pub const FRAGMENT: usize = 8;

/// How many secrets were taken out, by kind (`known_value`, `jwt`, `github_token` …). Never what they were.
///
/// Serialised as an object of counts. Kinds may be added in later versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Redactions {
    counts: BTreeMap<Cow<'static, str>, u64>,
}

impl Redactions {
    /// True when nothing was taken out.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many secrets were taken out.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// How many of one kind.
    pub fn count(&self, kind: &str) -> u64 {
        self.counts.get(kind).copied().unwrap_or(0)
    }

    /// Kinds and counts, in the order of the kinds' names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(kind, count)| (kind.as_ref(), *count))
    }

    /// Adds the counts of another report.
    pub fn merge(&mut self, other: &Redactions) {
        for (kind, count) in &other.counts {
            *self.counts.entry(kind.clone()).or_default() += count;
        }
    }

    fn add(&mut self, kind: &'static str) {
        *self.counts.entry(Cow::Borrowed(kind)).or_default() += 1;
    }
}

/// A place in a text that holds a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// Where the words begin that tell it, which may stand before it: `Authorization: `.
    told: usize,
    start: usize,
    end: usize,
    kind: &'static str,
    /// Which kind names two finds of the same bytes: the smaller.
    rank: usize,
}

/// Takes secrets out of text, bytes and JSON. Cheap to clone; a snapshot of the [`SecretRegistry`] that made it.
///
/// Making one costs next to nothing: the search for known values is prepared when the first text arrives. The values are kept in
/// memory in all their forms as long as a clone lives.
#[derive(Clone, Default)]
pub struct Redactor {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    secrets: Vec<Secret>,
    allowed: HashSet<String>,
    known: OnceLock<Known>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.inner.secrets).finish_non_exhaustive()
    }
}

impl Redactor {
    fn new(secrets: Vec<Secret>, allowed: HashSet<String>) -> Self {
        Redactor { inner: Arc::new(Inner { secrets, allowed, known: OnceLock::new() }) }
    }

    /// `text` without its secrets; borrowed when it has none.
    pub fn redact_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redact_text_reporting(text, &mut Redactions::default())
    }

    /// Like [`Redactor::redact_text`], adding what was taken out to `report`.
    pub fn redact_text_reporting<'t>(&self, text: &'t str, report: &mut Redactions) -> Cow<'t, str> {
        match self.redact_bytes_reporting(text.as_bytes(), report) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(into_text(bytes)),
        }
    }

    /// `bytes`, of any or no encoding, without their secrets; borrowed when they have none.
    pub fn redact_bytes<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        self.redact_bytes_reporting(bytes, &mut Redactions::default())
    }

    /// Like [`Redactor::redact_bytes`], adding what was taken out to `report`.
    pub fn redact_bytes_reporting<'b>(&self, bytes: &'b [u8], report: &mut Redactions) -> Cow<'b, [u8]> {
        let (spans, _) = self.scan(bytes, 0, true);
        if spans.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        render(bytes, &spans, 0, bytes.len(), &mut out, report);
        Cow::Owned(out)
    }

    /// Takes secrets out of every string, key and number of `value`. A number that holds a known value becomes the string
    /// [`MARK`]; of keys that become equal, later ones get a number.
    ///
    /// A string under a name such as `api_key` is taken out when it looks random, as `api_key: …` is in text.
    pub fn redact_json(&self, value: &mut Value) -> Redactions {
        let mut report = Redactions::default();
        self.redact_value(value, &mut report);
        report
    }

    fn redact_value(&self, value: &mut Value, report: &mut Redactions) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if !self.inner.secrets.is_empty() && self.holds_secret(&number.to_string(), report) {
                    *value = Value::String(MARK.to_owned());
                }
            }
            Value::String(text) => {
                if let Cow::Owned(clean) = self.redact_text_reporting(text, report) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item, report)),
            Value::Object(map) => self.redact_object(map, report),
        }
    }

    fn holds_secret(&self, text: &str, report: &mut Redactions) -> bool {
        text.len() >= LEAST_LENGTH && matches!(self.redact_text_reporting(text, report), Cow::Owned(_))
    }

    fn redact_object(&self, map: &mut Map<String, Value>, report: &mut Redactions) {
        let mut renamed = false;
        for (key, value) in map.iter_mut() {
            match value {
                Value::String(text)
                    if let Some(kind) = shapes::named_value(key, text)
                        && !self.inner.allowed.contains(text.as_str()) =>
                {
                    report.add(kind);
                    MARK.clone_into(text);
                }
                value => self.redact_value(value, report),
            }
            renamed |= matches!(self.redact_text(key), Cow::Owned(_));
        }
        if !renamed {
            return;
        }
        for (key, value) in std::mem::take(map) {
            let clean = self.redact_text_reporting(&key, report).into_owned();
            let mut unique = clean.clone();
            let mut number = 2;
            while map.contains_key(&unique) {
                unique = format!("{clean} {number}");
                number += 1;
            }
            map.insert(unique, value);
        }
    }

    /// A redactor of one stream of text, with the same secrets.
    pub fn stream(&self) -> StreamRedactor {
        StreamRedactor::new(self.clone())
    }

    /// All secrets at or after `from`, ordered, and where one may have begun that the text does not finish.
    fn scan(&self, bytes: &[u8], from: usize, at_end: bool) -> (Vec<Span>, usize) {
        let mut spans = Vec::new();
        let mut open = shapes::scan(bytes, from, at_end, &mut spans);
        if !self.inner.allowed.is_empty() {
            let allowed = |span: &Span| {
                std::str::from_utf8(&bytes[span.start..span.end]).is_ok_and(|text| self.inner.allowed.contains(text))
            };
            spans.retain(|span| !allowed(span));
        }
        if !self.inner.secrets.is_empty() {
            let known = self.inner.known.get_or_init(|| Known::new(self.inner.secrets.iter().map(Secret::expose)));
            open = open.min(known.scan(bytes, from, at_end, &mut spans));
        }
        // What tells a secret does not go out before it: nobody would know it any more.
        while let Some(span) = spans.iter().find(|span| span.told < open && open <= span.start) {
            open = span.told;
        }
        // Of two finds that begin together the longer names the kind.
        spans.sort_by_key(|span| (span.start, usize::MAX - span.end, span.rank));
        (spans, open)
    }
}

/// Writes `bytes[done..until]` to `out` with each span replaced; spans that overlap become one. Returns up to where the bytes
/// are dealt with, which is beyond `until` when a span reaches beyond.
fn render(
    bytes: &[u8],
    spans: &[Span],
    mut done: usize,
    until: usize,
    out: &mut Vec<u8>,
    report: &mut Redactions,
) -> usize {
    for span in spans.iter().take_while(|span| span.start < until) {
        if span.start >= done {
            out.extend_from_slice(&bytes[done..span.start]);
            out.extend_from_slice(MARK.as_bytes());
            report.add(span.kind);
        }
        done = done.max(span.end);
    }
    if done < until {
        out.extend_from_slice(&bytes[done..until]);
        done = until;
    }
    done
}

/// Spans begin and end at whole characters, so this is the bytes' own text; should one ever not, the text is kept readable.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod law_tests;
#[cfg(test)]
mod tests;
