//! The gateway: any client, any provider, one name for each model.
//!
//! [`Config`] is what `placet.toml` says, checked whole; [`Gateway`] answers requests; [`Listener`] brings them in. A request
//! passes the door ([`Principal`] says who asks, a [`Limiter`] whether they may), its model's name leads to targets, and where
//! a target speaks the client's protocol the bytes are handed on, with usage read as they pass and one [`LedgerLine`] written
//! at the end. Other protocols are decoded and encoded by `placet-wire`.
//!
//! # What it must never do
//!
//! Let a client decide which address is asked, or show it a credential. End a stream that broke off as if it were whole.
//! Begin an answer at one provider and go on with another's. Make an answer wait for the ledger.

mod account;
mod agents;
mod approval;
mod behind;
mod boards;
mod body;
mod coding;
mod config;
mod door;
mod endpoint;
mod flows;
mod gateway;
mod headers;
mod kept;
mod lanes;
mod ledger;
mod limiter;
mod listen;
mod local;
mod metered;
mod metrics;
mod models;
mod mount;
mod opening;
mod passage;
mod principal;
mod refusal;
mod routing;
mod several;
mod side;
mod speech;
mod telling;
mod translate;
mod trial;
mod turn;
mod vendors;

pub use boards::{BoardsMount, board_answer};
pub use body::{Body, Broken, Pieces};
pub use config::{
    AgentEntry, ApprovalEntry, BoardsEntry, CapabilityEntry, Config, ConfigError, ErrorClass, FILE_NAME, FlowEntry,
    KeyEntry, Limits, ModelEntry, Problem, ProviderEntry, RouteEntry, StepEntry, Strategy, TargetEntry,
};
pub use flows::SetupError;
pub use gateway::{Gateway, Parts, ReloadError, Served, ServedFrom, reload};
pub use ledger::{Ledger, LedgerLine, read_ledger};
pub use limiter::{Asked, Limiter, Reservation, Spent, Unlimited};
pub use listen::Listener;
pub use mount::Mount;
pub use principal::Principal;
pub use refusal::Refusal;
pub use trial::try_out;
