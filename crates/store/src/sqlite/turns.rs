//! Whose turn it is to write a file: a blocking lock that processes take around each group of batches.
//!
//! SQLite's own busy handler polls, and starves writers for seconds. A lock that blocks wakes the next one at once. One
//! lock alone would still be unfair: who has just released it takes it again before a sleeper is awake. So there are two:
//! whoever wants the turn first becomes *next*, and gives that place up only when it has the turn. Who comes back finds the
//! place taken by whoever waited.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// The two lock files beside the store's file.
#[derive(Debug)]
pub(super) struct Turns {
    next: File,
    turn: File,
}

impl Turns {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let open = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            private(OpenOptions::new().read(true).write(true).create(true).truncate(false)).open(name)
        };
        Ok(Turns { next: open("-next")?, turn: open("-turn")? })
    }

    /// Waits for the turn and keeps it until the guard is dropped.
    pub(super) fn take(&self) -> io::Result<Turn<'_>> {
        self.next.lock()?;
        let taken = self.turn.lock();
        self.next.unlock()?;
        taken?;
        Ok(Turn(self))
    }
}

/// A file that is made is its owner's alone.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// The turn: dropping it gives it to the next process.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // An unlock of a lock that is held has no way to go wrong; closing the file would release it too.
        let _ = self.0.turn.unlock();
    }
}
