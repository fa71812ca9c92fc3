//! The seam between whoever asks a model and whatever answers.

use crate::caches::{CacheRequest, CachedContent};
use crate::probe::Probe;
use crate::profile::Profile;
use async_trait::async_trait;
use futures_core::Stream;
use placet_core::embedding::{EmbeddingRequest, Embeddings};
use placet_core::event::RetryStarted;
use placet_core::{Env, ErrorKind, Money, ProviderError, ProviderId, TurnEvent, TurnRequest, Usage};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The events of one answer, in order. It ends after [`TurnEvent::Finished`] (and a late [`TurnEvent::Usage`]) or
/// [`TurnEvent::Failed`]; a stream that ends without either was interrupted. Dropping it closes the connection.
pub type TurnStream = Pin<Box<dyn Stream<Item = TurnEvent> + Send>>;

/// Answers turns. A provider only proposes: it never runs a tool of ours.
#[async_trait]
pub trait ModelProvider: Send + Sync + fmt::Debug {
    /// Its id, as it stands before the colon of a model reference: `openai`, `ollama`, `offline`.
    fn id(&self) -> &ProviderId;

    /// Asks for one turn. Retries (before the first byte only) happen in here.
    ///
    /// # Errors
    /// [`ProviderError`] for whatever goes wrong before the first event, kind *unsupported* (and nothing sent) where the
    /// request holds what this model cannot do. What goes wrong later is a [`TurnEvent::Failed`] of the stream.
    async fn ask(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<TurnStream, ProviderError>;

    /// Tells what can be told without asking anybody: a key that is missing, a file that is not there. Cheap; a run calls it
    /// before its start is recorded.
    ///
    /// # Errors
    /// The [`ProviderError`] that asking this model would certainly meet.
    async fn ready(&self, _model: &str) -> Result<(), ProviderError> {
        Ok(())
    }

    /// What a model can, where that is known.
    fn profile(&self, _model: &str) -> Option<Arc<Profile>> {
        None
    }

    /// Takes in what a probe of one of its models found.
    fn learn(&self, _model: &str, _probe: &Probe) {}

    /// Makes texts into vectors.
    ///
    /// # Errors
    /// [`ProviderError`] for whatever goes wrong; kind *unsupported* where the provider makes none.
    async fn embed(&self, request: EmbeddingRequest, _context: AskContext) -> Result<Embeddings, ProviderError> {
        Err(unsupported(self.id(), &request.model, "embeddings", "the provider makes none"))
    }

    /// Counts the tokens that a request reads, as the provider counts them.
    ///
    /// # Errors
    /// [`ProviderError`] for whatever goes wrong; kind *unsupported* where the provider does not count.
    async fn count_tokens(&self, request: Arc<TurnRequest>, _context: AskContext) -> Result<u64, ProviderError> {
        Err(unsupported(self.id(), &request.model, "token counts", "the provider tells none"))
    }

    /// Lets the provider keep the beginning of conversations under a name of its own. [`Caches`](crate::caches::Caches) keeps
    /// track of them.
    ///
    /// # Errors
    /// [`ProviderError`] for whatever goes wrong; kind *unsupported* where the provider keeps nothing under a name.
    async fn create_cache(&self, request: CacheRequest, _context: AskContext) -> Result<CachedContent, ProviderError> {
        Err(unsupported(self.id(), &request.beginning.model, "cached contents", "the provider keeps none under a name"))
    }

    /// Deletes what [`ModelProvider::create_cache`] let it keep.
    ///
    /// # Errors
    /// [`ProviderError`] for whatever goes wrong, kind *not found* where there is no such content.
    async fn delete_cache(&self, id: &str, _context: AskContext) -> Result<(), ProviderError> {
        Err(unsupported(self.id(), id, "cached contents", "the provider keeps none under a name"))
    }

    /// The models that it says it has; empty where it cannot tell.
    ///
    /// # Errors
    /// [`ProviderError`] where it could not be reached or refused.
    async fn models(&self, context: AskContext) -> Result<Vec<ModelListing>, ProviderError>;
}

/// The error of a provider that cannot do something at all.
pub(crate) fn unsupported(provider: &ProviderId, model: &str, feature: &str, reason: &str) -> ProviderError {
    let message = format!("the model `{model}` cannot do {feature}: {reason}");
    ProviderError::new(ErrorKind::Unsupported, provider.clone(), message)
}

/// Providers are passed around shared.
pub type SharedProvider = Arc<dyn ModelProvider>;

/// One model of a provider's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelListing {
    /// The provider's name of it.
    pub id: String,
    /// A sentence on it, where there is one.
    pub description: Option<String>,
}

/// What an asker gives along with a request.
#[derive(Clone)]
pub struct AskContext {
    /// Time, randomness, identity and tasks.
    pub env: Env,
    /// Cancelled when nobody waits for the answer any more: the connection is closed at once.
    pub cancel: CancellationToken,
    /// Told of every retry and of everything left out of the request.
    pub observer: Option<Arc<dyn AskObserver>>,
    /// The trace that the request is a part of, as the header `traceparent` says it; sent on.
    pub trace: Option<String>,
    /// Nobody hears the answer before it is whole, so that the provider need not send it in pieces. A wish: one that would take too
    /// long for that is asked for in pieces all the same.
    pub whole: bool,
}

impl AskContext {
    /// A context that nobody watches and nobody cancels.
    #[must_use]
    pub fn new(env: Env) -> Self {
        AskContext { env, cancel: CancellationToken::new(), observer: None, trace: None, whole: false }
    }
}

impl fmt::Debug for AskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskContext").field("cancelled", &self.cancel.is_cancelled()).finish_non_exhaustive()
    }
}

/// Is told what an adapter does besides answering.
pub trait AskObserver: Send + Sync {
    /// The request is about to be sent again.
    fn retrying(&self, retry: &RetryStarted);
    /// A hint of the request was left out, because the provider cannot take it: the field, and why.
    fn omitted(&self, what: &str);
    /// This model has begun to answer. Told by what stands for several models, and by what keeps account of what is asked.
    fn answering(&self, _provider: &ProviderId, _model: &str) {}
    /// What the answer came to, once it has ended or nobody reads on. Told by what keeps account of what is asked.
    fn used(&self, _used: &Used) {}
}

/// What one answer of a model came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Used {
    /// Who answered.
    pub provider: ProviderId,
    /// The provider's name of the model.
    pub model: String,
    /// Tokens, where the provider said.
    pub usage: Option<Usage>,
    /// What they cost in US dollars, where that is known.
    pub cost: Option<Money>,
}
