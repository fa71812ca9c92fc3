//! Messages and tools in which nothing stands but what has a name of ours, as nearly all of them are. They are taken from the body
//! without a tree of their own. Anything else is for the readers of [`super::request`], and what both read they read alike.

use super::request::Reader;
use crate::json::{self, Fields, Node};
use crate::schema::fits_strict;
use crate::shown::may_be_shown;
use crate::tools::client_tool;
use placet_core::part::Text;
use placet_core::{Message, Origin, Part, Role, SharedText};
use std::sync::Arc;

/// A block of which everything has a name of ours.
enum Plain<'n> {
    Text(SharedText),
    Call { id: &'n str, name: &'n str, arguments: String },
    Result { id: &'n str, content: Vec<Part>, has_failed: bool },
}

fn part(text: SharedText) -> Part {
    Part::Text(Text { text, cache: None, native: None })
}

fn text_block(block: &Fields<'_>) -> Option<SharedText> {
    block.get("text").filter(|_| block.are_among(&["type", "text"]))?.shared()
}

fn block<'n>(block: &'n Node<'_>) -> Option<Plain<'n>> {
    let fields = block.as_fields()?;
    Some(match fields.text("type")? {
        "text" => Plain::Text(text_block(fields)?),
        "tool_use" => {
            let (id, name) = (fields.text("id")?, fields.text("name")?);
            let known = fields.are_among(&["type", "id", "name", "input"]);
            let input = fields.get("input").filter(|input| known && input.as_fields().is_some())?;
            Plain::Call { id, name, arguments: String::from_utf8(json::to_vec(input).ok()?).ok()? }
        }
        "tool_result" => {
            fields.are_among(&["type", "tool_use_id", "content", "is_error"]).then_some(())?;
            let content = match fields.given("content") {
                None => Vec::new(),
                Some(Node::List(list)) => {
                    let block = |node: &Node<'_>| {
                        let fields = node.as_fields()?;
                        text_block(fields).filter(|_| fields.text("type") == Some("text")).map(part)
                    };
                    list.iter().map(block).collect::<Option<_>>()?
                }
                Some(content) => vec![part(content.shared()?)],
            };
            let has_failed = fields.get("is_error") == Some(&Node::Bool(true));
            Plain::Result { id: fields.text("tool_use_id")?, content, has_failed }
        }
        _ => return None,
    })
}

impl Reader<'_> {
    /// Takes a message; whether it could.
    pub(super) fn plain_message(&mut self, message: &Node<'_>) -> bool {
        let read = || {
            let fields = message.as_fields().filter(|message| message.are_among(&["role", "content"]))?;
            let (role, origin) = match fields.text("role")? {
                "assistant" => (Role::Assistant, Origin::Model),
                "user" => (Role::User, Origin::User),
                _ => return None,
            };
            let blocks = match fields.get("content")? {
                Node::List(list) => list.iter().map(block).collect::<Option<Vec<_>>>()?,
                content => vec![Plain::Text(content.shared()?)],
            };
            let is_fit = |block: &Plain<'_>| match block {
                // A picture may have gone out as a text.
                Plain::Text(text) => role != Role::Assistant || !may_be_shown(text),
                Plain::Call { .. } => role == Role::Assistant,
                Plain::Result { .. } => role == Role::User,
            };
            blocks.iter().all(is_fit).then_some((role, origin, blocks))
        };
        let Some((role, origin, blocks)) = read() else { return false };
        let mut parts = Vec::new();
        let mut has_results = false;
        for block in blocks {
            match block {
                Plain::Text(text) if role == Role::Assistant => {
                    let parts = vec![part(text)];
                    self.push(Origin::Model, Message { role: Role::Assistant, parts, native: None });
                }
                Plain::Text(text) => parts.push(part(text)),
                Plain::Call { id, name, arguments } => self.called(id, name, arguments.into(), None),
                Plain::Result { id, content, has_failed } => {
                    self.answered(id, content, has_failed, None);
                    has_results = true;
                }
            }
        }
        if role == Role::User && (!parts.is_empty() || !has_results) {
            self.push(origin, Message { role, parts, native: None });
        }
        true
    }

    /// Takes a tool; whether it could.
    pub(super) fn plain_tool(&mut self, tool: &Node<'_>) -> bool {
        let read = || {
            let known = ["type", "name", "description", "input_schema", "strict"];
            let fields = tool.as_fields().filter(|tool| tool.are_among(&known))?;
            match fields.get("type") {
                None => {}
                Some(kind) => kind.as_str().filter(|kind| *kind == "custom").map(|_| ())?,
            }
            let tool = client_tool(fields, fields.given("input_schema")?);
            tool.filter(|tool| tool.strict != Some(true) || fits_strict(tool.schema.as_value())).map(Arc::new)
        };
        let read = read();
        let is_read = read.is_some();
        self.request.tools.extend(read);
        is_read
    }
}
