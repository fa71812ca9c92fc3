//! What a configuration says of boards: how they are served, and which keys may do what on them.

use super::BoardsEntry;
use super::reader::{Table, secret};
use placet_board::http::Grant;
use placet_models::Lookup;
use std::collections::BTreeSet;
use std::path::Path;

/// The most that the content of one write may be asked to hold: what the store takes, less what stands beside it.
const MOST_CONTENT: usize = placet_store::MAX_VALUE_BYTES - 4096;

/// `[boards]`, if it is there.
pub(super) fn read_boards(top: &Table<'_, '_>, base: &Path, lookup: &Lookup) -> Option<BoardsEntry> {
    let table = top.table("boards")?;
    let usual = placet_board::BoardsOptions::default();
    let mut call_hosts = Vec::new();
    for host in table.texts("call_hosts").unwrap_or_default() {
        if host.value.contains('/') || host.value.contains(char::is_whitespace) {
            let hint = "write the name or address alone, for example \"agents.internal\" or \"10.0.0.7\"";
            table.wrong(host.at, "call_hosts", format!("{:?} is no host", host.value), Some(hint));
        }
        call_hosts.push(host.value);
    }
    let content = table.bytes("content").unwrap_or(usual.content);
    if !(1..=MOST_CONTENT).contains(&content) {
        table.wrong(
            table.place("content"),
            "content",
            format!("{content} bytes are not possible, expected 1 to {MOST_CONTENT}"),
            None,
        );
    }
    let entry = BoardsEntry {
        call_hosts,
        key: secret(&table, lookup, base).map(|found| found.value),
        decisions: table.count("decisions", 1).unwrap_or(usual.decisions),
        content,
    };
    table.finish();
    Some(entry)
}

/// `[keys.NAME.boards]`, if it is there.
pub(super) fn read_grant(key: &Table<'_, '_>) -> Option<Grant> {
    let table = key.table("boards")?;
    let names = |what: &'static str| -> Option<BTreeSet<String>> {
        table.texts(what).map(|texts| texts.into_iter().map(|text| text.value).collect())
    };
    let grant = Grant {
        boards: names("names"),
        agents: names("agents"),
        regions: names("regions"),
        manages: table.flag("manages").unwrap_or(false),
    };
    table.finish();
    Some(grant)
}
