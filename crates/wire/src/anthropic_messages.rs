//! The Anthropic Messages protocol, with its beta blocks, and what those make of it who copy it.
//!
//! What a server and a model take is told by the [`Dialect`]; [`FIELDS`] says what becomes of each field of a request. A
//! conversation is folded into messages so: what the model says in a row is one message; the results of its calls follow in one
//! message of the user, first in it; what the operator says before everything else is `system`.
//!
//! Thinking goes back to its own provider as it came, hidden thinking whole. Other providers' state reaches a client in the
//! `signature` of thinking or in `redacted_thinking`, sealed, and is opened when the client returns it; no provider is ever
//! sent an envelope.
//!
//! Two versions of the API are spoken, which [`ApiVersion`] tells apart.

mod answer;
mod betas;
mod blocks;
mod controls;
mod decode;
mod encode;
mod errors;
mod events;
mod fields;
mod hosted;
mod knobs;
mod lists;
mod media;
mod plain;
mod request;
mod response;
mod sealed;

pub use crate::failure::decode_error;
pub use betas::beta_headers;
pub use decode::{EventDecoder, decode_response};
pub use encode::{encode_count_request, encode_request, encode_request_onto};
pub use errors::{encode_error, encode_error_event};
pub use events::{EventEncoder, encode_events};
pub use fields::FIELDS;
pub use lists::{decode_count, decode_models, encode_count, encode_models};
pub use request::decode_request;
pub use response::encode_response;

use crate::names::Names;
use placet_core::ProviderId;

/// A version of the API, as the header `anthropic-version` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApiVersion {
    /// `2023-06-01`: what nearly everybody speaks.
    #[default]
    V2023,
    /// `2026-10-21`: as before, but `temperature`, `top_p` and `top_k` are refused.
    V2026,
}

impl ApiVersion {
    /// What stands in the header.
    #[must_use]
    pub fn header(self) -> &'static str {
        match self {
            ApiVersion::V2023 => "2023-06-01",
            ApiVersion::V2026 => "2026-10-21",
        }
    }
}

/// How a model is told to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// It cannot.
    None,
    /// With a number of tokens: `enabled`.
    Budget,
    /// As it sees fit: `adaptive`.
    Adaptive,
    /// Either way.
    Any,
}

/// What a server has of a prompt cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Nothing.
    None,
    /// It caches up to marks on blocks.
    Marks,
    /// It also sets a mark itself where it is told to.
    Automatic,
}

/// What a server and a model take of this protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Whose server: provider state goes back to the same one only.
    pub provider: ProviderId,
    /// Whether it streams.
    pub stream: bool,
    /// The version of the API.
    pub version: ApiVersion,
    /// The limit on output where the request has none, in tokens: the protocol insists on one.
    pub max_tokens: u64,
    /// Whether the model takes `temperature`, `top_p` and `top_k`.
    pub sampling: bool,
    /// How the model is told to think.
    pub thinking: Thinking,
    /// Whether it can be told how to show its thinking.
    pub thinking_display: bool,
    /// Whether it takes back thinking that nobody has signed.
    pub unsigned_thinking: bool,
    /// Whether it takes a word for the effort.
    pub effort: bool,
    /// Whether a call can be demanded.
    pub forced_choice: bool,
    /// Whether it takes `strict` in a tool.
    pub strict_tools: bool,
    /// Whether its answer can be held to a schema.
    pub structured_output: bool,
    /// Whether the operator may speak within the conversation.
    pub mid_system: bool,
    /// What there is of a prompt cache.
    pub cache: Cache,
    /// Whether the cache can keep something for an hour.
    pub long_cache: bool,
    /// Whether it can make a conversation shorter by itself.
    pub compaction: bool,
    /// Whether it takes pictures.
    pub images: bool,
    /// Whether it takes documents.
    pub files: bool,
    /// The type of its web search.
    pub web_search: &'static str,
    /// The type of its web fetch.
    pub web_fetch: &'static str,
    /// The type of its code execution.
    pub code_execution: &'static str,
    /// The type of its computer use.
    pub computer: &'static str,
    /// The type of its text editor.
    pub text_editor: &'static str,
}

impl Dialect {
    /// A server and a model that take everything.
    #[must_use]
    pub fn new(provider: ProviderId) -> Self {
        Dialect {
            provider,
            stream: true,
            version: ApiVersion::V2023,
            max_tokens: 32_000,
            sampling: true,
            thinking: Thinking::Any,
            thinking_display: true,
            unsigned_thinking: false,
            effort: true,
            forced_choice: true,
            strict_tools: true,
            structured_output: true,
            mid_system: true,
            cache: Cache::Automatic,
            long_cache: true,
            compaction: true,
            images: true,
            files: true,
            web_search: hosted::WEB_SEARCH,
            web_fetch: hosted::WEB_FETCH,
            code_execution: hosted::CODE_EXECUTION,
            computer: hosted::COMPUTER,
            text_editor: hosted::TEXT_EDITOR,
        }
    }

    fn takes_sampling(&self) -> bool {
        self.sampling && self.version == ApiVersion::V2023
    }
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
mod laws_tests;
