//! Vendors that speak OpenAI Chat, as rows of data: where they are, what holds their key, and how they differ.

use placet_core::ProviderId;
use placet_wire::openai_chat::{Dialect, OperatorRole, OutputLimit, OutputSupport, ReplayReasoning};
use serde::{Deserialize, Serialize};

/// One vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vendor {
    /// Its id, as it stands before the colon of a reference.
    pub id: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What people call it.
    pub name: &'static str,
    /// Where it is, unless a variable says otherwise.
    pub base_url: &'static str,
    /// The variables that say where it is.
    pub base_url_variables: &'static [&'static str],
    /// The variables that hold its key, the first that is set counts.
    pub key_variables: &'static [&'static str],
    /// Whether it does nothing without a key.
    pub is_key_required: bool,
    /// How all its models differ from what is usual.
    pub quirks: &'static [Quirk],
    /// How models differ further whose names begin so; every row that fits counts.
    pub models: &'static [(&'static str, &'static [Quirk])],
}

/// A way in which a server differs from one that takes everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quirk {
    /// The limit on output stands in `max_completion_tokens`.
    MaxCompletionTokens,
    /// Operator's messages have the role `developer`.
    DeveloperRole,
    /// It does not stream.
    NoStream,
    /// It must not be asked for usage in a stream.
    NoStreamUsage,
    /// It takes no `temperature` and `top_p`.
    NoSampling,
    /// It takes no `seed`.
    NoSeed,
    /// It takes no `reasoning_effort`.
    NoEffort,
    /// It takes `reasoning_effort` after all.
    Effort,
    /// It takes no `parallel_tool_calls`.
    NoParallelControl,
    /// It heeds no `tool_choice` that forces a call.
    NoForcedChoice,
    /// It takes no `strict` in tools.
    NoStrictTools,
    /// It takes no schema for the answer, but can be told to answer with JSON.
    JsonObjectOnly,
    /// It takes nothing about the shape of the answer.
    NoOutputFormat,
    /// Thinking is never sent back to it.
    NoReasoningReplay,
    /// Thinking is sent back to it with every message.
    FullReasoningReplay,
    /// It takes no pictures.
    NoImages,
    /// It takes no sounds.
    NoAudio,
    /// It takes no documents.
    NoFiles,
}

impl Quirk {
    fn apply(self, dialect: &mut Dialect) {
        match self {
            Quirk::MaxCompletionTokens => dialect.output_limit = OutputLimit::MaxCompletionTokens,
            Quirk::DeveloperRole => dialect.operator = OperatorRole::Developer,
            Quirk::NoStream => dialect.stream = false,
            Quirk::NoStreamUsage => dialect.stream_usage = false,
            Quirk::NoSampling => dialect.sampling = false,
            Quirk::NoSeed => dialect.seed = false,
            Quirk::NoEffort => dialect.reasoning_effort = false,
            Quirk::Effort => dialect.reasoning_effort = true,
            Quirk::NoParallelControl => dialect.parallel_calls = false,
            Quirk::NoForcedChoice => dialect.forced_choice = false,
            Quirk::NoStrictTools => dialect.strict_tools = false,
            Quirk::JsonObjectOnly => dialect.output = OutputSupport::Object,
            Quirk::NoOutputFormat => dialect.output = OutputSupport::None,
            Quirk::NoReasoningReplay => dialect.replay_reasoning = ReplayReasoning::Never,
            Quirk::FullReasoningReplay => dialect.replay_reasoning = ReplayReasoning::Always,
            Quirk::NoImages => dialect.images = false,
            Quirk::NoAudio => dialect.audio = false,
            Quirk::NoFiles => dialect.files = false,
        }
    }
}

/// The dialect of a server with these quirks.
pub fn dialect<'a>(provider: &ProviderId, quirks: impl IntoIterator<Item = &'a Quirk>) -> Dialect {
    let mut dialect = Dialect::new(provider.clone());
    quirks.into_iter().for_each(|quirk| quirk.apply(&mut dialect));
    dialect
}

use Quirk::{
    DeveloperRole, Effort, FullReasoningReplay, JsonObjectOnly, MaxCompletionTokens, NoAudio, NoEffort, NoFiles,
    NoForcedChoice, NoImages, NoParallelControl, NoReasoningReplay, NoSampling, NoSeed, NoStrictTools,
};

/// What OpenAI's reasoning models add: they have an effort and take no sampling.
const REASONING: &[Quirk] = &[DeveloperRole, NoSampling, Effort];

/// Every vendor that is known. A server that is not can be used through `OPENAI_BASE_URL` or a provider of its own.
pub const VENDORS: &[Vendor] = &[
    Vendor {
        id: "openai",
        aliases: &[],
        name: "OpenAI",
        base_url: "https://api.openai.com/v1",
        base_url_variables: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        key_variables: &["OPENAI_API_KEY"],
        is_key_required: true,
        quirks: &[MaxCompletionTokens, NoEffort, NoReasoningReplay],
        models: &[("o1", REASONING), ("o3", REASONING), ("o4", REASONING), ("gpt-5", REASONING), ("gpt-6", REASONING)],
    },
    Vendor {
        id: "ollama",
        aliases: &[],
        name: "Ollama",
        base_url: "http://127.0.0.1:11434/v1",
        base_url_variables: &["OLLAMA_HOST"],
        key_variables: &["OLLAMA_API_KEY"],
        is_key_required: false,
        quirks: &[NoForcedChoice, NoParallelControl, NoStrictTools, NoAudio, NoFiles],
        models: &[],
    },
    Vendor {
        id: "llamacpp",
        aliases: &["llama.cpp", "llama-cpp"],
        name: "llama.cpp",
        base_url: "http://127.0.0.1:8080/v1",
        base_url_variables: &["LLAMACPP_BASE_URL"],
        key_variables: &["LLAMACPP_API_KEY"],
        is_key_required: false,
        quirks: &[NoStrictTools, NoFiles],
        models: &[],
    },
    Vendor {
        id: "vllm",
        aliases: &[],
        name: "vLLM",
        base_url: "http://127.0.0.1:8000/v1",
        base_url_variables: &["VLLM_BASE_URL"],
        key_variables: &["VLLM_API_KEY"],
        is_key_required: false,
        quirks: &[NoFiles],
        models: &[],
    },
    Vendor {
        id: "lmstudio",
        aliases: &["lm-studio"],
        name: "LM Studio",
        base_url: "http://127.0.0.1:1234/v1",
        base_url_variables: &["LMSTUDIO_BASE_URL"],
        key_variables: &["LMSTUDIO_API_KEY"],
        is_key_required: false,
        quirks: &[NoParallelControl, NoStrictTools, NoAudio, NoFiles],
        models: &[],
    },
    Vendor {
        id: "openrouter",
        aliases: &[],
        name: "OpenRouter",
        base_url: "https://openrouter.ai/api/v1",
        base_url_variables: &["OPENROUTER_BASE_URL"],
        key_variables: &["OPENROUTER_API_KEY"],
        is_key_required: true,
        quirks: &[FullReasoningReplay],
        models: &[],
    },
    Vendor {
        id: "groq",
        aliases: &[],
        name: "Groq",
        base_url: "https://api.groq.com/openai/v1",
        base_url_variables: &["GROQ_BASE_URL"],
        key_variables: &["GROQ_API_KEY"],
        is_key_required: true,
        quirks: &[MaxCompletionTokens, NoReasoningReplay, NoStrictTools, NoAudio, NoFiles],
        models: &[],
    },
    Vendor {
        id: "mistral",
        aliases: &[],
        name: "Mistral",
        base_url: "https://api.mistral.ai/v1",
        base_url_variables: &["MISTRAL_BASE_URL"],
        key_variables: &["MISTRAL_API_KEY"],
        is_key_required: true,
        quirks: &[NoReasoningReplay, NoSeed, NoEffort, NoFiles],
        models: &[],
    },
    Vendor {
        id: "deepseek",
        aliases: &[],
        name: "DeepSeek",
        base_url: "https://api.deepseek.com",
        base_url_variables: &["DEEPSEEK_BASE_URL"],
        key_variables: &["DEEPSEEK_API_KEY"],
        is_key_required: true,
        quirks: &[JsonObjectOnly, NoSeed, NoParallelControl, NoStrictTools, NoImages, NoAudio, NoFiles],
        models: &[],
    },
    Vendor {
        id: "xai",
        aliases: &["grok"],
        name: "xAI",
        base_url: "https://api.x.ai/v1",
        base_url_variables: &["XAI_BASE_URL"],
        key_variables: &["XAI_API_KEY"],
        is_key_required: true,
        quirks: &[MaxCompletionTokens, NoReasoningReplay, NoStrictTools, NoAudio, NoFiles],
        models: &[],
    },
    Vendor {
        id: "cerebras",
        aliases: &[],
        name: "Cerebras",
        base_url: "https://api.cerebras.ai/v1",
        base_url_variables: &["CEREBRAS_BASE_URL"],
        key_variables: &["CEREBRAS_API_KEY"],
        is_key_required: true,
        quirks: &[MaxCompletionTokens, NoReasoningReplay, NoImages, NoAudio, NoFiles],
        models: &[],
    },
    Vendor {
        id: "together",
        aliases: &[],
        name: "Together",
        base_url: "https://api.together.xyz/v1",
        base_url_variables: &["TOGETHER_BASE_URL"],
        key_variables: &["TOGETHER_API_KEY"],
        is_key_required: true,
        quirks: &[NoParallelControl, NoStrictTools, NoAudio, NoFiles],
        models: &[],
    },
];

/// The row of a vendor, by id or alias.
#[must_use]
pub fn vendor(name: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|vendor| vendor.id == name || vendor.aliases.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_rows_share_a_name_or_variable() {
        let mut seen = BTreeSet::new();
        for vendor in VENDORS {
            let names = [vendor.id].into_iter().chain(vendor.aliases.iter().copied());
            for name in names.chain(vendor.key_variables.iter().chain(vendor.base_url_variables).copied()) {
                assert!(seen.insert(name), "{name}");
            }
            assert!(!vendor.key_variables.is_empty(), "{}", vendor.id);
        }
        assert_eq!(vendor("llama.cpp").map(|vendor| vendor.id), Some("llamacpp"));
    }
}
