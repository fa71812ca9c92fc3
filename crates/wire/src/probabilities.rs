//! How likely the pieces of an answer were, in the words of the three protocols that tell it.
//!
//! Both of OpenAI's have one form for a piece: `{token, bytes, logprob, top_logprobs}`. In one of them the list stands at a text, in the
//! other at the end of the answer, as it does in Gemini's, where the chosen pieces and those that were likely stand apart.

use placet_core::part::Native;
use placet_core::{ItemBody, Part, ProviderId, Turn, TurnEvent};
use serde_json::{Map, Value, json};

/// What another provider's state of a text says, in OpenAI's form.
pub(crate) fn of_text(state: &Value) -> &[Value] {
    state.get("logprobs").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What another provider's state of a whole answer says, in OpenAI's form.
pub(crate) fn of_end(state: &Value) -> Vec<Value> {
    if let Some(list) = state.pointer("/choices/0/logprobs/content").and_then(Value::as_array) {
        return list.clone();
    }
    let Some(result) = state.pointer("/candidate/logprobsResult") else { return Vec::new() };
    let list = |key: &str| result.get(key).and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    let piece = |candidate: &Value| {
        let token = candidate["token"].as_str().unwrap_or_default();
        let logprob = candidate.get("logProbability").cloned().unwrap_or_else(|| json!(0));
        json!({"token": token, "bytes": token.as_bytes(), "logprob": logprob})
    };
    let likely = list("topCandidates");
    let pieces = list("chosenCandidates").iter().enumerate().map(|(at, chosen)| {
        let mut form = piece(chosen);
        let likely = likely.get(at).and_then(|likely| likely["candidates"].as_array());
        form["top_logprobs"] = likely.into_iter().flatten().map(piece).collect();
        form
    });
    pieces.collect()
}

/// Pieces as a result of Gemini's.
pub(crate) fn as_result(pieces: &[Value]) -> Value {
    let candidate = |piece: &Value| json!({"token": piece["token"], "logProbability": piece["logprob"]});
    let likely = pieces.iter().map(|piece| {
        let list = piece["top_logprobs"].as_array();
        json!({"candidates": list.into_iter().flatten().map(candidate).collect::<Vec<_>>()})
    });
    let mut result = Map::new();
    result.insert("chosenCandidates".to_owned(), pieces.iter().map(candidate).collect());
    if pieces.iter().any(|piece| piece["top_logprobs"].as_array().is_some_and(|list| !list.is_empty())) {
        result.insert("topCandidates".to_owned(), likely.collect());
    }
    result.into()
}

/// A piece as Responses has it, where the bytes and the likely ones are never missing.
pub(crate) fn in_full(piece: &Value) -> Value {
    let mut piece = piece.clone();
    let bytes = |piece: &mut Value| {
        if !piece["bytes"].is_array() {
            piece["bytes"] = json!(piece["token"].as_str().unwrap_or_default().as_bytes());
        }
    };
    if !piece.is_object() {
        return piece;
    }
    bytes(&mut piece);
    if !piece["top_logprobs"].is_array() {
        piece["top_logprobs"] = json!([]);
    }
    piece["top_logprobs"].as_array_mut().into_iter().flatten().filter(|likely| likely.is_object()).for_each(bytes);
    piece
}

/// How much text a piece stands for, in bytes.
pub(crate) fn length(piece: &Value) -> usize {
    piece["bytes"].as_array().map(Vec::len).or(piece["token"].as_str().map(str::len)).unwrap_or_default()
}

/// What an answer tells of its pieces in the words of others.
#[derive(Debug, Default)]
pub(crate) struct Pieces(pub(crate) Vec<Value>);

impl Pieces {
    /// Takes in one event of the answer. State of `own` is told in its own words by whoever writes it.
    pub(crate) fn note(&mut self, event: &TurnEvent, own: &ProviderId) {
        let foreign = |native: &Native| native.provider != *own;
        match event {
            TurnEvent::TextState(state) if foreign(&state.native) => {
                self.0.extend_from_slice(of_text(&state.native.value));
            }
            TurnEvent::Whole(whole) => self.item(&whole.body, foreign),
            TurnEvent::Finished(finished) => {
                let native = finished.native.as_ref().filter(|native| foreign(native));
                self.0.extend(native.map(|native| of_end(&native.value)).unwrap_or_default());
            }
            _ => {}
        }
    }

    fn item(&mut self, body: &ItemBody, is_told: impl Fn(&Native) -> bool) {
        let ItemBody::Message(message) = body else { return };
        for part in &message.parts {
            if let Part::Text(text) = part
                && let Some(native) = text.native.as_ref().filter(|native| is_told(native))
            {
                self.0.extend_from_slice(of_text(&native.value));
            }
        }
    }

    /// All that a turn tells, whoever says it.
    pub(crate) fn of(turn: &Turn) -> Self {
        let mut pieces = Pieces::default();
        turn.items.iter().for_each(|item| pieces.item(&item.body, |_| true));
        pieces.0.extend(turn.native.as_ref().map(|native| of_end(&native.value)).unwrap_or_default());
        pieces
    }

    /// The pieces as Chat has them; none where there are none.
    pub(crate) fn in_chat(&self) -> Option<Value> {
        (!self.0.is_empty()).then(|| json!({"content": self.0, "refusal": null}))
    }
}

/// The state of a whole answer but for what is told of its pieces.
pub(crate) fn without(state: &Value) -> Value {
    let mut state = state.clone();
    for (outer, inner, key) in [("choices", "/choices/0", "logprobs"), ("candidate", "/candidate", "logprobsResult")] {
        let Some(fields) = state.pointer_mut(inner).and_then(Value::as_object_mut) else { continue };
        if fields.shift_remove(key).is_some() && fields.is_empty() {
            state.as_object_mut().map(|state| state.shift_remove(outer));
        }
    }
    state
}
