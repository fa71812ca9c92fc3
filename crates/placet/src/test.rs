//! For tests of what you build: scripted models, a clock that you move, and checks on what a run recorded.
//!
//! ```
//! use placet::test::{Bench, Script, ScriptTurn};
//! use placet::{Effect, tool, tools::NoArguments};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let bench = Bench::new(Script::new([
//!     ScriptTurn::call("ring", serde_json::json!({})),
//!     ScriptTurn::text("The bell was rung."),
//! ]));
//! let ring = tool("ring", "Rings the bell.", |_: NoArguments, _cx| async { "ding" }).effect(Effect::Once);
//! let result = bench.run("Ring the bell.").tool(ring).await?;
//!
//! bench.journal(&result.run).await?.sound().ran("ring", 1).answered("The bell was rung.");
//! # Ok(())
//! # }
//! ```

use placet_core::event::EventBody;
use placet_core::{Env, RunId, Stage};
use placet_observe::{Journal, ObserveError, RunResult, replay, verify};
use placet_runtime::{RunBuilder, Runtime};
use placet_store::MemoryStore;
use std::sync::Arc;

pub use placet_core::Timestamp;
pub use placet_core::env::{ManualClock, SeededRandom};
pub use placet_models::scripted::Follow;
pub use placet_models::{Script, ScriptCall, ScriptFailure, ScriptTurn, ScriptedModel};

/// A runtime in memory with a scripted model, a clock that stands still and randomness from a seed: the same every time.
#[derive(Debug)]
pub struct Bench {
    runtime: Runtime,
    clock: Arc<ManualClock>,
    model: Arc<ScriptedModel>,
}

impl Bench {
    /// A bench whose model says what the script tells it to.
    #[must_use]
    pub fn new(script: Script) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
        let env = Env::deterministic(clock.clone(), 1);
        let store = Arc::new(MemoryStore::new(env.clock().clone()));
        let model = ScriptedModel::new(script);
        let runtime = Runtime::builder(env, store).provider(model.clone()).build();
        Bench { runtime, clock, model }
    }

    /// A run that asks the scripted model.
    pub fn run(&self, question: &str) -> RunBuilder {
        self.runtime.run((self.model.clone() as placet_models::SharedProvider, "script")).input(question)
    }

    /// The runtime, to resume and follow runs.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The clock, to move.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// The model, to see what it was asked.
    #[must_use]
    pub fn model(&self) -> &ScriptedModel {
        &self.model
    }

    /// What a run recorded.
    ///
    /// # Errors
    /// As [`Journal::read`].
    pub async fn journal(&self, run: &RunId) -> Result<JournalCheck, ObserveError> {
        JournalCheck::read(&self.runtime, run).await
    }
}

/// Checks on what a run recorded. Each panics with what was recorded instead.
#[derive(Debug)]
pub struct JournalCheck {
    journal: Journal,
    problems: Vec<String>,
    result: Option<RunResult>,
}

#[expect(clippy::panic, reason = "a check in somebody's test fails by panicking")]
impl JournalCheck {
    /// The journal of a run of this runtime.
    ///
    /// # Errors
    /// As [`Journal::read`].
    pub async fn read(runtime: &Runtime, run: &RunId) -> Result<Self, ObserveError> {
        let (store, tenant) = (&**runtime.store(), runtime.tenant());
        let journal = Journal::read(store, tenant, run).await?;
        let problems = verify(store, tenant, run).await?.problems.iter().map(ToString::to_string).collect();
        let result = replay(&journal).result;
        Ok(JournalCheck { journal, problems, result })
    }

    /// The journal itself.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Its hash chain is whole, and everything that started has exactly one end.
    #[track_caller]
    pub fn sound(&self) -> &Self {
        if !self.problems.is_empty() {
            panic!("the journal of {} is not sound: {}", self.journal.run(), self.problems.join("; "));
        }
        self
    }

    /// The handler of this tool ran that many times.
    #[track_caller]
    pub fn ran(&self, tool: &str, times: usize) -> &Self {
        let ran = self.results().filter(|(name, stage)| *name == tool && *stage >= Stage::Execute).count();
        if ran != times {
            let all: Vec<String> = self.results().map(|(name, stage)| format!("{name} ({stage})")).collect();
            panic!("{tool} ran {ran} times, not {times}; calls answered: [{}]", all.join(", "));
        }
        self
    }

    /// The run has ended, and this was its answer.
    #[track_caller]
    pub fn answered(&self, text: &str) -> &Self {
        match &self.result {
            None => panic!("{} has not ended", self.journal.run()),
            Some(result) if result.text != text => panic!("the answer was {:?}, not {text:?}", result.text),
            Some(_) => self,
        }
    }

    /// The kinds of its events, in order, are these.
    #[track_caller]
    pub fn events(&self, kinds: &[&str]) -> &Self {
        let found: Vec<&str> = self.journal.records().iter().map(|kept| kept.record.event.kind()).collect();
        if found != kinds {
            panic!("the events were {found:?}, not {kinds:?}");
        }
        self
    }

    fn results(&self) -> impl Iterator<Item = (&str, Stage)> {
        self.journal.records().iter().filter_map(|kept| match &kept.record.event {
            EventBody::CallCompleted(ended) | EventBody::CallFailed(ended) => {
                Some((ended.result.tool.as_str(), ended.result.outcome.stage))
            }
            _ => None,
        })
    }
}
