//! Model providers: adapters, vendor rows, and the offline models.
//!
//! - [`ModelProvider`] is the seam: a request in, a stream of events out. [`Providers`] finds one for a reference such as
//!   `openai:gpt-5.4` ([`ModelRef`]); [`discover`] says which is used where nobody named one.
//! - [`Adapter`] speaks a [`Protocol`] to any server; vendors are rows of data ([`vendor::VENDORS`]).
//! - [`Catalog`] knows models, [`PriceBook`] what they cost.
//! - [`Offline`] (fixed rules that use tools), [`ScriptedModel`] and [`EchoModel`] need neither key nor network.
//!
//! # What it must never do
//!
//! Run a tool; show a credential; know a provider's field names (that is `placet-wire`); send anything again after the first
//! event of an answer.

pub mod adapter;
pub mod caches;
pub mod catalog;
pub mod credential;
pub mod discover;
pub mod echo;
pub mod offline;
pub mod prices;
pub mod probe;
pub mod profile;
pub mod provider;
pub mod providers;
pub mod reference;
pub mod scripted;
mod through;
pub mod vendor;

pub use adapter::{Adapter, AdapterOptions, Protocol};
pub use caches::{CacheEntry, CacheError, CacheRequest, CachedContent, Caches};
pub use catalog::{Catalog, CatalogModel, InvalidCatalog, Lifecycle};
pub use credential::{Credential, Lookup};
pub use discover::{Chosen, choose};
pub use echo::EchoModel;
pub use offline::Offline;
pub use prices::{PriceBook, PriceSource, UserPrices};
pub use probe::{Probe, ToolAnswer};
pub use profile::{Checked, Feature, FeatureSource, FeatureStatus, ONE_CALL, OutputStrategy, Profile, ProfileRules};
pub use provider::{AskContext, AskObserver, ModelListing, ModelProvider, SharedProvider, TurnStream, Used};
pub use providers::{Providers, ResolveError, ResolvedModel};
pub use reference::{InvalidModelRef, ModelRef};
pub use scripted::{Script, ScriptCall, ScriptFailure, ScriptTurn, ScriptedModel};
pub use through::{Asking, Through};
pub use vendor::vendor_base_url;
