//! Models as agents ask them: what each of their answers came to is counted, and told to whoever asks.

use crate::metrics::{Outcome, Series};
use crate::routing::Target;
use async_trait::async_trait;
use futures_util::Stream;
use placet_core::embedding::{EmbeddingRequest, Embeddings};
use placet_core::{Env, ErrorKind, Price, ProviderError, ProviderId, StopReason, TurnEvent, TurnRequest, Usage};
use placet_models::{
    AskContext, AskObserver, CacheRequest, CachedContent, ModelListing, ModelProvider, Probe, Profile, SharedProvider,
    TurnStream, Used,
};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// One target, counted.
#[derive(Debug)]
pub(crate) struct Metered {
    provider: SharedProvider,
    meter: Arc<Meter>,
}

#[derive(Debug)]
struct Meter {
    id: ProviderId,
    model: String,
    price: Option<Price>,
    series: Arc<Series>,
}

/// Whether an error is a refusal of ours: nothing was sent.
pub(crate) fn is_ours(error: &ProviderError) -> bool {
    error.status.is_none() && matches!(error.kind, ErrorKind::Unsupported | ErrorKind::Wiring)
}

impl Metered {
    /// `None` where the target is only known to hand requests on.
    pub(crate) fn of(target: &Target) -> Option<SharedProvider> {
        let meter = Meter {
            id: ProviderId::new(&*target.provider),
            model: target.model.to_string(),
            price: target.price,
            series: target.series.clone(),
        };
        Some(Arc::new(Metered { provider: target.asked.provider()?, meter: Arc::new(meter) }))
    }
}

#[async_trait]
impl ModelProvider for Metered {
    fn id(&self) -> &ProviderId {
        self.provider.id()
    }

    async fn ask(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<TurnStream, ProviderError> {
        let env = context.env.clone();
        let observer = context.observer.clone();
        let started = env.clock().steady();
        match self.provider.ask(request, context).await {
            Ok(events) => {
                observer.iter().for_each(|observer| observer.answering(&self.meter.id, &self.meter.model));
                let meter = self.meter.clone();
                let (first, usage, outcome) = (None, None, None);
                Ok(Box::pin(Metering { events, meter, observer, env, started, first, usage, outcome, is_noted: false }))
            }
            Err(error) => {
                let outcome = if error.kind == ErrorKind::Cancelled { Outcome::Cancelled } else { Outcome::Failed };
                if !is_ours(&error) {
                    let took = env.clock().steady().saturating_sub(started);
                    self.meter.series.note(outcome, None, None, took);
                }
                Err(error)
            }
        }
    }

    async fn ready(&self, model: &str) -> Result<(), ProviderError> {
        self.provider.ready(model).await
    }

    fn profile(&self, model: &str) -> Option<Arc<Profile>> {
        self.provider.profile(model)
    }

    fn learn(&self, model: &str, probe: &Probe) {
        self.provider.learn(model, probe);
    }

    async fn embed(&self, request: EmbeddingRequest, context: AskContext) -> Result<Embeddings, ProviderError> {
        self.provider.embed(request, context).await
    }

    async fn count_tokens(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<u64, ProviderError> {
        self.provider.count_tokens(request, context).await
    }

    async fn create_cache(&self, request: CacheRequest, context: AskContext) -> Result<CachedContent, ProviderError> {
        self.provider.create_cache(request, context).await
    }

    async fn delete_cache(&self, id: &str, context: AskContext) -> Result<(), ProviderError> {
        self.provider.delete_cache(id, context).await
    }

    async fn models(&self, context: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        self.provider.models(context).await
    }
}

/// An answer on its way. It is counted once, when it ends or is dropped.
struct Metering {
    events: TurnStream,
    meter: Arc<Meter>,
    observer: Option<Arc<dyn AskObserver>>,
    env: Env,
    started: Duration,
    first: Option<Duration>,
    usage: Option<Usage>,
    outcome: Option<Outcome>,
    is_noted: bool,
}

impl Metering {
    fn took(&self) -> Duration {
        self.env.clock().steady().saturating_sub(self.started)
    }

    fn end(&mut self, otherwise: Outcome) {
        if std::mem::replace(&mut self.is_noted, true) {
            return;
        }
        let outcome = self.outcome.unwrap_or(otherwise);
        self.meter.series.note(outcome, self.usage.as_ref(), self.first, self.took());
        let Some(observer) = &self.observer else { return };
        observer.used(&Used {
            provider: self.meter.id.clone(),
            model: self.meter.model.clone(),
            usage: self.usage,
            cost: self.meter.price.zip(self.usage).map(|(price, usage)| usage.cost(&price)),
        });
    }
}

impl Stream for Metering {
    type Item = TurnEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        let this = self.get_mut();
        let event = std::task::ready!(this.events.as_mut().poll_next(cx));
        if this.first.is_none() {
            this.first = Some(this.took());
        }
        match &event {
            Some(TurnEvent::Usage(usage)) => this.usage = Some(*usage),
            Some(TurnEvent::Finished(finished)) if finished.stop != StopReason::Other(String::new()) => {
                this.outcome = Some(Outcome::Whole);
            }
            Some(TurnEvent::Failed(error)) => {
                this.outcome =
                    Some(if error.kind == ErrorKind::Cancelled { Outcome::Cancelled } else { Outcome::Failed });
            }
            None => this.end(Outcome::Cut),
            _ => {}
        }
        Poll::Ready(event)
    }
}

impl Drop for Metering {
    fn drop(&mut self) {
        self.end(Outcome::Cancelled);
    }
}
