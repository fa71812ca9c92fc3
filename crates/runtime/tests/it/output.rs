//! The shape of an answer: sent, enforced, repaired within bounds, and typed where it fails.

use crate::support::{Knowing, World, echo_tool, profile_of, results, scripted, world};
use placet_core::event::EventBody;
use placet_core::hosted::{HostedTool, WebSearch};
use placet_core::turn::OutputFormat;
use placet_core::{
    Cursor, Diagnose, Effect, ErrorKind, FINAL_TOOL, ItemBody, Limits, OutputStrategy, Reason, Role, RunId, Schema,
    Status, StopReason, ToolChoice, ToolDefinition, TurnRequest, Usage,
};
use placet_models::{ModelProvider, ScriptTurn, ScriptedModel};
use placet_observe::replay;
use placet_runtime::{Ending, Output, OutputError, RunBuilder, RunResult, Runtime, RuntimeError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Answer {
    /// How many.
    n: i64,
    #[serde(default)]
    note: Option<String>,
}

fn says(value: Value) -> ScriptTurn {
    ScriptTurn::text(value.to_string())
}

fn submits(value: Value) -> ScriptTurn {
    ScriptTurn::call(FINAL_TOOL, value)
}

struct Scene {
    world: World,
    model: Arc<ScriptedModel>,
    runtime: Runtime,
}

/// A model of which nothing is known, or that can what another one can.
fn scene(like: Option<(&str, &str)>, turns: Vec<ScriptTurn>) -> Scene {
    let world = world();
    let (model, runtime) = match like {
        None => {
            let model = scripted(turns);
            (model.clone(), world.builder(model).build())
        }
        Some((provider, name)) => {
            let model = Knowing::like(provider, name, turns);
            (model.script.clone(), world.builder(model).build())
        }
    };
    Scene { world, model, runtime }
}

const NATIVE: Option<(&str, &str)> = Some(("openai", "gpt-5.4"));
const CALLS_TOOLS: Option<(&str, &str)> = Some(("deepseek", "deepseek-chat"));

impl Scene {
    fn run(&self) -> RunBuilder {
        self.runtime.run("scripted:m").input("how many?")
    }

    fn sent(&self) -> Vec<Arc<TurnRequest>> {
        self.model.requests()
    }

    async fn end(&self, run: RunBuilder) -> RunResult {
        let result = run.await.unwrap();
        self.world.check(&result).await;
        result
    }
}

fn last_said(request: &TurnRequest) -> String {
    match &request.items.last().unwrap().body {
        ItemBody::Message(message) => message.text(),
        ItemBody::ToolResult(result) => result.outcome.text(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_answer_of_a_run_is_a_value_of_its_type() {
    let scene = scene(NATIVE, vec![says(json!({"n": 2, "note": null}))]);
    let result = scene.end(scene.run().output::<Answer>()).await;
    assert_eq!(result.end, Ending::Completed);
    assert_eq!(result.output, Some(json!({"n": 2, "note": null})));
    assert_eq!(result.parse::<Answer>().unwrap(), Answer { n: 2, note: None });
    let sent = scene.sent()[0].output.clone().unwrap();
    assert!(sent.strict && sent.name == "Answer");
    assert_eq!(
        sent.schema.as_value()["required"],
        json!(["n", "note"]),
        "every field is required, as strict forms are"
    );
    assert_eq!(scene.sent()[0].instructions, None, "the protocol says it");
    let wrong = result.parse::<Vec<String>>().unwrap_err();
    assert!(matches!(wrong, OutputError::Type { .. }), "{wrong:?}");
}

#[tokio::test]
async fn an_answer_that_misses_the_shape_is_told_so_and_asked_again() {
    let usage = Usage { input: 10, output: 5, ..Usage::default() };
    let turns = vec![says(json!({"n": "two"})).with_usage(usage), says(json!({"n": 2})).with_usage(usage)];
    let scene = scene(None, turns);
    let result = scene.end(scene.run().output::<Answer>()).await;
    assert_eq!((result.parse::<Answer>().unwrap().n, result.turns, result.rounds), (2, 2, 0));
    assert_eq!(result.usage, usage + usage, "what a repair uses counts");
    assert_eq!((result.rejected.len(), result.rejected[0].turn), (1, 1));
    let told = last_said(&scene.sent()[1]);
    assert!(told.contains("does not have the wanted shape:\n- /n: \"two\" is not of type \"integer\""), "{told}");
    let kinds = scene.world.kinds(&result.run).await;
    assert_eq!(kinds, ["run.started", "model.completed", "output.rejected", "model.completed", "run.completed"]);
    let complaints = result.items.iter().filter(|item| item.origin.contains(&placet_core::Origin::Operator));
    assert_eq!(complaints.count(), 1, "what the model was told is a part of the conversation");
}

#[tokio::test]
async fn repairs_are_bounded_and_the_failure_is_typed_with_the_last_text() {
    for repairs in [0, 1, 2] {
        let turns = (0..4).map(|turn| ScriptTurn::text(format!("about {turn}"))).collect();
        let scene = scene(None, turns);
        let run = scene.run().output_shape(Output::of::<Answer>().repairs(repairs));
        let result = scene.end(run).await;
        let failure = result.failure.clone().unwrap();
        assert_eq!((result.end.clone(), failure.kind.clone()), (Ending::Failed, ErrorKind::OutputMismatch));
        assert!(failure.message.contains("it is not JSON"), "{failure}");
        assert_eq!((scene.sent().len(), result.rejected.len()), (repairs as usize + 1, repairs as usize + 1));
        assert_eq!(result.output, None);
        let error = result.parse::<Answer>().unwrap_err();
        let OutputError::Mismatch { problems, text } = &error else { panic!("{error:?}") };
        assert_eq!((problems.len(), text.as_str()), (1, format!("about {repairs}").as_str()));
        assert_eq!(error.kind(), ErrorKind::OutputMismatch);
    }
}

#[tokio::test]
async fn posthoc_parse_fails_fast() {
    let scene = scene(NATIVE, vec![ScriptTurn::text("two"), says(json!({"n": 2}))]);
    let output = Output::of::<Answer>().strategy(OutputStrategy::PosthocParse).repairs(5);
    let result = scene.end(scene.run().output_shape(output)).await;
    assert_eq!(result.failure.unwrap().kind, ErrorKind::OutputMismatch);
    assert_eq!(scene.sent().len(), 1);
}

#[tokio::test]
async fn posthoc_ways_say_the_schema_in_the_instructions_and_ask_for_json_where_that_is_known() {
    let scene_of = |like| scene(like, vec![ScriptTurn::text("Here: ```json\n{\"n\": 2}\n``` as you wished.")]);
    for (like, wish) in
        [(NATIVE, true), (CALLS_TOOLS, true), (Some(("anthropic", "claude-opus-5-5")), false), (None, false)]
    {
        let scene = scene_of(like);
        let output = Output::of::<Answer>().strategy(OutputStrategy::PosthocParseWithRetry);
        let result = scene.end(scene.run().instructions("Be brief.").output_shape(output)).await;
        assert_eq!(result.output, Some(json!({"n": 2})), "prose and fences around it are passed over");
        let sent = &scene.sent()[0];
        let told = sent.instructions.as_deref().unwrap();
        assert!(told.starts_with("Be brief.\n\n") && told.contains("\"n\""), "{told}");
        let asks = sent.output.as_ref().map(|output| (output.strict, output.schema.as_value().clone()));
        assert_eq!(asks, wish.then(|| (false, json!({"type": "object"}))), "{like:?}");
    }
}

#[tokio::test]
async fn a_valid_call_of_the_finalizer_ends_the_run_and_its_siblings_are_not_run() {
    let (echo, ran) = echo_tool("echo");
    let turns = vec![
        ScriptTurn::call("echo", json!({"word": "a"})),
        ScriptTurn::call("echo", json!({"word": "b"})).and_call(FINAL_TOOL, json!({"n": 2, "note": null})),
        ScriptTurn::text("never said"),
    ];
    let scene = scene(CALLS_TOOLS, turns);
    let run = scene.run().tool(echo).output::<Answer>().limits(Limits { rounds: 1, ..Limits::default() });
    let result = scene.end(run).await;
    assert_eq!(result.end, Ending::Completed, "an answer is no round: {:?}", result.detail);
    assert_eq!(result.parse::<Answer>().unwrap(), Answer { n: 2, note: None });
    assert_eq!((ran.load(Ordering::SeqCst), result.rounds, result.turns), (1, 1, 2));
    let answers = results(&result);
    assert_eq!(answers[1].outcome.reason, Some(Reason::NotRun));
    assert_eq!((answers[2].outcome.status, answers[2].capability.clone()), (Status::Completed, None));
    assert!(result.payloads.is_empty(), "the answer is no payload of a tool");

    let sent = scene.sent();
    let names: Vec<&str> = sent[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["echo", FINAL_TOOL]);
    assert!(sent[0].output.is_none() && sent[0].tool_choice == ToolChoice::Auto);
    assert_eq!(sent[0].tools, sent[1].tools, "the same from turn to turn");
}

#[tokio::test]
async fn the_finalizer_is_forced_where_it_is_the_only_tool_and_the_model_takes_that() {
    for (like, forced) in [(CALLS_TOOLS, true), (Some(("anthropic", "claude-fable-5-1")), false)] {
        let scene = scene(like, vec![submits(json!({"n": 2, "note": null}))]);
        let output = Output::of::<Answer>().strategy(OutputStrategy::FinalizerTool);
        let result = scene.end(scene.run().output_shape(output)).await;
        assert_eq!(result.parse::<Answer>().unwrap().n, 2);
        let choice = &scene.sent()[0].tool_choice;
        let wanted = if forced { ToolChoice::Tool(FINAL_TOOL.into()) } else { ToolChoice::Auto };
        assert_eq!(*choice, wanted, "{like:?}");
    }
}

#[tokio::test]
async fn an_invalid_call_of_the_finalizer_is_a_mistake_that_is_corrected() {
    let (echo, ran) = echo_tool("echo");
    let turns = vec![
        submits(json!({"n": "two"})).and_call("echo", json!({"word": "a"})).and_call(FINAL_TOOL, json!([])),
        ScriptTurn::text("It is two."),
        submits(json!({"n": 2, "note": "sure"})),
    ];
    let scene = scene(CALLS_TOOLS, turns);
    let result = scene.end(scene.run().tool(echo).output_shape(Output::of::<Answer>().repairs(2))).await;
    assert_eq!(result.parse::<Answer>().unwrap().note.as_deref(), Some("sure"));
    assert_eq!((result.rejected.len(), result.rounds, ran.load(Ordering::SeqCst)), (2, 0, 0));
    assert!(result.rejected[0].problems[0].starts_with("/n: "), "{:?}", result.rejected);
    let answers = results(&result);
    assert_eq!((answers[0].outcome.status, answers[0].outcome.is_error()), (Status::Mistaken, true));
    assert!(answers[0].outcome.text().contains("call submit_final_output again"));
    assert_eq!(answers[1].outcome.reason, Some(Reason::NotRun));
    assert_eq!(answers[2].outcome.reason, Some(Reason::NotRun), "one answer a message is judged");
    assert!(last_said(&scene.sent()[2]).contains(FINAL_TOOL), "a text is told where answers go");
    assert_eq!(scene.sent()[2].tool_choice, ToolChoice::Tool(FINAL_TOOL.into()), "and is made to go there");
}

#[tokio::test]
async fn of_several_submitted_answers_the_first_that_fits_counts() {
    let turn = submits(json!({"n": "x"})).and_call(FINAL_TOOL, json!({"n": 1})).and_call(FINAL_TOOL, json!({"n": 2}));
    let scene = scene(CALLS_TOOLS, vec![turn]);
    let result = scene.end(scene.run().output::<Answer>()).await;
    assert_eq!(result.parse::<Answer>().unwrap().n, 1);
    assert!(result.rejected.is_empty());
}

#[tokio::test]
async fn without_the_finalizer_a_call_of_its_name_is_one_of_an_unknown_tool() {
    let turns = || vec![submits(json!({"n": 1})), says(json!({"n": 2}))];
    for shaped in [true, false] {
        let scene = scene(NATIVE, turns());
        let run = if shaped { scene.run().output::<Answer>() } else { scene.run() };
        let result = scene.end(run).await;
        assert_eq!(results(&result)[0].outcome.reason, Some(Reason::UnknownTool));
        assert_eq!((result.output.is_some(), result.rounds), (shaped, 1));
    }
}

#[tokio::test]
async fn a_schema_goes_out_only_with_turns_in_which_no_tool_may_be_called() {
    let (echo, _) = echo_tool("echo");
    let turns = vec![
        ScriptTurn::call("echo", json!({"word": "a"})),
        ScriptTurn::text("It is two."),
        says(json!({"n": 2, "note": null})),
    ];
    let scene = scene(NATIVE, turns);
    let result = scene.end(scene.run().tool(echo).output::<Answer>()).await;
    assert_eq!((result.parse::<Answer>().unwrap().n, result.rounds), (2, 1));
    let sent = scene.sent();
    assert!(sent[..2].iter().all(|request| request.output.is_none() && request.tool_choice == ToolChoice::Auto));
    assert!(sent[2].output.as_ref().is_some_and(|output| output.strict), "who missed it is held to it");
    assert_eq!((&sent[2].tool_choice, sent[2].tools.len()), (&ToolChoice::None, 1));
    assert!(sent.iter().all(|request| request.instructions == sent[0].instructions), "the same from turn to turn");
    assert!(sent[0].instructions.as_deref().unwrap().contains("JSON Schema"));
}

#[tokio::test]
async fn a_way_that_the_model_cannot_go_is_refused_before_anything_is_sent() {
    let open = json!({"type": "object", "properties": {}, "additionalProperties": true});
    let by = |strategy| Output::of::<Answer>().strategy(strategy);
    let (native, finalizer) = (OutputStrategy::ProviderNative, OutputStrategy::FinalizerTool);
    for (like, output, says) in [
        (("deepseek", "deepseek-chat"), by(native), "takes none"),
        (("openai", "gpt-5.4"), Output::new("open", open).strategy(native), "open to further fields"),
        (("gemini", "gemini-2.5-flash"), by(native), "tools and a schema exclude each other"),
    ] {
        let scene = scene(Some(like), vec![says_nothing()]);
        let run = RunId::parse("run_refused").unwrap();
        let started = scene.run().id(run.clone()).tool(echo_tool("echo").0).output_shape(output).await;
        let Err(RuntimeError::Provider(error)) = started else { panic!("{like:?}: {started:?}") };
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.message.contains("the model `m`") && error.message.contains(says), "{error}");
        assert!(scene.sent().is_empty());
        assert!(matches!(scene.runtime.resume(run).await, Err(RuntimeError::NotFound { .. })), "nothing is recorded");
    }
    let scene = scene(NATIVE, vec![]);
    let named = ToolDefinition::new(FINAL_TOOL, "Mine.", Schema::empty_object(), Effect::Read);
    let started = scene.run().declare(named.clone()).output_shape(by(finalizer)).await;
    assert!(started.unwrap_err().to_string().contains("another tool has the name"));
    let started = scene.run().output_shape(Output::new("x", json!({"type": "strin"}))).await;
    assert!(matches!(started, Err(RuntimeError::Wiring { .. })), "{started:?}");
}

fn says_nothing() -> ScriptTurn {
    ScriptTurn::text("")
}

#[tokio::test]
async fn without_a_choice_it_is_the_surest_way_that_the_model_can() {
    use OutputStrategy::{FinalizerTool, PosthocParseWithRetry, ProviderNative};
    let shaped = || Output::of::<Answer>();
    let open = || Output::new("open", json!({"type": "object"}));
    let any = || {
        let schema = Schema::new(json!({"type": "object"}));
        Output::from_format(OutputFormat { name: "any".into(), description: None, schema, strict: false })
    };
    let search = || HostedTool::WebSearch(WebSearch::default());
    type Change = fn(RunBuilder) -> RunBuilder;
    let plain: Change = |run| run;
    let with_tool: Change = |run| run.tool(echo_tool("echo").0);
    let mute: Change = |run| run.tool(echo_tool("echo").0).tool_choice(ToolChoice::None);
    for (like, output, change, wanted, fallback) in [
        (NATIVE, shaped(), plain, ProviderNative, Some(FinalizerTool)),
        (NATIVE, shaped(), with_tool, ProviderNative, Some(FinalizerTool)),
        (NATIVE, shaped(), mute, ProviderNative, Some(PosthocParseWithRetry)),
        (NATIVE, open(), plain, FinalizerTool, Some(PosthocParseWithRetry)),
        (NATIVE, any(), plain, PosthocParseWithRetry, None),
        (CALLS_TOOLS, shaped(), plain, FinalizerTool, Some(PosthocParseWithRetry)),
        (Some(("gemini", "gemini-2.5-flash")), shaped(), plain, ProviderNative, Some(FinalizerTool)),
        (Some(("gemini", "gemini-2.5-flash")), shaped(), with_tool, FinalizerTool, Some(PosthocParseWithRetry)),
        (None, shaped(), with_tool, ProviderNative, Some(PosthocParseWithRetry)),
        (None, open(), plain, PosthocParseWithRetry, None),
    ] {
        let scene = scene(like, vec![ScriptTurn::fail(ErrorKind::QuotaExhausted, "no credit")]);
        let result = scene.end(change(scene.run()).output_shape(output)).await;
        let journal = scene.world.journal(&result.run).await;
        let spec = journal.state().started().unwrap().output.clone().unwrap();
        assert_eq!((spec.strategy, spec.fallback), (wanted, fallback), "{like:?}");
    }
    let scene = scene(Some(("anthropic", "claude-opus-5-5")), vec![ScriptTurn::fail(ErrorKind::QuotaExhausted, "no")]);
    let result = scene.end(scene.run().hosted(search()).output_shape(shaped())).await;
    let journal = scene.world.journal(&result.run).await;
    let strategy = journal.state().started().unwrap().output.clone().unwrap().strategy;
    assert_eq!(strategy, FinalizerTool, "citations and a schema exclude each other");
}

#[tokio::test]
async fn a_provider_that_refuses_the_schema_is_asked_another_way_once_and_for_the_rest_of_the_run() {
    let world = world();
    let script = scripted(vec![submits(json!({"n": "x"})), submits(json!({"n": 2}))]);
    let profile = Some(profile_of("openai", "gpt-5.4"));
    let model = Arc::new(Knowing { script: script.clone(), profile: profile.clone(), refuses_schemas: true });
    let runtime = world.builder(model).build();
    let result = runtime.run("scripted:m").input("?").output::<Answer>().await.unwrap();
    world.check(&result).await;
    assert_eq!((result.parse::<Answer>().unwrap().n, result.turns), (2, 2), "a refused request is no turn");
    assert_eq!(
        world.kinds(&result.run).await[..3],
        ["run.started".to_owned(), "output.fallback".to_owned(), "model.completed".to_owned()]
    );
    assert!(script.requests().iter().all(|request| request.tools.len() == 1 && request.output.is_none()));
    let json = serde_json::to_value(replay(&world.journal(&result.run).await)).unwrap();
    assert_eq!(json["timeline"][1]["what"], "fallback");

    // A way that somebody chose is not left.
    let model = Arc::new(Knowing { script: script.clone(), profile, refuses_schemas: true });
    let runtime = world.builder(model).build();
    let chosen = Output::of::<Answer>().strategy(OutputStrategy::ProviderNative);
    let result = runtime.run("scripted:m").input("?").output_shape(chosen).await.unwrap();
    assert_eq!(result.failure.unwrap().kind, ErrorKind::InvalidRequest);
    // What has nothing to do with the shape is what it is.
    let scene = scene(NATIVE, vec![ScriptTurn::fail(ErrorKind::QuotaExhausted, "no credit")]);
    let result = scene.end(scene.run().output::<Answer>()).await;
    assert_eq!((result.failure.unwrap().kind, scene.sent().len()), (ErrorKind::QuotaExhausted, 1));
}

#[tokio::test]
async fn a_refusal_and_a_cut_answer_are_typed_and_not_repaired() {
    let refused = || ScriptTurn::text("I will not.").with_stop(StopReason::Refusal);
    let cut = || says(json!({"n": 2})).with_stop(StopReason::MaxTokens);
    let filtered = || ScriptTurn::text("{\"n\"").with_stop(StopReason::ContentFilter);
    for (turn, end, kind) in [
        (refused(), Ending::Failed, ErrorKind::Refused),
        (cut(), Ending::LimitReached, ErrorKind::LimitReached),
        (filtered(), Ending::Failed, ErrorKind::LimitReached),
    ] {
        let scene = scene(None, vec![turn, says(json!({"n": 2}))]);
        let result = scene.end(scene.run().output::<Answer>()).await;
        assert_eq!((result.end.clone(), result.output.clone(), scene.sent().len()), (end, None, 1));
        let error = result.parse::<Answer>().unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        let (OutputError::Refused { text } | OutputError::Cut { text }) = error else { panic!("{error:?}") };
        assert_eq!(text, result.text);
    }
    // Without a shape a refusal is an answer like any other.
    let scene = scene(None, vec![refused()]);
    let result = scene.end(scene.run()).await;
    assert_eq!((result.end.clone(), result.detail.as_deref()), (Ending::Completed, Some("the model refused")));
    assert!(matches!(result.parse::<Answer>(), Err(OutputError::Refused { .. })));
}

#[tokio::test]
async fn a_submission_of_a_cut_turn_cannot_be_trusted() {
    let cut = submits(json!({"n": 20})).with_stop(StopReason::MaxTokens);
    let scene = scene(CALLS_TOOLS, vec![cut, submits(json!({"n": 2000}))]);
    let result = scene.end(scene.run().output::<Answer>()).await;
    assert_eq!(result.parse::<Answer>().unwrap().n, 2000);
    assert_eq!(results(&result)[0].outcome.reason, Some(Reason::TurnCut));
}

#[tokio::test]
async fn limits_count_repairs() {
    let usage = Usage { input: 10, output: 5, ..Usage::default() };
    let scene = scene(None, vec![ScriptTurn::text("two").with_usage(usage), says(json!({"n": 2})).with_usage(usage)]);
    let limits = Limits { tokens: Some(15), ..Limits::default() };
    let result = scene.end(scene.run().output::<Answer>().limits(limits)).await;
    assert_eq!((result.end.clone(), result.turns, result.output.clone()), (Ending::LimitReached, 1, None));
    let error = result.parse::<Answer>().unwrap_err();
    assert!(matches!(&error, OutputError::NoAnswer { why: Some(why), .. } if why.contains("15 of 15")), "{error:?}");
}

#[tokio::test]
async fn a_shape_that_is_no_object_goes_out_as_a_field_of_one() {
    let list = || Output::of::<Vec<i64>>();
    let native = scene(NATIVE, vec![says(json!({"answer": [1, 2]}))]);
    let result = native.end(native.run().output_shape(list())).await;
    assert_eq!(result.parse::<Vec<i64>>().unwrap(), [1, 2]);
    assert_eq!(native.sent()[0].output.as_ref().unwrap().schema.as_value()["required"], json!(["answer"]));

    let called = scene(CALLS_TOOLS, vec![submits(json!([1])), submits(json!({"answer": [1, 2]}))]);
    let result = called.end(called.run().output_shape(list())).await;
    assert_eq!(result.parse::<Vec<i64>>().unwrap(), [1, 2]);

    let said = scene(CALLS_TOOLS, vec![says(json!([1, 2]))]);
    let result = said.end(said.run().output_shape(list())).await;
    assert_eq!(result.parse::<Vec<i64>>().unwrap(), [1, 2], "what was said in place of a call");

    let told = scene(None, vec![says(json!([1, 2]))]);
    let result = told.end(told.run().output_shape(list().strategy(OutputStrategy::PosthocParse))).await;
    assert_eq!(result.parse::<Vec<i64>>().unwrap(), [1, 2]);
}

#[tokio::test]
async fn what_may_be_missing_and_comes_as_null_is_missing() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "object", "properties": {"c/d": {"type": "integer"}}}},
        "required": ["b"]
    });
    let answer = json!({"a": null, "b": {"c/d": null}});
    let scene_of = || scene(NATIVE, vec![says(answer.clone()), says(answer.clone())]);
    let held = scene_of();
    let result = held.end(held.run().output_shape(Output::new("x", schema.clone()))).await;
    assert_eq!(result.output, Some(json!({"b": {}})), "a strict form has every field");
    let told = scene_of();
    let output = Output::new("x", schema).strategy(OutputStrategy::PosthocParse);
    let result = told.end(told.run().output_shape(output)).await;
    assert_eq!(result.output, None, "nobody told the model that null would do");
}

#[tokio::test]
async fn rounds_of_somebody_elses_tools_are_handed_back_and_an_answer_beside_them_counts() {
    let outer = ToolDefinition::new("outer", "Somebody else's.", Schema::empty_object(), Effect::Read);
    let asks = scene(CALLS_TOOLS, vec![ScriptTurn::call("outer", json!({}))]);
    let result = asks.end(asks.run().declare(outer.clone()).output::<Answer>()).await;
    assert_eq!((result.end.clone(), result.owed.len(), result.output.clone()), (Ending::HandedBack, 1, None));
    let sent = asks.sent();
    let names: Vec<&str> = sent[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, [FINAL_TOOL, "outer"], "a client's tools come after our own");

    let both = scene(CALLS_TOOLS, vec![ScriptTurn::call("outer", json!({})).and_call(FINAL_TOOL, json!({"n": 1}))]);
    let result = both.end(both.run().declare(outer).output::<Answer>()).await;
    assert_eq!((result.end.clone(), result.owed.len()), (Ending::Completed, 0));
    assert_eq!(result.parse::<Answer>().unwrap().n, 1);
}

#[tokio::test]
async fn readers_see_what_was_said_then_that_it_was_rejected() {
    let scene = scene(None, vec![ScriptTurn::text("two"), says(json!({"n": 2}))]);
    let handle = scene.run().output::<Answer>().start().await.unwrap();
    let mut events = handle.paced_events(Cursor::START);
    let mut kinds = Vec::new();
    while let Some(event) = events.next().await {
        kinds.push(event.unwrap().body.kind().to_owned());
    }
    let place = |kind: &str| kinds.iter().position(|one| one == kind).unwrap();
    assert!(place("model.text.delta") < place("model.completed"), "{kinds:?}");
    assert!(place("model.completed") < place("output.rejected"));
    assert_eq!(kinds.iter().filter(|kind| *kind == "model.text.delta").count(), 2);
    assert!(handle.wait().await.unwrap().output.is_some());
}

#[tokio::test]
async fn a_conversation_resolves_to_a_shape() {
    let scene = scene(NATIVE, vec![ScriptTurn::text("two"), says(json!({"n": 2, "note": null}))]);
    let mut chat = scene.runtime.chat("scripted:m");
    chat.add("how many?");
    let turn = chat.ask(|run| run.output::<Answer>()).await.unwrap();
    assert_eq!(turn.text(), "two", "an ask only asks");
    assert!(scene.sent()[0].output.is_some());
    let result = chat.resolve(|run| run.output::<Answer>()).await.unwrap();
    assert_eq!((result.parse::<Answer>().unwrap().n, result.turns), (2, 2));
    let users =
        chat.items().iter().filter(|item| matches!(&item.body, ItemBody::Message(m) if m.role == Role::User)).count();
    assert_eq!(users, 2, "the question, and what the model was told of its first answer");
}

#[tokio::test]
async fn a_failure_says_nothing_secret() {
    let secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD";
    let scene = scene(None, vec![says(json!({"n": secret}))]);
    let result = scene.end(scene.run().output_shape(Output::of::<Answer>().repairs(0))).await;
    let failure = result.failure.unwrap();
    assert!(!failure.message.contains(secret) && failure.message.contains("[redacted"), "{failure}");
}

#[tokio::test]
async fn a_run_that_is_taken_up_goes_the_way_it_was_started_with() {
    // The second process knows nothing of the model, and would have chosen another way.
    let world = world();
    let script = scripted(vec![ScriptTurn::call("work", json!({"word": "a"})), submits(json!({"n": 2}))]);
    let profile = Some(profile_of("deepseek", "deepseek-chat"));
    let knowing: Arc<dyn ModelProvider> = Arc::new(Knowing { script: script.clone(), profile, refuses_schemas: false });
    let first = world.builder(knowing).build();
    let (work, _) = echo_tool("work");
    let handle = first.run("scripted:m").input("?").tool(work.clone()).output::<Answer>().start().await.unwrap();
    let run = handle.id().clone();
    handle.leave();
    assert!(matches!(handle.wait().await, Err(RuntimeError::Left { .. })));
    let second = world.builder(script.clone()).build();
    let result = second.resume(run).tool(work).await.unwrap();
    assert!(script.requests().iter().all(|request| request.tools.last().unwrap().name.as_str() == FINAL_TOOL));
    world.check(&result).await;
    assert_eq!(result.parse::<Answer>().unwrap().n, 2);
    let journal = world.journal(&result.run).await;
    assert!(journal.events().any(|event| matches!(event.body, EventBody::RunResumed(_))));
}
