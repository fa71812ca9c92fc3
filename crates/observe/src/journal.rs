//! A run's records, read and checked.

use crate::error::{ObserveError, Result};
use crate::layout;
use crate::runs::{self, LastRecord};
use crate::state::RunState;
use placet_core::record::{Chain, Record, Sealed};
use placet_core::{Event, RunId};
use placet_store::{Entry, Store, Tenant};

/// The format of the values that hold records: the bytes of [`Sealed::to_bytes`]. The record's own version stands in its
/// text.
pub const RECORD_FORMAT: u16 = 1;

/// How many records one read asks for.
const PAGE: usize = 500;

/// The records of one run, in order, the chain checked.
#[derive(Clone, Debug)]
pub struct Journal {
    run: RunId,
    records: Vec<KeptRecord>,
    chain: Chain,
}

/// A record with the text it is stored as.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptRecord {
    /// The record, brought up to the present version.
    pub record: Record,
    /// As it is stored.
    pub sealed: Sealed,
}

impl Journal {
    /// Reads the records of a run and checks their chain.
    ///
    /// # Errors
    /// [`ObserveError::NotFound`] where the run has no records, [`ObserveError::Record`] for the first that is altered,
    /// missing or of a newer version, [`ObserveError::OtherRun`] for one of another run, [`ObserveError::Store`] where the store fails.
    pub async fn read(store: &dyn Store, tenant: &Tenant, run: &RunId) -> Result<Self> {
        let log = layout::journal(tenant, run);
        let mut chain = Chain::new();
        let mut records = Vec::new();
        loop {
            let page = store.log(&log, records.len() as u64, PAGE).await?;
            let last = page.len() < PAGE;
            for entry in &page {
                let sealed = sealed(run, entry)?;
                let problem = |source| ObserveError::Record { run: run.clone(), number: entry.number, source };
                let record = chain.check(&sealed).map_err(problem)?;
                of_run(run, &record)?;
                records.push(KeptRecord { record, sealed });
            }
            if last {
                break;
            }
        }
        if records.is_empty() {
            return Err(ObserveError::NotFound { run: run.clone() });
        }
        Ok(Journal { run: run.clone(), records, chain })
    }

    /// That the list of runs does not remember another end: the chain alone cannot show that records were cut off.
    ///
    /// # Errors
    /// [`ObserveError::NotTheEnd`] where it does, [`ObserveError::Store`] where the store fails or the run's line of the
    /// list cannot be read.
    pub async fn check_end(&self, store: &dyn Store, tenant: &Tenant) -> Result<()> {
        let started = self.records.first().map(|kept| kept.record.at);
        let Some(line) = runs::line_of(store, tenant, &self.run, started).await? else { return Ok(()) };
        let found = LastRecord { number: self.records.len() as u64, hash: self.chain.head() };
        match line.entry?.last {
            Some(last) if last != found => {
                Err(ObserveError::NotTheEnd { run: self.run.clone(), found: found.number, expected: last.number })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn of(run: RunId, records: Vec<KeptRecord>, chain: Chain) -> Self {
        Journal { run, records, chain }
    }

    /// Which run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Its records.
    #[must_use]
    pub fn records(&self) -> &[KeptRecord] {
        &self.records
    }

    /// Its durable events, in order.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        self.records.iter().map(|kept| kept.record.clone().into_event())
    }

    /// The state that its records fold to.
    #[must_use]
    pub fn state(&self) -> RunState {
        let mut state = RunState::new(self.run.clone());
        for kept in &self.records {
            state.push(kept.record.at, &kept.record.event);
        }
        state
    }

    /// The chain after its last record, for whoever goes on with it.
    #[must_use]
    pub fn chain(&self) -> &Chain {
        &self.chain
    }
}

/// That a record is one of the run it is kept under.
pub(crate) fn of_run(run: &RunId, record: &Record) -> Result<()> {
    if record.run == *run {
        return Ok(());
    }
    Err(ObserveError::OtherRun { run: run.clone(), number: record.number, found: record.run.clone() })
}

/// The stored form that an entry of a journal's log holds.
pub(crate) fn sealed(run: &RunId, entry: &Entry) -> Result<Sealed> {
    let bytes = entry.value.known(RECORD_FORMAT)?;
    Sealed::from_bytes(bytes).map_err(|source| ObserveError::Record { run: run.clone(), number: entry.number, source })
}
