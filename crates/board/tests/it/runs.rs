//! Opening, deadlines, closing, reopening.

use crate::world::{Ears, every, every_manual, id, json, limits, spec, write, written};
use futures_util::future::join_all;
use placet_board::rules::{Termination, termination};
use placet_board::{
    Agent, BoardError, BoardSpec, Bounds, Cause, ClosedAs, Limits, Outcome, Region, SetRequest, WriteRequest,
    WriteResult,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn closed(result: WriteResult) {
    match result {
        WriteResult::Rejected(rejected) => {
            assert_eq!((rejected.cause, &*rejected.reason), (Cause::RunClosed, "the run has closed"));
        }
        other => panic!("{other:?}"),
    }
}

fn settled(unfinished: &[&str]) -> Outcome {
    let unfinished = unfinished.iter().map(|name| (*name).to_owned()).collect();
    Outcome { closed_as: ClosedAs::Settled, reason: None, unfinished }
}

#[tokio::test]
async fn a_run_settles_on_silence_and_names_who_did_not_finish() {
    every_manual(async |world| {
        let control = world.incident().await;
        let ears = Ears::default();
        for name in ["ann", "bob"] {
            control.register(Agent::new(name).listener(ears.listener())).await.unwrap();
        }
        control.ack("bob", 1).await.unwrap();
        for _ in 0..3 {
            world.advance(59);
            assert_eq!(control.outcome().await.unwrap(), None);
            write(&control, "cid", "findings", "1").await;
        }
        world.advance(60);
        closed(control.write("cid", &WriteRequest::new("findings", json("1"))).await.unwrap());
        assert_eq!(control.outcome().await.unwrap(), Some(settled(&["ann"])));
        assert_eq!(control.agents().await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn what_happens_pushes_the_silence_and_what_does_not_does_not() {
    every_manual(async |world| {
        let control = world.incident().await;
        let ears = Ears::default();
        control.register(Agent::new("ann").listener(ears.listener()).writes_to(Vec::<String>::new())).await.unwrap();
        let left = async || {
            let run = control.reader().run().await.unwrap().unwrap();
            run.idle_deadline.since(run.now).as_secs()
        };
        let keyed = WriteRequest::new("findings", json("1")).key("k");
        control.write("bob", &keyed).await.unwrap();
        world.advance(10);
        // A conflict, a first acknowledgement: something happened.
        control.set_premise("bob", &SetRequest::new("goal", json("1"), 9)).await.unwrap();
        assert_eq!(left().await, 60);
        world.advance(10);
        control.ack("ann", 1).await.unwrap();
        assert_eq!(left().await, 60);
        world.advance(10);
        // A repeated write, a repeated acknowledgement, a read, a writer without permission, a registration that wakes nobody.
        control.write("bob", &keyed).await.unwrap();
        control.ack("ann", 1).await.unwrap();
        control.reader().read_board(Bounds::default()).await.unwrap();
        control.write("ann", &WriteRequest::new("findings", json("1"))).await.unwrap();
        control.write("bob", &WriteRequest::new("nowhere", json("1"))).await.unwrap_err();
        control.register(Agent::new("cid").pulls()).await.unwrap();
        assert_eq!(left().await, 50);
    })
    .await;
}

#[tokio::test]
async fn the_wall_clock_ends_it_whatever_happens() {
    every_manual(async |world| {
        let spec = spec().termination(termination(|_| async { Ok(Termination::Continue) }));
        let control = world.boards().open(&id("incident"), &spec).await.unwrap();
        for _ in 0..60 {
            world.advance(59);
            write(&control, "bob", "findings", "1").await;
        }
        world.advance(60);
        closed(control.write("bob", &WriteRequest::new("findings", json("1"))).await.unwrap());
        assert_eq!(control.outcome().await.unwrap().unwrap().closed_as, ClosedAs::WallClockExpired);
    })
    .await;
}

#[tokio::test]
async fn a_predicate_is_asked_before_silence_ends_the_run() {
    every_manual(async |world| {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let predicate = termination(move |reader: placet_board::Reader| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                match reader.read_premise("goal").await?.value.as_str() {
                    "\"done\"" => Ok(Termination::Complete),
                    "\"broken\"" => Err(BoardError::Rule { problem: "broken".into() }),
                    _ => Ok(Termination::Continue),
                }
            }
        });
        let control = world.boards().open(&id("incident"), &spec().termination(predicate)).await.unwrap();
        world.advance(60);
        assert_eq!(control.outcome().await.unwrap(), None);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        world.advance(59);
        assert_eq!(control.outcome().await.unwrap(), None);
        assert_eq!(asked.load(Ordering::SeqCst), 1, "it goes on for another limit");
        // One that fails does not end the run either, nor does it keep it from ending.
        control.set_premise("ann", &SetRequest::new("goal", json("\"broken\""), 1)).await.unwrap();
        world.advance(60);
        assert_eq!(control.outcome().await.unwrap(), None);
        world.advance(60);
        control.run_due().await.unwrap();
        control.set_premise("ann", &SetRequest::new("goal", json("\"done\""), 2)).await.unwrap();
        world.advance(60);
        assert_eq!(control.outcome().await.unwrap(), Some(settled(&[])));
    })
    .await;
}

#[tokio::test]
async fn what_happens_meanwhile_discards_the_predicates_answer() {
    every_manual(async |world| {
        let boards = world.boards();
        let elsewhere = world.boards().control(&id("incident"));
        let first = Arc::new(AtomicUsize::new(0));
        let predicate = termination(move |_| {
            let (elsewhere, first) = (elsewhere.clone(), first.clone());
            async move {
                if first.fetch_add(1, Ordering::SeqCst) == 0 {
                    // Another process, which leaves the silence to whoever has the predicate, may write.
                    write(&elsewhere, "bob", "findings", "1").await;
                }
                Ok(Termination::Complete)
            }
        });
        let control = boards.open(&id("incident"), &spec().termination(predicate)).await.unwrap();
        world.advance(60);
        assert_eq!(control.outcome().await.unwrap(), None);
        write(&control, "bob", "findings", "2").await;
        world.advance(60);
        assert_eq!(control.outcome().await.unwrap(), Some(settled(&[])));
    })
    .await;
}

#[tokio::test]
async fn one_of_many_closes_and_all_see_it_at_once() {
    every("one closes", async |world| {
        let heard: Arc<Mutex<Vec<Outcome>>> = Arc::default();
        let mut controls = Vec::new();
        for _ in 0..6 {
            let heard = heard.clone();
            let spec = spec().on_closed(move |outcome| heard.lock().unwrap().push(outcome.clone()));
            controls.push(world.boards().open(&id("incident"), &spec).await.unwrap());
        }
        let aborts = controls
            .iter()
            .enumerate()
            .map(async |(number, control)| (number, control.abort(&number.to_string()).await.unwrap()));
        let won: Vec<_> = join_all(aborts).await.into_iter().filter(|(_, won)| *won).collect();
        assert_eq!(won.len(), 1);
        let expected =
            Outcome { closed_as: ClosedAs::Aborted, reason: Some(won[0].0.to_string()), unfinished: BTreeSet::new() };
        for control in &controls {
            assert_eq!(control.wait_closed(None).await.unwrap(), Some(expected.clone()));
            closed(control.write("ann", &WriteRequest::new("findings", json("1"))).await.unwrap());
        }
        assert_eq!(*heard.lock().unwrap(), vec![expected; 6]);
    })
    .await;
}

#[tokio::test]
async fn closing_clears_agents_and_what_they_are_owed_and_keeps_the_record() {
    every("closing", async |world| {
        let control = world.incident().await;
        control.register(Agent::new("ann").address("http://ann").subscribes_to(["findings"])).await.unwrap();
        write(&control, "bob", "findings", "1").await;
        assert_eq!(world.boards().unsent(9).await.unwrap().len(), 1);
        assert!(control.abort("enough").await.unwrap());
        assert!(!control.abort("again").await.unwrap());
        assert_eq!(world.boards().unsent(9).await.unwrap(), []);
        assert_eq!(control.agents().await.unwrap(), []);
        assert_eq!(control.reader().read_board(Bounds::default()).await.unwrap().items.len(), 2);
        // An answer that comes too late changes nothing; a declaration is refused.
        control.ack("ann", 2).await.unwrap();
        assert!(matches!(control.declare(&Region::level("x")).await, Err(BoardError::RunClosed)));
        assert!(matches!(control.register(Agent::new("x").pulls()).await, Err(BoardError::RunClosed)));
        let outcome = control.outcome().await.unwrap().unwrap();
        assert_eq!((outcome.closed_as, outcome.reason.as_deref()), (ClosedAs::Aborted, Some("enough")));
    })
    .await;
}

#[tokio::test]
async fn a_closed_run_is_reopened_by_whoever_asks_for_it() {
    every_manual(async |world| {
        let control = world.incident().await;
        let keyed = WriteRequest::new("findings", json("1")).key("k");
        let first = written(control.write("ann", &keyed).await.unwrap());
        assert!(matches!(control.reopen(limits()).await, Err(BoardError::RunOpen)));
        control.abort("enough").await.unwrap();
        let elsewhere = world.boards().control(&id("incident"));
        elsewhere.reopen(Limits::new(Duration::from_secs(100), Duration::from_secs(7))).await.unwrap();
        assert_eq!(control.outcome().await.unwrap(), None);
        let again = written(control.write("ann", &keyed).await.unwrap());
        assert_eq!((again.sequence, again.repeated), (first.sequence, true), "keys survive");
        assert_eq!(write(&control, "ann", "findings", "2").await.sequence, first.sequence + 1);
        world.advance(7);
        assert_eq!(elsewhere.outcome().await.unwrap(), Some(settled(&[])));
        let nobody = world.boards().control(&id("nobody"));
        assert!(matches!(nobody.reopen(limits()).await, Err(BoardError::UnknownBoard { .. })));
    })
    .await;
}

#[tokio::test]
async fn opening_converges() {
    every("converges", async |world| {
        let control = world.incident().await;
        control.set_premise("ann", &SetRequest::new("goal", json("2"), 1)).await.unwrap();
        let more = spec().region(Region::level("notes")).premise("status", json("0")).agent(Agent::new("ann").pulls());
        let many = join_all((0..4).map(async |_| world.boards().open(&id("incident"), &more).await.unwrap())).await;
        let reader = many[0].reader();
        assert_eq!(reader.read_premise("goal").await.unwrap().value.as_str(), "2", "a value that is there stays");
        assert_eq!(reader.read_premise("status").await.unwrap().version, 1);
        assert_eq!(reader.read_regions().await.unwrap().len(), 4);
        assert_eq!(reader.head().await.unwrap(), 3);
        let wrong = BoardSpec::new(limits()).region(Region::level("goal"));
        assert!(matches!(world.boards().open(&id("incident"), &wrong).await, Err(BoardError::WrongRegionKind { .. })));
        assert_eq!(control.outcome().await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_spec_is_checked_before_anything_is_touched() {
    let world = crate::world::World::memory();
    let base = || BoardSpec::new(limits());
    let zero = Limits::new(Duration::ZERO, Duration::from_secs(1));
    let cases = [
        (BoardSpec::new(zero), "the wall clock limit is a positive duration, not 0ns"),
        (base().region(Region::level("a")).region(Region::premise("a")), "a region named 'a' is already declared"),
        (base().region(Region::premise("p")).region(Region::premise("q")), "the opening premises miss 'p', 'q'"),
        (base().region(Region::level("a")).opening("a", json("1")), "the opening premises name undeclared 'a'"),
        (base().opening("z", json("1")), "the opening premises name undeclared 'z'"),
        (
            base().region(Region::level("")),
            "'' is no name of a region: it is empty; a name has 1 to 200 bytes and no NUL character",
        ),
    ];
    for (spec, says) in cases {
        let error = world.boards().open(&id("x"), &spec).await.unwrap_err();
        assert_eq!(error.to_string(), says);
    }
    assert!(!world.boards().reader(&id("x")).exists().await.unwrap());
}

#[tokio::test]
async fn waiting_for_the_end_brings_it_about() {
    every_manual(async |world| {
        let control = world.incident().await;
        let clock = world.clock.clone();
        // Goes on for as long as somebody waits.
        let move_on = || async {
            loop {
                tokio::task::yield_now().await;
                clock.advance(Duration::from_secs(1));
            }
        };
        let outcome = tokio::select! {
            outcome = control.wait_closed(None) => outcome,
            () = move_on() => unreachable!(),
        };
        assert_eq!(outcome.unwrap(), Some(settled(&[])));
        let spec = BoardSpec::new(Limits::new(Duration::from_secs(1_000_000_000), Duration::from_secs(1_000_000_000)));
        let other = world.boards().open(&id("other"), &spec.region(Region::level("findings"))).await.unwrap();
        let outcome = tokio::select! {
            outcome = other.wait_closed(Some(Duration::from_secs(3))) => outcome,
            () = move_on() => unreachable!(),
        };
        assert_eq!(outcome.unwrap(), None);
    })
    .await;
}
