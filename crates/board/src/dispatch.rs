//! Telling agents what changed. What they are owed stands in the store, a row for each write, written with it; a *round* reads
//! the rows of those who are not served yet, makes one notification for each of them out of all that is due, notes that the agent was
//! told, sends, and notes through which number it arrived. A row goes when all that it names are served; where many stay, because
//! somebody cannot be reached, they are merged into one for each agent. Whatever happens in between, the rows are there and
//! are sent again.

mod marks;
mod owed;

use owed::Found;

use crate::boards::{Delivery, Handle};
use crate::control::agents::{Progress, ROWS};
use crate::decision::Decision;
use crate::error::Result;
use crate::layout::{last_number, owed_row};
use crate::model::RegionKind;
use crate::notify::{DeliveryFailure, Listener, Notification, Transport};
use crate::snapshot::Snapshot;
use crate::stored::{self, Cursors, Merged, Owed, StoredAgent};
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use futures_util::{FutureExt as _, poll};
use placet_core::{BoxFuture, Timestamp};
use placet_store::{Batch, Condition, Direction, Key, StoreError};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Notify;

/// How many agents one commit marks as told.
const AGENTS: usize = 100;
/// How often marking those that are told is tried against acknowledgements that come at the same time.
const MARKS: usize = 32;
/// How many rows one round looks at; the next goes on.
const MOST_ROWS: usize = 50_000;
/// From how many rows on they are merged, and an agent that none of them names is not looked for among them again.
const MANY_ROWS: usize = 256;
/// How many times so many rows are merged at once.
const CONDENSED: usize = 64;
/// How long a board whose writes come faster than they are told of is left alone between two rounds, so that one word covers many.
const PACE: Duration = Duration::from_millis(1);
/// How long the first round waits for slow recipients before it goes on without them.
const PROMPT: Duration = Duration::from_millis(20);
/// The first and the longest wait after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

tokio::task_local! {
    /// The boards that a task which is telling somebody has yet to tell of: whoever is told may write.
    static TELLING: RefCell<VecDeque<Handle>>;
}

/// What this process is doing about one board.
#[derive(Default)]
pub(crate) struct Dispatching {
    /// Held while rows become notifications, so that no two rounds take the same.
    taking: tokio::sync::Mutex<()>,
    book: Mutex<Book>,
    woken: Notify,
}

#[derive(Default)]
struct Book {
    /// Through which numbers agents are being told at this moment.
    under_way: HashMap<String, Vec<u64>>,
    /// Agents that could not be reached.
    failed: HashMap<String, Failed>,
    /// Whether a task in the background looks after the board, and whether it was asked to look again.
    is_attended: bool,
    again: bool,
}

#[derive(Clone, Copy)]
struct Failed {
    wait: Duration,
    /// On the steady clock.
    until: Duration,
}

impl Dispatching {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent came back: it may be reachable again, and what its former self is being told is not told to it.
    pub(crate) fn forget(&self, agent: &str) {
        let mut book = self.book();
        book.failed.remove(agent);
        book.under_way.remove(agent);
    }
}

/// What a round looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// Only agents that listen in this process.
    pub(crate) only_listeners: bool,
    /// Also what others than listeners of this process are owed only later.
    pub(crate) early: bool,
    /// Also agents that could not be reached a moment ago.
    pub(crate) insists: bool,
    /// Waits for every recipient.
    pub(crate) waits: bool,
    /// Leaves to others, for that long, what they may be sending at this moment.
    pub(crate) grace: Duration,
}

impl Scope {
    pub(crate) const INLINE: Scope =
        Scope { only_listeners: false, early: false, insists: true, waits: true, grace: Duration::ZERO };
    pub(crate) const BACKGROUND: Scope = Scope { insists: false, waits: false, ..Scope::INLINE };
    pub(crate) const RELAY: Scope = Scope { early: true, ..Scope::INLINE };
    pub(crate) const LISTENERS: Scope = Scope { only_listeners: true, ..Scope::INLINE };
}

/// What a round came to.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Who was told.
    pub(crate) told: BTreeSet<String>,
    /// Who was not.
    pub(crate) failed: BTreeSet<String>,
    /// How long until more is due, on the store's clock.
    pub(crate) next: Option<Duration>,
}

impl Round {
    fn again_in(&mut self, wait: Duration) {
        self.next = Some(self.next.map_or(wait, |next| next.min(wait)));
    }
}

#[derive(Clone)]
enum Carrier {
    Listener(Arc<dyn Listener>),
    Address(Arc<dyn Transport>, String),
}

impl Carrier {
    async fn carry(self, notification: Notification) -> Result<(), DeliveryFailure> {
        let carried = AssertUnwindSafe(async move {
            match self {
                Carrier::Listener(listener) => listener.notified(notification).await,
                Carrier::Address(transport, address) => transport.reach(&address, &notification).await,
            }
        });
        carried.catch_unwind().await.unwrap_or_else(|_| Err(DeliveryFailure::new("whoever was to take it panicked")))
    }
}

/// The row of a write that owes a word.
pub(crate) struct Row {
    key: Key,
    number: u64,
    owed: Owed,
}

impl Row {
    /// Whether everybody that it names is served.
    fn is_served(&self, served: impl Fn(&str) -> u64) -> bool {
        self.owed.hearers.iter().all(|agent| served(agent) >= self.number)
    }
}

/// An agent that can be told.
struct Candidate<'s> {
    agent: &'s StoredAgent,
    carrier: Carrier,
    is_listener: bool,
    /// Through which number it is being told already.
    told: u64,
    progress: Progress,
}

impl Candidate<'_> {
    fn floor(&self) -> u64 {
        self.told.max(self.progress.served())
    }
}

/// An agent to be told, and of what.
pub(crate) struct Due<'s> {
    pub(crate) agent: &'s str,
    pub(crate) progress: Progress,
    pub(crate) regions: BTreeSet<String>,
}

/// What is noted without anybody being told.
#[derive(Default)]
pub(crate) struct Aside {
    /// Rows of agents that are owed nothing, as they were.
    moot: Vec<(Key, Condition)>,
    /// Agents that nothing is owed to, on a board where much is owed to others: so that they are not looked for again.
    quiet: Vec<Key>,
}

/// A notification on its way, with what it answers.
struct Sending {
    notification: Notification,
    rows: Arc<Vec<Row>>,
    /// The row of its own, as it was.
    merged: Option<(Key, Condition)>,
}

type Sent = (Sending, Result<(), DeliveryFailure>);

impl Handle {
    /// Sees to it that whoever hears of a change is told: now, or in the background.
    pub(crate) async fn tell(&self, snapshot: &Snapshot) {
        if snapshot.roster.agents.iter().all(|agent| self.carrier(agent).is_none()) {
            return;
        }
        match self.inner.options.delivery {
            Delivery::Background => self.wake(),
            Delivery::Inline => {
                // Whoever was told and writes is told of that by the same loop, not by one inside the other.
                if TELLING.try_with(|queue| queue.borrow_mut().push_back(self.clone())).is_ok() {
                    return;
                }
                let drain = async {
                    while let Some(next) = TELLING.with(|queue| queue.borrow_mut().pop_front()) {
                        next.settle_now().await;
                    }
                };
                let queue = RefCell::new(VecDeque::from([self.clone()]));
                // Boxed: a recipient's own future may contain this one.
                let telling: BoxFuture<'_, ()> = Box::pin(TELLING.scope(queue, drain));
                telling.await;
            }
        }
    }

    async fn settle_now(&self) {
        if let Err(error) = self.round(Scope::INLINE).await {
            tracing::warn!(board = %self.state.id, %error, "agents could not be told; what they are owed stays");
        }
    }

    fn carrier(&self, agent: &StoredAgent) -> Option<Carrier> {
        if let Some(listener) = self.state.local().listeners.get(&*agent.name) {
            return Some(Carrier::Listener(listener.clone()));
        }
        match (&agent.address, &self.inner.options.transport) {
            (Some(address), Some(transport)) => Some(Carrier::Address(transport.clone(), address.clone())),
            _ => None,
        }
    }

    /// Starts the task that looks after the board, or has it look again.
    pub(crate) fn wake(&self) {
        let dispatching = &self.state.dispatching;
        {
            let mut book = dispatching.book();
            book.again = true;
            if book.is_attended {
                drop(book);
                dispatching.woken.notify_one();
                return;
            }
            book.is_attended = true;
        }
        let handle = self.clone();
        self.inner.env.spawn("board notifications", async move { handle.attend().await });
    }

    /// Tells until nothing is due, waits for what is due later, and ends when there is nothing.
    async fn attend(&self) {
        let dispatching = &self.state.dispatching;
        let mut failures: u32 = 0;
        loop {
            dispatching.book().again = false;
            let next = match self.round(Scope::BACKGROUND).await {
                Ok(round) => {
                    failures = 0;
                    round.next
                }
                Err(error) => {
                    tracing::warn!(board = %self.state.id, %error, "agents could not be told; what they are owed stays");
                    failures += 1;
                    // The store is away: the sweep finds what is owed when it is back.
                    (failures < 8).then(|| FIRST_WAIT * (1 << failures))
                }
            };
            let again = {
                let mut book = dispatching.book();
                if !book.again && next.is_none() {
                    book.is_attended = false;
                    return;
                }
                book.again
            };
            if again {
                self.inner.env.sleep(PACE).await;
                continue;
            }
            if let Some(next) = next {
                let woken = pin!(dispatching.woken.notified());
                match select(woken, self.inner.env.sleep(next)).await {
                    Either::Left(_) | Either::Right(_) => {}
                }
            }
        }
    }

    /// One round.
    pub(crate) async fn round(&self, scope: Scope) -> Result<Round> {
        let mut round = Round::default();
        let sending = {
            let _taking = self.state.dispatching.taking.lock().await;
            self.take(scope, &mut round).await?
        };
        let mut settled = Vec::new();
        let mut sends = FuturesUnordered::new();
        for (carrier, sending) in sending {
            let carried = carrier.carry(sending.notification.clone());
            // On its own, so that one that is waited for no longer goes on.
            sends.push(carried.map(move |result| (sending, result)).boxed());
        }
        if scope.waits {
            while let Some(sent) = sends.next().await {
                settled.push(sent);
            }
        } else {
            let prompt = pin!(self.inner.env.sleep(PROMPT));
            let mut prompt = Some(prompt);
            while let Some(patience) = prompt.take() {
                match select(sends.next(), patience).await {
                    Either::Left((Some(sent), patience)) => {
                        settled.push(sent);
                        prompt = Some(patience);
                    }
                    Either::Left((None, _)) | Either::Right(_) => {}
                }
            }
            while let Poll::Ready(Some(sent)) = poll!(sends.next()) {
                settled.push(sent);
            }
        }
        for send in sends {
            let handle = self.clone();
            self.inner.env.spawn("board notification", async move {
                let sent = send.await;
                handle.settle_and_look(vec![sent]).await;
            });
        }
        self.settle(settled, &mut round).await?;
        Ok(round)
    }

    async fn settle_and_look(&self, sent: Vec<Sent>) {
        if let Err(error) = self.settle(sent, &mut Round::default()).await {
            tracing::warn!(board = %self.state.id, %error, "a delivered notification could not be settled; it is sent again");
        }
        self.wake();
    }

    /// Makes notifications of what is due, and notes that their agents are told.
    async fn take(&self, scope: Scope, round: &mut Round) -> Result<Vec<(Carrier, Sending)>> {
        let snapshot = self.snapshot().await?;
        if !snapshot.is_open() {
            return Ok(Vec::new());
        }
        let mut candidates = self.candidates(&snapshot, scope, round);
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        // The head first: every row up to it is there to be read.
        let mut head = self.store().log_head(&self.layout().log).await?.number;
        let now = self.store().now().await?;
        let progress = self.progress().await?;
        for candidate in &mut candidates {
            candidate.progress = progress.get(&*candidate.agent.name).copied().unwrap_or_default();
        }
        let merged = self.merged().await?;
        // What was merged after the head was looked at is told as well, or it would be settled untold.
        let known = merged.values().map(|(merged, _)| merged.through).filter(|through| *through != Merged::OPEN);
        head = known.fold(head, u64::max);
        let from = candidates.iter().map(Candidate::floor).min().unwrap_or(0);
        let rows = Arc::new(self.rows(from, head, MOST_ROWS).await?);
        if let Some(last) = rows.last().filter(|_| rows.len() >= MOST_ROWS) {
            head = last.number;
        }
        let (mut dues, mut aside) = (Vec::new(), Aside::default());
        for candidate in candidates {
            let name = &*candidate.agent.name;
            let mut found = Found::default();
            let floor = candidate.floor();
            let own = rows.iter().filter(|row| row.number > floor && row.owed.hearers.iter().any(|h| h == name));
            own.for_each(|row| found.add(row.owed.due, [row.owed.region.clone()]));
            let mut row = None;
            if let Some((merged, as_it_was)) = merged.get(name)
                && (candidate.told == 0 || merged.through.min(head) > candidate.told)
            {
                row = Some((self.layout().merged(name), as_it_was.clone()));
                self.add_merged(&mut found, candidate.agent, &snapshot, merged, head, candidate.progress).await?;
            }
            let Some(mut first) = found.due else {
                // Answered already, or nothing holds anything: nothing is owed.
                aside.moot.extend(row);
                if rows.len() >= MANY_ROWS && candidate.told == 0 {
                    aside.quiet.push(self.layout().sent(name));
                }
                continue;
            };
            if !candidate.is_listener {
                // Only this process can tell those that listen in it.
                first = first.plus(scope.grace);
            }
            if first > now && (candidate.is_listener || !scope.early) {
                round.again_in(first.since(now));
                continue;
            }
            let due = Due { agent: name, progress: candidate.progress, regions: found.regions };
            dues.push((due, candidate.carrier, row));
        }
        let mut all = Vec::new();
        let mut dues = dues.into_iter();
        loop {
            let chunk: Vec<_> = dues.by_ref().take(AGENTS).collect();
            if chunk.is_empty() && aside.moot.is_empty() && aside.quiet.is_empty() {
                return Ok(all);
            }
            let (agents, carriers): (Vec<_>, Vec<_>) =
                chunk.into_iter().map(|(due, carrier, merged)| (due, (carrier, merged))).unzip();
            let noted = std::mem::take(&mut aside);
            let Some(notifications) = self.mark(&snapshot, head, agents, &noted).await? else { return Ok(all) };
            let mut book = self.state.dispatching.book();
            for ((carrier, merged), notification) in carriers.into_iter().zip(notifications) {
                let Some(notification) = notification else { continue };
                book.under_way.entry(notification.agent.clone()).or_default().push(head);
                all.push((carrier, Sending { notification, rows: rows.clone(), merged }));
            }
        }
    }

    /// The agents that can be told from here and now.
    fn candidates<'s>(&self, snapshot: &'s Snapshot, scope: Scope, round: &mut Round) -> Vec<Candidate<'s>> {
        let mut candidates = Vec::new();
        for agent in &snapshot.roster.agents {
            let Some(carrier) = self.carrier(agent) else { continue };
            let is_listener = matches!(carrier, Carrier::Listener(_));
            if scope.only_listeners && !is_listener {
                continue;
            }
            let Some(told) = self.told(&agent.name, scope, round) else { continue };
            candidates.push(Candidate { agent, carrier, is_listener, told, progress: Progress::default() });
        }
        candidates
    }

    /// Through which number the agent is being told already; nothing where it is not to be told now.
    fn told(&self, agent: &str, scope: Scope, round: &mut Round) -> Option<u64> {
        let book = self.state.dispatching.book();
        let told = book.under_way.get(agent).and_then(|through| through.iter().max().copied());
        if !scope.insists {
            let now = self.inner.env.clock().steady();
            if let Some(failed) = book.failed.get(agent)
                && failed.until > now
            {
                let wait = failed.until - now;
                round.again_in(wait);
                return None;
            }
            if told.is_some() {
                // Its end wakes the next round.
                return None;
            }
        }
        Some(told.unwrap_or(0))
    }
}
