//! Where the server of a vendor is, and how paths below it are made.

use super::Vendor;
use crate::credential::Lookup;
use placet_net::{NetError, Url};

/// How a vendor's place is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// One address; a variable may name another.
    Fixed,
    /// One address; a variable may name another, and leave the path out.
    WithPath(&'static str),
    /// A resource of Azure's, named by a variable.
    Azure,
    /// A project and a location of Google's cloud, named by variables; the publisher of the models.
    Vertex(&'static str),
}

/// How paths below a base URL are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// As the protocol says.
    #[default]
    Plain,
    /// As the protocol says, with a version of the API in the query.
    Versioned(String),
    /// Every model is a deployment with a path of its own, with a version of the API in the query.
    Deployments(String),
}

impl Framing {
    /// The path of OpenAI Chat for a model.
    pub(crate) fn chat_path(&self, model: &str) -> String {
        match self {
            Framing::Deployments(_) => format!("deployments/{}/chat/completions", segment(model)),
            _ => "chat/completions".to_owned(),
        }
    }

    /// The path of OpenAI's embeddings for a model.
    pub(crate) fn embeddings_path(&self, model: &str) -> String {
        match self {
            Framing::Deployments(_) => format!("deployments/{}/embeddings", segment(model)),
            _ => "embeddings".to_owned(),
        }
    }

    /// The whole address.
    pub(crate) fn url(&self, base: &Url, path: &str) -> Result<Url, NetError> {
        let url = base.join(path)?;
        match self {
            Framing::Plain => Ok(url),
            Framing::Versioned(version) | Framing::Deployments(version) => url.with_query("api-version", version),
        }
    }
}

/// A name as one segment of a path.
pub(crate) fn segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'@' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn set(name: &str, lookup: &Lookup) -> Option<String> {
    lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

const AZURE_VERSIONS: [&str; 2] = ["AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION"];
const PROJECTS: [&str; 2] = ["GOOGLE_CLOUD_PROJECT", "VERTEX_PROJECT"];
const LOCATIONS: [&str; 2] = ["GOOGLE_CLOUD_LOCATION", "VERTEX_LOCATION"];

impl Vendor {
    /// How paths are made, by what variables say.
    pub(crate) fn framing(&self, lookup: &Lookup) -> Framing {
        if self.place != Place::Azure {
            return Framing::Plain;
        }
        match AZURE_VERSIONS.iter().find_map(|name| set(name, lookup)) {
            // Dated versions know deployments only.
            Some(version) if version.starts_with("20") => Framing::Deployments(version),
            Some(version) => Framing::Versioned(version),
            None => Framing::Plain,
        }
    }

    /// The variables that have to be set before the vendor can be asked, and are not.
    pub(crate) fn unset(&self, lookup: &Lookup) -> Vec<&'static str> {
        let is_unset = |names: &[&'static str]| names.iter().all(|name| set(name, lookup).is_none());
        match self.place {
            Place::Azure if is_unset(self.base_url_variables) => self.base_url_variables[..1].to_vec(),
            Place::Vertex(_) if is_unset(&PROJECTS) => PROJECTS[..1].to_vec(),
            _ => Vec::new(),
        }
    }

    /// Whether a variable may put another server in the vendor's place.
    pub(crate) fn may_be_elsewhere(&self) -> bool {
        matches!(self.place, Place::Fixed | Place::WithPath(_))
    }
}

/// Where the server of a vendor is, and the variable that says so: the first of its variables that is set, else the
/// vendor's own place and no variable.
#[must_use]
pub fn vendor_base_url(vendor: &Vendor, lookup: &Lookup) -> (String, Option<&'static str>) {
    let said = vendor.base_url_variables.iter().find_map(|name| Some((*name, set(name, lookup)?)));
    match (vendor.place, said) {
        (_, Some((name, value))) if name == "OLLAMA_HOST" => (ollama_base_url(&value), Some(name)),
        (Place::WithPath(path), Some((name, value))) => (with_path(&value, path), Some(name)),
        (Place::Azure, Some((name, value))) => {
            let value = value.trim_end_matches('/');
            let below = match vendor.framing(lookup) {
                Framing::Deployments(_) => "/openai",
                _ => "/openai/v1",
            };
            let value = if value.contains("/openai") { value.to_owned() } else { format!("{value}{below}") };
            (value, Some(name))
        }
        (Place::Vertex(publisher), said) => {
            let location = LOCATIONS.iter().find_map(|name| set(name, lookup)).unwrap_or_else(|| "global".to_owned());
            let project = PROJECTS.iter().find_map(|name| set(name, lookup)).unwrap_or_else(|| "-".to_owned());
            let host = match &said {
                Some((_, value)) => value.trim_end_matches('/').to_owned(),
                None if location == "global" => "https://aiplatform.googleapis.com/v1".to_owned(),
                None => format!("https://{}-aiplatform.googleapis.com/v1", segment(&location)),
            };
            let (project, location) = (segment(&project), segment(&location));
            let url = format!("{host}/projects/{project}/locations/{location}/publishers/{publisher}");
            (url, said.map(|(name, _)| name))
        }
        (_, Some((name, value))) => (value, Some(name)),
        (_, None) => (vendor.base_url.to_owned(), None),
    }
}

/// The address with this path, where it has none of its own.
fn with_path(url: &str, path: &str) -> String {
    let url = url.trim_end_matches('/');
    let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    if has_path { url.to_owned() } else { format!("{url}{path}") }
}

/// The base URL that an `OLLAMA_HOST` means: a host, a host and port, a port after a colon, or a URL. An address that a
/// server listens on everywhere with is reached at this machine.
#[must_use]
pub fn ollama_base_url(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    let is_bare_v6 = authority.matches(':').count() > 1 && !authority.contains(']');
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !is_bare_v6 && !port.contains(']') => (name, port),
        _ => (authority, if scheme == "https" { "443" } else { "11434" }),
    };
    let name = match name {
        "" | "0.0.0.0" | "[::]" | "::" => "127.0.0.1".to_owned(),
        name if is_bare_v6 => format!("[{name}]"),
        name => name.to_owned(),
    };
    let path = if path.is_empty() { "v1" } else { path };
    format!("{scheme}://{name}:{port}/{path}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn every_form_of_ollama_host() {
        for (host, wanted) in [
            ("", "http://127.0.0.1:11434/v1"),
            ("127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            (":9000", "http://127.0.0.1:9000/v1"),
            ("box", "http://box:11434/v1"),
            ("http://box:1234/", "http://box:1234/v1"),
            ("https://ollama.example", "https://ollama.example:443/v1"),
            ("https://h/prefix/v1", "https://h:443/prefix/v1"),
            ("[::1]:11434", "http://[::1]:11434/v1"),
            ("::1", "http://[::1]:11434/v1"),
            ("[::]:11434", "http://127.0.0.1:11434/v1"),
        ] {
            assert_eq!(ollama_base_url(host), wanted, "{host}");
        }
    }

    #[test]
    fn names_become_one_segment_of_a_path() {
        assert_eq!(segment("claude-x@20260101"), "claude-x@20260101");
        assert_eq!(segment("../a b?"), "..%2Fa%20b%3F");
        assert_eq!(with_path("http://h:1/", "/v1"), "http://h:1/v1");
        assert_eq!(with_path("http://h:1/x/v2", "/v1"), "http://h:1/x/v2");
    }
}
