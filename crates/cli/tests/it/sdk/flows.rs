//! Flows that outlive the process they run in.

use super::agents::{agents, each, upstream};
use super::chat_stream;
use super::house::{House, sdks};
use placet_core::Env;
use placet_core::record::Digest;
use placet_runtime::schedule::Scheduler;
use placet_store::{Direction, Key, KeyPart, SharedStore, Tenant};
use placet_testkit::upstream::{Answer, Received, Upstream, chat};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ANN: &str = "pk_of-ann";
const BOB: &str = "pk_of-bob";

fn keys() -> String {
    let key = |name: &str, key: &str| format!("[keys.{name}]\nsha256 = \"{}\"\n", Digest::of(key.as_bytes()));
    key("ann", ANN) + &key("bob", BOB)
}

/// Three agents, one after the other; the names in `steps` say which.
fn desk(upstream: &Upstream, steps: &str) -> String {
    let agent = |name: &str, told: &str| format!("[agents.{name}]\nmodel = \"mine:real\"\ninstructions = \"{told}\"\n");
    let own = [
        keys(),
        agent("plan", "Make a plan."),
        agent("draft", "Write it down."),
        agent("polish", "Make it shine."),
        agent("doubt", "Find what is wrong with it."),
        format!("[flows.desk]\nsteps = [{steps}]\ndurable = {{ retries = 3, keep = \"7d\" }}\n"),
    ];
    agents(upstream, &own.concat())
}

const FIRST: &str = "\"plan\", \"draft\", \"polish\"";
const CHANGED: &str = "\"plan\", \"doubt\", \"polish\"";

/// What the agent that asks was told.
fn instructions(request: &Received) -> String {
    request.json()["messages"][0]["content"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn e9_crash_and_resume() {
    let upstream = upstream().await;
    let mut house = House::open(&desk(&upstream, FIRST), |_| {});
    let mut begun = Vec::new();
    let cases = each(sdks("e9")).filter(|(_, api, stream)| *stream || ["chat", "messages"].contains(api));
    for (at, (sdk, api, stream)) in cases.enumerate() {
        upstream.then(Answer::stream(chat_stream("The plan.", &[])));
        upstream.then(Answer::stream(chat_stream("The draft.", &[])));
        let beginning = chat_stream("Half of ", &[]).into_iter().take(2);
        upstream.then(Answer::stream(beginning).then_silence());
        let told = json!({
            "api": api, "model": "desk", "stream": stream, "user": format!("Letter {at}"), "key": ANN,
            "headers": {"x-run-id": format!("run_letter.{at}")},
        });
        let (base, own) = (house.base.clone(), told.clone());
        let asks = sdk.clone();
        let asking = std::thread::spawn(move || asks.hold_one(&base, own));
        upstream.arrived(3 * (at + 1)).await;
        begun.push((sdk, told, asking));
    }
    let order: Vec<String> = upstream.received().iter().map(instructions).collect();
    let each_time = ["Make a plan.", "Write it down.", "Make it shine."];
    assert!(order.chunks(3).all(|three| three == each_time), "{order:?}");
    house.kill();
    let begun: Vec<_> = begun
        .into_iter()
        .map(|(sdk, told, asking)| {
            let broken = asking.join().unwrap();
            assert!(!broken.0["error"].is_null() && broken.0["turns"] == json!([]), "{:#}", broken.0);
            (sdk, told)
        })
        .collect();
    let before = upstream.received().len();

    let of = |language: &str| -> Vec<Value> {
        begun.iter().filter(|(sdk, _)| sdk.language == language).map(|(_, told)| told.clone()).collect()
    };

    // A flow that was changed meanwhile has no use for what the one before it did.
    house.again(&desk(&upstream, CHANGED));
    for sdk in sdks("e9") {
        let refused = sdk.hold(&house.base, of(sdk.language));
        assert!(refused.iter().all(|talk| talk.error()["status"] == 409), "{sdk:?} {refused:#?}");
    }
    assert_eq!(upstream.received().len(), before, "nobody was asked");
    house.kill();

    house.again(&desk(&upstream, FIRST));
    for sdk in sdks("e9") {
        let foreign = of(sdk.language).into_iter().map(|mut told| {
            told["key"] = BOB.into();
            told
        });
        let other = of(sdk.language).into_iter().map(|mut told| {
            told["user"] = "Another letter".into();
            told
        });
        let wrong: Vec<Value> = foreign.chain(other).collect();
        let refused = sdk.hold(&house.base, wrong.clone());
        assert!(refused.iter().all(|talk| talk.error()["status"] == 409), "{sdk:?} {refused:#?}");
        // One that is sent again is resumed, and once it is answered, answered from what is kept.
        let asked = upstream.received().len();
        let again = of(sdk.language);
        again.iter().for_each(|_| upstream.then(Answer::stream(chat_stream("The letter.", &[]))));
        let talks = sdk.hold(&house.base, again.iter().chain(&again).chain(&wrong).cloned().collect());
        let (answered, refused) = talks.split_at(2 * again.len());
        assert!(answered.iter().all(|talk| talk.last()["text"] == "The letter."), "{sdk:?} {answered:#?}");
        assert!(refused.iter().all(|talk| talk.error()["status"] == 409), "{sdk:?} {refused:#?}");
        let received = upstream.received().split_off(asked);
        assert_eq!(received.len(), again.len(), "{sdk:?}: the steps before are not asked again");
        for (request, told) in received.iter().zip(&again) {
            let chat = request.json()["messages"].to_string();
            assert_eq!(instructions(request), "Make it shine.", "{sdk:?} {chat}");
            let goes_on = [told["user"].as_str().unwrap(), "The plan.", "The draft."];
            assert!(goes_on.iter().all(|part| chat.contains(part)), "{sdk:?} {told} {chat}");
        }
    }
}

/// What waits to be done behind clients' backs.
async fn waiting(store: &SharedStore) -> Vec<String> {
    let scheduler = Scheduler::builder(Env::system(), store.clone(), Tenant::new("local")).build();
    let jobs = scheduler.list(None, 1000).await.unwrap();
    jobs.into_iter().map(|job| job.job.id).filter(|id| id.starts_with("follow-up:")).collect()
}

/// Waits until nothing does.
async fn all_done(store: &SharedStore) {
    while !waiting(store).await.is_empty() {
        tokio::task::yield_now().await;
    }
}

/// How many follow-ups are recorded as done.
async fn recorded(store: &SharedStore) -> usize {
    let prefix = Key::new(&Tenant::new("local")).text("flow-kept");
    let cells = store.cells(&prefix, None, Direction::Forward, 10_000).await.unwrap();
    let is_done = |key: &Key| {
        let parts = key.parts().unwrap();
        let has = |beginning: &str| {
            parts.iter().any(|part| matches!(part, KeyPart::Text(text) if text.starts_with(beginning)))
        };
        has("job-follow-up:") && parts.last() == Some(&KeyPart::Text("answer".to_owned()))
    };
    cells.iter().filter(|cell| is_done(&cell.key)).count()
}

/// How often each delivery was tried, by its key.
fn deliveries(target: &Upstream) -> BTreeMap<String, usize> {
    let mut tried = BTreeMap::new();
    for request in target.received() {
        let key = request.header("idempotency-key").unwrap().to_owned();
        assert_eq!(request.json()["key"], key);
        *tried.entry(key).or_default() += 1;
    }
    tried
}

fn told_behind(upstream: &Upstream, target: &Upstream) -> String {
    let own = format!(
        "[agents.host]\nmodel = \"mine:real\"\ninstructions = \"Be brief.\"\n\
         [flows.desk]\nsteps = [\"host\", {{ respond = true }}, {{ notify = \"{}\" }}]\n",
        target.url("told")
    );
    agents(upstream, &own)
}

fn nothing(status: u16) -> Answer {
    Answer::json(status, &json!({}))
}

#[tokio::test(flavor = "multi_thread")]
async fn e10_answer_now_work_later() {
    let (upstream, target) = (upstream().await, upstream().await);
    let house = House::open(&told_behind(&upstream, &target), |_| {});
    let mut answers = 0;
    for (sdk, api, stream) in each(sdks("e10")) {
        upstream.then(Answer::stream(chat::answer("Noted.")));
        target.then(nothing(500));
        target.then(nothing(200));
        let told = json!({"api": api, "model": "desk", "stream": stream, "user": "Tell the others"});
        let talk = sdk.hold_one(&house.base, told);
        let case = format!("{sdk:?} {api} stream={stream}: {:#}", talk.0);
        assert_eq!((talk.turns().len(), talk.last()["text"].as_str()), (1, Some("Noted.")), "{case}");
        answers += 1;
        target.arrived(2 * answers).await;
        assert_eq!(upstream.received().len(), answers, "{case}");
        assert!(target.received().iter().all(|told| told.json()["text"] == "Noted."), "{case}");
    }
    if answers == 0 {
        return;
    }
    let store = house.store();
    all_done(&store).await;
    let tried = deliveries(&target);
    assert!(tried.len() == answers && tried.values().all(|times| *times == 2), "{tried:?}");
    assert_eq!(recorded(&store).await, answers);
}

#[tokio::test(flavor = "multi_thread")]
async fn e10_a_follow_up_outlives_a_crash_of_the_gateway() {
    let (upstream, target) = (upstream().await, upstream().await);
    let config = told_behind(&upstream, &target);
    let mut house = House::open(&config, |_| {});
    let mut answers = 0;
    let cases = ["chat", "messages"].into_iter().flat_map(|api| [false, true].map(|stream| (api, stream)));
    let sdks = sdks("e10");
    for (at, (api, stream)) in cases.enumerate() {
        let Some(sdk) = sdks.get(at % sdks.len().max(1)) else { return };
        upstream.then(Answer::stream(chat::answer("Noted.")));
        // Whoever is told never says anything: the client has its answer all the same.
        target.then(Answer::never());
        let told = json!({"api": api, "model": "desk", "stream": stream, "user": "Tell the others"});
        assert_eq!(sdk.hold_one(&house.base, told).last()["text"], "Noted.", "{sdk:?} {api} stream={stream}");
        answers += 1;
        target.arrived(answers).await;
    }
    assert_eq!((target.received().len(), waiting(&house.store()).await.len()), (answers, answers));
    house.kill();
    let and_then = std::iter::repeat_n(500, answers).chain(std::iter::repeat_n(200, 8 * answers));
    and_then.for_each(|status| target.then(nothing(status)));
    house.again(&config);
    target.arrived(2 * answers).await;
    house.kill();
    house.again(&config);
    target.arrived(3 * answers).await;
    let store = house.store();
    all_done(&store).await;
    // However often it was tried, under its one key it is done once.
    let tried = deliveries(&target);
    assert!(tried.len() == answers && tried.values().all(|times| *times >= 2), "{tried:?}");
    assert_eq!((recorded(&store).await, upstream.received().len()), (answers, answers));
    let ledger = house.ledger().await;
    // What clients asked for was answered; of the work behind them each try is written down, and each piece is done at last.
    let (later, asked): (Vec<_>, Vec<_>) = ledger.iter().partition(|line| line.protocol == "later");
    assert!(asked.len() == answers && asked.iter().all(|line| line.outcome == "whole"), "{asked:?}");
    assert!(later.iter().filter(|line| line.outcome == "whole").count() >= answers, "{later:?}");
}
