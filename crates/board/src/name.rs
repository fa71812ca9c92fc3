//! Names: of boards, regions and agents.

use crate::error::{BoardError, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// The longest name of a board, a region or an agent, in bytes: they are parts of keys.
pub const MAX_NAME_BYTES: usize = 200;

/// A name as it may be stored.
///
/// # Errors
/// [`BoardError::InvalidName`] for one that is empty, too long, or has a NUL character.
pub(crate) fn checked(what: &'static str, name: &str) -> Result<Arc<str>> {
    check(what, name)?;
    Ok(name.into())
}

/// As [`checked`], where the name is not kept.
pub(crate) fn check(what: &'static str, name: &str) -> Result<()> {
    let problem = if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_NAME_BYTES {
        "it is too long"
    } else if name.contains('\0') {
        "it has a NUL character"
    } else {
        return Ok(());
    };
    Err(BoardError::InvalidName { what, name: name.chars().take(80).collect(), problem })
}

/// What identifies a board among those of a tenant: any text that the caller chose, of 1 to 200 bytes. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoardId(Arc<str>);

impl BoardId {
    /// The board of that name.
    ///
    /// # Errors
    /// [`BoardError::InvalidName`] for an empty text, one of more than 200 bytes, or one with a NUL character.
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        Ok(BoardId(checked("board", name.as_ref())?))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BoardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BoardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl std::str::FromStr for BoardId {
    type Err = BoardError;
    fn from_str(text: &str) -> Result<Self> {
        BoardId::new(text)
    }
}

impl Serialize for BoardId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for BoardId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        BoardId::new(&*text).map_err(serde::de::Error::custom)
    }
}

/// A name in the quotes that agents of every language are used to read: single ones, unless it has one itself.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.0.contains('\'') && !self.0.contains('"') { '"' } else { '\'' };
        write!(f, "{quote}")?;
        for character in self.0.chars() {
            match character {
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\\' => f.write_str("\\\\")?,
                other if other == quote => write!(f, "\\{other}")?,
                other if other.is_control() => write!(f, "\\x{:02x}", u32::from(other))?,
                other => write!(f, "{other}")?,
            }
        }
        write!(f, "{quote}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_name_is_any_text_that_a_key_can_hold() {
        for name in ["a", "tenant/44 71é", "../..", &"x".repeat(200)] {
            assert_eq!(BoardId::new(name).unwrap().as_str(), name);
        }
        for name in ["", &"x".repeat(201), "a\0b"] {
            assert!(matches!(BoardId::new(name), Err(BoardError::InvalidName { .. })), "{name:?}");
        }
    }

    #[test]
    fn quotes_are_the_ones_that_python_writes() {
        for (name, quoted) in
            [("a", "'a'"), ("it's", "\"it's\""), ("it's \"a\"", "'it\\'s \"a\"'"), ("a\nb", "'a\\nb'")]
        {
            assert_eq!(Quoted(name).to_string(), quoted);
        }
    }
}
