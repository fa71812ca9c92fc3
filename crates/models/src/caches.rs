//! Prompts that providers keep: what was put there, how often it was read, and when it goes.
//!
//! [`Caches`] is a registry over the store. Where a provider keeps contents under a name (Gemini's cached contents), the
//! registry creates and deletes them there through the [`ModelProvider`]; everywhere else an entry counts what a key of a
//! request was worth.

use crate::provider::{AskContext, ModelProvider};
use crate::reference::ModelRef;
use placet_core::turn::{CacheControl, CacheStrategy};
use placet_core::{Diagnose, ErrorKind, ProviderError, Timestamp, TurnRequest, Usage};
use placet_store::{Batch, Condition, Direction, Key, SharedStore, StoreError, Tenant, Value};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const FORMAT: u16 = 1;
/// How often a write is tried again that somebody else came before.
const TRIES: usize = 16;

/// What a provider is asked to keep: the beginning of conversations.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheRequest {
    /// What is kept: instructions, items, tools. Its controls and output do not count.
    pub beginning: TurnRequest,
    /// How long; absent: the provider's usual time.
    pub ttl: Option<Duration>,
    /// A name to show.
    pub name: Option<String>,
}

/// What a provider keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedContent {
    /// The provider's name of it, for [`CacheControl::content`].
    pub id: String,
    /// When it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// How many tokens it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// One entry of the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheEntry {
    /// Its key.
    pub key: String,
    /// The model that it is for, as a reference.
    pub model: String,
    /// What the provider keeps, where it has that under a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<CachedContent>,
    /// How it came about: `auto`, `explicit`, or `provider_managed` for contents under a name.
    pub strategy: String,
    /// When it was made.
    pub created: Timestamp,
    /// When it goes; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// How many turns read it.
    #[serde(default)]
    pub hits: u64,
    /// How many did not.
    #[serde(default)]
    pub misses: u64,
    /// Tokens that were read from it.
    #[serde(default)]
    pub read: u64,
    /// Tokens that were written to it.
    #[serde(default)]
    pub written: u64,
    /// All tokens of input of those turns.
    #[serde(default)]
    pub input: u64,
}

impl CacheEntry {
    /// The share of input that was read from it.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn hit_ratio(&self) -> f64 {
        if self.input == 0 { 0.0 } else { self.read as f64 / self.input as f64 }
    }

    /// Whether it is gone at this instant.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// The cache control of a request that uses it.
    #[must_use]
    pub fn control(&self) -> CacheControl {
        match &self.content {
            Some(content) => CacheControl { content: Some(content.id.clone()), ..CacheControl::default() },
            None => CacheControl {
                strategy: Some(CacheStrategy::from(self.strategy.as_str())),
                key: Some(self.key.clone()),
                ..CacheControl::default()
            },
        }
    }
}

/// Why the registry did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The provider refused.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// There is no such entry.
    #[error("there is no cache {key:?}")]
    NotFound {
        /// The key.
        key: String,
    },
    /// There is one of this key.
    #[error("there is a cache {key:?} already; invalidate it first, or choose another key")]
    Exists {
        /// The key.
        key: String,
    },
}

impl Diagnose for CacheError {
    fn kind(&self) -> ErrorKind {
        match self {
            CacheError::Store(error) => error.kind(),
            CacheError::Provider(error) => error.kind(),
            CacheError::NotFound { .. } => ErrorKind::NotFound,
            CacheError::Exists { .. } => ErrorKind::Conflict,
        }
    }
}

/// The registry of one tenant.
#[derive(Clone, Debug)]
pub struct Caches {
    store: SharedStore,
    tenant: Tenant,
}

impl Caches {
    /// The registry that this store keeps for a tenant.
    #[must_use]
    pub fn new(store: SharedStore, tenant: Tenant) -> Self {
        Caches { store, tenant }
    }

    fn place(&self) -> Key {
        Key::new(&self.tenant).text("models").text("cache")
    }

    /// Lets the provider keep the beginning of conversations under a name, and notes it.
    ///
    /// # Errors
    /// [`CacheError::Exists`] for a key that is taken by what is not gone, [`CacheError::Provider`] of kind *unsupported* where
    /// the provider keeps nothing under a name. What was created while somebody took the key is deleted again.
    pub async fn create(
        &self,
        key: &str,
        provider: &dyn ModelProvider,
        request: CacheRequest,
        context: &AskContext,
    ) -> Result<CacheEntry, CacheError> {
        let found = self.cell(key).await?;
        let now = self.store.now().await?;
        if found.as_ref().is_some_and(|(entry, _)| !entry.is_expired(now)) {
            return Err(CacheError::Exists { key: key.to_owned() });
        }
        let model = ModelRef::new(provider.id().clone(), request.beginning.model.clone());
        let content = provider.create_cache(request, context.clone()).await?;
        let entry = CacheEntry {
            expires: content.expires,
            written: content.tokens.unwrap_or_default(),
            content: Some(content.clone()),
            ..CacheEntry::new(key, &model, "provider_managed", now)
        };
        let version = found.map_or(0, |(_, version)| version);
        match self.write(&entry, version).await {
            Ok(true) => Ok(entry),
            Ok(false) => {
                provider.delete_cache(&content.id, context.clone()).await?;
                Err(CacheError::Exists { key: key.to_owned() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Notes that requests to a model share a key.
    ///
    /// # Errors
    /// What the store says.
    pub async fn note(
        &self,
        key: &str,
        model: &ModelRef,
        strategy: &CacheStrategy,
        ttl: Option<Duration>,
    ) -> Result<CacheEntry, CacheError> {
        let now = self.store.now().await?;
        let mut entry = CacheEntry::new(key, model, strategy.as_str(), now);
        entry.expires = ttl.map(|ttl| now.plus(ttl));
        let version = self.cell(key).await?.map_or(0, |(_, version)| version);
        if self.write(&entry, version).await? { Ok(entry) } else { self.get(key).await }
    }

    /// Counts what a turn with this key used.
    ///
    /// # Errors
    /// [`CacheError::NotFound`] where there is no such entry.
    pub async fn count(&self, key: &str, usage: &Usage) -> Result<CacheEntry, CacheError> {
        for _ in 0..TRIES {
            let Some((mut entry, version)) = self.cell(key).await? else { break };
            let is_hit = usage.cache_read > 0;
            entry.hits += u64::from(is_hit);
            entry.misses += u64::from(!is_hit);
            entry.read = entry.read.saturating_add(usage.cache_read);
            entry.written = entry.written.saturating_add(usage.cache_write.saturating_add(usage.cache_write_long));
            entry.input = entry.input.saturating_add(usage.total_input());
            if self.write(&entry, version).await? {
                return Ok(entry);
            }
        }
        Err(CacheError::NotFound { key: key.to_owned() })
    }

    /// One entry, be it gone or not.
    ///
    /// # Errors
    /// [`CacheError::NotFound`] where there is none.
    pub async fn get(&self, key: &str) -> Result<CacheEntry, CacheError> {
        let found = self.cell(key).await?;
        found.map(|(entry, _)| entry).ok_or_else(|| CacheError::NotFound { key: key.to_owned() })
    }

    /// Every entry, in the order of the keys.
    ///
    /// # Errors
    /// What the store says.
    pub async fn list(&self) -> Result<Vec<CacheEntry>, CacheError> {
        let mut entries = Vec::new();
        let mut beyond = None;
        loop {
            let cells = self.store.cells(&self.place(), beyond.as_ref(), Direction::Forward, 1000).await?;
            let Some(last) = cells.last() else { return Ok(entries) };
            beyond = Some(last.key.clone());
            for cell in &cells {
                entries.push(cell.value.from_json(FORMAT)?);
            }
        }
    }

    /// Forgets an entry, and deletes what the provider keeps where one is given. What the provider does not have any more
    /// counts as deleted.
    ///
    /// # Errors
    /// [`CacheError::NotFound`] where there is none, [`CacheError::Provider`] where the provider does not delete it: the entry
    /// is kept then.
    pub async fn invalidate(
        &self,
        key: &str,
        provider: Option<&dyn ModelProvider>,
        context: &AskContext,
    ) -> Result<CacheEntry, CacheError> {
        let entry = self.get(key).await?;
        if let (Some(provider), Some(content)) = (provider, &entry.content) {
            match provider.delete_cache(&content.id, context.clone()).await {
                Err(error) if error.kind != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        self.forget(key).await?;
        Ok(entry)
    }

    /// Forgets every entry that is gone; gives them. Providers delete what has run out themselves.
    ///
    /// # Errors
    /// What the store says.
    pub async fn evict_expired(&self) -> Result<Vec<CacheEntry>, CacheError> {
        let now = self.store.now().await?;
        let gone: Vec<CacheEntry> = self.list().await?.into_iter().filter(|entry| entry.is_expired(now)).collect();
        for entry in &gone {
            self.forget(&entry.key).await?;
        }
        Ok(gone)
    }

    async fn forget(&self, key: &str) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.delete_cell(self.place().text(key));
        self.store.commit(batch).await.map(drop)
    }

    async fn cell(&self, key: &str) -> Result<Option<(CacheEntry, u64)>, StoreError> {
        let Some(cell) = self.store.cell(&self.place().text(key)).await? else { return Ok(None) };
        Ok(Some((cell.value.from_json(FORMAT)?, cell.version)))
    }

    /// Writes an entry whose cell stands at `version`; gives whether nobody came before.
    async fn write(&self, entry: &CacheEntry, version: u64) -> Result<bool, StoreError> {
        let key = self.place().text(&entry.key);
        let mut batch = Batch::new();
        batch.require(Condition::version(key.clone(), version));
        batch.put(key, Value::json(FORMAT, entry)?);
        match self.store.commit(batch).await {
            Ok(_) => Ok(true),
            Err(StoreError::Condition { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl CacheEntry {
    fn new(key: &str, model: &ModelRef, strategy: &str, created: Timestamp) -> Self {
        CacheEntry {
            key: key.to_owned(),
            model: model.to_string(),
            content: None,
            strategy: strategy.to_owned(),
            created,
            expires: None,
            hits: 0,
            misses: 0,
            read: 0,
            written: 0,
            input: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use crate::provider::{ModelListing, TurnStream};
    use async_trait::async_trait;
    use placet_core::env::ManualClock;
    use placet_core::{Env, ProviderId};
    use placet_store::MemoryStore;
    use std::sync::{Arc, Mutex};

    /// Keeps contents for an hour.
    #[derive(Debug)]
    struct Keeper {
        id: ProviderId,
        contents: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl ModelProvider for Keeper {
        fn id(&self) -> &ProviderId {
            &self.id
        }
        async fn ask(&self, _: Arc<TurnRequest>, _: AskContext) -> Result<TurnStream, ProviderError> {
            panic!("nothing is asked")
        }
        async fn models(&self, _: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
            Ok(Vec::new())
        }
        async fn create_cache(
            &self,
            request: CacheRequest,
            context: AskContext,
        ) -> Result<CachedContent, ProviderError> {
            let mut contents = self.contents.lock().unwrap();
            let id = format!("cachedContents/{}", contents.len());
            contents.push(id.clone());
            let expires = context.env.now().plus(request.ttl.unwrap_or(Duration::from_secs(3600)));
            Ok(CachedContent { id, expires: Some(expires), tokens: Some(5000) })
        }
        async fn delete_cache(&self, id: &str, _: AskContext) -> Result<(), ProviderError> {
            let mut contents = self.contents.lock().unwrap();
            let Some(place) = contents.iter().position(|content| content == id) else {
                return Err(ProviderError::new(ErrorKind::NotFound, self.id.clone(), "no such content"));
            };
            contents.remove(place);
            Ok(())
        }
    }

    fn bench() -> (Caches, Keeper, AskContext, Arc<ManualClock>) {
        let clock = ManualClock::new(Timestamp::EPOCH);
        let env = Env::deterministic(clock.clone(), 1);
        let store = Arc::new(MemoryStore::new(env.clock().clone()));
        let keeper = Keeper { id: "google".into(), contents: Mutex::default() };
        (Caches::new(store, Tenant::new("t")), keeper, AskContext::new(env), clock)
    }

    fn request(ttl: u64) -> CacheRequest {
        let beginning = TurnRequest { model: "gemini-x".into(), ..TurnRequest::default() };
        CacheRequest { beginning, ttl: Some(Duration::from_secs(ttl)), name: None }
    }

    #[tokio::test]
    async fn contents_are_created_used_counted_and_deleted() {
        let (caches, keeper, context, _) = bench();
        let made = caches.create("docs", &keeper, request(60), &context).await.unwrap();
        assert_eq!(made.control().content.as_deref(), Some("cachedContents/0"));
        let taken = caches.create("docs", &keeper, request(60), &context).await.unwrap_err();
        assert!(matches!(taken, CacheError::Exists { .. }), "{taken}");
        assert_eq!(keeper.contents.lock().unwrap().len(), 1);
        let hit = Usage { input: 100, cache_read: 300, ..Usage::default() };
        caches.count("docs", &hit).await.unwrap();
        let entry = caches.count("docs", &Usage { input: 100, ..Usage::default() }).await.unwrap();
        assert_eq!((entry.hits, entry.misses, entry.read, entry.input), (1, 1, 300, 500));
        assert!((entry.hit_ratio() - 0.6).abs() < f64::EPSILON);
        caches.invalidate("docs", Some(&keeper), &context).await.unwrap();
        assert!(keeper.contents.lock().unwrap().is_empty());
        assert!(matches!(caches.get("docs").await, Err(CacheError::NotFound { .. })));
    }

    #[tokio::test]
    async fn what_has_run_out_is_evicted_and_its_key_is_free() {
        let (caches, keeper, context, clock) = bench();
        caches.create("a", &keeper, request(60), &context).await.unwrap();
        caches.create("b", &keeper, request(600), &context).await.unwrap();
        let key = ModelRef::new("openai", "gpt-5.4");
        caches.note("c", &key, &CacheStrategy::Auto, None).await.unwrap();
        assert_eq!(caches.get("c").await.unwrap().control().key.as_deref(), Some("c"));
        clock.advance(Duration::from_secs(61));
        assert!(caches.create("a", &keeper, request(60), &context).await.is_ok(), "the key is free again");
        clock.advance(Duration::from_secs(61));
        let gone = caches.evict_expired().await.unwrap();
        assert_eq!(gone.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(caches.list().await.unwrap().len(), 2);
        // What the provider has lost counts as deleted.
        keeper.contents.lock().unwrap().clear();
        assert!(caches.invalidate("b", Some(&keeper), &context).await.is_ok());
    }

    #[tokio::test]
    async fn counting_from_many_sides_loses_nothing() {
        let (caches, _, _, _) = bench();
        caches.note("k", &ModelRef::new("openai", "m"), &CacheStrategy::Auto, None).await.unwrap();
        let hit = Usage { cache_read: 1, ..Usage::default() };
        let counts = (0..8).map(|_| caches.count("k", &hit));
        for counted in futures_util::future::join_all(counts).await {
            counted.unwrap();
        }
        assert_eq!(caches.get("k").await.unwrap().hits, 8);
    }

    #[tokio::test]
    async fn a_provider_that_keeps_nothing_says_so() {
        let (caches, _, context, _) = bench();
        let echo = crate::EchoModel::default();
        let error = caches.create("k", &echo, request(1), &context).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
