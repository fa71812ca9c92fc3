//! The vocabulary of Placet as types.
//!
//! Everything else speaks in these words: [`item::Item`]s and [`part::Part`]s with their [`origin::Origins`],
//! [`event::Event`]s and the [`record`]s they are kept as, a [`turn::TurnRequest`] and the [`turn::TurnEvent`]s that
//! answer it, [`tool::ToolDefinition`]s and [`outcome::Outcome`]s, [`usage::Usage`], errors, secrets, and the [`env::Env`]
//! that is handed to whoever needs time, randomness, identity or tasks.
//!
//! # What it must never do
//!
//! No input or output: no file, no socket, no environment variable, no printing. Only [`mod@env`] touches the system, for
//! its clock, its randomness and its task runtime, and only where it is asked for [`env::Env::system`].
//!
//! # The serialised form
//!
//! JSON. Enums are objects with a `type` (or plain words); what this version does not know is kept and written back as it
//! came. Absent options are left out. Instants are integers of microseconds, money is a decimal text, arguments of tool
//! calls are the text that the model wrote.

pub mod accumulate;
mod billing;
pub mod embedding;
pub mod env;
pub mod error;
pub mod event;
pub mod hosted;
pub mod id;
pub mod item;
pub mod json_text;
pub mod limits;
mod open;
pub mod origin;
pub mod outcome;
pub mod output;
pub mod part;
pub mod price;
pub mod record;
pub mod redact;
pub mod secret;
pub mod time;
pub mod tool;
pub mod turn;
pub mod usage;

pub use accumulate::Accumulator;
pub use billing::{Billing, Markup};
pub use embedding::{EmbeddingRequest, Embeddings};
pub use env::{BoxFuture, Clock, Env, Random, Tasks};
pub use error::{Diagnose, ErrorKind, ProviderError};
pub use event::{Cursor, Event, EventBody};
pub use id::{ApprovalId, ArtifactId, CallId, CapabilityId, ItemId, ProviderId, RunId, SessionId, ToolName, TurnId};
pub use item::{Item, ItemBody, Message, Role};
pub use json_text::{JsonText, SharedText};
pub use limits::Limits;
pub use open::Unknown;
pub use origin::{Origin, Origins};
pub use outcome::{Cut, Outcome, Reason, Stage, Status, ToolResult};
pub use output::{FINAL_TOOL, OutputSpec, OutputStrategy};
pub use part::Part;
pub use price::{Circumstances, ModelPrice};
pub use record::{Chain, Digest, Record, Sealed};
pub use redact::{Redactions, Redactor};
pub use secret::Secret;
pub use time::Timestamp;
pub use tool::{Arguments, Effect, Schema, ToolCall, ToolDefinition};
pub use turn::{ProviderState, StopReason, ToolChoice, Turn, TurnEvent, TurnRequest};
pub use usage::{Money, Price, Usage};
