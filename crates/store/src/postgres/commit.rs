//! The one task that writes: it gathers the batches that wait and commits them as one transaction, in two round trips.

use super::Shared;
use super::group::{Group, Named, names};
use super::link::{PATIENCE, is_lost, told};
use super::schema::{KNOWN, other_layout};
use super::tables::{Tables, Writes};
use crate::batch::{Batch, Committed};
use crate::error::{Result, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The most cells and logs that a group names, but for a single batch that names more. Locks stand in a table of the
/// server that all its users share: by its defaults it has room for about six such groups at once.
const MAX_NAMES: usize = 1000;

/// The most bytes of keys and values of a group, but for a single larger batch.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// How often a group that lost a deadlock is tried as a group.
const DEADLOCKS: usize = 5;

/// A batch that waits, and who waits for it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) batch: Batch,
    pub(super) bytes: usize,
    pub(super) answer: oneshot::Sender<Result<Committed>>,
}

/// Why a group did not come to be.
enum Failure {
    /// The connection went before the commit was sent: nothing was written.
    Lost(String),
    /// The server ended a deadlock at our cost: nothing was written.
    Deadlock(String),
    /// The server refused a statement: nothing was written.
    Refused { action: &'static str, cause: String },
    /// What was read is not what a store holds: nothing was written.
    Corrupt(Error),
    /// Another program has changed the store meanwhile: nothing was written.
    Restamped(Option<i64>),
    /// The connection went after the commit was sent. Tells which batches had something to write.
    Unknown { cause: String, writers: Vec<bool> },
}

impl Failure {
    fn of(action: &'static str, error: Error) -> Self {
        if is_lost(&error) {
            Failure::Lost(told(&error))
        } else if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) {
            Failure::Deadlock(told(&error))
        } else {
            Failure::Refused { action, cause: told(&error) }
        }
    }

    /// The failure to open a connection.
    fn opening(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable { cause } => Failure::Lost(cause),
            StoreError::Backend { action, source } => Failure::Refused { action, cause: source.to_string() },
            other => Failure::Refused { action: "opening a connection", cause: other.to_string() },
        }
    }

    /// Whether a batch by itself may fare better than its group did.
    fn may_be_of_one(&self) -> bool {
        matches!(self, Failure::Deadlock(_) | Failure::Refused { .. } | Failure::Corrupt(_))
    }
}

pub(super) struct Committer {
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Request>,
    /// A batch that was received and did not fit its group any more.
    next: Option<Request>,
    tables: Option<Tables>,
    /// Whether the last group waited for the server in vain.
    away: bool,
}

impl Committer {
    pub(super) fn new(shared: Arc<Shared>, requests: mpsc::Receiver<Request>) -> Self {
        Committer { shared, requests, next: None, tables: None, away: false }
    }

    /// Commits until nobody can send any more.
    pub(super) async fn run(mut self) {
        loop {
            let first = match self.next.take() {
                Some(request) => Some(request),
                None => self.requests.recv().await,
            };
            let Some(first) = first else { return };
            let group = self.gather(first).await;
            self.commit(group).await;
        }
    }

    /// Adds to the first batch those that wait behind it.
    async fn gather(&mut self, first: Request) -> Vec<Request> {
        let (mut named, mut bytes) = (names(&first.batch), first.bytes);
        let mut group = vec![first];
        loop {
            let before = group.len();
            while self.next.is_none() {
                let Ok(request) = self.requests.try_recv() else { break };
                named += names(&request.batch);
                bytes += request.bytes;
                if named > MAX_NAMES || bytes > MAX_BYTES {
                    self.next = Some(request);
                } else {
                    group.push(request);
                }
            }
            if self.next.is_some() || before == group.len() {
                return group;
            }
            // Whoever was answered by the last group may be about to ask again; alone the first of them would pay for a
            // whole transaction.
            tokio::task::yield_now().await;
        }
    }

    async fn commit(&mut self, group: Vec<Request>) {
        let batches: Vec<&Batch> = group.iter().map(|request| &request.batch).collect();
        match self.outcome(&batches).await {
            Err(failure) if batches.len() > 1 && failure.may_be_of_one() => {
                // One of them may be what the server does not take: each stands for itself.
                for request in group {
                    let outcome = self.outcome(&[&request.batch]).await;
                    self.answer(vec![request], outcome);
                }
            }
            outcome => self.answer(group, outcome),
        }
    }

    /// Commits a group, again where that is known to be safe.
    async fn outcome(&mut self, batches: &[&Batch]) -> Result<Vec<Result<Committed>>, Failure> {
        let mut deadlocks = 0;
        // While it is away, only one group waits for it, and not each that queued up behind.
        let mut waits = PATIENCE.iter().take(if self.away { 1 } else { PATIENCE.len() });
        loop {
            let failure = match self.attempt(batches).await {
                Ok(outcome) => {
                    self.away = false;
                    return Ok(outcome);
                }
                Err(failure) => failure,
            };
            // A transaction that is still open ends with its connection, unless the server says that it ended.
            let kept = match (&failure, &self.tables) {
                (Failure::Lost(_) | Failure::Unknown { .. }, _) | (_, None) => false,
                (_, Some(tables)) => tables.roll_back().await.is_ok(),
            };
            if !kept {
                self.tables = None;
            }
            match &failure {
                Failure::Deadlock(_) if deadlocks < DEADLOCKS => {
                    deadlocks += 1;
                    tracing::debug!(deadlocks, "a group of batches lost a deadlock and is tried again");
                }
                Failure::Lost(cause) => match waits.next() {
                    Some(wait) => {
                        tracing::debug!(%cause, "no connection to PostgreSQL; trying again");
                        if *wait > Duration::ZERO {
                            self.shared.env.sleep(*wait).await;
                        }
                    }
                    None => {
                        self.away = true;
                        return Err(failure);
                    }
                },
                _ => return Err(failure),
            }
        }
    }

    async fn attempt(&mut self, batches: &[&Batch]) -> Result<Vec<Result<Committed>>, Failure> {
        let tables = match &mut self.tables {
            Some(tables) if !tables.is_closed() => tables,
            tables => {
                let opened = Tables::open(&self.shared).await.map_err(Failure::opening)?;
                tables.insert(opened)
            }
        };
        let named = Named::of(batches.iter().copied());
        let (locks, exclusive) = named.locks(self.shared.schema.name());
        let rows = tables.begin(&named, &locks, &exclusive).await;
        let rows = rows.map_err(|(action, error)| Failure::of(action, error))?;
        let (read, layout) = named.read(&rows).map_err(Failure::Corrupt)?;
        if layout != Some(KNOWN) {
            return Err(Failure::Restamped(layout));
        }

        let mut group = Group::new(read);
        let results: Vec<_> = batches.iter().map(|batch| group.add(batch)).collect();
        if group.is_empty() {
            // Nothing rests on how this ends; the locks go with it.
            if tables.roll_back().await.is_err() {
                self.tables = None;
            }
            return Ok(results);
        }

        let writes = Writes::of(&group);
        // Noticed now, the loss of the connection is certain to have come before the commit.
        if tables.is_closed() {
            return Err(Failure::Lost("the connection was closed".to_owned()));
        }
        let (written, ended) = tables.write(&writes).await;
        let unknown = |error: &Error| Failure::Unknown {
            cause: format!("PostgreSQL at {}: {}", self.shared.target.place(), told(error)),
            writers: (0..batches.len()).map(|index| group.writes(index)).collect(),
        };
        match (written, ended) {
            (Ok(()), Ok(())) => Ok(results),
            // A statement that the server refused, or ended the connection at, makes the commit a rollback.
            (Err((action, error)), _) if error.as_db_error().is_some() => Err(Failure::of(action, error)),
            // An error short of the connection's end is one that took the transaction back.
            (Ok(()), Err(error)) if !is_lost(&error) => Err(Failure::of("committing", error)),
            (Err((_, error)), _) | (Ok(()), Err(error)) => Err(unknown(&error)),
        }
    }

    /// Wakes who waits for growth; then tells everyone how it went.
    fn answer(&self, group: Vec<Request>, outcome: Result<Vec<Result<Committed>>, Failure>) {
        let results = match outcome {
            Ok(results) => results,
            Err(failure) => (0..group.len()).map(|index| Err(failure.error(&self.shared, index))).collect(),
        };
        let committed = || group.iter().zip(&results).filter(|(_, result)| result.is_ok());
        self.shared.grown(committed().flat_map(|(request, _)| request.batch.appended_logs()));
        for (request, result) in group.into_iter().zip(results) {
            // Who no longer listens has lost the answer, not the write.
            let _ = request.answer.send(result);
        }
    }
}

impl Failure {
    /// The failure of a group as its `index`th batch hears of it.
    fn error(&self, shared: &Shared, index: usize) -> StoreError {
        match self {
            Failure::Lost(cause) => StoreError::Unavailable { cause: cause.clone() },
            Failure::Deadlock(cause) => StoreError::Unavailable { cause: cause.clone() },
            Failure::Refused { action, cause } => StoreError::Backend { action, source: cause.clone().into() },
            Failure::Corrupt(error) => shared.damaged(error),
            Failure::Restamped(layout) => other_layout(shared, *layout),
            Failure::Unknown { cause, writers } if writers.get(index).copied().unwrap_or(true) => {
                StoreError::Unknown { cause: cause.clone() }
            }
            // It had nothing to write; what it was told of rests on batches of which nobody knows.
            Failure::Unknown { cause, .. } => StoreError::Unavailable { cause: cause.clone() },
        }
    }
}
