//! Stages, streaming, and what goes on behind the client's back.

use crate::support::*;
use futures_util::StreamExt;
use placet_core::turn::TextDelta;
use placet_core::{StopReason, TurnEvent};
use placet_flows::{Agent, Caller, Checkpoint, Exchange, Flow, Model};
use placet_models::scripted::ScriptTurn;
use serde_json::json;

/// Streams what its model says where it may; says so otherwise.
fn streams() -> Agent {
    Agent::new().handler(|caller: Caller, mut model: Model| async move {
        let reply = model.ask_with(caller.messages()).await?;
        match caller.stream().await? {
            Some(mut live) => live.pipe(&reply).await,
            None => {
                caller.reply(reply.text().await?);
                Ok(())
            }
        }
    })
}

fn pieces(text: &[&str]) -> ScriptTurn {
    ScriptTurn { text: text.iter().map(|piece| (*piece).to_owned()).collect(), ..ScriptTurn::default() }
}

async fn deltas(flows: &placet_flows::Flows, request: placet_core::TurnRequest) -> Vec<String> {
    let answer = flows.serve(Exchange::new(request).streaming()).await.unwrap();
    let events: Vec<TurnEvent> = answer.events().collect().await;
    let texts = events.into_iter().filter_map(|event| match event {
        TurnEvent::Text(TextDelta { text, .. }) => Some(text),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn a11_01_each_respond_delivers_what_was_said_since_the_last_one() {
    let (world, model) = (world(), scripted([]));
    let gate = Checkpoint::new("gate");
    let flow = Flow::agent(says("one")).next(Flow::respond()).next(says("two")).next(Flow::respond());
    let flows = world.serve(flow, &model);
    assert_eq!(text(&flows, world.request("hi")).await, "one\n\ntwo");
    assert_eq!(deltas(&flows, world.request("hi")).await, ["one", "\n\ntwo"]);
    let _ = gate;
}

#[tokio::test]
async fn a11_02_without_a_respond_the_last_step_is_the_answer() {
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(Flow::agent(says("thinking")).next(says("the answer")), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "the answer");
}

#[tokio::test]
async fn a11_03_live_text_exists_at_the_end_of_a_stage_only() {
    let turns = || (0..2).map(|_| pieces(&["a", "b", "c"]));
    let (world, model) = (world(), scripted(turns()));
    let flows = world.serve(Flow::agent(streams()).next(streams()).next(Flow::respond()), &model);
    assert_eq!(deltas(&flows, world.request("hi")).await, ["abc", "\n\na", "b", "c"]);
    let model = scripted(turns());
    let flows = world.serve(Flow::agent(streams()).next(Flow::respond()).next(streams()).next(Flow::respond()), &model);
    assert_eq!(deltas(&flows, world.request("hi")).await, ["a", "b", "c", "\n\na", "b", "c"]);
}

#[tokio::test]
async fn a11_04_the_first_who_claims_a_stage_has_it_and_the_next_stage_is_free_again() {
    let (world, model) = (world(), scripted([]));
    let claims = || {
        Agent::new().handler(|caller: Caller, _: Model| async move {
            let mut live = caller.stream().await?.expect("the first claim of a stage");
            live.write("live").await?;
            assert!(caller.stream().await?.is_none(), "claimed already");
            live.close();
            caller.reply("after");
            Ok(())
        })
    };
    let flows = world.serve(Flow::agent(claims()).next(Flow::respond()).next(claims()).next(Flow::respond()), &model);
    let turn = stream(&flows, world.request("hi")).await.unwrap();
    assert_eq!(turn.text(), "live\n\nafter\n\nlive\n\nafter");
}

#[tokio::test]
async fn a11_05_nobody_streams_beside_others_nor_to_a_client_that_does_not() {
    let (world, model) = (world(), scripted([]));
    let tries = || {
        Agent::new().handler(|caller: Caller, _: Model| async move {
            caller.reply(if caller.stream().await?.is_some() { "live" } else { "whole" });
            Ok(())
        })
    };
    for flow in [
        Flow::agents([tries(), tries()]),
        Flow::all([Flow::agent(tries())]),
        Flow::one([Flow::agent(tries())]),
        Flow::group([Flow::agent(tries())]),
    ] {
        let flows = world.serve(flow, &model);
        assert!(stream(&flows, world.request("hi")).await.unwrap().text().starts_with("whole"));
    }
    let flows = world.serve(tries(), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "whole");
    let select = Flow::select([Flow::agent(tries()).with_id("a")]);
    let flows = world.serve(Flow::agent(selects("a")).next(select), &model);
    assert_eq!(stream(&flows, world.request("hi")).await.unwrap().text(), "live", "a member of a selection may");
}

#[tokio::test]
async fn a11_06_what_is_written_live_is_kept_as_one_message() {
    let (world, model) = (world(), scripted([pieces(&["a", "b"])]));
    let log = Log::default();
    let reads = {
        let log = log.clone();
        Agent::new().handler(move |caller: Caller, _: Model| {
            let log = log.clone();
            async move {
                log.note(caller.last_text());
                Ok(())
            }
        })
    };
    let flows = world.serve(Flow::agent(streams()).next(Flow::respond()).next(reads).next(Flow::respond()), &model);
    assert_eq!(stream(&flows, world.request("hi")).await.unwrap().text(), "ab");
    assert_eq!(log.take(), ["ab"]);
}

#[tokio::test]
async fn a11_07_an_upstream_error_in_the_middle_ends_the_stream_with_an_error() {
    let broken =
        ScriptTurn { fail: ScriptTurn::fail(placet_core::ErrorKind::Overloaded, "busy").fail, ..pieces(&["par"]) };
    let (world, model) = (world(), scripted([broken]));
    let flows = world.serve(streams(), &model);
    let answer = flows.serve(Exchange::new(world.request("hi")).streaming()).await.unwrap();
    let events: Vec<TurnEvent> = answer.events().collect().await;
    assert!(
        matches!(events.last(), Some(TurnEvent::Failed(error)) if error.kind == placet_core::ErrorKind::Overloaded)
    );
    assert!(!events.iter().any(|event| matches!(event, TurnEvent::Finished(_))));
}

#[tokio::test]
async fn a11_08_calls_go_out_once_at_the_very_end_after_all_text() {
    let (world, model) = (world(), scripted([ScriptTurn::text("looking").and_call("open", json!({}))]));
    let flow = Flow::agent(Agent::new()).next(Flow::respond()).next(says("bye")).next(Flow::respond());
    let flows = world.serve(flow, &model);
    let answer = flows.serve(Exchange::new(world.request_with("hi", &["open"])).streaming()).await.unwrap();
    let kinds: Vec<String> = answer.events().map(|event| event.kind().to_owned()).collect().await;
    let calls: Vec<usize> = kinds.iter().enumerate().filter(|(_, kind)| *kind == "call").map(|(at, _)| at).collect();
    let last_text = kinds.iter().rposition(|kind| kind == "text").unwrap();
    assert!(calls.len() == 1 && calls[0] > last_text, "{kinds:?}");
    assert_eq!(answer.collect().await.unwrap().stop, StopReason::ToolCalls);
}

#[tokio::test]
async fn a11_09_a_reply_has_any_number_of_readers() {
    let (world, model) = (world(), scripted([pieces(&["a", "b", "c"])]));
    let flows = world.serve(streams(), &model);
    let answer = flows.serve(Exchange::new(world.request("hi")).streaming()).await.unwrap();
    let (early, late) = (answer.reply().events(), answer.reply().clone());
    assert_eq!(answer.collect().await.unwrap().text(), "abc");
    let count = early.collect::<Vec<_>>().await.len();
    assert_eq!(late.events().collect::<Vec<_>>().await.len(), count);
    assert_eq!(late.text().await.unwrap(), "abc");
}
