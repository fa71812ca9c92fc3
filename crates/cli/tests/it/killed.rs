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
