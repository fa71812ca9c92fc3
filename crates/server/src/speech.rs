//! The protocols of clients, behind one set of calls.

use placet_core::{Env, ProviderId, Turn, TurnEvent};
use placet_wire::passing::Speech;
use placet_wire::{AnswerHead, DecodedRequest, RequestError, openai_chat, openai_responses};
use serde_json::Value;

/// Whose state a client's body holds where it says nothing else: nobody's that could be asked, so that it goes to no
/// provider. State that went through us is sealed, and says itself whose it is.
pub(crate) fn nobody() -> ProviderId {
    ProviderId::new("client")
}

/// Reads a client's request. For Gemini the path says which model and whether it is a stream.
pub(crate) fn decode_request(speech: Speech, body: &[u8], env: &Env) -> Result<DecodedRequest, RequestError> {
    match speech {
        Speech::OpenaiChat => openai_chat::decode_request(body, &nobody(), env),
        Speech::OpenaiResponses => openai_responses::decode_request(body, &nobody(), env),
        Speech::AnthropicMessages | Speech::Gemini => Err(RequestError {
            kind: placet_core::ErrorKind::Unsupported,
            problem: format!("this version hands {speech} on to providers that speak it, and to no others"),
            field: None,
        }),
    }
}

/// Writes an answer in pieces.
pub(crate) enum Encoder {
    Chat(Box<openai_chat::EventEncoder>),
    Responses(Box<openai_responses::EventEncoder>),
}

impl Encoder {
    pub(crate) fn new(speech: Speech, head: AnswerHead) -> Self {
        match speech {
            Speech::OpenaiResponses => Encoder::Responses(Box::new(openai_responses::encode_events(head))),
            _ => Encoder::Chat(Box::new(openai_chat::encode_events(head))),
        }
    }

    pub(crate) fn push(&mut self, event: &TurnEvent, out: &mut Vec<u8>) {
        match self {
            Encoder::Chat(encoder) => encoder.push(event, out),
            Encoder::Responses(encoder) => encoder.push(event, out),
        }
    }

    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        match self {
            Encoder::Chat(encoder) => encoder.end(out),
            Encoder::Responses(encoder) => encoder.end(out),
        }
    }
}

/// A whole answer.
pub(crate) fn encode_response(speech: Speech, head: &AnswerHead, turn: &Turn) -> Value {
    match speech {
        Speech::OpenaiResponses => openai_responses::encode_response(head, turn),
        _ => openai_chat::encode_response(head, turn),
    }
}

/// The id of an answer, as its protocol writes ids, made from that of the request.
pub(crate) fn answer_id(speech: Speech, request_id: &str) -> String {
    let digits = request_id.trim_start_matches("req_");
    match speech {
        Speech::OpenaiChat => format!("chatcmpl-{digits}"),
        Speech::OpenaiResponses => format!("resp_{digits}"),
        Speech::AnthropicMessages => format!("msg_{digits}"),
        Speech::Gemini => digits.to_owned(),
    }
}
