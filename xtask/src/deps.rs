//! What the workspace is built from: licences, duplicates, forbidden crates, and how much `placet` pulls in.

use crate::cargo::{self, Cargo};
use crate::licences;
use crate::manifest::{Dependency, Kind, Manifest};
use crate::report::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Crates that may not be built at all, by whatever way they come.
const FORBIDDEN: [(&str, &str); 5] = [
    ("aws-lc-rs", "rustls uses ring here: one library for cryptography, built with a C compiler alone"),
    ("aws-lc-sys", "rustls uses ring here: one library for cryptography, built with a C compiler alone"),
    ("openssl-sys", "rustls is the TLS library, so that no system library is needed"),
    ("dotenv", "no `.env` file is read: the program's settings come from flags, the environment and its file"),
    ("dotenvy", "no `.env` file is read: the program's settings come from flags, the environment and its file"),
];

/// Crates that no crate of ours names as its own dependency.
const FORBIDDEN_DIRECT: [(&str, &str); 2] = [
    ("reqwest", "placet-net is the one HTTP client, on hyper-util"),
    ("ureq", "placet-net is the one HTTP client, on hyper-util"),
];

/// Duplicates that others force on us. A line that has become untrue is an error too.
const KNOWN_DUPLICATES: &[(&str, &str)] = &[
    ("base64", "hyper-util is on 0.23, postgres-protocol on 0.22"),
    ("fallible-iterator", "rusqlite is on 0.3, tokio-postgres on 0.2"),
    ("getrandom", "ring is on 0.2, ahash on 0.3, tokio-postgres's rand on 0.4"),
    ("syn", "strum_macros is on 2, serde_derive on 3"),
    ("windows-sys", "only on Windows, where each system crate chooses its own"),
];

/// Every check of the dependencies; prints what `placet` with default features pulls in.
pub(crate) fn check(root: &Path) -> Vec<Problem> {
    let cargo = Cargo::new(root);
    let mut found = declarations(root);
    match tree(&cargo, &["--workspace", "--all-features", "--edges", "normal,build,dev", "--format", "{p}|{l}"]) {
        Ok(text) => found.extend(packages(&text)),
        Err(problem) => found.push(problem),
    }
    match tree(&cargo, &["--workspace", "--all-features", "--edges", "normal,build", "--format", "{p}"]) {
        Ok(text) => found.extend(duplicates(&text)),
        Err(problem) => found.push(problem),
    }
    match placet_dependencies(&cargo) {
        Ok(count) => println!("placet with default features: {count} dependencies"),
        Err(problem) => found.push(problem),
    }
    found
}

/// How many packages a build of `placet` with default features needs beside itself, procedural macros included.
pub(crate) fn placet_dependencies(cargo: &Cargo) -> Result<usize, Problem> {
    let text = tree(cargo, &["--package", "placet", "--edges", "normal", "--format", "{p}"])?;
    let packages: BTreeSet<&str> = text.lines().map(package).filter(|line| !line.is_empty()).collect();
    Ok(packages.len().saturating_sub(1))
}

fn tree(cargo: &Cargo, arguments: &[&str]) -> Result<String, Problem> {
    cargo::read(cargo.command(&["tree", "--quiet", "--prefix", "none"]).args(arguments).args(cargo.locked()))
}

/// A line of `cargo tree` without the mark of a repetition.
fn package(line: &str) -> &str {
    line.trim().trim_end_matches(" (*)").trim_end_matches(" (proc-macro)")
}

fn name_and_version(package: &str) -> Option<(&str, &str)> {
    let mut words = package.split_whitespace();
    Some((words.next()?, words.next()?))
}

/// Every package has a licence that is allowed, and none is forbidden.
fn packages(text: &str) -> Vec<Problem> {
    let mut found = Vec::new();
    let lines: BTreeSet<&str> = text.lines().map(package).filter(|line| !line.is_empty()).collect();
    for line in lines {
        let (package, licence) = line.split_once('|').unwrap_or((line, ""));
        let Some((name, version)) = name_and_version(package) else { continue };
        let place = format!("{name} {version}");
        match licences::allowed(licence) {
            Ok(true) => {}
            Ok(false) => found.push(Problem::new(
                &place,
                format!("its licence is `{licence}`"),
                "choose another crate, or add the licence to xtask/src/licences.rs with a reason",
            )),
            Err(error) => found.push(Problem::new(&place, error, "look at the crate's licence file and decide")),
        }
        if let Some((_, why)) = FORBIDDEN.iter().find(|(forbidden, _)| *forbidden == name) {
            found.push(Problem::new(
                &place,
                format!("it is built, but {why}"),
                format!("find who asks for it with `cargo tree -i {name} -e features` and switch that feature off"),
            ));
        }
    }
    found
}

/// No package is built in two versions, but for the known ones.
fn duplicates(text: &str) -> Vec<Problem> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, version)) = name_and_version(package(line)) {
            versions.entry(name).or_default().insert(version);
        }
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut found = Vec::new();
    for (name, versions) in &versions {
        if !KNOWN_DUPLICATES.iter().any(|(known, _)| known == name) {
            let versions: Vec<&str> = versions.iter().copied().collect();
            found.push(Problem::new(
                name,
                format!("it is built in versions {}", versions.join(", ")),
                format!(
                    "move the dependency in Cargo.toml to one of them; where others force it (`cargo tree -i {name}@…`), \
                     add a line with the reason to KNOWN_DUPLICATES in xtask/src/deps.rs"
                ),
            ));
        }
    }
    for (known, _) in KNOWN_DUPLICATES {
        if *known != "windows-sys" && !versions.contains_key(known) {
            found.push(Problem::new(
                known,
                "it is no longer built in two versions",
                "remove its line from KNOWN_DUPLICATES in xtask/src/deps.rs",
            ));
        }
    }
    found
}

/// Versions and features stand in the root manifest alone, each is used, and no crate names a forbidden one.
fn declarations(root: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    let mut manifests = vec![("xtask/Cargo.toml".to_owned(), root.join("xtask/Cargo.toml"))];
    for entry in std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        let path = entry.path().join("Cargo.toml");
        manifests.push((format!("crates/{}/Cargo.toml", entry.file_name().to_string_lossy()), path));
    }
    manifests.sort();
    for (place, path) in manifests {
        match Manifest::read(&path) {
            Ok(manifest) => {
                found.extend(manifest.dependencies.iter().flat_map(|dependency| declaration(&place, dependency)));
                used.extend(manifest.dependencies.into_iter().map(|dependency| dependency.package));
            }
            Err(error) => found.push(Problem::new(place, error, "give the folder a manifest, or remove the folder")),
        }
    }
    match Manifest::read(&root.join("Cargo.toml")) {
        Ok(manifest) => {
            for dependency in manifest.dependencies.iter().filter(|dependency| dependency.kind == Kind::Workspace) {
                // Our own crates stand there for whoever comes to need them.
                if !used.contains(&dependency.package) && !dependency.package.starts_with("placet") {
                    found.push(Problem::new(
                        format!("Cargo.toml:{}", dependency.line),
                        format!("no crate uses `{}`", dependency.package),
                        "remove the line",
                    ));
                }
            }
        }
        Err(error) => found.push(Problem::new("Cargo.toml", error, "run xtask inside the workspace")),
    }
    found
}

fn declaration(manifest: &str, dependency: &Dependency) -> Vec<Problem> {
    let place = format!("{manifest}:{}", dependency.line);
    let name = &dependency.package;
    let mut found = Vec::new();
    if let Some((_, why)) = FORBIDDEN_DIRECT.iter().find(|(forbidden, _)| forbidden == name) {
        found.push(Problem::new(&place, format!("it depends on `{name}`, but {why}"), "use placet-net"));
    }
    if !dependency.inherited {
        found.push(Problem::new(
            &place,
            format!("the version of `{name}` is decided here"),
            "write `workspace = true` and decide it in [workspace.dependencies] of the root",
        ));
    }
    if dependency.features && !name.starts_with("placet") {
        found.push(Problem::new(
            &place,
            format!("features of `{name}` are decided here, so that a crate built alone gets another variant of it"),
            "decide them in [workspace.dependencies] of the root",
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(found: &[Problem]) -> Vec<String> {
        found.iter().map(|problem| format!("{}: {}", problem.place, problem.wrong)).collect()
    }

    #[test]
    fn licences_and_forbidden_crates_are_found() {
        let text = "serde v1.0.2|MIT OR Apache-2.0\nserde v1.0.2|MIT OR Apache-2.0 (*)\nbad v0.1.0 (proc-macro)|GPL-3.0-only\n\naws-lc-rs v1.0.0|ISC\nnone v1.0.0|\n";
        let wrong = wrong(&packages(text));
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[0].starts_with("aws-lc-rs v1.0.0: it is built, but rustls uses ring"), "{wrong:?}");
        assert_eq!(wrong[1], "bad v0.1.0: its licence is `GPL-3.0-only`");
        assert!(wrong[2].starts_with("none v1.0.0: "), "{wrong:?}");
    }

    #[test]
    fn a_new_duplicate_and_a_settled_one_are_both_found() {
        let mut text = String::from("http v0.2.0\nhttp v1.0.0\nhttp v1.0.0 (*)\nbytes v1.0.0\nbytes v1.0.0 (*)\n");
        for (name, _) in KNOWN_DUPLICATES.iter().skip(1) {
            text.push_str(&format!("{name} v1.0.0\n{name} v2.0.0\n"));
        }
        let (settled, _) = KNOWN_DUPLICATES[0];
        assert_eq!(
            wrong(&duplicates(&text)),
            [
                "http: it is built in versions v0.2.0, v1.0.0",
                &format!("{settled}: it is no longer built in two versions")
            ]
        );
    }

    #[test]
    fn a_crate_decides_no_versions_or_features() {
        let manifest = Manifest::parse(
            "[dependencies]\nserde = { workspace = true, features = [\"rc\"] }\nreqwest.workspace = true\nrand = \"1\"\nplacet-store = { workspace = true, features = [\"x\"] }\n",
        );
        let found: Vec<Problem> = manifest.dependencies.iter().flat_map(|one| declaration("c", one)).collect();
        let wrong = wrong(&found);
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[0].starts_with("c:2: features of `serde`"), "{wrong:?}");
        assert!(wrong[1].starts_with("c:3: it depends on `reqwest`"), "{wrong:?}");
        assert!(wrong[2].starts_with("c:4: the version of `rand`"), "{wrong:?}");
    }
}
