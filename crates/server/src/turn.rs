//! A turn of a model: found by its name, asked at its targets, handed on or translated.

use crate::account::Account;
use crate::body::Body;
use crate::config::ErrorClass;
use crate::endpoint::Endpoint;
use crate::gateway::{Gateway, Heading, PROVIDER, ROUTE, Snapshot};
use crate::headers::{answer_headers, request_headers, trace};
use crate::limiter::Asked as AskedFor;
use crate::metrics::Outcome;
use crate::passage::Passing;
use crate::principal::Principal;
use crate::refusal::Refusal;
use crate::routing::{Asked, Route, RouteKind, Target, Upstream};
use crate::telling;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use placet_core::{Diagnose as _, ErrorKind};
use placet_net::{NetError, Request as Sent, Url, retry_after};
use placet_wire::passing::{Edit, Outline, Speech, Watch, holds_native, holds_sealed, splice, splice_apart};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// How much of an error's body is read.
const ERROR_BYTES: usize = 64 << 10;
/// How much of an answer that is no stream is waited for before its head is sent.
pub(crate) const HELD: usize = 64 << 10;

/// From how many bytes on a body is sent in pieces rather than copied.
const LONG: usize = 8 << 10;

/// A request for a turn, read as far as it must be.
pub(crate) struct TurnAsked {
    pub(crate) body: Bytes,
    pub(crate) outline: Outline,
    pub(crate) speech: Speech,
    /// Whether the answer is wanted as a stream.
    pub(crate) stream: bool,
    /// Whether that stream is one JSON list instead of events (Gemini).
    pub(crate) is_array: bool,
    /// The client's query, without a key in it.
    pub(crate) query: Option<String>,
    /// What of the client's head goes on.
    pub(crate) headers: HeaderMap,
}

/// Why a target gave no answer.
pub(crate) struct Missed {
    pub(crate) refusal: Refusal,
    /// What sort of failure it is, where the next target may do better.
    pub(crate) class: Option<ErrorClass>,
    /// How long the target asks to be left alone.
    pub(crate) wait: Option<Duration>,
    /// The answer that the target gave instead, ready to be handed on.
    pub(crate) response: Option<Box<Response<Body>>>,
    /// What went wrong, for whoever runs the gateway: the words of whoever failed, without credentials.
    pub(crate) problem: Option<String>,
    /// Whether it is a refusal of ours, and nobody was asked.
    pub(crate) is_ours: bool,
}

impl Gateway {
    pub(crate) async fn turn(
        self: &Arc<Self>,
        snapshot: Arc<Snapshot>,
        heading: &mut Heading,
        endpoint: &Endpoint<'_>,
        principal: Arc<Principal>,
        place: OwnedSemaphorePermit,
        body: Bytes,
    ) -> Result<Response<Body>, Refusal> {
        let speech = heading.speech;
        let outline = Outline::read(&body)?;
        let (model, stream) = match endpoint {
            Endpoint::GeminiTurn { model, stream } => (placet_net::percent_decoded(model), *stream),
            _ => (named_model(&outline, &body)?, outline.stream == Some(true)),
        };
        let route = self.permitted(&snapshot, &principal, &model).inspect_err(|_| heading.model = Some(cut(&model)))?;
        let account = self.account(heading, principal, route.clone(), &model, place, body.len())?;
        let query = passed_query(heading.path_and_query.query());
        let headers = request_headers(std::mem::take(&mut heading.headers), &account);
        let is_sse = query.as_deref().is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
        let is_array = speech == Speech::Gemini && stream && !is_sse;
        let asked = TurnAsked { outline, speech, stream, is_array, query, headers, body };
        self.ask(&snapshot, &route, asked, account).await
    }

    /// The route of a model, if this key may use it.
    pub(crate) fn permitted(
        &self,
        snapshot: &Snapshot,
        principal: &Principal,
        model: &str,
    ) -> Result<Arc<Route>, Refusal> {
        if !principal.may_use(model) {
            return Err(Refusal::no_model(model));
        }
        snapshot.routing.find(model).ok_or_else(|| Refusal::no_model(model))
    }

    pub(crate) fn account(
        self: &Arc<Self>,
        heading: &mut Heading,
        principal: Arc<Principal>,
        route: Arc<Route>,
        model: &str,
        place: OwnedSemaphorePermit,
        bytes: usize,
    ) -> Result<Account, Refusal> {
        let reservation = self.limiter.before(&principal, &AskedFor::new(model, bytes)).inspect_err(|_| {
            heading.model = Some(cut(model));
        })?;
        heading.is_accounted = true;
        self.metrics.in_flight.fetch_add(1, Ordering::Relaxed);
        Ok(Account {
            gateway: self.clone(),
            principal,
            model: (model != &*route.name).then(|| cut(model)),
            route,
            target: 0,
            id: heading.id,
            at: self.env.now(),
            started: heading.started,
            speech: heading.speech,
            status: 0,
            first: None,
            fallbacks: 0,
            trace: trace(&heading.headers),
            tools: Vec::new(),
            reservation,
            usage: None,
            tab: None,
            problem: None,
            is_hook: false,
            is_closed: false,
            place: Some(place),
        })
    }

    /// Asks the targets of a route, one after the other, until one answers. Nothing of an answer has been handed on while
    /// this goes on.
    async fn ask(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        route: &Arc<Route>,
        asked: TurnAsked,
        account: Account,
    ) -> Result<Response<Body>, Refusal> {
        if route.kind == RouteKind::Agent {
            return self.ask_agent(snapshot, route, asked, account).await;
        }
        let kept = match self.goes_on_from(snapshot, route, &asked, &account.principal).await {
            Ok(kept) => kept,
            Err(refusal) => return Ok(self.refuse(refusal, asked.speech, account)),
        };
        let mut account = Some(account);
        let conversation = (route.targets.len() > 1).then(|| self.conversation(&asked, route, account.as_ref()));
        let now = self.env.clock().steady();
        let pin = conversation.and_then(|conversation| self.pins.get(conversation));
        let mut order = route.order(pin.filter(|pin| pin.holds(now)).map(|pin| pin.target), &self.env);
        if let GoesOn::At(provider) = &kept {
            // Nobody else has what it goes on from.
            order.retain(|index| route.targets.get(*index).is_some_and(|target| *target.provider == **provider));
        }
        let state = State::of(&asked, &kept, conversation.is_some());
        let mut missed = None;
        for (tried, index) in order.iter().enumerate() {
            let Some(target) = route.targets.get(*index) else { continue };
            if let Some(account) = &mut account {
                account.target = *index;
                account.fallbacks = u32::try_from(tried).unwrap_or(u32::MAX);
            }
            let asked_at = if tried == 0 { now } else { self.env.clock().steady() };
            // State of a provider goes to that one alone; whoever writes the request anew leaves out what is another's.
            let is_foreign = state == State::Native
                && match pin {
                    Some(pin) => {
                        let before = route.targets.get(pin.target);
                        pin.is_mixed || before.is_some_and(|before| before.provider != target.provider)
                    }
                    // Whose it is nobody knows here: the conversation began elsewhere, or before a start.
                    None => route.targets.iter().any(|other| other.provider != target.provider),
                };
            let is_anew = state == State::Sealed || is_foreign;
            let answer = match &target.asked {
                Asked::Upstream(upstream)
                    if upstream.speaks(asked.speech) && !(is_anew && upstream.provider.is_some()) =>
                {
                    self.pass(snapshot, route, upstream, target, &asked, &mut account).await
                }
                _ => self.translate(snapshot, route, target, &asked, &mut account).await,
            };
            match answer {
                Ok(mut response) => {
                    target.breaker.succeeded();
                    if let Some(conversation) = conversation {
                        let is_mixed = is_foreign || pin.is_some_and(|pin| pin.is_mixed);
                        self.pins.set(conversation, *index, is_mixed, self.env.clock().steady(), route.pin);
                    }
                    mark(response.headers_mut(), route, target);
                    return Ok(response);
                }
                Err(failure) => {
                    if failure.rests() {
                        target.breaker.failed(self.env.clock().steady(), failure.wait);
                    }
                    let goes_on = failure.class.is_some_and(|class| route.on.contains(&class));
                    missed = Some((failure, *index));
                    if !goes_on {
                        break;
                    }
                    if tried + 1 < order.len() {
                        target.series.fell_back();
                        let took = self.env.clock().steady().saturating_sub(asked_at);
                        target.series.note(Outcome::Failed, None, None, took);
                    }
                }
            }
        }
        let Some((failure, index)) = missed else {
            let refusal = Refusal::new(503, ErrorKind::Unavailable, "nothing is configured to answer for this model");
            return match account {
                Some(account) => Ok(self.refuse(refusal, asked.speech, account)),
                None => Err(refusal),
            };
        };
        if let Some(account) = &mut account {
            account.missed(&failure);
        }
        let mut response = match failure.response {
            Some(response) => *response,
            None => {
                let id = account.as_ref().map(|account| account.id.as_str().to_owned()).unwrap_or_default();
                failure.refusal.into_response(asked.speech, &id)
            }
        };
        if let Some(target) = route.targets.get(index) {
            mark(response.headers_mut(), route, target);
        }
        Ok(response)
    }

    /// Ends a request that no target is asked for.
    fn refuse(&self, refusal: Refusal, speech: Speech, mut account: Account) -> Response<Body> {
        account.refused(refusal.status);
        refusal.into_response(speech, account.id.as_str())
    }

    /// Hands a request on to a server that speaks its protocol, and the answer back as it comes.
    async fn pass(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        route: &Route,
        upstream: &Arc<Upstream>,
        target: &Target,
        asked: &TurnAsked,
        account: &mut Option<Account>,
    ) -> Result<Response<Body>, Missed> {
        if let Some(account) = account.as_mut().filter(|account| account.tools.is_empty()) {
            account.tools = asked.outline.tool_names(&asked.body).into_iter().map(Cow::into_owned).collect();
        }
        let ask_usage =
            if upstream.stream_usage { asked.outline.ask_for_usage(asked.speech, &asked.body) } else { None };
        let strips = ask_usage.is_some();
        let (body, rest) = spliced(asked, target, ask_usage);
        let unsent = |error: NetError| Missed::net(upstream, &error);
        let url = turn_url(upstream, target, asked).map_err(unsent)?;
        let mut headers = asked.headers.clone();
        for (name, value) in upstream.headers(asked.speech) {
            headers.insert(name.clone(), value.clone());
        }
        if asked.speech == Speech::AnthropicMessages && !headers.contains_key("anthropic-version") {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        let mut request = Sent::post(url, body);
        (request.headers, request.rest) = (headers, rest);
        request.timeouts = Some(upstream.timeouts);
        let mut response = self.client.send_until_dropped(request).await.map_err(unsent)?;
        if !response.status.is_success() {
            return Err(self.refused(upstream, response).await);
        }
        let is_noted = snapshot.notes_owners && keeps(asked);
        // What breaks off before our head is sent is a refusal, and another target may do better. A stream is not waited for
        // where there is nobody else to ask.
        if !asked.stream {
            response.body.hold(HELD).await.map_err(unsent)?;
        } else if route.targets.len() > 1 {
            self.opened(upstream, &mut response, asked.speech).await?;
        } else if is_noted {
            response.body.first().await.map_err(unsent)?;
        }
        let Some(mut account) = account.take() else { return Err(Missed::gone()) };
        account.status = response.status.as_u16();
        let is_events = has_type(&response.headers, b"text/event-stream");
        if is_noted {
            self.note_owner(&account.principal, &upstream.id, &mut response.body).await;
        }
        let watch = if is_events { Watch::events(asked.speech, strips) } else { Watch::body(asked.speech) };
        let headers = answer_headers(response.headers, strips && is_events);
        let passing = Passing::new(response.body, watch, account, is_events.then(|| upstream.clone()), !strips);
        let mut answer = Response::new(Body::passing(passing));
        *answer.status_mut() = response.status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }

    /// A server refused. Its own words go to the client, without a credential or an address in them; what it says of the
    /// gateway's credential is between it and the gateway.
    pub(crate) async fn refused(&self, upstream: &Upstream, response: placet_net::Response) -> Missed {
        let (status, headers) = (response.status, response.headers.clone());
        let is_json = has_type(&headers, b"application/json");
        let body = response.excerpt(ERROR_BYTES).await;
        let wait = retry_after(&headers, Some(&body.bytes), self.env.now());
        let class = class_of(status, &body.bytes);
        let clean = match upstream.redactor.redact_bytes(&body.bytes) {
            Cow::Borrowed(_) => body.bytes.clone(),
            Cow::Owned(clean) => Bytes::from(clean),
        };
        let problem = telling::kept(&format!("{}: {}", status.as_u16(), String::from_utf8_lossy(&clean)));
        let missed = |refusal, response| Missed {
            refusal,
            class,
            wait,
            response,
            problem: Some(problem.clone()),
            is_ours: false,
        };
        if class == Some(ErrorClass::Credential) {
            let message = format!("the provider {} did not accept the gateway's credential", upstream.id);
            let kind = if status == StatusCode::FORBIDDEN { ErrorKind::Permission } else { ErrorKind::Authentication };
            return missed(Refusal::new(status.as_u16(), kind, message), None);
        }
        let hidden = upstream.hidden.as_deref();
        let is_whole = is_json && body.cut.is_none() && body.broken.is_none();
        let masked = if is_whole { telling::masked_body(&clean, hidden) } else { None };
        if status.is_redirection() || !is_whole || (masked.is_some() && status.is_server_error()) {
            let provider = placet_core::ProviderId::new(&*upstream.id);
            let mut error = placet_wire::decode_error(&provider, status.as_u16(), &headers, &clean);
            error.retry_after_ms = wait.and_then(|wait| u64::try_from(wait.as_millis()).ok());
            return missed(Refusal::of_provider(&error, hidden), None);
        }
        let mut answer = Response::new(Body::whole(masked.map_or(clean, Bytes::from)));
        *answer.status_mut() = status;
        *answer.headers_mut() = answer_headers(headers, true);
        let mut refusal = Refusal::new(status.as_u16(), ErrorKind::Unavailable, "the provider refused");
        refusal.retry_after = wait;
        missed(refusal, Some(Box::new(answer)))
    }

    /// What a request has in common with the others of its conversation: what the client says it is, else the key, the
    /// operator's words and the first message.
    fn conversation(&self, asked: &TurnAsked, route: &Route, account: Option<&Account>) -> u64 {
        const SESSION_HEADERS: [&str; 6] =
            ["x-claude-code-session-id", "session-id", "session_id", "x-session-id", "x-session-affinity", "thread-id"];
        let mut hash = Sha256::new();
        // A place among the targets means something in its own route alone.
        hash.update(route.name.as_bytes());
        hash.update([0]);
        if let Some(account) = account {
            hash.update(account.principal.key.as_bytes());
        }
        let body = &asked.body;
        let session = SESSION_HEADERS.iter().find_map(|name| asked.headers.get(*name));
        if let Some(range) = &asked.outline.cache_key {
            hash.update(&body[range.clone()]);
        } else if let Some(session) = session {
            hash.update(session.as_bytes());
        } else {
            hash.update(asked.outline.system.clone().map_or(&[][..], |range| &body[range]));
            hash.update([0]);
            hash.update(asked.outline.first_message(body).unwrap_or_default());
        }
        let digest = hash.finalize();
        digest.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }
}

/// What a request goes on from.
pub(crate) enum GoesOn {
    /// Nothing, or nothing that we know of.
    Nothing,
    /// An answer that is kept here.
    Here,
    /// An answer that this provider keeps.
    At(String),
}

/// What of providers' own is in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    None,
    /// As the provider wrote it.
    Native,
    /// In an envelope of ours, or kept by us: only we can open it.
    Sealed,
}

impl State {
    /// `may_move`: there are several targets, so that it matters whose state it is.
    fn of(asked: &TurnAsked, kept: &GoesOn, may_move: bool) -> Self {
        if matches!(kept, GoesOn::Here) || holds_sealed(asked.speech, &asked.body) {
            State::Sealed
        } else if may_move && holds_native(asked.speech, &asked.body) {
            State::Native
        } else {
            State::None
        }
    }
}

/// Whether the provider is to keep its answer (Responses).
fn keeps(asked: &TurnAsked) -> bool {
    #[derive(serde::Deserialize)]
    struct Stores {
        store: Option<bool>,
    }
    let is_kept = || serde_json::from_slice::<Stores>(&asked.body).is_ok_and(|said| said.store != Some(false));
    asked.speech == Speech::OpenaiResponses && is_kept()
}

impl Missed {
    /// Whether the target should be left alone for a while, if it happens again.
    pub(crate) fn rests(&self) -> bool {
        self.class.is_some_and(|class| !matches!(class, ErrorClass::NotFound | ErrorClass::Credential))
    }

    /// The way to a server failed.
    pub(crate) fn net(upstream: &Upstream, error: &NetError) -> Self {
        let provider = &upstream.id;
        let (status, class, message) = match error.kind() {
            ErrorKind::Timeout => {
                (504, Some(ErrorClass::Timeout), format!("the provider {provider} did not begin to answer in time"))
            }
            ErrorKind::InvalidRequest => (400, None, format!("the request cannot be sent to the provider {provider}")),
            ErrorKind::Cancelled => (499, None, "the request was cancelled".to_owned()),
            ErrorKind::Network => {
                (502, Some(ErrorClass::Network), format!("the provider {provider} cannot be reached"))
            }
            _ => {
                let message = format!("the connection to the provider {provider} broke before it answered");
                (502, Some(ErrorClass::Network), message)
            }
        };
        let refusal = Refusal::new(status, error.kind(), message);
        let problem = upstream.redactor.redact_text(&telling::chain(error)).into_owned();
        Missed { refusal, class, wait: None, response: None, problem: Some(problem), is_ours: false }
    }

    /// The account went with an answer already.
    pub(crate) fn gone() -> Self {
        Missed::refused(Refusal::new(500, ErrorKind::Internal, "the request was answered already"))
    }
}

/// As much of a name as is kept.
pub(crate) fn cut(name: &str) -> Box<str> {
    name.chars().take(200).collect::<String>().into()
}

fn mark(headers: &mut HeaderMap, route: &Route, target: &Target) {
    headers.insert(ROUTE, route.header.clone());
    headers.insert(PROVIDER, target.provider_header.clone());
}

/// The name of the model in a body.
pub(crate) fn named_model(outline: &Outline, body: &[u8]) -> Result<String, Refusal> {
    let range = outline.model.as_ref().ok_or_else(|| missing("model"))?;
    match Outline::text(body, range) {
        Some(model) if !model.is_empty() => Ok(model.into_owned()),
        _ => Err(missing("model")),
    }
}

fn missing(field: &str) -> Refusal {
    let mut refusal = Refusal::new(400, ErrorKind::InvalidRequest, format!("`{field}` is missing, expected a text"));
    refusal.field = Some(field.to_owned());
    refusal
}

/// The body as the target is sent it: its beginning, and what follows.
fn spliced(asked: &TurnAsked, target: &Target, more: Option<Edit<'static>>) -> (Bytes, Vec<Bytes>) {
    let mut edits: Vec<Edit<'_>> = Vec::with_capacity(2);
    if let Some(range) = asked.outline.model.clone().filter(|_| asked.speech != Speech::Gemini)
        && asked.body[range.clone()] != *target.model_json
    {
        edits.push((range, Cow::Borrowed(&target.model_json)));
    }
    edits.extend(more);
    edits.sort_by_key(|(range, _)| range.start);
    if asked.body.len() < LONG {
        return (splice(&asked.body, &edits), Vec::new());
    }
    let mut rest = splice_apart(&asked.body, &edits);
    (if rest.is_empty() { Bytes::new() } else { rest.remove(0) }, rest)
}

fn turn_url(upstream: &Upstream, target: &Target, asked: &TurnAsked) -> Result<Url, NetError> {
    let with_query = |path: &str| match &asked.query {
        Some(query) => upstream.base_url.join(&format!("{path}?{query}")),
        None => upstream.base_url.join(path),
    };
    match (asked.speech, &asked.query) {
        (Speech::Gemini, _) => {
            let action = if asked.stream { "streamGenerateContent" } else { "generateContent" };
            with_query(&format!("models/{}:{action}", escaped(&target.model)))
        }
        (speech, None) => match upstream.url(speech) {
            Some(url) => Ok(url.clone()),
            None => upstream.base_url.join("chat/completions"),
        },
        (Speech::OpenaiChat, Some(_)) => with_query("chat/completions"),
        (Speech::OpenaiResponses, Some(_)) => with_query("responses"),
        (Speech::AnthropicMessages, Some(_)) => with_query("messages"),
    }
}

/// The client's query without the parameter that may hold its key.
pub(crate) fn passed_query(query: Option<&str>) -> Option<String> {
    let query = query.filter(|query| !query.is_empty())?;
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("key=") && *pair != "key").collect();
    (!kept.is_empty()).then(|| kept.join("&"))
}

/// A name within a path: everything but what may stand there is escaped, so that it names a model and nothing else.
pub(crate) fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'@') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    // Steps upward would leave the models.
    out.replace("..", "%2E%2E")
}

pub(crate) fn has_type(headers: &HeaderMap, kind: &[u8]) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.as_bytes().get(..kind.len()))
        .is_some_and(|beginning| beginning.eq_ignore_ascii_case(kind))
}

/// What sort of failure a status is.
pub(crate) fn class_of(status: StatusCode, body: &[u8]) -> Option<ErrorClass> {
    match status.as_u16() {
        401..=403 => Some(ErrorClass::Credential),
        404 => Some(ErrorClass::NotFound),
        408 => Some(ErrorClass::Timeout),
        429 => {
            let is_broke = memchr::memmem::find(body, b"insufficient_quota").is_some()
                || memchr::memmem::find(body, b"credit balance").is_some();
            Some(if is_broke { ErrorClass::Credential } else { ErrorClass::RateLimited })
        }
        300..=399 => Some(ErrorClass::Server),
        503 | 529 => Some(ErrorClass::Overloaded),
        504 => Some(ErrorClass::Timeout),
        500..600 => Some(ErrorClass::Server),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_path_is_a_name_and_nothing_else() {
        assert_eq!(escaped("gemini-4.argon"), "gemini-4.argon");
        assert_eq!(escaped("../../admin?x=#"), "%2E%2E%2F%2E%2E%2Fadmin%3Fx%3D%23");
        assert_eq!(placet_net::percent_decoded("a%2Fb%3a%zz"), "a/b:%zz");
        assert_eq!(passed_query(Some("alt=sse&key=secret")), Some("alt=sse".into()));
        assert_eq!(passed_query(Some("key=secret")), None);
    }
}
