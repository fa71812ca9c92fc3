//! The handle that faces the client.

use crate::cx::Cx;
use crate::error::{FlowError, Result};
use crate::exchange::Principal;
use crate::observe::FlowHappening;
use crate::outlet::LiveMessage;
use crate::reply::Reply;
use crate::state::{Delta, LiveChat, said};
use crate::work::{Later, WorkTime};
use indexmap::IndexMap;
use placet_core::{
    Item, ItemBody, ItemId, Message, Origin, Outcome, Part, Role, RunId, SharedText, Stage, Status, ToolCall,
    ToolResult, TurnEvent, TurnRequest, Usage,
};
use placet_runtime::schedule::StoredJob;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// A barrier that agents of one exchange wait at for one another. It is made with the flow and stands in each exchange
/// anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Checkpoint(Arc<str>);

impl Checkpoint {
    /// A barrier; those of one name are the same.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Checkpoint(name.into())
    }
}

/// The client's side of one exchange, as one agent sees it. Cheap to clone.
#[derive(Clone)]
pub struct Caller(pub(crate) Arc<CallerState>);

pub(crate) struct CallerState {
    pub(crate) cx: Arc<Cx>,
    /// The place of the agent.
    pub(crate) at: String,
    /// Whether what it says may go out as it comes.
    pub(crate) live: bool,
    /// Whether nothing is said after it.
    pub(crate) last: bool,
    /// What is to be told to the client before anything that goes out as it comes.
    pub(crate) before: Vec<String>,
    pub(crate) claimed: Arc<AtomicBool>,
    /// The chat as it came in.
    pub(crate) chat: Vec<Arc<Item>>,
    pub(crate) seed: usize,
    pub(crate) group: Option<Arc<LiveChat>>,
    pub(crate) spoken: Mutex<Spoken>,
    /// Cancelled when the exchange is to be suspended.
    pub(crate) suspended: CancellationToken,
    /// Cancelled when the agent is left.
    pub(crate) cancel: CancellationToken,
    pub(crate) steps: AtomicUsize,
}

/// What an agent has said so far.
#[derive(Default)]
pub(crate) struct Spoken {
    messages: Vec<Arc<Item>>,
    calls: Vec<ToolCall>,
    answers: Vec<Arc<Item>>,
    selection: Option<String>,
    later: Vec<Later>,
    delivered: Vec<ItemId>,
    flushed: bool,
    whole: bool,
    /// What goes on behind the handler's back.
    pub(crate) open: Vec<Open>,
    /// Whether it has claimed the live answer.
    streams: bool,
}

/// A resolve that was begun.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) reply: Reply,
    /// Cancelled once it has ended, or waits for the client.
    pub(crate) settled: CancellationToken,
}

impl Spoken {
    pub(crate) fn streams(&self) -> bool {
        self.streams
    }
}

impl CallerState {
    pub(crate) fn spoken(&self) -> MutexGuard<'_, Spoken> {
        self.spoken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that was said, in the order in which it counts: answers to earlier calls, messages, new calls.
    pub(crate) fn delta(&self) -> Delta {
        let spoken = self.spoken();
        let calls = spoken.calls.iter().map(|call| self.cx.new_item(|id| Item::new(id, Origin::Model, call.clone())));
        Delta {
            items: spoken.answers.iter().chain(&spoken.messages).cloned().chain(calls).collect(),
            selection: spoken.selection.clone(),
            later: spoken.later.clone(),
            delivered: spoken.delivered.clone(),
            flushed: spoken.flushed,
            whole: spoken.whole,
        }
    }

    pub(crate) fn push(&self, item: Arc<Item>) {
        if let Some(group) = &self.group {
            group.write([item.clone()]);
        }
        self.spoken().messages.push(item);
    }

    /// Adds what a bare agent's model answered, and which of it the client was told.
    pub(crate) fn push_whole(&self, items: &[Arc<Item>], told: impl Fn(&Arc<Item>) -> bool, whole: bool) {
        if let Some(group) = &self.group {
            group.write(items.iter().cloned());
        }
        let mut spoken = self.spoken();
        spoken.delivered.extend(items.iter().filter(|item| told(item)).map(|item| item.id.clone()));
        spoken.whole = whole;
        spoken.messages.extend(items.iter().cloned());
    }

    /// Claims the live answer and tells the client what comes before it.
    pub(crate) async fn claim(&self) -> Result<bool> {
        let Some(outlet) = self.cx.outlet.as_ref().filter(|_| self.live) else { return Ok(false) };
        if self.claimed.swap(true, Ordering::SeqCst) {
            return Ok(false);
        }
        let own: Vec<Arc<Item>> = self.spoken().messages.clone();
        for text in &self.before {
            outlet.message(text).await?;
        }
        for item in &own {
            if let ItemBody::Message(message) = &item.body {
                outlet.message(&message.text()).await?;
            }
        }
        let mut spoken = self.spoken();
        spoken.flushed = true;
        spoken.delivered.extend(own.iter().map(|item| item.id.clone()));
        Ok(true)
    }
}

impl Caller {
    /// What the client sent, its system prompt first, and what earlier flows said. In a group, what all members said so far.
    #[must_use]
    pub fn messages(&self) -> Vec<Arc<Item>> {
        let state = &self.0;
        let system = state.cx.request.instructions.as_ref().map(|text| {
            let message = Message { role: Role::System, parts: vec![Part::text(text.clone())], native: None };
            state.cx.new_item(|id| Item::new(id, Origin::User, message))
        });
        let chat = state.group.as_ref().map_or_else(|| state.chat.clone(), |group| group.items());
        system.into_iter().chain(chat).collect()
    }

    /// The last of the messages.
    #[must_use]
    pub fn last(&self) -> Option<Arc<Item>> {
        self.messages().pop()
    }

    /// The text of the last thing that somebody said.
    #[must_use]
    pub fn last_text(&self) -> String {
        let messages = self.messages();
        let texts = messages.iter().rev().filter_map(|item| match &item.body {
            ItemBody::Message(message) => Some(message.text()),
            _ => None,
        });
        texts.into_iter().next().unwrap_or_default()
    }

    /// What the client asks for: model name, knobs, tools, tool choice. Nothing of it is applied by itself.
    #[must_use]
    pub fn request(&self) -> &TurnRequest {
        &self.0.cx.request
    }

    /// The results of tools that the client sent with this request, at its end.
    #[must_use]
    pub fn tool_results(&self) -> Vec<ToolResult> {
        let incoming = self.0.chat.get(..self.0.seed).unwrap_or_default();
        let ends = incoming.iter().rev().take_while(|item| match &item.body {
            ItemBody::ToolResult(_) => true,
            ItemBody::Message(message) => message.role != Role::Assistant,
            _ => false,
        });
        let mut results: Vec<ToolResult> = ends
            .filter_map(|item| match &item.body {
                ItemBody::ToolResult(result) => Some((**result).clone()),
                _ => None,
            })
            .collect();
        results.reverse();
        results
    }

    /// Who asks.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.0.cx.principal
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.0.cx.run
    }

    /// What came beside the request: headers, by lower-case name.
    #[must_use]
    pub fn metadata(&self) -> &IndexMap<String, String> {
        &self.0.cx.metadata
    }

    /// What a trigger was set off with; null for a plain request.
    #[must_use]
    pub fn payload(&self) -> &Value {
        &self.0.cx.payload
    }

    /// How many triggers set this off, one by the other: 0 for a plain request.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.0.cx.depth
    }

    /// What all models have used for this exchange so far.
    #[must_use]
    pub fn spent(&self) -> Usage {
        self.0.cx.spent()
    }

    /// Cancelled when nobody waits for the answer any more.
    #[must_use]
    pub fn cancellation(&self) -> &CancellationToken {
        &self.0.cancel
    }

    /// Says something to the client; it never goes to the model. It is delivered with the stage.
    pub fn reply(&self, text: impl Into<SharedText>) {
        let item = self.0.cx.new_item(|id| said(id, text));
        self.0.push(item);
    }

    /// The live answer of this stage: what is written goes out as it comes, and is kept as one message. Nothing where the
    /// client does not stream, where this is not the last step before an answer is delivered, where several agents or
    /// flows run at the same time, or where somebody has claimed it already.
    ///
    /// # Errors
    /// [`FlowError::Cancelled`] where nobody waits any more.
    pub async fn stream(&self) -> Result<Option<CallerStream>> {
        let state = &self.0;
        if !state.cx.stream || !state.claim().await? {
            return Ok(None);
        }
        let Some(outlet) = &state.cx.outlet else { return Ok(None) };
        let item = state.cx.new_item(|id| said(id, ""));
        let place = {
            let mut spoken = state.spoken();
            spoken.streams = true;
            spoken.delivered.push(item.id.clone());
            spoken.messages.push(item);
            spoken.messages.len() - 1
        };
        let message = outlet.begin(None).await;
        Ok(Some(CallerStream { caller: state.clone(), place, message, text: String::new() }))
    }

    /// Asks the client to run tools that it has declared. All calls of the agent leave with its last message, at the end of
    /// the answer.
    ///
    /// # Errors
    /// [`FlowError::Undeclared`] for a tool that the client did not declare in this request: nothing of the list is called.
    pub fn call(&self, calls: impl IntoIterator<Item = ToolCall>) -> Result<()> {
        let calls: Vec<ToolCall> = calls.into_iter().collect();
        let tools = &self.0.cx.request.tools;
        if let Some(call) = calls.iter().find(|call| !tools.iter().any(|tool| tool.name == call.name)) {
            return Err(FlowError::Undeclared { tool: call.name.clone() });
        }
        self.0.spoken().calls.extend(calls);
        Ok(())
    }

    /// Answers a call that an earlier flow of this exchange made, so that the client never sees it.
    pub fn answer(&self, call: &ToolCall, text: impl Into<String>) {
        let outcome = Outcome::new(Status::Completed, Stage::Execute, None, text);
        let result = ToolResult::of(call, outcome);
        let item = Arc::new(Item::new(ItemId::of_result(&call.id), Origin::Operator, result));
        if let Some(group) = &self.0.group {
            group.write([item.clone()]);
        }
        self.0.spoken().answers.push(item);
    }

    /// Says which member of the next selection is to go on. The last word counts.
    pub fn select(&self, id: impl Into<String>) {
        let id = id.into();
        self.0.cx.tell(&self.0.at, FlowHappening::Selected { id: id.clone() });
        self.0.spoken().selection = Some(id);
    }

    /// Has a flow run later, by the name that it is served by, with what was said so far and this payload. Gives the id to
    /// cancel it by. It counts once this agent has ended.
    ///
    /// # Errors
    /// [`FlowError::TooDeep`] where triggers have set off one another too often; [`FlowError::Wiring`] where there is no
    /// scheduler.
    pub fn schedule(&self, time: WorkTime, flow: impl Into<String>, payload: Value) -> Result<String> {
        let cx = &self.0.cx;
        self.scheduler()?;
        let place = self.0.steps.fetch_add(1, Ordering::SeqCst);
        // The same each time this handler is run again.
        let id =
            crate::kept::derived_run(&cx.base, &format!("{}/later", self.0.at), place).as_str().replace("run_", "job_");
        let later = Later::of_flow(cx, id.clone(), time, flow.into(), self.chat_so_far(), payload)?;
        self.0.spoken().later.push(later);
        Ok(id)
    }

    fn scheduler(&self) -> Result<&placet_runtime::schedule::Scheduler> {
        self.0.cx.scheduler.as_ref().ok_or_else(|| FlowError::Wiring {
            problems: placet_runtime::Problems(vec!["nothing can be scheduled here: there is no scheduler".to_owned()]),
        })
    }

    fn chat_so_far(&self) -> Vec<Arc<Item>> {
        let spoken = self.0.spoken().messages.clone();
        self.0.chat.iter().cloned().chain(spoken).collect()
    }

    /// What this principal has scheduled and has not come yet.
    ///
    /// # Errors
    /// What the store says.
    pub async fn scheduled(&self) -> Result<Vec<StoredJob>> {
        let (scheduler, owner) = (self.scheduler()?, self.principal().as_str());
        let (mut jobs, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = scheduler.list(after.as_deref(), 500).await?;
            after = page.last().map(|job| job.job.id.clone());
            let whole = page.len() < 500;
            jobs.extend(page.into_iter().filter(|job| job.job.owner == owner));
            if whole {
                return Ok(jobs);
            }
        }
    }

    /// Takes back what this principal has scheduled. Gives whether there was something to take back.
    ///
    /// # Errors
    /// What the store says.
    pub async fn unschedule(&self, id: &str) -> Result<bool> {
        {
            let mut spoken = self.0.spoken();
            let before = spoken.later.len();
            spoken.later.retain(|later| later.id != id);
            if spoken.later.len() < before {
                return Ok(true);
            }
        }
        let scheduler = self.scheduler()?;
        match scheduler.get(id).await? {
            Some(job) if job.job.owner == self.principal().as_str() => Ok(scheduler.cancel(id).await?),
            _ => Ok(false),
        }
    }

    /// Does something once in this exchange, however often the handler is run again: its value is kept, with the exchange,
    /// before it is given. Where the process dies in between, it is done again, so it uses `key` outside.
    ///
    /// # Errors
    /// What it fails with: that is not kept.
    pub async fn once<T, F, Fut>(&self, name: &str, act: F) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(String) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let (cx, place) = (&self.0.cx, format!("{}/once/{name}", self.0.at));
        cx.memo.note_change();
        if let Some(done) = cx.memo.get(&place)? {
            return Ok(done);
        }
        let value = act(format!("{}/{place}", cx.base)).await?;
        cx.memo.put(&place, &value).await?;
        Ok(value)
    }

    /// Says that this exchange has come to a checkpoint. Saying it again changes nothing.
    pub fn reached(&self, checkpoint: &Checkpoint) {
        self.0.cx.barrier(&checkpoint.0).cancel();
    }

    /// Waits until somebody in this exchange has come to a checkpoint.
    ///
    /// # Errors
    /// [`FlowError::Cancelled`] where nobody waits for the answer any more.
    pub async fn wait(&self, checkpoint: &Checkpoint) -> Result<()> {
        let barrier = self.0.cx.barrier(&checkpoint.0);
        tokio::select! {
            biased;
            () = barrier.cancelled() => Ok(()),
            () = self.0.cx.cancel.cancelled() => Err(FlowError::Cancelled),
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("run", &self.0.cx.run).field("at", &self.0.at).finish_non_exhaustive()
    }
}

/// The live answer of a stage. It is closed when it is dropped, and what was written is kept as one message.
#[must_use = "what is written is kept when it is closed"]
pub struct CallerStream {
    caller: Arc<CallerState>,
    place: usize,
    message: LiveMessage,
    text: String,
}

impl CallerStream {
    /// Writes a piece of the answer.
    ///
    /// # Errors
    /// [`FlowError::Cancelled`] where nobody waits any more.
    pub async fn write(&mut self, text: impl Into<String>) -> Result<()> {
        let text = text.into();
        self.pass(TurnEvent::Text(placet_core::turn::TextDelta { index: 0, text })).await
    }

    /// Writes a model's reply as it comes, its thinking too, but not its calls.
    ///
    /// # Errors
    /// What the reply ends with, and [`FlowError::Cancelled`] where nobody waits any more.
    pub async fn pipe(&mut self, reply: &Reply) -> Result<()> {
        let mut events = reply.piped_events();
        while let Some(event) = events.next().await {
            self.pass(event).await?;
        }
        reply.ended().await
    }

    async fn pass(&mut self, event: TurnEvent) -> Result<()> {
        if let TurnEvent::Text(delta) | TurnEvent::Refusal(delta) = &event {
            self.text.push_str(&delta.text);
        }
        match &self.caller.cx.outlet {
            Some(outlet) => outlet.pass(&mut self.message, event).await,
            None => Ok(()),
        }
    }

    /// Ends it.
    pub fn close(self) {}
}

impl Drop for CallerStream {
    fn drop(&mut self) {
        let text = std::mem::take(&mut self.text);
        let written = {
            let mut spoken = self.caller.spoken();
            let Some(slot) = spoken.messages.get_mut(self.place) else { return };
            *slot = Arc::new(said(slot.id.clone(), text));
            slot.clone()
        };
        if let Some(group) = &self.caller.group {
            group.write([written]);
        }
    }
}

impl fmt::Debug for CallerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerStream")
    }
}
