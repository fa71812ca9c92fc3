//! What earlier systems got wrong, each as a test that this one passes. Those that stand elsewhere: 4, 5 and 6 beside the
//! transcript, 12, 14, 15, 21 and 34 with the triggers, 33 with the durable flows, 27 with the scheduler's cron.

use crate::support::*;
use futures_util::StreamExt;
use placet_core::part::Native;
use placet_core::turn::WholeItem;
use placet_core::{Diagnose, Effect, ErrorKind, ItemBody, StopReason, ToolChoice, TurnEvent};
use placet_flows::{Agent, Caller, Checkpoint, Durable, Exchange, Flow, FlowHappening, Model, Principal};
use placet_models::scripted::ScriptTurn;
use placet_runtime::schedule::{Cron, Job, JobTime};
use placet_tools::{NoArguments, tool};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn mixed() -> ScriptTurn {
    ScriptTurn::call("secret_inner", json!({})).and_call("open", json!({}))
}

#[tokio::test]
async fn a15_01_a_client_never_sees_a_call_of_a_tool_it_did_not_declare() {
    let (inner, _) = counted("secret_inner", "x", Effect::Read);
    let (world, model) = (world(), scripted([mixed()]));
    let flows = world.serve(Agent::new().grant(inner), &model);
    let answer = flows.serve(Exchange::new(world.request_with("hi", &["open"])).streaming()).await.unwrap();
    let events: Vec<TurnEvent> = answer.events().collect().await;
    assert!(!serde_json::to_string(&events).unwrap().contains("secret_inner"));
}

#[tokio::test]
async fn a15_02_no_handler_runs_whose_result_the_model_does_not_read() {
    let (inner, ran) = counted("a", "x", Effect::Once);
    let (world, model) = (world(), scripted((0..9).map(|_| ScriptTurn::call("a", json!({})))));
    let limits = placet_core::Limits { rounds: 3, ..placet_core::Limits::default() };
    let flows = world.serve(Agent::new().grant(inner).limits(limits), &model);
    assert_eq!(ask(&flows, world.request("hi")).await.unwrap_err().code(), "limit_reached");
    let last = model.requests().last().unwrap().clone();
    let read = told(&last).iter().filter(|line| line.starts_with("result a: x")).count();
    assert_eq!((count(&ran), read), (3, 3));
}

#[tokio::test]
async fn a15_03_a_forced_choice_is_relaxed_after_the_first_round() {
    let (inner, _) = counted("a", "x", Effect::Read);
    let (world, model) = (world(), scripted([ScriptTurn::call("a", json!({})), ScriptTurn::text("done")]));
    let agent = Agent::new().grant(inner).handler(|caller: Caller, mut model: Model| async move {
        model.add(caller.messages()).with_own_tools().with_tool_choice(ToolChoice::Required);
        caller.reply(model.resolve().await?.text().await?);
        Ok(())
    });
    let flows = world.serve(agent, &model);
    assert_eq!(text(&flows, world.request("hi")).await, "done");
    let choices: Vec<_> = model.requests().iter().map(|request| request.tool_choice.clone()).collect();
    assert_eq!(choices, [ToolChoice::Required, ToolChoice::Auto]);
}

#[tokio::test]
async fn a15_04_old_calls_are_never_handed_out_again() {
    let (world, model) = (world(), scripted([ScriptTurn::call("open", json!({})), ScriptTurn::text("fine")]));
    let flows = world.serve(Agent::new().grant(sensor().0), &model);
    let request = world.request_with("hi", &["open"]);
    let first = ask(&flows, request.clone()).await.unwrap();
    let mut next = world.next(&request, &first, &[]);
    next.items.push(world.item("never mind"));
    let second = ask(&flows, next).await.unwrap();
    assert_eq!((second.calls().count(), second.stop), (0, StopReason::End));
}

#[tokio::test]
async fn a15_05_a_new_call_with_an_old_id_is_handed_out_under_its_own() {
    let again = || {
        let mut turn = ScriptTurn::call("open", json!({}));
        turn.calls[0].id = Some("call_0".into());
        turn
    };
    let (world, model) = (world(), scripted([again(), again(), ScriptTurn::text("done")]));
    let flows = world.serve(Agent::new().grant(sensor().0), &model);
    let request = world.request_with("hi", &["open"]);
    let first = ask(&flows, request.clone()).await.unwrap();
    assert_eq!(handed(&first)[0].0, "call_0");
    let next = world.next(&request, &first, &[("call_0", "1")]);
    let second = ask(&flows, next.clone()).await.unwrap();
    assert_eq!((handed(&second).len(), second.stop.clone()), (1, StopReason::ToolCalls));
    assert_ne!(handed(&second)[0].0, "call_0");
    let last = world.next(&next, &second, &[(&handed(&second)[0].0, "2")]);
    assert_eq!(text(&flows, last).await, "done");
}

#[tokio::test]
async fn a15_06_text_beside_results_reaches_the_model() {
    let (world, model) = (world(), scripted([ScriptTurn::call("open", json!({})), ScriptTurn::text("done")]));
    let flows = world.serve(Agent::new().grant(sensor().0), &model);
    let request = world.request_with("hi", &["open"]);
    let first = ask(&flows, request.clone()).await.unwrap();
    let mut next = world.next(&request, &first, &[(&handed(&first)[0].0, "1")]);
    next.items.push(world.item("and hurry"));
    ask(&flows, next).await.unwrap();
    assert_eq!(told(&model.requests()[1])[2..], ["result open: 1", "user: and hurry"]);
}

#[tokio::test]
async fn a15_07_an_empty_conversation_is_an_error_and_content_is_kept_in_parts() {
    let (world, model) = (world(), scripted([ScriptTurn::text("ok")]));
    let flows = world.serve(Agent::new().grant(sensor().0), &model);
    let mut request = world.request("hi");
    request.items.clear();
    assert_eq!(ask(&flows, request).await.unwrap_err().kind(), ErrorKind::Wiring);
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn a15_08_a_quick_failure_does_not_cancel_a_slow_success() {
    let (world, model) = (world(), scripted([]));
    let failed = Checkpoint::new("failed");
    let (tells, waits) = (failed.clone(), failed);
    let quick = Agent::new().handler(move |caller: Caller, _: Model| {
        let failed = tells.clone();
        async move {
            caller.reached(&failed);
            Err(placet_flows::FlowError::handler("no"))
        }
    });
    let slow = Agent::new().handler(move |caller: Caller, _: Model| {
        let failed = waits.clone();
        async move {
            caller.wait(&failed).await?;
            caller.reply("slow and sound");
            Ok(())
        }
    });
    let flows = world.serve(Flow::one([Flow::agent(quick), Flow::agent(slow)]), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "slow and sound");
}

#[tokio::test]
async fn a15_09_enums_and_required_fields_are_enforced() {
    let schema = json!({
        "type": "object", "required": ["room", "level"], "additionalProperties": false,
        "properties": {"room": {"enum": ["hall"]}, "level": {"type": "integer"}},
    });
    for wrong in
        [json!({"room": "hall"}), json!({"room": "attic", "level": 1}), json!({"room": "hall", "level": 1, "x": 2})]
    {
        let right = json!({"room": "hall", "level": 1});
        let (world, model) =
            (world(), scripted([ScriptTurn::text(wrong.to_string()), ScriptTurn::text(right.to_string())]));
        let agent = Agent::new().output_shape(placet_flows::Output::new("place", schema.clone()));
        let flows = world.serve(agent, &model);
        assert_eq!(text(&flows, world.request("where?")).await, right.to_string());
        assert_eq!(model.requests().len(), 2);
        assert!(model.requests()[0].output.is_some());
    }
}

#[tokio::test]
async fn a15_10_savepoints_of_a_changed_flow_are_never_mixed_in() {
    let (world, model) = (world(), scripted([]));
    let version = |words: [&'static str; 2], ends: Flow| {
        let flow =
            Flow::agent(says(words[0])).next(Flow::respond()).next(says(words[1])).next(ends).next(Flow::respond());
        world.builder(&model).flow(flow.named("house").durable(Durable::default())).build().unwrap()
    };
    let exchange = || Exchange::new(world.request("go")).run(placet_core::RunId::parse("run_x").unwrap());
    let old = version(["v1-a", "v1-b"], Flow::agent(fails("crash")));
    assert!(old.serve(exchange()).await.unwrap().collect().await.is_err());
    for _ in 0..2 {
        let new = version(["v2-a", "v2-b"], Flow::agents([says("v2-c"), says("v2-d")]));
        assert_eq!(new.serve(exchange()).await.unwrap_err().code(), "run_conflict");
    }
}

#[tokio::test]
async fn a15_11_a_run_id_gives_its_answer_to_nobody_else_and_for_nothing_else() {
    let (world, model) = (world(), scripted([]));
    let flows = world.builder(&model).flow(Flow::agent(says("for ada")).named("house").durable(Durable::default()));
    let flows = flows.build().unwrap();
    let run = || placet_core::RunId::parse("run_x").unwrap();
    let ask =
        |who: &str, what: &str| flows.serve(Exchange::new(world.request(what)).run(run()).from(Principal::new(who)));
    assert_eq!(ask("ada", "a").await.unwrap().collect().await.unwrap().text(), "for ada");
    assert_eq!(ask("bob", "a").await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(ask("ada", "b").await.unwrap_err().kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn a15_13_the_clients_tool_never_runs_our_handler() {
    let (open, ran) = counted("open", "ours", Effect::Once);
    let (world, model) = (world(), scripted([ScriptTurn::call("open", json!({}))]));
    let flows = world.serve(Agent::new().grant(open), &model);
    assert_eq!(ask(&flows, world.request_with("hi", &["open"])).await.unwrap_err().code(), "tool_name_clash");
    assert_eq!((count(&ran), model.requests().len()), (0, 0));
}

#[tokio::test]
async fn a15_16_a_resolves_error_in_the_middle_of_a_stream_is_an_error() {
    let (inner, _) = counted("a", "x", Effect::Read);
    let broken = ScriptTurn { text: vec!["partial".into()], ..ScriptTurn::fail(ErrorKind::Overloaded, "busy") };
    let (world, model) = (world(), scripted([ScriptTurn::call("a", json!({})), broken]));
    let flows = world.serve(Agent::new().grant(inner), &model);
    let error = stream(&flows, world.request("hi")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
}

#[tokio::test]
async fn a15_17_a_client_that_goes_away_blocks_nothing() {
    // A handler that does not look whether anybody is there, and writes for ever.
    let ended = Arc::new(AtomicUsize::new(0));
    let writes = {
        let ended = ended.clone();
        Agent::new().handler(move |caller: Caller, _: Model| {
            let ended = ended.clone();
            async move {
                let mut live = caller.stream().await?.expect("a stream");
                let result = loop {
                    if let Err(error) = live.write("more").await {
                        break error;
                    }
                };
                ended.fetch_add(1, Ordering::SeqCst);
                Err(result)
            }
        })
    };
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(writes, &model);
    let answer = flows.serve(Exchange::new(world.request("hi")).streaming()).await.unwrap();
    let mut events = answer.events();
    events.next().await.unwrap();
    drop((events, answer));
    let over = || {
        world
            .seen
            .events()
            .iter()
            .any(|event| event.path.is_empty() && matches!(event.what, FlowHappening::Ended { .. }))
    };
    until(over).await;
}

#[tokio::test]
async fn a15_18_fifty_at_the_same_time_are_all_found_after_a_restart() {
    let (world, model, log) = (world(), scripted([]), Log::default());
    let build = || {
        let flow = Flow::agent(says("ok")).next(Flow::respond()).next(notes(&log, "done"));
        world.serve(flow, &model)
    };
    let flows = build();
    let many = (0..50).map(|_| ask(&flows, world.request("hi")));
    futures_util::future::join_all(many).await.into_iter().for_each(|answer| assert!(answer.is_ok()));
    drop(flows);
    assert_eq!(build().scheduler().run_due().await.unwrap(), 50);
    assert_eq!(log.take().len(), 50);
}

#[tokio::test]
async fn a15_19_a_panic_is_an_error_of_its_run() {
    let (world, model) = (world(), scripted([]));
    let panics = Agent::new().handler(|_: Caller, _: Model| async move { panic!("boom") });
    let flows = world.serve(Flow::agents([says("x"), panics]), &model);
    assert_eq!(ask(&flows, world.request("hi")).await.unwrap_err().code(), "agent_failed");
    assert_eq!(ask(&flows, world.request("hi")).await.unwrap_err().code(), "agent_failed", "and the process is there");
}

#[tokio::test]
async fn a15_20_a_failed_flow_has_its_end_and_every_event_its_run() {
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(fails("no"), &model);
    let answer = flows.serve(Exchange::new(world.request("hi"))).await.unwrap();
    let _ = answer.collect().await;
    let whole = |event: &&placet_flows::FlowEvent| event.path.is_empty();
    let events = world.seen.events();
    assert!(events.iter().all(|event| event.run == *answer.run() && event.flow == "house"));
    let ends: Vec<_> =
        events.iter().filter(whole).filter(|event| matches!(event.what, FlowHappening::Ended { .. })).collect();
    assert!(
        matches!(&ends[..], [event] if matches!(&event.what, FlowHappening::Ended { error: Some(code), .. } if code == "agent_failed"))
    );
}

#[tokio::test]
async fn a15_22_barriers_stand_anew_in_each_exchange() {
    let (world, model, log) = (world(), scripted([]), Log::default());
    let gate = Checkpoint::new("gate");
    let reader = {
        let (gate, log) = (gate.clone(), log.clone());
        Agent::new().handler(move |caller: Caller, _: Model| {
            let (gate, log) = (gate.clone(), log.clone());
            async move {
                caller.wait(&gate).await?;
                log.note("reader");
                Ok(())
            }
        })
    };
    let narrator = {
        let (gate, log) = (gate, log.clone());
        Agent::new().handler(move |caller: Caller, _: Model| {
            let (gate, log) = (gate.clone(), log.clone());
            async move {
                log.note("narrator");
                caller.reached(&gate);
                Ok(())
            }
        })
    };
    let flows = world.serve(Flow::group([Flow::agent(reader), Flow::agent(narrator)]), &model);
    for _ in 0..2 {
        let _ = ask(&flows, world.request("hi")).await;
        assert_eq!(log.take(), ["narrator", "reader"]);
    }
}

#[tokio::test]
async fn a15_23_a_flow_that_says_nothing_does_not_repeat_the_client() {
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(Agent::new().handler(|_: Caller, _: Model| async move { Ok(()) }), &model);
    let turn = ask(&flows, world.request("say this")).await.unwrap();
    assert_eq!((turn.text().as_str(), turn.stop), ("", StopReason::End));
}

#[tokio::test]
async fn a15_24_a_streamed_answer_is_the_same_bytes_as_a_whole_one() {
    let (world, model) = (world(), scripted([]));
    let flow = Flow::agent(says("one")).next(Flow::respond()).next(says("two")).next(Flow::respond());
    let flows = world.serve(flow, &model);
    let streamed = stream(&flows, world.request("hi")).await.unwrap().text();
    assert_eq!((streamed.as_str(), text(&flows, world.request("hi")).await.as_str()), ("one\n\ntwo", "one\n\ntwo"));
}

#[tokio::test]
async fn a15_25_the_answers_of_all_are_put_together() {
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(Flow::all([Flow::agent(says("a")), Flow::agent(says("b"))]), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "a\n\nb");
}

#[tokio::test]
async fn a15_26_exactly_what_is_served_is_listed_in_a_stable_order() {
    let (world, model) = (world(), scripted([]));
    let build = || {
        let builder = world.builder(&model).flow(Flow::agent(says("m")).named("acme/math"));
        builder.flow(Flow::agent(says("c")).named("acme/coder")).build().unwrap()
    };
    for _ in 0..3 {
        assert_eq!(build().names().collect::<Vec<_>>(), ["acme/math", "acme/coder"]);
    }
    assert_eq!(build().name_for("acme/math").unwrap(), "acme/math");
    assert_eq!(build().name_for("brain").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a15_27_cron_is_as_everywhere() {
    let at = placet_core::Timestamp::from_micros(1_796_029_200_000_000);
    let next =
        |expression: &str, zone: &str| Cron::parse(expression, zone).unwrap().next_after(at).unwrap().to_string();
    assert!(next("0 0 1 * 1", "UTC").starts_with("2026-12-01"), "either day is enough");
    assert_eq!(next("0 9 * * MON", "UTC"), next("0 9 * * 1", "UTC"));
    assert_eq!(next("0 9 * * 7", "UTC"), next("0 9 * * SUN", "UTC"));
    assert!(next("@daily", "America/New_York").contains("T05:00"));
}

#[tokio::test]
async fn a15_28_an_error_before_the_first_byte_comes_before_the_answer_begins() {
    let (world, model) = (world(), scripted([ScriptTurn::fail(ErrorKind::RateLimited, "slow down")]));
    let flows = world.serve(Agent::new(), &model);
    let answer = flows.serve(Exchange::new(world.request("hi")).streaming()).await.unwrap();
    assert_eq!(answer.first().await.unwrap_err().kind(), ErrorKind::RateLimited);
    let model = scripted([ScriptTurn { text: vec!["x".into()], ..ScriptTurn::fail(ErrorKind::Overloaded, "busy") }]);
    let flows = world.serve(Agent::new(), &model);
    let answer = flows.serve(Exchange::new(world.request("hi")).streaming()).await.unwrap();
    answer.first().await.unwrap();
}

#[tokio::test]
async fn a15_29_an_answer_of_calls_alone_has_no_empty_text_and_an_error_no_end() {
    let (world, model) = (world(), scripted([ScriptTurn::call("open", json!({}))]));
    let flows = world.serve(Agent::new().grant(sensor().0), &model);
    let answer = flows.serve(Exchange::new(world.request_with("hi", &["open"])).streaming()).await.unwrap();
    let events: Vec<TurnEvent> = answer.events().collect().await;
    assert!(!events.iter().any(|event| matches!(event, TurnEvent::Text(_))), "{events:?}");
    assert_eq!(events.iter().filter(|event| matches!(event, TurnEvent::Finished(_))).count(), 1);
}

#[tokio::test]
async fn a15_30_what_a_client_is_told_names_nothing_of_ours() {
    let (world, model) =
        (world(), scripted([ScriptTurn::fail(ErrorKind::Internal, "key sk-live-123 at 10.0.0.7 refused")]));
    let flow = Flow::agent(Agent::new()).with_id("secret-router");
    let flows = world.serve(flow, &model);
    let error = ask(&flows, world.request("hi")).await.unwrap_err();
    let told = format!("{} {}", error.client_message(), error.to_client());
    assert!(!told.contains("sk-live") && !told.contains("10.0.0.7") && !told.contains("secret-router"), "{told}");
}

#[tokio::test]
async fn a15_31_tools_that_read_run_at_the_same_time() {
    // Each waits for the other: one after the other they would wait for ever.
    let meeting = Arc::new(tokio::sync::Barrier::new(2));
    let meets = |name: &str| {
        let meeting = meeting.clone();
        let tool = tool(name, "Meets.", move |_: NoArguments, _| {
            let meeting = meeting.clone();
            async move {
                meeting.wait().await;
                "met"
            }
        });
        tool.effect(Effect::Read).build()
    };
    let turns = [ScriptTurn::call("a", json!({})).and_call("b", json!({})), ScriptTurn::text("both")];
    let (world, model) = (world(), scripted(turns));
    let flows = world.serve(Agent::new().grant(meets("a")).grant(meets("b")), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "both");
}

#[tokio::test]
async fn a15_32_what_only_a_provider_understands_goes_both_ways_untouched() {
    #[derive(Debug)]
    struct Native32(placet_core::ProviderId, std::sync::Mutex<Vec<Arc<placet_core::TurnRequest>>>);
    #[async_trait::async_trait]
    impl placet_models::ModelProvider for Native32 {
        fn id(&self) -> &placet_core::ProviderId {
            &self.0
        }
        async fn ask(
            &self,
            request: Arc<placet_core::TurnRequest>,
            _: placet_models::AskContext,
        ) -> Result<placet_models::TurnStream, placet_core::ProviderError> {
            self.1.lock().unwrap().push(request);
            let body = ItemBody::Native(Native {
                provider: "p".into(),
                value: json!({"type": "thinking", "signature": "s=="}),
            });
            let finished = placet_core::turn::TurnFinished::new(StopReason::End);
            let events = [TurnEvent::Whole(Box::new(WholeItem { index: 0, body })), TurnEvent::Finished(finished)];
            Ok(futures_util::stream::iter(events).boxed())
        }
        async fn models(
            &self,
            _: placet_models::AskContext,
        ) -> Result<Vec<placet_models::ModelListing>, placet_core::ProviderError> {
            Ok(Vec::new())
        }
    }
    let (world, model) = (world(), scripted([]));
    let provider = Arc::new(Native32("p".into(), std::sync::Mutex::default()));
    let choice: (placet_models::SharedProvider, &str) = (provider.clone(), "m");
    let flows = world.serve(Agent::new().model(choice), &model);
    let request = world.request("hi");
    let first = ask(&flows, request.clone()).await.unwrap();
    let mut next = world.next(&request, &first, &[]);
    next.items.push(world.item("go on"));
    ask(&flows, next).await.unwrap();
    let sent = provider.1.lock().unwrap()[1].clone();
    assert!(matches!(&sent.items[1].body, ItemBody::Native(native) if native.value["signature"] == "s=="));
}

#[tokio::test]
async fn a_job_of_another_tenant_or_kind_is_left_alone() {
    let (world, model) = (world(), scripted([]));
    let flows = world.serve(says("x"), &model);
    flows.scheduler().put(Job::new("other", "somebody else's", json!({})).at(JobTime::Now)).await.unwrap();
    assert_eq!(flows.scheduler().run_due().await.unwrap(), 0);
    world.clock.advance(Duration::from_secs(1));
    assert!(flows.scheduler().get("other").await.unwrap().is_some());
}

#[tokio::test]
async fn usage_is_the_sum_of_every_ask_and_comes_as_it_is_known() {
    let usage = |input| placet_core::Usage { input, output: 1, ..placet_core::Usage::default() };
    let turns = [ScriptTurn::text("a").with_usage(usage(5)), ScriptTurn::text("b").with_usage(usage(7))];
    let (world, model) = (world(), scripted(turns));
    let asks = Agent::new().handler(|caller: Caller, mut model: Model| async move {
        model.ask_with(caller.messages()).await?.text().await?;
        Ok(())
    });
    let flows = world.serve(Flow::agent(asks).next(Agent::new()), &model);
    let turn = stream(&flows, world.request("hi")).await.unwrap();
    assert_eq!((turn.text().as_str(), turn.usage.map(|usage| (usage.input, usage.output))), ("b", Some((12, 2))));
}

#[tokio::test]
async fn an_upstreams_own_words_are_there_for_a_server_that_may_show_them() {
    let (world, model) = (world(), scripted([ScriptTurn::fail(ErrorKind::ContextLength, "prompt is too long: 9 > 8")]));
    let flows = world.serve(Agent::new(), &model);
    let error = ask(&flows, world.request("hi")).await.unwrap_err();
    assert_eq!(error.upstream().map(|error| error.message.as_str()), Some("prompt is too long: 9 > 8"));
    assert_eq!(error.client_message(), "the conversation is longer than the model's window");
}

#[tokio::test]
async fn members_that_wait_for_the_client_are_suspended_together() {
    let (inner, ran) = counted("inner", "x", Effect::Once);
    let round = || ScriptTurn::call("inner", json!({})).and_call("open", json!({}));
    let turns = [round(), round(), ScriptTurn::text("one"), ScriptTurn::text("two")];
    let (world, model) = (world(), scripted(turns));
    let member = || Flow::agent(Agent::new().grant(inner.clone()));
    let flows = world.serve(Flow::all([member(), member(), Flow::agent(says("third"))]), &model);
    let request = world.request_with("hi", &["open"]);
    let first = ask(&flows, request.clone()).await.unwrap();
    let calls = handed(&first);
    assert_eq!((first.text().as_str(), calls.len(), count(&ran)), ("third", 2, 0));
    let next = world.next(&request, &first, &[(&calls[0].0, "a"), (&calls[1].0, "b")]);
    let second = ask(&flows, next).await.unwrap();
    let mut said: Vec<&str> = Vec::new();
    let text = second.text();
    said.extend(text.split("\n\n"));
    said.sort_unstable();
    assert_eq!(said, ["one", "third", "two"]);
    assert_eq!(count(&ran), 2);
}
