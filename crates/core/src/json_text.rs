//! Texts as JSON has them: stepped over, read, kept as they came, and written.
//!
//! A conversation is mostly long texts with quotes and line breaks in them, and much of it goes on from one body to the next without
//! anybody looking at it. A [`SharedText`] that was read from JSON is therefore made only when somebody looks, and whoever writes JSON
//! puts down what came. Where the document itself is shared, its longer texts are pieces of it and not copied at all.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use wide::u8x16;

/// How many bytes are looked at together.
const BLOCK: usize = 16;
/// Up to how many bytes a text without escapes is not worth keeping in another form.
const SHORT: usize = 64;

/// A text in a JSON document: its bytes there, both quotes included. They are known to be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonText<'a> {
    written: &'a str,
    has_escapes: bool,
}

impl<'a> JsonText<'a> {
    /// The text whose opening quote stands at `place`; `None` where no text stands there, or none that JSON allows: it is cut, holds
    /// a control character, or an escape that stands for nothing, half a letter among them.
    #[must_use]
    pub fn at(json: &'a str, place: usize) -> Option<Self> {
        let bytes = json.as_bytes();
        if bytes.get(place) != Some(&b'"') {
            return None;
        }
        let (mut at, mut has_escapes) = (place + 1, false);
        // A block at a time; an escape may lead beyond its block.
        'blocks: while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
            let mut found = specials(block);
            while found != 0 {
                let special = found.trailing_zeros() as usize;
                match block.get(special)? {
                    b'"' => return Some(JsonText { written: json.get(place..=at + special)?, has_escapes }),
                    b'\\' => {
                        has_escapes = true;
                        let next = special + escape_length(bytes, at + special)?;
                        if next >= BLOCK {
                            at += next;
                            continue 'blocks;
                        }
                        found &= u32::MAX << next;
                    }
                    // A control character.
                    _ => return None,
                }
            }
            at += BLOCK;
        }
        loop {
            match bytes.get(at)? {
                b'"' => return Some(JsonText { written: json.get(place..=at)?, has_escapes }),
                b'\\' => {
                    has_escapes = true;
                    at += escape_length(bytes, at)?;
                }
                0..0x20 => return None,
                _ => at += 1,
            }
        }
    }

    /// The text that [`JsonText::unescaped`] gave, where it is a piece of this document.
    #[must_use]
    pub fn around(document: &'a str, unescaped: &str) -> Option<Self> {
        let place = unescaped.as_ptr().addr().checked_sub(document.as_ptr().addr())?.checked_sub(1)?;
        let written = document.get(place..place.checked_add(unescaped.len())?.checked_add(2)?)?;
        let is_quoted = written.starts_with('"') && written.ends_with('"');
        is_quoted.then_some(JsonText { written, has_escapes: false })
    }

    /// As it stands there, quotes included.
    #[must_use]
    pub fn written(self) -> &'a str {
        self.written
    }

    /// The text itself, where nothing in it is escaped.
    #[must_use]
    pub fn unescaped(self) -> Option<&'a str> {
        if self.has_escapes { None } else { Some(within(self.written)) }
    }

    /// The text itself.
    #[must_use]
    pub fn read(self) -> Cow<'a, str> {
        match self.unescaped() {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(read(within(self.written))),
        }
    }

    /// The text, to be kept. A long one holds the document that it is a piece of, and is not copied.
    #[must_use]
    pub fn held(self, document: &Arc<str>) -> SharedText {
        match self.place_in(document).filter(|_| self.written.len() > SHORT) {
            Some((place, length)) => self.kept(|| Written::Within(document.clone(), place, length)),
            None => self.into(),
        }
    }

    /// Where it stands, and its length, if it is a piece of this document. What lies beyond the first 4 GiB counts as none.
    fn place_in(self, document: &str) -> Option<(u32, u32)> {
        let place = self.written.as_ptr().addr().checked_sub(document.as_ptr().addr())?;
        let piece = document.get(place..place.checked_add(self.written.len())?)?;
        let ends = (u32::try_from(place).ok()?, u32::try_from(piece.len()).ok()?);
        std::ptr::eq(piece, self.written).then_some(ends)
    }

    fn kept(self, written: impl FnOnce() -> Written) -> SharedText {
        SharedText(match self.unescaped() {
            Some(short) if short.len() <= SHORT => Form::Text(short.into()),
            Some(_) => Form::Quoted(written()),
            None => Form::Escaped(Arc::new(Escaped { written: written(), text: OnceLock::new() })),
        })
    }
}

/// A text as a document has it, quotes included: by itself, or a piece of the document.
#[derive(Clone)]
enum Written {
    Own(Arc<str>),
    /// The place of its opening quote, and its length.
    Within(Arc<str>, u32, u32),
}

impl Written {
    fn as_str(&self) -> &str {
        match self {
            Written::Own(written) => written,
            Written::Within(document, place, length) => {
                let place = *place as usize;
                document.get(place..place + *length as usize).unwrap_or_default()
            }
        }
    }
}

/// A text that many hold, so that a long conversation is not copied from turn to turn.
///
/// It is a `str` to everybody. Two are equal where their texts are, however they were written.
#[derive(Clone)]
pub struct SharedText(Form);

#[derive(Clone)]
enum Form {
    Text(Arc<str>),
    /// Nothing in it is escaped.
    Quoted(Written),
    Escaped(Arc<Escaped>),
}

struct Escaped {
    written: Written,
    text: OnceLock<Box<str>>,
}

impl SharedText {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Form::Text(text) => text,
            Form::Quoted(written) => within(written.as_str()),
            Form::Escaped(escaped) => escaped.text.get_or_init(|| read(within(escaped.written.as_str())).into()),
        }
    }

    /// The text as a JSON document had it, quotes included, where it came from one. It may be written otherwise than we would.
    #[must_use]
    pub fn as_json(&self) -> Option<&str> {
        match &self.0 {
            Form::Text(_) => None,
            Form::Quoted(written) => Some(written.as_str()),
            Form::Escaped(escaped) => Some(escaped.written.as_str()),
        }
    }

    /// Whether the text is there: it is not as long as it came from JSON and nobody has looked at it.
    #[must_use]
    pub fn is_made(&self) -> bool {
        match &self.0 {
            Form::Text(_) | Form::Quoted(_) => true,
            Form::Escaped(escaped) => escaped.text.get().is_some(),
        }
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Form::Text(text) => text.is_empty(),
            Form::Quoted(written) => written.as_str().len() == 2,
            // An escape stands for a letter.
            Form::Escaped(_) => false,
        }
    }
}

impl From<JsonText<'_>> for SharedText {
    fn from(text: JsonText<'_>) -> Self {
        text.kept(|| Written::Own(text.written.into()))
    }
}

impl From<Arc<str>> for SharedText {
    fn from(text: Arc<str>) -> Self {
        SharedText(Form::Text(text))
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        SharedText(Form::Text(text.into()))
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        SharedText(Form::Text(text.into()))
    }
}

impl From<&String> for SharedText {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<Cow<'_, str>> for SharedText {
    fn from(text: Cow<'_, str>) -> Self {
        SharedText(Form::Text(text.into()))
    }
}

impl From<Box<str>> for SharedText {
    fn from(text: Box<str>) -> Self {
        SharedText(Form::Text(text.into()))
    }
}

impl From<SharedText> for Arc<str> {
    fn from(text: SharedText) -> Self {
        match text.0 {
            Form::Text(text) => text,
            _ => text.as_str().into(),
        }
    }
}

impl Default for SharedText {
    fn default() -> Self {
        "".into()
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for SharedText {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        let is_same_json = self.as_json().is_some_and(|json| other.as_json() == Some(json));
        is_same_json || self.as_str() == other.as_str()
    }
}

impl Eq for SharedText {}

impl PartialEq<str> for SharedText {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for SharedText {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl Serialize for SharedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for SharedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Arc::<str>::deserialize(deserializer).map(SharedText::from)
    }
}

/// Appends a text to a JSON document, with its quotes, as `serde_json` writes it.
pub fn append(out: &mut Vec<u8>, text: &str) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + bytes.len() / 8 + 2);
    out.push(b'"');
    let mut at = 0;
    loop {
        let special = special_from(bytes, at);
        out.extend_from_slice(bytes.get(at..special).unwrap_or_default());
        let Some(byte) = bytes.get(special) else { break };
        at = special + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            control => {
                let digit = |half: u8| DIGITS[usize::from(half & 15)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(control >> 4), digit(*control)]);
            }
        }
    }
    out.push(b'"');
}

/// What stands between the quotes.
fn within(written: &str) -> &str {
    written.get(1..written.len().saturating_sub(1)).unwrap_or_default()
}

/// Which bytes of a block have a meaning within a JSON text, the first in the lowest bit.
#[inline]
fn specials(block: &[u8; BLOCK]) -> u32 {
    let block = u8x16::new(*block);
    let is = |byte: u8| block.simd_eq(u8x16::splat(byte));
    // The upper three bits of a control character are zero.
    let control = (block & u8x16::splat(0xE0)).simd_eq(u8x16::splat(0));
    (is(b'"') | is(b'\\') | control).to_bitmask()
}

/// The length of the escape whose backslash stands at `place`.
#[inline]
fn escape_length(bytes: &[u8], place: usize) -> Option<usize> {
    match bytes.get(place + 1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => match hex(bytes.get(place + 2..)?)? {
            0xD800..0xE000 => Some(1 + escaped(bytes.get(place + 1..)?)?.1),
            _ => Some(6),
        },
        _ => None,
    }
}

/// The place of the first byte from `at` on that has a meaning within a JSON text (a quote, a backslash, a control character), or
/// the length of all.
#[inline]
fn special_from(bytes: &[u8], mut at: usize) -> usize {
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        let found = specials(block);
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += BLOCK;
    }
    while bytes.get(at).is_some_and(|byte| *byte >= 0x20 && *byte != b'"' && *byte != b'\\') {
        at += 1;
    }
    at
}

/// The text that stands between the quotes of a [`JsonText`].
fn read(inner: &str) -> String {
    let bytes = inner.as_bytes();
    let mut text = String::with_capacity(inner.len());
    let mut at = 0;
    loop {
        let special = special_from(bytes, at);
        text.push_str(inner.get(at..special).unwrap_or_default());
        // What is not right was not taken.
        let Some((letter, length)) = bytes.get(special + 1..).and_then(escaped) else { return text };
        text.push(letter);
        at = special + 1 + length;
    }
}

/// The letter that an escape stands for and the length of the escape, without its backslash.
fn escaped(rest: &[u8]) -> Option<(char, usize)> {
    Some(match rest.first()? {
        b'"' => ('"', 1),
        b'\\' => ('\\', 1),
        b'/' => ('/', 1),
        b'b' => ('\u{8}', 1),
        b'f' => ('\u{c}', 1),
        b'n' => ('\n', 1),
        b'r' => ('\r', 1),
        b't' => ('\t', 1),
        b'u' => {
            let first = hex(rest.get(1..)?)?;
            if let Some(letter) = char::from_u32(first) {
                return Some((letter, 5));
            }
            // Half a letter beyond the first 65,536: the other half has to follow.
            let second = rest.get(5..).filter(|rest| rest.starts_with(b"\\u")).and_then(|rest| hex(rest.get(2..)?))?;
            let letter = char::decode_utf16([u16::try_from(first).ok()?, u16::try_from(second).ok()?]).next()?.ok()?;
            (letter, 11)
        }
        _ => return None,
    })
}

/// The number that the first four digits say.
#[inline]
fn hex(digits: &[u8]) -> Option<u32> {
    const NONE: u8 = 0xFF;
    const VALUES: [u8; 256] = {
        let mut values = [NONE; 256];
        let mut digit = 0;
        while digit < 16 {
            values[b"0123456789abcdef"[digit] as usize] = digit as u8;
            values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
            digit += 1;
        }
        values
    };
    let values = digits.first_chunk::<4>()?.map(|digit| VALUES[usize::from(digit)]);
    // A value has its upper four bits clear.
    let is_right = values.iter().fold(0, |all, value| all | value) < 16;
    is_right.then(|| values.iter().fold(0, |sum, value| sum << 4 | u32::from(*value)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// A JSON text, right or not, means here what it means to `serde_json`.
    fn agree(json: &str) {
        let ours = JsonText::at(json, 0).filter(|text| text.written().len() == json.len());
        let theirs = serde_json::from_str::<Value>(json).ok().and_then(|value| value.as_str().map(str::to_owned));
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                assert_eq!(ours.read(), theirs);
                assert_eq!(ours.unescaped().is_some(), !json.contains('\\'));
                let shared = SharedText::from(ours);
                assert_eq!(shared.is_empty(), theirs.is_empty());
                assert_eq!(shared.as_json().unwrap_or(json), json);
                assert_eq!(&*shared, theirs);
                assert_eq!(shared, SharedText::from(theirs));
            }
            (None, None) => {}
            (ours, theirs) => panic!("{ours:?} and {theirs:?} of {json:?}"),
        }
    }

    #[test]
    fn what_is_a_text_and_what_is_none_is_told_as_others_tell_it() {
        for json in [
            r#""""#,
            r#"""#,
            "",
            "x",
            r#""a"#,
            r#""\""#,
            r#""\\""#,
            r#""\\\""#,
            r#""\x""#,
            r#""\/\b\f\n\r\t\\\"""#,
            r#""\u0041""#,
            r#""\u00e9\u00C9""#,
            r#""\ud83d\ude00""#,
            r#""\ud83d""#,
            r#""\ude00""#,
            r#""\ud83dx""#,
            r#""\ud83d\n""#,
            r#""\ud83d\ud83d""#,
            r#""\u12""#,
            r#""\u12g4""#,
            r#""\u+123""#,
            r#""\u0000""#,
            "\"a\nb\"",
            "\"\u{0}\"",
            "\"\u{1f}\"",
            "\"\u{7f}\"",
            "\"é\"",
            r#""a"b""#,
        ] {
            agree(json);
            // The same far enough in to be looked at in blocks, and across their ends.
            for before in [1, 7, 15, 16, 17, 70] {
                if let Some(inner) = json.strip_prefix('"') {
                    agree(&format!("\"{}{inner}", "é".repeat(before)));
                }
            }
        }
    }

    #[test]
    fn a_text_that_came_from_json_is_a_text_like_any_other() {
        let json = format!("[\"{}\\u00e9\"]", "a".repeat(100));
        let shared = SharedText::from(JsonText::at(&json, 1).unwrap());
        assert_eq!(shared.as_json().unwrap(), &json[1..json.len() - 1]);
        let again: SharedText = serde_json::from_str(&serde_json::to_string(&shared).unwrap()).unwrap();
        assert_eq!(again, shared);
        assert_eq!(again.as_json(), None);
        assert_eq!(format!("{shared:?}"), format!("{:?}", format!("{}é", "a".repeat(100))));
        assert_eq!(&*Arc::<str>::from(shared.clone()), shared.as_str());
    }

    #[test]
    fn a_long_text_holds_its_document_and_a_short_one_does_not() {
        let long = "a".repeat(100);
        let document: Arc<str> = format!(r#"["é", "{long}", "{long}\u00e9", "short"]"#).into();
        for (begins, text, holds) in [(r#""é"#, "é", 1), (r#""aaa"#, &*long, 2), (r#""short"#, "short", 1)] {
            let there = JsonText::at(&document, document.find(begins).unwrap()).unwrap();
            assert_eq!(JsonText::around(&document, there.unescaped().unwrap()), Some(there));
            let shared = there.held(&document);
            assert_eq!(shared, *text);
            assert_eq!(Arc::strong_count(&document), holds);
        }
        let escaped = document.rfind(r#""aaa"#).unwrap();
        let shared = JsonText::at(&document, escaped).unwrap().held(&document);
        // What is a piece of something else is copied.
        let other: Arc<str> = "\"\"".into();
        assert_eq!(JsonText::around(&document, &other[1..1]), None);
        assert_eq!(JsonText::at(&document, escaped).unwrap().held(&other), shared);
        assert_eq!(Arc::strong_count(&other), 1);
        drop(document);
        assert_eq!(shared, *format!("{long}é"));
        assert_eq!(shared.as_json(), Some(&*format!(r#""{long}\u00e9""#)));
    }

    proptest! {
        #[test]
        fn any_text_is_written_and_read_as_others_do(text in "(\\PC|[\"\\\\\n\t\r\u{8}\u{c}\u{1}\u{1f}]){0,80}", plain in "[a-z]{0,80}") {
            for text in [&text, &plain] {
                let mut out = Vec::new();
                append(&mut out, text);
                let json = String::from_utf8(out).unwrap();
                prop_assert_eq!(&json, &serde_json::to_string(text).unwrap());
                agree(&json);
            }
        }

        #[test]
        fn any_escapes_are_read_as_others_do(pieces in prop::collection::vec(
            prop_oneof![
                Just("\\u00e9"), Just("\\ud83d"), Just("\\ude00"), Just("\\/"), Just("\\n"), Just("\\"), Just("é"), Just("\""),
                Just("abcdefghijklmnop"),
            ], 0..12)) {
            agree(&format!("\"{}\"", pieces.concat()));
        }
    }
}
