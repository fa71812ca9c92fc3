//! What is sent.

use crate::headers::{MaskedHeaders, mark_sensitive_headers};
use crate::{NetError, Url, is_sensitive_header};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use placet_core::Secret;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long a request may take, part by part. `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection is ready: name, TCP, proxy and TLS. A pooled connection is ready at once.
    pub connect: Option<Duration>,
    /// From the ready connection until the head of the answer.
    pub first_byte: Option<Duration>,
    /// Longest silence within the body, counted only while somebody waits for it: a slow reader of ours is not the other
    /// side's fault.
    pub idle: Option<Duration>,
    /// From the start of the request to the end of its body.
    pub whole: Option<Duration>,
}

impl Default for Timeouts {
    /// 10 s to connect, 10 min to the first byte, 5 min of silence, no limit on the whole: models think for long.
    fn default() -> Self {
        Timeouts {
            connect: Some(Duration::from_secs(10)),
            first_byte: Some(Duration::from_secs(600)),
            idle: Some(Duration::from_secs(300)),
            whole: None,
        }
    }
}

impl Timeouts {
    /// No limits at all.
    pub const NONE: Timeouts = Timeouts { connect: None, first_byte: None, idle: None, whole: None };

    /// These timeouts with a limit on the whole request.
    #[must_use]
    pub fn within(mut self, whole: Duration) -> Self {
        self.whole = Some(whole);
        self
    }
}

/// One HTTP request. Its `Debug` form masks credentials and shows the body's length only.
#[derive(Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Where to. A user and password in it are sent as basic authorization, unless the headers hold an `authorization`.
    pub url: Url,
    /// Sent as they are. `host`, `content-length`, and `user-agent` if absent, are added.
    pub headers: HeaderMap,
    /// The body; cheap to clone.
    pub body: Bytes,
    /// What comes after it: a long body of which little was changed need not be copied into one.
    pub rest: Vec<Bytes>,
    /// Timeouts of this request; `None` takes the client's.
    pub timeouts: Option<Timeouts>,
}

impl Request {
    /// A request without headers and body.
    #[must_use]
    pub fn new(method: Method, url: Url) -> Self {
        Request { method, url, headers: HeaderMap::new(), body: Bytes::new(), rest: Vec::new(), timeouts: None }
    }

    /// A `GET`.
    #[must_use]
    pub fn get(url: Url) -> Self {
        Request::new(Method::GET, url)
    }

    /// A `POST` of a body.
    #[must_use]
    pub fn post(url: Url, body: impl Into<Bytes>) -> Self {
        Request { body: body.into(), ..Request::new(Method::POST, url) }
    }

    /// A `POST` of JSON text.
    #[must_use]
    pub fn post_json(url: Url, json: impl Into<Bytes>) -> Self {
        let mut request = Request::post(url, json);
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        request
    }

    /// Sets a header, replacing what it held.
    ///
    /// # Errors
    /// [`NetError::InvalidHeader`] when name or value cannot be sent (for example a line break in a key).
    pub fn header(mut self, name: &str, value: &str) -> crate::Result<Self> {
        let unusable = |reason: &str| NetError::InvalidHeader { name: name.to_owned(), reason: reason.to_owned() };
        let key = HeaderName::try_from(name).map_err(|_| unusable("it is no header name"))?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| unusable("its value holds characters that no header may hold, such as a line break"))?;
        value.set_sensitive(is_sensitive_header(&key));
        self.headers.insert(key, value);
        Ok(self)
    }

    /// Sets `authorization: Bearer …`.
    ///
    /// # Errors
    /// [`NetError::InvalidHeader`] when the secret cannot be sent.
    pub fn bearer(self, secret: &Secret) -> crate::Result<Self> {
        self.header(AUTHORIZATION.as_str(), &format!("Bearer {}", secret.expose()))
    }

    /// Sets a header to a secret, for example `x-api-key`. Its value is masked whatever the header's name.
    ///
    /// # Errors
    /// [`NetError::InvalidHeader`] when the secret cannot be sent.
    pub fn credential(self, name: &str, secret: &Secret) -> crate::Result<Self> {
        let mut request = self.header(name, secret.expose())?;
        if let Some(value) = request.headers.get_mut(name) {
            value.set_sensitive(true);
        }
        Ok(request)
    }

    /// Sets this request's own timeouts.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = Some(timeouts);
        self
    }
}

/// A body as it is sent.
pub(crate) struct Pieces {
    first: Bytes,
    rest: std::vec::IntoIter<Bytes>,
}

impl Pieces {
    pub(crate) fn new(first: Bytes, rest: Vec<Bytes>) -> Self {
        Pieces { first, rest: rest.into_iter() }
    }

    fn left(&self) -> usize {
        self.first.len() + self.rest.as_slice().iter().map(Bytes::len).sum::<usize>()
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let first = std::mem::take(&mut this.first);
        let mut pieces = std::iter::once(first).chain(&mut this.rest).filter(|piece| !piece.is_empty());
        Poll::Ready(pieces.next().map(|piece| Ok(http_body::Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(u64::try_from(self.left()).unwrap_or(u64::MAX))
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("url", &self.url)
            .field("headers", &MaskedHeaders(&self.headers))
            .field("body", &format_args!("{} bytes", self.body.len() + self.rest.iter().map(Bytes::len).sum::<usize>()))
            .field("timeouts", &self.timeouts)
            .finish()
    }
}

/// For clients of other libraries that are written against the `http` crate's types.
impl TryFrom<http::Request<Bytes>> for Request {
    type Error = NetError;

    fn try_from(request: http::Request<Bytes>) -> Result<Self, NetError> {
        let (parts, body) = request.into_parts();
        let mut headers = parts.headers;
        mark_sensitive_headers(&mut headers);
        let url = Url::try_from(parts.uri)?;
        Ok(Request { method: parts.method, url, headers, body, rest: Vec::new(), timeouts: None })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn debug_shows_no_credential() {
        let url = Url::parse("https://user:hunter2@h/x?key=hunter3").unwrap();
        let mut request =
            Request::post_json(url, "{\"secret\":\"hunter4\"}").bearer(&Secret::new("KEY", "hunter5")).unwrap();
        request = request.credential("x-own", &Secret::new("KEY", "hunter7")).unwrap();
        request.headers.insert("x-goog-api-key", HeaderValue::from_static("hunter6"));
        let shown = format!("{request:?}");
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(shown.contains("POST") && shown.contains("20 bytes"), "{shown}");
    }

    #[test]
    fn a_bad_header_is_named_without_its_value() {
        let url = Url::parse("https://h/").unwrap();
        let error = Request::get(url).header("x-api-key", "hunter2\n").unwrap_err().to_string();
        assert!(error.contains("x-api-key") && !error.contains("hunter2"), "{error}");
    }
}
