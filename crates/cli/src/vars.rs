//! Every environment variable that the program reads, and the one place where it reads them.

/// Where runs are kept. The same as `--home`.
pub(crate) const PLACET_HOME: &str = "PLACET_HOME";
/// The database that keeps runs, where it is no file. The same as `--store`; may hold a password.
pub(crate) const PLACET_STORE: &str = "PLACET_STORE";
/// The gateway's configuration. The same as `--config`.
pub(crate) const PLACET_CONFIG: &str = "PLACET_CONFIG";
/// The model to ask. The same as `--model`.
pub(crate) const PLACET_MODEL: &str = "PLACET_MODEL";
/// A catalog of models in place of the one that the program brings along; `off` for none: usage without cost.
pub(crate) const PLACET_CATALOG: &str = "PLACET_CATALOG";
/// What models cost, before the catalog.
pub(crate) const PLACET_PRICES: &str = "PLACET_PRICES";
/// What models can, before what is known of them.
pub(crate) const PLACET_PROFILES: &str = "PLACET_PROFILES";
/// Set to anything but nothing: no colours (see no-color.org).
pub(crate) const NO_COLOR: &str = "NO_COLOR";
/// The platform's folder for data of programs, on Linux.
pub(crate) const XDG_DATA_HOME: &str = "XDG_DATA_HOME";
/// Where commands look for programs.
pub(crate) const PATH: &str = "PATH";
/// The user's folder.
pub(crate) const HOME: &str = "HOME";

/// The value of a variable, where it is set, not empty and valid UTF-8.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Every variable that is valid UTF-8: what the redactor learns secrets from.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn all() -> Vec<(String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}
