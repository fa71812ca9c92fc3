//! Requests and answers that are handed on as the bytes they are: what a gateway must know of them, and no more.
//!
//! Where a client speaks the provider's own protocol nothing is decoded. [`Outline`] finds the few fields of a request that
//! decide where it goes, as ranges of its bytes, so that they can be [spliced](splice); [`Watch`] reads usage and the end of
//! an answer from its bytes as they pass.

mod outline;
mod usage;
mod watch;

pub use outline::{Edit, Outline, splice};
pub use watch::{Passage, Watch};

use serde::{Deserialize, Serialize};
use std::fmt;

/// The protocol of a request and its answer, as far as handing it on goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speech {
    /// OpenAI Chat Completions.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Anthropic Messages.
    AnthropicMessages,
    /// Gemini's `generateContent`.
    Gemini,
}

impl Speech {
    /// All of them.
    pub const ALL: [Speech; 4] =
        [Speech::OpenaiChat, Speech::OpenaiResponses, Speech::AnthropicMessages, Speech::Gemini];

    /// Its name, in settings and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Speech::OpenaiChat => "openai_chat",
            Speech::OpenaiResponses => "openai_responses",
            Speech::AnthropicMessages => "anthropic_messages",
            Speech::Gemini => "gemini",
        }
    }

    /// The protocol of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Speech::ALL.into_iter().find(|speech| speech.as_str() == name)
    }
}

impl fmt::Display for Speech {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
