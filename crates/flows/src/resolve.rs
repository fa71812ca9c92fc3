//! Going round after round: runs of the one loop, put together across suspensions.

use crate::agent::{Agent, MixedRounds};
use crate::caller::CallerState;
use crate::cx::Cx;
use crate::error::{FlowError, Result};
use crate::kept::derived_run;
use crate::memo::Memo;
use crate::model::{CatchFlow, calls_in, spoken_events};
use crate::models::ResolvedModel;
use crate::observe::FlowHappening;
use crate::outlet::BETWEEN;
use crate::reply::Reply;
use crate::suspend::{ArrivedRound, OpenRound, holds_results};
use placet_core::event::EventBody;
use placet_core::turn::TextDelta;
use placet_core::{
    CallId, Cursor, Env, ErrorKind, FINAL_TOOL, Item, ItemBody, Limits, Message, Origin, Outcome, Part, ProviderState,
    Reason, Role, RunId, Stage, Status, StopReason, ToolCall, ToolChoice, ToolDefinition, ToolResult, Turn, TurnEvent,
    Usage,
};
use placet_observe::{Ending, Journal, RunResult, replay};
use placet_runtime::{EventStream, RunBuilder, RunHandle, RuntimeError};
use placet_tools::{Grant, Registry};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long is waited before a run is looked at again that another process carries on.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A conversation that goes on until there is an answer.
pub(crate) struct Resolving {
    pub(crate) cx: Arc<Cx>,
    pub(crate) caller: Option<Arc<CallerState>>,
    pub(crate) agent: Agent,
    pub(crate) place: String,
    pub(crate) model: ResolvedModel,
    pub(crate) grants: Vec<Grant>,
    pub(crate) declared: Vec<Arc<ToolDefinition>>,
    pub(crate) choice: ToolChoice,
    pub(crate) limits: Limits,
    /// What the model is sent at first.
    pub(crate) input: Vec<Arc<Item>>,
    /// Where what is added to the conversation is put in the end.
    pub(crate) items: Arc<Mutex<Vec<Arc<Item>>>>,
    pub(crate) reply: Reply,
    pub(crate) cancel: CancellationToken,
    /// Cancelled once it has ended, or waits for the client.
    pub(crate) settled: CancellationToken,
}

/// A conversation that has come to its answer, as it is kept.
#[derive(Serialize, Deserialize)]
struct Resolved {
    items: Vec<Arc<Item>>,
    turn: Turn,
    text: String,
}

/// How far a conversation is.
#[derive(Default)]
struct Progress {
    /// What was added to it.
    items: Vec<Arc<Item>>,
    /// From where on it was added by this very exchange.
    since: usize,
    rounds: u32,
    state: Option<ProviderState>,
    repairs: u32,
    split: bool,
    part: usize,
    voice: Voice,
}

/// What the reply has told of the conversation.
#[derive(Default)]
struct Voice {
    text: String,
    /// The next free place.
    place: u32,
    /// Where the present turn begins, and how much of its text was told.
    base: u32,
    told: usize,
}

impl Resolving {
    /// Goes on to the answer, and ends the reply with it; leaves it open where the exchange is suspended.
    pub(crate) async fn carry_through(self) {
        let result = AssertUnwindSafe(self.resolve()).catch_unwind_flow().await;
        match result {
            Ok(None) => {
                if let Some(caller) = &self.caller {
                    caller.suspended.cancel();
                }
            }
            Ok(Some(resolved)) => {
                self.items.lock().unwrap_or_else(PoisonError::into_inner).extend(resolved.items.iter().cloned());
                self.reply.end(Ok(Some(Arc::new(resolved.turn))));
            }
            Err(error) => self.reply.end(Err(Arc::new(error))),
        }
        self.settled.cancel();
    }

    async fn resolve(&self) -> Result<Option<Resolved>> {
        let registry = Registry::assemble(self.grants.clone())
            .map_err(|errors| crate::model::wiring(errors.iter().map(ToString::to_string)))?;
        if let Some(resolved) = self.cx.memo.get::<Resolved>(&self.place)? {
            self.cx.tell(&self.place, FlowHappening::Cached);
            self.note_effects(&registry, &resolved.items);
            for event in spoken_events(&resolved.text) {
                self.reply.push_now(event)?;
            }
            return Ok(Some(resolved));
        }
        let mut progress = Progress::default();
        if let Some(arrived) = self.cx.take_arrived(&self.place) {
            self.take_up(arrived, &registry, &mut progress).await?;
        }
        loop {
            let mut result = self.run(&mut progress).await?;
            self.take_submissions_out(&registry, &mut result.items);
            let mut turn = last_turn(&result, self.cx.runtime.env().new_id());
            progress.rounds += result.rounds;
            progress.state.clone_from(&result.provider_state);
            progress.repairs += u32::try_from(result.rejected.len()).unwrap_or(u32::MAX);
            progress.items.extend(result.items.iter().cloned());
            self.note_effects(&registry, &result.items);
            match &result.end {
                Ending::Completed => {}
                Ending::LimitReached if result.stop == Some(StopReason::MaxTokens) => {}
                Ending::LimitReached => {
                    return Err(FlowError::Limit { what: result.detail.unwrap_or_else(|| "of the run".to_owned()) });
                }
                Ending::Cancelled => return Err(FlowError::Cancelled),
                // What the model says then is what it is, as in an agent that wants no shape.
                Ending::Failed if result.failure.as_ref().is_some_and(|failure| failure.kind == ErrorKind::Refused) => {
                }
                Ending::Failed => {
                    return Err(match result.failure {
                        Some(failure) if failure.kind == ErrorKind::OutputMismatch => {
                            let problems = result.rejected.pop().map(|rejected| rejected.problems);
                            FlowError::Output { problems: problems.unwrap_or_default() }
                        }
                        Some(failure) => FlowError::Run(failure),
                        None => FlowError::internal("a run failed without a reason"),
                    });
                }
                Ending::HandedBack => {
                    let (inner, outer): (Vec<_>, Vec<_>) =
                        result.owed.iter().cloned().partition(|call| registry.get(&call.name).is_some());
                    match self.handed_back(&inner, &outer, &mut progress)? {
                        Handed::GoOn => continue,
                        Handed::Suspend => {
                            self.cx.open(OpenRound {
                                place: self.place.clone(),
                                items: progress.items,
                                since: progress.since,
                                calls: result.owed,
                                inner: inner.into_iter().map(|call| call.id).collect(),
                                rounds: progress.rounds,
                                provider_state: progress.state,
                                text: progress.voice.text,
                                tools: registry.definitions().iter().map(|tool| tool.name.clone()).collect(),
                                changes: registry.definitions().iter().any(|tool| tool.effect.needs_intent()),
                            });
                            return Ok(None);
                        }
                        Handed::ToHandler => return Ok(Some(self.keep(progress, turn).await?)),
                    }
                }
                other => return Err(FlowError::internal(format!("a run ended in an unknown way: {other}"))),
            }
            if let Some(answer) = &result.output {
                let answered = shaped_answer(turn.clone(), answer, self.cx.runtime.env());
                if answered != turn {
                    progress.items.extend(answered.items.iter().cloned());
                    turn = answered;
                }
            }
            if self.agent.inner().output.is_some() {
                for event in spoken_events(&turn.text()) {
                    self.reply.push_now(event)?;
                }
            }
            return Ok(Some(self.keep(progress, turn).await?));
        }
    }

    /// Takes the calls that an answer was submitted by out of what was added to the conversation: there is no such tool in it,
    /// and the answer comes as a text.
    fn take_submissions_out(&self, registry: &Registry, items: &mut Vec<Arc<Item>>) {
        let of_somebody = |tool: &placet_core::ToolName| {
            registry.get(tool).is_some() || self.declared.iter().any(|declared| declared.name == *tool)
        };
        items.retain(|item| match &item.body {
            ItemBody::ToolCall(call) => call.name.as_str() != FINAL_TOOL || of_somebody(&call.name),
            ItemBody::ToolResult(result) => result.tool.as_str() != FINAL_TOOL || of_somebody(&result.tool),
            _ => true,
        });
    }

    /// Notes what our own tools did, as far as the client's transcript will not tell it.
    fn note_effects(&self, registry: &Registry, items: &[Arc<Item>]) {
        for item in items {
            let ItemBody::ToolResult(result) = &item.body else { continue };
            match registry.get(&result.tool) {
                Some(tool) if tool.effect().needs_intent() => self.cx.memo.note_change(),
                _ => self.cx.memo.note_effect(),
            }
        }
    }

    async fn keep(&self, progress: Progress, turn: Turn) -> Result<Resolved> {
        let resolved = Resolved { items: progress.items, turn, text: self.reply.text_so_far() };
        self.cx.memo.put(&self.place, &resolved).await?;
        Ok(resolved)
    }

    fn handed_back(&self, inner: &[ToolCall], outer: &[ToolCall], progress: &mut Progress) -> Result<Handed> {
        let policy = match &self.caller {
            Some(_) => self.agent.inner().mixed,
            // There is no exchange that could be suspended.
            None => MixedRounds::HandBack,
        };
        let mixed = !inner.is_empty();
        match policy {
            MixedRounds::HandBack => Ok(Handed::ToHandler),
            MixedRounds::Suspend => Ok(Handed::Suspend),
            MixedRounds::Split if !mixed => Ok(Handed::Suspend),
            MixedRounds::Split if progress.split => {
                let tools = inner.iter().chain(outer).map(|call| call.name.as_str().to_owned()).collect();
                Err(FlowError::MixedRound { tools })
            }
            MixedRounds::Split => {
                progress.split = true;
                let names = |calls: &[ToolCall]| {
                    calls.iter().map(|call| call.name.as_str().to_owned()).collect::<Vec<_>>().join(", ")
                };
                let text = format!(
                    "not run: {} and {} cannot be called in one answer; call either the ones or the others first",
                    names(inner),
                    names(outer)
                );
                // In the order of the turn.
                let calls = calls_in(&progress.items);
                let owed = calls.iter().filter(|call| inner.iter().chain(outer).any(|owed| owed.id == call.id));
                let results: Vec<ToolResult> = owed
                    .map(|call| {
                        ToolResult::of(
                            call,
                            Outcome::new(Status::Mistaken, Stage::Admit, Some(Reason::NotRun), text.clone()),
                        )
                    })
                    .collect();
                progress.items.extend(results.into_iter().map(ToolResult::into_item));
                Ok(Handed::GoOn)
            }
        }
    }

    /// Goes on where the exchange was suspended: our own tools of the round run now, once.
    async fn take_up(&self, arrived: ArrivedRound, registry: &Registry, progress: &mut Progress) -> Result<()> {
        let ArrivedRound { open, results, trailing } = arrived;
        self.note_effects(registry, &open.items);
        let inner: Vec<ToolCall> = open.calls.iter().filter(|call| open.inner.contains(&call.id)).cloned().collect();
        let mut answers: HashMap<CallId, ToolResult> =
            results.into_iter().map(|result| (result.call.clone(), result)).collect();
        if !inner.is_empty() {
            let ours = self.run_inner(&open, inner).await?;
            let items: Vec<Arc<Item>> = ours.iter().cloned().map(ToolResult::into_item).collect();
            self.note_effects(registry, &items);
            self.cx.settle(&self.place, ours.clone());
            answers.extend(ours.into_iter().map(|result| (result.call.clone(), result)));
        }
        for event in spoken_events(&open.text) {
            self.reply.push_now(event)?;
        }
        progress.voice = Voice { place: u32::from(!open.text.is_empty()), text: open.text, ..Voice::default() };
        progress.items = open.items;
        for call in &open.calls {
            let Some(result) = answers.remove(&call.id) else {
                return Err(FlowError::internal(format!("the call {} has no result", call.id)));
            };
            progress.items.push(result.into_item());
        }
        progress.since = progress.items.len();
        progress.items.extend(trailing);
        progress.rounds = open.rounds + 1;
        progress.state = open.provider_state;
        Ok(())
    }

    /// Runs our own calls of a round whose other calls the client has answered.
    async fn run_inner(&self, open: &OpenRound, calls: Vec<ToolCall>) -> Result<Vec<ToolResult>> {
        let run = derived_run(&self.cx.base, &self.place, 0);
        let items =
            calls.iter().map(|call| self.cx.new_item(|id| Item::new(id, Origin::Model, call.clone()))).collect();
        let turn = Turn {
            id: self.cx.runtime.env().new_id(),
            model: Some(self.model.model.clone()),
            response_id: None,
            items,
            stop: StopReason::ToolCalls,
            usage: Some(Usage::default()),
            provider_state: None,
            service_tier: None,
            native: None,
        };
        let before: Vec<Arc<Item>> = self.input.iter().chain(&open.items).cloned().collect();
        // The round itself is the run's first turn.
        let own: Vec<CallId> = open.calls.iter().map(|call| call.id.clone()).collect();
        let before = before.into_iter().filter(|item| match &item.body {
            ItemBody::ToolCall(call) => !own.contains(&call.id),
            _ => true,
        });
        let builder = self.builder(run.clone()).items(before);
        let started = builder.start_round(turn).await;
        let result = self.watch(started, run, true, &mut None).await?;
        if let Some(failure) = result.failure {
            return Err(FlowError::Run(failure));
        }
        let results: Vec<ToolResult> = result
            .items
            .iter()
            .filter_map(|item| match &item.body {
                ItemBody::ToolResult(result) => Some((**result).clone()),
                _ => None,
            })
            .collect();
        // The calls of a run that was taken up again are those of its first start.
        Ok(calls.iter().filter_map(|call| results.iter().find(|result| result.call == call.id).cloned()).collect())
    }

    fn builder(&self, run: RunId) -> RunBuilder {
        let choice = (self.cx.tally.tab.noting(&self.model.provider), self.model.model.clone());
        let mut builder = self
            .cx
            .runtime
            .run(choice)
            .id(run)
            .controls(self.model.controls.clone())
            .trace(self.cx.trace())
            .cancelled_by(self.cancel.child_token());
        if let Some(role) = &self.agent.inner().role {
            builder = builder.instructions(role);
        }
        if let Some(price) = self.model.price {
            builder = builder.price(price);
        }
        self.grants.iter().cloned().fold(builder, RunBuilder::grant)
    }

    /// One run of the loop, from where the conversation is.
    async fn run(&self, progress: &mut Progress) -> Result<RunResult> {
        progress.part += 1;
        let run = derived_run(&self.cx.base, &self.place, progress.part);
        let forced = progress.rounds == 0 && progress.part == 1;
        let choice = if self.choice.is_forced() && !forced { ToolChoice::Auto } else { self.choice.clone() };
        let limits = Limits { rounds: self.limits.rounds.saturating_sub(progress.rounds), ..self.limits.clone() };
        let mut builder = self
            .builder(run.clone())
            .items(self.input.iter().chain(&progress.items).cloned())
            .provider_state(progress.state.clone())
            .tool_choice(choice)
            .output_shape(self.agent.inner().output.as_ref().map(|output| {
                let left = output.most_repairs().saturating_sub(progress.repairs);
                output.clone().repairs(left)
            }))
            .limits(limits);
        for tool in &self.declared {
            builder = builder.declare(tool.clone());
        }
        self.cx.tell(
            &self.place,
            FlowHappening::Asked {
                provider: self.model.provider.id().clone(),
                model: self.model.model.clone(),
                rung: self.model.rung,
            },
        );
        let started = builder.start().await;
        // What has to have a shape is told once it has it.
        let mut voice = self.agent.inner().output.is_none().then(|| std::mem::take(&mut progress.voice));
        let result = self.watch(started, run, false, &mut voice).await;
        progress.voice = voice.unwrap_or_default();
        let result = result?;
        self.cx.spend(result.usage);
        Ok(result)
    }

    /// Waits for the end of a run, telling the reply of it. One that was begun before is taken up again.
    async fn watch(
        &self,
        started: Result<RunHandle, RuntimeError>,
        run: RunId,
        round_only: bool,
        voice: &mut Option<Voice>,
    ) -> Result<RunResult> {
        let mut started = started;
        loop {
            let handle = match started {
                Ok(handle) => handle,
                Err(RuntimeError::Exists { .. }) => {
                    let provider = self.cx.tally.tab.noting(&self.model.provider);
                    let mut resume = self.cx.runtime.resume(run.clone()).provider(provider);
                    resume = resume.cancelled_by(self.cancel.child_token()).trace(self.cx.trace());
                    resume = self.grants.iter().cloned().fold(resume, placet_runtime::ResumeBuilder::grant);
                    started = if round_only { resume.round_only() } else { resume }.start().await;
                    continue;
                }
                Err(RuntimeError::Ended { run, .. }) => {
                    let journal = Journal::read(&**self.cx.runtime.store(), self.cx.runtime.tenant(), &run).await;
                    let journal = journal.map_err(RuntimeError::from)?;
                    let result = replay(&journal).result;
                    let result =
                        result.ok_or_else(|| FlowError::internal(format!("{run} has ended without a result")))?;
                    if let Some(voice) = voice {
                        for text in turn_texts(&result.items) {
                            voice.turn_began();
                            self.tell_rest(voice, &text).await?;
                        }
                    }
                    return Ok(RunResult { usage: Usage::default(), ..result });
                }
                // Another process carries it on.
                Err(RuntimeError::Held { .. }) => {
                    tokio::select! {
                        () = self.cancel.cancelled() => return Err(FlowError::Cancelled),
                        () = self.cx.runtime.env().sleep(LOOK_AGAIN) => {}
                    }
                    started = Err(RuntimeError::Exists { run: run.clone() });
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let told = match voice {
                Some(voice) => self.tell(handle.paced_events(Cursor::START), voice).await,
                None => Ok(()),
            };
            if told.is_err() {
                handle.cancel();
            }
            let result = handle.wait().await?;
            told?;
            return Ok(result);
        }
    }

    async fn tell(&self, mut events: EventStream, voice: &mut Voice) -> Result<()> {
        voice.turn_began();
        while let Some(event) = events.next().await {
            match &event?.body {
                EventBody::RequestStarted(_) => voice.turn_began(),
                EventBody::TextDelta(delta) => self.tell_piece(voice, delta.index, &delta.delta).await?,
                EventBody::Snapshot(snapshot) => self.tell_rest(voice, &snapshot.text).await?,
                EventBody::TurnCompleted(completed) => {
                    self.tell_rest(voice, &completed.turn.text()).await?;
                    voice.turn_began();
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Tells what of the present turn's text was not told yet.
    async fn tell_rest(&self, voice: &mut Voice, text: &str) -> Result<()> {
        match text.get(voice.told..) {
            Some(rest) if !rest.is_empty() => {
                self.tell_piece(voice, voice.place.saturating_sub(voice.base), rest).await
            }
            _ => Ok(()),
        }
    }

    async fn tell_piece(&self, voice: &mut Voice, index: u32, piece: &str) -> Result<()> {
        let index = voice.base.saturating_add(index);
        voice.place = voice.place.max(index.saturating_add(1));
        let text = if voice.told == 0 && !voice.text.is_empty() { [BETWEEN, piece].concat() } else { piece.to_owned() };
        voice.told += piece.len();
        voice.text.push_str(&text);
        self.reply.push(TurnEvent::Text(TextDelta { index, text }), &self.cancel).await
    }
}

impl Voice {
    fn turn_began(&mut self) {
        (self.base, self.told) = (self.place, 0);
    }
}

/// What becomes of a round that was handed back.
enum Handed {
    GoOn,
    Suspend,
    ToHandler,
}

/// A turn that answers with this value, and nothing else: itself, where it does.
pub(crate) fn shaped_answer(turn: Turn, answer: &serde_json::Value, env: &Env) -> Turn {
    let says_it = serde_json::from_str::<serde_json::Value>(&turn.text()).is_ok_and(|said| said == *answer);
    if says_it && turn.calls().next().is_none() {
        return turn;
    }
    let body = Message { role: Role::Assistant, parts: vec![Part::text(answer.to_string())], native: None };
    let items = vec![Arc::new(Item::new(env.new_id(), Origin::Model, body))];
    Turn { items, stop: StopReason::End, ..turn }
}

/// The last turn of a run, from what the run added.
fn last_turn(result: &RunResult, id: placet_core::TurnId) -> Turn {
    let is_told = |item: &Arc<Item>| match &item.body {
        ItemBody::ToolResult(_) => true,
        ItemBody::Message(message) => message.role != Role::Assistant,
        _ => false,
    };
    let after = result.items.iter().rposition(is_told).map_or(0, |at| at + 1);
    Turn {
        id,
        model: None,
        response_id: None,
        items: result.items.get(after..).unwrap_or_default().to_vec(),
        stop: result.stop.clone().unwrap_or(StopReason::End),
        usage: Some(result.usage),
        provider_state: result.provider_state.clone(),
        service_tier: None,
        native: None,
    }
}

/// The rounds of ours that led to some calls, where there are any: the conversation whose last turn made them.
pub(crate) fn rounds_before(memo: &Memo, calls: &[ToolCall]) -> Option<Vec<Arc<Item>>> {
    let made = |items: &[Arc<Item>]| calls_in(items).iter().any(|call| calls.iter().any(|owed| owed.id == call.id));
    let resolved = memo.all().into_iter().filter(|(place, _)| place.contains("/resolve"));
    let mut found = resolved.filter_map(|(_, value)| serde_json::from_value::<Resolved>(value).ok());
    found.find(|resolved| made(&resolved.items) && holds_results(&resolved.items)).map(|resolved| resolved.items)
}

/// What each turn of a run said.
fn turn_texts(items: &[Arc<Item>]) -> Vec<String> {
    let mut texts = vec![String::new()];
    for item in items {
        match (&item.body, texts.last_mut()) {
            (ItemBody::ToolResult(_), Some(last)) if !last.is_empty() => texts.push(String::new()),
            (ItemBody::Message(message), Some(last)) => last.push_str(&message.text()),
            _ => {}
        }
    }
    texts.retain(|text| !text.is_empty());
    texts
}
