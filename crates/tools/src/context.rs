//! What a call comes with, and what a handler is handed of it.

use crate::recorder::Recorder;
use placet_core::event::{CallLog, CallProgress, EventBody};
use placet_core::{Arguments, CallId, CapabilityId, Env, Origins, Redactor, RunId, ToolName, TurnId};
use std::any::{Any, TypeId};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Values that code hands to handlers, by their type. A model never sees them and cannot send one: they are no part of
/// the arguments.
#[derive(Clone, Default)]
pub struct Private {
    values: Option<Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>,
}

impl Private {
    /// Without values.
    #[must_use]
    pub fn new() -> Self {
        Private::default()
    }

    /// Adds a value; it takes the place of another one of the same type.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, value: T) -> Self {
        let mut values = self.values.take().map(Arc::unwrap_or_clone).unwrap_or_default();
        values.insert(TypeId::of::<T>(), Arc::new(value));
        self.values = Some(Arc::new(values));
        self
    }

    /// The value of this type.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.values.as_ref()?.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
}

impl fmt::Debug for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Private({} values)", self.values.as_ref().map_or(0, |values| values.len()))
    }
}

/// What a call comes with besides its name and arguments. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CallContext {
    pub(crate) env: Env,
    pub(crate) run: Option<RunId>,
    pub(crate) turn: Option<TurnId>,
    pub(crate) cancel: CancellationToken,
    pub(crate) leave: CancellationToken,
    pub(crate) deadline: Option<Duration>,
    pub(crate) origins: Arc<Origins>,
    pub(crate) revision: Option<String>,
    pub(crate) private: Private,
    pub(crate) offered: Option<Arc<BTreeSet<ToolName>>>,
    pub(crate) idempotency_key: Option<String>,
}

impl CallContext {
    /// A context with nothing but an environment: a token that nobody cancels, no run, no origins.
    #[must_use]
    pub fn new(env: &Env) -> Self {
        CallContext {
            env: env.clone(),
            run: None,
            turn: None,
            cancel: CancellationToken::new(),
            leave: CancellationToken::new(),
            deadline: None,
            origins: Arc::default(),
            revision: None,
            private: Private::new(),
            offered: None,
            idempotency_key: None,
        }
    }

    /// The run and the turn that asked.
    #[must_use]
    pub fn asked_by(mut self, run: RunId, turn: TurnId) -> Self {
        self.run = Some(run);
        self.turn = Some(turn);
        self
    }

    /// The run that asked, where no turn did.
    #[must_use]
    pub fn run(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// The token that cancels the call.
    #[must_use]
    pub fn cancelled_by(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// The token that leaves the call as it is: once it is cancelled, a handler that has not started does not start, a
    /// human who was asked is not waited for, and nothing is recorded of it, so that it can be run later. A handler that
    /// runs goes on to its end.
    #[must_use]
    pub fn left_by(mut self, token: CancellationToken) -> Self {
        self.leave = token;
        self
    }

    /// When the caller's time is up, on the environment's steady clock. The tool's own timeout may come earlier.
    #[must_use]
    pub fn deadline(mut self, steady: Duration) -> Self {
        self.deadline = Some(steady);
        self
    }

    /// Where what the caller has read so far came from.
    #[must_use]
    pub fn origins(mut self, origins: impl Into<Arc<Origins>>) -> Self {
        self.origins = origins.into();
        self
    }

    /// The revision that the decision rests on, for a caller that knows it. It stands above the argument that the
    /// tool's definition names.
    #[must_use]
    pub fn revision(mut self, revision: impl Into<String>) -> Self {
        self.revision = Some(revision.into());
        self
    }

    /// Values for handlers.
    #[must_use]
    pub fn private(mut self, private: Private) -> Self {
        self.private = private;
        self
    }

    /// The tools that this very ask offered. A granted tool that is not among them is answered as not authorised.
    #[must_use]
    pub fn offered(mut self, names: impl IntoIterator<Item = ToolName>) -> Self {
        self.offered = Some(Arc::new(names.into_iter().collect()));
        self
    }

    /// The key of an earlier attempt at the same call. Without one, [`idempotency_key`] makes it.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }
}

/// The key by which an outside system can tell a repetition of a call: the run and our own id of the call.
#[must_use]
pub fn idempotency_key(run: Option<&RunId>, call: &CallId) -> String {
    match run {
        Some(run) => [run.as_str(), "/", call.as_str()].concat(),
        None => call.as_str().to_owned(),
    }
}

/// What a handler is handed with its arguments. Cheap to clone.
#[derive(Clone)]
pub struct ToolContext(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) call: CallId,
    pub(crate) tool: ToolName,
    pub(crate) capability: CapabilityId,
    pub(crate) context: CallContext,
    pub(crate) cancel: CancellationToken,
    pub(crate) deadline: OnceLock<Duration>,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    pub(crate) redactor: Option<Redactor>,
    pub(crate) arguments: Arguments,
}

impl ToolContext {
    pub(crate) fn new(inner: Inner) -> Self {
        ToolContext(Arc::new(inner))
    }

    /// A context for trying a handler by itself, without pipeline.
    #[must_use]
    pub fn detached(env: &Env, tool: impl Into<ToolName>) -> Self {
        ToolContext::detached_with(env, tool, Arguments::from_text("{}"))
    }

    /// The same, with arguments as they were written.
    #[must_use]
    pub fn detached_with(env: &Env, tool: impl Into<ToolName>, arguments: Arguments) -> Self {
        let tool = tool.into();
        ToolContext::new(Inner {
            call: env.new_id(),
            capability: CapabilityId::new(tool.as_str()),
            tool,
            context: CallContext::new(env),
            cancel: CancellationToken::new(),
            deadline: OnceLock::new(),
            recorder: None,
            redactor: None,
            arguments,
        })
    }

    /// The call.
    #[must_use]
    pub fn call(&self) -> &CallId {
        &self.0.call
    }

    /// The tool that was called.
    #[must_use]
    pub fn tool(&self) -> &ToolName {
        &self.0.tool
    }

    /// The arguments exactly as they were written: for a handler that keeps a part of them as it is, large numbers and all.
    #[must_use]
    pub fn arguments(&self) -> &Arguments {
        &self.0.arguments
    }

    /// The capability that holds it.
    #[must_use]
    pub fn capability(&self) -> &CapabilityId {
        &self.0.capability
    }

    /// The run, where there is one.
    #[must_use]
    pub fn run(&self) -> Option<&RunId> {
        self.0.context.run.as_ref()
    }

    /// Time, randomness, identity and tasks.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.0.context.env
    }

    /// Cancelled when the run is, or when the tool's time is up. A *read* handler is dropped then; any other is told
    /// through this token and waited for.
    #[must_use]
    pub fn cancellation(&self) -> &CancellationToken {
        &self.0.cancel
    }

    /// Whether it is better to stop now.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancel.is_cancelled()
    }

    /// When the tool's time is up, on the environment's steady clock; known once the handler runs.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.0.deadline.get().copied()
    }

    /// How much time is left.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.saturating_sub(self.env().clock().steady()))
    }

    pub(crate) fn set_deadline(&self, steady: Duration) {
        let _ = self.0.deadline.set(steady);
    }

    /// A key that stays the same when the call is run again, for outside systems that know such keys.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        let context = &self.0.context;
        context.idempotency_key.clone().unwrap_or_else(|| idempotency_key(context.run.as_ref(), &self.0.call))
    }

    /// The revision that the decision rests on, where the tool has one and the caller named it.
    #[must_use]
    pub fn revision(&self) -> Option<&str> {
        self.0.context.revision.as_deref()
    }

    /// Where what the caller has read so far came from.
    #[must_use]
    pub fn origins(&self) -> &Origins {
        &self.0.context.origins
    }

    /// A value that code handed over, by its type.
    #[must_use]
    pub fn private<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.context.private.get()
    }

    /// Tells how far it is.
    pub fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(recorder) = &self.0.recorder {
            recorder.live(EventBody::CallProgress(CallProgress {
                call: self.0.call.clone(),
                capability: Some(self.0.capability.clone()),
                done,
                total,
                message: message.map(|message| self.clean(message)),
            }));
        }
    }

    /// Logs a line for people who watch. It is redacted, and never sent to a model.
    pub fn log(&self, message: &str) {
        if let Some(recorder) = &self.0.recorder {
            recorder.live(EventBody::CallLog(CallLog {
                call: self.0.call.clone(),
                capability: Some(self.0.capability.clone()),
                message: self.clean(message),
            }));
        }
    }

    fn clean(&self, message: &str) -> String {
        let message = match &self.0.redactor {
            Some(redactor) => redactor.redact_text(message),
            None => message.into(),
        };
        crate::pipeline::bound::clip(&message, crate::pipeline::bound::LINE).into_owned()
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext").field("call", &self.0.call).field("tool", &self.0.tool).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_values_are_found_by_type_and_never_shown() {
        struct Token(&'static str);
        let private = Private::new().with(Token("first")).with(Token("second")).with(7_u8);
        assert_eq!(private.get::<Token>().map(|token| token.0), Some("second"));
        assert_eq!(private.get::<u8>().as_deref(), Some(&7));
        assert!(private.get::<u16>().is_none());
        assert_eq!(format!("{private:?}"), "Private(2 values)");
    }

    #[test]
    fn the_key_of_a_call_is_the_same_each_time_and_differs_between_runs() {
        let env = Env::deterministic(placet_core::env::ManualClock::new(placet_core::Timestamp::EPOCH), 1);
        let (run, other, call): (RunId, RunId, CallId) = (env.new_id(), env.new_id(), env.new_id());
        assert_eq!(idempotency_key(Some(&run), &call), idempotency_key(Some(&run), &call));
        assert_ne!(idempotency_key(Some(&run), &call), idempotency_key(Some(&other), &call));
        assert_eq!(idempotency_key(None, &call), call.as_str());
    }
}
