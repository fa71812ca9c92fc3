//! What a handler does with the two handles.

use crate::support::*;
use placet_core::{Arguments, ItemBody, Role, ToolCall};
use placet_flows::{Agent, Caller, Checkpoint, Flow, FlowError, Model};
use placet_models::scripted::ScriptTurn;
use serde_json::json;
use std::sync::Arc;

fn a_call(caller: &Caller, name: &str) -> ToolCall {
    let _ = caller;
    let env = placet_core::Env::system();
    ToolCall {
        id: env.new_id(),
        provider_id: None,
        name: name.into(),
        arguments: Arguments::from_text("{\"at\":9}"),
        native: None,
    }
}

#[tokio::test]
async fn a5_01_a_reply_goes_to_the_client_and_never_to_the_model() {
    let (world, model) = (world(), scripted([ScriptTurn::text("hello")]));
    let flows = world.serve(
        Agent::new().handler(|caller: Caller, mut model: Model| async move {
            caller.reply("one moment");
            model.ask_with(caller.messages()).await?.text().await?;
            caller.reply("done");
            Ok(())
        }),
        &model,
    );
    assert_eq!(text(&flows, world.request("hi")).await, "one moment\n\ndone");
    assert_eq!(told(&model.requests()[0]), ["user: hi"]);
}

#[tokio::test]
async fn a5_02_calls_leave_with_the_last_reply_as_one_message() {
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(
        Agent::new().handler(|caller: Caller, _: Model| async move {
            caller.call([a_call(&caller, "open")])?;
            caller.reply("let me see");
            caller.call([a_call(&caller, "close")])
        }),
        &model,
    );
    let turn = ask(&flows, world.request_with("hi", &["open", "close"])).await.unwrap();
    let kinds: Vec<_> = turn.items.iter().map(|item| item.body.kind().to_owned()).collect();
    assert_eq!(kinds, ["message", "tool_call", "tool_call"]);
    assert_eq!(turn.stop, placet_core::StopReason::ToolCalls);
    assert_eq!(turn.calls().map(|call| call.arguments.as_text()).collect::<Vec<_>>(), ["{\"at\":9}"; 2]);
}

#[tokio::test]
async fn a5_03_the_last_selection_counts() {
    let (world, model) = (world(), scripted([]));
    let router = Agent::new().exits(["a", "b"]).handler(|caller: Caller, _: Model| async move {
        caller.select("a");
        caller.select("b");
        Ok(())
    });
    let members = [Flow::agent(says("A")).with_id("a"), Flow::agent(says("B")).with_id("b")];
    let flows = world.serve(Flow::agent(router).next(Flow::select(members)), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "B");
}

#[tokio::test]
async fn a5_04_in_a_group_everybody_reads_and_writes_one_chat() {
    let (world, model) = (world(), scripted([]));
    let written = Checkpoint::new("written");
    let (writes, reads) = (written.clone(), written);
    let writer = Agent::new().handler(move |caller: Caller, _: Model| {
        let written = writes.clone();
        async move {
            caller.reply("the door is open");
            caller.reached(&written);
            Ok(())
        }
    });
    let reader = Agent::new().handler(move |caller: Caller, _: Model| {
        let written = reads.clone();
        async move {
            caller.wait(&written).await?;
            caller.reply(format!("heard: {}", caller.last_text()));
            Ok(())
        }
    });
    let flows = world.serve(Flow::group([Flow::agent(reader), Flow::agent(writer)]), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "the door is open\n\nheard: the door is open");
}

#[tokio::test]
async fn a5_05_a_later_flow_answers_an_earlier_flows_call() {
    let (world, model) = (world(), scripted([]));
    let asks = Agent::new().handler(|caller: Caller, _: Model| async move { caller.call([a_call(&caller, "open")]) });
    let answers = Agent::new().handler(|caller: Caller, _: Model| async move {
        let calls: Vec<ToolCall> = caller
            .messages()
            .iter()
            .filter_map(|item| match &item.body {
                ItemBody::ToolCall(call) => Some(call.clone()),
                _ => None,
            })
            .collect();
        calls.iter().for_each(|call| caller.answer(call, "opened"));
        caller.reply("it is open");
        Ok(())
    });
    let flows = world.serve(Flow::agent(asks).next(answers), &model);
    let turn = ask(&flows, world.request_with("hi", &["open"])).await.unwrap();
    assert_eq!((turn.text().as_str(), handed(&turn).len()), ("it is open", 0));
}

#[tokio::test]
async fn a5_06_what_a_handler_reads_of_the_client() {
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(
        Agent::new().handler(|caller: Caller, _: Model| async move {
            let results: Vec<String> = caller.tool_results().iter().map(|result| result.outcome.text()).collect();
            let first = caller.messages()[0].clone();
            let system = matches!(&first.body, ItemBody::Message(message) if message.role == Role::System);
            caller.reply(format!("{} {:?} {system} {}", caller.last_text(), results, caller.request().model));
            Ok(())
        }),
        &model,
    );
    let mut request = world.request("hi");
    request.instructions = Some("be kind".into());
    let call = ToolCall {
        id: world.env.new_id(),
        provider_id: Some("c1".into()),
        name: "open".into(),
        arguments: Arguments::from_text(""),
        native: None,
    };
    request.items.push(Arc::new(placet_core::Item::new(world.env.new_id(), placet_core::Origin::Model, call)));
    request.items.push(world.result("c1", "opened"));
    request.items.push(world.says(Role::User, "and?"));
    assert_eq!(text(&flows, request).await, "and? [\"opened\"] true house");
}

#[tokio::test]
async fn a5_07_a_call_of_a_tool_that_the_client_did_not_declare_is_an_error() {
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(
        Agent::new().handler(|caller: Caller, _: Model| async move { caller.call([a_call(&caller, "secret")]) }),
        &model,
    );
    let error = ask(&flows, world.request_with("hi", &["open"])).await.unwrap_err();
    assert_eq!(error.code(), "undeclared_tool");
    assert!(!error.client_message().contains("secret"), "{}", error.client_message());
}

#[tokio::test]
async fn a8_01_what_a_client_asks_for_is_context_and_never_applied_by_itself() {
    let (world, model) = (world(), scripted([ScriptTurn::text("ok")]));
    let flows = world.serve(
        Agent::new().handler(|caller: Caller, mut model: Model| async move {
            let controls = &caller.request().controls;
            let seen = format!("{:?} {:?} {:?}", controls.temperature, controls.max_output_tokens, controls.stop);
            model.ask_with(caller.messages()).await?.text().await?;
            caller.reply(seen);
            Ok(())
        }),
        &model,
    );
    let mut request = world.request_with("hi", &["open"]);
    request.controls.temperature = Some(0.25);
    request.controls.max_output_tokens = Some(7);
    request.controls.stop = vec!["END".into()];
    assert_eq!(text(&flows, request).await, "Some(0.25) Some(7) [\"END\"]");
    let sent = &model.requests()[0];
    assert_eq!(sent.controls, placet_core::turn::Controls::default());
    assert!(sent.tools.is_empty(), "tools are forwarded only where the handler says so");
}

#[tokio::test]
async fn a9_01_a_shape_is_sent_enforced_and_repaired_within_bounds() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Room {
        Kitchen,
        Hall,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Where {
        room: Room,
    }
    let answer = |room: &str| ScriptTurn::text(json!({"room": room}).to_string());
    let router = || {
        Agent::new().output::<Where>().handler(|caller: Caller, mut model: Model| async move {
            let found: Where = model.ask_with(caller.messages()).await?.extract().await?;
            caller.reply(match found.room {
                Room::Kitchen => "kitchen",
                Room::Hall => "hall",
            });
            Ok(())
        })
    };
    let (world, model) = (world(), scripted([answer("cellar"), answer("hall")]));
    let flows = world.serve(router(), &model);
    assert_eq!(text(&flows, world.request("where?")).await, "hall");
    let requests = model.requests();
    assert!(requests.iter().all(|request| request.output.as_ref().is_some_and(|output| output.strict)));
    assert!(told(&requests[1])[2].contains("does not have the wanted shape"), "{:?}", told(&requests[1]));

    let model = scripted([answer("cellar"), ScriptTurn::text("I think it is the hall")]);
    let flows = world.serve(router(), &model);
    let error = ask(&flows, world.request("where?")).await.unwrap_err();
    assert_eq!((error.code(), model.requests().len()), ("output_mismatch", 2));
}

#[tokio::test]
async fn a4_01_an_agent_without_a_handler_is_a_way_to_its_model() {
    let (world, model) = (world(), scripted([ScriptTurn::text("hello").and_call("open", json!({"at": 1}))]));
    let flows = world.serve(Agent::new(), &model);
    assert_eq!(flows.passes_through("house").map(|model| model.model).as_deref(), Some("m"));
    let mut request = world.request_with("hi", &["open"]);
    request.controls.temperature = Some(0.5);
    request.tool_choice = placet_core::ToolChoice::Required;
    let turn = ask(&flows, request).await.unwrap();
    assert_eq!((turn.text().as_str(), turn.calls().count()), ("hello", 1));
    let sent = &model.requests()[0];
    assert_eq!((sent.controls.temperature, tool_names(sent)), (Some(0.5), vec!["open".to_owned()]));
    assert_eq!(sent.tool_choice, placet_core::ToolChoice::Required);
}

#[tokio::test]
async fn a4_02_a_handler_turns_all_of_that_off() {
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(says("mine"), &model);
    assert!(flows.passes_through("house").is_none());
    assert_eq!(text(&flows, world.request_with("hi", &["open"])).await, "mine");
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn an_error_of_a_handler_reaches_the_client_without_names_of_ours() {
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(Flow::agent(fails("the vault /srv/vault is locked")).with_id("vault-keeper"), &model);
    let error = ask(&flows, world.request("hi")).await.unwrap_err();
    assert!(matches!(&error, FlowError::Shared(inner) if matches!(**inner, FlowError::Handler(_))), "{error:?}");
    assert_eq!(error.client_message(), "the model failed");
    assert!(error.to_string().contains("vault"));
}
