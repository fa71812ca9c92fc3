//! The capabilities behind the pipeline, as a model meets them.

use placet_core::{Arguments, Env, Origin, Outcome, Reason, Stage, Status, ToolCall};
use placet_tools::{BoundTool, CallContext, Capability, Grant, Options, Pipeline, Registry};
use placet_workspace::{Approval, CommandOptions, Commands, Files, FilesOptions, calculator};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

fn capabilities(folder: &Path, command: CommandOptions) -> Vec<Arc<dyn Capability>> {
    let files = Arc::new(Files::open(&Env::system(), folder, FilesOptions::new().writable()).expect("opens"));
    let commands = Commands::new(files.clone(), command).expect("good options");
    vec![Arc::new(files.capability()), Arc::new(commands.capability()), Arc::new(calculator())]
}

fn pipeline(folder: &Path, command: CommandOptions) -> Pipeline {
    let grants = capabilities(folder, command).into_iter().map(Grant::of);
    Pipeline::new(Registry::assemble(grants).expect("fits together"), Options::default())
}

async fn run(pipeline: &Pipeline, tool: &str, arguments: Value) -> Outcome {
    let env = Env::system();
    let call = ToolCall {
        id: env.new_id(),
        provider_id: None,
        name: tool.into(),
        arguments: Arguments::from_value(&arguments),
        native: None,
    };
    pipeline.run(&call, CallContext::new(&env)).await.expect("the pipeline stands").outcome
}

#[tokio::test]
async fn a_folder_is_worked_in_through_the_pipeline() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let pipeline = pipeline(folder.path(), CommandOptions::new());
    let outcome = run(&pipeline, "write", json!({"path": "docs/a.md", "content": "one\ntwo\n"})).await;
    assert_eq!((outcome.status, outcome.text().as_str()), (Status::Completed, "created docs/a.md (8 bytes, 2 lines)"));
    assert!(!outcome.origin.is_untrusted());
    let outcome = run(&pipeline, "read", json!({"path": "docs/a.md"})).await;
    assert_eq!(outcome.text(), "one\ntwo\n");
    assert!(outcome.origin.contains(&Origin::File) && outcome.origin.is_untrusted());
    assert_eq!(outcome.facts["lines"], 2);
    assert_eq!(run(&pipeline, "find", json!({"glob": "*.md"})).await.text(), "docs/a.md");
    assert_eq!(run(&pipeline, "list", json!({"path": null, "depth": null})).await.text(), "docs/");
    assert_eq!(run(&pipeline, "search", json!({"pattern": "t.o"})).await.text(), "docs/a.md:2:two");
    assert_eq!(
        run(&pipeline, "edit", json!({"path": "docs/a.md", "old": "two", "new": "2"})).await.status,
        Status::Completed
    );
    assert_eq!(run(&pipeline, "delete", json!({"path": "docs/a.md"})).await.text(), "deleted docs/a.md");
    assert_eq!(run(&pipeline, "calculate", json!({"expression": "0.1 + 0.2"})).await.text(), "0.3");

    let outcome = run(&pipeline, "read", json!({"path": "docs/a.md"})).await;
    assert_eq!((outcome.status, outcome.is_error()), (Status::Mistaken, true));
    let outcome = run(&pipeline, "read", json!({"path": ".env"})).await;
    assert_eq!(
        (outcome.status, outcome.is_error(), outcome.reason),
        (Status::Refused, false, Some(Reason::from("credentials")))
    );
    let outcome = run(&pipeline, "calculate", json!({"expression": "1 +"})).await;
    assert_eq!((outcome.status, outcome.text().contains("column 4")), (Status::Mistaken, true));
    let outcome = run(&pipeline, "read", json!({"path": "a", "lines": 3})).await;
    assert_eq!(outcome.stage, Stage::Arguments, "an argument that there is not");
}

#[tokio::test]
async fn a_command_asks_first_and_is_refused_where_nobody_can_be_asked() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let asking = pipeline(folder.path(), CommandOptions::new());
    let outcome = run(&asking, "run_command", json!({"argv": ["touch", "made"]})).await;
    assert_eq!(
        (outcome.status, outcome.stage, outcome.reason.clone()),
        (Status::Refused, Stage::Approved, Some(Reason::Denied))
    );
    assert!(!folder.path().join("made").exists(), "nothing ran");
    let denied = run(&asking, "run_command", json!({"argv": ["rm", "-rf", "/"]})).await;
    assert_eq!((denied.status, denied.stage), (Status::Refused, Stage::Arguments), "nobody is asked about that");

    let free = pipeline(folder.path(), CommandOptions::new().approval(Approval::Unsandboxed));
    let outcome = run(&free, "run_command", json!({"argv": ["touch", "made"], "dir": null})).await;
    assert_eq!(outcome.text(), "exit code 0\n(no output)");
    assert!(folder.path().join("made").exists());
    assert_eq!((&outcome.facts["sandbox"], &outcome.facts["exit_code"]), (&json!("L1"), &json!(0)));
    assert!(outcome.origin.is_untrusted());
    let outcome = run(&free, "run_command", json!({"argv": ["false"]})).await;
    assert_eq!((outcome.status, outcome.is_error()), (Status::Completed, false), "an exit code is an answer");
}

#[tokio::test]
async fn what_the_arguments_alone_show_is_told_before_anything_starts() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let pipeline = pipeline(folder.path(), CommandOptions::new());
    for (tool, arguments) in [
        ("list", json!({"path": "../x"})),
        ("list", json!({"depth": 0})),
        ("list", json!({"depth": 11})),
        ("find", json!({"glob": "[a"})),
        ("find", json!({"glob": "*", "path": "/etc"})),
        ("search", json!({"pattern": "a("})),
        ("search", json!({"pattern": "a", "glob": "{a"})),
        ("read", json!({"path": "/etc/passwd"})),
        ("read", json!({"path": "a", "offset": 0})),
        ("read", json!({"path": "a", "limit": 0})),
        ("write", json!({"path": "a/../../b", "content": ""})),
        ("edit", json!({"path": "a", "old": "", "new": "b"})),
        ("edit", json!({"path": "a", "old": "b", "new": "b"})),
        ("delete", json!({"path": ".."})),
    ] {
        let outcome = run(&pipeline, tool, arguments.clone()).await;
        let told = (outcome.status, outcome.stage, outcome.reason.clone());
        assert_eq!(told, (Status::Mistaken, Stage::Arguments, Some(Reason::InvalidArguments)), "{tool} {arguments}");
    }
    for (tool, arguments, reason) in [
        ("read", json!({"path": "x/.env"}), "credentials"),
        ("write", json!({"path": ".git/hooks/pre-commit", "content": "x"}), "protected"),
        ("delete", json!({"path": ".git/config"}), "protected"),
    ] {
        let outcome = run(&pipeline, tool, arguments.clone()).await;
        let told = (outcome.status, outcome.stage, outcome.reason.clone());
        assert_eq!(told, (Status::Refused, Stage::Arguments, Some(Reason::from(reason))), "{tool} {arguments}");
    }
}

#[tokio::test]
async fn a_command_that_is_out_of_time_has_failed_with_what_it_wrote() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let pipeline = pipeline(folder.path(), CommandOptions::new().shell().approval(Approval::Unsandboxed));
    let endless = json!({"argv": ["sh", "-c", "echo begun; exec sleep 4714"], "timeout_seconds": 1});
    let outcome = run(&pipeline, "run_command", endless).await;
    assert_eq!((outcome.status, outcome.reason.clone()), (Status::Failed, Some(Reason::Timeout)));
    assert!(
        outcome.text().starts_with("out of time after 1 seconds") && outcome.text().contains("begun"),
        "{outcome:?}"
    );
    assert_eq!((&outcome.facts["timed_out"], &outcome.facts["sandbox"]), (&json!(true), &json!("L1")));
    assert!(outcome.origin.is_untrusted(), "it may have written what files hold");
    let outcome = run(&pipeline, "run_command", json!({"argv": ["sh", "-c", "exit 3"]})).await;
    assert_eq!((outcome.status, &outcome.facts["exit_code"]), (Status::Completed, &json!(3)));
}

#[test]
fn writing_is_there_only_where_it_was_granted() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let files = Arc::new(Files::open(&Env::system(), folder.path(), FilesOptions::new()).expect("opens"));
    let names: Vec<String> = files.capability().tools().iter().map(|tool| tool.name().to_string()).collect();
    assert_eq!(names, ["list", "find", "search", "read"]);
}

/// The parameters of each tool are a promise: there are programs that know a tool by them.
#[test]
fn parameters_are_as_promised() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let shape = |tool: &BoundTool| {
        let schema = tool.definition().schema.as_value().clone();
        let names = schema["properties"].as_object().map(|p| p.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let mark = |name: &String| if required.contains(&json!(name)) { name.clone() } else { format!("{name}?") };
        format!("{} {}", tool.name(), names.iter().map(mark).collect::<Vec<_>>().join(" "))
    };
    let all = capabilities(folder.path(), CommandOptions::new());
    let shapes: Vec<String> = all.iter().flat_map(|capability| capability.tools()).map(|tool| shape(&tool)).collect();
    assert_eq!(
        shapes,
        [
            "list path? depth?",
            "find glob path?",
            "search pattern path? glob?",
            "read path offset? limit?",
            "write path content",
            "edit path old new",
            "delete path",
            "run_command argv dir? timeout_seconds?",
            "calculate expression",
        ]
    );
}

fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("description").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| texts(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        _ => {}
    }
}

/// Models copy the syntax that they are shown.
#[test]
fn every_array_in_a_text_for_models_is_json_and_no_text_names_the_folder() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut arrays = 0;
    for options in [CommandOptions::new(), CommandOptions::new().shell()] {
        for capability in capabilities(folder.path(), options) {
            let mut found: Vec<String> = capability.instructions().into_iter().collect();
            for tool in capability.tools() {
                found.push(tool.definition().description.clone());
                texts(tool.definition().schema.as_value(), &mut found);
            }
            for text in &found {
                assert!(!text.contains(&*folder.path().to_string_lossy()), "{text}");
                for (at, _) in text.match_indices('[') {
                    let end = text[at..].find(']').map(|end| at + end + 1).expect("a closed array");
                    let array: Result<Value, _> = serde_json::from_str(&text[at..end]);
                    assert!(array.is_ok(), "{} in {text:?}", &text[at..end]);
                    arrays += 1;
                }
            }
        }
    }
    assert!(arrays >= 4, "{arrays} arrays were looked at");
}

/// What stands before the conversation is the same for every folder, so that providers need not read it anew.
#[test]
fn definitions_are_the_same_for_every_folder() {
    let bytes = |folder: &Path| {
        let all = capabilities(folder, CommandOptions::new());
        all.iter()
            .map(|capability| {
                let tools: Vec<_> = capability.tools().iter().map(|tool| tool.definition().as_ref().clone()).collect();
                format!("{:?}{}", capability.instructions(), serde_json::to_string(&tools).expect("serialises"))
            })
            .collect::<Vec<_>>()
    };
    let (one, other) = (tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made"));
    assert_eq!(bytes(one.path()), bytes(other.path()));
}
