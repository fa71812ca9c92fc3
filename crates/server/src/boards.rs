//! Boards, served beside the models.

use crate::body::{Body, Broken};
use crate::mount::Mount;
use crate::principal::Principal;
use crate::refusal::Refusal;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Method, Request, Response};
use placet_board::http::{self as board, BoardsEndpoint};
use placet_core::BoxFuture;
use std::sync::Arc;

/// Boards behind the gateway's door. A key may do on them what its entry in the configuration says, and nothing where it says
/// nothing; where no keys are set, the endpoint's own tokens decide, or nobody does.
#[derive(Clone, Debug)]
pub struct BoardsMount(BoardsEndpoint);

impl BoardsMount {
    /// Serves these.
    #[must_use]
    pub fn new(endpoint: BoardsEndpoint) -> Self {
        BoardsMount(endpoint)
    }
}

impl Mount for BoardsMount {
    fn serves(&self, path: &str) -> bool {
        self.0.serves(path)
    }

    fn answer(&self, request: Request<Bytes>, principal: Arc<Principal>) -> BoxFuture<'_, Response<Body>> {
        Box::pin(async move {
            let answer = match principal.boards() {
                Some(grant) => self.0.handle_as(request, grant).await,
                None if principal.is_anybody() => self.0.handle(request).await,
                None => {
                    let why =
                        format!("the key `{}` is not for boards: say what it may in [keys.{0}.boards]", principal.key);
                    self.0.refusal(request.method().as_str(), request.uri().path(), 403, &why)
                }
            };
            board_answer(answer)
        })
    }

    fn refusal(&self, method: &Method, path: &str, refusal: &Refusal) -> Option<Response<Body>> {
        Some(board_answer(self.0.refusal(method.as_str(), path, refusal.status, &refusal.message)))
    }
}

/// The answer of a board's endpoint as one of the gateway's.
pub fn board_answer(answer: Response<board::Body>) -> Response<Body> {
    answer.map(|body| match body {
        board::Body::Whole(bytes) => Body::whole(bytes),
        board::Body::Stream(pieces) => Body::pieces(Box::pin(pieces.map(|piece| piece.map_err(|_| Broken)))),
    })
}
