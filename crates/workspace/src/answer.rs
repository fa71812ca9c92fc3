//! What an operation answers: a text for the model, facts for the journal.

use placet_core::outcome::Cut;
use serde_json::{Map, Value};

/// What an operation answers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// What the model reads. Where something was left out, it says what.
    pub text: String,
    /// How it went, for code and journal.
    pub facts: Map<String, Value>,
    /// What was left out of the text.
    pub cut: Option<Cut>,
    /// Whether the text holds content or names of files.
    pub from_files: bool,
}

impl Answer {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Answer { text: text.into(), ..Answer::default() }
    }

    pub(crate) fn of_files(mut self) -> Self {
        self.from_files = true;
        self
    }

    pub(crate) fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn cut(mut self, kept: u64, total: u64, unit: &str) -> Self {
        self.cut = (kept < total).then(|| Cut { kept, total, unit: unit.to_owned() });
        self
    }
}

/// `1 entry`, `2 entries`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
