//! The seam: what every backend does.

use crate::batch::{Batch, Committed};
use crate::error::{Result, StoreError};
use crate::key::{Hex, Key, LogName, Tenant};
use crate::value::Value;
use crate::watch::Watch;
use async_trait::async_trait;
use bytes::Bytes;
use placet_core::Timestamp;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// A store that many hold.
pub type SharedStore = Arc<dyn Store>;

/// The most entries or cells that one read gives, whatever limit it asks for. Ask again from the last one.
pub const MAX_READ: usize = 10_000;

/// The largest blob, in bytes.
pub const MAX_BLOB_BYTES: usize = 64 * 1024 * 1024;

/// Logs, cells, blobs and one atomic conditional commit.
///
/// A read that begins after a commit was acknowledged sees it. Reads are not part of a batch: what a batch rests on is
/// said by its conditions.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// The present instant on the store's clock.
    async fn now(&self) -> Result<Timestamp>;

    /// Evaluates a batch in order and applies it whole or not at all. Once this gives `Ok` the batch is durable, as far as
    /// the backend is. Whoever drops the future before that loses the answer, and not necessarily the batch.
    ///
    /// # Errors
    /// [`StoreError::Condition`] names the first condition that failed and what it found, [`StoreError::Ceiling`] the sum
    /// that would have been too high; [`StoreError::Unknown`] when the answer was lost. After any other error nothing was
    /// written.
    async fn commit(&self, batch: Batch) -> Result<Committed>;

    /// The cell under a key, if there is one.
    async fn cell(&self, key: &Key) -> Result<Option<Cell>>;

    /// Cells whose keys begin with `prefix` (the cell of `prefix` itself included) in the order of their keys, or
    /// backward. With `beyond` only those strictly beyond that key in that direction: the last key of one page begins the
    /// next. At most `limit`, and at most [`MAX_READ`].
    async fn cells(&self, prefix: &Key, beyond: Option<&Key>, direction: Direction, limit: usize) -> Result<Vec<Cell>>;

    /// Entries with numbers above `after`, ascending; `after` 0 begins with the first. At most `limit`, and at most
    /// [`MAX_READ`].
    async fn log(&self, log: &LogName, after: u64, limit: usize) -> Result<Vec<Entry>>;

    /// Entries with numbers below `before`, descending; `None` begins with the last. At most `limit`, and at most
    /// [`MAX_READ`].
    async fn log_backward(&self, log: &LogName, before: Option<u64>, limit: usize) -> Result<Vec<Entry>>;

    /// The entries of the given numbers, in the given order; numbers that the log does not hold are left out.
    async fn log_entries(&self, log: &LogName, numbers: &[u64]) -> Result<Vec<Entry>>;

    /// The head of a log; that of a log that does not exist has the number 0.
    async fn log_head(&self, log: &LogName) -> Result<LogHead>;

    /// Logs whose names begin with `prefix`, in order, strictly beyond the name `beyond`. At most `limit`, and at most
    /// [`MAX_READ`].
    async fn logs(&self, prefix: &Key, beyond: Option<&LogName>, limit: usize) -> Result<Vec<(LogName, LogHead)>>;

    /// Keeps a large value under the hash of its bytes; the same bytes of one tenant are kept once. Durable when this
    /// gives `Ok`, and so before a batch that names it.
    ///
    /// # Errors
    /// [`StoreError::Misuse`] above [`MAX_BLOB_BYTES`].
    async fn put_blob(&self, tenant: &Tenant, bytes: Bytes) -> Result<BlobId>;

    /// The bytes of a blob, if the tenant has it.
    async fn blob(&self, tenant: &Tenant, id: &BlobId) -> Result<Option<Bytes>>;

    /// Removes a blob. Nothing happens when the tenant has none of that id.
    async fn delete_blob(&self, tenant: &Tenant, id: &BlobId) -> Result<()>;

    /// Waits for the growth of a log.
    fn watch(&self, log: &LogName) -> Watch;

    /// What backend this is and where it keeps things, for people: `memory`, `sqlite /path`, `postgres host/database`.
    fn describe(&self) -> String;
}

/// Which way to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Backward,
}

/// A versioned value under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The key.
    pub key: Key,
    /// How often the cell was written since it was last absent, from 1.
    pub version: u64,
    /// What was written last.
    pub value: Value,
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, from 1.
    pub number: u64,
    /// The instant of the commit that appended it, never earlier than that of the entry before.
    pub at: Timestamp,
    /// What was appended.
    pub value: Value,
}

/// Where a log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The number of the entry appended last; 0 when nothing was ever appended.
    pub number: u64,
    /// The number of the first entry that is still there; one more than `number` when there is none.
    pub first: u64,
    /// The instant of the last append.
    pub at: Option<Timestamp>,
}

impl LogHead {
    /// The head of a log that does not exist.
    pub const NONE: LogHead = LogHead { number: 0, first: 1, at: None };
}

/// The SHA-256 of a blob's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId([u8; 32]);

impl BlobId {
    /// The id of those bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        BlobId(Sha256::digest(bytes).into())
    }

    /// The hash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The id of a hash.
    #[must_use]
    pub fn from_bytes(hash: [u8; 32]) -> Self {
        BlobId(hash)
    }
}

/// 64 hexadecimal digits.
impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Hex(&self.0), f)
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

pub(crate) fn check_blob(bytes: &[u8]) -> Result<()> {
    if bytes.len() > MAX_BLOB_BYTES {
        let problem = format!("a blob of {} bytes, {MAX_BLOB_BYTES} are allowed: keep it in parts", bytes.len());
        return Err(StoreError::Misuse { problem });
    }
    Ok(())
}
