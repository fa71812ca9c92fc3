//! Values: bytes with a format version, and forms of them that the store fills in.

use crate::batch::AppendRef;
use crate::error::{Result, StoreError};
use bytes::Bytes;
use placet_core::Timestamp;
use std::fmt;
use std::time::Duration;

/// The largest value, in bytes. What is larger is a blob.
pub const MAX_VALUE_BYTES: usize = 16 * 1024 * 1024;

/// Bytes with the version of the format that they are written in.
///
/// Whoever writes a kind of value counts its formats from 1. Format 0 is the store's own: a
/// counter.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    /// The version of the format, counted from 1 by whoever writes this kind of value.
    pub format: u16,
    /// The content.
    pub bytes: Bytes,
}

impl Value {
    /// The format of a counter, which the store itself writes.
    pub const OWN: u16 = 0;

    /// A value of that format.
    pub fn new(format: u16, bytes: impl Into<Bytes>) -> Self {
        Value { format, bytes: bytes.into() }
    }

    /// A value that holds `content` as JSON.
    ///
    /// # Errors
    /// [`StoreError::Misuse`] when the content has no JSON form.
    pub fn json<T: serde::Serialize + ?Sized>(format: u16, content: &T) -> Result<Self> {
        let bytes = serde_json::to_vec(content)
            .map_err(|error| StoreError::Misuse { problem: format!("a value has no form in JSON: {error}") })?;
        Ok(Value::new(format, bytes))
    }

    /// The content of a JSON value whose format is at most `known`.
    ///
    /// # Errors
    /// [`StoreError::NewerFormat`] when a newer program wrote it, [`StoreError::Corrupt`] when it is not such JSON.
    pub fn from_json<T: serde::de::DeserializeOwned>(&self, known: u16) -> Result<T> {
        serde_json::from_slice(self.known(known)?)
            .map_err(|error| StoreError::Corrupt { what: format!("a value of format {}: {error}", self.format) })
    }

    /// The content of a value whose format is at most `known`.
    ///
    /// # Errors
    /// [`StoreError::NewerFormat`] when a newer program wrote it.
    pub fn known(&self, known: u16) -> Result<&Bytes> {
        if self.format > known {
            return Err(StoreError::NewerFormat { found: self.format, known });
        }
        Ok(&self.bytes)
    }

    /// A counter at `sum`: what [`Batch::add`](crate::Batch::add) adds to.
    #[must_use]
    pub fn counter(sum: i64) -> Self {
        Value::new(Value::OWN, sum.to_be_bytes().to_vec())
    }

    /// The sum, if this is a counter.
    #[must_use]
    pub fn as_counter(&self) -> Option<i64> {
        let bytes = <[u8; 8]>::try_from(self.bytes.as_ref()).ok()?;
        (self.format == Value::OWN).then(|| i64::from_be_bytes(bytes))
    }

    /// The instant in the first eight bytes, as [`ValueForm::now_plus`] writes it: what
    /// [`Condition::NotPassed`](crate::Condition::NotPassed) looks at.
    #[must_use]
    pub fn leading_instant(&self) -> Option<Timestamp> {
        let bytes = self.bytes.first_chunk::<8>()?;
        Some(Timestamp::from_micros(i64::from_be_bytes(*bytes)))
    }

    /// A value whose first eight bytes hold `instant`, followed by `rest`.
    #[must_use]
    pub fn with_leading_instant(format: u16, instant: Timestamp, rest: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(8 + rest.len());
        bytes.extend_from_slice(&instant.as_micros().to_be_bytes());
        bytes.extend_from_slice(rest);
        Value::new(format, bytes)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{} {:?}", self.format, self.bytes)
    }
}

/// The value of a write: known, or with parts that the store fills in when it commits.
///
/// ```
/// use placet_store::{Batch, Key, LogName, Tenant, Value, ValueForm};
/// # let tenant = Tenant::new("acme");
/// # let log = LogName::new(Key::new(&tenant).text("board"));
/// let mut batch = Batch::new();
/// let number = batch.append(&log, Value::new(1, "hello"));
/// let form = ValueForm::new(1).bytes(r#"{"number":"#).number_text(number).bytes("}");
/// batch.put(Key::new(&tenant).text("key").text("k-1"), form);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueForm {
    format: u16,
    pieces: Pieces,
}

// A known value is by far the most frequent form, and costs no list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pieces {
    Known(Bytes),
    Filled(Vec<ValuePiece>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ValuePiece {
    Literal(Bytes),
    Number(AppendRef),
    NumberText(AppendRef),
    Instant(Duration),
}

impl ValueForm {
    /// An empty value of that format, to be continued.
    #[must_use]
    pub fn new(format: u16) -> Self {
        ValueForm { format, pieces: Pieces::Filled(Vec::new()) }
    }

    /// Adds bytes that are known beforehand.
    #[must_use]
    pub fn bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.piece(ValuePiece::Literal(bytes.into()))
    }

    /// Adds the number of an entry that the batch appended before: eight bytes, big-endian.
    #[must_use]
    pub fn number(self, append: AppendRef) -> Self {
        self.piece(ValuePiece::Number(append))
    }

    /// Adds the number of an entry that the batch appended before as decimal digits, as JSON has it.
    #[must_use]
    pub fn number_text(self, append: AppendRef) -> Self {
        self.piece(ValuePiece::NumberText(append))
    }

    /// Adds the instant of the commit: microseconds since the epoch, eight bytes, big-endian.
    #[must_use]
    pub fn now(self) -> Self {
        self.now_plus(Duration::ZERO)
    }

    /// Adds the instant of the commit plus `span`: microseconds since the epoch, eight bytes, big-endian.
    #[must_use]
    pub fn now_plus(self, span: Duration) -> Self {
        self.piece(ValuePiece::Instant(span))
    }

    fn piece(mut self, piece: ValuePiece) -> Self {
        self.pieces = match self.pieces {
            Pieces::Known(bytes) => Pieces::Filled(vec![ValuePiece::Literal(bytes), piece]),
            Pieces::Filled(mut pieces) => {
                pieces.push(piece);
                Pieces::Filled(pieces)
            }
        };
        self
    }

    pub(crate) fn references(&self) -> impl Iterator<Item = AppendRef> + '_ {
        let pieces = match &self.pieces {
            Pieces::Known(_) => [].as_slice(),
            Pieces::Filled(pieces) => pieces,
        };
        pieces.iter().filter_map(|piece| match piece {
            ValuePiece::Number(append) | ValuePiece::NumberText(append) => Some(*append),
            ValuePiece::Literal(_) | ValuePiece::Instant(_) => None,
        })
    }

    /// An upper bound of the filled value's length.
    pub(crate) fn max_len(&self) -> usize {
        let len = |piece: &ValuePiece| match piece {
            ValuePiece::Literal(bytes) => bytes.len(),
            ValuePiece::Number(_) | ValuePiece::Instant(_) => 8,
            ValuePiece::NumberText(_) => 20,
        };
        match &self.pieces {
            Pieces::Known(bytes) => bytes.len(),
            Pieces::Filled(pieces) => pieces.iter().map(len).sum(),
        }
    }

    pub(crate) fn fill(&self, numbers: &[u64], instant: Timestamp) -> Value {
        let pieces = match &self.pieces {
            Pieces::Known(bytes) => return Value { format: self.format, bytes: bytes.clone() },
            Pieces::Filled(pieces) => pieces,
        };
        let mut bytes = Vec::with_capacity(self.max_len());
        for piece in pieces {
            match piece {
                ValuePiece::Literal(literal) => bytes.extend_from_slice(literal),
                ValuePiece::Number(append) => bytes.extend_from_slice(&append.of(numbers).to_be_bytes()),
                ValuePiece::NumberText(append) => bytes.extend_from_slice(append.of(numbers).to_string().as_bytes()),
                ValuePiece::Instant(span) => {
                    bytes.extend_from_slice(&instant.plus(*span).as_micros().to_be_bytes());
                }
            }
        }
        Value::new(self.format, bytes)
    }
}

impl From<Value> for ValueForm {
    fn from(value: Value) -> Self {
        ValueForm { format: value.format, pieces: Pieces::Known(value.bytes) }
    }
}

impl From<&Value> for ValueForm {
    fn from(value: &Value) -> Self {
        value.clone().into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_form_is_filled_piece_by_piece() {
        let first = AppendRef::nth(0);
        let form = ValueForm::new(3).now_plus(Duration::from_micros(2)).bytes("n").number(first).number_text(first);
        let value = form.fill(&[258], Timestamp::from_micros(40));
        assert_eq!(value, Value::new(3, b"\0\0\0\0\0\0\0\x2an\0\0\0\0\0\0\x01\x02258".to_vec()));
        assert_eq!(value.leading_instant(), Some(Timestamp::from_micros(42)));
        assert!(form.max_len() >= value.bytes.len());
    }

    #[test]
    fn a_newer_format_is_an_error_and_an_older_one_is_not() {
        let value = Value::json(2, &[1, 2]).unwrap();
        assert_eq!(value.from_json::<Vec<u8>>(2).unwrap(), [1, 2]);
        assert_eq!(value.from_json::<Vec<u8>>(3).unwrap(), [1, 2]);
        assert!(matches!(value.from_json::<Vec<u8>>(1), Err(StoreError::NewerFormat { found: 2, known: 1 })));
        assert!(matches!(value.from_json::<String>(2), Err(StoreError::Corrupt { .. })));
    }

    #[test]
    fn only_a_counter_is_a_counter() {
        assert_eq!(Value::counter(-5).as_counter(), Some(-5));
        assert_eq!(Value::new(1, Value::counter(5).bytes).as_counter(), None);
        assert_eq!(Value::new(0, "1234567").as_counter(), None);
    }
}
