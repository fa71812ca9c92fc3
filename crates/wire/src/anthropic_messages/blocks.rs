//! The conversation as messages of blocks.

use super::decode::INVALID_JSON;
use super::encode::Encoder;
use super::media::{is_blank, media_field};
use crate::json::Written;
use crate::names::alias_within;
use placet_core::part::{CacheMark, Media, Native, Text};
use placet_core::{CallId, Item, ItemBody, Message, Part, ProviderError, Role, ToolCall, ToolResult, TurnRequest};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

type Fields = Map<String, Value>;

/// The place of what a model said.
const ASSISTANT: &str = "message.assistant";
/// A text that is left out, and why.
pub(super) const BLANK: &str = "text.blank";
pub(super) const NO_SPACES: &str = "the provider takes no text of spaces alone";

/// What the provider takes as the name of a tool.
pub(super) const LONGEST_NAME: usize = 128;

/// A conversation in the protocol's form.
pub(super) struct Conversation<'a> {
    /// What the operator says before everything else, beside the instructions.
    pub(super) system: Vec<Block<'a>>,
    pub(super) messages: Vec<WireMessage<'a>>,
}

/// One message of the body.
pub(super) struct WireMessage<'a> {
    role: &'static str,
    blocks: Vec<Block<'a>>,
    fields: Vec<&'a Fields>,
    raw: Option<&'a Value>,
    /// It holds results and nothing else yet, so that what the user says next may stand behind them.
    is_open: bool,
}

impl<'a> WireMessage<'a> {
    fn new(role: &'static str, blocks: Vec<Block<'a>>) -> Self {
        WireMessage { role, blocks, fields: Vec::new(), raw: None, is_open: false }
    }

    fn is_nothing(&self) -> bool {
        self.blocks.is_empty() && self.fields.is_empty()
    }

    /// Marks its last block for the cache, where it can bear a mark.
    pub(super) fn mark(&mut self, mark: Cow<'a, CacheMark>) -> bool {
        match self.blocks.iter_mut().rev().find(|block| block.can_be_marked()) {
            Some(block) => {
                block.cache = block.cache.take().or(Some(mark));
                true
            }
            None => false,
        }
    }
}

impl Serialize for WireMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(raw) = self.raw {
            return raw.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", self.role)?;
        map.serialize_entry("content", &self.blocks)?;
        for (key, value) in self.fields.iter().flat_map(|fields| fields.iter()) {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// One block of a message.
pub(super) struct Block<'a> {
    body: BlockBody<'a>,
    cache: Option<Cow<'a, CacheMark>>,
    /// Fields of the provider's own.
    fields: Option<&'a Fields>,
    /// Whether marks of the provider's own may be written.
    marks: bool,
}

impl Block<'_> {
    /// Whether it holds what the provider itself wrote.
    fn is_own(&self) -> bool {
        self.fields.is_some() || matches!(self.body, BlockBody::Thinking { .. } | BlockBody::Raw(_))
    }

    fn is_blank(&self) -> bool {
        matches!(self.body, BlockBody::Text(Written(text)) if is_blank(text))
    }
}

enum BlockBody<'a> {
    Text(Written<'a>),
    Thinking { text: &'a str, signature: bool },
    ToolUse { id: &'a str, name: Cow<'a, str>, input: Input<'a> },
    ToolResult { id: &'a str, content: ResultContent<'a>, is_error: bool },
    Media { kind: &'static str, source: Source<'a>, title: Option<&'a str> },
    Raw(&'a Value),
}

enum Input<'a> {
    Text(&'a RawValue),
    Made(Value),
}

enum ResultContent<'a> {
    None,
    Text(Written<'a>),
    Blocks(Vec<Block<'a>>),
}

pub(super) enum Source<'a> {
    Inline { mime: &'a str, base64: &'a str },
    Text(String),
    Url(&'a str),
    File(&'a str),
}

impl Block<'_> {
    fn can_be_marked(&self) -> bool {
        !matches!(self.body, BlockBody::Thinking { .. } | BlockBody::Raw(_))
    }
}

/// A mark in the protocol's form.
pub(super) fn mark_form(mark: &CacheMark) -> Value {
    match &mark.ttl {
        Some(ttl) => json!({"type": "ephemeral", "ttl": ttl}),
        None => json!({"type": "ephemeral"}),
    }
}

impl Serialize for Block<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let BlockBody::Raw(value) = &self.body {
            return value.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        match &self.body {
            BlockBody::Text(text) => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
            }
            BlockBody::Thinking { text, signature } => {
                map.serialize_entry("type", "thinking")?;
                map.serialize_entry("thinking", text)?;
                if *signature {
                    map.serialize_entry("signature", "")?;
                }
            }
            BlockBody::ToolUse { id, name, input } => {
                map.serialize_entry("type", "tool_use")?;
                map.serialize_entry("id", id)?;
                map.serialize_entry("name", name)?;
                match input {
                    Input::Text(text) => map.serialize_entry("input", text)?,
                    Input::Made(value) => map.serialize_entry("input", value)?,
                }
            }
            BlockBody::ToolResult { id, content, is_error } => {
                map.serialize_entry("type", "tool_result")?;
                map.serialize_entry("tool_use_id", id)?;
                match content {
                    ResultContent::None => {}
                    ResultContent::Text(text) => map.serialize_entry("content", text)?,
                    ResultContent::Blocks(blocks) => map.serialize_entry("content", blocks)?,
                }
                if *is_error {
                    map.serialize_entry("is_error", &true)?;
                }
            }
            BlockBody::Media { kind, source, title } => {
                map.serialize_entry("type", kind)?;
                map.serialize_entry("source", source)?;
                if let Some(title) = title {
                    map.serialize_entry("title", title)?;
                }
            }
            BlockBody::Raw(_) => {}
        }
        let fields = self.fields.into_iter().flatten();
        let own_mark = self.marks && self.fields.is_some_and(|fields| fields.contains_key("cache_control"));
        if let Some(mark) = self.cache.as_ref().filter(|_| !own_mark) {
            map.serialize_entry("cache_control", &mark_form(mark))?;
        }
        for (key, value) in fields.filter(|(key, _)| self.marks || *key != "cache_control") {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl Serialize for Source<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Source::Inline { mime, base64 } => {
                map.serialize_entry("type", "base64")?;
                map.serialize_entry("media_type", mime)?;
                map.serialize_entry("data", base64)?;
            }
            Source::Text(text) => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("media_type", "text/plain")?;
                map.serialize_entry("data", text)?;
            }
            Source::Url(url) => {
                map.serialize_entry("type", "url")?;
                map.serialize_entry("url", url)?;
            }
            Source::File(id) => {
                map.serialize_entry("type", "file")?;
                map.serialize_entry("file_id", id)?;
            }
        }
        map.end()
    }
}

/// What the model said since somebody else spoke.
#[derive(Default)]
struct Said<'a> {
    blocks: Vec<Block<'a>>,
    fields: Vec<&'a Fields>,
    calls: Vec<(&'a CallId, &'a str)>,
}

type Results<'a> = HashMap<&'a CallId, (usize, &'a ToolResult)>;

/// Puts a conversation into messages. Consecutive items of the model are one message; the results of its calls follow at once in
/// one message of the user, before anything else the user says, wherever they stand among the items.
pub(super) struct Writer<'e, 'a> {
    pub(super) encoder: &'e mut Encoder<'a>,
    used_ids: HashSet<&'a str>,
    results: Results<'a>,
    answered: HashSet<&'a CallId>,
    said: Said<'a>,
    out: Conversation<'a>,
}

impl<'e, 'a> Writer<'e, 'a> {
    pub(super) fn new(encoder: &'e mut Encoder<'a>) -> Self {
        Writer {
            encoder,
            used_ids: HashSet::new(),
            results: HashMap::new(),
            answered: HashSet::new(),
            said: Said::default(),
            out: Conversation { system: Vec::new(), messages: Vec::new() },
        }
    }

    pub(super) fn write(mut self, request: &'a TurnRequest) -> Result<Conversation<'a>, ProviderError> {
        for (place, item) in request.items.iter().enumerate() {
            if let ItemBody::ToolResult(result) = &item.body {
                self.results.insert(&result.call, (place, result));
            }
        }
        for item in &request.items {
            self.item(item)?;
        }
        self.flush()?;
        let is_users = |item: &Arc<Item>| matches!(&item.body, ItemBody::Message(said) if said.role == Role::User);
        if self.out.messages.is_empty() && request.items.iter().any(is_users) {
            return Err(self
                .encoder
                .refusal()
                .of("message.user", "nothing is said; the provider takes no empty message"));
        }
        Ok(self.out)
    }

    fn item(&mut self, item: &'a Item) -> Result<(), ProviderError> {
        match &item.body {
            ItemBody::Message(message) if message.role == Role::Assistant => {
                self.said.fields.extend(self.encoder.fields("message.native", message.native.as_ref()));
                for part in &message.parts {
                    if matches!(part, Part::Image(_) | Part::Audio(_) | Part::File(_)) {
                        let field = format!("{}.assistant", part.kind());
                        return Err(self.encoder.refusal().of(&field, "a model says only texts here"));
                    }
                    let block = self.part(part, ASSISTANT)?;
                    self.said.blocks.extend(block);
                }
            }
            ItemBody::Message(message) => self.message(message)?,
            ItemBody::Reasoning(reasoning) => {
                let own = reasoning.native.as_ref().filter(|native| self.encoder.is_own(native));
                let block = match own {
                    Some(native) => self.thinking(&reasoning.text, native),
                    None if reasoning.native.is_none() && self.encoder.dialect.unsigned_thinking => {
                        Some(self.block(BlockBody::Thinking { text: &reasoning.text, signature: true }, None))
                    }
                    None => {
                        let why = "it belongs to another provider, or to none";
                        self.encoder.omitted.add("reasoning", why);
                        None
                    }
                };
                self.said.blocks.extend(block);
            }
            ItemBody::ToolCall(call) => self.call(call),
            ItemBody::ToolResult(result) => {
                self.flush()?;
                if !self.answered.contains(&result.call) {
                    // Its call is not in the conversation: the provider says what it thinks of that.
                    self.answered.insert(&result.call);
                    let id = result.provider_id.as_deref().unwrap_or(result.call.as_str());
                    let block = self.result(id, result)?;
                    self.results_message().blocks.push(block);
                }
            }
            ItemBody::HostedCall(call) if call.provider == self.encoder.dialect.provider => {
                let block = self.block(BlockBody::Raw(&call.value), None);
                self.said.blocks.push(block);
            }
            ItemBody::HostedCall(_) => self.encoder.omit_foreign("hosted_call"),
            ItemBody::Native(native) if self.encoder.is_own(native) => {
                if native.value.get("role").is_some() {
                    self.flush()?;
                    let mut message = WireMessage::new("user", Vec::new());
                    message.raw = Some(&native.value);
                    self.out.messages.push(message);
                } else {
                    let block = self.block(BlockBody::Raw(&native.value), None);
                    self.said.blocks.push(block);
                }
            }
            ItemBody::Native(_) => self.encoder.omit_foreign("native_item"),
            // Between us and a human; no model is told.
            ItemBody::Approval(_) => {}
            ItemBody::Artifact(_) => self.encoder.omitted.add("artifact", "this protocol has no place for it"),
            other => return Err(self.encoder.refusal().of(other.kind(), "nobody knows this kind of item")),
        }
        Ok(())
    }

    fn block(&self, body: BlockBody<'a>, fields: Option<&'a Fields>) -> Block<'a> {
        Block { body, cache: None, fields, marks: self.encoder.writes_marks }
    }

    fn thinking(&self, text: &'a str, native: &'a Native) -> Option<Block<'a>> {
        let fields = native.value.as_object()?;
        // What is hidden goes back whole.
        if fields.get("type").and_then(Value::as_str) == Some("redacted_thinking") {
            return Some(self.block(BlockBody::Raw(&native.value), None));
        }
        let mut block = self.block(BlockBody::Thinking { text, signature: !fields.contains_key("signature") }, None);
        block.fields = Some(fields);
        // The text itself may stand in it, where it was not ours that put it there.
        if fields.contains_key("type") || fields.contains_key("thinking") {
            return Some(self.block(BlockBody::Raw(&native.value), None));
        }
        Some(block)
    }

    fn call(&mut self, call: &'a ToolCall) {
        let is_plain = |id: &&str| {
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        };
        let id = match call.provider_id.as_deref().filter(is_plain) {
            Some(id) if self.used_ids.insert(id) => id,
            _ => call.id.as_str(),
        };
        let text = call.arguments.replay_text();
        let input = match serde_json::from_str::<&RawValue>(text.trim()) {
            Ok(raw) if raw.get().starts_with('{') => Input::Text(raw),
            _ => match call.arguments.parse() {
                Ok(object) => Input::Made(object.into()),
                // The provider insists on an object, also for what a model wrote wrongly.
                Err(_) => Input::Made(json!({ INVALID_JSON: text })),
            },
        };
        let fields = self.encoder.fields("tool_call.native", call.native.as_ref());
        let name = alias_within(LONGEST_NAME, call.name.as_str());
        let block = self.block(BlockBody::ToolUse { id, name, input }, fields);
        self.said.blocks.push(block);
        self.said.calls.push((&call.id, id));
    }

    /// Puts down what the model said up to here, and the results of its calls.
    fn flush(&mut self) -> Result<(), ProviderError> {
        let Said { mut blocks, fields, calls } = std::mem::take(&mut self.said);
        // What the provider itself said goes back as it was, with the spaces between what it has sources for.
        if !blocks.iter().any(Block::is_own) {
            let before = blocks.len();
            blocks.retain(|block| !block.is_blank());
            if blocks.len() < before {
                self.encoder.omitted.add(BLANK, NO_SPACES);
            }
        }
        let message = WireMessage { fields, ..WireMessage::new("assistant", blocks) };
        if !message.is_nothing() {
            self.out.messages.push(message);
        }
        let mut results = Vec::with_capacity(calls.len());
        for (call, id) in calls {
            let Some(&(place, result)) = self.results.get(call).filter(|_| self.answered.insert(call)) else {
                let problem = format!("the call {id} has no result; every call needs one before the next turn");
                return Err(self.encoder.refusal().invalid(problem));
            };
            results.push((place, id, result));
        }
        if results.is_empty() {
            return Ok(());
        }
        results.sort_unstable_by_key(|(place, ..)| *place);
        let mut blocks = Vec::with_capacity(results.len());
        for (_, id, result) in results {
            blocks.push(self.result(id, result)?);
        }
        self.out.messages.push(WireMessage { is_open: true, ..WireMessage::new("user", blocks) });
        Ok(())
    }

    /// The message that results go into.
    fn results_message(&mut self) -> &mut WireMessage<'a> {
        if !self.out.messages.last().is_some_and(|message| message.is_open) {
            self.out.messages.push(WireMessage { is_open: true, ..WireMessage::new("user", Vec::new()) });
        }
        let last = self.out.messages.len() - 1;
        &mut self.out.messages[last]
    }

    fn result(&mut self, id: &'a str, result: &'a ToolResult) -> Result<Block<'a>, ProviderError> {
        let writes_marks = self.encoder.writes_marks;
        let is_plain = |text: &Text| (text.cache.is_none() || !writes_marks) && text.native.is_none();
        let all = result.outcome.content.as_slice();
        let mut told: Vec<&Part> =
            all.iter().filter(|part| !matches!(part, Part::Text(text) if text.text.is_empty())).collect();
        if told.len() > 1 {
            let before = told.len();
            told.retain(|part| !matches!(part, Part::Text(text) if is_blank(&text.text)));
            if told.len() < before {
                self.encoder.omitted.add(BLANK, NO_SPACES);
            }
        }
        let content = match (told.as_slice(), all) {
            ([Part::Text(text)], _) | ([], [Part::Text(text)]) if is_plain(text) => {
                ResultContent::Text(Written(&text.text))
            }
            ([], _) => ResultContent::None,
            (parts, _) => {
                let mut blocks = Vec::with_capacity(parts.len());
                for part in parts {
                    blocks.extend(self.part(part, "tool_result")?);
                }
                if blocks.is_empty() { ResultContent::None } else { ResultContent::Blocks(blocks) }
            }
        };
        let fields = self.encoder.fields("tool_result.native", result.native.as_ref());
        let is_error = result.outcome.is_error();
        Ok(self.block(BlockBody::ToolResult { id, content, is_error }, fields))
    }

    fn message(&mut self, message: &'a Message) -> Result<(), ProviderError> {
        let is_operator = match &message.role {
            Role::System => true,
            Role::User => false,
            other => {
                return Err(self.encoder.refusal().of(&format!("message.{other}"), "nobody of that name speaks here"));
            }
        };
        let field = if is_operator { "message.system" } else { "message.user" };
        let mut blocks = Vec::with_capacity(message.parts.len());
        for part in &message.parts {
            if is_operator && !matches!(part, Part::Text(_) | Part::Native(_)) {
                let what = format!("it holds a part of the kind `{}`", part.kind());
                return Err(self.encoder.refusal().of(field, &what));
            }
            blocks.extend(self.part(part, field)?);
        }
        let native = self.encoder.fields("message.native", message.native.as_ref());
        if blocks.is_empty() && native.is_none() {
            return Ok(());
        }
        let is_first = self.out.messages.is_empty() && self.said.blocks.is_empty() && self.said.fields.is_empty();
        if is_operator && (is_first && native.is_none() || !self.encoder.dialect.mid_system) {
            if !is_first {
                let why = "the model hears the operator before the conversation only, so it was told there";
                self.encoder.omitted.add("message.system.place", why);
            }
            if native.is_some() {
                self.encoder.omitted.add("message.native", "there is no message that it could stand in");
            }
            self.out.system.extend(blocks);
            return Ok(());
        }
        self.flush()?;
        if !is_operator && let Some(last) = self.out.messages.last_mut().filter(|message| message.is_open) {
            last.blocks.extend(blocks);
            last.fields.extend(native);
            last.is_open = false;
            return Ok(());
        }
        let mut written = WireMessage::new(if is_operator { "system" } else { "user" }, blocks);
        written.fields.extend(native);
        if !written.is_nothing() {
            self.out.messages.push(written);
        }
        Ok(())
    }

    /// A part as a block. An empty text is none: the provider refuses it.
    fn part(&mut self, part: &'a Part, within: &str) -> Result<Option<Block<'a>>, ProviderError> {
        Ok(Some(match part {
            Part::Text(text) if text.text.is_empty() => return Ok(None),
            Part::Text(text) if within != ASSISTANT && is_blank(&text.text) => {
                self.encoder.omitted.add(BLANK, NO_SPACES);
                return Ok(None);
            }
            Part::Text(text) => {
                let fields = self.encoder.fields("text.native", text.native.as_ref());
                let mut block = self.block(BlockBody::Text(Written(&text.text)), fields);
                block.cache = self.encoder.mark("text.cache", text.cache.as_ref());
                block
            }
            Part::Image(media) => {
                if !self.encoder.dialect.images {
                    return Err(self
                        .encoder
                        .refusal()
                        .of(media_field("image", &media.source), "this model sees nothing"));
                }
                let source = self.image(media)?;
                if media.detail.is_some() {
                    self.encoder.omitted.add("image.detail", "this protocol has no word for it");
                }
                self.media("image", source, None, media, ["image.native", "image.cache"])
            }
            Part::File(media) => {
                if !self.encoder.dialect.files {
                    let field = media_field("file", &media.source);
                    return Err(self.encoder.refusal().of(field, "this model reads no documents"));
                }
                let source = self.document(media)?;
                self.media("document", source, media.name.as_deref(), media, ["file.native", "file.cache"])
            }
            Part::Audio(media) => {
                return Err(self.encoder.refusal().of(media_field("audio", &media.source), "it hears nothing"));
            }
            Part::Native(native) if self.encoder.is_own(native) => self.block(BlockBody::Raw(&native.value), None),
            Part::Native(_) => {
                self.encoder.omit_foreign("native_part");
                return Ok(None);
            }
            other => {
                let what = format!("it holds a part of the kind `{}`", other.kind());
                return Err(self.encoder.refusal().of(within, &what));
            }
        }))
    }

    fn media(
        &mut self,
        kind: &'static str,
        source: Source<'a>,
        title: Option<&'a str>,
        media: &'a Media,
        [native, cache]: [&'static str; 2],
    ) -> Block<'a> {
        let fields = self.encoder.fields(native, media.native.as_ref());
        let mut block = self.block(BlockBody::Media { kind, source, title }, fields);
        block.cache = self.encoder.mark(cache, media.cache.as_ref());
        block
    }
}
