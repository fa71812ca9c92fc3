//! A store that fails: for good from some commit on, or once with its answer lost. Runs get over the one and are
//! resumed after the other.

use crate::support::{Say, results, scripted, world};
use async_trait::async_trait;
use bytes::Bytes;
use placet_core::event::EventBody;
use placet_core::{Effect, Status, Timestamp};
use placet_models::ScriptTurn;
use placet_observe::{Ending, Journal, verify};
use placet_runtime::{Runtime, RuntimeError};
use placet_store::{
    Batch, BlobId, Cell, Committed, Direction, Entry, Key, LogHead, LogName, Result, SharedStore, Store, StoreError,
    Tenant, Watch,
};
use placet_tools::{PlainCapability, capability, tool};
use proptest::prelude::*;
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What goes wrong with one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// This commit and all later ones fail; nothing is written.
    DownFrom(u64),
    /// This commit is applied, and its answer is lost.
    AnswerLost(u64),
    /// This commit is not applied, and nobody knows.
    Lost(u64),
}

#[derive(Debug)]
struct Flaky {
    store: SharedStore,
    fault: Fault,
    commits: AtomicU64,
}

fn unknown() -> StoreError {
    StoreError::Unknown { cause: "the line broke".into() }
}

#[async_trait]
impl Store for Flaky {
    async fn now(&self) -> Result<Timestamp> {
        self.store.now().await
    }
    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        match self.fault {
            Fault::DownFrom(from) if number >= from => Err(StoreError::Unavailable { cause: "no power".into() }),
            Fault::Lost(at) if number == at => Err(unknown()),
            Fault::AnswerLost(at) if number == at => {
                self.store.commit(batch).await?;
                Err(unknown())
            }
            _ => self.store.commit(batch).await,
        }
    }
    async fn cell(&self, key: &Key) -> Result<Option<Cell>> {
        self.store.cell(key).await
    }
    async fn cells(&self, p: &Key, b: Option<&Key>, d: Direction, l: usize) -> Result<Vec<Cell>> {
        self.store.cells(p, b, d, l).await
    }
    async fn log(&self, log: &LogName, after: u64, limit: usize) -> Result<Vec<Entry>> {
        self.store.log(log, after, limit).await
    }
    async fn log_backward(&self, l: &LogName, b: Option<u64>, n: usize) -> Result<Vec<Entry>> {
        self.store.log_backward(l, b, n).await
    }
    async fn log_entries(&self, log: &LogName, numbers: &[u64]) -> Result<Vec<Entry>> {
        self.store.log_entries(log, numbers).await
    }
    async fn log_head(&self, log: &LogName) -> Result<LogHead> {
        self.store.log_head(log).await
    }
    async fn logs(&self, p: &Key, b: Option<&LogName>, n: usize) -> Result<Vec<(LogName, LogHead)>> {
        self.store.logs(p, b, n).await
    }
    async fn put_blob(&self, tenant: &Tenant, bytes: Bytes) -> Result<BlobId> {
        self.store.put_blob(tenant, bytes).await
    }
    async fn blob(&self, tenant: &Tenant, id: &BlobId) -> Result<Option<Bytes>> {
        self.store.blob(tenant, id).await
    }
    async fn delete_blob(&self, tenant: &Tenant, id: &BlobId) -> Result<()> {
        self.store.delete_blob(tenant, id).await
    }
    fn watch(&self, log: &LogName) -> Watch {
        self.store.watch(log)
    }
    fn describe(&self) -> String {
        self.store.describe()
    }
}

/// How often the handler of each call ran, by its key.
type Ran = Arc<Mutex<HashMap<String, usize>>>;

fn lab(ran: &Ran) -> PlainCapability {
    let bound = |name: &str, effect| {
        let ran = ran.clone();
        tool(name, "Counts.", move |say: Say, cx| {
            *ran.lock().unwrap().entry(cx.idempotency_key()).or_default() += 1;
            async { say.word }
        })
        .effect(effect)
    };
    let (look, set, send) =
        (bound("look", Effect::Read), bound("set", Effect::Idempotent), bound("send", Effect::Once));
    capability("lab").tool(look).tool(set).tool(send)
}

fn script(rounds: &[Vec<usize>]) -> Vec<ScriptTurn> {
    let names = ["look", "set", "send"];
    let turn = |calls: &Vec<usize>| {
        calls.iter().fold(ScriptTurn::default(), |turn, call| turn.and_call(names[*call], json!({"word": "done"})))
    };
    rounds.iter().map(turn).chain([ScriptTurn::text("the end")]).collect()
}

async fn over(rounds: Vec<Vec<usize>>, fault: Fault) -> std::result::Result<(), TestCaseError> {
    let world = world();
    let model = scripted(script(&rounds));
    let flaky: SharedStore = Arc::new(Flaky { store: world.store.clone(), fault, commits: AtomicU64::new(0) });
    let ran = Ran::default();
    let first = Runtime::builder(world.env.clone(), flaky).provider(model.clone()).build();
    let second = world.builder(model.clone()).build();
    let run: placet_core::RunId = world.env.new_id();
    let tenant = Tenant::new("");

    let begun = first.run("scripted:m").id(run.clone()).input("go").grant(lab(&ran)).await;
    let asked = model.requests().len();
    let result = match (fault, begun) {
        (Fault::DownFrom(_), Err(error)) => {
            prop_assert!(matches!(error, RuntimeError::Store(_)), "{:?}", error);
            let recorded = match Journal::read(&*world.store, &tenant, &run).await {
                Ok(journal) => journal.state().turns(),
                Err(_) => {
                    prop_assert_eq!(asked, 0, "nothing is asked before the start is recorded");
                    return Ok(());
                }
            };
            world.clock.advance(Duration::from_secs(31));
            let result = second.resume(run.clone()).grant(lab(&ran)).await.unwrap();
            let again = model.requests().len() - asked;
            prop_assert_eq!(
                again,
                rounds.len() + 1 - usize::try_from(recorded).unwrap(),
                "a recorded turn is not asked again"
            );
            result
        }
        // An answer that was lost is looked up; nobody notices.
        (_, begun) => begun.unwrap(),
    };
    prop_assert_eq!((&result.end, result.text.as_str()), (&Ending::Completed, "the end"));
    let verification = verify(&*world.store, &tenant, &run).await.unwrap();
    prop_assert!(verification.is_sound() && verification.ended, "{:?}", verification);

    let requested = Journal::read(&*world.store, &tenant, &run).await.unwrap();
    let keys: HashMap<String, String> = requested
        .events()
        .filter_map(|event| match event.body {
            EventBody::CallRequested(requested) => Some((requested.call.id.to_string(), requested.idempotency_key)),
            _ => None,
        })
        .collect();
    for answer in results(&result) {
        let times = ran.lock().unwrap().get(&keys[answer.call.as_str()]).copied().unwrap_or(0);
        match (answer.tool.as_str(), answer.outcome.status) {
            ("send", Status::Completed) => prop_assert_eq!(times, 1),
            ("send", Status::Interrupted) => prop_assert!(times <= 1),
            (_, Status::Completed) => prop_assert!((1..=2).contains(&times)),
            (tool, status) => prop_assert!(false, "{} is {}", tool, status),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_run_gets_over_a_store_that_fails_anywhere(
        rounds in prop::collection::vec(prop::collection::vec(0usize..3, 1..4), 0..4),
        at in 1u64..14,
        kind in 0usize..3,
    ) {
        let fault = [Fault::DownFrom(at), Fault::AnswerLost(at), Fault::Lost(at)][kind];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(over(rounds, fault))?;
    }
}
