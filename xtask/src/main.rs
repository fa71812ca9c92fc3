//! What CI checks and people run by hand: `cargo xtask help` lists the commands.
//!
//! It uses the standard library and `cargo` alone, so that it builds in a second on a fresh machine. It never changes a
//! source file (`catalog` writes one of data); what it finds wrong it names by file, says what is wrong and what to do about it.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a development tool: it runs cargo, reads the environment, measures builds and prints"
)]

mod cargo;
mod catalog;
mod ci;
mod deps;
mod floors;
mod json;
mod licences;
mod manifest;
mod report;
mod sizes;
mod source;
mod tally;
mod tests_run;

use report::Problem;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask COMMAND [ARGUMENTS]

checks
  floors   every crate uses crates of lower floors only and stands in ARCHITECTURE.md; core and wire do no I/O
  sizes    no file has more than 600 lines of non-test code
  deps     licences, duplicate versions, forbidden crates, one place for versions; counts what `placet` pulls in
  lint     cargo fmt --check, then clippy on every target with warnings denied
  docs     cargo doc with warnings denied, then the doc tests
  test     all tests, offline: provider keys, proxies and PLACET_* are cleared (PLACET_TEST_* stay). Uses nextest
           where it is installed, else cargo test; then the doc tests. Arguments go to the runner: with any, the
           doc tests are left out. Example: cargo xtask test -p placet-store lease
  cold     builds `placet` with default features in an empty folder and prints the time
  ci       all of the above, in order; the last line counts the tests

data
  catalog FROM.json DATE
           writes crates/models/data/catalog.json from a litellm-style price list that was retrieved on DATE

exit codes: 0 all is well, 1 something was found or a step failed, 2 the command line was not understood
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = arguments.collect();
    let root = root();
    if command == "catalog" {
        return match rest.as_slice() {
            [from, retrieved] => match catalog::write(&root, from, retrieved) {
                Ok(told) => {
                    println!("{told}");
                    ExitCode::SUCCESS
                }
                Err(problem) => {
                    eprintln!("catalog: {problem}");
                    ExitCode::from(1)
                }
            },
            _ => {
                eprintln!(
                    "xtask: `catalog` takes the price list and the date it is of, for example 2026-11-30\n\n{HELP}"
                );
                ExitCode::from(2)
            }
        };
    }
    if command != "test" && !rest.is_empty() {
        eprintln!("xtask: `{command}` takes no arguments, but got `{}`\n\n{HELP}", rest.join(" "));
        return ExitCode::from(2);
    }
    let outcome: ci::Outcome = match command.as_str() {
        "floors" => floors::check(&root).into(),
        "sizes" => sizes::check(&root).into(),
        "deps" => deps::check(&root).into(),
        "lint" => ci::lint(&cargo::Cargo::new(&root)),
        "docs" => ci::docs(&cargo::Cargo::new(&root)),
        "test" => ci::test(&cargo::Cargo::new(&root), &rest),
        "cold" => ci::cold(&cargo::Cargo::new(&root)),
        "ci" => ci::all(&cargo::Cargo::for_ci(&root)),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        unknown => {
            eprintln!("xtask: there is no command `{unknown}`\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    report::print(&command, &outcome.found);
    // The count is the last line, so that a script can read it.
    if let Some(tally) = outcome.tally {
        println!("{tally}");
    }
    if Problem::any(&outcome.found) { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

/// The workspace's folder: the parent of this crate's.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
