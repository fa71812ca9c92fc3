//! Which calls were seen before: so that a repeated one gets its stored outcome and nothing runs twice.

use async_trait::async_trait;
use placet_core::{CallId, Digest, RunId, ToolResult, TurnId};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// What identifies a call: run, turn and our own id. A provider's id is no part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallKey {
    /// The run, where there is one.
    pub run: Option<RunId>,
    /// The turn, where there is one.
    pub turn: Option<TurnId>,
    /// Our own id of the call.
    pub call: CallId,
}

/// Whether a call was seen before.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Admission {
    /// It is new, and now known.
    New,
    /// It has ended before, with the same tool and the same arguments: this is how.
    Stored(Arc<ToolResult>),
    /// The id was used with another tool or other arguments.
    Conflict,
    /// It was started before and nobody knows how it ended; its tool must not run twice.
    Interrupted,
}

/// What keeps the calls failed. It goes to the caller's code and is never worded for a model.
pub type LedgerFailure = Box<dyn std::error::Error + Send + Sync>;

/// Knows which calls were seen, and how they ended.
#[async_trait]
pub trait CallLedger: Send + Sync {
    /// Whether the call was seen before. Where an equal call is running at this moment, waits for its end.
    ///
    /// `content` is the hash of the tool's name and of the arguments by meaning: spaces and the order of fields do
    /// not change it.
    async fn admit(&self, call: &CallKey, content: Digest) -> Result<Admission, LedgerFailure>;

    /// Keeps how a call ended.
    async fn settle(&self, call: &CallKey, result: &ToolResult) -> Result<(), LedgerFailure>;

    /// The call went away without an end. It may come again as a new one; but where `ran_once`, the handler of a *once*
    /// tool had begun, and it is [`Admission::Interrupted`] from now on.
    fn abandon(&self, call: &CallKey, ran_once: bool);
}

/// How many ended calls [`MemoryCalls`] keeps unless it is told otherwise.
pub const KEPT_CALLS: usize = 4096;

/// Keeps calls in memory, for as long as the process lives: the last 4096 that have ended, and all that run.
#[derive(Debug)]
pub struct MemoryCalls {
    state: Mutex<Calls>,
    kept: usize,
}

#[derive(Debug, Default)]
struct Calls {
    seen: HashMap<CallKey, Seen>,
    ended: VecDeque<CallKey>,
}

#[derive(Debug)]
struct Seen {
    content: Digest,
    end: watch::Sender<End>,
}

impl Seen {
    /// A copy, so that no lock is held while something is done about it.
    fn look(&self) -> End {
        self.end.borrow().clone()
    }
}

#[derive(Clone, Debug)]
enum End {
    NotYet,
    Told(Arc<ToolResult>),
    Lost,
}

impl MemoryCalls {
    /// Keeps the last `kept` calls that have ended. A repetition of one that is no longer kept is a new call.
    #[must_use]
    pub fn keeping(kept: usize) -> Self {
        MemoryCalls { state: Mutex::default(), kept: kept.max(1) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryCalls {
    fn default() -> Self {
        MemoryCalls::keeping(KEPT_CALLS)
    }
}

#[async_trait]
impl CallLedger for MemoryCalls {
    async fn admit(&self, call: &CallKey, content: Digest) -> Result<Admission, LedgerFailure> {
        loop {
            let mut end = {
                let mut calls = self.lock();
                match calls.seen.get(call) {
                    None => {
                        calls.seen.insert(call.clone(), Seen { content, end: watch::Sender::new(End::NotYet) });
                        return Ok(Admission::New);
                    }
                    Some(seen) if seen.content != content => return Ok(Admission::Conflict),
                    Some(seen) => match seen.look() {
                        End::Told(result) => return Ok(Admission::Stored(result)),
                        // Whoever comes first answers for it; the others wait for that answer.
                        End::Lost => {
                            seen.end.send_replace(End::NotYet);
                            return Ok(Admission::Interrupted);
                        }
                        End::NotYet => seen.end.subscribe(),
                    },
                }
            };
            // Either it ends, or it was abandoned and this one takes its place: the next look tells.
            let _ = end.changed().await;
        }
    }

    async fn settle(&self, call: &CallKey, result: &ToolResult) -> Result<(), LedgerFailure> {
        let mut calls = self.lock();
        if let Some(seen) = calls.seen.get(call) {
            seen.end.send_replace(End::Told(Arc::new(result.clone())));
            calls.ended.push_back(call.clone());
        }
        while calls.ended.len() > self.kept {
            if let Some(oldest) = calls.ended.pop_front() {
                calls.seen.remove(&oldest);
            }
        }
        Ok(())
    }

    fn abandon(&self, call: &CallKey, ran_once: bool) {
        let mut calls = self.lock();
        let Some(seen) = calls.seen.get(call) else { return };
        if !matches!(seen.look(), End::NotYet) {
            return;
        }
        if ran_once {
            seen.end.send_replace(End::Lost);
        } else {
            calls.seen.remove(call);
        }
    }
}

/// Keeps nothing: every call is new. For callers that look after repetitions themselves.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCalls;

#[async_trait]
impl CallLedger for NoCalls {
    async fn admit(&self, _call: &CallKey, _content: Digest) -> Result<Admission, LedgerFailure> {
        Ok(Admission::New)
    }

    async fn settle(&self, _call: &CallKey, _result: &ToolResult) -> Result<(), LedgerFailure> {
        Ok(())
    }

    fn abandon(&self, _call: &CallKey, _ran_once: bool) {}
}
