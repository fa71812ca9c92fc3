//! Asking a model how it calls tools.
//!
//! Some servers offer models that were never taught to, or that answer with the call as text. [`probe`] asks the exact model
//! twice at most: once with a tool, once for a proposal in JSON. What it found is kept in a store ([`keep`], [`kept`]), and a
//! [`Profile`] takes it in.

use crate::profile::{FeatureSource, FeatureStatus, Profile};
use crate::provider::{AskContext, ModelProvider};
use crate::reference::ModelRef;
use futures_util::StreamExt;
use placet_core::turn::Controls;
use placet_core::{
    Accumulator, Effect, ErrorKind, Item, ProviderError, Schema, Timestamp, ToolDefinition, Turn, TurnRequest, Usage,
};
use placet_store::{Batch, Direction, Key, Store, StoreError, Tenant, Value as Stored};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;

/// How a model calls a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolAnswer {
    /// In its protocol.
    Native,
    /// As JSON in its text.
    JsonText,
    /// Not at all.
    None,
}

impl fmt::Display for ToolAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ToolAnswer::Native => "native tool calls",
            ToolAnswer::JsonText => "a proposal as JSON in its text",
            ToolAnswer::None => "neither tool calls nor proposals in JSON",
        })
    }
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Which model, as a reference.
    pub model: String,
    /// How it calls a tool.
    pub answers: ToolAnswer,
    /// When it was asked.
    pub at: Timestamp,
    /// What the questions used, where the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it said in place of a call, cut to 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

const TOOL: &str = "note_number";
const NUMBER: i64 = 7;
/// Enough for a model that thinks first.
const TOKENS: u64 = 2048;

/// Asks a model how it calls tools.
///
/// # Errors
/// [`ProviderError`] where the model cannot be asked at all. That it takes no tools is an answer.
pub async fn probe(provider: &dyn ModelProvider, model: &str, context: &AskContext) -> Result<Probe, ProviderError> {
    let env = &context.env;
    let mut found = Probe {
        model: ModelRef::new(provider.id().clone(), model).to_string(),
        answers: ToolAnswer::None,
        at: env.now(),
        usage: None,
        said: None,
    };
    let schema = json!({"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]});
    let tool = ToolDefinition::new(TOOL, "Notes a number.", Schema::new(schema), Effect::Read);
    let question = |text: String, tools: Vec<Arc<ToolDefinition>>| TurnRequest {
        model: model.to_owned(),
        items: vec![Arc::new(Item::user(env.new_id(), text))],
        tools,
        controls: Controls { max_output_tokens: Some(TOKENS), ..Controls::default() },
        ..TurnRequest::default()
    };
    let asked =
        question(format!("Call the tool {TOOL} with the number {NUMBER}. Do nothing else."), vec![Arc::new(tool)]);
    match ask(provider, asked, context).await {
        Ok(turn) => {
            found.take(&turn);
            let is_right = |call: &placet_core::ToolCall| {
                let arguments = serde_json::from_str::<Value>(call.arguments.as_text());
                call.name.as_str() == TOOL && arguments.is_ok_and(|arguments| arguments["number"] == NUMBER)
            };
            if turn.calls().any(is_right) {
                found.answers = ToolAnswer::Native;
                return Ok(found);
            }
            if proposes(&turn.text()) {
                found.answers = ToolAnswer::JsonText;
                return Ok(found);
            }
        }
        // A server that knows no tools says so in one of these ways.
        Err(error) if matches!(error.kind, ErrorKind::Unsupported | ErrorKind::InvalidRequest) => {
            found.said = Some(cut(&error.message));
        }
        Err(error) => return Err(error),
    }
    let form = json!({"tool": TOOL, "arguments": {"number": NUMBER}});
    let asked = question(
        format!(
            "Answer with exactly this JSON object, filled in for a call of {TOOL} with the number {NUMBER}, and with nothing else: {form}"
        ),
        Vec::new(),
    );
    let turn = ask(provider, asked, context).await?;
    found.take(&turn);
    if proposes(&turn.text()) {
        found.answers = ToolAnswer::JsonText;
    }
    Ok(found)
}

impl Probe {
    fn take(&mut self, turn: &Turn) {
        if let Some(usage) = turn.usage {
            self.usage = Some(self.usage.unwrap_or_default() + usage);
        }
        self.said = Some(turn.text()).filter(|text| !text.is_empty()).map(|text| cut(&text)).or(self.said.take());
    }
}

fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

async fn ask(provider: &dyn ModelProvider, asked: TurnRequest, context: &AskContext) -> Result<Turn, ProviderError> {
    let mut events = provider.ask(Arc::new(asked), context.clone()).await?;
    let mut answer = Accumulator::new();
    while let Some(event) = events.next().await {
        answer.push(&event);
    }
    answer.finish(provider.id(), &context.env)
}

/// Whether a text holds the proposed call: an object with the tool's name and the number, somewhere in it.
fn proposes(text: &str) -> bool {
    text.match_indices('{').take(64).any(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        let Some(Ok(value)) = values.next() else { return false };
        let name = ["tool", "name", "function"].iter().find_map(|key| value[*key].as_str());
        let arguments = ["arguments", "parameters", "input"].iter().find_map(|key| value.get(*key));
        name == Some(TOOL) && arguments.is_some_and(|arguments| arguments["number"] == NUMBER)
    })
}

impl Profile {
    /// Takes in what a probe found.
    pub fn take_in(&mut self, probe: &Probe) {
        match probe.answers {
            ToolAnswer::Native => self.set("tool", FeatureStatus::Supported, None, FeatureSource::Discovered),
            ToolAnswer::JsonText => {
                let reason = "asked, it proposed a call as JSON in its text in place of a call";
                self.set("tool", FeatureStatus::Unsupported, Some(reason), FeatureSource::Discovered);
            }
            ToolAnswer::None => {
                let reason = "asked, it neither called a tool nor proposed a call";
                self.set("tool", FeatureStatus::Unsupported, Some(reason), FeatureSource::Discovered);
            }
        }
        self.tools = Some(probe.answers);
    }
}

const FORMAT: u16 = 1;

fn place(tenant: &Tenant, model: &ModelRef) -> Key {
    Key::new(tenant).text("models").text("probe").text(model.to_string())
}

/// Keeps what a probe found, in place of what an earlier one did.
///
/// # Errors
/// What the store says.
pub async fn keep(store: &dyn Store, tenant: &Tenant, model: &ModelRef, probe: &Probe) -> Result<(), StoreError> {
    let mut batch = Batch::new();
    batch.put(place(tenant, model), Stored::json(FORMAT, probe)?);
    store.commit(batch).await.map(drop)
}

/// What a probe of this model found, if there was one.
///
/// # Errors
/// What the store says.
pub async fn kept(store: &dyn Store, tenant: &Tenant, model: &ModelRef) -> Result<Option<Probe>, StoreError> {
    store.cell(&place(tenant, model)).await?.map(|cell| cell.value.from_json(FORMAT)).transpose()
}

/// Everything that probes found.
///
/// # Errors
/// What the store says.
pub async fn all_kept(store: &dyn Store, tenant: &Tenant) -> Result<Vec<Probe>, StoreError> {
    let prefix = Key::new(tenant).text("models").text("probe");
    let cells = store.cells(&prefix, None, Direction::Forward, placet_store::MAX_READ).await?;
    cells.iter().map(|cell| cell.value.from_json(FORMAT)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use crate::scripted::{Script, ScriptedModel};
    use placet_core::Env;
    use placet_store::MemoryStore;

    fn script(turns: serde_json::Value) -> Arc<ScriptedModel> {
        let script = Script::parse(&json!({"turns": turns}).to_string()).unwrap();
        ScriptedModel::new(script)
    }

    async fn probed(turns: serde_json::Value) -> Probe {
        probe(&*script(turns), "m", &AskContext::new(Env::system())).await.unwrap()
    }

    #[tokio::test]
    async fn every_way_of_answering_is_told_apart() {
        let call = json!([{"calls": [{"name": "note_number", "arguments": {"number": 7}}], "usage": {"input": 3, "output": 4}}]);
        let native = probed(call).await;
        assert_eq!((native.answers, native.usage.map(|usage| usage.total())), (ToolAnswer::Native, Some(7)));
        let spoken =
            json!([{"text": "Sure!\n```json\n{\"name\": \"note_number\", \"parameters\": {\"number\": 7}}\n```"}]);
        assert_eq!(probed(spoken).await.answers, ToolAnswer::JsonText);
        let later = json!([
            {"fail": {"kind": "invalid_request", "message": "m does not support tools", "status": 400}},
            {"text": "{\"tool\": \"note_number\", \"arguments\": {\"number\": 7}}"}
        ]);
        assert_eq!(probed(later).await.answers, ToolAnswer::JsonText);
        let never = json!([{"text": "I would call note_number {with} 7."}, {"text": "No {\"tool\": \"note_number\"}"}]);
        let never = probed(never).await;
        assert_eq!(never.answers, ToolAnswer::None);
        assert!(never.said.unwrap().starts_with("No"));
        let wrong = json!([{"calls": [{"name": "note_number", "arguments": {"number": 8}}]}, {"text": "-"}]);
        assert_eq!(probed(wrong).await.answers, ToolAnswer::None);
        let gone = json!([{"fail": {"kind": "authentication", "message": "no key"}}]);
        let error = probe(&*script(gone), "m", &AskContext::new(Env::system())).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Authentication);
    }

    #[tokio::test]
    async fn what_was_found_is_kept_and_a_profile_takes_it_in() {
        let env = Env::system();
        let store = MemoryStore::new(env.clock().clone());
        let (tenant, model) = (Tenant::new("t"), ModelRef::new("scripted", "m"));
        assert_eq!(kept(&store, &tenant, &model).await.unwrap(), None);
        let found = probed(json!([{"text": "no"}, {"text": "no"}])).await;
        keep(&store, &tenant, &model, &found).await.unwrap();
        assert_eq!(kept(&store, &tenant, &model).await.unwrap(), Some(found.clone()));
        assert_eq!(all_kept(&store, &tenant).await.unwrap(), std::slice::from_ref(&found));
        let lookup: crate::Lookup = Arc::new(|_| None);
        let options = crate::AdapterOptions::of_vendor(crate::vendor::vendor("vllm").unwrap(), &lookup).unwrap();
        let mut profile = options.profile("m");
        assert_eq!(profile.status("tool"), FeatureStatus::Supported);
        profile.take_in(&found);
        assert_eq!(profile.feature("tool").unwrap().source, FeatureSource::Discovered);
        let tool = ToolDefinition::new("t", "d", Schema::empty_object(), Effect::Read);
        let request = TurnRequest { tools: vec![Arc::new(tool)], ..TurnRequest::default() };
        assert!(profile.check(&request).unwrap_err().message.contains("neither called a tool"));
    }
}
