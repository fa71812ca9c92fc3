//! What agents are owed, from the rows that the store keeps of it.

use super::*;

/// What an agent is owed.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// When the first of it is due; nothing where it is owed nothing.
    pub(crate) due: Option<Timestamp>,
    /// The regions that changed.
    pub(crate) regions: BTreeSet<String>,
    pub(crate) progress: Progress,
}

impl Found {
    pub(super) fn add(&mut self, due: Timestamp, regions: impl IntoIterator<Item = String>) {
        self.due = Some(self.due.map_or(due, |first| first.min(due)));
        self.regions.extend(regions);
    }
}

impl Handle {
    /// The rows of writes above `after` and up to `head`.
    pub(super) async fn rows(&self, after: u64, head: u64, limit: usize) -> Result<Vec<Row>> {
        let owed = &self.layout().owed;
        // Rows of registrations come after those of writes.
        let last = owed.clone().u64(head);
        let mut found = Vec::new();
        let mut beyond = Some(owed.clone().u64(after));
        loop {
            let cells = self.store().cells(owed, beyond.as_ref(), Direction::Forward, ROWS).await?;
            let is_last = cells.len() < ROWS;
            beyond = cells.last().map(|cell| cell.key.clone());
            for cell in cells {
                if cell.key > last || found.len() >= limit {
                    return Ok(found);
                }
                let number = last_number(&cell.key).unwrap_or(0);
                found.push(Row { number, owed: Owed::read(&cell.value)?, key: cell.key });
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    /// The agents that are owed a word of all that they subscribe to, and since when.
    pub(super) async fn joined(&self) -> Result<BTreeMap<String, Timestamp>> {
        let owed = &self.layout().owed;
        let mut found = BTreeMap::new();
        let mut beyond = Some(owed.clone().u64(u64::MAX));
        loop {
            let cells = self.store().cells(owed, beyond.as_ref(), Direction::Forward, ROWS).await?;
            for cell in &cells {
                if let Some((_, _, Some(agent))) = owed_row(&cell.key) {
                    found.insert(agent, cell.value.leading_instant().unwrap_or(Timestamp::EPOCH));
                }
            }
            if cells.len() < ROWS {
                return Ok(found);
            }
            beyond = cells.last().map(|cell| cell.key.clone());
        }
    }

    /// Removes the first rows of which everybody is served; looks at so many.
    pub(crate) async fn collect(&self, limit: usize) -> Result<()> {
        let rows = self.rows(0, u64::MAX, limit).await?;
        if rows.is_empty() {
            return Ok(());
        }
        let progress = self.progress().await?;
        let through = |agent: &str| progress.get(agent).map_or(0, Progress::served);
        let served: Vec<_> = rows.iter().filter(|row| row.is_served(through)).collect();
        for rows in served.chunks(ROWS) {
            let mut batch = Batch::new();
            for row in rows {
                batch.delete_cell(row.key.clone());
            }
            self.store().commit(batch).await?;
        }
        Ok(())
    }

    /// Who is owed a word that nobody has sent, and of which number; 0 for that of a registration.
    pub(crate) async fn unsent(&self) -> Result<Vec<(String, u64)>> {
        let progress = self.progress().await?;
        let mut found: Vec<_> = self.joined().await?.into_keys().map(|agent| (agent, 0)).collect();
        for row in self.rows(0, u64::MAX, usize::MAX).await? {
            for agent in row.owed.hearers {
                if progress.get(&agent).map_or(0, Progress::served) < row.number {
                    found.push((agent, row.number));
                }
            }
        }
        Ok(found)
    }

    /// What an agent is owed of the numbers above `told` and up to `head`.
    pub(crate) async fn owed(&self, agent: &StoredAgent, snapshot: &Snapshot, told: u64, head: u64) -> Result<Found> {
        let progress = self.progress().await?.get(&*agent.name).copied().unwrap_or_default();
        let mut found = Found { progress, ..Found::default() };
        for row in self.rows(told.max(progress.served()), head, usize::MAX).await? {
            if row.owed.hearers.iter().any(|hearer| *hearer == *agent.name) {
                found.add(row.owed.due, [row.owed.region]);
            }
        }
        if told == 0
            && head > progress.cursors.acknowledged
            && let Some(registered) = self.joined().await?.get(&*agent.name)
            && let (Some(due), regions) = self.holding(agent, snapshot, *registered).await?
        {
            found.add(due, regions);
        }
        Ok(found)
    }

    /// The regions that an agent subscribes to and that hold something: when the first of it is due, and which. A level is due
    /// at once, a premise when its window has passed since the registration.
    pub(crate) async fn holding(
        &self,
        agent: &StoredAgent,
        snapshot: &Snapshot,
        registered: Timestamp,
    ) -> Result<(Option<Timestamp>, Vec<String>)> {
        let (mut due, mut regions): (Option<Timestamp>, _) = (None, Vec::new());
        for (name, known) in &snapshot.regions {
            if !agent.hears(name, known.kind) {
                continue;
            }
            let (holds, at) = match known.kind {
                RegionKind::Level => {
                    let first = self.store().cells(&known.key, None, Direction::Forward, 1).await?;
                    (!first.is_empty(), registered)
                }
                RegionKind::Premise => (self.store().cell(&known.key).await?.is_some(), registered.plus(known.window)),
            };
            if holds {
                due = Some(due.map_or(at, |first| first.min(at)));
                regions.push(name.to_string());
            }
        }
        Ok((due, regions))
    }
}
