//! Boards from the command line: of the store here and of a server, as the board's README has them.

use crate::bench::{Bench, Said, said};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};

/// The blocks of a language in a text of Markdown.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let begins = format!("```{language}\n");
    text.split(begins.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Times of day as a README has them, whatever they are.
fn timeless(text: &str) -> String {
    let is_time = |word: &str| {
        let parts: Vec<&str> = word.split(':').collect();
        parts.len() == 3 && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let word = |word: &str| if is_time(word) { "HH:MM:SS".to_owned() } else { word.to_owned() };
    text.lines()
        .map(|line| line.split(' ').map(word).collect::<Vec<_>>().join(" ").trim_end().to_owned() + "\n")
        .collect()
}

#[test]
fn the_readme_of_boards_is_as_it_says() {
    let bench = Bench::new();
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../board/README.md")).unwrap();
    let (commands, shown) = (blocks(&readme, "sh")[0], blocks(&readme, "text")[0]);
    let mut out = String::new();
    for line in commands.lines() {
        let placet = bench.program(&[]);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-ec", &line.replacen("placet ", "\"$PLACET\" ", 1)]).env_clear().current_dir(bench.folder());
        for (name, value) in placet.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        out += &said(shell.env("PLACET", env!("CARGO_BIN_EXE_placet")).output().unwrap()).done().out;
    }
    assert_eq!(timeless(&out), timeless(shown));
}

/// A running `placet board serve` on the bench's store; stopped when dropped.
struct Served {
    child: Child,
    at: String,
}

impl Served {
    fn on(bench: &Bench) -> Self {
        let mut serve = bench.program(&["board", "serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        Served { child, at: format!("http://{}/v1", told["listening"].as_str().unwrap()) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn fed(bench: &Bench, args: &[&str], input: &str) -> Said {
    let mut program = bench.program(args);
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    said(child.wait_with_output().unwrap())
}

#[test]
fn what_was_written_comes_out_as_it_was_here_and_from_a_server() {
    let bench = Bench::new();
    let big = "1180591620717411303424";
    let spec = format!(
        r#"{{"regions": [{{"name": "b", "kind": "premise"}}], "premises": {{"b": {{"n": {big}, "f": 1.0}}}}}}"#
    );
    fed(&bench, &["board", "create", "x", "--level", "notes", "--premise", &format!("a={big}"), "--spec", "-"], &spec)
        .done();
    let read = bench.placet(&["board", "read", "x"]).done();
    assert!(
        read.out.contains(&format!(" {big}\n")) && read.out.contains(&format!(r#"{{"n": {big}, "f": 1.0}}"#)),
        "{read:#?}"
    );
    // So much that it comes from a server in many pieces, which end within characters.
    let long = format!("\"{}\"", "€é".repeat(200_000));
    fed(&bench, &["board", "write", "x", "notes", "-", "--as", "ann"], &long).done();
    let here = bench.placet(&["board", "export", "x"]).done().out;
    assert!(here.contains(&long));
    let served = Served::on(&bench);
    let there = bench.placet(&["board", "export", "x", "--at", &served.at]).done().out;
    assert!(here == there, "{} and {} bytes", here.len(), there.len());
    let again = bench.placet(&["board", "read", "x", "notes", "--json", "--at", &served.at]).done();
    assert!(again.out.contains(&long));
}

#[test]
fn a_mistake_is_told_with_a_code_that_scripts_can_trust() {
    let bench = Bench::new();
    bench.placet(&["board", "create", "x", "--level", "notes", "--premise", "a=1"]).done();
    bench.placet(&["board", "register", "x", "ann", "--sets", "a", "--writes-to", "notes"]).done();
    bench.placet(&["board", "register", "x", "bob", "--sets", "b"]).ended_with(4);
    bench.placet(&["board", "set", "x", "a", "2", "--expect", "7", "--as", "ann"]).ended_with(5);
    bench.placet(&["board", "read", "nothing"]).ended_with(4);
    bench.placet(&["board", "create", "y", "--premise", "a"]).ended_with(2);
    fed(&bench, &["board", "create", "y", "--spec", "-"], r#"{"regoins": []}"#).ended_with(2);
    bench.placet(&["board", "read", "y"]).ended_with(4);
    bench.placet(&["board", "close", "x"]).done();
    bench.placet(&["board", "write", "x", "notes", "1", "--as", "ann"]).ended_with(5);
}
