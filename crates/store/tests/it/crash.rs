//! A writing process is killed, a hundred times over, and what it was told is found.

use super::child;
use placet_core::Random as _;
use placet_core::env::SeededRandom;
use placet_store::{Direction, SqliteStore, Store};
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};

const KILLS: u64 = 100;
const WRITERS: u64 = 8;
const SEED: u64 = 20_261_130;

#[tokio::test]
async fn a_killed_writer_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.sqlite");
    let random = SeededRandom::new(SEED);
    let mut acknowledged: HashMap<u64, String> = HashMap::new();
    let (mut in_flight, mut landed) = (0, 0);
    for kill in 0..KILLS {
        let name = format!("child-{kill}");
        let wanted = 1 + random.next_u64() % 150;
        let (acks, tries) = kill_after(&file, &name, wanted);
        assert!(tries > acks.len() as u64, "at least one batch is in flight when the process dies");
        in_flight += tries - acks.len() as u64;
        for (number, content) in acks {
            assert_eq!(acknowledged.insert(number, content), None, "a number is given once");
        }
        landed = find(&child::open(&file), &acknowledged).await;
    }
    eprintln!(
        "killed {KILLS} times (seed {SEED}): {} batches acknowledged and found, {in_flight} in flight at a kill, {} of \
         those had been written",
        acknowledged.len(),
        landed - acknowledged.len()
    );
}

/// Kills a child after that many acknowledgements. Gives what it acknowledged and how many batches it had begun.
fn kill_after(file: &std::path::Path, name: &str, wanted: u64) -> (Vec<(u64, String)>, u64) {
    let mut process = child::start(file, name, WRITERS, 1_000_000);
    child::go(&mut process);
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let (mut acks, mut tries) = (Vec::new(), 0);
    for line in lines {
        // The pipe ends when the process does; what it said before is read to the end.
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["TRY", _, _] => tries += 1,
            ["ACK", writer, round, number] => {
                acks.push((number.parse().unwrap(), format!("{name} {writer} {round}")));
                if acks.len() as u64 == wanted {
                    process.kill().unwrap();
                }
            }
            _ => {}
        }
    }
    process.wait().unwrap();
    assert!(acks.len() as u64 >= wanted);
    (acks, tries)
}

/// Finds every acknowledged batch and no half of any; gives how many batches there are.
async fn find(store: &SqliteStore, acknowledged: &HashMap<u64, String>) -> usize {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut found = HashMap::new();
    loop {
        let page = store.log(&child::all(), found.len() as u64, 10_000).await.unwrap();
        if page.is_empty() {
            break;
        }
        for entry in page {
            found.insert(entry.number, text(&entry.value.bytes));
        }
    }
    for (number, content) in acknowledged {
        assert_eq!(found.get(number), Some(content), "an acknowledged batch is there");
    }

    // Each batch wrote five things: one is there exactly if the others are.
    let count = store.cell(&child::key("count")).await.unwrap().and_then(|cell| cell.value.as_counter());
    assert_eq!(count.unwrap_or(0), i64::try_from(found.len()).unwrap());
    let mut beyond = None;
    let mut indexed = 0;
    loop {
        let page = store.cells(&child::key("index"), beyond.as_ref(), Direction::Forward, 10_000).await.unwrap();
        let Some(last) = page.last() else { break };
        beyond = Some(last.key.clone());
        for cell in page {
            let number = indexed + 1;
            assert_eq!(cell.key, child::key("index").u64(number));
            assert_eq!(found.get(&number), Some(&text(&cell.value.bytes)));
            indexed = number;
        }
    }
    assert_eq!(indexed, found.len() as u64);
    let mut own = 0;
    for (log, head) in store.logs(&child::key("own"), None, 10_000).await.unwrap() {
        own += head.number;
        let last = child::key("last");
        let key = log.key().parts().unwrap()[1..].iter().fold(last, placet_store::Key::part);
        let cell = store.cell(&key).await.unwrap().unwrap();
        assert_eq!(text(&cell.value.bytes), head.number.to_string());
        assert_eq!(cell.version, head.number);
    }
    assert_eq!(own, found.len() as u64);
    found.len()
}
