//! Which fields a request uses, and how one is left out.

use placet_core::hosted::HostedTool;
use placet_core::part::{Media, MediaSource};
use placet_core::turn::{CacheStrategy, StateMode};
use placet_core::{Item, ItemBody, Part, Role, Schema, ToolChoice, TurnRequest};
use std::sync::Arc;

/// Whether a request uses a field, or one that is within it.
pub(super) fn uses(request: &TurnRequest, field: &str) -> bool {
    let controls = &request.controls;
    let choice = |wanted: &str| match &request.tool_choice {
        ToolChoice::Auto => false,
        ToolChoice::Required => wanted == "required",
        ToolChoice::None => wanted == "none",
        ToolChoice::Tool(_) => wanted == "tool",
        ToolChoice::Allowed(allowed) if allowed.required => wanted == "allowed_required",
        ToolChoice::Allowed(_) => wanted == "allowed",
    };
    let (head, rest) = field.split_once('.').map_or((field, ""), |(head, rest)| (head, rest));
    match (head, rest) {
        ("temperature", _) => controls.temperature.is_some(),
        ("top_p", _) => controls.top_p.is_some(),
        ("top_k", _) => controls.top_k.is_some(),
        ("seed", _) => controls.seed.is_some(),
        ("frequency_penalty", _) => controls.frequency_penalty.is_some(),
        ("presence_penalty", _) => controls.presence_penalty.is_some(),
        ("max_output_tokens", _) => controls.max_output_tokens.is_some(),
        ("stop", _) => !controls.stop.is_empty(),
        ("top_logprobs", _) => controls.top_logprobs.is_some(),
        ("reasoning_effort", _) => controls.reasoning_effort.is_some(),
        ("reasoning_budget", _) => controls.reasoning_budget.is_some(),
        ("reasoning_summary", _) => controls.reasoning_summary.is_some(),
        ("verbosity", _) => controls.verbosity.is_some(),
        ("max_hosted_calls", _) => controls.max_hosted_calls.is_some(),
        ("service_tier", _) => controls.service_tier.is_some(),
        ("background", _) => controls.background == Some(true),
        // Thinking that can go back always comes along.
        ("include", _) => controls.include.iter().any(|what| what != "reasoning.encrypted_content"),
        ("modalities", _) => controls.modalities.iter().any(|word| word != "text"),
        ("compaction", _) => controls.compaction.is_some(),
        ("metadata", _) => !controls.metadata.is_empty(),
        ("user", _) => controls.user.is_some(),
        ("safety", _) => !controls.safety.is_empty(),
        ("store", "true") => controls.store == Some(true),
        ("store", "false") => controls.store == Some(false),
        ("state", "") => controls.state.is_some(),
        ("state", "stateful") => controls.state == Some(StateMode::Stateful),
        ("state", "replay") => controls.state == Some(StateMode::Replay),
        ("state", "zdr") => controls.state == Some(StateMode::ZeroRetention),
        ("state", "encrypted_reasoning") => controls.state == Some(StateMode::EncryptedReasoning),
        ("parallel_tool_calls", "true") => controls.parallel_tool_calls == Some(true),
        ("parallel_tool_calls", "false") => controls.parallel_tool_calls == Some(false),
        ("parallel_tool_calls", _) => controls.parallel_tool_calls.is_some(),
        ("cache", rest) => controls.cache.as_ref().is_some_and(|cache| match rest {
            "auto" => cache.strategy == Some(CacheStrategy::Auto),
            "explicit" => cache.strategy == Some(CacheStrategy::Explicit),
            "bypass" => cache.strategy == Some(CacheStrategy::Bypass),
            "key" => cache.key.is_some(),
            "ttl" => cache.ttl.is_some(),
            "content" => cache.content.is_some(),
            _ => true,
        }),
        ("tool", "") => !request.tools.is_empty(),
        ("tool", "strict") => request.tools.iter().any(|tool| tool.strict.is_some()),
        ("tool", "cache") => request.tools.iter().any(|tool| tool.cache.is_some()),
        ("tool_choice", "") => !request.tool_choice.is_auto(),
        ("tool_choice", wanted) => choice(wanted),
        ("output", rest) => request.output.as_ref().is_some_and(|output| match rest {
            "strict" => output.strict,
            "loose" => !output.strict && !is_any_object(output.schema.as_value()),
            "any_object" => !output.strict && is_any_object(output.schema.as_value()),
            "description" => output.description.is_some(),
            _ => true,
        }),
        ("instructions", _) => request.instructions.is_some(),
        ("image" | "audio" | "file", _) => parts(request).any(|part| is_media(part, head, rest)),
        ("tool_result", "image") => results(request).any(|part| matches!(part, Part::Image(_))),
        ("tool_result", "file") => results(request).any(|part| matches!(part, Part::File(_))),
        ("message", "system") => {
            // Before the conversation it is an instruction like any other.
            let within = request.items.iter().skip_while(|item| is_said_by(item, &Role::System));
            within.into_iter().any(|item| is_said_by(item, &Role::System))
        }
        ("message", "assistant") => said_by(request, &Role::Assistant),
        ("message", "prefill") => is_begun(request),
        ("hosted", rest) => request.hosted.iter().any(|tool| is_hosted(tool, rest)),
        _ => false,
    }
}

fn is_any_object(schema: &serde_json::Value) -> bool {
    schema
        .as_object()
        .is_some_and(|schema| schema.len() == 1 && schema.get("type").is_some_and(|kind| kind == "object"))
}

fn said_by(request: &TurnRequest, role: &Role) -> bool {
    request.items.iter().any(|item| is_said_by(item, role))
}

fn is_said_by(item: &Item, role: &Role) -> bool {
    matches!(&item.body, ItemBody::Message(message) if message.role == *role)
}

/// Whether the conversation ends with the beginning of an answer. An answer that its provider paused is none: it holds more than
/// text.
fn is_begun(request: &TurnRequest) -> bool {
    let said = |item: &Arc<Item>| matches!(&item.body, ItemBody::Message(message) if message.role == Role::Assistant);
    let before = request.items.iter().rev().find(|item| !said(item));
    let is_answered = |item: &Arc<Item>| {
        matches!(&item.body, ItemBody::ToolResult(_))
            || matches!(&item.body, ItemBody::Message(message) if message.role != Role::Assistant)
    };
    request.items.last().is_some_and(said) && before.is_none_or(is_answered)
}

fn parts(request: &TurnRequest) -> impl Iterator<Item = &Part> {
    request.items.iter().flat_map(|item| match &item.body {
        ItemBody::Message(message) => message.parts.as_slice(),
        _ => &[],
    })
}

fn results(request: &TurnRequest) -> impl Iterator<Item = &Part> {
    request.items.iter().flat_map(|item| match &item.body {
        ItemBody::ToolResult(result) => result.outcome.content.as_slice(),
        _ => &[],
    })
}

fn is_media(part: &Part, kind: &str, rest: &str) -> bool {
    let media: &Media = match (part, kind) {
        (Part::Image(media), "image") | (Part::Audio(media), "audio") | (Part::File(media), "file") => media,
        _ => return false,
    };
    match rest {
        "" => true,
        "inline" => matches!(media.source, MediaSource::Inline(_)),
        "url" => matches!(media.source, MediaSource::Url(_)),
        "provider_file" => matches!(media.source, MediaSource::ProviderFile(_)),
        "artifact" => matches!(media.source, MediaSource::Artifact(_)),
        "detail" => media.detail.is_some(),
        "cache" => media.cache.is_some(),
        "name" => media.name.is_some(),
        _ => false,
    }
}

/// Whether a tool of the provider is of this kind, and uses this field of it.
fn is_hosted(tool: &HostedTool, rest: &str) -> bool {
    let (kind, field) = rest.split_once('.').map_or((rest, ""), |(kind, field)| (kind, field));
    if tool.kind() != kind {
        return false;
    }
    match (tool, field) {
        (_, "") => true,
        (HostedTool::WebSearch(search), "max_uses") => search.max_uses.is_some(),
        (HostedTool::WebSearch(search), "allowed_domains") => !search.allowed_domains.is_empty(),
        (HostedTool::WebSearch(search), "blocked_domains") => !search.blocked_domains.is_empty(),
        (HostedTool::WebSearch(search), "context_size") => search.context_size.is_some(),
        (HostedTool::WebSearch(search), "user_location") => search.user_location.is_some(),
        (HostedTool::WebFetch(fetch), "max_uses") => fetch.max_uses.is_some(),
        (HostedTool::WebFetch(fetch), "allowed_domains") => !fetch.allowed_domains.is_empty(),
        (HostedTool::WebFetch(fetch), "blocked_domains") => !fetch.blocked_domains.is_empty(),
        (HostedTool::FileSearch(search), "max_results") => search.max_results.is_some(),
        (HostedTool::FileSearch(search), "filters") => search.filters.is_some(),
        (HostedTool::CodeInterpreter(code), "container") => code.container.is_some(),
        (HostedTool::CodeInterpreter(code), "files") => !code.files.is_empty(),
        (HostedTool::RemoteMcp(server), "url") => server.url.is_some(),
        (HostedTool::RemoteMcp(server), "connector") => server.connector.is_some(),
        (HostedTool::RemoteMcp(server), "authorization") => server.authorization.is_some(),
        (HostedTool::RemoteMcp(server), "allowed_tools") => !server.allowed_tools.is_empty(),
        (HostedTool::RemoteMcp(server), "denied_tools") => !server.denied_tools.is_empty(),
        (HostedTool::RemoteMcp(server), "require_approval") => server.require_approval.is_some(),
        _ => false,
    }
}

/// The value of a field that has values, in words.
pub(super) fn value<'r>(request: &'r TurnRequest, field: &str) -> Option<&'r str> {
    let controls = &request.controls;
    match field {
        "reasoning_effort" => controls.reasoning_effort.as_deref(),
        "reasoning_summary" => controls.reasoning_summary.as_deref(),
        "verbosity" => controls.verbosity.as_deref(),
        "service_tier" => controls.service_tier.as_deref(),
        "cache.ttl" => controls.cache.as_ref()?.ttl.as_deref(),
        _ => None,
    }
}

/// Sets a field that has values to another one.
pub(super) fn replace(request: &mut TurnRequest, field: &str, value: &str) {
    let controls = &mut request.controls;
    let place = match field {
        "reasoning_effort" => &mut controls.reasoning_effort,
        "reasoning_summary" => &mut controls.reasoning_summary,
        "verbosity" => &mut controls.verbosity,
        "service_tier" => &mut controls.service_tier,
        _ => return,
    };
    *place = Some(value.to_owned());
}

/// Takes a hint out of a request. Gives whether there is a way to; what has none is left to the encoder, which reports it.
pub(super) fn leave_out(request: &mut TurnRequest, field: &str) -> bool {
    let controls = &mut request.controls;
    match field {
        "temperature" => controls.temperature = None,
        "top_p" => controls.top_p = None,
        "top_k" => controls.top_k = None,
        "seed" => controls.seed = None,
        "frequency_penalty" => controls.frequency_penalty = None,
        "presence_penalty" => controls.presence_penalty = None,
        "reasoning_effort" => controls.reasoning_effort = None,
        "reasoning_budget" => controls.reasoning_budget = None,
        "reasoning_summary" => controls.reasoning_summary = None,
        "verbosity" => controls.verbosity = None,
        "service_tier" => controls.service_tier = None,
        "compaction" => controls.compaction = None,
        "metadata" => controls.metadata.clear(),
        "user" => controls.user = None,
        "store.true" => controls.store = None,
        "parallel_tool_calls.true" => controls.parallel_tool_calls = None,
        "cache.auto" | "cache.explicit" => {
            if let Some(cache) = &mut controls.cache {
                cache.strategy = None;
            }
        }
        "cache.key" => {
            if let Some(cache) = &mut controls.cache {
                cache.key = None;
            }
        }
        "cache.ttl" => {
            if let Some(cache) = &mut controls.cache {
                cache.ttl = None;
            }
        }
        // Which JSON the answer is may be left open; that it is JSON may not.
        "output.loose" => {
            if let Some(output) = &mut request.output {
                output.schema = Schema::new(serde_json::json!({"type": "object"}));
                output.description = None;
            }
        }
        "tool.strict" => {
            for tool in &mut request.tools {
                if tool.strict.is_some() {
                    Arc::make_mut(tool).strict = None;
                }
            }
        }
        _ => return false,
    }
    true
}
