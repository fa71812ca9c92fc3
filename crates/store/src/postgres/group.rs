//! A group of batches between what was read for it and what is written for it: no I/O, so that a batch that fails leaves
//! nothing behind, and the next one of the group sees what the ones before it come to.

use crate::batch::{Batch, Committed, Condition, Operation};
use crate::error::Result;
use crate::evaluate::{Effect, Ground, Held, Plan, evaluate};
use crate::key::{Key, LogName, PutKey};
use crate::store::LogHead;
use crate::value::Value;
use placet_core::Timestamp;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// How a batch names a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CellUse {
    pub(super) written: bool,
    /// Whether the value matters, and not only whether and how often it was written.
    pub(super) value: bool,
}

/// How a batch names a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogUse {
    pub(super) written: bool,
    pub(super) appended: bool,
}

/// Everything that a group names and that can be known before it runs: what is locked and read for it.
#[derive(Debug, Default)]
pub(super) struct Named<'b> {
    pub(super) cells: BTreeMap<&'b Key, CellUse>,
    pub(super) logs: BTreeMap<&'b LogName, LogUse>,
}

impl<'b> Named<'b> {
    pub(super) fn of(batches: impl IntoIterator<Item = &'b Batch>) -> Self {
        let mut named = Named::default();
        for operation in batches.into_iter().flat_map(|batch| &batch.operations) {
            named.add(operation);
        }
        named
    }

    fn add(&mut self, operation: &'b Operation) {
        match operation {
            Operation::Require(Condition::Head { log, .. }) => self.log(log, LogUse::default()),
            Operation::Require(
                Condition::Version { key, .. } | Condition::Absent { key } | Condition::NotPassed { key },
            ) => self.cell(key, CellUse { written: false, value: true }),
            Operation::Append { log, .. } => self.log(log, LogUse { written: true, appended: true }),
            Operation::DeleteLog(log) | Operation::Trim { log, .. } => {
                self.log(log, LogUse { written: true, appended: false });
            }
            Operation::Put { key: PutKey::Known(key), .. } | Operation::DeleteCell(key) => {
                self.cell(key, CellUse { written: true, value: false });
            }
            Operation::Add { key, .. } => self.cell(key, CellUse { written: true, value: true }),
            // Nobody knows these keys beforehand.
            Operation::Put { key: PutKey::Filled(_), .. } | Operation::DeletePrefix(_) => {}
        }
    }

    fn cell(&mut self, key: &'b Key, used: CellUse) {
        let known = self.cells.entry(key).or_default();
        known.written |= used.written;
        known.value |= used.value;
    }

    fn log(&mut self, log: &'b LogName, used: LogUse) {
        let known = self.logs.entry(log).or_default();
        known.written |= used.written;
        known.appended |= used.appended;
    }

    /// The advisory locks of the group in the order in which every process takes them, and which are exclusive.
    pub(super) fn locks(&self, schema: &str) -> (Vec<i64>, Vec<bool>) {
        let mut locks: BTreeMap<i64, bool> = BTreeMap::new();
        let cells = self.cells.iter().map(|(key, used)| (lock_of_cell(schema, key), used.written));
        let logs = self.logs.iter().map(|(log, used)| (lock_of_log(schema, log), used.written));
        for (lock, written) in cells.chain(logs) {
            *locks.entry(lock).or_default() |= written;
        }
        locks.into_iter().unzip()
    }
}

/// How many cells and logs a batch names at most: what it adds to a group's cap.
pub(super) fn names(batch: &Batch) -> usize {
    batch.operations.len()
}

fn lock_of_cell(schema: &str, key: &Key) -> i64 {
    hash(schema, b'c', key)
}

/// The lock of a log's head; its other use is to name the log in a notification.
pub(super) fn lock_of_log(schema: &str, log: &LogName) -> i64 {
    hash(schema, b'l', log.key())
}

fn hash(schema: &str, kind: u8, key: &Key) -> i64 {
    // A schema's name holds no zero byte.
    let hash = Sha256::new().chain_update(schema).chain_update([0, kind]).chain_update(key.as_bytes()).finalize();
    let mut word = [0; 8];
    word.copy_from_slice(&hash[..8]);
    i64::from_be_bytes(word)
}

/// A log as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadLog {
    /// What its entries are stored under. Fresh where the log does not exist and the group appends to it.
    pub(super) id: Option<i64>,
    pub(super) head: LogHead,
}

/// What was read for a group. Keys of absent cells map to `None`.
#[derive(Debug, Default)]
pub(super) struct Read<'b> {
    pub(super) now: Timestamp,
    pub(super) cells: HashMap<&'b Key, Option<Held>>,
    pub(super) logs: HashMap<&'b LogName, ReadLog>,
}

/// What a cell is written to by the group.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The whole cell.
    Held(Held),
    /// Written that often, to a cell that nobody read: its version counts up from what is there.
    Counted(u64, Value),
    Removed,
}

/// What is to be done to a log.
#[derive(Debug)]
pub(super) struct LogWrites {
    pub(super) id: Option<i64>,
    /// The head in the end.
    pub(super) head: LogHead,
    /// Whether all that was stored goes first.
    pub(super) removed: bool,
    /// Up to which number what was stored goes.
    pub(super) trimmed: u64,
    /// Ascending.
    pub(super) entries: Vec<(u64, Timestamp, Value)>,
}

/// A group as far as it is evaluated.
#[derive(Debug)]
pub(super) struct Group<'b> {
    read: Read<'b>,
    pub(super) cells: BTreeMap<Cow<'b, Key>, Written>,
    /// Prefixes whose stored cells go before anything else is written.
    pub(super) gone: Vec<&'b Key>,
    pub(super) logs: BTreeMap<&'b LogName, LogWrites>,
    writers: Vec<bool>,
}

impl<'b> Group<'b> {
    pub(super) fn new(read: Read<'b>) -> Self {
        Group { read, cells: BTreeMap::new(), gone: Vec::new(), logs: BTreeMap::new(), writers: Vec::new() }
    }

    /// Evaluates the next batch of the group. One that fails changes nothing.
    pub(super) fn add(&mut self, batch: &'b Batch) -> Result<Committed> {
        let plan = evaluate(batch, self.read.now, self);
        self.writers.push(plan.as_ref().is_ok_and(|plan| !plan.effects.is_empty()));
        plan.map(|plan| self.apply(plan))
    }

    /// Whether the batch that was added as the `index`th has something to write.
    pub(super) fn writes(&self, index: usize) -> bool {
        self.writers.get(index).copied().unwrap_or(false)
    }

    /// Whether there is nothing to write at all.
    pub(super) fn is_empty(&self) -> bool {
        !self.writers.contains(&true)
    }

    fn apply(&mut self, plan: Plan<'b>) -> Committed {
        let instant = plan.committed.instant;
        for effect in plan.effects {
            match effect {
                Effect::Set { key, version: Some(version), value } => {
                    self.cells.insert(key, Written::Held(Held { version, value }));
                }
                Effect::Set { key, version: None, value } => {
                    let written = match (self.cells.get(&key), self.read.cells.get(&*key)) {
                        (Some(Written::Counted(times, _)), _) => Written::Counted(times + 1, value),
                        (None, None) => Written::Counted(1, value),
                        // Another batch of the group names the key literally, so that what is there is known.
                        (Some(Written::Held(_) | Written::Removed), _) | (None, Some(_)) => {
                            let version = self.held(&key).map_or(0, |held| held.version) + 1;
                            Written::Held(Held { version, value })
                        }
                    };
                    self.cells.insert(key, written);
                }
                Effect::Remove(key) => {
                    self.cells.insert(Cow::Borrowed(key), Written::Removed);
                }
                Effect::RemovePrefix(prefix) => {
                    self.cells.retain(|key, _| !key.starts_with(prefix));
                    self.gone.push(prefix);
                }
                Effect::Append { log, number, value } => {
                    let log = self.log(log);
                    log.head.number = number;
                    log.head.at = Some(instant);
                    log.entries.push((number, instant, value));
                }
                Effect::RemoveLog(log) => {
                    let log = self.log(log);
                    log.head = LogHead::NONE;
                    log.removed = true;
                    log.entries.clear();
                }
                Effect::Trim { log, through } => {
                    let log = self.log(log);
                    log.head.first = through + 1;
                    log.trimmed = log.trimmed.max(through);
                    log.entries.retain(|(number, ..)| *number > through);
                }
            }
        }
        plan.committed
    }

    /// What a cell holds that some batch of the group names literally. All of those were read.
    fn held(&self, key: &Key) -> Option<&Held> {
        match self.cells.get(key) {
            Some(Written::Held(held)) => Some(held),
            Some(Written::Counted(..) | Written::Removed) => None,
            None if self.gone.iter().any(|prefix| key.starts_with(prefix)) => None,
            None => self.read.cells.get(key).and_then(Option::as_ref),
        }
    }

    fn log(&mut self, log: &'b LogName) -> &mut LogWrites {
        let read = self.read.logs.get(log).copied().unwrap_or(ReadLog { id: None, head: LogHead::NONE });
        self.logs.entry(log).or_insert_with(|| LogWrites {
            id: read.id,
            head: read.head,
            removed: false,
            trimmed: 0,
            entries: Vec::new(),
        })
    }
}

impl Ground for Group<'_> {
    fn cell(&mut self, key: &Key) -> Result<Option<Held>> {
        Ok(self.held(key).cloned())
    }

    fn head(&mut self, log: &LogName) -> Result<LogHead> {
        let written = self.logs.get(log).map(|log| log.head);
        Ok(written.or_else(|| self.read.logs.get(log).map(|log| log.head)).unwrap_or(LogHead::NONE))
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
