//! Parts in both directions: what both answers and requests are made of.

use super::HOSTED_PARTS;
use crate::names::{MAX_LENGTH, alias};
use placet_core::item::HostedCall;
use placet_core::part::{Inline, Media, MediaSource, Native, ProviderFile, Url};
use placet_core::{ItemBody, Message, Part, ProviderId, Role};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// What says what a part is. A part has one of these; everything else stands beside it.
const CONTENT: [&str; 9] = [
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "audioTranscription",
];

/// Fields that stand beside the content of a part. A part of which only others are known is one of a new kind.
const BESIDE: [&str; 11] = [
    "thought",
    "thoughtSignature",
    "partMetadata",
    "videoMetadata",
    "mediaResolution",
    "mediaProcessing",
    "speechMetadata",
    "documentMetadata",
    "spreadsheetMetadata",
    "audioMetadata",
    "cache",
];

/// Whether a field makes a part something else than text. In a part without text one of an unknown name does.
pub(super) fn is_content(key: &str, is_without_text: bool) -> bool {
    let key = camel(key);
    CONTENT.contains(&&*key) || is_without_text && !BESIDE.contains(&&*key)
}

/// Which tool of the provider a part is of.
pub(super) fn hosted_kind(part: &Map<String, Value>) -> Option<&'static str> {
    HOSTED_PARTS.iter().copied().find(|kind| part.keys().any(|key| camel(key) == *kind))
}

/// The name that Google's own JSON gives a field; both spellings are taken everywhere.
pub(crate) fn camel(key: &str) -> Cow<'_, str> {
    if !key.contains('_') {
        return Cow::Borrowed(key);
    }
    let mut name = String::with_capacity(key.len());
    let mut upper = false;
    for c in key.chars() {
        match c {
            '_' if !name.is_empty() => upper = true,
            c if upper => {
                name.push(c.to_ascii_uppercase());
                upper = false;
            }
            c => name.push(c),
        }
    }
    Cow::Owned(name)
}

/// The name that a tool goes by: the protocol takes more characters than others do.
pub(super) fn wire_name(name: &str) -> Cow<'_, str> {
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins && name.len() <= MAX_LENGTH && name.chars().all(is_taken) { Cow::Borrowed(name) } else { alias(name) }
}

/// The other spelling: `functionCall` is `function_call`.
pub(super) fn snake(key: &str) -> String {
    let mut name = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// Takes a field out of an object, in either spelling; `null` is nothing.
pub(super) fn take(map: &mut Map<String, Value>, key: &str) -> Option<Value> {
    let found = map.shift_remove(key).filter(|value| !value.is_null());
    let other = snake(key);
    let other = if other == key { None } else { map.shift_remove(&other) };
    found.or(other.filter(|value| !value.is_null()))
}

/// Takes a text field out of an object.
pub(super) fn take_text(map: &mut Map<String, Value>, key: &str) -> Option<String> {
    match take(map, key) {
        Some(Value::String(text)) => Some(text),
        // It stays where it was: it makes no sense here, but it is not ours to lose.
        Some(other) => {
            map.insert(key.to_owned(), other);
            None
        }
        None => None,
    }
}

/// Takes an object field out of an object.
pub(super) fn take_object(map: &mut Map<String, Value>, key: &str) -> Option<Map<String, Value>> {
    match take(map, key) {
        Some(Value::Object(object)) => Some(object),
        Some(other) => {
            map.insert(key.to_owned(), other);
            None
        }
        None => None,
    }
}

/// What is left of an object as state of its provider; none where nothing is.
pub(super) fn native(mut rest: Map<String, Value>, provider: &ProviderId) -> Option<Native> {
    rest.retain(|_, value| !value.is_null());
    (!rest.is_empty()).then(|| Native { provider: provider.clone(), value: Value::Object(rest) })
}

/// A part of the model that is neither text nor a call, as an item.
pub(super) fn model_item(value: Map<String, Value>, provider: &ProviderId) -> ItemBody {
    if let Some(kind) = hosted_kind(&value) {
        let kind = kind.to_owned();
        return ItemBody::HostedCall(HostedCall { provider: provider.clone(), kind, value: Value::Object(value) });
    }
    match media(value, provider) {
        Ok(part) => ItemBody::Message(Message { role: Role::Assistant, parts: vec![part], native: None }),
        Err(value) => ItemBody::Native(Native { provider: provider.clone(), value: Value::Object(value) }),
    }
}

/// A picture, sound or document.
///
/// # Errors
/// The part as it came, where it is none of these.
pub(super) fn media(mut value: Map<String, Value>, provider: &ProviderId) -> Result<Part, Map<String, Value>> {
    let is_plain = |value: &Map<String, Value>, key: &str, field: &str| {
        let blob = value.get(key).or_else(|| value.get(&snake(key)));
        let blob = blob.and_then(|blob| blob.get(field).or_else(|| blob.get(snake(field))));
        blob.is_some_and(Value::is_string)
    };
    let is_text = value.get("text").is_some_and(|text| !text.is_null());
    let (key, field) = if is_plain(&value, "inlineData", "data") {
        ("inlineData", "data")
    } else if is_plain(&value, "fileData", "fileUri") {
        ("fileData", "fileUri")
    } else {
        return Err(value);
    };
    if is_text {
        return Err(value);
    }
    let mut blob = take_object(&mut value, key).unwrap_or_default();
    let content = take_text(&mut blob, field).unwrap_or_default();
    let source = match key {
        "inlineData" => MediaSource::Inline(Inline { base64: content.into() }),
        _ if is_public(&content) => MediaSource::Url(Url { url: content }),
        _ => MediaSource::ProviderFile(ProviderFile { provider: provider.clone(), id: content }),
    };
    let mut media = Media::new(source);
    media.mime_type = take_text(&mut blob, "mimeType");
    media.name = take_text(&mut blob, "displayName");
    media.detail = detail(&mut value);
    blob.retain(|_, value| !value.is_null());
    if !blob.is_empty() {
        value.insert(key.to_owned(), Value::Object(blob));
    }
    value.retain(|key, value| !(value.is_null() || key == "thought" && *value == Value::Bool(false)));
    media.native = native(value, provider);
    let kind = media.mime_type.as_deref().unwrap_or_default().split('/').next().unwrap_or_default().to_owned();
    Ok(match kind.as_str() {
        "image" => Part::Image(media),
        "audio" => Part::Audio(media),
        _ => Part::File(media),
    })
}

/// Whether anybody could fetch it: what Google itself holds is a file of its own.
fn is_public(uri: &str) -> bool {
    let is_web = uri.starts_with("https://") || uri.starts_with("http://");
    is_web && !(uri.contains("googleapis.com/") && uri.contains("/files/"))
}

/// Takes how closely to look, where we have a word for it.
fn detail(value: &mut Map<String, Value>) -> Option<String> {
    let resolution = value.get("mediaResolution").or_else(|| value.get("media_resolution"))?;
    let word = DETAILS.iter().find(|(_, level)| *resolution == json!({"level": level}))?.0;
    take(value, "mediaResolution");
    Some(word.to_owned())
}

const DETAILS: [(&str, &str); 3] =
    [("low", "MEDIA_RESOLUTION_LOW"), ("medium", "MEDIA_RESOLUTION_MEDIUM"), ("high", "MEDIA_RESOLUTION_HIGH")];

/// The level of how closely to look.
pub(super) fn level(detail: &str) -> Option<&'static str> {
    DETAILS.iter().find(|(word, _)| *word == detail).map(|(_, level)| *level)
}
