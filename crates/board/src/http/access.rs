//! Who may do what: tokens bound to agents, boards and regions.

use placet_core::Digest;
use std::collections::{BTreeMap, BTreeSet};

/// What sort of thing is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Reading.
    Read,
    /// Writing under an agent's name.
    Write,
    /// Acknowledging, and asking for notifications, under an agent's name.
    Answer,
    /// Opening, closing, deleting, declaring, registering.
    Manage,
}

/// What a caller wants to do.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What sort of thing.
    pub act: Act,
    /// On which board; none for the list of them.
    pub board: Option<&'a str>,
    /// Under which name.
    pub agent: Option<&'a str>,
    /// To which region.
    pub region: Option<&'a str>,
}

/// Why a caller may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Nobody is known by that token, or none was shown.
    Unknown,
    /// The token does not allow this.
    Forbidden(String),
}

/// Decides who may do what.
pub trait Access: Send + Sync {
    /// Whether whoever shows `token` may do this.
    ///
    /// # Errors
    /// [`Denied`].
    fn allows(&self, token: Option<&str>, wanted: &Wanted<'_>) -> Result<(), Denied>;
}

/// What one caller may do. A set that is absent allows all; a name that ends with `*` stands for all that begin so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// These boards.
    pub boards: Option<BTreeSet<String>>,
    /// Writing and acknowledging under these names.
    pub agents: Option<BTreeSet<String>>,
    /// Writing to these regions. Reading is not bound to regions: a board is read whole.
    pub regions: Option<BTreeSet<String>>,
    /// Whether boards may be opened, closed, deleted and declared.
    pub manages: bool,
}

impl Grant {
    /// Whether it holds for this.
    ///
    /// # Errors
    /// [`Denied::Forbidden`].
    pub fn allows(&self, wanted: &Wanted<'_>) -> Result<(), Denied> {
        let within = |set: &Option<BTreeSet<String>>, name: Option<&str>, what: &str| match (set, name) {
            (Some(set), Some(name)) if !holds(set, name) => {
                Err(Denied::Forbidden(format!("the token is not for the {what} {name:?}")))
            }
            _ => Ok(()),
        };
        within(&self.boards, wanted.board, "board")?;
        match wanted.act {
            Act::Read => Ok(()),
            Act::Write => {
                within(&self.agents, wanted.agent, "agent")?;
                within(&self.regions, wanted.region, "region")
            }
            Act::Answer => within(&self.agents, wanted.agent, "agent"),
            Act::Manage if self.manages => Ok(()),
            Act::Manage => Err(Denied::Forbidden("the token is not for managing boards".to_owned())),
        }
    }
}

fn holds(set: &BTreeSet<String>, name: &str) -> bool {
    let begins = |known: &String| known.strip_suffix('*').is_some_and(|beginning| name.starts_with(beginning));
    set.contains(name) || set.iter().any(begins)
}

/// Tokens, kept as their digests only.
#[derive(Clone, Debug, Default)]
pub struct Tokens(BTreeMap<String, Grant>);

impl Tokens {
    /// No tokens: nobody may do anything.
    #[must_use]
    pub fn new() -> Self {
        Tokens::default()
    }

    /// Allows `grant` to whoever shows the token with this SHA-256 digest, in hexadecimal.
    #[must_use]
    pub fn with(mut self, digest: impl Into<String>, grant: Grant) -> Self {
        self.0.insert(digest.into().to_ascii_lowercase(), grant);
        self
    }
}

impl Access for Tokens {
    // The digest of what is shown is looked up, not the token compared: how long that takes says nothing of any token.
    fn allows(&self, token: Option<&str>, wanted: &Wanted<'_>) -> Result<(), Denied> {
        let grant = token.and_then(|token| self.0.get(&Digest::of(token.as_bytes()).to_hex()));
        grant.ok_or(Denied::Unknown)?.allows(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_bound_to_names_and_regions() {
        let set = |name: &str| Some(BTreeSet::from([name.to_owned()]));
        let grant = Grant { boards: set("b"), agents: set("ann"), regions: set("notes"), manages: false };
        let tokens = Tokens::new().with(Digest::of(b"secret").to_hex(), grant);
        let wanted = |act, agent, region| Wanted { act, board: Some("b"), agent: Some(agent), region: Some(region) };
        let asked = |token, wanted: &Wanted<'_>| tokens.allows(token, wanted);
        assert_eq!(asked(Some("secret"), &wanted(Act::Write, "ann", "notes")), Ok(()));
        assert_eq!(asked(Some("secret"), &wanted(Act::Read, "bob", "other")), Ok(()));
        assert_eq!(asked(None, &wanted(Act::Read, "ann", "notes")), Err(Denied::Unknown));
        assert_eq!(asked(Some("Secret"), &wanted(Act::Read, "ann", "notes")), Err(Denied::Unknown));
        for denied in [
            wanted(Act::Write, "bob", "notes"),
            wanted(Act::Write, "ann", "other"),
            wanted(Act::Answer, "bob", ""),
            wanted(Act::Manage, "ann", ""),
            Wanted { board: Some("c"), ..wanted(Act::Read, "ann", "notes") },
        ] {
            assert!(matches!(asked(Some("secret"), &denied), Err(Denied::Forbidden(_))), "{denied:?}");
        }
    }

    #[test]
    fn a_star_stands_for_any_rest() {
        let grant = Grant { boards: Some(BTreeSet::from(["team/*".to_owned(), "own".to_owned()])), ..Grant::default() };
        let reads = |board| grant.allows(&Wanted { act: Act::Read, board: Some(board), agent: None, region: None });
        assert!(reads("team/1").is_ok() && reads("team/").is_ok() && reads("own").is_ok());
        assert!(reads("team").is_err() && reads("owner").is_err() && reads("").is_err());
    }
}
