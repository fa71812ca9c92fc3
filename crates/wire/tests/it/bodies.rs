//! What is tried with bytes that may be anything: by the fuzzer, and by the tests over the corpus.
//!
//! Nothing here panics but by an assertion: whatever comes in, what is read is the same however it is cut, and what we write we can
//! read.

use bytes::Bytes;
use placet_core::env::ManualClock;
use placet_core::{Accumulator, Env, ErrorKind, ProviderId, Timestamp, TurnEvent};
use placet_wire::AnswerHead;
use placet_wire::names::Names;
use placet_wire::passing::{Edit, Outline, Speech, Watch, splice};
use placet_wire::protocol::Protocol;
use placet_wire::sse::{self, SseDecoder};
use std::borrow::Cow;

/// The longest event that the SSE decoder is given room for here.
const LIMIT: usize = 4096;

fn env() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 3)
}

fn provider(protocol: Protocol) -> ProviderId {
    ProviderId::new(protocol.as_str())
}

fn head(protocol: Protocol) -> AnswerHead {
    AnswerHead {
        id: "resp_1".into(),
        model: "m".into(),
        created: 1,
        provider: provider(protocol),
        stream_usage: true,
        request: None,
    }
}

/// A request, an answer or a stream of a protocol. The first byte says which (`q`, `r`, `s`), of a stream the second how long the
/// pieces are that it comes in.
pub(crate) fn protocol(protocol: Protocol, bytes: &[u8]) {
    let Some((form, rest)) = bytes.split_first() else { return };
    match form % 3 {
        2 => request(protocol, rest),
        0 => response(protocol, rest),
        _ => {
            let Some((length, rest)) = rest.split_first() else { return };
            stream(protocol, usize::from(*length).max(1), rest);
        }
    }
}

fn request(protocol: Protocol, bytes: &[u8]) {
    let Ok(decoded) = protocol.decode_request(bytes, &provider(protocol), &env()) else { return };
    if let Ok(written) = protocol.encode_request_onto(&decoded, &decoded.request, &provider(protocol)) {
        let mut again: serde_json::Value = serde_json::from_slice(&written.body).expect("what is written is JSON");
        let mut before = serde_json::Value::clone(&decoded.body);
        // A stream is always asked for its usage.
        for body in [&mut again, &mut before] {
            body.as_object_mut().map(|fields| fields.shift_remove("stream_options"));
        }
        // Envelopes of ours, sound or not, are never sent to a provider.
        let has_envelopes = ["placet1.", "cGxhY2V0MS"].iter().any(|mark| before.to_string().contains(mark));
        assert!(has_envelopes || again == before, "unchanged, it is the client's own body: {before} became {again}");
    }
    for to in Protocol::ALL {
        if let Ok(written) = to.encode_request(&decoded.request, &provider(to), decoded.stream) {
            let read = to.decode_request(&written.body, &provider(to), &env());
            assert!(read.is_ok(), "{to}: {read:?} in {}", String::from_utf8_lossy(&written.body));
        }
    }
}

fn response(protocol: Protocol, bytes: &[u8]) {
    match protocol.decode_response(&provider(protocol), Names::default(), bytes) {
        Ok(events) => answer(protocol, &events),
        Err(error) => Protocol::ALL.iter().for_each(|to| drop(to.encode_error(&error))),
    }
    let error = protocol.decode_error(&provider(protocol), 400, &http::HeaderMap::new(), bytes);
    assert!(!error.message.is_empty());
}

fn stream(protocol: Protocol, length: usize, bytes: &[u8]) {
    let read = |length: usize| {
        let mut decoder = protocol.decode_events(&provider(protocol), Names::default());
        let mut events = Vec::new();
        bytes.chunks(length).for_each(|piece| decoder.push(piece, &mut events));
        decoder.end(&mut events);
        assert!(decoder.is_done());
        events
    };
    let events = read(bytes.len().max(1));
    // As texts, because what is no number is not equal to itself.
    assert_eq!(format!("{events:?}"), format!("{:?}", read(length)), "cut into pieces of {length} bytes");
    let ends = events.iter().filter(|event| matches!(event, TurnEvent::Finished(_) | TurnEvent::Failed(_))).count();
    assert_eq!(ends, 1, "an answer ends once");
    answer(protocol, &events);
}

/// Hands an answer on in every protocol, as a stream and as a whole.
fn answer(from: Protocol, events: &[TurnEvent]) {
    let is_finished = events.iter().any(|event| matches!(event, TurnEvent::Finished(_)));
    let mut fold = Accumulator::new();
    events.iter().for_each(|event| fold.push(event));
    let turn = fold.finish(&provider(from), &env());
    for to in Protocol::ALL {
        let mut encoder = to.encode_events(head(to));
        let mut written = Vec::new();
        events.iter().for_each(|event| encoder.push(event, &mut written));
        encoder.end(&mut written);
        let mut decoder = to.decode_events(&provider(to), Names::default());
        let mut again = Vec::new();
        decoder.push(&written, &mut again);
        decoder.end(&mut again);
        let is_sound = |event: &TurnEvent| match event {
            TurnEvent::Failed(error) => !matches!(error.kind, ErrorKind::Protocol | ErrorKind::Interrupted),
            _ => true,
        };
        let text = || String::from_utf8_lossy(&written).into_owned();
        assert!(!is_finished || again.iter().all(is_sound), "{from} to {to}: {again:?} of {}", text());
        if let Ok(turn) = &turn {
            let body = to.encode_response(&head(to), turn).to_string();
            let read = to.decode_response(&provider(to), Names::default(), body.as_bytes());
            let is_sound = read.as_ref().err().is_none_or(|error| error.kind != ErrorKind::Protocol);
            assert!(is_sound, "{from} to {to}: {read:?} of {body}");
        }
    }
}

/// Server-sent events: cut anywhere they are the same, and written again they are the same.
pub(crate) fn events(bytes: &[u8]) {
    let Some((length, bytes)) = bytes.split_first() else { return };
    let read = |length: usize, bytes: &[u8]| {
        let mut decoder = SseDecoder::with_limit(LIMIT);
        let mut found = Vec::new();
        let pushed = bytes.chunks(length).try_for_each(|piece| {
            let pushed = decoder.push(piece);
            found.extend(std::iter::from_fn(|| decoder.next_event()));
            pushed
        });
        found.extend(std::iter::from_fn(|| decoder.finish()));
        (found, pushed.is_ok())
    };
    let whole = read(bytes.len().max(1), bytes);
    assert_eq!(whole, read(usize::from(*length).max(1), bytes), "cut into pieces");
    let (found, _) = whole;
    let mut written = Vec::new();
    found.iter().for_each(|event| sse::encode(event, &mut written));
    let plain = |text: &String| !text.contains(['\r', '\0']);
    let is_plain = found.iter().all(|event| plain(&event.data) && event.event.iter().all(plain));
    if is_plain && written.len() < LIMIT {
        assert_eq!(read(written.len().max(1), &written), (found, true));
    }
}

/// What passes: a body that is spliced, and an answer whose usage is read on its way. The first byte says the protocol and which.
pub(crate) fn passing(bytes: &[u8]) {
    let Some((form, rest)) = bytes.split_first() else { return };
    let speech = [Speech::OpenaiChat, Speech::OpenaiResponses, Speech::AnthropicMessages, Speech::Gemini];
    let speech = speech[usize::from(form % 4)];
    if form / 4 % 3 == 0 {
        return spliced(speech, rest);
    }
    let Some((length, rest)) = rest.split_first() else { return };
    let strips = length % 2 == 1;
    let watched = |length: usize| {
        let mut watch = if form / 4 % 3 == 1 { Watch::events(speech, strips) } else { Watch::body(speech) };
        let mut passed = Vec::new();
        rest.chunks(length).for_each(|piece| passed.extend_from_slice(&watch.pass(Bytes::copy_from_slice(piece))));
        let (last, passage) = watch.end();
        passed.extend_from_slice(&last);
        (passed, watch.usage(), passage)
    };
    let (passed, usage, passage) = watched(rest.len().max(1));
    if !strips {
        assert_eq!(passed, rest, "what passes is unchanged");
    }
    let (cut, cut_usage, cut_passage) = watched(usize::from(*length).max(1));
    assert_eq!((passed, usage), (cut, cut_usage), "cut into pieces");
    assert_eq!(passage, cut_passage, "cut into pieces");
}

fn spliced(speech: Speech, bytes: &[u8]) {
    let Ok(outline) = Outline::read(bytes) else { return };
    let value: serde_json::Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        // An outline does not look into what it passes over.
        Err(_) => return,
    };
    let _ = outline.tool_names(bytes);
    let _ = outline.first_message(bytes);
    let body = Bytes::copy_from_slice(bytes);
    let mut edits: Vec<Edit<'_>> = Vec::new();
    edits.extend(outline.ask_for_usage(speech, bytes));
    edits.extend(outline.model.clone().map(|model| (model, Cow::Borrowed(&b"\"another\""[..]))));
    edits.sort_by_key(|(range, _)| range.start);
    let written: serde_json::Value = serde_json::from_slice(&splice(&body, &edits)).expect("what is spliced is JSON");
    if outline.model.is_some() {
        assert_eq!(written["model"], "another");
    }
    let (mut before, mut after) = (value, written);
    for value in [&mut before, &mut after] {
        for key in ["model", "stream_options"] {
            value.as_object_mut().map(|fields| fields.shift_remove(key));
        }
    }
    assert_eq!(before, after, "nothing else is changed");
}
