//! Which headers go on, in both directions.

use crate::account::Account;
use http::header::{
    ACCEPT_ENCODING, ALT_SVC, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, FORWARDED, HOST, ORIGIN, REFERER,
    STRICT_TRANSPORT_SECURITY, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use placet_net::is_sensitive_header;

pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Headers of a request that mean this connection, this gateway or its key, and not the model.
fn stays_here(name: &HeaderName) -> bool {
    if *name == HOST
        || *name == CONNECTION
        || *name == CONTENT_LENGTH
        || *name == TRANSFER_ENCODING
        || *name == ACCEPT_ENCODING
        || *name == CONTENT_ENCODING
        || *name == EXPECT
        || *name == TE
        || *name == TRAILER
        || *name == UPGRADE
        || *name == FORWARDED
        || *name == VIA
        || *name == ORIGIN
        || *name == REFERER
    {
        return true;
    }
    let name = name.as_str();
    matches!(name, "keep-alive" | "proxy-connection" | "openai-organization" | "openai-project" | "x-real-ip")
        || name.starts_with("x-placet-")
        || name.starts_with("x-forwarded-")
        || name.starts_with("sec-")
}

/// The head of a request as a provider is sent it, before the provider's own credential is put in. Usage is read from the
/// answer as it passes, so it must not be packed.
pub(crate) fn request_headers(headers: HeaderMap, account: &Account) -> HeaderMap {
    let mut headers = passed_headers(headers);
    if let Some(trace) = &account.trace {
        // The trace goes on, and what comes after us is a part of our part.
        let flags = headers
            .get(TRACEPARENT)
            .and_then(|value| value.to_str().ok()?.rsplit('-').next().map(str::to_owned))
            .unwrap_or_else(|| "01".to_owned());
        if let Ok(value) = HeaderValue::try_from(format!("00-{trace}-{}-{flags}", account.id.span())) {
            headers.insert(TRACEPARENT, value);
        }
    } else {
        headers.remove(TRACEPARENT);
    }
    headers
}

/// What of a client's head may go on at all.
pub(crate) fn passed_headers(mut headers: HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = connection_names(&headers);
    let drop: Vec<HeaderName> =
        headers.keys().filter(|name| stays_here(name) || is_sensitive_header(name)).cloned().collect();
    for name in drop.iter().chain(&named) {
        headers.remove(name);
    }
    headers
}

/// Names in `connection`, which mean this connection too.
fn connection_names(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        .collect()
}

/// The trace that a request belongs to: 32 hexadecimal digits, if it names one rightly.
pub(crate) fn trace(headers: &HeaderMap) -> Option<Box<str>> {
    let value = headers.get(TRACEPARENT)?.to_str().ok()?;
    let mut fields = value.split('-');
    let (version, trace, parent, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_set = |text: &str| text.bytes().any(|byte| byte != b'0');
    let is_right = is_hex(version, 2)
        && version != "ff"
        && is_hex(trace, 32)
        && is_set(trace)
        && is_hex(parent, 16)
        && is_set(parent)
        && is_hex(flags, 2);
    is_right.then(|| trace.into())
}

/// The head of an answer as the client is sent it. `changes_length`: the body is not the provider's to the byte.
pub(crate) fn answer_headers(mut headers: HeaderMap, changes_length: bool) -> HeaderMap {
    let named = connection_names(&headers);
    let is_private = |name: &HeaderName| {
        if *name == CONNECTION
            || *name == TRANSFER_ENCODING
            || *name == TRAILER
            || *name == UPGRADE
            || *name == ALT_SVC
            || *name == STRICT_TRANSPORT_SECURITY
            || *name == VIA
            || (*name == CONTENT_LENGTH && changes_length)
            || named.contains(name)
        {
            return true;
        }
        let name = name.as_str();
        matches!(
            name,
            "keep-alive"
                | "proxy-connection"
                | "proxy-authenticate"
                | "openai-organization"
                | "openai-project"
                | "anthropic-organization-id"
                | "server"
                | "location"
                | "content-location"
                | "x-served-by"
                | "x-backend"
                | "x-backend-server"
                | "x-powered-by"
                | "x-upstream"
                | "x-upstream-host"
        ) || name.starts_with("x-placet-")
            || name.starts_with("access-control-")
            || name.starts_with("cf-")
            || name.starts_with("x-envoy-")
    };
    let drop: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_private(name) || (is_sensitive_header(name) && !name.as_str().contains("ratelimit")))
        .cloned()
        .collect();
    for name in drop {
        headers.remove(&name);
    }
    headers
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_trace_is_only_taken_where_it_is_one() {
        let trace_of = |value: &'static str| trace(&map(&[("traceparent", value)]));
        let id = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(trace_of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").as_deref(), Some(id));
        for wrong in [
            "",
            "00-x-y-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(trace_of(wrong), None);
        }
    }

    #[test]
    fn what_clients_read_comes_back_and_what_is_private_does_not() {
        let headers = answer_headers(
            map(&[
                ("x-request-id", "r"),
                ("retry-after", "1"),
                ("anthropic-ratelimit-tokens-remaining", "5"),
                ("x-ratelimit-limit-tokens", "5"),
                ("content-length", "5"),
                ("set-cookie", "a=b"),
                ("connection", "close, x-hop"),
                ("x-hop", "1"),
                ("proxy-authenticate", "Basic"),
                ("x-upstream-host", "10.0.0.5:3000"),
                ("x-envoy-upstream-service-time", "3"),
                ("transfer-encoding", "chunked"),
                ("openai-organization", "acme"),
                ("access-control-allow-origin", "*"),
                ("alt-svc", "h3"),
                ("x-placet-route", "forged"),
            ]),
            false,
        );
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let wanted = [
            "anthropic-ratelimit-tokens-remaining",
            "content-length",
            "retry-after",
            "x-ratelimit-limit-tokens",
            "x-request-id",
        ];
        assert_eq!(names, wanted);
    }
}
