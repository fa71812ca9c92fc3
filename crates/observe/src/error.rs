//! What can go wrong with reading a journal.

use placet_core::record::RecordError;
use placet_core::{Diagnose, ErrorKind, RunId};
use placet_store::StoreError;

/// A result of reading journals.
pub type Result<T, E = ObserveError> = std::result::Result<T, E>;

/// Why a journal could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// There is no such run.
    #[error("there is no run {run} in this store")]
    NotFound {
        /// The run that was asked for.
        run: RunId,
    },
    /// A record is altered, missing, or of a newer version.
    #[error("record {number} of {run}: {source}")]
    Record {
        /// The run.
        run: RunId,
        /// The number under which the store keeps the record.
        number: u64,
        /// What is wrong with it.
        #[source]
        source: RecordError,
    },
    /// A record of one run is kept under another.
    #[error("record {number} of {run} belongs to {found}: it was put there from another journal")]
    OtherRun {
        /// The run that was asked for.
        run: RunId,
        /// The number under which the store keeps the record.
        number: u64,
        /// The run that the record names.
        found: RunId,
    },
    /// The list of runs remembers another last record than the journal has.
    #[error(
        "the journal of {run} ends with record {found}, and the list of runs remembers that it ended with record {expected}: \
         records are missing at the end, or were changed"
    )]
    NotTheEnd {
        /// The run.
        run: RunId,
        /// The number of the journal's last record.
        found: u64,
        /// The number of the record that ended it.
        expected: u64,
    },
    /// A line of an export is none.
    #[error("line {line} is no exported record: {problem}")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Diagnose for ObserveError {
    fn kind(&self) -> ErrorKind {
        match self {
            ObserveError::NotFound { .. } => ErrorKind::NotFound,
            ObserveError::Record { source: RecordError::Version { .. }, .. } => ErrorKind::Unsupported,
            ObserveError::Record { .. } | ObserveError::OtherRun { .. } => ErrorKind::Storage,
            ObserveError::NotTheEnd { .. } => ErrorKind::Conflict,
            ObserveError::Line { .. } => ErrorKind::InvalidRequest,
            ObserveError::Store(error) => error.kind(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            ObserveError::NotFound { .. } => vec!["`placet runs list` shows the runs there are".to_owned()],
            ObserveError::Record { source: RecordError::Version { .. }, .. } => Vec::new(),
            ObserveError::Record { run, .. }
            | ObserveError::OtherRun { run, .. }
            | ObserveError::NotTheEnd { run, .. } => {
                vec![format!("`placet audit verify {run}` names everything that is wrong with it")]
            }
            ObserveError::Line { .. } => Vec::new(),
            ObserveError::Store(error) => error.hints(),
        }
    }
}
