//! A route as one provider, for agents: its targets are asked one after the other, before the first word of an answer.

use crate::metered::Metered;
use crate::routing::{Route, Target};
use crate::turn::Missed;
use async_trait::async_trait;
use placet_core::{ErrorKind, ProviderError, ProviderId, TurnRequest};
use placet_models::{AskContext, ModelListing, ModelProvider, Profile, SharedProvider, TurnStream};
use std::fmt;
use std::sync::Arc;

/// The targets of a route.
pub(crate) struct Several {
    id: ProviderId,
    route: Arc<Route>,
}

impl Several {
    /// `None` where none of the targets can be asked by an agent.
    pub(crate) fn new(route: Arc<Route>) -> Option<Self> {
        route.targets.iter().find_map(|target| target.asked.provider())?;
        Some(Several { id: ProviderId::new(&*route.name), route })
    }

    fn targets(&self) -> impl Iterator<Item = (&Target, SharedProvider)> {
        self.route.targets.iter().filter_map(|target| Some((target, target.asked.provider()?)))
    }
}

impl fmt::Debug for Several {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Several").field("route", &self.id).finish_non_exhaustive()
    }
}

#[async_trait]
impl ModelProvider for Several {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    async fn ask(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<TurnStream, ProviderError> {
        let mut last = None;
        for index in self.route.order(None, &context.env) {
            let Some(target) = self.route.targets.get(index) else { continue };
            let Some(provider) = Metered::of(target) else { continue };
            let asked = TurnRequest { model: target.model.to_string(), ..(*request).clone() };
            let answered = match provider.ask(Arc::new(asked), context.clone()).await {
                Ok(events) => crate::opening::opened(events, &context.env).await,
                Err(error) => Err(error),
            };
            let error = match answered {
                Ok(events) => {
                    target.breaker.succeeded();
                    return Ok(events);
                }
                Err(error) => error,
            };
            let missed = Missed::provider(&error, None);
            if missed.rests() {
                target.breaker.failed(context.env.clock().steady(), missed.wait);
            }
            let goes_on = missed.class.is_some_and(|class| self.route.on.contains(&class));
            last = Some(error);
            if !goes_on || context.cancel.is_cancelled() {
                break;
            }
            target.series.fell_back();
        }
        Err(last.unwrap_or_else(|| {
            ProviderError::new(ErrorKind::Unavailable, self.id.clone(), "none of its targets can be asked by an agent")
        }))
    }

    async fn ready(&self, _model: &str) -> Result<(), ProviderError> {
        let mut last = Ok(());
        for (target, provider) in self.targets() {
            last = provider.ready(&target.model).await;
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// That of the first target: the others are asked in its stead, and refuse for themselves what they cannot do.
    fn profile(&self, _model: &str) -> Option<Arc<Profile>> {
        let (target, provider) = self.targets().next()?;
        provider.profile(&target.model)
    }

    async fn models(&self, _context: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        Ok(vec![ModelListing { id: self.route.name.to_string(), description: None }])
    }
}
