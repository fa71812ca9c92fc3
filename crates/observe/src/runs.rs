//! The list of runs, and what one line of it says.

use crate::error::Result;
use crate::layout;
use crate::result::Ending;
use crate::state::RunState;
use placet_core::event::RunStarted;
use placet_core::{Digest, ItemBody, Money, ProviderId, Role, RunId, Timestamp, Usage};
use placet_store::lease::LeaseState;
use placet_store::{Direction, Key, Store, Tenant, Value};
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
/// [`ObserveError`](crate::ObserveError) where the store fails or a line cannot be read.
pub async fn list_runs(
    store: &dyn Store,
    tenant: &Tenant,
    before: Option<&RunEntry>,
    limit: usize,
) -> Result<Vec<ListedRun>> {
    let beyond = before.map(|entry| entry.key(tenant));
    let cells = store.cells(&layout::entries(tenant), beyond.as_ref(), Direction::Backward, limit).await?;
    let mut runs = Vec::with_capacity(cells.len());
    for cell in cells {
        let entry: RunEntry = cell.value.from_json(FORMAT)?;
        let standing = match &entry.end {
            Some(end) => RunStanding::Ended { end: end.clone() },
            None => standing(store, tenant, &entry.run).await?,
        };
        runs.push(ListedRun { entry, standing });
    }
    Ok(runs)
}

async fn standing(store: &dyn Store, tenant: &Tenant, run: &RunId) -> Result<RunStanding> {
    let lease = LeaseState::read(store, &layout::lease(tenant, run)).await?;
    Ok(match (lease.holder, lease.until) {
        (Some(owner), Some(until)) => RunStanding::Running { owner, until },
        _ => RunStanding::Interrupted,
    })
}
