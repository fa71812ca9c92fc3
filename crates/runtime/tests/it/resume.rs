//! Taking up a run whose process is gone, or only seems to be.

use crate::support::{Say, Silent, echo_tool, results, scripted, world};
use placet_core::env::{ManualClock, ManualHandle};
use placet_core::event::{ApprovalRequested, EventBody};
use placet_core::{Cursor, Diagnose, Effect, Env, ErrorKind, Limits, RunId, Status, Timestamp};
use placet_models::{ModelProvider, ScriptTurn, ScriptedModel};
use placet_observe::{RunStanding, list_runs};
use placet_runtime::{Ending, RunHandle, Runtime, RuntimeError};
use placet_store::{MemoryStore, SharedStore, Tenant};
use placet_tools::{Approver, ApproverFailure, BoundTool, Decision, Grant, PolicyRequest, capability, tool};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Two processes on one store, each with a clock of its own: one can be stopped while time goes on for the other.
struct TwoProcesses {
    store: SharedStore,
    time: Arc<ManualClock>,
    frozen: Arc<ManualClock>,
    first: Runtime,
    second: Runtime,
    model: Arc<ScriptedModel>,
}

fn two_processes(turns: Vec<ScriptTurn>) -> TwoProcesses {
    let start = Timestamp::from_millis(1_000_000);
    let (time, frozen) = (ManualClock::new(start), ManualClock::new(start));
    let store: SharedStore = Arc::new(MemoryStore::new(Arc::new(ManualHandle(time.clone()))));
    let model = scripted(turns);
    let runtime = |clock: &Arc<ManualClock>, seed, owner: &str| {
        let env = Env::deterministic(clock.clone(), seed);
        Runtime::builder(env, store.clone()).provider(model.clone()).owner(owner).build()
    };
    let (first, second) = (runtime(&frozen, 1, "first"), runtime(&time, 2, "second"));
    TwoProcesses { store, time, frozen, first, second, model }
}

/// Hangs the first time it is called, answers the second time; keeps the keys it was called with.
fn hangs_once(name: &str, effect: Effect) -> (BoundTool, Arc<Mutex<Vec<String>>>) {
    let keys: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = keys.clone();
    let tool = tool(name, "Hangs the first time.", move |say: Say, cx| {
        let first = {
            let mut keys = kept.lock().unwrap();
            keys.push(cx.idempotency_key());
            keys.len() == 1
        };
        async move {
            if first {
                cx.cancellation().cancelled().await;
            }
            say.word
        }
    });
    (tool.effect(effect).build(), keys)
}

/// Waits until the handler of `work` runs.
async fn work_started(handle: &RunHandle) {
    let mut events = handle.events(Cursor::START);
    loop {
        if let EventBody::CallStarted(started) = &events.next().await.unwrap().unwrap().body
            && started.tool.as_str() == "work"
        {
            return;
        }
    }
}

#[tokio::test]
async fn a_takeover_runs_reads_and_idempotent_calls_again_and_reports_once_calls_as_interrupted() {
    for effect in [Effect::Read, Effect::Idempotent, Effect::Once] {
        let turns = vec![
            ScriptTurn::call("echo", json!({"word": "before"})),
            ScriptTurn::call("work", json!({"word": "done"})),
            ScriptTurn::text("all done"),
        ];
        let two = two_processes(turns);
        let (work, keys) = hangs_once("work", effect);
        let (echo, echoed) = echo_tool("echo");
        let grant = || capability("lab").tool(echo.clone()).tool(work.clone());

        let handle = two.first.run("scripted:m").input("go").grant(grant()).start().await.unwrap();
        let run = handle.id().clone();
        work_started(&handle).await;
        let held = two.second.resume(run.clone()).grant(grant()).start().await;
        let Err(RuntimeError::Held { owner, until, .. }) = held else { panic!("{held:?}") };
        assert_eq!((owner.as_str(), until), ("first", Timestamp::from_millis(1_030_000)));

        two.time.advance(Duration::from_secs(31));
        let listed = list_runs(&*two.store, &Tenant::new(""), None, 9).await.unwrap();
        assert_eq!(listed[0].standing, RunStanding::Interrupted);
        let result = two.second.resume(run.clone()).grant(grant()).await.unwrap();
        assert_eq!((result.text.as_str(), result.turns, result.rounds), ("all done", 3, 2));
        let answer = &results(&result)[1].outcome;
        let keys = keys.lock().unwrap().clone();
        if effect == Effect::Once {
            assert_eq!((answer.status, keys.len()), (Status::Interrupted, 1));
        } else {
            assert_eq!((answer.text().as_str(), keys.len()), ("done", 2));
            assert_eq!(keys[0], keys[1], "the same call has the same key");
        }
        assert_eq!(echoed.load(std::sync::atomic::Ordering::SeqCst), 1, "what is recorded is not done again");
        assert_eq!(two.model.requests().len(), 3, "no recorded turn is asked again");

        // The first one wakes up: it has lost the run, stops, and leaves no trace in the journal.
        two.frozen.advance(Duration::from_secs(31));
        let lost = handle.wait().await;
        assert!(matches!(&lost, Err(RuntimeError::Lost { .. })), "{lost:?}");
        let verification = placet_observe::verify(&*two.store, &Tenant::new(""), &run).await.unwrap();
        assert!(verification.is_sound() && verification.ended, "{verification:?}");
        let listed = list_runs(&*two.store, &Tenant::new(""), None, 9).await.unwrap();
        assert_eq!(listed[0].standing, RunStanding::Ended { end: Ending::Completed });
    }
}

#[tokio::test]
async fn a_lease_is_renewed_by_time_while_a_handler_runs() {
    let two = two_processes(vec![ScriptTurn::call("work", json!({"word": "done"})), ScriptTurn::text("all done")]);
    let (started, finish) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (begun, end) = (started.clone(), finish.clone());
    let work = tool("work", "Works long.", move |say: Say, _| {
        let (begun, end) = (begun.clone(), end.clone());
        async move {
            begun.notify_one();
            end.notified().await;
            say.word
        }
    })
    .effect(Effect::Once)
    .timeout(Duration::from_secs(3600))
    .build();
    // This process lives on the clock that goes on.
    let handle = two.second.run("scripted:m").input("go").tool(work.clone()).start().await.unwrap();
    let run = handle.id().clone();
    started.notified().await;
    for _ in 0..20 {
        two.time.advance(Duration::from_secs(11));
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        let other = two.first.resume(run.clone()).tool(work.clone()).start().await;
        assert!(matches!(other, Err(RuntimeError::Held { .. })), "{other:?}");
    }
    finish.notify_one();
    assert_eq!(handle.wait().await.unwrap().text, "all done");
}

#[tokio::test]
async fn a_run_that_cannot_be_taken_up_says_why() {
    let world = world();
    let (echo, _) = echo_tool("echo");
    let runtime = world.runtime(vec![ScriptTurn::call("echo", json!({"word": "x"})), ScriptTurn::text("done")]);
    let result = runtime.run("scripted:m").input("go").tool(echo.clone()).await.unwrap();
    let ended = runtime.resume(result.run.clone()).tool(echo).start().await;
    assert!(matches!(&ended, Err(RuntimeError::Ended { end: Ending::Completed, .. })), "{ended:?}");
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Conflict);
    let unknown = runtime.resume(RunId::parse("run_nowhere").unwrap()).start().await;
    assert!(matches!(unknown, Err(RuntimeError::NotFound { .. })));
}

#[tokio::test]
async fn other_capabilities_are_refused_and_every_difference_is_named() {
    let two = two_processes(vec![ScriptTurn::call("work", json!({"word": ""})), ScriptTurn::text("done")]);
    let (work, _) = hangs_once("work", Effect::Read);
    let (echo, _) = echo_tool("echo");
    let (other, _) = echo_tool("other");
    let lab = capability("lab").tool(work.clone()).tool(echo.clone());
    let handle = two.first.run("scripted:m").input("go").grant(lab.clone()).tool(other.clone()).start().await.unwrap();
    let run = handle.id().clone();
    work_started(&handle).await;
    two.time.advance(Duration::from_secs(31));

    let (changed, _) = hangs_once("work", Effect::Once);
    let cases: Vec<(Vec<Grant>, &str)> = vec![
        (vec![], "the capability \"lab\" is missing"),
        (vec![lab.clone().into()], "the capability \"other\" is missing"),
        (vec![lab.clone().into(), other.clone().into(), Grant::tool(echo_tool("new").0)], "\"new\" is new"),
        (vec![other.clone().into(), lab.clone().into()], "come in another order"),
        (vec![Grant::new(lab.clone()).only(["work"]), other.clone().into()], "no longer grants the tool \"echo\""),
        (vec![lab.clone().tool(echo_tool("more").0).into(), other.clone().into()], "now grants the tool \"more\" too"),
        (vec![Grant::new(lab.clone()).unredacted(), other.clone().into()], "redaction is now off"),
        (
            vec![capability("lab").tool(changed).tool(echo.clone()).into(), other.clone().into()],
            "the effect of the tool \"work\" of the capability \"lab\" has changed",
        ),
    ];
    for (grants, expected) in cases {
        let resumed = grants.into_iter().fold(two.second.resume(run.clone()), |resume, grant| resume.grant(grant));
        let error = resumed.start().await.unwrap_err();
        assert!(matches!(error, RuntimeError::GrantsDiffer { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{expected} is not in {error}");
    }
    let silent: Arc<dyn ModelProvider> = ScriptedModel::named("another", Default::default());
    let resumed = two.second.resume(run.clone()).grant(lab.clone()).tool(other.clone()).provider(silent).start().await;
    assert!(matches!(resumed, Err(RuntimeError::Wiring { .. })));

    // Nothing of this took the run; now it goes on.
    let result = two.second.resume(run).grant(lab).tool(other).await.unwrap();
    assert_eq!(result.text, "done");
}

#[tokio::test]
async fn time_in_which_nobody_worked_does_not_count() {
    let two = two_processes(vec![ScriptTurn::call("work", json!({"word": ""})), ScriptTurn::text("done")]);
    let (work, _) = hangs_once("work", Effect::Read);
    let limits = Limits { time_ms: Some(10_000), ..Limits::default() };
    let run = two.first.run("scripted:m").input("go").tool(work.clone()).limits(limits);
    let handle = run.start().await.unwrap();
    let run = handle.id().clone();
    work_started(&handle).await;
    two.time.advance(Duration::from_secs(100_000));
    let result = two.second.resume(run).tool(work).await.unwrap();
    assert_eq!((result.text.as_str(), result.end), ("done", Ending::Completed));
}

#[tokio::test]
async fn kept_runs_are_bounded_where_that_is_asked_and_an_ended_one_can_be_deleted() {
    let world = world();
    let model = scripted(vec![ScriptTurn::text("hi")]);
    let runtime = world.builder(model).keep_ended(3).build();
    let mut runs = Vec::new();
    for _ in 0..10 {
        world.clock.advance(Duration::from_millis(1));
        runs.push(runtime.run("scripted:m").input("go").await.unwrap().run);
    }
    let tenant = Tenant::new("");
    let kept = || async { list_runs(&*world.store, &tenant, None, 99).await.unwrap() };
    let listed: Vec<RunId> = kept().await.into_iter().map(|listed| listed.entry.run).collect();
    assert_eq!(listed, [&runs[9], &runs[8], &runs[7]].map(Clone::clone), "the newest first");
    assert_eq!(placet_observe::verify_all(&*world.store, &tenant).await.unwrap().len(), 3);

    runtime.delete(&runs[9]).await.unwrap();
    assert_eq!(kept().await.len(), 2);
    assert!(matches!(runtime.delete(&runs[9]).await, Err(RuntimeError::NotFound { .. })));
    let leases = placet_store::Key::new(&tenant).text("run-lease");
    let left = world.store.cells(&leases, None, placet_store::Direction::Forward, 99).await.unwrap();
    assert!(
        left.iter().all(|cell| runs[7..9].iter().any(|run| cell.key.starts_with(&leases.clone().text(run.as_str()))))
    );
    assert!(!left.is_empty(), "the leases of kept runs are kept");
}

#[tokio::test]
async fn a_run_that_is_left_keeps_what_its_handlers_did_and_goes_on_at_once_elsewhere() {
    let two = two_processes(vec![ScriptTurn::call("work", json!({"word": "sent"})), ScriptTurn::text("all done")]);
    let finish = Arc::new(tokio::sync::Notify::new());
    let end = finish.clone();
    let ran = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = ran.clone();
    let work = tool("work", "Works long.", move |say: Say, cx| {
        let end = end.clone();
        counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move {
            end.notified().await;
            assert!(!cx.is_cancelled(), "a run that is left lets its handlers end");
            say.word
        }
    })
    .effect(Effect::Once)
    .build();
    let handle = two.first.run("scripted:m").input("go").tool(work.clone()).start().await.unwrap();
    let run = handle.id().clone();
    work_started(&handle).await;
    handle.leave();
    finish.notify_one();
    let left = handle.wait().await;
    assert!(matches!(&left, Err(RuntimeError::Left { .. })), "{left:?}");
    assert_eq!(two.model.requests().len(), 1, "nothing more was asked");

    // Nobody has to wait for a lease to lapse.
    let result = two.second.resume(run).tool(work).await.unwrap();
    assert_eq!((result.text.as_str(), results(&result)[0].outcome.text().as_str()), ("all done", "sent"));
    assert_eq!(ran.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_run_that_is_left_within_a_turn_asks_it_again() {
    let silent: Arc<dyn ModelProvider> = Arc::new(Silent { id: "scripted".into(), dropped: Arc::default() });
    let two = two_processes(vec![ScriptTurn::text("all done")]);
    let handle = two.first.run((silent, "m")).input("go").start().await.unwrap();
    let run = handle.id().clone();
    let mut events = handle.events(Cursor::START);
    while !matches!(events.next().await.unwrap().unwrap().body, EventBody::TextDelta(_)) {}
    handle.leave();
    assert!(matches!(handle.wait().await, Err(RuntimeError::Left { .. })));
    assert_eq!(two.second.resume(run).await.unwrap().text, "all done");
}

/// Refuses everything with an error of one kind.
#[derive(Debug)]
struct Refusing(placet_core::ProviderId, ErrorKind);

#[async_trait::async_trait]
impl ModelProvider for Refusing {
    fn id(&self) -> &placet_core::ProviderId {
        &self.0
    }

    async fn ask(
        &self,
        _: Arc<placet_core::TurnRequest>,
        _: placet_models::AskContext,
    ) -> Result<placet_models::TurnStream, placet_core::ProviderError> {
        Err(placet_core::ProviderError::new(self.1.clone(), self.0.clone(), "not from here"))
    }

    async fn models(
        &self,
        _: placet_models::AskContext,
    ) -> Result<Vec<placet_models::ModelListing>, placet_core::ProviderError> {
        Ok(Vec::new())
    }
}

/// Knows without asking that it cannot answer.
#[derive(Debug)]
struct Unready(Refusing);

#[async_trait::async_trait]
impl ModelProvider for Unready {
    fn id(&self) -> &placet_core::ProviderId {
        self.0.id()
    }

    async fn ready(&self, model: &str) -> Result<(), placet_core::ProviderError> {
        Err(placet_core::ProviderError::new(
            ErrorKind::Authentication,
            self.id().clone(),
            format!("no key for {model}"),
        ))
    }

    async fn ask(
        &self,
        _: Arc<placet_core::TurnRequest>,
        _: placet_models::AskContext,
    ) -> Result<placet_models::TurnStream, placet_core::ProviderError> {
        panic!("it was asked, though it is not ready")
    }

    async fn models(
        &self,
        _: placet_models::AskContext,
    ) -> Result<Vec<placet_models::ModelListing>, placet_core::ProviderError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn a_provider_that_is_not_ready_starts_no_run_and_takes_none_up() {
    let two = two_processes(vec![ScriptTurn::text("all done")]);
    let unready: Arc<dyn ModelProvider> = Arc::new(Unready(Refusing("scripted".into(), ErrorKind::Internal)));
    let error = two.first.run((unready.clone(), "m")).input("go").start().await.unwrap_err();
    assert!(matches!(&error, RuntimeError::Provider(error) if error.message == "no key for m"), "{error}");
    let listed = placet_observe::list_runs(&**two.first.store(), two.first.tenant(), None, 9).await.unwrap();
    assert!(listed.is_empty(), "nothing was recorded: {listed:?}");

    let run = left(&two).await;
    let error = two.second.resume(run.clone()).provider(unready).await.unwrap_err();
    assert!(matches!(error, RuntimeError::Provider(_)), "{error}");
    assert_eq!(two.second.resume(run).await.unwrap().text, "all done");
}

/// A run that was left within its first turn.
async fn left(two: &TwoProcesses) -> RunId {
    let silent: Arc<dyn ModelProvider> = Arc::new(Silent { id: "scripted".into(), dropped: Arc::default() });
    let handle = two.first.run((silent, "m")).input("go").start().await.unwrap();
    let run = handle.id().clone();
    handle.leave();
    assert!(matches!(handle.wait().await, Err(RuntimeError::Left { .. })));
    run
}

#[tokio::test]
async fn a_resumption_whose_provider_cannot_be_asked_leaves_the_run() {
    let two = two_processes(vec![ScriptTurn::text("all done")]);
    let run = left(&two).await;
    for kind in [ErrorKind::Authentication, ErrorKind::NotFound, ErrorKind::Wiring, ErrorKind::Network] {
        let refusing = Arc::new(Refusing("scripted".into(), kind.clone()));
        let refused = two.second.resume(run.clone()).provider(refusing).await;
        let Err(RuntimeError::Provider(error)) = refused else { panic!("{refused:?}") };
        assert_eq!((error.kind, error.message.as_str()), (kind, "not from here"));
    }
    // Its lease was given back each time.
    assert_eq!(two.second.resume(run).await.unwrap().text, "all done");

    let run = left(&two).await;
    let refusing = Arc::new(Refusing("scripted".into(), ErrorKind::ContextLength));
    let failed = two.second.resume(run).provider(refusing).await.unwrap();
    assert_eq!(failed.end, Ending::Failed, "what is wrong with the run itself ends it");
}

#[tokio::test]
async fn a_run_whose_end_was_cut_off_is_not_resumed() {
    let world = world();
    let runtime = world.runtime(vec![ScriptTurn::text("done")]);
    let run = runtime.run("scripted:m").input("go").await.unwrap().run;
    let journal = world.journal(&run).await;
    let log = placet_observe::layout::journal(&Tenant::new(""), &run);
    let mut batch = placet_store::Batch::new();
    batch.delete_log(log.clone());
    let kept = &journal.records()[..journal.records().len() - 1];
    for record in kept {
        batch.append(&log, placet_store::Value::new(placet_observe::RECORD_FORMAT, record.sealed.to_bytes()));
    }
    world.store.commit(batch).await.unwrap();
    let refused = runtime.resume(run.clone()).start().await.unwrap_err();
    assert!(
        matches!(
            &refused,
            RuntimeError::Journal(placet_observe::ObserveError::NotTheEnd { found: 2, expected: 3, .. })
        ),
        "{refused:?}"
    );
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(world.journal(&run).await.records(), kept, "nothing was written");
}

/// Asks nobody: says yes, or leaves the question open for good.
struct Human {
    answers: bool,
    asked: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl Approver for Human {
    async fn decide(&self, asked: &ApprovalRequested, _: &PolicyRequest<'_>) -> Result<Decision, ApproverFailure> {
        self.asked.lock().unwrap().push(asked.tool.to_string());
        if !self.answers {
            std::future::pending::<()>().await;
        }
        Ok(Decision::approve(asked, "a human"))
    }
}

fn counting(name: &'static str, effect: Effect, asks: bool, ran: &Arc<Mutex<Vec<&'static str>>>) -> BoundTool {
    let ran = ran.clone();
    tool(name, "Is counted.", move |_: placet_tools::NoArguments, _| {
        ran.lock().unwrap().push(name);
        async move { name }
    })
    .effect(effect)
    .ask_first(move |_| asks.then(|| format!("May I {name}?")))
    .build()
}

#[tokio::test]
async fn a_question_that_stands_when_a_run_is_left_costs_neither_its_call_nor_the_next() {
    let turns =
        vec![ScriptTurn::call("publish", json!({})).and_call("destroy", json!({})), ScriptTurn::text("all done")];
    let two = two_processes(turns);
    let ran = Arc::default();
    let grant = || {
        let tools = ["publish", "destroy"].map(|name| counting(name, Effect::Once, true, &ran));
        tools.into_iter().fold(capability("lab"), |lab, tool| lab.tool(tool))
    };
    let human = |answers| Arc::new(Human { answers, asked: Mutex::default() });
    let handle = two.first.run("scripted:m").input("go").grant(grant()).approver(human(false)).start().await.unwrap();
    let run = handle.id().clone();
    let mut events = handle.events(Cursor::START);
    while !matches!(events.next().await.unwrap().unwrap().body, EventBody::ApprovalRequested(_)) {}
    handle.leave();
    let left = handle.wait().await;
    assert!(matches!(&left, Err(RuntimeError::Left { .. })), "{left:?}");

    let again = human(true);
    let result = two.second.resume(run.clone()).grant(grant()).approver(again.clone()).await.unwrap();
    let statuses: Vec<Status> = results(&result).iter().map(|result| result.outcome.status).collect();
    assert_eq!(statuses, [Status::Completed, Status::Completed]);
    assert_eq!(*again.asked.lock().unwrap(), ["publish", "destroy"]);
    assert_eq!(*ran.lock().unwrap(), ["publish", "destroy"]);
    let verification = placet_observe::verify(&*two.store, &Tenant::new(""), &run).await.unwrap();
    assert!(verification.is_sound() && verification.ended, "{verification:?}");
}

#[tokio::test]
async fn calls_that_wait_for_their_turn_when_a_run_is_left_do_not_start_and_stay_open() {
    let turns = vec![
        ScriptTurn::call("work", json!({"word": "sent"})).and_call("look", json!({})).and_call("write", json!({})),
        ScriptTurn::text("all done"),
    ];
    let two = two_processes(turns);
    let finish = Arc::new(tokio::sync::Notify::new());
    let end = finish.clone();
    let work = tool("work", "Works long.", move |say: Say, _| {
        let end = end.clone();
        async move {
            end.notified().await;
            say.word
        }
    })
    .effect(Effect::Once)
    .build();
    let ran: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let grant = || {
        let (look, write) = (counting("look", Effect::Read, false, &ran), counting("write", Effect::Once, false, &ran));
        capability("lab").tool(work.clone()).tool(look).tool(write)
    };
    let handle = two.first.run("scripted:m").input("go").grant(grant()).start().await.unwrap();
    let run = handle.id().clone();
    work_started(&handle).await;
    handle.leave();
    finish.notify_one();
    assert!(matches!(handle.wait().await, Err(RuntimeError::Left { .. })));
    assert_eq!(*ran.lock().unwrap(), [""; 0], "what had not started is not started");

    let result = two.second.resume(run).grant(grant()).await.unwrap();
    let answers: Vec<String> = results(&result).iter().map(|result| result.outcome.text()).collect();
    assert_eq!(answers, ["sent", "look", "write"]);
    assert_eq!(*ran.lock().unwrap(), ["look", "write"]);
}

#[tokio::test]
async fn a_queued_call_of_a_killed_round_is_known_not_to_have_started() {
    let turns = vec![
        ScriptTurn::call("work", json!({"word": "done"})).and_call("write", json!({})),
        ScriptTurn::text("all done"),
    ];
    let two = two_processes(turns);
    let (work, _) = hangs_once("work", Effect::Once);
    let ran: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let grant = || capability("lab").tool(work.clone()).tool(counting("write", Effect::Once, false, &ran));
    let handle = two.first.run("scripted:m").input("go").grant(grant()).start().await.unwrap();
    let run = handle.id().clone();
    work_started(&handle).await;
    // The first process hears nothing of the time that passes, as if it were gone.
    two.time.advance(Duration::from_secs(31));
    let result = two.second.resume(run).grant(grant()).await.unwrap();
    let statuses: Vec<Status> = results(&result).iter().map(|result| result.outcome.status).collect();
    assert_eq!(statuses, [Status::Interrupted, Status::Completed]);
    assert_eq!(*ran.lock().unwrap(), ["write"]);
}

#[tokio::test]
async fn left_at_once_a_handler_is_told_to_stop_and_its_answer_is_kept_but_a_read_stays_open() {
    for effect in [Effect::Once, Effect::Read] {
        let two = two_processes(vec![ScriptTurn::call("work", json!({"word": "told"})), ScriptTurn::text("all done")]);
        let (work, keys) = hangs_once("work", effect);
        let handle = two.first.run("scripted:m").input("go").tool(work.clone()).start().await.unwrap();
        let run = handle.id().clone();
        work_started(&handle).await;
        let leaving = handle.leaving();
        leaving.leave_now();
        leaving.gone().await;
        assert!(matches!(handle.wait().await, Err(RuntimeError::Left { .. })));
        let result = two.second.resume(run).tool(work).await.unwrap();
        assert_eq!(results(&result)[0].outcome.text(), "told");
        let runs = if effect == Effect::Once { 1 } else { 2 };
        assert_eq!(keys.lock().unwrap().len(), runs, "{effect:?}");
    }
}
