//! Asking until an answer begins well, tries run out, or trying again is no use.

use super::Adapter;
use super::failure::{ANSWER_BYTES, ERROR_BYTES, from_net, is_json, is_page, redact, redactor};
use super::protocol::Question;
use super::reading::{Reading, name_request};
use crate::provider::{AskContext, TurnStream};
use futures_util::StreamExt;
use placet_core::event::RetryStarted;
use placet_core::{ProviderError, ProviderId, Redactor, Secret, TurnEvent};
use placet_net::{Attempt, NetError, Request, Response, Retryable, Retrying, Verdict, classify, retry_after};
use placet_wire::openai_chat::decode_page;
use std::collections::VecDeque;

/// What belongs to one question.
pub(super) struct Asked<'a> {
    pub(super) adapter: &'a Adapter,
    pub(super) question: &'a Question,
    pub(super) key: Option<Secret>,
    pub(super) context: &'a AskContext,
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
    /// Sends until an answer begins well, tries run out, or trying again is no use.
    pub(super) async fn answer(&self) -> Result<TurnStream, ProviderError> {
        let options = &self.adapter.options;
        let question = self.question;
        let request = self.adapter.request(&question.path, Some(&question.body), &question.headers, self.key.as_ref());
        let mut request = request.map_err(|error| self.net_error(&error))?;
        if let Some(trace) = &self.context.trace {
            request = request.header("traceparent", trace).map_err(|error| self.net_error(&error))?;
        }
        let attempt = |attempt: placet_net::Try| {
            let mut request = request.clone();
            if let (Some(remaining), Some(timeouts)) = (attempt.remaining, request.timeouts) {
                request.timeouts = Some(timeouts.within(remaining));
            }
            async move { self.attempt(request).await }
        };
        let mut retrying = Retrying::new(&options.retry, &self.context.env, &self.context.cancel);
        if let Some(whole) = options.timeouts.and_then(|timeouts| timeouts.whole) {
            retrying = retrying.within(whole);
        }
        let report = |attempt: &Attempt| {
            if let (Ok(wait), Some(observer)) = (attempt.next, &self.context.observer) {
                observer.retrying(&RetryStarted {
                    attempt: attempt.number + 1,
                    after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                    reason: attempt.cause.clone(),
                });
            }
        };
        let answered: Result<TurnStream, Failure> = retrying.reporting(report).run(attempt).await;
        answered.map_err(|failure| match failure {
            Failure::Net(error) => self.net_error(&error),
            Failure::Provider(error, _) => *error,
        })
    }

    /// One try: up to the first event of the answer.
    async fn attempt(&self, request: Request) -> Result<TurnStream, Failure> {
        let provider = &self.adapter.options.id;
        let response = match self.adapter.client.send(request, &self.context.cancel).await {
            Ok(response) => response,
            Err(error) => return Err(self.failure(&error)),
        };
        if !response.status.is_success() {
            let (error, verdict) = refused(provider, self.key.as_ref(), self.context, response).await;
            return Err(Failure::Provider(Box::new(error), verdict));
        }
        let request_id = placet_wire::request_id(&response.headers);
        if is_page(&response) {
            let page = response.excerpt(ERROR_BYTES).await;
            return Err(self.early(decode_page(provider, &page.bytes), request_id));
        }
        if is_json(&response) {
            let body = response.bytes(ANSWER_BYTES).await.map_err(|error| self.failure(&error))?;
            let events = self.question.decode_response(&body);
            let mut events = events.map_err(|error| self.early(error, request_id.clone()))?;
            events.iter_mut().for_each(|event| name_request(event, request_id.as_deref()));
            return Ok(futures_util::stream::iter(events).boxed());
        }
        let mut reading = Reading {
            env: self.context.env.clone(),
            body: Some(response.body),
            decoder: self.question.decoder(),
            has_begun: false,
            ready: VecDeque::new(),
            redactor: self.redactor(),
            provider: provider.clone(),
            request_id,
        };
        match reading.next().await {
            // Nothing has been said yet, so it may be asked again.
            Some(TurnEvent::Failed(error)) => Err(self.early(*error, reading.request_id)),
            Some(first) => Ok(futures_util::stream::iter([first]).chain(reading.stream()).boxed()),
            None => Ok(futures_util::stream::empty().boxed()),
        }
    }

    fn redactor(&self) -> Redactor {
        redactor(self.key.as_ref())
    }

    fn redacted(&self, error: ProviderError) -> ProviderError {
        redact(error, &self.redactor())
    }

    fn net_error(&self, error: &NetError) -> ProviderError {
        self.redacted(from_net(&self.adapter.options.id, error))
    }

    fn failure(&self, error: &NetError) -> Failure {
        Failure::Provider(Box::new(self.net_error(error)), error.verdict())
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

/// An answer with an error's status.
pub(super) async fn refused(
    provider: &ProviderId,
    key: Option<&Secret>,
    context: &AskContext,
    response: Response,
) -> (ProviderError, Verdict) {
    let (status, headers) = (response.status, response.headers.clone());
    let body = response.excerpt(ERROR_BYTES).await;
    let now = context.env.now();
    let redactor = redactor(key);
    let clean = redactor.redact_bytes(&body.bytes).into_owned();
    let mut error = placet_wire::decode_error(provider, status.as_u16(), &headers, &clean);
    let wait = retry_after(&headers, Some(&body.bytes), now);
    error.retry_after_ms = wait.and_then(|wait| u64::try_from(wait.as_millis()).ok());
    let verdict = classify(status, &headers, Some(&body.bytes), now);
    (redact(error, &redactor), verdict)
}
