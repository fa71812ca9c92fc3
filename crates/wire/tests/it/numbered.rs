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

/// A source without its comments, with texts emptied, so that nothing in them is taken for code. Lines stay lines.
fn bare(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut out = String::with_capacity(source.len());
    let mut i = 0;
    while i < chars.len() {
        match (at(i), at(i + 1)) {
            ('/', '/') => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
            }
            ('/', '*') => {
                let mut depth = 0;
                while i < chars.len() {
                    match (at(i), at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        (c, _) => {
                            out.extend(Some('\n').filter(|_| c == '\n'));
                            i += 1;
                        }
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
            ('r', '"' | '#') if i == 0 || !(at(i - 1).is_alphanumeric() || at(i - 1) == '_') => {
                let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
                if at(i + 1 + hashes) != '"' {
                    out.push('r');
                    i += 1;
                    continue;
                }
                i += hashes + 2;
                let closes = |i: usize| at(i) == '"' && (1..=hashes).all(|n| at(i + n) == '#');
                while i < chars.len() && !closes(i) {
                    out.extend(Some('\n').filter(|_| at(i) == '\n'));
                    i += 1;
                }
                i += hashes + 1;
                out.push_str("\"\"");
            }
            ('"', _) => {
                // The path of a module stands in one.
                let start = i;
                i += 1;
                while i < chars.len() && at(i) != '"' {
                    i += if at(i) == '\\' { 2 } else { 1 };
                }
                i += 1;
                let text: String = chars[start..i.min(chars.len())].iter().collect();
                if out.trim_end().ends_with("#[path =") { out.push_str(&text) } else { out.push_str("\"\"") }
            }
            ('\'', '\\') => i += 2 + chars[i + 2..].iter().skip(1).take_while(|c| **c != '\'').count() + 2,
            ('\'', _) if at(i + 2) == '\'' => i += 3,
            (c, _) => {
                out.push(c);
                i += 1;
            }
        }
    }
    out
}

/// Whether attributes of a test or module let it run: a test that is left out by default, or under a condition, does not count.
fn runs(attributes: &[String]) -> bool {
    attributes.iter().all(|attribute| {
        let inner = attribute.trim_start_matches("#[").trim();
        !inner.starts_with("ignore") && (!inner.starts_with("cfg") || inner.starts_with("cfg(test)]"))
    })
}

/// The names of all tests that run of a source and of the modules that it names.
fn names(file: &Path, found: &mut BTreeSet<String>) {
    let text = bare(&std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display())));
    let folder = file.parent().expect("a folder");
    let stem = file.file_stem().and_then(|stem| stem.to_str()).expect("a name");
    let inner = if matches!(stem, "lib" | "main" | "mod") { folder.to_owned() } else { folder.join(stem) };
    let mut attributes: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("#[") {
            attributes.push(line.to_owned());
            continue;
        }
        let attributes = std::mem::take(&mut attributes);
        let word = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
        if let Some(name) = word.strip_prefix("fn ").and_then(|rest| rest.split(['(', '<']).next()) {
            if attributes.iter().any(|attribute| attribute == "#[test]") && runs(&attributes) {
                found.insert(name.to_owned());
            }
        } else if let Some(name) = word.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'))
            && runs(&attributes)
        {
            let path = attributes.iter().find_map(|line| line.strip_prefix("#[path = \"")?.strip_suffix("\"]"));
            let next = match path {
                Some(path) => folder.join(path),
                None => Some(inner.join(format!("{name}.rs")))
                    .filter(|path| path.exists())
                    .unwrap_or_else(|| inner.join(name).join("mod.rs")),
            };
            names(&next, found);
        }
    }
}

#[test]
fn only_tests_that_run_count() {
    let folder = std::env::temp_dir().join(format!("placet-numbered-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("main")).expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file");
    write(
        "main.rs",
        "mod inner;\n// mod left;\n#[cfg(any())]\nmod left;\n#[test]\nfn runs() {}\n#[test]\n#[ignore]\nfn ignored() {}\n\
         #[ignore = \"slow\"]\n#[test]\nfn ignored_first() {}\n// #[test]\n// fn commented() {}\n/*\n#[test]\nfn blocked() {}\n*/\n\
         #[test]\n#[cfg(windows)]\nfn elsewhere() {}\nfn helper() {}\nconst A: &str = r#\"\n#[test]\nfn quoted() {}\n\"#;\n",
    );
    write("inner.rs", "#[test]\n#[should_panic]\nfn within<'a>() {}\n");
    write("left.rs", "#[test]\nfn unreached() {}\n");
    let mut found = BTreeSet::new();
    names(&folder.join("main.rs"), &mut found);
    std::fs::remove_dir_all(&folder).expect("removed");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["runs", "within"]);
}

#[test]
fn every_rule_every_tricky_point_and_every_row_has_its_test() {
    let mut found = BTreeSet::new();
    for root in ["src/lib.rs", "tests/it/main.rs", "tests/cassettes/main.rs"] {
        names(&Path::new(env!("CARGO_MANIFEST_DIR")).join(root), &mut found);
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
