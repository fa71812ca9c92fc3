//! The model asks; your code decides.
//!
//! An agent starts with nothing. What it can do, you hand it as a tool or a capability; every call that the model asks
//! for passes one pipeline of checks, runs at most once, and is written down.
//!
//! ```
//! use placet::{Runtime, tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Sum { expression: String }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime: Runtime = placet::in_memory();
//! let add = tool("add", "Adds whole numbers, as in 1 + 2.", |sum: Sum, _cx| async move {
//!     sum.expression.split('+').map(|n| n.trim().parse::<i64>()).sum::<Result<i64, _>>().map_err(|e| e.to_string())
//! });
//! let result = runtime.run("offline:offline").input("What is 19 + 23?").tool(add).await?;
//! assert!(result.text.contains("42"));
//! # Ok(())
//! # }
//! ```
//!
//! `offline` is a model that needs no key and no network. It is no language model: it understands a small set of
//! requests, but it uses tools exactly as a real one does.
//!
//! With a key in hand (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, `GEMINI_API_KEY` …), [`from_environment`] gives a runtime that
//! knows the real ones too:
//!
//! ```no_run
//! # async fn example() -> Result<(), placet::RuntimeError> {
//! let runtime = placet::from_environment()?;
//! let result = runtime.run("openai:gpt-5.4").input("Say hello.").await?;
//! println!("{}", result.text);
//! # Ok(())
//! # }
//! ```
//!
//! An answer can be a value of a type. It is held to the type's schema, whatever the model at hand can; one that misses it is
//! told what is wrong and asked again, and what fails says why:
//!
//! ```
//! use placet::test::{Bench, Script, ScriptTurn};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Count { files: u32 }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let bench = Bench::new(Script::new([ScriptTurn::text("Two, I think."), ScriptTurn::text(r#"{"files": 2}"#)]));
//! let result = bench.run("How many files are there?").output::<Count>().await?;
//! assert_eq!(result.parse::<Count>()?.files, 2);
//! assert_eq!(result.rejected[0].problems.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//!
//! | module | holds |
//! |---|---|
//! | [`runtime`] | runs: start, watch, cancel, resume; answers of a type |
//! | [`tools`] | tools, capabilities, grants, the pipeline, policies and approvals |
//! | [`models`] | providers: OpenAI-compatible servers, and the offline ones |
//! | [`store`] | where runs are kept: in memory; `sqlite` and `postgres` are features |
//! | [`observe`] | journals: replay, diff, export, audit |
//! | `workspace` | files, commands and a calculator as capabilities; a feature |
//! | `flows` | trees of agents behind a model's name; a feature |
//! | `server` | the gateway, for programs that serve flows and models; a feature |
//! | [`net`] | the HTTP client that all of these share |
//! | `board` | blackboards: one ordered record that many agents read and write; a feature |
//! | [`core`] | the words that all of these speak in |
//! | [`mod@test`] | scripted models, a manual clock and checks on journals, for your own tests |

#[cfg(feature = "board")]
pub use placet_board as board;
pub use placet_core as core;
#[cfg(feature = "flows")]
pub use placet_flows as flows;
pub use placet_models as models;
pub use placet_net as net;
pub use placet_observe as observe;
pub use placet_runtime as runtime;
#[cfg(feature = "server")]
pub use placet_server as server;
pub use placet_store as store;
pub use placet_tools as tools;
#[cfg(feature = "workspace")]
pub use placet_workspace as workspace;

pub mod test;

pub use placet_core::{Effect, Env, Event, EventBody, Item, Limits, Origin, Redactor, RunId, Secret, ToolDefinition};
pub use placet_models::ModelProvider;
pub use placet_runtime::{Ending, Output, OutputError, RunBuilder, RunHandle, RunResult, Runtime, RuntimeError};
pub use placet_store::MemoryStore;
pub use placet_tools::{Capability, Grant, ToolContext, ToolError, ToolOutput, ToolSet, capability, tool};

use placet_net::{Client, ClientOptions, ProxySettings};
use std::sync::Arc;

/// A runtime that keeps its runs in memory and knows the models that need no key and no network: `offline` and `echo`.
///
/// [`from_environment`] gives one that knows real models too, and [`Runtime::builder`] sets up others.
#[must_use]
pub fn in_memory() -> Runtime {
    let env = Env::system();
    let store = Arc::new(MemoryStore::new(env.clock().clone()));
    Runtime::builder(env, store)
        .provider(Arc::new(models::Offline::new()))
        .provider(Arc::new(models::EchoModel::default()))
        .build()
}

/// A runtime that keeps its runs in memory and knows every provider that has a name here, with keys, addresses and proxies
/// from the environment: `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `ANTHROPIC_API_KEY`, `HTTPS_PROXY` … A key is looked up when its
/// provider is first asked, so one that is missing is an error of that run.
///
/// # Errors
/// [`RuntimeError::Wiring`] with every address and proxy of the environment that is none.
pub fn from_environment() -> Result<Runtime, RuntimeError> {
    let wiring = |problems| RuntimeError::Wiring { problems: runtime::Problems(problems) };
    let lookup: models::Lookup = Arc::new(|name: &str| variable(name));
    let env = Env::system();
    let proxies = ProxySettings::from_vars(variable).map_err(|error| wiring(vec![error.to_string()]))?;
    let client = Client::new(ClientOptions::default().proxies(proxies), env.clone());
    let client = client.map_err(|error| wiring(vec![error.to_string()]))?;
    let providers = models::Providers::standard(&client, &lookup);
    let providers = providers.map_err(|problems| wiring(problems.iter().map(ToString::to_string).collect()))?;
    let store = Arc::new(MemoryStore::new(env.clock().clone()));
    let known = providers.ids().filter_map(|id| providers.get(id.as_str()));
    Ok(known.fold(Runtime::builder(env, store), |builder, provider| builder.provider(provider.clone())).build())
}

#[expect(clippy::disallowed_methods, reason = "the one place of the library that reads the environment, when asked to")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
