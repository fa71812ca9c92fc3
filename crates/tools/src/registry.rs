//! The ordered registry: grants flattened into tools, checked once, the same bytes from turn to turn.

use crate::capability::{Capability, Grant, Lifecycle, Ownership, StartError};
use crate::pipeline::bound::Bounds;
use crate::schema::Validator;
use crate::tool::BoundTool;
use crate::wiring::{WiringError, WiringErrors};
use futures_util::FutureExt;
use indexmap::IndexMap;
use placet_core::env::panic_text;
use placet_core::event::GrantRecord;
use placet_core::{CapabilityId, Effect, SharedText, ToolDefinition, ToolName};
use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// What one agent was handed, in the order in which it was handed over. Cheap to clone.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    capabilities: Vec<Arc<dyn Capability>>,
    granted: IndexMap<ToolName, Arc<Entry>>,
    withheld: HashMap<ToolName, CapabilityId>,
    definitions: Vec<Arc<ToolDefinition>>,
    records: Vec<GrantRecord>,
    instructions: Option<Arc<str>>,
}

/// A granted tool with all that its grant and its capability say of it.
pub(crate) struct Entry {
    pub(crate) tool: BoundTool,
    pub(crate) capability: CapabilityId,
    pub(crate) holder: Arc<dyn Capability>,
    pub(crate) validator: Arc<Validator>,
    pub(crate) ownership: Ownership,
    pub(crate) unredacted: bool,
    pub(crate) preapproved: bool,
    pub(crate) asks: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) bounds: Option<Bounds>,
}

/// What a registry knows of a name.
pub(crate) enum Known<'a> {
    /// It was granted.
    Granted(&'a Arc<Entry>),
    /// A capability has it, but it was not granted.
    Withheld(&'a CapabilityId),
    /// Nobody has it.
    Unknown,
}

impl Registry {
    /// Puts grants together, in order.
    ///
    /// # Errors
    /// [`WiringErrors`]: everything that is wrong, all at once.
    pub fn assemble(grants: impl IntoIterator<Item = impl Into<Grant>>) -> Result<Self, WiringErrors> {
        let mut assembly = Assembly::default();
        for grant in grants {
            assembly.add(grant.into());
        }
        assembly.finish()
    }

    /// A registry of nothing: every call is refused.
    #[must_use]
    pub fn empty() -> Self {
        Assembly::default().registry()
    }

    /// The definitions that a model is told of, in order.
    #[must_use]
    pub fn definitions(&self) -> &[Arc<ToolDefinition>] {
        &self.0.definitions
    }

    /// The instructions of the capabilities, in order, one a line; they go below the system prompt.
    #[must_use]
    pub fn instructions(&self) -> Option<&Arc<str>> {
        self.0.instructions.as_ref()
    }

    /// The system prompt with the instructions below it, a blank line between.
    #[must_use]
    pub fn instruct(&self, system: Option<&str>) -> Option<SharedText> {
        match (system.filter(|text| !text.trim().is_empty()), &self.0.instructions) {
            (Some(system), Some(own)) => Some([system, "\n\n", own].concat().into()),
            (Some(system), None) => Some(system.into()),
            (None, own) => own.clone().map(SharedText::from),
        }
    }

    /// A granted tool.
    #[must_use]
    pub fn get(&self, name: &ToolName) -> Option<&BoundTool> {
        self.0.granted.get(name).map(|entry| &entry.tool)
    }

    /// The capability that holds a granted tool.
    #[must_use]
    pub fn capability_of(&self, name: &ToolName) -> Option<&CapabilityId> {
        self.0.granted.get(name).map(|entry| &entry.capability)
    }

    /// The granted tools, in order.
    pub fn tools(&self) -> impl Iterator<Item = &BoundTool> {
        self.0.granted.values().map(|entry| &entry.tool)
    }

    /// What was granted, as the start of a run records it.
    #[must_use]
    pub fn grant_records(&self) -> Vec<GrantRecord> {
        self.0.records.clone()
    }

    /// Starts the capabilities in order. Where one cannot start, those before it are stopped again.
    ///
    /// # Errors
    /// [`StartError`] naming the capability.
    pub async fn start(&self, lifecycle: &Lifecycle) -> Result<(), StartError> {
        for (place, capability) in self.0.capabilities.iter().enumerate() {
            let started = AssertUnwindSafe(capability.start(lifecycle)).catch_unwind().await;
            let source = match started {
                Ok(Ok(())) => continue,
                Ok(Err(source)) => source,
                Err(panic) => panic_text(panic.as_ref()).into(),
            };
            self.stop_first(place, lifecycle).await;
            return Err(StartError { capability: capability.id(), source });
        }
        Ok(())
    }

    /// Stops the capabilities, the last one first.
    pub async fn stop(&self, lifecycle: &Lifecycle) {
        self.stop_first(self.0.capabilities.len(), lifecycle).await;
    }

    async fn stop_first(&self, count: usize, lifecycle: &Lifecycle) {
        for capability in self.0.capabilities[..count].iter().rev() {
            if let Err(panic) = AssertUnwindSafe(capability.stop(lifecycle)).catch_unwind().await {
                tracing::error!(capability = %capability.id(), panic = panic_text(panic.as_ref()), "a capability panicked while stopping");
            }
        }
    }

    pub(crate) fn look_up(&self, name: &ToolName) -> Known<'_> {
        match self.0.granted.get(name) {
            Some(entry) => Known::Granted(entry),
            None => self.0.withheld.get(name).map_or(Known::Unknown, Known::Withheld),
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("tools", &self.0.granted.keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Assembly {
    capabilities: Vec<Arc<dyn Capability>>,
    granted: IndexMap<ToolName, Arc<Entry>>,
    names: HashMap<ToolName, CapabilityId>,
    withheld: HashMap<ToolName, CapabilityId>,
    records: Vec<GrantRecord>,
    instructions: Vec<String>,
    errors: Vec<WiringError>,
}

impl Assembly {
    fn add(&mut self, grant: Grant) {
        let id = grant.capability.id();
        if id.as_str().trim().is_empty() {
            self.errors.push(WiringError::BlankCapability);
        } else if self.records.iter().any(|record| record.capability == id) {
            self.errors.push(WiringError::DuplicateCapability { id: id.clone() });
        }
        let tools = grant.capability.tools();
        for name in grant.only.iter().flatten() {
            if !tools.iter().any(|tool| tool.name() == name) {
                self.errors.push(WiringError::NoSuchTool { capability: id.clone(), tool: name.clone() });
            }
        }
        let mut granted = Vec::new();
        for tool in tools {
            if grant.covers(&tool) {
                granted.push(tool.definition().clone());
                self.add_tool(&grant, &id, tool);
            } else {
                self.withheld.entry(tool.name().clone()).or_insert_with(|| id.clone());
            }
        }
        let instructions = grant.capability.instructions().filter(|text| !text.trim().is_empty());
        self.instructions.extend(instructions);
        self.records.push(GrantRecord { capability: id, tools: granted, unredacted: grant.unredacted });
        self.capabilities.push(grant.capability);
    }

    fn add_tool(&mut self, grant: &Grant, id: &CapabilityId, tool: BoundTool) {
        let problems = tool.problems(id);
        let sound = problems.is_empty();
        self.errors.extend(problems);
        if let Some(first) = self.names.get(tool.name()) {
            let (first, second) = (first.clone(), id.clone());
            self.errors.push(WiringError::DuplicateTool { tool: tool.name().clone(), first, second });
            return;
        }
        self.names.insert(tool.name().clone(), id.clone());
        // A tool with a problem ends in an error anyway, and one without has a validator.
        let Some(validator) = tool.validator().filter(|_| sound).cloned() else { return };
        let timeout = match (grant.timeout, tool.timeout()) {
            (Some(grant), Some(own)) => Some(grant.min(own)),
            (grant, own) => grant.or(own),
        };
        let entry = Entry {
            capability: id.clone(),
            holder: grant.capability.clone(),
            validator,
            ownership: grant.capability.ownership(),
            unredacted: grant.unredacted,
            preapproved: grant.preapproved,
            asks: grant.asks && tool.effect() != Effect::Read,
            timeout,
            bounds: grant.bounds.or(tool.settings().bounds),
            tool,
        };
        self.granted.insert(entry.tool.name().clone(), Arc::new(entry));
    }

    fn finish(self) -> Result<Registry, WiringErrors> {
        if self.errors.is_empty() { Ok(self.registry()) } else { Err(WiringErrors(self.errors)) }
    }

    fn registry(self) -> Registry {
        let definitions = self.granted.values().map(|entry| entry.tool.definition().clone()).collect();
        let instructions = (!self.instructions.is_empty()).then(|| self.instructions.join("\n").into());
        Registry(Arc::new(Inner {
            capabilities: self.capabilities,
            granted: self.granted,
            withheld: self.withheld,
            definitions,
            records: self.records,
            instructions,
        }))
    }
}
