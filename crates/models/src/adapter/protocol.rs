//! The protocols, behind one set of calls.

use super::AdapterOptions;
use super::dialects::Dialect;
use crate::catalog::CatalogModel;
use crate::profile::Profile;
use crate::vendor::{Flavour, segment};
use bytes::Bytes;
use placet_core::embedding::{EmbeddingRequest, Embeddings};
use placet_core::{ProviderError, ProviderId, TurnEvent, TurnRequest};
use placet_wire::names::Names;
use placet_wire::{Encoded, anthropic_messages, gemini, openai_chat, openai_responses};

pub use placet_wire::protocol::Protocol;

/// What a protocol has beside turns.
pub(super) trait Beside {
    /// The path and body of a request for vectors; `None` where there is no such request.
    fn embedding(
        self,
        options: &AdapterOptions,
        request: &EmbeddingRequest,
    ) -> Option<Result<(String, Encoded), ProviderError>>;

    /// How many texts one request for vectors may hold.
    fn most_embedded(self) -> usize;

    fn decode_embeddings(self, provider: &ProviderId, body: &[u8]) -> Result<Embeddings, ProviderError>;

    /// Where a server lists its models.
    fn models_path(self) -> &'static str;
}

impl Beside for Protocol {
    fn embedding(
        self,
        options: &AdapterOptions,
        request: &EmbeddingRequest,
    ) -> Option<Result<(String, Encoded), ProviderError>> {
        Some(match self {
            Protocol::OpenaiChat | Protocol::OpenaiResponses => openai_chat::encode_embedding_request(request)
                .map(|encoded| (options.framing.embeddings_path(&request.model), encoded)),
            Protocol::Gemini if options.flavour == Flavour::Vertex => return None,
            Protocol::Gemini => {
                let dialect = gemini::Dialect::gemini_api(options.id.clone());
                gemini::encode_embedding_request(request, &dialect)
                    .map(|encoded| (gemini_path(&request.model, "batchEmbedContents"), encoded))
            }
            Protocol::AnthropicMessages => return None,
        })
    }

    fn most_embedded(self) -> usize {
        match self {
            Protocol::Gemini => 100,
            _ => 2048,
        }
    }

    fn decode_embeddings(self, provider: &ProviderId, body: &[u8]) -> Result<Embeddings, ProviderError> {
        match self {
            Protocol::Gemini => gemini::decode_embeddings(provider, body),
            _ => openai_chat::decode_embeddings(provider, body),
        }
    }

    fn models_path(self) -> &'static str {
        match self {
            Protocol::AnthropicMessages => "models?limit=1000",
            Protocol::Gemini => "models?pageSize=1000",
            _ => "models",
        }
    }
}

/// The path of a method of Gemini's for a model.
pub(super) fn gemini_path(model: &str, method: &str) -> String {
    match model.split_once('/') {
        // Tuned ones stand elsewhere.
        Some((place @ ("models" | "tunedModels"), name)) => format!("{place}/{}:{method}", segment(name)),
        _ => format!("models/{}:{method}", segment(model)),
    }
}

/// One turn as it is asked.
pub(super) struct Question {
    provider: ProviderId,
    dialect: Dialect,
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
    /// Puts a request into the server's words; `whole` says that nobody hears the answer before its end.
    pub(super) fn new(
        options: &AdapterOptions,
        request: &TurnRequest,
        profile: &Profile,
        known: Option<&CatalogModel>,
        whole: bool,
    ) -> Result<Self, ProviderError> {
        let mut dialect = Dialect::new(options, &request.model, profile, known);
        if whole {
            dialect.ask_whole(request.controls.max_output_tokens);
        }
        let (encoded, path) = match &dialect {
            Dialect::Chat(dialect) => {
                (openai_chat::encode_request(request, dialect)?, options.framing.chat_path(&request.model))
            }
            Dialect::Responses(dialect) => {
                (openai_responses::encode_request(request, dialect)?, "responses".to_owned())
            }
            Dialect::Anthropic(dialect) => {
                (anthropic_messages::encode_request(request, dialect)?, "messages".to_owned())
            }
            Dialect::Gemini(dialect) => {
                let method = if dialect.stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
                (gemini::encode_request(request, dialect)?, gemini_path(&request.model, method))
            }
        };
        Ok(Question {
            provider: options.id.clone(),
            headers: headers(&dialect, request),
            dialect,
            path,
            body: encoded.body,
            omitted: encoded.omitted.iter().map(ToString::to_string).collect(),
            names: encoded.names,
        })
    }

    /// Asks how many tokens a request reads; `None` where the protocol has no such question.
    pub(super) fn counting(
        options: &AdapterOptions,
        request: &TurnRequest,
        profile: &Profile,
        known: Option<&CatalogModel>,
    ) -> Result<Option<Self>, ProviderError> {
        let dialect = Dialect::new(options, &request.model, profile, known);
        let (encoded, path) = match &dialect {
            Dialect::Chat(_) => return Ok(None),
            Dialect::Responses(dialect) => {
                (openai_responses::encode_count_request(request, dialect)?, "responses/input_tokens".to_owned())
            }
            Dialect::Anthropic(dialect) => {
                (anthropic_messages::encode_count_request(request, dialect)?, "messages/count_tokens".to_owned())
            }
            Dialect::Gemini(dialect) => {
                (gemini::encode_count_request(request, dialect)?, gemini_path(&request.model, "countTokens"))
            }
        };
        Ok(Some(Question {
            provider: options.id.clone(),
            headers: headers(&dialect, request),
            dialect,
            path,
            body: encoded.body,
            omitted: encoded.omitted.iter().map(ToString::to_string).collect(),
            names: encoded.names,
        }))
    }

    pub(super) fn decode_count(&self, body: &[u8]) -> Result<u64, ProviderError> {
        match &self.dialect {
            Dialect::Chat(_) | Dialect::Responses(_) => openai_responses::decode_count(&self.provider, body),
            Dialect::Anthropic(_) => anthropic_messages::decode_count(&self.provider, body),
            Dialect::Gemini(_) => gemini::decode_count(&self.provider, body),
        }
    }

    pub(super) fn decoder(&self) -> Decoder {
        let names = self.names.clone();
        match &self.dialect {
            Dialect::Chat(dialect) => Decoder::Chat(Box::new(openai_chat::decode_events(dialect, names))),
            Dialect::Responses(dialect) => {
                Decoder::Responses(Box::new(openai_responses::decode_events(dialect, names)))
            }
            Dialect::Anthropic(dialect) => {
                Decoder::Anthropic(Box::new(anthropic_messages::decode_events(dialect, names)))
            }
            Dialect::Gemini(dialect) => Decoder::Gemini(Box::new(gemini::decode_events(dialect, names))),
        }
    }

    /// A whole answer.
    pub(super) fn decode_response(&self, body: &[u8]) -> Result<Vec<TurnEvent>, ProviderError> {
        let names = self.names.clone();
        match &self.dialect {
            Dialect::Chat(_) => openai_chat::decode_response(&self.provider, names, body),
            Dialect::Responses(_) => openai_responses::decode_response(&self.provider, names, body),
            Dialect::Anthropic(_) => anthropic_messages::decode_response(&self.provider, names, body),
            Dialect::Gemini(_) => gemini::decode_response(&self.provider, names, body),
        }
    }
}

/// Headers that a request needs by what it makes use of.
fn headers(dialect: &Dialect, request: &TurnRequest) -> Vec<(String, String)> {
    let Dialect::Anthropic(dialect) = dialect else { return Vec::new() };
    let mut headers = vec![("anthropic-version".to_owned(), dialect.version.header().to_owned())];
    let betas = anthropic_messages::beta_headers(request);
    if !betas.is_empty() {
        headers.push(("anthropic-beta".to_owned(), betas.join(",")));
    }
    headers
}

/// The headers of a request that is no turn.
pub(super) fn plain_headers(options: &AdapterOptions) -> Vec<(String, String)> {
    if options.protocol != Protocol::AnthropicMessages {
        return Vec::new();
    }
    let version = options.api_version.clone();
    let usual = || anthropic_messages::ApiVersion::default().header().to_owned();
    vec![("anthropic-version".to_owned(), version.unwrap_or_else(usual))]
}

/// A decoder of events.
pub(super) enum Decoder {
    Chat(Box<openai_chat::EventDecoder>),
    Responses(Box<openai_responses::EventDecoder>),
    Anthropic(Box<anthropic_messages::EventDecoder>),
    Gemini(Box<gemini::EventDecoder>),
}

macro_rules! each {
    ($self:ident, $decoder:ident => $call:expr) => {
        match $self {
            Decoder::Chat($decoder) => $call,
            Decoder::Responses($decoder) => $call,
            Decoder::Anthropic($decoder) => $call,
            Decoder::Gemini($decoder) => $call,
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
