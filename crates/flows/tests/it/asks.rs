//! Asking a model, and going round after round.

use crate::support::*;
use placet_core::{Diagnose, Effect, ErrorKind, ToolChoice};
use placet_flows::{Agent, Caller, Flow, FlowError, MixedRounds, Model, ModelSpec, Models};
use placet_models::scripted::ScriptTurn;
use placet_tools::{NoArguments, ToolError, tool};
use serde_json::json;

fn alone(world: &World, model: &std::sync::Arc<placet_models::ScriptedModel>) -> Model {
    Model::alone(&world.runtime(model), "scripted:m")
}

#[tokio::test]
async fn a6_01_what_an_ask_sends_is_role_then_group_then_what_was_added() {
    let (world, model) = (world(), scripted([ScriptTurn::text("a"), ScriptTurn::text("b")]));
    let asker = Agent::new().role("You keep the house.").handler(|caller: Caller, mut model: Model| async move {
        caller.reply("before");
        model.say("what now?");
        let reply = model.ask().await?;
        caller.reply(reply.text().await?);
        Ok(())
    });
    let flows = world.serve(Flow::group([Flow::agent(asker)]), &model);
    text(&flows, world.request("hi")).await;
    let sent = &model.requests()[0];
    assert_eq!(sent.instructions.as_deref(), Some("You keep the house."));
    assert_eq!(told(sent), ["user: hi", "assistant: before", "user: what now?"]);
}

#[tokio::test]
async fn a6_02_an_asks_reply_is_not_added_by_itself_and_a_resolves_rounds_are() {
    let (sensor, ran) = sensor();
    let turns = [
        ScriptTurn::text("one"),
        ScriptTurn::call("read_sensor", json!({})),
        ScriptTurn::text("it is warm"),
        ScriptTurn::text("bye"),
    ];
    let (world, model) = (world(), scripted(turns));
    let mut chat = alone(&world, &model);
    chat.say("hi").ask().await.unwrap().text().await.unwrap();
    assert_eq!(chat.messages().len(), 1);
    chat.with_tools([sensor]);
    assert_eq!(chat.resolve().await.unwrap().text().await.unwrap(), "it is warm");
    assert_eq!((chat.messages().len(), count(&ran)), (4, 1));
    chat.ask().await.unwrap().text().await.unwrap();
    let last = model.requests().last().unwrap().clone();
    assert_eq!(
        told(&last),
        ["user: hi", "call read_sensor", "result read_sensor: 21 degrees", "assistant: it is warm"]
    );
}

#[tokio::test]
async fn a6_03_tools_and_choice_hold_for_one_ask_only() {
    let (world, model) = (world(), scripted([ScriptTurn::text("a"), ScriptTurn::text("b")]));
    let mut chat = alone(&world, &model);
    chat.say("hi").with_tools([sensor().0]).with_tool_choice(ToolChoice::Required);
    chat.ask().await.unwrap().text().await.unwrap();
    chat.ask().await.unwrap().text().await.unwrap();
    let requests = model.requests();
    assert_eq!((tool_names(&requests[0]).len(), requests[0].tool_choice.clone()), (1, ToolChoice::Required));
    assert_eq!((tool_names(&requests[1]).len(), requests[1].tool_choice.clone()), (0, ToolChoice::Auto));
}

#[tokio::test]
async fn a6_04_the_agents_own_tools_come_first_and_the_clients_last_with_the_clients_choice() {
    let (world, model) = (world(), scripted([ScriptTurn::text("a"), ScriptTurn::text("b")]));
    let agent = Agent::new().grant(sensor().0).handler(|_: Caller, mut model: Model| async move {
        model.say("hi").forward_tools().with_own_tools();
        model.ask().await?.text().await?;
        Ok(())
    });
    let flows = world.serve(agent, &model);
    let mut request = world.request_with("hi", &["b", "a"]);
    request.tool_choice = ToolChoice::Tool("a".into());
    ask(&flows, request).await.unwrap();
    let sent = &model.requests()[0];
    assert_eq!(tool_names(sent), ["read_sensor", "b", "a"]);
    assert_eq!(sent.tool_choice, ToolChoice::Tool("a".into()));
    // Byte for byte the same each time, whatever the client declares after them.
    ask(&flows, world.request("hi")).await.unwrap();
    let again = &model.requests()[1];
    assert_eq!(serde_json::to_string(&sent.tools[0]).unwrap(), serde_json::to_string(&again.tools[0]).unwrap());
}

#[tokio::test]
async fn a6_05_what_is_wrong_is_told_before_anything_is_sent() {
    let (world, model) = (world(), scripted([]));
    let mut nobody = Model::of_agent(&world.runtime(&model), Agent::new());
    assert_eq!(nobody.say("hi").ask().await.unwrap_err().kind(), ErrorKind::Wiring);
    let mut unknown = Model::alone(&world.runtime(&model), ModelSpec::tagged(["fast"]));
    assert!(unknown.say("hi").ask().await.unwrap_err().to_string().contains("[fast]"));
    let broken = tool("", "No name.", |_: NoArguments, _| async move { "x" }).build();
    let mut chat = alone(&world, &model);
    let error = chat.say("hi").with_tools([broken]).ask().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Wiring);
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn a6_06_an_upstreams_error_comes_from_the_ask() {
    let (world, model) = (world(), scripted([ScriptTurn::fail(ErrorKind::RateLimited, "slow down, sk-12345")]));
    let error = alone(&world, &model).say("hi").ask().await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::RateLimited, "upstream"));
    assert!(!error.client_message().contains("sk-"), "{}", error.client_message());
}

#[tokio::test]
async fn a6_r2_a_round_without_calls_is_the_answer() {
    let (world, model) = (world(), scripted([ScriptTurn::text("at once")]));
    let mut chat = alone(&world, &model);
    assert_eq!(chat.say("hi").resolve().await.unwrap().text().await.unwrap(), "at once");
}

#[tokio::test]
async fn a6_r3_one_call_without_a_handler_and_nothing_of_the_round_runs() {
    let (sensor, ran) = sensor();
    let (world, model) = (world(), scripted([ScriptTurn::call("read_sensor", json!({})).and_call("open", json!({}))]));
    let agent = Agent::new().grant(sensor).mixed_rounds(MixedRounds::HandBack);
    let agent = agent.handler(|caller: Caller, mut model: Model| async move {
        let reply = model.add(caller.messages()).with_own_tools().forward_tools().resolve().await?;
        let names: Vec<String> = reply.calls().await?.iter().map(|call| call.name.to_string()).collect();
        caller.reply(names.join(" "));
        Ok(())
    });
    let flows = world.serve(agent, &model);
    assert_eq!(text(&flows, world.request_with("hi", &["open"])).await, "read_sensor open");
    assert_eq!(count(&ran), 0);
}

#[tokio::test]
async fn a6_r4_a_handlers_failure_is_a_result_and_the_loop_goes_on() {
    let broken =
        tool("break", "Breaks.", |_: NoArguments, _| async move { Err::<String, _>(ToolError::failed("no power")) });
    let (world, model) = (world(), scripted([ScriptTurn::call("break", json!({})), ScriptTurn::text("I see")]));
    let mut chat = alone(&world, &model);
    chat.say("hi").with_tools([broken.build()]);
    assert_eq!(chat.resolve().await.unwrap().text().await.unwrap(), "I see");
    assert!(told(&model.requests()[1])[2].contains("no power"));
}

#[tokio::test]
async fn a6_r5_the_results_of_a_round_come_in_the_order_of_its_calls() {
    let (one, _) = counted("one", "1", Effect::Read);
    let (two, _) = counted("two", "2", Effect::Read);
    let (world, model) =
        (world(), scripted([ScriptTurn::call("two", json!({})).and_call("one", json!({})), ScriptTurn::text("ok")]));
    let mut chat = alone(&world, &model);
    chat.say("hi").with_tools([one, two]).resolve().await.unwrap();
    assert_eq!(told(&model.requests()[1])[1..], ["call two", "call one", "result two: 2", "result one: 1"]);
}

#[tokio::test]
async fn a6_r6_beyond_the_most_rounds_no_handler_runs_and_the_error_says_so() {
    let (sensor, ran) = sensor();
    let (world, model) = (world(), scripted((0..9).map(|_| ScriptTurn::call("read_sensor", json!({})))));
    let mut chat = alone(&world, &model);
    let error = chat.say("hi").with_tools([sensor]).with_max_rounds(2).resolve().await.unwrap_err();
    assert_eq!(error.code(), "limit_reached");
    assert_eq!((count(&ran), model.requests().len()), (2, 3), "every result was read by the model");
}

#[tokio::test]
async fn a6_r7_a_replys_usage_is_the_runs_and_what_was_spent_is_everything() {
    let usage = |input| placet_core::Usage { input, output: 1, ..placet_core::Usage::default() };
    let turns = [
        ScriptTurn::text("a").with_usage(usage(5)),
        ScriptTurn::call("read_sensor", json!({})).with_usage(usage(10)),
        ScriptTurn::text("b").with_usage(usage(20)),
    ];
    let (world, model) = (world(), scripted(turns));
    let mut chat = alone(&world, &model);
    chat.say("hi").ask().await.unwrap().text().await.unwrap();
    chat.with_tools([sensor().0]);
    let reply = chat.resolve().await.unwrap();
    assert_eq!(reply.usage().await.unwrap().map(|usage| usage.input), Some(30));
    assert_eq!(chat.spent().input, 35);
}

#[tokio::test]
async fn a6_t1_a_tool_that_crossed_the_wire_never_gains_a_handler() {
    let (open, ran) = counted("open", "opened", Effect::Once);
    let (world, model) = (world(), scripted([ScriptTurn::call("open", json!({}))]));
    // The handler holds a tool of that name, and forwards the client's all the same.
    let agent = Agent::new().grant(open).handler(|caller: Caller, mut model: Model| async move {
        let reply = model.add(caller.messages()).forward_tools().resolve().await?;
        caller.call(reply.calls().await?)
    });
    let flows = world.serve(agent, &model);
    let turn = ask(&flows, world.request_with("hi", &["open"])).await.unwrap();
    assert_eq!((handed(&turn).len(), count(&ran)), (1, 0));
}

#[tokio::test]
async fn a6_t2_wrong_arguments_are_a_result_that_says_what_is_wrong() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Say {
        word: String,
    }
    let echo = tool("echo", "Says it again.", |say: Say, _| async move { say.word }).effect(Effect::Read).build();
    let (world, model) = (world(), scripted([ScriptTurn::call("echo", json!({"word": 5})), ScriptTurn::text("oh")]));
    let mut chat = alone(&world, &model);
    chat.say("hi").with_tools([echo]).resolve().await.unwrap();
    let result = &told(&model.requests()[1])[2];
    assert!(result.contains("/word"), "{result}");
}

#[tokio::test]
async fn a3_01_the_ladder_is_climbed_over_the_tree() {
    let (world, model) = (world(), scripted((0..4).map(|_| ScriptTurn::text("x"))));
    let asks = |agent: Agent| {
        agent.handler(|_: Caller, mut model: Model| async move {
            model.say("hi");
            model.ask().await?.text().await?;
            Ok(())
        })
    };
    let tree = Flow::all([
        Flow::agent(asks(Agent::new().model("scripted:own"))).with_model("scripted:flow"),
        Flow::agent(asks(Agent::new())).with_model("scripted:flow"),
        Flow::agent(asks(Agent::new())),
    ])
    .with_model("scripted:around");
    let flows = world
        .builder(&model)
        .models(Models::new().register("scripted:registered", ["any"]))
        .flow(tree.named("house"))
        .flow(Flow::agent(asks(Agent::new())).named("bare"))
        .build()
        .unwrap();
    ask(&flows, world.request("hi")).await.unwrap();
    let mut request = world.request("hi");
    request.model = "bare".into();
    ask(&flows, request).await.unwrap();
    let mut asked: Vec<String> = model.requests().iter().map(|request| request.model.clone()).collect();
    asked[..3].sort();
    assert_eq!(asked, ["around", "flow", "own", "registered"]);
}

#[tokio::test]
async fn a6_07_a_client_tool_with_the_name_of_one_of_ours_is_refused_by_name() {
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(Agent::new().grant(sensor().0), &model);
    let error = ask(&flows, world.request_with("hi", &["read_sensor"])).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("tool_name_clash", ErrorKind::InvalidRequest));
    assert!(error.client_message().contains("read_sensor"));
    assert!(model.requests().is_empty());
    assert!(!matches!(error, FlowError::Internal { .. }));
}
