//! What a run costs in CPU, with a model and tools that cost next to nothing.
//!
//! Prints microseconds of CPU (user and system, all threads of the process) and commits; with `memory`, whether 100,000
//! runs leave memory where it was. `cargo bench -p placet-runtime --bench run`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a benchmark: it fails by panicking, prints, and reads its arguments"
)]

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use placet_core::turn::{CallDelta, TextDelta, TurnFinished};
use placet_core::{
    Cursor, Effect, Env, ProviderError, ProviderId, StopReason, Timestamp, TurnEvent, TurnRequest, Usage,
};
use placet_models::{AskContext, ModelListing, ModelProvider, TurnStream};
use placet_runtime::Runtime;
use placet_store::{
    Batch, BlobId, Cell, Committed, Direction, Entry, Key, LogHead, LogName, MemoryStore, SharedStore, SqliteOptions,
    SqliteStore, Store, Tenant, Watch,
};
use placet_tools::{BoundTool, NoArguments, tool};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// CPU of this process, in microseconds.
fn cpu() -> f64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    time.tv_sec() as f64 * 1e6 + time.tv_nsec() as f64 / 1e3
}

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Answers at once: with a call where a tool is offered and not yet answered, else with this many pieces of text.
#[derive(Debug)]
struct Quick {
    id: ProviderId,
    pieces: usize,
    /// Lets other tasks run now and then, as a connection would.
    yields: bool,
}

#[async_trait]
impl ModelProvider for Quick {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    async fn ask(&self, request: Arc<TurnRequest>, _: AskContext) -> Result<TurnStream, ProviderError> {
        let usage = TurnEvent::Usage(Usage { input: 10, output: 5, ..Usage::default() });
        let end = |stop| TurnEvent::Finished(TurnFinished::new(stop));
        if !request.tools.is_empty() && request.items.len() == 1 {
            let call = CallDelta {
                index: 0,
                provider_id: Some("call_1".into()),
                name: Some("work".into()),
                arguments: "{}".into(),
                native: None,
            };
            let events = [TurnEvent::Call(call), usage, end(StopReason::ToolCalls)];
            return Ok(futures_util::stream::iter(events).boxed());
        }
        let text = |_| TurnEvent::Text(TextDelta { index: 0, text: "some words ".into() });
        let events = (0..self.pieces).map(text).chain([usage, end(StopReason::End)]);
        let events = futures_util::stream::iter(events.collect::<Vec<_>>());
        if !self.yields {
            return Ok(events.boxed());
        }
        let paced = events.enumerate().then(|(place, event)| async move {
            if place % 16 == 0 {
                tokio::task::yield_now().await;
            }
            event
        });
        Ok(paced.boxed())
    }

    async fn models(&self, _: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        Ok(Vec::new())
    }
}

/// Counts the commits that pass through it.
#[derive(Debug)]
struct Counting {
    store: SharedStore,
    commits: AtomicU64,
}

#[async_trait]
impl Store for Counting {
    async fn now(&self) -> placet_store::Result<Timestamp> {
        self.store.now().await
    }
    async fn commit(&self, batch: Batch) -> placet_store::Result<Committed> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.store.commit(batch).await
    }
    async fn cell(&self, key: &Key) -> placet_store::Result<Option<Cell>> {
        self.store.cell(key).await
    }
    async fn cells(&self, p: &Key, b: Option<&Key>, d: Direction, l: usize) -> placet_store::Result<Vec<Cell>> {
        self.store.cells(p, b, d, l).await
    }
    async fn log(&self, log: &LogName, after: u64, limit: usize) -> placet_store::Result<Vec<Entry>> {
        self.store.log(log, after, limit).await
    }
    async fn log_backward(&self, l: &LogName, b: Option<u64>, n: usize) -> placet_store::Result<Vec<Entry>> {
        self.store.log_backward(l, b, n).await
    }
    async fn log_entries(&self, log: &LogName, numbers: &[u64]) -> placet_store::Result<Vec<Entry>> {
        self.store.log_entries(log, numbers).await
    }
    async fn log_head(&self, log: &LogName) -> placet_store::Result<LogHead> {
        self.store.log_head(log).await
    }
    async fn logs(&self, p: &Key, b: Option<&LogName>, n: usize) -> placet_store::Result<Vec<(LogName, LogHead)>> {
        self.store.logs(p, b, n).await
    }
    async fn put_blob(&self, tenant: &Tenant, bytes: Bytes) -> placet_store::Result<BlobId> {
        self.store.put_blob(tenant, bytes).await
    }
    async fn blob(&self, tenant: &Tenant, id: &BlobId) -> placet_store::Result<Option<Bytes>> {
        self.store.blob(tenant, id).await
    }
    async fn delete_blob(&self, tenant: &Tenant, id: &BlobId) -> placet_store::Result<()> {
        self.store.delete_blob(tenant, id).await
    }
    fn watch(&self, log: &LogName) -> Watch {
        self.store.watch(log)
    }
    fn describe(&self) -> String {
        self.store.describe()
    }
}

struct Bench {
    runtime: Runtime,
    store: Arc<Counting>,
}

impl Bench {
    fn on(store: SharedStore, pieces: usize, yields: bool) -> Self {
        let store = Arc::new(Counting { store, commits: AtomicU64::new(0) });
        let runtime = Runtime::builder(Env::system(), store.clone())
            .provider(Arc::new(Quick { id: "quick".into(), pieces, yields }))
            .keep_ended(1000)
            .build();
        Bench { runtime, store }
    }

    async fn run(&self, work: Option<&BoundTool>) {
        let run = self.runtime.run("quick:m").input("go");
        let run = match work {
            Some(work) => run.tool(work.clone()),
            None => run,
        };
        let result = run.await.unwrap();
        assert!(result.failure.is_none());
    }

    /// CPU and commits of one run, the middle of several measurements.
    async fn measure(&self, times: usize, work: Option<&BoundTool>) -> (f64, f64) {
        self.run(work).await;
        let mut spans = Vec::new();
        let commits = self.store.commits.load(Ordering::Relaxed);
        for _ in 0..5 {
            let start = cpu();
            for _ in 0..times {
                self.run(work).await;
            }
            spans.push((cpu() - start) / times as f64);
        }
        let commits = self.store.commits.load(Ordering::Relaxed) - commits;
        spans.sort_by(f64::total_cmp);
        (spans[2], commits as f64 / (5 * times) as f64)
    }
}

fn work(effect: Effect) -> BoundTool {
    tool("work", "Works.", |_: NoArguments, _| async { "done" }).effect(effect).build()
}

async fn costs(name: &str, open: impl Fn() -> SharedStore, times: usize) {
    let (text, commits) = Bench::on(open(), 1, false).measure(times, None).await;
    println!("{name:>7}: text run, 1 delta            {text:8.1} us   {commits:.2} commits");
    let (many, _) = Bench::on(open(), 21, false).measure(times, None).await;
    println!("{name:>7}: text run, 21 deltas          {many:8.1} us");
    for effect in [Effect::Read, Effect::Once] {
        let (cost, commits) = Bench::on(open(), 1, false).measure(times, Some(&work(effect))).await;
        println!("{name:>7}: one-tool run, {:<15} {cost:8.1} us   {commits:.2} commits", format!("{effect:?}"));
    }
    for yields in [false, true] {
        let (long, _) = Bench::on(open(), 2000, yields).measure(times / 20, None).await;
        let how = if yields { "in pieces of 16" } else { "all at once" };
        println!("{name:>7}: per event of 2000, {how:<15} {:4.2} us", (long - text) / 1999.0);
    }

    // The same in pieces, with somebody who reads every event.
    let bench = Bench::on(open(), 2000, true);
    let mut spans = Vec::new();
    for _ in 0..(times / 20).max(5) {
        let start = cpu();
        let handle = bench.runtime.run("quick:m").input("go").start().await.unwrap();
        let mut events = handle.events(Cursor::START);
        let mut live = 0u64;
        while let Some(event) = events.next().await {
            live += u64::from(event.unwrap().cursor.live > 0);
        }
        handle.wait().await.unwrap();
        assert!(live > 2000, "{live} of 2001 live events");
        spans.push((cpu() - start - text) / 1999.0);
    }
    spans.sort_by(f64::total_cmp);
    println!("{name:>7}: the same, one reader              {:4.2} us", spans[spans.len() / 2]);
}

/// Whether runs that come and go leave memory where it was.
async fn memory(runs: usize) {
    let bench = Bench::on(memory_store(), 3, false);
    let work = work(Effect::Once);
    for (ran, label) in [(0, "at start"), (runs / 10, "after the first tenth"), (runs, "at the end")] {
        static DONE: AtomicU64 = AtomicU64::new(0);
        while DONE.load(Ordering::Relaxed) < ran as u64 {
            bench.run(Some(&work)).await;
            DONE.fetch_add(1, Ordering::Relaxed);
        }
        println!(" memory: {:>7} runs, {label:<22} {:>7} KiB resident", DONE.load(Ordering::Relaxed), resident());
    }
}

fn memory_store() -> SharedStore {
    Arc::new(MemoryStore::new(Env::system().clock().clone()))
}

fn main() {
    // One thread: what is measured is work, not the handing over of it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        costs("memory", memory_store, 2000).await;
        let folder = tempfile::tempdir().unwrap();
        let files = AtomicU64::new(0);
        let open = || -> SharedStore {
            let file = folder.path().join(format!("{}.sqlite", files.fetch_add(1, Ordering::Relaxed)));
            Arc::new(SqliteStore::open(file, SqliteOptions::new(Env::system().clock().clone())).unwrap())
        };
        costs("sqlite", open, 200).await;
        memory(100_000).await;
    });
}
