//! Counts tests: what nextest and libtest reported, and who said that it was skipped.

use std::fmt;
use std::ops::AddAssign;

/// How many tests passed, failed, or said that something they need is not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// What a test prints, at the start of a line, when something it needs is not there: `SKIPPED <name>: <why>`.
const SKIPPED: &str = "SKIPPED ";

/// Reads nextest's `junit.xml`; also gives the lines by which tests said that they were skipped.
///
/// A test that says so ends well, so the runner counts it as passed; here it counts as skipped alone.
pub(crate) fn junit(xml: &str) -> (Tally, Vec<String>) {
    let mut tally = Tally::default();
    let mut said = Vec::new();
    for case in xml.split("<testcase ").skip(1) {
        let case = case.split("</testcase>").next().unwrap_or(case);
        if case.contains("<failure") || case.contains("<error") {
            tally.failed += 1;
            continue;
        }
        let lines: Vec<String> =
            ["system-out", "system-err"].iter().flat_map(|tag| skipped_lines(&unescaped(element(case, tag)))).collect();
        if lines.is_empty() && !case.contains("<skipped") {
            tally.passed += 1;
        } else {
            tally.skipped += 1;
        }
        said.extend(lines);
    }
    (tally, said)
}

/// Reads the output of `cargo test`: its `test result:` lines, and who said that it was skipped.
pub(crate) fn libtest(output: &str) -> (Tally, Vec<String>) {
    let mut tally = Tally::default();
    for line in output.lines().filter(|line| line.starts_with("test result: ")) {
        let counts = line.split_once(". ").map_or("", |(_, counts)| counts);
        for count in counts.split("; ") {
            let Some((number, word)) = count.split_once(' ') else { continue };
            let number: usize = number.parse().unwrap_or_default();
            match word {
                "passed" => tally.passed += number,
                "failed" => tally.failed += number,
                "ignored" => tally.skipped += number,
                _ => {}
            }
        }
    }
    let said = skipped_lines(output);
    tally.passed = tally.passed.saturating_sub(said.len());
    tally.skipped += said.len();
    (tally, said)
}

fn skipped_lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| line.starts_with(SKIPPED)).map(str::to_owned).collect()
}

fn element<'a>(xml: &'a str, tag: &str) -> &'a str {
    let Some((_, rest)) = xml.split_once(&format!("<{tag}>")) else { return "" };
    rest.split(&format!("</{tag}>")).next().unwrap_or(rest).trim_start_matches("<![CDATA[")
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nextest_reports_are_counted_by_test() {
        let xml = r#"<testsuites name="placet" tests="4" failures="1" errors="0">
<testsuite name="a"><testcase name="one" classname="a" time="0.1"/>
<testcase name="two" classname="a"><failure message="m">SKIPPED is not at issue</failure><system-err>SKIPPED two: x</system-err></testcase>
<testcase name="three"><system-out>running 1 test
</system-out><system-err>SKIPPED three: no &quot;server&quot;
SKIPPED three again
</system-err></testcase>
<testcase name="four"><system-err>it was not SKIPPED at all</system-err></testcase>
</testsuite></testsuites>"#;
        let (tally, said) = junit(xml);
        assert_eq!(tally, Tally { passed: 2, failed: 1, skipped: 1 });
        assert_eq!(said, ["SKIPPED three: no \"server\"", "SKIPPED three again"]);
    }

    #[test]
    fn libtest_summaries_are_added_up() {
        let output = "SKIPPED a: none there\ntest result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s\n";
        assert_eq!(libtest(output).0, Tally { passed: 5, failed: 2, skipped: 2 });
        assert_eq!(libtest("").0.to_string(), "0 passed, 0 failed, 0 skipped");
    }
}
