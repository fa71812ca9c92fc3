//! A real process is killed at every commit of an exchange that is suspended, goes on, and has a follow-up; another process
//! takes it up. The processes are this test binary again, told by variables to be one. What tools do and what is notified
//! is appended to files outside of the store.

use crate::support::*;
use async_trait::async_trait;
use bytes::Bytes;
use placet_core::env::{ManualClock, ManualHandle};
use placet_core::{Effect, Env, Timestamp, Turn, TurnRequest};
use placet_flows::{Agent, Exchange, Flow, Flows, Notice};
use placet_models::SharedProvider;
use placet_models::scripted::{Script, ScriptTurn, ScriptedModel};
use placet_runtime::Runtime;
use placet_store::{
    Batch, BlobId, Cell, Committed, Direction, Entry, Key, LogHead, LogName, SharedStore, SqliteOptions, SqliteStore,
    Store, Tenant, Watch,
};
use placet_tools::{NoArguments, ToolContext, tool};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A store that kills its process at one of its commits.
#[derive(Debug)]
struct Deadly {
    inner: SharedStore,
    /// The number of the commit, from 1; 0 for none.
    at: usize,
    /// Whether the commit still happens.
    after: bool,
    count: AtomicUsize,
}

fn die() {
    nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL).unwrap();
    loop {
        std::thread::park();
    }
}

type Stored<T> = placet_store::Result<T>;

#[async_trait]
impl Store for Deadly {
    async fn now(&self) -> Stored<Timestamp> {
        self.inner.now().await
    }
    async fn commit(&self, batch: Batch) -> Stored<Committed> {
        let hit = self.count.fetch_add(1, Ordering::SeqCst) + 1 == self.at;
        if hit && !self.after {
            die();
        }
        let committed = self.inner.commit(batch).await;
        if hit {
            die();
        }
        committed
    }
    async fn cell(&self, key: &Key) -> Stored<Option<Cell>> {
        self.inner.cell(key).await
    }
    async fn cells(&self, prefix: &Key, beyond: Option<&Key>, direction: Direction, limit: usize) -> Stored<Vec<Cell>> {
        self.inner.cells(prefix, beyond, direction, limit).await
    }
    async fn log(&self, log: &LogName, after: u64, limit: usize) -> Stored<Vec<Entry>> {
        self.inner.log(log, after, limit).await
    }
    async fn log_backward(&self, log: &LogName, before: Option<u64>, limit: usize) -> Stored<Vec<Entry>> {
        self.inner.log_backward(log, before, limit).await
    }
    async fn log_entries(&self, log: &LogName, numbers: &[u64]) -> Stored<Vec<Entry>> {
        self.inner.log_entries(log, numbers).await
    }
    async fn log_head(&self, log: &LogName) -> Stored<LogHead> {
        self.inner.log_head(log).await
    }
    async fn logs(&self, prefix: &Key, beyond: Option<&LogName>, limit: usize) -> Stored<Vec<(LogName, LogHead)>> {
        self.inner.logs(prefix, beyond, limit).await
    }
    async fn put_blob(&self, tenant: &Tenant, bytes: Bytes) -> Stored<BlobId> {
        self.inner.put_blob(tenant, bytes).await
    }
    async fn blob(&self, tenant: &Tenant, id: &BlobId) -> Stored<Option<Bytes>> {
        self.inner.blob(tenant, id).await
    }
    async fn delete_blob(&self, tenant: &Tenant, id: &BlobId) -> Stored<()> {
        self.inner.delete_blob(tenant, id).await
    }
    fn watch(&self, log: &LogName) -> Watch {
        self.inner.watch(log)
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// What lies in a folder: the store, and the world outside.
struct Place(PathBuf);

impl Place {
    fn append(&self, file: &str, line: &str) {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(self.0.join(file)).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
        file.sync_all().unwrap();
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.join(file)).unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// The flows as a process serves them: `later` so long after the first one.
    fn flows(&self, later: Duration, at: usize, after: bool) -> (Flows, Arc<Deadly>) {
        let clock = ManualClock::new(Timestamp::from_micros(1_796_029_200_000_000));
        clock.advance(later);
        let env = Env::deterministic(clock.clone(), 5 + later.as_secs());
        let sqlite =
            SqliteStore::open(self.0.join("store"), SqliteOptions::new(Arc::new(ManualHandle(clock)))).unwrap();
        let store = Arc::new(Deadly { inner: Arc::new(sqlite), at, after, count: AtomicUsize::new(0) });
        let turns = [
            ScriptTurn::text("Let me see.").and_call("pay", json!({})).and_call("open", json!({})),
            ScriptTurn::text("Paid."),
        ];
        let model: SharedProvider = ScriptedModel::new(Script::new(turns).following_the_conversation());
        let outside = Place(self.0.clone());
        let pay = tool("pay", "Pays.", move |_: NoArguments, cx: ToolContext| {
            outside.append("paid", &cx.idempotency_key());
            async move { "paid" }
        });
        let outside = Place(self.0.clone());
        let notify = Flow::notify(move |notice: Notice| {
            outside.append("notified", &notice.key);
            async move { Ok(()) }
        });
        let agent = Agent::new().grant(pay.effect(Effect::Once).build());
        let flow = Flow::agent(agent).next(Flow::respond()).next(notify).with_model("scripted:m").named("house");
        let runtime = Runtime::new(env, store.clone(), [model]);
        (Flows::builder(runtime).flow(flow).build().unwrap(), store)
    }

    fn request(&self) -> TurnRequest {
        world().request_with("pay", &["open"])
    }

    fn next(&self, first: &Turn) -> TurnRequest {
        world().next(&self.request(), first, &[(&handed(first)[0].0, "opened")])
    }

    /// What a client does: it asks, runs its tool, asks again; then what is due is done. What it has it writes down.
    async fn live(&self, flows: &Flows) {
        let first: Turn = match std::fs::read(self.0.join("first")) {
            Ok(known) => serde_json::from_slice(&known).unwrap(),
            Err(_) => {
                let first = flows.serve(Exchange::new(self.request())).await.unwrap().collect().await.unwrap();
                assert_eq!((first.text().as_str(), handed(&first).len()), ("Let me see.", 1));
                std::fs::write(self.0.join("first"), serde_json::to_vec(&first).unwrap()).unwrap();
                first
            }
        };
        if self.lines("answer").is_empty() {
            let second = flows.serve(Exchange::new(self.next(&first))).await.unwrap().collect().await.unwrap();
            self.append("answer", &second.text());
        }
        flows.scheduler().run_due().await.unwrap();
    }
}

const FOLDER: &str = "PLACET_TEST_FLOWS_CRASH_FOLDER";
const AT: &str = "PLACET_TEST_FLOWS_CRASH_AT";

/// Not a test by itself: what [`kill_at_every_commit`] starts, and kills.
#[test]
#[expect(clippy::disallowed_methods, reason = "a process of a test is told by variables what to do")]
fn the_process_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let at = std::env::var(AT).unwrap();
    let (after, number) = at.split_once(' ').unwrap();
    let place = Place(PathBuf::from(folder));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (flows, _) = place.flows(Duration::ZERO, number.parse().unwrap(), after == "after");
        place.live(&flows).await;
    });
}

/// Runs a process; tells whether it was killed.
#[expect(clippy::disallowed_methods, reason = "starts this test binary again, as the process that is killed")]
fn process(folder: &Path, at: &str) -> bool {
    use std::os::unix::process::ExitStatusExt;
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "crash::the_process_that_is_killed"]).env(FOLDER, folder).env(AT, at);
    let output = command.output().unwrap();
    let killed = output.status.signal() == Some(9);
    assert!(killed || output.status.success(), "{at}: {}", String::from_utf8_lossy(&output.stdout));
    killed
}

#[test]
fn kill_at_every_commit() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for after in ["before", "after"] {
        let (mut killed_at, mut unknown) = (0, 0);
        for number in 1.. {
            // A killed process leaves what it wrote to the system, so the folder may lie in memory.
            let memory = Path::new("/dev/shm");
            let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
            let place = Place(folder.path().to_owned());
            let at = format!("{after} {number}");
            if !process(folder.path(), &at) {
                break;
            }
            killed_at += 1;
            runtime.block_on(async {
                let (flows, _) = place.flows(Duration::from_secs(120), 0, false);
                place.live(&flows).await;
                // A claim of the process that died may still stand in the way of its job.
                let (later, _) = place.flows(Duration::from_secs(240), 0, false);
                later.scheduler().run_due().await.unwrap();
            });
            assert_eq!(place.lines("answer"), ["Paid."], "{at}");
            // Between the intent and the handler nobody knows: then it is told as interrupted, and not run.
            let paid = place.lines("paid").len();
            assert!(paid <= 1, "{at}: it was paid {paid} times");
            unknown += 1 - paid;
            let mut notified = place.lines("notified");
            notified.dedup();
            assert_eq!(notified.len(), 1, "{at}: {notified:?}");
        }
        assert!(killed_at >= 10, "there were only {killed_at} commits");
        assert!(unknown <= 1, "{unknown} times it was not paid");
    }
}
