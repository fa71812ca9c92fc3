//! Runs every test with nothing of the outside left in the environment.

use crate::cargo::{self, Cargo};
use crate::report::Problem;
use crate::tally::{self, Tally};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Variables that would lead a test to a real provider, through a proxy, or to the settings of whoever runs it.
const CLEARED: [&str; 5] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY"];
/// The families of such variables.
const CLEARED_PREFIXES: [&str; 10] =
    ["PLACET_", "OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_", "CLAUDE_", "GEMINI_", "GOOGLE_", "XAI_", "OLLAMA_", "OTEL_"];
/// How the names of keys end.
const CLEARED_SUFFIXES: [&str; 2] = ["_API_KEY", "_AUTH_TOKEN"];
/// What speaks to the tests themselves, and stays.
const KEPT_PREFIXES: [&str; 2] = ["PLACET_TEST_", "PLACET_REQUIRE_"];
/// Set to `1` where a PostgreSQL server is meant to be there, so that a skipped test is a failure.
const REQUIRE_POSTGRES: &str = "PLACET_REQUIRE_POSTGRES";

/// Runs the tests; `extra` goes to the runner, and leaves out the doc tests.
pub(crate) fn run(cargo: &Cargo, extra: &[String]) -> (Tally, Vec<Problem>) {
    let mut found = Vec::new();
    let (mut tally, mut said) = (Tally::default(), Vec::new());
    let mut add = |result: Result<(Tally, Vec<String>), Problem>| match result {
        Ok((more, lines)) => {
            tally += more;
            said.extend(lines);
        }
        Err(problem) => found.push(problem),
    };
    if nextest_is_present(cargo) {
        add(nextest(cargo, extra));
    } else {
        eprintln!("cargo-nextest is not installed: running `cargo test` instead");
        add(libtest(cargo, extra));
    }
    if extra.is_empty() {
        add(doc_tests(cargo));
    }
    if tally.failed > 0 {
        let count = tally.failed;
        found.push(Problem::new("tests", format!("{count} failed"), "read their output above, run one by its name"));
    }
    for line in &said {
        println!("{line}");
    }
    if std::env::var(REQUIRE_POSTGRES).is_ok_and(|value| value == "1") {
        for line in said.iter().filter(|line| line.to_ascii_lowercase().contains("postgres")) {
            found.push(Problem::new(
                "tests",
                format!("a server is required ({REQUIRE_POSTGRES}=1), yet a test said: {line}"),
                "set PLACET_TEST_POSTGRES to the URL of a server, as .ci/run does",
            ));
        }
    }
    (tally, found)
}

/// Runs the doc tests alone.
pub(crate) fn doc_tests(cargo: &Cargo) -> Result<(Tally, Vec<String>), Problem> {
    let arguments = ["test", "--doc", "--workspace", "--all-features", "--no-fail-fast"];
    told(cargo.command(&arguments).args(cargo.locked()))
}

fn nextest_is_present(cargo: &Cargo) -> bool {
    let mut command = cargo.command(&["nextest", "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn nextest(cargo: &Cargo, extra: &[String]) -> Result<(Tally, Vec<String>), Problem> {
    let profile = if cargo.ci { "ci" } else { "default" };
    let report = cargo.target().join("nextest").join(profile).join("junit.xml");
    // A report of an earlier run would be counted for this one.
    let _ = std::fs::remove_file(&report);
    let command = |more: &[&str]| {
        let mut command = cargo.command(&["nextest", "run", "--profile", profile, "--all-features"]);
        command.args(scope(extra)).args(cargo.locked()).args(more).args(extra);
        command
    };
    cargo::run(&mut command(&["--no-run"]))?;
    let mut tests = command(&[]);
    let result = cargo::run(clean(&mut tests));
    match (std::fs::read_to_string(&report).map(|xml| tally::junit(&xml)), result) {
        // Failed tests are told by the count; without any, the command itself went wrong, or found nothing to run.
        (Ok((tally, said)), result) if result.is_ok() || tally.failed > 0 => Ok((tally, said)),
        (_, Err(problem)) => Err(problem),
        (_, Ok(())) => Err(Problem::new(report.display(), "nextest wrote no report", "look at .config/nextest.toml")),
    }
}

fn libtest(cargo: &Cargo, extra: &[String]) -> Result<(Tally, Vec<String>), Problem> {
    let command = |no_run: &[&str]| {
        let mut command = cargo.command(&["test", "--tests", "--all-features", "--no-fail-fast"]);
        command.args(scope(extra)).args(cargo.locked()).args(no_run).args(extra);
        if !extra.iter().any(|argument| argument == "--") {
            command.arg("--");
        }
        // What a passed test printed is hidden otherwise, and with it the word that it was skipped.
        command.arg("--show-output");
        command
    };
    cargo::run(&mut command(&["--no-run"]))?;
    told(&mut command(&[]))
}

/// The whole workspace, unless the arguments name a package.
fn scope(extra: &[String]) -> &'static [&'static str] {
    let named = |a: &String| a.starts_with("-p") || a.starts_with("--package") || a == "--workspace" || a == "--all";
    if extra.iter().any(named) { &[] } else { &["--workspace"] }
}

/// Runs a command of libtest with a clean environment, shows its output and counts it.
fn told(command: &mut Command) -> Result<(Tally, Vec<String>), Problem> {
    eprintln!("$ {}", cargo::shown(command));
    let failed = |command: &Command, error: &dyn std::fmt::Display| cargo::failed(command, &error.to_string());
    let mut child = clean(command).stdout(Stdio::piped()).spawn().map_err(|error| failed(command, &error))?;
    let mut output = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.map_err(|error| failed(command, &error))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            output.push_str(&line);
            output.push('\n');
        }
    }
    let status = child.wait().map_err(|error| failed(command, &error))?;
    let (tally, said) = tally::libtest(&output);
    // Failed tests are told by the count; without any, the command itself went wrong.
    if status.success() || tally.failed > 0 { Ok((tally, said)) } else { Err(failed(command, &status)) }
}

/// Takes out of the command's environment what [`cleared`] names, and keeps cargo from the network.
fn clean(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(cleared) {
            command.env_remove(name);
        }
    }
    command.env("CARGO_NET_OFFLINE", "true")
}

fn cleared(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let prefixed = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    !prefixed(&KEPT_PREFIXES)
        && (CLEARED.contains(&name.as_str())
            || prefixed(&CLEARED_PREFIXES)
            || CLEARED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_proxies_and_settings_are_cleared_and_the_rest_stays() {
        for name in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "SOME_API_KEY", "https_proxy", "PLACET_HOME", "OLLAMA_HOST"] {
            assert!(cleared(name), "{name}");
        }
        for name in ["PATH", "HOME", "PLACET_TEST_POSTGRES", "PLACET_REQUIRE_POSTGRES", "CARGO_HOME", "RUST_LOG"] {
            assert!(!cleared(name), "{name}");
        }
    }

    #[test]
    fn a_cleaned_command_lacks_what_is_cleared() {
        let mut command = Command::new("env");
        clean(&mut command);
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        let expected = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(cleared)).count();
        assert_eq!(removed.len(), expected);
    }

    #[test]
    fn a_named_package_narrows_the_run() {
        assert_eq!(scope(&["-p".to_owned(), "placet-core".to_owned()]), [""; 0]);
        assert_eq!(scope(&["lease".to_owned()]), ["--workspace"]);
    }
}
