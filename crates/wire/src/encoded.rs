//! What an encoder gives: the body, what it left out, and how to read the answer.

use crate::names::Names;
use bytes::Bytes;
use placet_core::{ItemBody, Part, SharedText, TurnRequest};
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

/// About how many bytes the body of a request has, so that it need not be moved while it grows.
pub(crate) fn room_for(request: &TurnRequest) -> usize {
    /// What a message or a tool has around its texts.
    const FRAME: usize = 128;
    let text = |text: &SharedText| text.as_json().map_or_else(|| text.len(), str::len);
    let content = |parts: &[Part]| -> usize {
        let each = |part: &Part| if let Part::Text(said) = part { text(&said.text) } else { 0 };
        parts.iter().map(each).sum()
    };
    let items = request.items.iter().map(|item| match &item.body {
        ItemBody::Message(message) => content(&message.parts),
        ItemBody::ToolResult(result) => content(&result.outcome.content),
        ItemBody::ToolCall(call) => call.arguments.replay_json().map_or(FRAME, str::len),
        _ => 0,
    });
    let tools = request.tools.iter().map(|tool| {
        let schema = tool.schema.as_text().map_or(FRAME, |schema| schema.get().len());
        tool.description.len() + schema
    });
    let frames = FRAME * (request.items.len() + request.tools.len() + 4);
    let instructions = request.instructions.as_ref().map_or(0, text);
    items.sum::<usize>() + tools.sum::<usize>() + instructions + frames
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
