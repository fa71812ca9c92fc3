//! Which commands are not allowed: the granted lists, shells that were not granted, and a table of accidents.
//!
//! The table is a seatbelt for honest mistakes. It looks at programs and arguments, never at pieces of text, so that
//! `echo halt` and `grep -rn reboot` stay what they are; whoever wants to get around it can.

use super::CommandOptions;
use super::script::{Simple, pipelines};
use std::path::{Component, Path, PathBuf};

/// Programs that take a script after `-c`.
const SHELLS: &[&str] =
    &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "pwsh", "powershell", "cmd"];
/// Programs that hand their arguments to a shell.
const RUN_A_SHELL: &[&str] = &["watch", "script"];
/// Programs that run what stands in their input or arguments.
const INTERPRETERS: &[&str] = &["python", "perl", "ruby", "node", "php", "lua", "deno", "bun"];
/// Programs that run the program which stands among their arguments.
const WRAPPERS: &[&str] = &[
    "env",
    "nice",
    "nohup",
    "timeout",
    "time",
    "stdbuf",
    "setsid",
    "ionice",
    "chrt",
    "taskset",
    "xargs",
    "parallel",
    "busybox",
    "toybox",
    "command",
    "exec",
    "builtin",
    "unshare",
    "nsenter",
    "chroot",
    "strace",
    "ltrace",
    "flock",
    "watch",
    "script",
    "caffeinate",
    "catchsegv",
    "setarch",
    "systemd-run",
    "prlimit",
    "chpst",
    "unbuffer",
    "faketime",
    "firejail",
];
const DOWNLOADS: &[&str] = &["curl", "wget", "fetch", "aria2c", "http", "https", "lynx", "nc", "ncat", "socat"];
const RAISES: &[&str] = &["sudo", "su", "doas", "pkexec", "runuser", "run0"];
const STOPS_MACHINE: &[&str] = &["shutdown", "reboot", "halt", "poweroff", "kexec"];
const STOPPING_WORDS: &[&str] =
    &["poweroff", "reboot", "halt", "kexec", "suspend", "hibernate", "rescue", "emergency", "soft-reboot"];
const FORMATS: &[&str] = &[
    "mkswap",
    "wipefs",
    "blkdiscard",
    "fdisk",
    "sfdisk",
    "cfdisk",
    "gdisk",
    "sgdisk",
    "parted",
    "mke2fs",
    "cryptsetup",
    "newfs",
    "diskutil",
    "hdparm",
    "badblocks",
];
const CHANGES_SYSTEM: &[&str] =
    &["mount", "umount", "insmod", "rmmod", "modprobe", "swapoff", "swapon", "killall5", "sysctl", "pivot_root"];
const DELETES: &[&str] = &["rm", "rmdir", "unlink", "shred", "truncate", "srm", "trash"];
const REPERMITS: &[&str] = &["chmod", "chown", "chgrp", "chattr", "setfacl"];
const WRITES: &[&str] = &["tee", "cp", "mv", "install", "rsync", "ln", "sponge", "shred", "truncate", "dd"];
/// Devices that anybody may write to.
const HARMLESS_DEVICES: &[&str] =
    &["null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty", "ptmx"];

/// How deep scripts in scripts are looked at.
const DEEPEST: usize = 12;

/// Why this command is not allowed.
pub(super) fn denied(argv: &[String], options: &CommandOptions, root: &Path, dir: &Path) -> Option<String> {
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    if !options.allow.is_empty() && !options.allow.iter().any(|allowed| begins(&argv, allowed)) {
        let allowed: Vec<String> = options.allow.iter().map(|words| format!("`{}`", words.join(" "))).collect();
        return Some(format!("only commands that begin with {} are", allowed.join(" or ")));
    }
    Judge { options, root, dir: normal(&root.join(dir)) }.command(&argv, 0)
}

fn begins(argv: &[&str], words: &[String]) -> bool {
    argv.len() >= words.len() && argv.iter().zip(words).all(|(given, wanted)| given == wanted)
}

struct Judge<'a> {
    options: &'a CommandOptions,
    root: &'a Path,
    dir: PathBuf,
}

/// The program's name without its directory, small letters.
fn name_of(program: &str) -> String {
    let name = program.rsplit('/').next().unwrap_or(program).to_ascii_lowercase();
    name.strip_suffix(".exe").map_or(name.clone(), str::to_owned)
}

fn is_flag(argument: &str) -> bool {
    argument.starts_with('-') && argument.len() > 1
}

fn is_interpreter(name: &str) -> bool {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    SHELLS.contains(&name) || INTERPRETERS.contains(&bare)
}

fn normal(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                found.pop();
            }
            Component::CurDir => {}
            part => found.push(part),
        }
    }
    found
}

fn is_device(target: &str) -> bool {
    let target = normal(Path::new(target));
    let Ok(device) = target.strip_prefix("/dev") else { return false };
    let device = device.to_string_lossy();
    !device.is_empty()
        && !HARMLESS_DEVICES.contains(&device.as_ref())
        && !["fd/", "pts/", "shm/"].iter().any(|start| device.starts_with(start))
}

impl Judge<'_> {
    /// Whether a target lies outside the folder, or is the folder itself. What a shell would fill in is unknown, but for
    /// the home.
    fn is_outside(&self, target: &str) -> bool {
        if ["~", "$HOME", "${HOME"].iter().any(|home| target.starts_with(home)) {
            return true;
        }
        if target.starts_with('$') {
            return false;
        }
        let target = normal(&self.dir.join(target));
        !target.starts_with(self.root) || target == self.root
    }

    /// One program with its arguments.
    fn command(&self, argv: &[&str], depth: usize) -> Option<String> {
        let (program, arguments) = argv.split_first()?;
        if depth > DEEPEST {
            return Some("it is nested too deep to be looked at".into());
        }
        let name = name_of(program);
        let name = name.as_str();
        let same = |words: &&Vec<String>| {
            words.split_first().is_some_and(|(first, rest)| name_of(first) == name && begins(arguments, rest))
        };
        if let Some(words) = self.options.deny.iter().find(same) {
            return Some(format!("`{}` was denied by the operator", words.join(" ")));
        }
        if RAISES.contains(&name) {
            return Some(format!("`{name}` would raise privileges"));
        }
        self.about_machine(name, arguments)
            .or_else(|| self.about_files(name, arguments))
            .or_else(|| self.shell(name, arguments, depth))
            .or_else(|| self.wrapped(name, arguments, depth))
    }

    fn about_machine(&self, name: &str, arguments: &[&str]) -> Option<String> {
        let has = |words: &[&str]| arguments.iter().any(|argument| words.contains(argument));
        let stops = STOPS_MACHINE.contains(&name)
            || (["init", "telinit"].contains(&name) && has(&["0", "6"]))
            || (["systemctl", "loginctl"].contains(&name) && has(STOPPING_WORDS));
        if stops {
            return Some(format!("`{name}` would stop the machine"));
        }
        if FORMATS.contains(&name) || name.starts_with("mkfs") {
            return Some(format!("`{name}` would change disks"));
        }
        if CHANGES_SYSTEM.contains(&name) {
            return Some(format!("`{name}` would change the system"));
        }
        let everything = arguments.len() > 1 && arguments.last() == Some(&"-1") || has(&["1"]);
        (name == "kill" && everything).then(|| "`kill` would end every process, or the first one".into())
    }

    fn about_files(&self, name: &str, arguments: &[&str]) -> Option<String> {
        let targets = || arguments.iter().filter(|argument| !is_flag(argument));
        if DELETES.contains(&name) {
            if arguments.contains(&"--no-preserve-root") {
                return Some(format!("`{name}` may not be told to delete the root of the system"));
            }
            if let Some(target) = targets().find(|target| self.is_outside(target)) {
                return Some(format!("`{name}` would delete `{target}`, which is not inside the folder"));
            }
        }
        if REPERMITS.contains(&name)
            && let Some(target) = targets().find(|target| self.is_outside(target))
        {
            return Some(format!("`{name}` would change who may use `{target}`, which is not inside the folder"));
        }
        if WRITES.contains(&name) {
            let device = |argument: &&&str| is_device(argument.strip_prefix("of=").unwrap_or(argument));
            if let Some(target) = arguments.iter().find(device) {
                return Some(format!("`{name}` would write to the device `{target}`"));
            }
        }
        if name == "find" {
            let from: Vec<&&str> =
                arguments.iter().take_while(|word| !is_flag(word) && !["(", "!"].contains(*word)).collect();
            let runs = |word: &&str| ["-exec", "-execdir", "-ok", "-okdir"].contains(word);
            let mut pairs = arguments.windows(2);
            let deletes = arguments.contains(&"-delete")
                || pairs.any(|pair| runs(&pair[0]) && DELETES.contains(&name_of(pair[1]).as_str()));
            if deletes && let Some(target) = from.iter().find(|target| self.is_outside_or_root(target)) {
                return Some(format!("`find` would delete what is below `{target}`, which is not inside the folder"));
            }
        }
        None
    }

    /// As [`Judge::is_outside`], but the folder itself is fine: what is below it is inside.
    fn is_outside_or_root(&self, target: &str) -> bool {
        self.is_outside(target) && normal(&self.dir.join(target)) != self.root
    }

    fn shell(&self, name: &str, arguments: &[&str], depth: usize) -> Option<String> {
        if !SHELLS.contains(&name) {
            return None;
        }
        let mut takes_value = false;
        for (at, argument) in arguments.iter().enumerate() {
            if std::mem::take(&mut takes_value) {
                continue;
            }
            let lower = argument.to_ascii_lowercase();
            let letters = argument.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            let script = letters.is_some_and(|letters| letters.contains('c'))
                || ["--command", "/c", "/k", "-command", "-encodedcommand"].contains(&lower.as_str());
            if script {
                if !self.options.shell {
                    return Some(format!(
                        "shells were not granted, so `{name} {argument}` cannot run a script; give the program itself and \
                         its arguments in `argv`"
                    ));
                }
                // Another option may stand between; whatever follows may be the script.
                return arguments[at + 1..].iter().find_map(|text| self.script(text, depth + 1));
            }
            match argument.chars().next() {
                Some('-' | '+') => takes_value = ["-o", "+o", "-O", "+O"].contains(argument),
                _ => break,
            }
        }
        None
    }

    /// A program among the arguments of another one.
    fn wrapped(&self, name: &str, arguments: &[&str], depth: usize) -> Option<String> {
        if RUN_A_SHELL.contains(&name) && !self.options.shell {
            return Some(format!("shells were not granted, and `{name}` runs one"));
        }
        let runs = |word: &&str| ["-exec", "-execdir", "-ok", "-okdir"].contains(word);
        if name == "find" {
            return arguments
                .iter()
                .enumerate()
                .filter(|(_, word)| runs(word))
                .find_map(|(at, _)| self.command(&arguments[at + 1..], depth + 1));
        }
        if !WRAPPERS.contains(&name) {
            return None;
        }
        for (at, word) in arguments.iter().enumerate() {
            // `env -S "program arguments"`.
            if name == "env" && (word.starts_with("-S") || word.starts_with("--split-string")) {
                let rest = arguments[at..].join(" ");
                let text = rest.trim_start_matches("--split-string").trim_start_matches("-S").trim_start_matches('=');
                let words: Vec<&str> = text.split_whitespace().collect();
                return self.command(&words, depth + 1);
            }
            if is_flag(word) || word.contains('=') {
                continue;
            }
            let inner = name_of(word);
            if ["xargs", "parallel"].contains(&name) && DELETES.contains(&inner.as_str()) {
                return Some(format!("`{name} {inner}` would delete whatever it is handed; name the files"));
            }
            // Which word is the program depends on the wrapper's options; each is looked at as if it were.
            if let Some(why) = self.command(&arguments[at..], depth + 1) {
                return Some(why);
            }
        }
        None
    }

    /// A script, with every command in it.
    fn script(&self, text: &str, depth: usize) -> Option<String> {
        if depth > DEEPEST {
            return Some("it is nested too deep to be looked at".into());
        }
        if is_fork_bomb(text) {
            return Some("it would start processes without an end".into());
        }
        for pipeline in pipelines(text) {
            let mut downloads = false;
            for simple in &pipeline {
                if let Some(why) = self.simple(simple, downloads, depth) {
                    return Some(why);
                }
                downloads |= runs_any(simple, |name| DOWNLOADS.contains(&name));
            }
        }
        None
    }

    fn simple(&self, simple: &Simple, fed_by_download: bool, depth: usize) -> Option<String> {
        let words: Vec<&str> = simple.words.iter().map(String::as_str).collect();
        let interprets = runs_any(simple, |name| is_interpreter(name) || ["eval", "source", "."].contains(&name));
        let substituted_download = || {
            let inner = simple.inner.iter().flat_map(|text| pipelines(text)).flatten();
            inner.into_iter().any(|simple| runs_any(&simple, |name| DOWNLOADS.contains(&name)))
        };
        if interprets && (fed_by_download || substituted_download()) {
            return Some("it would run what it downloads; download it to a file and read that first".into());
        }
        if let Some(target) = simple.redirects.iter().find(|target| is_device(target)) {
            return Some(format!("it would write to the device `{target}`"));
        }
        if let Some(why) = self.command(&words, depth) {
            return Some(why);
        }
        if words.first() == Some(&"eval")
            && let Some(why) = self.script(&words[1..].join(" "), depth + 1)
        {
            return Some(why);
        }
        simple.inner.iter().find_map(|text| self.script(text, depth + 1))
    }
}

/// Whether a command runs such a program, itself or through a wrapper.
fn runs_any(simple: &Simple, wanted: impl Fn(&str) -> bool) -> bool {
    let Some(first) = simple.words.first() else { return false };
    let first = name_of(first);
    wanted(&first)
        || (WRAPPERS.contains(&first.as_str()) && simple.words[1..].iter().any(|word| wanted(&name_of(word))))
}

/// A function that calls itself twice, as in `:(){ :|:& };:`.
fn is_fork_bomb(text: &str) -> bool {
    let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    dense.match_indices("(){").any(|(at, _)| {
        let before = &dense[..at];
        let start = before.rfind([';', '&', '|', '{', '}', '(', ')']).map_or(0, |at| at + 1);
        let name = before[start..].trim_start_matches("function");
        let body = &dense[at + 3..];
        let body = &body[..body.find('}').unwrap_or(body.len())];
        !name.is_empty() && body.contains(&format!("{name}|{name}"))
    })
}
