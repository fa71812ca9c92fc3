//! Model providers: adapters, vendor rows, and the offline models.

pub mod provider;

pub use provider::{AskContext, AskObserver, ModelListing, ModelProvider, SharedProvider, TurnStream};
