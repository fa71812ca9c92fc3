//! An outbox: what a commit owes to somebody outside, written with it, and removed once it was sent.
//!
//! Sending is at least once: whoever dies between sending and settling sends again. The order within one recipient is that
//! of the numbers.

use crate::batch::{AppendRef, Batch};
use crate::error::{Result, StoreError};
use crate::key::{Key, KeyPart, Tenant};
use crate::store::{Cell, Direction, Store};
use crate::value::ValueForm;

/// A named outbox in the reserved tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbox {
    prefix: Key,
}

/// The number that something owed has among what is owed to one recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwedNumber {
    /// The number of an entry that the same batch appends.
    Appended(AppendRef),
    /// A number that is known.
    Known(u64),
}

impl From<AppendRef> for OwedNumber {
    fn from(append: AppendRef) -> Self {
        OwedNumber::Appended(append)
    }
}

impl From<u64> for OwedNumber {
    fn from(number: u64) -> Self {
        OwedNumber::Known(number)
    }
}

/// Something that is owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owed {
    /// To whom.
    pub to: Key,
    /// Its number.
    pub number: u64,
    /// The cell that holds it, with its value.
    pub cell: Cell,
}

impl Outbox {
    /// The outbox of that name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Outbox { prefix: Key::new(&Tenant::ACROSS).text("outbox").text(name) }
    }

    /// Adds to a batch that `value` is owed to `to`. What is owed under the same number is replaced.
    pub fn owe(&self, batch: &mut Batch, to: &Key, number: impl Into<OwedNumber>, value: impl Into<ValueForm>) {
        // Always as a key that is filled in, so that nothing puts it literally.
        let form = self.recipient(to).filled();
        let form = match number.into() {
            OwedNumber::Appended(append) => form.number(append),
            OwedNumber::Known(number) => form.u64(number),
        };
        batch.put(form, value);
    }

    /// What is owed to anybody, by recipient and number, beyond the cell of an earlier page.
    ///
    /// # Errors
    /// What the store says.
    pub async fn owed(&self, store: &dyn Store, beyond: Option<&Owed>, limit: usize) -> Result<Vec<Owed>> {
        let beyond = beyond.map(|owed| &owed.cell.key);
        let cells = store.cells(&self.prefix, beyond, Direction::Forward, limit).await?;
        cells.into_iter().map(owed).collect()
    }

    /// What is owed to one recipient, by number.
    ///
    /// # Errors
    /// What the store says.
    pub async fn owed_to(&self, store: &dyn Store, to: &Key, limit: usize) -> Result<Vec<Owed>> {
        let cells = store.cells(&self.recipient(to), None, Direction::Forward, limit).await?;
        cells.into_iter().map(owed).collect()
    }

    /// Adds to a batch that one thing is no longer owed.
    pub fn settle(&self, batch: &mut Batch, owed: &Owed) {
        batch.delete_cell(owed.cell.key.clone());
    }

    /// Removes everything that is owed to `to` up to the number `through`. Gives how much that was.
    ///
    /// # Errors
    /// What the store says; what was removed before stays removed.
    pub async fn settle_through(&self, store: &dyn Store, to: &Key, through: u64) -> Result<usize> {
        const PAGE: usize = 500;
        let mut count = 0;
        loop {
            let mut batch = Batch::new();
            for owed in self.owed_to(store, to, PAGE).await? {
                if owed.number <= through {
                    self.settle(&mut batch, &owed);
                }
            }
            let settled = batch.len();
            if settled > 0 {
                store.commit(batch).await?;
            }
            count += settled;
            if settled < PAGE {
                return Ok(count);
            }
        }
    }

    /// Adds to a batch that nothing is owed to `to` any more.
    pub fn forget(&self, batch: &mut Batch, to: &Key) {
        batch.delete_prefix(self.recipient(to));
    }

    fn recipient(&self, to: &Key) -> Key {
        self.prefix.clone().bytes(to.as_bytes())
    }
}

fn owed(cell: Cell) -> Result<Owed> {
    let mut parts = cell.key.parts()?.into_iter().skip(2);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(KeyPart::Bytes(to)), Some(KeyPart::U64(number)), None) => {
            Ok(Owed { to: Key::from_bytes(to)?, number, cell })
        }
        _ => Err(StoreError::Corrupt { what: format!("the cell {} is nothing owed", cell.key) }),
    }
}
