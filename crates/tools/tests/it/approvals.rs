//! Approvals: bound to their content, asked once, decided once.

use crate::support::{Bench, block_on, reason};
use placet_core::event::ApprovalRequested;
use placet_core::{Effect, Stage, Status};
use placet_testkit::recording::{Recording, Told};
use placet_tools::{
    AllowAll, Approver, ApproverFailure, Decision, Grant, Options, PolicyFn, PolicyRequest, ToolContext, Verdict,
    content_hash, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Clone, Deserialize, JsonSchema)]
struct Write {
    text: String,
}

fn write() -> placet_tools::ToolBuilder<Write> {
    tool("write", "Writes.", |args: Write, _cx| async move { args.text })
        .effect(Effect::Once)
        .ask_first(|args: &Write| (args.text != "harmless").then(|| format!("write {:?}?", args.text)))
}

/// Approves everything and keeps what it was asked.
#[derive(Clone, Default)]
struct Yes(Arc<Mutex<Vec<ApprovalRequested>>>);

#[async_trait::async_trait]
impl Approver for Yes {
    async fn decide(&self, asked: &ApprovalRequested, _: &PolicyRequest<'_>) -> Result<Decision, ApproverFailure> {
        self.0.lock().unwrap().push(asked.clone());
        Ok(Decision::approve(asked, "ada"))
    }
}

/// Answers every question with its first answer.
#[derive(Clone, Default)]
struct Replays(Arc<Mutex<Option<Decision>>>);

#[async_trait::async_trait]
impl Approver for Replays {
    async fn decide(&self, asked: &ApprovalRequested, _: &PolicyRequest<'_>) -> Result<Decision, ApproverFailure> {
        Ok(self.0.lock().unwrap().get_or_insert_with(|| Decision::approve(asked, "ada")).clone())
    }
}

#[test]
fn an_approval_approves_the_content_that_was_shown_and_nothing_else() {
    block_on(async {
        let bench = Bench::new([Grant::tool(write())], Options::default().approver(Replays::default()));
        let first = bench.ask("write", json!({"text": "one"})).await;
        assert_eq!(first.outcome.status, Status::Completed);
        let second = bench.ask("write", json!({"text": "other"})).await;
        assert_eq!((second.outcome.status, reason(&second)), (Status::Refused, "denied"));
        // Nor does it approve the same content a second time: the question was another one.
        let again = bench.ask("write", json!({"text": "one"})).await;
        assert_eq!(reason(&again), "denied");
    });
}

#[test]
fn a_tool_asks_where_it_wants_to_and_a_grant_can_lift_that() {
    block_on(async {
        let yes = Yes::default();
        let bench = Bench::new([Grant::tool(write())], Options::default().approver(yes.clone()));
        bench.ask("write", json!({"text": "harmless"})).await;
        assert_eq!(yes.0.lock().unwrap().len(), 0);
        let call = bench.call("write", json!({"text": "risky"}));
        bench.run(&call).await;
        {
            let asked = yes.0.lock().unwrap();
            assert_eq!(asked[0].question, "write \"risky\"?");
            assert_eq!(asked[0].content_hash, content_hash(&call).to_hex());
            assert_eq!(asked[0].capability, Some("write".into()));
        }
        let lifted = Bench::new([Grant::tool(write()).preapproved()], Options::default().policy(AllowAll));
        assert_eq!(lifted.ask("write", json!({"text": "risky"})).await.outcome.status, Status::Completed);
        // But without somebody to ask, and without that, it is denied.
        let alone = Bench::new([Grant::tool(write())], Options::default());
        assert_eq!(reason(&alone.ask("write", json!({"text": "risky"})).await), "denied");
    });
}

#[test]
fn a_grant_can_ask_before_whatever_changes_something() {
    block_on(async {
        let yes = Yes::default();
        let look = tool("look", "Looks.", |args: Write, _cx| async move { args.text });
        let grants = [Grant::tool(look).ask_first(), Grant::tool(write()).ask_first()];
        let bench = Bench::new(grants, Options::default().approver(yes.clone()));
        bench.ask("look", json!({"text": "risky"})).await;
        assert!(yes.0.lock().unwrap().is_empty());
        bench.ask("write", json!({"text": "harmless"})).await;
        bench.ask("write", json!({"text": "risky"})).await;
        let questions: Vec<String> = yes.0.lock().unwrap().iter().map(|asked| asked.question.clone()).collect();
        assert_eq!(questions, ["May `write` run?", "write \"risky\"?"]);
    });
}

/// Says yes, once somebody else has changed what is asked about.
struct Late(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl Approver for Late {
    async fn decide(&self, asked: &ApprovalRequested, _: &PolicyRequest<'_>) -> Result<Decision, ApproverFailure> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Decision::approve(asked, "ada"))
    }
}

#[test]
fn what_has_changed_while_a_human_was_asked_is_not_done() {
    block_on(async {
        let state = Arc::new(AtomicUsize::new(0));
        let at = |state: &Arc<AtomicUsize>| {
            let state = state.clone();
            move |_: Write, _cx: ToolContext| {
                let now = state.load(Ordering::SeqCst);
                async move { Ok(Some(now.to_string())) }
            }
        };
        let grants = || [Grant::tool(write().current_revision(at(&state)))];
        let moves = Bench::new(grants(), Options::default().approver(Late(state.clone())));
        let stale = moves.ask("write", json!({"text": "risky"})).await;
        assert_eq!((stale.outcome.status, reason(&stale)), (Status::Conflict, "stale_revision"));
        assert_eq!(stale.outcome.stage, Stage::FreshAgain);
        let still = Bench::new(grants(), Options::default().approver(Yes::default()));
        assert_eq!(still.ask("write", json!({"text": "risky"})).await.outcome.status, Status::Completed);
    });
}

#[test]
fn a_policy_stands_above_a_preapproval_and_its_reason_reaches_the_model() {
    block_on(async {
        let options = Options::default()
            .policy(PolicyFn(|request: &PolicyRequest<'_>| match request.arguments["text"].as_str() {
                Some("ask") => Verdict::ask("the policy wonders"),
                _ => Verdict::deny("no writing on Sundays"),
            }))
            .approver(Yes::default());
        let bench = Bench::new([Grant::tool(write()).preapproved()], options);
        let denied = bench.ask("write", json!({"text": "x"})).await;
        assert_eq!(denied.outcome.text(), "the call is not permitted: no writing on Sundays");
        assert!(!denied.outcome.is_error());
        assert_eq!(bench.ask("write", json!({"text": "ask"})).await.outcome.status, Status::Completed);
    });
}

#[test]
fn a_repeated_call_is_not_asked_about_again() {
    block_on(async {
        let yes = Yes::default();
        let recording = Recording::new();
        let options = Options::default().approver(yes.clone()).recorder(recording.clone());
        let bench = Bench::new([Grant::tool(write())], options);
        let call = bench.call("write", json!({"text": "risky"}));
        bench.run(&call).await;
        assert!(bench.run(&call).await.outcome.repeated);
        assert_eq!(yes.0.lock().unwrap().len(), 1);
        let told = recording.told();
        let decided: Vec<_> = told.iter().filter(|told| matches!(told, Told::Decided(true, _))).collect();
        assert_eq!(decided.len(), 1);
    });
}
