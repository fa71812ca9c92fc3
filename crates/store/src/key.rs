//! Keys: ordered, typed tuples that begin with a tenant, and their order-preserving encoding.
//!
//! # The encoding
//!
//! One byte names the type of a part, then its content follows: whole numbers and instants as eight bytes, big-endian
//! (signed ones with the sign bit flipped); text and bytes with every `00` written as `00 FF` and ended by `00 01`. Hence
//! bytes compare as tuples do, and the encoding of a tuple begins with that of another exactly if the tuple begins with
//! the other. The order of types is the order of [`KeyPart`]'s variants.

use crate::batch::AppendRef;
use crate::error::{Result, StoreError};
use placet_core::Timestamp;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The longest encoded key, in bytes: what fits an index row of every backend.
pub const MAX_KEY_BYTES: usize = 1024;

const ACROSS: u8 = 0x01;
const TENANT: u8 = 0x02;
const U64: u8 = 0x10;
const I64: u8 = 0x11;
const INSTANT: u8 = 0x12;
const TEXT: u8 = 0x20;
const BYTES: u8 = 0x21;
const SIGN: u64 = 1 << 63;

/// Whose something is: the first part of every key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(Option<Arc<str>>);

impl Tenant {
    /// The reserved tenant, which holds what sweeps across tenants need: due indexes, outboxes. No name collides with it.
    pub const ACROSS: Tenant = Tenant(None);

    /// The tenant of that name. Any text is a name, also the empty one.
    pub fn new(name: impl AsRef<str>) -> Self {
        Tenant(Some(Arc::from(name.as_ref())))
    }

    /// The name, or nothing for the reserved tenant.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name:?}"),
            None => f.write_str("*"),
        }
    }
}

/// A part of a key after its tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPart {
    /// A whole number from 0.
    U64(u64),
    /// A whole number.
    I64(i64),
    /// An instant.
    Instant(Timestamp),
    /// Text, ordered by its bytes.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// An ordered, typed tuple that begins with a tenant; names a cell, or as a [`LogName`] a log. Cheap to compare and hash:
/// it is held in its encoded form.
///
/// ```
/// use placet_store::{Key, Tenant};
/// let acme = Tenant::new("acme");
/// let runs = Key::new(&acme).text("run");
/// let run = runs.clone().text("r-1").u64(7);
/// assert!(run.starts_with(&runs) && runs < run);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Vec<u8>);

impl Key {
    /// The key that holds nothing but a tenant.
    #[must_use]
    pub fn new(tenant: &Tenant) -> Self {
        let mut bytes = Vec::with_capacity(48);
        match tenant.name() {
            None => bytes.push(ACROSS),
            Some(name) => push_escaped(&mut bytes, TENANT, name.as_bytes()),
        }
        Key(bytes)
    }

    /// Adds a part of text.
    #[must_use]
    pub fn text(mut self, text: impl AsRef<str>) -> Self {
        push_escaped(&mut self.0, TEXT, text.as_ref().as_bytes());
        self
    }

    /// Adds a part of bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: impl AsRef<[u8]>) -> Self {
        push_escaped(&mut self.0, BYTES, bytes.as_ref());
        self
    }

    /// Adds a number from 0. The number of a log entry, filled in or known, is such a part.
    #[must_use]
    pub fn u64(mut self, number: u64) -> Self {
        push_word(&mut self.0, U64, number);
        self
    }

    /// Adds a signed number.
    #[must_use]
    pub fn i64(mut self, number: i64) -> Self {
        push_word(&mut self.0, I64, number.cast_unsigned() ^ SIGN);
        self
    }

    /// Adds an instant.
    #[must_use]
    pub fn instant(mut self, instant: Timestamp) -> Self {
        push_word(&mut self.0, INSTANT, instant.as_micros().cast_unsigned() ^ SIGN);
        self
    }

    /// Adds a part of any type.
    #[must_use]
    pub fn part(self, part: &KeyPart) -> Self {
        match part {
            KeyPart::U64(number) => self.u64(*number),
            KeyPart::I64(number) => self.i64(*number),
            KeyPart::Instant(instant) => self.instant(*instant),
            KeyPart::Text(text) => self.text(text),
            KeyPart::Bytes(bytes) => self.bytes(bytes),
        }
    }

    /// Goes on with parts that the store fills in when it commits.
    #[must_use]
    pub fn filled(self) -> KeyForm {
        KeyForm { pieces: vec![KeyPiece::Literal(self.0)] }
    }

    /// Whether this tuple begins with all parts of `prefix`; every key does with itself.
    #[must_use]
    pub fn starts_with(&self, prefix: &Key) -> bool {
        self.0.starts_with(&prefix.0)
    }

    /// The tenant.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a stored key is not one of this encoding.
    pub fn tenant(&self) -> Result<Tenant> {
        Ok(decode(&self.0)?.0)
    }

    /// The parts after the tenant.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a stored key is not one of this encoding.
    pub fn parts(&self) -> Result<Vec<KeyPart>> {
        Ok(decode(&self.0)?.1)
    }

    /// The encoded form.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key of an encoded form, as [`Key::as_bytes`] gave it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when the bytes are not a key's.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        decode(&bytes)?;
        Ok(Key(bytes))
    }

    /// A key that a backend read from where only keys are written.
    pub(crate) fn stored(bytes: Vec<u8>) -> Self {
        Key(bytes)
    }

    /// The least bytes that are greater than every key with this prefix.
    pub(crate) fn end_of_prefix(&self) -> Vec<u8> {
        // A key begins with 01 or 02, so there is always a byte that can grow.
        let mut end = self.0.clone();
        while end.last() == Some(&0xFF) {
            end.pop();
        }
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        end
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok((tenant, parts)) = decode(&self.0) else { return write!(f, "not a key: {:02x?}", self.0) };
        write!(f, "{tenant:?}")?;
        for part in parts {
            match part {
                KeyPart::U64(number) => write!(f, "/{number}")?,
                KeyPart::I64(number) => write!(f, "/{number:+}")?,
                KeyPart::Instant(instant) => write!(f, "/{instant}")?,
                KeyPart::Text(text) => write!(f, "/{text:?}")?,
                KeyPart::Bytes(bytes) => write!(f, "/0x{}", Hex(&bytes))?,
            }
        }
        Ok(())
    }
}

/// As `Debug`: a key is shown for people, never parsed.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The name of a log: a key among logs. A cell may have the same key; they do not know each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogName(Key);

impl LogName {
    /// The log under that key.
    #[must_use]
    pub fn new(key: Key) -> Self {
        LogName(key)
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.0
    }
}

impl From<Key> for LogName {
    fn from(key: Key) -> Self {
        LogName(key)
    }
}

impl fmt::Debug for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A key of which parts are filled in by the store when it commits: made by [`Key::filled`].
///
/// Such a key may only be put. Nothing else puts it, or adds to it, by its literal form: on PostgreSQL it is not locked
/// beforehand, since nobody knows it beforehand. Reading it, conditions on it and its deletion name it literally.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyForm {
    pieces: Vec<KeyPiece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyPiece {
    Literal(Vec<u8>),
    Number(AppendRef),
    Instant(Duration),
}

impl KeyForm {
    /// Adds the number of an entry that the batch appended before, as [`Key::u64`] would.
    #[must_use]
    pub fn number(mut self, append: AppendRef) -> Self {
        self.pieces.push(KeyPiece::Number(append));
        self
    }

    /// Adds the instant of the commit, as [`Key::instant`] would.
    #[must_use]
    pub fn now(self) -> Self {
        self.now_plus(Duration::ZERO)
    }

    /// Adds the instant of the commit plus `span`, as [`Key::instant`] would.
    #[must_use]
    pub fn now_plus(mut self, span: Duration) -> Self {
        self.pieces.push(KeyPiece::Instant(span));
        self
    }

    /// Adds a part that is known beforehand.
    #[must_use]
    pub fn part(mut self, part: &KeyPart) -> Self {
        let literal = match self.pieces.pop() {
            Some(KeyPiece::Literal(bytes)) => Key(bytes),
            Some(other) => {
                self.pieces.push(other);
                Key(Vec::new())
            }
            None => Key(Vec::new()),
        };
        self.pieces.push(KeyPiece::Literal(literal.part(part).0));
        self
    }

    /// Adds text that is known beforehand.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.part(&KeyPart::Text(text.into()))
    }

    /// Adds a number that is known beforehand.
    #[must_use]
    pub fn u64(self, number: u64) -> Self {
        self.part(&KeyPart::U64(number))
    }

    /// Adds bytes that are known beforehand.
    #[must_use]
    pub fn bytes(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.part(&KeyPart::Bytes(bytes.into()))
    }

    pub(crate) fn references(&self) -> impl Iterator<Item = AppendRef> + '_ {
        self.pieces.iter().filter_map(|piece| match piece {
            KeyPiece::Number(append) => Some(*append),
            KeyPiece::Literal(_) | KeyPiece::Instant(_) => None,
        })
    }

    pub(crate) fn encoded_len(&self) -> usize {
        let len = |piece: &KeyPiece| match piece {
            KeyPiece::Literal(bytes) => bytes.len(),
            KeyPiece::Number(_) | KeyPiece::Instant(_) => 9,
        };
        self.pieces.iter().map(len).sum()
    }

    pub(crate) fn fill(&self, numbers: &[u64], instant: Timestamp) -> Key {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        for piece in &self.pieces {
            match piece {
                KeyPiece::Literal(literal) => bytes.extend_from_slice(literal),
                KeyPiece::Number(append) => push_word(&mut bytes, U64, append.of(numbers)),
                KeyPiece::Instant(span) => {
                    push_word(&mut bytes, INSTANT, instant.plus(*span).as_micros().cast_unsigned() ^ SIGN);
                }
            }
        }
        Key(bytes)
    }
}

/// The key of a put: known, or with parts that the store fills in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutKey {
    /// Known beforehand.
    Known(Key),
    /// Filled in at the commit.
    Filled(KeyForm),
}

impl From<Key> for PutKey {
    fn from(key: Key) -> Self {
        PutKey::Known(key)
    }
}

impl From<&Key> for PutKey {
    fn from(key: &Key) -> Self {
        PutKey::Known(key.clone())
    }
}

impl From<KeyForm> for PutKey {
    fn from(form: KeyForm) -> Self {
        PutKey::Filled(form)
    }
}

fn push_word(bytes: &mut Vec<u8>, tag: u8, word: u64) {
    bytes.push(tag);
    bytes.extend_from_slice(&word.to_be_bytes());
}

fn push_escaped(bytes: &mut Vec<u8>, tag: u8, content: &[u8]) {
    bytes.push(tag);
    for run in content.split_inclusive(|byte| *byte == 0) {
        bytes.extend_from_slice(run);
        if run.last() == Some(&0) {
            bytes.push(0xFF);
        }
    }
    bytes.extend_from_slice(&[0x00, 0x01]);
}

fn decode(bytes: &[u8]) -> Result<(Tenant, Vec<KeyPart>)> {
    let corrupt = || StoreError::Corrupt { what: format!("the bytes {} are not a key", Hex(bytes)) };
    let mut rest = bytes;
    let tenant = match take_tag(&mut rest).ok_or_else(corrupt)? {
        ACROSS => Tenant::ACROSS,
        TENANT => Tenant::new(take_text(&mut rest).ok_or_else(corrupt)?),
        _ => return Err(corrupt()),
    };
    let mut parts = Vec::new();
    while !rest.is_empty() {
        parts.push(take_part(&mut rest).ok_or_else(corrupt)?);
    }
    Ok((tenant, parts))
}

fn take_part(rest: &mut &[u8]) -> Option<KeyPart> {
    Some(match take_tag(rest)? {
        U64 => KeyPart::U64(take_word(rest)?),
        I64 => KeyPart::I64((take_word(rest)? ^ SIGN).cast_signed()),
        INSTANT => KeyPart::Instant(Timestamp::from_micros((take_word(rest)? ^ SIGN).cast_signed())),
        TEXT => KeyPart::Text(take_text(rest)?),
        BYTES => KeyPart::Bytes(take_escaped(rest)?),
        _ => return None,
    })
}

fn take_tag(rest: &mut &[u8]) -> Option<u8> {
    let (tag, tail) = rest.split_first()?;
    *rest = tail;
    Some(*tag)
}

fn take_word(rest: &mut &[u8]) -> Option<u64> {
    let (word, tail) = rest.split_first_chunk::<8>()?;
    *rest = tail;
    Some(u64::from_be_bytes(*word))
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(take_escaped(rest)?).ok()
}

fn take_escaped(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let zero = rest.iter().position(|byte| *byte == 0)?;
        content.extend_from_slice(&rest[..zero]);
        let mark = *rest.get(zero + 1)?;
        *rest = &rest[zero + 2..];
        match mark {
            0xFF => content.push(0),
            0x01 => return Some(content),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests;
