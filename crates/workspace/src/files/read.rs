//! The text of a file.

use super::path::Inside;
use super::text::{self, clip};
use super::{Files, stopped};
use crate::answer::{Answer, counted};
use crate::error::WorkspaceError;
use std::io::{BufReader, Read, Seek};
use tokio_util::sync::CancellationToken;

/// How much more than the answer may hold is read, so that a secret across the cut is seen whole.
const MARGIN: usize = 8 * 1024;

/// A count that begins at 1.
pub(super) fn from_one(argument: &'static str, given: Option<u64>) -> Result<Option<u64>, WorkspaceError> {
    match given {
        Some(0) => Err(WorkspaceError::OutOfRange { argument, found: 0, expected: "at least 1" }),
        given => Ok(given),
    }
}

impl Files {
    /// Reads the file at `path`: the text of `limit` lines from line `offset` (counted from 1). A whole file is answered
    /// byte for byte; where lines were left out, a last line in brackets says which were shown and how to go on. Of a
    /// binary file only the size is told.
    ///
    /// # Errors
    /// As the path is missing, outside, closed or no file, or the offset lies beyond the end.
    pub fn read(
        &self,
        path: &str,
        offset: Option<u64>,
        limit: Option<u64>,
        stop: &CancellationToken,
    ) -> Result<Answer, WorkspaceError> {
        let given = Inside::parse(path)?;
        let limits = &self.options.limits;
        let offset = from_one("offset", offset)?.unwrap_or(1);
        let limit = from_one("limit", limit)?.unwrap_or(limits.read_lines);
        stopped(stop)?;
        let (mut file, real) = self.root.file(&given, self.credentials())?;
        let failed = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::Interrupted => WorkspaceError::Cancelled,
            _ => WorkspaceError::io(given.shown(), source),
        };
        let size = file.metadata().map_err(failed)?.len();
        let mut beginning = Vec::with_capacity(text::SNIFFED);
        (&mut file).take(text::SNIFFED as u64).read_to_end(&mut beginning).map_err(failed)?;
        let facts = |answer: Answer| answer.of_files().fact("path", real.shown()).fact("bytes", size);
        if text::is_binary(&beginning) {
            let text = format!("({} is binary, {}: not shown)", given.shown(), counted(size, "byte", "bytes"));
            return Ok(facts(Answer::new(text).fact("binary", true)));
        }
        if size == 0 && beginning.is_empty() {
            return Ok(facts(Answer::new("(empty file)").fact("lines", 0)));
        }
        file.rewind().map_err(failed)?;
        let mut reader = BufReader::with_capacity(64 * 1024, file);
        let most = limits.read_bytes + MARGIN;
        let found = text::lines(&mut reader, offset, limit, most, limits.scanned_bytes, &|| stop.is_cancelled())
            .map_err(failed)?;
        if found.kept == 0 && found.uncounted {
            return Err(WorkspaceError::TooLarge {
                what: format!("the part of `{}` before line {offset}", given.shown()),
                size,
                limit: limits.scanned_bytes,
            });
        }
        if found.kept == 0 {
            return Err(WorkspaceError::OutOfRange {
                argument: "offset",
                found: offset,
                expected: "at most the number of lines of the file; read it without `offset` to see how many it has",
            });
        }
        let wrong: usize = found.bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
        let mut text = String::from_utf8_lossy(&found.bytes).into_owned();
        let (mut kept, mut line_cut) = (found.kept, found.line_cut);
        if text.len() > limits.read_bytes {
            // Secrets first, so that the cut leaves no half of one.
            let clean = self.options.redactor.redact_text(&text).into_owned();
            let clipped = clip(&clean, limits.read_bytes);
            line_cut = !clipped.contains('\n') && clipped.len() < clean.len();
            let whole = if line_cut { clipped } else { &clipped[..clipped.rfind('\n').map_or(0, |at| at + 1)] };
            text = whole.to_owned();
            kept = text.split_inclusive('\n').count() as u64;
        }
        let last = offset + kept - 1;
        let more = if found.uncounted { "more than " } else { "" };
        let mut notes = Vec::new();
        if line_cut {
            notes.push(format!("line {last} is cut after {} bytes", limits.read_bytes));
        }
        if kept < found.total {
            let range = if kept == 1 { format!("line {offset}") } else { format!("lines {offset} to {last}") };
            let goes_on =
                if last < found.total { format!("; the next one is `offset` {}", last + 1) } else { String::new() };
            notes.push(format!("{range} of {more}{} shown{goes_on}", found.total));
        }
        if wrong > 0 {
            notes.push(format!("{} not UTF-8, shown as \u{fffd}", counted(wrong as u64, "byte is", "bytes are")));
        }
        if !notes.is_empty() {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&format!("({})", notes.join("; ")));
        }
        let complete = kept == found.total && !line_cut && !found.uncounted;
        Ok(facts(Answer::new(text))
            .fact("lines", found.total)
            .fact("first", offset)
            .fact("shown", kept)
            .fact("complete", complete)
            .cut(kept, found.total, "lines"))
    }
}
