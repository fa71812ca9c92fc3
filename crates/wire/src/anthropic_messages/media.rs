//! Pictures and documents as the protocol has them.

use super::blocks::{Source, Writer};
use crate::video::is_video;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use placet_core::part::{Media, MediaSource};
use placet_core::{ProviderError, SharedText};

impl<'a> Writer<'_, 'a> {
    pub(super) fn image(&self, media: &'a Media) -> Result<Source<'a>, ProviderError> {
        let refusal = self.encoder.refusal();
        let field = media_field("image", &media.source);
        match &media.source {
            MediaSource::Inline(inline) => match media.mime_type.as_deref() {
                // A usual slip of the pen.
                Some("image/jpg") => Ok(Source::Inline { mime: "image/jpeg", base64: &inline.base64 }),
                Some(mime) if PICTURES.contains(&mime) => Ok(Source::Inline { mime, base64: &inline.base64 }),
                Some(mime) => Err(refusal.of(field, &format!("it sees no `{mime}`; it takes PNG, JPEG, GIF and WebP"))),
                None => Err(refusal.of(field, "its media type is not said")),
            },
            MediaSource::Url(url) => Ok(Source::Url(&url.url)),
            MediaSource::ProviderFile(file) if file.provider == self.encoder.dialect.provider => {
                Ok(Source::File(&file.id))
            }
            MediaSource::ProviderFile(_) => Err(refusal.of(field, "another provider holds it")),
            _ => Err(refusal.of(field, "its bytes have to be fetched first")),
        }
    }

    pub(super) fn document(&self, media: &'a Media) -> Result<Source<'a>, ProviderError> {
        let refusal = self.encoder.refusal();
        let field = media_field("file", &media.source);
        if is_video(media) {
            return Err(refusal.of("file.video", "it takes documents only"));
        }
        match &media.source {
            MediaSource::Inline(inline) => match media.mime_type.as_deref() {
                Some(mime @ "application/pdf") => Ok(Source::Inline { mime, base64: &inline.base64 }),
                Some(mime) if mime == "text/plain" || mime.starts_with("text/") || mime == "application/json" => {
                    let text = STANDARD.decode(inline.base64.as_bytes()).ok();
                    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
                    text.map(Source::Text).ok_or_else(|| refusal.of(field, "the text is no UTF-8"))
                }
                mime => {
                    let what = format!("its media type is `{}`", mime.unwrap_or("unknown"));
                    Err(refusal.of(field, &what))
                }
            },
            MediaSource::Url(url) => match media.mime_type.as_deref() {
                Some(mime) if mime != "application/pdf" => {
                    let what = format!("its media type is `{mime}`, and behind a URL it takes PDF only");
                    Err(refusal.of(field, &what))
                }
                _ => Ok(Source::Url(&url.url)),
            },
            MediaSource::ProviderFile(file) if file.provider == self.encoder.dialect.provider => {
                Ok(Source::File(&file.id))
            }
            MediaSource::ProviderFile(_) => Err(refusal.of(field, "another provider holds it")),
            _ => Err(refusal.of(field, "its bytes have to be fetched first")),
        }
    }
}

/// Whether a text is of spaces alone. One that came from JSON is not made for it.
pub(super) fn is_blank(text: &SharedText) -> bool {
    let Some(json) = text.as_json() else { return text.trim().is_empty() };
    let mut rest = json.trim_matches('"');
    loop {
        rest = rest.trim_start();
        match ["\\n", "\\r", "\\t"].iter().find_map(|space| rest.strip_prefix(space)) {
            Some(after) => rest = after,
            None => return rest.is_empty(),
        }
    }
}

/// The pictures that the provider sees.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// What a medium is called in the table of fields.
pub(super) fn media_field(kind: &'static str, source: &MediaSource) -> &'static str {
    match (kind, source) {
        ("image", MediaSource::Inline(_)) => "image.inline",
        ("image", MediaSource::Url(_)) => "image.url",
        ("image", MediaSource::ProviderFile(_)) => "image.provider_file",
        ("image", _) => "image.artifact",
        ("file", MediaSource::Inline(_)) => "file.inline",
        ("file", MediaSource::Url(_)) => "file.url",
        ("file", MediaSource::ProviderFile(_)) => "file.provider_file",
        ("file", _) => "file.artifact",
        (_, MediaSource::Inline(_)) => "audio.inline",
        (_, MediaSource::Url(_)) => "audio.url",
        (_, MediaSource::ProviderFile(_)) => "audio.provider_file",
        _ => "audio.artifact",
    }
}
