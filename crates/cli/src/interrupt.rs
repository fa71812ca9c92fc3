//! Ctrl-C, and the polite form of kill.

/// Hears every request to end, from its making on: one that comes while nobody waits is not lost.
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signals: Option<(tokio::signal::unix::Signal, tokio::signal::unix::Signal)>,
}

impl Interrupts {
    /// Begins to listen. From now on the system does not end the process by itself.
    pub(crate) fn new() -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            // Where a signal cannot be listened to, the system's own way of ending the process is still there.
            let signals = signal(SignalKind::interrupt()).ok().zip(signal(SignalKind::terminate()).ok());
            Interrupts { signals }
        }
        #[cfg(not(unix))]
        Interrupts {}
    }

    /// Completes when the person presses Ctrl-C, or the process is asked to end.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        match &mut self.signals {
            Some((interrupt, terminate)) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            }
            None => std::future::pending::<()>().await,
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
