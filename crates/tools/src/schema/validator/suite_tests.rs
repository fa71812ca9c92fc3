//! The JSON-Schema-Test-Suite: every required file of the drafts 2020-12 and 7 passes; what fails of `optional/`
//! stands in `optional_failures.txt`. Runs where `PLACET_TEST_JSONSCHEMA_SUITE` names a checkout of the suite.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use jsonschema::{Draft, Retrieve, Uri};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Answers references to the suite's own remote schemas from its folder, and no others.
struct Remotes(PathBuf);

impl Retrieve for Remotes {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let path = uri.as_str().strip_prefix("http://localhost:1234/").ok_or("not a schema of the suite")?;
        Ok(serde_json::from_slice(&std::fs::read(self.0.join("remotes").join(path))?)?)
    }
}

#[expect(clippy::disallowed_methods, reason = "a test that needs a folder is told of it by the environment")]
fn suite(name: &str) -> Option<PathBuf> {
    let suite = std::env::var_os("PLACET_TEST_JSONSCHEMA_SUITE").map(PathBuf::from);
    if suite.is_none() {
        eprintln!("SKIPPED {name}: PLACET_TEST_JSONSCHEMA_SUITE names no checkout of the JSON-Schema-Test-Suite");
    }
    suite
}

fn files(folder: &Path, deep: bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the suite's folder can be read") {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if deep {
                found.extend(files(&path, true));
            }
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The names of the tests of a folder, and of those that fail.
fn failures(suite: &Path, draft: Draft, folder: &str, deep: bool) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut all, mut failed) = (BTreeSet::new(), BTreeSet::new());
    for file in files(&suite.join("tests").join(folder), deep) {
        let name = file.strip_prefix(suite.join("tests")).unwrap().to_string_lossy().into_owned();
        let groups: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        for group in groups {
            // The draft is a default: a schema that names another one is read as that.
            let mut options = jsonschema::options().with_retriever(Remotes(suite.to_path_buf()));
            // The suite's tests of formats are for validators that assert them; all others run as ours is compiled.
            options = options.should_validate_formats(name.contains("optional/format/"));
            if group["schema"].get("$schema").is_none() {
                options = options.with_draft(draft);
            }
            let validator = Validator::compile_with(&group["schema"], options);
            for test in group["tests"].as_array().unwrap() {
                let title = format!("{name} | {} | {}", group["description"], test["description"]);
                let valid = test["valid"].as_bool().unwrap();
                let passes = validator.as_ref().is_ok_and(|validator| {
                    validator.is_valid(&test["data"]) == valid && validator.problems(&test["data"]).is_empty() == valid
                });
                if !passes {
                    failed.insert(title.clone());
                }
                all.insert(title);
            }
        }
    }
    (all, failed)
}

#[test]
fn every_required_file_of_both_drafts_passes() {
    let Some(suite) = suite("every_required_file_of_both_drafts_passes") else { return };
    for (draft, folder) in [(Draft::Draft202012, "draft2020-12"), (Draft::Draft7, "draft7")] {
        let (all, failed) = failures(&suite, draft, folder, false);
        let count = all.len();
        eprintln!("{folder}: {count} required tests, {} fail", failed.len());
        assert!(count > 800, "the suite of {folder} is not whole: {count} tests");
        assert_eq!(failed, BTreeSet::new(), "{folder}");
    }
}

#[test]
fn what_fails_of_the_optional_files_is_listed() {
    let Some(suite) = suite("what_fails_of_the_optional_files_is_listed") else { return };
    let (mut all, mut failed) = (BTreeSet::new(), BTreeSet::new());
    for (draft, folder) in [(Draft::Draft202012, "draft2020-12/optional"), (Draft::Draft7, "draft7/optional")] {
        let (known, these) = failures(&suite, draft, folder, true);
        eprintln!("{folder}: {} optional tests, {} fail", known.len(), these.len());
        all.extend(known);
        failed.extend(these);
    }
    let listed: BTreeSet<String> = include_str!("optional_failures.txt")
        .lines()
        // The list is of the newest suite; an older one does not have all of them.
        .filter(|line| !line.starts_with('#') && all.contains(*line))
        .map(str::to_owned)
        .collect();
    let lines =
        |these: std::collections::btree_set::Difference<'_, String>| these.cloned().collect::<Vec<_>>().join("\n");
    let (new, gone) = (lines(failed.difference(&listed)), lines(listed.difference(&failed)));
    assert!(new.is_empty() && gone.is_empty(), "fail and are not listed:\n{new}\nlisted and pass:\n{gone}");
}
