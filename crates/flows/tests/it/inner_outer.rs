//! Tools of ours and tools of the client in one conversation.

use crate::support::*;
use placet_core::{Diagnose, Effect, ErrorKind, StopReason, TurnEvent};
use placet_flows::{Agent, Caller, Exchange, Flow, MixedRounds, Model, Principal};
use placet_models::scripted::ScriptTurn;
use serde_json::json;
use std::sync::Arc;

fn house(tool: placet_tools::BoundTool) -> Agent {
    Agent::new().role("You keep the house.").grant(tool)
}

fn mixed() -> ScriptTurn {
    ScriptTurn::text("Let me look.").and_call("read_sensor", json!({})).and_call("open_calendar", json!({"day": 1}))
}

#[tokio::test]
async fn law_6_7_a_mixed_round_is_suspended_and_made_whole_when_the_client_has_answered() {
    for streaming in [false, true] {
        let (sensor, ran) = sensor();
        let (world, model) = (world(), scripted([mixed(), ScriptTurn::text("It is 21 degrees and you are free.")]));
        let flows = world.serve(house(sensor), &model);
        let request = world.request_with("may I go out?", &["open_calendar"]);
        let exchange = |request: &placet_core::TurnRequest| {
            let exchange = Exchange::new(request.clone());
            if streaming { exchange.streaming() } else { exchange }
        };
        let answer = flows.serve(exchange(&request)).await.unwrap();
        let first = answer.collect().await.unwrap();
        let calls = handed(&first);
        assert_eq!(
            (first.text().as_str(), calls.len(), first.stop.clone()),
            ("Let me look.", 1, StopReason::ToolCalls)
        );
        assert_eq!(calls[0].1, "open_calendar");
        let told_all = serde_json::to_string(&answer.reply().events().collect_all().await).unwrap();
        assert!(!told_all.contains("read_sensor"), "{told_all}");
        assert_eq!(count(&ran), 0, "nothing ran before the round could be whole");

        let next = world.next(&request, &first, &[(&calls[0].0, "free all day")]);
        let second = flows.serve(exchange(&next)).await.unwrap().collect().await.unwrap();
        assert_eq!((second.text().as_str(), handed(&second).len()), ("It is 21 degrees and you are free.", 0));
        assert_eq!(second.stop, StopReason::End);
        assert_eq!(count(&ran), 1);
        let sent = &model.requests()[1];
        assert_eq!(
            told(sent),
            [
                "user: may I go out?",
                "assistant: Let me look.",
                "call read_sensor",
                "call open_calendar",
                "result read_sensor: 21 degrees",
                "result open_calendar: free all day",
            ]
        );
        assert_eq!(sent.instructions.as_deref(), Some("You keep the house."));

        // The rounds stay in the model's history for as long as the client goes on.
        let mut third = world.next(&next, &second, &[]);
        third.items.push(world.item("thanks"));
        let _ = ask(&flows, third).await;
        let sent = &model.requests()[2];
        assert_eq!(told(sent)[1..6], told(&model.requests()[1])[1..6]);
        assert_eq!(count(&ran), 1);
    }
}

trait CollectAll {
    async fn collect_all(self) -> Vec<TurnEvent>;
}

impl CollectAll for placet_flows::ReplyEvents {
    async fn collect_all(mut self) -> Vec<TurnEvent> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

/// An exchange that was suspended: its flows, its model, what the client knows.
struct Waiting {
    world: World,
    model: Arc<placet_models::ScriptedModel>,
    flows: placet_flows::Flows,
    request: placet_core::TurnRequest,
    first: placet_core::Turn,
    ran: Arc<std::sync::atomic::AtomicUsize>,
}

async fn waiting(effect: Effect, turns: Vec<ScriptTurn>, tools: &[&str]) -> Waiting {
    let (world, model) = (world(), scripted(turns));
    let (tool, ran) = counted("read_sensor", "21 degrees", effect);
    let flows = world.serve(house(tool), &model);
    let request = world.request_with("may I?", tools);
    let first = ask(&flows, request.clone()).await.unwrap();
    Waiting { world, model, flows, request, first, ran }
}

impl Waiting {
    fn id(&self, place: usize) -> String {
        handed(&self.first)[place].0.clone()
    }

    fn answer(&self, results: &[(&str, &str)]) -> placet_core::TurnRequest {
        self.world.next(&self.request, &self.first, results)
    }
}

#[tokio::test]
async fn an_exchange_with_the_clients_tools_only_keeps_nothing() {
    let turns = vec![ScriptTurn::call("open_calendar", json!({})), ScriptTurn::text("free")];
    let waits = waiting(Effect::Read, turns, &["open_calendar"]).await;
    let key = placet_store::Key::new(&placet_store::Tenant::new("")).text("flow-suspended");
    let cells = waits.world.store.cells(&key, None, placet_store::Direction::Forward, 10).await.unwrap();
    assert!(cells.is_empty(), "{cells:?}");
    // Any process can answer the next request.
    let other = waits.world.serve(house(sensor().0), &waits.model);
    let next = waits.answer(&[(&waits.id(0), "nothing")]);
    assert_eq!(text(&other, next).await, "free");
}

#[tokio::test]
async fn partial_results_are_refused_with_the_ids_that_are_missing() {
    let turns = vec![mixed().and_call("open_door", json!({})), ScriptTurn::text("ok")];
    let waits = waiting(Effect::Once, turns, &["open_calendar", "open_door"]).await;
    let error = ask(&waits.flows, waits.answer(&[(&waits.id(0), "free")])).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("missing_results", ErrorKind::InvalidRequest));
    assert!(error.client_message().contains(&waits.id(1)));
    assert_eq!(count(&waits.ran), 0);
    let whole = waits.answer(&[(&waits.id(1), "opened"), (&waits.id(0), "free")]);
    assert_eq!(text(&waits.flows, whole).await, "ok");
    assert_eq!(count(&waits.ran), 1);
}

#[tokio::test]
async fn forged_ids_and_other_peoples_calls_are_refused() {
    let waits = waiting(Effect::Once, vec![mixed(), ScriptTurn::text("ok")], &["open_calendar"]).await;
    let next = waits.answer(&[(&waits.id(0), "free")]);
    let exchange = Exchange::new(next.clone()).from(Principal::new("mallory"));
    assert_eq!(waits.flows.serve(exchange).await.unwrap_err().code(), "foreign_call");
    // A result of a call that is not in the transcript.
    let mut forged = waits.request.clone();
    forged.items.push(waits.world.result(&waits.id(0), "free"));
    assert_eq!(ask(&waits.flows, forged).await.unwrap_err().code(), "unknown_result");
    assert_eq!(count(&waits.ran), 0);
}

#[tokio::test]
async fn a_repeated_request_reads_the_first_answer_and_other_results_are_a_conflict() {
    let waits = waiting(Effect::Once, vec![mixed(), ScriptTurn::text("ok")], &["open_calendar"]).await;
    let next = waits.answer(&[(&waits.id(0), "free")]);
    assert_eq!(text(&waits.flows, next.clone()).await, "ok");
    assert_eq!(text(&waits.flows, next).await, "ok");
    assert_eq!((count(&waits.ran), waits.model.requests().len()), (1, 2));
    let error = ask(&waits.flows, waits.answer(&[(&waits.id(0), "busy")])).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("results_differ", ErrorKind::Conflict));
}

#[tokio::test]
async fn concurrent_answers_run_our_tools_once_and_read_one_answer() {
    let turns = vec![mixed(), ScriptTurn::text("ok"), ScriptTurn::text("never")];
    let waits = waiting(Effect::Once, turns, &["open_calendar"]).await;
    let next = waits.answer(&[(&waits.id(0), "free")]);
    let many = (0..8).map(|_| ask(&waits.flows, next.clone()));
    for answer in futures_util::future::join_all(many).await {
        assert_eq!(answer.unwrap().text(), "ok");
    }
    assert_eq!((count(&waits.ran), waits.model.requests().len()), (1, 2));
}

#[tokio::test]
async fn a_suspended_exchange_goes_on_in_another_process() {
    let waits = waiting(Effect::Once, vec![mixed(), ScriptTurn::text("ok")], &["open_calendar"]).await;
    let (tool, ran) = counted("read_sensor", "21 degrees", Effect::Once);
    let other = waits.world.serve(house(tool), &waits.model);
    assert_eq!(text(&other, waits.answer(&[(&waits.id(0), "free")])).await, "ok");
    assert_eq!((count(&ran), count(&waits.ran)), (1, 0));
    // The process that handed the calls out reads the same answer.
    assert_eq!(text(&waits.flows, waits.answer(&[(&waits.id(0), "free")])).await, "ok");
    assert_eq!(count(&ran), 1);
}

#[tokio::test]
async fn what_is_gone_is_an_error_where_something_was_changed_and_history_where_nothing_was() {
    let chain = |effect| {
        let turns = vec![
            ScriptTurn::call("read_sensor", json!({})),
            ScriptTurn::call("open_calendar", json!({})),
            ScriptTurn::text("ok"),
        ];
        waiting(effect, turns, &["open_calendar"])
    };
    for effect in [Effect::Once, Effect::Read] {
        let waits = chain(effect).await;
        let next = waits.answer(&[(&waits.id(0), "free")]);
        waits.world.clock.advance(std::time::Duration::from_secs(31 * 24 * 3600));
        waits.flows.scheduler().run_due().await.unwrap();
        match effect {
            Effect::Read => assert_eq!(text(&waits.flows, next).await, "ok"),
            _ => assert_eq!(ask(&waits.flows, next).await.unwrap_err().code(), "continuation_expired"),
        }
    }
}

#[tokio::test]
async fn a_user_who_goes_on_without_answering_has_the_round_cancelled() {
    let waits = waiting(Effect::Once, vec![mixed(), ScriptTurn::text("as you like")], &["open_calendar"]).await;
    let mut next = waits.answer(&[]);
    next.items.push(waits.world.item("never mind"));
    assert_eq!(text(&waits.flows, next).await, "as you like");
    assert_eq!(count(&waits.ran), 0);
    let sent = told(&waits.model.requests()[1]);
    assert!(sent[4].starts_with("result read_sensor: not run") && sent[5].starts_with("result open_calendar: not run"));
    assert_eq!(sent[6], "user: never mind");
}

#[tokio::test]
async fn what_the_user_says_beside_the_results_comes_after_the_round() {
    let waits = waiting(Effect::Once, vec![mixed(), ScriptTurn::text("quickly then")], &["open_calendar"]).await;
    let mut next = waits.answer(&[(&waits.id(0), "free")]);
    next.items.push(waits.world.item("hurry"));
    assert_eq!(text(&waits.flows, next).await, "quickly then");
    assert_eq!(told(&waits.model.requests()[1])[5..], ["result open_calendar: free", "user: hurry"]);
}

#[tokio::test]
async fn an_exchange_may_be_suspended_again_and_again() {
    let turns = vec![mixed(), mixed(), ScriptTurn::text("done"), ScriptTurn::text("bye")];
    let waits = waiting(Effect::Once, turns, &["open_calendar"]).await;
    let next = waits.answer(&[(&waits.id(0), "free")]);
    let second = ask(&waits.flows, next.clone()).await.unwrap();
    assert_eq!((second.text().as_str(), count(&waits.ran)), ("Let me look.", 1));
    let again = waits.world.next(&next, &second, &[(&handed(&second)[0].0, "still free")]);
    let third = ask(&waits.flows, again.clone()).await.unwrap();
    assert_eq!((third.text().as_str(), count(&waits.ran)), ("done", 2));
    let mut last = waits.world.next(&again, &third, &[]);
    last.items.push(waits.world.item("bye"));
    assert_eq!(text(&waits.flows, last).await, "bye");
    let sent = told(&waits.model.requests()[3]);
    let rounds = sent.iter().filter(|line| line.starts_with("result read_sensor")).count();
    assert_eq!((rounds, sent.len()), (2, 13), "{sent:#?}");
    assert_eq!(count(&waits.ran), 2);
}

#[tokio::test]
async fn split_tells_the_model_once_to_ask_for_one_side_at_a_time() {
    let (sensor, ran) = sensor();
    let turns = [mixed(), ScriptTurn::call("read_sensor", json!({})), ScriptTurn::text("21")];
    let (world, model) = (world(), scripted(turns));
    let flows = world.serve(house(sensor.clone()).mixed_rounds(MixedRounds::Split), &model);
    let answer = text(&flows, world.request_with("may I?", &["open_calendar"])).await;
    assert!(answer.ends_with("21"), "{answer}");
    assert_eq!(count(&ran), 1);
    assert!(told(&model.requests()[1])[4].contains("cannot be called in one answer"));
    let model = scripted([mixed(), mixed()]);
    let flows = world.serve(house(sensor).mixed_rounds(MixedRounds::Split), &model);
    let error = ask(&flows, world.request_with("may I?", &["open_calendar"])).await.unwrap_err();
    assert_eq!((error.code(), count(&ran)), ("mixed_round", 1));
}

#[tokio::test]
async fn hand_back_never_reaches_the_client_with_a_tool_of_ours() {
    let (sensor, ran) = sensor();
    let (world, model) = (world(), scripted([mixed()]));
    let flows = world.serve(house(sensor).mixed_rounds(MixedRounds::HandBack), &model);
    let error = ask(&flows, world.request_with("may I?", &["open_calendar"])).await.unwrap_err();
    assert_eq!((error.code(), count(&ran)), ("mixed_round", 0));
    assert!(!error.client_message().contains("read_sensor"));
}

#[tokio::test]
async fn a_handler_goes_on_where_it_waited_and_asks_nothing_twice() {
    let (sensor, ran) = sensor();
    let turns = [ScriptTurn::text("indoors"), mixed(), ScriptTurn::text("go"), ScriptTurn::text("never")];
    let (world, model) = (world(), scripted(turns));
    let log = Log::default();
    let agent = {
        let log = log.clone();
        Agent::new().grant(sensor).handler(move |caller: Caller, mut model: Model| {
            let log = log.clone();
            async move {
                let first = model.ask_with(caller.messages()).await?.text().await?;
                let noted = log.clone();
                caller
                    .once("note", |_| async move {
                        noted.note("once");
                        Ok(())
                    })
                    .await?;
                let reply = model.with_own_tools().forward_tools().resolve().await?;
                caller.reply(format!("{first}: {}", reply.text().await?));
                Ok(())
            }
        })
    };
    let before = says("welcome");
    let flow = Flow::agent(before).next(Flow::respond()).next(agent).next(Flow::respond());
    let flows = world.serve(flow, &model);
    let request = world.request_with("may I?", &["open_calendar"]);
    let first = ask(&flows, request.clone()).await.unwrap();
    assert_eq!(first.text(), "welcome\n\nLet me look.");
    let next = world.next(&request, &first, &[(&handed(&first)[0].0, "free")]);
    let second = ask(&flows, next).await.unwrap();
    assert_eq!(second.text(), "welcome\n\nindoors: Let me look.\n\ngo");
    assert_eq!((count(&ran), model.requests().len(), log.take()), (1, 3, vec!["once".to_owned()]));
}

#[tokio::test]
async fn a_streamed_answer_says_only_what_is_new_after_a_suspension() {
    let (sensor, _) = sensor();
    let (world, model) = (world(), scripted([mixed(), ScriptTurn::text("go")]));
    let flow = Flow::agent(says("welcome")).next(house(sensor)).next(Flow::respond());
    let flows = world.serve(flow, &model);
    let request = world.request_with("may I?", &["open_calendar"]);
    let first = stream(&flows, request.clone()).await.unwrap();
    assert_eq!(first.text(), "welcome\n\nLet me look.");
    let next = world.next(&request, &first, &[(&handed(&first)[0].0, "free")]);
    assert_eq!(stream(&flows, next).await.unwrap().text(), "go");
}

#[tokio::test]
async fn an_agent_without_a_handler_holds_to_what_the_client_asks_for() {
    let (sensor, _) = sensor();
    let (world, model) = (world(), scripted([ScriptTurn::text("warm"), ScriptTurn::text("{\"warm\":true}")]));
    let flows =
        world.serve(house(sensor).model(placet_flows::ModelSpec::new("scripted:m").with_temperature(0.0)), &model);
    let mut request = world.request("is it warm?");
    request.controls.max_output_tokens = Some(50);
    request.controls.temperature = Some(1.0);
    request.output = Some(placet_core::turn::OutputFormat {
        name: "answer".into(),
        description: None,
        schema: placet_core::Schema::new(json!({"type": "object", "required": ["warm"]})),
        strict: true,
    });
    assert_eq!(text(&flows, request).await, "{\"warm\":true}");
    let sent = &model.requests()[0];
    assert_eq!((sent.controls.max_output_tokens, sent.controls.temperature), (Some(50), Some(0.0)));
    assert!(sent.instructions.as_deref().unwrap().contains("\"warm\""));
}

#[tokio::test]
async fn rounds_of_a_handler_that_hands_out_calls_itself_are_put_back_too() {
    let (sensor, ran) = sensor();
    let turns = [
        ScriptTurn::call("read_sensor", json!({})),
        ScriptTurn::text("And you?").and_call("open_calendar", json!({})),
        ScriptTurn::text("Go."),
    ];
    let (world, model) = (world(), scripted(turns));
    let agent =
        house(sensor).mixed_rounds(MixedRounds::HandBack).handler(|caller: Caller, mut model: Model| async move {
            let reply = model.add(caller.messages()).with_own_tools().forward_tools().resolve().await?;
            caller.reply(reply.text().await?);
            caller.call(reply.calls().await?)
        });
    let flows = world.serve(agent, &model);
    let request = world.request_with("may I?", &["open_calendar"]);
    let first = ask(&flows, request.clone()).await.unwrap();
    assert_eq!((first.text().as_str(), handed(&first).len()), ("And you?", 1));
    let next = world.next(&request, &first, &[(&handed(&first)[0].0, "free")]);
    assert_eq!(text(&flows, next).await, "Go.");
    assert_eq!(
        told(&model.requests()[2]),
        [
            "user: may I?",
            "call read_sensor",
            "result read_sensor: 21 degrees",
            "assistant: And you?",
            "call open_calendar",
            "result open_calendar: free",
        ]
    );
    assert_eq!(count(&ran), 1);
}

#[tokio::test]
async fn a_run_id_that_comes_twice_is_two_exchanges_of_a_flow_that_is_not_durable() {
    let (sensor, ran) = sensor();
    let look = || ScriptTurn::call("read_sensor", json!({}));
    let (world, model) = (world(), scripted([look(), ScriptTurn::text("a"), look(), ScriptTurn::text("b")]));
    let flows = world.serve(house(sensor), &model);
    for wanted in ["a", "b"] {
        let exchange = Exchange::new(world.request(wanted)).run(placet_core::RunId::parse("run_mine").unwrap());
        let answer = flows.serve(exchange).await.unwrap();
        assert_eq!((answer.run().as_str(), answer.collect().await.unwrap().text().as_str()), ("run_mine", wanted));
    }
    assert_eq!(count(&ran), 2);
}
