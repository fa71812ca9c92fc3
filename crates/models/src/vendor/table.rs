//! The table of vendors.

use super::Quirk::{
    CacheControlMarks, CustomTools, DeveloperRole, Effort, FullReasoningReplay, JsonObjectOnly, MaxCompletionTokens,
    NoAudio, NoEffort, NoFiles, NoForcedChoice, NoImages, NoOwnFields, NoParallelControl, NoReasoningReplay,
    NoSampling, NoSeed, NoStrictTools, NoTopK,
};
use super::{Flavour, KeyPlace, Place, Quirk, Vendor};
use crate::adapter::Protocol;

/// What OpenAI's reasoning models add: they have an effort and take no sampling.
const REASONING: &[Quirk] = &[DeveloperRole, NoSampling, Effort];

/// What OpenAI's servers differ in.
const OPENAI: &[Quirk] = &[CustomTools, NoTopK, MaxCompletionTokens, NoEffort, NoReasoningReplay];

/// What OpenAI's models differ in by their names.
const OPENAI_MODELS: &[(&str, &[Quirk])] =
    &[("o1", REASONING), ("o3", REASONING), ("o4", REASONING), ("gpt-5", REASONING), ("gpt-6", REASONING)];

/// Every vendor that is known. A server that is not can be used through `OPENAI_BASE_URL` or a provider of its own.
pub const VENDORS: &[Vendor] = &[
    Vendor {
        protocol: Protocol::OpenaiResponses,
        base_url_variables: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        key_variables: &["OPENAI_API_KEY"],
        quirks: OPENAI,
        models: OPENAI_MODELS,
        catalog: Some("openai"),
        ..Vendor::new("openai", "OpenAI", "https://api.openai.com/v1")
    },
    Vendor {
        flavour: Flavour::Local,
        base_url_variables: &["OLLAMA_HOST"],
        key_variables: &["OLLAMA_API_KEY"],
        is_key_required: false,
        quirks: &[NoOwnFields, NoForcedChoice, NoParallelControl, NoStrictTools, NoAudio, NoFiles],
        ..Vendor::new("ollama", "Ollama", "http://127.0.0.1:11434/v1")
    },
    Vendor {
        flavour: Flavour::Local,
        aliases: &["llama.cpp", "llama-cpp"],
        base_url_variables: &["LLAMACPP_BASE_URL"],
        key_variables: &["LLAMACPP_API_KEY"],
        is_key_required: false,
        quirks: &[NoOwnFields, NoStrictTools, NoFiles],
        ..Vendor::new("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1")
    },
    Vendor {
        flavour: Flavour::Local,
        base_url_variables: &["VLLM_BASE_URL"],
        key_variables: &["VLLM_API_KEY"],
        is_key_required: false,
        quirks: &[NoOwnFields, NoFiles],
        ..Vendor::new("vllm", "vLLM", "http://127.0.0.1:8000/v1")
    },
    Vendor {
        flavour: Flavour::Local,
        aliases: &["lm-studio"],
        base_url_variables: &["LMSTUDIO_BASE_URL"],
        key_variables: &["LMSTUDIO_API_KEY"],
        is_key_required: false,
        quirks: &[NoOwnFields, NoParallelControl, NoStrictTools, NoAudio, NoFiles],
        ..Vendor::new("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1")
    },
    Vendor {
        base_url_variables: &["OPENROUTER_BASE_URL"],
        key_variables: &["OPENROUTER_API_KEY"],
        quirks: &[CacheControlMarks, FullReasoningReplay],
        ..Vendor::new("openrouter", "OpenRouter", "https://openrouter.ai/api/v1")
    },
    Vendor {
        base_url_variables: &["GROQ_BASE_URL"],
        key_variables: &["GROQ_API_KEY"],
        quirks: &[NoOwnFields, MaxCompletionTokens, NoReasoningReplay, NoStrictTools, NoAudio, NoFiles],
        ..Vendor::new("groq", "Groq", "https://api.groq.com/openai/v1")
    },
    Vendor {
        base_url_variables: &["MISTRAL_BASE_URL"],
        key_variables: &["MISTRAL_API_KEY"],
        quirks: &[NoOwnFields, NoReasoningReplay, NoSeed, NoEffort, NoFiles],
        ..Vendor::new("mistral", "Mistral", "https://api.mistral.ai/v1")
    },
    Vendor {
        base_url_variables: &["DEEPSEEK_BASE_URL"],
        key_variables: &["DEEPSEEK_API_KEY"],
        quirks: &[NoOwnFields, JsonObjectOnly, NoSeed, NoParallelControl, NoStrictTools, NoImages, NoAudio, NoFiles],
        ..Vendor::new("deepseek", "DeepSeek", "https://api.deepseek.com")
    },
    Vendor {
        protocol: Protocol::OpenaiResponses,
        flavour: Flavour::Xai,
        aliases: &["grok"],
        base_url_variables: &["XAI_BASE_URL"],
        key_variables: &["XAI_API_KEY"],
        quirks: &[NoTopK, MaxCompletionTokens, NoReasoningReplay, NoStrictTools, NoAudio, NoFiles],
        catalog: Some("xai"),
        ..Vendor::new("xai", "xAI", "https://api.x.ai/v1")
    },
    Vendor {
        base_url_variables: &["CEREBRAS_BASE_URL"],
        key_variables: &["CEREBRAS_API_KEY"],
        quirks: &[NoOwnFields, MaxCompletionTokens, NoReasoningReplay, NoImages, NoAudio, NoFiles],
        ..Vendor::new("cerebras", "Cerebras", "https://api.cerebras.ai/v1")
    },
    Vendor {
        base_url_variables: &["TOGETHER_BASE_URL"],
        key_variables: &["TOGETHER_API_KEY"],
        quirks: &[NoOwnFields, NoParallelControl, NoStrictTools, NoAudio, NoFiles],
        ..Vendor::new("together", "Together", "https://api.together.xyz/v1")
    },
    Vendor {
        aliases: &["fireworks-ai"],
        base_url_variables: &["FIREWORKS_BASE_URL"],
        key_variables: &["FIREWORKS_API_KEY"],
        quirks: &[NoOwnFields, NoParallelControl, NoStrictTools, NoAudio, NoFiles],
        ..Vendor::new("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1")
    },
    Vendor {
        aliases: &["azure-openai"],
        base_url_variables: &["AZURE_OPENAI_ENDPOINT"],
        place: Place::Azure,
        key: KeyPlace::Header("api-key"),
        key_variables: &["AZURE_OPENAI_API_KEY"],
        quirks: OPENAI,
        models: OPENAI_MODELS,
        catalog: Some("openai"),
        ..Vendor::new("azure", "Azure OpenAI", "https://resource.invalid/openai/v1")
    },
    Vendor {
        base_url_variables: &["PERPLEXITY_BASE_URL"],
        key_variables: &["PERPLEXITY_API_KEY"],
        quirks: &[NoOwnFields, NoSeed, NoEffort, NoParallelControl, NoStrictTools, NoReasoningReplay, NoAudio, NoFiles],
        ..Vendor::new("perplexity", "Perplexity", "https://api.perplexity.ai")
    },
    Vendor {
        aliases: &["kimi"],
        base_url_variables: &["MOONSHOT_BASE_URL"],
        key_variables: &["MOONSHOT_API_KEY"],
        quirks: &[NoOwnFields, NoSeed, NoEffort, NoParallelControl, NoStrictTools, NoAudio, NoFiles],
        ..Vendor::new("moonshot", "Moonshot", "https://api.moonshot.ai/v1")
    },
    Vendor {
        aliases: &["claude"],
        protocol: Protocol::AnthropicMessages,
        version_variable: Some("ANTHROPIC_VERSION"),
        elsewhere: Protocol::AnthropicMessages,
        base_url_variables: &["ANTHROPIC_BASE_URL"],
        place: Place::WithPath("/v1"),
        key: KeyPlace::Header("x-api-key"),
        key_variables: &["ANTHROPIC_API_KEY"],
        catalog: Some("anthropic"),
        ..Vendor::new("anthropic", "Anthropic", "https://api.anthropic.com/v1")
    },
    Vendor {
        aliases: &["gemini"],
        protocol: Protocol::Gemini,
        elsewhere: Protocol::Gemini,
        base_url_variables: &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
        place: Place::WithPath("/v1beta"),
        key: KeyPlace::Header("x-goog-api-key"),
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        catalog: Some("google"),
        ..Vendor::new("google", "Google Gemini", "https://generativelanguage.googleapis.com/v1beta")
    },
    Vendor {
        aliases: &["google-vertex"],
        protocol: Protocol::Gemini,
        flavour: Flavour::Vertex,
        elsewhere: Protocol::Gemini,
        base_url_variables: &["VERTEX_BASE_URL"],
        place: Place::Vertex("google"),
        key: KeyPlace::GoogleAccount,
        key_variables: &["VERTEX_ACCESS_TOKEN", "GOOGLE_ACCESS_TOKEN"],
        catalog: Some("google"),
        ..Vendor::new("vertex", "Google Vertex", "https://aiplatform.googleapis.com/v1")
    },
    Vendor {
        variant_of: Some("openai"),
        protocol: Protocol::OpenaiResponses,
        elsewhere: Protocol::OpenaiResponses,
        base_url_variables: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        key_variables: &["OPENAI_API_KEY"],
        quirks: OPENAI,
        models: OPENAI_MODELS,
        catalog: Some("openai"),
        ..Vendor::new("openai-responses", "OpenAI", "https://api.openai.com/v1")
    },
    Vendor {
        variant_of: Some("openai"),
        base_url_variables: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        key_variables: &["OPENAI_API_KEY"],
        quirks: OPENAI,
        models: OPENAI_MODELS,
        catalog: Some("openai"),
        ..Vendor::new("openai-chat", "OpenAI", "https://api.openai.com/v1")
    },
    Vendor {
        variant_of: Some("xai"),
        base_url_variables: &["XAI_BASE_URL"],
        key_variables: &["XAI_API_KEY"],
        quirks: &[NoTopK, MaxCompletionTokens, NoReasoningReplay, NoStrictTools, NoAudio, NoFiles],
        catalog: Some("xai"),
        ..Vendor::new("xai-chat", "xAI", "https://api.x.ai/v1")
    },
];
