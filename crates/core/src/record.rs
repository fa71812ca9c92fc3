//! Records: events as the journal keeps them, chained by hash.
//!
//! A record is stored as its hash and its JSON text. The text names the hash of the record before it, and the hash is
//! the SHA-256 of the text, so that nothing can be changed, left out or put in without the chain showing it.

use crate::event::{Cursor, Event, EventBody};
use crate::id::RunId;
use crate::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The version that records are written with.
pub const RECORD_VERSION: u16 = 1;

/// Turns a record of one version into one of the next. The function at place *n* reads version *n + 1*.
type Upcaster = fn(Map<String, Value>) -> Result<Map<String, Value>, String>;

/// One function for each version before [`RECORD_VERSION`].
const UPCASTERS: [Upcaster; RECORD_VERSION as usize - 1] = [];

/// A SHA-256, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// What the first record of a chain names as the one before it.
    pub const ZERO: Digest = Digest([0; 32]);

    /// The hash of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Digest(Sha256::digest(bytes).into())
    }

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            *byte = u8::try_from(high * 16 + low).ok()?;
        }
        Some(Digest(bytes))
    }

    /// 64 hexadecimal digits in lower case.
    #[must_use]
    pub fn to_hex(self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        text
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Digest::parse(&text).ok_or_else(|| serde::de::Error::custom("expected 64 hexadecimal digits"))
    }
}

/// One durable event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The version it was written with; reading brings it up to the present one.
    pub v: u16,
    /// The run.
    pub run: RunId,
    /// Its number in the run, from 1 without gaps.
    pub number: u64,
    /// When it was written, by the clock of whoever wrote it.
    pub at: Timestamp,
    /// The hash of the record before it.
    pub prev: Digest,
    /// What happened.
    pub event: EventBody,
}

/// A record as it is stored: the text and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// SHA-256 of `text`.
    pub hash: Digest,
    /// The record as JSON, on one line.
    pub text: String,
}

impl Record {
    /// The record as it is stored.
    ///
    /// # Errors
    /// [`RecordError::Live`] for an event that is not durable, [`RecordError::Json`] where it cannot be written.
    pub fn seal(&self) -> Result<Sealed, RecordError> {
        if !self.event.is_durable() {
            return Err(RecordError::Live { kind: self.event.kind().to_owned() });
        }
        let text = serde_json::to_string(self).map_err(|error| RecordError::Json { problem: error.to_string() })?;
        Ok(Sealed { hash: Digest::of(text.as_bytes()), text })
    }

    /// The event that readers of the run get.
    #[must_use]
    pub fn into_event(self) -> Event {
        Event { run: self.run, cursor: Cursor::record(self.number), at: self.at, body: self.event }
    }
}

impl Sealed {
    /// The bytes that a store keeps: the hash, a newline, the text.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.hash.to_hex().into_bytes();
        bytes.push(b'\n');
        bytes.extend_from_slice(self.text.as_bytes());
        bytes
    }

    /// Reads what [`Sealed::to_bytes`] wrote, without checking the hash.
    ///
    /// # Errors
    /// [`RecordError::Framing`] where the bytes have another form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        let text = std::str::from_utf8(bytes).map_err(|_| RecordError::Framing)?;
        let (hash, text) = text.split_once('\n').ok_or(RecordError::Framing)?;
        let hash = Digest::parse(hash).ok_or(RecordError::Framing)?;
        Ok(Sealed { hash, text: text.to_owned() })
    }

    /// The record, brought up to the present version.
    ///
    /// # Errors
    /// [`RecordError`] where the hash is not the text's, the text is no record, or a newer version wrote it.
    pub fn open(&self) -> Result<Record, RecordError> {
        if Digest::of(self.text.as_bytes()) != self.hash {
            return Err(RecordError::Altered);
        }
        open_with(&self.text, RECORD_VERSION, &UPCASTERS)
    }
}

fn open_with(text: &str, current: u16, upcasters: &[Upcaster]) -> Result<Record, RecordError> {
    let problem = |error: serde_json::Error| RecordError::Json { problem: error.to_string() };
    let mut map: Map<String, Value> = serde_json::from_str(text).map_err(problem)?;
    let written = map.get("v").and_then(Value::as_u64).unwrap_or(0);
    if written == 0 || written > u64::from(current) {
        return Err(RecordError::Version { found: written, newest: current });
    }
    for (place, upcast) in upcasters.iter().enumerate() {
        if place as u64 + 1 >= written {
            map = upcast(map).map_err(|problem| RecordError::Json { problem })?;
        }
    }
    map.insert("v".to_owned(), current.into());
    serde_json::from_value(Value::Object(map)).map_err(problem)
}

/// Checks a chain record by record.
#[derive(Clone, Debug)]
pub struct Chain {
    prev: Digest,
    next: u64,
}

impl Default for Chain {
    fn default() -> Self {
        Chain { prev: Digest::ZERO, next: 1 }
    }
}

impl Chain {
    /// The chain before its first record.
    #[must_use]
    pub fn new() -> Self {
        Chain::default()
    }

    /// Takes the next record in.
    ///
    /// # Errors
    /// [`RecordError`] naming what does not fit: the hash, the number or the record before it.
    pub fn check(&mut self, sealed: &Sealed) -> Result<Record, RecordError> {
        let record = sealed.open()?;
        if record.number != self.next {
            return Err(RecordError::Number { found: record.number, expected: self.next });
        }
        if record.prev != self.prev {
            return Err(RecordError::Link { number: record.number });
        }
        self.prev = sealed.hash;
        self.next += 1;
        Ok(record)
    }

    /// The hash of the last record, which the next one has to name.
    #[must_use]
    pub fn head(&self) -> Digest {
        self.prev
    }

    /// The number that the next record has to have.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Makes the next record of the chain.
    ///
    /// # Errors
    /// As [`Record::seal`].
    pub fn extend(&mut self, run: &RunId, at: Timestamp, event: EventBody) -> Result<(Record, Sealed), RecordError> {
        let record = Record { v: RECORD_VERSION, run: run.clone(), number: self.next, at, prev: self.prev, event };
        let sealed = record.seal()?;
        self.prev = sealed.hash;
        self.next += 1;
        Ok((record, sealed))
    }
}

/// A record cannot be written or read, or does not fit its chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The event is live only.
    #[error("{kind} is a live event and never a record")]
    Live {
        /// Its kind.
        kind: String,
    },
    /// The text is no record.
    #[error("the record cannot be read or written: {problem}")]
    Json {
        /// What the parser said.
        problem: String,
    },
    /// The bytes are not a hash, a newline and a text.
    #[error("the stored bytes are no record: expected 64 hexadecimal digits, a newline and JSON text")]
    Framing,
    /// The text does not have the hash it is stored with.
    #[error("the record was altered: its text does not have the hash it is stored with")]
    Altered,
    /// A newer version wrote it.
    #[error("the record has version {found}; this program reads versions 1 to {newest}: use a newer one")]
    Version {
        /// What it says.
        found: u64,
        /// What can be read.
        newest: u16,
    },
    /// A record is missing or came twice.
    #[error("expected record {expected} and found {found}: records are missing or repeated")]
    Number {
        /// What it says.
        found: u64,
        /// What has to come.
        expected: u64,
    },
    /// It does not name the record before it.
    #[error("record {number} does not name the hash of the record before it: the chain is broken there")]
    Link {
        /// Which one.
        number: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{RunResumed, Snapshot};

    fn chain(length: u64) -> Vec<Sealed> {
        let run = RunId::parse("run_1").expect("an id");
        let mut chain = Chain::new();
        (0..length)
            .map(|token| {
                let event = EventBody::RunResumed(RunResumed { token, interrupted: Vec::new() });
                chain.extend(&run, Timestamp::from_millis(1), event).expect("seals").1
            })
            .collect()
    }

    fn verify(records: &[Sealed]) -> Result<(), RecordError> {
        let mut chain = Chain::new();
        records.iter().try_for_each(|sealed| chain.check(sealed).map(drop))
    }

    #[test]
    fn a_chain_verifies_and_survives_its_stored_form() {
        let records = chain(4);
        assert_eq!(verify(&records), Ok(()));
        for sealed in &records {
            assert_eq!(Sealed::from_bytes(&sealed.to_bytes()).as_ref(), Ok(sealed));
        }
    }

    #[test]
    fn every_way_of_tampering_shows() {
        let mut altered = chain(4);
        altered[1].text = altered[1].text.replace("\"token\":1", "\"token\":7");
        assert_eq!(verify(&altered), Err(RecordError::Altered));

        altered[1].hash = Digest::of(altered[1].text.as_bytes());
        assert_eq!(verify(&altered), Err(RecordError::Link { number: 3 }), "a rehashed record breaks the next link");

        let mut missing = chain(4);
        missing.remove(2);
        assert_eq!(verify(&missing), Err(RecordError::Number { found: 4, expected: 3 }));
    }

    #[test]
    fn a_live_event_is_never_a_record() {
        let run = RunId::parse("run_1").expect("an id");
        let event = EventBody::Snapshot(Snapshot { text: String::new(), missed: 0 });
        let error = Chain::new().extend(&run, Timestamp::EPOCH, event).expect_err("live");
        assert_eq!(error, RecordError::Live { kind: "stream.snapshot".into() });
    }

    #[test]
    fn an_older_record_is_brought_up_and_a_newer_one_refused() {
        let text = &chain(1)[0].text;
        let older = text.replace("\"token\"", "\"fence\"");
        let rename: Upcaster = |mut map| {
            let token = map.get_mut("event").and_then(|event| event.as_object_mut()).and_then(|e| e.remove("fence"));
            map["event"]["token"] = token.ok_or("no fence")?;
            Ok(map)
        };
        let record = open_with(&older, 2, &[rename]).expect("upcast");
        assert_eq!((record.v, record.event.kind()), (2, "run.resumed"));
        let newer = text.replace("\"v\":1", "\"v\":3");
        assert_eq!(open_with(&newer, 2, &[rename]), Err(RecordError::Version { found: 3, newest: 2 }));
    }

    #[test]
    fn an_unknown_event_survives_a_round_trip() {
        let text = r#"{"v":1,"run":"run_1","number":1,"at":5,"prev":"0000000000000000000000000000000000000000000000000000000000000000","event":{"type":"moon.landed","where":{"x":[1,2]}}}"#;
        let sealed = Sealed { hash: Digest::of(text.as_bytes()), text: text.to_owned() };
        let record = sealed.open().expect("opens");
        assert_eq!(record.event.kind(), "moon.landed");
        assert_eq!(record.seal().expect("seals"), sealed);
    }
}
