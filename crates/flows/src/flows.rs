//! Flows by their names, as they are served.

use crate::agent::Agent;
use crate::answer::Answer;
use crate::check::{Check, signature};
use crate::conduct::{Conduct, Start};
use crate::cx::{Cx, Tally};
use crate::error::{FlowError, Result};
use crate::exchange::{Exchange, Principal, request_hash};
use crate::flow::{Durable, Flow, Kind, NamedFlow};
use crate::kept::{Binding, Kept, Standing, derived_run, read};
use crate::memo::Memo;
use crate::models::{ModelSpec, Models, ResolvedModel, Rung};
use crate::observe::FlowObserver;
use crate::outlet::Outlet;
use crate::reply::Reply;
use crate::suspend::{EXPIRY, Settled, expiry, resumed};
use crate::transcript::{Arrival, Asked, Unanswered, arrange, link};
use crate::trigger::TriggerKind;
use crate::work::{Frame, WORK, Work};
use crate::worker::Worker;
use indexmap::IndexMap;
use placet_core::{RunId, TurnEvent, TurnRequest};
use placet_runtime::schedule::{Job, JobTime, Scheduler, StoredJob};
use placet_runtime::{Problems, Runtime};
use placet_store::{Batch, Condition, Key, StoreError, Value as StoredValue};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long what is kept of a suspended exchange is kept, unless it is said otherwise.
const SUSPENDED: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long is waited before an exchange is looked at again that another process works on.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

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
}

impl FlowsBuilder {
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
}

pub(crate) struct Shared {
    pub(crate) runtime: Runtime,
    pub(crate) models: Arc<Models>,
    pub(crate) served: IndexMap<String, Served>,
    default: Option<String>,
    pub(crate) observer: Option<Arc<dyn FlowObserver>>,
    unanswered: Unanswered,
    pub(crate) suspended: Duration,
    pub(crate) scheduler: Scheduler,
    pub(crate) owner: String,
    /// Kept exchanges that this process works on, by their ids.
    live: Mutex<HashMap<String, Live>>,
}

struct Live {
    binding: Binding,
    answer: WeakAnswer,
}

struct WeakAnswer {
    run: RunId,
    flow: String,
    reply: Reply,
    cx: Weak<Cx>,
    waiting: Weak<tokio_util::sync::DropGuard>,
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
        }
    }

    /// The names that clients may ask for, in the order in which the flows were given. A flow that only a trigger sets off
    /// is not among them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.served.iter().filter(|(_, served)| head(&served.flow).is_none()).map(|(name, _)| name.as_str())
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
        ResolvedModel::find(&self.0.runtime, rung, &spec).ok()
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

    /// Calls a webhook.
    ///
    /// # Errors
    /// [`FlowError::UnknownHook`]; those of the store.
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
        for (name, served) in &self.0.served {
            let Some(trigger) = head(&served.flow) else { continue };
            let job = |id: String, time: JobTime| self.0.head_job(name, id, time);
            match trigger {
                TriggerKind::Startup => {
                    let id: RunId = self.0.runtime.env().new_id();
                    self.0.scheduler.put(job(format!("startup:{name}:{id}"), JobTime::Now)?).await?;
                }
                TriggerKind::Every(Ok(cron)) => {
                    self.0.scheduler.put(job(format!("every:{name}"), JobTime::Every(cron.clone()))?).await?;
                }
                TriggerKind::At(at) => {
                    let id = format!("once:{name}:{}", at.as_micros());
                    let mark = Key::new(self.0.runtime.tenant()).text("flow-once").text(&id);
                    let mut batch = Batch::new();
                    batch.require(Condition::absent(mark.clone())).put(mark, StoredValue::new(1, Vec::new()));
                    self.0.scheduler.add(&mut batch, job(id, JobTime::At(*at))?)?;
                    match self.0.runtime.store().commit(batch).await {
                        Ok(_) => self.0.scheduler.poke(),
                        Err(StoreError::Condition { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                TriggerKind::After(span) => {
                    let id: RunId = self.0.runtime.env().new_id();
                    let at = self.0.runtime.env().now().plus(*span);
                    self.0.scheduler.put(job(format!("after:{name}:{id}"), JobTime::At(at))?).await?;
                }
                TriggerKind::Webhook(_) | TriggerKind::Every(Err(_)) => {}
            }
        }
        Ok(())
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
fn head(flow: &Flow) -> Option<&TriggerKind> {
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

/// Where a webhook stands in a flow: what follows it.
fn find_hook(flow: &Flow, id: &str, path: &mut Vec<usize>) -> Option<Frame> {
    for (at, member) in flow.members().iter().enumerate() {
        if let Kind::Trigger(trigger) = &member.node().kind
            && trigger.0 == TriggerKind::Webhook(id.to_owned())
            && matches!(flow.node().kind, Kind::Sequence(_))
        {
            return Some(Frame { path: path.clone(), from: at + 1 });
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

impl Shared {
    fn live(&self) -> MutexGuard<'_, HashMap<String, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, model: &str) -> Result<(&str, &Served)> {
        let named = self.served.get_key_value(model).filter(|(_, served)| head(&served.flow).is_none());
        let default = || self.served.get_key_value(self.default.as_ref()?);
        let found = named.or_else(default);
        found
            .map(|(name, served)| (name.as_str(), served))
            .ok_or_else(|| FlowError::UnknownFlow { name: model.to_owned() })
    }

    fn head_job(&self, flow: &str, id: String, time: JobTime) -> Result<Job> {
        let work = Work {
            flow: flow.to_owned(),
            signature: String::new(),
            frames: vec![Frame { path: Vec::new(), from: 0 }],
            chat: Vec::new(),
            selection: None,
            request: TurnRequest::default(),
            payload: Value::Null,
            metadata: IndexMap::new(),
            principal: String::new(),
            depth: 1,
        };
        let payload = serde_json::to_value(&work).map_err(|error| FlowError::internal(error.to_string()))?;
        Ok(Job::new(id, WORK, payload).at(time).tried(8))
    }

    async fn serve(self: Arc<Self>, exchange: Exchange) -> Result<Answer> {
        let (name, served) = self.find(&exchange.request.model)?;
        let (name, signature) = (name.to_owned(), served.signature.clone());
        let bare = served.flow.only_agent().is_some_and(Agent::is_bare);
        let env = self.runtime.env().clone();
        let mut request = (*exchange.request).clone();
        let mut arrival = None;
        if !bare {
            let linked = link(&env, &request.items, self.unanswered)?;
            let asked = Asked { principal: exchange.principal.as_str(), flow: &name, signature: &signature };
            let arranged = arrange(&self.runtime, linked, &asked).await?;
            (request.items, arrival) = (arranged.items, arranged.arrival);
        }
        if let Some(arrived) = arrival {
            if let Some(answer) = self.clone().go_on(&exchange, &name, &signature, &request, arrived).await? {
                return Ok(answer);
            }
            // It was answered before, and now goes another way: the rounds are history.
        }
        let run = exchange.run.clone().unwrap_or_else(|| env.new_id());
        if served.durable.is_none() {
            let cx = self.cx(&exchange, &name, request.clone(), run, Part::plain(exchange.cancel.child_token()));
            return Ok(self.conduct(cx, Start::Whole(request.items), None, None));
        }
        let binding = Binding {
            principal: exchange.principal.as_str().to_owned(),
            flow: name.clone(),
            signature,
            request: request_hash(&exchange.request).to_hex(),
        };
        let id = format!("run-{run}");
        match self.come(&id, &binding, &exchange.cancel).await? {
            Come::Answer(answer) => Ok(answer),
            Come::Differs(what) => Err(FlowError::RunConflict { run, what }),
            Come::Ours(kept, steps) => {
                if steps.is_empty()
                    && let Some(durable) = served.durable
                {
                    self.scheduler.put(expiry(&id, env.now().plus(durable.ttl))).await?;
                }
                let part = Part {
                    base: Some(run.as_str().to_owned()),
                    memo: Memo::new(steps, Some(kept.clone())),
                    ..Part::plain(CancellationToken::new())
                };
                let cx = self.cx(&exchange, &name, request.clone(), run, part);
                Ok(self.conduct(cx, Start::Whole(request.items), Some((id, binding, kept)), None))
            }
        }
    }

    /// Goes on with a suspended exchange. Nothing where it has gone on before, and the client now goes another way.
    async fn go_on(
        self: Arc<Self>,
        exchange: &Exchange,
        name: &str,
        signature: &str,
        request: &TurnRequest,
        arrival: Arrival,
    ) -> Result<Option<Answer>> {
        let id = resumed(&arrival.id.hex);
        let binding = Binding {
            principal: exchange.principal.as_str().to_owned(),
            flow: name.to_owned(),
            signature: signature.to_owned(),
            request: format!("{}/{}", arrival.results_hash(), arrival.trailing_hash()),
        };
        let (kept, steps) = match self.come(&id, &binding, &exchange.cancel).await? {
            Come::Answer(answer) => return Ok(Some(answer)),
            Come::Differs("request") => {
                let known: Option<Binding> = self.bound_to(&id).await?;
                let same =
                    known.is_some_and(|known| known.request.split('/').next() == binding.request.split('/').next());
                return match Settled::read(&self.runtime, &arrival.id).await? {
                    Some(_) if same => Ok(None),
                    _ => Err(FlowError::ResultsDiffer),
                };
            }
            Come::Differs("principal") => return Err(FlowError::ForeignCall { call: arrival.id.call(0) }),
            Come::Differs(_) => return Err(FlowError::FlowChanged),
            Come::Ours(kept, steps) => (kept, steps),
        };
        let run = exchange.run.clone().unwrap_or_else(|| derived_run(&id, "", 0));
        let mut all: BTreeMap<String, Value> = arrival.suspended.steps.clone();
        all.extend(steps);
        let (suspended, results) = (arrival.suspended, arrival.results);
        let mut trailing = arrival.trailing;
        let opens: HashMap<_, _> = suspended
            .opens
            .iter()
            .map(|open| {
                let own = open.calls.iter().filter_map(|call| results.get(&call.id).cloned()).collect();
                let arrived = crate::suspend::ArrivedRound {
                    open: open.clone(),
                    results: own,
                    trailing: std::mem::take(&mut trailing),
                };
                (open.place.clone(), arrived)
            })
            .collect();
        let part = Part {
            base: Some(id.clone()),
            memo: Memo::new(all, Some(kept.clone())),
            tally: Tally::arrived(opens, results),
            before: suspended.told,
            root: Some(suspended.root),
            payload: suspended.payload,
            depth: suspended.depth,
            ..Part::plain(CancellationToken::new())
        };
        let request = TurnRequest { items: arrival.before.clone(), ..request.clone() };
        let cx = self.cx(exchange, name, request, run, part);
        cx.tell("", crate::observe::FlowHappening::Resumed);
        Ok(Some(self.conduct(cx, Start::Whole(arrival.before), Some((id, binding, kept)), Some(arrival.id))))
    }

    async fn bound_to(&self, id: &str) -> Result<Option<Binding>> {
        let key = Key::new(self.runtime.tenant()).text("flow-kept").text(id);
        match self.runtime.store().cell(&key).await? {
            Some(cell) => Ok(Some(read(&self.runtime, &cell.value).await?)),
            None => Ok(None),
        }
    }

    /// Comes to a kept exchange: takes it up, or waits for whoever works on it.
    async fn come(&self, id: &str, binding: &Binding, cancel: &CancellationToken) -> Result<Come> {
        loop {
            if let Some(live) = self.live().get(id) {
                if live.binding.principal != binding.principal {
                    return Ok(Come::Differs("principal"));
                }
                if live.binding.flow != binding.flow || live.binding.signature != binding.signature {
                    return Ok(Come::Differs("flow"));
                }
                if live.binding != *binding {
                    return Ok(Come::Differs("request"));
                }
                let own = &live.answer;
                if let (Some(cx), Some(waiting)) = (own.cx.upgrade(), own.waiting.upgrade()) {
                    return Ok(Come::Answer(Answer {
                        run: own.run.clone(),
                        flow: own.flow.clone(),
                        reply: own.reply.clone(),
                        cx: Some(cx),
                        waiting: Some(waiting),
                        env: self.runtime.env().clone(),
                    }));
                }
            }
            match Kept::come(&self.runtime, id, binding, &self.owner).await? {
                Err(what) => return Ok(Come::Differs(what)),
                Ok(Standing::Ours(kept, steps)) => return Ok(Come::Ours(kept, steps)),
                Ok(Standing::Answered(events)) => {
                    let reply = Reply::new();
                    // Nothing was used for it this time.
                    for event in events.into_iter().filter(|event| !matches!(event, TurnEvent::Usage(_))) {
                        reply.push_now(event)?;
                    }
                    reply.end(Ok(None));
                    let run = id.strip_prefix("run-").and_then(|run| RunId::parse(run).ok());
                    return Ok(Come::Answer(Answer {
                        run: run.unwrap_or_else(|| derived_run(id, "", 0)),
                        flow: binding.flow.clone(),
                        reply,
                        cx: None,
                        waiting: None,
                        env: self.runtime.env().clone(),
                    }));
                }
                Ok(Standing::Busy) => tokio::select! {
                    () = cancel.cancelled() => return Err(FlowError::Cancelled),
                    () = self.runtime.env().sleep(LOOK_AGAIN) => {}
                },
            }
        }
    }

    async fn hook(
        self: Arc<Self>,
        id: &str,
        principal: Principal,
        payload: Value,
        metadata: IndexMap<String, String>,
    ) -> Result<HookAnswer> {
        let found = self.served.iter().find_map(|(name, served)| {
            find_hook(&served.flow, id, &mut Vec::new()).map(|frame| (name.clone(), served, frame))
        });
        let Some((name, served, frame)) = found else { return Err(FlowError::UnknownHook { id: id.to_owned() }) };
        let captured: Option<Work> = match self.runtime.store().cell(&hook_key(&self.runtime, id)).await? {
            Some(cell) => Some(read(&self.runtime, &cell.value).await?),
            None => None,
        };
        let mut work = match captured.filter(|work: &Work| work.signature == served.signature) {
            Some(work) => work,
            None => Work {
                flow: name.clone(),
                signature: served.signature.clone(),
                frames: vec![frame.clone()],
                chat: Vec::new(),
                selection: None,
                request: TurnRequest::default(),
                payload: Value::Null,
                metadata: IndexMap::new(),
                principal: principal.as_str().to_owned(),
                depth: 1,
            },
        };
        work.payload = payload;
        work.metadata.extend(metadata);
        let run: RunId = self.runtime.env().new_id();
        let answers =
            crate::conduct::steps_at(&served.flow, &frame).is_some_and(|steps| steps.iter().any(Flow::responds));
        if !answers {
            let job_id = format!("hook:{id}:{run}");
            let value = serde_json::to_value(&work).map_err(|error| FlowError::internal(error.to_string()))?;
            self.scheduler.put(Job::new(&job_id, WORK, value).owned_by(&work.principal).tried(8)).await?;
            return Ok(HookAnswer::Accepted(job_id));
        }
        let exchange = Exchange {
            request: Arc::new(work.request.clone()),
            principal: Principal::new(work.principal.as_str()),
            run: Some(run.clone()),
            stream: false,
            metadata: work.metadata.clone(),
            cancel: CancellationToken::new(),
        };
        let part = Part { payload: work.payload, depth: work.depth, ..Part::plain(exchange.cancel.child_token()) };
        let cx = self.cx(&exchange, &name, work.request, run, part);
        let start = Start::Frames { frames: work.frames, chat: work.chat, selection: work.selection };
        Ok(HookAnswer::Answer(self.conduct(cx, start, None, None)))
    }

    fn cx(&self, exchange: &Exchange, flow: &str, request: TurnRequest, run: RunId, part: Part) -> Arc<Cx> {
        let base = part.base.unwrap_or_else(|| run.as_str().to_owned());
        Arc::new(Cx {
            runtime: self.runtime.clone(),
            models: self.models.clone(),
            flow: flow.to_owned(),
            request: Arc::new(request),
            principal: exchange.principal.clone(),
            stream: exchange.stream,
            metadata: exchange.metadata.clone(),
            payload: part.payload,
            depth: part.depth,
            run,
            base,
            root: part.root,
            outlet: Some(Outlet::new(part.cancel.clone(), part.before)),
            cancel: part.cancel,
            memo: part.memo,
            scheduler: Some(self.scheduler.clone()),
            observer: self.observer.clone(),
            tally: part.tally,
        })
    }

    /// Lets an exchange go on in the background, and gives its answer.
    fn conduct(
        self: &Arc<Self>,
        cx: Arc<Cx>,
        start: Start,
        kept: Option<(String, Binding, Kept)>,
        settles: Option<crate::suspend::SuspensionId>,
    ) -> Answer {
        let waiting = Arc::new(cx.cancel.clone().drop_guard());
        let reply = cx.outlet.as_ref().map_or_else(Reply::new, |outlet| outlet.reply().clone());
        let answer = Answer {
            run: cx.run.clone(),
            flow: cx.flow.clone(),
            reply: reply.clone(),
            cx: Some(cx.clone()),
            waiting: Some(waiting.clone()),
            env: self.runtime.env().clone(),
        };
        let mut claim = None;
        if let Some((id, binding, kept)) = kept {
            let own = WeakAnswer {
                run: answer.run.clone(),
                flow: answer.flow.clone(),
                reply,
                cx: Arc::downgrade(&cx),
                waiting: Arc::downgrade(&waiting),
            };
            self.live().insert(id.clone(), Live { binding, answer: own });
            claim = Some((id, kept));
        }
        let conduct = Conduct { shared: self.clone(), cx, kept: claim, settles };
        self.runtime.env().spawn("exchange", conduct.to_the_end(start));
        answer
    }

    /// Takes an exchange out of those that others may join.
    pub(crate) fn ended(&self, id: &str) {
        self.live().remove(id);
    }

    pub(crate) fn signature(&self, flow: &str) -> String {
        self.served.get(flow).map(|served| served.signature.clone()).unwrap_or_default()
    }

    /// The jobs of an exchange, and what it leaves for webhooks.
    pub(crate) async fn leave_behind(&self, cx: &Cx, later: &[crate::work::Later]) -> Result<()> {
        for later in later {
            let signature = self.signature(&later.work.flow);
            if let Some(hook) = &later.hook {
                let work = Work { signature, ..later.work.clone() };
                let mut batch = Batch::new();
                batch.put(hook_key(&self.runtime, hook), crate::kept::form(&self.runtime, &work).await?);
                self.runtime.store().commit(batch).await?;
                continue;
            }
            self.scheduler.put(later.job(self.runtime.env(), &signature)?).await?;
            cx.tell("", crate::observe::FlowHappening::Scheduled { id: later.id.clone() });
        }
        Ok(())
    }
}

/// What sets one exchange apart from another of the same request.
struct Part {
    cancel: CancellationToken,
    base: Option<String>,
    memo: Memo,
    tally: Tally,
    before: String,
    root: Option<String>,
    payload: Value,
    depth: u32,
}

impl Part {
    fn plain(cancel: CancellationToken) -> Self {
        Part {
            cancel,
            base: None,
            memo: Memo::default(),
            tally: Tally::default(),
            before: String::new(),
            root: None,
            payload: json!(null),
            depth: 0,
        }
    }
}

/// What coming to a kept exchange gives.
enum Come {
    Answer(Answer),
    Ours(Kept, BTreeMap<String, Value>),
    Differs(&'static str),
}
