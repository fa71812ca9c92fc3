//! Who is told of what, when, and what becomes of it.

use crate::world::{Ears, World, every, every_manual, id, json, limits, spec, write, written};
use placet_board::{
    Agent, BoardError, BoardSpec, BoardsOptions, Content, Control, Decision, Delivery, DeliveryFailure, Region,
    SetRequest, Unsent, WriteRequest,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

async fn set(control: &Control, writer: &str, value: &str) {
    let version = control.reader().read_premise("goal").await.unwrap().version;
    written(control.set_premise(writer, &SetRequest::new("goal", json(value), version)).await.unwrap());
}

fn unsent(agent: &str, through: u64) -> Unsent {
    Unsent { board: id("incident"), agent: agent.to_owned(), through }
}

#[tokio::test]
async fn an_agent_is_told_of_what_it_subscribes_to_and_never_of_its_own() {
    every("subscriptions", async |world| {
        let control = world.incident().await;
        let (all, level, none) = (Ears::default(), Ears::default(), Ears::default());
        control.register(Agent::new("ann").listener(all.listener())).await.unwrap();
        control.register(Agent::new("bob").listener(level.listener()).subscribes_to(["findings"])).await.unwrap();
        control
            .register(Agent::new("cid").listener(none.listener()).subscribes_to(Vec::<String>::new()))
            .await
            .unwrap();
        // Of what is there when it joins: a premise with a value, no level.
        assert_eq!(all.ranges(), [(1, 1, "goal".to_owned())]);
        assert_eq!(level.ranges(), []);
        write(&control, "cid", "findings", "1").await;
        assert_eq!((all.ranges(), level.ranges()), (vec![], vec![(1, 2, "findings".to_owned())]));
        write(&control, "bob", "findings", "2").await;
        assert_eq!(level.ranges(), []);
        set(&control, "bob", "2").await;
        assert_eq!((all.ranges(), level.ranges()), (vec![(1, 4, "goal".to_owned())], vec![]));
        set(&control, "ann", "3").await;
        assert_eq!((all.ranges(), level.ranges(), none.ranges()), (vec![], vec![], vec![]));
        assert_eq!(world.boards().unsent(10).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn acknowledgement_is_cumulative_and_ranges_overlap_until_then() {
    every("cumulative", async |world| {
        let control = world.incident().await;
        let ears = Ears::default();
        control.register(Agent::new("ann").listener(ears.listener()).subscribes_to(["findings"])).await.unwrap();
        for number in 0..3 {
            write(&control, "bob", "findings", &number.to_string()).await;
        }
        let ranges: Vec<_> = ears.ranges().into_iter().map(|(from, to, _)| (from, to)).collect();
        assert_eq!(ranges, [(1, 2), (1, 3), (1, 4)]);
        control.ack("ann", 3).await.unwrap();
        let progress = control.agents().await.unwrap().remove(0);
        assert_eq!((progress.notified_through, progress.acknowledged_through, progress.is_outstanding()), (4, 3, true));
        control.ack("ann", 2).await.unwrap();
        assert_eq!(control.agents().await.unwrap()[0].acknowledged_through, 3, "an earlier one changes nothing");
        write(&control, "bob", "findings", "4").await;
        assert_eq!(ears.ranges(), [(4, 5, "findings".to_owned())]);
        control.ack("ann", 5).await.unwrap();
        assert!(!control.agents().await.unwrap()[0].is_outstanding());
        for (agent, number) in [("ann", 6), ("bob", 1), ("nobody", 0)] {
            let error = control.ack(agent, number).await.unwrap_err();
            assert!(matches!(error, BoardError::UnknownNotification { .. }), "{agent} {number}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_does_not_arrive_stays_owed_until_it_does() {
    every("outbox", async |world| {
        let control = world.incident().await;
        let ears = Ears::default();
        control.register(Agent::new("ann").listener(ears.listener()).subscribes_to(["findings"])).await.unwrap();
        ears.set_deaf(true);
        write(&control, "bob", "findings", "1").await;
        write(&control, "bob", "findings", "2").await;
        let boards = world.boards();
        assert_eq!(boards.unsent(10).await.unwrap(), [unsent("ann", 2), unsent("ann", 3)]);
        assert_eq!(control.relay().await.unwrap(), Vec::<String>::new());
        ears.set_deaf(false);
        // Another process cannot reach it: it has no address.
        assert_eq!(boards.control(&id("incident")).relay().await.unwrap(), Vec::<String>::new());
        assert_eq!(control.relay().await.unwrap(), ["ann"]);
        assert_eq!(ears.ranges(), [(1, 3, "findings".to_owned())]);
        assert_eq!(boards.unsent(10).await.unwrap(), []);
        assert_eq!(control.relay().await.unwrap(), Vec::<String>::new());
        let decided = control.decisions(0, 100).await.unwrap();
        let failed = decided.iter().filter(
            |d| matches!(&d.decision, Decision::NotificationFailed { cause, .. } if cause == "nobody is there"),
        );
        assert_eq!(failed.count(), 3);
    })
    .await;
}

#[tokio::test]
async fn any_process_with_a_transport_reaches_an_address() {
    every("addresses", async |world| {
        let control = world.incident().await;
        control.register(Agent::new("ann").address("http://ann").subscribes_to(["findings"])).await.unwrap();
        write(&control, "bob", "findings", "1").await;
        assert_eq!(world.boards().unsent(9).await.unwrap(), [unsent("ann", 2)]);
        let ears = Ears::default();
        let options = BoardsOptions::default().delivery(Delivery::Inline).transport(ears.transport());
        let elsewhere = world.boards_with(options);
        let told = elsewhere.relay(10).await.unwrap();
        assert_eq!(
            told.iter().map(|(control, agent)| (control.board_id().as_str(), agent.as_str())).collect::<Vec<_>>(),
            [("incident", "ann")]
        );
        assert_eq!(ears.ranges(), [(1, 2, "findings".to_owned())]);
        let elsewhere = elsewhere.control(&id("incident"));
        write(&elsewhere, "bob", "findings", "2").await;
        assert_eq!(ears.ranges(), [(1, 3, "findings".to_owned())]);
        // What it answers without being told is owed no longer.
        write(&control, "bob", "findings", "3").await;
        elsewhere.ack("ann", 3).await.unwrap();
        assert_eq!(world.boards().unsent(9).await.unwrap(), [unsent("ann", 4)]);
    })
    .await;
}

#[tokio::test]
async fn listeners_hear_of_what_other_processes_write_when_they_ask() {
    every("other processes", async |world| {
        let control = world.incident().await;
        let ears = Ears::default();
        control.register(Agent::new("ann").listener(ears.listener()).subscribes_to(["findings"])).await.unwrap();
        let elsewhere = world.boards().control(&id("incident"));
        write(&elsewhere, "bob", "findings", "1").await;
        write(&elsewhere, "bob", "findings", "2").await;
        assert_eq!(ears.ranges(), []);
        assert_eq!(control.notify_due().await.unwrap(), ["ann"]);
        assert_eq!(ears.ranges(), [(1, 3, "findings".to_owned())]);
        assert_eq!(control.notify_due().await.unwrap(), Vec::<String>::new());
        elsewhere.ack("ann", 3).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_batch_window_opens_at_the_first_change_and_does_not_slide() {
    every_manual(async |world| {
        let windows = BoardSpec::new(limits())
            .region(Region::level("findings").window(Duration::from_secs(10)))
            .region(Region::level("slow").window(Duration::from_secs(20)))
            .premise("goal", json("1"));
        let control = world.boards().open(&id("incident"), &windows).await.unwrap();
        let ears = Ears::default();
        let agent = Agent::new("ann").listener(ears.listener()).subscribes_to(["findings", "slow", "goal"]);
        control.register(agent).await.unwrap();
        assert_eq!(ears.ranges(), [(1, 1, "goal".to_owned())]);
        control.ack("ann", 1).await.unwrap();
        write(&control, "bob", "slow", "1").await;
        world.advance(5);
        write(&control, "bob", "findings", "1").await;
        world.advance(5);
        write(&control, "bob", "findings", "2").await;
        world.advance(4);
        control.run_due().await.unwrap();
        assert_eq!(ears.ranges(), []);
        world.advance(1);
        control.run_due().await.unwrap();
        // The earliest takes all that is pending along.
        assert_eq!(ears.ranges(), [(2, 4, "findings+slow".to_owned())]);
        world.advance(30);
        control.run_due().await.unwrap();
        assert_eq!(ears.ranges(), []);
        write(&control, "bob", "findings", "3").await;
        set(&control, "bob", "2").await;
        // A change without a window takes what waits along.
        assert_eq!(ears.ranges(), [(2, 6, "findings+goal".to_owned())]);
        assert_eq!(world.boards().unsent(9).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_window_outlives_the_process_that_opened_it() {
    every_manual(async |world| {
        let windows = BoardSpec::new(limits()).region(Region::level("findings").window(Duration::from_secs(10)));
        let control = world.boards().open(&id("incident"), &windows).await.unwrap();
        control.register(Agent::new("ann").address("http://ann").subscribes_to(["findings"])).await.unwrap();
        write(&control, "bob", "findings", "1").await;
        drop(control);
        let ears = Ears::default();
        let options = BoardsOptions::default().delivery(Delivery::Inline).transport(ears.transport());
        let elsewhere = world.boards_with(options).control(&id("incident"));
        world.advance(9);
        elsewhere.run_due().await.unwrap();
        assert_eq!(ears.ranges(), []);
        world.advance(1);
        elsewhere.run_due().await.unwrap();
        assert_eq!(ears.ranges(), [(1, 1, "findings".to_owned())]);
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_comes_back_keeps_its_place_and_is_told_what_it_missed() {
    every("return", async |world| {
        let control = world.incident().await;
        let (before, after) = (Ears::default(), Ears::default());
        control.register(Agent::new("ann").listener(before.listener())).await.unwrap();
        control.ack("ann", 1).await.unwrap();
        write(&control, "bob", "findings", "1").await;
        let back = Agent::new("ann").listener(after.listener()).subscribes_to(["findings"]);
        control.register(back.clone()).await.unwrap();
        assert_eq!(after.ranges(), [(2, 2, "findings".to_owned())]);
        control.ack("ann", 2).await.unwrap();
        // Who has answered everything is not woken.
        control.register(back).await.unwrap();
        assert_eq!(after.ranges(), []);
        write(&control, "bob", "findings", "2").await;
        set(&control, "bob", "3").await;
        assert_eq!(after.ranges(), [(3, 3, "findings".to_owned())]);
        assert_eq!(before.ranges(), [(1, 1, "goal".to_owned())]);
        assert_eq!(world.boards().unsent(9).await.unwrap(), []);
        assert_eq!(control.agents().await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_declaration_has_to_make_sense() {
    every("declarations", async |world| {
        let control = world.incident().await;
        let refused = async |agent: Agent| control.register(agent).await.unwrap_err();
        assert!(matches!(refused(Agent::new("ann")).await, BoardError::InvalidSpec { .. }));
        assert!(matches!(refused(Agent::new("").pulls()).await, BoardError::InvalidName { .. }));
        assert!(matches!(
            refused(Agent::new("a").pulls().subscribes_to(["x"])).await,
            BoardError::UnknownRegion { .. }
        ));
        assert!(matches!(
            refused(Agent::new("a").pulls().writes_to(["goal"])).await,
            BoardError::WrongRegionKind { .. }
        ));
        assert!(matches!(
            refused(Agent::new("a").pulls().sets(["findings"])).await,
            BoardError::WrongRegionKind { .. }
        ));
        assert_eq!(control.agents().await.unwrap(), []);
        let twice = spec().agent(Agent::new("a").pulls()).agent(Agent::new("a").pulls());
        assert!(matches!(world.boards().open(&id("x"), &twice).await, Err(BoardError::DuplicateAgent { .. })));
        let nowhere = spec().agent(Agent::new("a").pulls().subscribes_to(["x"]));
        assert!(matches!(world.boards().open(&id("x"), &nowhere).await, Err(BoardError::UnknownRegion { .. })));
        assert!(!world.boards().reader(&id("x")).exists().await.unwrap(), "nothing was touched");
    })
    .await;
}

/// An agent that is told and writes, which tells another, which writes …
#[tokio::test]
async fn a_chain_of_agents_needs_no_stack() {
    const LINKS: u64 = 3000;
    let world = World::memory();
    let control = world.incident().await;
    for (name, other) in [("ping", "pong"), ("pong", "ping")] {
        let agent = control.as_agent(name);
        let hear = move |notification: placet_board::Notification| {
            let agent = agent.clone();
            async move {
                if notification.to_sequence < LINKS {
                    agent.write(WriteRequest::new("findings", Content::of(&other).unwrap())).await.unwrap();
                }
                agent.ack(notification.notification_id).await.map_err(|error| DeliveryFailure::new(error.to_string()))
            }
        };
        control.register(Agent::new(name).on_notified(hear).subscribes_to(["findings"])).await.unwrap();
    }
    write(&control, "somebody", "findings", "0").await;
    assert!(control.reader().head().await.unwrap() >= LINKS);
    assert_eq!(world.boards().unsent(9).await.unwrap(), []);
}

#[tokio::test]
async fn a_listener_that_panics_costs_nobody_else() {
    let world = World::memory();
    let control = world.incident().await;
    let ears = Ears::default();
    let panics = Agent::new("bad").on_notified(|_| async { panic!("boom") }).subscribes_to(["findings"]);
    control.register(panics).await.unwrap();
    control.register(Agent::new("ann").listener(ears.listener()).subscribes_to(["findings"])).await.unwrap();
    write(&control, "bob", "findings", "1").await;
    assert_eq!(ears.ranges(), [(1, 2, "findings".to_owned())]);
    assert_eq!(world.boards().unsent(9).await.unwrap(), [unsent("bad", 2)]);
}

#[tokio::test]
async fn in_the_background_everybody_hears_of_everything() {
    for _ in 0..20 {
        // Its clock goes by itself: between two words the dispatcher waits a moment.
        let mut world = World::memory();
        world.env = placet_core::Env::system();
        let control = world.boards_with(BoardsOptions::default()).open(&id("incident"), &spec()).await.unwrap();
        let heard: Arc<Mutex<Vec<u64>>> = Arc::default();
        let done = Arc::new(tokio::sync::Notify::new());
        let (keep, signal) = (heard.clone(), done.clone());
        let hear = move |notification: placet_board::Notification| {
            keep.lock().unwrap().push(notification.to_sequence);
            if notification.to_sequence == 51 {
                signal.notify_one();
            }
            async { Ok(()) }
        };
        control.register(Agent::new("ann").on_notified(hear).subscribes_to(["findings"])).await.unwrap();
        for number in 0..50 {
            write(&control, "bob", "findings", &number.to_string()).await;
            tokio::task::yield_now().await;
        }
        done.notified().await;
        let heard = heard.lock().unwrap().clone();
        assert!(heard.windows(2).all(|pair| pair[0] < pair[1]), "{heard:?}");
        while !world.boards().unsent(9).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_puller_waits_for_what_it_is_owed() {
    every("pull", async |world| {
        let control = world.incident().await;
        let nobody = control.pull("ann", 0, Duration::ZERO).await;
        assert!(matches!(nobody, Err(BoardError::UnknownAgent { .. })));
        control.register(Agent::new("ann").pulls().subscribes_to(["findings"])).await.unwrap();
        assert_eq!(control.pull("ann", 0, Duration::ZERO).await.unwrap(), None);
        let hour = Duration::from_secs(3600);
        let (pulled, _) = futures_util::join!(control.pull("ann", 0, hour), write(&control, "bob", "findings", "1"));
        let pulled = pulled.unwrap().unwrap();
        assert_eq!((pulled.from_sequence, pulled.to_sequence, pulled.regions.len()), (1, 2, 1));
        // Until it answers it is given the same again, unless it says that it has it.
        assert_eq!(control.pull("ann", 0, Duration::ZERO).await.unwrap().unwrap(), pulled);
        assert_eq!(control.pull("ann", 2, Duration::ZERO).await.unwrap(), None);
        write(&control, "bob", "findings", "2").await;
        let next = control.pull("ann", 2, Duration::ZERO).await.unwrap().unwrap();
        assert_eq!((next.from_sequence, next.to_sequence), (1, 3));
        control.ack("ann", 3).await.unwrap();
        assert_eq!(control.pull("ann", 0, Duration::ZERO).await.unwrap(), None);
        assert_eq!(world.boards().unsent(9).await.unwrap(), []);
        let (ended, _) = futures_util::join!(control.pull("ann", 3, hour), control.abort("enough"));
        assert!(matches!(ended, Err(BoardError::RunClosed)));
    })
    .await;
}

/// Whoever never answers owes the store no row for each write.
#[tokio::test]
async fn what_is_owed_to_somebody_who_cannot_be_reached_is_one_range() {
    every("merging", async |world| {
        let control = world.boards().open(&id("incident"), &spec().region(Region::level("logs"))).await.unwrap();
        control.register(Agent::new("ann").address("http://ann").subscribes_to(["findings", "goal"])).await.unwrap();
        control.register(Agent::new("pia").pulls().subscribes_to(["findings", "logs"])).await.unwrap();
        let pulled = control.pull("ann", 0, Duration::ZERO).await.unwrap().unwrap();
        control.ack("ann", pulled.notification_id).await.unwrap();
        for (level, count) in [("logs", 100), ("findings", 900)] {
            futures_util::future::join_all((0..count).map(async |_| write(&control, "bob", level, "1").await)).await;
        }
        let boards = world.boards();
        assert!(boards.unsent(usize::MAX).await.unwrap().len() > 1800);
        // Nobody is reached from here, and what is owed is merged.
        assert_eq!(boards.relay(10).await.unwrap().len(), 0);
        let owed = boards.unsent(usize::MAX).await.unwrap();
        assert!(owed.len() < 500, "{}", owed.len());
        assert_eq!(owed.iter().filter(|owed| owed.agent == "ann").map(|owed| owed.through).max(), Some(1001));
        let pulled = control.pull("pia", 0, Duration::ZERO).await.unwrap().unwrap();
        assert_eq!((pulled.from_sequence, pulled.to_sequence), (1, 1001));
        assert_eq!(pulled.regions.into_iter().collect::<Vec<_>>(), ["findings", "logs"]);
        // An answer to less than what was merged takes none of it away.
        control.ack("pia", 1001).await.unwrap();
        assert!(boards.unsent(usize::MAX).await.unwrap().iter().all(|owed| owed.agent == "ann"));
        let ears = Ears::default();
        let options = BoardsOptions::default().delivery(Delivery::Inline).transport(ears.transport());
        let elsewhere = world.boards_with(options);
        elsewhere.relay(10).await.unwrap();
        assert_eq!(ears.ranges(), [(2, 1001, "findings".to_owned())]);
        assert_eq!(boards.unsent(9).await.unwrap(), []);
        elsewhere.relay(10).await.unwrap();
        assert_eq!(ears.ranges(), []);
    })
    .await;
}

/// An agent that was told of a part, came back, and then answers only that part.
#[tokio::test]
async fn an_answer_takes_away_only_what_it_answers() {
    every("late answers", async |world| {
        let control = world.incident().await;
        let ann = || Agent::new("ann").pulls().subscribes_to(["findings"]);
        control.register(ann()).await.unwrap();
        write(&control, "bob", "findings", "1").await;
        let first = control.pull("ann", 0, Duration::ZERO).await.unwrap().unwrap();
        write(&control, "bob", "findings", "2").await;
        control.register(ann()).await.unwrap();
        control.ack("ann", first.notification_id).await.unwrap();
        let second = control.pull("ann", 0, Duration::ZERO).await.unwrap().unwrap();
        assert_eq!((second.from_sequence, second.to_sequence), (3, 3));
    })
    .await;
}
