//! One turn: a provider's stream, folded and shown as it comes.

use crate::journal::JournalWriter;
use futures_util::StreamExt;
use placet_core::event::{Delta, EventBody, RetryStarted};
use placet_core::{Accumulator, ProviderError, TurnEvent, TurnRequest};
use placet_models::{AskContext, AskObserver, ModelProvider};
use std::sync::{Arc, Mutex, PoisonError};

/// Asks for one turn and folds its events into `answer`, showing them on the way. Nothing is run.
///
/// # Errors
/// What the provider refused the request with. An answer that breaks off is told by the fold.
pub(crate) async fn stream(
    provider: &dyn ModelProvider,
    request: Arc<TurnRequest>,
    context: AskContext,
    journal: &JournalWriter,
    answer: &mut Accumulator,
) -> Result<(), ProviderError> {
    let mut events = provider.ask(request, context).await?;
    while let Some(event) = events.next().await {
        answer.push(&event);
        if let Some(shown) = shown(event) {
            journal.live(shown);
        }
    }
    Ok(())
}

/// What readers see of an event; what is whole they see in the finished turn.
fn shown(event: TurnEvent) -> Option<EventBody> {
    match event {
        TurnEvent::Text(delta) | TurnEvent::Refusal(delta) if !delta.text.is_empty() => {
            Some(EventBody::TextDelta(Delta { index: delta.index, delta: delta.text }))
        }
        TurnEvent::Reasoning(delta) if !delta.text.is_empty() => {
            Some(EventBody::ReasoningDelta(Delta { index: delta.index, delta: delta.text }))
        }
        TurnEvent::Call(delta) if !delta.arguments.is_empty() => {
            Some(EventBody::ArgumentsDelta(Delta { index: delta.index, delta: delta.arguments }))
        }
        _ => None,
    }
}

/// Shows what an adapter does besides answering, and keeps what it left out for the record of the turn.
pub(crate) struct TurnWatcher {
    journal: Arc<JournalWriter>,
    omitted: Mutex<Vec<String>>,
}

impl TurnWatcher {
    pub(crate) fn new(journal: Arc<JournalWriter>) -> Self {
        TurnWatcher { journal, omitted: Mutex::default() }
    }

    /// What was left out of the request.
    pub(crate) fn omitted(&self) -> Vec<String> {
        std::mem::take(&mut self.omitted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AskObserver for TurnWatcher {
    fn retrying(&self, retry: &RetryStarted) {
        self.journal.live(EventBody::RetryStarted(retry.clone()));
    }

    fn omitted(&self, what: &str) {
        self.omitted.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
    }
}
