#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use std::sync::Arc;

fn parse(text: &str) -> Result<Config, ConfigError> {
    let lookup: Lookup = Arc::new(|name| match name {
        "OTHER" => Some("sk-2".to_owned()),
        "MYSQL" => Some("mysql://root:pw@db/x".to_owned()),
        "POSTGRES" => Some("postgresql://me@db/x".to_owned()),
        _ => None,
    });
    Config::parse(text, "placet.toml", Path::new("."), &lookup)
}

/// The one problem of a text: its line and its words.
fn told(text: &str) -> String {
    match parse(text) {
        Ok(_) => "nothing is wrong".to_owned(),
        Err(error) => error.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

const MINE: &str = "[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\n";
const HASH: &str = "sha256 = \"0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef\"\n";

#[test]
fn a_credential_stands_in_no_address_and_no_header() {
    for url in ["http://me:pw@h/v1", "http://me@h/v1", "http://h/v1?key=abc", "https://h/v1?x=1&Api-Key=abc"] {
        let told = told(&format!("[providers.mine]\nbase_url = \"{url}\"\n"));
        assert!(told.starts_with("line 2: `providers.mine.base_url`: a credential must not stand"), "{url}: {told}");
        assert!(!told.contains("pw") && !told.contains("abc"), "{told}");
    }
    for header in ["authorization", "x-api-key", "X-Goog-Api-Key", "cookie", "x-my-secret"] {
        let told = told(&format!("{MINE}headers = {{ \"{header}\" = \"sk-plain\" }}\n"));
        assert!(told.contains(&format!("`providers.mine.headers.{header}`: a credential must not stand")), "{told}");
        assert!(told.contains("key_env") && !told.contains("sk-plain"), "{told}");
    }
    let named = format!("{MINE}headers = {{ api-key = {{ key_env = \"OTHER\" }}, x-team = \"blue\" }}\n");
    let config = parse(&named).unwrap();
    let (name, value) = &config.providers["mine"].secret_headers[0];
    assert_eq!((name.as_str(), value.expose()), ("api-key", "sk-2"));
    assert_eq!(config.providers["mine"].headers, [("x-team".to_owned(), "blue".to_owned())]);
    assert!(!format!("{config:?}").contains("sk-2"));
    let missing = told(&format!("{MINE}headers = {{ api-key = {{ key_env = \"NONE\" }}, x = {{}} }}\n"));
    assert!(missing.contains("NONE is not set") && missing.contains("headers.x.key_env`: it is missing"), "{missing}");
    for (section, setting) in [("[approval]\nurl", "approval.url"), ("[flows.f]\nsteps = [\"x\", { notify", "notify")] {
        let end = if setting == "notify" { " }]" } else { "" };
        let told = told(&format!("{section} = \"https://me:pw@h/x\"{end}\n"));
        assert!(told.contains(setting) && told.contains("a credential must not stand"), "{told}");
    }
}

#[test]
fn a_header_of_the_connection_is_not_for_a_provider() {
    for header in ["Host", "content-length", "transfer-encoding", "connection"] {
        let told = told(&format!("{MINE}headers = {{ \"{header}\" = \"3\" }}\n"));
        assert!(told.contains(&format!("`providers.mine.headers.{header}`: it belongs to the connection")), "{told}");
    }
}

#[test]
fn the_hash_of_an_empty_key_is_none() {
    let told = told("[keys.ann]\nsha256 = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"\n");
    assert!(told.contains("line 2: `keys.ann.sha256`: it is the hash of an empty key"), "{told}");
}

#[test]
fn values_that_cannot_work_are_told_with_what_to_write() {
    for (text, wanted) in [
        (format!("{MINE}protocols = []\n"), "line 3: `providers.mine.protocols`: expected at least one"),
        ("[timeouts]\nconnect = \"0s\"\n".to_owned(), "line 2: `timeouts.connect`: nothing can be done in no time"),
        (format!("{MINE}timeouts = {{ whole = \"0ms\" }}\n"), "`providers.mine.timeouts.whole`: nothing can be done"),
        ("[limits]\nclient_idle = \"0s\"\n".to_owned(), "`limits.client_idle`: nothing can be done in no time"),
        (
            "[timeouts]\nidle = 5\n".to_owned(),
            "line 2: `timeouts.idle`: expected a span of time, got a bare number (write for example \"5s\" or \"5ms\")",
        ),
        (
            "[limits]\ndrain = \"5\"\n".to_owned(),
            "`limits.drain`: it has no unit (write for example \"5s\" or \"5ms\")",
        ),
        ("[server]\nhosts = [\"https://gate.example.com\"]\n".to_owned(), "\"https://gate.example.com\" is no host"),
        ("[server]\nhosts = [\"*.example.com\"]\n".to_owned(), "\"*.example.com\" is no host"),
        ("[server]\nhosts = [\"gate/v1\"]\n".to_owned(), "\"gate/v1\" is no host"),
        ("[server]\nhosts = [\"\"]\n".to_owned(), "\"\" is no host"),
        ("[store]\nurl_env = \"MYSQL\"\n".to_owned(), "the variable MYSQL holds no address of a store that is known"),
        ("[store]\npath = \"mysql://h/x\"\n".to_owned(), "`store.path`: it is an address, expected a file"),
        (
            "[server]\ndefault_model = \"nobody:x\"\n".to_owned(),
            "`server.default_model`: there is no provider \"nobody\"",
        ),
    ] {
        let told = told(&text);
        assert!(told.contains(wanted) && !told.contains("pw@"), "{wanted}\n{told}");
    }
    let well = "[server]\nhosts = [\"gate.example.com\", \"gate:8080\", \"*\", \"10.0.0.7:80\", \"[fd00::1]\", \"::1\"]\n\
                [store]\nurl_env = \"POSTGRES\"\n[limits]\ndrain_delay = \"5s\"\ndrain = \"0s\"\n";
    let config = parse(well).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((config.limits.drain_delay, config.limits.drain), (Duration::from_secs(5), Duration::ZERO));
}

#[test]
fn names_that_nobody_could_ask_for_are_refused() {
    for (section, name, wanted) in [
        ("models", "\"a b\"", "the name holds a space"),
        ("models", "\"\"", "the name is empty"),
        ("routes", "\"a\\u0007\"", "the name holds a control character"),
        ("agents", "\"a\\nb\"", "the name holds a control character"),
        ("providers", "\"a:b\"", "the name holds a colon"),
        ("keys", "\"\"", "the name is empty"),
    ] {
        let told = told(&format!("[{section}.{name}]\n"));
        assert!(told.contains(wanted), "{section} {name}: {told}");
    }
    for (target, wanted) in [("mine:a b", "holds a space"), ("mine:", "the model is missing")] {
        let told = told(&format!("{MINE}[models.x]\ntarget = \"{target}\"\n"));
        assert!(told.contains("`models.x.target`") && told.contains(wanted), "{target}: {told}");
    }
}

#[test]
fn what_a_key_may_ask_for_is_there() {
    let key = |models: &str| {
        format!("{MINE}[models.fast]\ntarget = \"mine:x\"\n[keys.\"ann b\"]\n{HASH}models = [{models}]\n")
    };
    // A provider's own names may not be asked for where the file lists models.
    for wrong in ["\"fats\"", "\"smart*\"", "\"nobody:*\"", "\"\"", "\"mine:*\"", "\"mine:x\"", "\"echo\""] {
        let told = told(&key(wrong));
        assert!(told.contains("line 5: `keys.ann b.models`: nothing that is served is called"), "{wrong}: {told}");
    }
    for right in ["\"fast\"", "\"fa*\"", "\"*\""] {
        assert!(parse(&key(right)).is_ok(), "{right}: {}", told(&key(right)));
    }
    // Where providers' own names may be asked for, only they know what there is.
    for open in ["llama", "llama3:8b", "mine:*", "mine:x", "echo"] {
        let text = format!("{MINE}[keys.ann]\n{HASH}models = [\"{open}\"]\n");
        assert!(parse(&text).is_ok(), "{open}: {}", told(&text));
    }
    // What only the clock sets off is nobody's to ask for; what a webhook does may be asked for by it.
    let flows = "[agents.one]\nmodel = \"echo:echo\"\n[flows.nightly]\nsteps = [{ every = \"0 3 * * *\" }, \"one\"]\n\
                 [flows.bell]\nsteps = [{ webhook = \"bell\" }, \"one\"]\n";
    let only = |name: &str| told(&format!("{flows}[keys.ann]\n{HASH}models = [\"{name}\"]\n"));
    assert!(only("nightly").contains("nothing that is served is called \"nightly\""), "{}", only("nightly"));
    assert_eq!(only("bell"), "nothing is wrong");
}

#[test]
fn a_flow_that_can_do_nothing_is_told() {
    let agent = "[agents.one]\nmodel = \"echo:echo\"\n[flows.bell]\nsteps = [{ webhook = \"bell\" }, \"one\"]\n";
    for (steps, wanted) in [
        ("{ respond = true }", "no agent stands before it"),
        ("{ notify = \"http://h/x\" }", "no agent stands in it that could answer"),
        ("\"one\", { after = \"1m\" }", "nothing follows its last trigger"),
        ("{ every = \"0 8 * * *\" }", "nothing follows its last trigger"),
        ("\"one\", { startup = true }, \"one\"", "`startup` stands in its midst"),
        ("{ all = [\"one\", \"bell\"] }", "stands beside others that run at the same time"),
    ] {
        let told = told(&format!("{agent}[flows.f]\nsteps = [{steps}]\n"));
        assert!(told.contains("`flows.f.steps`") && told.contains(wanted), "{steps}: {told}");
    }
    for steps in [
        "\"one\", { respond = true }",
        "{ startup = true }, { notify = \"http://h/x\" }",
        "\"one\", { respond = true }, { after = \"1m\" }, { notify = \"http://h/x\" }",
        "{ all = [\"one\", \"one\"] }, { respond = true }",
    ] {
        assert!(parse(&format!("{agent}[flows.f]\nsteps = [{steps}]\n")).is_ok(), "{steps}");
    }
    let nested = told("[flows.f]\nsteps = [{ all = [{ what = 1 }] }]\n");
    assert!(nested.contains("`flows.f.steps[0].all[0]`: it says nothing to do"), "{nested}");
}

#[test]
fn what_serving_would_refuse_or_could_not_use_is_told() {
    let agents = "[capabilities.a]\nkind = \"files\"\nroot = \".\"\n[capabilities.b]\nkind = \"files\"\nroot = \"src\"\n\
                  [capabilities.sums]\nkind = \"calculator\"\n";
    for (text, wanted) in [
        (
            format!("{agents}[agents.one]\nmodel = \"echo:echo\"\ncapabilities = [\"a\", \"sums\", \"b\"]\n"),
            "line 9: `agents.one.capabilities`: \"a\" and \"b\" hold the same tools",
        ),
        (
            format!("{agents}[agents.one]\nmodel = \"echo:echo\"\ncapabilities = [\"sums\", \"sums\"]\n"),
            "line 9: `agents.one.capabilities`: \"sums\" stands there twice",
        ),
        ("[store]\npath = \"src\"\n".to_owned(), "line 2: `store.path`: it is a folder, expected a file"),
        ("[store]\npath = \"new/\"\n".to_owned(), "line 2: `store.path`: it is a folder, expected a file"),
        ("[store]\npath = \"Cargo.toml/placet.db\"\n".to_owned(), "line 2: `store.path`: ./Cargo.toml is no folder"),
        ("[limits]\nqueue = 1\nbody = \"0MB\"\n".to_owned(), "line 3: `limits.body`: 0 bytes are too few"),
        ("[limits]\nqueue = 1\nheader = \"1KB\"\n".to_owned(), "line 3: `limits.header`: 1024 bytes are too few"),
        (
            "[limits]\nconnections = 9223372036854775807\n".to_owned(),
            "line 2: `limits.connections`: expected a whole number from 1 to 1000000",
        ),
        ("[server]\nopen = false\n".to_owned(), "line 2: `server.open`: nothing is served then"),
        (
            format!("{MINE}[routes.r]\ntargets = [\"mine:a\"]\non = []\n"),
            "line 5: `routes.r.on`: expected at least one kind of error",
        ),
        (
            format!("{MINE}[routes.r]\ntargets = [\"mine:a\",\n{{ model = \"mine:b\", weight = 2 }}]\n"),
            "line 5: `routes.r.targets`: a weight means nothing where targets are asked in order",
        ),
        (
            format!("{MINE}[models.x]\ntarget = \"mine:a\"\n[routes.r]\ntargets = [\"mine:a\",\n\"x\"]\n"),
            "line 7: `routes.r.targets`: \"x\" is the target \"mine:a\" again",
        ),
        (
            format!(
                "{MINE}[routes.r]\nstrategy = \"weighted\"\ntargets = [{{ model = \"mine:b\", weight = 5000000000 }}]\n"
            ),
            "`routes.r.targets[0].weight`: expected a whole number from 1 to 1000000",
        ),
    ] {
        let told = told(&text);
        assert!(told.contains(wanted), "{wanted}\n{told}");
    }
    assert!(parse("[store]\npath = \"not/there/yet/placet.db\"\n").is_ok());
}

#[test]
fn a_flow_that_cannot_work_is_told() {
    let one = "[agents.one]\nmodel = \"echo:echo\"\n[flows.bell]\nsteps = [{ webhook = \"bell\" }, \"one\"]\n";
    for (text, wanted) in [
        (
            "[flows.other]\nsteps = [{ webhook = \"bell\" }, \"one\"]\n",
            "line 5: `flows.other.steps`: the webhook \"bell\" stands in `bell` too",
        ),
        (
            "[flows.day]\nsteps = [\"one\", \"bell\"]\n",
            "line 5: `flows.day.steps`: the webhook \"bell\" stands in `bell` too",
        ),
        (
            "[flows.day]\nsteps = [\"one\", { webhook = \"x\" }, \"one\", { webhook = \"x\" }, \"one\"]\n",
            "line 5: `flows.day.steps`: the webhook \"x\" stands in it twice",
        ),
        ("[server]\ndefault_model = \"bell\"\n", "line 6: `server.default_model`: only a trigger sets that flow off"),
        (
            "[flows.boot]\nsteps = [{ startup = true }, \"one\"]\n[flows.late]\nsteps = [\"one\", \"boot\"]\n",
            "line 7: `flows.late.steps`: a flow that begins with `startup` stands in its midst",
        ),
        (
            "[flows.kept]\nsteps = [\"one\"]\ndurable = { keep = \"0s\" }\n",
            "line 7: `flows.kept.durable.keep`: expected a span from 1m to 3650d",
        ),
        (
            "[flows.kept]\nsteps = [\"one\"]\ndurable = { retries = 100000 }\n",
            "line 7: `flows.kept.durable.retries`: expected a whole number from 0 to 100",
        ),
    ] {
        let told = told(&format!("{one}{text}"));
        assert!(told.contains(wanted), "{wanted}\n{told}");
    }
    // An agent that answers for unknown names is no model of another one.
    let none = told("[server]\ndefault_model = \"one\"\n[agents.one]\n");
    assert!(none.contains("`agents.one.model`: it is missing"), "{none}");
    // Flows that lead to themselves on several ways are told, and looked at no further.
    let doubled = "[flows.a]\nsteps = [\"b\", \"b\", \"b\"]\n[flows.b]\nsteps = [\"a\", \"a\", \"a\"]\n";
    assert!(told(doubled).contains("comes to itself again"));
}
