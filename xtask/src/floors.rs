//! A crate stands on a floor and may use only crates of lower floors; ARCHITECTURE.md tells of every crate.

use crate::manifest::{Kind, Manifest};
use crate::report::Problem;
use crate::source;
use std::path::{Path, PathBuf};

/// Every crate of the house on its floor, those included that are yet to be built. ARCHITECTURE.md draws it.
const HOUSE: [(u8, &str); 17] = [
    (0, "placet-core"),
    (1, "placet-store"),
    (1, "placet-wire"),
    (1, "placet-net"),
    (2, "placet-tools"),
    (2, "placet-models"),
    (3, "placet-board"),
    (3, "placet-workspace"),
    (3, "placet-mcp"),
    (3, "placet-world"),
    (3, "placet-observe"),
    (4, "placet-runtime"),
    (5, "placet-flows"),
    (5, "placet-packages"),
    (6, "placet-server"),
    (7, "placet"),
    (7, "placet-cli"),
];

/// Development only: it may use every crate, and every crate's tests may use it.
const TESTKIT: &str = "placet-testkit";

/// Crates that never touch files, sockets or processes, and what they must not depend on for that.
const NO_IO: [(&str, &[&str]); 2] = [
    ("placet-core", &["hyper", "hyper-util", "reqwest", "rusqlite", "tokio-postgres", "nix", "tempfile", "ignore"]),
    ("placet-wire", &["tokio", "tokio-util", "hyper", "hyper-util", "reqwest", "rusqlite", "nix", "tempfile"]),
];
/// Module paths that a crate without I/O does not name.
const IO_MODULES: [(&str, &[&str]); 2] = [("std", &["fs", "net", "process"]), ("tokio", &["fs", "net", "process"])];

/// A crate folder with its manifest.
struct Crate {
    folder: PathBuf,
    manifest: Manifest,
}

impl Crate {
    fn manifest_path(&self) -> String {
        format!("{}/Cargo.toml", self.folder.display())
    }
}

/// Checks the house that stands at `root`.
pub(crate) fn check(root: &Path) -> Vec<Problem> {
    let (crates, mut found) = crates(root);
    for one in &crates {
        found.extend(name(one));
        found.extend(uses(one));
        found.extend(no_io(root, one));
    }
    found.extend(drawn(root, &crates));
    found
}

/// Reads the manifests below `root`, `xtask` last; what cannot be read is a problem.
fn crates(root: &Path) -> (Vec<Crate>, Vec<Problem>) {
    let mut folders: Vec<PathBuf> = match std::fs::read_dir(root.join("crates")) {
        Ok(entries) => entries.flatten().filter(|e| e.path().is_dir()).map(|e| Path::new("crates").join(e.file_name())),
        Err(error) => return (Vec::new(), vec![Problem::new("crates", error, "run xtask inside the workspace")]),
    }
    .collect();
    folders.sort();
    folders.push(PathBuf::from("xtask"));
    let (mut crates, mut found) = (Vec::new(), Vec::new());
    for folder in folders {
        match Manifest::read(&root.join(&folder).join("Cargo.toml")) {
            Ok(manifest) => crates.push(Crate { folder, manifest }),
            Err(error) => found.push(Problem::new(
                folder.join("Cargo.toml").display(),
                error,
                "give the folder a manifest, or remove the folder",
            )),
        }
    }
    (crates, found)
}

fn floor(name: &str) -> Option<u8> {
    HOUSE.iter().find(|(_, known)| *known == name).map(|(floor, _)| *floor)
}

fn development(name: &str) -> bool {
    name == TESTKIT || name == "xtask"
}

/// The crate is known, its folder is named after it and it takes over the workspace's lints.
fn name(one: &Crate) -> Vec<Problem> {
    let mut found = Vec::new();
    let name = one.manifest.name.as_str();
    if floor(name).is_none() && !development(name) {
        found.push(Problem::new(
            one.manifest_path(),
            format!("`{name}` stands on no floor"),
            "add it to HOUSE in xtask/src/floors.rs and to ARCHITECTURE.md, or correct the name",
        ));
    }
    let expected = name.strip_prefix("placet-").unwrap_or(name);
    if one.folder.file_name().is_none_or(|folder| folder != expected) {
        found.push(Problem::new(
            one.manifest_path(),
            format!("the folder of `{name}` is not named `{expected}`"),
            "name the folder after the crate, without `placet-`",
        ));
    }
    if !one.manifest.workspace_lints {
        found.push(Problem::new(
            one.manifest_path(),
            "the workspace's lints are not taken over",
            "add `[lints]` with `workspace = true`",
        ));
    }
    found
}

/// The crate uses crates of lower floors only.
fn uses(one: &Crate) -> Vec<Problem> {
    let name = one.manifest.name.as_str();
    let mut found = Vec::new();
    for dependency in &one.manifest.dependencies {
        let used = dependency.package.as_str();
        let place = format!("{}:{}", one.manifest_path(), dependency.line);
        if name == "xtask" {
            found.push(Problem::new(
                place,
                format!("xtask depends on `{used}`"),
                "do without: xtask builds before everything else",
            ));
            continue;
        }
        if !used.starts_with("placet") || (name == TESTKIT && used != TESTKIT) {
            continue;
        }
        // A crate's tests may switch on features of the crate itself.
        if dependency.kind == Kind::Dev && (used == TESTKIT || used == name) {
            continue;
        }
        if used == TESTKIT {
            found.push(Problem::new(
                place,
                format!("`{name}` uses the testkit outside of its tests"),
                "move the line to [dev-dependencies]; what users may use in tests belongs in `placet::test`",
            ));
            continue;
        }
        let Some(below) = floor(used) else {
            found.push(Problem::new(
                place,
                format!("`{name}` uses `{used}`, which stands on no floor"),
                "add it to HOUSE in xtask/src/floors.rs, or correct the name",
            ));
            continue;
        };
        if floor(name).is_some_and(|own| below >= own) {
            found.push(Problem::new(
                place,
                format!("`{name}` (floor {}) uses `{used}` (floor {below})", floor(name).unwrap_or_default()),
                "use crates of lower floors only: move what both need down, or pass it in through a trait",
            ));
        }
    }
    found
}

/// Core and wire depend on no I/O crate and name no I/O module.
fn no_io(root: &Path, one: &Crate) -> Vec<Problem> {
    let Some((name, banned)) = NO_IO.iter().find(|(name, _)| *name == one.manifest.name) else { return Vec::new() };
    let remedy = format!("{name} does no I/O: let a higher floor do it and pass the result in");
    let mut found = Vec::new();
    for dependency in &one.manifest.dependencies {
        if dependency.kind != Kind::Dev && banned.contains(&dependency.package.as_str()) {
            let place = format!("{}:{}", one.manifest_path(), dependency.line);
            found.push(Problem::new(place, format!("`{name}` depends on `{}`", dependency.package), &remedy));
        }
    }
    for file in source::files(&root.join(&one.folder).join("src")) {
        if source::is_test_file(&file) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        for (index, line) in source::lines(&text).iter().enumerate().filter(|(_, line)| !line.test) {
            if let Some(module) = io_module(&line.code) {
                let place = format!("{}:{}", file.strip_prefix(root).unwrap_or(&file).display(), index + 1);
                found.push(Problem::new(place, format!("`{name}` names `{module}`"), &remedy));
            }
        }
    }
    found
}

/// The I/O module that a line names, as `std::fs` or within `std::{…}`.
fn io_module(code: &str) -> Option<String> {
    let dense: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    for (base, modules) in IO_MODULES {
        for (at, _) in dense.match_indices(&format!("{base}::")) {
            let rest = &dense[at + base.len() + 2..];
            let names: Vec<&str> = match rest.strip_prefix('{') {
                Some(group) => group.split(['{', ',', '}']).collect(),
                None => vec![rest],
            };
            for name in names {
                let first: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                if modules.contains(&first.as_str()) {
                    return Some(format!("{base}::{first}"));
                }
            }
        }
    }
    None
}

/// ARCHITECTURE.md has a section with an invariant for every crate, and none for a crate that is not there.
fn drawn(root: &Path, crates: &[Crate]) -> Vec<Problem> {
    const FILE: &str = "ARCHITECTURE.md";
    let text = match std::fs::read_to_string(root.join(FILE)) {
        Ok(text) => text,
        Err(error) => return vec![Problem::new(FILE, error, "write it: a paragraph and the invariants of each crate")],
    };
    let sections = sections(&text);
    let mut found = Vec::new();
    for one in crates {
        let name = &one.manifest.name;
        let Some((line, body)) = sections.iter().find(|(_, heading, _)| heading == name).map(|(l, _, b)| (l, b)) else {
            found.push(Problem::new(
                FILE,
                format!("no section tells of `{name}`"),
                format!(
                    "add a heading ### `{name}`, a paragraph on what it holds and its **Architecture invariant** lines"
                ),
            ));
            continue;
        };
        let prose = body.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| !line.starts_with("**"));
        if !prose || !body.contains("**Architecture invariant:**") {
            found.push(Problem::new(
                format!("{FILE}:{line}"),
                format!("the section of `{name}` lacks a paragraph or an **Architecture invariant:** line"),
                "say what the crate holds, then what it must never do",
            ));
        }
    }
    for (line, heading, _) in &sections {
        if !crates.iter().any(|one| one.manifest.name == *heading) {
            found.push(Problem::new(
                format!("{FILE}:{line}"),
                format!("a section tells of `{heading}`, which is no crate of the workspace"),
                "remove the section, or correct the name",
            ));
        }
    }
    found
}

/// The sections headed by a crate's name alone: line, name and body.
fn sections(text: &str) -> Vec<(usize, String, String)> {
    let mut sections: Vec<(usize, String, String)> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('#') {
            let heading = line.trim_start_matches('#').trim();
            let name = heading.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
            inside = name.is_some_and(|name| name.starts_with("placet") || name == "xtask");
            if let (true, Some(name)) = (inside, name) {
                sections.push((index + 1, name.to_owned(), String::new()));
            }
        } else if let (true, Some((_, _, body))) = (inside, sections.last_mut()) {
            body.push_str(line);
            body.push('\n');
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A workspace in a folder of its own, removed at the end.
    struct House(PathBuf);

    impl House {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("xtask-floors-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            let house = House(root);
            house.krate("xtask", "xtask", "");
            house.krate("crates/core", "placet-core", "");
            house.krate("crates/net", "placet-net", "[dependencies]\nplacet-core.workspace = true\n");
            house.krate("crates/testkit", "placet-testkit", "[dependencies]\nplacet-net.workspace = true\n");
            house.draw(&["xtask", "placet-core", "placet-net", "placet-testkit"]);
            house
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn krate(&self, folder: &str, name: &str, rest: &str) {
            let text = format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}");
            self.write(&format!("{folder}/Cargo.toml"), &text);
        }

        fn draw(&self, names: &[&str]) {
            let text: String = names
                .iter()
                .map(|name| format!("### `{name}`\n\nIt holds things.\n\n**Architecture invariant:** none.\n\n"))
                .collect();
            self.write("ARCHITECTURE.md", &text);
        }

        fn wrong(&self) -> Vec<String> {
            check(&self.0).into_iter().map(|problem| format!("{}: {}", problem.place, problem.wrong)).collect()
        }
    }

    impl Drop for House {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_sound_house_has_no_problem() {
        assert_eq!(House::new("sound").wrong(), [""; 0]);
    }

    #[test]
    fn a_crate_may_not_use_its_own_floor_or_one_above() {
        let house = House::new("above");
        house.krate("crates/core", "placet-core", "[dependencies]\nplacet-net.workspace = true\n");
        assert_eq!(house.wrong(), ["crates/core/Cargo.toml:6: `placet-core` (floor 0) uses `placet-net` (floor 1)"]);
        let house = House::new("beside");
        house.krate(
            "crates/net",
            "placet-net",
            "[target.'cfg(a.b)'.dependencies]\nplacet-store = { workspace = true }\n",
        );
        assert_eq!(house.wrong(), ["crates/net/Cargo.toml:6: `placet-net` (floor 1) uses `placet-store` (floor 1)"]);
    }

    #[test]
    fn the_testkit_is_for_tests_alone() {
        let house = House::new("testkit");
        house.krate("crates/net", "placet-net", "[dev-dependencies]\nplacet-testkit.workspace = true\n");
        assert_eq!(house.wrong(), [""; 0]);
        house.krate("crates/net", "placet-net", "[dependencies]\nplacet-testkit.workspace = true\n");
        assert_eq!(house.wrong(), ["crates/net/Cargo.toml:6: `placet-net` uses the testkit outside of its tests"]);
    }

    #[test]
    fn unknown_crates_and_misnamed_folders_are_found() {
        let house = House::new("names");
        house.krate("crates/nets", "placet-network", "");
        let wrong = house.wrong().join("\n");
        assert!(wrong.contains("`placet-network` stands on no floor"), "{wrong}");
        assert!(wrong.contains("the folder of `placet-network` is not named `network`"), "{wrong}");
        assert!(wrong.contains("ARCHITECTURE.md: no section tells of `placet-network`"), "{wrong}");
    }

    #[test]
    fn xtask_depends_on_nothing() {
        let house = House::new("xtask");
        house.krate("xtask", "xtask", "[dev-dependencies]\ntempfile.workspace = true\n");
        assert_eq!(house.wrong(), ["xtask/Cargo.toml:6: xtask depends on `tempfile`"]);
    }

    #[test]
    fn core_does_no_io() {
        let house = House::new("io");
        house.krate("crates/core", "placet-core", "[dependencies]\nnix.workspace = true\n");
        house.write(
            "crates/core/src/lib.rs",
            "// std::fs is fine in a comment\nuse std::{fmt, fs};\nfn f() { tokio::net::lookup_host(\"std::fs\"); }\n#[cfg(test)]\nmod tests { use std::fs; }\n",
        );
        house.write("crates/core/src/tests.rs", "use std::fs;\n");
        assert_eq!(
            house.wrong(),
            [
                "crates/core/Cargo.toml:6: `placet-core` depends on `nix`",
                "crates/core/src/lib.rs:2: `placet-core` names `std::fs`",
                "crates/core/src/lib.rs:3: `placet-core` names `tokio::net`",
            ]
        );
    }

    #[test]
    fn the_drawing_is_kept_true() {
        let house = House::new("drawing");
        house.draw(&["xtask", "placet-core", "placet-net", "placet-board"]);
        let wrong = house.wrong();
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("no section tells of `placet-testkit`"), "{wrong:?}");
        assert!(wrong[1].contains("`placet-board`, which is no crate"), "{wrong:?}");
        house.draw(&["xtask", "placet-core", "placet-testkit"]);
        let text = fs::read_to_string(house.0.join("ARCHITECTURE.md")).unwrap() + "### `placet-net`\n\nThings.\n";
        house.write("ARCHITECTURE.md", &text);
        assert!(house.wrong()[0].contains("the section of `placet-net` lacks"), "{:?}", house.wrong());
    }
}
