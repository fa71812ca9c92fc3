//! Errors, for clients of this protocol.

use super::write::{self, Object};
use crate::sse;
use placet_core::{ErrorKind, ProviderError};
use serde_json::{Value, json};

/// An error as the status and body of an answer. `code` is always a text: there are clients that show no message else.
#[must_use]
pub fn encode_error(error: &ProviderError) -> (u16, Value) {
    let (status, kind, code) = words(&error.kind);
    let status = error.status.filter(|status| (400..600).contains(status)).unwrap_or(status);
    // More than models can be missing, and more than the prompt be wrong.
    let is_broad = matches!(error.kind, ErrorKind::NotFound | ErrorKind::InvalidRequest);
    let code = error.code.as_deref().filter(|_| is_broad).unwrap_or(code);
    let body = json!({"message": message(error), "type": kind, "param": null, "code": code});
    (status, json!({ "error": body }))
}

/// An error as an event of a stream in which nothing else has been said.
pub fn encode_error_event(error: &ProviderError, out: &mut Vec<u8>) {
    sse::encode_named_data("error", out, |out| {
        let mut object = Object::new(out);
        object.field("type", "error");
        object.field("sequence_number", &0);
        object.field("code", code(error));
        object.field("message", &message(error));
        object.field("param", &Value::Null);
        object.end();
    });
}

/// An error as the event that ends a stream which broke off after it had begun, where nothing is known of what has been said.
/// `id` is what the answer goes by.
pub fn encode_failed_event(id: &str, error: &ProviderError, out: &mut Vec<u8>) {
    sse::encode_named_data("response.failed", out, |out| {
        let event = json!({
            "type": "response.failed", "sequence_number": 0,
            "response": {
                "id": id, "object": "response", "created_at": 0, "status": "failed",
                "error": {"code": response_code(error), "message": message(error)}, "incomplete_details": null,
                "instructions": null, "metadata": {}, "model": "", "output": [], "parallel_tool_calls": true,
                "temperature": null, "tool_choice": "auto", "tools": [], "top_p": null, "usage": null,
            },
        });
        write::value(out, &event);
    });
}

/// As [`encode_failed_event`], where the answer has told its head: `response` is what it said of itself at its beginning, and
/// `sequence_number` what its next event is counted as.
pub fn encode_failed_after(response: &Value, sequence_number: u64, error: &ProviderError, out: &mut Vec<u8>) {
    let mut response = response.clone();
    if let Some(fields) = response.as_object_mut() {
        fields.insert("status".to_owned(), "failed".into());
        fields.insert("error".to_owned(), json!({"code": code(error), "message": message(error)}));
    }
    sse::encode_named_data("response.failed", out, |out| {
        let event = json!({"type": "response.failed", "sequence_number": sequence_number, "response": response});
        write::value(out, &event);
    });
}

/// The error of an answer that failed.
pub(super) fn response_error(error: &ProviderError) -> Vec<u8> {
    let mut out = Vec::new();
    write::value(&mut out, &json!({"code": response_code(error), "message": message(error)}));
    out
}

/// The word that clients know an error by.
fn code(error: &ProviderError) -> &'static str {
    words(&error.kind).2
}

/// The word for an error within an answer, where the protocol knows fewer. Some that it does not list its provider sends all the
/// same, and clients go by them: they make a conversation shorter, wait, or give up.
fn response_code(error: &ProviderError) -> &'static str {
    match error.kind {
        ErrorKind::InvalidRequest
        | ErrorKind::Unsupported
        | ErrorKind::ContentFiltered
        | ErrorKind::Authentication
        | ErrorKind::Permission
        | ErrorKind::NotFound
        | ErrorKind::Conflict => "invalid_prompt",
        ErrorKind::RateLimited | ErrorKind::LimitReached => "rate_limit_exceeded",
        ErrorKind::ContextLength | ErrorKind::QuotaExhausted | ErrorKind::Overloaded => code(error),
        _ => "server_error",
    }
}

/// What it says and, where the other side asks to wait, how long: clients read it there.
fn message(error: &ProviderError) -> String {
    match error.retry_after() {
        Some(wait) if !error.message.to_ascii_lowercase().contains("try again in") => {
            // What says so in general says it better so.
            let said = ["; try again later", "; try again", " Please try again."];
            let said = said.iter().find_map(|end| error.message.strip_suffix(end)).unwrap_or(&error.message);
            let stop = if said.ends_with(['.', '!', '?']) { "" } else { "." };
            format!("{said}{stop} Please try again in {}s.", wait.as_secs_f64())
        }
        _ => error.message.clone(),
    }
}

/// The status, type and code of a kind of error.
fn words(kind: &ErrorKind) -> (u16, &'static str, &'static str) {
    match kind {
        ErrorKind::InvalidRequest => (400, "invalid_request_error", "invalid_prompt"),
        ErrorKind::Unsupported => (400, "invalid_request_error", "unsupported_value"),
        ErrorKind::ContextLength => (400, "invalid_request_error", "context_length_exceeded"),
        ErrorKind::ContentFiltered => (400, "invalid_request_error", "content_filter"),
        ErrorKind::Authentication => (401, "invalid_request_error", "invalid_api_key"),
        ErrorKind::Permission => (403, "invalid_request_error", "permission_denied"),
        ErrorKind::NotFound => (404, "invalid_request_error", "model_not_found"),
        ErrorKind::Conflict => (409, "invalid_request_error", "conflict"),
        ErrorKind::RateLimited => (429, "rate_limit_error", "rate_limit_exceeded"),
        ErrorKind::QuotaExhausted => (429, "insufficient_quota", "insufficient_quota"),
        ErrorKind::LimitReached => (429, "rate_limit_error", "limit_reached"),
        ErrorKind::Overloaded => (503, "server_error", "server_is_overloaded"),
        ErrorKind::Timeout => (504, "server_error", "timeout"),
        ErrorKind::Unavailable | ErrorKind::Network | ErrorKind::Interrupted | ErrorKind::Protocol => {
            (502, "server_error", "server_error")
        }
        _ => (500, "server_error", "server_error"),
    }
}
