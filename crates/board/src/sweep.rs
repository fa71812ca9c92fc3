//! What has to happen although nobody asks: runs that are overdue are closed, and what is owed is sent. Any number of processes
//! may do it; each thing happens once, but for notifications, which may arrive twice.

use crate::boards::Boards;
use crate::control::Control;
use crate::control::run::Expiry;
use crate::dispatch::Scope;
use crate::error::Result;
use crate::layout;
use crate::stored::FORMAT;
use futures_util::future::{Either, select};
use placet_core::env::Task;
use placet_store::due::{Due, When};
use placet_store::{Batch, Direction, Key, StoreError, Value};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How often and how much a sweep does.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SweepOptions {
    /// How long between two passes at most: 2 s. A run that is due earlier is closed when it is.
    pub interval: Duration,
    /// How many boards one pass looks at, for each of the two things it does: 1,000. The next goes on from there.
    pub limit: usize,
    /// How long what was written by another process is left to that to send: 5 s.
    pub grace: Duration,
}

impl Default for SweepOptions {
    fn default() -> Self {
        SweepOptions { interval: Duration::from_secs(2), limit: 1000, grace: Duration::from_secs(5) }
    }
}

impl SweepOptions {
    /// Sets how long there is between two passes at most.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_millis(1));
        self
    }

    /// Sets how many boards one pass looks at.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit.max(1);
        self
    }

    /// Sets how long what was written by another process is left to that to send.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

/// A sweep in the background: one task for all boards. It ends when this is dropped.
pub struct Sweep {
    task: Option<Task>,
    stop: Arc<Notify>,
}

impl Sweep {
    /// Ends the sweep, after the pass that it is at.
    pub async fn stop(mut self) {
        self.stop.notify_one();
        if let Some(task) = self.task.take() {
            let _ = task.join().await;
        }
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

impl fmt::Debug for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep").finish_non_exhaustive()
    }
}

impl Boards {
    /// Sweeps in the background until the sweep is dropped.
    #[must_use]
    pub fn sweep(&self, options: SweepOptions) -> Sweep {
        let stop = Arc::new(Notify::new());
        let (boards, stopped) = (self.clone(), stop.clone());
        let task = self.env().spawn("board sweep", async move {
            let stopped = pin!(stopped.notified());
            let mut stopped = Some(stopped);
            let mut beyond = None;
            while let Some(stop) = stopped.take() {
                let wait = boards.pass(options, &mut beyond).await;
                match select(stop, boards.env().sleep(wait)).await {
                    Either::Left(_) => return,
                    Either::Right((_, stop)) => stopped = Some(stop),
                }
            }
        });
        Sweep { task: Some(task), stop }
    }

    /// One pass; gives how long to wait for the next.
    async fn pass(&self, options: SweepOptions, beyond: &mut Option<Key>) -> Duration {
        if let Err(error) = self.close_expired(options.limit).await {
            tracing::warn!(%error, "the sweep could not look for overdue runs");
        }
        let scope = Scope { grace: options.grace, ..Scope::BACKGROUND };
        if let Err(error) = self.relay_within(scope, options.limit, beyond, &mut Vec::new()).await {
            tracing::warn!(%error, "the sweep could not look for what is owed");
        }
        let store = &**self.store();
        let next = match (self.inner.due.next(store).await, store.now().await) {
            (Ok(Some(due)), Ok(now)) => due.since(now),
            _ => options.interval,
        };
        next.clamp(Duration::from_millis(1), options.interval)
    }

    /// Closes runs that are past a deadline, whatever their tenant, asking the predicate of those that are silent; gives
    /// those that have closed. That one cannot be closed does not keep the others from it.
    ///
    /// # Errors
    /// What the store says when it is asked what is due.
    pub async fn close_expired(&self, limit: usize) -> Result<Vec<Control>> {
        let store = &**self.store();
        let now = store.now().await?;
        let mut closed = Vec::new();
        for due in self.inner.due.due(store, now, placet_store::MAX_READ).await? {
            if closed.len() >= limit {
                break;
            }
            let Some((tenant, id)) = layout::board_of(&due.item) else { continue };
            let control = Control::new(self.inner.handle(tenant, id));
            match self.close_due(&control, &due).await {
                Ok(true) => closed.push(control),
                Ok(false) => {}
                Err(error) => tracing::warn!(board = %control.board_id(), %error, "an overdue run could not be closed"),
            }
        }
        Ok(closed)
    }

    /// Closes a run that may be due, and files it anew where it goes on; gives whether it has closed.
    async fn close_due(&self, control: &Control, due: &Due) -> Result<bool> {
        let handle = &control.0;
        let was_open = handle.fresh().await?.is_open();
        let expiry = if was_open { handle.expire().await? } else { Expiry::Closed };
        let mut batch = Batch::new();
        self.inner.due.claim(&mut batch, due);
        if expiry != Expiry::Closed
            && let Some(run) = control.reader().run().await?
        {
            let mut next = run.idle_deadline.min(run.wall_deadline);
            if expiry == Expiry::NotOurs {
                // Whoever has the predicate looks; the wall clock counts for all.
                next = run.now.plus((run.limits.idle / 4).max(Duration::from_secs(1))).min(run.wall_deadline);
            }
            let next = next.max(due.at.plus(Duration::from_micros(1)));
            self.inner.due.put(&mut batch, When::At(next), &due.item, Value::new(FORMAT, ""));
        }
        match self.store().commit(batch).await {
            // Another sweep was faster.
            Ok(_) | Err(StoreError::Condition { .. }) => Ok(was_open && expiry == Expiry::Closed),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends what is owed on any board, whatever its tenant, to agents that can be reached from this process; gives who was told.
    ///
    /// # Errors
    /// What the store says when it is asked what is owed.
    pub async fn relay(&self, limit: usize) -> Result<Vec<(Control, String)>> {
        let mut told = Vec::new();
        self.relay_within(Scope::RELAY, limit, &mut None, &mut told).await?;
        Ok(told)
    }

    /// Looks at the boards on which something is owed, from where the last look ended.
    async fn relay_within(
        &self,
        scope: Scope,
        limit: usize,
        beyond: &mut Option<Key>,
        told: &mut Vec<(Control, String)>,
    ) -> Result<()> {
        let all = layout::all_owed();
        for _ in 0..limit {
            let row = self.store().cells(&all, beyond.as_ref(), Direction::Forward, 1).await?.pop();
            let Some((tenant, id, ..)) = row.and_then(|cell| layout::owed_row(&cell.key)) else {
                *beyond = None;
                return Ok(());
            };
            let control = Control::new(self.inner.handle(tenant, id));
            // Beyond all rows of this board: none of them has such a part.
            *beyond = Some(control.0.layout().owed.clone().bytes([0xFF]));
            // What everybody was told of is settled by whoever comes across it.
            if let Err(error) = control.0.condense().await {
                tracing::warn!(board = %control.board_id(), %error, "what was sent could not be settled");
            }
            match control.0.round(scope).await {
                Ok(round) => told.extend(round.told.into_iter().map(|agent| (control.clone(), agent))),
                Err(error) => tracing::warn!(board = %control.board_id(), %error, "what is owed could not be sent"),
            }
        }
        Ok(())
    }
}
