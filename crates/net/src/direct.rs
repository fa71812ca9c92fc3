//! Plain HTTP/1.1 connections that are driven by whoever waits for their answer.
//!
//! A pool whose connections are tasks of their own wakes two tasks for every piece of an answer: the connection's, which
//! reads it, and then the reader's. Here the reader drives the connection itself, so that a piece costs one wake-up, and
//! pieces that have arrived together are handed out together.

use crate::connect::{Connector, Leg};
use crate::request::Pieces;
use bytes::Bytes;
use http::uri::Authority;
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest};
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::runtime;

/// A connection with the two ends that hyper gives of it.
pub(crate) struct Live {
    /// None once it has ended.
    connection: Option<Connection<Leg, Pieces>>,
    sender: SendRequest<Pieces>,
    /// The runtime whose reactor tells of its bytes.
    home: Home,
}

/// A runtime. Whoever drives a connection from another one is woken from there, thread to thread, for each piece; so every
/// runtime has idle connections of its own.
type Home = Option<runtime::Id>;

fn home() -> Home {
    runtime::Handle::try_current().ok().map(|handle| handle.id())
}

impl Live {
    /// Lets the connection do what it can at present; says whether it is still there.
    fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(open) = self.connection.as_mut() else { return false };
        if Pin::new(open).poll(cx).is_ready() {
            self.connection = None;
        }
        self.connection.is_some()
    }
}

/// An idle connection, and since which steady instant it is idle.
type Waiting = (Box<Live>, Duration);

/// Idle connections, by runtime, and by host and port. There are few of them, and comparing is cheaper than hashing then.
#[derive(Default)]
pub(crate) struct Idle {
    places: Mutex<Vec<Place>>,
}

/// Those of one host in one runtime.
struct Place {
    home: Home,
    authority: Authority,
    /// The longest idle stand first.
    waiting: Vec<Waiting>,
}

impl Place {
    fn is_of(&self, home: Home, authority: &Authority) -> bool {
        self.home == home && self.authority.as_str() == authority.as_str()
    }
}

/// How many connections are kept, and for how long.
#[derive(Clone, Copy)]
pub(crate) struct Keeping {
    pub(crate) most: usize,
    pub(crate) span: Duration,
}

impl Idle {
    /// A connection that is not known to be closed. `now` is a steady instant.
    async fn take(&self, authority: &Authority, now: Duration, keeping: Keeping) -> Option<Box<Live>> {
        let home = home();
        loop {
            let mut live = {
                let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
                let place = places.iter_mut().find(|place| place.is_of(home, authority))?;
                let (live, since) = place.waiting.pop()?;
                if now.saturating_sub(since) >= keeping.span {
                    // The others have been idle for longer.
                    place.waiting.clear();
                    return None;
                }
                live
            };
            // The other side may have closed it meanwhile; only looking tells.
            let is_open = poll_fn(|cx| Poll::Ready(live.drive(cx))).await;
            if is_open && live.sender.is_ready() {
                return Some(live);
            }
        }
    }

    fn put(&self, authority: Authority, live: Box<Live>, now: Duration, keeping: Keeping) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let found = places.iter().position(|place| place.is_of(live.home, &authority));
        let at = found.unwrap_or_else(|| {
            places.push(Place { home: live.home, authority, waiting: Vec::new() });
            places.len() - 1
        });
        let idle = &mut places[at].waiting;
        if idle.first().is_some_and(|(_, since)| now.saturating_sub(*since) >= keeping.span) {
            idle.retain(|(_, since)| now.saturating_sub(*since) < keeping.span);
        }
        if idle.len() < keeping.most {
            idle.push((live, now));
        }
    }

    /// Connections that have been idle for too long are closed, also those of hosts that nobody asks any more.
    pub(crate) fn sweep(&self, now: Duration, span: Duration) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain_mut(|place| {
            place.waiting.retain(|(_, since)| now.saturating_sub(*since) < span);
            !place.waiting.is_empty()
        });
    }
}

/// Where idle connections come from and go back to.
pub(crate) struct Pool {
    pub(crate) idle: Arc<Idle>,
    pub(crate) clock: Arc<dyn placet_core::Clock>,
    pub(crate) keeping: Keeping,
}

/// Why a request was not answered.
pub(crate) enum Unsent {
    /// No connection could be made.
    Connect(crate::NetError),
    /// It broke; the request had been sent, or a part of it.
    Broke(hyper::Error),
}

impl Pool {
    /// A connection that was idle, if there is one.
    pub(crate) async fn idle(&self, authority: &Authority) -> Option<Box<Live>> {
        self.idle.take(authority, self.clock.steady(), self.keeping).await
    }

    /// A new connection.
    pub(crate) async fn connect(connector: &Connector, uri: http::Uri) -> Result<Box<Live>, Unsent> {
        let leg = connector.plain(uri).await.map_err(Unsent::Connect)?;
        #[expect(clippy::disallowed_methods, reason = "the one crate that builds an HTTP client")]
        let made = hyper::client::conn::http1::handshake(leg).await;
        let (sender, connection) = made.map_err(Unsent::Broke)?;
        Ok(Box::new(Live { connection: Some(connection), sender, home: home() }))
    }

    /// Sends a request over a connection. Where the connection turned out to be closed before anything was sent, the request
    /// comes back.
    pub(crate) async fn send(
        self,
        mut live: Box<Live>,
        authority: Authority,
        request: Request<Pieces>,
    ) -> Result<Response<Driven>, (Unsent, Option<Request<Pieces>>)> {
        let answer = {
            let Live { connection, sender, .. } = &mut *live;
            let mut sending = pin!(sender.try_send_request(request));
            poll_fn(|cx| {
                if let Poll::Ready(answer) = sending.as_mut().poll(cx) {
                    return Poll::Ready(answer);
                }
                if let Some(open) = connection.as_mut()
                    && Pin::new(open).poll(cx).is_ready()
                {
                    // It has ended. Dropping it tells the request, if it has not been told yet.
                    *connection = None;
                }
                sending.as_mut().poll(cx)
            })
            .await
        };
        match answer {
            Ok(response) => Ok(response.map(|incoming| Driven { incoming, live: Some((live, authority, self)) })),
            Err(mut error) => {
                let request = error.take_message();
                Err((Unsent::Broke(error.into_error()), request))
            }
        }
    }
}

/// A body whose connection is driven by reading it.
pub(crate) struct Driven {
    incoming: Incoming,
    live: Option<(Box<Live>, Authority, Pool)>,
}

impl Driven {
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let Some((live, ..)) = &mut self.live else { return Poll::Pending };
                if !live.drive(cx) {
                    // It has ended, and the body knows how.
                    self.live = None;
                }
                ready!(Pin::new(&mut self.incoming).poll_frame(cx))
            }
        };
        if frame.is_none() || self.incoming.is_end_stream() {
            self.give_back(cx);
        }
        Poll::Ready(frame)
    }

    /// The answer is whole: its connection may serve another request.
    fn give_back(&mut self, cx: &mut Context<'_>) {
        let Some((mut live, authority, pool)) = self.live.take() else { return };
        if live.drive(cx) && live.sender.is_ready() {
            let now = pool.clock.steady();
            pool.idle.put(authority, live, now, pool.keeping);
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
