//! From a client's request to a request of ours.

use super::controls::LOGPROBS;
use super::parts::{call_native, decode_parts, message_head, native, rest, text_native, thought, whole_body, word};
use super::plain::declared;
use super::tools::{ADDITIONAL, ClientTools, HELD, Tools, custom_arguments, is_found};
use crate::envelope;
use crate::foreign;
use crate::json::Node;
use crate::request::{ClientBody, DecodedRequest, RequestError};
use placet_core::item::Reasoning;
use placet_core::part::Native;
use placet_core::turn::{CacheControl, CacheStrategy, Compaction, Controls, OutputFormat};
use placet_core::{
    Arguments, CallId, Env, Item, ItemBody, Message, Origin, Part, ProviderId, ProviderState, Role, Schema, SharedText,
    ToolName, TurnRequest,
};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Where a sealed value says whose it is, if it is not thinking itself: an object with this key and `value`.
pub(super) const ATTACHED: &str = "placet_state_of";

/// Reads a client's request. `provider` owns what has no name of ours. A result whose call is not in the body is kept: its tool
/// is named by the body, or else goes by the id of the call.
///
/// # Errors
/// [`RequestError`] where the body is no JSON or a field is not what the protocol says, with its path.
pub fn decode_request(body: &[u8], provider: &ProviderId, env: &Env) -> Result<DecodedRequest, RequestError> {
    let body = ClientBody::new(body)?;
    let read = body.read()?;
    let Some(nodes) = read.as_fields() else {
        return Err(RequestError::field("body", "expected a JSON object"));
    };
    // All but what is long.
    let map = nodes.iter().filter(|(key, _)| !matches!(*key, "input" | "tools"));
    let map = &map.map(|(key, value)| (key.to_owned(), value.to_value())).collect();
    let fields = Fields { map, provider };
    let mut request = TurnRequest { model: fields.text("model")?.unwrap_or_default(), ..TurnRequest::default() };
    // A stored prompt may name the model.
    if request.model.is_empty() && !map.contains_key("prompt") {
        return Err(RequestError::field("model", "expected the name of a model"));
    }
    request.instructions = fields.text("instructions")?.map(SharedText::from);
    let mut tools = Tools::default();
    match nodes.given("tools") {
        Some(Node::List(list)) => {
            for (i, tool) in list.iter().enumerate() {
                if !tools.plain(tool) {
                    tools.take_one(&tool.to_value(), &format!("tools[{i}]"), None, provider)?;
                }
            }
        }
        Some(other) => tools.take(&other.to_value(), "tools", None, provider)?,
        None => {}
    }
    let declared = declared(&read);
    let mut items = Items::new(provider, env, &declared);
    match nodes.given("input") {
        Some(Node::List(list)) => {
            for (i, item) in list.iter().enumerate() {
                if !items.plain(item) {
                    items.item(&item.to_value(), &format!("input[{i}]"), &mut tools)?;
                }
            }
        }
        other => items.read(other.map(Node::to_value).as_ref(), &mut tools)?,
    }
    request.items = items.finish();
    request.tools = tools.functions.into_iter().map(Arc::new).collect();
    request.hosted = tools.hosted;
    let mut beyond = rest(map, &KNOWN);
    request.tool_choice = fields.tool_choice(&request, &declared, &mut beyond)?;
    request.controls = fields.controls(&mut beyond)?;
    request.output = fields.output(&mut beyond)?;
    request.provider_state = fields.state();
    request.native = native(provider, beyond);
    let stream = fields.flag("stream")?.unwrap_or(false);
    Ok(DecodedRequest { request, stream, stream_usage: true, body: body.clone() })
}

/// Fields that have names of ours; the others are the native value of the request.
const KNOWN: [&str; 29] = [
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream",
    "temperature",
    "top_p",
    "max_output_tokens",
    "max_tool_calls",
    "top_logprobs",
    "reasoning",
    "text",
    "service_tier",
    "store",
    "background",
    "include",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "truncation",
    "context_management",
    "moderation",
    "previous_response_id",
    "conversation",
];

pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    provider: &'a ProviderId,
}

impl<'a> Fields<'a> {
    pub(super) fn given(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn typed<T>(
        &self,
        key: &str,
        what: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, RequestError> {
        typed(self.map, key, key, what, read)
    }

    fn text(&self, key: &str) -> Result<Option<String>, RequestError> {
        self.typed(key, "a text", |value| value.as_str().map(str::to_owned))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, RequestError> {
        self.typed(key, "true or false", Value::as_bool)
    }

    fn count(&self, key: &str) -> Result<Option<u64>, RequestError> {
        self.typed(key, "a whole number that is not negative", Value::as_u64)
    }

    fn object(&self, key: &str) -> Result<Option<&'a Map<String, Value>>, RequestError> {
        self.typed(key, "an object", Value::as_object)
    }

    fn controls(&self, beyond: &mut Map<String, Value>) -> Result<Controls, RequestError> {
        let none = Map::new();
        let inner = |key: &str, map: &'a Map<String, Value>, name: &str| {
            typed(map, name, &format!("{key}.{name}"), "a text", |value| value.as_str().map(str::to_owned))
        };
        let mut controls = Controls {
            temperature: self.typed("temperature", "a number", Value::as_f64)?,
            top_p: self.typed("top_p", "a number", Value::as_f64)?,
            max_output_tokens: self.count("max_output_tokens")?,
            parallel_tool_calls: self.flag("parallel_tool_calls")?,
            top_logprobs: self.count("top_logprobs")?,
            max_hosted_calls: self.count("max_tool_calls")?,
            service_tier: self.text("service_tier")?,
            store: self.flag("store")?,
            background: self.flag("background")?,
            user: self.text("safety_identifier")?.or(self.text("user")?),
            metadata: self.object("metadata")?.cloned().unwrap_or_default(),
            ..Controls::default()
        };
        // Both may be said, and need not be the same.
        if let Some(user) = self.text("user")?.filter(|user| controls.user.as_ref() != Some(user)) {
            beyond.insert("user".to_owned(), user.into());
        }
        if let Some(reasoning) = self.object("reasoning")? {
            controls.reasoning_effort = inner("reasoning", reasoning, "effort")?;
            controls.reasoning_summary =
                inner("reasoning", reasoning, "summary")?.or(inner("reasoning", reasoning, "generate_summary")?);
            keep(beyond, "reasoning", rest(reasoning, &["effort", "summary", "generate_summary"]));
        }
        if let Some(text) = self.object("text")? {
            controls.verbosity = inner("text", text, "verbosity")?;
        }
        if let Some(include) = self.given("include") {
            let entries = include.as_array().and_then(|list| list.iter().map(|entry| entry.as_str()).collect());
            let entries: Option<Vec<&str>> = entries;
            let entries = entries.ok_or_else(|| RequestError::field("include", "expected a list of texts"))?;
            let has_logprobs = entries.contains(&LOGPROBS);
            controls.include = entries.into_iter().filter(|entry| *entry != LOGPROBS).map(str::to_owned).collect();
            if has_logprobs {
                controls.top_logprobs.get_or_insert(0);
            }
        }
        let options = self.object("prompt_cache_options")?;
        let mode = options.map(|options| inner("prompt_cache_options", options, "mode")).transpose()?.flatten();
        let retention = self.text("prompt_cache_retention")?;
        let ttl = options.and_then(|options| word(options, "ttl")).map(str::to_owned);
        let cache = CacheControl {
            strategy: mode.as_deref().map(|mode| match mode {
                "implicit" => CacheStrategy::Auto,
                other => CacheStrategy::from(other),
            }),
            key: self.text("prompt_cache_key")?,
            ttl: ttl.clone().or(retention.clone()),
            content: None,
        };
        controls.cache = Some(cache).filter(|cache| *cache != CacheControl::default());
        keep(beyond, "prompt_cache_options", rest(options.unwrap_or(&none), &["mode", "ttl"]));
        if let (Some(_), Some(retention)) = (ttl, retention) {
            beyond.insert("prompt_cache_retention".into(), retention.into());
        }
        let management = self.given("context_management");
        let threshold = management.and_then(Value::as_array).and_then(|list| match list.as_slice() {
            [Value::Object(edit)] if edit.len() == 2 && word(edit, "type") == Some("compaction") => {
                edit.get("compact_threshold")?.as_u64()
            }
            _ => None,
        });
        if let (Some(management), None) = (management, threshold) {
            beyond.insert("context_management".into(), management.clone());
        }
        let compaction =
            Compaction { strategy: self.text("truncation")?, max_context_tokens: threshold, ..Compaction::default() };
        controls.compaction = Some(compaction).filter(|compaction| *compaction != Compaction::default());
        if let Some(moderation) = self.given("moderation") {
            controls.safety =
                vec![Native { provider: self.provider.clone(), value: json!({"moderation": moderation}) }];
        }
        Ok(controls)
    }

    fn output(&self, beyond: &mut Map<String, Value>) -> Result<Option<OutputFormat>, RequestError> {
        let Some(text) = self.object("text")? else { return Ok(None) };
        let mut others = rest(text, &["verbosity", "format"]);
        let mut output = None;
        if let Some(format) = text.get("format").filter(|format| !format.is_null()) {
            let kind = format.get("type").and_then(Value::as_str);
            match (kind, format.get("schema").filter(|schema| schema.is_object())) {
                (Some("json_schema"), Some(schema)) => {
                    let said = |key: &str| format.get(key).and_then(Value::as_str).map(str::to_owned);
                    output = Some(OutputFormat {
                        name: said("name").unwrap_or_else(|| OUTPUT_NAME.to_owned()),
                        description: said("description"),
                        schema: Schema::new(schema.clone()),
                        strict: format.get("strict").and_then(Value::as_bool).unwrap_or(false),
                    });
                }
                (Some("json_schema"), None) => {
                    return Err(RequestError::field("text.format.schema", "expected a JSON Schema: an object"));
                }
                (Some("json_object"), _) => {
                    output = Some(OutputFormat {
                        name: OUTPUT_NAME.to_owned(),
                        description: None,
                        schema: Schema::new(json!({"type": "object"})),
                        strict: false,
                    });
                }
                (Some("text"), _) => {}
                _ => {
                    others.insert("format".into(), format.clone());
                }
            }
        }
        keep(beyond, "text", others);
        Ok(output)
    }

    /// What the client goes on from. Its items are those that follow.
    fn state(&self) -> Option<ProviderState> {
        let mut value = Map::new();
        for key in foreign::HELD {
            if let Some(given) = self.given(key) {
                value.insert(key.to_owned(), given.clone());
            }
        }
        if !value.is_empty() {
            value.insert(foreign::FOLLOWS.to_owned(), true.into());
        }
        (!value.is_empty()).then(|| ProviderState { provider: self.provider.clone(), value: value.into() })
    }
}

/// What an output schema is called that has no name.
const OUTPUT_NAME: &str = "output";

fn typed<'a, T>(
    map: &'a Map<String, Value>,
    key: &str,
    path: &str,
    what: &str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Result<Option<T>, RequestError> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match read(value) {
            Some(value) => Ok(Some(value)),
            None => {
                let found = placet_core::tool::json_kind(value);
                Err(RequestError::field(path, format!("expected {what}, found {found}")))
            }
        },
    }
}

fn keep(beyond: &mut Map<String, Value>, key: &str, value: Map<String, Value>) {
    if !value.is_empty() {
        beyond.insert(key.to_owned(), Value::Object(value));
    }
}

/// The conversation, as it is read.
pub(super) struct Items<'a> {
    provider: &'a ProviderId,
    pub(super) env: &'a Env,
    pub(super) declared: &'a ClientTools,
    pub(super) items: Vec<Item>,
    /// The calls of each id that wait for their results, and where all calls of it stand.
    pub(super) open: HashMap<String, VecDeque<(CallId, ToolName)>>,
    additional: usize,
}

impl<'a> Items<'a> {
    fn new(provider: &'a ProviderId, env: &'a Env, declared: &'a ClientTools) -> Self {
        Items { provider, env, declared, items: Vec::new(), open: HashMap::new(), additional: 0 }
    }

    fn finish(self) -> Vec<Arc<Item>> {
        self.items.into_iter().map(Arc::new).collect()
    }

    pub(super) fn push(&mut self, origin: Origin, body: impl Into<ItemBody>) {
        let id = self.env.new_id();
        self.items.push(Item::new(id, origin, body));
    }

    fn read(&mut self, input: Option<&Value>, tools: &mut Tools) -> Result<(), RequestError> {
        match input {
            None => Ok(()),
            Some(Value::String(text)) => {
                let message = Message { role: Role::User, parts: vec![Part::text(text.as_str())], native: None };
                self.push(Origin::User, message);
                Ok(())
            }
            Some(Value::Array(list)) => {
                list.iter().enumerate().try_for_each(|(i, item)| self.item(item, &format!("input[{i}]"), tools))
            }
            Some(_) => Err(RequestError::field("input", "expected a text or a list of items")),
        }
    }

    fn item(&mut self, item: &Value, place: &str, tools: &mut Tools) -> Result<(), RequestError> {
        let map = match item {
            Value::Object(map) => map,
            Value::String(text) => return self.read(Some(&Value::String(text.clone())), tools),
            _ => return Err(RequestError::field(place, "expected an item: an object")),
        };
        let kind = word(map, "type").or_else(|| map.contains_key("role").then_some("message"));
        match kind {
            Some("message") => self.message(map, place),
            Some("reasoning") => {
                self.reasoning(item, map);
                Ok(())
            }
            Some("function_call" | "custom_tool_call") => self.call(map, place),
            Some("function_call_output" | "custom_tool_call_output") => self.result(map, place),
            Some(ADDITIONAL) => {
                let number = self.additional;
                self.additional += 1;
                let list = map.get("tools").unwrap_or(&Value::Null);
                tools.take(list, &format!("{place}.tools"), Some(number), self.provider)?;
                self.push(Origin::Operator, Native { provider: self.provider.clone(), value: item.clone() });
                Ok(())
            }
            _ => {
                if is_found(item) {
                    let list = map.get("tools").unwrap_or(&Value::Null);
                    tools.take(list, &format!("{place}.tools"), Some(HELD), self.provider)?;
                }
                let body = whole_body(self.provider, item);
                let origin = if matches!(body, ItemBody::HostedCall(_)) { Origin::Model } else { Origin::User };
                self.push(origin, body);
                Ok(())
            }
        }
    }

    fn message(&mut self, map: &Map<String, Value>, place: &str) -> Result<(), RequestError> {
        let (role, origin) = match word(map, "role") {
            Some("user") | None => (Role::User, Origin::User),
            Some("assistant") => (Role::Assistant, Origin::Model),
            Some("system" | "developer") => (Role::System, Origin::Operator),
            Some(other) => (Role::from(other), Origin::User),
        };
        let mut parts = decode_parts(map.get("content"), &format!("{place}.content"), self.provider)?;
        let mut head = message_head(map);
        // The id of a message that a client wrote says nothing to anybody.
        if role != Role::Assistant {
            head.remove("id");
        }
        let first = parts.iter_mut().find_map(|part| match part {
            Part::Text(text) => Some(text),
            _ => None,
        });
        let mut native = None;
        match first {
            Some(text) if role == Role::Assistant => {
                let own = text.native.as_ref().and_then(|native| native.value.as_object()).cloned();
                let of_head = text_native(self.provider, &head, &own.unwrap_or_default());
                let is_refusal = text.native.as_ref().is_some_and(|native| native.value["type"] == "refusal");
                text.native = of_head;
                if let (true, Some(native)) = (is_refusal, &mut text.native) {
                    native.value["type"] = "refusal".into();
                }
            }
            _ => native = super::parts::native(self.provider, head),
        }
        self.push(origin, Message { role, parts, native });
        Ok(())
    }

    /// Thinking, or what another provider's state was sealed into.
    fn reasoning(&mut self, item: &Value, map: &Map<String, Value>) {
        let text = thought(map);
        let sealed = word(map, "encrypted_content").filter(|text| envelope::is_sealed(text));
        let Some(sealed) = sealed else {
            let native = match word(map, "id").is_some_and(super::is_own_id) {
                false => Some(item.clone()),
                // Nobody else's state: only what may be read.
                true if word(map, "encrypted_content").is_none() => None,
                true => Some(Value::Object(rest(map, &[]))),
            };
            let native = native.map(|value| Native { provider: self.provider.clone(), value });
            return self.push(Origin::Model, Reasoning { text, native });
        };
        let Some(opened) = envelope::open(sealed) else {
            // Not sound. A provider is never sent one, so that only the readable part remains.
            return self.push(Origin::Model, Reasoning { text, native: None });
        };
        let of = opened.value.get(ATTACHED).cloned();
        let inner = || {
            let value = opened.value.get("value").cloned().unwrap_or_default();
            Native { provider: opened.provider.clone(), value }
        };
        match of.as_ref().and_then(Value::as_str) {
            None => self.push(Origin::Model, Reasoning { text, native: Some(opened) }),
            Some("text") => {
                let last = self.items.iter_mut().rev().find_map(|item| match &mut item.body {
                    ItemBody::Message(message) if message.role == Role::Assistant => message.parts.last_mut(),
                    _ => None,
                });
                if let Some(Part::Text(text)) = last {
                    text.native = Some(inner());
                }
            }
            Some("reasoning") => {
                let last = self.items.iter_mut().rev().find_map(|item| match &mut item.body {
                    ItemBody::Reasoning(reasoning) => Some(reasoning),
                    _ => None,
                });
                if let Some(reasoning) = last {
                    reasoning.native = Some(inner());
                }
            }
            Some("call") => {
                let last = self.items.iter_mut().rev().find_map(|item| match &mut item.body {
                    ItemBody::ToolCall(call) => Some(call),
                    _ => None,
                });
                if let Some(call) = last {
                    call.native = Some(inner());
                }
            }
            Some(_) => {
                let value = opened.value.get("value").cloned().unwrap_or_default();
                // A client could have written anything there: only what nobody but its provider understands is taken.
                match serde_json::from_value::<ItemBody>(value) {
                    Ok(ItemBody::HostedCall(call)) if call.provider == opened.provider => {
                        self.push(Origin::Model, call);
                    }
                    Ok(ItemBody::Native(native)) if native.provider == opened.provider => {
                        self.push(Origin::Model, native);
                    }
                    _ => {}
                }
            }
        }
    }

    fn call(&mut self, map: &Map<String, Value>, place: &str) -> Result<(), RequestError> {
        let is_custom = word(map, "type") == Some("custom_tool_call");
        let wire_id = word(map, "call_id").or_else(|| word(map, "id")).map(str::to_owned);
        let Some(bare) = word(map, "name") else {
            return Err(RequestError::field(format!("{place}.name"), "expected the name of the tool"));
        };
        let namespace = word(map, "namespace");
        let declared = self.declared.find(namespace, bare);
        let arguments = match map.get(if is_custom { "input" } else { "arguments" }) {
            Some(Value::String(text)) if is_custom => Arguments::from_text(custom_arguments(text)),
            Some(Value::String(text)) => Arguments::from_text(text.as_str()),
            None | Some(Value::Null) => Arguments::from_text(""),
            Some(value) => Arguments::from_value(value),
        };
        let mut native = call_native(self.provider, map);
        // What the declaration of the tool says already is not said again.
        if let (Some(value), Some((_, tool))) =
            (native.as_mut().and_then(|native| native.value.as_object_mut()), &declared)
        {
            if tool.is_custom == is_custom {
                value.shift_remove("type");
            }
            if tool.namespace.as_deref() == namespace {
                value.shift_remove("namespace");
            }
        }
        native = native.filter(|native| native.value.as_object().is_none_or(|value| !value.is_empty()));
        let name = match &declared {
            Some((name, _)) => name.clone(),
            // Some providers put a namespace before the tools that they load later.
            None => match namespace.filter(|space| *space != bare) {
                Some(space) => ToolName::new(format!("{space}__{bare}")),
                None => ToolName::new(bare),
            },
        };
        self.called(wire_id, name, arguments, native);
        Ok(())
    }

    fn result(&mut self, map: &Map<String, Value>, place: &str) -> Result<(), RequestError> {
        let is_custom = word(map, "type") == Some("custom_tool_call_output");
        let wire_id = word(map, "call_id").unwrap_or_default().to_owned();
        let content = match map.get("output") {
            Some(output @ (Value::Object(_) | Value::Number(_) | Value::Bool(_))) => {
                vec![Part::text(output.to_string())]
            }
            output => decode_parts(output, &format!("{place}.output"), self.provider)?,
        };
        let found = self.waiting(&wire_id);
        let mut value = rest(map, &["type", "call_id", "output", "status", "id"]);
        // The call's kind is not in this body, so that the result has to say it.
        if is_custom && found.is_none() {
            value.insert("type".into(), "custom_tool_call_output".into());
        }
        let named = word(map, "name").unwrap_or(if wire_id.is_empty() { "unnamed" } else { &wire_id }).to_owned();
        self.answered(&wire_id, &named, found, content, native(self.provider, value));
        Ok(())
    }
}
