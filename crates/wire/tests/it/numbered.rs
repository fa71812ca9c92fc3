//! The tests that carry numbers: a rule, a tricky point of a protocol or a known fault of others without its test is one that
//! nobody holds to.

use std::collections::BTreeSet;
use std::path::Path;

/// How many rules hold for every protocol.
const RULES: usize = 11;
/// How many known faults of others there are.
const ROWS: usize = 70;
/// The tricky points of each protocol: the section that lists them, and the last letter.
const TRICKY: [(usize, char); 3] = [(3, 'l'), (4, 'm'), (5, 'i')];
/// The protocols, as the tests of rules are suffixed.
const PROTOCOLS: [&str; 4] = ["chat", "responses", "anthropic", "gemini"];

/// The names of all tests below a folder.
fn names(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            names(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                is_test |= line == "#[test]";
                let name = line.strip_prefix("fn ").and_then(|rest| rest.split(['(', '<']).next());
                if let Some(name) = name.filter(|_| std::mem::take(&mut is_test)) {
                    found.insert(name.to_owned());
                }
            }
        }
    }
}

#[test]
fn every_rule_every_tricky_point_and_every_row_has_its_test() {
    let mut found = BTreeSet::new();
    for folder in ["src", "tests"] {
        names(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    }
    let has = |prefix: &str| found.iter().any(|name| name == prefix || name.starts_with(&format!("{prefix}_")));
    let mut missing = Vec::new();
    for rule in 1..=RULES {
        let of_each = PROTOCOLS.iter().map(|protocol| format!("rule_{rule}_{protocol}"));
        missing.extend(of_each.filter(|name| !has(name)));
    }
    for (section, last) in TRICKY {
        let points = ('a'..=last).map(|letter| format!("tricky_{section}_{letter}"));
        missing.extend(points.filter(|name| !has(name)));
    }
    missing.extend((1..=ROWS).map(|row| format!("row_{row}")).filter(|name| !has(name)));
    assert!(missing.is_empty(), "there is no test {}", missing.join(", "));
}
