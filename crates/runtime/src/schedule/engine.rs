//! Sweeping, claiming, doing.

use super::job::{FORMAT, Job, JobState, JobTime, StoredJob};
use crate::error::{Result, RuntimeError};
use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, future::BoxFuture};
use placet_core::env::panic_text;
use placet_core::{Env, Timestamp};
use placet_store::due::{Due, DueIndex, When};
use placet_store::{Batch, Cell, Condition, Direction, Key, SharedStore, StoreError, Tenant, Value};
use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long a claim holds unless it is renewed; after that, somebody else does the job.
const CLAIM: Duration = Duration::from_secs(30);

/// How long a sweeper sleeps at most: another process may have put something in meanwhile.
const NAP: Duration = Duration::from_secs(1);

/// The first wait after a failure, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How many due entries one sweep looks at.
const SWEEP: usize = 1000;

/// How many jobs one process does at a time, unless it is told otherwise.
const WORKERS: usize = 4;

/// A job that has come due, for whoever does it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DueJob {
    /// The job.
    pub job: Job,
    /// The time it was meant for.
    pub meant_for: Timestamp,
    /// Which try this is, from 1.
    pub attempt: u32,
    /// Cancelled when the process is about to end, or has lost the job to another one.
    pub cancel: CancellationToken,
}

/// A job could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct JobFailure {
    /// What went wrong.
    pub problem: String,
    /// Whether trying again may help.
    pub again: bool,
}

/// Does jobs of one kind.
#[async_trait]
pub trait JobHandler: Send + Sync {
    /// Does one.
    ///
    /// # Errors
    /// [`JobFailure`], which says whether it is tried again.
    async fn run(&self, job: DueJob) -> Result<(), JobFailure>;
}

/// Sets up a [`Scheduler`].
pub struct SchedulerBuilder {
    env: Env,
    store: SharedStore,
    tenant: Tenant,
    handlers: HashMap<String, Arc<dyn JobHandler>>,
    workers: usize,
}

impl SchedulerBuilder {
    /// Who does jobs of a kind. Jobs of other kinds are left to other processes.
    #[must_use]
    pub fn handler(mut self, kind: impl Into<String>, handler: Arc<dyn JobHandler>) -> Self {
        self.handlers.insert(kind.into(), handler);
        self
    }

    /// How many jobs are done at a time: 4 without it.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// The scheduler.
    #[must_use]
    pub fn build(self) -> Scheduler {
        Scheduler(Arc::new(Shared {
            env: self.env,
            store: self.store,
            tenant: self.tenant,
            handlers: self.handlers,
            workers: self.workers,
            poked: Notify::new(),
        }))
    }
}

/// Keeps jobs, and does those that are due. Cheap to clone.
#[derive(Clone)]
pub struct Scheduler(Arc<Shared>);

struct Shared {
    env: Env,
    store: SharedStore,
    tenant: Tenant,
    handlers: HashMap<String, Arc<dyn JobHandler>>,
    workers: usize,
    poked: Notify,
}

/// A job that this process has claimed.
struct Claim {
    stored: StoredJob,
    key: Key,
    version: u64,
}

impl Scheduler {
    /// Sets one up for the jobs of one tenant.
    #[must_use]
    pub fn builder(env: Env, store: SharedStore, tenant: Tenant) -> SchedulerBuilder {
        SchedulerBuilder { env, store, tenant, handlers: HashMap::new(), workers: WORKERS }
    }

    fn key(&self, id: &str) -> Key {
        jobs(&self.0.tenant).text(id)
    }

    /// Adds a job of a new id to a batch, so that it is there exactly if the batch is committed.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] where it has no stored form.
    pub fn add(&self, batch: &mut Batch, job: Job) -> Result<()> {
        let now = self.0.env.now();
        let first = first_time(&job.time, now);
        self.write(
            batch,
            StoredJob { job, state: JobState::Waiting, meant_for: first, due: first, tried: 0, problem: None },
        )
    }

    /// Wakes the sweeper, after a batch that a job was added to.
    pub fn poke(&self) {
        self.0.poked.notify_one();
    }

    /// Puts a job in, in place of another one of that id. One that repeats at the same times keeps its next one, so that
    /// asking twice changes nothing.
    ///
    /// # Errors
    /// What the store says; [`RuntimeError::Internal`] where others changed the job again and again meanwhile.
    pub async fn put(&self, job: Job) -> Result<()> {
        for _ in 0..8 {
            let key = self.key(&job.id);
            let before = self.0.store.cell(&key).await?;
            let mut batch = Batch::new();
            batch.require(Condition::version(key, before.as_ref().map_or(0, |cell| cell.version)));
            match before.as_ref().map(read).transpose()? {
                Some(before) if matches!(job.time, JobTime::Every(_)) && before.job.time == job.time => {
                    if before.job == job {
                        return Ok(());
                    }
                    let value = StoredJob { job: job.clone(), ..before };
                    batch.put(self.key(&job.id), Value::json(FORMAT, &value)?);
                }
                Some(before) => {
                    index(&before.job.kind).remove(&mut batch, before.due, &self.key(&job.id));
                    self.add(&mut batch, job.clone())?;
                }
                None => self.add(&mut batch, job.clone())?,
            }
            match self.0.store.commit(batch).await {
                Ok(_) => {
                    self.poke();
                    return Ok(());
                }
                Err(StoreError::Condition { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(RuntimeError::internal(format!("the job {} could not be put in: it was changed all the time", job.id)))
    }

    /// Takes a job out. One that is being done is not stopped, but not done again. Gives whether it was there.
    ///
    /// # Errors
    /// What the store says.
    pub async fn cancel(&self, id: &str) -> Result<bool> {
        let key = self.key(id);
        loop {
            let Some(cell) = self.0.store.cell(&key).await? else { return Ok(false) };
            let stored = read(&cell)?;
            let mut batch = Batch::new();
            batch.require(Condition::version(key.clone(), cell.version)).delete_cell(key.clone());
            index(&stored.job.kind).remove(&mut batch, stored.due, &key);
            match self.0.store.commit(batch).await {
                Ok(_) => return Ok(true),
                Err(StoreError::Condition { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A job, if it is there.
    ///
    /// # Errors
    /// What the store says.
    pub async fn get(&self, id: &str) -> Result<Option<StoredJob>> {
        let cell = self.0.store.cell(&self.key(id)).await?;
        Ok(cell.as_ref().map(read).transpose()?)
    }

    /// The jobs whose ids come after `after`, in the order of their ids, at most `limit` of them.
    ///
    /// # Errors
    /// What the store says.
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<StoredJob>> {
        let after = after.map(|id| self.key(id));
        let cells = self.0.store.cells(&jobs(&self.0.tenant), after.as_ref(), Direction::Forward, limit).await?;
        Ok(cells.iter().map(read).collect::<Result<_, StoreError>>()?)
    }

    /// Sweeps until it is cancelled, then waits for what it has begun.
    pub async fn run(&self, cancel: CancellationToken) {
        let mut working: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        while !cancel.is_cancelled() {
            let room = self.0.workers.saturating_sub(working.len());
            let claimed = match self.claim_due(room).await {
                Ok(claimed) => claimed,
                Err(error) => {
                    tracing::warn!(%error, "the store could not be asked what is due");
                    Vec::new()
                }
            };
            let idle = claimed.is_empty();
            working.extend(claimed.into_iter().map(|claim| self.work(claim, &cancel).boxed()));
            let nap = async {
                if room > 0 && !idle {
                    return;
                }
                let next = self.next_due().await;
                let wait = next.map_or(NAP, |next| next.since(self.0.env.now()).min(NAP));
                // What is due and not ours to do would be looked at without a pause.
                self.0.env.sleep(wait.max(Duration::from_millis(20))).await;
            };
            tokio::select! {
                () = cancel.cancelled() => {}
                () = self.0.poked.notified() => {}
                Some(()) = working.next(), if !working.is_empty() => {}
                () = nap => {}
            }
        }
        while working.next().await.is_some() {}
    }

    /// Does what is due now, until nothing more is, and gives how many jobs that were: for tests, and for programs that
    /// are started by a scheduler of their own.
    ///
    /// # Errors
    /// What the store says.
    pub async fn run_due(&self) -> Result<usize> {
        let (cancel, mut count) = (CancellationToken::new(), 0);
        loop {
            let claimed = self.claim_due(self.0.workers).await?;
            if claimed.is_empty() {
                return Ok(count);
            }
            count += claimed.len();
            futures_util::future::join_all(claimed.into_iter().map(|claim| self.work(claim, &cancel))).await;
        }
    }

    async fn claim_due(&self, room: usize) -> Result<Vec<Claim>> {
        if room == 0 {
            return Ok(Vec::new());
        }
        let now = self.0.store.now().await?;
        let mut due = Vec::new();
        for kind in self.0.handlers.keys() {
            // Those of other tenants are in the index too.
            due.extend(index(kind).due(&*self.0.store, now, SWEEP).await?);
        }
        due.sort_by_key(|due| due.at);
        let mut claimed = Vec::new();
        for due in due {
            if claimed.len() == room {
                break;
            }
            claimed.extend(self.claim(&due).await?);
        }
        Ok(claimed)
    }

    /// When the next job of a kind that is done here is due.
    async fn next_due(&self) -> Option<Timestamp> {
        let mut earliest: Option<Timestamp> = None;
        for kind in self.0.handlers.keys() {
            let next = index(kind).next(&*self.0.store).await.ok().flatten();
            earliest = earliest.into_iter().chain(next).min();
        }
        earliest
    }

    async fn claim(&self, due: &Due) -> Result<Option<Claim>> {
        if !due.item.starts_with(&jobs(&self.0.tenant)) {
            return Ok(None);
        }
        let mut batch = Batch::new();
        batch.require(Condition::version(due.cell.key.clone(), due.cell.version)).delete_cell(due.cell.key.clone());
        let found =
            self.0.store.cell(&due.item).await?.map(|cell| Ok::<_, StoreError>((read(&cell)?, cell))).transpose()?;
        let Some((mut stored, cell)) = found.filter(|(stored, _)| self.0.handlers.contains_key(&stored.job.kind))
        else {
            // Its job is gone, or another one has taken its id.
            let _ = self.0.store.commit(batch).await;
            return Ok(None);
        };
        stored.state = JobState::Running;
        stored.tried += 1;
        stored.due = self.0.store.now().await?.plus(CLAIM);
        batch.require(Condition::version(cell.key.clone(), cell.version));
        self.write(&mut batch, stored.clone())?;
        match self.0.store.commit(batch).await {
            Ok(_) => Ok(Some(Claim { stored, key: cell.key, version: cell.version + 1 })),
            // Somebody was faster.
            Err(StoreError::Condition { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn work(&self, mut claim: Claim, stop: &CancellationToken) {
        let Some(handler) = self.0.handlers.get(&claim.stored.job.kind) else { return };
        let cancel = stop.child_token();
        let job = DueJob {
            job: claim.stored.job.clone(),
            meant_for: claim.stored.meant_for,
            attempt: claim.stored.tried,
            cancel: cancel.clone(),
        };
        let running = AssertUnwindSafe(handler.run(job)).catch_unwind();
        let mut running = std::pin::pin!(running);
        let ended = loop {
            tokio::select! {
                ended = &mut running => break ended,
                () = self.0.env.sleep(CLAIM / 3) => {
                    if !self.renew(&mut claim).await {
                        cancel.cancel();
                    }
                }
            }
        };
        let ended = ended.unwrap_or_else(|panic| {
            Err(JobFailure { problem: format!("it panicked: {}", panic_text(panic.as_ref())), again: true })
        });
        if let Err(error) = self.settle(claim, ended, stop.is_cancelled()).await {
            tracing::warn!(%error, "the end of a job could not be recorded; it will be done again");
        }
    }

    /// Whether the job is still ours.
    async fn renew(&self, claim: &mut Claim) -> bool {
        let renewed = async {
            let mut batch = Batch::new();
            batch.require(Condition::version(claim.key.clone(), claim.version));
            index(&claim.stored.job.kind).remove(&mut batch, claim.stored.due, &claim.key);
            claim.stored.due = self.0.store.now().await?.plus(CLAIM);
            self.write(&mut batch, claim.stored.clone())?;
            self.0.store.commit(batch).await?;
            Ok::<_, RuntimeError>(())
        };
        match renewed.await {
            Ok(()) => {
                claim.version += 1;
                true
            }
            Err(RuntimeError::Store(StoreError::Condition { .. })) => false,
            Err(error) => {
                tracing::warn!(job = claim.stored.job.id, %error, "the claim on a job could not be renewed");
                true
            }
        }
    }

    async fn settle(&self, claim: Claim, ended: Result<(), JobFailure>, stopping: bool) -> Result<()> {
        let Claim { mut stored, key, version } = claim;
        let mut batch = Batch::new();
        batch.require(Condition::version(key.clone(), version));
        index(&stored.job.kind).remove(&mut batch, stored.due, &key);
        let now = self.0.store.now().await?;
        let problem = ended.as_ref().err().map(|failure| failure.problem.clone());
        match ended {
            // Whoever sweeps next does it; this try does not count.
            Err(_) if stopping => {
                stored.tried = stored.tried.saturating_sub(1);
                stored.state = JobState::Waiting;
                stored.due = now;
                self.write(&mut batch, stored)?;
            }
            Err(failure) if failure.again && stored.tried < stored.job.tries => {
                let wait = BACKOFF.0.saturating_mul(1 << (stored.tried - 1).min(10)).min(BACKOFF.1);
                tracing::warn!(
                    job = stored.job.id,
                    problem = failure.problem,
                    ?wait,
                    "a job failed and is tried again"
                );
                (stored.state, stored.problem) = (JobState::Waiting, problem);
                stored.due = now.plus(wait);
                self.write(&mut batch, stored)?;
            }
            ended => match &stored.job.time {
                JobTime::Every(cron) => match cron.next_after(now) {
                    Some(next) => {
                        (stored.state, stored.problem, stored.tried) = (JobState::Waiting, problem, 0);
                        (stored.meant_for, stored.due) = (next, next);
                        self.write(&mut batch, stored)?;
                    }
                    None => {
                        batch.delete_cell(key);
                    }
                },
                JobTime::Now | JobTime::At(_) if ended.is_ok() => {
                    batch.delete_cell(key);
                }
                JobTime::Now | JobTime::At(_) => {
                    tracing::error!(job = stored.job.id, problem, "a job failed for good");
                    (stored.state, stored.problem) = (JobState::Failed, problem);
                    batch.put(key, Value::json(FORMAT, &stored)?);
                }
            },
        }
        match self.0.store.commit(batch).await {
            // It was cancelled or put in anew meanwhile: what was done, was done.
            Ok(_) | Err(StoreError::Condition { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn write(&self, batch: &mut Batch, stored: StoredJob) -> Result<()> {
        let key = self.key(&stored.job.id);
        index(&stored.job.kind).put(batch, When::At(stored.due), &key, Value::new(FORMAT, Vec::new()));
        batch.put(key, Value::json(FORMAT, &stored)?);
        Ok(())
    }
}

/// What is due of one kind.
fn index(kind: &str) -> DueIndex {
    DueIndex::new(&format!("schedule {kind}"))
}

/// What the keys of all jobs of a tenant begin with.
fn jobs(tenant: &Tenant) -> Key {
    Key::new(tenant).text("schedule")
}

fn read(cell: &Cell) -> Result<StoredJob, StoreError> {
    cell.value.from_json(FORMAT)
}

fn first_time(time: &JobTime, now: Timestamp) -> Timestamp {
    match time {
        JobTime::Now => now,
        JobTime::At(at) => *at,
        // An expression that never happens again is not taken when it is read.
        JobTime::Every(cron) => cron.next_after(now).unwrap_or(Timestamp::from_micros(i64::MAX)),
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("kinds", &self.0.handlers.keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

impl fmt::Debug for SchedulerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerBuilder").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
