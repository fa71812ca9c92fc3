//! Batches: conditions and writes in order, applied whole or not at all.

use crate::error::{Result, StoreError};
use crate::key::{Key, LogName, MAX_KEY_BYTES, PutKey};
use crate::value::{MAX_VALUE_BYTES, ValueForm};
use placet_core::Timestamp;

/// The most conditions and writes of one batch.
pub const MAX_BATCH_OPERATIONS: usize = 1000;

/// The most bytes of keys and values of one batch.
pub const MAX_BATCH_BYTES: usize = 64 * 1024 * 1024;

/// What must hold for a batch to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The cell is there and has been written exactly `version` times.
    Version {
        /// The cell.
        key: Key,
        /// The count of its writes, from 1.
        version: u64,
    },
    /// There is no such cell.
    Absent {
        /// The cell.
        key: Key,
    },
    /// The last entry of the log has that number; 0 when nothing was ever appended.
    Head {
        /// The log.
        log: LogName,
        /// The number.
        number: u64,
    },
    /// The cell is there, its value begins with an instant, and the commit is before that instant.
    NotPassed {
        /// The cell.
        key: Key,
    },
}

impl Condition {
    /// The cell has been written exactly `version` times; 0 means that it is absent.
    #[must_use]
    pub fn version(key: Key, version: u64) -> Self {
        if version == 0 { Condition::Absent { key } } else { Condition::Version { key, version } }
    }

    /// There is no such cell.
    #[must_use]
    pub fn absent(key: Key) -> Self {
        Condition::Absent { key }
    }

    /// The last entry of the log has that number.
    #[must_use]
    pub fn head(log: LogName, number: u64) -> Self {
        Condition::Head { log, number }
    }

    /// The instant that the cell's value begins with has not passed.
    #[must_use]
    pub fn not_passed(key: Key) -> Self {
        Condition::NotPassed { key }
    }
}

/// Stands for the number of an entry that a batch appends, until the store gives it one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendRef(usize);

impl AppendRef {
    #[cfg(test)]
    pub(crate) fn nth(index: usize) -> Self {
        AppendRef(index)
    }

    // References are checked before a batch is evaluated, so there is always a number.
    pub(crate) fn of(self, numbers: &[u64]) -> u64 {
        numbers.get(self.0).copied().unwrap_or(0)
    }
}

/// Stands for the sum that an `add` of a batch comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddRef(usize);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Require(Condition),
    Append { log: LogName, value: ValueForm },
    Put { key: PutKey, value: ValueForm },
    Add { key: Key, delta: i64, ceiling: Option<i64> },
    DeleteCell(Key),
    DeletePrefix(Key),
    DeleteLog(LogName),
    Trim { log: LogName, through: u64 },
}

/// Conditions and writes, evaluated in the order in which they were added, applied whole or not at all.
///
/// A condition sees what the writes before it in the same batch did. The instant of the commit is one for the whole
/// batch: the store's clock, but never earlier than the last instant of any log that the batch appends to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub(crate) operations: Vec<Operation>,
    appends: usize,
    adds: usize,
}

impl Batch {
    /// An empty batch. Committing it gives the instant and does nothing else.
    #[must_use]
    pub fn new() -> Self {
        Batch::default()
    }

    /// Requires that `condition` holds at this place of the batch.
    pub fn require(&mut self, condition: Condition) -> &mut Self {
        self.operations.push(Operation::Require(condition));
        self
    }

    /// Appends an entry to a log; its number is one more than the last one's, the first is 1.
    ///
    /// The value may hold numbers of earlier appends of this batch and the commit's instant.
    pub fn append(&mut self, log: &LogName, value: impl Into<ValueForm>) -> AppendRef {
        self.operations.push(Operation::Append { log: log.clone(), value: value.into() });
        self.appends += 1;
        AppendRef(self.appends - 1)
    }

    /// Puts a value into a cell; counts its version up, from 1 for a new cell.
    pub fn put(&mut self, key: impl Into<PutKey>, value: impl Into<ValueForm>) -> &mut Self {
        self.operations.push(Operation::Put { key: key.into(), value: value.into() });
        self
    }

    /// Adds `delta` to a counter; an absent cell counts as 0. The batch fails when the sum is above `ceiling`, or does not
    /// fit. See [`Value::counter`](crate::Value::counter).
    pub fn add(&mut self, key: Key, delta: i64, ceiling: Option<i64>) -> AddRef {
        self.operations.push(Operation::Add { key, delta, ceiling });
        self.adds += 1;
        AddRef(self.adds - 1)
    }

    /// Deletes a cell, and forgets its version. Nothing happens when it is absent.
    pub fn delete_cell(&mut self, key: Key) -> &mut Self {
        self.operations.push(Operation::DeleteCell(key));
        self
    }

    /// Deletes every cell whose key begins with `prefix`, that of `prefix` itself included.
    ///
    /// It removes what is committed when it runs. To keep a prefix empty, change a cell that its writers' batches have a
    /// condition on.
    pub fn delete_prefix(&mut self, prefix: Key) -> &mut Self {
        self.operations.push(Operation::DeletePrefix(prefix));
        self
    }

    /// Deletes a log with all that is known of it: a later append gets the number 1.
    pub fn delete_log(&mut self, log: LogName) -> &mut Self {
        self.operations.push(Operation::DeleteLog(log));
        self
    }

    /// Removes the entries of a log up to the number `through`. The log goes on counting where it was.
    pub fn trim(&mut self, log: LogName, through: u64) -> &mut Self {
        self.operations.push(Operation::Trim { log, through });
        self
    }

    /// How many conditions and writes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there is neither a condition nor a write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The logs that the batch appends to, each as often as it does.
    pub(crate) fn appended_logs(&self) -> impl Iterator<Item = &LogName> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::Append { log, .. } => Some(log),
            _ => None,
        })
    }

    /// Whether this batch puts that key, or adds to it, by its literal form.
    pub(crate) fn puts_literally(&self, written: &Key) -> bool {
        self.operations.iter().any(|operation| match operation {
            Operation::Put { key: PutKey::Known(key), .. } | Operation::Add { key, .. } => key == written,
            _ => false,
        })
    }

    /// That key as this batch names it literally, if a condition or a write does.
    pub(crate) fn named_literally(&self, filled: &Key) -> Option<&Key> {
        let mut named = self.operations.iter().filter_map(|operation| match operation {
            Operation::Require(
                Condition::Version { key, .. } | Condition::Absent { key } | Condition::NotPassed { key },
            )
            | Operation::Put { key: PutKey::Known(key), .. }
            | Operation::Add { key, .. }
            | Operation::DeleteCell(key) => Some(key),
            Operation::Put { key: PutKey::Filled(_), .. }
            | Operation::Require(Condition::Head { .. })
            | Operation::Append { .. }
            | Operation::DeletePrefix(_)
            | Operation::DeleteLog(_)
            | Operation::Trim { .. } => None,
        });
        named.find(|key| *key == filled)
    }

    /// Checks what can be known without a store: sizes, counts, references. Gives the bytes of keys and values.
    pub(crate) fn check(&self) -> Result<usize> {
        if self.len() > MAX_BATCH_OPERATIONS {
            return Err(misuse(format!("{} operations, {MAX_BATCH_OPERATIONS} are allowed: split it", self.len())));
        }
        let mut bytes = 0;
        let mut appended = 0;
        for operation in &self.operations {
            bytes += check_operation(operation, appended)?;
            appended += usize::from(matches!(operation, Operation::Append { .. }));
        }
        if bytes > MAX_BATCH_BYTES {
            return Err(misuse(format!("{bytes} bytes, {MAX_BATCH_BYTES} are allowed: keep large values as blobs")));
        }
        Ok(bytes)
    }
}

fn misuse(problem: String) -> StoreError {
    StoreError::Misuse { problem: format!("a batch has {problem}") }
}

fn check_operation(operation: &Operation, appended: usize) -> Result<usize> {
    let key_len = |key: &Key| key.as_bytes().len();
    let (key, value) = match operation {
        Operation::Require(
            Condition::Version { key, .. } | Condition::Absent { key } | Condition::NotPassed { key },
        )
        | Operation::Add { key, .. }
        | Operation::DeleteCell(key)
        | Operation::DeletePrefix(key) => (key_len(key), None),
        Operation::Require(Condition::Head { log, .. }) | Operation::DeleteLog(log) | Operation::Trim { log, .. } => {
            (key_len(log.key()), None)
        }
        Operation::Append { log, value } => (key_len(log.key()), Some(value)),
        Operation::Put { key: PutKey::Known(key), value } => (key_len(key), Some(value)),
        Operation::Put { key: PutKey::Filled(form), value } => {
            check_references(form.references(), appended)?;
            (form.encoded_len(), Some(value))
        }
    };
    if key > MAX_KEY_BYTES {
        return Err(misuse(format!("a key of {key} bytes, {MAX_KEY_BYTES} are allowed")));
    }
    let Some(value) = value else { return Ok(key) };
    check_references(value.references(), appended)?;
    let len = value.max_len();
    if len > MAX_VALUE_BYTES {
        return Err(misuse(format!("a value of {len} bytes, {MAX_VALUE_BYTES} are allowed: keep it as a blob")));
    }
    Ok(key + len)
}

fn check_references(references: impl Iterator<Item = AppendRef>, appended: usize) -> Result<()> {
    match references.into_iter().find(|reference| reference.0 >= appended) {
        None => Ok(()),
        Some(_) => Err(misuse("a part for the number of an append that does not stand before it".to_owned())),
    }
}

/// What a committed batch came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The instant of the commit, on the store's clock.
    pub instant: Timestamp,
    /// The numbers of the appended entries, in the order of the appends.
    pub numbers: Vec<u64>,
    /// The sums of the adds, in the order of the adds.
    pub sums: Vec<i64>,
}

impl Committed {
    /// The number that an append of this batch was given; 0 for a reference of another batch.
    #[must_use]
    pub fn number(&self, append: AppendRef) -> u64 {
        append.of(&self.numbers)
    }

    /// The sum that an add of this batch came to; 0 for a reference of another batch.
    #[must_use]
    pub fn sum(&self, add: AddRef) -> i64 {
        self.sums.get(add.0).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;
    use crate::key::Tenant;
    use crate::value::Value;

    fn key() -> Key {
        Key::new(&Tenant::new("t"))
    }

    #[test]
    fn a_batch_that_no_store_could_apply_is_told_so_before() {
        let problem = |batch: &Batch| match batch.check() {
            Err(StoreError::Misuse { problem }) => problem,
            other => panic!("{other:?}"),
        };
        let log = LogName::new(key());

        let mut other = Batch::new();
        other.append(&log, Value::new(1, ""));
        let second = other.append(&log, Value::new(1, ""));
        let mut batch = Batch::new();
        batch.append(&log, Value::new(1, ""));
        batch.put(key().filled().number(second), Value::new(1, ""));
        assert!(problem(&batch).contains("does not stand before it"));

        let mut batch = Batch::new();
        batch.delete_cell(key().text("x".repeat(MAX_KEY_BYTES)));
        assert!(problem(&batch).contains("a key of 1031 bytes, 1024 are allowed"), "{}", problem(&batch));

        let mut batch = Batch::new();
        batch.put(key(), Value::new(1, vec![0; MAX_VALUE_BYTES + 1]));
        assert!(problem(&batch).contains("a value of"));

        let mut batch = Batch::new();
        for _ in 0..=MAX_BATCH_OPERATIONS {
            batch.delete_cell(key());
        }
        assert!(problem(&batch).contains("1001 operations"));
    }
}
