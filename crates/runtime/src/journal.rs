//! Writing a run's journal: records are appended in memory and committed in groups, under the run's lease.
//!
//! | commit | holds |
//! |---|---|
//! | the first | the start, or the resumption and the answers to interrupted calls |
//! | before the first handler of a round starts | the turn, and the intent of its call |
//! | before the handler of any other call starts that is not *read* | its intent |
//! | when a call has ended that is not *read* | its result |
//! | when a human is asked, and when one answers | the intent and the question, the decision |
//! | the last | the last turn and the end |
//!
//! Results and later intents of *read* calls ride with the next commit, or have one of their own where somebody watches the
//! run. A call without an intent has not started, whatever became of the process.

use crate::error::{Result, RuntimeError};
use crate::feed::Feed;
use crate::recorder;
use crate::runtime::Shared;
use placet_core::event::{CallEnded, CallRequested, EventBody};
use placet_core::record::{Chain, RecordError};
use placet_core::{
    CallId, CapabilityId, Effect, Event, Outcome, Record, RunId, Sealed, Timestamp, ToolCall, ToolName, ToolResult,
};
use placet_observe::{Journal, LastRecord, RECORD_FORMAT, RunEntry, RunState, layout};
use placet_store::lease::{Lease, LeaseState};
use placet_store::{Batch, Condition, LogName, StoreError, Value};
use placet_tools::{Registry, idempotency_key};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How many records one batch holds at most; a start or a round of more is committed in several.
const GROUP: usize = 400;

/// How often a commit is tried whose answer was lost.
const TRIES: usize = 3;

/// Is told of every commit of a journal: for tests that end the process there.
pub trait JournalWitness: Send + Sync {
    /// A group of records is about to be committed.
    fn committing(&self, point: &CommitPoint<'_>) {
        let _ = point;
    }

    /// It was committed, and nothing else has happened yet.
    fn committed(&self, point: &CommitPoint<'_>) {
        let _ = point;
    }
}

/// A group of records that is committed together.
#[derive(Debug)]
#[non_exhaustive]
pub struct CommitPoint<'a> {
    /// The run.
    pub run: &'a RunId,
    /// Its records, in order.
    pub events: Vec<&'a Event>,
}

/// The journal of a run that this process owns.
pub(crate) struct JournalWriter {
    shared: Arc<Shared>,
    run: RunId,
    log: LogName,
    feed: Arc<Feed>,
    open: Mutex<Open>,
    /// Held by whoever commits, one at a time.
    kept: tokio::sync::Mutex<Kept>,
    /// When the lease is to be renewed, in microseconds of the steady clock.
    renewal: AtomicU64,
    lost: CancellationToken,
}

/// The run up to its last record, whether or not that is committed.
struct Open {
    chain: Chain,
    state: RunState,
    uncommitted: Vec<(Event, Sealed)>,
}

/// What the store has of the run.
struct Kept {
    /// The number of the last record.
    head: u64,
    lease: Lease,
    /// How the lease stood before it was ours; the first commit takes it.
    untaken: Option<LeaseState>,
    /// The run's line in the list; absent until its start is committed.
    entry: Option<RunEntry>,
}

impl JournalWriter {
    /// The journal of a new run.
    pub(crate) fn begin(shared: Arc<Shared>, run: RunId, feed: Arc<Feed>) -> Result<Self> {
        let state = RunState::new(run.clone());
        let lease = LeaseState::never_taken(&layout::lease(&shared.tenant, &run));
        JournalWriter::new(shared, run, feed, Chain::new(), state, 0, lease)
    }

    /// The journal of a run that nobody owns any more.
    pub(crate) fn take_over(
        shared: Arc<Shared>,
        feed: Arc<Feed>,
        journal: &Journal,
        state: RunState,
        lease: LeaseState,
    ) -> Result<Self> {
        let (run, head) = (journal.run().clone(), journal.records().len() as u64);
        let mut writer = JournalWriter::new(shared, run, feed, journal.chain().clone(), state, head, lease)?;
        let start = journal.records().first().map(|kept| &kept.record);
        if let Some(Record { at, event: EventBody::RunStarted(started), .. }) = start {
            writer.kept.get_mut().entry = Some(RunEntry::of_start(&writer.run, *at, started));
        }
        Ok(writer)
    }

    fn new(
        shared: Arc<Shared>,
        run: RunId,
        feed: Arc<Feed>,
        chain: Chain,
        state: RunState,
        head: u64,
        untaken: LeaseState,
    ) -> Result<Self> {
        let lease = untaken.take(&mut Batch::new(), &shared.owner, shared.lease)?;
        let writer = JournalWriter {
            log: layout::journal(&shared.tenant, &run),
            open: Mutex::new(Open { chain, state, uncommitted: Vec::new() }),
            kept: tokio::sync::Mutex::new(Kept { head, lease, untaken: Some(untaken), entry: None }),
            renewal: AtomicU64::new(0),
            lost: CancellationToken::new(),
            shared,
            run,
            feed,
        };
        writer.note_renewal();
        Ok(writer)
    }

    /// The fencing token of its lease.
    pub(crate) fn token(&mut self) -> u64 {
        self.kept.get_mut().lease.token()
    }

    pub(crate) fn run(&self) -> &RunId {
        &self.run
    }

    pub(crate) fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the run's state.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&RunState) -> T) -> T {
        look(&self.open().state)
    }

    /// Shows something that nobody keeps.
    pub(crate) fn live(&self, event: EventBody) {
        self.feed.live(self.shared.env.now(), event);
    }

    /// Waits for readers that pace the run.
    pub(crate) async fn has_room(&self) {
        self.feed.has_room().await;
    }

    /// Adds a record. It is on disk once a commit has returned.
    pub(crate) fn append(&self, event: EventBody) -> Result<()> {
        self.open().append(&self.run, self.shared.env.now(), event)
    }

    /// Adds the intent of a call of the open round, unless it has one.
    pub(crate) fn request(&self, id: &CallId, registry: &Registry) -> Result<()> {
        let mut open = self.open();
        let Some(round) = open.state.round() else { return Ok(()) };
        let Some(call) = round.calls.iter().find(|call| call.call.id == *id && !call.requested) else { return Ok(()) };
        let requested = CallRequested {
            turn: round.turn.clone(),
            call: call.call.clone(),
            capability: registry.capability_of(&call.call.name).cloned(),
            idempotency_key: idempotency_key(Some(&self.run), id),
        };
        open.append(&self.run, self.shared.env.now(), EventBody::CallRequested(Box::new(requested)))
    }

    /// Adds the answer to a call of the open round.
    pub(crate) fn call_ended(&self, result: ToolResult, took_ms: u64) -> Result<()> {
        let mut open = self.open();
        let Some(turn) = open.state.round().map(|round| round.turn.clone()) else {
            return Err(RuntimeError::internal(format!("{} has ended, but no round is open", result.call)));
        };
        let ended = recorder::ended(CallEnded { turn, result, took_ms });
        open.append(&self.run, self.shared.env.now(), ended)
    }

    /// Answers a call of the open round that the pipeline never saw.
    pub(crate) fn answer(&self, call: &ToolCall, capability: Option<CapabilityId>, outcome: Outcome) -> Result<()> {
        self.call_ended(ToolResult { capability, ..ToolResult::of(call, outcome) }, 0)
    }

    /// Commits what has to be on disk before the next turn is asked, or the next handler starts that only reads: everything
    /// but intents and answers of *read* calls, which can be read again, unless somebody watches.
    pub(crate) async fn commit_unless_it_can_ride(&self) -> Result<()> {
        let rides = !self.feed.has_readers() && {
            let open = self.open();
            let started = open.state.started().cloned();
            let reads = |name: &ToolName| {
                let grants = started.iter().flat_map(|started| &started.grants);
                let tool = grants.flat_map(|grant| &grant.tools).find(|tool| tool.name == *name);
                tool.is_none_or(|tool| tool.effect == Effect::Read)
            };
            open.uncommitted.iter().all(|(event, _)| match &event.body {
                EventBody::CallRequested(requested) => reads(&requested.call.name),
                EventBody::CallCompleted(ended) | EventBody::CallFailed(ended) => reads(&ended.result.tool),
                _ => false,
            })
        };
        if rides { Ok(()) } else { self.commit().await }
    }

    /// Commits every record that is not committed yet, and shows them to readers. What others have appended meanwhile
    /// goes with it.
    pub(crate) async fn commit(&self) -> Result<()> {
        let mut kept = self.kept.lock().await;
        loop {
            let group: Vec<(Event, Sealed)> = {
                let mut open = self.open();
                let count = open.uncommitted.len().min(GROUP);
                open.uncommitted.drain(..count).collect()
            };
            if group.is_empty() {
                return Ok(());
            }
            self.tell(&group, |witness, point| witness.committing(point));
            if let Err(error) = self.commit_group(&mut kept, &group).await {
                // Later records rest on these: whoever tries again begins with them.
                self.open().uncommitted.splice(..0, group);
                return Err(error);
            }
            self.tell(&group, |witness, point| witness.committed(point));
            self.feed.committed(group.into_iter().map(|(event, _)| event));
        }
    }

    fn tell(&self, group: &[(Event, Sealed)], tell: impl Fn(&dyn JournalWitness, &CommitPoint<'_>)) {
        if let Some(witness) = &self.shared.witness {
            let events = group.iter().map(|(event, _)| event).collect();
            tell(&**witness, &CommitPoint { run: &self.run, events });
        }
    }

    async fn commit_group(&self, kept: &mut Kept, group: &[(Event, Sealed)]) -> Result<()> {
        let gone =
            if group.iter().any(|(event, _)| event.body.is_end()) { self.shared.make_room() } else { Vec::new() };
        for _ in 0..TRIES {
            let (batch, entry) = self.batch(kept, group, &gone)?;
            match self.shared.store.commit(batch).await {
                Ok(_) => {}
                // An earlier try has landed, and its answer was lost; or somebody else has the run.
                Err(StoreError::Condition { .. }) if self.landed(kept, group).await? => {}
                Err(StoreError::Condition { .. }) => return Err(self.conflict(kept)),
                Err(error) if error.is_unknown() => {
                    tracing::warn!(run = %self.run, %error, "the answer to a commit was lost; trying again");
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            self.note_committed(kept, group, entry);
            return Ok(());
        }
        Err(RuntimeError::internal(format!("a commit to {} has no known end after {TRIES} tries", self.run)))
    }

    /// The lease, then the head, then the records; with the start and the end, what the list of runs says.
    fn batch(
        &self,
        kept: &Kept,
        group: &[(Event, Sealed)],
        gone: &[(RunId, Timestamp)],
    ) -> Result<(Batch, Option<RunEntry>)> {
        let tenant = &self.shared.tenant;
        let mut batch = Batch::new();
        match &kept.untaken {
            Some(untaken) => {
                untaken.take(&mut batch, &self.shared.owner, self.shared.lease)?;
            }
            None => {
                batch.require(kept.lease.fence());
            }
        }
        batch.require(Condition::head(self.log.clone(), kept.head));
        let mut entry = kept.entry.clone();
        for (event, sealed) in group {
            batch.append(&self.log, Value::new(RECORD_FORMAT, sealed.to_bytes()));
            match &event.body {
                EventBody::RunStarted(started) => {
                    entry = Some(RunEntry::of_start(&self.run, event.at, started));
                }
                body if body.is_end() => {
                    let last = LastRecord { number: event.cursor.durable, hash: sealed.hash };
                    entry = entry.map(|entry| self.read(|state| entry.ended(event.at, state, last)));
                    kept.lease.release(&mut batch);
                }
                _ => {}
            }
        }
        if let Some(entry) = &entry
            && Some(entry) != kept.entry.as_ref()
        {
            batch.put(entry.key(tenant), entry.to_value()?);
        }
        for (run, started) in gone {
            self.shared.forget(&mut batch, run, *started);
        }
        Ok((batch, entry))
    }

    fn note_committed(&self, kept: &mut Kept, group: &[(Event, Sealed)], entry: Option<RunEntry>) {
        kept.head += group.len() as u64;
        kept.entry = entry;
        kept.untaken = None;
        if group.iter().any(|(event, _)| event.body.is_end())
            && let Some(entry) = &kept.entry
        {
            self.shared.keep_ended(&self.run, entry.started);
        }
    }

    /// Whether the store has these very records where they belong.
    async fn landed(&self, kept: &Kept, group: &[(Event, Sealed)]) -> Result<bool> {
        let last = kept.head + group.len() as u64;
        let entries = self.shared.store.log_entries(&self.log, &[last]).await?;
        let ours = group.last().map(|(_, sealed)| sealed.to_bytes());
        Ok(entries.first().map(|entry| entry.value.bytes.to_vec()) == ours)
    }

    fn conflict(&self, kept: &Kept) -> RuntimeError {
        if kept.head == 0 {
            return RuntimeError::Exists { run: self.run.clone() };
        }
        self.lost.cancel();
        self.lost_error()
    }

    pub(crate) fn lost_error(&self) -> RuntimeError {
        RuntimeError::Lost { run: self.run.clone() }
    }

    /// Completes when another process has taken the run over; renews the lease by time until then.
    ///
    /// The renewal is a task of its own: whoever waits here may stop waiting at any time.
    pub(crate) async fn keep_until_lost(self: &Arc<Self>) {
        let env = &self.shared.env;
        loop {
            let due = Duration::from_micros(self.renewal.load(Ordering::Relaxed));
            tokio::select! {
                () = self.lost.cancelled() => return,
                () = env.sleep(due.saturating_sub(env.clock().steady())) => {}
            }
            self.note_renewal();
            let writer = self.clone();
            env.spawn("lease renewal", async move { writer.renew().await });
        }
    }

    fn note_renewal(&self) {
        let next = self.shared.env.clock().steady() + self.shared.lease / 3;
        self.renewal.store(u64::try_from(next.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    async fn renew(&self) {
        let kept = self.kept.lock().await;
        let mut batch = Batch::new();
        kept.lease.renew(&mut batch, self.shared.lease);
        match self.shared.store.commit(batch).await {
            Ok(_) => {}
            Err(StoreError::Condition { .. }) => self.lost.cancel(),
            // The next commit, or the next renewal, tells more.
            Err(error) => tracing::warn!(run = %self.run, %error, "the lease could not be renewed"),
        }
    }

    /// Lets go of a run that could not be carried on, so that it can be resumed at once.
    pub(crate) async fn let_go(&self) {
        let kept = self.kept.lock().await;
        let mut batch = Batch::new();
        kept.lease.release(&mut batch);
        if !self.lost.is_cancelled()
            && let Err(error) = self.shared.store.commit(batch).await
        {
            tracing::warn!(run = %self.run, %error, "the lease could not be released; it will lapse");
        }
    }
}

impl Open {
    fn append(&mut self, run: &RunId, at: Timestamp, event: EventBody) -> Result<()> {
        let (record, sealed) = self.chain.extend(run, at, event).map_err(|error: RecordError| error)?;
        self.state.push(at, &record.event);
        self.uncommitted.push((record.into_event(), sealed));
        Ok(())
    }
}
