//! From a request of ours to the body of a Chat Completions request.

mod output;

use super::conversation::Conversation;
use super::{CacheMarks, Dialect, OutputLimit, UserField};
use crate::carry::{Takes, carry};
use crate::encoded::{Encoded, Omissions, room_for};
use crate::json;
use crate::names::{Names, alias};
use crate::options::{self, Words};
use crate::overlay::overlay;
use crate::protocol::Protocol;
use crate::tiers;
use crate::tools::{self, ObjectSchema};
use placet_core::hosted::{HostedTool, WebSearch};
use placet_core::part::Native;
use placet_core::turn::{CacheControl, CacheStrategy, StateMode};
use placet_core::{ErrorKind, ProviderError, ProviderId, ToolChoice, ToolDefinition, ToolName, TurnRequest};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

pub(super) const FOREIGN: &str = "it belongs to another provider";
pub(super) const NO_PLACE: &str = "this protocol has no place for it";
const NOT_TAKEN: &str = "this model does not take it";

/// The body of a request. Tools stand in declaration order and before the messages, so that what stays the same from turn
/// to turn comes first.
///
/// # Errors
/// [`ProviderError`] of kind *unsupported* for content or a constraint that this server or protocol cannot express, and of
/// kind *invalid request* for a conversation that no server takes (a call without its result, a result without its call).
/// Nothing is to be sent then.
pub fn encode_request(request: &TurnRequest, dialect: &Dialect) -> Result<Encoded, ProviderError> {
    let mut omitted = Omissions::default();
    let takes = Takes { kept_answers: false, custom_tools: dialect.custom_tools };
    let carried = carry(request, &dialect.provider, Protocol::OpenaiChat, takes, &mut omitted)?;
    let request = &*carried;
    let mut encoder = Encoder { dialect, omitted };
    let messages = Conversation::new(dialect, &mut encoder.omitted).messages(request)?;
    let mut fields = Fields::new(&request.extra, room_for(request));
    fields.put("model", &request.model)?;
    encoder.tools(request, &mut fields)?;
    encoder.output(request, &mut fields)?;
    encoder.controls(request, &mut fields)?;
    encoder.state_and_cache(request, &mut fields)?;
    let native = encoder.own(request.native.as_ref(), "native");
    if dialect.stream {
        fields.put("stream", &true)?;
        let mut options =
            native.and_then(|native| native.get("stream_options")?.as_object()).cloned().unwrap_or_default();
        if dialect.stream_usage {
            options.insert("include_usage".into(), true.into());
        }
        if !options.is_empty() {
            fields.put("stream_options", &options)?;
        }
    }
    if let Some(state) = &request.provider_state {
        let why = if state.provider == dialect.provider { NO_PLACE } else { FOREIGN };
        encoder.omitted.add("provider_state", why);
    }
    fields.put("messages", &messages)?;
    for (key, value) in native.into_iter().flatten() {
        if key != "stream_options" {
            fields.put_new(key, value)?;
        }
    }
    let names = Names::of(request.tools.iter().map(|tool| &tool.name));
    Ok(Encoded { body: fields.finish()?.into(), omitted: encoder.omitted.0, names })
}

/// The client's own body with what changed between the request as it was decoded and as it is now. What did not change
/// stays as the client wrote it, so that nothing of it counts as left out; `stream` and `stream_options` follow the
/// dialect.
///
/// # Errors
/// As [`encode_request`], where something changed.
pub fn encode_request_onto(
    body: &Value,
    decoded: &TurnRequest,
    request: &TurnRequest,
    dialect: &Dialect,
) -> Result<Encoded, ProviderError> {
    let mut encoded = if decoded == request {
        let names = Names::of(request.tools.iter().map(|tool| &tool.name));
        Encoded { body: bytes::Bytes::new(), omitted: Vec::new(), names }
    } else {
        encode_request(request, dialect)?
    };
    let mut changed = if decoded == request {
        body.clone()
    } else {
        let was = encode_request(decoded, dialect)?;
        encoded.omitted.retain(|omission| !was.omitted.contains(omission));
        let read = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap_or_default();
        overlay(body, &read(&was.body), &read(&encoded.body))
    };
    if let Some(fields) = changed.as_object_mut() {
        if fields.get("stream").and_then(Value::as_bool).unwrap_or(false) != dialect.stream {
            fields.insert("stream".into(), dialect.stream.into());
        }
        if !dialect.stream {
            fields.remove("stream_options");
        } else if dialect.stream_usage {
            let options = fields.entry("stream_options").or_insert_with(|| json!({}));
            if let Some(options) = options.as_object_mut() {
                options.insert("include_usage".into(), true.into());
            } else {
                *options = json!({"include_usage": true});
            }
        }
    }
    encoded.body = changed.to_string().into();
    Ok(encoded)
}

/// Writes an object field by field. A field of `extra` replaces ours of the same name; the others follow at the end.
struct Fields<'a> {
    out: Vec<u8>,
    extra: &'a Map<String, Value>,
    written: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    fn new(extra: &'a Map<String, Value>, room: usize) -> Self {
        let mut out = Vec::with_capacity(room);
        out.push(b'{');
        Fields { out, extra, written: Vec::new() }
    }

    fn put(&mut self, key: &'a str, value: &(impl Serialize + ?Sized)) -> Result<(), ProviderError> {
        match self.extra.get(key) {
            Some(value) => self.write(key, value),
            None => self.write(key, value),
        }
    }

    /// Writes a field unless there is one of that name.
    fn put_new(&mut self, key: &'a str, value: &Value) -> Result<(), ProviderError> {
        if self.written.contains(&key) || self.extra.contains_key(key) { Ok(()) } else { self.write(key, value) }
    }

    fn write(&mut self, key: &'a str, value: &(impl Serialize + ?Sized)) -> Result<(), ProviderError> {
        self.written.push(key);
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        let written = json::append(&mut self.out, key).and_then(|()| {
            self.out.push(b':');
            json::append(&mut self.out, value)
        });
        written.map_err(|error| {
            let problem = format!("`{key}` cannot be written as JSON: {error}");
            ProviderError::new(ErrorKind::Internal, "placet".into(), problem)
        })
    }

    fn finish(mut self) -> Result<Vec<u8>, ProviderError> {
        let extra = self.extra;
        for (key, value) in extra {
            if !self.written.contains(&key.as_str()) {
                self.write(key, value)?;
            }
        }
        self.out.push(b'}');
        Ok(self.out)
    }
}

/// One tool of the body.
enum ToolForm<'a> {
    /// One that this provider has no state of.
    Plain {
        name: Cow<'a, str>,
        tool: &'a ToolDefinition,
        strict: Option<bool>,
    },
    Made(Value),
    Raw(&'a Value),
}

impl Serialize for ToolForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Tool<'a> {
            r#type: &'static str,
            function: Function<'a>,
        }
        #[derive(serde::Serialize)]
        struct Function<'a> {
            name: &'a str,
            description: &'a str,
            parameters: ObjectSchema<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            strict: Option<bool>,
        }
        match self {
            ToolForm::Plain { name, tool, strict } => {
                let (description, parameters) = (&*tool.description, ObjectSchema(&tool.schema));
                let function = Function { name, description, parameters, strict: *strict };
                Tool { r#type: "function", function }.serialize(serializer)
            }
            ToolForm::Made(form) => form.serialize(serializer),
            ToolForm::Raw(form) => form.serialize(serializer),
        }
    }
}

/// The error of a field that cannot be expressed.
pub(super) fn unsupported(provider: &ProviderId, field: &str, what: impl AsRef<str>) -> ProviderError {
    let problem = format!("it cannot take {} (`{field}`)", what.as_ref());
    ProviderError::new(ErrorKind::Unsupported, provider.clone(), problem)
        .with_hint("nothing was sent; leave it out, or use a model that can take it")
}

struct Encoder<'a> {
    dialect: &'a Dialect,
    omitted: Omissions,
}

impl<'a> Encoder<'a> {
    fn unsupported(&self, field: &str, what: impl AsRef<str>) -> ProviderError {
        unsupported(&self.dialect.provider, field, what)
    }

    fn invalid(&self, problem: String) -> ProviderError {
        ProviderError::new(ErrorKind::InvalidRequest, self.dialect.provider.clone(), problem)
    }

    /// The fields of state that is this provider's own; that of another is reported under `field`.
    fn own<'n>(&mut self, native: Option<&'n Native>, field: &'static str) -> Option<&'n Map<String, Value>> {
        let native = native?;
        if native.provider == self.dialect.provider {
            return native.value.as_object();
        }
        self.omitted.add(field, FOREIGN);
        None
    }

    fn tools(&mut self, request: &'a TurnRequest, fields: &mut Fields<'a>) -> Result<(), ProviderError> {
        let dialect = self.dialect;
        let choice = &request.tool_choice;
        // A server that heeds no choice is kept from calling by not being offered anything.
        let calls_none = match choice {
            ToolChoice::None => true,
            ToolChoice::Allowed(allowed) => allowed.is_none(),
            _ => false,
        };
        let mut forms = Vec::with_capacity(request.tools.len());
        for tool in request.tools.iter().filter(|_| !calls_none || dialect.forced_choice) {
            forms.push(self.tool(tool)?);
        }
        // What has a field of its own is no matter of choice here, so that it is asked for only where it may be used.
        let is_listed =
            |hosted: &HostedTool| matches!(hosted, HostedTool::Raw(raw) if raw.provider == dialect.provider);
        for hosted in &request.hosted {
            let may_be_used =
                if is_listed(hosted) { !calls_none || dialect.forced_choice } else { choice.admits_hosted() };
            if may_be_used {
                self.hosted(hosted, &mut forms, fields)?;
            }
        }
        if forms.is_empty() {
            if choice.is_forced() {
                return Err(self.invalid("a tool call is demanded, but no tool is offered".to_owned()));
            }
            return Ok(());
        }
        fields.put("tools", &forms)?;
        if choice.is_forced() && !dialect.forced_choice {
            let field = match choice {
                ToolChoice::Tool(_) => "tool_choice.tool",
                ToolChoice::Allowed(_) => "tool_choice.allowed_required",
                _ => "tool_choice.required",
            };
            return Err(self.unsupported(field, "a demand to call a tool"));
        }
        match choice {
            ToolChoice::Auto => {}
            ToolChoice::Required => fields.put("tool_choice", "required")?,
            ToolChoice::None => fields.put("tool_choice", "none")?,
            ToolChoice::Allowed(_) if calls_none => fields.put("tool_choice", "none")?,
            ToolChoice::Tool(name) => fields.put("tool_choice", &self.named(request, name)?)?,
            ToolChoice::Allowed(allowed) => {
                if !dialect.allowed_tools {
                    let field = if allowed.required { "tool_choice.allowed_required" } else { "tool_choice.allowed" };
                    return Err(self.unsupported(field, "a choice among some of the tools"));
                }
                let tools = allowed.names.iter().map(|name| self.named(request, name));
                let tools = tools.collect::<Result<Vec<_>, _>>()?;
                let mode = if allowed.required { "required" } else { "auto" };
                let form = json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}});
                fields.put("tool_choice", &form)?;
            }
        }
        match request.controls.parallel_tool_calls {
            Some(parallel) if dialect.parallel_calls => fields.put("parallel_tool_calls", &parallel)?,
            Some(false) => {
                return Err(self.unsupported("parallel_tool_calls.false", "a demand for one tool call at a time"));
            }
            Some(true) => self.omitted.add("parallel_tool_calls.true", "the server decides about it itself"),
            None => {}
        }
        Ok(())
    }

    /// A tool of the request, by its name in a choice.
    fn named(&self, request: &TurnRequest, name: &ToolName) -> Result<Value, ProviderError> {
        let Some(tool) = request.tools.iter().find(|tool| tool.name == *name) else {
            return Err(self.invalid(format!("a call of `{name}` is demanded, but no such tool is offered")));
        };
        let kind = if self.is_custom(tool) && self.dialect.custom_tools { "custom" } else { "function" };
        Ok(json!({"type": kind, kind: {"name": alias(name.as_str())}}))
    }

    /// Whether a tool is one that this provider knows as taking a text, not JSON.
    fn is_custom(&self, tool: &ToolDefinition) -> bool {
        let native = tool.native.as_ref().filter(|native| native.provider == self.dialect.provider);
        native.is_some_and(|native| native.value["type"] == "custom")
    }

    fn tool(&mut self, tool: &'a ToolDefinition) -> Result<ToolForm<'a>, ProviderError> {
        let name = alias(tool.name.as_str());
        if tool.cache.is_some() {
            self.omitted.add("tool.cache", NO_PLACE);
        }
        let is_custom = self.is_custom(tool);
        let native = self.own(tool.native.as_ref(), "tool.native");
        if is_custom && !self.dialect.custom_tools {
            let format = native.and_then(|native| native.get("custom")?.get("format"));
            if format.is_some_and(|format| format["type"] != "text") {
                self.omitted.add("tool.grammar", "the model is not held to it");
            }
            return Ok(ToolForm::Plain { name, tool, strict: None });
        }
        if is_custom {
            let mut custom = json!({"name": name, "description": tool.description});
            merge(&mut custom, native.and_then(|native| native.get("custom")?.as_object()));
            return Ok(ToolForm::Made(json!({"type": "custom", "custom": custom})));
        }
        let strict = match tool.strict {
            strict if self.dialect.strict_tools => strict,
            Some(true) => {
                self.omitted.add("tool.strict", "the server does not hold a model to a tool's schema");
                None
            }
            _ => None,
        };
        let Some(native) = native.filter(|native| !native.is_empty()) else {
            return Ok(ToolForm::Plain { name, tool, strict });
        };
        let mut form = tools::openai_chat_as(tool, &name, strict);
        for (key, value) in native {
            if key == "function" {
                merge(&mut form["function"], value.as_object());
            } else {
                form[key.as_str()] = value.clone();
            }
        }
        Ok(ToolForm::Made(form))
    }

    /// A tool that the server runs: a web search has a field of its own; what the caller wrote himself goes as it is.
    fn hosted(
        &mut self,
        hosted: &'a HostedTool,
        forms: &mut Vec<ToolForm<'a>>,
        fields: &mut Fields<'a>,
    ) -> Result<(), ProviderError> {
        match hosted {
            HostedTool::WebSearch(_) if self.dialect.web_search => {
                let provider = &self.dialect.provider;
                let known = options::without_foreign(hosted, Words::Chat, &mut self.omitted, |field| {
                    unsupported(provider, field, "an option of a search in another protocol's words")
                })?;
                let HostedTool::WebSearch(search) = &*known else { return Ok(()) };
                let form = self.web_search(search)?;
                fields.put("web_search_options", &form)
            }
            HostedTool::Raw(native) if native.provider == self.dialect.provider => {
                forms.push(ToolForm::Raw(&native.value));
                Ok(())
            }
            HostedTool::Raw(_) => Err(self.unsupported("hosted.raw", "a tool in another provider's words")),
            HostedTool::RemoteMcp(mcp) => {
                let field = if mcp.url.is_some() { "hosted.remote_mcp.url" } else { "hosted.remote_mcp.connector" };
                Err(self.unsupported(field, "an MCP server to talk to"))
            }
            other => {
                let field = format!("hosted.{}", other.kind());
                Err(self.unsupported(&field, format!("the hosted tool `{}`", other.kind())))
            }
        }
    }

    fn web_search(&self, search: &WebSearch) -> Result<Value, ProviderError> {
        let refused = [
            (search.max_uses.is_some(), "max_uses", "a limit on searches"),
            (!search.allowed_domains.is_empty(), "allowed_domains", "a search among some domains only"),
            (!search.blocked_domains.is_empty(), "blocked_domains", "a search that keeps out domains"),
        ];
        if let Some((_, field, what)) = refused.into_iter().find(|(is_asked, ..)| *is_asked) {
            return Err(self.unsupported(&format!("hosted.web_search.{field}"), what));
        }
        let mut form = Map::new();
        if let Some(size) = &search.context_size {
            form.insert("search_context_size".into(), size.as_str().into());
        }
        match &search.user_location {
            // In this protocol the place stands one level deeper.
            Some(Value::Object(place)) if !place.contains_key("approximate") => {
                let inner: Map<String, Value> =
                    place.iter().filter(|(key, _)| *key != "type").map(|(k, v)| (k.clone(), v.clone())).collect();
                form.insert("user_location".into(), json!({"type": "approximate", "approximate": inner}));
            }
            Some(place) => {
                form.insert("user_location".into(), place.clone());
            }
            None => {}
        }
        form.extend(search.extra.iter().map(|(key, value)| (key.clone(), value.clone())));
        Ok(form.into())
    }

    fn controls(&mut self, request: &'a TurnRequest, fields: &mut Fields<'a>) -> Result<(), ProviderError> {
        let (controls, dialect) = (&request.controls, self.dialect);
        if let Some(limit) = controls.max_output_tokens {
            let field = match dialect.output_limit {
                OutputLimit::MaxTokens => "max_tokens",
                OutputLimit::MaxCompletionTokens => "max_completion_tokens",
            };
            fields.put(field, &limit)?;
        }
        if !controls.stop.is_empty() {
            fields.put("stop", &controls.stop)?;
        }
        let text = |text: &Option<String>| text.as_deref().map(Value::from);
        let hints = [
            ("temperature", controls.temperature.map(Value::from), dialect.sampling),
            ("top_p", controls.top_p.map(Value::from), dialect.sampling),
            ("top_k", controls.top_k.map(Value::from), dialect.top_k),
            ("seed", controls.seed.map(Value::from), dialect.seed),
            ("frequency_penalty", controls.frequency_penalty.map(Value::from), dialect.penalties),
            ("presence_penalty", controls.presence_penalty.map(Value::from), dialect.penalties),
            ("reasoning_effort", text(&controls.reasoning_effort), dialect.reasoning_effort),
            ("verbosity", text(&controls.verbosity), dialect.verbosity),
        ];
        for (name, value, is_taken) in hints {
            match value {
                Some(value) if is_taken => fields.put(name, &value)?,
                Some(_) => self.omitted.add(name, NOT_TAKEN),
                None => {}
            }
        }
        match controls.service_tier.as_deref().map(|tier| tiers::openai(tier, true)) {
            Some(Some(tier)) if dialect.service_tier => fields.put("service_tier", tier)?,
            Some(Some(_)) => self.omitted.add("service_tier", NOT_TAKEN),
            Some(None) => self.omitted.add("service_tier", NO_PLACE),
            None => {}
        }
        if let Some(count) = controls.top_logprobs {
            if !dialect.logprobs {
                return Err(self.unsupported("top_logprobs", "a demand for the probabilities of tokens"));
            }
            fields.put("logprobs", &true)?;
            if count > 0 {
                fields.put("top_logprobs", &count)?;
            }
        }
        if !controls.modalities.is_empty() && controls.modalities != ["text"] {
            if !dialect.modalities {
                return Err(self.unsupported("modalities", "a demand for an answer that is not only text"));
            }
            fields.put("modalities", &controls.modalities)?;
        }
        let refused = [
            (controls.max_hosted_calls.is_some(), "max_hosted_calls", "a limit on calls of hosted tools"),
            (controls.background == Some(true), "background", "a request to answer later"),
            // Thinking that can go back always comes along.
            (
                controls.include.iter().any(|what| what != "reasoning.encrypted_content"),
                "include",
                "a demand to include more in the answer",
            ),
        ];
        if let Some((_, field, what)) = refused.into_iter().find(|(is_asked, ..)| *is_asked) {
            return Err(self.unsupported(field, what));
        }
        let left_out = [
            (controls.reasoning_budget.is_some(), "reasoning_budget"),
            (controls.reasoning_summary.is_some(), "reasoning_summary"),
            (controls.compaction.is_some(), "compaction"),
        ];
        for (_, field) in left_out.into_iter().filter(|(is_asked, _)| *is_asked) {
            self.omitted.add(field, NO_PLACE);
        }
        match dialect.metadata {
            true if !controls.metadata.is_empty() => fields.put("metadata", &controls.metadata)?,
            false if !controls.metadata.is_empty() => self.omitted.add("metadata", NOT_TAKEN),
            _ => {}
        }
        if let Some(user) = &controls.user {
            match dialect.user {
                UserField::User => fields.put("user", user)?,
                UserField::SafetyIdentifier => fields.put("safety_identifier", user)?,
                UserField::None => self.omitted.add("user", NOT_TAKEN),
            }
        }
        for native in &controls.safety {
            let own = native.value.as_object().filter(|_| native.provider == dialect.provider);
            let own = own.ok_or_else(|| self.unsupported("safety", "safety settings in another provider's words"))?;
            for (key, value) in own {
                fields.put_new(key, value)?;
            }
        }
        Ok(())
    }

    /// Nobody keeps an answer that was not asked to be kept: a server that has no field for it keeps none.
    fn state_and_cache(&mut self, request: &'a TurnRequest, fields: &mut Fields<'a>) -> Result<(), ProviderError> {
        let (controls, dialect) = (&request.controls, self.dialect);
        let mut store = controls.store;
        match &controls.state {
            None | Some(StateMode::Replay) => {}
            Some(StateMode::ZeroRetention) => store = Some(false),
            Some(StateMode::Stateful) => {
                return Err(self.unsupported("state.stateful", "a conversation that it keeps itself"));
            }
            Some(StateMode::EncryptedReasoning) => {
                return Err(self.unsupported("state.encrypted_reasoning", "a demand for encrypted thinking"));
            }
            Some(other) => return Err(self.unsupported("state", format!("the state mode `{other}`"))),
        }
        match store {
            Some(store) if dialect.store => fields.put("store", &store)?,
            Some(true) => self.omitted.add("store.true", NOT_TAKEN),
            _ => {}
        }
        let Some(CacheControl { strategy, key, ttl, content }) = &controls.cache else { return Ok(()) };
        if content.is_some() {
            return Err(self.unsupported("cache.content", "content that a provider holds already"));
        }
        let mode = match strategy {
            Some(CacheStrategy::Bypass) => return Err(self.unsupported("cache.bypass", "a demand not to cache")),
            Some(CacheStrategy::Auto) => Some("implicit"),
            Some(CacheStrategy::Explicit) => Some("explicit"),
            Some(_) => {
                self.omitted.add("cache", NO_PLACE);
                None
            }
            None => None,
        };
        if let Some(key) = key {
            if dialect.cache_key {
                fields.put("prompt_cache_key", key)?
            } else {
                self.omitted.add("cache.key", NOT_TAKEN)
            }
        }
        // The two oldest lifetimes have a field of their own.
        let ttl = match ttl.as_deref() {
            Some(_) if dialect.cache_marks != CacheMarks::Breakpoint => {
                self.omitted.add("cache.ttl", NOT_TAKEN);
                None
            }
            Some(ttl @ ("24h" | "in_memory" | "in-memory")) => {
                fields.put("prompt_cache_retention", ttl)?;
                None
            }
            other => other,
        };
        if dialect.cache_marks == CacheMarks::Breakpoint && (mode.is_some() || ttl.is_some()) {
            let mut options = Map::new();
            options.extend(mode.map(|mode| ("mode".to_owned(), Value::from(mode))));
            options.extend(ttl.map(|ttl| ("ttl".to_owned(), Value::from(ttl))));
            fields.put("prompt_cache_options", &options)?;
        }
        Ok(())
    }
}

fn merge(form: &mut Value, more: Option<&Map<String, Value>>) {
    if let (Value::Object(form), Some(more)) = (form, more) {
        form.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}
