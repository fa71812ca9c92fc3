//! Everything that can be wrong with how tools are put together, found before anything is sent.

use placet_core::error::{Diagnose, ErrorKind};
use placet_core::{CapabilityId, ToolName};
use std::fmt;

/// One thing that is wrong with how tools are put together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WiringError {
    /// A capability has no id.
    #[error("a capability has a blank id; give it one, for example \"files\"")]
    BlankCapability,
    /// Two capabilities have one id.
    #[error("the capability {id:?} is granted twice; grant it once, or give the two different ids")]
    DuplicateCapability {
        /// The id.
        id: CapabilityId,
    },
    /// A tool has no name.
    #[error("a tool of the capability {capability:?} has a blank name; give it one")]
    BlankName {
        /// Whose tool.
        capability: CapabilityId,
    },
    /// A tool has a name that is none.
    #[error(
        "{tool:?} of the capability {capability:?} is no name of a tool; use 1 to 128 letters, digits, `_`, `-`, `.`, \
         `:` and `/`, beginning with a letter or `_`"
    )]
    BadName {
        /// The name.
        tool: ToolName,
        /// Whose tool.
        capability: CapabilityId,
    },
    /// A tool does not say what it does.
    #[error("the tool {tool:?} of the capability {capability:?} has no description; a model has to know what it does")]
    NoDescription {
        /// The tool.
        tool: ToolName,
        /// Whose tool.
        capability: CapabilityId,
    },
    /// Two capabilities provide a tool of one name.
    #[error("the tool {tool:?} is provided by {first:?} and by {second:?}; rename one, or narrow a grant")]
    DuplicateTool {
        /// The name.
        tool: ToolName,
        /// Who provided it first.
        first: CapabilityId,
        /// Who provided it again.
        second: CapabilityId,
    },
    /// A grant names a tool that its capability does not have.
    #[error("a grant of the capability {capability:?} names the tool {tool:?}, which it does not have")]
    NoSuchTool {
        /// Whose grant.
        capability: CapabilityId,
        /// The name.
        tool: ToolName,
    },
    /// A handler does not fit the definition it was bound to, or the definition is broken.
    #[error("the tool {tool:?} is bound wrongly: {}", problems.join("; "))]
    BrokenBinding {
        /// The tool.
        tool: ToolName,
        /// What does not fit, each with its place.
        problems: Vec<String>,
    },
    /// A schema of arguments is none.
    #[error("the schema of the tool {tool:?} is not valid: {problem}")]
    InvalidSchema {
        /// The tool.
        tool: ToolName,
        /// What is wrong with it.
        problem: String,
    },
    /// An example in a description looks like JSON and is none.
    #[error(
        "the description of the tool {tool:?} shows {example}, which is no valid JSON ({problem}); models copy what they are shown"
    )]
    BadExample {
        /// The tool.
        tool: ToolName,
        /// The example.
        example: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The argument that is said to carry the revision is not among the properties of the schema.
    #[error("the tool {tool:?} names {argument:?} as its revision, which is no property of its schema")]
    NoRevisionArgument {
        /// The tool.
        tool: ToolName,
        /// The argument.
        argument: String,
    },
}

/// Everything that is wrong with how tools are put together, all at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WiringErrors(pub Vec<WiringError>);

impl WiringErrors {
    /// The single errors, in the order of the grants.
    pub fn iter(&self) -> impl Iterator<Item = &WiringError> {
        self.0.iter()
    }
}

impl fmt::Display for WiringErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => write!(f, "{only}"),
            many => {
                write!(f, "{} things are wrong with the tools:", many.len())?;
                many.iter().try_for_each(|error| write!(f, "\n- {error}"))
            }
        }
    }
}

impl std::error::Error for WiringErrors {}

impl Diagnose for WiringErrors {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Wiring
    }
}
