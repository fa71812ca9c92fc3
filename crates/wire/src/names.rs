//! Tool names that providers take, and the way back.
//!
//! OpenAI and those who copy it take `^[A-Za-z0-9_-]{1,64}$`. Any other name goes out under an alias. An alias depends on
//! nothing but the name, so that adding a tool never changes how the others are called.

use placet_core::ToolName;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The longest name that may go out.
pub const MAX_LENGTH: usize = 64;
const HASH_DIGITS: usize = 8;

/// The aliases of one request, for reading its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    originals: BTreeMap<String, ToolName>,
}

impl Names {
    /// The aliases of these tools.
    pub fn of<'a>(tools: impl IntoIterator<Item = &'a ToolName>) -> Self {
        Names::within(MAX_LENGTH, tools)
    }

    /// The aliases of these tools at a provider that takes names of up to `longest` characters.
    pub fn within<'a>(longest: usize, tools: impl IntoIterator<Item = &'a ToolName>) -> Self {
        let aliased = tools.into_iter().filter_map(|name| match alias_within(longest, name.as_str()) {
            Cow::Owned(alias) => Some((alias, name.clone())),
            Cow::Borrowed(_) => None,
        });
        Names { originals: aliased.collect() }
    }

    /// The tool that an answer means by `name`. A name that is no alias is taken as it is.
    #[must_use]
    pub fn original(&self, name: &str) -> ToolName {
        self.originals.get(name).cloned().unwrap_or_else(|| ToolName::new(name))
    }

    /// Notes what an answer means by `name` of a namespace.
    pub(crate) fn note_in(&mut self, namespace: &str, name: &str, tool: ToolName) {
        self.originals.insert(namespaced(namespace, name), tool);
    }

    /// The tool that an answer means by `name`, which may be one of a namespace. A namespace that nobody declared says nothing:
    /// some providers put one before the tools that they load later.
    pub(crate) fn original_in(&self, namespace: Option<&str>, name: &str) -> ToolName {
        let noted = namespace.and_then(|namespace| self.originals.get(&namespaced(namespace, name)));
        noted.cloned().unwrap_or_else(|| self.original(name))
    }

    /// Whether every name goes out as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.originals.is_empty()
    }
}

/// No name holds this character, so that no plain name is taken for one of a namespace.
fn namespaced(namespace: &str, name: &str) -> String {
    format!("{namespace}\u{1f}{name}")
}

/// The name under which `name` goes out: itself where it may, else with `_` for what may not stand and the beginning of
/// a hash of the whole name, which tells apart what then reads the same.
#[must_use]
pub fn alias(name: &str) -> Cow<'_, str> {
    alias_within(MAX_LENGTH, name)
}

/// As [`alias`], for a provider that takes names of up to `longest` characters, which are at least 64.
#[must_use]
pub fn alias_within(longest: usize, name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= longest.max(MAX_LENGTH) && name.chars().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let kept = MAX_LENGTH - HASH_DIGITS - 1;
    let mut alias: String = name.chars().take(kept).map(|c| if is_plain(c) { c } else { '_' }).collect();
    alias.push('_');
    for byte in Sha256::digest(name.as_bytes()).iter().take(HASH_DIGITS / 2) {
        // Writing to a text cannot go wrong.
        let _ = write!(alias, "{byte:02x}");
    }
    Cow::Owned(alias)
}

/// What whoever sent a call knows it as: the id that it came with, else ours.
pub(crate) fn known_as(call: &placet_core::ToolCall) -> &str {
    call.provider_id.as_deref().filter(|id| !id.is_empty()).unwrap_or_else(|| call.id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_go_out_as_they_are() {
        for name in ["read", "a-b_C9", &"x".repeat(64)] {
            assert_eq!(alias(name), name);
        }
        assert!(Names::of(&[ToolName::new("read")]).is_empty());
    }

    #[test]
    fn other_names_go_out_under_an_alias_and_come_back() {
        let odd = ["", "mcp:crm.lookup", "mcp:crm_lookup", "größe", &"x".repeat(65), &format!("{}y", "x".repeat(65))];
        let tools: Vec<ToolName> = odd.iter().map(ToolName::new).collect();
        let names = Names::of(&tools);
        let mut seen = std::collections::BTreeSet::new();
        for tool in &tools {
            let alias = alias(tool.as_str()).into_owned();
            assert!(alias.len() <= MAX_LENGTH && !alias.is_empty(), "{alias}");
            assert!(alias.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{alias}");
            assert_eq!(names.original(&alias), *tool);
            assert!(seen.insert(alias));
        }
        assert_eq!(names.original("other").as_str(), "other");
    }
}
