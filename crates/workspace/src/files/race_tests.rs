#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test says what it counted")]

//! Somebody swaps a directory for a link to the outside, again and again, while files are read and changed.

use super::{Files, FilesOptions};
use placet_core::Env;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

const INSIDE: &str = "inside content";
const OUTSIDE: &str = "outside content";

/// Puts now a directory, now a link in the place of `swapped`, until told to stop. The two change names in one step, so
/// that there is always one of them.
fn swap(root: &Path, stop: &AtomicBool, swaps: &AtomicU64) {
    let (swapped, link) = (root.join("swapped"), root.join("link"));
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, &swapped, CWD, &link, RenameFlags::EXCHANGE).expect("swapped");
        swaps.fetch_add(1, Ordering::Relaxed);
    }
}

/// Stops the swapping, even where the test panics.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_directory_that_becomes_a_link_leads_nobody_out() {
    race(|files| files);
}

#[test]
fn nor_where_the_kernel_opens_no_whole_paths() {
    race(|files| Files { root: files.root.stepwise(), ..files });
}

fn race(opened: fn(Files) -> Files) {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (root, outside) = (place.path().join("root"), place.path().join("outside"));
    for dir in [&root, &outside, &root.join("swapped"), &root.join("swapped/deep"), &outside.join("deep")] {
        fs::create_dir(dir).expect("made");
    }
    for (dir, content) in [(root.join("swapped"), INSIDE), (outside.clone(), OUTSIDE)] {
        for name in ["a.txt", "deep/b.txt"] {
            fs::write(dir.join(name), content).expect("written");
        }
    }
    fs::write(outside.join("only-outside"), OUTSIDE).expect("written");
    symlink(&outside, root.join("link")).expect("linked");
    let files = opened(Files::open(&Env::system(), &root, FilesOptions::new().writable()).expect("opens"));
    let (stop, swaps, go) = (AtomicBool::new(false), AtomicU64::new(0), CancellationToken::new());
    let (mut read, mut written, mut refused) = (0_u64, 0_u64, 0_u64);
    std::thread::scope(|scope| {
        scope.spawn(|| swap(&root, &stop, &swaps));
        let _stop = StopAtEnd(&stop);
        // Until all of it has happened often enough, whatever the machine's pace.
        let mut turn = 0_u64;
        while (swaps.load(Ordering::Relaxed) < 2_000 || read < 100 || written < 30 || refused < 50) && turn < 50_000 {
            turn += 1;
            for path in ["swapped/a.txt", "swapped/deep/b.txt"] {
                match files.read(path, None, None, &go) {
                    Ok(answer) => {
                        assert!(!answer.text.contains(OUTSIDE), "the outside was read");
                        read += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
            match files.write("swapped/deep/new/w.txt", INSIDE, &go) {
                Ok(_) => written += 1,
                Err(_) => refused += 1,
            }
            let _ = files.edit("swapped/a.txt", INSIDE, &format!("{INSIDE} "), &go);
            let _ = files.edit("swapped/a.txt", &format!("{INSIDE} "), INSIDE, &go);
            if let Ok(answer) = files.search(OUTSIDE, None, None, &go) {
                assert!(!answer.text.contains(OUTSIDE), "the outside was searched");
            }
            if let Ok(answer) = files.list(Some("swapped"), Some(3), &go) {
                assert!(!answer.text.contains("only-outside"), "the outside was listed");
            }
            let _ = files.delete("swapped/deep/new/w.txt", &go);
            let _ = files.delete("swapped/deep/new", &go);
        }
        eprintln!(
            "{turn} turns, {} swaps: {read} read, {written} written, {refused} refused",
            swaps.load(Ordering::Relaxed)
        );
    });
    assert!(read >= 100 && written >= 30 && refused >= 50, "read {read}, written {written}, refused {refused}");
    assert_eq!(fs::read_to_string(outside.join("a.txt")).expect("still there"), OUTSIDE);
    assert_eq!(fs::read_to_string(outside.join("deep/b.txt")).expect("still there"), OUTSIDE);
    assert_eq!(fs::read_dir(outside.join("deep")).expect("still there").count(), 1, "nothing was made outside");
    assert_eq!(fs::read_dir(&outside).expect("still there").count(), 3);
}
