//! The store in memory: for tests, for programs whose runs end with the process, and the measure of the other backends.

use crate::batch::{Batch, Committed};
use crate::error::Result;
use crate::evaluate::{Effect, Ground, Held, Plan, evaluate};
use crate::key::{Key, LogName, Tenant};
use crate::store::{BlobId, Cell, Direction, Entry, LogHead, MAX_READ, Store, check_blob};
use crate::value::Value;
use crate::watch::{Growth, Heads, Watch};
use async_trait::async_trait;
use bytes::Bytes;
use placet_core::{Clock, Timestamp};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store that ends with the process. A commit takes a lock for about a microsecond, starts nothing and never waits.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
    growth: Arc<Growth>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cells: BTreeMap<Key, Held>,
    logs: BTreeMap<LogName, Log>,
    blobs: HashMap<(Tenant, BlobId), Bytes>,
}

struct Log {
    first: u64,
    at: Timestamp,
    entries: VecDeque<Entry>,
}

impl Log {
    fn head(&self) -> LogHead {
        LogHead { number: self.number(), first: self.first, at: Some(self.at) }
    }

    fn number(&self) -> u64 {
        self.first - 1 + self.entries.len() as u64
    }

    // The entries have no gaps: a number is a place.
    fn place(&self, number: u64) -> usize {
        usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX)
    }
}

impl MemoryStore {
    /// An empty store whose clock is `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        MemoryStore { inner: Arc::new(Inner { clock, state: Mutex::default() }), growth: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state()
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // Batches are evaluated before they are applied, and applying does not panic: a poisoned state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl Ground for State {
    fn cell(&mut self, key: &Key) -> Result<Option<Held>> {
        Ok(self.cells.get(key).cloned())
    }

    fn head(&mut self, log: &LogName) -> Result<LogHead> {
        Ok(self.logs.get(log).map_or(LogHead::NONE, Log::head))
    }
}

impl State {
    fn apply(&mut self, plan: Plan<'_>) -> Committed {
        let instant = plan.committed.instant;
        for effect in plan.effects {
            match effect {
                Effect::Append { log, number, value } => self.append(log, Entry { number, at: instant, value }),
                Effect::Set { key, version, value } => self.set(key, version, value),
                Effect::Remove(key) => {
                    self.cells.remove(key);
                }
                Effect::RemovePrefix(prefix) => self.remove_prefix(prefix),
                Effect::RemoveLog(log) => {
                    self.logs.remove(log);
                }
                Effect::Trim { log, through } => self.trim(log, through),
            }
        }
        plan.committed
    }

    fn append(&mut self, name: &LogName, entry: Entry) {
        if let Some(log) = self.logs.get_mut(name) {
            log.at = entry.at;
            log.entries.push_back(entry);
        } else {
            let log = Log { first: entry.number, at: entry.at, entries: VecDeque::from([entry]) };
            self.logs.insert(name.clone(), log);
        }
    }

    fn set(&mut self, key: Cow<'_, Key>, version: Option<u64>, value: Value) {
        // A key of the batch's own stands there already, nearly always; one that was filled in does not.
        if let Cow::Borrowed(known) = key
            && let Some(held) = self.cells.get_mut(known)
        {
            *held = Held { version: version.unwrap_or(held.version + 1), value };
            return;
        }
        let held = self.cells.entry(key.into_owned()).or_insert(Held { version: 0, value: Value::new(Value::OWN, "") });
        *held = Held { version: version.unwrap_or(held.version + 1), value };
    }

    fn remove_prefix(&mut self, prefix: &Key) {
        let gone: Vec<Key> = under(&self.cells, prefix).map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.cells.remove(&key);
        }
    }

    fn trim(&mut self, log: &LogName, through: u64) {
        if let Some(log) = self.logs.get_mut(log) {
            let count = log.place(through.saturating_add(1)).min(log.entries.len());
            log.entries.drain(..count);
            log.first += count as u64;
        }
    }
}

fn under<'a>(cells: &'a BTreeMap<Key, Held>, prefix: &'a Key) -> impl Iterator<Item = (&'a Key, &'a Held)> {
    cells.range(prefix..).take_while(move |(key, _)| key.starts_with(prefix))
}

fn page<'a>(cells: impl Iterator<Item = (&'a Key, &'a Held)>, limit: usize) -> Vec<Cell> {
    let cell = |(key, held): (&Key, &Held)| Cell { key: key.clone(), version: held.version, value: held.value.clone() };
    cells.take(limit.min(MAX_READ)).map(cell).collect()
}

#[async_trait]
impl Heads for Inner {
    async fn head(&self, log: &LogName) -> Result<LogHead> {
        self.state().head(log)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn now(&self) -> Result<Timestamp> {
        Ok(self.inner.clock.now())
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        batch.check()?;
        let committed = {
            let mut state = self.state();
            let plan = evaluate(&batch, self.inner.clock.now(), &mut *state)?;
            state.apply(plan)
        };
        self.growth.announce(batch.appended_logs());
        Ok(committed)
    }

    async fn cell(&self, key: &Key) -> Result<Option<Cell>> {
        let held = self.state().cells.get(key).cloned();
        Ok(held.map(|held| Cell { key: key.clone(), version: held.version, value: held.value }))
    }

    async fn cells(&self, prefix: &Key, beyond: Option<&Key>, direction: Direction, limit: usize) -> Result<Vec<Cell>> {
        let state = self.state();
        match direction {
            Direction::Forward => {
                let from = match beyond {
                    Some(key) if key >= prefix => Bound::Excluded(key),
                    _ => Bound::Included(prefix),
                };
                let cells = state.cells.range((from, Bound::Unbounded));
                Ok(page(cells.take_while(|(key, _)| key.starts_with(prefix)), limit))
            }
            Direction::Backward => {
                let end = Key::stored(prefix.end_of_prefix());
                let to = beyond.map_or(&end, |key| key.min(&end));
                if to <= prefix {
                    return Ok(Vec::new());
                }
                Ok(page(state.cells.range(prefix..to).rev(), limit))
            }
        }
    }

    async fn log(&self, log: &LogName, after: u64, limit: usize) -> Result<Vec<Entry>> {
        let state = self.state();
        let Some(log) = state.logs.get(log) else { return Ok(Vec::new()) };
        let start = log.place(after.saturating_add(1));
        Ok(log.entries.iter().skip(start).take(limit.min(MAX_READ)).cloned().collect())
    }

    async fn log_backward(&self, log: &LogName, before: Option<u64>, limit: usize) -> Result<Vec<Entry>> {
        let state = self.state();
        let Some(log) = state.logs.get(log) else { return Ok(Vec::new()) };
        let end = before.map_or(usize::MAX, |before| log.place(before)).min(log.entries.len());
        Ok(log.entries.range(..end).rev().take(limit.min(MAX_READ)).cloned().collect())
    }

    async fn log_entries(&self, log: &LogName, numbers: &[u64]) -> Result<Vec<Entry>> {
        let state = self.state();
        let Some(log) = state.logs.get(log) else { return Ok(Vec::new()) };
        let entry = |number: &u64| log.entries.get(log.place(*number)).filter(|entry| entry.number == *number);
        Ok(numbers.iter().filter_map(entry).cloned().collect())
    }

    async fn log_head(&self, log: &LogName) -> Result<LogHead> {
        self.state().head(log)
    }

    async fn logs(&self, prefix: &Key, beyond: Option<&LogName>, limit: usize) -> Result<Vec<(LogName, LogHead)>> {
        let state = self.state();
        let first = LogName::new(prefix.clone());
        let from = match beyond {
            Some(name) if *name >= first => Bound::Excluded(name),
            _ => Bound::Included(&first),
        };
        let logs = state.logs.range((from, Bound::Unbounded)).take_while(|(name, _)| name.key().starts_with(prefix));
        Ok(logs.take(limit.min(MAX_READ)).map(|(name, log)| (name.clone(), log.head())).collect())
    }

    async fn put_blob(&self, tenant: &Tenant, bytes: Bytes) -> Result<BlobId> {
        check_blob(&bytes)?;
        let id = BlobId::of(&bytes);
        self.state().blobs.insert((tenant.clone(), id), bytes);
        Ok(id)
    }

    async fn blob(&self, tenant: &Tenant, id: &BlobId) -> Result<Option<Bytes>> {
        Ok(self.state().blobs.get(&(tenant.clone(), *id)).cloned())
    }

    async fn delete_blob(&self, tenant: &Tenant, id: &BlobId) -> Result<()> {
        self.state().blobs.remove(&(tenant.clone(), *id));
        Ok(())
    }

    fn watch(&self, log: &LogName) -> Watch {
        self.growth.watch(log, self.inner.clone(), None)
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
