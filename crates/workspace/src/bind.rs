//! From operations to tools.

use crate::answer::Answer;
use crate::error::WorkspaceError;
use placet_core::Origin;
#[cfg(unix)]
use placet_tools::{Bounds, ToolContext};
use placet_tools::{ToolError, ToolOutput};

/// The pipeline's own bound for our tools. They bound themselves, in bytes of text; the pipeline counts bytes of JSON, where
/// a character can take six. So this one is met only by what a grant narrowed.
#[cfg(unix)]
pub(crate) fn bounds() -> Bounds {
    Bounds { text: 512 * 1024, ..Bounds::default() }
}

/// An operation's answer as a tool's.
pub(crate) fn output(answer: Result<Answer, WorkspaceError>) -> Result<ToolOutput, ToolError> {
    match answer {
        Ok(answer) => {
            let mut output = ToolOutput::text(answer.text);
            output.facts = answer.facts;
            output.cut = answer.cut;
            Ok(if answer.from_files { output.origin(Origin::File) } else { output })
        }
        Err(error) => Err(tool_error(&error)),
    }
}

/// An error as a tool's. Not through `From`, which takes every error for a failure whose words are none for a model.
pub(crate) fn tool_error(error: &WorkspaceError) -> ToolError {
    use placet_core::Status;
    let text = error.to_string();
    let sort = match error.status() {
        Status::Refused => ToolError::refused(text),
        Status::Conflict => ToolError::conflict(text),
        Status::Mistaken => ToolError::mistaken(text),
        _ => ToolError::failed(text),
    };
    sort.reason(error.reason().as_str())
}

/// Runs an operation where it may block, and waits for it. It hears of cancellation through its token.
#[cfg(unix)]
pub(crate) async fn blocking<W>(cx: ToolContext, work: W) -> Result<ToolOutput, ToolError>
where
    W: FnOnce(&tokio_util::sync::CancellationToken) -> Result<Answer, WorkspaceError> + Send + 'static,
{
    let (tell, told) = tokio::sync::oneshot::channel();
    let stop = cx.cancellation().clone();
    let task = cx.env().tasks().spawn_blocking(
        "file operation",
        Box::new(move || {
            let _ = tell.send(work(&stop));
        }),
    );
    match told.await {
        Ok(answer) => output(answer),
        Err(_) => Err(match task.join().await {
            Err(panicked) => ToolError::failed("the operation broke down").because(panicked),
            Ok(()) => tool_error(&WorkspaceError::Cancelled),
        }),
    }
}
