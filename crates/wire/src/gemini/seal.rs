//! State of other providers in this protocol's opaque field.
//!
//! Clients read a signature as bytes and write it in whichever alphabet of base64 they like; so the envelope is put into
//! base64 once more, and both alphabets are opened.

use crate::envelope;
use base64::Engine as _;
use base64::alphabet::{STANDARD as STANDARD_ALPHABET, URL_SAFE};
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use placet_core::part::Native;
use placet_core::{ItemBody, ProviderId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);

/// The key under which a whole item travels.
const ITEM: &str = "placet_item";

/// A signature that holds some other provider's state.
pub(super) fn seal(native: &Native) -> String {
    STANDARD.encode(envelope::seal(native))
}

/// A signature that holds an item which has no place of its own here.
pub(super) fn seal_item(body: &ItemBody) -> Option<String> {
    let provider = match body {
        ItemBody::HostedCall(call) => call.provider.clone(),
        ItemBody::Native(native) => native.provider.clone(),
        _ => ProviderId::new("placet"),
    };
    let value = serde_json::to_value(body).ok()?;
    Some(seal(&Native { provider, value: json!({ITEM: value}) }))
}

/// The key under which thinking travels with the call that it led to.
const THINKING: &str = "placet_thinking";

/// What a model thought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Thinking {
    #[serde(skip)]
    pub(super) index: u32,
    pub(super) text: String,
    /// The state that its provider knows it by.
    pub(super) native: Option<Native>,
}

/// What a call brings back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CarriedBack {
    /// What led to it.
    pub(super) thoughts: Vec<Thinking>,
    /// Its own state.
    pub(super) own: Option<Native>,
}

/// A signature of a call that holds thinking, if there is some.
pub(super) fn seal_call(carried: &CarriedBack) -> Option<String> {
    let provider = carried.thoughts.first()?.native.as_ref()?.provider.clone();
    let value = serde_json::to_value(carried).ok()?;
    Some(seal(&Native { provider, value: json!({THINKING: value}) }))
}

/// What some state of a call holds, where thinking is in it.
pub(super) fn carried_by(native: &Native) -> Option<CarriedBack> {
    let value = native.value.as_object().filter(|object| object.len() == 1)?.get(THINKING)?;
    CarriedBack::deserialize(value).ok()
}

/// How every signature of ours begins, in both alphabets.
const MARK: &str = "cGxhY2V0MS";

/// Whether a signature is one of ours, sound or not. The provider is never sent one.
pub(super) fn is_sealed(signature: &str) -> bool {
    signature.starts_with(MARK)
}

/// What a signature of ours holds; `None` where it is a provider's own.
pub(crate) fn open(signature: &str) -> Option<Native> {
    if !is_sealed(signature) {
        return None;
    }
    let alphabet = if signature.contains(['-', '_']) { &URL_SAFE } else { &STANDARD_ALPHABET };
    let bytes = GeneralPurpose::new(alphabet, LENIENT).decode(signature).ok()?;
    envelope::open(std::str::from_utf8(&bytes).ok()?)
}

/// The item that some state is, where it is one.
pub(super) fn item_of(native: &Native) -> Option<ItemBody> {
    let value = native.value.as_object().filter(|object| object.len() == 1)?.get(ITEM)?;
    serde_json::from_value::<ItemBody>(Value::clone(value)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_are_opened() {
        let native = Native { provider: "anthropic".into(), value: json!({"signature": "äöü+/=~~~???>>>"}) };
        let sealed = seal(&native);
        let other = sealed.replace('+', "-").replace('/', "_");
        for text in [sealed.as_str(), other.as_str(), other.trim_end_matches('=')] {
            assert_eq!(open(text).as_ref(), Some(&native), "{text}");
        }
        assert_eq!(open("EpwICpkIAXLI2nxl/+=="), None);
    }
}
