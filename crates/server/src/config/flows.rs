//! Agents and flows in a configuration.

use super::Config;
use super::providers::check_url;
use super::reader::{At, Element, Reading, Table, plain};
use indexmap::IndexMap;
use placet_core::Timestamp;
use placet_flows::{Durable, Trigger};
use placet_net::Url;
use placet_runtime::schedule::Cron;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// An agent behind a model's name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentEntry {
    /// The model it asks: a name of `models` or `routes`, or a reference. Without it and without tags, what its flow says, else
    /// `default_model`, else the first model of the file.
    pub model: Option<String>,
    /// What its model must be tagged with: the first of `models` that has all of these is asked.
    pub tags: Vec<String>,
    /// What it is told before everything else.
    pub instructions: Option<String>,
    /// The capabilities it is handed.
    pub capabilities: Vec<String>,
    /// How many rounds of its own tools it may take.
    pub max_rounds: u32,
    /// Its line.
    pub line: usize,
}

/// A flow of agents.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FlowEntry {
    /// What is done, one after the other.
    pub steps: Vec<StepEntry>,
    /// The model for those of its agents that name none.
    pub model: Option<String>,
    /// How what its steps did is kept, if it is.
    pub durable: Option<Durable>,
    /// Its line.
    pub line: usize,
}

/// One step of a flow.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StepEntry {
    /// An agent or another flow.
    Named(String),
    /// All of these at the same time, each on a chat of its own.
    All(Vec<StepEntry>),
    /// The first of these that succeeds.
    One(Vec<StepEntry>),
    /// All of these at the same time, on one chat.
    Group(Vec<StepEntry>),
    /// Delivers to the client what was said.
    Respond,
    /// Posts the text of the last message to an address.
    Notify(String),
    /// What follows is done when this goes off.
    Trigger(Trigger),
}

/// How often a durable flow may be tried again.
const MOST_RETRIES: u64 = 100;
/// How long what it did may be kept: a request that is sent again has to find it.
const KEPT: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(3650 * 24 * 3600);

const STEP: &str = "a step is the name of an agent or flow, or one of { all = […] }, { one = […] }, { group = […] }, \
                    { respond = true }, { notify = \"https://…\" }, { every = \"0 8 * * *\", zone = \"Europe/Paris\" }, \
                    { at = \"2027-01-01T08:00:00Z\" }, { after = \"10m\" }, { startup = true }, { webhook = \"id\" }";

pub(super) fn read_agents(reading: &Reading<'_>, top: &Table<'_, '_>) -> IndexMap<String, AgentEntry> {
    let mut agents = IndexMap::new();
    for (name, table) in top.named("agents") {
        let (model, tags) = (table.text("model"), plain(table.texts("tags")));
        if let (Some(model), false) = (&model, tags.is_empty()) {
            table.wrong(model.at, "model", "there are `tags` too, expected one of them", None);
        }
        let entry = AgentEntry {
            model: model.map(|text| text.value),
            tags,
            instructions: table.text("instructions").map(|text| text.value),
            capabilities: plain(table.texts("capabilities")),
            max_rounds: table.number("max_rounds", 1, 1000).and_then(|rounds| u32::try_from(rounds).ok()).unwrap_or(8),
            line: reading.line(name.at),
        };
        table.finish();
        agents.insert(name.value, entry);
    }
    agents
}

pub(super) fn read_flows(reading: &Reading<'_>, top: &Table<'_, '_>) -> IndexMap<String, FlowEntry> {
    let mut flows = IndexMap::new();
    for (name, table) in top.named("flows") {
        let steps = read_steps(&table, "steps", false);
        if steps.is_empty() {
            table.wrong(name.at, "steps", "it is missing, expected at least one step", Some(STEP));
        }
        let durable = table.table("durable").map(|own| {
            let usual = Durable::default();
            let retries = own.number("retries", 0, MOST_RETRIES).and_then(|count| u32::try_from(count).ok());
            let ttl = own.span("keep").unwrap_or(usual.ttl);
            if !KEPT.contains(&ttl) {
                let hint = "write for example \"7d\"";
                own.wrong(own.place("keep"), "keep", "expected a span from 1m to 3650d", Some(hint));
            }
            let durable = Durable { retries: retries.unwrap_or(usual.retries), ttl };
            own.finish();
            durable
        });
        let model = table.text("model").map(|text| text.value);
        let entry = FlowEntry { steps, model, durable, line: reading.line(name.at) };
        table.finish();
        flows.insert(name.value, entry);
    }
    flows
}

/// `beside`: whether these run at the same time as others, so that none of them can answer or wait for a trigger.
fn read_steps(table: &Table<'_, '_>, key: &'static str, beside: bool) -> Vec<StepEntry> {
    let mut steps = Vec::new();
    for element in table.list(key) {
        match element {
            Element::Text(text) => steps.push(StepEntry::Named(text.value)),
            Element::Table(step) => {
                steps.extend(read_step(&step, beside));
                step.finish();
            }
        }
    }
    steps
}

fn read_step(step: &Table<'_, '_>, beside: bool) -> Option<StepEntry> {
    let mut found: Vec<StepEntry> = Vec::new();
    for key in ["all", "one", "group"] {
        if !step.has(key) {
            continue;
        }
        let members = read_steps(step, key, true);
        if members.is_empty() {
            step.wrong(step.at(), key, "expected at least one member", None);
        }
        found.push(match key {
            "all" => StepEntry::All(members),
            "one" => StepEntry::One(members),
            _ => StepEntry::Group(members),
        });
    }
    if step.flag("respond") == Some(true) {
        found.push(StepEntry::Respond);
    }
    if let Some(url) = step.text("notify") {
        if let Err(error) = Url::parse(&url.value) {
            step.wrong(url.at, "notify", error.to_string(), Some("write for example \"https://example.com/hook\""));
        }
        check_url(step, &url, "notify");
        found.push(StepEntry::Notify(url.value));
    }
    found.extend(read_trigger(step).map(StepEntry::Trigger));
    let is_alone = matches!(found.first(), Some(StepEntry::Respond | StepEntry::Trigger(_)));
    match found.len() {
        1 if beside && is_alone => {
            let problem =
                "it stands beside others that run at the same time, and works only as a step of the flow itself";
            step.wrong(step.at(), "", problem, Some("put it behind them"));
            None
        }
        1 => found.pop(),
        // A trigger that cannot be read has been told of.
        0 if ["every", "at", "after", "webhook"].into_iter().any(|key| step.has(key)) => None,
        count => {
            let problem = if count == 0 { "it says nothing to do" } else { "it says several things to do" };
            step.wrong(step.at(), "", problem, Some(STEP));
            None
        }
    }
}

fn read_trigger(step: &Table<'_, '_>) -> Option<Trigger> {
    let zone = step.text("zone");
    if let (Some(zone), false) = (&zone, step.has("every")) {
        step.wrong(zone.at, "zone", "a zone belongs to `every`", None);
    }
    if let Some(every) = step.text("every") {
        let zone = zone.as_ref().map_or("UTC", |zone| zone.value.as_str());
        return match Cron::parse(&every.value, zone) {
            Ok(_) => Some(Trigger::every(&every.value, zone)),
            Err(error) => {
                let hint = "five fields: minute, hour, day, month, weekday; and a zone such as \"Europe/Paris\"";
                step.wrong(every.at, "every", error.to_string(), Some(hint));
                None
            }
        };
    }
    if let Some(at) = step.text("at") {
        let read = Timestamp::parse(&at.value);
        if read.is_none() {
            let hint = "write for example \"2027-01-01T08:00:00Z\"";
            step.wrong(at.at, "at", format!("{:?} is no instant", at.value), Some(hint));
        }
        return read.map(Trigger::once);
    }
    if let Some(span) = step.span("after") {
        return Some(Trigger::after(span));
    }
    let key = step.text("key_header");
    if let (Some(key), false) = (&key, step.has("webhook")) {
        step.wrong(key.at, "key_header", "a key's header belongs to `webhook`", None);
    }
    if let Some(At { value, .. }) = step.text("webhook") {
        let hook = Trigger::webhook(value);
        let Some(key) = key else { return Some(hook) };
        let is_kept = |name: &http::HeaderName| !placet_net::is_sensitive_header(name);
        if !http::HeaderName::try_from(key.value.as_str()).is_ok_and(|name| is_kept(&name)) {
            let hint = "write for example \"x-github-delivery\"";
            step.wrong(key.at, "key_header", "it is no header that calls could be told apart by", Some(hint));
        }
        return Some(hook.keyed_by(key.value));
    }
    (step.flag("startup") == Some(true)).then(Trigger::startup)
}

/// Names that agents and flows give must be there, and mean one thing.
pub(super) fn check_flows(reading: &Reading<'_>, top: &Table<'_, '_>, config: &Config) {
    let places = top.places();
    let wrong = |section: &str, name: &str, setting: &str, problem: String, hint: Option<String>| {
        let at = places.get(&(section.to_owned(), name.to_owned())).copied().unwrap_or(0);
        let dot = if setting.is_empty() { "" } else { "." };
        reading.problem(at, format!("{section}.{name}{dot}{setting}"), problem, hint);
    };
    // An agent or flow that answers for unknown names is no model that an agent could ask.
    let is_asked = |name: &String| !config.agents.contains_key(name) && !config.flows.contains_key(name);
    let has_model = config.default_model.as_ref().is_some_and(is_asked) || !config.models.is_empty();
    for (name, agent) in &config.agents {
        if agent.model.is_none() && agent.tags.is_empty() && !has_model {
            let problem = "it is missing, expected the model that the agent asks".to_owned();
            wrong("agents", name, "model", problem, None);
        }
        let is_tagged = config.models.values().any(|model| agent.tags.iter().all(|tag| model.tags.contains(tag)));
        if !agent.tags.is_empty() && !is_tagged {
            let problem = format!("no model of this file has all of the tags {}", agent.tags.join(", "));
            wrong("agents", name, "tags", problem, Some("add them to a model with tags = […]".to_owned()));
        }
        for capability in &agent.capabilities {
            if !config.capabilities.contains_key(capability) {
                let problem = format!("there is no capability {capability:?}");
                wrong("agents", name, "capabilities", problem, Some(format!("add [capabilities.{capability}]")));
            }
        }
        for (capability, other) in same_tools(config, agent) {
            let (problem, hint) = match capability == other {
                true => (format!("{capability:?} stands there twice"), "name it once"),
                false => {
                    let problem =
                        format!("{other:?} and {capability:?} hold the same tools, which a model could not tell apart");
                    (problem, "hand them to two agents")
                }
            };
            wrong("agents", name, "capabilities", problem, Some(hint.to_owned()));
        }
        if config.models.contains_key(name) || config.routes.contains_key(name) {
            let problem = "a model or route has the same name".to_owned();
            wrong("agents", name, "", problem, Some("rename one of them".into()));
        }
    }
    let mut hooked: HashMap<&str, &str> = HashMap::new();
    for (name, flow) in &config.flows {
        if config.models.contains_key(name) || config.routes.contains_key(name) || config.agents.contains_key(name) {
            let problem = "a model, route or agent has the same name".to_owned();
            wrong("flows", name, "", problem, Some("rename one of them".into()));
        }
        let mut around = vec![name.as_str()];
        let unknown = unknown_steps(config, &flow.steps, &mut around);
        let comes_back = unknown.iter().any(|problem| problem.starts_with("the flow"));
        for problem in unknown {
            wrong("flows", name, "steps", problem, Some("name an agent or flow of this file".to_owned()));
        }
        if comes_back {
            continue;
        }
        for problem in misplaced(config, &flow.steps) {
            wrong("flows", name, "steps", problem.to_owned(), None);
        }
        for hook in flow.steps.iter().filter_map(StepEntry::webhook) {
            let is_id =
                !hook.is_empty() && hook.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            if !is_id {
                let problem = format!("{hook:?} is no id of a webhook: take letters, digits, `-`, `_` and `.`");
                wrong("flows", name, "steps", problem, None);
            }
        }
        for hook in hooks(config, &flow.steps) {
            if let Some(other) = hooked.insert(hook, name) {
                let problem = match other == name {
                    true => format!("the webhook {hook:?} stands in it twice"),
                    false => format!("the webhook {hook:?} stands in `{other}` too"),
                };
                let hint = "what follows a webhook can be a flow of its own, which others may name".to_owned();
                wrong("flows", name, "steps", problem, Some(hint));
            }
        }
    }
}

/// Capabilities of an agent that hold the same tools as one before them, with that one.
fn same_tools<'c>(config: &'c Config, agent: &'c AgentEntry) -> Vec<(&'c str, &'c str)> {
    let mut kinds: HashMap<&str, &str> = HashMap::new();
    let known = agent.capabilities.iter().filter_map(|name| Some((name, config.capabilities.get(name)?)));
    known.filter_map(|(name, entry)| Some((name.as_str(), kinds.insert(entry.kind(), name)?))).collect()
}

/// The steps of a flow with those of the flows that stand in it. `around` holds the flows in which the steps stand: what leads
/// back to one of them is told elsewhere.
fn flat<'c>(config: &'c Config, steps: &'c [StepEntry], around: &mut Vec<&'c str>) -> Vec<&'c StepEntry> {
    let mut all = Vec::new();
    for step in steps {
        let within = match step {
            StepEntry::Named(name) if !around.contains(&name.as_str()) => config.flows.get_key_value(name),
            _ => None,
        };
        match within {
            Some((name, flow)) => {
                around.push(name);
                all.extend(flat(config, &flow.steps, around));
                around.pop();
            }
            None => all.push(step),
        }
    }
    all
}

/// Whether nothing but a trigger sets the steps off.
pub(crate) fn begins_with_trigger(config: &Config, steps: &[StepEntry]) -> bool {
    let mut first = steps.first();
    for _ in 0..DEEPEST {
        match first {
            Some(StepEntry::Trigger(_)) => return true,
            Some(StepEntry::Named(name)) => first = config.flows.get(name).and_then(|flow| flow.steps.first()),
            _ => return false,
        }
    }
    false
}

/// The webhooks in steps, also those of flows that stand in them.
pub(super) fn hooks<'c>(config: &'c Config, steps: &'c [StepEntry]) -> Vec<&'c str> {
    flat(config, steps, &mut Vec::new()).into_iter().filter_map(StepEntry::webhook).collect()
}

/// What is wrong with the order of steps.
fn misplaced(config: &Config, steps: &[StepEntry]) -> Vec<&'static str> {
    let mut problems = Vec::new();
    let mut is_said = false;
    for (at, step) in steps.iter().enumerate() {
        match step {
            StepEntry::Trigger(_) if at + 1 == steps.len() => problems.push("nothing follows its last trigger"),
            StepEntry::Trigger(trigger) if at > 0 && *trigger == Trigger::startup() => {
                problems.push("`startup` stands in its midst, where nothing starts; it can only be its first step");
            }
            StepEntry::Respond if !is_said => {
                problems.push("`respond` delivers what was said, and no agent stands before it")
            }
            step => is_said |= says(config, step, 0),
        }
    }
    let later = flat(config, steps, &mut Vec::new()).into_iter().skip(1);
    let starts_late =
        later.filter(|step| matches!(step, StepEntry::Trigger(t) if *t == Trigger::startup())).count() > 0;
    if starts_late && !problems.iter().any(|problem| problem.starts_with("`startup`")) {
        problems.push("a flow that begins with `startup` stands in its midst, where nothing starts");
    }
    let is_asked = !steps.is_empty() && !begins_with_trigger(config, steps);
    if is_asked && !is_said && problems.is_empty() {
        problems.push("a client may ask for it by its name, and no agent stands in it that could answer");
    }
    let members = steps.iter().flat_map(|step| match step {
        StepEntry::All(members) | StepEntry::One(members) | StepEntry::Group(members) => members.as_slice(),
        _ => &[],
    });
    if members.into_iter().any(|member| waits(config, member, 0)) {
        problems.push("a flow with a trigger stands beside others that run at the same time; put it behind them");
    }
    problems
}

/// How deep flows may stand in one another here; what leads back to itself is told elsewhere.
const DEEPEST: usize = 32;

/// Whether an agent stands in a step.
fn says(config: &Config, step: &StepEntry, depth: usize) -> bool {
    match step {
        _ if depth > DEEPEST => true,
        StepEntry::Named(name) => match config.flows.get(name) {
            Some(flow) => flow.steps.iter().any(|step| says(config, step, depth + 1)),
            // A name that is nobody's is told of by itself.
            None => true,
        },
        StepEntry::All(members) | StepEntry::One(members) | StepEntry::Group(members) => {
            members.iter().any(|member| says(config, member, depth + 1))
        }
        StepEntry::Respond | StepEntry::Notify(_) | StepEntry::Trigger(_) => false,
    }
}

/// Whether a trigger stands in a step.
fn waits(config: &Config, step: &StepEntry, depth: usize) -> bool {
    match step {
        _ if depth > DEEPEST => false,
        StepEntry::Named(name) => {
            config.flows.get(name).is_some_and(|flow| flow.steps.iter().any(|step| waits(config, step, depth + 1)))
        }
        StepEntry::All(members) | StepEntry::One(members) | StepEntry::Group(members) => {
            members.iter().any(|member| waits(config, member, depth + 1))
        }
        StepEntry::Trigger(_) => true,
        StepEntry::Respond | StepEntry::Notify(_) => false,
    }
}

impl StepEntry {
    fn webhook(&self) -> Option<&str> {
        match self {
            StepEntry::Trigger(trigger) => trigger.webhook_id(),
            _ => None,
        }
    }
}

/// What is wrong with the names in steps: of nothing, or of a flow that is being read already. `around` holds the flows in
/// which the steps stand.
fn unknown_steps<'c>(config: &'c Config, steps: &'c [StepEntry], around: &mut Vec<&'c str>) -> Vec<String> {
    let mut problems = Vec::new();
    for step in steps {
        match step {
            StepEntry::Named(name) if around.contains(&name.as_str()) => {
                problems.push(format!("the flow {name:?} comes to itself again: {} → {name}", around.join(" → ")));
            }
            StepEntry::Named(name) => match config.flows.get(name) {
                // What is wrong within it is told where it stands; here only whether it leads back.
                Some(flow) => {
                    around.push(name);
                    problems.extend(
                        unknown_steps(config, &flow.steps, around)
                            .into_iter()
                            .filter(|problem| problem.starts_with("the flow")),
                    );
                    around.pop();
                }
                None if config.agents.contains_key(name) => {}
                None => problems.push(format!("there is no agent and no flow {name:?}")),
            },
            StepEntry::All(members) | StepEntry::One(members) | StepEntry::Group(members) => {
                problems.extend(unknown_steps(config, members, around));
            }
            StepEntry::Respond | StepEntry::Notify(_) | StepEntry::Trigger(_) => {}
        }
    }
    problems
}
