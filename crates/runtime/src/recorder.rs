//! What the pipeline tells the journal.

use crate::journal::JournalWriter;
use crate::run_loop::millis;
use async_trait::async_trait;
use placet_core::event::{ApprovalDecided, ApprovalRequested, CallEnded, EventBody};
use placet_core::{CapabilityId, Status, ToolCall, ToolResult};
use placet_tools::{RecordFailure, Recorder, Registry};
use std::sync::Arc;
use std::time::Duration;

/// Writes what the calls of a run did into its journal.
pub(crate) struct RunRecorder {
    pub(crate) journal: Arc<JournalWriter>,
    pub(crate) registry: Registry,
}

#[async_trait]
impl Recorder for RunRecorder {
    /// The intents of a round are on disk before the pipeline sees its calls.
    async fn starting(&self, _call: &ToolCall, _capability: &CapabilityId) -> Result<(), RecordFailure> {
        Ok(())
    }

    async fn approval_requested(&self, request: &ApprovalRequested) -> Result<(), RecordFailure> {
        self.journal.append(EventBody::ApprovalRequested(request.clone()))?;
        Ok(self.journal.commit().await?)
    }

    async fn approval_decided(&self, approved: bool, decision: &ApprovalDecided) -> Result<(), RecordFailure> {
        let decided = if approved { EventBody::ApprovalApproved } else { EventBody::ApprovalDenied };
        self.journal.append(decided(decision.clone()))?;
        Ok(self.journal.commit().await?)
    }

    async fn ended(&self, result: &ToolResult, took: Duration) -> Result<(), RecordFailure> {
        self.journal.call_ended(result.clone(), millis(took))?;
        // What changed something is on disk before anything else happens; what only read can be read again.
        if self.registry.get(&result.tool).is_some_and(|tool| tool.effect().needs_intent()) {
            self.journal.commit().await?;
        }
        Ok(())
    }

    fn live(&self, event: EventBody) {
        self.journal.live(event);
    }
}

/// The record of an answer.
pub(crate) fn ended(ended: CallEnded) -> EventBody {
    match ended.result.outcome.status {
        Status::Completed => EventBody::CallCompleted(Box::new(ended)),
        _ => EventBody::CallFailed(Box::new(ended)),
    }
}
