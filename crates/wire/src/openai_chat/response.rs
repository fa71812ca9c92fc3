//! A finished turn as a body that comes whole: the fold of its own stream.

use super::events::EventEncoder;
use super::usage::usage_form;
use crate::answer::events_of;
use crate::request::AnswerHead;
use placet_core::Turn;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// The body of an answer.
#[must_use]
pub fn encode_response(head: &AnswerHead, turn: &Turn) -> Value {
    let mut encoder = EventEncoder::bare(AnswerHead { stream_usage: true, ..head.clone() });
    let mut bytes = Vec::with_capacity(1024);
    for event in events_of(turn) {
        encoder.push(&event, &mut bytes);
    }
    encoder.end(&mut bytes);
    let mut body = Map::from_iter([
        ("id".to_owned(), head.id.as_str().into()),
        ("object".to_owned(), "chat.completion".into()),
        ("created".to_owned(), head.created.into()),
        ("model".to_owned(), head.model.as_str().into()),
        // Where every server has it.
        ("choices".to_owned(), Value::Null),
    ]);
    let mut message = json!({"role": "assistant", "content": null, "refusal": null});
    let mut choice = Map::new();
    let mut others = Vec::new();
    let mut calls = HashMap::new();
    // Each event is one line, which JSON has no break in.
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data: "));
    for chunk in lines.filter_map(|line| serde_json::from_slice::<Map<String, Value>>(line).ok()) {
        for (key, value) in chunk {
            match (key.as_str(), value) {
                ("choices", Value::Array(choices)) => {
                    for piece in choices {
                        if piece["index"] == 0 {
                            fold(piece, &mut choice, &mut message, &mut calls);
                        } else {
                            others.push(whole(piece));
                        }
                    }
                }
                ("object", _) => {}
                (_, value) => {
                    body.insert(key, value);
                }
            }
        }
    }
    for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
        if let Some(call) = call.as_object_mut() {
            call.shift_remove("index");
        }
    }
    choice.insert("message".into(), message);
    choice.entry("logprobs").or_insert(Value::Null);
    let mut choices = vec![Value::Object(choice)];
    choices.append(&mut others);
    body.insert("choices".into(), choices.into());
    body.entry("usage").or_insert_with(|| usage_form(&turn.usage.unwrap_or_default()));
    body.into()
}

/// Puts a piece of the choice to what came before. `calls` tells where the call of a number stands.
fn fold(piece: Value, choice: &mut Map<String, Value>, message: &mut Value, calls: &mut HashMap<u64, usize>) {
    let Value::Object(piece) = piece else { return };
    for (key, value) in piece {
        let Value::Object(delta) = value else {
            choice.insert(key, value);
            continue;
        };
        if key != "delta" {
            choice.insert(key, delta.into());
            continue;
        }
        for (key, value) in delta {
            match (key.as_str(), value, &mut message[&key]) {
                ("role", ..) => {}
                ("content", Value::String(piece), Value::Null) if piece.is_empty() => {}
                ("tool_calls", Value::Array(pieces), known) => {
                    if known.is_null() {
                        *known = json!([]);
                    }
                    pieces.into_iter().for_each(|piece| fold_call(piece, known, calls));
                }
                (_, Value::String(piece), Value::String(known)) => known.push_str(&piece),
                (_, Value::Array(more), Value::Array(known)) => known.extend(more),
                (_, value, known) => *known = value,
            }
        }
    }
}

fn fold_call(piece: Value, calls: &mut Value, places: &mut HashMap<u64, usize>) {
    let (Value::Array(calls), Some(number)) = (calls, piece["index"].as_u64()) else { return };
    let place = *places.entry(number).or_insert(calls.len());
    let Some(known) = calls.get_mut(place) else {
        calls.push(piece);
        return;
    };
    let (Value::Object(known), Value::Object(piece)) = (known, piece) else { return };
    for (key, value) in piece {
        let inner = match key.as_str() {
            "function" => Some("arguments"),
            "custom" => Some("input"),
            _ => None,
        };
        match inner.map(|inner| (&mut known[&key][inner], value[inner].as_str())) {
            Some((Value::String(text), Some(piece))) => text.push_str(piece),
            _ => {
                known.insert(key, value);
            }
        }
    }
}

/// A further choice, which comes in one piece.
fn whole(mut piece: Value) -> Value {
    let mut message = piece["delta"].take();
    message["role"] = "assistant".into();
    for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
        if let Some(call) = call.as_object_mut() {
            call.shift_remove("index");
        }
    }
    let mut fields = piece.as_object().cloned().unwrap_or_default();
    fields.shift_remove("delta");
    fields.insert("message".into(), message);
    fields.insert("logprobs".into(), Value::Null);
    fields.into()
}
