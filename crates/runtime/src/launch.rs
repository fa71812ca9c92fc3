//! From a plan to a run that goes on in the background.

use crate::approvals::Remembering;
use crate::error::Result;
use crate::feed::Feed;
use crate::handle::{EventSource, RunHandle};
use crate::journal::JournalWriter;
use crate::recorder::RunRecorder;
use crate::request::{Extras, Observer, Plan, RunBuilder};
use crate::run_loop::{ActiveRun, Broken};
use crate::runtime::Shared;
use futures_util::FutureExt;
use placet_core::Cursor;
use placet_core::env::{Task, panic_text};
use placet_core::event::{EventBody, RunStarted, TurnCompleted};
use placet_observe::{RunResult, RunState};
use placet_tools::{Lifecycle, NoCalls, Options, Pipeline};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// A turn that was asked before its run began.
pub(crate) type FirstTurn = Box<TurnCompleted>;

/// Starts a new run.
pub(crate) async fn start(mut builder: RunBuilder, first: Option<FirstTurn>) -> Result<RunHandle> {
    let plan = builder.plan()?;
    plan.provider.ready(&plan.model).await?;
    let shared = builder.runtime.0.clone();
    let run = builder.id.take().unwrap_or_else(|| shared.env.new_id());
    let started = Arc::new(builder.started(&plan));
    let lifecycle = Lifecycle::new(&shared.env).of_run(run.clone(), builder.extras.cancel.clone());
    plan.registry.start(&lifecycle).await?;

    let begun = async {
        let feed = Feed::new(run.clone(), 0);
        let journal = JournalWriter::begin(shared.clone(), run, feed)?;
        journal.append(EventBody::RunStarted(Box::new((*started).clone())))?;
        if let Some(mut first) = first {
            first.billed = journal.read(|state| state.billed_for(&first.turn, first.cost));
            journal.append(EventBody::TurnCompleted(first))?;
        }
        journal.commit().await?;
        Ok(journal)
    };
    match begun.await {
        Ok(journal) => Ok(go_on(shared, Arc::new(journal), started, plan, builder.extras, lifecycle)),
        Err(error) => {
            plan.registry.stop(&lifecycle).await;
            Err(error)
        }
    }
}

/// Goes on in the background with a run whose start, or whose resumption, is recorded.
pub(crate) fn go_on(
    shared: Arc<Shared>,
    journal: Arc<JournalWriter>,
    started: Arc<RunStarted>,
    plan: Plan,
    mut extras: Extras,
    lifecycle: Lifecycle,
) -> RunHandle {
    let run = journal.run().clone();
    let feed = journal.feed().clone();
    let source = EventSource { feed: feed.clone(), store: shared.store.clone(), tenant: shared.tenant.clone() };
    shared.show(&run, source.clone());
    let observers =
        std::mem::take(&mut extras.observers).into_iter().map(|observer| observe(&shared, &source, observer)).collect();

    let (cancel, leave, leave_now) = (extras.cancel.clone(), extras.leave.clone(), extras.leave_now.clone());
    let gone = CancellationToken::new();
    let over = gone.clone().drop_guard();
    let (sender, result) = oneshot::channel();
    let registry = plan.registry.clone();
    let mut active = activate(&shared, &journal, started, plan, extras);
    let (env, hidden) = (shared.env.clone(), run.clone());
    env.spawn("run", async move {
        let result = to_the_end(&mut active).await;
        if result.is_err() {
            journal.let_go().await;
        }
        registry.stop(&lifecycle).await;
        feed.close();
        shared.hide(&hidden);
        // Nobody has to wait for it.
        let _ = sender.send(result);
        drop(over);
    });
    RunHandle { run, cancel, leave, leave_now, gone, source, result, observers }
}

/// A panic of the loop or of a provider ends the run as failed; handlers' own panics are contained by the pipeline.
async fn to_the_end(active: &mut ActiveRun) -> Result<RunResult> {
    match AssertUnwindSafe(active.drive()).catch_unwind().await {
        Ok(result) => result,
        Err(panic) => {
            let problem = format!("the loop or the provider panicked: {}", panic_text(panic.as_ref()));
            active.fail(&problem).await
        }
    }
}

fn activate(
    shared: &Arc<Shared>,
    journal: &Arc<JournalWriter>,
    started: Arc<RunStarted>,
    plan: Plan,
    extras: Extras,
) -> ActiveRun {
    let active = journal.read(RunState::active);
    let time = started.limits.time_ms.map(Duration::from_millis);
    let deadline = time.map(|time| shared.env.clock().steady() + time.saturating_sub(active));
    let tools = plan.registry.definitions().iter().chain(&started.declared).cloned().collect();
    let mut options = Options::default()
        .recorder(Arc::new(RunRecorder { journal: journal.clone(), registry: plan.registry.clone() }))
        // Every call has an id of its own, and the journal knows which have ended.
        .calls(Arc::new(NoCalls))
        .redactor(shared.redactor.clone())
        .concurrency(usize::try_from(started.limits.concurrency).unwrap_or(usize::MAX))
        .unredacted(started.unredacted);
    options.approval_timeout = shared.approval_timeout;
    options.policy = extras.policy.unwrap_or_else(|| shared.policy.clone());
    let human = extras.approver.or_else(|| shared.approver.clone());
    options.approver = journal.read(|state| Remembering::of(state, human));
    ActiveRun {
        env: shared.env.clone(),
        journal: journal.clone(),
        provider: plan.provider,
        pipeline: Pipeline::new(plan.registry, options),
        started,
        tools,
        shape: plan.shape,
        hosted: extras.hosted,
        private: extras.private,
        redactor: shared.redactor.clone(),
        trace: extras.trace,
        cancel: extras.cancel,
        leave: extras.leave,
        leave_now: extras.leave_now,
        deadline,
        round_only: extras.round_only,
        untried: plan.resumed,
        broken: Broken::default(),
    }
}

/// Calls a function with every event, in a task of its own.
fn observe(shared: &Arc<Shared>, source: &EventSource, mut observer: Observer) -> Task {
    let mut events = source.stream(Cursor::START);
    shared.env.spawn("run observer", async move {
        while let Some(Ok(event)) = events.next().await {
            observer(&event);
        }
    })
}
