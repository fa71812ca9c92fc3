//! Which headers carry credentials, and how headers are shown.

use http::{HeaderMap, HeaderName};
use std::fmt;

/// Whether a header of this name carries a credential.
///
/// `authorization`, `proxy-authorization`, `cookie`, `set-cookie`, and every name that holds `api-key`, `apikey`,
/// `access-key`, `subscription-key`, `authorization`, `secret`, `password` or `credential`, or ends with `token` or
/// `-auth`.
#[must_use]
pub fn is_sensitive_header(name: &HeaderName) -> bool {
    // Every header of every request and answer is asked about, so its name is gone through once, not once for each word.
    let name = name.as_str().as_bytes();
    let is_beginning = |(at, byte): (usize, &u8)| {
        let word: &[u8] = match byte {
            b'a' => return ANY_A.iter().any(|word| name[at..].starts_with(word)),
            b's' => return ANY_S.iter().any(|word| name[at..].starts_with(word)),
            b'p' => b"password",
            b'c' => b"credential",
            _ => return false,
        };
        name[at..].starts_with(word)
    };
    const ANY_A: [&[u8]; 4] = [b"api-key", b"apikey", b"access-key", b"authorization"];
    const ANY_S: [&[u8]; 2] = [b"secret", b"subscription-key"];
    matches!(name, b"cookie" | b"set-cookie")
        || name.ends_with(b"token")
        || name.ends_with(b"-auth")
        || name.iter().enumerate().any(is_beginning)
}

/// Marks the values of sensitive headers, so that their `Debug` form hides them and HTTP/2 does not index them.
pub fn mark_sensitive_headers(headers: &mut HeaderMap) {
    for (name, value) in headers.iter_mut() {
        if is_sensitive_header(name) {
            value.set_sensitive(true);
        }
    }
}

/// Shows headers one by one, with the values of sensitive ones masked, whether they were marked or not.
pub struct MaskedHeaders<'a>(pub &'a HeaderMap);

impl fmt::Debug for MaskedHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (name, value) in self.0 {
            if value.is_sensitive() || is_sensitive_header(name) {
                map.entry(&name.as_str(), &"***");
            } else {
                map.entry(&name.as_str(), value);
            }
        }
        map.finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use http::HeaderValue;

    #[test]
    fn credentials_are_known_by_their_headers() {
        for (name, sensitive) in [
            ("authorization", true),
            ("proxy-authorization", true),
            ("x-api-key", true),
            ("api-key", true),
            ("x-goog-api-key", true),
            ("cookie", true),
            ("set-cookie", true),
            ("x-amz-security-token", true),
            ("ocp-apim-subscription-key", true),
            ("helicone-auth", true),
            ("x-apikey", true),
            ("x-access-key-id", true),
            ("x-goog-authorization-extra", true),
            ("client-secret-hash", true),
            ("x-password", true),
            ("x-credentials", true),
            ("x-api-version", false),
            ("accept", false),
            ("x-secre", false),
            ("content-type", false),
            ("idempotency-key", false),
            ("x-ratelimit-remaining-tokens", false),
            ("anthropic-ratelimit-tokens-reset", false),
            ("x-request-id", false),
        ] {
            assert_eq!(is_sensitive_header(&HeaderName::from_static(name)), sensitive, "{name}");
        }
    }

    #[test]
    fn shown_headers_hide_credentials_even_unmarked() {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", HeaderValue::from_static("sk-live"));
        headers.insert("accept", HeaderValue::from_static("text/plain"));
        let shown = format!("{:?}", MaskedHeaders(&headers));
        assert!(!shown.contains("sk-live") && shown.contains("text/plain"), "{shown}");
        mark_sensitive_headers(&mut headers);
        assert!(!format!("{headers:?}").contains("sk-live"));
    }
}
