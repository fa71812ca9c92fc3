//! A writing process: this test binary again, told by the environment to write to a board in a file.

#![allow(
    clippy::disallowed_methods,
    reason = "the child is told by its environment what to do, and starts as a process"
)]

use crate::world::{id, written};
use futures_util::future::join_all;
use placet_board::{BoardSpec, Boards, Content, Control, Limits, Region, SweepOptions, WriteRequest};
use placet_core::Env;
use placet_store::{SharedStore, SqliteOptions, SqliteStore, Tenant};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const PLACE: &str = "PLACET_TEST_CHILD_PLACE";
const NAME: &str = "PLACET_TEST_CHILD_NAME";
const WRITERS: &str = "PLACET_TEST_CHILD_WRITERS";
const ROUNDS: &str = "PLACET_TEST_CHILD_ROUNDS";

/// Starts a child that waits for a line on its input, then opens the store and the board and writes. It prints `TRY` before each
/// write and `ACK sequence content` after it. The store is a file of SQLite, or `postgres://…#SCHEMA`.
pub(crate) fn start(place: &str, name: &str, writers: u64, rounds: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child::writes_what_it_is_told", "--nocapture"])
        .env(PLACE, place)
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

/// What a child said.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) tries: u64,
    pub(crate) acknowledged: Vec<Acknowledged>,
}

pub(crate) struct Acknowledged {
    pub(crate) sequence: u64,
    pub(crate) content: String,
}

/// Reads what a child says, to its end.
pub(crate) fn said(child: &mut Child) -> Said {
    said_until(child, |_, _| {})
}

/// The same, with a look at the child after each acknowledgement.
pub(crate) fn said_until(child: &mut Child, mut look: impl FnMut(&mut Child, u64)) -> Said {
    let mut said = Said::default();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // The pipe ends when the process does; what it said before is read to the end, but for half a line.
        let Ok(line) = line else { break };
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["TRY"] => said.tries += 1,
            ["ACK", sequence, content] => {
                let Ok(sequence) = sequence.parse() else { continue };
                said.acknowledged.push(Acknowledged { sequence, content: (*content).to_owned() });
                look(child, said.acknowledged.len() as u64);
            }
            _ => {}
        }
    }
    said
}

pub(crate) async fn boards(place: &str) -> Boards {
    let env = Env::system();
    Boards::new(store(place, &env).await, Tenant::new("crash"), &env)
}

async fn store(place: &str, env: &Env) -> SharedStore {
    #[cfg(feature = "postgres")]
    if let Some((url, schema)) = place.split_once('#') {
        let mut options = placet_store::PostgresOptions::default();
        schema.clone_into(&mut options.schema);
        return Arc::new(placet_store::PostgresStore::connect(url, options, env).await.unwrap());
    }
    Arc::new(SqliteStore::open(place, SqliteOptions::new(env.clock().clone())).unwrap())
}

pub(crate) async fn board(boards: &Boards) -> Control {
    let limits = Limits::new(Duration::from_secs(100_000), Duration::from_secs(100_000));
    let spec =
        BoardSpec::new(limits).region(Region::level("findings")).premise("goal", Content::of(&"find it").unwrap());
    boards.open(&id("incident"), &spec).await.unwrap()
}

/// The child's side. In an ordinary run of the tests, where nobody told it anything, it writes a little by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_what_it_is_told() {
    let Ok(place) = std::env::var(PLACE) else {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.sqlite");
        let place = file.to_str().unwrap();
        write(place, "nobody", 2, 3).await;
        assert_eq!(board(&boards(place).await).await.reader().head().await.unwrap(), 7);
        return;
    };
    let number = |name| std::env::var(name).unwrap().parse().unwrap();
    let name = std::env::var(NAME).unwrap();
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    write(&place, &name, number(WRITERS), number(ROUNDS)).await;
}

async fn write(place: &str, name: &str, writers: u64, rounds: u64) {
    let boards = boards(place).await;
    let control = board(&boards).await;
    // Nobody can be reached from here, so that what is owed is merged while it grows.
    let _sweep = boards.sweep(SweepOptions::default().interval(Duration::from_millis(50)));
    let write = |writer: u64| {
        let control = &control;
        async move {
            for round in 1..=rounds {
                let content = format!("{name}/{writer}/{round}");
                println!("TRY");
                let request = WriteRequest::new("findings", Content::of(&content).unwrap()).key(&content);
                let written = written(control.write(name, &request).await.unwrap());
                println!("ACK {} {content}", written.sequence);
            }
        }
    };
    join_all((0..writers).map(write)).await;
}
