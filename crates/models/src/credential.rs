//! Credentials that are looked up when they are needed, and never before.

use crate::adapter::GoogleAccount;
use placet_core::{ErrorKind, ProviderError, ProviderId, Secret};
use std::fmt;
use std::sync::Arc;

/// Looks a variable up: the process's environment, a file of settings, a vault. An empty value counts as none.
pub type Lookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Where a provider's credential comes from.
#[derive(Clone)]
#[non_exhaustive]
pub enum Credential {
    /// It needs none.
    None,
    /// This one.
    Given(Secret),
    /// The first of these variables that holds something.
    Variables {
        /// The variables' names.
        names: Vec<String>,
        /// Whether there must be one.
        is_required: bool,
        /// Who knows them.
        lookup: Lookup,
    },
    /// A token that an account of Google's cloud gets when it is needed.
    Google(Arc<GoogleAccount>),
}

impl Credential {
    /// The credential, if there is one that stands somewhere; an account's token does not.
    ///
    /// # Errors
    /// [`ProviderError`] of kind *authentication* that names the variables, where one is required and none is set.
    pub fn resolve(&self, provider: &ProviderId) -> Result<Option<Secret>, ProviderError> {
        match self {
            Credential::None | Credential::Google(_) => Ok(None),
            Credential::Given(secret) => Ok(Some(secret.clone())),
            Credential::Variables { names, is_required, lookup } => {
                let found = names.iter().find_map(|name| {
                    let value = lookup(name)?.trim().to_owned();
                    (!value.is_empty()).then(|| Secret::new(name, value))
                });
                match found {
                    None if *is_required => Err(missing(provider, names)),
                    found => Ok(found),
                }
            }
        }
    }
}

fn missing(provider: &ProviderId, names: &[String]) -> ProviderError {
    let names = names.join(" or ");
    ProviderError::new(ErrorKind::Authentication, provider.clone(), format!("no key: {names} is not set"))
        .with_hint(format!("set {names}, or use another model; `offline` needs no key"))
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credential::None => f.write_str("None"),
            Credential::Google(account) => account.fmt(f),
            Credential::Given(secret) => secret.fmt(f),
            Credential::Variables { names, .. } => f.debug_list().entries(names).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_up_when_needed_and_never_shown() {
        let with = |value: Option<&'static str>, is_required| Credential::Variables {
            names: vec!["A_KEY".into(), "B_KEY".into()],
            is_required,
            lookup: Arc::new(move |name| if name == "B_KEY" { value.map(str::to_owned) } else { Some(" ".into()) }),
        };
        let provider = ProviderId::new("p");
        let found = with(Some("hunter2\n"), true).resolve(&provider).expect("a key").expect("a key");
        assert_eq!((found.name(), found.expose()), ("B_KEY", "hunter2"));
        assert!(!format!("{:?} {found:?}", with(Some("hunter2"), true)).contains("hunter2"));
        let error = with(None, true).resolve(&provider).expect_err("no key");
        assert_eq!(error.kind, ErrorKind::Authentication);
        assert!(error.message.contains("A_KEY or B_KEY"), "{error}");
        assert_eq!(with(None, false).resolve(&provider), Ok(None));
    }
}
