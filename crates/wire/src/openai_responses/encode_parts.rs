//! Messages and their parts, onto the wire.

use super::encode::{Encoder, FOREIGN, own_object};
use super::onto::message_head_of;
use super::parts::NO_NAME;
use super::write::{List, Object, value};
use crate::json::Written;
use crate::video::is_video;
use placet_core::part::{CacheMark, Media, MediaSource, Text};
use placet_core::{Message, Part, ProviderError, Role};
use serde_json::Value;

impl<'a> Encoder<'a> {
    /// One message. A message of several texts came apart where its answer was read, and is put together here.
    pub(super) fn message(&mut self, group: &[&'a Message], list: &mut List<'_>) -> Result<(), ProviderError> {
        let Some(first) = group.first() else { return Ok(()) };
        let role = match &first.role {
            Role::System => self.dialect.operator.word(),
            Role::User => "user",
            Role::Assistant => "assistant",
            other => other.as_str(),
        };
        let is_assistant = first.role == Role::Assistant;
        for message in group {
            let texts = message.parts.iter().filter_map(|part| match part {
                Part::Text(text) => text.native.as_ref(),
                _ => None,
            });
            for (native, field) in message
                .native
                .iter()
                .map(|native| (native, "message.native"))
                .chain(texts.map(|native| (native, "text.native")))
            {
                if native.provider != self.dialect.provider {
                    self.omitted.add(field, FOREIGN);
                }
            }
        }
        let parts: Vec<&Part> = group.iter().flat_map(|message| &message.parts).collect();
        let head = message_head_of(first, self.dialect);
        let native = own_object(first.native.as_ref(), self.dialect);
        let has_id = !self.is_without_ids() && [head, native].into_iter().flatten().any(|map| map.contains_key("id"));
        let mut content = Vec::new();
        match parts.as_slice() {
            // A message with an id is written in full, as the protocol wants it.
            [Part::Text(text)] if !has_id && self.is_plain(text) => value(&mut content, &Written(&text.text)),
            parts => {
                let mut inner = List::new(&mut content);
                for part in parts {
                    self.part(part, is_assistant, &mut inner)?;
                }
                inner.end();
            }
        }
        let mut object = Object::new(list.next());
        object.field("type", "message");
        object.field("role", role);
        let mut known = vec!["type", "role", "content"];
        if self.is_without_ids() {
            known.push("id");
        }
        for map in [head, native].into_iter().flatten() {
            object.merge(map, &known);
            known.extend(map.keys().map(String::as_str));
        }
        if has_id && is_assistant && !known.contains(&"status") {
            object.field("status", "completed");
        }
        object.raw("content", &content);
        object.end();
        Ok(())
    }

    /// Whether a text is nothing but its text.
    fn is_plain(&self, text: &Text) -> bool {
        let own = own_object(text.native.as_ref(), self.dialect);
        text.cache.is_none() && own.is_none_or(|own| own.keys().all(|key| key == "message"))
    }

    /// The content of a tool's result: a text where it is one, else a list of parts.
    pub(super) fn output_content(&mut self, parts: &[Part]) -> Result<Vec<u8>, ProviderError> {
        let mut out = Vec::new();
        if parts.iter().all(|part| matches!(part, Part::Text(text) if self.is_plain(text))) && parts.len() < 2 {
            match parts {
                [Part::Text(text)] => value(&mut out, &Written(&text.text)),
                _ => value(&mut out, ""),
            }
            return Ok(out);
        }
        let mut list = List::new(&mut out);
        for part in parts {
            self.part(part, false, &mut list)?;
        }
        list.end();
        Ok(out)
    }

    fn part(&mut self, part: &Part, is_assistant: bool, list: &mut List<'_>) -> Result<(), ProviderError> {
        match part {
            Part::Text(text) => self.text(text, is_assistant, list),
            // A model says only texts here.
            Part::Image(_) | Part::Audio(_) | Part::File(_) if is_assistant => {
                return Err(self.unsupported(&format!("{}.assistant", part.kind())));
            }
            Part::Image(media) => self.image(media, list)?,
            Part::Audio(media) => self.audio(media, list)?,
            Part::File(media) => self.file(media, list)?,
            Part::Native(native) if native.provider == self.dialect.provider => list.push(&native.value),
            Part::Native(_) => self.omitted.add("native_part", FOREIGN),
            other => return Err(self.unsupported(other.kind())),
        }
        Ok(())
    }

    fn text(&mut self, text: &Text, is_assistant: bool, list: &mut List<'_>) {
        let own = own_object(text.native.as_ref(), self.dialect);
        let is_refusal = own.and_then(|own| own.get("type")).is_some_and(|kind| kind == "refusal");
        let mut object = Object::new(list.next());
        let kind = match (is_refusal, is_assistant) {
            (true, _) => "refusal",
            (false, true) => "output_text",
            (false, false) => "input_text",
        };
        object.field("type", kind);
        object.field(if is_refusal { "refusal" } else { "text" }, &Written(&text.text));
        if kind == "output_text" && own.is_none_or(|own| !own.contains_key("annotations")) {
            object.field("annotations", &[(); 0]);
        }
        cache(&mut object, text.cache.as_ref());
        for own in own.into_iter() {
            object.merge(own, &["type", "text", "refusal", "message"]);
        }
        object.end();
    }

    /// The fields that all media have.
    fn media(&mut self, media: &Media, field: &str, object: &mut Object<'_>) {
        cache(object, media.cache.as_ref());
        match own_object(media.native.as_ref(), self.dialect) {
            Some(own) => object.merge(own, &["type", "image_url", "file_url", "file_data", "file_id"]),
            None if media.native.is_some() => self.omitted.add(field, FOREIGN),
            None => {}
        }
    }

    fn image(&mut self, media: &Media, list: &mut List<'_>) -> Result<(), ProviderError> {
        let unsupported = |what: &str| Err(self.unsupported(&format!("image.{what}")));
        if !self.dialect.images {
            return unsupported(media.source.kind());
        }
        let (key, place) = match &media.source {
            MediaSource::Url(url) => ("image_url", url.url.clone()),
            MediaSource::Inline(inline) => {
                let Some(mime) = media.mime_type.as_deref() else {
                    return unsupported("inline (its media type is not said)");
                };
                ("image_url", format!("data:{mime};base64,{}", inline.base64))
            }
            MediaSource::ProviderFile(file) if file.provider == self.dialect.provider => ("file_id", file.id.clone()),
            other => return unsupported(other.kind()),
        };
        let mut object = Object::new(list.next());
        object.field("type", "input_image");
        object.field(key, &place);
        object.field("detail", media.detail.as_deref().unwrap_or("auto"));
        self.media(media, "image.native", &mut object);
        object.end();
        Ok(())
    }

    fn audio(&mut self, media: &Media, list: &mut List<'_>) -> Result<(), ProviderError> {
        let MediaSource::Inline(inline) = &media.source else {
            return Err(self.unsupported(&format!("audio.{}", media.source.kind())));
        };
        let format = match media.mime_type.as_deref() {
            _ if !self.dialect.audio => return Err(self.unsupported("audio.inline")),
            Some("audio/wav" | "audio/x-wav" | "audio/wave") => "wav",
            Some("audio/mpeg" | "audio/mp3") => "mp3",
            _ => return Err(self.unsupported("audio.inline")),
        };
        let mut object = Object::new(list.next());
        object.field("type", "input_audio");
        object.field("input_audio", &serde_json::json!({"data": &*inline.base64, "format": format}));
        self.media(media, "audio.native", &mut object);
        object.end();
        Ok(())
    }

    fn file(&mut self, media: &Media, list: &mut List<'_>) -> Result<(), ProviderError> {
        let unsupported = |what: &str| Err(self.unsupported(&format!("file.{what}")));
        if !self.dialect.files {
            return unsupported(media.source.kind());
        }
        if is_video(media) {
            return unsupported("video");
        }
        let mut name = media.name.as_deref();
        let (key, place) = match &media.source {
            MediaSource::Url(url) => ("file_url", url.url.clone()),
            MediaSource::Inline(inline) => {
                name = name.or(Some(NO_NAME));
                let mime = media.mime_type.as_deref().unwrap_or("application/octet-stream");
                ("file_data", format!("data:{mime};base64,{}", inline.base64))
            }
            MediaSource::ProviderFile(file) if file.provider == self.dialect.provider => ("file_id", file.id.clone()),
            other => return unsupported(other.kind()),
        };
        let mut object = Object::new(list.next());
        object.field("type", "input_file");
        // A file that the provider holds has its name there.
        match name {
            Some(_) if key == "file_id" => self.omitted.add("file.name", "the provider holds the file and its name"),
            Some(name) => object.field("filename", name),
            None => {}
        }
        object.field(key, &place);
        self.media(media, "file.native", &mut object);
        object.end();
        Ok(())
    }
}

fn cache(object: &mut Object<'_>, mark: Option<&CacheMark>) {
    let Some(mark) = mark else { return };
    let mut form = serde_json::json!({"mode": "explicit"});
    match mark.ttl.as_deref() {
        Some("5m" | "30m") => form["ttl"] = Value::from("30m"),
        Some("1h" | "12h") => form["ttl"] = Value::from("12h"),
        Some(_) | None => {}
    }
    object.field("prompt_cache_breakpoint", &form);
}
