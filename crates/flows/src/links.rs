//! Calls and results of a conversation, linked: whoever has one finds the other, or a stub that carries the id only.

use placet_core::{CallId, Item, ItemBody, ToolCall, ToolResult};
use std::collections::HashMap;
use std::sync::Arc;

/// The calls and results of a list of items. Links hold within that list alone.
#[derive(Clone, Debug, Default)]
pub struct Links {
    calls: HashMap<CallId, Arc<Item>>,
    results: HashMap<CallId, Arc<Item>>,
}

/// A call or a result that is looked for: it is there, or only its id is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Linked<T> {
    /// The list holds it.
    Found(T),
    /// The list does not hold it; this is its call's id.
    Stub(CallId),
}

impl<T> Linked<T> {
    /// Whether the list holds it.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        matches!(self, Linked::Found(_))
    }

    /// What the list holds.
    #[must_use]
    pub fn found(self) -> Option<T> {
        match self {
            Linked::Found(found) => Some(found),
            Linked::Stub(_) => None,
        }
    }
}

impl Links {
    /// The links among these items.
    pub fn of<'a>(items: impl IntoIterator<Item = &'a Arc<Item>>) -> Self {
        let mut links = Links::default();
        for item in items {
            match &item.body {
                ItemBody::ToolCall(call) => links.calls.insert(call.id.clone(), item.clone()),
                ItemBody::ToolResult(result) => links.results.insert(result.call.clone(), item.clone()),
                _ => None,
            };
        }
        links
    }

    /// The result of a call.
    #[must_use]
    pub fn result_of(&self, call: &ToolCall) -> Linked<ToolResult> {
        match self.results.get(&call.id).map(|item| &item.body) {
            Some(ItemBody::ToolResult(result)) => Linked::Found((**result).clone()),
            _ => Linked::Stub(call.id.clone()),
        }
    }

    /// The call that a result answers.
    #[must_use]
    pub fn call_of(&self, result: &ToolResult) -> Linked<ToolCall> {
        match self.calls.get(&result.call).map(|item| &item.body) {
            Some(ItemBody::ToolCall(call)) => Linked::Found(call.clone()),
            _ => Linked::Stub(result.call.clone()),
        }
    }
}
