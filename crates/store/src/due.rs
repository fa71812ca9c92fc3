//! An index of what is due: cells ordered by the instant at which something must happen, across all tenants.
//!
//! The index tells where to look; what is due, and whether it still is, stands with the thing itself. Whoever sweeps
//! claims an entry by the batch that does the work: it deletes the entry under the condition that it is still there.

use crate::batch::{Batch, Condition};
use crate::error::{Result, StoreError};
use crate::key::{Key, KeyPart, Tenant};
use crate::store::{Cell, Direction, Store};
use crate::value::ValueForm;
use placet_core::Timestamp;
use std::time::Duration;

/// A named index in the reserved tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueIndex {
    prefix: Key,
}

/// When something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At that instant.
    At(Timestamp),
    /// That long after the commit.
    After(Duration),
}

/// An entry of a due index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// When it is due.
    pub at: Timestamp,
    /// What is due, as it was named.
    pub item: Key,
    /// The entry itself.
    pub cell: Cell,
}

impl DueIndex {
    /// The index of that name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        DueIndex { prefix: Key::new(&Tenant::ACROSS).text("due").text(name) }
    }

    /// Adds an entry to a batch. The same item may be due at several instants.
    ///
    /// The key of the entry holds the item's, so that one may have about 900 bytes.
    pub fn put(&self, batch: &mut Batch, when: When, item: &Key, value: impl Into<ValueForm>) {
        // Always as a key that is filled in, so that nothing puts it literally.
        let form = self.prefix.clone().filled();
        let form = match when {
            When::At(instant) => form.part(&KeyPart::Instant(instant)),
            When::After(span) => form.now_plus(span),
        };
        batch.put(form.bytes(item.as_bytes()), value);
    }

    /// Adds to a batch that the entry of `item` at that instant is removed, if there is one.
    pub fn remove(&self, batch: &mut Batch, at: Timestamp, item: &Key) {
        batch.delete_cell(self.prefix.clone().instant(at).bytes(item.as_bytes()));
    }

    /// Adds to a batch that an entry is removed, and that the batch fails if somebody else removed it before.
    pub fn claim(&self, batch: &mut Batch, due: &Due) {
        batch.require(Condition::version(due.cell.key.clone(), due.cell.version)).delete_cell(due.cell.key.clone());
    }

    /// What is due at `now`, the earliest first.
    ///
    /// # Errors
    /// What the store says.
    pub async fn due(&self, store: &dyn Store, now: Timestamp, limit: usize) -> Result<Vec<Due>> {
        let cells = store.cells(&self.prefix, None, Direction::Forward, limit).await?;
        let mut due = Vec::new();
        for cell in cells {
            let entry = entry(cell)?;
            if entry.at > now {
                break;
            }
            due.push(entry);
        }
        Ok(due)
    }

    /// The earliest instant at which anything is due.
    ///
    /// # Errors
    /// What the store says.
    pub async fn next(&self, store: &dyn Store) -> Result<Option<Timestamp>> {
        let mut cells = store.cells(&self.prefix, None, Direction::Forward, 1).await?;
        cells.pop().map(|cell| Ok(entry(cell)?.at)).transpose()
    }
}

fn entry(cell: Cell) -> Result<Due> {
    let mut parts = cell.key.parts()?.into_iter().skip(2);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(KeyPart::Instant(at)), Some(KeyPart::Bytes(item)), None) => {
            Ok(Due { at, item: Key::from_bytes(item)?, cell })
        }
        _ => Err(StoreError::Corrupt { what: format!("the cell {} is no entry of a due index", cell.key) }),
    }
}
