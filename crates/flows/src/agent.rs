//! Agents: what owns a goal within a flow. Configuration, which cannot act.

use crate::caller::Caller;
use crate::error::Result;
use crate::model::Model;
use crate::models::ModelSpec;
use async_trait::async_trait;
use placet_core::Limits;
use placet_runtime::Output;
use placet_tools::Grant;
use schemars::JsonSchema;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

/// What an agent does with one exchange.
///
/// It gets two handles: one faces the client, the other the model. When an exchange is suspended because the client has
/// to run tools first, the handler is left where it waits; when the results come it is run again from its beginning, and
/// what it asked before is answered from what is recorded. So, between its asks, a handler does nothing that must not
/// happen twice, or does it in [`Caller::once`].
#[async_trait]
pub trait Handler: Send + Sync {
    /// Handles one exchange.
    ///
    /// # Errors
    /// Whatever ends the exchange with an error.
    async fn handle(&self, caller: Caller, model: Model) -> Result<()>;
}

#[async_trait]
impl<F, Fut> Handler for F
where
    F: Fn(Caller, Model) -> Fut + Send + Sync,
    Fut: Future<Output = Result<()>> + Send,
{
    async fn handle(&self, caller: Caller, model: Model) -> Result<()> {
        self(caller, model).await
    }
}

/// What happens when one answer of the model asks both for tools of the agent's own and for tools of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MixedRounds {
    /// The exchange is suspended as a whole; the agent's own tools run when the client's results have come.
    #[default]
    Suspend,
    /// The handler gets all calls, unrun, and decides.
    HandBack,
    /// The model is told, once, to ask for one side at a time.
    Split,
}

/// Owns a goal: asks a model, holds grants, may have a handler.
///
/// Without grants and without a handler it is *bare*: the client's request goes to the model as it came, and the answer
/// comes back as it is. With grants and no handler it goes round after round until there is an answer, with its own tools
/// first and the client's tools after them. A handler does what it likes; nothing is forwarded unless it says so.
#[derive(Clone)]
pub struct Agent(Arc<Inner>);

#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) model: Option<ModelSpec>,
    pub(crate) role: Option<String>,
    pub(crate) output: Option<Output>,
    pub(crate) exits: Vec<String>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) mixed: MixedRounds,
    pub(crate) limits: Limits,
    pub(crate) handler: Option<Arc<dyn Handler>>,
}

impl Agent {
    /// A bare one.
    #[must_use]
    pub fn new() -> Self {
        Agent(Arc::new(Inner {
            model: None,
            role: None,
            output: None,
            exits: Vec::new(),
            grants: Vec::new(),
            mixed: MixedRounds::default(),
            limits: Limits::default(),
            handler: None,
        }))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The model that it asks.
    #[must_use]
    pub fn model(self, model: impl Into<ModelSpec>) -> Self {
        self.with(|agent| agent.model = Some(model.into()))
    }

    /// What its model is told before everything else, in every ask.
    #[must_use]
    pub fn role(self, role: impl Into<String>) -> Self {
        self.with(|agent| agent.role = Some(role.into()))
    }

    /// The type that its model's answers must have. Such an agent is never streamed live.
    #[must_use]
    pub fn output<T: JsonSchema>(self) -> Self {
        self.output_shape(Output::of::<T>())
    }

    /// The shape that its model's answers must have.
    #[must_use]
    pub fn output_shape(self, output: Output) -> Self {
        self.with(|agent| agent.output = Some(output))
    }

    /// Which flows its handler may select: checked against the selection that follows.
    #[must_use]
    pub fn exits<T: Into<String>>(self, ids: impl IntoIterator<Item = T>) -> Self {
        self.with(|agent| agent.exits = ids.into_iter().map(Into::into).collect())
    }

    /// Hands it a capability, a grant of one, or a single tool.
    #[must_use]
    pub fn grant(self, grant: impl Into<Grant>) -> Self {
        self.with(|agent| agent.grants.push(grant.into()))
    }

    /// What happens when one answer asks for tools of both sides.
    #[must_use]
    pub fn mixed_rounds(self, mixed: MixedRounds) -> Self {
        self.with(|agent| agent.mixed = mixed)
    }

    /// How much each of its runs may use.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        self.with(|agent| agent.limits = limits)
    }

    /// What it does with an exchange.
    #[must_use]
    pub fn handler(self, handler: impl Handler + 'static) -> Self {
        self.with(|agent| agent.handler = Some(Arc::new(handler)))
    }

    /// Whether the client's request goes to the model as it came and the answer comes back as it is.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.0.handler.is_none() && self.0.grants.is_empty() && self.0.output.is_none()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }
}

impl Default for Agent {
    fn default() -> Self {
        Agent::new()
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("bare", &self.is_bare())
            .field("grants", &self.0.grants.len())
            .field("model", &self.0.model)
            .finish_non_exhaustive()
    }
}
