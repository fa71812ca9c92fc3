//! Model providers: adapters, vendor rows, and the offline models.

pub mod echo;
pub mod provider;
pub mod scripted;

pub use echo::EchoModel;
pub use provider::{AskContext, AskObserver, ModelListing, ModelProvider, SharedProvider, TurnStream};
pub use scripted::{Script, ScriptCall, ScriptFailure, ScriptTurn, ScriptedModel};
