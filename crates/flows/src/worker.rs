//! Doing what was left for later.

use crate::conduct::{Start, go};
use crate::cx::{Cx, Tally, may_pass};
use crate::error::{FlowError, Result};
use crate::exchange::Principal;
use crate::flows::Shared;
use crate::kept::{Binding, Kept, Standing, derived_run};
use crate::memo::Memo;
use crate::model::CatchFlow;
use crate::observe::{FlowHappening, WorkDone};
use crate::suspend::{EXPIRY, expire, expiry};
use crate::walk::Walked;
use crate::work::{Later, Work};
use async_trait::async_trait;
use placet_core::{Digest, TurnRequest};
use placet_runtime::schedule::{DueJob, JobFailure, JobHandler};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// How long is known that a piece of work is done.
pub(crate) const KNOWN: Duration = Duration::from_secs(24 * 3600);

/// Does the jobs of some flows.
#[derive(Default)]
pub(crate) struct Worker(OnceLock<Weak<Shared>>);

impl Worker {
    pub(crate) fn belongs_to(&self, shared: &Arc<Shared>) {
        let _ = self.0.set(Arc::downgrade(shared));
    }
}

#[async_trait]
impl JobHandler for Worker {
    async fn run(&self, job: DueJob) -> Result<(), JobFailure> {
        let gone = || JobFailure { problem: "the flows are not served any more".to_owned(), again: true };
        let shared = self.0.get().and_then(Weak::upgrade).ok_or_else(gone)?;
        let fail = |error: FlowError, again: bool| JobFailure { problem: shared.told(&error), again };
        if job.job.kind == EXPIRY {
            let id = job.job.payload.get("id").and_then(|id| id.as_str()).unwrap_or_default();
            return expire(&shared.runtime, id).await.map_err(|error| fail(error, true));
        }
        let work: Work = serde_json::from_value(job.job.payload.clone()).map_err(|error| JobFailure {
            problem: format!("what is to be done cannot be read: {error}"),
            again: false,
        })?;
        carry_out(&shared, &job, work).await.map_err(|error| {
            let again = may_pass(&error)
                || matches!(
                    error,
                    FlowError::Handler(_) | FlowError::Panicked { .. } | FlowError::Cancelled | FlowError::Store(_)
                );
            fail(error, again)
        })
    }
}

async fn carry_out(shared: &Arc<Shared>, job: &DueJob, work: Work) -> Result<()> {
    let served = shared.served.get(&work.flow).ok_or_else(|| FlowError::UnknownFlow { name: work.flow.clone() })?;
    if !work.signature.is_empty() && work.signature != served.signature {
        return Err(FlowError::FlowChanged);
    }
    let runtime = &shared.runtime;
    // The same each time it is tried, and another one for each time that it is meant for.
    let id = format!("job-{}-{}", job.job.id, job.meant_for.as_micros());
    let binding = Binding {
        principal: work.principal.clone(),
        flow: work.flow.clone(),
        signature: served.signature.clone(),
        request: Digest::of(job.job.payload.to_string().as_bytes()).to_hex(),
    };
    let (kept, steps) = match Kept::come(runtime, &id, &binding, &shared.owner).await? {
        Ok(Standing::Ours(kept, steps)) => (kept, steps),
        Ok(Standing::Answered(_)) => return Ok(()),
        Ok(Standing::Busy) => return Err(FlowError::Cancelled),
        Err(_) => return Err(FlowError::FlowChanged),
    };
    if steps.is_empty() {
        shared.scheduler.put(expiry(&id, runtime.env().now().plus(KNOWN))).await?;
    }
    let run = derived_run(&id, "", 0);
    let request = TurnRequest { items: work.chat.clone(), ..work.request.clone() };
    let cx = Arc::new(Cx {
        runtime: runtime.clone(),
        models: shared.models.clone(),
        flow: work.flow.clone(),
        request: Arc::new(request),
        principal: Principal::new(work.principal.as_str()),
        stream: false,
        metadata: work.metadata.clone(),
        payload: work.payload.clone(),
        depth: work.depth,
        base: run.as_str().to_owned(),
        run,
        root: None,
        cancel: job.cancel.clone(),
        memo: Memo::new(steps, Some(kept.clone())),
        outlet: None,
        scheduler: Some(shared.scheduler.clone()),
        observer: shared.observer.clone(),
        tally: Tally::default(),
        claimed: std::collections::HashSet::new(),
    });
    let (began, began_at) = (runtime.env().clock().steady(), runtime.env().now());
    let started = cx.started("");
    let start = Start::Frames { frames: work.frames, chat: work.chat, selection: work.selection };
    let ran = AssertUnwindSafe(run_body(shared, &cx, &served.flow, &start)).catch_unwind_flow();
    let renewing = async {
        loop {
            runtime.env().sleep(crate::kept::LEASE / 3).await;
            if !kept.renew().await {
                return;
            }
        }
    };
    let ended = tokio::select! {
        ended = ran => ended,
        () = renewing => Err(FlowError::Cancelled),
    };
    let ended = match ended {
        Ok(()) => kept.put_answer(&[]).await,
        Err(error) => {
            cx.tell("", FlowHappening::FollowUpFailed { error: error.code().to_owned() });
            Err(error)
        }
    };
    started.ended(&ended);
    if let Some(observer) = &shared.work_observer {
        observer.done(&WorkDone {
            run: cx.run.clone(),
            flow: cx.flow.clone(),
            principal: cx.principal.clone(),
            at: began_at,
            took: runtime.env().clock().steady().saturating_sub(began),
            attempt: job.attempt,
            bill: cx.tally.tab.bill(),
            trace: cx.trace(),
            problem: ended.as_ref().err().map(|error| shared.told(error)),
            is_cancelled: matches!(ended, Err(FlowError::Cancelled)),
        });
    }
    kept.let_go().await;
    ended
}

async fn run_body(shared: &Arc<Shared>, cx: &Arc<Cx>, flow: &crate::flow::Flow, start: &Start) -> Result<()> {
    let (walked, state) = go(cx, flow, start).await?;
    let mut later = state.later.clone();
    match walked {
        Walked::Suspended => {
            let what = "a model asked for tools of a client, and there is no client who could run them".to_owned();
            return Err(FlowError::Limit { what });
        }
        Walked::Answered(frames) if !frames.is_empty() => later.push(Later::follow_up(cx, frames, &state)),
        Walked::Answered(_) | Walked::Done => {}
    }
    shared.leave_behind(cx, &later).await
}
