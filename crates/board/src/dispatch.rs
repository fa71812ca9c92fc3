//! Telling agents what changed. What they are owed stands in the store, a row for each write, written with it; a *round* reads
//! the rows of those who are not served yet, makes one notification for each of them out of all that is due, notes that the agent was
//! told, sends, and notes through which number it arrived. A row goes when all that it names are served. Whatever happens in
//! between, the rows are there and are sent again.

use crate::boards::{Delivery, Handle};
use crate::control::agents::{Progress, ROWS};
use crate::decision::Decision;
use crate::error::Result;
use crate::layout::{last_number, owed_row};
use crate::model::RegionKind;
use crate::notify::{DeliveryFailure, Listener, Notification, Transport};
use crate::snapshot::Snapshot;
use crate::stored::{self, Cursors, Owed, StoredAgent};
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
/// From how many rows on an agent that none of them names is not looked for among them again.
const MANY_ROWS: usize = 256;
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
    /// Rows of registrations that missed nothing.
    moot: Vec<Key>,
    /// Agents that nothing is owed to, on a board where much is owed to others: so that they are not looked for again.
    quiet: Vec<Key>,
}

/// A notification on its way, with what it answers.
struct Sending {
    notification: Notification,
    rows: Arc<Vec<Row>>,
    /// The row of its registration, and that it has not come back meanwhile.
    joined: Option<(Key, Condition)>,
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
        let joined = self.joined().await?;
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
            if let Some(registered) = joined.get(name).filter(|_| candidate.told == 0) {
                row = Some(self.layout().joined(name));
                if head > candidate.progress.cursors.acknowledged
                    && let (Some(due), regions) = self.holding(candidate.agent, &snapshot, *registered).await?
                {
                    found.add(due, regions);
                }
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
            let joined = row.map(|row| (row, snapshot.same_roster(self.layout())));
            let due = Due { agent: name, progress: candidate.progress, regions: found.regions };
            dues.push((due, candidate.carrier, joined));
        }
        let mut all = Vec::new();
        let mut dues = dues.into_iter();
        loop {
            let chunk: Vec<_> = dues.by_ref().take(AGENTS).collect();
            if chunk.is_empty() && aside.moot.is_empty() && aside.quiet.is_empty() {
                return Ok(all);
            }
            let (agents, carriers): (Vec<_>, Vec<_>) =
                chunk.into_iter().map(|(due, carrier, joined)| (due, (carrier, joined))).unzip();
            let noted = std::mem::take(&mut aside);
            let Some(notifications) = self.mark(&snapshot, head, agents, &noted).await? else { return Ok(all) };
            let mut book = self.state.dispatching.book();
            for ((carrier, joined), notification) in carriers.into_iter().zip(notifications) {
                let Some(notification) = notification else { continue };
                book.under_way.entry(notification.agent.clone()).or_default().push(head);
                all.push((carrier, Sending { notification, rows: rows.clone(), joined }));
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

    /// Notes that these agents are told through `head`, and gives what each is told: nothing where it has answered at this very
    /// moment. Gives nothing at all where the run is another.
    pub(crate) async fn mark(
        &self,
        snapshot: &Snapshot,
        head: u64,
        mut agents: Vec<Due<'_>>,
        aside: &Aside,
    ) -> Result<Option<Vec<Option<Notification>>>> {
        let layout = self.layout();
        for _ in 0..MARKS {
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(layout));
            // An agent that came back has such a row anew.
            if !aside.moot.is_empty() {
                batch.require(snapshot.same_roster(layout));
            }
            for row in aside.moot.iter().take(ROWS) {
                batch.delete_cell(row.clone());
            }
            for agent in aside.quiet.iter().take(AGENTS) {
                batch.put(agent.clone(), stored::sent(head));
            }
            let mut notifications = Vec::with_capacity(agents.len());
            let mut tells = false;
            for due in &agents {
                let cursors = due.progress.cursors;
                if cursors.acknowledged >= head {
                    notifications.push(None);
                    continue;
                }
                let notification = Notification {
                    board_id: self.state.id.clone(),
                    notification_id: head,
                    agent: due.agent.to_owned(),
                    from_sequence: cursors.acknowledged + 1,
                    to_sequence: head,
                    regions: due.regions.clone(),
                };
                let key = layout.agent(due.agent);
                batch.require(Condition::version(key.clone(), due.progress.version));
                batch.put(key, Cursors { notified: cursors.notified.max(head), ..cursors }.value());
                let decision = Decision::NotificationDispatched {
                    agent: notification.agent.clone(),
                    from_sequence: notification.from_sequence,
                    to_sequence: head,
                    regions: notification.regions.clone(),
                };
                self.decide(&mut batch, decision.value()?);
                tells = true;
                notifications.push(Some(notification));
            }
            if tells {
                self.push_idle(&mut batch, snapshot);
            }
            match self.store().commit(batch).await {
                Ok(committed) => {
                    self.decided(&committed);
                    return Ok(Some(notifications));
                }
                Err(StoreError::Condition { index, .. }) => {
                    // Whoever looks next finds out what is owed then.
                    if index == 0 || (index == 1 && !aside.moot.is_empty()) {
                        self.fresh().await?;
                        return Ok(None);
                    }
                    let progress = self.progress().await?;
                    for due in &mut agents {
                        due.progress = progress.get(due.agent).copied().unwrap_or_default();
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.busy())
    }

    /// Notes what has arrived and what has not, and removes the rows of which everybody is served.
    async fn settle(&self, sent: Vec<Sent>, round: &mut Round) -> Result<()> {
        if sent.is_empty() {
            return Ok(());
        }
        let layout = self.layout();
        let snapshot = self.snapshot().await?;
        let (mut told, mut joined, mut rows) = (BTreeMap::new(), Vec::new(), None);
        let mut batch = Batch::new();
        batch.require(snapshot.same_run(layout));
        for (sending, result) in sent {
            let Notification { agent, to_sequence, .. } = sending.notification;
            if let Some(wait) = self.arrived(&agent, to_sequence, result.as_ref().err()) {
                round.again_in(wait);
            }
            match result {
                Ok(()) => {
                    joined.extend(sending.joined);
                    rows = Some(sending.rows);
                    round.told.insert(agent.clone());
                    told.insert(agent, to_sequence);
                }
                Err(failure) => {
                    tracing::warn!(board = %self.state.id, %agent, %failure, "a notification did not arrive");
                    round.failed.insert(agent.clone());
                    let failed = Decision::NotificationFailed { agent, to_sequence, cause: failure.cause };
                    self.decide(&mut batch, failed.value()?);
                }
            }
        }
        let mut served = Vec::new();
        if let Some(rows) = &rows {
            let progress = self.progress().await?;
            for (agent, through) in &told {
                let before = progress.get(agent).map_or(0, |progress| progress.sent);
                batch.put(layout.sent(agent), stored::sent(before.max(*through)));
            }
            let through = |agent: &str| {
                let before = progress.get(agent).map_or(0, Progress::served);
                told.get(agent).map_or(before, |through| before.max(*through))
            };
            served.extend(rows.iter().filter(|row| row.is_served(through)).map(|row| &row.key));
        }
        let mut served = served.into_iter();
        loop {
            for row in served.by_ref().take(ROWS) {
                batch.delete_cell(row.clone());
            }
            if batch.is_empty() {
                break;
            }
            match self.store().commit(std::mem::take(&mut batch)).await {
                Ok(committed) => self.decided(&committed),
                // The run has closed, and all this is gone.
                Err(StoreError::Condition { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        for chunk in joined.chunks(ROWS) {
            for (row, same_roster) in chunk {
                batch.require(same_roster.clone()).delete_cell(row.clone());
            }
            match self.store().commit(std::mem::take(&mut batch)).await {
                Ok(_) => {}
                // Somebody came back, maybe this one: it is told once more than it had to be.
                Err(StoreError::Condition { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Notes how it went; gives how long an agent that was not reached is left alone.
    fn arrived(&self, agent: &str, through: u64, failure: Option<&DeliveryFailure>) -> Option<Duration> {
        let now = self.inner.env.clock().steady();
        let mut book = self.state.dispatching.book();
        if let Some(under_way) = book.under_way.get_mut(agent) {
            if let Some(at) = under_way.iter().position(|number| *number == through) {
                under_way.swap_remove(at);
            }
            if under_way.is_empty() {
                book.under_way.remove(agent);
            }
        }
        match failure {
            None => {
                book.failed.remove(agent);
                None
            }
            Some(failure) => {
                let wait = match book.failed.get(agent) {
                    _ if failure.is_refusal => LONGEST_WAIT,
                    None => FIRST_WAIT,
                    Some(failed) => (failed.wait * 2).min(LONGEST_WAIT),
                };
                book.failed.insert(agent.to_owned(), Failed { wait, until: now.saturating_add(wait) });
                Some(wait)
            }
        }
    }
}

/// What an agent is owed.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// When the first of it is due; nothing where it is owed nothing.
    pub(crate) due: Option<Timestamp>,
    /// The regions that changed.
    pub(crate) regions: BTreeSet<String>,
    pub(crate) progress: Progress,
}

impl Found {
    fn add(&mut self, due: Timestamp, regions: impl IntoIterator<Item = String>) {
        self.due = Some(self.due.map_or(due, |first| first.min(due)));
        self.regions.extend(regions);
    }
}

impl Handle {
    /// The rows of writes above `after` and up to `head`.
    async fn rows(&self, after: u64, head: u64, limit: usize) -> Result<Vec<Row>> {
        let owed = &self.layout().owed;
        // Rows of registrations come after those of writes.
        let last = owed.clone().u64(head);
        let mut found = Vec::new();
        let mut beyond = Some(owed.clone().u64(after));
        loop {
            let cells = self.store().cells(owed, beyond.as_ref(), Direction::Forward, ROWS).await?;
            let is_last = cells.len() < ROWS;
            beyond = cells.last().map(|cell| cell.key.clone());
            for cell in cells {
                if cell.key > last || found.len() >= limit {
                    return Ok(found);
                }
                let number = last_number(&cell.key).unwrap_or(0);
                found.push(Row { number, owed: Owed::read(&cell.value)?, key: cell.key });
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    /// The agents that are owed a word of all that they subscribe to, and since when.
    async fn joined(&self) -> Result<BTreeMap<String, Timestamp>> {
        let owed = &self.layout().owed;
        let mut found = BTreeMap::new();
        let mut beyond = Some(owed.clone().u64(u64::MAX));
        loop {
            let cells = self.store().cells(owed, beyond.as_ref(), Direction::Forward, ROWS).await?;
            for cell in &cells {
                if let Some((_, _, Some(agent))) = owed_row(&cell.key) {
                    found.insert(agent, cell.value.leading_instant().unwrap_or(Timestamp::EPOCH));
                }
            }
            if cells.len() < ROWS {
                return Ok(found);
            }
            beyond = cells.last().map(|cell| cell.key.clone());
        }
    }

    /// Removes the first rows of which everybody is served; looks at so many.
    pub(crate) async fn collect(&self, limit: usize) -> Result<()> {
        let rows = self.rows(0, u64::MAX, limit).await?;
        if rows.is_empty() {
            return Ok(());
        }
        let progress = self.progress().await?;
        let through = |agent: &str| progress.get(agent).map_or(0, Progress::served);
        let served: Vec<_> = rows.iter().filter(|row| row.is_served(through)).collect();
        for rows in served.chunks(ROWS) {
            let mut batch = Batch::new();
            for row in rows {
                batch.delete_cell(row.key.clone());
            }
            self.store().commit(batch).await?;
        }
        Ok(())
    }

    /// Who is owed a word that nobody has sent, and of which number; 0 for that of a registration.
    pub(crate) async fn unsent(&self) -> Result<Vec<(String, u64)>> {
        let progress = self.progress().await?;
        let mut found: Vec<_> = self.joined().await?.into_keys().map(|agent| (agent, 0)).collect();
        for row in self.rows(0, u64::MAX, usize::MAX).await? {
            for agent in row.owed.hearers {
                if progress.get(&agent).map_or(0, Progress::served) < row.number {
                    found.push((agent, row.number));
                }
            }
        }
        Ok(found)
    }

    /// What an agent is owed of the numbers above `told` and up to `head`.
    pub(crate) async fn owed(&self, agent: &StoredAgent, snapshot: &Snapshot, told: u64, head: u64) -> Result<Found> {
        let progress = self.progress().await?.get(&*agent.name).copied().unwrap_or_default();
        let mut found = Found { progress, ..Found::default() };
        for row in self.rows(told.max(progress.served()), head, usize::MAX).await? {
            if row.owed.hearers.iter().any(|hearer| *hearer == *agent.name) {
                found.add(row.owed.due, [row.owed.region]);
            }
        }
        if told == 0
            && head > progress.cursors.acknowledged
            && let Some(registered) = self.joined().await?.get(&*agent.name)
            && let (Some(due), regions) = self.holding(agent, snapshot, *registered).await?
        {
            found.add(due, regions);
        }
        Ok(found)
    }

    /// The regions that an agent subscribes to and that hold something: when the first of it is due, and which. A level is due
    /// at once, a premise when its window has passed since the registration.
    pub(crate) async fn holding(
        &self,
        agent: &StoredAgent,
        snapshot: &Snapshot,
        registered: Timestamp,
    ) -> Result<(Option<Timestamp>, Vec<String>)> {
        let (mut due, mut regions): (Option<Timestamp>, _) = (None, Vec::new());
        for (name, known) in &snapshot.regions {
            if !agent.hears(name, known.kind) {
                continue;
            }
            let (holds, at) = match known.kind {
                RegionKind::Level => {
                    let first = self.store().cells(&known.key, None, Direction::Forward, 1).await?;
                    (!first.is_empty(), registered)
                }
                RegionKind::Premise => (self.store().cell(&known.key).await?.is_some(), registered.plus(known.window)),
            };
            if holds {
                due = Some(due.map_or(at, |first| first.min(at)));
                regions.push(name.to_string());
            }
        }
        Ok((due, regions))
    }
}
