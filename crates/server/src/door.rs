//! The door: what every request has to be, on every path, with or without a key.
//!
//! A page in somebody's browser can send requests to this machine. It cannot choose their `Host` (a name that was made to
//! point here gives itself away), cannot leave out its own `Origin`, and cannot send JSON as such without asking first, which
//! is never answered.

use crate::config::Config;
use crate::refusal::Refusal;
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Method, Uri};
use placet_core::ErrorKind;
use std::net::IpAddr;

/// Who is let in.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    hosts: Vec<String>,
    any_host: bool,
    origins: Vec<String>,
    /// Names of this machine count where only it is listened on, and so does the address that is.
    is_loopback: bool,
    listen: IpAddr,
}

impl Door {
    pub(crate) fn new(config: &Config) -> Self {
        Door {
            any_host: config.hosts.iter().any(|host| host == "*"),
            hosts: config.hosts.clone(),
            origins: config.origins.clone(),
            is_loopback: config.listen.ip().is_loopback() || config.listen.ip().is_unspecified(),
            listen: config.listen.ip(),
        }
    }

    /// Lets a request in, or says why not.
    pub(crate) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let authority = uri.authority().map(|authority| authority.as_str());
        let named = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().ok(),
            (None, None) => authority,
            _ => None,
        };
        // An address that is asked for whole means the same server as `Host`, or nobody's.
        let is_one = authority.is_none_or(|authority| self.admits(authority));
        let Some(host) = named.filter(|host| is_one && self.admits(host)) else {
            let message = "the name in `Host` is not one of this gateway's; add it to `hosts` in its configuration";
            return Err(Refusal::new(421, ErrorKind::Permission, message));
        };
        if let Some(origin) = headers.get(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let is_own = origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
            if !is_own && !self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
                let message = "requests of web pages from elsewhere are not taken; add the page's origin to `origins`";
                return Err(Refusal::new(403, ErrorKind::Permission, message));
            }
        }
        match *method {
            Method::POST | Method::PUT | Method::PATCH => check_json(headers),
            Method::GET | Method::HEAD | Method::DELETE => Ok(()),
            _ => Err(Refusal::method("GET, HEAD, POST, PUT, PATCH, DELETE")),
        }
    }

    fn admits(&self, host: &str) -> bool {
        if self.any_host {
            return true;
        }
        let name = without_port(host);
        if self.is_loopback {
            if name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1" {
                return true;
            }
            let bare = name.trim_start_matches('[').trim_end_matches(']');
            if bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) {
                return true;
            }
        }
        let is_listen = !self.listen.is_unspecified()
            && name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() == Ok(self.listen);
        is_listen || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name) || known.eq_ignore_ascii_case(host))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // The colons of a bare address of version 6 are no port.
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.contains(':') => name,
        Some((name, port)) if name.ends_with(']') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// A body is JSON and says so. A request that declares no body needs no type.
fn check_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let first = kinds.next();
    if kinds.next().is_some() {
        return Err(not_json());
    }
    let Some(kind) = first else {
        let is_empty = headers.get(http::header::CONTENT_LENGTH).is_none_or(|length| length.as_bytes() == b"0")
            && !headers.contains_key(http::header::TRANSFER_ENCODING);
        return if is_empty { Ok(()) } else { Err(not_json()) };
    };
    let kind = kind.as_bytes();
    const JSON: &[u8] = b"application/json";
    if kind == JSON {
        return Ok(());
    }
    let essence = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is_json = essence.eq_ignore_ascii_case(JSON)
        || (essence.to_ascii_lowercase().starts_with(b"application/")
            && essence.to_ascii_lowercase().ends_with(b"+json"));
    if is_json { Ok(()) } else { Err(not_json()) }
}

fn not_json() -> Refusal {
    let message = "bodies are JSON and say so: send `content-type: application/json`";
    Refusal::new(415, ErrorKind::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn status(config: &Config, method: &str, headers: &[(&'static str, &'static str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let method: Method = method.parse().unwrap();
        Door::new(config)
            .check(&method, &Uri::from_static("/v1/models"), &map)
            .err()
            .map_or(200, |refusal| refusal.status)
    }

    #[test]
    fn only_names_of_this_gateway_are_let_in() {
        let mut config = Config::default();
        for (host, wanted) in [
            ("localhost:8080", 200),
            ("127.0.0.1", 200),
            ("127.0.0.2:9", 200),
            ("[::1]:8080", 200),
            ("evil.example", 421),
            ("localhost.evil.example", 421),
            ("127.0.0.1.evil.example:8080", 421),
            ("", 421),
        ] {
            assert_eq!(status(&config, "GET", &[("host", host)]), wanted, "{host}");
        }
        let whole = |address: &'static str| {
            let headers = HeaderMap::from_iter([(HOST, "localhost:8080".parse().unwrap())]);
            Door::new(&config)
                .check(&Method::GET, &Uri::from_static(address), &headers)
                .err()
                .map(|refusal| refusal.status)
        };
        assert_eq!(whole("http://evil.example/v1/models"), Some(421));
        assert_eq!(whole("http://127.0.0.1:8080/v1/models"), None);
        assert_eq!(status(&config, "GET", &[]), 421);
        assert_eq!(status(&config, "GET", &[("host", "localhost"), ("host", "evil.example")]), 421);
        config.hosts = vec!["gate.example.com".into()];
        assert_eq!(status(&config, "GET", &[("host", "GATE.example.com:443")]), 200);
        config.listen = "10.0.0.7:80".parse().unwrap();
        assert_eq!(status(&config, "GET", &[("host", "10.0.0.7:80")]), 200);
        assert_eq!(status(&config, "GET", &[("host", "localhost")]), 421);
    }

    #[test]
    fn pages_from_elsewhere_and_bodies_that_are_no_json_stay_outside() {
        let mut config = Config::default();
        let host = ("host", "localhost:8080");
        let json = ("content-type", "application/json; charset=utf-8");
        let length = ("content-length", "2");
        assert_eq!(status(&config, "POST", &[host, json, ("origin", "https://evil.example")]), 403);
        assert_eq!(status(&config, "POST", &[host, json, ("origin", "null")]), 403);
        assert_eq!(status(&config, "POST", &[host, json, ("origin", "http://localhost:8080")]), 200);
        config.origins = vec!["https://console.example.com".into()];
        assert_eq!(status(&config, "POST", &[host, json, ("origin", "https://console.example.com")]), 200);
        for (kind, wanted) in
            [("text/plain", 415), ("application/x-www-form-urlencoded", 415), ("application/problem+json", 200)]
        {
            assert_eq!(status(&config, "POST", &[host, length, ("content-type", kind)]), wanted);
        }
        let text = ("content-type", "text/plain");
        assert_eq!(status(&config, "POST", &[host, length, json, text]), 415, "one type, and no other");
        assert_eq!(status(&config, "POST", &[host, length]), 415);
        assert_eq!(status(&config, "POST", &[host]), 200);
        assert_eq!(status(&config, "OPTIONS", &[host]), 405);
    }
}
