//! The phrases that are understood, as tables.

use super::roles::Role;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wish {
    /// Files by their number of lines.
    Longest,
    /// How many lines.
    CountLines,
    /// How many files.
    CountFiles,
    /// How many matching lines.
    CountMatches,
    /// Which files contain a text.
    FilesWith,
    /// Files by name.
    Find,
    /// What is in a directory.
    List,
    /// The text of a file.
    Read,
    /// Lines with a text.
    Search,
    /// Write a file.
    Write,
    /// Change a file.
    Edit,
    /// Delete a file.
    Delete,
    /// Run a program.
    Run,
    /// A number.
    Calculate,
    /// What it is and can do.
    Help,
}

/// A row of the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What is wanted.
    pub wish: Wish,
    /// What is done, after "I can".
    pub does: &'static str,
    /// The forms in which it can be said.
    pub forms: &'static [&'static str],
    /// One that can be typed as it is.
    pub example: &'static str,
    /// The kinds of tools that it takes.
    pub needs: &'static [Role],
}

/// The phrases, in the order in which they are tried.
pub const GRAMMAR: &[Row] = &[
    Row {
        wish: Wish::Help,
        does: "say what I am and what I can do",
        forms: &["help [me]", "what can you do", "who/what are you", "hello/hi/hey [there]"],
        example: "What can you do?",
        needs: &[],
    },
    Row {
        wish: Wish::Longest,
        does: "name the longest files, by their lines",
        forms: &[
            "which [of] [the] [KIND] file/files is/are [the] [N] longest/largest/biggest [N] [ones] [in/under PATH]",
            "which/what is/are [the] [N] longest/largest/biggest [KIND] file/files [in/under PATH]",
            "which [KIND] file/files has/have [the] most lines [in/under PATH]",
            "show/list/find/name/give [me] [the] [N] longest/largest/biggest [KIND] file/files [in/under PATH]",
            "[the] [N] longest/largest/biggest [KIND] file/files [in/under PATH]",
        ],
        example: "Which Rust files are the longest?",
        needs: &[Role::Find, Role::Read],
    },
    Row {
        wish: Wish::CountLines,
        does: "count the lines of a file or of several",
        forms: &[
            "count [the/all] lines in/of PLACE",
            "how many lines [of code] are [there] in/under PLACE",
            "how many lines in/of PLACE",
            "how many lines does/do/has/have PLACE [have/hold/contain]",
            "how many lines of KIND [code] [are] [there] [in/under PATH]",
            "how long is FILE",
        ],
        example: "count the lines of *.md",
        needs: &[Role::Find, Role::Read],
    },
    Row {
        wish: Wish::CountFiles,
        does: "count files",
        forms: &[
            "how many [KIND] files [are] [there] [in/under PATH]",
            "how many [KIND] files do/can i/we/you have/see [in/under PATH]",
            "how many [KIND] files does PATH have/hold/contain",
            "how many files match NAME [in/under PATH]",
            "count [the/all] [the] [KIND] files [in/under PATH]",
        ],
        example: "How many .rs files are there in src?",
        needs: &[Role::Find],
    },
    Row {
        wish: Wish::CountMatches,
        does: "count the lines that contain a text",
        forms: &[
            "how often does/do/is/are TEXT occur/appear/mentioned/used [in/under PLACE]",
            "how many times does/do/is/are TEXT occur/appear/mentioned/used [in/under PLACE]",
            "how many lines contain/mention/hold TEXT [in/under PLACE]",
            "count [the/all] [the] occurrences/matches of TEXT [in/under PLACE]",
        ],
        example: "How often does 'unsafe' occur in Rust files?",
        needs: &[Role::Search],
    },
    Row {
        wish: Wish::FilesWith,
        does: "name the files that contain a text",
        forms: &[
            "which [KIND] file/files contain/contains/mention/mentions/use/uses TEXT [in/under PLACE]",
            "find/list/show [me] [all] [the] [KIND] file/files containing/mentioning/using/with TEXT [in/under PLACE]",
        ],
        example: "Which .md files mention 'licence'?",
        needs: &[Role::Search],
    },
    Row {
        wish: Wish::Find,
        does: "find files by their names",
        forms: &[
            "find/list/show [me] [all] [the] files [matching/named/called/like] NAME [in/under PATH]",
            "find [me] [the] file [matching/named/called/like] NAME [in/under PATH]",
            "find/list/show [me] [all] [the] KIND files [in/under PATH]",
            "find/list/show [me] all [the] files [in/under PATH]",
            "which/what files match NAME [in/under PATH]",
            "which/what KIND files are there [in/under PATH]",
            "find NAME [in/under PATH]",
            "where is [the] [file] NAME",
        ],
        example: "find **/*.toml",
        needs: &[Role::Find],
    },
    Row {
        wish: Wish::Search,
        does: "search the lines of files",
        forms: &[
            "search PLACE for TEXT",
            "search/look/grep [for] TEXT [in/under PLACE]",
            "find [the] text/word/string/phrase TEXT [in/under PLACE]",
            "find TEXT in/under PLACE",
            "where is TEXT used/mentioned/defined [in/under PLACE]",
        ],
        example: "search for TODO in src",
        needs: &[Role::Search],
    },
    Row {
        wish: Wish::Read,
        does: "read a file",
        forms: &[
            "show/print/read [me] [the] first N lines of FILE",
            "show/print/read [me] [the] lines N to/through N of FILE",
            "show/print/read [me] [the] content/contents/text of FILE",
            "what does FILE say/contain/hold",
            "what is in [the] file FILE",
            "read/cat/print/show/open/display [me] FILE",
        ],
        example: "read README.md",
        needs: &[Role::Read],
    },
    Row {
        wish: Wish::List,
        does: "list a directory",
        forms: &[
            "list/show [me] [the] file/files/entries/content/contents/directory/folder [in/of/under] [PATH]",
            "what/which files are here/there [in/under PATH]",
            "what is in/under PATH",
            "what is here/there",
            "list/ls/dir [PATH]",
        ],
        example: "list the files in src",
        needs: &[Role::List],
    },
    Row {
        wish: Wish::Write,
        does: "write a file",
        forms: &[
            "write/save/put TEXT to/into/in/as FILE",
            "create/make/write [a/the] [new] [file] FILE with [the] [content/text] TEXT",
        ],
        example: "write 'hello' to notes/hello.txt",
        needs: &[Role::Write],
    },
    Row {
        wish: Wish::Edit,
        does: "replace a text in a file",
        forms: &["replace TEXT with/by TEXT in FILE", "change TEXT to/into TEXT in FILE"],
        example: "replace 'hello' with 'goodbye' in notes/hello.txt",
        needs: &[Role::Edit],
    },
    Row {
        wish: Wish::Delete,
        does: "delete a file",
        forms: &["delete/remove FILE"],
        example: "delete notes/hello.txt",
        needs: &[Role::Delete],
    },
    Row {
        wish: Wish::Run,
        does: "run a program",
        forms: &["run/execute [the] [command/program] COMMAND"],
        example: "run git status",
        needs: &[Role::Command],
    },
    Row {
        wish: Wish::Calculate,
        does: "calculate",
        forms: &[
            "what is [the] [result/value] [of] EXPRESSION",
            "how much is EXPRESSION",
            "calculate/compute/evaluate EXPRESSION",
            "EXPRESSION",
        ],
        example: "What is 6 * 7?",
        needs: &[Role::Calculator],
    },
];

/// A place in a form that takes what the user puts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A sort of files.
    Kind,
    /// A name or glob.
    Name,
    /// A directory.
    Path,
    /// A file.
    File,
    /// A file, a directory, a glob or a sort of files.
    Place,
    /// A number.
    Number,
    /// A text.
    Text,
    /// Something to calculate.
    Expression,
    /// A program and its arguments.
    Command,
}

/// The slots: how they are written in a form, and what stands for them.
pub const SLOTS: &[(Slot, &str, &str)] = &[
    (Slot::Kind, "KIND", "an extension (`.rs`, `*.rs`, `rs`) or a word of the next table"),
    (Slot::Name, "NAME", "a file's name with a dot in it, or a glob; in quotes where it holds spaces"),
    (Slot::Path, "PATH", "a directory: `src`, `the src folder`, `this folder`"),
    (Slot::File, "FILE", "a file: `src/main.rs`, `the file 'two words.txt'`"),
    (
        Slot::Place,
        "PLACE",
        "a file, a directory, a glob, or files of a kind: `src`, `*.rs`, `all Rust files`, `Rust files in src`",
    ),
    (Slot::Number, "N", "a number: `5`, `five`"),
    (Slot::Text, "TEXT", "a text, in quotes where it holds words of the form; between slashes a regular expression"),
    (Slot::Expression, "EXPRESSION", "numbers, operators, parentheses and functions: `6 * 7`, `2 plus 3`, `sqrt(2)`"),
    (Slot::Command, "COMMAND", "a program and its arguments, in quotes where they hold spaces"),
];

/// Words for sorts of files, and the extensions they stand for.
pub const KINDS: &[(&str, &[&str])] = &[
    ("Rust", &["rs"]),
    ("Python", &["py"]),
    ("JavaScript", &["js", "mjs", "cjs"]),
    ("TypeScript", &["ts", "tsx"]),
    ("Go", &["go"]),
    ("Java", &["java"]),
    ("Kotlin", &["kt"]),
    ("Swift", &["swift"]),
    ("Ruby", &["rb"]),
    ("C", &["c", "h"]),
    ("C++", &["cpp", "cc", "hpp"]),
    ("Shell", &["sh"]),
    ("SQL", &["sql"]),
    ("HTML", &["html"]),
    ("CSS", &["css"]),
    ("Markdown", &["md"]),
    ("Text", &["txt"]),
    ("TOML", &["toml"]),
    ("YAML", &["yaml", "yml"]),
    ("JSON", &["json"]),
    ("XML", &["xml"]),
    ("CSV", &["csv"]),
    ("PDF", &["pdf"]),
    ("PNG", &["png"]),
    ("SVG", &["svg"]),
    ("Lock", &["lock"]),
    ("Log", &["log"]),
];

/// Words at the beginning that change nothing.
pub const BEFORE: &[&str] = &[
    "please",
    "can you",
    "could you",
    "would you",
    "will you",
    "tell me",
    "i want to know",
    "i want you to",
    "i would like you to",
    "and",
    "now",
    "then",
    "so",
    "ok",
    "okay",
    "hey",
    "hello",
    "hi",
];

/// Words at the end that change nothing.
pub const AFTER: &[&str] = &["please", "thanks", "thank you", "for me", "now", "again"];

/// The tables as Markdown, as they stand in the documentation of the module.
#[cfg(test)]
pub(super) fn tables() -> String {
    use super::roles::{Kind, SHAPES};
    let mut text = String::from("# What it understands\n\n");
    text.push_str("| it can | said as | needs a tool that |\n|---|---|---|\n");
    for row in GRAMMAR {
        let forms: Vec<String> = row.forms.iter().map(|form| format!("`{form}`")).collect();
        let needs: Vec<&str> = row.needs.iter().map(|role| role.shape().does).collect();
        text.push_str(&format!(
            "| {}, as in “{}” | {} | {} |\n",
            row.does,
            row.example,
            forms.join("<br>"),
            needs.join("; and one that ")
        ));
    }
    text.push_str("\nIn a form `a/b` is one of two words, `[…]` may be left out, and words in capitals are slots:\n\n");
    text.push_str("| slot | takes |\n|---|---|\n");
    for (_, name, takes) in SLOTS {
        text.push_str(&format!("| `{name}` | {takes} |\n"));
    }
    text.push_str("\nSorts of files:\n\n| word | extensions |\n|---|---|\n");
    for (word, extensions) in KINDS {
        let extensions: Vec<String> = extensions.iter().map(|it| format!("`.{it}`")).collect();
        text.push_str(&format!("| {word} | {} |\n", extensions.join(", ")));
    }
    let quoted = |words: &[&str]| words.iter().map(|word| format!("“{word}”")).collect::<Vec<_>>().join(", ");
    text.push_str(&format!(
        "\nCase and punctuation do not matter. These words are passed over at the beginning: {}; and these at the end: {}.\n",
        quoted(BEFORE),
        quoted(AFTER)
    ));
    text.push_str("\n# How it recognises tools\n\n| a tool that | requires | may have |\n|---|---|---|\n");
    for shape in SHAPES {
        let named = |parameters: &[super::roles::Parameter]| {
            let one = |it: &super::roles::Parameter| {
                let kind = match it.kind {
                    Kind::Text => "string",
                    Kind::Count => "integer",
                    Kind::Texts => "[string]",
                };
                format!("`{}: {kind}`", it.name)
            };
            if parameters.is_empty() {
                "nothing".to_owned()
            } else {
                parameters.iter().map(one).collect::<Vec<_>>().join(", ")
            }
        };
        let telling: Vec<String> = shape.telling.iter().map(|it| format!("`{it}`")).collect();
        let telling = if telling.is_empty() { String::new() } else { format!("; has {}", telling.join(" or ")) };
        let more = if shape.closed { "; nothing else" } else { "" };
        text.push_str(&format!(
            "| {} | {} | {}{telling}{more} |\n",
            shape.does,
            named(shape.required),
            named(shape.optional)
        ));
    }
    text
}
