//! The conversation as `contents`.

use super::encode::Encoder;
use super::parts::wire_name;
use super::write::{Content, PartForm};
use super::{LateSystem, TEXT_STATE, parts};
use crate::further::is_candidate;
use crate::names::known_as;
use crate::schema::has_key;
use placet_core::item::Reasoning;
use placet_core::part::{Media, MediaSource, Native, Text};
use placet_core::{CallId, Item, ItemBody, Part, ProviderError, Role, SharedText, ToolCall, ToolResult, TurnRequest};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What stands in place of a signature that a model insists on and nobody has.
pub(super) const PLACEHOLDER: &str = "skip_thought_signature_validator";
const FOREIGN: &str = "it belongs to another provider";

/// The contents that have been put down, and what the model has asked for since.
#[derive(Default)]
struct Written<'a> {
    contents: Vec<Content<'a>>,
    /// The calls of the last content, which wait for their results.
    round: Vec<&'a ToolCall>,
    /// Results that stand elsewhere already.
    placed: HashSet<usize>,
}

impl<'a> Encoder<'a> {
    /// The operator's parts and the contents. Consecutive items of the model are one content, and the results of all its calls
    /// follow in one; where the items come from a client's body, its own contents are kept.
    pub(super) fn conversation(
        &mut self,
        request: &'a TurnRequest,
    ) -> Result<(Vec<PartForm<'a>>, Vec<Content<'a>>), ProviderError> {
        let mut system: Vec<PartForm<'_>> = Vec::new();
        system.extend(request.instructions.as_ref().map(PartForm::Text));
        let is_system =
            |item: &Arc<Item>| matches!(&item.body, ItemBody::Message(message) if message.role == Role::System);
        let leading = request.items.iter().take_while(|item| is_system(item)).count();
        let mut results: HashMap<&CallId, Vec<usize>> = HashMap::new();
        for (at, item) in request.items.iter().enumerate() {
            if let ItemBody::ToolResult(result) = &item.body {
                results.entry(&result.call).or_default().push(at);
            }
        }
        let mut written = Written::default();
        for (at, item) in request.items.iter().enumerate() {
            if is_system(item) {
                let ItemBody::Message(message) = &item.body else { continue };
                if at >= leading && self.dialect.late_system == LateSystem::Refuse {
                    return Err(
                        self.unsupported("message.system", "it has no role for the operator within the conversation")
                    );
                }
                if at >= leading {
                    let why = "the model hears the operator before the conversation only, so it was told there";
                    self.omitted.add("message.system.place", why);
                }
                for part in &message.parts {
                    system.extend(self.part(part)?);
                }
                self.beside(message.native.as_ref(), "message.native");
                continue;
            }
            self.item(at, item, request, &results, &mut written)?;
        }
        self.round(request, &results, &mut written, true)?;
        Ok((system, written.contents))
    }

    /// Whether an item begins a content of the body that it came from; `None` where it came from none.
    fn begins(&self, item: &Item) -> Option<bool> {
        let places = self.places?;
        places.known.contains(&item.id).then(|| places.first.contains(&item.id))
    }

    /// The word for the role of the content that an item begins, where it is not the usual one.
    fn word(&self, item: &Item) -> Option<String> {
        self.places?.words.get(&item.id).cloned()
    }

    fn item(
        &mut self,
        at: usize,
        item: &'a Item,
        request: &'a TurnRequest,
        results: &HashMap<&'a CallId, Vec<usize>>,
        written: &mut Written<'a>,
    ) -> Result<(), ProviderError> {
        let begins = self.begins(item);
        match &item.body {
            ItemBody::Message(message) if message.role == Role::Assistant => {
                for (i, part) in message.parts.iter().enumerate() {
                    if let Some(part) = self.part(part)? {
                        model(&mut written.contents, begins.filter(|_| i == 0), part);
                    }
                }
                if let (Some(beside), Some(last)) =
                    (self.beside(message.native.as_ref(), "message.native"), written.contents.last_mut())
                {
                    last.beside.extend(beside);
                }
            }
            ItemBody::Reasoning(reasoning) => {
                if let Some(part) = self.thought(reasoning) {
                    model(&mut written.contents, begins, part);
                }
            }
            ItemBody::ToolCall(call) => {
                let known = written.contents.last().filter(|last| last.role == "model" && begins != Some(true));
                let is_first = !known.is_some_and(|last| last.parts.iter().any(PartForm::is_call));
                let part = self.call(call, is_first);
                model(&mut written.contents, begins, part);
                written.round.push(call);
            }
            ItemBody::HostedCall(call) if call.provider == self.dialect.provider && call.value.is_object() => {
                model(&mut written.contents, begins, PartForm::Made(call.value.clone()));
            }
            ItemBody::HostedCall(_) => self.omitted.add("hosted_call", FOREIGN),
            // A further answer, which no conversation goes on from.
            ItemBody::Native(native) if is_candidate(&native.value) => {}
            ItemBody::Native(native) if native.provider == self.dialect.provider && native.value.is_object() => {
                if native.value.get("parts").is_some() {
                    self.round(request, results, written, false)?;
                    written.contents.push(Content { raw: Some(native.value.clone()), ..Content::new("") });
                } else {
                    model(&mut written.contents, begins, PartForm::Made(native.value.clone()));
                }
            }
            ItemBody::Native(_) => self.omitted.add("native_item", FOREIGN),
            ItemBody::Message(message) if message.role == Role::User => {
                self.round(request, results, written, false)?;
                let mut parts = Vec::with_capacity(message.parts.len());
                for part in &message.parts {
                    parts.extend(self.part(part)?);
                }
                let beside = self.beside(message.native.as_ref(), "message.native").unwrap_or_default();
                // Whose turn it is counts, even where nothing is said in it: a model calls after a user only.
                if parts.is_empty() {
                    parts.extend(message.parts.iter().find_map(|part| match part {
                        Part::Text(text) => Some(self.text(text)),
                        _ => None,
                    }));
                }
                if parts.is_empty() && beside.is_empty() && self.places.is_none() {
                    return Ok(());
                }
                let word = self.word(item);
                let content = user(&mut written.contents, begins, false, word);
                content.parts.extend(parts);
                content.beside.extend(beside);
            }
            ItemBody::ToolResult(result) => {
                self.round(request, results, written, false)?;
                if written.placed.insert(at) {
                    let part = self.result(result)?;
                    let word = self.word(item);
                    user(&mut written.contents, begins, true, word).parts.push(part);
                }
            }
            ItemBody::Artifact(_) => self.omitted.add("artifact", "it is no part of a conversation here"),
            // Between us and a human; no model is told.
            ItemBody::Approval(_) => {}
            ItemBody::Message(message) => {
                return Err(self.unsupported("message", format!("it knows no role `{}`", message.role)));
            }
            other => return Err(self.unsupported("item", format!("it knows no item of the kind `{}`", other.kind()))),
        }
        Ok(())
    }

    /// Puts down the results of the model's last calls, all of them in one content. The items of a client's body stay in their
    /// own order.
    fn round(
        &mut self,
        request: &'a TurnRequest,
        results: &HashMap<&'a CallId, Vec<usize>>,
        written: &mut Written<'a>,
        is_end: bool,
    ) -> Result<(), ProviderError> {
        let calls = std::mem::take(&mut written.round);
        if calls.is_empty() || self.places.is_some() {
            return Ok(());
        }
        let mut found = Vec::with_capacity(calls.len());
        for call in &calls {
            let place = results.get(&call.id).and_then(|places| places.iter().find(|at| !written.placed.contains(at)));
            match place {
                Some(at) => {
                    written.placed.insert(*at);
                    found.push(*at);
                }
                // The last round may still wait, in a request that only counts.
                None if is_end => {}
                None => {
                    return Err(self.invalid(format!(
                        "the call {} of `{}` has no result; every call needs one before the next turn",
                        known_as(call),
                        call.name
                    )));
                }
            }
        }
        // Calls without an id are told apart by their order.
        if calls.iter().all(|call| call.provider_id.as_deref().is_some_and(|id| !id.is_empty()))
            && self.dialect.call_ids
        {
            found.sort_unstable();
        }
        for (i, at) in found.into_iter().enumerate() {
            if let Some(ItemBody::ToolResult(result)) = request.items.get(at).map(|item| &item.body) {
                let part = self.result(result)?;
                user(&mut written.contents, Some(i == 0), true, None).parts.push(part);
            }
        }
        Ok(())
    }

    /// One part; `None` where it was left out.
    fn part(&mut self, part: &'a Part) -> Result<Option<PartForm<'a>>, ProviderError> {
        if let Part::Text(text) = part {
            // An empty text says nothing, and some servers refuse it.
            if text.text.is_empty() && text.native.is_none() && self.places.is_none() {
                return Ok(None);
            }
            return Ok(Some(self.text(text)));
        }
        Ok(self.more_than_text(part)?.map(PartForm::Made))
    }

    /// One part that is no text; `None` where it was left out.
    fn more_than_text(&mut self, part: &Part) -> Result<Option<Value>, ProviderError> {
        Ok(Some(match part {
            Part::Image(media) => self.media(media, "image")?,
            Part::Audio(media) => self.media(media, "audio")?,
            Part::File(media) => self.media(media, "file")?,
            Part::Native(native) if native.provider == self.dialect.provider && native.value.is_object() => {
                native.value.clone()
            }
            Part::Native(_) => {
                self.omitted.add("native_part", FOREIGN);
                return Ok(None);
            }
            other => return Err(self.unsupported("part", format!("it knows no part of the kind `{}`", other.kind()))),
        }))
    }

    /// State of this provider, to stand beside something; that of any other is reported.
    pub(super) fn beside(&mut self, native: Option<&Native>, field: &'static str) -> Option<Map<String, Value>> {
        let native = native?;
        match &native.value {
            Value::Object(map) if native.provider == self.dialect.provider => Some(map.clone()),
            _ => {
                self.omitted.add(field, FOREIGN);
                None
            }
        }
    }

    fn text(&mut self, text: &'a Text) -> PartForm<'a> {
        if text.cache.is_some() {
            self.omitted.add("text.cache", "the server finds shared beginnings itself");
        }
        let beside = self.beside(text.native.as_ref(), "text.native").unwrap_or_default();
        if beside.is_empty() {
            return PartForm::Text(&text.text);
        }
        let mut form = Map::new();
        form.insert("text".to_owned(), (*text.text).into());
        for (key, value) in beside {
            if !TEXT_STATE.contains(&key.as_str()) {
                form.entry(key).or_insert(value);
            }
        }
        PartForm::Made(Value::Object(form))
    }

    fn thought(&mut self, reasoning: &Reasoning) -> Option<PartForm<'a>> {
        let Some(native) = &reasoning.native else {
            self.omitted.add("reasoning", "nobody knows whose it is");
            return None;
        };
        let beside = self.beside(Some(native), "reasoning")?;
        let mut form = Map::new();
        form.insert("text".to_owned(), reasoning.text.as_str().into());
        form.insert("thought".to_owned(), true.into());
        for (key, value) in beside {
            form.entry(key).or_insert(value);
        }
        Some(PartForm::Made(Value::Object(form)))
    }

    fn call(&mut self, call: &'a ToolCall, is_first: bool) -> PartForm<'a> {
        let id = call.provider_id.as_deref().filter(|id| !id.is_empty() && self.dialect.call_ids);
        let text = call.arguments.replay_text();
        // What is an object is written as it came.
        let exact = serde_json::from_str::<&RawValue>(text).ok().filter(|_| text.starts_with('{'));
        if let (None, Some(arguments)) = (&call.native, exact) {
            let signature = Some(PLACEHOLDER).filter(|_| is_first && self.dialect.placeholder_signature);
            return PartForm::Call { id, name: wire_name(call.name.as_str()), arguments, signature };
        }
        let mut inner = Map::new();
        if let Some(id) = id {
            inner.insert("id".to_owned(), id.into());
        }
        inner.insert("name".to_owned(), wire_name(call.name.as_str()).into());
        let arguments = match (exact, call.arguments.parse()) {
            (Some(_), _) => Map::new(),
            (None, Ok(arguments)) => arguments,
            // The protocol has no place for what is no object; the model sees what it wrote.
            (None, Err(_)) => Map::from_iter([("_raw".to_owned(), call.arguments.as_text().into())]),
        };
        inner.insert("args".to_owned(), Value::Object(arguments));
        let beside = self.beside(call.native.as_ref(), "tool_call.native").unwrap_or_default();
        let mut form = with_inner("functionCall", inner, beside);
        if is_first && self.dialect.placeholder_signature && !form.contains_key("thoughtSignature") {
            form.insert("thoughtSignature".to_owned(), PLACEHOLDER.into());
        }
        match exact {
            Some(arguments) => PartForm::Signed { form, arguments },
            None => PartForm::Made(Value::Object(form)),
        }
    }

    fn result(&mut self, result: &'a ToolResult) -> Result<PartForm<'a>, ProviderError> {
        let id = result.provider_id.as_deref().filter(|id| !id.is_empty() && self.dialect.call_ids);
        let is_error = result.outcome.is_error();
        if let ([Part::Text(Text { text, cache: None, native: _ })], None) = (&*result.outcome.content, &result.native)
            && !may_be_object(text)
        {
            let name = wire_name(result.tool.as_str());
            return Ok(PartForm::Result { id, name, key: if is_error { "error" } else { "output" }, text });
        }
        let mut inner = Map::new();
        if let Some(id) = id {
            inner.insert("id".to_owned(), id.into());
        }
        inner.insert("name".to_owned(), wire_name(result.tool.as_str()).into());
        let mut text: Option<String> = None;
        let mut media = Vec::new();
        for part in &result.outcome.content {
            let (field, form) = match part {
                Part::Text(piece) => {
                    if piece.cache.is_some() {
                        self.omitted.add("text.cache", "the server finds shared beginnings itself");
                    }
                    text.get_or_insert_default().push_str(&piece.text);
                    continue;
                }
                Part::Image(image) => ("tool_result.image", self.media(image, "image")?),
                Part::Audio(audio) => ("tool_result.audio", self.media(audio, "audio")?),
                Part::File(file) => ("tool_result.file", self.media(file, "file")?),
                Part::Native(_) => match self.more_than_text(part)? {
                    Some(form) => ("tool_result.native", form),
                    None => continue,
                },
                other => {
                    return Err(self.unsupported("part", format!("it knows no part of the kind `{}`", other.kind())));
                }
            };
            if !self.dialect.result_media {
                return Err(self.unsupported(field, "this model reads only text in tool results"));
            }
            media.push(form);
        }
        inner.insert("response".to_owned(), Value::Object(response(text.as_deref(), is_error)));
        if !media.is_empty() {
            inner.insert("parts".to_owned(), Value::Array(media));
        }
        let beside = self.beside(result.native.as_ref(), "tool_result.native").unwrap_or_default();
        Ok(PartForm::Made(Value::Object(with_inner("functionResponse", inner, beside))))
    }

    fn media(&mut self, media: &Media, kind: &str) -> Result<Value, ProviderError> {
        let name = |source: &str| format!("{kind}.{source}");
        let mut blob = Map::new();
        let key = match &media.source {
            MediaSource::Inline(inline) => {
                if media.mime_type.is_none() {
                    return Err(self.unsupported(&name("inline"), "its media type is not said"));
                }
                blob.insert("data".to_owned(), (*inline.base64).into());
                "inlineData"
            }
            MediaSource::Url(url) => {
                blob.insert("fileUri".to_owned(), url.url.as_str().into());
                "fileData"
            }
            MediaSource::ProviderFile(file) if file.provider == self.dialect.provider => {
                blob.insert("fileUri".to_owned(), file.id.as_str().into());
                "fileData"
            }
            MediaSource::ProviderFile(file) => {
                let why = format!("the file is held by `{}`", file.provider);
                return Err(self.unsupported(&name("provider_file"), why));
            }
            MediaSource::Artifact(_) => {
                return Err(
                    self.unsupported(&name("artifact"), "artifacts are put in their place before a request is written")
                );
            }
            other => return Err(self.unsupported(&name("source"), format!("it knows no source `{}`", other.kind()))),
        };
        let guessed = match &media.source {
            MediaSource::Url(url) if media.mime_type.is_none() => mime_of(kind, &url.url),
            _ => None,
        };
        if let Some(mime) = media.mime_type.as_deref().or(guessed) {
            blob.insert("mimeType".to_owned(), mime.into());
        }
        if let Some(name) = &media.name {
            blob.insert("displayName".to_owned(), name.as_str().into());
        }
        if media.cache.is_some() {
            self.omitted.add(format!("{kind}.cache"), "the server finds shared beginnings itself");
        }
        let beside = match kind {
            "image" => self.beside(media.native.as_ref(), "image.native"),
            "audio" => self.beside(media.native.as_ref(), "audio.native"),
            _ => self.beside(media.native.as_ref(), "file.native"),
        };
        let mut form = with_inner(key, blob, beside.unwrap_or_default());
        match media.detail.as_deref() {
            None | Some("auto") => {}
            Some(detail) => match parts::level(detail).filter(|_| self.dialect.part_resolution) {
                Some(level) => {
                    form.insert("mediaResolution".to_owned(), json!({"level": level}));
                }
                None => self.omitted.add(format!("{kind}.detail"), "the server does not take it part by part"),
            },
        }
        Ok(Value::Object(form))
    }
}

/// Adds a part to the content of the model, which it may begin.
fn model<'a>(contents: &mut Vec<Content<'a>>, begins: Option<bool>, part: PartForm<'a>) {
    let joins = contents.last().is_some_and(|last| last.role == "model" && last.raw.is_none());
    if !joins || begins == Some(true) {
        contents.push(Content::new("model"));
    }
    if let Some(last) = contents.last_mut() {
        last.parts.push(part);
    }
}

/// The content of the user that comes next: the last one where the item joins it, else a new one.
fn user<'c, 'a>(
    contents: &'c mut Vec<Content<'a>>,
    begins: Option<bool>,
    results: bool,
    word: Option<String>,
) -> &'c mut Content<'a> {
    let joins = contents.last().is_some_and(|last| {
        last.role == "user" && last.raw.is_none() && begins.map_or(results && last.results, |begins| !begins)
    });
    if !joins {
        contents.push(Content { results, word, ..Content::new("user") });
    }
    let last = contents.len() - 1;
    &mut contents[last]
}

/// A part with its content at `key`, and what stands beside it. State may hold further fields of the content at the same key.
fn with_inner(key: &str, mut inner: Map<String, Value>, mut beside: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(more)) = beside.shift_remove(key) {
        for (key, value) in more {
            inner.entry(key).or_insert(value);
        }
    }
    let mut form = Map::new();
    form.insert(key.to_owned(), Value::Object(inner));
    for (key, value) in beside {
        form.entry(key).or_insert(value);
    }
    form
}

/// Whether the response of a function says that it failed.
pub(super) fn says_error(response: &Map<String, Value>) -> bool {
    response.get("error").is_some_and(|error| !matches!(error, Value::Null | Value::Bool(false)) && *error != json!(""))
}

/// Whether an object holds one text at this key and nothing else.
pub(super) fn is_only(response: &Map<String, Value>, key: &str) -> bool {
    response.len() == 1 && response.get(key).is_some_and(Value::is_string)
}

/// Whether a text may say an object.
fn may_be_object(text: &SharedText) -> bool {
    // An escape may stand for the space before it.
    let first = match text.as_json() {
        Some(json) => json.as_bytes().get(1),
        None => text.as_bytes().first(),
    };
    first.is_none_or(|byte| matches!(byte, b'{' | b'\\' | b' ' | b'\n' | b'\r' | b'\t'))
}

/// The response of a function. Servers refuse one in which references of a schema stand, so that such a text stays a text.
fn response(text: Option<&str>, is_error: bool) -> Map<String, Value> {
    let Some(text) = text else {
        return if is_error { Map::from_iter([("error".to_owned(), "failed".into())]) } else { Map::new() };
    };
    if let Ok(value @ Value::Object(_)) = serde_json::from_str::<Value>(text) {
        let compact = value.to_string();
        let is_compact = compact == text;
        let has_refs = has_key(&value, &["$ref", "$defs"]);
        if let Value::Object(object) = value
            && is_compact
            && !has_refs
            && !object.is_empty()
            && !is_only(&object, "output")
            && !is_only(&object, "error")
            && says_error(&object) == is_error
        {
            return object;
        }
    }
    Map::from_iter([(if is_error { "error" } else { "output" }.to_owned(), text.into())])
}

/// The media type of what is behind a URL, as far as its ending says: this protocol tells pictures from documents by it alone.
fn mime_of(kind: &str, url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let ending = path.rsplit_once('.')?.1.to_ascii_lowercase();
    Some(match (kind, ending.as_str()) {
        ("image", "png") => "image/png",
        ("image", "jpg" | "jpeg") => "image/jpeg",
        ("image", "webp") => "image/webp",
        ("image", "gif") => "image/gif",
        ("image", "heic") => "image/heic",
        ("image", "heif") => "image/heif",
        ("audio", "wav") => "audio/wav",
        ("audio", "mp3") => "audio/mpeg",
        ("audio", "flac") => "audio/flac",
        ("audio", "ogg") => "audio/ogg",
        ("audio", "aac") => "audio/aac",
        ("file", "pdf") => "application/pdf",
        ("file", "txt") => "text/plain",
        _ => return None,
    })
}
