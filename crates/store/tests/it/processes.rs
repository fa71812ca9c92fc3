//! Several processes on one file.

use super::child;
use placet_store::Store;
use std::io::{BufRead as _, BufReader};
use std::time::Duration;

const PROCESSES: u64 = 4;
const TIMES: u64 = 10;
const WRITERS: u64 = 4;
const ROUNDS: u64 = 25;

#[tokio::test]
async fn processes_open_a_file_at_once_and_write() {
    let (mut opening, mut commit) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..TIMES {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.sqlite");
        let mut children: Vec<_> =
            (0..PROCESSES).map(|number| child::start(&file, &format!("process-{number}"), WRITERS, ROUNDS)).collect();
        // All are up and wait for this, so that they open the new file at the same instant.
        children.iter_mut().for_each(child::go);
        for process in &mut children {
            let (open, longest) = waits(process);
            (opening, commit) = (opening.max(open), commit.max(longest));
            assert!(process.wait().unwrap().success());
        }
        let store = child::open(&file);
        let written = PROCESSES * WRITERS * ROUNDS;
        assert_eq!(store.log_head(&child::all()).await.unwrap().number, written);
        let count = store.cell(&child::key("count")).await.unwrap().unwrap();
        assert_eq!(count.value.as_counter(), i64::try_from(written).ok());
        let own = store.logs(&child::key("own"), None, 99).await.unwrap();
        assert_eq!(own.len() as u64, PROCESSES * WRITERS);
        assert!(own.iter().all(|(_, head)| head.number == ROUNDS));
    }
    eprintln!(
        "{PROCESSES} processes at once, {TIMES} times, {WRITERS} writers each: the longest opening {:.1} ms, the longest \
         wait for a commit {:.1} ms",
        opening.as_secs_f64() * 1e3,
        commit.as_secs_f64() * 1e3
    );
}

/// What a child says at its end of its longest waits.
fn waits(process: &mut std::process::Child) -> (Duration, Duration) {
    let micros = |word: &str| Duration::from_micros(word.parse().unwrap());
    // Read to the end, so that it can say all that it has to say.
    let lines: Vec<String> = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    let end = lines.iter().find_map(|line| line.strip_prefix("END ")).expect("a child tells its end");
    let (opening, commit) = end.split_once(' ').unwrap();
    (micros(opening), micros(commit))
}

#[tokio::test]
async fn a_watch_sees_what_other_processes_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.sqlite");
    let store = child::open(&file);
    let mut watch = store.watch(&child::all());
    let mut process = child::start(&file, "other", 1, 3);
    child::go(&mut process);
    assert_eq!(watch.grown_past(2).await.unwrap().number, 3);
    // The writer's own idea of the log is renewed too.
    assert_eq!(store.commit(child::batch("self", 0, 1)).await.unwrap().numbers[0], 4);
    waits(&mut process);
    process.wait().unwrap();
}
