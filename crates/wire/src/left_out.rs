//! What an answer loses on its way into another protocol.
//!
//! It is not told by what an encoder means to write but found in what it wrote: the answer is written, read again, and compared. State
//! of another provider counts as kept where an envelope in what was written holds it.

use crate::encoded::{Omission, Omissions};
use crate::further::is_further;
use crate::names::Names;
use crate::probabilities::{Pieces, without};
use crate::protocol::Protocol;
use crate::{AnswerHead, envelope, gemini, shown};
use placet_core::env::ManualClock;
use placet_core::part::{Media, Native};
use placet_core::{Accumulator, Env, Item, ItemBody, Part, Timestamp, Turn, Usage};
use serde_json::{Map, Value};
use std::sync::Arc;

const NO_PLACE: &str = "an answer of this protocol has no place for it";
const OTHER_WORDS: &str = "this protocol has no word for it";
const FOREIGN: &str = "it is another provider's, and an answer of this protocol has no place for it";

/// What is left out of a turn, or told in other words, where a client is told of it in `protocol`.
#[must_use]
pub fn left_out(protocol: Protocol, head: &AnswerHead, turn: &Turn) -> Vec<Omission> {
    let mut found = Omissions::default();
    let written = protocol.encode_response(head, turn);
    let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(0)), 0);
    let bytes = written.to_string().into_bytes();
    let again = protocol.decode_response(&head.provider, Names::default(), &bytes).and_then(|events| {
        let mut fold = Accumulator::new();
        events.iter().for_each(|event| fold.push(event));
        fold.finish(&head.provider, &env)
    });
    let Ok(again) = again else {
        found.add("everything", "an answer of this protocol cannot be like that");
        return found.0;
    };
    if turn.stop != again.stop {
        found.add(format!("stop `{}`, told as `{}`", turn.stop, again.stop), OTHER_WORDS);
    }
    if turn.service_tier.is_some() && turn.service_tier != again.service_tier {
        found.add("service_tier", OTHER_WORDS);
    }
    if turn.usage.is_none() && again.usage.is_some() {
        found.add("usage", "the provider told none; clients of this protocol expect one and are told of nothing");
    }
    usage(&turn.usage.unwrap_or_default(), &again.usage.unwrap_or_default(), &mut found);
    let (ours, mut theirs) = (Content::of(turn), Content::of(&again));
    // What is no text may be shown as one.
    for shown in &ours.shown {
        if ours.text != theirs.text
            && let Some(place) = theirs.text.find(shown.as_str())
        {
            theirs.text.replace_range(place..place + shown.len(), "");
        }
    }
    for (what, is_kept) in [
        ("text", ours.text == theirs.text),
        ("reasoning", ours.reasoning == theirs.reasoning),
        ("tool calls", same_calls(&ours.calls, &theirs.calls)),
        ("media", ours.media.iter().all(|media| contains(&written, media))),
    ] {
        if !is_kept {
            found.add(what, NO_PLACE);
        }
    }
    let further = |turn: &Turn| {
        let is_one = |item: &&Arc<Item>| matches!(&item.body, ItemBody::Native(native) if is_further(native));
        turn.items.iter().filter(is_one).count()
    };
    let has_several = matches!(protocol, Protocol::OpenaiChat | Protocol::Gemini);
    if further(turn) > 0 && !(has_several && further(&again) == further(turn)) {
        found.add("further answers", "an answer of this protocol is only one");
    }
    let mut envelopes = Vec::new();
    open_all(&written, &mut envelopes);
    let is_kept = |value: &Value| envelopes.iter().any(|envelope| contains(envelope, value));
    for (what, native) in states(turn) {
        if native.provider != head.provider && !is_kept(&native.value) {
            found.add(what, FOREIGN);
        }
    }
    for item in &turn.items {
        if let ItemBody::HostedCall(call) = &item.body
            && call.provider != head.provider
            && !is_kept(&call.value)
        {
            found.add(format!("hosted call `{}`", call.kind), FOREIGN);
        }
    }
    if !Pieces::of(turn).0.is_empty() && Pieces::of(&again).0.is_empty() {
        found.add("logprobs", NO_PLACE);
    }
    if let Some(native) = turn.native.as_ref().filter(|native| native.provider != head.provider) {
        for key in without(&native.value).as_object().into_iter().flat_map(Map::keys) {
            found.add(format!("native.{key}"), FOREIGN);
        }
    }
    if turn.provider_state.as_ref().is_some_and(|state| state.provider != head.provider) {
        found.add("provider_state", FOREIGN);
    }
    found.0
}

/// Whether the calls are the same. Of one that was cut there is no more to compare than its name.
fn same_calls(ours: &[Call], theirs: &[Call]) -> bool {
    let is_same = |(ours, theirs): (&Call, &Call)| ours.0 == theirs.0 && (ours.1.is_none() || ours.1 == theirs.1);
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(is_same)
}

/// A tool's name, and the arguments where they can be read.
type Call = (String, Option<Map<String, Value>>);

/// What an answer says, however it is cut into items.
#[derive(Default)]
struct Content {
    text: String,
    reasoning: String,
    calls: Vec<Call>,
    /// The data or address of each.
    media: Vec<Value>,
    /// Each as it is shown where there are only texts.
    shown: Vec<String>,
}

impl Content {
    fn of(turn: &Turn) -> Self {
        let mut content = Content::default();
        for item in &turn.items {
            match &item.body {
                ItemBody::Message(message) => {
                    content.text.push_str(&message.text());
                    for part in &message.parts {
                        if let Part::Image(media) | Part::Audio(media) | Part::File(media) = part {
                            content.media.extend(source(media));
                        }
                        content.shown.extend(shown::markdown(part));
                    }
                }
                ItemBody::Reasoning(reasoning) => content.reasoning.push_str(&reasoning.text),
                ItemBody::ToolCall(call) => {
                    content.calls.push((call.name.as_str().to_owned(), call.arguments.parse().ok()));
                }
                ItemBody::Artifact(artifact) => {
                    content.media.extend(source(&artifact.media));
                    content.shown.extend(shown::markdown(&shown::part_of(&artifact.media)));
                }
                ItemBody::HostedCall(call) => {
                    let made = shown::made(call);
                    content.media.extend(made.as_ref().and_then(source));
                    content.shown.extend(made.and_then(|media| shown::markdown(&Part::Image(media))));
                }
                _ => {}
            }
        }
        content
    }
}

/// The data or address of some media, which every protocol writes as it is or within a longer text.
fn source(media: &Media) -> Option<Value> {
    let source = serde_json::to_value(&media.source).ok()?;
    source.as_object()?.values().find(|value| value.as_str().is_some_and(|text| text.len() > 16)).cloned()
}

/// State of parts of the answer, with what it is of.
fn states(turn: &Turn) -> Vec<(&'static str, &Native)> {
    let mut states = Vec::new();
    for item in &turn.items {
        match &item.body {
            ItemBody::Message(message) => {
                states.extend(message.native.iter().map(|native| ("state of a message", native)));
                for part in &message.parts {
                    match part {
                        Part::Text(text) => states.extend(text.native.iter().map(|native| ("state of a text", native))),
                        Part::Native(native) => states.push(("a part in its provider's words", native)),
                        part => states.extend(shown::state(part).map(|native| ("state of media", native))),
                    }
                }
            }
            ItemBody::Reasoning(reasoning) => {
                states.extend(reasoning.native.iter().map(|native| ("state of thinking", native)));
            }
            ItemBody::ToolCall(call) => states.extend(call.native.iter().map(|native| ("state of a call", native))),
            ItemBody::Native(native) if is_further(native) => {}
            ItemBody::Native(native) => states.push(("an item in its provider's words", native)),
            _ => {}
        }
    }
    states
}

/// The counters that differ, by name.
fn usage(ours: &Usage, theirs: &Usage, found: &mut Omissions) {
    let fields = |usage: &Usage| match serde_json::to_value(usage) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (ours, theirs) = (fields(ours), fields(theirs));
    for (key, value) in &ours {
        if theirs.get(key) != Some(value) && value != &Value::from(0) {
            found.add(format!("usage.{key}"), NO_PLACE);
        }
    }
}

/// Whether a value stands somewhere in another; a text also as a piece of a longer one.
fn contains(place: &Value, value: &Value) -> bool {
    if place == value {
        return true;
    }
    match (place, value) {
        (Value::String(long), Value::String(short)) => long.contains(short.as_str()),
        (Value::Array(list), _) => list.iter().any(|inner| contains(inner, value)),
        (Value::Object(fields), _) => fields.values().any(|inner| contains(inner, value)),
        _ => false,
    }
}

/// What the envelopes in a value hold.
fn open_all(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::String(text) => {
            let native = envelope::open(text).or_else(|| gemini::open_sealed(text));
            found.extend(native.map(|native| native.value));
        }
        Value::Array(list) => list.iter().for_each(|inner| open_all(inner, found)),
        Value::Object(fields) => fields.values().for_each(|inner| open_all(inner, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use placet_core::StopReason;
    use serde_json::json;

    fn head(protocol: Protocol) -> AnswerHead {
        AnswerHead {
            id: "a1".into(),
            model: "m".into(),
            created: 0,
            provider: protocol.as_str().into(),
            stream_usage: true,
            request: None,
        }
    }

    fn read(protocol: Protocol, body: &Value) -> Turn {
        let provider = protocol.as_str().into();
        let events = protocol.decode_response(&provider, Names::default(), body.to_string().as_bytes()).expect("read");
        let mut fold = Accumulator::new();
        events.iter().for_each(|event| fold.push(event));
        fold.finish(&provider, &Env::deterministic(ManualClock::new(Timestamp::from_millis(0)), 0)).expect("a turn")
    }

    fn names(to: Protocol, turn: &Turn) -> Vec<String> {
        left_out(to, &head(to), turn).into_iter().map(|omission| omission.what).collect()
    }

    #[test]
    fn nothing_is_left_out_of_a_plain_answer_in_any_protocol() {
        let chat = json!({"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Let me look.", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": 1}"}}]}}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": 4}}});
        let turn = read(Protocol::OpenaiChat, &chat);
        for to in Protocol::ALL {
            assert_eq!(names(to, &turn), Vec::<String>::new(), "{to}");
        }
    }

    #[test]
    fn sealed_state_is_kept_and_what_has_no_place_is_named() {
        let message = json!({"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "Done."}],
            "stop_reason": "stop_sequence", "stop_sequence": "END",
            "usage": {"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 7,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}}});
        let turn = read(Protocol::AnthropicMessages, &message);
        assert_eq!(turn.stop, StopReason::StopSequence);
        assert_eq!(names(Protocol::AnthropicMessages, &turn), Vec::<String>::new());
        for to in [Protocol::OpenaiChat, Protocol::OpenaiResponses, Protocol::Gemini] {
            let left_out = names(to, &turn);
            assert!(left_out.iter().any(|what| what.starts_with("stop `stop_sequence`")), "{to}: {left_out:?}");
            assert!(left_out.iter().any(|what| what == "native.stop_sequence"), "{to}: {left_out:?}");
            assert!(left_out.iter().any(|what| what.starts_with("usage.cache_write")), "{to}: {left_out:?}");
            assert!(!left_out.iter().any(|what| what.contains("thinking")), "{to}: {left_out:?}");
        }
    }
}
