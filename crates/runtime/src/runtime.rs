//! The runtime: what runs have in common.

use crate::error::{Result, RuntimeError};
use crate::handle::{EventSource, EventStream};
use crate::journal::JournalWitness;
use crate::request::{ModelChoice, RunBuilder};
use crate::resume::ResumeBuilder;
use futures_util::StreamExt;
use indexmap::IndexMap;
use placet_core::{Cursor, Env, ProviderId, Redactor, RunId, Timestamp};
use placet_models::SharedProvider;
use placet_observe::layout;
use placet_store::{Batch, SharedStore, Tenant};
use placet_tools::{AllowAll, Approver, Policy};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a lease holds unless it is renewed.
const LEASE: Duration = Duration::from_secs(30);

/// Starts and resumes runs. Cheap to clone.
///
/// ```no_run
/// # async fn example(store: placet_store::SharedStore, model: placet_models::SharedProvider)
/// # -> Result<(), placet_runtime::RuntimeError> {
/// use placet_runtime::Runtime;
/// let runtime = Runtime::new(placet_core::Env::system(), store, [model]);
/// let result = runtime.run("offline:offline").input("What is 6 * 7?").await?;
/// assert!(result.text.contains("42"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Runtime(pub(crate) Arc<Shared>);

/// What the runs of one runtime share.
pub(crate) struct Shared {
    pub(crate) env: Env,
    pub(crate) store: SharedStore,
    pub(crate) tenant: Tenant,
    pub(crate) owner: String,
    pub(crate) lease: Duration,
    pub(crate) providers: IndexMap<ProviderId, SharedProvider>,
    pub(crate) redactor: Redactor,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) approval_timeout: Duration,
    pub(crate) witness: Option<Arc<dyn JournalWitness>>,
    keep: Option<usize>,
    live: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    /// The feeds of the runs that this process owns now.
    feeds: HashMap<RunId, EventSource>,
    /// The runs that ended in this process and are kept, oldest first; only where their number is bounded.
    ended: VecDeque<(RunId, Timestamp)>,
}

impl Runtime {
    /// A runtime with defaults: see [`Runtime::builder`] for what can be set.
    pub fn new(env: Env, store: SharedStore, providers: impl IntoIterator<Item = SharedProvider>) -> Self {
        providers.into_iter().fold(Runtime::builder(env, store), RuntimeBuilder::provider).build()
    }

    /// Sets up a runtime.
    #[must_use]
    pub fn builder(env: Env, store: SharedStore) -> RuntimeBuilder {
        RuntimeBuilder {
            tenant: Tenant::new(""),
            owner: None,
            lease: LEASE,
            providers: IndexMap::new(),
            redactor: Redactor::default(),
            policy: Arc::new(AllowAll),
            approver: None,
            approval_timeout: Duration::from_secs(600),
            witness: None,
            keep: None,
            env,
            store,
        }
    }

    /// A new run with this model: a reference such as `openai:gpt-5.4`, or a provider and the name of its model.
    pub fn run(&self, model: impl Into<ModelChoice>) -> RunBuilder {
        RunBuilder::new(self.clone(), model.into())
    }

    /// Goes on with a run that did not end because its process did.
    pub fn resume(&self, run: RunId) -> ResumeBuilder {
        ResumeBuilder::new(self.clone(), run)
    }

    /// The events of any run after a place: live ones too where this process owns it, else its durable ones as they are
    /// committed. The stream ends with the run.
    #[must_use]
    pub fn follow(&self, run: &RunId, from: Cursor) -> EventStream {
        let source = self.0.live().feeds.get(run).cloned();
        match source {
            Some(source) => source.stream(from),
            None => {
                let events = placet_observe::follow(self.0.store.clone(), &self.0.tenant, run, from.durable);
                EventStream::new(events.map(|event| event.map_err(RuntimeError::from)))
            }
        }
    }

    /// Deletes a run that nobody works on, with all that is kept of it.
    ///
    /// # Errors
    /// [`RuntimeError::NotFound`] where there is no such run, [`RuntimeError::Held`] where a live owner works on it.
    pub async fn delete(&self, run: &RunId) -> Result<()> {
        crate::resume::delete(&self.0, run).await
    }

    /// Where its runs are kept.
    #[must_use]
    pub fn store(&self) -> &SharedStore {
        &self.0.store
    }

    /// Whose runs they are.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.0.tenant
    }

    /// Time, randomness, identity and tasks.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.0.env
    }

    /// The providers it knows, in the order in which they were given.
    pub fn providers(&self) -> impl Iterator<Item = &SharedProvider> {
        self.0.providers.values()
    }
}

impl Shared {
    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets readers of this process find the run.
    pub(crate) fn show(&self, run: &RunId, source: EventSource) {
        self.live().feeds.insert(run.clone(), source);
    }

    /// Takes the run away from where readers find it; what they read already they read to its end.
    pub(crate) fn hide(&self, run: &RunId) {
        self.live().feeds.remove(run);
    }

    /// Which runs have to go so that a run that is about to end can be kept.
    pub(crate) fn make_room(&self) -> Vec<(RunId, Timestamp)> {
        let Some(keep) = self.keep else { return Vec::new() };
        let mut live = self.live();
        let too_many = (live.ended.len() + 1).saturating_sub(keep.max(1));
        live.ended.drain(..too_many).collect()
    }

    /// Notes that a run has ended and is kept.
    pub(crate) fn keep_ended(&self, run: &RunId, started: Timestamp) {
        if self.keep.is_some() {
            self.live().ended.push_back((run.clone(), started));
        }
    }

    /// Adds the deletion of a run to a batch.
    pub(crate) fn forget(&self, batch: &mut Batch, run: &RunId, started: Timestamp) {
        batch.delete_log(layout::journal(&self.tenant, run));
        batch.delete_cell(layout::entry(&self.tenant, started, run));
        batch.delete_prefix(layout::lease(&self.tenant, run));
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("store", &self.0.store.describe())
            .field("tenant", &self.0.tenant)
            .field("providers", &self.0.providers.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Sets up a [`Runtime`]. Nothing here can fail; what is wrong is told when a run starts.
pub struct RuntimeBuilder {
    env: Env,
    store: SharedStore,
    tenant: Tenant,
    owner: Option<String>,
    lease: Duration,
    providers: IndexMap<ProviderId, SharedProvider>,
    redactor: Redactor,
    policy: Arc<dyn Policy>,
    approver: Option<Arc<dyn Approver>>,
    approval_timeout: Duration,
    witness: Option<Arc<dyn JournalWitness>>,
    keep: Option<usize>,
}

impl RuntimeBuilder {
    /// A provider that runs may name. One of the same id takes the earlier one's place.
    #[must_use]
    pub fn provider(mut self, provider: SharedProvider) -> Self {
        self.providers.insert(provider.id().clone(), provider);
        self
    }

    /// Whose runs they are. Without it, the tenant of the empty name.
    #[must_use]
    pub fn tenant(mut self, tenant: Tenant) -> Self {
        self.tenant = tenant;
        self
    }

    /// How this process is called where somebody else asks who holds a run: `host, process 4711`. Without it, a random
    /// name.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// How long a lease on a run holds unless it is renewed; it is renewed after a third of that. 30 s without it.
    #[must_use]
    pub fn lease(mut self, span: Duration) -> Self {
        self.lease = span;
        self
    }

    /// What takes secrets out of everything that tools and errors contribute. Without it, the one that knows shapes of
    /// credentials and no value.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// What judges each call, for runs that bring no policy of their own. Without it, whatever was granted is allowed.
    #[must_use]
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policy = policy;
        self
    }

    /// Who is asked for approvals, for runs that bring nobody of their own. Without it, what needs one is refused.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// How long whoever is asked for an approval may take before the call is denied: 10 min without it.
    #[must_use]
    pub fn approval_timeout(mut self, most: Duration) -> Self {
        self.approval_timeout = most;
        self
    }

    /// Keeps that many of the runs that end in this process and deletes the oldest beyond them, each with the end of a
    /// newer one: for a store in memory, which would grow for ever. Without it, runs are kept until somebody deletes
    /// them.
    #[must_use]
    pub fn keep_ended(mut self, count: usize) -> Self {
        self.keep = Some(count);
        self
    }

    /// Is told of every commit of a journal, before and after: for tests that end the process there.
    #[must_use]
    pub fn witness(mut self, witness: Arc<dyn JournalWitness>) -> Self {
        self.witness = Some(witness);
        self
    }

    /// The runtime.
    #[must_use]
    pub fn build(self) -> Runtime {
        let owner = self.owner.unwrap_or_else(|| format!("process {:08x}", self.env.random().next_u64() >> 32));
        Runtime(Arc::new(Shared {
            env: self.env,
            store: self.store,
            tenant: self.tenant,
            owner,
            lease: self.lease,
            providers: self.providers,
            redactor: self.redactor,
            policy: self.policy,
            approver: self.approver,
            approval_timeout: self.approval_timeout,
            witness: self.witness,
            keep: self.keep,
            live: Mutex::default(),
        }))
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}
