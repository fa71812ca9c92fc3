//! Commands: a program and its arguments, run in a folder with a clean environment, limits and an end.
//!
//! # What a command gets
//!
//! - No shell: the arguments reach the program as they are. A shell with `-c` is refused unless it was granted.
//! - An environment of `PATH`, `HOME`, `LANG` and `TERM`, and what was granted by name. Names of secrets are refused where
//!   they are granted. `HOME` is a new, empty folder of each call, removed after it, unless one was granted. `PLACET_CALL`
//!   is a random word by which the processes of the call are known.
//! - A closed standard input. Output and errors are one stream, in the order in which they were written.
//! - A process group of its own, limits of processor time, file size, processes and no core files, and a time limit.
//!
//! # How it ends
//!
//! When the program exits, is out of time or is cancelled, its whole group is ended, and (Linux) so is every process that
//! it started and that left the group, known by its `PLACET_CALL`: what it left in the background does not survive it. Out
//! of time and cancelled, the group and the program's other descendants are asked (`SIGTERM`), and killed once the program
//! itself is gone, or after [`GRACE`]. An exit code that is not 0 is an answer, not a failure.
//!
//! Where our own program is killed, the system kills the command with it (Linux). What the command had started by then, and
//! its home, are ended and removed by whoever next puts commands together ([`Commands::new`]).
//!
//! # What this is not
//!
//! This is level L1: a seatbelt. A command may read whatever the user may read and use the network; the deny list knows
//! common accidents, not attacks. A process that makes itself a session of its own, in an environment from which it took
//! `PLACET_CALL`, and outlives its parent escapes; the limits on it stay. Limits are set from outside right after the start (Linux), so that a program which starts
//! others within that instant gives them none; those that are still its children then get them too.

mod capability;
mod deny;
mod group;
mod home;
mod limits;
mod output;
mod run;
mod script;

#[cfg(test)]
mod deny_tests;

use crate::error::WorkspaceError;
use placet_core::Redactor;
use placet_core::redact::is_secret_variable;
use std::path::PathBuf;
use std::time::Duration;

pub use capability::Commands;
pub use group::end_all;
pub use limits::ProcessLimits;
pub use run::{CommandCall, run};

/// How long an ended command may take to end by itself.
pub const GRACE: Duration = Duration::from_secs(2);
/// The longest time limit of a call.
pub const LONGEST: Duration = Duration::from_secs(3_600);
/// The level of sandboxing, as it is recorded with every call.
pub const SANDBOX: &str = "L1";
/// The variable by which the processes of a call are known, wherever they go.
pub(crate) const MARK: &str = "PLACET_CALL";

/// Whether somebody is asked before a command runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    /// A human is asked each time. Where nobody can be asked, nothing runs.
    #[default]
    Ask,
    /// Nobody is asked, though commands run in no sandbox worth the name.
    Unsandboxed,
}

/// How commands are handed over. Start with [`CommandOptions::new`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CommandOptions {
    /// Whether somebody is asked first.
    pub approval: Approval,
    /// Whether shells may be given scripts.
    pub shell: bool,
    /// Only commands that begin with one of these; all where it is empty. Each is a program and its first arguments, word
    /// by word.
    pub allow: Vec<Vec<String>>,
    /// Never commands that begin with one of these.
    pub deny: Vec<Vec<String>>,
    /// Where programs are looked for.
    pub path: String,
    /// The home of all commands, instead of a new one for each.
    pub home: Option<PathBuf>,
    /// Variables that commands get besides the usual ones.
    pub variables: Vec<(String, String)>,
    /// The time limit of a call that names none.
    pub timeout: Duration,
    /// How much output is kept, in bytes: a quarter from its beginning, the rest from its end.
    pub output_bytes: usize,
    /// What a process may use.
    pub limits: ProcessLimits,
    /// Takes secrets out of the output before it is cut.
    pub redactor: Redactor,
}

impl Default for CommandOptions {
    fn default() -> Self {
        CommandOptions::new()
    }
}

impl CommandOptions {
    /// Asks each time, without a shell, two minutes, 20,000 bytes of output.
    #[must_use]
    pub fn new() -> Self {
        CommandOptions {
            approval: Approval::Ask,
            shell: false,
            allow: Vec::new(),
            deny: Vec::new(),
            path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into(),
            home: None,
            variables: Vec::new(),
            timeout: Duration::from_secs(120),
            output_bytes: 20_000,
            limits: ProcessLimits::default(),
            redactor: Redactor::default(),
        }
    }

    /// Sets whether somebody is asked first.
    #[must_use]
    pub fn approval(mut self, approval: Approval) -> Self {
        self.approval = approval;
        self
    }

    /// Lets shells be given scripts.
    #[must_use]
    pub fn shell(mut self) -> Self {
        self.shell = true;
        self
    }

    /// Allows commands that begin with these words, and, from the first such call on, no others.
    #[must_use]
    pub fn allow<W: Into<String>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.allow.push(words.into_iter().map(Into::into).collect());
        self
    }

    /// Denies commands that begin with these words.
    #[must_use]
    pub fn deny<W: Into<String>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.deny.push(words.into_iter().map(Into::into).collect());
        self
    }

    /// Sets where programs are looked for.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets the home of all commands.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Gives commands a variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets the time limit of calls that name none.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how much output is kept, in bytes.
    #[must_use]
    pub fn output_bytes(mut self, bytes: usize) -> Self {
        self.output_bytes = bytes;
        self
    }

    /// Sets what a process may use.
    #[must_use]
    pub fn limits(mut self, limits: ProcessLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets what knows the secrets.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Finds everything that is wrong with the options.
    ///
    /// # Errors
    /// [`WorkspaceError::Options`] with all of it in one text.
    pub fn check(&self) -> Result<(), WorkspaceError> {
        let mut problems = Vec::new();
        for (name, value) in &self.variables {
            if name == MARK {
                problems.push(format!("the variable {name} is set for each call"));
            } else if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                problems.push(format!("{name:?} is no name of a variable"));
            } else if is_secret_variable(name, value) {
                problems
                    .push(format!("the variable {name} holds a secret by its name or value; commands never get one"));
            }
        }
        if self.shell && !self.allow.is_empty() {
            problems
                .push("a list of allowed commands means nothing where shells run scripts; grant one of the two".into());
        }
        if self.allow.iter().chain(&self.deny).any(|words| words.is_empty() || words[0].is_empty()) {
            problems.push("an allowed or denied command needs at least the name of a program".into());
        }
        if self.timeout.is_zero() || self.timeout > LONGEST {
            problems.push(format!("the time limit must lie between 1 and {} seconds", LONGEST.as_secs()));
        }
        if !(400..=1 << 20).contains(&self.output_bytes) {
            problems.push("between 400 bytes and 1 MiB of output can be kept".into());
        }
        if problems.is_empty() { Ok(()) } else { Err(WorkspaceError::Options(problems.join("; "))) }
    }
}
