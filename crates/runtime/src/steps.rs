//! What a run does next: a function of its state and of what has happened around it.

use crate::output::Shaping;
use placet_core::event::{RunEnd, RunStarted};
use placet_core::{ErrorKind, OutputStrategy, StopReason, ToolCall};
use placet_observe::{Failure, Round, RunState};
use placet_tools::Problem;
use serde_json::Value;

/// What a run does next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Ask the model.
    Ask,
    /// Run the calls of the round.
    RunRound,
    /// Answer the calls of a cut turn without running them.
    AnswerCutRound,
    /// Answer the calls of a round in which the answer was submitted, without running the others.
    AnswerFinalRound,
    /// Note that the answer does not have the wanted shape.
    RejectOutput(Vec<Problem>),
    /// End.
    End(Stop),
}

/// How a run is to end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// As it should, or at a limit.
    End(RunEnd, Option<String>),
    /// With an answer of the wanted shape.
    Output(Value),
    /// With an error.
    Fail(Failure),
}

/// What has happened around a run, as far as it decides what comes next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Situation<'a> {
    pub(crate) cancelled: bool,
    pub(crate) time_over: bool,
    /// Whether the run ends once the calls of its first turn are answered.
    pub(crate) round_only: bool,
    pub(crate) failure: Option<&'a Failure>,
    /// The wanted shape, where there is one.
    pub(crate) shape: Option<&'a Shaping>,
}

impl<'a> Situation<'a> {
    /// The wanted shape, and how the model is brought to it now.
    fn wanted(&self, state: &RunState) -> Option<(&'a Shaping, OutputStrategy)> {
        Some((self.shape?, state.strategy()?))
    }
}

impl Stop {
    fn limit(detail: impl Into<String>) -> Self {
        Stop::End(RunEnd::LimitReached, Some(detail.into()))
    }

    fn mismatch(problems: &[String]) -> Self {
        Stop::Fail(Failure {
            kind: ErrorKind::OutputMismatch,
            message: format!("the model's answer does not have the wanted shape: {}", problems.join("; ")),
            hints: vec!["The answer is kept as the run's text.".to_owned()],
            retry_after_ms: None,
        })
    }

    pub(crate) fn internal(message: String) -> Self {
        Stop::Fail(Failure { kind: ErrorKind::Internal, message, hints: Vec::new(), retry_after_ms: None })
    }

    /// Why calls that are still open are not run; nothing where they are handed back.
    pub(crate) fn of_open_calls(&self) -> Option<String> {
        match self {
            Stop::End(RunEnd::HandedBack, _) => None,
            Stop::End(RunEnd::Cancelled, _) => Some("the run was cancelled".to_owned()),
            Stop::End(_, detail) => Some(detail.clone().unwrap_or_else(|| "the run has ended".to_owned())),
            Stop::Output(_) => Some("the run has its answer".to_owned()),
            Stop::Fail(_) => Some("the run has failed".to_owned()),
        }
    }
}

/// What the run does next.
pub(crate) fn next(state: &RunState, started: &RunStarted, situation: &Situation<'_>) -> Step {
    if let Some(failure) = situation.failure {
        return Step::End(Stop::Fail(failure.clone()));
    }
    if situation.cancelled {
        return Step::End(Stop::End(RunEnd::Cancelled, None));
    }
    if let Some(answer) = state.submitted() {
        return Step::End(Stop::Output(answer.clone()));
    }
    if let (Some(shape), Some(last)) = (situation.shape, state.rejected().last())
        && state.rejected().len() > usize::try_from(shape.spec().repairs).unwrap_or(usize::MAX)
    {
        return Step::End(Stop::mismatch(&last.problems));
    }
    let used_up = used_up(state, started, situation);
    let limits = &started.limits;
    if let Some(round) = state.round() {
        // An answer is no round: it counts whatever limit is reached, and whoever else is asked for something beside it.
        if let Some((shape, strategy)) = situation.wanted(state).filter(|_| !round.cut) {
            let calls: Vec<&ToolCall> = round.calls.iter().map(|call| &call.call).collect();
            if shape.submission(&calls, strategy).is_some() {
                return Step::AnswerFinalRound;
            }
        }
        if !round.cut && belongs_to_somebody_else(round, started) {
            return Step::End(Stop::End(RunEnd::HandedBack, None));
        }
        if let Some(limit) = used_up {
            return Step::End(Stop::limit(limit));
        }
        // The limit counts before the handlers of one round too many run, not after.
        if state.rounds() >= limits.rounds {
            return Step::End(Stop::limit(format!("all {} rounds of tool calls have run", limits.rounds)));
        }
        return if round.cut { Step::AnswerCutRound } else { Step::RunRound };
    }
    if situation.round_only && state.turns() > 0 {
        return Step::End(Stop::End(RunEnd::Completed, Some("only one round was to be run".to_owned())));
    }
    if !state.turn_due() {
        return answered(state, situation);
    }
    if let Some(limit) = used_up {
        return Step::End(Stop::limit(limit));
    }
    if state.pauses() > limits.rounds {
        return Step::End(Stop::limit(format!("the provider paused more than {} times in a row", limits.rounds)));
    }
    Step::Ask
}

/// A round with one call to a tool that somebody else answers is not ours to answer: all of it or nothing.
fn belongs_to_somebody_else(round: &Round, started: &RunStarted) -> bool {
    round.calls.iter().any(|call| started.declared.iter().any(|tool| tool.name == call.call.name))
}

/// What comes of a run whose model asks for nothing more.
fn answered(state: &RunState, situation: &Situation<'_>) -> Step {
    let wanted = situation.wanted(state);
    Step::End(match state.stop() {
        Some(StopReason::MaxTokens) => Stop::limit("the model's answer was cut at its output limit"),
        Some(StopReason::ContentFilter) => Stop::Fail(Failure {
            kind: ErrorKind::ContentFiltered,
            message: "the provider's content filter cut the model's answer".to_owned(),
            hints: vec!["What came before the cut is kept as the run's text.".to_owned()],
            retry_after_ms: None,
        }),
        Some(StopReason::Refusal) if wanted.is_some() => Stop::Fail(Failure {
            kind: ErrorKind::Refused,
            message: "the model refused to answer".to_owned(),
            hints: vec!["What it said is kept as the run's text.".to_owned()],
            retry_after_ms: None,
        }),
        Some(StopReason::Refusal) => Stop::End(RunEnd::Completed, Some("the model refused".to_owned())),
        _ => match wanted.map(|(shape, strategy)| shape.judge_text(state.text(), strategy)) {
            None => Stop::End(RunEnd::Completed, None),
            Some(Ok(answer)) => Stop::Output(answer),
            Some(Err(problems)) => return Step::RejectOutput(problems),
        },
    })
}

/// The limit of time, tokens or money that is reached, in a sentence. A limit that cannot be watched counts as reached.
fn used_up(state: &RunState, started: &RunStarted, situation: &Situation<'_>) -> Option<String> {
    let limits = &started.limits;
    if situation.time_over {
        return Some(format!("the time of {} ms is over", limits.time_ms.unwrap_or_default()));
    }
    if let Some(most) = limits.tokens {
        if state.usage_unknown() {
            return Some(format!(
                "the provider does not say what a turn used, so the limit of {most} tokens cannot be kept"
            ));
        }
        let used = state.usage().total();
        if used >= most {
            return Some(format!("{used} of {most} tokens are used"));
        }
    }
    if let Some(most) = limits.cost {
        match state.cost() {
            None => {
                return Some(format!(
                    "the provider does not say what a turn used, so the limit of {most} cannot be kept"
                ));
            }
            Some(cost) if cost >= most => return Some(format!("{cost} of {most} are spent")),
            Some(_) => {}
        }
    }
    None
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
