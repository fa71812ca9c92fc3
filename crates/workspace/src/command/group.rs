//! A started command with everything that it starts.

use super::home::Home;
use super::limits::{apply, descendants, end_marked, marks_below, started_at};
use super::{CommandOptions, MARK};
use placet_core::Env;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpgid, kill_process, kill_process_group, waitid};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use tokio::sync::oneshot;

/// A command that runs.
pub(super) struct Started {
    pub(super) group: Group,
    /// Its output and its errors, as one stream.
    pub(super) output: OwnedFd,
    /// Told when the program has ended; it stays a zombie until it is reaped.
    pub(super) exited: oneshot::Receiver<()>,
}

/// Starts a command, on a thread that waits for its end.
///
/// The thread has to live as long as the command: the system ends a command with the thread that started it, so that it
/// does not outlive this program, whatever ends that.
pub(super) async fn start(
    env: &Env,
    options: &CommandOptions,
    argv: &[String],
    dir: OwnedFd,
    home: &Home,
) -> io::Result<Started> {
    let Some((program, arguments)) = argv.split_first() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut command = command(program);
    command
        .args(arguments)
        .current_dir(by_descriptor(&dir)?)
        .env_clear()
        .env("PATH", &options.path)
        .env("HOME", home.path())
        .env("LANG", "C.UTF-8")
        .env("TERM", "dumb")
        .envs(options.variables.iter().map(|(name, value)| (name, value)))
        .env(MARK, home.mark())
        .stdin(Stdio::null())
        .process_group(0);
    let (limits, mark) = (options.limits.clone(), home.mark().to_owned());
    let (tell_start, begun) = oneshot::channel();
    let (tell_end, exited) = oneshot::channel();
    let work = move || {
        let started = spawn(command, mark).and_then(|(group, output)| match apply(&limits, group.pid) {
            Ok(()) => Ok((group, output)),
            Err(errno) => Err(errno.into()),
        });
        drop(dir);
        let pid = started.as_ref().ok().map(|(group, _)| group.pid);
        // Where nobody waits for it any more, the group comes back, and ends as it is dropped.
        let wanted = tell_start.send(started).is_ok();
        if let Some(pid) = pid.filter(|_| wanted) {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
            let _ = tell_end.send(());
        }
    };
    env.tasks().spawn_blocking("command", Box::new(work));
    let lost = || io::Error::other("the thread that starts commands was stopped");
    let (group, output) = begun.await.map_err(|_| lost())??;
    Ok(Started { group, output, exited })
}

#[expect(clippy::disallowed_methods, reason = "the one place that starts processes")]
fn command(program: &str) -> Command {
    Command::new(program)
}

fn spawn(mut command: Command, mark: String) -> io::Result<(Group, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    end_with_us(&mut command);
    let child = command.spawn()?;
    // With `command` the last of our own ends of the pipe goes, else its end would never be seen.
    drop(command);
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Err(io::Error::other("the system gave a process number that is none"));
    };
    Ok((Group { pid, mark, child: Some(child), outsiders: Vec::new() }, reader.into()))
}

/// Has the system kill the command when the thread ends that starts it.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[expect(unsafe_code, reason = "what runs between fork and exec is two system calls, which allocate nothing")]
fn end_with_us(command: &mut Command) {
    let us = rustix::process::getpid();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // Where this program was killed before that, nobody would tell the command any more.
        if rustix::process::getppid() == Some(us) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: the closure only makes system calls that may be made in a forked process.
    unsafe { command.pre_exec(ask) };
}

/// Other systems know no such thing.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn end_with_us(_: &mut Command) {}

/// The directory by its descriptor: it is the one that was checked, whatever its name leads to by now.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn by_descriptor(dir: &OwnedFd) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    Ok(PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())))
}

/// The directory by the path that its descriptor has now.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn by_descriptor(dir: &OwnedFd) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = rustix::fs::getpath(dir)?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes())))
}

/// Ends every command that this program runs (Linux), for a program that ends without waiting for its calls.
pub fn end_all() {
    marks_below(rustix::process::getpid()).iter().for_each(|mark| end_marked(mark));
}

/// A started command and its process group. Dropped, it kills the group.
pub(super) struct Group {
    pid: Pid,
    /// What its processes carry in their environment.
    mark: String,
    child: Option<Child>,
    /// Descendants that were met outside of the group, with the instants of their starts, so that a number which was given
    /// to somebody else meanwhile is told apart.
    outsiders: Vec<(Pid, u64)>,
}

impl Group {
    /// Sends a signal to the group, and to descendants that left it, as far as their parents live.
    pub(super) fn signal(&mut self, signal: Signal) {
        self.meet(self.pid);
        let _ = kill_process_group(self.pid, signal);
        self.signal_outsiders(signal);
    }

    /// Notes descendants that left the group.
    fn meet(&mut self, below: Pid) {
        for other in descendants(below) {
            let known = self.outsiders.iter().any(|(pid, _)| *pid == other);
            if !known
                && getpgid(Some(other)).is_ok_and(|group| group != self.pid)
                && let Some(start) = started_at(other)
            {
                self.outsiders.push((other, start));
            }
        }
    }

    fn signal_outsiders(&self, signal: Signal) {
        for (pid, start) in &self.outsiders {
            if started_at(*pid) == Some(*start) {
                let _ = kill_process(*pid, signal);
            }
        }
    }

    /// Kills what is left of the group, and what left it: descendants that were met, and whoever carries the mark.
    pub(super) fn end(&mut self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
        // They may have started others meanwhile.
        for (pid, _) in self.outsiders.clone() {
            self.meet(pid);
        }
        self.signal_outsiders(Signal::KILL);
        end_marked(&self.mark);
    }

    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        match self.child.take() {
            Some(mut child) => child.wait(),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            self.signal(Signal::KILL);
            self.end();
            // A killed process ends at once; waiting for it leaves no zombie.
            let _ = child.wait();
        }
    }
}
