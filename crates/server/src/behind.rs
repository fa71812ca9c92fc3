//! What is written down of work that is done behind clients' backs: what follows an answer, and what triggers set off.

use crate::ledger::{Ledger, LedgerLine};
use crate::metrics::Outcome;
use crate::telling;
use placet_core::Usage;
use placet_flows::{WorkDone, WorkObserver};

/// Writes a line for each piece of work.
pub(crate) struct Behind {
    ledger: Ledger,
}

impl Behind {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Behind { ledger }
    }
}

impl WorkObserver for Behind {
    fn done(&self, done: &WorkDone) {
        let (status, outcome) = match &done.problem {
            None => (200, Outcome::Whole),
            Some(_) if done.is_cancelled => (499, Outcome::Cancelled),
            Some(_) => (500, Outcome::Failed),
        };
        let asked = done.bill.asked.as_ref();
        // As `traceparent` has it: a version, then the trace.
        let trace = done.trace.as_deref().and_then(|trace| trace.split('-').nth(1)).unwrap_or_default();
        self.ledger.record(&LedgerLine {
            at: done.at,
            id: done.run.as_str().into(),
            key: done.principal.as_str().into(),
            protocol: "later".into(),
            model: done.flow.as_str().into(),
            provider: asked.map_or("", |(provider, _)| provider.as_str()).into(),
            provider_model: asked.map_or("", |(_, model)| model.as_str()).into(),
            status,
            outcome: outcome.as_str().into(),
            usage: Some(done.bill.usage).filter(|usage| *usage != Usage::default()),
            cost: done.bill.cost,
            first_us: 0,
            whole_us: u64::try_from(done.took.as_micros()).unwrap_or(u64::MAX),
            fallbacks: 0,
            trace: trace.into(),
            tools: Vec::new(),
            problem: done.problem.as_deref().map(telling::kept).unwrap_or_default().into(),
        });
    }
}
