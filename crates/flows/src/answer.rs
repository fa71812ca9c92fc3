//! The answer to an exchange.

use crate::cx::Cx;
use crate::error::Result;
use crate::reply::{Reply, ReplyEvents};
use crate::tab::Tab;
use futures_core::Stream;
use placet_core::{Env, RunId, Turn, TurnEvent, Usage};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio_util::sync::DropGuard;

/// The answer to an exchange, which may still be coming. Cheap to clone; when the last clone is dropped, and the last of its
/// [`AnswerEvents`], whatever still goes on for it is cancelled.
#[derive(Clone)]
pub struct Answer {
    pub(crate) run: RunId,
    pub(crate) flow: String,
    pub(crate) reply: Reply,
    pub(crate) cx: Option<Arc<Cx>>,
    /// Cancels what goes on for the answer, once nobody holds it.
    #[expect(dead_code, reason = "it acts when it is dropped")]
    pub(crate) waiting: Option<Arc<DropGuard>>,
    pub(crate) env: Env,
    /// Whether somebody else waited for it before.
    pub(crate) is_joined: bool,
}

impl Answer {
    /// The run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The name of the flow that answers.
    #[must_use]
    pub fn flow(&self) -> &str {
        &self.flow
    }

    /// Waits until there is something of the answer, or an error instead. A server that waits for this before it sends its
    /// status can send the error's.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn first(&self) -> Result<()> {
        self.reply.first().await
    }

    /// The events of the answer for the client that it is made for: it is waited for. An error after the first event is the
    /// last event, [`TurnEvent::Failed`], worded for clients.
    pub fn events(&self) -> AnswerEvents {
        AnswerEvents { events: self.reply.paced_events(), _answer: self.clone() }
    }

    /// The answer, for readers that nobody waits for.
    #[must_use]
    pub fn reply(&self) -> &Reply {
        &self.reply
    }

    /// Waits for the end and gives the whole answer as one turn.
    ///
    /// # Errors
    /// Why there is no whole answer.
    pub async fn collect(&self) -> Result<Turn> {
        self.reply.collect(&self.env).await
    }

    /// Hints that were left out of requests so far, because a provider cannot take them.
    #[must_use]
    pub fn omitted(&self) -> Vec<String> {
        self.cx.as_ref().map(|cx| cx.omitted()).unwrap_or_default()
    }

    /// Who was asked for it, and what that cost. Nothing stands there that was on the bill of another answer.
    #[must_use]
    pub fn tab(&self) -> Tab {
        self.cx.as_ref().filter(|_| !self.is_joined).map(|cx| cx.tally.tab.clone()).unwrap_or_default()
    }

    /// What all models have used for it so far.
    #[must_use]
    pub fn spent(&self) -> Usage {
        self.cx.as_ref().map(|cx| cx.spent()).unwrap_or_default()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("run", &self.run).field("reply", &self.reply).finish_non_exhaustive()
    }
}

/// The events of an [`Answer`], from its beginning.
#[must_use = "an answer that nobody reads is cancelled"]
pub struct AnswerEvents {
    events: ReplyEvents,
    _answer: Answer,
}

impl AnswerEvents {
    /// The next event.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        self.events.next().await
    }
}

impl Stream for AnswerEvents {
    type Item = TurnEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.events).poll_next(cx)
    }
}

impl fmt::Debug for AnswerEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerEvents")
    }
}
