//! The state of a run: the fold of its records.
//!
//! There is one fold. The loop pushes each record it commits and reads from the state what to do next; resume pushes
//! the records of the journal and goes on from the same state; replay pushes them and reads the result. So a resumed run
//! and a replayed one cannot disagree with the one that ran.

use crate::result::{Ending, Failure, Payload, Rejected, RunResult};
use placet_core::event::{ApprovalDecided, CallEnded, EventBody, RunStarted, TurnCompleted};
use placet_core::{
    Billing, CallId, FINAL_TOOL, Item, ItemBody, Money, Origins, OutputStrategy, ProviderState, Reason, RunId, Status,
    StopReason, Timestamp, ToolCall, ToolResult, Turn, TurnId, Usage,
};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// What is known of a run after some of its records.
#[derive(Clone, Debug)]
pub struct RunState {
    run: RunId,
    started: Option<Arc<RunStarted>>,
    items: Vec<Arc<Item>>,
    /// How many of `items` are the input.
    input: usize,
    round: Option<Round>,
    /// Whether the model is to be asked next.
    turn_due: bool,
    /// Where the conversation's content came from, all of it together.
    origins: Origins,
    provider_state: Option<ProviderState>,
    stop: Option<StopReason>,
    /// The text of the last turn.
    text: String,
    usage: Usage,
    /// Absent without a price, and as soon as the cost of one turn is unknown.
    cost: Option<Money>,
    /// What the turns come to at the rates that are billed.
    sold: Option<Money>,
    billed: Option<Money>,
    /// Whether some turn did not say what it used.
    usage_unknown: bool,
    turns: u32,
    rounds: u32,
    /// Turns in a row that the provider paused.
    pauses: u32,
    /// How the model is brought to the wanted shape now.
    strategy: Option<OutputStrategy>,
    rejected: Vec<Rejected>,
    /// The answer that came as a call, once that is answered.
    submitted: Option<Value>,
    end: Option<End>,
    clock: ActiveTime,
}

#[derive(Clone, Debug)]
struct End {
    ending: Ending,
    detail: Option<String>,
    failure: Option<Failure>,
    partial: Option<String>,
    output: Option<Value>,
}

/// The calls of one turn that are not all answered yet.
#[derive(Clone, Debug)]
pub struct Round {
    /// The turn that asked.
    pub turn: TurnId,
    /// Whether that turn was cut, so that its calls must not run.
    pub cut: bool,
    /// The calls, in the order of the turn.
    pub calls: Vec<RoundCall>,
}

/// One call of a [`Round`].
#[derive(Clone, Debug)]
pub struct RoundCall {
    /// The call.
    pub call: ToolCall,
    /// Whether its intent is recorded, so that its handler may have started.
    pub requested: bool,
    /// Where a human was asked: how that stands.
    pub approval: Option<CallApproval>,
    /// The answer, once it is recorded.
    pub result: Option<ToolResult>,
}

impl RoundCall {
    /// Whether its handler may have started without that anybody knows how it ended.
    #[must_use]
    pub fn may_have_started(&self) -> bool {
        let approved = self
            .approval
            .as_ref()
            .is_none_or(|approval| matches!(approval, CallApproval::Decided { approved: true, .. }));
        self.requested && approved && self.result.is_none()
    }
}

/// How the question to a human about a call stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallApproval {
    /// It was put, and is not answered.
    Asked,
    /// It was answered.
    Decided {
        /// Yes or no.
        approved: bool,
        /// By whom.
        by: String,
        /// Why.
        reason: Option<String>,
    },
}

/// Time in which some process worked on the run; between a crash and a resume nobody did.
#[derive(Clone, Copy, Debug, Default)]
struct ActiveTime {
    before: Duration,
    since: Timestamp,
    last: Timestamp,
}

impl RunState {
    /// The state before the first record.
    #[must_use]
    pub fn new(run: RunId) -> Self {
        RunState {
            run,
            started: None,
            items: Vec::new(),
            input: 0,
            round: None,
            turn_due: false,
            origins: Origins::none(),
            provider_state: None,
            stop: None,
            text: String::new(),
            usage: Usage::default(),
            cost: None,
            sold: None,
            billed: None,
            usage_unknown: false,
            turns: 0,
            rounds: 0,
            pauses: 0,
            strategy: None,
            rejected: Vec::new(),
            submitted: None,
            end: None,
            clock: ActiveTime::default(),
        }
    }

    /// Takes in the next record. Live events and unknown ones change nothing.
    pub fn push(&mut self, at: Timestamp, event: &EventBody) {
        // From the last record of one process to the first of the next nobody worked on it.
        if matches!(event, EventBody::RunResumed(_)) {
            self.clock = ActiveTime { before: self.active(), since: at, last: at };
        }
        self.clock.last = self.clock.last.max(at);
        match event {
            EventBody::RunStarted(started) => {
                self.items.clone_from(&started.input);
                self.input = self.items.len();
                self.items.iter().for_each(|item| self.origins.extend(&item.origin));
                self.provider_state.clone_from(&started.provider_state);
                self.turn_due = true;
                self.cost = started.is_priced().then_some(Money::ZERO);
                self.sold = matches!(started.billing, Some(Billing::Rates(_))).then_some(Money::ZERO);
                self.strategy = started.output.as_ref().map(|output| output.strategy);
                self.started = Some(Arc::new((**started).clone()));
                self.clock = ActiveTime { before: Duration::ZERO, since: at, last: at };
            }
            EventBody::TurnCompleted(completed) => self.turn_completed(completed),
            EventBody::OutputRejected(rejected) => {
                self.rejected.push(Rejected { turn: rejected.turn, problems: rejected.problems.clone() });
                if let Some(item) = &rejected.item {
                    self.origins.extend(&item.origin);
                    self.items.push(item.clone());
                    self.turn_due = true;
                }
            }
            EventBody::OutputFallback(fallback) => self.strategy = Some(fallback.to),
            EventBody::CallRequested(requested) => {
                if let Some(call) = self.call_mut(&requested.call.id) {
                    call.requested = true;
                }
            }
            EventBody::ApprovalRequested(asked) => {
                if let Some(call) = self.call_mut(&asked.call) {
                    call.approval = Some(CallApproval::Asked);
                }
            }
            EventBody::ApprovalApproved(decided) => self.decided(decided, true),
            EventBody::ApprovalDenied(decided) => self.decided(decided, false),
            EventBody::CallCompleted(ended) | EventBody::CallFailed(ended) => self.call_ended(ended),
            EventBody::RunCompleted(completed) => {
                (self.usage, self.cost, self.billed) = (completed.usage, completed.cost, completed.billed);
                self.end = Some(End {
                    ending: Ending::from(&completed.end),
                    detail: completed.detail.clone(),
                    failure: None,
                    partial: completed.partial.clone(),
                    output: completed.output.clone(),
                });
            }
            EventBody::RunFailed(failed) => {
                (self.usage, self.cost, self.billed) = (failed.usage, failed.cost, failed.billed);
                self.end = Some(End {
                    ending: Ending::Failed,
                    detail: None,
                    failure: Some(Failure {
                        kind: failed.kind.clone(),
                        message: failed.message.clone(),
                        hints: failed.hints.clone(),
                        retry_after_ms: failed.retry_after_ms,
                    }),
                    partial: failed.partial.clone(),
                    output: None,
                });
            }
            _ => {}
        }
    }

    fn turn_completed(&mut self, completed: &TurnCompleted) {
        let turn = &completed.turn;
        self.turns += 1;
        turn.items.iter().for_each(|item| self.origins.extend(&item.origin));
        self.items.extend(turn.items.iter().cloned());
        self.turn_due = turn.stop == StopReason::Pause;
        self.provider_state.clone_from(&turn.provider_state);
        self.stop = Some(turn.stop.clone());
        self.text = turn.text();
        match turn.usage {
            Some(usage) => self.usage += usage,
            None => self.usage_unknown = true,
        }
        self.cost = match (self.cost, completed.cost) {
            (Some(sum), Some(cost)) => Some(sum + cost),
            _ => None,
        };
        let billing = self.started.as_ref().and_then(|started| started.billing.as_ref());
        self.sold = match (self.sold, billing, &turn.usage) {
            (Some(sum), Some(billing), Some(usage)) => {
                billing.of_turn(usage, turn.service_tier.as_deref()).map(|sold| sum + sold)
            }
            _ => None,
        };
        self.pauses = if turn.stop == StopReason::Pause { self.pauses + 1 } else { 0 };
        let calls: Vec<RoundCall> = turn
            .calls()
            .map(|call| RoundCall { call: call.clone(), requested: false, approval: None, result: None })
            .collect();
        if !calls.is_empty() {
            self.turn_due = false;
            self.round = Some(Round { turn: turn.id.clone(), cut: turn.stop.is_cut(), calls });
        }
    }

    fn call_mut(&mut self, id: &CallId) -> Option<&mut RoundCall> {
        self.round.as_mut()?.calls.iter_mut().find(|call| call.call.id == *id)
    }

    fn decided(&mut self, decided: &ApprovalDecided, approved: bool) {
        if let Some(call) = self.call_mut(&decided.call) {
            let (by, reason) = (decided.by.clone(), decided.reason.clone());
            call.approval = Some(CallApproval::Decided { approved, by, reason });
        }
    }

    /// Keeps an answer; the last one of a round puts all of them into the conversation, in the order of the calls.
    fn call_ended(&mut self, ended: &CallEnded) {
        let Some(call) = self.call_mut(&ended.result.call) else { return };
        if call.result.is_none() {
            call.result = Some(ended.result.clone());
            self.note_submission(&ended.result);
        }
        let whole = self.round.as_ref().is_some_and(|round| round.calls.iter().all(|call| call.result.is_some()));
        let Some(round) = self.round.take_if(|_| whole) else { return };
        let results: Vec<ToolResult> = round.calls.into_iter().filter_map(|call| call.result).collect();
        // An answer is no round, whatever way it comes.
        if results.iter().any(|result| result.outcome.reason != Some(Reason::NotRun) && !self.is_submission(result)) {
            self.rounds += 1;
        }
        results.iter().for_each(|result| self.origins.extend(&result.outcome.origin));
        self.turn_due = true;
        self.items.extend(results.into_iter().map(ToolResult::into_item));
    }

    /// Whether a result answers the submission of the run's answer. Every other call of that name is one like any other.
    fn is_submission(&self, result: &ToolResult) -> bool {
        self.strategy == Some(OutputStrategy::FinalizerTool)
            && result.tool.as_str() == FINAL_TOOL
            && result.capability.is_none()
            && matches!(result.outcome.reason, None | Some(Reason::InvalidArguments))
    }

    fn note_submission(&mut self, result: &ToolResult) {
        if !self.is_submission(result) {
            return;
        }
        if result.outcome.status == Status::Completed {
            self.submitted.clone_from(&result.outcome.payload);
            return;
        }
        let told = result.outcome.detail.as_ref().and_then(Value::as_array).into_iter().flatten();
        let text = |problem: &Value, field: &str| problem[field].as_str().unwrap_or_default().to_owned();
        let problems = told
            .map(|problem| match text(problem, "path") {
                whole if whole.is_empty() => text(problem, "problem"),
                path => format!("{path}: {}", text(problem, "problem")),
            })
            .collect();
        self.rejected.push(Rejected { turn: self.turns, problems });
    }

    /// Which run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// How it was started; absent before its first record.
    #[must_use]
    pub fn started(&self) -> Option<&Arc<RunStarted>> {
        self.started.as_ref()
    }

    /// The conversation so far, input included, answered rounds only.
    #[must_use]
    pub fn items(&self) -> &[Arc<Item>] {
        &self.items
    }

    /// The round that waits for answers.
    #[must_use]
    pub fn round(&self) -> Option<&Round> {
        self.round.as_ref()
    }

    /// Whether the model is to be asked next: at the start, after a round, and after a pause of the provider.
    #[must_use]
    pub fn turn_due(&self) -> bool {
        self.turn_due
    }

    /// Where the conversation's content came from, all of it together.
    #[must_use]
    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// What the provider needs to go on.
    #[must_use]
    pub fn provider_state(&self) -> Option<&ProviderState> {
        self.provider_state.as_ref()
    }

    /// Why the last turn ended.
    #[must_use]
    pub fn stop(&self) -> Option<&StopReason> {
        self.stop.as_ref()
    }

    /// What all turns used together, as far as they said.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Whether some turn did not say what it used.
    #[must_use]
    pub fn usage_unknown(&self) -> bool {
        self.usage_unknown
    }

    /// What all turns come to at the rates that are billed; absent where there are none, or they do not cover what was used.
    #[must_use]
    pub fn sold(&self) -> Option<Money> {
        self.sold
    }

    /// What is billed for the run, once it has ended; absent where nothing is said of billing, or it is not known.
    #[must_use]
    pub fn billed(&self) -> Option<Money> {
        self.billed
    }

    /// What all turns cost; absent where there is no price or some usage is unknown.
    #[must_use]
    pub fn cost(&self) -> Option<Money> {
        self.cost
    }

    /// What a turn that is not pushed yet, and costs so much, adds to what is billed for the run; absent where nothing is billed,
    /// or it is not known.
    #[must_use]
    pub fn billed_for(&self, turn: &Turn, cost: Option<Money>) -> Option<Money> {
        let billing = self.started.as_ref()?.billing.as_ref()?;
        let sold = turn.usage.and_then(|usage| billing.of_turn(&usage, turn.service_tier.as_deref()));
        let sum = |before: Option<Money>, more: Option<Money>| Some(before? + more?);
        let before = (self.turns > 0).then_some((self.sold, self.cost));
        billing.of_next(before, (sum(self.sold, sold), sum(self.cost, cost)))
    }

    /// How the model is brought to the wanted shape; absent where it is to have none.
    #[must_use]
    pub fn strategy(&self) -> Option<OutputStrategy> {
        self.strategy
    }

    /// The answers that did not have the wanted shape.
    #[must_use]
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }

    /// The answer that came as a call, once that is answered: nothing more is to be done.
    #[must_use]
    pub fn submitted(&self) -> Option<&Value> {
        self.submitted.as_ref()
    }

    /// The text of the last turn.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many turns are finished.
    #[must_use]
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// How many rounds of calls were answered.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// How many turns in a row the provider has paused.
    #[must_use]
    pub fn pauses(&self) -> u32 {
        self.pauses
    }

    /// How long processes have worked on it, up to its last record.
    #[must_use]
    pub fn active(&self) -> Duration {
        self.clock.before + self.clock.last.since(self.clock.since)
    }

    /// How it ended; absent while it has not.
    #[must_use]
    pub fn ending(&self) -> Option<&Ending> {
        self.end.as_ref().map(|end| &end.ending)
    }

    /// The result of a run that has ended.
    #[must_use]
    pub fn result(&self) -> Option<RunResult> {
        let end = self.end.as_ref()?;
        let items = self.items.get(self.input..).unwrap_or_default().to_vec();
        let owed = match (&end.ending, &self.round) {
            (Ending::HandedBack, Some(round)) => round.calls.iter().map(|call| call.call.clone()).collect(),
            _ => Vec::new(),
        };
        let results = items.iter().filter_map(|item| match &item.body {
            ItemBody::ToolResult(result) => Some(result),
            _ => None,
        });
        let payloads = results
            .filter(|result| !self.is_submission(result))
            .filter_map(|result| {
                let value = result.outcome.payload.clone()?;
                Some(Payload { call: result.call.clone(), tool: result.tool.clone(), value })
            })
            .collect();
        let mcp = placet_wire::mcp_uses(items.iter().map(|item| &**item));
        Some(RunResult {
            run: self.run.clone(),
            end: end.ending.clone(),
            detail: end.detail.clone(),
            failure: end.failure.clone(),
            text: self.text.clone(),
            output: end.output.clone(),
            rejected: self.rejected.clone(),
            partial: end.partial.clone(),
            stop: self.stop.clone(),
            items,
            payloads,
            provider_state: self.provider_state.clone(),
            usage: self.usage,
            cost: self.cost,
            billed: self.billed,
            mcp,
            turns: self.turns,
            rounds: self.rounds,
            owed,
        })
    }
}
