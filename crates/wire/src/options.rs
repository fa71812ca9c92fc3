//! Options of a provider's own tools that are in another provider's words.
//!
//! A client of one protocol sets options that have no name of ours. Where another provider has the same tool, its server does not
//! know them and would refuse the whole request. Words that are known to be another's are left out and reported, or refused where they
//! restrict the tool. A word that nobody knows may be newer than this: of a client it goes to the provider whose words it speaks, of
//! whoever makes a request in our words as it is.

use crate::encoded::Omissions;
use placet_core::ProviderError;
use placet_core::hosted::HostedTool;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Whose words an option may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// Of Chat Completions, whose one tool has hardly any.
    Chat,
    Openai,
    Google,
}

/// The options of OpenAI's tools, and the mark of tools that a conversation brings.
const OPENAI: [&str; 28] = [
    "type",
    "action",
    "additional_tools",
    "allowed_callers",
    "background",
    "connector_id",
    "defer_loading",
    "environment",
    "execution",
    "external_web_access",
    "filters",
    "headers",
    "input_fidelity",
    "input_image_mask",
    "model",
    "moderation",
    "output_compression",
    "output_format",
    "output_schema",
    "parameters",
    "partial_images",
    "quality",
    "ranking_options",
    "return_token_budget",
    "search_content_types",
    "server_description",
    "size",
    "strict",
];

/// The options of Anthropic's tools.
pub(crate) const ANTHROPIC: [&str; 17] = [
    "name",
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "strict",
    "response_inclusion",
    "citations",
    "max_content_tokens",
    "url_sources",
    "use_cache",
    "display_number",
    "enable_zoom",
    "input_examples",
    "max_characters",
    "tool_id",
    "default_config",
    "configs",
];

/// The options of Google's tools.
const GOOGLE: [&str; 7] = [
    "blockingConfidence",
    "excludedPredefinedFunctions",
    "enableWidget",
    "retrievalConfig",
    "searchTypes",
    "streamableHttpTransport",
    "timeRangeFilter",
];

/// Whether a field of a tool is one that its provider is known to have. What is newer is kept in the provider's words, so that it goes
/// to nobody else.
pub(crate) fn is_known(words: Words, key: &str) -> bool {
    match words {
        Words::Openai => OPENAI.contains(&key) || ["container", "search_context_size", "user_location"].contains(&key),
        Words::Google => GOOGLE.contains(&key) || key == "excludeDomains",
        Words::Chat => false,
    }
}

impl Words {
    fn is_foreign(self, key: &str, value: &Value) -> bool {
        match self {
            Words::Chat => OPENAI.contains(&key) || ANTHROPIC.contains(&key) || GOOGLE.contains(&key),
            // The types of Anthropic's tools end with a date in one piece, OpenAI's with one in three.
            Words::Openai if key == "type" => value.as_str().is_some_and(is_dated),
            Words::Openai if key == CALLERS => callers(value).any(|caller| caller.starts_with("code_execution")),
            Words::Openai => !OPENAI.contains(&key) && (ANTHROPIC.contains(&key) || GOOGLE.contains(&key)),
            Words::Google => !GOOGLE.contains(&key) && (OPENAI.contains(&key) || ANTHROPIC.contains(&key)),
        }
    }
}

fn is_dated(kind: &str) -> bool {
    kind.rsplit('_').next().is_some_and(|date| date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Who may call a tool: the model itself (`direct`), and the provider's code in the provider's own words.
pub(crate) const CALLERS: &str = "allowed_callers";

/// Whether an option keeps its tool from something.
pub(crate) fn restricts(key: &str, value: &Value) -> bool {
    *value == Value::Bool(false) || keeps_from(key, value)
}

/// Options that hold others.
const WRAPPERS: [&str; 3] = ["environment", "filters", "network_policy"];

/// Whether an option keeps its tool from something by its name. Where the model itself may call a tool, elsewhere nobody else will.
pub(crate) fn keeps_from(key: &str, value: &Value) -> bool {
    if key == CALLERS {
        return !value.is_null() && !callers(value).any(|caller| caller == "direct");
    }
    let words = ["allowed", "blocked", "denied", "disallowed", "excluded", "require", "url_sources", "timeRange"];
    let is_within = |value: &Value| {
        let fields = value.as_object().into_iter().flatten();
        fields.into_iter().any(|(key, value)| keeps_from(key, value))
    };
    words.iter().any(|word| key.starts_with(word)) || WRAPPERS.contains(&key) && is_within(value)
}

/// Who may call a tool.
pub(crate) fn callers(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// A tool without the options that are not in these words.
///
/// # Errors
/// What `refuse` makes of a field, where the option restricts the tool.
pub(crate) fn without_foreign<'t>(
    tool: &'t HostedTool,
    words: Words,
    omitted: &mut Omissions,
    refuse: impl Fn(&str) -> ProviderError,
) -> Result<Cow<'t, HostedTool>, ProviderError> {
    let Some(extra) = extra(tool).filter(|extra| extra.iter().any(|(key, value)| words.is_foreign(key, value))) else {
        return Ok(Cow::Borrowed(tool));
    };
    let mut kept = Map::new();
    for (key, value) in extra {
        if !words.is_foreign(key, value) {
            kept.insert(key.clone(), value.clone());
            continue;
        }
        let field = format!("hosted.{}.{key}", tool.kind());
        if restricts(key, value) {
            return Err(refuse(&field));
        }
        omitted.add(field, "the provider's tool has no such option");
    }
    let mut tool = tool.clone();
    if let Some(extra) = extra_mut(&mut tool) {
        *extra = kept;
    }
    Ok(Cow::Owned(tool))
}

fn extra_mut(tool: &mut HostedTool) -> Option<&mut Map<String, Value>> {
    Some(match tool {
        HostedTool::WebSearch(tool) => &mut tool.extra,
        HostedTool::WebFetch(tool) => &mut tool.extra,
        HostedTool::FileSearch(tool) => &mut tool.extra,
        HostedTool::CodeInterpreter(tool) => &mut tool.extra,
        HostedTool::ComputerUse(tool) => &mut tool.extra,
        HostedTool::RemoteMcp(tool) => &mut tool.extra,
        HostedTool::UrlContext(options)
        | HostedTool::Shell(options)
        | HostedTool::ApplyPatch(options)
        | HostedTool::TextEditor(options)
        | HostedTool::Memory(options)
        | HostedTool::ImageGeneration(options)
        | HostedTool::ToolSearch(options) => &mut options.extra,
        _ => return None,
    })
}

fn extra(tool: &HostedTool) -> Option<&Map<String, Value>> {
    Some(match tool {
        HostedTool::WebSearch(tool) => &tool.extra,
        HostedTool::WebFetch(tool) => &tool.extra,
        HostedTool::FileSearch(tool) => &tool.extra,
        HostedTool::CodeInterpreter(tool) => &tool.extra,
        HostedTool::ComputerUse(tool) => &tool.extra,
        HostedTool::RemoteMcp(tool) => &tool.extra,
        HostedTool::UrlContext(options)
        | HostedTool::Shell(options)
        | HostedTool::ApplyPatch(options)
        | HostedTool::TextEditor(options)
        | HostedTool::Memory(options)
        | HostedTool::ImageGeneration(options)
        | HostedTool::ToolSearch(options) => &options.extra,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use crate::protocol::Protocol;
    use placet_core::env::ManualClock;
    use placet_core::{Env, ErrorKind, Timestamp};
    use serde_json::json;

    /// A tool of a client's request in another protocol: what is written, and what was left out.
    fn through(from: Protocol, to: Protocol, tool: Value) -> Result<(Value, Vec<String>), ErrorKind> {
        let body = match from {
            Protocol::AnthropicMessages => {
                json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}], "tools": [tool]})
            }
            Protocol::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "a"}]}], "tools": [tool]}),
            _ => json!({"model": "m", "input": "a", "tools": [tool]}),
        };
        let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1);
        let mut read =
            from.decode_request(body.to_string().as_bytes(), &from.as_str().into(), &env).expect("a request").request;
        read.model = "m".into();
        let written = to.encode_request(&read, &to.as_str().into(), false).map_err(|error| error.kind)?;
        let body: Value = serde_json::from_slice(&written.body).expect("JSON");
        Ok((body["tools"][0].clone(), written.omitted.into_iter().map(|omission| omission.what).collect()))
    }

    #[test]
    fn options_in_anothers_words_are_left_out_and_told() {
        use Protocol::{AnthropicMessages, Gemini, OpenaiResponses};
        let (tool, omitted) =
            through(OpenaiResponses, Gemini, json!({"type": "web_search", "external_web_access": true})).unwrap();
        assert_eq!(tool, json!({"googleSearch": {}}));
        assert_eq!(omitted, ["hosted.web_search.external_web_access"]);
        // Those of Anthropic's tools are state of the request.
        let searching = json!({"type": "web_search_20260209", "name": "web_search", "response_inclusion": "full"});
        let told = vec!["hosted.web_search.response_inclusion".to_owned()];
        for (to, wanted) in [(OpenaiResponses, json!({"type": "web_search"})), (Gemini, json!({"googleSearch": {}}))] {
            assert_eq!(through(AnthropicMessages, to, searching.clone()).unwrap(), (wanted, told.clone()));
        }
        let timely = json!({"googleSearch": {"timeRangeFilter": {"startTime": "2026-01-01T00:00:00Z"}}});
        assert_eq!(through(Gemini, OpenaiResponses, timely.clone()).unwrap_err(), ErrorKind::Unsupported);
        let showy = json!({"googleSearch": {"searchTypes": {"webSearch": {}}}});
        let (tool, omitted) = through(Gemini, OpenaiResponses, showy).unwrap();
        assert_eq!(tool, json!({"type": "web_search"}));
        assert_eq!(omitted, ["hosted.web_search.searchTypes"]);
        // What restricts a tool may stand a level deeper.
        let policy = json!({"type": "allowlist", "allowed_domains": ["a.example"]});
        let shell = json!({"type": "shell", "environment": {"type": "container_auto", "network_policy": policy}});
        assert_eq!(through(OpenaiResponses, AnthropicMessages, shell.clone()).unwrap_err(), ErrorKind::Unsupported);
        assert_eq!(through(OpenaiResponses, OpenaiResponses, shell.clone()).unwrap().0, shell);
        // To its own provider everything goes back, and so does a word that nobody knows.
        assert_eq!(through(Gemini, Gemini, timely.clone()).unwrap().0, timely);
        let newer = json!({"type": "web_search", "moonlight": true});
        assert_eq!(through(OpenaiResponses, OpenaiResponses, newer.clone()).unwrap().0, newer);
        let told = vec!["hosted.web_search.moonlight".to_owned()];
        assert_eq!(
            through(OpenaiResponses, Gemini, newer.clone()).unwrap(),
            (json!({"googleSearch": {}}), told.clone())
        );
        let (tool, omitted) = through(OpenaiResponses, AnthropicMessages, newer).unwrap();
        assert_eq!((&tool["name"], tool.get("moonlight"), &omitted), (&json!("web_search"), None, &told));
        let newer = json!({"googleSearch": {"moonlight": true, "excludeDomains": ["a.example"]}});
        assert_eq!(through(Gemini, Gemini, newer.clone()).unwrap().0, newer);
        let (tool, omitted) = through(Gemini, AnthropicMessages, newer).unwrap();
        assert_eq!((&tool["blocked_domains"], &omitted), (&json!(["a.example"]), &told));
        for newer in [
            json!({"type": "web_search", "blocked_moons": ["io"]}),
            json!({"type": "web_search", "moonlight": false}),
            json!({"type": "web_search", "filters": {"allowed_domains": ["a.example"], "moonlight": true}}),
        ] {
            assert_eq!(through(OpenaiResponses, Gemini, newer).unwrap_err(), ErrorKind::Unsupported);
        }
    }

    #[test]
    fn options_that_restrict_are_refused() {
        let offline = json!({"type": "web_search", "external_web_access": false});
        let refused = through(Protocol::OpenaiResponses, Protocol::Gemini, offline).unwrap_err();
        assert_eq!(refused, ErrorKind::Unsupported);
    }
}
