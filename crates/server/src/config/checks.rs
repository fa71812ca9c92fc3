//! Small things that can be known to be wrong before anything is served.

use super::Config;
use super::flows::{begins_with_trigger, hooks};
use super::reader::{At, Reading, Table};
use crate::local::LOCAL_PROVIDERS;
use placet_models::ModelRef;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;

/// A host is a name or an address, with a port if need be, or `*` alone.
pub(super) fn check_host(server: &Table<'_, '_>, host: &At<String>) {
    let text = host.value.as_str();
    let name = match text.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.parse::<u16>().is_ok() => name,
        _ => text,
    };
    let is_name = !name.is_empty()
        && name.split('.').all(|label| !label.is_empty())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let is_address = bare.parse::<Ipv6Addr>().is_ok() || text.parse::<SocketAddr>().is_ok();
    if text != "*" && !is_name && !is_address {
        let hint = "write names alone, for example \"gate.example.com\" or \"gate.example.com:8080\"; \"*\" is any";
        server.wrong(host.at, "hosts", format!("{text:?} is no host"), Some(hint));
    }
}

/// A store is a file, or a database of a kind that is known. What a variable holds is not shown.
pub(super) fn check_store(store: &Table<'_, '_>, at: &At<String>, setting: &str, value: &str) {
    let is_url = value.contains("://");
    let is_known = value.starts_with("postgres://") || value.starts_with("postgresql://");
    match setting {
        "path" if is_url => {
            let hint = "put a database's address into a variable, and name that in `url_env`";
            store.wrong(at.at, setting, "it is an address, expected a file", Some(hint));
        }
        "url_env" if !is_known => {
            let problem = format!("the variable {} holds no address of a store that is known", at.value);
            store.wrong(
                at.at,
                setting,
                problem,
                Some("expected postgres://user@host/database; a file stands in `path`"),
            );
        }
        _ => {}
    }
}

/// The provider's name of a model is sent as it is.
pub(super) fn check_model_name(table: &Table<'_, '_>, at: usize, setting: &str, target: &ModelRef) {
    let name = target.model.as_str();
    if name.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        let problem = "the model's name holds a space or a control character";
        table.wrong(at, setting, problem, Some("write for example \"openai:gpt-5.4\""));
    }
}

/// A store is a file, in a folder that is there or can be made.
pub(super) fn check_store_file(store: &Table<'_, '_>, at: &At<String>, base: &Path) {
    let file = base.join(&at.value);
    let nearest = file.ancestors().skip(1).find(|folder| folder.exists());
    if file.is_dir() || at.value.ends_with(['/', '\\']) {
        let hint = "write for example \"placet.db\"";
        store.wrong(at.at, "path", "it is a folder, expected a file", Some(hint));
    } else if let Some(place) = nearest.filter(|place| !place.is_dir()) {
        store.wrong(at.at, "path", format!("{} is no folder", place.display()), None);
    }
}

/// What answers for names that nothing else has must be able to answer.
pub(super) fn check_default(reading: &Reading<'_>, top: &Table<'_, '_>, config: &Config) {
    let flow = config.default_model.as_ref().and_then(|name| config.flows.get(name));
    if flow.is_some_and(|flow| begins_with_trigger(config, &flow.steps)) {
        let place = top.places().get(&("server".to_owned(), "default_model".to_owned())).copied();
        let hint = "name a model, a route, an agent, or a flow whose first step is no trigger".to_owned();
        let problem = "only a trigger sets that flow off, so that it answers nobody";
        reading.problem(place.unwrap_or(0), "server.default_model", problem, Some(hint));
    }
}

/// What a key may ask for has to be there.
pub(super) fn check_keys(reading: &Reading<'_>, top: &Table<'_, '_>, config: &Config) {
    let places = top.places();
    let listed = || config.providers.values().flat_map(|provider| &provider.models);
    let may_be_asked = |name: &&String| {
        let steps = &config.flows[*name].steps;
        !begins_with_trigger(config, steps) || !hooks(config, steps).is_empty()
    };
    let mut named: Vec<&str> = [
        config.models.keys().collect::<Vec<_>>(),
        config.routes.keys().collect(),
        config.agents.keys().collect(),
        config.flows.keys().filter(may_be_asked).collect(),
    ]
    .into_iter()
    .flatten()
    .map(String::as_str)
    .collect();
    if config.open {
        named.extend(listed().map(String::as_str));
    }
    // A provider's own names are known to it alone.
    let may_be_open = |pattern: &str| match pattern.split_once(':') {
        Some((provider, _)) => {
            let is_only = config.providers.len() == 1;
            is_only || config.providers.contains_key(provider) || LOCAL_PROVIDERS.contains(&provider)
        }
        None => true,
    };
    for key in &config.keys {
        for pattern in &key.models {
            let is_there = match pattern.strip_suffix('*') {
                Some(beginning) => named.iter().any(|name| name.starts_with(beginning)),
                None => named.contains(&pattern.as_str()),
            };
            // The default model answers for all that nothing else has.
            let may_be = (config.open && may_be_open(pattern)) || config.default_model.is_some();
            if is_there || (may_be && !pattern.trim().is_empty()) {
                continue;
            }
            let at = places.get(&("keys".to_owned(), key.name.clone())).copied().unwrap_or(0);
            let problem = format!("nothing that is served is called {pattern:?}");
            let hint = (!named.is_empty()).then(|| format!("known are {}", named.join(", ")));
            reading.problem(at, format!("keys.{}.models", key.name), problem, hint);
        }
    }
}
