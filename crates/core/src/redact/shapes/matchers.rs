//! How each shape goes on after its beginning.

use super::table::{Class, SHAPES};
use super::{CONTEXT, Verdict};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// A text as one matcher may see it: up to its reach, and whether more may come.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    /// True when what is here is all that the matcher may ever see.
    last: bool,
    /// The scan's whole text, for runs that are read once and shared.
    text: &'a [u8],
}

/// What stands at a place.
enum Peek {
    Byte(u8),
    /// Nothing, and nothing will come.
    End,
    /// Nothing yet.
    More,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a [u8], at: usize, reach: usize, at_end: bool) -> Self {
        let end = text.len().min(at.saturating_add(reach));
        Reader { bytes: &text[..end], last: at_end || end < text.len(), text }
    }

    fn peek(&self, at: usize) -> Peek {
        match self.bytes.get(at) {
            Some(&byte) => Peek::Byte(byte),
            None if self.last => Peek::End,
            None => Peek::More,
        }
    }

    /// Where the run of `class` from `from` ends; `None` when more of it may come.
    fn run(&self, class: Class, from: usize, runs: &mut Runs) -> Option<usize> {
        let end = runs.end(self.text, class, from).min(self.bytes.len());
        (end < self.bytes.len() || self.last).then_some(end)
    }
}

/// The last run read of each class, so that many beginnings within one run cost one reading.
#[derive(Default)]
pub(super) struct Runs {
    last: [(usize, usize); 5],
    /// How many bytes were read in all.
    #[cfg(test)]
    pub(super) read: usize,
}

impl Runs {
    pub(super) fn end(&mut self, text: &[u8], class: Class, from: usize) -> usize {
        let (start, end) = &mut self.last[class as usize];
        if !(*start <= from && from < *end) {
            *start = from;
            *end = from + text[from.min(text.len())..].iter().take_while(|b| class.holds(**b)).count();
            #[cfg(test)]
            {
                self.read += *end - from;
            }
        }
        *end
    }
}

impl Class {
    pub(super) fn holds(self, b: u8) -> bool {
        b.is_ascii_alphanumeric()
            || match self {
                Class::Alnum => false,
                Class::Url => matches!(b, b'-' | b'_'),
                Class::Dotted => matches!(b, b'-' | b'_' | b'.'),
                Class::Base64 => matches!(b, b'+' | b'/' | b'='),
                Class::Token => matches!(b, b'-' | b'_' | b'.' | b'~' | b'+' | b'/' | b'='),
            }
    }
}

/// Whether a token may begin at `at`: not within a word, where an escape sequence (`\n`, `%3D`, `\u0022`, a terminal's
/// colour) is no part of the word although it ends with a letter.
fn begins_word(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[at.saturating_sub(CONTEXT)..at];
    match before {
        [] => true,
        [.., last] if !last.is_ascii_alphanumeric() => true,
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
        [.., b'\\', b'u', a, b, c, d] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => true,
        [rest @ .., b'm' | b'K'] => {
            let digits = rest.iter().rev().take_while(|b| b.is_ascii_digit() || **b == b';').count();
            rest[..rest.len() - digits].ends_with(b"\x1b[")
        }
        _ => false,
    }
}

/// Counts over the first bytes of a value.
struct Look {
    different: u32,
    digits: usize,
    upper: usize,
    lower: usize,
    /// The longest run of letters and digits.
    unbroken: usize,
}

impl Look {
    fn at(value: &[u8]) -> Look {
        let mut look = Look { different: 0, digits: 0, upper: 0, lower: 0, unbroken: 0 };
        let (mut seen, mut run) = (0u128, 0);
        // So long a start shows what the value is, and long runs full of beginnings stay cheap.
        for &b in value.iter().take(128) {
            seen |= 1 << (b & 127);
            look.digits += usize::from(b.is_ascii_digit());
            look.upper += usize::from(b.is_ascii_uppercase());
            look.lower += usize::from(b.is_ascii_lowercase());
            run = if b.is_ascii_alphanumeric() { run + 1 } else { 0 };
            look.unbroken = look.unbroken.max(run);
        }
        look.different = seen.count_ones();
        look
    }

    /// Not `xxxxxxxx` or `...`.
    fn varied(&self) -> bool {
        self.different >= 6
    }

    fn dense(&self) -> bool {
        self.varied() && (self.unbroken >= 16 || (self.digits > 0 && self.upper > 0 && self.lower > 0))
    }
}

fn trimmed(bytes: &[u8], from: usize, end: usize) -> usize {
    // A full stop after a token ends the sentence.
    from + bytes[from..end].iter().rposition(|b| *b != b'.').map_or(0, |at| at + 1)
}

pub(super) fn token(
    reader: Reader<'_>,
    at: usize,
    body: usize,
    class: Class,
    least: usize,
    dense: bool,
    runs: &mut Runs,
) -> Verdict {
    if !begins_word(reader.bytes, at) {
        return Verdict::None;
    }
    let Some(end) = reader.run(class, body, runs) else { return Verdict::Open };
    let end = trimmed(reader.bytes, body, end);
    let look = Look::at(&reader.bytes[body..end]);
    let good = end - body >= least && if dense { look.dense() } else { look.varied() };
    if good { Verdict::Found(at, end) } else { Verdict::None }
}

pub(super) fn exact(reader: Reader<'_>, at: usize, body: usize, class: Class, length: usize) -> Verdict {
    if !begins_word(reader.bytes, at) {
        return Verdict::None;
    }
    for i in body..body + length {
        match reader.peek(i) {
            Peek::Byte(b) if class.holds(b) => {}
            Peek::More => return Verdict::Open,
            _ => return Verdict::None,
        }
    }
    let end = body + length;
    let value = &reader.bytes[body..end];
    let look = Look::at(value);
    // AWS and its kin write capitals and digits only; a long word is neither.
    let good = look.varied() && look.digits > 0 && (length != 16 || look.lower == 0);
    match reader.peek(end) {
        Peek::Byte(b) if class.holds(b) => Verdict::None,
        _ if !good => Verdict::None,
        Peek::More => Verdict::Open,
        _ => Verdict::Found(at, end),
    }
}

pub(super) fn jwt(reader: Reader<'_>, at: usize, runs: &mut Runs) -> Verdict {
    if !begins_word(reader.bytes, at) {
        return Verdict::None;
    }
    let mut ends = Vec::with_capacity(5);
    let mut start = at;
    // Three parts when signed, five when encrypted.
    while ends.len() < 5 {
        let Some(end) = reader.run(Class::Url, start, runs) else { return Verdict::Open };
        ends.push((start, end));
        match reader.peek(end) {
            Peek::Byte(b'.') => start = end + 1,
            _ => break,
        }
        if ends.len() == 1 && end - at < 12 {
            return Verdict::None;
        }
    }
    let part = |n: usize| ends.get(n).map_or(&[][..], |&(start, end)| &reader.bytes[start..end]);
    let signed = part(1).starts_with(b"ey") && part(1).len() >= 10;
    let encrypted = ends.len() == 5 && part(4).len() >= 16;
    let end = ends.last().map_or(at, |&(_, end)| trimmed(reader.bytes, at, end));
    if part(0).len() >= 12 && (signed || encrypted) { Verdict::Found(at, end) } else { Verdict::None }
}

/// The block from its header to its footer; without a footer (somebody cut it) as far as lines look like a key's.
pub(super) fn private_key(reader: Reader<'_>, at: usize, label: usize) -> Verdict {
    let bytes = reader.bytes;
    let mut body = label;
    loop {
        match reader.peek(body) {
            Peek::Byte(b'-') => break,
            Peek::Byte(b) if (b.is_ascii_uppercase() || b.is_ascii_digit() || b == b' ') && body - label < 48 => {
                body += 1
            }
            Peek::More => return Verdict::Open,
            _ => return Verdict::None,
        }
    }
    let label = &bytes[label..body];
    if !(label.ends_with(b"PRIVATE KEY") || label.ends_with(b"PRIVATE KEY BLOCK")) {
        return Verdict::None;
    }
    let (mut at_now, mut long, mut short) = (body, 0, 0);
    while let Peek::Byte(b'-') = reader.peek(at_now) {
        at_now += 1;
    }
    let mut proven = at_now;
    loop {
        at_now = skip_between_lines(bytes, at_now);
        let rest = &bytes[at_now..];
        let half = |whole: &[u8]| !rest.is_empty() && rest.len() < whole.len() && whole.starts_with(rest);
        if !reader.last && (half(ARROW) || HEADERS.iter().any(|name| half(name))) {
            return Verdict::Open;
        }
        if HEADERS.iter().any(|name| rest.starts_with(name)) {
            match rest.iter().position(|b| *b == b'\n' || *b == b'\\') {
                Some(length) => at_now += length,
                None if reader.last => at_now = bytes.len(),
                None => return Verdict::Open,
            }
            continue;
        }
        let end = at_now + rest.iter().take_while(|b| Class::Base64.holds(**b)).count();
        let chunk = &bytes[at_now..end];
        let next = reader.peek(end);
        if matches!(next, Peek::More) {
            return Verdict::Open;
        }
        if chunk.is_empty() && matches!(next, Peek::Byte(b'-')) {
            return match footer(reader, end) {
                Footer::Whole(end) if long + short > 0 => Verdict::Found(at, end),
                Footer::Open => Verdict::Open,
                _ if long > 0 => Verdict::Found(at, proven),
                _ => Verdict::None,
            };
        }
        let number = chunk.len() <= 6 && chunk.iter().all(u8::is_ascii_digit);
        if chunk.len() >= 40 {
            long += 1;
        } else if chunk.is_empty() || (short == 2 && !number) {
            return if long > 0 { Verdict::Found(at, proven) } else { Verdict::None };
        } else if !number && chunk != b"+" {
            short += 1;
        }
        // The line after the last long one belongs to the key; what follows that, only with a footer.
        if long > 0 && short <= 1 && !number {
            proven = end;
        }
        at_now = end;
    }
}

/// Lines that stand before a key's body and are not of it.
const HEADERS: [&[u8]; 6] = [b"Proc-Type:", b"DEK-Info:", b"Version:", b"Comment:", b"Hash:", b"Charset:"];

/// What some file readers put after a line's number.
const ARROW: &[u8] = "\u{2192}".as_bytes();

enum Footer {
    Whole(usize),
    Open,
    None,
}

fn footer(reader: Reader<'_>, at: usize) -> Footer {
    const START: &[u8] = b"-----END ";
    let rest = &reader.bytes[at..];
    let known = rest.len().min(START.len());
    if rest[..known] != START[..known] {
        return Footer::None;
    }
    let mut end = at + START.len();
    // The label, then up to five dashes.
    let mut dashes = 0;
    loop {
        match reader.peek(end) {
            Peek::More => return Footer::Open,
            Peek::Byte(b'-') => {
                dashes += 1;
                end += 1;
                if dashes == 5 {
                    return Footer::Whole(end);
                }
            }
            Peek::Byte(b) if dashes == 0 && (b.is_ascii_uppercase() || b == b' ') && end - at < 64 => end += 1,
            _ => return if dashes > 0 { Footer::Whole(end) } else { Footer::Whole(end.min(reader.bytes.len())) },
        }
    }
}

/// Passes over what stands between the lines of a key: spaces, line breaks (escaped ones too), quotes, and the marks with
/// which lines are numbered.
fn skip_between_lines(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at..).unwrap_or_default() {
            [b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'' | b',' | b':' | b'|' | b'>', ..] => at += 1,
            [b'\\', b'n' | b'r' | b't', ..] => at += 2,
            [b'\\', ..] => at += 1,
            rest if rest.starts_with(ARROW) => at += ARROW.len(),
            _ => return at,
        }
    }
}

pub(super) fn userinfo(reader: Reader<'_>, at: usize, authority: usize) -> Verdict {
    if !reader.bytes[..at].last().is_some_and(u8::is_ascii_alphanumeric) {
        return Verdict::None;
    }
    let ends = |b: &u8| *b <= b' ' || b"/?#\"'`<>\\".contains(b);
    let rest = reader.bytes.get(authority..).unwrap_or_default();
    let end = match rest.iter().position(ends) {
        Some(length) => authority + length,
        None if reader.last => reader.bytes.len(),
        None => return Verdict::Open,
    };
    match userinfo_span(&reader.bytes[authority..end]) {
        Some((from, to)) => Verdict::Found(authority + from, authority + to),
        None => Verdict::None,
    }
}

/// The secret part of `user:password@host`, as start and end.
fn userinfo_span(authority: &[u8]) -> Option<(usize, usize)> {
    // A careless password holds an @ itself: the last one ends it.
    let end = authority.iter().rposition(|b| *b == b'@')?;
    let userinfo = &authority[..end];
    match userinfo.iter().position(|b| *b == b':') {
        Some(colon) => (!is_placeholder(&userinfo[colon + 1..])).then_some((colon + 1, end)),
        // A token in the place of the user, as in a Sentry address.
        None => {
            let look = Look::at(userinfo);
            let token = userinfo.len() >= 20 && look.varied() && look.digits > 0 && look.unbroken >= 16;
            token.then_some((0, end))
        }
    }
}

/// The secret part of an address's userinfo: its password, or the user where that is a token.
pub(in crate::redact) fn userinfo_secret(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (from, to) = userinfo_span(authority.as_bytes())?;
    authority.get(from..to)
}

/// What documentation writes in the place of a password.
fn is_placeholder(password: &[u8]) -> bool {
    let same = password.windows(2).all(|pair| pair[0] == pair[1]);
    let templated =
        matches!(password, [b'{', .., b'}'] | [b'$', b'{' | b'(', ..] | [b'[', .., b']'] | [b'%', b's' | b'('])
            || (password.starts_with(b"$") && password[1..].iter().all(|b| b.is_ascii_uppercase() || *b == b'_'));
    let word = ["password", "pass", "passwd", "pwd", "secret", "token"];
    same || templated || word.iter().any(|word| password.eq_ignore_ascii_case(word.as_bytes()))
}

/// Passes over up to `most` bytes that `skip` accepts; `None` when more may come.
fn skip(reader: Reader<'_>, mut at: usize, most: usize, skip: impl Fn(u8) -> bool) -> Option<usize> {
    for _ in 0..most {
        match reader.peek(at) {
            Peek::Byte(b) if skip(b) => at += 1,
            Peek::More => return None,
            _ => break,
        }
    }
    Some(at)
}

pub(super) fn bearer(reader: Reader<'_>, at: usize, body: usize, runs: &mut Runs) -> Verdict {
    if !begins_word(reader.bytes, at) {
        return Verdict::None;
    }
    let Some(from) = skip(reader, body, 4, |b| b == b' ' || b == b'\t') else { return Verdict::Open };
    if from == body {
        return Verdict::None;
    }
    let Some(end) = reader.run(Class::Token, from, runs) else { return Verdict::Open };
    let end = trimmed(reader.bytes, from, end);
    if end - from >= 16 && Look::at(&reader.bytes[from..end]).dense() {
        Verdict::Found(from, end)
    } else {
        Verdict::None
    }
}

/// Passes over `": "`, `=`, `=>` and the like after a name; `Err` is the verdict when there is no value.
fn value_after_name(reader: Reader<'_>, body: usize) -> Result<usize, Verdict> {
    let quote = |b: u8| matches!(b, b' ' | b'\t' | b'"' | b'\'' | b'\\' | b'`');
    let Some(separator) = skip(reader, body, 6, quote) else { return Err(Verdict::Open) };
    let Some(after) = skip(reader, separator, 2, |b| matches!(b, b':' | b'=' | b'>')) else {
        return Err(Verdict::Open);
    };
    if after == separator {
        return Err(Verdict::None);
    }
    skip(reader, after, 6, quote).ok_or(Verdict::Open)
}

pub(super) fn authorization(reader: Reader<'_>, body: usize, runs: &mut Runs) -> Verdict {
    let word = match value_after_name(reader, body) {
        Ok(word) => word,
        Err(verdict) => return verdict,
    };
    let Some(word_end) = reader.run(Class::Token, word, runs) else { return Verdict::Open };
    let scheme = &reader.bytes[word..word_end];
    let is = |name: &str| scheme.eq_ignore_ascii_case(name.as_bytes());
    let Some(from) = skip(reader, word_end, 4, |b| b == b' ' || b == b'\t') else { return Verdict::Open };
    let schemed = from > word_end;
    let basic = schemed && is("basic");
    let other = schemed && ["bearer", "token", "apikey", "key", "bot", "negotiate"].iter().any(|name| is(name));
    let (from, least) = if basic || other { (from, if basic { 8 } else { 16 }) } else { (word, 16) };
    let Some(end) = reader.run(Class::Token, from, runs) else { return Verdict::Open };
    let end = trimmed(reader.bytes, from, end);
    let value = &reader.bytes[from..end];
    let good = if basic {
        let decoded = STANDARD.decode(value).or_else(|_| STANDARD_NO_PAD.decode(value)).unwrap_or_default();
        decoded.contains(&b':')
    } else {
        Look::at(value).dense()
    };
    if good && value.len() >= least { Verdict::Found(from, end) } else { Verdict::None }
}

pub(super) fn named(reader: Reader<'_>, body: usize, runs: &mut Runs, good: fn(&[u8]) -> bool) -> Verdict {
    let from = match value_after_name(reader, body) {
        Ok(from) => from,
        Err(verdict) => return verdict,
    };
    let Some(end) = reader.run(Class::Token, from, runs) else { return Verdict::Open };
    let end = trimmed(reader.bytes, from, end);
    if good(&reader.bytes[from..end]) { Verdict::Found(from, end) } else { Verdict::None }
}

/// A value that nobody would write as a word, an expression or a number.
pub(super) fn looks_random(value: &[u8]) -> bool {
    let look = Look::at(value);
    let letters = look.upper + look.lower;
    let uuid = value.len() >= 32 && value.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
    value.len() >= 20 && look.different >= 8 && look.digits >= 2 && letters >= 2 && (look.unbroken >= 16 || uuid)
}

pub(super) fn aws_secret(value: &[u8]) -> bool {
    let look = Look::at(value);
    value.len() == 40 && look.varied() && look.digits > 0 && look.upper > 0 && look.lower > 0
}

/// Whether `value`, standing under `name` in an object, is the secret that the same pair would be in text.
pub(in crate::redact) fn named_value(name: &str, value: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    SHAPES
        .iter()
        .find(|shape| shape.is_named() && name.ends_with(shape.needle) && shape.accepts(value.as_bytes()))
        .map(|s| s.kind)
}
