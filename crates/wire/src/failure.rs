//! What a provider's error says, whatever its shape.
//!
//! Errors come as JSON in many shapes, as an array of one, as plain text and as HTML of a proxy in between. Reading one
//! never fails: what cannot be understood still gives the status and the beginning of the body.

use http::HeaderMap;
use placet_core::{ErrorKind, ProviderError, ProviderId};
use serde_json::Value;

/// How much of a body is kept in an error, in bytes. It is ample, because whoever takes secrets out of it has to do so before
/// cutting it to what is shown: half a secret is not recognised.
pub(crate) const RAW_BYTES: usize = 64 * 1024;
/// How much of a body that is no JSON becomes the message, in characters.
const MESSAGE_CHARS: usize = 300;

/// The headers that providers put their id of a request in.
const REQUEST_ID_HEADERS: [&str; 6] =
    ["x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "x-goog-request-id", "cf-ray"];

/// The provider's id of a request, from the headers of its answer.
#[must_use]
pub fn request_id(headers: &HeaderMap) -> Option<String> {
    let mut found = REQUEST_ID_HEADERS.iter().filter_map(|name| headers.get(*name)?.to_str().ok());
    found.find(|id| !id.is_empty()).map(str::to_owned)
}

/// Reads an answer that is an error. Its message quotes the body, and `raw` keeps up to 64 KiB of it. How long to wait is not read here: whoever decides about retry does.
#[must_use]
pub fn decode_error(provider: &ProviderId, status: u16, headers: &HeaderMap, body: &[u8]) -> ProviderError {
    let text = String::from_utf8_lossy(body);
    let said = serde_json::from_slice(body)
        .ok()
        .and_then(|value| Said::read(&value))
        .unwrap_or_else(|| Said { message: plain_text(&text), ..Said::default() });
    let mut error = said.into_error(provider, Some(status));
    error.request_id = request_id(headers);
    error.raw = Some(cut(&text, RAW_BYTES)).filter(|raw| !raw.is_empty());
    error
}

/// Reads an error that came in an answer which had begun well.
pub(crate) fn decode_error_value(provider: &ProviderId, value: &Value) -> ProviderError {
    let mut error = Said::read(value).unwrap_or_default().into_error(provider, None);
    error.raw = Some(cut(&value.to_string(), RAW_BYTES));
    error
}

/// What an error body says.
#[derive(Debug, Default, PartialEq)]
struct Said {
    message: Option<String>,
    /// The code, if it is a word.
    code: Option<String>,
    /// The type of the error.
    kind: Option<String>,
    /// A status that the body names.
    status: Option<u16>,
}

impl Said {
    fn read(value: &Value) -> Option<Self> {
        let object = match value {
            Value::Array(list) => return list.first().and_then(Said::read),
            Value::Object(object) => object,
            Value::String(text) if !text.is_empty() => {
                return Some(Said { message: Some(text.clone()), ..Said::default() });
            }
            _ => return None,
        };
        let mut said = match object.get("error") {
            Some(inner @ Value::Object(_)) => Said::read(inner).unwrap_or_default(),
            Some(inner @ Value::String(_)) => Said::read(inner).unwrap_or_default(),
            _ => Said::default(),
        };
        let word =
            |key: &str| object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        said.message = said.message.or_else(|| word("message")).or_else(|| word("msg"));
        said.message = said.message.or_else(|| object.get("detail").and_then(detail)).or_else(|| word("title"));
        if said.message.is_none() {
            said.message = object.get("errors").and_then(Said::read).and_then(|inner| inner.message);
        }
        // A gateway names the provider behind it, whose own words say more.
        if let Some(raw) = object.get("metadata").and_then(|metadata| metadata.get("raw")).and_then(Value::as_str) {
            let message = said.message.take().unwrap_or_default();
            said.message = Some(format!("{message}: {raw}"));
        }
        said.code = said.code.or_else(|| word("code"));
        said.kind = said.kind.or_else(|| word("type").filter(|kind| kind != "error")).or_else(|| word("status"));
        let number = |key: &str| object.get(key).and_then(Value::as_u64).and_then(|number| u16::try_from(number).ok());
        let status = number("code").or_else(|| number("status")).or_else(|| number("status_code"));
        said.status = said.status.or(status.filter(|status| (400..600).contains(status)));
        let is_nothing = said == Said::default();
        (!is_nothing).then_some(said)
    }

    fn into_error(self, provider: &ProviderId, status: Option<u16>) -> ProviderError {
        let status = status.filter(|status| *status >= 400).or(self.status).or(status);
        let kind = classify(&self, status);
        let message = self.message.unwrap_or_else(|| match status {
            Some(status) => format!("it answered with status {status} and nothing readable"),
            None => "it reported an error and nothing readable".to_owned(),
        });
        let mut error = ProviderError::new(kind, provider.clone(), message);
        error.status = status;
        error.code = self.code.or(self.kind);
        error
    }
}

/// FastAPI and its like: a text, or a list of what is wrong with which field.
fn detail(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => {
            let problems = list.iter().filter_map(|problem| {
                let message = problem.get("msg").and_then(Value::as_str)?;
                let place = problem.get("loc").and_then(Value::as_array).map(|path| {
                    let steps: Vec<String> =
                        path.iter().map(|step| step.as_str().map_or_else(|| step.to_string(), str::to_owned)).collect();
                    steps.join(".")
                });
                Some(place.map_or_else(|| message.to_owned(), |place| format!("{place}: {message}")))
            });
            let problems: Vec<String> = problems.collect();
            (!problems.is_empty()).then(|| problems.join("; "))
        }
        object @ Value::Object(_) => Said::read(object).and_then(|said| said.message),
        _ => None,
    }
}

/// Words of codes, types and messages that say what sort of error it is, whatever the status. The first that stands in
/// one of them counts.
const WORDS: [(&str, ErrorKind); 34] = [
    ("insufficient_quota", ErrorKind::QuotaExhausted),
    ("billing", ErrorKind::QuotaExhausted),
    ("credit balance is too low", ErrorKind::QuotaExhausted),
    ("insufficient_balance", ErrorKind::QuotaExhausted),
    ("insufficient balance", ErrorKind::QuotaExhausted),
    ("context_length_exceeded", ErrorKind::ContextLength),
    ("exceed_context_size", ErrorKind::ContextLength),
    ("model_context_window_exceeded", ErrorKind::ContextLength),
    ("maximum context length", ErrorKind::ContextLength),
    ("prompt is too long", ErrorKind::ContextLength),
    ("request_too_large", ErrorKind::InvalidRequest),
    ("exceeds the context window", ErrorKind::ContextLength),
    ("exceeds the available context size", ErrorKind::ContextLength),
    ("content_filter", ErrorKind::ContentFiltered),
    ("content_policy_violation", ErrorKind::ContentFiltered),
    ("responsibleaipolicyviolation", ErrorKind::ContentFiltered),
    ("invalid_api_key", ErrorKind::Authentication),
    ("authentication_error", ErrorKind::Authentication),
    ("unauthenticated", ErrorKind::Authentication),
    ("permission_error", ErrorKind::Permission),
    ("permission_denied", ErrorKind::Permission),
    ("model_not_found", ErrorKind::NotFound),
    ("not_found_error", ErrorKind::NotFound),
    ("rate_limit", ErrorKind::RateLimited),
    ("resource_exhausted", ErrorKind::RateLimited),
    ("too_many_requests", ErrorKind::RateLimited),
    ("overloaded", ErrorKind::Overloaded),
    ("timeout_error", ErrorKind::Timeout),
    ("deadline_exceeded", ErrorKind::Timeout),
    ("unsupported_parameter", ErrorKind::Unsupported),
    ("unsupported_value", ErrorKind::Unsupported),
    ("server_error", ErrorKind::Unavailable),
    ("api_error", ErrorKind::Unavailable),
    ("invalid_request_error", ErrorKind::InvalidRequest),
];

fn classify(said: &Said, status: Option<u16>) -> ErrorKind {
    let lower = |text: &Option<String>| text.as_deref().unwrap_or_default().to_ascii_lowercase();
    let (code, kind, message) = (lower(&said.code), lower(&said.kind), lower(&said.message));
    let by_status = status.and_then(kind_of_status);
    let found = WORDS.iter().find(|(word, _)| {
        // A plain word in a message proves nothing; a phrase does.
        code.contains(word) || kind.contains(word) || (word.contains(' ') && message.contains(word))
    });
    match (found, by_status) {
        // The general words say less than the status does.
        (Some((word, kind)), Some(by_status))
            if matches!(*word, "invalid_request_error" | "server_error" | "api_error") =>
        {
            if by_status == ErrorKind::InvalidRequest { kind.clone() } else { by_status }
        }
        (Some((_, kind)), _) => kind.clone(),
        (None, Some(by_status)) => by_status,
        (None, None) => ErrorKind::Unavailable,
    }
}

fn kind_of_status(status: u16) -> Option<ErrorKind> {
    Some(match status {
        401 => ErrorKind::Authentication,
        402 => ErrorKind::QuotaExhausted,
        403 => ErrorKind::Permission,
        404 => ErrorKind::NotFound,
        408 | 504 => ErrorKind::Timeout,
        409 => ErrorKind::Conflict,
        429 => ErrorKind::RateLimited,
        503 | 529 => ErrorKind::Overloaded,
        400..=499 => ErrorKind::InvalidRequest,
        500..=599 => ErrorKind::Unavailable,
        _ => return None,
    })
}

/// The readable part of a body that is no JSON: without tags, on one line, cut.
fn plain_text(body: &str) -> Option<String> {
    let is_html = body.trim_start().starts_with('<');
    let mut text = String::new();
    let mut depth = 0u32;
    for c in body.chars().take(4096) {
        match c {
            '<' if is_html => depth += 1,
            '>' if is_html && depth > 0 => {
                depth -= 1;
                text.push(' ');
            }
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let text: String = words.join(" ").chars().take(MESSAGE_CHARS).collect();
    (!text.is_empty()).then_some(text)
}

/// The beginning of a text, at most `bytes` long, never half a character.
pub(crate) fn cut(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}

#[cfg(test)]
mod tests;
