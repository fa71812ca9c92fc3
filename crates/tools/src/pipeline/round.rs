//! The calls of one round.

use super::{Pipeline, PipelineError};
use crate::context::CallContext;
use crate::tool::Concurrency;
use futures_util::StreamExt;
use futures_util::stream;
use placet_core::{ToolCall, ToolResult};

pub(super) async fn run(
    pipeline: &Pipeline,
    calls: &[ToolCall],
    cx: &CallContext,
) -> Result<Vec<ToolResult>, PipelineError> {
    if let [only] = calls {
        return Ok(vec![pipeline.run(only, cx.clone()).await?]);
    }
    let mut ended: Vec<Result<ToolResult, PipelineError>> = Vec::with_capacity(calls.len());
    let mut rest = calls;
    while !rest.is_empty() {
        let beside = rest.iter().take_while(|call| may_run_beside(pipeline, call)).count();
        let (batch, later) = rest.split_at(beside.max(1));
        let running = batch.iter().map(|call| pipeline.run(call, cx.clone())).collect::<Vec<_>>();
        let mut results = stream::iter(running).buffered(pipeline.options().concurrency);
        while let Some(result) = results.next().await {
            ended.push(result);
        }
        rest = later;
    }
    // That some were left says less than that something failed.
    let failed = ended.iter().position(|result| matches!(result, Err(error) if !matches!(error, PipelineError::Left)));
    match failed.map(|place| ended.swap_remove(place)) {
        Some(Err(error)) => Err(error),
        _ => ended.into_iter().collect(),
    }
}

/// A call to nothing we have is answered at once, so it may.
fn may_run_beside(pipeline: &Pipeline, call: &ToolCall) -> bool {
    pipeline.registry().get(&call.name).is_none_or(|tool| tool.concurrency() == Concurrency::Parallel)
}
