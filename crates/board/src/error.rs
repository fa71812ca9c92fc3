//! What can go wrong with a board. A refused write and a moved premise are not among it: they are answers.

use crate::content::InvalidContent;
use crate::model::RegionKind;
use crate::name::{BoardId, Quoted};
use placet_core::{Diagnose, ErrorKind};
use placet_store::StoreError;

/// A result of a board.
pub type Result<T, E = BoardError> = std::result::Result<T, E>;

/// Why a board did not do what it was asked. Nothing was written, unless the store says that it does not know.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BoardError {
    /// There is no such board, or it has no run that could take this.
    #[error("no board is held under the name {}", Quoted(board.as_str()))]
    UnknownBoard {
        /// The board that was named.
        board: BoardId,
    },
    /// The board has no region of that name.
    #[error("no region is declared with the name {}", Quoted(region))]
    UnknownRegion {
        /// The region that was named.
        region: String,
    },
    /// The region is of the other kind.
    #[error("{} names a {found}, and this operation takes a {}", Quoted(region), other(*found))]
    WrongRegionKind {
        /// The region that was named.
        region: String,
        /// What it is.
        found: RegionKind,
    },
    /// The premise was never set.
    #[error("the premise {} has no value until one is written", Quoted(premise))]
    UnsetPremise {
        /// The premise.
        premise: String,
    },
    /// The run has no agent of that name.
    #[error("no agent is registered under the name {}", Quoted(agent))]
    UnknownAgent {
        /// The agent.
        agent: String,
    },
    /// The agent was never told that far.
    #[error("no notification {id} was issued to {}", Quoted(agent))]
    UnknownNotification {
        /// The agent.
        agent: String,
        /// What it acknowledged.
        id: u64,
    },
    /// The key has named a write to another region.
    #[error("{} named {} and is now naming {}", Quoted(key), Quoted(first), Quoted(now))]
    KeyReused {
        /// The key.
        key: String,
        /// The region that it named first.
        first: String,
        /// The region that it names now.
        now: String,
    },
    /// The run has closed, and takes no declarations and registrations.
    #[error("the run has closed")]
    RunClosed,
    /// The run is open, and what was asked needs a closed one.
    #[error("the run is open; it is reopened once it has closed")]
    RunOpen,
    /// A region of that name is there already.
    #[error("a region named {} is already declared", Quoted(region))]
    DuplicateRegion {
        /// The region.
        region: String,
    },
    /// A list of agents names one twice.
    #[error("the agents name {} more than once", Quoted(agent))]
    DuplicateAgent {
        /// The agent.
        agent: String,
    },
    /// The opening values are not exactly those of the declared premises.
    #[error("{problem}")]
    Premises {
        /// What is wrong with them.
        problem: String,
    },
    /// A board is described in a way that cannot be.
    #[error("{problem}")]
    InvalidSpec {
        /// What was wrong and what is expected.
        problem: String,
    },
    /// A name cannot be one.
    #[error(
        "{} is no name of a {what}: {problem}; a name has 1 to {} bytes and no NUL character",
        Quoted(name),
        crate::name::MAX_NAME_BYTES
    )]
    InvalidName {
        /// What it was to name.
        what: &'static str,
        /// The name, cut to 80 characters.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The content is not JSON.
    #[error(transparent)]
    Content(#[from] InvalidContent),
    /// The content is larger than a board takes.
    #[error("the content has {size} bytes, {most} are allowed")]
    TooLarge {
        /// Its bytes.
        size: usize,
        /// How many may be.
        most: usize,
    },
    /// The content is nested deeper than a board takes.
    #[error("more than {most} lists and objects of the content lie within one another")]
    TooDeep {
        /// How many may.
        most: usize,
    },
    /// A rule could not be asked. The write was not made.
    #[error("the rule could not be asked: {problem}")]
    Rule {
        /// What happened.
        problem: String,
    },
    /// Others changed the board again and again while this was tried.
    #[error("the board {} changed {attempts} times while this was tried; try again", Quoted(board.as_str()))]
    Busy {
        /// The board.
        board: BoardId,
        /// How often it was tried.
        attempts: usize,
    },
    /// The board cannot be reached across the network. Whether a write arrived is not known.
    #[error("the board cannot be reached: {problem}")]
    Unreachable {
        /// What happened.
        problem: String,
    },
    /// The other side answered something that is not of this protocol.
    #[error("the board's server answered what no board answers: {problem}")]
    Protocol {
        /// What it was.
        problem: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn other(kind: RegionKind) -> RegionKind {
    match kind {
        RegionKind::Level => RegionKind::Premise,
        RegionKind::Premise => RegionKind::Level,
    }
}

impl BoardError {
    /// The stable word that the wire has for it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            BoardError::UnknownBoard { .. } => "unknown_board",
            BoardError::UnknownRegion { .. } => "unknown_region",
            BoardError::WrongRegionKind { .. } => "wrong_region_kind",
            BoardError::UnsetPremise { .. } => "unset_premise",
            BoardError::UnknownAgent { .. } => "unknown_agent",
            BoardError::UnknownNotification { .. } => "unknown_notification",
            BoardError::KeyReused { .. } => "idempotency_key_reused",
            BoardError::RunClosed => "run_closed",
            BoardError::RunOpen => "run_open",
            BoardError::DuplicateRegion { .. } => "duplicate_region",
            BoardError::DuplicateAgent { .. } => "duplicate_agent",
            BoardError::Premises { .. } => "premises",
            BoardError::InvalidSpec { .. }
            | BoardError::InvalidName { .. }
            | BoardError::Content(_)
            | BoardError::TooDeep { .. } => "bad_body",
            BoardError::TooLarge { .. } => "too_large",
            BoardError::Rule { .. } => "rule_failed",
            BoardError::Busy { .. } => "busy",
            BoardError::Unreachable { .. } => "unreachable",
            BoardError::Protocol { .. } => "protocol",
            BoardError::Store(_) => "store_failed",
        }
    }

    /// Whether a model that caused it can correct it: an undeclared region, one of the other kind, a premise without a
    /// value, a key that named another region, a notification that was never issued.
    #[must_use]
    pub fn is_answerable(&self) -> bool {
        matches!(
            self,
            BoardError::UnknownRegion { .. }
                | BoardError::WrongRegionKind { .. }
                | BoardError::UnsetPremise { .. }
                | BoardError::KeyReused { .. }
                | BoardError::UnknownNotification { .. }
        )
    }
}

impl Diagnose for BoardError {
    fn kind(&self) -> ErrorKind {
        match self {
            BoardError::UnknownBoard { .. }
            | BoardError::UnknownRegion { .. }
            | BoardError::WrongRegionKind { .. }
            | BoardError::UnsetPremise { .. }
            | BoardError::UnknownAgent { .. }
            | BoardError::UnknownNotification { .. } => ErrorKind::NotFound,
            BoardError::KeyReused { .. }
            | BoardError::RunClosed
            | BoardError::RunOpen
            | BoardError::DuplicateRegion { .. } => ErrorKind::Conflict,
            BoardError::DuplicateAgent { .. }
            | BoardError::Premises { .. }
            | BoardError::InvalidSpec { .. }
            | BoardError::InvalidName { .. }
            | BoardError::Content(_)
            | BoardError::TooDeep { .. }
            | BoardError::TooLarge { .. } => ErrorKind::InvalidRequest,
            BoardError::Rule { .. } => ErrorKind::Unavailable,
            BoardError::Busy { .. } => ErrorKind::Overloaded,
            BoardError::Unreachable { .. } => ErrorKind::Network,
            BoardError::Protocol { .. } => ErrorKind::Protocol,
            BoardError::Store(error) => error.kind(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            BoardError::UnknownBoard { .. } => vec!["Open the board first, or look which boards there are.".to_owned()],
            BoardError::Busy { .. } => vec!["Nothing was written; try again.".to_owned()],
            BoardError::Store(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}
