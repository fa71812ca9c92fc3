//! The messages of a request.

use super::encode::{FOREIGN, NO_PLACE, unsupported};
use super::{CacheMarks, Dialect, OperatorRole, ReplayReasoning};
use crate::encoded::Omissions;
use crate::json::{Replayed, Written};
use crate::names::alias;
use crate::names::known_as;
use placet_core::item::Reasoning;
use placet_core::part::{CacheMark, Media, Native, Text, text_of};
use placet_core::turn::CacheStrategy;
use placet_core::{
    CallId, ErrorKind, Item, ItemBody, Message, Part, ProviderError, Role, ToolCall, ToolResult, TurnRequest,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The longest id of a call that servers take back.
const MAX_ID_LENGTH: usize = 40;

/// Writes the conversation.
pub(super) struct Conversation<'a, 'o> {
    pub(super) dialect: &'a Dialect,
    omitted: &'o mut Omissions,
    used_ids: HashSet<&'a str>,
}

impl<'a, 'o> Conversation<'a, 'o> {
    pub(super) fn new(dialect: &'a Dialect, omitted: &'o mut Omissions) -> Self {
        Conversation { dialect, omitted, used_ids: HashSet::new() }
    }

    pub(super) fn unsupported(&self, field: &str, what: impl AsRef<str>) -> ProviderError {
        unsupported(&self.dialect.provider, field, what)
    }

    fn invalid(&self, problem: String) -> ProviderError {
        ProviderError::new(ErrorKind::InvalidRequest, self.dialect.provider.clone(), problem)
    }

    /// Whether state is this provider's own; that of another is reported under `field`.
    fn own(&mut self, native: Option<&'a Native>, field: &'static str) -> Option<&'a Value> {
        let native = native?;
        if native.provider == self.dialect.provider {
            return Some(&native.value);
        }
        self.omitted.add(field, FOREIGN);
        None
    }

    /// The conversation. Consecutive items of the model are one message with all its calls, whose results follow at once
    /// and in the order of the calls, wherever they stand among the items.
    pub(super) fn messages(mut self, request: &'a TurnRequest) -> Result<Vec<Form<'a>>, ProviderError> {
        let mut results: HashMap<&CallId, &ToolResult> = HashMap::new();
        for item in &request.items {
            if let ItemBody::ToolResult(result) = &item.body {
                results.insert(&result.call, result);
            }
        }
        let mut forms = Vec::with_capacity(request.items.len() + 1);
        if let Some(instructions) = &request.instructions {
            forms.push(Form::new(self.operator(), Content::Text(Written(instructions))));
        }
        let mut said = Said::default();
        for item in &request.items {
            self.item(item, &mut said, &mut results, &mut forms)?;
        }
        self.flush(&mut said, &mut results, &mut forms)?;
        // All of them were taken out at their calls.
        if let Some(result) = results.values().min_by_key(|result| &result.call) {
            let known = result.provider_id.as_deref().filter(|id| !id.is_empty());
            let id = known.unwrap_or_else(|| result.call.as_str());
            return Err(self.invalid(format!("the conversation holds a result of the call {id}, but not the call")));
        }
        let is_auto = request.controls.cache.as_ref().is_some_and(|cache| cache.strategy == Some(CacheStrategy::Auto));
        if is_auto && self.dialect.cache_marks == CacheMarks::CacheControl {
            let has_instructions = request.instructions.is_some();
            let last = forms.iter().rposition(|form| matches!(form.role, "user" | "system" | "developer"));
            for place in
                has_instructions.then_some(0).into_iter().chain(last.filter(|last| *last > 0 || !has_instructions))
            {
                forms[place].mark();
            }
        }
        Ok(forms)
    }

    fn item(
        &mut self,
        item: &'a Item,
        said: &mut Said<'a>,
        results: &mut HashMap<&'a CallId, &'a ToolResult>,
        forms: &mut Vec<Form<'a>>,
    ) -> Result<(), ProviderError> {
        match &item.body {
            ItemBody::Message(message) if message.role == Role::Assistant => {
                if !said.calls.is_empty() && !message.text().is_empty() {
                    self.omitted.add("message.order", "a text stands before the calls of its turn here");
                }
                said.texts.push(message);
            }
            ItemBody::Message(message) => {
                self.flush(said, results, forms)?;
                let role = match &message.role {
                    Role::System => self.operator(),
                    Role::User => "user",
                    other => {
                        let field = format!("message.{other}");
                        return Err(self.unsupported(&field, format!("a message of the role `{other}`")));
                    }
                };
                let content = self.content(&message.parts)?;
                let fields = self.message_fields(message);
                forms.push(Form { fields, ..Form::new(role, content) });
            }
            ItemBody::Reasoning(reasoning) => said.thoughts.push(reasoning),
            ItemBody::ToolCall(call) => said.calls.push(call),
            // Stands right after its call's message already.
            ItemBody::ToolResult(_) => self.flush(said, results, forms)?,
            // A further choice of an answer, which no conversation goes on from.
            ItemBody::Native(native) if native.value.get("choice").is_some() => {}
            ItemBody::Native(native) => {
                if let Some(value) = self.own(Some(native), "native_item") {
                    self.flush(said, results, forms)?;
                    forms.push(Form::raw(value));
                }
            }
            ItemBody::HostedCall(_) => self.omitted.add("hosted_call", NO_PLACE),
            ItemBody::Artifact(_) => self.omitted.add("artifact", NO_PLACE),
            // Between us and a human; no model is told.
            ItemBody::Approval(_) => {}
            other => {
                let kind = other.kind().to_owned();
                return Err(self.unsupported(&kind, format!("an item of the kind `{kind}`")));
            }
        }
        Ok(())
    }

    /// What its provider alone understands of a message, as fields of it.
    fn message_fields(&mut self, message: &'a Message) -> Vec<(&'a str, Cow<'a, Value>)> {
        let native = self.own(message.native.as_ref(), "message.native");
        let fields = native.and_then(Value::as_object).into_iter().flatten();
        let fields = fields.filter(|(key, _)| !matches!(key.as_str(), "role" | "content" | "tool_calls"));
        fields.map(|(key, value)| (key.as_str(), Cow::Borrowed(value))).collect()
    }

    /// A message of the model: a refusal, citations and media stand beside its text.
    fn said(&mut self, message: &'a Message) -> Result<Form<'a>, ProviderError> {
        let mut fields = self.message_fields(message);
        let has_media_field = fields.iter().any(|(key, _)| matches!(*key, "audio" | "images"));
        let mut refusal = None;
        let mut parts = Vec::with_capacity(message.parts.len());
        for part in &message.parts {
            let own = match part {
                Part::Text(text) => {
                    text.native.as_ref().filter(|native| native.provider == self.dialect.provider).map(|n| &n.value)
                }
                Part::Image(_) | Part::Audio(_) if has_media_field => continue,
                Part::Image(_) | Part::Audio(_) | Part::File(_) => {
                    let field = format!("{}.assistant", part.kind());
                    return Err(self.unsupported(&field, "a message of the model that holds more than text"));
                }
                _ => None,
            };
            match (part, own) {
                (Part::Text(text), Some(native)) if native["refusal"] == "field" => refusal = Some(&text.text),
                (_, Some(native)) if native.get("annotations").is_some() => {
                    fields.push(("annotations", Cow::Borrowed(&native["annotations"])));
                    parts.push(part);
                }
                _ => parts.push(part),
            }
        }
        let content = match parts.as_slice() {
            [] if refusal.is_some() || has_media_field => Content::Null,
            _ => self.content_of(&parts)?,
        };
        // A sound that is named by its id is not written out again.
        let content =
            if has_media_field && fields.iter().any(|(key, _)| *key == "audio") { Content::Null } else { content };
        for (_, audio) in fields.iter_mut().filter(|(key, _)| *key == "audio") {
            if let Some(id) = audio.get("id").filter(|_| audio.as_object().is_some_and(|audio| audio.len() > 1)) {
                *audio = Cow::Owned(json!({ "id": id }));
            }
        }
        if let Some(text) = refusal {
            fields.push(("refusal", Cow::Owned(Value::from(&**text))));
        }
        Ok(Form { fields, ..Form::new("assistant", content) })
    }

    /// Puts down what the model said up to here, and the results of its calls.
    fn flush(
        &mut self,
        said: &mut Said<'a>,
        results: &mut HashMap<&'a CallId, &'a ToolResult>,
        forms: &mut Vec<Form<'a>>,
    ) -> Result<(), ProviderError> {
        let Said { thoughts, texts, calls } = std::mem::take(said);
        let fields = self.thinking(&thoughts, !calls.is_empty());
        let first = forms.len();
        for message in &texts {
            let form = self.said(message)?;
            forms.push(form);
        }
        if forms.len() == first && (!calls.is_empty() || !fields.is_empty()) {
            let content = if calls.is_empty() { Content::Made(String::new()) } else { Content::Null };
            forms.push(Form::new("assistant", content));
        }
        // Thinking that led to calls stands with them.
        let place = if calls.is_empty() { first } else { forms.len().saturating_sub(1) };
        if let Some(form) = forms.get_mut(place) {
            form.fields.extend(fields);
        }
        if calls.is_empty() {
            return Ok(());
        }
        let mut answers = Vec::with_capacity(calls.len());
        let mut requests = Vec::with_capacity(calls.len());
        for call in calls {
            let id = self.wire_id(call);
            let Some(result) = results.remove(&call.id) else {
                return Err(self.invalid(format!(
                    "the call {} of `{}` has no result; every call needs one before the next turn",
                    known_as(call),
                    call.name
                )));
            };
            answers.push(self.answer(result, id)?);
            let fields = self.own(call.native.as_ref(), "tool_call.native");
            let is_custom = self.dialect.custom_tools && fields.is_some_and(|fields| fields["type"] == "custom");
            requests.push(CallForm { id, call, fields, is_custom });
        }
        if let Some(form) = forms.last_mut() {
            form.calls = requests;
            if form.content.is_empty() {
                form.content = Content::Null;
            }
        }
        forms.extend(answers);
        Ok(())
    }

    /// The id that a call goes by: the provider's own where it is usable and no other call of the conversation has it.
    fn wire_id(&mut self, call: &'a ToolCall) -> &'a str {
        let own = call.provider_id.as_deref().filter(|id| !id.is_empty() && id.len() <= MAX_ID_LENGTH);
        match own {
            Some(id) if self.used_ids.insert(id) => id,
            _ => call.id.as_str(),
        }
    }

    /// Thinking as fields of an assistant message.
    fn thinking(&mut self, thoughts: &[&'a Reasoning], has_calls: bool) -> Vec<(&'a str, Cow<'a, Value>)> {
        let is_wanted = match self.dialect.replay_reasoning {
            ReplayReasoning::Never => false,
            ReplayReasoning::ToolTurns => has_calls,
            ReplayReasoning::Always => true,
        };
        let mut fields: Vec<(&str, Cow<'_, Value>)> = Vec::new();
        for thought in thoughts {
            let Some(native) = thought.native.as_ref().filter(|native| native.provider == self.dialect.provider) else {
                self.omitted.add("reasoning", FOREIGN);
                continue;
            };
            if !is_wanted {
                if self.dialect.replay_reasoning == ReplayReasoning::Never {
                    self.omitted.add("reasoning", "the server does not take it back");
                }
                continue;
            }
            if let Some(field) = native.value.get("field").and_then(Value::as_str) {
                match fields.iter_mut().find(|(known, _)| *known == field) {
                    Some((_, Cow::Owned(Value::String(text)))) => text.push_str(&thought.text),
                    _ => fields.push((field, Cow::Owned(thought.text.as_str().into()))),
                }
            }
            if let Some(details) = native.value.get("details") {
                match fields.iter_mut().find(|(known, _)| *known == "reasoning_details") {
                    Some((_, known)) => {
                        if let (Value::Array(known), Some(more)) = (known.to_mut(), details.as_array()) {
                            known.extend(more.iter().cloned());
                        }
                    }
                    None => fields.push(("reasoning_details", Cow::Borrowed(details))),
                }
            }
        }
        fields
    }

    /// The message that answers a call. The protocol has no flag for a failure: the text says it.
    fn answer(&mut self, result: &'a ToolResult, id: &'a str) -> Result<Form<'a>, ProviderError> {
        let parts = result.outcome.content.as_slice();
        if let Some(part) = parts.iter().find(|part| !matches!(part, Part::Text(_))) {
            let field = if matches!(part, Part::Image(_)) { "tool_result.image" } else { "tool_result.file" };
            return Err(
                self.unsupported(field, format!("a tool result that holds a part of the kind `{}`", part.kind()))
            );
        }
        if result.outcome.is_error() {
            self.omitted.add("tool_result.failed", "this protocol has no flag for it; its text says it");
        }
        let is_plain = |part: &Part| matches!(part, Part::Text(text) if text.cache.is_none() && text.native.is_none());
        let content = match parts {
            [Part::Text(text)] if is_plain(&parts[0]) => Content::Text(Written(&text.text)),
            parts if parts.iter().all(is_plain) => Content::Made(text_of(parts)),
            parts => self.content(parts)?,
        };
        let native = self.own(result.native.as_ref(), "tool_result.native");
        let fields = native.and_then(Value::as_object).into_iter().flatten();
        let fields = fields.filter(|(key, _)| !matches!(key.as_str(), "role" | "content" | "tool_call_id"));
        let fields = fields.map(|(key, value)| (key.as_str(), Cow::Borrowed(value))).collect();
        Ok(Form { call_id: Some(id), fields, ..Form::new("tool", content) })
    }

    fn operator(&self) -> &'static str {
        match self.dialect.operator {
            OperatorRole::System => "system",
            OperatorRole::Developer => "developer",
        }
    }

    fn content(&mut self, parts: &'a [Part]) -> Result<Content<'a>, ProviderError> {
        let parts: Vec<&Part> = parts.iter().collect();
        self.content_of(&parts)
    }

    fn content_of(&mut self, parts: &[&'a Part]) -> Result<Content<'a>, ProviderError> {
        let mut forms = Vec::with_capacity(parts.len());
        for part in parts {
            forms.push(match part {
                Part::Text(text) => self.text(text),
                Part::Image(media) => {
                    let form = self.image(media)?;
                    self.media(form, media, "image.cache", "image.native")
                }
                Part::Audio(media) => {
                    let form = self.audio(media)?;
                    self.media(form, media, "audio.cache", "audio.native")
                }
                Part::File(media) => {
                    let form = self.file(media)?;
                    self.media(form, media, "file.cache", "file.native")
                }
                Part::Native(native) => match self.own(Some(native), "native_part") {
                    Some(value) => PartForm::Raw(value),
                    None => continue,
                },
                other => {
                    let kind = other.kind().to_owned();
                    return Err(self.unsupported(&kind, format!("a part of the kind `{kind}`")));
                }
            });
        }
        Ok(match forms.as_slice() {
            [] => Content::Made(String::new()),
            [PartForm::Text(text)] => Content::Text(*text),
            _ => Content::Parts(forms),
        })
    }

    /// A mark for the prompt cache, in the words of this server.
    fn mark(&mut self, mark: Option<&CacheMark>, field: &'static str) -> Option<(&'static str, Value)> {
        let ttl = mark?.ttl.as_deref();
        let (key, mut form) = match self.dialect.cache_marks {
            CacheMarks::None => {
                self.omitted.add(field, "the server takes no marks for its cache");
                return None;
            }
            CacheMarks::Breakpoint => ("prompt_cache_breakpoint", json!({"mode": "explicit"})),
            CacheMarks::CacheControl => ("cache_control", json!({"type": "ephemeral"})),
        };
        match (self.dialect.cache_marks, ttl) {
            (_, None) => {}
            (CacheMarks::Breakpoint, Some(ttl)) if !matches!(ttl, "30m" | "12h") => {
                self.omitted.add(format!("{field}.ttl"), "the server's lifetimes are 30m and 12h");
            }
            (_, Some(ttl)) => form["ttl"] = ttl.into(),
        }
        Some((key, form))
    }

    fn text(&mut self, text: &'a Text) -> PartForm<'a> {
        let mark = self.mark(text.cache.as_ref(), "text.cache");
        let native = self.own(text.native.as_ref(), "text.native");
        if let Some("part") = native.and_then(|native| native.get("refusal")?.as_str()) {
            return PartForm::Made(json!({"type": "refusal", "refusal": &*text.text}));
        }
        let native = native.and_then(Value::as_object).filter(|fields| !fields.contains_key("annotations"));
        if mark.is_none() && native.is_none_or(Map::is_empty) {
            return PartForm::Text(Written(&text.text));
        }
        let mut form = json!({"type": "text", "text": &*text.text});
        for (key, value) in native.into_iter().flatten() {
            form[key.as_str()] = value.clone();
        }
        if let Some((key, value)) = mark {
            form[key] = value;
        }
        PartForm::Made(form)
    }

    /// Adds what every sort of media may have.
    fn media(&mut self, mut form: Value, media: &'a Media, cache: &'static str, state: &'static str) -> PartForm<'a> {
        for (key, value) in self.own(media.native.as_ref(), state).and_then(Value::as_object).into_iter().flatten() {
            form[key.as_str()] = value.clone();
        }
        if let Some((key, value)) = self.mark(media.cache.as_ref(), cache) {
            form[key] = value;
        }
        PartForm::Made(form)
    }
}

/// What the model said since somebody else spoke.
#[derive(Default)]
struct Said<'a> {
    thoughts: Vec<&'a Reasoning>,
    texts: Vec<&'a Message>,
    calls: Vec<&'a ToolCall>,
}

/// One message of the body.
pub(super) struct Form<'a> {
    role: &'static str,
    call_id: Option<&'a str>,
    content: Content<'a>,
    fields: Vec<(&'a str, Cow<'a, Value>)>,
    calls: Vec<CallForm<'a>>,
    raw: Option<&'a Value>,
}

impl<'a> Form<'a> {
    fn new(role: &'static str, content: Content<'a>) -> Self {
        Form { role, call_id: None, content, fields: Vec::new(), calls: Vec::new(), raw: None }
    }

    fn raw(value: &'a Value) -> Self {
        Form { raw: Some(value), ..Form::new("", Content::Null) }
    }

    /// Lets a prompt cache end its prefix after this message.
    fn mark(&mut self) {
        let with_mark = |mut form: Value| {
            form["cache_control"] = json!({"type": "ephemeral"});
            PartForm::Made(form)
        };
        let text = |text: &str| json!({"type": "text", "text": text});
        match &mut self.content {
            Content::Null => {}
            content if content.is_empty() => {}
            Content::Text(content) => self.content = Content::Parts(vec![with_mark(text(content.0))]),
            Content::Made(content) => self.content = Content::Parts(vec![with_mark(text(content))]),
            Content::Parts(parts) => match parts.pop() {
                Some(PartForm::Text(last)) => parts.push(with_mark(text(last.0))),
                Some(PartForm::Made(last)) => parts.push(with_mark(last)),
                other => parts.extend(other),
            },
        }
    }
}

impl Serialize for Form<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(raw) = self.raw {
            return raw.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", self.role)?;
        if let Some(id) = self.call_id {
            map.serialize_entry("tool_call_id", id)?;
        }
        map.serialize_entry("content", &self.content)?;
        for (field, value) in &self.fields {
            map.serialize_entry(field, value)?;
        }
        if !self.calls.is_empty() {
            map.serialize_entry("tool_calls", &self.calls)?;
        }
        map.end()
    }
}

enum Content<'a> {
    Null,
    Text(Written<'a>),
    /// A text that stands nowhere as a whole.
    Made(String),
    Parts(Vec<PartForm<'a>>),
}

impl Content<'_> {
    /// Whether it is a text in which there is nothing.
    fn is_empty(&self) -> bool {
        match self {
            Content::Text(text) => text.0.is_empty(),
            Content::Made(text) => text.is_empty(),
            Content::Null | Content::Parts(_) => false,
        }
    }
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Content::Null => serializer.serialize_unit(),
            Content::Text(text) => text.serialize(serializer),
            Content::Made(text) => serializer.serialize_str(text),
            Content::Parts(parts) => parts.serialize(serializer),
        }
    }
}

enum PartForm<'a> {
    Text(Written<'a>),
    Made(Value),
    Raw(&'a Value),
}

impl Serialize for PartForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            PartForm::Text(text) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
                map.end()
            }
            PartForm::Made(value) => value.serialize(serializer),
            PartForm::Raw(value) => value.serialize(serializer),
        }
    }
}

struct CallForm<'a> {
    id: &'a str,
    call: &'a ToolCall,
    fields: Option<&'a Value>,
    is_custom: bool,
}

impl Serialize for CallForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: Replayed<'a>,
        }
        #[derive(serde::Serialize)]
        struct Custom<'a> {
            name: &'a str,
            input: &'a str,
        }
        let fields = self.fields.and_then(Value::as_object);
        let name = alias(self.call.name.as_str());
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", self.id)?;
        if self.is_custom {
            map.serialize_entry("type", "custom")?;
            let input = super::custom_input(self.call.arguments.as_text());
            map.serialize_entry("custom", &Custom { name: &name, input: &input })?;
        } else {
            map.serialize_entry("type", "function")?;
            map.serialize_entry("function", &Function { name: &name, arguments: Replayed(&self.call.arguments) })?;
        }
        for (key, value) in fields.into_iter().flatten() {
            if key != "type" {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}
