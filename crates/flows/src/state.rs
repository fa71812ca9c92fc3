//! What a flow hands from step to step.

use crate::work::Later;
use placet_core::{CallId, Item, ItemBody, ItemId, Message, Origin, Part, Role, SharedText, ToolCall};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// The chat and what goes with it.
#[derive(Clone, Debug)]
pub(crate) struct FlowState {
    /// What came in, and what was said since.
    pub(crate) chat: Vec<Arc<Item>>,
    /// How much of it came in.
    pub(crate) seed: usize,
    /// What the client has been told already.
    pub(crate) delivered: HashSet<ItemId>,
    /// Where the last step that said anything begins.
    pub(crate) answer_from: usize,
    pub(crate) selection: Option<String>,
    pub(crate) later: Vec<Later>,
    /// Whether somebody has claimed the live answer of this stage.
    pub(crate) claimed: Arc<AtomicBool>,
    /// Whether the client has its whole answer.
    pub(crate) answered: bool,
    /// Whether the last thing that was said is a bare agent's live answer, whole.
    pub(crate) whole: bool,
}

impl FlowState {
    pub(crate) fn new(chat: Vec<Arc<Item>>) -> Self {
        let seed = chat.len();
        FlowState {
            chat,
            seed,
            delivered: HashSet::new(),
            answer_from: seed,
            selection: None,
            later: Vec::new(),
            claimed: Arc::default(),
            answered: false,
            whole: false,
        }
    }

    /// What a member that runs beside others begins with.
    pub(crate) fn beside(&self) -> Self {
        FlowState { later: Vec::new(), claimed: Arc::new(AtomicBool::new(true)), ..self.clone() }
    }

    /// The calls that were made in this exchange, that nobody has answered and the client was not handed yet, in order.
    pub(crate) fn owed(&self) -> Vec<ToolCall> {
        let made = self.chat.get(self.seed..).unwrap_or_default();
        let answered: HashSet<&CallId> = made.iter().filter_map(|item| answers(item)).collect();
        made.iter()
            .filter(|item| !self.delivered.contains(&item.id))
            .filter_map(|item| match &item.body {
                ItemBody::ToolCall(call) if !answered.contains(&call.id) => Some(call.clone()),
                _ => None,
            })
            .collect()
    }

    /// The text of the last message, whoever said it.
    pub(crate) fn last_text(&self) -> String {
        let texts = self.chat.iter().rev().filter_map(|item| match &item.body {
            ItemBody::Message(message) => Some(message.text()),
            _ => None,
        });
        texts.into_iter().next().unwrap_or_default()
    }
}

fn answers(item: &Item) -> Option<&CallId> {
    match &item.body {
        ItemBody::ToolResult(result) => Some(&result.call),
        _ => None,
    }
}

/// What an agent did with an exchange.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Delta {
    /// What it said, in order.
    pub(crate) items: Vec<Arc<Item>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) selection: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) later: Vec<Later>,
    /// Which of it the client has been told already.
    #[serde(skip)]
    pub(crate) delivered: Vec<ItemId>,
    /// Whether everything before was told to the client first.
    #[serde(skip)]
    pub(crate) flushed: bool,
    #[serde(skip)]
    pub(crate) whole: bool,
}

/// What somebody said, as an item.
pub(crate) fn said(id: ItemId, text: impl Into<SharedText>) -> Item {
    Item::new(id, Origin::Model, Message { role: Role::Assistant, parts: vec![Part::text(text)], native: None })
}

/// The text of what an agent said; nothing for other items.
pub(crate) fn text_said(item: &Item) -> Option<String> {
    match &item.body {
        ItemBody::Message(message) if message.role == Role::Assistant => Some(message.text()),
        _ => None,
    }
}

/// The chat of a group: all members see it and write it while they run.
#[derive(Debug, Default)]
pub(crate) struct LiveChat(Mutex<Vec<Arc<Item>>>);

impl LiveChat {
    pub(crate) fn new(items: Vec<Arc<Item>>) -> Arc<Self> {
        Arc::new(LiveChat(Mutex::new(items)))
    }

    pub(crate) fn items(&self) -> Vec<Arc<Item>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn write(&self, items: impl IntoIterator<Item = Arc<Item>>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(items);
    }
}
