//! Tools that the provider runs, both ways.

use super::encode::Encoder;
use super::parts::{camel, native, take, take_object, take_text};
use crate::options::{self, Words};
use placet_core::hosted::{CodeInterpreter, ComputerUse, FileSearch, HostedOptions, HostedTool, RemoteMcp, WebSearch};
use placet_core::{ErrorKind, ProviderError, ProviderId};
use serde_json::{Map, Value, json};

const ENVIRONMENTS: [(&str, &str); 3] =
    [("browser", "ENVIRONMENT_BROWSER"), ("mobile", "ENVIRONMENT_MOBILE"), ("desktop", "ENVIRONMENT_DESKTOP")];

/// Appends the forms of the provider's tools, in their order; neighbouring MCP servers are one form.
pub(super) fn encode(
    encoder: &mut Encoder<'_>,
    tools: &[HostedTool],
    forms: &mut Vec<Value>,
) -> Result<(), ProviderError> {
    for tool in tools {
        let refused = |field: &str| {
            let message = format!("it cannot take `{field}`: the provider's tool cannot be restricted so");
            ProviderError::new(ErrorKind::Unsupported, encoder.dialect.provider.clone(), message)
        };
        let tool = options::without_foreign(tool, Words::Google, &mut encoder.omitted, refused)?;
        let (key, form) = match &*tool {
            HostedTool::WebSearch(search) => ("googleSearch", web_search(encoder, search)?),
            HostedTool::UrlContext(options) => ("urlContext", options.extra.clone()),
            HostedTool::FileSearch(search) => ("fileSearch", file_search(encoder, search)?),
            HostedTool::CodeInterpreter(code) => ("codeExecution", code_execution(encoder, code)?),
            HostedTool::ComputerUse(computer) => ("computerUse", computer_use(encoder, computer)?),
            HostedTool::RemoteMcp(server) => {
                let form = mcp_server(encoder, server)?;
                let last = forms.last_mut().and_then(|last| last.get_mut("mcpServers")).and_then(Value::as_array_mut);
                match last {
                    Some(servers) => servers.push(form),
                    None => forms.push(json!({"mcpServers": [form]})),
                }
                continue;
            }
            HostedTool::Raw(raw) if raw.provider == encoder.dialect.provider => {
                forms.push(raw.value.clone());
                continue;
            }
            HostedTool::Raw(raw) => {
                return Err(encoder.unsupported("hosted.raw", format!("it is a tool of `{}`", raw.provider)));
            }
            other => {
                let field = format!("hosted.{}", other.kind());
                return Err(encoder.unsupported(&field, "the provider has no such tool"));
            }
        };
        forms.push(Value::Object(Map::from_iter([(key.to_owned(), Value::Object(form))])));
    }
    Ok(())
}

fn with(mut form: Map<String, Value>, extra: &Map<String, Value>) -> Map<String, Value> {
    form.extend(extra.iter().map(|(key, value)| (key.clone(), value.clone())));
    form
}

fn web_search(encoder: &mut Encoder<'_>, search: &WebSearch) -> Result<Map<String, Value>, ProviderError> {
    let mut form = Map::new();
    if search.max_uses.is_some() {
        return Err(encoder.unsupported("hosted.web_search.max_uses", "it searches as often as it likes"));
    }
    if !search.allowed_domains.is_empty() {
        return Err(encoder.unsupported("hosted.web_search.allowed_domains", "it can only be told what to leave out"));
    }
    if !search.blocked_domains.is_empty() {
        if !encoder.dialect.exclude_domains {
            return Err(encoder.unsupported("hosted.web_search.blocked_domains", "its search cannot leave out domains"));
        }
        form.insert("excludeDomains".to_owned(), json!(search.blocked_domains));
    }
    if search.context_size.is_some() {
        encoder.omitted.add("hosted.web_search.context_size", "the server decides how much it reads");
    }
    if search.user_location.is_some() {
        encoder.omitted.add("hosted.web_search.user_location", "the server does not take it");
    }
    Ok(with(form, &search.extra))
}

fn file_search(encoder: &mut Encoder<'_>, search: &FileSearch) -> Result<Map<String, Value>, ProviderError> {
    let mut form = Map::new();
    form.insert("fileSearchStoreNames".to_owned(), json!(search.stores));
    if let Some(most) = search.max_results {
        form.insert("topK".to_owned(), most.into());
    }
    match &search.filters {
        Some(Value::String(filter)) => drop(form.insert("metadataFilter".to_owned(), filter.as_str().into())),
        Some(_) => {
            let why = "its filters are texts in a language of its own";
            return Err(encoder.unsupported("hosted.file_search.filters", why));
        }
        None => {}
    }
    Ok(with(form, &search.extra))
}

fn code_execution(encoder: &mut Encoder<'_>, code: &CodeInterpreter) -> Result<Map<String, Value>, ProviderError> {
    if code.container.is_some() {
        return Err(encoder.unsupported("hosted.code_interpreter.container", "every answer has a sandbox of its own"));
    }
    if !code.files.is_empty() {
        let why = "its sandbox holds what stands in the conversation";
        return Err(encoder.unsupported("hosted.code_interpreter.files", why));
    }
    Ok(code.extra.clone())
}

fn computer_use(encoder: &mut Encoder<'_>, computer: &ComputerUse) -> Result<Map<String, Value>, ProviderError> {
    let mut form = Map::new();
    if let Some(environment) = &computer.environment {
        let Some((_, word)) = ENVIRONMENTS.iter().find(|(word, _)| word == environment) else {
            let why = format!("it knows no environment `{environment}`");
            return Err(encoder.unsupported("hosted.computer_use", why));
        };
        form.insert("environment".to_owned(), Value::from(*word));
    }
    if computer.width.is_some() || computer.height.is_some() {
        encoder.omitted.add("hosted.computer_use.size", "its coordinates are shares of the screen, whatever the size");
    }
    Ok(with(form, &computer.extra))
}

fn mcp_server(encoder: &mut Encoder<'_>, server: &RemoteMcp) -> Result<Value, ProviderError> {
    if server.connector.is_some() {
        return Err(encoder.unsupported("hosted.remote_mcp.connector", "the provider has no connectors"));
    }
    let Some(url) = server.url.as_ref().filter(|_| encoder.dialect.mcp_servers) else {
        return Err(encoder.unsupported("hosted.remote_mcp.url", "it talks to MCP servers by their URL, or not at all"));
    };
    for (field, is_set) in [
        ("hosted.remote_mcp.allowed_tools", !server.allowed_tools.is_empty()),
        ("hosted.remote_mcp.denied_tools", !server.denied_tools.is_empty()),
        ("hosted.remote_mcp.require_approval", server.require_approval.is_some()),
    ] {
        if is_set {
            return Err(encoder.unsupported(field, "it uses all tools of a server, and asks nobody"));
        }
    }
    let mut transport = Map::new();
    transport.insert("url".to_owned(), url.as_str().into());
    let mut extra = server.extra.clone();
    if let Some(Value::Object(more)) = extra.shift_remove("streamableHttpTransport") {
        transport.extend(more);
    }
    if let Some(token) = &server.authorization {
        let headers = transport.entry("headers").or_insert_with(|| json!({}));
        if let Value::Object(headers) = headers {
            headers.insert("Authorization".to_owned(), format!("Bearer {token}").into());
        }
    }
    let mut form = Map::new();
    form.insert("name".to_owned(), server.label.as_str().into());
    form.insert("streamableHttpTransport".to_owned(), Value::Object(transport));
    Ok(Value::Object(with(form, &extra)))
}

/// The provider's tools of one entry of `tools`, whose function declarations have been taken out.
pub(crate) fn decode(entry: Map<String, Value>, provider: &ProviderId, tools: &mut Vec<HostedTool>) {
    for (key, value) in entry {
        if value.is_null() {
            continue;
        }
        let raw = |key: String, value: Value| native(Map::from_iter([(key, value)]), provider).map(HostedTool::Raw);
        let Value::Object(mut options) = value else {
            match (&*camel(&key), value) {
                ("mcpServers", Value::Array(servers)) => {
                    for server in servers {
                        match server {
                            Value::Object(server) => tools.push(HostedTool::RemoteMcp(decode_mcp(server))),
                            other => tools.extend(raw(key.clone(), Value::Array(vec![other]))),
                        }
                    }
                }
                (_, value) => tools.extend(raw(key, value)),
            }
            continue;
        };
        options.retain(|_, value| !value.is_null());
        let is_newer = options.keys().any(|key| !options::is_known(Words::Google, key));
        if matches!(&*camel(&key), "googleSearch" | "codeExecution") && is_newer {
            tools.extend(raw(key, Value::Object(options)));
            continue;
        }
        let tool = match &*camel(&key) {
            "googleSearch" => HostedTool::WebSearch(WebSearch {
                blocked_domains: take_words(&mut options, "excludeDomains"),
                extra: options,
                ..WebSearch::default()
            }),
            "urlContext" => HostedTool::UrlContext(HostedOptions { extra: options }),
            "codeExecution" => {
                HostedTool::CodeInterpreter(CodeInterpreter { extra: options, ..CodeInterpreter::default() })
            }
            // What the client runs, and what works on things that the provider holds, is of one provider alone.
            _ => {
                tools.extend(raw(key, Value::Object(options)));
                continue;
            }
        };
        tools.push(tool);
    }
}

fn decode_mcp(mut server: Map<String, Value>) -> RemoteMcp {
    server.retain(|_, value| !value.is_null());
    let label = take_text(&mut server, "name").unwrap_or_default();
    let mut mcp = RemoteMcp { label, ..RemoteMcp::default() };
    if let Some(mut transport) = take_object(&mut server, "streamableHttpTransport") {
        mcp.url = take_text(&mut transport, "url");
        if let Some(Value::Object(headers)) = transport.get_mut("headers") {
            let name = headers.keys().find(|name| name.eq_ignore_ascii_case("authorization")).cloned();
            let token = name.as_ref().and_then(|name| headers.get(name)?.as_str()?.strip_prefix("Bearer "));
            mcp.authorization = token.map(str::to_owned);
            if let (Some(name), true) = (name, mcp.authorization.is_some()) {
                headers.shift_remove(&name);
            }
            if headers.is_empty() {
                transport.shift_remove("headers");
            }
        }
        if !transport.is_empty() {
            server.insert("streamableHttpTransport".to_owned(), Value::Object(transport));
        }
    }
    mcp.extra = server;
    mcp
}

/// Takes a list of texts out of an object; anything else stays.
pub(super) fn take_words(map: &mut Map<String, Value>, key: &str) -> Vec<String> {
    match take(map, key) {
        Some(Value::Array(list)) if list.iter().all(Value::is_string) => {
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(other) => {
            map.insert(key.to_owned(), other);
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// Takes a whole number out of an object, also where it is a text; anything else stays.
pub(super) fn take_count(map: &mut Map<String, Value>, key: &str) -> Option<u64> {
    let value = take(map, key)?;
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "just checked")]
    let number =
        number.or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..9.0e15).contains(n)).map(|n| n as u64));
    if number.is_none() {
        map.insert(key.to_owned(), value);
    }
    number
}
