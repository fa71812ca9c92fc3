//! A real process is killed at every record of a run's journal, before and after its commit; others take the run up.
//!
//! The processes are this test binary again, told by variables to be one: see [`the_process_that_is_killed`]. What their
//! tools do is appended to files outside of the store, and so is every question to the model.

use placet_core::event::{ApprovalRequested, Event, EventBody};
use placet_core::{CallId, Effect, Env, ProviderError, ProviderId, RunId, Status, ToolResult, TurnRequest};
use placet_models::scripted::{Follow, Script, ScriptTurn, ScriptedModel};
use placet_models::{AskContext, ModelListing, ModelProvider, SharedProvider, TurnStream};
use placet_observe::{Journal, verify};
use placet_runtime::{CommitPoint, JournalWitness, Runtime, RuntimeError};
use placet_store::{SharedStore, SqliteOptions, SqliteStore, Tenant};
use placet_tools::{
    Approver, ApproverFailure, Decision, PlainCapability, PolicyRequest, ToolContext, capability, tool,
};
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kill {
    Never,
    Before(u64),
    After(u64),
    /// At the first resumption that it writes.
    BeforeResumed,
    AfterResumed,
}

impl Kill {
    pub(crate) fn to_text(self) -> String {
        match self {
            Kill::Never => "never".into(),
            Kill::Before(number) => format!("before {number}"),
            Kill::After(number) => format!("after {number}"),
            Kill::BeforeResumed => "before resumed".into(),
            Kill::AfterResumed => "after resumed".into(),
        }
    }

    pub(crate) fn parse(text: &str) -> Kill {
        match text.split_once(' ') {
            Some(("before", "resumed")) => Kill::BeforeResumed,
            Some(("after", "resumed")) => Kill::AfterResumed,
            Some(("before", number)) => Kill::Before(number.parse().unwrap()),
            Some(("after", number)) => Kill::After(number.parse().unwrap()),
            _ => Kill::Never,
        }
    }

    fn hits(self, point: &CommitPoint<'_>, committed: bool) -> bool {
        let holds = |number| point.events.iter().any(|event| event.cursor.durable == number);
        let resumes = || point.events.iter().any(|event| matches!(event.body, EventBody::RunResumed(_)));
        match self {
            Kill::Never => false,
            Kill::Before(number) => !committed && holds(number),
            Kill::After(number) => committed && holds(number),
            Kill::BeforeResumed => !committed && resumes(),
            Kill::AfterResumed => committed && resumes(),
        }
    }
}

pub(crate) struct Executioner(pub(crate) Kill);

impl Executioner {
    fn look(&self, point: &CommitPoint<'_>, committed: bool) {
        if self.0.hits(point, committed) {
            nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL).unwrap();
            loop {
                std::thread::park();
            }
        }
    }
}

impl JournalWitness for Executioner {
    fn committing(&self, point: &CommitPoint<'_>) {
        self.look(point, false);
    }

    fn committed(&self, point: &CommitPoint<'_>) {
        self.look(point, true);
    }
}

/// The world outside: files that grow line by line.
#[derive(Clone, Debug)]
pub(crate) struct Outside(pub(crate) PathBuf);

impl Outside {
    pub(crate) fn append(&self, file: &str, line: &str) {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(self.0.join(file)).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
        file.sync_all().unwrap();
    }

    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.join(file)).unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// Notes that a handler runs, then does its effect; a key that was seen before changes nothing more.
    fn act(&self, name: &str, cx: &ToolContext, deduplicates: bool) {
        let key = cx.idempotency_key();
        self.append("handlers", &format!("{name} {key}"));
        let effect = format!("{name} {key}");
        if !deduplicates || !self.lines("effects").contains(&effect) {
            self.append("effects", &effect);
        }
    }
}

pub(crate) fn lab(outside: &Outside) -> PlainCapability {
    let bound = |name: &'static str, effect: Effect| {
        let outside = outside.clone();
        tool(name, "Does something outside.", move |_: placet_tools::NoArguments, cx| {
            outside.act(name, &cx, effect == Effect::Idempotent);
            async { "done" }
        })
        .effect(effect)
    };
    let asks = |name| bound(name, Effect::Once).ask_first(move |_| Some(format!("May I {name}?")));
    capability("lab")
        .tool(bound("look", Effect::Read))
        .tool(bound("set", Effect::Idempotent))
        .tool(bound("send", Effect::Once))
        .tool(asks("publish"))
        .tool(asks("destroy"))
}

/// Lets publish, but not destroy.
struct Human(Outside);

#[async_trait::async_trait]
impl Approver for Human {
    async fn decide(&self, asked: &ApprovalRequested, _: &PolicyRequest<'_>) -> Result<Decision, ApproverFailure> {
        self.0.append("questions", asked.tool.as_str());
        Ok(match asked.tool.as_str() {
            "publish" => Decision::approve(asked, "a human"),
            _ => Decision::deny(asked, "a human", None),
        })
    }
}

/// Notes every question, then passes it on.
#[derive(Debug)]
struct Counting {
    model: Arc<ScriptedModel>,
    outside: Outside,
}

#[async_trait::async_trait]
impl ModelProvider for Counting {
    fn id(&self) -> &ProviderId {
        self.model.id()
    }

    async fn ask(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<TurnStream, ProviderError> {
        let answers = request.items.iter().filter(|item| item.body.kind() == "tool_call").count();
        self.outside.append("asked", &answers.to_string());
        self.model.ask(request, context).await
    }

    async fn models(&self, _: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        Ok(Vec::new())
    }
}

/// Which conversation is run: one that completes, or one that fails.
fn script(fails: bool) -> Script {
    let no_arguments = || json!({});
    let mut turns = vec![
        ScriptTurn::call("look", no_arguments()).and_call("set", no_arguments()).and_call("send", no_arguments()),
        ScriptTurn::call("publish", no_arguments()).and_call("destroy", no_arguments()),
    ];
    turns.push(match fails {
        true => ScriptTurn::fail(placet_core::ErrorKind::QuotaExhausted, "no credit left"),
        false => ScriptTurn::text("all done"),
    });
    Script { follow: Follow::Conversation, turns }
}

fn run_id() -> RunId {
    RunId::parse("run_crash").unwrap()
}

pub(crate) fn open(folder: &Path) -> SharedStore {
    let env = Env::system();
    Arc::new(SqliteStore::open(folder.join("store.sqlite"), SqliteOptions::new(env.clock().clone())).unwrap())
}

/// Starts the run, or takes it up where it is there; to its end, unless it is killed.
async fn live(folder: &Path, kill: Kill, fails: bool) {
    let outside = Outside(folder.to_path_buf());
    let model = ScriptedModel::new(script(fails));
    let provider: SharedProvider = Arc::new(Counting { model, outside: outside.clone() });
    let runtime = Runtime::builder(Env::system(), open(folder))
        .provider(provider)
        .lease(Duration::from_millis(10))
        .approver(Arc::new(Human(outside.clone())))
        .witness(Arc::new(Executioner(kill)))
        .build();
    loop {
        let resumed = runtime.resume(run_id()).grant(lab(&outside)).finish().await;
        match resumed {
            Err(RuntimeError::NotFound { .. }) => {
                let run = runtime.run("scripted:m").id(run_id()).input("go").grant(lab(&outside));
                run.await.unwrap();
                return;
            }
            // The one before was killed: its lease has to lapse first.
            Err(RuntimeError::Held { .. }) => runtime.env().sleep(Duration::from_millis(3)).await,
            Err(RuntimeError::Ended { .. }) => return,
            other => {
                other.unwrap();
                return;
            }
        }
    }
}

const FOLDER: &str = "PLACET_TEST_CRASH_FOLDER";
const KILL: &str = "PLACET_TEST_CRASH_KILL";
const FAILS: &str = "PLACET_TEST_CRASH_FAILS";

/// Not a test by itself: what [`kill_at_every_record`] starts, and kills.
#[test]
#[expect(clippy::disallowed_methods, reason = "a process of a test is told by variables what to do")]
fn the_process_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let kill = Kill::parse(&std::env::var(KILL).unwrap());
    let fails = std::env::var(FAILS).is_ok();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(live(Path::new(&folder), kill, fails));
}

/// Runs a process; tells whether it was killed.
#[expect(clippy::disallowed_methods, reason = "starts this test binary again, as the process that is killed")]
fn process(folder: &Path, kill: Kill, fails: bool) -> bool {
    use std::os::unix::process::ExitStatusExt;
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "crash::the_process_that_is_killed"]).env(FOLDER, folder).env(KILL, kill.to_text());
    if fails {
        command.env(FAILS, "yes");
    }
    let output = command.output().unwrap();
    let killed = output.status.signal() == Some(9);
    assert!(killed || output.status.success(), "{kill:?}: {}", String::from_utf8_lossy(&output.stderr));
    killed
}

/// What is recorded, and what has happened outside.
#[derive(Debug, Default)]
struct Look {
    events: Vec<Event>,
    asked: Vec<String>,
    questions: Vec<String>,
    handlers: Vec<String>,
    effects: Vec<String>,
}

impl Look {
    async fn at(folder: &Path) -> Look {
        let outside = Outside(folder.to_path_buf());
        let journal = Journal::read(&*open(folder), &Tenant::new(""), &run_id()).await;
        Look {
            events: journal.map(|journal| journal.events().collect()).unwrap_or_default(),
            asked: outside.lines("asked"),
            questions: outside.lines("questions"),
            handlers: outside.lines("handlers"),
            effects: outside.lines("effects"),
        }
    }

    fn turns(&self) -> usize {
        self.events.iter().filter(|event| matches!(event.body, EventBody::TurnCompleted(_))).count()
    }

    fn results(&self) -> Vec<&ToolResult> {
        let ended = self.events.iter().filter_map(|event| match &event.body {
            EventBody::CallCompleted(ended) | EventBody::CallFailed(ended) => Some(&ended.result),
            _ => None,
        });
        ended.collect()
    }

    fn requested(&self) -> BTreeSet<CallId> {
        let requested = self.events.iter().filter_map(|event| match &event.body {
            EventBody::CallRequested(requested) => Some(requested.call.id.clone()),
            _ => None,
        });
        requested.collect()
    }

    fn count(lines: &[String], tool: &str) -> usize {
        lines.iter().filter(|line| line.split(' ').next() == Some(tool)).count()
    }

    /// What must hold from one process to the next.
    fn then(&self, later: &Look) {
        assert!(later.events.starts_with(&self.events), "what is recorded stays");
        // The calls that a question's conversation holds tell which turn it was for.
        let calls_before_turn = ["0", "3", "5"];
        for asked in &later.asked[self.asked.len()..] {
            let turn = calls_before_turn.iter().position(|calls| calls == asked).unwrap();
            assert!(turn >= self.turns(), "turn {} was recorded and is asked again", turn + 1);
        }
        for event in &self.events {
            if let EventBody::ApprovalApproved(decided) | EventBody::ApprovalDenied(decided) = &event.body {
                let tool = decided.tool.as_str();
                let (before, after) = (Look::count(&self.questions, tool), Look::count(&later.questions, tool));
                assert_eq!(before, after, "{tool} was decided and is asked again");
            }
        }
        for result in self.results() {
            let tool = result.tool.as_str();
            let (before, after) = (Look::count(&self.handlers, tool), Look::count(&later.handlers, tool));
            assert_eq!(before, after, "{tool} has ended and runs again");
        }
    }
}

/// How often each thing happened over all kill points, so that the test shows that it tried what it says.
#[derive(Debug, Default)]
struct Tally {
    processes: usize,
    kills: usize,
    repeated_idempotent: usize,
    interrupted_once: usize,
    kinds: BTreeSet<String>,
}

fn check_end(last: &Look, fails: bool, tally: &mut Tally) {
    let end = last.events.iter().rev().find(|event| event.body.is_end()).map(|event| event.body.kind());
    assert_eq!(end, Some(if fails { "run.failed" } else { "run.completed" }));
    let by_tool: HashMap<&str, &ToolResult> = last.results().iter().map(|r| (r.tool.as_str(), *r)).collect();
    assert_eq!(by_tool.len(), 5);
    assert_eq!(last.requested().len(), 5);

    // Idempotent: completed, each attempt with the same key, one effect.
    assert_eq!(by_tool["set"].outcome.status, Status::Completed);
    let keys: BTreeSet<&String> = last.handlers.iter().filter(|line| line.starts_with("set ")).collect();
    assert_eq!(keys.len(), 1, "every attempt has the same key");
    assert_eq!(Look::count(&last.effects, "set"), 1);
    tally.repeated_idempotent += usize::from(Look::count(&last.handlers, "set") > 1);

    // Once: at most once; what is not known is said to be not known.
    for once in ["send", "publish"] {
        let ran = Look::count(&last.effects, once);
        match by_tool[once].outcome.status {
            Status::Completed => assert_eq!(ran, 1, "{once}"),
            Status::Interrupted => {
                assert!(ran <= 1, "{once} ran {ran} times");
                tally.interrupted_once += 1;
            }
            other => panic!("{once} is {other}"),
        }
    }
    // What was denied never runs, and that is known, wherever the process was killed.
    assert_eq!(Look::count(&last.handlers, "destroy"), 0);
    assert_eq!(by_tool["destroy"].outcome.status, Status::Refused);
}

async fn kill_everywhere(fails: bool, tally: &mut Tally) {
    let whole = tempfile::tempdir().unwrap();
    assert!(!process(whole.path(), Kill::Never, fails));
    let example = Look::at(whole.path()).await;
    tally.kinds.extend(example.events.iter().map(|event| event.body.kind().to_owned()));

    for event in &example.events {
        for kill in [Kill::Before(event.cursor.durable), Kill::After(event.cursor.durable)] {
            let folder = tempfile::tempdir().unwrap();
            let mut before = Look::default();
            // The process at this record, then one at each side of the record that takes the run up, then one that lives.
            for kill in [kill, Kill::BeforeResumed, Kill::AfterResumed, Kill::Never] {
                let killed = process(folder.path(), kill, fails);
                tally.processes += 1;
                tally.kills += usize::from(killed);
                let now = Look::at(folder.path()).await;
                tally.kinds.extend(now.events.iter().map(|event| event.body.kind().to_owned()));
                before.then(&now);
                before = now;
            }
            check_end(&before, fails, tally);
            let verification = verify(&*open(folder.path()), &Tenant::new(""), &run_id()).await.unwrap();
            assert!(verification.is_sound() && verification.ended, "{kill:?}: {verification:?}");
        }
    }
}

/// Every kind of record that the runtime writes, with the process killed before and after each of them.
async fn kill_at_every_record(fails: bool) {
    let mut tally = Tally::default();
    kill_everywhere(fails, &mut tally).await;
    eprintln!("{tally:?}");
    let end = if fails { "run.failed" } else { "run.completed" };
    let mut written = [
        "approval.approved",
        "approval.denied",
        "approval.requested",
        "model.completed",
        "run.resumed",
        "run.started",
        "tool.call.completed",
        "tool.call.failed",
        "tool.call.requested",
        end,
    ];
    written.sort_unstable();
    assert_eq!(tally.kinds.iter().map(String::as_str).collect::<Vec<_>>(), written);
    assert!(tally.repeated_idempotent > 0, "no idempotent effect was ever repeated");
    assert!(tally.interrupted_once > 0, "no call was ever interrupted");
    assert!(tally.kills > 50);
}

#[tokio::test]
async fn a_run_that_completes_is_killed_at_every_record() {
    kill_at_every_record(false).await;
}

#[tokio::test]
async fn a_run_that_fails_is_killed_at_every_record() {
    kill_at_every_record(true).await;
}
