//! The envelope in which one provider's state travels through a client of another protocol.
//!
//! A client of protocol A sends back what stood in A's opaque field (a signature, encrypted content), without looking
//! into it. So the state of provider B is put there as a marked, base64-encoded text, and taken out again when the client
//! returns it. Nobody but us reads it; A's own servers are never sent one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use placet_core::part::Native;

/// What every envelope begins with. No provider's own value does.
pub(crate) const MARK: &str = "placet1.";

/// The envelope of some state.
#[must_use]
pub fn seal(native: &Native) -> String {
    // A `Native` always serialises: its value is JSON already.
    let text = serde_json::to_vec(native).unwrap_or_default();
    format!("{MARK}{}", URL_SAFE_NO_PAD.encode(text))
}

/// The state in an envelope; `None` where the text is none of ours, which is then a provider's own.
#[must_use]
pub fn open(text: &str) -> Option<Native> {
    let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(MARK)?).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Whether a text is one of our envelopes, sound or not. A provider is never sent one.
#[must_use]
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn state_comes_back_as_it_went() {
        let native = Native { provider: "google".into(), value: json!({"thoughtSignature": "äöü+/="}) };
        let sealed = seal(&native);
        assert!(is_sealed(&sealed));
        assert!(sealed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)));
        assert_eq!(open(&sealed), Some(native));
    }

    #[test]
    fn what_is_no_envelope_is_left_alone() {
        for text in ["", "EqQBCgIYAhIM", "placet1.", "placet1.!!", "placet1.aGVsbG8"] {
            assert_eq!(open(text), None, "{text}");
        }
    }
}
