//! The home of one command, and the homes that programs which were killed have left.

use super::CommandOptions;
use super::limits::end_marked;
use crate::error::WorkspaceError;
use placet_core::Env;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What the names of our folders begin with; the call's mark follows.
const PREFIX: &str = "placet-call-";
/// How often a folder is made anew that somebody took for a stale one.
const TRIES: usize = 8;

/// The home of one command, and the mark of its call, which its processes carry in their environment.
pub(super) struct Home {
    path: PathBuf,
    mark: String,
    /// Held for as long as the folder is in use; absent for a home that was granted, which is not ours to remove.
    lock: Option<File>,
}

impl Home {
    pub(super) fn make(env: &Env, options: &CommandOptions) -> Result<Self, WorkspaceError> {
        let failed = |source: io::Error| WorkspaceError::io("the command's home", source);
        if let Some(path) = &options.home {
            return Ok(Home { path: path.clone(), mark: mark(env), lock: None });
        }
        for _ in 0..TRIES {
            let mark = mark(env);
            let path = std::env::temp_dir().join(format!("{PREFIX}{mark}"));
            // Fails where somebody has put something there.
            DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
            if let Some(lock) = locked(&path).map_err(failed)? {
                return Ok(Home { path, mark, lock: Some(lock) });
            }
        }
        Err(failed(io::Error::other("it is removed as soon as it is made")))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The mark of the call.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }
}

fn mark(env: &Env) -> String {
    format!("{:016x}", env.random().next_u64())
}

/// Locks a folder that was just made; nothing where a sweep of another process was faster, and has removed it.
fn locked(path: &Path) -> io::Result<Option<File>> {
    let folder = match File::open(path) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    folder.lock()?;
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.ino() == folder.metadata()?.ino() => Ok(Some(folder)),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.lock.is_some() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Ends what programs that were killed have left running of their commands, and removes the homes of these.
///
/// A folder that nobody holds a lock on belongs to nobody: the system takes a lock back from a process that is gone.
pub(super) fn sweep() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    let ours = rustix::process::getuid().as_raw();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(mark) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let path = entry.path();
        let folder = std::fs::symlink_metadata(&path).is_ok_and(|about| about.is_dir() && about.uid() == ours);
        let Ok(lock) = File::open(&path) else { continue };
        if folder && mark.len() == 16 && lock.try_lock().is_ok() {
            end_marked(mark);
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}
