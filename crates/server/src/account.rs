//! What is noted of one request while it is answered, and written down when it ends.

use crate::gateway::Gateway;
use crate::ledger::LedgerLine;
use crate::limiter::{Reservation, Spent};
use crate::metrics::Outcome;
use crate::principal::Principal;
use crate::routing::Route;
use http::HeaderValue;
use placet_core::id::IdKind;
use placet_core::{Timestamp, Usage};
use placet_wire::passing::Speech;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// The id of a request: `req_` and 32 hexadecimal digits that sort by time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestId([u8; 36]);

impl IdKind for RequestId {
    const PREFIX: &'static str = "req";

    fn from_uuid(uuid: uuid::Uuid) -> Self {
        let mut text = *b"req_00000000000000000000000000000000";
        let mut digits = [0; uuid::fmt::Simple::LENGTH];
        text[4..].copy_from_slice(uuid.simple().encode_lower(&mut digits).as_bytes());
        RequestId(text)
    }
}

impl RequestId {
    pub(crate) fn as_str(&self) -> &str {
        // It is made of hexadecimal digits.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub(crate) fn header(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.0).unwrap_or(HeaderValue::from_static("req_"))
    }

    /// 16 digits to name our part of a trace by.
    pub(crate) fn span(&self) -> &str {
        &self.as_str()[20..]
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One request, from the moment its model is known. It is written down once, when it ends or is dropped.
pub(crate) struct Account {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) principal: Arc<Principal>,
    pub(crate) route: Arc<Route>,
    /// The target that is asked, or was asked last.
    pub(crate) target: usize,
    pub(crate) id: RequestId,
    pub(crate) at: Timestamp,
    pub(crate) started: Duration,
    pub(crate) speech: Speech,
    /// The client's name of the model, where it is not the route's.
    pub(crate) model: Option<Box<str>>,
    pub(crate) status: u16,
    pub(crate) first: Option<Duration>,
    pub(crate) fallbacks: u32,
    pub(crate) trace: Option<Box<str>>,
    pub(crate) tools: Vec<String>,
    pub(crate) reservation: Reservation,
    pub(crate) usage: Option<Usage>,
    pub(crate) is_closed: bool,
    /// Keeps the request's place until it ends.
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

impl Account {
    /// The answer has begun.
    pub(crate) fn begins(&mut self) {
        if self.first.is_none() {
            self.first = Some(self.gateway.env.clock().steady().saturating_sub(self.started));
        }
    }

    /// Writes it down.
    pub(crate) fn close(&mut self, outcome: Outcome, usage: Option<Usage>) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        self.place = None;
        let usage = usage.or(self.usage);
        let whole = self.gateway.env.clock().steady().saturating_sub(self.started);
        let target = self.route.targets.get(self.target);
        if let Some(target) = target {
            target.series.note(outcome, usage.as_ref(), self.first, whole);
        }
        let cost = target.and_then(|target| target.price).zip(usage).map(|(price, usage)| usage.cost(&price));
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.gateway.ledger.record(&LedgerLine {
            at: self.at,
            id: Cow::Borrowed(self.id.as_str()),
            key: Cow::Borrowed(&self.principal.key),
            protocol: Cow::Borrowed(self.speech.as_str()),
            model: Cow::Borrowed(self.model.as_deref().unwrap_or(&self.route.name)),
            provider: Cow::Borrowed(target.map_or("", |target| &*target.provider)),
            provider_model: Cow::Borrowed(target.map_or("", |target| &*target.model)),
            status: self.status,
            outcome: Cow::Borrowed(outcome.as_str()),
            usage,
            cost,
            first_us: self.first.map_or(0, micros),
            whole_us: micros(whole),
            fallbacks: self.fallbacks,
            trace: Cow::Borrowed(self.trace.as_deref().unwrap_or_default()),
            tools: self.tools.iter().map(|tool| Cow::Borrowed(tool.as_str())).collect(),
        });
        self.gateway.metrics.in_flight.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        self.gateway.limiter.after(&self.principal, self.reservation, &Spent::new(usage, outcome == Outcome::Whole));
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // Nobody ended it, so whoever asked is gone.
        self.close(Outcome::Cancelled, None);
    }
}
