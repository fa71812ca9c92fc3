//! Agents and regions of a run: declaration, registration and return, acknowledgement.

use super::Control;
use super::run::put_roster;
use super::write::ATTEMPTS;
use crate::boards::Handle;
use crate::decision::Decision;
use crate::error::{BoardError, Result};
use crate::model::{Region, RegionKind};
use crate::name::{check, checked};
use crate::notify::Agent;
use crate::run::check_longest;
use crate::snapshot::Snapshot;
use crate::stored::{self, Cursors, Merged, Roster, StoredAgent, StoredRegion};
use placet_core::Timestamp;
use placet_store::{Batch, Condition, Direction, Found, Key, KeyPart, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many agents a run has at most: they stand in one list that is read at once.
const MOST_AGENTS: usize = 2_000;
/// How many regions a board has at most.
const MOST_REGIONS: usize = 2_000;
/// How often a registration finds out by itself what was there before it; on a busy board it is looked at later.
const LOOKS: usize = 3;
/// How many rows of the owed one batch settles.
pub(crate) const ROWS: usize = 400;

/// How far an agent is, and how it was declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProgress {
    /// The agent.
    pub agent: String,
    /// Through which sequence number it was told.
    pub notified_through: u64,
    /// Through which it has answered.
    pub acknowledged_through: u64,
    /// The regions that wake it; every premise where it is not said.
    pub subscribes_to: Option<BTreeSet<String>>,
    /// The levels that it may write to; every one where it is not said.
    pub writes_to: Option<BTreeSet<String>>,
    /// The premises that it may set; every one where it is not said.
    #[serde(default)]
    pub sets: Option<BTreeSet<String>>,
    /// Where it is reached from any process.
    pub address: Option<String>,
    /// Whether it asks for its notifications by itself.
    #[serde(default)]
    pub pulls: bool,
}

impl AgentProgress {
    /// Whether it was told further than it has answered.
    #[must_use]
    pub fn is_outstanding(&self) -> bool {
        self.notified_through > self.acknowledged_through
    }

    pub(crate) fn of(agent: String, cursors: Cursors, declared: Option<&StoredAgent>) -> Self {
        AgentProgress {
            agent,
            notified_through: cursors.notified,
            acknowledged_through: cursors.acknowledged,
            subscribes_to: declared.and_then(|declared| declared.subscribes_to.clone()),
            writes_to: declared.and_then(|declared| declared.writes_to.clone()),
            sets: declared.and_then(|declared| declared.sets.clone()),
            address: declared.and_then(|declared| declared.address.clone()),
            pulls: declared.is_some_and(|declared| declared.pulls),
        }
    }
}

/// Checks a declaration against the regions that there are.
pub(crate) fn check_agent(agent: &Agent, kind_of: impl Fn(&str) -> Option<RegionKind>) -> Result<Arc<str>> {
    let name = checked("agent", &agent.name)?;
    if agent.listener.is_none() && agent.address.is_none() && !agent.pulls {
        let problem = format!(
            "the agent {} has no listener, no address and does not pull, so nothing can reach it",
            crate::name::Quoted(&agent.name)
        );
        return Err(BoardError::InvalidSpec { problem });
    }
    check_regions(agent, kind_of)?;
    Ok(name)
}

pub(crate) fn check_agent_count(agents: usize) -> Result<()> {
    if agents <= MOST_AGENTS {
        return Ok(());
    }
    Err(BoardError::InvalidSpec { problem: format!("a run takes {MOST_AGENTS} agents, and these are {agents}") })
}

pub(crate) fn check_region_count(regions: usize) -> Result<()> {
    if regions <= MOST_REGIONS {
        return Ok(());
    }
    Err(BoardError::InvalidSpec { problem: format!("a board takes {MOST_REGIONS} regions, and these are {regions}") })
}

/// Checks what can be known of a region without looking at a board.
pub(crate) fn check_region(region: &Region) -> Result<()> {
    check("region", &region.name)?;
    check_longest("a batch window", region.window)
}

/// Checks the regions that a declaration names.
fn check_regions(agent: &Agent, kind_of: impl Fn(&str) -> Option<RegionKind>) -> Result<()> {
    let named = [
        (&agent.subscribes_to, None),
        (&agent.writes_to, Some(RegionKind::Level)),
        (&agent.sets, Some(RegionKind::Premise)),
    ];
    for (regions, wanted) in named {
        for region in regions.iter().flatten() {
            match (kind_of(region), wanted) {
                (None, _) => return Err(BoardError::UnknownRegion { region: region.clone() }),
                (Some(found), Some(wanted)) if found != wanted => {
                    return Err(BoardError::WrongRegionKind { region: region.clone(), found });
                }
                (Some(_), _) => {}
            }
        }
    }
    Ok(())
}

impl Control {
    /// Declares a region on the board of an open run.
    ///
    /// # Errors
    /// [`BoardError::DuplicateRegion`], [`BoardError::RunClosed`], [`BoardError::UnknownBoard`],
    /// [`BoardError::InvalidName`]; what the store says.
    pub async fn declare(&self, region: &Region) -> Result<()> {
        self.0.declare(region, true).await
    }

    /// Registers an agent with the open run and wakes it: it is told once of all that it subscribes to and that holds
    /// something, unless it has answered everything. An agent of that name that comes back replaces its declaration and keeps
    /// its place; what it had not been told yet is part of what it is told now.
    ///
    /// # Errors
    /// [`BoardError::UnknownRegion`] and [`BoardError::WrongRegionKind`] for regions that it names, [`BoardError::InvalidSpec`]
    /// where nothing can reach it; [`BoardError::RunClosed`], [`BoardError::UnknownBoard`]; what the store says.
    pub async fn register(&self, agent: Agent) -> Result<()> {
        let handle = &self.0;
        for attempt in 0..ATTEMPTS {
            let snapshot = self.open_run().await?;
            let name = check_agent(&agent, |region| snapshot.regions.get(region).map(|known| known.kind))?;
            self.check_address(&agent)?;
            let returning = snapshot.agent(&name).is_some();
            let declared = StoredAgent::of(name.clone(), &agent);
            let layout = handle.layout();
            let key = layout.agent(&name);
            let held = handle.store().cell(&key).await?;
            let cursors = held.as_ref().map(|cell| Cursors::read(&cell.value)).transpose()?.unwrap_or_default();
            let head = handle.store().log_head(&layout.log).await?.number;
            let misses = head > cursors.acknowledged
                && handle.holding(&declared, &snapshot, Timestamp::EPOCH).await?.0.is_some();
            let roster = with_agent(&snapshot, declared)?;
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(layout)).require(snapshot.same_roster(layout));
            batch.require(Condition::not_passed(layout.run.clone()));
            put_roster(layout, &mut batch, &roster)?;
            if held.is_none() {
                batch.require(Condition::absent(key.clone())).put(key, Cursors::default().value());
            }
            // From this commit on every write owes it a word. Of what was there before it is owed this one; or none, if there
            // was nothing, and nothing has come since that was looked at. On a busy board it is looked at later.
            batch.put(layout.sent(&name), stored::sent(head));
            if attempt < LOOKS {
                batch.require(Condition::head(layout.log.clone(), head));
            }
            let merged = layout.merged(&name);
            if attempt >= LOOKS {
                batch.put(merged, Merged::registration(Merged::OPEN));
            } else if misses {
                batch.put(merged, Merged::registration(head));
            } else {
                batch.delete_cell(merged);
            }
            let decision = Decision::AgentRegistered { agent: name.to_string(), returning };
            handle.decide(&mut batch, decision.value()?);
            self.listen(&name, &agent);
            handle.state.dispatching.forget(&name);
            match handle.store().commit(batch).await {
                Ok(committed) => {
                    handle.decided(&committed);
                    let snapshot = handle.fresh().await?;
                    handle.tell(&snapshot).await;
                    return Ok(());
                }
                Err(StoreError::Condition { .. }) => {
                    handle.expire().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(handle.busy())
    }

    /// Checks an address with what would carry notifications there from this process.
    pub(crate) fn check_address(&self, agent: &Agent) -> Result<()> {
        let (Some(address), Some(transport)) = (&agent.address, &self.0.inner.options.transport) else { return Ok(()) };
        transport.check(address).map_err(|reason| {
            let problem = format!("the agent {} cannot be called: {reason}", crate::name::Quoted(&agent.name));
            BoardError::InvalidSpec { problem }
        })
    }

    fn listen(&self, name: &str, agent: &Agent) {
        let mut local = self.0.state.local();
        match &agent.listener {
            Some(listener) => local.listeners.insert(name.to_owned(), listener.clone()),
            None => local.listeners.remove(name),
        };
    }

    /// What is stored of a board whose run is open.
    pub(crate) async fn open_run(&self) -> Result<Arc<Snapshot>> {
        let snapshot = self.0.fresh().await?;
        if snapshot.run.is_none() {
            Err(self.0.unknown_board())
        } else if snapshot.is_closed() {
            Err(BoardError::RunClosed)
        } else {
            Ok(snapshot)
        }
    }

    /// The agents of the run and how far each is, ordered by name.
    ///
    /// # Errors
    /// What the store says.
    pub async fn agents(&self) -> Result<Vec<AgentProgress>> {
        self.0.agents().await
    }

    /// Says that an agent has finished with a notification, and with all that ended at or before its end. What it finished
    /// with before changes nothing; after the end of the run nothing does.
    ///
    /// # Errors
    /// [`BoardError::UnknownNotification`] where the agent was never told that far, [`BoardError::UnknownBoard`] where there
    /// never was a run; what the store says.
    pub async fn ack(&self, agent: &str, notification_id: u64) -> Result<()> {
        let handle = &self.0;
        let layout = handle.layout();
        let key = layout.agent(agent);
        let mut snapshot = handle.snapshot().await?;
        for _ in 0..ATTEMPTS {
            let cell = handle.store().cell(&key).await?;
            let cursors = cell.as_ref().map(|cell| Cursors::read(&cell.value)).transpose()?;
            let (version, cursors) = match (cell, cursors) {
                (Some(cell), Some(cursors)) if notification_id <= cursors.notified => (cell.version, cursors),
                _ => {
                    let snapshot = handle.fresh().await?;
                    return match &snapshot.run {
                        None => Err(handle.unknown_board()),
                        Some(_) if snapshot.is_closed() => Ok(()),
                        Some(_) => Err(unknown_notification(agent, notification_id)),
                    };
                }
            };
            if notification_id <= cursors.acknowledged {
                return Ok(());
            }
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(layout)).require(Condition::version(key.clone(), version));
            batch.put(key.clone(), Cursors { acknowledged: notification_id, ..cursors }.value());
            handle.push_idle(&mut batch, &snapshot);
            // What is owed beyond that stays: an agent that came back may answer what its former self was told.
            let merged = handle.store().cell(&layout.merged(agent)).await?;
            if let Some(cell) = merged {
                let mut merged = Merged::read(&cell.value)?;
                if merged.through == Merged::OPEN {
                    // What was written before that registration came about may be more than was told until now.
                    merged.through = handle.store().log_head(&layout.log).await?.number;
                    let as_it_was = Condition::version(cell.key.clone(), cell.version);
                    batch.require(as_it_was).put(cell.key, merged.value());
                } else if merged.through <= notification_id {
                    batch.require(Condition::version(cell.key.clone(), cell.version)).delete_cell(cell.key);
                }
            }
            let pulls = snapshot.agent(agent).is_some_and(|declared| declared.pulls);
            if pulls {
                // What it answers it was given.
                let sent = handle.store().cell(&layout.sent(agent)).await?;
                let before = sent.map_or(Ok(0), |cell| stored::sent_through(&cell.value))?;
                batch.put(layout.sent(agent), stored::sent(before.max(notification_id)));
            }
            let decision = Decision::NotificationAcknowledged { agent: agent.to_owned(), through: notification_id };
            handle.decide(&mut batch, decision.value()?);
            match handle.store().commit(batch).await {
                Ok(committed) => {
                    handle.decided(&committed);
                    if pulls {
                        // Nobody else settles what it was owed.
                        handle.collect(ROWS).await?;
                    }
                    return Ok(());
                }
                Err(StoreError::Condition { index: 0, found: Found::Cell(_), .. }) => {
                    snapshot = handle.fresh().await?;
                }
                Err(StoreError::Condition { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(handle.busy())
    }
}

pub(crate) fn unknown_notification(agent: &str, id: u64) -> BoardError {
    BoardError::UnknownNotification { agent: agent.to_owned(), id }
}

/// The roster with that agent declared anew.
pub(crate) fn with_agent(snapshot: &Snapshot, agent: StoredAgent) -> Result<Roster> {
    let mut roster = snapshot.roster.clone();
    match roster.agents.iter_mut().find(|held| held.name == agent.name) {
        Some(held) => *held = agent,
        None => roster.agents.push(agent),
    }
    check_agent_count(roster.agents.len())?;
    Ok(roster)
}

impl Handle {
    /// Declares a region; under control only while a run is open.
    pub(crate) async fn declare(&self, region: &Region, under_control: bool) -> Result<()> {
        check_region(region)?;
        for _ in 0..ATTEMPTS {
            let snapshot = self.fresh().await?;
            if under_control && snapshot.run.is_none() {
                return Err(self.unknown_board());
            }
            if under_control && snapshot.is_closed() {
                return Err(BoardError::RunClosed);
            }
            if snapshot.regions.contains_key(&region.name) {
                return Err(BoardError::DuplicateRegion { region: region.name.to_string() });
            }
            let mut roster = snapshot.roster.clone();
            roster.regions.push(StoredRegion::of(region));
            check_region_count(roster.regions.len())?;
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(self.layout())).require(snapshot.same_roster(self.layout()));
            put_roster(self.layout(), &mut batch, &roster)?;
            let (name, region_kind) = (region.name.to_string(), region.kind);
            self.decide(&mut batch, Decision::RegionDeclared { region: name, region_kind }.value()?);
            match self.store().commit(batch).await {
                Ok(committed) => {
                    self.decided(&committed);
                    self.fresh().await?;
                    return Ok(());
                }
                Err(StoreError::Condition { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.busy())
    }

    pub(crate) async fn agents(&self) -> Result<Vec<AgentProgress>> {
        let snapshot = self.fresh().await?;
        let progress = |(agent, progress): (String, Progress)| {
            let declared = snapshot.agent(&agent);
            AgentProgress::of(agent, progress.cursors, declared)
        };
        let known = self.progress().await?.into_iter().filter(|(_, progress)| progress.version > 0);
        Ok(known.map(progress).collect())
    }

    /// How far each agent is, by name.
    pub(crate) async fn progress(&self) -> Result<BTreeMap<String, Progress>> {
        let mut found: BTreeMap<String, Progress> = BTreeMap::new();
        let mut beyond: Option<Key> = None;
        loop {
            let page = placet_store::MAX_READ;
            let cells = self.store().cells(&self.layout().agents, beyond.as_ref(), Direction::Forward, page).await?;
            for cell in &cells {
                // Tenant aside: `board`, the board, `agent`, the agent and, in one of its two cells, `sent`.
                let mut parts = cell.key.parts()?.into_iter().skip(3);
                let Some(KeyPart::Text(agent)) = parts.next() else { continue };
                if parts.next().is_some() {
                    found.entry(agent).or_default().sent = stored::sent_through(&cell.value)?;
                } else {
                    let agent = found.entry(agent).or_default();
                    (agent.version, agent.cursors) = (cell.version, Cursors::read(&cell.value)?);
                }
            }
            if cells.len() < page {
                return Ok(found);
            }
            beyond = cells.last().map(|cell| cell.key.clone());
        }
    }
}

/// How far an agent is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// How often the cell of its cursors was written.
    pub(crate) version: u64,
    pub(crate) cursors: Cursors,
    /// Through which number it was told for sure.
    pub(crate) sent: u64,
}

impl Progress {
    /// Through which number it is owed nothing: it was told, or has answered.
    pub(crate) fn served(&self) -> u64 {
        self.sent.max(self.cursors.acknowledged)
    }
}
