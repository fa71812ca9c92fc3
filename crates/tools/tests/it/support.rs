//! Calls, pipelines and clocks for the tests.

use placet_core::env::ManualClock;
use placet_core::{Arguments, CallId, Env, Timestamp, ToolCall, ToolResult};
use placet_tools::{CallContext, Grant, Options, Pipeline, Registry};
use serde_json::Value;
use std::sync::Arc;

pub(crate) struct Bench {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) env: Env,
    pub(crate) pipeline: Pipeline,
}

impl Bench {
    pub(crate) fn new(grants: impl IntoIterator<Item = Grant>, options: Options) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(1_000));
        let env = Env::deterministic(clock.clone(), 7);
        let registry = Registry::assemble(grants).expect("the grants are sound");
        Bench { clock, env, pipeline: Pipeline::new(registry, options) }
    }

    pub(crate) fn cx(&self) -> CallContext {
        CallContext::new(&self.env)
    }

    pub(crate) fn call(&self, name: &str, arguments: Value) -> ToolCall {
        call(self.env.new_id(), name, arguments)
    }

    pub(crate) async fn run(&self, call: &ToolCall) -> ToolResult {
        self.pipeline.run(call, self.cx()).await.expect("nothing that the pipeline stands on fails")
    }

    pub(crate) async fn ask(&self, name: &str, arguments: Value) -> ToolResult {
        self.run(&self.call(name, arguments)).await
    }
}

pub(crate) fn call(id: CallId, name: &str, arguments: Value) -> ToolCall {
    raw_call(id, name, &arguments.to_string())
}

pub(crate) fn raw_call(id: CallId, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id, provider_id: None, name: name.into(), arguments: Arguments::from_text(arguments), native: None }
}

pub(crate) fn reason(result: &ToolResult) -> &str {
    result.outcome.reason.as_ref().map_or("", |reason| reason.as_str())
}

/// One tokio runtime for a whole property test.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(future)
}
