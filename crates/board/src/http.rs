//! A board over HTTP, as a function from requests to answers: whoever listens hands requests in.
//!
//! The seven operations answer to the letter as those of the boards that existing clients were written for; what those
//! boards lack (opening, listing, registering, outcomes, tails) stands beside them. A [`BoardsEndpoint`] holds nothing but
//! [`Boards`]: any process with the store answers alike.

mod access;
mod answer;
mod bodies;
mod operations;
mod route;
mod streams;

pub use access::{Access, Act, Denied, Grant, Tokens, Wanted};
pub use answer::{Body, Broken};

use crate::boards::Boards;
use answer::Answer;
use bytes::Bytes;
use http::{HeaderName, Request, Response};
use route::Route;
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The most bytes of a request's body.
pub const BODY_BYTES: usize = 16 << 20;

/// The boards of a store, over HTTP. Cheap to clone.
#[derive(Clone)]
pub struct BoardsEndpoint {
    boards: Boards,
    prefix: Arc<str>,
    access: Option<Arc<dyn Access>>,
    stop: CancellationToken,
}

/// Who asks, and what that allows.
#[derive(Clone, Copy)]
enum Caller<'a> {
    /// Whoever shows that token, if any.
    Showing(Option<&'a str>),
    /// Somebody who was let in before.
    Granted(&'a Grant),
}

impl BoardsEndpoint {
    /// Serves these boards under `prefix` (`/v1` for `/v1/boards/…`). Whoever can reach it may do everything: see
    /// [`BoardsEndpoint::access`].
    #[must_use]
    pub fn new(boards: Boards, prefix: impl Into<String>) -> Self {
        let prefix: String = prefix.into();
        let stop = CancellationToken::new();
        BoardsEndpoint { boards, prefix: prefix.trim_end_matches('/').into(), access: None, stop }
    }

    /// Ends answers that have no end of their own, and does not wait for anything any more, once `stop` is cancelled.
    #[must_use]
    pub fn until(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// Asks before every operation whether the caller may.
    #[must_use]
    pub fn access(mut self, access: Arc<dyn Access>) -> Self {
        self.access = Some(access);
        self
    }

    /// The boards.
    #[must_use]
    pub fn boards(&self) -> &Boards {
        &self.boards
    }

    /// Whether a path is one of this endpoint.
    #[must_use]
    pub fn serves(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&*self.prefix).and_then(|rest| rest.strip_prefix("/boards"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Answers a request. Whatever it holds, there is an answer: malformed input is one of status 400.
    pub async fn handle(&self, request: Request<Bytes>) -> Response<Body> {
        self.answer(request, None).await
    }

    /// The same for a caller who was let in before and may do what `grant` says, whatever token the request shows.
    pub async fn handle_as(&self, request: Request<Bytes>, grant: &Grant) -> Response<Body> {
        self.answer(request, Some(grant)).await
    }

    /// What is answered where whoever listens has refused a request to `path`, in the words of the boards.
    #[must_use]
    pub fn refusal(&self, method: &str, path: &str, status: u16, detail: &str) -> Response<Body> {
        let route = (status == 405).then(|| Route::find(self.below(path), method));
        let answer = route.and_then(Result::err).unwrap_or_else(|| Answer::refused(status, detail));
        answer.into_response()
    }

    fn below<'p>(&self, path: &'p str) -> &'p str {
        path.strip_prefix(&*self.prefix).unwrap_or_default()
    }

    async fn answer(&self, request: Request<Bytes>, grant: Option<&Grant>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let query = parts.uri.query().unwrap_or_default();
        let answer = match Route::find(self.below(path), parts.method.as_str()) {
            Err(answer) => answer,
            Ok(route) => {
                let token = parts.headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
                let token = token.and_then(bearer);
                let caller = grant.map_or(Caller::Showing(token), Caller::Granted);
                let header = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
                let takes_events =
                    header(http::header::ACCEPT).is_some_and(|accept| accept.contains("text/event-stream"));
                let last_event = header(LAST_EVENT_ID).and_then(|id| id.trim().parse().ok());
                let asked = operations::Asked { endpoint: self, caller, query, takes_events, last_event, body };
                asked.answer(&route).await.unwrap_or_else(|problem| problem)
            }
        };
        answer.into_response()
    }

    /// Whether the caller may.
    fn allows(&self, caller: Caller<'_>, wanted: &Wanted<'_>) -> Result<(), Answer> {
        let allowed = match (caller, &self.access) {
            (Caller::Granted(grant), _) => grant.allows(wanted),
            (Caller::Showing(token), Some(access)) => access.allows(token, wanted),
            (Caller::Showing(_), None) => Ok(()),
        };
        allowed.map_err(|denied| Answer::denied(&denied))
    }
}

/// The token of an `authorization` header.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl fmt::Debug for BoardsEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoardsEndpoint")
            .field("boards", &self.boards)
            .field("prefix", &self.prefix)
            .field("guarded", &self.access.is_some())
            .finish()
    }
}
