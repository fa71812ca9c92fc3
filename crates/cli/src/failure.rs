//! What a command ends with when it cannot do what was asked: a sentence, hints, and an exit code.

use placet_core::{Diagnose, ErrorKind};
use std::process::ExitCode;

/// How a command ended without succeeding.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// Absent where everything has been said already.
    pub(crate) message: Option<String>,
    pub(crate) hints: Vec<String>,
}

/// The exit codes, as `placet --help` documents them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Failed = 1,
    Usage = 2,
    LimitReached = 3,
    NotFound = 4,
    Conflict = 5,
    NotVerified = 6,
    Cancelled = 130,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        ExitCode::from(code as u8)
    }
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Failure { code, message: Some(message.into()), hints: Vec::new() }
    }

    /// An end that has been reported already, as part of a run's output.
    pub(crate) fn told(code: Code) -> Self {
        Failure { code, message: None, hints: Vec::new() }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// From any error that says what kind it is, with its whole chain of causes.
    pub(crate) fn of(error: &(impl Diagnose + ?Sized)) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Wrappers often repeat what they wrap.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = cause.source();
        }
        Failure { code: code_of(&error.kind()), message: Some(message), hints: error.hints() }
    }
}

impl<E: Diagnose> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::of(&error)
    }
}

pub(crate) fn code_of(kind: &ErrorKind) -> Code {
    match kind {
        ErrorKind::Wiring => Code::Usage,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::Conflict => Code::Conflict,
        ErrorKind::LimitReached => Code::LimitReached,
        ErrorKind::Cancelled => Code::Cancelled,
        _ => Code::Failed,
    }
}

/// The result of a command.
pub(crate) type Done = Result<(), Failure>;
