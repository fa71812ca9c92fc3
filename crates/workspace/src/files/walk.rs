//! Walking a directory tree by descriptors, in a steady order, with the rules of `.gitignore` and `.ignore` files.
//!
//! Links are not followed. The rules of files between the root and the start count as well as those below; rules above
//! the root and those of the user's own git configuration do not, so that the same folder gives the same answer on every
//! machine.

use super::path::Inside;
use super::root::Root;
use crate::error::WorkspaceError;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// Deeper than this nobody goes.
const DEEPEST: usize = 64;
/// How many names of one directory are held.
const MOST_NAMES: usize = 100_000;
/// How many entries one walk looks at.
const MOST_ENTRIES: u64 = 500_000;
/// How much of a file of rules is read, in bytes.
const MOST_RULES: u64 = 1 << 20;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: FileType,
}

/// The entries of a directory, sorted by name.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) entries: Vec<Entry>,
    /// How many there are; more than `entries` where a directory is huge.
    pub(crate) total: u64,
}

/// Reads a directory.
pub(crate) fn entries(dir: BorrowedFd<'_>, shown: &Inside) -> Result<Entries, WorkspaceError> {
    let failed = |errno: rustix::io::Errno| WorkspaceError::io(shown.shown(), errno);
    let mut found = Entries::default();
    for entry in Dir::read_from(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        found.total += 1;
        if found.entries.len() >= MOST_NAMES {
            continue;
        }
        let name = OsStr::from_bytes(name).to_owned();
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                // Gone meanwhile.
                Err(_) => continue,
            },
            kind => kind,
        };
        found.entries.push(Entry { name, kind });
    }
    found.entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// What a walk passes over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Whether names that begin with a dot are walked. A directory named `.git` never is, unless the walk starts in it.
    pub(crate) hidden: bool,
    /// How many levels below the start; 1 is the start's own entries.
    pub(crate) depth: usize,
    /// Whether the start's own entries are all shown, hidden and ignored ones too.
    pub(crate) whole_start: bool,
}

/// What a walk shows.
pub(crate) struct Visit<'a> {
    /// The directory that holds it.
    pub(crate) dir: BorrowedFd<'a>,
    pub(crate) entry: &'a Entry,
    /// Its path inside the root.
    pub(crate) path: &'a Inside,
}

/// How a walk went.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// Whether it stopped before the end, at one of its bounds.
    pub(crate) incomplete: bool,
    /// Directories that could not be read.
    pub(crate) unreadable: u64,
}

/// Walks everything below `start`, whose path is `path`, in the order of names.
pub(crate) fn walk(
    root: &Root,
    start: OwnedFd,
    path: &Inside,
    rules: Rules,
    stop: &CancellationToken,
    visit: &mut dyn FnMut(&Visit<'_>) -> ControlFlow<()>,
) -> Result<Walked, WorkspaceError> {
    let ignored = above(root, path);
    let mut walker =
        Walker { rules, stop, visit, ignored, path: path.clone(), walked: Walked::default(), seen: 0, level: 0 };
    let _ = walker.directory(start)?;
    Ok(walker.walked)
}

struct Walker<'a> {
    rules: Rules,
    stop: &'a CancellationToken,
    visit: &'a mut dyn FnMut(&Visit<'_>) -> ControlFlow<()>,
    /// Rules, each with the number of names of the path that it is relative to.
    ignored: Vec<(usize, Gitignore)>,
    path: Inside,
    walked: Walked,
    seen: u64,
    level: usize,
}

impl Walker<'_> {
    fn directory(&mut self, dir: OwnedFd) -> Result<ControlFlow<()>, WorkspaceError> {
        if self.stop.is_cancelled() {
            return Err(WorkspaceError::Cancelled);
        }
        let rules_before = self.ignored.len();
        let at = self.path.names().len();
        self.ignored.extend(rules_in(dir.as_fd()).into_iter().map(|rules| (at, rules)));
        let found = match entries(dir.as_fd(), &self.path) {
            Ok(found) => found,
            Err(error) if self.level == 0 => return Err(error),
            Err(_) => {
                self.walked.unreadable += 1;
                Entries::default()
            }
        };
        self.walked.incomplete |= found.total > found.entries.len() as u64;
        self.level += 1;
        let mut flow = ControlFlow::Continue(());
        for entry in &found.entries {
            self.path.push(&entry.name);
            flow = self.entry(dir.as_fd(), entry)?;
            self.path.pop();
            if flow.is_break() {
                break;
            }
        }
        self.level -= 1;
        self.ignored.truncate(rules_before);
        Ok(flow)
    }

    fn entry(&mut self, dir: BorrowedFd<'_>, entry: &Entry) -> Result<ControlFlow<()>, WorkspaceError> {
        self.seen += 1;
        if self.seen > MOST_ENTRIES {
            self.walked.incomplete = true;
            return Ok(ControlFlow::Break(()));
        }
        let is_directory = entry.kind == FileType::Directory;
        let passed_over = self.is_passed_over(entry, is_directory);
        if passed_over && !(self.rules.whole_start && self.level == 1) {
            return Ok(ControlFlow::Continue(()));
        }
        if (self.visit)(&Visit { dir, entry, path: &self.path }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if !is_directory || passed_over || self.level >= self.rules.depth {
            return Ok(ControlFlow::Continue(()));
        }
        if self.level >= DEEPEST {
            self.walked.incomplete = true;
            return Ok(ControlFlow::Continue(()));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(dir, &entry.name, flags, Mode::empty()) {
            Ok(next) => self.directory(next),
            Err(_) => {
                self.walked.unreadable += 1;
                Ok(ControlFlow::Continue(()))
            }
        }
    }

    fn is_passed_over(&self, entry: &Entry, is_directory: bool) -> bool {
        if entry.name.as_bytes().first() == Some(&b'.') && (!self.rules.hidden || entry.name == ".git") {
            return true;
        }
        let names = self.path.names();
        // The deepest file of rules that says anything decides.
        for (at, rules) in self.ignored.iter().rev() {
            let relative: PathBuf = names[*at..].iter().collect();
            let found = rules.matched(&relative, is_directory);
            if !found.is_none() {
                return found.is_ignore();
            }
        }
        false
    }
}

/// The rules of the directories from the root down to the one that holds `path`.
fn above(root: &Root, path: &Inside) -> Vec<(usize, Gitignore)> {
    let mut rules = Vec::new();
    let names = path.names();
    for at in 0..names.len() {
        let Ok((dir, _)) = root.directory(&Inside::from_names(names[..at].to_vec()), super::root::Credentials::Open)
        else {
            break;
        };
        rules.extend(rules_in(dir.as_fd()).into_iter().map(|found| (at, found)));
    }
    rules
}

/// The rules of one directory; those of `.ignore` stand above those of `.gitignore`.
fn rules_in(dir: BorrowedFd<'_>) -> Vec<Gitignore> {
    [".gitignore", ".ignore"].into_iter().filter_map(|name| rules_of(dir, name)).collect()
}

fn rules_of(dir: BorrowedFd<'_>, name: &str) -> Option<Gitignore> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut text = Vec::new();
    File::from(fd).take(MOST_RULES).read_to_end(&mut text).ok()?;
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(&text).lines() {
        // A line that is no rule is passed over, as git does.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
