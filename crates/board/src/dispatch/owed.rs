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

    /// The rows of agents that are owed much at once, each with the condition that it is as it was.
    pub(super) async fn merged(&self) -> Result<BTreeMap<String, (Merged, Condition)>> {
        let owed = &self.layout().owed;
        let mut found = BTreeMap::new();
        let mut beyond = Some(owed.clone().u64(u64::MAX));
        loop {
            let cells = self.store().cells(owed, beyond.as_ref(), Direction::Forward, ROWS).await?;
            for cell in &cells {
                if let Some((_, _, Some(agent))) = owed_row(&cell.key) {
                    let as_it_was = Condition::version(cell.key.clone(), cell.version);
                    found.insert(agent, (Merged::read(&cell.value)?, as_it_was));
                }
            }
            if cells.len() < ROWS {
                return Ok(found);
            }
            beyond = cells.last().map(|cell| cell.key.clone());
        }
    }

    /// Removes the first rows of which everybody is served; looks at so many, and gives those that stay.
    pub(crate) async fn collect(&self, limit: usize) -> Result<Vec<Row>> {
        let rows = self.rows(0, u64::MAX, limit).await?;
        if rows.is_empty() {
            return Ok(rows);
        }
        let progress = self.progress().await?;
        let through = |agent: &str| progress.get(agent).map_or(0, Progress::served);
        let (served, stay): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.is_served(through));
        self.remove(&served).await?;
        Ok(stay)
    }

    async fn remove(&self, rows: &[Row]) -> Result<()> {
        for rows in rows.chunks(ROWS) {
            let mut batch = Batch::new();
            for row in rows {
                batch.delete_cell(row.key.clone());
            }
            self.store().commit(batch).await?;
        }
        Ok(())
    }

    /// Removes rows of which everybody is served, and where many stay (somebody cannot be reached, or does not answer) makes one
    /// of them for each agent: what an agent is owed is one range, however many writes it is made of.
    pub(crate) async fn condense(&self) -> Result<()> {
        for _ in 0..CONDENSED {
            let stay = self.collect(ROWS).await?;
            if stay.len() < MANY_ROWS || !self.merge(&stay).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes these rows, the first that there are, one for each agent that they name and that is not served yet. Gives whether
    /// that went well; it does not where agents come or go at this moment.
    async fn merge(&self, rows: &[Row]) -> Result<bool> {
        let (snapshot, layout) = (self.fresh().await?, self.layout());
        if !snapshot.is_open() {
            return Ok(false);
        }
        let (progress, before) = (self.progress().await?, self.merged().await?);
        let mut owed: BTreeMap<&str, Merged> = BTreeMap::new();
        for row in rows {
            for agent in &row.owed.hearers {
                if progress.get(agent).map_or(0, Progress::served) >= row.number {
                    continue;
                }
                let merged = owed.entry(agent).or_insert_with(|| match before.get(agent) {
                    Some((merged, _)) => merged.clone(),
                    None => Merged { due: row.owed.due, ..Merged::default() },
                });
                merged.due = merged.due.min(row.owed.due);
                merged.through = merged.through.max(row.number);
                // One that names none speaks of all already.
                if before.get(agent).is_none_or(|(merged, _)| !merged.regions.is_empty()) {
                    merged.regions.insert(row.owed.region.clone());
                }
            }
        }
        let last = rows.last().map_or(0, |row| row.number);
        let owed: Vec<_> = owed.into_iter().collect();
        for agents in owed.chunks(AGENTS) {
            let mut batch = Batch::new();
            // Who comes back begins anew.
            batch.require(snapshot.same_run(layout)).require(snapshot.same_roster(layout));
            for (agent, merged) in agents {
                let row = layout.merged(agent);
                batch.require(match before.get(*agent) {
                    Some((_, as_it_was)) => as_it_was.clone(),
                    None => Condition::absent(row.clone()),
                });
                let told = progress.get(*agent).map_or(0, |progress| progress.sent);
                let through = if merged.through == Merged::OPEN { last } else { merged.through };
                batch.put(row, merged.value());
                batch.put(layout.sent(agent), stored::sent(told.max(through)));
            }
            match self.store().commit(batch).await {
                Ok(_) => {}
                Err(StoreError::Condition { .. }) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        self.remove(rows).await?;
        Ok(true)
    }

    /// Who is owed a word that nobody has sent, and of which number; 0 for that of a registration. What an agent answered without
    /// having been sent it is among it until somebody looks after it.
    pub(crate) async fn unsent(&self) -> Result<Vec<(String, u64)>> {
        let progress = self.progress().await?;
        let number = |merged: Merged| if merged.regions.is_empty() { 0 } else { merged.through };
        let merged = self.merged().await?.into_iter();
        let mut found: Vec<_> = merged.map(|(agent, (merged, _))| (agent, number(merged))).collect();
        for row in self.rows(0, u64::MAX, usize::MAX).await? {
            for agent in row.owed.hearers {
                if progress.get(&agent).map_or(0, |progress| progress.sent) < row.number {
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
        if let Some((merged, _)) = self.merged().await?.get(&*agent.name)
            && (told == 0 || merged.through.min(head) > told)
        {
            self.add_merged(&mut found, agent, snapshot, merged, head, progress).await?;
        }
        Ok(found)
    }

    /// Adds what an agent is owed by the row of its own.
    pub(super) async fn add_merged(
        &self,
        found: &mut Found,
        agent: &StoredAgent,
        snapshot: &Snapshot,
        merged: &Merged,
        head: u64,
        progress: Progress,
    ) -> Result<()> {
        if head <= progress.cursors.acknowledged {
            return Ok(());
        }
        if !merged.regions.is_empty() {
            found.add(merged.due, merged.regions.iter().cloned());
        } else if let (Some(due), regions) = self.holding(agent, snapshot, merged.due).await? {
            found.add(due, regions);
        }
        Ok(())
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
