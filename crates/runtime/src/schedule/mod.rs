//! The one scheduler: what is to be done later, at a time, or again and again, by whichever process is there then.
//!
//! | what | place | written |
//! |---|---|---|
//! | a job, and how it stands | cell `schedule`, id | by whoever asks for it, claims it and ends it |
//! | when somebody has to look at it | due index `schedule` of its kind | with the job |
//!
//! Several processes may sweep one store. A job is claimed by the commit that takes its entry out of the index and puts one
//! in for the end of the claim: where the process dies, the job becomes due again. A time that passed while nobody swept is
//! made up for once, however many of them there were.

mod cron;
mod engine;
mod job;

pub use cron::{Cron, InvalidCron};
pub use engine::{DueJob, JobFailure, JobHandler, Scheduler, SchedulerBuilder};
pub use job::{Job, JobState, JobTime, StoredJob};
