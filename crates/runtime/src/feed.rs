//! Live events to any number of readers.
//!
//! One feed a run, in the process that owns it. The producer puts events into a ring of bounded size and wakes whoever
//! waits. A reader is nothing but a cursor. What has left the ring it gets otherwise: records from the store, live text as
//! one snapshot of the present turn. Only for a reader that paces the run, the one on whose behalf it was started, does
//! the producer wait, and only between two pieces of a model's answer.

use placet_core::event::{Event, EventBody, Snapshot};
use placet_core::{Cursor, RunId, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The most events that the ring holds.
const RING_EVENTS: usize = 1024;

/// The most bytes of live text that the ring holds.
const RING_BYTES: usize = 256 * 1024;

/// The most events that a reader takes at once.
const TAKE: usize = 64;

/// The events of one run on their way to readers.
#[derive(Debug)]
pub(crate) struct Feed {
    run: RunId,
    state: Mutex<FeedState>,
    wake: Notify,
    /// Wakes the producer when a pacing reader has read on or is gone.
    room: Notify,
    readers: AtomicUsize,
}

#[derive(Debug)]
struct FeedState {
    ring: VecDeque<Arc<Event>>,
    bytes: usize,
    /// The place of the last event that is not in the ring any more.
    floor: Cursor,
    /// The place of the last event.
    last: Cursor,
    last_at: Timestamp,
    /// How many live events there were.
    live: u64,
    /// The text of the present turn so far.
    text: String,
    /// The place after which that text came; absent where no turn is going on.
    turn_began: Option<Cursor>,
    /// How far each reader that paces the run has read.
    pacing: BTreeMap<u64, Cursor>,
    next_pace: u64,
    closed: bool,
}

/// What a reader at some place gets next.
#[derive(Debug)]
pub(crate) enum Next {
    /// These events.
    Events(Vec<Arc<Event>>),
    /// It fell behind: the records up to that number are in the store.
    Records(u64),
    /// It fell behind, has all records, and missed live events: this stands for them.
    Snapshot(Arc<Event>),
    /// Nothing yet.
    Wait,
    /// Nothing any more.
    Over,
}

impl Feed {
    /// The feed of a run of which that many records are in the store.
    pub(crate) fn new(run: RunId, recorded: u64) -> Arc<Self> {
        let last = Cursor::record(recorded);
        let state = FeedState {
            ring: VecDeque::new(),
            bytes: 0,
            floor: last,
            last,
            last_at: Timestamp::EPOCH,
            live: 0,
            text: String::new(),
            turn_began: None,
            pacing: BTreeMap::new(),
            next_pace: 0,
            closed: false,
        };
        Arc::new(Feed {
            run,
            state: Mutex::new(state),
            wake: Notify::new(),
            room: Notify::new(),
            readers: AtomicUsize::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a live event.
    pub(crate) fn live(&self, at: Timestamp, body: EventBody) {
        {
            let mut state = self.lock();
            let cursor = Cursor { durable: state.last.durable, live: state.last.live + 1 };
            match &body {
                EventBody::TextDelta(delta) => {
                    let before = state.last;
                    state.turn_began.get_or_insert(before);
                    state.text.push_str(&delta.delta);
                }
                EventBody::RequestStarted(_) => state.begin_text(Some(cursor)),
                _ => {}
            }
            state.live += 1;
            state.push(Event { run: self.run.clone(), cursor, at, body });
        }
        self.wake.notify_waiters();
    }

    /// Shows records that were committed.
    pub(crate) fn committed(&self, records: impl IntoIterator<Item = Event>) {
        {
            let mut state = self.lock();
            for event in records {
                if matches!(event.body, EventBody::TurnCompleted(_)) {
                    state.begin_text(None);
                }
                state.push(event);
            }
        }
        self.wake.notify_waiters();
    }

    /// Says that nothing more comes.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_waiters();
    }

    /// Whether anybody reads.
    pub(crate) fn has_readers(&self) -> bool {
        self.readers.load(Ordering::Relaxed) > 0
    }

    /// A reader that has seen everything up to that place.
    pub(crate) fn reader(self: &Arc<Self>, from: Cursor) -> FeedReader {
        self.readers.fetch_add(1, Ordering::Relaxed);
        FeedReader { feed: self.clone(), cursor: from, seen: None, fell_behind: false, pace: None }
    }

    /// A reader that the run waits for, once half of the ring lies before it: it misses no live event.
    pub(crate) fn pacing_reader(self: &Arc<Self>, from: Cursor) -> FeedReader {
        let mut reader = self.reader(from);
        let mut state = self.lock();
        let pace = state.next_pace;
        state.next_pace += 1;
        state.pacing.insert(pace, from);
        reader.pace = Some(pace);
        reader
    }

    /// Waits until every pacing reader has come near enough.
    pub(crate) async fn has_room(&self) {
        loop {
            let mut made = std::pin::pin!(self.room.notified());
            made.as_mut().enable();
            if self.lock().has_room() {
                return;
            }
            made.await;
        }
    }
}

impl FeedState {
    fn begin_text(&mut self, after: Option<Cursor>) {
        self.text.clear();
        self.turn_began = after;
    }

    fn push(&mut self, event: Event) {
        self.bytes += weight(&event.body);
        self.last = event.cursor;
        self.last_at = event.at;
        self.ring.push_back(Arc::new(event));
        // One event alone stays however large it is: a reader that is there for it gets it.
        while self.ring.len() > 1 && (self.ring.len() > RING_EVENTS || self.bytes > RING_BYTES) {
            let Some(oldest) = self.ring.pop_front() else { break };
            self.bytes -= weight(&oldest.body);
            self.floor = oldest.cursor;
        }
    }

    fn has_room(&self) -> bool {
        self.closed
            || self.pacing.values().all(|cursor| {
                let first = self.ring.partition_point(|event| event.cursor <= *cursor);
                let unread = || self.ring.iter().skip(first);
                self.ring.len() - first < RING_EVENTS / 2
                    && unread().map(|event| weight(&event.body)).sum::<usize>() < RING_BYTES / 2
            })
    }

    fn after(&self, reader: &FeedReader) -> Next {
        let cursor = reader.cursor;
        // Records from the store say nothing of the live text between them.
        let misses_text = reader.fell_behind && self.turn_began.is_some_and(|began| began <= cursor);
        if cursor >= self.last && !misses_text {
            return if self.closed { Next::Over } else { Next::Wait };
        }
        if cursor >= self.floor && !misses_text {
            let first = self.ring.partition_point(|event| event.cursor <= cursor);
            return Next::Events(self.ring.iter().skip(first).take(TAKE).cloned().collect());
        }
        if cursor.durable < self.last.durable {
            return Next::Records(self.last.durable);
        }
        // Of a reader that came late nobody knows what it saw before; what it missed of this stretch is certain.
        let missed = reader.seen.map_or(self.last.live - cursor.live, |seen| self.live - seen);
        let body = EventBody::Snapshot(Snapshot { text: self.text.clone(), missed });
        Next::Snapshot(Arc::new(Event { run: reader.run().clone(), cursor: self.last, at: self.last_at, body }))
    }
}

/// What a live event weighs against the ring's bound. A record's content is shared with the run's own state.
fn weight(body: &EventBody) -> usize {
    match body {
        EventBody::TextDelta(delta) | EventBody::ReasoningDelta(delta) | EventBody::ArgumentsDelta(delta) => {
            delta.delta.len()
        }
        EventBody::CallLog(log) => log.message.len(),
        _ => 0,
    }
}

/// Reads a feed from a place on.
#[derive(Debug)]
pub(crate) struct FeedReader {
    feed: Arc<Feed>,
    cursor: Cursor,
    /// How many live events the feed had shown when this reader was last at its end; unknown at first.
    seen: Option<u64>,
    /// Whether it was sent to the store, and has not been told of the live text since.
    fell_behind: bool,
    /// Under which number the feed knows it, if it paces the run.
    pace: Option<u64>,
}

impl FeedReader {
    /// The run that is read.
    pub(crate) fn run(&self) -> &RunId {
        &self.feed.run
    }

    /// The place of the last event that was read.
    pub(crate) fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Notes that everything up to that place was read, from here or from elsewhere.
    pub(crate) fn advance(&mut self, cursor: Cursor) {
        self.cursor = self.cursor.max(cursor);
        let feed = self.feed.clone();
        self.read_on(&mut feed.lock());
    }

    /// Tells the producer how far it has read, where the producer waits for it.
    fn read_on(&self, state: &mut FeedState) {
        if let Some(pace) = self.pace {
            state.pacing.insert(pace, self.cursor);
            self.feed.room.notify_waiters();
        }
    }

    /// What comes next, once there is something.
    pub(crate) async fn next(&mut self) -> Next {
        loop {
            // Registered before the look, so that an event in between is not missed.
            let mut woken = std::pin::pin!(self.feed.wake.notified());
            woken.as_mut().enable();
            let next = {
                let feed = self.feed.clone();
                let mut state = feed.lock();
                let next = state.after(self);
                match &next {
                    Next::Events(events) => {
                        let live = events.iter().filter(|event| !event.body.is_durable()).count() as u64;
                        self.cursor = events.last().map_or(self.cursor, |event| event.cursor);
                        let at_end = self.cursor == state.last;
                        self.seen = if at_end { Some(state.live) } else { self.seen.map(|seen| seen + live) };
                        self.fell_behind = false;
                    }
                    Next::Snapshot(event) => {
                        self.cursor = event.cursor;
                        self.seen = Some(state.live);
                        self.fell_behind = false;
                    }
                    Next::Records(_) => self.fell_behind = true,
                    Next::Wait | Next::Over => {}
                }
                self.read_on(&mut state);
                next
            };
            if !matches!(next, Next::Wait) {
                return next;
            }
            woken.await;
        }
    }
}

impl Drop for FeedReader {
    fn drop(&mut self) {
        self.feed.readers.fetch_sub(1, Ordering::Relaxed);
        if let Some(pace) = self.pace {
            self.feed.lock().pacing.remove(&pace);
            self.feed.room.notify_waiters();
        }
    }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
