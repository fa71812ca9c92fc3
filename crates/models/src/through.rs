//! A provider whose turns are asked through something that hears or changes them.

use crate::{
    AskContext, CacheRequest, CachedContent, ModelListing, ModelProvider, Probe, Profile, SharedProvider, TurnStream,
};
use async_trait::async_trait;
use placet_core::embedding::{EmbeddingRequest, Embeddings};
use placet_core::{ProviderError, ProviderId, TurnRequest};
use std::fmt;
use std::sync::Arc;

/// How turns of a provider are asked, in place of asking it at once.
#[async_trait]
pub trait Asking: Send + Sync + fmt::Debug {
    /// Asks this provider for one turn.
    ///
    /// # Errors
    /// As [`ModelProvider::ask`].
    async fn ask(
        &self,
        provider: &SharedProvider,
        request: Arc<TurnRequest>,
        context: AskContext,
    ) -> Result<TurnStream, ProviderError>;
}

/// A provider of which turns are asked by an [`Asking`]; everything else goes to it as it is.
#[derive(Debug)]
pub struct Through<A> {
    provider: SharedProvider,
    asking: A,
}

impl<A: Asking> Through<A> {
    /// This provider, asked that way.
    pub fn new(provider: SharedProvider, asking: A) -> Self {
        Through { provider, asking }
    }
}

#[async_trait]
impl<A: Asking> ModelProvider for Through<A> {
    fn id(&self) -> &ProviderId {
        self.provider.id()
    }

    async fn ask(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<TurnStream, ProviderError> {
        self.asking.ask(&self.provider, request, context).await
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
