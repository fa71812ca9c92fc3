//! Taking exchanges up: what is known of them, who else works on them, where they begin.

use crate::agent::Agent;
use crate::answer::Answer;
use crate::conduct::{Conduct, Start};
use crate::cx::{Cx, Tally};
use crate::error::{FlowError, Result};
use crate::exchange::{Exchange, request_hash};
use crate::flows::{Live, Served, Shared, WeakAnswer, head, hook_key};
use crate::kept::{Binding, Kept, Standing, derived_run, read};
use crate::memo::Memo;
use crate::model::calls_in;
use crate::outlet::Outlet;
use crate::reply::Reply;
use crate::suspend::{Settled, expiry, resumed};
use crate::transcript::{Arrival, Asked, arrange, link};
use crate::work::{Frame, WORK, Work};
use indexmap::IndexMap;
use placet_core::{CallId, RunId, TurnEvent, TurnRequest};
use placet_runtime::schedule::{Job, JobTime};
use placet_store::{Batch, Key};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long is waited before an exchange is looked at again that another process works on.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Shared {
    fn live(&self) -> MutexGuard<'_, HashMap<String, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, model: &str) -> Result<(&str, &Served)> {
        let named = self.served.get_key_value(model).filter(|(_, served)| head(&served.flow).is_none());
        let default = || self.served.get_key_value(self.default.as_ref()?);
        let found = named.or_else(default);
        found
            .map(|(name, served)| (name.as_str(), served))
            .ok_or_else(|| FlowError::UnknownFlow { name: model.to_owned() })
    }

    pub(crate) fn head_job(&self, flow: &str, id: String, time: JobTime) -> Result<Job> {
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

    pub(crate) async fn serve(self: Arc<Self>, exchange: Exchange) -> Result<Answer> {
        let (name, served) = self.find(&exchange.request.model)?;
        let (name, signature) = (name.to_owned(), served.signature.clone());
        let bare = served.flow.only_agent().is_some_and(Agent::is_bare);
        let env = self.runtime.env().clone();
        let mut request = (*exchange.request).clone();
        let (mut arrival, mut claimed) = (None, HashSet::new());
        if !bare {
            let linked = link(&env, &request.items, self.unanswered)?;
            claimed = calls_in(&linked).into_iter().map(|call| call.id).collect();
            let asked = Asked { principal: exchange.principal.as_str(), flow: &name, signature: &signature };
            let arranged = arrange(&self.runtime, linked, &asked).await?;
            (request.items, arrival) = (arranged.items, arranged.arrival);
            let calls = calls_in(&request.items);
            let forged = calls.iter().find(|call| claimed.contains(&call.id) && served.tools.contains(&call.name));
            if let Some(call) = forged {
                return Err(FlowError::forged(call));
            }
        }
        // Where it was answered before, and now goes another way, the rounds are history.
        if let Some(arrived) = arrival
            && let Some(answer) = self.clone().go_on(&exchange, &name, &signature, &request, arrived, &claimed).await?
        {
            return Ok(answer);
        }
        let run = exchange.run.clone().unwrap_or_else(|| env.new_id());
        if served.durable.is_none() {
            // A client may bring one run id for several requests, which have nothing to do with one another here.
            let base: RunId = env.new_id();
            let memo = if bare { Memo::off() } else { Memo::default() };
            let base = Some(base.as_str().to_owned());
            let part = Part { base, memo, claimed, ..Part::plain(exchange.cancel.child_token()) };
            let cx = self.cx(&exchange, &name, request.clone(), run, part);
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
                    claimed,
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
        claimed: &HashSet<CallId>,
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
            claimed: claimed.clone(),
            ..Part::plain(CancellationToken::new())
        };
        let request = TurnRequest { items: arrival.before.clone(), ..request.clone() };
        let cx = self.cx(exchange, name, request, run, part);
        cx.tell("", crate::observe::FlowHappening::Resumed);
        Ok(Some(self.conduct(cx, Start::Whole(arrival.before), Some((id, binding, kept)), Some(arrival.id))))
    }

    pub(crate) async fn bound_to(&self, id: &str) -> Result<Option<Binding>> {
        let key = Key::new(self.runtime.tenant()).text("flow-kept").text(id);
        match self.runtime.store().cell(&key).await? {
            Some(cell) => Ok(Some(read(&self.runtime, &cell.value).await?)),
            None => Ok(None),
        }
    }

    /// Comes to a kept exchange: takes it up, or waits for whoever works on it.
    pub(crate) async fn come(&self, id: &str, binding: &Binding, cancel: &CancellationToken) -> Result<Come> {
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
                        is_joined: true,
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
                        is_joined: true,
                    }));
                }
                Ok(Standing::Busy) => tokio::select! {
                    () = cancel.cancelled() => return Err(FlowError::Cancelled),
                    () = self.runtime.env().sleep(LOOK_AGAIN) => {}
                },
            }
        }
    }

    pub(crate) fn cx(&self, exchange: &Exchange, flow: &str, request: TurnRequest, run: RunId, part: Part) -> Arc<Cx> {
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
            claimed: part.claimed,
        })
    }

    /// Lets an exchange go on in the background, and gives its answer.
    pub(crate) fn conduct(
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
            is_joined: false,
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
        self.runtime.env().spawn("exchange", conduct.carry_through(start));
        answer
    }

    /// Takes an exchange out of those that others may join.
    pub(crate) fn ended(&self, id: &str) {
        self.live().remove(id);
    }

    /// An error's text, fit to be logged or kept.
    pub(crate) fn told(&self, error: &FlowError) -> String {
        self.redactor.redact_text(&error.to_string()).into_owned()
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
pub(crate) struct Part {
    pub(crate) cancel: CancellationToken,
    pub(crate) base: Option<String>,
    pub(crate) memo: Memo,
    pub(crate) tally: Tally,
    pub(crate) before: String,
    pub(crate) root: Option<String>,
    pub(crate) payload: Value,
    pub(crate) depth: u32,
    pub(crate) claimed: HashSet<CallId>,
}

impl Part {
    pub(crate) fn plain(cancel: CancellationToken) -> Self {
        Part {
            cancel,
            base: None,
            memo: Memo::default(),
            tally: Tally::default(),
            before: String::new(),
            root: None,
            payload: json!(null),
            depth: 0,
            claimed: HashSet::new(),
        }
    }
}

/// What coming to a kept exchange gives.
pub(crate) enum Come {
    Answer(Answer),
    Ours(Kept, BTreeMap<String, Value>),
    Differs(&'static str),
}
