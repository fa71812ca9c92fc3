//! What an encoder gives: the body, what it left out, and how to read the answer.

use crate::names::Names;
use bytes::Bytes;
use std::fmt;

/// An encoded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The body, JSON. The same request gives the same bytes.
    pub body: Bytes,
    /// The hints and foreign provider state that were left out, each once.
    pub omitted: Vec<Omission>,
    /// The names that tools go by in this request; reading the answer needs them.
    pub names: Names,
}

/// A hint that the target cannot take, or state that belongs to another provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omission {
    /// Which field of the request, in our words.
    pub what: String,
    /// Why it was left out.
    pub why: &'static str,
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.why)
    }
}

/// Collects omissions; each field is named once.
#[derive(Debug, Default)]
pub(crate) struct Omissions(pub(crate) Vec<Omission>);

impl Omissions {
    pub(crate) fn add(&mut self, what: impl Into<String>, why: &'static str) {
        let omission = Omission { what: what.into(), why };
        if !self.0.contains(&omission) {
            self.0.push(omission);
        }
    }
}
