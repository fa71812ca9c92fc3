//! The Gemini protocol: `generateContent` and `streamGenerateContent`, of the Gemini API and of Vertex.
//!
//! The model, the method and whether the answer is a stream stand in the path of a request, not in its body: a decoded
//! request has no model and is no stream until whoever read the path says so ([`target`] reads one).
//!
//! What a server cannot take is told by its [`Dialect`]; [`FIELDS`] says what becomes of each field of a request. Some things
//! look different after they went through this protocol and back, and mean the same:
//!
//! - Adjacent texts of the model without state are one message; leading operator messages are further parts of the instructions, whose first
//!   text is *the* instructions.
//! - A tool result is an object: a text stands in it as `output` or `error`, one that is the compact JSON of an object as that
//!   object. Its media follow its text. Every failure is *failed*.
//! - A choice of one tool is a choice among one tool; an output format is strict, its name and description are those of its
//!   schema; the tier `standard` is `default`; a call without arguments has `{}`.
//! - State of other providers that a client returns (sealed in a `thoughtSignature`) goes back to its item.

mod chunk;
mod contents;
mod decode;
mod encode;
mod events;
mod failures;
mod fields;
mod framing;
mod hosted;
mod lists;
mod onto;
mod partial;
mod parts;
mod request;
mod response;
mod seal;
mod usage;
mod write;

pub use crate::failure::decode_error;
pub use decode::{EventDecoder, decode_response};
pub use encode::encode_request;
pub use events::{EventEncoder, encode_events};
pub use failures::{encode_error, encode_error_event};
pub use fields::FIELDS;
pub(crate) use hosted::decode as decode_hosted;
pub use lists::{
    CachedContent, decode_cached_content, decode_count, decode_count_request, decode_embedding_request,
    decode_embeddings, decode_models, encode_cached_content, encode_count, encode_count_request,
    encode_embedding_request, encode_embeddings, encode_models, next_page,
};
pub use onto::encode_request_onto;
pub(crate) use parts::camel as camel_case;
pub use request::{Target, decode_request, target};
pub use response::encode_response;
pub(crate) use seal::open as open_sealed;

use crate::names::Names;
use placet_core::ProviderId;

/// Parts by which the provider shows what its own tools did.
const HOSTED_PARTS: [&str; 4] = ["executableCode", "codeExecutionResult", "toolCall", "toolResponse"];

/// Fields of a candidate that say something of its text. They are kept with the last text, and never sent to the provider.
const TEXT_STATE: [&str; 3] = ["groundingMetadata", "citationMetadata", "urlContextMetadata"];

/// What a server of this protocol takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Whose server: provider state goes back to the same one only.
    pub provider: ProviderId,
    /// Whether it streams. It changes the path, not the body.
    pub stream: bool,
    /// In which words schemas of tools and answers go out.
    pub schemas: SchemaForm,
    /// How it is told how much to think.
    pub thinking: Thinking,
    /// What it does about the shape of the answer.
    pub output: OutputSupport,
    /// Whether it takes a schema for the answer beside tools.
    pub output_with_tools: bool,
    /// Whether it takes tools of ours beside its own.
    pub mixed_tools: bool,
    /// Whether it has to be told to show what its own tools did where others stand beside them: Gemini 3 and later.
    pub show_invocations: bool,
    /// Whether it takes a choice of tools that demands no call.
    pub allowed_tools: bool,
    /// Whether it takes media in tool results.
    pub result_media: bool,
    /// Whether it takes, part by part, how closely to look.
    pub part_resolution: bool,
    /// Whether it takes ids of calls.
    pub call_ids: bool,
    /// Whether a round whose first call has no signature gets a placeholder in its place. Some models insist on a signature
    /// even for calls of another model, and some refuse the placeholder.
    pub placeholder_signature: bool,
    /// What becomes of an operator's message within the conversation, for which the protocol has no role.
    pub late_system: LateSystem,
    /// Whether it takes `temperature`, `topP` and `topK`.
    pub sampling: bool,
    /// Whether it takes penalties.
    pub penalties: bool,
    /// Whether it takes labels.
    pub labels: bool,
    /// Whether it takes a tier.
    pub service_tier: bool,
    /// Whether it takes `store`.
    pub store: bool,
    /// Whether its search takes domains to leave out.
    pub exclude_domains: bool,
    /// Whether it talks to MCP servers.
    pub mcp_servers: bool,
}

impl Dialect {
    /// A server that takes everything.
    #[must_use]
    pub fn new(provider: ProviderId) -> Self {
        Dialect {
            provider,
            stream: true,
            schemas: SchemaForm::Json,
            thinking: Thinking::Levels,
            output: OutputSupport::Schema,
            output_with_tools: true,
            mixed_tools: true,
            show_invocations: true,
            allowed_tools: true,
            result_media: true,
            part_resolution: true,
            call_ids: true,
            placeholder_signature: false,
            late_system: LateSystem::Hoist,
            sampling: true,
            penalties: true,
            labels: true,
            service_tier: true,
            store: true,
            exclude_domains: true,
            mcp_servers: true,
        }
    }

    /// The Gemini API, as its current models take it.
    #[must_use]
    pub fn gemini_api(provider: ProviderId) -> Self {
        Dialect { exclude_domains: false, ..Dialect::new(provider) }
    }

    /// Vertex, as its current models take it.
    #[must_use]
    pub fn vertex(provider: ProviderId) -> Self {
        Dialect { mcp_servers: false, store: false, ..Dialect::new(provider) }
    }
}

/// In which words schemas go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaForm {
    /// As JSON Schema: `parametersJsonSchema`, `responseJsonSchema`.
    Json,
    /// In the older subset: `parameters`, `responseSchema`. A schema that it cannot say is refused.
    OpenApi,
}

/// How a server is told how much to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// By a level, or by a budget where no level is asked for: Gemini 3 and later.
    Levels,
    /// By a budget of tokens: Gemini 2.5.
    Budgets,
    /// Not at all.
    None,
}

/// What a server does about the shape of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputSupport {
    /// It takes a schema.
    Schema,
    /// It can be told to answer with JSON, but not with which.
    Object,
    /// Nothing.
    None,
}

/// What becomes of an operator's message within the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateSystem {
    /// The request is refused: the model would not read it where it stands.
    Refuse,
    /// It joins the instructions, which the model reads before everything else.
    Hoist,
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
#[cfg(test)]
mod events_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod request_tests;
