//! The one thread that writes: it gathers the batches that wait and commits them as one group, each in a savepoint of its
//! own, so that a batch that cannot be written takes none of its neighbours with it.

use super::ground::Tables;
use super::schema::{check_stamp, failed, no_turn};
use super::turns::Turns;
use crate::batch::{Batch, Committed};
use crate::error::{Result, StoreError};
use crate::evaluate::evaluate;
use crate::key::LogName;
use crate::store::BlobId;
use crate::watch::Growth;
use bytes::Bytes;
use placet_core::Clock;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// The most jobs of one group: what a process may write in one turn while others wait.
const GROUP: usize = 512;

/// Something to be written. Who asked hears of it once it is durable.
pub(super) enum Job {
    Commit { batch: Batch, answer: oneshot::Sender<Result<Committed>> },
    PutBlob { tenant: Vec<u8>, id: BlobId, bytes: Bytes, answer: oneshot::Sender<Result<()>> },
    RemoveBlob { tenant: Vec<u8>, id: BlobId, answer: oneshot::Sender<Result<()>> },
}

pub(super) struct Writer {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pub(super) turns: Turns,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) growth: Arc<Growth>,
}

/// What became of a job inside the transaction. `Ok` holds only if that commits.
enum Done {
    Committed(Result<Committed>),
    Blob(Result<()>),
}

impl Writer {
    /// Writes until nobody can send any more.
    pub(super) fn run(self, mut jobs: mpsc::Receiver<Job>) {
        match Tables::new(&self.connection) {
            Ok(mut tables) => self.serve(&mut jobs, &mut tables),
            // Whoever sends a job finds the queue closed.
            Err(error) => tracing::error!(%error, path = %self.path.display(), "the store's writer cannot start"),
        }
        // The last connection to close writes the log back into the file: nobody should open it meanwhile.
        let turn = self.turns.take();
        drop(self.connection);
        drop(turn);
    }

    fn serve(&self, jobs: &mut mpsc::Receiver<Job>, tables: &mut Tables<'_>) {
        let mut group = Vec::with_capacity(GROUP);
        let mut data_version = None;
        let mut last = 0;
        loop {
            gather(jobs, last);
            last = jobs.blocking_recv_many(&mut group, GROUP);
            if last == 0 {
                return;
            }
            let written = self.write(&group, tables, &mut data_version);
            if written.is_err() {
                tables.forget();
                data_version = None;
            }
            self.answer(group.drain(..), written);
            tables.tidy();
        }
    }

    /// One turn, one transaction, one sync to disk.
    fn write(&self, group: &[Job], tables: &mut Tables<'_>, data_version: &mut Option<i64>) -> Result<Vec<Done>> {
        let _turn = self.turns.take().map_err(|error| no_turn(&self.path, &error))?;
        self.execute("BEGIN IMMEDIATE")?;
        let done = self
            .look(tables, data_version)
            .and_then(|()| group.iter().map(|job| self.job(job, group.len() == 1, tables)).collect());
        let committed = match done {
            Ok(done) => self.commit().map(|()| done),
            Err(error) => Err(error),
        };
        if committed.is_err() && !self.connection.is_autocommit() {
            // The transaction is over either way: without a commit record it does not count.
            let _ = self.execute("ROLLBACK");
        }
        committed
    }

    /// Finds out whether another process has written since the last group.
    fn look(&self, tables: &mut Tables<'_>, data_version: &mut Option<i64>) -> Result<()> {
        let read = self
            .connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)));
        let now = read.map_err(|error| failed("looking at the store", error))?;
        if *data_version != Some(now) {
            check_stamp(&self.path, &self.connection)?;
            tables.forget();
            *data_version = Some(now);
        }
        Ok(())
    }

    /// One job in its savepoint. An error here is one that nothing of the group survives.
    fn job(&self, job: &Job, alone: bool, tables: &mut Tables<'_>) -> Result<Done> {
        match job {
            Job::Commit { batch, .. } => {
                let plan = match evaluate(batch, self.clock.now(), tables) {
                    Ok(plan) => plan,
                    Err(error) => return Ok(Done::Committed(Err(error))),
                };
                let applied = if plan.effects.is_empty() {
                    Ok(())
                } else {
                    self.savepoint(alone, tables, "writing a batch", |tables| tables.apply(&plan))?
                };
                Ok(Done::Committed(applied.map(|()| plan.committed)))
            }
            Job::PutBlob { tenant, id, bytes, .. } => {
                let put = |tables: &mut Tables<'_>| tables.put_blob(tenant, id.as_bytes(), bytes);
                Ok(Done::Blob(self.savepoint(alone, tables, "writing a blob", put)?))
            }
            Job::RemoveBlob { tenant, id, .. } => {
                let remove = |tables: &mut Tables<'_>| tables.remove_blob(tenant, id.as_bytes());
                Ok(Done::Blob(self.savepoint(alone, tables, "removing a blob", remove)?))
            }
        }
    }

    fn savepoint<'c>(
        &self,
        alone: bool,
        tables: &mut Tables<'c>,
        action: &'static str,
        write: impl FnOnce(&mut Tables<'c>) -> rusqlite::Result<()>,
    ) -> Result<Result<()>> {
        if alone {
            // The transaction itself is its savepoint, and spares SQLite a copy of each page.
            write(tables).map_err(|error| failed(action, error))?;
            tables.keep();
            return Ok(Ok(()));
        }
        self.execute("SAVEPOINT batch")?;
        let written = write(tables);
        match &written {
            Ok(()) => tables.keep(),
            Err(_) => {
                tables.restore();
                self.execute("ROLLBACK TO batch")?;
            }
        }
        self.execute("RELEASE batch")?;
        Ok(written.map_err(|error| failed(action, error)))
    }

    fn commit(&self) -> Result<()> {
        self.run_statement("COMMIT").map_err(|error| match error.sqlite_error_code() {
            // The commit record may have reached the disk: the next opening decides.
            Some(rusqlite::ErrorCode::SystemIoFailure) => {
                StoreError::Unknown { cause: format!("writing to {}: {error}", self.path.display()) }
            }
            _ => failed("committing", error),
        })
    }

    fn execute(&self, sql: &'static str) -> Result<()> {
        self.run_statement(sql).map_err(|error| failed(sql, error))
    }

    fn run_statement(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Tells everyone how it went, after the disk has it; then wakes who waits for growth.
    fn answer(&self, group: impl Iterator<Item = Job>, written: Result<Vec<Done>>) {
        let mut grown: Vec<LogName> = Vec::new();
        let (done, error) = match written {
            Ok(done) => (done, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let mut done = done.into_iter();
        for job in group {
            // Who no longer listens has lost the answer, not the write.
            match (job, done.next()) {
                (Job::Commit { batch, answer }, Some(Done::Committed(result))) => {
                    if result.is_ok() && self.growth.is_watched() {
                        grown.extend(batch.appended_logs().cloned());
                    }
                    let _ = answer.send(result);
                }
                (Job::PutBlob { answer, .. } | Job::RemoveBlob { answer, .. }, Some(Done::Blob(result))) => {
                    let _ = answer.send(result);
                }
                (Job::Commit { answer, .. }, _) => {
                    let _ = answer.send(Err(shared(error.as_ref())));
                }
                (Job::PutBlob { answer, .. } | Job::RemoveBlob { answer, .. }, _) => {
                    let _ = answer.send(Err(shared(error.as_ref())));
                }
            }
        }
        self.growth.announce(grown.iter());
    }
}

/// Gives those who were answered just now a moment to ask again. Without it the first of them gets a group, and a sync to
/// disk, of its own, while all others wait for the next: half of the syncs would carry next to nothing.
fn gather(jobs: &mpsc::Receiver<Job>, last: usize) {
    const MOMENTS: usize = 100;
    // One alone is not waited for: nobody else is there.
    if last < 2 {
        return;
    }
    for _ in 0..MOMENTS {
        if jobs.len() >= last {
            return;
        }
        std::thread::yield_now();
    }
}

/// The error of a whole group, as each of its jobs hears of it.
fn shared(error: Option<&StoreError>) -> StoreError {
    match error {
        Some(StoreError::Unknown { cause }) => StoreError::Unknown { cause: cause.clone() },
        Some(StoreError::Corrupt { what }) => StoreError::Corrupt { what: what.clone() },
        Some(StoreError::NewerSchema { place, found, known }) => {
            StoreError::NewerSchema { place: place.clone(), found: *found, known: *known }
        }
        Some(StoreError::Unavailable { cause }) => StoreError::Unavailable { cause: cause.clone() },
        Some(StoreError::Backend { action, source }) => {
            StoreError::Backend { action, source: source.to_string().into() }
        }
        Some(error) => StoreError::Unavailable { cause: error.to_string() },
        None => StoreError::Unavailable { cause: "the store's writer has ended".to_owned() },
    }
}
