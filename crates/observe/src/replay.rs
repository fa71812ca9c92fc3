//! What a run did, from its journal alone: no model is asked and no tool runs.

use crate::journal::Journal;
use crate::result::{Ending, RunResult};
use placet_core::event::EventBody;
use placet_core::{
    ApprovalId, CallId, CapabilityId, Item, Money, OutputStrategy, Reason, RunId, Stage, Status, StopReason, Timestamp,
    ToolName, Usage,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A run as its journal tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// The run.
    pub run: RunId,
    /// What it came to; absent while it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
    /// The whole conversation, input included.
    pub items: Vec<Arc<Item>>,
    /// What all turns used together.
    pub usage: Usage,
    /// What they cost; absent where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// What happened when.
    pub timeline: Vec<Moment>,
}

/// One entry of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// The record that tells it.
    pub number: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// Milliseconds since the run's start.
    pub after_ms: u64,
    /// What.
    #[serde(flatten)]
    pub what: Happening,
}

/// What a [`Moment`] tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Happening {
    /// The run began.
    Started {
        /// The provider and its model.
        model: String,
        /// The capabilities it was handed.
        capabilities: Vec<CapabilityId>,
    },
    /// Another process took it up.
    Resumed {
        /// Calls whose effect nobody knows.
        interrupted: Vec<CallId>,
    },
    /// It waits for something from outside.
    Suspended {
        /// What for.
        reason: String,
    },
    /// A turn was finished.
    Turn {
        /// Its number, from 1.
        turn: u32,
        /// How long it took, in milliseconds.
        took_ms: u64,
        /// Why it ended.
        stop: StopReason,
        /// What it used.
        usage: Option<Usage>,
        /// What it cost.
        cost: Option<Money>,
        /// What it adds to what is billed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        billed: Option<Money>,
        /// How many calls it asks for.
        calls: usize,
    },
    /// An answer did not have the shape that it must have.
    Rejected {
        /// The number of the turn that answered.
        turn: u32,
        /// What was wrong with it.
        problems: Vec<String>,
    },
    /// The provider refused one way to the wanted shape, and another is taken.
    Fallback {
        /// The way that was tried.
        from: OutputStrategy,
        /// The way that is taken.
        to: OutputStrategy,
    },
    /// A call was answered.
    Call {
        /// The number of the turn that asked.
        turn: u32,
        /// The call.
        call: CallId,
        /// The tool.
        tool: ToolName,
        /// The capability that holds it.
        capability: Option<CapabilityId>,
        /// How it ended.
        status: Status,
        /// The stage that answered.
        stage: Stage,
        /// Why it did not complete.
        reason: Option<Reason>,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// A human was asked.
    Asked {
        /// The question's id.
        approval: ApprovalId,
        /// The question.
        question: String,
    },
    /// A human answered, or nobody did.
    Decided {
        /// The question's id.
        approval: ApprovalId,
        /// Yes or no.
        approved: bool,
        /// Who.
        by: String,
    },
    /// The run ended.
    Ended {
        /// How.
        end: Ending,
        /// Why, in a sentence.
        detail: Option<String>,
    },
    /// Something that this version has no name for.
    Unknown {
        /// Its type.
        kind: String,
    },
}

/// What a run did, from its journal alone.
#[must_use]
pub fn replay(journal: &Journal) -> Replay {
    let state = journal.state();
    Replay {
        run: journal.run().clone(),
        result: state.result(),
        items: state.items().to_vec(),
        usage: state.usage(),
        cost: state.cost(),
        timeline: timeline(journal),
    }
}

fn timeline(journal: &Journal) -> Vec<Moment> {
    let start = journal.records().first().map_or(Timestamp::EPOCH, |kept| kept.record.at);
    let mut turn = 0;
    let mut moments = Vec::new();
    for kept in journal.records() {
        let record = &kept.record;
        if let EventBody::TurnCompleted(completed) = &record.event {
            turn = completed.number;
        }
        if let Some(what) = happening(&record.event, turn) {
            let after_ms = u64::try_from(record.at.since(start).as_millis()).unwrap_or(u64::MAX);
            moments.push(Moment { number: record.number, at: record.at, after_ms, what });
        }
    }
    moments
}

/// What a record adds to the timeline. The intent of a call adds nothing: its answer tells both.
fn happening(event: &EventBody, turn: u32) -> Option<Happening> {
    Some(match event {
        EventBody::RunStarted(started) => Happening::Started {
            model: format!("{}:{}", started.provider, started.model),
            capabilities: started.grants.iter().map(|grant| grant.capability.clone()).collect(),
        },
        EventBody::RunResumed(resumed) => Happening::Resumed { interrupted: resumed.interrupted.clone() },
        EventBody::RunSuspended(suspended) => Happening::Suspended { reason: suspended.reason.clone() },
        EventBody::TurnCompleted(completed) => Happening::Turn {
            turn: completed.number,
            took_ms: completed.took_ms,
            stop: completed.turn.stop.clone(),
            usage: completed.turn.usage,
            cost: completed.cost,
            billed: completed.billed,
            calls: completed.turn.calls().count(),
        },
        EventBody::OutputRejected(rejected) => {
            Happening::Rejected { turn: rejected.turn, problems: rejected.problems.clone() }
        }
        EventBody::OutputFallback(fallback) => Happening::Fallback { from: fallback.from, to: fallback.to },
        EventBody::CallCompleted(ended) | EventBody::CallFailed(ended) => Happening::Call {
            turn,
            call: ended.result.call.clone(),
            tool: ended.result.tool.clone(),
            capability: ended.result.capability.clone(),
            status: ended.result.outcome.status,
            stage: ended.result.outcome.stage,
            reason: ended.result.outcome.reason.clone(),
            took_ms: ended.took_ms,
        },
        EventBody::ApprovalRequested(asked) => {
            Happening::Asked { approval: asked.approval.clone(), question: asked.question.clone() }
        }
        EventBody::ApprovalApproved(decided) => {
            Happening::Decided { approval: decided.approval.clone(), approved: true, by: decided.by.clone() }
        }
        EventBody::ApprovalDenied(decided) => {
            Happening::Decided { approval: decided.approval.clone(), approved: false, by: decided.by.clone() }
        }
        EventBody::RunCompleted(completed) => {
            Happening::Ended { end: Ending::from(&completed.end), detail: completed.detail.clone() }
        }
        EventBody::RunFailed(failed) => Happening::Ended { end: Ending::Failed, detail: Some(failed.message.clone()) },
        EventBody::Unknown(unknown) => Happening::Unknown { kind: unknown.kind().to_owned() },
        _ => return None,
    })
}
