//! What a handler gives back: an output, or an error of one of four sorts.

use placet_core::outcome::{Cut, Reason, RevisionChange, Status};
use placet_core::{Origins, Part};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt;

/// What the model reads where a tool answered nothing.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// A handler's full answer. Handlers that have less to say return text or any serialisable value instead.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolOutput {
    /// What the model reads.
    pub content: Vec<Part>,
    /// The value for code; never sent to a model.
    pub payload: Option<Value>,
    /// How it ran, for the journal: exit code, sandbox level …
    pub facts: Map<String, Value>,
    /// Where the content came from. Where it is empty, the tool's own label stands.
    pub origin: Origins,
    /// The revision it changed.
    pub revision: Option<RevisionChange>,
    /// What the tool itself left out of `content`.
    pub cut: Option<Cut>,
    /// Set where the tool ran and reports failure, with all it has to say of it.
    pub is_failure: bool,
}

impl ToolOutput {
    /// An output of one text.
    pub fn text(text: impl Into<String>) -> Self {
        ToolOutput { content: vec![Part::text(text.into())], ..ToolOutput::default() }
    }

    /// An output of these parts.
    #[must_use]
    pub fn parts(content: Vec<Part>) -> Self {
        ToolOutput { content, ..ToolOutput::default() }
    }

    /// The output of a value: a text as it is, anything else as compact JSON, which is the payload too.
    ///
    /// # Errors
    /// [`ToolError`] (*failed*) when the value cannot be written as JSON, for instance a map whose keys are no texts.
    pub fn value(value: &impl Serialize) -> Result<Self, ToolError> {
        match serde_json::to_value(value) {
            Ok(Value::String(text)) => Ok(ToolOutput::text(text)),
            Ok(Value::Null) => Ok(ToolOutput::text(NO_OUTPUT)),
            Ok(value) => Ok(ToolOutput::text(value.to_string()).payload(value)),
            Err(error) => Err(ToolError::failed("the tool's answer cannot be written as JSON").because(error)),
        }
    }

    /// Sets the value for code.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Value>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// Adds a fact for the journal.
    #[must_use]
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.facts.insert(name.into(), value.into());
        self
    }

    /// Says where the content came from.
    #[must_use]
    pub fn origin(mut self, origin: impl Into<Origins>) -> Self {
        self.origin.extend(&origin.into());
        self
    }

    /// Says which revision it changed into which.
    #[must_use]
    pub fn revision(mut self, before: impl fmt::Display, after: impl fmt::Display) -> Self {
        self.revision = Some(RevisionChange { before: before.to_string(), after: after.to_string() });
        self
    }

    /// Says what was left out.
    #[must_use]
    pub fn cut(mut self, kept: u64, total: u64, unit: impl Into<String>) -> Self {
        self.cut = Some(Cut { kept, total, unit: unit.into() });
        self
    }

    /// Marks it as a failure: the tool ran and reports that it did not succeed.
    #[must_use]
    pub fn failure(mut self) -> Self {
        self.is_failure = true;
        self
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        ToolOutput::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        ToolOutput::text(text)
    }
}

/// Why a tool did not complete. The sort says who can do something about it:
///
/// | sort | meaning | to a model an error |
/// |---|---|---|
/// | *mistaken* | the call was wrong and the model can correct it | yes |
/// | *refused* | the call was right and the answer is no | no |
/// | *conflict* | the call was right, but what it rests on has changed | no |
/// | *failed* | the tool ran and failed | yes |
///
/// Any other error becomes a *failed* one through `?`: its text is kept as the cause for the journal, and the model
/// reads a safe sentence instead. That is why this type is no [`std::error::Error`] itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolError {
    pub(crate) status: Status,
    pub(crate) reason: Option<Reason>,
    pub(crate) text: String,
    pub(crate) detail: Option<Value>,
    pub(crate) cause: Option<String>,
    pub(crate) facts: Map<String, Value>,
}

impl ToolError {
    fn new(status: Status, text: impl Into<String>) -> Self {
        ToolError { status, reason: None, text: text.into(), detail: None, cause: None, facts: Map::new() }
    }

    /// The call was wrong and the model can correct it. Say what was expected and what arrived.
    pub fn mistaken(text: impl Into<String>) -> Self {
        ToolError::new(Status::Mistaken, text)
    }

    /// The call was right and the answer is no.
    pub fn refused(text: impl Into<String>) -> Self {
        ToolError::new(Status::Refused, text)
    }

    /// The call was right, but what it rests on has changed. Say what is current.
    pub fn conflict(text: impl Into<String>) -> Self {
        ToolError::new(Status::Conflict, text)
    }

    /// The tool ran and failed. The text goes to the model: name nothing in it that the model may not know.
    pub fn failed(text: impl Into<String>) -> Self {
        ToolError::new(Status::Failed, text)
    }

    /// Gives a reason for code and journal: a word of ours or of the tool's own (`blocked_wall`).
    #[must_use]
    pub fn reason(mut self, reason: impl AsRef<str>) -> Self {
        self.reason = Some(Reason::from(reason.as_ref()));
        self
    }

    /// Says which argument is wrong, as a JSON pointer (`/dx`), for code.
    #[must_use]
    pub fn at(mut self, pointer: &str) -> Self {
        self.detail = Some(json!([{"path": pointer, "problem": self.text}]));
        self
    }

    /// Adds what code may want to know of it.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<Value>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Keeps the underlying cause for the journal. It never reaches a model.
    #[must_use]
    pub fn because(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Adds a fact for the journal.
    #[must_use]
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.facts.insert(name.into(), value.into());
        self
    }

    /// Which sort it is.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// What the model reads.
    #[must_use]
    pub fn as_text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.text)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut cause = error.to_string();
        let mut source = error.source();
        while let Some(deeper) = source {
            cause.push_str(": ");
            cause.push_str(&deeper.to_string());
            source = deeper.source();
        }
        ToolError::failed("the tool failed; the operator can read the cause").because(cause)
    }
}

/// What a handler may return: text, any serialisable value, a [`ToolOutput`], or a `Result` of one of these and a
/// [`ToolError`]. The marker only keeps these cases apart; nobody names it.
pub trait IntoAnswer<Marker> {
    /// The answer.
    ///
    /// # Errors
    /// The handler's own error, or *failed* for a value that cannot be written as JSON.
    fn into_answer(self) -> Result<ToolOutput, ToolError>;
}

/// Marks an answer that is any serialisable value.
#[derive(Debug)]
pub struct AsValue;
/// Marks an answer that is a [`ToolOutput`].
#[derive(Debug)]
pub struct AsOutput;
/// Marks an answer that is a `Result`.
#[derive(Debug)]
pub struct AsResult<M>(std::marker::PhantomData<M>);

impl<T: Serialize> IntoAnswer<AsValue> for T {
    fn into_answer(self) -> Result<ToolOutput, ToolError> {
        ToolOutput::value(&self)
    }
}

impl IntoAnswer<AsOutput> for ToolOutput {
    fn into_answer(self) -> Result<ToolOutput, ToolError> {
        Ok(self)
    }
}

impl<T: IntoAnswer<M>, M> IntoAnswer<AsResult<M>> for Result<T, ToolError> {
    fn into_answer(self) -> Result<ToolOutput, ToolError> {
        self.and_then(T::into_answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer<M>(value: impl IntoAnswer<M>) -> Result<ToolOutput, ToolError> {
        value.into_answer()
    }

    #[test]
    fn text_values_outputs_and_results_are_all_answers() {
        assert_eq!(answer("hello"), Ok(ToolOutput::text("hello")));
        assert_eq!(answer(String::from("hello")), Ok(ToolOutput::text("hello")));
        assert_eq!(answer(()), Ok(ToolOutput::text(NO_OUTPUT)));
        assert_eq!(answer(None::<u8>), Ok(ToolOutput::text(NO_OUTPUT)));
        assert_eq!(answer(vec![1, 2]), Ok(ToolOutput::text("[1,2]").payload(json!([1, 2]))));
        assert_eq!(answer(ToolOutput::text("a").failure()), Ok(ToolOutput::text("a").failure()));
        assert_eq!(answer(Ok::<_, ToolError>(7)), Ok(ToolOutput::text("7").payload(7)));
        assert_eq!(answer(Err::<u8, _>(ToolError::refused("no"))), Err(ToolError::refused("no")));
        assert_eq!(answer(Ok::<_, ToolError>(ToolOutput::text("b"))), Ok(ToolOutput::text("b")));
    }

    #[test]
    fn a_foreign_error_keeps_its_text_for_the_journal_only() {
        fn read() -> Result<(), ToolError> {
            Err(std::io::Error::other("disk /dev/sda1 is gone"))?
        }
        let error = answer(read());
        let Err(error) = error else { unreachable!("an error") };
        assert_eq!(error.status(), Status::Failed);
        assert!(!error.as_text().contains("sda1"));
        assert_eq!(error.cause.as_deref(), Some("disk /dev/sda1 is gone"));
    }

    #[test]
    fn a_value_that_is_no_json_is_a_failure_not_a_panic() {
        let odd: std::collections::HashMap<(u8, u8), u8> = [((1, 2), 3)].into();
        assert!(matches!(answer(odd), Err(error) if error.status() == Status::Failed));
    }
}
