//! A turn whose target speaks another protocol than the client.

use crate::account::Account;
use crate::body::Body;
use crate::gateway::{Gateway, Snapshot};
use crate::refusal::Refusal;
use crate::routing::{Route, Target};
use crate::turn::{Missed, TurnAsked};
use http::Response;
use placet_core::ErrorKind;
use std::sync::Arc;

impl Gateway {
    pub(crate) async fn translate(
        self: &Arc<Self>,
        _snapshot: &Snapshot,
        _route: &Arc<Route>,
        target: &Target,
        asked: &TurnAsked,
        _account: &mut Option<Account>,
    ) -> Result<Response<Body>, Missed> {
        let message = format!(
            "{} is not asked in {} by this version; use an endpoint of its own protocol",
            target.provider, asked.speech
        );
        Err(Missed {
            refusal: Refusal::new(400, ErrorKind::Unsupported, message),
            class: None,
            wait: None,
            response: None,
        })
    }
}
