//! Waiting for the growth of a log: notified after the commit, never inside it, and polled where other processes write.

use crate::error::Result;
use crate::key::LogName;
use crate::store::LogHead;
use async_trait::async_trait;
use futures_util::future::{Either, select};
use placet_core::Clock;
use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Waits for the growth of one log. Dropping it ends the watch.
pub struct Watch {
    log: LogName,
    heads: Arc<dyn Heads>,
    notify: Arc<Notify>,
    growth: Arc<Growth>,
    poll: Option<Poll>,
}

/// How a watch learns of what other processes wrote.
#[derive(Clone, Debug)]
pub(crate) struct Poll {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) every: Duration,
}

/// The part of a store that a watch reads.
#[async_trait]
pub(crate) trait Heads: Send + Sync {
    async fn head(&self, log: &LogName) -> Result<LogHead>;
}

impl Watch {
    /// Completes with the log's head once its number is above `number`; at once if it is already.
    ///
    /// # Errors
    /// What reading the head says.
    pub async fn grown_past(&mut self, number: u64) -> Result<LogHead> {
        loop {
            // Registered before the look at the head, so that a commit in between is not missed.
            let mut grown = pin!(self.notify.notified());
            grown.as_mut().enable();
            let head = self.heads.head(&self.log).await?;
            if head.number > number {
                return Ok(head);
            }
            match &self.poll {
                None => grown.await,
                Some(poll) => match select(grown, poll.clock.sleep(poll.every)).await {
                    Either::Left(_) | Either::Right(_) => {}
                },
            }
        }
    }

    /// The log that is watched.
    #[must_use]
    pub fn log(&self) -> &LogName {
        &self.log
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("log", &self.log).field("poll", &self.poll).finish_non_exhaustive()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.growth.forget(&self.log, &self.notify);
    }
}

/// Who in this process waits for which log.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    // Read without the lock, so that a commit that nobody watches costs one load.
    watching: AtomicUsize,
    logs: Mutex<HashMap<LogName, Arc<Notify>>>,
}

impl Growth {
    pub(crate) fn watch(self: &Arc<Self>, log: &LogName, heads: Arc<dyn Heads>, poll: Option<Poll>) -> Watch {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let notify = logs.entry(log.clone()).or_default().clone();
        self.watching.store(logs.len(), Ordering::SeqCst);
        Watch { log: log.clone(), heads, notify, growth: self.clone(), poll }
    }

    fn forget(&self, log: &LogName, notify: &Arc<Notify>) {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        // Two are left when this was the last watch: the table's and the caller's.
        if Arc::strong_count(notify) <= 2 {
            logs.remove(log);
        }
        self.watching.store(logs.len(), Ordering::SeqCst);
    }

    /// Whether anybody waits for any log.
    pub(crate) fn is_watched(&self) -> bool {
        self.watching.load(Ordering::SeqCst) > 0
    }

    /// Wakes who waits for a log of which `grown` says so.
    #[cfg(feature = "postgres")]
    pub(crate) fn announce_those(&self, grown: impl Fn(&LogName) -> bool) {
        if !self.is_watched() {
            return;
        }
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, notify) in logs.iter().filter(|(log, _)| grown(log)) {
            notify.notify_waiters();
        }
    }

    /// Wakes who waits for one of these logs. Called after their commit.
    pub(crate) fn announce<'a>(&self, grown: impl Iterator<Item = &'a LogName>) {
        if !self.is_watched() {
            return;
        }
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        for log in grown {
            if let Some(notify) = logs.get(log) {
                notify.notify_waiters();
            }
        }
    }
}
