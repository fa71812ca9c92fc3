//! The ledger: one line for each request, committed in groups, waited for by nobody.
//!
//! Lines are written as JSON into a buffer at the end of each request. A task takes the buffer every
//! [`INTERVAL`](Ledger) and appends it to a log of the store as one entry, so that thousands of requests cost one commit.

use bytes::{Buf as _, Bytes};
use placet_core::env::Task;
use placet_core::{Env, Timestamp, Usage};
use placet_store::{Batch, Key, LogName, SharedStore, Tenant, Value};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long lines wait for others to join them.
const INTERVAL: Duration = Duration::from_millis(50);
/// How long to wait after the store failed.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most bytes of lines that wait: a store that is away for long costs lines, never memory.
const MOST_WAITING: usize = 16 << 20;
/// The most bytes of one entry: databases keep what they have read and written of late, and keep it in pieces.
const MOST_ENTRY: usize = 64 << 10;
/// The most bytes that are committed together.
const MOST_TOGETHER: usize = 4 << 20;
/// How much room is made for the first of several lines, in bytes.
const LEAST_ROOM: usize = 1 << 10;
const MOST_ROOM: usize = 1 << 20;
/// The format of an entry: lines of JSON.
const FORMAT: u16 = 1;

/// What one request was and came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerLine<'a> {
    /// When it began.
    pub at: Timestamp,
    /// Its id, as `x-placet-request-id` told it; of work behind clients' backs, that of its run.
    pub id: Cow<'a, str>,
    /// The name of the key that asked; empty where it is not known.
    pub key: Cow<'a, str>,
    /// The protocol it was asked in; `webhook` for a call of one, `later` for work behind clients' backs.
    pub protocol: Cow<'a, str>,
    /// The name of the model that the client asked for; empty where it was refused before that was read.
    pub model: Cow<'a, str>,
    /// The provider that answered last; empty where none was asked. Of an agent, that of its last turn.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub provider: Cow<'a, str>,
    /// The provider's name of the model.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub provider_model: Cow<'a, str>,
    /// The status that was answered.
    pub status: u16,
    /// How it ended: `whole`, `failed`, `cut`, `refused`, `cancelled`.
    pub outcome: Cow<'a, str>,
    /// Tokens, where the provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it cost in US dollars, where a price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<placet_core::Money>,
    /// Microseconds until the answer began.
    pub first_us: u64,
    /// Microseconds until it ended.
    pub whole_us: u64,
    /// Targets that were asked before the one that answered.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fallbacks: u32,
    /// The trace it belongs to.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub trace: Cow<'a, str>,
    /// Tools that were declared or asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Cow<'a, str>>,
    /// What went wrong, in the words of whoever failed, without credentials. Clients are told less.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub problem: Cow<'a, str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl LedgerLine<'_> {
    /// Appends it as JSON: what its `Serialize` writes, in a third of the time.
    fn write(&self, out: &mut Vec<u8>) {
        fn text(out: &mut Vec<u8>, name: &str, text: &str) {
            out.extend_from_slice(name.as_bytes());
            let is_plain = text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
            if is_plain {
                out.push(b'"');
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
            } else {
                put(out, "", text);
            }
        }
        /// What is written here are numbers and texts, which always succeeds.
        fn put(out: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) {
            out.extend_from_slice(name.as_bytes());
            let _ = serde_json::to_writer(out, value);
        }
        put(out, "{\"at\":", &self.at);
        text(out, ",\"id\":", &self.id);
        text(out, ",\"key\":", &self.key);
        text(out, ",\"protocol\":", &self.protocol);
        text(out, ",\"model\":", &self.model);
        if !self.provider.is_empty() {
            text(out, ",\"provider\":", &self.provider);
        }
        if !self.provider_model.is_empty() {
            text(out, ",\"provider_model\":", &self.provider_model);
        }
        put(out, ",\"status\":", &self.status);
        text(out, ",\"outcome\":", &self.outcome);
        if let Some(usage) = &self.usage {
            let always = [
                (",\"usage\":{\"input\":", usage.input),
                (",\"cache_read\":", usage.cache_read),
                (",\"cache_write\":", usage.cache_write),
                (",\"cache_write_long\":", usage.cache_write_long),
                (",\"output\":", usage.output),
                (",\"reasoning\":", usage.reasoning),
            ];
            let seldom = [
                (",\"input_audio\":", usage.input_audio),
                (",\"output_audio\":", usage.output_audio),
                (",\"searches\":", usage.searches),
            ];
            let seldom = seldom.into_iter().filter(|(_, count)| *count > 0);
            always.into_iter().chain(seldom).for_each(|(name, count)| put(out, name, &count));
            out.push(b'}');
        }
        if let Some(cost) = &self.cost {
            put(out, ",\"cost\":", cost);
        }
        put(out, ",\"first_us\":", &self.first_us);
        put(out, ",\"whole_us\":", &self.whole_us);
        if self.fallbacks > 0 {
            put(out, ",\"fallbacks\":", &self.fallbacks);
        }
        if !self.trace.is_empty() {
            text(out, ",\"trace\":", &self.trace);
        }
        if !self.tools.is_empty() {
            put(out, ",\"tools\":", &self.tools);
        }
        if !self.problem.is_empty() {
            text(out, ",\"problem\":", &self.problem);
        }
        out.push(b'}');
    }
}

/// Where lines are queued.
#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    waiting: Mutex<Vec<u8>>,
    /// How many bytes of lines came together last.
    room: AtomicUsize,
    /// Wakes the writer where the buffer was empty.
    filled: Notify,
    written: AtomicU64,
    dropped: AtomicU64,
    closing: AtomicBool,
}

impl Ledger {
    /// A ledger that is kept in `store`, and the task that writes it.
    #[must_use]
    pub fn open(store: SharedStore, tenant: &Tenant, env: &Env) -> (Self, Task) {
        let (ledger, writing) = Ledger::new(store, tenant, env);
        (ledger, env.spawn("ledger", writing))
    }

    /// As [`Ledger::open`], with what is to be done to write it.
    pub(crate) fn new(store: SharedStore, tenant: &Tenant, env: &Env) -> (Self, impl Future<Output = ()> + use<>) {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            room: AtomicUsize::new(0),
            filled: Notify::new(),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            closing: AtomicBool::new(false),
        });
        let log = log_name(tenant);
        let writer = write(shared.clone(), store, log, env.clone());
        (Ledger { shared }, writer)
    }

    /// Queues a line. Never waits for the store.
    pub fn record(&self, line: &LedgerLine<'_>) {
        let was_empty = {
            let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.len() > MOST_WAITING {
                self.shared.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            let before = waiting.len();
            if waiting.capacity() == 0 {
                waiting.reserve(self.shared.room.load(Ordering::Relaxed).clamp(LEAST_ROOM, MOST_ROOM));
            }
            line.write(&mut waiting);
            waiting.push(b'\n');
            before == 0
        };
        if was_empty {
            self.shared.filled.notify_one();
        }
    }

    /// Lines that are on disk.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// Lines that were lost because the store was away for too long.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Asks the writer to write what waits and end; await its task to learn that it has.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.filled.notify_one();
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("written", &self.written()).field("dropped", &self.dropped()).finish()
    }
}

fn log_name(tenant: &Tenant) -> LogName {
    LogName::new(Key::new(tenant).text("ledger"))
}

async fn write(shared: Arc<Shared>, store: SharedStore, log: LogName, env: Env) {
    loop {
        let is_closing = shared.closing.load(Ordering::Acquire);
        let mut rest = {
            let mut waiting = shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            // The next lines need about as much room; whoever writes the first of them takes it. What is not copied here is
            // freed as whole as it was taken, and leaves nothing behind in this thread.
            shared.room.store(waiting.len(), Ordering::Relaxed);
            Bytes::from(std::mem::take(&mut *waiting))
        };
        if rest.is_empty() {
            if is_closing {
                return;
            }
            shared.filled.notified().await;
            if !shared.closing.load(Ordering::Acquire) {
                env.sleep(INTERVAL).await;
            }
            continue;
        }
        while !rest.is_empty() {
            let (mut batch, mut length) = (Batch::new(), 0);
            while length < rest.len() && length < MOST_TOGETHER {
                let entry = rest.slice(length..length + group(&rest[length..]));
                length += entry.len();
                batch.append(&log, Value::new(FORMAT, entry));
            }
            let count = u64::try_from(memchr::memchr_iter(b'\n', &rest[..length]).count()).unwrap_or(0);
            // Repeating a batch whose answer was lost would write lines twice, and a line twice is worse than one lost.
            let counter = match store.commit(batch).await {
                Ok(_) => &shared.written,
                Err(placet_store::StoreError::Unknown { .. }) => &shared.dropped,
                Err(_) if is_closing => &shared.dropped,
                Err(_) => {
                    env.sleep(PATIENCE).await;
                    continue;
                }
            };
            counter.fetch_add(count, Ordering::Relaxed);
            rest.advance(length);
        }
        if !is_closing {
            env.sleep(INTERVAL).await;
        }
    }
}

/// How many bytes at the beginning are whole lines, as many as one entry takes.
fn group(lines: &[u8]) -> usize {
    if lines.len() <= MOST_ENTRY {
        return lines.len();
    }
    // A line that is longer than that stays whole.
    let end = memchr::memrchr(b'\n', &lines[..MOST_ENTRY]).or_else(|| memchr::memchr(b'\n', lines));
    end.map_or(lines.len(), |at| at + 1)
}

/// Reads the lines of entries after `after` (0 is the first), at most `entries` of them; gives the number of the last entry
/// read. Lines that cannot be read are left out.
///
/// # Errors
/// Whatever the store says.
pub async fn read_ledger(
    store: &SharedStore,
    tenant: &Tenant,
    after: u64,
    entries: usize,
) -> placet_store::Result<(u64, Vec<LedgerLine<'static>>)> {
    let found = store.log(&log_name(tenant), after, entries).await?;
    let last = found.last().map_or(after, |entry| entry.number);
    let mut lines = Vec::new();
    for entry in &found {
        let bytes = entry.value.known(FORMAT)?;
        lines.extend(
            bytes
                .split(|byte| *byte == b'\n')
                .filter_map(|line| serde_json::from_slice::<LedgerLine<'static>>(line).ok()),
        );
    }
    Ok((last, lines))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use placet_store::MemoryStore;

    pub(crate) fn line(id: &str) -> LedgerLine<'_> {
        LedgerLine {
            at: Timestamp::EPOCH,
            id: id.into(),
            key: "k".into(),
            protocol: "openai_chat".into(),
            model: "m\n\"".into(),
            provider: "".into(),
            provider_model: "".into(),
            status: 200,
            outcome: "whole".into(),
            usage: None,
            cost: None,
            first_us: 1,
            whole_us: 2,
            fallbacks: 0,
            trace: "".into(),
            tools: Vec::new(),
            problem: "".into(),
        }
    }

    #[test]
    fn lines_are_written_as_they_serialise() {
        let full = LedgerLine {
            at: Timestamp::from_micros(1_790_000_000_000_001),
            key: "k\u{e9}\t\u{7f}".into(),
            provider: "p".into(),
            provider_model: "\\m".into(),
            usage: Some(Usage { input: 3, output: 5, searches: 7, ..Usage::default() }),
            cost: Some(placet_core::Money::ZERO),
            fallbacks: 2,
            trace: "0af7".into(),
            tools: vec!["look \"up\"".into(), "sum".into()],
            problem: "no \"way\"".into(),
            ..line("req_1")
        };
        for line in [line("x"), full] {
            let mut written = Vec::new();
            line.write(&mut written);
            assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&line).unwrap());
        }
    }

    #[tokio::test]
    async fn lines_are_kept_in_order_and_in_groups() {
        let env = Env::system();
        let store: SharedStore = Arc::new(MemoryStore::new(env.clock().clone()));
        let tenant = Tenant::new("t");
        let (ledger, task) = Ledger::open(store.clone(), &tenant, &env);
        for index in 0..1000 {
            ledger.record(&line(&index.to_string()));
        }
        ledger.close();
        task.join().await.unwrap();
        assert_eq!((ledger.written(), ledger.dropped()), (1000, 0));
        let (last, lines) = read_ledger(&store, &tenant, 0, 100).await.unwrap();
        assert!((2..20).contains(&last), "{last} entries of at most 64 KiB");
        let ids: Vec<String> = lines.iter().map(|line| line.id.to_string()).collect();
        assert_eq!(ids, (0..1000).map(|index| index.to_string()).collect::<Vec<_>>());
        assert_eq!(lines[0].model, "m\n\"");
    }
}
