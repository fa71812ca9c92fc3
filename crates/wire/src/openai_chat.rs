//! The OpenAI Chat Completions protocol, and what those make of it who copy it.
//!
//! What a server cannot take is told by its [`Dialect`]. A field of a request is one of these, and is treated so:
//!
//! | field of the request | is | where the server cannot take it |
//! |---|---|---|
//! | texts, pictures, sounds, documents, tool calls and results | content | refused |
//! | tools, a forced choice of one, "one call at a time" | content, constraint | refused |
//! | `max_output_tokens`, `stop`, a strict output schema | constraint | refused |
//! | an output schema that is not strict | hint | left out, reported |
//! | `temperature`, `top_p`, `seed`, `reasoning_effort`, `parallel_tool_calls: true`, `strict` of a tool | hint | left out, reported |
//! | thinking and other state of this provider | state | sent back as it came, where [`Dialect::replay_reasoning`] says so |
//! | state of any other provider | state | left out, reported |
//!
//! The protocol has no error flag for tool results: their text says it.

mod decode;
mod encode;

pub use crate::failure::decode_error;
pub use decode::{EventDecoder, ListedModel, decode_models, decode_page, decode_response};
pub use encode::encode_request;

use crate::names::Names;
use placet_core::ProviderId;

/// What a server of this protocol takes. The default is all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Whose server: provider state goes back to the same one only.
    pub provider: ProviderId,
    /// Whether it streams.
    pub stream: bool,
    /// Whether it is asked for usage at the end of a stream.
    pub stream_usage: bool,
    /// Which field holds the limit on output.
    pub output_limit: OutputLimit,
    /// The role of the operator's messages.
    pub operator: OperatorRole,
    /// Whether it takes `temperature` and `top_p`.
    pub sampling: bool,
    /// Whether it takes `seed`.
    pub seed: bool,
    /// Whether it takes `reasoning_effort`.
    pub reasoning_effort: bool,
    /// Whether it takes `parallel_tool_calls`.
    pub parallel_calls: bool,
    /// Whether it heeds a `tool_choice` that forces a call.
    pub forced_choice: bool,
    /// Whether it takes `strict` in a tool.
    pub strict_tools: bool,
    /// What it does about the shape of the answer.
    pub output: OutputSupport,
    /// When thinking is sent back to it.
    pub replay_reasoning: ReplayReasoning,
    /// Whether it takes pictures.
    pub images: bool,
    /// Whether it takes sounds.
    pub audio: bool,
    /// Whether it takes documents.
    pub files: bool,
}

impl Dialect {
    /// A server that takes everything, in the words that most servers know.
    #[must_use]
    pub fn new(provider: ProviderId) -> Self {
        Dialect {
            provider,
            stream: true,
            stream_usage: true,
            output_limit: OutputLimit::MaxTokens,
            operator: OperatorRole::System,
            sampling: true,
            seed: true,
            reasoning_effort: true,
            parallel_calls: true,
            forced_choice: true,
            strict_tools: true,
            output: OutputSupport::Schema,
            replay_reasoning: ReplayReasoning::ToolTurns,
            images: true,
            audio: true,
            files: true,
        }
    }
}

/// The field that holds the limit on output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputLimit {
    /// `max_tokens`: what nearly every server knows.
    MaxTokens,
    /// `max_completion_tokens`: OpenAI's own, which its reasoning models insist on.
    MaxCompletionTokens,
}

/// The role of the operator's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorRole {
    /// `system`.
    System,
    /// `developer`: OpenAI's newer word.
    Developer,
}

/// What a server does about the shape of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputSupport {
    /// It takes a JSON Schema.
    Schema,
    /// It can be told to answer with a JSON object, but not with which.
    Object,
    /// Nothing.
    None,
}

/// When thinking is sent back, in the field it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayReasoning {
    /// Never: the server refuses or ignores it.
    Never,
    /// With messages that hold tool calls, where models go on thinking from where they were.
    ToolTurns,
    /// With every message.
    Always,
}

/// The decoder of a stream that answers a request with these names.
#[must_use]
pub fn decode_events(dialect: &Dialect, names: Names) -> EventDecoder {
    EventDecoder::new(dialect.provider.clone(), names)
}

#[cfg(test)]
mod decode_tests;
#[cfg(test)]
mod encode_tests;
