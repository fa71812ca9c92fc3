//! The store on PostgreSQL: how machines share the work.
//!
//! Each process commits the batches that wait as one group: one transaction, READ COMMITTED, in two round trips. One
//! statement takes advisory locks on every complete key and log head that the group names, present or absent, in the order
//! of their hashes (shared where they are only read); the next reads them, and the instant. The batches are evaluated in
//! this process, one after the other, and then written all at once, so that one that fails writes nothing. Whoever appends
//! to a log holds its lock until its commit is visible: numbers become visible in order.
//!
//! A group that loses a deadlock, or whose connection goes before its commit was sent, is tried again. One that the server
//! refuses is tried batch by batch. One whose connection goes after its commit was sent is
//! [`Unknown`](StoreError::Unknown).
//!
//! It needs connections of its own and speaks to the server directly: a pooler in front of it that hands out connections
//! by the transaction knows neither its prepared statements nor its notifications.

mod commit;
mod group;
mod link;
mod news;
mod read;
mod schema;
mod tables;
mod target;

use crate::batch::{Batch, Committed};
use crate::error::{Result, StoreError};
use crate::key::{Key, LogName, Tenant};
use crate::store::{BlobId, Cell, Direction, Entry, LogHead, Store, check_blob};
use crate::watch::{Growth, Heads, Poll, Watch};
use async_trait::async_trait;
use bytes::Bytes;
use commit::{Committer, Request};
use news::News;
use placet_core::env::Task;
use placet_core::{Env, Timestamp};
use read::{Ask, Readers};
use schema::Schema;
use std::fmt;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;
use target::Target;
use tokio::sync::{mpsc, oneshot};

/// How a store on PostgreSQL is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// The PostgreSQL schema that holds the store, made where there is none: `placet` by default. Stores in different
    /// schemas of one database know nothing of each other.
    pub schema: String,
    /// How many connections read; one more writes, and one more listens once something is watched. 2 by default.
    pub readers: usize,
    /// How often a watch looks for growth that it was not told of. 1 s by default.
    pub poll: Duration,
    /// How many commits may wait before further ones wait for a place. 1,024 by default.
    pub queue: usize,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        PostgresOptions { schema: "placet".to_owned(), readers: 2, poll: Duration::from_secs(1), queue: 1024 }
    }
}

/// The store in a PostgreSQL database. Cheap to clone; the last clone to go closes its connections.
///
/// Its clock is the database server's, so that all machines have one.
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    requests: mpsc::Sender<Request>,
    poll: Duration,
    listening: Once,
    tasks: Mutex<Vec<Task>>,
}

/// What the tasks and the store have in common.
#[derive(Debug)]
struct Shared {
    target: Target,
    schema: Schema,
    env: Env,
    growth: Arc<Growth>,
    readers: Readers,
    news: News,
}

impl PostgresStore {
    /// Connects to the database at `url` (`postgres://user:password@host:port/database`), checks the store's stamp, and
    /// makes the store where there is none yet.
    ///
    /// The connection is not encrypted: `sslmode=require` is refused.
    ///
    /// # Errors
    /// [`StoreError::Misuse`] for a URL or options that cannot be used, [`StoreError::Unavailable`] when the server cannot be
    /// reached or does not let us in, [`StoreError::NewerSchema`] for a store of a newer program,
    /// [`StoreError::NotAStore`] when the schema holds something else. None of them shows the password.
    pub async fn connect(url: &str, options: PostgresOptions, env: &Env) -> Result<Self> {
        let shared = Arc::new(Shared {
            target: Target::read(url)?,
            schema: Schema::new(&options.schema)?,
            env: env.clone(),
            growth: Arc::default(),
            readers: Readers::new(options.readers),
            news: News::new(env.random().next_u64()),
        });
        schema::prepare(&shared).await?;
        shared.readers.open(&shared).await?;
        let (requests, queue) = mpsc::channel(options.queue.max(1));
        env.spawn("PostgreSQL committer", Committer::new(shared.clone(), queue).run());
        let teller = env.spawn("PostgreSQL news", news::tell(shared.clone()));
        let inner =
            Inner { shared, requests, poll: options.poll, listening: Once::new(), tasks: Mutex::new(vec![teller]) };
        Ok(PostgresStore { inner: Arc::new(inner) })
    }

    fn shared(&self) -> &Shared {
        &self.inner.shared
    }
}

impl Shared {
    /// Where the store is, for people.
    fn place(&self) -> String {
        match self.schema.name() {
            "placet" => format!("postgres {}", self.target.place()),
            schema => format!("postgres {} (schema {schema})", self.target.place()),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The committer ends by itself, when it has done what it was asked.
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(Task::abort);
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.shared().place()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Heads for Shared {
    async fn head(&self, log: &LogName) -> Result<LogHead> {
        self.read_head(log).await
    }
}

fn tenant_bytes(tenant: &Tenant) -> Vec<u8> {
    Key::new(tenant).as_bytes().to_vec()
}

#[async_trait]
impl Store for PostgresStore {
    async fn now(&self) -> Result<Timestamp> {
        self.shared().clock().await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let bytes = batch.check()?;
        let (answer, answered) = oneshot::channel();
        let ended = || StoreError::Unavailable { cause: "the store's committer has ended".to_owned() };
        self.inner.requests.send(Request { batch, bytes, answer }).await.map_err(|_| ended())?;
        let lost = || StoreError::Unknown { cause: "the store's committer ended before it answered".to_owned() };
        answered.await.map_err(|_| lost())?
    }

    async fn cell(&self, key: &Key) -> Result<Option<Cell>> {
        self.shared().read_cell(key).await
    }

    async fn cells(&self, prefix: &Key, beyond: Option<&Key>, direction: Direction, limit: usize) -> Result<Vec<Cell>> {
        self.shared().read_cells(prefix, beyond, direction, limit).await
    }

    async fn log(&self, log: &LogName, after: u64, limit: usize) -> Result<Vec<Entry>> {
        self.shared().read_log(log, after, limit).await
    }

    async fn log_backward(&self, log: &LogName, before: Option<u64>, limit: usize) -> Result<Vec<Entry>> {
        self.shared().read_log_backward(log, before, limit).await
    }

    async fn log_entries(&self, log: &LogName, numbers: &[u64]) -> Result<Vec<Entry>> {
        self.shared().read_log_entries(log, numbers).await
    }

    async fn log_head(&self, log: &LogName) -> Result<LogHead> {
        self.shared().read_head(log).await
    }

    async fn logs(&self, prefix: &Key, beyond: Option<&LogName>, limit: usize) -> Result<Vec<(LogName, LogHead)>> {
        self.shared().read_logs(prefix, beyond, limit).await
    }

    async fn put_blob(&self, tenant: &Tenant, bytes: Bytes) -> Result<BlobId> {
        check_blob(&bytes)?;
        let id = BlobId::of(&bytes);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&tenant_bytes(tenant), &&id.as_bytes()[..], &&bytes[..]];
        self.shared().ask(Ask::PutBlob, &params).await?;
        Ok(id)
    }

    async fn blob(&self, tenant: &Tenant, id: &BlobId) -> Result<Option<Bytes>> {
        let rows = self.shared().ask(Ask::Blob, &[&tenant_bytes(tenant), &&id.as_bytes()[..]]).await?;
        let bytes: Option<Vec<u8>> =
            rows.first().map(|row| row.try_get(0)).transpose().map_err(|error| self.shared().damaged(&error))?;
        Ok(bytes.map(Bytes::from))
    }

    async fn delete_blob(&self, tenant: &Tenant, id: &BlobId) -> Result<()> {
        self.shared().ask(Ask::RemoveBlob, &[&tenant_bytes(tenant), &&id.as_bytes()[..]]).await.map(drop)
    }

    fn watch(&self, log: &LogName) -> Watch {
        let shared = &self.inner.shared;
        self.inner.listening.call_once(|| {
            let listener = shared.env.spawn("PostgreSQL listener", news::listen(shared.clone()));
            self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
        });
        let poll = Poll { clock: shared.env.clock().clone(), every: self.inner.poll };
        shared.growth.watch(log, shared.clone(), Some(poll))
    }

    fn describe(&self) -> String {
        self.shared().place()
    }
}
