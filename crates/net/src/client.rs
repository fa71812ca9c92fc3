//! The client: settings, the pool, sending.

use crate::connect::{Connector, authority, net_error_in};
use crate::direct::{Driven, Idle, Keeping, Pool as DirectPool, Unsent};
use crate::guard::{AddressPolicy, Resolver, SystemResolver};
use crate::headers::mark_sensitive_headers;
use crate::request::Pieces;
use crate::response::{Body, Watch};
use crate::retry::{Attempt, RetryPolicy, Retryable, Retrying, Try, Verdict, classify};
use crate::tls::{Trust, read_certificates};
use crate::{Cause, NetError, ProxySettings, Request, Response, TimeoutKind, Timeouts};
use http::HeaderValue;
use http::header::{AUTHORIZATION, HOST, PROXY_AUTHORIZATION, USER_AGENT};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::Error as PoolError;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use hyper_util::rt::TokioTimer;
use placet_core::{BoxFuture, Env};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How much of an error's body is read to find out whether to try again.
const HINT_BYTES: usize = 64 * 1024;

/// How a [`Client`] is set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Sent as `user-agent` where a request has none.
    pub user_agent: String,
    /// Proxies.
    pub proxies: ProxySettings,
    /// PEM files of certificates to trust beside the system's. Read when the client is built.
    pub certificate_files: Vec<PathBuf>,
    /// Whether the system's certificates are trusted (or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`, if set).
    pub system_certificates: bool,
    /// Which machines may be reached. Off by default: a configured model server may well be `localhost`.
    pub address_policy: Option<AddressPolicy>,
    /// Who resolves names.
    pub resolver: Arc<dyn Resolver>,
    /// Timeouts of requests that set none.
    pub timeouts: Timeouts,
    /// Idle connections kept for one host.
    pub idle_connections: usize,
    /// How long an idle connection is kept.
    pub idle_connection_timeout: Duration,
    /// Whether HTTP/2 is offered to https servers.
    pub http2: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            user_agent: concat!("placet/", env!("CARGO_PKG_VERSION")).to_owned(),
            proxies: ProxySettings::none(),
            certificate_files: Vec::new(),
            system_certificates: true,
            address_policy: None,
            resolver: Arc::new(SystemResolver),
            timeouts: Timeouts::default(),
            idle_connections: 256,
            idle_connection_timeout: Duration::from_secs(90),
            http2: true,
        }
    }
}

impl ClientOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        ClientOptions::default()
    }

    /// Sets the user agent.
    #[must_use]
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// Sets the proxies.
    #[must_use]
    pub fn proxies(mut self, proxies: ProxySettings) -> Self {
        self.proxies = proxies;
        self
    }

    /// Trusts the certificates of one more PEM file.
    #[must_use]
    pub fn certificate_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.certificate_files.push(path.into());
        self
    }

    /// Sets whether the system's certificates are trusted.
    #[must_use]
    pub fn system_certificates(mut self, trusted: bool) -> Self {
        self.system_certificates = trusted;
        self
    }

    /// Sets which machines may be reached.
    #[must_use]
    pub fn address_policy(mut self, policy: AddressPolicy) -> Self {
        self.address_policy = Some(policy);
        self
    }

    /// Sets who resolves names.
    #[must_use]
    pub fn resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Sets the timeouts of requests that set none.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }
}

/// Sends requests over pooled connections. Cheap to clone; clones share the pool.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Pool<Connector, Pieces>,
    connector: Connector,
    /// Connections of plain HTTP that nobody uses at present.
    idle: Arc<Idle>,
    options: ClientOptions,
    user_agent: HeaderValue,
    trust: Arc<Trust>,
    env: Env,
}

impl Client {
    /// A client. Opens nothing and reads nothing but the certificate files that the options name.
    ///
    /// # Errors
    /// [`NetError::InvalidSetting`] when a certificate file or the user agent cannot be used.
    pub fn new(options: ClientOptions, env: Env) -> crate::Result<Self> {
        let mut extra = Vec::new();
        for path in &options.certificate_files {
            extra.extend(read_certificates(path)?);
        }
        let trust = Arc::new(Trust::new(extra, options.system_certificates, options.http2, env.clone()));
        Client::build(options, trust, env)
    }

    /// A client like this one that reaches only what `policy` lets it. It shares the trusted certificates and has a pool of
    /// its own, so that no connection made without the policy serves it.
    ///
    /// # Errors
    /// None that building this client has not already passed.
    pub fn guarded(&self, policy: AddressPolicy) -> crate::Result<Self> {
        let options = self.inner.options.clone().address_policy(policy);
        Client::build(options, self.inner.trust.clone(), self.inner.env.clone())
    }

    fn build(options: ClientOptions, trust: Arc<Trust>, env: Env) -> crate::Result<Self> {
        let user_agent = HeaderValue::try_from(&options.user_agent).map_err(|error| NetError::InvalidSetting {
            setting: "the user agent".to_owned(),
            reason: "it holds characters that no header may hold".to_owned(),
            cause: Some(Arc::new(error)),
        })?;
        let policy = options.address_policy.clone().map(Arc::new);
        let connector = Connector::new(options.resolver.clone(), options.proxies.clone(), policy, trust.clone());
        #[expect(clippy::disallowed_methods, reason = "the one place that builds an HTTP client")]
        let mut builder = Pool::builder(Background { env: env.clone() });
        let pool = builder
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(options.idle_connection_timeout)
            .pool_max_idle_per_host(options.idle_connections)
            .build(connector.clone());
        Ok(Client { inner: Arc::new(Inner { pool, connector, idle: Arc::default(), options, user_agent, trust, env }) })
    }

    /// Sends a request and waits for the head of its answer. Any status is an answer. Redirects are not followed.
    ///
    /// `cancel` also ends the reading of the body. Cancelling closes the connection.
    ///
    /// # Errors
    /// A [`NetError`] of connecting, sending or waiting.
    pub async fn send(&self, request: Request, cancel: &CancellationToken) -> crate::Result<Response> {
        let timeouts = request.timeouts.unwrap_or(self.inner.options.timeouts);
        let deadline = self.deadline(&timeouts);
        self.send_until(request, &timeouts, deadline, Some(cancel)).await
    }

    /// As [`Client::send`], for whoever cancels by dropping: the future, or the body of the answer.
    ///
    /// # Errors
    /// As [`Client::send`], but for the cancelling.
    pub async fn send_until_dropped(&self, request: Request) -> crate::Result<Response> {
        let timeouts = request.timeouts.unwrap_or(self.inner.options.timeouts);
        let deadline = self.deadline(&timeouts);
        self.send_until(request, &timeouts, deadline, None).await
    }

    /// Says of a URL what the address policy has against it before its host is resolved: that it is an address inside our own
    /// network, or this machine by its very name. Where it says nothing, sending may still be refused.
    ///
    /// # Errors
    /// [`NetError::AddressRefused`].
    pub fn check_url(&self, url: &crate::Url) -> crate::Result<()> {
        self.inner.options.address_policy.as_ref().map_or(Ok(()), |policy| policy.check_unresolved(url.host()))
    }

    /// When a request that starts now must be done, as a steady instant, and the length of that timeout.
    fn deadline(&self, timeouts: &Timeouts) -> Option<(Duration, Duration)> {
        timeouts.whole.map(|whole| (self.inner.env.clock().steady().saturating_add(whole), whole))
    }

    async fn send_until(
        &self,
        request: Request,
        timeouts: &Timeouts,
        deadline: Option<(Duration, Duration)>,
        cancel: Option<&CancellationToken>,
    ) -> crate::Result<Response> {
        if cancel.is_some_and(CancellationToken::is_cancelled) {
            return Err(NetError::Cancelled);
        }
        let inner = &*self.inner;
        let mut request = self.prepare(request);
        let uri = request.uri().clone();
        if inner.connector.is_plain(&uri) {
            let answer = self.send_plainly(request, &uri, timeouts, deadline, cancel).await?;
            let (parts, driven) = answer.into_parts();
            let watch = Watch::new(inner.env.clock().clone(), timeouts.idle, deadline, cancel.cloned());
            let body = Body::driven(driven, &parts.headers, uri.into_parts().authority, watch);
            return Ok(Response { status: parts.status, headers: parts.headers, version: parts.version, body });
        }
        let captured = timeouts.connect.map(|limit| (limit, capture_connection(&mut request)));
        let sending = inner.pool.request(request);
        let answer = tokio::select! {
            biased;
            answer = sending => answer.map_err(|error| sending_error(authority(&uri), error))?,
            (which, after) = self.too_late(captured, timeouts.first_byte, deadline) => {
                return Err(NetError::Timeout { which, after, authority: authority(&uri) });
            }
            () = cancelled(cancel) => return Err(NetError::Cancelled),
        };
        let (parts, incoming) = answer.into_parts();
        let watch = Watch::new(inner.env.clock().clone(), timeouts.idle, deadline, cancel.cloned());
        let body = Body::new(incoming, &parts.headers, uri.into_parts().authority, watch);
        Ok(Response { status: parts.status, headers: parts.headers, version: parts.version, body })
    }

    /// Sends by plain HTTP/1.1, over a connection that the reader of the answer drives.
    async fn send_plainly(
        &self,
        mut request: http::Request<Pieces>,
        uri: &http::Uri,
        timeouts: &Timeouts,
        deadline: Option<(Duration, Duration)>,
        cancel: Option<&CancellationToken>,
    ) -> crate::Result<http::Response<Driven>> {
        let inner = &*self.inner;
        let Some(host) = uri.authority().cloned() else {
            return Err(NetError::InvalidUrl { url: uri.to_string(), reason: "it names no host".to_owned() });
        };
        if let Some(path) = uri.path_and_query().cloned() {
            *request.uri_mut() = path.into();
        }
        if !request.headers().contains_key(HOST) {
            let name = if host.port_u16() == Some(80) { host.host() } else { host.as_str() };
            if let Ok(value) = HeaderValue::from_str(name) {
                request.headers_mut().insert(HOST, value);
            }
        }
        let keeping = Keeping { most: inner.options.idle_connections, span: inner.options.idle_connection_timeout };
        loop {
            let pool = DirectPool { idle: inner.idle.clone(), clock: inner.env.clock().clone(), keeping };
            let (live, was_idle) = match pool.idle(&host).await {
                Some(live) => (live, true),
                None => {
                    inner.idle.sweep(inner.env.clock().steady(), keeping.span);
                    let connecting = DirectPool::connect(&inner.connector, uri.clone());
                    let made = tokio::select! {
                        biased;
                        made = connecting => made.map_err(|unsent| plain_error(&host, unsent))?,
                        (which, after) = self.too_late_for(TimeoutKind::Connect, timeouts.connect, deadline) => {
                            return Err(NetError::Timeout { which, after, authority: host.to_string() });
                        }
                        () = cancelled(cancel) => return Err(NetError::Cancelled),
                    };
                    (made, false)
                }
            };
            let answer = tokio::select! {
                biased;
                answer = pool.send(live, host.clone(), request) => answer,
                (which, after) = self.too_late_for(TimeoutKind::FirstByte, timeouts.first_byte, deadline) => {
                    return Err(NetError::Timeout { which, after, authority: host.to_string() });
                }
                () = cancelled(cancel) => return Err(NetError::Cancelled),
            };
            match answer {
                Ok(answer) => return Ok(answer),
                // It was closed while it was idle, and nothing of the request was sent.
                Err((_, Some(unsent))) if was_idle => request = unsent,
                Err((unsent, _)) => return Err(plain_error(&host, unsent)),
            }
        }
    }

    /// Completes when a phase has taken too long, or everything has.
    async fn too_late_for(
        &self,
        which: TimeoutKind,
        limit: Option<Duration>,
        deadline: Option<(Duration, Duration)>,
    ) -> (TimeoutKind, Duration) {
        let env = &self.inner.env;
        let phase = limit.map(|limit| (limit, which, limit));
        let whole = deadline.map(|(at, whole)| (at.saturating_sub(env.clock().steady()), TimeoutKind::Whole, whole));
        match [phase, whole].into_iter().flatten().min_by_key(|(span, ..)| *span) {
            Some((span, which, after)) => {
                env.sleep(span).await;
                (which, after)
            }
            None => std::future::pending().await,
        }
    }

    /// Sends a request again while `policy` says so: on errors and statuses that may pass, before a body is handed out. The
    /// answer's status may be an error's: the last one, or one that trying again does not mend; its body is whole.
    ///
    /// The timeout of the whole request covers all attempts and the waits between them. `report` hears of every attempt that
    /// failed.
    ///
    /// # Errors
    /// As [`Client::send`], from the last attempt.
    pub async fn send_retrying(
        &self,
        request: Request,
        policy: &RetryPolicy,
        cancel: &CancellationToken,
        report: impl FnMut(&Attempt) + Send,
    ) -> crate::Result<Response> {
        let timeouts = request.timeouts.unwrap_or(self.inner.options.timeouts);
        let deadline = self.deadline(&timeouts);
        let mut retrying = Retrying::new(policy, &self.inner.env, cancel).reporting(report);
        if let Some(whole) = timeouts.whole {
            retrying = retrying.within(whole);
        }
        let attempt = |attempt: Try| {
            let (request, timeouts) = (request.clone(), &timeouts);
            async move {
                let answer = self.send_until(request, timeouts, deadline, Some(cancel)).await;
                let mut response = answer.map_err(NoAnswer::Error)?;
                let now = self.inner.env.now();
                let verdict = |response: &Response, hint| classify(response.status, &response.headers, hint, now);
                if attempt.is_last || !matches!(verdict(&response, None), Verdict::Retry { .. }) {
                    return Ok(response);
                }
                let hint = response.body.peek(HINT_BYTES).await;
                match verdict(&response, Some(&hint.bytes)) {
                    Verdict::Stop { .. } => Ok(response),
                    verdict @ Verdict::Retry { .. } => Err(NoAnswer::Status(Box::new(response), verdict)),
                }
            }
        };
        let answer = retrying.run(attempt).await;
        match answer {
            Ok(response) => Ok(response),
            Err(NoAnswer::Status(response, _)) => Ok(*response),
            Err(NoAnswer::Error(error)) => Err(error),
        }
    }

    /// The environment that the client was given.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    fn prepare(&self, request: Request) -> http::Request<Pieces> {
        let user = request.url.basic_authorization();
        let mut prepared = http::Request::new(Pieces::new(request.body, request.rest));
        *prepared.method_mut() = request.method;
        *prepared.uri_mut() = request.url.uri().clone();
        let headers = prepared.headers_mut();
        *headers = request.headers;
        mark_sensitive_headers(headers);
        headers.entry(USER_AGENT).or_insert_with(|| self.inner.user_agent.clone());
        if let Some(user) = user {
            headers.entry(AUTHORIZATION).or_insert(user);
        }
        // A proxy that forwards reads its own authorization from each request; one that tunnels has had it by then.
        if !request.url.is_https()
            && let Some(proxy) = self.inner.options.proxies.route(request.url.uri())
            && let Some(user) = proxy.basic_auth()
        {
            headers.entry(PROXY_AUTHORIZATION).or_insert_with(|| user.clone());
        }
        prepared
    }

    /// Completes when the request has waited too long for a connection, for its answer or in all.
    async fn too_late(
        &self,
        captured: Option<(Duration, CaptureConnection)>,
        first_byte: Option<Duration>,
        deadline: Option<(Duration, Duration)>,
    ) -> (TimeoutKind, Duration) {
        let env = &self.inner.env;
        // What ends first: this phase, or the time for everything.
        let nearer = |which: TimeoutKind, limit: Option<Duration>| {
            let phase = limit.map(|limit| (limit, which, limit));
            let whole =
                deadline.map(|(at, whole)| (at.saturating_sub(env.clock().steady()), TimeoutKind::Whole, whole));
            [phase, whole].into_iter().flatten().min_by_key(|(span, ..)| *span)
        };
        if let Some((limit, mut captured)) = captured
            // A pooled connection is there at once and needs no timer.
            && captured.connection_metadata().is_none()
            && let Some((span, which, after)) = nearer(TimeoutKind::Connect, Some(limit))
        {
            tokio::select! {
                biased;
                _ = captured.wait_for_connection_metadata() => {}
                () = env.sleep(span) => return (which, after),
            }
        }
        match nearer(TimeoutKind::FirstByte, first_byte) {
            Some((span, which, after)) => {
                env.sleep(span).await;
                (which, after)
            }
            None => std::future::pending().await,
        }
    }
}

/// Completes when a token is cancelled; never without one.
async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

/// Why an attempt gave no answer to hand on.
enum NoAnswer {
    Error(NetError),
    Status(Box<Response>, Verdict),
}

impl From<NetError> for NoAnswer {
    fn from(error: NetError) -> Self {
        NoAnswer::Error(error)
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::Error(error) => error.fmt(f),
            NoAnswer::Status(response, _) => write!(f, "status {}", response.status),
        }
    }
}

impl Retryable for NoAnswer {
    fn verdict(&self) -> Verdict {
        match self {
            NoAnswer::Error(error) => error.verdict(),
            NoAnswer::Status(_, verdict) => verdict.clone(),
        }
    }
}

/// An error of a plain connection.
fn plain_error(host: &http::uri::Authority, unsent: Unsent) -> NetError {
    let authority = host.to_string();
    match unsent {
        Unsent::Connect(error) => error,
        Unsent::Broke(error) if error.is_parse() || error.is_user() => {
            NetError::Protocol { authority, cause: Arc::new(error) }
        }
        Unsent::Broke(error) => NetError::Interrupted { authority, received: 0, cause: Arc::new(error) },
    }
}

/// An error of the pool, by what lies underneath.
fn sending_error(authority: String, error: PoolError) -> NetError {
    if let Some(known) = net_error_in(&error) {
        return known;
    }
    let is_connect = error.is_connect();
    let http = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<hyper::Error>());
    let (is_parse, is_ours) = http.map_or((false, false), |error| (error.is_parse(), error.is_user()));
    let cause: Cause = Arc::new(error);
    match () {
        () if is_connect => NetError::Connect { authority, cause },
        () if is_parse || is_ours => NetError::Protocol { authority, cause },
        () => NetError::Interrupted { authority, received: 0, cause },
    }
}

/// Runs the pool's connections as tasks of the environment.
#[derive(Clone)]
struct Background {
    env: Env,
}

impl hyper::rt::Executor<BoxFuture<'static, ()>> for Background {
    fn execute(&self, connection: BoxFuture<'static, ()>) {
        self.env.tasks().spawn("http connection", connection);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("options", &self.inner.options).finish_non_exhaustive()
    }
}
