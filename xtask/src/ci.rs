//! The steps that build something, and the order of them all.

use crate::cargo::{self, Cargo};
use crate::report::{self, Problem};
use crate::tally::Tally;
use crate::{deps, floors, sizes, tests_run};
use std::time::{Duration, Instant};

/// What a command found, and how many tests it ran where it ran any.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) found: Vec<Problem>,
    pub(crate) tally: Option<Tally>,
}

impl From<Vec<Problem>> for Outcome {
    fn from(found: Vec<Problem>) -> Self {
        Outcome { found, tally: None }
    }
}

impl From<Result<(), Problem>> for Outcome {
    fn from(result: Result<(), Problem>) -> Self {
        result.err().into_iter().collect::<Vec<_>>().into()
    }
}

/// Formatting, then clippy.
pub(crate) fn lint(cargo: &Cargo) -> Outcome {
    let found: Vec<Problem> = [format(cargo), clippy(cargo)].into_iter().filter_map(Result::err).collect();
    found.into()
}

fn format(cargo: &Cargo) -> Result<(), Problem> {
    cargo::run(&mut cargo.command(&["fmt", "--all", "--check"]))
}

fn clippy(cargo: &Cargo) -> Result<(), Problem> {
    let mut command = cargo.command(&["clippy", "--workspace", "--all-targets", "--all-features"]);
    cargo::run(command.args(cargo.locked()).args(["--", "-D", "warnings"]))
}

/// The documentation, then the examples in it.
pub(crate) fn docs(cargo: &Cargo) -> Outcome {
    let mut found: Vec<Problem> = documentation(cargo).err().into_iter().collect();
    let tally = match tests_run::doc_tests(cargo) {
        Ok((tally, _)) => Some(tally),
        Err(problem) => {
            found.push(problem);
            None
        }
    };
    if let Some(tally) = tally.filter(|tally| tally.failed > 0) {
        found.push(Problem::new("doc tests", format!("{} failed", tally.failed), "mend the examples named above"));
    }
    Outcome { found, tally }
}

fn documentation(cargo: &Cargo) -> Result<(), Problem> {
    // `--lib`: the program has the library's name, and their pages would overwrite each other.
    let mut command = cargo.command(&["doc", "--workspace", "--lib", "--no-deps", "--all-features"]);
    cargo::run(command.args(cargo.locked()).env("RUSTDOCFLAGS", "-D warnings"))
}

/// All tests.
pub(crate) fn test(cargo: &Cargo, extra: &[String]) -> Outcome {
    let (tally, found) = tests_run::run(cargo, extra);
    Outcome { found, tally: Some(tally) }
}

/// Builds `placet` with default features from nothing and prints what that costs.
pub(crate) fn cold(cargo: &Cargo) -> Outcome {
    measure(cargo).into()
}

fn measure(cargo: &Cargo) -> Result<(), Problem> {
    let count = deps::placet_dependencies(cargo)?;
    // Downloads are no part of the measure.
    cargo::run(cargo.command(&["fetch"]).args(cargo.locked()))?;
    let folder = cargo.target().join("cold");
    let empty = |folder: &std::path::Path| match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Problem::new(folder.display(), error, "remove the folder by hand"))
        }
        _ => Ok(()),
    };
    empty(&folder)?;
    let mut command = cargo.command(&["build", "--package", "placet", "--quiet", "--target-dir"]);
    command.arg(&folder).args(cargo.locked()).env("CARGO_INCREMENTAL", "0");
    let start = Instant::now();
    let built = cargo::run(&mut command);
    let took = start.elapsed().as_secs_f64();
    empty(&folder)?;
    built?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("placet with default features: {count} dependencies, cold debug build {took:.1} s on {cores} cores");
    Ok(())
}

/// Every check. A step that fails does not keep the next from running, so that one run tells all.
pub(crate) fn all(cargo: &Cargo) -> Outcome {
    let root = &cargo.root;
    let steps: [(&str, &dyn Fn() -> Outcome); 8] = [
        ("format", &|| format(cargo).into()),
        ("floors", &|| floors::check(root).into()),
        ("sizes", &|| sizes::check(root).into()),
        ("deps", &|| deps::check(root).into()),
        ("clippy", &|| clippy(cargo).into()),
        ("test", &|| test(cargo, &[])),
        ("docs", &|| documentation(cargo).into()),
        ("cold", &|| cold(cargo)),
    ];
    let mut whole = Outcome { found: Vec::new(), tally: Some(Tally::default()) };
    let mut lines = Vec::new();
    for (name, step) in steps {
        eprintln!("\n== {name}");
        let start = Instant::now();
        let outcome = step();
        lines.push(line(name, &outcome, start.elapsed()));
        report::print(name, &outcome.found);
        if let (Some(sum), Some(more)) = (&mut whole.tally, outcome.tally) {
            *sum += more;
        }
        whole.found.extend(outcome.found);
    }
    eprintln!("\n== summary\n{}", lines.join("\n"));
    whole
}

fn line(name: &str, outcome: &Outcome, took: Duration) -> String {
    let state = if Problem::any(&outcome.found) { "FAILED" } else { "ok" };
    format!("{name:<8} {state:<6} {:>6.1} s", took.as_secs_f64())
}
