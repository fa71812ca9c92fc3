//! The answers to calls that the pipeline never saw.

use placet_core::{Outcome, Reason, Stage, Status};

/// To a call that was not run because the run ends.
pub(crate) fn not_run(why: &str) -> Outcome {
    Outcome::new(Status::Refused, Stage::Admit, Some(Reason::NotRun), format!("not run: {why}"))
}

/// To a call of a turn that was cut: it may be half of what was meant.
pub(crate) fn turn_cut() -> Outcome {
    let text = "not run: the answer was cut before it was whole, so its calls cannot be trusted; ask again, with less in one answer";
    Outcome::new(Status::Mistaken, Stage::Admit, Some(Reason::TurnCut), text)
}

/// To a call that was started by a process that is gone: whether it took effect, nobody knows.
pub(crate) fn interrupted() -> Outcome {
    let text =
        "the process ended while this call was running; whether it took effect is not known, and it is not run again";
    Outcome::new(Status::Interrupted, Stage::Execute, Some(Reason::Interrupted), text)
}
