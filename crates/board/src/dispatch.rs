//! Telling agents what changed. What they are owed stands in the store, row by row, written with what changed; a *round* reads the
//! rows that are due, makes one notification for each agent out of all of them, notes that the agent was told, sends, and
//! settles the rows once that has arrived. Whatever happens in between, the rows are there and are sent again.

use crate::boards::{Delivery, Handle};
use crate::control::agents::ROWS;
use crate::decision::Decision;
use crate::error::Result;
use crate::layout::last_number;
use crate::model::RegionKind;
use crate::notify::{DeliveryFailure, Listener, Notification, Transport};
use crate::snapshot::Snapshot;
use crate::stored::{Cursors, Owed, StoredAgent};
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

/// What a round has found.
struct Taken {
    due: Vec<Due>,
    /// Rows of what is owed no longer.
    moot: Vec<Key>,
    head: u64,
    now: Timestamp,
}

/// What an agent is owed, as a round finds it.
struct Due {
    agent: Arc<str>,
    carrier: Carrier,
    regions: BTreeSet<String>,
    rows: Vec<Key>,
}

/// A notification on its way, with the rows that it answers.
struct Sending {
    notification: Notification,
    rows: Vec<Key>,
    /// That the agent has not come back meanwhile.
    same_roster: Condition,
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
            {
                let mut book = dispatching.book();
                if book.again {
                    continue;
                }
                if next.is_none() {
                    book.is_attended = false;
                    return;
                }
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
        // The head first: every row up to it is there to be read.
        let head = self.store().log_head(&self.layout().log).await?.number;
        let now = self.store().now().await?;
        let mut taken = Taken { due: Vec::new(), moot: Vec::new(), head, now };
        for agent in &snapshot.roster.agents {
            self.look_at(agent, &snapshot, scope, round, &mut taken).await?;
        }
        let mut moot = taken.moot.into_iter();
        let mut due = taken.due.into_iter();
        let mut all = Vec::new();
        loop {
            let moot: Vec<_> = moot.by_ref().take(ROWS).collect();
            let due: Vec<_> = due.by_ref().take(AGENTS).collect();
            if moot.is_empty() && due.is_empty() {
                return Ok(all);
            }
            let agents: Vec<_> = due.iter().map(|due| (&*due.agent, &due.regions)).collect();
            let Some(notifications) = self.mark(&snapshot, head, &agents, &moot).await? else { return Ok(all) };
            let mut book = self.state.dispatching.book();
            for (due, notification) in due.into_iter().zip(notifications) {
                let Some(notification) = notification else { continue };
                book.under_way.entry(notification.agent.clone()).or_default().push(head);
                let same_roster = snapshot.same_roster(self.layout());
                all.push((due.carrier, Sending { notification, rows: due.rows, same_roster }));
            }
        }
    }

    /// What one agent is owed and can be told now.
    async fn look_at(
        &self,
        agent: &StoredAgent,
        snapshot: &Snapshot,
        scope: Scope,
        round: &mut Round,
        taken: &mut Taken,
    ) -> Result<()> {
        let Some(carrier) = self.carrier(agent) else { return Ok(()) };
        let is_listener = matches!(carrier, Carrier::Listener(_));
        if scope.only_listeners && !is_listener {
            return Ok(());
        }
        let Some(told) = self.told(&agent.name, scope, round) else { return Ok(()) };
        let found = self.owed(agent, snapshot, told, taken.head).await?;
        let Some(mut first) = found.due else {
            // Answered already, or nothing holds anything: nothing is owed.
            taken.moot.extend(found.rows);
            return Ok(());
        };
        if !is_listener {
            // Only this process can tell those that listen in it.
            first = first.plus(scope.grace);
        }
        if first > taken.now && (is_listener || !scope.early) {
            round.again_in(first.since(taken.now));
            return Ok(());
        }
        taken.due.push(Due { agent: agent.name.clone(), carrier, regions: found.regions, rows: found.rows });
        Ok(())
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
        agents: &[(&str, &BTreeSet<String>)],
        moot: &[Key],
    ) -> Result<Option<Vec<Option<Notification>>>> {
        let layout = self.layout();
        for _ in 0..MARKS {
            let mut batch = Batch::new();
            batch.require(snapshot.same_run(layout));
            for row in moot {
                batch.delete_cell(row.clone());
            }
            let mut notifications = Vec::with_capacity(agents.len());
            let mut tells = false;
            for (agent, regions) in agents {
                let key = layout.agent(agent);
                let cell = self.store().cell(&key).await?;
                let (version, cursors) = match &cell {
                    Some(cell) => (cell.version, Cursors::read(&cell.value)?),
                    None => (0, Cursors::default()),
                };
                if cursors.acknowledged >= head {
                    notifications.push(None);
                    continue;
                }
                let notification = Notification {
                    board_id: self.state.id.clone(),
                    notification_id: head,
                    agent: (*agent).to_owned(),
                    from_sequence: cursors.acknowledged + 1,
                    to_sequence: head,
                    regions: (*regions).clone(),
                };
                batch.require(Condition::version(key.clone(), version));
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
                // Whoever looks next finds out what is owed then.
                Err(StoreError::Condition { index: 0, .. }) => {
                    self.fresh().await?;
                    return Ok(None);
                }
                Err(StoreError::Condition { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.busy())
    }

    /// Settles what has arrived, and notes what has not.
    async fn settle(&self, sent: Vec<Sent>, round: &mut Round) -> Result<()> {
        if sent.is_empty() {
            return Ok(());
        }
        let (mut rows, mut joined) = (Vec::new(), Vec::new());
        let mut batch = Batch::new();
        for (sending, result) in sent {
            let Notification { agent, to_sequence, .. } = sending.notification;
            if let Some(wait) = self.arrived(&agent, to_sequence, result.as_ref().err()) {
                round.again_in(wait);
            }
            match result {
                Ok(()) => {
                    for row in sending.rows {
                        match last_number(&row) {
                            // One that came back since has such a row of its own.
                            Some(0) => joined.push((row, sending.same_roster.clone())),
                            _ => rows.push(row),
                        }
                    }
                    round.told.insert(agent);
                }
                Err(failure) => {
                    tracing::warn!(board = %self.state.id, %agent, %failure, "a notification did not arrive");
                    let (decision, cause) = (agent.clone(), failure.cause);
                    let failed = Decision::NotificationFailed { agent: decision, to_sequence, cause };
                    self.decide(&mut batch, failed.value()?);
                    round.failed.insert(agent);
                }
            }
        }
        let mut rows = rows.into_iter();
        loop {
            for row in rows.by_ref().take(ROWS) {
                batch.delete_cell(row);
            }
            if batch.is_empty() {
                break;
            }
            let committed = self.store().commit(std::mem::take(&mut batch)).await?;
            self.decided(&committed);
        }
        for chunk in joined.chunks(ROWS) {
            for (row, same_roster) in chunk {
                batch.require(same_roster.clone()).delete_cell(row.clone());
            }
            match self.store().commit(std::mem::take(&mut batch)).await {
                Ok(_) => {}
                // It is told once more than it had to be.
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
    /// The rows that say so.
    pub(crate) rows: Vec<Key>,
    pub(crate) cursors: Cursors,
}

impl Handle {
    /// What an agent is owed of the numbers above `told` and up to `head`.
    pub(crate) async fn owed(&self, agent: &StoredAgent, snapshot: &Snapshot, told: u64, head: u64) -> Result<Found> {
        let prefix = self.layout().owed_to(&agent.name);
        let mut found = Found::default();
        let mut rows: BTreeMap<u64, Owed> = BTreeMap::new();
        let mut beyond: Option<Key> = None;
        loop {
            let cells = self.store().cells(&prefix, beyond.as_ref(), Direction::Forward, ROWS).await?;
            let is_last = cells.len() < ROWS;
            beyond = cells.last().map(|cell| cell.key.clone());
            for cell in cells {
                let number = last_number(&cell.key).unwrap_or(0);
                // Of a registration there is one row under 0; it is told of once, by whoever takes it first.
                if number > head || (told > 0 && number <= told) {
                    continue;
                }
                rows.insert(number, Owed::read(&cell.value)?);
                found.rows.push(cell.key);
            }
            if is_last {
                break;
            }
        }
        if rows.is_empty() {
            return Ok(found);
        }
        if let Some(cell) = self.store().cell(&self.layout().agent(&agent.name)).await? {
            found.cursors = Cursors::read(&cell.value)?;
        }
        let answered = found.cursors.acknowledged;
        if head <= answered {
            return Ok(found);
        }
        for (number, row) in rows {
            if number != 0 && number <= answered {
                continue;
            }
            let (due, regions) = match row.regions {
                Some(regions) => (Some(row.due), regions),
                None => self.holding(agent, snapshot, row.due).await?,
            };
            if let Some(due) = due {
                found.due = Some(found.due.map_or(due, |first| first.min(due)));
                found.regions.extend(regions);
            }
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
