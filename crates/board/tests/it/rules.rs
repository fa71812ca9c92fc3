//! Rules as data, which stand with the board and count in every process.

use crate::world::{World, every, every_manual, id, json, spec, written};
use placet_board::rules::{Proposed, StoredRule, StoredRules, StoredTermination, Termination, Verdict, Webhooks};
use placet_board::{
    BoardError, BoardId, BoardsOptions, Cause, ClosedAs, Control, Delivery, SetRequest, WriteRequest, WriteResult,
};
use std::sync::Arc;

async fn refused(control: &Control, level: &str, content: &str) -> Option<String> {
    match control.write("ann", &WriteRequest::new(level, json(content))).await.unwrap() {
        WriteResult::Written(_) => None,
        WriteResult::Rejected(rejected) => {
            assert_eq!(rejected.cause, Cause::Admission);
            Some(rejected.reason)
        }
        WriteResult::Conflict(conflict) => panic!("{conflict:?}"),
    }
}

#[tokio::test]
async fn schemas_and_expressions_judge_in_every_process() {
    every("stored rules", async |world| {
        let rules: StoredRules = serde_json::from_str(
            r#"{"admission": [
                {"regions": ["findings"], "schema": {"type": "object", "required": ["severity"]}},
                {"regions": ["findings"], "expression": "content.severity >= 3", "reason": "only what is severe"},
                {"writers": ["bob"], "expression": "kind == \"premise\""},
                {"expression": "size < 100"}
            ]}"#,
        )
        .unwrap();
        world.boards().open(&id("incident"), &spec().rules(rules.clone())).await.unwrap();
        // Opened again without rules, they stay.
        let control = world.boards().open(&id("incident"), &spec()).await.unwrap();
        assert_eq!(refused(&control, "findings", "{\"severity\": 3}").await, None);
        assert_eq!(refused(&control, "findings", "{\"severity\": 2}").await.as_deref(), Some("only what is severe"));
        assert_eq!(refused(&control, "findings", "{}").await.as_deref(), Some("the field \"severity\" is missing"));
        let long = format!("{{\"severity\": 3, \"text\": \"{}\"}}", "x".repeat(100));
        assert_eq!(refused(&control, "findings", &long).await.as_deref(), Some("it does not hold that size < 100"));
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        assert!(refused(&control, "findings", &deep).await.unwrap().contains("recursion"));
        let bob = control.write("bob", &WriteRequest::new("findings", json("{\"severity\":9}"))).await.unwrap();
        assert!(matches!(bob, WriteResult::Rejected(_)));
        written(control.set_premise("bob", &SetRequest::new("goal", json("1"), 1)).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_stored_predicate_is_asked_by_any_process() {
    every_manual(async |world| {
        let done = StoredTermination { expression: Some("premises.goal == \"done\"".into()), webhook: None };
        let rules = StoredRules::new().termination(done);
        let control = world.boards().open(&id("incident"), &spec().rules(rules)).await.unwrap();
        world.advance(61);
        assert!(world.boards().close_expired(9).await.unwrap().is_empty());
        written(control.set_premise("ann", &SetRequest::new("goal", json("\"done\""), 1)).await.unwrap());
        world.advance(61);
        assert_eq!(world.boards().close_expired(9).await.unwrap().len(), 1);
        assert_eq!(control.outcome().await.unwrap().unwrap().closed_as, ClosedAs::Settled);
    })
    .await;
}

#[test]
fn a_rule_that_cannot_be_asked_is_told_before() {
    for (rule, says) in [
        (r#"{}"#, "a rule has exactly one of"),
        (r#"{"schema": {"type": "objec"}}"#, "a rule's schema is none"),
        (r#"{"expression": "a =="}"#, "expected a value at its end"),
        (r#"{"expression": "true", "webhook": "http://x"}"#, "a rule has exactly one of"),
    ] {
        let rule: StoredRule = serde_json::from_str(rule).unwrap();
        let error = StoredRules::new().rule(rule).check().unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

struct Hooks;

#[async_trait::async_trait]
impl Webhooks for Hooks {
    async fn judge(&self, url: &str, board: &BoardId, proposed: &Proposed) -> placet_board::Result<Verdict> {
        match url {
            "http://away" => Err(BoardError::Rule { problem: "away".into() }),
            url => Ok(Verdict::Reject(format!("{url} {board} {} {}", proposed.writer(), proposed.region()))),
        }
    }

    async fn decide(&self, _: &str, _: &BoardId) -> placet_board::Result<Termination> {
        Ok(Termination::Complete)
    }
}

#[tokio::test]
async fn a_rule_behind_a_url_is_asked_by_who_can() {
    let world = World::memory();
    let hook = |url: &str| StoredRules::new().rule(StoredRule { webhook: Some(url.into()), ..StoredRule::default() });
    let options = BoardsOptions::default().delivery(Delivery::Inline).webhooks(Arc::new(Hooks));
    let boards = world.boards_with(options);
    let control = boards.open(&id("incident"), &spec().rules(hook("http://no"))).await.unwrap();
    assert_eq!(refused(&control, "findings", "1").await.as_deref(), Some("http://no incident ann findings"));
    let without = world.boards().control(&id("incident"));
    let error = without.write("ann", &WriteRequest::new("findings", json("1"))).await.unwrap_err();
    assert_eq!(error.to_string(), "the rule could not be asked: this process asks no webhooks");
    boards.open(&id("incident"), &spec().rules(hook("http://away"))).await.unwrap();
    let error = control.write("ann", &WriteRequest::new("findings", json("1"))).await;
    // What was known of the rules was looked at again by the commit only; a refusal is not.
    assert!(error.is_err() || matches!(error, Ok(WriteResult::Rejected(_))));
    assert_eq!(control.reader().head().await.unwrap(), 1);
}
