//! One store for everything durable: *logs* (append-only, numbered from 1), *cells* (versioned values under ordered, typed
//! keys), *blobs* (large values), and one atomic, conditional [`commit`](Store::commit).
//!
//! ```
//! # use placet_store::{Batch, Condition, Key, LogName, MemoryStore, Store, Tenant, Value, ValueForm};
//! # use std::sync::Arc;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> placet_store::Result<()> {
//! let store = MemoryStore::new(Arc::new(placet_core::env::SystemClock::new()));
//! let acme = Tenant::new("acme");
//! let board = LogName::new(Key::new(&acme).text("board").text("b-1"));
//! let key = Key::new(&acme).text("key").text("k-1");
//!
//! let mut batch = Batch::new();
//! batch.require(Condition::absent(key.clone()));
//! let number = batch.append(&board, Value::new(1, "a contribution"));
//! batch.put(key.clone(), ValueForm::new(1).number(number));
//! let committed = store.commit(batch.clone()).await?;
//! assert_eq!(committed.number(number), 1);
//! assert!(store.commit(batch).await.is_err(), "the key is taken");
//! # Ok(()) }
//! ```
//!
//! [`MemoryStore`] ends with the process; `SqliteStore` is a file, which several processes of one machine may share;
//! `PostgresStore` is how machines share work. They behave alike: one suite (feature `conformance`) passes on all of them.
//! What is made of cells and useful to everybody is here too: [leases](lease) with fencing tokens, an index of what is
//! [due], an [outbox].
//!
//! # What it must never do
//!
//! Know a run, a board or a schedule. Acknowledge a commit that is not durable, or report one as failed whose answer was
//! lost. Have a behaviour that only one backend has.

mod batch;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod due;
mod error;
mod evaluate;
mod key;
pub mod lease;
mod memory;
pub mod outbox;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod value;
mod watch;

pub use batch::{AddRef, AppendRef, Batch, Committed, Condition, MAX_BATCH_BYTES, MAX_BATCH_OPERATIONS};
pub use error::{Found, Result, StoreError};
pub use key::{Key, KeyForm, KeyPart, LogName, MAX_KEY_BYTES, PutKey, Tenant};
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOptions, SqliteStore};
pub use store::{BlobId, Cell, Direction, Entry, LogHead, MAX_BLOB_BYTES, MAX_READ, SharedStore, Store};
pub use value::{MAX_VALUE_BYTES, Value, ValueForm};
pub use watch::Watch;
