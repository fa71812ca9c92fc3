#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use placet_core::env::ManualClock;
use placet_core::turn::AllowedTools;
use placet_core::{Arguments, Timestamp};
use placet_models::{Script, ScriptTurn, ScriptedModel};
use serde_json::json;

fn env() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1)
}

fn shape(strategy: OutputStrategy) -> Shaping {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let output = Output::new("answer", schema).strategy(strategy);
    let model = ScriptedModel::new(Script::new([ScriptTurn::text("")]));
    Shaping::plan(&output, &*model, &request(ToolChoice::Auto), 1).unwrap()
}

fn request(choice: ToolChoice) -> TurnRequest {
    let tool = |name: &str| Arc::new(ToolDefinition::new(name, "A tool.", Schema::empty_object(), Effect::Read));
    TurnRequest { tools: vec![tool("own"), tool("outer")], tool_choice: choice, ..TurnRequest::default() }
}

#[test]
fn the_finalizer_may_be_called_wherever_some_tools_may_and_forces_nobody_who_is_forced() {
    let shape = shape(OutputStrategy::FinalizerTool);
    let shaped = |choice, misses| shape.shaped(request(choice), 1, OutputStrategy::FinalizerTool, misses);
    let names = |request: &TurnRequest| request.tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&shaped(ToolChoice::Auto, 0)), ["own", FINAL_TOOL, "outer"]);
    let some = ToolChoice::Allowed(AllowedTools { names: vec!["own".into()], required: true, hosted: false });
    let ToolChoice::Allowed(allowed) = shaped(some, 0).tool_choice else { panic!("some tools are allowed") };
    assert_eq!(allowed.names, [ToolName::from("own"), FINAL_TOOL.into()]);
    assert_eq!(shaped(ToolChoice::Tool("own".into()), 1).tool_choice, ToolChoice::Tool("own".into()));
    assert_eq!(shaped(ToolChoice::Auto, 0).tool_choice, ToolChoice::Auto);
    assert_eq!(shaped(ToolChoice::Auto, 1).tool_choice, ToolChoice::Tool(FINAL_TOOL.into()));
}

#[test]
fn a_turn_that_missed_the_shape_is_answered_whole() {
    let (env, strategy) = (env(), OutputStrategy::FinalizerTool);
    let shape = shape(strategy);
    let call = |name: &str, arguments: &str| {
        let call = ToolCall {
            id: env.new_id(),
            provider_id: None,
            name: name.into(),
            arguments: Arguments::from_text(arguments),
            native: None,
        };
        Arc::new(Item::new(env.new_id(), Origin::Model, call))
    };
    let turn = Turn {
        id: env.new_id(),
        model: None,
        response_id: None,
        items: vec![call("own", "{}"), call(FINAL_TOOL, "{\"n\": "), call(FINAL_TOOL, "[]")],
        stop: StopReason::ToolCalls,
        usage: None,
        provider_state: None,
        service_tier: None,
        native: None,
    };
    let Judgement::Misses(problems) = shape.judge(&turn, strategy) else { panic!("it misses") };
    assert!(problems[0].problem.starts_with("it is not JSON"), "{problems:?}");
    assert_eq!(shape.repair(&turn, &problems, strategy, &env).len(), 3);
    assert_eq!(shape.judge(&turn, OutputStrategy::ProviderNative), Judgement::Unfinished);
    let cut = Turn { stop: StopReason::MaxTokens, ..turn };
    assert_eq!(shape.judge(&cut, strategy), Judgement::Cut);
}

#[test]
fn a_way_is_left_for_another_only_where_the_request_was_refused() {
    let model = ScriptedModel::new(Script::new([ScriptTurn::text("")]));
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let shape = Shaping::plan(&Output::new("answer", schema), &*model, &request(ToolChoice::Auto), 1).unwrap();
    let refused = |kind| ProviderError::new(kind, "p".into(), "no");
    let native = OutputStrategy::ProviderNative;
    let other = Some(OutputStrategy::PosthocParseWithRetry);
    assert_eq!(shape.fallback(native, &refused(ErrorKind::InvalidRequest)), other);
    for kind in [ErrorKind::Unsupported, ErrorKind::Overloaded, ErrorKind::Authentication, ErrorKind::RateLimited] {
        assert_eq!(shape.fallback(native, &refused(kind)), None);
    }
    assert_eq!(shape.fallback(OutputStrategy::PosthocParseWithRetry, &refused(ErrorKind::InvalidRequest)), None);
}
