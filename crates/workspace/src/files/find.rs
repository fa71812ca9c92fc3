//! Files by their names.

use super::Files;
use super::path::{Inside, clipped};
use super::walk::{self, Rules};
use crate::answer::{Answer, counted};
use crate::error::WorkspaceError;
use globset::{GlobBuilder, GlobMatcher};
use rustix::fs::FileType;
use std::ops::ControlFlow;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// The longest glob, in bytes.
const LONGEST: usize = 1_000;

/// A glob as models write it: without `/` it is held against a file's name, with one against its path.
pub(crate) struct Glob {
    matcher: GlobMatcher,
    of_name: bool,
    /// Whether it asks for hidden files.
    pub(crate) hidden: bool,
}

impl Glob {
    pub(crate) fn parse(text: &str) -> Result<Self, WorkspaceError> {
        let bad = |problem: String| WorkspaceError::BadPattern { what: "glob", pattern: clipped(text), problem };
        let glob = text.trim_start_matches("./").trim_start_matches('/');
        if glob.is_empty() {
            return Err(bad("it is empty; `*.md` finds by name, `src/**/*.rs` by path".into()));
        }
        if glob.len() > LONGEST {
            return Err(bad(format!("it is longer than {LONGEST} bytes")));
        }
        let built = GlobBuilder::new(glob).literal_separator(true).build();
        let built = built.map_err(|error| bad(error.kind().to_string()))?;
        Ok(Glob {
            matcher: built.compile_matcher(),
            of_name: !glob.contains('/'),
            hidden: glob.split('/').any(|part| part.starts_with('.')),
        })
    }

    /// Whether a file matches; `above` is how many names of its path lie above the start of the walk. A path is tried
    /// relative to the start and to the root.
    pub(crate) fn matches(&self, path: &Inside, above: usize) -> bool {
        let names = path.names();
        if self.of_name {
            return names.last().is_some_and(|name| self.matcher.is_match(name));
        }
        let from = |at: usize| names[at.min(names.len())..].iter().collect::<PathBuf>();
        self.matcher.is_match(from(above)) || (above > 0 && self.matcher.is_match(from(0)))
    }
}

impl Files {
    /// Finds the files below `path` whose name (a glob without `/`) or path (one with `/`) matches: one path a line,
    /// relative to the folder.
    ///
    /// # Errors
    /// As the glob cannot be read, or the path is missing, outside, closed or no directory.
    pub fn find(&self, glob: &str, path: Option<&str>, stop: &CancellationToken) -> Result<Answer, WorkspaceError> {
        let glob = Glob::parse(glob)?;
        let given = Inside::parse(path.unwrap_or("."))?;
        let (dir, real) = self.root.directory(&given, self.credentials())?;
        let most = self.options.limits.paths;
        let (mut lines, mut total, mut closed) = (Vec::new(), 0_u64, 0_u64);
        let rules = Rules { hidden: glob.hidden, depth: usize::MAX, whole_start: false };
        let above = real.names().len();
        let walked = walk::walk(&self.root, dir, &real, rules, stop, &mut |visit| {
            if visit.entry.kind == FileType::RegularFile && glob.matches(visit.path, above) {
                if self.is_closed(visit.path) {
                    closed += 1;
                } else {
                    total += 1;
                    if lines.len() < most {
                        lines.push(visit.path.shown());
                    }
                }
            }
            ControlFlow::Continue(())
        })?;
        let shown = lines.len() as u64;
        let mut text = lines.join("\n");
        if total == 0 {
            text = "(no files found)".to_owned();
        }
        if shown < total {
            text.push_str(&format!("\n({shown} of {} shown)", counted(total, "file", "files")));
        }
        if closed > 0 {
            text.push_str(&format!("\n({} that may hold credentials not shown)", counted(closed, "file", "files")));
        }
        if walked.incomplete {
            text.push_str("\n(the folder is too large to be walked whole; name a `path` to look at a part of it)");
        }
        Ok(Answer::new(text)
            .of_files()
            .fact("files", total)
            .fact("shown", shown)
            .fact("closed", closed)
            .fact("complete", shown == total && !walked.incomplete)
            .cut(shown, total, "files"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_glob_is_held_against_names_or_paths() {
        let matches = |glob: &str, path: &str, above: usize| {
            Glob::parse(glob).expect("a glob").matches(&Inside::parse(path).expect("a path"), above)
        };
        assert!(matches("*.rs", "src/deep/main.rs", 0));
        assert!(!matches("*.rs", "src/main.rs.txt", 0));
        assert!(matches("src/*.rs", "src/main.rs", 0));
        assert!(!matches("src/*.rs", "src/deep/main.rs", 0), "a star does not cross a slash");
        assert!(matches("src/**/*.rs", "src/deep/main.rs", 0));
        assert!(matches("**/*.rs", "main.rs", 0));
        assert!(matches("deep/*.rs", "src/deep/main.rs", 1), "relative to the start");
        assert!(matches("src/deep/*.rs", "src/deep/main.rs", 1), "relative to the root");
        assert!(matches("./src/*.{rs,toml}", "src/main.rs", 0));
        assert!(matches("[a-c]?.md", "b1.md", 0));
        assert!(Glob::parse("[a").is_err() && Glob::parse("").is_err() && Glob::parse("{a").is_err());
        assert!(Glob::parse(".github/*").expect("a glob").hidden && !Glob::parse("*.md").expect("a glob").hidden);
    }
}
