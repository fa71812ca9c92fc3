//! The handle that faces the model.

use crate::agent::{Agent, MixedRounds};
use crate::caller::{CallerState, Open};
use crate::cx::{Cx, Watcher};
use crate::error::{FlowError, Result};
use crate::exchange::Principal;
use crate::memo::Memo;
use crate::models::{ModelSpec, Models, ResolvedModel, Rung};
use crate::observe::FlowHappening;
use crate::reply::Reply;
use crate::resolve::{Resolving, shaped_answer};
use futures_util::StreamExt;
use indexmap::IndexMap;
use placet_core::turn::TextDelta;
use placet_core::{
    Accumulator, Item, ItemBody, SharedText, ToolChoice, ToolDefinition, Turn, TurnEvent, TurnRequest, Usage,
};
use placet_models::AskContext;
use placet_runtime::output::{Judgement, Shaping};
use placet_runtime::{Problems, Runtime, RuntimeError};
use placet_tools::{Grant, Registry};
use serde_json::Value;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// The model's side of one exchange, as one agent sees it; also a conversation by itself ([`Model::alone`]).
///
/// An *ask* is one turn and runs nothing; a *resolve* goes round after round until there is an answer. What the model may
/// ask for is said for each of them anew: tools, choice and the most rounds hold for the next one only.
pub struct Model {
    cx: Arc<Cx>,
    caller: Option<Arc<CallerState>>,
    at: String,
    agent: Agent,
    resolved: Result<ResolvedModel, String>,
    items: Arc<Mutex<Vec<Arc<Item>>>>,
    next: NextAsk,
    asks: AtomicUsize,
}

/// What the next ask may use.
#[derive(Default)]
struct NextAsk {
    grants: Vec<Grant>,
    forward: bool,
    choice: Option<ToolChoice>,
    rounds: Option<u32>,
}

impl Model {
    pub(crate) fn new(
        cx: Arc<Cx>,
        caller: Option<Arc<CallerState>>,
        at: String,
        agent: Agent,
        resolved: Result<ResolvedModel, String>,
    ) -> Self {
        let (items, next, asks) = (Arc::default(), NextAsk::default(), AtomicUsize::new(0));
        Model { cx, caller, at, agent, resolved, items, next, asks }
    }

    /// A conversation with a model, without flow, client or server.
    pub fn alone(runtime: &Runtime, model: impl Into<ModelSpec>) -> Self {
        Model::of_agent(runtime, Agent::new().model(model).mixed_rounds(MixedRounds::HandBack))
    }

    /// A conversation as an agent has it, without flow, client or server.
    #[must_use]
    pub fn of_agent(runtime: &Runtime, agent: Agent) -> Self {
        let run: placet_core::RunId = runtime.env().new_id();
        let spec = agent.inner().model.clone();
        let models = Models::new();
        let resolved = models
            .climb(&[(Rung::Agent, spec.as_ref())])
            .and_then(|(rung, spec)| ResolvedModel::find(runtime, rung, &spec));
        let cx = Arc::new(Cx {
            runtime: runtime.clone(),
            models: Arc::new(models),
            flow: String::new(),
            request: Arc::default(),
            principal: Principal::anonymous(),
            stream: false,
            metadata: IndexMap::new(),
            payload: Value::Null,
            depth: 0,
            base: run.as_str().to_owned(),
            run,
            root: None,
            cancel: CancellationToken::new(),
            memo: Memo::default(),
            outlet: None,
            scheduler: None,
            observer: None,
            tally: crate::cx::Tally::default(),
            claimed: std::collections::HashSet::new(),
        });
        Model::new(cx, None, String::new(), agent, resolved)
    }

    /// What cancels its asks.
    fn cancel(&self) -> &CancellationToken {
        self.caller.as_ref().map_or(&self.cx.cancel, |caller| &caller.cancel)
    }

    fn items(&self) -> MutexGuard<'_, Vec<Arc<Item>>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds items to the conversation.
    pub fn add(&mut self, items: impl IntoIterator<Item = Arc<Item>>) -> &mut Self {
        self.items().extend(items);
        self
    }

    /// Adds what a user says.
    pub fn say(&mut self, text: impl Into<SharedText>) -> &mut Self {
        let item = self.cx.new_item(|id| Item::user(id, text));
        self.add([item])
    }

    /// The conversation so far. What a turn answered is in it after a resolve, not after an ask.
    #[must_use]
    pub fn messages(&self) -> Vec<Arc<Item>> {
        self.items().clone()
    }

    /// Lets the model ask for these tools in the next ask, after those that were named before.
    pub fn with_tools<G: Into<Grant>>(&mut self, grants: impl IntoIterator<Item = G>) -> &mut Self {
        self.next.grants.extend(grants.into_iter().map(Into::into));
        self
    }

    /// Lets the model ask for what the agent was granted, in the next ask.
    pub fn with_own_tools(&mut self) -> &mut Self {
        self.next.grants.extend(self.agent.inner().grants.iter().cloned());
        self
    }

    /// Lets the model ask for the tools that the client declared, in the next ask, with the client's own tool choice where
    /// it made one. They come after the agent's own, and are never run here.
    pub fn forward_tools(&mut self) -> &mut Self {
        self.next.forward = true;
        self
    }

    /// Whether and what the model must call in the next ask; in a resolve, in its first turn.
    pub fn with_tool_choice(&mut self, choice: ToolChoice) -> &mut Self {
        self.next.choice = Some(choice);
        self
    }

    /// The most rounds of the next resolve.
    pub fn with_max_rounds(&mut self, rounds: u32) -> &mut Self {
        self.next.rounds = Some(rounds);
        self
    }

    /// Which model is asked.
    ///
    /// # Errors
    /// [`FlowError::Runtime`] where there is none.
    pub fn model(&self) -> Result<&ResolvedModel> {
        self.resolved.as_ref().map_err(|problem| wiring([problem.clone()]))
    }

    /// What all models have used for this exchange so far.
    #[must_use]
    pub fn spent(&self) -> Usage {
        self.cx.spent()
    }

    /// Adds items and asks.
    ///
    /// # Errors
    /// As [`Model::ask`].
    pub async fn ask_with(&mut self, items: impl IntoIterator<Item = Arc<Item>>) -> Result<Reply> {
        self.add(items).ask().await
    }

    /// Asks for one turn and runs nothing. The reply may still be coming when this returns, unless it has to have a shape.
    ///
    /// # Errors
    /// [`FlowError::Runtime`] where no model is configured or a tool is broken, and [`FlowError::NameClash`]: nothing was
    /// sent; [`FlowError::Upstream`] where the model refuses; [`FlowError::Output`] where the answer, once repaired as often
    /// as allowed, does not have the shape that it must have.
    pub async fn ask(&mut self) -> Result<Reply> {
        let next = std::mem::take(&mut self.next);
        let place = self.place("ask");
        let (registry, tools, choice) = self.tools(&next)?;
        let model = self.model()?.clone();
        if let Some(turn) = self.cx.memo.get::<Turn>(&place)? {
            self.cx.tell(&place, FlowHappening::Cached);
            let events = spoken_events(&turn.text());
            return Ok(Reply::of_turn(turn, events));
        }
        let inner = self.agent.inner();
        let mut request = TurnRequest {
            model: model.model.clone(),
            instructions: registry.instruct(inner.role.as_deref()),
            items: self.sent_items(),
            tools,
            tool_choice: choice,
            controls: model.controls.clone(),
            ..TurnRequest::default()
        };
        let Some(output) = &inner.output else {
            return begin(&self.cx, self.cancel(), &model, request, place, true).await;
        };
        let own = registry.definitions().len();
        let shape = Shaping::plan(output, &*model.provider, &request, own)?;
        let (mut strategy, mut misses) = (shape.spec().strategy, 0);
        loop {
            let step = if misses == 0 { place.clone() } else { format!("{place}/repair{misses}") };
            let shaped = shape.shaped(request.clone(), own, strategy, misses);
            let reply = match begin(&self.cx, self.cancel(), &model, shaped, step, false).await {
                Ok(reply) => reply,
                Err(FlowError::Upstream(error)) => match shape.fallback(strategy, &error) {
                    Some(other) => {
                        strategy = other;
                        continue;
                    }
                    None => return Err(FlowError::Upstream(error)),
                },
                Err(error) => return Err(error),
            };
            let turn = reply.turn().await?;
            match shape.judge(&turn, strategy) {
                Judgement::Fits(answer) => {
                    let turn = shaped_answer((*turn).clone(), &answer, self.cx.runtime.env());
                    self.cx.memo.put(&place, &turn).await?;
                    let events = spoken_events(&turn.text());
                    return Ok(Reply::of_turn(turn, events));
                }
                // What asks for tools, was cut or refused is what it is.
                Judgement::Unfinished | Judgement::Cut | Judgement::Refused => {
                    self.cx.memo.put(&place, &*turn).await?;
                    return Ok(reply);
                }
                Judgement::Misses(problems) => {
                    if misses == usize::try_from(output.most_repairs()).unwrap_or(usize::MAX) {
                        let problems = problems.iter().map(ToString::to_string).collect();
                        return Err(FlowError::Output { problems });
                    }
                    misses += 1;
                    request.items.extend(turn.items.iter().cloned());
                    request.items.extend(shape.repair(&turn, &problems, strategy, self.cx.runtime.env()));
                }
            }
        }
    }

    /// Goes round after round, each tool of the agent's own through the pipeline, until the model asks for nothing more, and
    /// waits for that. What was said and done is in the conversation afterwards.
    ///
    /// A round with calls of the client's tools goes by the agent's [`MixedRounds`]: unless it says otherwise, the exchange
    /// is suspended here, and goes on here when the client's results have come.
    ///
    /// # Errors
    /// As [`Model::ask`]; [`FlowError::Limit`] where the model goes on asking beyond the most rounds, whose handlers were
    /// not run; [`FlowError::Run`] where a turn fails.
    pub async fn resolve(&mut self) -> Result<Reply> {
        let reply = self.resolve_live().await?;
        reply.ended().await?;
        Ok(reply)
    }

    /// As [`Model::resolve`], without waiting: the reply shows what is said in all rounds as it comes.
    ///
    /// # Errors
    /// Those of what can be known to be wrong beforehand; everything else is the end of the reply.
    pub async fn resolve_live(&mut self) -> Result<Reply> {
        let next = std::mem::take(&mut self.next);
        let place = self.place("resolve");
        let (_, _, choice) = self.tools(&next)?;
        let model = self.model()?.clone();
        let mut limits = self.agent.inner().limits.clone();
        limits.rounds = next.rounds.unwrap_or(limits.rounds);
        let declared = if next.forward { self.cx.request.tools.clone() } else { Vec::new() };
        let (reply, settled) = (Reply::new(), CancellationToken::new());
        if let Some(caller) = &self.caller {
            caller.spoken().open.push(Open { reply: reply.clone(), settled: settled.clone() });
        }
        let resolving = Resolving {
            cx: self.cx.clone(),
            caller: self.caller.clone(),
            agent: self.agent.clone(),
            place,
            model,
            grants: next.grants,
            declared,
            choice,
            limits,
            input: self.sent_items(),
            items: self.items.clone(),
            reply: reply.clone(),
            cancel: self.cancel().clone(),
            settled,
        };
        self.cx.runtime.env().spawn("resolve", resolving.carry_through());
        Ok(reply)
    }

    /// The place of the next ask or resolve: the same each time the handler is run again.
    fn place(&self, what: &str) -> String {
        format!("{}/{what}{}", self.at, self.asks.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// What is sent: in a group what all members said so far, and everything that was added. A handler that added the
    /// caller's messages in a group has them once.
    fn sent_items(&self) -> Vec<Arc<Item>> {
        let own = self.items().clone();
        let Some(group) = self.caller.as_ref().and_then(|caller| caller.group.as_ref()) else { return own };
        let known: std::collections::HashSet<_> = own.iter().map(|item| item.id.clone()).collect();
        group.items().into_iter().filter(|item| !known.contains(&item.id)).chain(own.iter().cloned()).collect()
    }

    /// A client sees no call of our own tools, and so has none to tell of: what it says of one the model would take for true.
    fn check_claims(&self, registry: &Registry) -> Result<()> {
        if self.cx.claimed.is_empty() || registry.definitions().is_empty() {
            return Ok(());
        }
        for item in self.sent_items() {
            let ItemBody::ToolCall(call) = &item.body else { continue };
            if self.cx.claimed.contains(&call.id) && registry.get(&call.name).is_some() {
                return Err(FlowError::forged(call));
            }
        }
        Ok(())
    }

    /// The tools of an ask: the agent's own first, the client's last.
    fn tools(&self, next: &NextAsk) -> Result<(Registry, Vec<Arc<ToolDefinition>>, ToolChoice)> {
        let registry =
            Registry::assemble(next.grants.clone()).map_err(|errors| wiring(errors.iter().map(ToString::to_string)))?;
        self.check_claims(&registry)?;
        let mut tools: Vec<Arc<ToolDefinition>> = registry.definitions().to_vec();
        let mut choice = next.choice.clone();
        if next.forward {
            let client = &self.cx.request;
            if let Some(clash) = client.tools.iter().find(|tool| registry.get(&tool.name).is_some()) {
                return Err(FlowError::NameClash { tool: clash.name.clone() });
            }
            let mut names = std::collections::HashSet::new();
            if let Some(twice) = client.tools.iter().find(|tool| !names.insert(&tool.name)) {
                return Err(FlowError::DeclaredTwice { tool: twice.name.clone() });
            }
            tools.extend(client.tools.iter().cloned());
            if choice.is_none() && !client.tools.is_empty() && !client.tool_choice.is_auto() {
                choice = Some(client.tool_choice.clone());
            }
        }
        Ok((registry, tools, choice.unwrap_or_default()))
    }
}

pub(crate) fn wiring(problems: impl IntoIterator<Item = String>) -> FlowError {
    FlowError::Runtime(RuntimeError::Wiring { problems: Problems(problems.into_iter().collect()) })
}

/// The events of a text that was said before.
pub(crate) fn spoken_events(text: &str) -> Vec<TurnEvent> {
    if text.is_empty() {
        return Vec::new();
    }
    vec![TurnEvent::Text(TextDelta { index: 0, text: text.to_owned() })]
}

/// Asks for one turn, whose events come into a reply. With `keep`, the turn is kept under its place once it is whole.
pub(crate) async fn begin(
    cx: &Arc<Cx>,
    cancel: &CancellationToken,
    model: &ResolvedModel,
    request: TurnRequest,
    place: String,
    keep: bool,
) -> Result<Reply> {
    cx.tell(
        &place,
        FlowHappening::Asked { provider: model.provider.id().clone(), model: model.model.clone(), rung: model.rung },
    );
    let env = cx.runtime.env().clone();
    let stop = cancel.clone();
    let cancel = cancel.child_token();
    let mut context = AskContext::new(env.clone());
    context.cancel = cancel.clone();
    context.trace = cx.trace();
    context.observer = Some(Arc::new(Watcher { cx: cx.clone(), path: place.clone() }));
    let asked = tokio::select! {
        biased;
        () = stop.cancelled() => return Err(FlowError::Cancelled),
        asked = model.provider.ask(Arc::new(request), context) => asked,
    };
    let mut events = asked?;
    let reply = Reply::new();
    let (coming, cx, provider) = (reply.clone(), cx.clone(), model.provider.id().clone());
    env.spawn("ask", async move {
        let closing = cancel.clone().drop_guard();
        let mut answer = Accumulator::new();
        let read = async {
            while let Some(event) = events.next().await {
                answer.push(&event);
                if matches!(event, TurnEvent::Failed(_)) {
                    break;
                }
                coming.push(event, &cancel).await?;
            }
            Ok::<_, FlowError>(())
        };
        let read = tokio::select! {
            biased;
            () = stop.cancelled() => Err(FlowError::Cancelled),
            read = std::panic::AssertUnwindSafe(read).catch_unwind_flow() => read,
        };
        drop(closing);
        cx.spend(answer.usage().unwrap_or_default());
        let ended = match read {
            Ok(()) => answer.finish(&provider, cx.runtime.env()).map_err(FlowError::from),
            Err(error) => Err(error),
        };
        let ended = match ended {
            Ok(turn) if keep => cx.memo.put(&place, &turn).await.map(|()| turn),
            other => other,
        };
        coming.end(ended.map(|turn| Some(Arc::new(turn))).map_err(Arc::new));
    });
    Ok(reply)
}

/// Turns a panic into an error.
pub(crate) trait CatchFlow {
    /// What the future gives.
    type Given;
    /// The future, whose panic is an error.
    fn catch_unwind_flow(self) -> impl Future<Output = Result<Self::Given>> + Send;
}

impl<T, F: Future<Output = Result<T>> + Send> CatchFlow for std::panic::AssertUnwindSafe<F> {
    type Given = T;

    async fn catch_unwind_flow(self) -> Result<T> {
        use futures_util::FutureExt;
        match self.catch_unwind().await {
            Ok(given) => given,
            Err(panic) => Err(FlowError::Panicked { problem: placet_core::env::panic_text(panic.as_ref()) }),
        }
    }
}

/// The calls among some items.
pub(crate) fn calls_in(items: &[Arc<Item>]) -> Vec<placet_core::ToolCall> {
    let calls = items.iter().filter_map(|item| match &item.body {
        ItemBody::ToolCall(call) => Some(call.clone()),
        _ => None,
    });
    calls.collect()
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("at", &self.at).field("model", &self.resolved).finish_non_exhaustive()
    }
}
