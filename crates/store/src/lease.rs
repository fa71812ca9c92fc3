//! Leases with fencing tokens: one owner at a time, and a commit of a former owner fails.
//!
//! A lease is two cells under one key. The *owner* changes when the lease is taken or released, and its version is the
//! fencing token: a commit that carries [`Lease::fence`] is refused once anybody else took it, however late it comes. The
//! *until* cell holds the instant at which it lapses, and is all that a renewal writes. Neither is ever deleted, since a
//! version is forgotten on deletion and a token would come twice.

use crate::batch::{Batch, Condition};
use crate::error::{Result, StoreError};
use crate::key::Key;
use crate::store::{Direction, Store};
use crate::value::{Value, ValueForm};
use placet_core::Timestamp;
use std::time::Duration;

const FORMAT: u16 = 1;
const OWNER: &str = "owner";
const UNTIL: &str = "until";

/// A lease as somebody holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    key: Key,
    token: u64,
}

/// How a lease stands at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseState {
    /// Who holds it; nothing when it is free, be it that nobody took it, it was released or it has lapsed.
    pub holder: Option<String>,
    /// When it lapses or has lapsed, if it was ever taken.
    pub until: Option<Timestamp>,
    key: Key,
    owner_version: u64,
    until_version: u64,
}

impl LeaseState {
    /// The lease under a key that was made up just now, without a look: nobody ever took it. If somebody did after all, the
    /// batch that takes it fails.
    #[must_use]
    pub fn never_taken(key: &Key) -> Self {
        LeaseState { holder: None, until: None, key: key.clone(), owner_version: 0, until_version: 0 }
    }

    /// Looks how the lease under `key` stands.
    ///
    /// # Errors
    /// What the store says.
    pub async fn read(store: &dyn Store, key: &Key) -> Result<Self> {
        // The clock first: a lease that lapses while we read counts as held.
        let now = store.now().await?;
        let mut state = LeaseState::never_taken(key);
        let (owner, until) = (key.clone().text(OWNER), key.clone().text(UNTIL));
        for cell in store.cells(key, None, Direction::Forward, 16).await? {
            if cell.key == owner {
                state.owner_version = cell.version;
                let name = String::from_utf8_lossy(cell.value.known(FORMAT)?).into_owned();
                state.holder = (!name.is_empty()).then_some(name);
            } else if cell.key == until {
                state.until_version = cell.version;
                state.until = cell.value.leading_instant();
            }
        }
        if state.until.is_none_or(|until| until <= now) {
            state.holder = None;
        }
        Ok(state)
    }

    /// Adds the taking of this lease to a batch, for `span` from its commit. The batch fails when the lease has changed
    /// since it was looked at; it is not asked whether it is free.
    ///
    /// # Errors
    /// [`StoreError::Misuse`] for an empty holder, which is how a released lease is written.
    pub fn take(&self, batch: &mut Batch, holder: &str, span: Duration) -> Result<Lease> {
        if holder.is_empty() {
            return Err(StoreError::Misuse { problem: "a lease needs a holder that has a name".to_owned() });
        }
        let (owner, until) = (self.key.clone().text(OWNER), self.key.clone().text(UNTIL));
        batch
            .require(Condition::version(owner.clone(), self.owner_version))
            .require(Condition::version(until.clone(), self.until_version))
            .put(owner, Value::new(FORMAT, holder.to_owned()))
            .put(until, ValueForm::new(FORMAT).now_plus(span));
        Ok(Lease { key: self.key.clone(), token: self.owner_version + 1 })
    }
}

impl Lease {
    /// Takes the lease under `key` for `span`, if it is free: `Err` inside tells who holds it.
    ///
    /// # Errors
    /// What the store says.
    pub async fn take(
        store: &dyn Store,
        key: &Key,
        holder: &str,
        span: Duration,
    ) -> Result<std::result::Result<Lease, LeaseState>> {
        let state = LeaseState::read(store, key).await?;
        if state.holder.is_some() {
            return Ok(Err(state));
        }
        let mut batch = Batch::new();
        let lease = state.take(&mut batch, holder, span)?;
        match store.commit(batch).await {
            Ok(_) => Ok(Ok(lease)),
            // Somebody was faster, and is the one to be told of.
            Err(StoreError::Condition { .. }) => Ok(Err(LeaseState::read(store, key).await?)),
            Err(error) => Err(error),
        }
    }

    /// The fencing token: grows with every taking of the lease.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// What every commit of the owner requires: that nobody took the lease since, and that it was not released.
    #[must_use]
    pub fn fence(&self) -> Condition {
        Condition::version(self.key.clone().text(OWNER), self.token)
    }

    /// Requires that the lease has not lapsed, even if nobody else took it.
    #[must_use]
    pub fn not_lapsed(&self) -> Condition {
        Condition::not_passed(self.key.clone().text(UNTIL))
    }

    /// Adds to a batch that the lease lasts for `span` from the commit on, if it is still ours.
    pub fn renew(&self, batch: &mut Batch, span: Duration) {
        batch.require(self.fence()).put(self.key.clone().text(UNTIL), ValueForm::new(FORMAT).now_plus(span));
    }

    /// Adds to a batch that the lease is free again, if it is still ours.
    pub fn release(&self, batch: &mut Batch) {
        batch
            .require(self.fence())
            .put(self.key.clone().text(OWNER), Value::new(FORMAT, ""))
            .put(self.key.clone().text(UNTIL), ValueForm::new(FORMAT).now());
    }
}
