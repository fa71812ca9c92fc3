//! Pictures, sounds and documents of which another protocol's words say more than ours.

use super::{Carrier, FOREIGN};
use crate::foreign::says_something;
use crate::protocol::Protocol;
use placet_core::part::Media;
use placet_core::{Part, ProviderError};
use serde_json::{Map, Value, json};

/// Which piece of a video is meant, and how many pictures a second of it are looked at.
const VIDEO: [&str; 2] = ["videoMetadata", "video_metadata"];

impl Carrier<'_> {
    pub(super) fn is_foreign_medium(&self, media: &Media) -> bool {
        media.native.as_ref().is_some_and(|native| self.is_foreign(native))
    }

    /// Carries over what is said of a medium, and gives the text that has to stand before it.
    pub(super) fn medium(&mut self, part: &mut Part) -> Result<Option<Part>, ProviderError> {
        let (kind, media) = match part {
            Part::Image(media) => ("image", media),
            Part::Audio(media) => ("audio", media),
            Part::File(media) => ("file", media),
            _ => return Ok(None),
        };
        let Some(native) = media.native.take_if(|native| native.provider != *self.provider) else { return Ok(None) };
        let Value::Object(mut fields) = native.value else {
            self.omitted.add(format!("{kind}.native"), FOREIGN);
            return Ok(None);
        };
        let mut own = Map::new();
        for key in VIDEO {
            if let Some(video) = fields.shift_remove(key).filter(says_something) {
                self.video(video, &mut own)?;
            }
        }
        let mut said = None;
        if kind == "file"
            && let Some(Value::String(context)) = fields.get("context")
        {
            if self.protocol == Protocol::AnthropicMessages {
                own.insert("context".to_owned(), json!(context));
            } else {
                let name = media.name.as_deref().unwrap_or("the next one");
                said = Some(Part::text(format!("Context of the document {name}:\n{context}\n")));
            }
            fields.shift_remove("context");
        }
        self.tell(&format!("{kind}.native"), &fields.into(), &[]);
        media.native = (!own.is_empty()).then(|| self.own(own.into()));
        Ok(said)
    }

    fn video(&mut self, video: Value, own: &mut Map<String, Value>) -> Result<(), ProviderError> {
        if self.protocol == Protocol::Gemini {
            own.insert("videoMetadata".to_owned(), video);
            return Ok(());
        }
        let given = |keys: [&str; 2]| keys.iter().any(|key| video.get(key).is_some_and(says_something));
        if given(["startOffset", "start_offset"]) || given(["endOffset", "end_offset"]) {
            return Err(self.refuse("file.video_metadata", "it cannot be told which piece of a video is meant"));
        }
        self.tell("file.video_metadata", &video, &[]);
        Ok(())
    }
}
