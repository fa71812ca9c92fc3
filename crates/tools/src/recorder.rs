//! Who is told what a call did: the run's journal, a sink of a test, or nobody.

use async_trait::async_trait;
use placet_core::event::{ApprovalDecided, ApprovalRequested, EventBody};
use placet_core::{CapabilityId, ToolCall, ToolResult};
use std::time::Duration;

/// What keeps the record failed. It goes to the caller's code and is never worded for a model.
pub type RecordFailure = Box<dyn std::error::Error + Send + Sync>;

/// Is told, in order, of everything that has to be written down. What it returns an `Err` for ends the call with an
/// error for the caller's code.
#[async_trait]
pub trait Recorder: Send + Sync {
    /// A call has passed every check and its handler is about to start. The intent of a call whose effect is not
    /// *read* has to be on disk when this returns.
    async fn starting(&self, call: &ToolCall, capability: &CapabilityId) -> Result<(), RecordFailure> {
        let _ = (call, capability);
        Ok(())
    }

    /// A human is about to be asked.
    async fn approval_requested(&self, request: &ApprovalRequested) -> Result<(), RecordFailure> {
        let _ = request;
        Ok(())
    }

    /// A human has answered, or nobody did in time.
    async fn approval_decided(&self, approved: bool, decision: &ApprovalDecided) -> Result<(), RecordFailure> {
        let _ = (approved, decision);
        Ok(())
    }

    /// A call has ended. Told once a call; the stored outcome of a repetition and a misused call id are not told.
    async fn ended(&self, result: &ToolResult, took: Duration) -> Result<(), RecordFailure> {
        let _ = (result, took);
        Ok(())
    }

    /// Something happened that nobody keeps: a handler started, progressed, logged a line. Must not block.
    fn live(&self, event: EventBody) {
        let _ = event;
    }
}

/// Keeps no record.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {}
