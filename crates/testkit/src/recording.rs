//! A recorder that remembers everything it is told, and can be made to fail.

use async_trait::async_trait;
use placet_core::event::{ApprovalDecided, ApprovalRequested, EventBody};
use placet_core::{CapabilityId, ToolCall, ToolResult};
use placet_tools::{RecordFailure, Recorder};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One thing that a recorder was told.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A handler is about to start.
    Starting(ToolCall),
    /// A human is about to be asked.
    Asked(ApprovalRequested),
    /// A human answered, or nobody did.
    Decided(bool, ApprovalDecided),
    /// A call has ended.
    Ended(Box<ToolResult>),
    /// Something that nobody keeps.
    Live(Box<EventBody>),
}

/// Remembers everything it is told, in order.
#[derive(Debug, Default)]
pub struct Recording {
    told: Mutex<Vec<Told>>,
    broken: AtomicBool,
}

impl Recording {
    /// A new one.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Everything so far.
    #[must_use]
    pub fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The results so far.
    #[must_use]
    pub fn results(&self) -> Vec<ToolResult> {
        let results = self.told().into_iter().filter_map(|told| match told {
            Told::Ended(result) => Some(*result),
            _ => None,
        });
        results.collect()
    }

    /// From now on everything that has to be kept fails.
    pub fn break_down(&self) {
        self.broken.store(true, Ordering::SeqCst);
    }

    fn keep(&self, told: Told) -> Result<(), RecordFailure> {
        if self.broken.load(Ordering::SeqCst) {
            return Err("the disk is full".into());
        }
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        Ok(())
    }
}

#[async_trait]
impl Recorder for Recording {
    async fn starting(&self, call: &ToolCall, _capability: &CapabilityId) -> Result<(), RecordFailure> {
        self.keep(Told::Starting(call.clone()))
    }

    async fn approval_requested(&self, request: &ApprovalRequested) -> Result<(), RecordFailure> {
        self.keep(Told::Asked(request.clone()))
    }

    async fn approval_decided(&self, approved: bool, decision: &ApprovalDecided) -> Result<(), RecordFailure> {
        self.keep(Told::Decided(approved, decision.clone()))
    }

    async fn ended(&self, result: &ToolResult, _took: Duration) -> Result<(), RecordFailure> {
        self.keep(Told::Ended(Box::new(result.clone())))
    }

    fn live(&self, event: EventBody) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(Told::Live(Box::new(event)));
    }
}
