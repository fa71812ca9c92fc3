//! What else is served beside the models: boards, MCP, runs.

use crate::body::Body;
use crate::principal::Principal;
use crate::refusal::Refusal;
use bytes::Bytes;
use http::{Method, Request, Response};
use placet_core::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// Serves every path below a prefix. The door, the key and the limits on bodies have been seen to before it is called.
pub trait Mount: Send + Sync + fmt::Debug {
    /// Whether a path is served here: `/v1/boards` and everything below it, for example.
    fn serves(&self, path: &str) -> bool;

    /// Answers a request.
    fn answer(&self, request: Request<Bytes>, principal: Arc<Principal>) -> BoxFuture<'_, Response<Body>>;

    /// What is answered to a request for this path that was refused before it came here, where that has a form of its own.
    fn refusal(&self, _method: &Method, _path: &str, _refusal: &Refusal) -> Option<Response<Body>> {
        None
    }
}
