//! Reads journals: what a run did, whether its record is whole, where two runs part.
//!
//! The runtime writes journals; everything here reads them. A journal is a log of hash-chained records under a run's id
//! (see [`layout`]); [`RunState`] is the one fold from records to what is known of the run, and the loop, resume and
//! replay all use it.
//!
//! # What it must never do
//!
//! Write a record, ask a model, or run a tool.

mod audit;
mod diff;
mod error;
mod export;
mod follow;
mod journal;
pub mod layout;
mod replay;
mod result;
mod runs;
mod state;

pub use audit::{AuditProblem, Verification, verify, verify_all};
pub use diff::{Difference, Divergence, diff};
pub use error::{ObserveError, Result};
pub use follow::{events_between, follow};
pub use journal::{Journal, KeptRecord, RECORD_FORMAT};
pub use replay::{Happening, Moment, Replay, replay};
pub use result::{Ending, Failure, OutputError, Payload, Rejected, RunResult};
pub use runs::{DamagedLine, LastRecord, ListedRun, RunEntry, RunStanding, damaged_lines, list_runs, unlisted_runs};
pub use state::{CallApproval, Round, RoundCall, RunState};
