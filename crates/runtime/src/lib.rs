//! The loop: runs, limits, the journal, live events and resume.
//!
//! [`Runtime::run`] starts a run: it asks a model, runs the calls it asks for through the one pipeline, asks again, and
//! ends with a [`RunResult`]. Everything a run does is a record of its journal, committed before the run goes on; what to
//! do next is read from the state that these records fold to. Hence [`Runtime::resume`], which goes on in another process
//! with what the journal holds, and asks and does nothing in it again.
//!
//! # What it must never do
//!
//! Run a handler other than through the pipeline, start one that changes something before its intent is on disk, or wait
//! for a reader of its events.

mod answers;
mod approvals;
mod chat;
mod error;
mod feed;
mod handle;
mod journal;
mod launch;
pub mod output;
mod recorder;
mod request;
mod resume;
mod run_loop;
mod runtime;
pub mod schedule;
mod steps;
mod turn;

pub use chat::Chat;
pub use error::{Problems, Result, RuntimeError};
pub use handle::{EventStream, Leaving, RunHandle};
pub use journal::{CommitPoint, JournalWitness};
pub use output::Output;
pub use placet_observe::{Ending, Failure, OutputError, Payload, Rejected, RunResult};
pub use request::{ModelChoice, RunBuilder};
pub use resume::ResumeBuilder;
pub use runtime::{Runtime, RuntimeBuilder};
