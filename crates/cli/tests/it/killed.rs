//! A run outlives its process.

use crate::bench::{Bench, said};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::Child;

/// Reads the events of a running program until one is of this kind.
fn until(child: &mut Child, kind: &str) {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    for line in lines {
        let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["body"]["type"] == kind {
            return;
        }
    }
    panic!("the program ended without {kind}");
}

/// A run that has written a file and waits for its second turn, for longer than any test.
fn waiting(bench: &Bench) -> Child {
    let turns = |delay: u64| {
        json!([
            { "calls": [{ "name": "write", "arguments": { "path": "note", "content": "kept" } }] },
            { "text": "All done.", "delay_ms": delay },
        ])
    };
    let model = bench.script(turns(3_600_000));
    let args = ["run", "Go", "--files", ".", "--writable", "--model", &model, "--json"];
    let mut child = bench.program(&args).spawn().unwrap();
    until(&mut child, "tool.call.completed");
    // From now on the second turn is quick: the resumed run reads this.
    bench.script(turns(0));
    child
}

#[test]
fn a_run_that_was_killed_is_resumed_where_it_was() {
    let bench = Bench::new();
    let mut child = waiting(&bench);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(std::fs::read_to_string(bench.folder().join("note")).unwrap(), "kept");

    // Whoever comes later finds what the handler wrote as it was left: the call is not run again.
    std::fs::write(bench.folder().join("note"), "changed by hand").unwrap();
    let listed = bench.placet(&["runs", "list"]).done();
    assert!(listed.out.contains("interrupted") || listed.out.contains("running"), "{listed:#?}");
    let resumed = bench.placet(&["runs", "resume", "last"]).done();
    assert!(resumed.out.ends_with("All done.\n"), "{resumed:#?}");
    assert_eq!(std::fs::read_to_string(bench.folder().join("note")).unwrap(), "changed by hand");
    bench.placet(&["audit", "verify"]).done();
    let again = bench.placet(&["runs", "resume", "last"]).ended_with(5);
    assert!(again.err.contains("has ended"), "{again:#?}");
}

#[test]
#[cfg(unix)]
fn ctrl_c_stops_a_run_and_says_how_to_go_on() {
    let bench = Bench::new();
    let child = waiting(&bench);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let stopped = said(child.wait_with_output().unwrap()).ended_with(130);
    assert!(stopped.err.contains("placet runs resume run_"), "{stopped:#?}");
    let resumed = bench.placet(&["runs", "resume", "last"]).done();
    assert!(resumed.out.ends_with("All done.\n"), "{resumed:#?}");
}

/// Whether a living process has this word among its arguments.
#[cfg(target_os = "linux")]
fn runs_with(word: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes()))
    })
}

/// A run whose first call runs until there is a file `go`, and whose others would list and write. The word is among the
/// arguments of the command.
#[cfg(target_os = "linux")]
fn working(bench: &Bench, word: &str) -> Child {
    let script = "until test -e go; do sleep 0.02; done";
    let model = bench.script(json!([
        { "calls": [
            { "name": "run_command", "arguments": { "argv": ["sh", "-c", script, word] } },
            { "name": "list", "arguments": {} },
            { "name": "write", "arguments": { "path": "note", "content": "kept" } },
        ] },
        { "text": "All done." },
    ]));
    let grants = ["--files", ".", "--writable", "--command=unsandboxed", "--shell"];
    let args = [&["run", "Go", "--model", &model, "--json"][..], &grants].concat();
    let mut child = bench.program(&args).spawn().unwrap();
    until(&mut child, "tool.call.started");
    while !runs_with(word) {
        std::thread::yield_now();
    }
    child
}

/// Waits until the program says that it has heard of the first Ctrl-C.
#[cfg(target_os = "linux")]
fn hears(child: &mut Child) {
    let mut errors = BufReader::new(child.stderr.as_mut().unwrap());
    let mut line = String::new();
    while !line.contains("when the calls that run are done") {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "it ended without a word");
    }
}

#[cfg(target_os = "linux")]
fn send(child: &Child, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn ctrl_c_lets_the_command_end_that_runs_and_starts_nothing_more() {
    let bench = Bench::new();
    let mut child = working(&bench, "4718.001");
    send(&child, nix::sys::signal::Signal::SIGINT);
    hears(&mut child);
    bench.file("go", "");
    let stopped = said(child.wait_with_output().unwrap()).ended_with(130);
    assert!(!bench.folder().join("note").exists(), "{stopped:#?}");
    let resumed = bench.placet(&["runs", "resume", "last"]).done();
    assert!(resumed.out.ends_with("All done.\n") && !resumed.err.contains("nobody knows"), "{resumed:#?}");
    assert!(bench.folder().join("note").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn whatever_ends_the_program_ends_its_command_before_it_is_killed_or_by_it() {
    use nix::sys::signal::Signal;
    let cases: [(&str, &[Signal]); 4] = [
        ("4717.001", &[Signal::SIGINT, Signal::SIGINT]),
        ("4717.002", &[Signal::SIGTERM]),
        ("4717.003", &[Signal::SIGHUP]),
        ("4717.004", &[Signal::SIGKILL]),
    ];
    for (word, signals) in cases {
        let bench = Bench::new();
        let mut child = working(&bench, word);
        for (place, signal) in signals.iter().enumerate() {
            if place > 0 {
                hears(&mut child);
            }
            send(&child, *signal);
        }
        let stopped = said(child.wait_with_output().unwrap());
        while runs_with(word) {
            std::thread::yield_now();
        }
        if signals != [Signal::SIGKILL] {
            let stopped = stopped.ended_with(130);
            assert!(stopped.err.contains("placet runs resume run_"), "{stopped:#?}");
        }
        assert!(!bench.folder().join("note").exists());
        let resumed = bench.placet(&["runs", "resume", "last"]).done();
        assert!(resumed.out.ends_with("All done.\n"), "{resumed:#?}");
        // What the command came to is known, unless the program was killed.
        let known =
            if signals == [Signal::SIGKILL] { "interrupted" } else { "cancelled: all its processes were ended" };
        let exported = bench.placet(&["runs", "export", "last"]).done();
        let told = |line: &str| line.contains(known) && line.contains(r#""sandbox":"L1""#);
        assert!(exported.out.lines().any(told), "{signals:?}: {exported:#?}");
        assert!(bench.folder().join("note").exists());
    }
}
