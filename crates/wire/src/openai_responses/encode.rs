//! From a request of ours to the body of a Responses request.

mod output;

use super::parts::{is_item, is_reasoning};
use super::tools::{self, ADDITIONAL, WireName};
use super::write::{self, List, Object};
use super::{Dialect, hosted};
use crate::carry::{Takes, carry};
use crate::encoded::{Encoded, Omissions, room_for};
use crate::foreign;
use crate::json::Replayed;
use crate::names::alias;
use crate::options::{self, Words};
use crate::protocol::Protocol;
use placet_core::hosted::HostedTool;
use placet_core::part::Native;
use placet_core::turn::StateMode;
use placet_core::{CallId, ErrorKind, Item, ItemBody, ProviderError, Role, ToolChoice, TurnRequest};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

pub(super) const FOREIGN: &str = "it belongs to another provider";
const OTHER_PROTOCOL: &str = "it belongs to another protocol";

/// The error that says that a server cannot take a field.
pub(super) fn unsupported(dialect: &Dialect, field: &str) -> ProviderError {
    ProviderError::new(ErrorKind::Unsupported, dialect.provider.clone(), format!("it cannot take `{field}`"))
        .with_hint("nothing was sent; leave it out, or use a model that can take it")
}

/// The body of a request. Tools stand in declaration order and before the conversation, so that what stays the same from turn
/// to turn comes first.
///
/// # Errors
/// [`ProviderError`] of kind *unsupported* for content, a constraint or a restriction that this server or protocol cannot
/// express, and of kind *invalid request* for what contradicts itself. Nothing is to be sent then.
pub fn encode_request(request: &TurnRequest, dialect: &Dialect) -> Result<Encoded, ProviderError> {
    encode(request, dialect, false)
}

/// The body of a request. A client that goes on from a kept answer says itself what is new, so that all of its items are sent.
pub(super) fn encode(request: &TurnRequest, dialect: &Dialect, sends_all: bool) -> Result<Encoded, ProviderError> {
    let mut omitted = Omissions::default();
    let takes = Takes { kept_answers: dialect.stateful, custom_tools: dialect.custom_tools };
    let carried = carry(request, &dialect.provider, Protocol::OpenaiResponses, takes, &mut omitted)?;
    let request = &*carried;
    let mut encoder = Encoder::new(request, dialect, sends_all, omitted);
    let mut body = Body::new(request, dialect);
    encoder.head(&mut body)?;
    encoder.controls(&mut body)?;
    if dialect.stream {
        body.put("stream", true);
    }
    let input = encoder.input()?;
    Ok(encoder.finish(body, &input))
}

/// The body of a question for how many tokens a request takes (`POST /v1/responses/input_tokens`).
///
/// # Errors
/// As [`encode_request`].
pub fn encode_count_request(request: &TurnRequest, dialect: &Dialect) -> Result<Encoded, ProviderError> {
    const COUNTED: [&str; 11] = [
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "previous_response_id",
        "conversation",
        "reasoning",
        "text",
        "truncation",
    ];
    let encoded = encode_request(request, dialect)?;
    let mut body: Value = serde_json::from_slice(&encoded.body).unwrap_or_default();
    if let Some(body) = body.as_object_mut() {
        body.retain(|key, _| COUNTED.contains(&key.as_str()));
    }
    Ok(Encoded { body: body.to_string().into(), ..encoded })
}

/// The fields of a body but its `input`. A field of `extra` replaces ours of the same name; what the native value of the
/// request says within a field stands beside what we say.
pub(super) struct Body<'a> {
    fields: Map<String, Value>,
    tools: Vec<u8>,
    native: Option<&'a Map<String, Value>>,
    extra: &'a Map<String, Value>,
}

impl<'a> Body<'a> {
    fn new(request: &'a TurnRequest, dialect: &Dialect) -> Self {
        let native = request.native.as_ref().filter(|native| native.provider == dialect.provider);
        Body {
            fields: Map::new(),
            tools: Vec::new(),
            native: native.and_then(|native| native.value.as_object()),
            extra: &request.extra,
        }
    }

    pub(super) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.fields.insert(key.to_owned(), value.into());
    }

    /// Puts a value into an object that is the field `key`.
    pub(super) fn put_in(&mut self, key: &str, inner: &str, value: impl Into<Value>) {
        let field = self.fields.entry(key).or_insert_with(|| json!({}));
        if let Some(object) = field.as_object_mut() {
            object.insert(inner.to_owned(), value.into());
        }
    }

    fn finish(mut self, input: &[u8]) -> Vec<u8> {
        for (key, value) in self.native.into_iter().flatten() {
            match (self.fields.get_mut(key), value) {
                (Some(Value::Object(ours)), Value::Object(theirs)) => {
                    for (key, value) in theirs {
                        ours.entry(key.as_str()).or_insert_with(|| value.clone());
                    }
                }
                (Some(_), _) => {}
                (None, _) => {
                    self.fields.insert(key.clone(), value.clone());
                }
            }
        }
        for (key, value) in self.extra {
            self.fields.insert(key.clone(), value.clone());
        }
        let mut out = Vec::with_capacity(input.len() + self.tools.len() + 512);
        let mut object = Object::new(&mut out);
        for (key, value) in self.fields.iter().filter(|(key, _)| *key != "input") {
            match key.as_str() {
                "tools" if value.is_null() => object.raw("tools", &self.tools),
                key => write::value(object.any_key(key), value),
            }
        }
        match self.fields.get("input") {
            Some(replaced) => object.field("input", replaced),
            None => object.raw("input", input),
        }
        object.end();
        out
    }
}

pub(super) struct Encoder<'a> {
    pub(super) request: &'a TurnRequest,
    pub(super) dialect: &'a Dialect,
    pub(super) omitted: Omissions,
    names: HashMap<&'a str, WireName<'a>>,
    used_ids: HashSet<&'a str>,
    /// The wire's id of each call so far, and whether it is a custom tool's.
    calls: HashMap<&'a CallId, (&'a str, bool)>,
    /// Nothing is kept by the provider, so that ids of what it would have kept mean nothing.
    pub(super) is_unstored: bool,
    /// The thinking that led to what comes next does not go out, so that its ids would be looked up in vain.
    is_unpaired: bool,
    sends_all: bool,
    additional: u64,
}

impl<'a> Encoder<'a> {
    fn new(request: &'a TurnRequest, dialect: &'a Dialect, sends_all: bool, omitted: Omissions) -> Self {
        Encoder {
            request,
            dialect,
            omitted,
            names: tools::wire_names(request, dialect),
            used_ids: HashSet::new(),
            calls: HashMap::new(),
            is_unstored: false,
            is_unpaired: false,
            sends_all,
            additional: 0,
        }
    }

    fn finish(self, body: Body<'_>, input: &[u8]) -> Encoded {
        let names = tools::names(self.request, self.dialect);
        Encoded { body: body.finish(input).into(), omitted: self.omitted.0, names }
    }

    pub(super) fn unsupported(&self, field: &str) -> ProviderError {
        unsupported(self.dialect, field)
    }

    pub(super) fn invalid(&self, problem: impl Into<String>) -> ProviderError {
        ProviderError::new(ErrorKind::InvalidRequest, self.dialect.provider.clone(), problem)
    }

    /// Model, instructions, tools, their choice, the shape of the answer.
    fn head(&mut self, body: &mut Body<'_>) -> Result<(), ProviderError> {
        let (request, dialect) = (self.request, self.dialect);
        body.put("model", request.model.as_str());
        if let Some(instructions) = request.instructions.as_ref().filter(|_| dialect.instructions) {
            body.put("instructions", &**instructions);
        }
        // A server that heeds no choice is kept from calling by not being offered anything.
        let calls_none = match &request.tool_choice {
            ToolChoice::None => true,
            ToolChoice::Allowed(allowed) => allowed.is_none() && !allowed.hosted,
            _ => false,
        };
        let offers = !calls_none || dialect.forced_choice;
        let mut text = Vec::new();
        let mut list = List::new(&mut text);
        if offers {
            tools::write_tools(request, None, dialect, &mut self.omitted, &mut list)?;
            for tool in request.hosted.iter().filter(|tool| hosted::additional(tool).is_none()) {
                let tool = self.own_options(tool)?;
                hosted::write(&tool, dialect, &mut list)?;
            }
        }
        list.end();
        if text != b"[]" {
            // Its place; what stands there is written already.
            body.put("tools", Value::Null);
            body.tools = text;
        }
        self.tool_choice(body)?;
        match request.controls.parallel_tool_calls {
            Some(parallel) if dialect.parallel_calls => body.put("parallel_tool_calls", parallel),
            Some(false) if !request.tools.is_empty() => return Err(self.unsupported("parallel_tool_calls.false")),
            Some(true) => self.omitted.add("parallel_tool_calls.true", "the server decides about it itself"),
            Some(false) | None => {}
        }
        self.output(body)
    }

    /// A tool without options that are in another provider's words.
    fn own_options<'t>(&mut self, tool: &'t HostedTool) -> Result<Cow<'t, HostedTool>, ProviderError> {
        let dialect = self.dialect;
        options::without_foreign(tool, Words::Openai, &mut self.omitted, |field| unsupported(dialect, field))
    }

    fn tool_choice(&mut self, body: &mut Body<'_>) -> Result<(), ProviderError> {
        let (request, dialect) = (self.request, self.dialect);
        let choice = &request.tool_choice;
        let has_native = body.native.is_some_and(|native| native.contains_key("tool_choice"));
        if choice.is_forced() {
            if request.tools.is_empty() && request.hosted.is_empty() {
                return Err(self.invalid("a tool call is demanded, but no tool is offered"));
            }
            if !dialect.forced_choice {
                return Err(self.unsupported("tool_choice.required"));
            }
        }
        let form = |name: &placet_core::ToolName| {
            let Some(wire) = self.names.get(name.as_str()) else {
                return Err(self.invalid(format!("a call of `{name}` is demanded, but no such tool is offered")));
            };
            let kind = if wire.is_custom { "custom" } else { "function" };
            let mut form = json!({"type": kind, "name": wire.name});
            if let Some(namespace) = wire.namespace {
                form["namespace"] = namespace.into();
            }
            Ok(form)
        };
        match choice {
            ToolChoice::Auto => {}
            ToolChoice::Required => body.put("tool_choice", "required"),
            ToolChoice::None if dialect.forced_choice && !has_native => body.put("tool_choice", "none"),
            ToolChoice::None => {}
            ToolChoice::Tool(name) => body.put("tool_choice", form(name)?),
            ToolChoice::Allowed(allowed) => {
                if !dialect.forced_choice {
                    return Err(self.unsupported("tool_choice.allowed"));
                }
                let mut forms = allowed.names.iter().map(form).collect::<Result<Vec<_>, _>>()?;
                // Here the choice is one of all tools, so that what may be used besides has to be named with them.
                if allowed.hosted && !request.hosted.is_empty() {
                    if allowed.required {
                        // It would be enough for the model to use one of those.
                        return Err(self.unsupported("tool_choice.allowed_required"));
                    }
                    forms.extend(request.hosted.iter().map(hosted::choice));
                }
                if forms.is_empty() && !allowed.required {
                    body.put("tool_choice", "none");
                    return Ok(());
                }
                let mode = if allowed.required { "required" } else { "auto" };
                body.put("tool_choice", json!({"type": "allowed_tools", "mode": mode, "tools": forms}));
            }
        }
        Ok(())
    }

    /// The items that are sent: all of them, or where the provider goes on from an answer that it kept, what came after it. Old
    /// items would stand there twice. A client that goes on from one says itself what is new.
    fn sent(&self) -> &'a [std::sync::Arc<Item>] {
        let request = self.request;
        let goes_on = request.provider_state.as_ref().is_some_and(|state| {
            let holds = |key: &str| state.value.get(key).is_some_and(|value| !value.is_null());
            state.provider == self.dialect.provider && (holds("previous_response_id") || holds("conversation"))
        });
        let is_wanted = matches!(request.controls.state, None | Some(StateMode::Stateful));
        let sends_all = self.sends_all || foreign::followed(request).is_some();
        if sends_all || !is_wanted || !goes_on || !self.dialect.stateful {
            return &request.items;
        }
        let last = request.items.iter().rposition(|item| self.is_models(&item.body));
        &request.items[last.map_or(0, |last| last + 1)..]
    }

    /// Whether an item is the model's, and so held by a provider that kept the answer.
    fn is_models(&self, body: &ItemBody) -> bool {
        let kind = |value: &Value| value.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match body {
            ItemBody::Message(message) => message.role == Role::Assistant,
            ItemBody::Reasoning(_) | ItemBody::ToolCall(_) => true,
            // What the caller ran or decided is the caller's.
            ItemBody::HostedCall(call) => !call.kind.ends_with("_output") || call.kind == "program_output",
            ItemBody::Native(native) => {
                let kind = kind(&native.value);
                native.provider == self.dialect.provider
                    && !kind.ends_with("_output")
                    && !matches!(
                        kind.as_str(),
                        "mcp_approval_response"
                            | "item_reference"
                            | "compaction_trigger"
                            | ADDITIONAL
                            | "configuration_update"
                    )
            }
            _ => false,
        }
    }

    fn input(&mut self) -> Result<Vec<u8>, ProviderError> {
        let mut out = Vec::with_capacity(room_for(self.request));
        let mut list = List::new(&mut out);
        if let Some(instructions) = self.request.instructions.as_ref().filter(|_| !self.dialect.instructions) {
            let role = self.dialect.operator.word();
            list.push(&json!({"type": "message", "role": role, "content": &**instructions}));
        }
        let all = &self.request.items;
        let sent = self.sent();
        // Their ids and numbers stand for them, though they are not sent again.
        for item in &all[..all.len() - sent.len()] {
            match &item.body {
                ItemBody::ToolCall(call) => {
                    self.note_call(call);
                }
                ItemBody::Native(native) if native.value.get("type").is_some_and(|kind| kind == ADDITIONAL) => {
                    self.additional += 1;
                }
                _ => {}
            }
        }
        let mut rest = sent;
        while let Some((item, after)) = rest.split_first() {
            rest = after;
            self.is_unpaired &= self.is_models(&item.body);
            match &item.body {
                ItemBody::Reasoning(reasoning) if self.is_alone(reasoning, rest) => {
                    self.omitted
                        .add("reasoning", "what it led to is not there, and without that the server refuses it");
                }
                ItemBody::Message(message) => {
                    let id = super::onto::message_id(message, self.dialect);
                    let is_same = |item: &&std::sync::Arc<Item>| match &item.body {
                        ItemBody::Message(next) => id.is_some() && super::onto::message_id(next, self.dialect) == id,
                        _ => false,
                    };
                    let more = rest.iter().take_while(is_same).count();
                    let group = std::iter::once(item).chain(&rest[..more]).filter_map(|item| match &item.body {
                        ItemBody::Message(message) => Some(message),
                        _ => None,
                    });
                    self.message(&group.collect::<Vec<_>>(), &mut list)?;
                    rest = &rest[more..];
                }
                body => self.item(body, &mut list)?,
            }
        }
        list.end();
        Ok(out)
    }

    fn item(&mut self, body: &'a ItemBody, list: &mut List<'_>) -> Result<(), ProviderError> {
        let own = |provider: &placet_core::ProviderId| *provider == self.dialect.provider;
        match body {
            ItemBody::Reasoning(reasoning) => self.is_unpaired |= !self.reasoning(reasoning, list),
            ItemBody::ToolCall(call) => self.call(call, list),
            ItemBody::ToolResult(result) => self.result(result, list)?,
            ItemBody::HostedCall(call) if own(&call.provider) && is_item(&call.value) => list.push(&call.value),
            ItemBody::HostedCall(_) => self.omitted.add("hosted_call", FOREIGN),
            ItemBody::Native(native) if own(&native.provider) && is_item(&native.value) => self.native(native, list)?,
            ItemBody::Native(_) => self.omitted.add("native_item", FOREIGN),
            ItemBody::Artifact(_) => self.omitted.add("artifact", "this protocol has no place for it"),
            // Between us and a human; no model is told.
            ItemBody::Approval(_) | ItemBody::Message(_) => {}
            other => return Err(self.unsupported(other.kind())),
        }
        Ok(())
    }

    /// Whether nothing of the model's follows on thinking of this provider.
    fn is_alone(&self, reasoning: &placet_core::item::Reasoning, rest: &[std::sync::Arc<Item>]) -> bool {
        let is_own = reasoning.native.as_ref().is_some_and(|native| native.provider == self.dialect.provider);
        let next = rest.iter().find(|item| !matches!(item.body, ItemBody::Reasoning(_)));
        let refers = |body: &ItemBody| {
            // What it refers to may be what followed.
            matches!(body, ItemBody::Native(native) if native.value["type"] == "item_reference")
        };
        is_own && !next.is_some_and(|item| self.is_models(&item.body) || refers(&item.body))
    }

    /// Whether the ids of what a provider keeps are left out.
    pub(super) fn is_without_ids(&self) -> bool {
        self.is_unstored || self.is_unpaired
    }

    fn native(&mut self, native: &'a Native, list: &mut List<'_>) -> Result<(), ProviderError> {
        let Some(map) = native.value.as_object().filter(|map| map.get("type").is_some_and(|kind| kind == ADDITIONAL))
        else {
            list.push(&native.value);
            return Ok(());
        };
        // Its tools are the request's, which may have been changed since.
        let number = Some(self.additional);
        self.additional += 1;
        let mut object = Object::new(list.next());
        object.merge(map, &["tools"]);
        let mut inner = List::new(object.key("tools"));
        tools::write_tools(self.request, number, self.dialect, &mut self.omitted, &mut inner)?;
        for tool in self.request.hosted.iter().filter(|tool| hosted::additional(tool) == number) {
            let tool = self.own_options(tool)?;
            hosted::write(&tool, self.dialect, &mut inner)?;
        }
        inner.end();
        object.end();
        Ok(())
    }

    /// Writes thinking; whether it went out.
    fn reasoning(&mut self, reasoning: &placet_core::item::Reasoning, list: &mut List<'_>) -> bool {
        let mut left_out = |why| {
            self.omitted.add("reasoning", why);
            false
        };
        let Some(native) = reasoning.native.as_ref().filter(|native| native.provider == self.dialect.provider) else {
            return left_out(FOREIGN);
        };
        if !self.dialect.replay_reasoning {
            return left_out("the server does not take it back");
        }
        let Some(map) = native.value.as_object().filter(|_| is_reasoning(&native.value)) else {
            return left_out(OTHER_PROTOCOL);
        };
        let is_given = |key: &str| match map.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::Array(list)) => !list.is_empty(),
            Some(_) => true,
        };
        // Where nothing is kept, an id finds nothing. An item that has no more than its id has nothing to go back with.
        let is_in_private =
            matches!(self.request.controls.state, Some(StateMode::ZeroRetention | StateMode::EncryptedReasoning));
        if is_in_private && !is_given("encrypted_content") && !is_given("content") {
            return left_out("nothing was kept, and it did not come encrypted");
        }
        let mut object = Object::new(list.next());
        object.field("type", "reasoning");
        let id: &[&str] = if self.is_unstored { &["type", "id", "status"] } else { &["type", "status"] };
        object.merge(map, id);
        if !map.contains_key("summary") {
            object.field("summary", &[(); 0]);
        }
        object.end();
        true
    }

    /// Keeps the id that a call goes by: the provider's own where it is usable and no other call of the conversation has it.
    fn note_call(&mut self, call: &'a placet_core::ToolCall) -> (&'a str, bool) {
        let own = call.provider_id.as_deref().filter(|id| !id.is_empty() && id.len() <= MAX_ID_LENGTH);
        let id = match own {
            Some(id) if self.used_ids.insert(id) => id,
            _ => call.id.as_str(),
        };
        let native = call.native.as_ref().filter(|native| native.provider == self.dialect.provider);
        let is_marked = native.is_some_and(|native| native.value.get("type").is_some_and(|kind| kind == CUSTOM_CALL));
        let is_declared = self.names.get(call.name.as_str()).is_some_and(|wire| wire.is_custom);
        let noted = (id, self.dialect.custom_tools && (is_marked || is_declared));
        self.calls.insert(&call.id, noted);
        noted
    }

    fn call(&mut self, call: &'a placet_core::ToolCall, list: &mut List<'_>) {
        let (id, is_custom) = self.note_call(call);
        let none = Map::new();
        let native = match &call.native {
            Some(native) if native.provider == self.dialect.provider => native.value.as_object().unwrap_or(&none),
            Some(_) => {
                self.omitted.add("tool_call.native", FOREIGN);
                &none
            }
            None => &none,
        };
        let wire = self.names.get(call.name.as_str());
        let namespace = native.get("namespace").and_then(Value::as_str);
        let name = match (wire, namespace) {
            (Some(wire), _) => wire.name.clone(),
            // The tool is not offered any more, and its call stays what it was.
            (None, Some(space)) => {
                let bare = call.name.as_str().strip_prefix(space).and_then(|rest| rest.strip_prefix("__"));
                alias(bare.unwrap_or(call.name.as_str()))
            }
            (None, None) => alias(call.name.as_str()),
        };
        let mut object = Object::new(list.next());
        object.field("type", if is_custom { CUSTOM_CALL } else { "function_call" });
        object.field("call_id", id);
        object.field("name", &name);
        if is_custom {
            object.field("input", &tools::custom_input(call.arguments.as_text()));
        } else {
            object.field("arguments", &Replayed(&call.arguments));
        }
        if let (None, Some(namespace)) = (namespace, wire.and_then(|wire| wire.namespace)) {
            object.field("namespace", namespace);
        }
        let known: &[&str] = &["type", "call_id", "name", "input", "arguments"];
        let unstored: &[&str] = &["type", "call_id", "name", "input", "arguments", "id"];
        object.merge(native, if self.is_without_ids() { unstored } else { known });
        object.end();
    }

    fn result(&mut self, result: &'a placet_core::ToolResult, list: &mut List<'_>) -> Result<(), ProviderError> {
        if result.outcome.is_error() {
            self.omitted.add("tool_result.failed", "this protocol has no error flag; the text of the result says it");
        }
        let none = Map::new();
        let native = match &result.native {
            Some(native) if native.provider == self.dialect.provider => native.value.as_object().unwrap_or(&none),
            Some(_) => {
                self.omitted.add("tool_result.native", FOREIGN);
                &none
            }
            None => &none,
        };
        let noted = self.calls.get(&result.call).copied();
        let given = result.provider_id.as_deref().filter(|id| !id.is_empty());
        let id = noted.map(|(id, _)| id).or(given).unwrap_or_else(|| result.call.as_str());
        let is_custom = noted.is_some_and(|(_, is_custom)| is_custom);
        let content = self.output_content(&result.outcome.content)?;
        let mut object = Object::new(list.next());
        if !native.contains_key("type") {
            object.field("type", if is_custom { "custom_tool_call_output" } else { "function_call_output" });
        }
        object.field("call_id", id);
        object.raw("output", &content);
        object.merge(native, &["call_id", "output"]);
        object.end();
        Ok(())
    }
}

/// The longest id of a call that servers take back.
const MAX_ID_LENGTH: usize = 64;
const CUSTOM_CALL: &str = "custom_tool_call";

/// Bytes of JSON, as a value.
pub(super) fn parsed(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_default()
}

/// A value that can be written into a list without a copy of it.
pub(super) fn own_object<'a>(native: Option<&'a Native>, dialect: &Dialect) -> Option<&'a Map<String, Value>> {
    native.filter(|native| native.provider == dialect.provider)?.value.as_object()
}
