//! Flows: trees of agents that answer an exchange as a model would; inner and outer tools, durable flows, triggers.
//!
//! A [`Flow`] is built once, from [`Agent`]s and a small algebra ([`Flow::next`], [`Flow::select`], [`Flow::all`],
//! [`Flow::one`], [`Flow::group`], [`Flow::respond`], [`Flow::notify`], [`Flow::trigger`]). [`Flows`] serves flows by name:
//! an [`Exchange`] goes in, an [`Answer`] comes out as a stream of turn events. What a handler does it does with two handles:
//! a [`Caller`], which faces the client, and a [`Model`], which faces the model.
//!
//! ```
//! use placet_flows::{Agent, Exchange, Flow, Flows};
//! # use placet_core::{Env, Item, TurnRequest}; use std::sync::Arc;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), placet_flows::FlowError> {
//! # let store = Arc::new(placet_store::MemoryStore::new(Env::system().clock().clone()));
//! let runtime = placet_runtime::Runtime::new(Env::system(), store, [Arc::new(placet_models::Offline::new()) as _]);
//! let house = Flow::agent(Agent::new().model("offline:offline").handler(|caller: placet_flows::Caller, mut model: placet_flows::Model| async move {
//!     let reply = model.ask_with(caller.messages()).await?;
//!     caller.reply(reply.text().await?);
//!     Ok(())
//! }));
//! let flows = Flows::builder(runtime.clone()).flow(house.named("house")).build()?;
//!
//! let asked = Arc::new(Item::user(runtime.env().new_id(), "What is 6 * 7?"));
//! let request = TurnRequest { model: "house".into(), items: vec![asked], ..TurnRequest::default() };
//! let answer = flows.serve(Exchange::new(request)).await?;
//! assert!(!answer.collect().await?.text().is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! # What it must never do
//!
//! Know a protocol. Run a tool other than through a run of the runtime. Show a client a call of a tool that it did not
//! declare, or a call twice.

mod agent;
mod answer;
mod caller;
mod check;
mod conduct;
mod cx;
mod error;
mod exchange;
mod flow;
mod flows;
mod hook;
mod kept;
mod links;
mod memo;
mod model;
mod models;
mod observe;
mod outlet;
mod reply;
mod resolve;
mod serve;
mod state;
mod suspend;
mod tab;
mod transcript;
mod trigger;
mod walk;
mod work;
mod worker;

pub use agent::{Agent, Handler, MixedRounds};
pub use answer::{Answer, AnswerEvents};
pub use caller::{Caller, CallerStream, Checkpoint};
pub use error::{FlowError, Result};
pub use exchange::{Exchange, Principal};
pub use flow::{Durable, Flow, NamedFlow, Notice, Notify};
pub use flows::{Flows, FlowsBuilder, HookAnswer};
pub use links::{Linked, Links};
pub use model::Model;
pub use models::{ModelSpec, Models, ResolvedModel, Rung};
pub use observe::{FlowEvent, FlowHappening, FlowObserver, Recent, WorkDone, WorkObserver};
pub use placet_runtime::Output;
pub use reply::{Reply, ReplyEvents};
pub use tab::{Bill, Tab};
pub use transcript::Unanswered;
pub use trigger::Trigger;
pub use work::WorkTime;
