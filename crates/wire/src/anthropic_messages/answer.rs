//! What an answer says of itself as a whole, in both directions: why it ended, and what it used.

use placet_core::{StopReason, Usage};
use serde_json::{Map, Value, json};

/// Whether blocks of this type belong to a tool that the provider runs itself.
pub(super) fn is_hosted_block(kind: &str) -> bool {
    matches!(kind, "server_tool_use" | "mcp_tool_use") || kind.ends_with("_tool_result")
}

/// Why an answer ended, and whether our word leads back to the provider's.
pub(super) fn stop_reason(reason: &str) -> (StopReason, bool) {
    match reason {
        "end_turn" => (StopReason::End, true),
        "tool_use" => (StopReason::ToolCalls, true),
        "max_tokens" => (StopReason::MaxTokens, true),
        "stop_sequence" => (StopReason::StopSequence, true),
        "refusal" => (StopReason::Refusal, true),
        "pause_turn" => (StopReason::Pause, true),
        // The window is full: as much a cut as the other.
        "model_context_window_exceeded" => (StopReason::MaxTokens, false),
        // Paused after the conversation was made shorter.
        "compaction" => (StopReason::Pause, false),
        other => (StopReason::Other(other.to_owned()), true),
    }
}

/// The protocol's word for the end of an answer with or without calls.
pub(super) fn stop_word(stop: &StopReason, has_calls: bool) -> &str {
    match stop {
        StopReason::End | StopReason::ToolCalls if has_calls => "tool_use",
        StopReason::End | StopReason::ToolCalls => "end_turn",
        StopReason::MaxTokens => "max_tokens",
        StopReason::StopSequence => "stop_sequence",
        StopReason::Refusal | StopReason::ContentFilter => "refusal",
        StopReason::Pause => "pause_turn",
        // Another provider's word, which clients of this protocol would stumble over.
        StopReason::Other(word) if !word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') => {
            if has_calls {
                "tool_use"
            } else {
                "end_turn"
            }
        }
        other => other.as_str(),
    }
}

/// The counters as the server gives them: cumulative, and each field on its own.
///
/// They are those of the answer itself. What making the conversation shorter or asking an adviser has used stands in
/// `iterations`, which is kept beside them.
#[derive(Debug, Default)]
pub(super) struct WireUsage {
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_creation: Option<u64>,
    cache_short: Option<u64>,
    cache_long: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
    searches: Option<u64>,
    /// The tier that served it.
    pub(super) tier: Option<String>,
    beyond: Map<String, Value>,
}

impl WireUsage {
    /// Takes over what is given; the last value of a field counts. Whether any counter was.
    pub(super) fn update(&mut self, usage: &Map<String, Value>) -> bool {
        let mut has_any = false;
        let mut take = |field: &mut Option<u64>, value: Option<&Value>| {
            let value = value.and_then(Value::as_u64);
            has_any |= value.is_some();
            *field = value.or(*field);
        };
        for (key, value) in usage.iter().filter(|(_, value)| !value.is_null()) {
            match key.as_str() {
                "input_tokens" => take(&mut self.input, Some(value)),
                "output_tokens" => take(&mut self.output, Some(value)),
                "cache_read_input_tokens" => take(&mut self.cache_read, Some(value)),
                "cache_creation_input_tokens" => take(&mut self.cache_creation, Some(value)),
                "cache_creation" => {
                    take(&mut self.cache_short, value.get("ephemeral_5m_input_tokens"));
                    take(&mut self.cache_long, value.get("ephemeral_1h_input_tokens"));
                }
                "output_tokens_details" => take(&mut self.thinking, value.get("thinking_tokens")),
                "service_tier" => self.tier = value.as_str().map(str::to_owned).or(self.tier.take()),
                "server_tool_use" => {
                    take(&mut self.searches, value.get("web_search_requests"));
                    self.beyond.insert(key.clone(), value.clone());
                }
                _ => {
                    self.beyond.insert(key.clone(), value.clone());
                }
            }
        }
        has_any
    }

    /// The disjoint counters.
    pub(super) fn counted(&self) -> Usage {
        let long = self.cache_long.unwrap_or(0);
        let split = long.saturating_add(self.cache_short.unwrap_or(0));
        let written = self.cache_creation.unwrap_or(split);
        Usage {
            input: self.input.unwrap_or(0),
            cache_read: self.cache_read.unwrap_or(0),
            cache_write: written.saturating_sub(long),
            cache_write_long: long.min(written),
            output: self.output.unwrap_or(0),
            reasoning: self.thinking.unwrap_or(0),
            searches: self.searches.unwrap_or(0),
            ..Usage::default()
        }
    }

    /// What is no counter of ours. A count of nothing says nothing.
    pub(super) fn take_beyond(&mut self) -> Map<String, Value> {
        let mut beyond = std::mem::take(&mut self.beyond);
        let is_nothing = |counts: &Value| {
            counts.as_object().is_some_and(|counts| {
                counts.iter().all(|(key, count)| key == "web_search_requests" || count.as_u64() == Some(0))
            })
        };
        if beyond.get("server_tool_use").is_some_and(is_nothing) {
            beyond.remove("server_tool_use");
        }
        beyond
    }
}

/// The counters in the protocol's form, with what the provider said beyond them.
pub(super) fn usage_form(usage: &Usage, tier: Option<&str>, beyond: Option<&Map<String, Value>>) -> Value {
    let mut form = json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write.saturating_add(usage.cache_write_long),
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write,
            "ephemeral_1h_input_tokens": usage.cache_write_long,
        },
        "output_tokens": usage.output,
    });
    if usage.reasoning > 0 {
        form["output_tokens_details"] = json!({"thinking_tokens": usage.reasoning});
    }
    if usage.searches > 0 {
        form["server_tool_use"] = json!({"web_search_requests": usage.searches, "web_fetch_requests": 0});
    }
    if let Some(tier) = tier {
        // Clients know these three words only.
        let is_known = matches!(tier, "standard" | "priority" | "batch");
        form["service_tier"] = if is_known { tier } else { "standard" }.into();
    }
    for (key, value) in beyond.into_iter().flatten() {
        form[key.as_str()] = value.clone();
    }
    form
}
