//! How fast boards are written and read, in process.
//!
//! `cargo bench -p placet-board --bench write [-- FOLDER]`. Prints figures; judges nothing. What the same costs across HTTP is
//! measured where the server is.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measurement that cannot be made ends")]
#![allow(clippy::print_stdout, reason = "figures are printed")]

use placet_board::{Agent, BoardId, BoardSpec, Boards, Bounds, Content, Control, Limits, Region, WriteRequest};
use placet_core::env::SystemClock;
use placet_core::{Clock as _, Env};
use placet_store::{MemoryStore, SharedStore, SqliteOptions, SqliteStore, Tenant};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SPAN: Duration = Duration::from_secs(3);
const WRITERS: u64 = 8;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // Not in the folder for temporary files, which may be memory.
    let place = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let folder = tempfile::tempdir_in(place.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let memory = || -> SharedStore { Arc::new(MemoryStore::new(Arc::new(SystemClock::new()))) };
    for subscribers in [0, 3] {
        for keyed in [false, true] {
            let figures = runtime.block_on(writes(memory(), subscribers, keyed));
            println!("memory, {subscribers} subscribers{}: {figures}", told(keyed));
        }
    }
    runtime.block_on(reads(memory()));
    runtime.block_on(idle_boards(memory()));
    for subscribers in [0, 3] {
        let file = folder.path().join(format!("{subscribers}.sqlite"));
        let store = Arc::new(SqliteStore::open(&file, SqliteOptions::new(Arc::new(SystemClock::new()))).unwrap());
        let before = fdatasync(folder.path());
        let figures = runtime.block_on(writes(store, subscribers, true));
        let p50 = (before + fdatasync(folder.path())) / 2;
        println!(
            "sqlite, {subscribers} subscribers, keyed: {figures}; fdatasync p50 {:.3} ms, bar {:.0}",
            p50.as_secs_f64() * 1e3,
            8.0 / (p50.as_secs_f64() + 0.000_7) / 2.0
        );
    }
}

fn told(keyed: bool) -> &'static str {
    if keyed { ", keyed" } else { "" }
}

async fn board(boards: &Boards, subscribers: u64) -> Control {
    let day = Duration::from_secs(86_400);
    let mut spec = BoardSpec::new(Limits::new(day, day)).region(Region::level("findings"));
    for number in 0..subscribers {
        let agent = Agent::new(format!("agent-{number}")).subscribes_to(["findings"]);
        spec = spec.agent(agent.on_notified(|_| async { Ok(()) }));
    }
    boards.open(&BoardId::new("bench").unwrap(), &spec).await.unwrap()
}

struct Figures {
    a_second: f64,
    p50: Duration,
    p99: Duration,
    cpu: Duration,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Figures { a_second, p50, p99, cpu } = self;
        let micros = |span: &Duration| span.as_secs_f64() * 1e6;
        write!(
            f,
            "{a_second:.0} writes a second by {WRITERS} writers, p50 {:.1} µs, p99 {:.1} µs, {:.2} µs CPU each",
            micros(p50),
            micros(p99),
            micros(cpu)
        )
    }
}

async fn writes(store: SharedStore, subscribers: u64, keyed: bool) -> Figures {
    let env = Env::system();
    let control = board(&Boards::new(store, Tenant::new("bench"), &env), subscribers).await;
    let count = Arc::new(AtomicU64::new(0));
    let (start, cpu) = (env.clock().steady(), processor_time());
    let until = start + SPAN;
    let spans: Arc<std::sync::Mutex<Vec<Duration>>> = Arc::default();
    let tasks = (0..WRITERS).map(|writer| {
        let (control, clock, count, spans) = (control.clone(), env.clock().clone(), count.clone(), spans.clone());
        env.spawn("writer", async move {
            let (name, mut own) = (format!("writer-{writer}"), Vec::new());
            let content = Content::of(&"x".repeat(100)).unwrap();
            loop {
                let before = clock.steady();
                if before >= until {
                    break;
                }
                let mut request = WriteRequest::new("findings", content.clone());
                if keyed {
                    request =
                        request.key(format!("{writer}-{}", count.load(Ordering::Relaxed)) + &own.len().to_string());
                }
                control.write(&name, &request).await.unwrap().written().unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                own.push(clock.steady() - before);
            }
            spans.lock().unwrap().extend(own);
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.join().await.unwrap();
    }
    let took = env.clock().steady() - start;
    let cpu = processor_time().saturating_sub(cpu);
    let mut spans = std::mem::take(&mut *spans.lock().unwrap());
    spans.sort_unstable();
    let count = count.load(Ordering::Relaxed);
    Figures {
        a_second: count as f64 / took.as_secs_f64(),
        p50: spans[spans.len() / 2],
        p99: spans[spans.len() * 99 / 100],
        cpu: cpu / u32::try_from(count).unwrap().max(1),
    }
}

/// A hundred rows of a level that holds a thousand, and of one that holds a million.
async fn reads(store: SharedStore) {
    let env = Env::system();
    let control = board(&Boards::new(store, Tenant::new("bench"), &env), 0).await;
    let mut held = 0_u64;
    for holds in [1_000_u64, 1_000_000] {
        while held < holds {
            let request = WriteRequest::new("findings", Content::of(&held).unwrap());
            control.write("writer", &request).await.unwrap();
            held += 1;
        }
        let reader = control.reader();
        let clock = env.clock();
        // All over the level, where what is read is in no cache of the processor; and all over as many rows as the small level
        // has, in its middle, where it is: what differs between the two is what memory costs.
        for (place, first, among) in [("anywhere", 0, holds), ("among a thousand rows", holds / 2 - 500, 1000)] {
            let start = clock.steady();
            let (mut count, mut spans) = (0_u64, Vec::new());
            while clock.steady() - start < Duration::from_secs(1) {
                let from = first + (count * 7919) % (among - 100);
                let before = clock.steady();
                assert_eq!(reader.read_level("findings", Bounds::from(from)).await.unwrap().items.len(), 100);
                spans.push(clock.steady() - before);
                count += 1;
            }
            spans.sort_unstable();
            let micros = |share: usize| spans[spans.len() * share / 100].as_secs_f64() * 1e6;
            println!(
                "memory: 100 rows of a level of {holds}, {place}: p10 {:.1} µs, p50 {:.1} µs",
                micros(10),
                micros(50)
            );
        }
    }
}

/// What boards cost on which nothing happens: ten thousand, each with an agent and a window, and a sweep over all.
async fn idle_boards(store: SharedStore) {
    let env = Env::system();
    let boards = Boards::new(store, Tenant::new("bench"), &env);
    let day = Duration::from_secs(86_400);
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let (before, tasks) = (threads(), alive_tasks());
    for number in 0..10_000 {
        let agent = Agent::new("ann").subscribes_to(["findings"]).on_notified(|_| async { Ok(()) });
        let spec = BoardSpec::new(Limits::new(day, day)).region(Region::level("findings")).agent(agent);
        boards.open(&BoardId::new(format!("idle-{number}")).unwrap(), &spec).await.unwrap();
    }
    let _sweep = boards.sweep(placet_board::SweepOptions::default());
    env.sleep(Duration::from_secs(3)).await;
    let cpu = processor_time();
    env.sleep(Duration::from_secs(10)).await;
    println!(
        "10,000 idle boards: {} more threads, {} more tasks, {:.1} ms of processor time in 10 s",
        threads() - before,
        alive_tasks() - tasks,
        (processor_time() - cpu).as_secs_f64() * 1e3
    );
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
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

/// The processor time of this process so far, where the system tells it as Linux does.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    // User and system time, in hundredths of a second.
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}
