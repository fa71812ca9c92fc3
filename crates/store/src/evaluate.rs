//! What a batch means, once for all backends: conditions and writes in order against what is stored, into the effects
//! that the backend then applies. Nothing is written here, so a batch that fails has written nothing.

use crate::batch::{Batch, Committed, Condition, Operation};
use crate::error::{Found, Result, StoreError};
use crate::key::{Key, LogName, PutKey};
use crate::store::{Cell, LogHead};
use crate::value::Value;
use placet_core::Timestamp;
use std::borrow::Cow;

/// What a cell holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) version: u64,
    pub(crate) value: Value,
}

/// What is stored, as one batch finds it.
pub(crate) trait Ground {
    /// A cell that the batch names literally.
    fn cell(&mut self, key: &Key) -> Result<Option<Held>>;
    /// The head of a log that the batch names.
    fn head(&mut self, log: &LogName) -> Result<LogHead>;
}

/// What a batch knows of a cell that it read or wrote.
#[derive(Clone, Debug)]
enum Known {
    Absent,
    Held(Held),
    /// Put under a key that was filled in: nobody looked what was there, the version counts up when it is written.
    Written,
}

/// A write as the backend applies it, in order.
#[derive(Debug)]
pub(crate) enum Effect<'b> {
    Append {
        log: &'b LogName,
        number: u64,
        value: Value,
    },
    /// The version counts up from what is stored where it is `None`.
    Set {
        key: Cow<'b, Key>,
        version: Option<u64>,
        value: Value,
    },
    Remove(&'b Key),
    RemovePrefix(&'b Key),
    RemoveLog(&'b LogName),
    Trim {
        log: &'b LogName,
        through: u64,
    },
}

/// What a batch comes to if it is applied.
#[derive(Debug)]
pub(crate) struct Plan<'b> {
    pub(crate) committed: Committed,
    pub(crate) effects: Vec<Effect<'b>>,
}

/// Evaluates a checked batch.
pub(crate) fn evaluate<'b, G: Ground>(batch: &'b Batch, now: Timestamp, ground: &mut G) -> Result<Plan<'b>> {
    let mut evaluation = Evaluation {
        ground,
        instant: now,
        numbers: Vec::new(),
        sums: Vec::new(),
        heads: Vec::new(),
        cells: Vec::with_capacity(batch.len()),
        gone: Vec::new(),
        effects: Vec::with_capacity(batch.len()),
    };
    for log in batch.appended_logs() {
        if let Some(last) = evaluation.head(log)?.at {
            evaluation.instant = evaluation.instant.max(last);
        }
    }
    let mut conditions = 0;
    for operation in &batch.operations {
        match operation {
            Operation::Require(condition) => {
                evaluation.require(conditions, condition)?;
                conditions += 1;
            }
            Operation::Append { log, value } => {
                evaluation.append(log, value.fill(&evaluation.numbers, evaluation.instant))?
            }
            Operation::Put { key, value } => evaluation.put(batch, key, value)?,
            Operation::Add { key, delta, ceiling } => evaluation.add(key, *delta, *ceiling)?,
            Operation::DeleteCell(key) => evaluation.delete_cell(key)?,
            Operation::DeletePrefix(prefix) => evaluation.delete_prefix(prefix),
            Operation::DeleteLog(log) => evaluation.delete_log(log)?,
            Operation::Trim { log, through } => evaluation.trim(log, *through)?,
        }
    }
    let Evaluation { instant, numbers, sums, effects, .. } = evaluation;
    Ok(Plan { committed: Committed { instant, numbers, sums }, effects })
}

struct Evaluation<'b, 'g, G> {
    ground: &'g mut G,
    instant: Timestamp,
    numbers: Vec<u64>,
    sums: Vec<i64>,
    // Few logs and cells are touched by one batch.
    heads: Vec<(&'b LogName, LogHead)>,
    /// In the order of their keys.
    cells: Vec<(Cow<'b, Key>, Known)>,
    gone: Vec<&'b Key>,
    effects: Vec<Effect<'b>>,
}

impl<'b, G: Ground> Evaluation<'b, '_, G> {
    fn head(&mut self, log: &'b LogName) -> Result<&mut LogHead> {
        let at = match self.heads.iter().position(|(name, _)| *name == log) {
            Some(at) => at,
            None => {
                self.heads.push((log, self.ground.head(log)?));
                self.heads.len() - 1
            }
        };
        Ok(&mut self.heads[at].1)
    }

    /// Where a cell stands among those that are known, or would stand.
    fn place(&self, key: &Key) -> std::result::Result<usize, usize> {
        self.cells.binary_search_by(|(known, _)| known.as_ref().cmp(key))
    }

    /// A cell that the batch names literally.
    fn cell(&mut self, key: &'b Key) -> Result<Option<&Held>> {
        let place = match self.place(key) {
            Ok(place) => place,
            Err(place) => {
                let held = if self.is_gone(key) { None } else { self.ground.cell(key)? };
                self.cells.insert(place, (Cow::Borrowed(key), held.map_or(Known::Absent, Known::Held)));
                place
            }
        };
        match &self.cells[place].1 {
            Known::Absent => Ok(None),
            Known::Held(held) => Ok(Some(held)),
            // A batch that names a filled-in key literally reads it first, so this is not reached.
            Known::Written => Err(filled_and_literal(key)),
        }
    }

    /// The version that a literal key gets by being written now.
    fn next_version(&mut self, key: &'b Key) -> Result<u64> {
        Ok(self.cell(key)?.map_or(0, |held| held.version) + 1)
    }

    fn is_gone(&self, key: &Key) -> bool {
        self.gone.iter().any(|prefix| key.starts_with(prefix))
    }

    fn require(&mut self, index: usize, condition: &'b Condition) -> Result<()> {
        let instant = self.instant;
        let found = match condition {
            Condition::Head { log, number } => {
                let head = *self.head(log)?;
                if head.number == *number {
                    return Ok(());
                }
                Found::Head(head)
            }
            Condition::Version { key, .. } | Condition::Absent { key } | Condition::NotPassed { key } => {
                let held = self.cell(key)?;
                let holds = match (condition, held) {
                    (Condition::Version { version, .. }, Some(held)) => held.version == *version,
                    (Condition::NotPassed { .. }, Some(held)) => {
                        held.value.leading_instant().is_some_and(|until| instant < until)
                    }
                    (Condition::Absent { .. }, None) => true,
                    (_, _) => false,
                };
                if holds {
                    return Ok(());
                }
                let cell = |held: &Held| Cell { key: key.clone(), version: held.version, value: held.value.clone() };
                Found::Cell(held.map(cell))
            }
        };
        Err(StoreError::Condition { index, found, at: instant })
    }

    fn append(&mut self, log: &'b LogName, value: Value) -> Result<()> {
        let instant = self.instant;
        let head = self.head(log)?;
        head.number += 1;
        head.at = Some(instant);
        let number = head.number;
        self.numbers.push(number);
        self.effects.push(Effect::Append { log, number, value });
        Ok(())
    }

    fn put(&mut self, batch: &'b Batch, key: &'b PutKey, value: &crate::value::ValueForm) -> Result<()> {
        let value = value.fill(&self.numbers, self.instant);
        match key {
            PutKey::Known(key) => {
                let version = self.next_version(key)?;
                self.set(Cow::Borrowed(key), Some(version), value);
            }
            PutKey::Filled(form) => {
                let key = form.fill(&self.numbers, self.instant);
                if batch.puts_literally(&key) {
                    return Err(filled_and_literal(&key));
                }
                let version = match self.place(&key).map(|place| &self.cells[place].1) {
                    Ok(Known::Absent) => Some(1),
                    Ok(Known::Held(held)) => Some(held.version + 1),
                    Ok(Known::Written) => None,
                    Err(_) if self.is_gone(&key) => Some(1),
                    Err(_) => batch.named_literally(&key).map(|literal| self.next_version(literal)).transpose()?,
                };
                self.set(Cow::Owned(key), version, value);
            }
        }
        Ok(())
    }

    fn set(&mut self, key: Cow<'b, Key>, version: Option<u64>, value: Value) {
        let known = match version {
            Some(version) => Known::Held(Held { version, value: value.clone() }),
            None => Known::Written,
        };
        self.know(key.clone(), known);
        self.effects.push(Effect::Set { key, version, value });
    }

    fn know(&mut self, key: Cow<'b, Key>, known: Known) {
        match self.place(&key) {
            Ok(place) => self.cells[place].1 = known,
            Err(place) => self.cells.insert(place, (key, known)),
        }
    }

    fn add(&mut self, key: &'b Key, delta: i64, ceiling: Option<i64>) -> Result<()> {
        let held = self.cell(key)?;
        let not_a_counter = |problem: &str| StoreError::NotACounter { key: key.clone(), problem: problem.to_owned() };
        let (version, before) = match held {
            None => (0, 0),
            Some(held) => {
                (held.version, held.value.as_counter().ok_or_else(|| not_a_counter("its value is something else"))?)
            }
        };
        let sum = before.checked_add(delta).ok_or_else(|| not_a_counter("the sum does not fit 64 bits"))?;
        if let Some(ceiling) = ceiling
            && sum > ceiling
        {
            return Err(StoreError::Ceiling { index: self.sums.len(), sum, ceiling });
        }
        self.sums.push(sum);
        self.set(Cow::Borrowed(key), Some(version + 1), Value::counter(sum));
        Ok(())
    }

    fn delete_cell(&mut self, key: &'b Key) -> Result<()> {
        if self.cell(key)?.is_some() {
            self.know(Cow::Borrowed(key), Known::Absent);
            self.effects.push(Effect::Remove(key));
        }
        Ok(())
    }

    fn delete_prefix(&mut self, prefix: &'b Key) {
        let (Ok(first) | Err(first)) = self.place(prefix);
        for (_, known) in self.cells[first..].iter_mut().take_while(|(key, _)| key.starts_with(prefix)) {
            *known = Known::Absent;
        }
        self.gone.push(prefix);
        self.effects.push(Effect::RemovePrefix(prefix));
    }

    fn delete_log(&mut self, log: &'b LogName) -> Result<()> {
        *self.head(log)? = LogHead::NONE;
        self.effects.push(Effect::RemoveLog(log));
        Ok(())
    }

    fn trim(&mut self, log: &'b LogName, through: u64) -> Result<()> {
        let head = self.head(log)?;
        let through = through.min(head.number);
        if through >= head.first {
            head.first = through + 1;
            self.effects.push(Effect::Trim { log, through });
        }
        Ok(())
    }
}

fn filled_and_literal(key: &Key) -> StoreError {
    let problem = format!("the key {key} is filled in by this batch and written literally too: put it in one way only");
    StoreError::Misuse { problem }
}
