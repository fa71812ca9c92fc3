//! The properties of the pipeline, each in one test named after it. The world is the ledger of the testkit.

use crate::support::{Bench, block_on, call, raw_call, reason};
use placet_core::event::ApprovalRequested;
use placet_core::{CallId, Env, RunId, Stage, Status, ToolResult};
use placet_testkit::ledger::{Ledger, Trouble};
use placet_testkit::recording::{Recording, Told};
use placet_tools::{
    Approver, ApproverFailure, Bounds, CallContext, Decision, Grant, Keep, Options, Pipeline, PolicyFn, PolicyRequest,
    Registry, ToolOutput, Verdict, capability, parse_proposal, tool,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn ledger() -> Ledger {
    Ledger::new([("ada", 100), ("bob", 50)])
}

fn bench(ledger: &Ledger, options: Options) -> Bench {
    Bench::new([Grant::new(ledger.capability())], options)
}

fn transfer(ledger: &Ledger, amount: i64) -> Value {
    json!({"from": "ada", "to": "bob", "amount": amount, "revision": ledger.revision()})
}

/// Anything that a model might send as a transfer: right, wrong in one way, or wild.
fn arguments() -> impl Strategy<Value = Value> {
    let name = prop_oneof![Just("ada"), Just("bob"), Just("eve")];
    let sound = (name.clone(), name, 1_i64..120, 0_u64..4).prop_map(
        |(from, to, amount, revision)| json!({"from": from, "to": to, "amount": amount, "revision": revision}),
    );
    let wild = prop_oneof![
        Just(json!({})),
        Just(json!({"from": "ada"})),
        Just(json!({"from": 5, "to": "bob", "amount": "many", "revision": 0})),
        Just(json!({"from": "ada", "to": "bob", "amount": -3, "revision": 0})),
        Just(json!({"from": "ada", "to": "bob", "amount": 1001, "revision": 0})),
        Just(json!({"from": "ada", "to": "bob", "amount": 1, "revision": 0, "extra": true})),
        Just(json!([1, 2])),
        Just(json!("text")),
    ];
    prop_oneof![4 => sound, 1 => wild]
}

fn tool_name() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just("transfer"), 1 => Just("observe"), 1 => Just("unknown"), 1 => Just("withheld")]
}

fn trouble() -> impl Strategy<Value = Option<Trouble>> {
    prop_oneof![4 => Just(None), 1 => Just(Some(Trouble::Fails)), 1 => Just(Some(Trouble::Panics))]
}

/// The ledger with one more tool that nobody was handed.
fn narrowed(ledger: &Ledger) -> Grant {
    let whole = capability("ledger")
        .tool(ledger.observe())
        .tool(ledger.transfer_as("transfer"))
        .tool(ledger.transfer_as("withheld"));
    Grant::new(whole).only(["observe", "transfer"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn p1_a_rejection_leaves_the_state_as_it_was(
        steps in prop::collection::vec((tool_name(), arguments(), trouble(), any::<bool>()), 1..12)
    ) {
        block_on(async {
            let ledger = ledger();
            for (name, arguments, trouble, denies) in steps {
                let verdict = if denies { Verdict::deny("no") } else { Verdict::Allow };
                let options = Options::default().policy(PolicyFn(move |_: &PolicyRequest<'_>| verdict.clone()));
                let bench = Bench::new([narrowed(&ledger)], options);
                if let Some(trouble) = trouble {
                    ledger.trouble(trouble);
                }
                let before = ledger.hash();
                let result = bench.ask(name, arguments).await;
                if result.outcome.status != Status::Completed {
                    prop_assert_eq!(ledger.hash(), before, "{:?}", result);
                    prop_assert!(result.outcome.reason.is_some(), "{:?}", result);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn p2_one_result_for_each_call_id(
        first in arguments(), second in arguments(), other_tool in any::<bool>(), times in 1_usize..4
    ) {
        block_on(async {
            let ledger = ledger();
            let recording = Recording::new();
            let bench = bench(&ledger, Options::default().recorder(recording.clone()));
            let id: CallId = bench.env.new_id();
            let original = call(id.clone(), "transfer", first.clone());
            let result = bench.run(&original).await;
            let after = ledger.hash();
            for _ in 0..times {
                let mut expected = result.clone();
                expected.outcome.repeated = true;
                prop_assert_eq!(bench.run(&original).await, expected);
                prop_assert_eq!(ledger.hash(), after);
            }
            let another = call(id, if other_tool { "observe" } else { "transfer" }, second.clone());
            let answer = bench.run(&another).await;
            if other_tool || first != second {
                prop_assert_eq!(reason(&answer), "request_id_conflict");
                prop_assert_eq!(answer.outcome.stage, Stage::Admit);
            } else {
                prop_assert!(answer.outcome.repeated);
            }
            prop_assert_eq!(ledger.hash(), after);
            prop_assert_eq!(recording.results(), [result], "one result is recorded");
            Ok(())
        })?;
    }

    #[test]
    fn p3_events_and_completed_changes_match_one_to_one(
        steps in prop::collection::vec((tool_name(), arguments(), trouble()), 1..16)
    ) {
        block_on(async {
            let ledger = ledger();
            let bench = Bench::new([narrowed(&ledger)], Options::default());
            let mut changed = Vec::new();
            for (name, arguments, trouble) in steps {
                if let Some(trouble) = trouble {
                    ledger.trouble(trouble);
                }
                let result = bench.ask(name, arguments).await;
                if result.outcome.status == Status::Completed && name == "transfer" {
                    changed.push(result.call);
                }
            }
            let caused: Vec<CallId> = ledger.events().into_iter().map(|event| event.call).collect();
            prop_assert_eq!(caused, changed);
            Ok(())
        })?;
    }

    #[test]
    fn p5_who_may_not_call_a_tool_learns_nothing_by_calling_it(
        arguments in "(?s).{0,80}", moved in prop::collection::vec(1_i64..20, 0..3), denies in any::<bool>(),
        unknown in "[a-z_]{1,20}"
    ) {
        prop_assume!(!["observe", "transfer", "withheld"].contains(&unknown.as_str()));
        block_on(async {
            let ledger = ledger();
            let verdict = if denies { Verdict::deny("no") } else { Verdict::Allow };
            let options = Options::default().policy(PolicyFn(move |_: &PolicyRequest<'_>| verdict.clone()));
            let bench = Bench::new([narrowed(&ledger)], options);
            let other = Bench::new([narrowed(&ledger)], Options::default());
            for amount in moved {
                other.ask("transfer", transfer(&ledger, amount)).await;
            }
            // A sound call, a call with anything as arguments, and a call to a name that nobody has.
            let mut shown = BTreeSet::new();
            for (name, text) in [
                ("withheld", transfer(&ledger, 1).to_string()),
                ("withheld", arguments.clone()),
                (unknown.as_str(), transfer(&ledger, 1).to_string()),
                (unknown.as_str(), arguments.clone()),
            ] {
                let result = bench.run(&raw_call(bench.env.new_id(), name, &text)).await;
                let expected = if name == "withheld" { "not_authorised" } else { "unknown_tool" };
                prop_assert_eq!(reason(&result), expected);
                prop_assert_eq!(result.outcome.status, Status::Refused);
                let parts = serde_json::to_string(&result.outcome.content).unwrap();
                shown.insert(format!("{} {} {:?}", result.outcome.is_error(), parts, result.outcome.detail));
            }
            prop_assert_eq!(shown.len(), 1, "{:?}", shown);
            prop_assert!(!shown.iter().any(|text| text.contains("transfer") || text.contains("observe")));
            Ok(())
        })?;
    }

    #[test]
    fn p6_results_calls_turns_and_events_name_each_other(
        steps in prop::collection::vec((tool_name(), arguments(), trouble()), 1..12)
    ) {
        block_on(async {
            let ledger = ledger();
            let recording = Recording::new();
            let bench = Bench::new([narrowed(&ledger)], Options::default().recorder(recording.clone()));
            let run: RunId = bench.env.new_id();
            let mut asked = Vec::new();
            for (name, arguments, trouble) in steps {
                if let Some(trouble) = trouble {
                    ledger.trouble(trouble);
                }
                let call = bench.call(name, arguments);
                let cx = bench.cx().asked_by(run.clone(), bench.env.new_id());
                let result = bench.pipeline.run(&call, cx).await.unwrap();
                prop_assert_eq!(&result.call, &call.id);
                prop_assert_eq!(&result.tool, &call.name);
                prop_assert_eq!(result.capability.is_some(), name != "unknown");
                asked.push(call.id);
            }
            let answered: Vec<CallId> = recording.results().into_iter().map(|result| result.call).collect();
            prop_assert_eq!(&answered, &asked, "each call has one result, and each result one call");
            let completed: BTreeSet<CallId> = recording.results().into_iter()
                .filter(|result| result.outcome.status == Status::Completed).map(|result| result.call).collect();
            prop_assert!(ledger.events().iter().all(|event| completed.contains(&event.call)));
            let started: Vec<CallId> = recording.told().into_iter().filter_map(|told| match told {
                Told::Starting(call) => Some(call.id),
                _ => None,
            }).collect();
            let executed: Vec<CallId> = recording.results().into_iter()
                .filter(|result| result.outcome.stage == Stage::Execute).map(|result| result.call).collect();
            prop_assert_eq!(started, executed, "a handler starts exactly where *execute* answers");
            Ok(())
        })?;
    }

    #[test]
    fn p7_the_revision_grows_by_one_for_each_change_and_by_nothing_else(
        steps in prop::collection::vec((tool_name(), arguments(), trouble()), 1..16)
    ) {
        block_on(async {
            let ledger = ledger();
            let bench = Bench::new([narrowed(&ledger)], Options::default());
            for (name, arguments, trouble) in steps {
                if let Some(trouble) = trouble {
                    ledger.trouble(trouble);
                }
                let before = ledger.revision();
                let result = bench.ask(name, arguments).await;
                let changes = result.outcome.status == Status::Completed && name == "transfer";
                prop_assert_eq!(ledger.revision(), before + u64::from(changes));
                match result.outcome.revision {
                    Some(revision) => {
                        prop_assert!(changes);
                        prop_assert_eq!(revision.before, before.to_string());
                        prop_assert_eq!(revision.after, (before + 1).to_string());
                    }
                    None => prop_assert!(!changes),
                }
            }
            for (index, event) in ledger.events().iter().enumerate() {
                prop_assert_eq!(event.revision, index as u64 + 1);
            }
            Ok(())
        })?;
    }

    #[test]
    fn p10_of_calls_that_rest_on_one_revision_at_most_one_completes(
        agents in prop::collection::vec((1_i64..30, 0_usize..6), 2..8)
    ) {
        block_on(async {
            let ledger = ledger();
            let revision = ledger.revision();
            let agents = agents.into_iter().map(|(amount, delay)| {
                let ledger = ledger.clone();
                async move {
                    // Each agent has a pipeline of its own; its policy holds the call for a while.
                    let bench = bench(&ledger, Options::default().policy(Slow(delay)));
                    let arguments = json!({"from": "ada", "to": "bob", "amount": amount, "revision": revision});
                    bench.ask("transfer", arguments).await
                }
            });
            let results: Vec<ToolResult> = futures_util::future::join_all(agents).await;
            let completed = results.iter().filter(|result| result.outcome.status == Status::Completed).count();
            prop_assert_eq!(completed, 1);
            prop_assert_eq!(ledger.revision(), revision + 1);
            for result in results {
                if result.outcome.status != Status::Completed {
                    prop_assert_eq!(reason(&result), "stale_revision");
                    prop_assert_eq!(result.outcome.status, Status::Conflict);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn p11_no_outcome_is_larger_than_its_bounds(
        text in prop_oneof!["(?s).{0,2000}", Just("\u{1}".repeat(5000)), Just("ä\"\\\n".repeat(900))],
        parts in 1_usize..6, depth in 0_usize..60, keep in prop_oneof![Just(Keep::Head), Just(Keep::Tail), Just(Keep::HeadAndTail)],
        room in 0_usize..6000, failure in any::<bool>()
    ) {
        block_on(async {
            let bounds = Bounds { text: room, media: 1000, payload: 500, keep };
            let mut nested = json!(text);
            for _ in 0..depth {
                nested = json!({ "in": [nested] });
            }
            let mut output = ToolOutput::parts((0..parts).map(|_| placet_core::Part::text(text.as_str())).collect())
                .payload(nested.clone()).fact("wild", nested);
            output.is_failure = failure;
            let raw = text.len() * parts;
            let wild = tool("wild", "Says a lot.", move |_: placet_tools::NoArguments, _cx| {
                let output = output.clone();
                async move { output }
            }).bounds(bounds);
            let bench = Bench::new([Grant::tool(wild)], Options::default());
            let result = bench.ask("wild", json!({})).await;
            let size = serde_json::to_string(&result.outcome).unwrap().len();
            prop_assert!(size <= bounds.ceiling(), "{} > {}", size, bounds.ceiling());
            let shown = serde_json::to_string(&result.outcome.content).unwrap().len();
            prop_assert!(shown <= room.max(256) + 64, "{} > {}", shown, room);
            let said = if text.is_empty() { "(no output)".to_owned() } else { text.repeat(parts) };
            let whole = result.outcome.text() == said;
            prop_assert_eq!(result.outcome.cut.is_none(), whole, "a cut is told exactly where there is one");
            if let Some(cut) = result.outcome.cut {
                prop_assert!(cut.kept < cut.total && cut.total == raw as u64);
            }
            Ok(())
        })?;
    }

    #[test]
    fn p12_the_state_changes_through_the_pipeline_only(
        steps in prop::collection::vec((tool_name(), arguments()), 1..10)
    ) {
        block_on(async {
            let ledger = ledger();
            let bench = Bench::new([narrowed(&ledger)], Options::default());
            for (name, arguments) in steps {
                let before = ledger.hash();
                // What anybody may do without a pipeline: look, make tools, put them together, render them.
                let (_, _, _) = (ledger.revision(), ledger.balance("ada"), ledger.events());
                let tool = ledger.transfer_as("transfer");
                let _ = (tool.to_openai_chat().unwrap(), Registry::assemble([Grant::new(ledger.capability())]).unwrap());
                prop_assert_eq!(ledger.hash(), before);
                let result = bench.ask(name, arguments).await;
                prop_assert_eq!(ledger.hash() != before, result.outcome.revision.is_some());
            }
            Ok(())
        })?;
    }

    #[test]
    fn p13_what_moved_while_a_human_thought_is_checked_again(
        amount in 1_i64..20, others in 0_u32..3, approves in any::<bool>()
    ) {
        block_on(async {
            let ledger = ledger();
            let approver = Meanwhile { ledger: ledger.clone(), others, approves };
            let options = Options::default()
                .policy(PolicyFn(|_: &PolicyRequest<'_>| Verdict::ask("move it?")))
                .approver(approver);
            let bench = bench(&ledger, options);
            let result = bench.ask("transfer", transfer(&ledger, amount)).await;
            match (approves, others) {
                (false, _) => prop_assert_eq!((result.outcome.stage, reason(&result)), (Stage::Approved, "denied")),
                (true, 0) => prop_assert_eq!(result.outcome.status, Status::Completed),
                (true, _) => {
                    prop_assert_eq!((result.outcome.stage, reason(&result)), (Stage::FreshAgain, "stale_revision"));
                }
            }
            let own = u64::from(approves && others == 0);
            prop_assert_eq!(ledger.revision(), u64::from(others) + own);
            Ok(())
        })?;
    }

    #[test]
    fn p14_no_bytes_make_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400), name in prop_oneof![Just("transfer".to_owned()), "(?s).{0,300}"],
        pieces in prop::collection::vec(prop_oneof![
            Just("{"), Just("}"), Just("["), Just("]"), Just("\""), Just(":"), Just(","), Just("\\u"), Just("1e999"),
            Just("\"amount\""), Just("NaN"), Just("-0"), Just("18446744073709551616"), Just("null"), Just("\u{0}"),
        ], 0..40)
    ) {
        block_on(async {
            let ledger = ledger();
            let bench = bench(&ledger, Options::default());
            let before = ledger.hash();
            for text in [String::from_utf8_lossy(&bytes).into_owned(), pieces.concat(), "[".repeat(bytes.len() * 20)] {
                let result = bench.run(&raw_call(bench.env.new_id(), &name, &text)).await;
                prop_assert_ne!(result.outcome.status, Status::Completed);
                prop_assert_ne!(result.outcome.stage, Stage::Execute);
                prop_assert_ne!(reason(&result), "panicked");
                prop_assert!(!result.outcome.text().is_empty());
                let _ = parse_proposal(&text);
            }
            prop_assert_eq!(ledger.hash(), before);
            Ok(())
        })?;
    }

    #[test]
    fn p15_a_proposal_in_text_ends_as_the_same_native_call_does(
        name in tool_name(), arguments in arguments(), form in 0_usize..4
    ) {
        block_on(async {
            let written = json!({"name": name, "arguments": arguments}).to_string();
            let text = match form {
                0 => written,
                1 => format!("```json\n{written}\n```"),
                2 => format!("I think {{hard}}, then: {written} That is all."),
                _ => json!({"name": name, "arguments": arguments.to_string()}).to_string(),
            };
            let mut ends = Vec::new();
            for in_text in [false, true] {
                let ledger = ledger();
                let bench = Bench::new([narrowed(&ledger)], Options::default());
                let id: CallId = bench.env.new_id();
                let call = if in_text {
                    parse_proposal(&text).unwrap().into_call(id)
                } else {
                    call(id, name, arguments.clone())
                };
                let result = bench.run(&call).await;
                ends.push((result, ledger.hash()));
            }
            prop_assert_eq!(&ends[0], &ends[1]);
            Ok(())
        })?;
    }
}

/// Lets the call pass after a few turns of the executor.
struct Slow(usize);

#[async_trait::async_trait]
impl placet_tools::Policy for Slow {
    async fn judge(&self, _: &PolicyRequest<'_>) -> Result<Verdict, placet_tools::PolicyFailure> {
        for _ in 0..self.0 {
            tokio::task::yield_now().await;
        }
        Ok(Verdict::Allow)
    }
}

/// Answers after others have moved the ledger on.
struct Meanwhile {
    ledger: Ledger,
    others: u32,
    approves: bool,
}

#[async_trait::async_trait]
impl Approver for Meanwhile {
    async fn decide(&self, asked: &ApprovalRequested, _: &PolicyRequest<'_>) -> Result<Decision, ApproverFailure> {
        let registry = Registry::assemble([Grant::new(self.ledger.capability())]).unwrap();
        let env = Env::system();
        for _ in 0..self.others {
            let arguments = json!({"from": "bob", "to": "ada", "amount": 1, "revision": self.ledger.revision()});
            let call = call(env.new_id(), "transfer", arguments);
            let other = Pipeline::new(registry.clone(), Options::default());
            let result = other.run(&call, CallContext::new(&env)).await.unwrap();
            assert_eq!(result.outcome.status, Status::Completed);
        }
        Ok(if self.approves { Decision::approve(asked, "ada") } else { Decision::deny(asked, "ada", None) })
    }
}

/// The faults of P4, each of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    ReusedId,
    Unknown,
    Withheld,
    Arguments,
    Stale,
    Denied,
    Impossible,
}

impl Fault {
    const ALL: [Fault; 7] = [
        Fault::ReusedId,
        Fault::Unknown,
        Fault::Withheld,
        Fault::Arguments,
        Fault::Stale,
        Fault::Denied,
        Fault::Impossible,
    ];

    fn answer(self) -> (Stage, &'static str) {
        match self {
            Fault::ReusedId => (Stage::Admit, "request_id_conflict"),
            Fault::Unknown => (Stage::Registered, "unknown_tool"),
            Fault::Withheld => (Stage::Granted, "not_authorised"),
            Fault::Arguments => (Stage::Arguments, "invalid_arguments"),
            Fault::Stale => (Stage::Fresh, "stale_revision"),
            Fault::Denied => (Stage::Approved, "denied"),
            Fault::Impossible => (Stage::Possible, "insufficient"),
        }
    }
}

async fn with_faults(faults: &[Fault]) -> ToolResult {
    let has = |fault| faults.contains(&fault);
    let ledger = ledger();
    let denies = has(Fault::Denied);
    let policy =
        PolicyFn(
            move |request: &PolicyRequest<'_>| {
                if denies && request.tool.name.as_str() != "observe" { Verdict::deny("no") } else { Verdict::Allow }
            },
        );
    let bench = Bench::new([narrowed(&ledger)], Options::default().policy(policy));
    let id: CallId = bench.env.new_id();
    if has(Fault::ReusedId) {
        bench.run(&call(id.clone(), "observe", json!({}))).await;
    }
    // An unknown name stands beside its registered twin, which carries the later faults.
    let name = match (has(Fault::Unknown), has(Fault::Withheld)) {
        (true, _) => "transfar",
        (false, true) => "withheld",
        (false, false) => "transfer",
    };
    let mut amount = 10;
    if has(Fault::Impossible) {
        amount = 500;
    }
    if has(Fault::Arguments) {
        amount *= 1000;
    }
    let revision = if has(Fault::Stale) { 41 } else { 0 };
    let arguments = json!({"from": "ada", "to": "bob", "amount": amount, "revision": revision});
    let before = ledger.hash();
    let result = bench.run(&call(id, name, arguments)).await;
    if !faults.is_empty() {
        assert_eq!(ledger.hash(), before, "{faults:?}");
    }
    result
}

#[test]
fn p4_first_failing_stage_wins() {
    block_on(async {
        assert_eq!(with_faults(&[]).await.outcome.status, Status::Completed);
        let mut pairs = 0;
        for (place, first) in Fault::ALL.into_iter().enumerate() {
            let result = with_faults(&[first]).await;
            assert_eq!((result.outcome.stage, reason(&result)), first.answer(), "alone: {first:?}");
            for second in &Fault::ALL[place + 1..] {
                let result = with_faults(&[first, *second]).await;
                assert_eq!((result.outcome.stage, reason(&result)), first.answer(), "{first:?} and {second:?}");
                pairs += 1;
            }
        }
        assert_eq!(pairs, 21);
        // And every larger set of faults.
        for set in 1_u32..1 << Fault::ALL.len() {
            let faults: Vec<Fault> = (0..7).filter(|bit| set & (1 << bit) != 0).map(|bit| Fault::ALL[bit]).collect();
            let result = with_faults(&faults).await;
            assert_eq!((result.outcome.stage, reason(&result)), faults[0].answer(), "{faults:?}");
        }
    });
}

#[test]
fn a_call_that_is_too_large_is_told_before_anything_else() {
    block_on(async {
        let ledger = ledger();
        let bench = Bench::new([narrowed(&ledger)], Options::default().arguments(100));
        for name in ["transfer", "withheld", "unknown"] {
            let long = json!({"from": "a".repeat(200)});
            let result = bench.ask(name, long).await;
            assert_eq!((result.outcome.stage, reason(&result)), (Stage::Admit, "too_large"));
        }
    });
}
