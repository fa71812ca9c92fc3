//! Reads the few things of a `Cargo.toml` that the checks need: the name, the sections and the dependencies.
//!
//! This is no TOML parser. It understands the forms that this workspace writes: one key a line, values that may run over
//! several lines inside brackets, dotted keys (`serde.workspace = true`) and a table for each dependency.

use std::path::Path;

/// Where a dependency is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `[dependencies]`, also of one target.
    Normal,
    /// `[build-dependencies]`.
    Build,
    /// `[dev-dependencies]`.
    Dev,
    /// `[workspace.dependencies]` of the root.
    Workspace,
}

/// One declared dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The package's name, also where it is renamed.
    pub(crate) package: String,
    /// Where it is declared.
    pub(crate) kind: Kind,
    /// The line of its declaration, from 1.
    pub(crate) line: usize,
    /// Whether version and features come from the workspace.
    pub(crate) inherited: bool,
    /// Whether the declaration names features of its own.
    pub(crate) features: bool,
}

/// What the checks know of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The package's name; empty in a manifest that has none.
    pub(crate) name: String,
    /// Every dependency, in the order of the file.
    pub(crate) dependencies: Vec<Dependency>,
    /// Whether the workspace's lints are taken over.
    pub(crate) workspace_lints: bool,
}

impl Manifest {
    /// Reads the manifest at `path`.
    pub(crate) fn read(path: &Path) -> std::io::Result<Manifest> {
        Ok(Manifest::parse(&std::fs::read_to_string(path)?))
    }

    /// Reads a manifest's text.
    pub(crate) fn parse(text: &str) -> Manifest {
        let mut manifest = Manifest::default();
        let mut section = String::new();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let line = without_comment(line);
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_matches(['[', ']']).to_owned();
                if let Some((kind, Some(name))) = dependency_table(&section) {
                    manifest.add(name, kind, index + 1);
                }
                continue;
            }
            let Some((key, first)) = line.split_once('=') else { continue };
            let mut value = first.trim().to_owned();
            while open_brackets(&value) > 0 {
                let Some((_, more)) = lines.next() else { break };
                value.push(' ');
                value.push_str(without_comment(more));
            }
            manifest.entry(&section, key.trim(), &value, index + 1);
        }
        manifest
    }

    fn entry(&mut self, section: &str, key: &str, value: &str, line: usize) {
        match (section, key) {
            ("package", "name") => unquoted(value).clone_into(&mut self.name),
            ("lints", "workspace") => self.workspace_lints = value == "true",
            _ => {}
        }
        match dependency_table(section) {
            Some((kind, None)) => {
                let (name, attribute) = key.split_once('.').unwrap_or((key, ""));
                self.add(unquoted(name), kind, line);
                if attribute.is_empty() {
                    for (attribute, value) in inline_table(value) {
                        self.attribute(attribute, value);
                    }
                } else {
                    self.attribute(attribute, value);
                }
            }
            Some((_, Some(_))) => self.attribute(key, value),
            None => {}
        }
    }

    fn add(&mut self, name: &str, kind: Kind, line: usize) {
        self.dependencies.push(Dependency { package: name.to_owned(), kind, line, inherited: false, features: false });
    }

    /// Notes an attribute of the dependency that was added last.
    fn attribute(&mut self, attribute: &str, value: &str) {
        let Some(dependency) = self.dependencies.last_mut() else { return };
        match attribute {
            "package" => unquoted(value).clone_into(&mut dependency.package),
            "workspace" => dependency.inherited = value == "true",
            "features" => dependency.features = true,
            _ => {}
        }
    }
}

/// The kind of a section of dependencies, and the dependency's name where the section describes just one.
fn dependency_table(section: &str) -> Option<(Kind, Option<&str>)> {
    let section = match section.strip_prefix("target.") {
        // `target.'cfg(unix)'.dependencies`: the condition may hold dots, but its end is the last quote.
        Some(target) => target.rsplit_once(['\'', '"']).map_or(target, |(_, rest)| rest.trim_start_matches('.')),
        None => section,
    };
    for (prefix, kind) in [
        ("dependencies", Kind::Normal),
        ("build-dependencies", Kind::Build),
        ("dev-dependencies", Kind::Dev),
        ("workspace.dependencies", Kind::Workspace),
    ] {
        if let Some(rest) = section.strip_prefix(prefix) {
            match rest.strip_prefix('.') {
                Some(name) => return Some((kind, Some(unquoted(name)))),
                None if rest.is_empty() => return Some((kind, None)),
                None => {}
            }
        }
    }
    None
}

/// The pairs of `{ a = 1, b = ["x", "y"] }`.
fn inline_table(value: &str) -> Vec<(&str, &str)> {
    let Some(inner) = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else { return Vec::new() };
    let mut pairs = Vec::new();
    let (mut start, mut depth, mut quoted) = (0, 0, false);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                if let Some((key, value)) = inner[start..at].split_once('=') {
                    pairs.push((key.trim(), value.trim()));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    pairs
}

fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return line[..at].trim(),
            _ => {}
        }
    }
    line.trim()
}

fn open_brackets(value: &str) -> i32 {
    let (mut open, mut quoted) = (0, false);
    for c in value.chars() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => open += 1,
            ']' | '}' if !quoted => open -= 1,
            _ => {}
        }
    }
    open
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_dependency_is_read() {
        let manifest = Manifest::parse(
            r#"
[package]
name = "placet-x" # the name
keywords = [
    "serde = 1",
]

[lints]
workspace = true

[dependencies]
serde.workspace = true
placet-core = { workspace = true, features = ["a", "b"], optional = true }
other = { package = "placet-net", path = "../net" }
plain = "1"
long = { version = "1", features = [
    "x",
] }

[target.'cfg(target_os = "linux")'.dependencies]
nix.workspace = true

[dev-dependencies.placet-testkit]
workspace = true

[features]
serde = []
"#,
        );
        assert_eq!(manifest.name, "placet-x");
        assert!(manifest.workspace_lints);
        let seen: Vec<_> = manifest
            .dependencies
            .iter()
            .map(|d| (d.package.as_str(), d.kind, d.line, d.inherited, d.features))
            .collect();
        assert_eq!(
            seen,
            [
                ("serde", Kind::Normal, 12, true, false),
                ("placet-core", Kind::Normal, 13, true, true),
                ("placet-net", Kind::Normal, 14, false, false),
                ("plain", Kind::Normal, 15, false, false),
                ("long", Kind::Normal, 16, false, true),
                ("nix", Kind::Normal, 21, true, false),
                ("placet-testkit", Kind::Dev, 23, true, false),
            ]
        );
    }

    #[test]
    fn the_dependencies_of_the_workspace_are_told_apart() {
        let manifest = Manifest::parse("[workspace.dependencies]\nuuid = { version = \"1\", features = [\"std\"] }\n");
        assert_eq!(manifest.name, "");
        assert_eq!(manifest.dependencies[0].kind, Kind::Workspace);
    }
}
