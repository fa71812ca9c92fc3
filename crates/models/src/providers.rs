//! The providers that a program knows, by name.

use crate::adapter::{Adapter, AdapterOptions};
use crate::credential::Lookup;
use crate::echo::EchoModel;
use crate::offline::Offline;
use crate::provider::SharedProvider;
use crate::reference::{InvalidModelRef, ModelRef};
use crate::scripted::ScriptFiles;
use crate::vendor::VENDORS;
use indexmap::IndexMap;
use placet_core::{Diagnose, ErrorKind, ProviderError, ProviderId};
use placet_net::Client;
use std::sync::Arc;

/// Providers by name, and names for models.
#[derive(Clone, Debug, Default)]
pub struct Providers {
    providers: IndexMap<ProviderId, SharedProvider>,
    aliases: IndexMap<String, ProviderId>,
    models: IndexMap<String, ModelRef>,
}

/// A model that was found: who answers for it, and its whole reference.
#[derive(Clone, Debug)]
pub struct ResolvedModel {
    /// Who answers.
    pub provider: SharedProvider,
    /// The reference, with the provider's own id.
    pub reference: ModelRef,
}

impl Providers {
    /// None at all.
    #[must_use]
    pub fn new() -> Self {
        Providers::default()
    }

    /// `offline`, `echo` and `scripted`: what works without a network and a key.
    #[must_use]
    pub fn local() -> Self {
        let mut providers = Providers::new();
        providers.register(Arc::new(Offline::default()));
        providers.register(Arc::new(EchoModel::default()));
        providers.register(Arc::new(ScriptFiles::default()));
        providers
    }

    /// The local ones and every vendor of the table. Keys are looked up when a model is asked, not before.
    ///
    /// # Errors
    /// All base URLs that are none, each with the variable that holds it.
    pub fn standard(client: &Client, lookup: &Lookup) -> Result<Self, Vec<ProviderError>> {
        Providers::standard_with(client, lookup, |_| {})
    }

    /// As [`Providers::standard`], with a change of each vendor's options: another catalog, rules of the user's, timeouts.
    ///
    /// # Errors
    /// As [`Providers::standard`].
    pub fn standard_with(
        client: &Client,
        lookup: &Lookup,
        change: impl Fn(&mut AdapterOptions),
    ) -> Result<Self, Vec<ProviderError>> {
        let mut providers = Providers::local();
        let mut problems = Vec::new();
        for vendor in VENDORS {
            match AdapterOptions::of_vendor(vendor, lookup) {
                Ok(mut options) => {
                    change(&mut options);
                    providers.register(Adapter::new(options, client.clone()));
                    vendor.aliases.iter().for_each(|alias| providers.alias(*alias, vendor.id));
                }
                Err(error) => problems.push(error),
            }
        }
        if problems.is_empty() { Ok(providers) } else { Err(problems) }
    }

    /// Adds a provider under its id; a later one replaces an earlier one.
    pub fn register(&mut self, provider: SharedProvider) {
        self.providers.insert(provider.id().clone(), provider);
    }

    /// Another name for a provider.
    pub fn alias(&mut self, alias: impl Into<String>, provider: impl Into<ProviderId>) {
        self.aliases.insert(alias.into(), provider.into());
    }

    /// A name for a model, such as `fast`. It is looked at before anything else.
    pub fn name_model(&mut self, name: impl Into<String>, reference: ModelRef) {
        self.models.insert(name.into(), reference);
    }

    /// The provider of this id or alias.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SharedProvider> {
        let id = self.aliases.get(name).cloned().unwrap_or_else(|| ProviderId::new(name));
        self.providers.get(&id)
    }

    /// Every id, in the order of registration.
    pub fn ids(&self) -> impl Iterator<Item = &ProviderId> {
        self.providers.keys()
    }

    /// Reads a reference or the name of a model, and finds who answers for it.
    ///
    /// # Errors
    /// [`ResolveError`] where the text is no reference, or nobody answers for it.
    pub fn resolve(&self, text: &str) -> Result<ResolvedModel, ResolveError> {
        let reference = match self.models.get(text.trim()) {
            Some(reference) => reference.clone(),
            None => ModelRef::parse(text)?,
        };
        let Some(provider) = self.get(reference.provider.as_str()) else {
            return Err(ResolveError::UnknownProvider {
                name: reference.provider.as_str().to_owned(),
                known: self.ids().map(ProviderId::as_str).collect::<Vec<_>>().join(", "),
            });
        };
        let reference = ModelRef { provider: provider.id().clone(), model: reference.model };
        Ok(ResolvedModel { provider: provider.clone(), reference })
    }
}

/// Why no model was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The text is no reference.
    #[error(transparent)]
    Invalid(#[from] InvalidModelRef),
    /// No provider of that name is known.
    #[error("no provider is called {name:?}; known are {known}")]
    UnknownProvider {
        /// The name that was given.
        name: String,
        /// The names that are known.
        known: String,
    },
}

impl Diagnose for ResolveError {
    fn kind(&self) -> ErrorKind {
        match self {
            ResolveError::Invalid(_) => ErrorKind::InvalidRequest,
            ResolveError::UnknownProvider { .. } => ErrorKind::NotFound,
        }
    }

    fn hints(&self) -> Vec<String> {
        let ResolveError::UnknownProvider { name, .. } = self else { return Vec::new() };
        vec![format!("a model of a local Ollama is written ollama:{name}:TAG; `offline` needs no provider at all")]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use crate::provider::AskContext;
    use placet_core::{Env, TurnRequest};
    use placet_net::ClientOptions;

    fn standard(
        lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Providers, Vec<ProviderError>> {
        let client = Client::new(ClientOptions::default(), Env::system()).unwrap();
        Providers::standard(&client, &(Arc::new(lookup) as Lookup))
    }

    #[tokio::test]
    async fn names_aliases_and_references_find_their_provider() {
        let mut providers = standard(|_| None).unwrap();
        providers.name_model("fast", ModelRef::new("groq", "small"));
        for (text, wanted) in [
            ("fast", "groq:small"),
            ("llama.cpp:any", "llamacpp:any"),
            ("gpt-5.4", "openai:gpt-5.4"),
            ("grok-4.7", "xai:grok-4.7"),
            ("offline", "offline"),
            ("echo", "echo"),
            ("scripted:a.json", "scripted:a.json"),
        ] {
            assert_eq!(providers.resolve(text).unwrap().reference.to_string(), wanted);
        }
        let unknown = providers.resolve("nobody:x").unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
        assert!(unknown.to_string().contains("openrouter"), "{unknown}");
        assert!(matches!(providers.resolve("llama").unwrap_err(), ResolveError::Invalid(_)));
    }

    #[tokio::test]
    async fn a_missing_key_is_told_when_a_model_is_asked_and_nothing_is_sent() {
        let providers = standard(|_| None).unwrap();
        let model = providers.resolve("openai:gpt-5.4").unwrap();
        let asked = model.provider.ask(Arc::new(TurnRequest::default()), AskContext::new(Env::system())).await;
        let error = asked.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Authentication);
        assert!(error.message.contains("OPENAI_API_KEY"), "{error}");
    }

    #[tokio::test]
    async fn every_wrong_base_url_is_told_at_once_with_its_variable() {
        let problems = standard(|name| name.ends_with("BASE_URL").then(|| "nonsense".to_owned())).unwrap_err();
        assert!(problems.len() > 5);
        assert!(problems.iter().any(|problem| problem.message.contains("OPENAI_BASE_URL")), "{problems:?}");
    }
}
