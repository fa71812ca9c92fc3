//! A turn whose target speaks another protocol than the client, or none: decoded, asked, and encoded as the client speaks.

use crate::account::Account;
use crate::body::{Body, Broken};
use crate::config::ErrorClass;
use crate::gateway::{Gateway, OMITTED, Snapshot};
use crate::headers::TRACEPARENT;
use crate::kept::Keeping;
use crate::metrics::Outcome;
use crate::opening::opened;
use crate::refusal::Refusal;
use crate::routing::{Asked, Route, Target};
use crate::speech::{Encoder, answer_id, decode_request, encode_response, nobody};
use crate::telling;
use crate::turn::{Missed, TurnAsked};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use placet_core::event::RetryStarted;
use placet_core::{Accumulator, BoxFuture, ErrorKind, ProviderError, ProviderId, StopReason, TurnEvent};
use placet_models::{AskContext, AskObserver, TurnStream};
use placet_wire::passing::Speech;
use placet_wire::{AnswerHead, DecodedRequest};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio_util::sync::CancellationToken;

/// How many bytes are written at once at most; what is there together is sent together.
const MOST_AT_ONCE: usize = 32 << 10;
/// How much of what was left out is told in a header.
const MOST_OMITTED: usize = 2048;

/// Hears what was left out of a request.
#[derive(Debug)]
struct Hearing {
    omitted: Mutex<Vec<String>>,
    /// On a strict route nothing is sent once something was left out.
    strict: Option<CancellationToken>,
}

impl AskObserver for Hearing {
    fn retrying(&self, _: &RetryStarted) {}

    fn omitted(&self, what: &str) {
        self.omitted.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
        if let Some(cancel) = &self.strict {
            cancel.cancel();
        }
    }
}

impl Hearing {
    fn told(&self) -> String {
        self.omitted.lock().unwrap_or_else(PoisonError::into_inner).join("; ")
    }
}

impl Gateway {
    pub(crate) async fn translate(
        self: &Arc<Self>,
        _snapshot: &Snapshot,
        route: &Arc<Route>,
        target: &Target,
        asked: &TurnAsked,
        account: &mut Option<Account>,
    ) -> Result<Response<Body>, Missed> {
        let provider = match &target.asked {
            Asked::Local(provider) => provider.clone(),
            Asked::Upstream(upstream) => upstream.provider.clone().ok_or_else(|| {
                let message = format!("{} is not asked in {} by this version", upstream.id, asked.speech);
                Missed::refused(Refusal::new(400, ErrorKind::Unsupported, message))
            })?,
        };
        let Some(noted) = account.as_mut() else { return Err(Missed::gone()) };
        let key = noted.principal.key.clone();
        let (body, keeping) = self.with_kept(asked, &key).await.map_err(Missed::refused)?;
        let decoded = decode_request(asked, &body, &self.env).map_err(|error| Missed::refused(error.into()))?;
        let head = answer_head(self, asked.speech, noted, &decoded);
        let mut request = decoded.request;
        request.model = target.model.to_string();
        noted.tools = request.tools.iter().map(|tool| tool.name.as_str().to_owned()).collect();
        let cancel = CancellationToken::new();
        let hearing = Arc::new(Hearing { omitted: Mutex::default(), strict: route.strict.then(|| cancel.clone()) });
        let trace = asked.headers.get(&TRACEPARENT).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let context = AskContext {
            cancel,
            observer: Some(hearing.clone()),
            trace,
            whole: !asked.stream,
            ..AskContext::new(self.env.clone())
        };
        let answered = provider.ask(Arc::new(request), context).await;
        let omitted = hearing.told();
        if route.strict && !omitted.is_empty() {
            let message =
                format!("the model behind this name cannot take what was asked, and the route is strict: {omitted}");
            return Err(Missed::refused(Refusal::new(400, ErrorKind::Unsupported, message)));
        }
        let events = match answered {
            Ok(events) if asked.stream => opened(events, &self.env).await,
            answered => answered,
        };
        let events = events.map_err(|error| Missed::provider(&error, target.asked.hidden()))?;
        let owner = provider.id().clone();
        let mut response = if asked.stream {
            let Some(account) = account.take() else { return Err(Missed::gone()) };
            self.streamed(asked, head, events, account, keeping, owner)
        } else {
            self.whole(asked.speech, &head, events, account, keeping, &owner).await?
        };
        if let Some(value) = omitted_value(&omitted) {
            response.headers_mut().insert(OMITTED, value);
        }
        Ok(response)
    }

    pub(crate) fn streamed(
        self: &Arc<Self>,
        asked: &TurnAsked,
        head: AnswerHead,
        events: TurnStream,
        mut account: Account,
        keeping: Option<Keeping>,
        owner: ProviderId,
    ) -> Response<Body> {
        account.status = 200;
        let keeping = keeping.map(|keeping| (keeping, Accumulator::new(), head.clone()));
        let stream = Translating {
            gateway: self.clone(),
            events: Some(events),
            encoder: Encoder::new(asked.speech, head, asked.is_array),
            account,
            owner,
            keeping,
            outcome: Outcome::Cut,
            holding: None,
            breaking: Breaking::No,
        };
        let mut response = Response::new(Body::pieces(Box::pin(stream)));
        let headers = response.headers_mut();
        let kind = if asked.is_array { "application/json" } else { "text/event-stream; charset=utf-8" };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }

    pub(crate) async fn whole(
        self: &Arc<Self>,
        speech: Speech,
        head: &AnswerHead,
        mut events: TurnStream,
        account: &mut Option<Account>,
        keeping: Option<Keeping>,
        owner: &ProviderId,
    ) -> Result<Response<Body>, Missed> {
        let mut folded = Accumulator::new();
        while let Some(event) = events.next().await {
            if let Some(account) = account.as_mut() {
                account.begins();
            }
            folded.push(&event);
        }
        let usage = folded.usage();
        let hidden = account.as_ref().and_then(Account::hidden);
        let turn = folded.finish(owner, &self.env).map_err(|error| Missed::provider(&error, hidden))?;
        let body = encode_response(speech, head, &turn);
        if let Some(keeping) = keeping {
            self.keep(keeping, &body).await;
        }
        let mut response = crate::gateway::json(&body);
        if let Some(mut account) = account.take() {
            account.status = 200;
            if let Some(cost) = account.cost(usage)
                && let Ok(cost) = HeaderValue::try_from(cost.to_string().trim_start_matches('$'))
            {
                response.headers_mut().insert("x-placet-cost", cost);
            }
            account.close(Outcome::Whole, usage);
        }
        Ok(response)
    }
}

/// What an answer has to know beside what is said.
pub(crate) fn answer_head(
    gateway: &Gateway,
    speech: Speech,
    account: &Account,
    decoded: &DecodedRequest,
) -> AnswerHead {
    // A client of either of OpenAI's protocols wants calls of tools that take a text as such.
    let takes_texts = |tool: &Arc<placet_core::ToolDefinition>| {
        tool.native.as_ref().is_some_and(|native| native.value["type"] == "custom")
    };
    let repeats = match speech {
        Speech::OpenaiResponses => true,
        Speech::OpenaiChat => decoded.request.tools.iter().any(takes_texts),
        // Its stream says at once how much input there was, which the provider may say at the end.
        Speech::AnthropicMessages => decoded.stream,
        Speech::Gemini => false,
    };
    AnswerHead {
        id: answer_id(speech, account.id.as_str()),
        model: account.model.as_deref().unwrap_or(&account.route.name).to_owned(),
        created: u64::try_from(gateway.env.now().as_millis() / 1000).unwrap_or(0),
        provider: nobody(),
        stream_usage: decoded.stream_usage,
        request: repeats.then(|| decoded.body.as_value().clone()),
    }
}

/// What was left out, as a header's value.
pub(crate) fn omitted_value(omitted: &str) -> Option<HeaderValue> {
    if omitted.is_empty() {
        return None;
    }
    let plain = |letter: char| if letter.is_ascii() && !letter.is_ascii_control() { letter } else { '?' };
    HeaderValue::try_from(omitted.chars().map(plain).take(MOST_OMITTED).collect::<String>()).ok()
}

/// An answer that is encoded as its events come. Dropping it closes the way to the provider.
struct Translating {
    gateway: Arc<Gateway>,
    events: Option<TurnStream>,
    encoder: Encoder,
    account: Account,
    owner: ProviderId,
    keeping: Option<(Keeping, Accumulator, AnswerHead)>,
    outcome: Outcome,
    /// What ends the answer, told once the answer is kept.
    holding: Option<(BoxFuture<'static, ()>, Bytes)>,
    breaking: Breaking,
}

/// Whether the connection to the client is broken off, as the provider's was: there are clients that read only that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breaking {
    No,
    /// Once the error of the protocol has gone out.
    Told,
    Now,
}

impl Translating {
    fn note(&mut self, event: &TurnEvent) {
        self.account.begins();
        match event {
            TurnEvent::Usage(usage) => self.account.usage = Some(*usage),
            TurnEvent::Finished(finished) => {
                self.outcome =
                    if finished.stop == StopReason::Other(String::new()) { Outcome::Cut } else { Outcome::Whole };
            }
            TurnEvent::Failed(error) => {
                self.outcome = Outcome::Failed;
                let broke = [ErrorKind::Network, ErrorKind::Interrupted, ErrorKind::Timeout, ErrorKind::Protocol];
                if broke.contains(&error.kind) {
                    self.breaking = Breaking::Told;
                }
            }
            _ => {}
        }
        if let Some((_, folded, _)) = &mut self.keeping {
            folded.push(event);
        }
    }

    /// An error in the midst of an answer as the client may know it; the ledger keeps the rest.
    fn told(&mut self, error: ProviderError) -> TurnEvent {
        let missed = Missed::provider(&error, self.account.hidden());
        self.account.problem = missed.problem.map(Into::into);
        let mut told = ProviderError::new(error.kind, error.provider, missed.refusal.message);
        (told.status, told.code, told.retry_after_ms) = (error.status, missed.refusal.code, error.retry_after_ms);
        told.request_id = Some(self.account.id.as_str().to_owned());
        TurnEvent::Failed(Box::new(told))
    }

    /// Ends an answer that may not go on, with the error of its protocol.
    fn cut(&mut self, out: &mut Vec<u8>) {
        if self.outcome == Outcome::Cut {
            let stopping = ProviderError::new(ErrorKind::Unavailable, nobody(), crate::gateway::STOPPING);
            let event = self.told(stopping);
            self.encoder.push(&event, out);
            self.breaking = Breaking::Told;
        }
        self.encoder.end(out);
        self.end();
    }

    fn end(&mut self) {
        self.events = None;
        self.account.close(self.outcome, None);
    }

    /// The answer is whole: keeps it, if it is to be kept.
    fn keep(&mut self) -> Option<BoxFuture<'static, ()>> {
        let (keeping, folded, head) = self.keeping.take()?;
        let turn = folded.finish(&self.owner, &self.gateway.env).ok()?;
        Some(self.gateway.keep(keeping, &encode_response(Speech::OpenaiResponses, &head, &turn)))
    }
}

impl Stream for Translating {
    type Item = Result<Bytes, Broken>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let mut out = Vec::new();
        if this.events.is_some() && this.gateway.is_cut() {
            this.cut(&mut out);
            return Poll::Ready(Some(Ok(out.into())));
        }
        loop {
            if let Some((keeping, _)) = &mut this.holding {
                std::task::ready!(keeping.as_mut().poll(cx));
                if let Some((_, held)) = this.holding.take() {
                    return Poll::Ready(Some(Ok(held)));
                }
            }
            let Some(events) = &mut this.events else {
                return match this.breaking {
                    Breaking::No => Poll::Ready(None),
                    Breaking::Told => {
                        this.breaking = Breaking::Now;
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                    Breaking::Now => {
                        this.breaking = Breaking::No;
                        Poll::Ready(Some(Err(Broken)))
                    }
                };
            };
            match events.as_mut().poll_next(cx) {
                Poll::Ready(Some(event)) => {
                    this.note(&event);
                    let event = match event {
                        TurnEvent::Failed(error) => this.told(*error),
                        event => event,
                    };
                    this.encoder.push(&event, &mut out);
                    if matches!(event, TurnEvent::Finished(_))
                        && let Some(keeping) = this.keep()
                    {
                        this.holding = Some((keeping, std::mem::take(&mut out).into()));
                        continue;
                    }
                    if out.len() >= MOST_AT_ONCE {
                        return Poll::Ready(Some(Ok(out.into())));
                    }
                }
                Poll::Ready(None) => {
                    this.encoder.end(&mut out);
                    this.end();
                    if out.is_empty() {
                        continue;
                    }
                    return Poll::Ready(Some(Ok(out.into())));
                }
                Poll::Pending if out.is_empty() => return Poll::Pending,
                // What has come together goes out together.
                Poll::Pending => return Poll::Ready(Some(Ok(out.into()))),
            }
        }
    }
}

impl Missed {
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Missed { refusal, class: None, wait: None, response: None, problem: None, is_ours: true }
    }

    /// What a provider answered instead of a turn. `hidden` is the host of a server whose place is nobody's business.
    pub(crate) fn provider(error: &ProviderError, hidden: Option<&str>) -> Self {
        let class = match error.kind {
            _ if error.status.is_some_and(|status| (300..400).contains(&status)) => Some(ErrorClass::Server),
            ErrorKind::RateLimited => Some(ErrorClass::RateLimited),
            ErrorKind::Overloaded => Some(ErrorClass::Overloaded),
            ErrorKind::Unavailable => Some(ErrorClass::Server),
            ErrorKind::Timeout => Some(ErrorClass::Timeout),
            ErrorKind::Network | ErrorKind::Interrupted | ErrorKind::Protocol => Some(ErrorClass::Network),
            ErrorKind::Authentication | ErrorKind::Permission | ErrorKind::QuotaExhausted => {
                Some(ErrorClass::Credential)
            }
            ErrorKind::NotFound => Some(ErrorClass::NotFound),
            _ => None,
        };
        let mut refusal = Refusal::of_provider(error, hidden);
        if class == Some(ErrorClass::Credential) {
            refusal.message = format!("the provider {} did not accept the gateway's credential", error.provider);
            refusal.code = None;
        }
        let is_ours = crate::metered::is_ours(error);
        // What we refused is told the client in full.
        let problem = (!is_ours || refusal.message != error.message).then(|| match error.status {
            Some(status) => telling::kept(&format!("{status}: {}", error.message)),
            None => telling::kept(&error.message),
        });
        Missed { refusal, class, wait: error.retry_after(), response: None, problem, is_ours }
    }
}
