//! What is scheduled, as it is asked for and as it is stored.

use super::cron::Cron;
use placet_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The format of a job's cell.
pub(super) const FORMAT: u16 = 1;

/// When a job runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobTime {
    /// As soon as somebody is free.
    Now,
    /// At an instant; at once where it has passed.
    At(Timestamp),
    /// Again and again.
    Every(Cron),
}

/// Something to be done later, by whichever process is there then.
///
/// Jobs are done at least once: a process that dies in the midst of one leaves it to be done again, so what a job does is
/// done under keys that follow from the job's id and the time it was meant for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Names it; a second job of the same id takes the place of the first.
    pub id: String,
    /// What sort of job, which decides who does it.
    pub kind: String,
    /// On whose behalf, for lists. May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// When.
    pub time: JobTime,
    /// What whoever does it has to know.
    pub payload: Value,
    /// How often it is tried at most for one time, the first one included.
    pub tries: u32,
}

impl Job {
    /// A job that is done as soon as possible, tried five times.
    pub fn new(id: impl Into<String>, kind: impl Into<String>, payload: Value) -> Self {
        Job { id: id.into(), kind: kind.into(), owner: String::new(), time: JobTime::Now, payload, tries: 5 }
    }

    /// Sets when.
    #[must_use]
    pub fn at(mut self, time: JobTime) -> Self {
        self.time = time;
        self
    }

    /// Sets on whose behalf.
    #[must_use]
    pub fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// Sets how often it is tried.
    #[must_use]
    pub fn tried(mut self, tries: u32) -> Self {
        self.tries = tries.max(1);
        self
    }
}

/// How a job stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It waits for its time.
    Waiting,
    /// Somebody does it.
    Running,
    /// It was tried as often as it may be, and is kept to be looked at.
    Failed,
}

/// A job as the store has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredJob {
    /// The job.
    pub job: Job,
    /// How it stands.
    pub state: JobState,
    /// The time that the present or the next run of it is meant for; where times were missed, the first of them.
    pub meant_for: Timestamp,
    /// Where its entry in the index of due things stands.
    pub due: Timestamp,
    /// How often it was tried for that time.
    pub tried: u32,
    /// What went wrong last, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
