//! The run over a board: its limits, and how it ends.

use crate::error::{BoardError, Result};
use placet_core::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// Half of what an instant in microseconds can hold, so that sums stay within it.
const LONGEST: Duration = Duration::from_secs(4_000_000_000_000);

/// Checks that an instant and this duration after it are one.
pub(crate) fn check_longest(what: &str, duration: Duration) -> Result<()> {
    if duration <= LONGEST {
        return Ok(());
    }
    let problem = format!("{what} is {duration:?}, and may be {LONGEST:?} at most");
    Err(BoardError::InvalidSpec { problem })
}

/// How long a run may last. Time is its only bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From its opening to its end, whatever happens.
    pub wall_clock: Duration,
    /// From the last thing that happened to its end.
    pub idle: Duration,
}

impl Limits {
    /// These limits.
    #[must_use]
    pub fn new(wall_clock: Duration, idle: Duration) -> Self {
        Limits { wall_clock, idle }
    }

    pub(crate) fn check(&self) -> Result<()> {
        for (what, limit) in [("wall clock", self.wall_clock), ("idle", self.idle)] {
            if limit < Duration::from_micros(1) {
                let problem = format!("the {what} limit is a positive duration, not {limit:?}");
                return Err(BoardError::InvalidSpec { problem });
            }
            check_longest(&format!("the {what} limit"), limit)?;
        }
        Ok(())
    }
}

/// An hour, and ten minutes of silence.
impl Default for Limits {
    fn default() -> Self {
        Limits { wall_clock: Duration::from_secs(3600), idle: Duration::from_secs(600) }
    }
}

/// In which of three states a run closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedAs {
    /// Nothing happened for the idle limit, and nobody objected.
    Settled,
    /// The wall clock limit passed.
    WallClockExpired,
    /// Somebody closed it.
    Aborted,
}

impl ClosedAs {
    /// The word that is stored and sent for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ClosedAs::Settled => "settled",
            ClosedAs::WallClockExpired => "wall_clock_expired",
            ClosedAs::Aborted => "aborted",
        }
    }
}

impl fmt::Display for ClosedAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a run ended. Why it ended and which agents had not finished are two things: a run settles normally while one agent
/// never returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// In which state.
    pub closed_as: ClosedAs,
    /// What who aborted it said.
    #[serde(default)]
    pub reason: Option<String>,
    /// The agents that had been told of something and had not answered it, in order.
    #[serde(default)]
    pub unfinished: BTreeSet<String>,
}

/// How a run stands, at one instant of the store's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// The instant.
    pub now: Timestamp,
    /// When it settles if nothing happens.
    pub idle_deadline: Timestamp,
    /// When it ends, whatever happens.
    pub wall_deadline: Timestamp,
    /// Its limits.
    pub limits: Limits,
    /// How it ended, if it did.
    pub outcome: Option<Outcome>,
}

impl RunRecord {
    /// What the deadlines ask it to close as. The wall clock outranks the silence.
    #[must_use]
    pub fn expired(&self) -> Option<ClosedAs> {
        if self.outcome.is_some() {
            None
        } else if self.now >= self.wall_deadline {
            Some(ClosedAs::WallClockExpired)
        } else if self.now >= self.idle_deadline {
            Some(ClosedAs::Settled)
        } else {
            None
        }
    }
}
