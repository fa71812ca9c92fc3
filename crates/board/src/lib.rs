//! The blackboard: one ordered record that many agents read and write, and the control component that decides what gets
//! onto it, tells agents of it, and ends the run.
//!
//! A *board* has regions: *levels*, which accumulate contributions, and *premises*, which hold one versioned value each. One
//! gapless counter numbers every write to any of them. A [`Control`] checks a proposed write (the key, the run, the region, the
//! writer's permission, the admission rule) and then commits it with everything that belongs to it at once: the write, its
//! key, the push of the idle deadline and the notifications it owes. An agent is written against [`AgentBoard`], in this
//! process or across HTTP.
//!
//! ```
//! use placet_board::{AgentBoard as _, BoardId, BoardSpec, Boards, Bounds, Content, Limits, Region, WriteRequest};
//! use placet_store::{MemoryStore, Tenant};
//! use std::sync::Arc;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> placet_board::Result<()> {
//! let env = placet_core::Env::system();
//! let store = Arc::new(MemoryStore::new(env.clock().clone()));
//! let boards = Boards::new(store, Tenant::new("acme"), &env);
//! let spec = BoardSpec::new(Limits::default()).region(Region::level("findings"));
//! let control = boards.open(&BoardId::new("incident-1")?, &spec).await?;
//!
//! let ann = control.as_agent("ann");
//! ann.write(WriteRequest::new("findings", Content::of(&"the disk is full")?)).await?;
//! let page = ann.read_level("findings", Bounds::from(0)).await?;
//! assert_eq!(page.items[0].content.as_str(), r#""the disk is full""#);
//! # Ok(()) }
//! ```
//!
//! # What it must never do
//!
//! Acknowledge a write that is not on the record with everything it owes. Know a model or a provider. Keep anything that
//! another process needs, but in the store.

mod agent_board;
mod boards;
mod client;
mod content;
mod control;
mod decision;
mod dispatch;
mod error;
pub mod http;
pub mod kit;
mod layout;
mod model;
mod name;
mod notify;
mod outgoing;
mod reader;
mod record;
mod request;
pub mod rules;
mod run;
mod snapshot;
mod stored;
mod sweep;
pub mod tools;
mod wire;

pub use agent_board::AgentBoard;
pub use boards::{BoardSummary, Boards, BoardsOptions, Delivery, Unsent};
pub use client::BoardClient;
pub use content::{Content, InvalidContent, MAX_DEPTH};
pub use control::{AgentProgress, BoardSpec, Control};
pub use decision::{Decision, DecisionRecord};
pub use error::{BoardError, Result};
pub use model::{Bounds, Change, Contribution, DEFAULT_PAGE, MAX_PAGE, Page, PremiseState, Region, RegionKind};
pub use name::{BoardId, MAX_NAME_BYTES};
pub use notify::{Agent, DeliveryFailure, Listener, Notification, Transport, listener};
pub use outgoing::{Outgoing, SIGNATURE_HEADER, signature};
pub use reader::Reader;
pub use record::{Deleted, Record};
pub use request::{Cause, Conflict, Rejected, SetRequest, WriteRequest, WriteResult, Written};
pub use run::{ClosedAs, Limits, Outcome, RunRecord};
pub use sweep::{Sweep, SweepOptions};
