#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use placet_core::env::ManualClock;
use placet_core::{Arguments, Message, Origin, Outcome, Part, Stage, Status, Timestamp};

fn env() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::EPOCH), 9)
}

fn call(env: &Env, id: &str, name: &str) -> Arc<Item> {
    let call = ToolCall {
        id: env.new_id(),
        provider_id: Some(id.to_owned()),
        name: name.into(),
        arguments: Arguments::from_text("{}"),
        native: None,
    };
    Arc::new(Item::new(env.new_id(), Origin::Model, call))
}

fn result(env: &Env, id: &str, text: &str) -> Arc<Item> {
    let result = ToolResult {
        call: env.new_id(),
        provider_id: Some(id.to_owned()),
        tool: "".into(),
        capability: None,
        outcome: Outcome::new(Status::Completed, Stage::Execute, None, text),
        native: None,
    };
    Arc::new(Item::new(env.new_id(), Origin::User, result))
}

fn says(env: &Env, role: Role, text: &str) -> Arc<Item> {
    Arc::new(Item::new(env.new_id(), Origin::User, Message { role, parts: vec![Part::text(text)], native: None }))
}

/// What a transcript says, in short: `call name`, `result name text`, texts.
fn told(items: &[Arc<Item>]) -> Vec<String> {
    items
        .iter()
        .map(|item| match &item.body {
            ItemBody::ToolCall(call) => format!("call {}", call.name),
            ItemBody::ToolResult(result) => format!("result {} {}", result.tool, result.outcome.text()),
            ItemBody::Message(message) => message.text(),
            other => other.kind().to_owned(),
        })
        .collect()
}

#[test]
fn a15_05_a_call_that_takes_an_answered_id_again_is_another_call() {
    let env = env();
    let items = [
        says(&env, Role::User, "go"),
        call(&env, "call_0", "a"),
        result(&env, "call_0", "one"),
        call(&env, "call_0", "b"),
        result(&env, "call_0", "two"),
    ];
    let linked = link(&env, &items, Unanswered::Cancel).unwrap();
    assert_eq!(told(&linked), ["go", "call a", "result a one", "call b", "result b two"]);
    let ids: HashSet<_> = crate::model::calls_in(&linked).into_iter().map(|call| call.provider_id).collect();
    assert_eq!(ids.len(), 2, "each call has an id of its own");
    let links = crate::links::Links::of(&linked);
    for call in crate::model::calls_in(&linked) {
        assert!(links.result_of(&call).is_resolved());
    }
}

#[test]
fn a15_04_calls_that_were_left_open_are_cancelled_or_refused_and_never_called_again() {
    let env = env();
    let items = [
        call(&env, "old1", "a"),
        call(&env, "old2", "b"),
        result(&env, "old2", "done"),
        says(&env, Role::User, "and now?"),
    ];
    let linked = link(&env, &items, Unanswered::Cancel).unwrap();
    let told = told(&linked);
    assert_eq!((told[..2].join(" "), told[3].as_str()), ("call a call b".to_owned(), "result b done"));
    assert!(told[2].starts_with("result a not run"), "{told:?}");
    assert_eq!(told[4], "and now?");
    match link(&env, &items, Unanswered::Refuse) {
        Err(FlowError::UnansweredCalls { calls }) => assert_eq!(calls, ["old1"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a15_06_what_a_client_says_beside_its_results_stays() {
    let env = env();
    let items = [
        call(&env, "x", "a"),
        says(&env, Role::User, "careful"),
        result(&env, "x", "1"),
        says(&env, Role::User, "well?"),
    ];
    let linked = link(&env, &items, Unanswered::Cancel).unwrap();
    assert_eq!(told(&linked), ["call a", "result a 1", "careful", "well?"], "results come first");
}

#[test]
fn results_that_nobody_asked_for_and_second_ones_are_refused_by_name() {
    let env = env();
    let forged = link(&env, &[says(&env, Role::User, "hi"), result(&env, "nope", "1")], Unanswered::Cancel);
    assert!(matches!(forged, Err(FlowError::UnknownResult { call }) if call == "nope"));
    let items = [call(&env, "x", "a"), result(&env, "x", "1"), result(&env, "x", "2")];
    assert!(matches!(link(&env, &items, Unanswered::Cancel), Err(FlowError::RepeatedResult { call }) if call == "x"));
}

#[test]
fn a10_counterparts_that_are_not_there_are_stubs() {
    let env = env();
    let items = [call(&env, "x", "a")];
    let links = crate::links::Links::of(&items);
    let ItemBody::ToolCall(call) = &items[0].body else { panic!() };
    assert_eq!(links.result_of(call), crate::links::Linked::Stub(call.id.clone()));
    let lone = result(&env, "x", "1");
    let ItemBody::ToolResult(result) = &lone.body else { panic!() };
    assert!(!links.call_of(result).is_resolved());
}

#[test]
fn results_without_ids_go_by_order_and_repeated_ids_by_their_place() {
    let env = env();
    let unnamed = |text: &str| {
        let ItemBody::ToolResult(named) = &result(&env, "", text).body else { panic!() };
        Arc::new(Item::new(env.new_id(), Origin::User, ToolResult { provider_id: None, ..(**named).clone() }))
    };
    let items = [
        call(&env, "x", "a"),
        call(&env, "x", "b"),
        call(&env, "y", "c"),
        call(&env, "z", "d"),
        unnamed("1"),
        result(&env, "x", "2"),
        result(&env, "z", "4"),
        unnamed("3"),
    ];
    let linked = link(&env, &items, Unanswered::Cancel).unwrap();
    assert_eq!(told(&linked)[4..], ["result a 1", "result b 2", "result c 3", "result d 4"]);
    for more in [unnamed("5"), result(&env, "x", "5")] {
        let items: Vec<_> = items.iter().cloned().chain([more]).collect();
        assert!(link(&env, &items, Unanswered::Cancel).is_err());
    }
}
