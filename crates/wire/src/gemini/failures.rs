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

/// The word that goes with a status: clients hold the one against the other.
fn word_of(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        409 => "ABORTED",
        412 => "FAILED_PRECONDITION",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        501 => "UNIMPLEMENTED",
        502 | 503 | 529 => "UNAVAILABLE",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    }
}

/// An error as a client of this protocol reads it: its status and its body. How long to wait, and the kind in our words, stand
/// among its details.
#[must_use]
pub fn encode_error(error: &ProviderError) -> (u16, Value) {
    let (usual, word) = status_of(&error.kind);
    let status = error.status.filter(|status| (400..600).contains(status)).unwrap_or(usual);
    let word = if status == usual { word } else { word_of(status) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_goes_with_the_status() {
        for (kind, status, wanted) in [
            (ErrorKind::Permission, 421, "INVALID_ARGUMENT"),
            (ErrorKind::InvalidRequest, 413, "INVALID_ARGUMENT"),
            (ErrorKind::InvalidRequest, 415, "INVALID_ARGUMENT"),
            (ErrorKind::InvalidRequest, 405, "INVALID_ARGUMENT"),
            (ErrorKind::NotFound, 404, "NOT_FOUND"),
            (ErrorKind::Network, 502, "UNAVAILABLE"),
            (ErrorKind::Unavailable, 500, "INTERNAL"),
            (ErrorKind::Overloaded, 529, "UNAVAILABLE"),
            (ErrorKind::LimitReached, 400, "INVALID_ARGUMENT"),
            (ErrorKind::LimitReached, 429, "RESOURCE_EXHAUSTED"),
        ] {
            let mut error = ProviderError::new(kind, ProviderId::new("p"), "no");
            error.status = Some(status);
            let (told, body) = encode_error(&error);
            assert_eq!(
                (told, &body["error"]["code"], &body["error"]["status"]),
                (status, &json!(status), &json!(wanted))
            );
        }
    }
}
