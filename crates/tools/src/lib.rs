//! Tools, capabilities, grants, tool sets, and the one pipeline that every tool call passes.
//!
//! A model can only ask. Everything an agent can do comes from a [`Capability`] that somebody handed it as a [`Grant`]. A
//! [`Registry`] puts grants together, in order, and reports everything that is wrong with them at once. The [`Pipeline`]
//! passes each call through the same stages; the first that does not pass answers with an
//! [`Outcome`](placet_core::Outcome).
//!
//! ```
//! use placet_core::{Arguments, Env, ToolCall};
//! use placet_tools::{CallContext, Grant, Options, Pipeline, Registry, ToolError, tool};
//! # use schemars::JsonSchema; use serde::Deserialize;
//! #[derive(Deserialize, JsonSchema)]
//! struct Divide { dividend: f64, divisor: f64 }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let divide = tool("divide", "Divides one number by another.", |args: Divide, _cx| async move {
//!     if args.divisor == 0.0 {
//!         return Err(ToolError::mistaken("the divisor is 0; give another number").at("/divisor"));
//!     }
//!     Ok(args.dividend / args.divisor)
//! });
//! let pipeline = Pipeline::new(Registry::assemble([Grant::tool(divide)])?, Options::default());
//!
//! let env = Env::system();
//! let call = ToolCall {
//!     id: env.new_id(),
//!     provider_id: None,
//!     name: "divide".into(),
//!     arguments: Arguments::from_text(r#"{"dividend": 1, "divisor": 8}"#),
//!     native: None,
//! };
//! let result = pipeline.run(&call, CallContext::new(&env)).await?;
//! assert_eq!(result.outcome.text(), "0.125");
//! # Ok(())
//! # }
//! ```
//!
//! # What it must never do
//!
//! No input or output of its own, no knowledge of providers or models, no handler run but by the pipeline.

mod answer;
mod calls;
mod capability;
mod context;
mod pipeline;
mod policy;
mod proposal;
mod recorder;
mod registry;
pub mod schema;
mod set;
mod tool;
mod wiring;

pub use answer::{AsOutput, AsResult, AsValue, IntoAnswer, ToolError, ToolOutput};
pub use calls::{Admission, CallKey, CallLedger, KEPT_CALLS, LedgerFailure, MemoryCalls, NoCalls};
pub use capability::{Capability, Grant, Lifecycle, Ownership, PlainCapability, StartError, capability};
pub use context::{CallContext, Private, ToolContext, idempotency_key};
pub use pipeline::bound::{Bounds, Keep};
pub use pipeline::{Options, Pipeline, PipelineError, content_hash};
pub use policy::{
    AllowAll, Approver, ApproverFailure, Decision, Policy, PolicyFailure, PolicyFn, PolicyRequest, Verdict,
};
pub use proposal::{InvalidProposal, Proposal, parse_proposal};
pub use recorder::{NoRecorder, RecordFailure, Recorder};
pub use registry::Registry;
pub use schema::{NoArguments, Problem, Validator};
pub use set::{ToolSet, ToolSetError};
pub use tool::{AnyArguments, BoundTool, Concurrency, Definition, ToolBuilder, tool};
pub use wiring::{WiringError, WiringErrors};
