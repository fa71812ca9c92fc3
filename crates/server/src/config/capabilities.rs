//! What a configuration says of capabilities, and of whoever is asked before their tools run.

use super::providers::check_url;
use super::reader::{Reading, Table, secret};
use super::{ApprovalEntry, CapabilityEntry, Config};
use indexmap::IndexMap;
use placet_models::Lookup;
use placet_net::Url;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long whoever is asked may take, unless it is said otherwise.
const PATIENCE: Duration = Duration::from_secs(600);

/// `[approval]`, if it is there.
pub(super) fn read_approval(top: &Table<'_, '_>, base: &Path, lookup: &Lookup) -> Option<ApprovalEntry> {
    let table = top.table("approval")?;
    let hint = "write for example \"https://desk.example.com/approve\"";
    let url = table.text("url");
    match url.as_ref().map(|text| (text.at, Url::parse(&text.value))) {
        None => table.wrong(table.at(), "url", "it is missing, expected where to ask", Some(hint)),
        Some((at, Err(error))) => table.wrong(at, "url", error.to_string(), Some(hint)),
        Some((_, Ok(_))) => {}
    }
    if let Some(url) = &url {
        check_url(&table, url, "url");
    }
    let timeout = table.span("timeout").unwrap_or(PATIENCE);
    if timeout.is_zero() {
        table.wrong(table.place("timeout"), "timeout", "nobody can answer in no time", None);
    }
    let key = secret(&table, lookup, base).map(|found| found.value);
    table.finish();
    Some(ApprovalEntry { url: url?.value, timeout, key })
}

/// Capabilities by name, and the lines they stand at.
pub(super) fn read_capabilities(
    reading: &Reading<'_>,
    top: &Table<'_, '_>,
    base: &Path,
) -> (IndexMap<String, CapabilityEntry>, HashMap<String, usize>) {
    let (mut capabilities, mut lines) = (IndexMap::new(), HashMap::new());
    for (name, table) in top.named("capabilities") {
        let kind = table.text("kind");
        let folder = || -> Option<PathBuf> {
            let Some(text) = table.text("root") else {
                table.wrong(name.at, "root", "it is missing, expected a folder", None);
                return None;
            };
            let root = base.join(&text.value);
            if !root.is_dir() {
                table.wrong(text.at, "root", format!("{} is no folder", root.display()), None);
            }
            Some(root)
        };
        let flag = |key| table.flag(key).unwrap_or(false);
        let entry = match kind.as_ref().map(|text| text.value.as_str()) {
            Some("files") => {
                let (writable, approve) = (flag("writable"), flag("approve"));
                if approve && !writable {
                    let hint = "add `writable = true`, or leave the line out";
                    table.wrong(table.place("approve"), "approve", "nothing of it can be changed", Some(hint));
                }
                folder().map(|root| CapabilityEntry::Files { root, writable, approve })
            }
            Some("command") => {
                let shell = flag("shell");
                folder().map(|root| CapabilityEntry::Command { root, shell })
            }
            Some("calculator") => Some(CapabilityEntry::Calculator),
            other => {
                let problem = other.map_or("it is missing".to_owned(), |kind| format!("{kind:?} is none"));
                let at = kind.as_ref().map_or(name.at, |text| text.at);
                table.wrong(at, "kind", problem, Some("known are files, command, calculator"));
                None
            }
        };
        lines.insert(name.value.clone(), reading.line(name.at));
        if let Some(entry) = entry {
            capabilities.insert(name.value, entry);
        }
        table.finish();
    }
    (capabilities, lines)
}

/// Where a capability asks first, there has to be somebody to ask.
pub(super) fn check_approval(reading: &Reading<'_>, top: &Table<'_, '_>, config: &Config) {
    if config.approval.is_some() || top.has("approval") {
        return;
    }
    let places = top.places();
    for (name, _) in config.capabilities.iter().filter(|(_, capability)| capability.asks()) {
        let at = places.get(&("capabilities".to_owned(), name.clone())).copied().unwrap_or(0);
        let problem = "it asks before it does anything, and there is nobody to ask".to_owned();
        let hint = "add [approval] with url = \"https://…\"".to_owned();
        reading.problem(at, format!("capabilities.{name}"), problem, Some(hint));
    }
}
