//! What an answer holds that this protocol has no field for, on its way through a client.
//!
//! State of another provider, hosted calls and the order of thinking, texts and calls travel in one sealed text at the end of
//! `reasoning_details`, which clients send back as they got it. It lists the places of the answer in their order; texts and
//! calls are named by their length and id, because they stand in the message itself.

use crate::envelope::{open, seal};
use placet_core::ItemBody;
use placet_core::part::Native;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Whose envelope it is: it holds the state of others.
const OURS: &str = "placet";

/// One place of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    /// Thinking, whole.
    Reasoning(String, Option<Native>),
    /// Text of so many bytes.
    Text(usize, Option<Native>),
    /// A refusal of so many bytes.
    Refusal(usize),
    /// The call with this id.
    Call(String, Option<Native>),
    /// Something whole.
    Whole(Box<ItemBody>),
}

/// The detail that holds the places.
pub(super) fn sealed(places: &[Place]) -> Value {
    let native = Native { provider: OURS.into(), value: json!({ "places": places }) };
    json!({"type": "reasoning.encrypted", "format": OURS, "index": 0, "data": seal(&native)})
}

/// The places that a detail holds; `None` where it is a provider's own.
pub(super) fn opened(detail: &Value) -> Option<Vec<Place>> {
    let native = open(detail.get("data")?.as_str()?)?;
    if native.provider.as_str() != OURS {
        return None;
    }
    Vec::deserialize(native.value.get("places")?).ok()
}
