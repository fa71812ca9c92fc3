//! The way of a proposed write: key, run, region, permission, admission, commit. What a process knows decides nothing by itself:
//! a refusal is looked up again before it is given, and a commit has the conditions that what was known still holds.

use super::Control;
use crate::boards::Handle;
use crate::content::{Content, MAX_DEPTH};
use crate::decision::{self, Decision};
use crate::error::{BoardError, Result};
use crate::layout::Layout;
use crate::model::RegionKind;
use crate::name::{Quoted, check};
use crate::request::{Cause, Conflict, SetRequest, WriteRequest, WriteResult, Written};
use crate::rules::{Proposed, Verdict};
use crate::snapshot::{Known, Snapshot};
use crate::stored::{self, KeyRecord};
use placet_store::{AppendRef, Batch, Committed, Condition, Found, Key, StoreError, Value, ValueForm};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often a commit is tried against others that change the board.
pub(crate) const ATTEMPTS: usize = 64;

/// How often a write with a key is tried again whose answer was lost.
const LOST: usize = 2;

/// Every how many decisions old ones are dropped.
const DROP_EVERY: u64 = 512;

/// What the board says to whoever writes after the end.
pub(crate) const CLOSED: &str = "the run has closed";

/// A write to a region of either kind.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a> {
    pub(crate) kind: RegionKind,
    pub(crate) region: &'a str,
    pub(crate) content: &'a Content,
    pub(crate) writer: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    /// Of a premise.
    pub(crate) expected: u64,
}

/// What a condition of a write is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    Key,
    Run,
    Wall,
    Idle,
    Roster,
    Version,
}

/// A batch in the making, which remembers what its conditions are about.
#[derive(Default)]
pub(crate) struct Writing {
    pub(crate) batch: Batch,
    pub(crate) checks: Vec<Check>,
}

impl Writing {
    pub(crate) fn require(&mut self, check: Check, condition: Condition) {
        self.checks.push(check);
        self.batch.require(condition);
    }

    /// The write itself with its key and its place in the index. Gives the reference to its number.
    pub(crate) fn write(&mut self, layout: &Layout, draft: &Draft<'_>, known: &Known, key: Option<Key>) -> AppendRef {
        let version = (draft.kind == RegionKind::Premise).then_some(draft.expected.saturating_add(1));
        if version.is_some() {
            self.require(Check::Version, Condition::version(known.key.clone(), draft.expected));
        }
        let batch = &mut self.batch;
        let entry = stored::entry(draft.region, version, draft.writer, draft.content);
        let number = batch.append(&layout.log, entry);
        match version {
            Some(_) => batch.put(known.key.clone(), stored::premise(number, draft.writer, draft.content)),
            None => batch.put(known.key.clone().filled().number(number), Value::new(stored::FORMAT, "")),
        };
        if let Some(key) = key {
            batch.put(key, stored::key(number, version, draft.region));
        }
        number
    }
}

impl Handle {
    /// Adds to a batch that something was decided, and now and then that old decisions are dropped.
    pub(crate) fn decide(&self, batch: &mut Batch, decision: impl Into<ValueForm>) {
        let layout = self.layout();
        batch.append(&layout.decisions, decision);
        let (kept, decided) = (self.inner.options.decisions, self.state.decided.load(Ordering::Relaxed));
        let through = decided.saturating_sub(kept);
        let dropped = self.state.dropped.load(Ordering::Relaxed);
        if through >= dropped + DROP_EVERY.min(kept) {
            self.state.dropped.store(through, Ordering::Relaxed);
            batch.trim(layout.decisions.clone(), through);
        }
    }

    /// Remembers the number of the last decision of a batch that was committed, if it held any.
    pub(crate) fn decided(&self, committed: &Committed) {
        if let Some(number) = committed.numbers.last() {
            self.state.decided.fetch_max(*number, Ordering::Relaxed);
        }
    }

    /// Commits a decision that changes nothing else, but for the silence of the run, which it ends where `push` says so.
    pub(crate) async fn note(&self, snapshot: &Snapshot, decision: &Decision, push: bool) -> Result<()> {
        let mut batch = Batch::new();
        if push && snapshot.is_open() {
            batch.require(snapshot.same_run(self.layout()));
            self.push_idle(&mut batch, snapshot);
        }
        self.decide(&mut batch, decision.value()?);
        match self.store().commit(batch).await {
            Ok(committed) => {
                self.decided(&committed);
                Ok(())
            }
            // The run closed meanwhile: there is no silence to end.
            Err(StoreError::Condition { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds to a batch that something happened now.
    pub(crate) fn push_idle(&self, batch: &mut Batch, snapshot: &Snapshot) {
        batch.put(self.layout().idle.clone(), ValueForm::new(stored::FORMAT).now_plus(snapshot.idle()));
    }
}

/// Why a write goes no further than what is known of the board.
enum Refusal {
    Error(BoardError),
    Answer(Cause, String),
}

impl Control {
    /// Proposes a contribution to a level under a writer's name.
    ///
    /// # Errors
    /// [`BoardError::UnknownBoard`] where there is no run, [`BoardError::UnknownRegion`], [`BoardError::WrongRegionKind`],
    /// [`BoardError::KeyReused`], [`BoardError::TooLarge`], [`BoardError::Rule`], [`BoardError::Busy`]; what the store says. A
    /// refusal is no error.
    pub async fn write(&self, writer: &str, request: &WriteRequest) -> Result<WriteResult> {
        let draft = Draft {
            kind: RegionKind::Level,
            region: &request.level,
            content: &request.content,
            writer: Some(writer),
            key: request.idempotency_key.as_deref(),
            expected: 0,
        };
        self.propose(writer, &draft).await
    }

    /// Proposes a value for a premise under a writer's name.
    ///
    /// # Errors
    /// As [`Control::write`]. A refusal is no error, nor is a conflict.
    pub async fn set_premise(&self, writer: &str, request: &SetRequest) -> Result<WriteResult> {
        let draft = Draft {
            kind: RegionKind::Premise,
            region: &request.premise,
            content: &request.value,
            writer: Some(writer),
            key: request.idempotency_key.as_deref(),
            expected: request.expected_version,
        };
        self.propose(writer, &draft).await
    }

    async fn propose(&self, writer: &str, draft: &Draft<'_>) -> Result<WriteResult> {
        let handle = &self.0;
        check("writer", writer)?;
        handle.check_size(draft.content)?;
        let key = draft.key.map(|key| handle.layout().key(key));
        let mut snapshot = handle.snapshot().await?;
        let (mut is_fresh, mut is_admitted, mut idle_counts) = (false, false, true);
        let mut lost = 0;
        for _ in 0..ATTEMPTS {
            let known = match refusal(handle, &snapshot, writer, draft) {
                Ok(known) => known,
                Err(_) if !is_fresh => {
                    snapshot = handle.fresh().await?;
                    is_fresh = true;
                    continue;
                }
                Err(refusal) => {
                    if let Some(found) = self.written_by(key.as_ref(), draft).await? {
                        return Ok(found);
                    }
                    return self.refuse(&snapshot, writer, draft, refusal).await;
                }
            };
            if !is_admitted && self.judges(&snapshot) {
                if let Some(found) = self.written_by(key.as_ref(), draft).await? {
                    return Ok(found);
                }
                if let Verdict::Reject(reason) = self.judge(&snapshot, writer, draft).await? {
                    if !is_fresh {
                        // The rules that stand with the board may be others by now.
                        is_fresh = true;
                        let now = handle.fresh().await?;
                        if now.mark_version != snapshot.mark_version || !now.is_open() {
                            snapshot = now;
                            continue;
                        }
                    }
                    let refusal = Refusal::Answer(Cause::Admission, reason);
                    return self.refuse(&snapshot, writer, draft, refusal).await;
                }
                is_admitted = true;
            }
            let (writing, hears) = self.writing(&snapshot, known, draft, key.clone(), idle_counts);
            let (index, found) = match handle.store().commit(writing.batch).await {
                Ok(committed) => {
                    handle.decided(&committed);
                    if hears {
                        handle.tell(&snapshot).await;
                    }
                    let version = (draft.kind == RegionKind::Premise).then(|| draft.expected + 1);
                    let sequence = committed.numbers.first().copied().unwrap_or(0);
                    return Ok(WriteResult::Written(Written { sequence, version, repeated: false }));
                }
                Err(StoreError::Condition { index, found, .. }) => (index, found),
                Err(error) if error.is_unknown() && key.is_some() && lost < LOST => {
                    // If it is on the record, its key says so.
                    lost += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match (writing.checks.get(index), found) {
                (Some(Check::Key), Found::Cell(Some(cell))) => return repeated(&cell.value, draft),
                (Some(Check::Version), Found::Cell(cell)) => {
                    let current_version = cell.map_or(0, |cell| cell.version);
                    return self.conflict(&snapshot, writer, draft, current_version).await;
                }
                (Some(Check::Wall | Check::Idle), _) => {
                    // Nobody here may end this silence but the write itself.
                    idle_counts = handle.expire().await? != super::run::Expiry::NotOurs;
                }
                _ => {}
            }
            snapshot = handle.fresh().await?;
            is_fresh = true;
        }
        Err(BoardError::Busy { board: handle.state.id.clone(), attempts: ATTEMPTS })
    }

    /// The one batch of a write, and whether anybody hears of it.
    fn writing(
        &self,
        snapshot: &Snapshot,
        known: &Known,
        draft: &Draft<'_>,
        key: Option<Key>,
        idle_counts: bool,
    ) -> (Writing, bool) {
        let (handle, layout) = (&self.0, self.0.layout());
        let mut writing = Writing::default();
        if let Some(key) = &key {
            writing.require(Check::Key, Condition::absent(key.clone()));
        }
        writing.require(Check::Run, snapshot.same_run(layout));
        writing.require(Check::Wall, Condition::not_passed(layout.run.clone()));
        if idle_counts {
            writing.require(Check::Idle, Condition::not_passed(layout.idle.clone()));
        }
        writing.require(Check::Roster, snapshot.same_roster(layout));
        let number = writing.write(layout, draft, known, key);
        let batch = &mut writing.batch;
        handle.push_idle(batch, snapshot);
        let owes = known.owes(draft.region, draft.writer);
        let hears = owes.is_some();
        if let Some(row) = owes {
            batch.put(layout.owed.clone().filled().number(number), stored::owed_form(known.window, row));
        }
        let version = (draft.kind == RegionKind::Premise).then(|| draft.expected.saturating_add(1));
        handle.decide(batch, decision::admitted(known.admitted.clone(), draft.writer, version, number));
        (writing, hears)
    }

    /// What the key of a write has written before.
    async fn written_by(&self, key: Option<&Key>, draft: &Draft<'_>) -> Result<Option<WriteResult>> {
        let Some(key) = key else { return Ok(None) };
        match self.0.store().cell(key).await? {
            Some(cell) => repeated(&cell.value, draft).map(Some),
            None => Ok(None),
        }
    }

    fn judges(&self, snapshot: &Snapshot) -> bool {
        snapshot.rules.as_ref().is_some_and(|rules| rules.judges()) || self.0.state.local().admission.is_some()
    }

    /// What the rules that stand with the board say, then the rule of this process.
    async fn judge(&self, snapshot: &Snapshot, writer: &str, draft: &Draft<'_>) -> Result<Verdict> {
        let (writer, region) = (writer.to_owned(), draft.region.to_owned());
        let proposed = match draft.kind {
            RegionKind::Level => Proposed::Contribution { writer, level: region, content: draft.content.clone() },
            RegionKind::Premise => Proposed::Premise {
                writer,
                premise: region,
                value: draft.content.clone(),
                expected_version: draft.expected,
            },
        };
        let reader = self.reader();
        if let Some(rules) = &snapshot.rules {
            let verdict = rules.judge(&proposed, &reader, self.0.inner.options.webhooks.as_deref()).await?;
            if verdict != Verdict::Accept {
                return Ok(verdict);
            }
        }
        let own = self.0.state.local().admission.clone();
        match own {
            Some(rule) => rule.judge(&proposed, &reader).await,
            None => Ok(Verdict::Accept),
        }
    }

    async fn refuse(
        &self,
        snapshot: &Arc<Snapshot>,
        writer: &str,
        draft: &Draft<'_>,
        refusal: Refusal,
    ) -> Result<WriteResult> {
        let (cause, reason) = match refusal {
            Refusal::Error(error) => return Err(error),
            Refusal::Answer(cause, reason) => (cause, reason),
        };
        let (writer, region) = (writer.to_owned(), draft.region.to_owned());
        let decision = Decision::WriteRefused { region, writer, cause, reason: reason.clone() };
        self.0.note(snapshot, &decision, cause == Cause::Admission).await?;
        Ok(WriteResult::rejected(cause, reason))
    }

    async fn conflict(
        &self,
        snapshot: &Snapshot,
        writer: &str,
        draft: &Draft<'_>,
        current_version: u64,
    ) -> Result<WriteResult> {
        let decision = Decision::WriteConflicted {
            region: draft.region.to_owned(),
            writer: writer.to_owned(),
            expected_version: draft.expected,
            current_version,
        };
        self.0.note(snapshot, &decision, true).await?;
        Ok(WriteResult::Conflict(Conflict { current_version }))
    }
}

impl Handle {
    pub(crate) fn check_size(&self, content: &Content) -> Result<()> {
        let (size, most) = (content.as_bytes().len(), self.inner.options.content);
        if size > most {
            Err(BoardError::TooLarge { size, most })
        } else if content.is_deeper_than(MAX_DEPTH) {
            Err(BoardError::TooDeep { most: MAX_DEPTH })
        } else {
            Ok(())
        }
    }
}

/// The region of a write, if nothing that is known of the board speaks against it.
fn refusal<'s>(handle: &Handle, snapshot: &'s Snapshot, writer: &str, draft: &Draft<'_>) -> Result<&'s Known, Refusal> {
    if snapshot.run.is_none() {
        return Err(Refusal::Error(handle.unknown_board()));
    }
    if !snapshot.is_open() {
        return Err(Refusal::Answer(Cause::RunClosed, CLOSED.to_owned()));
    }
    let known = snapshot.region(draft.region, draft.kind).map_err(Refusal::Error)?;
    if snapshot.agent(writer).is_some_and(|agent| !agent.may_write(draft.region, draft.kind)) {
        let reason = format!("{} may not write to {}", Quoted(writer), Quoted(draft.region));
        return Err(Refusal::Answer(Cause::NotPermitted, reason));
    }
    Ok(known)
}

/// What a key that was used before says of a write.
pub(crate) fn repeated(value: &Value, draft: &Draft<'_>) -> Result<WriteResult> {
    let KeyRecord { sequence, version, region } = stored::key_record(value)?;
    if region != draft.region {
        let (key, now) = (draft.key.unwrap_or_default().to_owned(), draft.region.to_owned());
        return Err(BoardError::KeyReused { key, first: region, now });
    }
    Ok(WriteResult::Written(Written { sequence, version, repeated: true }))
}
