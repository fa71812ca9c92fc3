//! One request of a caller.

use indexmap::IndexMap;
use placet_core::part::Native;
use placet_core::{Digest, ItemBody, RunId, TurnRequest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Who asks, as far as flows care: a name that is the same whenever the same credential comes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Principal(Arc<str>);

impl Principal {
    /// Somebody.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Principal(name.into())
    }

    /// Somebody without a name: where no credentials are asked for.
    #[must_use]
    pub fn anonymous() -> Self {
        Principal::new("anonymous")
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One request of a caller, decoded: the protocol that it came in is nothing to a flow.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What is asked. Its `model` is the name that the client asked for.
    pub request: Arc<TurnRequest>,
    /// Who asks.
    pub principal: Principal,
    /// The run id, where the client brought one.
    pub run: Option<RunId>,
    /// Whether the client wants to see the answer as it comes.
    pub stream: bool,
    /// What came beside the request: headers, by lower-case name.
    pub metadata: IndexMap<String, String>,
    /// Cancelled when the client goes away.
    pub cancel: CancellationToken,
}

impl Exchange {
    /// A request of somebody without a name, to be answered whole.
    pub fn new(request: impl Into<Arc<TurnRequest>>) -> Self {
        Exchange {
            request: request.into(),
            principal: Principal::anonymous(),
            run: None,
            stream: false,
            metadata: IndexMap::new(),
            cancel: CancellationToken::new(),
        }
    }

    /// Who asks.
    #[must_use]
    pub fn from(mut self, principal: Principal) -> Self {
        self.principal = principal;
        self
    }

    /// The client's run id.
    #[must_use]
    pub fn run(mut self, run: impl Into<Option<RunId>>) -> Self {
        self.run = run.into();
        self
    }

    /// The client wants to see the answer as it comes.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.stream = true;
        self
    }

    /// Something that came beside the request.
    #[must_use]
    pub fn with_metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// What is cancelled when the client goes away.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }
}

/// What a request says, whatever ids its items were given when it was decoded.
pub(crate) fn request_hash(request: &TurnRequest) -> Digest {
    let mut bare = request.clone();
    bare.items.clear();
    let mut value = serde_json::to_value(&bare).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("items".to_owned(), request.items.iter().map(|item| content(&item.body)).collect());
    }
    Digest::of(value.to_string().as_bytes())
}

/// What an item says, without ids of ours.
pub(crate) fn content(body: &ItemBody) -> Value {
    match body {
        ItemBody::ToolCall(call) => {
            let native: &Option<Native> = &call.native;
            serde_json::json!({"call": call.name, "id": call.provider_id, "arguments": call.arguments, "native": native})
        }
        ItemBody::ToolResult(result) => serde_json::json!({
            "result": result.provider_id, "content": result.outcome.content, "error": result.outcome.is_error(),
        }),
        other => serde_json::to_value(other).unwrap_or_default(),
    }
}
