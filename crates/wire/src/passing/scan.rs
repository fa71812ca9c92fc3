//! Stepping over JSON text without reading it.

use crate::RequestError;
use memchr::memchr2;
use std::ops::Range;
use wide::u8x16;

/// How deep values may lie in each other. Deeper ones are refused by every server that reads them.
const MAX_DEPTH: usize = 512;

/// How many bytes of an object or list are looked at together: one bit each of a word.
const BLOCK: usize = 64;

/// A walk over JSON text that steps over values without reading them.
pub(super) struct Walk<'b> {
    body: &'b [u8],
    at: usize,
}

impl<'b> Walk<'b> {
    /// A walk that begins at a place of the text.
    pub(super) fn from(body: &'b [u8], at: usize) -> Self {
        Walk { body, at }
    }

    /// Steps over an object and nothing after it, showing each field at its top: the ranges of its name, quotes included, and
    /// of its value.
    ///
    /// # Errors
    /// [`RequestError`] where it is no object, is cut, or something follows; and whatever `field` says.
    pub(super) fn object(
        mut self,
        field: impl FnMut(Range<usize>, Range<usize>) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        self.space();
        self.members(shown(field))?;
        self.nothing()
    }

    /// Steps over the fields of an object from here on, as [`Walk::object`] does, to its end and that of the text.
    ///
    /// # Errors
    /// As [`Walk::object`].
    pub(super) fn fields(
        mut self,
        field: impl FnMut(Range<usize>, Range<usize>) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        self.rest_of_members(shown(field))?;
        self.nothing()
    }

    /// Goes through an object: `member` is shown the range of each name, quotes included, and steps over its value.
    ///
    /// # Errors
    /// [`RequestError`] where it is no object or is cut; and whatever `member` says.
    pub(super) fn members(
        &mut self,
        member: impl FnMut(&mut Self, Range<usize>) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        if !self.take(b'{') {
            return Err(self.wrong("expected an object, `{` first"));
        }
        self.space();
        if self.take(b'}') { Ok(()) } else { self.rest_of_members(member) }
    }

    fn rest_of_members(
        &mut self,
        mut member: impl FnMut(&mut Self, Range<usize>) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        loop {
            let name = self.string()?;
            self.space();
            if !self.take(b':') {
                return Err(self.wrong("expected `:` after a field's name"));
            }
            self.space();
            member(self, name)?;
            self.space();
            if self.take(b',') {
                self.space();
            } else if self.take(b'}') {
                return Ok(());
            } else {
                return Err(self.wrong("expected `,` or `}` after a field"));
            }
        }
    }

    /// Goes through a list: `element` steps over each of what it holds.
    ///
    /// # Errors
    /// [`RequestError`] where it is no list or is cut; and whatever `element` says.
    pub(super) fn elements(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        if !self.take(b'[') {
            return Err(self.wrong("expected a list, `[` first"));
        }
        self.space();
        if self.take(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            self.space();
            if self.take(b',') {
                self.space();
            } else if self.take(b']') {
                return Ok(());
            } else {
                return Err(self.wrong("expected `,` or `]` after an element"));
            }
        }
    }

    fn nothing(&mut self) -> Result<(), RequestError> {
        self.space();
        if self.at < self.body.len() { Err(self.wrong("expected nothing after the object")) } else { Ok(()) }
    }

    /// The value that comes next, after what space there is.
    ///
    /// # Errors
    /// [`RequestError`] where there is none, or it is cut.
    pub(super) fn next(&mut self) -> Result<&'b [u8], RequestError> {
        self.space();
        let start = self.at;
        self.value()?;
        Ok(self.body.get(start..self.at).unwrap_or_default())
    }

    /// What stands at a range that was shown, without the quotes around it.
    pub(super) fn unquoted(&self, range: &Range<usize>) -> &'b [u8] {
        self.body.get(range.start + 1..range.end - 1).unwrap_or_default()
    }

    fn wrong(&self, problem: &str) -> RequestError {
        RequestError {
            kind: placet_core::ErrorKind::InvalidRequest,
            problem: format!("the body is not valid JSON: {problem}, at byte {}", self.at),
            field: None,
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.body.get(self.at) == Some(&byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn space(&mut self) {
        while matches!(self.body.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Steps over a text; gives its range, quotes included.
    fn string(&mut self) -> Result<Range<usize>, RequestError> {
        let start = self.at;
        if !self.take(b'"') {
            return Err(self.wrong("expected a text in quotes"));
        }
        self.rest_of_string()?;
        Ok(start..self.at)
    }

    fn rest_of_string(&mut self) -> Result<(), RequestError> {
        // Most texts are short, and eight bytes at a time are quicker for them than a search with wide registers.
        let mut near = 8;
        while near > 0
            && let Some(word) = self.body.get(self.at..).and_then(<[u8]>::first_chunk)
        {
            let found = first_of(u64::from_le_bytes(*word));
            if found == 8 {
                self.at += 8;
                near -= 1;
            } else if word[found] == b'"' {
                self.at += found + 1;
                return Ok(());
            } else {
                // An escape: the byte after it is part of the text, whatever it is.
                self.at += found + 2;
                near = 8;
            }
        }
        loop {
            match memchr2(b'"', b'\\', self.body.get(self.at..).unwrap_or_default()) {
                Some(found) if self.body[self.at + found] == b'"' => {
                    self.at += found + 1;
                    return Ok(());
                }
                Some(found) => self.at += found + 2,
                None => return Err(self.wrong("a text without its end")),
            }
        }
    }

    /// Steps over a value.
    fn value(&mut self) -> Result<(), RequestError> {
        match self.body.get(self.at) {
            Some(b'"') => self.string().map(drop),
            Some(b'{' | b'[') => self.container(),
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                while let Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E') = self.body.get(self.at) {
                    self.at += 1;
                }
                Ok(())
            }
            _ => Err(self.wrong("expected a value")),
        }
    }

    /// Steps over an object or a list, a block at a time: which of its bytes lie in texts is worked out for all of them at
    /// once, and only brackets outside texts are looked at one by one.
    fn container(&mut self) -> Result<(), RequestError> {
        let mut depth = 0_usize;
        let mut within = Within::default();
        while self.at < self.body.len() {
            let rest = &self.body[self.at..];
            let mut padded = [b' '; BLOCK];
            let block: &[u8; BLOCK] = match rest.first_chunk() {
                Some(block) => block,
                None => {
                    padded[..rest.len()].copy_from_slice(rest);
                    &padded
                }
            };
            let marks = Marks::of(block);
            let texts = within.texts(&marks);
            let mut outside = (marks.opens | marks.closes | marks.backslashes) & !texts;
            while outside != 0 {
                let place = outside.trailing_zeros();
                let is = |marks: u64| marks >> place & 1 == 1;
                if is(marks.opens) {
                    depth += 1;
                    if depth > MAX_DEPTH {
                        self.at += place as usize;
                        return Err(self.wrong("values lie too deep in each other"));
                    }
                } else if is(marks.closes) {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        self.at += place as usize + 1;
                        return Ok(());
                    }
                } else {
                    self.at += place as usize;
                    return Err(self.wrong("a backslash outside a text"));
                }
                outside &= outside - 1;
            }
            self.at += BLOCK;
        }
        self.at = self.body.len();
        Err(self.wrong(if within.text == 0 { "it ends too early" } else { "a text without its end" }))
    }
}

/// Steps over a member's value and shows where its name and its value stand.
fn shown<'b>(
    mut field: impl FnMut(Range<usize>, Range<usize>) -> Result<(), RequestError>,
) -> impl FnMut(&mut Walk<'b>, Range<usize>) -> Result<(), RequestError> {
    move |walk, name| {
        let start = walk.at;
        walk.value()?;
        field(name, start..walk.at)
    }
}

/// What stands at each of the bytes of a block, the first in the lowest bit.
struct Marks {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
}

impl Marks {
    #[inline]
    fn of(block: &[u8; BLOCK]) -> Self {
        let mut marks = Marks { quotes: 0, backslashes: 0, opens: 0, closes: 0 };
        for (index, bytes) in block.as_chunks::<16>().0.iter().enumerate() {
            let bytes = u8x16::new(*bytes);
            let mark =
                |bytes: u8x16, byte: u8| u64::from(bytes.simd_eq(u8x16::splat(byte)).to_bitmask()) << (16 * index);
            marks.quotes |= mark(bytes, b'"');
            marks.backslashes |= mark(bytes, b'\\');
            // Brackets and braces differ in this one bit, in which nothing else differs from a brace.
            let braces = bytes | u8x16::splat(b'{' ^ b'[');
            marks.opens |= mark(braces, b'{');
            marks.closes |= mark(braces, b'}');
        }
        marks
    }
}

/// What is known at the beginning of a block of what came before.
#[derive(Default)]
struct Within {
    /// All ones within a text.
    text: u64,
    /// One where the first byte is escaped.
    escaped: u64,
}

impl Within {
    /// The bytes that lie in texts, their first quotes among them and their last ones not.
    #[inline]
    fn texts(&mut self, marks: &Marks) -> u64 {
        let quotes = marks.quotes & !self.escapes(marks.backslashes);
        // Each bit becomes whether an odd number of quotes stands up to there.
        let mut texts = quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            texts ^= texts << shift;
        }
        texts ^= self.text;
        self.text = 0_u64.wrapping_sub(texts >> 63);
        texts
    }

    /// The bytes that stand after a backslash that is not itself escaped. Of a row of backslashes every second one escapes, so
    /// that what matters is whether the row begins at an even or at an odd place: adding its beginning to a row carries over to
    /// its end. (Langdale and Lemire, "Parsing gigabytes of JSON per second", 2019, section 3.1.1.)
    #[inline]
    fn escapes(&mut self, backslashes: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        if backslashes == 0 {
            return std::mem::take(&mut self.escaped);
        }
        let backslashes = backslashes & !self.escaped;
        let follows = backslashes << 1 | self.escaped;
        let odd_beginnings = backslashes & !EVEN & !follows;
        let (even_rows, goes_on) = odd_beginnings.overflowing_add(backslashes);
        self.escaped = u64::from(goes_on);
        (EVEN ^ (even_rows << 1)) & follows
    }
}

/// The place of the first quote or backslash among eight bytes, the lowest first; 8 where there is none.
fn first_of(word: u64) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Marks the top bit of every byte that is zero, and perhaps of others above the first of them.
    let zero = |word: u64| word.wrapping_sub(EACH) & !word & (EACH << 7);
    let marked = zero(word ^ (EACH * 0x22)) | zero(word ^ (EACH * 0x5c));
    (marked.trailing_zeros() / 8) as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    /// The end of a container, byte by byte.
    fn end(text: &[u8]) -> Option<usize> {
        let (mut depth, mut at, mut is_text) = (0_usize, 0, false);
        while let Some(byte) = text.get(at) {
            at += 1;
            match byte {
                b'\\' if is_text => at += 1,
                b'\\' => return None,
                b'"' => is_text = !is_text,
                b'{' | b'[' if !is_text => depth += 1,
                b'}' | b']' if !is_text => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
        None
    }

    proptest! {
        #[test]
        fn a_container_ends_where_it_does_byte_by_byte(
            inner in prop::collection::vec(
                prop_oneof![4 => Just("\\"), 2 => Just("\""), 1 => Just("["), 1 => Just("}"), 1 => Just("é"), 2 => "[a-z,:;~+=@]{0,20}".prop_map(|text| &*text.leak())],
                0..120,
            ),
        ) {
            let text = format!("[{}", inner.concat());
            let mut walk = Walk::from(text.as_bytes(), 0);
            let found = walk.container().ok().map(|()| walk.at);
            prop_assert_eq!(found, end(text.as_bytes()));
        }
    }

    #[test]
    fn texts_that_lie_across_blocks_are_texts() {
        for before in 0..200 {
            for middle in [r#"\\"#, r#"\""#, r#"\\\"]"#, "]", "}{"] {
                let text = format!(r#"["{}{middle}{}"]"#, "x".repeat(before), r"\\".repeat(before % 70));
                let whole = format!("{text}, 1]");
                assert_eq!(Walk::from(whole.as_bytes(), 0).next().unwrap(), text.as_bytes());
            }
        }
    }
}
