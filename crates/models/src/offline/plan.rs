//! What is done for each wish.

use super::desk::{Desk, Stop, Wanted};
use super::grammar::{GRAMMAR, Row, Wish};
use super::phrase::{Phrase, Place, Sort, understand};
use super::results::{Length, Lines, counted, length, matched, told};
use super::roles::Role;
use placet_core::{Status, ToolChoice, TurnRequest};
use serde_json::Value;

/// How many lines of a list an answer repeats.
const SHOWN: usize = 100;
/// How many problems an answer tells.
const PROBLEMS: usize = 5;

const WHO: &str = "I am `offline`, no language model";

/// What a turn comes to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Say(String),
    /// Calls, and how many the conversation held before.
    Ask(Vec<Wanted>, usize),
}

/// The next step: read from the conversation, and from nothing else.
pub(super) fn next(request: &TurnRequest) -> Reply {
    let (mut desk, said) = Desk::of(request);
    let Some(phrase) = understand(&said) else { return Reply::Say(not_understood(&desk, &said)) };
    match carry_out(&phrase, &mut desk) {
        Ok(text) | Err(Stop::Say(text)) => Reply::Say(without_a_call(&desk, text)),
        Err(Stop::Missing(role)) => Reply::Say(without_a_call(&desk, missing(&phrase, role, &desk))),
        Err(Stop::Wanted) => ask(desk),
    }
}

/// The wanted calls, as far as they may be made.
fn ask(desk: Desk<'_>) -> Reply {
    let wanted: Vec<String> = desk.wanted.iter().map(|it| format!("`{}`", it.tool)).collect();
    let wanted = wanted.first().cloned().unwrap_or_default();
    if !desk.may_ask() {
        return Reply::Say("I have used all my rounds of tool calls and could not finish.".to_owned());
    }
    match desk.choice {
        ToolChoice::None => {
            Reply::Say(format!("I was told to use no tool in this turn. To answer I would have called {wanted}."))
        }
        ToolChoice::Tool(only) if desk.wanted.iter().any(|it| it.tool != *only) => {
            Reply::Say(format!("I was told to call `{only}`, but what helps here is {wanted}, so I called nothing."))
        }
        _ => Reply::Ask(desk.wanted, desk.calls),
    }
}

/// An answer without a call says so where one was demanded.
fn without_a_call(desk: &Desk<'_>, text: String) -> String {
    let demanded = match desk.choice {
        ToolChoice::Required => "I was told to call a tool, but none that I was offered fits.".to_owned(),
        ToolChoice::Tool(only) => format!("I was told to call `{only}`, but it does not fit what was asked."),
        _ => return text,
    };
    if desk.has_asked() { text } else { format!("{demanded}\n\n{text}") }
}

fn carry_out(phrase: &Phrase, desk: &mut Desk<'_>) -> Result<String, Stop> {
    match phrase.row.wish {
        Wish::Help => Ok(format!(
            "{WHO}: I understand a small set of phrases, and use the tools that I am handed.\n\n{}",
            can(desk)
        )),
        Wish::Longest => longest(phrase, desk),
        Wish::CountLines => count_lines(phrase, desk),
        Wish::CountFiles => count_files(phrase, desk),
        Wish::Find => find_files(phrase, desk),
        Wish::CountMatches | Wish::FilesWith | Wish::Search => search(phrase, desk),
        Wish::Read => read(phrase, desk),
        Wish::List => list(phrase, desk),
        Wish::Write => change(desk, Role::Write, &[("path", file(phrase)), ("content", text(phrase, 0))]),
        Wish::Edit => {
            change(desk, Role::Edit, &[("path", file(phrase)), ("old", text(phrase, 0)), ("new", text(phrase, 1))])
        }
        Wish::Delete => change(desk, Role::Delete, &[("path", file(phrase))]),
        Wish::Run => run(phrase, desk),
        Wish::Calculate => calculate(phrase, desk),
    }
}

fn not_understood(desk: &Desk<'_>, said: &str) -> String {
    let what = if said.trim().is_empty() { "nothing was said" } else { "this is none of them" };
    without_a_call(desk, format!("{WHO}: I understand a small set of phrases, and {what}.\n\n{}", can(desk)))
}

fn missing(phrase: &Phrase, role: Role, desk: &Desk<'_>) -> String {
    let mut lacking: Vec<Role> = phrase.row.needs.iter().copied().filter(|role| desk.tool(*role).is_none()).collect();
    // A row may need more than this one wish of it does.
    if phrase.row.wish == Wish::CountLines && role == Role::Read && phrase.place().is_some_and(|it| it.sort.is_none()) {
        lacking = vec![role];
    }
    let does = lacking.iter().map(|role| role.shape().does).collect::<Vec<_>>().join(" and none that ");
    let parameters = lacking.iter().map(|role| {
        let shape = role.shape();
        let names = shape.required.iter().chain(shape.optional).map(|it| format!("`{}`", it.name));
        names.collect::<Vec<_>>().join(", ")
    });
    let parameters = parameters.collect::<Vec<_>>().join("; ");
    let one = if lacking.len() > 1 { "With such tools" } else { "With one" };
    format!(
        "I cannot {}: I was handed no tool that {does}. {one} (by parameters: {parameters}) I could.",
        phrase.row.does
    )
}

/// What it can do with the tools on the desk, and what with others.
fn can(desk: &Desk<'_>) -> String {
    let rows = GRAMMAR.iter().filter(|row| !row.needs.is_empty());
    let (now, not): (Vec<&Row>, Vec<&Row>) =
        rows.partition(|row| row.needs.iter().all(|role| desk.tool(*role).is_some()));
    let mut text = if now.is_empty() {
        "I was handed no tool that I know how to use, so I can do nothing but say this.".to_owned()
    } else {
        let lines: Vec<String> = now.iter().map(|row| format!("- {}: “{}”", row.does, row.example)).collect();
        format!("With the tools that I was handed I can:\n{}", lines.join("\n"))
    };
    if !not.is_empty() {
        let lines = not.iter().map(|row| {
            let lacking = row.needs.iter().filter(|role| desk.tool(**role).is_none());
            let lacking: Vec<String> = lacking.map(|role| format!("a tool that {}", role.shape().does)).collect();
            format!("- {}, with {}: “{}”", row.does, lacking.join(" and "), row.example)
        });
        text.push_str(&format!("\n\nIf I were handed more, I could also:\n{}", lines.collect::<Vec<_>>().join("\n")));
    }
    text
}

/// Files that were found, and what is to be said of the search for them.
struct FoundFiles {
    paths: Vec<String>,
    lines: Lines,
    /// `Rust files`, `files`, `` files that match `*.x` ``, with where they are.
    called: String,
}

impl FoundFiles {
    /// `12 Rust files in src`, `1 file`.
    fn counted(&self, count: &str) -> String {
        let called = if count == "1" { self.called.replacen("files", "file", 1) } else { self.called.clone() };
        format!("{count} {called}")
    }

    /// What has to be said besides.
    fn remarks(&self, text: &mut String) {
        if self.lines.is_cut() {
            let (shown, total) = (self.paths.len(), self.lines.total_words());
            text.push_str(&format!("\n\nThe list of files was cut at {shown} of {total}."));
        }
        remark(&self.lines, text);
    }
}

fn remark(lines: &Lines, text: &mut String) {
    for remark in &lines.remarks {
        text.push_str(&format!("\n\nThe tool adds: {remark}."));
    }
}

fn find(desk: &mut Desk<'_>, sort: Option<&Sort>, path: Option<&String>) -> Result<FoundFiles, Stop> {
    let glob = sort.map_or("**/*", |sort| sort.glob.as_str());
    let path = path.map(String::as_str).filter(|path| *path != ".");
    let takes_path = desk.tool(Role::Find).is_none_or(|tool| tool.has("path"));
    let result = match path {
        Some(path) if takes_path => desk.completed(Role::Find, &[("glob", glob.into()), ("path", path.into())])?,
        Some(path) => {
            // A glob without a slash is one of names, at any depth.
            let glob = if glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") };
            desk.completed(Role::Find, &[("glob", format!("{}/{glob}", path.trim_end_matches('/')).into())])?
        }
        None => desk.completed(Role::Find, &[("glob", glob.into())])?,
    };
    let lines = Lines::of(&result.outcome, |_| false);
    let mut called = match sort.map(|sort| sort.called.as_str()) {
        None | Some("") => "files".to_owned(),
        Some(glob) if glob.starts_with('`') => format!("files that match {glob}"),
        Some(kind) => format!("{kind} files"),
    };
    if let Some(path) = path {
        called.push_str(&format!(" in `{path}`"));
    }
    Ok(FoundFiles { paths: lines.shown.clone(), lines, called })
}

/// What measuring files came to.
#[derive(Default)]
struct Measured {
    /// Lines and paths; `true` where there are more lines than were counted.
    lengths: Vec<(u64, bool, String)>,
    binary: u64,
    problems: Vec<String>,
    /// How many files were looked at.
    looked: usize,
}

fn measure(desk: &mut Desk<'_>, paths: &[String]) -> Result<Measured, Stop> {
    let (batch, most) = desk.batch(paths.len());
    let limited = desk.tool(Role::Read).ok_or(Stop::Missing(Role::Read))?.has("limit");
    let mut measured = Measured { looked: paths.len().min(most), ..Measured::default() };
    for path in paths.iter().take(most) {
        let before = desk.wanted.len();
        let given: &[(&str, Value)] = &[("path", path.as_str().into()), ("limit", 1.into())];
        let result = desk.result(Role::Read, given)?;
        if desk.wanted.len() > before {
            if desk.wanted.len() >= batch {
                return Err(Stop::Wanted);
            }
            continue;
        }
        match result {
            None => measured.problems.push(format!("`{path}`: the call got no result")),
            Some(result) if result.outcome.status == Status::Completed => {
                match length(&result.outcome, path, limited.then_some(1)) {
                    Length::Lines(lines) => measured.lengths.push((lines, false, path.clone())),
                    Length::MoreThan(lines) => measured.lengths.push((lines, true, path.clone())),
                    Length::Binary => measured.binary += 1,
                    Length::Untold => measured.problems.push(format!("`{path}`: the tool did not say how long it is")),
                }
            }
            Some(result) => measured.problems.push(format!("`{path}`: the call {}", told(result))),
        }
    }
    if desk.wanted.is_empty() { Ok(measured) } else { Err(Stop::Wanted) }
}

impl Measured {
    fn remarks(&self, of: usize, text: &mut String) {
        if self.looked < of {
            text.push_str(&format!(
                "\n\nI looked at the first {} of {of} files only, because my rounds of tool calls are limited; what lies among the \
                 others I do not know.",
                self.looked
            ));
        }
        if self.binary > 0 {
            let binary = counted(self.binary, "file is binary and has", "files are binary and have");
            text.push_str(&format!("\n\n{binary} no lines."));
        }
        if !self.problems.is_empty() {
            let count = counted(self.problems.len() as u64, "file", "files");
            text.push_str(&format!("\n\nI could not measure {count}:"));
            for problem in self.problems.iter().take(PROBLEMS) {
                text.push_str(&format!("\n- {problem}"));
            }
            if self.problems.len() > PROBLEMS {
                text.push_str(&format!("\n- and {} more", self.problems.len() - PROBLEMS));
            }
        }
    }
}

fn lines_words(lines: u64, more: bool) -> String {
    format!("{}{}", if more { "more than " } else { "" }, counted(lines, "line", "lines"))
}

fn longest(phrase: &Phrase, desk: &mut Desk<'_>) -> Result<String, Stop> {
    if desk.tool(Role::Read).is_none() {
        return Err(Stop::Missing(Role::Read));
    }
    let found = find(desk, phrase.kind(), phrase.path())?;
    if found.paths.is_empty() {
        return Ok(none_found(&found));
    }
    let mut measured = measure(desk, &found.paths)?;
    measured.lengths.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
    let usual = if phrase.says("file") { 1 } else { 10 };
    let wanted = phrase.number().map_or(usual, |number| usize::try_from(*number).unwrap_or(usize::MAX)).clamp(1, SHOWN);
    let sum = measured.lengths.len();
    let of = found.counted(&sum.to_string());
    let mut text = match measured.lengths.as_slice() {
        [] => format!("I could measure none of the {}.", found.counted(&found.paths.len().to_string())),
        [(lines, more, path)] => {
            format!("Of the {of} that I measured, `{path}` is the longest, with {}.", lines_words(*lines, *more))
        }
        [(lines, more, path), ..] if wanted == 1 => {
            let equals = measured.lengths.iter().filter(|it| it.0 == *lines).count() - 1;
            let also = if equals > 0 {
                format!(" ({} as long)", counted(equals as u64, "other is", "others are"))
            } else {
                String::new()
            };
            format!("The longest of the {of} is `{path}`, with {}{also}.", lines_words(*lines, *more))
        }
        all => {
            let shown = wanted.min(sum);
            let rows: Vec<String> = (1..)
                .zip(&all[..shown])
                .map(|(place, (lines, more, path))| format!("{place}. `{path}`: {}", lines_words(*lines, *more)))
                .collect();
            let which = if shown < sum {
                format!("The {shown} longest of the {of}")
            } else {
                format!("The {of}, longest first")
            };
            let total: u64 = all.iter().map(|it| it.0).sum();
            let more = all.iter().any(|it| it.1);
            format!("{which}:\n\n{}\n\nTogether the {sum} have {}.", rows.join("\n"), lines_words(total, more))
        }
    };
    measured.remarks(found.paths.len(), &mut text);
    found.remarks(&mut text);
    Ok(text)
}

fn none_found(found: &FoundFiles) -> String {
    let mut text = format!("I found no {}.", found.called);
    found.remarks(&mut text);
    text
}

fn count_lines(phrase: &Phrase, desk: &mut Desk<'_>) -> Result<String, Stop> {
    let named = phrase.file().cloned();
    let place = phrase
        .place()
        .cloned()
        .unwrap_or_else(|| Place { path: phrase.path().cloned().or(named), sort: phrase.kind().cloned() });
    if let Place { path: Some(path), sort: None } = &place {
        let measured = measure(desk, std::slice::from_ref(path))?;
        return Ok(match (measured.lengths.as_slice(), measured.problems.as_slice()) {
            ([(lines, more, path), ..], _) => format!("`{path}` has {}.", lines_words(*lines, *more)),
            (_, [problem, ..]) => format!("I could not count the lines of {problem}"),
            _ => format!("`{path}` is binary and has no lines."),
        });
    }
    if desk.tool(Role::Read).is_none() {
        return Err(Stop::Missing(Role::Read));
    }
    let found = find(desk, place.sort.as_ref(), place.path.as_ref())?;
    if found.paths.is_empty() {
        return Ok(none_found(&found));
    }
    let measured = measure(desk, &found.paths)?;
    let total: u64 = measured.lengths.iter().map(|it| it.0).sum();
    let more = measured.lengths.iter().any(|it| it.1);
    let of = found.counted(&measured.lengths.len().to_string());
    let have = if measured.lengths.len() == 1 { "has" } else { "have" };
    let mut text = format!("The {of} {have} {}.", lines_words(total, more));
    measured.remarks(found.paths.len(), &mut text);
    found.remarks(&mut text);
    Ok(text)
}

fn count_files(phrase: &Phrase, desk: &mut Desk<'_>) -> Result<String, Stop> {
    let found = find(desk, sort_of(phrase).as_ref(), phrase.path())?;
    let is_one = found.lines.total == 1 && !found.lines.more;
    let count = found.counted(&found.lines.total_words());
    let mut text = format!("There {} {count}.", if is_one { "is" } else { "are" });
    found.remarks(&mut text);
    Ok(text)
}

/// The files that are meant: a sort of files, or a name or glob of the user's.
fn sort_of(phrase: &Phrase) -> Option<Sort> {
    let named = phrase.name().map(|name| Sort { called: format!("`{name}`"), glob: name.clone() });
    named.or_else(|| phrase.kind().cloned())
}

fn find_files(phrase: &Phrase, desk: &mut Desk<'_>) -> Result<String, Stop> {
    let found = find(desk, sort_of(phrase).as_ref(), phrase.path())?;
    if found.paths.is_empty() {
        return Ok(none_found(&found));
    }
    let is_one = found.lines.total == 1 && !found.lines.more;
    let count = found.counted(&found.lines.total_words());
    let mut text = format!("There {} {count}:\n\n{}", if is_one { "is" } else { "are" }, bulleted(&found.paths));
    found.remarks(&mut text);
    Ok(text)
}

fn bulleted(lines: &[String]) -> String {
    let mut rows: Vec<String> = lines.iter().take(SHOWN).map(|line| format!("- {line}")).collect();
    if lines.len() > SHOWN {
        rows.push(format!("- and {} more, which I leave out here", lines.len() - SHOWN));
    }
    rows.join("\n")
}

fn list(phrase: &Phrase, desk: &mut Desk<'_>) -> Result<String, Stop> {
    let path = phrase.path().map_or(".", String::as_str);
    let result = desk.completed(Role::List, &[("path", path.into())])?;
    let lines = Lines::of(&result.outcome, |_| false);
    let place = if path == "." { "The folder".to_owned() } else { format!("`{path}`") };
    if lines.shown.is_empty() && !lines.is_cut() {
        let mut text = format!("{place} is empty.");
        remark(&lines, &mut text);
        return Ok(text);
    }
    let directories = lines.shown.iter().filter(|line| line.ends_with('/') && !line.contains(" -> ")).count() as u64;
    let entries = lines.total_words();
    let noun = if entries == "1" { "entry" } else { "entries" };
    let mut text = format!(
        "{place} holds {entries} {noun}, {} among those shown:\n\n{}",
        counted(directories, "directory", "directories"),
        bulleted(&lines.shown)
    );
    if lines.is_cut() {
        text.push_str(&format!("\n\nThe list was cut at {} of {entries} entries.", lines.shown.len()));
    }
    remark(&lines, &mut text);
    Ok(text)
}

fn read(phrase: &Phrase, desk: &mut Desk<'_>) -> Result<String, Stop> {
    let path = phrase.file().cloned().unwrap_or_default();
    let mut given: Vec<(&str, Value)> = vec![("path", path.as_str().into())];
    let mut part = "the text".to_owned();
    match phrase.numbers().as_slice() {
        [] => {}
        [first] => {
            part = if *first == 1 { "the first line".to_owned() } else { format!("the first {first} lines") };
            given.push(("limit", (*first).into()));
        }
        [from, to, ..] if from <= to && *from > 0 => {
            part = format!("lines {from} to {to}");
            given.push(("offset", (*from).into()));
            given.push(("limit", (to - from + 1).into()));
        }
        [from, to, ..] => return Err(Stop::Say(format!("From line {from} to line {to} there is nothing to read."))),
    }
    let lacks = desk.tool(Role::Read).and_then(|tool| given.iter().find(|(name, _)| !tool.has(name)));
    if let Some((name, _)) = lacks {
        return Err(Stop::Say(format!(
            "I cannot read a part of a file: the tool that I was handed takes no `{name}`."
        )));
    }
    let result = desk.completed(Role::Read, &given)?;
    Ok(format!("This is {part} of `{path}`, as the tool answered it:\n\n{}", result.outcome.text()))
}

fn search(phrase: &Phrase, desk: &mut Desk<'_>) -> Result<String, Stop> {
    let text = phrase.text().cloned().unwrap_or_default();
    let regex = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')).filter(|inner| !inner.is_empty());
    let pattern = regex.map_or_else(|| escaped(&text), str::to_owned);
    let place = phrase.place().cloned().unwrap_or_default();
    let sort = phrase.kind().or(place.sort.as_ref());
    let mut given: Vec<(&str, Value)> = vec![("pattern", pattern.into())];
    let mut whereabouts = String::new();
    if let Some(sort) = sort.filter(|sort| sort.glob != "**/*") {
        let glob = sort.glob.strip_prefix("**/").unwrap_or(&sort.glob);
        given.push(("glob", glob.into()));
        let of_user = sort.called.starts_with('`');
        whereabouts.push_str(&if of_user {
            format!(" in {}", sort.called)
        } else {
            format!(" in {} files", sort.called)
        });
    }
    if let Some(path) = place.path.as_deref().filter(|path| *path != ".") {
        given.push(("path", path.into()));
        whereabouts.push_str(&format!(" in `{path}`"));
    }
    let lacks = desk.tool(Role::Search).and_then(|tool| given.iter().find(|(name, _)| !tool.has(name)));
    if let Some((name, _)) = lacks {
        return Err(Stop::Say(format!("I cannot narrow the search so: the tool that I was handed takes no `{name}`.")));
    }
    let result = desk.completed(Role::Search, &given)?;
    let lines = Lines::of(&result.outcome, |line| matched(line).is_some());
    let what = if regex.is_some() { format!("match `{text}`") } else { format!("contain “{text}”") };
    let mut files: Vec<String> = Vec::new();
    for (path, ..) in lines.shown.iter().filter_map(|line| matched(line)) {
        if files.last().is_none_or(|last| last != path) && !files.iter().any(|known| known == path) {
            files.push(path.to_owned());
        }
    }
    let total = lines.total_words();
    let in_files = counted(files.len() as u64, "file", "files");
    let (noun, verb) = if total == "1" {
        ("line", what.replacen("match", "matches", 1).replacen("contain", "contains", 1))
    } else {
        ("lines", what)
    };
    let shown = if lines.is_cut() {
        format!("; the {} shown are in {in_files}", lines.shown.len())
    } else {
        format!(", in {in_files}")
    };
    let mut text = match phrase.row.wish {
        _ if lines.shown.is_empty() && !lines.is_cut() => format!("No lines {verb}{whereabouts}."),
        Wish::CountMatches => format!("{total} {noun} {verb}{whereabouts}{shown}."),
        Wish::FilesWith => {
            format!("{total} {noun} {verb}{whereabouts}{shown}:\n\n{}", bulleted(&files))
        }
        _ => format!("{total} {noun} {verb}{whereabouts}{shown}:\n\n{}", bulleted(&lines.shown)),
    };
    if lines.is_cut() {
        text.push_str(&format!("\n\nThe answer was cut at {} of {total} lines.", lines.shown.len()));
    }
    remark(&lines, &mut text);
    Ok(text)
}

/// A text as a regular expression that matches it and nothing else.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

fn file(phrase: &Phrase) -> Value {
    phrase.file().map_or_else(|| "".into(), |file| file.as_str().into())
}

fn text(phrase: &Phrase, at: usize) -> Value {
    phrase.texts().nth(at).unwrap_or_default().into()
}

/// One call, and the tool's own words of what it did.
fn change(desk: &mut Desk<'_>, role: Role, given: &[(&str, Value)]) -> Result<String, Stop> {
    let result = desk.completed(role, given)?;
    Ok(format!("Done. The tool says: {}", result.outcome.text()))
}

fn run(phrase: &Phrase, desk: &mut Desk<'_>) -> Result<String, Stop> {
    let command = phrase.command().cloned().unwrap_or_default();
    let result = desk.completed(Role::Command, &[("argv", command.clone().into())])?;
    Ok(format!("I had `{}` run. The tool answered:\n\n{}", command.join(" "), result.outcome.text()))
}

fn calculate(phrase: &Phrase, desk: &mut Desk<'_>) -> Result<String, Stop> {
    let expression = phrase.expression().cloned().unwrap_or_default();
    let result = desk.completed(Role::Calculator, &[("expression", expression.as_str().into())])?;
    Ok(format!("{expression} = {}", result.outcome.text().trim()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_text_is_no_regular_expression() {
        assert_eq!(escaped("a.b(c) größe"), r"a\.b\(c\) größe");
    }
}
