//! What decides: the admission rule, which judges every proposed write, and the termination predicate, which is asked before
//! silence ends a run.

use crate::content::Content;

/// A write as the admission rule sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposed {
    /// A contribution to a level.
    Contribution {
        /// Who wants to write it.
        writer: String,
        /// The level.
        level: String,
        /// What it is.
        content: Content,
    },
    /// A value for a premise.
    Premise {
        /// Who wants to set it.
        writer: String,
        /// The premise.
        premise: String,
        /// The value.
        value: Content,
        /// The version that the writer's decision rests on.
        expected_version: u64,
    },
}

/// What the admission rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be written.
    Accept,
    /// It may not, for a reason that the writer reads.
    Reject(String),
}

/// What the termination predicate says when nothing has happened for the idle limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The work is done: the run settles.
    Complete,
    /// It goes on waiting for another idle limit.
    Continue,
}
