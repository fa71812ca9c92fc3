//! `Env`: time, randomness, identity and tasks, passed in (never fetched), so that tests are deterministic.
//!
//! This module is the only place of the project that reads the system's clock, asks it for random bytes or spawns a
//! task. Everything else is handed an [`Env`].

use crate::id::IdKind;
use crate::time::Timestamp;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// A boxed future, as the seams of the project pass them.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Tells the time and waits for it.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present instant. May step when the system's clock is set; never used to measure a span.
    fn now(&self) -> Timestamp;
    /// A steady count of elapsed time since an arbitrary start; never goes back.
    fn steady(&self) -> Duration;
    /// Completes once `span` has passed on this clock.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;
}

/// Gives random bytes.
pub trait Random: Send + Sync + fmt::Debug {
    /// Fills `bytes` with random values, fit for identifiers and jitter, and for secrets if it is the system's.
    fn fill(&self, bytes: &mut [u8]);

    /// A uniformly random number.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// Runs tasks in the background.
pub trait Tasks: Send + Sync + fmt::Debug {
    /// Starts `task`; `name` is for diagnostics. Dropping the handle does not stop the task.
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) -> Task;
    /// Runs blocking work on a thread where it may block.
    fn spawn_blocking(&self, name: &'static str, work: Box<dyn FnOnce() + Send>) -> Task;
}

/// A started task: await it to learn how it ended.
pub struct Task {
    end: BoxFuture<'static, Result<(), TaskPanicked>>,
    abort: Box<dyn Fn() + Send + Sync>,
}

impl Task {
    /// A task whose end is told by `end` and which `abort` stops.
    pub fn new(end: BoxFuture<'static, Result<(), TaskPanicked>>, abort: Box<dyn Fn() + Send + Sync>) -> Self {
        Task { end, abort }
    }

    /// Stops the task at its next suspension point.
    pub fn abort(&self) {
        (self.abort)();
    }

    /// Waits until the task has ended.
    ///
    /// # Errors
    /// [`TaskPanicked`] when it panicked; an aborted task ends with `Ok`.
    pub async fn join(self) -> Result<(), TaskPanicked> {
        self.end.await
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

/// A background task panicked; the text is the panic's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a background task panicked: {0}")]
pub struct TaskPanicked(pub String);

/// What a component may know of the world outside it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Env {
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    tasks: Arc<dyn Tasks>,
    last_id_millis: Arc<AtomicU64>,
}

impl Env {
    /// An environment of the given parts.
    pub fn new(clock: Arc<dyn Clock>, random: Arc<dyn Random>, tasks: Arc<dyn Tasks>) -> Self {
        Env { clock, random, tasks, last_id_millis: Arc::default() }
    }

    /// The real thing: system clock, system randomness, tasks on the current tokio runtime.
    #[must_use]
    pub fn system() -> Self {
        Env::new(Arc::new(SystemClock::new()), Arc::new(SystemRandom), Arc::new(TokioTasks))
    }

    /// For tests: a manual clock, seeded randomness, tasks on the current tokio runtime.
    #[must_use]
    pub fn deterministic(clock: Arc<ManualClock>, seed: u64) -> Self {
        Env::new(Arc::new(ManualHandle(clock)), Arc::new(SeededRandom::new(seed)), Arc::new(TokioTasks))
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The source of random bytes.
    #[must_use]
    pub fn random(&self) -> &Arc<dyn Random> {
        &self.random
    }

    /// The background.
    #[must_use]
    pub fn tasks(&self) -> &Arc<dyn Tasks> {
        &self.tasks
    }

    /// The present instant.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Completes once `span` has passed.
    pub fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(span)
    }

    /// Starts a background task.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> Task {
        self.tasks.spawn(name, Box::pin(task))
    }

    /// A new identifier: 48 bits of milliseconds and 74 random bits in the layout of UUID version 7, so that ids
    /// sort by the time of their making. Ids made by one environment never sort before an earlier millisecond's.
    pub fn new_id<I: IdKind>(&self) -> I {
        let now = u64::try_from(self.now().as_millis()).unwrap_or(0);
        let millis = self.last_id_millis.fetch_max(now, Ordering::Relaxed).max(now);
        let mut random = [0; 10];
        self.random.fill(&mut random);
        I::from_uuid(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }
}

/// The system's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// A clock whose steady count starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    pub fn new() -> Self {
        SystemClock { start: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn steady(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that waits on the system's clock")]
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}

/// The system's randomness, buffered per thread so that an id costs no system call.
#[derive(Debug)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the system for randomness")]
    fn fill(&self, bytes: &mut [u8]) {
        use rand::Rng;
        rand::rng().fill_bytes(bytes);
    }
}

/// Repeatable randomness from a seed (SplitMix64): for tests and replays, never for secrets.
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// A sequence that depends on nothing but `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        SeededRandom { state: AtomicU64::new(seed) }
    }

    fn step(&self) -> u64 {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.state.fetch_add(GOLDEN, Ordering::Relaxed).wrapping_add(GOLDEN);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.step().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// Tasks on the tokio runtime that the caller runs in.
#[derive(Debug)]
pub struct TokioTasks;

impl Tasks for TokioTasks {
    #[expect(clippy::disallowed_methods, reason = "the one place that spawns tasks")]
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) -> Task {
        tracked(tokio::spawn(task))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that spawns blocking work")]
    fn spawn_blocking(&self, _name: &'static str, work: Box<dyn FnOnce() + Send>) -> Task {
        tracked(tokio::task::spawn_blocking(work))
    }
}

fn tracked(handle: tokio::task::JoinHandle<()>) -> Task {
    let abort = handle.abort_handle();
    let end = async move {
        match handle.await {
            Err(error) if error.is_panic() => Err(TaskPanicked(panic_text(error.into_panic().as_ref()))),
            _ => Ok(()),
        }
    };
    Task::new(Box::pin(end), Box::new(move || abort.abort()))
}

/// The message of a caught panic, as far as it is text.
#[must_use]
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a value that is not text".to_owned()
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<ManualState>,
    moved: Arc<Notify>,
}

#[derive(Debug)]
struct ManualState {
    now: Timestamp,
    steady: Duration,
}

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Arc<Self> {
        Arc::new(ManualClock {
            state: Mutex::new(ManualState { now, steady: Duration::ZERO }),
            moved: Arc::new(Notify::new()),
        })
    }

    /// Moves the clock on and wakes every sleeper whose time has come.
    pub fn advance(&self, span: Duration) {
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.now = state.now.plus(span);
            state.steady = state.steady.saturating_add(span);
        }
        self.moved.notify_waiters();
    }

    fn read(&self) -> (Timestamp, Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.now, state.steady)
    }
}

/// Sleeping needs the shared clock itself, so the trait is implemented for the `Arc` that [`ManualClock::new`] gives.
impl Clock for ManualHandle {
    fn now(&self) -> Timestamp {
        self.0.read().0
    }

    fn steady(&self) -> Duration {
        self.0.read().1
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        let clock = self.0.clone();
        let until = clock.read().1.saturating_add(span);
        Box::pin(async move {
            loop {
                // Registered before the look at the clock, so that a move in between is not missed.
                let moved = clock.moved.clone();
                let notified = moved.notified();
                if clock.read().1 >= until {
                    return;
                }
                notified.await;
            }
        })
    }
}

/// The [`Clock`] of a shared [`ManualClock`].
#[derive(Debug, Clone)]
pub struct ManualHandle(pub Arc<ManualClock>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::RunId;

    #[test]
    fn seeded_randomness_repeats() {
        let (a, b) = (SeededRandom::new(7), SeededRandom::new(7));
        let draw = |random: &SeededRandom| (0..20).map(|_| random.next_u64()).collect::<Vec<_>>();
        assert_eq!(draw(&a), draw(&b));
    }

    #[test]
    fn ids_sort_by_the_time_of_their_making() {
        let clock = ManualClock::new(Timestamp::from_millis(1_000));
        let env = Env::deterministic(clock.clone(), 1);
        let mut ids: Vec<RunId> = Vec::new();
        for _ in 0..50 {
            ids.push(env.new_id());
            clock.advance(Duration::from_millis(1));
        }
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[tokio::test]
    async fn a_sleeper_wakes_when_the_clock_is_moved() {
        let clock = ManualClock::new(Timestamp::EPOCH);
        let env = Env::deterministic(clock.clone(), 1);
        let sleep = env.sleep(Duration::from_secs(5));
        clock.advance(Duration::from_secs(4));
        let mut sleep = std::pin::pin!(sleep);
        assert!(futures_util::poll!(&mut sleep).is_pending());
        clock.advance(Duration::from_secs(1));
        sleep.await;
    }

    #[tokio::test]
    async fn a_panic_in_a_task_is_told_to_who_joins_it() {
        let env = Env::deterministic(ManualClock::new(Timestamp::EPOCH), 1);
        let task = env.spawn("test", async { panic!("boom") });
        assert_eq!(task.join().await, Err(TaskPanicked("boom".to_owned())));
    }
}
