//! Asks the person at the terminal before a call runs.

use crate::output::{Output, Tone, printable};
use async_trait::async_trait;
use placet_core::event::ApprovalRequested;
use placet_core::{Env, Redactor};
use placet_tools::{Approver, ApproverFailure, Decision, PolicyRequest};
use std::io::{IsTerminal, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Mutex;
use tokio::sync::oneshot;

/// Asks on the terminal, one question at a time. Without a terminal nobody can be asked, and the call is denied.
pub(crate) struct TerminalApprover {
    env: Env,
    output: Output,
    redactor: Redactor,
    /// Two calls of a round must not ask at once: an answer would be taken for the other question's.
    turn: Mutex<()>,
    asking: AtomicBool,
}

impl TerminalApprover {
    pub(crate) fn new(env: &Env, output: Output, redactor: Redactor) -> Self {
        TerminalApprover { env: env.clone(), output, redactor, turn: Mutex::new(()), asking: AtomicBool::new(false) }
    }

    /// Whether a question stands on the terminal.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Approver for TerminalApprover {
    async fn decide(
        &self,
        question: &ApprovalRequested,
        request: &PolicyRequest<'_>,
    ) -> Result<Decision, ApproverFailure> {
        let _turn = self.turn.lock().await;
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return Err(ApproverFailure("there is no terminal to ask on".to_owned()));
        }
        let show = |text: &str| printable(&self.redactor.redact_text(text));
        let arguments = serde_json::to_string_pretty(request.arguments).unwrap_or_default();
        self.output.note(&self.output.paint_note(Tone::Warn, &show(&question.question)));
        // The whole content is shown: what is approved is this and nothing else.
        self.output.note(&format!("{} {}", question.tool, show(&arguments)));
        self.output.note(&self.output.paint_note(Tone::Strong, "Run it? [y/N]"));
        let (sender, answer) = oneshot::channel();
        let read = move || {
            let _ = sender.send(read_answer());
        };
        self.asking.store(true, Ordering::Relaxed);
        // The read cannot be cancelled; dropped with the question, its answer goes nowhere.
        self.env.tasks().spawn_blocking("approval", Box::new(read));
        let line = answer.await;
        self.asking.store(false, Ordering::Relaxed);
        let line = match line {
            Ok(Ok(line)) => line,
            Ok(Err(error)) => return Err(ApproverFailure(format!("the terminal cannot be read: {error}"))),
            Err(_) => return Err(ApproverFailure("the terminal was not read".to_owned())),
        };
        Ok(match line.trim().to_lowercase().as_str() {
            "y" | "yes" => Decision::approve(question, "terminal"),
            _ => Decision::deny(question, "terminal", Some("the person at the terminal said no".to_owned())),
        })
    }
}

/// The line that is typed after this is called: what was typed before was no answer to a question that nobody had seen.
fn read_answer() -> std::io::Result<String> {
    let mut terminal = open_terminal()?;
    let mut line = Vec::new();
    let mut byte = [0; 1];
    // Byte by byte: nothing that belongs to a later question is read ahead.
    while line.len() < 64 && terminal.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(unix)]
fn open_terminal() -> std::io::Result<std::fs::File> {
    let terminal = std::fs::File::open("/dev/tty")?;
    nix::sys::termios::tcflush(&terminal, nix::sys::termios::FlushArg::TCIFLUSH)?;
    Ok(terminal)
}

#[cfg(not(unix))]
fn open_terminal() -> std::io::Result<std::io::Stdin> {
    Ok(std::io::stdin())
}
