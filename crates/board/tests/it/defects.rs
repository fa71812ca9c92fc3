//! Defects that were found in an earlier blackboard system, each with a test that it is not one of ours.

use crate::world::{Ears, World, every, every_manual, id, json, limits, spec, write, written};
use futures_util::future::join_all;
use placet_board::rules::{Proposed, Termination, Verdict, admission, termination};
use placet_board::{
    Agent, BoardError, BoardsOptions, Cause, ClosedAs, Content, Delivery, SetRequest, WriteRequest, WriteResult,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[tokio::test]
async fn defect_01_rebuilding_a_handle_reopens_nothing_and_moves_no_deadline() {
    every_manual(async |world| {
        let control = world.incident().await;
        let before = control.reader().run().await.unwrap().unwrap();
        world.advance(30);
        let again = world.boards().open(&id("incident"), &spec()).await.unwrap();
        let after = again.reader().run().await.unwrap().unwrap();
        assert_eq!((after.wall_deadline, after.idle_deadline), (before.wall_deadline, before.idle_deadline));
        control.abort("enough").await.unwrap();
        let again = world.boards().open(&id("incident"), &spec().agent(Agent::new("ann").pulls())).await.unwrap();
        assert_eq!(again.outcome().await.unwrap().unwrap().closed_as, ClosedAs::Aborted);
        let write = again.write("ann", &WriteRequest::new("findings", json("1"))).await.unwrap();
        assert!(matches!(write, WriteResult::Rejected(rejected) if rejected.cause == Cause::RunClosed));
        assert_eq!(again.agents().await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn defect_02_a_close_is_seen_by_every_process_at_once() {
    every("defect 02", async |world| {
        let one = world.incident().await;
        let other = world.boards().open(&id("incident"), &spec()).await.unwrap();
        write(&other, "ann", "findings", "1").await;
        one.abort("enough").await.unwrap();
        let head = one.reader().head().await.unwrap();
        let late = other.write("ann", &WriteRequest::new("findings", json("2"))).await.unwrap();
        assert!(matches!(late, WriteResult::Rejected(rejected) if rejected.cause == Cause::RunClosed));
        assert_eq!(one.reader().head().await.unwrap(), head);
    })
    .await;
}

#[tokio::test]
async fn defect_03_a_relay_loses_nothing_on_a_long_board() {
    let world = World::memory();
    let control = world.incident().await;
    control.register(Agent::new("ann").address("http://ann").subscribes_to(["findings"])).await.unwrap();
    control.register(Agent::new("new").address("http://new").subscribes_to(["findings"])).await.unwrap();
    let ears = Ears::default();
    let options = BoardsOptions::default().delivery(Delivery::Inline).transport(ears.transport());
    let sender = world.boards_with(options).control(&id("incident"));
    for number in 0..1500 {
        write(&control, "bob", "findings", &number.to_string()).await;
    }
    sender.relay().await.unwrap();
    control.ack("ann", 1501).await.unwrap();
    ears.take();
    for number in 0..100 {
        write(&control, "bob", "findings", &number.to_string()).await;
    }
    assert_eq!(world.boards().unsent(9999).await.unwrap().len(), 200);
    assert_eq!(sender.relay().await.unwrap(), ["ann", "new"]);
    assert_eq!(ears.ranges(), [(1502, 1601, "findings".to_owned()), (1, 1601, "findings".to_owned())]);
    assert_eq!(world.boards().unsent(9999).await.unwrap(), []);
    assert_eq!(sender.relay().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn defect_04_a_repeated_write_is_not_judged_again() {
    every("defect 04", async |world| {
        let seen: Arc<Mutex<Vec<Content>>> = Arc::default();
        let rule = admission(move |proposed: &Proposed| {
            let mut seen = seen.lock().unwrap();
            if seen.contains(proposed.content()) {
                return Verdict::Reject("seen before".into());
            }
            seen.push(proposed.content().clone());
            Verdict::Accept
        });
        let control = world.boards().open(&id("incident"), &spec().admission(rule)).await.unwrap();
        let request = WriteRequest::new("findings", json("1")).key("k");
        let first = written(control.write("ann", &request).await.unwrap());
        let again = written(control.write("ann", &request).await.unwrap());
        assert_eq!((again.sequence, again.repeated), (first.sequence, true));
        let unkeyed = control.write("ann", &WriteRequest::new("findings", json("1"))).await.unwrap();
        assert!(matches!(unkeyed, WriteResult::Rejected(rejected) if rejected.reason == "seen before"));
        control.abort("enough").await.unwrap();
        let after = written(control.write("ann", &request).await.unwrap());
        assert_eq!((after.sequence, after.repeated), (first.sequence, true), "also after the end");
        let reused = control.set_premise("ann", &SetRequest::new("goal", json("1"), 1).key("k")).await;
        assert!(matches!(reused, Err(BoardError::KeyReused { .. })));
    })
    .await;
}

#[tokio::test]
async fn defect_05_whoever_closes_a_silent_run_asks_the_predicate() {
    every_manual(async |world| {
        let (boards, elsewhere) = (world.boards(), world.boards());
        let done = Arc::new(Mutex::new(false));
        let look = done.clone();
        let predicate = termination(move |_| {
            let done = *look.lock().unwrap();
            async move { Ok(if done { Termination::Complete } else { Termination::Continue }) }
        });
        let control = boards.open(&id("incident"), &spec().termination(predicate)).await.unwrap();
        world.advance(61);
        assert!(boards.close_expired(10).await.unwrap().is_empty());
        assert_eq!(control.outcome().await.unwrap(), None);
        *done.lock().unwrap() = true;
        world.advance(61);
        // A process that does not have the predicate leaves the run to one that has.
        assert!(elsewhere.close_expired(10).await.unwrap().is_empty());
        assert_eq!(control.outcome().await.unwrap().map(|outcome| outcome.closed_as), Some(ClosedAs::Settled));
    })
    .await;
}

#[tokio::test]
async fn defect_06_nothing_that_is_asked_panics() {
    let world = World::memory();
    let control = world.incident().await;
    let long = "x".repeat(10_000);
    for name in ["", "\0", &long] {
        assert!(control.write(name, &WriteRequest::new("findings", json("1"))).await.is_err());
        assert!(control.write("ann", &WriteRequest::new(name, json("1"))).await.is_err());
        assert!(control.set_premise("ann", &SetRequest::new(name, json("1"), u64::MAX)).await.is_err());
        assert!(control.ack(name, u64::MAX).await.is_err());
        assert!(control.reader().read_premise(name).await.is_err());
        assert!(control.pull(name, u64::MAX, Duration::ZERO).await.is_err());
    }
    let last = control.set_premise("ann", &SetRequest::new("goal", json("1"), u64::MAX)).await.unwrap();
    assert!(matches!(last, WriteResult::Conflict(conflict) if conflict.current_version == 1));
    let reader = control.reader();
    let page = reader.read_board(placet_board::Bounds { from_sequence: u64::MAX, limit: Some(usize::MAX) });
    assert!(page.await.unwrap().items.is_empty());
}

#[tokio::test]
async fn defect_07_processes_open_one_new_file_at_once_and_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.sqlite");
    let mut children: Vec<_> =
        (0..4).map(|number| crate::child::start(file.to_str().unwrap(), &number.to_string(), 4, 20)).collect();
    children.iter_mut().for_each(crate::child::go);
    let mut sequences = Vec::new();
    for child in &mut children {
        let said = crate::child::said(child);
        assert!(child.wait().unwrap().success());
        sequences.extend(said.acknowledged.iter().map(|write| write.sequence));
    }
    sequences.sort_unstable();
    assert_eq!(sequences, (2..=321).collect::<Vec<_>>());
}

#[tokio::test]
async fn defect_08_a_failing_predicate_leaves_no_run_without_an_end() {
    every_manual(async |world| {
        let predicate = termination(|_| async { Err(BoardError::Rule { problem: "broken".into() }) });
        let control = world.boards().open(&id("incident"), &spec().termination(predicate)).await.unwrap();
        for _ in 0..59 {
            world.advance(61);
            world.boards().close_expired(10).await.unwrap();
            control.run_due().await.unwrap();
        }
        assert_eq!(control.outcome().await.unwrap().map(|outcome| outcome.closed_as), None);
        world.advance(61);
        world.boards().close_expired(10).await.unwrap();
        assert_eq!(control.outcome().await.unwrap().unwrap().closed_as, ClosedAs::WallClockExpired);
    })
    .await;
}

#[tokio::test]
async fn defect_09_a_busy_board_starves_no_other() {
    let world = World::memory();
    let boards = world.boards();
    for name in ["busy", "quiet"] {
        let control = boards.open(&id(name), &spec()).await.unwrap();
        control.register(Agent::new("ann").address("http://ann").subscribes_to(["findings"])).await.unwrap();
    }
    let busy = boards.control(&id("busy"));
    for number in 0..2000 {
        write(&busy, "bob", "findings", &number.to_string()).await;
    }
    write(&boards.control(&id("quiet")), "bob", "findings", "1").await;
    let ears = Ears::default();
    let options = BoardsOptions::default().delivery(Delivery::Inline).transport(ears.transport());
    let told = world.boards_with(options).relay(2).await.unwrap();
    let names: Vec<_> = told.iter().map(|(control, _)| control.board_id().as_str()).collect();
    assert_eq!(names, ["busy", "quiet"]);
}

#[tokio::test]
async fn defect_10_ten_thousand_silent_boards_need_no_task() {
    #[derive(Debug)]
    struct Counting(std::sync::atomic::AtomicUsize);
    impl placet_core::env::Tasks for Counting {
        fn spawn(&self, name: &'static str, task: placet_core::BoxFuture<'static, ()>) -> placet_core::env::Task {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            placet_core::env::TokioTasks.spawn(name, task)
        }
        fn spawn_blocking(&self, name: &'static str, work: Box<dyn FnOnce() + Send>) -> placet_core::env::Task {
            placet_core::env::TokioTasks.spawn_blocking(name, work)
        }
    }
    let world = World::memory();
    let tasks = Arc::new(Counting(std::sync::atomic::AtomicUsize::new(0)));
    let env = placet_core::Env::new(world.env.clock().clone(), world.env.random().clone(), tasks.clone());
    let boards = placet_board::Boards::new(world.store.clone(), placet_store::Tenant::new("acme"), &env);
    let spec = placet_board::BoardSpec::new(limits()).region(placet_board::Region::level("findings"));
    for number in 0..10_000 {
        let control = boards.open(&id(&format!("b-{number}")), &spec).await.unwrap();
        write(&control, "bob", "findings", "1").await;
    }
    assert_eq!(tasks.0.load(std::sync::atomic::Ordering::SeqCst), 0);
    world.advance(61);
    assert_eq!(boards.close_expired(usize::MAX).await.unwrap().len(), 10_000);
}

#[tokio::test]
async fn defect_11_a_process_that_dies_midway_leaves_a_registration_that_is_told() {
    every("defect 11", async |world| {
        let control = world.incident().await;
        write(&control, "bob", "findings", "1").await;
        // Registered by a process that has no transport, as if it had died before it could send.
        control.register(Agent::new("ann").address("http://ann").subscribes_to(["findings"])).await.unwrap();
        let ears = Ears::default();
        let options = BoardsOptions::default().delivery(Delivery::Inline).transport(ears.transport());
        world.boards_with(options).relay(10).await.unwrap();
        assert_eq!(ears.ranges(), [(1, 2, "findings".to_owned())]);
    })
    .await;
}

#[tokio::test]
async fn defect_12_registrations_among_writes_miss_nothing() {
    for _ in 0..10 {
        let world = World::memory();
        let control = world.incident().await;
        let ears = Ears::default();
        let writes = join_all((0..40).map(async |number: u32| {
            tokio::task::yield_now().await;
            write(&control, "bob", "findings", &number.to_string()).await;
        }));
        let register = async {
            for _ in 0..number_of_yields(&world) {
                tokio::task::yield_now().await;
            }
            control.register(Agent::new("ann").listener(ears.listener()).subscribes_to(["findings"])).await.unwrap();
        };
        futures_util::join!(writes, register);
        assert_eq!(ears.take().last().map(|notification| notification.to_sequence), Some(41));
    }
}

fn number_of_yields(world: &World) -> u64 {
    world.env.random().next_u64() % 3
}
