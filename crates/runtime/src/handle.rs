//! A run that goes on in the background: its events, its cancellation, its result.

use crate::error::{Result, RuntimeError};
use crate::feed::{FeedReader, Next};
use futures_core::Stream;
use futures_util::stream::{self, BoxStream, StreamExt};
use placet_core::env::Task;
use placet_core::{Cursor, Event, RunId};
use placet_observe::RunResult;
use placet_store::{SharedStore, Tenant};
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// A run that was started or resumed by this process.
///
/// It goes on whether or not anybody holds this: dropping the handle stops nothing. [`RunHandle::cancel`] does.
pub struct RunHandle {
    pub(crate) run: RunId,
    pub(crate) cancel: CancellationToken,
    pub(crate) leave: CancellationToken,
    pub(crate) leave_now: CancellationToken,
    pub(crate) gone: CancellationToken,
    pub(crate) source: EventSource,
    pub(crate) result: oneshot::Receiver<Result<RunResult>>,
    pub(crate) observers: Vec<Task>,
}

impl RunHandle {
    /// Which run.
    #[must_use]
    pub fn id(&self) -> &RunId {
        &self.run
    }

    /// The events after a place, first the recorded ones, then live ones as they happen, without a gap and without a
    /// repetition. A reader that falls behind gets a `stream.snapshot` in place of the live events it missed; it never
    /// holds the run up. The stream ends with the run.
    #[must_use]
    pub fn events(&self, from: Cursor) -> EventStream {
        self.source.stream(from)
    }

    /// The events after a place, for the one on whose behalf the run goes on: while this reader is far behind, the model's
    /// answer is read no further, so that it misses nothing. Records are written and limits hold all the same. Dropping
    /// it lets the run go on at its own pace.
    #[must_use]
    pub fn paced_events(&self, from: Cursor) -> EventStream {
        self.source.read(self.source.feed.pacing_reader(from))
    }

    /// Asks the run to end: a model's answer is cut off, handlers that only read are dropped, others are waited for.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Stops working on the run without ending it: a model's answer is cut off and forgotten, handlers that run are
    /// waited for and their results recorded, the lease is given back. Calls whose handlers have not started stay open, and
    /// so does a question that nobody has answered yet. [`RunHandle::wait`] then gives [`RuntimeError::Left`], and
    /// [`Runtime::resume`](crate::Runtime::resume) goes on from there, in any process.
    pub fn leave(&self) {
        self.leave.cancel();
    }

    /// As [`RunHandle::leave`], and handlers that run are told to stop, through their tokens. One that only reads is dropped
    /// and its call stays open; the answer of any other is recorded, within the pipeline's grace.
    pub fn leave_now(&self) {
        self.leave.cancel();
        self.leave_now.cancel();
    }

    /// What leaves the run, for whoever does not hold the handle.
    #[must_use]
    pub fn leaving(&self) -> Leaving {
        Leaving { leave: self.leave.clone(), now: self.leave_now.clone(), gone: self.gone.clone() }
    }

    /// What cancels the run, for whoever does not hold the handle.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// [`RuntimeError`] where the run could not be carried on (its store failed, another process took it over). A run
    /// that failed by itself is a result.
    pub async fn wait(self) -> Result<RunResult> {
        let result = self.result.await;
        for observer in self.observers {
            // A panic of an observer is its own affair.
            let _ = observer.join().await;
        }
        result.unwrap_or_else(|_| Err(RuntimeError::internal("the task of the run was stopped before the run's end")))
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("run", &self.run).finish_non_exhaustive()
    }
}

/// Leaves a run without its [`RunHandle`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Leaving {
    leave: CancellationToken,
    now: CancellationToken,
    gone: CancellationToken,
}

impl Leaving {
    /// What [`RunHandle::leave`] does.
    pub fn leave(&self) {
        self.leave.cancel();
    }

    /// What [`RunHandle::leave_now`] does.
    pub fn leave_now(&self) {
        self.leave.cancel();
        self.now.cancel();
    }

    /// Completes when nothing works on the run any more, whether it was left or has ended.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }
}

/// Events of a run, in order. Ends after the event that ends the run, or after an error.
pub struct EventStream(BoxStream<'static, Result<Arc<Event>>>);

impl EventStream {
    pub(crate) fn new(stream: impl Stream<Item = Result<Arc<Event>>> + Send + 'static) -> Self {
        EventStream(stream.boxed())
    }

    /// The next event.
    pub async fn next(&mut self) -> Option<Result<Arc<Event>>> {
        self.0.next().await
    }
}

impl Stream for EventStream {
    type Item = Result<Arc<Event>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventStream")
    }
}

/// Where the events of a run that this process owns come from: its feed, and the store for what has left the feed.
#[derive(Clone)]
pub(crate) struct EventSource {
    pub(crate) feed: Arc<crate::feed::Feed>,
    pub(crate) store: SharedStore,
    pub(crate) tenant: Tenant,
}

impl EventSource {
    pub(crate) fn stream(&self, from: Cursor) -> EventStream {
        self.read(self.feed.reader(from))
    }

    fn read(&self, reader: FeedReader) -> EventStream {
        let reading = Reading {
            reader,
            store: self.store.clone(),
            tenant: self.tenant.clone(),
            ready: VecDeque::new(),
            over: false,
        };
        EventStream::new(stream::unfold(reading, |mut reading| async move {
            let next = reading.next().await?;
            reading.over |= next.as_ref().map_or(true, |event| event.body.is_end());
            Some((next, reading))
        }))
    }
}

struct Reading {
    reader: FeedReader,
    store: SharedStore,
    tenant: Tenant,
    ready: VecDeque<Arc<Event>>,
    over: bool,
}

impl Reading {
    async fn next(&mut self) -> Option<Result<Arc<Event>>> {
        loop {
            if self.over {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            match self.reader.next().await {
                Next::Events(events) => self.ready.extend(events),
                Next::Snapshot(event) => return Some(Ok(event)),
                Next::Records(through) => {
                    let (run, after) = (self.reader.run().clone(), self.reader.cursor().durable);
                    match placet_observe::events_between(&*self.store, &self.tenant, &run, after, through).await {
                        // The run was deleted under the reader.
                        Ok(events) if events.is_empty() => return None,
                        Ok(events) => {
                            self.ready.extend(events);
                            if let Some(last) = self.ready.back() {
                                self.reader.advance(last.cursor);
                            }
                        }
                        Err(error) => return Some(Err(error.into())),
                    }
                }
                Next::Wait | Next::Over => return None,
            }
        }
    }
}
