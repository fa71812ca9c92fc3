//! Parts: the pieces that content is made of.

use crate::id::{ArtifactId, ProviderId};
use crate::json_text::SharedText;
use crate::open::open_enum;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

open_enum! {
    /// A piece of content.
    pub enum Part {
        /// Text.
        Text(Text) = "text",
        /// A picture.
        Image(Media) = "image",
        /// A sound.
        Audio(Media) = "audio",
        /// A document.
        File(Media) = "file",
        /// Something only one provider understands, kept exactly.
        Native(Native) = "native",
    }
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<SharedText>) -> Self {
        Part::Text(Text::new(text))
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Part::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

/// All text of some parts, joined without a separator.
#[must_use]
pub fn text_of(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::as_text).collect()
}

/// Text, valid UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The text itself. Shared, so that a long conversation is not copied from turn to turn.
    pub text: SharedText,
    /// Set where a provider's prompt cache may end its prefix here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheMark>,
    /// What only the provider understands of it: citations, a signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

impl Text {
    /// Text and nothing else.
    pub fn new(text: impl Into<SharedText>) -> Self {
        Text { text: text.into(), cache: None, native: None }
    }
}

/// A place where a provider's prompt cache may end its prefix. A hint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheMark {
    /// How long it should live: `5m`, `1h`, `24h`. Absent: the provider's usual lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
}

/// A picture, sound or document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Media {
    /// Where its bytes are.
    pub source: MediaSource,
    /// Its media type, for example `image/png`, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// A file name to show, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How closely a model should look at a picture: `auto`, `low`, `high`. A hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Set where a provider's prompt cache may end its prefix here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheMark>,
    /// What only the provider understands of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

impl Media {
    /// What is behind `source`, of which nothing else is known.
    #[must_use]
    pub fn new(source: MediaSource) -> Self {
        Media { source, mime_type: None, name: None, detail: None, cache: None, native: None }
    }
}

open_enum! {
    /// Where the bytes of a [`Media`] are.
    pub enum MediaSource {
        /// Here, in base64.
        Inline(Inline) = "inline",
        /// Behind a URL, fetched by the provider.
        Url(Url) = "url",
        /// In an artifact of ours.
        Artifact(ArtifactSource) = "artifact",
        /// Uploaded to a provider before.
        ProviderFile(ProviderFile) = "provider_file",
    }
}

/// Bytes in base64 (standard alphabet, padded).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inline {
    /// The encoded bytes.
    pub base64: Arc<str>,
}

/// A URL that the provider fetches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Url {
    /// The URL.
    pub url: String,
}

/// An artifact of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactSource {
    /// Which one.
    pub id: ArtifactId,
}

/// A file that one provider holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderFile {
    /// Whose file.
    pub provider: ProviderId,
    /// The provider's id of it.
    pub id: String,
}

/// A value of one provider's protocol that has no name of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Native {
    /// Whose value. It goes back to this provider only.
    pub provider: ProviderId,
    /// The value, as it came.
    pub value: Value,
}
