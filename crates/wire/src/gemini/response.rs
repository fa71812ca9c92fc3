//! A finished turn as a body that comes whole: the fold of its own stream.

use super::events::{delta_of, encode_events};
use crate::request::AnswerHead;
use placet_core::turn::{ReasoningState, TextDelta, TurnFinished, WholeItem};
use placet_core::{ItemBody, Part, Turn, TurnEvent};
use serde_json::{Value, json};

/// The events of a finished turn, state before the text it belongs to, so that both become one part.
pub(super) fn events_of(turn: &Turn) -> Vec<TurnEvent> {
    let mut events = Vec::with_capacity(turn.items.len() * 2 + 2);
    let mut index = 0u32;
    for item in &turn.items {
        match &item.body {
            ItemBody::Message(message) => {
                for part in &message.parts {
                    match part {
                        Part::Text(text) => {
                            let state = text.native.clone().map(|native| ReasoningState { index, native });
                            events.extend(state.map(TurnEvent::TextState));
                            events.push(TurnEvent::Text(TextDelta { index, text: (*text.text).to_owned() }));
                        }
                        other => {
                            let one = placet_core::Message { parts: vec![other.clone()], ..message.clone() };
                            events.push(TurnEvent::Whole(Box::new(WholeItem { index, body: one.into() })));
                        }
                    }
                    index = index.saturating_add(1);
                }
                continue;
            }
            ItemBody::Reasoning(reasoning) => {
                let state = reasoning.native.clone().map(|native| ReasoningState { index, native });
                events.extend(state.map(TurnEvent::ReasoningState));
                events.push(TurnEvent::Reasoning(TextDelta { index, text: reasoning.text.clone() }));
            }
            ItemBody::ToolCall(call) => events.push(TurnEvent::Call(delta_of(index, call))),
            other => events.push(TurnEvent::Whole(Box::new(WholeItem { index, body: other.clone() }))),
        }
        index = index.saturating_add(1);
    }
    events.extend(turn.usage.map(TurnEvent::Usage));
    events.push(TurnEvent::Finished(TurnFinished {
        stop: turn.stop.clone(),
        provider_state: turn.provider_state.clone(),
        service_tier: turn.service_tier.clone(),
        native: turn.native.clone(),
    }));
    events
}

/// A finished turn as one response: what its stream would hold, put together.
#[must_use]
pub fn encode_response(head: &AnswerHead, turn: &Turn) -> Value {
    let mut encoder = encode_events(head.clone()).as_array();
    let mut out = Vec::new();
    for event in events_of(turn) {
        encoder.push(&event, &mut out);
    }
    encoder.end(&mut out);
    // It was written just now, so that it is JSON.
    let Ok(Value::Array(chunks)) = serde_json::from_slice::<Value>(&out) else { return Value::Null };
    let mut parts = Vec::new();
    let mut others = Vec::new();
    let mut last = Value::Null;
    for mut chunk in chunks {
        if chunk.pointer("/candidates/0/index").is_some_and(|index| *index != 0) {
            others.extend(chunk.pointer_mut("/candidates/0").map(Value::take));
            continue;
        }
        if let Some(Value::Array(more)) = chunk.pointer_mut("/candidates/0/content/parts").map(Value::take) {
            parts.extend(more);
        }
        last = chunk;
    }
    if parts.len() > 1 && parts.last() == Some(&json!({"text": ""})) {
        parts.pop();
    }
    if let Some(place) = last.pointer_mut("/candidates/0/content/parts") {
        *place = Value::Array(parts);
    }
    if let Some(Value::Array(candidates)) = last.get_mut("candidates") {
        candidates.append(&mut others);
    }
    last
}
