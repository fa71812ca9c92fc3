//! Models as agents ask them: what each of their answers came to is counted, and told to whoever asks.

use crate::metrics::{Outcome, Series};
use crate::routing::Target;
use async_trait::async_trait;
use futures_util::Stream;
use placet_core::{Env, ErrorKind, Money, Price, ProviderError, ProviderId, StopReason, TurnEvent, TurnRequest, Usage};
use placet_models::{AskContext, AskObserver, Asking, SharedProvider, Through, TurnStream, Used};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Counts what the answers of one target come to.
#[derive(Debug)]
pub(crate) struct Metered(Arc<Meter>);

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
    /// One target, counted; `None` where it is only known to hand requests on.
    pub(crate) fn of(target: &Target) -> Option<SharedProvider> {
        let meter = Meter {
            id: ProviderId::new(&*target.provider),
            model: target.model.to_string(),
            price: target.price,
            series: target.series.clone(),
        };
        Some(Arc::new(Through::new(target.asked.provider()?, Metered(Arc::new(meter)))))
    }
}

#[async_trait]
impl Asking for Metered {
    async fn ask(
        &self,
        provider: &SharedProvider,
        request: Arc<TurnRequest>,
        context: AskContext,
    ) -> Result<TurnStream, ProviderError> {
        let Metered(meter) = self;
        let env = context.env.clone();
        let observer = context.observer.clone();
        let started = env.clock().steady();
        match provider.ask(request, context).await {
            Ok(events) => {
                observer.iter().for_each(|observer| observer.answering(&meter.id, &meter.model));
                let meter = meter.clone();
                let (first, usage, outcome) = (None, None, None);
                Ok(Box::pin(Metering { events, meter, observer, env, started, first, usage, outcome, is_noted: false }))
            }
            Err(error) => {
                let outcome = if error.kind == ErrorKind::Cancelled { Outcome::Cancelled } else { Outcome::Failed };
                if !is_ours(&error) {
                    let took = env.clock().steady().saturating_sub(started);
                    meter.series.note(outcome, None, None, took);
                    // Whoever refused has charged nothing; of an answer that was not waited for nobody knows.
                    let cost = (outcome == Outcome::Failed).then_some(Money::ZERO);
                    let (provider, model) = (meter.id.clone(), meter.model.clone());
                    observer.iter().for_each(|observer| {
                        let (provider, model) = (provider.clone(), model.clone());
                        observer.used(&Used { provider, model, usage: None, cost });
                    });
                }
                Err(error)
            }
        }
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
