//! Items: the durable nouns that a conversation is made of.

use crate::id::{ApprovalId, ArtifactId, CallId, ItemId, ProviderId};
use crate::json_text::SharedText;
use crate::open::{open_enum, open_words};
use crate::origin::{Origin, Origins};
use crate::outcome::ToolResult;
use crate::part::{Media, Native, Part, text_of};
use crate::tool::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A durable noun of a conversation, with where it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its id.
    pub id: ItemId,
    /// Where its content came from.
    #[serde(default, skip_serializing_if = "Origins::is_empty")]
    pub origin: Origins,
    /// What it is.
    pub body: ItemBody,
}

impl Item {
    /// An item.
    pub fn new(id: ItemId, origin: impl Into<Origins>, body: impl Into<ItemBody>) -> Self {
        Item { id, origin: origin.into(), body: body.into() }
    }

    /// What a user says.
    pub fn user(id: ItemId, text: impl Into<SharedText>) -> Self {
        Item::new(id, Origin::User, Message { role: Role::User, parts: vec![Part::text(text)], native: None })
    }
}

open_enum! {
    /// What an item is.
    pub enum ItemBody {
        /// Something said.
        Message(Message) = "message",
        /// A model's thinking, as far as the provider shows it.
        Reasoning(Reasoning) = "reasoning",
        /// A request to run a tool of ours or of a client.
        ToolCall(ToolCall) = "tool_call",
        /// The answer to a tool call.
        ToolResult(Box<ToolResult>) = "tool_result",
        /// A tool that the provider ran itself.
        HostedCall(HostedCall) = "hosted_call",
        /// A question put to a human.
        Approval(ApprovalItem) = "approval",
        /// A file-like output.
        Artifact(Artifact) = "artifact",
        /// Something only one provider understands, kept exactly and replayed in its place.
        Native(Native) = "native",
    }
}

macro_rules! body_from {
    ($($variant:ident($body:ty)),*) => {
        $( impl From<$body> for ItemBody {
            fn from(body: $body) -> Self {
                ItemBody::$variant(body)
            }
        } )*
    };
}
body_from!(
    Message(Message),
    Reasoning(Reasoning),
    ToolCall(ToolCall),
    HostedCall(HostedCall),
    Approval(ApprovalItem),
    Artifact(Artifact),
    Native(Native)
);

impl From<ToolResult> for ItemBody {
    fn from(result: ToolResult) -> Self {
        ItemBody::ToolResult(Box::new(result))
    }
}

open_words! {
    /// Who says something.
    pub enum Role {
        /// The operator, within the conversation.
        System = "system",
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

/// Something said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// What.
    pub parts: Vec<Part>,
    /// What only the provider understands of it, to be sent back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

impl Message {
    /// All its text.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

/// A model's thinking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The readable part; may be empty where the provider hides it.
    pub text: String,
    /// The opaque part (signature, encrypted content), which goes back byte for byte to the same provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

/// A tool call that the provider answered itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostedCall {
    /// Whose tool.
    pub provider: ProviderId,
    /// What kind, in the provider's word: `web_search_call` …
    pub kind: String,
    /// The provider's item, as it came.
    pub value: Value,
}

/// A question put to a human, as an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalItem {
    /// Which question.
    pub id: ApprovalId,
    /// About which call.
    pub call: CallId,
    /// How it was decided; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
}

/// A file-like output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its id.
    pub id: ArtifactId,
    /// Its name.
    pub name: String,
    /// Its content.
    pub media: Media,
}
