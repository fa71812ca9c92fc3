//! What tests of other implementations ask of a server, beside the boards: one empty store for each namespace, and the
//! operations of a store and of a control component as calls. Everything here does nothing but call what the boards offer.
//!
//! A control component of such a test is a handle: the boards of its namespace as another process would serve them, with
//! listeners, rules and a transport of its own.

mod clock;
mod forms;

use bytes::Bytes;
use clock::ShiftedClock;
use forms::{AgentForm, HandleCall, RunCall, StoreCall, missing, outcome, seconds};
use placet_board::http::{BoardsEndpoint, Body};
use placet_board::rules::{AdmissionRule, Proposed, Termination, TerminationPredicate, Verdict, Webhooks as _};
use placet_board::{
    Agent, BoardError, BoardId, BoardSpec, Boards, BoardsOptions, Delivery, DeliveryFailure, Limits, Notification,
    Outgoing, Reader, Transport,
};
use placet_core::BoxFuture;
use placet_core::Env;
use placet_core::env::Task;
use placet_server::{Mount, Principal, board_answer};
use placet_store::{MemoryStore, SharedStore, Tenant};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many entries are read at once; the calls have no pages.
const PAGE: usize = 1000;

/// The namespaces.
pub(super) struct TestMode {
    env: Env,
    outgoing: Outgoing,
    spaces: Mutex<HashMap<String, Arc<Space>>>,
    /// Tests being told that a run has closed, which a call waits for that closed one.
    closing: Arc<Mutex<Vec<Task>>>,
}

/// One namespace.
struct Space {
    env: Env,
    clock: ShiftedClock,
    store: SharedStore,
    /// For what is asked under no handle.
    plain: Handle,
    handles: Mutex<HashMap<String, Handle>>,
    /// The last handle of each board.
    latest: Mutex<HashMap<String, String>>,
}

/// The boards of a namespace, as one process would serve them.
#[derive(Clone)]
struct Handle {
    boards: Boards,
    endpoint: BoardsEndpoint,
}

/// A call that went wrong, in the words that tests know.
pub(super) struct Raised {
    pub(super) name: &'static str,
    pub(super) detail: String,
}

pub(super) type Called = Result<Value, Raised>;

impl From<BoardError> for Raised {
    fn from(error: BoardError) -> Self {
        let name = match &error {
            // A store of these tests knows no boards beside their regions.
            BoardError::UnknownRegion { .. } | BoardError::UnknownBoard { .. } => "UndeclaredRegionError",
            BoardError::DuplicateRegion { .. } => "DuplicateRegionError",
            BoardError::WrongRegionKind { .. } => "RegionKindError",
            BoardError::KeyReused { .. } => "IdempotencyKeyError",
            BoardError::UnsetPremise { .. } => "UnsetPremiseError",
            BoardError::DuplicateAgent { .. } => "DuplicateAgentError",
            BoardError::Premises { .. } => "PremiseError",
            BoardError::UnknownNotification { .. } => "UnknownNotificationError",
            BoardError::RunClosed => "RunClosedError",
            BoardError::Content(_) => "TypeError",
            _ => "ValueError",
        };
        Raised { name, detail: error.to_string() }
    }
}

impl From<serde_json::Error> for Raised {
    fn from(error: serde_json::Error) -> Self {
        Raised { name: "TypeError", detail: error.to_string() }
    }
}

impl TestMode {
    pub(super) fn new(env: Env, outgoing: Outgoing) -> Self {
        TestMode { env, outgoing, spaces: Mutex::default(), closing: Arc::default() }
    }

    async fn handle(&self, request: http::Request<Bytes>) -> http::Response<Body> {
        let path = request.uri().path().to_owned();
        let Some((name, rest)) = path.strip_prefix("/t/").and_then(|rest| rest.split_once('/')) else {
            return whole(404, &json!({"error": "no_such_route", "detail": "namespaces are under /t/NAME"}));
        };
        let space = self.space(name);
        if let Some(verb) = rest.strip_prefix("shim/") {
            let called = self.call(&space, verb, request.body()).await;
            let closing = std::mem::take(&mut *self.closing.lock().unwrap_or_else(PoisonError::into_inner));
            for told in closing {
                // What a test does with it is its own affair.
                let _ = told.join().await;
            }
            return match called {
                Ok(value) => whole(200, &json!({ "ok": value })),
                Err(raised) => whole(200, &json!({ "raise": raised.name, "detail": raised.detail })),
            };
        }
        let named = request.headers().get("x-shim-handle").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let board = rest.split('/').nth(1).unwrap_or_default();
        let handle = space.handle(named, board);
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let (mut parts, body) = request.into_parts();
        match format!("/{rest}{query}").parse() {
            Ok(uri) => parts.uri = uri,
            Err(_) => return whole(404, &json!({"error": "no_such_route", "detail": path})),
        }
        handle.endpoint.handle(http::Request::from_parts(parts, body)).await
    }

    fn space(&self, name: &str) -> Arc<Space> {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        spaces.entry(name.to_owned()).or_insert_with(|| Arc::new(Space::new(&self.env))).clone()
    }

    async fn call(&self, space: &Space, verb: &str, body: &Bytes) -> Called {
        match verb {
            "store" => {
                let call: StoreCall = serde_json::from_slice(body)?;
                return forms::store_call(&space.plain.boards, call).await;
            }
            "runs" => return self.open(space, serde_json::from_slice(body)?).await,
            _ => {}
        }
        let call: HandleCall = serde_json::from_slice(body)?;
        let handle = space.handle(&call.handle, call.board_id.as_str());
        let control = handle.boards.control(&call.board_id);
        match verb {
            "advance" => {
                space.clock.advance(seconds(call.seconds.unwrap_or_default())?);
                control.notify_due().await?;
                // Looking at the outcome closes a run that is overdue, which there may not be.
                let _ = control.outcome().await;
                Ok(Value::Null)
            }
            "declare" => {
                control.declare(&call.region.ok_or_else(|| missing("region"))?.region()?).await?;
                Ok(Value::Null)
            }
            "register_agent" => {
                control.register(self.agent(call.agent.ok_or_else(|| missing("agent"))?)).await?;
                Ok(Value::Null)
            }
            "abort" => {
                control.abort(call.reason.as_deref().unwrap_or_default()).await?;
                Ok(Value::Null)
            }
            "outcome" => Ok(outcome(control.outcome().await?.as_ref())),
            "wait_closed" => {
                let patience = call.timeout_s.map(seconds).transpose()?;
                Ok(outcome(control.wait_closed(patience).await?.as_ref()))
            }
            "relay" => Ok(json!(control.relay().await?)),
            "notify_due" => Ok(json!(control.notify_due().await?)),
            other => Err(Raised { name: "ValueError", detail: format!("no verb is called {other}") }),
        }
    }

    /// Makes a handle with the rules and listeners of a test, and opens the board with it.
    async fn open(&self, space: &Space, call: RunCall) -> Called {
        let limits = Limits::new(seconds(call.limits.wall_clock_s)?, seconds(call.limits.idle_s)?);
        let mut spec = BoardSpec::new(limits);
        for region in call.regions {
            spec = spec.region(region.region()?);
        }
        let asked = |url| Asked { url, board: call.board_id.clone(), outgoing: self.outgoing.clone() };
        if let Some(url) = call.admission_url {
            spec = spec.admission(Arc::new(asked(url)));
        }
        if let Some(url) = call.predicate_url {
            spec = spec.termination(Arc::new(asked(url)));
        }
        if let Some(url) = call.closed_url {
            let (outgoing, env, closing) = (self.outgoing.clone(), self.env.clone(), self.closing.clone());
            spec = spec.on_closed(move |closed| {
                let (outgoing, url, body) = (outgoing.clone(), url.clone(), outcome(Some(closed)));
                let told = env.spawn("closed", async move {
                    // The test may have gone away.
                    let _ = outgoing.call(&url, &body).await;
                });
                closing.lock().unwrap_or_else(PoisonError::into_inner).push(told);
            });
        }
        for (premise, value) in call.premises.iter().flatten() {
            spec = spec.opening(premise.clone(), value.clone());
        }
        let (name, handle) = space.new_handle(&self.outgoing, call.reach_url, call.board_id.as_str());
        let told = json!({ "handle": name });
        if call.premises.is_none() {
            // A control component alone: what its premises hold is not its affair.
            handle.boards.converge_unset(&call.board_id, &spec).await?;
            return Ok(told);
        }
        handle.boards.converge(&call.board_id, &spec).await?;
        if let Some(url) = call.open_url {
            // What the hook answers is not asked.
            let _ = self.outgoing.call(&url, &told).await;
        }
        let control = handle.boards.control(&call.board_id);
        for agent in call.agents {
            match control.register(self.agent(agent)).await {
                Err(BoardError::RunClosed) => break,
                registered => registered?,
            }
        }
        Ok(told)
    }

    fn agent(&self, form: AgentForm) -> Agent {
        let mut agent = Agent::new(form.name);
        agent.subscribes_to = form.subscribes_to;
        agent.writes_to = form.writes_to;
        agent.address = form.address;
        if let Some(url) = form.callback_url {
            let outgoing = self.outgoing.clone();
            agent = agent.on_notified(move |notification| {
                let (outgoing, url) = (outgoing.clone(), url.clone());
                async move { outgoing.reach(&url, &notification).await }
            });
        }
        agent
    }
}

impl Mount for TestMode {
    fn serves(&self, path: &str) -> bool {
        path.starts_with("/t/")
    }

    fn answer(
        &self,
        request: http::Request<Bytes>,
        _: Arc<Principal>,
    ) -> BoxFuture<'_, http::Response<placet_server::Body>> {
        Box::pin(async move { board_answer(self.handle(request).await) })
    }
}

impl std::fmt::Debug for TestMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestMode").finish_non_exhaustive()
    }
}

impl Space {
    fn new(env: &Env) -> Self {
        let clock = ShiftedClock::new(env.clock().clone());
        let env = Env::new(Arc::new(clock.clone()), env.random().clone(), env.tasks().clone());
        let store: SharedStore = Arc::new(MemoryStore::new(env.clock().clone()));
        let plain = Handle::new(&env, &store, BoardsOptions::default().delivery(Delivery::Inline));
        Space { env, clock, store, plain, handles: Mutex::default(), latest: Mutex::default() }
    }

    /// The handle of that name, else the last one of the board, else the one that has nothing of its own.
    fn handle(&self, name: &str, board: &str) -> Handle {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = handles.get(name) {
            return handle.clone();
        }
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let board = placet_net::percent_decoded(board);
        latest.get(&board).and_then(|name| handles.get(name)).unwrap_or(&self.plain).clone()
    }

    fn new_handle(&self, outgoing: &Outgoing, reach: Option<String>, board: &str) -> (String, Handle) {
        let mut options = BoardsOptions::default().delivery(Delivery::Inline).webhooks(Arc::new(outgoing.clone()));
        if let Some(url) = reach {
            options = options.transport(Arc::new(Reach { outgoing: outgoing.clone(), url }));
        }
        let handle = Handle::new(&self.env, &self.store, options);
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("h{}", handles.len() + 1);
        handles.insert(name.clone(), handle.clone());
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).insert(board.to_owned(), name.clone());
        (name, handle)
    }
}

impl Handle {
    fn new(env: &Env, store: &SharedStore, options: BoardsOptions) -> Self {
        let boards = Boards::with_options(store.clone(), Tenant::new("test"), env, options);
        Handle { endpoint: BoardsEndpoint::new(boards.clone(), ""), boards }
    }
}

/// Hands notifications to addresses over to a test.
struct Reach {
    outgoing: Outgoing,
    url: String,
}

#[async_trait::async_trait]
impl Transport for Reach {
    async fn reach(&self, address: &str, notification: &Notification) -> Result<(), DeliveryFailure> {
        let body = json!({"address": address, "notification": notification});
        self.outgoing.call(&self.url, &body).await.map(drop).map_err(|error| DeliveryFailure::new(error.to_string()))
    }
}

/// A rule of a test, behind a URL.
struct Asked {
    url: String,
    board: BoardId,
    outgoing: Outgoing,
}

#[async_trait::async_trait]
impl AdmissionRule for Asked {
    async fn judge(&self, proposed: &Proposed, _: &Reader) -> placet_board::Result<Verdict> {
        self.outgoing.judge(&self.url, &self.board, proposed).await
    }
}

#[async_trait::async_trait]
impl TerminationPredicate for Asked {
    async fn decide(&self, _: &Reader) -> placet_board::Result<Termination> {
        self.outgoing.decide(&self.url, &self.board).await
    }
}

fn whole(status: u16, body: &Value) -> http::Response<Body> {
    let mut response = http::Response::new(Body::Whole(body.to_string().into()));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response
}
