//! The one pipeline. Every request to run a tool of ours passes it, by whatever way it came: a loop, a flow, MCP, HTTP,
//! JSON in a text, a command line.
//!
//! | stage | asks | answers with |
//! |---|---|---|
//! | *admit* | is it of a size we take, and new? | `too_large`, `request_id_conflict`, or the stored outcome |
//! | *registered* | is there a tool of that name? | `unknown_tool` |
//! | *granted* | was it handed to this caller? | `not_authorised` |
//! | *arguments* | JSON, schema, the handler's type, the tool's own rules | `invalid_arguments` |
//! | *fresh* | is the revision that the decision rests on still current? | `stale_revision` |
//! | *approved* | policy, and a human where one is to be asked | `denied`, `approval_timeout` |
//! | *fresh again* | the same after a wait, and whether what a human was asked about is as it was | `stale_revision` |
//! | *possible* | the tool's own dry check | `impossible`, or the tool's own reason |
//! | *execute* | the handler, once | its answer, `tool_error`, `timeout`, `cancelled`, `panicked` |
//! | *redact* | | secrets out |
//! | *bound* | | what is too much out, and a word about it in |
//! | *record* | | the result told to the recorder and kept for repetitions |
//!
//! The first stage that does not pass answers. Nothing before *execute* touches the tool's own state. A call that is
//! cancelled before its handler starts is answered as `cancelled` by the stage that it had reached; one that is left
//! ([`CallContext::left_by`]) is not answered at all.

mod approve;
pub(crate) mod bound;
mod execute;
mod finish;
mod round;
mod stages;
mod texts;

use crate::calls::{CallKey, CallLedger, MemoryCalls};
use crate::context::{CallContext, ToolContext};
use crate::policy::{AllowAll, Approver, Policy};
use crate::recorder::{NoRecorder, Recorder};
use crate::registry::{Entry, Registry};
use crate::tool::Ready;
use bound::Bounds;
use futures_util::FutureExt;
use placet_core::env::panic_text;
use placet_core::error::{Diagnose, ErrorKind};
use placet_core::{
    BoxFuture, CapabilityId, Digest, Effect, Origin, Origins, Outcome, Reason, Redactor, Stage, Status, ToolCall,
    ToolResult,
};
use serde_json::Value;
pub use stages::content_hash;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// What passes a call through the checks, in order. Each either lets it pass, or answers.
const CHECKS: [(Stage, Check); 8] = [
    (Stage::Admit, |state| Box::pin(stages::admit(state))),
    (Stage::Registered, |state| Box::pin(stages::registered(state))),
    (Stage::Granted, |state| Box::pin(stages::granted(state))),
    (Stage::Arguments, |state| Box::pin(stages::arguments(state))),
    (Stage::Fresh, |state| Box::pin(stages::fresh(state))),
    (Stage::Approved, |state| Box::pin(approve::approved(state))),
    (Stage::FreshAgain, |state| Box::pin(stages::fresh_again(state))),
    (Stage::Possible, |state| Box::pin(stages::possible(state))),
];

/// The whole way of one call.
async fn pass(mut state: State) -> Result<ToolResult, PipelineError> {
    for (stage, check) in CHECKS {
        match contained(stage, check, &mut state).await {
            Ok(()) => {}
            Err(Stop::Answer(outcome)) => return conclude(state, *outcome).await,
            Err(Stop::Repeated(result)) => return Ok(finish::repeated(&state, &result)),
            Err(Stop::Broken(error)) => return Err(error),
        }
    }
    if state.effect() == Effect::Read {
        return run(state).await;
    }
    // Whoever asked may go away; a handler that changes something is not stopped midway, and its result is recorded.
    let (answer, answered) = tokio::sync::oneshot::channel();
    let env = state.cx.env.clone();
    env.spawn("tool call", async move {
        let _ = answer.send(run(state).await);
    });
    answered.await.unwrap_or(Err(PipelineError::TaskLost))
}

/// Runs the handler and concludes. The handler's own panic is an outcome; any other comes from what we stand on.
async fn run(mut state: State) -> Result<ToolResult, PipelineError> {
    let ran = async move {
        let outcome = execute::execute(&mut state).await?;
        conclude(state, outcome).await
    };
    let ran = AssertUnwindSafe(ran).catch_unwind().await;
    ran.unwrap_or_else(|panic| Err(PipelineError::Panicked(panic_text(panic.as_ref()))))
}

async fn conclude(mut state: State, mut outcome: Outcome) -> Result<ToolResult, PipelineError> {
    if let Some(entry) = &state.entry {
        for (name, fact) in entry.tool.facts() {
            outcome.facts.entry(name.clone()).or_insert_with(|| fact.clone());
        }
    }
    finish::redact(&state, &mut outcome);
    finish::bound(&state, &mut outcome);
    finish::record(&mut state, outcome).await
}

type Check = for<'a> fn(&'a mut State) -> BoxFuture<'a, Step>;
type Step = Result<(), Stop>;

/// Why a call goes no further.
enum Stop {
    /// A stage answers.
    Answer(Box<Outcome>),
    /// It was answered before.
    Repeated(Arc<ToolResult>),
    /// What the pipeline itself stands on failed.
    Broken(PipelineError),
}

/// Runs one check. A panic in it is an answer; so is a cancelled run, except for a call that ended before.
async fn contained(stage: Stage, check: Check, state: &mut State) -> Step {
    state.may_go_on(stage)?;
    match AssertUnwindSafe(check(state)).catch_unwind().await {
        Ok(step) => step,
        Err(panic) if stage == Stage::Admit => Err(Stop::Broken(PipelineError::Panicked(panic_text(panic.as_ref())))),
        Err(panic) => {
            let mut outcome = own(Status::Failed, stage, Reason::Panicked, texts::CHECK_PANICKED);
            outcome.cause = Some(panic_text(panic.as_ref()));
            Err(Stop::Answer(Box::new(outcome)))
        }
    }
}

/// An outcome in the pipeline's own words.
fn own(status: Status, stage: Stage, reason: Reason, text: impl Into<String>) -> Outcome {
    let mut outcome = Outcome::new(status, stage, Some(reason), text);
    outcome.origin = Origins::from(Origin::Operator);
    outcome
}

/// A call on its way.
struct State {
    pipeline: Arc<Inner>,
    call: ToolCall,
    cx: CallContext,
    started: Duration,
    content: Digest,
    ticket: Option<Ticket>,
    capability: Option<CapabilityId>,
    entry: Option<Arc<Entry>>,
    arguments: Result<Value, placet_core::tool::MalformedArguments>,
    ready: Option<Box<dyn Ready>>,
    tool_cx: Option<ToolContext>,
    waited: bool,
    /// The revision that was current when a human was asked, where the call itself rests on none and the tool knows one.
    seen: Option<Option<String>>,
}

impl State {
    fn effect(&self) -> Effect {
        self.entry.as_ref().map_or(Effect::Read, |entry| entry.tool.effect())
    }

    /// Answers in the pipeline's words, or in the capability's own where it has some.
    fn stop(&self, status: Status, stage: Stage, reason: Reason, text: impl Into<String>) -> Step {
        Err(Stop::Answer(Box::new(self.worded(own(status, stage, reason, text)))))
    }

    /// Whether it may pass on to this stage: not where the run was left, or cancelled.
    ///
    /// What a human was asked about, and has approved, is not left any more: its handler starts at once.
    fn may_go_on(&self, stage: Stage) -> Step {
        let (left, cancelled) = (self.cx.leave.is_cancelled(), self.cx.cancel.is_cancelled());
        if left && (cancelled || !self.waited) {
            return Err(Stop::Broken(PipelineError::Left));
        }
        if cancelled && stage != Stage::Admit {
            return self.stop(Status::Refused, stage, Reason::Cancelled, texts::CANCELLED);
        }
        Ok(())
    }

    /// Completes as soon as it may go no further, with what ends it.
    async fn held_up(&self, stage: Stage) -> Stop {
        loop {
            if let Err(stop) = self.may_go_on(stage) {
                return stop;
            }
            tokio::select! {
                () = self.cx.cancel.cancelled(), if !self.cx.cancel.is_cancelled() => {}
                () = self.cx.leave.cancelled(), if !self.cx.leave.is_cancelled() => {}
            }
        }
    }

    fn worded(&self, mut outcome: Outcome) -> Outcome {
        let Some(entry) = &self.entry else { return outcome };
        // A result is not lost over its wording.
        let word = || entry.holder.word(entry.tool.name(), &outcome);
        match std::panic::catch_unwind(AssertUnwindSafe(word)) {
            Ok(Some(text)) => outcome.content = vec![placet_core::Part::text(text)],
            Ok(None) => {}
            Err(panic) => {
                let panic = panic_text(panic.as_ref());
                tracing::error!(capability = %entry.capability, panic, "a capability panicked over its wording");
            }
        }
        outcome
    }
}

/// Says that a call is on its way; dropped before the call has ended, that it went away.
struct Ticket {
    calls: Arc<dyn CallLedger>,
    key: CallKey,
    stage: Way,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It may come again.
    Open,
    /// The handler of a *once* tool has begun.
    RunsOnce,
    /// It has ended.
    Ended,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.stage != Way::Ended {
            self.calls.abandon(&self.key, self.stage == Way::RunsOnce);
        }
    }
}

/// What the pipeline itself stands on failed. Never worded for a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The ledger of calls failed.
    #[error("the ledger of calls failed: {0}")]
    Calls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The recorder failed.
    #[error("the record of the call could not be kept: {0}")]
    Record(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The ledger of calls or the recorder panicked.
    #[error("the ledger of calls or the recorder panicked: {0}")]
    Panicked(String),
    /// The run was left before the handler started. Nothing is recorded of it, and it may be run later.
    #[error("the call was left before its handler started; nothing was run")]
    Left,
    /// The task that ran the call ended without an answer, as when the program shuts down.
    #[error("the task of the call ended without an answer; whether the tool took effect is not known")]
    TaskLost,
}

impl Diagnose for PipelineError {
    fn kind(&self) -> ErrorKind {
        match self {
            PipelineError::Calls(_) | PipelineError::Record(_) => ErrorKind::Storage,
            PipelineError::Panicked(_) => ErrorKind::Internal,
            PipelineError::TaskLost => ErrorKind::Interrupted,
            PipelineError::Left => ErrorKind::Cancelled,
        }
    }
}

/// What a pipeline stands on and how long it waits. Everything has a value to start from.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Who decides; allows everything unless set.
    pub policy: Arc<dyn Policy>,
    /// Who asks a human. Without one, a call that is to be asked about is denied.
    pub approver: Option<Arc<dyn Approver>>,
    /// Which calls were seen before; in memory unless set.
    pub calls: Arc<dyn CallLedger>,
    /// Who is told what a call did.
    pub recorder: Arc<dyn Recorder>,
    /// What takes secrets out.
    pub redactor: Redactor,
    /// Switches redaction off for everything. Every outcome says so.
    pub unredacted: bool,
    /// How much of an output is kept, where neither grant nor tool says it.
    pub bounds: Bounds,
    /// How large arguments may be, in bytes: 1 MiB.
    pub arguments: usize,
    /// How long a handler may take, where neither grant nor tool says it: 120 s.
    pub timeout: Duration,
    /// How long a handler that changes something is waited for after it was told to stop: 5 s.
    pub grace: Duration,
    /// How long a policy may take before its silence denies: 30 s.
    pub policy_timeout: Duration,
    /// How long a human may take: 10 min.
    pub approval_timeout: Duration,
    /// How many calls of a round may run at once: 8.
    pub concurrency: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            policy: Arc::new(AllowAll),
            approver: None,
            calls: Arc::new(MemoryCalls::default()),
            recorder: Arc::new(NoRecorder),
            redactor: Redactor::default(),
            unredacted: false,
            bounds: Bounds::default(),
            arguments: 1024 * 1024,
            timeout: Duration::from_secs(120),
            grace: Duration::from_secs(5),
            policy_timeout: Duration::from_secs(30),
            approval_timeout: Duration::from_secs(600),
            concurrency: 8,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("unredacted", &self.unredacted).finish_non_exhaustive()
    }
}

macro_rules! set {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $to:expr;)*) => {
        impl Options {
            $($(#[$doc])* #[must_use] pub fn $name(mut self, $name: $kind) -> Self { self.$name = $to; self })*
        }
    };
}
set! {
    /// Who decides.
    policy: impl Policy + 'static => Arc::new(policy);
    /// Who asks a human.
    approver: impl Approver + 'static => Some(Arc::new(approver));
    /// Which calls were seen before.
    calls: Arc<dyn CallLedger> => calls;
    /// Who is told what a call did.
    recorder: Arc<dyn Recorder> => recorder;
    /// What takes secrets out.
    redactor: Redactor => redactor;
    /// Switches redaction off for everything.
    unredacted: bool => unredacted;
    /// How much of an output is kept.
    bounds: Bounds => bounds;
    /// How large arguments may be, in bytes.
    arguments: usize => arguments;
    /// How long a handler may take.
    timeout: Duration => timeout;
    /// How long a handler that changes something is waited for after it was told to stop.
    grace: Duration => grace;
    /// How long a policy may take.
    policy_timeout: Duration => policy_timeout;
    /// How long a human may take.
    approval_timeout: Duration => approval_timeout;
    /// How many calls of a round may run at once.
    concurrency: usize => concurrency.max(1);
}

/// The one pipeline, for one registry. Cheap to clone.
#[derive(Clone)]
pub struct Pipeline(Arc<Inner>);

struct Inner {
    registry: Registry,
    options: Options,
}

impl Pipeline {
    /// A pipeline for what was granted.
    #[must_use]
    pub fn new(registry: Registry, options: Options) -> Self {
        Pipeline(Arc::new(Inner { registry, options }))
    }

    /// What was granted.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// What it stands on.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Passes one call through every stage.
    ///
    /// The future may be dropped at any time: a *read* handler stops then, any other runs to its end in a task of its own, and its
    /// result is recorded.
    ///
    /// # Errors
    /// [`PipelineError`] when the ledger of calls or the recorder fails, [`PipelineError::Left`] where the call was left
    /// before its handler started. Everything else, whatever a model or a tool does, is an outcome.
    pub async fn run(&self, call: &ToolCall, cx: CallContext) -> Result<ToolResult, PipelineError> {
        let started = cx.env.clock().steady();
        pass(State {
            pipeline: self.0.clone(),
            call: call.clone(),
            cx,
            started,
            content: Digest::of(&[]),
            ticket: None,
            capability: None,
            entry: None,
            arguments: Ok(Value::Null),
            ready: None,
            tool_cx: None,
            waited: false,
            seen: None,
        })
        .await
    }

    /// Passes the calls of one round through every stage and gives their results in the order of the calls.
    ///
    /// Calls that may run beside others do, up to [`Options::concurrency`]; one that may not waits for all before it and is
    /// waited for by all after it.
    ///
    /// # Errors
    /// [`PipelineError`], the first of them, when all calls have ended; what the others did is recorded. A failure comes before
    /// [`PipelineError::Left`].
    pub async fn run_round(&self, calls: &[ToolCall], cx: &CallContext) -> Result<Vec<ToolResult>, PipelineError> {
        round::run(self, calls, cx).await
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("registry", &self.0.registry).finish_non_exhaustive()
    }
}
