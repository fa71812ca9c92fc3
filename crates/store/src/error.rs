//! What can go wrong with a store.

use crate::key::Key;
use crate::store::{Cell, LogHead};
use placet_core::{Diagnose, ErrorKind, Timestamp};
use std::fmt;

/// A result of the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// What the first condition that failed found in place of what it required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The cell as it is, or nothing.
    Cell(Option<Cell>),
    /// The log's head as it is.
    Head(LogHead),
}

/// For people; tells versions and numbers, never contents.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Cell(None) => f.write_str("no such cell"),
            Found::Cell(Some(cell)) => write!(f, "the cell {} at version {}", cell.key, cell.version),
            Found::Head(head) => write!(f, "the log at number {}", head.number),
        }
    }
}

/// Why the store did not do what it was asked. Nothing was written, unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A condition of the batch does not hold.
    #[error("condition {index} of the batch does not hold: found {found}")]
    Condition {
        /// Which condition, counted from 0 among the batch's conditions.
        index: usize,
        /// What it found.
        found: Found,
        /// The instant that the commit would have had.
        at: Timestamp,
    },
    /// A sum would be above its ceiling.
    #[error("addition {index} of the batch would come to {sum}, above its ceiling of {ceiling}")]
    Ceiling {
        /// Which addition, counted from 0 among the batch's additions.
        index: usize,
        /// The sum that it would have come to.
        sum: i64,
        /// The ceiling.
        ceiling: i64,
    },
    /// An addition to a cell that holds something else, or whose sum does not fit 64 bits.
    #[error("the cell {key} is no counter that the batch could add to: {problem}")]
    NotACounter {
        /// The cell.
        key: Key,
        /// What it holds instead.
        problem: String,
    },
    /// The caller asked for something that no store does.
    #[error("{problem}")]
    Misuse {
        /// What was wrong and what is allowed.
        problem: String,
    },
    /// The answer to a commit was lost: it may have been applied or not.
    #[error("it is unknown whether the batch was applied: {cause}")]
    Unknown {
        /// What happened.
        cause: String,
    },
    /// The store cannot be reached or is busy. Nothing was written.
    #[error("the store is not available: {cause}")]
    Unavailable {
        /// What happened.
        cause: String,
    },
    /// A newer program made or changed this store.
    #[error("the store {place} has schema {found}, this program knows schemas up to {known}")]
    NewerSchema {
        /// Where the store is.
        place: String,
        /// The stamp that it carries.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
    /// What is at that place was not made by this program.
    #[error("{place} is not a store of placet: {problem}")]
    NotAStore {
        /// The place.
        place: String,
        /// What is there instead.
        problem: String,
    },
    /// A newer program wrote this value.
    #[error("a value has format {found}, this program knows formats up to {known}")]
    NewerFormat {
        /// The format that it has.
        found: u16,
        /// The newest that the reader knows.
        known: u16,
    },
    /// What is stored is not what was written.
    #[error("stored content is damaged: {what}")]
    Corrupt {
        /// What was found.
        what: String,
    },
    /// The backend failed. Nothing was written.
    #[error("{action}: {source}")]
    Backend {
        /// What was being done.
        action: &'static str,
        /// The backend's own error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Whether the batch may have been applied all the same. Repeat it under a condition that fails if it was.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, StoreError::Unknown { .. })
    }

    /// Whether the batch itself stood in the way: a condition, a ceiling. Asking again changes nothing.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, StoreError::Condition { .. } | StoreError::Ceiling { .. })
    }
}

impl Diagnose for StoreError {
    fn kind(&self) -> ErrorKind {
        match self {
            StoreError::Condition { .. } => ErrorKind::Conflict,
            StoreError::Ceiling { .. } => ErrorKind::LimitReached,
            StoreError::NotACounter { .. } | StoreError::Misuse { .. } => ErrorKind::InvalidRequest,
            StoreError::Unknown { .. } => ErrorKind::Interrupted,
            StoreError::Unavailable { .. } => ErrorKind::Unavailable,
            StoreError::NewerSchema { .. } | StoreError::NotAStore { .. } => ErrorKind::Wiring,
            StoreError::NewerFormat { .. } | StoreError::Corrupt { .. } | StoreError::Backend { .. } => {
                ErrorKind::Storage
            }
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            StoreError::NewerSchema { .. } | StoreError::NewerFormat { .. } => {
                "Use the version of placet that wrote it, or a newer one."
            }
            StoreError::NotAStore { .. } => "Name another place, or move away what is there.",
            StoreError::Unknown { .. } => "Look whether it was applied before you do it again.",
            StoreError::Unavailable { .. } => "Nothing was written; try again.",
            StoreError::Corrupt { .. } => {
                "`placet audit verify` names what is damaged; a copy from before has it whole."
            }
            StoreError::Condition { .. }
            | StoreError::Ceiling { .. }
            | StoreError::NotACounter { .. }
            | StoreError::Misuse { .. }
            | StoreError::Backend { .. } => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}
