//! Files of one folder: list, find, search and read; write, edit and delete where that was granted.
//!
//! | operation | follows links inside the folder | hidden and ignored files |
//! |---|---|---|
//! | list | the path's own; listed links are shown, not followed | the listed directory shows all; deeper levels pass them over |
//! | find, search | the path's own; found links are not followed | passed over, unless the path starts in them or the glob names a dot |
//! | read | yes | no difference |
//! | write, edit | the path's directories; the last name must be no link | no difference |
//! | delete | the path's directories; a link is deleted itself | no difference |
//!
//! *Hidden* is a name that begins with a dot; *ignored* is what `.gitignore` and `.ignore` files inside the folder name.
//! What belongs to a Git repository itself (`.git` and all below it) is never written, edited or deleted: settings and hooks
//! in it name programs that a person's next `git` command runs.
//! A link that leads out of the folder is never followed. Files that hold credentials by their paths are closed to all of
//! these: a list still shows their names, marked.

mod capability;
mod change;
mod find;
mod list;
mod path;
mod read;
mod root;
mod search;
mod text;
mod walk;

#[cfg(all(test, target_os = "linux"))]
mod race_tests;
#[cfg(test)]
mod tests;

use crate::error::WorkspaceError;
use path::Inside;
pub(crate) use path::clipped;
use placet_core::{Env, Redactor};
use root::{Credentials, Root};
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// How much one call may answer or change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileLimits {
    /// Entries of a list.
    pub entries: usize,
    /// Paths of a find.
    pub paths: usize,
    /// Lines of a search.
    pub matches: usize,
    /// Bytes of a line that a search shows.
    pub line_bytes: usize,
    /// Lines of a read, where the call names no limit.
    pub read_lines: u64,
    /// Bytes of a read.
    pub read_bytes: usize,
    /// Bytes of a file that is searched, and up to which a read counts lines.
    pub scanned_bytes: u64,
    /// Bytes of all files that one search reads.
    pub search_bytes: u64,
    /// Bytes of a file that is written or edited.
    pub written_bytes: u64,
}

impl Default for FileLimits {
    fn default() -> Self {
        FileLimits {
            entries: 1_000,
            paths: 1_000,
            matches: 200,
            line_bytes: 400,
            read_lines: 2_000,
            read_bytes: 48 * 1024,
            scanned_bytes: 64 << 20,
            search_bytes: 1 << 30,
            written_bytes: 8 << 20,
        }
    }
}

/// How a folder is handed over. The default is reading only, credentials closed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FilesOptions {
    /// Whether files may be written, edited and deleted.
    pub writable: bool,
    /// Whether files that hold credentials by their paths are open.
    pub allow_credentials: bool,
    /// How much one call may answer or change.
    pub limits: FileLimits,
    /// Takes secrets out of what is about to be cut, so that no half of one stays. The default knows shapes of
    /// credentials, but no values.
    pub redactor: Redactor,
}

impl FilesOptions {
    /// Reading only.
    #[must_use]
    pub fn new() -> Self {
        FilesOptions::default()
    }

    /// Writing, editing and deleting too.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.writable = true;
        self
    }

    /// Files that hold credentials too.
    #[must_use]
    pub fn allow_credentials(mut self) -> Self {
        self.allow_credentials = true;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: FileLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets what knows the secrets.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }
}

/// A folder, open: every operation stays inside. The operations block; run them where blocking is allowed.
#[derive(Debug)]
pub struct Files {
    root: Root,
    options: FilesOptions,
    env: Env,
}

impl Files {
    /// Opens the folder at `path`.
    ///
    /// # Errors
    /// [`WorkspaceError::Folder`] when it cannot be opened; [`WorkspaceError::Options`] when it is itself a place of
    /// credentials and these were not opened.
    pub fn open(env: &Env, path: impl AsRef<Path>, options: FilesOptions) -> Result<Self, WorkspaceError> {
        let root = Root::open(path.as_ref())?;
        let files = Files { root, options, env: env.clone() };
        if files.credentials() == Credentials::Closed
            && let Some(why) = files.root.credentials(&Inside::default())
        {
            return Err(WorkspaceError::Options(format!(
                "the folder {} is a place of {why}; grant another one, or open it with `allow_credentials`",
                files.root.path().display()
            )));
        }
        Ok(files)
    }

    /// The folder's path, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Whether files may be changed.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.options.writable
    }

    /// Opens a directory inside, for a command to start in.
    pub(crate) fn working_directory(&self, path: &str) -> Result<std::os::fd::OwnedFd, WorkspaceError> {
        self.root.directory(&Inside::parse(path)?, self.credentials()).map(|(dir, _)| dir)
    }

    /// Refuses what can be told from a path's text alone.
    fn named(&self, path: &str) -> Result<Inside, WorkspaceError> {
        let given = Inside::parse(path)?;
        self.root.check(&given, &given, self.credentials())?;
        Ok(given)
    }

    /// The same for a path that is to be changed.
    fn named_to_change(&self, path: &str) -> Result<(), WorkspaceError> {
        let given = Inside::parse(path)?;
        self.root.check_change(&given, &given)?;
        self.named(path).map(drop)
    }

    fn credentials(&self) -> Credentials {
        if self.options.allow_credentials { Credentials::Open } else { Credentials::Closed }
    }

    /// Whether a path that was met on a walk is closed.
    fn is_closed(&self, path: &Inside) -> bool {
        self.credentials() == Credentials::Closed && self.root.credentials(path).is_some()
    }
}

/// The names of a path inside a folder.
pub(crate) fn inside(path: &str) -> Result<std::path::PathBuf, WorkspaceError> {
    Inside::parse(path).map(|path| path.relative())
}

fn stopped(stop: &CancellationToken) -> Result<(), WorkspaceError> {
    if stop.is_cancelled() { Err(WorkspaceError::Cancelled) } else { Ok(()) }
}
