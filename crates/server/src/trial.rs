//! Whether a configuration can be served: everything is put together as serving it would, and let go again.

use crate::config::{Config, ConfigError, Problem};
use crate::flows::{Ground, SetupError, capability_errors};
use crate::gateway::Snapshot;
use crate::metrics::Metrics;
use crate::routing::Upstream;
use crate::telling::chain;
use placet_core::{Diagnose as _, Env};
use placet_flows::FlowError;
use placet_models::Providers;
use placet_net::Client;
use placet_store::{MemoryStore, SharedStore, Tenant};
use std::sync::Arc;

/// Puts together everything that a configuration names: what reading it alone cannot tell to be wrong, this tells. Nothing is
/// asked, started or written.
///
/// # Errors
/// [`ConfigError`] with everything that could not be put together, each with the line of what it belongs to.
pub fn try_out(config: &Config, env: &Env, client: &Client) -> Result<(), ConfigError> {
    let store: SharedStore = Arc::new(MemoryStore::new(env.clock().clone()));
    let tenant = Tenant::new("trial");
    let ground = Ground { env, client, store: &store, tenant: &tenant, ledger: None };
    let mut problems = Vec::new();
    for (name, entry) in &config.providers {
        if let Err(error) = Upstream::new(name, entry, config, &Providers::new()) {
            problems.push(problem(entry.line, format!("providers.{name}"), &error, error.hints()));
        }
    }
    for (name, error) in capability_errors(config, &ground) {
        let line = config.capability_lines.get(&name).copied().unwrap_or(1);
        problems.push(problem(line, format!("capabilities.{name}"), &error, error.hints()));
    }
    if problems.is_empty()
        && let Err(error) = Snapshot::new(config.clone(), &Arc::new(Metrics::default()), None, &ground)
    {
        match &error {
            SetupError::Flows(FlowError::Wiring { problems: wrong }) => {
                problems.extend(wrong.0.iter().map(|text| wiring(config, text)));
            }
            SetupError::Model { agent, .. } => {
                let (line, section) = asker(config, agent);
                let setting = format!("{section}.{agent}.model");
                problems.push(problem(line, setting, &error, error.hints()));
            }
            error => problems.push(problem(1, String::new(), error, error.hints())),
        }
    }
    problems.sort_by_key(|problem| problem.line);
    if problems.is_empty() {
        return Ok(());
    }
    let file = config.file.as_ref().map_or("the environment".to_owned(), |file| file.display().to_string());
    Err(ConfigError { file, problems })
}

fn problem(line: usize, setting: String, error: &(dyn std::error::Error + 'static), hints: Vec<String>) -> Problem {
    Problem { line, setting, problem: chain(error), hint: hints.into_iter().next() }
}

/// What is wrong with how agents are put together, where it stands.
fn wiring(config: &Config, text: &str) -> Problem {
    let names = config.agents.keys().chain(config.flows.keys());
    let is_of = |name: &&String| text.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with([':', ' ']));
    let (line, setting) = match names.filter(is_of).max_by_key(|name| name.len()) {
        Some(name) => {
            let (line, section) = asker(config, name);
            (line, format!("{section}.{name}"))
        }
        None => (1, String::new()),
    };
    Problem { line, setting, problem: text.to_owned(), hint: None }
}

/// The line and the section of an agent or a flow.
fn asker(config: &Config, name: &str) -> (usize, &'static str) {
    match (config.agents.get(name), config.flows.get(name)) {
        (Some(agent), _) => (agent.line, "agents"),
        (None, Some(flow)) => (flow.line, "flows"),
        (None, None) => (1, "agents"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use placet_net::ClientOptions;
    use std::path::Path;

    fn told(text: &str) -> String {
        let lookup: placet_models::Lookup = Arc::new(|name| (name == "BAD").then(|| "sk-\u{1}bad".to_owned()));
        let config = Config::parse(text, "placet.toml", Path::new("."), &lookup).unwrap();
        let env = Env::system();
        let client = Client::new(ClientOptions::default(), env.clone()).unwrap();
        match try_out(&config, &env, &client) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn what_serving_would_refuse_is_told_with_its_line() {
        let text = "[providers.a]\nbase_url = \"http://h/v1\"\nkey_env = \"BAD\"\n[providers.b]\nbase_url = \"http://h/v1\"\n\
                    key_env = \"BAD\"\n";
        let told = told(text);
        for wanted in ["line 1: `providers.a`", "line 4: `providers.b`", "characters that no header may hold"] {
            assert!(told.contains(wanted), "{wanted}\n{told}");
        }
        assert!(!told.contains("sk-"), "{told}");
    }

    #[tokio::test]
    async fn what_can_be_served_passes() {
        let text = "[capabilities.sums]\nkind = \"calculator\"\n[capabilities.here]\nkind = \"files\"\nroot = \".\"\n\
                    [agents.one]\nmodel = \"echo:echo\"\ncapabilities = [\"sums\", \"here\"]\n\
                    [flows.f]\nsteps = [\"one\", { respond = true }]\ndurable = {}\n";
        assert_eq!(told(text), "");
    }
}
