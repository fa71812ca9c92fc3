//! The OpenAI Responses protocol, and what those make of it who speak it too (xAI, vLLM, llama.cpp, gateways).
//!
//! # Where things are kept
//!
//! | on the wire | in our words |
//! |---|---|
//! | `message`, each of its parts | text at a place of its own; [`Text::native`](placet_core::part::Text::native) holds `annotations`, `logprobs` and, under `message`, the item's `id` and `phase` |
//! | `reasoning` | [`Reasoning`](placet_core::item::Reasoning); its native value is the whole item |
//! | `function_call` | a tool call; its native value is what the item says beside id, name and arguments |
//! | `custom_tool_call` | a tool call whose arguments are `{"input": "…"}`, so that any provider and our own checks understand it |
//! | a tool of a namespace | a tool named `namespace__tool` |
//! | the provider's own tools (`web_search_call`, `mcp_call` …) | [`HostedCall`](placet_core::item::HostedCall), in its place |
//! | every other item | [`ItemBody::Native`](placet_core::ItemBody::Native), in its place |
//! | `previous_response_id`, `conversation` | provider state, an object with these fields; what the provider holds by it is not sent again |
//! | fields of a request that have no name of ours | [`TurnRequest::native`](placet_core::TurnRequest::native), an object |
//!
//! What a protocol does with each field is the table [`FIELDS`]; what one server takes less is told by its [`Dialect`].
//!
//! # State of other providers
//!
//! A client of this protocol sends back what stands in `encrypted_content` without looking into it. So the state of another
//! provider goes to it sealed (see [`crate::envelope`]): thinking in its own `reasoning` item; what belongs to a text or call,
//! and whole items, in a `reasoning` item of their own right after it.

mod answer;
mod answer_close;
mod answer_forms;
mod answer_whole;
mod choice;
mod controls;
mod decode;
mod encode;
mod encode_parts;
mod ending;
mod failure;
mod fields;
mod hosted;
mod onto;
mod order;
mod parts;
mod plain;
mod request;
mod tools;
mod write;

pub use crate::failure::decode_error;
pub use crate::openai_chat::{decode_models, decode_page};
pub use answer::EventEncoder;
pub use answer_whole::encode_response;
pub use decode::{EventDecoder, Pending, decode_response, pending};
pub use encode::{encode_count_request, encode_request};
pub use failure::{encode_error, encode_error_event, encode_failed_after, encode_failed_event};
pub use fields::FIELDS;
pub(crate) use hosted::decode as decode_hosted;
pub use onto::encode_request_onto;
pub use request::decode_request;

use crate::names::Names;
use crate::request::AnswerHead;
use placet_core::{ErrorKind, ProviderError, ProviderId};
use serde_json::{Value, json};

/// What a server of this protocol takes. The default is all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Whose server: provider state goes back to the same one only.
    pub provider: ProviderId,
    /// Whether it streams.
    pub stream: bool,
    /// The role of the operator's messages within the conversation.
    pub operator: OperatorRole,
    /// Whether it takes `instructions`. Else they are the first message of the conversation.
    pub instructions: bool,
    /// Whether it takes `temperature` and `top_p`.
    pub sampling: bool,
    /// Whether it tells the likeliest tokens.
    pub logprobs: bool,
    /// Whether it takes `reasoning.effort`.
    pub reasoning_effort: bool,
    /// Whether it takes `reasoning.summary`.
    pub reasoning_summary: bool,
    /// Whether it takes `text.verbosity`.
    pub verbosity: bool,
    /// Whether thinking comes and goes encrypted.
    pub encrypted_reasoning: bool,
    /// Whether it takes thinking back at all.
    pub replay_reasoning: bool,
    /// Whether it takes `parallel_tool_calls`.
    pub parallel_calls: bool,
    /// Whether it heeds a `tool_choice` that forces a call.
    pub forced_choice: bool,
    /// Whether it takes `strict` in a tool.
    pub strict_tools: bool,
    /// Whether it takes `additionalProperties: false` in a tool's schema. Else it is taken out, at every depth: nothing that
    /// the schema accepted is refused then.
    pub closed_schemas: bool,
    /// Whether it takes custom tools (free text, grammars). Else they go out as functions with one text argument.
    pub custom_tools: bool,
    /// Whether it takes namespaces of tools. Else their tools go out one by one.
    pub namespaces: bool,
    /// Which tools of its own it has.
    pub hosted: HostedSupport,
    /// What it does about the shape of the answer.
    pub output: OutputSupport,
    /// Whether it keeps answers, to be continued by `previous_response_id`.
    pub stateful: bool,
    /// Whether it takes `store`. Else it keeps nothing.
    pub store: bool,
    /// Whether it can answer later.
    pub background: bool,
    /// Whether it takes the fields of the prompt cache.
    pub cache: bool,
    /// Whether it takes `truncation` and `context_management`.
    pub compaction: bool,
    /// Whether it takes `metadata`.
    pub metadata: bool,
    /// Whether it takes `service_tier`.
    pub service_tier: bool,
    /// The field that holds the caller's pseudonym of the person behind the request.
    pub user: UserField,
    /// Whether it takes pictures.
    pub images: bool,
    /// Whether it takes sounds. The protocol has no part for them, but some servers know that of the other one of OpenAI's.
    pub audio: bool,
    /// Whether it takes documents.
    pub files: bool,
}

impl Dialect {
    /// A server that takes everything that the protocol has.
    #[must_use]
    pub fn new(provider: ProviderId) -> Self {
        Dialect {
            provider,
            stream: true,
            operator: OperatorRole::System,
            instructions: true,
            sampling: true,
            logprobs: true,
            reasoning_effort: true,
            reasoning_summary: true,
            verbosity: true,
            encrypted_reasoning: true,
            replay_reasoning: true,
            parallel_calls: true,
            forced_choice: true,
            strict_tools: true,
            closed_schemas: true,
            custom_tools: true,
            namespaces: true,
            hosted: HostedSupport::All,
            output: OutputSupport::Schema,
            stateful: true,
            store: true,
            background: true,
            cache: true,
            compaction: true,
            metadata: true,
            service_tier: true,
            user: UserField::SafetyIdentifier,
            images: true,
            audio: false,
            files: true,
        }
    }

    /// xAI's server: it searches the web and takes tools of its own in raw form, and knows neither `strict` tools nor closed
    /// schemas, `instructions`, the prompt cache's fields or compaction.
    #[must_use]
    pub fn xai(provider: ProviderId) -> Self {
        Dialect {
            instructions: false,
            reasoning_summary: false,
            verbosity: false,
            strict_tools: false,
            closed_schemas: false,
            custom_tools: false,
            namespaces: false,
            hosted: HostedSupport::Only(&["web_search"]),
            background: false,
            cache: false,
            compaction: false,
            service_tier: false,
            user: UserField::User,
            ..Dialect::new(provider)
        }
    }

    /// A server that runs open models (llama.cpp, vLLM, LM Studio): functions, text and pictures, thinking in plain text, and
    /// nothing of its own.
    #[must_use]
    pub fn local(provider: ProviderId) -> Self {
        Dialect {
            encrypted_reasoning: false,
            custom_tools: false,
            namespaces: false,
            hosted: HostedSupport::Only(&[]),
            stateful: false,
            store: false,
            background: false,
            cache: false,
            compaction: false,
            metadata: false,
            service_tier: false,
            user: UserField::None,
            ..Dialect::new(provider)
        }
    }

    /// The same server as if it took everything, in the same words.
    fn unlimited(&self) -> Self {
        let everything = Dialect { audio: true, ..Dialect::new(self.provider.clone()) };
        Dialect { stream: self.stream, operator: self.operator, user: self.user, ..everything }
    }
}

/// The role of the operator's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorRole {
    /// `system`.
    System,
    /// `developer`: OpenAI's newer word.
    Developer,
}

impl OperatorRole {
    fn word(self) -> &'static str {
        match self {
            OperatorRole::System => "system",
            OperatorRole::Developer => "developer",
        }
    }
}

/// Which of its own tools a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostedSupport {
    /// All that the protocol knows.
    All,
    /// Those of these kinds, in our words ([`HostedTool::kind`](placet_core::hosted::HostedTool::kind)), and raw ones.
    Only(&'static [&'static str]),
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

/// The field that holds the caller's pseudonym of the person behind the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserField {
    /// `safety_identifier`.
    SafetyIdentifier,
    /// `user`, its older name.
    User,
    /// The server takes neither.
    None,
}

/// The decoder of a stream that answers a request with these names.
#[must_use]
pub fn decode_events(dialect: &Dialect, names: Names) -> EventDecoder {
    EventDecoder::new(dialect.provider.clone(), names, dialect.stateful)
}

/// The encoder of a stream for a client of this protocol.
#[must_use]
pub fn encode_events(head: AnswerHead) -> EventEncoder {
    EventEncoder::new(head)
}

/// The list of models, in the shape of `GET /v1/models`. `created` is in seconds since 1970.
#[must_use]
pub fn encode_models<'a>(ids: impl IntoIterator<Item = &'a str>, created: u64, owner: &str) -> Value {
    let form = |id| json!({"id": id, "object": "model", "created": created, "owned_by": owner});
    let data: Vec<Value> = ids.into_iter().map(form).collect();
    json!({"object": "list", "data": data})
}

/// The answer to `POST /v1/responses/input_tokens`: how many tokens a request takes.
#[must_use]
pub fn encode_count(tokens: u64) -> Value {
    json!({"object": "response.input_tokens", "input_tokens": tokens})
}

/// Reads the answer to `POST /v1/responses/input_tokens`.
///
/// # Errors
/// [`ProviderError`] of kind *protocol* where it holds no count.
pub fn decode_count(provider: &ProviderId, body: &[u8]) -> Result<u64, ProviderError> {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    value.and_then(|value| value.get("input_tokens")?.as_u64()).ok_or_else(|| {
        ProviderError::new(ErrorKind::Protocol, provider.clone(), "the answer holds no number in `input_tokens`")
    })
}

/// What ids of ours have after their prefix. A provider's have not: theirs are hexadecimal. Ids of ours mean nothing to a
/// provider, so they are not sent to one.
const OWN_ID: &str = "px";

/// Whether an id of an item was made by the encoder of answers.
fn is_own_id(id: &str) -> bool {
    id.split_once('_').is_some_and(|(_, rest)| rest.starts_with(OWN_ID))
}

#[cfg(test)]
mod answer_tests;
#[cfg(test)]
mod decode_tests;
#[cfg(test)]
mod encode_tests;
#[cfg(test)]
mod law_tests;
#[cfg(test)]
mod request_tests;
