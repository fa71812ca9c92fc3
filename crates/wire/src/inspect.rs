//! Reading with places: for people who look at what went over the wire.
//!
//! A server reads what it is sent and says what is wrong; who debugs a file wants to know where. So each of these readings
//! gives the place of what it found, in bytes from the beginning, and ends with the place of what it could not read.

use crate::DecodedRequest;
use crate::names::Names;
use crate::protocol::Protocol;
use placet_core::{Env, ErrorKind, ProviderError, ProviderId, TurnEvent};
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What some bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A client's request.
    Request,
    /// An answer that came whole, or an error.
    Response,
    /// An answer as server-sent events.
    Stream,
}

/// Bytes that are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset}: {reason}")]
pub struct BadInput {
    /// Where, in bytes from the beginning.
    pub offset: usize,
    /// What is wrong there.
    pub reason: String,
}

/// An event of an answer, and where it was said.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Where the event of the stream begins that completed this one, in bytes from the beginning; 0 for an answer that came whole.
    pub offset: usize,
    /// What was said.
    pub event: TurnEvent,
}

/// The fields by which an answer that came whole is known, or an error.
const OF_ANSWERS: [&str; 6] = ["choices", "output", "content", "candidates", "promptFeedback", "error"];
/// The fields by which a request is known.
const OF_REQUESTS: [&str; 3] = ["messages", "input", "contents"];

/// What bytes look like, in whichever protocol: server-sent events where they are no JSON.
#[must_use]
pub fn form_of(bytes: &[u8]) -> Form {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    match text.first() {
        Some(b'{') => {}
        Some(b'[') => return Form::Response,
        _ => return Form::Stream,
    }
    let Ok(fields) = serde_json::from_slice::<BTreeMap<Cow<'_, str>, IgnoredAny>>(text) else { return Form::Response };
    let has = |names: &[&str]| names.iter().any(|name| fields.contains_key(*name));
    if has(&OF_ANSWERS) && !has(&OF_REQUESTS) { Form::Response } else { Form::Request }
}

/// Reads a request, as [`Protocol::decode_request`] does.
///
/// # Errors
/// [`BadInput`] with the place of the field, or of the character, that is wrong.
pub fn read_request(
    protocol: Protocol,
    provider: &ProviderId,
    bytes: &[u8],
    env: &Env,
) -> Result<DecodedRequest, BadInput> {
    is_json(bytes)?;
    protocol.decode_request(bytes, provider, env).map_err(|error| {
        let offset = error.field.as_deref().map_or(0, |field| locate(bytes, field));
        BadInput { offset, reason: error.problem }
    })
}

/// Reads an answer that came whole, as [`Protocol::decode_response`] does. One that tells of an error gives it as its one event.
///
/// # Errors
/// [`BadInput`] where it is no answer of this protocol.
pub fn read_response(protocol: Protocol, provider: &ProviderId, bytes: &[u8]) -> Result<Vec<Placed>, BadInput> {
    is_json(bytes)?;
    let events = match protocol.decode_response(provider, Names::default(), bytes) {
        Ok(events) => events,
        Err(error) if is_ours(&error) => return Err(BadInput { offset: 0, reason: error.message }),
        Err(error) => vec![TurnEvent::Failed(Box::new(error))],
    };
    Ok(events.into_iter().map(|event| Placed { offset: 0, event }).collect())
}

/// Reads a stream, as [`Protocol::decode_events`] does. An error that the stream itself tells of is its last event.
///
/// # Errors
/// [`BadInput`] where it is cut, or an event of it is malformed: with the place and what was read before.
pub fn read_stream(
    protocol: Protocol,
    provider: &ProviderId,
    bytes: &[u8],
) -> Result<Vec<Placed>, (BadInput, Vec<Placed>)> {
    let mut decoder = protocol.decode_events(provider, Names::default());
    let (mut placed, mut events) = (Vec::new(), Vec::new());
    let (mut at, mut start) = (0, 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        decoder.push(line, &mut events);
        at += line.len();
        place(&mut events, bytes, start, &mut placed)?;
        if line.trim_ascii().is_empty() {
            start = at;
        }
    }
    decoder.end(&mut events);
    place(&mut events, bytes, start, &mut placed)?;
    Ok(placed)
}

/// Notes where events were said. One that says that the bytes are wrong ends the reading.
fn place(
    events: &mut Vec<TurnEvent>,
    bytes: &[u8],
    start: usize,
    placed: &mut Vec<Placed>,
) -> Result<(), (BadInput, Vec<Placed>)> {
    for event in events.drain(..) {
        match event {
            TurnEvent::Failed(error) if is_ours(&error) => {
                let offset = match error.kind {
                    ErrorKind::Interrupted => bytes.len(),
                    _ => start + malformed_at(&bytes[start..]),
                };
                let bad = BadInput { offset, reason: error.message };
                return Err((bad, std::mem::take(placed)));
            }
            event => placed.push(Placed { offset: start, event }),
        }
    }
    Ok(())
}

/// Whether an error says that the bytes are wrong, and not that the provider failed.
fn is_ours(error: &ProviderError) -> bool {
    matches!(error.kind, ErrorKind::Protocol | ErrorKind::Interrupted | ErrorKind::LimitReached)
}

/// Where the data of the first event of these bytes stops being JSON; 0 where no single line of it does.
fn malformed_at(bytes: &[u8]) -> usize {
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii_end();
        if text.is_empty() && at > 0 {
            break;
        }
        if let Some(data) = text.strip_prefix(b"data:") {
            let data_at = at + text.len() - data.trim_ascii_start().len();
            if let Err(error) = serde_json::from_slice::<Value>(data.trim_ascii_start()) {
                return data_at + error.column().saturating_sub(1);
            }
        }
        at += line.len();
    }
    0
}

/// Whether bytes are JSON; where not, the place.
fn is_json(bytes: &[u8]) -> Result<(), BadInput> {
    let Err(error) = serde_json::from_slice::<Value>(bytes) else { return Ok(()) };
    let before = bytes.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    let line: usize = before.map(<[u8]>::len).sum();
    let offset = (line + error.column().saturating_sub(usize::from(!error.is_eof()))).min(bytes.len());
    Err(BadInput { offset, reason: format!("it is not JSON: {error}") })
}

/// Where the field at a path such as `messages[2].content` stands, or the last on its way that does.
fn locate(bytes: &[u8], path: &str) -> usize {
    let Ok(mut at) = serde_json::from_slice::<&RawValue>(bytes) else { return 0 };
    for step in path.split(['.', '[']).map(|step| step.trim_end_matches(']')).filter(|step| !step.is_empty()) {
        let inner = match step.parse::<usize>() {
            Ok(index) => {
                serde_json::from_str::<Vec<&RawValue>>(at.get()).ok().and_then(|list| list.get(index).copied())
            }
            Err(_) => serde_json::from_str::<BTreeMap<Cow<'_, str>, &RawValue>>(at.get())
                .ok()
                .and_then(|fields| fields.get(step).copied()),
        };
        let Some(inner) = inner else { break };
        at = inner;
    }
    // It is a piece of these bytes.
    (at.get().as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use placet_core::Timestamp;
    use placet_core::env::ManualClock;

    fn env() -> Env {
        Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1)
    }

    #[test]
    fn forms_are_told_apart() {
        for (text, form) in [
            (r#" {"model": "m", "messages": []}"#, Form::Request),
            (r#"{"input": "hi", "model": "m"}"#, Form::Request),
            (r#"{"model": "m", "previous_response_id": "r"}"#, Form::Request),
            (r#"{"contents": []}"#, Form::Request),
            (r#"{"choices": []}"#, Form::Response),
            (r#"{"type": "message", "content": []}"#, Form::Response),
            (r#"{"error": {"message": "no"}}"#, Form::Response),
            ("[{\"candidates\": []}]", Form::Response),
            ("data: {\"choices\": []}\n\n", Form::Stream),
            (": ping\n\n", Form::Stream),
            ("", Form::Stream),
        ] {
            assert_eq!(form_of(text.as_bytes()), form, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_in_a_request_is_told_with_its_place() {
        let read = |text: &str| {
            let error = read_request(Protocol::OpenaiChat, &"p".into(), text.as_bytes(), &env()).expect_err("bad");
            (error.offset, error.reason)
        };
        let text = "{\"model\": \"m\",\n \"messages\": [}";
        let (offset, reason) = read(text);
        assert_eq!(&text[offset..], "}", "{reason}");
        let text = r#"{"model": "m", "messages": [{"role": "user", "content": "a"}, {"role": 7, "content": "b"}]}"#;
        let (offset, reason) = read(text);
        assert!(text[offset..].starts_with("7"), "{offset}: {reason}");
        assert_eq!(read("{\"model\": \"m\"").0, 13, "what is cut is wrong at its end");
    }

    #[test]
    fn what_is_wrong_in_a_stream_is_told_with_its_place_and_what_came_before() {
        let good = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n";
        let stream = format!("{good}data: {{\"choices\": oops}}\n\n{good}");
        let (bad, placed) = read_stream(Protocol::OpenaiChat, &"p".into(), stream.as_bytes()).expect_err("bad");
        assert!(stream[bad.offset..].starts_with("oops"), "{bad}");
        assert!(placed.iter().any(|placed| matches!(placed.event, TurnEvent::Text(_))));
        let (bad, _) = read_stream(Protocol::OpenaiChat, &"p".into(), good.as_bytes()).expect_err("cut");
        assert_eq!(bad.offset, good.len());
        let overloaded =
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n";
        let placed =
            read_stream(Protocol::AnthropicMessages, &"p".into(), overloaded.as_bytes()).expect("the stream is sound");
        assert!(matches!(&*placed, [Placed { offset: 0, event: TurnEvent::Failed(_) }]));
    }

    #[test]
    fn events_are_placed_where_their_stream_says_them() {
        let one = |text: &str| {
            format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}}}]}}\r\n\r\n")
        };
        let end = "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\r\n\r\n";
        let stream = format!("{}{}{end}", one("a"), one("bc"));
        let placed = read_stream(Protocol::Gemini, &"p".into(), stream.as_bytes()).expect("a stream");
        let texts: Vec<_> = placed.iter().filter(|placed| matches!(placed.event, TurnEvent::Text(_))).collect();
        assert_eq!(texts.iter().map(|placed| placed.offset).collect::<Vec<_>>(), [0, one("a").len()]);
    }
}
