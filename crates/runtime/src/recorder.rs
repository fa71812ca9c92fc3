//! What the pipeline tells the journal.

use crate::journal::JournalWriter;
use crate::run_loop::millis;
use async_trait::async_trait;
use placet_core::event::{ApprovalDecided, ApprovalRequested, CallEnded, EventBody};
use placet_core::{CapabilityId, Status, ToolCall, ToolName, ToolResult};
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
    /// An intent is written when its handler starts and not before, so that what was only waiting for its turn, or for a
    /// human, is known not to have started.
    async fn starting(&self, call: &ToolCall, _capability: &CapabilityId) -> Result<(), RecordFailure> {
        self.journal.request(&call.id, &self.registry)?;
        if self.changes(&call.name) {
            return Ok(self.journal.commit().await?);
        }
        // The turn is on disk before any handler starts: nobody pays for it twice.
        Ok(self.journal.commit_unless_it_can_ride().await?)
    }

    async fn approval_requested(&self, request: &ApprovalRequested) -> Result<(), RecordFailure> {
        self.journal.request(&request.call, &self.registry)?;
        self.journal.append(EventBody::ApprovalRequested(request.clone()))?;
        Ok(self.journal.commit().await?)
    }

    async fn approval_decided(&self, approved: bool, decision: &ApprovalDecided) -> Result<(), RecordFailure> {
        let decided = if approved { EventBody::ApprovalApproved } else { EventBody::ApprovalDenied };
        self.journal.append(decided(decision.clone()))?;
        Ok(self.journal.commit().await?)
    }

    async fn ended(&self, result: &ToolResult, took: Duration) -> Result<(), RecordFailure> {
        // A call that a check has answered never came to its start.
        self.journal.request(&result.call, &self.registry)?;
        self.journal.call_ended(result.clone(), millis(took))?;
        // What changed something is on disk before anything else happens; what only read can be read again.
        if self.changes(&result.tool) {
            self.journal.commit().await?;
        }
        Ok(())
    }

    fn live(&self, event: EventBody) {
        self.journal.live(event);
    }
}

impl RunRecorder {
    fn changes(&self, tool: &ToolName) -> bool {
        self.registry.get(tool).is_some_and(|tool| tool.effect().needs_intent())
    }
}

/// The record of an answer.
pub(crate) fn ended(ended: CallEnded) -> EventBody {
    match ended.result.outcome.status {
        Status::Completed => EventBody::CallCompleted(Box::new(ended)),
        _ => EventBody::CallFailed(Box::new(ended)),
    }
}
