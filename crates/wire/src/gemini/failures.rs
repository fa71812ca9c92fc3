//! Errors in this protocol's shape.

use placet_core::{ErrorKind, ProviderError, ProviderId};
use serde_json::{Value, json};

/// The status and the word for it that a kind of error has here.
fn status_of(kind: &ErrorKind) -> (u16, &'static str) {
    match kind {
        ErrorKind::InvalidRequest
        | ErrorKind::Unsupported
        | ErrorKind::ContextLength
        | ErrorKind::ContentFiltered
        | ErrorKind::Wiring => (400, "INVALID_ARGUMENT"),
        ErrorKind::Authentication => (401, "UNAUTHENTICATED"),
        ErrorKind::Permission => (403, "PERMISSION_DENIED"),
        ErrorKind::NotFound => (404, "NOT_FOUND"),
        ErrorKind::Conflict => (409, "ABORTED"),
        ErrorKind::RateLimited | ErrorKind::QuotaExhausted | ErrorKind::LimitReached => (429, "RESOURCE_EXHAUSTED"),
        ErrorKind::Cancelled => (499, "CANCELLED"),
        ErrorKind::Timeout => (504, "DEADLINE_EXCEEDED"),
        ErrorKind::Overloaded | ErrorKind::Unavailable | ErrorKind::Network | ErrorKind::Interrupted => {
            (503, "UNAVAILABLE")
        }
        _ => (500, "INTERNAL"),
    }
}

/// An error as a client of this protocol reads it: its status and its body. How long to wait, and the kind in our words, stand
/// among its details.
#[must_use]
pub fn encode_error(error: &ProviderError) -> (u16, Value) {
    let (status, word) = status_of(&error.kind);
    let status = error.status.filter(|status| (400..600).contains(status)).unwrap_or(status);
    let mut details = vec![json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": error.kind.as_str().to_ascii_uppercase(),
        "domain": "placet",
    })];
    if let Some(wait) = error.retry_after_ms {
        #[expect(clippy::cast_precision_loss, reason = "a wait of so many milliseconds is never over")]
        let seconds = wait as f64 / 1000.0;
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{seconds}s"),
        }));
    }
    (status, json!({"error": {"code": status, "message": error.message, "status": word, "details": details}}))
}

/// Appends an error to a stream of server-sent events that has begun.
pub fn encode_error_event(error: &ProviderError, out: &mut Vec<u8>) {
    let (_, data) = encode_error(error);
    crate::sse::encode(&crate::sse::SseEvent { data: data.to_string(), ..Default::default() }, out);
}

/// What is told where an answer ended without its end.
pub(super) fn error_of_end(provider: &ProviderId) -> ProviderError {
    ProviderError::new(
        ErrorKind::Interrupted,
        provider.clone(),
        "the answer ended before its end marker; what arrived is partial",
    )
}
