//! Messages and tools in which nothing stands but what has a name of ours, as nearly all of them are. They are taken from the body
//! without a tree of their own. Anything else is for the readers of [`super::history`] and [`super::request`], and what both read they
//! read alike.

use super::request::Reader;
use crate::json::{Fields, Node};
use crate::tools::client_tool;
use placet_core::part::Text;
use placet_core::{Arguments, CallId, Message, Origin, Part, Role, SharedText, ToolCall, ToolName};
use std::sync::Arc;

/// A call of which everything has a name of ours.
struct PlainCall<'n> {
    id: &'n str,
    name: &'n str,
    arguments: SharedText,
}

/// The text at `key`, which must not be empty.
fn word<'n>(fields: &'n Fields<'_>, key: &str) -> Option<&'n str> {
    fields.text(key).filter(|text| !text.is_empty())
}

/// Content of texts alone; `None` where it is any other.
fn parts(content: Option<&Node<'_>>) -> Option<Vec<Part>> {
    let text = |node: &Node<'_>| Some(Part::Text(Text { text: node.shared()?, cache: None, native: None }));
    match content {
        None | Some(Node::Null) => Some(Vec::new()),
        Some(Node::List(list)) => list
            .iter()
            .map(|part| {
                let part = part.as_fields().filter(|part| part.are_among(&["type", "text"]))?;
                text(part.get("text").filter(|_| part.text("type") == Some("text"))?)
            })
            .collect(),
        Some(node) => {
            let text = node.shared()?;
            Some(if text.is_empty() { Vec::new() } else { vec![Part::Text(Text { text, cache: None, native: None })] })
        }
    }
}

fn call<'n>(call: &'n Node<'_>) -> Option<PlainCall<'n>> {
    let fields = call.as_fields().filter(|call| call.are_among(&["id", "type", "index", "function"]))?;
    let function = fields.get("function")?.as_fields().filter(|inner| inner.are_among(&["name", "arguments"]))?;
    let arguments = function.get("arguments")?.shared()?;
    Some(PlainCall { id: word(fields, "id")?, name: word(function, "name")?, arguments })
}

impl Reader<'_> {
    /// Takes a message; whether it could.
    pub(super) fn plain_message(&mut self, message: &Node<'_>, place: usize) -> bool {
        message.as_fields().and_then(|fields| self.plain(fields, place)).is_some()
    }

    fn plain(&mut self, message: &Fields<'_>, place: usize) -> Option<()> {
        let is_among = |known: &[&str]| message.are_among(known).then_some(());
        let role = message.text("role")?;
        match role {
            "system" | "developer" | "user" => {
                is_among(&["role", "content"])?;
                let parts = parts(message.get("content"))?;
                let (role, origin) =
                    if role == "user" { (Role::User, Origin::User) } else { (Role::System, Origin::Operator) };
                if let (Role::System, [Part::Text(text)], 0) = (&role, &*parts, place) {
                    self.request.instructions = Some(text.text.clone());
                } else {
                    self.push(origin, Message { role, parts, native: None });
                }
            }
            "assistant" => {
                is_among(&["role", "content", "tool_calls"])?;
                let parts = parts(message.get("content"))?;
                let calls = match message.given("tool_calls") {
                    Some(calls) => calls.as_list()?.iter().map(call).collect::<Option<Vec<_>>>()?,
                    None => Vec::new(),
                };
                self.plain_said(parts, calls);
            }
            "tool" => {
                is_among(&["role", "content", "tool_call_id"])?;
                let wire_id = message.text("tool_call_id")?;
                let parts = parts(message.get("content"))?;
                self.result(wire_id, false, parts, None);
            }
            _ => return None,
        }
        Some(())
    }

    fn plain_said(&mut self, parts: Vec<Part>, calls: Vec<PlainCall<'_>>) {
        let calls: Vec<ToolCall> = calls
            .into_iter()
            .map(|PlainCall { id: wire_id, name, arguments }| {
                let (id, name): (CallId, _) = (self.env.new_id(), ToolName::new(name));
                self.calls.note(Some(wire_id), id.clone(), name.clone());
                let (provider_id, arguments) = (Some(wire_id.to_owned()), Arguments::from_text(arguments));
                ToolCall { id, provider_id, name, arguments, native: None }
            })
            .collect();
        if !parts.is_empty() || calls.is_empty() {
            self.push(Origin::Model, Message { role: Role::Assistant, parts, native: None });
        }
        for call in calls {
            self.push(Origin::Model, call);
        }
    }

    /// Takes a tool; whether it could.
    pub(super) fn plain_tool(&mut self, tool: &Node<'_>) -> bool {
        let read = || {
            let fields = tool.as_fields().filter(|tool| tool.are_among(&["type", "function"]))?;
            fields.text("type").filter(|kind| *kind == "function")?;
            let known = ["name", "description", "parameters", "strict"];
            let function = fields.get("function")?.as_fields().filter(|inner| inner.are_among(&known))?;
            let schema = function.get("parameters").filter(|schema| schema.is_object())?;
            client_tool(function, schema).map(Arc::new)
        };
        let read = read();
        let is_read = read.is_some();
        self.request.tools.extend(read);
        is_read
    }
}
