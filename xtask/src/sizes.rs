//! No file grows beyond what a person reads in one sitting.

use crate::report::Problem;
use crate::source::{self, Line};
use std::path::Path;

/// Lines of non-test code in one file, comments included.
const CODE: usize = 600;
/// Lines of a file of tests, beyond which it deserves a look.
const TESTS: usize = 1_500;
/// Lines of tests inside a file of code, beyond which they belong in a sibling file.
const INLINE_TESTS: usize = 200;

/// Measures every source file of the workspace.
pub(crate) fn check(root: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for folder in ["crates", "xtask", "fuzz"] {
        for file in source::files(&root.join(folder)) {
            let path = file.strip_prefix(root).unwrap_or(&file);
            match std::fs::read_to_string(&file) {
                Ok(text) => found.extend(measure(path, &text)),
                Err(error) => found.push(Problem::new(path.display(), error, "make the file readable UTF-8")),
            }
        }
    }
    found
}

fn measure(path: &Path, text: &str) -> Vec<Problem> {
    if source::is_test_file(path) {
        let lines = text.lines().count();
        return (lines > TESTS)
            .then(|| {
                Problem::warning(path.display(), format!("{lines} lines of tests"), format!("split it below {TESTS}"))
            })
            .into_iter()
            .collect();
    }
    let lines = source::lines(text);
    let tests = lines.iter().filter(|line: &&Line| line.test).count();
    let code = lines.len() - tests;
    let mut found = Vec::new();
    if code > CODE {
        found.push(Problem::new(
            path.display(),
            format!("{code} lines of non-test code, {CODE} are allowed"),
            "split the file by idea, so that each part has a name of its own",
        ));
    }
    if tests > INLINE_TESTS {
        let stem = path.with_extension("");
        found.push(Problem::warning(
            path.display(),
            format!("{tests} lines of tests beside the code"),
            format!(
                "move them to {}/tests.rs (above {INLINE_TESTS} lines a sibling file reads better)",
                stem.display()
            ),
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_counts_against_the_limit() {
        let code = "fn a() {}\n".repeat(CODE);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    fn t() {}\n".repeat(100));
        assert_eq!(measure(Path::new("crates/x/src/a.rs"), &format!("{code}{tests}")), []);
        let found = measure(Path::new("crates/x/src/a.rs"), &format!("{code}fn b() {{}}\n{tests}"));
        assert_eq!(found.len(), 1);
        assert!(found[0].wrong.starts_with("601 lines") && !found[0].warning, "{found:?}");
    }

    #[test]
    fn long_tests_are_only_warned_about() {
        let text = "fn t() {}\n".repeat(TESTS + 1);
        let found = measure(Path::new("crates/x/tests/it/main.rs"), &text);
        assert!(found[0].warning && !Problem::any(&found), "{found:?}");
        let inline = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    fn t() {}\n".repeat(INLINE_TESTS));
        assert!(measure(Path::new("crates/x/src/a.rs"), &inline)[0].remedy.contains("crates/x/src/a/tests.rs"));
    }
}
