//! Tools that the provider runs itself.

use super::parts::{rest, word};
use super::tools::ADDITIONAL;
use super::write::{List, Object};
use super::{Dialect, HostedSupport};
use crate::options::{self, Words};
use placet_core::hosted::{CodeInterpreter, HostedOptions, HostedTool, RemoteMcp, WebSearch};
use placet_core::part::Native;
use placet_core::{ErrorKind, ProviderError, ProviderId};
use serde_json::{Map, Value, json};

/// A tool of a client's request that is neither a function nor a custom tool. What has no name of ours is kept as it came, and so is what
/// the client runs itself or what works on things that the provider holds: it is of one provider alone.
pub(crate) fn decode(map: &Map<String, Value>, additional: Option<usize>, provider: &ProviderId) -> HostedTool {
    let kind = word(map, "type").unwrap_or_default();
    let raw = || {
        let mut value = map.clone();
        if let Some(number) = additional {
            value.insert(ADDITIONAL.into(), number.into());
        }
        HostedTool::Raw(Native { provider: provider.clone(), value: Value::Object(value) })
    };
    // A variant of a tool keeps its type; our own word for it is left out, and so is what says nothing.
    let beyond = |canonical: &str, known: &[&str]| {
        let mut extra = rest(map, known);
        if extra.get("type").is_some_and(|kind| kind == canonical) {
            extra.shift_remove("type");
        }
        if let Some(number) = additional {
            extra.insert(ADDITIONAL.into(), number.into());
        }
        extra
    };
    let text = |key: &str| word(map, key).map(str::to_owned);
    let texts = |value: Option<&Value>| -> Option<Vec<String>> {
        value?.as_array()?.iter().map(|entry| entry.as_str().map(str::to_owned)).collect()
    };
    let given = |key: &str| map.get(key).filter(|value| !value.is_null());
    let plain = |canonical: &str| HostedOptions { extra: beyond(canonical, &[]) };
    let is_newer = |(key, value): (&String, &Value)| !value.is_null() && !options::is_known(Words::Openai, key);
    if (kind.starts_with("web_search") || kind == "code_interpreter") && map.iter().any(is_newer) {
        return raw();
    }
    match kind {
        "web_search" | "web_search_2025_08_26" | "web_search_preview" | "web_search_preview_2025_03_11" => {
            let filters = map.get("filters").and_then(Value::as_object);
            let domains = texts(filters.and_then(|filters| filters.get("allowed_domains")));
            let only_domains = filters.is_none_or(|filters| filters.len() == 1 && domains.is_some());
            if !only_domains {
                return raw();
            }
            HostedTool::WebSearch(WebSearch {
                allowed_domains: domains.unwrap_or_default(),
                context_size: text("search_context_size"),
                user_location: given("user_location").cloned(),
                extra: beyond("web_search", &["filters", "search_context_size", "user_location"]),
                ..WebSearch::default()
            })
        }
        "code_interpreter" => {
            let is_any = given("container").is_none_or(|container| *container == json!({"type": "auto"}));
            // A container that is there, and files, are of one provider alone.
            if !is_any {
                return raw();
            }
            let extra = beyond(kind, &["container"]);
            HostedTool::CodeInterpreter(CodeInterpreter { extra, ..CodeInterpreter::default() })
        }
        "image_generation" => HostedTool::ImageGeneration(plain(kind)),
        "tool_search" if text("execution").is_none_or(|execution| execution == "server") => {
            HostedTool::ToolSearch(plain(kind))
        }
        "mcp" => {
            let allowed = given("allowed_tools");
            let names = texts(allowed);
            let mut extra = beyond(
                kind,
                &["server_label", "server_url", "connector_id", "authorization", "allowed_tools", "require_approval"],
            );
            if let (Some(filter), None) = (allowed, &names) {
                extra.insert("allowed_tools".into(), filter.clone());
            }
            HostedTool::RemoteMcp(RemoteMcp {
                label: text("server_label").unwrap_or_default(),
                url: text("server_url"),
                connector: text("connector_id"),
                authorization: text("authorization"),
                allowed_tools: names.unwrap_or_default(),
                require_approval: given("require_approval").cloned(),
                extra,
                ..RemoteMcp::default()
            })
        }
        _ => raw(),
    }
}

/// Which item of the conversation brought a tool: the how-manieth of its kind.
pub(super) fn additional(tool: &HostedTool) -> Option<u64> {
    let extra = match tool {
        HostedTool::WebSearch(tool) => &tool.extra,
        HostedTool::FileSearch(tool) => &tool.extra,
        HostedTool::CodeInterpreter(tool) => &tool.extra,
        HostedTool::ComputerUse(tool) => &tool.extra,
        HostedTool::RemoteMcp(tool) => &tool.extra,
        HostedTool::Shell(tool)
        | HostedTool::ApplyPatch(tool)
        | HostedTool::ImageGeneration(tool)
        | HostedTool::ToolSearch(tool) => &tool.extra,
        HostedTool::Raw(native) => native.value.as_object()?,
        _ => return None,
    };
    extra.get(ADDITIONAL)?.as_u64()
}

/// A tool as it is called in a choice.
pub(super) fn choice(tool: &HostedTool) -> Value {
    let extra = match tool {
        HostedTool::WebSearch(tool) => tool.extra.get("type"),
        HostedTool::FileSearch(tool) => tool.extra.get("type"),
        HostedTool::CodeInterpreter(tool) => tool.extra.get("type"),
        HostedTool::ComputerUse(tool) => tool.extra.get("type").or(Some(&Value::Null)),
        HostedTool::RemoteMcp(server) => return json!({"type": "mcp", "server_label": server.label}),
        HostedTool::Raw(native) => native.value.get("type"),
        _ => None,
    };
    match extra {
        Some(Value::Null) => json!({"type": "computer_use_preview"}),
        Some(kind) => json!({ "type": kind }),
        None => json!({"type": tool.kind()}),
    }
}

/// Whether an entry of a choice means a tool.
pub(super) fn is_chosen(entry: &Value, tool: &HostedTool) -> bool {
    let form = choice(tool);
    // A server that is named with some of its tools is not the whole of it.
    entry.get("type") == form.get("type")
        && entry.get("server_label") == form.get("server_label")
        && entry.get("name").is_none()
}

/// Writes a tool.
///
/// # Errors
/// Of kind *unsupported* where the protocol or this server has no such tool, or cannot keep a limit that is set.
pub(super) fn write(tool: &HostedTool, dialect: &Dialect, list: &mut List<'_>) -> Result<(), ProviderError> {
    let unsupported = |field: &str| super::encode::unsupported(dialect, &format!("hosted.{field}"));
    if let HostedSupport::Only(kinds) = dialect.hosted
        && !kinds.contains(&tool.kind())
        && !matches!(tool, HostedTool::Raw(_))
    {
        return Err(unsupported(tool.kind()));
    }
    let mut fields = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(key.to_owned(), value);
        }
    };
    let extra = match tool {
        HostedTool::WebSearch(tool) => {
            if tool.max_uses.is_some() {
                return Err(unsupported("web_search.max_uses"));
            }
            if !tool.blocked_domains.is_empty() {
                return Err(unsupported("web_search.blocked_domains"));
            }
            put("type", Some("web_search".into()));
            let domains = (!tool.allowed_domains.is_empty()).then(|| json!({"allowed_domains": tool.allowed_domains}));
            put("filters", domains);
            put("search_context_size", tool.context_size.clone().map(Value::from));
            put("user_location", tool.user_location.clone());
            &tool.extra
        }
        HostedTool::FileSearch(tool) => {
            put("type", Some("file_search".into()));
            put("vector_store_ids", Some(tool.stores.clone().into()));
            put("max_num_results", tool.max_results.map(Value::from));
            put("filters", tool.filters.clone());
            &tool.extra
        }
        HostedTool::CodeInterpreter(tool) => {
            put("type", Some("code_interpreter".into()));
            let mut container = tool.container.clone().unwrap_or_else(|| json!({"type": "auto"}));
            if !tool.files.is_empty() {
                // A container that exists has its files already.
                let Some(container) = container.as_object_mut() else {
                    return Err(unsupported("code_interpreter.files"));
                };
                container.insert("file_ids".into(), tool.files.clone().into());
            }
            put("container", Some(container));
            &tool.extra
        }
        HostedTool::ComputerUse(tool) => {
            put("type", Some("computer_use_preview".into()));
            put("environment", tool.environment.clone().map(Value::from));
            put("display_width", tool.width.map(Value::from));
            put("display_height", tool.height.map(Value::from));
            &tool.extra
        }
        HostedTool::RemoteMcp(tool) => {
            mcp(tool, dialect, &mut put)?;
            &tool.extra
        }
        HostedTool::Shell(options)
        | HostedTool::ApplyPatch(options)
        | HostedTool::ImageGeneration(options)
        | HostedTool::ToolSearch(options) => {
            put("type", Some(tool.kind().into()));
            &options.extra
        }
        HostedTool::Raw(native) => {
            let own = native.value.as_object().filter(|_| native.provider == dialect.provider);
            own.ok_or_else(|| unsupported("raw"))?
        }
        other => return Err(unsupported(other.kind())),
    };
    let mut object = Object::new(list.next());
    let replaced: Vec<&str> = extra.keys().map(String::as_str).collect();
    if let Some(kind) = extra.get("type").or_else(|| fields.get("type")) {
        object.field("type", kind);
    }
    let but: Vec<&str> = replaced.iter().copied().chain(["type"]).collect();
    object.merge(&fields, &but);
    object.merge(extra, &["type", ADDITIONAL]);
    object.end();
    Ok(())
}

fn mcp(tool: &RemoteMcp, dialect: &Dialect, put: &mut impl FnMut(&str, Option<Value>)) -> Result<(), ProviderError> {
    let invalid = |problem: &str| Err(ProviderError::new(ErrorKind::InvalidRequest, dialect.provider.clone(), problem));
    if !tool.denied_tools.is_empty() {
        return Err(super::encode::unsupported(dialect, "hosted.remote_mcp.denied_tools"));
    }
    if tool.url.is_some() && tool.connector.is_some() {
        return invalid("an MCP server has both a URL and a connector; give one of them");
    }
    let headers = tool.extra.get("headers").and_then(Value::as_object);
    let authorizes =
        headers.is_some_and(|headers| headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")));
    if tool.authorization.is_some() && authorizes {
        return invalid("an MCP server has both `authorization` and a header of that name; give one of them");
    }
    put("type", Some("mcp".into()));
    put("server_label", Some(tool.label.as_str().into()));
    put("server_url", tool.url.clone().map(Value::from));
    put("connector_id", tool.connector.clone().map(Value::from));
    put("authorization", tool.authorization.clone().map(Value::from));
    put("allowed_tools", (!tool.allowed_tools.is_empty()).then(|| tool.allowed_tools.clone().into()));
    put("require_approval", tool.require_approval.clone());
    Ok(())
}
