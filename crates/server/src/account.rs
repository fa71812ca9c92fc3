//! What is noted of one request while it is answered, and written down when it ends.

use crate::gateway::Gateway;
use crate::ledger::LedgerLine;
use crate::limiter::{Reservation, Spent};
use crate::metrics::Outcome;
use crate::principal::Principal;
use crate::routing::Route;
use crate::turn::Missed;
use http::HeaderValue;
use placet_core::id::IdKind;
use placet_core::{Money, Timestamp, Usage};
use placet_flows::Tab;
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
    /// Who was asked for an agent's answer, and what that cost.
    pub(crate) tab: Option<Tab>,
    /// What went wrong, for whoever reads the ledger.
    pub(crate) problem: Option<Box<str>>,
    pub(crate) is_hook: bool,
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

    /// What it cost, where that is known.
    pub(crate) fn cost(&self, usage: Option<Usage>) -> Option<Money> {
        match &self.tab {
            Some(tab) => tab.bill().cost,
            None => {
                let price = self.route.targets.get(self.target).and_then(|target| target.price);
                price.zip(usage).map(|(price, usage)| usage.cost(&price))
            }
        }
    }

    /// The host of the server that is asked, where its place is nobody's business.
    pub(crate) fn hidden(&self) -> Option<&str> {
        self.route.targets.get(self.target)?.asked.hidden()
    }

    /// No answer came of it.
    pub(crate) fn missed(&mut self, missed: &Missed) {
        self.status = missed.refusal.status;
        self.problem = missed.problem.as_deref().map(Box::from);
        self.close(if missed.is_ours { Outcome::Refused } else { Outcome::Failed }, None);
    }

    /// We refused it.
    pub(crate) fn refused(&mut self, status: u16) {
        self.status = status;
        self.close(Outcome::Refused, None);
    }

    /// Writes it down.
    pub(crate) fn close(&mut self, outcome: Outcome, usage: Option<Usage>) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        self.place = None;
        let bill = self.tab.as_ref().map(Tab::bill);
        let billed = bill.as_ref().map(|bill| bill.usage).filter(|usage| *usage != Usage::default());
        let usage = usage.or(self.usage).or(billed);
        let whole = self.gateway.env.clock().steady().saturating_sub(self.started);
        let target = self.route.targets.get(self.target).filter(|_| outcome != Outcome::Refused);
        match (target, &self.route.series) {
            _ if outcome == Outcome::Refused => self.gateway.metrics.refused(self.status),
            (Some(target), _) => target.series.note(outcome, usage.as_ref(), self.first, whole),
            // Tokens are counted where they were used.
            (None, Some(series)) => series.note(outcome, None, self.first, whole),
            (None, None) => {}
        }
        let cost = self.cost(usage);
        let asked = bill.as_ref().and_then(|bill| bill.asked.as_ref());
        let (provider, provider_model) = match (target, asked) {
            (Some(target), _) => (&*target.provider, &*target.model),
            (None, Some((provider, model))) => (provider.as_str(), model.as_str()),
            (None, None) => ("", ""),
        };
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.gateway.ledger.record(&LedgerLine {
            at: self.at,
            id: Cow::Borrowed(self.id.as_str()),
            key: Cow::Borrowed(&self.principal.key),
            protocol: Cow::Borrowed(if self.is_hook { "webhook" } else { self.speech.as_str() }),
            model: Cow::Borrowed(self.model.as_deref().unwrap_or(&self.route.name)),
            provider: Cow::Borrowed(provider),
            provider_model: Cow::Borrowed(provider_model),
            status: self.status,
            outcome: Cow::Borrowed(outcome.as_str()),
            usage,
            cost,
            first_us: self.first.map_or(0, micros),
            whole_us: micros(whole),
            fallbacks: self.fallbacks,
            trace: Cow::Borrowed(self.trace.as_deref().unwrap_or_default()),
            tools: self.tools.iter().map(|tool| Cow::Borrowed(tool.as_str())).collect(),
            problem: Cow::Borrowed(self.problem.as_deref().unwrap_or_default()),
        });
        self.gateway.metrics.in_flight.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        self.gateway.limiter.after(&self.principal, self.reservation, &Spent::new(usage, outcome == Outcome::Whole));
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // Nobody ended it, so whoever asked is gone.
        match self.tab.take() {
            Some(tab) if !self.is_closed => self.close_late(tab),
            _ => self.close(Outcome::Cancelled, None),
        }
    }
}

/// How long what goes on for an agent's exchange is waited for, after whoever asked is gone.
const ENDING: Duration = Duration::from_secs(2);

impl Account {
    /// Writes it down once what its agent still does has come to its end: only then is known what that has used.
    fn close_late(&mut self, tab: Tab) {
        self.is_closed = true;
        let gateway = self.gateway.clone();
        let rest = Account {
            gateway: gateway.clone(),
            principal: self.principal.clone(),
            route: self.route.clone(),
            model: self.model.take(),
            trace: self.trace.take(),
            tools: std::mem::take(&mut self.tools),
            problem: self.problem.take(),
            tab: None,
            is_closed: false,
            place: None,
            ..*self
        };
        self.place = None;
        let env = gateway.env.clone();
        drop(env.clone().spawn("account", async move {
            let mut rest = rest;
            tokio::select! {
                () = tab.settled() => {}
                () = env.sleep(ENDING) => {}
            }
            rest.tab = Some(tab);
            rest.close(Outcome::Cancelled, None);
        }));
    }
}
