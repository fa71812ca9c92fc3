//! The capability *command*.

use super::{Approval, CommandCall, CommandOptions, GRACE, LONGEST, SANDBOX, home, run};
use crate::answer::Answer;
use crate::bind::{bounds, output, tool_error};
use crate::error::WorkspaceError;
use crate::files::Files;
use placet_core::{Effect, Env, Origin, Origins, Reason};
use placet_tools::{PlainCapability, ToolError, ToolOutput, capability, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

const INSTRUCTIONS: &str = "Commands are a program and its arguments, each by itself; there is no shell, so pipes, \
                            redirections, wildcards and variables are no more than text. They start in the folder, with \
                            a closed input, and end with everything they started. An exit code other than 0 is an answer \
                            to think about, not a reason to repeat.";

const WITH_SHELL: &str = "Commands are a program and its arguments, each by itself. For pipes, redirections, wildcards and \
                          variables give a script to a shell: [\"sh\", \"-c\", \"ls | wc -l\"]. They start in the folder, \
                          with a closed input, and end with everything they started. An exit code other than 0 is an \
                          answer to think about, not a reason to repeat.";

const DESCRIPTION: &str = "Runs a program and answers its exit code and output, for example [\"git\", \"log\", \"-3\"]. Of a \
                           long output the beginning and the end are kept.";

#[derive(Clone, Debug, Deserialize, JsonSchema)]
struct RunCommand {
    /// The program and its arguments, such as ["ls", "-l", "src"].
    argv: Vec<String>,
    /// The directory to start in. The folder itself if left out.
    dir: Option<String>,
    /// After how many seconds it is ended, from 1 to 3600. 120 if left out, unless the operator chose otherwise.
    #[schemars(range(min = 1, max = 3600))]
    timeout_seconds: Option<u64>,
}

impl RunCommand {
    fn call(&self) -> CommandCall {
        CommandCall { argv: self.argv.clone(), dir: self.dir.clone(), timeout_seconds: self.timeout_seconds }
    }
}

/// Commands in a folder, checked and ready to be granted.
#[derive(Debug)]
pub struct Commands {
    files: Arc<Files>,
    options: CommandOptions,
}

impl Commands {
    /// Commands that start in this folder. What programs which were killed have left of theirs is ended and removed first.
    ///
    /// # Errors
    /// [`WorkspaceError::Options`] with everything that is wrong with the options.
    pub fn new(files: Arc<Files>, options: CommandOptions) -> Result<Arc<Self>, WorkspaceError> {
        options.check()?;
        home::sweep();
        Ok(Arc::new(Commands { files, options }))
    }

    /// Runs one command, as [`run`] does.
    ///
    /// # Errors
    /// As [`run`].
    pub async fn run(
        &self,
        env: &Env,
        call: &CommandCall,
        cancel: &tokio_util::sync::CancellationToken,
    ) -> Result<crate::Answer, WorkspaceError> {
        run(env, &self.options, &self.files, call, cancel).await
    }

    /// The capability `command` with the tool `run_command`. Its effect is *once*: who knows what a program does.
    ///
    /// Unless the options say [`Approval::Unsandboxed`], the tool asks a human each time, with the very command in the
    /// question; where nobody can be asked, the pipeline refuses the call.
    #[must_use]
    pub fn capability(self: &Arc<Self>) -> PlainCapability {
        let commands = self.clone();
        let run_command = tool("run_command", DESCRIPTION, move |args: RunCommand, cx| {
            let commands = commands.clone();
            async move { finished(commands.run(cx.env(), &args.call(), cx.cancellation()).await) }
        });
        let commands = self.clone();
        let asks = self.options.approval == Approval::Ask;
        let run_command = run_command
            .effect(Effect::Once)
            .domain(move |args: &RunCommand| {
                args.call().check(&commands.options, &commands.files).map_err(|error| tool_error(&error))
            })
            .ask_first(move |args| asks.then(|| question(&args.call())))
            // What it writes may come from any file it can read.
            .origin([Origin::File, Origin::Tool("run_command".into())].into_iter().collect::<Origins>())
            .fact("sandbox", SANDBOX)
            .timeout(LONGEST + GRACE + Duration::from_secs(60))
            .bounds(bounds());
        let instructions = if self.options.shell { WITH_SHELL } else { INSTRUCTIONS };
        capability("command").instructions(instructions).tool(run_command)
    }
}

/// A command that ran out of time has failed, with the output that it had by then. One that ended has not, whatever its
/// exit code: that is for the model to judge.
fn finished(answer: Result<Answer, WorkspaceError>) -> Result<ToolOutput, ToolError> {
    match answer {
        Ok(answer) if answer.facts.get("timed_out") == Some(&true.into()) => {
            let failed = ToolError::failed(answer.text).reason(Reason::Timeout.as_str());
            Err(answer.facts.into_iter().fold(failed, |failed, (name, fact)| failed.fact(name, fact)))
        }
        answer => output(answer),
    }
}

fn question(call: &CommandCall) -> String {
    match call.dir.as_deref() {
        Some(dir) if dir != "." => format!("Run `{}` in {dir}, outside of any sandbox?", call.line()),
        _ => format!("Run `{}`, outside of any sandbox?", call.line()),
    }
}
