//! News of growth between processes: told after a commit, never inside it, since a notification inside a transaction makes
//! all commits of the database wait for each other.

use super::Shared;
use super::group::lock_of_log;
use super::link::{PATIENCE, open_raw, told};
use super::read::Ask;
use crate::error::Result;
use crate::key::LogName;
use futures_util::future::{Either, pending, poll_fn, select};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_postgres::AsyncMessage;

/// The most logs of one notification, whose text may have 8,000 bytes. More are told as "some of all".
const MAX_LOGS: usize = 400;

const ALL: &str = "*";

/// How long one notification waits behind another: a store that grows without pause tells of it a hundred times a second.
const PACE: Duration = Duration::from_millis(10);

/// What this process has to tell.
#[derive(Debug)]
pub(super) struct News {
    /// Tells our own news apart when they come back.
    teller: u64,
    grown: Mutex<BTreeSet<i64>>,
    waiting: Notify,
}

impl News {
    pub(super) fn new(teller: u64) -> Self {
        News { teller, grown: Mutex::default(), waiting: Notify::new() }
    }

    fn take(&self) -> Option<String> {
        let grown = std::mem::take(&mut *self.grown.lock().unwrap_or_else(PoisonError::into_inner));
        if grown.is_empty() {
            return None;
        }
        let mut text = format!("{:016x}", self.teller);
        if grown.len() > MAX_LOGS {
            text.push(' ');
            text.push_str(ALL);
            return Some(text);
        }
        for log in grown {
            text.push_str(&format!(" {log:016x}"));
        }
        Some(text)
    }
}

impl Shared {
    /// Wakes who waits in this process, and has the others told.
    pub(super) fn grown<'a>(&self, logs: impl Iterator<Item = &'a LogName>) {
        let logs: BTreeSet<&LogName> = logs.collect();
        if logs.is_empty() {
            return;
        }
        self.growth.announce(logs.iter().copied());
        let names = logs.iter().map(|log| lock_of_log(self.schema.name(), log));
        self.news.grown.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
        self.news.waiting.notify_one();
    }

    /// Wakes who waits in this process for what another one tells of.
    fn heard(&self, text: &str) {
        let mut words = text.split(' ');
        if words.next() == Some(&format!("{:016x}", self.news.teller)) {
            return;
        }
        let logs: BTreeSet<&str> = words.collect();
        let all = logs.contains(ALL);
        self.growth.announce_those(|log| {
            all || logs.contains(format!("{:016x}", lock_of_log(self.schema.name(), log)).as_str())
        });
    }
}

/// Tells the other processes what has grown, in one notification whatever has come together meanwhile.
pub(super) async fn tell(shared: Arc<Shared>) {
    let channel = shared.schema.channel();
    loop {
        shared.news.waiting.notified().await;
        let Some(text) = shared.news.take() else { continue };
        // Who is not told finds out by looking.
        if let Err(error) = shared.ask(Ask::Notify, &[&channel, &text]).await {
            tracing::debug!(%error, "other processes were not told of growth");
        }
        shared.env.sleep(PACE).await;
    }
}

/// Listens to the other processes, for as long as the store is held.
pub(super) async fn listen(shared: Arc<Shared>) {
    let mut failures = 0;
    loop {
        match hear(&shared).await {
            Ok(()) => failures = 0,
            Err(error) => {
                tracing::debug!(%error, "news of growth are not heard for a moment");
                failures += 1;
            }
        }
        let wait = PATIENCE.get(failures).copied().unwrap_or(Duration::from_secs(5));
        shared.env.sleep(wait).await;
    }
}

/// Listens until the connection ends.
async fn hear(shared: &Shared) -> Result<()> {
    let (client, mut connection) = open_raw(shared, "listen").await?;
    let heard = poll_fn(|context| {
        loop {
            match std::task::ready!(connection.poll_message(context)) {
                Some(Ok(AsyncMessage::Notification(news))) => shared.heard(news.payload()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return std::task::Poll::Ready(Some(error)),
                None => return std::task::Poll::Ready(None),
            }
        }
    });
    let asked = async {
        if let Err(error) = client.batch_execute(&format!("LISTEN {}", shared.schema.channel())).await {
            return Some(error);
        }
        // What grew before is not told again.
        shared.growth.announce_those(|_| true);
        pending().await
    };
    let (Either::Left((ended, _)) | Either::Right((ended, _))) = select(pin!(heard), pin!(asked)).await;
    if let Some(error) = ended {
        tracing::debug!(error = %told(&error), "the connection that listens to news of growth ended");
    }
    Ok(())
}
