//! Pictures, sounds and documents, both ways.

use super::conversation::Conversation;
use crate::video::is_video;
use placet_core::part::{Inline, Media, MediaSource, ProviderFile, Url};
use placet_core::{Part, ProviderError, ProviderId};
use serde_json::{Map, Value, json};

/// What a document is called that has no name, because servers insist on one.
const NO_NAME: &str = "attachment";

impl Conversation<'_, '_> {
    /// The error of media that cannot be named in this protocol.
    fn no_source(&self, kind: &str, what: &str, source: &MediaSource) -> ProviderError {
        self.unsupported(&format!("{kind}.{}", source.kind()), format!("{what} whose source is `{}`", source.kind()))
    }

    pub(super) fn image(&self, media: &Media) -> Result<Value, ProviderError> {
        if !self.dialect.images {
            return Err(self.unsupported(&format!("image.{}", media.source.kind()), "a picture"));
        }
        let url = match &media.source {
            MediaSource::Url(url) => url.url.clone(),
            MediaSource::Inline(inline) => {
                let mime = media.mime_type.as_deref();
                let mime =
                    mime.ok_or_else(|| self.unsupported("image.inline", "a picture whose media type is not said"))?;
                format!("data:{mime};base64,{}", inline.base64)
            }
            other => return Err(self.no_source("image", "a picture", other)),
        };
        let mut image = json!({"url": url});
        if let Some(detail) = &media.detail {
            image["detail"] = detail.as_str().into();
        }
        Ok(json!({"type": "image_url", "image_url": image}))
    }

    pub(super) fn audio(&self, media: &Media) -> Result<Value, ProviderError> {
        if !self.dialect.audio {
            return Err(self.unsupported(&format!("audio.{}", media.source.kind()), "a sound"));
        }
        let MediaSource::Inline(inline) = &media.source else {
            return Err(self.no_source("audio", "a sound", &media.source));
        };
        let format = match media.mime_type.as_deref() {
            Some("audio/wav" | "audio/x-wav" | "audio/wave") => "wav",
            Some("audio/mpeg" | "audio/mp3") => "mp3",
            other => {
                let what = format!("a sound of the media type `{}`", other.unwrap_or("unknown"));
                return Err(self.unsupported("audio.inline", what));
            }
        };
        Ok(json!({"type": "input_audio", "input_audio": {"data": &*inline.base64, "format": format}}))
    }

    pub(super) fn file(&self, media: &Media) -> Result<Value, ProviderError> {
        if !self.dialect.files {
            return Err(self.unsupported(&format!("file.{}", media.source.kind()), "a document"));
        }
        if is_video(media) {
            return Err(self.unsupported("file.video", "a film"));
        }
        let mut file = match &media.source {
            MediaSource::ProviderFile(file) if file.provider == self.dialect.provider => json!({"file_id": file.id}),
            MediaSource::Inline(inline) => {
                let mime = media.mime_type.as_deref().unwrap_or("application/octet-stream");
                json!({
                    "filename": media.name.as_deref().unwrap_or(NO_NAME),
                    "file_data": format!("data:{mime};base64,{}", inline.base64),
                })
            }
            other => return Err(self.no_source("file", "a document", other)),
        };
        if let Some(name) = &media.name {
            file["filename"] = name.as_str().into();
        }
        Ok(json!({"type": "file", "file": file}))
    }
}

/// The part that an object of a message's content is, with the fields that have no name of ours; `None` where it is no
/// media, or none that can be read.
pub(super) fn read_media(part: &Map<String, Value>, provider: &ProviderId) -> Option<(Part, Map<String, Value>)> {
    let kind = part.get("type")?.as_str()?;
    let inner = part.get(kind)?;
    let word = |key: &str| inner.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut media;
    let known: &[&str] = match kind {
        "image_url" => {
            // A few clients write the address alone.
            let url = inner.as_str().map(str::to_owned).or_else(|| word("url"))?;
            media = read_url(&url);
            media.detail = word("detail");
            &["url", "detail"]
        }
        "input_audio" => {
            media = Media::new(MediaSource::Inline(Inline { base64: word("data")?.into() }));
            media.mime_type = Some(match word("format")?.as_str() {
                "wav" => "audio/wav".to_owned(),
                "mp3" => "audio/mpeg".to_owned(),
                other => format!("audio/{other}"),
            });
            &["data", "format"]
        }
        "file" => {
            media = match (word("file_id"), word("file_data")) {
                (Some(id), _) => Media::new(MediaSource::ProviderFile(ProviderFile { provider: provider.clone(), id })),
                (None, Some(data)) => read_url(&data),
                (None, None) => return None,
            };
            media.name = word("filename").filter(|name| name != NO_NAME);
            &["file_id", "file_data", "filename"]
        }
        _ => return None,
    };
    let beyond = |object: &Map<String, Value>, known: &[&str]| -> Map<String, Value> {
        let unknown = object.iter().filter(|(key, value)| !known.contains(&key.as_str()) && !value.is_null());
        unknown.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let mut rest = beyond(part, &["type", kind, "cache_control", "prompt_cache_breakpoint"]);
    let inner = inner.as_object().map(|inner| beyond(inner, known)).unwrap_or_default();
    if !inner.is_empty() {
        rest.insert(kind.to_owned(), inner.into());
    }
    let part = match kind {
        "image_url" => Part::Image(media),
        "input_audio" => Part::Audio(media),
        _ => Part::File(media),
    };
    Some((part, rest))
}

/// What is behind a URL: bytes where it holds them itself.
pub(crate) fn read_url(url: &str) -> Media {
    let inline = url.strip_prefix("data:").and_then(|data| data.split_once(','));
    match inline.and_then(|(head, data)| Some((head.strip_suffix(";base64")?, data))) {
        Some((mime, data)) => Media {
            mime_type: Some(mime.to_owned()).filter(|mime| !mime.is_empty()),
            ..Media::new(MediaSource::Inline(Inline { base64: data.into() }))
        },
        None => Media::new(MediaSource::Url(Url { url: url.to_owned() })),
    }
}
