//! From a client's `generateContent` body to a request of ours.

mod config;

use self::config::{generation, tool_choice};
use super::contents::{is_only, says_error};
use super::hosted;
use super::parts::{self, native, take, take_object, take_text};
use super::seal;
use crate::asked::{Asked, By};
use crate::request::{ClientBody, DecodedRequest, RequestError};
use crate::schema::from_openapi;
use placet_core::id::ItemId;
use placet_core::item::Reasoning;
use placet_core::part::{Native, Text};
use placet_core::turn::CacheControl;
use placet_core::{
    Arguments, CallId, Effect, Env, Item, ItemBody, Message, Origin, Outcome, Part, ProviderId, Reason, Role, Schema,
    SharedText, Stage, Status, ToolCall, ToolDefinition, ToolName, ToolResult, TurnRequest,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What the path of a request says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The model, without what stands before it.
    pub model: String,
    /// The method: `generateContent`, `streamGenerateContent`, `countTokens`, `embedContent`, `batchEmbedContents` …
    pub method: String,
    /// Whether the answer is a stream.
    pub stream: bool,
    /// Whether that stream is one JSON array: it is unless the query asks for server-sent events.
    pub array: bool,
}

/// Reads a path such as `/v1beta/models/gemini-3-flash:streamGenerateContent` with its query; `None` where it is none.
#[must_use]
pub fn target(path: &str, query: Option<&str>) -> Option<Target> {
    let (_, rest) = path.rsplit_once("/models/")?;
    let (model, method) = rest.rsplit_once(':')?;
    if model.is_empty() || method.is_empty() || method.contains('/') {
        return None;
    }
    let is_sse = query.unwrap_or_default().split('&').any(|pair| pair == "alt=sse");
    let stream = method == "streamGenerateContent";
    Some(Target { model: model.to_owned(), method: method.to_owned(), stream, array: stream && !is_sse })
}

/// Reads a body, in either spelling of its fields. The path says which model is meant and whether the answer is a stream, so
/// both are left open here.
///
/// `provider` owns what has no name of ours. What a client returns of another provider's state goes back to that provider.
///
/// # Errors
/// [`RequestError`] where the body is no JSON, no object, or has no `contents`.
pub fn decode_request(body: &[u8], provider: &ProviderId, env: &Env) -> Result<DecodedRequest, RequestError> {
    let body = ClientBody::new(body)?;
    let read = body.read()?;
    let request = Reader::new(provider, env).request(read.to_value())?;
    Ok(DecodedRequest { request, stream: false, stream_usage: true, body: body.clone() })
}

/// The places at which the contents of a body begin, by the number of the item, and the words for the user's role other than
/// the usual one. They number the items of [`decode_request`].
pub(super) fn beginnings(body: &Value, provider: &ProviderId, env: &Env) -> Vec<(usize, Option<String>)> {
    let mut reader = Reader::new(provider, env);
    // It has been read before.
    let _ = reader.request(body.clone());
    reader.beginnings
}

pub(super) struct Reader<'a> {
    provider: &'a ProviderId,
    env: &'a Env,
    items: Vec<Arc<Item>>,
    asked: Asked,
    beginnings: Vec<(usize, Option<String>)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(provider: &'a ProviderId, env: &'a Env) -> Self {
        Reader { provider, env, items: Vec::new(), asked: Asked::default(), beginnings: Vec::new() }
    }

    pub(super) fn request(&mut self, body: Value) -> Result<TurnRequest, RequestError> {
        let Value::Object(mut rest) = body else {
            return Err(RequestError::field("", "expected an object"));
        };
        let mut request = TurnRequest::default();
        if let Some(model) = take_text(&mut rest, "model") {
            request.model = model.strip_prefix("models/").map(str::to_owned).unwrap_or(model);
        }
        request.instructions = self.system(take(&mut rest, "systemInstruction"));
        let contents = take(&mut rest, "contents");
        let contents = match contents {
            Some(Value::Array(contents)) => contents,
            Some(content @ Value::Object(_)) => vec![content],
            Some(_) | None => return Err(RequestError::field("contents", "expected a list of contents")),
        };
        for (at, content) in contents.into_iter().enumerate() {
            let word = content.get("role").and_then(Value::as_str).filter(|word| !matches!(*word, "user" | "model"));
            self.beginnings.push((self.items.len(), word.map(str::to_owned)));
            self.content(content, at)?;
        }
        self.tools(&mut rest, &mut request)?;
        tool_choice(&mut rest, &mut request);
        if let Some(Value::Array(settings)) = take(&mut rest, "safetySettings") {
            let own = |value| Native { provider: self.provider.clone(), value };
            request.controls.safety = settings.into_iter().map(own).collect();
        }
        if let Some(content) = take_text(&mut rest, "cachedContent") {
            request.controls.cache = Some(CacheControl { content: Some(content), ..CacheControl::default() });
        }
        match take(&mut rest, "labels") {
            Some(Value::Object(labels)) if labels.values().all(Value::is_string) => request.controls.metadata = labels,
            Some(other) => drop(rest.insert("labels".to_owned(), other)),
            None => {}
        }
        request.controls.service_tier =
            take_text(&mut rest, "serviceTier").map(|tier| match tier.to_ascii_lowercase().as_str() {
                "standard" => "default".to_owned(),
                "unspecified" => "auto".to_owned(),
                other => other.to_owned(),
            });
        match take(&mut rest, "store") {
            Some(Value::Bool(store)) => request.controls.store = Some(store),
            Some(other) => drop(rest.insert("store".to_owned(), other)),
            None => {}
        }
        if let Some(mut config) = take_object(&mut rest, "generationConfig") {
            generation(&mut config, &mut request);
            config.retain(|_, value| !value.is_null());
            if !config.is_empty() {
                rest.insert("generationConfig".to_owned(), Value::Object(config));
            }
        }
        request.native = native(rest, self.provider);
        request.items = std::mem::take(&mut self.items);
        Ok(request)
    }

    fn push(&mut self, origin: Origin, body: impl Into<ItemBody>) {
        self.items.push(Arc::new(Item::new(self.env.new_id(), origin, body)));
    }

    /// The first text is the instructions; what else the operator shows is a message before all others.
    fn system(&mut self, system: Option<Value>) -> Option<SharedText> {
        let parts = match system? {
            Value::String(text) => return Some(text.into()),
            Value::Object(mut content) => match take(&mut content, "parts") {
                Some(Value::Array(parts)) => parts,
                Some(part) => vec![part],
                None => return None,
            },
            Value::Array(parts) => parts,
            _ => return None,
        };
        let mut parts: Vec<Part> = parts.into_iter().map(|part| self.user_part(part)).collect();
        let instructions = match parts.first() {
            Some(Part::Text(text)) => {
                let text = text.text.clone();
                parts.remove(0);
                Some(text)
            }
            _ => None,
        };
        if !parts.is_empty() {
            self.push(Origin::Operator, Message { role: Role::System, parts, native: None });
        }
        instructions
    }

    fn content(&mut self, content: Value, at: usize) -> Result<(), RequestError> {
        let path = || format!("contents[{at}]");
        let mut content = match content {
            Value::Object(content) => content,
            Value::String(text) => Map::from_iter([("parts".to_owned(), json!([{"text": text}]))]),
            _ => return Err(RequestError::field(path(), "expected an object with `role` and `parts`")),
        };
        let role = content.get("role").and_then(Value::as_str).unwrap_or("user").to_owned();
        let is_model = role == "model";
        if !is_model && !matches!(role.as_str(), "user" | "function" | "tool" | "") {
            let value = Value::Object(content);
            self.push(Origin::User, ItemBody::Native(Native { provider: self.provider.clone(), value }));
            return Ok(());
        }
        content.shift_remove("role");
        let parts = match take(&mut content, "parts") {
            Some(Value::Array(parts)) => parts,
            Some(part @ Value::Object(_)) => vec![part],
            None => Vec::new(),
            Some(_) => return Err(RequestError::field(format!("{}.parts", path()), "expected a list of parts")),
        };
        let beside = native(content, self.provider);
        if is_model {
            self.model(parts, beside);
        } else {
            self.user(parts, beside);
        }
        Ok(())
    }

    fn user(&mut self, parts: Vec<Value>, mut beside: Option<Native>) {
        let mut said: Vec<Part> = Vec::new();
        for part in parts {
            let Value::Object(mut part) = part else {
                said.push(self.user_part(part));
                continue;
            };
            match take_object(&mut part, "functionResponse") {
                Some(response) => {
                    if !said.is_empty() {
                        let parts = std::mem::take(&mut said);
                        self.push(Origin::User, Message { role: Role::User, parts, native: beside.take() });
                    }
                    let (name, result) = self.result(response, part);
                    self.push(Origin::Tool(name), result);
                }
                None => said.push(self.user_part(Value::Object(part))),
            }
        }
        if !said.is_empty() {
            self.push(Origin::User, Message { role: Role::User, parts: said, native: beside.take() });
        }
    }

    fn user_part(&self, part: Value) -> Part {
        let own = |value| Part::Native(Native { provider: self.provider.clone(), value });
        let Value::Object(mut part) = part else {
            return match part {
                Value::String(text) => Part::text(text),
                other => own(other),
            };
        };
        let is_empty = part.get("text").and_then(Value::as_str).is_none_or(str::is_empty);
        let is_whole = part.iter().any(|(key, value)| {
            key != "text" && !value.is_null() && parts::is_content(key, is_empty && !part.contains_key("text"))
        });
        if !is_whole && let Some(text) = take_text(&mut part, "text") {
            let native = self.beside(part);
            return Part::Text(Text { native, ..Text::new(text) });
        }
        parts::media(part, self.provider).unwrap_or_else(|part| own(Value::Object(part)))
    }

    /// What stands beside a part's content. A sealed signature is the state that it holds; `thought: false` says nothing.
    fn beside(&self, mut rest: Map<String, Value>) -> Option<Native> {
        let signature = rest.get("thoughtSignature").or_else(|| rest.get("thought_signature"));
        if let Some(opened) = signature.and_then(Value::as_str).and_then(seal::open) {
            return Some(opened);
        }
        if let Some(signature) = rest.shift_remove("thought_signature") {
            rest.insert("thoughtSignature".to_owned(), signature);
        }
        rest.retain(|key, value| !(key == "thought" && *value == Value::Bool(false)));
        native(rest, self.provider)
    }

    fn model(&mut self, parts: Vec<Value>, mut beside: Option<Native>) {
        let first = self.items.len();
        let mut joined = None;
        for part in parts {
            let Value::Object(part) = part else {
                let body = match part {
                    Value::String(text) => said(Text::new(text)),
                    other => ItemBody::Native(Native { provider: self.provider.clone(), value: other }),
                };
                self.push(Origin::Model, body);
                continue;
            };
            let body = self.model_part(part, first);
            if let Some(body) = body
                && !self.join(&body, first, &mut joined)
            {
                self.push(Origin::Model, body);
            }
        }
        // What stands beside the parts goes with the first message, if there is one.
        if beside.is_some() {
            for item in &mut self.items[first..] {
                if let ItemBody::Message(message) = &item.body {
                    let message = Message { native: beside.take(), ..message.clone() };
                    *item = Arc::new(Item::new(item.id.clone(), item.origin.clone(), message));
                    break;
                }
            }
        }
    }

    /// An item of the model; `None` where the part only brought back the state of the item before it.
    fn model_part(&mut self, mut part: Map<String, Value>, first: usize) -> Option<ItemBody> {
        part.retain(|_, value| !value.is_null());
        if let Some(mut call) = take_object(&mut part, "functionCall") {
            let wire = take_text(&mut call, "id").filter(|id| !id.is_empty());
            let name = take_text(&mut call, "name").unwrap_or_else(|| "unnamed".to_owned());
            let arguments = take(&mut call, "args").unwrap_or_else(|| json!({}));
            call.retain(|_, value| !value.is_null());
            let mut native = self.beside(part);
            if let Some(carried) = native.as_ref().and_then(seal::carried_by) {
                native = carried.own;
                self.think(carried.thoughts, first);
            }
            if !call.is_empty() {
                let own = native.get_or_insert_with(|| Native { provider: self.provider.clone(), value: json!({}) });
                if let (true, Value::Object(value)) = (own.provider == *self.provider, &mut own.value) {
                    value.insert("functionCall".to_owned(), Value::Object(call));
                }
            }
            let (id, name) = (self.env.new_id::<CallId>(), ToolName::from(name));
            self.asked.note(wire.as_deref(), id.clone(), name.clone());
            let arguments = Arguments::from_value(&arguments);
            return Some(ItemBody::ToolCall(ToolCall { id, provider_id: wire, name, arguments, native }));
        }
        let is_thought = part.get("thought") == Some(&Value::Bool(true));
        let text = part.get("text").and_then(Value::as_str).map(str::to_owned);
        let is_without = text.as_deref().is_none_or(str::is_empty);
        let is_whole = part.keys().any(|key| key != "text" && parts::is_content(key, is_without && text.is_none()));
        let has_signature = part.contains_key("thoughtSignature") || part.contains_key("thought_signature");
        if is_whole || text.is_none() && !has_signature {
            // A picture that a tool of another provider made: the call itself came back beside it.
            let signature = part.get("thoughtSignature").or_else(|| part.get("thought_signature"));
            let opened = signature.and_then(Value::as_str).and_then(seal::open);
            if let Some(item) = opened.as_ref().and_then(seal::item_of) {
                return Some(item);
            }
            return Some(parts::model_item(part, self.provider));
        }
        part.shift_remove("text");
        let text = text.unwrap_or_default();
        let native = self.beside(part);
        let foreign = native.as_ref().filter(|native| native.provider != *self.provider);
        if let Some(item) = foreign.and_then(seal::item_of) {
            return Some(item);
        }
        if text.is_empty()
            && let Some(native) = foreign
            && self.give(is_thought, native, first)
        {
            return None;
        }
        if !is_thought {
            return Some(said(Text { native, ..Text::new(text) }));
        }
        // Its own thinking says whose it is even where nothing else stands beside it.
        let native = native.map(|mut native| {
            if let (true, Value::Object(value)) = (native.provider == *self.provider, &mut native.value) {
                value.shift_remove("thought");
            }
            native
        });
        let native = native.unwrap_or_else(|| Native { provider: self.provider.clone(), value: json!({}) });
        Some(ItemBody::Reasoning(Reasoning { text, native: Some(native) }))
    }

    /// Puts thinking before the call that brought it along, unless it stands there already.
    fn think(&mut self, thoughts: Vec<seal::Thinking>, first: usize) {
        for seal::Thinking { text, native, .. } in thoughts {
            let is_this = |item: &Arc<Item>| matches!(&item.body, ItemBody::Reasoning(known) if known.native == native);
            if self.items.iter().skip(first).any(is_this) {
                continue;
            }
            if !native.as_ref().is_some_and(|native| self.give(true, native, first)) {
                self.push(Origin::Model, ItemBody::Reasoning(Reasoning { text, native }));
            }
        }
    }

    /// Gives a foreign state to the thinking or text right before it, which has none yet; of thinking it may also come after
    /// what was said next. Clients return a stream piece by piece, and the state is that of all the pieces together. Whether it
    /// was taken.
    fn give(&mut self, is_thought: bool, native: &Native, first: usize) -> bool {
        let is_bare = |reasoning: &Reasoning| {
            let own = reasoning.native.as_ref().filter(|own| own.provider == *self.provider);
            own.is_some_and(|own| own.value.as_object().is_some_and(Map::is_empty))
        };
        let mut after = Vec::new();
        let is_thinking = |item: &Arc<Item>| matches!(item.body, ItemBody::Reasoning(_));
        while is_thought && self.items.len() > first && self.items.last().is_some_and(|item| !is_thinking(item)) {
            after.extend(self.items.pop());
        }
        let mut pieces: Vec<String> = Vec::new();
        while self.items.len() > first {
            match self.items.last().map(|item| &item.body) {
                Some(ItemBody::Reasoning(reasoning)) if is_thought && is_bare(reasoning) => {
                    pieces.push(reasoning.text.clone());
                }
                Some(ItemBody::Message(message)) if !is_thought && is_plain(message) => pieces.push(message.text()),
                _ => break,
            }
            self.items.pop();
        }
        if pieces.is_empty() {
            self.items.extend(after.into_iter().rev());
            return false;
        }
        let text: String = pieces.into_iter().rev().collect();
        let native = Some(native.clone());
        let body = if is_thought {
            ItemBody::Reasoning(Reasoning { text, native })
        } else {
            said(Text { native, ..Text::new(text) })
        };
        self.push(Origin::Model, body);
        self.items.extend(after.into_iter().rev());
        true
    }

    /// Puts a text to the message right before it, where both are only that. `joined` is the item that was put together so last, of
    /// which not every part is looked at again.
    fn join(&mut self, body: &ItemBody, first: usize, joined: &mut Option<ItemId>) -> bool {
        let ItemBody::Message(next) = body else { return false };
        let Some(last) = self.items[first..].last_mut().map(Arc::make_mut) else { return false };
        let is_joined = joined.as_ref() == Some(&last.id);
        match &mut last.body {
            ItemBody::Message(known) if is_plain(next) && (is_joined || is_plain(known)) => {
                known.parts.extend(next.parts.iter().cloned());
                *joined = Some(last.id.clone());
                true
            }
            _ => false,
        }
    }

    /// The result of a call, which is found by its id, or by its tool and order where it has none. A result whose call is not in
    /// the body gets a call id of its own.
    fn result(&mut self, mut response: Map<String, Value>, part: Map<String, Value>) -> (String, ToolResult) {
        let wire = take_text(&mut response, "id").filter(|id| !id.is_empty());
        let name = take_text(&mut response, "name").filter(|name| !name.is_empty());
        let found = self.asked.first(match (&wire, &name) {
            (Some(id), _) => By::Id(id),
            (None, Some(name)) => By::Tool(name),
            (None, None) => By::Nothing,
        });
        let (call, tool) = match found {
            Some((call, tool)) => (call, name.map_or(tool, ToolName::from)),
            None => {
                let name = name.or_else(|| wire.clone()).unwrap_or_else(|| "unnamed".to_owned());
                (self.env.new_id(), ToolName::from(name))
            }
        };
        let (is_error, mut content) = match take(&mut response, "response") {
            Some(Value::Object(object)) if object.is_empty() => (false, Vec::new()),
            Some(Value::Object(object)) if is_only(&object, "output") || is_only(&object, "error") => {
                let text = object.values().next().and_then(Value::as_str).unwrap_or_default();
                (object.contains_key("error"), vec![Part::text(text)])
            }
            Some(Value::Object(object)) => (says_error(&object), vec![Part::text(Value::Object(object).to_string())]),
            Some(Value::String(text)) => (false, vec![Part::text(text)]),
            Some(other) => (false, vec![Part::text(other.to_string())]),
            None => (false, Vec::new()),
        };
        if let Some(Value::Array(parts)) = take(&mut response, "parts") {
            content.extend(parts.into_iter().map(|part| self.user_part(part)));
        }
        response.retain(|_, value| !value.is_null());
        let mut native = self.beside(part);
        if !response.is_empty() {
            let own = native.get_or_insert_with(|| Native { provider: self.provider.clone(), value: json!({}) });
            if let (true, Value::Object(value)) = (own.provider == *self.provider, &mut own.value) {
                value.insert("functionResponse".to_owned(), Value::Object(response));
            }
        }
        let (status, reason) =
            if is_error { (Status::Failed, Some(Reason::ToolError)) } else { (Status::Completed, None) };
        let mut outcome = Outcome::new(status, Stage::Execute, reason, "");
        outcome.content = content;
        let name = tool.as_str().to_owned();
        (name, ToolResult { call, provider_id: wire, tool, capability: None, outcome, native })
    }

    fn tools(&mut self, rest: &mut Map<String, Value>, request: &mut TurnRequest) -> Result<(), RequestError> {
        let entries = match take(rest, "tools") {
            Some(Value::Array(entries)) => entries,
            Some(entry @ Value::Object(_)) => vec![entry],
            Some(_) => return Err(RequestError::field("tools", "expected a list of tools")),
            None => return Ok(()),
        };
        for (at, entry) in entries.into_iter().enumerate() {
            let Value::Object(mut entry) = entry else {
                return Err(RequestError::field(format!("tools[{at}]"), "expected an object"));
            };
            let declarations = match take(&mut entry, "functionDeclarations") {
                Some(Value::Array(declarations)) => declarations,
                Some(_) => {
                    let field = format!("tools[{at}].functionDeclarations");
                    return Err(RequestError::field(field, "expected a list of declarations"));
                }
                None => Vec::new(),
            };
            for (i, declaration) in declarations.into_iter().enumerate() {
                let field = || format!("tools[{at}].functionDeclarations[{i}]");
                let Value::Object(declaration) = declaration else {
                    return Err(RequestError::field(field(), "expected an object"));
                };
                let tool = self.tool(declaration).ok_or_else(|| RequestError::field(field(), "expected a `name`"))?;
                request.tools.push(Arc::new(tool));
            }
            hosted::decode(entry, self.provider, &mut request.hosted);
        }
        Ok(())
    }

    fn tool(&self, mut declaration: Map<String, Value>) -> Option<ToolDefinition> {
        let name = take_text(&mut declaration, "name").filter(|name| !name.is_empty())?;
        let description = take_text(&mut declaration, "description").unwrap_or_default();
        let schema = match (take(&mut declaration, "parametersJsonSchema"), take(&mut declaration, "parameters")) {
            (Some(schema), _) => Schema::new(schema),
            (None, Some(parameters)) => {
                let schema = from_openapi(&parameters);
                declaration.insert("parameters".to_owned(), parameters);
                Schema::new(schema)
            }
            (None, None) => Schema::new(json!({"type": "object", "properties": {}})),
        };
        let native = native(declaration, self.provider);
        // It crossed the wire: what running it twice would do is not said.
        Some(ToolDefinition { native, ..ToolDefinition::new(name.as_str(), description, schema, Effect::Once) })
    }
}

/// Whether a message of the model is text and nothing else.
fn is_plain(message: &Message) -> bool {
    let is_text = |part: &Part| matches!(part, Part::Text(text) if text.native.is_none());
    message.role == Role::Assistant && message.native.is_none() && message.parts.iter().all(is_text)
}

fn said(text: Text) -> ItemBody {
    ItemBody::Message(Message { role: Role::Assistant, parts: vec![Part::Text(text)], native: None })
}
