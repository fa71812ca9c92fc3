//! Journals written by hand, right and wrong ones.

use placet_core::env::{ManualClock, ManualHandle};
use placet_core::event::{
    ApprovalDecided, ApprovalRequested, CallEnded, CallRequested, EventBody, GrantRecord, RunCompleted, RunEnd,
    RunStarted, TurnCompleted,
};
use placet_core::record::{Chain, Sealed};
use placet_core::{
    Arguments, Env, Item, ItemBody, Limits, Message, Origin, Outcome, Part, Role, RunId, Stage, Status, StopReason,
    Timestamp, ToolCall, ToolResult, Turn, Usage,
};
use placet_observe::{LastRecord, RECORD_FORMAT, RunEntry, RunState, layout};
use placet_store::{Batch, MemoryStore, SharedStore, Tenant, Value};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Story {
    pub(crate) env: Env,
    clock: Arc<ManualClock>,
    pub(crate) run: RunId,
    chain: Chain,
    pub(crate) sealed: Vec<Sealed>,
    state: RunState,
    started: Option<RunEntry>,
    turns: u32,
}

impl Story {
    /// A run whose start is recorded.
    pub(crate) fn begin(seed: u64, question: &str) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(1000 + i64::try_from(seed).unwrap()));
        let env = Env::deterministic(clock.clone(), seed);
        let run: RunId = env.new_id();
        let mut story = Story {
            chain: Chain::new(),
            sealed: Vec::new(),
            state: RunState::new(run.clone()),
            started: None,
            turns: 0,
            run,
            env,
            clock,
        };
        let item = Item::user(story.env.new_id(), question);
        story.record(EventBody::RunStarted(Box::new(RunStarted {
            version: "1".into(),
            provider: "p".into(),
            model: "m".into(),
            instructions: None,
            input: vec![Arc::new(item)],
            provider_state: None,
            grants: vec![GrantRecord { capability: "lab".into(), tools: Vec::new(), unredacted: false }],
            declared: Vec::new(),
            hosted: Vec::new(),
            controls: Default::default(),
            tool_choice: Default::default(),
            output: None,
            limits: Limits::default(),
            price: None,
            rates: None,
            billing: None,
            launch: Default::default(),
            unredacted: false,
        })));
        story
    }

    pub(crate) fn record(&mut self, event: EventBody) {
        self.clock.advance(Duration::from_millis(10));
        let (record, sealed) = self.chain.extend(&self.run, self.env.now(), event).unwrap();
        if let EventBody::RunStarted(started) = &record.event {
            self.started = Some(RunEntry::of_start(&self.run, record.at, started));
        }
        self.state.push(record.at, &record.event);
        self.sealed.push(sealed);
    }

    pub(crate) fn calls(&self, count: usize) -> Vec<ToolCall> {
        let call = |_| ToolCall {
            id: self.env.new_id(),
            provider_id: None,
            name: "look".into(),
            arguments: Arguments::from_text("{}"),
            native: None,
        };
        (0..count).map(call).collect()
    }

    pub(crate) fn turn(&mut self, text: &str, calls: &[ToolCall]) {
        self.turns += 1;
        let said = Message { role: Role::Assistant, parts: vec![Part::text(text)], native: None };
        let bodies = std::iter::once(ItemBody::Message(said)).chain(calls.iter().cloned().map(ItemBody::ToolCall));
        let items = bodies.map(|body| Arc::new(Item::new(self.env.new_id(), Origin::Model, body))).collect();
        let turn = Turn {
            id: self.env.new_id(),
            model: None,
            response_id: None,
            items,
            stop: if calls.is_empty() { StopReason::End } else { StopReason::ToolCalls },
            usage: Some(Usage { input: 3, output: 2, ..Usage::default() }),
            provider_state: None,
            native: None,
            service_tier: None,
        };
        let completed =
            TurnCompleted { number: self.turns, turn, cost: None, billed: None, omitted: Vec::new(), took_ms: 5 };
        self.record(EventBody::TurnCompleted(Box::new(completed)));
    }

    pub(crate) fn request(&mut self, call: &ToolCall) {
        let turn = self.env.new_id();
        self.record(EventBody::CallRequested(Box::new(CallRequested {
            turn,
            call: call.clone(),
            capability: Some("lab".into()),
            idempotency_key: call.id.to_string(),
        })));
    }

    pub(crate) fn answer(&mut self, call: &ToolCall, text: &str) {
        let result = ToolResult {
            call: call.id.clone(),
            provider_id: None,
            tool: call.name.clone(),
            capability: Some("lab".into()),
            outcome: Outcome::new(Status::Completed, Stage::Execute, None, text),
            native: None,
        };
        let turn = self.env.new_id();
        self.record(EventBody::CallCompleted(Box::new(CallEnded { turn, result, took_ms: 1 })));
    }

    pub(crate) fn ask(&mut self, call: &ToolCall) -> ApprovalRequested {
        let asked = ApprovalRequested {
            approval: self.env.new_id(),
            call: call.id.clone(),
            tool: call.name.clone(),
            capability: None,
            question: "May I?".into(),
            content_hash: "0".into(),
        };
        self.record(EventBody::ApprovalRequested(asked.clone()));
        asked
    }

    pub(crate) fn decide(&mut self, asked: &ApprovalRequested) {
        self.record(EventBody::ApprovalApproved(ApprovalDecided {
            approval: asked.approval.clone(),
            call: asked.call.clone(),
            tool: asked.tool.clone(),
            capability: None,
            by: "somebody".into(),
            reason: None,
        }));
    }

    pub(crate) fn end(&mut self, end: RunEnd) {
        let (usage, cost) = (self.state.usage(), self.state.cost());
        let (turns, rounds) = (self.state.turns(), self.state.rounds());
        let detail = None;
        self.record(EventBody::RunCompleted(RunCompleted {
            end,
            detail,
            usage,
            cost,
            billed: None,
            output: None,
            turns,
            rounds,
            partial: None,
        }));
    }

    /// A run of one turn with two calls and one that answers.
    pub(crate) fn ordinary(seed: u64, answer: &str) -> Self {
        let mut story = Story::begin(seed, "How many\n are there?");
        let calls = story.calls(2);
        story.turn("Let me look. ", &calls);
        story.request(&calls[0]);
        story.request(&calls[1]);
        story.answer(&calls[1], "two");
        story.answer(&calls[0], "one");
        story.turn(answer, &[]);
        story.end(RunEnd::Completed);
        story
    }

    /// Writes it as the runtime would.
    pub(crate) async fn write(&self, store: &SharedStore) {
        let tenant = Tenant::new("");
        let log = layout::journal(&tenant, &self.run);
        let mut batch = Batch::new();
        for sealed in &self.sealed {
            batch.append(&log, Value::new(RECORD_FORMAT, sealed.to_bytes()));
        }
        let mut entry = self.started.clone().unwrap();
        if self.state.ending().is_some() {
            let hash = self.sealed.last().unwrap().hash;
            let last = LastRecord { number: self.chain.next_number() - 1, hash };
            entry = entry.ended(self.env.now(), &self.state, last);
        }
        batch.put(entry.key(&tenant), entry.to_value().unwrap());
        store.commit(batch).await.unwrap();
    }
}

pub(crate) fn store() -> SharedStore {
    Arc::new(MemoryStore::new(Arc::new(ManualHandle(ManualClock::new(Timestamp::EPOCH)))))
}
