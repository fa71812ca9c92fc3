//! One model request, the events of its answer, and the finished turn.

use crate::error::ProviderError;
use crate::id::{ProviderId, TurnId};
use crate::item::{Item, ItemBody};
use crate::open::{open_enum, open_words};
use crate::part::Native;
use crate::tool::{Schema, ToolCall, ToolDefinition};
use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// One request to a model, in no provider's words. Adapters encode it; served endpoints decode to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnRequest {
    /// The provider's name of the model: `gpt-5.4`, without the provider.
    pub model: String,
    /// What the operator tells the model before everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Arc<str>>,
    /// The conversation so far.
    pub items: Vec<Arc<Item>>,
    /// The tools it may ask for, in declaration order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Whether and what it must call.
    #[serde(default, skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// Knobs. Absent ones are the provider's own defaults.
    #[serde(default, skip_serializing_if = "Controls::is_default")]
    pub controls: Controls,
    /// The shape that the answer must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputFormat>,
    /// What the provider needs to go on where it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_state: Option<ProviderState>,
    /// Fields of the provider's own protocol, merged last.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// Whether and what a model must call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it sees fit.
    #[default]
    Auto,
    /// It must call some tool.
    Required,
    /// It must call none.
    None,
    /// It must call this one.
    Tool(crate::id::ToolName),
}

impl ToolChoice {
    /// Whether the model is free.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        *self == ToolChoice::Auto
    }

    /// Whether the model is made to call something.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        matches!(self, ToolChoice::Required | ToolChoice::Tool(_))
    }
}

/// Knobs of a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Controls {
    /// Sampling temperature. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The most tokens it may answer with. A constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Texts that end the answer. A constraint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Whether it may ask for several tools at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// How much to think: `minimal`, `low`, `medium`, `high` … A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// A seed for sampling. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Controls {
    fn is_default(&self) -> bool {
        *self == Controls::default()
    }
}

/// The shape that an answer must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputFormat {
    /// A name for it, letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON Schema of the answer.
    pub schema: Schema,
    /// Whether the provider must hold the model to it.
    pub strict: bool,
}

/// What a provider needs to continue, opaque to everyone else. It is not the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProviderState {
    /// Whose state. It goes back to this provider only.
    pub provider: ProviderId,
    /// The state.
    pub value: Value,
}

open_enum! {
    /// What happens while a model answers.
    pub enum TurnEvent {
        /// The provider has begun to answer.
        Started(TurnStarted) = "started",
        /// A piece of the answer's text.
        Text(TextDelta) = "text",
        /// A piece of a refusal's text.
        Refusal(TextDelta) = "refusal",
        /// A piece of readable thinking.
        Reasoning(TextDelta) = "reasoning",
        /// The opaque part of the thinking at this index.
        ReasoningState(ReasoningState) = "reasoning_state",
        /// A piece of a tool call.
        Call(CallDelta) = "call",
        /// Something whole: a hosted call, or what only the provider understands.
        Whole(Box<WholeItem>) = "item",
        /// What has been used so far in this turn; a later one replaces it.
        Usage(Usage) = "usage",
        /// The answer is whole.
        Finished(TurnFinished) = "finished",
        /// The answer broke off. Text so far stays visible as partial; calls so far are discarded.
        Failed(Box<ProviderError>) = "failed",
    }
}

/// The provider has begun to answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// The model that answers, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider's id of the response or request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
}

/// A piece of text at a place of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextDelta {
    /// The place: pieces of one place belong together, and places are in the order of the answer.
    pub index: u32,
    /// The piece.
    pub text: String,
}

/// The opaque part of some thinking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReasoningState {
    /// The place of the thinking it belongs to.
    pub index: u32,
    /// The opaque part.
    pub native: Native,
}

/// A piece of a tool call. The first piece of a place carries the name; an empty or absent field adds nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallDelta {
    /// The place.
    pub index: u32,
    /// The provider's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A piece of the arguments' text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arguments: String,
    /// What only the provider understands of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Value>,
}

/// Something whole at a place of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WholeItem {
    /// The place.
    pub index: u32,
    /// What it is.
    pub body: ItemBody,
}

/// The answer is whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnFinished {
    /// Why it ended.
    pub stop: StopReason,
    /// What the provider needs to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_state: Option<ProviderState>,
}

open_words! {
    /// Why an answer ended.
    pub enum StopReason {
        /// The model was done.
        End = "end",
        /// The model asks for tools.
        ToolCalls = "tool_calls",
        /// A limit on output was reached: the answer is cut.
        MaxTokens = "max_tokens",
        /// One of the given stop texts came.
        StopSequence = "stop_sequence",
        /// A filter of the provider cut the answer.
        ContentFilter = "content_filter",
        /// The model refused.
        Refusal = "refusal",
        /// The provider paused; the same conversation is to be sent again.
        Pause = "pause",
    }
}

impl StopReason {
    /// Whether the answer was cut, so that its calls must not be run.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        matches!(self, StopReason::MaxTokens | StopReason::ContentFilter)
    }
}

/// One finished answer of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// The model that answered, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// What it said and asked for, in order.
    pub items: Vec<Arc<Item>>,
    /// Why it ended.
    pub stop: StopReason,
    /// What it used; absent where the provider did not say. Never estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What the provider needs to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_state: Option<ProviderState>,
}

impl Turn {
    /// The calls it asks for, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.items.iter().filter_map(|item| match &item.body {
            ItemBody::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// All text that it says, without thinking.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for item in &self.items {
            if let ItemBody::Message(message) = &item.body {
                text.push_str(&message.text());
            }
        }
        text
    }
}
