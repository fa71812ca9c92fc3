//! Which beta features a request makes use of: a server refuses the fields of one whose name is not in the header.

use placet_core::hosted::HostedTool;
use placet_core::part::{CacheMark, MediaSource, Native};
use placet_core::{ItemBody, Part, TurnRequest};
use serde_json::Value;

/// Fields at the top of a body, and the feature that they belong to.
const OF_FIELDS: [(&str, &str); 9] = [
    ("context_management", "context-management-2025-06-27"),
    ("compaction", "compact-2026-09-04"),
    ("fallbacks", "server-side-fallback-2026-07-01"),
    ("fallback_credit_token", "fallback-credit-2026-07-01"),
    ("thread", "message-threads-2026-08-12"),
    ("diagnostics", "cache-diagnosis-2026-04-07"),
    ("billing_policy", "user-profiles-billing-2026-10-01"),
    ("speed", "fast-mode-2026-02-01"),
    ("output_format", "structured-outputs-2025-11-13"),
];

/// Types of tools that are not taken without more ado.
const OF_TOOLS: [(&str, &str); 8] = [
    ("computer_20241022", "computer-use-2024-10-22"),
    ("computer_20250124", "computer-use-2025-01-24"),
    ("computer_20251124", "computer-use-2025-11-24"),
    ("code_execution_20250522", "code-execution-2025-05-22"),
    ("memory_20250818", "context-management-2025-06-27"),
    ("advisor_20260301", "advisor-tool-2026-03-01"),
    ("mcp_toolset", MCP),
    ("browser_toolset_20260801", "computer-use-2025-11-24"),
];

const MCP: &str = "mcp-client-2025-11-20";
const MCP_LEGACY: &str = "mcp-client-2025-04-04";
const FILES: &str = "files-api-2025-04-14";

/// The names that the header `anthropic-beta` has to hold for this request, each once. A client's own come on top of them.
#[must_use]
pub fn beta_headers(request: &TurnRequest) -> Vec<&'static str> {
    let mut found = Found(Vec::new());
    let native = request.native.as_ref().and_then(|native| native.value.as_object());
    for fields in [native, Some(&request.extra)].into_iter().flatten() {
        for (field, beta) in OF_FIELDS {
            let value = fields.get(field);
            if value.is_some_and(|value| field != "speed" || value == "fast") {
                found.add(beta);
            }
        }
        if let Some(management) = fields.get("context_management") {
            found.edits(management);
        }
        let within = |outer: &str, inner: &str| fields.get(outer).and_then(|value| value.get(inner));
        if within("thinking", "block_binding").is_some() {
            found.add("thinking-binding-controls-2026-08-01");
        }
        if within("thinking", "display").and_then(Value::as_str) == Some("updates") {
            found.add("thinking-display-updates-2026-08-18");
        }
        if within("output_config", "task_budget").is_some() {
            found.add("task-budgets-2026-03-13");
        }
        if within("container", "skills").is_some() {
            found.add("skills-2025-10-02");
        }
        if fields.contains_key("mcp_servers") {
            found.add(MCP);
        }
    }
    let controls = &request.controls;
    if controls.compaction.as_ref().is_some_and(|compaction| compaction.strategy.as_deref() != Some("disabled")) {
        found.add("compact-2026-01-12");
    }
    if controls.cache.as_ref().is_some_and(|cache| cache.ttl.as_deref() == Some("1h")) {
        found.add(LONG_CACHE);
    }
    let kept = native.and_then(|native| native.get("tools")?.as_object());
    for tool in &request.hosted {
        let kept = |key: &str| kept.and_then(|kept| kept.get(key));
        let own_type = kept(tool.kind()).and_then(|fields| fields.get("type")?.as_str());
        match tool {
            HostedTool::RemoteMcp(mcp) => {
                let note = kept(&format!("remote_mcp:{}", mcp.label));
                found.add(if note.is_some_and(|note| note.get("legacy").is_some()) { MCP_LEGACY } else { MCP });
            }
            HostedTool::ComputerUse(_) => found.tool(own_type.unwrap_or(super::hosted::COMPUTER)),
            HostedTool::Memory(_) => found.tool(own_type.unwrap_or("memory_20250818")),
            HostedTool::CodeInterpreter(_) => found.tool(own_type.unwrap_or(super::hosted::CODE_EXECUTION)),
            HostedTool::Raw(native) => found.tool(native.value.get("type").and_then(Value::as_str).unwrap_or_default()),
            _ => {}
        }
    }
    for tool in &request.tools {
        found.mark(tool.cache.as_ref());
    }
    for item in &request.items {
        match &item.body {
            ItemBody::Message(message) => {
                found.message(message.native.as_ref());
                message.parts.iter().for_each(|part| found.part(part));
            }
            ItemBody::ToolResult(result) => {
                result.outcome.content.iter().for_each(|part| found.part(part));
                found.long_lived(result.native.as_ref());
            }
            ItemBody::ToolCall(call) => found.long_lived(call.native.as_ref()),
            _ => {}
        }
    }
    found.0
}

const LONG_CACHE: &str = "extended-cache-ttl-2025-04-11";

struct Found(Vec<&'static str>);

impl Found {
    fn add(&mut self, beta: &'static str) {
        if !self.0.contains(&beta) {
            self.0.push(beta);
        }
    }

    fn tool(&mut self, kind: &str) {
        if let Some((_, beta)) = OF_TOOLS.iter().find(|(name, _)| *name == kind) {
            self.add(beta);
        }
    }

    fn edits(&mut self, management: &Value) {
        let edits = management.get("edits").and_then(Value::as_array).into_iter().flatten();
        for edit in edits {
            if edit.get("type").and_then(Value::as_str).is_some_and(|kind| kind.starts_with("compact_")) {
                self.add("compact-2026-01-12");
            }
        }
    }

    fn mark(&mut self, mark: Option<&CacheMark>) {
        if mark.is_some_and(|mark| mark.ttl.as_deref() == Some("1h")) {
            self.add(LONG_CACHE);
        }
    }

    fn long_lived(&mut self, native: Option<&Native>) {
        let ttl = native.and_then(|native| native.value.get("cache_control")?.get("ttl")?.as_str());
        if ttl == Some("1h") {
            self.add(LONG_CACHE);
        }
    }

    fn message(&mut self, native: Option<&Native>) {
        let Some(native) = native else { return };
        if native.value.get("output_config").is_some() {
            self.add("mid-conversation-output-config-2026-07-01");
        }
        if native.value.get("clear_at").is_some() {
            self.add("mid-conversation-system-clear-at-2026-08-21");
        }
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Text(text) => self.mark(text.cache.as_ref()),
            Part::Image(media) | Part::File(media) => {
                self.mark(media.cache.as_ref());
                if matches!(media.source, MediaSource::ProviderFile(_)) {
                    self.add(FILES);
                }
            }
            Part::Native(native) => match native.value.get("type").and_then(Value::as_str) {
                Some("container_upload") => self.add(FILES),
                Some("tool_addition" | "tool_removal") => self.add("mid-conversation-tool-changes-2026-07-01"),
                _ => {}
            },
            _ => {}
        }
    }
}
