//! Runs cargo in the workspace.

use crate::report::Problem;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo, as one command uses it.
#[derive(Debug)]
pub(crate) struct Cargo {
    /// The workspace's folder.
    pub(crate) root: PathBuf,
    /// Whether this is the run that decides: the lock file may not change and snapshots are not written.
    pub(crate) ci: bool,
}

impl Cargo {
    /// Cargo for a person at work.
    pub(crate) fn new(root: &Path) -> Self {
        Cargo { root: root.to_path_buf(), ci: false }
    }

    /// Cargo for CI.
    pub(crate) fn for_ci(root: &Path) -> Self {
        Cargo { root: root.to_path_buf(), ci: true }
    }

    /// The command `cargo ARGUMENTS`, to be run in the workspace.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(program);
        command.current_dir(&self.root).args(arguments);
        if self.ci {
            command.env("CARGO_INCREMENTAL", "0").env("INSTA_UPDATE", "no").env("CARGO_TERM_PROGRESS_WHEN", "never");
        }
        command
    }

    /// `--locked` where the lock file may not change.
    pub(crate) fn locked(&self) -> &'static [&'static str] {
        if self.ci { &["--locked"] } else { &[] }
    }

    /// Where builds go.
    pub(crate) fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), |folder| self.root.join(folder))
    }
}

/// Runs `command` with our own standard streams.
pub(crate) fn run(command: &mut Command) -> Result<(), Problem> {
    eprintln!("$ {}", shown(command));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(command, &status.to_string())),
        Err(error) => Err(failed(command, &error.to_string())),
    }
}

/// Runs `command` and gives what it wrote to standard output.
pub(crate) fn read(command: &mut Command) -> Result<String, Problem> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Err(failed(command, &format!("{}: {}", output.status, stderr.trim())))
        }
        Err(error) => Err(failed(command, &error.to_string())),
    }
}

/// The problem that `command` did not end well.
pub(crate) fn failed(command: &Command, how: &str) -> Problem {
    Problem::new(shown(command), how, "read what it printed above; the command can be run by hand")
}

/// The command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let mut line = String::from("cargo");
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        line.push(' ');
        if argument.contains(char::is_whitespace) {
            line.push_str(&format!("'{argument}'"));
        } else {
            line.push_str(&argument);
        }
    }
    line
}
