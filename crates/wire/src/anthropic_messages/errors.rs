//! Errors in the protocol's own shape.

use crate::sse::{self, SseEvent};
use placet_core::{ErrorKind, ProviderError};
use serde_json::{Value, json};

/// The status and the protocol's type of each sort of error.
fn shape(kind: &ErrorKind) -> (u16, &'static str) {
    match kind {
        ErrorKind::InvalidRequest | ErrorKind::Unsupported | ErrorKind::ContextLength | ErrorKind::ContentFiltered => {
            (400, "invalid_request_error")
        }
        ErrorKind::Authentication => (401, "authentication_error"),
        ErrorKind::QuotaExhausted => (402, "billing_error"),
        ErrorKind::Permission => (403, "permission_error"),
        ErrorKind::NotFound => (404, "not_found_error"),
        ErrorKind::Conflict => (409, "invalid_request_error"),
        ErrorKind::RateLimited | ErrorKind::LimitReached => (429, "rate_limit_error"),
        ErrorKind::Timeout => (504, "timeout_error"),
        ErrorKind::Overloaded => (529, "overloaded_error"),
        _ => (500, "api_error"),
    }
}

/// An error as an answer: its status and its body. A status that the provider gave for the caller's own mistake stays.
#[must_use]
pub fn encode_error(error: &ProviderError) -> (u16, Value) {
    let (mut status, mut kind) = shape(&error.kind);
    if let Some(told) = error.status.filter(|told| (400..500).contains(told) && status == 400) {
        status = told;
    }
    if status == 413 {
        kind = "request_too_large";
    }
    // Clients make a conversation shorter when they read these words.
    const TOO_LONG: &str = "prompt is too long";
    let message = match error.kind {
        ErrorKind::ContextLength if !error.message.contains(TOO_LONG) => format!("{TOO_LONG}: {}", error.message),
        _ => error.message.clone(),
    };
    let request_id = error.request_id.as_deref();
    (status, json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}))
}

/// Appends an error to a stream that has begun. Nothing may follow it.
pub fn encode_error_event(error: &ProviderError, out: &mut Vec<u8>) {
    let data = encode_error(error).1.to_string();
    sse::encode(&SseEvent { event: Some("error".to_owned()), data, ..SseEvent::default() }, out);
}
