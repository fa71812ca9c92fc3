//! The lease by which one process at a time owns a run.

use crate::error::Result;
use crate::layout;
use placet_core::{RunId, Timestamp};
use placet_store::{Store, StoreError, Tenant, ValueForm};
use std::time::Duration;

/// The format of a lease's cell: until when, as eight bytes; the token, as eight bytes, big-endian; the owner's name.
const FORMAT: u16 = 1;

/// Who owns a run, and until when unless the lease is renewed.
///
/// It is released by being written without a span, never deleted, so that tokens only grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLease {
    /// How the owner calls itself; empty once it has let go.
    pub owner: String,
    /// Counts who has owned the run, from 1.
    pub token: u64,
    /// Until when, on the store's clock.
    pub until: Timestamp,
    /// How often the cell was written: what the owner's commits are conditional on.
    pub version: u64,
}

impl RunLease {
    /// The lease of a run; absent where nobody ever owned it.
    ///
    /// # Errors
    /// [`ObserveError`](crate::ObserveError) where the store fails or the cell is damaged.
    pub async fn read(store: &dyn Store, tenant: &Tenant, run: &RunId) -> Result<Option<Self>> {
        let Some(cell) = store.cell(&layout::lease(tenant, run)).await? else { return Ok(None) };
        let bytes = cell.value.known(FORMAT)?;
        let damaged = || StoreError::Corrupt { what: format!("the lease of {run}") };
        let until = cell.value.leading_instant().ok_or_else(damaged)?;
        let rest = bytes.get(8..).ok_or_else(damaged)?;
        let (token, owner) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let owner = std::str::from_utf8(owner).map_err(|_| damaged())?.to_owned();
        Ok(Some(RunLease { owner, token: u64::from_be_bytes(*token), until, version: cell.version }))
    }

    /// What the cell holds for this owner and token from the instant of the commit on.
    #[must_use]
    pub fn to_value(owner: &str, token: u64, span: Duration) -> ValueForm {
        let mut rest = Vec::with_capacity(8 + owner.len());
        rest.extend_from_slice(&token.to_be_bytes());
        rest.extend_from_slice(owner.as_bytes());
        ValueForm::new(FORMAT).now_plus(span).bytes(rest)
    }

    /// Whether it still holds at an instant of the store's clock.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> bool {
        !self.owner.is_empty() && now < self.until
    }
}
