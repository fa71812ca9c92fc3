//! What a run came to.

use placet_core::event::RunEnd;
use placet_core::hosted::McpUse;
use placet_core::{
    CallId, ErrorKind, Item, Money, ProviderState, RunId, StopReason, ToolCall, ToolName, Usage, error::Diagnose,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// The model answered and asked for nothing more.
    Completed,
    /// A limit was reached; what was done is kept.
    LimitReached,
    /// Somebody cancelled it.
    Cancelled,
    /// A round with calls to tools of somebody else was handed back, unrun.
    HandedBack,
    /// It ended with an error.
    Failed,
    /// A word of a newer version.
    Other(String),
}

impl Ending {
    /// The word it is shown and serialised as.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Ending::Completed => "completed",
            Ending::LimitReached => "limit_reached",
            Ending::Cancelled => "cancelled",
            Ending::HandedBack => "handed_back",
            Ending::Failed => "failed",
            Ending::Other(word) => word,
        }
    }
}

impl From<&RunEnd> for Ending {
    fn from(end: &RunEnd) -> Self {
        Ending::from(end.as_str())
    }
}

impl From<&str> for Ending {
    fn from(word: &str) -> Self {
        match word {
            "completed" => Ending::Completed,
            "limit_reached" => Ending::LimitReached,
            "cancelled" => Ending::Cancelled,
            "handed_back" => Ending::HandedBack,
            "failed" => Ending::Failed,
            other => Ending::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Ending {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Ending {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Ending::from(&*std::borrow::Cow::<'de, str>::deserialize(deserializer)?))
    }
}

/// What a run came to. Live and replayed results are made by the same fold and are equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The run.
    pub run: RunId,
    /// How it ended.
    pub end: Ending,
    /// Which limit was reached, or who cancelled it, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The error, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The text of the last finished turn: the answer, where the run completed.
    pub text: String,
    /// The answer, where it had to have a shape, and has it: see [`RunResult::parse`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The answers that did not have the shape that they had to have, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Rejected>,
    /// The text of a turn that broke off, as far as it came. It is no part of `items`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Why the last finished turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// What the run added to its input, in order, answers to calls included.
    pub items: Vec<Arc<Item>>,
    /// The values that handlers gave for code, in the order of their calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub payloads: Vec<Payload>,
    /// What the provider needs to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_state: Option<ProviderState>,
    /// What all turns used together, as far as they said.
    pub usage: Usage,
    /// What they cost; absent where there is no price or some usage is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// What is billed, which may be another amount than it costs; absent where nothing is said of billing, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billed: Option<Money>,
    /// What became of the MCP servers that the provider itself talked to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp: Vec<McpUse>,
    /// How many turns were finished.
    pub turns: u32,
    /// How many rounds of calls were answered.
    pub rounds: u32,
    /// The calls of the round that was handed back: whoever declared the tools answers them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owed: Vec<ToolCall>,
}

impl RunResult {
    /// The result of a run that did not fail; an error that names what went wrong otherwise.
    ///
    /// # Errors
    /// [`Failure`] of a run that ended with one. Other ends (a limit, a cancellation) are results.
    pub fn ok(self) -> Result<Self, Failure> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(self),
        }
    }

    /// The answer of a run that had to have a shape, as a type.
    ///
    /// # Errors
    /// [`OutputError`], which says why there is none, with the last text: the model refused, its answer was cut or does not have
    /// the shape, or the run came to no answer; or that the type takes other values than the schema.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, OutputError> {
        if let Some(output) = &self.output {
            return T::deserialize(output).map_err(|error| OutputError::Type { problem: error.to_string() });
        }
        let text = self.text.clone();
        let kind = self.failure.as_ref().map(|failure| &failure.kind);
        Err(match (kind, &self.stop) {
            (Some(ErrorKind::Refused), _) | (None, Some(StopReason::Refusal)) => OutputError::Refused { text },
            (Some(ErrorKind::OutputMismatch), _) => {
                let problems = self.rejected.last().map(|rejected| rejected.problems.clone()).unwrap_or_default();
                OutputError::Mismatch { problems, text }
            }
            (_, Some(stop)) if stop.is_cut() => OutputError::Cut { text },
            _ => {
                let why = self.failure.as_ref().map(|failure| failure.message.clone()).or_else(|| self.detail.clone());
                OutputError::NoAnswer { end: self.end.clone(), why, text }
            }
        })
    }
}

/// An answer that did not have the shape that it had to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The number of the turn that answered, from 1.
    pub turn: u32,
    /// What was wrong with it.
    pub problems: Vec<String>,
}

/// Why a run has no answer of the wanted shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The model refused.
    #[error("the model refused to answer")]
    Refused {
        /// What it said.
        text: String,
    },
    /// The answer was cut, at the output limit or by a filter.
    #[error("the model's answer was cut before it was whole")]
    Cut {
        /// What there is of it.
        text: String,
    },
    /// The last answer does not have the shape either.
    #[error("the model's answer does not have the wanted shape: {}", problems.join("; "))]
    Mismatch {
        /// What is wrong with it.
        problems: Vec<String>,
        /// What it said.
        text: String,
    },
    /// The run came to no answer, or none of a shape was asked for.
    #[error("the run has no answer of a wanted shape: it ended {end}{}", why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default())]
    NoAnswer {
        /// How it ended.
        end: Ending,
        /// Why, in a sentence.
        why: Option<String>,
        /// The text of its last turn.
        text: String,
    },
    /// The answer follows its schema, and is no value of the type.
    #[error("the answer follows its schema, but is no value of the type: {problem}")]
    Type {
        /// What is wrong with it.
        problem: String,
    },
}

impl Diagnose for OutputError {
    fn kind(&self) -> ErrorKind {
        match self {
            OutputError::Refused { .. } => ErrorKind::Refused,
            OutputError::Cut { .. } => ErrorKind::LimitReached,
            OutputError::Mismatch { .. } => ErrorKind::OutputMismatch,
            OutputError::NoAnswer { .. } => ErrorKind::NotFound,
            OutputError::Type { .. } => ErrorKind::Wiring,
        }
    }
}

/// The value that a handler gave for code; never sent to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// Which call.
    pub call: CallId,
    /// Which tool.
    pub tool: ToolName,
    /// The value.
    pub value: Value,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
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
}

impl Diagnose for Failure {
    fn kind(&self) -> ErrorKind {
        self.kind.clone()
    }

    fn hints(&self) -> Vec<String> {
        self.hints.clone()
    }
}
