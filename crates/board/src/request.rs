//! Proposed writes, and how they are answered.

use crate::content::Content;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A contribution that somebody wants to write to a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRequest {
    /// The level.
    pub level: String,
    /// What to write.
    pub content: Content,
    /// Names this write on this board, so that writing it again changes nothing. Any text, also the empty one.
    pub idempotency_key: Option<String>,
}

impl WriteRequest {
    /// A contribution without a key.
    pub fn new(level: impl Into<String>, content: Content) -> Self {
        WriteRequest { level: level.into(), content, idempotency_key: None }
    }

    /// Names the write.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }
}

/// A value that somebody wants a premise to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetRequest {
    /// The premise.
    pub premise: String,
    /// The value.
    pub value: Content,
    /// The version that the decision rests on; 0 where the premise was never set.
    pub expected_version: u64,
    /// Names this write on this board, so that writing it again changes nothing. Any text, also the empty one.
    pub idempotency_key: Option<String>,
}

impl SetRequest {
    /// A value without a key.
    pub fn new(premise: impl Into<String>, value: Content, expected_version: u64) -> Self {
        SetRequest { premise: premise.into(), value, expected_version, idempotency_key: None }
    }

    /// Names the write.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }
}

/// A write is on the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Its place in the order of everything that was written to the board.
    pub sequence: u64,
    /// The version that it gave the premise; nothing for a level.
    pub version: Option<u64>,
    /// Whether its key had been used before: this is what that write came to, and nothing was written now.
    #[serde(default)]
    pub repeated: bool,
}

/// The premise has moved on: nothing was written, no number was taken and no key was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The version that the premise has now; 0 when it has no value.
    pub current_version: u64,
}

/// Why a write was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The admission rule said no.
    Admission,
    /// The writer may not write to that region.
    NotPermitted,
    /// The run has closed.
    RunClosed,
}

impl Cause {
    /// The word that the wire has for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Admission => "admission",
            Cause::NotPermitted => "not_permitted",
            Cause::RunClosed => "run_closed",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A write was refused: nothing was written, and the writer learns why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Why.
    pub cause: Cause,
    /// Why, in words.
    pub reason: String,
}

/// How a proposed write was answered. None of these is a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// It is on the record.
    Written(Written),
    /// The premise has moved on.
    Conflict(Conflict),
    /// It was refused.
    Rejected(Rejected),
}

impl WriteResult {
    /// What was written, if it was.
    #[must_use]
    pub fn written(&self) -> Option<Written> {
        match self {
            WriteResult::Written(written) => Some(*written),
            WriteResult::Conflict(_) | WriteResult::Rejected(_) => None,
        }
    }

    pub(crate) fn rejected(cause: Cause, reason: impl Into<String>) -> Self {
        WriteResult::Rejected(Rejected { cause, reason: reason.into() })
    }
}
