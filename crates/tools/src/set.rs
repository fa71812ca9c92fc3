//! Tool sets: tools that code runs by itself, without a runtime or a model client; and every tool as plain JSON.

use crate::capability::Grant;
use crate::context::CallContext;
use crate::pipeline::{Options, Pipeline, PipelineError};
use crate::registry::Registry;
use crate::tool::{BoundTool, Definition};
use crate::wiring::{WiringError, WiringErrors};
use placet_core::error::{Diagnose, ErrorKind};
use placet_core::{CapabilityId, Effect, ToolCall, ToolDefinition, ToolName, ToolResult};
use placet_wire::tools;
use serde_json::Value;
use std::sync::Arc;

/// Some tools, in order, to be rendered for a provider and run when it asks.
///
/// ```
/// use placet_tools::{NoArguments, ToolSet, tool};
/// let set = ToolSet::new([tool("now", "Tells the time.", |_: NoArguments, cx| async move { cx.env().now().to_string() })]);
/// assert_eq!(set.to_openai_chat()?[0]["function"]["name"], "now");
/// assert!(set.owns("now") && !set.owns("then"));
/// # Ok::<_, placet_tools::WiringErrors>(())
/// ```
#[derive(Clone, Debug)]
pub struct ToolSet {
    grants: Vec<Grant>,
    options: Options,
    pipeline: Result<Pipeline, WiringErrors>,
}

impl ToolSet {
    /// A set of tools, capabilities or grants. What is wrong with them is reported by the first use.
    pub fn new(grants: impl IntoIterator<Item = impl Into<Grant>>) -> Self {
        ToolSet::with(grants.into_iter().map(Into::into).collect(), Options::default())
    }

    fn with(grants: Vec<Grant>, options: Options) -> Self {
        let pipeline =
            Registry::assemble(grants.iter().cloned()).map(|registry| Pipeline::new(registry, options.clone()));
        ToolSet { grants, options, pipeline }
    }

    /// The same tools on other ground: another policy, bounds, recorder …
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        ToolSet::with(self.grants, options)
    }

    /// Whether it holds a tool of this name.
    #[must_use]
    pub fn owns(&self, name: &str) -> bool {
        self.pipeline.as_ref().is_ok_and(|pipeline| pipeline.registry().get(&ToolName::new(name)).is_some())
    }

    /// Only these of its tools, in the set's own order. A name that it does not hold is reported by the first use.
    #[must_use]
    pub fn select<N: Into<ToolName>>(&self, names: impl IntoIterator<Item = N>) -> Self {
        let names: Vec<ToolName> = names.into_iter().map(Into::into).collect();
        let mut narrowed = self.narrowed(|tool| names.contains(tool.name()));
        let missing = names
            .into_iter()
            .filter(|name| !self.owns(name.as_str()))
            .map(|tool| WiringError::NoSuchTool { capability: CapabilityId::new("tool set"), tool });
        let missing: Vec<_> = missing.collect();
        if !missing.is_empty() && self.pipeline.is_ok() {
            narrowed.pipeline = Err(WiringErrors(missing));
        }
        narrowed
    }

    /// Only those of its tools whose effect is *read*.
    #[must_use]
    pub fn read_only(&self) -> Self {
        self.narrowed(|tool| tool.effect() == Effect::Read)
    }

    fn narrowed(&self, keep: impl Fn(&BoundTool) -> bool) -> Self {
        let grants = self.grants.iter().map(|grant| {
            let tools = grant.capability.tools();
            let names = tools.iter().filter(|tool| grant.covers(tool) && keep(tool)).map(|tool| tool.name().clone());
            grant.clone().only(names.collect::<Vec<_>>())
        });
        ToolSet::with(
            grants.filter(|grant| grant.only.as_ref().is_some_and(|only| !only.is_empty())).collect(),
            self.options.clone(),
        )
    }

    /// The definitions, in order.
    ///
    /// # Errors
    /// [`WiringErrors`] when something is wrong with the tools.
    pub fn definitions(&self) -> Result<&[Arc<ToolDefinition>], WiringErrors> {
        self.pipeline.as_ref().map(|pipeline| pipeline.registry().definitions()).map_err(Clone::clone)
    }

    /// Runs one call through the pipeline.
    ///
    /// # Errors
    /// [`ToolSetError::NotOurs`] for a name that the set does not hold, so that callers route their own calls;
    /// [`ToolSetError::Wiring`] when something is wrong with the tools; [`ToolSetError::Pipeline`] when what the
    /// pipeline stands on failed. What the tool answers, refusals and failures included, is a result.
    pub async fn run(&self, call: &ToolCall, cx: CallContext) -> Result<ToolResult, ToolSetError> {
        let pipeline = self.pipeline.as_ref().map_err(|errors| ToolSetError::Wiring(errors.clone()))?;
        if pipeline.registry().get(&call.name).is_none() {
            return Err(ToolSetError::NotOurs { name: call.name.clone() });
        }
        Ok(pipeline.run(call, cx).await?)
    }

    /// The tools as the `tools` field of Anthropic Messages has them.
    ///
    /// # Errors
    /// [`WiringErrors`] when something is wrong with the tools.
    pub fn to_anthropic(&self) -> Result<Value, WiringErrors> {
        self.definitions().map(|all| tools::anthropic_all(all.iter().map(AsRef::as_ref)))
    }

    /// The tools as the `tools` field of OpenAI Responses has them.
    ///
    /// # Errors
    /// [`WiringErrors`] when something is wrong with the tools.
    pub fn to_openai_responses(&self) -> Result<Value, WiringErrors> {
        self.definitions().map(|all| tools::openai_responses_all(all.iter().map(AsRef::as_ref)))
    }

    /// The tools as the `tools` field of OpenAI Chat has them.
    ///
    /// # Errors
    /// [`WiringErrors`] when something is wrong with the tools.
    pub fn to_openai_chat(&self) -> Result<Value, WiringErrors> {
        self.definitions().map(|all| tools::openai_chat_all(all.iter().map(AsRef::as_ref)))
    }

    /// The tools as the `tools` field of Gemini has them.
    ///
    /// # Errors
    /// [`WiringErrors`] when something is wrong with the tools.
    pub fn to_gemini(&self) -> Result<Value, WiringErrors> {
        self.definitions().map(|all| tools::gemini_all(all.iter().map(AsRef::as_ref)))
    }

    /// The tools as an MCP server lists them.
    ///
    /// # Errors
    /// [`WiringErrors`] when something is wrong with the tools.
    pub fn to_mcp(&self) -> Result<Value, WiringErrors> {
        self.definitions().map(|all| tools::mcp_all(all.iter().map(AsRef::as_ref)))
    }
}

/// One tool as plain JSON. A tool with something wrong is not rendered: nothing of it reaches a provider.
macro_rules! forms {
    ($($(#[$doc:meta])* $name:ident => $form:path;)*) => {
        impl BoundTool {
            $($(#[$doc])*
            ///
            /// # Errors
            /// [`WiringErrors`] when something is wrong with the tool.
            pub fn $name(&self) -> Result<Value, WiringErrors> {
                self.sound().map(|()| $form(self.definition()))
            })*
        }

        impl Definition {
            $($(#[$doc])*
            ///
            /// # Errors
            /// [`WiringErrors`] when something is wrong with the definition.
            pub fn $name(&self) -> Result<Value, WiringErrors> {
                self.sound().map(|()| $form(self.as_definition()))
            })*
        }
    };
}
forms! {
    /// The tool for Anthropic Messages.
    to_anthropic => tools::anthropic;
    /// The tool for OpenAI Responses.
    to_openai_responses => tools::openai_responses;
    /// The tool for OpenAI Chat.
    to_openai_chat => tools::openai_chat;
    /// The tool as a function declaration for Gemini.
    to_gemini => tools::gemini;
    /// The tool as an MCP server lists it.
    to_mcp => tools::mcp;
}

impl BoundTool {
    fn sound(&self) -> Result<(), WiringErrors> {
        let problems = self.problems(&CapabilityId::new(self.name().as_str()));
        if problems.is_empty() { Ok(()) } else { Err(WiringErrors(problems)) }
    }
}

impl Definition {
    fn sound(&self) -> Result<(), WiringErrors> {
        let tool = self.as_definition().name.clone();
        if self.problems().is_empty() {
            Ok(())
        } else {
            Err(WiringErrors(vec![WiringError::BrokenBinding { tool, problems: self.problems().to_vec() }]))
        }
    }
}

/// A tool set could not run a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolSetError {
    /// The set does not hold the tool.
    #[error("this tool set does not hold the tool {name:?}; hand the call to whoever declared it")]
    NotOurs {
        /// The name.
        name: ToolName,
    },
    /// Something is wrong with the tools.
    #[error(transparent)]
    Wiring(WiringErrors),
    /// What the pipeline stands on failed.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
}

impl Diagnose for ToolSetError {
    fn kind(&self) -> ErrorKind {
        match self {
            ToolSetError::NotOurs { .. } => ErrorKind::NotFound,
            ToolSetError::Wiring(_) => ErrorKind::Wiring,
            ToolSetError::Pipeline(error) => error.kind(),
        }
    }
}
