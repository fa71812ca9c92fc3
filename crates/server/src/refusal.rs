//! What is answered where a request is not served, in the shape of the protocol that it was asked in.

use crate::body::Body;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use placet_core::{ErrorKind, ProviderError};
use placet_wire::RequestError;
use placet_wire::passing::Speech;
use serde_json::{Value, json};
use std::time::Duration;

/// Why a request is not served. Its text is for the client: it holds nothing of ours that a client may not know.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub(crate) status: u16,
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    pub(crate) field: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) allow: Option<&'static str>,
}

impl Refusal {
    /// A refusal.
    pub fn new(status: u16, kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Refusal { status, kind, message, field: None, code: None, retry_after: None, allow: None }
    }

    /// The status that it is answered with.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// What is wrong, for the client.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    pub(crate) fn code(mut self, code: &str) -> Self {
        self.code = Some(code.to_owned());
        self
    }

    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Refusal::new(404, ErrorKind::NotFound, what)
    }

    /// The model is not known here.
    pub(crate) fn no_model(model: &str) -> Self {
        let shown: String = model.chars().take(200).collect();
        let message =
            format!("the model `{shown}` does not exist here, or this key may not use it; GET /v1/models lists them");
        let mut refusal = Refusal::not_found(message).code("model_not_found");
        refusal.field = Some("model".to_owned());
        refusal
    }

    /// The method is not one of this path.
    pub(crate) fn method(allow: &'static str) -> Self {
        let mut refusal = Refusal::new(405, ErrorKind::InvalidRequest, format!("this path takes {allow}"));
        refusal.allow = Some(allow);
        refusal
    }

    /// What a provider (or the way to it) answered instead of a turn, as far as a client may know it.
    pub(crate) fn of_provider(error: &ProviderError) -> Self {
        let status = status_of(error);
        let mut refusal = Refusal::new(status, error.kind.clone(), error.message.clone());
        refusal.code = error.code.clone();
        refusal.retry_after = error.retry_after();
        refusal
    }

    /// The answer, in the shape of `speech`.
    #[must_use]
    pub fn into_response(self, speech: Speech, request_id: &str) -> Response<Body> {
        let body = self.to_json(speech, request_id).to_string();
        let mut response = Response::new(Body::whole(body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        response
    }

    /// The body of the error, in the shape of `speech`.
    pub(crate) fn to_json(&self, speech: Speech, request_id: &str) -> Value {
        match speech {
            Speech::OpenaiChat | Speech::OpenaiResponses => json!({"error": self.openai()}),
            Speech::AnthropicMessages => json!({
                "type": "error",
                "error": {"type": self.anthropic_type(), "message": self.message},
                "request_id": request_id,
            }),
            Speech::Gemini => json!({
                "error": {"code": self.status, "message": self.message, "status": self.gemini_status()},
            }),
        }
    }

    fn openai(&self) -> Value {
        let (kind, code) = match self.status {
            401 => ("invalid_request_error", "invalid_api_key"),
            403 => ("invalid_request_error", "permission_denied"),
            404 => ("invalid_request_error", "not_found"),
            408 | 504 => ("server_error", "timeout"),
            413 => ("invalid_request_error", "request_too_large"),
            429 if self.kind == ErrorKind::QuotaExhausted => ("insufficient_quota", "insufficient_quota"),
            429 => ("rate_limit_error", "rate_limit_exceeded"),
            400 if self.kind == ErrorKind::ContextLength => ("invalid_request_error", "context_length_exceeded"),
            400..500 => ("invalid_request_error", "invalid_request"),
            503 | 529 => ("server_error", "server_overloaded"),
            _ => ("server_error", "server_error"),
        };
        // Some clients take only texts here, and show nothing where they find null.
        json!({
            "message": self.message,
            "type": kind,
            "param": self.field.as_deref().unwrap_or(""),
            "code": self.code.as_deref().unwrap_or(code),
        })
    }

    fn anthropic_type(&self) -> &'static str {
        match self.status {
            401 => "authentication_error",
            402 => "billing_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            408 | 504 => "timeout_error",
            400..500 => "invalid_request_error",
            503 | 529 => "overloaded_error",
            _ => "api_error",
        }
    }

    fn gemini_status(&self) -> &'static str {
        match self.status {
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            408 | 504 => "DEADLINE_EXCEEDED",
            409 => "ABORTED",
            429 => "RESOURCE_EXHAUSTED",
            400..=499 => "INVALID_ARGUMENT",
            501 => "UNIMPLEMENTED",
            502 | 503 | 529 => "UNAVAILABLE",
            _ => "INTERNAL",
        }
    }

    /// The event that ends a stream which broke off, in the shape of `speech`. A blank line before it ends what may be half
    /// an event.
    pub(crate) fn into_event(self, speech: Speech, request_id: &str) -> Bytes {
        let error = self.to_json(speech, request_id);
        let text = match speech {
            Speech::OpenaiChat | Speech::Gemini => format!("data: {error}\n\n"),
            Speech::AnthropicMessages => format!("event: error\ndata: {error}\n\n"),
            Speech::OpenaiResponses => {
                let code = self.code.as_deref().unwrap_or("server_error");
                let event = json!({
                    "type": "response.failed", "sequence_number": 0,
                    "response": {
                        "id": format!("resp_{}", request_id.trim_start_matches("req_")), "object": "response", "created_at": 0,
                        "status": "failed", "error": {"code": code, "message": self.message}, "incomplete_details": null,
                        "instructions": null, "metadata": {}, "model": "", "output": [], "parallel_tool_calls": true,
                        "temperature": null, "tool_choice": "auto", "tools": [], "top_p": null, "usage": null,
                    },
                });
                format!("event: response.failed\ndata: {event}\n\n")
            }
        };
        Bytes::from(text)
    }
}

impl From<RequestError> for Refusal {
    fn from(error: RequestError) -> Self {
        let mut refusal = Refusal::new(400, error.kind, error.problem);
        refusal.field = error.field;
        refusal
    }
}

/// The status that tells a client what sort of error it is. One that a provider gave is kept where it is the client's to
/// know; what is wrong between us and the provider is a 502.
pub(crate) fn status_of(error: &ProviderError) -> u16 {
    if let Some(status) = error.status.filter(|status| (400..600).contains(status)) {
        return status;
    }
    match error.kind {
        ErrorKind::InvalidRequest | ErrorKind::Unsupported | ErrorKind::ContextLength | ErrorKind::ContentFiltered => {
            400
        }
        ErrorKind::Authentication => 401,
        ErrorKind::Permission => 403,
        ErrorKind::NotFound => 404,
        ErrorKind::Conflict => 409,
        ErrorKind::RateLimited | ErrorKind::QuotaExhausted => 429,
        ErrorKind::LimitReached => 400,
        ErrorKind::Overloaded | ErrorKind::Unavailable => 503,
        ErrorKind::Timeout => 504,
        ErrorKind::Network | ErrorKind::Interrupted | ErrorKind::Protocol => 502,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_shape_of_the_protocol_they_were_asked_in() {
        let refusal = Refusal::new(429, ErrorKind::RateLimited, "slow down");
        assert_eq!(refusal.to_json(Speech::OpenaiChat, "r")["error"]["type"], "rate_limit_error");
        assert_eq!(refusal.to_json(Speech::OpenaiChat, "r")["error"]["param"], "");
        let anthropic = refusal.to_json(Speech::AnthropicMessages, "req_1");
        assert_eq!(
            (&anthropic["error"]["type"], &anthropic["request_id"]),
            (&json!("rate_limit_error"), &json!("req_1"))
        );
        assert_eq!(refusal.to_json(Speech::Gemini, "r")["error"]["status"], "RESOURCE_EXHAUSTED");
        for (speech, mark) in [
            (Speech::OpenaiChat, "data: {\"error\""),
            (Speech::OpenaiResponses, "event: response.failed\n"),
            (Speech::AnthropicMessages, "event: error\n"),
            (Speech::Gemini, "data: {\"error\""),
        ] {
            let event = refusal.clone().into_event(speech, "req_1");
            assert!(event.starts_with(mark.as_bytes()) && event.ends_with(b"\n\n"), "{speech}");
        }
    }
}
