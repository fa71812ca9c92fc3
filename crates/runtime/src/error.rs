//! What can go wrong with a run, other than the run itself failing.

use placet_core::record::RecordError;
use placet_core::{Diagnose, ErrorKind, ProviderError, RunId, Timestamp};
use placet_observe::{Ending, ObserveError};
use placet_store::StoreError;
use placet_tools::StartError;
use std::fmt;

/// A result of the runtime.
pub type Result<T, E = RuntimeError> = std::result::Result<T, E>;

/// Why a run could not be started, resumed or carried on. A run that fails by itself (its provider gives up, for
/// instance) is a result, not one of these.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// Something is put together wrongly. Nothing was sent and nothing was recorded.
    #[error("the run cannot start: {problems}")]
    Wiring {
        /// Everything that is wrong, all at once.
        problems: Problems,
    },
    /// A capability could not get ready. Nothing was sent and nothing was recorded.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no such run.
    #[error("there is no run {run} in this store")]
    NotFound {
        /// The run that was asked for.
        run: RunId,
    },
    /// A run of this id exists already.
    #[error("a run {run} exists already; give another id, or resume it")]
    Exists {
        /// The id.
        run: RunId,
    },
    /// The run has ended, so there is nothing to resume.
    #[error("{run} has ended ({end}); there is nothing to resume")]
    Ended {
        /// The run.
        run: RunId,
        /// How it ended.
        end: Ending,
    },
    /// What is granted now is not what the run was started with.
    #[error("{run} was started with other capabilities: {problems}")]
    GrantsDiffer {
        /// The run.
        run: RunId,
        /// Every difference.
        problems: Problems,
    },
    /// A live owner holds the run.
    #[error("{run} is held by {owner} until {until}")]
    Held {
        /// The run.
        run: RunId,
        /// Who holds it.
        owner: String,
        /// Until when, on the store's clock, unless it renews its lease.
        until: Timestamp,
    },
    /// Another process has taken the run over.
    #[error("this process does not own {run} any more: another one has taken it over")]
    Lost {
        /// The run.
        run: RunId,
    },
    /// Whoever held the handle left the run as it is. Everything it did is recorded.
    #[error("{run} was left as it is; it can be resumed")]
    Left {
        /// The run.
        run: RunId,
    },
    /// The provider refused or broke off a turn that was asked outside of a run; or cannot be asked from here to go on
    /// with a resumed one, which then was left as it is.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// A journal could not be read.
    #[error(transparent)]
    Journal(#[from] ObserveError),
    /// A record could not be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The store failed. The run has not ended: it can be resumed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A fault of ours. The run has not ended: it can be resumed.
    #[error("{problem}")]
    Internal {
        /// What happened.
        problem: String,
    },
}

/// Several sentences on what is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => f.write_str(only),
            many => {
                write!(f, "{} things are wrong", many.len())?;
                many.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
            }
        }
    }
}

impl RuntimeError {
    pub(crate) fn internal(problem: impl Into<String>) -> Self {
        RuntimeError::Internal { problem: problem.into() }
    }
}

impl Diagnose for RuntimeError {
    fn kind(&self) -> ErrorKind {
        match self {
            RuntimeError::Wiring { .. } | RuntimeError::Start(_) => ErrorKind::Wiring,
            RuntimeError::NotFound { .. } => ErrorKind::NotFound,
            RuntimeError::Exists { .. }
            | RuntimeError::Ended { .. }
            | RuntimeError::GrantsDiffer { .. }
            | RuntimeError::Held { .. }
            | RuntimeError::Lost { .. } => ErrorKind::Conflict,
            RuntimeError::Left { .. } => ErrorKind::Cancelled,
            RuntimeError::Provider(error) => error.kind(),
            RuntimeError::Journal(error) => error.kind(),
            RuntimeError::Store(error) => error.kind(),
            RuntimeError::Record(_) | RuntimeError::Internal { .. } => ErrorKind::Internal,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            RuntimeError::GrantsDiffer { .. } => {
                vec!["Grant what the run was started with, in the same order; or start a new run.".to_owned()]
            }
            RuntimeError::Held { run, .. } => vec![format!(
                "`placet runs follow {run}` watches it; it can be resumed once its owner ends it or lets go of it"
            )],
            RuntimeError::Ended { run, .. } => vec![format!("`placet runs replay {run}` tells what it did")],
            RuntimeError::Lost { run } => vec![format!("`placet runs follow {run}` shows how it goes on")],
            RuntimeError::Left { run } => vec![format!("`placet runs resume {run}` goes on with it")],
            RuntimeError::Provider(error) => error.hints(),
            RuntimeError::Journal(error) => error.hints(),
            RuntimeError::Store(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}
