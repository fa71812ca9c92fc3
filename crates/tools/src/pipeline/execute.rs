//! *execute*: the handler, once; its panic contained, its time limited, its cancellation told.

use super::stages::{answered, tool_origin};
use super::{PipelineError, State, Way, own, texts};
use crate::answer::{NO_OUTPUT, ToolError, ToolOutput};
use futures_util::FutureExt;
use placet_core::env::panic_text;
use placet_core::event::{CallStarted, EventBody};
use placet_core::{BoxFuture, Effect, Outcome, Part, Reason, Stage, Status};
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::task::Poll;

type Answer = Result<ToolOutput, ToolError>;
type Caught = Result<Answer, Box<dyn Any + Send>>;

/// Why a handler is told to stop.
#[derive(Clone, Copy)]
enum Halt {
    Cancelled,
    TimedOut,
}

pub(super) async fn execute(state: &mut State) -> Result<Outcome, PipelineError> {
    let (Some(ready), Some(cx), Some(entry)) = (state.ready.take(), state.tool_cx.clone(), state.entry.clone()) else {
        return Err(PipelineError::TaskLost);
    };
    let options = &state.pipeline.options;
    let recorder = &options.recorder;
    recorder.starting(&state.call, &entry.capability).await.map_err(PipelineError::Record)?;
    recorder.live(EventBody::CallStarted(CallStarted {
        call: state.call.id.clone(),
        tool: state.call.name.clone(),
        capability: Some(entry.capability.clone()),
    }));
    let effect = entry.tool.effect();
    if effect == Effect::Once
        && let Some(ticket) = &mut state.ticket
    {
        // From here on the call counts as run, even if nobody learns how it ends.
        ticket.stage = Way::RunsOnce;
    }
    let clock = state.cx.env.clock();
    let now = clock.steady();
    let allowed = entry.timeout.unwrap_or(options.timeout);
    let deadline = state.cx.deadline.map_or(now + allowed, |deadline| deadline.min(now + allowed));
    cx.set_deadline(deadline);
    let token = cx.cancellation().clone();
    // The handler's first lines, before any future exists, may panic as well.
    let work = async move { ready.run(cx).await };
    let mut handler: BoxFuture<'static, Caught> = Box::pin(AssertUnwindSafe(work).catch_unwind());
    if let Poll::Ready(caught) = futures_util::poll!(&mut handler) {
        return Ok(outcome(state, caught));
    }
    // What a read answers that was told to stop is no answer to keep for whoever goes on with the run.
    let (leave, cancel) = (&state.cx.leave, &state.cx.cancel);
    let given_up = || effect == Effect::Read && leave.is_cancelled() && cancel.is_cancelled();
    let halt = tokio::select! {
        biased;
        caught = &mut handler => return if given_up() { Err(PipelineError::Left) } else { Ok(outcome(state, caught)) },
        () = state.cx.cancel.cancelled() => Halt::Cancelled,
        () = state.cx.env.sleep(deadline.saturating_sub(now)) => Halt::TimedOut,
    };
    token.cancel();
    if effect == Effect::Read {
        drop(handler);
        if given_up() {
            return Err(PipelineError::Left);
        }
        return Ok(halted(state, halt, effect, deadline.saturating_sub(now).as_secs_f64()));
    }
    tokio::select! {
        biased;
        caught = &mut handler => return Ok(outcome(state, caught)),
        () = state.cx.env.sleep(options.grace) => {}
    }
    let tool = state.call.name.clone();
    let call = state.call.id.clone();
    state.cx.env.spawn("late tool handler", async move {
        let completed = matches!(handler.await, Ok(Ok(_)));
        tracing::warn!(%tool, %call, completed, "a tool ended after it was given up");
    });
    Ok(halted(state, halt, effect, deadline.saturating_sub(now).as_secs_f64()))
}

fn halted(state: &State, halt: Halt, effect: Effect, seconds: f64) -> Outcome {
    let changes = effect != Effect::Read;
    let (status, reason, text) = match halt {
        Halt::TimedOut => (Status::Failed, Reason::Timeout, texts::timed_out(seconds, changes)),
        Halt::Cancelled if changes => (Status::Interrupted, Reason::Cancelled, texts::EFFECT_UNKNOWN.to_owned()),
        Halt::Cancelled => (Status::Failed, Reason::Cancelled, texts::CANCELLED_MIDWAY.to_owned()),
    };
    state.worded(own(status, Stage::Execute, reason, text))
}

fn outcome(state: &State, caught: Caught) -> Outcome {
    match caught {
        Ok(Ok(output)) => answer(state, output),
        Ok(Err(error)) => answered(state, Stage::Execute, error),
        Err(panic) => {
            let mut outcome = own(Status::Failed, Stage::Execute, Reason::Panicked, texts::PANICKED);
            outcome.cause = Some(panic_text(panic.as_ref()));
            state.worded(outcome)
        }
    }
}

fn answer(state: &State, output: ToolOutput) -> Outcome {
    let (status, reason) = match output.is_failure {
        true => (Status::Failed, Some(Reason::ToolError)),
        false => (Status::Completed, None),
    };
    // An answer without content is not taken by every provider.
    let nothing = output.content.iter().all(|part| part.as_text().is_some_and(str::is_empty));
    let content = if nothing { vec![Part::text(NO_OUTPUT)] } else { output.content };
    Outcome {
        content,
        payload: output.payload,
        revision: output.revision,
        cut: output.cut,
        facts: output.facts,
        origin: if output.origin.is_empty() { tool_origin(state) } else { output.origin },
        ..Outcome::new(status, Stage::Execute, reason, String::new())
    }
}
