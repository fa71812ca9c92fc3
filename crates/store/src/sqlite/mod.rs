//! The store in one SQLite file, which several processes of one machine may hold open at once.
//!
//! One thread of a process writes: it commits the batches that wait as one group, in the write-ahead log, synced to disk
//! before anyone hears of it. Processes take turns by a lock around each group. Readers have connections and threads of
//! their own. The file must be on a local disk: locks of network file systems are not to be trusted.

mod ground;
mod reader;
mod schema;
mod turns;
mod writer;

use crate::batch::{Batch, Committed};
use crate::error::{Result, StoreError};
use crate::key::{Key, LogName, Tenant};
use crate::store::{BlobId, Cell, Direction, Entry, LogHead, Store, check_blob};
use crate::watch::{Growth, Heads, Poll, Watch};
use async_trait::async_trait;
use bytes::Bytes;
use placet_core::{Clock, Timestamp};
use reader::Readers;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use turns::Turns;
use writer::{Job, Writer};

/// How a file is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// The store's clock: the system's, but in tests.
    pub clock: Arc<dyn Clock>,
    /// How many threads read. 2 by default.
    pub readers: usize,
    /// How often a watch looks for what other processes wrote. 100 ms by default.
    pub poll: Duration,
    /// How long opening is tried again while the file is busy. 30 s by default.
    pub patience: Duration,
    /// How many commits may wait before further ones wait for a place. 1,024 by default.
    pub queue: usize,
}

impl SqliteOptions {
    /// The defaults, with that clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        SqliteOptions {
            clock,
            readers: 2,
            poll: Duration::from_millis(100),
            patience: Duration::from_secs(30),
            queue: 1024,
        }
    }
}

/// The store in one SQLite file. Cheap to clone; the last clone to go ends its threads.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
    growth: Arc<Growth>,
}

struct Inner {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    poll: Duration,
    jobs: mpsc::Sender<Job>,
    readers: Readers,
}

impl SqliteStore {
    /// Opens the file, or makes it where there is none; its folder must be there. Blocks until it is open, so it belongs at
    /// the start of a program or on a thread that may block.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`] for a file of a newer program, [`StoreError::NotAStore`] for one of another program,
    /// [`StoreError::Unavailable`] when it stays busy or cannot be opened.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let turns = Turns::open(&path).map_err(|error| schema::no_turn(&path, &error))?;
        let connection = schema::open_writer(&path, &turns, options.patience)?;

        let growth = Arc::new(Growth::default());
        let (jobs, queue) = mpsc::channel(options.queue.max(1));
        let clock = options.clock.clone();
        let writer = Writer { path: path.clone(), connection, turns, clock, growth: growth.clone() };
        start("placet-store-write", move || writer.run(queue))?;

        let (readers, asked) = Readers::new();
        for _ in 0..options.readers.max(1) {
            let connection = schema::open_reader(&path)?;
            let asked = asked.clone();
            start("placet-store-read", move || reader::serve(&connection, &asked))?;
        }
        let inner = Inner { path, clock: options.clock, poll: options.poll, jobs, readers };
        Ok(SqliteStore { inner: Arc::new(inner), growth })
    }

    /// Reads the whole file, and says what is damaged in it, in SQLite's words; nothing for a whole one. Whether it holds
    /// what was written is for [`Store`]'s users to tell.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] where the damage keeps it from being looked for, and those of reading.
    pub async fn damage(&self) -> Result<Vec<String>> {
        self.inner.readers.ask("looking for damage", |connection| reader::damage(connection, 5)).await
    }

    async fn job<T>(&self, job: impl FnOnce(oneshot::Sender<Result<T>>) -> Job) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let ended = || StoreError::Unavailable { cause: "the store's writer has ended".to_owned() };
        self.inner.jobs.send(job(answer)).await.map_err(|_| ended())?;
        let lost = || StoreError::Unknown { cause: "the store's writer ended before it answered".to_owned() };
        answered.await.map_err(|_| lost())?
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a connection belongs to one thread for its whole life")]
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    match started {
        Ok(_) => Ok(()),
        Err(error) => Err(StoreError::Unavailable { cause: format!("a thread for the store: {error}") }),
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl Heads for Inner {
    async fn head(&self, log: &LogName) -> Result<LogHead> {
        let log = log.clone();
        self.readers.ask("reading a log's head", move |connection| reader::log_head(connection, &log)).await
    }
}

fn tenant_bytes(tenant: &Tenant) -> Vec<u8> {
    Key::new(tenant).as_bytes().to_vec()
}

#[async_trait]
impl Store for SqliteStore {
    async fn now(&self) -> Result<Timestamp> {
        Ok(self.inner.clock.now())
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        batch.check()?;
        self.job(|answer| Job::Commit { batch, answer }).await
    }

    async fn cell(&self, key: &Key) -> Result<Option<Cell>> {
        let key = key.clone();
        self.inner.readers.ask("reading a cell", move |connection| reader::cell(connection, &key)).await
    }

    async fn cells(&self, prefix: &Key, beyond: Option<&Key>, direction: Direction, limit: usize) -> Result<Vec<Cell>> {
        let (prefix, beyond) = (prefix.clone(), beyond.cloned());
        let read = move |connection: &_| reader::cells(connection, &prefix, beyond.as_ref(), direction, limit);
        self.inner.readers.ask("reading cells", read).await
    }

    async fn log(&self, log: &LogName, after: u64, limit: usize) -> Result<Vec<Entry>> {
        let log = log.clone();
        let read = move |connection: &_| reader::log(connection, &log, after, limit);
        self.inner.readers.ask("reading a log", read).await
    }

    async fn log_backward(&self, log: &LogName, before: Option<u64>, limit: usize) -> Result<Vec<Entry>> {
        let log = log.clone();
        let read = move |connection: &_| reader::log_backward(connection, &log, before, limit);
        self.inner.readers.ask("reading a log backward", read).await
    }

    async fn log_entries(&self, log: &LogName, numbers: &[u64]) -> Result<Vec<Entry>> {
        let (log, numbers) = (log.clone(), numbers.to_vec());
        let read = move |connection: &_| reader::log_entries(connection, &log, &numbers);
        self.inner.readers.ask("reading entries", read).await
    }

    async fn log_head(&self, log: &LogName) -> Result<LogHead> {
        self.inner.head(log).await
    }

    async fn logs(&self, prefix: &Key, beyond: Option<&LogName>, limit: usize) -> Result<Vec<(LogName, LogHead)>> {
        let (prefix, beyond) = (prefix.clone(), beyond.cloned());
        let read = move |connection: &_| reader::logs(connection, &prefix, beyond.as_ref(), limit);
        self.inner.readers.ask("listing logs", read).await
    }

    async fn put_blob(&self, tenant: &Tenant, bytes: Bytes) -> Result<BlobId> {
        check_blob(&bytes)?;
        let id = BlobId::of(&bytes);
        let tenant = tenant_bytes(tenant);
        self.job(|answer| Job::PutBlob { tenant, id, bytes, answer }).await?;
        Ok(id)
    }

    async fn blob(&self, tenant: &Tenant, id: &BlobId) -> Result<Option<Bytes>> {
        let (tenant, id) = (tenant_bytes(tenant), *id);
        let read = move |connection: &_| reader::blob(connection, &tenant, id.as_bytes());
        Ok(self.inner.readers.ask("reading a blob", read).await?.map(Bytes::from))
    }

    async fn delete_blob(&self, tenant: &Tenant, id: &BlobId) -> Result<()> {
        let (tenant, id) = (tenant_bytes(tenant), *id);
        self.job(|answer| Job::RemoveBlob { tenant, id, answer }).await
    }

    fn watch(&self, log: &LogName) -> Watch {
        let poll = Poll { clock: self.inner.clock.clone(), every: self.inner.poll };
        self.growth.watch(log, self.inner.clone(), Some(poll))
    }

    fn describe(&self) -> String {
        format!("sqlite {}", self.inner.path.display())
    }
}
