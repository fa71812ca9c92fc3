//! The small kit that an agent is made with: it is notified, reads, decides, writes, and its kit acknowledges.
//!
//! An agent is a [`Decide`]: code, or code that asks a model with the board's tools. It is run in one of three ways, and is
//! the same in all of them: as a task beside the board ([`run_beside`]), as an HTTP service that the board calls
//! ([`Inbox`]), or as a puller that no call reaches ([`pull`]).
//!
//! Notifications are answered one at a time. Those that come meanwhile are answered together: the last one covers them,
//! because a range begins where the agent's last acknowledgement ended. The acknowledgement is sent once the decision has
//! ended well; a decision that failed, or panicked, is asked for again after a while, since what was not answered stays owed.

use crate::agent_board::AgentBoard;
use crate::client::BoardClient;
use crate::control::Control;
use crate::error::{BoardError, Result};
use crate::notify::{Agent, DeliveryFailure, Listener, Notification};
use crate::outgoing::{SIGNATURE_HEADER, signature};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response, StatusCode};
use placet_core::env::Task;
use placet_core::{Env, Secret};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How old a signed notification may be.
const SIGNATURE_AGE: Duration = Duration::from_secs(300);

/// How long a puller lets its server wait for something to tell.
const PULL_WAIT: Duration = Duration::from_secs(25);

/// How long an agent waits after a failure, at first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// What an agent does when it is told that something changed.
#[async_trait]
pub trait Decide: Send + Sync {
    /// Reads what it needs, decides, and writes. It need not acknowledge.
    ///
    /// # Errors
    /// Whatever kept it from deciding: the notification is not acknowledged then.
    async fn decide(&self, board: &Arc<dyn AgentBoard>, notification: &Notification) -> Result<()>;
}

/// An agent that is a function.
pub fn decide<F, Fut>(decide: F) -> Arc<dyn Decide>
where
    F: Fn(Arc<dyn AgentBoard>, Notification) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    struct Function<F>(F);

    #[async_trait]
    impl<F, Fut> Decide for Function<F>
    where
        F: Fn(Arc<dyn AgentBoard>, Notification) -> Fut + Send + Sync,
        Fut: Future<Output = Result<()>> + Send,
    {
        async fn decide(&self, board: &Arc<dyn AgentBoard>, notification: &Notification) -> Result<()> {
            (self.0)(board.clone(), notification.clone()).await
        }
    }
    Arc::new(Function(decide))
}

/// Lets an agent answer one notification, and acknowledges it.
///
/// # Errors
/// Why it could not decide, or that the acknowledgement did not arrive. Both times the notification stays owed.
pub async fn answer(agent: &dyn Decide, board: &Arc<dyn AgentBoard>, notification: &Notification) -> Result<()> {
    agent.decide(board, notification).await?;
    board.ack(notification.notification_id).await
}

/// The last notification that was not answered yet.
#[derive(Default)]
struct Latest {
    waiting: Mutex<Option<Notification>>,
    wake: Notify,
}

impl Latest {
    fn put(&self, notification: Notification) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.as_ref().is_none_or(|known| known.notification_id <= notification.notification_id) {
            *waiting = Some(notification);
        }
        self.wake.notify_one();
    }

    async fn take(&self) -> Notification {
        loop {
            if let Some(notification) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return notification;
            }
            self.wake.notified().await;
        }
    }
}

#[async_trait]
impl Listener for Latest {
    async fn notified(&self, notification: Notification) -> Result<(), DeliveryFailure> {
        self.put(notification);
        Ok(())
    }
}

/// The waits between failures.
struct Backoff(Duration);

impl Backoff {
    fn new() -> Self {
        Backoff(BACKOFF.0)
    }

    /// Waits after a failure; gives whether to go on.
    async fn wait(&mut self, env: &Env, cancel: &CancellationToken) -> bool {
        tokio::select! {
            biased;
            () = cancel.cancelled() => false,
            () = env.sleep(self.0) => {
                self.0 = self.0.saturating_mul(2).min(BACKOFF.1);
                true
            }
        }
    }
}

/// [`answer`], where a panic is a failure like others; gives whether it is to be tried again.
async fn is_answered(agent: &dyn Decide, board: &Arc<dyn AgentBoard>, notification: &Notification) -> bool {
    let (id, name) = (board.board_id(), board.agent());
    match AssertUnwindSafe(answer(agent, board, notification)).catch_unwind().await {
        // Nothing more comes of a closed run.
        Ok(Ok(()) | Err(BoardError::UnknownNotification { .. } | BoardError::RunClosed)) => true,
        Ok(Err(error)) => {
            tracing::warn!(board = %id, agent = name, %error, "an agent could not answer; it tries again");
            false
        }
        Err(_) => {
            tracing::error!(board = %id, agent = name, "an agent panicked; it tries again");
            false
        }
    }
}

/// Answers what comes until it is stopped.
async fn answer_all(
    env: Env,
    latest: Arc<Latest>,
    agent: Arc<dyn Decide>,
    board: Arc<dyn AgentBoard>,
    cancel: CancellationToken,
) {
    let mut backoff = Backoff::new();
    loop {
        let notification = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            notification = latest.take() => notification,
        };
        if is_answered(&*agent, &board, &notification).await {
            backoff = Backoff::new();
            continue;
        }
        // It was told, and is told no more of this: whoever told it cannot know.
        latest.put(notification);
        if !backoff.wait(&env, &cancel).await {
            return;
        }
    }
}

/// An agent that runs as a task. It is stopped when this is dropped.
pub struct Running {
    cancel: CancellationToken,
    /// Behind a lock only so that servers may share what runs.
    task: Mutex<Option<Task>>,
}

impl Running {
    fn start(env: &Env, name: &'static str, work: impl FnOnce(CancellationToken) -> BoxedWork) -> Self {
        let cancel = CancellationToken::new();
        let task = env.spawn(name, work(cancel.clone()));
        Running { cancel, task: Mutex::new(Some(task)) }
    }

    /// Stops it once it has answered what it is at.
    pub async fn stop(self) {
        self.cancel.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A panic of an agent is its own affair.
            let _ = task.join().await;
        }
    }
}

type BoxedWork = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Registers `declared` at a board of this process and runs it as a task beside it.
///
/// # Errors
/// What [`Control::register`] says.
pub async fn run_beside(control: &Control, env: &Env, declared: Agent, agent: Arc<dyn Decide>) -> Result<Running> {
    let latest = Arc::new(Latest::default());
    let board = control.as_agent(declared.name.clone());
    control.register(declared.listener(latest.clone())).await?;
    let own = env.clone();
    Ok(Running::start(env, "board agent", |cancel| Box::pin(answer_all(own, latest, agent, board, cancel))))
}

/// An agent as an HTTP service: what listens hands requests in, and a task answers notifications.
pub struct Inbox {
    latest: Arc<Latest>,
    env: Env,
    secret: Option<Secret>,
    running: Running,
}

impl Inbox {
    /// Runs `agent` on `board`. With a secret, only notifications signed with it are taken.
    #[must_use]
    pub fn new(env: &Env, board: Arc<dyn AgentBoard>, agent: Arc<dyn Decide>, secret: Option<Secret>) -> Self {
        let latest = Arc::new(Latest::default());
        let (own, work) = (env.clone(), latest.clone());
        let running =
            Running::start(env, "board agent", |cancel| Box::pin(answer_all(own, work, agent, board, cancel)));
        Inbox { latest, env: env.clone(), secret, running }
    }

    /// Takes a notification. It is answered later, by the task: status 202 says that it was understood.
    pub fn handle(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let status = match self.read(request) {
            Ok(notification) => {
                self.latest.put(notification);
                StatusCode::ACCEPTED
            }
            Err(status) => status,
        };
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = status;
        response
    }

    fn read(&self, request: &Request<Bytes>) -> Result<Notification, StatusCode> {
        if request.method() != http::Method::POST {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        if let Some(secret) = &self.secret {
            let shown = request.headers().get(SIGNATURE_HEADER).and_then(|value| value.to_str().ok());
            let is_ours = shown.is_some_and(|shown| is_signed(secret, shown, request.body(), &self.env));
            if !is_ours {
                return Err(StatusCode::UNAUTHORIZED);
            }
        }
        serde_json::from_slice(request.body()).map_err(|_| StatusCode::BAD_REQUEST)
    }

    /// Stops it once it has answered what it is at.
    pub async fn stop(self) {
        self.running.stop().await;
    }
}

/// Whether a signature is ours and young enough.
fn is_signed(secret: &Secret, shown: &str, body: &[u8], env: &Env) -> bool {
    let seconds = shown.split(',').find_map(|part| part.trim().strip_prefix("t=")?.parse::<i64>().ok());
    let Some(seconds) = seconds else { return false };
    let now = env.now().as_millis().div_euclid(1000);
    if now.abs_diff(seconds) > SIGNATURE_AGE.as_secs() {
        return false;
    }
    Secret::new("signature", signature(secret, seconds, body)).matches(shown)
}

/// Runs an agent that asks its board's server for notifications, until it is stopped: behind a firewall, no call reaches it.
/// It has to be registered there, as one that pulls.
#[must_use]
pub fn pull(env: &Env, client: BoardClient, agent: Arc<dyn Decide>) -> Running {
    let puller = env.clone();
    Running::start(env, "board puller", |cancel| Box::pin(pull_all(puller, client, agent, cancel)))
}

async fn pull_all(env: Env, client: BoardClient, agent: Arc<dyn Decide>, cancel: CancellationToken) {
    let board: Arc<dyn AgentBoard> = Arc::new(client.clone());
    let mut backoff = Backoff::new();
    while !cancel.is_cancelled() {
        let asked = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            asked = client.notification(PULL_WAIT) => asked,
        };
        let is_well = match asked {
            Ok(None) => true,
            Ok(Some(notification)) => is_answered(&*agent, &board, &notification).await,
            Err(BoardError::RunClosed) => return,
            Err(error) => {
                let (id, name) = (board.board_id(), board.agent());
                tracing::warn!(board = %id, agent = name, %error, "an agent could not ask for notifications; it tries again");
                false
            }
        };
        if is_well {
            backoff = Backoff::new();
        } else if !backoff.wait(&env, &cancel).await {
            return;
        }
    }
}
