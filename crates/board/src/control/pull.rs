//! Agents that ask for their notifications by themselves, and what a process does when somebody tells it that time has passed.

use super::Control;
use super::agents::ROWS;
use crate::dispatch::{Aside, Due, Scope};
use crate::error::{BoardError, Result};
use crate::notify::Notification;
use futures_util::future::{Either, select};
use std::time::Duration;

impl Control {
    /// The next notification for an agent, waiting for at most `wait` until there is one. `after` is the id of the last that it
    /// was given and is still at work on; with 0 it is given again what it has not answered. What it is owed stays until it
    /// answers.
    ///
    /// # Errors
    /// [`BoardError::UnknownAgent`], [`BoardError::RunClosed`], [`BoardError::UnknownBoard`]; what the store says.
    pub async fn pull(&self, agent: &str, after: u64, wait: Duration) -> Result<Option<Notification>> {
        let handle = &self.0;
        let env = &handle.inner.env;
        let until = env.clock().steady().saturating_add(wait);
        // Whatever wakes an agent, and the end of the run as well, is decided, and so recorded there.
        let mut watch = handle.inner.store.watch(&handle.layout().decisions);
        loop {
            let seen = handle.store().log_head(&handle.layout().decisions).await?.number;
            let snapshot = self.open_run().await?;
            let Some(declared) = snapshot.agent(agent) else {
                return Err(BoardError::UnknownAgent { agent: agent.to_owned() });
            };
            let head = handle.store().log_head(&handle.layout().log).await?.number;
            let now = handle.store().now().await?;
            let found = handle.owed(declared, &snapshot, after, head).await?;
            let mut left = until.saturating_sub(env.clock().steady());
            match found.due {
                Some(due) if due <= now && found.progress.cursors.notified >= head => {
                    return Ok(Some(Notification {
                        board_id: self.board_id().clone(),
                        notification_id: head,
                        agent: agent.to_owned(),
                        from_sequence: found.progress.cursors.acknowledged + 1,
                        to_sequence: head,
                        regions: found.regions,
                    }));
                }
                Some(due) if due <= now => {
                    let due = Due { agent, progress: found.progress, regions: found.regions };
                    let marked = handle.mark(&snapshot, head, vec![due], &Aside::default()).await?;
                    match marked.and_then(|mut marked| marked.pop()).flatten() {
                        Some(notification) => return Ok(Some(notification)),
                        // It answered at this very moment, or the run is another.
                        None => continue,
                    }
                }
                Some(due) => left = left.min(due.since(now)),
                None => {}
            }
            if env.clock().steady() >= until {
                return Ok(None);
            }
            match select(Box::pin(watch.grown_past(seen)), env.sleep(left)).await {
                Either::Left((grown, _)) => drop(grown?),
                Either::Right(_) => {}
            }
        }
    }

    /// Sends what is owed to agents that can be reached from this process and was not sent, be it due or not where they are
    /// not told in this process; gives who was told.
    ///
    /// # Errors
    /// What the store says. What was not sent stays owed.
    pub async fn relay(&self) -> Result<Vec<String>> {
        self.0.fresh().await?;
        // What was answered already is not owed.
        self.0.collect(ROWS).await?;
        Ok(self.0.round(Scope::RELAY).await?.told.into_iter().collect())
    }

    /// Tells the agents that listen in this process what other processes' writes owe them and is due; gives who was told.
    /// Where the run has closed, this process hears of it.
    ///
    /// # Errors
    /// What the store says. What was not told stays owed.
    pub async fn notify_due(&self) -> Result<Vec<String>> {
        self.0.fresh().await?;
        Ok(self.0.round(Scope::LISTENERS).await?.told.into_iter().collect())
    }

    /// Does what is due by now on the store's clock: closes the run if it is overdue, and tells agents whose batch windows have
    /// passed. For whoever moves a clock by hand, or tells agents before a write answers and has no sweep.
    ///
    /// # Errors
    /// What the store says.
    pub async fn run_due(&self) -> Result<()> {
        // Whoever is told in time may answer, and that is something that happened.
        self.0.round(Scope::INLINE).await?;
        self.0.expire().await?;
        Ok(())
    }
}
