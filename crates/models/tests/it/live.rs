//! Real models: one suite a provider, which costs a little and runs only where it is named.
//!
//! ```text
//! PLACET_TEST_LIVE=anthropic cargo test -p placet-models --test it live::anthropic
//! ```
//!
//! `PLACET_TEST_LIVE` names the suites to run, with commas between. The key is found in the variable that the vendor's row names;
//! without it the suite is skipped, too. `PLACET_TEST_LIVE_ANTHROPIC` (and so on) names another model than the one that is asked by
//! default.

use futures_util::StreamExt;
use placet_core::embedding::EmbeddingRequest;
use placet_core::tool::Schema;
use placet_core::turn::Controls;
use placet_core::{
    Accumulator, Effect, Env, ErrorKind, Item, Origin, Outcome, Stage, Status, StopReason, ToolDefinition, ToolResult,
    Turn, TurnRequest,
};
use placet_models::vendor::{Vendor, vendor};
use placet_models::{Adapter, AdapterOptions, AskContext, Lookup, ModelProvider};
use placet_net::{Client, ClientOptions, ProxySettings};
use serde_json::json;
use std::sync::Arc;

/// A conversation with a model of one provider.
struct Talk {
    adapter: Arc<Adapter>,
    context: AskContext,
    model: String,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

impl Talk {
    /// Nothing where the provider cannot be asked; it is said why.
    async fn with(id: &str, default: Option<&str>) -> Option<Self> {
        let row: &Vendor = vendor(id).expect("a vendor");
        let skipped = |why: String| {
            eprintln!("SKIPPED live::{}: {why}", id.replace('-', "_"));
            None
        };
        let named = variable("PLACET_TEST_LIVE").unwrap_or_default();
        if !named.split(',').any(|name| name.trim() == id) {
            return skipped(format!("PLACET_TEST_LIVE does not name {id}"));
        }
        if row.is_key_required && !row.key_variables.iter().any(|name| variable(name).is_some()) {
            return skipped(format!("{} is not set", row.key_variables.join(" or ")));
        }
        let env = Env::system();
        let lookup: Lookup = Arc::new(variable);
        let proxies = ProxySettings::from_vars(variable).expect("proxies");
        let client = Client::new(ClientOptions::new().proxies(proxies), env.clone()).expect("a client");
        let adapter = Adapter::new(AdapterOptions::of_vendor(row, &lookup).expect("options"), client);
        let context = AskContext::new(env);
        let named = variable(&format!("PLACET_TEST_LIVE_{}", id.replace('-', "_").to_uppercase()));
        let model = match named.or_else(|| default.map(str::to_owned)) {
            Some(model) => model,
            None => match adapter.models(context.clone()).await {
                Ok(models) if !models.is_empty() => models[0].id.clone(),
                Ok(_) => return skipped("its server has no models".to_owned()),
                Err(error) => return skipped(error.to_string()),
            },
        };
        if let Err(error) = adapter.ready(&model).await {
            return skipped(error.to_string());
        }
        Some(Talk { adapter, context, model })
    }

    fn request(&self, text: &str) -> TurnRequest {
        TurnRequest {
            model: self.model.clone(),
            items: vec![Arc::new(Item::user(self.context.env.new_id(), text))],
            controls: Controls { max_output_tokens: Some(2000), ..Controls::default() },
            ..TurnRequest::default()
        }
    }

    async fn turn(&self, request: &TurnRequest) -> Turn {
        let stream = self.adapter.ask(Arc::new(request.clone()), self.context.clone()).await.expect("an answer");
        let mut fold = Accumulator::new();
        stream
            .for_each(|event| {
                fold.push(&event);
                futures_util::future::ready(())
            })
            .await;
        fold.finish(self.adapter.id(), &self.context.env).expect("a whole answer")
    }

    async fn says(&self) {
        let turn = self.turn(&self.request("Answer with this one word and nothing else: placet")).await;
        assert!(turn.text().to_lowercase().contains("placet"), "{turn:#?}");
        assert_eq!(turn.stop, StopReason::End);
        let usage = turn.usage.expect("usage");
        assert!(usage.total_input() > 0 && usage.output > 0, "{usage:?}");
    }

    /// A tool is called, its result is read, and the state of the first answer goes back with it.
    async fn calls(&self) {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        let mut request = self.request("Which temperature does the tool tell for Bern? Use it, then say the number.");
        request.tools.push(Arc::new(ToolDefinition::new(
            "temperature",
            "Tells the temperature of a city.",
            Schema::new(schema),
            Effect::Read,
        )));
        let turn = self.turn(&request).await;
        let calls: Vec<_> = turn.calls().cloned().collect();
        assert_eq!(turn.stop, StopReason::ToolCalls, "{turn:#?}");
        let arguments = calls[0].arguments.parse().expect("arguments");
        assert!(arguments["city"].as_str().is_some_and(|city| city.contains("Bern")), "{arguments:?}");
        request.items.extend(turn.items);
        for call in calls {
            let result = ToolResult {
                call: call.id,
                provider_id: call.provider_id,
                tool: call.name,
                capability: None,
                outcome: Outcome::new(Status::Completed, Stage::Execute, None, "17 degrees"),
                native: None,
            };
            let item = Item::new(self.context.env.new_id(), Origin::Tool("temperature".into()), result);
            request.items.push(Arc::new(item));
        }
        let turn = self.turn(&request).await;
        assert!(turn.text().contains("17"), "{turn:#?}");
    }

    /// What a provider may not have says so, and nothing else.
    async fn counts_and_lists(&self) {
        let counted = self.adapter.count_tokens(Arc::new(self.request("Hello")), self.context.clone()).await;
        match counted {
            Ok(tokens) => assert!(tokens > 0),
            Err(error) => assert_eq!(error.kind, ErrorKind::Unsupported, "{error}"),
        }
        let listed = self.adapter.models(self.context.clone()).await;
        assert!(listed.is_ok_and(|models| !models.is_empty()));
    }
}

async fn suite(id: &str, default: Option<&str>) {
    let Some(talk) = Talk::with(id, default).await else { return };
    talk.says().await;
    talk.calls().await;
    talk.counts_and_lists().await;
}

/// Vectors of one length for texts, in order.
async fn embeds(id: &str, model: &str) {
    let Some(talk) = Talk::with(id, Some(model)).await else { return };
    let request = EmbeddingRequest {
        model: model.into(),
        inputs: vec!["one".into(), "two".into()],
        ..EmbeddingRequest::default()
    };
    let made = talk.adapter.embed(request, talk.context.clone()).await.expect("vectors");
    assert_eq!(made.vectors.len(), 2);
    assert!(!made.vectors[0].is_empty() && made.vectors[0].len() == made.vectors[1].len());
}

macro_rules! live {
    ($($name:ident: $id:literal, $default:expr;)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                suite($id, $default).await;
            }
        )*
    };
}

live! {
    openai: "openai", Some("gpt-5.4-mini");
    openai_chat: "openai-chat", Some("gpt-5.4-mini");
    anthropic: "anthropic", Some("claude-haiku-5-5");
    google: "google", Some("gemini-3.8-flash");
    vertex: "vertex", Some("gemini-3.8-flash");
    xai: "xai", Some("grok-4.5");
    openrouter: "openrouter", Some("openai/gpt-5.4-mini");
    groq: "groq", None;
    mistral: "mistral", Some("mistral-small-latest");
    deepseek: "deepseek", Some("deepseek-chat");
    together: "together", None;
    fireworks: "fireworks", None;
    cerebras: "cerebras", None;
    azure: "azure", None;
    ollama: "ollama", None;
    llamacpp: "llamacpp", None;
    vllm: "vllm", None;
    lmstudio: "lmstudio", None;
    perplexity: "perplexity", Some("sonar");
    moonshot: "moonshot", None;
}

#[tokio::test]
async fn openai_embeds() {
    embeds("openai", "text-embedding-3-small").await;
}

#[tokio::test]
async fn google_embeds() {
    embeds("google", "gemini-embedding-001").await;
}
