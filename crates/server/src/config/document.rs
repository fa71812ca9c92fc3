//! From a document to a [`Config`].

use super::boards::{read_boards, read_grant};
use super::capabilities::{check_approval, read_approval, read_capabilities};
use super::checks::{check_default, check_host, check_keys, check_model_name, check_store, check_store_file};
use super::flows::{check_flows, read_agents, read_flows};
use super::providers::{read_providers, variable};
use super::reader::{At, Element, Problem, Reading, Table, plain};
use super::{Config, ErrorClass, KeyEntry, Limits, ModelEntry, ProviderEntry, RouteEntry, Strategy, TargetEntry};
use crate::local::LOCAL_PROVIDERS;
use crate::vendors::speeches;
use indexmap::IndexMap;
use placet_core::Price;
use placet_models::vendor::{VENDORS, vendor_base_url};
use placet_models::{Lookup, ModelRef};
use placet_net::{Timeouts, Url};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use toml::de::DeTable;

pub(super) fn parse(text: &str, base: &Path, lookup: &Lookup) -> Result<Config, Vec<Problem>> {
    let reading = Reading::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        reading.problem(at, "", error.message().to_owned(), None);
    }
    let config = read(&reading, &Table::new(&reading, &document), base, lookup);
    let problems = reading.finish();
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}

fn read(reading: &Reading<'_>, top: &Table<'_, '_>, base: &Path, lookup: &Lookup) -> Config {
    let mut config = Config::default();
    let mut open = None;
    let mut listen_at = 0;
    if let Some(server) = top.table("server") {
        if let Some(text) = server.text("listen") {
            listen_at = text.at;
            match listen(&text.value) {
                Some(address) => config.listen = address,
                None => server.wrong(
                    text.at,
                    "listen",
                    "expected an address and a port",
                    Some("write for example \"127.0.0.1:8080\""),
                ),
            }
        }
        for host in server.texts("hosts").unwrap_or_default() {
            check_host(&server, &host);
            config.hosts.push(host.value.to_ascii_lowercase());
        }
        for origin in server.texts("origins").unwrap_or_default() {
            let is_origin = Url::parse(&origin.value).is_ok() && origin.value.matches('/').count() == 2;
            if !is_origin {
                server.wrong(
                    origin.at,
                    "origins",
                    format!("{:?} is no origin", origin.value),
                    Some("write for example \"https://console.example.com\""),
                );
            }
            config.origins.push(origin.value.to_ascii_lowercase());
        }
        config.default_model = server.text("default_model").map(|text| text.value);
        open = server.flag("open").map(|open| (open, server.place("open")));
        config.strict = server.flag("strict").unwrap_or(false);
        server.finish();
    }
    if let Some(limits) = top.table("limits") {
        config.limits = read_limits(&limits);
        limits.finish();
    }
    if let Some(timeouts) = top.table("timeouts") {
        config.timeouts = read_timeouts(&timeouts, Timeouts::default());
        timeouts.finish();
    }
    if let Some(store) = top.table("store") {
        let (path, url) = (store.text("path"), store.text("url_env"));
        if let (Some(path), Some(_)) = (&path, &url) {
            store.wrong(path.at, "path", "there is a `url_env` too, expected one of them", None);
        }
        if let Some(path) = &path {
            check_store(&store, path, "path", &path.value);
            check_store_file(&store, path, base);
        }
        config.store = path.map(|path| base.join(path.value).display().to_string());
        if let Some(name) = url {
            match lookup(&name.value) {
                Some(value) => {
                    check_store(&store, &name, "url_env", &value);
                    config.store = Some(value);
                }
                None => store.wrong(name.at, "url_env", format!("the variable {} is not set", name.value), None),
            }
        }
        store.finish();
    }
    if let Some(telemetry) = top.table("telemetry") {
        config.metrics = telemetry.flag("metrics").unwrap_or(true);
        telemetry.finish();
    }
    config.boards = read_boards(top, base, lookup);
    config.keys = read_keys(top, config.boards.is_some());
    config.providers = read_providers(reading, top, base, lookup, config.timeouts);
    config.models = read_models(reading, top);
    config.routes = read_routes(reading, top, &config.models);
    config.approval = read_approval(top, base, lookup);
    (config.capabilities, config.capability_lines) = read_capabilities(reading, top, base);
    config.agents = read_agents(reading, top);
    config.flows = read_flows(reading, top);
    top.unknown();
    let names_nothing =
        config.models.is_empty() && config.routes.is_empty() && config.agents.is_empty() && config.flows.is_empty();
    config.open = open.map_or(names_nothing, |(open, _)| open);
    if let Some((false, at)) = open
        && names_nothing
        && config.default_model.is_none()
        && config.boards.is_none()
    {
        let hint = "leave the line out, or add a model with [models.NAME]".to_owned();
        reading.problem(at, "server.open", "nothing is served then, to nobody", Some(hint));
    }
    if config.keys.is_empty() && !config.listen.ip().is_loopback() {
        let hint = "add a key with [keys.NAME], or listen on 127.0.0.1".to_owned();
        let problem = format!("{} can be reached from other machines, and no key is set", config.listen);
        reading.problem(listen_at, "server.listen", problem, Some(hint));
    }
    check_references(reading, top, &config);
    config
}

/// The most that may be asked for of what is counted.
const MOST: u64 = 1_000_000;

/// The SHA-256 of no bytes.
const OF_NOTHING: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// An address, with `localhost` as its name and a port alone allowed.
pub(crate) fn listen(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Some(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    text.replace("localhost:", "127.0.0.1:").parse().ok()
}

fn read_limits(table: &Table<'_, '_>) -> Limits {
    let usual = Limits::default();
    let number = |key: &'static str, least: u64, usual: usize| {
        table.number(key, least, MOST).and_then(|count| usize::try_from(count).ok()).unwrap_or(usual)
    };
    let bytes = |key: &'static str, usual: usize, least: usize, shown: &str| match table.bytes(key) {
        Some(bytes) if bytes < least => {
            let problem = format!("{bytes} bytes are too few, expected at least {shown}");
            table.wrong(table.place(key), key, problem, None);
            usual
        }
        bytes => bytes.unwrap_or(usual),
    };
    Limits {
        body: bytes("body", usual.body, 1024, "1KB"),
        header: bytes("header", usual.header, 8192, "8KB"),
        connections: number("connections", 1, usual.connections),
        requests: number("requests", 1, usual.requests),
        queue: number("queue", 0, usual.queue),
        queue_wait: table.span("queue_wait").unwrap_or(usual.queue_wait),
        client_idle: table.some_span("client_idle").unwrap_or(usual.client_idle),
        client_body: table.some_span("client_body").unwrap_or(usual.client_body),
        drain: table.span("drain").unwrap_or(usual.drain),
        drain_delay: table.span("drain_delay").unwrap_or(usual.drain_delay),
    }
}

pub(super) fn read_timeouts(table: &Table<'_, '_>, usual: Timeouts) -> Timeouts {
    Timeouts {
        connect: table.some_span("connect").or(usual.connect),
        first_byte: table.some_span("first_byte").or(usual.first_byte),
        idle: table.some_span("idle").or(usual.idle),
        whole: table.some_span("whole").or(usual.whole),
    }
}

fn read_keys(top: &Table<'_, '_>, has_boards: bool) -> Vec<KeyEntry> {
    let mut keys: Vec<KeyEntry> = Vec::new();
    for (name, table) in top.named("keys") {
        if table.has("key") {
            let hint = "put its hash there: `placet keys hash` makes one";
            table.wrong(name.at, "key", "a key must not stand in the configuration", Some(hint));
        }
        let boards = read_grant(&table);
        if boards.is_some() && !has_boards {
            let hint = "add the section [boards], or leave these lines out";
            table.wrong(name.at, "boards", "no boards are served here", Some(hint));
        }
        let hash = table.text("sha256");
        let sha256 = hash.as_ref().and_then(|text| hex(&text.value));
        match (&hash, sha256) {
            (None, _) => {
                let hint = "`placet keys hash` makes it, or: printf %s \"$KEY\" | sha256sum";
                table.wrong(name.at, "sha256", "it is missing, expected the SHA-256 of the key", Some(hint));
            }
            (Some(text), None) => table.wrong(text.at, "sha256", "expected 64 hexadecimal digits", None),
            // What a shell makes of a variable that is not set.
            (Some(text), Some(hash)) if hash == OF_NOTHING => {
                table.wrong(text.at, "sha256", "it is the hash of an empty key", None);
            }
            _ => {}
        }
        if let Some(sha256) = sha256 {
            if let Some(twin) = keys.iter().find(|key| key.sha256 == sha256) {
                table.wrong(name.at, "sha256", format!("it is the key `{}` again", twin.name), None);
            }
            keys.push(KeyEntry {
                name: name.value,
                sha256,
                models: plain(table.texts("models")),
                user: table.text("user").map(|text| text.value),
                team: table.text("team").map(|text| text.value),
                boards,
            });
        } else {
            let _ = (table.texts("models"), table.text("user"), table.text("team"));
        }
        table.finish();
    }
    keys
}

fn hex(text: &str) -> Option<[u8; 32]> {
    let text = text.trim().as_bytes();
    if text.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

fn read_models(reading: &Reading<'_>, top: &Table<'_, '_>) -> IndexMap<String, ModelEntry> {
    let mut models = IndexMap::new();
    for (name, table) in top.named("models") {
        let target = table.text("target");
        let reference = target.as_ref().map(|text| (text.at, ModelRef::parse(&text.value)));
        let tags = plain(table.texts("tags"));
        let price = read_price(&table);
        match reference {
            None => {
                let hint = "write for example target = \"openai:gpt-5.4\"";
                table.wrong(name.at, "target", "it is missing", Some(hint));
            }
            Some((at, Err(error))) => table.wrong(at, "target", error.to_string(), None),
            Some((at, Ok(target))) => {
                check_model_name(&table, at, "target", &target);
                models.insert(name.value, ModelEntry { target, tags, price, line: reading.line(name.at) });
            }
        }
        table.finish();
    }
    models
}

/// US dollars per million tokens, as texts, so that they are exact.
fn read_price(table: &Table<'_, '_>) -> Option<Price> {
    let price = table.table("price")?;
    let amount = |key: &'static str| {
        let text = price.text(key)?;
        match placet_core::Money::parse(&text.value) {
            Ok(money) => Some(money.0),
            Err(error) => {
                price.wrong(text.at, key, error.to_string(), Some("US dollars per million tokens, in quotes"));
                None
            }
        }
    };
    let read = Price {
        input: amount("input").unwrap_or_default(),
        output: amount("output").unwrap_or_default(),
        cache_read: amount("cache_read"),
        cache_write: amount("cache_write"),
        cache_write_long: amount("cache_write_long"),
    };
    price.finish();
    Some(read)
}

fn read_routes(
    reading: &Reading<'_>,
    top: &Table<'_, '_>,
    models: &IndexMap<String, ModelEntry>,
) -> IndexMap<String, RouteEntry> {
    let mut routes = IndexMap::new();
    let meant = |model: &str| models.get(model).map(|entry| entry.target.clone()).or(ModelRef::parse(model).ok());
    for (name, table) in top.named("routes") {
        let mut targets: Vec<TargetEntry> = Vec::new();
        let mut weighed = None;
        let mut add = |text: At<String>, weight: u32| {
            let twin = targets.iter().find(|twin| {
                twin.model == text.value || {
                    let target = meant(&text.value);
                    target.is_some() && target == meant(&twin.model)
                }
            });
            if let Some(twin) = twin {
                let problem = format!("{:?} is the target {:?} again", text.value, twin.model);
                table.wrong(text.at, "targets", problem, Some("name each model once; a weight says how often"));
            }
            targets.push(TargetEntry { model: text.value, weight, line: reading.line(text.at) });
        };
        for element in table.list("targets") {
            match element {
                Element::Text(text) => add(text, 1),
                Element::Table(target) => {
                    let weight = target.number("weight", 1, MOST).and_then(|weight| u32::try_from(weight).ok());
                    if weight.is_some() {
                        weighed = weighed.or(Some(target.place("weight")));
                    }
                    match target.text("model") {
                        Some(text) => add(text, weight.unwrap_or(1)),
                        None => target.wrong(target.at(), "model", "it is missing", None),
                    }
                    target.finish();
                }
            }
        }
        if targets.is_empty() {
            let hint = "write for example targets = [\"openai:gpt-5.4\", \"anthropic:claude-opus-5\"]";
            table.wrong(name.at, "targets", "it is missing, expected at least one", Some(hint));
        }
        let strategy = table.text("strategy").map_or(Strategy::Ordered, |text| match text.value.as_str() {
            "ordered" => Strategy::Ordered,
            "weighted" => Strategy::Weighted,
            _ => {
                table.wrong(
                    text.at,
                    "strategy",
                    format!("{:?} is none", text.value),
                    Some("known are ordered, weighted"),
                );
                Strategy::Ordered
            }
        });
        if let (Some(at), Strategy::Ordered) = (weighed, strategy) {
            let hint = "add strategy = \"weighted\", or leave the weights out";
            table.wrong(at, "targets", "a weight means nothing where targets are asked in order", Some(hint));
        }
        let on = table.texts("on").map(|texts| {
            if texts.is_empty() {
                let hint = "leave the line out for all kinds";
                table.wrong(table.place("on"), "on", "expected at least one kind of error", Some(hint));
            }
            texts
                .into_iter()
                .filter_map(|text| {
                    let found = ErrorClass::ALL.into_iter().find(|class| class.as_str() == text.value);
                    if found.is_none() {
                        let known: Vec<&str> = ErrorClass::ALL.iter().map(|class| class.as_str()).collect();
                        let problem = format!("no kind of error is called {:?}", text.value);
                        table.wrong(text.at, "on", problem, Some(&format!("known are {}", known.join(", "))));
                    }
                    found
                })
                .collect::<Vec<_>>()
        });
        let entry = RouteEntry {
            targets,
            strategy,
            on: on.unwrap_or_else(|| ErrorClass::ALL.to_vec()),
            pin: table.span("pin").unwrap_or(Duration::from_secs(600)),
            strict: table.flag("strict"),
            line: reading.line(name.at),
        };
        table.finish();
        routes.insert(name.value, entry);
    }
    routes
}

/// Names that stand for each other must be there.
fn check_references(reading: &Reading<'_>, top: &Table<'_, '_>, config: &Config) {
    let places = top.places();
    let at = |section: &str, name: &str| places.get(&(section.to_owned(), name.to_owned())).copied().unwrap_or(0);
    let knows = |reference: &ModelRef| {
        let provider = reference.provider.as_str();
        config.providers.contains_key(provider) || LOCAL_PROVIDERS.contains(&provider)
    };
    let known = || {
        let mut names: Vec<&str> = config.providers.keys().map(String::as_str).collect();
        names.extend(LOCAL_PROVIDERS);
        format!("known are {}", names.join(", "))
    };
    for (name, model) in &config.models {
        if !knows(&model.target) {
            let problem = format!("there is no provider {:?}", model.target.provider.as_str());
            reading.problem(at("models", name), format!("models.{name}.target"), problem, Some(known()));
        }
    }
    let check_model = |section: &str, name: &str, path: String, model: &str, routes: bool| {
        let is_named = config.models.contains_key(model) || (routes && config.routes.contains_key(model));
        if is_named || model.is_empty() {
            return;
        }
        let problem = match ModelRef::parse(model) {
            Ok(reference) if knows(&reference) => return,
            Ok(reference) => format!("there is no provider {:?}", reference.provider.as_str()),
            Err(_) => format!("{model:?} is neither a model of this file nor a reference such as openai:gpt-5.4"),
        };
        reading.problem(at(section, name), path, problem, Some(known()));
    };
    for (name, route) in &config.routes {
        for target in &route.targets {
            check_model("routes", name, format!("routes.{name}.targets"), &target.model, false);
        }
        if config.models.contains_key(name) {
            let problem = "a model has the same name";
            reading.problem(at("routes", name), format!("routes.{name}"), problem, Some("rename one of them".into()));
        }
    }
    for (name, agent) in &config.agents {
        if let Some(model) = &agent.model {
            check_model("agents", name, format!("agents.{name}.model"), model, true);
        }
    }
    for (name, flow) in &config.flows {
        if let Some(model) = &flow.model {
            check_model("flows", name, format!("flows.{name}.model"), model, true);
        }
    }
    check_approval(reading, top, config);
    check_flows(reading, top, config);
    check_keys(reading, top, config);
    check_default(reading, top, config);
    if let Some(model) = &config.default_model
        && !config.agents.contains_key(model)
        && !config.flows.contains_key(model)
    {
        check_model("server", "default_model", "server.default_model".to_owned(), model, true);
    }
}

pub(super) fn discovered(lookup: &Lookup) -> Result<Config, Vec<Problem>> {
    let mut config = Config::default();
    let mut problems = Vec::new();
    for row in VENDORS {
        let key = row.key_variables.iter().find_map(|name| variable(lookup, name));
        let (base_url, said_by) = vendor_base_url(row, lookup);
        if key.is_none() && said_by.is_none() {
            continue;
        }
        // A row that says a vendor's protocol outright is for whoever asks for it: its models are those of the first row.
        if config.providers.values().any(|known| known.base_url == base_url) {
            continue;
        }
        if let Err(error) = Url::parse(&base_url) {
            let hint = Some("give the base URL of the API, for example http://127.0.0.1:8000/v1".to_owned());
            let setting = said_by.unwrap_or_default().to_owned();
            problems.push(Problem { line: 1, setting, problem: error.to_string(), hint });
        }
        let entry = ProviderEntry {
            vendor: Some(row.id),
            // Servers that only speak the one protocol answer under another address than the vendor's own.
            protocols: match said_by {
                Some(_) => speeches(Some(row), true).into_iter().take(1).collect(),
                None => speeches(Some(row), false),
            },
            base_url,
            key,
            headers: Vec::new(),
            secret_headers: Vec::new(),
            models: Vec::new(),
            timeouts: None,
            line: 1,
        };
        config.providers.insert(row.id.to_owned(), entry);
    }
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}
