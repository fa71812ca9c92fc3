//! Walking a flow: each step gets the state that the one before it left.

use crate::agent::{Agent, Inner, MixedRounds};
use crate::caller::{Caller, CallerState};
use crate::cx::Cx;
use crate::error::{FlowError, Result};
use crate::flow::{Flow, Kind, Notice};
use crate::model::{CatchFlow, Model, begin};
use crate::models::{ModelSpec, ResolvedModel, Rung};
use crate::observe::FlowHappening;
use crate::state::{Delta, FlowState, LiveChat, said, text_said};
use crate::work::{Frame, Later};
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use placet_core::turn::Controls;
use placet_core::{BoxFuture, Item, ItemBody, TurnRequest};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio_util::sync::CancellationToken;

/// How a step was left.
#[derive(Debug)]
pub(crate) enum Walked {
    /// It is done.
    Done,
    /// Some agent waits for the client's tools.
    Suspended,
    /// The client has its whole answer; these steps follow behind its back.
    Answered(Vec<Frame>),
}

/// Where a step stands.
#[derive(Clone, Default)]
pub(crate) struct Place {
    pub(crate) path: Vec<usize>,
    /// Whether what it says may go out as it comes.
    pub(crate) live: bool,
    /// Whether an answer is delivered after it.
    pub(crate) more: bool,
    /// Whether everything that was said is a part of the answer, or only what the last step said.
    pub(crate) stages: bool,
    pub(crate) around: Option<ModelSpec>,
    pub(crate) group: Option<Arc<LiveChat>>,
}

impl Place {
    /// Where a whole flow stands.
    pub(crate) fn of_whole(steps: &Flow, answered: bool) -> Self {
        let stages = steps.responds();
        Place { live: answered && !stages, stages, ..Place::default() }
    }

    fn key(&self) -> String {
        self.path.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
    }

    fn member(&self, at: usize) -> Self {
        let mut member = self.clone();
        member.path.push(at);
        member
    }

    /// A member that runs beside others.
    fn beside(&self, at: usize) -> Self {
        Place { live: false, ..self.member(at) }
    }
}

/// Walks a flow.
pub(crate) fn walk<'a>(
    cx: &'a Arc<Cx>,
    flow: &'a Flow,
    place: Place,
    state: &'a mut FlowState,
) -> BoxFuture<'a, Result<Walked>> {
    Box::pin(async move {
        if cx.cancel.is_cancelled() {
            return Err(FlowError::Cancelled);
        }
        let node = flow.node();
        let around = place.around.clone();
        let inside = Place { around: node.model.clone().or(place.around.clone()), ..place };
        match &node.kind {
            Kind::Agents(agents) => {
                agents_beside(cx, agents, node.model.as_ref(), around.as_ref(), &inside, state).await
            }
            Kind::Sequence(steps) => sequence(cx, steps, 0, inside, state).await,
            Kind::Select(members) => select(cx, members, inside, state).await,
            Kind::All(members) => all(cx, members, &inside, state).await,
            Kind::One(members) => one(cx, members, &inside, state).await,
            Kind::Group(members) => group(cx, members, &inside, state).await,
            Kind::Respond => {
                if let Some(outlet) = &cx.outlet {
                    deliver(outlet, state, state.seed).await?;
                    state.claimed = Arc::default();
                    cx.tell(&inside.key(), FlowHappening::Responded);
                    state.answered |= !inside.more;
                }
                Ok(Walked::Done)
            }
            Kind::Notify(notify) => {
                let key = format!("{}/notify", inside.key());
                if cx.memo.get::<bool>(&key)?.is_none() {
                    let text = match &inside.group {
                        Some(group) => FlowState::new(group.items()).last_text(),
                        None => state.last_text(),
                    };
                    cx.memo.note_change();
                    let notice = Notice { text, run: cx.run.clone(), key: format!("{}/{key}", cx.base) };
                    AssertUnwindSafe(notify.notify(notice)).catch_unwind_flow().await?;
                    cx.memo.put(&key, &true).await?;
                    cx.tell(&key, FlowHappening::Notified);
                }
                Ok(Walked::Done)
            }
            Kind::Trigger(trigger) => {
                let frame = Frame { path: inside.path.clone(), from: usize::MAX };
                state.later.extend(Later::of_trigger(cx, &trigger.0, frame, state)?);
                Ok(Walked::Done)
            }
        }
    })
}

/// Walks the steps of a sequence, from one on.
pub(crate) async fn sequence(
    cx: &Arc<Cx>,
    steps: &[Flow],
    from: usize,
    place: Place,
    state: &mut FlowState,
) -> Result<Walked> {
    let is_trigger = |step: &Flow| matches!(step.node().kind, Kind::Trigger(_));
    for (at, step) in steps.iter().enumerate().skip(from) {
        if let Kind::Trigger(trigger) = &step.node().kind {
            // One at the head has set this off.
            if at == 0 {
                continue;
            }
            let frame = Frame { path: place.path.clone(), from: at + 1 };
            state.later.extend(Later::of_trigger(cx, &trigger.0, frame, state)?);
            return Ok(Walked::Done);
        }
        let rest = &steps[at + 1..];
        let rest = &rest[..rest.iter().position(is_trigger).unwrap_or(rest.len())];
        let before_answer = rest.first().is_some_and(|next| matches!(next.node().kind, Kind::Respond));
        let member = Place {
            live: before_answer || (rest.is_empty() && place.live),
            more: place.more || rest.iter().any(Flow::responds),
            ..place.member(at)
        };
        let (length, answered) = (state.chat.len(), state.answered);
        let walked = walk(cx, step, member, state).await?;
        if state.chat.len() > length && !matches!(step.node().kind, Kind::Sequence(_) | Kind::Select(_)) {
            state.answer_from = length;
        }
        let more = at + 1 < steps.len();
        match walked {
            Walked::Done if state.answered && !answered => {
                let frames = more.then(|| Frame { path: place.path.clone(), from: at + 1 });
                return Ok(Walked::Answered(frames.into_iter().collect()));
            }
            Walked::Done => {}
            Walked::Answered(mut frames) => {
                frames.extend(more.then(|| Frame { path: place.path.clone(), from: at + 1 }));
                return Ok(Walked::Answered(frames));
            }
            Walked::Suspended => return Ok(Walked::Suspended),
        }
    }
    Ok(Walked::Done)
}

async fn select(cx: &Arc<Cx>, members: &[Flow], place: Place, state: &mut FlowState) -> Result<Walked> {
    let selected = state.selection.take();
    cx.tell(&place.key(), FlowHappening::Entered { id: selected.clone() });
    let Some(id) = selected else { return Ok(Walked::Done) };
    let Some(at) = members.iter().position(|member| member.node().id.as_ref() == Some(&id)) else {
        let known = members.iter().filter_map(|member| member.node().id.clone()).collect();
        return Err(FlowError::UnknownSelection { id, known });
    };
    let length = state.chat.len();
    let member = &members[at];
    let walked = walk(cx, member, place.member(at), state).await?;
    if state.chat.len() > length && !matches!(member.node().kind, Kind::Sequence(_) | Kind::Select(_)) {
        state.answer_from = length;
    }
    Ok(walked)
}

/// Puts the selection of one of several that ran beside each other to those of the others.
fn merge_selection(into: &mut Option<String>, from: Option<String>, before: Option<&String>) -> Result<()> {
    let Some(second) = from.filter(|id| before != Some(id)) else { return Ok(()) };
    match into.as_ref().filter(|id| before != Some(id)) {
        Some(first) if *first != second => Err(FlowError::SelectionsDiffer { first: first.clone(), second }),
        _ => {
            *into = Some(second);
            Ok(())
        }
    }
}

/// Runs all at the same time; the first error cancels the rest.
async fn together<T: Send>(running: Vec<BoxFuture<'_, Result<T>>>) -> Result<Vec<T>> {
    let count = running.len();
    let mut running: FuturesUnordered<_> =
        running.into_iter().enumerate().map(|(at, one)| one.map(move |ended| (at, ended))).collect();
    let mut ended: Vec<Option<T>> = (0..count).map(|_| None).collect();
    while let Some((at, one)) = running.next().await {
        ended[at] = Some(one?);
    }
    Ok(ended.into_iter().flatten().collect())
}

async fn all(cx: &Arc<Cx>, members: &[Flow], place: &Place, state: &mut FlowState) -> Result<Walked> {
    let base = state.chat.len();
    let running = members.iter().enumerate().map(|(at, member)| {
        let mut own = state.beside();
        async move {
            let walked = walk(cx, member, place.beside(at), &mut own).await?;
            Ok((walked, own))
        }
        .boxed()
    });
    let ended = together(running.collect()).await?;
    merge(ended, base, state)
}

fn merge(ended: Vec<(Walked, FlowState)>, base: usize, state: &mut FlowState) -> Result<Walked> {
    let before = state.selection.clone();
    let mut suspended = false;
    for (walked, own) in ended {
        suspended |= matches!(walked, Walked::Suspended);
        state.chat.extend(own.chat.into_iter().skip(base));
        state.later.extend(own.later);
        merge_selection(&mut state.selection, own.selection, before.as_ref())?;
        state.whole = false;
    }
    Ok(if suspended { Walked::Suspended } else { Walked::Done })
}

async fn one(cx: &Arc<Cx>, members: &[Flow], place: &Place, state: &mut FlowState) -> Result<Walked> {
    let key = format!("{}/won", place.key());
    let won = cx.memo.get::<usize>(&key)?;
    let base = state.chat.len();
    let mut running: FuturesUnordered<_> = members
        .iter()
        .enumerate()
        .filter(|(at, _)| won.is_none_or(|won| won == *at))
        .map(|(at, member)| {
            let mut own = state.beside();
            async move {
                let walked = walk(cx, member, place.beside(at), &mut own).await;
                (at, walked, own)
            }
        })
        .collect();
    let (mut suspended, mut failed) = (Vec::new(), None);
    while let Some((at, walked, own)) = running.next().await {
        match walked {
            Ok(Walked::Suspended) => suspended.push((Walked::Suspended, own)),
            Ok(walked) => {
                drop(running);
                cx.memo.put(&key, &at).await?;
                cx.drop_opens(&place.key());
                return merge(vec![(walked, own)], base, state);
            }
            // A failure counts only where nobody succeeds.
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        _ if !suspended.is_empty() => merge(suspended, base, state),
        Some(error) => Err(error),
        None => Ok(Walked::Done),
    }
}

async fn group(cx: &Arc<Cx>, members: &[Flow], place: &Place, state: &mut FlowState) -> Result<Walked> {
    let outer = place.group.clone();
    let chat = outer.clone().unwrap_or_else(|| LiveChat::new(state.chat.clone()));
    let running = members.iter().enumerate().map(|(at, member)| {
        let mut own = state.beside();
        let inside = Place { group: Some(chat.clone()), ..place.beside(at) };
        async move {
            let walked = walk(cx, member, inside, &mut own).await?;
            Ok((walked, own))
        }
        .boxed()
    });
    let ended = together(running.collect()).await?;
    let base = state.chat.len();
    let walked = merge(
        ended.into_iter().map(|(walked, own)| (walked, FlowState { chat: Vec::new(), ..own })).collect(),
        base,
        state,
    )?;
    state.chat = chat.items();
    Ok(walked)
}

/// Tells the client what was said from a place on and it was not told yet.
pub(crate) async fn deliver(outlet: &crate::outlet::Outlet, state: &mut FlowState, from: usize) -> Result<()> {
    let undelivered: Vec<Arc<Item>> =
        state.chat.iter().skip(from).filter(|item| !state.delivered.contains(&item.id)).cloned().collect();
    for item in undelivered {
        if let Some(text) = text_said(&item) {
            outlet.message(&text).await?;
            state.delivered.insert(item.id.clone());
            state.whole = false;
        }
    }
    Ok(())
}

async fn agents_beside(
    cx: &Arc<Cx>,
    agents: &[Agent],
    own: Option<&ModelSpec>,
    around: Option<&ModelSpec>,
    place: &Place,
    state: &mut FlowState,
) -> Result<Walked> {
    let alone = agents.len() == 1;
    let before = state.selection.clone();
    let ended = {
        let shared: &FlowState = state;
        let running = agents.iter().enumerate().map(|(at, agent)| {
            let inner = agent.inner();
            let rungs = [(Rung::Agent, inner.model.as_ref()), (Rung::Flow, own), (Rung::Enclosing, around)];
            let resolved =
                cx.models.climb(&rungs).and_then(|(rung, spec)| ResolvedModel::find(&cx.runtime, rung, &spec));
            let at = format!("{}#{at}", place.key());
            let place = Place { live: place.live && alone, ..place.clone() };
            async move { run_agent(cx, agent, at, &place, resolved, shared).await }.boxed()
        });
        together(running.collect()).await?
    };
    let mut suspended = false;
    for (delta, waits) in ended {
        suspended |= waits;
        merge_selection(&mut state.selection, delta.selection, before.as_ref())?;
        state.later.extend(delta.later);
        if delta.flushed {
            state.delivered.extend(state.chat.iter().map(|item| item.id.clone()));
        }
        state.delivered.extend(delta.delivered);
        state.whole = delta.whole;
        for item in delta.items {
            let answer = match &item.body {
                ItemBody::ToolCall(call) => cx.answer_of(&call.id),
                _ => None,
            };
            state.chat.push(item);
            state.chat.extend(answer.map(placet_core::ToolResult::into_item));
        }
    }
    Ok(if suspended { Walked::Suspended } else { Walked::Done })
}

/// Runs one agent. Gives what it did, and whether it waits for the client's tools.
async fn run_agent(
    cx: &Arc<Cx>,
    agent: &Agent,
    at: String,
    place: &Place,
    resolved: Result<ResolvedModel, String>,
    state: &FlowState,
) -> Result<(Delta, bool)> {
    if let Some(delta) = cx.memo.get::<Delta>(&at)? {
        cx.tell(&at, FlowHappening::Cached);
        if let Some(group) = &place.group {
            group.write(delta.items.iter().cloned());
        }
        return Ok((delta, false));
    }
    let started = cx.started(&at);
    let ran = attend(cx, agent, &at, place, resolved, state).await;
    let ran = match ran {
        Ok((delta, false)) => cx.memo.put(&at, &delta).await.map(|()| (delta, false)),
        other => other,
    };
    started.ended(&ran);
    ran
}

async fn attend(
    cx: &Arc<Cx>,
    agent: &Agent,
    at: &str,
    place: &Place,
    resolved: Result<ResolvedModel, String>,
    state: &FlowState,
) -> Result<(Delta, bool)> {
    let cancel = cx.cancel.child_token();
    let _left = cancel.clone().drop_guard();
    let before = if place.stages {
        let untold = state.chat.iter().skip(state.seed).filter(|item| !state.delivered.contains(&item.id));
        untold.filter_map(|item| text_said(item)).collect()
    } else {
        Vec::new()
    };
    let caller = Arc::new(CallerState {
        cx: cx.clone(),
        at: at.to_owned(),
        // What has to have a shape is checked before anybody sees it.
        live: place.live && agent.inner().output.is_none(),
        last: !place.more,
        before,
        claimed: if place.live { state.claimed.clone() } else { Arc::new(AtomicBool::new(true)) },
        chat: state.chat.clone(),
        seed: state.seed,
        group: place.group.clone(),
        spoken: std::sync::Mutex::default(),
        suspended: CancellationToken::new(),
        cancel: cancel.clone(),
        steps: std::sync::atomic::AtomicUsize::new(0),
    });
    let suspended = {
        let work = AssertUnwindSafe(act(caller.clone(), agent.clone(), resolved)).catch_unwind_flow();
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => {
                done?;
                false
            }
            () = caller.suspended.cancelled() => {
                // What was said before goes out before the calls do.
                let open = caller.spoken().open.clone();
                let told = async {
                    for open in &open {
                        open.settled.cancelled().await;
                        open.reply.caught_up().await;
                    }
                };
                tokio::select! {
                    biased;
                    () = cx.cancel.cancelled() => return Err(FlowError::Cancelled),
                    () = told => {}
                    // It does not wait for what it asked: then it is done.
                    done = &mut work => done?,
                }
                true
            }
            () = cx.cancel.cancelled() => return Err(FlowError::Cancelled),
        }
    };
    if !suspended {
        let open = caller.spoken().open.clone();
        for open in open {
            open.settled.cancelled().await;
        }
    }
    // It may have gone on without waiting.
    let waits = caller.suspended.is_cancelled();
    if waits {
        for open in cx.opens().iter().filter(|open| open.place.starts_with(&format!("{at}/"))) {
            caller.say_open(&open.text);
        }
    }
    let delta = caller.delta();
    if let Some(group) = &place.group {
        group.write(delta.items.iter().filter(|item| matches!(item.body, ItemBody::ToolCall(_))).cloned());
    }
    Ok((delta, waits))
}

/// What an agent does: its handler, or what one without a handler does.
async fn act(caller: Arc<CallerState>, agent: Agent, resolved: Result<ResolvedModel, String>) -> Result<()> {
    let inner = agent.inner();
    if agent.is_bare() {
        let model = resolved.map_err(|problem| crate::model::wiring([problem]))?;
        return bare(&caller, inner, &model).await;
    }
    let handle = Caller(caller.clone());
    let face =
        |agent, resolved| Model::new(caller.cx.clone(), Some(caller.clone()), caller.at.clone(), agent, resolved);
    if let Some(handler) = &inner.handler {
        return handler.handle(handle, face(agent.clone(), resolved)).await;
    }
    // There is no handler that could look at what the client asks for, so it holds, under what the agent says itself.
    let request = &caller.cx.request;
    let asked = Controls { background: None, state: None, store: None, ..request.controls.clone() };
    let resolved = resolved.map(|model| ResolvedModel { controls: overlay(&asked, &model.controls), ..model });
    let agent = match &request.output {
        Some(format) if inner.output.is_none() => {
            agent.clone().output_shape(placet_runtime::Output::from_format(format.clone()))
        }
        _ => agent.clone(),
    };
    by_itself(handle, face(agent.clone(), resolved), agent.inner()).await
}

/// An agent with tools or a shape, and no handler.
async fn by_itself(caller: Caller, mut model: Model, inner: &Inner) -> Result<()> {
    model.add(caller.messages()).with_own_tools().forward_tools();
    let reply = if inner.grants.is_empty() {
        model.ask().await?
    } else if inner.output.is_none()
        && let Some(mut stream) = caller.stream().await?
    {
        let reply = model.resolve_live().await?;
        stream.pipe(&reply).await?;
        stream.close();
        return caller.call(reply.calls().await?);
    } else {
        model.resolve().await?
    };
    let text = reply.text().await?;
    if !text.is_empty() {
        caller.reply(text);
    }
    let calls = reply.calls().await?;
    if inner.mixed == MixedRounds::HandBack && calls.iter().any(|call| !declared(&caller, &call.name)) {
        let tools = calls.iter().map(|call| call.name.as_str().to_owned()).collect();
        return Err(FlowError::MixedRound { tools });
    }
    caller.call(calls)
}

fn declared(caller: &Caller, name: &placet_core::ToolName) -> bool {
    caller.request().tools.iter().any(|tool| tool.name == *name)
}

/// The client's request to the model as it came, and the answer back as it is.
async fn bare(caller: &Arc<CallerState>, inner: &Inner, model: &ResolvedModel) -> Result<()> {
    let cx = &caller.cx;
    let live = caller.claim().await?;
    let instructions = match (&inner.role, &cx.request.instructions) {
        (Some(role), Some(own)) => Some([role.as_str(), "\n\n", own].concat().into()),
        (Some(role), None) => Some(role.as_str().into()),
        (None, own) => own.clone(),
    };
    let request = TurnRequest {
        model: model.model.clone(),
        instructions,
        items: caller.group.as_ref().map_or_else(|| caller.chat.clone(), |group| group.items()),
        controls: overlay(&cx.request.controls, &model.controls),
        ..(*cx.request).clone()
    };
    let reply = begin(cx, &caller.cancel, model, request, format!("{}/ask1", caller.at), false).await?;
    if let Some(outlet) = cx.outlet.as_ref().filter(|_| live) {
        let mut message = outlet.begin(caller.last.then(|| cx.spent())).await;
        let mut events = reply.paced_events();
        while let Some(event) = events.next().await {
            outlet.pass(&mut message, event).await?;
        }
    }
    let turn = reply.turn().await?;
    let told = |item: &Arc<Item>| live && (caller.last || !matches!(item.body, ItemBody::ToolCall(_)));
    caller.push_whole(&turn.items, told, live && caller.last);
    Ok(())
}

/// The client's knobs under those of the agent's model.
fn overlay(client: &Controls, own: &Controls) -> Controls {
    if *own == Controls::default() {
        return client.clone();
    }
    let value = |controls: &Controls| serde_json::to_value(controls).unwrap_or_default();
    let (mut merged, own) = (value(client), value(own));
    if let (Some(merged), serde_json::Value::Object(own)) = (merged.as_object_mut(), own) {
        merged.extend(own);
    }
    serde_json::from_value(merged).unwrap_or_else(|_| client.clone())
}

impl CallerState {
    /// Says what a conversation has told that waits for the client's tools, where it did not go out as it came.
    fn say_open(&self, text: &str) {
        if !text.is_empty() && !self.spoken().streams() {
            let item = self.cx.new_item(|id| said(id, text));
            self.push(item);
        }
    }
}
