//! The OpenAI Chat Completions protocol, and what those make of it who copy it.
//!
//! What a server cannot take is told by its [`Dialect`]. A field of a request is one of these, and is treated so:
//!
//! | class of the field | examples | where the server cannot take it |
//! |---|---|---|
//! | content | texts, pictures, tool calls and results, tools | refused |
//! | constraint, restriction | a forced choice, `max_output_tokens`, `stop`, a strict output schema, `store: false` | refused |
//! | hint | `temperature`, `seed`, `reasoning_effort`, cache marks, `metadata`, `strict` of a tool | left out, reported |
//! | state of this provider | thinking, fields of messages and calls that have no name of ours | sent back as it came |
//! | state of any other provider | | left out, reported |
//!
//! [`FIELDS`] says it field by field for a server that takes everything.
//!
//! The protocol has no error flag for tool results: their text says it.

mod calls;
mod chunk;
mod conversation;
mod decode;
mod delta;
mod embeddings;
mod encode;
mod errors;
mod events;
mod history;
mod layout;
mod media;
mod models;
mod plain;
mod remains;
mod request;
mod response;
mod table;
mod usage;

pub use crate::failure::decode_error;
pub use decode::{EventDecoder, decode_response};
pub use embeddings::{
    DecodedEmbeddings, decode_embedding_request, decode_embeddings, encode_embedding_request, encode_embeddings,
};
pub use encode::{encode_request, encode_request_onto};
pub use errors::{encode_error, encode_error_event};
pub use events::{EventEncoder, encode_events};
pub(crate) use media::read_url as media_of;
pub use models::{decode_models, decode_page, encode_models};
pub use request::decode_request;
pub use response::encode_response;
pub use table::FIELDS;

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
    /// Whether it takes `top_k`, which OpenAI's own servers do not.
    pub top_k: bool,
    /// Whether it takes `frequency_penalty` and `presence_penalty`.
    pub penalties: bool,
    /// Whether it tells the probabilities of tokens.
    pub logprobs: bool,
    /// Whether it takes `verbosity`.
    pub verbosity: bool,
    /// Whether it takes `service_tier`.
    pub service_tier: bool,
    /// Whether it has the field `store`. A server without it keeps no answers.
    pub store: bool,
    /// Whether it takes `metadata`.
    pub metadata: bool,
    /// Which field holds the caller's pseudonym of the person behind the request.
    pub user: UserField,
    /// Whether it takes `prompt_cache_key`.
    pub cache_key: bool,
    /// How places are marked where its prompt cache may end a prefix.
    pub cache_marks: CacheMarks,
    /// Whether it searches the web when told so by `web_search_options`.
    pub web_search: bool,
    /// Whether its answers can be more than text.
    pub modalities: bool,
    /// Whether it takes a choice among some of the tools.
    pub allowed_tools: bool,
    /// Whether it takes pictures.
    pub images: bool,
    /// Whether it takes sounds.
    pub audio: bool,
    /// Whether it takes documents.
    pub files: bool,
    /// Whether it knows tools that take a text, and hold a model to a grammar. Where not, they are tools with one text.
    pub custom_tools: bool,
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
            top_k: true,
            penalties: true,
            logprobs: true,
            verbosity: true,
            service_tier: true,
            store: true,
            metadata: true,
            user: UserField::User,
            cache_key: true,
            cache_marks: CacheMarks::Breakpoint,
            web_search: true,
            modalities: true,
            allowed_tools: true,
            images: true,
            audio: true,
            files: true,
            custom_tools: true,
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

/// The field that holds the caller's pseudonym of the person behind a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserField {
    /// `user`: what nearly every server knows.
    User,
    /// `safety_identifier`: OpenAI's newer word.
    SafetyIdentifier,
    /// None.
    None,
}

/// How places are marked where a prompt cache may end a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMarks {
    /// Not at all.
    None,
    /// `prompt_cache_breakpoint`: OpenAI's own.
    Breakpoint,
    /// `cache_control`, as those write it who serve Anthropic's models through this protocol.
    CacheControl,
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

/// The text that a call gives to a tool that takes a text: what stands at `input` of the arguments, or all of them where they are
/// none of that form.
fn custom_input(arguments: &str) -> std::borrow::Cow<'_, str> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Input {
        input: String,
    }
    serde_json::from_str::<Input>(arguments).map_or(arguments.into(), |arguments| arguments.input.into())
}

/// The decoder of a stream that answers a request with these names.
#[must_use]
pub fn decode_events(dialect: &Dialect, names: Names) -> EventDecoder {
    EventDecoder::new(dialect.provider.clone(), names)
}

#[cfg(test)]
mod both_tests;
#[cfg(test)]
mod decode_tests;
#[cfg(test)]
mod encode_tests;
#[cfg(test)]
mod rules_tests;
