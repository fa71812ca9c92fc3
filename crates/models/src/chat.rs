//! The adapter for servers that speak OpenAI Chat: [`placet_wire::openai_chat`] over [`placet_net`].

use crate::credential::{Credential, Lookup};
use crate::provider::{AskContext, ModelListing, ModelProvider, TurnStream};
use crate::vendor::{Quirk, Vendor, dialect};
use async_trait::async_trait;
use futures_util::{Stream, StreamExt};
use http::StatusCode;
use placet_core::event::RetryStarted;
use placet_core::redact::SecretRegistry;
use placet_core::{Diagnose, Env, ErrorKind, ProviderError, ProviderId, Redactor, Secret, TurnEvent, TurnRequest};
use placet_net::{
    Attempt, Body, Client, NetError, Request, Response, RetryPolicy, Retryable, Retrying, Timeouts, Url, Verdict,
    classify, retry_after,
};
use placet_wire::openai_chat::{self, Dialect, EventDecoder};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How much of an error's body is read.
const ERROR_BYTES: usize = 64 * 1024;
/// How large an answer that is not streamed may be.
const ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// How much of an error's body is kept, of its message, and of a body that is no answer within a message.
const RAW_BYTES: usize = 4096;
const MESSAGE_BYTES: usize = 2048;
const EXCERPT_CHARS: usize = 200;
/// How long the end of a body is waited for after the answer has ended.
const GRACE: Duration = Duration::from_millis(100);

/// How a server is reached.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChatOptions {
    /// The provider's id.
    pub id: ProviderId,
    /// Where the server is, up to and including `/v1`.
    pub base_url: Url,
    /// Where its credential comes from; sent as `authorization: Bearer …`.
    pub credential: Credential,
    /// How it differs from a server that takes everything.
    pub quirks: Vec<Quirk>,
    /// How models differ further whose names begin so.
    pub model_quirks: Vec<(String, Vec<Quirk>)>,
    /// Timeouts; absent ones are the client's.
    pub timeouts: Option<Timeouts>,
    /// When a request is sent again. Never after the first event of an answer.
    pub retry: RetryPolicy,
}

impl ChatOptions {
    /// A server at `base_url` that needs no credential.
    ///
    /// # Errors
    /// [`ProviderError`] of kind *wiring* where `base_url` is none.
    pub fn new(id: &str, base_url: &str) -> Result<Self, ProviderError> {
        let id = ProviderId::new(id);
        let base_url = Url::parse(base_url).map_err(|error| {
            ProviderError::new(ErrorKind::Wiring, id.clone(), error.to_string())
                .with_hint("give the base URL of the API, for example http://127.0.0.1:8080/v1")
        })?;
        Ok(ChatOptions {
            id,
            base_url,
            credential: Credential::None,
            quirks: Vec::new(),
            model_quirks: Vec::new(),
            timeouts: None,
            retry: RetryPolicy::default(),
        })
    }

    /// A vendor of the table, at the place and with the key that `lookup` knows.
    ///
    /// # Errors
    /// [`ProviderError`] of kind *wiring* that names the variable whose base URL is none.
    pub fn of_vendor(vendor: &'static Vendor, lookup: &Lookup) -> Result<Self, ProviderError> {
        let (base_url, said_by) = vendor_base_url(vendor, lookup);
        let mut options = ChatOptions::new(vendor.id, &base_url).map_err(|mut error| {
            if let Some(name) = said_by {
                error.message = format!("{name}: {}", error.message);
            }
            error
        })?;
        options.credential = Credential::Variables {
            names: vendor.key_variables.iter().map(|name| (*name).to_owned()).collect(),
            // A server of one's own may need none.
            is_required: vendor.is_key_required && base_url == vendor.base_url,
            lookup: lookup.clone(),
        };
        options.quirks = vendor.quirks.to_vec();
        options.model_quirks =
            vendor.models.iter().map(|(beginning, quirks)| ((*beginning).to_owned(), quirks.to_vec())).collect();
        if base_url != vendor.base_url {
            options.limit_output_as_others_do();
        }
        Ok(options)
    }

    /// Servers that are compatible with a vendor know the older name of the limit on output; some pass over the newer one
    /// in silence, and the limit would be lost. Models of the vendor's own that stand behind such a server still need it.
    fn limit_output_as_others_do(&mut self) {
        let before = self.quirks.len();
        self.quirks.retain(|quirk| *quirk != Quirk::MaxCompletionTokens);
        if self.quirks.len() < before {
            self.model_quirks.iter_mut().for_each(|(_, quirks)| quirks.push(Quirk::MaxCompletionTokens));
        }
    }

    fn dialect(&self, model: &str) -> Dialect {
        let own = self.model_quirks.iter().filter(|(beginning, _)| model.starts_with(beginning));
        dialect(&self.id, self.quirks.iter().chain(own.flat_map(|(_, quirks)| quirks)))
    }
}

/// Where the server of a vendor is, and the variable that says so: the first of its variables that is set, else the
/// vendor's own place and no variable.
#[must_use]
pub fn vendor_base_url(vendor: &Vendor, lookup: &Lookup) -> (String, Option<&'static str>) {
    let said = vendor.base_url_variables.iter().find_map(|name| {
        let value = lookup(name)?.trim().to_owned();
        (!value.is_empty()).then_some((*name, value))
    });
    match said {
        Some((name, value)) if name == "OLLAMA_HOST" => (ollama_base_url(&value), Some(name)),
        Some((name, value)) => (value, Some(name)),
        None => (vendor.base_url.to_owned(), None),
    }
}

/// The base URL that an `OLLAMA_HOST` means: a host, a host and port, a port after a colon, or a URL. An address that a
/// server listens on everywhere with is reached at this machine.
#[must_use]
pub fn ollama_base_url(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    let is_bare_v6 = authority.matches(':').count() > 1 && !authority.contains(']');
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !is_bare_v6 && !port.contains(']') => (name, port),
        _ => (authority, if scheme == "https" { "443" } else { "11434" }),
    };
    let name = match name {
        "" | "0.0.0.0" | "[::]" | "::" => "127.0.0.1".to_owned(),
        name if is_bare_v6 => format!("[{name}]"),
        name => name.to_owned(),
    };
    let path = if path.is_empty() { "v1" } else { path };
    format!("{scheme}://{name}:{port}/{path}")
}

/// A server that speaks OpenAI Chat.
#[derive(Debug)]
pub struct ChatProvider {
    options: ChatOptions,
    client: Client,
}

impl ChatProvider {
    /// A provider that sends through `client`.
    #[must_use]
    pub fn new(options: ChatOptions, client: Client) -> Arc<Self> {
        Arc::new(ChatProvider { options, client })
    }

    /// Where the server is.
    #[must_use]
    pub fn base_url(&self) -> &Url {
        &self.options.base_url
    }

    fn request(&self, path: &str, body: Option<&bytes::Bytes>, key: Option<&Secret>) -> Result<Request, NetError> {
        let url = self.options.base_url.join(path)?;
        let mut request = match body {
            Some(body) => Request::post_json(url, body.clone()),
            None => Request::get(url),
        };
        request.timeouts = self.options.timeouts;
        match key {
            Some(key) => request.bearer(key),
            None => Ok(request),
        }
    }

    /// Sends until an answer begins well, tries run out, or trying again is no use.
    async fn answer(&self, asked: &Asked<'_>, body: &bytes::Bytes) -> Result<TurnStream, ProviderError> {
        let request = self.request("chat/completions", Some(body), asked.key.as_ref());
        let request = request.map_err(|error| asked.net_error(&error))?;
        let attempt = |attempt: placet_net::Try| {
            let mut request = request.clone();
            if let (Some(remaining), Some(timeouts)) = (attempt.remaining, request.timeouts) {
                request.timeouts = Some(timeouts.within(remaining));
            }
            async move { self.attempt(asked, request).await }
        };
        let mut retrying = Retrying::new(&self.options.retry, &asked.context.env, &asked.context.cancel);
        if let Some(whole) = self.options.timeouts.and_then(|timeouts| timeouts.whole) {
            retrying = retrying.within(whole);
        }
        let report = |attempt: &Attempt| {
            if let (Ok(wait), Some(observer)) = (attempt.next, &asked.context.observer) {
                observer.retrying(&RetryStarted {
                    attempt: attempt.number + 1,
                    after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                    reason: attempt.cause.clone(),
                });
            }
        };
        let answered: Result<TurnStream, Failure> = retrying.reporting(report).run(attempt).await;
        answered.map_err(|failure| match failure {
            Failure::Net(error) => asked.net_error(&error),
            Failure::Provider(error, _) => *error,
        })
    }

    /// One try: up to the first event of the answer.
    async fn attempt(&self, asked: &Asked<'_>, request: Request) -> Result<TurnStream, Failure> {
        let response = match self.client.send(request, &asked.context.cancel).await {
            Ok(response) => response,
            Err(error) => return Err(asked.failure(&error)),
        };
        if !response.status.is_success() {
            let (error, verdict) = asked.refused(response).await;
            return Err(Failure::Provider(Box::new(error), verdict));
        }
        let request_id = placet_wire::request_id(&response.headers);
        let decoder = openai_chat::decode_events(asked.dialect, asked.names.clone());
        if is_page(&response) {
            let page = response.excerpt(ERROR_BYTES).await;
            return Err(asked.early(openai_chat::decode_page(&asked.dialect.provider, &page.bytes), request_id));
        }
        if is_json(&response) {
            let body = response.bytes(ANSWER_BYTES).await.map_err(|error| asked.failure(&error))?;
            let events = openai_chat::decode_response(&asked.dialect.provider, asked.names.clone(), &body);
            let mut events = events.map_err(|error| asked.early(error, request_id.clone()))?;
            events.iter_mut().for_each(|event| name_request(event, request_id.as_deref()));
            return Ok(futures_util::stream::iter(events).boxed());
        }
        let mut reading = Reading {
            env: asked.context.env.clone(),
            body: Some(response.body),
            decoder,
            has_begun: false,
            ready: VecDeque::new(),
            redactor: asked.redactor(),
            provider: asked.dialect.provider.clone(),
            request_id,
        };
        match reading.next().await {
            // Nothing has been said yet, so it may be asked again.
            Some(TurnEvent::Failed(error)) => Err(asked.early(*error, reading.request_id)),
            Some(first) => Ok(futures_util::stream::iter([first]).chain(reading.stream()).boxed()),
            None => Ok(futures_util::stream::empty().boxed()),
        }
    }
}

#[async_trait]
impl ModelProvider for ChatProvider {
    fn id(&self) -> &ProviderId {
        &self.options.id
    }

    async fn ask(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<TurnStream, ProviderError> {
        let dialect = self.options.dialect(&request.model);
        let encoded = openai_chat::encode_request(&request, &dialect)?;
        if let Some(observer) = &context.observer {
            encoded.omitted.iter().for_each(|omission| observer.omitted(&omission.to_string()));
        }
        let key = self.options.credential.resolve(&self.options.id)?;
        let asked = Asked { dialect: &dialect, names: &encoded.names, key, context: &context };
        let mut stream = self.answer(&asked, &encoded.body).await;
        if let Err(error) = &mut stream {
            hint(error, &request.model, &self.options);
        }
        stream
    }

    async fn ready(&self, _model: &str) -> Result<(), ProviderError> {
        self.options.credential.resolve(&self.options.id).map(drop)
    }

    async fn models(&self, context: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        let dialect = self.options.dialect("");
        let key = self.options.credential.resolve(&self.options.id)?;
        let asked = Asked { dialect: &dialect, names: &Default::default(), key, context: &context };
        let request = self.request("models", None, asked.key.as_ref()).map_err(|error| asked.net_error(&error))?;
        let sent = self.client.send_retrying(request, &self.options.retry, &context.cancel, |_| {}).await;
        let response = sent.map_err(|error| asked.net_error(&error))?;
        if !response.status.is_success() {
            let (mut error, _) = asked.refused(response).await;
            hint(&mut error, "", &self.options);
            return Err(error);
        }
        let body = response.bytes(ANSWER_BYTES).await.map_err(|error| asked.net_error(&error))?;
        let models = openai_chat::decode_models(&self.options.id, &body).map_err(|error| asked.redacted(error))?;
        Ok(models.into_iter().map(|model| ModelListing { id: model.id, description: model.description }).collect())
    }
}

/// What belongs to one question.
struct Asked<'a> {
    dialect: &'a Dialect,
    names: &'a placet_wire::names::Names,
    key: Option<Secret>,
    context: &'a AskContext,
}

/// Why an attempt gave no answer.
enum Failure {
    Net(NetError),
    Provider(Box<ProviderError>, Verdict),
}

impl From<NetError> for Failure {
    fn from(error: NetError) -> Self {
        Failure::Net(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Net(error) => error.fmt(f),
            Failure::Provider(error, _) => match error.status {
                Some(status) => write!(f, "{} (status {status})", error.message),
                None => f.write_str(&error.message),
            },
        }
    }
}

impl Retryable for Failure {
    fn verdict(&self) -> Verdict {
        match self {
            Failure::Net(error) => error.verdict(),
            Failure::Provider(_, verdict) => verdict.clone(),
        }
    }
}

impl Asked<'_> {
    fn redactor(&self) -> Redactor {
        redactor(self.key.as_ref())
    }

    fn redacted(&self, error: ProviderError) -> ProviderError {
        redact(error, &self.redactor())
    }

    fn net_error(&self, error: &NetError) -> ProviderError {
        self.redacted(from_net(&self.dialect.provider, error))
    }

    fn failure(&self, error: &NetError) -> Failure {
        Failure::Provider(Box::new(self.net_error(error)), error.verdict())
    }

    /// An answer with an error's status.
    async fn refused(&self, response: Response) -> (ProviderError, Verdict) {
        let (status, headers) = (response.status, response.headers.clone());
        let body = response.excerpt(ERROR_BYTES).await;
        let now = self.context.env.now();
        let clean = self.redactor().redact_bytes(&body.bytes).into_owned();
        let mut error = openai_chat::decode_error(&self.dialect.provider, status.as_u16(), &headers, &clean);
        let wait = retry_after(&headers, Some(&body.bytes), now);
        error.retry_after_ms = wait.and_then(|wait| u64::try_from(wait.as_millis()).ok());
        let verdict = classify(status, &headers, Some(&body.bytes), now);
        (self.redacted(error), verdict)
    }

    /// An error before the first event of an answer whose status was good.
    fn early(&self, mut error: ProviderError, request_id: Option<String>) -> Failure {
        error.request_id = error.request_id.or(request_id);
        let verdict = if error.kind.is_transient() {
            Verdict::Retry { wait: error.retry_after() }
        } else {
            Verdict::Stop { because: "the error does not pass by itself" }
        };
        Failure::Provider(Box::new(self.redacted(error)), verdict)
    }
}

/// A body on its way to being events.
struct Reading {
    env: Env,
    body: Option<Body>,
    decoder: EventDecoder,
    /// Whether anything but spaces has come.
    has_begun: bool,
    ready: VecDeque<TurnEvent>,
    redactor: Redactor,
    provider: ProviderId,
    request_id: Option<String>,
}

impl Reading {
    async fn next(&mut self) -> Option<TurnEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.decoder.is_done() {
                self.give_back().await;
            }
            let piece = match &mut self.body {
                Some(body) => body.next().await,
                None => return None,
            };
            let mut events = Vec::new();
            match piece {
                Some(Ok(bytes)) if self.begins_a_page(&bytes) => {
                    self.body = None;
                    events.push(TurnEvent::Failed(Box::new(openai_chat::decode_page(&self.provider, &bytes))));
                }
                Some(Ok(bytes)) => self.decoder.push(&bytes, &mut events),
                Some(Err(error)) if !self.decoder.is_whole() => {
                    self.body = None;
                    events.push(TurnEvent::Failed(Box::new(from_net(&self.provider, &error))));
                }
                // A connection that breaks after the answer is whole took nothing with it.
                Some(Err(_)) | None => {
                    self.body = None;
                    self.decoder.end(&mut events);
                }
            }
            for mut event in events {
                name_request(&mut event, self.request_id.as_deref());
                if let TurnEvent::Failed(error) = &mut event {
                    **error = redact((**error).clone(), &self.redactor);
                }
                self.ready.push_back(event);
            }
        }
    }

    /// Whether an answer begins with these bytes that is a web page, whatever its headers say: no event begins with `<`.
    fn begins_a_page(&mut self, bytes: &[u8]) -> bool {
        let first = bytes.trim_ascii_start().first().filter(|_| !self.has_begun);
        self.has_begun |= first.is_some();
        first == Some(&b'<')
    }

    /// Reads the end of the body, which usually is here already, so that the connection can serve the next request. A server
    /// that does not end its body loses the connection instead.
    async fn give_back(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        let rest = async { while let Some(Ok(_)) = body.next().await {} };
        tokio::select! {
            () = rest => {}
            () = self.env.sleep(GRACE) => {}
        }
    }

    fn stream(self) -> impl Stream<Item = TurnEvent> + Send {
        futures_util::stream::unfold(
            self,
            |mut reading| async move { reading.next().await.map(|event| (event, reading)) },
        )
    }
}

/// Puts the id of the request where the answer names none of its own.
fn name_request(event: &mut TurnEvent, request_id: Option<&str>) {
    let place = match event {
        TurnEvent::Started(started) => &mut started.response_id,
        TurnEvent::Failed(error) => &mut error.request_id,
        _ => return,
    };
    if let (None, Some(id)) = (&place, request_id) {
        *place = Some(id.to_owned());
    }
}

fn is_json(response: &Response) -> bool {
    response.header("content-type").is_some_and(|kind| kind.trim_start().starts_with("application/json"))
}

fn is_page(response: &Response) -> bool {
    response
        .header("content-type")
        .is_some_and(|kind| kind.trim_start().get(..9).is_some_and(|kind| kind.eq_ignore_ascii_case("text/html")))
}

fn redactor(key: Option<&Secret>) -> Redactor {
    let mut secrets = SecretRegistry::new();
    if let Some(key) = key {
        secrets.register(key.clone());
    }
    secrets.redactor()
}

/// Takes secrets out of what a server said (some quote the key that they refuse), and only then cuts it: half a secret is
/// not recognised.
fn redact(mut error: ProviderError, redactor: &Redactor) -> ProviderError {
    let clean = |text: &mut String, most: usize| {
        if let std::borrow::Cow::Owned(clean) = redactor.redact_text(text) {
            *text = clean;
        }
        if text.len() > most {
            text.truncate(text.floor_char_boundary(most));
            text.push('…');
        }
    };
    clean(&mut error.message, MESSAGE_BYTES);
    error.hints.iter_mut().for_each(|hint| clean(hint, MESSAGE_BYTES));
    error.raw.iter_mut().for_each(|raw| clean(raw, RAW_BYTES));
    error.code.iter_mut().for_each(|code| clean(code, MESSAGE_BYTES));
    // What was expected is not there, so what is there says most.
    if let (ErrorKind::Protocol, Some(raw)) = (&error.kind, &error.raw) {
        let excerpt: String = raw.chars().take(EXCERPT_CHARS).collect();
        let excerpt = format!(": {excerpt:?}");
        // An error may come here a second time on its way.
        if !error.message.ends_with(&excerpt) {
            error.message.push_str(&excerpt);
        }
    }
    error
}

fn from_net(provider: &ProviderId, error: &NetError) -> ProviderError {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        cause = inner.source();
    }
    let mut failure = ProviderError::new(error.kind(), provider.clone(), message);
    failure.hints = error.hints();
    failure
}

/// What a person can do about an error of a server.
fn hint(error: &mut ProviderError, model: &str, options: &ChatOptions) {
    let hint = match (&error.kind, &options.credential) {
        (ErrorKind::Authentication | ErrorKind::Permission, Credential::Variables { names, .. }) => {
            format!("check the key in {}", names.join(" or "))
        }
        (ErrorKind::Authentication | ErrorKind::Permission, Credential::Given(secret)) if !secret.name().is_empty() => {
            format!("check the key in {}", secret.name())
        }
        (ErrorKind::NotFound, _) if !model.is_empty() => {
            format!("check that `{model}` is a model of this server, and that {} is its API", options.base_url)
        }
        (ErrorKind::NotFound, _) => format!("check that {} is the server's API", options.base_url),
        (ErrorKind::ContextLength, _) => "shorten the conversation, or use a model with a longer window".to_owned(),
        (ErrorKind::QuotaExhausted, _) => "look at the account's credit and limits; waiting does not help".to_owned(),
        _ => return,
    };
    if error.status.is_some_and(|status| status != StatusCode::OK.as_u16()) {
        error.hints.push(hint);
    }
}

#[cfg(test)]
mod tests;
