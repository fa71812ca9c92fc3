//! Lines by a regular expression, with ripgrep's own engine.

use super::Files;
use super::find::Glob;
use super::path::{Inside, clipped};
use super::text::clip;
use super::walk::{self, Rules};
use crate::answer::{Answer, counted};
use crate::error::WorkspaceError;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};
use rustix::fs::FileType;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use tokio_util::sync::CancellationToken;

/// The longest pattern, in bytes.
const LONGEST: usize = 4_000;
/// How much a compiled pattern may take, in bytes.
const MOST_COMPILED: usize = 4 << 20;
/// The longest line that is searched, in bytes.
const LONGEST_LINE: usize = 4 << 20;
/// How far counting goes on beyond what is shown.
const MOST_COUNTED: u64 = 10_000;

impl Files {
    /// Searches the files below `path`, or the one file that it names, for lines that match the regular expression;
    /// `glob` narrows which files. One match a line: `path:line:text`.
    ///
    /// # Errors
    /// As the pattern or the glob cannot be read, or the path is missing, outside or closed.
    pub fn search(
        &self,
        pattern: &str,
        path: Option<&str>,
        glob: Option<&str>,
        stop: &CancellationToken,
    ) -> Result<Answer, WorkspaceError> {
        let matcher = compiled(pattern)?;
        let glob = glob.map(Glob::parse).transpose()?;
        let given = Inside::parse(path.unwrap_or("."))?;
        let mut hunt = Hunt::new(self, matcher);
        // A file that is named is searched; a directory is walked.
        let incomplete;
        match self.root.file(&given, self.credentials()) {
            Ok((file, real)) => {
                incomplete = !hunt.size(&file);
                hunt.file(file, &real)?;
            }
            Err(WorkspaceError::WrongKind { found: "a directory", .. }) => {
                let (dir, real) = self.root.directory(&given, self.credentials())?;
                let hidden = glob.as_ref().is_some_and(|glob| glob.hidden);
                let rules = Rules { hidden, depth: usize::MAX, whole_start: false };
                let above = real.names().len();
                let mut failed = None;
                let walked = walk::walk(&self.root, dir, &real, rules, stop, &mut |visit| {
                    let wanted = visit.entry.kind == FileType::RegularFile
                        && glob.as_ref().is_none_or(|glob| glob.matches(visit.path, above));
                    if !wanted {
                        return ControlFlow::Continue(());
                    }
                    if stop.is_cancelled() {
                        failed = Some(WorkspaceError::Cancelled);
                        return ControlFlow::Break(());
                    }
                    if self.is_closed(visit.path) {
                        hunt.closed += 1;
                        return ControlFlow::Continue(());
                    }
                    match self.root.file_in(visit.dir, &visit.entry.name, visit.path) {
                        Ok(file) if !hunt.size(&file) => hunt.large += 1,
                        Ok(file) => {
                            if let Err(error) = hunt.file(file, visit.path) {
                                failed = Some(error);
                                return ControlFlow::Break(());
                            }
                        }
                        Err(_) => hunt.unreadable += 1,
                    }
                    if hunt.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                if let Some(error) = failed {
                    return Err(error);
                }
                incomplete = walked.incomplete;
                hunt.unreadable += walked.unreadable;
            }
            Err(error) => return Err(error),
        }
        Ok(hunt.answer(incomplete))
    }
}

pub(super) fn compiled(pattern: &str) -> Result<RegexMatcher, WorkspaceError> {
    let bad = |problem: String| WorkspaceError::BadPattern { what: "pattern", pattern: clipped(pattern), problem };
    if pattern.is_empty() {
        return Err(bad("it is empty; give a regular expression such as `fn \\w+`".into()));
    }
    if pattern.len() > LONGEST {
        return Err(bad(format!("it is longer than {LONGEST} bytes")));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder.line_terminator(Some(b'\n')).size_limit(MOST_COMPILED).dfa_size_limit(MOST_COMPILED);
    builder.build(pattern).map_err(|error| {
        let text = error.to_string();
        // The parser draws its complaint over several lines; the last one says it in words.
        let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        bad(format!("{last}; write `\\` before characters such as ( [ {{ * . that are meant literally"))
    })
}

struct Hunt<'a> {
    files: &'a Files,
    matcher: RegexMatcher,
    searcher: Searcher,
    lines: Vec<String>,
    matches: u64,
    with_matches: u64,
    searched: u64,
    bytes: u64,
    binary: u64,
    closed: u64,
    large: u64,
    unreadable: u64,
}

impl<'a> Hunt<'a> {
    fn new(files: &'a Files, matcher: RegexMatcher) -> Self {
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .heap_limit(Some(LONGEST_LINE))
            .binary_detection(BinaryDetection::quit(0))
            .build();
        Hunt {
            files,
            matcher,
            searcher,
            lines: Vec::new(),
            matches: 0,
            with_matches: 0,
            searched: 0,
            bytes: 0,
            binary: 0,
            closed: 0,
            large: 0,
            unreadable: 0,
        }
    }

    /// Counts the file's bytes; says whether it is small enough.
    fn size(&mut self, file: &File) -> bool {
        let size = file.metadata().map_or(0, |meta| meta.len());
        let fits = size <= self.files.options.limits.scanned_bytes;
        self.bytes += if fits { size } else { 0 };
        fits
    }

    fn is_over(&self) -> bool {
        self.matches >= MOST_COUNTED || self.bytes > self.files.options.limits.search_bytes
    }

    fn file(&mut self, file: File, path: &Inside) -> Result<(), WorkspaceError> {
        let limits = &self.files.options.limits;
        let mut sink = Found {
            path: path.shown(),
            files: self.files,
            lines: Vec::new(),
            room: limits.matches.saturating_sub(self.lines.len()),
            matches: 0,
            left: MOST_COUNTED.saturating_sub(self.matches),
            binary: false,
        };
        // Bounded even where the file grows while it is read.
        let reader = io::Read::take(file, limits.scanned_bytes);
        match self.searcher.search_reader(&self.matcher, reader, &mut sink) {
            Ok(()) if sink.binary => self.binary += 1,
            Ok(()) => {
                self.searched += 1;
                self.matches += sink.matches;
                self.with_matches += u64::from(sink.matches > 0);
                self.lines.append(&mut sink.lines);
            }
            Err(_) => self.unreadable += 1,
        }
        Ok(())
    }

    fn answer(self, walk_incomplete: bool) -> Answer {
        let shown = self.lines.len() as u64;
        let over = self.is_over() || walk_incomplete;
        let mut text = self.lines.join("\n");
        if self.matches == 0 {
            text = "(no matches)".to_owned();
        }
        let mut note = |words: String| text.push_str(&format!("\n({words})"));
        if shown < self.matches {
            let more = if over { "more than " } else { "" };
            note(format!("{shown} of {more}{} shown", counted(self.matches, "match", "matches")));
        }
        if over {
            note("not everything was searched; narrow it with `path` or `glob`".to_owned());
        }
        for (count, words) in [
            (self.closed, "that may hold credentials skipped"),
            (self.binary, "skipped as binary"),
            (self.large, "skipped as too large"),
            (self.unreadable, "could not be read"),
        ] {
            if count > 0 {
                note(format!("{} {words}", counted(count, "file", "files")));
            }
        }
        Answer::new(text)
            .of_files()
            .fact("matches", self.matches)
            .fact("shown", shown)
            .fact("files", self.with_matches)
            .fact("searched", self.searched)
            .fact("closed", self.closed)
            .fact("binary", self.binary)
            .fact("large", self.large)
            .fact("unreadable", self.unreadable)
            .fact("complete", shown == self.matches && !over)
            .cut(shown, self.matches, "matches")
    }
}

struct Found<'a> {
    path: String,
    files: &'a Files,
    lines: Vec<String>,
    room: usize,
    matches: u64,
    left: u64,
    binary: bool,
}

impl Sink for Found<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches += 1;
        if self.lines.len() < self.room {
            let line = String::from_utf8_lossy(found.bytes());
            let line = line.trim_end_matches(['\n', '\r']);
            let most = self.files.options.limits.line_bytes;
            let line = if line.len() > most {
                // Secrets first, so that a cut leaves no half of one.
                let clean = self.files.options.redactor.redact_text(line);
                let kept = clip(&clean, most);
                let left = clean.len() - kept.len();
                if left == 0 { kept.to_owned() } else { format!("{kept}… ({left} more bytes)") }
            } else {
                line.to_owned()
            };
            self.lines.push(format!("{}:{}:{line}", self.path, found.line_number().unwrap_or(0)));
        }
        Ok(self.matches < self.left)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        self.binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}
