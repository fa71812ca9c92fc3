//! A run whose answer must have a shape, with its process killed before and after every record; others take it up. Whatever
//! was killed, the run comes to the same answer, by the same rejections, and nothing recorded is asked or done again.

use crate::crash::{Executioner, Kill, Outside, lab, open};
use crate::support::{Knowing, profile_of, scripted};
use placet_core::{Env, FINAL_TOOL, ItemBody, ProviderError, ProviderId, Role, RunId, TurnRequest, Usage};
use placet_models::{AskContext, ModelListing, ModelProvider, Profile, ScriptTurn, TurnStream};
use placet_observe::{Journal, RunResult, verify};
use placet_runtime::{Output, Runtime, RuntimeError};
use placet_store::Tenant;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const FOLDER: &str = "PLACET_TEST_OUTPUT_CRASH_FOLDER";
const KILL: &str = "PLACET_TEST_OUTPUT_CRASH_KILL";

/// Notes for which turn it is asked; a request with a schema it refuses.
#[derive(Debug)]
struct Counting(Arc<Knowing>, Outside);

#[async_trait::async_trait]
impl ModelProvider for Counting {
    fn id(&self) -> &ProviderId {
        self.0.id()
    }

    async fn ask(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<TurnStream, ProviderError> {
        let mut turns = 0;
        let mut inside = false;
        for item in &request.items {
            let models = match &item.body {
                ItemBody::Message(message) => message.role == Role::Assistant,
                ItemBody::ToolCall(_) => true,
                _ => false,
            };
            turns += usize::from(models && !inside);
            inside = models;
        }
        self.1.append("asked", &turns.to_string());
        self.0.ask(request, context).await
    }

    fn profile(&self, model: &str) -> Option<Arc<Profile>> {
        self.0.profile(model)
    }

    async fn models(&self, _: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        Ok(Vec::new())
    }
}

fn turns() -> Vec<ScriptTurn> {
    let usage = |output| Usage { input: 10, output, ..Usage::default() };
    let turns = [
        ScriptTurn::call("look", json!({})).and_call("set", json!({})),
        ScriptTurn::text("It is one."),
        ScriptTurn::call(FINAL_TOOL, json!({"n": "one"})).and_call("send", json!({})),
        ScriptTurn::call("send", json!({})).and_call(FINAL_TOOL, json!({"n": 1})),
    ];
    (1..).zip(turns).map(|(number, turn)| turn.with_usage(usage(number))).collect()
}

fn run_id() -> RunId {
    RunId::parse("run_shape").unwrap()
}

fn shape() -> Output {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    Output::new("answer", schema).repairs(2)
}

/// Starts the run, or takes it up where it is there; to its end, unless it is killed.
async fn live(folder: &Path, kill: Kill) {
    let outside = Outside(folder.to_path_buf());
    let profile = Some(profile_of("openai", "gpt-5.4"));
    let knowing = Knowing { script: scripted(turns()), profile, refuses_schemas: true };
    let runtime = Runtime::builder(Env::system(), open(folder))
        .provider(Arc::new(Counting(Arc::new(knowing), outside.clone())))
        .lease(Duration::from_millis(10))
        .witness(Arc::new(Executioner(kill)))
        .build();
    loop {
        match runtime.resume(run_id()).grant(lab(&outside)).finish().await {
            Err(RuntimeError::NotFound { .. }) => {
                let run = runtime.run("scripted:m").id(run_id()).input("go").grant(lab(&outside));
                run.output_shape(shape()).await.unwrap();
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

/// Not a test by itself: what the test below starts, and kills.
#[test]
#[expect(clippy::disallowed_methods, reason = "a process of a test is told by variables what to do")]
fn the_process_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let kill = Kill::parse(&std::env::var(KILL).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(live(Path::new(&folder), kill));
}

/// Runs a process; tells whether it was killed.
#[expect(clippy::disallowed_methods, reason = "starts this test binary again, as the process that is killed")]
fn process(folder: &Path, kill: Kill) -> bool {
    use std::os::unix::process::ExitStatusExt;
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "output_crash::the_process_that_is_killed"]);
    let output = command.env(FOLDER, folder).env(KILL, kill.to_text()).output().unwrap();
    let killed = output.status.signal() == Some(9);
    assert!(killed || output.status.success(), "{kill:?}: {}", String::from_utf8_lossy(&output.stderr));
    killed
}

struct Look {
    kinds: Vec<String>,
    turns: usize,
    asked: Vec<String>,
    result: Option<RunResult>,
}

async fn look(folder: &Path) -> Look {
    let journal = Journal::read(&*open(folder), &Tenant::new(""), &run_id()).await.ok();
    let kinds = journal.iter().flat_map(Journal::events).map(|event| event.body.kind().to_owned());
    let kinds: Vec<String> = kinds.collect();
    Look {
        turns: kinds.iter().filter(|kind| *kind == "model.completed").count(),
        asked: Outside(folder.to_path_buf()).lines("asked"),
        result: journal.and_then(|journal| journal.state().result()),
        kinds,
    }
}

fn check_end(result: &RunResult, folder: &Path) {
    assert_eq!(result.output, Some(json!({"n": 1})));
    let rejected: Vec<u32> = result.rejected.iter().map(|rejected| rejected.turn).collect();
    assert_eq!((rejected, result.turns, result.rounds), (vec![2, 3], 4, 1));
    assert_eq!((result.usage.input, result.usage.output), (40, 10), "every turn is paid once");
    let effects = Outside(folder.to_path_buf()).lines("effects");
    let of = |name: &str| effects.iter().filter(|line| line.starts_with(name)).count();
    assert_eq!((of("set "), of("send ")), (1, 0), "what came beside an answer is never run");
}

#[tokio::test]
async fn a_run_with_a_shape_is_killed_at_every_record() {
    let whole = tempfile::tempdir().unwrap();
    assert!(!process(whole.path(), Kill::Never));
    let example = look(whole.path()).await;
    check_end(&example.result.unwrap(), whole.path());
    let (mut kills, mut kinds) = (0, BTreeSet::new());
    for number in 1..=example.kinds.len() as u64 {
        for kill in [Kill::Before(number), Kill::After(number)] {
            let folder = tempfile::tempdir().unwrap();
            let mut before = look(folder.path()).await;
            for kill in [kill, Kill::AfterResumed, Kill::Never] {
                kills += usize::from(process(folder.path(), kill));
                let now = look(folder.path()).await;
                assert!(now.kinds.starts_with(&before.kinds), "what is recorded stays");
                for turn in &now.asked[before.asked.len()..] {
                    assert!(turn.parse::<usize>().unwrap() >= before.turns, "a recorded turn is asked again");
                }
                before = now;
            }
            kinds.extend(before.kinds.iter().cloned());
            check_end(&before.result.unwrap(), folder.path());
            let verification = verify(&*open(folder.path()), &Tenant::new(""), &run_id()).await.unwrap();
            assert!(verification.is_sound() && verification.ended, "{kill:?}: {verification:?}");
        }
    }
    eprintln!("{kills} processes were killed");
    for kind in ["output.rejected", "output.fallback", "tool.call.failed", "run.resumed"] {
        assert!(kinds.contains(kind), "{kind}");
    }
    assert!(kills > example.kinds.len(), "{kills}");
}
