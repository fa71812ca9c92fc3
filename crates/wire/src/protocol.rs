//! The protocols by name, behind one set of calls.
//!
//! Whoever knows which server he talks to uses a protocol's module with a dialect; this is for those who hear of the protocol at run
//! time: an endpoint, a command.

use crate::ListedModel;
use crate::fields::FieldRule;
use crate::names::Names;
use crate::{
    AnswerHead, DecodedRequest, Encoded, RequestError, anthropic_messages, gemini, openai_chat, openai_responses,
};
use http::HeaderMap;
use placet_core::{Env, ProviderError, ProviderId, Turn, TurnEvent, TurnRequest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// OpenAI Chat Completions.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Anthropic Messages.
    AnthropicMessages,
    /// Gemini's `generateContent`.
    Gemini,
}

/// Calls the same function of the protocol's module.
macro_rules! of_module {
    ($protocol:expr, $module:ident => $call:expr) => {
        match $protocol {
            Protocol::OpenaiChat => {
                use openai_chat as $module;
                $call
            }
            Protocol::OpenaiResponses => {
                use openai_responses as $module;
                $call
            }
            Protocol::AnthropicMessages => {
                use anthropic_messages as $module;
                $call
            }
            Protocol::Gemini => {
                use gemini as $module;
                $call
            }
        }
    };
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 4] =
        [Protocol::OpenaiChat, Protocol::OpenaiResponses, Protocol::AnthropicMessages, Protocol::Gemini];

    /// Its name, in settings and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::OpenaiChat => "openai_chat",
            Protocol::OpenaiResponses => "openai_responses",
            Protocol::AnthropicMessages => "anthropic_messages",
            Protocol::Gemini => "gemini",
        }
    }

    /// The protocol of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Protocol::ALL.into_iter().find(|protocol| protocol.as_str() == name)
    }

    /// The protocol that a person means by a word: its name, with `-` or `_`, or a short one (`chat`, `responses`,
    /// `anthropic`, `messages`, `google`).
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let word = word.trim().to_ascii_lowercase().replace('-', "_");
        Protocol::named(&word).or(match word.as_str() {
            "chat" | "chat_completions" => Some(Protocol::OpenaiChat),
            "responses" => Some(Protocol::OpenaiResponses),
            "anthropic" | "messages" => Some(Protocol::AnthropicMessages),
            "google" | "generate_content" => Some(Protocol::Gemini),
            _ => None,
        })
    }

    /// What it does with each field of a request.
    #[must_use]
    pub fn fields(self) -> &'static [FieldRule] {
        of_module!(self, module => module::FIELDS)
    }

    /// Reads a client's request. `provider` owns what has no name of ours. What a protocol says in the path, not in the body
    /// (Gemini: the model and whether it is a stream), the caller fills in.
    ///
    /// # Errors
    /// [`RequestError`] where the body is no request of this protocol.
    pub fn decode_request(self, body: &[u8], provider: &ProviderId, env: &Env) -> Result<DecodedRequest, RequestError> {
        of_module!(self, module => module::decode_request(body, provider, env))
    }

    /// Writes a request for a server that takes everything.
    ///
    /// # Errors
    /// [`ProviderError`] of kind *unsupported* for what the protocol cannot express.
    pub fn encode_request(
        self,
        request: &TurnRequest,
        provider: &ProviderId,
        stream: bool,
    ) -> Result<Encoded, ProviderError> {
        of_module!(self, module => {
            let dialect = module::Dialect { stream, ..module::Dialect::new(provider.clone()) };
            module::encode_request(request, &dialect)
        })
    }

    /// Writes what changed of a client's request onto the body that it was read from.
    ///
    /// # Errors
    /// As [`Protocol::encode_request`].
    pub fn encode_request_onto(
        self,
        decoded: &DecodedRequest,
        request: &TurnRequest,
        provider: &ProviderId,
    ) -> Result<Encoded, ProviderError> {
        of_module!(self, module => {
            let dialect = module::Dialect { stream: decoded.stream, ..module::Dialect::new(provider.clone()) };
            module::encode_request_onto(&decoded.body, &decoded.request, request, &dialect)
        })
    }

    /// A reader of one streamed answer to a request with these names.
    #[must_use]
    pub fn decode_events(self, provider: &ProviderId, names: Names) -> EventDecoder {
        let provider = provider.clone();
        EventDecoder(match self {
            Protocol::OpenaiChat => {
                Decoder::Chat(Box::new(openai_chat::decode_events(&openai_chat::Dialect::new(provider), names)))
            }
            Protocol::OpenaiResponses => Decoder::Responses(Box::new(openai_responses::decode_events(
                &openai_responses::Dialect::new(provider),
                names,
            ))),
            Protocol::AnthropicMessages => Decoder::Anthropic(Box::new(anthropic_messages::decode_events(
                &anthropic_messages::Dialect::new(provider),
                names,
            ))),
            Protocol::Gemini => {
                Decoder::Gemini(Box::new(gemini::decode_events(&gemini::Dialect::new(provider), names)))
            }
        })
    }

    /// Reads an answer that came whole.
    ///
    /// # Errors
    /// [`ProviderError`] where it is an error in spite of its status, or no answer of this protocol.
    pub fn decode_response(
        self,
        provider: &ProviderId,
        names: Names,
        body: &[u8],
    ) -> Result<Vec<TurnEvent>, ProviderError> {
        of_module!(self, module => module::decode_response(provider, names, body))
    }

    /// Reads an answer that is an error.
    #[must_use]
    pub fn decode_error(self, provider: &ProviderId, status: u16, headers: &HeaderMap, body: &[u8]) -> ProviderError {
        of_module!(self, module => module::decode_error(provider, status, headers, body))
    }

    /// A writer of one streamed answer.
    #[must_use]
    pub fn encode_events(self, head: AnswerHead) -> EventEncoder {
        EventEncoder(match self {
            Protocol::OpenaiChat => Encoder::Chat(Box::new(openai_chat::encode_events(head))),
            Protocol::OpenaiResponses => Encoder::Responses(Box::new(openai_responses::encode_events(head))),
            Protocol::AnthropicMessages => Encoder::Anthropic(Box::new(anthropic_messages::encode_events(head))),
            Protocol::Gemini => Encoder::Gemini(Box::new(gemini::encode_events(head))),
        })
    }

    /// An answer as a body that goes whole.
    #[must_use]
    pub fn encode_response(self, head: &AnswerHead, turn: &Turn) -> Value {
        of_module!(self, module => module::encode_response(head, turn))
    }

    /// The status and body that tell a client of an error.
    #[must_use]
    pub fn encode_error(self, error: &ProviderError) -> (u16, Value) {
        of_module!(self, module => module::encode_error(error))
    }

    /// The status and body that tell a client of an error in a field of its request, which is named where the protocol has a
    /// place for it.
    #[must_use]
    pub fn encode_field_error(self, error: &ProviderError, field: Option<&str>) -> (u16, Value) {
        let (status, mut body) = self.encode_error(error);
        if let (Protocol::OpenaiChat | Protocol::OpenaiResponses, Some(field)) = (self, field)
            && let Some(param) = body.pointer_mut("/error/param")
        {
            *param = field.into();
        }
        (status, body)
    }

    /// Appends the event that ends a stream which broke off after it had begun, where nothing is known of what has been said.
    /// `id` names the answer where the event has to.
    pub fn encode_break(self, id: &str, error: &ProviderError, out: &mut Vec<u8>) {
        match self {
            Protocol::OpenaiResponses => openai_responses::encode_failed_event(id, error, out),
            _ => self.encode_error_event(error, out),
        }
    }

    /// Appends the event that ends a stream with an error, where no encoder of the stream is at hand.
    pub fn encode_error_event(self, error: &ProviderError, out: &mut Vec<u8>) {
        of_module!(self, module => module::encode_error_event(error, out));
    }

    /// Reads a list of models.
    ///
    /// # Errors
    /// [`ProviderError`] where there is no list.
    pub fn decode_models(self, provider: &ProviderId, body: &[u8]) -> Result<Vec<ListedModel>, ProviderError> {
        of_module!(self, module => module::decode_models(provider, body))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads the stream of one answer of any protocol: bytes in, events out.
#[derive(Debug)]
pub struct EventDecoder(Decoder);

#[derive(Debug)]
enum Decoder {
    Chat(Box<openai_chat::EventDecoder>),
    Responses(Box<openai_responses::EventDecoder>),
    Anthropic(Box<anthropic_messages::EventDecoder>),
    Gemini(Box<gemini::EventDecoder>),
}

/// Calls the same method of whichever it is.
macro_rules! of_inner {
    ($kind:ident, $value:expr, $inner:ident => $call:expr) => {
        match $value {
            $kind::Chat($inner) => $call,
            $kind::Responses($inner) => $call,
            $kind::Anthropic($inner) => $call,
            $kind::Gemini($inner) => $call,
        }
    };
}

impl EventDecoder {
    /// Takes the next bytes and appends what they mean to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<TurnEvent>) {
        of_inner!(Decoder, &mut self.0, inner => inner.push(bytes, out));
    }

    /// The stream has ended, well or not: appends what follows from that.
    pub fn end(&mut self, out: &mut Vec<TurnEvent>) {
        of_inner!(Decoder, &mut self.0, inner => inner.end(out));
    }

    /// Whether the answer is whole even if the connection breaks now.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        of_inner!(Decoder, &self.0, inner => inner.is_whole())
    }

    /// Whether nothing more will be given.
    #[must_use]
    pub fn is_done(&self) -> bool {
        of_inner!(Decoder, &self.0, inner => inner.is_done())
    }
}

/// Writes the stream of one answer of any protocol: events in, bytes out.
#[derive(Debug)]
pub struct EventEncoder(Encoder);

#[derive(Debug)]
enum Encoder {
    Chat(Box<openai_chat::EventEncoder>),
    Responses(Box<openai_responses::EventEncoder>),
    Anthropic(Box<anthropic_messages::EventEncoder>),
    Gemini(Box<gemini::EventEncoder>),
}

impl EventEncoder {
    /// Takes one event and appends what follows from it to `out`. After the end nothing more is written.
    pub fn push(&mut self, event: &TurnEvent, out: &mut Vec<u8>) {
        of_inner!(Encoder, &mut self.0, inner => inner.push(event, out));
    }

    /// No more events come: without an end so far, the stream ends with an error.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        of_inner!(Encoder, &mut self.0, inner => inner.end(out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_known_by_their_names() {
        for protocol in Protocol::ALL {
            assert_eq!(Protocol::named(protocol.as_str()), Some(protocol));
            assert_eq!(Protocol::parse(&protocol.as_str().replace('_', "-").to_uppercase()), Some(protocol));
            assert_eq!(serde_json::to_value(protocol).ok(), Some(protocol.as_str().into()));
            let rows = protocol.fields();
            for (field, class) in crate::fields::ALL_FIELDS {
                let found: Vec<_> = rows.iter().filter(|row| row.field == *field).collect();
                assert!(matches!(found.as_slice(), [row] if row.class == *class), "{protocol}: {field}");
            }
        }
        assert_eq!(Protocol::parse("chat"), Some(Protocol::OpenaiChat));
        assert_eq!(Protocol::parse("smoke signals"), None);
    }
}
