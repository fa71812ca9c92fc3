//! What the tests here share: a runtime with a scripted model, a few tools, and journals to look into.

use placet_core::env::{ManualClock, ManualHandle};
use placet_core::event::EventBody;
use placet_core::{Effect, Env, Event, ItemBody, ProviderId, RunId, Timestamp, ToolResult};
use placet_models::scripted::{Follow, Script, ScriptTurn, ScriptedModel};
use placet_models::{
    AdapterOptions, AskContext, Lookup, ModelListing, ModelProvider, Profile, SharedProvider, TurnStream,
};
use placet_observe::{Journal, RunResult, replay, verify};
use placet_runtime::{Runtime, RuntimeBuilder};
use placet_store::{MemoryStore, SharedStore, Tenant};
use placet_tools::{BoundTool, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Say {
    /// What to say.
    pub(crate) word: String,
}

/// A world whose clock stands still.
pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: SharedStore,
}

pub(crate) fn world() -> World {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    let env = Env::deterministic(clock.clone(), 7);
    let store: SharedStore = Arc::new(MemoryStore::new(Arc::new(ManualHandle(clock.clone()))));
    World { env, clock, store }
}

pub(crate) fn scripted(turns: Vec<ScriptTurn>) -> Arc<ScriptedModel> {
    ScriptedModel::new(Script { follow: Follow::Conversation, turns })
}

impl World {
    pub(crate) fn builder(&self, provider: SharedProvider) -> RuntimeBuilder {
        Runtime::builder(self.env.clone(), self.store.clone()).provider(provider)
    }

    pub(crate) fn runtime(&self, turns: Vec<ScriptTurn>) -> Runtime {
        self.builder(scripted(turns)).build()
    }

    pub(crate) async fn journal(&self, run: &RunId) -> Journal {
        Journal::read(&*self.store, &Tenant::new(""), run).await.unwrap()
    }

    /// The kinds of a run's records.
    pub(crate) async fn kinds(&self, run: &RunId) -> Vec<String> {
        self.journal(run).await.events().map(|event| event.body.kind().to_owned()).collect()
    }

    /// The journal is whole, and its replay is the result.
    pub(crate) async fn check(&self, result: &RunResult) {
        let tenant = Tenant::new("");
        let verification = verify(&*self.store, &tenant, &result.run).await.unwrap();
        assert!(verification.is_sound() && verification.ended, "{verification:?}");
        let journal = self.journal(&result.run).await;
        assert_eq!(replay(&journal).result.as_ref(), Some(result));
    }
}

/// Counts its calls and answers with the word it was given.
pub(crate) fn echo_tool(name: &str) -> (BoundTool, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    let tool = tool(name, "Says a word again.", move |say: Say, _| {
        let counter = counter.clone();
        async move {
            counter.fetch_add(1, Ordering::SeqCst);
            say.word
        }
    });
    (tool.effect(Effect::Read).build(), ran)
}

pub(crate) fn results(result: &RunResult) -> Vec<ToolResult> {
    let results = result.items.iter().filter_map(|item| match &item.body {
        ItemBody::ToolResult(result) => Some((**result).clone()),
        _ => None,
    });
    results.collect()
}

/// Says a little and then nothing more, until it is dropped.
#[derive(Debug)]
pub(crate) struct Silent {
    pub(crate) id: ProviderId,
    pub(crate) dropped: Arc<AtomicUsize>,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait::async_trait]
impl ModelProvider for Silent {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    async fn ask(
        &self,
        _request: Arc<placet_core::TurnRequest>,
        _context: AskContext,
    ) -> Result<TurnStream, placet_core::ProviderError> {
        use futures_util::StreamExt;
        let guard = CountDrop(self.dropped.clone());
        let first = placet_core::TurnEvent::Text(placet_core::turn::TextDelta { index: 0, text: "Let me".into() });
        let usage = placet_core::TurnEvent::Usage(placet_core::Usage { input: 3, ..Default::default() });
        let rest = futures_util::stream::once(async move {
            let _guard = guard;
            std::future::pending().await
        });
        Ok(futures_util::stream::iter([first, usage]).chain(rest).boxed())
    }

    async fn models(&self, _context: AskContext) -> Result<Vec<ModelListing>, placet_core::ProviderError> {
        Ok(Vec::new())
    }
}

/// Only the kinds of events.
pub(crate) fn kinds(events: &[Arc<Event>]) -> Vec<&str> {
    events.iter().map(|event| event.body.kind()).collect()
}

pub(crate) fn text_of(events: &[Arc<Event>]) -> String {
    let texts = events.iter().filter_map(|event| match &event.body {
        EventBody::TextDelta(delta) => Some(delta.delta.as_str()),
        _ => None,
    });
    texts.collect()
}

/// What a model of some provider can, as its adapter has it.
pub(crate) fn profile_of(provider: &str, model: &str) -> Arc<Profile> {
    let none: Lookup = Arc::new(|_| None);
    let vendor = placet_models::vendor::vendor(provider).unwrap();
    Arc::new(AdapterOptions::of_vendor(vendor, &none).unwrap().profile(model))
}

/// A scripted model that can what another one can, and is held to it as by an adapter.
#[derive(Debug)]
pub(crate) struct Knowing {
    pub(crate) script: Arc<ScriptedModel>,
    pub(crate) profile: Option<Arc<Profile>>,
    /// Whether its server refuses a schema that is sent with a request.
    pub(crate) refuses_schemas: bool,
}

impl Knowing {
    pub(crate) fn like(provider: &str, model: &str, turns: Vec<ScriptTurn>) -> Arc<Self> {
        let profile = Some(profile_of(provider, model));
        Arc::new(Knowing { script: scripted(turns), profile, refuses_schemas: false })
    }
}

#[async_trait::async_trait]
impl ModelProvider for Knowing {
    fn id(&self) -> &ProviderId {
        self.script.id()
    }

    async fn ask(
        &self,
        request: Arc<placet_core::TurnRequest>,
        context: AskContext,
    ) -> Result<TurnStream, placet_core::ProviderError> {
        if let Some(profile) = &self.profile {
            profile.check(&request)?;
        }
        if self.refuses_schemas && request.output.is_some() {
            let kind = placet_core::ErrorKind::InvalidRequest;
            return Err(placet_core::ProviderError::new(kind, self.id().clone(), "unknown field `response_format`"));
        }
        self.script.ask(request, context).await
    }

    fn profile(&self, _: &str) -> Option<Arc<Profile>> {
        self.profile.clone()
    }

    async fn models(&self, _context: AskContext) -> Result<Vec<ModelListing>, placet_core::ProviderError> {
        Ok(Vec::new())
    }
}
