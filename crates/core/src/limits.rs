//! How much a run may use before it is stopped.

use crate::usage::Money;
use serde::{Deserialize, Serialize};

/// How much a run may use. What is reached is named in the run's end; everything so far is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Rounds of tool calls that may run. The turn after the last one may answer; if it asks again, its calls are not
    /// run and the run ends.
    pub rounds: u32,
    /// Wall-clock time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Tokens, input and output together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money. Needs a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// Handlers that may run at the same time.
    pub concurrency: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { rounds: 8, time_ms: None, tokens: None, cost: None, concurrency: 8 }
    }
}
