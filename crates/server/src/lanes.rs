//! Lanes: threads that each serve a share of the connections, whole.
//!
//! Threads that share their tasks wake one another for nearly every piece of a stream, and the waking costs more than handing
//! the piece on does. A client's connection that stays in one lane, with the provider's connection beside it, wakes nobody.

use placet_core::{BoxFuture, Env};
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long nobody new comes to a lane before it is at rest.
const REST: Duration = Duration::from_secs(5);

/// Connections on their way to a lane.
type Arrivals = mpsc::UnboundedReceiver<BoxFuture<'static, ()>>;

/// The threads. Dropping them ends whatever still runs in them.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Vec<mpsc::UnboundedSender<BoxFuture<'static, ()>>>,
    next: usize,
}

impl Lanes {
    /// Starts `count` threads, each of which does `at_rest` now and then while nobody new comes.
    pub(crate) fn start(count: usize, at_rest: Option<fn()>, env: &Env) -> io::Result<Self> {
        let mut lanes = Vec::with_capacity(count);
        for number in 0..count {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            #[expect(clippy::disallowed_methods, reason = "it holds no more than there may be connections at a time")]
            let (sender, arrivals) = mpsc::unbounded_channel();
            let env = env.clone();
            let thread = std::thread::Builder::new().name(format!("lane {number}"));
            #[expect(
                clippy::disallowed_methods,
                reason = "a lane owns its runtime for as long as connections are served"
            )]
            thread.spawn(move || {
                runtime.block_on(serve(arrivals, at_rest, env));
                // Work that blocks would hold up whoever stops the gateway.
                runtime.shutdown_background();
            })?;
            lanes.push(sender);
        }
        Ok(Lanes { lanes, next: 0 })
    }

    /// Gives a connection to the next lane in turn, so that all have the same number.
    pub(crate) fn put(&mut self, connection: BoxFuture<'static, ()>) {
        if let Some(lane) = self.lanes.get(self.next) {
            // A lane ends after its sender only.
            let _ = lane.send(connection);
        }
        self.next = (self.next + 1) % self.lanes.len().max(1);
    }
}

async fn serve(mut arrivals: Arrivals, at_rest: Option<fn()>, env: Env) {
    loop {
        let arrived = tokio::select! {
            biased;
            arrived = arrivals.recv() => arrived,
            () = env.sleep(REST), if at_rest.is_some() => {
                at_rest.into_iter().for_each(|rest| rest());
                continue;
            }
        };
        let Some(connection) = arrived else { return };
        drop(env.spawn("client connection", connection));
    }
}
