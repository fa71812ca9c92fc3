//! Errors of servers and connections, without secrets and with what to do about them.

use super::AdapterOptions;
use crate::credential::Credential;
use http::StatusCode;
use placet_core::redact::SecretRegistry;
use placet_core::{Diagnose, ErrorKind, ProviderError, ProviderId, Redactor, Secret};
use placet_net::{NetError, Response};

/// How much of an error's body is read.
pub(super) const ERROR_BYTES: usize = 64 * 1024;
/// How large an answer that is not streamed may be.
pub(super) const ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// How much of an error's body is kept, of its message, and of a body that is no answer within a message.
const RAW_BYTES: usize = 4096;
const MESSAGE_BYTES: usize = 2048;
const EXCERPT_CHARS: usize = 200;

pub(super) fn is_json(response: &Response) -> bool {
    response.header("content-type").is_some_and(|kind| kind.trim_start().starts_with("application/json"))
}

pub(super) fn is_page(response: &Response) -> bool {
    response
        .header("content-type")
        .is_some_and(|kind| kind.trim_start().get(..9).is_some_and(|kind| kind.eq_ignore_ascii_case("text/html")))
}

pub(super) fn redactor(key: Option<&Secret>) -> Redactor {
    let mut secrets = SecretRegistry::new();
    if let Some(key) = key {
        secrets.register(key.clone());
    }
    secrets.redactor()
}

/// Takes secrets out of what a server said (some quote the key that they refuse), and only then cuts it: half a secret is
/// not recognised.
pub(super) fn redact(mut error: ProviderError, redactor: &Redactor) -> ProviderError {
    let clean = |text: &mut String, most: usize| {
        if let std::borrow::Cow::Owned(clean) = redactor.redact_text(text) {
            *text = clean;
        }
        if text.len() > most {
            text.truncate(text.floor_char_boundary(most));
            text.push('…');
        }
    };
    clean(&mut error.message, MESSAGE_BYTES);
    error.hints.iter_mut().for_each(|hint| clean(hint, MESSAGE_BYTES));
    error.raw.iter_mut().for_each(|raw| clean(raw, RAW_BYTES));
    error.code.iter_mut().for_each(|code| clean(code, MESSAGE_BYTES));
    // What was expected is not there, so what is there says most.
    if let (ErrorKind::Protocol, Some(raw)) = (&error.kind, &error.raw) {
        let excerpt: String = raw.chars().take(EXCERPT_CHARS).collect();
        let excerpt = format!(": {excerpt:?}");
        // An error may come here a second time on its way.
        if !error.message.ends_with(&excerpt) {
            error.message.push_str(&excerpt);
        }
    }
    error
}

pub(super) fn from_net(provider: &ProviderId, error: &NetError) -> ProviderError {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        cause = inner.source();
    }
    let mut failure = ProviderError::new(error.kind(), provider.clone(), message);
    failure.hints = error.hints();
    failure
}

/// What a person can do about an error of a server.
pub(super) fn hint(error: &mut ProviderError, model: &str, options: &AdapterOptions) {
    let hint = match (&error.kind, &options.credential) {
        (ErrorKind::Authentication | ErrorKind::Permission, Credential::Variables { names, .. }) => {
            format!("check the key in {}", names.join(" or "))
        }
        (ErrorKind::Authentication | ErrorKind::Permission, Credential::Given(secret)) if !secret.name().is_empty() => {
            format!("check the key in {}", secret.name())
        }
        (ErrorKind::NotFound, _) if !model.is_empty() => {
            format!("check that `{model}` is a model of this server, and that {} is its API", options.base_url)
        }
        (ErrorKind::NotFound, _) => format!("check that {} is the server's API", options.base_url),
        (ErrorKind::ContextLength, _) => "shorten the conversation, or use a model with a longer window".to_owned(),
        (ErrorKind::QuotaExhausted, _) => "look at the account's credit and limits; waiting does not help".to_owned(),
        _ => return,
    };
    if error.status.is_some_and(|status| status != StatusCode::OK.as_u16()) {
        error.hints.push(hint);
    }
}
