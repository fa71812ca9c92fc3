//! Reading a board: the record is all that it needs, so any process that holds the store can answer.

use crate::boards::{BoardSummary, Handle};
use crate::decision::{Decision, DecisionRecord};
use crate::error::{BoardError, Result};
use crate::layout::last_number;
use crate::model::{Bounds, Change, Contribution, Page, PremiseState, Region, RegionKind};
use crate::name::BoardId;
use crate::run::RunRecord;
use crate::snapshot::Snapshot;
use crate::stored;
use futures_util::Stream;
use futures_util::stream;
use placet_store::{Direction, Key};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// A board, to be read. Cheap to clone. Reads go past the control component: they cost it nothing, cannot be refused, and go on
/// when the run has closed.
#[derive(Clone)]
pub struct Reader(Handle);

impl Reader {
    pub(crate) fn new(handle: Handle) -> Self {
        Reader(handle)
    }

    /// The board.
    #[must_use]
    pub fn board_id(&self) -> &BoardId {
        &self.0.state.id
    }

    /// Whether the store holds the board.
    ///
    /// # Errors
    /// What the store says.
    pub async fn exists(&self) -> Result<bool> {
        Ok(self.0.fresh().await?.exists())
    }

    /// What there is to say of the board without looking at what was written to it.
    ///
    /// # Errors
    /// [`BoardError::UnknownBoard`]; what the store says.
    pub async fn describe(&self) -> Result<BoardSummary> {
        Ok(BoardSummary::of(self.board_id().clone(), &*self.held().await?))
    }

    /// How the run stands, if there is one.
    ///
    /// # Errors
    /// What the store says.
    pub async fn run(&self) -> Result<Option<RunRecord>> {
        let snapshot = self.0.fresh().await?;
        self.0.run_record(&snapshot).await
    }

    /// The regions, ordered by name. Their batch windows are not told.
    ///
    /// # Errors
    /// [`BoardError::UnknownBoard`]; what the store says.
    pub async fn read_regions(&self) -> Result<Vec<Region>> {
        Ok(self.held().await?.listed(false))
    }

    async fn held(&self) -> Result<Arc<Snapshot>> {
        let snapshot = self.0.fresh().await?;
        if snapshot.exists() { Ok(snapshot) } else { Err(self.0.unknown_board()) }
    }

    /// The key of a region, from what is known or, where that does not have it, from what is stored.
    async fn region(&self, name: &str, kind: RegionKind) -> Result<Key> {
        if let Some(known) = self.0.known()
            && let Ok(region) = known.region(name, kind)
        {
            return Ok(region.key.clone());
        }
        self.stored_region(name, kind).await
    }

    async fn stored_region(&self, name: &str, kind: RegionKind) -> Result<Key> {
        Ok(self.held().await?.region(name, kind)?.key.clone())
    }

    /// A page of a level. It costs the same however much the level holds.
    ///
    /// # Errors
    /// [`BoardError::UnknownRegion`], [`BoardError::WrongRegionKind`], [`BoardError::UnknownBoard`]; what the store says.
    pub async fn read_level(&self, level: &str, bounds: Bounds) -> Result<Page<Contribution>> {
        let index = self.region(level, RegionKind::Level).await?;
        let (store, limit) = (self.0.store(), bounds.page());
        let beyond = bounds.from_sequence.checked_sub(1).map(|before| index.clone().u64(before));
        let cells = store.cells(&index, beyond.as_ref(), Direction::Forward, limit + 1).await?;
        if cells.is_empty() {
            // What is known may be of a board that was deleted meanwhile.
            self.stored_region(level, RegionKind::Level).await?;
        }
        let has_more = cells.len() > limit;
        let numbers: Vec<u64> = cells.iter().take(limit).filter_map(|cell| last_number(&cell.key)).collect();
        let entries =
            if numbers.is_empty() { Vec::new() } else { store.log_entries(&self.0.layout().log, &numbers).await? };
        let items = entries.iter().map(stored::contribution).collect::<Result<_, _>>()?;
        Ok(Page { items, has_more })
    }

    /// What a premise holds.
    ///
    /// # Errors
    /// [`BoardError::UnsetPremise`]; as [`Reader::read_level`].
    pub async fn read_premise(&self, premise: &str) -> Result<PremiseState> {
        let key = self.region(premise, RegionKind::Premise).await?;
        match self.0.store().cell(&key).await? {
            Some(cell) => Ok(stored::premise_state(&cell)?),
            None => {
                self.stored_region(premise, RegionKind::Premise).await?;
                Err(BoardError::UnsetPremise { premise: premise.to_owned() })
            }
        }
    }

    /// A page of everything that was written.
    ///
    /// # Errors
    /// [`BoardError::UnknownBoard`]; what the store says.
    pub async fn read_board(&self, bounds: Bounds) -> Result<Page<Change>> {
        let limit = bounds.page();
        let entries = self.0.store().log(&self.0.layout().log, bounds.from_sequence.max(1) - 1, limit + 1).await?;
        if entries.is_empty() {
            self.held().await?;
        }
        let has_more = entries.len() > limit;
        let items = entries.iter().take(limit).map(stored::change).collect::<Result<_, _>>()?;
        Ok(Page { items, has_more })
    }

    /// The sequence number of the last write; 0 before the first.
    ///
    /// # Errors
    /// What the store says.
    pub async fn head(&self) -> Result<u64> {
        Ok(self.0.store().log_head(&self.0.layout().log).await?.number)
    }

    /// Waits until something was written after that sequence number; gives the last.
    ///
    /// # Errors
    /// What the store says.
    pub async fn grown_past(&self, sequence: u64) -> Result<u64> {
        let mut watch = self.0.inner.store.watch(&self.0.layout().log);
        Ok(watch.grown_past(sequence).await?.number)
    }

    /// Everything that was written from that sequence number on, and then everything that is written, without an end.
    pub fn tail(&self, from_sequence: u64) -> impl Stream<Item = Result<Change>> + Send + use<> {
        let watch = self.0.inner.store.watch(&self.0.layout().log);
        let tail = (self.clone(), watch, from_sequence.max(1), VecDeque::new());
        stream::try_unfold(tail, |(reader, mut watch, mut next, mut ready)| async move {
            loop {
                if let Some(change) = ready.pop_front() {
                    return Ok(Some((change, (reader, watch, next, ready))));
                }
                watch.grown_past(next - 1).await?;
                let page = reader.read_board(Bounds::from(next).limit(200)).await?;
                if let Some(last) = page.items.last() {
                    let last: &Change = last;
                    next = last.sequence + 1;
                }
                ready.extend(page.items);
            }
        })
    }

    /// What was decided, after the decision of that number. Old decisions are dropped, so that the first may have a greater
    /// number than was asked for.
    ///
    /// # Errors
    /// What the store says.
    pub async fn decisions(&self, after: u64, limit: usize) -> Result<Vec<DecisionRecord>> {
        let entries = self.0.store().log(&self.0.layout().decisions, after, limit).await?;
        entries.iter().map(Decision::record).collect()
    }

    /// Waits until something was decided after that number; gives the last.
    ///
    /// # Errors
    /// What the store says.
    pub async fn decided_past(&self, number: u64) -> Result<u64> {
        let mut watch = self.0.inner.store.watch(&self.0.layout().decisions);
        Ok(watch.grown_past(number).await?.number)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reader").field(self.board_id()).finish()
    }
}
