//! Answers: statuses, bodies, and the errors in the wire's words.

use super::access::Denied;
use crate::error::BoardError;
use crate::wire::ErrorBody;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::{HeaderValue, Response, StatusCode, header};
use std::fmt;

/// The body of an answer.
pub enum Body {
    /// All of it.
    Whole(Bytes),
    /// Pieces as they come.
    Stream(BoxStream<'static, Result<Bytes, Broken>>),
}

/// An answer broke off. It is not to be ended as if it were whole: whoever sends it closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer broke off")]
pub struct Broken;

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Whole(bytes) => write!(f, "{} bytes", bytes.len()),
            Body::Stream(_) => f.write_str("a stream"),
        }
    }
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) allow: Option<String>,
    pub(super) retry_after: Option<&'static str>,
    content_type: &'static str,
    body: Body,
}

impl Answer {
    pub(super) fn json(status: u16, body: impl Into<Bytes>) -> Self {
        let (allow, retry_after) = (None, None);
        Answer { status, allow, retry_after, content_type: "application/json", body: Body::Whole(body.into()) }
    }

    pub(super) fn of(status: u16, body: &impl serde::Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(json) => Answer::json(status, json),
            Err(error) => Answer::error(500, "internal", &error.to_string()),
        }
    }

    pub(super) fn empty(status: u16) -> Self {
        Answer::json(status, Bytes::new())
    }

    pub(super) fn stream(content_type: &'static str, pieces: BoxStream<'static, Result<Bytes, Broken>>) -> Self {
        let (allow, retry_after) = (None, None);
        Answer { status: 200, allow, retry_after, content_type, body: Body::Stream(pieces) }
    }

    pub(super) fn error(status: u16, error: &str, detail: &str) -> Self {
        Answer::of(status, &ErrorBody { error: error.to_owned(), detail: detail.to_owned() })
    }

    pub(super) fn bad_body(detail: &str) -> Self {
        Answer::error(400, "bad_body", detail)
    }

    pub(super) fn denied(denied: &Denied) -> Self {
        match denied {
            Denied::Unknown => Answer::error(401, "unauthorised", "this board takes a bearer token that it knows"),
            Denied::Forbidden(why) => Answer::error(403, "forbidden", why),
        }
    }

    /// What is answered where whoever listens has refused a request that was for the boards.
    pub(super) fn refused(status: u16, detail: &str) -> Self {
        let error = match status {
            401 => "unauthorised",
            403 => "forbidden",
            404 => "no_such_route",
            405 => "wrong_method",
            408 => "too_slow",
            413 => "too_large",
            415 => "bad_body",
            421 => "wrong_host",
            429 | 503 => "busy",
            400..500 => "bad_request",
            _ => "internal",
        };
        Answer::error(status, error, detail)
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        if self.status != 204 {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        }
        if let Some(allow) = self.allow.and_then(|allow| HeaderValue::from_str(&allow).ok()) {
            headers.insert(header::ALLOW, allow);
        }
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(wait));
        }
        response
    }
}

impl From<BoardError> for Answer {
    fn from(error: BoardError) -> Self {
        let status = match &error {
            BoardError::UnknownBoard { .. }
            | BoardError::UnknownRegion { .. }
            | BoardError::WrongRegionKind { .. }
            | BoardError::UnsetPremise { .. }
            | BoardError::UnknownAgent { .. }
            | BoardError::UnknownNotification { .. } => 404,
            BoardError::KeyReused { .. } | BoardError::RunOpen | BoardError::DuplicateRegion { .. } => 409,
            BoardError::RunClosed => 410,
            BoardError::DuplicateAgent { .. }
            | BoardError::Premises { .. }
            | BoardError::InvalidSpec { .. }
            | BoardError::InvalidName { .. }
            | BoardError::TooDeep { .. }
            | BoardError::Content(_) => 400,
            BoardError::TooLarge { .. } => 413,
            BoardError::Rule { .. } | BoardError::Busy { .. } | BoardError::Store(_) => 503,
            BoardError::Unreachable { .. } | BoardError::Protocol { .. } => 502,
        };
        let mut answer = match &error {
            // What a store says may name files and hosts: that is for the log.
            BoardError::Store(cause) => {
                tracing::error!(%cause, "a board's store failed");
                Answer::error(status, error.code(), "the store failed; try again")
            }
            error => Answer::error(status, error.code(), &error.to_string()),
        };
        if matches!(error, BoardError::Busy { .. }) {
            answer.retry_after = Some("1");
        }
        answer
    }
}
