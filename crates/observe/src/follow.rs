//! Following a run from another process: its durable events, as they are committed.

use crate::error::{ObserveError, Result};
use crate::{journal, layout};
use futures_util::stream::{self, Stream};
use placet_core::{Event, RunId};
use placet_store::{SharedStore, Tenant, Watch};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many records one read asks for.
const PAGE: usize = 200;

/// The durable events of a run after the record of that number, as they are committed, until the one that ends it.
///
/// A run whose owner died stays silent until somebody resumes it; where a run has ended and nothing comes after that
/// number, there is nothing to wait for. Each record's hash is checked, and the number and the run it says with those it
/// is stored under; the links between records are checked where a whole journal is read.
pub fn follow(
    store: SharedStore,
    tenant: &Tenant,
    run: &RunId,
    after: u64,
) -> impl Stream<Item = Result<Arc<Event>>> + Send + use<> {
    let watch = store.watch(&layout::journal(tenant, run));
    let follower = Follower { store, watch, run: run.clone(), after, seen: 0, ready: VecDeque::new(), over: false };
    stream::unfold(follower, |mut follower| async move {
        let next = follower.next().await?;
        follower.over |= next.as_ref().map_or(true, |event| event.body.is_end());
        Some((next, follower))
    })
}

struct Follower {
    store: SharedStore,
    watch: Watch,
    run: RunId,
    after: u64,
    /// The number of the last record that the log is known to have.
    seen: u64,
    ready: VecDeque<Arc<Event>>,
    over: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<Result<Arc<Event>>> {
        while !self.over && self.ready.is_empty() {
            if let Err(error) = self.fill().await {
                return Some(Err(error));
            }
        }
        if self.over {
            return None;
        }
        self.ready.pop_front().map(Ok)
    }

    async fn fill(&mut self) -> Result<()> {
        let head = self.watch.grown_past(self.seen).await?.number;
        if head <= self.after {
            // Nothing to show yet; and nothing ever, where the run has ended.
            let last = self.store.log_entries(self.watch.log(), &[head]).await?;
            self.over =
                last.first().map(|entry| event_of(&self.run, entry)).transpose()?.is_some_and(|e| e.body.is_end());
            self.seen = head;
            return Ok(());
        }
        self.ready.extend(read_events(&*self.store, &self.watch, &self.run, self.after).await?);
        self.after = self.ready.back().map_or(self.after, |event| event.cursor.durable);
        self.seen = self.after;
        Ok(())
    }
}

async fn read_events(
    store: &dyn placet_store::Store,
    watch: &Watch,
    run: &RunId,
    after: u64,
) -> Result<Vec<Arc<Event>>> {
    let entries = store.log(watch.log(), after, PAGE).await?;
    entries.iter().map(|entry| event_of(run, entry)).collect()
}

/// The event of an entry, its hash and its number checked.
fn event_of(run: &RunId, entry: &placet_store::Entry) -> Result<Arc<Event>> {
    let problem = |source| ObserveError::Record { run: run.clone(), number: entry.number, source };
    let record = journal::sealed(run, entry)?.open().map_err(problem)?;
    if record.number != entry.number {
        let (found, expected) = (record.number, entry.number);
        return Err(problem(placet_core::record::RecordError::Number { found, expected }));
    }
    journal::of_run(run, &record)?;
    Ok(Arc::new(record.into_event()))
}

/// The durable events of a run after the record of one number and up to that of another, as they are kept now.
///
/// # Errors
/// As [`follow`]: [`ObserveError::Record`] and [`ObserveError::Store`].
pub async fn events_between(
    store: &dyn placet_store::Store,
    tenant: &Tenant,
    run: &RunId,
    after: u64,
    through: u64,
) -> Result<Vec<Arc<Event>>> {
    let log = layout::journal(tenant, run);
    let limit = usize::try_from(through.saturating_sub(after)).unwrap_or(usize::MAX).min(PAGE);
    if limit == 0 {
        return Ok(Vec::new());
    }
    let entries = store.log(&log, after, limit).await?;
    entries.iter().map(|entry| event_of(run, entry)).collect()
}
