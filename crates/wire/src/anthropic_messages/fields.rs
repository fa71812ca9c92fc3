//! What this protocol does with each field of a request.

use crate::fields::Class::{Constraint, Content, Hint, Restriction, State};
use crate::fields::FieldRule;
use crate::fields::Support::{Expressed, Implied, Omitted, Refused};

/// A rule for every field, for a server and a model that take everything.
///
/// Of the state of a provider only a container is told here, so that any other counts as left out.
pub const FIELDS: &[FieldRule] = &[
    FieldRule::new("model", Content, Expressed),
    FieldRule::new("instructions", Content, Expressed),
    FieldRule::new("message.system", Content, Expressed),
    FieldRule::new("message.user", Content, Expressed),
    FieldRule::new("message.assistant", Content, Expressed),
    FieldRule::new("message.prefill", Content, Expressed),
    FieldRule::new("message.native", State, Expressed),
    FieldRule::new("reasoning", State, Expressed),
    FieldRule::new("tool_call", Content, Expressed),
    FieldRule::new("tool_call.native", State, Expressed),
    FieldRule::new("tool_result", Content, Expressed),
    FieldRule::new("tool_result.failed", Hint, Expressed),
    FieldRule::new("tool_result.image", Content, Expressed),
    FieldRule::new("tool_result.file", Content, Expressed),
    FieldRule::new("tool_result.native", State, Expressed),
    FieldRule::new("hosted_call", State, Expressed),
    FieldRule::new("artifact", Hint, Omitted),
    FieldRule::new("native_item", State, Expressed),
    FieldRule::new("text.cache", Hint, Expressed),
    FieldRule::new("text.native", State, Expressed),
    FieldRule::new("image.inline", Content, Expressed),
    FieldRule::new("image.url", Content, Expressed),
    FieldRule::new("image.provider_file", Content, Expressed),
    FieldRule::new("image.artifact", Content, Refused),
    FieldRule::new("image.detail", Hint, Omitted),
    FieldRule::new("image.cache", Hint, Expressed),
    FieldRule::new("image.native", State, Expressed),
    FieldRule::new("audio.inline", Content, Refused),
    FieldRule::new("audio.url", Content, Refused),
    FieldRule::new("audio.provider_file", Content, Refused),
    FieldRule::new("file.inline", Content, Expressed),
    FieldRule::new("file.url", Content, Expressed),
    FieldRule::new("file.provider_file", Content, Expressed),
    FieldRule::new("file.name", Hint, Expressed),
    FieldRule::new("native_part", State, Expressed),
    FieldRule::new("tool", Content, Expressed),
    FieldRule::new("tool.strict", Hint, Expressed),
    FieldRule::new("tool.cache", Hint, Expressed),
    FieldRule::new("tool.native", State, Expressed),
    FieldRule::new("tool_choice.required", Constraint, Expressed),
    FieldRule::new("tool_choice.none", Constraint, Expressed),
    FieldRule::new("tool_choice.tool", Constraint, Expressed),
    FieldRule::new("tool_choice.allowed", Constraint, Refused),
    FieldRule::new("tool_choice.allowed_required", Constraint, Refused),
    FieldRule::new("parallel_tool_calls.true", Hint, Expressed),
    FieldRule::new("parallel_tool_calls.false", Constraint, Expressed),
    FieldRule::new("temperature", Hint, Expressed),
    FieldRule::new("top_p", Hint, Expressed),
    FieldRule::new("top_k", Hint, Expressed),
    FieldRule::new("seed", Hint, Omitted),
    FieldRule::new("frequency_penalty", Hint, Omitted),
    FieldRule::new("presence_penalty", Hint, Omitted),
    FieldRule::new("max_output_tokens", Constraint, Expressed),
    FieldRule::new("stop", Constraint, Expressed),
    FieldRule::new("top_logprobs", Constraint, Refused),
    FieldRule::new("reasoning_effort", Hint, Expressed),
    FieldRule::new("reasoning_budget", Hint, Expressed),
    FieldRule::new("reasoning_summary", Hint, Expressed),
    FieldRule::new("verbosity", Hint, Omitted),
    FieldRule::new("max_hosted_calls", Constraint, Refused),
    FieldRule::new("service_tier", Hint, Expressed),
    FieldRule::new("state.stateful", Constraint, Refused),
    FieldRule::new("state.replay", Constraint, Implied),
    FieldRule::new("state.zdr", Restriction, Implied),
    FieldRule::new("state.encrypted_reasoning", Restriction, Implied),
    FieldRule::new("store.true", Hint, Omitted),
    FieldRule::new("store.false", Restriction, Implied),
    FieldRule::new("background", Constraint, Refused),
    FieldRule::new("include", Constraint, Refused),
    FieldRule::new("modalities", Constraint, Refused),
    FieldRule::new("cache.auto", Hint, Expressed),
    FieldRule::new("cache.explicit", Hint, Implied),
    FieldRule::new("cache.bypass", Constraint, Implied),
    FieldRule::new("cache.key", Hint, Omitted),
    FieldRule::new("cache.ttl", Hint, Expressed),
    FieldRule::new("cache.content", Content, Refused),
    FieldRule::new("compaction", Hint, Expressed),
    FieldRule::new("metadata", Hint, Omitted),
    FieldRule::new("user", Hint, Expressed),
    FieldRule::new("safety", Restriction, Refused),
    FieldRule::new("output.strict", Constraint, Expressed),
    FieldRule::new("output.loose", Hint, Expressed),
    FieldRule::new("output.any_object", Hint, Omitted),
    FieldRule::new("output.description", Hint, Omitted),
    FieldRule::new("provider_state", State, Omitted),
    FieldRule::new("hosted.web_search", Content, Expressed),
    FieldRule::new("hosted.web_search.max_uses", Constraint, Expressed),
    FieldRule::new("hosted.web_search.allowed_domains", Restriction, Expressed),
    FieldRule::new("hosted.web_search.blocked_domains", Restriction, Expressed),
    FieldRule::new("hosted.web_search.context_size", Hint, Omitted),
    FieldRule::new("hosted.web_search.user_location", Hint, Expressed),
    FieldRule::new("hosted.web_fetch", Content, Expressed),
    FieldRule::new("hosted.web_fetch.max_uses", Constraint, Expressed),
    FieldRule::new("hosted.web_fetch.allowed_domains", Restriction, Expressed),
    FieldRule::new("hosted.web_fetch.blocked_domains", Restriction, Expressed),
    FieldRule::new("hosted.url_context", Content, Refused),
    FieldRule::new("hosted.file_search", Content, Refused),
    FieldRule::new("hosted.file_search.max_results", Constraint, Refused),
    FieldRule::new("hosted.file_search.filters", Restriction, Refused),
    FieldRule::new("hosted.code_interpreter", Content, Expressed),
    FieldRule::new("hosted.code_interpreter.container", Content, Expressed),
    FieldRule::new("hosted.code_interpreter.files", Content, Refused),
    FieldRule::new("hosted.shell", Content, Expressed),
    FieldRule::new("hosted.apply_patch", Content, Refused),
    FieldRule::new("hosted.computer_use", Content, Expressed),
    FieldRule::new("hosted.text_editor", Content, Expressed),
    FieldRule::new("hosted.memory", Content, Expressed),
    FieldRule::new("hosted.image_generation", Content, Refused),
    FieldRule::new("hosted.tool_search", Content, Expressed),
    FieldRule::new("hosted.remote_mcp.url", Content, Expressed),
    FieldRule::new("hosted.remote_mcp.connector", Content, Refused),
    FieldRule::new("hosted.remote_mcp.authorization", Content, Expressed),
    FieldRule::new("hosted.remote_mcp.allowed_tools", Restriction, Expressed),
    FieldRule::new("hosted.remote_mcp.denied_tools", Restriction, Expressed),
    FieldRule::new("hosted.remote_mcp.require_approval", Restriction, Refused),
    FieldRule::new("hosted.raw", Content, Expressed),
    FieldRule::new("extra", Content, Expressed),
    FieldRule::new("native", State, Expressed),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anthropic_messages::{Dialect, encode_request};
    use crate::fields::examples::faults;
    use placet_core::ProviderId;

    #[test]
    fn every_field_is_treated_as_the_table_says() {
        let own = ProviderId::new("own");
        let dialect = Dialect::new(own.clone());
        let faults = faults(FIELDS, &own, |request| {
            let encoded = encode_request(request, &dialect)?;
            let body = serde_json::from_slice(&encoded.body).unwrap_or_default();
            Ok((body, encoded.omitted.into_iter().map(|omission| omission.what).collect()))
        });
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
