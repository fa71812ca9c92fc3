//! Events: what happened, in order, in a run.
//!
//! | durable (a record of the journal) | live only |
//! |---|---|
//! | `run.started` `run.resumed` `run.suspended` `run.completed` `run.failed` | `model.request.started` |
//! | `model.completed` `output.rejected` `output.fallback` | `model.text.delta` `model.reasoning.delta` `model.arguments.delta` |
//! | `tool.call.requested` `tool.call.completed` `tool.call.failed` | `tool.call.started` `tool.call.progress` `tool.call.log` |
//! | `approval.requested` `approval.approved` `approval.denied` | `retry.started` `stream.snapshot` |
//!
//! Every `run.started` has exactly one `run.completed` or `run.failed`; every `tool.call.requested` exactly one
//! `tool.call.completed` or `tool.call.failed`.

use crate::billing::Billing;
use crate::error::ErrorKind;
use crate::id::{ApprovalId, CallId, CapabilityId, ProviderId, RunId, ToolName, TurnId};
use crate::item::Item;
use crate::json_text::SharedText;
use crate::limits::Limits;
use crate::open::{open_enum, open_words};
use crate::outcome::ToolResult;
use crate::output::{OutputFallback, OutputRejected, OutputSpec};
use crate::price::ModelPrice;
use crate::time::Timestamp;
use crate::tool::{ToolCall, ToolDefinition};
use crate::turn::{Controls, ProviderState, ToolChoice, Turn};
use crate::usage::{Money, Price, Usage};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// The place of an event in its run: the number of the last record, and a count of live events since then.
///
/// A record's own event has live number 0. Written `12` or `12.3`; ordered by record, then by live number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// The number of the record, from 1; 0 before the first.
    pub durable: u64,
    /// The count of live events after that record.
    pub live: u64,
}

impl Cursor {
    /// Before everything.
    pub const START: Cursor = Cursor { durable: 0, live: 0 };

    /// The place of a record.
    #[must_use]
    pub const fn record(number: u64) -> Self {
        Cursor { durable: number, live: 0 }
    }

    /// Reads `12` or `12.3`.
    ///
    /// # Errors
    /// [`InvalidCursor`] for anything else.
    pub fn parse(text: &str) -> Result<Self, InvalidCursor> {
        let (durable, live) = text.split_once('.').unwrap_or((text, "0"));
        match (durable.parse(), live.parse()) {
            (Ok(durable), Ok(live)) => Ok(Cursor { durable, live }),
            _ => Err(InvalidCursor { given: text.chars().take(40).collect() }),
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.live == 0 { write!(f, "{}", self.durable) } else { write!(f, "{}.{}", self.durable, self.live) }
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Cursor::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// A text is no cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no cursor: expected a record's number, or that and a live number, for example 12 or 12.3")]
pub struct InvalidCursor {
    /// What arrived, cut to 40 characters.
    pub given: String,
}

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The run.
    pub run: RunId,
    /// Its place.
    pub cursor: Cursor,
    /// When, by the clock of whoever wrote it.
    pub at: Timestamp,
    /// What.
    pub body: EventBody,
}

open_enum! {
    /// What happened.
    pub enum EventBody {
        /// A run has begun. Durable.
        RunStarted(Box<RunStarted>) = "run.started",
        /// Another process has taken the run up again. Durable.
        RunResumed(RunResumed) = "run.resumed",
        /// The run waits for something from outside and holds no process. Durable.
        RunSuspended(RunSuspended) = "run.suspended",
        /// The run has ended as it should. Durable.
        RunCompleted(RunCompleted) = "run.completed",
        /// The run has ended with an error. Durable.
        RunFailed(RunFailed) = "run.failed",
        /// A turn is being asked.
        RequestStarted(RequestStarted) = "model.request.started",
        /// A piece of text.
        TextDelta(Delta) = "model.text.delta",
        /// A piece of readable thinking.
        ReasoningDelta(Delta) = "model.reasoning.delta",
        /// A piece of a tool call's arguments.
        ArgumentsDelta(Delta) = "model.arguments.delta",
        /// A turn is whole. Durable.
        TurnCompleted(Box<TurnCompleted>) = "model.completed",
        /// An answer did not have the shape that it must have. Durable.
        OutputRejected(OutputRejected) = "output.rejected",
        /// Another way to the shape is taken, for the provider refused the one before. Durable.
        OutputFallback(OutputFallback) = "output.fallback",
        /// The intent of a call, before its handler starts. Durable.
        CallRequested(Box<CallRequested>) = "tool.call.requested",
        /// A handler has started.
        CallStarted(CallStarted) = "tool.call.started",
        /// A handler tells how far it is.
        CallProgress(CallProgress) = "tool.call.progress",
        /// A handler logs a line.
        CallLog(CallLog) = "tool.call.log",
        /// A call has completed. Durable.
        CallCompleted(Box<CallEnded>) = "tool.call.completed",
        /// A call has ended otherwise: mistaken, refused, conflict, failed or interrupted. Durable.
        CallFailed(Box<CallEnded>) = "tool.call.failed",
        /// A human is asked. Durable.
        ApprovalRequested(ApprovalRequested) = "approval.requested",
        /// A human said yes. Durable.
        ApprovalApproved(ApprovalDecided) = "approval.approved",
        /// A human said no, or nobody answered. Durable.
        ApprovalDenied(ApprovalDecided) = "approval.denied",
        /// A request is about to be sent again.
        RetryStarted(RetryStarted) = "retry.started",
        /// What a reader that fell behind has missed of the live text.
        Snapshot(Snapshot) = "stream.snapshot",
    }
}

impl EventBody {
    /// Whether it is a record of the journal.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        match self {
            EventBody::RunStarted(_)
            | EventBody::RunResumed(_)
            | EventBody::RunSuspended(_)
            | EventBody::RunCompleted(_)
            | EventBody::RunFailed(_)
            | EventBody::TurnCompleted(_)
            | EventBody::OutputRejected(_)
            | EventBody::OutputFallback(_)
            | EventBody::CallRequested(_)
            | EventBody::CallCompleted(_)
            | EventBody::CallFailed(_)
            | EventBody::ApprovalRequested(_)
            | EventBody::ApprovalApproved(_)
            | EventBody::ApprovalDenied(_)
            | EventBody::Unknown(_) => true,
            EventBody::RequestStarted(_)
            | EventBody::TextDelta(_)
            | EventBody::ReasoningDelta(_)
            | EventBody::ArgumentsDelta(_)
            | EventBody::CallStarted(_)
            | EventBody::CallProgress(_)
            | EventBody::CallLog(_)
            | EventBody::RetryStarted(_)
            | EventBody::Snapshot(_) => false,
        }
    }

    /// Whether it ends its run.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, EventBody::RunCompleted(_) | EventBody::RunFailed(_))
    }
}

/// A capability as a run was handed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrantRecord {
    /// Its id.
    pub capability: CapabilityId,
    /// The tools it grants, in order, as the model was told of them.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Set where redaction is switched off for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unredacted: bool,
}

/// A run has begun: everything needed to go on with it in another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The version of Placet that started it.
    pub version: String,
    /// The provider that is asked.
    pub provider: ProviderId,
    /// Its model.
    pub model: String,
    /// The instructions as the model gets them, those of the capabilities included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<SharedText>,
    /// The conversation at the start.
    pub input: Vec<Arc<Item>>,
    /// What the provider needs to go on with an earlier run's conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_state: Option<ProviderState>,
    /// What the run may do, in order.
    pub grants: Vec<GrantRecord>,
    /// Tools that the model is told of after those, and that somebody else answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declared: Vec<Arc<ToolDefinition>>,
    /// The provider's own tools that it was handed, by their kinds, an MCP server with its label. What they were configured with may
    /// hold credentials, so no record has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosted: Vec<String>,
    /// Knobs of its turns.
    #[serde(default)]
    pub controls: Controls,
    /// Whether and what the first turn must call.
    #[serde(default, skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// The shape that its answer must have; absent where any will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<OutputSpec>>,
    /// How much it may use.
    pub limits: Limits,
    /// The price that costs are reckoned with, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The rates that costs are reckoned with where no price was given: those of a catalog, as they were at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<Arc<ModelPrice>>,
    /// How the amount is reckoned that is billed for it; absent where nothing is billed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing: Option<Billing>,
    /// What the program was started with, so that it can build the grants again.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub launch: Map<String, Value>,
    /// Set where redaction is switched off for the whole run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unredacted: bool,
}

impl RunStarted {
    /// Whether there is anything to reckon costs with.
    #[must_use]
    pub fn is_priced(&self) -> bool {
        self.price.is_some() || self.rates.is_some()
    }

    /// What a turn costs that used so much, served by this tier; nothing where that is not known. A price that was given
    /// comes before the rates of a catalog.
    #[must_use]
    pub fn cost(&self, usage: &Usage, tier: Option<&str>) -> Option<Money> {
        crate::price::cost(self.price.as_ref(), self.rates.as_deref(), usage, tier)
    }
}

/// Another process has taken the run up again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResumed {
    /// The fencing token of its lease.
    pub token: u64,
    /// Calls that were started before and whose effect nobody knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<CallId>,
}

/// The run waits for something from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSuspended {
    /// What for, in a sentence.
    pub reason: String,
    /// The calls that somebody else has to answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owed: Vec<CallId>,
}

open_words! {
    /// How a run ended without an error.
    pub enum RunEnd {
        /// The model answered and asked for nothing more.
        Completed = "completed",
        /// A limit was reached; what was done is kept.
        LimitReached = "limit_reached",
        /// Somebody cancelled it.
        Cancelled = "cancelled",
        /// A round with calls to tools of somebody else was handed back, unrun.
        HandedBack = "handed_back",
    }
}

/// The run has ended as it should.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunCompleted {
    /// How.
    pub end: RunEnd,
    /// Which limit was reached, in a sentence; or who cancelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What all its turns used together.
    pub usage: Usage,
    /// What they cost; absent where there is no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// What is billed, which may be another amount than it costs; absent where nothing is said of billing, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billed: Option<Money>,
    /// The answer, where it had to have a shape, and has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// How many turns were asked.
    pub turns: u32,
    /// How many rounds of calls ran.
    pub rounds: u32,
    /// The text of a turn that broke off, as far as it came: shown, never part of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
}

/// The run has ended with an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFailed {
    /// What sort of error.
    pub kind: ErrorKind,
    /// The error, redacted.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// How long the provider asks to be left alone, in milliseconds, where it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// What all its turns used together.
    pub usage: Usage,
    /// What they cost; absent where there is no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// What is billed, which may be another amount than it costs; absent where nothing is said of billing, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billed: Option<Money>,
    /// The text of a turn that broke off, as far as it came: shown, never part of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
}

/// A turn is being asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestStarted {
    /// The turn's number in the run, from 1.
    pub turn: u32,
    /// The provider.
    pub provider: ProviderId,
    /// Its model.
    pub model: String,
}

/// A piece of text at a place of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The place.
    pub index: u32,
    /// The piece.
    pub delta: String,
}

/// A turn is whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnCompleted {
    /// Its number in the run, from 1.
    pub number: u32,
    /// The turn.
    pub turn: Turn,
    /// What it cost; absent where there is no price or no usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// What it adds to what is billed for the run; absent where nothing is billed, or it is not known. What the turns of a run
    /// add is together what is billed for it, but for what a turn used that broke off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billed: Option<Money>,
    /// What was left out of the request because the provider cannot take it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// The intent of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRequested {
    /// The turn that asked.
    pub turn: TurnId,
    /// The call.
    pub call: ToolCall,
    /// The capability that holds the tool; absent where no capability does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<CapabilityId>,
    /// The key that an outside effect can be told apart by when it is repeated.
    pub idempotency_key: String,
}

/// A handler has started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallStarted {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The capability that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<CapabilityId>,
}

/// How far a handler is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallProgress {
    /// The call.
    pub call: CallId,
    /// The capability that holds the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<CapabilityId>,
    /// How much is done.
    pub done: f64,
    /// Of how much, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A line that a handler logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLog {
    /// The call.
    pub call: CallId,
    /// The capability that holds the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<CapabilityId>,
    /// The line, redacted.
    pub message: String,
}

/// A call has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallEnded {
    /// The turn that asked.
    pub turn: TurnId,
    /// The answer, with the tool and the capability that holds it.
    pub result: ToolResult,
    /// How long it took from its admission, in milliseconds.
    pub took_ms: u64,
}

/// A human is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// The question's id.
    pub approval: ApprovalId,
    /// The call it is about.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The capability that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<CapabilityId>,
    /// The question, in a sentence.
    pub question: String,
    /// SHA-256 of the tool and the arguments, in hexadecimal: what is approved is this and nothing else.
    pub content_hash: String,
}

/// A question was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecided {
    /// The question's id.
    pub approval: ApprovalId,
    /// The call it was about.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The capability that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<CapabilityId>,
    /// Who decided.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A request is about to be sent again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryStarted {
    /// Which attempt comes, from 2.
    pub attempt: u32,
    /// How long it waits first, in milliseconds.
    pub after_ms: u64,
    /// What went wrong.
    pub reason: String,
}

/// What a reader that fell behind has missed of the live text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The text of the present turn so far.
    pub text: String,
    /// How many live events were passed over.
    pub missed: u64,
}
