//! Kinds of errors, hints, and the error of a provider.

use crate::id::ProviderId;
use crate::open::open_words;
use serde::{Deserialize, Serialize};
use std::time::Duration;

open_words! {
    /// What sort of thing went wrong. Decides exit codes, statuses and whether to try again.
    pub enum ErrorKind {
        /// The caller asked for something malformed.
        InvalidRequest = "invalid_request",
        /// Something is put together wrongly: found before anything ran.
        Wiring = "wiring",
        /// A credential is missing or wrong.
        Authentication = "authentication",
        /// The credential is right, and may not do this.
        Permission = "permission",
        /// What was named does not exist.
        NotFound = "not_found",
        /// What is held by somebody else, or has moved on.
        Conflict = "conflict",
        /// Too many requests for now.
        RateLimited = "rate_limited",
        /// The account has no credit or quota left: waiting does not help.
        QuotaExhausted = "quota_exhausted",
        /// The other side is overloaded.
        Overloaded = "overloaded",
        /// The other side failed.
        Unavailable = "unavailable",
        /// It took too long.
        Timeout = "timeout",
        /// The connection could not be made or broke.
        Network = "network",
        /// The answer ended without its end.
        Interrupted = "interrupted",
        /// Somebody cancelled it.
        Cancelled = "cancelled",
        /// The model or the target cannot do what is asked.
        Unsupported = "unsupported",
        /// The conversation is longer than the model's window.
        ContextLength = "context_length",
        /// A content filter said no.
        ContentFiltered = "content_filtered",
        /// The model refused to answer.
        Refused = "refused",
        /// The answer does not have the shape that it must have.
        OutputMismatch = "output_mismatch",
        /// The answer does not follow its protocol.
        Protocol = "protocol",
        /// A limit of rounds, time, tokens or money was reached.
        LimitReached = "limit_reached",
        /// The store failed.
        Storage = "storage",
        /// A fault of ours.
        Internal = "internal",
    }
}

impl ErrorKind {
    /// Whether the same request may succeed later, all by itself.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            ErrorKind::RateLimited
                | ErrorKind::Overloaded
                | ErrorKind::Unavailable
                | ErrorKind::Timeout
                | ErrorKind::Network
                | ErrorKind::Interrupted
        )
    }
}

/// An error that says what sort it is and what to do about it.
pub trait Diagnose: std::error::Error {
    /// What sort of thing went wrong.
    fn kind(&self) -> ErrorKind;

    /// Sentences on what to do about it, shown once, after the message.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What a provider answered instead of a turn, or what kept us from reaching it.
///
/// Its text has passed the redactor before it is shown; `raw` is kept for people who debug and is never sent to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{provider}: {message}")]
pub struct ProviderError {
    /// What sort.
    pub kind: ErrorKind,
    /// Which provider.
    pub provider: ProviderId,
    /// What it said, or what happened.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// The HTTP status, if it came that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own code or type of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The provider's id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How long the provider asks to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The body as it came, cut to a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

impl ProviderError {
    /// An error with nothing but a kind, a provider and a message.
    pub fn new(kind: ErrorKind, provider: ProviderId, message: impl Into<String>) -> Self {
        ProviderError {
            kind,
            provider,
            message: message.into(),
            hints: Vec::new(),
            status: None,
            code: None,
            request_id: None,
            retry_after_ms: None,
            raw: None,
        }
    }

    /// Adds a sentence on what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// How long the provider asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }
}

impl Diagnose for ProviderError {
    fn kind(&self) -> ErrorKind {
        self.kind.clone()
    }

    fn hints(&self) -> Vec<String> {
        self.hints.clone()
    }
}
