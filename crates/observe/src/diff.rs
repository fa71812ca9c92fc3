//! Where two runs part.

use crate::journal::Journal;
use placet_core::event::EventBody;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;

/// The first record in which two runs differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// The number of the record.
    pub number: u64,
    /// What the left run recorded there: the kind of its event; absent where it has no such record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_kind: Option<String>,
    /// What the right run recorded there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right_kind: Option<String>,
    /// The first place where the two events differ, as a JSON pointer; empty where they are of different kinds or one
    /// is missing.
    pub path: String,
    /// What the left event has at that place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Value>,
    /// What the right event has at that place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<Value>,
}

/// What two runs have in common, and where they part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// How many records are equal from the beginning.
    pub common: u64,
    /// The first record that is not; absent where the runs are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence: Option<Divergence>,
}

/// Compares two runs record by record.
///
/// What differs between any two runs is left out: ids (they are compared by the order of their first appearance), times,
/// how long things took, and the keys derived from ids.
#[must_use]
pub fn diff(left: &Journal, right: &Journal) -> Difference {
    let mut left_ids = Ids::default();
    let mut right_ids = Ids::default();
    let mut lefts = left.records().iter().map(|kept| &kept.record.event);
    let mut rights = right.records().iter().map(|kept| &kept.record.event);
    let mut common = 0;
    loop {
        let (one, other) = match (lefts.next(), rights.next()) {
            (None, None) => return Difference { common, divergence: None },
            pair => pair,
        };
        let left_value = one.map(|event| left_ids.comparable(event));
        let right_value = other.map(|event| right_ids.comparable(event));
        if left_value == right_value {
            common += 1;
            continue;
        }
        let kinds = (one.map(|event| event.kind().to_owned()), other.map(|event| event.kind().to_owned()));
        let (path, left, right) = match (left_value, right_value) {
            (Some(left), Some(right)) if kinds.0 == kinds.1 => first_difference(&left, &right),
            _ => (String::new(), None, None),
        };
        let (left_kind, right_kind) = kinds;
        let divergence = Divergence { number: common + 1, left_kind, right_kind, path, left, right };
        return Difference { common, divergence: Some(divergence) };
    }
}

/// Fields that differ between any two runs.
const PASSED_OVER: [&str; 4] = ["took_ms", "idempotency_key", "response_id", "token"];

/// Names ids by the order in which they come up.
#[derive(Default)]
struct Ids {
    names: HashMap<String, String>,
}

impl Ids {
    fn comparable(&mut self, event: &EventBody) -> Value {
        let mut value = serde_json::to_value(event).unwrap_or_default();
        self.rename(&mut value);
        value
    }

    fn rename(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(prefix) = id_prefix(text) {
                    let next = format!("{prefix}#{}", self.names.len() + 1);
                    let name = self.names.entry(std::mem::take(text)).or_insert(next);
                    text.clone_from(name);
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.rename(value)),
            Value::Object(map) => {
                map.retain(|field, _| !PASSED_OVER.contains(&field.as_str()));
                map.values_mut().for_each(|value| self.rename(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// The prefix of a text that is an id of our making.
fn id_prefix(text: &str) -> Option<&str> {
    let (prefix, digits) = text.split_once('_')?;
    let ours = matches!(prefix, "run" | "turn" | "call" | "item" | "art" | "appr" | "sess");
    (ours && digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(prefix)
}

/// The first place, in the order of the left value's fields, where two values differ.
fn first_difference(left: &Value, right: &Value) -> (String, Option<Value>, Option<Value>) {
    match (left, right) {
        (Value::Object(one), Value::Object(other)) => {
            let fields = one.keys().chain(other.keys().filter(|field| !one.contains_key(*field)));
            for field in fields {
                let (left, right) = (one.get(field), other.get(field));
                if left != right {
                    return below(&field.replace('~', "~0").replace('/', "~1"), left, right);
                }
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            for place in 0..one.len().max(other.len()) {
                let (left, right) = (one.get(place), other.get(place));
                if left != right {
                    return below(&place.to_string(), left, right);
                }
            }
        }
        _ => {}
    }
    (String::new(), Some(left.clone()), Some(right.clone()))
}

fn below(step: &str, left: Option<&Value>, right: Option<&Value>) -> (String, Option<Value>, Option<Value>) {
    match (left, right) {
        (Some(left), Some(right)) => {
            let (path, left, right) = first_difference(left, right);
            (format!("/{step}{path}"), left, right)
        }
        (left, right) => (format!("/{step}"), left.cloned(), right.cloned()),
    }
}
