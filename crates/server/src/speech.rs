//! The protocols of clients, behind one set of calls.

use crate::turn::TurnAsked;
use placet_core::{Env, ProviderId, Turn, TurnEvent};
use placet_wire::passing::Speech;
use placet_wire::{
    AnswerHead, DecodedRequest, RequestError, anthropic_messages, gemini, openai_chat, openai_responses,
};
use serde_json::Value;

/// Whose state a client's body holds where it says nothing else: nobody's that could be asked, so that it goes to no
/// provider. State that went through us is sealed, and says itself whose it is.
pub(crate) fn nobody() -> ProviderId {
    ProviderId::new("client")
}

/// Reads a client's request. For Gemini the path says whether the answer is a stream.
pub(crate) fn decode_request(asked: &TurnAsked, body: &[u8], env: &Env) -> Result<DecodedRequest, RequestError> {
    match asked.speech {
        Speech::OpenaiChat => openai_chat::decode_request(body, &nobody(), env),
        Speech::OpenaiResponses => openai_responses::decode_request(body, &nobody(), env),
        Speech::AnthropicMessages => anthropic_messages::decode_request(body, &nobody(), env),
        Speech::Gemini => {
            let mut decoded = gemini::decode_request(body, &nobody(), env)?;
            decoded.stream = asked.stream;
            Ok(decoded)
        }
    }
}

/// Writes an answer in pieces.
pub(crate) enum Encoder {
    Chat(Box<openai_chat::EventEncoder>),
    Responses(Box<openai_responses::EventEncoder>),
    Messages(Box<anthropic_messages::EventEncoder>),
    Gemini(Box<gemini::EventEncoder>),
}

impl Encoder {
    /// `is_array`: a Gemini client wants one JSON list instead of events.
    pub(crate) fn new(speech: Speech, head: AnswerHead, is_array: bool) -> Self {
        match speech {
            Speech::OpenaiChat => Encoder::Chat(Box::new(openai_chat::encode_events(head))),
            Speech::OpenaiResponses => Encoder::Responses(Box::new(openai_responses::encode_events(head))),
            Speech::AnthropicMessages => Encoder::Messages(Box::new(anthropic_messages::encode_events(head))),
            Speech::Gemini if is_array => Encoder::Gemini(Box::new(gemini::encode_events(head).as_array())),
            Speech::Gemini => Encoder::Gemini(Box::new(gemini::encode_events(head))),
        }
    }

    pub(crate) fn push(&mut self, event: &TurnEvent, out: &mut Vec<u8>) {
        match self {
            Encoder::Chat(encoder) => encoder.push(event, out),
            Encoder::Responses(encoder) => encoder.push(event, out),
            Encoder::Messages(encoder) => encoder.push(event, out),
            Encoder::Gemini(encoder) => encoder.push(event, out),
        }
    }

    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        match self {
            Encoder::Chat(encoder) => encoder.end(out),
            Encoder::Responses(encoder) => encoder.end(out),
            Encoder::Messages(encoder) => encoder.end(out),
            Encoder::Gemini(encoder) => encoder.end(out),
        }
    }
}

/// A whole answer.
pub(crate) fn encode_response(speech: Speech, head: &AnswerHead, turn: &Turn) -> Value {
    match speech {
        Speech::OpenaiChat => openai_chat::encode_response(head, turn),
        Speech::OpenaiResponses => openai_responses::encode_response(head, turn),
        Speech::AnthropicMessages => anthropic_messages::encode_response(head, turn),
        Speech::Gemini => gemini::encode_response(head, turn),
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
