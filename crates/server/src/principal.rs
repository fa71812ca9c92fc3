//! Who is asking.

use crate::config::{Config, KeyEntry};
use crate::refusal::Refusal;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Uri};
use placet_board::http::Grant;
use placet_core::ErrorKind;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// Who is asking: a key, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// The key's name, never the key; `local` where none is needed.
    pub key: Arc<str>,
    /// Whose key it is.
    pub user: Option<Arc<str>>,
    /// The team it belongs to.
    pub team: Option<Arc<str>>,
    models: Vec<String>,
    boards: Option<Grant>,
    is_anybody: bool,
}

impl Principal {
    fn local() -> Self {
        Principal { key: "local".into(), user: None, team: None, models: Vec::new(), boards: None, is_anybody: true }
    }

    fn of(entry: &KeyEntry) -> Self {
        Principal {
            key: entry.name.as_str().into(),
            user: entry.user.as_deref().map(Arc::from),
            team: entry.team.as_deref().map(Arc::from),
            models: entry.models.clone(),
            boards: entry.boards.clone(),
            is_anybody: false,
        }
    }

    /// Whether no key is needed: it may be anybody who reaches the listener.
    #[must_use]
    pub fn is_anybody(&self) -> bool {
        self.is_anybody
    }

    /// What its key may do on boards; nothing where its entry does not say.
    #[must_use]
    pub fn boards(&self) -> Option<&Grant> {
        self.boards.as_ref()
    }

    /// Whether a model of that name may be asked.
    #[must_use]
    pub fn may_use(&self, model: &str) -> bool {
        self.models.is_empty()
            || self.models.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(beginning) => model.starts_with(beginning),
                None => pattern == model,
            })
    }
}

/// Every key that is known, by its hash.
pub(crate) struct Keys {
    known: Vec<([u8; 32], Arc<Principal>)>,
    local: Option<Arc<Principal>>,
}

impl Keys {
    pub(crate) fn new(config: &Config) -> Self {
        let known = config.keys.iter().map(|entry| (entry.sha256, Arc::new(Principal::of(entry)))).collect();
        Keys { known, local: config.keys.is_empty().then(|| Arc::new(Principal::local())) }
    }

    /// Who presents this request: `authorization: Bearer`, `x-api-key`, `x-goog-api-key`, `api-key` or `?key=`.
    pub(crate) fn authenticate(&self, uri: &Uri, headers: &HeaderMap) -> Result<Arc<Principal>, Refusal> {
        if let Some(local) = &self.local {
            return Ok(local.clone());
        }
        let Some(presented) = presented(uri, headers).filter(|key| !key.is_empty()) else {
            let message = "a key is needed: send it as `authorization: Bearer …`, `x-api-key` or `x-goog-api-key`";
            return Err(Refusal::new(401, ErrorKind::Authentication, message));
        };
        self.find(presented)
            .ok_or_else(|| Refusal::new(401, ErrorKind::Authentication, "the key is not one of this gateway's"))
    }

    /// Looks at every key, whichever it is, so that the time taken tells nothing.
    fn find(&self, presented: &[u8]) -> Option<Arc<Principal>> {
        let hash: [u8; 32] = Sha256::digest(presented).into();
        let mut found = None;
        for (known, principal) in &self.known {
            if is_same(known, &hash) {
                found = Some(principal);
            }
        }
        found.cloned()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known.iter().map(|(_, principal)| &principal.key)).finish()
    }
}

/// Compares in a time that does not depend on where they differ.
fn is_same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let difference = a.iter().zip(b).fold(0_u8, |difference, (a, b)| difference | (a ^ b));
    std::hint::black_box(difference) == 0
}

fn presented<'r>(uri: &'r Uri, headers: &'r HeaderMap) -> Option<&'r [u8]> {
    if let Some(value) = headers.get(AUTHORIZATION) {
        let value = value.as_bytes();
        let (scheme, key) = value.split_at_checked(7).unwrap_or((value, &[]));
        if scheme.eq_ignore_ascii_case(b"bearer ") {
            return Some(key.trim_ascii());
        }
    }
    let named = ["x-api-key", "x-goog-api-key", "api-key"].iter().find_map(|name| headers.get(*name));
    if let Some(value) = named {
        return Some(value.as_bytes().trim_ascii());
    }
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("key=")).map(str::as_bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn keys() -> Keys {
        let entry = |name: &str, key: &str, models: &[&str]| KeyEntry {
            name: name.into(),
            sha256: Sha256::digest(key.as_bytes()).into(),
            models: models.iter().map(|model| (*model).to_owned()).collect(),
            user: None,
            team: None,
            boards: None,
        };
        Keys::new(&Config {
            keys: vec![entry("ann", "k-ann", &["gpt-*", "house"]), entry("ben", "k-ben", &[])],
            ..Config::default()
        })
    }

    fn who(uri: &'static str, header: Option<(&'static str, &'static str)>) -> Result<String, u16> {
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            headers.insert(name, value.parse().unwrap());
        }
        let found = keys().authenticate(&Uri::from_static(uri), &headers);
        found.map(|principal| principal.key.to_string()).map_err(|refusal| refusal.status)
    }

    #[test]
    fn a_key_is_taken_wherever_clients_put_it() {
        for (uri, header) in [
            ("/", Some(("authorization", "Bearer k-ann"))),
            ("/", Some(("authorization", "bearer  k-ann "))),
            ("/", Some(("x-api-key", "k-ann"))),
            ("/", Some(("x-goog-api-key", "k-ann"))),
            ("/?alt=sse&key=k-ann", None),
        ] {
            assert_eq!(who(uri, header), Ok("ann".to_owned()));
        }
        assert_eq!(who("/", Some(("x-api-key", "k-ben"))), Ok("ben".to_owned()));
        for header in [
            None,
            Some(("authorization", "Bearer ")),
            Some(("authorization", "Basic k-ann")),
            Some(("x-api-key", "ann")),
        ] {
            assert_eq!(who("/", header), Err(401));
        }
    }

    #[test]
    fn a_key_may_use_what_it_lists() {
        let principal = keys().known[0].1.clone();
        assert!(principal.may_use("gpt-5") && principal.may_use("house"));
        assert!(!principal.may_use("claude") && !principal.may_use("house-2"));
    }
}
