//! Ctrl-C, and the polite form of kill.

/// Completes when the person presses Ctrl-C, or the process is asked to end.
pub(crate) async fn pressed() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Where a signal cannot be listened to, the system's own way of ending the process is still there.
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
