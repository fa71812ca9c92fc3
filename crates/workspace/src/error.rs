//! What can go wrong with files, commands and expressions, and how it is answered.

use placet_core::outcome::{Reason, Status};
use placet_core::{Diagnose, ErrorKind};
use std::io;
use std::path::PathBuf;

/// What went wrong. [`WorkspaceError::status`] says who can do something about it; the text is fit for a model and names
/// only paths inside the folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The folder cannot be opened.
    #[error("the folder {} cannot be opened: {source}", path.display())]
    Folder {
        /// The folder that was asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Options contradict each other or lie outside their bounds.
    #[error("{0}")]
    Options(String),
    /// The text is no path inside the folder.
    #[error("`{path}` is no path inside the folder: {problem}")]
    BadPath {
        /// What was given.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A link on the way leads out of the folder.
    #[error("`{path}` leads out of the folder through the link `{link}`, which is not followed")]
    Leaves {
        /// What was given.
        path: String,
        /// The link that leads out.
        link: String,
    },
    /// Links lead to links, without an end.
    #[error("`{path}` leads through too many links")]
    TooManyLinks {
        /// What was given.
        path: String,
    },
    /// The path is one of credentials.
    #[error("`{path}` is closed: such files hold {why}. Only the operator could hand them over; go on without it")]
    Credentials {
        /// What was given.
        path: String,
        /// What such files hold.
        why: &'static str,
    },
    /// The path belongs to a repository's own files.
    #[error(
        "`{path}` belongs to a Git repository's own files, which are not changed here: a setting or hook in them would \
         run programs on the next `git` command. Change the files of the project instead, or ask the operator to do it"
    )]
    Protected {
        /// What was given.
        path: String,
    },
    /// Nothing is there.
    #[error("there is no `{path}`; list its directory to see what there is")]
    NotFound {
        /// What was given.
        path: String,
    },
    /// It is there, but something else was expected.
    #[error("`{path}` is {found}, not {expected}")]
    WrongKind {
        /// What was given.
        path: String,
        /// What is there.
        found: &'static str,
        /// What was expected.
        expected: &'static str,
    },
    /// A link where only the file itself may be changed.
    #[error("`{path}` is a link, and links are not written through; name the file that it leads to")]
    IsLink {
        /// What was given.
        path: String,
    },
    /// More than is allowed.
    #[error("{what} is {size} bytes, more than the {limit} that are allowed")]
    TooLarge {
        /// What is too large.
        what: String,
        /// How large it is, in bytes.
        size: u64,
        /// How large it may be, in bytes.
        limit: u64,
    },
    /// The file is no text.
    #[error("`{path}` is binary ({size} bytes), and only text can be edited")]
    NotText {
        /// What was given.
        path: String,
        /// Its size in bytes.
        size: u64,
    },
    /// A number outside its range.
    #[error("`{argument}` is {found}, but must be {expected}")]
    OutOfRange {
        /// Which argument.
        argument: &'static str,
        /// What arrived.
        found: u64,
        /// What is allowed.
        expected: &'static str,
    },
    /// A pattern or glob that cannot be read.
    #[error("the {what} `{pattern}` cannot be read: {problem}")]
    BadPattern {
        /// `pattern` or `glob`.
        what: &'static str,
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The text to replace is not there.
    #[error(
        "`{path}` does not hold the text of `old`{hint}; read the file and give the text exactly as it stands there"
    )]
    EditNotFound {
        /// The file.
        path: String,
        /// What comes near.
        hint: &'static str,
    },
    /// The text to replace is there more than once.
    #[error(
        "`{path}` holds the text of `old` {count} times (lines {lines}); give more of the text around the one that is meant"
    )]
    EditAmbiguous {
        /// The file.
        path: String,
        /// How often it is there.
        count: usize,
        /// On which lines the first few begin.
        lines: String,
    },
    /// An edit that would change nothing, or says nothing.
    #[error("{0}")]
    EditEmpty(&'static str),
    /// A directory with something in it.
    #[error("`{path}` is a directory that holds {entries} entries; only files and empty directories are deleted")]
    NotEmpty {
        /// The directory.
        path: String,
        /// How many entries it has.
        entries: u64,
    },
    /// Somebody else changed it meanwhile.
    #[error("`{path}` was changed by somebody else meanwhile; {state}. Read it again before you decide")]
    Changed {
        /// The file.
        path: String,
        /// What is there now.
        state: &'static str,
    },
    /// The folder was granted for reading only.
    #[error("the folder was granted for reading only; nothing in it can be changed")]
    ReadOnly,
    /// The command's arguments cannot be used.
    #[error("{0}")]
    BadCommand(String),
    /// The command is not allowed.
    #[error("this command is not allowed: {0}")]
    CommandDenied(String),
    /// The expression cannot be evaluated.
    #[error("column {column}: {problem}")]
    Expression {
        /// Where, in characters from 1.
        column: usize,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The caller wants it no more.
    #[error("stopped, as the caller asked")]
    Cancelled,
    /// The system refused.
    #[error("`{path}`: {}", says(.source))]
    Io {
        /// What was worked on.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The system's words without its number.
fn says(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

impl Diagnose for WorkspaceError {
    fn kind(&self) -> ErrorKind {
        match self {
            WorkspaceError::Folder { .. } | WorkspaceError::Options(_) => ErrorKind::Wiring,
            WorkspaceError::Cancelled => ErrorKind::Cancelled,
            WorkspaceError::NotFound { .. } => ErrorKind::NotFound,
            WorkspaceError::Changed { .. } => ErrorKind::Conflict,
            WorkspaceError::Io { .. } => ErrorKind::Unavailable,
            error if error.status() == Status::Refused => ErrorKind::Permission,
            _ => ErrorKind::InvalidRequest,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            WorkspaceError::Folder { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => "name a folder that exists",
                io::ErrorKind::NotADirectory => "name the folder that holds the file",
                io::ErrorKind::PermissionDenied => "let this user read the folder, or name another one",
                _ => "name a folder that can be read",
            },
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

impl WorkspaceError {
    pub(crate) fn io(path: impl Into<String>, source: impl Into<io::Error>) -> Self {
        WorkspaceError::Io { path: path.into(), source: source.into() }
    }

    /// How a call that met it ends.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            WorkspaceError::Leaves { .. }
            | WorkspaceError::Credentials { .. }
            | WorkspaceError::Protected { .. }
            | WorkspaceError::ReadOnly
            | WorkspaceError::CommandDenied(_) => Status::Refused,
            WorkspaceError::Changed { .. } => Status::Conflict,
            WorkspaceError::Folder { .. }
            | WorkspaceError::Options(_)
            | WorkspaceError::Cancelled
            | WorkspaceError::Io { .. } => Status::Failed,
            _ => Status::Mistaken,
        }
    }

    /// The reason for code and journal.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match (self.status(), self) {
            (_, WorkspaceError::Cancelled) => Reason::Cancelled,
            (_, WorkspaceError::NotFound { .. }) => Reason::from("not_found"),
            (_, WorkspaceError::Leaves { .. }) => Reason::from("outside"),
            (_, WorkspaceError::Credentials { .. }) => Reason::from("credentials"),
            (_, WorkspaceError::Protected { .. }) => Reason::from("protected"),
            (_, WorkspaceError::CommandDenied(_) | WorkspaceError::ReadOnly) => Reason::Denied,
            (Status::Conflict, _) => Reason::from("changed"),
            (Status::Failed, _) => Reason::ToolError,
            _ => Reason::InvalidArguments,
        }
    }
}
