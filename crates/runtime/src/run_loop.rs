//! The loop: ask the model, run the calls it asks for, ask again, until there is an answer.
//!
//! The loop has no memory of its own. What was asked, what ran and what it cost is in the run's state, which its records
//! fold to; [`steps::next`] reads from it what to do. So a resumed run is the same loop on the same state.

use crate::answers;
use crate::error::{Result, RuntimeError};
use crate::journal::JournalWriter;
use crate::output::{Shaping, shaping};
use crate::steps::{self, Situation, Step, Stop};
use crate::turn::{self, TurnWatcher};
use placet_core::event::{EventBody, RequestStarted, RunCompleted, RunEnd, RunFailed, RunStarted, TurnCompleted};
use placet_core::hosted::HostedTool;
use placet_core::output::OutputFallback;
use placet_core::{
    Accumulator, Diagnose, Env, ErrorKind, Money, Outcome, OutputStrategy, ProviderError, Redactor, ToolCall,
    ToolChoice, ToolDefinition, TurnRequest, Usage,
};
use placet_models::{AskContext, AskObserver, SharedProvider};
use placet_observe::{Failure, RunResult};
use placet_tools::{CallContext, Pipeline, PipelineError, Private, Problem};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A run that this process owns.
pub(crate) struct ActiveRun {
    pub(crate) env: Env,
    pub(crate) journal: Arc<JournalWriter>,
    pub(crate) provider: SharedProvider,
    pub(crate) pipeline: Pipeline,
    /// How it was started.
    pub(crate) started: Arc<RunStarted>,
    /// What the model is told of: granted tools first, then declared ones.
    pub(crate) tools: Vec<Arc<ToolDefinition>>,
    /// The shape that its answer must have.
    pub(crate) shape: Option<Shaping>,
    /// What the provider runs itself.
    pub(crate) hosted: Vec<HostedTool>,
    pub(crate) private: Private,
    pub(crate) redactor: Redactor,
    /// The trace that its requests are a part of.
    pub(crate) trace: Option<String>,
    pub(crate) cancel: CancellationToken,
    /// Cancelled when the run is to be left as it is.
    pub(crate) leave: CancellationToken,
    /// Cancelled when handlers that run are not to be waited for any more, but told to stop.
    pub(crate) leave_now: CancellationToken,
    /// When its time is up, on the environment's steady clock.
    pub(crate) deadline: Option<Duration>,
    /// Whether the run ends once the calls of its first turn are answered.
    pub(crate) round_only: bool,
    /// Whether the run was resumed and its provider has not answered since.
    pub(crate) untried: bool,
    /// The turn that broke off, if one did.
    pub(crate) broken: Broken,
}

/// What is left of a turn that broke off.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    /// Its text, as far as it came.
    text: Option<String>,
    /// What it used, as far as the provider said.
    usage: Option<Usage>,
    /// Why the provider broke it off; absent where we did.
    failure: Option<Failure>,
}

/// Why something that takes long is not waited for any more.
enum Interruption {
    Cancelled,
    TimeOver,
    Lost,
}

impl ActiveRun {
    /// Goes from step to step until the run has ended.
    pub(crate) async fn drive(&mut self) -> Result<RunResult> {
        loop {
            match self.next_step() {
                Step::End(stop) => return self.end(stop).await,
                _ if self.leave.is_cancelled() => return self.left().await,
                Step::Ask => self.ask().await?,
                Step::RunRound => self.run_round().await?,
                Step::AnswerCutRound => self.answer_open_calls(answers::turn_cut)?,
                Step::AnswerFinalRound => self.answer_final_round()?,
                Step::RejectOutput(problems) => self.reject(&problems)?,
            }
        }
    }

    fn next_step(&self) -> Step {
        let situation = Situation {
            cancelled: self.cancel.is_cancelled(),
            time_over: self.deadline.is_some_and(|deadline| self.env.clock().steady() >= deadline),
            failure: self.broken.failure.as_ref(),
            round_only: self.round_only,
            shape: self.shape.as_ref(),
        };
        self.journal.read(|state| steps::next(state, &self.started, &situation))
    }

    /// Asks for one turn. Nothing is run.
    async fn ask(&mut self) -> Result<()> {
        self.journal.commit_unless_it_can_ride().await?;
        let (number, request, strategy) = self.journal.read(|state| {
            let tool_choice = match &self.started.tool_choice {
                choice if choice.is_forced() && state.rounds() > 0 => ToolChoice::Auto,
                choice => choice.clone(),
            };
            let request = TurnRequest {
                model: self.started.model.clone(),
                instructions: self.started.instructions.clone(),
                items: state.items().to_vec(),
                tools: self.tools.clone(),
                hosted: self.hosted.clone(),
                tool_choice,
                controls: self.started.controls.clone(),
                provider_state: state.provider_state().cloned(),
                ..TurnRequest::default()
            };
            let (strategy, misses) = (state.strategy(), state.rejected().len());
            let request = match (&self.shape, strategy) {
                (Some(shape), Some(strategy)) => {
                    shape.shaped(request, self.pipeline.registry().definitions().len(), strategy, misses)
                }
                _ => request,
            };
            (state.turns() + 1, Arc::new(request), strategy)
        });
        let provider = self.provider.id().clone();
        self.journal.live(EventBody::RequestStarted(RequestStarted {
            turn: number,
            provider: provider.clone(),
            model: self.started.model.clone(),
        }));

        let began = self.env.clock().steady();
        let watcher = Arc::new(TurnWatcher::new(self.journal.clone()));
        // Whatever comes of it: once nobody waits for the answer, the connection is closed.
        let connection = self.cancel.child_token();
        let closing = connection.clone().drop_guard();
        let observer = Some(watcher.clone() as Arc<dyn AskObserver>);
        let trace = self.trace.clone();
        let context = AskContext { cancel: connection, observer, trace, ..AskContext::new(self.env.clone()) };
        let mut answer = Accumulator::new();
        let asked = tokio::select! {
            biased;
            asked = turn::stream(&*self.provider, request, context, &self.journal, &mut answer) => Ok(asked),
            why = self.interrupted() => Err(why),
            // The loop sees it next; the turn is not recorded, so whoever resumes the run asks it again.
            () = self.leave.cancelled() => return Ok(()),
        };
        drop(closing);

        let (text, usage) = (answer.text(), answer.usage());
        let finished = match asked {
            Ok(asked) => asked.and_then(|()| answer.finish(&provider, &self.env)),
            Err(Interruption::Lost) => return Err(self.journal.lost_error()),
            Err(Interruption::Cancelled | Interruption::TimeOver) => {
                self.broken = Broken { text: said(text), usage, failure: None };
                return Ok(());
            }
        };
        let untried = std::mem::replace(&mut self.untried, false);
        match finished {
            Ok(turn) => {
                let cost = self.cost(turn.usage, turn.service_tier.as_deref());
                self.journal.append(EventBody::TurnCompleted(Box::new(TurnCompleted {
                    number,
                    cost,
                    billed: self.journal.read(|state| state.billed_for(&turn, cost)),
                    turn,
                    omitted: watcher.omitted(),
                    took_ms: millis(self.env.clock().steady().saturating_sub(began)),
                })))
            }
            Err(error) if untried && is_of_this_place(&error) => {
                self.journal.commit().await?;
                Err(RuntimeError::Provider(self.redacted(told_whole(error))))
            }
            Err(error) => {
                if let Some((from, to)) = self.other_way(strategy, &error).filter(|_| text.is_empty()) {
                    let because = self.redacted(error).message;
                    return self.journal.append(EventBody::OutputFallback(OutputFallback { from, to, because }));
                }
                self.broken = Broken { text: said(text), usage, failure: Some(self.failure(error)) };
                Ok(())
            }
        }
    }

    /// The way to the shape that is taken in place of one which the provider refused.
    fn other_way(
        &self,
        strategy: Option<OutputStrategy>,
        error: &ProviderError,
    ) -> Option<(OutputStrategy, OutputStrategy)> {
        let (shape, from) = (self.shape.as_ref()?, strategy?);
        Some((from, shape.fallback(from, error)?))
    }

    /// Notes that the answer does not have the wanted shape; what is to come of it is the next step.
    fn reject(&self, problems: &[Problem]) -> Result<()> {
        let Some(shape) = &self.shape else { return Ok(()) };
        let (turn, before, strategy) = self
            .journal
            .read(|state| (state.turns(), state.rejected().len(), state.strategy().unwrap_or(shape.spec().strategy)));
        let again = before < usize::try_from(shape.spec().repairs).unwrap_or(usize::MAX);
        let id = again.then(|| self.env.new_id());
        let rejected = shaping::rejected(turn, shaping::said(problems), id, strategy);
        self.journal.append(EventBody::OutputRejected(rejected))
    }

    /// Answers the calls of a round in which the answer was submitted: no capability sees any of them.
    fn answer_final_round(&self) -> Result<()> {
        let answers = self.journal.read(|state| {
            let (shape, round, strategy) = (self.shape.as_ref()?, state.round()?, state.strategy()?);
            let calls: Vec<&ToolCall> = round.calls.iter().map(|call| &call.call).collect();
            let outcomes = shape.answers(&calls, strategy)?;
            let open = round.calls.iter().zip(outcomes).filter(|(call, _)| call.result.is_none());
            Some(open.map(|(call, outcome)| (call.call.clone(), outcome)).collect::<Vec<_>>())
        });
        for (call, outcome) in answers.unwrap_or_default() {
            self.journal.request(&call.id, self.pipeline.registry())?;
            self.journal.answer(&call, self.pipeline.registry().capability_of(&call.name).cloned(), outcome)?;
        }
        Ok(())
    }

    /// Runs the calls of the round that are not answered yet, all of them through the pipeline.
    async fn run_round(&mut self) -> Result<()> {
        let open = self.open_calls();
        let stop = self.cancel.child_token();
        let (turn, origins) =
            self.journal.read(|state| (state.round().map(|round| round.turn.clone()), state.origins().clone()));
        let Some(turn) = turn else { return Ok(()) };
        let mut context = CallContext::new(&self.env)
            .asked_by(self.journal.run().clone(), turn)
            .cancelled_by(stop.clone())
            .left_by(self.leave.clone())
            .origins(origins)
            .private(self.private.clone());
        if let Some(deadline) = self.deadline {
            context = context.deadline(deadline);
        }
        let mut round = std::pin::pin!(self.pipeline.run_round(&open, &context));
        let results = tokio::select! {
            biased;
            results = &mut round => results,
            // Handlers see the token. Those that only read are dropped by the pipeline; the others are waited for. Where the
            // run is left, the pipeline lets those end that run, and starts no others.
            _ = self.interrupted() => {
                stop.cancel();
                round.await
            }
            () = self.leave_now.cancelled() => {
                stop.cancel();
                round.await
            }
        };
        match results {
            // The loop sees it next; the calls stay open for whoever resumes the run.
            Ok(_) | Err(PipelineError::Left) => Ok(()),
            Err(error) => Err(pipeline_error(error)),
        }
    }

    /// All calls of the round that wait for an answer.
    fn open_calls(&self) -> Vec<ToolCall> {
        self.journal.read(|state| {
            let calls = state.round().map(|round| round.calls.as_slice()).unwrap_or_default();
            calls.iter().filter(|call| call.result.is_none()).map(|call| call.call.clone()).collect()
        })
    }

    /// Answers every open call of the round without running it.
    fn answer_open_calls(&self, outcome: impl Fn() -> Outcome) -> Result<()> {
        for call in self.open_calls() {
            self.journal.request(&call.id, self.pipeline.registry())?;
            self.journal.answer(&call, self.pipeline.registry().capability_of(&call.name).cloned(), outcome())?;
        }
        Ok(())
    }

    /// Writes the end, with an answer to every call that is still open.
    async fn end(&mut self, stop: Stop) -> Result<RunResult> {
        if let Some(why) = stop.of_open_calls() {
            self.answer_open_calls(|| answers::not_run(&why))?;
        }
        let Broken { text: partial, usage, .. } = std::mem::take(&mut self.broken);
        let (mut used, mut cost, mut sold, turns, rounds) =
            self.journal.read(|state| (state.usage(), state.cost(), state.sold(), state.turns(), state.rounds()));
        let billing = self.started.billing.as_ref();
        if let Some(usage) = usage {
            used += usage;
            cost = cost.and_then(|sum| Some(sum + self.cost(Some(usage), None)?));
            sold = sold.and_then(|sum| Some(sum + billing?.of_turn(&usage, None)?));
        }
        let billed = billing.and_then(|billing| billing.of_run(sold, cost));
        let (stop, output) = match stop {
            Stop::Output(answer) => (Stop::End(RunEnd::Completed, None), Some(answer)),
            // It may quote what the model wrote.
            Stop::Fail(failure) if failure.kind == ErrorKind::OutputMismatch => {
                let message = self.redactor.redact_text(&failure.message).into_owned();
                (Stop::Fail(Failure { message, ..failure }), None)
            }
            other => (other, None),
        };
        self.journal.append(match stop {
            Stop::Output(_) => return Err(RuntimeError::internal("an answer was put down twice")),
            Stop::End(end, detail) => EventBody::RunCompleted(RunCompleted {
                end,
                detail,
                usage: used,
                cost,
                billed,
                output,
                turns,
                rounds,
                partial,
            }),
            Stop::Fail(Failure { kind, message, hints, retry_after_ms }) => EventBody::RunFailed(RunFailed {
                kind,
                message,
                hints,
                retry_after_ms,
                usage: used,
                cost,
                billed,
                partial,
            }),
        })?;
        self.journal.commit().await?;
        self.journal
            .read(placet_observe::RunState::result)
            .ok_or_else(|| RuntimeError::internal("the run has ended without a result"))
    }

    /// Records what is not recorded yet, and leaves the run to whoever resumes it.
    async fn left(&self) -> Result<RunResult> {
        self.journal.commit().await?;
        Err(RuntimeError::Left { run: self.journal.run().clone() })
    }

    /// Ends the run after a fault of ours.
    pub(crate) async fn fail(&mut self, problem: &str) -> Result<RunResult> {
        self.end(Stop::internal(self.redactor.redact_text(problem).into_owned())).await
    }

    /// Completes when there is a reason to stop waiting; keeps the lease alive meanwhile.
    async fn interrupted(&self) -> Interruption {
        let time_over = async {
            match self.deadline {
                Some(deadline) => self.env.sleep(deadline.saturating_sub(self.env.clock().steady())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Interruption::Cancelled,
            () = self.journal.keep_until_lost() => Interruption::Lost,
            () = time_over => Interruption::TimeOver,
        }
    }

    fn cost(&self, usage: Option<Usage>, tier: Option<&str>) -> Option<Money> {
        self.started.cost(&usage?, tier)
    }

    fn failure(&self, error: ProviderError) -> Failure {
        let error = self.redacted(told_whole(error));
        let retry_after_ms = error.retry_after_ms;
        Failure { kind: error.kind(), message: error.to_string(), hints: error.hints(), retry_after_ms }
    }

    fn redacted(&self, mut error: ProviderError) -> ProviderError {
        let redact = |text: &mut String| *text = self.redactor.redact_text(text).into_owned();
        redact(&mut error.message);
        error.hints.iter_mut().chain(&mut error.raw).for_each(redact);
        error
    }
}

/// Whether an error says nothing of the run, but that its provider cannot be asked from where it was resumed.
fn is_of_this_place(error: &ProviderError) -> bool {
    matches!(error.kind, ErrorKind::Authentication | ErrorKind::NotFound | ErrorKind::Wiring | ErrorKind::Network)
}

/// With the status and the wait that the server named, which its own words often leave out, and with something to do.
fn told_whole(mut error: ProviderError) -> ProviderError {
    if let Some(status) = error.status.filter(|status| !(200..300).contains(status))
        && !error.message.contains(&status.to_string())
    {
        error.message = format!("{} (HTTP status {status})", error.message);
    }
    if let Some(wait) = error.retry_after() {
        let seconds = wait.as_secs().max(1);
        error.hints.push(format!("the server asks to be left alone for {seconds} s, which is not waited for any more"));
    } else if error.hints.is_empty() && error.status.is_some() && error.kind.is_transient() {
        error.hints.push("the server itself is in trouble: try again later, or ask another model".to_owned());
    }
    error
}

fn said(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// What the journal said through the pipeline comes back as what it was.
fn pipeline_error(error: PipelineError) -> RuntimeError {
    match error {
        PipelineError::Record(error) => match error.downcast::<RuntimeError>() {
            Ok(error) => *error,
            Err(other) => RuntimeError::internal(format!("a call could not be recorded: {other}")),
        },
        other => RuntimeError::internal(other.to_string()),
    }
}
