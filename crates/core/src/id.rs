//! Typed identifiers: a prefix that says what is named, and 32 hexadecimal digits that sort by the time of making.
//!
//! Ids made here have the form `run_0199…` (prefix, underscore, UUID version 7 without hyphens). Ids that come from
//! outside (a client's `X-Run-Id`) may have any body of up to 64 letters, digits, `-`, `_` and `.`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// What the identifiers have in common; made by the macro below.
pub trait IdKind: Sized {
    /// The prefix, without the underscore.
    const PREFIX: &'static str;
    /// An id with this prefix and the given UUID.
    fn from_uuid(uuid: uuid::Uuid) -> Self;
}

/// A text is not an identifier of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is not a {what} id: expected {prefix:?} followed by `_` and 1 to 64 letters, digits, `-`, `_` or `.`"
)]
pub struct InvalidId {
    /// What arrived, cut to 80 characters.
    pub given: String,
    /// What kind of id was wanted.
    pub what: &'static str,
    /// The prefix it has to have.
    pub prefix: &'static str,
}

fn check(text: &str, what: &'static str, prefix: &'static str) -> Result<(), InvalidId> {
    let body = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_'));
    let fits = body.is_some_and(|body| {
        (1..=64).contains(&body.len())
            && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    });
    if fits { Ok(()) } else { Err(InvalidId { given: text.chars().take(80).collect(), what, prefix }) }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        ///
        /// Cheap to clone; sorts by the time of its making.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Reads an id.
            ///
            /// # Errors
            /// [`InvalidId`] when the prefix or the characters are wrong.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                check(text, $what, $prefix)?;
                Ok($name(text.into()))
            }

            /// The id as text, prefix included.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl IdKind for $name {
            const PREFIX: &'static str = $prefix;

            fn from_uuid(uuid: uuid::Uuid) -> Self {
                let mut buffer = [0u8; uuid::fmt::Simple::LENGTH];
                let digits: &str = uuid.simple().encode_lower(&mut buffer);
                $name([$prefix, "_", digits].concat().into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                $name::parse(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                $name::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// One execution of the loop.
    RunId, "run", "run"
);
id!(
    /// One model request and its response, within a run.
    TurnId, "turn", "turn"
);
id!(
    /// One tool call. Ours, unique everywhere; a provider's own id for the call is kept beside it and never relied on.
    CallId, "call", "call"
);
id!(
    /// A durable noun of a conversation.
    ItemId, "item", "item"
);
impl ItemId {
    /// The id of the item that holds the answer to a call. It follows from the call's, so that whoever puts the
    /// conversation together again gives the item the same one.
    #[must_use]
    pub fn of_result(call: &CallId) -> Self {
        let body = call.0.strip_prefix(CallId::PREFIX).unwrap_or_default();
        ItemId([ItemId::PREFIX, body].concat().into())
    }
}
id!(
    /// A file-like output.
    ArtifactId, "art", "artifact"
);
id!(
    /// One question put to a human and its answer.
    ApprovalId, "appr", "approval"
);
id!(
    /// A long-lived conversation that hosts runs.
    SessionId, "sess", "session"
);

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// A name with this text; any text is one.
            #[must_use]
            pub fn new(text: impl AsRef<str>) -> Self {
                $name(text.as_ref().into())
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                $name::new(text)
            }
        }
    };
}

name!(
    /// The id of a capability, chosen by who wrote it: `files`, `command`, `calculator`.
    CapabilityId
);
name!(
    /// A tool's name as the model sees it.
    ToolName
);
name!(
    /// A provider's id: `openai`, `ollama`, `offline`.
    ProviderId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_prefix_or_character_is_refused_with_what_was_expected() {
        for text in ["", "run", "run_", "call_1", "run_a b", "run_ä", &format!("run_{}", "a".repeat(65))] {
            let error = RunId::parse(text).expect_err(text);
            assert!(error.to_string().contains("expected \"run\""), "{error}");
        }
        assert_eq!(RunId::parse("run_abc-1.X_2").map(|id| id.to_string()), Ok("run_abc-1.X_2".to_owned()));
    }

    #[test]
    fn ids_survive_json_and_are_checked_on_the_way_in() {
        let id = RunId::from_uuid(uuid::Uuid::from_u128(5));
        let json = serde_json::to_string(&id).expect("an id serialises");
        assert_eq!(json, "\"run_00000000000000000000000000000005\"");
        assert_eq!(serde_json::from_str::<RunId>(&json).expect("reads back"), id);
        assert!(serde_json::from_str::<CallId>(&json).is_err());
    }
}
