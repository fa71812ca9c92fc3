//! What is written: JSON, kept as the text that was sent.

use bytes::Bytes;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

/// A JSON value as exactly the text that was sent: large integers, and `1` beside `1.0`, stay what they are, and so do
/// spaces and the order of fields. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Content(Bytes);

/// How many lists and objects may lie within one another in what is written. Parsers of other languages give up at about twice
/// that, and whoever reads a level reads what everybody wrote to it.
pub const MAX_DEPTH: usize = 500;

/// A text is not JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the content is not valid JSON: {problem}")]
pub struct InvalidContent {
    /// What the parser said.
    pub problem: String,
}

impl Content {
    /// The value `null`.
    pub const NULL: Content = Content(Bytes::from_static(b"null"));

    /// The content that is written as `text`; spaces around it are left out.
    ///
    /// # Errors
    /// [`InvalidContent`] when it is not one JSON value.
    pub fn from_text(text: impl AsRef<str>) -> Result<Self, InvalidContent> {
        let text = text.as_ref().trim_matches([' ', '\t', '\n', '\r']);
        check(text)?;
        Ok(Content(Bytes::copy_from_slice(text.as_bytes())))
    }

    /// The content that is written as these bytes, which are shared, not copied.
    ///
    /// # Errors
    /// [`InvalidContent`] when they are not UTF-8, or not one JSON value.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, InvalidContent> {
        let text = std::str::from_utf8(&bytes).map_err(|error| InvalidContent { problem: error.to_string() })?;
        check(text)?;
        Ok(Content(bytes))
    }

    /// The content of a value.
    ///
    /// # Errors
    /// [`InvalidContent`] when it has no form in JSON, as a map whose keys are no texts.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, InvalidContent> {
        let text = serde_json::to_vec(value).map_err(|error| InvalidContent { problem: error.to_string() })?;
        Ok(Content(text.into()))
    }

    /// The content of a part of a larger JSON text; the bytes are shared where `raw` lies within `whole`, and copied where
    /// it does not.
    #[must_use]
    pub fn within(whole: &Bytes, raw: &RawValue) -> Self {
        let part = raw.get().as_bytes();
        let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize);
        match start.and_then(|start| Some(start..start.checked_add(part.len())?)) {
            Some(range) if range.end <= whole.len() => Content(whole.slice(range)),
            _ => Content(Bytes::copy_from_slice(part)),
        }
    }

    /// What a store holds is what was checked when it was written.
    pub(crate) fn stored(bytes: Bytes) -> Self {
        Content(bytes)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Checked on every way in.
        std::str::from_utf8(&self.0).unwrap_or("null")
    }

    /// The text's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Whether more than `most` lists and objects lie within one another.
    pub(crate) fn is_deeper_than(&self, most: usize) -> bool {
        if self.0.len() <= most {
            return false;
        }
        let (mut depth, mut in_text, mut is_escaped) = (0usize, false, false);
        for byte in self.0.iter() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b'[' | b'{' => {
                    depth += 1;
                    if depth > most {
                        return true;
                    }
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        false
    }

    /// The content as a value of a type.
    ///
    /// # Errors
    /// What the parser says.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// The content as a value, for looking at: large integers lose digits there.
    ///
    /// # Errors
    /// [`InvalidContent`] when it is nested too deeply to be taken apart.
    pub fn to_value(&self) -> Result<Value, InvalidContent> {
        self.parse().map_err(|error| InvalidContent { problem: error.to_string() })
    }
}

fn check(text: &str) -> Result<(), InvalidContent> {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(InvalidContent { problem: error.to_string() }),
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&RawValue> for Content {
    fn from(raw: &RawValue) -> Self {
        Content(Bytes::copy_from_slice(raw.get().as_bytes()))
    }
}

impl From<Box<RawValue>> for Content {
    fn from(raw: Box<RawValue>) -> Self {
        let text: Box<str> = raw.into();
        Content(Bytes::from(String::from(text)))
    }
}

impl From<&Value> for Content {
    fn from(value: &Value) -> Self {
        Content(Bytes::from(value.to_string()))
    }
}

/// With `serde_json` the text goes out as it is.
impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// With `serde_json` the text comes in as it is.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Box::<RawValue>::deserialize(deserializer)?.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_text_stays_what_it_was() {
        for text in
            ["1180591620717411303424", "1", "1.0", "1e2", "{\"b\" : 1,\n \"a\":2, \"b\":3}", "\"\\u00e9é\"", "null"]
        {
            let content = Content::from_text(format!(" {text}\n")).unwrap();
            assert_eq!(content.as_str(), text);
            let again = serde_json::to_string(&[&content]).unwrap();
            assert_eq!(again, format!("[{text}]"));
            assert_eq!(serde_json::from_str::<Vec<Content>>(&again).unwrap(), [content]);
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in ["", "NaN", "Infinity", "{", "1 2", "'a'", "{\"a\":}"] {
            assert!(Content::from_text(text).is_err(), "{text:?}");
        }
        assert!(Content::from_bytes(Bytes::from_static(b"\"\xff\"")).is_err());
    }

    #[test]
    fn a_part_of_a_body_is_shared_with_it() {
        let body = Bytes::from_static(b"{\"content\": {\"n\": 1.0} }");
        let parsed: std::collections::BTreeMap<&str, &RawValue> = serde_json::from_slice(&body).unwrap();
        let content = Content::within(&body, parsed["content"]);
        assert_eq!(content.as_str(), "{\"n\": 1.0}");
        assert_eq!(content.as_bytes().as_ptr(), body[12..].as_ptr());
        let elsewhere: Box<RawValue> = serde_json::from_str("[ 1 ]").unwrap();
        assert_eq!(Content::within(&body, &elsewhere).as_str(), "[ 1 ]");
    }

    #[test]
    fn depth_counts_what_lies_within_one_another() {
        let nested = |depth: usize| Content::from_text("[".repeat(depth) + &"]".repeat(depth)).unwrap();
        assert!(!nested(3).is_deeper_than(3));
        assert!(nested(4).is_deeper_than(3));
        for flat in [r#"[[],[],[],[],{"a":{}},{"b":{}}]"#, r#""[[[[[[""#, r#"["\"[[[[","\\",[]]"#] {
            assert!(!Content::from_text(flat).unwrap().is_deeper_than(3), "{flat}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_one_string(text in ".*") {
            let content = Content::of(&text).unwrap();
            prop_assert_eq!(content.parse::<String>().unwrap(), text);
            prop_assert_eq!(Content::from_text(content.as_str()).unwrap(), content);
        }
    }
}
