#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use futures_util::FutureExt;
use placet_core::event::{Delta, RequestStarted, RunResumed, TurnCompleted};
use placet_core::turn::{StopReason, Turn};
use placet_core::{ProviderId, TurnId};
use proptest::prelude::*;

fn run() -> RunId {
    RunId::parse("run_1").unwrap()
}

fn delta(text: &str) -> EventBody {
    EventBody::TextDelta(Delta { index: 0, delta: text.to_owned() })
}

fn asked() -> EventBody {
    EventBody::RequestStarted(RequestStarted { turn: 1, provider: ProviderId::new("p"), model: "m".into() })
}

fn turn() -> EventBody {
    let turn = Turn {
        id: TurnId::parse("turn_1").unwrap(),
        model: None,
        response_id: None,
        items: Vec::new(),
        stop: StopReason::End,
        usage: None,
        provider_state: None,
        native: None,
        service_tier: None,
    };
    EventBody::TurnCompleted(Box::new(TurnCompleted {
        number: 1,
        turn,
        cost: None,
        billed: None,
        omitted: Vec::new(),
        took_ms: 0,
    }))
}

fn resumed() -> EventBody {
    EventBody::RunResumed(RunResumed { token: 1, interrupted: Vec::new() })
}

/// A feed and the records that a store would have.
struct Source {
    feed: Arc<Feed>,
    records: Vec<Event>,
}

impl Source {
    fn new(recorded: u64) -> Self {
        let records = (1..=recorded).map(|number| Source::event(number, resumed())).collect();
        Source { feed: Feed::new(run(), recorded), records }
    }

    fn event(number: u64, body: EventBody) -> Event {
        Event { run: run(), cursor: Cursor::record(number), at: Timestamp::EPOCH, body }
    }

    fn live(&self, body: EventBody) {
        self.feed.live(Timestamp::EPOCH, body);
    }

    fn record(&mut self, body: EventBody) {
        let event = Source::event(self.records.len() as u64 + 1, body);
        self.records.push(event.clone());
        self.feed.committed([event]);
    }
}

/// Everything that a reader gets now, records that have left the ring included. Never waits.
fn drain(reader: &mut FeedReader, records: &[Event], most: usize) -> Vec<Event> {
    let mut got = Vec::new();
    while got.len() < most {
        let Some(next) = reader.next().now_or_never() else { break };
        match next {
            Next::Events(events) => got.extend(events.iter().map(|event| (**event).clone())),
            Next::Snapshot(event) => got.push((*event).clone()),
            Next::Records(through) => {
                let after = reader.cursor().durable;
                let page = records.iter().filter(|e| e.cursor.durable > after && e.cursor.durable <= through).take(2);
                for event in page {
                    reader.advance(event.cursor);
                    got.push(event.clone());
                }
            }
            Next::Wait | Next::Over => break,
        }
    }
    got
}

#[test]
fn a_late_reader_gets_what_the_ring_still_has_and_one_that_fell_behind_a_snapshot() {
    let mut source = Source::new(0);
    source.record(resumed());
    source.live(asked());
    source.live(delta("Hel"));
    let mut late = source.feed.reader(Cursor::START);
    assert_eq!(drain(&mut late, &source.records, 99).len(), 3);

    for _ in 0..RING_EVENTS + 10 {
        source.live(delta("l"));
    }
    source.live(delta("o"));
    let got = drain(&mut late, &source.records, 99);
    let [Event { body: EventBody::Snapshot(snapshot), .. }] = &got[..] else { panic!("{got:?}") };
    assert_eq!(snapshot.text.len(), 3 + RING_EVENTS + 10 + 1);
    assert_eq!(snapshot.missed, RING_EVENTS as u64 + 11);
    source.live(delta("!"));
    let got = drain(&mut late, &source.records, 99);
    assert_eq!(got.iter().map(|event| event.body.clone()).collect::<Vec<_>>(), [delta("!")]);
}

#[test]
fn one_event_larger_than_the_ring_is_kept_until_the_next() {
    let source = Source::new(3);
    let (mut quick, mut late) = (source.feed.reader(Cursor::record(3)), source.feed.reader(Cursor::record(3)));
    let large = "x".repeat(RING_BYTES + 1);
    source.live(delta(&large));
    let got = drain(&mut quick, &source.records, 99);
    assert_eq!(got.iter().map(|event| event.body.clone()).collect::<Vec<_>>(), [delta(&large)]);
    source.live(delta("y"));
    let got = drain(&mut late, &source.records, 99);
    let [Event { body: EventBody::Snapshot(snapshot), .. }] = &got[..] else { panic!("{} events", got.len()) };
    assert_eq!((snapshot.text.len(), snapshot.missed), (large.len() + 1, 2));
}

#[test]
fn the_ring_is_bounded_by_count_and_by_bytes() {
    let source = Source::new(0);
    for _ in 0..10 * RING_EVENTS {
        source.live(delta("x"));
    }
    assert_eq!(source.feed.lock().ring.len(), RING_EVENTS);
    for _ in 0..100 {
        source.live(delta(&"x".repeat(RING_BYTES / 10)));
    }
    let state = source.feed.lock();
    assert!(state.ring.len() <= 10 && state.bytes <= RING_BYTES);
}

#[tokio::test]
async fn a_reader_that_waits_is_woken_by_the_next_event_and_by_the_end() {
    let source = Source::new(0);
    let mut reader = source.feed.reader(Cursor::START);
    let feed = source.feed.clone();
    let (next, ()) = tokio::join!(reader.next(), async { feed.live(Timestamp::EPOCH, delta("a")) });
    assert!(matches!(next, Next::Events(_)));
    let (next, ()) = tokio::join!(reader.next(), async { feed.close() });
    assert!(matches!(next, Next::Over));
    assert!(source.feed.has_readers());
    drop(reader);
    assert!(!source.feed.has_readers());
}

#[derive(Clone, Debug)]
enum Op {
    Ask,
    Text(usize),
    Turn,
    Record,
    Read(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => Just(Op::Ask),
        4 => (1usize..700).prop_map(Op::Text),
        1 => Just(Op::Turn),
        1 => Just(Op::Record),
        2 => (1usize..200).prop_map(Op::Read),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever is written and however slowly it is read: every record once and in order, cursors that never go back, and
    /// the text of a turn whole, from its pieces or from a snapshot.
    #[test]
    fn no_gap_and_no_repetition(ops in prop::collection::vec(op(), 1..60), recorded in 0u64..5, from in 0u64..5) {
        let mut source = Source::new(recorded);
        let from = from.min(recorded);
        let mut reader = source.feed.reader(Cursor::record(from));
        let mut got = Vec::new();
        let mut piece = 0u32;
        for op in ops {
            match op {
                Op::Ask => source.live(asked()),
                Op::Text(count) => for _ in 0..count {
                    piece += 1;
                    source.live(delta(&format!("{piece} ")));
                },
                Op::Turn => source.record(turn()),
                Op::Record => source.record(resumed()),
                Op::Read(most) => got.extend(drain(&mut reader, &source.records, most)),
            }
        }
        got.extend(drain(&mut reader, &source.records, usize::MAX));

        let numbers: Vec<u64> = got.iter().filter(|e| e.body.is_durable()).map(|e| e.cursor.durable).collect();
        prop_assert_eq!(numbers, (from + 1..=source.records.len() as u64).collect::<Vec<_>>());
        prop_assert!(got.windows(2).all(|pair| pair[0].cursor < pair[1].cursor
            || matches!(pair[1].body, EventBody::Snapshot(_)) && pair[0].cursor <= pair[1].cursor));

        let mut text = String::new();
        for event in &got {
            match &event.body {
                EventBody::RequestStarted(_) | EventBody::TurnCompleted(_) => text.clear(),
                EventBody::TextDelta(delta) => text.push_str(&delta.delta),
                EventBody::Snapshot(snapshot) => text.clone_from(&snapshot.text),
                _ => {}
            }
        }
        prop_assert_eq!(&text, &source.feed.lock().text);
    }
}

#[test]
fn a_run_waits_for_its_pacing_reader_and_for_nobody_else() {
    let source = Source::new(0);
    let slow = source.feed.reader(Cursor::START);
    let mut paced = source.feed.pacing_reader(Cursor::START);
    let mut shown = 0;
    while source.feed.has_room().now_or_never().is_some() {
        source.live(delta("a"));
        shown += 1;
        assert!(shown <= RING_EVENTS, "it never waits");
    }
    assert_eq!(shown, RING_EVENTS / 2);
    let mut read = 0;
    while read < shown {
        match paced.next().now_or_never() {
            Some(Next::Events(events)) => read += events.len(),
            other => panic!("{other:?} after {read}"),
        }
    }
    assert!(source.feed.has_room().now_or_never().is_some());

    source.live(delta(&"b".repeat(RING_BYTES)));
    assert!(source.feed.has_room().now_or_never().is_none(), "bytes count as well");
    assert!(matches!(paced.next().now_or_never(), Some(Next::Events(events)) if events.len() == 1));

    source.live(delta(&"c".repeat(RING_BYTES / 2)));
    assert!(source.feed.has_room().now_or_never().is_none());
    drop(paced);
    assert!(source.feed.has_room().now_or_never().is_some(), "who is gone holds nothing up");
    drop(slow);
}
