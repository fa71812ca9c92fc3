//! The protocols, behind one set of calls.

use super::AdapterOptions;
use crate::provider::ModelListing;
use crate::vendor::{Framing, Quirk};
use bytes::Bytes;
use placet_core::embedding::{EmbeddingRequest, Embeddings};
use placet_core::{ProviderError, ProviderId, TurnEvent, TurnRequest};
use placet_wire::Encoded;
use placet_wire::fields::FieldRule;
use placet_wire::names::Names;
use placet_wire::openai_chat;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A wire format that models are asked in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Protocol {
    /// OpenAI Chat Completions.
    OpenaiChat,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::OpenaiChat => "openai_chat",
        })
    }
}

impl Protocol {
    /// What it can say at all.
    pub(crate) fn fields(self) -> &'static [FieldRule] {
        match self {
            Protocol::OpenaiChat => openai_chat::FIELDS,
        }
    }

    /// The path, body and reader of a request for vectors; how many texts one may hold. None where the protocol has no such
    /// request.
    pub(super) fn embedding(self, framing: &Framing, model: &str) -> Option<Embedding> {
        match self {
            Protocol::OpenaiChat => Some(Embedding {
                path: framing.embeddings_path(model),
                most: 2048,
                encode: openai_chat::encode_embedding_request,
                decode: openai_chat::decode_embeddings,
            }),
        }
    }

    /// Where a server lists its models.
    pub(super) fn models_path(self) -> &'static str {
        "models"
    }

    pub(super) fn decode_models(self, provider: &ProviderId, body: &[u8]) -> Result<Vec<ModelListing>, ProviderError> {
        match self {
            Protocol::OpenaiChat => {
                let models = openai_chat::decode_models(provider, body)?;
                Ok(models
                    .into_iter()
                    .map(|model| ModelListing { id: model.id, description: model.description })
                    .collect())
            }
        }
    }
}

/// How vectors are asked for.
pub(super) struct Embedding {
    pub(super) path: String,
    /// How many texts one request may hold.
    pub(super) most: usize,
    pub(super) encode: fn(&EmbeddingRequest) -> Result<Encoded, ProviderError>,
    pub(super) decode: fn(&ProviderId, &[u8]) -> Result<Embeddings, ProviderError>,
}

/// One turn as it is asked.
pub(super) struct Question {
    protocol: Protocol,
    provider: ProviderId,
    /// The path below the base URL.
    pub(super) path: String,
    pub(super) body: Bytes,
    /// Headers that this request needs.
    pub(super) headers: Vec<(String, String)>,
    /// What was left out of it.
    pub(super) omitted: Vec<String>,
    names: Names,
}

impl Question {
    /// Puts a request into the server's words.
    pub(super) fn new(options: &AdapterOptions, request: &TurnRequest) -> Result<Self, ProviderError> {
        let mut question = Question::none(options);
        let quirks: Vec<Quirk> = options.quirks_of(&request.model).collect();
        let encoded = match options.protocol {
            Protocol::OpenaiChat => {
                question.path = options.framing.chat_path(&request.model);
                openai_chat::encode_request(request, &crate::vendor::chat_dialect(&options.id, &quirks))?
            }
        };
        question.body = encoded.body;
        question.names = encoded.names;
        question.omitted = encoded.omitted.iter().map(ToString::to_string).collect();
        Ok(question)
    }

    /// No turn at all.
    pub(super) fn none(options: &AdapterOptions) -> Self {
        Question {
            protocol: options.protocol,
            provider: options.id.clone(),
            path: String::new(),
            body: Bytes::new(),
            headers: Vec::new(),
            omitted: Vec::new(),
            names: Names::default(),
        }
    }

    pub(super) fn decoder(&self) -> Decoder {
        match self.protocol {
            Protocol::OpenaiChat => {
                let dialect = openai_chat::Dialect::new(self.provider.clone());
                Decoder::Chat(openai_chat::decode_events(&dialect, self.names.clone()))
            }
        }
    }

    /// A whole answer.
    pub(super) fn decode_response(&self, body: &[u8]) -> Result<Vec<TurnEvent>, ProviderError> {
        match self.protocol {
            Protocol::OpenaiChat => openai_chat::decode_response(&self.provider, self.names.clone(), body),
        }
    }
}

/// A decoder of events.
pub(super) enum Decoder {
    Chat(openai_chat::EventDecoder),
}

macro_rules! each {
    ($self:ident, $decoder:ident => $call:expr) => {
        match $self {
            Decoder::Chat($decoder) => $call,
        }
    };
}

impl Decoder {
    pub(super) fn push(&mut self, bytes: &[u8], events: &mut Vec<TurnEvent>) {
        each!(self, decoder => decoder.push(bytes, events));
    }

    pub(super) fn end(&mut self, events: &mut Vec<TurnEvent>) {
        each!(self, decoder => decoder.end(events));
    }

    /// Whether what matters of the answer has come.
    pub(super) fn is_whole(&self) -> bool {
        each!(self, decoder => decoder.is_whole())
    }

    /// Whether nothing more comes.
    pub(super) fn is_done(&self) -> bool {
        each!(self, decoder => decoder.is_done())
    }
}
