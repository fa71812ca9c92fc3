//! A writing process: this test binary again, told by the environment to write into a file.

#![allow(
    clippy::disallowed_methods,
    reason = "the child is told by its environment what to do, and starts as a process"
)]

use futures_util::future::join_all;
use placet_core::env::{Clock, SystemClock};
use placet_store::{Batch, Key, LogName, SqliteOptions, SqliteStore, Store, Tenant, Value, ValueForm};
use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const FILE: &str = "PLACET_TEST_CHILD_FILE";
const NAME: &str = "PLACET_TEST_CHILD_NAME";
const WRITERS: &str = "PLACET_TEST_CHILD_WRITERS";
const ROUNDS: &str = "PLACET_TEST_CHILD_ROUNDS";

/// Starts a child that waits for a line on its input, then opens the file and writes. It prints `TRY writer round` before
/// each commit and `ACK writer round number` after it; at its end `END`, the microseconds that opening took, and those
/// of the longest commit.
pub(crate) fn start(file: &Path, name: &str, writers: u64, rounds: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child::writes_what_it_is_told", "--nocapture"])
        .env(FILE, file)
        .env(NAME, name)
        .env(WRITERS, writers.to_string())
        .env(ROUNDS, rounds.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets a child begin.
pub(crate) fn go(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
}

pub(crate) fn tenant() -> Tenant {
    Tenant::new("crash")
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(&tenant()).text(name)
}

/// The log that every batch of every writer appends to.
pub(crate) fn all() -> LogName {
    key("all").into()
}

/// The log of one writer.
pub(crate) fn own(name: &str, writer: u64) -> LogName {
    key("own").text(name).u64(writer).into()
}

/// A batch of five writes that belong together.
pub(crate) fn batch(name: &str, writer: u64, round: u64) -> Batch {
    let content = format!("{name} {writer} {round}");
    let mut batch = Batch::new();
    let number = batch.append(&all(), Value::new(1, content.clone()));
    batch.append(&own(name, writer), ValueForm::new(1).number(number));
    batch.put(key("index").filled().number(number), Value::new(1, content));
    batch.put(key("last").text(name).u64(writer), Value::new(1, round.to_string()));
    batch.add(key("count"), 1, None);
    batch
}

pub(crate) fn open(file: &Path) -> SqliteStore {
    SqliteStore::open(file, SqliteOptions::new(Arc::new(SystemClock::new()))).unwrap()
}

/// The child's side. In an ordinary run of the tests, where nobody told it anything, it writes a little by itself.
#[tokio::test]
async fn writes_what_it_is_told() {
    let Ok(file) = std::env::var(FILE) else {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.sqlite");
        write(&file, "nobody", 2, 3).await;
        assert_eq!(open(&file).log_head(&all()).await.unwrap().number, 6);
        return;
    };
    let number = |name| std::env::var(name).unwrap().parse().unwrap();
    let name = std::env::var(NAME).unwrap();
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    write(Path::new(&file), &name, number(WRITERS), number(ROUNDS)).await;
}

async fn write(file: &Path, name: &str, writers: u64, rounds: u64) {
    let clock = SystemClock::new();
    let store = open(file);
    let opening = clock.steady();
    let write = |writer| {
        let (store, clock) = (&store, &clock);
        async move {
            let mut longest = Duration::ZERO;
            for round in 1..=rounds {
                println!("TRY {writer} {round}");
                let before = clock.steady();
                let number = store.commit(batch(name, writer, round)).await.unwrap().numbers[0];
                longest = longest.max(clock.steady().saturating_sub(before));
                println!("ACK {writer} {round} {number}");
            }
            longest
        }
    };
    let longest = join_all((0..writers).map(write)).await.into_iter().max().unwrap_or_default();
    println!("END {} {}", opening.as_micros(), longest.as_micros());
}
