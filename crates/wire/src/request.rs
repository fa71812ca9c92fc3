//! A client's request, decoded; and what an answer to it has to know.

use crate::json::{self, Node};
use placet_core::{ErrorKind, TurnRequest};
use serde_json::Value;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A client's request in our words, with what its protocol says beside the turn itself.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedRequest {
    /// The turn that is asked for.
    pub request: TurnRequest,
    /// Whether the client wants the answer as a stream.
    pub stream: bool,
    /// Whether the client wants usage at the end of the stream (only Chat Completions lets it choose).
    pub stream_usage: bool,
    /// The body as it came.
    pub body: ClientBody,
}

/// The body of a client's request. Few ask for its JSON, so that it is read for the first who does.
#[derive(Clone)]
pub struct ClientBody {
    text: Arc<str>,
    value: OnceLock<Arc<Value>>,
}

impl ClientBody {
    /// # Errors
    /// [`RequestError`] where it is no text.
    pub(crate) fn new(bytes: &[u8]) -> Result<Self, RequestError> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            // In the words of every other fault of JSON, with line and column.
            let told = serde_json::from_slice::<Value>(bytes).err();
            told.map_or_else(|| RequestError::wrong(error), |error| RequestError::not_json(&error))
        })?;
        Ok(ClientBody { text: text.into(), value: OnceLock::new() })
    }

    /// Its nodes, whose texts may hold it.
    ///
    /// # Errors
    /// [`RequestError`] where it is no JSON.
    pub(crate) fn read(&self) -> Result<Node<'_>, RequestError> {
        json::read(&self.text).map_err(|error| RequestError::not_json(&error))
    }

    /// The body as JSON.
    #[must_use]
    pub fn as_value(&self) -> &Arc<Value> {
        // It is JSON: a request was decoded of it.
        self.value.get_or_init(|| {
            let read = serde_json::from_str(&self.text).ok();
            let read = read.or_else(|| self.read().ok().map(|node| node.to_value()));
            Arc::new(read.unwrap_or_default())
        })
    }
}

impl Deref for ClientBody {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.as_value()
    }
}

impl PartialEq for ClientBody {
    fn eq(&self, other: &Self) -> bool {
        self.as_value() == other.as_value()
    }
}

impl fmt::Debug for ClientBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_value().fmt(f)
    }
}

/// A body that is no request of its protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct RequestError {
    /// What sort: nearly always an invalid request; *unsupported* for what we cannot serve.
    pub kind: ErrorKind,
    /// What was wrong and what was expected, with the place in the text for malformed JSON.
    pub problem: String,
    /// The field that is wrong, as a path such as `messages[2].content`.
    pub field: Option<String>,
}

impl RequestError {
    /// The text is not JSON.
    pub(crate) fn not_json(error: &serde_json::Error) -> Self {
        RequestError::wrong(error)
    }

    fn wrong(error: impl fmt::Display) -> Self {
        let problem = format!("the body is not valid JSON: {error}");
        RequestError { kind: ErrorKind::InvalidRequest, problem, field: None }
    }

    /// A field is wrong or missing.
    pub(crate) fn field(field: impl Into<String>, problem: impl AsRef<str>) -> Self {
        let field = field.into();
        let problem = format!("`{field}`: {}", problem.as_ref());
        RequestError { kind: ErrorKind::InvalidRequest, problem, field: Some(field) }
    }
}

/// What an encoder of answers has to know beside the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// The id of the response, ours to choose.
    pub id: String,
    /// The model's name, as the client knows it.
    pub model: String,
    /// When the answer began, in seconds since 1970.
    pub created: u64,
    /// Whose state may be written as it is; that of any other provider travels sealed.
    pub provider: placet_core::ProviderId,
    /// Whether usage is written at the end of a stream (only Chat Completions lets the client choose).
    pub stream_usage: bool,
    /// The request that is answered, where its fields are repeated in the answer (Responses).
    pub request: Option<Arc<Value>>,
}
