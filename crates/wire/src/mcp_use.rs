//! What a conversation tells of the MCP servers that a provider itself talked to.

use placet_core::hosted::McpUse;
use placet_core::item::HostedCall;
use placet_core::{Item, ItemBody};
use serde_json::Value;
use std::collections::HashMap;

/// What became of each MCP server that the provider talked to, in the order in which they were first used.
#[must_use]
pub fn mcp_uses<'i>(items: impl IntoIterator<Item = &'i Item>) -> Vec<McpUse> {
    let mut uses = Uses::default();
    for item in items {
        match &item.body {
            ItemBody::HostedCall(call) => uses.call(call),
            // A listing that has no place among the calls of its protocol.
            ItemBody::Native(native) if word(&native.value, "type") == Some("mcp_tool_listing") => {
                uses.listed(&native.value);
            }
            _ => {}
        }
    }
    uses.servers
}

#[derive(Default)]
struct Uses {
    servers: Vec<McpUse>,
    /// The server of each call whose result comes by itself.
    asked: HashMap<String, usize>,
}

impl Uses {
    fn server(&mut self, value: &Value) -> &mut McpUse {
        let at = self.place(value);
        &mut self.servers[at]
    }

    /// The place of the server that an item names.
    fn place(&mut self, value: &Value) -> usize {
        let name = ["server_label", "server_name", "mcp_server_name"].iter().find_map(|key| word(value, key));
        let name = name.unwrap_or_default();
        self.servers.iter().position(|server| server.server == name).unwrap_or_else(|| {
            self.servers.push(McpUse { server: name.to_owned(), ..McpUse::default() });
            self.servers.len() - 1
        })
    }

    fn listed(&mut self, value: &Value) {
        let server = self.server(value);
        server.listings += 1;
        let tools = value.get("tools").and_then(Value::as_array).into_iter().flatten();
        for name in tools.filter_map(|tool| word(tool, "name").or_else(|| tool.as_str())) {
            if !server.tools.iter().any(|known| known == name) {
                server.tools.push(name.to_owned());
            }
        }
    }

    fn call(&mut self, call: &HostedCall) {
        let value = &call.value;
        match call.kind.as_str() {
            "mcp_list_tools" => self.listed(value),
            "mcp_approval_request" => self.server(value).approvals += 1,
            "mcp_call" => {
                let server = self.server(value);
                server.calls += 1;
                let is_failed = value.get("error").is_some_and(|error| !error.is_null());
                server.failures += u64::from(is_failed || word(value, "status") == Some("failed"));
            }
            "mcp_tool_use" => {
                let at = self.place(value);
                self.servers[at].calls += 1;
                if let Some(id) = word(value, "id") {
                    self.asked.insert(id.to_owned(), at);
                }
            }
            "mcp_tool_result" => {
                let asked = word(value, "tool_use_id").and_then(|id| self.asked.get(id).copied());
                if let Some(server) = asked.and_then(|at| self.servers.get_mut(at)) {
                    server.failures += u64::from(value.get("is_error").and_then(Value::as_bool).unwrap_or(false));
                }
            }
            _ => {}
        }
    }
}

fn word<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use crate::names::Names;
    use crate::protocol::Protocol;
    use placet_core::env::ManualClock;
    use placet_core::{Accumulator, Env, Timestamp};
    use serde_json::json;

    fn read(protocol: Protocol, body: &Value) -> Vec<McpUse> {
        let provider = protocol.as_str().into();
        let events = protocol.decode_response(&provider, Names::default(), body.to_string().as_bytes()).unwrap();
        let mut fold = Accumulator::new();
        events.iter().for_each(|event| fold.push(event));
        let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(0)), 0);
        let turn = fold.finish(&provider, &env).unwrap();
        mcp_uses(turn.items.iter().map(|item| &**item))
    }

    #[test]
    fn each_server_is_told_with_what_became_of_it() {
        let call = |server: &str, error: Value| {
            json!({"type": "mcp_call", "id": "mcp_1", "server_label": server, "name": "find", "arguments": "{}",
                "output": null, "error": error})
        };
        let found = read(
            Protocol::OpenaiResponses,
            &json!({"id": "r", "object": "response", "status": "completed", "model": "m", "output": [
                {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "crm",
                    "tools": [{"name": "find", "input_schema": {}}, {"name": "add", "input_schema": {}}]},
                call("crm", Value::Null), call("crm", json!("it broke")),
                {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "mail", "name": "send", "arguments": "{}"},
            ]}),
        );
        let crm = McpUse {
            server: "crm".into(),
            listings: 1,
            tools: vec!["find".into(), "add".into()],
            calls: 2,
            failures: 1,
            approvals: 0,
        };
        assert_eq!(found, [crm, McpUse { server: "mail".into(), approvals: 1, ..McpUse::default() }]);
        let found = read(
            Protocol::AnthropicMessages,
            &json!({"id": "msg", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1}, "content": [
                {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "find", "server_name": "crm", "input": {}},
                {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": true, "content": []},
                {"type": "mcp_tool_use", "id": "mcptoolu_2", "name": "find", "server_name": "crm", "input": {}},
                {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_2", "is_error": false, "content": []},
                {"type": "text", "text": "Found."}]}),
        );
        assert_eq!(found, [McpUse { server: "crm".into(), calls: 2, failures: 1, ..McpUse::default() }]);
    }
}
