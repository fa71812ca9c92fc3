//! Other providers' state on its way through a client of this protocol.
//!
//! State of thinking travels in the thinking's `signature`. What else has state (a call, a text, a whole item) has no opaque field
//! here, so a `redacted_thinking` block beside it carries the state, and says in the envelope what it belongs to.

use crate::envelope;
use placet_core::ItemBody;
use placet_core::part::Native;
use serde_json::{Value, json};

/// What the state in a `redacted_thinking` block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The call after it.
    NextCall,
    /// The last call before it.
    Call,
    /// The last text before it.
    Text,
    /// The text after it. There are clients for whom an answer is what its last block says, so state stands in front of a text
    /// wherever it is known by then.
    NextText,
    /// The last thinking before it that has none.
    Reasoning,
}

impl Owner {
    fn word(self) -> &'static str {
        match self {
            Owner::NextCall => "next_call",
            Owner::Call => "call",
            Owner::Text => "text",
            Owner::NextText => "next_text",
            Owner::Reasoning => "reasoning",
        }
    }
}

/// What a `redacted_thinking` block of ours held.
#[derive(Debug, PartialEq)]
pub(super) enum Opened {
    /// State of something beside it.
    Of(Owner, Native),
    /// Something whole.
    Item(Box<ItemBody>),
}

/// The `data` of a block that carries state of something beside it.
pub(super) fn seal(owner: Owner, native: &Native) -> String {
    let value = json!({"of": owner.word(), "value": native.value});
    envelope::seal(&Native { provider: native.provider.clone(), value })
}

/// The `data` of a block that carries an item as a whole.
pub(super) fn seal_item(provider: &placet_core::ProviderId, body: &ItemBody) -> String {
    let value = json!({"of": "item", "value": body});
    envelope::seal(&Native { provider: provider.clone(), value })
}

/// What the `data` of a block holds; `None` where it is none of ours.
pub(super) fn open(data: &str) -> Option<Opened> {
    let Native { provider, mut value } = envelope::open(data)?;
    let of = value.get("of").and_then(Value::as_str).unwrap_or_default();
    let owners = [Owner::NextCall, Owner::Call, Owner::Text, Owner::NextText, Owner::Reasoning];
    let owner = owners.into_iter().find(|owner| owner.word() == of);
    let is_item = of == "item";
    let inner = value.get_mut("value").map(Value::take).unwrap_or_default();
    match owner {
        Some(owner) => Some(Opened::Of(owner, Native { provider, value: inner })),
        None if is_item => serde_json::from_value(inner).ok().map(|body| Opened::Item(Box::new(body))),
        None => None,
    }
}

/// Whether a block of a conversation holds an envelope of ours, which no provider is ever sent.
pub(super) fn is_sealed_block(block: &Value) -> bool {
    let field = match block.get("type").and_then(Value::as_str) {
        Some("thinking") => "signature",
        Some("redacted_thinking") => "data",
        _ => return false,
    };
    block.get(field).and_then(Value::as_str).is_some_and(envelope::is_sealed)
}
