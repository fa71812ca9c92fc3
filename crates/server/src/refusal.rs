//! What is answered where a request is not served, in the shape of the protocol that it was asked in.

use crate::body::Body;
use crate::telling;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use placet_core::{ErrorKind, ProviderError, ProviderId};
use placet_wire::RequestError;
use placet_wire::passing::{Speech, Watch};
use serde_json::Value;
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
        Refusal::new(404, ErrorKind::NotFound, what).code("not_found")
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

    /// What a provider (or the way to it) answered instead of a turn, as far as a client may know it. `hidden` is the host of
    /// a server whose place is nobody's business.
    pub(crate) fn of_provider(error: &ProviderError, hidden: Option<&str>) -> Self {
        let status = status_of(error);
        if error.status.is_some_and(|status| (300..400).contains(&status)) {
            let message = format!("the provider {} redirects elsewhere, which is never followed", error.provider);
            return Refusal::new(status, ErrorKind::Protocol, message);
        }
        let mut refusal = Refusal::new(status, error.kind.clone(), telling::message(error, hidden));
        let is_told = |code: &String| matches!(telling::masked(code, hidden), std::borrow::Cow::Borrowed(_));
        refusal.code = error.code.clone().filter(is_told);
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
        speech.encode_field_error(&self.to_error(request_id), self.field.as_deref()).1
    }

    fn to_error(&self, request_id: &str) -> ProviderError {
        let mut error = ProviderError::new(self.kind.clone(), ProviderId::new("placet"), &*self.message);
        error.status = Some(self.status);
        error.code.clone_from(&self.code);
        error.request_id = Some(request_id.to_owned());
        error.retry_after_ms = self.retry_after.and_then(|wait| u64::try_from(wait.as_millis()).ok());
        error
    }

    /// Appends the event that ends a stream which broke off, in the shape of `speech`, and under the name that its answer goes
    /// by. `watch` has seen what went on.
    pub(crate) fn break_off(&self, watch: &Watch, speech: Speech, request_id: &str, out: &mut Vec<u8>) {
        watch.encode_break(&crate::speech::answer_id(speech, request_id), &self.to_error(request_id), out);
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
    match error.status {
        Some(status) if (400..600).contains(&status) => return status,
        Some(300..400) => return 502,
        _ => {}
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
    use serde_json::json;

    #[test]
    fn errors_have_the_shape_of_the_protocol_they_were_asked_in() {
        let refusal = Refusal::new(429, ErrorKind::RateLimited, "slow down");
        assert_eq!(refusal.to_json(Speech::OpenaiChat, "r")["error"]["type"], "rate_limit_error");
        assert_eq!(refusal.to_json(Speech::OpenaiChat, "r")["error"]["param"], json!(null));
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
            let mut event = Vec::new();
            refusal.break_off(&Watch::events(speech, false), speech, "req_1", &mut event);
            assert!(event.starts_with(mark.as_bytes()) && event.ends_with(b"\n\n"), "{speech}");
        }
    }
}
