//! What the parts of one exchange share.

use crate::exchange::Principal;
use crate::memo::Memo;
use crate::models::Models;
use crate::observe::{FlowEvent, FlowHappening, FlowObserver};
use crate::outlet::Outlet;
use crate::suspend::{ArrivedRound, OpenRound};
use crate::tab::Tab;
use indexmap::IndexMap;
use placet_core::event::RetryStarted;
use placet_core::{CallId, Diagnose, Item, ProviderId, RunId, ToolResult, TurnRequest, Usage};
use placet_models::{AskObserver, Used};
use placet_runtime::Runtime;
use placet_runtime::schedule::Scheduler;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// One exchange, or one run of the body of a trigger.
pub(crate) struct Cx {
    pub(crate) runtime: Runtime,
    pub(crate) models: Arc<Models>,
    /// The name that the flow is served by.
    pub(crate) flow: String,
    pub(crate) request: Arc<TurnRequest>,
    pub(crate) principal: Principal,
    pub(crate) stream: bool,
    pub(crate) metadata: IndexMap<String, String>,
    pub(crate) payload: Value,
    /// How many triggers set this off, one by the other.
    pub(crate) depth: u32,
    pub(crate) run: RunId,
    /// What the ids of its runs follow from.
    pub(crate) base: String,
    /// The first suspension of this exchange, where it goes on after one.
    pub(crate) root: Option<String>,
    pub(crate) cancel: CancellationToken,
    pub(crate) memo: Memo,
    /// Where the answer goes; nothing where nobody waits for one.
    pub(crate) outlet: Option<Outlet>,
    pub(crate) scheduler: Option<Scheduler>,
    pub(crate) observer: Option<Arc<dyn FlowObserver>>,
    pub(crate) tally: Tally,
    /// Calls that the client says were made, and of which nothing is kept here.
    pub(crate) claimed: HashSet<CallId>,
}

/// What changes while an exchange goes on.
pub(crate) struct Tally {
    spent: Mutex<Usage>,
    pub(crate) tab: Tab,
    /// Settles the tab.
    #[expect(dead_code, reason = "it acts when it is dropped")]
    settling: DropGuard,
    omitted: Mutex<Vec<String>>,
    barriers: Mutex<HashMap<String, CancellationToken>>,
    /// Rounds that wait for the client.
    opens: Mutex<Vec<OpenRound>>,
    /// Rounds that the client has answered, by the places of their asks.
    arrived: Mutex<HashMap<String, ArrivedRound>>,
    /// What the client answered to calls that handlers handed out.
    answers: Mutex<HashMap<CallId, ToolResult>>,
    /// What our own tools answered in rounds that went on, by the places of their asks.
    settled: Mutex<BTreeMap<String, Vec<ToolResult>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Tally {
    fn default() -> Self {
        let tab = Tab::default();
        Tally {
            settling: tab.settling(),
            tab,
            spent: Mutex::default(),
            omitted: Mutex::default(),
            barriers: Mutex::default(),
            opens: Mutex::default(),
            arrived: Mutex::default(),
            answers: Mutex::default(),
            settled: Mutex::default(),
        }
    }
}

impl Tally {
    pub(crate) fn arrived(rounds: HashMap<String, ArrivedRound>, answers: HashMap<CallId, ToolResult>) -> Self {
        Tally { arrived: Mutex::new(rounds), answers: Mutex::new(answers), ..Tally::default() }
    }
}

impl Cx {
    /// The trace that the exchange is a part of, sent on with every request to a model.
    pub(crate) fn trace(&self) -> Option<String> {
        self.metadata.get("traceparent").cloned()
    }

    pub(crate) fn spend(&self, usage: Usage) {
        *locked(&self.tally.spent) += usage;
    }

    pub(crate) fn spent(&self) -> Usage {
        *locked(&self.tally.spent)
    }

    pub(crate) fn omitted(&self) -> Vec<String> {
        locked(&self.tally.omitted).clone()
    }

    /// The barrier of that name; it is down once its token is cancelled.
    pub(crate) fn barrier(&self, name: &str) -> CancellationToken {
        locked(&self.tally.barriers).entry(name.to_owned()).or_default().clone()
    }

    pub(crate) fn open(&self, round: OpenRound) {
        locked(&self.tally.opens).push(round);
    }

    pub(crate) fn opens(&self) -> Vec<OpenRound> {
        let mut opens = locked(&self.tally.opens).clone();
        opens.sort_by(|a, b| a.place.cmp(&b.place));
        opens
    }

    /// Forgets the rounds that wait below a place.
    pub(crate) fn drop_opens(&self, path: &str) {
        let below = |place: &str| {
            place.strip_prefix(path).is_some_and(|rest| path.is_empty() || rest.starts_with(['.', '#', '/']))
        };
        locked(&self.tally.opens).retain(|open| !below(&open.place));
    }

    pub(crate) fn take_arrived(&self, place: &str) -> Option<ArrivedRound> {
        locked(&self.tally.arrived).remove(place)
    }

    pub(crate) fn answer_of(&self, call: &CallId) -> Option<ToolResult> {
        locked(&self.tally.answers).get(call).cloned()
    }

    pub(crate) fn settle(&self, place: &str, results: Vec<ToolResult>) {
        locked(&self.tally.settled).insert(place.to_owned(), results);
    }

    pub(crate) fn settled(&self) -> BTreeMap<String, Vec<ToolResult>> {
        locked(&self.tally.settled).clone()
    }

    pub(crate) fn new_item(&self, make: impl FnOnce(placet_core::ItemId) -> Item) -> Arc<Item> {
        Arc::new(make(self.runtime.env().new_id()))
    }

    pub(crate) fn tell(&self, path: &str, what: FlowHappening) {
        let Some(observer) = &self.observer else { return };
        observer.happened(&FlowEvent {
            run: self.run.clone(),
            flow: self.flow.clone(),
            path: path.to_owned(),
            at: self.runtime.env().now(),
            what,
        });
    }

    /// Tells of a start; of its end the guard tells, whatever way it is left.
    pub(crate) fn started(self: &Arc<Self>, path: &str) -> Started {
        self.tell(path, FlowHappening::Started);
        Started { cx: self.clone(), path: path.to_owned(), began: self.runtime.env().clock().steady(), told: false }
    }
}

/// A step that has begun.
pub(crate) struct Started {
    cx: Arc<Cx>,
    path: String,
    began: Duration,
    told: bool,
}

impl Started {
    pub(crate) fn ended<T>(mut self, result: &crate::error::Result<T>) {
        self.end(result.as_ref().err().map(|error| error.code().to_owned()));
    }

    fn end(&mut self, error: Option<String>) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let took = self.cx.runtime.env().clock().steady().saturating_sub(self.began);
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.cx.tell(&self.path, FlowHappening::Ended { error, took_ms, usage: self.cx.spent() });
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end(Some("cancelled".to_owned()));
    }
}

/// Keeps what was left out of requests.
pub(crate) struct Watcher {
    pub(crate) cx: Arc<Cx>,
    pub(crate) path: String,
}

impl AskObserver for Watcher {
    fn retrying(&self, retry: &RetryStarted) {
        tracing::debug!(run = %self.cx.run, reason = retry.reason, "a model is asked again");
    }

    fn omitted(&self, what: &str) {
        let mut omitted = locked(&self.cx.tally.omitted);
        if !omitted.iter().any(|known| known == what) {
            omitted.push(what.to_owned());
        }
        drop(omitted);
        self.cx.tell(&self.path, FlowHappening::Omitted { what: what.to_owned() });
    }

    fn answering(&self, provider: &ProviderId, model: &str) {
        self.cx.tally.tab.answering(provider, model);
    }

    fn used(&self, used: &Used) {
        self.cx.tally.tab.used(used);
    }
}

/// Whether trying again may help.
pub(crate) fn may_pass(error: &crate::error::FlowError) -> bool {
    error.kind().is_transient()
}
