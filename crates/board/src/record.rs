//! The record of a board without its control: what a store of boards can do, for those that bring a control of their own, and for
//! moving boards about. Nothing is admitted here and nobody is told.

use crate::boards::Handle;
use crate::content::Content;
use crate::control::AgentProgress;
use crate::control::Control;
use crate::control::agents::with_agent;
use crate::control::run::put_roster;
use crate::control::write::{ATTEMPTS, Check, Draft, Writing, repeated};
use crate::error::{BoardError, Result};
use crate::model::{Region, RegionKind};
use crate::name::{BoardId, checked};
use crate::notify::Agent;
use crate::reader::Reader;
use crate::request::{Conflict, WriteResult, Written};
use crate::run::{Limits, Outcome, RunRecord};
use crate::stored::{self, Cursors, RunState, StoredAgent};
use placet_core::Timestamp;
use placet_store::due::When;
use placet_store::{Batch, Condition, Found, StoreError, Value};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// What a deletion removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deleted {
    /// The board.
    pub board_id: BoardId,
    /// How many regions it had.
    pub regions_removed: u64,
    /// How many writes it had.
    pub writes_removed: u64,
}

/// The record of one board. A handle, as [`Control`] is one.
#[derive(Clone)]
pub struct Record(Handle);

/// That instant plus so many microseconds, which may be negative.
fn plus(instant: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(instant.as_micros().saturating_add(micros))
}

impl Record {
    pub(crate) fn new(handle: Handle) -> Self {
        Record(handle)
    }

    /// The record, to be read.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(self.0.clone())
    }

    /// Declares a region.
    ///
    /// # Errors
    /// [`BoardError::DuplicateRegion`], [`BoardError::InvalidName`]; what the store says.
    pub async fn declare(&self, region: &Region) -> Result<()> {
        self.0.declare(region, false).await
    }

    /// Appends to a level, owing a word to the agents that are named.
    ///
    /// # Errors
    /// [`BoardError::UnknownRegion`], [`BoardError::WrongRegionKind`], [`BoardError::KeyReused`], [`BoardError::TooLarge`]; what
    /// the store says.
    pub async fn append(
        &self,
        level: &str,
        content: &Content,
        key: Option<&str>,
        writer: Option<&str>,
        notify: &[String],
    ) -> Result<WriteResult> {
        let draft = Draft { kind: RegionKind::Level, region: level, content, writer, key, expected: 0 };
        self.put(&draft, notify).await
    }

    /// Sets a premise that is at the expected version, owing a word to the agents that are named.
    ///
    /// # Errors
    /// As [`Record::append`]. A conflict is no error.
    pub async fn set(
        &self,
        premise: &str,
        value: &Content,
        expected: u64,
        key: Option<&str>,
        writer: Option<&str>,
        notify: &[String],
    ) -> Result<WriteResult> {
        let draft = Draft { kind: RegionKind::Premise, region: premise, content: value, writer, key, expected };
        self.put(&draft, notify).await
    }

    async fn put(&self, draft: &Draft<'_>, notify: &[String]) -> Result<WriteResult> {
        let layout = self.0.layout();
        self.0.check_size(draft.content)?;
        for name in notify.iter().map(String::as_str).chain(draft.writer) {
            checked("agent", name)?;
        }
        for _ in 0..ATTEMPTS {
            let snapshot = self.0.fresh().await?;
            let known = snapshot.region(draft.region, draft.kind)?;
            let mut writing = Writing::default();
            let key = draft.key.map(|key| layout.key(key));
            if let Some(key) = &key {
                writing.require(Check::Key, Condition::absent(key.clone()));
            }
            writing.require(Check::Run, snapshot.same_run(layout));
            writing.require(Check::Roster, snapshot.same_roster(layout));
            let number = writing.write(layout, draft, known, key);
            if !notify.is_empty() {
                let row = stored::owed_part(draft.region, notify.iter().map(String::as_str));
                let row = stored::owed_form(known.window, row);
                writing.batch.put(layout.owed.clone().filled().number(number), row);
            }
            let (index, found) = match self.0.store().commit(writing.batch).await {
                Ok(committed) => {
                    let version = (draft.kind == RegionKind::Premise).then(|| draft.expected + 1);
                    return Ok(WriteResult::Written(Written {
                        sequence: committed.number(number),
                        version,
                        repeated: false,
                    }));
                }
                Err(StoreError::Condition { index, found, .. }) => (index, found),
                Err(error) => return Err(error.into()),
            };
            match (writing.checks.get(index), found) {
                (Some(Check::Key), Found::Cell(Some(cell))) => return repeated(&cell.value, draft),
                (Some(Check::Version), Found::Cell(cell)) => {
                    let current_version = cell.map_or(0, |cell| cell.version);
                    return Ok(WriteResult::Conflict(Conflict { current_version }));
                }
                _ => {}
            }
        }
        Err(self.0.busy())
    }

    /// Opens a run whose deadlines are so many microseconds from now, which may be negative, whatever run there was before.
    ///
    /// # Errors
    /// What the store says.
    pub async fn open_run(&self, wall_us: i64, idle_us: i64) -> Result<()> {
        let layout = self.0.layout();
        let span = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        let state = RunState::open(Limits { wall_clock: span(wall_us), idle: span(idle_us) }, false);
        for _ in 0..ATTEMPTS {
            let snapshot = self.0.fresh().await?;
            let now = self.0.store().now().await?;
            let (wall, idle) = (plus(now, wall_us), plus(now, idle_us));
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(layout));
            batch.put(layout.run.clone(), state.at(wall)?);
            batch.put(layout.idle.clone(), Value::with_leading_instant(stored::FORMAT, idle, &[]));
            self.0.inner.due.put(&mut batch, When::At(wall.min(idle)), &layout.conf, Value::new(stored::FORMAT, ""));
            if self.commit(batch).await? {
                return Ok(());
            }
        }
        Err(self.0.busy())
    }

    /// Commits; gives whether the conditions held.
    async fn commit(&self, batch: Batch) -> Result<bool> {
        match self.0.store().commit(batch).await {
            Ok(_) => {
                self.0.fresh().await?;
                Ok(true)
            }
            Err(StoreError::Condition { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// How the run stands, if there is one.
    ///
    /// # Errors
    /// What the store says.
    pub async fn read_run(&self) -> Result<Option<RunRecord>> {
        self.reader().run().await
    }

    /// Sets the idle deadline of an open run to so many microseconds from now, which may be negative.
    ///
    /// # Errors
    /// What the store says.
    pub async fn touch_run(&self, idle_us: i64) -> Result<()> {
        let layout = self.0.layout();
        for _ in 0..ATTEMPTS {
            let snapshot = self.0.fresh().await?;
            if !snapshot.is_open() {
                return Ok(());
            }
            let idle = plus(self.0.store().now().await?, idle_us);
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(layout));
            batch.put(layout.idle.clone(), Value::with_leading_instant(stored::FORMAT, idle, &[]));
            self.0.inner.due.put(&mut batch, When::At(idle), &layout.conf, Value::new(stored::FORMAT, ""));
            if self.commit(batch).await? {
                return Ok(());
            }
        }
        Err(self.0.busy())
    }

    /// Closes an open run with that outcome, and removes its agents and what they are owed; gives whether this call did.
    ///
    /// # Errors
    /// What the store says.
    pub async fn close_run(&self, outcome: &Outcome) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            let snapshot = self.0.fresh().await?;
            if !snapshot.is_open() {
                return Ok(false);
            }
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(self.0.layout())).require(snapshot.same_roster(self.0.layout()));
            self.0.put_closed(&mut batch, &snapshot, outcome)?;
            if self.commit(batch).await? {
                return Ok(true);
            }
        }
        Err(self.0.busy())
    }

    /// Records an agent with its declaration. How far it is stays.
    ///
    /// # Errors
    /// [`BoardError::InvalidName`]; what the store says.
    pub async fn declare_agent(&self, agent: &Agent) -> Result<()> {
        let name = checked("agent", &agent.name)?;
        let layout = self.0.layout();
        for _ in 0..ATTEMPTS {
            let snapshot = self.0.fresh().await?;
            let roster = with_agent(&snapshot, StoredAgent::of(name.clone(), agent))?;
            let key = layout.agent(&name);
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(layout)).require(snapshot.same_roster(layout));
            put_roster(layout, &mut batch, &roster)?;
            if self.0.store().cell(&key).await?.is_none() {
                batch.require(Condition::absent(key.clone())).put(key, Cursors::default().value());
            }
            if self.commit(batch).await? {
                return Ok(());
            }
        }
        Err(self.0.busy())
    }

    /// Changes how far an agent is, if `change` says so; gives how far it was.
    async fn move_cursors(
        &self,
        agent: &str,
        change: impl Fn(Option<Cursors>) -> Option<Cursors>,
    ) -> Result<Option<Cursors>> {
        let key = self.0.layout().agent(agent);
        for _ in 0..ATTEMPTS {
            let snapshot = self.0.snapshot().await?;
            let cell = self.0.store().cell(&key).await?;
            let before = cell.as_ref().map(|cell| Cursors::read(&cell.value)).transpose()?;
            let Some(after) = change(before) else { return Ok(before) };
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(self.0.layout()));
            batch.require(Condition::version(key.clone(), cell.map_or(0, |cell| cell.version)));
            batch.put(key.clone(), after.value());
            if self.commit(batch).await? {
                return Ok(before);
            }
            self.0.fresh().await?;
        }
        Err(self.0.busy())
    }

    /// Records that an agent was told through a sequence number. One that is lower than what is recorded changes nothing.
    ///
    /// # Errors
    /// [`BoardError::InvalidName`]; what the store says.
    pub async fn mark_notified(&self, agent: &str, through: u64) -> Result<()> {
        checked("agent", agent)?;
        let raised = |cursors: Option<Cursors>| match cursors {
            Some(cursors) if cursors.notified >= through => None,
            cursors => Some(Cursors { notified: through, ..cursors.unwrap_or_default() }),
        };
        self.move_cursors(agent, raised).await.map(drop)
    }

    /// Records that an agent has answered through a sequence number, and gives how far it was before; nothing where it was
    /// never told that far.
    ///
    /// # Errors
    /// What the store says.
    pub async fn acknowledge(&self, agent: &str, through: u64) -> Result<Option<AgentProgress>> {
        let raised = |cursors: Option<Cursors>| match cursors {
            Some(cursors) if cursors.acknowledged < through && through <= cursors.notified => {
                Some(Cursors { acknowledged: through, ..cursors })
            }
            _ => None,
        };
        let before = self.move_cursors(agent, raised).await?.filter(|cursors| through <= cursors.notified);
        Ok(before.map(|cursors| AgentProgress::of(agent.to_owned(), cursors, None)))
    }

    /// The agents and how far each is, ordered by name.
    ///
    /// # Errors
    /// What the store says.
    pub async fn agents(&self) -> Result<Vec<AgentProgress>> {
        self.0.agents().await
    }

    /// Settles what an agent is owed up to a sequence number.
    ///
    /// # Errors
    /// What the store says.
    pub async fn mark_sent(&self, agent: &str, through: u64) -> Result<()> {
        checked("agent", agent)?;
        let progress = self.0.progress().await?;
        let before = progress.get(agent).map_or(0, |progress| progress.sent);
        let snapshot = self.0.snapshot().await?;
        let mut batch = Batch::new();
        batch.require(snapshot.same_run(self.0.layout()));
        batch.put(self.0.layout().sent(agent), stored::sent(through.max(before)));
        batch.delete_cell(self.0.layout().merged(agent));
        self.commit(batch).await?;
        self.0.collect(usize::MAX).await.map(drop)
    }

    /// Removes the board with all that belongs to it, or nothing.
    ///
    /// # Errors
    /// What the store says.
    pub async fn delete(&self) -> Result<Deleted> {
        self.0.delete().await
    }
}

impl Handle {
    async fn delete(&self) -> Result<Deleted> {
        let layout = self.layout();
        for _ in 0..ATTEMPTS {
            let snapshot = self.fresh().await?;
            let head = self.store().log_head(&layout.log).await?;
            let deleted = Deleted {
                board_id: self.state.id.clone(),
                regions_removed: snapshot.regions.len() as u64,
                writes_removed: head.number,
            };
            if !snapshot.exists() {
                return Ok(deleted);
            }
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(layout)).require(snapshot.same_roster(layout));
            batch.require(Condition::head(layout.log.clone(), head.number));
            batch.put(layout.run.clone(), RunState::deleted().at(Timestamp::EPOCH)?);
            batch.delete_cell(layout.mark.clone()).delete_cell(layout.roster.clone());
            batch.delete_prefix(layout.data.clone()).delete_prefix(layout.owed.clone());
            batch.delete_log(layout.log.clone()).delete_log(layout.decisions.clone());
            match self.store().commit(batch).await {
                Ok(_) => {
                    self.fresh().await?;
                    *self.state.local() = crate::boards::Local::default();
                    return Ok(deleted);
                }
                Err(StoreError::Condition { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.busy())
    }
}

impl Control {
    /// Removes the board with all that belongs to it: record, run, keys, decisions. Nothing of it is left, and a board of that
    /// name that is opened later begins anew.
    ///
    /// # Errors
    /// [`BoardError::UnknownBoard`]; what the store says.
    pub async fn delete(&self) -> Result<Deleted> {
        if !self.reader().exists().await? {
            return Err(BoardError::UnknownBoard { board: self.board_id().clone() });
        }
        self.0.delete().await
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Record").field(&self.0.state.id).finish()
    }
}
