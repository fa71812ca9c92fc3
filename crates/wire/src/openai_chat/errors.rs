//! Errors in the words of this protocol.

use placet_core::{ErrorKind, ProviderError};
use serde_json::{Value, json};

/// The status and body that tell a client of an error. `code` is always a text: there are clients that show no message
/// else.
#[must_use]
pub fn encode_error(error: &ProviderError) -> (u16, Value) {
    let (status, kind, code) = words(&error.kind);
    let status = error.status.filter(|status| (400..600).contains(status)).unwrap_or(status);
    let own = error.code.as_deref();
    let code = match error.kind {
        // More than models can be missing.
        ErrorKind::NotFound => own.or(code),
        _ => code.or(own),
    };
    let code = code.unwrap_or("invalid_request");
    let body = json!({"error": {"message": error.message, "type": kind, "param": null, "code": code}});
    (status, body)
}

/// Appends the event that ends a stream with an error. Nothing follows it.
pub fn encode_error_event(error: &ProviderError, out: &mut Vec<u8>) {
    let (_, body) = encode_error(error);
    crate::sse::encode_data(out, |out| out.extend_from_slice(body.to_string().as_bytes()));
}

/// The status, type and code of a kind. The type or code alone, as it stands in a stream, says the kind again.
fn words(kind: &ErrorKind) -> (u16, &'static str, Option<&'static str>) {
    match kind {
        ErrorKind::InvalidRequest => (400, "invalid_request_error", None),
        ErrorKind::Authentication => (401, "authentication_error", Some("invalid_api_key")),
        ErrorKind::Permission => (403, "permission_error", Some("permission_denied")),
        ErrorKind::NotFound => (404, "invalid_request_error", Some("model_not_found")),
        ErrorKind::Conflict => (409, "invalid_request_error", Some("conflict")),
        ErrorKind::RateLimited => (429, "rate_limit_error", Some("rate_limit_exceeded")),
        ErrorKind::QuotaExhausted => (429, "insufficient_quota", Some("insufficient_quota")),
        ErrorKind::LimitReached => (429, "insufficient_quota", Some("limit_reached")),
        ErrorKind::Overloaded => (503, "overloaded_error", Some("overloaded")),
        ErrorKind::Timeout => (504, "timeout_error", Some("timeout_error")),
        ErrorKind::Network | ErrorKind::Interrupted | ErrorKind::Protocol | ErrorKind::Unavailable => {
            (502, "server_error", Some("upstream_error"))
        }
        ErrorKind::Cancelled => (499, "server_error", Some("cancelled")),
        ErrorKind::Unsupported => (400, "invalid_request_error", Some("unsupported_value")),
        ErrorKind::ContextLength => (400, "invalid_request_error", Some("context_length_exceeded")),
        ErrorKind::ContentFiltered => (400, "invalid_request_error", Some("content_filter")),
        _ => (500, "server_error", Some("internal_error")),
    }
}
