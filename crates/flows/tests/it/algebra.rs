//! The algebra of flows.

use crate::support::*;
use placet_core::ErrorKind;
use placet_flows::{Agent, Caller, Checkpoint, Flow, FlowError, Model, Notice};
use placet_models::scripted::ScriptTurn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Says how many messages it was handed, after a while.
fn counts(label: &'static str) -> Agent {
    Agent::new().handler(move |caller: Caller, _: Model| async move {
        caller.reply(format!("{label}{}", caller.messages().len()));
        Ok(())
    })
}

#[tokio::test]
async fn a10_agents_of_one_flow_get_the_same_chat_and_speak_in_their_order() {
    let (world, model) = (world(), scripted([]));
    let gate = Checkpoint::new("gate");
    let (open, wait) = (gate.clone(), gate);
    let slow = Agent::new().handler(move |caller: Caller, _: Model| {
        let wait = wait.clone();
        async move {
            caller.wait(&wait).await?;
            caller.reply(format!("slow{}", caller.messages().len()));
            Ok(())
        }
    });
    let quick = Agent::new().handler(move |caller: Caller, _: Model| {
        let open = open.clone();
        async move {
            caller.reply(format!("quick{}", caller.messages().len()));
            caller.reached(&open);
            Ok(())
        }
    });
    let flows = world.serve(Flow::agents([slow, quick]), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "slow1\n\nquick1");
}

#[tokio::test]
async fn a10_the_first_error_of_several_agents_cancels_the_rest() {
    let (world, model) = (world(), scripted([]));
    let waits =
        Agent::new().handler(|caller: Caller, _: Model| async move { caller.wait(&Checkpoint::new("never")).await });
    let flows = world.serve(Flow::agents([waits, fails("no")]), &model);
    assert_eq!(ask(&flows, world.request("hi")).await.unwrap_err().code(), "agent_failed");
}

#[tokio::test]
async fn a10_two_agents_that_select_differently_are_an_error_and_alike_are_none() {
    let (world, model) = (world(), scripted([]));
    let select = || Flow::select([Flow::agent(says("A")).with_id("a"), Flow::agent(says("B")).with_id("b")]);
    let flows = world.serve(Flow::agents([selects("a"), selects("b")]).next(select()), &model);
    assert_eq!(ask(&flows, world.request("hi")).await.unwrap_err().code(), "selection");
    let flows = world.serve(Flow::agents([selects("a"), selects("a")]).next(select()), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "A");
    let flows = world.serve(Flow::all([Flow::agent(selects("a")), Flow::agent(selects("b"))]).next(select()), &model);
    assert_eq!(ask(&flows, world.request("hi")).await.unwrap_err().code(), "selection");
}

#[tokio::test]
async fn a10_next_threads_the_chat() {
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(Flow::agent(counts("a")).next(counts("b")).next(Flow::respond()), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "a1\n\nb2");
}

#[tokio::test]
async fn a10_select_takes_the_member_that_was_selected_or_none_or_says_what_there_is() {
    let (world, model) = (world(), scripted([]));
    let select = || Flow::select([Flow::agent(says("A")).with_id("a"), Flow::agent(says("?"))]);
    let flows = world.serve(Flow::agent(selects("a")).next(select()), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "A");
    let flows = world.serve(Flow::agent(says("first")).next(select()), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "first", "nothing selected, nothing run");
    let flows = world.serve(Flow::agent(selects("c")).next(select()), &model);
    let error = ask(&flows, world.request("hi")).await.unwrap_err();
    assert!(error.to_string().contains("\"c\"") && error.to_string().contains("there are a"), "{error}");
    // It is used up on the way in.
    let flows = world.serve(Flow::agent(selects("a")).next(select()).next(select()).next(Flow::respond()), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "A");
}

#[tokio::test]
async fn a10_all_run_on_chats_of_their_own_and_are_put_together_in_their_order() {
    let (world, model) = (world(), scripted([]));
    let members = [Flow::agent(counts("a")).next(counts("a")), Flow::agent(counts("b"))];
    let flows = world.serve(Flow::all(members).next(Flow::respond()), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "a1\n\na2\n\nb1");
    let flows = world.serve(Flow::all([Flow::agent(says("fine")), Flow::agent(fails("no"))]), &model);
    assert_eq!(ask(&flows, world.request("hi")).await.unwrap_err().code(), "agent_failed");
}

#[tokio::test]
async fn a10_one_takes_the_first_that_succeeds_and_nothing_of_the_others_counts() {
    let (world, model) = (world(), scripted([]));
    let schedules = Agent::new().handler(|caller: Caller, _: Model| async move {
        caller.schedule(placet_flows::WorkTime::Now, "house", serde_json::Value::Null)?;
        caller.reply("too late");
        caller.wait(&Checkpoint::new("never")).await
    });
    let flows = world.serve(Flow::one([Flow::agent(schedules), Flow::agent(says("me"))]), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "me");
    assert!(flows.scheduler().list(None, 10).await.unwrap().is_empty(), "what a loser scheduled is dropped");
    let flows = world.serve(Flow::one([Flow::agent(fails("a")), Flow::agent(fails("b"))]), &model);
    assert_eq!(ask(&flows, world.request("hi")).await.unwrap_err().code(), "agent_failed");
}

#[tokio::test]
async fn a10_notify_sends_the_last_text_passes_the_chat_on_and_fails_the_run_where_it_fails() {
    let (world, model) = (world(), scripted([]));
    let log = Log::default();
    let sends = {
        let log = log.clone();
        Flow::notify(move |notice: Notice| {
            let log = log.clone();
            async move {
                log.note(notice.text);
                Ok(())
            }
        })
    };
    let flows = world.serve(Flow::agent(says("ready")).next(sends).next(counts("n")).next(Flow::respond()), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "ready\n\nn2");
    assert_eq!(log.take(), ["ready"]);
    let failing = Flow::notify(|_: Notice| async move { Err(FlowError::handler("no line")) });
    let flows = world.serve(Flow::agent(says("ready")).next(failing), &model);
    assert_eq!(ask(&flows, world.request("hi")).await.unwrap_err().code(), "agent_failed");
}

#[tokio::test]
async fn a10_a_checkpoint_is_reached_once_and_waiting_ends_with_the_exchange() {
    let (world, model) = (world(), scripted([]));
    let waits = Agent::new().handler(|caller: Caller, _: Model| async move {
        let gate = Checkpoint::new("gate");
        caller.reached(&gate);
        caller.reached(&gate);
        caller.wait(&gate).await?;
        caller.reply("through");
        caller.wait(&Checkpoint::new("other")).await
    });
    let flows = world.serve(waits, &model);
    let cancel = tokio_util::sync::CancellationToken::new();
    let exchange = placet_flows::Exchange::new(world.request("hi")).cancelled_by(cancel.clone());
    let answer = flows.serve(exchange).await.unwrap();
    tokio::task::yield_now().await;
    cancel.cancel();
    assert_eq!(answer.collect().await.unwrap_err().code(), "cancelled");
}

#[tokio::test]
async fn a10_everything_that_is_wrong_is_told_at_once_before_anything_is_served() {
    let (world, model) = (world(), scripted([]));
    let flow = Flow::agent(Agent::new())
        .next(Flow::agent(Agent::new().model("nobody:x").exits(["gone"])))
        .next(Flow::select([Flow::agent(says("a")).with_id("a")]))
        .next(Flow::all([Flow::agent(says("x")).next(Flow::respond())]))
        .next(Flow::trigger(placet_flows::Trigger::every("nonsense", "UTC")))
        .next(Flow::trigger(placet_flows::Trigger::webhook("bell")))
        .next(Flow::trigger(placet_flows::Trigger::webhook("bell")));
    let built = world.builder(&model).flow(flow.named("house")).flow(Flow::agent(says("x")).named("house")).build();
    let Err(FlowError::Wiring { problems }) = built else { panic!("{built:?}") };
    let all = problems.0.join("\n");
    for wanted in [
        "no model on any rung",
        "there is no provider \"nobody\"",
        "may select \"gone\"",
        "cannot be delivered",
        "is no cron expression",
        "two webhooks of the id \"bell\"",
        "two flows have the name \"house\"",
    ] {
        assert!(all.contains(wanted), "{wanted} is not in\n{all}");
    }
    assert!(matches!(world.builder(&model).build(), Err(FlowError::Wiring { .. })), "nothing to serve");
}

#[tokio::test]
async fn a10_an_id_and_a_model_stand_with_every_kind_of_flow() {
    let (world, model) = (world(), scripted([ScriptTurn::text("from the second")]));
    let members = Flow::all([Flow::agent(Agent::new())]).with_id("second").with_model("scripted:second");
    let flows = world.serve(Flow::agent(selects("second")).next(Flow::select([members])), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "from the second");
    assert_eq!(model.requests()[0].model, "second");
}

#[tokio::test]
async fn flows_are_served_by_name_in_order_and_the_default_answers_for_the_rest() {
    let (world, model) = (world(), scripted([]));
    let flows =
        world.builder(&model).flow(Flow::agent(says("z")).named("zeta")).flow(Flow::agent(says("a")).named("alpha"));
    let named = flows.build().unwrap();
    assert_eq!(named.names().collect::<Vec<_>>(), ["zeta", "alpha"]);
    let error = ask(&named, world.request("hi")).await.unwrap_err();
    assert!(matches!(&error, FlowError::UnknownFlow { name } if name == "house"), "{error}");
    let flows = world.builder(&model).default_flow(Flow::agent(says("d")).named("default")).build().unwrap();
    assert_eq!(text(&flows, world.request("hi")).await, "d");
    assert_eq!(flows.name_for("anything").unwrap(), "default");
    let _ = ErrorKind::NotFound;
}

#[tokio::test]
async fn every_start_has_one_end_whatever_happens() {
    let (world, model) = (world(), scripted([]));
    let panics = Agent::new().handler(|_: Caller, _: Model| async move { panic!("boom") });
    let tries = Arc::new(AtomicUsize::new(0));
    for agent in [says("x"), fails("no"), panics] {
        let flows = world.serve(Flow::all([Flow::agent(agent), Flow::agent(says("y"))]), &model);
        let _ = ask(&flows, world.request("hi")).await;
        tries.fetch_add(1, Ordering::SeqCst);
    }
    let mut open = std::collections::HashMap::<(String, String), i32>::new();
    for event in world.seen.events() {
        let place = (event.run.to_string(), event.path.clone());
        match event.what {
            placet_flows::FlowHappening::Started => *open.entry(place).or_default() += 1,
            placet_flows::FlowHappening::Ended { .. } => *open.entry(place).or_default() -= 1,
            _ => {}
        }
    }
    assert!(open.len() >= 6 && open.values().all(|balance| *balance == 0), "{open:?}");
}
