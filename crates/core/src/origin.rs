//! Where content came from: labels that travel with every item and every tool result.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// One place that content came from.
///
/// Serialised as `kind` or `kind:name`, for example `user` or `mcp:crm`. An unknown kind survives a round trip.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// Whoever runs the program: instructions, configuration.
    Operator,
    /// The person (or program) that asks.
    User,
    /// A model's own words.
    Model,
    /// What a tool computed; the name is the tool's.
    Tool(String),
    /// Content of a web page or search result; the name is the host where it is known.
    Web(Option<String>),
    /// Content of a file.
    File,
    /// What an MCP server sent; the name is the server's.
    Mcp(String),
    /// What another agent said; the name is the agent's.
    Agent(String),
    /// A label of a newer version, kept as it came.
    Other(String),
}

impl Origin {
    /// Whether somebody outside the operator's and the user's control may have written it.
    ///
    /// Policies use this: a tool that sends outside can be made to ask once untrusted content has entered a run.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        match self {
            Origin::Operator | Origin::User | Origin::Model | Origin::Tool(_) => false,
            Origin::Web(_) | Origin::File | Origin::Mcp(_) | Origin::Agent(_) | Origin::Other(_) => true,
        }
    }

    fn parse(text: &str) -> Self {
        let (kind, name) = match text.split_once(':') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (text, None),
        };
        match (kind, name) {
            ("operator", None) => Origin::Operator,
            ("user", None) => Origin::User,
            ("model", None) => Origin::Model,
            ("file", None) => Origin::File,
            ("tool", Some(name)) => Origin::Tool(name),
            ("mcp", Some(name)) => Origin::Mcp(name),
            ("agent", Some(name)) => Origin::Agent(name),
            ("web", name) => Origin::Web(name),
            _ => Origin::Other(text.to_owned()),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Operator => f.write_str("operator"),
            Origin::User => f.write_str("user"),
            Origin::Model => f.write_str("model"),
            Origin::File => f.write_str("file"),
            Origin::Web(None) => f.write_str("web"),
            Origin::Web(Some(host)) => write!(f, "web:{host}"),
            Origin::Tool(name) => write!(f, "tool:{name}"),
            Origin::Mcp(name) => write!(f, "mcp:{name}"),
            Origin::Agent(name) => write!(f, "agent:{name}"),
            Origin::Other(text) => f.write_str(text),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Origin::parse(&std::borrow::Cow::<'de, str>::deserialize(deserializer)?))
    }
}

/// A set of origins, sorted, without repetition. What is made from several things has all their origins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Origins(Vec<Origin>);

impl Origins {
    /// No origin known yet.
    #[must_use]
    pub const fn none() -> Self {
        Origins(Vec::new())
    }

    /// Adds one label.
    pub fn insert(&mut self, origin: Origin) {
        if let Err(place) = self.0.binary_search(&origin) {
            self.0.insert(place, origin);
        }
    }

    /// Adds all labels of `other`.
    pub fn extend(&mut self, other: &Origins) {
        for origin in &other.0 {
            if self.0.binary_search(origin).is_err() {
                self.insert(origin.clone());
            }
        }
    }

    /// The labels in order.
    pub fn iter(&self) -> impl Iterator<Item = &Origin> {
        self.0.iter()
    }

    /// Whether nothing is known of where it came from.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the label is there.
    #[must_use]
    pub fn contains(&self, origin: &Origin) -> bool {
        self.0.binary_search(origin).is_ok()
    }

    /// Whether anything here may have been written by somebody outside the operator's and the user's control.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        self.0.iter().any(Origin::is_untrusted)
    }
}

impl From<Origin> for Origins {
    fn from(origin: Origin) -> Self {
        Origins(vec![origin])
    }
}

impl FromIterator<Origin> for Origins {
    fn from_iter<I: IntoIterator<Item = Origin>>(origins: I) -> Self {
        let mut set = Origins::none();
        for origin in origins {
            set.insert(origin);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_survive_a_round_trip_and_so_do_unknown_ones() {
        let origins: Origins = [
            Origin::Operator,
            Origin::User,
            Origin::Model,
            Origin::Tool("files.read".into()),
            Origin::Web(Some("example.org".into())),
            Origin::Web(None),
            Origin::File,
            Origin::Mcp("crm".into()),
            Origin::Agent("scout".into()),
            Origin::Other("satellite:4".into()),
        ]
        .into_iter()
        .collect();
        let json = serde_json::to_string(&origins).expect("serialises");
        assert_eq!(serde_json::from_str::<Origins>(&json).expect("reads back"), origins);
        assert!(json.contains("\"satellite:4\""));
    }

    #[test]
    fn merged_origins_are_untrusted_as_soon_as_one_is() {
        let mut origins = Origins::from(Origin::User);
        assert!(!origins.is_untrusted());
        origins.extend(&Origins::from(Origin::File));
        assert!(origins.is_untrusted());
        origins.insert(Origin::File);
        assert_eq!(origins.iter().count(), 2);
    }
}
