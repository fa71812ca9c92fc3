//! Answers that must have a shape, whatever way they come to the flow.

use crate::support::*;
use placet_core::{Effect, FINAL_TOOL, OutputStrategy, StopReason, ToolChoice};
use placet_flows::{Agent, Caller, Model, Output};
use placet_models::scripted::ScriptTurn;
use serde_json::{Value, json};

fn shape(strategy: OutputStrategy) -> Output {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    Output::new("answer", schema).strategy(strategy)
}

fn submits(value: Value) -> ScriptTurn {
    ScriptTurn::call(FINAL_TOOL, value)
}

#[tokio::test]
async fn an_answer_that_is_submitted_by_a_call_reaches_the_client_as_a_text() {
    let shape = || shape(OutputStrategy::FinalizerTool);
    // In one turn, and in rounds with tools.
    for rounds in [false, true] {
        let (look, ran) = counted("look", "ok", Effect::Read);
        let first = if rounds { vec![ScriptTurn::call("look", json!({}))] } else { Vec::new() };
        let answers = [submits(json!({"n": "one"})), submits(json!({"n": 1}))];
        let (world, model) = (world(), scripted(first.into_iter().chain(answers)));
        let agent = Agent::new().output_shape(shape());
        let flows = world.serve(if rounds { agent.grant(look) } else { agent }, &model);
        let turn = ask(&flows, world.request("how many?")).await.unwrap();
        assert_eq!((turn.text().as_str(), turn.calls().count(), turn.stop), ("{\"n\":1}", 0, StopReason::End));
        assert_eq!(count(&ran), usize::from(rounds));
        let last = model.requests().pop().unwrap();
        assert_eq!(last.tool_choice, ToolChoice::Tool(FINAL_TOOL.into()));
        assert!(told(&last).last().unwrap().contains("does not have the wanted shape"), "{:?}", told(&last));
    }
}

#[tokio::test]
async fn the_conversation_goes_on_without_the_call_that_submitted_an_answer() {
    let (look, _) = counted("look", "ok", Effect::Read);
    let turns = [ScriptTurn::call("look", json!({})), submits(json!({"n": 1})), submits(json!({"n": 2}))];
    let (world, model) = (world(), scripted(turns));
    let agent = Agent::new().grant(look).output_shape(shape(OutputStrategy::FinalizerTool)).handler(
        |caller: Caller, mut model: Model| async move {
            model.add(caller.messages()).with_own_tools().resolve().await?;
            model.say("and now?");
            caller.reply(model.resolve().await?.text().await?);
            Ok(())
        },
    );
    let flows = world.serve(agent, &model);
    assert_eq!(text(&flows, world.request("how many?")).await, "{\"n\":2}");
    let last = model.requests().pop().unwrap();
    assert_eq!(
        told(&last),
        ["user: how many?", "call look", "result look: ok", "assistant: {\"n\":1}", "user: and now?"]
    );
}

#[tokio::test]
async fn a_refusal_and_a_cut_answer_reach_the_client_as_they_are() {
    let (look, _) = counted("look", "ok", Effect::Read);
    for stop in [StopReason::Refusal, StopReason::MaxTokens] {
        for rounds in [false, true] {
            let said = ScriptTurn::text("I will n").with_stop(stop.clone());
            let (world, model) = (world(), scripted([said, ScriptTurn::text("{\"n\":1}")]));
            let agent = Agent::new().output_shape(shape(OutputStrategy::PosthocParseWithRetry));
            let flows = world.serve(if rounds { agent.grant(look.clone()) } else { agent }, &model);
            let turn = ask(&flows, world.request("how many?")).await.unwrap();
            assert_eq!((turn.text().as_str(), model.requests().len()), ("I will n", 1), "{stop:?} {rounds}");
        }
    }
}

#[tokio::test]
async fn repairs_are_bounded_over_the_rounds_of_a_resolve() {
    let (look, _) = counted("look", "ok", Effect::Read);
    let turns = [
        ScriptTurn::text("one"),
        ScriptTurn::call("look", json!({})),
        ScriptTurn::text("still one"),
        ScriptTurn::text("{\"n\":1}"),
    ];
    let (world, model) = (world(), scripted(turns));
    let agent = Agent::new().grant(look).output_shape(shape(OutputStrategy::PosthocParseWithRetry));
    let flows = world.serve(agent, &model);
    let error = ask(&flows, world.request("how many?")).await.unwrap_err();
    assert_eq!((error.code(), model.requests().len()), ("output_mismatch", 3));
    let told = told(&model.requests()[1]);
    assert!(told[1].starts_with("assistant: one") && told[2].contains("does not have the wanted shape"), "{told:?}");
}
