//! The program's memory, and the threads that servers fill it from.

use placet_server::Listener;
use std::num::NonZero;
use std::thread::available_parallelism;

/// A gateway makes and frees many small buffers on several threads, which this does without locks.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves in one lane for each processor. Each gives back what bursts have left behind: the allocator itself looks for it only
/// while memory is asked for and freed, so that a server that is at rest would keep it.
pub(crate) fn in_lanes(listener: Listener) -> Listener {
    listener.lanes(available_parallelism().map_or(1, NonZero::get)).at_rest(give_back)
}

/// Gives what this thread has freed back to the system, and what the database's own code has: that uses the system's allocator.
#[expect(unsafe_code, reason = "the allocators' own functions; any thread may call them at any time")]
pub(crate) fn give_back() {
    // SAFETY: it takes a flag and nothing else, and the allocator serves the whole program.
    unsafe { libmimalloc_sys::mi_collect(true) }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes how much to keep, and locks what it looks at.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}
