//! What comes back.

use crate::direct::Driven;
use crate::headers::MaskedHeaders;
use crate::{Cause, NetError, TimeoutKind};
use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use http::header::CONTENT_LENGTH;
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Version};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use placet_core::{BoxFuture, Clock, Cut};
use std::collections::VecDeque;
use std::fmt;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The head of an answer, and its body as it arrives. Dropping it closes the connection (on HTTP/2: the stream).
pub struct Response {
    /// The status; an error status is an answer like any other.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// Which HTTP was spoken.
    pub version: Version,
    /// The body.
    pub body: Body,
}

impl Response {
    /// The whole body, if it has at most `limit` bytes.
    ///
    /// # Errors
    /// [`NetError::BodyTooLarge`] when it is longer (nothing of it is returned, the connection is closed), else whatever
    /// kept it from arriving.
    pub async fn bytes(self, limit: usize) -> crate::Result<Bytes> {
        self.body.bytes(limit).await
    }

    /// The whole body as text, if it has at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Response::bytes`], and [`NetError::NotText`] when it is not UTF-8.
    pub async fn text(self, limit: usize) -> crate::Result<String> {
        let bytes = self.body.bytes(limit).await?;
        String::from_utf8(bytes.into()).map_err(|error| NetError::NotText { at: error.utf8_error().valid_up_to() })
    }

    /// The first `limit` bytes of the body and what is missing of it: for error messages, which must be read in any case.
    pub async fn excerpt(self, limit: usize) -> Excerpt {
        self.body.excerpt(limit).await
    }

    /// A header's value as text, if there is one and it is ASCII.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// For clients of other libraries that are written against the `http` crate's types.
    #[must_use]
    pub fn into_http(self) -> http::Response<Body> {
        let mut response = http::Response::new(self.body);
        *response.status_mut() = self.status;
        *response.version_mut() = self.version;
        *response.headers_mut() = self.headers;
        response
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("version", &self.version)
            .field("headers", &MaskedHeaders(&self.headers))
            .field("body", &self.body)
            .finish()
    }
}

/// The beginning of a body, and how it ended.
#[derive(Clone, Debug)]
pub struct Excerpt {
    /// What was kept.
    pub bytes: Bytes,
    /// What was left out, if the body was longer than the limit. `total` counts what had arrived if the body did not declare
    /// its length: there is at least that much.
    pub cut: Option<Cut>,
    /// What broke the body off, if it did.
    pub broken: Option<NetError>,
}

impl Excerpt {
    /// The bytes as text; what is not UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// The text, and a note of what is missing.
impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.bytes))?;
        if let Some(cut) = &self.cut {
            write!(f, " … (cut: {} of at least {} bytes)", cut.kept, cut.total)?;
        }
        if let Some(error) = &self.broken {
            write!(f, " … (broken off: {error})")?;
        }
        Ok(())
    }
}

/// A body as it arrives: a [`Stream`] of bytes, and an [`http_body::Body`] with trailers. Watches its idle timeout, its
/// deadline and its cancellation; any of them ends it with an error and closes the connection.
pub struct Body {
    source: Source,
    /// Read ahead by [`Body::peek`] and not yet handed out.
    ahead: VecDeque<Bytes>,
    received: u64,
    declared: Option<u64>,
    authority: Option<Authority>,
    watch: Option<Watch>,
}

enum Source {
    Wire(Incoming),
    /// Whoever reads it drives its connection.
    Driven(Driven),
    Ended,
    /// Broke while [`Body::peek`] read ahead; told when what was read has been handed out.
    Broken(NetError),
}

/// What may end the waiting for a body.
pub(crate) struct Watch {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) idle: Option<Duration>,
    /// The steady instant at which the whole request must be done, and the length of that timeout.
    pub(crate) deadline: Option<(Duration, Duration)>,
    pub(crate) cancel: Option<CancellationToken>,
    waiting_since: Option<Duration>,
    timer: Option<BoxFuture<'static, ()>>,
    cancelled: Option<BoxFuture<'static, ()>>,
}

impl Watch {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        idle: Option<Duration>,
        deadline: Option<(Duration, Duration)>,
        cancel: Option<CancellationToken>,
    ) -> Self {
        Watch { clock, idle, deadline, cancel, waiting_since: None, timer: None, cancelled: None }
    }

    /// Something arrived: may it still be handed on?
    fn check(&mut self) -> Result<(), Ending> {
        self.waiting_since = None;
        if self.cancel.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Err(Ending::Cancelled);
        }
        match self.deadline {
            Some((at, limit)) if self.clock.steady() >= at => Err(Ending::Late(TimeoutKind::Whole, limit)),
            _ => Ok(()),
        }
    }

    /// Nothing has arrived: is the waiting over? The timer is armed once for an idle period, not once for a piece, and looks
    /// again when it fires: a stream of many small pieces would otherwise pay for a timer each.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        if let Some(token) = &self.cancel {
            let cancelled = self.cancelled.get_or_insert_with(|| Box::pin(token.clone().cancelled_owned()));
            if cancelled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ending::Cancelled);
            }
        }
        if self.idle.is_none() && self.deadline.is_none() {
            return Poll::Pending;
        }
        loop {
            if let Some(timer) = &mut self.timer {
                // A wait that has only begun cannot be over, but an old timer may still be running for an earlier one.
                if self.waiting_since.is_none() {
                    self.waiting_since = Some(self.clock.steady());
                }
                ready!(timer.as_mut().poll(cx));
                self.timer = None;
            }
            let now = self.clock.steady();
            let since = *self.waiting_since.get_or_insert(now);
            let idle_at = self.idle.map(|idle| (since.saturating_add(idle), TimeoutKind::Idle, idle));
            let whole_at = self.deadline.map(|(at, limit)| (at, TimeoutKind::Whole, limit));
            let Some((at, kind, limit)) = [idle_at, whole_at].into_iter().flatten().min_by_key(|(at, ..)| *at) else {
                return Poll::Pending;
            };
            if now >= at {
                return Poll::Ready(Ending::Late(kind, limit));
            }
            self.timer = Some(self.clock.sleep(at.saturating_sub(now)));
        }
    }
}

enum Ending {
    Cancelled,
    Late(TimeoutKind, Duration),
}

impl Body {
    pub(crate) fn new(incoming: Incoming, headers: &HeaderMap, authority: Option<Authority>, watch: Watch) -> Self {
        Body::from(Source::Wire(incoming), headers, authority, watch)
    }

    pub(crate) fn driven(driven: Driven, headers: &HeaderMap, authority: Option<Authority>, watch: Watch) -> Self {
        Body::from(Source::Driven(driven), headers, authority, watch)
    }

    fn from(source: Source, headers: &HeaderMap, authority: Option<Authority>, watch: Watch) -> Self {
        let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        Body { source, ahead: VecDeque::new(), received: 0, declared, authority, watch: Some(watch) }
    }

    /// A body that is already here: for answers made without the network.
    #[must_use]
    pub fn ready(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let ahead = if bytes.is_empty() { VecDeque::new() } else { VecDeque::from([bytes]) };
        Body { source: Source::Ended, ahead, received: length, declared: Some(length), authority: None, watch: None }
    }

    /// The next piece, as it arrived; `None` at the end.
    pub async fn chunk(&mut self) -> Option<crate::Result<Bytes>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// The length in bytes that the answer declared.
    #[must_use]
    pub fn declared(&self) -> Option<u64> {
        self.declared
    }

    /// As [`Response::bytes`].
    ///
    /// # Errors
    /// As [`Response::bytes`].
    pub async fn bytes(mut self, limit: usize) -> crate::Result<Bytes> {
        let too_large = NetError::BodyTooLarge { limit, declared: self.declared };
        if self.declared.is_some_and(|declared| declared > length(limit)) {
            return Err(too_large);
        }
        let Some(first) = self.chunk().await.transpose()? else { return Ok(Bytes::new()) };
        if first.len() > limit {
            return Err(too_large);
        }
        let Some(second) = self.chunk().await.transpose()? else { return Ok(first) };
        let mut whole = BytesMut::from(first);
        let mut next = second;
        loop {
            if whole.len().saturating_add(next.len()) > limit {
                return Err(too_large);
            }
            whole.extend_from_slice(&next);
            match self.chunk().await.transpose()? {
                Some(bytes) => next = bytes,
                None => return Ok(whole.freeze()),
            }
        }
    }

    /// As [`Response::excerpt`].
    pub async fn excerpt(mut self, limit: usize) -> Excerpt {
        self.peek(limit).await
    }

    /// Reads ahead until `limit` bytes or the end are there, without taking them: the body still hands out everything.
    pub async fn peek(&mut self, limit: usize) -> Excerpt {
        let broken = self.hold(limit).await.err();
        let have: usize = self.ahead.iter().map(Bytes::len).sum();
        let mut bytes = BytesMut::with_capacity(have.min(limit));
        for piece in &self.ahead {
            let room = limit - bytes.len();
            bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        let total = self.declared.unwrap_or(0).max(self.received);
        let cut = (have > limit).then(|| Cut { kept: length(limit), total, unit: "bytes".to_owned() });
        Excerpt { bytes: bytes.freeze(), cut, broken }
    }

    /// Waits until more than `limit` bytes have arrived, or the end; the body still hands out everything.
    ///
    /// # Errors
    /// What broke the body off before that; it is told again when the body is read.
    pub async fn hold(&mut self, limit: usize) -> crate::Result<()> {
        // Pieces are asked for as if none had been put by.
        let mut pieces = std::mem::take(&mut self.ahead);
        let mut have: usize = pieces.iter().map(Bytes::len).sum();
        let mut held = Ok(());
        // One more byte than the limit tells whether there is more.
        while have <= limit && !matches!(self.source, Source::Ended) {
            match self.chunk().await {
                Some(Ok(bytes)) => {
                    have = have.saturating_add(bytes.len());
                    pieces.push_back(bytes);
                }
                Some(Err(error)) => {
                    self.source = Source::Broken(error.clone());
                    held = Err(error);
                    break;
                }
                None => break,
            }
        }
        self.ahead = pieces;
        held
    }

    /// The next piece, without taking it: the body still hands out everything. `None` at the end.
    ///
    /// # Errors
    /// What broke the body off; it is told again when the body is read.
    pub async fn first(&mut self) -> crate::Result<Option<Bytes>> {
        if let Some(bytes) = self.ahead.front() {
            return Ok(Some(bytes.clone()));
        }
        match self.chunk().await {
            Some(Ok(bytes)) => {
                self.ahead.push_front(bytes.clone());
                Ok(Some(bytes))
            }
            Some(Err(error)) => {
                self.source = Source::Broken(error.clone());
                Err(error)
            }
            None => Ok(None),
        }
    }

    /// The next piece after those that were put by, without taking it: the body still hands out everything. `None` at the end.
    /// Nothing is lost where it is not waited for to the end.
    ///
    /// # Errors
    /// What broke the body off; it is told again when the body is read.
    pub async fn further(&mut self) -> crate::Result<Option<Bytes>> {
        std::future::poll_fn(|cx| {
            // Pieces are asked for as if none had been put by.
            let mut ahead = std::mem::take(&mut self.ahead);
            let polled = Pin::new(&mut *self).poll_next(cx);
            if let Poll::Ready(Some(Ok(bytes))) = &polled {
                ahead.push_back(bytes.clone());
            }
            self.ahead = ahead;
            polled
        })
        .await
        .transpose()
        .inspect_err(|error| self.source = Source::Broken(error.clone()))
    }

    fn end_with(&mut self, error: NetError) -> NetError {
        // Dropping what is left of the wire closes the connection.
        self.source = Source::Ended;
        error
    }

    fn name(&self) -> String {
        self.authority.as_ref().map_or_else(String::new, |authority| authority.as_str().to_owned())
    }

    fn ended_early(&mut self, ending: Ending) -> NetError {
        let error = match ending {
            Ending::Cancelled => NetError::Cancelled,
            Ending::Late(which, after) => NetError::Timeout { which, after, authority: self.name() },
        };
        self.end_with(error)
    }

    fn broke(&mut self, error: hyper::Error) -> NetError {
        let (authority, received) = (self.name(), self.received);
        // Chunks that are none come as such an error of input and output.
        let is_malformed = error.is_parse()
            || std::error::Error::source(&error)
                .and_then(|cause| cause.downcast_ref::<std::io::Error>())
                .is_some_and(|error| matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData));
        let cause: Cause = Arc::new(error);
        self.end_with(if is_malformed {
            NetError::Protocol { authority, cause }
        } else {
            NetError::Interrupted { authority, received, cause }
        })
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = NetError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<crate::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if let Some(bytes) = this.ahead.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let frame = match &mut this.source {
            Source::Wire(incoming) => Pin::new(incoming).poll_frame(cx),
            Source::Driven(driven) => driven.poll_frame(cx),
            Source::Ended => return Poll::Ready(None),
            Source::Broken(error) => {
                let error = error.clone();
                return Poll::Ready(Some(Err(this.end_with(error))));
            }
        };
        match frame {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(Err(ending)) = this.watch.as_mut().map(Watch::check) {
                    return Poll::Ready(Some(Err(this.ended_early(ending))));
                }
                this.received += frame.data_ref().map_or(0, |data| length(data.len()));
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(this.broke(error)))),
            Poll::Ready(None) => {
                this.source = Source::Ended;
                Poll::Ready(None)
            }
            Poll::Pending => match this.watch.as_mut().map(|watch| watch.poll_end(cx)) {
                Some(Poll::Ready(ending)) => Poll::Ready(Some(Err(this.ended_early(ending)))),
                _ => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_empty()
            && match &self.source {
                Source::Wire(incoming) => incoming.is_end_stream(),
                Source::Driven(driven) => driven.is_end_stream(),
                Source::Ended => true,
                Source::Broken(_) => false,
            }
    }

    fn size_hint(&self) -> SizeHint {
        let ahead = self.ahead.iter().map(|bytes| length(bytes.len())).sum::<u64>();
        let mut hint = match &self.source {
            Source::Wire(incoming) => incoming.size_hint(),
            Source::Driven(driven) => driven.size_hint(),
            Source::Ended => SizeHint::with_exact(0),
            Source::Broken(_) => SizeHint::new(),
        };
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(ahead));
        }
        hint.set_lower(hint.lower().saturating_add(ahead));
        hint
    }
}

impl Stream for Body {
    type Item = crate::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(http_body::Body::poll_frame(self.as_mut(), cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Poll::Ready(Some(Ok(bytes))),
                    // Trailers, and pieces without bytes.
                    _ => {}
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("received", &self.received)
            .field("declared", &self.declared)
            .finish_non_exhaustive()
    }
}
