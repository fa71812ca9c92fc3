#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use std::sync::Arc;

fn lookup(pairs: &'static [(&'static str, &'static str)]) -> Lookup {
    Arc::new(move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, "placet.toml", Path::new("."), &lookup(&[("OPENAI_API_KEY", "sk-1"), ("OTHER", "sk-2")]))
}

const WHOLE: &str = r#"
[server]
listen = "127.0.0.1:9400"
hosts = ["gate.example.com"]
default_model = "fast"

[limits]
body = "8MB"
queue = 0

[timeouts]
first_byte = "2m"

[keys.ann]
sha256 = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef"
models = ["fast", "openai:*"]
team = "blue"

[keys.ann.boards]
names = ["team/*"]
agents = ["ann"]
manages = true

[boards]
call_hosts = ["agents.internal"]
key_env = "OTHER"
decisions = 500
content = "1MB"

[providers.openai]

[providers.mine]
base_url = "http://127.0.0.1:8000/v1"
protocols = ["anthropic_messages", "openai_chat"]
key_env = "OTHER"
headers = { x-team = "blue" }
timeouts = { idle = "5s" }

[models.fast]
target = "openai:gpt-5.4-mini"
tags = ["cheap"]
price = { input = "0.25", output = "2" }

[routes.safe]
targets = ["fast", { model = "mine:llama", weight = 3 }]
strategy = "weighted"
on = ["rate_limited", "overloaded"]
pin = "5m"

[capabilities.sums]
kind = "calculator"

[agents.house]
model = "safe"
instructions = "Be kind."
capabilities = ["sums"]

[agents.cheap]
tags = ["cheap"]

[agents.any]

[flows.desk]
steps = ["any", { all = ["house", { one = ["cheap", "any"] }] }, { respond = true }, { notify = "http://127.0.0.1:9/x" }]
model = "safe"
durable = { retries = 5 }

[flows.morning]
steps = [{ every = "0 8 * * MON-FRI", zone = "Europe/Zurich" }, "desk"]
"#;

#[test]
fn a_whole_configuration_is_read() {
    let config = parse(WHOLE).unwrap();
    assert_eq!(config.listen.port(), 9400);
    assert_eq!((config.limits.body, config.limits.queue, config.limits.requests), (8 << 20, 0, 1024));
    assert_eq!(config.timeouts.first_byte, Some(Duration::from_secs(120)));
    assert_eq!(config.keys[0].team.as_deref(), Some("blue"));
    let boards = config.boards.as_ref().unwrap();
    assert_eq!(
        (&*boards.call_hosts, boards.decisions, boards.content),
        (&["agents.internal".to_owned()][..], 500, 1 << 20)
    );
    assert_eq!(boards.key.as_ref().unwrap().expose(), "sk-2");
    let grant = config.keys[0].boards.as_ref().unwrap();
    assert!(grant.manages && grant.regions.is_none() && grant.boards.as_ref().unwrap().contains("team/*"));
    assert_eq!(config.providers["openai"].key.as_ref().unwrap().expose(), "sk-1");
    let mine = &config.providers["mine"];
    assert_eq!(mine.protocols, [Speech::AnthropicMessages, Speech::OpenaiChat]);
    assert_eq!(mine.timeouts.unwrap().first_byte, Some(Duration::from_secs(120)));
    assert_eq!(config.models["fast"].price.unwrap().input.to_string(), "0.25");
    assert_eq!(config.routes["safe"].targets[1].weight, 3);
    assert_eq!(config.agents["house"].max_rounds, 8);
    assert!(!config.open && !config.strict);
    assert_eq!(
        (config.agents["cheap"].tags.as_slice(), &config.agents["any"].model),
        (&["cheap".to_owned()][..], &None)
    );
    let desk = &config.flows["desk"];
    assert_eq!((desk.steps.len(), desk.durable.unwrap().retries), (4, 5));
    let named = |name: &str| StepEntry::Named(name.to_owned());
    let one = StepEntry::One(vec![named("cheap"), named("any")]);
    assert_eq!(desk.steps[1], StepEntry::All(vec![named("house"), one]));
    let morning = placet_flows::Trigger::every("0 8 * * MON-FRI", "Europe/Zurich");
    assert_eq!(config.flows["morning"].steps[0], StepEntry::Trigger(morning));
    assert!(!format!("{config:?}").contains("sk-1"));
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_line() {
    let text = r#"
[server]
listen = "0.0.0.0:80"
hots = ["a"]

[keys.ann]
sha256 = "12"

[providers.openai]
key = "sk-secret"
key_env = "MISSING"

[providers.mine]
protocols = ["smoke_signals"]

[models.fast]
target = "nobody:x"

[routes.safe]
targets = []
on = ["bad_mood"]

[agents.house]
model = "fastt"
capabilities = ["none"]

[limits]
body = "many"
"#;
    let error = parse(text).unwrap_err();
    let shown = error.to_string();
    for (line, what) in [
        (4, "did you mean `hosts`?"),
        (3, "can be reached from other machines"),
        (7, "64 hexadecimal digits"),
        (9, "must not stand in the configuration"),
        (11, "MISSING is not set"),
        (13, "say where it is"),
        (14, "smoke_signals"),
        (16, "no provider \"nobody\""),
        (19, "expected at least one"),
        (21, "bad_mood"),
        (23, "fastt"),
        (23, "no capability \"none\""),
        (28, "expected a size"),
    ] {
        let found = shown.lines().find(|shown| shown.contains(what));
        assert!(found.is_some_and(|found| found.contains(&format!("line {line}:"))), "{what} at {line}\n{shown}");
    }
    assert!(!shown.contains("sk-secret"), "{shown}");
    let lines: Vec<usize> = error.problems.iter().map(|problem| problem.line).collect();
    assert!(lines.is_sorted());
}

#[test]
fn what_is_wrong_with_agents_and_flows_is_told() {
    let text = r#"
[agents.lost]

[agents.both]
model = "echo:echo"
tags = ["x"]

[flows.empty]

[flows.a]
steps = ["both", "nobody", { all = [] }, { all = ["both", { respond = true }] }]

[flows.loop]
steps = ["back"]

[flows.back]
steps = ["both", "loop"]

[flows.late]
steps = [{ every = "never", zone = "Mars" }, { at = "tomorrow" }, { what = 1 }, { after = "1m", respond = true }, { webhook = "a b" }]

[flows.both]
steps = ["lost"]
"#;
    let shown = parse(text).unwrap_err().to_string();
    for what in [
        "line 2: `agents.lost.model`",
        "line 5: `agents.both.model`: there are `tags` too",
        "`agents.both.tags`: no model of this file has all of the tags x",
        "line 8: `flows.empty.steps`",
        "no agent and no flow \"nobody\"",
        "steps[2].all`: expected at least one member",
        "beside others that run at the same time",
        "comes to itself again: loop → back → loop",
        "steps[0].every`",
        "\"tomorrow\" is no instant",
        "it says nothing to do",
        "it says several things to do",
        "\"a b\" is no id of a webhook",
        "line 22: `flows.both`: a model, route or agent has the same name",
    ] {
        assert!(shown.contains(what), "{what}\n{shown}");
    }
}

#[test]
fn what_is_wrong_about_boards_is_told_too() {
    let text = r#"
[keys.ann]
sha256 = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef"
[keys.ann.boards]
mangaes = true
names = [7]

[boards]
call_hosts = ["http://agents.internal"]
content = "1GB"
decisions = 0
key_env = "MISSING"
"#;
    let shown = parse(text).unwrap_err().to_string();
    for (line, what) in [
        (5, "did you mean `manages`?"),
        (6, "a text in quotes"),
        (9, "is no host"),
        (10, "are not possible"),
        (11, "a whole number from 1 on"),
        (12, "MISSING is not set"),
    ] {
        let found = shown.lines().find(|shown| shown.contains(what));
        assert!(found.is_some_and(|found| found.contains(&format!("line {line}:"))), "{what} at {line}\n{shown}");
    }
    let (before, _) = text.split_once("[boards]\n").unwrap();
    assert!(parse(before).unwrap_err().to_string().contains("line 2: `keys.ann.boards`: no boards are served here"));
}

#[test]
fn what_is_wrong_about_approvals_is_told_too() {
    let text = r#"
[capabilities.shell]
kind = "command"
shel = true

[capabilities.notes]
kind = "files"
root = "."
approve = true

[capabilities.keep]
kind = "files"
root = "."
writable = true
approve = true
"#;
    let shown = parse(text).unwrap_err().to_string();
    for (line, what) in [
        (2, "`capabilities.shell.root`: it is missing"),
        (4, "did you mean `shell`?"),
        (9, "nothing of it can be changed"),
        (11, "`capabilities.keep`: it asks before it does anything, and there is nobody to ask"),
    ] {
        let found = shown.lines().find(|shown| shown.contains(what));
        assert!(found.is_some_and(|found| found.contains(&format!("line {line}:"))), "{what} at {line}\n{shown}");
    }
    let asks = "[approval]\nurl = \"nonsense\"\ntimeout = \"0s\"\nkey_env = \"MISSING\"\nwhy = 1\n";
    let shown = parse(asks).unwrap_err().to_string();
    for what in ["line 2: `approval.url`", "line 3: `approval.timeout`", "MISSING is not set", "`approval.why`"] {
        assert!(shown.contains(what), "{what}\n{shown}");
    }
    assert!(parse("[approval]\n").unwrap_err().to_string().contains("`approval.url`: it is missing"));
    let well = format!(
        "[approval]\nurl = \"https://desk.example.com/approve\"\nkey_env = \"OTHER\"\n{}",
        text.replace("shel = true", "shell = true\nroot = \".\"").replacen(
            "root = \".\"\nappr",
            "root = \".\"\nwritable = true\nappr",
            1
        )
    );
    let config = parse(&well).unwrap();
    let approval = config.approval.as_ref().unwrap();
    assert_eq!((approval.timeout, approval.key.as_ref().unwrap().expose()), (Duration::from_secs(600), "sk-2"));
    assert!(config.capabilities.values().all(CapabilityEntry::asks));
}

#[test]
fn broken_toml_is_told_with_its_lines() {
    let error = parse("[server\nlisten = 1\n\n[limits]\nbody == 2\n").unwrap_err();
    assert!(error.problems.len() >= 2, "{error}");
}

#[test]
fn without_a_file_the_environment_is_served() {
    let config = Config::discovered(&lookup(&[
        ("OPENAI_API_KEY", "sk-1"),
        ("GROQ_API_KEY", "gk"),
        ("VLLM_BASE_URL", "http://h/v1"),
    ]))
    .unwrap();
    let names: Vec<&str> = config.providers.keys().map(String::as_str).collect();
    assert!(
        names.contains(&"openai") && names.contains(&"groq") && names.contains(&"vllm") && names.len() == 3,
        "{names:?}"
    );
    assert!(config.open && config.listen.ip().is_loopback());
    let error = Config::discovered(&lookup(&[("OPENAI_BASE_URL", "nonsense")])).unwrap_err();
    assert!(error.to_string().contains("OPENAI_BASE_URL"), "{error}");
}
