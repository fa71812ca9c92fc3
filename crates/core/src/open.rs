//! Tagged enums that keep what they do not know.
//!
//! A value written by a newer version, or by somebody else, may have a kind that this version has no name for. It is
//! kept whole in an `Unknown` variant and written back as it came. A *known* kind with wrong fields is an error: it is
//! not silently demoted to unknown.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A variant that this version does not know, kept whole, its `type` included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Unknown(pub Map<String, Value>);

impl Unknown {
    /// What its `type` field says, or an empty text.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0.get("type").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Declares an enum that is serialised as an object with a `type` field and that keeps unknown types.
macro_rules! open_enum {
    (
        $(#[$doc:meta])*
        pub enum $name:ident {
            $( $(#[$variant_doc:meta])* $variant:ident($body:ty) = $label:literal, )*
        }
    ) => {
        $(#[$doc])*
        ///
        /// Serialised as an object whose `type` names the variant. An unknown type survives a round trip.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$variant_doc])* $variant($body), )*
            /// A type that this version does not know, kept whole.
            Unknown($crate::open::Unknown),
        }

        impl $name {
            /// Every `type` that this version knows.
            pub const KINDS: &'static [&'static str] = &[$($label),*];

            /// The `type` it is serialised with.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $( $name::$variant(_) => $label, )*
                    $name::Unknown(unknown) => unknown.kind(),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                #[derive(serde::Serialize)]
                #[serde(tag = "type")]
                enum Known<'a> {
                    $( #[serde(rename = $label)] $variant(&'a $body), )*
                }
                match self {
                    $( $name::$variant(body) => Known::$variant(body).serialize(serializer), )*
                    $name::Unknown(unknown) => unknown.serialize(serializer),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(tag = "type")]
                enum Known {
                    $( #[serde(rename = $label)] $variant($body), )*
                }
                let map = serde_json::Map::deserialize(deserializer)?;
                match map.get("type").and_then(serde_json::Value::as_str) {
                    None => Err(serde::de::Error::missing_field("type")),
                    Some(kind) if !$name::KINDS.contains(&kind) => Ok($name::Unknown($crate::open::Unknown(map))),
                    Some(_) => {
                        let known: Known = serde_json::from_value(serde_json::Value::Object(map))
                            .map_err(serde::de::Error::custom)?;
                        Ok(match known { $( Known::$variant(body) => $name::$variant(body), )* })
                    }
                }
            }
        }
    };
}
pub(crate) use open_enum;

/// Declares a set of words that is open at the end: a word that this version does not know is kept.
macro_rules! open_words {
    (
        $(#[$doc:meta])*
        pub enum $name:ident { $( $(#[$variant_doc:meta])* $variant:ident = $label:literal, )* }
    ) => {
        $(#[$doc])*
        ///
        /// Serialised as the word; an unknown word survives a round trip.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$variant_doc])* $variant, )*
            /// A word that this version does not know.
            Other(String),
        }

        impl $name {
            /// Every word that this version knows.
            pub const WORDS: &'static [&'static str] = &[$($label),*];

            /// The word it is serialised as.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $( $name::$variant => $label, )*
                    $name::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $( $label => $name::$variant, )*
                    other => $name::Other(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Ok($name::from(&*word))
            }
        }
    };
}
pub(crate) use open_words;
