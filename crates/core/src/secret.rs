//! A credential's value that does not print itself.

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// What stands wherever a secret was: in text, in JSON, in `Debug` output.
pub const MARK: &str = "[redacted]";

/// A secret string together with where it came from, for example `OPENAI_API_KEY`.
///
/// `Debug`, `Display` and `Serialize` show [`MARK`] in place of the value; only [`Secret::expose`] gives it. The memory is
/// wiped when the last owner drops it. Equality takes a time that depends on the lengths alone.
///
/// Deserialising takes a plain string and leaves the name empty (set it with [`Secret::named`]); the mask itself is
/// refused, because a masked file that is read back would otherwise quietly become a wrong key.
#[derive(Clone)]
pub struct Secret {
    name: Arc<str>,
    value: SecretString,
}

impl Secret {
    /// A secret called `name` (a variable, a configuration key: anything that a person can find again).
    pub fn new(name: impl AsRef<str>, value: impl Into<String>) -> Self {
        Secret { name: Arc::from(name.as_ref()), value: SecretString::from(value.into()) }
    }

    /// The same secret under another name.
    #[must_use]
    pub fn named(mut self, name: impl AsRef<str>) -> Self {
        self.name = Arc::from(name.as_ref());
        self
    }

    /// Where the secret came from; empty when it was never said. Not secret.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value itself. Every call is a place to look at when one asks where secrets go.
    pub fn expose(&self) -> &str {
        self.value.expose_secret()
    }

    /// True when the value has no characters.
    pub fn is_empty(&self) -> bool {
        self.expose().is_empty()
    }

    /// Compares the value with `candidate` in a time that depends on the lengths alone.
    pub fn matches(&self, candidate: &str) -> bool {
        let (ours, theirs) = (self.expose().as_bytes(), candidate.as_bytes());
        let difference = ours.iter().zip(theirs).fold(0u8, |seen, (a, b)| seen | (a ^ b));
        ours.len() == theirs.len() && std::hint::black_box(difference) == 0
    }
}

impl PartialEq for Secret {
    /// Compares values; names do not matter.
    fn eq(&self, other: &Self) -> bool {
        self.matches(other.expose())
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({}{}{MARK})", self.name, if self.name.is_empty() { "" } else { ": " })
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(MARK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MARK)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = String::deserialize(deserializer)?;
        if value == MARK {
            return Err(serde::de::Error::custom(
                "found the mask of a secret where its value was expected; write the value, or name the variable that holds it",
            ));
        }
        Ok(Secret::new("", value))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    const VALUE: &str = "correct horse battery staple";

    #[test]
    fn never_prints_its_value() {
        let secret = Secret::new("OPENAI_API_KEY", VALUE);
        for shown in [
            format!("{secret}"),
            format!("{secret:?}"),
            format!("{secret:#?}"),
            format!("{secret:>40}"),
            format!("{:?}", Some(secret.clone())),
            serde_json::to_string(&secret).unwrap(),
            serde_json::to_string(&vec![secret.clone()]).unwrap(),
        ] {
            assert!(!shown.contains("horse"), "{shown}");
            assert!(shown.contains(MARK), "{shown}");
        }
        assert!(format!("{secret:?}").contains("OPENAI_API_KEY"));
        assert_eq!(secret.expose(), VALUE);
        assert_eq!(secret.name(), "OPENAI_API_KEY");
    }

    #[test]
    fn is_read_from_a_string_but_not_from_its_mask() {
        let secret: Secret = serde_json::from_str("\"abc\"").unwrap();
        assert_eq!((secret.name(), secret.expose()), ("", "abc"));
        assert_eq!(secret.named("x").name(), "x");
        let error = serde_json::from_str::<Secret>("\"[redacted]\"").unwrap_err().to_string();
        assert!(error.contains("mask of a secret"), "{error}");
    }

    #[test]
    fn equality_is_of_values() {
        assert_eq!(Secret::new("a", VALUE), Secret::new("b", VALUE));
        for other in
            ["", "correct horse battery stapl", "correct horse battery staplf", "correct horse battery staple "]
        {
            assert_ne!(Secret::new("a", VALUE), Secret::new("a", other));
        }
        assert!(Secret::new("a", "").is_empty());
    }
}
