//! What a command's processes may use.

/// Limits of each process. A limit that is lower already stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessLimits {
    /// Seconds of processor time.
    pub cpu_seconds: u64,
    /// Bytes of a file that it writes.
    pub file_bytes: u64,
    /// Processes and threads of the user, all programs counted together. The system does not hold its superuser to it.
    pub processes: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        ProcessLimits { cpu_seconds: 1_200, file_bytes: 2 << 30, processes: 4_096 }
    }
}

impl ProcessLimits {
    /// Sets the seconds of processor time.
    #[must_use]
    pub fn cpu_seconds(mut self, seconds: u64) -> Self {
        self.cpu_seconds = seconds;
        self
    }

    /// Sets the bytes of a file that it writes.
    #[must_use]
    pub fn file_bytes(mut self, bytes: u64) -> Self {
        self.file_bytes = bytes;
        self
    }

    /// Sets how many processes the user may have.
    #[must_use]
    pub fn processes(mut self, processes: u64) -> Self {
        self.processes = processes;
        self
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::{apply, descendants, end_marked, marks_below, started_at};

#[cfg(target_os = "linux")]
mod linux {
    use super::super::MARK;
    use super::ProcessLimits;
    use rustix::io::Errno;
    use rustix::process::{
        Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, pidfd_open, pidfd_send_signal, prlimit,
    };

    /// How many processes are looked at, at most.
    const MOST: usize = 4_096;
    /// How often one looks for marked processes again while some are found.
    const ROUNDS: usize = 20;

    /// Sets the limits of a process that has just been started, and of those that it has started meanwhile.
    pub(crate) fn apply(limits: &ProcessLimits, pid: Pid) -> Result<(), Errno> {
        set(limits, pid)?;
        // From here on its children inherit the limits; the earlier ones are its descendants now.
        for child in descendants(pid) {
            set(limits, child)?;
        }
        Ok(())
    }

    fn set(limits: &ProcessLimits, pid: Pid) -> Result<(), Errno> {
        let wanted = [
            (Resource::Cpu, limits.cpu_seconds),
            (Resource::Fsize, limits.file_bytes),
            (Resource::Nproc, limits.processes),
            (Resource::Core, 0),
        ];
        for (resource, wanted) in wanted {
            // What it started with is what we have.
            let had = getrlimit(resource);
            let lower = |had: Option<u64>| Some(had.map_or(wanted, |had| had.min(wanted)));
            let limit = Rlimit { current: lower(had.current), maximum: lower(had.maximum) };
            match prlimit(Some(pid), resource, limit) {
                // Gone already.
                Err(Errno::SRCH) => return Ok(()),
                Err(errno) => return Err(errno),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// When a process started, in ticks since the system did: with its number it names one process for good.
    pub(crate) fn started_at(pid: Pid) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name, in parentheses, may hold anything; the start is the 20th field behind it.
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
    }

    /// The marks that the processes below this one carry.
    pub(crate) fn marks_below(pid: Pid) -> Vec<String> {
        let prefix = format!("{MARK}=");
        let mut marks = Vec::new();
        for below in descendants(pid) {
            let Ok(environment) = std::fs::read(format!("/proc/{}/environ", below.as_raw_nonzero())) else { continue };
            let mut variables = environment.split(|byte| *byte == 0).filter_map(|one| std::str::from_utf8(one).ok());
            marks.extend(variables.find_map(|one| one.strip_prefix(&prefix)).map(str::to_owned));
        }
        marks.sort_unstable();
        marks.dedup();
        marks
    }

    /// Kills every process that carries the mark in the environment it was started with, wherever in the tree it stands.
    pub(crate) fn end_marked(mark: &str) {
        let wanted = format!("{MARK}={mark}");
        // Those that were killed in one look may have started others since the look began.
        for _ in 0..ROUNDS {
            let Ok(processes) = std::fs::read_dir("/proc") else { return };
            let mut killed = false;
            for process in processes.flatten() {
                let pid = process.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
                let Some(pid) = pid else { continue };
                // Opened first: its number may be given to somebody else by the time it is known.
                let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
                let Ok(environment) = std::fs::read(process.path().join("environ")) else { continue };
                if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
                    killed |= pidfd_send_signal(&handle, Signal::KILL).is_ok();
                }
            }
            if !killed {
                return;
            }
        }
    }

    /// The processes below this one, as far as their parents still live.
    pub(crate) fn descendants(pid: Pid) -> Vec<Pid> {
        let mut found = Vec::new();
        let mut pending = vec![pid];
        while let Some(parent) = pending.pop() {
            let path = format!("/proc/{0}/task", parent.as_raw_nonzero());
            let Ok(threads) = std::fs::read_dir(path) else { continue };
            for thread in threads.flatten() {
                let Ok(children) = std::fs::read_to_string(thread.path().join("children")) else { continue };
                for child in children.split_ascii_whitespace() {
                    let child = child.parse().ok().and_then(Pid::from_raw);
                    if let Some(child) = child.filter(|_| found.len() < MOST) {
                        found.push(child);
                        pending.push(child);
                    }
                }
            }
        }
        found
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn marks_below(_: rustix::process::Pid) -> Vec<String> {
    Vec::new()
}

/// Other systems do not show what environment a process was started with.
#[cfg(not(target_os = "linux"))]
pub(super) fn end_marked(_: &str) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn started_at(_: rustix::process::Pid) -> Option<u64> {
    None
}

/// Other systems have no way to set limits from outside; a command runs with those of this program.
#[cfg(not(target_os = "linux"))]
pub(super) fn apply(_: &ProcessLimits, _: rustix::process::Pid) -> Result<(), rustix::io::Errno> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn descendants(_: rustix::process::Pid) -> Vec<rustix::process::Pid> {
    Vec::new()
}
