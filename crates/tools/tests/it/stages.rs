//! One table: every stage, every way in which it can answer, for every effect.

use crate::support::{Bench, block_on, call, raw_call, reason};
use placet_core::event::ApprovalRequested;
use placet_core::{CallId, Effect, Stage, Status, ToolResult};
use placet_testkit::recording::{Recording, Told};
use placet_tools::{
    Approver, ApproverFailure, Decision, Grant, Options, Policy, PolicyFailure, PolicyRequest, ToolError, ToolOutput,
    Verdict, capability, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Deserialize, JsonSchema)]
struct Step {
    dx: i64,
    #[expect(dead_code, reason = "the pipeline reads it, not the handler")]
    revision: Option<String>,
}

/// What goes wrong, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    TooLarge,
    LongName,
    ReusedId,
    Repeated,
    Unknown,
    Withheld,
    NotOffered,
    CancelledBefore,
    NotJson,
    HalfJson,
    NotAnObject,
    Schema,
    Type,
    Rule,
    Stale,
    SourceFails,
    Denied,
    PolicyFails,
    PolicyPanics,
    PolicyHangs,
    BlankQuestion,
    NobodyToAsk,
    HumanDenies,
    HumanSilent,
    ApproverFails,
    ApproverPanics,
    OtherContent,
    CancelledWhileAsking,
    StaleAgain,
    Impossible,
    DryMistaken,
    DryPanics,
    Completes,
    ReportsFailure,
    Mistaken,
    Refused,
    Conflict,
    Fails,
    Panics,
    PanicsAtOnce,
    TimesOut,
    Cancelled,
    EndsInGrace,
}

use Case::*;

/// Case, stage, status, reason, whether a protocol's error flag is set, how often the handler ran.
const TABLE: [(Case, Stage, Status, &str, bool, u32); 43] = [
    (TooLarge, Stage::Admit, Status::Mistaken, "too_large", true, 0),
    (LongName, Stage::Admit, Status::Mistaken, "too_large", true, 0),
    (ReusedId, Stage::Admit, Status::Mistaken, "request_id_conflict", true, 1),
    (Repeated, Stage::Execute, Status::Completed, "", false, 1),
    (Unknown, Stage::Registered, Status::Refused, "unknown_tool", true, 0),
    (Withheld, Stage::Granted, Status::Refused, "not_authorised", true, 0),
    (NotOffered, Stage::Granted, Status::Refused, "not_authorised", true, 0),
    (CancelledBefore, Stage::Registered, Status::Refused, "cancelled", false, 0),
    (NotJson, Stage::Arguments, Status::Mistaken, "invalid_arguments", true, 0),
    (HalfJson, Stage::Arguments, Status::Mistaken, "invalid_arguments", true, 0),
    (NotAnObject, Stage::Arguments, Status::Mistaken, "invalid_arguments", true, 0),
    (Schema, Stage::Arguments, Status::Mistaken, "invalid_arguments", true, 0),
    (Type, Stage::Arguments, Status::Mistaken, "invalid_arguments", true, 0),
    (Rule, Stage::Arguments, Status::Mistaken, "invalid_step", true, 0),
    (Stale, Stage::Fresh, Status::Conflict, "stale_revision", false, 0),
    (SourceFails, Stage::Fresh, Status::Failed, "tool_error", true, 0),
    (Denied, Stage::Approved, Status::Refused, "denied", false, 0),
    (PolicyFails, Stage::Approved, Status::Refused, "denied", false, 0),
    (PolicyPanics, Stage::Approved, Status::Refused, "denied", false, 0),
    (PolicyHangs, Stage::Approved, Status::Refused, "denied", false, 0),
    (BlankQuestion, Stage::Approved, Status::Refused, "denied", false, 0),
    (NobodyToAsk, Stage::Approved, Status::Refused, "denied", false, 0),
    (HumanDenies, Stage::Approved, Status::Refused, "denied", false, 0),
    (HumanSilent, Stage::Approved, Status::Refused, "approval_timeout", false, 0),
    (ApproverFails, Stage::Approved, Status::Refused, "denied", false, 0),
    (ApproverPanics, Stage::Approved, Status::Refused, "denied", false, 0),
    (OtherContent, Stage::Approved, Status::Refused, "denied", false, 0),
    (CancelledWhileAsking, Stage::Approved, Status::Refused, "cancelled", false, 0),
    (StaleAgain, Stage::FreshAgain, Status::Conflict, "stale_revision", false, 0),
    (Impossible, Stage::Possible, Status::Refused, "impossible", false, 0),
    (DryMistaken, Stage::Possible, Status::Mistaken, "invalid_arguments", true, 0),
    (DryPanics, Stage::Possible, Status::Failed, "panicked", true, 0),
    (Completes, Stage::Execute, Status::Completed, "", false, 1),
    (ReportsFailure, Stage::Execute, Status::Failed, "tool_error", true, 1),
    (Mistaken, Stage::Execute, Status::Mistaken, "invalid_arguments", true, 1),
    (Refused, Stage::Execute, Status::Refused, "blocked_wall", false, 1),
    (Conflict, Stage::Execute, Status::Conflict, "stale_revision", false, 1),
    (Fails, Stage::Execute, Status::Failed, "tool_error", true, 1),
    (Panics, Stage::Execute, Status::Failed, "panicked", true, 1),
    (PanicsAtOnce, Stage::Execute, Status::Failed, "panicked", true, 1),
    (TimesOut, Stage::Execute, Status::Failed, "timeout", true, 1),
    (Cancelled, Stage::Execute, Status::Failed, "cancelled", true, 1),
    (EndsInGrace, Stage::Execute, Status::Failed, "timeout", true, 1),
];

/// Where the effect makes a difference.
fn expected(case: Case, effect: Effect) -> (Stage, Status, &'static str, bool, u32) {
    let (_, stage, status, reason, is_error, runs) = *TABLE.iter().find(|row| row.0 == case).unwrap();
    match (case, effect) {
        // Whether it happened nobody knows; a read changes nothing, so there is nothing to know.
        (Cancelled, Effect::Idempotent | Effect::Once) => (stage, Status::Interrupted, reason, is_error, runs),
        // A read is dropped at once, anything else is heard out.
        (EndsInGrace, Effect::Idempotent | Effect::Once) => (stage, Status::Completed, "", false, runs),
        _ => (stage, status, reason, is_error, runs),
    }
}

async fn handle(case: Case, cx: placet_tools::ToolContext) -> Result<ToolOutput, ToolError> {
    match case {
        ReportsFailure => Ok(ToolOutput::text("exit code 1").failure()),
        Mistaken => Err(ToolError::mistaken("dx is too far")),
        Refused => Err(ToolError::refused("there is a wall").reason("blocked_wall")),
        Conflict => Err(ToolError::conflict("somebody was faster; the current revision is 8")),
        Fails => Err(std::io::Error::other("disk sda1 is gone"))?,
        Panics => panic!("sda1"),
        TimesOut | Cancelled => std::future::pending().await,
        EndsInGrace => {
            cx.cancellation().cancelled().await;
            Ok(ToolOutput::text("done in time"))
        }
        _ => Ok(ToolOutput::text("done")),
    }
}

struct Judge(Case);

#[async_trait::async_trait]
impl Policy for Judge {
    async fn judge(&self, _: &PolicyRequest<'_>) -> Result<Verdict, PolicyFailure> {
        match self.0 {
            Denied => Ok(Verdict::deny("not on Sundays")),
            PolicyFails => Err(PolicyFailure("sda1".into())),
            PolicyPanics => panic!("sda1"),
            PolicyHangs => std::future::pending().await,
            BlankQuestion => Ok(Verdict::ask(" ")),
            NobodyToAsk | HumanDenies | HumanSilent | ApproverFails | ApproverPanics | OtherContent
            | CancelledWhileAsking | StaleAgain => Ok(Verdict::ask("really?")),
            _ => Ok(Verdict::Allow),
        }
    }
}

struct Human(Case, Arc<AtomicU32>);

#[async_trait::async_trait]
impl Approver for Human {
    async fn decide(&self, asked: &ApprovalRequested, _: &PolicyRequest<'_>) -> Result<Decision, ApproverFailure> {
        match self.0 {
            HumanDenies => Ok(Decision::deny(asked, "ada", Some("too risky".into()))),
            HumanSilent | CancelledWhileAsking => std::future::pending().await,
            ApproverFails => Err(ApproverFailure("sda1".into())),
            ApproverPanics => panic!("sda1"),
            OtherContent => {
                let mut other = asked.clone();
                other.content_hash = "0".repeat(64);
                Ok(Decision::approve(&other, "ada"))
            }
            _ => {
                self.1.store(8, Ordering::SeqCst);
                Ok(Decision::approve(asked, "ada"))
            }
        }
    }
}

async fn run(case: Case, effect: Effect) -> (ToolResult, u32, Vec<Told>) {
    let runs = Arc::new(AtomicU32::new(0));
    let revision = Arc::new(AtomicU32::new(7));
    let (ran, current) = (runs.clone(), revision.clone());
    let step = |name: &str| {
        let (ran, current) = (ran.clone(), current.clone());
        tool(name, "Steps.", move |_: Step, cx| {
            ran.fetch_add(1, Ordering::SeqCst);
            if case == PanicsAtOnce {
                panic!("sda1");
            }
            handle(case, cx)
        })
        .effect(effect)
        .timeout(Duration::from_secs(10))
        .revision("revision")
        .current_revision(move |_, _| {
            let now = current.load(Ordering::SeqCst).to_string();
            async move { if case == SourceFails { Err(ToolError::failed("the source is dry")) } else { Ok(Some(now)) } }
        })
        .domain(move |args: &Step| {
            if args.dx.abs() > 1 {
                return Err(ToolError::mistaken("dx is -1, 0 or 1").reason("invalid_step").at("/dx"));
            }
            Ok(())
        })
        .possible(move |_, _| async move {
            match case {
                Impossible => Err(ToolError::refused("the way is blocked")),
                DryMistaken => Err(ToolError::mistaken("that is no step")),
                DryPanics => panic!("sda1"),
                _ => Ok(()),
            }
        })
        .build()
    };
    let held = capability("walk").tool(step("step")).tool(step("withheld"));
    let recording = Recording::new();
    let mut options = Options::default().policy(Judge(case)).recorder(recording.clone()).arguments(500);
    if case != NobodyToAsk {
        options = options.approver(Human(case, revision.clone()));
    }
    let bench = Bench::new([Grant::new(held).only(["step"])], options);
    let id: CallId = bench.env.new_id();
    let sound = r#"{"dx": 1, "revision": "7"}"#;
    if matches!(case, ReusedId | Repeated) {
        bench.run(&raw_call(id.clone(), "step", sound)).await;
    }
    let long = "x".repeat(600);
    let asked = match case {
        TooLarge => call(id, "step", serde_json::json!({"dx": long})),
        LongName => raw_call(id, &long, sound),
        ReusedId => raw_call(id, "step", r#"{"dx": 0, "revision": "7"}"#),
        // By meaning it is the same call.
        Repeated => raw_call(id, "step", r#"{"revision":"7","dx":1}"#),
        Unknown => raw_call(id, "unknown", sound),
        Withheld => raw_call(id, "withheld", sound),
        NotJson => raw_call(id, "step", "dx = 1"),
        HalfJson => raw_call(id, "step", r#"{"dx": 1, "revi"#),
        NotAnObject => raw_call(id, "step", "[1]"),
        Schema => raw_call(id, "step", r#"{"dx": "east"}"#),
        // An integer for JSON Schema, but none for the type.
        Type => raw_call(id, "step", r#"{"dx": 1.0}"#),
        Rule => raw_call(id, "step", r#"{"dx": 2}"#),
        Stale => raw_call(id, "step", r#"{"dx": 1, "revision": "6"}"#),
        _ => raw_call(id, "step", sound),
    };
    let token = CancellationToken::new();
    let mut cx = bench.cx().cancelled_by(token.clone());
    if case == NotOffered {
        cx = cx.offered(["other".into()]);
    }
    if case == CancelledBefore {
        token.cancel();
    }
    let time = async {
        // Everything that can go on by itself does, then time passes.
        let settle = async || {
            for _ in 0..30 {
                tokio::task::yield_now().await;
            }
        };
        settle().await;
        if matches!(case, Cancelled | CancelledWhileAsking) {
            token.cancel();
        }
        for span in [Duration::from_secs(10), Duration::from_secs(5), Duration::from_secs(600)] {
            settle().await;
            bench.clock.advance(span);
        }
    };
    let (result, ()) = tokio::join!(bench.pipeline.run(&asked, cx), time);
    (result.unwrap(), runs.load(Ordering::SeqCst), recording.told())
}

#[test]
fn every_stage_outcome_and_effect() {
    std::panic::set_hook(Box::new(|_| {}));
    block_on(async {
        for (case, ..) in TABLE {
            for effect in [Effect::Read, Effect::Idempotent, Effect::Once] {
                let (result, ran, told) = run(case, effect).await;
                let outcome = &result.outcome;
                let got = (outcome.stage, outcome.status, reason(&result), outcome.is_error(), ran);
                assert_eq!(got, expected(case, effect), "{case:?} {effect:?}: {result:?}");
                let text = outcome.text();
                assert!(!text.trim().is_empty() && !text.contains("sda1"), "{case:?}: {text}");
                assert_eq!(outcome.repeated, case == Repeated);
                assert!(!outcome.origin.is_empty(), "{case:?} says where it came from");
                let known = !matches!(case, TooLarge | LongName | ReusedId | Unknown | CancelledBefore);
                assert_eq!(result.capability.is_some(), known, "{case:?}");
                // A start has exactly one end, a question exactly one decision.
                let count = |wanted: fn(&Told) -> bool| told.iter().filter(|told| wanted(told)).count();
                assert_eq!(count(|told| matches!(told, Told::Ended(_))), 1, "{case:?} {effect:?}");
                assert_eq!(count(|told| matches!(told, Told::Starting(_))), ran as usize, "{case:?} {effect:?}");
                assert_eq!(
                    count(|told| matches!(told, Told::Asked(_))),
                    count(|told| matches!(told, Told::Decided(..))),
                    "{case:?} {effect:?}"
                );
            }
        }
    });
    let _ = std::panic::take_hook();
}

#[test]
fn causes_are_kept_for_the_journal() {
    std::panic::set_hook(Box::new(|_| {}));
    block_on(async {
        for case in [PolicyFails, PolicyPanics, ApproverFails, ApproverPanics, DryPanics, Fails, Panics, PanicsAtOnce] {
            let (result, ..) = run(case, Effect::Once).await;
            assert!(result.outcome.cause.as_deref().unwrap().contains("sda1"), "{case:?}");
        }
    });
    let _ = std::panic::take_hook();
}

#[test]
fn invalid_arguments_say_where_what_was_expected_and_what_arrived() {
    block_on(async {
        let (result, ..) = run(Schema, Effect::Read).await;
        assert_eq!(
            result.outcome.text(),
            "the arguments are not valid; nothing was run:\n- /dx: \"east\" is not of type \"integer\""
        );
        assert_eq!(
            result.outcome.detail,
            Some(serde_json::json!([{"path": "/dx", "problem": "\"east\" is not of type \"integer\""}]))
        );
        let (result, ..) = run(Type, Effect::Read).await;
        assert_eq!(result.outcome.detail.as_ref().unwrap()[0]["path"], "/dx", "{result:?}");
        let (result, ..) = run(Rule, Effect::Read).await;
        assert_eq!(result.outcome.detail.as_ref().unwrap()[0]["path"], "/dx");
        let (result, ..) = run(Stale, Effect::Read).await;
        assert_eq!(result.outcome.detail, Some(serde_json::json!({"sent": "6", "current": "7"})));
        assert!(result.outcome.text().contains('6') && result.outcome.text().contains('7'));
    });
}
