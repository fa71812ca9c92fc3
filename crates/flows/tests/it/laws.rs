//! Laws, tried with whatever a model and a client may do.

use crate::support::*;
use futures_util::StreamExt;
use placet_core::{Effect, TurnEvent, TurnRequest};
use placet_flows::{Agent, Exchange, Flow, Flows, Model};
use placet_models::scripted::ScriptTurn;
use placet_models::{AskContext, ModelListing, ModelProvider, SharedProvider, TurnStream};
use placet_runtime::Runtime;
use placet_store::{SharedStore, SqliteOptions, SqliteStore};
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const OURS: [&str; 2] = ["inner_a", "inner_b"];
const THEIRS: [&str; 2] = ["outer_a", "outer_b"];

/// A model's turn: which tools it asks for, by place.
fn turn(calls: &[u8]) -> ScriptTurn {
    let names = [OURS[0], OURS[1], THEIRS[0], THEIRS[1]];
    let empty =
        ScriptTurn { text: if calls.is_empty() { vec!["done".into()] } else { Vec::new() }, ..ScriptTurn::default() };
    calls.iter().fold(empty, |turn, call| turn.and_call(names[usize::from(*call)], json!({})))
}

/// Every call of a request is answered, in one stretch right after its own, in order.
fn assert_rounds_are_whole(request: &TurnRequest) {
    let lines = told(request);
    let mut open: Vec<String> = Vec::new();
    let mut answering = false;
    for line in &lines {
        if let Some(name) = line.strip_prefix("call ") {
            assert!(!answering || open.is_empty(), "a round was left open in {lines:#?}");
            answering = false;
            open.push(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("result ") {
            answering = true;
            let name = rest.split(':').next().unwrap();
            assert_eq!(open.remove(0), name, "{lines:#?}");
        } else {
            assert!(open.is_empty(), "a round was left open in {lines:#?}");
            answering = false;
        }
    }
    assert!(open.is_empty(), "a round was left open in {lines:#?}");
}

async fn converse(rounds: Vec<Vec<u8>>, streaming: bool) {
    let (a, ran_a) = counted(OURS[0], "a-secret-result", Effect::Once);
    let (b, ran_b) = counted(OURS[1], "b-secret-result", Effect::Read);
    let asked: Vec<usize> =
        [0u8, 1].iter().map(|ours| rounds.iter().flatten().filter(|call| *call == ours).count()).collect();
    let turns = rounds.iter().map(|calls| turn(calls)).chain([turn(&[]), turn(&[])]);
    let (world, model) = (world(), scripted(turns));
    let limits = placet_core::Limits { rounds: 100, ..placet_core::Limits::default() };
    let flows = world.serve(Flow::agent(Agent::new().grant(a).grant(b).limits(limits)), &model);
    let mut request = world.request_with("go", &THEIRS);
    for _ in 0..=rounds.len() {
        let exchange = Exchange::new(request.clone());
        let answer = flows.serve(if streaming { exchange.streaming() } else { exchange }).await.unwrap();
        let events: Vec<TurnEvent> = answer.events().collect().await;
        let seen = serde_json::to_string(&events).unwrap();
        assert!(OURS.iter().all(|name| !seen.contains(name)) && !seen.contains("secret"), "{seen}");
        let turn = answer.collect().await.unwrap();
        let calls = handed(&turn);
        if calls.is_empty() {
            break;
        }
        // The client's tools come back in another order, and once the whole request is sent twice.
        let results: Vec<(&str, &str)> = calls.iter().rev().map(|(id, _)| (id.as_str(), "theirs")).collect();
        request = world.next(&request, &turn, &results);
    }
    for sent in model.requests() {
        assert_rounds_are_whole(&sent);
    }
    assert_eq!((count(&ran_a), count(&ran_b)), (asked[0], asked[1]), "each call of ours ran once");
    assert_eq!(model.requests().len(), rounds.len() + 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn laws_6_and_7_hold_for_every_course_of_a_conversation(
        rounds in prop::collection::vec(prop::collection::vec(0u8..4, 1..4), 0..5),
        streaming: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(converse(rounds, streaming));
    }
}

/// Says a little, then nothing more until it is dropped.
#[derive(Debug)]
struct Silent {
    id: placet_core::ProviderId,
    dropped: Arc<AtomicUsize>,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait::async_trait]
impl ModelProvider for Silent {
    fn id(&self) -> &placet_core::ProviderId {
        &self.id
    }

    async fn ask(&self, _: Arc<TurnRequest>, _: AskContext) -> Result<TurnStream, placet_core::ProviderError> {
        let guard = CountDrop(self.dropped.clone());
        let first = TurnEvent::Text(placet_core::turn::TextDelta { index: 0, text: "Let me".into() });
        let rest = futures_util::stream::once(async move {
            let _guard = guard;
            std::future::pending().await
        });
        Ok(futures_util::stream::iter([first]).chain(rest).boxed())
    }

    async fn models(&self, _: AskContext) -> Result<Vec<ModelListing>, placet_core::ProviderError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn a_client_that_goes_away_closes_the_connection_to_the_model() {
    let world = world();
    let dropped = Arc::new(AtomicUsize::new(0));
    let provider: SharedProvider = Arc::new(Silent { id: "silent".into(), dropped: dropped.clone() });
    let runtime = Runtime::new(world.env.clone(), world.store.clone(), [provider]);
    let handled = Agent::new().handler(|caller: placet_flows::Caller, mut model: Model| async move {
        let reply = model.ask_with(caller.messages()).await?;
        caller.stream().await?.expect("a stream").pipe(&reply).await
    });
    let resolving = Agent::new().grant(sensor().0);
    for (at, agent) in [Agent::new(), handled, resolving].into_iter().enumerate() {
        let flow = Flow::agent(agent).with_model("silent:m").named("house");
        let flows = Flows::builder(runtime.clone()).flow(flow).build().unwrap();
        let answer = flows.serve(Exchange::new(world.request("hi")).streaming()).await.unwrap();
        let mut events = answer.events();
        events.next().await.unwrap();
        drop((answer, events));
        until(|| dropped.load(Ordering::SeqCst) == at + 1).await;
    }
}

#[tokio::test]
async fn a_model_is_read_no_faster_than_the_client_reads() {
    let pieces: Vec<String> = (0..5_000).map(|n| format!("{n} ")).collect();
    let (world, model) = (world(), scripted([ScriptTurn { text: pieces.clone(), ..ScriptTurn::default() }]));
    let flows = world.serve(Agent::new(), &model);
    let answer = flows.serve(Exchange::new(world.request("hi")).streaming()).await.unwrap();
    let mut events = answer.events();
    events.next().await.unwrap();
    for _ in 0..20_000 {
        tokio::task::yield_now().await;
    }
    let read = answer.reply().text_so_far().len();
    assert!(read < pieces.concat().len() / 4, "{read} bytes were read ahead");
    while events.next().await.is_some() {}
    assert_eq!(answer.collect().await.unwrap().text(), pieces.concat());
}

#[tokio::test]
async fn a_store_on_disk_keeps_suspended_exchanges_and_jobs_across_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("placet.db");
    let turns = || [ScriptTurn::call("inner_a", json!({})).and_call("outer_a", json!({})), ScriptTurn::text("done")];
    let (tool, ran) = counted("inner_a", "x", Effect::Once);
    let (world, log) = (world(), Log::default());
    let model = scripted(turns());
    let open = || {
        let store = SqliteStore::open(&path, SqliteOptions::new(placet_core::Env::system().clock().clone())).unwrap();
        let store: SharedStore = Arc::new(store);
        let provider: SharedProvider = model.clone();
        let runtime = Runtime::new(placet_core::Env::system(), store, [provider]);
        let agent = Flow::agent(Agent::new().grant(tool.clone())).next(Flow::respond()).next(notes(&log, "followed"));
        Flows::builder(runtime).flow(agent.with_model("scripted:m").named("house")).build().unwrap()
    };
    let request = world.request_with("go", &["outer_a"]);
    let flows = open();
    let first = ask(&flows, request.clone()).await.unwrap();
    drop(flows);
    let flows = open();
    let next = world.next(&request, &first, &[(&handed(&first)[0].0, "theirs")]);
    assert_eq!(text(&flows, next).await, "done");
    assert_eq!((count(&ran), log.take().len()), (1, 0));
    drop(flows);
    assert_eq!(open().scheduler().run_due().await.unwrap(), 1);
    assert_eq!(log.take(), ["followed"]);
}
