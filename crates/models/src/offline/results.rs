//! Reading the answers of tools.
//!
//! A tool's answer is lines, and behind them remarks in parentheses. Only what is known to be a remark is taken as one, and
//! one that counts what was shown only where the count is right: a file may be called like a remark.

use placet_core::{Outcome, Status, ToolResult};

/// How much of a tool's words about a failure is repeated.
const SAID: usize = 400;

/// `1 file`, `2 files`.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// How a call that did not complete ended, in the tool's words.
pub(super) fn told(result: &ToolResult) -> String {
    let text = result.outcome.text();
    let text = clip(text.trim(), SAID);
    let how = match result.outcome.status {
        Status::Completed => "completed",
        Status::Mistaken => "was answered as a mistake",
        Status::Refused => "was refused",
        Status::Conflict => "met a conflict",
        Status::Failed => "failed",
        Status::Interrupted => "was interrupted",
    };
    if text.is_empty() { format!("{how}, without a word") } else { format!("{how}: {text}") }
}

fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Lines of an answer, and how many there would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) shown: Vec<String>,
    /// How many there are, as far as the tool counted.
    pub(super) total: u64,
    /// Whether there are more than that.
    pub(super) more: bool,
    /// What else the tool said.
    pub(super) remarks: Vec<String>,
}

impl Lines {
    pub(super) fn is_cut(&self) -> bool {
        self.more || self.total > self.shown.len() as u64
    }

    /// `4321`, `more than 4321`.
    pub(super) fn total_words(&self) -> String {
        format!("{}{}", if self.more { "more than " } else { "" }, self.total)
    }

    /// Reads the answer of a list, find or search; `is_line` knows what is certainly no remark.
    pub(super) fn of(outcome: &Outcome, is_line: impl Fn(&str) -> bool) -> Self {
        let text = outcome.text();
        let (mut shown, torn) = untorn(&text);
        let (mut total, mut more) = (0, torn);
        let mut remarks = Vec::new();
        while let Some(last) = shown.last().copied().filter(|last| !is_line(last)) {
            match shown_of(last) {
                Some(count) if torn || count.kept == shown.len() as u64 - 1 => {
                    total = count.total;
                    more |= count.more;
                }
                Some(_) => break,
                None if is_remark(last) => {
                    more |= last.starts_with("(the folder is too large") || last.starts_with("(not all files");
                    remarks.push(last.trim_matches(['(', ')']).to_owned());
                }
                None => break,
            }
            shown.pop();
        }
        if let [one] = shown.as_slice()
            && !is_line(one)
            && matches!(*one, "(no files found)" | "(empty directory)" | "(no matches)")
        {
            shown.clear();
        }
        remarks.reverse();
        let kept = shown.len() as u64;
        total = total.max(kept);
        if let Some(cut) = &outcome.cut {
            match cut.unit.as_str() {
                "files" | "entries" | "matches" | "lines" => total = total.max(cut.total),
                _ => more = true,
            }
        }
        Lines { shown: shown.into_iter().map(str::to_owned).collect(), total, more, remarks }
    }
}

/// The lines of an answer; those beside a cut of the pipeline, which may be halves, are left out.
fn untorn(text: &str) -> (Vec<&str>, bool) {
    let lines: Vec<&str> = text.split('\n').filter(|line| !line.is_empty()).collect();
    let is_cut = |at: usize| lines.get(at).is_some_and(|line| is_pipeline_cut(line));
    let torn = (0..lines.len()).any(is_cut);
    let whole = |at: usize| !is_cut(at) && !is_cut(at + 1) && (at == 0 || !is_cut(at - 1));
    (lines.iter().enumerate().filter(|(at, _)| !torn || whole(*at)).map(|(_, line)| *line).collect(), torn)
}

fn is_pipeline_cut(line: &str) -> bool {
    line.starts_with("[cut: ") && line.ends_with(']') && line.contains(" bytes ")
}

fn is_remark(line: &str) -> bool {
    let Some(inner) = line.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else { return false };
    let counts = |rest: &str| {
        let mut words = rest.split(' ');
        let number = words.next().is_some_and(|word| word.parse::<u64>().is_ok());
        let noun = words.next().is_some_and(|word| matches!(word, "file" | "files" | "directory" | "directories"));
        number && noun && words.next().is_some()
    };
    counts(inner) || inner.starts_with("the folder is too large") || inner.starts_with("not all files")
}

/// What a remark says of how much was shown.
struct Count {
    kept: u64,
    total: u64,
    more: bool,
}

/// Reads `(3 of more than 10 files shown)`.
fn shown_of(line: &str) -> Option<Count> {
    let inner = line.strip_prefix('(')?.strip_suffix(" shown)")?;
    let (kept, rest) = inner.split_once(" of ")?;
    let (rest, more) = rest.strip_prefix("more than ").map_or((rest, false), |rest| (rest, true));
    let (total, unit) = rest.split_once(' ')?;
    let known = matches!(unit, "file" | "files" | "entry" | "entries" | "match" | "matches");
    let count = Count { kept: kept.parse().ok()?, total: total.parse().ok()?, more };
    (known && count.kept <= count.total).then_some(count)
}

/// How many lines a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Lines(u64),
    MoreThan(u64),
    Binary,
    /// The answer does not say.
    Untold,
}

/// Reads from the answer of a read from line 1 on how many lines the file has. What the file holds cannot tell a wrong
/// number: a remark counts only behind as many lines as it says were shown, and a whole file has none behind it that
/// says more than there are.
pub(super) fn length(outcome: &Outcome, path: &str, limit: Option<u64>) -> Length {
    let text = outcome.text();
    if outcome.cut.as_ref().is_some_and(|cut| cut.unit == "lines") {
        let total = outcome.cut.as_ref().map_or(0, |cut| cut.total);
        return if text.contains(&format!(" of more than {total} shown")) {
            Length::MoreThan(total)
        } else {
            Length::Lines(total)
        };
    }
    if outcome.cut.is_some() || text.lines().skip(1).last().is_some_and(is_pipeline_cut) {
        return Length::Untold;
    }
    if text == "(empty file)" || text.is_empty() {
        return Length::Lines(0);
    }
    if text.starts_with(&format!("({path} is binary, ")) && text.ends_with(": not shown)") && !text.contains('\n') {
        return Length::Binary;
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some((last, before)) = lines.split_last() else { return Length::Lines(0) };
    let (all, kept) = (lines.len() as u64, before.len() as u64);
    // A whole file within the limit is nothing but itself; behind a part of one stands a remark, one line beyond the limit.
    if kept == 0 || limit.is_some_and(|limit| all != limit + 1) {
        return Length::Lines(all);
    }
    match remark_of_read(last) {
        Some(Remark { last: shown, total, more }) if shown == kept => {
            if more {
                Length::MoreThan(total)
            } else {
                Length::Lines(total)
            }
        }
        Some(_) => Length::Lines(all),
        None if is_aside_of_read(last) => Length::Lines(kept),
        None => Length::Lines(all),
    }
}

struct Remark {
    last: u64,
    total: u64,
    more: bool,
}

/// Reads `(lines 1 to 20 of 300 shown; the next one is …)`.
fn remark_of_read(line: &str) -> Option<Remark> {
    let inner = line.strip_prefix('(')?.strip_suffix(')')?;
    inner.split("; ").find_map(|piece| {
        let piece = piece.strip_suffix(" shown")?;
        let (range, rest) = piece.split_once(" of ")?;
        let last = match range.strip_prefix("lines 1 to ") {
            Some(last) => last.parse().ok()?,
            None => (range == "line 1").then_some(1)?,
        };
        let (total, more) = rest.strip_prefix("more than ").map_or((rest, false), |rest| (rest, true));
        let total = total.parse().ok()?;
        (last <= total).then_some(Remark { last, total, more })
    })
}

/// Whether a last line says only that a line was cut or that bytes were no text.
fn is_aside_of_read(line: &str) -> bool {
    let Some(inner) = line.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else { return false };
    inner.split("; ").all(|piece| {
        (piece.starts_with("line ") && piece.contains(" is cut after ")) || piece.contains(" not UTF-8, shown as ")
    })
}

/// A line of a search: the path, the number of the line, its text.
pub(super) fn matched(line: &str) -> Option<(&str, u64, &str)> {
    line.match_indices(':').find_map(|(at, _)| {
        let (number, text) = line.get(at + 1..)?.split_once(':')?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (at > 0 && is_number).then(|| Some((&line[..at], number.parse().ok()?, text)))?
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use placet_core::{Cut, Stage};
    use proptest::prelude::*;

    fn completed(text: &str, cut: Option<(u64, u64, &str)>) -> Outcome {
        let mut outcome = Outcome::new(Status::Completed, Stage::Execute, None, text);
        outcome.cut = cut.map(|(kept, total, unit)| Cut { kept, total, unit: unit.into() });
        outcome
    }

    #[test]
    fn the_length_of_a_file_is_read_from_its_first_line() {
        for (text, cut, limit, expected) in [
            ("a\n(line 1 of 20 shown; the next one is `offset` 2)", None, Some(1), Length::Lines(20)),
            ("a\n(line 1 of 20 shown; the next one is `offset` 2)", Some((1, 20, "lines")), Some(1), Length::Lines(20)),
            (
                "a\n(line 1 of more than 20 shown; 1 byte is not UTF-8, shown as \u{fffd})",
                None,
                Some(1),
                Length::MoreThan(20),
            ),
            ("a\n(line 1 of more than 20 shown)", Some((1, 20, "lines")), Some(1), Length::MoreThan(20)),
            ("a\n(line 1 is cut after 9 bytes; line 1 of 20 shown)", None, Some(1), Length::Lines(20)),
            ("a\n(line 1 is cut after 9 bytes)", None, Some(1), Length::Lines(1)),
            ("a\n(2 bytes are not UTF-8, shown as \u{fffd})", None, Some(1), Length::Lines(1)),
            ("(line 1 of 20 shown)", None, Some(1), Length::Lines(1)),
            ("a\nb\nc\n(line 1 of 20 shown)", None, Some(1), Length::Lines(4)),
            ("a\nb\n(lines 1 to 2 of 20 shown)", None, None, Length::Lines(20)),
            ("a\nb\n(lines 1 to 9 of 20 shown)", None, None, Length::Lines(3)),
            ("a\n[cut: the first 2 of 900 bytes are shown]", None, Some(1), Length::Untold),
            ("a", Some((1, 9, "bytes")), Some(1), Length::Untold),
            ("(empty file)", None, Some(1), Length::Lines(0)),
            ("(f is binary, 9 bytes: not shown)", None, Some(1), Length::Binary),
            ("(g is binary, 9 bytes: not shown)", None, Some(1), Length::Lines(1)),
        ] {
            assert_eq!(length(&completed(text, cut), "f", limit), expected, "{text}");
        }
    }

    #[test]
    fn a_line_of_a_search_is_taken_apart() {
        assert_eq!(matched("a/b.rs:12:x:3:y"), Some(("a/b.rs", 12, "x:3:y")));
        assert_eq!(matched("a:b.rs:7:"), Some(("a:b.rs", 7, "")));
        for line in ["", ":1:x", "a:x:y", "(3 of 9 matches shown)", "a:99999999999999999999999:b"] {
            assert_eq!(matched(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_panics_and_no_line_is_counted_twice(
            lines in proptest::collection::vec(
                prop_oneof![
                    "\\PC{0,12}",
                    "\\([0-9]{1,2} of (more than )?[0-9]{1,3} (files|lines|entries) shown\\)",
                    "\\(lines? 1( to [0-9])? of [0-9]{1,3} shown\\)",
                    "\\[cut: .{0,9} bytes .{0,9}\\]",
                    "\\([0-9] files .{0,9}\\)",
                ],
                0..8,
            ),
            cut in proptest::option::of((0_u64..9, 0_u64..99, proptest::sample::select(vec!["files", "bytes", "lines"]))),
            limit in proptest::option::of(1_u64..3),
        ) {
            let outcome = completed(&lines.join("\n"), cut);
            let read = Lines::of(&outcome, |line| matched(line).is_some());
            prop_assert!(read.total >= read.shown.len() as u64);
            prop_assert!(read.shown.len() + read.remarks.len() <= lines.len());
            let _ = length(&outcome, "f", limit);
        }
    }
}
