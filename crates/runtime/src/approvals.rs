//! Approvals that a run's journal holds: nobody is asked twice about one call.

use async_trait::async_trait;
use placet_core::CallId;
use placet_core::event::ApprovalRequested;
use placet_observe::{CallApproval, RunState};
use placet_tools::{Approver, ApproverFailure, Decision, PolicyRequest};
use std::collections::HashMap;
use std::sync::Arc;

/// Answers what was decided before a resumption as it was decided then, and puts everything else to a human.
pub(crate) struct Remembering {
    decided: HashMap<CallId, (bool, String, Option<String>)>,
    human: Option<Arc<dyn Approver>>,
}

impl Remembering {
    /// With what the state of a run holds; the human alone where it holds nothing.
    pub(crate) fn of(state: &RunState, human: Option<Arc<dyn Approver>>) -> Option<Arc<dyn Approver>> {
        let calls = state.round().map(|round| round.calls.as_slice()).unwrap_or_default();
        let decided: HashMap<_, _> = calls
            .iter()
            .filter(|call| call.result.is_none())
            .filter_map(|call| match &call.approval {
                Some(CallApproval::Decided { approved, by, reason }) => {
                    Some((call.call.id.clone(), (*approved, by.clone(), reason.clone())))
                }
                _ => None,
            })
            .collect();
        if decided.is_empty() { human } else { Some(Arc::new(Remembering { decided, human })) }
    }
}

#[async_trait]
impl Approver for Remembering {
    async fn decide(
        &self,
        question: &ApprovalRequested,
        request: &PolicyRequest<'_>,
    ) -> Result<Decision, ApproverFailure> {
        match (self.decided.get(&question.call), &self.human) {
            (Some((true, by, _)), _) => Ok(Decision::approve(question, by)),
            (Some((false, by, reason)), _) => Ok(Decision::deny(question, by, reason.clone())),
            (None, Some(human)) => human.decide(question, request).await,
            (None, None) => Err(ApproverFailure("there is nobody to ask".to_owned())),
        }
    }
}
