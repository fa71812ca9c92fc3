//! Triggers, follow-ups, and what handlers schedule.

use crate::support::*;
use indexmap::IndexMap;
use placet_core::TurnRequest;
use placet_flows::{Agent, Caller, Exchange, Flow, FlowError, Flows, HookAnswer, Model, Principal, Trigger, WorkTime};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn remembers(log: &Log) -> Agent {
    let log = log.clone();
    Agent::new().handler(move |caller: Caller, _: Model| {
        let log = log.clone();
        async move {
            log.note(format!(
                "{} {} {} {}",
                caller.principal().as_str(),
                caller.payload(),
                caller.depth(),
                caller.messages().len()
            ));
            Ok(())
        }
    })
}

async fn from(flows: &Flows, who: &str, request: TurnRequest) -> String {
    flows.serve(Exchange::new(request).from(Principal::new(who))).await.unwrap().collect().await.unwrap().text()
}

#[tokio::test]
async fn a15_12_what_follows_the_answer_does_not_delay_it_and_cannot_spoil_it() {
    let (world, model, log) = (world(), scripted([]), Log::default());
    let tries = Arc::new(AtomicUsize::new(0));
    let works = {
        let (tries, log) = (tries.clone(), log.clone());
        Agent::new().handler(move |caller: Caller, _: Model| {
            let (tries, log) = (tries.clone(), log.clone());
            async move {
                if tries.fetch_add(1, Ordering::SeqCst) == 0 {
                    return Err(FlowError::handler("the line is busy"));
                }
                log.note(caller.last_text());
                Ok(())
            }
        })
    };
    let flow = || Flow::agent(says("answered")).next(Flow::respond()).next(works.clone());
    let flows = world.serve(flow(), &model);
    assert_eq!(text(&flows, world.request("hi")).await, "answered");
    assert_eq!(tries.load(Ordering::SeqCst), 0, "it has not begun");
    assert_eq!(flows.scheduler().run_due().await.unwrap(), 1);
    assert!(log.take().is_empty());
    // It is tried again, in another process.
    world.clock.advance(Duration::from_secs(30));
    let other = world.serve(flow(), &model);
    assert_eq!(other.scheduler().run_due().await.unwrap(), 1);
    assert_eq!(log.take(), ["answered"]);
    world.clock.advance(Duration::from_secs(3600));
    other.scheduler().run_due().await.unwrap();
    assert!(log.take().is_empty());
}

#[tokio::test]
async fn a15_34_a_handler_schedules_lists_and_takes_back() {
    let (world, model, log) = (world(), scripted([]), Log::default());
    let reminds = Agent::new().handler(|caller: Caller, _: Model| async move {
        let id = caller.schedule(WorkTime::After(Duration::from_secs(600)), "reminder", json!({"what": "tea"}))?;
        let dropped = caller.schedule(WorkTime::After(Duration::from_secs(600)), "reminder", Value::Null)?;
        caller.unschedule(&dropped).await?;
        caller.reply(id);
        Ok(())
    });
    let lists = Agent::new().handler(|caller: Caller, _: Model| async move {
        let jobs = caller.scheduled().await?;
        for job in &jobs {
            caller.unschedule(&job.job.id).await?;
        }
        caller.reply(jobs.len().to_string());
        Ok(())
    });
    let build = |log: &Log| {
        let builder = world.builder(&model).flow(Flow::agent(reminds.clone()).named("house"));
        builder
            .flow(Flow::agent(lists.clone()).named("list"))
            .flow(Flow::agent(remembers(log)).named("reminder"))
            .build()
            .unwrap()
    };
    let flows = build(&log);
    // Two users' reminders at the same minute both go off, and a restart loses none.
    from(&flows, "ada", world.request("remind me")).await;
    from(&flows, "bob", world.request("remind me")).await;
    from(&flows, "eve", world.request("remind me")).await;
    let list = TurnRequest { model: "list".into(), ..world.request("list") };
    assert_eq!(from(&flows, "eve", list.clone()).await, "1");
    assert_eq!(from(&flows, "eve", list).await, "0");
    flows.scheduler().run_due().await.unwrap();
    assert!(log.take().is_empty());
    world.clock.advance(Duration::from_secs(600));
    build(&log).scheduler().run_due().await.unwrap();
    let mut gone_off = log.take();
    gone_off.sort();
    assert_eq!(gone_off, ["ada {\"what\":\"tea\"} 1 1", "bob {\"what\":\"tea\"} 1 1"]);
}

#[tokio::test]
async fn a15_14_what_repeats_is_scheduled_once_however_often_it_is_reached() {
    let (world, model, log) = (world(), scripted([]), Log::default());
    let flow = Flow::agent(says("ok")).next(Flow::trigger(Trigger::every("0 * * * *", "UTC"))).next(remembers(&log));
    let flows = world.serve(flow, &model);
    assert_eq!(from(&flows, "ada", world.request("hi")).await, "ok");
    assert_eq!(from(&flows, "ada", world.request("hi")).await, "ok");
    world.clock.advance(Duration::from_secs(3600));
    flows.scheduler().run_due().await.unwrap();
    assert_eq!(log.take().len(), 1);
    world.clock.advance(Duration::from_secs(3600));
    flows.scheduler().run_due().await.unwrap();
    assert_eq!(log.take().len(), 1);
}

#[tokio::test]
async fn a15_15_two_who_reach_once_at_the_same_instant_both_have_it() {
    let (world, model, log) = (world(), scripted([]), Log::default());
    let at = world.env.now().plus(Duration::from_secs(60));
    let flow = Flow::agent(says("ok")).next(Flow::trigger(Trigger::once(at))).next(remembers(&log));
    let flows = world.serve(flow, &model);
    from(&flows, "ada", world.request("hi")).await;
    from(&flows, "bob", world.request("hi")).await;
    world.clock.advance(Duration::from_secs(60));
    flows.scheduler().run_due().await.unwrap();
    assert_eq!(log.take().len(), 2);
    flows.scheduler().run_due().await.unwrap();
    assert!(log.take().is_empty());
}

#[tokio::test]
async fn a_trigger_at_the_head_goes_off_by_itself_and_once_is_once_for_ever() {
    let (world, model, log) = (world(), scripted([]), Log::default());
    let at = world.env.now().plus(Duration::from_secs(60));
    let build = || {
        let head = |trigger: Trigger, text: &'static str| Flow::trigger(trigger).next(notes(&log, text));
        world
            .builder(&model)
            .flow(head(Trigger::startup(), "startup").named("boot"))
            .flow(head(Trigger::once(at), "once").named("once"))
            .flow(head(Trigger::after(Duration::from_secs(30)), "after").named("after"))
            .flow(head(Trigger::every("*/5 * * * *", "Europe/Berlin"), "every").named("every"))
            .flow(Flow::agent(says("x")).named("house"))
            .build()
            .unwrap()
    };
    let flows = build();
    assert_eq!(flows.names().collect::<Vec<_>>(), ["house"]);
    flows.start().await.unwrap();
    flows.scheduler().run_due().await.unwrap();
    assert_eq!(log.take(), ["startup"]);
    // Another process that starts before it was due changes nothing.
    build().schedule().await.unwrap();
    world.clock.advance(Duration::from_secs(60));
    flows.scheduler().run_due().await.unwrap();
    let mut both = log.take();
    both.sort();
    assert_eq!(both, ["after", "once"]);
    let again = build();
    again.start().await.unwrap();
    world.clock.advance(Duration::from_secs(240));
    again.scheduler().run_due().await.unwrap();
    let mut all = log.take();
    all.sort();
    assert_eq!(all, ["every", "startup"]);
}

#[tokio::test]
async fn a_webhook_answers_where_its_body_does_and_is_accepted_otherwise() {
    let (world, model, log) = (world(), scripted([]), Log::default());
    let rings = Agent::new().handler(|caller: Caller, _: Model| async move {
        let at = caller.metadata().get("x-door").cloned().unwrap_or_default();
        caller.reply(format!("{} at {at}", caller.payload()["who"]));
        Ok(())
    });
    let flows = world
        .builder(&model)
        .flow(Flow::trigger(Trigger::webhook("bell")).next(rings).next(Flow::respond()).named("bell"))
        .flow(Flow::trigger(Trigger::webhook("quiet")).next(remembers(&log)).named("quiet"))
        .build()
        .unwrap();
    let call = |id: &'static str| {
        let metadata = IndexMap::from([("x-door".to_owned(), "front".to_owned())]);
        flows.hook(id, Principal::new("bell"), json!({"who": "ada"}), metadata)
    };
    let HookAnswer::Answer(answer) = call("bell").await.unwrap() else { panic!() };
    assert_eq!(answer.collect().await.unwrap().text(), "\"ada\" at front");
    assert!(matches!(call("quiet").await.unwrap(), HookAnswer::Accepted(_)));
    flows.scheduler().run_due().await.unwrap();
    assert_eq!(log.take(), ["bell {\"who\":\"ada\"} 1 0"]);
    assert!(matches!(call("none").await, Err(FlowError::UnknownHook { .. })));
}

#[tokio::test]
async fn triggers_set_off_one_another_eight_times_and_no_more() {
    let (world, model, log) = (world(), scripted([]), Log::default());
    let again = {
        let log = log.clone();
        Agent::new().handler(move |caller: Caller, _: Model| {
            let log = log.clone();
            async move {
                log.note(caller.depth().to_string());
                caller.schedule(WorkTime::Now, "house", Value::Null)?;
                Ok(())
            }
        })
    };
    let flows = world.serve(again, &model);
    let _ = ask(&flows, world.request("hi")).await;
    flows.scheduler().run_due().await.unwrap();
    let depths = log.take();
    assert_eq!(depths.last().map(String::as_str), Some("8"));
    assert_eq!(depths.len(), 9);
}

#[tokio::test]
async fn a15_21_a_body_has_the_whole_state_selection_request_and_tools() {
    let (world, model, log) = (world(), scripted([]), Log::default());
    let reads = {
        let log = log.clone();
        Agent::new().handler(move |caller: Caller, _: Model| {
            let log = log.clone();
            async move {
                let request = caller.request();
                log.note(format!("{:?} {}", request.controls.temperature, request.tools.len()));
                Ok(())
            }
        })
    };
    // Something stands between the router and its selection, and a trigger between both.
    let flow = Flow::agent(selects("a"))
        .next(says("between"))
        .next(Flow::trigger(Trigger::after(Duration::from_secs(1))))
        .next(Flow::select([Flow::agent(reads).with_id("a")]));
    let flows = world.serve(flow, &model);
    let mut request = world.request_with("hi", &["open"]);
    request.controls.temperature = Some(0.5);
    assert_eq!(text(&flows, request).await, "between");
    world.clock.advance(Duration::from_secs(1));
    flows.scheduler().run_due().await.unwrap();
    assert_eq!(log.take(), ["Some(0.5) 1"]);
}
