//! Writing, editing and deleting.
//!
//! A file is never half written: its new content goes to a new file beside it, is flushed to disk, and takes the name in
//! one step. Then it is read back and compared. Permissions are kept, and the owner where the system allows it; extended
//! attributes are not. Hard links to the old content keep the old content.

use super::path::Inside;
use super::root::{is_directory, kind_words};
use super::walk::entries;
use super::{Files, stopped, text};
use crate::answer::{Answer, counted};
use crate::error::WorkspaceError;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use tokio_util::sync::CancellationToken;

/// What a file is known by between looking and replacing.
#[derive(Debug, PartialEq, Eq)]
struct Version {
    inode: u128,
    size: i128,
    changed: (i128, i128),
}

impl Version {
    fn of(stat: &Stat) -> Self {
        // These fields have other types on other systems.
        Version {
            inode: u128::from(stat.st_ino),
            size: i128::from(stat.st_size),
            changed: (i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec)),
        }
    }
}

impl Files {
    /// Writes the file at `path` whole, and makes its directories where they are missing.
    ///
    /// # Errors
    /// As the path is outside, closed, a link or no file, or the content too large; *conflict* where somebody else
    /// changed it at the same time.
    pub fn write(&self, path: &str, content: &str, stop: &CancellationToken) -> Result<Answer, WorkspaceError> {
        self.granted()?;
        let given = Inside::parse(path)?;
        self.bounded("the content", content.len() as u64)?;
        stopped(stop)?;
        let (dir, name, real) = self.root.parent(&given, self.credentials(), true)?;
        let old = self.target(dir.as_fd(), &name, &given)?;
        self.replace(dir.as_fd(), &name, &given, content.as_bytes(), old.as_ref(), false)?;
        let lines = content.split_inclusive('\n').count() as u64;
        let did = if old.is_some() { "replaced" } else { "created" };
        let size = counted(content.len() as u64, "byte", "bytes");
        Ok(Answer::new(format!("{did} {} ({size}, {})", given.shown(), counted(lines, "line", "lines")))
            .fact("path", real.shown())
            .fact("bytes", content.len())
            .fact("created", old.is_none()))
    }

    /// Replaces the text `old`, which must be there exactly once, by `new`.
    ///
    /// # Errors
    /// As the path is missing, outside, closed, a link or no text file, or `old` is not there exactly once; *conflict*
    /// where somebody else changed the file at the same time.
    pub fn edit(&self, path: &str, old: &str, new: &str, stop: &CancellationToken) -> Result<Answer, WorkspaceError> {
        self.granted()?;
        let given = Inside::parse(path)?;
        replaceable(old, new)?;
        stopped(stop)?;
        let (dir, name, real) = self.root.parent(&given, self.credentials(), false)?;
        let Some(stat) = self.target(dir.as_fd(), &name, &given)? else {
            return Err(WorkspaceError::NotFound { path: given.shown() });
        };
        let file = self.root.file_in(dir.as_fd(), &name, &given)?;
        let content = self.whole(file, &given)?;
        let places: Vec<usize> = content.match_indices(old).map(|(at, _)| at).collect();
        let at = match places.as_slice() {
            [at] if !overlaps(&content, old, *at) => *at,
            [] => return Err(WorkspaceError::EditNotFound { path: given.shown(), hint: near(&content, old) }),
            several => {
                let count = several.len().max(2);
                let lines: Vec<String> = several.iter().take(5).map(|at| line_of(&content, *at).to_string()).collect();
                let lines = lines.join(", ") + if several.len() > 5 { ", …" } else { "" };
                return Err(WorkspaceError::EditAmbiguous { path: given.shown(), count, lines });
            }
        };
        let edited = [&content[..at], new, &content[at + old.len()..]].concat();
        self.bounded("the edited file", edited.len() as u64)?;
        self.replace(dir.as_fd(), &name, &given, edited.as_bytes(), Some(&stat), true)?;
        let first = line_of(&content, at);
        let lines = |text: &str| text.split_inclusive('\n').count() as u64;
        let what = format!("{} by {}", counted(lines(old), "line", "lines"), lines(new));
        Ok(Answer::new(format!("edited {}: {what} at line {first}", given.shown()))
            .fact("path", real.shown())
            .fact("bytes", edited.len())
            .fact("line", first))
    }

    /// Deletes the file, link or empty directory at `path`. A link is deleted itself, not what it leads to. Where nothing
    /// is there, nothing happens, so that a repetition does no harm.
    ///
    /// # Errors
    /// As the path is outside or closed, or a directory that holds something.
    pub fn delete(&self, path: &str, stop: &CancellationToken) -> Result<Answer, WorkspaceError> {
        self.granted()?;
        let given = Inside::parse(path)?;
        if given.is_root() {
            return Err(WorkspaceError::WrongKind {
                path: ".".into(),
                found: "the folder itself",
                expected: "something in it",
            });
        }
        stopped(stop)?;
        let gone = |given: &Inside| {
            Answer::new(format!("nothing to delete: there is no {}", given.shown()))
                .fact("path", given.shown())
                .fact("deleted", false)
        };
        let (dir, name, real) = match self.root.parent(&given, self.credentials(), false) {
            Ok(found) => found,
            Err(WorkspaceError::NotFound { .. }) => return Ok(gone(&given)),
            Err(error) => return Err(error),
        };
        let failed = |errno: Errno| WorkspaceError::io(given.shown(), errno);
        let stat = match rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(gone(&given)),
            Err(errno) => return Err(failed(errno)),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let flags = if kind == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match rustix::fs::unlinkat(&dir, &name, flags) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(gone(&given)),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let entries = self
                    .root
                    .directory(&real, self.credentials())
                    .and_then(|(dir, _)| entries(dir.as_fd(), &real))
                    .map_or(0, |found| found.total);
                return Err(WorkspaceError::NotEmpty { path: given.shown(), entries });
            }
            Err(Errno::ISDIR | Errno::NOTDIR | Errno::PERM) if is_directory(&stat) != now_directory(&dir, &name) => {
                return Err(WorkspaceError::Changed { path: given.shown(), state: "it is of another kind now" });
            }
            Err(errno) => return Err(failed(errno)),
        }
        let _ = rustix::fs::fsync(&dir);
        let what = match kind {
            FileType::Symlink => "the link ",
            FileType::Directory => "the empty directory ",
            _ => "",
        };
        Ok(Answer::new(format!("deleted {what}{}", given.shown())).fact("path", real.shown()).fact("deleted", true))
    }

    /// A word for the state of what is at `path`, another one after each change; nothing where nothing (that may be looked at)
    /// is there.
    pub(super) fn revision(&self, path: &str) -> Option<String> {
        let given = Inside::parse(path).ok()?;
        let (dir, name, _) = self.root.parent(&given, self.credentials(), false).ok()?;
        let stat = rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let Version { inode, size, changed: (seconds, nanos) } = Version::of(&stat);
        Some(format!("{inode:x}-{size:x}-{seconds:x}.{nanos:x}"))
    }

    fn granted(&self) -> Result<(), WorkspaceError> {
        if self.options.writable { Ok(()) } else { Err(WorkspaceError::ReadOnly) }
    }

    pub(super) fn bounded(&self, what: &str, size: u64) -> Result<(), WorkspaceError> {
        let limit = self.options.limits.written_bytes;
        if size > limit { Err(WorkspaceError::TooLarge { what: what.to_owned(), size, limit }) } else { Ok(()) }
    }

    /// What is to be replaced: a file or nothing.
    fn target(&self, dir: BorrowedFd<'_>, name: &OsStr, given: &Inside) -> Result<Option<Stat>, WorkspaceError> {
        match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Ok(Some(stat)),
                FileType::Symlink => Err(WorkspaceError::IsLink { path: given.shown() }),
                kind => {
                    let found = kind_words(kind);
                    Err(WorkspaceError::WrongKind { path: given.shown(), found, expected: "a file" })
                }
            },
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(WorkspaceError::io(given.shown(), errno)),
        }
    }

    /// The whole text of a file that is to be edited.
    fn whole(&self, file: File, given: &Inside) -> Result<String, WorkspaceError> {
        let limit = self.options.limits.written_bytes;
        let mut bytes = Vec::new();
        let read = file.take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|source| WorkspaceError::io(given.shown(), source))?;
        self.bounded(&format!("`{}`", given.shown()), bytes.len() as u64)?;
        let size = bytes.len() as u64;
        match String::from_utf8(bytes) {
            Ok(content) if !text::is_binary(&content.as_bytes()[..content.len().min(text::SNIFFED)]) => Ok(content),
            _ => Err(WorkspaceError::NotText { path: given.shown(), size }),
        }
    }

    /// Puts `content` in the place of the file `name`, which was `old` when it was looked at.
    fn replace(
        &self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        given: &Inside,
        content: &[u8],
        old: Option<&Stat>,
        guarded: bool,
    ) -> Result<(), WorkspaceError> {
        let failed = |source: std::io::Error| WorkspaceError::io(given.shown(), source);
        let aside = OsString::from(format!(".placet-{:016x}.tmp", self.env.random().next_u64()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A new file's permissions are the system's default; an old one's are set below.
        let fd =
            rustix::fs::openat(dir, &aside, flags, Mode::from_raw_mode(0o666)).map_err(|errno| failed(errno.into()))?;
        let fill = || -> std::io::Result<()> {
            let mut file = File::from(fd);
            if let Some(old) = old {
                // The owner first: changing it takes permission bits away. Not being allowed to is no failure.
                let owner = rustix::fs::Uid::from_raw(old.st_uid);
                let group = rustix::fs::Gid::from_raw(old.st_gid);
                let _ = rustix::fs::fchown(&file, Some(owner), Some(group));
                // New content does not inherit the right to act as somebody else.
                rustix::fs::fchmod(&file, Mode::from_raw_mode(old.st_mode & 0o777))?;
            }
            file.write_all(content)?;
            file.sync_all()
        };
        let placed = fill().map_err(failed).and_then(|()| {
            if guarded {
                let now = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok();
                if now.as_ref().map(Version::of) != old.map(Version::of) {
                    return Err(WorkspaceError::Changed { path: given.shown(), state: "nothing was written" });
                }
            }
            match rustix::fs::renameat(dir, &aside, dir, name) {
                Ok(()) => Ok(()),
                Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                    Err(WorkspaceError::Changed { path: given.shown(), state: "a directory has its name now" })
                }
                Err(errno) => Err(failed(errno.into())),
            }
        });
        if placed.is_err() {
            let _ = rustix::fs::unlinkat(dir, &aside, AtFlags::empty());
            return placed;
        }
        let _ = rustix::fs::fsync(dir);
        self.compare(dir, name, given, content)
    }

    /// Reads back what was written.
    fn compare(&self, dir: BorrowedFd<'_>, name: &OsStr, given: &Inside, content: &[u8]) -> Result<(), WorkspaceError> {
        let mut found = Vec::with_capacity(content.len());
        let read = self.root.file_in(dir, name, given).and_then(|file| {
            let read = file.take(content.len() as u64 + 1).read_to_end(&mut found);
            read.map_err(|source| WorkspaceError::io(given.shown(), source))
        });
        if read.is_ok() && found == content {
            return Ok(());
        }
        let state = "it was written, but holds something else already";
        Err(WorkspaceError::Changed { path: given.shown(), state })
    }
}

/// Whether these can be the texts of an edit.
pub(super) fn replaceable(old: &str, new: &str) -> Result<(), WorkspaceError> {
    if old.is_empty() {
        return Err(WorkspaceError::EditEmpty("`old` is empty; give the text to replace, or write the file whole"));
    }
    if old == new {
        return Err(WorkspaceError::EditEmpty("`old` and `new` are the same text, so nothing would change"));
    }
    Ok(())
}

fn now_directory(dir: &impl AsFd, name: &OsStr) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| is_directory(&stat))
}

/// Whether `old` is also there overlapping the place where it was found (`aa` in `aaa`).
fn overlaps(content: &str, old: &str, at: usize) -> bool {
    let mut next = at + 1;
    while !content.is_char_boundary(next) {
        next += 1;
    }
    content[next..].contains(old)
}

fn line_of(content: &str, at: usize) -> usize {
    content[..at].matches('\n').count() + 1
}

/// What is nearly the text that was looked for.
fn near(content: &str, old: &str) -> &'static str {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    if content.contains("\r\n") && content.replace("\r\n", "\n").contains(&old.replace("\r\n", "\n")) {
        return ", though it does with other line ends (the file has CR LF)";
    }
    if plain(content).contains(&plain(old)) {
        return ", though it does with other spaces or line breaks";
    }
    ""
}
