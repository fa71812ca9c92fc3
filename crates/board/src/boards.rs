//! The boards of a store, as one process serves them.

use crate::control::Control;
use crate::dispatch::Dispatching;
use crate::error::{BoardError, Result};
use crate::layout::{self, Layout};
use crate::model::{Region, RegionKind};
use crate::name::BoardId;
use crate::notify::{Listener, Transport};
use crate::reader::Reader;
use crate::record::Record;
use crate::rules::{AdmissionRule, TerminationPredicate, Webhooks};
use crate::run::{Outcome, RunRecord};
use crate::snapshot::Snapshot;
use placet_core::{Env, Timestamp};
use placet_store::due::DueIndex;
use placet_store::{Direction, Key, SharedStore, Store, Tenant};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// How many boards a process remembers at most, but for those that it has something of its own for.
const REMEMBERED: usize = 10_000;

/// When agents are told of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// In the background, soon. Writes that come faster than they can be told of are told of together.
    #[default]
    Background,
    /// Before the write answers.
    Inline,
}

/// How a process serves boards.
#[derive(Clone)]
#[non_exhaustive]
pub struct BoardsOptions {
    /// When agents are told of a write. In the background unless set.
    pub delivery: Delivery,
    /// What carries notifications to addresses. Without one, an agent that has only an address waits for a process that has.
    pub transport: Option<Arc<dyn Transport>>,
    /// What asks rules behind a URL. Without it, such a rule is an error for whoever writes.
    pub webhooks: Option<Arc<dyn Webhooks>>,
    /// How many decisions of a board are kept: 10,000.
    pub decisions: u64,
    /// The largest content, in bytes: 4 MiB.
    pub content: usize,
}

impl Default for BoardsOptions {
    fn default() -> Self {
        BoardsOptions {
            delivery: Delivery::default(),
            transport: None,
            webhooks: None,
            decisions: 10_000,
            content: 4 * 1024 * 1024,
        }
    }
}

impl fmt::Debug for BoardsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoardsOptions")
            .field("delivery", &self.delivery)
            .field("decisions", &self.decisions)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

macro_rules! set {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $to:expr;)*) => {
        impl BoardsOptions {
            $($(#[$doc])* #[must_use] pub fn $name(mut self, $name: $kind) -> Self { self.$name = $to; self })*
        }
    };
}
set! {
    /// When agents are told of a write.
    delivery: Delivery => delivery;
    /// What carries notifications to addresses.
    transport: Arc<dyn Transport> => Some(transport);
    /// What asks rules behind a URL.
    webhooks: Arc<dyn Webhooks> => Some(webhooks);
    /// How many decisions of a board are kept.
    decisions: u64 => decisions.max(1);
    /// The largest content, in bytes.
    content: usize => content.min(placet_store::MAX_VALUE_BYTES - 4096);
}

/// The boards of one tenant in a store, as this process serves them. Cheap to clone.
///
/// What a process alone has (listeners, rules that are code, a transport) is kept here, by board; everything else is in the store.
#[derive(Clone)]
pub struct Boards {
    pub(crate) inner: Arc<Inner>,
    tenant: Tenant,
}

pub(crate) struct Inner {
    pub(crate) store: SharedStore,
    pub(crate) env: Env,
    pub(crate) options: BoardsOptions,
    pub(crate) due: DueIndex,
    states: Mutex<HashMap<(Tenant, BoardId), Arc<State>>>,
}

/// What this process has and knows of one board.
pub(crate) struct State {
    pub(crate) tenant: Tenant,
    pub(crate) id: BoardId,
    pub(crate) layout: Layout,
    pub(crate) snapshot: RwLock<Option<Arc<Snapshot>>>,
    pub(crate) local: Mutex<Local>,
    pub(crate) dispatching: Dispatching,
    /// The number of the last decision that this process knows of.
    pub(crate) decided: AtomicU64,
    /// Through which number decisions were dropped.
    pub(crate) dropped: AtomicU64,
}

/// What only this process has.
#[derive(Default)]
pub(crate) struct Local {
    pub(crate) listeners: HashMap<String, Arc<dyn Listener>>,
    pub(crate) admission: Option<Arc<dyn AdmissionRule>>,
    pub(crate) termination: Option<Arc<dyn TerminationPredicate>>,
    pub(crate) on_closed: Option<OnClosed>,
}

/// Hears how a run closed.
pub(crate) type OnClosed = Arc<dyn Fn(&Outcome) + Send + Sync>;

impl Local {
    fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.admission.is_none() && self.termination.is_none() && self.on_closed.is_none()
    }
}

impl State {
    fn new(tenant: Tenant, id: BoardId) -> Self {
        State {
            layout: Layout::new(&tenant, &id),
            tenant,
            id,
            snapshot: RwLock::default(),
            local: Mutex::default(),
            dispatching: Dispatching::default(),
            decided: AtomicU64::default(),
            dropped: AtomicU64::default(),
        }
    }

    pub(crate) fn local(&self) -> MutexGuard<'_, Local> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One board of one process: what control, reader and record are made of.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) inner: Arc<Inner>,
    pub(crate) state: Arc<State>,
}

impl Handle {
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.inner.store
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.state.layout
    }

    /// What is known, or else read.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        self.fresh().await
    }

    pub(crate) fn known(&self) -> Option<Arc<Snapshot>> {
        self.state.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads what is stored now.
    pub(crate) async fn fresh(&self) -> Result<Arc<Snapshot>> {
        let read = Arc::new(Snapshot::read(self.store(), self.layout()).await?);
        self.learn(&read);
        Ok(read)
    }

    pub(crate) fn learn(&self, read: &Arc<Snapshot>) {
        {
            let mut known = self.state.snapshot.write().unwrap_or_else(PoisonError::into_inner);
            // Of two that read at the same time the later one stays.
            let version = |snapshot: &Snapshot| (snapshot.run_version, snapshot.mark_version);
            if known.as_ref().is_some_and(|known| version(known) > version(read)) {
                return;
            }
            *known = Some(read.clone());
        }
        if let Some(outcome) = read.run.as_ref().and_then(|run| run.outcome.as_ref()) {
            self.closed(outcome);
        }
    }

    /// The run has closed: what this process had for it is of no use any more.
    fn closed(&self, outcome: &Outcome) {
        let told = {
            let mut local = self.state.local();
            local.listeners.clear();
            local.on_closed.take()
        };
        let Some(told) = told else { return };
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| told(outcome))).is_err() {
            tracing::error!(board = %self.state.id, "what was to hear of the end of a run panicked");
        }
    }

    pub(crate) async fn run_record(&self, snapshot: &Snapshot) -> Result<Option<RunRecord>> {
        let Some(run) = &snapshot.run else { return Ok(None) };
        let idle = self.store().cell(&self.layout().idle).await?;
        let idle_deadline = idle.and_then(|cell| cell.value.leading_instant()).unwrap_or(Timestamp::EPOCH);
        Ok(Some(RunRecord {
            now: self.store().now().await?,
            idle_deadline,
            wall_deadline: snapshot.wall,
            limits: run.limits(),
            outcome: run.outcome.clone(),
        }))
    }

    pub(crate) fn unknown_board(&self) -> BoardError {
        BoardError::UnknownBoard { board: self.state.id.clone() }
    }
}

/// What is told of a board without looking at what was written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardSummary {
    /// The board.
    pub id: BoardId,
    /// Its regions, with their batch windows, ordered by name.
    pub regions: Vec<Region>,
    /// The agents of its run, in the order of their registration.
    pub agents: Vec<String>,
    /// Whether it has or had a run, and whether that is open.
    pub is_open: Option<bool>,
    /// How the run ended, if it did.
    pub outcome: Option<Outcome>,
    /// When the run ends at the latest.
    pub wall_deadline: Option<Timestamp>,
}

impl BoardSummary {
    pub(crate) fn of(id: BoardId, snapshot: &Snapshot) -> Self {
        BoardSummary {
            id,
            regions: snapshot.listed(true),
            agents: snapshot.roster.agents.iter().map(|agent| agent.name.to_string()).collect(),
            is_open: snapshot.run.as_ref().map(|_| snapshot.is_open()),
            outcome: snapshot.run.as_ref().and_then(|run| run.outcome.clone()),
            wall_deadline: snapshot.run.as_ref().map(|_| snapshot.wall),
        }
    }

    /// How many regions are of that kind.
    #[must_use]
    pub fn count(&self, kind: RegionKind) -> usize {
        self.regions.iter().filter(|region| region.kind == kind).count()
    }
}

/// That an agent is owed a word which nobody has sent yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The board.
    pub board: BoardId,
    /// The agent.
    pub agent: String,
    /// The sequence number of the write that it is owed for; 0 for what it is owed since it was registered.
    pub through: u64,
}

impl Boards {
    /// The boards of `tenant` in that store. Time is the store's; tasks and waiting are `env`'s.
    #[must_use]
    pub fn new(store: SharedStore, tenant: Tenant, env: &Env) -> Self {
        Boards::with_options(store, tenant, env, BoardsOptions::default())
    }

    /// The same with options.
    #[must_use]
    pub fn with_options(store: SharedStore, tenant: Tenant, env: &Env, options: BoardsOptions) -> Self {
        let due = DueIndex::new("board");
        let inner = Inner { store, env: env.clone(), options, due, states: Mutex::default() };
        Boards { inner: Arc::new(inner), tenant }
    }

    /// The boards of another tenant, served by the same process in the same way.
    #[must_use]
    pub fn of_tenant(&self, tenant: Tenant) -> Self {
        Boards { inner: self.inner.clone(), tenant }
    }

    /// Whose boards these are.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &SharedStore {
        &self.inner.store
    }

    /// Time, randomness, identity and tasks.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// How this process serves them.
    #[must_use]
    pub fn options(&self) -> &BoardsOptions {
        &self.inner.options
    }

    /// A handle to a board, whether there is one of that name or not. It reads nothing and changes nothing.
    #[must_use]
    pub fn control(&self, id: &BoardId) -> Control {
        Control::new(self.handle(id))
    }

    /// The record of a board, for reading.
    #[must_use]
    pub fn reader(&self, id: &BoardId) -> Reader {
        Reader::new(self.handle(id))
    }

    /// The record of a board without its control: nothing is admitted, nobody is told.
    #[must_use]
    pub fn record(&self, id: &BoardId) -> Record {
        Record::new(self.handle(id))
    }

    pub(crate) fn handle(&self, id: &BoardId) -> Handle {
        self.inner.handle(self.tenant.clone(), id.clone())
    }

    /// Boards of this tenant, ordered by name, strictly beyond one of an earlier page.
    ///
    /// # Errors
    /// What the store says.
    pub async fn list(&self, beyond: Option<&BoardId>, limit: usize) -> Result<Vec<BoardSummary>> {
        let all = layout::boards(&self.tenant);
        // Beyond all cells of the last board: nothing sorts after this part.
        let mut beyond = beyond.map(|id| end_of(&all.clone().text(id.as_str())));
        let mut found = Vec::new();
        while found.len() < limit {
            // Three cells a board; the last board of a page may be cut, and is read again.
            let page = (limit - found.len()).saturating_add(1).saturating_mul(3).min(placet_store::MAX_READ);
            let cells = self.inner.store.cells(&all, beyond.as_ref(), Direction::Forward, page).await?;
            let is_last = cells.len() < page;
            let mut boards = cells.chunk_by(|a, b| layout::board_of(&a.key) == layout::board_of(&b.key)).peekable();
            let mut went_on = false;
            while let Some(cells) = boards.next() {
                if boards.peek().is_none() && !is_last && went_on {
                    break;
                }
                let Some((tenant, id)) = cells.first().and_then(|cell| layout::board_of(&cell.key)) else { continue };
                went_on = true;
                let layout = Layout::new(&tenant, &id);
                beyond = Some(end_of(&layout.conf));
                let snapshot = Snapshot::of(&layout, cells)?;
                if snapshot.exists() && found.len() < limit {
                    found.push(BoardSummary::of(id, &snapshot));
                }
            }
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    /// What is owed to agents of this tenant and was not sent: the oldest writes first, then by board and agent.
    ///
    /// # Errors
    /// What the store says.
    pub async fn unsent(&self, limit: usize) -> Result<Vec<Unsent>> {
        let tenant = layout::all_owed().text(self.tenant.name().unwrap_or_default());
        let mut found = Vec::new();
        let mut beyond: Option<Key> = None;
        loop {
            let row = self.inner.store.cells(&tenant, beyond.as_ref(), Direction::Forward, 1).await?.pop();
            let Some((_, board, _)) = row.and_then(|cell| layout::owed_row(&cell.key)) else { return Ok(found) };
            let handle = self.handle(&board);
            for (agent, through) in handle.unsent().await? {
                found.push(Unsent { board: board.clone(), agent, through });
            }
            beyond = Some(end_of(&handle.layout().owed));
            found.sort_unstable_by(|a, b| (a.through, &a.board, &a.agent).cmp(&(b.through, &b.board, &b.agent)));
            found.truncate(limit);
        }
    }

    /// Open runs that are past a deadline, the longest overdue first, whatever their tenant. Looks and closes nothing.
    ///
    /// # Errors
    /// What the store says.
    pub async fn past_deadline(&self, limit: usize) -> Result<Vec<Control>> {
        let store = &*self.inner.store;
        let mut found: Vec<Control> = Vec::new();
        let now = store.now().await?;
        for due in self.inner.due.due(store, now, placet_store::MAX_READ).await? {
            if found.len() >= limit {
                break;
            }
            let Some((tenant, id)) = layout::board_of(&due.item) else { continue };
            let handle = self.inner.handle(tenant, id);
            let snapshot = handle.fresh().await?;
            let expired = handle.run_record(&snapshot).await?.and_then(|run| run.expired());
            let again = found.iter().any(|control| control.is_of(&handle));
            if expired.is_some() && !again {
                found.push(Control::new(handle));
            }
        }
        Ok(found)
    }
}

/// A key beyond all that begin with `prefix`.
fn end_of(prefix: &Key) -> Key {
    // No part of a board's own keys is of the last type.
    prefix.clone().bytes([0xFF])
}

impl Inner {
    pub(crate) fn handle(self: &Arc<Self>, tenant: Tenant, id: BoardId) -> Handle {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (tenant, id);
        if let Some(state) = states.get(&key) {
            return Handle { inner: self.clone(), state: state.clone() };
        }
        if states.len() >= REMEMBERED {
            states.retain(|_, state| Arc::strong_count(state) > 1 || !state.local().is_empty());
        }
        let state = Arc::new(State::new(key.0.clone(), key.1.clone()));
        states.insert(key, state.clone());
        Handle { inner: self.clone(), state }
    }
}

impl fmt::Debug for Boards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boards").field("store", &self.inner.store).field("tenant", &self.tenant).finish_non_exhaustive()
    }
}
