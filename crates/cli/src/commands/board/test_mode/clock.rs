//! The system's clock, which a test may put forward.

use placet_core::Timestamp;
use placet_core::env::{BoxFuture, Clock};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// A clock that goes as its base does, and jumps when it is told to. Cheap to clone; all clones are one clock.
#[derive(Clone, Debug)]
pub(super) struct ShiftedClock(Arc<Shifted>);

#[derive(Debug)]
struct Shifted {
    base: Arc<dyn Clock>,
    shift: Mutex<Duration>,
    moved: watch::Sender<()>,
}

impl ShiftedClock {
    pub(super) fn new(base: Arc<dyn Clock>) -> Self {
        ShiftedClock(Arc::new(Shifted { base, shift: Mutex::default(), moved: watch::Sender::new(()) }))
    }

    pub(super) fn advance(&self, by: Duration) {
        {
            let mut shift = self.0.shift.lock().unwrap_or_else(PoisonError::into_inner);
            *shift = shift.saturating_add(by);
        }
        self.0.moved.send_replace(());
    }

    fn shift(&self) -> Duration {
        *self.0.shift.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        self.0.base.now().plus(self.shift())
    }

    fn steady(&self) -> Duration {
        self.0.base.steady().saturating_add(self.shift())
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        let (clock, until) = (self.clone(), self.steady().saturating_add(span));
        let mut moved = self.0.moved.subscribe();
        Box::pin(async move {
            loop {
                let left = until.saturating_sub(clock.steady());
                if left.is_zero() {
                    return;
                }
                tokio::select! {
                    () = clock.0.base.sleep(left) => {}
                    _ = moved.changed() => {}
                }
            }
        })
    }
}
