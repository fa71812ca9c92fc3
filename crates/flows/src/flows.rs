//! Flows by their names, as they are served.

use crate::agent::Agent;
use crate::answer::Answer;
use crate::check::{Check, own_tools, signature};
use crate::cx::Cx;
use crate::error::{FlowError, Result};
use crate::exchange::{Exchange, Principal};
use crate::flow::{Durable, Flow, Kind, NamedFlow};
use crate::kept::Binding;
use crate::models::{ModelSpec, Models, ResolvedModel, Rung};
use crate::observe::{FlowObserver, WorkObserver};
use crate::reply::Reply;
use crate::suspend::EXPIRY;
use crate::transcript::Unanswered;
use crate::trigger::{Trigger, TriggerKind};
use crate::work::{Frame, WORK};
use crate::worker::Worker;
use indexmap::IndexMap;
use placet_core::turn::Controls;
use placet_core::{Redactor, RunId, ToolName};
use placet_runtime::schedule::{JobTime, Scheduler, StoredJob};
use placet_runtime::{Problems, Runtime};
use placet_store::{Batch, Condition, Key, StoreError, Value as StoredValue};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long what is kept of a suspended exchange is kept, unless it is said otherwise.
const SUSPENDED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Sets flows up to be served. Nothing here can fail; [`FlowsBuilder::build`] tells everything that is wrong.
pub struct FlowsBuilder {
    runtime: Runtime,
    models: Models,
    named: Vec<NamedFlow>,
    default: Option<String>,
    observer: Option<Arc<dyn FlowObserver>>,
    unanswered: Unanswered,
    suspended: Duration,
    workers: usize,
    redactor: Redactor,
    work_observer: Option<Arc<dyn WorkObserver>>,
}

impl FlowsBuilder {
    /// Who is told what work came to that was done behind clients' backs.
    #[must_use]
    pub fn work_observer(mut self, observer: Arc<dyn WorkObserver>) -> Self {
        self.work_observer = Some(observer);
        self
    }

    /// What takes secrets out of errors before they are logged or kept. Without it, the one that knows shapes of credentials
    /// and no value.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// The models that agents without one of their own ask.
    #[must_use]
    pub fn models(mut self, models: Models) -> Self {
        self.models = models;
        self
    }

    /// A flow under its name.
    #[must_use]
    pub fn flow(mut self, flow: NamedFlow) -> Self {
        self.named.push(flow);
        self
    }

    /// A flow under its name, which also answers what asks for a name that no flow has.
    #[must_use]
    pub fn default_flow(mut self, flow: NamedFlow) -> Self {
        self.default = Some(flow.name().to_owned());
        self.named.push(flow);
        self
    }

    /// Who is told what happens in exchanges.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn FlowObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// What is done about calls in a client's history that have no results.
    #[must_use]
    pub fn unanswered(mut self, unanswered: Unanswered) -> Self {
        self.unanswered = unanswered;
        self
    }

    /// How long what is kept of a suspended exchange is kept: 30 days without it.
    #[must_use]
    pub fn keep_suspended(mut self, span: Duration) -> Self {
        self.suspended = span;
        self
    }

    /// How many bodies of triggers and follow-ups run at a time: 4 without it.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Checks everything, and gives the flows.
    ///
    /// # Errors
    /// [`FlowError::Wiring`] with everything that is wrong, all at once.
    pub fn build(self) -> Result<Flows> {
        let mut check =
            Check { runtime: &self.runtime, models: &self.models, hooks: HashSet::new(), problems: Vec::new() };
        if self.named.is_empty() {
            check.problems.push("there is no flow to serve".to_owned());
        }
        let mut served = IndexMap::new();
        for named in &self.named {
            if named.name().trim().is_empty() {
                check.problems.push("a flow has a blank name".to_owned());
            }
            check.flow(named.name(), named.flow());
            let entry = Served {
                flow: named.flow().clone(),
                durable: named.durability(),
                signature: signature(named.flow()).to_hex(),
                tools: own_tools(named.flow()),
            };
            if served.insert(named.name().to_owned(), entry).is_some() {
                check.problems.push(format!("two flows have the name {:?}", named.name()));
            }
        }
        let problems = check.problems;
        if !problems.is_empty() {
            return Err(FlowError::Wiring { problems: Problems(problems) });
        }
        let worker = Arc::new(Worker::default());
        let runtime = self.runtime;
        let scheduler = Scheduler::builder(runtime.env().clone(), runtime.store().clone(), runtime.tenant().clone())
            .handler(WORK, worker.clone())
            .handler(EXPIRY, worker.clone())
            .workers(self.workers)
            .build();
        let owner = format!("flows {:016x}", runtime.env().random().next_u64());
        let shared = Arc::new(Shared {
            models: Arc::new(self.models),
            served,
            default: self.default,
            observer: self.observer,
            unanswered: self.unanswered,
            suspended: self.suspended,
            redactor: self.redactor,
            work_observer: self.work_observer,
            scheduler,
            owner,
            live: Mutex::default(),
            runtime,
        });
        worker.belongs_to(&shared);
        Ok(Flows(shared))
    }
}

impl fmt::Debug for FlowsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowsBuilder").field("flows", &self.named).finish_non_exhaustive()
    }
}

/// Flows by their names, as they are served. Cheap to clone.
#[derive(Clone)]
pub struct Flows(Arc<Shared>);

pub(crate) struct Served {
    pub(crate) flow: Flow,
    pub(crate) durable: Option<Durable>,
    pub(crate) signature: String,
    /// The tools of its agents.
    pub(crate) tools: HashSet<ToolName>,
}

pub(crate) struct Shared {
    pub(crate) runtime: Runtime,
    pub(crate) models: Arc<Models>,
    pub(crate) served: IndexMap<String, Served>,
    pub(crate) default: Option<String>,
    pub(crate) observer: Option<Arc<dyn FlowObserver>>,
    pub(crate) unanswered: Unanswered,
    pub(crate) suspended: Duration,
    pub(crate) redactor: Redactor,
    pub(crate) work_observer: Option<Arc<dyn WorkObserver>>,
    pub(crate) scheduler: Scheduler,
    pub(crate) owner: String,
    /// Kept exchanges that this process works on, by their ids.
    pub(crate) live: Mutex<HashMap<String, Live>>,
}

/// An exchange that others may join.
pub(crate) struct Live {
    pub(crate) binding: Binding,
    pub(crate) answer: WeakAnswer,
}

/// An answer, as long as anybody waits for it.
pub(crate) struct WeakAnswer {
    pub(crate) run: RunId,
    pub(crate) flow: String,
    pub(crate) reply: Reply,
    pub(crate) cx: Weak<Cx>,
    pub(crate) waiting: Weak<tokio_util::sync::DropGuard>,
}

/// What calling a webhook came to.
#[derive(Debug)]
#[non_exhaustive]
pub enum HookAnswer {
    /// What follows the webhook answers.
    Answer(Answer),
    /// It is done behind the caller's back; this is the id of its job.
    Accepted(String),
}

impl Flows {
    /// Sets flows up to be served by this runtime.
    #[must_use]
    pub fn builder(runtime: Runtime) -> FlowsBuilder {
        FlowsBuilder {
            runtime,
            models: Models::new(),
            named: Vec::new(),
            default: None,
            observer: None,
            unanswered: Unanswered::default(),
            suspended: SUSPENDED,
            workers: 4,
            redactor: Redactor::default(),
            work_observer: None,
        }
    }

    /// The names that clients may ask for, in the order in which the flows were given. A flow that only a trigger sets off
    /// is not among them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.served.iter().filter(|(_, served)| head(&served.flow).is_none()).map(|(name, _)| name.as_str())
    }

    /// The names of the flows that a cron expression at their head sets off.
    pub fn every(&self) -> impl Iterator<Item = &str> {
        let is_every = |served: &Served| matches!(head(&served.flow), Some(TriggerKind::Every(_)));
        self.0.served.iter().filter(move |(_, served)| is_every(served)).map(|(name, _)| name.as_str())
    }

    /// The name of the flow that answers a request for this one.
    ///
    /// # Errors
    /// [`FlowError::UnknownFlow`] where there is none, and none by default.
    pub fn name_for(&self, model: &str) -> Result<&str> {
        self.0.find(model).map(|(name, _)| name)
    }

    /// The model that a flow is nothing but a way to, where it is one bare agent without a role: such a request may be handed
    /// on as it came.
    #[must_use]
    pub fn passes_through(&self, model: &str) -> Option<ResolvedModel> {
        let (_, served) = self.0.find(model).ok()?;
        if served.durable.is_some() {
            return None;
        }
        let (agent, own, around) = only_agent(&served.flow, None)?;
        if !agent.is_bare() || agent.inner().role.is_some() {
            return None;
        }
        let rungs = [(Rung::Agent, agent.inner().model.as_ref()), (Rung::Flow, own), (Rung::Enclosing, around)];
        let (rung, spec) = self.0.models.climb(&rungs).ok()?;
        // Knobs of ours would have to be put in.
        ResolvedModel::find(&self.0.runtime, rung, &spec).ok().filter(|model| model.controls == Controls::default())
    }

    /// The runtime.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// The scheduler of triggers, follow-ups and what handlers have scheduled.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.0.scheduler
    }

    /// Answers an exchange. What can be known to be wrong with the request is an error here; what goes wrong later is the
    /// end of the answer.
    ///
    /// # Errors
    /// [`FlowError::UnknownFlow`]; the errors of calls and results that do not fit; [`FlowError::RunConflict`] and
    /// [`FlowError::ResultsDiffer`] for what was begun otherwise; [`FlowError::Store`].
    pub async fn serve(&self, exchange: Exchange) -> Result<Answer> {
        self.0.clone().serve(exchange).await
    }

    /// The flow that a webhook stands in, by its name.
    #[must_use]
    pub fn hooked(&self, id: &str) -> Option<&str> {
        self.0.hooked(id)
    }

    /// Calls a webhook. Of several calls whose metadata hold the same value under its [key header](Trigger::key_header), one is
    /// done, and the others are answered like it, for as long as the flow is kept (a day, where it is not durable).
    ///
    /// # Errors
    /// [`FlowError::UnknownHook`]; [`FlowError::HookConflict`] where one of those brought another payload; those of the store.
    pub async fn hook(
        &self,
        id: &str,
        principal: Principal,
        payload: Value,
        metadata: IndexMap<String, String>,
    ) -> Result<HookAnswer> {
        self.0.clone().hook(id, principal, payload, metadata).await
    }

    /// Sets off what stands behind triggers at the heads of flows: at startup, once, again and again. Called once, when
    /// serving begins. What happens once happens once for ever, also if this is called again by another process.
    ///
    /// # Errors
    /// What the store says.
    pub async fn start(&self) -> Result<()> {
        self.set_off(None).await
    }

    /// As [`Flows::start`], for flows that take the place of others while serving goes on: what happens at startup happens for
    /// those flows that did not begin so before.
    ///
    /// # Errors
    /// What the store says.
    pub async fn start_after(&self, before: &Flows) -> Result<()> {
        self.set_off(Some(before)).await
    }

    async fn set_off(&self, before: Option<&Flows>) -> Result<()> {
        let begins = |served: &Served| matches!(head(&served.flow), Some(TriggerKind::Startup));
        for (name, _) in self.0.served.iter().filter(|(_, served)| begins(served)) {
            if before.is_some_and(|before| before.0.served.get(name).is_some_and(begins)) {
                continue;
            }
            let id: RunId = self.0.runtime.env().new_id();
            let job = self.0.head_job(name, format!("startup:{name}:{id}"), JobTime::Now)?;
            self.0.scheduler.put(job).await?;
        }
        self.schedule().await
    }

    /// The part of [`Flows::start`] that goes by the clock.
    ///
    /// # Errors
    /// What the store says.
    pub async fn schedule(&self) -> Result<()> {
        for (name, served) in &self.0.served {
            match head(&served.flow) {
                Some(TriggerKind::Every(Ok(cron))) => {
                    let job = self.0.head_job(name, format!("every:{name}"), JobTime::Every(cron.clone()))?;
                    self.0.scheduler.put(job).await?;
                }
                Some(TriggerKind::At(at)) => {
                    self.once(name, &at.as_micros().to_string(), JobTime::At(*at)).await?;
                }
                Some(TriggerKind::After(span)) => {
                    let at = JobTime::At(self.0.runtime.env().now().plus(*span));
                    self.once(name, &format!("after:{}", span.as_micros()), at).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Schedules what happens once for ever, unless that was done before, by whatever process.
    async fn once(&self, name: &str, when: &str, time: JobTime) -> Result<()> {
        let id = format!("once:{name}:{when}");
        let mark = Key::new(self.0.runtime.tenant()).text("flow-once").text(&id);
        let mut batch = Batch::new();
        batch.require(Condition::absent(mark.clone())).put(mark, StoredValue::new(1, Vec::new()));
        self.0.scheduler.add(&mut batch, self.0.head_job(name, id, time)?)?;
        match self.0.runtime.store().commit(batch).await {
            Ok(_) => self.0.scheduler.poke(),
            Err(StoreError::Condition { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Takes out what a flow of that name does again and again: for one that is not served any more.
    ///
    /// # Errors
    /// What the store says.
    pub async fn unschedule(&self, name: &str) -> Result<()> {
        Ok(self.0.scheduler.cancel(&format!("every:{name}")).await.map(drop)?)
    }

    /// Does what is due, until it is cancelled.
    pub async fn work(&self, cancel: CancellationToken) {
        self.0.scheduler.run(cancel).await;
    }

    /// What a principal has scheduled and has not come yet.
    ///
    /// # Errors
    /// What the store says.
    pub async fn scheduled(&self, principal: &Principal) -> Result<Vec<StoredJob>> {
        let jobs = self.0.scheduler.list(None, 10_000).await?;
        Ok(jobs.into_iter().filter(|job| job.job.owner == principal.as_str() && job.job.kind == WORK).collect())
    }
}

impl fmt::Debug for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flows").field("names", &self.0.served.keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

/// The trigger at the head of a flow.
pub(crate) fn head(flow: &Flow) -> Option<&TriggerKind> {
    let first = match &flow.node().kind {
        Kind::Sequence(steps) => steps.first()?,
        _ => flow,
    };
    match &first.node().kind {
        Kind::Trigger(trigger) => Some(&trigger.0),
        _ => None,
    }
}

/// The only agent of a flow, with the models of its flow and of those around it.
fn only_agent<'a>(
    flow: &'a Flow,
    around: Option<&'a ModelSpec>,
) -> Option<(&'a Agent, Option<&'a ModelSpec>, Option<&'a ModelSpec>)> {
    let node = flow.node();
    match &node.kind {
        Kind::Agents(_) => Some((flow.only_agent()?, node.model.as_ref(), around)),
        Kind::Sequence(steps) if flow.only_agent().is_some() => {
            only_agent(steps.first()?, node.model.as_ref().or(around))
        }
        _ => None,
    }
}

/// Where a webhook stands in a flow: it, and what follows it.
pub(crate) fn find_hook<'f>(flow: &'f Flow, id: &str, path: &mut Vec<usize>) -> Option<(&'f Trigger, Frame)> {
    for (at, member) in flow.members().iter().enumerate() {
        if let Kind::Trigger(trigger) = &member.node().kind
            && trigger.webhook_id() == Some(id)
            && matches!(flow.node().kind, Kind::Sequence(_))
        {
            return Some((trigger, Frame { path: path.clone(), from: at + 1 }));
        }
        path.push(at);
        let found = find_hook(member, id, path);
        path.pop();
        if found.is_some() {
            return found;
        }
    }
    None
}

pub(crate) fn hook_key(runtime: &Runtime, id: &str) -> Key {
    Key::new(runtime.tenant()).text("flow-hook").text(id)
}
