//! The one adapter: a protocol of `placet-wire` over [`placet_net`], to whatever server a row of data describes.

mod attempt;
mod dialects;
mod failure;
mod google;
mod held;
mod protocol;
mod reading;

pub use google::GoogleAccount;
pub use protocol::Protocol;

use crate::caches::{CacheRequest, CachedContent};
use crate::catalog::{Catalog, CatalogModel};
use crate::credential::{Credential, Lookup};
use crate::probe::Probe;
use crate::profile::{Profile, ProfileGround, ProfileRules};
use crate::provider::{AskContext, ModelListing, ModelProvider, TurnStream, unsupported};
use crate::reference::ModelRef;
use crate::vendor::{Flavour, Framing, KeyPlace, Quirk, Vendor, segment, vendor_base_url};
use async_trait::async_trait;
use attempt::Asked;
use failure::{ANSWER_BYTES, hint};
use held::{due, first_call};
use placet_core::embedding::{EmbeddingRequest, Embeddings};
use placet_core::{ErrorKind, ProviderError, ProviderId, Secret, Timestamp, TurnRequest};
use placet_net::{Client, NetError, Request, RetryPolicy, Timeouts, Url};
use placet_wire::gemini;
use protocol::{Beside, Question, plain_headers};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How a server is reached.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AdapterOptions {
    /// The provider's id.
    pub id: ProviderId,
    /// What it speaks.
    pub protocol: Protocol,
    /// Where the server is, up to and including `/v1` or the like.
    pub base_url: Url,
    /// Where its credential comes from.
    pub credential: Credential,
    /// How the credential is sent.
    pub key: KeyPlace,
    /// How paths are made.
    pub framing: Framing,
    /// In what its server differs from the protocol's own.
    pub flavour: Flavour,
    /// The version of the API that is asked for, where the protocol has several: Anthropic's `2023-06-01` and `2026-10-21`.
    pub api_version: Option<String>,
    /// Headers of every request, none of them secret.
    pub headers: Vec<(String, String)>,
    /// Whose models of the catalog its models are; absent: nothing is known of them.
    pub family: Option<String>,
    /// What is known of models; absent: the bundled catalog.
    pub catalog: Option<Arc<Catalog>>,
    /// What the user says that models can.
    pub rules: Option<Arc<ProfileRules>>,
    /// How it differs from a server that takes everything.
    pub quirks: Vec<Quirk>,
    /// How models differ further whose names begin so.
    pub model_quirks: Vec<(String, Vec<Quirk>)>,
    /// The variables that have to be set before it can be asked, and are not.
    pub unset: Vec<&'static str>,
    /// Timeouts; absent ones are the client's.
    pub timeouts: Option<Timeouts>,
    /// When a request is sent again. Never after the first event of an answer.
    pub retry: RetryPolicy,
}

impl AdapterOptions {
    /// A server at `base_url` that speaks OpenAI Chat and needs no credential.
    ///
    /// # Errors
    /// [`ProviderError`] of kind *wiring* where `base_url` is none.
    pub fn new(id: &str, base_url: &str) -> Result<Self, ProviderError> {
        let id = ProviderId::new(id);
        let base_url = Url::parse(base_url).map_err(|error| {
            ProviderError::new(ErrorKind::Wiring, id.clone(), error.to_string())
                .with_hint("give the base URL of the API, for example http://127.0.0.1:8080/v1")
        })?;
        Ok(AdapterOptions {
            id,
            protocol: Protocol::OpenaiChat,
            base_url,
            credential: Credential::None,
            key: KeyPlace::Bearer,
            framing: Framing::Plain,
            flavour: Flavour::Plain,
            api_version: None,
            headers: Vec::new(),
            family: None,
            catalog: None,
            rules: None,
            quirks: Vec::new(),
            model_quirks: Vec::new(),
            unset: Vec::new(),
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
        let mut options = AdapterOptions::new(vendor.id, &base_url).map_err(|mut error| {
            if let Some(name) = said_by {
                error.message = format!("{name}: {}", error.message);
            }
            error
        })?;
        let is_elsewhere = vendor.may_be_elsewhere() && said_by.is_some() && base_url != vendor.base_url;
        options.unset = vendor.unset(lookup);
        options.protocol = if is_elsewhere { vendor.elsewhere } else { vendor.protocol };
        options.framing = vendor.framing(lookup);
        options.flavour = vendor.flavour;
        options.api_version =
            vendor.version_variable.and_then(|name| lookup(name)).filter(|said| !said.trim().is_empty());
        let names: Vec<String> = vendor.key_variables.iter().map(|name| (*name).to_owned()).collect();
        options.key = vendor.key;
        options.credential = match vendor.key {
            KeyPlace::GoogleAccount => Credential::Google(Arc::new(GoogleAccount::new(names, lookup.clone()))),
            _ => Credential::Variables {
                names,
                // A server of one's own may need none.
                is_required: vendor.is_key_required && !is_elsewhere,
                lookup: lookup.clone(),
            },
        };
        options.headers =
            vendor.headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        options.family = vendor.catalog.map(str::to_owned);
        options.quirks = vendor.quirks.to_vec();
        options.model_quirks =
            vendor.models.iter().map(|(beginning, quirks)| ((*beginning).to_owned(), quirks.to_vec())).collect();
        if is_elsewhere {
            options.quirks.retain(|quirk| *quirk != Quirk::CustomTools);
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

    /// What the catalog knows of a model.
    #[must_use]
    pub fn known(&self, model: &str) -> Option<Arc<CatalogModel>> {
        let family = self.family.as_deref()?;
        self.catalog.clone().unwrap_or_else(Catalog::bundled).find(family, model).cloned()
    }

    /// What is known of a model, and from which protocol, quirks and rules that follows.
    #[must_use]
    pub fn profile(&self, model: &str) -> Profile {
        let family = self.family.as_deref();
        let known = self.known(model);
        let quirks: Vec<Quirk> = self.quirks_of(model).collect();
        let ground = ProfileGround {
            family: family.unwrap_or(self.id.as_str()),
            protocol: self.protocol,
            quirks: &quirks,
            known: known.as_deref(),
            user: self.rules.as_deref(),
        };
        Profile::new(ModelRef::new(self.id.clone(), model), ground)
    }

    fn quirks_of<'a>(&'a self, model: &'a str) -> impl Iterator<Item = Quirk> + 'a {
        let own = self.model_quirks.iter().filter(|(beginning, _)| model.starts_with(beginning));
        self.quirks.iter().chain(own.flat_map(|(_, quirks)| quirks)).copied()
    }
}

/// A server, asked in its protocol.
#[derive(Debug)]
pub struct Adapter {
    options: AdapterOptions,
    client: Client,
    profiles: Mutex<HashMap<String, Known>>,
}

/// What is known of a model.
#[derive(Clone, Debug)]
struct Known {
    profile: Arc<Profile>,
    model: Option<Arc<CatalogModel>>,
}

/// How many profiles are kept.
const PROFILES: usize = 256;

impl Adapter {
    /// A provider that sends through `client`.
    #[must_use]
    pub fn new(options: AdapterOptions, client: Client) -> Arc<Self> {
        Arc::new(Adapter { options, client, profiles: Mutex::default() })
    }

    /// How it is reached.
    #[must_use]
    pub fn options(&self) -> &AdapterOptions {
        &self.options
    }

    fn known(&self, model: &str) -> Known {
        let mut profiles = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = profiles.get(model) {
            return known.clone();
        }
        let known = Known { profile: Arc::new(self.options.profile(model)), model: self.options.known(model) };
        if profiles.len() >= PROFILES {
            profiles.clear();
        }
        profiles.insert(model.to_owned(), known.clone());
        known
    }

    fn request(
        &self,
        path: &str,
        body: Option<&bytes::Bytes>,
        headers: &[(String, String)],
        key: Option<&Secret>,
    ) -> Result<Request, NetError> {
        let url = self.options.framing.url(&self.options.base_url, path)?;
        let mut request = match body {
            Some(body) => Request::post_json(url, body.clone()),
            None => Request::get(url),
        };
        for (name, value) in self.options.headers.iter().chain(headers) {
            request = request.header(name, value)?;
        }
        request.timeouts = self.options.timeouts;
        let Some(key) = key else { return Ok(request) };
        match self.options.key {
            KeyPlace::Bearer | KeyPlace::GoogleAccount => request.bearer(key),
            KeyPlace::Header(name) => request.credential(name, key),
        }
    }

    /// That it is known where the server is.
    fn placed(&self) -> Result<(), ProviderError> {
        let Some(name) = self.options.unset.first() else { return Ok(()) };
        Err(ProviderError::new(ErrorKind::Wiring, self.options.id.clone(), format!("{name} is not set"))
            .with_hint(format!("set {name}, or use another model; `offline` needs nothing")))
    }

    async fn key(&self, context: &AskContext) -> Result<Option<Secret>, ProviderError> {
        self.placed()?;
        match &self.options.credential {
            Credential::Google(account) => account.token(&self.options.id, &self.client, context).await.map(Some),
            other => other.resolve(&self.options.id),
        }
    }

    fn net_error(&self, key: Option<&Secret>, error: &NetError) -> ProviderError {
        failure::redact(failure::from_net(&self.options.id, error), &failure::redactor(key))
    }

    /// Whether the server keeps contents under a name.
    fn keeps_contents(&self) -> bool {
        self.options.protocol == Protocol::Gemini && self.options.flavour != Flavour::Vertex
    }

    /// Asks for something that is no turn, and gives the body of the answer.
    async fn fetch(
        &self,
        path: &str,
        body: Option<&bytes::Bytes>,
        headers: &[(String, String)],
        model: &str,
        context: &AskContext,
    ) -> Result<bytes::Bytes, ProviderError> {
        let method = if body.is_some() { http::Method::POST } else { http::Method::GET };
        self.send(method, path, body, headers, model, context).await
    }

    async fn send(
        &self,
        method: http::Method,
        path: &str,
        body: Option<&bytes::Bytes>,
        headers: &[(String, String)],
        model: &str,
        context: &AskContext,
    ) -> Result<bytes::Bytes, ProviderError> {
        let key = self.key(context).await?;
        let request = self.request(path, body, headers, key.as_ref());
        let mut request = request.map_err(|error| self.net_error(key.as_ref(), &error))?;
        request.method = method;
        let sent = self.client.send_retrying(request, &self.options.retry, &context.cancel, |_| {}).await;
        let response = sent.map_err(|error| self.net_error(key.as_ref(), &error))?;
        if !response.status.is_success() {
            let (mut error, _) = attempt::refused(&self.options.id, key.as_ref(), context, response).await;
            hint(&mut error, model, &self.options);
            return Err(error);
        }
        response.bytes(ANSWER_BYTES).await.map_err(|error| self.net_error(key.as_ref(), &error))
    }
}

#[async_trait]
impl ModelProvider for Adapter {
    fn id(&self) -> &ProviderId {
        &self.options.id
    }

    async fn ask(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<TurnStream, ProviderError> {
        let known = self.known(&request.model);
        let (request, due) = due(&request, &self.options.id);
        let checked = known.profile.check(&request)?;
        if let Some(calls) = due {
            return Ok(calls);
        }
        let mut question =
            Question::new(&self.options, &checked.request, &known.profile, known.model.as_deref(), context.whole)?;
        question.omitted.splice(..0, checked.omitted);
        if let Some(observer) = &context.observer {
            question.omitted.iter().for_each(|omission| observer.omitted(omission));
        }
        let key = self.key(&context).await?;
        let asked = Asked { adapter: self, question: &question, key, context: &context };
        match asked.answer().await {
            Ok(stream) if checked.one_call => Ok(first_call(stream, self.options.id.clone())),
            Ok(stream) => Ok(stream),
            Err(mut error) => {
                hint(&mut error, &request.model, &self.options);
                Err(error)
            }
        }
    }

    async fn ready(&self, _model: &str) -> Result<(), ProviderError> {
        self.placed()?;
        match &self.options.credential {
            Credential::Google(account) => account.ready(&self.options.id),
            other => other.resolve(&self.options.id).map(drop),
        }
    }

    async fn embed(&self, request: EmbeddingRequest, context: AskContext) -> Result<Embeddings, ProviderError> {
        let options = &self.options;
        let protocol = options.protocol;
        let mut whole = Embeddings::default();
        let mut inputs = request.inputs.iter();
        loop {
            let inputs: Vec<String> = inputs.by_ref().take(protocol.most_embedded()).cloned().collect();
            if inputs.is_empty() && !whole.vectors.is_empty() {
                return Ok(whole);
            }
            let wanted = inputs.len();
            let part = EmbeddingRequest { inputs, ..request.clone() };
            let Some(encoded) = protocol.embedding(options, &part) else {
                return Err(unsupported(&options.id, &request.model, "embeddings", "its protocol has none"));
            };
            let (path, encoded) = encoded?;
            if let (Some(observer), true) = (&context.observer, whole.vectors.is_empty()) {
                encoded.omitted.iter().for_each(|omission| observer.omitted(&omission.to_string()));
            }
            let body = self.fetch(&path, Some(&encoded.body), &[], &request.model, &context).await?;
            let part = protocol.decode_embeddings(&options.id, &body)?;
            if part.vectors.len() != wanted {
                let told = format!("{} vectors came for {wanted} texts", part.vectors.len());
                return Err(ProviderError::new(ErrorKind::Protocol, options.id.clone(), told));
            }
            whole.vectors.extend(part.vectors);
            whole.model = whole.model.or(part.model);
            whole.usage = match (whole.usage, part.usage) {
                (Some(before), Some(now)) => Some(before + now),
                (before, now) => before.or(now),
            };
            if wanted == 0 {
                return Ok(whole);
            }
        }
    }

    async fn count_tokens(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<u64, ProviderError> {
        let known = self.known(&request.model);
        let (request, _) = due(&request, &self.options.id);
        let checked = known.profile.check(&request)?;
        let question = Question::counting(&self.options, &checked.request, &known.profile, known.model.as_deref())?;
        let Some(question) = question else {
            return Err(unsupported(&self.options.id, &request.model, "token counts", "its protocol has none"));
        };
        let body =
            self.fetch(&question.path, Some(&question.body), &question.headers, &request.model, &context).await?;
        question.decode_count(&body)
    }

    async fn create_cache(&self, request: CacheRequest, context: AskContext) -> Result<CachedContent, ProviderError> {
        let model = &request.beginning.model;
        if !self.keeps_contents() {
            return Err(unsupported(
                &self.options.id,
                model,
                "cached contents",
                "the provider keeps none under a name",
            ));
        }
        let known = self.known(model);
        let dialects::Dialect::Gemini(dialect) =
            dialects::Dialect::new(&self.options, model, &known.profile, known.model.as_deref())
        else {
            return Err(unsupported(&self.options.id, model, "cached contents", "its protocol has none"));
        };
        let seconds = request.ttl.map(|ttl| ttl.as_secs());
        let encoded = gemini::encode_cached_content(&request.beginning, &dialect, seconds)?;
        let body = self.fetch("cachedContents", Some(&encoded.body), &[], model, &context).await?;
        let made = gemini::decode_cached_content(&self.options.id, &body)?;
        Ok(CachedContent {
            id: made.name,
            expires: made.expires.as_deref().and_then(Timestamp::parse),
            tokens: made.tokens,
        })
    }

    async fn delete_cache(&self, id: &str, context: AskContext) -> Result<(), ProviderError> {
        if !self.keeps_contents() {
            return Err(unsupported(&self.options.id, id, "cached contents", "the provider keeps none under a name"));
        }
        let name = id.strip_prefix("cachedContents/").unwrap_or(id);
        let path = format!("cachedContents/{}", segment(name));
        self.send(http::Method::DELETE, &path, None, &[], "", &context).await.map(drop)
    }

    fn profile(&self, model: &str) -> Option<Arc<Profile>> {
        Some(self.known(model).profile)
    }

    fn learn(&self, model: &str, probe: &Probe) {
        let known = self.known(model);
        let mut profile = (*known.profile).clone();
        profile.take_in(probe);
        let known = Known { profile: Arc::new(profile), ..known };
        self.profiles.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_owned(), known);
    }

    async fn models(&self, context: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        let body =
            self.fetch(self.options.protocol.models_path(), None, &plain_headers(&self.options), "", &context).await?;
        let listed = self.options.protocol.decode_models(&self.options.id, &body).map_err(|error| {
            let key = self.options.credential.resolve(&self.options.id).ok().flatten();
            failure::redact(error, &failure::redactor(key.as_ref()))
        })?;
        Ok(listed.into_iter().map(|model| ModelListing { id: model.id, description: model.description }).collect())
    }
}

#[cfg(test)]
mod google_tests;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vendor_tests;
