//! Items and their parts, from the wire.

use crate::request::RequestError;
use placet_core::item::HostedCall;
use placet_core::part::{CacheMark, Inline, Media, MediaSource, Native, ProviderFile, Text, Url};
use placet_core::{ItemBody, Part, ProviderId};
use serde_json::{Map, Value};

/// The name of a document that has none.
pub(super) const NO_NAME: &str = "attachment";

/// Items of tools that the provider runs, or defines and lets the caller run. Whatever else is called a call is one, too.
const HOSTED: [&str; 12] = [
    "mcp_list_tools",
    "mcp_approval_request",
    "tool_search_output",
    "shell_call_output",
    "local_shell_call_output",
    "apply_patch_call_output",
    "computer_call_output",
    "code_interpreter_call_output",
    "program_output",
    "program",
    "web_search_call_output",
    "image_generation_call_output",
];

/// The text at `key`; an empty one is taken for an absent one.
pub(super) fn word<'v>(map: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// An item that is neither a message, nor thinking, nor a call of a function or custom tool.
pub(super) fn whole_body(provider: &ProviderId, item: &Value) -> ItemBody {
    let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind.ends_with("_call") || HOSTED.contains(&kind) {
        HostedCall { provider: provider.clone(), kind: kind.to_owned(), value: item.clone() }.into()
    } else {
        Native { provider: provider.clone(), value: item.clone() }.into()
    }
}

/// Whether a native value is thinking in this protocol's form. The same provider may speak another protocol, too.
pub(super) fn is_reasoning(value: &Value) -> bool {
    value.get("type").is_some_and(|kind| kind == "reasoning") || value.get("summary").is_some_and(Value::is_array)
}

/// Whether a native value is an item in this protocol's form; a bare id refers to one.
pub(super) fn is_item(value: &Value) -> bool {
    ["type", "id"].iter().any(|key| value.get(key).is_some_and(Value::is_string))
}

/// What only the provider understands of a message: its id, its phase and what is unknown.
pub(super) fn message_head(item: &Map<String, Value>) -> Map<String, Value> {
    rest(item, &["type", "role", "content", "status"])
}

/// What only the provider understands of a call. `None` where that is nothing.
pub(super) fn call_native(provider: &ProviderId, item: &Map<String, Value>) -> Option<Native> {
    let is_custom = word(item, "type") == Some("custom_tool_call");
    let mut value = rest(item, &["type", "call_id", "name", "arguments", "input", "status"]);
    if is_custom {
        value.insert("type".into(), "custom_tool_call".into());
    }
    native(provider, value)
}

/// All fields but these, without what says nothing and without ids of ours.
pub(super) fn rest(map: &Map<String, Value>, but: &[&str]) -> Map<String, Value> {
    let is_kept = |key: &str, value: &Value| {
        let says_nothing =
            value.is_null() || (key == "id" && value.as_str().is_some_and(|id| id.is_empty() || super::is_own_id(id)));
        !says_nothing && !but.contains(&key)
    };
    map.iter().filter(|(key, value)| is_kept(key, value)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A native value, where there is anything in it.
pub(super) fn native(provider: &ProviderId, value: Map<String, Value>) -> Option<Native> {
    (!value.is_empty()).then(|| Native { provider: provider.clone(), value: Value::Object(value) })
}

/// What only the provider understands of a text: its annotations and the like and, under `message`, what is said of the
/// message it stands in.
pub(super) fn text_native(
    provider: &ProviderId,
    head: &Map<String, Value>,
    part: &Map<String, Value>,
) -> Option<Native> {
    let mut value = Map::new();
    if !head.is_empty() {
        value.insert("message".into(), Value::Object(head.clone()));
    }
    let is_empty_list = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let beyond = rest(part, &["type", "text", "refusal", "prompt_cache_breakpoint"]);
    value.extend(beyond.into_iter().filter(|(_, value)| !is_empty_list(value)));
    if word(part, "type") == Some("refusal") {
        value.insert("type".into(), "refusal".into());
    }
    native(provider, value)
}

/// The thinking of an item that may be read: its summary, else its content.
pub(super) fn thought(item: &Map<String, Value>) -> String {
    let summary = thought_at(item, "summary");
    if summary.is_empty() { thought_at(item, "content") } else { summary }
}

/// The texts of a list of parts, with a blank line between two of them.
pub(super) fn thought_at(item: &Map<String, Value>, key: &str) -> String {
    let texts = item.get(key).and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<&str> = texts.filter_map(|part| word(part.as_object()?, "text")).collect();
    texts.join("\n\n")
}

/// The content of a message or of the result of a call: a text or a list of parts.
pub(super) fn decode_parts(
    content: Option<&Value>,
    place: &str,
    provider: &ProviderId,
) -> Result<Vec<Part>, RequestError> {
    match content {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![Part::text(text.as_str())]),
        Some(Value::Array(list)) => {
            list.iter().enumerate().map(|(i, part)| decode_part(part, &format!("{place}[{i}]"), provider)).collect()
        }
        Some(_) => Err(RequestError::field(place, "expected a text or a list of parts")),
    }
}

fn decode_part(part: &Value, place: &str, provider: &ProviderId) -> Result<Part, RequestError> {
    let map = match part {
        Value::String(text) => return Ok(Part::text(text.as_str())),
        Value::Object(map) => map,
        _ => return Err(RequestError::field(place, "expected a part: an object with a `type`")),
    };
    let verbatim = || Part::Native(Native { provider: provider.clone(), value: part.clone() });
    let text = |key: &str| {
        let found = map.get(key).and_then(Value::as_str);
        found.ok_or_else(|| RequestError::field(format!("{place}.{key}"), "expected a text"))
    };
    Ok(match map.get("type").and_then(Value::as_str).unwrap_or_default() {
        "input_text" | "output_text" | "text" => Part::Text(Text {
            cache: cache_mark(map),
            native: text_native(provider, &Map::new(), map),
            ..Text::new(text("text")?)
        }),
        "refusal" => {
            Part::Text(Text { native: text_native(provider, &Map::new(), map), ..Text::new(text("refusal")?) })
        }
        "input_image" => match source(map, "image_url", "", provider) {
            Some((source, mime_type)) => Part::Image(Media {
                mime_type,
                detail: word(map, "detail").filter(|detail| *detail != "auto").map(str::to_owned),
                ..media(map, source, &["image_url", "detail"], provider)
            }),
            None => verbatim(),
        },
        "input_file" => match source(map, "file_url", "file_data", provider) {
            Some((source, mime_type)) => Part::File(Media {
                mime_type,
                name: word(map, "filename").filter(|name| *name != NO_NAME).map(str::to_owned),
                ..media(map, source, &["file_url", "file_data", "filename"], provider)
            }),
            None => verbatim(),
        },
        "input_audio" => {
            let inner = map.get("input_audio").and_then(Value::as_object).unwrap_or(map);
            let mime = match word(inner, "format") {
                Some("wav") => "audio/wav",
                Some("mp3") => "audio/mpeg",
                _ => return Ok(verbatim()),
            };
            let Some(data) = word(inner, "data") else { return Ok(verbatim()) };
            let source = MediaSource::Inline(Inline { base64: data.into() });
            Part::Audio(Media {
                mime_type: Some(mime.to_owned()),
                ..media(map, source, &["input_audio", "data", "format"], provider)
            })
        }
        _ => verbatim(),
    })
}

fn media(map: &Map<String, Value>, source: MediaSource, known: &[&str], provider: &ProviderId) -> Media {
    let mut value = rest(map, known);
    for key in ["type", "file_id", "prompt_cache_breakpoint"] {
        value.remove(key);
    }
    Media { cache: cache_mark(map), native: native(provider, value), ..Media::new(source) }
}

/// Where the bytes are, and their media type where that is told.
fn source(
    map: &Map<String, Value>,
    url: &str,
    data: &str,
    provider: &ProviderId,
) -> Option<(MediaSource, Option<String>)> {
    if let Some(id) = word(map, "file_id") {
        return Some((MediaSource::ProviderFile(ProviderFile { provider: provider.clone(), id: id.to_owned() }), None));
    }
    let inline = |base64: &str| MediaSource::Inline(Inline { base64: base64.into() });
    let of_url = |text: &str| {
        let (mime, base64) = text.strip_prefix("data:")?.split_once(";base64,")?;
        Some((inline(base64), Some(mime.to_owned()).filter(|mime| !mime.is_empty())))
    };
    if let Some(text) = word(map, url) {
        return Some(of_url(text).unwrap_or_else(|| (MediaSource::Url(Url { url: text.to_owned() }), None)));
    }
    let text = word(map, data)?;
    Some(of_url(text).unwrap_or_else(|| (inline(text), None)))
}

fn cache_mark(map: &Map<String, Value>) -> Option<CacheMark> {
    let mark = map.get("prompt_cache_breakpoint")?.as_object()?;
    Some(CacheMark { ttl: word(mark, "ttl").map(str::to_owned) })
}
