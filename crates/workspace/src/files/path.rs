//! Paths as models write them, and names as people see them.

use crate::error::WorkspaceError;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The longest path that is looked at, in bytes.
const LONGEST: usize = 4096;

/// A path inside a root: names only, no `.`, no `..`, not absolute. Empty for the root itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inside(Vec<OsString>);

impl Inside {
    /// Reads a path that a model wrote. `.` and the empty text are the root.
    pub(crate) fn parse(text: &str) -> Result<Self, WorkspaceError> {
        let bad = |problem| WorkspaceError::BadPath { path: clipped(text), problem };
        if text.len() > LONGEST {
            return Err(bad("it is longer than 4096 bytes"));
        }
        if text.contains('\0') {
            return Err(bad("it holds a NUL character"));
        }
        if text.starts_with('/') {
            return Err(bad(
                "it is absolute; paths are relative to the folder, such as `src/main.rs`, and `.` is the folder itself",
            ));
        }
        let mut names = Vec::new();
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." => return Err(bad("it holds `..`; paths are relative to the folder and cannot go above it")),
                name => names.push(OsString::from(name)),
            }
        }
        Ok(Inside(names))
    }

    pub(crate) fn from_names(names: Vec<OsString>) -> Self {
        Inside(names)
    }

    pub(crate) fn names(&self) -> &[OsString] {
        &self.0
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn join(&self, name: &OsStr) -> Self {
        let mut names = self.0.clone();
        names.push(name.to_owned());
        Inside(names)
    }

    pub(crate) fn push(&mut self, name: &OsStr) {
        self.0.push(name.to_owned());
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    /// The directory and the last name; nothing for the root.
    pub(crate) fn split_last(&self) -> Option<(Inside, &OsStr)> {
        let (last, rest) = self.0.split_last()?;
        Some((Inside(rest.to_vec()), last))
    }

    /// The path relative to the root, for system calls: `.` for the root itself.
    pub(crate) fn relative(&self) -> PathBuf {
        if self.0.is_empty() { PathBuf::from(".") } else { self.0.iter().collect() }
    }

    /// The path as it is shown: names joined by `/`, `.` for the root.
    pub(crate) fn shown(&self) -> String {
        if self.0.is_empty() {
            return ".".to_owned();
        }
        let names: Vec<String> = self.0.iter().map(|name| shown(name)).collect();
        names.join("/")
    }
}

/// A name on one line: control characters are escaped, so that a file's name cannot pretend to be another line.
pub(crate) fn shown(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    if text.chars().any(char::is_control) {
        text.chars()
            .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
            .collect()
    } else {
        text.into_owned()
    }
}

/// A text of the caller, short enough for an error message.
pub(crate) fn clipped(text: &str) -> String {
    const SHOWN: usize = 200;
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    let end = (0..=SHOWN).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_inside_are_paths() {
        for (text, shown) in
            [("", "."), (".", "."), ("a", "a"), ("a/", "a"), ("./a//b/.", "a/b"), ("..a/...", "..a/..."), ("~", "~")]
        {
            assert_eq!(Inside::parse(text).ok().map(|path| path.shown()).as_deref(), Some(shown), "{text:?}");
        }
        let long = "a/".repeat(4000);
        for text in ["/", "/etc/passwd", "..", "a/..", "a/../b", "../a", "a\0b", long.as_str()] {
            assert!(matches!(Inside::parse(text), Err(WorkspaceError::BadPath { .. })), "{text:?}");
        }
    }

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(shown(OsStr::new("a\nb\t\u{1b}[0m")), "a\\nb\\t\\u{1b}[0m");
        assert_eq!(shown(OsStr::new("größe")), "größe");
    }
}
