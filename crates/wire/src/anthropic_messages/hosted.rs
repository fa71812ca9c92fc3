//! Tools that the provider runs itself, or defines and lets the caller run, in both directions.
//!
//! | ours | type here, unless the dialect or the client says otherwise |
//! |---|---|
//! | web search, web fetch | `web_search_20260209`, `web_fetch_20260209` |
//! | code interpreter | `code_execution_20260120`, with the container beside the tools |
//! | shell, text editor, memory, computer (the caller runs them) | `bash_20250124`, `text_editor_20250728`, `memory_20250818`, `computer_20250124` |
//! | tool search | `tool_search_tool_bm25_20251119` |
//! | remote MCP | an entry of `mcp_servers` and an `mcp_toolset` |
//! | raw | as it is |
//!
//! A client's own shell, text editor, memory and computer are kept raw: it runs them, so that they are of its provider alone.

use super::Dialect;
use super::encode::Refusal;
use crate::encoded::Omissions;
use crate::options;
use placet_core::hosted::{CodeInterpreter, HostedOptions, HostedTool, RemoteMcp, WebFetch, WebSearch};
use placet_core::part::Native;
use placet_core::{ProviderError, ProviderId};
use serde_json::{Map, Value, json};

type Fields = Map<String, Value>;

const BASH: (&str, &str) = ("bash_20250124", "bash");
const MEMORY: (&str, &str) = ("memory_20250818", "memory");
const TOOL_SEARCH: (&str, &str) = ("tool_search_tool_bm25_20251119", "tool_search_tool_bm25");
/// The versions that a dialect names if nobody says otherwise.
pub(super) const WEB_SEARCH: &str = "web_search_20260209";
pub(super) const WEB_FETCH: &str = "web_fetch_20260209";
pub(super) const CODE_EXECUTION: &str = "code_execution_20260120";
pub(super) const COMPUTER: &str = "computer_20250124";
pub(super) const TEXT_EDITOR: &str = "text_editor_20250728";

/// The name that goes with a type, where it is not that of the type itself.
fn name_of(kind: &str) -> &str {
    match kind {
        kind if kind.starts_with("web_search_") => "web_search",
        kind if kind.starts_with("web_fetch_") => "web_fetch",
        kind if kind.starts_with("code_execution_") => "code_execution",
        kind if kind.starts_with("bash_") => BASH.1,
        kind if kind.starts_with("computer_") => "computer",
        "text_editor_20241022" | "text_editor_20250124" => "str_replace_editor",
        kind if kind.starts_with("text_editor_") => "str_replace_based_edit_tool",
        kind if kind.starts_with("memory_") => MEMORY.1,
        "tool_search_tool_regex_20251119" => "tool_search_tool_regex",
        kind if kind.starts_with("tool_search_tool_") => TOOL_SEARCH.1,
        kind => kind,
    }
}

/// What goes into the body for hosted tools.
#[derive(Default)]
pub(super) struct Offered {
    /// Entries of `tools`.
    pub(super) tools: Vec<Value>,
    /// Entries of `mcp_servers`.
    pub(super) servers: Vec<Value>,
    /// The container that code runs in.
    pub(super) container: Option<String>,
}

impl Offered {
    /// Whether a tool of this name is among them.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.get("name").and_then(Value::as_str) == Some(name))
    }
}

/// Hosted tools in the protocol's form. `kept` is what a client's tools had beyond our words, by kind.
pub(super) fn encode(
    hosted: &[HostedTool],
    dialect: &Dialect,
    kept: Option<&Fields>,
    omitted: &mut Omissions,
) -> Result<Offered, ProviderError> {
    let mut offered = Offered::default();
    let refusal = Refusal(&dialect.provider);
    let mut done: Vec<&str> = Vec::new();
    for tool in hosted {
        let kind = tool.kind();
        // What was kept is the first tool's of its kind.
        let kept_fields = kept.and_then(|kept| kept.get(kind)?.as_object()).filter(|_| !done.contains(&kind));
        let mut form = Fields::new();
        let extra = match tool {
            HostedTool::WebSearch(search) => {
                begin(&mut form, dialect.web_search);
                limits(&mut form, search.max_uses, &search.allowed_domains, &search.blocked_domains);
                if let Some(location) = &search.user_location {
                    form.insert("user_location".into(), location.clone());
                }
                if search.context_size.is_some() {
                    omitted.add("hosted.web_search.context_size", "this protocol has no word for it");
                }
                &search.extra
            }
            HostedTool::WebFetch(fetch) => {
                begin(&mut form, dialect.web_fetch);
                limits(&mut form, fetch.max_uses, &fetch.allowed_domains, &fetch.blocked_domains);
                &fetch.extra
            }
            HostedTool::CodeInterpreter(code) => {
                begin(&mut form, dialect.code_execution);
                if !code.files.is_empty() {
                    return Err(refusal.of("hosted.code_interpreter.files", "files go into the conversation here"));
                }
                match &code.container {
                    None => {}
                    Some(Value::String(id)) => offered.container = Some(id.clone()),
                    // Where the provider chooses one, which it does anyway.
                    Some(Value::Object(auto))
                        if auto.get("type").and_then(Value::as_str) == Some("auto") && auto.len() == 1 => {}
                    Some(_) => {
                        return Err(refusal.of("hosted.code_interpreter.container", "only its id is taken"));
                    }
                }
                &code.extra
            }
            HostedTool::Shell(options) => {
                begin(&mut form, BASH.0);
                &options.extra
            }
            HostedTool::TextEditor(options) => {
                begin(&mut form, dialect.text_editor);
                &options.extra
            }
            HostedTool::Memory(options) => {
                begin(&mut form, MEMORY.0);
                &options.extra
            }
            HostedTool::ToolSearch(options) => {
                begin(&mut form, TOOL_SEARCH.0);
                &options.extra
            }
            HostedTool::ComputerUse(computer) => {
                begin(&mut form, dialect.computer);
                let (Some(width), Some(height)) = (computer.width, computer.height) else {
                    return Err(refusal.of("hosted.computer_use", "it needs `width` and `height`"));
                };
                form.insert("display_width_px".into(), width.into());
                form.insert("display_height_px".into(), height.into());
                if computer.environment.is_some() {
                    omitted.add("hosted.computer_use.environment", "this protocol has no word for it");
                }
                &computer.extra
            }
            HostedTool::RemoteMcp(mcp) => {
                let note = kept.and_then(|kept| kept.get(&mcp_key(&mcp.label))?.as_object());
                remote_mcp(mcp, note, &refusal, omitted, &mut offered)?;
                continue;
            }
            HostedTool::Raw(native) if native.provider == dialect.provider => {
                offered.tools.push(native.value.clone());
                continue;
            }
            HostedTool::Raw(_) => return Err(refusal.of("hosted.raw", "it is another provider's")),
            other => {
                let field = format!("hosted.{}", other.kind());
                return Err(refusal.of(&field, "the provider has no such tool"));
            }
        };
        options(&mut form, kind, extra, &refusal, omitted)?;
        form.extend(kept_fields.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        // A type of another version may go by another name.
        if !form.contains_key("name") {
            let name = form.get("type").and_then(Value::as_str).map(name_of).unwrap_or_default().to_owned();
            form.insert("name".into(), name.into());
        }
        done.push(kind);
        offered.tools.push(form.into());
    }
    for server in kept.and_then(|kept| kept.get("mcp_servers")?.as_array()).into_iter().flatten() {
        offered.servers.push(server.clone());
    }
    Ok(offered)
}

/// Puts options in the provider's own words into a tool's form. They may be another provider's words, who has the same tool: those
/// are left out, or refused where they restrict it.
fn options(
    form: &mut Fields,
    kind: &str,
    extra: &Fields,
    refusal: &Refusal<'_>,
    omitted: &mut Omissions,
) -> Result<(), ProviderError> {
    let usual = form.get("type").and_then(Value::as_str).map(name_of).unwrap_or_default().to_owned();
    for (key, value) in extra {
        let is_version = key == "type" && value.as_str().is_some_and(|kind| is_version_of(kind, &usual));
        let is_foreign = key == options::CALLERS && options::callers(value).any(|caller| caller == "programmatic");
        let is_own = options::ANTHROPIC.contains(&key.as_str()) && !is_foreign;
        if is_version || is_own || form.contains_key(key) && key != "type" {
            form.insert(key.clone(), value.clone());
            continue;
        }
        let field = format!("hosted.{kind}.{key}");
        if options::restricts(key, value) {
            return Err(refusal.of(&field, "the provider's tool cannot be restricted so"));
        }
        omitted.add(field, "the provider's tool has no such option");
    }
    Ok(())
}

/// Whether a type is another version of the tool with this name.
fn is_version_of(kind: &str, usual: &str) -> bool {
    let name = name_of(kind);
    let is_editor = |name: &str| name.starts_with("str_replace");
    let is_search = |name: &str| name.starts_with("tool_search_tool");
    let is_dated =
        kind.rsplit('_').next().is_some_and(|date| date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()));
    is_dated && (name == usual || is_editor(name) && is_editor(usual) || is_search(name) && is_search(usual))
}

fn begin(form: &mut Fields, kind: &str) {
    form.insert("type".into(), kind.into());
}

fn limits(form: &mut Fields, max_uses: Option<u64>, allowed: &[String], blocked: &[String]) {
    if let Some(max_uses) = max_uses {
        form.insert("max_uses".into(), max_uses.into());
    }
    for (key, domains) in [("allowed_domains", allowed), ("blocked_domains", blocked)] {
        if !domains.is_empty() {
            form.insert(key.into(), domains.into());
        }
    }
}

fn mcp_key(label: &str) -> String {
    format!("remote_mcp:{label}")
}

fn remote_mcp(
    mcp: &RemoteMcp,
    note: Option<&Fields>,
    refusal: &Refusal<'_>,
    omitted: &mut Omissions,
    offered: &mut Offered,
) -> Result<(), ProviderError> {
    if mcp.connector.is_some() {
        return Err(refusal.of("hosted.remote_mcp.connector", "the provider has no connectors"));
    }
    let Some(url) = &mcp.url else {
        return Err(refusal.of("hosted.remote_mcp.url", "it needs an address"));
    };
    if mcp.require_approval.as_ref().is_some_and(|approval| approval.as_str() != Some("never")) {
        return Err(refusal.of("hosted.remote_mcp.require_approval", "the provider asks nobody"));
    }
    if mcp.extra.contains_key("headers") {
        return Err(refusal.of("hosted.remote_mcp.headers", "only a token is taken"));
    }
    let mut server = Fields::new();
    server.insert("type".into(), "url".into());
    server.insert("url".into(), url.as_str().into());
    server.insert("name".into(), mcp.label.as_str().into());
    if let Some(token) = &mcp.authorization {
        server.insert("authorization_token".into(), token.as_str().into());
    }
    let is_legacy = note.is_some_and(|note| note.contains_key("legacy")) && mcp.denied_tools.is_empty();
    if is_legacy && !mcp.allowed_tools.is_empty() {
        let config = json!({"allowed_tools": mcp.allowed_tools, "enabled": true});
        server.insert("tool_configuration".into(), config);
    }
    if let Some(fields) = note.and_then(|note| note.get("server")?.as_object()) {
        server.extend(fields.clone());
    }
    offered.servers.push(server.into());
    if is_legacy {
        return Ok(());
    }
    let mut toolset = Fields::new();
    toolset.insert("type".into(), "mcp_toolset".into());
    toolset.insert("mcp_server_name".into(), mcp.label.as_str().into());
    let mut configs = Fields::new();
    if !mcp.allowed_tools.is_empty() {
        toolset.insert("default_config".into(), json!({"enabled": false}));
        configs.extend(mcp.allowed_tools.iter().map(|name| (name.clone(), json!({"enabled": true}))));
    }
    configs.extend(mcp.denied_tools.iter().map(|name| (name.clone(), json!({"enabled": false}))));
    if !configs.is_empty() {
        toolset.insert("configs".into(), configs.into());
    }
    options(&mut toolset, "remote_mcp", &mcp.extra, refusal, omitted)?;
    let mut toolset = Value::Object(toolset);
    if let Some(fields) = note.and_then(|note| note.get("toolset")) {
        // What was kept of a tool that is no longer allowed must not allow it again, so only other fields are kept.
        super::encode::lay_over(&mut toolset, fields);
    }
    offered.tools.push(toolset);
    Ok(())
}

/// The hosted tools among a client's, and what they have beyond our words, by kind.
pub(super) fn decode(tools: &[&Fields], servers: &[Value], provider: &ProviderId) -> (Vec<HostedTool>, Fields) {
    let mut hosted = Vec::with_capacity(tools.len());
    let mut kept = Fields::new();
    let mut seen: Vec<&str> = Vec::new();
    let mut used = vec![false; servers.len()];
    for tool in tools {
        let raw = || HostedTool::Raw(Native { provider: provider.clone(), value: Value::Object((*tool).clone()) });
        let kind = tool.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "mcp_toolset" {
            let label = tool.get("mcp_server_name").and_then(Value::as_str).unwrap_or_default();
            let place = servers.iter().position(|server| server.get("name").and_then(Value::as_str) == Some(label));
            let decoded = place.and_then(|place| toolset(tool, servers[place].as_object()?));
            match (place, decoded) {
                (Some(place), Some((mcp, note))) if !used[place] => {
                    used[place] = true;
                    if !note.is_empty() {
                        kept.insert(mcp_key(&mcp.label), note.into());
                    }
                    hosted.push(HostedTool::RemoteMcp(mcp));
                }
                _ => hosted.push(raw()),
            }
            continue;
        }
        let mut left = (*tool).clone();
        left.retain(|_, value| !value.is_null());
        let tool = match name_of(kind) {
            _ if seen.contains(&name_of(kind)) => None,
            "web_search" => Some((WEB_SEARCH, HostedTool::WebSearch(web_search(&mut left)))),
            "web_fetch" => Some((WEB_FETCH, HostedTool::WebFetch(web_fetch(&mut left)))),
            "code_execution" => Some((CODE_EXECUTION, HostedTool::CodeInterpreter(CodeInterpreter::default()))),
            // What the client runs is of its provider alone, however it is called elsewhere.
            "tool_search_tool_bm25" | "tool_search_tool_regex" => {
                Some((TOOL_SEARCH.0, HostedTool::ToolSearch(HostedOptions::default())))
            }
            _ => None,
        };
        let Some((usual, tool)) = tool else {
            hosted.push(raw());
            continue;
        };
        seen.push(name_of(kind));
        if left.get("name").and_then(Value::as_str) == Some(name_of(kind)) {
            left.remove("name");
        }
        if kind == usual {
            left.remove("type");
        }
        if !left.is_empty() {
            kept.insert(tool.kind().to_owned(), left.into());
        }
        hosted.push(tool);
    }
    let mut others = Vec::new();
    for (server, _) in servers.iter().zip(&used).filter(|(_, used)| !**used) {
        match server.as_object().and_then(legacy) {
            Some((mcp, note)) => {
                kept.insert(mcp_key(&mcp.label), note.into());
                hosted.push(HostedTool::RemoteMcp(mcp));
            }
            None => others.push(server.clone()),
        }
    }
    if !others.is_empty() {
        kept.insert("mcp_servers".into(), others.into());
    }
    (hosted, kept)
}

fn take_count(fields: &mut Fields, key: &str) -> Option<u64> {
    let count = fields.get(key)?.as_u64()?;
    fields.remove(key);
    Some(count)
}

fn take_list(fields: &mut Fields, key: &str) -> Vec<String> {
    let list = fields.get(key).and_then(texts).unwrap_or_default();
    if !list.is_empty() {
        fields.remove(key);
    }
    list
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

fn web_search(left: &mut Fields) -> WebSearch {
    WebSearch {
        max_uses: take_count(left, "max_uses"),
        allowed_domains: take_list(left, "allowed_domains"),
        blocked_domains: take_list(left, "blocked_domains"),
        user_location: left.remove("user_location"),
        ..WebSearch::default()
    }
}

fn web_fetch(left: &mut Fields) -> WebFetch {
    WebFetch {
        max_uses: take_count(left, "max_uses"),
        allowed_domains: take_list(left, "allowed_domains"),
        blocked_domains: take_list(left, "blocked_domains"),
        ..WebFetch::default()
    }
}

/// A server's own fields; those that have no name of ours are left in it.
fn server(left: &mut Fields) -> Option<RemoteMcp> {
    left.retain(|_, value| !value.is_null());
    let mut text = |key: &str| match left.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    if text("type").as_deref() != Some("url") {
        return None;
    }
    let (label, url, authorization) = (text("name")?, text("url"), text("authorization_token"));
    url.is_some().then(|| RemoteMcp { label, url, authorization, ..RemoteMcp::default() })
}

fn toolset(tool: &Fields, described: &Fields) -> Option<(RemoteMcp, Fields)> {
    let mut server_left = described.clone();
    let mut mcp = server(&mut server_left)?;
    let mut left = tool.clone();
    left.retain(|_, value| !value.is_null());
    left.remove("type");
    left.remove("mcp_server_name");
    let mut default_config = match left.remove("default_config") {
        Some(Value::Object(config)) => config,
        _ => Fields::new(),
    };
    let is_off = default_config.remove("enabled") == Some(Value::Bool(false));
    let configs = match left.remove("configs") {
        Some(Value::Object(configs)) => configs,
        _ => Fields::new(),
    };
    let mut configs_left = Fields::new();
    for (name, config) in configs {
        let Value::Object(mut config) = config else { return None };
        match (is_off, config.remove("enabled")) {
            (true, Some(Value::Bool(true))) => mcp.allowed_tools.push(name.clone()),
            (false, Some(Value::Bool(false))) => mcp.denied_tools.push(name.clone()),
            _ => {}
        }
        if !config.is_empty() {
            configs_left.insert(name, config.into());
        }
    }
    if is_off && mcp.allowed_tools.is_empty() {
        // No tool at all, for which there is no word: an empty list means every one.
        return None;
    }
    if !default_config.is_empty() {
        left.insert("default_config".into(), default_config.into());
    }
    if !configs_left.is_empty() {
        left.insert("configs".into(), configs_left.into());
    }
    let mut note = Fields::new();
    if !server_left.is_empty() {
        note.insert("server".into(), server_left.into());
    }
    if !left.is_empty() {
        note.insert("toolset".into(), left.into());
    }
    Some((mcp, note))
}

/// A server without a toolset, as an older version of the protocol has it.
fn legacy(described: &Fields) -> Option<(RemoteMcp, Fields)> {
    let mut left = described.clone();
    let mut mcp = server(&mut left)?;
    if let Some(config) = left.remove("tool_configuration") {
        let config = config.as_object()?;
        let is_plain = config.keys().all(|key| key == "allowed_tools" || key == "enabled");
        if !is_plain || config.get("enabled").is_some_and(|enabled| *enabled != Value::Bool(true)) {
            return None;
        }
        if let Some(allowed) = config.get("allowed_tools").filter(|allowed| !allowed.is_null()) {
            mcp.allowed_tools = texts(allowed).filter(|allowed| !allowed.is_empty())?;
        }
    }
    let mut note = Fields::new();
    note.insert("legacy".into(), true.into());
    if !left.is_empty() {
        note.insert("server".into(), left.into());
    }
    Some((mcp, note))
}
