//! The gateway: from a request to its answer.

use crate::account::RequestId;
use crate::body::{self, Body, Bounds};
use crate::config::{AgentEntry, Config, ConfigError, begins_with_trigger};
use crate::door::Door;
use crate::endpoint::{Endpoint, endpoint};
use crate::flows::{Ground, SetupError, Working};
use crate::ledger::{Ledger, LedgerLine};
use crate::limiter::{Limiter, Unlimited};
use crate::metrics::{Metrics, Outcome};
use crate::mount::Mount;
use crate::principal::{Keys, Principal};
use crate::refusal::Refusal;
use crate::routing::{Listed, Pins, Routing};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Version};
use hyper::body::Incoming;
use placet_core::env::Task;
use placet_core::{Env, ErrorKind};
use placet_flows::Flows;
use placet_net::Client;
use placet_store::{SharedStore, Tenant};
use placet_wire::passing::Speech;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-placet-request-id");
pub(crate) const ROUTE: HeaderName = HeaderName::from_static("x-placet-route");
pub(crate) const PROVIDER: HeaderName = HeaderName::from_static("x-placet-provider");
/// What is said to whoever comes too late.
pub(crate) const STOPPING: &str = "the gateway is stopping";
/// How long, and how many bytes of, a body are read after its request was answered: there are clients that read the answer
/// only once they have sent everything, and lose it where the stream is reset.
const READ_ON: (Duration, usize) = (Duration::from_secs(2), 1 << 20);

/// How the gateway stands: it serves; it serves, and says that it will not for long; it takes no new work; it ends what is
/// still under way.
const SERVING: u8 = 0;
const LEAVING: u8 = 1;
const DRAINING: u8 = 2;
const CUT: u8 = 3;

pub(crate) const OMITTED: HeaderName = HeaderName::from_static("x-placet-omitted");

/// What a configuration came to. Replaced whole by a reload; a request keeps the one it began with.
pub(crate) struct Snapshot {
    pub(crate) config: Config,
    pub(crate) routing: Routing,
    pub(crate) flows: Option<Flows>,
    /// Taken when the gateway closes.
    working: std::sync::Mutex<Option<Working>>,
    /// Whether it is noted who may go on from which answer that a provider keeps: where clients differ, or providers do.
    pub(crate) notes_owners: bool,
    door: Door,
    keys: Keys,
}

/// The gateway. Shared by every connection.
pub struct Gateway {
    pub(crate) env: Env,
    pub(crate) client: Client,
    pub(crate) store: SharedStore,
    pub(crate) tenant: Tenant,
    snapshot: RwLock<Arc<Snapshot>>,
    pub(crate) ledger: Ledger,
    ledger_task: std::sync::Mutex<Option<Task>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limiter: Arc<dyn Limiter>,
    mounts: Vec<Arc<dyn Mount>>,
    pub(crate) flows: Option<Flows>,
    /// What the program's own flows leave behind is done for as long as this is held.
    own_work: std::sync::Mutex<Option<Working>>,
    pub(crate) pins: Pins,
    pub(crate) lists: crate::models::Lists,
    places: Arc<Semaphore>,
    queued: AtomicUsize,
    standing: AtomicU8,
}

/// What a gateway serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Served {
    /// Models by the names that clients use, each with the provider that answers.
    pub named: Vec<ServedFrom>,
    /// Providers whose models may be asked for by their own names, each with its address.
    pub open: Vec<ServedFrom>,
}

/// One thing that is served, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedFrom {
    /// What.
    pub id: String,
    /// From where.
    pub from: String,
}

/// What a gateway is made of beside its configuration.
pub struct Parts {
    /// Time, randomness, identity and tasks.
    pub env: Env,
    /// The client that asks providers.
    pub client: Client,
    /// Where the ledger and kept answers go.
    pub store: SharedStore,
    /// Whose they are.
    pub tenant: Tenant,
    /// What else is served.
    pub mounts: Vec<Arc<dyn Mount>>,
    /// Flows of the program itself, served by their names beside the agents of the configuration. Their triggers are set off,
    /// and what they leave behind is done, from here.
    pub flows: Option<Flows>,
    /// Who is asked about limits; none for no limits.
    pub limiter: Option<Arc<dyn Limiter>>,
}

impl Gateway {
    /// A gateway.
    ///
    /// # Errors
    /// [`SetupError`] where a provider's address or credential, or an agent's capability, cannot be used.
    pub fn new(config: Config, parts: Parts) -> Result<Arc<Self>, SetupError> {
        let metrics = Arc::new(Metrics::default());
        let (ledger, writing) = Ledger::new(parts.store.clone(), &parts.tenant, &parts.env);
        let (env, client, store) = (&parts.env, &parts.client, &parts.store);
        let ground = Ground { env, client, store, tenant: &parts.tenant, ledger: Some(&ledger) };
        let snapshot = Snapshot::new(config, &metrics, parts.flows.as_ref(), &ground)?;
        snapshot.begin(&parts.env, None);
        let own_work = parts.flows.as_ref().map(|flows| Working::begin(&parts.env, flows.clone(), None));
        let task = parts.env.spawn("ledger", writing);
        Ok(Arc::new(Gateway {
            places: Arc::new(Semaphore::new(snapshot.config.limits.requests)),
            snapshot: RwLock::new(Arc::new(snapshot)),
            env: parts.env,
            client: parts.client,
            store: parts.store,
            tenant: parts.tenant,
            ledger,
            ledger_task: std::sync::Mutex::new(Some(task)),
            metrics,
            limiter: parts.limiter.unwrap_or_else(|| Arc::new(Unlimited)),
            mounts: parts.mounts,
            flows: parts.flows,
            own_work: std::sync::Mutex::new(own_work),
            pins: Pins::default(),
            lists: crate::models::Lists::default(),
            queued: AtomicUsize::new(0),
            standing: AtomicU8::new(SERVING),
        }))
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> Config {
        self.snapshot().config.clone()
    }

    /// Puts another configuration in force, whole. What is bound to the listener (its address, the limits on connections and
    /// heads) stays as it was; the words that are given back say so.
    ///
    /// # Errors
    /// [`SetupError`] where it cannot be used; then nothing has changed.
    pub fn reload(&self, config: Config) -> Result<Vec<String>, SetupError> {
        let before = self.snapshot();
        let mut notes = Vec::new();
        let mut note = |what: &str, changed: bool| {
            if changed {
                notes.push(format!("`{what}` is read at start: the change waits for the next one"));
            }
        };
        note("server.listen", config.listen != before.config.listen);
        note("store", config.store != before.config.store);
        note("boards", config.boards != before.config.boards);
        let (new, old) = (&config.limits, &before.config.limits);
        note("limits.connections", new.connections != old.connections);
        note("limits.requests", new.requests != old.requests);
        note("limits.header", new.header != old.header);
        let (env, client, store) = (&self.env, &self.client, &self.store);
        let ground = Ground { env, client, store, tenant: &self.tenant, ledger: Some(&self.ledger) };
        let snapshot = Snapshot::new(config, &self.metrics, self.flows.as_ref(), &ground)?;
        before.finish();
        snapshot.begin(&self.env, Some(&before));
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
        self.lists.forget();
        Ok(notes)
    }

    /// What is served, and from where.
    #[must_use]
    pub fn served(&self) -> Served {
        let snapshot = self.snapshot();
        let source = |id: String, from: String| ServedFrom { id, from };
        let from = |one: Listed| match snapshot.config.agents.get(&one.id) {
            Some(AgentEntry { model: Some(model), .. }) => source(one.id, format!("an agent on {model}")),
            _ => source(one.id, one.owner),
        };
        let named = snapshot.routing.listed().into_iter().map(from).collect();
        let upstreams = snapshot.routing.upstreams().filter(|_| snapshot.routing.is_open());
        Served { named, open: upstreams.map(|one| source(one.id.to_string(), one.base_url.to_string())).collect() }
    }

    /// No longer ready: whoever balances load sends no more.
    pub(crate) fn leave(&self) {
        self.standing.fetch_max(LEAVING, Ordering::Relaxed);
    }

    /// Takes no new work.
    pub(crate) fn drain(&self) {
        self.standing.fetch_max(DRAINING, Ordering::Relaxed);
    }

    /// Ends what is still under way: each answer ends with the error of its protocol, as soon as it is looked at.
    pub(crate) fn cut(&self) {
        self.standing.fetch_max(CUT, Ordering::Relaxed);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.standing.load(Ordering::Relaxed) == CUT
    }

    /// Writes what waits. Afterwards nothing more is recorded.
    pub async fn close(&self) {
        self.snapshot().finish();
        self.own_work.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.ledger.close();
        let task = self.ledger_task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A writer that panicked has told its panic already.
            let _ = task.join().await;
        }
    }

    /// Answers one request, whatever it is.
    pub(crate) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let started = self.env.clock().steady();
        let id: RequestId = self.env.new_id();
        let (parts, mut body) = request.into_parts();
        let is_multiplexed = parts.version == Version::HTTP_2;
        let mut heading = Heading {
            id,
            started,
            method: parts.method,
            path_and_query: parts.uri,
            headers: parts.headers,
            speech: Speech::OpenaiChat,
            asks: None,
            principal: None,
            model: None,
            is_accounted: false,
        };
        let answered = {
            let mut answering = pin!(self.route(&mut heading, &mut body));
            let or_cut = poll_fn(|cx| match answering.as_mut().poll(cx) {
                Poll::Pending if self.is_cut() => Poll::Ready(Err(stopping())),
                polled => polled,
            });
            or_cut.await
        };
        let mut response = match answered {
            Ok(response) => response,
            Err(refusal) => {
                self.metrics.refused(refusal.status);
                self.note_refused(&heading, &refusal);
                let path = heading.path_and_query.path();
                let told = self.mount(path).and_then(|mount| mount.refusal(&heading.method, path, &refusal));
                told.unwrap_or_else(|| refusal.into_response(heading.speech, id.as_str()))
            }
        };
        response.headers_mut().insert(REQUEST_ID, id.header());
        if heading.method == Method::HEAD {
            *response.body_mut() = Body::empty();
        }
        if is_multiplexed {
            if !http_body::Body::is_end_stream(&body) {
                let reading = body::read_on(body, READ_ON, self.env.clone());
                drop(self.env.spawn("rest of a body", reading));
            }
        } else if self.standing.load(Ordering::Relaxed) >= DRAINING {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Writes down a request for a model that was refused before there was an account of it.
    fn note_refused(&self, heading: &Heading, refusal: &Refusal) {
        let Some(protocol) = heading.asks.filter(|_| !heading.is_accounted) else { return };
        let whole = self.env.clock().steady().saturating_sub(heading.started);
        self.ledger.record(&LedgerLine {
            at: self.env.now(),
            id: heading.id.as_str().into(),
            key: heading.principal.as_ref().map_or("", |principal| &principal.key).into(),
            protocol: protocol.into(),
            model: heading.model.as_deref().unwrap_or_default().into(),
            provider: "".into(),
            provider_model: "".into(),
            status: refusal.status,
            outcome: Outcome::Refused.as_str().into(),
            usage: None,
            cost: None,
            first_us: 0,
            whole_us: u64::try_from(whole.as_micros()).unwrap_or(u64::MAX),
            fallbacks: 0,
            trace: "".into(),
            tools: Vec::new(),
            problem: "".into(),
        });
    }

    async fn route(self: &Arc<Self>, heading: &mut Heading, body: &mut Incoming) -> Result<Response<Body>, Refusal> {
        let snapshot = self.snapshot();
        // The path is borrowed by what it means.
        let uri = heading.path_and_query.clone();
        let mut endpoint = endpoint(&heading.method, uri.path());
        if let Endpoint::Models { gemini } | Endpoint::Model { gemini, .. } = &mut endpoint {
            *gemini |= heading.headers.contains_key("x-goog-api-key");
        }
        heading.speech = endpoint.speech();
        let is_nothing = matches!(endpoint, Endpoint::Unknown | Endpoint::Method(_));
        if is_nothing && (is_below_beta(uri.path()) || heading.headers.contains_key("x-goog-api-key")) {
            heading.speech = Speech::Gemini;
        } else if matches!(
            endpoint,
            Endpoint::Models { gemini: false } | Endpoint::Model { gemini: false, .. } | Endpoint::Unknown
        ) && heading.headers.contains_key("anthropic-version")
        {
            heading.speech = Speech::AnthropicMessages;
        }
        if endpoint.asks() {
            heading.asks = Some(if let Endpoint::Hook { .. } = endpoint { "webhook" } else { heading.speech.as_str() });
        }
        snapshot.door.check(&heading.method, &uri, &heading.headers)?;
        match endpoint {
            Endpoint::Health => return Ok(text("ok\n")),
            Endpoint::Ready => return self.readiness(),
            Endpoint::Method(allow) => return Err(Refusal::method(allow)),
            Endpoint::Metrics => {}
            _ if self.standing.load(Ordering::Relaxed) >= DRAINING => return Err(stopping()),
            _ => {}
        }
        let principal = snapshot.keys.authenticate(&uri, &heading.headers)?;
        heading.principal = Some(principal.clone());
        match endpoint {
            Endpoint::Turn(_) | Endpoint::GeminiTurn { .. } => {
                let place = self.place(&snapshot).await?;
                let body = self.read(&snapshot, heading, body).await?;
                self.turn(snapshot, heading, &endpoint, principal, place, body).await
            }
            Endpoint::CountTokens
            | Endpoint::InputTokens
            | Endpoint::GeminiCount { .. }
            | Endpoint::Embeddings
            | Endpoint::GeminiEmbed { .. } => {
                let place = self.place(&snapshot).await?;
                let body = self.read(&snapshot, heading, body).await?;
                self.side_request(snapshot, heading, &endpoint, principal, place, body).await
            }
            Endpoint::Models { .. } => self.list_models(&snapshot, heading.speech, &principal, &uri).await,
            Endpoint::Model { id, .. } => self.one_model(&snapshot, heading.speech, &principal, id).await,
            Endpoint::Response { id, action } => self.kept(&snapshot, heading, &principal, id, action).await,
            Endpoint::Hook { id } => {
                let place = self.place(&snapshot).await?;
                let body = self.read(&snapshot, heading, body).await?;
                self.hook(&snapshot, heading, id, principal, place, &body).await
            }
            Endpoint::Metrics if snapshot.config.metrics => {
                let figures = self.metrics.write((self.ledger.written(), self.ledger.dropped()));
                let mut response = text(figures);
                let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                Ok(response)
            }
            _ => self.mounted(&snapshot, heading, principal, body).await,
        }
    }

    /// What serves a path beside the models.
    fn mount(&self, path: &str) -> Option<&dyn Mount> {
        self.mounts.iter().find(|mount| mount.serves(path)).map(|mount| &**mount)
    }

    async fn mounted(
        &self,
        snapshot: &Snapshot,
        heading: &mut Heading,
        principal: Arc<Principal>,
        body: &mut Incoming,
    ) -> Result<Response<Body>, Refusal> {
        let Some(mount) = self.mount(heading.path_and_query.path()) else {
            let path: String = heading.path_and_query.path().chars().take(200).collect();
            let message = format!(
                "there is nothing at {path}; a base URL ends before /v1/chat/completions, /v1/messages and so on"
            );
            return Err(Refusal::not_found(message));
        };
        let body = self.read(snapshot, heading, body).await?;
        let mut request = Request::new(body);
        *request.method_mut() = heading.method.clone();
        *request.uri_mut() = heading.path_and_query.clone();
        *request.headers_mut() = std::mem::take(&mut heading.headers);
        Ok(mount.answer(request, principal).await)
    }

    async fn read(&self, snapshot: &Snapshot, heading: &Heading, body: &mut Incoming) -> Result<Bytes, Refusal> {
        let limits = &snapshot.config.limits;
        let bounds = Bounds { bytes: limits.body, idle: limits.client_idle, whole: limits.client_body };
        let bytes = body::read(body, bounds, &self.env).await?;
        match heading.headers.get(http::header::CONTENT_ENCODING) {
            None => Ok(bytes),
            Some(coding) => crate::coding::unpack(bytes, coding, limits.body),
        }
    }

    fn readiness(&self) -> Result<Response<Body>, Refusal> {
        if self.standing.load(Ordering::Relaxed) != SERVING {
            return Err(stopping());
        }
        Ok(text("ready\n"))
    }

    /// A place among the requests that are answered, or the time to wait for one.
    async fn place(&self, snapshot: &Snapshot) -> Result<OwnedSemaphorePermit, Refusal> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        let full = || {
            Refusal::new(503, ErrorKind::Overloaded, "the gateway is answering as many requests as it may")
                .retry_after(Duration::from_secs(1))
        };
        let waiting = Waiting::new(&self.queued);
        if waiting.ahead >= snapshot.config.limits.queue {
            return Err(full());
        }
        tokio::select! {
            biased;
            place = self.places.clone().acquire_owned() => place.map_err(|_| full()),
            () = self.env.sleep(snapshot.config.limits.queue_wait) => Err(full()),
        }
    }
}

/// One of those who wait for a place.
struct Waiting<'q> {
    queued: &'q AtomicUsize,
    ahead: usize,
}

impl<'q> Waiting<'q> {
    fn new(queued: &'q AtomicUsize) -> Self {
        Waiting { ahead: queued.fetch_add(1, Ordering::Relaxed), queued }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is known of a request before its body is read.
pub(crate) struct Heading {
    pub(crate) id: RequestId,
    /// The steady instant at which it began.
    pub(crate) started: Duration,
    pub(crate) method: Method,
    pub(crate) path_and_query: http::Uri,
    pub(crate) headers: HeaderMap,
    /// The protocol that it is answered in, errors included.
    pub(crate) speech: Speech,
    /// The protocol's name in the ledger, where a model or a flow is asked.
    asks: Option<&'static str>,
    /// Who asks, once that is known.
    principal: Option<Arc<Principal>>,
    /// The name of the model, where it was refused.
    pub(crate) model: Option<Box<str>>,
    /// Whether there is an account of it, which leaves a line in the ledger.
    pub(crate) is_accounted: bool,
}

/// Whether a path is of the version that only Gemini's clients know.
fn is_below_beta(path: &str) -> bool {
    path.split('/').find(|step| !step.is_empty()) == Some("v1beta")
}

/// What is answered to new work once there is to be none.
fn stopping() -> Refusal {
    Refusal::new(503, ErrorKind::Unavailable, STOPPING).retry_after(Duration::from_secs(1))
}

pub(crate) fn text(text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

pub(crate) fn json(value: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(Body::whole(value.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl Snapshot {
    pub(crate) fn new(
        config: Config,
        metrics: &Arc<Metrics>,
        own: Option<&Flows>,
        ground: &Ground<'_>,
    ) -> Result<Self, SetupError> {
        // Flows that only a trigger sets off are nobody's model.
        let is_asked = |name: &&String| !begins_with_trigger(&config, &config.flows[*name].steps);
        let configured = config.flows.keys().filter(is_asked).map(String::as_str);
        let names: Vec<&str> = own.into_iter().flat_map(Flows::names).chain(configured).collect();
        let routing = Routing::new(&config, ground.client, metrics, names.into_iter())?;
        let flows = crate::flows::build(&config, ground, |model| routing.asker(model))?;
        let (door, keys) = (Door::new(&config), Keys::new(&config));
        let notes_owners = !config.keys.is_empty() || routing.keepers().count() > 1;
        Ok(Snapshot { door, keys, routing, flows, working: std::sync::Mutex::new(None), notes_owners, config })
    }

    /// Begins to do what triggers and answers of its flows leave behind.
    fn begin(&self, env: &Env, before: Option<&Snapshot>) {
        let before = before.and_then(|before| before.flows.as_ref());
        match (&self.flows, before) {
            (Some(flows), before) => {
                let working = Working::begin(env, flows.clone(), before);
                *self.working.lock().unwrap_or_else(PoisonError::into_inner) = Some(working);
            }
            (None, Some(before)) => Working::end(env, before.clone()),
            (None, None) => {}
        }
    }

    /// Leaves the rest of that work to whoever comes next.
    fn finish(&self) {
        self.working.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

/// Reads a configuration again and puts it in force, or says everything that is wrong with it.
///
/// # Errors
/// [`ReloadError`]; then nothing has changed.
pub fn reload(gateway: &Gateway, lookup: &placet_models::Lookup) -> Result<Vec<String>, ReloadError> {
    let file = gateway.snapshot().config.file.clone();
    let config = match file {
        Some(file) => Config::read(&file, lookup)?,
        None => Config::discovered(lookup)?,
    };
    Ok(gateway.reload(config)?)
}

/// Why a configuration was not put in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// It is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Something in it cannot be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
}
