//! One model request, the events of its answer, and the finished turn.

use crate::error::ProviderError;
use crate::hosted::HostedTool;
use crate::id::{ProviderId, ToolName, TurnId};
use crate::item::{Item, ItemBody};
use crate::json_text::SharedText;
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
    pub instructions: Option<SharedText>,
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
    /// Tools that the provider itself runs, after ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosted: Vec<HostedTool>,
    /// Fields of the provider's own protocol, merged last.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Fields of a client's request that have no name of ours: an object. They go to the same provider only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
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
    /// It must call none, of those that the provider runs itself neither.
    None,
    /// It must call this one.
    Tool(ToolName),
    /// It may call some of the tools only.
    Allowed(AllowedTools),
}

/// Some of the offered tools, which alone may be called. The others are still shown to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedTools {
    /// Which. None, where only what the provider runs itself may be used.
    pub names: Vec<ToolName>,
    /// Whether one of them must be called.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Whether the tools that the provider runs itself may be used as well, where some are offered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hosted: bool,
}

impl AllowedTools {
    /// Whether none of the tools that the caller runs may be called.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.names.is_empty() && !self.required
    }
}

impl ToolChoice {
    /// Whether the model is free.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        *self == ToolChoice::Auto
    }

    /// Whether tools that the provider runs itself may be used.
    #[must_use]
    pub fn admits_hosted(&self) -> bool {
        match self {
            ToolChoice::None => false,
            ToolChoice::Allowed(allowed) => allowed.hosted,
            ToolChoice::Auto | ToolChoice::Required | ToolChoice::Tool(_) => true,
        }
    }

    /// Whether the model is made to call something.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        match self {
            ToolChoice::Required | ToolChoice::Tool(_) => true,
            ToolChoice::Allowed(allowed) => allowed.required,
            ToolChoice::Auto | ToolChoice::None => false,
        }
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
    /// How much to think: `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// A seed for sampling. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Sampling from so many of the likeliest tokens. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// How much to avoid what was said often. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// How much to avoid what was said at all. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// How many likeliest tokens to report at each place; 0 reports the chosen one only. A constraint: the caller reads them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<u64>,
    /// How many tokens to think with at most. A hint; it implies that thinking is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_budget: Option<u64>,
    /// How readable the thinking should be: `auto`, `concise`, `detailed`, `none`. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_summary: Option<String>,
    /// How long answers should be: `low`, `medium`, `high`. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
    /// The most calls of hosted tools in one answer. A constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_hosted_calls: Option<u64>,
    /// How urgent and how dear: `auto`, `default`, `flex`, `priority` … A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// How the provider's state is used: see [`StateMode`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateMode>,
    /// Whether the provider may keep the answer. A restriction where it is `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<bool>,
    /// Whether the provider answers later, to be asked again. A constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    /// What else the answer should contain, in the provider's words. A constraint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// What the answer may be made of: `text`, `audio`, `image`. A constraint; empty is text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modalities: Vec<String>,
    /// The prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheControl>,
    /// What happens to a conversation that becomes too long. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// What the caller wants noted with the request. A hint.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The caller's pseudonym of the person behind the request. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What is to be blocked, in the provider's words. A restriction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub safety: Vec<Native>,
}

open_words! {
    /// How a provider's state is used from turn to turn.
    pub enum StateMode {
        /// The provider keeps the conversation; only what is new is sent.
        Stateful = "provider_stateful",
        /// The whole conversation is sent, state included; the provider may keep the answer.
        Replay = "stateless_replay",
        /// The whole conversation is sent and the provider keeps nothing.
        ZeroRetention = "zdr",
        /// As before, and thinking comes and goes encrypted.
        EncryptedReasoning = "encrypted_reasoning",
    }
}

/// How the prompt cache is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheControl {
    /// Whether marks are set automatically (`auto`), only where the request says (`explicit`), or caching is off (`bypass`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<CacheStrategy>,
    /// Requests with the same key are likely to share a prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How long it should live: `5m`, `1h`, `24h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// Content that the provider holds already, by its own name. Not a hint: the request is not whole without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

open_words! {
    /// Who sets the marks of a prompt cache.
    pub enum CacheStrategy {
        /// The adapter: after the instructions and the last message.
        Auto = "auto",
        /// The request: where its parts and tools say.
        Explicit = "explicit",
        /// Nobody. A constraint.
        Bypass = "bypass",
    }
}

/// What happens to a conversation that becomes too long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Compaction {
    /// `auto`, `disabled`, `aggressive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// From how many tokens on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_context_tokens: Option<u64>,
    /// How many of the last turns stay as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_recent_turns: Option<u64>,
}

impl Controls {
    fn is_default(&self) -> bool {
        *self == Controls::default()
    }
}

/// The shape that an answer must have. Where it is not strict and the schema is `{"type": "object"}`, it is "some JSON object".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputFormat {
    /// A name for it, letters, digits, `_` and `-`.
    pub name: String,
    /// What it is for, told to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
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
        /// The opaque part of the text at this index: citations, a signature. A later one replaces it.
        TextState(ReasoningState) = "text_state",
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

/// The opaque part of some thinking or text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReasoningState {
    /// The place of the thinking or text it belongs to.
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
    pub native: Option<Native>,
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
    /// The tier that served it, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// What only the provider understands of the answer as a whole: the stop text that came, why it refused, a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

impl TurnFinished {
    /// An end of which nothing but the reason is known.
    #[must_use]
    pub fn new(stop: StopReason) -> Self {
        TurnFinished { stop, provider_state: None, service_tier: None, native: None }
    }
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
    /// The tier that served it, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// What only the provider understands of the answer as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
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
