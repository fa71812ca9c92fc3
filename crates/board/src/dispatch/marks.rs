//! Noting who was told of what, and through which number it arrived.

use super::*;

impl Handle {
    /// Notes that these agents are told through `head`, and gives what each is told: nothing where it has answered at this very
    /// moment. Gives nothing at all where the run is another.
    pub(crate) async fn mark(
        &self,
        snapshot: &Snapshot,
        head: u64,
        mut agents: Vec<Due<'_>>,
        aside: &Aside,
    ) -> Result<Option<Vec<Option<Notification>>>> {
        let layout = self.layout();
        for _ in 0..MARKS {
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(layout));
            let moot = aside.moot.len().min(ROWS);
            for (row, as_it_was) in aside.moot.iter().take(moot) {
                batch.require(as_it_was.clone()).delete_cell(row.clone());
            }
            for agent in aside.quiet.iter().take(AGENTS) {
                batch.put(agent.clone(), stored::sent(head));
            }
            let mut notifications = Vec::with_capacity(agents.len());
            let mut tells = false;
            for due in &agents {
                let cursors = due.progress.cursors;
                if cursors.acknowledged >= head {
                    notifications.push(None);
                    continue;
                }
                let notification = Notification {
                    board_id: self.state.id.clone(),
                    notification_id: head,
                    agent: due.agent.to_owned(),
                    from_sequence: cursors.acknowledged + 1,
                    to_sequence: head,
                    regions: due.regions.clone(),
                };
                let key = layout.agent(due.agent);
                batch.require(Condition::version(key.clone(), due.progress.version));
                batch.put(key, Cursors { notified: cursors.notified.max(head), ..cursors }.value());
                let decision = Decision::NotificationDispatched {
                    agent: notification.agent.clone(),
                    from_sequence: notification.from_sequence,
                    to_sequence: head,
                    regions: notification.regions.clone(),
                };
                self.decide(&mut batch, decision.value()?);
                tells = true;
                notifications.push(Some(notification));
            }
            if tells {
                self.push_idle(&mut batch, snapshot);
            }
            match self.store().commit(batch).await {
                Ok(committed) => {
                    self.decided(&committed);
                    return Ok(Some(notifications));
                }
                Err(StoreError::Condition { index, .. }) => {
                    // Whoever looks next finds out what is owed then.
                    if index <= moot {
                        self.fresh().await?;
                        return Ok(None);
                    }
                    let progress = self.progress().await?;
                    for due in &mut agents {
                        due.progress = progress.get(due.agent).copied().unwrap_or_default();
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.busy())
    }

    /// Notes what has arrived and what has not, and removes the rows of which everybody is served.
    pub(super) async fn settle(&self, sent: Vec<Sent>, round: &mut Round) -> Result<()> {
        if sent.is_empty() {
            return Ok(());
        }
        let layout = self.layout();
        let snapshot = self.snapshot().await?;
        let (mut told, mut merged, mut rows) = (BTreeMap::new(), Vec::new(), None);
        let mut batch = Batch::new();
        batch.require(snapshot.same_run(layout));
        for (sending, result) in sent {
            let Notification { agent, to_sequence, .. } = sending.notification;
            if let Some(wait) = self.arrived(&agent, to_sequence, result.as_ref().err()) {
                round.again_in(wait);
            }
            match result {
                Ok(()) => {
                    merged.extend(sending.merged);
                    rows = Some(sending.rows);
                    round.told.insert(agent.clone());
                    told.insert(agent, to_sequence);
                }
                Err(failure) => {
                    tracing::warn!(board = %self.state.id, %agent, %failure, "a notification did not arrive");
                    round.failed.insert(agent.clone());
                    let failed = Decision::NotificationFailed { agent, to_sequence, cause: failure.cause };
                    self.decide(&mut batch, failed.value()?);
                }
            }
        }
        let mut served = Vec::new();
        if let Some(rows) = &rows {
            let progress = self.progress().await?;
            for (agent, through) in &told {
                let before = progress.get(agent).map_or(0, |progress| progress.sent);
                batch.put(layout.sent(agent), stored::sent(before.max(*through)));
            }
            let through = |agent: &str| {
                let before = progress.get(agent).map_or(0, Progress::served);
                told.get(agent).map_or(before, |through| before.max(*through))
            };
            served.extend(rows.iter().filter(|row| row.is_served(through)).map(|row| &row.key));
        }
        let mut served = served.into_iter();
        loop {
            for row in served.by_ref().take(ROWS) {
                batch.delete_cell(row.clone());
            }
            if batch.is_empty() {
                break;
            }
            match self.store().commit(std::mem::take(&mut batch)).await {
                Ok(committed) => self.decided(&committed),
                // The run has closed, and all this is gone.
                Err(StoreError::Condition { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        for (row, as_it_was) in merged {
            batch.require(as_it_was).delete_cell(row);
            match self.store().commit(std::mem::take(&mut batch)).await {
                Ok(_) => {}
                // The agent came back, or more was merged: it is told once more than it had to be.
                Err(StoreError::Condition { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Notes how it went; gives how long an agent that was not reached is left alone.
    fn arrived(&self, agent: &str, through: u64, failure: Option<&DeliveryFailure>) -> Option<Duration> {
        let now = self.inner.env.clock().steady();
        let mut book = self.state.dispatching.book();
        if let Some(under_way) = book.under_way.get_mut(agent) {
            if let Some(at) = under_way.iter().position(|number| *number == through) {
                under_way.swap_remove(at);
            }
            if under_way.is_empty() {
                book.under_way.remove(agent);
            }
        }
        match failure {
            None => {
                book.failed.remove(agent);
                None
            }
            Some(failure) => {
                let wait = match book.failed.get(agent) {
                    _ if failure.is_refusal => LONGEST_WAIT,
                    None => FIRST_WAIT,
                    Some(failed) => (failed.wait * 2).min(LONGEST_WAIT),
                };
                // Who asks to be left alone is, within reason.
                let wait = wait.max(failure.retry_after.unwrap_or_default()).min(LONGEST_WAIT);
                book.failed.insert(agent.to_owned(), Failed { wait, until: now.saturating_add(wait) });
                Some(wait)
            }
        }
    }
}
