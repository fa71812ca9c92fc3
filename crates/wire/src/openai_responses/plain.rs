//! Items and tools in which nothing stands but what has a name of ours, as nearly all of them are. They are taken from the body without
//! a tree of their own. Anything else is for the readers of [`super::request`] and [`super::tools`], and what both read they read alike:
//! calls and results are put down here for both.

use super::request::Items;
use super::tools::{ADDITIONAL, ClientTools, Tools, strict_unsaid};
use crate::json::{Fields, Node};
use crate::tools::client_tool;
use placet_core::part::{Native, Text};
use placet_core::{
    Arguments, CallId, Item, ItemId, Message, Origin, Outcome, Part, Role, Stage, Status, ToolCall, ToolName,
    ToolResult,
};
use std::collections::VecDeque;

/// The text at `key`; an empty one is taken for an absent one.
fn word<'n>(fields: &'n Fields<'_>, key: &str) -> Option<&'n str> {
    fields.text(key).filter(|text| !text.is_empty())
}

fn text(node: &Node<'_>) -> Option<Part> {
    Some(Part::Text(Text { text: node.shared()?, cache: None, native: None }))
}

/// Content of texts alone; `None` where it is any other.
fn parts(content: Option<&Node<'_>>) -> Option<Vec<Part>> {
    let part = |node: &Node<'_>| {
        let fields = node.as_fields()?;
        let is_known = |(key, value): (&str, &Node<'_>)| {
            matches!(key, "type" | "text") || *value == Node::Null || value.as_list().is_some_and(<[_]>::is_empty)
        };
        let is_text = matches!(fields.text("type")?, "input_text" | "output_text" | "text");
        text(fields.get("text").filter(|_| is_text && fields.iter().all(is_known))?)
    };
    match content {
        None | Some(Node::Null) => Some(Vec::new()),
        Some(Node::List(list)) => list.iter().map(part).collect(),
        Some(content) => Some(vec![text(content)?]),
    }
}

/// The tools that a client calls otherwise than we do, in a whole body: those of namespaces and custom ones.
pub(super) fn declared(body: &Node<'_>) -> ClientTools {
    let kinds = |key: &str| {
        let list = body.as_fields().and_then(|fields| fields.get(key)?.as_list());
        list.into_iter().flatten().filter_map(|entry| entry.as_fields()?.text("type"))
    };
    let is_there = kinds("tools").any(|kind| matches!(kind, "custom" | "namespace"))
        || kinds("input").any(|kind| matches!(kind, ADDITIONAL | "tool_search_output"));
    if is_there { ClientTools::of(Some(&body.to_value())) } else { ClientTools::default() }
}

impl Items<'_> {
    /// Takes an item; whether it could.
    pub(super) fn plain(&mut self, item: &Node<'_>) -> bool {
        item.as_fields().and_then(|fields| self.plain_item(fields)).is_some()
    }

    fn plain_item(&mut self, item: &Fields<'_>) -> Option<()> {
        let is_among = |known: &[&str]| item.are_among(known).then_some(());
        match word(item, "type") {
            None | Some("message") => {
                is_among(&["type", "role", "content", "status"])?;
                let (role, origin) = match item.text("role")? {
                    "user" => (Role::User, Origin::User),
                    "assistant" => (Role::Assistant, Origin::Model),
                    "system" | "developer" => (Role::System, Origin::Operator),
                    _ => return None,
                };
                let parts = parts(item.get("content"))?;
                self.push(origin, Message { role, parts, native: None });
            }
            Some("function_call") => {
                is_among(&["type", "call_id", "name", "arguments", "status"])?;
                let (wire_id, name) = (word(item, "call_id")?, word(item, "name")?);
                let arguments = Arguments::from_text(item.get("arguments")?.shared()?);
                // Those that the client declared in a way of its own are looked up.
                self.declared.is_empty().then_some(())?;
                self.called(Some(wire_id.to_owned()), ToolName::new(name), arguments, None);
            }
            Some("function_call_output") => {
                is_among(&["type", "call_id", "output", "status"])?;
                let wire_id = word(item, "call_id")?;
                let content = parts(item.get("output"))?;
                let found = self.waiting(wire_id);
                self.answered(wire_id, wire_id, found, content, None);
            }
            _ => return None,
        }
        Some(())
    }

    /// A call that goes by this id.
    pub(super) fn called(
        &mut self,
        wire_id: Option<String>,
        name: ToolName,
        arguments: Arguments,
        native: Option<Native>,
    ) {
        let id: CallId = self.env.new_id();
        if let Some(wire_id) = &wire_id {
            self.open.entry(wire_id.clone()).or_default().push_back((id.clone(), name.clone()));
        }
        self.push(Origin::Model, ToolCall { id, provider_id: wire_id, name, arguments, native });
    }

    /// The call that waits for a result of this id.
    pub(super) fn waiting(&mut self, wire_id: &str) -> Option<(CallId, ToolName)> {
        self.open.get_mut(wire_id).and_then(VecDeque::pop_front)
    }

    /// The result of a call, or of none: then its tool goes by the name.
    pub(super) fn answered(
        &mut self,
        wire_id: &str,
        name: &str,
        found: Option<(CallId, ToolName)>,
        content: Vec<Part>,
        native: Option<Native>,
    ) {
        let (call, tool) = found.unwrap_or_else(|| (self.env.new_id(), ToolName::new(name)));
        let mut outcome = Outcome::new(Status::Completed, Stage::Execute, None, "");
        outcome.content = content;
        let origin = Origin::Tool(tool.as_str().to_owned());
        let result = ToolResult {
            call: call.clone(),
            provider_id: Some(wire_id.to_owned()).filter(|id| !id.is_empty()),
            tool,
            capability: None,
            outcome,
            native,
        };
        self.items.push(Item::new(ItemId::of_result(&call), origin, result));
    }
}

impl Tools {
    /// Takes a tool of the request; whether it could.
    pub(super) fn plain(&mut self, tool: &Node<'_>) -> bool {
        let read = || {
            let known = ["type", "name", "description", "parameters", "strict"];
            let fields = tool.as_fields().filter(|tool| tool.are_among(&known))?;
            fields.text("type").filter(|kind| *kind == "function")?;
            client_tool(fields, fields.get("parameters").filter(|schema| schema.is_object())?)
        };
        let read = read();
        let is_read = read.is_some();
        if let Some(mut tool) = read {
            tool.strict = tool.strict.or_else(|| strict_unsaid(&tool));
            self.push(tool);
        }
        is_read
    }
}
