//! What a configuration says of providers.

use super::ProviderEntry;
use super::document::read_timeouts;
use super::reader::{At, Element, Reading, Table, plain, secret};
use crate::local::LOCAL_PROVIDERS;
use crate::vendors::speeches;
use indexmap::IndexMap;
use placet_core::Secret;
use placet_models::Lookup;
use placet_models::vendor::{VENDORS, vendor, vendor_base_url};
use placet_net::{Timeouts, Url};
use placet_wire::passing::Speech;
use std::path::Path;

/// Parameters of an address that hold a credential.
const CREDENTIALS: [&str; 10] =
    ["key", "api_key", "api-key", "apikey", "token", "access_token", "secret", "password", "sig", "signature"];

pub(super) fn read_providers(
    reading: &Reading<'_>,
    top: &Table<'_, '_>,
    base: &Path,
    lookup: &Lookup,
    timeouts: Timeouts,
) -> IndexMap<String, ProviderEntry> {
    let mut providers = IndexMap::new();
    for (name, table) in top.named("providers") {
        if LOCAL_PROVIDERS.contains(&name.value.as_str()) {
            table.wrong(name.at, "", "the name belongs to a model of our own", Some("choose another name"));
        }
        let said = table.text("vendor");
        let row = vendor(said.as_ref().map_or(name.value.as_str(), |text| text.value.as_str()));
        if let (Some(text), None) = (&said, row) {
            let known: Vec<&str> = VENDORS.iter().map(|row| row.id).collect();
            let hint = format!("known are {}; leave the line out and give a `base_url`", known.join(", "));
            table.wrong(text.at, "vendor", format!("no vendor is called {:?}", text.value), Some(&hint));
        }
        let url = table.text("base_url");
        let base_url = match (&url, row) {
            (Some(text), _) => {
                if let Err(error) = Url::parse(&text.value) {
                    let hint = "write for example \"http://127.0.0.1:8000/v1\"";
                    table.wrong(text.at, "base_url", error.to_string(), Some(hint));
                }
                check_url(&table, text, "base_url");
                text.value.clone()
            }
            (None, Some(row)) => vendor_base_url(row, lookup).0,
            (None, None) => {
                if said.is_none() {
                    let hint = "say where it is, for example \"http://127.0.0.1:8000/v1\", or name its `vendor`";
                    table.wrong(name.at, "base_url", "it is missing", Some(hint));
                }
                String::new()
            }
        };
        let mut key = secret(&table, lookup, base).map(|found| found.value);
        if key.is_none() && !table.has("key_env") && !table.has("key_file") {
            key = row.and_then(|row| row.key_variables.iter().find_map(|name| variable(lookup, name)));
            if let (Some(row), None, None) = (row, &key, &url)
                && row.is_key_required
            {
                let hint = format!("set {}, or name another variable in `key_env`", row.key_variables.join(" or "));
                table.wrong(name.at, "key_env", format!("{} wants a key and none is set", row.name), Some(&hint));
            }
        }
        let mut protocols = Vec::new();
        for text in table.texts("protocols").unwrap_or_default() {
            match Speech::named(&text.value) {
                Some(speech) => protocols.push(speech),
                None => {
                    let known: Vec<&str> = Speech::ALL.iter().map(|speech| speech.as_str()).collect();
                    let problem = format!("no protocol is called {:?}", text.value);
                    table.wrong(text.at, "protocols", problem, Some(&format!("known are {}", known.join(", "))));
                }
            }
        }
        if protocols.is_empty() {
            if table.has("protocols") && table.texts("protocols").is_some_and(|texts| texts.is_empty()) {
                let hint = "leave the line out for what is usual";
                table.wrong(table.place("protocols"), "protocols", "expected at least one", Some(hint));
            }
            protocols = speeches(row, url.is_some() && row.is_some_and(|row| row.base_url != base_url));
        }
        let (headers, secret_headers) = read_headers(&table, lookup, base);
        let own = table.table("timeouts").map(|own| {
            let read = read_timeouts(&own, timeouts);
            own.finish();
            read
        });
        let entry = ProviderEntry {
            vendor: row.map(|row| row.id),
            base_url,
            key,
            protocols,
            headers,
            secret_headers,
            models: plain(table.texts("models")),
            timeouts: own,
            line: reading.line(name.at),
        };
        providers.insert(name.value, entry);
        table.finish();
    }
    providers
}

/// Values by their names.
type Named<T> = Vec<(String, T)>;

/// Headers that are sent with every request: plain ones, and those whose values stand elsewhere.
/// Headers that say how a request is sent.
const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

fn read_headers(table: &Table<'_, '_>, lookup: &Lookup, base: &Path) -> (Named<String>, Named<Secret>) {
    let (mut plain, mut secrets) = (Vec::new(), Vec::new());
    for (header, value) in table.map("headers") {
        let name = http::HeaderName::try_from(header.value.as_str()).ok();
        let mut is_usable = name.is_some();
        if name.as_ref().is_some_and(|name| FRAMING.contains(&name.as_str())) {
            let problem = "it belongs to the connection, which the gateway sees to";
            table.wrong(header.at, &format!("headers.{}", header.value), problem, None);
            continue;
        }
        match value {
            Element::Text(text) => {
                is_usable &= http::HeaderValue::try_from(text.value.as_str()).is_ok();
                if name.is_some_and(|name| placet_net::is_sensitive_header(&name)) {
                    let setting = format!("headers.{}", header.value);
                    let hint = format!(
                        "put it into an environment variable: {:?} = {{ key_env = \"NAME\" }}; or into a file: key_file",
                        header.value
                    );
                    let problem = "a credential must not stand in the configuration";
                    table.wrong(text.at, &setting, problem, Some(&hint));
                }
                plain.push((header.value.clone(), text.value));
            }
            Element::Table(own) => {
                match secret(&own, lookup, base) {
                    Some(found) => {
                        is_usable &= http::HeaderValue::try_from(found.value.expose()).is_ok();
                        secrets.push((header.value.clone(), found.value));
                    }
                    None if !own.has("key_env") && !own.has("key_file") && !own.has("key") => {
                        own.wrong(own.at(), "key_env", "it is missing, expected the name of a variable", None);
                    }
                    None => {}
                }
                own.finish();
            }
        }
        if !is_usable {
            table.wrong(header.at, "headers", format!("{:?} cannot be sent as a header", header.value), None);
        }
    }
    (plain, secrets)
}

/// An address that stands in the file holds no credential.
pub(super) fn check_url(table: &Table<'_, '_>, url: &At<String>, setting: &str) {
    let rest = url.value.split_once("://").map_or("", |(_, rest)| rest);
    let has_user = rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'));
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let names_key = query.split('&').any(|pair| {
        let name = pair.split('=').next().unwrap_or_default().to_ascii_lowercase();
        CREDENTIALS.contains(&name.as_str())
    });
    if has_user || names_key {
        let hint = "take it out, and name the variable or file that holds it in `key_env` or `key_file`";
        table.wrong(url.at, setting, "a credential must not stand in the configuration", Some(hint));
    }
}

pub(super) fn variable(lookup: &Lookup, name: &str) -> Option<Secret> {
    let value = lookup(name)?.trim().to_owned();
    (!value.is_empty()).then(|| Secret::new(name, value))
}
