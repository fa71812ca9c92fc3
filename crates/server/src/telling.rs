//! What of an upstream's words a client may read: nothing that says where a provider is, or what is behind it.

use placet_core::{ErrorKind, ProviderError};
use serde_json::Value;
use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What stands in the place of an address.
const HIDDEN: &str = "[address]";
/// How much of an upstream's words is kept for whoever runs the gateway.
const MOST_KEPT: usize = 500;
/// Ends of names that mean something in somebody's own network alone.
const PRIVATE: [&str; 14] = [
    "internal",
    "local",
    "localhost",
    "localdomain",
    "lan",
    "corp",
    "home",
    "intranet",
    "private",
    "svc",
    "consul",
    "cluster",
    "docker",
    "arpa",
];
/// Beginnings of a query's pairs that may hold a credential.
const CREDENTIALS: [&str; 6] = ["key=", "token=", "secret=", "password=", "sig=", "signature="];

/// What a client is told of an error: a kind that says nothing of its own words, or the upstream's words without addresses.
/// `hidden` is the host of a server whose place is nobody's business.
pub(crate) fn message(error: &ProviderError, hidden: Option<&str>) -> String {
    let provider = &error.provider;
    match error.kind {
        ErrorKind::Timeout if error.status.is_none() => format!("the provider {provider} did not answer in time"),
        ErrorKind::Network => format!("the provider {provider} cannot be reached"),
        ErrorKind::Interrupted => {
            format!("the connection to the provider {provider} broke before its answer was whole")
        }
        ErrorKind::Protocol => format!("the provider {provider} gave an answer that cannot be read"),
        ErrorKind::Wiring => format!("the provider {provider} is not set up"),
        ErrorKind::Internal if error.status.is_none() => failed(provider.as_str()),
        _ => match masked(&error.message, hidden) {
            Cow::Borrowed(words) => words.to_owned(),
            // Words about what the client asked for help it, also where an address stands among them.
            Cow::Owned(words) if error.status.is_some_and(|status| status < 500) => words,
            Cow::Owned(_) => failed(provider.as_str()),
        },
    }
}

pub(crate) fn failed(provider: &str) -> String {
    format!("the provider {provider} failed")
}

/// A body of JSON in which addresses are hidden; nothing where there are none.
pub(crate) fn masked_body(body: &[u8], hidden: Option<&str>) -> Option<Vec<u8>> {
    fn walk(value: &mut Value, hidden: Option<&str>) -> bool {
        match value {
            Value::String(text) => match masked(text, hidden) {
                Cow::Owned(clean) => {
                    *text = clean;
                    true
                }
                Cow::Borrowed(_) => false,
            },
            Value::Array(list) => list.iter_mut().fold(false, |found, value| walk(value, hidden) | found),
            Value::Object(map) => map.values_mut().fold(false, |found, value| walk(value, hidden) | found),
            _ => false,
        }
    }
    let mut value: Value = serde_json::from_slice(body).ok()?;
    walk(&mut value, hidden).then(|| value.to_string().into_bytes())
}

/// The text, with every address hidden that is not a public page's.
pub(crate) fn masked<'t>(text: &'t str, hidden: Option<&str>) -> Cow<'t, str> {
    let parts = |letter: char| letter.is_whitespace() || "\"'`<>(){},;|\\".contains(letter);
    let mut out: Option<String> = None;
    let mut done = 0;
    for word in text.split(parts) {
        let word = word.trim_matches(['.', ':', '!', '?', '*', '=']);
        if word.is_empty() || !is_hidden(&word.to_ascii_lowercase(), hidden) {
            continue;
        }
        // Both are parts of one text.
        let at = word.as_ptr() as usize - text.as_ptr() as usize;
        let out = out.get_or_insert_default();
        out.push_str(&text[done..at]);
        out.push_str(HIDDEN);
        done = at + word.len();
    }
    match out {
        Some(mut out) => {
            out.push_str(&text[done..]);
            Cow::Owned(out)
        }
        None => Cow::Borrowed(text),
    }
}

fn is_hidden(word: &str, hidden: Option<&str>) -> bool {
    let until_path = |text: &str| text.split(['/', '?', '#']).next().unwrap_or_default().to_owned();
    if let Some((_, rest)) = word.split_once("://") {
        let authority = until_path(rest);
        let query = rest.split_once('?').map_or("", |(_, query)| query);
        let has_credential = query.split('&').any(|pair| CREDENTIALS.iter().any(|name| pair.contains(name)));
        let is_public = authority.contains('.')
            && !authority.contains(['@', ':', '['])
            && authority.rsplit('.').next().is_some_and(|end| end.bytes().all(|byte| byte.is_ascii_alphabetic()));
        return has_credential || !is_public || is_place(&authority, hidden);
    }
    let rest = word.rsplit_once('=').map_or(word, |(_, rest)| rest);
    is_place(&until_path(rest), hidden)
}

/// Whether it names a place in a network: an address, a name that is nobody else's, or a host with its port.
fn is_place(authority: &str, hidden: Option<&str>) -> bool {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let bare = host.trim_start_matches('[');
    let bare = bare.rsplit_once(']').map_or(bare, |(address, _)| address);
    if bare.matches(':').count() > 1 {
        return bare.parse::<Ipv6Addr>().is_ok();
    }
    let (name, port) = match bare.rsplit_once(':') {
        Some((name, port)) => (name, port.parse::<u16>().ok().filter(|port| *port >= 80)),
        None => (bare, None),
    };
    if name.parse::<Ipv4Addr>().is_ok() || hidden.is_some_and(|hidden| name == hidden) {
        return true;
    }
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let end = name.rsplit('.').next().unwrap_or_default();
    let is_private = name == "localhost" || (name.contains('.') && PRIVATE.contains(&end));
    is_name && (is_private || port.is_some_and(|port| name.contains(['.', '-']) || port >= 1000))
}

/// An error and what is underneath it, in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = inner.source();
    }
    kept(&text)
}

/// As much of some words as is kept, in one line.
pub(crate) fn kept(words: &str) -> String {
    let mut text: String = words.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if text.len() > MOST_KEPT {
        text.truncate(text.floor_char_boundary(MOST_KEPT));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_hidden_and_everything_else_stays() {
        for (text, wanted) in [
            ("connect to http://10.1.2.3:8000/v1/chat failed", "connect to [address] failed"),
            ("dial tcp 10.0.0.7:443: refused", "dial tcp [address]: refused"),
            ("upstream=vllm-7.models.svc.cluster.local, gone", "[address], gone"),
            ("lookup llm-a.corp: no such host", "lookup [address]: no such host"),
            ("proxy [fd00::1]:3128 says no", "proxy [address] says no"),
            ("see https://user:pw@api.example.com/x", "see [address]"),
            ("GET https://api.example.com/v1?api_key=abc", "GET [address]"),
            ("no host house", "no host [address]"),
            ("worker-3:9000 is down", "[address] is down"),
        ] {
            assert_eq!(masked(text, Some("house")), wanted);
        }
        for text in [
            "You exceeded your quota, see https://platform.openai.com/docs/errors.",
            "messages.3.content.0: expected a text, got 12:30:45 at 2026-11-30T12:30:45Z",
            "model gpt-oss:20b and claude-opus-5 at line 7:12; std::fmt",
            "add me@example.com",
        ] {
            assert!(matches!(masked(text, Some("house")), Cow::Borrowed(_)), "{}", masked(text, Some("house")));
        }
    }

    #[test]
    fn escapes_hide_no_place() {
        let body = br#"{"error":{"message":"at http:\/\/10.0.0.1\/v1 and \u0031\u0030.0.0.2"}}"#;
        let clean = masked_body(body, None).unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(&clean), r#"{"error":{"message":"at [address] and [address]"}}"#);
        assert_eq!(masked_body(b"{\"error\":\"slow down\"}", None), None);
    }
}
