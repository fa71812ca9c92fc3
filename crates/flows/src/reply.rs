//! Live replies: recorded as they come, replayed to any number of readers.

use crate::error::{FlowError, Result};
use futures_core::Stream;
use futures_util::stream::{self, BoxStream, StreamExt};
use placet_core::{Accumulator, ProviderId, ToolCall, Turn, TurnEvent, Usage};
use serde::de::DeserializeOwned;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How many bytes a reply may hold.
const MOST: usize = 32 << 20;

/// How many events lie before a reader that paces the reply until whoever makes it waits.
const WINDOW: usize = 256;

/// A reply that may still be coming. Cheap to clone.
///
/// Whoever reads sees it from its beginning, however late they come, and nobody who reads holds up anybody else; only the
/// one reader on whose behalf it is made, if there is one, is waited for.
#[derive(Clone)]
pub struct Reply(Arc<Buffer>);

struct Buffer {
    state: Mutex<State>,
    grown: Notify,
    room: Notify,
}

#[derive(Default)]
struct State {
    events: Vec<TurnEvent>,
    bytes: usize,
    end: Option<Result<Option<Arc<Turn>>, Arc<FlowError>>>,
    /// How far the reader has come that is waited for.
    pace: Option<usize>,
    /// Of how many events somebody has passed on what they say, if somebody does.
    passed: Option<usize>,
}

impl Reply {
    pub(crate) fn new() -> Self {
        Reply(Arc::new(Buffer { state: Mutex::default(), grown: Notify::new(), room: Notify::new() }))
    }

    /// A reply that is whole already.
    pub(crate) fn of_turn(turn: Turn, events: Vec<TurnEvent>) -> Self {
        let reply = Reply::new();
        reply.lock().events = events;
        reply.end(Ok(Some(Arc::new(turn))));
        reply
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event, once the reader who is waited for is near enough.
    ///
    /// # Errors
    /// [`FlowError::Cancelled`] where that takes until nobody waits any more, [`FlowError::Limit`] for too large a reply.
    pub(crate) async fn push(&self, event: TurnEvent, cancel: &CancellationToken) -> Result<()> {
        loop {
            let mut room = std::pin::pin!(self.0.room.notified());
            room.as_mut().enable();
            let full = {
                let state = self.lock();
                state.pace.is_some_and(|at| state.events.len().saturating_sub(at) >= WINDOW)
            };
            if !full {
                break;
            }
            tokio::select! {
                () = room => {}
                () = cancel.cancelled() => return Err(FlowError::Cancelled),
            }
        }
        if cancel.is_cancelled() {
            return Err(FlowError::Cancelled);
        }
        self.push_now(event)
    }

    /// Adds an event whoever reads.
    pub(crate) fn push_now(&self, event: TurnEvent) -> Result<()> {
        {
            let mut state = self.lock();
            state.bytes += weight(&event);
            if state.bytes > MOST {
                return Err(FlowError::Limit { what: format!("an answer of more than {} MiB", MOST >> 20) });
            }
            state.events.push(event);
        }
        self.0.grown.notify_waiters();
        Ok(())
    }

    /// Says that nothing more comes. Only the first end counts.
    pub(crate) fn end(&self, end: Result<Option<Arc<Turn>>, Arc<FlowError>>) {
        self.lock().end.get_or_insert(end);
        self.0.grown.notify_waiters();
    }

    /// Ends with an error, of which the last event tells.
    pub(crate) fn end_with(&self, event: TurnEvent, error: FlowError) {
        {
            let mut state = self.lock();
            if state.end.is_some() {
                return;
            }
            state.events.push(event);
            state.end = Some(Err(Arc::new(error)));
        }
        self.0.grown.notify_waiters();
    }

    /// Everything so far.
    pub(crate) fn recorded(&self) -> Vec<TurnEvent> {
        self.lock().events.clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().events.is_empty()
    }

    /// The events from the first on, as they come. The stream ends with the reply, after an error too.
    #[must_use]
    pub fn events(&self) -> ReplyEvents {
        self.read(false, false)
    }

    /// The events for the one on whose behalf the reply is made: it is waited for.
    #[must_use]
    pub fn paced_events(&self) -> ReplyEvents {
        self.read(true, false)
    }

    /// The events for one who passes them on: it is waited for, and asks for the next one once it has passed on the last.
    pub(crate) fn piped_events(&self) -> ReplyEvents {
        self.read(true, true)
    }

    /// Waits until whoever passes on what is there has done so.
    pub(crate) async fn caught_up(&self) {
        self.wait(|state| state.passed.is_none_or(|passed| passed >= state.events.len()).then_some(())).await;
    }

    fn read(&self, paces: bool, pipes: bool) -> ReplyEvents {
        {
            let mut state = self.lock();
            if paces {
                state.pace = Some(0);
            }
            if pipes {
                state.passed = Some(0);
            }
        }
        let reader = Reader { reply: self.clone(), at: 0, paces, pipes };
        ReplyEvents(
            stream::unfold(reader, |mut reader| async move {
                let event = reader.next().await?;
                Some((event, reader))
            })
            .boxed(),
        )
    }

    /// Waits until there is an event, or the end.
    ///
    /// # Errors
    /// The error where the reply ended with one before its first event.
    pub async fn first(&self) -> Result<()> {
        self.wait(|state| {
            if state.events.first().is_some_and(|event| !matches!(event, TurnEvent::Failed(_))) {
                return Some(Ok(()));
            }
            state.end.as_ref().map(|end| end.as_ref().map(|_| ()).map_err(|error| FlowError::Shared(error.clone())))
        })
        .await
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// What the reply ended with.
    pub async fn ended(&self) -> Result<()> {
        self.wait(|state| {
            let end = state.end.as_ref()?;
            Some(end.as_ref().map(|_| ()).map_err(|error| FlowError::Shared(error.clone())))
        })
        .await
    }

    /// The error that it ended with, once it has.
    pub async fn err(&self) -> Option<FlowError> {
        self.ended().await.err()
    }

    /// Waits for the end and gives the model's last turn.
    ///
    /// # Errors
    /// What the reply ended with.
    pub async fn turn(&self) -> Result<Arc<Turn>> {
        self.wait(|state| {
            Some(match state.end.as_ref()? {
                Ok(Some(turn)) => Ok(turn.clone()),
                Ok(None) => Err(FlowError::internal("the reply is no turn of a model")),
                Err(error) => Err(FlowError::Shared(error.clone())),
            })
        })
        .await
    }

    /// Waits for the end and gives everything that was said, without thinking.
    ///
    /// # Errors
    /// What the reply ended with.
    pub async fn text(&self) -> Result<String> {
        self.ended().await?;
        Ok(self.text_so_far())
    }

    /// What has been said so far, without thinking.
    #[must_use]
    pub fn text_so_far(&self) -> String {
        let state = self.lock();
        let texts = state.events.iter().filter_map(|event| match event {
            TurnEvent::Text(delta) | TurnEvent::Refusal(delta) => Some(delta.text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Waits for the end and gives the calls of the last turn that are not answered.
    ///
    /// # Errors
    /// What the reply ended with.
    pub async fn calls(&self) -> Result<Vec<ToolCall>> {
        Ok(self.turn().await?.calls().cloned().collect())
    }

    /// Waits for the end and gives what the last turn used; nothing where the provider did not say.
    ///
    /// # Errors
    /// What the reply ended with.
    pub async fn usage(&self) -> Result<Option<Usage>> {
        Ok(self.turn().await?.usage)
    }

    /// Waits for the end and reads the last turn's text as JSON of a type. Prose and fences around the JSON are passed over.
    ///
    /// # Errors
    /// What the reply ended with, or [`FlowError::Output`] where the text is no such JSON.
    pub async fn extract<T: DeserializeOwned>(&self) -> Result<T> {
        let value = placet_runtime::output::json_in(&self.turn().await?.text())
            .ok_or_else(|| FlowError::Output { problems: vec!["there is no JSON in it".to_owned()] })?;
        serde_json::from_value(value).map_err(|error| FlowError::Output { problems: vec![error.to_string()] })
    }

    /// Waits for the end and folds the events to one turn: the whole answer, as a client that does not stream gets it.
    ///
    /// # Errors
    /// What the reply ended with.
    pub async fn collect(&self, env: &placet_core::Env) -> Result<Turn> {
        self.ended().await?;
        let mut answer = Accumulator::new();
        self.lock().events.iter().for_each(|event| answer.push(event));
        Ok(answer.finish(&ProviderId::new("placet"), env)?)
    }

    async fn wait<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
        loop {
            let mut grown = std::pin::pin!(self.0.grown.notified());
            grown.as_mut().enable();
            if let Some(found) = look(&self.lock()) {
                return found;
            }
            grown.await;
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Reply").field("events", &state.events.len()).field("ended", &state.end.is_some()).finish()
    }
}

struct Reader {
    reply: Reply,
    at: usize,
    paces: bool,
    pipes: bool,
}

impl Reader {
    async fn next(&mut self) -> Option<TurnEvent> {
        let at = self.at;
        if self.pipes {
            self.reply.lock().passed = Some(at);
            self.reply.0.grown.notify_waiters();
        }
        let event = self
            .reply
            .wait(|state| match state.events.get(at) {
                Some(event) => Some(Some(event.clone())),
                None => state.end.as_ref().map(|_| None),
            })
            .await?;
        self.at += 1;
        if self.paces {
            self.reply.lock().pace = Some(self.at);
            self.reply.0.room.notify_waiters();
        }
        Some(event)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.paces {
            self.reply.lock().pace = None;
            self.reply.0.room.notify_waiters();
        }
        if self.pipes {
            self.reply.lock().passed = None;
            self.reply.0.grown.notify_waiters();
        }
    }
}

/// The events of a [`Reply`], from its beginning.
pub struct ReplyEvents(BoxStream<'static, TurnEvent>);

impl ReplyEvents {
    /// The next event.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        self.0.next().await
    }
}

impl Stream for ReplyEvents {
    type Item = TurnEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for ReplyEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplyEvents")
    }
}

fn weight(event: &TurnEvent) -> usize {
    64 + match event {
        TurnEvent::Text(delta) | TurnEvent::Refusal(delta) | TurnEvent::Reasoning(delta) => delta.text.len(),
        TurnEvent::Call(delta) => delta.arguments.len(),
        TurnEvent::Whole(whole) => serde_json::to_vec(&whole.body).map_or(0, |bytes| bytes.len()),
        TurnEvent::ReasoningState(state) | TurnEvent::TextState(state) => state.native.value.to_string().len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use placet_core::turn::TextDelta;

    fn text(text: &str) -> TurnEvent {
        TurnEvent::Text(TextDelta { index: 0, text: text.to_owned() })
    }

    #[tokio::test]
    async fn every_reader_sees_the_whole_reply_however_late_it_comes() {
        let reply = Reply::new();
        let cancel = CancellationToken::new();
        let mut early = reply.events();
        reply.push(text("one"), &cancel).await.unwrap();
        assert_eq!(early.next().await, Some(text("one")));
        reply.push(text("two"), &cancel).await.unwrap();
        reply.end(Ok(None));
        let late: Vec<_> = reply.events().collect().await;
        assert_eq!(late, [text("one"), text("two")]);
        assert_eq!((early.next().await, early.next().await), (Some(text("two")), None));
        assert_eq!(reply.text().await.unwrap(), "onetwo");
    }

    #[tokio::test]
    async fn only_the_reader_it_is_made_for_is_waited_for() {
        let reply = Reply::new();
        let cancel = CancellationToken::new();
        let _idle = reply.events();
        for _ in 0..2 * WINDOW {
            reply.push(text("."), &cancel).await.unwrap();
        }
        let mut client = reply.paced_events();
        {
            let push = reply.push(text("!"), &cancel);
            let mut push = std::pin::pin!(push);
            assert!(futures_util::poll!(&mut push).is_pending());
            for _ in 0..=WINDOW {
                client.next().await.unwrap();
            }
            push.await.unwrap();
        }
        // One that waits for a client that goes away does not wait for ever.
        let full = async {
            loop {
                reply.push(text("."), &cancel).await?;
            }
            #[expect(unreachable_code, reason = "names the type")]
            Ok::<(), FlowError>(())
        };
        let mut full = std::pin::pin!(full);
        assert!(futures_util::poll!(&mut full).is_pending());
        cancel.cancel();
        assert!(matches!(full.await, Err(FlowError::Cancelled)));
    }
}
