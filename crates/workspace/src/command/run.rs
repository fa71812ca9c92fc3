//! Running one command to its end.

use super::group::{Started, start};
use super::home::Home;
use super::output::HeadTail;
use super::{CommandOptions, GRACE, LONGEST, SANDBOX, deny};
use crate::answer::Answer;
use crate::error::WorkspaceError;
use crate::files::{Files, inside};
use placet_core::Env;
use placet_core::redact::StreamRedactor;
use rustix::process::Signal;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

/// How long the output of something that escaped the group is waited for.
const DRAIN: Duration = Duration::from_millis(500);
/// The most arguments.
const MOST_ARGUMENTS: usize = 1_000;
/// The most bytes of all arguments.
const MOST_BYTES: usize = 128 * 1024;

/// A command that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCall {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The directory inside the folder in which it starts.
    pub dir: Option<String>,
    /// Its time limit in seconds.
    pub timeout_seconds: Option<u64>,
}

impl CommandCall {
    /// Checks everything that can be known before it runs.
    ///
    /// # Errors
    /// [`WorkspaceError::BadCommand`], [`WorkspaceError::BadPath`] or [`WorkspaceError::OutOfRange`] for arguments that
    /// cannot be used, [`WorkspaceError::CommandDenied`] for a command that is not allowed.
    pub fn check(&self, options: &CommandOptions, files: &Files) -> Result<(), WorkspaceError> {
        let bad = |words: String| Err(WorkspaceError::BadCommand(words));
        match self.argv.first() {
            None => return bad("`argv` is empty; give the program and its arguments, such as [\"ls\", \"-l\"]".into()),
            Some(program) if program.trim().is_empty() => return bad("the first of `argv` names no program".into()),
            Some(program) if program.contains(char::is_whitespace) && self.argv.len() == 1 => {
                return bad(format!(
                    "`{}` is one word of `argv`, but looks like several; give each argument by itself",
                    crate::files::clipped(program)
                ));
            }
            _ => {}
        }
        if self.argv.len() > MOST_ARGUMENTS || self.argv.iter().map(String::len).sum::<usize>() > MOST_BYTES {
            return bad(format!(
                "`argv` is too long; at most {MOST_ARGUMENTS} arguments of {MOST_BYTES} bytes together"
            ));
        }
        if self.argv.iter().any(|argument| argument.contains('\0')) {
            return bad("an argument holds a NUL character".into());
        }
        if let Some(seconds) = self.timeout_seconds
            && !(1..=LONGEST.as_secs()).contains(&seconds)
        {
            let expected = "from 1 to 3600";
            return Err(WorkspaceError::OutOfRange { argument: "timeout_seconds", found: seconds, expected });
        }
        let dir = inside(self.dir.as_deref().unwrap_or("."))?;
        match deny::denied(&self.argv, options, files.path(), &dir) {
            Some(why) => Err(WorkspaceError::CommandDenied(why)),
            None => Ok(()),
        }
    }

    /// The command as one line, for people. Control characters are escaped, so that it looks like what it is.
    #[must_use]
    pub fn line(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%^".contains(c);
        let quoted = |word: &String| {
            if !word.is_empty() && word.chars().all(plain) {
                word.clone()
            } else if word.chars().any(char::is_control) {
                let escaped = |c: char| {
                    if c.is_control() || c == '\'' || c == '\\' {
                        c.escape_default().collect()
                    } else {
                        String::from(c)
                    }
                };
                format!("$'{}'", word.chars().map(escaped).collect::<String>())
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        };
        self.argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// Why it ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    OutOfTime,
    Cancelled,
}

/// Runs a command to its end. Dropping the future kills the command's group.
///
/// # Errors
/// As [`CommandCall::check`]; [`WorkspaceError::BadCommand`] for a program that is not there;
/// [`WorkspaceError::Io`] when the system cannot start it.
pub async fn run(
    env: &Env,
    options: &CommandOptions,
    files: &Files,
    call: &CommandCall,
    cancel: &CancellationToken,
) -> Result<Answer, WorkspaceError> {
    call.check(options, files)?;
    let dir = files.working_directory(call.dir.as_deref().unwrap_or("."))?;
    let home = Home::make(env, options)?;
    let failed = |source: io::Error| WorkspaceError::io("the command", source);
    let started = env.clock().steady();
    let begun = start(env, options, &call.argv, dir, &home).await;
    let Started { mut group, output, mut exited } = begun.map_err(|error| unstarted(call, error))?;
    let mut output = pipe::Receiver::from_owned_fd(output).map_err(failed)?;
    let mut kept = Kept::new(options);
    let limit = call.timeout_seconds.map_or(options.timeout, Duration::from_secs);
    let mut stopped = None;

    // Until the program has ended.
    let mut out_of_time = env.sleep(limit);
    let mut grace = None;
    let mut open = true;
    loop {
        tokio::select! {
            read = kept.read(&mut output), if open => open = read.map_err(failed)?,
            _ = &mut exited => break,
            () = &mut out_of_time, if stopped.is_none() => {
                stopped = Some(Stopped::OutOfTime);
                group.signal(Signal::TERM);
                grace = Some(env.sleep(GRACE));
            }
            () = cancel.cancelled(), if stopped.is_none() => {
                stopped = Some(Stopped::Cancelled);
                group.signal(Signal::TERM);
                grace = Some(env.sleep(GRACE));
            }
            () = async { if let Some(grace) = &mut grace { grace.await } }, if grace.is_some() => {
                grace = None;
                group.signal(Signal::KILL);
            }
        }
    }
    // The program is a zombie yet, so that its number and its group's are still its own.
    group.end();
    let mut escaped = false;
    let mut patience = env.sleep(DRAIN);
    while open {
        tokio::select! {
            biased;
            read = kept.read(&mut output) => open = read.map_err(failed)?,
            () = &mut patience => {
                escaped = true;
                break;
            }
        }
    }
    let took = env.clock().steady().saturating_sub(started);
    let status = group.reap().map_err(failed)?;
    drop(home);
    Ok(told(status, stopped, limit, kept, escaped, took))
}

/// Words and facts of a command that ended.
fn told(
    status: ExitStatus,
    stopped: Option<Stopped>,
    limit: Duration,
    kept: Kept,
    escaped: bool,
    took: Duration,
) -> Answer {
    let redacted = kept.redactor.report().total();
    let (output, total, shown) = kept.finish();
    let seconds = limit.as_secs_f64();
    let head = match (stopped, status.code(), status.signal()) {
        (Some(Stopped::OutOfTime), _, _) => {
            format!("out of time after {seconds} seconds: all its processes were ended")
        }
        (Some(Stopped::Cancelled), _, _) => "cancelled: all its processes were ended".to_owned(),
        (None, Some(code), _) => format!("exit code {code}"),
        (None, None, Some(signal)) => format!("ended by signal {}", signal_name(signal)),
        (None, None, None) => "ended".to_owned(),
    };
    let body = if output.is_empty() { "(no output)" } else { output.as_str() };
    let mut text = format!("{head}\n{body}");
    if escaped {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str("(a process that left the command's group still holds its output open; it is not waited for)");
    }
    let mut answer = Answer::new(text)
        .fact("sandbox", SANDBOX)
        .fact("duration_ms", u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
        .fact("timed_out", stopped == Some(Stopped::OutOfTime))
        .fact("output_bytes", total)
        .cut(shown, total, "bytes");
    if let Some(code) = status.code() {
        answer = answer.fact("exit_code", code);
    }
    if let Some(signal) = status.signal() {
        answer = answer.fact("signal", signal);
    }
    if stopped == Some(Stopped::Cancelled) {
        answer = answer.fact("cancelled", true);
    }
    if escaped {
        answer = answer.fact("escaped", true);
    }
    if redacted > 0 {
        answer = answer.fact("redacted", redacted);
    }
    answer
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU: too much processor time",
        25 => "SIGXFSZ: too large a file",
        _ => return signal.to_string(),
    };
    format!("{signal} ({name})")
}

fn unstarted(call: &CommandCall, error: io::Error) -> WorkspaceError {
    let program = crate::files::clipped(call.argv.first().map_or("", String::as_str));
    match error.kind() {
        io::ErrorKind::NotFound => {
            let hint = if program.contains('/') { "" } else { "; it is not on the path of commands" };
            WorkspaceError::BadCommand(format!("there is no program `{program}`{hint}"))
        }
        io::ErrorKind::PermissionDenied => WorkspaceError::BadCommand(format!("`{program}` cannot be executed")),
        io::ErrorKind::ArgumentListTooLong => WorkspaceError::BadCommand("`argv` is too long for the system".into()),
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            WorkspaceError::BadCommand(format!("`{program}` is no program that the system can execute"))
        }
        _ => WorkspaceError::io("the command", error),
    }
}

/// What is kept of the output.
struct Kept {
    redactor: StreamRedactor,
    output: HeadTail,
    buffer: Vec<u8>,
}

impl Kept {
    fn new(options: &CommandOptions) -> Self {
        Kept {
            redactor: options.redactor.stream(),
            output: HeadTail::new(options.output_bytes),
            buffer: vec![0; 16 * 1024],
        }
    }

    /// Reads some more; false at the end.
    async fn read(&mut self, from: &mut pipe::Receiver) -> io::Result<bool> {
        let count = from.read(&mut self.buffer).await?;
        if count == 0 {
            return Ok(false);
        }
        // Secrets first, so that the cut leaves no half of one.
        let clean = self.redactor.push_bytes(&self.buffer[..count]);
        self.output.push(&clean);
        Ok(true)
    }

    /// The text, how much there was, and how much of it is in the text.
    fn finish(mut self) -> (String, u64, u64) {
        let rest = self.redactor.finish_bytes();
        self.output.push(&rest);
        let total = self.output.total();
        let (text, shown) = self.output.finish();
        (text, total, shown)
    }
}
