#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use placet_core::env::ManualClock;
use placet_core::event::{CallEnded, EventBody, TurnCompleted};
use placet_core::tool::{Arguments, Schema};
use placet_core::{
    Effect, Env, Item, Limits, Money, Origin, Outcome, Price, Stage, Status, Timestamp, ToolCall, ToolDefinition,
    ToolResult, Turn, Usage,
};
use std::sync::Arc;

/// A run that is told what happened, turn by turn.
struct Story {
    env: Env,
    state: RunState,
    started: RunStarted,
    now: Situation<'static>,
}

impl Story {
    fn new(limits: Limits) -> Self {
        let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1);
        let outer = ToolDefinition {
            name: "outer".into(),
            description: "Somebody else's.".into(),
            schema: Schema::empty_object(),
            effect: Effect::Read,
            revision_argument: None,
            strict: None,
            cache: None,
            native: None,
        };
        let million = 1_000_000.into();
        let started = RunStarted {
            version: "1".into(),
            provider: "p".into(),
            model: "m".into(),
            instructions: None,
            input: vec![Arc::new(Item::user(env.new_id(), "go"))],
            provider_state: None,
            grants: Vec::new(),
            declared: vec![Arc::new(outer)],
            hosted: Vec::new(),
            controls: Default::default(),
            tool_choice: Default::default(),
            output: None,
            limits,
            price: Some(Price {
                input: million,
                output: million,
                cache_read: None,
                cache_write: None,
                cache_write_long: None,
            }),
            rates: None,
            billing: None,
            launch: Default::default(),
            unredacted: false,
        };
        let mut state = RunState::new(env.new_id());
        state.push(env.now(), &EventBody::RunStarted(Box::new(started.clone())));
        Story { env, state, started, now: Situation::default() }
    }

    /// A turn that asks for these tools, each token of it a dollar.
    fn turn(mut self, stop: StopReason, tools: &[&str], usage: Option<u64>) -> Self {
        let calls = tools.iter().map(|name| ToolCall {
            id: self.env.new_id(),
            provider_id: None,
            name: (*name).into(),
            arguments: Arguments::from_text("{}"),
            native: None,
        });
        let usage = usage.map(|output| Usage { output, ..Usage::default() });
        let turn = Turn {
            id: self.env.new_id(),
            model: None,
            response_id: None,
            items: calls
                .map(|call| {
                    Arc::new(Item::new(self.env.new_id(), Origin::Model, placet_core::ItemBody::ToolCall(call)))
                })
                .collect(),
            stop,
            usage,
            provider_state: None,
            native: None,
            service_tier: None,
        };
        let cost = usage.and_then(|usage| Some(usage.cost(self.started.price.as_ref()?)));
        let completed =
            TurnCompleted { number: self.state.turns() + 1, turn, cost, billed: None, omitted: Vec::new(), took_ms: 0 };
        self.state.push(self.env.now(), &EventBody::TurnCompleted(Box::new(completed)));
        self
    }

    fn answered(mut self) -> Self {
        let round = self.state.round().cloned().unwrap();
        for call in round.calls {
            let result = ToolResult {
                call: call.call.id,
                provider_id: None,
                tool: call.call.name,
                capability: None,
                outcome: Outcome::new(Status::Completed, Stage::Execute, None, "done"),
                native: None,
            };
            let ended = CallEnded { turn: round.turn.clone(), result, took_ms: 0 };
            self.state.push(self.env.now(), &EventBody::CallCompleted(Box::new(ended)));
        }
        self
    }

    fn next(&self) -> Step {
        next(&self.state, &self.started, &self.now)
    }

    fn limit(&self) -> String {
        match self.next() {
            Step::End(Stop::End(RunEnd::LimitReached, Some(detail))) => detail,
            other => panic!("{other:?}"),
        }
    }
}

fn story() -> Story {
    Story::new(Limits::default())
}

fn rounds(rounds: u32) -> Limits {
    Limits { rounds, ..Limits::default() }
}

#[test]
fn the_ordinary_course() {
    assert_eq!(story().next(), Step::Ask);
    let asked = story().turn(StopReason::ToolCalls, &["a", "b"], None);
    assert_eq!(asked.next(), Step::RunRound);
    let answered = asked.answered();
    assert_eq!(answered.next(), Step::Ask);
    assert_eq!(answered.state.rounds(), 1);
    assert_eq!(answered.turn(StopReason::End, &[], None).next(), Step::End(Stop::End(RunEnd::Completed, None)));
}

#[test]
fn n_rounds_run_and_the_next_turn_may_answer_but_not_ask() {
    let two = Story::new(rounds(2)).turn(StopReason::ToolCalls, &["a"], None).answered().turn(
        StopReason::ToolCalls,
        &["a"],
        None,
    );
    assert_eq!(two.next(), Step::RunRound, "the second round runs");
    let asked = two.answered();
    assert_eq!(asked.next(), Step::Ask, "the turn after the last round may answer");
    let again = asked.turn(StopReason::ToolCalls, &["a"], None);
    assert_eq!(again.limit(), "all 2 rounds of tool calls have run");
    assert_eq!(
        Story::new(rounds(0)).turn(StopReason::ToolCalls, &["a"], None).limit(),
        "all 0 rounds of tool calls have run"
    );
}

#[test]
fn a_mixed_round_is_handed_back_whole_even_at_a_limit() {
    let mixed = Story::new(rounds(0)).turn(StopReason::ToolCalls, &["a", "outer"], None);
    assert_eq!(mixed.next(), Step::End(Stop::End(RunEnd::HandedBack, None)));
}

#[test]
fn the_calls_of_a_cut_turn_never_run() {
    for stop in [StopReason::MaxTokens, StopReason::ContentFilter] {
        for tools in [&["a"][..], &["outer"]] {
            let cut = story().turn(stop.clone(), tools, None);
            assert_eq!(cut.next(), Step::AnswerCutRound);
        }
    }
    assert_eq!(
        Story::new(rounds(0)).turn(StopReason::MaxTokens, &["a"], None).limit(),
        "all 0 rounds of tool calls have run"
    );
    assert!(story().turn(StopReason::MaxTokens, &[], None).limit().contains("output limit"));
    let filtered = story().turn(StopReason::ContentFilter, &[], None).next();
    assert!(
        matches!(filtered, Step::End(Stop::Fail(Failure { kind: ErrorKind::ContentFiltered, .. }))),
        "{filtered:?}"
    );
}

#[test]
fn a_paused_turn_is_asked_again_but_not_for_ever() {
    let mut paused = Story::new(rounds(1)).turn(StopReason::Pause, &[], None);
    assert_eq!(paused.next(), Step::Ask);
    paused = paused.turn(StopReason::Pause, &[], None);
    assert_eq!(paused.limit(), "the provider paused more than 1 times in a row");
}

#[test]
fn tokens_and_money_are_counted_before_handlers_run_and_before_the_next_turn() {
    let tokens = |most| Limits { tokens: Some(most), ..Limits::default() };
    assert_eq!(Story::new(tokens(10)).turn(StopReason::ToolCalls, &["a"], Some(9)).next(), Step::RunRound);
    assert_eq!(
        Story::new(tokens(10)).turn(StopReason::ToolCalls, &["a"], Some(10)).limit(),
        "10 of 10 tokens are used"
    );
    assert_eq!(Story::new(tokens(0)).limit(), "0 of 0 tokens are used");
    let answered = Story::new(tokens(10)).turn(StopReason::End, &[], Some(99)).next();
    assert_eq!(answered, Step::End(Stop::End(RunEnd::Completed, None)), "an answer that is there is an answer");
    let unknown = Story::new(tokens(10)).turn(StopReason::ToolCalls, &["a"], None).limit();
    assert!(unknown.contains("does not say"), "{unknown}");

    let cost = |most: &str| Limits { cost: Some(Money::parse(most).unwrap()), ..Limits::default() };
    assert_eq!(Story::new(cost("10")).turn(StopReason::ToolCalls, &["a"], Some(9)).next(), Step::RunRound);
    assert_eq!(Story::new(cost("9")).turn(StopReason::ToolCalls, &["a"], Some(9)).limit(), "$9 of $9 are spent");
}

#[test]
fn whoever_cancels_or_waits_too_long_ends_it_wherever_it_is() {
    let failure = Failure { kind: ErrorKind::Network, message: "gone".into(), hints: Vec::new(), retry_after_ms: None };
    let failure: &'static Failure = Box::leak(Box::new(failure));
    for at in [
        story(),
        story().turn(StopReason::ToolCalls, &["a"], None),
        story().turn(StopReason::ToolCalls, &["a"], None).answered(),
    ] {
        let mut at = at;
        at.now.time_over = true;
        assert!(at.limit().contains("is over"));
        at.now.cancelled = true;
        assert_eq!(at.next(), Step::End(Stop::End(RunEnd::Cancelled, None)));
        at.now.failure = Some(failure);
        assert_eq!(at.next(), Step::End(Stop::Fail(failure.clone())));
    }
}
