//! What the answers of each protocol say they used, read from one event or body at a time.

use super::Speech;
use super::outline::fields;
use placet_core::Usage;
use serde::Deserialize;

/// What one event or one whole body says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// What was used so far, where it is said.
    pub(super) usage: Option<Usage>,
    /// Whether the event holds usage and nothing else (Chat).
    pub(super) is_only_usage: bool,
}

/// Reads one JSON text. What cannot be read says nothing.
pub(super) fn read(speech: Speech, json: &[u8], before: Usage) -> Said {
    match speech {
        Speech::OpenaiChat => chat(json),
        Speech::OpenaiResponses => responses(json),
        Speech::AnthropicMessages => messages(json, before),
        Speech::Gemini => gemini(json),
    }
}

/// Reads a field's value, where there is one. All the rest of the text is stepped over.
fn of<'j, T: Deserialize<'j>>(field: Option<&'j [u8]>) -> Option<T> {
    serde_json::from_slice(field?).ok()
}

/// The usage that stands at the top, or else in the object of that name.
fn at_top_or_in<'j, T: Deserialize<'j>>(json: &'j [u8], name: &str) -> Option<T> {
    let [usage, nested] = fields(json, [&["usage"], &[name]])?;
    of::<Option<T>>(usage).flatten().or_else(|| {
        let [usage] = fields(nested?, [&["usage"]])?;
        of::<Option<T>>(usage).flatten()
    })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ChatUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    /// DeepSeek's name for what came from its cache.
    prompt_cache_hit_tokens: Option<u64>,
    prompt_tokens_details: Option<InputDetails>,
    completion_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    audio_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
    audio_tokens: Option<u64>,
}

/// OpenAI counts cached input within input; ours are apart.
fn disjoint(input: u64, output: u64, details: &InputDetails, more: &OutputDetails) -> Usage {
    let (read, write) = (details.cached_tokens.unwrap_or(0), details.cache_write_tokens.unwrap_or(0));
    Usage {
        input: input.saturating_sub(read).saturating_sub(write),
        cache_read: read,
        cache_write: write,
        output,
        reasoning: more.reasoning_tokens.unwrap_or(0),
        input_audio: details.audio_tokens.unwrap_or(0),
        output_audio: more.audio_tokens.unwrap_or(0),
        ..Usage::default()
    }
}

fn chat(json: &[u8]) -> Said {
    let Some([usage, choices]) = fields(json, [&["usage"], &["choices"]]) else { return Said::default() };
    let usage = of::<Option<ChatUsage>>(usage).flatten();
    let has_none = |list: &[u8]| list.first() == Some(&b'[') && list[1..].trim_ascii_start() == b"]";
    let is_only_usage = usage.is_some() && choices.is_some_and(has_none);
    let usage = usage.map(|usage| {
        let mut details = usage.prompt_tokens_details.unwrap_or_default();
        details.cached_tokens = details.cached_tokens.or(usage.prompt_cache_hit_tokens);
        let more = usage.completion_tokens_details.unwrap_or_default();
        disjoint(usage.prompt_tokens.unwrap_or(0), usage.completion_tokens.unwrap_or(0), &details, &more)
    });
    Said { usage, is_only_usage }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResponsesUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

fn responses(json: &[u8]) -> Said {
    let usage: Option<ResponsesUsage> = at_top_or_in(json, "response");
    let usage = usage.map(|usage| {
        let details = usage.input_tokens_details.unwrap_or_default();
        let more = usage.output_tokens_details.unwrap_or_default();
        disjoint(usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0), &details, &more)
    });
    Said { usage, is_only_usage: false }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct MessagesUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation: Option<CacheCreation>,
    server_tool_use: Option<ServerToolUse>,
    output_tokens_details: Option<ThinkingDetails>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CacheCreation {
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ServerToolUse {
    web_search_requests: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ThinkingDetails {
    thinking_tokens: Option<u64>,
}

/// Counts are of the whole answer so far; one that is left out stays as it was.
fn messages(json: &[u8], before: Usage) -> Said {
    let usage: Option<MessagesUsage> = at_top_or_in(json, "message");
    let usage = usage.map(|usage| {
        let long = usage.cache_creation.and_then(|creation| creation.ephemeral_1h_input_tokens);
        let long = long.unwrap_or(before.cache_write_long);
        let written = usage.cache_creation_input_tokens;
        Usage {
            input: usage.input_tokens.unwrap_or(before.input),
            cache_read: usage.cache_read_input_tokens.unwrap_or(before.cache_read),
            cache_write: written.map_or(before.cache_write, |written| written.saturating_sub(long)),
            cache_write_long: long,
            output: usage.output_tokens.unwrap_or(before.output),
            reasoning: usage
                .output_tokens_details
                .and_then(|details| details.thinking_tokens)
                .unwrap_or(before.reasoning),
            searches: usage.server_tool_use.and_then(|tools| tools.web_search_requests).unwrap_or(before.searches),
            ..before
        }
    });
    Said { usage, is_only_usage: false }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct GeminiUsage {
    prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
}

/// Thinking is counted beside the answer's text and not within it.
fn gemini(json: &[u8]) -> Said {
    let Some([usage]) = fields(json, [&["usageMetadata", "usage_metadata"]]) else { return Said::default() };
    let usage = of::<Option<GeminiUsage>>(usage).flatten();
    let usage = usage.map(|usage| {
        let cached = usage.cached_content_token_count.unwrap_or(0);
        let thoughts = usage.thoughts_token_count.unwrap_or(0);
        Usage {
            input: usage
                .prompt_token_count
                .unwrap_or(0)
                .saturating_sub(cached)
                .saturating_add(usage.tool_use_prompt_token_count.unwrap_or(0)),
            cache_read: cached,
            output: usage.candidates_token_count.unwrap_or(0).saturating_add(thoughts),
            reasoning: thoughts,
            ..Usage::default()
        }
    });
    Said { usage, is_only_usage: false }
}
