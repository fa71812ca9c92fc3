//! From a request of ours to the body of a Chat Completions request.

use super::{Dialect, OperatorRole, OutputLimit, OutputSupport, ReplayReasoning};
use crate::encoded::{Encoded, Omissions};
use crate::names::{Names, alias};
use crate::tools;
use placet_core::item::Reasoning;
use placet_core::part::{Media, MediaSource, text_of};
use placet_core::{
    CallId, ErrorKind, Item, ItemBody, Message, Part, ProviderError, Role, ToolCall, ToolChoice, ToolResult,
    TurnRequest,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The longest id of a call that servers take back.
const MAX_ID_LENGTH: usize = 40;
const FOREIGN: &str = "it belongs to another provider";

/// The body of a request. Tools stand in declaration order and before the messages, so that what stays the same from turn
/// to turn comes first.
///
/// # Errors
/// [`ProviderError`] of kind *unsupported* for content or a constraint that this server or protocol cannot express, and of
/// kind *invalid request* for a conversation that no server takes (a call without its result, a result without its call).
/// Nothing is to be sent then.
pub fn encode_request(request: &TurnRequest, dialect: &Dialect) -> Result<Encoded, ProviderError> {
    let mut encoder = Encoder { dialect, omitted: Omissions::default(), used_ids: HashSet::new() };
    let messages = encoder.messages(request)?;
    let mut fields = Fields::new(&request.extra);
    fields.put("model", &request.model)?;
    encoder.tools(request, &mut fields)?;
    encoder.output(request, &mut fields)?;
    encoder.controls(request, &mut fields)?;
    if dialect.stream {
        fields.put("stream", &true)?;
        if dialect.stream_usage {
            fields.put("stream_options", &json!({"include_usage": true}))?;
        }
    }
    if let Some(state) = &request.provider_state
        && state.provider != dialect.provider
    {
        encoder.omitted.add("provider_state", FOREIGN);
    }
    fields.put("messages", &messages)?;
    let names = Names::of(request.tools.iter().map(|tool| &tool.name));
    Ok(Encoded { body: fields.finish()?.into(), omitted: encoder.omitted.0, names })
}

/// Writes an object field by field. A field of `extra` replaces ours of the same name; the others follow at the end.
struct Fields<'a> {
    out: Vec<u8>,
    extra: &'a Map<String, Value>,
    replaced: HashSet<&'a str>,
}

impl<'a> Fields<'a> {
    fn new(extra: &'a Map<String, Value>) -> Self {
        Fields { out: vec![b'{'], extra, replaced: HashSet::new() }
    }

    fn put(&mut self, key: &str, value: &impl Serialize) -> Result<(), ProviderError> {
        match self.extra.get_key_value(key) {
            Some((key, value)) => {
                self.replaced.insert(key);
                self.write(key, value)
            }
            None => self.write(key, value),
        }
    }

    fn write(&mut self, key: &str, value: &impl Serialize) -> Result<(), ProviderError> {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        let written = serde_json::to_writer(&mut self.out, key).and_then(|()| {
            self.out.push(b':');
            serde_json::to_writer(&mut self.out, value)
        });
        written.map_err(|error| {
            ProviderError::new(
                ErrorKind::Internal,
                "placet".into(),
                format!("`{key}` cannot be written as JSON: {error}"),
            )
        })
    }

    fn finish(mut self) -> Result<Vec<u8>, ProviderError> {
        let extra = self.extra;
        for (key, value) in extra {
            if !self.replaced.contains(key.as_str()) {
                self.write(key, value)?;
            }
        }
        self.out.push(b'}');
        Ok(self.out)
    }
}

struct Encoder<'a> {
    dialect: &'a Dialect,
    omitted: Omissions,
    used_ids: HashSet<&'a str>,
}

impl<'a> Encoder<'a> {
    fn unsupported(&self, what: impl AsRef<str>) -> ProviderError {
        let what = what.as_ref();
        ProviderError::new(ErrorKind::Unsupported, self.dialect.provider.clone(), format!("it cannot take {what}"))
            .with_hint("nothing was sent; leave it out, or use a model that can take it")
    }

    fn invalid(&self, problem: String) -> ProviderError {
        ProviderError::new(ErrorKind::InvalidRequest, self.dialect.provider.clone(), problem)
    }

    fn tools(&mut self, request: &TurnRequest, fields: &mut Fields<'_>) -> Result<(), ProviderError> {
        let dialect = self.dialect;
        let choice = &request.tool_choice;
        if request.tools.is_empty() {
            if choice.is_forced() {
                return Err(self.invalid("a tool call is demanded, but no tool is offered".to_owned()));
            }
            return Ok(());
        }
        // A server that heeds no choice is kept from calling by not being offered anything.
        if *choice == ToolChoice::None && !dialect.forced_choice {
            return Ok(());
        }
        let forms: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| {
                let strict = if dialect.strict_tools {
                    tool.strict
                } else {
                    if tool.strict == Some(true) {
                        self.omitted.add("strict", "the server does not hold a model to a tool's schema");
                    }
                    None
                };
                tools::openai_chat_as(tool, &alias(tool.name.as_str()), strict)
            })
            .collect();
        fields.put("tools", &forms)?;
        if choice.is_forced() && !dialect.forced_choice {
            return Err(self.unsupported("a demand to call a tool"));
        }
        match choice {
            ToolChoice::Auto => {}
            ToolChoice::Required => fields.put("tool_choice", &"required")?,
            ToolChoice::None => fields.put("tool_choice", &"none")?,
            ToolChoice::Tool(name) => {
                if !request.tools.iter().any(|tool| tool.name == *name) {
                    return Err(self.invalid(format!("a call of `{name}` is demanded, but no such tool is offered")));
                }
                let form = json!({"type": "function", "function": {"name": alias(name.as_str())}});
                fields.put("tool_choice", &form)?;
            }
            ToolChoice::Allowed(_) => return Err(self.unsupported("a choice among some of the tools")),
        }
        match request.controls.parallel_tool_calls {
            Some(parallel) if dialect.parallel_calls => fields.put("parallel_tool_calls", &parallel)?,
            Some(false) => return Err(self.unsupported("a demand for one tool call at a time")),
            Some(true) => self.omitted.add("parallel_tool_calls", "the server decides about it itself"),
            None => {}
        }
        Ok(())
    }

    fn output(&mut self, request: &TurnRequest, fields: &mut Fields<'_>) -> Result<(), ProviderError> {
        let Some(output) = &request.output else { return Ok(()) };
        match self.dialect.output {
            OutputSupport::Schema => {
                let form = json!({
                    "type": "json_schema",
                    "json_schema": {
                        "name": alias(&output.name), "schema": output.schema.as_value(), "strict": output.strict
                    }
                });
                fields.put("response_format", &form)
            }
            _ if output.strict => Err(self.unsupported("a schema for its answer")),
            OutputSupport::Object => {
                self.omitted.add("output.schema", "the server takes no schema; it is only told to answer with JSON");
                fields.put("response_format", &json!({"type": "json_object"}))
            }
            OutputSupport::None => {
                self.omitted.add("output", "the server takes no schema for its answer");
                Ok(())
            }
        }
    }

    fn controls(&mut self, request: &TurnRequest, fields: &mut Fields<'_>) -> Result<(), ProviderError> {
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
        let mut hint = |name: &'static str, value: Option<Value>, taken: bool| match value {
            Some(value) if taken => fields.put(name, &value),
            Some(_) => {
                self.omitted.add(name, "this model does not take it");
                Ok(())
            }
            None => Ok(()),
        };
        hint("temperature", controls.temperature.map(Value::from), dialect.sampling)?;
        hint("top_p", controls.top_p.map(Value::from), dialect.sampling)?;
        hint("seed", controls.seed.map(Value::from), dialect.seed)?;
        hint("reasoning_effort", controls.reasoning_effort.clone().map(Value::from), dialect.reasoning_effort)
    }

    /// The conversation. Consecutive items of the model are one message with all its calls, whose results follow at once
    /// and in the order of the calls, wherever they stand among the items.
    fn messages(&mut self, request: &'a TurnRequest) -> Result<Vec<Form<'a>>, ProviderError> {
        let mut results: HashMap<&CallId, &ToolResult> = HashMap::new();
        for item in &request.items {
            if let ItemBody::ToolResult(result) = &item.body {
                results.insert(&result.call, result);
            }
        }
        let mut forms = Vec::with_capacity(request.items.len() + 1);
        if let Some(instructions) = &request.instructions {
            forms.push(Form::new(self.operator(), Content::Text(Cow::Borrowed(instructions))));
        }
        let mut said = Said::default();
        for item in &request.items {
            self.item(item, &mut said, &mut results, &mut forms)?;
        }
        self.flush(&mut said, &mut results, &mut forms)?;
        // All of them were taken out at their calls.
        if let Some(result) = results.values().min_by_key(|result| &result.call) {
            return Err(self.invalid(format!("the conversation holds a result of {}, but not the call", result.call)));
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
                if message.native.is_some() {
                    self.omitted.add("message state", "this protocol has no place for it");
                }
                said.texts.push(message);
            }
            ItemBody::Message(message) => {
                self.flush(said, results, forms)?;
                let role = match &message.role {
                    Role::System => self.operator(),
                    Role::User => "user",
                    other => return Err(self.unsupported(format!("a message of the role `{other}`"))),
                };
                let content = self.content(&message.parts)?;
                forms.push(Form::new(role, content));
            }
            ItemBody::Reasoning(reasoning) => said.thoughts.push(reasoning),
            ItemBody::ToolCall(call) => said.calls.push(call),
            // Stands right after its call's message already.
            ItemBody::ToolResult(_) => self.flush(said, results, forms)?,
            ItemBody::Native(native) if native.provider == self.dialect.provider => {
                self.flush(said, results, forms)?;
                forms.push(Form::raw(&native.value));
            }
            ItemBody::Native(_) => self.omitted.add("native item", FOREIGN),
            ItemBody::HostedCall(_) => self.omitted.add("hosted call", "this protocol has no place for it"),
            ItemBody::Artifact(_) => self.omitted.add("artifact", "this protocol has no place for it"),
            // Between us and a human; no model is told.
            ItemBody::Approval(_) => {}
            other => return Err(self.unsupported(format!("an item of the kind `{}`", other.kind()))),
        }
        Ok(())
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
            let content = self.content(&message.parts)?;
            forms.push(Form::new("assistant", content));
        }
        if forms.len() == first && (!calls.is_empty() || !fields.is_empty()) {
            let content = if calls.is_empty() { Content::Text(Cow::Borrowed("")) } else { Content::Null };
            forms.push(Form::new("assistant", content));
        }
        // Thinking that led to calls stands with them.
        let place = if calls.is_empty() { first } else { forms.len().saturating_sub(1) };
        if let Some(form) = forms.get_mut(place).filter(|_| !fields.is_empty()) {
            form.fields = fields;
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
                    call.id, call.name
                )));
            };
            let text = self.result_text(result)?;
            answers.push(Form { call_id: Some(id), ..Form::new("tool", Content::Text(text)) });
            requests.push(CallForm { id, call, fields: self.call_fields(call) });
        }
        if let Some(form) = forms.last_mut() {
            form.calls = requests;
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
                fields.push((field, Cow::Owned(thought.text.as_str().into())));
            }
            if let Some(details) = native.value.get("details") {
                fields.push(("reasoning_details", Cow::Borrowed(details)));
            }
        }
        fields
    }

    /// What came with a call and only its provider understands.
    fn call_fields(&mut self, call: &'a ToolCall) -> Option<Map<String, Value>> {
        let native = call.native.as_ref()?;
        if native.provider == self.dialect.provider {
            return native.value.as_object().cloned();
        }
        self.omitted.add("tool call state", FOREIGN);
        None
    }

    fn result_text(&self, result: &'a ToolResult) -> Result<Cow<'a, str>, ProviderError> {
        match result.outcome.content.as_slice() {
            [Part::Text(text)] => Ok(Cow::Borrowed(&text.text)),
            parts => match parts.iter().find(|part| part.as_text().is_none()) {
                Some(part) => {
                    Err(self.unsupported(format!("a tool result that holds a part of the kind `{}`", part.kind())))
                }
                None => Ok(Cow::Owned(text_of(parts))),
            },
        }
    }

    fn operator(&self) -> &'static str {
        match self.dialect.operator {
            OperatorRole::System => "system",
            OperatorRole::Developer => "developer",
        }
    }

    fn content(&mut self, parts: &'a [Part]) -> Result<Content<'a>, ProviderError> {
        match parts {
            [] => return Ok(Content::Text(Cow::Borrowed(""))),
            [Part::Text(text)] => return Ok(Content::Text(Cow::Borrowed(&text.text))),
            _ => {}
        }
        let mut forms = Vec::with_capacity(parts.len());
        for part in parts {
            forms.push(match part {
                Part::Text(text) => PartForm::Text(&text.text),
                Part::Image(media) => PartForm::Made(self.image(media)?),
                Part::Audio(media) => PartForm::Made(self.audio(media)?),
                Part::File(media) => PartForm::Made(self.file(media)?),
                Part::Native(native) if native.provider == self.dialect.provider => PartForm::Raw(&native.value),
                Part::Native(_) => {
                    self.omitted.add("native part", FOREIGN);
                    continue;
                }
                other => return Err(self.unsupported(format!("a part of the kind `{}`", other.kind()))),
            });
        }
        Ok(Content::Parts(forms))
    }

    fn image(&self, media: &Media) -> Result<Value, ProviderError> {
        if !self.dialect.images {
            return Err(self.unsupported("a picture"));
        }
        let url = match &media.source {
            MediaSource::Url(url) => url.url.clone(),
            MediaSource::Inline(inline) => {
                let mime = media.mime_type.as_deref();
                let mime = mime.ok_or_else(|| self.unsupported("a picture whose media type is not said"))?;
                format!("data:{mime};base64,{}", inline.base64)
            }
            other => return Err(self.unsupported(format!("a picture whose source is `{}`", other.kind()))),
        };
        let mut image = json!({"url": url});
        if let Some(detail) = &media.detail {
            image["detail"] = detail.as_str().into();
        }
        Ok(json!({"type": "image_url", "image_url": image}))
    }

    fn audio(&self, media: &Media) -> Result<Value, ProviderError> {
        if !self.dialect.audio {
            return Err(self.unsupported("a sound"));
        }
        let MediaSource::Inline(inline) = &media.source else {
            return Err(self.unsupported(format!("a sound whose source is `{}`", media.source.kind())));
        };
        let format = match media.mime_type.as_deref() {
            Some("audio/wav" | "audio/x-wav" | "audio/wave") => "wav",
            Some("audio/mpeg" | "audio/mp3") => "mp3",
            other => {
                return Err(self.unsupported(format!("a sound of the media type `{}`", other.unwrap_or("unknown"))));
            }
        };
        Ok(json!({"type": "input_audio", "input_audio": {"data": &*inline.base64, "format": format}}))
    }

    fn file(&self, media: &Media) -> Result<Value, ProviderError> {
        if !self.dialect.files {
            return Err(self.unsupported("a document"));
        }
        let file = match &media.source {
            MediaSource::ProviderFile(file) if file.provider == self.dialect.provider => json!({"file_id": file.id}),
            MediaSource::Inline(inline) => {
                let mime = media.mime_type.as_deref().unwrap_or("application/octet-stream");
                json!({
                    "filename": media.name.as_deref().unwrap_or("attachment"),
                    "file_data": format!("data:{mime};base64,{}", inline.base64),
                })
            }
            other => return Err(self.unsupported(format!("a document whose source is `{}`", other.kind()))),
        };
        Ok(json!({"type": "file", "file": file}))
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
struct Form<'a> {
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
    Text(Cow<'a, str>),
    Parts(Vec<PartForm<'a>>),
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Content::Null => serializer.serialize_unit(),
            Content::Text(text) => serializer.serialize_str(text),
            Content::Parts(parts) => parts.serialize(serializer),
        }
    }
}

enum PartForm<'a> {
    Text(&'a str),
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
    fields: Option<Map<String, Value>>,
}

impl Serialize for CallForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: &'a str,
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", self.id)?;
        map.serialize_entry("type", "function")?;
        let name = alias(self.call.name.as_str());
        map.serialize_entry("function", &Function { name: &name, arguments: self.call.arguments.replay_text() })?;
        for (key, value) in self.fields.iter().flatten() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
