//! The list of runs, and what one line of it says.

use crate::error::Result;
use crate::layout;
use crate::result::Ending;
use crate::state::RunState;
use placet_core::event::RunStarted;
use placet_core::{Digest, ItemBody, Money, ProviderId, Role, RunId, Timestamp, Usage};
use placet_store::lease::LeaseState;
use placet_store::{Cell, Direction, Key, KeyPart, Store, StoreError, Tenant, Value};
use serde::{Deserialize, Serialize};

/// The format of the cells that hold lines.
pub(crate) const FORMAT: u16 = 1;

/// The most characters of a run's question that its line shows.
const TITLE: usize = 200;

/// One line of the list: written with the start of a run, and again with its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEntry {
    /// The run.
    pub run: RunId,
    /// When it was started.
    pub started: Timestamp,
    /// When it ended; absent while it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// How it ended; absent while it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Ending>,
    /// The provider that is asked.
    pub provider: ProviderId,
    /// Its model.
    pub model: String,
    /// The beginning of what the user asked last.
    pub title: String,
    /// What all turns used together, at the end.
    #[serde(default)]
    pub usage: Usage,
    /// What they cost, at the end; absent where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// How many turns were finished, at the end.
    #[serde(default)]
    pub turns: u32,
    /// How many rounds of calls were answered, at the end.
    #[serde(default)]
    pub rounds: u32,
    /// The last record, at the end: so that a journal that lost its tail shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastRecord>,
}

/// The number and the hash of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRecord {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: Digest,
}

impl RunEntry {
    /// The line of a run that begins.
    #[must_use]
    pub fn of_start(run: &RunId, at: Timestamp, started: &RunStarted) -> Self {
        RunEntry {
            run: run.clone(),
            started: at,
            ended: None,
            end: None,
            provider: started.provider.clone(),
            model: started.model.clone(),
            title: title(started),
            usage: Usage::default(),
            cost: None,
            turns: 0,
            rounds: 0,
            last: None,
        }
    }

    /// The same line once the run has ended.
    #[must_use]
    pub fn ended(mut self, at: Timestamp, state: &RunState, last: LastRecord) -> Self {
        self.ended = Some(at);
        self.end = state.ending().cloned();
        self.usage = state.usage();
        self.cost = state.cost();
        self.turns = state.turns();
        self.rounds = state.rounds();
        self.last = Some(last);
        self
    }

    /// The cell it is kept in.
    #[must_use]
    pub fn key(&self, tenant: &Tenant) -> Key {
        layout::entry(tenant, self.started, &self.run)
    }

    /// As it is kept.
    ///
    /// # Errors
    /// Only if it could not be written as JSON, which it always can.
    pub fn to_value(&self) -> Result<Value> {
        Ok(Value::json(FORMAT, self)?)
    }
}

fn title(started: &RunStarted) -> String {
    let asked = started.input.iter().rev().find_map(|item| match &item.body {
        ItemBody::Message(message) if message.role == Role::User => Some(message.text()),
        _ => None,
    });
    let line = asked.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// How a run stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunStanding {
    /// Some process owns it.
    Running {
        /// Which one.
        owner: String,
        /// Until when its lease holds, on the store's clock.
        until: Timestamp,
    },
    /// It has not ended and nobody owns it: it can be resumed.
    Interrupted,
    /// It has ended.
    Ended {
        /// How.
        end: Ending,
    },
}

/// A line of the list together with how its run stands now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedRun {
    /// The line.
    #[serde(flatten)]
    pub entry: RunEntry,
    /// How it stands.
    #[serde(flatten)]
    pub standing: RunStanding,
}

/// The runs of a tenant, the newest first. `before` is the last one of the page before.
///
/// # Errors
/// [`ObserveError`](crate::ObserveError) where the store fails or a newer program wrote a line. A line that is damaged
/// is left out, so that the others can be seen: [`damaged_lines`] and [`verify_all`](crate::verify_all) name it.
pub async fn list_runs(
    store: &dyn Store,
    tenant: &Tenant,
    before: Option<&RunEntry>,
    limit: usize,
) -> Result<Vec<ListedRun>> {
    let mut beyond = before.map(|entry| entry.key(tenant));
    let mut runs = Vec::new();
    while runs.len() < limit {
        let wanted = limit - runs.len();
        let cells = store.cells(&layout::entries(tenant), beyond.as_ref(), Direction::Backward, wanted).await?;
        for cell in &cells {
            let entry = match Line::of(cell).entry {
                Ok(entry) => entry,
                Err(StoreError::Corrupt { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let standing = match &entry.end {
                Some(end) => RunStanding::Ended { end: end.clone() },
                None => standing(store, tenant, &entry.run).await?,
            };
            runs.push(ListedRun { entry, standing });
        }
        if cells.len() < wanted {
            break;
        }
        beyond = cells.into_iter().next_back().map(|cell| cell.key);
    }
    Ok(runs)
}

/// A line of the list that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedLine {
    /// The run that its key names; absent where the key names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The key of its cell.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The lines that cannot be read, the oldest first.
///
/// # Errors
/// [`ObserveError::Store`](crate::ObserveError::Store) where the store fails.
pub async fn damaged_lines(store: &dyn Store, tenant: &Tenant) -> Result<Vec<DamagedLine>> {
    let mut damaged = Vec::new();
    let mut beyond = None;
    loop {
        let lines = lines(store, tenant, beyond.as_ref()).await?;
        let whole = lines.len() < PAGE;
        beyond = lines.last().map(|line| line.key.clone());
        damaged.extend(lines.into_iter().filter_map(|line| {
            let problem = line.entry.err()?.to_string();
            Some(DamagedLine { run: line.run, key: line.key.to_string(), problem })
        }));
        if whole {
            return Ok(damaged);
        }
    }
}

/// A cell of the list, whether or not it can be read.
pub(crate) struct Line {
    pub(crate) key: Key,
    /// The run that the key names.
    pub(crate) run: Option<String>,
    pub(crate) entry: Result<RunEntry, StoreError>,
}

impl Line {
    fn of(cell: &Cell) -> Self {
        let run = match cell.key.parts().ok().and_then(|mut parts| parts.pop()) {
            Some(KeyPart::Text(run)) => Some(run),
            _ => None,
        };
        let entry = cell.value.from_json(FORMAT).and_then(|entry: RunEntry| {
            if run.as_deref() == Some(entry.run.as_str()) {
                return Ok(entry);
            }
            Err(StoreError::Corrupt { what: format!("the line of another run ({})", entry.run) })
        });
        Line { key: cell.key.clone(), run, entry }
    }
}

/// How many lines [`lines`] reads at once; fewer are the last.
pub(crate) const PAGE: usize = 500;

/// The lines after a key, the oldest first.
pub(crate) async fn lines(store: &dyn Store, tenant: &Tenant, beyond: Option<&Key>) -> Result<Vec<Line>> {
    let cells = store.cells(&layout::entries(tenant), beyond, Direction::Forward, PAGE).await?;
    Ok(cells.iter().map(Line::of).collect())
}

/// The line of one run. Where its start is not known, or the line is not where that says, the whole list is looked through.
pub(crate) async fn line_of(
    store: &dyn Store,
    tenant: &Tenant,
    run: &RunId,
    started: Option<Timestamp>,
) -> Result<Option<Line>> {
    if let Some(started) = started
        && let Some(cell) = store.cell(&layout::entry(tenant, started, run)).await?
    {
        return Ok(Some(Line::of(&cell)));
    }
    let mut beyond = None;
    loop {
        let mut lines = lines(store, tenant, beyond.as_ref()).await?;
        if let Some(place) = lines.iter().position(|line| line.run.as_deref() == Some(run.as_str())) {
            return Ok(Some(lines.swap_remove(place)));
        }
        if lines.len() < PAGE {
            return Ok(None);
        }
        beyond = lines.pop().map(|line| line.key);
    }
}

async fn standing(store: &dyn Store, tenant: &Tenant, run: &RunId) -> Result<RunStanding> {
    let lease = LeaseState::read(store, &layout::lease(tenant, run)).await?;
    Ok(match (lease.holder, lease.until) {
        (Some(owner), Some(until)) => RunStanding::Running { owner, until },
        _ => RunStanding::Interrupted,
    })
}
