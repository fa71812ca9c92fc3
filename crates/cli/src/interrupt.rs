//! Ctrl-C, the polite form of kill, and the end of the terminal.

/// What the process is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To stop: somebody at the terminal pressed Ctrl-C, and sees what comes of it.
    ToStop,
    /// To end: by the system, or since its terminal is gone. Nobody can ask a second time.
    ToEnd,
}

/// Hears every request to end, from its making on: one that comes while nobody waits is not lost.
pub(crate) struct Interrupts {
    #[cfg(unix)]
    interrupt: Option<tokio::signal::unix::Signal>,
    #[cfg(unix)]
    terminate: Option<tokio::signal::unix::Signal>,
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

impl Interrupts {
    /// Begins to listen. From now on the system does not end the process by itself.
    pub(crate) fn new() -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            // Where a signal cannot be listened to, the system's own way of ending the process is still there.
            Interrupts {
                interrupt: signal(SignalKind::interrupt()).ok(),
                terminate: signal(SignalKind::terminate()).ok(),
                hangup: if survives_its_terminal() { None } else { signal(SignalKind::hangup()).ok() },
            }
        }
        #[cfg(not(unix))]
        Interrupts {}
    }

    /// As [`Interrupts::new`], but for a program that reads its configuration again on a hangup.
    pub(crate) fn but_for_hangups() -> Self {
        #[cfg(unix)]
        {
            Interrupts { hangup: None, ..Interrupts::new() }
        }
        #[cfg(not(unix))]
        Interrupts {}
    }

    /// Completes when the person presses Ctrl-C, or the process is asked to end.
    pub(crate) async fn next(&mut self) {
        self.asked().await;
    }

    /// What is asked for, when it is.
    pub(crate) async fn asked(&mut self) -> Asked {
        #[cfg(unix)]
        {
            let Interrupts { interrupt, terminate, hangup } = self;
            tokio::select! {
                () = heard(interrupt) => Asked::ToStop,
                () = heard(terminate) => Asked::ToEnd,
                () = heard(hangup) => Asked::ToEnd,
            }
        }
        #[cfg(not(unix))]
        {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
            Asked::ToStop
        }
    }
}

#[cfg(unix)]
async fn heard(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether whoever started the program said that it is to outlive its terminal, as `nohup` does.
#[cfg(unix)]
fn survives_its_terminal() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Signal 1 is the lowest bit.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
