//! What a process knows of a board's run, regions and agents. It may be old: whatever rests on it is committed under the
//! condition that it is not.

use crate::error::{BoardError, Result};
use crate::layout::Layout;
use crate::model::{Region, RegionKind};
use crate::rules::Compiled;
use crate::stored::{Roster, RunState, Standing, StoredAgent, StoredRegion, owed_part};
use bytes::Bytes;
use placet_core::Timestamp;
use placet_store::{Cell, Condition, Direction, Key, Store, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Snapshot {
    /// How often the run cell was written; 0 where there is none.
    pub(crate) run_version: u64,
    /// The run, but for that of a deleted board.
    pub(crate) run: Option<RunState>,
    pub(crate) wall: Timestamp,
    pub(crate) mark_version: u64,
    pub(crate) roster: Roster,
    pub(crate) regions: BTreeMap<Arc<str>, Known>,
    pub(crate) rules: Option<Arc<Compiled>>,
}

/// What a write to a region needs.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) kind: RegionKind,
    pub(crate) window: Duration,
    /// The level's index, or the premise's cell.
    pub(crate) key: Key,
    /// The row of what is owed to all that hear of it.
    owed: Bytes,
    /// How the record of an admitted write begins.
    pub(crate) admitted: Bytes,
    /// Who hears of it.
    hearers: Vec<Arc<str>>,
}

impl Known {
    /// The row of what a write owes, but to its writer; nothing where nobody hears of it.
    pub(crate) fn owes(&self, region: &str, writer: Option<&str>) -> Option<Bytes> {
        let others = || self.hearers.iter().map(|name| &**name).filter(|name| Some(*name) != writer);
        match others().count() {
            0 => None,
            count if count == self.hearers.len() => Some(self.owed.clone()),
            _ => Some(owed_part(region, others())),
        }
    }
}

impl Snapshot {
    /// Reads run and roster in one look.
    pub(crate) async fn read(store: &dyn Store, layout: &Layout) -> Result<Self> {
        let cells = store.cells(&layout.conf, None, Direction::Forward, 16).await?;
        Snapshot::of(layout, &cells)
    }

    pub(crate) fn of(layout: &Layout, cells: &[Cell]) -> Result<Self> {
        let find = |key: &Key| cells.iter().find(|cell| cell.key == *key);
        let roster: Roster = match find(&layout.roster) {
            Some(cell) => cell.value.from_json(crate::stored::FORMAT)?,
            None => Roster::default(),
        };
        let (mut run_version, mut run, mut wall) = (0, None, Timestamp::EPOCH);
        if let Some(cell) = find(&layout.run) {
            let (deadline, state) = RunState::read(&cell.value)?;
            run_version = cell.version;
            wall = deadline;
            run = (state.state != Standing::Deleted).then_some(state);
        }
        let regions = roster.regions.iter().map(|region| (region.name.clone(), known(layout, &roster, region)));
        Ok(Snapshot {
            run_version,
            run,
            wall,
            mark_version: find(&layout.mark).map_or(0, |cell| cell.version),
            regions: regions.collect(),
            rules: Compiled::of(&roster.rules)?.map(Arc::new),
            roster,
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.state == Standing::Open)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.state == Standing::Closed)
    }

    /// Whether the store ever held the board, and still does.
    pub(crate) fn exists(&self) -> bool {
        self.run.is_some() || !self.regions.is_empty()
    }

    /// The idle limit of the run.
    pub(crate) fn idle(&self) -> Duration {
        self.run.as_ref().map_or(Duration::ZERO, |run| run.limits().idle)
    }

    pub(crate) fn agent(&self, name: &str) -> Option<&StoredAgent> {
        self.roster.agents.iter().find(|agent| &*agent.name == name)
    }

    /// The region, if it is of that kind.
    pub(crate) fn region(&self, name: &str, kind: RegionKind) -> Result<&Known> {
        match self.regions.get(name) {
            None => Err(BoardError::UnknownRegion { region: name.to_owned() }),
            Some(known) if known.kind != kind => {
                Err(BoardError::WrongRegionKind { region: name.to_owned(), found: known.kind })
            }
            Some(known) => Ok(known),
        }
    }

    /// Regions as they are listed: ordered by name.
    pub(crate) fn listed(&self, windows: bool) -> Vec<Region> {
        let region = |(name, known): (&Arc<str>, &Known)| Region {
            name: name.clone(),
            kind: known.kind,
            window: if windows { known.window } else { Duration::ZERO },
        };
        self.regions.iter().map(region).collect()
    }

    /// That the run is as it is here.
    pub(crate) fn same_run(&self, layout: &Layout) -> Condition {
        Condition::version(layout.run.clone(), self.run_version)
    }

    /// That regions and agents are as they are here.
    pub(crate) fn same_roster(&self, layout: &Layout) -> Condition {
        Condition::version(layout.mark.clone(), self.mark_version)
    }
}

fn known(layout: &Layout, roster: &Roster, region: &StoredRegion) -> Known {
    let hearers = roster.agents.iter().filter(|agent| agent.hears(&region.name, region.kind));
    let hearers: Vec<_> = hearers.map(|agent| agent.name.clone()).collect();
    let name = Value::json(1, &*region.name).map(|value| value.bytes).unwrap_or_default();
    let mut admitted = Vec::with_capacity(48 + name.len());
    admitted.extend_from_slice(br#"{"kind":"write_admitted","region":"#);
    admitted.extend_from_slice(&name);
    Known {
        kind: region.kind,
        window: region.window(),
        key: match region.kind {
            RegionKind::Level => layout.level(&region.name),
            RegionKind::Premise => layout.premise(&region.name),
        },
        owed: owed_part(&region.name, hearers.iter().map(|name| &**name)),
        admitted: admitted.into(),
        hearers,
    }
}
