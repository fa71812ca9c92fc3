//! What was decided on a board, and why: every admission, refusal, conflict, dispatch and acknowledgement, in the order in
//! which they came about. It stands beside the record, is bounded, and outlives the run.

use crate::error::Result;
use crate::model::RegionKind;
use crate::request::Cause;
use crate::run::Outcome;
use crate::stored::FORMAT;
use bytes::Bytes;
use placet_core::Timestamp;
use placet_store::{AppendRef, Entry, Value, ValueForm};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One thing that was decided. Serialised as an object whose `kind` names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// A run was opened.
    RunOpened {
        /// Its wall clock limit, in microseconds.
        wall_us: u64,
        /// Its idle limit, in microseconds.
        idle_us: u64,
    },
    /// A closed run was opened again.
    RunReopened {
        /// Its wall clock limit, in microseconds.
        wall_us: u64,
        /// Its idle limit, in microseconds.
        idle_us: u64,
    },
    /// The run was closed.
    RunClosed {
        /// How.
        outcome: Outcome,
    },
    /// Silence passed the idle limit, the predicate was asked, and the run goes on.
    RunContinued {
        /// What kept the predicate from answering, if something did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
    },
    /// A region was declared.
    RegionDeclared {
        /// Its name.
        region: String,
        /// Its kind.
        region_kind: RegionKind,
    },
    /// An agent was registered, or came back.
    AgentRegistered {
        /// Its name.
        agent: String,
        /// Whether it was registered before.
        returning: bool,
    },
    /// A write was admitted and is on the record.
    WriteAdmitted {
        /// The region.
        region: String,
        /// Who wrote it; nobody for an opening value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writer: Option<String>,
        /// The version that it gave a premise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u64>,
        /// Its place on the record.
        sequence: u64,
    },
    /// A write was refused.
    WriteRefused {
        /// The region.
        region: String,
        /// Who wanted to write.
        writer: String,
        /// Why.
        cause: Cause,
        /// Why, in the words that the writer was told.
        reason: String,
    },
    /// A premise had moved on.
    WriteConflicted {
        /// The premise.
        region: String,
        /// Who wanted to set it.
        writer: String,
        /// The version that the writer expected.
        expected_version: u64,
        /// The version that it had.
        current_version: u64,
    },
    /// An agent is being told that something changed.
    NotificationDispatched {
        /// The agent.
        agent: String,
        /// The first sequence number that it has not answered.
        from_sequence: u64,
        /// The last of the board.
        to_sequence: u64,
        /// What changed.
        regions: BTreeSet<String>,
    },
    /// A notification did not arrive; it is still owed.
    NotificationFailed {
        /// The agent.
        agent: String,
        /// The last sequence number that it was to be told of.
        to_sequence: u64,
        /// What happened.
        cause: String,
    },
    /// An agent has answered.
    NotificationAcknowledged {
        /// The agent.
        agent: String,
        /// Through which sequence number.
        through: u64,
    },
}

/// A decision with its place and instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// Its place among the board's decisions, from 1. Old ones are dropped.
    pub number: u64,
    /// When, in microseconds since the epoch, on the store's clock.
    pub at: Timestamp,
    /// What.
    pub decision: Decision,
}

impl Decision {
    pub(crate) fn value(&self) -> Result<Value> {
        Ok(Value::json(FORMAT, self)?)
    }

    pub(crate) fn record(entry: &Entry) -> Result<DecisionRecord> {
        Ok(DecisionRecord { number: entry.number, at: entry.at, decision: entry.value.from_json(FORMAT)? })
    }
}

/// [`Decision::WriteAdmitted`], whose number the store fills in. `begun` ends with the region.
pub(crate) fn admitted(begun: Bytes, writer: Option<&str>, version: Option<u64>, number: AppendRef) -> ValueForm {
    let mut rest = Vec::with_capacity(64);
    if let Some(writer) = writer {
        rest.extend_from_slice(br#","writer":"#);
        // A text always has a form in JSON.
        let _ = serde_json::to_writer(&mut rest, writer);
    }
    if let Some(version) = version {
        rest.extend_from_slice(br#","version":"#);
        rest.extend_from_slice(version.to_string().as_bytes());
    }
    rest.extend_from_slice(br#","sequence":"#);
    ValueForm::new(FORMAT).bytes(begun).bytes(rest).number_text(number).bytes(Bytes::from_static(b"}"))
}
