//! A directory that nothing leads out of.
//!
//! Every operation starts at a descriptor of the root and goes name by name, or in one `openat2` that follows no link
//! (Linux 5.6 and later). Links are resolved here, in code: one that is absolute or climbs above the root is an error
//! and never followed. Between resolving and opening somebody may put a link where a directory was; the opening follows
//! no link, so that it fails then, and the whole is tried again. No path is ever handed to the system from outside the
//! root, and `..` is never opened: climbing goes back to the descriptor that one came from.
//!
//! What this cannot see: hard links to files outside, and mounts inside the root. Whoever can make those could hand over
//! the content anyway.

use super::path::Inside;
use crate::error::WorkspaceError;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How many links one path may lead through.
const MOST_LINKS: usize = 40;
/// How often a path that changes under our hands is tried again.
const MOST_TRIES: usize = 16;

/// Flags for a directory that is only a place to start from.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEP: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory to read.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A file to read. Not blocking, so that a named pipe cannot hold us.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open directory, and the only way to what is below it.
#[derive(Debug)]
pub(crate) struct Root {
    fd: OwnedFd,
    path: PathBuf,
    /// Off where the kernel has no `openat2`, and in tests of the other way.
    whole: bool,
}

/// Where a path leads once its links are followed.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// The path without links.
    pub(crate) path: Inside,
    /// What is there; nothing where the path's end does not exist.
    pub(crate) stat: Option<Stat>,
    /// How many names at the end of the path do not exist.
    pub(crate) missing: usize,
}

/// Whether paths of credentials are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    Closed,
    Open,
}

impl Root {
    /// Opens the directory at `path`, links followed: it is the operator's word.
    pub(crate) fn open(path: &Path) -> Result<Self, WorkspaceError> {
        let folder = |source: std::io::Error| WorkspaceError::Folder { path: path.to_owned(), source };
        let real = path.canonicalize().map_err(folder)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&real, flags, Mode::empty()).map_err(|errno| folder(errno.into()))?;
        let whole = whole_paths(fd.as_fd());
        Ok(Root { fd, path: real, whole })
    }

    /// Goes name by name, as on a system without `openat2`.
    #[cfg(test)]
    pub(crate) fn stepwise(mut self) -> Self {
        self.whole = false;
        self
    }

    /// The directory's own path, without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Why the path is closed, if it is one of credentials.
    pub(crate) fn credentials(&self, path: &Inside) -> Option<&'static str> {
        // The folder's own path counts too, so that a grant of `~/.aws` does not open `credentials` in it. A folder that
        // is a place of credentials itself was refused when it was granted, or opened on purpose.
        placet_core::redact::credential_path(self.path.join(path.relative()))
    }

    /// Refuses credentials, by the path as it was given and by the one it leads to.
    pub(crate) fn check(&self, given: &Inside, real: &Inside, credentials: Credentials) -> Result<(), WorkspaceError> {
        if credentials == Credentials::Open {
            return Ok(());
        }
        match self.credentials(given).or_else(|| self.credentials(real)) {
            Some(why) => Err(WorkspaceError::Credentials { path: given.shown(), why }),
            None => Ok(()),
        }
    }

    /// Refuses changes to what belongs to a Git repository itself: its settings and hooks name programs that the next `git`
    /// command of a person runs. By the path as it was given, the one it leads to, and the folder's own.
    pub(crate) fn check_change(&self, given: &Inside, real: &Inside) -> Result<(), WorkspaceError> {
        let inside = given.names().iter().chain(real.names()).map(OsString::as_os_str);
        if self.path.iter().chain(inside).any(is_git) {
            Err(WorkspaceError::Protected { path: given.shown() })
        } else {
            Ok(())
        }
    }

    /// Follows the links of `given`. The last name is followed only where `follow_last` says so.
    pub(crate) fn resolve(&self, given: &Inside, follow_last: bool) -> Result<Resolved, WorkspaceError> {
        let mut dirs: Vec<OwnedFd> = Vec::new();
        let mut real: Vec<OsString> = Vec::new();
        let mut pending: VecDeque<OsString> = given.names().iter().cloned().collect();
        let mut links = 0;
        let failed = |errno: Errno| WorkspaceError::io(given.shown(), errno);
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                // Only links bring these. Each opened directory stands for one real name.
                if real.pop().is_none() {
                    return Err(WorkspaceError::Leaves { path: given.shown(), link: given.shown() });
                }
                dirs.truncate(real.len());
                continue;
            }
            let at = dirs.last().map_or(self.fd.as_fd(), |dir| dir.as_fd());
            let stat = match rustix::fs::statat(at, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => {
                    if pending.iter().any(|name| name == "..") {
                        return Err(WorkspaceError::NotFound { path: given.shown() });
                    }
                    let missing = 1 + pending.len();
                    real.push(name);
                    real.extend(pending);
                    return Ok(Resolved { path: Inside::from_names(real), stat: None, missing });
                }
                Err(errno) => return Err(failed(errno)),
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink if follow_last || !pending.is_empty() => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(WorkspaceError::TooManyLinks { path: given.shown() });
                    }
                    let target = match rustix::fs::readlinkat(at, &name, Vec::new()) {
                        Ok(target) => OsString::from_vec(target.into_bytes()),
                        // No link any more: look again.
                        Err(Errno::INVAL | Errno::NOENT) => {
                            pending.push_front(name);
                            continue;
                        }
                        Err(errno) => return Err(failed(errno)),
                    };
                    let link = Inside::from_names(real.clone()).join(&name).shown();
                    if target.as_bytes().starts_with(b"/") {
                        return Err(WorkspaceError::Leaves { path: given.shown(), link });
                    }
                    let names = target.as_bytes().split(|byte| *byte == b'/');
                    let names: Vec<&[u8]> = names.filter(|name| !name.is_empty() && *name != b".").collect();
                    // Climbing above the root is found here already where the link alone does it, to name the link.
                    let climbs = names.iter().take_while(|name| **name == b"..").count();
                    if climbs > real.len() {
                        return Err(WorkspaceError::Leaves { path: given.shown(), link });
                    }
                    for name in names.iter().rev() {
                        pending.push_front(OsStr::from_bytes(name).to_owned());
                    }
                }
                FileType::Directory => {
                    if pending.is_empty() {
                        real.push(name);
                        return Ok(Resolved { path: Inside::from_names(real), stat: Some(stat), missing: 0 });
                    }
                    match rustix::fs::openat(at, &name, STEP, Mode::empty()) {
                        Ok(dir) => {
                            dirs.push(dir);
                            real.push(name);
                        }
                        // It became something else meanwhile: look again.
                        Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => {
                            links += 1;
                            if links > MOST_LINKS {
                                return Err(changing(given));
                            }
                            pending.push_front(name);
                        }
                        Err(errno) => return Err(failed(errno)),
                    }
                }
                kind => {
                    if !pending.is_empty() {
                        let path = Inside::from_names(real).join(&name).shown();
                        let found = kind_words(kind);
                        return Err(WorkspaceError::WrongKind { path, found, expected: "a directory" });
                    }
                    real.push(name);
                    return Ok(Resolved { path: Inside::from_names(real), stat: Some(stat), missing: 0 });
                }
            }
        }
        let at = dirs.last().map_or(self.fd.as_fd(), |dir| dir.as_fd());
        let stat = rustix::fs::fstat(at).map_err(failed)?;
        Ok(Resolved { path: Inside::from_names(real), stat: Some(stat), missing: 0 })
    }

    /// Opens a path that has no links. One that has some by now fails with `ELOOP` or `ENOTDIR`.
    fn open_plain(&self, path: &Inside, flags: OFlags) -> Result<OwnedFd, Errno> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if self.whole {
            use rustix::fs::ResolveFlags;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
            let mut tries = 0;
            loop {
                match rustix::fs::openat2(&self.fd, path.relative(), flags, Mode::empty(), resolve) {
                    Err(Errno::AGAIN) if tries < MOST_TRIES => tries += 1,
                    other => return other,
                }
            }
        }
        let mut dir: Option<OwnedFd> = None;
        let Some((last, rest)) = path.names().split_last() else {
            return rustix::fs::openat(&self.fd, ".", flags, Mode::empty());
        };
        for name in rest {
            let at = dir.as_ref().map_or(self.fd.as_fd(), |dir| dir.as_fd());
            let next = rustix::fs::openat(at, name, STEP, Mode::empty())?;
            dir = Some(next);
        }
        rustix::fs::openat(dir.as_ref().map_or(self.fd.as_fd(), |dir| dir.as_fd()), last, flags, Mode::empty())
    }

    /// Resolves and opens, again where the path changed in between.
    fn open_resolved(
        &self,
        given: &Inside,
        credentials: Credentials,
        flags: OFlags,
        expected: &'static str,
        wanted: fn(FileType) -> bool,
    ) -> Result<(OwnedFd, Inside), WorkspaceError> {
        for _ in 0..MOST_TRIES {
            let resolved = match self.resolve(given, true) {
                Ok(resolved) => resolved,
                // The refusal of credentials comes first: whether they exist is nobody's business.
                Err(error) => {
                    self.check(given, given, credentials)?;
                    return Err(error);
                }
            };
            self.check(given, &resolved.path, credentials)?;
            let Some(stat) = resolved.stat else { return Err(WorkspaceError::NotFound { path: given.shown() }) };
            let kind = FileType::from_raw_mode(stat.st_mode);
            if !wanted(kind) {
                return Err(WorkspaceError::WrongKind { path: given.shown(), found: kind_words(kind), expected });
            }
            match self.open_plain(&resolved.path, flags) {
                Ok(fd) => return Ok((fd, resolved.path)),
                Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT | Errno::NXIO) => {}
                Err(errno) => return Err(WorkspaceError::io(given.shown(), errno)),
            }
        }
        Err(changing(given))
    }

    /// Opens a regular file to read. Links inside the root are followed.
    pub(crate) fn file(&self, given: &Inside, credentials: Credentials) -> Result<(File, Inside), WorkspaceError> {
        let (fd, real) =
            self.open_resolved(given, credentials, FILE, "a file", |kind| kind == FileType::RegularFile)?;
        self.regular(fd, given).map(|file| (file, real))
    }

    /// Opens a regular file by its name in an open directory; follows nothing.
    pub(crate) fn file_in(&self, dir: BorrowedFd<'_>, name: &OsStr, shown: &Inside) -> Result<File, WorkspaceError> {
        match rustix::fs::openat(dir, name, FILE, Mode::empty()) {
            Ok(fd) => self.regular(fd, shown),
            Err(Errno::LOOP) => Err(WorkspaceError::IsLink { path: shown.shown() }),
            Err(Errno::NOENT) => Err(WorkspaceError::NotFound { path: shown.shown() }),
            Err(errno) => Err(WorkspaceError::io(shown.shown(), errno)),
        }
    }

    fn regular(&self, fd: OwnedFd, shown: &Inside) -> Result<File, WorkspaceError> {
        let stat = rustix::fs::fstat(&fd).map_err(|errno| WorkspaceError::io(shown.shown(), errno))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(File::from(fd)),
            kind => {
                let found = kind_words(kind);
                Err(WorkspaceError::WrongKind { path: shown.shown(), found, expected: "a file" })
            }
        }
    }

    /// Opens a directory to read. Links inside the root are followed.
    pub(crate) fn directory(
        &self,
        given: &Inside,
        credentials: Credentials,
    ) -> Result<(OwnedFd, Inside), WorkspaceError> {
        self.open_resolved(given, credentials, DIRECTORY, "a directory", |kind| kind == FileType::Directory)
    }

    /// Opens the directory that holds the last name of `given` for a change, made with its parents where it is missing and `create`
    /// is set. Links on the way are followed inside the root; the last name is not looked at.
    pub(crate) fn parent(
        &self,
        given: &Inside,
        credentials: Credentials,
        create: bool,
    ) -> Result<(OwnedFd, OsString, Inside), WorkspaceError> {
        let Some((parent, name)) = given.split_last() else {
            return Err(WorkspaceError::WrongKind { path: ".".into(), found: "the folder itself", expected: "a file" });
        };
        self.check_change(given, given)?;
        for _ in 0..MOST_TRIES {
            let resolved = match self.resolve(&parent, true) {
                Ok(resolved) => resolved,
                Err(error) => {
                    self.check(given, given, credentials)?;
                    return Err(error);
                }
            };
            let real = resolved.path.join(name);
            self.check_change(given, &real)?;
            self.check(given, &real, credentials)?;
            let existing = resolved.path.names().len() - resolved.missing;
            let (old, new) = resolved.path.names().split_at(existing);
            if !new.is_empty() && !create {
                return Err(WorkspaceError::NotFound { path: given.shown() });
            }
            let opened = self.open_plain(&Inside::from_names(old.to_vec()), DIRECTORY);
            let made = opened.and_then(|dir| new.iter().try_fold(dir, |dir, name| make(&dir, name)));
            match made {
                Ok(dir) => return Ok((dir, name.to_owned(), real)),
                Err(Errno::NOTDIR) if resolved.stat.is_some_and(|stat| !is_directory(&stat)) => {
                    return Err(WorkspaceError::WrongKind {
                        path: parent.shown(),
                        found: "a file",
                        expected: "a directory",
                    });
                }
                Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => {}
                Err(errno) => return Err(WorkspaceError::io(given.shown(), errno)),
            }
        }
        Err(changing(given))
    }
}

/// Makes a directory, or opens the one that is there.
fn make(dir: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => rustix::fs::openat(dir, name, DIRECTORY, Mode::empty()),
        Err(errno) => Err(errno),
    }
}

/// Whether a name is `.git` to some system: without regard to case, as `git~1` (the short name that some systems give it),
/// or with characters in it that some systems pass over.
fn is_git(name: &OsStr) -> bool {
    let passed_over = |c: &char| matches!(*c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let name: String = name.to_string_lossy().chars().filter(|c| !passed_over(c)).collect();
    [".git", "git~1"].iter().any(|git| name.trim_end_matches([' ', '.']).eq_ignore_ascii_case(git))
}

fn changing(given: &Inside) -> WorkspaceError {
    WorkspaceError::Changed { path: given.shown(), state: "its directories keep changing" }
}

pub(crate) fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// What a model reads of a kind of file.
pub(crate) fn kind_words(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "no file of a known kind",
    }
}

/// Whether the kernel opens whole paths beneath a directory. Sandboxes answer `EPERM` for what they do not know.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn whole_paths(fd: BorrowedFd<'_>) -> bool {
    use rustix::fs::ResolveFlags;
    rustix::fs::openat2(fd, ".", STEP, Mode::empty(), ResolveFlags::BENEATH).is_ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn whole_paths(_: BorrowedFd<'_>) -> bool {
    false
}
