//! The board's tools, by themselves and through the pipeline.

use crate::world::{World, id, write};
use placet_board::tools::{BoardTool, BoardTools, MAX_RESULT_BYTES, ToolAnswer, run};
use placet_board::{Agent, AgentBoard, Content, Control, WriteRequest};
use placet_core::{Arguments, Origin, Status, ToolCall};
use placet_store::Tenant;
use placet_tools::{CallContext, Grant, Options, Pipeline, Registry};
use serde_json::{Value, json as value};
use std::sync::Arc;

async fn ask(board: &dyn AgentBoard, tool: BoardTool, arguments: &str, call: Option<&str>) -> ToolAnswer {
    run(board, tool, &Arguments::from_text(arguments), call).await.unwrap()
}

async fn told(board: &dyn AgentBoard, tool: BoardTool, arguments: &str) -> (String, bool) {
    let answer = ask(board, tool, arguments, None).await;
    let is_error = answer.is_error();
    (answer.text, is_error)
}

#[tokio::test]
async fn answers_are_the_ones_that_models_know() {
    use BoardTool::{Ack, ReadBoard, ReadLevel, ReadPremise, ReadRegions, SetPremise, Write};
    let world = World::memory();
    let control = world.incident().await;
    let board = &*control.as_agent("ann");
    let ok = |text: &str| (text.to_owned(), false);
    let wrong = |text: &str| (text.to_owned(), true);
    for (tool, arguments, expected) in [
        (ReadRegions, "", ok(r#"{"regions":[{"name":"findings","kind":"level"},{"name":"goal","kind":"premise"}]}"#)),
        (ReadLevel, r#"{"level":"findings"}"#, ok(r#"{"contributions":[],"next_from_sequence":0}"#)),
        (ReadLevel, r#"{"level":"findings","from_sequence":7}"#, ok(r#"{"contributions":[],"next_from_sequence":7}"#)),
        (
            Write,
            r#"{"level":"findings","content":{"n":1180591620717411303424,"f":1.0},"more":1}"#,
            ok(r#"{"sequence":2}"#),
        ),
        (
            ReadLevel,
            r#"{"level":"findings"}"#,
            ok(
                r#"{"contributions":[{"sequence":2,"content":{"n":1180591620717411303424,"f":1.0}}],"next_from_sequence":3}"#,
            ),
        ),
        (ReadPremise, r#"{"premise":"goal"}"#, ok(r#"{"value":"find it","version":1}"#)),
        (SetPremise, r#"{"premise":"goal","value":null,"expected_version":1}"#, ok(r#"{"sequence":3,"version":2}"#)),
        (
            SetPremise,
            r#"{"premise":"goal","value":2,"expected_version":1}"#,
            ok(
                r#"{"conflict":{"current_version":2,"reason":"the premise moved since the version this call named. Read it again and decide from the value now there."}}"#,
            ),
        ),
        (
            SetPremise,
            r#"{"premise":"goal","value":2,"expected_version":-1}"#,
            ok(
                r#"{"conflict":{"current_version":2,"reason":"the premise moved since the version this call named. Read it again and decide from the value now there."}}"#,
            ),
        ),
        (
            ReadBoard,
            r#"{"from_sequence":3}"#,
            ok(r#"{"changes":[{"sequence":3,"region":"goal","content":null}],"next_from_sequence":4}"#),
        ),
        (
            Write,
            r#"{"content":1}"#,
            wrong("blackboard_write needs 'level', which this call left out. It takes content, level."),
        ),
        (
            SetPremise,
            "{}",
            wrong(
                "blackboard_set_premise needs 'premise', which this call left out. It takes expected_version, premise, value.",
            ),
        ),
        (ReadLevel, r#"{"level":5}"#, wrong("'level' takes a string, and this call sent int.")),
        (ReadLevel, r#"{"level":null}"#, wrong("'level' takes a string, and this call sent NoneType.")),
        (ReadBoard, r#"{"from_sequence":true}"#, wrong("'from_sequence' takes an integer, and this call sent bool.")),
        (ReadBoard, r#"{"from_sequence":1.0}"#, wrong("'from_sequence' takes an integer, and this call sent float.")),
        (ReadBoard, r#"{"from_sequence":[1]}"#, wrong("'from_sequence' takes an integer, and this call sent list.")),
        (
            ReadLevel,
            r#"{"level":"goal"}"#,
            wrong(
                "'goal' names a premise, and this operation takes a level. This board holds the levels 'findings' and the premises 'goal'.",
            ),
        ),
        (
            Write,
            r#"{"level":"nowhere","content":1}"#,
            wrong(
                "no region is declared with the name 'nowhere'. This board holds the levels 'findings' and the premises 'goal'.",
            ),
        ),
        (Ack, r#"{"notification_id":3}"#, wrong("no notification 3 was issued to 'ann'")),
        (ReadRegions, "[1]", wrong("the arguments are of type array; send one JSON object")),
    ] {
        assert_eq!(told(board, tool, arguments).await, expected, "{tool:?} {arguments}");
    }
    control.register(Agent::new("ann").pulls()).await.unwrap();
    control.pull("ann", 0, std::time::Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(told(board, Ack, r#"{"notification_id":3}"#).await, ok(r#"{"acknowledged":3}"#));
    control.abort("enough").await.unwrap();
    let closed = told(board, Write, r#"{"level":"findings","content":1}"#).await;
    assert_eq!(closed, ok(r#"{"rejected":{"cause":"run_closed","reason":"the run has closed"}}"#));
}

#[tokio::test]
async fn a_call_with_an_id_writes_once_and_one_without_each_time() {
    let world = World::memory();
    let control = world.incident().await;
    let board = &*control.as_agent("ann");
    let arguments = r#"{"level":"findings","content":1}"#;
    assert_eq!(ask(board, BoardTool::Write, arguments, Some("c-1")).await.text, r#"{"sequence":2}"#);
    assert_eq!(ask(board, BoardTool::Write, arguments, Some("c-1")).await.text, r#"{"sequence":2,"repeated":true}"#);
    assert_eq!(ask(board, BoardTool::Write, arguments, None).await.text, r#"{"sequence":3}"#);
    assert_eq!(ask(board, BoardTool::Write, arguments, None).await.text, r#"{"sequence":4}"#);
    let set =
        ask(board, BoardTool::SetPremise, r#"{"premise":"goal","value":1,"expected_version":1}"#, Some("c-1")).await;
    assert_eq!((&*set.text, set.is_error()), ("'c-1' named 'findings' and is now naming 'goal'", true));
}

#[tokio::test]
async fn a_long_list_is_cut_and_says_so_and_a_premise_is_not() {
    let world = World::memory();
    let control = world.incident().await;
    let board = &*control.as_agent("ann");
    for _ in 0..1500 {
        write(&control, "bob", "findings", "\"01234567890123456789\"").await;
    }
    let (mut from, mut seen) = (0, 0);
    loop {
        let arguments = value!({"level": "findings", "from_sequence": from}).to_string();
        let answer = ask(board, BoardTool::ReadLevel, &arguments, None).await;
        assert!(answer.text.len() <= MAX_RESULT_BYTES);
        assert_eq!(answer.origins, placet_core::Origins::from(Origin::Agent("bob".into())));
        let read: Value = serde_json::from_str(&answer.text).unwrap();
        seen += read["contributions"].as_array().unwrap().len();
        from = read["next_from_sequence"].as_u64().unwrap();
        match read.get("omitted") {
            Some(omitted) => assert_eq!(omitted.as_u64(), Some(1500 - seen as u64)),
            None => break,
        }
    }
    assert_eq!((seen, from), (1500, 1502));
    let huge = Content::of(&"x".repeat(100_000)).unwrap();
    control.write("bob", &WriteRequest::new("findings", huge.clone())).await.unwrap();
    let one = ask(board, BoardTool::ReadLevel, r#"{"level":"findings","from_sequence":1502}"#, None).await;
    assert!(one.text.len() > 100_000, "one entry is given whatever its size");
    let set = placet_board::SetRequest::new("goal", huge, 1);
    control.set_premise("bob", &set).await.unwrap();
    assert!(ask(board, BoardTool::ReadPremise, r#"{"premise":"goal"}"#, None).await.text.len() > 100_000);
}

fn pipeline(control: &Control) -> Pipeline {
    let grant = Grant::new(BoardTools::new(control.as_agent("ann")));
    Pipeline::new(Registry::assemble([grant]).unwrap(), Options::default())
}

#[tokio::test]
async fn calls_pass_the_pipeline_and_read_the_same() {
    let world = World::memory();
    let control = world.incident().await;
    let pipeline = pipeline(&control);
    let call = |name: &str, arguments: &str| ToolCall {
        id: world.env.new_id(),
        provider_id: None,
        name: name.into(),
        arguments: Arguments::from_text(arguments),
        native: None,
    };
    let ask = async |call: &ToolCall| pipeline.run(call, CallContext::new(&world.env)).await.unwrap().outcome;
    let first = call("blackboard_write", r#"{"level":"findings","content":1180591620717411303424}"#);
    assert_eq!(ask(&first).await.text(), r#"{"sequence":2}"#);
    // The board's own key decides what is a repetition.
    assert_eq!(ask(&first).await.text(), r#"{"sequence":2,"repeated":true}"#);
    let read = ask(&call("blackboard_read_level", r#"{"level":"findings"}"#)).await;
    assert!(read.text().contains("1180591620717411303424"), "{}", read.text());
    assert!(read.origin.iter().any(|origin| *origin == Origin::Agent("ann".into())));
    for (arguments, says) in [
        (r#"{"content":1}"#, "blackboard_write needs 'level', which this call left out. It takes content, level."),
        (r#"{"level":5,"content":1}"#, "'level' takes a string, and this call sent int."),
        (r#"{"level":5.5,"content":1}"#, "'level' takes a string, and this call sent float."),
        (r#"{"level":{},"content":1}"#, "'level' takes a string, and this call sent dict."),
    ] {
        let outcome = ask(&call("blackboard_write", arguments)).await;
        assert_eq!((&*outcome.text(), outcome.is_error()), (says, true));
    }
    let conflict = ask(&call("blackboard_set_premise", r#"{"premise":"goal","value":1,"expected_version":7}"#)).await;
    assert_eq!((conflict.status, conflict.is_error()), (Status::Conflict, false));
    control.abort("enough").await.unwrap();
    let refused = ask(&call("blackboard_write", r#"{"level":"findings","content":1}"#)).await;
    assert_eq!((refused.status, refused.is_error()), (Status::Refused, false));
}

#[test]
fn definitions_are_the_ones_that_models_know() {
    let definition = BoardTool::SetPremise.definition();
    let definition = definition.as_definition();
    assert_eq!(definition.name.as_str(), "blackboard_set_premise");
    let schema = r#"{"type":"object","properties":{"premise":{"type":"string","description":"The name of the premise."},"value":{"description":"The new value. Any JSON value."},"expected_version":{"type":"integer","description":"The version blackboard_read_premise last answered with."}},"required":["premise","value","expected_version"]}"#;
    assert_eq!(definition.schema.as_value().to_string(), schema);
    assert_eq!(BoardTool::ReadRegions.schema().to_string(), r#"{"type":"object","properties":{},"required":[]}"#);
    for tool in BoardTool::ALL {
        assert_eq!(BoardTool::of(tool.name()), Some(tool));
        assert!(tool.name().starts_with(placet_board::tools::TOOL_PREFIX));
    }
}

#[test]
fn the_model_is_not_offered_what_its_agent_does_itself() {
    let world = World::memory();
    let boards = placet_board::Boards::new(world.store.clone(), Tenant::new("acme"), &world.env);
    let board: Arc<dyn AgentBoard> = boards.control(&id("b")).as_agent("ann");
    let registry = Registry::assemble([Grant::new(BoardTools::new(board).without_ack())]).unwrap();
    let names: Vec<_> = registry.definitions().iter().map(|tool| tool.name.as_str().to_owned()).collect();
    assert_eq!(names.len(), 6);
    assert!(!names.contains(&"blackboard_ack".to_owned()));
}
