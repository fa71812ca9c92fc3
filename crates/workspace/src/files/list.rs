//! What is in a directory.

use super::Files;
use super::path::{Inside, shown};
use super::walk::{self, Rules, Visit};
use crate::answer::{Answer, counted};
use crate::error::WorkspaceError;
use rustix::fs::FileType;
use std::ops::ControlFlow;
use tokio_util::sync::CancellationToken;

/// The deepest list.
const DEEPEST: u64 = 10;
/// How far counting goes on beyond what is shown.
const MOST_COUNTED: u64 = 100_000;

/// How many levels are meant.
pub(super) fn levels(depth: Option<u64>) -> Result<u64, WorkspaceError> {
    match depth.unwrap_or(1) {
        depth if (1..=DEEPEST).contains(&depth) => Ok(depth),
        found => Err(WorkspaceError::OutOfRange { argument: "depth", found, expected: "from 1 to 10" }),
    }
}

impl Files {
    /// Lists the directory at `path` (the folder itself where there is none), `depth` levels deep (1 where there is
    /// none): one entry a line, sorted, directories with `/` at their end, paths relative to the listed directory.
    ///
    /// # Errors
    /// As the path is missing, outside, closed or no directory.
    pub fn list(
        &self,
        path: Option<&str>,
        depth: Option<u64>,
        stop: &CancellationToken,
    ) -> Result<Answer, WorkspaceError> {
        let given = Inside::parse(path.unwrap_or("."))?;
        let depth = levels(depth)?;
        let (dir, real) = self.root.directory(&given, self.credentials())?;
        let most = self.options.limits.entries;
        let (mut lines, mut total, mut counting) = (Vec::new(), 0_u64, true);
        // The listed directory shows everything; what is hidden or ignored is not descended into.
        let rules = Rules { hidden: false, depth: usize::try_from(depth).unwrap_or(1), whole_start: true };
        let above = real.names().len();
        let walked = walk::walk(&self.root, dir, &real, rules, stop, &mut |visit| {
            total += 1;
            if lines.len() < most {
                lines.push(self.line(visit, above));
            }
            counting = total < MOST_COUNTED;
            if counting { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let shown = lines.len() as u64;
        let mut text = lines.join("\n");
        if total == 0 {
            text = "(empty directory)".to_owned();
        }
        let more = if walked.incomplete || !counting { "more than " } else { "" };
        if shown < total {
            text.push_str(&format!("\n({shown} of {more}{} shown)", counted(total, "entry", "entries")));
        }
        if walked.unreadable > 0 {
            text.push_str(&format!("\n({} could not be read)", counted(walked.unreadable, "directory", "directories")));
        }
        Ok(Answer::new(text)
            .of_files()
            .fact("entries", total)
            .fact("shown", shown)
            .fact("complete", shown == total && more.is_empty())
            .cut(shown, total, "entries"))
    }

    fn line(&self, visit: &Visit<'_>, above: usize) -> String {
        let relative = Inside::from_names(visit.path.names()[above..].to_vec());
        let mut line = relative.shown();
        match visit.entry.kind {
            FileType::RegularFile => {}
            FileType::Directory => line.push('/'),
            FileType::Symlink => line.push_str(&self.link(visit)),
            kind => line.push_str(&format!(" ({})", super::root::kind_words(kind))),
        }
        if self.is_closed(visit.path) {
            line.push_str(" (closed: credentials)");
        }
        line
    }

    /// Where a link leads, as far as that is inside.
    fn link(&self, visit: &Visit<'_>) -> String {
        match self.root.resolve(visit.path, true) {
            Ok(resolved) if resolved.stat.is_some() => {
                let end = if resolved.stat.is_some_and(|stat| super::root::is_directory(&stat)) { "/" } else { "" };
                match resolved.path.names().last() {
                    Some(_) => format!(" -> {}{end}", resolved.path.shown()),
                    None => " -> ./".to_owned(),
                }
            }
            Err(WorkspaceError::Leaves { .. }) => " -> (outside the folder, not followed)".to_owned(),
            _ => match rustix::fs::readlinkat(visit.dir, &visit.entry.name, Vec::new()) {
                Ok(target) => format!(" -> {} (broken)", shown(std::ffi::OsStr::new(&*target.to_string_lossy()))),
                Err(_) => " -> (broken)".to_owned(),
            },
        }
    }
}
