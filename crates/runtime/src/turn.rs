//! One turn: a provider's stream, folded and shown as it comes.

use crate::journal::JournalWriter;
use futures_util::StreamExt;
use placet_core::event::{Delta, EventBody, RetryStarted};
use placet_core::{Accumulator, ErrorKind, ProviderError, TurnEvent, TurnRequest};
use placet_models::{AskContext, AskObserver, ModelProvider};
use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, Mutex, PoisonError};

/// How large the answer of one turn may be, in bytes of JSON: half of what a store takes as one value, since the record of
/// the turn holds more than the answer.
pub(crate) const TURN_BYTES: usize = 8 << 20;

/// Asks for one turn and folds its events into `answer`, showing them on the way. Nothing is run.
///
/// # Errors
/// What the provider refused the request with, or one of kind *limit reached* for an answer above [`TURN_BYTES`], of which
/// no more is read. An answer that breaks off is told by the fold.
pub(crate) async fn stream(
    provider: &dyn ModelProvider,
    request: Arc<TurnRequest>,
    context: AskContext,
    journal: &JournalWriter,
    answer: &mut Accumulator,
) -> Result<(), ProviderError> {
    let mut events = provider.ask(request, context).await?;
    let mut size = TurnSize::default();
    while let Some(event) = events.next().await {
        size.add(&event).map_err(|problem| too_large(provider, problem))?;
        answer.push(&event);
        if let Some(shown) = shown(event) {
            journal.live(shown);
            journal.has_room().await;
        }
    }
    Ok(())
}

/// How large the answer of a turn is so far.
#[derive(Debug, Default)]
pub(crate) struct TurnSize {
    bytes: usize,
    /// The places of the answer: each becomes an item of its own.
    places: HashSet<(u32, Discriminant<TurnEvent>)>,
}

/// More than what an item takes in the record besides its content: its ids, its origin, the names of its fields.
const ITEM_BYTES: usize = 512;

impl TurnSize {
    /// Adds what an event brings. Only what is kept in the record of the turn counts, as it is written there.
    pub(crate) fn add(&mut self, event: &TurnEvent) -> Result<(), TooLarge> {
        let index = match event {
            TurnEvent::Text(delta) | TurnEvent::Refusal(delta) | TurnEvent::Reasoning(delta) => Some(delta.index),
            TurnEvent::Call(delta) => Some(delta.index),
            TurnEvent::ReasoningState(state) | TurnEvent::TextState(state) => Some(state.index),
            TurnEvent::Whole(whole) => Some(whole.index),
            _ => None,
        };
        if index.is_some_and(|index| self.places.insert((index, discriminant(event)))) {
            self.bytes += ITEM_BYTES;
        }
        self.bytes += match event {
            TurnEvent::Text(delta) | TurnEvent::Refusal(delta) | TurnEvent::Reasoning(delta) => written(&delta.text),
            TurnEvent::Call(delta) => {
                let native = delta.native.as_ref().map_or(0, json_size);
                let texts = delta.name.iter().chain(&delta.provider_id).map(|text| written(text));
                written(&delta.arguments) + native + texts.sum::<usize>()
            }
            TurnEvent::ReasoningState(state) | TurnEvent::TextState(state) => json_size(&state.native),
            TurnEvent::Whole(whole) => json_size(&whole.body),
            TurnEvent::Finished(finished) => json_size(finished),
            _ => 0,
        };
        if self.bytes > TURN_BYTES { Err(TooLarge) } else { Ok(()) }
    }
}

/// An answer is above [`TURN_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// The error that ends such a turn.
pub(crate) fn too_large(provider: &dyn ModelProvider, _: TooLarge) -> ProviderError {
    let message = format!(
        "the answer is larger than {} MiB, the most that one turn may hold; the connection was closed",
        TURN_BYTES >> 20
    );
    ProviderError::new(ErrorKind::LimitReached, provider.id().clone(), message)
        .with_hint("Limit the output of one turn, or ask for the work in smaller pieces.")
}

/// How many bytes a text takes in JSON, without its quotes.
fn written(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

/// How many bytes a value takes in JSON; one that cannot be written is none of a record.
fn json_size(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |bytes| bytes.len())
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use placet_core::Env;
    use placet_core::env::ManualClock;
    use placet_core::turn::{CallDelta, TextDelta, TurnFinished};
    use placet_core::{StopReason, Timestamp};

    /// What is counted is never less than what the items take as they are written.
    #[test]
    fn the_size_of_an_answer_is_at_least_that_of_its_items() {
        let text = |index: u32| TextDelta { index, text: "\u{1}\"\\\n\u{1f}\u{8}\u{c}\u{7f}é😀".into() };
        let call = |index: u32| CallDelta {
            index,
            name: Some("a".into()),
            arguments: "{\"b\":\"\\u0001\"}".into(),
            ..Default::default()
        };
        let (mut size, mut answer) = (TurnSize::default(), Accumulator::new());
        let finished = TurnFinished::new(StopReason::ToolCalls);
        let events = (0..200).flat_map(|place| {
            [TurnEvent::Reasoning(text(place)), TurnEvent::Text(text(place)), TurnEvent::Call(call(place))]
        });
        for event in events.chain([TurnEvent::Finished(finished)]) {
            size.add(&event).unwrap();
            answer.push(&event);
        }
        let env = Env::deterministic(ManualClock::new(Timestamp::EPOCH), 1);
        let turn = answer.finish(&"p".into(), &env).unwrap();
        assert!(turn.items.len() >= 400, "{}", turn.items.len());
        assert!(size.bytes >= json_size(&turn.items), "{} < {}", size.bytes, json_size(&turn.items));
    }
}
