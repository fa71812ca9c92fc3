//! A board over HTTP, as a function from requests to answers: whoever listens hands requests in.
//!
//! The seven operations answer to the letter as those of the boards that existing clients were written for; what those
//! boards lack (opening, listing, registering, outcomes, tails) stands beside them. A [`Service`] holds nothing but
//! [`Boards`]: any process with the store answers alike.

mod access;
mod answer;
mod operations;
mod route;

pub use access::{Access, Act, Denied, Grant, Tokens, Wanted};
pub use answer::Body;

use crate::boards::Boards;
use answer::Answer;
use bytes::Bytes;
use http::{Request, Response};
use route::Route;
use std::fmt;
use std::sync::Arc;

/// The most bytes of a request's body.
pub const BODY_BYTES: usize = 16 << 20;

/// The boards of a store, over HTTP. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    boards: Boards,
    prefix: Arc<str>,
    access: Option<Arc<dyn Access>>,
}

impl Service {
    /// Serves these boards under `prefix` (`/v1` for `/v1/boards/…`). Whoever can reach it may do everything: see
    /// [`Service::access`].
    #[must_use]
    pub fn new(boards: Boards, prefix: impl Into<String>) -> Self {
        let prefix: String = prefix.into();
        Service { boards, prefix: prefix.trim_end_matches('/').into(), access: None }
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

    /// Whether a path is one of this service.
    #[must_use]
    pub fn serves(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&*self.prefix).and_then(|rest| rest.strip_prefix("/boards"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Answers a request. Whatever it holds, there is an answer: malformed input is one of status 400.
    pub async fn handle(&self, request: Request<Bytes>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let query = parts.uri.query().unwrap_or_default();
        let answer = match Route::find(path.strip_prefix(&*self.prefix).unwrap_or_default(), parts.method.as_str()) {
            Err(answer) => answer,
            Ok(route) => {
                let token = parts.headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
                let token = token.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim);
                let asked = operations::Asked { service: self, token, query, body };
                asked.answer(&route).await.unwrap_or_else(|problem| problem)
            }
        };
        answer.into_response()
    }

    /// Whether the caller may.
    fn allows(&self, token: Option<&str>, wanted: &Wanted<'_>) -> Result<(), Answer> {
        match &self.access {
            None => Ok(()),
            Some(access) => access.allows(token, wanted).map_err(|denied| Answer::denied(&denied)),
        }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("boards", &self.boards)
            .field("prefix", &self.prefix)
            .field("guarded", &self.access.is_some())
            .finish()
    }
}
