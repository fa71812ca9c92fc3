//! A board of another process, over HTTP.

use crate::agent_board::AgentBoard;
use crate::error::{BoardError, Result};
use crate::model::{Bounds, Change, Contribution, Page, PremiseState, Region, RegionKind};
use crate::name::BoardId;
use crate::notify::Notification;
use crate::request::{SetRequest, WriteRequest, WriteResult};
use crate::wire::{self, AckBody, Asked, SetBody, WriteBody};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, StatusCode};
use placet_core::Secret;
use placet_net::{Client, NetError, Request, RetryPolicy, Retryable, Retrying, Timeouts, Url, Verdict, retry_after};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The most bytes of one answer: a full page of large contributions.
const ANSWER_BYTES: usize = 64 << 20;

/// A board of another process, under one agent's name. Cheap to clone.
///
/// Reads, acknowledgements and writes with a key are tried three times, waiting as the server asks (up to 30 s); a write
/// without a key is tried once, because whether it arrived is not known. A read gives one page, as in process.
#[derive(Clone)]
pub struct BoardClient {
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Shared {
    client: Client,
    base: Url,
    board: BoardId,
    agent: String,
    token: Option<Secret>,
    policy: RetryPolicy,
    timeouts: Timeouts,
    cancel: CancellationToken,
}

impl BoardClient {
    /// The board `board` at `base_url` (what stands before `/boards/…`), for the agent `agent`.
    ///
    /// # Errors
    /// [`BoardError::Unreachable`] when the URL is none.
    pub fn new(client: Client, base_url: &str, board: BoardId, agent: impl Into<String>) -> Result<Self> {
        let base = Url::parse(base_url).map_err(unreachable)?;
        let policy = RetryPolicy { max_retries: 2, patience: Duration::from_secs(30), ..RetryPolicy::default() };
        let timeouts = Timeouts::default().within(Duration::from_secs(100));
        let timeouts = Timeouts { first_byte: Some(Duration::from_secs(10)), ..timeouts };
        let (agent, cancel) = (agent.into(), CancellationToken::new());
        Ok(BoardClient {
            shared: Arc::new(Shared { client, base, board, agent, token: None, policy, timeouts, cancel }),
        })
    }

    fn with(&self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared = (*self.shared).clone();
        change(&mut shared);
        BoardClient { shared: Arc::new(shared) }
    }

    /// Shows this token to the server.
    #[must_use]
    pub fn token(self, token: Secret) -> Self {
        self.with(|shared| shared.token = Some(token))
    }

    /// Tries again by this policy.
    #[must_use]
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.with(|shared| shared.policy = policy)
    }

    /// The same board under another agent's name.
    #[must_use]
    pub fn as_agent(&self, agent: impl Into<String>) -> Self {
        self.with(|shared| shared.agent = agent.into())
    }

    /// Gives up whatever is under way, and whatever is asked from now on, once this is cancelled.
    #[must_use]
    pub fn cancelled_by(self, cancel: CancellationToken) -> Self {
        self.with(|shared| shared.cancel = cancel)
    }

    /// Everything from a place on, page by page.
    ///
    /// # Errors
    /// As [`AgentBoard::read_level`].
    pub async fn read_whole_level(&self, level: &str, from_sequence: u64) -> Result<Vec<Contribution>> {
        let (mut all, mut bounds) = (Vec::new(), Bounds::from(from_sequence));
        loop {
            let page = self.read_level(level, bounds).await?;
            let Some(last) = page.items.last() else { return Ok(all) };
            bounds.from_sequence = last.sequence.saturating_add(1);
            all.extend(page.items);
            if !page.has_more {
                return Ok(all);
            }
        }
    }

    /// What the agent is owed, waiting for up to `wait` (the server's limit is a minute) where it is owed nothing.
    ///
    /// # Errors
    /// [`BoardError::RunClosed`] once nothing can come any more; as [`AgentBoard::read_regions`].
    pub async fn notification(&self, wait: Duration) -> Result<Option<Notification>> {
        let mut request = self.request(Method::GET, &["agents", &self.shared.agent, "notifications"])?;
        request.url = request.url.with_query("wait_s", &wait.as_secs_f64().to_string()).map_err(unreachable)?;
        let whole = self.shared.timeouts.first_byte.map(|patience| patience.saturating_add(wait));
        request = request.timeouts(Timeouts { first_byte: whole, ..self.shared.timeouts });
        match self.send(request, true).await? {
            (204, _) => Ok(None),
            (status @ 200, body) => wire::read(status, &body).map(Some),
            (410, _) => Err(BoardError::RunClosed),
            (status, body) => Err(wire::read_error(status, &body, &self.asked("", None))),
        }
    }

    fn request(&self, method: Method, rest: &[&str]) -> Result<Request> {
        let mut path = vec!["boards", self.shared.board.as_str()];
        path.extend(rest);
        let mut request = Request::new(method, self.shared.base.below(&path).map_err(unreachable)?);
        request = request.timeouts(self.shared.timeouts);
        if let Some(token) = &self.shared.token {
            request = request.bearer(token).map_err(unreachable)?;
        }
        Ok(request)
    }

    fn paged(&self, rest: &[&str], bounds: Bounds) -> Result<Request> {
        let mut request = self.request(Method::GET, rest)?;
        let from = bounds.from_sequence.to_string();
        request.url = request.url.with_query("from_sequence", &from).map_err(unreachable)?;
        if let Some(limit) = bounds.limit {
            request.url = request.url.with_query("limit", &limit.to_string()).map_err(unreachable)?;
        }
        Ok(request)
    }

    fn posted(&self, method: Method, rest: &[&str], body: &impl serde::Serialize) -> Result<Request> {
        let mut request = self.request(method, rest)?;
        let json = serde_json::to_vec(body).map_err(|error| BoardError::Protocol { problem: error.to_string() })?;
        request.body = json.into();
        request.header("content-type", "application/json").map_err(unreachable)
    }

    /// Sends a request until it is answered with something other than "try again".
    async fn send(&self, request: Request, may_repeat: bool) -> Result<(u16, Bytes)> {
        let Shared { client, policy, cancel, .. } = &*self.shared;
        let policy = if may_repeat { *policy } else { RetryPolicy::none() };
        let env = client.env();
        let sent = Retrying::new(&policy, env, cancel)
            .run(|_| {
                let request = request.clone();
                async move {
                    let response = client.send(request, cancel).await?;
                    let (status, headers) = (response.status, response.headers.clone());
                    let body = response.bytes(ANSWER_BYTES).await?;
                    if is_later(status) {
                        let wait = retry_after(&headers, Some(&body), env.now());
                        return Err(NotAnswered::Later { status, wait });
                    }
                    Ok((status.as_u16(), body))
                }
            })
            .await;
        sent.map_err(|problem| BoardError::Unreachable { problem: problem.to_string() })
    }

    fn asked<'a>(&'a self, region: &'a str, kind: Option<RegionKind>) -> Asked<'a> {
        Asked { board: self.shared.board.as_str(), agent: &self.shared.agent, region, kind, ..Asked::default() }
    }

    async fn read<T: serde::de::DeserializeOwned>(&self, request: Request, asked: &Asked<'_>) -> Result<T> {
        match self.send(request, true).await? {
            (status @ 200, body) => wire::read(status, &body),
            (status, body) => Err(wire::read_error(status, &body, asked)),
        }
    }
}

/// The statuses that say "try again".
fn is_later(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429) || status.is_server_error()
}

/// Why an attempt came to nothing.
enum NotAnswered {
    Net(NetError),
    Later { status: StatusCode, wait: Option<Duration> },
}

impl fmt::Display for NotAnswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAnswered::Net(error) => error.fmt(f),
            NotAnswered::Later { status, .. } => write!(f, "its server answered with status {status}"),
        }
    }
}

impl From<NetError> for NotAnswered {
    fn from(error: NetError) -> Self {
        NotAnswered::Net(error)
    }
}

impl Retryable for NotAnswered {
    fn verdict(&self) -> Verdict {
        match self {
            NotAnswered::Net(error) => error.verdict(),
            NotAnswered::Later { wait, .. } => Verdict::Retry { wait: *wait },
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn unreachable(error: NetError) -> BoardError {
    BoardError::Unreachable { problem: error.to_string() }
}

#[async_trait]
impl AgentBoard for BoardClient {
    fn board_id(&self) -> &BoardId {
        &self.shared.board
    }

    fn agent(&self) -> &str {
        &self.shared.agent
    }

    async fn read_regions(&self) -> Result<Vec<Region>> {
        let request = self.request(Method::GET, &["regions"])?;
        Ok(self.read::<wire::RegionsBody>(request, &self.asked("", None)).await?.into_regions())
    }

    async fn read_level(&self, level: &str, bounds: Bounds) -> Result<Page<Contribution>> {
        let request = self.paged(&["levels", level], bounds)?;
        let asked = self.asked(level, Some(RegionKind::Level));
        let body: wire::LevelBody = self.read(request, &asked).await?;
        Ok(Page { items: body.contributions, has_more: body.has_more })
    }

    async fn read_premise(&self, premise: &str) -> Result<PremiseState> {
        let request = self.request(Method::GET, &["premises", premise])?;
        let asked = self.asked(premise, Some(RegionKind::Premise));
        self.read(request, &asked).await
    }

    async fn read_board(&self, bounds: Bounds) -> Result<Page<Change>> {
        let request = self.paged(&["changes"], bounds)?;
        let body: wire::ChangesBody = self.read(request, &self.asked("", None)).await?;
        Ok(Page { items: body.changes, has_more: body.has_more })
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteResult> {
        let key = request.idempotency_key.as_deref();
        let body = WriteBody {
            writer: &self.shared.agent,
            content: &request.content,
            level: &request.level,
            idempotency_key: key,
        };
        let sent = self.posted(Method::POST, &["levels", &request.level], &body)?;
        let (status, answer) = self.send(sent, key.is_some()).await?;
        let asked = Asked { key: key.unwrap_or_default(), ..self.asked(&request.level, Some(RegionKind::Level)) };
        wire::read_write_answer(status, &answer, &asked)
    }

    async fn set_premise(&self, request: SetRequest) -> Result<WriteResult> {
        let key = request.idempotency_key.as_deref();
        let body = SetBody {
            writer: &self.shared.agent,
            value: &request.value,
            expected_version: request.expected_version,
            premise: &request.premise,
            idempotency_key: key,
        };
        let sent = self.posted(Method::PUT, &["premises", &request.premise], &body)?;
        let (status, answer) = self.send(sent, key.is_some()).await?;
        let asked = self.asked(&request.premise, Some(RegionKind::Premise));
        let asked = Asked { key: key.unwrap_or_default(), is_set: true, ..asked };
        wire::read_write_answer(status, &answer, &asked)
    }

    async fn ack(&self, notification_id: u64) -> Result<()> {
        let body = AckBody { agent: &self.shared.agent, notification_id };
        let sent = self.posted(Method::POST, &["acknowledgements"], &body)?;
        match self.send(sent, true).await? {
            (200 | 204, _) => Ok(()),
            (status, answer) => {
                let asked = Asked { notification: notification_id, ..self.asked("", None) };
                Err(wire::read_error(status, &answer, &asked))
            }
        }
    }
}

impl fmt::Debug for BoardClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoardClient")
            .field("base", &self.shared.base)
            .field("board", &self.shared.board)
            .field("agent", &self.shared.agent)
            .finish_non_exhaustive()
    }
}
