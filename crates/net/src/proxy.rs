//! Which proxy a request goes through.

use crate::NetError;
use crate::url::masked_text;
use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Proxies by scheme, with exceptions. Made from values that a caller hands in; nothing here reads the environment.
///
/// A proxy is `http://[user[:password]@]host[:port]` or `https://…` (TLS to the proxy itself). `http` addresses are
/// forwarded by it, `https` addresses tunnelled through it with `CONNECT`. `localhost` and loopback addresses never go
/// through a proxy, so that local model servers work on machines that have one.
#[derive(Clone, Default)]
pub struct ProxySettings {
    rules: Option<Arc<Rules>>,
}

struct Rules {
    matcher: Matcher,
    /// `host:port` entries of the exceptions, which the matcher does not know.
    with_port: Vec<(String, u16)>,
}

impl ProxySettings {
    /// No proxy.
    #[must_use]
    pub fn none() -> Self {
        ProxySettings::default()
    }

    /// Proxies from the customary variables: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, each also in small
    /// letters, the capital form first. Under CGI (`REQUEST_METHOD` is set) a client could set `HTTP_PROXY` by a header, so
    /// it is not read there.
    ///
    /// # Errors
    /// As [`ProxySettings::new`].
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> crate::Result<Self> {
        let read = |name: &'static str| {
            let value = var(name).or_else(|| var(&name.to_ascii_lowercase())).unwrap_or_default();
            (name, value.trim().to_owned())
        };
        let mut http = read("HTTP_PROXY");
        if var("REQUEST_METHOD").is_some() {
            http.1 = var("http_proxy").unwrap_or_default();
        }
        ProxySettings::checked(read("ALL_PROXY"), http, read("HTTPS_PROXY"), &read("NO_PROXY").1)
    }

    /// A proxy for `http` addresses, one for `https` addresses (each may be empty) and the exceptions.
    ///
    /// Exceptions are separated by commas: a name excepts itself and everything below it (`example.com`, `.example.com` and
    /// `*.example.com` alike), `host:port` only that port, an IP address or network (`10.0.0.0/8`) the addresses that are
    /// written as such, `*` everything.
    ///
    /// # Errors
    /// [`NetError::InvalidSetting`] when a proxy's address cannot be used.
    pub fn new(http: &str, https: &str, except: &str) -> crate::Result<Self> {
        let empty = ("ALL_PROXY", String::new());
        ProxySettings::checked(empty, ("HTTP_PROXY", http.to_owned()), ("HTTPS_PROXY", https.to_owned()), except)
    }

    fn checked(all: (&str, String), http: (&str, String), https: (&str, String), except: &str) -> crate::Result<Self> {
        for (name, value) in [&all, &http, &https] {
            check_proxy(name, value)?;
        }
        if all.1.is_empty() && http.1.is_empty() && https.1.is_empty() {
            return Ok(ProxySettings::none());
        }
        let mut with_port = Vec::new();
        let mut plain = Vec::new();
        for entry in except.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let entry = entry.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(entry);
            let bare = entry.trim_start_matches('[').trim_end_matches(']');
            match entry.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
                Some((host, Ok(port))) if bare.parse::<IpAddr>().is_err() => {
                    with_port.push((host.trim_start_matches('.').to_ascii_lowercase(), port));
                }
                _ => plain.push(bare.to_owned()),
            }
        }
        let matcher = Matcher::builder().all(all.1).http(http.1).https(https.1).no(plain.join(",")).build();
        Ok(ProxySettings { rules: Some(Arc::new(Rules { matcher, with_port })) })
    }

    /// The proxy for an address, if it goes through one.
    pub(crate) fn route(&self, target: &Uri) -> Option<Intercept> {
        let rules = self.rules.as_deref()?;
        let host = target.host()?.trim_end_matches('.');
        if is_local(host) || rules.excepts(host, target) {
            return None;
        }
        rules.matcher.intercept(target)
    }
}

impl Rules {
    fn excepts(&self, host: &str, target: &Uri) -> bool {
        let port = target.port_u16().unwrap_or(if target.scheme_str() == Some("https") { 443 } else { 80 });
        let host = host.to_ascii_lowercase();
        self.with_port.iter().any(|(name, with)| *with == port && is_at_or_below(&host, name))
    }
}

/// Whether `host` is `name` or below it; both in small letters.
pub(crate) fn is_at_or_below(host: &str, name: &str) -> bool {
    host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether a host is this machine by its very name.
pub(crate) fn is_local(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => is_at_or_below(&host.to_ascii_lowercase(), "localhost"),
    }
}

fn check_proxy(setting: &str, value: &str) -> crate::Result<()> {
    if value.is_empty() {
        return Ok(());
    }
    let unusable = |reason: String| {
        Err(NetError::InvalidSetting {
            setting: setting.to_owned(),
            reason: format!("`{}` {reason}", masked_text(value)),
            cause: None,
        })
    };
    let Ok(uri) = value.parse::<Uri>() else {
        return unusable("is no address, expected `http://host:port`".to_owned());
    };
    if uri.host().is_none_or(str::is_empty) {
        return unusable("names no host, expected `http://host:port`".to_owned());
    }
    match uri.scheme_str() {
        None | Some("http" | "https") => Ok(()),
        Some(scheme) => unusable(format!("is a `{scheme}` proxy, only `http` and `https` proxies are supported")),
    }
}

impl fmt::Debug for ProxySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rules.as_deref() {
            // The matcher's own form leaves credentials out.
            Some(rules) => f
                .debug_struct("ProxySettings")
                .field("rules", &rules.matcher)
                .field("with_port", &rules.with_port)
                .finish(),
            None => f.write_str("ProxySettings(none)"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn from(vars: &[(&str, &str)]) -> crate::Result<ProxySettings> {
        let find = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        ProxySettings::from_vars(find)
    }

    fn route(settings: &ProxySettings, target: &str) -> Option<String> {
        settings.route(&target.parse().unwrap()).map(|intercept| intercept.uri().to_string())
    }

    #[test]
    fn each_scheme_has_its_proxy() {
        let settings =
            from(&[("HTTP_PROXY", "http://a:1"), ("https_proxy", "b:2"), ("ALL_PROXY", "http://c:3")]).unwrap();
        assert_eq!(route(&settings, "http://x/").as_deref(), Some("http://a:1/"));
        assert_eq!(route(&settings, "https://x/").as_deref(), Some("http://b:2/"));
        let settings = from(&[("ALL_PROXY", "https://c:3")]).unwrap();
        assert_eq!(route(&settings, "https://x/").as_deref(), Some("https://c:3/"));
        assert_eq!(route(&from(&[]).unwrap(), "https://x/"), None);
    }

    #[test]
    fn exceptions_go_direct() {
        let except = "example.com, .dot.net,*.star.org,10.0.0.0/8,192.168.1.7,[fd00::1],port.io:8443";
        let settings = from(&[("ALL_PROXY", "http://p:1"), ("NO_PROXY", except)]).unwrap();
        for (target, direct) in [
            ("https://example.com/", true),
            ("https://EXAMPLE.com:444/", true),
            ("https://a.example.com/", true),
            ("https://notexample.com/", false),
            ("https://a.dot.net/", true),
            ("https://b.star.org/", true),
            ("https://b.star.org.evil/", false),
            ("http://10.1.2.3/", true),
            ("http://11.1.2.3/", false),
            ("http://192.168.1.7:90/", true),
            ("http://[fd00::1]/", true),
            ("http://[fd00::2]/", false),
            ("https://port.io:8443/", true),
            ("https://a.port.io:8443/", true),
            ("https://port.io/", false),
            ("http://localhost:11434/", true),
            ("http://127.0.0.1/", true),
            ("http://[::1]/", true),
            ("http://notlocalhost/", false),
        ] {
            assert_eq!(route(&settings, target).is_none(), direct, "{target}");
        }
        let settings = from(&[("ALL_PROXY", "http://p:1"), ("NO_PROXY", "*")]).unwrap();
        assert_eq!(route(&settings, "https://x/"), None);
    }

    #[test]
    fn a_bad_proxy_is_named_without_its_password() {
        for value in ["socks5://u:hunter2@h:1", "http://u:hunter2@/", "http://u:hunter2@h ost"] {
            let error = from(&[("HTTPS_PROXY", value)]).unwrap_err().to_string();
            assert!(error.contains("HTTPS_PROXY") && !error.contains("hunter2"), "{error}");
        }
        let settings = from(&[("HTTPS_PROXY", "http://u:hunter2@h:1")]).unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn a_client_of_a_cgi_program_cannot_choose_its_proxy() {
        let settings = from(&[("HTTP_PROXY", "http://evil:1"), ("REQUEST_METHOD", "GET")]).unwrap();
        assert_eq!(route(&settings, "http://x/"), None);
    }
}
