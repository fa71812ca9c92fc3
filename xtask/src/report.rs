//! What a check finds: where, what is wrong, what to do.

use std::fmt;

/// Something a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The file, with a line where there is one; or the step that failed.
    pub(crate) place: String,
    /// What is wrong.
    pub(crate) wrong: String,
    /// What to do about it.
    pub(crate) remedy: String,
    /// Whether it only deserves a look, and fails nothing.
    pub(crate) warning: bool,
}

impl Problem {
    /// A problem that fails the check.
    pub(crate) fn new(place: impl fmt::Display, wrong: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Problem { place: place.to_string(), wrong: wrong.to_string(), remedy: remedy.to_string(), warning: false }
    }

    /// Something that deserves a look.
    pub(crate) fn warning(place: impl fmt::Display, wrong: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Problem { warning: true, ..Problem::new(place, wrong, remedy) }
    }

    /// Whether any of `found` fails the check.
    pub(crate) fn any(found: &[Problem]) -> bool {
        found.iter().any(|problem| !problem.warning)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning" } else { "error" };
        write!(f, "{kind}: {}: {}\n  do: {}", self.place, self.wrong, self.remedy)
    }
}

/// Prints what a check found to standard error, and a closing line.
pub(crate) fn print(check: &str, found: &[Problem]) {
    for problem in found {
        eprintln!("{problem}");
    }
    let errors = found.iter().filter(|problem| !problem.warning).count();
    if errors > 0 {
        eprintln!("{check}: {errors} found");
    } else {
        eprintln!("{check}: ok");
    }
}
