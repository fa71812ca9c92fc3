//! Capabilities: an id, instructions and bound tools, handed over together; and grants, which hand them over narrowed.

use crate::pipeline::bound::Bounds;
use crate::tool::{BoundTool, ToolBuilder};
use async_trait::async_trait;
use placet_core::{CapabilityId, Effect, Env, Outcome, RunId, ToolName};
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What a capability looks after itself. Redaction is never among it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// Its outputs are not bounded by the pipeline: it bounds them itself.
    pub bounds: bool,
    /// A repeated call reaches its handler: it tells repetitions apart itself.
    pub repeats: bool,
}

/// What starting and stopping come with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lifecycle {
    /// Time, randomness, identity and tasks.
    pub env: Env,
    /// The run that the capability is started for, where it is for one.
    pub run: Option<RunId>,
    /// Cancelled when whoever started it goes away.
    pub cancel: CancellationToken,
}

impl Lifecycle {
    /// A lifecycle outside of any run.
    #[must_use]
    pub fn new(env: &Env) -> Self {
        Lifecycle { env: env.clone(), run: None, cancel: CancellationToken::new() }
    }

    /// Of this run.
    #[must_use]
    pub fn of_run(mut self, run: RunId, cancel: CancellationToken) -> Self {
        self.run = Some(run);
        self.cancel = cancel;
        self
    }
}

/// A capability could not start.
#[derive(Debug, thiserror::Error)]
#[error("the capability {capability:?} could not start: {source}")]
pub struct StartError {
    /// Which one.
    pub capability: CapabilityId,
    /// Why.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Everything that an agent can do comes from one of these. [`capability`] makes a plain one; a type with state
/// implements the trait.
///
/// What belongs to one run (a root folder, a user's name) does not belong into [`Capability::instructions`]: they stand
/// before the conversation, and whatever changes there makes providers read everything anew.
#[async_trait]
pub trait Capability: Send + Sync {
    /// Its id, for journals and for who reads them.
    fn id(&self) -> CapabilityId;

    /// What the model is told of how to use its tools, appended to the system prompt.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// Its tools, in the order in which the model sees them. Asked once for each registry: build tools where the
    /// capability is made and hand out clones, so that each schema is compiled once.
    fn tools(&self) -> Vec<BoundTool>;

    /// What it looks after itself.
    fn ownership(&self) -> Ownership {
        Ownership::default()
    }

    /// Its own wording of an outcome that a stage of the pipeline, not its handler, is about to give to the model;
    /// `None` keeps the pipeline's. Not asked about tools that are unknown or were not granted.
    fn word(&self, tool: &ToolName, outcome: &Outcome) -> Option<String> {
        let _ = (tool, outcome);
        None
    }

    /// Gets ready, before the first turn.
    async fn start(&self, lifecycle: &Lifecycle) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let _ = lifecycle;
        Ok(())
    }

    /// Puts away what [`Capability::start`] made.
    async fn stop(&self, lifecycle: &Lifecycle) {
        let _ = lifecycle;
    }
}

/// A plain capability.
///
/// ```
/// use placet_tools::{NoArguments, capability, tool};
/// let clock = capability("clock")
///     .instructions("Ask for the time instead of guessing it.")
///     .tool(tool("now", "Tells the time, in UTC.", |_: NoArguments, cx| async move { cx.env().now().to_string() }));
/// ```
pub fn capability(id: impl Into<CapabilityId>) -> PlainCapability {
    PlainCapability { id: id.into(), instructions: None, tools: Vec::new(), ownership: Ownership::default() }
}

/// A capability without state of its own.
#[derive(Clone, Debug)]
pub struct PlainCapability {
    id: CapabilityId,
    instructions: Option<String>,
    tools: Vec<BoundTool>,
    ownership: Ownership,
}

impl PlainCapability {
    /// What the model is told of how to use its tools.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<BoundTool>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// What it looks after itself.
    #[must_use]
    pub fn owning(mut self, ownership: Ownership) -> Self {
        self.ownership = ownership;
        self
    }
}

#[async_trait]
impl Capability for PlainCapability {
    fn id(&self) -> CapabilityId {
        self.id.clone()
    }

    fn instructions(&self) -> Option<String> {
        self.instructions.clone()
    }

    fn tools(&self) -> Vec<BoundTool> {
        self.tools.clone()
    }

    fn ownership(&self) -> Ownership {
        self.ownership
    }
}

/// A capability handed over, narrowed to what may be used of it.
#[derive(Clone)]
pub struct Grant {
    pub(crate) capability: Arc<dyn Capability>,
    pub(crate) only: Option<Vec<ToolName>>,
    pub(crate) read_only: bool,
    pub(crate) unredacted: bool,
    pub(crate) preapproved: bool,
    pub(crate) asks: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) bounds: Option<Bounds>,
}

impl Grant {
    /// All of a capability.
    pub fn new(capability: impl Capability + 'static) -> Self {
        Grant::of(Arc::new(capability))
    }

    /// All of a shared capability.
    #[must_use]
    pub fn of(capability: Arc<dyn Capability>) -> Self {
        Grant {
            capability,
            only: None,
            read_only: false,
            unredacted: false,
            preapproved: false,
            asks: false,
            timeout: None,
            bounds: None,
        }
    }

    /// One tool, as a capability of its own whose id is the tool's name.
    pub fn tool(tool: impl Into<BoundTool>) -> Self {
        let tool = tool.into();
        Grant::new(capability(tool.name().as_str()).tool(tool))
    }

    /// Only these of its tools. The others are as good as unknown to the model.
    #[must_use]
    pub fn only<N: Into<ToolName>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.only = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Only those of its tools whose effect is *read*.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Switches redaction off for this grant. Journal and console show it with every outcome.
    #[must_use]
    pub fn unredacted(mut self) -> Self {
        self.unredacted = true;
        self
    }

    /// Lifts the tools' own wish to ask a human first. A policy still may ask or deny.
    #[must_use]
    pub fn preapproved(mut self) -> Self {
        self.preapproved = true;
        self
    }

    /// Asks a human before each call of those of its tools whose effect is not *read*, whatever the tools themselves say.
    #[must_use]
    pub fn ask_first(mut self) -> Self {
        self.asks = true;
        self
    }

    /// How long a handler may take at most; the shorter of this and the tool's own timeout counts.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How much of an output is kept, in place of what the tools say.
    #[must_use]
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = Some(bounds);
        self
    }

    pub(crate) fn covers(&self, tool: &BoundTool) -> bool {
        (!self.read_only || tool.effect() == Effect::Read)
            && self.only.as_ref().is_none_or(|only| only.contains(tool.name()))
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("capability", &self.capability.id())
            .field("only", &self.only)
            .field("read_only", &self.read_only)
            .field("unredacted", &self.unredacted)
            .finish_non_exhaustive()
    }
}

impl<C: Capability + 'static> From<C> for Grant {
    fn from(capability: C) -> Self {
        Grant::new(capability)
    }
}

impl From<Arc<dyn Capability>> for Grant {
    fn from(capability: Arc<dyn Capability>) -> Self {
        Grant::of(capability)
    }
}

impl From<BoundTool> for Grant {
    fn from(tool: BoundTool) -> Self {
        Grant::tool(tool)
    }
}

impl<T: DeserializeOwned + Send + Sync + 'static> From<ToolBuilder<T>> for Grant {
    fn from(tool: ToolBuilder<T>) -> Self {
        Grant::tool(tool)
    }
}
