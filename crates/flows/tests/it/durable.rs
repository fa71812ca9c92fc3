//! Durable flows: what was done is not done again.

use crate::support::*;
use placet_core::{Diagnose, Effect, ErrorKind, RunId, TurnRequest};
use placet_flows::{Agent, Caller, Durable, Exchange, Flow, FlowError, Flows, Model, Notice, Principal};
use placet_models::ScriptedModel;
use placet_models::scripted::ScriptTurn;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn asks() -> Agent {
    Agent::new().handler(|caller: Caller, mut model: Model| async move {
        let reply = model.ask_with(caller.messages()).await?;
        caller.reply(reply.text().await?);
        Ok(())
    })
}

/// Fails until it is told not to.
fn brittle(sound: &Arc<AtomicBool>) -> Agent {
    let sound = sound.clone();
    Agent::new().handler(move |caller: Caller, _: Model| {
        let sound = sound.clone();
        async move {
            if !sound.load(Ordering::SeqCst) {
                return Err(FlowError::handler("not yet"));
            }
            caller.reply("third");
            Ok(())
        }
    })
}

fn durable(world: &World, flow: Flow, model: &Arc<ScriptedModel>) -> Flows {
    let named = flow.with_model("scripted:m").named("house").durable(Durable { retries: 2, ..Durable::default() });
    world.builder(model).flow(named).build().unwrap()
}

fn run() -> RunId {
    RunId::parse("run_mine").unwrap()
}

async fn serve(flows: &Flows, request: &TurnRequest) -> Result<String, FlowError> {
    let exchange = Exchange::new(request.clone()).run(run()).from(Principal::new("ada"));
    Ok(flows.serve(exchange).await?.collect().await?.text())
}

fn three(sound: &Arc<AtomicBool>) -> Flow {
    let stage = |agent: Agent| Flow::agent(agent).next(Flow::respond());
    stage(asks()).next(stage(asks())).next(stage(brittle(sound)))
}

#[tokio::test]
async fn a_retry_under_the_same_run_goes_on_and_tells_the_whole_answer() {
    let (world, model) = (world(), scripted([ScriptTurn::text("first"), ScriptTurn::text("second")]));
    let sound = Arc::new(AtomicBool::new(false));
    let flows = durable(&world, three(&sound), &model);
    let request = world.request("go");
    assert_eq!(serve(&flows, &request).await.unwrap_err().code(), "agent_failed");
    // Another process takes it up, and asks nothing again.
    sound.store(true, Ordering::SeqCst);
    let other = durable(&world, three(&sound), &model);
    assert_eq!(serve(&other, &request).await.unwrap(), "first\n\nsecond\n\nthird");
    assert_eq!(model.requests().len(), 2);
    // And once more: the answer is known.
    assert_eq!(serve(&flows, &request).await.unwrap(), "first\n\nsecond\n\nthird");
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn a_run_is_bound_to_who_asked_for_what_of_which_flow() {
    let (world, model) = (world(), scripted((0..4).map(|_| ScriptTurn::text("x"))));
    let sound = Arc::new(AtomicBool::new(true));
    let flows = durable(&world, three(&sound), &model);
    let request = world.request("go");
    serve(&flows, &request).await.unwrap();
    let differs = |error: FlowError| match error {
        FlowError::RunConflict { what, .. } => what,
        other => panic!("{other}"),
    };
    let other = Exchange::new(request.clone()).run(run()).from(Principal::new("bob"));
    let error = flows.serve(other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(differs(error), "principal");
    assert_eq!(differs(serve(&flows, &world.request("other")).await.unwrap_err()), "request");
    let changed = durable(&world, three(&sound).next(says("more")), &model);
    assert_eq!(differs(serve(&changed, &request).await.unwrap_err()), "flow");
    // The same request, decoded anew, is the same request.
    assert!(serve(&flows, &world.request("go")).await.is_ok());
}

#[tokio::test]
async fn a_failure_that_may_pass_is_tried_again_and_the_clock_decides_when() {
    let turns = [ScriptTurn::fail(ErrorKind::Overloaded, "busy"), ScriptTurn::text("ok")];
    let (world, model) = (world(), scripted(turns));
    let flows = durable(&world, Flow::agent(asks()), &model);
    let request = world.request("go");
    let exchange = Exchange::new(request).run(run()).from(Principal::new("ada"));
    let answer = flows.serve(exchange).await.unwrap();
    until(|| model.requests().len() == 1).await;
    // The wait may begin only now.
    let ticking = async {
        loop {
            world.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        turn = answer.collect() => assert_eq!(turn.unwrap().text(), "ok"),
        () = ticking => {}
    }
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn a_resolve_that_was_interrupted_runs_nothing_twice() {
    let (once, ran) = counted("pay", "paid", Effect::Once);
    let turns = [ScriptTurn::call("pay", json!({})), ScriptTurn::text("paid")];
    let (world, model) = (world(), scripted(turns));
    let sound = Arc::new(AtomicBool::new(false));
    let flow = |sound: &Arc<AtomicBool>| {
        Flow::agent(Agent::new().grant(once.clone())).next(brittle(sound)).next(Flow::respond())
    };
    let flows = durable(&world, flow(&sound), &model);
    let request = world.request("pay");
    assert!(serve(&flows, &request).await.is_err());
    sound.store(true, Ordering::SeqCst);
    assert_eq!(serve(&durable(&world, flow(&sound), &model), &request).await.unwrap(), "paid\n\nthird");
    assert_eq!((count(&ran), model.requests().len()), (1, 2));
}

#[tokio::test]
async fn what_is_kept_is_gone_after_its_time() {
    let (world, model) = (world(), scripted((0..4).map(|_| ScriptTurn::text("x"))));
    let flows = durable(&world, Flow::agent(asks()), &model);
    serve(&flows, &world.request("go")).await.unwrap();
    world.clock.advance(Durable::default().ttl);
    assert_eq!(flows.scheduler().run_due().await.unwrap(), 1);
    // The id may be used anew.
    assert!(serve(&flows, &world.request("something else")).await.is_ok());
}

#[tokio::test]
async fn a15_33_a_notification_is_not_sent_again() {
    let (world, model) = (world(), scripted([]));
    let (log, sound) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let flow = |sound: &Arc<AtomicBool>| {
        let log = log.clone();
        let notify = Flow::notify(move |notice: Notice| {
            let log = log.clone();
            async move {
                log.note(notice.key);
                Ok(())
            }
        });
        Flow::agent(says("ready")).next(notify).next(brittle(sound)).next(Flow::respond())
    };
    let request = world.request("go");
    assert!(serve(&durable(&world, flow(&sound), &model), &request).await.is_err());
    sound.store(true, Ordering::SeqCst);
    assert_eq!(serve(&durable(&world, flow(&sound), &model), &request).await.unwrap(), "ready\n\nthird");
    assert_eq!(log.take().len(), 1);
}

#[tokio::test]
async fn two_requests_of_one_run_at_the_same_time_read_one_answer() {
    let (world, model) = (world(), scripted([ScriptTurn::text("one"), ScriptTurn::text("two")]));
    let flows = durable(&world, Flow::agent(asks()), &model);
    let request = world.request("go");
    let both = futures_util::future::join_all((0..5).map(|_| serve(&flows, &request))).await;
    assert!(both.into_iter().all(|answer| answer.unwrap() == "one"));
    assert_eq!(model.requests().len(), 1);
}
