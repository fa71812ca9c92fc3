//! Two processes on one store take writes, and one of them is killed again and again.

use crate::child::{self, Said};
use crate::world::Ears;
use placet_board::{Agent, Bounds, Change, Control};
use placet_core::Random as _;
use placet_core::env::SeededRandom;
use std::collections::{BTreeMap, BTreeSet};

const KILLS: u64 = 50;
const WRITERS: u64 = 8;
const SEED: u64 = 20_261_130;

#[tokio::test]
async fn a_killed_process_loses_nothing_acknowledged_and_nothing_owed() {
    let folder = tempfile::tempdir().unwrap();
    two_processes(folder.path().join("store.sqlite").to_str().unwrap()).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_killed_process_loses_nothing_on_postgres_either() {
    let Some(schema) = crate::world::Schema::new("a killed process") else { return };
    two_processes(&format!("{}#{}", schema.url, schema.name)).await;
    schema.remove().await;
}

async fn two_processes(place: &str) {
    let boards = child::boards(place).await;
    let control = child::board(&boards).await;
    let ears = Ears::default();
    control.register(Agent::new("ann").address("http://ann").subscribes_to(["findings"])).await.unwrap();

    let mut survivor = child::start(place, "survivor", WRITERS, 1_000_000);
    child::go(&mut survivor);
    let survives = std::thread::scope(|scope| {
        // Its pipe has to be read, or else it stands still.
        let reading = std::thread::Builder::new();
        let pid = survivor.id();
        let reading = reading.spawn_scoped(scope, || child::said(&mut survivor)).unwrap();
        let random = SeededRandom::new(SEED);
        let killed: Vec<Said> = (0..KILLS).map(|kill| killed(place, kill, 1 + random.next_u64() % 100)).collect();
        end(pid);
        (reading.join().unwrap(), killed)
    });
    survivor.wait().unwrap();
    let (survives, killed) = survives;

    let all = everything(&control).await;
    assert!(all.iter().enumerate().all(|(at, change)| change.sequence == at as u64 + 1), "no gap, nothing twice");
    let contents: BTreeMap<u64, String> =
        all.iter().map(|change| (change.sequence, change.content.parse().unwrap())).collect();
    let unique: BTreeSet<_> = contents.values().collect();
    assert_eq!(unique.len(), all.len(), "no write landed twice");
    let mut acknowledged = 0;
    for said in killed.iter().chain([&survives]) {
        acknowledged += said.acknowledged.len();
        for write in &said.acknowledged {
            assert_eq!(contents.get(&write.sequence), Some(&write.content), "an acknowledged write is on the record");
        }
    }
    // Nobody could send anything: every write but the opening value owes its word, the first of them perhaps in one row. The
    // registration may owe one as well, of number 0.
    let last = all.len() as u64;
    let mut owed: Vec<u64> = boards.unsent(usize::MAX).await.unwrap().into_iter().map(|owed| owed.through).collect();
    owed.sort_unstable();
    owed.dedup();
    let owed = owed.strip_prefix(&[0]).unwrap_or(&owed);
    let expected: Vec<u64> = (*owed.first().unwrap()..=last).collect();
    assert!(owed == expected, "{} owed of {last}, from {:?} on", owed.len(), owed.first());
    let options = placet_board::BoardsOptions::default().delivery(placet_board::Delivery::Inline);
    let sender = placet_board::Boards::with_options(
        boards.store().clone(),
        boards.tenant().clone(),
        boards.env(),
        options.transport(ears.transport()),
    );
    sender.relay(10).await.unwrap();
    assert_eq!(ears.ranges(), [(1, last, "findings".to_owned())]);
    assert_eq!(boards.unsent(10).await.unwrap(), []);
    let tries: u64 = killed.iter().map(|said| said.tries).sum();
    let acks: usize = killed.iter().map(|said| said.acknowledged.len()).sum();
    eprintln!(
        "killed {KILLS} times (seed {SEED}) beside a process that survives: {last} writes, {acknowledged} acknowledged and found, \
         {} in flight at a kill, {} rows of what is owed",
        tries - acks as u64,
        owed.len()
    );
}

fn killed(place: &str, kill: u64, wanted: u64) -> Said {
    let mut process = child::start(place, &format!("killed-{kill}"), WRITERS, 1_000_000);
    child::go(&mut process);
    let said = child::said_until(&mut process, |process, count| {
        if count == wanted {
            process.kill().unwrap();
        }
    });
    process.wait().unwrap();
    assert!(said.acknowledged.len() as u64 >= wanted);
    said
}

/// Ends a process that another thread reads from.
#[expect(clippy::disallowed_methods, reason = "the test ends a process that it started")]
fn end(pid: u32) {
    assert!(std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
}

async fn everything(control: &Control) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    loop {
        let from = all.len() as u64 + 1;
        let page = control.reader().read_board(Bounds::from(from).limit(1000)).await.unwrap();
        all.extend(page.items);
        if !page.has_more {
            return all;
        }
    }
}
