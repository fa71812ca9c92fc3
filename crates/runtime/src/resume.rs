//! Going on with a run whose process is gone.

use crate::answers;
use crate::error::{Problems, Result, RuntimeError};
use crate::feed::Feed;
use crate::handle::RunHandle;
use crate::journal::JournalWriter;
use crate::launch;
use crate::output::Shaping;
use crate::request::{Extras, Plan};
use crate::runtime::{Runtime, Shared};
use futures_util::FutureExt;
use placet_core::event::{Event, EventBody, GrantRecord, RunResumed};
use placet_core::hosted::HostedTool;
use placet_core::{BoxFuture, Effect, RunId, ToolCall};
use placet_models::SharedProvider;
use placet_observe::{Journal, ObserveError, RunResult, RunState, layout};
use placet_store::Batch;
use placet_store::lease::LeaseState;
use placet_tools::{Approver, Grant, Lifecycle, Policy, Registry};
use std::any::Any;
use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A run that is about to be taken up again. What its journal holds is not asked and not done again; capabilities hold
/// code, which no journal can, so they are granted again, the same as at the start.
#[must_use = "a run is not resumed until it is started"]
pub struct ResumeBuilder {
    runtime: Runtime,
    run: RunId,
    provider: Option<SharedProvider>,
    grants: Vec<Grant>,
    extras: Extras,
}

impl ResumeBuilder {
    pub(crate) fn new(runtime: Runtime, run: RunId) -> Self {
        ResumeBuilder { runtime, run, provider: None, grants: Vec::new(), extras: Extras::default() }
    }

    /// The provider to ask, where the runtime does not know it. It has to have the id that the run was started with.
    pub fn provider(mut self, provider: SharedProvider) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Hands over a capability, a grant of one, or a single tool, in the order of the start.
    pub fn grant(mut self, grant: impl Into<Grant>) -> Self {
        self.grants.push(grant.into());
        self
    }

    /// Hands over a single tool.
    pub fn tool(self, tool: impl Into<Grant>) -> Self {
        self.grant(tool)
    }

    /// Offers a tool that the provider runs itself, in the order of the start.
    pub fn hosted(mut self, tool: HostedTool) -> Self {
        self.extras.hosted.push(tool);
        self
    }

    /// A value for handlers, found by its type.
    pub fn private<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.extras.private = self.extras.private.with(value);
        self
    }

    /// What judges each call, in place of the runtime's.
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.extras.policy = Some(policy);
        self
    }

    /// Who is asked for approvals, in place of the runtime's.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.extras.approver = Some(approver);
        self
    }

    /// Calls a function with every event of the run, those before the resumption included.
    pub fn observer(mut self, observer: impl FnMut(&Event) + Send + 'static) -> Self {
        self.extras.observers.push(Box::new(observer));
        self
    }

    /// Ends the run once the calls of its open round are answered, for a run of
    /// [`RunBuilder::start_round`](crate::RunBuilder::start_round).
    pub fn round_only(mut self) -> Self {
        self.extras.round_only = true;
        self
    }

    /// The trace that the run is a part of from here on, as the header `traceparent` says it.
    pub fn trace(mut self, trace: Option<String>) -> Self {
        self.extras.trace = trace;
        self
    }

    /// What cancels the run.
    pub fn cancelled_by(mut self, token: CancellationToken) -> Self {
        self.extras.cancel = token;
        self
    }

    /// Takes the run up; it goes on in the background.
    ///
    /// # Errors
    /// [`RuntimeError::NotFound`] where there is no such run, [`RuntimeError::Ended`] where it has ended,
    /// [`RuntimeError::Held`] where a live owner holds it, [`RuntimeError::GrantsDiffer`] where it was started with other
    /// capabilities, [`RuntimeError::Wiring`] where its provider is unknown or the grants do not fit together; and those
    /// of journal and store, [`ObserveError::NotTheEnd`] among them where the list of runs remembers that it ended.
    pub async fn start(self) -> Result<RunHandle> {
        let shared = self.runtime.0.clone();
        let run = self.run;
        let journal = read(&shared, &run).await?;
        let state = journal.state();
        if let Some(end) = state.ending() {
            return Err(RuntimeError::Ended { run, end: end.clone() });
        }
        check_end(&shared, &journal).await?;
        let Some(started) = state.started().cloned() else {
            return Err(RuntimeError::internal(format!("the journal of {run} does not begin with its start")));
        };
        let lease = free_lease(&shared, &run).await?;
        let registry = Registry::assemble(self.grants).map_err(|errors| RuntimeError::Wiring {
            problems: Problems(errors.iter().map(ToString::to_string).collect()),
        })?;
        let mut problems = differences(&started.grants, &registry.grant_records());
        let hosted = self.extras.hosted_names();
        if hosted != started.hosted {
            let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let (was, is) = (list(&started.hosted), list(&hosted));
            problems.push(format!("it was handed these tools of the provider: {was}; now they are: {is}"));
        }
        if !problems.is_empty() {
            return Err(RuntimeError::GrantsDiffer { run, problems: Problems(problems) });
        }
        let known = self.provider.or_else(|| shared.providers.get(&started.provider).cloned());
        let Some(provider) = known.filter(|provider| *provider.id() == started.provider) else {
            let problem =
                format!("the run was started with the provider {:?}, which is not there now", started.provider);
            return Err(RuntimeError::Wiring { problems: Problems(vec![problem]) });
        };

        let shape =
            started.output.as_ref().map(|spec| Shaping::of_record(spec, &*provider, &started.model)).transpose()?;
        provider.ready(&started.model).await?;
        let lifecycle = Lifecycle::new(&shared.env).of_run(run.clone(), self.extras.cancel.clone());
        registry.start(&lifecycle).await?;
        let taken_up = take_up(shared.clone(), &journal, state, lease, &registry);
        match taken_up.await {
            Ok(journal) => {
                let model = started.model.clone();
                let plan = Plan { provider, model, registry, shape, resumed: true };
                Ok(launch::go_on(shared, Arc::new(journal), started, plan, self.extras, lifecycle))
            }
            Err(error) => {
                registry.stop(&lifecycle).await;
                // Somebody was faster, and is the one to be told of.
                if matches!(error, RuntimeError::Lost { .. }) {
                    free_lease(&shared, &run).await?;
                }
                Err(error)
            }
        }
    }

    /// Takes the run up and waits for its end. Dropping this future cancels the run.
    ///
    /// # Errors
    /// As [`ResumeBuilder::start`] and [`RunHandle::wait`]; [`RuntimeError::Provider`] where the first turn that is asked
    /// shows that the provider cannot be asked from here (no key, no network, nothing of that name): the run is left as it
    /// is, to be resumed where it can.
    pub async fn finish(self) -> Result<RunResult> {
        let handle = self.start().await?;
        let cancel = handle.cancellation().drop_guard();
        let result = handle.wait().await;
        cancel.disarm();
        result
    }
}

impl IntoFuture for ResumeBuilder {
    type Output = Result<RunResult>;
    type IntoFuture = BoxFuture<'static, Result<RunResult>>;

    fn into_future(self) -> Self::IntoFuture {
        self.finish().boxed()
    }
}

impl fmt::Debug for ResumeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResumeBuilder").field("run", &self.run).finish_non_exhaustive()
    }
}

async fn read(shared: &Shared, run: &RunId) -> Result<Journal> {
    match Journal::read(&*shared.store, &shared.tenant, run).await {
        Err(ObserveError::NotFound { run }) => Err(RuntimeError::NotFound { run }),
        other => Ok(other?),
    }
}

/// That nothing was cut off the journal's end: going on would cover it up.
async fn check_end(shared: &Shared, journal: &Journal) -> Result<()> {
    match journal.check_end(&*shared.store, &shared.tenant).await {
        Err(error @ ObserveError::NotTheEnd { .. }) => {
            // It may have ended since it was read.
            match read(shared, journal.run()).await?.state().ending() {
                Some(end) => Err(RuntimeError::Ended { run: journal.run().clone(), end: end.clone() }),
                None => Err(error.into()),
            }
        }
        other => Ok(other?),
    }
}

/// How the lease of a run stands that nobody holds; the error that names the holder otherwise.
async fn free_lease(shared: &Shared, run: &RunId) -> Result<LeaseState> {
    let lease = LeaseState::read(&*shared.store, &layout::lease(&shared.tenant, run)).await?;
    match (&lease.holder, lease.until) {
        (Some(owner), Some(until)) => Err(RuntimeError::Held { run: run.clone(), owner: owner.clone(), until }),
        _ => Ok(lease),
    }
}

/// Takes the lease, and answers the calls whose effect nobody knows, in one commit.
async fn take_up(
    shared: Arc<Shared>,
    journal: &Journal,
    state: RunState,
    lease: LeaseState,
    registry: &Registry,
) -> Result<JournalWriter> {
    let interrupted = interrupted_calls(&state, registry);
    let feed = Feed::new(journal.run().clone(), journal.records().len() as u64);
    let mut writer = JournalWriter::take_over(shared, feed, journal, state, lease)?;
    let token = writer.token();
    let ids = interrupted.iter().map(|call| call.id.clone()).collect();
    writer.append(EventBody::RunResumed(RunResumed { token, interrupted: ids }))?;
    for call in &interrupted {
        let mut outcome = answers::interrupted();
        outcome.facts = registry.get(&call.name).map(|tool| tool.facts().clone()).unwrap_or_default();
        writer.answer(call, registry.capability_of(&call.name).cloned(), outcome)?;
    }
    writer.commit().await?;
    Ok(writer)
}

/// Calls of *once* tools whose handler may have started. Calls of other tools are run again, with the same key; so are
/// those that waited for a human or were denied, since their handlers cannot have started.
fn interrupted_calls(state: &RunState, registry: &Registry) -> Vec<ToolCall> {
    let Some(round) = state.round() else { return Vec::new() };
    let once = |call: &ToolCall| registry.get(&call.name).is_some_and(|tool| tool.effect() == Effect::Once);
    let unknown = round.calls.iter().filter(|call| call.may_have_started());
    unknown.map(|call| call.call.clone()).filter(once).collect()
}

/// What is granted now and was not at the start, or the other way round, or otherwise.
fn differences(before: &[GrantRecord], now: &[GrantRecord]) -> Vec<String> {
    let mut found = Vec::new();
    for old in before {
        match now.iter().find(|new| new.capability == old.capability) {
            None => found.push(format!("the capability {:?} is missing", old.capability)),
            Some(new) => compare(old, new, &mut found),
        }
    }
    for new in now {
        if !before.iter().any(|old| old.capability == new.capability) {
            found.push(format!("the capability {:?} is new", new.capability));
        }
    }
    let order = |grants: &[GrantRecord]| grants.iter().map(|grant| grant.capability.clone()).collect::<Vec<_>>();
    if found.is_empty() && order(before) != order(now) {
        found.push("the capabilities come in another order".to_owned());
    }
    found
}

fn compare(old: &GrantRecord, new: &GrantRecord, found: &mut Vec<String>) {
    let id = &old.capability;
    if old.unredacted != new.unredacted {
        let now = if new.unredacted { "off" } else { "on" };
        found.push(format!("redaction is now {now} for the capability {id:?}"));
    }
    for tool in &old.tools {
        match new.tools.iter().find(|other| other.name == tool.name) {
            None => found.push(format!("the capability {id:?} no longer grants the tool {:?}", tool.name)),
            Some(other) if other != tool => {
                let part = match () {
                    () if other.effect != tool.effect => "effect",
                    () if other.schema != tool.schema => "schema",
                    () if other.description != tool.description => "description",
                    () => "definition",
                };
                found.push(format!("the {part} of the tool {:?} of the capability {id:?} has changed", tool.name));
            }
            Some(_) => {}
        }
    }
    for tool in &new.tools {
        if !old.tools.iter().any(|other| other.name == tool.name) {
            found.push(format!("the capability {id:?} now grants the tool {:?} too", tool.name));
        }
    }
    let order = |grant: &GrantRecord| grant.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    if found.is_empty() && order(old) != order(new) {
        found.push(format!("the tools of the capability {id:?} come in another order"));
    }
}

/// Deletes a run that nobody works on.
pub(crate) async fn delete(shared: &Shared, run: &RunId) -> Result<()> {
    let journal = read(shared, run).await?;
    let lease = free_lease(shared, run).await?;
    let Some(first) = journal.records().first() else { return Ok(()) };
    let mut batch = Batch::new();
    // Whoever takes the run up in between keeps it.
    lease.take(&mut batch, &shared.owner, Duration::ZERO)?;
    shared.forget(&mut batch, run, first.record.at);
    shared.store.commit(batch).await?;
    Ok(())
}
