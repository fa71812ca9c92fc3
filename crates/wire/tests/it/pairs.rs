//! From one protocol through another and back: what both can express comes back equal.
//!
//! A request is made of the fields that the tables of both protocols mark as expressed. It is written and read in the first, then in
//! the second, then in the first again; both readings in the first are equal. State is not part of it: it is of one provider,
//! and what names something that one provider holds (files, hosted tools in its own words) is so too.

use placet_core::env::ManualClock;
use placet_core::hosted::{CodeInterpreter, HostedOptions, HostedTool, RemoteMcp, WebFetch, WebSearch};
use placet_core::part::{CacheMark, Inline, Media, MediaSource, Text, Url};
use placet_core::turn::{AllowedTools, CacheControl, CacheStrategy, OutputFormat, StateMode};
use placet_core::{
    Arguments, CallId, Effect, Env, Item, ItemBody, ItemId, Message, Origins, Outcome, Part, ProviderId, Role, Schema,
    Stage, Status, Timestamp, ToolCall, ToolChoice, ToolDefinition, ToolResult, TurnRequest,
};
use placet_wire::fields::{ALL_FIELDS, Class, Support};
use placet_wire::protocol::Protocol;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Fields that are of one provider though they are no state.
const OF_ONE: [&str; 14] = [
    "extra",
    "hosted.raw",
    // What the client runs, and what works on things that the provider holds.
    "hosted.shell",
    "hosted.text_editor",
    "hosted.memory",
    "hosted.apply_patch",
    "hosted.computer_use",
    "hosted.file_search",
    "hosted.file_search.max_results",
    "safety",
    "image.provider_file",
    "audio.provider_file",
    "file.provider_file",
    "cache.content",
];

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn env() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 3)
}

fn provider(protocol: Protocol) -> ProviderId {
    ProviderId::new(protocol.as_str())
}

fn expressed(protocol: Protocol) -> BTreeSet<&'static str> {
    let rows = protocol.fields().iter();
    rows.filter(|row| row.support == Support::Expressed).map(|row| row.field).collect()
}

/// The fields that both express and that are of no provider.
fn common(a: Protocol, b: Protocol) -> BTreeSet<&'static str> {
    let (ours, theirs) = (expressed(a), expressed(b));
    let all = ALL_FIELDS.iter().filter(|(field, class)| *class != Class::State && !OF_ONE.contains(field));
    all.map(|(field, _)| *field).filter(|field| ours.contains(field) && theirs.contains(field)).collect()
}

struct Source<'a> {
    choices: std::slice::Iter<'a, u16>,
    common: &'a BTreeSet<&'static str>,
}

impl Source<'_> {
    fn below(&mut self, n: u16) -> u16 {
        self.choices.next().copied().unwrap_or(0) % n
    }
    fn one_in(&mut self, n: u16) -> bool {
        self.below(n) == n - 1
    }
    /// A field that both have, now and then.
    fn has(&mut self, field: &str) -> bool {
        self.one_in(3) && self.common.contains(field)
    }
    fn when<T>(&mut self, field: &str, value: T) -> Option<T> {
        self.has(field).then_some(value)
    }
    fn text(&mut self) -> String {
        const TEXTS: [&str; 6] = ["a", "Hello", "two\nlines", "größe ☃", "\"quoted\" \\", "data: x"];
        TEXTS[usize::from(self.below(6))].to_owned()
    }
    fn mark(&mut self, field: &str) -> Option<CacheMark> {
        self.when(field, CacheMark { ttl: None })
    }
}

fn user_part(s: &mut Source<'_>) -> Part {
    let inline = |text: &str| MediaSource::Inline(Inline { base64: text.into() });
    let media = |source: MediaSource, mime: &str| Media { mime_type: Some(mime.to_owned()), ..Media::new(source) };
    let url = |url: &str| MediaSource::Url(Url { url: url.to_owned() });
    if s.has("image.inline") {
        let (detail, cache) = (s.when("image.detail", "low".to_owned()), s.mark("image.cache"));
        return Part::Image(Media { detail, cache, ..media(inline(PNG), "image/png") });
    }
    if s.has("image.url") {
        return Part::Image(media(url("https://example.com/a.png"), "image/png"));
    }
    if s.has("audio.inline") {
        return Part::Audio(media(inline("UklGRg=="), "audio/wav"));
    }
    if s.has("file.inline") {
        let name = s.when("file.name", "a.pdf".to_owned());
        return Part::File(Media { name, ..media(inline("JVBERi0="), "application/pdf") });
    }
    if s.has("file.url") {
        return Part::File(media(url("https://example.com/a.pdf"), "application/pdf"));
    }
    let cache = s.mark("text.cache");
    Part::Text(Text { cache, ..Text::new(s.text()) })
}

fn hosted(s: &mut Source<'_>) -> Vec<HostedTool> {
    let mut tools = Vec::new();
    if s.has("hosted.web_search") {
        let max_uses = s.when("hosted.web_search.max_uses", 2);
        // A provider takes one of the two lists.
        let allowed_domains =
            s.when("hosted.web_search.allowed_domains", vec!["example.com".into()]).unwrap_or_default();
        let blocked = s.when("hosted.web_search.blocked_domains", vec!["example.org".into()]).unwrap_or_default();
        let blocked_domains = if allowed_domains.is_empty() { blocked } else { Vec::new() };
        let context_size = s.when("hosted.web_search.context_size", "low".into());
        let user_location = s.when("hosted.web_search.user_location", json!({"type": "approximate", "country": "CH"}));
        tools.push(HostedTool::WebSearch(WebSearch {
            max_uses,
            allowed_domains,
            blocked_domains,
            context_size,
            user_location,
            ..WebSearch::default()
        }));
    }
    if s.has("hosted.web_fetch") {
        let max_uses = s.when("hosted.web_fetch.max_uses", 2);
        tools.push(HostedTool::WebFetch(WebFetch { max_uses, ..WebFetch::default() }));
    }
    if s.has("hosted.code_interpreter") {
        tools.push(HostedTool::CodeInterpreter(CodeInterpreter::default()));
    }
    let plain = [
        ("hosted.url_context", HostedTool::UrlContext(HostedOptions::default())),
        ("hosted.image_generation", HostedTool::ImageGeneration(HostedOptions::default())),
    ];
    for (field, tool) in plain {
        tools.extend(s.when(field, tool));
    }
    if s.has("hosted.remote_mcp.url") {
        let allowed_tools = s.when("hosted.remote_mcp.allowed_tools", vec!["lookup".into()]).unwrap_or_default();
        let authorization = s.when("hosted.remote_mcp.authorization", "token".into());
        tools.push(HostedTool::RemoteMcp(RemoteMcp {
            label: "crm".into(),
            url: Some("https://mcp.example/sse".into()),
            authorization,
            allowed_tools,
            ..RemoteMcp::default()
        }));
    }
    tools
}

/// A lifetime of a prompt cache that both have.
fn lifetime(a: Protocol, b: Protocol) -> Option<&'static str> {
    let has_anthropic = [a, b].contains(&Protocol::AnthropicMessages);
    match [a, b].contains(&Protocol::OpenaiResponses) {
        true if has_anthropic => None,
        _ if has_anthropic => Some("1h"),
        _ => Some("24h"),
    }
}

fn generate(choices: &[u16], a: Protocol, b: Protocol, common: &BTreeSet<&'static str>) -> TurnRequest {
    let env = env();
    let s = &mut Source { choices: choices.iter(), common };
    let item = |body: ItemBody| Arc::new(Item::new(env.new_id(), Origins::none(), body));
    let mut request = TurnRequest { model: "m-1".into(), ..TurnRequest::default() };
    request.instructions = s.has("instructions").then(|| s.text().into());
    if s.has("tool") {
        for n in 0..=s.below(2) {
            let schema = json!({"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"],
                "additionalProperties": false});
            let mut tool = ToolDefinition::new(format!("tool_{n}"), s.text(), Schema::new(schema), Effect::Once);
            tool.strict = s.when("tool.strict", true);
            tool.cache = s.mark("tool.cache");
            request.tools.push(Arc::new(tool));
        }
        let first = request.tools[0].name.clone();
        let allowed =
            |required| ToolChoice::Allowed(AllowedTools { names: vec!["tool_0".into()], required, hosted: false });
        let choices = [
            ("tool_choice.required", ToolChoice::Required),
            ("tool_choice.none", ToolChoice::None),
            ("tool_choice.tool", ToolChoice::Tool(first)),
            ("tool_choice.allowed", allowed(false)),
            ("tool_choice.allowed_required", allowed(true)),
        ];
        for (field, choice) in choices {
            if s.has(field) {
                request.tool_choice = choice;
            }
        }
        if s.has("parallel_tool_calls.false") && request.tool_choice != ToolChoice::None {
            request.controls.parallel_tool_calls = Some(false);
        }
    }
    for round in 0..=s.below(3) {
        let parts: Vec<Part> = (0..=s.below(3)).map(|_| user_part(s)).collect();
        request.items.push(item(Message { role: Role::User, parts, native: None }.into()));
        if s.has("message.assistant") {
            let parts = vec![Part::text(s.text())];
            request.items.push(item(Message { role: Role::Assistant, parts, native: None }.into()));
        }
        if !s.has("tool_call") || request.tools.is_empty() {
            continue;
        }
        let calls: Vec<ToolCall> = (0..=s.below(2))
            .map(|n| ToolCall {
                id: env.new_id(),
                provider_id: Some(format!("call_{round}_{n}")),
                name: "tool_0".into(),
                arguments: Arguments::from_text(json!({"p": s.text()}).to_string()),
                native: None,
            })
            .collect();
        request.items.extend(calls.iter().cloned().map(|call| item(call.into())));
        for call in calls {
            let mut outcome = Outcome::new(Status::Completed, Stage::Execute, None, s.text());
            if s.has("tool_result.failed") {
                outcome.status = Status::Failed;
            }
            let (call, provider_id, tool) = (call.id, call.provider_id, call.name);
            request
                .items
                .push(item(ToolResult { call, provider_id, tool, capability: None, outcome, native: None }.into()));
        }
    }
    request.items.push(item(Message { role: Role::User, parts: vec![Part::text("last")], native: None }.into()));
    let c = &mut request.controls;
    // Some models that think take no sampling.
    if s.has("reasoning_effort") {
        c.reasoning_effort = Some("low".into());
    } else {
        c.temperature = s.when("temperature", 0.5);
        c.top_p = s.when("top_p", 0.25);
        c.top_k = s.when("top_k", 40);
    }
    c.seed = s.when("seed", 7);
    // One protocol insists on it.
    c.max_output_tokens = Some(2048);
    c.stop = s.when("stop", vec!["END".into()]).unwrap_or_default();
    c.frequency_penalty = s.when("frequency_penalty", 0.5);
    c.presence_penalty = s.when("presence_penalty", 0.5);
    c.top_logprobs = s.when("top_logprobs", 2);
    c.verbosity = s.when("verbosity", "low".into());
    c.max_hosted_calls = s.when("max_hosted_calls", 3);
    c.service_tier = s.when("service_tier", "auto".into());
    c.store = s.when("store.false", false);
    c.background = s.when("background", true);
    c.user = s.when("user", "u1".into());
    c.metadata = s.when("metadata", json!({"k": "v"})).and_then(|value| value.as_object().cloned()).unwrap_or_default();
    c.state = s.when("state.replay", StateMode::Replay);
    if s.has("cache.auto") || s.has("cache.key") {
        let strategy = s.when("cache.auto", CacheStrategy::Auto);
        let key = s.when("cache.key", "k".into());
        let ttl = lifetime(a, b).filter(|_| s.has("cache.ttl")).map(str::to_owned);
        if strategy.is_some() || key.is_some() {
            c.cache = Some(CacheControl { strategy, key, ttl, content: None });
        }
    }
    if s.has("output.strict") {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
        let name = s.when("output.name", "answer".into()).unwrap_or("output".into());
        let description = s.when("output.description", "The answer.".into());
        request.output = Some(OutputFormat { name, description, schema: Schema::new(schema), strict: true });
    }
    request.hosted = hosted(s);
    if !request.hosted.is_empty() {
        // What the protocols mean by a choice of functions beside tools of their own is told apart elsewhere.
        match &mut request.tool_choice {
            ToolChoice::Allowed(allowed) if !allowed.required => allowed.hosted = true,
            choice @ (ToolChoice::None | ToolChoice::Allowed(_)) => *choice = ToolChoice::Auto,
            _ => {}
        }
    }
    request
}

/// What a protocol carries of a request: no ids of ours, no origins, no state. Texts side by side are one, and where no text
/// stands there is no message.
fn folded(request: &TurnRequest) -> TurnRequest {
    let mut request = request.clone();
    let env = env();
    let zero: ItemId = env.new_id();
    let mut ids: HashMap<CallId, CallId> = HashMap::new();
    let mut fresh = |id: &CallId| ids.entry(id.clone()).or_insert_with(|| env.new_id()).clone();
    for item in &mut request.items {
        let mut plain = Item::clone(item);
        plain.id = zero.clone();
        plain.origin = Origins::none();
        match &mut plain.body {
            ItemBody::ToolCall(call) => {
                call.id = fresh(&call.id);
                call.native = None;
                let parsed = call.arguments.parse().expect("an object");
                call.arguments = Arguments::from_text(Value::Object(parsed).to_string());
            }
            ItemBody::ToolResult(result) => {
                result.call = fresh(&result.call);
                result.native = None;
                result.outcome.origin = Origins::none();
                strip(&mut result.outcome.content);
            }
            ItemBody::Message(message) => {
                message.native = None;
                strip(&mut message.parts);
            }
            _ => {}
        }
        *item = Arc::new(plain);
    }
    for tool in &mut request.tools {
        let mut plain = ToolDefinition::clone(tool);
        plain.native = None;
        // Not to be held to a schema is what is so anyway.
        plain.strict = plain.strict.filter(|strict| *strict);
        *tool = Arc::new(plain);
    }
    // Having to call one of one is having to call this one.
    if let ToolChoice::Allowed(AllowedTools { names, required: true, .. }) = &request.tool_choice
        && let [name] = names.as_slice()
    {
        request.tool_choice = ToolChoice::Tool(name.clone());
    }
    request.hosted.sort_by_key(|hosted| hosted.kind().to_owned());
    request.native = None;
    // What a shape is called and is for stands in its schema where a protocol has no other place for it, or goes without a name.
    if let Some(output) = &mut request.output {
        let mut schema = output.schema.as_value().clone();
        let fields = schema.as_object_mut().expect("an object");
        fields.shift_remove("title");
        let description = fields.shift_remove("description").and_then(|text| text.as_str().map(str::to_owned));
        output.description = output.description.take().or(description);
        output.schema = Schema::new(schema);
        output.name = String::new();
    }
    request
}

fn strip(parts: &mut [Part]) {
    for part in parts {
        match part {
            Part::Text(text) => text.native = None,
            Part::Image(media) | Part::Audio(media) | Part::File(media) => media.native = None,
            _ => {}
        }
    }
}

/// Where two values differ, and how.
fn differences(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let none = Value::Null;
                let (a, b) = (a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none));
                differences(a, b, &format!("{path}.{key}"), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{path}[{i}]"), found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{path}: {a} became {b}")),
    }
}

/// What one protocol makes of a request on its way out and in again; `None` where it is refused.
fn through(protocol: Protocol, request: &TurnRequest) -> Result<TurnRequest, String> {
    let encoded = protocol.encode_request(request, &provider(protocol), true).map_err(|error| error.to_string())?;
    // What a protocol notes for itself while reading is its own state.
    let lost: Vec<_> = encoded.omitted.iter().filter(|omission| !omission.what.ends_with("native")).collect();
    if !lost.is_empty() {
        return Err(format!("{lost:?} is left out"));
    }
    let decoded = protocol.decode_request(&encoded.body, &provider(protocol), &env());
    let mut decoded = decoded.map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&encoded.body)))?.request;
    if protocol == Protocol::Gemini {
        // It stands in the path.
        decoded.model = request.model.clone();
    }
    Ok(decoded)
}

#[test]
fn what_both_express_comes_back_equal_through_either() {
    let mut faults = Vec::new();
    for a in Protocol::ALL {
        for b in Protocol::ALL.into_iter().filter(|b| *b != a) {
            let common = common(a, b);
            let rows = ALL_FIELDS.iter().filter(|(_, class)| *class != Class::State).count();
            let (accepted, all) = (Cell::new(0u32), Cell::new(0u32));
            let last = std::cell::RefCell::new(String::new());
            let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
            let outcome = runner.run(&prop::collection::vec(any::<u16>(), 0..200), |choices| {
                let request = generate(&choices, a, b, &common);
                all.set(all.get() + 1);
                let first = match through(a, &request) {
                    Ok(first) => first,
                    Err(error) => {
                        last.replace(error);
                        return Ok(());
                    }
                };
                let there = match through(b, &first) {
                    Ok(there) => there,
                    Err(error) => {
                        last.replace(error);
                        return Ok(());
                    }
                };
                let back = through(a, &there).map_err(TestCaseError::fail)?;
                accepted.set(accepted.get() + 1);
                let mut found = Vec::new();
                let form = |request: &TurnRequest| serde_json::to_value(folded(request)).expect("a value");
                differences(&form(&first), &form(&back), "", &mut found);
                if found.is_empty() { Ok(()) } else { Err(TestCaseError::fail(found.join("; "))) }
            });
            let (accepted, all) = (accepted.get(), all.get());
            let share = 100 * common.len() / rows;
            eprintln!("{a} through {b}: {} of {rows} rows ({share} %), {accepted} of {all} accepted", common.len());
            if !last.borrow().is_empty() {
                eprintln!("    the last that was not: {}", last.borrow());
            }
            if let Err(error) = outcome {
                let text = error.to_string();
                let said = text.split("minimal failing input").next().unwrap_or_default();
                faults.push(format!("{a} through {b}: {said}"));
            } else if accepted * 100 < all * 95 {
                faults.push(format!("{a} through {b}: {accepted} of {all} are taken: {}", last.borrow()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}
