//! The list of runs, and what one line of it says.

use crate::error::Result;
use crate::layout;
use crate::result::Ending;
use crate::state::RunState;
use placet_core::event::RunStarted;
use placet_core::{Digest, ItemBody, Money, ProviderId, Role, RunId, Timestamp, Usage};
use placet_store::lease::LeaseState;
use placet_store::{Cell, Direction, Key, KeyPart, LogName, Store, StoreError, Tenant, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

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
    /// What is billed, which may be another amount than it costs; absent where nothing is said of billing, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billed: Option<Money>,
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
            billed: None,
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
        self.billed = state.billed();
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
        let cells = store.cells(&layout::entries(tenant), beyond.as_ref(), Direction::Backward, wanted).await;
        let (lines, whole) = match cells {
            Ok(cells) => (cells.iter().map(Line::of).collect(), cells.len() < wanted),
            // What cannot be read at all stands in the way of the others: they are gathered around it.
            Err(StoreError::Corrupt { .. }) => (around(store, tenant, beyond.as_ref()).await?, true),
            Err(error) => return Err(error.into()),
        };
        beyond = lines.last().map(|line| line.key.clone());
        for line in lines {
            let entry = match line.entry {
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
        if whole {
            break;
        }
    }
    runs.truncate(limit);
    Ok(runs)
}

/// The lines before a key, the newest first, without those that cannot be read at all.
async fn around(store: &dyn Store, tenant: &Tenant, before: Option<&Key>) -> Result<Vec<Line>> {
    let mut found = Vec::new();
    let mut lines = Lines::new(store, tenant);
    while let Some(page) = lines.next().await? {
        found.extend(page.into_iter().filter(|line| before.is_none_or(|before| line.key < *before)));
    }
    found.sort_by(|a, b| b.key.cmp(&a.key));
    Ok(found)
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

/// The lines that cannot be read.
///
/// # Errors
/// [`ObserveError::Store`](crate::ObserveError::Store) where the store fails.
pub async fn damaged_lines(store: &dyn Store, tenant: &Tenant) -> Result<Vec<DamagedLine>> {
    let mut damaged = Vec::new();
    let mut lines = Lines::new(store, tenant);
    while let Some(page) = lines.next().await? {
        damaged.extend(page.into_iter().filter_map(|line| {
            let problem = line.entry.err()?.to_string();
            Some(DamagedLine { run: line.run, key: line.key.to_string(), problem })
        }));
    }
    if let Some(problem) = lines.problem {
        damaged.push(DamagedLine { run: None, key: "unknown".to_owned(), problem });
    }
    Ok(damaged)
}

/// The runs that have a journal and no line in the list, as far as it can be read.
///
/// # Errors
/// [`ObserveError::Store`](crate::ObserveError::Store) where the store fails.
pub async fn unlisted_runs(store: &dyn Store, tenant: &Tenant) -> Result<Vec<String>> {
    let mut names = BTreeSet::new();
    let mut beyond: Option<LogName> = None;
    loop {
        let logs = store.logs(&layout::journals(tenant), beyond.as_ref(), PAGE).await?;
        let whole = logs.len() < PAGE;
        names.extend(logs.iter().filter_map(|(log, _)| match log.key().parts().ok()?.pop() {
            Some(KeyPart::Text(run)) => Some(run),
            _ => None,
        }));
        beyond = logs.into_iter().next_back().map(|(log, _)| log);
        if whole {
            break;
        }
    }
    let mut lines = Lines::new(store, tenant);
    while let Some(page) = lines.next().await? {
        page.iter().filter_map(|line| line.run.as_ref()).for_each(|run| {
            names.remove(run);
        });
    }
    Ok(names.into_iter().collect())
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

/// How many lines are read at once.
const PAGE: usize = 500;

/// The lines of the list, page by page, the oldest first. Around one that the store cannot give at all, those that follow it
/// come last, the newest of them first; what stands between two such lines is not found.
pub(crate) struct Lines<'s> {
    store: &'s dyn Store,
    entries: Key,
    direction: Direction,
    beyond: Option<Key>,
    /// How far it has come from the beginning, once it goes backward.
    reached: Option<Key>,
    step: usize,
    over: bool,
    /// What the store said of the line that it could not give.
    pub(crate) problem: Option<String>,
}

impl<'s> Lines<'s> {
    pub(crate) fn new(store: &'s dyn Store, tenant: &Tenant) -> Self {
        Lines {
            store,
            entries: layout::entries(tenant),
            direction: Direction::Forward,
            beyond: None,
            reached: None,
            step: PAGE,
            over: false,
            problem: None,
        }
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Line>>> {
        while !self.over {
            match self.store.cells(&self.entries, self.beyond.as_ref(), self.direction, self.step).await {
                Ok(mut cells) => {
                    self.over = cells.len() < self.step;
                    if let Some(last) = cells.last() {
                        self.beyond = Some(last.key.clone());
                    }
                    if self.direction == Direction::Backward
                        && let Some(reached) = &self.reached
                    {
                        let found = cells.len();
                        cells.retain(|cell| cell.key > *reached);
                        self.over |= cells.len() < found;
                    }
                    return Ok(Some(cells.iter().map(Line::of).collect()));
                }
                Err(StoreError::Corrupt { .. }) if self.step > 1 => self.step = 1,
                Err(StoreError::Corrupt { what }) if self.direction == Direction::Forward => {
                    self.problem = Some(what);
                    self.direction = Direction::Backward;
                    self.reached = self.beyond.take();
                    self.step = PAGE;
                }
                Err(StoreError::Corrupt { .. }) => self.over = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

/// The line of one run. Where its start is not known, or the line is not where that says, the whole list is looked through.
pub(crate) async fn line_of(
    store: &dyn Store,
    tenant: &Tenant,
    run: &RunId,
    started: Option<Timestamp>,
) -> Result<Option<Line>> {
    if let Some(started) = started {
        let key = layout::entry(tenant, started, run);
        match store.cell(&key).await {
            Ok(Some(cell)) => return Ok(Some(Line::of(&cell))),
            Ok(None) => {}
            Err(error @ StoreError::Corrupt { .. }) => {
                return Ok(Some(Line { key, run: Some(run.as_str().to_owned()), entry: Err(error) }));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut lines = Lines::new(store, tenant);
    while let Some(page) = lines.next().await? {
        if let Some(line) = page.into_iter().find(|line| line.run.as_deref() == Some(run.as_str())) {
            return Ok(Some(line));
        }
    }
    Ok(None)
}

async fn standing(store: &dyn Store, tenant: &Tenant, run: &RunId) -> Result<RunStanding> {
    let lease = LeaseState::read(store, &layout::lease(tenant, run)).await?;
    Ok(match (lease.holder, lease.until) {
        (Some(owner), Some(until)) => RunStanding::Running { owner, until },
        _ => RunStanding::Interrupted,
    })
}
