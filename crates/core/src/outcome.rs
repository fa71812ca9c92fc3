//! What the pipeline answered.

use crate::id::{CallId, CapabilityId, ItemId, ToolName};
use crate::item::Item;
use crate::open::open_words;
use crate::origin::Origins;
use crate::part::{Native, Part, text_of};
use crate::redact::Redactions;
use crate::tool::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The handler ran and answered.
    Completed,
    /// The call was wrong and the model can correct it.
    Mistaken,
    /// The call was right and the answer is no.
    Refused,
    /// The call was right, but what it rests on has changed.
    Conflict,
    /// The handler ran and reported failure, timed out or panicked.
    Failed,
    /// Nobody knows whether the effect happened.
    Interrupted,
}

impl Status {
    /// The word it is serialised as.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Completed => "completed",
            Status::Mistaken => "mistaken",
            Status::Refused => "refused",
            Status::Conflict => "conflict",
            Status::Failed => "failed",
            Status::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The stages of the pipeline, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Size, and whether this call was seen before.
    Admit,
    /// Whether a tool of that name exists.
    Registered,
    /// Whether the caller was handed it.
    Granted,
    /// JSON, schema, then the tool's own rules.
    Arguments,
    /// Whether the revision that the decision rests on is still current.
    Fresh,
    /// Policy, and a human where one is to be asked.
    Approved,
    /// Freshness again, after a wait.
    FreshAgain,
    /// The tool's own dry check.
    Possible,
    /// The handler, once.
    Execute,
    /// Secrets out.
    Redact,
    /// Bounds, saying what was cut.
    Bound,
    /// Into the journal.
    Record,
}

impl Stage {
    /// Every stage in order.
    pub const ALL: [Stage; 12] = [
        Stage::Admit,
        Stage::Registered,
        Stage::Granted,
        Stage::Arguments,
        Stage::Fresh,
        Stage::Approved,
        Stage::FreshAgain,
        Stage::Possible,
        Stage::Execute,
        Stage::Redact,
        Stage::Bound,
        Stage::Record,
    ];

    /// The word it is serialised as.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Admit => "admit",
            Stage::Registered => "registered",
            Stage::Granted => "granted",
            Stage::Arguments => "arguments",
            Stage::Fresh => "fresh",
            Stage::Approved => "approved",
            Stage::FreshAgain => "fresh_again",
            Stage::Possible => "possible",
            Stage::Execute => "execute",
            Stage::Redact => "redact",
            Stage::Bound => "bound",
            Stage::Record => "record",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

open_words! {
    /// Why a stage stopped a call: for code and journal. The model gets a text instead, and never learns the
    /// difference between an unknown and an ungranted tool. A tool may give reasons of its own (`blocked_wall`).
    pub enum Reason {
        /// The arguments or the name are larger than the pipeline admits.
        TooLarge = "too_large",
        /// This call id was used before, with another tool or other arguments.
        RequestIdConflict = "request_id_conflict",
        /// No capability provides a tool of that name.
        UnknownTool = "unknown_tool",
        /// The tool exists, but the caller was not handed it.
        NotAuthorised = "not_authorised",
        /// The arguments are no JSON object, break the schema, or break the tool's own rules.
        InvalidArguments = "invalid_arguments",
        /// The decision rests on a revision that is no longer current.
        StaleRevision = "stale_revision",
        /// Policy or a human said no, or the one to ask failed to answer sensibly.
        Denied = "denied",
        /// Nobody answered in time.
        ApprovalTimeout = "approval_timeout",
        /// The tool's own dry check says that it cannot be done now.
        Impossible = "impossible",
        /// The handler reported failure.
        ToolError = "tool_error",
        /// The handler took longer than its deadline.
        Timeout = "timeout",
        /// The run was cancelled.
        Cancelled = "cancelled",
        /// The handler panicked.
        Panicked = "panicked",
        /// The process ended between the intent and the result.
        Interrupted = "interrupted",
        /// The call was not run, because of its siblings or a limit.
        NotRun = "not_run",
        /// The turn was cut, so its calls are not to be trusted.
        TurnCut = "turn_cut",
    }
}

/// What was left out, and how much there was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// How much was kept.
    pub kept: u64,
    /// How much there was.
    pub total: u64,
    /// Of what: `bytes`, `lines`, `entries` …
    pub unit: String,
}

/// A revision before and after a call that changed something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionChange {
    /// What it was when the handler started.
    pub before: String,
    /// What it is now.
    pub after: String,
}

/// What the pipeline answered to one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The stage that answered: *execute* for a handler's own answer, else the first that failed.
    pub stage: Stage,
    /// Why it did not complete: for code and journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What the model reads.
    pub content: Vec<Part>,
    /// The handler's value, for code; never sent to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// What was wrong, for code: for invalid arguments a list of `{path, problem}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    /// The underlying cause, for the journal only, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The revision it changed, where the tool has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<RevisionChange>,
    /// What was cut from `content`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// What the redactor took out, by kind.
    #[serde(default, skip_serializing_if = "Redactions::is_empty")]
    pub redactions: Redactions,
    /// Set where redaction was switched off by an explicit option of this grant or run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unredacted: bool,
    /// Where the content came from.
    #[serde(default, skip_serializing_if = "Origins::is_empty")]
    pub origin: Origins,
    /// Set where this is the stored outcome of an earlier, equal call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// What the tool says of how it ran, for the journal: exit code, sandbox level …
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub facts: Map<String, Value>,
}

impl Outcome {
    /// An outcome of a stage with a text for the model and nothing else.
    pub fn new(status: Status, stage: Stage, reason: Option<Reason>, text: impl Into<String>) -> Self {
        Outcome {
            status,
            stage,
            reason,
            content: vec![Part::text(text.into())],
            payload: None,
            detail: None,
            cause: None,
            revision: None,
            cut: None,
            redactions: Redactions::default(),
            unredacted: false,
            origin: Origins::none(),
            repeated: false,
            facts: Map::new(),
        }
    }

    /// Whether a protocol's error flag is set: not for a plain no or a moved premise, which are no mistakes.
    #[must_use]
    pub fn is_error(&self) -> bool {
        match self.status {
            Status::Mistaken | Status::Failed | Status::Interrupted => true,
            Status::Refused => matches!(self.reason, Some(Reason::UnknownTool | Reason::NotAuthorised)),
            Status::Completed | Status::Conflict => false,
        }
    }

    /// All text that the model reads.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(&self.content)
    }
}

/// The answer to one call, as an item of the conversation and a record of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Which call.
    pub call: CallId,
    /// The provider's id of the call, where it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Which tool it asked for.
    pub tool: ToolName,
    /// The capability that holds the tool; absent where no capability does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<CapabilityId>,
    /// What the pipeline answered.
    pub outcome: Outcome,
    /// What only one provider understands of it, to be sent with it: a cache mark of its own, a hosted form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

impl ToolResult {
    /// What is answered to a call that no capability ran: the call's ids and name, and the outcome.
    #[must_use]
    pub fn of(call: &ToolCall, outcome: Outcome) -> Self {
        ToolResult {
            call: call.id.clone(),
            provider_id: call.provider_id.clone(),
            tool: call.name.clone(),
            capability: None,
            outcome,
            native: None,
        }
    }

    /// The item of a conversation that holds it: its id follows from the call's, and its origin is the outcome's.
    #[must_use]
    pub fn into_item(self) -> Arc<Item> {
        let origin = self.outcome.origin.clone();
        Arc::new(Item::new(ItemId::of_result(&self.call), origin, self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mistakes_failures_and_unknown_effects_are_errors() {
        let error = |status, reason| Outcome::new(status, Stage::Execute, reason, "").is_error();
        assert!(!error(Status::Completed, None));
        assert!(error(Status::Mistaken, Some(Reason::InvalidArguments)));
        assert!(!error(Status::Refused, Some(Reason::Denied)));
        assert!(error(Status::Refused, Some(Reason::UnknownTool)));
        assert!(error(Status::Refused, Some(Reason::NotAuthorised)));
        assert!(!error(Status::Conflict, Some(Reason::StaleRevision)));
        assert!(error(Status::Failed, Some(Reason::Timeout)));
        assert!(error(Status::Interrupted, Some(Reason::Interrupted)));
    }
}
