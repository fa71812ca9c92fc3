//! What happens in an exchange, for traces and logs.

use crate::exchange::Principal;
use crate::models::Rung;
use crate::tab::Bill;
use placet_core::{ProviderId, RunId, Timestamp, Usage};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Something that happened in an exchange. Every start has exactly one end.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FlowEvent {
    /// The run of the exchange.
    pub run: RunId,
    /// The name that the flow is served by.
    pub flow: String,
    /// The place within the flow: numbers of steps and members, joined by dots; empty for the whole.
    pub path: String,
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: FlowHappening,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FlowHappening {
    /// The exchange, or a step of it, has begun.
    Started,
    /// It has ended.
    Ended {
        /// The error's code, where it ended with one.
        error: Option<String>,
        /// How long it took, in milliseconds.
        took_ms: u64,
        /// What the exchange had used by then.
        usage: Usage,
    },
    /// What a step did is known from before, and was not done again.
    Cached,
    /// An agent is asking a model.
    Asked {
        /// The provider.
        provider: ProviderId,
        /// Its model.
        model: String,
        /// Where on the ladder it was found.
        rung: Rung,
    },
    /// A hint was left out of a request, because the provider cannot take it.
    Omitted {
        /// The field, and why.
        what: String,
    },
    /// An agent has selected a flow.
    Selected {
        /// Its id.
        id: String,
    },
    /// A selection was entered, and this flow taken; nothing where none was selected.
    Entered {
        /// Its id.
        id: Option<String>,
    },
    /// An answer, or a stage of it, was delivered.
    Responded,
    /// A notification was sent.
    Notified,
    /// The exchange waits for the client's tools.
    Suspended {
        /// How many calls the client was handed.
        calls: usize,
    },
    /// The exchange goes on with the client's results.
    Resumed,
    /// Something is to be done later.
    Scheduled {
        /// The id of its job.
        id: String,
    },
    /// A follow-up, or the body of a trigger, failed; the answer is not touched by it.
    FollowUpFailed {
        /// The error's code.
        error: String,
    },
}

/// Is told what happens in exchanges. It must not block.
pub trait FlowObserver: Send + Sync {
    /// Something happened.
    fn happened(&self, event: &FlowEvent);
}

/// A piece of work that was done behind clients' backs: what follows an answer, or what a trigger set off. Each try is one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkDone {
    /// Its run.
    pub run: RunId,
    /// The name that its flow is served by.
    pub flow: String,
    /// For whom it was done; nobody's name where nobody asked for it.
    pub principal: Principal,
    /// When it began.
    pub at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// Which try it was, from 1.
    pub attempt: u32,
    /// Who was asked for it, and what that cost.
    pub bill: Bill,
    /// The trace that it is a part of.
    pub trace: Option<String>,
    /// What went wrong, without secrets.
    pub problem: Option<String>,
    /// Whether it was cancelled, and will be taken up again.
    pub is_cancelled: bool,
}

/// Is told what work came to that was done behind clients' backs. It must not block.
pub trait WorkObserver: Send + Sync {
    /// Some work has ended.
    fn done(&self, done: &WorkDone);
}

/// Keeps the last 500 events: what happened lately, for people who look.
#[derive(Debug, Default)]
pub struct Recent {
    events: Mutex<std::collections::VecDeque<FlowEvent>>,
}

impl Recent {
    /// How many events are kept.
    pub const KEPT: usize = 500;

    /// One that has seen nothing yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// What it has seen, the oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<FlowEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl FlowObserver for Recent {
    fn happened(&self, event: &FlowEvent) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() == Recent::KEPT {
            events.pop_front();
        }
        events.push_back(event.clone());
    }
}
