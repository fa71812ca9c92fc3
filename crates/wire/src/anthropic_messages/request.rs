//! From a client's body to a request of ours.

use super::answer::is_hosted_block;
use super::hosted;
use super::sealed::{self, Opened, Owner};
use crate::envelope;
use crate::json::{Fields, Node};
use crate::request::{ClientBody, DecodedRequest, RequestError};
use crate::schema::fits_strict;
use crate::shown;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use placet_core::item::{HostedCall, Reasoning};
use placet_core::part::{CacheMark, Inline, Media, MediaSource, Native, ProviderFile, Text, Url};
use placet_core::{
    Arguments, CallId, Effect, Env, Item, ItemBody, Message, Origin, Outcome, Part, ProviderId, Reason, Role, Schema,
    Stage, Status, ToolCall, ToolChoice, ToolDefinition, ToolName, ToolResult, TurnRequest,
};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Reads the body of a request for an answer, or for a count of its tokens.
///
/// `provider` is whose protocol the client believes to speak: unknown fields, blocks and thinking without an envelope are
/// that provider's, and go to it only. Calls and items get ids of ours from `env`; the client's ids of calls are kept beside
/// them. A result whose call does not stand in the body is kept under the client's id, which is then also the name of its
/// tool, because nothing else is known of it.
///
/// What has no name of ours is kept in [`TurnRequest::native`]: an object that is laid over the body of a request to the same
/// provider. Its `tools` holds what a hosted tool has beyond our words, by kind.
///
/// # Errors
/// [`RequestError`] for a body that is no JSON or no request, naming the field.
pub fn decode_request(body: &[u8], provider: &ProviderId, env: &Env) -> Result<DecodedRequest, RequestError> {
    let body = ClientBody::new(body)?;
    let read = body.read()?;
    let Some(nodes) = read.as_fields() else {
        return Err(RequestError::field("body", "expected a JSON object with `model` and `messages`"));
    };
    // All but what is long.
    let fields = nodes.iter().filter(|(key, _)| !matches!(*key, "messages" | "tools"));
    let fields: Map<String, Value> = fields.map(|(key, value)| (key.to_owned(), value.to_value())).collect();
    let mut reader =
        Reader { provider, env, request: TurnRequest::default(), native: Map::new(), calls: HashMap::new() };
    reader.request.model = match fields.get("model") {
        Some(Value::String(model)) if !model.is_empty() => model.clone(),
        _ => return Err(RequestError::field("model", "expected the name of a model")),
    };
    reader.system(fields.get("system"))?;
    match nodes.get("messages") {
        Some(Node::List(messages)) => {
            for (index, message) in messages.iter().enumerate() {
                if !reader.plain_message(message) {
                    reader.message(&message.to_value(), &format!("messages[{index}]"))?;
                }
            }
        }
        _ => return Err(RequestError::field("messages", "expected a list of messages")),
    }
    reader.tools(nodes.get("tools"), &fields)?;
    reader.controls(&fields)?;
    let stream = fields.get("stream") == Some(&Value::Bool(true));
    for (key, value) in fields {
        if !KNOWN.contains(&key.as_str()) && !value.is_null() {
            reader.native.insert(key, value);
        }
    }
    let Reader { mut request, native, .. } = reader;
    request.native = (!native.is_empty()).then(|| Native { provider: provider.clone(), value: native.into() });
    Ok(DecodedRequest { request, stream, stream_usage: true, body: body.clone() })
}

/// The fields of a body that are read; what is left of them is put into the native fields where they are.
const KNOWN: [&str; 20] = [
    "model",
    "messages",
    "system",
    "tools",
    "mcp_servers",
    "tool_choice",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "stream",
    "thinking",
    "output_config",
    "output_format",
    "service_tier",
    "metadata",
    "cache_control",
    "context_management",
    "container",
];

/// Reads one body.
pub(super) struct Reader<'a> {
    pub(super) provider: &'a ProviderId,
    env: &'a Env,
    pub(super) request: TurnRequest,
    pub(super) native: Map<String, Value>,
    /// The calls so far that have no result, by the client's id, in their order.
    calls: HashMap<String, VecDeque<(CallId, ToolName)>>,
}

/// The fields of an object but for these and the null ones.
pub(super) fn beyond(object: &Map<String, Value>, known: &[&str]) -> Map<String, Value> {
    let is_beyond = |(key, value): &(&String, &Value)| !known.contains(&key.as_str()) && !value.is_null();
    object.iter().filter(is_beyond).map(|(key, value)| (key.clone(), value.clone())).collect()
}

pub(super) fn text_at<'v>(object: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    object.get(key).and_then(Value::as_str)
}

/// The mark of a block, and the whole of it where it says more than our mark can.
pub(super) fn cache_mark(object: &Map<String, Value>) -> (Option<CacheMark>, Option<Value>) {
    let Some(Value::Object(control)) = object.get("cache_control") else { return (None, None) };
    let mark = CacheMark { ttl: text_at(control, "ttl").map(str::to_owned) };
    let is_ours = text_at(control, "type") == Some("ephemeral") && beyond(control, &["type", "ttl"]).is_empty();
    (Some(mark), (!is_ours).then(|| Value::Object(control.clone())))
}

impl Reader<'_> {
    fn native(&self, value: impl Into<Value>) -> Native {
        Native { provider: self.provider.clone(), value: value.into() }
    }

    fn native_of(&self, fields: Map<String, Value>) -> Option<Native> {
        (!fields.is_empty()).then(|| self.native(fields))
    }

    pub(super) fn push(&mut self, origin: Origin, body: impl Into<ItemBody>) {
        let item = Item::new(self.env.new_id(), origin, body);
        self.request.items.push(Arc::new(item));
    }

    fn system(&mut self, system: Option<&Value>) -> Result<(), RequestError> {
        match system {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => self.request.instructions = Some(text.as_str().into()),
            Some(Value::Array(blocks)) if blocks.is_empty() => {}
            Some(Value::Array(blocks)) => {
                let parts = self.parts(blocks, "system")?;
                self.push(Origin::Operator, Message { role: Role::System, parts, native: None });
            }
            Some(_) => return Err(RequestError::field("system", "expected a text or a list of text blocks")),
        }
        Ok(())
    }

    fn message(&mut self, message: &Value, path: &str) -> Result<(), RequestError> {
        let Value::Object(message) = message else {
            return Err(RequestError::field(path, "expected a message with `role` and `content`"));
        };
        let native = self.native_of(beyond(message, &["role", "content"]));
        let text;
        let blocks = match message.get("content") {
            Some(Value::String(content)) => {
                text = [json!({"type": "text", "text": content})];
                text.as_slice()
            }
            Some(Value::Array(blocks)) => blocks.as_slice(),
            None | Some(Value::Null) if native.is_some() => &[],
            _ => return Err(RequestError::field(format!("{path}.content"), "expected a text or a list of blocks")),
        };
        let content = format!("{path}.content");
        let (role, origin) = match text_at(message, "role") {
            Some("assistant") => return self.assistant(blocks, native, &content),
            Some("user") => (Role::User, Origin::User),
            Some("system") => (Role::System, Origin::Operator),
            _ => return Err(RequestError::field(format!("{path}.role"), "expected `user`, `assistant` or `system`")),
        };
        let mut parts = Vec::with_capacity(blocks.len());
        let mut has_results = false;
        for (index, block) in blocks.iter().enumerate() {
            let place = format!("{content}[{index}]");
            let Value::Object(block) = block else {
                return Err(RequestError::field(place, "expected a block with a `type`"));
            };
            if role == Role::User && text_at(block, "type") == Some("tool_result") {
                self.result(block, &place)?;
                has_results = true;
            } else {
                parts.push(self.part(block));
            }
        }
        if !parts.is_empty() || native.is_some() || !has_results {
            self.push(origin, Message { role, parts, native });
        }
        Ok(())
    }

    fn parts(&self, blocks: &[Value], path: &str) -> Result<Vec<Part>, RequestError> {
        let part = |(index, block): (usize, &Value)| match block {
            Value::Object(block) => Ok(self.part(block)),
            _ => Err(RequestError::field(format!("{path}[{index}]"), "expected a block with a `type`")),
        };
        blocks.iter().enumerate().map(part).collect()
    }

    /// A block of a message as a part. One that has no name of ours is kept whole.
    fn part(&self, block: &Map<String, Value>) -> Part {
        let part = match text_at(block, "type") {
            Some("text") => self.text(block).map(Part::Text),
            Some("image") => self.image(block).map(Part::Image),
            Some("document") => self.document(block).map(Part::File),
            _ => None,
        };
        part.unwrap_or_else(|| Part::Native(self.native(block.clone())))
    }

    fn text(&self, block: &Map<String, Value>) -> Option<Text> {
        let text = text_at(block, "text")?;
        let (cache, control) = cache_mark(block);
        let mut fields = beyond(block, &["type", "text", "cache_control"]);
        fields.extend(control.map(|control| ("cache_control".to_owned(), control)));
        Some(Text { cache, native: self.native_of(fields), ..Text::new(text) })
    }

    fn image(&self, block: &Map<String, Value>) -> Option<Media> {
        let source = block.get("source")?.as_object()?;
        let known = |keys: &[&str]| beyond(source, keys).is_empty();
        let (place, mime) = match text_at(source, "type")? {
            "base64" if known(&["type", "data", "media_type"]) => {
                (inline(text_at(source, "data")?), Some(text_at(source, "media_type")?))
            }
            "url" if known(&["type", "url"]) => {
                (MediaSource::Url(Url { url: text_at(source, "url")?.to_owned() }), None)
            }
            "file" if known(&["type", "file_id"]) => (self.file(text_at(source, "file_id")?), None),
            _ => return None,
        };
        Some(self.media(block, place, mime, &["type", "source", "cache_control"]))
    }

    fn document(&self, block: &Map<String, Value>) -> Option<Media> {
        let source = block.get("source")?.as_object()?;
        let known = |keys: &[&str]| beyond(source, keys).is_empty();
        let (place, mime) = match text_at(source, "type")? {
            "base64" if known(&["type", "data", "media_type"]) => {
                (inline(text_at(source, "data")?), Some(text_at(source, "media_type")?))
            }
            // A document that is a text is a file like any other to us.
            "text" if known(&["type", "data", "media_type"]) && text_at(source, "media_type") == Some("text/plain") => {
                (inline(&STANDARD.encode(text_at(source, "data")?)), Some("text/plain"))
            }
            "url" if known(&["type", "url"]) => {
                (MediaSource::Url(Url { url: text_at(source, "url")?.to_owned() }), None)
            }
            "file" if known(&["type", "file_id"]) => (self.file(text_at(source, "file_id")?), None),
            _ => return None,
        };
        let mut media = self.media(block, place, mime, &["type", "source", "cache_control", "title"]);
        media.name = text_at(block, "title").map(str::to_owned);
        Some(media)
    }

    fn file(&self, id: &str) -> MediaSource {
        MediaSource::ProviderFile(ProviderFile { provider: self.provider.clone(), id: id.to_owned() })
    }

    fn media(&self, block: &Map<String, Value>, source: MediaSource, mime: Option<&str>, known: &[&str]) -> Media {
        let (cache, control) = cache_mark(block);
        let mut fields = beyond(block, known);
        fields.extend(control.map(|control| ("cache_control".to_owned(), control)));
        Media { mime_type: mime.map(str::to_owned), cache, native: self.native_of(fields), ..Media::new(source) }
    }

    fn result(&mut self, block: &Map<String, Value>, path: &str) -> Result<(), RequestError> {
        let Some(id) = text_at(block, "tool_use_id") else {
            return Err(RequestError::field(format!("{path}.tool_use_id"), "expected the id of a `tool_use` block"));
        };
        let content = match block.get("content") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) => vec![Part::text(text.as_str())],
            Some(Value::Array(blocks)) => self.parts(blocks, &format!("{path}.content"))?,
            Some(_) => {
                return Err(RequestError::field(format!("{path}.content"), "expected a text or a list of blocks"));
            }
        };
        let has_failed = block.get("is_error") == Some(&Value::Bool(true));
        let native = self.native_of(beyond(block, &["type", "tool_use_id", "content", "is_error"]));
        self.answered(id, content, has_failed, native);
        Ok(())
    }

    /// The result of the call that goes by this id.
    pub(super) fn answered(&mut self, id: &str, content: Vec<Part>, has_failed: bool, native: Option<Native>) {
        let found = self.calls.get_mut(id).and_then(VecDeque::pop_front);
        let (call, tool) = found.unwrap_or_else(|| (self.env.new_id(), ToolName::new(id)));
        let (status, reason) =
            if has_failed { (Status::Failed, Some(Reason::ToolError)) } else { (Status::Completed, None) };
        let mut outcome = Outcome::new(status, Stage::Execute, reason, "");
        outcome.content = content;
        let origin = Origin::Tool(tool.as_str().to_owned());
        let provider_id = Some(id.to_owned());
        self.push(origin, ToolResult { call, provider_id, tool, capability: None, outcome, native });
    }

    fn assistant(&mut self, blocks: &[Value], native: Option<Native>, path: &str) -> Result<(), RequestError> {
        let first = self.request.items.len();
        // Fields of the message itself stand in front of what it says.
        if native.is_some() {
            self.push(Origin::Model, Message { role: Role::Assistant, parts: Vec::new(), native });
        }
        let (mut for_next_call, mut for_next_text) = (None, None);
        for (index, block) in blocks.iter().enumerate() {
            let place = format!("{path}[{index}]");
            let Value::Object(block) = block else {
                return Err(RequestError::field(place, "expected a block with a `type`"));
            };
            match text_at(block, "type") {
                Some("text") if text_at(block, "text").is_some() => {
                    // A picture that went out as a text.
                    if let Some(picture) = text_at(block, "text").and_then(shown::read) {
                        let last = self.request.items[first..].last();
                        if !last.is_some_and(|item| shown::is_made_by(&item.body, &picture)) {
                            let parts = vec![Part::Image(Media { native: for_next_text.take(), ..picture })];
                            self.push(Origin::Model, Message { role: Role::Assistant, parts, native: None });
                        }
                        continue;
                    }
                    let mut part = self.part(block);
                    if let (Part::Text(text), Some(native)) = (&mut part, for_next_text.take()) {
                        text.native = Some(native);
                    }
                    self.push(Origin::Model, Message { role: Role::Assistant, parts: vec![part], native: None });
                }
                Some("thinking") => {
                    let text = text_at(block, "thinking").unwrap_or_default().to_owned();
                    let native = match text_at(block, "signature") {
                        Some(signature) if envelope::is_sealed(signature) => envelope::open(signature),
                        signature => {
                            let mut fields = beyond(block, &["type", "thinking", "signature"]);
                            let signature = signature.filter(|signature| !signature.is_empty());
                            fields.extend(signature.map(|signature| ("signature".to_owned(), signature.into())));
                            self.native_of(fields)
                        }
                    };
                    self.push(Origin::Model, Reasoning { text, native });
                }
                Some("redacted_thinking") => match text_at(block, "data") {
                    Some(data) if envelope::is_sealed(data) => match sealed::open(data) {
                        Some(Opened::Of(Owner::NextCall, native)) => for_next_call = Some(native),
                        Some(Opened::Of(Owner::NextText, native)) => for_next_text = Some(native),
                        Some(Opened::Of(owner, native)) => self.give_back(first, owner, native),
                        Some(Opened::Item(body)) => self.push(Origin::Model, *body),
                        // Nobody can read it.
                        None => {}
                    },
                    _ => {
                        let native = Some(self.native(block.clone()));
                        self.push(Origin::Model, Reasoning { text: String::new(), native });
                    }
                },
                Some("tool_use") => self.call(block, for_next_call.take(), &place)?,
                Some(kind) if is_hosted_block(kind) => {
                    let (kind, value) = (kind.to_owned(), Value::Object(block.clone()));
                    self.push(Origin::Model, HostedCall { provider: self.provider.clone(), kind, value });
                }
                _ => {
                    let native = self.native(block.clone());
                    self.push(Origin::Model, native);
                }
            }
        }
        Ok(())
    }

    fn call(&mut self, block: &Map<String, Value>, state: Option<Native>, path: &str) -> Result<(), RequestError> {
        let (Some(id), Some(name)) = (text_at(block, "id"), text_at(block, "name")) else {
            return Err(RequestError::field(path, "expected a `tool_use` block with `id` and `name`"));
        };
        let arguments = Arguments::from_value(block.get("input").unwrap_or(&Value::Null));
        let native = state.or_else(|| self.native_of(beyond(block, &["type", "id", "name", "input"])));
        self.called(id, name, arguments.replay_text().into(), native);
        Ok(())
    }

    /// A call that goes by this id.
    pub(super) fn called(&mut self, id: &str, name: &str, arguments: Arc<str>, native: Option<Native>) {
        let call: CallId = self.env.new_id();
        let (tool, arguments) = (ToolName::new(name), Arguments::from_text(arguments));
        self.calls.entry(id.to_owned()).or_default().push_back((call.clone(), tool.clone()));
        let call = ToolCall { id: call, provider_id: Some(id.to_owned()), name: tool, arguments, native };
        self.push(Origin::Model, call);
    }

    /// Gives state back to what it belongs to, among the items of this message.
    fn give_back(&mut self, first: usize, owner: Owner, native: Native) {
        for item in self.request.items.iter_mut().skip(first).rev() {
            let mut changed = Item::clone(item);
            let place = match (&mut changed.body, owner) {
                (ItemBody::ToolCall(call), Owner::Call) => &mut call.native,
                (ItemBody::Reasoning(reasoning), Owner::Reasoning) if reasoning.native.is_none() => {
                    &mut reasoning.native
                }
                (ItemBody::Message(message), Owner::Text) => match message.parts.last_mut() {
                    Some(Part::Text(text)) => &mut text.native,
                    _ => continue,
                },
                _ => continue,
            };
            *place = Some(native);
            *item = Arc::new(changed);
            return;
        }
        // What it belonged to is gone, so it is thinking of its own.
        if owner == Owner::Reasoning {
            self.push(Origin::Model, Reasoning { text: String::new(), native: Some(native) });
        }
    }

    fn tools(&mut self, tools: Option<&Node<'_>>, fields: &Map<String, Value>) -> Result<(), RequestError> {
        let none = Vec::new();
        let tools = match tools {
            None | Some(Node::Null) => &[],
            Some(Node::List(tools)) => tools.as_slice(),
            Some(_) => return Err(RequestError::field("tools", "expected a list of tools")),
        };
        let mut offered = Vec::new();
        for (index, tool) in tools.iter().enumerate() {
            if self.plain_tool(tool) {
                continue;
            }
            let Some(tool) = tool.as_fields().map(Fields::to_map) else {
                return Err(RequestError::field(format!("tools[{index}]"), "expected an object"));
            };
            match text_at(&tool, "type") {
                None | Some("custom") => {
                    let tool = self.tool(&tool, &format!("tools[{index}]"))?;
                    self.request.tools.push(Arc::new(tool));
                }
                Some(_) => offered.push(tool),
            }
        }
        let servers = fields.get("mcp_servers").and_then(Value::as_array).unwrap_or(&none);
        let offered: Vec<&Map<String, Value>> = offered.iter().collect();
        let (hosted, kept) = hosted::decode(&offered, servers, self.provider);
        self.request.hosted = hosted;
        if !kept.is_empty() {
            self.native.insert("tools".into(), kept.into());
        }
        self.choice(fields.get("tool_choice"))
    }

    fn tool(&self, tool: &Map<String, Value>, path: &str) -> Result<ToolDefinition, RequestError> {
        let Some(name) = text_at(tool, "name").filter(|name| !name.is_empty()) else {
            return Err(RequestError::field(format!("{path}.name"), "expected the name of a tool"));
        };
        let schema = match tool.get("input_schema") {
            None | Some(Value::Null) => Schema::new(json!({"type": "object", "properties": {}})),
            Some(schema) => Schema::new(schema.clone()),
        };
        let description = text_at(tool, "description").unwrap_or_default();
        // A tool that crossed the wire says nothing of what it does, so the worst is assumed.
        let mut definition = ToolDefinition::new(name, description, schema, Effect::Once);
        definition.strict = tool.get("strict").and_then(Value::as_bool);
        let is_own = definition.strict == Some(true) && !fits_strict(definition.schema.as_value());
        let (cache, control) = cache_mark(tool);
        definition.cache = cache;
        let known = ["type", "name", "description", "input_schema", "strict", "cache_control"];
        let mut fields = beyond(tool, &known);
        fields.extend(control.map(|control| ("cache_control".to_owned(), control)));
        // Others hold a model to closed schemas only.
        if is_own {
            definition.strict = None;
            fields.insert("strict".to_owned(), true.into());
        }
        definition.native = self.native_of(fields);
        Ok(definition)
    }

    fn choice(&mut self, choice: Option<&Value>) -> Result<(), RequestError> {
        let Some(Value::Object(choice)) = choice else { return Ok(()) };
        self.request.tool_choice = match text_at(choice, "type") {
            Some("auto") => ToolChoice::Auto,
            Some("any") => ToolChoice::Required,
            Some("none") => ToolChoice::None,
            Some("tool") => match text_at(choice, "name") {
                Some(name) => ToolChoice::Tool(ToolName::new(name)),
                None => return Err(RequestError::field("tool_choice.name", "expected the name of a tool")),
            },
            _ => {
                let expected = "expected `auto`, `any`, `none` or `tool`";
                return Err(RequestError::field("tool_choice.type", expected));
            }
        };
        let single = choice.get("disable_parallel_tool_use").and_then(Value::as_bool);
        self.request.controls.parallel_tool_calls = single.map(|single| !single);
        let fields = beyond(choice, &["type", "name", "disable_parallel_tool_use"]);
        if !fields.is_empty() {
            self.native.insert("tool_choice".into(), fields.into());
        }
        Ok(())
    }
}

fn inline(base64: &str) -> MediaSource {
    MediaSource::Inline(Inline { base64: base64.into() })
}
