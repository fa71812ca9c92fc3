//! From a client's body to a request of ours.
//!
//! What has no name of ours is kept in the `native` fields of what it stands at, as state of the given provider. Ids are ours
//! and new; the client's ids of calls are kept beside them. A result finds its call by that id; one whose call is not in the
//! body is kept all the same, and its tool is then called by the id, since nothing else is known of it.

use crate::asked::Asked;
use crate::json::Node;
use crate::{ClientBody, DecodedRequest, RequestError};
use placet_core::hosted::{HostedTool, WebSearch};
use placet_core::part::Native;
use placet_core::turn::{AllowedTools, CacheControl, CacheStrategy, OutputFormat};
use placet_core::{
    Effect, Env, ErrorKind, Item, ItemBody, Origin, ProviderId, Schema, ToolChoice, ToolDefinition, ToolName,
    TurnRequest,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Reads a client's request. `provider` owns what has no name of ours.
///
/// A first message of the operator that is one plain text is the instructions; any other stays where it stands.
///
/// # Errors
/// [`RequestError`] where the body is no request of this protocol, with the place that is wrong.
pub fn decode_request(body: &[u8], provider: &ProviderId, env: &Env) -> Result<DecodedRequest, RequestError> {
    let body = ClientBody::new(body)?;
    let read = body.read()?;
    let Some(fields) = read.as_fields() else {
        return Err(RequestError {
            kind: ErrorKind::InvalidRequest,
            problem: "the body is no JSON object; expected a request with `model` and `messages`".to_owned(),
            field: None,
        });
    };
    let mut reader = Reader { provider, env, calls: Asked::default(), request: TurnRequest::default() };
    let mut rest = Map::new();
    let (mut stream, mut stream_usage) = (false, false);
    for (key, node) in fields.iter() {
        match (key, node) {
            ("messages", _) => continue,
            ("tools", Node::List(tools)) => {
                for (place, tool) in tools.iter().enumerate() {
                    if !reader.plain_tool(tool) {
                        reader.tool(&tool.to_value(), &format!("tools[{place}]"))?;
                    }
                }
                continue;
            }
            _ => {}
        }
        let value = &node.to_value();
        match key {
            "stream" => stream = optional(value, key, "true or false", Value::as_bool)?.unwrap_or(false),
            "stream_options" => {
                let options = optional(value, key, "an object", Value::as_object)?;
                let mut more = options.cloned().unwrap_or_default();
                stream_usage = more.remove("include_usage").is_some_and(|wanted| wanted == true);
                if !more.is_empty() {
                    rest.insert(key.to_owned(), more.into());
                }
            }
            _ if reader.field(key, value)? => {}
            _ => {
                rest.insert(key.to_owned(), value.clone());
            }
        }
    }
    let messages = fields.get("messages").and_then(Node::as_list);
    let messages = messages.ok_or_else(|| RequestError::field("messages", "expected a list of messages"))?;
    if fields.text("model").is_none() {
        return Err(RequestError::field("model", "expected the name of a model"));
    }
    for (place, message) in messages.iter().enumerate() {
        if !reader.plain_message(message, place) {
            reader.message(&message.to_value(), place)?;
        }
    }
    reader.searches_all_the_same();
    let mut request = reader.request;
    if !rest.is_empty() {
        request.native = Some(Native { provider: provider.clone(), value: rest.into() });
    }
    Ok(DecodedRequest { request, stream, stream_usage, body: body.clone() })
}

pub(super) struct Reader<'a> {
    pub(super) provider: &'a ProviderId,
    pub(super) env: &'a Env,
    pub(super) calls: Asked,
    pub(super) request: TurnRequest,
}

/// A value that may be absent or null.
pub(super) fn optional<'v, T>(
    value: &'v Value,
    field: &str,
    expected: &str,
    read: impl FnOnce(&'v Value) -> Option<T>,
) -> Result<Option<T>, RequestError> {
    if value.is_null() {
        return Ok(None);
    }
    read(value).map(Some).ok_or_else(|| RequestError::field(field, format!("expected {expected}")))
}

/// A whole number, also where it is written as `5.0`.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0 && *n < 9e15).map(|n| n as u64))
}

pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(text).collect()
}

/// The fields of `object` that are not among the known ones and not null.
pub(super) fn beyond(object: &Map<String, Value>, known: &[&str]) -> Map<String, Value> {
    let unknown = object.iter().filter(|(key, value)| !known.contains(&key.as_str()) && !value.is_null());
    unknown.map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Reader<'_> {
    pub(super) fn native(&self, value: Map<String, Value>) -> Option<Native> {
        (!value.is_empty()).then(|| Native { provider: self.provider.clone(), value: value.into() })
    }

    pub(super) fn push(&mut self, origin: Origin, body: impl Into<ItemBody>) {
        self.request.items.push(Arc::new(Item::new(self.env.new_id(), origin, body)));
    }

    /// Takes a field that has a name of ours; whether it has.
    fn field(&mut self, key: &str, value: &Value) -> Result<bool, RequestError> {
        const NUMBER: &str = "a number";
        const WHOLE: &str = "a whole number, 0 or more";
        const TEXT: &str = "a text";
        let controls = &mut self.request.controls;
        match key {
            "model" => self.request.model = optional(value, key, TEXT, text)?.unwrap_or_default(),
            "temperature" => controls.temperature = optional(value, key, NUMBER, Value::as_f64)?,
            "top_p" => controls.top_p = optional(value, key, NUMBER, Value::as_f64)?,
            "top_k" => controls.top_k = optional(value, key, WHOLE, whole)?,
            "frequency_penalty" => controls.frequency_penalty = optional(value, key, NUMBER, Value::as_f64)?,
            "presence_penalty" => controls.presence_penalty = optional(value, key, NUMBER, Value::as_f64)?,
            "seed" => match value.as_i64() {
                // Ours has no sign; such a seed goes as it is.
                Some(seed) if seed < 0 => return Ok(false),
                _ => controls.seed = optional(value, key, "a whole number", whole)?,
            },
            "max_tokens" | "max_completion_tokens" => {
                let limit = optional(value, key, WHOLE, whole)?;
                controls.max_output_tokens = limit.or(controls.max_output_tokens);
            }
            "stop" => {
                let read = |value: &Value| text(value).map(|text| vec![text]).or_else(|| texts(value));
                controls.stop = optional(value, key, "a text or a list of texts", read)?.unwrap_or_default();
            }
            "logprobs" => {
                if optional(value, key, "true or false", Value::as_bool)? == Some(true) {
                    controls.top_logprobs.get_or_insert(0);
                }
            }
            "top_logprobs" => {
                if let Some(count) = optional(value, key, WHOLE, whole)? {
                    controls.top_logprobs = Some(count);
                }
            }
            "reasoning_effort" => controls.reasoning_effort = optional(value, key, TEXT, text)?,
            "verbosity" => controls.verbosity = optional(value, key, TEXT, text)?,
            "service_tier" => controls.service_tier = optional(value, key, TEXT, text)?,
            "store" => controls.store = optional(value, key, "true or false", Value::as_bool)?,
            "metadata" => {
                controls.metadata = optional(value, key, "an object", Value::as_object)?.cloned().unwrap_or_default();
            }
            "modalities" => {
                controls.modalities = optional(value, key, "a list of texts", texts)?.unwrap_or_default();
            }
            "parallel_tool_calls" => {
                controls.parallel_tool_calls = optional(value, key, "true or false", Value::as_bool)?;
            }
            // Two words for one thing; where both are said the second goes as it is.
            "user" | "safety_identifier" => match optional(value, key, TEXT, text)? {
                Some(user) if controls.user.as_ref().is_none_or(|known| *known == user) => controls.user = Some(user),
                Some(_) => return Ok(false),
                None => {}
            },
            "prompt_cache_key" => self.cache(|cache, key| cache.key = key, optional(value, key, TEXT, text)?),
            "prompt_cache_retention" => self.cache(|cache, ttl| cache.ttl = ttl, optional(value, key, TEXT, text)?),
            "prompt_cache_options" => {
                let Some(options) = optional(value, key, "an object", Value::as_object)? else { return Ok(true) };
                let word = |key: &str| options.get(key).and_then(text);
                self.cache(|cache, ttl| cache.ttl = ttl, word("ttl"));
                match word("mode").as_deref() {
                    Some("implicit") => self.cache(|cache, mode| cache.strategy = mode, Some(CacheStrategy::Auto)),
                    Some("explicit") => self.cache(|cache, mode| cache.strategy = mode, Some(CacheStrategy::Explicit)),
                    _ => {}
                }
            }
            // What is to be blocked.
            "moderation" => {
                if !value.is_null() {
                    let value = json!({ key: value });
                    controls.safety.push(Native { provider: self.provider.clone(), value });
                }
            }
            "tools" => {
                let tools = optional(value, key, "a list of tools", Value::as_array)?;
                for (place, tool) in tools.into_iter().flatten().enumerate() {
                    self.tool(tool, &format!("tools[{place}]"))?;
                }
            }
            // The ancestor of tools.
            "functions" => {
                let functions = optional(value, key, "a list of functions", Value::as_array)?;
                for (place, function) in functions.into_iter().flatten().enumerate() {
                    self.tool(&json!({"type": "function", "function": function}), &format!("functions[{place}]"))?;
                }
            }
            "tool_choice" | "function_call" => return self.tool_choice(key, value),
            "response_format" => return self.response_format(value),
            "web_search_options" => {
                if let Some(options) = optional(value, key, "an object", Value::as_object)? {
                    self.web_search(options);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn cache<T>(&mut self, set: impl FnOnce(&mut CacheControl, Option<T>), value: Option<T>) {
        if value.is_some() {
            set(self.request.controls.cache.get_or_insert_with(CacheControl::default), value);
        }
    }

    fn tool(&mut self, tool: &Value, field: &str) -> Result<(), RequestError> {
        let object = tool.as_object().ok_or_else(|| RequestError::field(field, "expected an object"))?;
        let kind = object.get("type").and_then(Value::as_str).unwrap_or("function");
        let inner = object.get(kind).and_then(Value::as_object);
        let inner = match (kind, inner) {
            ("function" | "custom", Some(inner)) => inner,
            ("function" | "custom", None) => {
                return Err(RequestError::field(format!("{field}.{kind}"), "expected an object with a `name`"));
            }
            _ => {
                let native = Native { provider: self.provider.clone(), value: tool.clone() };
                self.request.hosted.push(HostedTool::Raw(native));
                return Ok(());
            }
        };
        let word = |key: &str| inner.get(key).and_then(text);
        let name = word("name").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| RequestError::field(format!("{field}.{kind}.name"), "expected a name"))?;
        let description = word("description").unwrap_or_default();
        let mut native = beyond(object, &["type", kind]);
        let mut definition;
        if kind == "custom" {
            // Everybody else sees a tool with one text.
            let schema = json!({
                "type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"],
                "additionalProperties": false,
            });
            definition = ToolDefinition::new(name, description, Schema::new(schema), Effect::Once);
            native.insert("type".into(), kind.into());
            native.insert("custom".into(), beyond(inner, &["name", "description"]).into());
        } else {
            let schema = match inner.get("parameters") {
                Some(schema @ Value::Object(_)) => schema.clone(),
                None | Some(Value::Null) => json!({"type": "object", "properties": {}}),
                Some(_) => {
                    return Err(RequestError::field(format!("{field}.function.parameters"), "expected a JSON Schema"));
                }
            };
            definition = ToolDefinition::new(name, description, Schema::new(schema), Effect::Once);
            definition.strict = inner.get("strict").and_then(Value::as_bool);
            let more = beyond(inner, &["name", "description", "parameters", "strict"]);
            if !more.is_empty() {
                native.insert("function".into(), more.into());
            }
        }
        definition.native = self.native(native);
        self.request.tools.push(Arc::new(definition));
        Ok(())
    }

    fn tool_choice(&mut self, key: &str, value: &Value) -> Result<bool, RequestError> {
        let name = |value: &Value| {
            let kinds = ["function", "custom"].into_iter().find_map(|kind| value.get(kind));
            kinds.unwrap_or(value).get("name").and_then(Value::as_str).map(ToolName::new)
        };
        let choice = match value {
            Value::Null => return Ok(true),
            Value::String(word) => match word.as_str() {
                "auto" => ToolChoice::Auto,
                "none" => ToolChoice::None,
                "required" | "any" => ToolChoice::Required,
                _ => return Err(RequestError::field(key, "expected `auto`, `none`, `required` or a tool")),
            },
            value if value["type"] == "allowed_tools" => {
                let allowed = &value["allowed_tools"];
                let names = allowed["tools"].as_array().map(|tools| tools.iter().map(name).collect::<Option<Vec<_>>>());
                let names = names.flatten();
                let names = names.ok_or_else(|| {
                    RequestError::field(format!("{key}.allowed_tools.tools"), "expected a list of tools with names")
                })?;
                ToolChoice::Allowed(AllowedTools { names, required: allowed["mode"] == "required", hosted: false })
            }
            value => match name(value) {
                Some(name) => ToolChoice::Tool(name),
                // A choice of a tool that the server runs, in the server's words.
                None if value["type"].is_string() => return Ok(false),
                None => return Err(RequestError::field(key, "expected `auto`, `none`, `required` or a tool")),
            },
        };
        self.request.tool_choice = choice;
        Ok(true)
    }

    /// A choice says nothing of the search, which has a field of its own.
    fn searches_all_the_same(&mut self) {
        let request = &mut self.request;
        if request.hosted.iter().any(|hosted| matches!(hosted, HostedTool::WebSearch(_))) {
            match &mut request.tool_choice {
                ToolChoice::Allowed(allowed) => allowed.hosted = true,
                choice @ ToolChoice::None => {
                    *choice = ToolChoice::Allowed(AllowedTools { hosted: true, ..AllowedTools::default() });
                }
                _ => {}
            }
        }
    }

    fn response_format(&mut self, value: &Value) -> Result<bool, RequestError> {
        let any_object = || json!({"type": "object"});
        match value.get("type").and_then(Value::as_str) {
            None if value.is_null() => {}
            None => return Err(RequestError::field("response_format", "expected an object with a `type`")),
            Some("text") => {}
            Some("json_object") => {
                let (name, schema) = ("answer".to_owned(), Schema::new(any_object()));
                self.request.output = Some(OutputFormat { name, description: None, schema, strict: false });
            }
            Some("json_schema") => {
                let form = value.get("json_schema").and_then(Value::as_object);
                let form = form.ok_or_else(|| {
                    RequestError::field("response_format.json_schema", "expected an object with `name` and `schema`")
                })?;
                self.request.output = Some(OutputFormat {
                    name: form.get("name").and_then(text).unwrap_or_else(|| "answer".to_owned()),
                    description: form.get("description").and_then(text),
                    schema: Schema::new(form.get("schema").cloned().unwrap_or_else(any_object)),
                    strict: form.get("strict").and_then(Value::as_bool).unwrap_or(false),
                });
            }
            Some(_) => return Ok(false),
        }
        Ok(true)
    }

    fn web_search(&mut self, options: &Map<String, Value>) {
        let place = options.get("user_location").filter(|place| !place.is_null()).map(|place| {
            match place.get("approximate").and_then(Value::as_object) {
                Some(inner) => {
                    let mut flat = Map::new();
                    flat.insert("type".into(), place.get("type").cloned().unwrap_or_else(|| "approximate".into()));
                    flat.extend(inner.iter().map(|(key, value)| (key.clone(), value.clone())));
                    flat.into()
                }
                None => place.clone(),
            }
        });
        self.request.hosted.push(HostedTool::WebSearch(WebSearch {
            context_size: options.get("search_context_size").and_then(text),
            user_location: place,
            extra: beyond(options, &["search_context_size", "user_location"]),
            ..WebSearch::default()
        }));
    }
}
