//! The algebra: trees of agents, built once and shared by all exchanges.

use crate::agent::Agent;
use crate::error::Result;
use crate::models::ModelSpec;
use crate::trigger::Trigger;
use async_trait::async_trait;
use placet_core::RunId;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A tree of agents that answers an exchange. Configuration, which cannot act; cheap to clone.
///
/// ```
/// use placet_flows::{Agent, Flow};
/// let house = Flow::agent(Agent::new().role("You keep the house.")).next(Flow::respond());
/// let named = house.named("house");
/// assert_eq!(named.name(), "house");
/// ```
#[derive(Clone)]
pub struct Flow(Arc<Node>);

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) id: Option<String>,
    pub(crate) model: Option<ModelSpec>,
    pub(crate) kind: Kind,
}

#[derive(Clone)]
pub(crate) enum Kind {
    Agents(Vec<Agent>),
    Sequence(Vec<Flow>),
    Select(Vec<Flow>),
    All(Vec<Flow>),
    One(Vec<Flow>),
    Group(Vec<Flow>),
    Respond,
    Notify(Arc<dyn Notify>),
    Trigger(Trigger),
}

/// What a notification says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// The text of the last message.
    pub text: String,
    /// The run.
    pub run: RunId,
    /// The same each time this very notification is sent, so that whoever receives it can tell a repetition.
    pub key: String,
}

/// Sends a notification.
#[async_trait]
pub trait Notify: Send + Sync {
    /// Sends it.
    ///
    /// # Errors
    /// Whatever went wrong: it fails the run.
    async fn notify(&self, notice: Notice) -> Result<()>;
}

#[async_trait]
impl<F, Fut> Notify for F
where
    F: Fn(Notice) -> Fut + Send + Sync,
    Fut: Future<Output = Result<()>> + Send,
{
    async fn notify(&self, notice: Notice) -> Result<()> {
        self(notice).await
    }
}

impl Flow {
    fn of(kind: Kind) -> Self {
        Flow(Arc::new(Node { id: None, model: None, kind }))
    }

    /// One agent.
    #[must_use]
    pub fn agent(agent: Agent) -> Self {
        Flow::of(Kind::Agents(vec![agent]))
    }

    /// Several agents at the same time, each with the chat as it came in; what they say is put together in their order.
    #[must_use]
    pub fn agents(agents: impl IntoIterator<Item = Agent>) -> Self {
        Flow::of(Kind::Agents(agents.into_iter().collect()))
    }

    /// This one, and then another one.
    #[must_use]
    pub fn next(self, next: impl Into<Flow>) -> Self {
        let mut steps = self.into_steps();
        steps.extend(next.into().into_steps());
        Flow::of(Kind::Sequence(steps))
    }

    /// The steps of a plain sequence; a sequence with an id or a model of its own is one step.
    fn into_steps(self) -> Vec<Flow> {
        match &self.0.kind {
            Kind::Sequence(steps) if self.0.id.is_none() && self.0.model.is_none() => steps.clone(),
            _ => vec![self],
        }
    }

    /// The one of these that was selected by its id.
    #[must_use]
    pub fn select(members: impl IntoIterator<Item = Flow>) -> Self {
        Flow::of(Kind::Select(members.into_iter().collect()))
    }

    /// All of these at the same time, each on a chat of its own; what they say is put together in their order.
    #[must_use]
    pub fn all(members: impl IntoIterator<Item = Flow>) -> Self {
        Flow::of(Kind::All(members.into_iter().collect()))
    }

    /// The first of these that succeeds; the others are cancelled, and nothing of them counts.
    #[must_use]
    pub fn one(members: impl IntoIterator<Item = Flow>) -> Self {
        Flow::of(Kind::One(members.into_iter().collect()))
    }

    /// All of these at the same time, on one chat that all of them see and write.
    #[must_use]
    pub fn group(members: impl IntoIterator<Item = Flow>) -> Self {
        Flow::of(Kind::Group(members.into_iter().collect()))
    }

    /// Delivers to the client what was said since the last time. What comes after the last one of these goes on behind the
    /// client's back.
    #[must_use]
    pub fn respond() -> Self {
        Flow::of(Kind::Respond)
    }

    /// Sends the text of the last message somewhere, and changes nothing.
    #[must_use]
    pub fn notify(notify: impl Notify + 'static) -> Self {
        Flow::of(Kind::Notify(Arc::new(notify)))
    }

    /// Splits the sequence that it stands in: what follows is done when the trigger goes off.
    #[must_use]
    pub fn trigger(trigger: Trigger) -> Self {
        Flow::of(Kind::Trigger(trigger))
    }

    /// The same flow under an id, by which it can be selected.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.0).id = Some(id.into());
        self
    }

    /// The same flow with a model for those of its agents that have none nearer to them.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<ModelSpec>) -> Self {
        Arc::make_mut(&mut self.0).model = Some(model.into());
        self
    }

    /// The flow under a name, by which clients ask for it as for a model.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> NamedFlow {
        NamedFlow { name: name.into(), flow: self, durable: None }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.0
    }

    /// The flows within, in order.
    pub(crate) fn members(&self) -> &[Flow] {
        match &self.0.kind {
            Kind::Sequence(members)
            | Kind::Select(members)
            | Kind::All(members)
            | Kind::One(members)
            | Kind::Group(members) => members,
            Kind::Agents(_) | Kind::Respond | Kind::Notify(_) | Kind::Trigger(_) => &[],
        }
    }

    /// Whether an answer can be delivered somewhere in it.
    pub(crate) fn responds(&self) -> bool {
        matches!(self.0.kind, Kind::Respond) || self.members().iter().any(Flow::responds)
    }

    /// The one agent that the flow consists of, if it does.
    pub(crate) fn only_agent(&self) -> Option<&Agent> {
        match &self.0.kind {
            Kind::Agents(agents) if agents.len() == 1 => agents.first(),
            Kind::Sequence(steps) => match steps.as_slice() {
                [only] => only.only_agent(),
                [first, last] if matches!(last.0.kind, Kind::Respond) => first.only_agent(),
                _ => None,
            },
            _ => None,
        }
    }
}

impl From<Agent> for Flow {
    fn from(agent: Agent) -> Self {
        Flow::agent(agent)
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::check::shape(self))
    }
}

/// How a durable flow is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    /// How often it is tried again after a failure that may pass: 3 unless it is said otherwise.
    pub retries: u32,
    /// How long what it did is kept: 7 days unless it is said otherwise.
    pub ttl: Duration,
}

impl Default for Durable {
    fn default() -> Self {
        Durable { retries: 3, ttl: Duration::from_secs(7 * 24 * 3600) }
    }
}

/// A flow with the name that clients ask for it by. Only a named one can be durable.
#[derive(Clone, Debug)]
pub struct NamedFlow {
    name: String,
    flow: Flow,
    durable: Option<Durable>,
}

impl NamedFlow {
    /// Keeps what its steps did under the client's run id, so that a request that is sent again goes on where the first one
    /// ended, and does and asks nothing twice.
    #[must_use]
    pub fn durable(mut self, durable: Durable) -> Self {
        self.durable = Some(durable);
        self
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The flow.
    #[must_use]
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    pub(crate) fn durability(&self) -> Option<Durable> {
        self.durable
    }
}
