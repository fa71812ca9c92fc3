//! Conducting an exchange from its start to its end.

use crate::cx::{Cx, may_pass};
use crate::error::{FlowError, Result};
use crate::flow::{Flow, Kind};
use crate::flows::Shared;
use crate::kept::{Kept, LEASE};
use crate::model::CatchFlow;
use crate::models::ModelSpec;
use crate::observe::FlowHappening;
use crate::outlet::Outlet;
use crate::state::FlowState;
use crate::suspend::{HandedCall, MOST_CALLS, Settled, Suspended, SuspensionId, holds_results};
use crate::walk::{Place, Walked, deliver, sequence, walk};
use crate::work::{Frame, Later};
use placet_core::turn::{CallDelta, TextDelta};
use placet_core::{Item, ItemBody, ToolCall, TurnEvent};
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// How long the end of an answer waits for what follows it to be put down.
const PUT_DOWN: Duration = Duration::from_millis(250);

/// Where an exchange begins.
#[derive(Clone)]
pub(crate) enum Start {
    /// With the whole flow, and this chat.
    Whole(Vec<Arc<Item>>),
    /// With some steps of it.
    Frames { frames: Vec<Frame>, chat: Vec<Arc<Item>>, selection: Option<String> },
}

/// One exchange, or one body of a trigger, on its way.
pub(crate) struct Conduct {
    pub(crate) shared: Arc<Shared>,
    pub(crate) cx: Arc<Cx>,
    pub(crate) kept: Option<(String, Kept)>,
    /// The suspension that it settles.
    pub(crate) settles: Option<SuspensionId>,
}

impl Conduct {
    /// Goes on to the end of the answer.
    pub(crate) async fn carry_through(self, start: Start) {
        let kept = self.kept.clone();
        let conduct = AssertUnwindSafe(self.conduct(&start)).catch_unwind_flow();
        let renewing = async {
            let Some((_, kept)) = &kept else { return std::future::pending().await };
            loop {
                self.cx.runtime.env().sleep(LEASE / 3).await;
                if !kept.renew().await {
                    return;
                }
            }
        };
        let started = self.cx.started("");
        let ended = tokio::select! {
            ended = conduct => ended,
            () = renewing => Err(FlowError::internal("another process has taken the exchange over")),
        };
        started.ended(&ended);
        let Some(outlet) = &self.cx.outlet else { return };
        let reply = outlet.reply();
        match ended {
            Ok(()) => reply.end(Ok(None)),
            Err(error) => {
                let problem = self.shared.told(&error);
                tracing::warn!(run = %self.cx.run, flow = self.cx.flow, code = error.code(), problem, "an exchange failed");
                let told = error.to_client();
                reply.end_with(TurnEvent::Failed(Box::new(told)), error);
            }
        }
        if let Some((id, kept)) = &self.kept {
            if reply.err().await.is_none()
                && let Err(error) = kept.put_answer(&compact(reply.recorded())).await
            {
                tracing::warn!(run = %self.cx.run, problem = self.shared.told(&error), "an answer could not be kept");
            }
            self.shared.ended(id);
            kept.let_go().await;
        }
    }

    async fn conduct(&self, start: &Start) -> Result<()> {
        let cx = &self.cx;
        let served =
            self.shared.served.get(&cx.flow).ok_or_else(|| FlowError::UnknownFlow { name: cx.flow.clone() })?;
        let retries = if self.kept.is_some() { served.durable.map_or(0, |durable| durable.retries) } else { 0 };
        let mut tried = 0;
        let (walked, state) = loop {
            match go(cx, &served.flow, start).await {
                // What the client has been told already cannot be told otherwise.
                Err(error)
                    if tried < retries
                        && may_pass(&error)
                        && cx.outlet.as_ref().is_some_and(|out| out.reply().is_empty()) =>
                {
                    let wait = Duration::from_secs(1 << tried.min(5)).min(Duration::from_secs(30));
                    tried += 1;
                    tracing::warn!(run = %cx.run, code = error.code(), ?wait, "a durable flow failed and is tried again");
                    tokio::select! {
                        () = cx.runtime.env().sleep(wait) => {}
                        () = cx.cancel.cancelled() => return Err(FlowError::Cancelled),
                    }
                }
                other => break other?,
            }
        };
        self.finish(walked, state, served.flow.responds()).await
    }

    async fn finish(&self, walked: Walked, mut state: FlowState, stages: bool) -> Result<()> {
        let cx = &self.cx;
        let Some(outlet) = &cx.outlet else { return Ok(()) };
        if !state.answered {
            let from = if stages { state.seed } else { state.answer_from };
            deliver(outlet, &mut state, from).await?;
        }
        if let Some(id) = &self.settles {
            Settled { inner: cx.settled() }.keep(&cx.runtime, id).await?;
        }
        match walked {
            Walked::Suspended => self.suspend(outlet, &state).await?,
            Walked::Done | Walked::Answered(_) => {
                let owed = state.owed();
                self.hand_out_settled(outlet, owed).await?;
                let mut later = state.later.clone();
                if let Walked::Answered(frames) = walked
                    && !frames.is_empty()
                {
                    later.push(Later::follow_up(cx, frames, &state));
                }
                if !later.is_empty() {
                    self.leave_behind(later).await;
                }
            }
        }
        outlet.finish(cx.spent(), state.whole).await
    }

    /// Puts down what follows the answer, without letting the answer wait for it long, or fail by it.
    async fn leave_behind(&self, later: Vec<Later>) {
        let (shared, cx) = (self.shared.clone(), self.cx.clone());
        let put = self.cx.runtime.env().spawn("follow-up", async move {
            if let Err(error) = shared.leave_behind(&cx, &later).await {
                let problem = shared.told(&error);
                tracing::error!(run = %cx.run, problem, "what follows an answer could not be put down");
                cx.tell("", FlowHappening::FollowUpFailed { error: error.code().to_owned() });
            }
        });
        tokio::select! {
            _ = put.join() => {}
            () = self.cx.runtime.env().sleep(PUT_DOWN) => {}
        }
    }

    /// Suspends the exchange: what waits in it is kept, unless the client's own transcript tells everything.
    async fn suspend(&self, outlet: &Outlet, state: &FlowState) -> Result<()> {
        let cx = &self.cx;
        let opens = cx.opens();
        let outer = opens.iter().flat_map(|open| open.calls.iter().filter(|call| !open.inner.contains(&call.id)));
        let calls: Vec<ToolCall> = state.owed().into_iter().chain(outer.cloned()).collect();
        let ours = opens.iter().any(|open| !open.inner.is_empty() || holds_results(&open.items));
        if !ours && !cx.memo.has_effects() {
            return self.hand_out(outlet, calls).await;
        }
        let mixed: Vec<ToolCall> = opens
            .iter()
            .flat_map(|open| open.calls.iter().filter(|call| open.inner.contains(&call.id)).cloned())
            .collect();
        let changes = cx.memo.has_changes() || (!mixed.is_empty() && opens.iter().any(|open| open.changes));
        self.keep(outlet, calls, opens, None, changes).await
    }

    /// Hands out the calls of a flow that has ended. Where rounds of ours led to them, those are kept to be put back.
    async fn hand_out_settled(&self, outlet: &Outlet, calls: Vec<ToolCall>) -> Result<()> {
        if calls.is_empty() {
            return Ok(());
        }
        let cx = &self.cx;
        let rounds = cx.memo.has_effects().then(|| crate::resolve::rounds_before(&cx.memo, &calls)).flatten();
        match rounds {
            Some(items) => self.keep(outlet, calls, Vec::new(), Some(items), cx.memo.has_changes()).await,
            None => self.hand_out(outlet, calls).await,
        }
    }

    async fn keep(
        &self,
        outlet: &Outlet,
        calls: Vec<ToolCall>,
        opens: Vec<crate::suspend::OpenRound>,
        ended: Option<Vec<Arc<Item>>>,
        changes: bool,
    ) -> Result<()> {
        let cx = &self.cx;
        self.check(&calls)?;
        if calls.len() > MOST_CALLS {
            return Err(FlowError::Limit {
                what: format!("{} calls in one answer, {MOST_CALLS} are allowed", calls.len()),
            });
        }
        let id = SuspensionId::new(cx.runtime.env(), changes);
        let handed: Vec<HandedCall> =
            calls.into_iter().enumerate().map(|(at, call)| HandedCall { id: id.call(at), call }).collect();
        let suspended = Suspended {
            principal: cx.principal.as_str().to_owned(),
            flow: cx.flow.clone(),
            signature: self.shared.signature(&cx.flow),
            root: cx.root.clone().unwrap_or_else(|| id.hex.clone()),
            steps: cx.memo.all(),
            opens,
            handed: handed.clone(),
            told: outlet.said().await,
            payload: cx.payload.clone(),
            depth: cx.depth,
            ended,
        };
        suspended.keep(&cx.runtime, Some(&self.shared.scheduler), &id, self.shared.suspended).await?;
        cx.tell("", FlowHappening::Suspended { calls: handed.len() });
        for handed in handed {
            outlet.call(delta(&handed.call, handed.id)).await;
        }
        Ok(())
    }

    /// Hands out calls of which nothing is kept: under the ids of the model, where they are good.
    async fn hand_out(&self, outlet: &Outlet, calls: Vec<ToolCall>) -> Result<()> {
        self.check(&calls)?;
        let mut used: HashSet<String> = self
            .cx
            .request
            .items
            .iter()
            .filter_map(|item| match &item.body {
                ItemBody::ToolCall(call) => call.provider_id.clone(),
                _ => None,
            })
            .collect();
        for call in calls {
            let own = call.provider_id.clone().filter(|id| !id.is_empty() && SuspensionId::of_call(id).is_none());
            let id = own.filter(|id| used.insert(id.clone())).unwrap_or_else(|| call.id.as_str().to_owned());
            outlet.call(delta(&call, id)).await;
        }
        Ok(())
    }

    /// A client only ever sees calls of tools that it declared in this request.
    fn check(&self, calls: &[ToolCall]) -> Result<()> {
        let request = &self.cx.request;
        let declared =
            |call: &ToolCall| request.tools.iter().any(|tool| tool.name == call.name) || !request.hosted.is_empty();
        match calls.iter().find(|call| !declared(call)) {
            Some(call) => Err(FlowError::Undeclared { tool: call.name.clone() }),
            None => Ok(()),
        }
    }
}

fn delta(call: &ToolCall, id: String) -> CallDelta {
    CallDelta {
        index: 0,
        provider_id: Some(id),
        name: Some(call.name.as_str().to_owned()),
        arguments: call.arguments.replay_text().to_owned(),
        native: call.native.clone(),
    }
}

/// Walks a flow from where it is to begin.
pub(crate) async fn go(cx: &Arc<Cx>, flow: &Flow, start: &Start) -> Result<(Walked, FlowState)> {
    let answered = cx.outlet.is_some();
    match start {
        Start::Whole(chat) => {
            let mut state = FlowState::new(chat.clone());
            let walked = walk(cx, flow, Place::of_whole(flow, answered), &mut state).await?;
            Ok((walked, state))
        }
        Start::Frames { frames, chat, selection } => {
            let mut state = FlowState::new(chat.clone());
            state.selection.clone_from(selection);
            for (at, frame) in frames.iter().enumerate() {
                if frame.path.is_empty() && frame.from == 0 {
                    let place = Place::of_whole(flow, answered);
                    match walk(cx, flow, place, &mut state).await? {
                        Walked::Done => continue,
                        other => return Ok((other, state)),
                    }
                }
                let Some(steps) = steps_at(flow, frame) else { continue };
                let stages = steps.iter().any(Flow::responds);
                let place = Place {
                    path: frame.path.clone(),
                    live: answered && !stages && at + 1 == frames.len(),
                    stages,
                    around: around(flow, &frame.path),
                    ..Place::default()
                };
                let Kind::Sequence(all) = &at_path(flow, &frame.path).node().kind else { continue };
                match sequence(cx, all, frame.from, place, &mut state).await? {
                    Walked::Done => {}
                    Walked::Answered(mut rest) => {
                        rest.extend(frames.iter().skip(at + 1).cloned());
                        return Ok((Walked::Answered(rest), state));
                    }
                    Walked::Suspended => return Ok((Walked::Suspended, state)),
                }
            }
            Ok((Walked::Done, state))
        }
    }
}

fn at_path<'a>(flow: &'a Flow, path: &[usize]) -> &'a Flow {
    path.iter().fold(flow, |flow, at| flow.members().get(*at).unwrap_or(flow))
}

/// The steps that a frame stands for, if its flow still has them.
pub(crate) fn steps_at<'a>(flow: &'a Flow, frame: &Frame) -> Option<&'a [Flow]> {
    let found = frame.path.iter().try_fold(flow, |flow, at| flow.members().get(*at))?;
    match &found.node().kind {
        Kind::Sequence(steps) => steps.get(frame.from..),
        _ => None,
    }
}

/// The model that the flows around a place give to what stands there.
fn around(flow: &Flow, path: &[usize]) -> Option<ModelSpec> {
    let mut nearest = flow.node().model.clone();
    let mut at = flow;
    for place in path {
        let Some(member) = at.members().get(*place) else { break };
        nearest = member.node().model.clone().or(nearest);
        at = member;
    }
    nearest
}

/// Events with the pieces of one text put together.
fn compact(events: Vec<TurnEvent>) -> Vec<TurnEvent> {
    let mut compacted: Vec<TurnEvent> = Vec::new();
    for event in events {
        match (compacted.last_mut(), &event) {
            (Some(TurnEvent::Text(last)), TurnEvent::Text(TextDelta { index, text })) if last.index == *index => {
                last.text.push_str(text);
            }
            _ => compacted.push(event),
        }
    }
    compacted
}
