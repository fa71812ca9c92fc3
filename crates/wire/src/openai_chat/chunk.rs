//! The plain chunk: what nearly every event of a long stream is, read without building a tree.
//!
//! It knows only the fields of a piece of text, thinking or arguments. Whatever else stands in a chunk, or is of another type,
//! makes it no plain one, and it is read as a tree instead.

use crate::text::BorrowedText as Text;

/// A text that may be absent, null or empty, which are the same.
pub(super) fn given<'t>(text: &'t Option<Text<'_>>) -> Option<&'t str> {
    text.as_ref().map(|text| &*text.0).filter(|text| !text.is_empty())
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainChunk<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, rename = "object")]
    _object: Option<Text<'a>>,
    #[serde(rename = "created")]
    _created: Option<u64>,
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) system_fingerprint: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) service_tier: Option<Text<'a>>,
    #[serde(borrow, rename = "obfuscation")]
    _obfuscation: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) choices: [PlainChoice<'a>; 1],
    /// Absent or null.
    #[serde(rename = "usage")]
    _usage: Option<()>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainChoice<'a> {
    pub(super) index: u64,
    #[serde(borrow)]
    pub(super) delta: PlainDelta<'a>,
    #[serde(rename = "logprobs")]
    _logprobs: Option<()>,
    /// Absent or null: an end is no plain piece.
    #[serde(rename = "finish_reason")]
    _finish_reason: Option<()>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainDelta<'a> {
    #[serde(borrow, rename = "role")]
    _role: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) content: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) reasoning: Option<Text<'a>>,
    #[serde(rename = "refusal")]
    _refusal: Option<()>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<[PlainCall<'a>; 1]>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainCall<'a> {
    pub(super) index: u64,
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, rename = "type")]
    _kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) function: PlainFunction<'a>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainFunction<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) arguments: Option<Text<'a>>,
}
