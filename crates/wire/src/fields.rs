//! Every field of a request in our words, and what a protocol does with it: one table as data.
//!
//! What is *content* (texts, media, calls, tools), a *constraint* (what the answer must be like) or a *restriction* (what must
//! not happen) is expressed or refused, never dropped. A *hint* may be left out, and is reported then. *State* of a provider
//! goes back to the same provider only; that of any other is left out and reported.
//!
//! A few fields of another provider's state are more than that: they restrict, or stand for content. They have rows of their own, and
//! only their provider can express them, as part of that state; for everybody else they are refused.
//!
//! Ids, origins, effects, revision arguments and approvals are ours alone: no protocol is ever told them, so they have no row.

/// What sort of field it is, which decides what may become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Something said, shown or offered.
    Content,
    /// What the answer must be like.
    Constraint,
    /// What must not happen.
    Restriction,
    /// What is nice to have.
    Hint,
    /// What only one provider understands, and gets back as it came.
    State,
}

/// What a protocol does with a field. A server that takes less than its protocol says so in its dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Support {
    /// It goes out. (State: to its own provider.)
    Expressed,
    /// The request is refused before anything is sent, by an error of kind *unsupported* that names the field.
    Refused,
    /// It is left out and reported under its name: a hint, or state that has no place.
    Omitted,
    /// The model is told of it in words, and it is reported under its name that nobody else keeps to it.
    Told,
    /// Nothing is written, because the protocol does so anyway.
    Implied,
}

/// What one protocol does with one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRule {
    /// The field, as it is called in [`ALL_FIELDS`].
    pub field: &'static str,
    /// What sort of field it is.
    pub class: Class,
    /// What the protocol does with it.
    pub support: Support,
}

impl FieldRule {
    /// A rule.
    #[must_use]
    pub const fn new(field: &'static str, class: Class, support: Support) -> Self {
        FieldRule { field, class, support }
    }
}

/// Every field of a request with its class. A field whose values are of different classes has a row for each.
pub const ALL_FIELDS: &[(&str, Class)] = &[
    ("model", Class::Content),
    ("instructions", Class::Content),
    // What is said.
    ("message.system", Class::Content),
    ("message.user", Class::Content),
    ("message.assistant", Class::Content),
    // The beginning of the answer, from which the model is to go on.
    ("message.prefill", Class::Content),
    ("message.native", Class::State),
    ("message.audio", Class::Content),
    ("message.order", Class::Hint),
    ("reasoning", Class::State),
    ("tool_call", Class::Content),
    ("tool_call.native", Class::State),
    ("tool_result", Class::Content),
    ("tool_result.failed", Class::Hint),
    ("tool_result.image", Class::Content),
    ("tool_result.file", Class::Content),
    ("tool_result.native", Class::State),
    ("hosted_call", Class::State),
    ("artifact", Class::Hint),
    ("native_item", Class::State),
    ("native_item.foreign", Class::Content),
    // A text of a provider's that stands for what was said before.
    ("native_item.summary", Class::Content),
    // Parts of a message.
    ("text.cache", Class::Hint),
    ("text.native", Class::State),
    ("image.inline", Class::Content),
    ("image.url", Class::Content),
    ("image.provider_file", Class::Content),
    ("image.artifact", Class::Content),
    ("image.detail", Class::Hint),
    ("image.cache", Class::Hint),
    ("image.native", Class::State),
    ("audio.inline", Class::Content),
    ("audio.url", Class::Content),
    ("audio.provider_file", Class::Content),
    ("file.inline", Class::Content),
    ("file.url", Class::Content),
    ("file.provider_file", Class::Content),
    ("file.name", Class::Hint),
    // A film, which is a file like any other to us.
    ("file.video", Class::Content),
    // What a user or a tool said in its provider's words. Another provider's are read where there are words for it, else refused.
    ("native_part", Class::Content),
    ("native_part.foreign", Class::Content),
    ("search_result", Class::Content),
    ("document.blocks", Class::Content),
    ("file.context", Class::Content),
    ("file.video_metadata", Class::Restriction),
    // Tools and their choice.
    ("tool", Class::Content),
    ("tool.strict", Class::Hint),
    ("tool.cache", Class::Hint),
    ("tool.native", Class::State),
    ("tool.allowed_callers", Class::Restriction),
    ("tool.grammar", Class::Hint),
    ("tool_choice.required", Class::Constraint),
    ("tool_choice.none", Class::Constraint),
    ("tool_choice.tool", Class::Constraint),
    ("tool_choice.allowed", Class::Constraint),
    ("tool_choice.allowed_required", Class::Constraint),
    ("tool_choice.validated", Class::Constraint),
    ("parallel_tool_calls.true", Class::Hint),
    ("parallel_tool_calls.false", Class::Constraint),
    // Controls.
    ("temperature", Class::Hint),
    ("top_p", Class::Hint),
    ("top_k", Class::Hint),
    ("seed", Class::Hint),
    ("frequency_penalty", Class::Hint),
    ("presence_penalty", Class::Hint),
    ("max_output_tokens", Class::Constraint),
    ("stop", Class::Constraint),
    ("top_logprobs", Class::Constraint),
    ("reasoning_effort", Class::Hint),
    ("reasoning_budget", Class::Hint),
    ("reasoning_summary", Class::Hint),
    ("verbosity", Class::Hint),
    ("max_hosted_calls", Class::Constraint),
    ("service_tier", Class::Hint),
    ("state.stateful", Class::Constraint),
    ("state.replay", Class::Constraint),
    ("state.zdr", Class::Restriction),
    ("state.encrypted_reasoning", Class::Restriction),
    ("store.true", Class::Hint),
    ("store.false", Class::Restriction),
    ("background", Class::Constraint),
    ("include", Class::Constraint),
    ("modalities", Class::Constraint),
    ("cache.auto", Class::Hint),
    ("cache.explicit", Class::Hint),
    ("cache.bypass", Class::Constraint),
    ("cache.key", Class::Hint),
    ("cache.ttl", Class::Hint),
    ("cache.content", Class::Content),
    ("compaction", Class::Hint),
    ("metadata", Class::Hint),
    ("user", Class::Hint),
    ("safety", Class::Restriction),
    // The shape of the answer.
    ("output.strict", Class::Constraint),
    ("output.loose", Class::Hint),
    ("output.any_object", Class::Constraint),
    ("output.name", Class::Hint),
    ("output.description", Class::Hint),
    ("provider_state", Class::State),
    // What the items of the request follow, where they are not the whole conversation.
    ("provider_state.previous_response_id", Class::Content),
    ("provider_state.conversation", Class::Content),
    // Tools of the provider.
    ("hosted.web_search", Class::Content),
    ("hosted.web_search.max_uses", Class::Constraint),
    ("hosted.web_search.allowed_domains", Class::Restriction),
    ("hosted.web_search.blocked_domains", Class::Restriction),
    ("hosted.web_search.allowed_callers", Class::Restriction),
    ("hosted.web_search.context_size", Class::Hint),
    ("hosted.web_search.user_location", Class::Hint),
    ("hosted.web_fetch", Class::Content),
    ("hosted.web_fetch.max_uses", Class::Constraint),
    ("hosted.web_fetch.allowed_domains", Class::Restriction),
    ("hosted.web_fetch.blocked_domains", Class::Restriction),
    ("hosted.url_context", Class::Content),
    ("hosted.file_search", Class::Content),
    ("hosted.file_search.max_results", Class::Constraint),
    ("hosted.file_search.filters", Class::Restriction),
    ("hosted.code_interpreter", Class::Content),
    ("hosted.code_interpreter.container", Class::Content),
    ("hosted.code_interpreter.files", Class::Content),
    ("hosted.shell", Class::Content),
    ("hosted.apply_patch", Class::Content),
    ("hosted.computer_use", Class::Content),
    ("hosted.text_editor", Class::Content),
    ("hosted.memory", Class::Content),
    ("hosted.image_generation", Class::Content),
    ("hosted.tool_search", Class::Content),
    ("hosted.remote_mcp.url", Class::Content),
    ("hosted.remote_mcp.connector", Class::Content),
    ("hosted.remote_mcp.authorization", Class::Content),
    ("hosted.remote_mcp.allowed_tools", Class::Restriction),
    ("hosted.remote_mcp.denied_tools", Class::Restriction),
    ("hosted.remote_mcp.require_approval", Class::Restriction),
    ("hosted.raw", Class::Content),
    // What has no name of ours.
    ("extra", Class::Content),
    ("native", Class::State),
    ("native.inference_geo", Class::Restriction),
    ("native.modelArmorConfig", Class::Restriction),
    ("native.prompt", Class::Content),
    ("native.thread", Class::Content),
    ("native.n", Class::Constraint),
    ("native.audio", Class::Constraint),
    ("native.response_format", Class::Constraint),
    ("native.generationConfig.responseMimeType", Class::Constraint),
];

/// The class of a field; `None` where there is no such field.
#[must_use]
pub fn class_of(field: &str) -> Option<Class> {
    ALL_FIELDS.iter().find(|(name, _)| *name == field).map(|(_, class)| *class)
}

#[cfg(test)]
pub(crate) mod examples;
#[cfg(test)]
mod faults;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;
    use placet_core::ProviderId;
    use serde_json::{Value, json};

    #[test]
    fn every_protocol_does_what_its_table_says() {
        let own = ProviderId::new("own");
        for protocol in Protocol::ALL {
            let faults = faults::faults(protocol.fields(), &own, |request| {
                let encoded = protocol.encode_request(request, &own, true)?;
                let body: Value = serde_json::from_slice(&encoded.body).unwrap_or_default();
                // One protocol tells the model in the path.
                let asked = json!({"path": request.model, "body": body});
                Ok((asked, encoded.omitted.into_iter().map(|omission| omission.what).collect()))
            });
            assert!(faults.is_empty(), "{protocol}:\n{}", faults.join("\n"));
        }
    }

    #[test]
    fn every_field_has_one_row_and_an_example() {
        let mut seen = std::collections::BTreeSet::new();
        for (field, class) in ALL_FIELDS {
            assert!(seen.insert(field), "{field} stands twice");
            assert_eq!(class_of(field), Some(*class));
            let (without, with) = examples::example(field, &"own".into());
            assert_ne!(without, with, "{field}");
        }
    }
}
