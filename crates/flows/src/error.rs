//! What can go wrong with an exchange.

use placet_core::{Diagnose, ErrorKind, ProviderError, ProviderId, RunId, ToolCall, ToolName};
use placet_observe::Failure;
use placet_runtime::{Problems, RuntimeError};
use placet_store::StoreError;

/// A result of a flow.
pub type Result<T, E = FlowError> = std::result::Result<T, E>;

/// Why an exchange has no answer, or none that is whole.
///
/// The texts are for the people who run the flows: they name flows, agents and tools. A client is shown
/// [`FlowError::client_message`], which names nothing that the client did not name first.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// Flows are put together wrongly. Nothing was served.
    #[error("the flows cannot be served: {problems}")]
    Wiring {
        /// Everything that is wrong, all at once.
        problems: Problems,
    },
    /// There is no flow of that name, and no default one.
    #[error("there is no flow {name:?}, and none by default")]
    UnknownFlow {
        /// The name that was asked for.
        name: String,
    },
    /// There is no webhook of that id.
    #[error("there is no webhook {id:?}")]
    UnknownHook {
        /// The id that was asked for.
        id: String,
    },
    /// A model could not be asked, or broke its answer off.
    #[error(transparent)]
    Upstream(#[from] ProviderError),
    /// A run could not be started or carried on.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A run of the loop failed.
    #[error("the run of an agent failed: {0}")]
    Run(#[source] Failure),
    /// A client declares a tool that has the name of one of the agent's own.
    #[error("the client's tool {tool:?} has the name of a tool of the agent's own; rename the client's tool")]
    NameClash {
        /// The name.
        tool: ToolName,
    },
    /// A client declares two tools of one name.
    #[error("the client declares the tool {tool:?} twice; give every tool a name of its own")]
    DeclaredTwice {
        /// The name.
        tool: ToolName,
    },
    /// A flow would hand a call to the client whose tool the client did not declare in this request.
    #[error("a call of the tool {tool:?} was to be handed to the client, which has not declared that tool")]
    Undeclared {
        /// The tool.
        tool: ToolName,
    },
    /// One answer of the model asked for tools of both sides, and the agent's policy does not allow it.
    #[error("the model asked for tools of both sides in one answer ({})", list(tools))]
    MixedRound {
        /// All tools that it asked for.
        tools: Vec<String>,
    },
    /// The answer does not have the shape that it must have.
    #[error("the model's answer does not have the wanted shape: {}", problems.join("; "))]
    Output {
        /// What is wrong with it.
        problems: Vec<String>,
    },
    /// A limit was reached.
    #[error("a limit was reached: {what}")]
    Limit {
        /// Which.
        what: String,
    },
    /// The request holds the result of a call that nobody made.
    #[error("the request holds a result of the call {call:?}, which nobody made")]
    UnknownResult {
        /// The call's id, as the client wrote it.
        call: String,
    },
    /// The request holds calls that were handed to somebody else, or by another flow.
    #[error("the call {call:?} was not handed to this client by this flow")]
    ForeignCall {
        /// The call's id, as the client wrote it.
        call: String,
    },
    /// The request holds a call of a tool that is the agent's own, which no client is ever shown.
    #[error(
        "the request holds the call {call:?} of {tool:?}, which is a tool of the agent's own and was not called; leave the call and \
         its result out"
    )]
    ForgedCall {
        /// The call's id, as the client wrote it.
        call: String,
        /// The tool.
        tool: ToolName,
    },
    /// The request answers only some of the calls that were handed out together.
    #[error("the request answers only some of the calls that were handed out together: missing are {}", list(calls))]
    MissingResults {
        /// The ids of the missing ones.
        calls: Vec<String>,
    },
    /// The request answers one call twice.
    #[error("the request holds two results of the call {call:?}")]
    RepeatedResult {
        /// The call's id.
        call: String,
    },
    /// The request leaves calls of its history without results, and the policy refuses that.
    #[error("the request leaves calls of its history without results: {}", list(calls))]
    UnansweredCalls {
        /// The ids.
        calls: Vec<String>,
    },
    /// The calls were answered before, with other results.
    #[error("the calls were answered before, with other results; what was done cannot be done again")]
    ResultsDiffer,
    /// What was kept for the calls is gone, and tools had been run whose effects cannot be told to the model any more.
    #[error("what was kept for the call {call:?} is gone, and tools that change something had been run")]
    Expired {
        /// The call's id.
        call: String,
    },
    /// The flow has changed since it handed the calls out.
    #[error("the flow has changed since it handed the calls out")]
    FlowChanged,
    /// The run id was used before, for something else.
    #[error("the run {run} was started with another {what}; use a new run id")]
    RunConflict {
        /// The run.
        run: RunId,
        /// What differs: `principal`, `flow`, `request`.
        what: &'static str,
    },
    /// A webhook was called with the same key before, and with another payload.
    #[error("the webhook {id:?} was called with this key before, and with another payload; use a new key")]
    HookConflict {
        /// The webhook's id.
        id: String,
    },
    /// An agent selected a flow that the next selection does not hold.
    #[error("{id:?} was selected, but there is no flow of that id; there are {}", list(known))]
    UnknownSelection {
        /// What was selected.
        id: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Two agents of one step selected different flows.
    #[error("two agents of one step selected different flows: {first:?} and {second:?}")]
    SelectionsDiffer {
        /// What the first one selected.
        first: String,
        /// What the second one selected.
        second: String,
    },
    /// A handler, or something that it stands on, panicked.
    #[error("a handler panicked: {problem}")]
    Panicked {
        /// The panic's text.
        problem: String,
    },
    /// A handler reported an error of its own.
    #[error("a handler failed: {0}")]
    Handler(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Triggers set off triggers too deeply.
    #[error("triggers have set off one another {depth} times; that is the most")]
    TooDeep {
        /// How often.
        depth: u32,
    },
    /// Nobody waits for the answer any more.
    #[error("the exchange was cancelled")]
    Cancelled,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A fault of ours.
    #[error("{problem}")]
    Internal {
        /// What happened.
        problem: String,
    },
    /// What another reader of the same answer was told.
    #[error("{0}")]
    Shared(std::sync::Arc<FlowError>),
}

fn list(names: &[String]) -> String {
    names.join(", ")
}

impl FlowError {
    /// An error of a handler's own.
    pub fn handler(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        FlowError::Handler(error.into())
    }

    pub(crate) fn forged(call: &ToolCall) -> Self {
        let id = call.provider_id.clone().unwrap_or_else(|| call.id.as_str().to_owned());
        FlowError::ForgedCall { call: id, tool: call.name.clone() }
    }

    pub(crate) fn internal(problem: impl Into<String>) -> Self {
        FlowError::Internal { problem: problem.into() }
    }

    /// What the upstream said, where it is an error of an upstream. It may hold names and texts that clients are not to see.
    #[must_use]
    pub fn upstream(&self) -> Option<&ProviderError> {
        match self {
            FlowError::Shared(error) => error.upstream(),
            FlowError::Upstream(error) | FlowError::Runtime(RuntimeError::Provider(error)) => Some(error),
            _ => None,
        }
    }

    fn run_failure(&self) -> Option<&Failure> {
        match self {
            FlowError::Shared(error) => error.run_failure(),
            FlowError::Run(failure) => Some(failure),
            _ => None,
        }
    }

    /// A word for programs: the same in every version.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            FlowError::Wiring { .. } => "wiring",
            FlowError::UnknownFlow { .. } => "model_not_found",
            FlowError::UnknownHook { .. } => "hook_not_found",
            FlowError::Upstream(_) => "upstream",
            FlowError::Runtime(_) | FlowError::Run(_) => "run",
            FlowError::NameClash { .. } => "tool_name_clash",
            FlowError::DeclaredTwice { .. } => "tool_declared_twice",
            FlowError::Undeclared { .. } => "undeclared_tool",
            FlowError::MixedRound { .. } => "mixed_round",
            FlowError::Output { .. } => "output_mismatch",
            FlowError::Limit { .. } => "limit_reached",
            FlowError::UnknownResult { .. } => "unknown_result",
            FlowError::ForeignCall { .. } => "foreign_call",
            FlowError::ForgedCall { .. } => "forged_call",
            FlowError::MissingResults { .. } => "missing_results",
            FlowError::RepeatedResult { .. } => "repeated_result",
            FlowError::UnansweredCalls { .. } => "unanswered_calls",
            FlowError::ResultsDiffer => "results_differ",
            FlowError::Expired { .. } => "continuation_expired",
            FlowError::FlowChanged => "flow_changed",
            FlowError::RunConflict { .. } => "run_conflict",
            FlowError::HookConflict { .. } => "hook_conflict",
            FlowError::UnknownSelection { .. } | FlowError::SelectionsDiffer { .. } => "selection",
            FlowError::Panicked { .. } | FlowError::Handler(_) => "agent_failed",
            FlowError::TooDeep { .. } => "too_deep",
            FlowError::Cancelled => "cancelled",
            FlowError::Store(_) => "store",
            FlowError::Internal { .. } => "internal",
            FlowError::Shared(error) => error.code(),
        }
    }

    /// What a client may be told: nothing of flows, agents, tools or upstream texts that it does not know already.
    #[must_use]
    pub fn client_message(&self) -> String {
        let text = match self {
            FlowError::UnknownFlow { .. }
            | FlowError::UnknownHook { .. }
            | FlowError::NameClash { .. }
            | FlowError::DeclaredTwice { .. }
            | FlowError::UnknownResult { .. }
            | FlowError::ForeignCall { .. }
            | FlowError::ForgedCall { .. }
            | FlowError::MissingResults { .. }
            | FlowError::RepeatedResult { .. }
            | FlowError::UnansweredCalls { .. }
            | FlowError::ResultsDiffer
            | FlowError::Expired { .. }
            | FlowError::RunConflict { .. }
            | FlowError::HookConflict { .. }
            | FlowError::Cancelled => return self.to_string(),
            FlowError::Shared(error) => return error.client_message(),
            FlowError::Upstream(error) => return upstream_message(&error.kind),
            FlowError::Run(failure) => return upstream_message(&failure.kind),
            FlowError::Runtime(RuntimeError::Provider(error)) => return upstream_message(&error.kind),
            FlowError::FlowChanged => "the model has changed since it asked for these tools; start the request anew",
            FlowError::MixedRound { .. } | FlowError::Undeclared { .. } => {
                "the model asked for tools that cannot be used"
            }
            FlowError::Output { .. } => "the model did not give an answer of the wanted shape",
            FlowError::Limit { .. } => "a limit of the model was reached before it had an answer",
            _ => "the model failed",
        };
        text.to_owned()
    }

    /// The error as the end of a stream of turn events: what a client may be told.
    #[must_use]
    pub fn to_client(&self) -> ProviderError {
        let mut told = ProviderError::new(self.kind(), ProviderId::new("placet"), self.client_message());
        told.code = Some(self.code().to_owned());
        if let Some(error) = self.upstream() {
            (told.status, told.retry_after_ms) = (error.status, error.retry_after_ms);
        } else if let Some(failure) = self.run_failure() {
            told.retry_after_ms = failure.retry_after_ms;
        }
        told
    }
}

/// What is said of an upstream's error: its kind, in our words.
fn upstream_message(kind: &ErrorKind) -> String {
    let text = match kind {
        ErrorKind::RateLimited => "the model is asked too often; try again later",
        ErrorKind::Overloaded | ErrorKind::Unavailable => "the model is not available now; try again later",
        ErrorKind::Timeout => "the model did not answer in time",
        ErrorKind::ContextLength => "the conversation is longer than the model's window",
        ErrorKind::ContentFiltered => "a content filter refused the request or its answer",
        ErrorKind::InvalidRequest | ErrorKind::Unsupported => "the model cannot do what the request asks",
        ErrorKind::LimitReached => "a limit of the model was reached before it had an answer",
        ErrorKind::Interrupted | ErrorKind::Network => "the model's answer broke off",
        _ => "the model failed",
    };
    text.to_owned()
}

impl From<Failure> for FlowError {
    fn from(failure: Failure) -> Self {
        FlowError::Run(failure)
    }
}

impl Diagnose for FlowError {
    fn kind(&self) -> ErrorKind {
        match self {
            FlowError::Wiring { .. } => ErrorKind::Wiring,
            FlowError::UnknownFlow { .. } | FlowError::UnknownHook { .. } => ErrorKind::NotFound,
            FlowError::Upstream(error) => error.kind(),
            FlowError::Runtime(error) => error.kind(),
            FlowError::Run(failure) => failure.kind.clone(),
            FlowError::NameClash { .. }
            | FlowError::DeclaredTwice { .. }
            | FlowError::UnknownResult { .. }
            | FlowError::ForeignCall { .. }
            | FlowError::ForgedCall { .. }
            | FlowError::MissingResults { .. }
            | FlowError::RepeatedResult { .. }
            | FlowError::UnansweredCalls { .. } => ErrorKind::InvalidRequest,
            FlowError::ResultsDiffer
            | FlowError::FlowChanged
            | FlowError::Expired { .. }
            | FlowError::RunConflict { .. }
            | FlowError::HookConflict { .. } => ErrorKind::Conflict,
            FlowError::Limit { .. } | FlowError::TooDeep { .. } => ErrorKind::LimitReached,
            FlowError::Output { .. } => ErrorKind::OutputMismatch,
            FlowError::Cancelled => ErrorKind::Cancelled,
            FlowError::Store(error) => error.kind(),
            FlowError::Shared(error) => error.kind(),
            FlowError::Undeclared { .. }
            | FlowError::MixedRound { .. }
            | FlowError::UnknownSelection { .. }
            | FlowError::SelectionsDiffer { .. }
            | FlowError::Panicked { .. }
            | FlowError::Handler(_)
            | FlowError::Internal { .. } => ErrorKind::Internal,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            FlowError::Upstream(error) => error.hints(),
            FlowError::Runtime(error) => error.hints(),
            FlowError::Store(error) => error.hints(),
            FlowError::Run(failure) => failure.hints(),
            FlowError::Shared(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}
