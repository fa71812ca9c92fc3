//! The end of an answer: what its last event, or its whole body, says of it.

use super::decode::Answer;
use super::parts;
use crate::reading::Reading;
use placet_core::part::Native;
use placet_core::turn::TurnFinished;
use placet_core::{ErrorKind, ProviderState, StopReason, TurnEvent, Usage};
use serde_json::{Map, Value, json};

impl Answer {
    /// The items that the end of the answer holds and its stream did not. Where the stream told of items at all, they count:
    /// what the end repeats is not always all of them, so an item is found by its id.
    pub(super) fn output(&mut self, response: &Value, out: &mut Vec<TurnEvent>) {
        let output = response.get("output").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if !self.has_done_items {
            for (index, item) in output.iter().enumerate() {
                self.done(index as u64, item, out);
            }
            return;
        }
        let id_of = |item: &Value| item.get("id").and_then(Value::as_str).map(str::to_owned);
        let open: Vec<(u64, String)> = self
            .items
            .iter()
            .filter(|(_, item)| !item.is_done)
            .filter_map(|(index, item)| Some((*index, item.id.clone()?)))
            .collect();
        for (index, id) in open {
            if let Some(item) = output.iter().find(|item| id_of(item).as_deref() == Some(&id)) {
                self.done(index, item, out);
            }
        }
    }

    pub(super) fn usage(&mut self, response: &Value, out: &mut Vec<TurnEvent>) {
        let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) else { return };
        let at = |path: &[&str]| path.iter().try_fold(usage, |value, key| value.get(key)).and_then(Value::as_u64);
        let (input, output) = (at(&["input_tokens"]).unwrap_or(0), at(&["output_tokens"]).unwrap_or(0));
        let cache_read = at(&["input_tokens_details", "cached_tokens"]).unwrap_or(0);
        let cache_write = at(&["input_tokens_details", "cache_write_tokens"]).unwrap_or(0);
        let reasoning = at(&["output_tokens_details", "reasoning_tokens"]).unwrap_or(0);
        let of_response =
            |path: [&str; 3]| path.iter().try_fold(response, |value, key| value.get(key)).and_then(Value::as_u64);
        // xAI counts its own way.
        let of_xai = ["web_search_calls", "x_search_calls"]
            .into_iter()
            .filter_map(|key| at(&["server_side_tool_usage_details", key]))
            .reduce(|a, b| a.saturating_add(b));
        out.push(TurnEvent::Usage(Usage {
            input: input.saturating_sub(cache_read).saturating_sub(cache_write),
            cache_read,
            cache_write,
            output: output.max(reasoning),
            reasoning,
            input_audio: at(&["input_tokens_details", "audio_tokens"]).unwrap_or(0),
            output_audio: at(&["output_tokens_details", "audio_tokens"]).unwrap_or(0),
            searches: of_response(["tool_usage", "web_search", "num_requests"]).or(of_xai).unwrap_or(self.searches),
            ..Usage::default()
        }));
    }

    pub(super) fn terminal(&mut self, status: &str, response: &Value, out: &mut Vec<TurnEvent>) {
        self.start(response, out);
        if status == "failed" || status == "cancelled" {
            self.usage(response, out);
            return match response.get("error").filter(|error| !error.is_null()) {
                Some(error) => self.error(&json!({"error": error}), out),
                None if status == "cancelled" => {
                    self.fail(ErrorKind::Cancelled, "the answer was cancelled".to_owned(), out);
                }
                None => self.fail(ErrorKind::Unavailable, "the answer failed; it does not say why".to_owned(), out),
            };
        }
        self.output(response, out);
        self.usage(response, out);
        let reason =
            response.get("incomplete_details").and_then(|details| details.get("reason")).and_then(Value::as_str);
        let is_incomplete =
            status == "incomplete" || response.get("status").and_then(Value::as_str) == Some("incomplete");
        let stop = match reason {
            _ if !is_incomplete => self.natural_stop(),
            Some("max_output_tokens" | "max_tokens") | None => StopReason::MaxTokens,
            Some("content_filter") => StopReason::ContentFilter,
            Some(other) => StopReason::Other(other.to_owned()),
        };
        let text = |key: &str| response.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let finished = TurnFinished {
            stop,
            provider_state: self.state(response),
            service_tier: text("service_tier").map(str::to_owned),
            native: self.beyond(response),
        };
        self.is_whole = true;
        self.is_done = true;
        out.push(TurnEvent::Finished(finished));
    }

    fn natural_stop(&self) -> StopReason {
        match (self.has_calls, self.has_refused) {
            (true, _) => StopReason::ToolCalls,
            (false, true) => StopReason::Refusal,
            (false, false) => StopReason::End,
        }
    }

    /// What continues this answer, where the server kept it.
    fn state(&self, response: &Value) -> Option<ProviderState> {
        let is_kept = self.is_stateful && response.get("store").and_then(Value::as_bool) != Some(false);
        let value = match response.get("conversation").filter(|conversation| !conversation.is_null()) {
            Some(conversation) => json!({"conversation": conversation}),
            None => json!({"previous_response_id": self.response_id.as_ref().filter(|_| is_kept)?}),
        };
        Some(ProviderState { provider: self.provider.clone(), value })
    }

    /// What the answer says beyond what we have words for, and beyond the request that it repeats.
    fn beyond(&self, response: &Value) -> Option<Native> {
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        let mut beyond: Map<String, Value> = response
            .as_object()?
            .iter()
            .filter(|(key, value)| !KNOWN.contains(&key.as_str()) && !is_empty(value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let usage = response.get("usage").and_then(Value::as_object);
        let usage: Map<String, Value> = usage
            .into_iter()
            .flatten()
            .filter(|(key, value)| !KNOWN_USAGE.contains(&key.as_str()) && !value.is_null())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !usage.is_empty() {
            beyond.insert("usage".into(), Value::Object(usage));
        }
        parts::native(&self.provider, beyond)
    }
}

/// Fields of an answer that we have words for, or that repeat the request.
const KNOWN: [&str; 36] = [
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "error",
    "incomplete_details",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "model",
    "output",
    "output_text",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "usage",
    "user",
    "background",
    "metadata",
    "frequency_penalty",
    "presence_penalty",
    "billing",
];
const KNOWN_USAGE: [&str; 5] =
    ["input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"];
