//! Addresses of requests. What is shown of one never contains a credential.

use crate::NetError;
use base64::Engine as _;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

const NO_SCHEME: &str = "it has no scheme, expected `http://` or `https://` in front";

/// An absolute `http` or `https` address.
///
/// `Display` and `Debug` mask the user and password before the host and the values of query parameters that look like
/// credentials (`key`, `token`, `signature` …). A fragment is dropped. Host names must be ASCII (punycode).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Url {
    uri: Uri,
    /// `user:password`, percent-encoded as it was written.
    user: Option<Arc<str>>,
}

impl Url {
    /// Reads an address.
    ///
    /// # Errors
    /// [`NetError::InvalidUrl`] when it is no absolute `http` or `https` address.
    pub fn parse(text: &str) -> crate::Result<Self> {
        let text = text.trim();
        if !text.contains("://") {
            return Err(invalid(text, NO_SCHEME.to_owned()));
        }
        let uri = text.parse::<Uri>().map_err(|error| invalid(text, error.to_string()))?;
        Url::from_uri(uri).map_err(|reason| invalid(text, reason))
    }

    fn from_uri(uri: Uri) -> Result<Self, String> {
        let mut parts = uri.into_parts();
        match &parts.scheme {
            Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS => {}
            Some(scheme) => return Err(format!("its scheme is `{scheme}`, expected `http` or `https`")),
            None => return Err(NO_SCHEME.to_owned()),
        }
        let Some(authority) = parts.authority.take() else { return Err("it names no host".to_owned()) };
        let (user, host) = match authority.as_str().rsplit_once('@') {
            Some((user, host)) => (Some(Arc::from(user)), host),
            None => (None, authority.as_str()),
        };
        let host: Authority =
            if user.is_some() { host.parse().map_err(|_| "its host is malformed".to_owned())? } else { authority };
        if host.host().is_empty() {
            return Err("it names no host".to_owned());
        }
        if host.as_str().len() > host.host().len() && host.port_u16().is_none() {
            return Err("its port is not a number from 0 to 65535".to_owned());
        }
        parts.authority = Some(host);
        if parts.path_and_query.is_none() {
            parts.path_and_query = Some(PathAndQuery::from_static("/"));
        }
        let uri = Uri::from_parts(parts).map_err(|error| error.to_string())?;
        Ok(Url { uri, user })
    }

    /// The address of `path` below this one: `https://host/v1` and `models` (or `/models`) give `https://host/v1/models`. A
    /// query of this address is kept, one of `path` is added to it.
    ///
    /// # Errors
    /// [`NetError::InvalidUrl`] when `path` holds what a path may not.
    pub fn join(&self, path: &str) -> crate::Result<Self> {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let mut joined = format!("{}/{}", self.uri.path().trim_end_matches('/'), path.trim_start_matches('/'));
        let queries = [self.uri.query(), query];
        for (index, query) in queries.iter().flatten().filter(|query| !query.is_empty()).enumerate() {
            joined.push(if index == 0 { '?' } else { '&' });
            joined.push_str(query);
        }
        self.with_path_and_query(&joined)
    }

    /// The address of these segments below this one, each percent-encoded, so that a `/` within one is part of its name.
    ///
    /// # Errors
    /// [`NetError::InvalidUrl`] when the address becomes too long.
    pub fn below(&self, segments: &[&str]) -> crate::Result<Self> {
        let mut path = String::new();
        for segment in segments {
            path.push('/');
            percent_encode(segment, &mut path);
        }
        self.join(&path)
    }

    /// This address with one more query parameter, percent-encoded. Credentials belong into headers.
    ///
    /// # Errors
    /// [`NetError::InvalidUrl`] when the address becomes too long.
    pub fn with_query(&self, name: &str, value: &str) -> crate::Result<Self> {
        let mut whole = self.uri.path_and_query().map_or_else(String::new, |path| path.as_str().to_owned());
        whole.push(if self.uri.query().is_some() { '&' } else { '?' });
        percent_encode(name, &mut whole);
        whole.push('=');
        percent_encode(value, &mut whole);
        self.with_path_and_query(&whole)
    }

    fn with_path_and_query(&self, text: &str) -> crate::Result<Self> {
        let unusable = |reason: String| NetError::InvalidUrl { url: self.to_string(), reason };
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = Some(text.parse().map_err(|error: http::uri::InvalidUri| unusable(error.to_string()))?);
        let uri = Uri::from_parts(parts).map_err(|error| unusable(error.to_string()))?;
        Ok(Url { uri, user: self.user.clone() })
    }

    /// Whether the scheme is `https`.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }

    /// The host; an IPv6 address stands in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.uri.host().unwrap_or_default()
    }

    /// The port, or the scheme's own if none is written.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or(if self.is_https() { 443 } else { 80 })
    }

    /// Host and, if written, port.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.uri.authority().map_or("", Authority::as_str)
    }

    /// The path, beginning with `/`.
    #[must_use]
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// The query without its `?`, unmasked.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.uri.query()
    }

    /// The whole address with everything in it: for sending, never for showing.
    #[must_use]
    pub fn expose(&self) -> String {
        let user = self.user.as_deref().map_or_else(String::new, |user| format!("{user}@"));
        let rest = self.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        format!("{}://{user}{}{rest}", self.scheme(), self.authority())
    }

    /// The address as hyper takes it, without user and password.
    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// User and password as the value of an `authorization` header.
    pub(crate) fn basic_authorization(&self) -> Option<HeaderValue> {
        self.user.as_deref().and_then(basic_authorization)
    }

    fn scheme(&self) -> &str {
        self.uri.scheme_str().unwrap_or("http")
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = if self.user.is_some() { "***@" } else { "" };
        write!(f, "{}://{user}{}{}", self.scheme(), self.authority(), self.path())?;
        for (index, pair) in self.query().into_iter().flat_map(|query| query.split('&')).enumerate() {
            f.write_str(if index == 0 { "?" } else { "&" })?;
            match pair.split_once('=') {
                Some((name, _)) if is_secret_parameter(name) => write!(f, "{name}=***")?,
                _ => f.write_str(pair)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl FromStr for Url {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, NetError> {
        Url::parse(text)
    }
}

impl TryFrom<&str> for Url {
    type Error = NetError;

    fn try_from(text: &str) -> Result<Self, NetError> {
        Url::parse(text)
    }
}

impl TryFrom<Uri> for Url {
    type Error = NetError;

    fn try_from(uri: Uri) -> Result<Self, NetError> {
        let shown = masked_text(&uri.to_string());
        Url::from_uri(uri).map_err(|reason| NetError::InvalidUrl { url: shown, reason })
    }
}

fn invalid(text: &str, reason: String) -> NetError {
    NetError::InvalidUrl { url: masked_text(text), reason }
}

/// Masks a text that may not even be an address: everything before the last `@` and everything after the first `?`.
pub(crate) fn masked_text(text: &str) -> String {
    const SHOWN: usize = 200;
    let (rest, query) = match text.split_once('?') {
        Some((rest, _)) => (rest, "?***"),
        None => (text, ""),
    };
    // A password may hold a `?`, so the search for `@` goes over the whole text.
    let (scheme, rest) = match rest.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('@') => (format!("{scheme}://"), rest),
        _ => (String::new(), rest),
    };
    let shown = match (text.rsplit_once('@'), rest.rsplit_once('@')) {
        (None, _) => format!("{scheme}{rest}{query}"),
        (Some(_), Some((_, host))) => format!("{scheme}***@{host}{query}"),
        (Some((_, host)), None) => format!("{scheme}***@{}", host.split('?').next().unwrap_or_default()),
    };
    shown.chars().take(SHOWN).flat_map(char::escape_debug).collect()
}

fn is_secret_parameter(name: &str) -> bool {
    const EXACT: [&str; 7] = ["key", "code", "sig", "pwd", "auth", "sas", "jwt"];
    const PARTS: [&str; 9] =
        ["token", "secret", "passw", "signature", "credential", "api_key", "apikey", "api-key", "access_key"];
    let name = percent_decoded(name).to_ascii_lowercase();
    EXACT.contains(&name.as_str()) || PARTS.iter().any(|part| name.contains(part))
}

/// `user:password`, percent-encoded, as the value of a basic authorization header.
fn basic_authorization(user: &str) -> Option<HeaderValue> {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let plain = format!("{}:{}", percent_decoded(name), percent_decoded(password));
    let coded = base64::engine::general_purpose::STANDARD.encode(plain);
    let mut value = HeaderValue::try_from(format!("Basic {coded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A text as one segment of a path or one value of a query.
#[must_use]
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    percent_encode(text, &mut encoded);
    encoded
}

fn percent_encode(text: &str, into: &mut String) {
    use fmt::Write as _;
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(into, "%{byte:02X}");
        }
    }
}

/// The inverse of [`percent_encoded`]. What is no encoding stays as it is; bytes that are no text are replaced.
#[must_use]
pub fn percent_decoded(text: &str) -> String {
    String::from_utf8_lossy(&percent_decoded_bytes(text)).into_owned()
}

/// [`percent_decoded`] for whoever has to know whether the bytes are a text.
#[must_use]
pub fn percent_decoded_bytes(text: &str) -> Cow<'_, [u8]> {
    let bytes = text.as_bytes();
    if !bytes.contains(&b'%') {
        return Cow::Borrowed(bytes);
    }
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            // Two hexadecimal digits are less than 256.
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or_default());
                at += 3;
            }
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    Cow::Owned(decoded)
}

#[cfg(test)]
mod tests;
