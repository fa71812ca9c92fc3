//! From a request of ours to the body of a Messages request.

use super::blocks::{BLANK, Conversation, LONGEST_NAME, NO_SPACES, Writer, mark_form};
use super::hosted::{self, Offered};
use super::media::is_blank;
use super::sealed::is_sealed_block;
use super::{Cache, Dialect};
use crate::carry::{Takes, carry};
use crate::encoded::{Encoded, Omissions, room_for};
use crate::names::{Names, alias_within};
use crate::protocol::Protocol;
use crate::schema::to_anthropic;
use crate::tools::{self, ObjectSchema};
use crate::{json, overlay};
use placet_core::part::{CacheMark, Native};
use placet_core::turn::CacheStrategy;
use placet_core::{ErrorKind, ProviderError, ProviderId, ToolChoice, ToolDefinition, TurnRequest};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

const FOREIGN: &str = "it belongs to another provider";
/// How many parameters strict tools may leave optional, all together.
const MOST_OPTIONAL: usize = 24;

/// The body of a request. Tools and what the operator says stand before the messages, so that what stays the same from turn to
/// turn comes first.
///
/// # Errors
/// [`ProviderError`] of kind *unsupported* for content, a constraint or a restriction that this server or protocol cannot
/// express, naming the field, and of kind *invalid request* for a conversation that no server takes (a call without its
/// result). Nothing is to be sent then.
pub fn encode_request(request: &TurnRequest, dialect: &Dialect) -> Result<Encoded, ProviderError> {
    let mut omitted = Omissions::default();
    let carried = carry(request, &dialect.provider, Protocol::AnthropicMessages, Takes::default(), &mut omitted)?;
    let request = &*carried;
    let mut encoder = Encoder::new(request, dialect, omitted);
    let conversation = Writer::new(&mut encoder).write(request)?;
    let (mut fields, tools) = encoder.body(request, &conversation)?;
    let mut conversation = conversation;
    encoder.automatic_marks(request, &mut fields, &mut conversation);
    for (key, value) in &request.extra {
        fields.insert(key.clone(), value.clone());
    }
    let body = Body {
        has_own: fields.contains_key("messages"),
        fields: &fields,
        tools: Some(tools.as_slice()).filter(|_| !request.extra.contains_key("tools")),
        messages: &conversation.messages,
    };
    let body = json::to_vec_within(room_for(request), &body).map_err(|error| {
        let problem = format!("the request cannot be written as JSON: {error}");
        ProviderError::new(ErrorKind::Internal, "placet".into(), problem)
    })?;
    let names = Names::within(LONGEST_NAME, request.tools.iter().map(|tool| &tool.name));
    Ok(Encoded { body: body.into(), omitted: encoder.omitted.0, names })
}

/// The body of a request to count the tokens of `request`: what has no bearing on the input is not in it.
///
/// # Errors
/// As for [`encode_request`].
pub fn encode_count_request(request: &TurnRequest, dialect: &Dialect) -> Result<Encoded, ProviderError> {
    const TAKEN: [&str; 11] = [
        "model",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "cache_control",
        "context_management",
        "mcp_servers",
        "speed",
    ];
    let mut encoded = encode_request(request, dialect)?;
    let mut body: Map<String, Value> = serde_json::from_slice(&encoded.body).unwrap_or_default();
    body.retain(|key, _| TAKEN.contains(&key.as_str()));
    encoded.body = Value::Object(body).to_string().into();
    Ok(encoded)
}

/// The request put onto the client's own body, of which it was decoded: where both say the same, the body stays as it is, in
/// every detail. Other providers' state that travelled through the client is taken out, and whether it streams is the dialect's
/// to say.
///
/// # Errors
/// As for [`encode_request`], where anything has changed.
pub fn encode_request_onto(
    body: &Value,
    decoded: &TurnRequest,
    request: &TurnRequest,
    dialect: &Dialect,
) -> Result<Encoded, ProviderError> {
    let (mut onto, has_sealed) = without_sealed(body);
    let mut encoded = if decoded == request {
        let names = Names::within(LONGEST_NAME, request.tools.iter().map(|tool| &tool.name));
        Encoded { body: bytes::Bytes::new(), omitted: Vec::new(), names }
    } else {
        let before = encode_request(decoded, dialect)?;
        let after = encode_request(request, dialect)?;
        let read = |encoded: &Encoded| serde_json::from_slice::<Value>(&encoded.body).unwrap_or_default();
        onto = Cow::Owned(overlay(&onto, &read(&before), &read(&after)));
        after
    };
    if has_sealed {
        let mut omitted = Omissions(encoded.omitted);
        omitted.add("reasoning", FOREIGN);
        encoded.omitted = omitted.0;
    }
    let streams = onto.get("stream") == Some(&Value::Bool(true));
    if streams != dialect.stream
        && let Value::Object(fields) = onto.to_mut()
    {
        fields.insert("stream".into(), dialect.stream.into());
    }
    encoded.body = onto.to_string().into();
    Ok(encoded)
}

/// A body without the blocks that hold envelopes of ours.
fn without_sealed(body: &Value) -> (Cow<'_, Value>, bool) {
    let messages = body.get("messages").and_then(Value::as_array).into_iter().flatten();
    let mut blocks = messages.filter_map(|message| message.get("content")?.as_array()).flatten();
    if !blocks.any(is_sealed_block) {
        return (Cow::Borrowed(body), false);
    }
    let mut body = body.clone();
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        if let Some(Value::Array(blocks)) = message.get_mut("content") {
            blocks.retain(|block| !is_sealed_block(block));
        }
    }
    (Cow::Owned(body), true)
}

/// Lays one value over another: objects field by field, where null takes a field away; anything else replaces.
pub(super) fn lay_over(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                match (under.get_mut(key), value) {
                    (_, Value::Null) => {
                        under.shift_remove(key);
                    }
                    (Some(under), value) => lay_over(under, value),
                    (None, value) => {
                        under.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (under, over) => *under = over.clone(),
    }
}

#[derive(Clone, Copy)]
struct Body<'b> {
    fields: &'b Map<String, Value>,
    /// What stands at `tools`, where the caller did not write it.
    tools: Option<&'b [ToolForm<'b>]>,
    messages: &'b [super::blocks::WireMessage<'b>],
    /// The caller wrote the messages.
    has_own: bool,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.fields {
            match self.tools.filter(|_| key == "tools") {
                Some(tools) => map.serialize_entry(key, tools)?,
                None => map.serialize_entry(key, value)?,
            }
        }
        if !self.has_own {
            map.serialize_entry("messages", self.messages)?;
        }
        map.end()
    }
}

/// One tool of the body.
enum ToolForm<'a> {
    Plain(PlainTool<'a>),
    Made(Value),
}

/// A tool that the provider has no fields of its own of.
#[derive(Serialize)]
struct PlainTool<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    /// None is any object.
    #[serde(serialize_with = "schema_or_any")]
    input_schema: Option<ObjectSchema<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Value>,
}

fn schema_or_any<S: Serializer>(schema: &Option<ObjectSchema<'_>>, serializer: S) -> Result<S::Ok, S::Error> {
    match schema {
        Some(schema) => schema.serialize(serializer),
        None => json!({"type": "object", "properties": {}}).serialize(serializer),
    }
}

impl Serialize for ToolForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ToolForm::Plain(tool) => tool.serialize(serializer),
            ToolForm::Made(form) => form.serialize(serializer),
        }
    }
}

/// How a request is refused.
#[derive(Clone, Copy)]
pub(super) struct Refusal<'a>(pub(super) &'a ProviderId);

impl Refusal<'_> {
    /// For a field that cannot be expressed.
    pub(super) fn of(self, field: &str, why: &str) -> ProviderError {
        let problem = format!("it cannot take `{field}`: {why}");
        ProviderError::new(ErrorKind::Unsupported, self.0.clone(), problem)
            .with_hint("nothing was sent; leave it out, or use a model that can take it")
    }

    /// For a request that makes no sense.
    pub(super) fn invalid(self, problem: String) -> ProviderError {
        ProviderError::new(ErrorKind::InvalidRequest, self.0.clone(), problem)
    }
}

pub(super) struct Encoder<'a> {
    pub(super) dialect: &'a Dialect,
    pub(super) omitted: Omissions,
    /// Whether marks for the cache may be written at all.
    pub(super) writes_marks: bool,
    /// The native fields of the request, if they are the provider's.
    pub(super) native: Option<&'a Map<String, Value>>,
}

impl<'a> Encoder<'a> {
    fn new(request: &'a TurnRequest, dialect: &'a Dialect, omitted: Omissions) -> Self {
        let native = request.native.as_ref().filter(|native| native.provider == dialect.provider);
        let cache = request.controls.cache.as_ref();
        let is_bypassed = cache.is_some_and(|cache| cache.strategy == Some(CacheStrategy::Bypass));
        let writes_marks = !is_bypassed && dialect.cache != Cache::None;
        Encoder { dialect, omitted, writes_marks, native: native.and_then(|native| native.value.as_object()) }
    }

    pub(super) fn refusal(&self) -> Refusal<'a> {
        Refusal(&self.dialect.provider)
    }

    pub(super) fn is_own(&self, native: &Native) -> bool {
        native.provider == self.dialect.provider
    }

    pub(super) fn omit_foreign(&mut self, what: &str) {
        self.omitted.add(what, FOREIGN);
    }

    /// The fields of some state, if it is the provider's.
    pub(super) fn fields(&mut self, what: &str, native: Option<&'a Native>) -> Option<&'a Map<String, Value>> {
        let native = native?;
        if self.is_own(native) {
            return native.value.as_object();
        }
        self.omit_foreign(what);
        None
    }

    /// A mark as it may be written.
    pub(super) fn mark<'m>(&mut self, what: &str, mark: Option<&'m CacheMark>) -> Option<Cow<'m, CacheMark>> {
        let mark = mark?;
        if !self.writes_marks {
            if self.dialect.cache == Cache::None {
                self.omitted.add(what, "the server has no such cache");
            }
            return None;
        }
        Some(match self.ttl(mark.ttl.as_deref()) {
            Some(_) => Cow::Borrowed(mark),
            None if mark.ttl.is_none() => Cow::Borrowed(mark),
            None => Cow::Owned(CacheMark { ttl: None }),
        })
    }

    /// A lifetime that the provider knows.
    fn ttl<'t>(&mut self, ttl: Option<&'t str>) -> Option<&'t str> {
        let ttl = ttl?;
        if ttl == "5m" || (ttl == "1h" && self.dialect.long_cache) {
            return Some(ttl);
        }
        self.omitted.add("cache.ttl", "the provider keeps a prompt for its usual time only");
        None
    }

    /// Everything but the messages; the tools have their place in it and stand beside it.
    fn body(
        &mut self,
        request: &'a TurnRequest,
        conversation: &Conversation<'_>,
    ) -> Result<(Map<String, Value>, Vec<ToolForm<'a>>), ProviderError> {
        let mut fields = Map::new();
        fields.insert("model".into(), request.model.as_str().into());
        let kept = self.native.and_then(|native| native.get("tools")?.as_object());
        let hosted = hosted::encode(&request.hosted, self.dialect, kept, &mut self.omitted)?;
        let tools = self.tools(request, &hosted, &mut fields)?;
        self.refuse(&request.controls)?;
        self.output(request, &mut fields)?;
        self.thinking(request, &mut fields);
        self.controls(request, &mut fields);
        if !hosted.servers.is_empty() {
            fields.insert("mcp_servers".into(), hosted.servers.into());
        }
        self.state(request, hosted.container, &mut fields);
        if self.dialect.stream {
            fields.insert("stream".into(), true.into());
        }
        self.system(request, conversation, &mut fields)?;
        let mut body = Value::Object(fields);
        if let Some(native) = self.native {
            let mut native = native.clone();
            native.shift_remove("tools");
            lay_over(&mut body, &Value::Object(native));
        }
        let Value::Object(mut fields) = body else { return Err(self.refusal().invalid("no request".to_owned())) };
        // What was kept of thinking or a choice that is no longer there means nothing without its type.
        for key in ["thinking", "tool_choice"] {
            if fields.get(key).is_some_and(|value| value.get("type").is_none()) {
                fields.shift_remove(key);
            }
        }
        self.sampling(&request.controls, &mut fields);
        Ok((fields, tools))
    }

    fn system(
        &mut self,
        request: &TurnRequest,
        conversation: &Conversation<'_>,
        fields: &mut Map<String, Value>,
    ) -> Result<(), ProviderError> {
        let instructions = request.instructions.as_ref().filter(|text| !text.is_empty());
        if instructions.is_some_and(is_blank) {
            self.omitted.add(BLANK, NO_SPACES);
        }
        let instructions = instructions.filter(|text| !is_blank(text)).map(|text| &**text);
        if conversation.system.is_empty() {
            if let Some(text) = instructions {
                fields.insert("system".into(), text.into());
            }
            return Ok(());
        }
        let mut blocks: Vec<Value> =
            instructions.map(|text| json!({"type": "text", "text": text})).into_iter().collect();
        for block in &conversation.system {
            blocks.push(serde_json::to_value(block).map_err(|error| self.refusal().invalid(error.to_string()))?);
        }
        fields.insert("system".into(), blocks.into());
        Ok(())
    }

    fn tools(
        &mut self,
        request: &'a TurnRequest,
        hosted: &Offered,
        fields: &mut Map<String, Value>,
    ) -> Result<Vec<ToolForm<'a>>, ProviderError> {
        let mut forms = Vec::with_capacity(request.tools.len() + hosted.tools.len());
        let mut optional = 0;
        let choice = &request.tool_choice;
        // None of the caller's tools may be called, but those of the provider may: the choice has no word for it, so that they
        // alone are offered.
        let only_hosted = matches!(choice, ToolChoice::Allowed(allowed) if allowed.is_none()) && choice.admits_hosted();
        for tool in request.tools.iter().filter(|_| !only_hosted) {
            forms.push(self.tool(tool, &mut optional));
        }
        forms.extend(hosted.tools.iter().cloned().map(ToolForm::Made));
        if choice.is_forced() && forms.is_empty() {
            return Err(self.refusal().invalid("a tool call is demanded, but no tool is offered".to_owned()));
        }
        let parallel = request.controls.parallel_tool_calls;
        let mut form = match choice {
            _ if only_hosted => parallel.filter(|_| !forms.is_empty()).map(|_| json!({"type": "auto"})),
            ToolChoice::Auto => parallel.filter(|_| !forms.is_empty()).map(|_| json!({"type": "auto"})),
            ToolChoice::Allowed(allowed) if allowed.is_none() => {
                Some(json!({"type": "none"})).filter(|_| !forms.is_empty())
            }
            ToolChoice::None => Some(json!({"type": "none"})).filter(|_| !forms.is_empty()),
            ToolChoice::Required if !self.dialect.forced_choice => {
                return Err(self.refusal().of("tool_choice.required", "this model calls a tool only if it wants to"));
            }
            ToolChoice::Tool(_) if !self.dialect.forced_choice => {
                return Err(self.refusal().of("tool_choice.tool", "this model calls a tool only if it wants to"));
            }
            ToolChoice::Required => Some(json!({"type": "any"})),
            ToolChoice::Tool(name) => {
                let is_offered = request.tools.iter().any(|tool| tool.name == *name) || hosted.has(name.as_str());
                if !is_offered {
                    let problem = format!("a call of `{name}` is demanded, but no such tool is offered");
                    return Err(self.refusal().invalid(problem));
                }
                Some(json!({"type": "tool", "name": alias_within(LONGEST_NAME, name.as_str())}))
            }
            ToolChoice::Allowed(allowed) => {
                let field = if allowed.required { "tool_choice.allowed_required" } else { "tool_choice.allowed" };
                return Err(self.refusal().of(field, "a choice among some of the tools has no form here"));
            }
        };
        if let (Some(parallel), Some(form)) = (parallel, &mut form)
            && form["type"] != "none"
        {
            form["disable_parallel_tool_use"] = (!parallel).into();
        }
        if let Some(form) = form {
            fields.insert("tool_choice".into(), form);
        }
        if !forms.is_empty() {
            fields.insert("tools".into(), Value::Null);
        }
        Ok(forms)
    }

    fn tool(&mut self, tool: &'a ToolDefinition, optional: &mut usize) -> ToolForm<'a> {
        // Arguments are an object, so a schema that takes everything takes every object.
        let takes_everything = tool.schema.as_text().is_none() && *tool.schema.as_value() == Value::Bool(true);
        let (mut strict, mut narrowed) = (tool.strict, None);
        if strict == Some(true) {
            let schema = &tools::object_schema(&tool.schema);
            let here = optional_parameters(schema);
            if !self.dialect.strict_tools {
                self.omitted.add("tool.strict", "the model is not held to a tool's schema");
                strict = None;
            } else if takes_everything || schema.get("type").and_then(Value::as_str) != Some("object") {
                self.omitted.add("tool.strict", "the schema is not that of an object with fields");
                strict = None;
            } else if *optional + here > MOST_OPTIONAL {
                self.omitted.add("tool.strict", "strict tools have more optional parameters than the provider takes");
                strict = None;
            } else {
                match to_anthropic(schema, false) {
                    Ok((closed, _)) => {
                        *optional += here;
                        narrowed = Some(closed).filter(|closed| closed != schema);
                    }
                    Err(_) => {
                        self.omitted.add("tool.strict", "the provider holds no model to such a schema");
                        strict = None;
                    }
                }
            }
        }
        let native = tool.native.as_ref();
        let own = native.filter(|native| self.is_own(native)).and_then(|native| native.value.as_object());
        let mark = self.mark("tool.cache", tool.cache.as_ref()).map(|mark| mark_form(&mark));
        let plain = PlainTool {
            name: alias_within(LONGEST_NAME, tool.name.as_str()),
            description: Some(tool.description.as_str()).filter(|text| !text.is_empty()),
            input_schema: Some(ObjectSchema(&tool.schema)).filter(|_| !takes_everything),
            strict,
            cache_control: mark,
        };
        if own.is_none() && narrowed.is_none() {
            return ToolForm::Plain(plain);
        }
        let Ok(Value::Object(mut fields)) = serde_json::to_value(&plain) else { return ToolForm::Plain(plain) };
        if let Some(narrowed) = narrowed {
            fields.insert("input_schema".to_owned(), narrowed);
        }
        for (key, value) in own.into_iter().flatten() {
            if key != "cache_control" || self.writes_marks {
                fields.insert(key.clone(), value.clone());
            }
        }
        ToolForm::Made(Value::Object(fields))
    }

    fn state(&mut self, request: &TurnRequest, container: Option<String>, fields: &mut Map<String, Value>) {
        let mut container = container;
        if let Some(state) = &request.provider_state {
            if state.provider != self.dialect.provider {
                self.omit_foreign("provider_state");
            } else if let Some(id) = state.value.get("container").and_then(Value::as_str) {
                container = container.or(Some(id.to_owned()));
            } else {
                self.omitted.add("provider_state", "it names no container, and nothing else is kept here");
            }
        }
        if let Some(id) = container {
            fields.insert("container".into(), id.into());
        }
    }

    /// Marks that nobody set, where they are asked for.
    fn automatic_marks<'c>(
        &mut self,
        request: &TurnRequest,
        fields: &mut Map<String, Value>,
        conversation: &mut Conversation<'c>,
    ) {
        let Some(cache) = &request.controls.cache else { return };
        let ttl = cache.ttl.as_deref();
        let is_automatic = match &cache.strategy {
            Some(CacheStrategy::Auto) => true,
            // A lifetime says that there should be a cache.
            None => ttl.is_some(),
            Some(_) => false,
        };
        if !is_automatic {
            if ttl.is_some() && cache.strategy == Some(CacheStrategy::Explicit) {
                self.omitted.add("cache.ttl", "each mark says its own");
            }
            return;
        }
        if self.dialect.cache == Cache::None {
            let field = if cache.strategy.is_some() { "cache.auto" } else { "cache.ttl" };
            return self.omitted.add(field, "the server has no such cache");
        }
        let mark = CacheMark { ttl: self.ttl(ttl).map(str::to_owned) };
        if self.dialect.cache == Cache::Automatic {
            fields.entry("cache_control").or_insert_with(|| mark_form(&mark));
            return;
        }
        match fields.get_mut("system") {
            Some(Value::String(text)) => {
                let block = json!({"type": "text", "text": text, "cache_control": mark_form(&mark)});
                fields.insert("system".into(), json!([block]));
            }
            Some(Value::Array(blocks)) => {
                if let Some(Value::Object(last)) = blocks.last_mut() {
                    last.entry("cache_control").or_insert_with(|| mark_form(&mark));
                }
            }
            _ => {}
        }
        let mut messages = conversation.messages.iter_mut().rev();
        messages.find_map(|message| message.mark(Cow::Owned(mark.clone())).then_some(()));
    }
}

/// How many parameters a schema leaves optional, within it too.
fn optional_parameters(schema: &Value) -> usize {
    let required = schema.get("required").and_then(Value::as_array).map_or(0, Vec::len);
    let properties = schema.get("properties").and_then(Value::as_object);
    let here = properties.map_or(0, |properties| properties.len().saturating_sub(required));
    let within = properties.into_iter().flatten().map(|(_, property)| optional_parameters(property));
    here + within.sum::<usize>() + schema.get("items").map_or(0, optional_parameters)
}
