//! Usage, both ways.

use placet_core::Usage;
use serde_json::{Map, Value, json};

/// A whole number, also where it came as a text.
pub(super) fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The counters as the server gives them: cumulative, and each field on its own.
#[derive(Debug, Default, Clone)]
pub(super) struct RawUsage {
    prompt: Option<u64>,
    completion: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    cache_write: Option<u64>,
    reasoning: Option<u64>,
    prompt_audio: Option<u64>,
    completion_audio: Option<u64>,
    searches: Option<u64>,
    /// What has no name of ours: costs, times.
    pub(super) beyond: Map<String, Value>,
}

impl RawUsage {
    /// Takes over what is given; the last value of a field counts. Whether anything was.
    pub(super) fn update(&mut self, usage: &Map<String, Value>) -> bool {
        let details = |key: &str, field: &str| usage.get(key).and_then(|details| details.get(field)).and_then(number);
        let plain = |key: &str| usage.get(key).and_then(number);
        let given = [
            (&mut self.prompt, plain("prompt_tokens")),
            (&mut self.completion, plain("completion_tokens")),
            (&mut self.total, plain("total_tokens")),
            (
                &mut self.cached,
                details("prompt_tokens_details", "cached_tokens").or_else(|| plain("prompt_cache_hit_tokens")),
            ),
            (&mut self.cache_write, details("prompt_tokens_details", "cache_write_tokens")),
            (
                &mut self.reasoning,
                details("completion_tokens_details", "reasoning_tokens").or_else(|| plain("reasoning_tokens")),
            ),
            (&mut self.prompt_audio, details("prompt_tokens_details", "audio_tokens")),
            (&mut self.completion_audio, details("completion_tokens_details", "audio_tokens")),
            (
                &mut self.searches,
                plain("num_search_queries").or_else(|| details("server_tool_use", "web_search_requests")),
            ),
        ];
        let mut has_any = false;
        for (field, value) in given {
            has_any |= value.is_some();
            *field = value.or(*field);
        }
        const KNOWN: [&str; 6] = [
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
            "prompt_tokens_details",
            "completion_tokens_details",
            "num_search_queries",
        ];
        for (key, value) in usage.iter().filter(|(key, value)| !KNOWN.contains(&key.as_str()) && !value.is_null()) {
            self.beyond.insert(key.clone(), value.clone());
        }
        has_any
    }

    /// The disjoint counters. Cached input is within the prompt; reasoning is within the completion, but for servers whose
    /// total shows that they count it beside.
    pub(super) fn counted(&self) -> Usage {
        let (prompt, completion) = (self.prompt.unwrap_or(0), self.completion.unwrap_or(0));
        let (cache_read, cache_write) = (self.cached.unwrap_or(0), self.cache_write.unwrap_or(0));
        let reasoning = self.reasoning.unwrap_or(0);
        let is_beside =
            reasoning > 0 && self.total == Some(prompt.saturating_add(completion).saturating_add(reasoning));
        let input = prompt.saturating_sub(cache_read).saturating_sub(cache_write);
        let output = if is_beside { completion.saturating_add(reasoning) } else { completion.max(reasoning) };
        Usage {
            input,
            cache_read,
            cache_write,
            cache_write_long: 0,
            output,
            reasoning,
            input_audio: self.prompt_audio.unwrap_or(0).min(input),
            output_audio: self.completion_audio.unwrap_or(0).min(output),
            searches: self.searches.unwrap_or(0),
        }
    }
}

/// Usage in the words of this protocol: all input is the prompt, all output the completion. Both lifetimes of a cache are one.
pub(super) fn usage_form(usage: &Usage) -> Value {
    let mut form = json!({
        "prompt_tokens": usage.total_input(),
        "completion_tokens": usage.output,
        "total_tokens": usage.total(),
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write.saturating_add(usage.cache_write_long),
            "audio_tokens": usage.input_audio,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": usage.output_audio,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    });
    if usage.searches > 0 {
        form["num_search_queries"] = usage.searches.into();
    }
    form
}
