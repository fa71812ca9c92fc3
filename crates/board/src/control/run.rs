//! The life of a run: opening, which converges; closing, which one caller wins; reopening, which is asked for.

use super::Control;
use super::agents::check_region_count;
use super::spec::BoardSpec;
use super::write::{ATTEMPTS, Draft, Writing};
use crate::boards::{Boards, Handle};
use crate::decision::{self, Decision};
use crate::error::{BoardError, Result};
use crate::model::{Region, RegionKind};
use crate::name::BoardId;
use crate::rules::Termination;
use crate::run::{ClosedAs, Limits, Outcome};
use crate::snapshot::Snapshot;
use crate::stored::{self, Roster, RunState, Standing, StoredRegion};
use placet_store::due::When;
use placet_store::{Batch, Condition, StoreError, Value, ValueForm};
use std::collections::BTreeSet;

/// How long whoever waits for the end of a run waits at least before looking again.
const LOOK: std::time::Duration = std::time::Duration::from_millis(5);
/// How many opening values one commit writes.
const OPENING: usize = 100;

/// What became of a run that may be overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// It is closed, or there is none.
    Closed,
    /// It is open: it is not overdue, or goes on.
    Open,
    /// It is open and silent for too long, but only another process has the predicate that is to be asked.
    NotOurs,
}

impl Boards {
    /// Makes the board what `spec` says, as far as it is not so yet, and gives a handle to it.
    ///
    /// It converges: a region that is there with the same kind is adopted, an opening value is written only where the premise
    /// has none, a run is opened only where there never was one. An open run is left as it is, deadlines and all; a closed one
    /// stays closed, and its agents are not registered: see [`Control::reopen`].
    ///
    /// # Errors
    /// As [`BoardSpec::check`], before the store is touched; [`BoardError::WrongRegionKind`] where the board has a region
    /// of the other kind; what the store says. A run that this call opened is aborted when it fails later on.
    pub async fn open(&self, id: &BoardId, spec: &BoardSpec) -> Result<Control> {
        let control = self.control(id);
        spec.agents.iter().try_for_each(|agent| control.check_address(agent))?;
        spec.check()?;
        let (_, opened) = self.converge_as(id, spec).await?;
        for agent in &spec.agents {
            match control.register(agent.clone()).await {
                Ok(()) => {}
                // A run may end while it opens.
                Err(BoardError::RunClosed) => break,
                Err(error) if !opened => return Err(error),
                Err(error) => {
                    let _ = control.abort(&format!("creation failed: {error}")).await;
                    return Err(error);
                }
            }
        }
        Ok(control)
    }

    /// [`Boards::open`], but for the agents.
    ///
    /// # Errors
    /// As [`Boards::open`].
    pub async fn converge(&self, id: &BoardId, spec: &BoardSpec) -> Result<Control> {
        spec.check()?;
        Ok(self.converge_as(id, spec).await?.0)
    }

    /// [`Boards::converge`], where opening values need not be complete: a premise without one has no value until somebody
    /// sets it.
    ///
    /// # Errors
    /// As [`Boards::open`].
    pub async fn converge_unset(&self, id: &BoardId, spec: &BoardSpec) -> Result<Control> {
        spec.check_all_but_openings()?;
        Ok(self.converge_as(id, spec).await?.0)
    }

    /// Gives also whether the run was opened by this.
    async fn converge_as(&self, id: &BoardId, spec: &BoardSpec) -> Result<(Control, bool)> {
        for value in spec.openings.values() {
            self.handle(id).check_size(value)?;
        }
        let control = self.control(id);
        {
            // What this process has stays where nothing is given: a board is not opened to everything by being opened again.
            let mut local = control.0.state.local();
            local.admission = spec.admission.clone().or_else(|| local.admission.take());
            local.termination = spec.termination.clone().or_else(|| local.termination.take());
            local.on_closed = spec.on_closed.clone().or_else(|| local.on_closed.take());
        }
        let opened = control.0.converge(spec).await?;
        Ok((control, opened))
    }
}

impl Handle {
    /// Gives whether the run was opened by this.
    async fn converge(&self, spec: &BoardSpec) -> Result<bool> {
        let mut opened = false;
        for _ in 0..ATTEMPTS {
            let snapshot = self.fresh().await?;
            if snapshot.is_closed() {
                return Ok(opened);
            }
            let unset = self.unset(spec).await?;
            let (roster, declared) = merged(&snapshot, spec)?;
            let opens = snapshot.run.is_none();
            if roster.is_none() && unset.is_empty() && !opens {
                return Ok(opened);
            }
            let is_last = unset.len() <= OPENING;
            let mut writing = Writing::default();
            let layout = self.layout();
            writing.batch.require(snapshot.same_run(layout)).require(snapshot.same_roster(layout));
            let planned = match roster {
                Some(roster) => {
                    put_roster(layout, &mut writing.batch, &roster)?;
                    roster
                }
                None => snapshot.roster.clone(),
            };
            if opens {
                self.open_run(
                    &mut writing.batch,
                    spec.limits,
                    spec.termination.is_some(),
                    Decision::RunOpened {
                        wall_us: u64::try_from(spec.limits.wall_clock.as_micros()).unwrap_or(u64::MAX),
                        idle_us: u64::try_from(spec.limits.idle.as_micros()).unwrap_or(u64::MAX),
                    },
                )?;
            }
            for region in declared {
                let (region, region_kind) = (region.name.to_string(), region.kind);
                let decision = Decision::RegionDeclared { region, region_kind };
                self.decide(&mut writing.batch, decision.value()?);
            }
            // The premises as they will be known once this is committed.
            let after = Snapshot::planned(layout, planned)?;
            for premise in unset.into_iter().take(OPENING) {
                let Some(value) = spec.openings.get(premise) else { continue };
                let known = after.region(premise, RegionKind::Premise)?;
                let draft = Draft {
                    kind: RegionKind::Premise,
                    region: premise,
                    content: value,
                    writer: None,
                    key: None,
                    expected: 0,
                };
                let number = writing.write(layout, &draft, known, None);
                let admitted = decision::admitted(known.admitted.clone(), None, Some(1), number);
                self.decide(&mut writing.batch, admitted);
            }
            match self.store().commit(writing.batch).await {
                Ok(committed) => {
                    self.decided(&committed);
                    self.fresh().await?;
                    opened |= opens;
                    if is_last {
                        return Ok(opened);
                    }
                }
                Err(StoreError::Condition { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.busy())
    }

    /// Premises that have no value.
    async fn unset<'s>(&self, spec: &'s BoardSpec) -> Result<Vec<&'s str>> {
        let mut unset = Vec::new();
        for premise in spec.openings.keys() {
            if self.store().cell(&self.layout().premise(premise)).await?.is_none() {
                unset.push(premise.as_str());
            }
        }
        Ok(unset)
    }

    /// Adds to a batch that a run opens now.
    fn open_run(&self, batch: &mut Batch, limits: Limits, asks: bool, decision: Decision) -> Result<()> {
        let layout = self.layout();
        batch.put(layout.run.clone(), RunState::open(limits, asks).opening()?);
        batch.put(layout.idle.clone(), ValueForm::new(stored::FORMAT).now_plus(limits.idle));
        let first = limits.idle.min(limits.wall_clock);
        self.inner.due.put(batch, When::After(first), &layout.conf, Value::new(stored::FORMAT, ""));
        self.decide(batch, decision.value()?);
        Ok(())
    }

    pub(crate) fn busy(&self) -> BoardError {
        BoardError::Busy { board: self.state.id.clone(), attempts: ATTEMPTS }
    }

    /// Closes the run if it is overdue and nobody objects.
    pub(crate) async fn expire(&self) -> Result<Expiry> {
        for _ in 0..ATTEMPTS {
            let snapshot = self.fresh().await?;
            let Some(run) = snapshot.run.as_ref().filter(|_| snapshot.is_open()) else { return Ok(Expiry::Closed) };
            // The silence first: whatever happens later changes its version.
            let idle = self.store().cell(&self.layout().idle).await?;
            let (idle_version, idle) = idle.map_or((0, None), |cell| (cell.version, cell.value.leading_instant()));
            let now = self.store().now().await?;
            if now >= snapshot.wall {
                self.close(ClosedAs::WallClockExpired, None, None).await?;
                continue;
            }
            if idle.is_some_and(|idle| now < idle) {
                return Ok(Expiry::Open);
            }
            let (own, stored) = (self.state.local().termination.clone(), snapshot.rules.clone());
            let reader = crate::reader::Reader::new(self.clone());
            let webhooks = self.inner.options.webhooks.as_deref();
            let answer = match (own, stored) {
                (Some(predicate), _) => predicate.decide(&reader).await,
                (None, _) if run.asks => return Ok(Expiry::NotOurs),
                (None, Some(rules)) if rules.terminates() => rules.decide(&reader, webhooks).await,
                (None, _) => Ok(Termination::Complete),
            };
            let failure = match answer {
                Ok(Termination::Complete) => {
                    // Where something happened meanwhile, the answer does not count.
                    self.close(ClosedAs::Settled, None, Some(idle_version)).await?;
                    continue;
                }
                Ok(Termination::Continue) => None,
                Err(error) => {
                    tracing::warn!(board = %self.state.id, %error, "the termination predicate failed; the run goes on");
                    Some(error.to_string())
                }
            };
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(self.layout()));
            batch.require(Condition::version(self.layout().idle.clone(), idle_version));
            self.push_idle(&mut batch, &snapshot);
            self.decide(&mut batch, Decision::RunContinued { failure }.value()?);
            match self.store().commit(batch).await {
                Ok(committed) => {
                    self.decided(&committed);
                    return Ok(Expiry::Open);
                }
                Err(StoreError::Condition { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.busy())
    }

    /// Closes the run, if it is open; gives whether this call did. With `idle` only if nothing happened since.
    pub(crate) async fn close(&self, closed_as: ClosedAs, reason: Option<&str>, idle: Option<u64>) -> Result<bool> {
        let layout = self.layout();
        for attempt in 0..ATTEMPTS {
            let snapshot = self.fresh().await?;
            if !snapshot.is_open() {
                return Ok(false);
            }
            let idle_cell = self.store().cell(&layout.idle).await?;
            let unfinished = match closed_as {
                ClosedAs::Aborted => BTreeSet::new(),
                ClosedAs::Settled | ClosedAs::WallClockExpired => self.unfinished().await?,
            };
            let outcome = Outcome { closed_as, reason: reason.map(str::to_owned), unfinished };
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(layout)).require(snapshot.same_roster(layout));
            // Who has finished is told by what was there when nothing had happened since. Where things go on happening, as
            // they may at the wall clock's end, what was there a moment ago has to do.
            let version = idle.unwrap_or_else(|| idle_cell.map_or(0, |cell| cell.version));
            if idle.is_some() || attempt < ATTEMPTS / 2 {
                batch.require(Condition::version(layout.idle.clone(), version));
            }
            self.put_closed(&mut batch, &snapshot, &outcome)?;
            match self.store().commit(batch).await {
                Ok(committed) => {
                    self.decided(&committed);
                    tracing::info!(board = %self.state.id, %closed_as, "the run has closed");
                    self.fresh().await?;
                    return Ok(true);
                }
                Err(StoreError::Condition { index: 2, .. }) if idle.is_some() => return Ok(false),
                Err(StoreError::Condition { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.busy())
    }

    /// Adds to a batch that the run is closed, and that its agents and what they are owed are gone.
    pub(crate) fn put_closed(&self, batch: &mut Batch, snapshot: &Snapshot, outcome: &Outcome) -> Result<()> {
        let layout = self.layout();
        let Some(run) = &snapshot.run else { return Ok(()) };
        batch.put(layout.run.clone(), run.closed(outcome.clone()).at(snapshot.wall)?);
        batch.delete_prefix(layout.agents.clone()).delete_prefix(layout.owed.clone());
        put_roster(layout, batch, &Roster { agents: Vec::new(), ..snapshot.roster.clone() })?;
        self.decide(batch, Decision::RunClosed { outcome: outcome.clone() }.value()?);
        Ok(())
    }

    /// The agents that were told further than they have answered.
    async fn unfinished(&self) -> Result<BTreeSet<String>> {
        let progress = self.progress().await?;
        Ok(progress.into_iter().filter(|(_, agent)| agent.cursors.is_outstanding()).map(|(name, _)| name).collect())
    }
}

/// Adds to a batch that regions and agents are these now.
pub(crate) fn put_roster(layout: &crate::layout::Layout, batch: &mut Batch, roster: &Roster) -> Result<()> {
    batch.put(layout.mark.clone(), Value::new(stored::FORMAT, ""));
    batch.put(layout.roster.clone(), Value::json(stored::FORMAT, roster)?);
    Ok(())
}

/// The roster with what a spec adds, if it adds anything, and the regions that are new.
fn merged<'s>(snapshot: &Snapshot, spec: &'s BoardSpec) -> Result<(Option<Roster>, Vec<&'s Region>)> {
    let mut roster = snapshot.roster.clone();
    let mut declared = Vec::new();
    for region in &spec.regions {
        match roster.regions.iter_mut().find(|held| held.name == region.name) {
            None => {
                roster.regions.push(StoredRegion::of(region));
                declared.push(region);
            }
            Some(held) if held.kind != region.kind => {
                return Err(BoardError::WrongRegionKind { region: region.name.to_string(), found: held.kind });
            }
            Some(held) => *held = StoredRegion::of(region),
        }
    }
    check_region_count(roster.regions.len())?;
    if !spec.rules.is_empty() {
        roster.rules = spec.rules.clone();
    }
    let changed = roster.regions != snapshot.roster.regions || roster.rules != snapshot.roster.rules;
    Ok((changed.then_some(roster), declared))
}

impl Control {
    /// How the run ended, if it did. A run that is overdue is closed first.
    ///
    /// # Errors
    /// [`BoardError::UnknownBoard`] where there never was a run; what the store says.
    pub async fn outcome(&self) -> Result<Option<Outcome>> {
        self.0.expire().await?;
        self.settled().await
    }

    /// How the run ended, as far as is known.
    async fn settled(&self) -> Result<Option<Outcome>> {
        let snapshot = self.0.snapshot().await?;
        match &snapshot.run {
            None => Err(self.0.unknown_board()),
            Some(run) => Ok(run.outcome.clone()),
        }
    }

    /// Waits until the run has closed, closing it itself when it is overdue; at most for `patience`.
    ///
    /// # Errors
    /// As [`Control::outcome`].
    pub async fn wait_closed(&self, patience: Option<std::time::Duration>) -> Result<Option<Outcome>> {
        use futures_util::future::{Either, select};
        let env = &self.0.inner.env;
        let until = patience.map(|patience| env.clock().steady().saturating_add(patience));
        let mut watch = self.0.inner.store.watch(&self.0.layout().decisions);
        loop {
            let seen = self.0.store().log_head(&self.0.layout().decisions).await?.number;
            let expiry = self.0.expire().await?;
            if let Some(outcome) = self.settled().await? {
                return Ok(Some(outcome));
            }
            let Some(run) = self.reader().run().await? else { return Ok(None) };
            let mut wait = run.idle_deadline.min(run.wall_deadline).since(run.now).max(LOOK);
            if expiry == Expiry::NotOurs {
                // The deadline has passed, and only another process ends the silence; that is heard of when it is decided.
                wait = run.wall_deadline.since(run.now).max(LOOK);
            }
            if let Some(until) = until {
                let left = until.saturating_sub(env.clock().steady());
                if left.is_zero() {
                    return Ok(None);
                }
                wait = wait.min(left);
            }
            match select(Box::pin(watch.grown_past(seen)), env.sleep(wait)).await {
                Either::Left((grown, _)) => drop(grown?),
                Either::Right(_) => {}
            }
        }
    }

    /// Closes the run as aborted; gives whether this call closed it. One that has closed keeps its outcome.
    ///
    /// # Errors
    /// [`BoardError::UnknownBoard`] where there never was a run; what the store says.
    pub async fn abort(&self, reason: &str) -> Result<bool> {
        if self.0.fresh().await?.run.is_none() {
            return Err(self.0.unknown_board());
        }
        self.0.close(ClosedAs::Aborted, Some(reason), None).await
    }

    /// Opens a closed run again, with new limits and without agents. What was written stays, and so do the keys.
    ///
    /// # Errors
    /// [`BoardError::RunOpen`]; [`BoardError::UnknownBoard`] where there never was a run; what the store says.
    pub async fn reopen(&self, limits: Limits) -> Result<()> {
        limits.check()?;
        for _ in 0..ATTEMPTS {
            let snapshot = self.0.fresh().await?;
            match snapshot.run.as_ref().map(|run| run.state) {
                None | Some(Standing::Deleted) => return Err(self.0.unknown_board()),
                Some(Standing::Open) => return Err(BoardError::RunOpen),
                Some(Standing::Closed) => {}
            }
            let asks = self.0.state.local().termination.is_some();
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(self.0.layout()));
            self.0.open_run(
                &mut batch,
                limits,
                asks,
                Decision::RunReopened {
                    wall_us: u64::try_from(limits.wall_clock.as_micros()).unwrap_or(u64::MAX),
                    idle_us: u64::try_from(limits.idle.as_micros()).unwrap_or(u64::MAX),
                },
            )?;
            match self.0.store().commit(batch).await {
                Ok(committed) => {
                    self.0.decided(&committed);
                    self.0.fresh().await?;
                    return Ok(());
                }
                Err(StoreError::Condition { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.0.busy())
    }
}

impl Snapshot {
    /// What will be known of regions once that roster is stored.
    fn planned(layout: &crate::layout::Layout, roster: Roster) -> Result<Self> {
        let value = Value::json(stored::FORMAT, &roster)?;
        Snapshot::of(layout, &[placet_store::Cell { key: layout.roster.clone(), version: 1, value }])
    }
}
