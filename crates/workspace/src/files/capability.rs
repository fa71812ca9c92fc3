//! The capability *files*.

use super::Files;
use super::change::replaceable;
use super::find::Glob;
use super::list::levels;
use super::read::from_one;
use super::search::compiled;
use crate::bind::{blocking, bounds, tool_error};
use crate::error::WorkspaceError;
use placet_core::{BoxFuture, Effect};
use placet_tools::{PlainCapability, ToolContext, ToolError, capability, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const READING: &str = "Files are those of one folder. Paths are relative to it, with `/` between names; `.` is the folder \
                       itself. Look before you conclude: list or find, then read. Where an answer says that something was \
                       cut, the rest is there to be asked for.";

const WRITING: &str = " Files can be changed: read a file before you edit it, and prefer an edit to writing it anew.";

#[derive(Deserialize, JsonSchema)]
struct List {
    /// The directory to list. The folder itself if left out.
    path: Option<String>,
    /// How many levels to show, from 1 to 10. 1 if left out.
    #[schemars(range(min = 1, max = 10))]
    depth: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
struct Find {
    /// Which files: a name such as `*.md`, or with a slash a path such as `src/**/*.rs`.
    glob: String,
    /// The directory to look in. The whole folder if left out.
    path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// A regular expression, held against each line. Case counts; begin with `(?i)` to ignore it.
    pattern: String,
    /// The directory or file to search. The whole folder if left out.
    path: Option<String>,
    /// Only files of such a name or path, as in `*.rs`.
    glob: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Read {
    /// The file to read.
    path: String,
    /// The first line to read, counted from 1. 1 if left out.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// How many lines to read. 2000 if left out.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

#[derive(Clone, Deserialize, JsonSchema)]
struct Write {
    /// The file to write. Its directories are made where they are missing.
    path: String,
    /// The whole new content.
    content: String,
}

#[derive(Clone, Deserialize, JsonSchema)]
struct Edit {
    /// The file to edit.
    path: String,
    /// The text to replace, exactly as it stands in the file, with enough around it to be there only once.
    old: String,
    /// The text to put in its place. May be empty.
    new: String,
}

#[derive(Clone, Deserialize, JsonSchema)]
struct Delete {
    /// The file, link or empty directory to delete.
    path: String,
}

impl Files {
    /// The folder as the capability `files`: the tools `list`, `find`, `search` and `read`, and where it is writable `write`,
    /// `edit` and `delete`.
    ///
    /// Writing the same content again, and deleting what is gone already, change nothing more: they are *idempotent*. An
    /// edit is *once*, since one whose new text holds the old one would be done a second time.
    #[must_use]
    pub fn capability(self: &Arc<Self>) -> PlainCapability {
        let instructions = if self.is_writable() { [READING, WRITING].concat() } else { READING.to_owned() };
        let reading = self.add_reading(capability("files").instructions(instructions));
        if self.is_writable() { self.add_writing(reading) } else { reading }
    }

    /// A rule of a tool's arguments, asked of this folder's name and options, not of what is in it.
    fn rule<T: 'static>(
        self: &Arc<Self>,
        rule: impl Fn(&Files, &T) -> Result<(), WorkspaceError> + Send + Sync + 'static,
    ) -> impl Fn(&T) -> Result<(), ToolError> + Send + Sync + 'static {
        let files = self.clone();
        move |arguments| rule(&files, arguments).map_err(|error| tool_error(&error))
    }

    fn add_reading(self: &Arc<Self>, to: PlainCapability) -> PlainCapability {
        let files = self.clone();
        let list = tool(
            "list",
            "Lists a directory: one entry a line, sorted, directories with `/` at their end, links with `->`. All entries of \
             the directory are shown; deeper levels leave out what is inside hidden or ignored directories.",
            move |args: List, cx| {
                let files = files.clone();
                blocking(cx, move |stop| files.list(args.path.as_deref(), args.depth, stop))
            },
        );
        let files = self.clone();
        let find = tool(
            "find",
            "Finds files by name or path: one path a line. Hidden files (whose names begin with a dot) and those named in \
             .gitignore are left out, unless `path` or `glob` names the hidden part.",
            move |args: Find, cx| {
                let files = files.clone();
                blocking(cx, move |stop| files.find(&args.glob, args.path.as_deref(), stop))
            },
        );
        let files = self.clone();
        let search = tool(
            "search",
            "Searches the lines of files with a regular expression: one match a line, as path:line:text. Hidden files, those \
             named in .gitignore and binary ones are left out, unless `path` names the file itself.",
            move |args: Search, cx| {
                let files = files.clone();
                blocking(cx, move |stop| files.search(&args.pattern, args.path.as_deref(), args.glob.as_deref(), stop))
            },
        );
        let files = self.clone();
        let read = tool(
            "read",
            "Reads a text file. A file that fits is answered as it is; where lines were left out, a last line in brackets \
             says which were shown.",
            move |args: Read, cx| {
                let files = files.clone();
                blocking(cx, move |stop| files.read(&args.path, args.offset, args.limit, stop))
            },
        );
        // What is wrong by the arguments alone is told before anything starts.
        let list = list.domain(self.rule(|files, args: &List| {
            levels(args.depth)?;
            files.named(args.path.as_deref().unwrap_or(".")).map(drop)
        }));
        let find = find.domain(self.rule(|files, args: &Find| {
            Glob::parse(&args.glob)?;
            files.named(args.path.as_deref().unwrap_or(".")).map(drop)
        }));
        let search = search.domain(self.rule(|files, args: &Search| {
            compiled(&args.pattern)?;
            args.glob.as_deref().map(Glob::parse).transpose()?;
            files.named(args.path.as_deref().unwrap_or(".")).map(drop)
        }));
        let read = read.domain(self.rule(|files, args: &Read| {
            from_one("offset", args.offset)?;
            from_one("limit", args.limit)?;
            files.named(&args.path).map(drop)
        }));
        to.tool(list.bounds(bounds()))
            .tool(find.bounds(bounds()))
            .tool(search.bounds(bounds()))
            .tool(read.bounds(bounds()))
    }

    fn add_writing(self: &Arc<Self>, to: PlainCapability) -> PlainCapability {
        let files = self.clone();
        let write = tool("write", "Writes a file whole, in place of what it held.", move |args: Write, cx| {
            let files = files.clone();
            blocking(cx, move |stop| files.write(&args.path, &args.content, stop))
        });
        let files = self.clone();
        let edit = tool(
            "edit",
            "Replaces one piece of text in a file. The old text must be there exactly once, else nothing is changed and the \
             answer says how often it is there.",
            move |args: Edit, cx| {
                let files = files.clone();
                blocking(cx, move |stop| files.edit(&args.path, &args.old, &args.new, stop))
            },
        );
        let files = self.clone();
        let delete = tool(
            "delete",
            "Deletes one file, link or empty directory. A link is deleted itself, never what it leads to.",
            move |args: Delete, cx| {
                let files = files.clone();
                blocking(cx, move |stop| files.delete(&args.path, stop))
            },
        );
        let write = write.domain(self.rule(|files, args: &Write| {
            files.named_to_change(&args.path)?;
            files.bounded("the content", args.content.len() as u64)
        }));
        let edit = edit.domain(self.rule(|files, args: &Edit| {
            files.named_to_change(&args.path)?;
            replaceable(&args.old, &args.new)
        }));
        let delete = delete.domain(self.rule(|files, args: &Delete| files.named_to_change(&args.path)));
        let write = write.current_revision(self.version(|args: Write| args.path));
        let edit = edit.current_revision(self.version(|args: Edit| args.path));
        let delete = delete.current_revision(self.version(|args: Delete| args.path));
        to.tool(write.effect(Effect::Idempotent))
            .tool(edit.effect(Effect::Once))
            .tool(delete.effect(Effect::Idempotent))
    }

    /// What tells the state of the file that a call would change, so that nothing is done to it for which somebody was asked
    /// while it was another.
    fn version<T: 'static>(
        self: &Arc<Self>,
        path: impl Fn(T) -> String + Send + Sync + 'static,
    ) -> impl Fn(T, ToolContext) -> BoxFuture<'static, Result<Option<String>, ToolError>> + Send + Sync + 'static {
        let files = self.clone();
        move |args, cx| {
            let (files, path) = (files.clone(), path(args));
            Box::pin(async move {
                let (tell, told) = tokio::sync::oneshot::channel();
                let look = move || {
                    let _ = tell.send(files.revision(&path));
                };
                drop(cx.env().tasks().spawn_blocking("file operation", Box::new(look)));
                Ok(told.await.ok().flatten())
            })
        }
    }
}
