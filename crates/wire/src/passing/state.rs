//! What of providers' own lies in bytes that are handed on.

use super::Speech;
use crate::envelope;
use memchr::memmem::{self, Finder};
use std::sync::LazyLock;

/// What the standard alphabet of base64 makes of the beginning of an envelope: clients of Gemini write signatures so.
const SEALED_IN_BASE64: &[u8] = b"cGxhY2V0MS";

/// Whether a request may hold state in an envelope of ours, which no provider is ever sent.
#[must_use]
pub fn holds_sealed(speech: Speech, body: &[u8]) -> bool {
    static MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(envelope::MARK));
    MARK.find(body).is_some() || (speech == Speech::Gemini && memmem::find(body, SEALED_IN_BASE64).is_some())
}

/// Whether a request may hold state that only the provider which wrote it understands.
#[must_use]
pub fn holds_native(speech: Speech, body: &[u8]) -> bool {
    let marks: &[&[u8]] = match speech {
        Speech::OpenaiChat => &[b"\"reasoning_details\"", b"\"thought_signature\"", b"\"signature\""],
        Speech::OpenaiResponses => &[b"\"encrypted_content\"", b"\"item_reference\""],
        Speech::AnthropicMessages => &[b"\"signature\"", b"\"redacted_thinking\"", b"\"encrypted_content\""],
        Speech::Gemini => &[b"\"thoughtSignature\"", b"\"thought_signature\""],
    };
    marks.iter().any(|mark| memmem::find(body, mark).is_some())
}

/// The id of an answer of the Responses protocol, from the beginning of its bytes: those of the body, or of the first event.
#[must_use]
pub fn response_id(beginning: &[u8]) -> Option<String> {
    const KEY: &[u8] = b"\"id\"";
    let rest = beginning.get(memmem::find(beginning, KEY)? + KEY.len()..)?;
    let value = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let id = std::str::from_utf8(value.get(..memchr::memchr(b'"', value)?)?).ok()?;
    let is_plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    (!id.is_empty() && id.len() <= 128 && is_plain).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use placet_core::part::Native;
    use serde_json::json;

    #[test]
    fn state_is_seen_wherever_it_may_be() {
        let sealed = envelope::seal(&Native { provider: "p".into(), value: json!({"a": 1}) });
        let body = json!({"messages": [{"signature": sealed}]}).to_string();
        assert!(holds_sealed(Speech::AnthropicMessages, body.as_bytes()));
        let packed = json!({"thoughtSignature": STANDARD.encode(&sealed)}).to_string();
        assert!(holds_sealed(Speech::Gemini, packed.as_bytes()));
        assert!(!holds_sealed(Speech::Gemini, br#"{"thoughtSignature":"AAAA"}"#));
        assert!(holds_native(Speech::Gemini, br#"{"thoughtSignature":"AAAA"}"#));
        assert!(!holds_native(Speech::OpenaiChat, br#"{"messages":[{"content":"a signature"}]}"#));
    }

    #[test]
    fn the_id_of_an_answer_is_found_in_its_beginning() {
        for (beginning, id) in [
            ("{\"id\": \"resp_1\", \"object", Some("resp_1")),
            ("event: response.created\ndata: {\"type\":\"x\",\"response\":{\"id\":\"resp_2\",\"in", Some("resp_2")),
            ("{\"id\":\"resp_", None),
            ("{\"id\":\"a/b\"}", None),
            ("{\"id\":7}", None),
            ("", None),
        ] {
            assert_eq!(response_id(beginning.as_bytes()).as_deref(), id, "{beginning}");
        }
    }
}
