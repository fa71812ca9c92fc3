//! Bodies: how a client's is read, and what an answer's is made of.

use crate::passage::Passing;
use crate::refusal::Refusal;
use bytes::{Bytes, BytesMut};
use futures_util::future::FutureExt as _;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use placet_core::{BoxFuture, Env, ErrorKind};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Pieces of an answer that we write ourselves, in order. Dropping it tells whoever makes them that nobody reads any more.
pub type Pieces = Pin<Box<dyn futures_util::Stream<Item = Result<Bytes, Broken>> + Send>>;

/// What is held for as long as a body is.
pub(crate) type Holding = Box<dyn Send>;

/// The body of an answer.
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Passing(Box<Passing>),
    Pieces(Pieces),
    /// With something that is let go of when the body is done with.
    Held(Box<Body>, #[expect(dead_code, reason = "it acts when it is dropped")] Holding),
}

/// An answer broke off and cannot be ended in its own protocol: the connection is closed instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer broke off")]
pub struct Broken;

impl Body {
    /// Nothing.
    #[must_use]
    pub fn empty() -> Self {
        Body(Kind::Whole(None))
    }

    /// These bytes.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Body(Kind::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// Pieces as they come.
    #[must_use]
    pub fn pieces(pieces: Pieces) -> Self {
        Body(Kind::Pieces(pieces))
    }

    /// As it is, with something that is dropped with it.
    pub(crate) fn holding(self, held: Holding) -> Self {
        Body(Kind::Held(Box::new(self), held))
    }

    pub(crate) fn passing(passing: Passing) -> Self {
        Body(Kind::Passing(Box::new(passing)))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Whole(Some(_)) => "Body(whole)",
            Kind::Whole(None) => "Body(empty)",
            Kind::Passing(_) => "Body(passing)",
            Kind::Pieces(_) => "Body(pieces)",
            Kind::Held(body, _) => return body.fmt(f),
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.get_mut().0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Passing(passing) => passing.poll_piece(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))),
            Kind::Pieces(pieces) => {
                pieces.as_mut().poll_next(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
            Kind::Held(body, _) => Pin::new(&mut **body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Held(body, _) => body.is_end_stream(),
            Kind::Passing(_) | Kind::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX)))
            }
            Kind::Passing(passing) => passing.size_hint(),
            Kind::Pieces(_) => SizeHint::new(),
            Kind::Held(body, _) => body.size_hint(),
        }
    }
}

/// How a client's body is bounded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) bytes: usize,
    pub(crate) idle: Duration,
    pub(crate) whole: Duration,
}

/// Reads a client's body whole. Nearly every body comes in one piece, which is not copied.
pub(crate) async fn read(body: &mut Incoming, bounds: Bounds, env: &Env) -> Result<Bytes, Refusal> {
    use http_body::Body as _;
    let declared = body.size_hint().exact();
    if declared.is_some_and(|declared| declared > u64::try_from(bounds.bytes).unwrap_or(u64::MAX)) {
        return Err(too_large(bounds.bytes));
    }
    let deadline = env.clock().steady().saturating_add(bounds.whole);
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    while let Some(piece) = next(body, bounds.idle, deadline, env).await? {
        if first.len().max(more.len()).saturating_add(piece.len()) > bounds.bytes {
            return Err(too_large(bounds.bytes));
        }
        if first.is_empty() && more.is_empty() {
            if body.is_end_stream() {
                return Ok(piece);
            }
            first = piece;
            continue;
        }
        if more.is_empty() {
            let room = declared.and_then(|declared| usize::try_from(declared).ok()).unwrap_or(first.len() * 2);
            more.reserve(room.min(bounds.bytes));
            more.extend_from_slice(&std::mem::take(&mut first));
        }
        more.extend_from_slice(&piece);
    }
    Ok(if more.is_empty() { first } else { more.freeze() })
}

/// Reads the rest of a body that nobody wants, within bounds.
pub(crate) async fn read_on(mut body: Incoming, (patience, most): (Duration, usize), env: Env) {
    let rest = async {
        let mut left = most;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    tokio::select! {
        () = rest => {}
        () = env.sleep(patience) => {}
    }
}

/// The next piece of data; the timer is only made where the piece is not there yet.
async fn next(body: &mut Incoming, idle: Duration, deadline: Duration, env: &Env) -> Result<Option<Bytes>, Refusal> {
    loop {
        let frame = {
            let mut coming = body.frame();
            match (&mut coming).now_or_never() {
                Some(frame) => frame,
                None => {
                    let left = deadline.saturating_sub(env.clock().steady());
                    let timer: BoxFuture<'_, ()> = env.sleep(idle.min(left));
                    tokio::select! {
                        biased;
                        frame = coming => frame,
                        () = timer => return Err(too_slow()),
                    }
                }
            }
        };
        match frame {
            None => return Ok(None),
            Some(Err(_)) => {
                return Err(Refusal::new(400, ErrorKind::InvalidRequest, "the body ended before its declared length"));
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => return Ok(Some(data)),
                // Trailers say nothing to us.
                Err(_) => {}
            },
        }
    }
}

pub(crate) fn too_large(limit: usize) -> Refusal {
    Refusal::new(413, ErrorKind::InvalidRequest, format!("the body is longer than the limit of {limit} bytes"))
}

fn too_slow() -> Refusal {
    Refusal::new(408, ErrorKind::Timeout, "the body took too long to arrive")
}
