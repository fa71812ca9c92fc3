//! The shape that a run's answer must have.

use crate::item::Item;
use crate::turn::OutputFormat;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The tool that a model submits its answer with, where the answer comes that way. The loop owns it: no capability has it, and
/// a valid call of it ends the run.
pub const FINAL_TOOL: &str = "submit_final_output";

/// A way to an answer in a given shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStrategy {
    /// The provider holds the model to the schema.
    ProviderNative,
    /// The model calls a tool whose arguments are the answer.
    FinalizerTool,
    /// The answer's text is read as JSON and held against the schema.
    PosthocParse,
    /// As before, and the model is told what is wrong and asked again.
    PosthocParseWithRetry,
}

impl OutputStrategy {
    /// All of them, the surest first.
    pub const ALL: [OutputStrategy; 4] = [
        OutputStrategy::ProviderNative,
        OutputStrategy::FinalizerTool,
        OutputStrategy::PosthocParse,
        OutputStrategy::PosthocParseWithRetry,
    ];

    /// Its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            OutputStrategy::ProviderNative => "provider_native",
            OutputStrategy::FinalizerTool => "finalizer_tool",
            OutputStrategy::PosthocParse => "posthoc_parse",
            OutputStrategy::PosthocParseWithRetry => "posthoc_parse_with_retry",
        }
    }
}

impl fmt::Display for OutputStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The shape that a run's answer must have, and the way to it: as the start of the run records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputSpec {
    /// The shape. Answers are held to its schema, whatever form of it the provider is sent.
    pub format: OutputFormat,
    /// How the model is brought to it. Its instructions, and its tools, are those of the start and what this adds.
    pub strategy: OutputStrategy,
    /// The way that is taken in its place where the provider refuses the request; absent where the run fails then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<OutputStrategy>,
    /// How often a model that missed the shape is told so and asked again.
    pub repairs: u32,
}

/// An answer did not have the shape that it must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputRejected {
    /// The number of the turn that answered, from 1.
    pub turn: u32,
    /// What is wrong with it.
    pub problems: Vec<String>,
    /// What the model is told of it, as a part of the conversation; absent where it is not asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Arc<Item>>,
}

/// The provider refused a request with the wanted shape, and another way is taken from here on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFallback {
    /// The way that was tried.
    pub from: OutputStrategy,
    /// The way that is taken.
    pub to: OutputStrategy,
    /// What the provider said, redacted.
    pub because: String,
}
