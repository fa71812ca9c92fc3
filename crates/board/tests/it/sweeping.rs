//! What happens although nobody asks.

use crate::world::{Ears, World, every_manual, id, json, spec, write};
use placet_board::{Agent, BoardsOptions, ClosedAs, Delivery, SweepOptions, WriteRequest};
use std::time::Duration;

#[tokio::test]
async fn overdue_runs_are_closed_and_others_are_not() {
    every_manual(async |world| {
        let boards = world.boards();
        for number in 0..5 {
            let control = boards.open(&id(&format!("b-{number}")), &spec()).await.unwrap();
            if number >= 3 {
                world.advance(0);
                write(&control, "ann", "findings", "1").await;
            }
        }
        world.advance(30);
        write(&boards.control(&id("b-4")), "ann", "findings", "1").await;
        assert!(boards.past_deadline(10).await.unwrap().is_empty());
        world.advance(30);
        let names = |controls: Vec<placet_board::Control>| {
            let mut names: Vec<_> = controls.iter().map(|control| control.board_id().to_string()).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(boards.past_deadline(2).await.unwrap().len(), 2);
        assert_eq!(names(boards.past_deadline(10).await.unwrap()), ["b-0", "b-1", "b-2", "b-3"]);
        assert_eq!(world.boards().close_expired(1).await.unwrap().len(), 1);
        assert_eq!(world.boards().close_expired(10).await.unwrap().len(), 3);
        assert!(world.boards().close_expired(10).await.unwrap().is_empty());
        assert_eq!(boards.control(&id("b-4")).outcome().await.unwrap(), None);
        world.advance(30);
        assert_eq!(names(boards.close_expired(10).await.unwrap()), ["b-4"], "it was filed anew");
    })
    .await;
}

#[tokio::test]
async fn a_sweep_closes_and_sends_by_itself_and_ends_when_it_is_dropped() {
    let world = World::memory();
    let boards = world.boards();
    let control = boards.open(&id("incident"), &spec()).await.unwrap();
    control.register(Agent::new("ann").address("http://ann").subscribes_to(["findings"])).await.unwrap();
    write(&control, "bob", "findings", "1").await;
    let ears = Ears::default();
    let options = BoardsOptions::default().delivery(Delivery::Background).transport(ears.transport());
    let sweep = world.boards_with(options).sweep(SweepOptions::default().grace(Duration::from_secs(5)));
    let settle = async || {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    };
    settle().await;
    assert_eq!(ears.ranges(), [], "it is left to who wrote it for a while");
    for _ in 0..4 {
        world.advance(2);
        settle().await;
    }
    assert_eq!(ears.ranges(), [(1, 2, "findings".to_owned())]);
    assert!(boards.unsent(9).await.unwrap().is_empty());
    for _ in 0..40 {
        world.advance(2);
        settle().await;
    }
    let run = control.reader().run().await.unwrap().unwrap();
    assert_eq!(run.outcome.map(|outcome| outcome.closed_as), Some(ClosedAs::Settled));
    sweep.stop().await;
    let other = boards.open(&id("other"), &spec()).await.unwrap();
    world.advance(100);
    settle().await;
    assert!(other.reader().run().await.unwrap().unwrap().outcome.is_none());
    let late = other.write("ann", &WriteRequest::new("findings", json("1"))).await.unwrap();
    assert!(late.written().is_none(), "the write itself finds that the run is over");
}

#[tokio::test]
async fn who_cannot_be_reached_is_tried_again_later_and_less_often() {
    let world = World::memory();
    let ears = Ears::default();
    let options = BoardsOptions::default().transport(ears.transport());
    let boards = world.boards_with(options);
    let control = boards.open(&id("incident"), &spec()).await.unwrap();
    control.register(Agent::new("ann").address("http://ann").subscribes_to(["findings"])).await.unwrap();
    let settle = async || {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    };
    settle().await;
    ears.set_deaf(true);
    write(&control, "bob", "findings", "1").await;
    settle().await;
    let failures = async || {
        let decided = control.decisions(0, 1000).await.unwrap();
        decided.iter().filter(|d| matches!(d.decision, placet_board::Decision::NotificationFailed { .. })).count()
    };
    assert_eq!(failures().await, 1);
    let mut tries = Vec::new();
    for second in 1..=40 {
        world.advance(1);
        settle().await;
        if failures().await > tries.len() + 1 {
            tries.push(second);
        }
    }
    assert_eq!(tries, [1, 3, 7, 15, 31]);
    ears.set_deaf(false);
    world.advance(32);
    settle().await;
    assert_eq!(ears.ranges(), [(1, 2, "findings".to_owned())]);
}
