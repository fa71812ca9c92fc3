//! How fast the store is: durable appends a second, beside what the disk can do.
//!
//! `cargo bench -p placet-store --bench append [-- FOLDER]`. Prints figures and the bars that the project sets itself;
//! judges nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measurement that cannot be made ends")]
#![allow(clippy::print_stdout, reason = "figures are printed")]

use placet_core::env::SystemClock;
use placet_core::{Clock as _, Env};
use placet_store::outbox::Outbox;
use placet_store::{
    Batch, Condition, Key, LogName, MemoryStore, SharedStore, SqliteOptions, SqliteStore, Tenant, Value, ValueForm,
};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long each figure is measured.
const SPAN: Duration = Duration::from_secs(3);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // Not in the folder for temporary files, which may be memory.
    let place = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let folder = tempfile::tempdir_in(place.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR"))).unwrap();
    memory(&runtime);
    sqlite(&runtime, folder.path());
}

/// The median of appending one page and syncing it to disk.
fn fdatasync(folder: &Path) -> Duration {
    let clock = SystemClock::new();
    let mut file = std::fs::File::create(folder.join("sync")).unwrap();
    let mut spans: Vec<Duration> = (0..300)
        .map(|_| {
            file.write_all(&[1; 4096]).unwrap();
            let before = clock.steady();
            file.sync_data().unwrap();
            clock.steady().saturating_sub(before)
        })
        .collect();
    spans.sort_unstable();
    spans[spans.len() / 2]
}

fn memory(runtime: &tokio::runtime::Runtime) {
    let store: SharedStore = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
    let one = run(runtime, &store, 1, append);
    println!("memory: an append {:.2} µs", one.one.as_secs_f64() * 1e6);
    let one = run(runtime, &store, 1, contribution);
    println!("memory: the batch {:.2} µs", one.one.as_secs_f64() * 1e6);
}

fn sqlite(runtime: &tokio::runtime::Runtime, folder: &Path) {
    let open = |name: &str| -> SharedStore {
        let options = SqliteOptions::new(Arc::new(SystemClock::new()));
        Arc::new(SqliteStore::open(folder.join(name), options).unwrap())
    };
    // The disk is measured before and after each figure: on a shared machine it is another one from second to second.
    let beside = |what: &str, store: &SharedStore, writers: u64, make: fn(u64, u64) -> Batch| {
        let before = fdatasync(folder);
        let figures = run(runtime, store, writers, make);
        let after = fdatasync(folder);
        println!("sqlite: {what}, {figures}; fdatasync p50 {} before, {} after", millis(before), millis(after));
        (before + after).as_secs_f64() / 2.0
    };
    let store = open("append.sqlite");
    let p50 = beside("appends", &store, 64, append);
    println!("        bar: {:.0}", 40_000_f64.min(6.0 / p50));
    let p50 = beside("appends", &store, 1, append);
    println!("        bar: {:.0}", 0.7 / (p50 + 0.000_1));
    let store = open("batch.sqlite");
    for writers in [1, 8, 64] {
        beside("the batch", &store, writers, contribution);
    }
}

/// One entry of 100 bytes.
fn append(_: u64, _: u64) -> Batch {
    let mut batch = Batch::new();
    batch.append(&LogName::new(Key::new(&Tenant::new("bench")).text("log")), Value::new(1, vec![b'x'; 100]));
    batch
}

/// A contribution to a board: an append, its key record, an index, three outbox cells and three conditions.
fn contribution(writer: u64, round: u64) -> Batch {
    let board = Key::new(&Tenant::new("bench")).text("board").text("b-1");
    let key = board.clone().text("key").text(format!("{writer}-{round}"));
    let mut batch = Batch::new();
    batch
        .require(Condition::absent(board.clone().text("closed")))
        .require(Condition::absent(board.clone().text("deadline")))
        .require(Condition::absent(key.clone()));
    let number = batch.append(&LogName::new(board.clone()), Value::new(1, vec![b'x'; 100]));
    batch.put(key, ValueForm::new(1).number(number).now());
    batch.put(board.clone().text("level").text("findings").filled().number(number), Value::new(1, ""));
    let outbox = Outbox::new("board");
    for agent in ["ann", "bob", "cid"] {
        outbox.owe(&mut batch, &board.clone().text(agent), number, Value::new(1, ""));
    }
    batch
}

struct Figures {
    writers: u64,
    a_second: f64,
    one: Duration,
    longest: Duration,
    /// Of the whole process, writers included.
    cpu: Duration,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Figures { writers, a_second, longest, cpu, .. } = self;
        let cpu = cpu.as_secs_f64() * 1e6;
        write!(
            f,
            "{writers:2} writers: {a_second:.0} a second, {cpu:.1} µs CPU each, longest wait {}",
            millis(*longest)
        )
    }
}

fn run(runtime: &tokio::runtime::Runtime, store: &SharedStore, writers: u64, make: fn(u64, u64) -> Batch) -> Figures {
    // Rounds go on counting, so that keys of an earlier run are not met again.
    static ROUND: AtomicU64 = AtomicU64::new(0);
    let env = Env::system();
    let (start, cpu) = (env.clock().steady(), processor_time());
    let until = start + SPAN;
    let (count, longest) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    runtime.block_on(async {
        let tasks = (0..writers).map(|writer| {
            let (store, clock) = (store.clone(), env.clock().clone());
            let (count, longest) = (count.clone(), longest.clone());
            env.spawn("writer", async move {
                loop {
                    let before = clock.steady();
                    if before >= until {
                        return;
                    }
                    store.commit(make(writer, ROUND.fetch_add(1, Ordering::Relaxed))).await.unwrap();
                    let span = u64::try_from((clock.steady() - before).as_nanos()).unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                    longest.fetch_max(span, Ordering::Relaxed);
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.join().await.unwrap();
        }
    });
    let span = env.clock().steady() - start;
    let count = count.load(Ordering::Relaxed);
    let each = u32::try_from(count).unwrap().max(1);
    Figures {
        writers,
        a_second: count as f64 / span.as_secs_f64(),
        one: span / each,
        cpu: processor_time().saturating_sub(cpu) / each,
        longest: Duration::from_nanos(longest.load(Ordering::Relaxed)),
    }
}

/// The processor time of this process so far, where the system tells it as Linux does.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    // User and system time, in hundredths of a second.
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

fn millis(span: Duration) -> String {
    format!("{:.3} ms", span.as_secs_f64() * 1e3)
}
