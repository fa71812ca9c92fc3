//! What a model made that is no text, where an answer of the client's protocol holds only texts.
//!
//! It becomes Markdown: a picture as `![generated image](data:…)`, anything else as a link. People see it, programs find it, and it is
//! read back as what it was when the client returns the conversation.

use placet_core::item::HostedCall;
use placet_core::part::{Inline, Media, MediaSource, Native};
use placet_core::{ItemBody, Part, SharedText};

const PICTURE: &str = "![generated image](";

/// Some media of an answer as Markdown; none where nothing is known of where it is.
pub(crate) fn markdown(part: &Part) -> Option<String> {
    let (media, kind, usual) = match part {
        Part::Image(media) => (media, PICTURE, "image/png"),
        Part::Audio(media) => (media, "[generated audio](", "audio/wav"),
        Part::File(media) => (media, "[generated file](", "application/octet-stream"),
        _ => return None,
    };
    let place = match &media.source {
        MediaSource::Inline(inline) => {
            format!("data:{};base64,{}", media.mime_type.as_deref().unwrap_or(usual), inline.base64)
        }
        MediaSource::Url(url) => url.url.clone(),
        MediaSource::ProviderFile(file) => file.id.clone(),
        MediaSource::Artifact(artifact) => artifact.id.as_str().to_owned(),
        _ => return None,
    };
    let named = media.name.as_deref().filter(|name| !name.is_empty() && !name.contains(['[', ']', '\n']));
    let head = match named.filter(|_| kind != PICTURE) {
        Some(name) => format!("[{name}]("),
        None => kind.to_owned(),
    };
    Some(format!("{head}{place})"))
}

/// Whether a text may be a picture that was shown. One that came from JSON is not made for it.
pub(crate) fn may_be_shown(text: &SharedText) -> bool {
    match text.as_json() {
        Some(json) => json.strip_prefix('"').is_some_and(|text| text.starts_with(PICTURE)),
        None => text.starts_with(PICTURE),
    }
}

/// The picture that a text shows, where it is nothing else.
pub(crate) fn read(text: &str) -> Option<Media> {
    let data = text.strip_prefix(PICTURE)?.strip_suffix(')')?.strip_prefix("data:")?;
    let (mime, base64) = data.split_once(";base64,")?;
    let is_data = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte);
    (mime.starts_with("image/") && base64.bytes().all(is_data)).then(|| Media {
        mime_type: Some(mime.to_owned()),
        ..Media::new(MediaSource::Inline(Inline { base64: base64.into() }))
    })
}

/// What only its provider understands of some media.
pub(crate) fn state(part: &Part) -> Option<&Native> {
    match part {
        Part::Image(media) | Part::Audio(media) | Part::File(media) => media.native.as_ref(),
        _ => None,
    }
}

/// The picture that a tool of the provider made.
pub(crate) fn made(call: &HostedCall) -> Option<Media> {
    let picture = call.value.get("result")?.as_str().filter(|_| call.kind == "image_generation_call")?;
    let format = call.value.get("output_format").and_then(serde_json::Value::as_str).unwrap_or("png");
    Some(Media {
        mime_type: Some(format!("image/{format}")),
        ..Media::new(MediaSource::Inline(Inline { base64: picture.into() }))
    })
}

/// An artifact's media as a part.
pub(crate) fn part_of(media: &Media) -> Part {
    let kind = media.mime_type.as_deref().and_then(|mime| mime.split('/').next()).unwrap_or("image");
    match kind {
        "image" => Part::Image(media.clone()),
        "audio" => Part::Audio(media.clone()),
        _ => Part::File(media.clone()),
    }
}

/// Whether an item holds this picture as what a tool of the provider made.
pub(crate) fn is_made_by(body: &ItemBody, picture: &Media) -> bool {
    matches!(body, ItemBody::HostedCall(call) if made(call).is_some_and(|made| made.source == picture.source))
}
