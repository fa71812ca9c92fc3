//! `placet check`: whether a configuration can be used, with everything that is wrong with it.

use crate::args::CheckArgs;
use crate::failure::{Code, Done, Failure};
use crate::output::{Output, Tone, printable};
use crate::vars;
use placet_core::Env;
use placet_models::Lookup;
use placet_net::{Client, ClientOptions, ProxySettings};
use placet_server::{Config, ConfigError, FILE_NAME, try_out};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn check(output: &Output, args: &CheckArgs) -> Done {
    let env = Env::system();
    let file = config_file(args.config.as_deref())?;
    let client = client(&env)?;
    match read(file.as_deref(), &lookup(), &env, &client) {
        Ok(config) if output.json => {
            output.json_line(&serde_json::json!({
                "ok": true, "file": file, "providers": config.providers.len(), "models": config.models.len(),
                "routes": config.routes.len(), "agents": config.agents.len(), "flows": config.flows.len(),
                "keys": config.keys.len(),
            }));
            Ok(())
        }
        Ok(config) => {
            let what = file.map_or_else(|| "what the environment knows".to_owned(), |file| file.display().to_string());
            output.line(&format!(
                "{} {}: {} providers, {} models, {} routes, {} agents, {} flows, {} keys",
                output.paint(Tone::Good, "good"),
                printable(&what),
                config.providers.len(),
                config.models.len(),
                config.routes.len(),
                config.agents.len(),
                config.flows.len(),
                config.keys.len()
            ));
            Ok(())
        }
        Err(error) if output.json => {
            let problems: Vec<_> = error
                .problems
                .iter()
                .map(|one| serde_json::json!({"line": one.line, "setting": one.setting, "problem": one.problem, "hint": one.hint}))
                .collect();
            output.json_line(&serde_json::json!({"ok": false, "file": error.file, "problems": problems}));
            Err(Failure::told(Code::Usage))
        }
        Err(error) => Err(wrong(&error)),
    }
}

/// The environment, as configurations are read with it.
pub(crate) fn lookup() -> Lookup {
    Arc::new(|name: &str| vars::var(name))
}

/// The client that asks providers.
pub(crate) fn client(env: &Env) -> Result<Client, Failure> {
    let proxies = ProxySettings::from_vars(|name: &str| vars::var(name))?;
    Ok(Client::new(ClientOptions::default().proxies(proxies), env.clone())?)
}

/// The configuration of a file, or of the environment, with which serving can begin.
pub(crate) fn read(file: Option<&Path>, lookup: &Lookup, env: &Env, client: &Client) -> Result<Config, ConfigError> {
    let config = match file {
        Some(file) => Config::read(file, lookup)?,
        None => Config::discovered(lookup)?,
    };
    try_out(&config, env, client)?;
    Ok(config)
}

/// Everything that is wrong with a configuration, as one failure.
pub(crate) fn wrong(error: &ConfigError) -> Failure {
    Failure::new(Code::Usage, error.to_string())
}

/// The configuration's file: the one that was named, else the one in this folder, if there is one.
pub(crate) fn config_file(named: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let named = named.map(Path::to_owned).or_else(|| vars::var(vars::PLACET_CONFIG).map(PathBuf::from));
    match named {
        Some(file) if file.is_file() => Ok(Some(file)),
        Some(file) => Err(Failure::new(Code::NotFound, format!("there is no file {}", file.display()))
            .hint("leave --config out to serve what the environment knows")),
        None => Ok(Some(PathBuf::from(FILE_NAME)).filter(|file| file.is_file())),
    }
}
