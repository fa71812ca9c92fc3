//! What decides: the admission rule, which judges every proposed write, and the termination predicate, which is asked before
//! silence ends a run. Both may be code of this process, or data that stands with the board and counts in every process.

mod compiled;
mod expression;

use crate::content::Content;
use crate::error::Result;
use crate::name::BoardId;
use crate::reader::Reader;
use async_trait::async_trait;
use std::sync::Arc;

pub(crate) use compiled::Compiled;
pub use compiled::{StoredRule, StoredRules, StoredTermination};
pub use expression::{Expression, ExpressionError};

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

impl Proposed {
    /// Who wants to write.
    #[must_use]
    pub fn writer(&self) -> &str {
        match self {
            Proposed::Contribution { writer, .. } | Proposed::Premise { writer, .. } => writer,
        }
    }

    /// The region.
    #[must_use]
    pub fn region(&self) -> &str {
        match self {
            Proposed::Contribution { level, .. } => level,
            Proposed::Premise { premise, .. } => premise,
        }
    }

    /// What is to be written.
    #[must_use]
    pub fn content(&self) -> &Content {
        match self {
            Proposed::Contribution { content, .. } => content,
            Proposed::Premise { value, .. } => value,
        }
    }
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
pub enum Termination {
    /// The work is done: the run settles.
    Complete,
    /// The run goes on for another idle limit.
    Continue,
}

/// Judges proposed writes. No lock is held meanwhile: two writes that are judged at the same time are both judged by the
/// board as it was before either. A premise's version closes that gap; a level has no such thing.
#[async_trait]
pub trait AdmissionRule: Send + Sync {
    /// Whether the write may be made.
    ///
    /// # Errors
    /// Whatever kept it from judging. It goes to the writer, and nothing is written.
    async fn judge(&self, proposed: &Proposed, board: &Reader) -> Result<Verdict>;
}

/// Says whether the work is done.
#[async_trait]
pub trait TerminationPredicate: Send + Sync {
    /// Whether the run may settle. What it says does not count if anything happened meanwhile.
    ///
    /// # Errors
    /// Whatever kept it from deciding. The run goes on.
    async fn decide(&self, board: &Reader) -> Result<Termination>;
}

/// Asks rules that stand behind a URL.
#[async_trait]
pub trait Webhooks: Send + Sync {
    /// Puts a proposed write to the rule at `url`.
    ///
    /// # Errors
    /// Whatever kept it from being asked.
    async fn judge(&self, url: &str, board: &BoardId, proposed: &Proposed) -> Result<Verdict>;

    /// Asks the predicate at `url`.
    ///
    /// # Errors
    /// Whatever kept it from being asked.
    async fn decide(&self, url: &str, board: &BoardId) -> Result<Termination>;
}

/// A rule that looks at nothing but the proposed write.
pub fn admission<F>(judge: F) -> Arc<dyn AdmissionRule>
where
    F: Fn(&Proposed) -> Verdict + Send + Sync + 'static,
{
    struct Function<F>(F);

    #[async_trait]
    impl<F: Fn(&Proposed) -> Verdict + Send + Sync> AdmissionRule for Function<F> {
        async fn judge(&self, proposed: &Proposed, _: &Reader) -> Result<Verdict> {
            Ok((self.0)(proposed))
        }
    }
    Arc::new(Function(judge))
}

/// A predicate that is a function of the board.
pub fn termination<F, Fut>(decide: F) -> Arc<dyn TerminationPredicate>
where
    F: Fn(Reader) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Termination>> + Send + 'static,
{
    struct Function<F>(F);

    #[async_trait]
    impl<F, Fut> TerminationPredicate for Function<F>
    where
        F: Fn(Reader) -> Fut + Send + Sync,
        Fut: Future<Output = Result<Termination>> + Send,
    {
        async fn decide(&self, board: &Reader) -> Result<Termination> {
            (self.0)(board.clone()).await
        }
    }
    Arc::new(Function(decide))
}
