#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::super::grammar::Wish;
use super::*;
use proptest::prelude::*;

fn heard(said: &str) -> Option<(Wish, Vec<Filled>)> {
    understand(said).map(|phrase| (phrase.row.wish, phrase.filled))
}

fn sort(called: &str, glob: &str) -> Sort {
    Sort { called: called.into(), glob: glob.into() }
}

fn rust() -> Sort {
    sort("Rust", "**/*.rs")
}

#[test]
fn forms_are_whole_and_every_example_is_understood_as_its_own() {
    for row in GRAMMAR {
        assert_eq!(understand(row.example).map(|phrase| phrase.row), Some(row), "{}", row.example);
        for form in row.forms {
            assert_eq!(form.matches('[').count(), form.matches(']').count(), "{form}");
            for node in nodes(form).iter().flat_map(|node| match node {
                Node::Optional(group) => group.clone(),
                one => vec![one.clone()],
            }) {
                if let Node::Words(words) = node {
                    assert!(words.iter().all(|word| *word == word.to_lowercase()), "{form}: an unknown slot");
                }
            }
        }
    }
}

#[test]
fn one_wish_has_many_phrasings() {
    use Filled::{Kind, Number, Path};
    for (said, expected) in [
        ("Which Rust files are the longest?", vec![Kind(rust())]),
        ("which rust files are longest", vec![Kind(rust())]),
        ("WHICH .RS FILE IS THE BIGGEST?!", vec![Kind(sort(".rs", "**/*.rs"))]),
        ("which files are the 5 largest?", vec![Number(5)]),
        ("Which are the three longest Rust files in src?", vec![Number(3), Kind(rust()), Path("src".into())]),
        (
            "Please, can you show me the 10 longest rs files under crates/core.",
            vec![Number(10), Kind(rust()), Path("crates/core".into())],
        ),
        ("What's the largest Python file?", vec![Kind(sort("Python", "**/*.py"))]),
        ("the longest file", vec![]),
        ("which C++ files are the longest", vec![Kind(sort("C++", "**/*.{cpp,cc,hpp}"))]),
        ("which file has the most lines in the src folder, please?", vec![Path("src".into())]),
    ] {
        assert_eq!(heard(said), Some((Wish::Longest, expected)), "{said}");
    }
}

#[test]
fn what_is_said_is_what_is_understood() {
    use Filled::{Command, Expression, File, Kind, Name, Number, Path, Place as At, Text};
    let place = |path: Option<&str>, sort: Option<Sort>| At(Place { path: path.map(str::to_owned), sort });
    let text = |text: &str| Text(text.into());
    for (said, wish, expected) in [
        ("list the files", Wish::List, vec![]),
        ("List files in src.", Wish::List, vec![Path("src".into())]),
        ("what files are there in 'two words'?", Wish::List, vec![Path("two words".into())]),
        ("ls", Wish::List, vec![]),
        ("What is in this folder?", Wish::List, vec![Path(".".into())]),
        ("list the files in .", Wish::List, vec![Path(".".into())]),
        ("list all files", Wish::Find, vec![]),
        ("find *.toml", Wish::Find, vec![Name("*.toml".into())]),
        (
            "Find all files matching src/**/*.rs in crates",
            Wish::Find,
            vec![Name("src/**/*.rs".into()), Path("crates".into())],
        ),
        ("list the Markdown files", Wish::Find, vec![Kind(sort("Markdown", "**/*.md"))]),
        ("where is Cargo.toml?", Wish::Find, vec![Name("Cargo.toml".into())]),
        ("how many files are there?", Wish::CountFiles, vec![]),
        ("How many .rs files are in src?", Wish::CountFiles, vec![Kind(sort(".rs", "**/*.rs")), Path("src".into())]),
        ("count all YAML files", Wish::CountFiles, vec![Kind(sort("YAML", "**/*.{yaml,yml}"))]),
        ("how many files match *.txt", Wish::CountFiles, vec![Name("*.txt".into())]),
        ("count lines in README.md", Wish::CountLines, vec![place(Some("README.md"), None)]),
        ("how many lines does src/main.rs have?", Wish::CountLines, vec![place(Some("src/main.rs"), None)]),
        ("count the lines of *.md", Wish::CountLines, vec![place(None, Some(sort("`*.md`", "*.md")))]),
        ("how many lines are in all the Rust files in src", Wish::CountLines, vec![place(Some("src"), Some(rust()))]),
        ("how many lines of Rust are there", Wish::CountLines, vec![Kind(rust())]),
        ("how long is README", Wish::CountLines, vec![File("README".into())]),
        ("read README.md", Wish::Read, vec![File("README.md".into())]),
        ("show me the file \"a b.txt\"", Wish::Read, vec![File("a b.txt".into())]),
        ("show the first 5 lines of x", Wish::Read, vec![Number(5), File("x".into())]),
        ("print lines 3 to 9 of x.rs", Wish::Read, vec![Number(3), Number(9), File("x.rs".into())]),
        ("what does notes/a.md say?", Wish::Read, vec![File("notes/a.md".into())]),
        ("search for TODO: in *.rs", Wish::Search, vec![text("TODO:"), place(None, Some(sort("`*.rs`", "*.rs")))]),
        ("search for TODO", Wish::Search, vec![text("TODO")]),
        (
            "search for 'fn main' in *.rs",
            Wish::Search,
            vec![text("fn main"), place(None, Some(sort("`*.rs`", "*.rs")))],
        ),
        ("grep unsafe in Rust files", Wish::Search, vec![text("unsafe"), place(None, Some(rust()))]),
        ("search src for good morning", Wish::Search, vec![place(Some("src"), None), text("good morning")]),
        ("where is parse used", Wish::Search, vec![text("parse")]),
        ("which files contain hello world?", Wish::FilesWith, vec![text("hello world")]),
        ("Which .md files mention \"licence\"?", Wish::FilesWith, vec![Kind(sort(".md", "**/*.md")), text("licence")]),
        ("how often does TODO occur in src?", Wish::CountMatches, vec![text("TODO"), place(Some("src"), None)]),
        ("write 'it's: me?' to out.txt", Wish::Write, vec![text("it's: me?"), File("out.txt".into())]),
        ("write good day to out.txt", Wish::Write, vec![text("good day"), File("out.txt".into())]),
        ("create a file a.txt with 'x'", Wish::Write, vec![File("a.txt".into()), text("x")]),
        ("replace 'a' with \"b c\" in f.txt", Wish::Edit, vec![text("a"), text("b c"), File("f.txt".into())]),
        ("delete the file old.txt", Wish::Delete, vec![File("old.txt".into())]),
        ("run git log 'two words'", Wish::Run, vec![Command(vec!["git".into(), "log".into(), "two words".into()])]),
        ("run `ls -l 'a b'`", Wish::Run, vec![Command(vec!["ls".into(), "-l".into(), "a b".into()])]),
        ("run echo a, b: c.", Wish::Run, vec![Command(vec!["echo".into(), "a,".into(), "b:".into(), "c".into()])]),
        ("What is 6 * 7?", Wish::Calculate, vec![Expression("6 * 7".into())]),
        ("what's 2 plus 3 times 4", Wish::Calculate, vec![Expression("2 + 3 * 4".into())]),
        ("calculate sqrt(2) ^ 2.5e-3", Wish::Calculate, vec![Expression("sqrt(2) ^ 2.5e-3".into())]),
        ("12.5 / 4 =", Wish::Calculate, vec![Expression("12.5 / 4".into())]),
        ("Hello!.!?.", Wish::Help, vec![]),
    ] {
        assert_eq!(heard(said), Some((wish, expected)), "{said}");
    }
}

#[test]
fn what_is_in_no_form_is_not_understood() {
    for said in [
        "",
        "  ",
        "?",
        "write a poem about the sea",
        "delete everything",
        "show me",
        "read the",
        "what is love?",
        "which files are the longest and the shortest",
        "what is the meaning of 42 apples",
        "refactor main.rs",
        "find me a job",
        "who was the 3rd president",
    ] {
        assert_eq!(heard(said), None, "{said}");
    }
}

proptest! {
    #[test]
    fn nothing_that_is_said_panics(said in "\\PC{0,80}") {
        let _ = understand(&said);
    }

    #[test]
    fn words_of_the_forms_in_any_order_do_not_panic(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "find", "the", "files", "in", "for", "with", "'", "\"a", "b\"", "text", "rust", "*.rs", "N", "search", "count",
                "lines", "of", "is", "what's", "…", "“x”", ".", "..", "[", "{a,b}", "5", "+", "to", "write", "é'",
            ]),
            0..40,
        )
    ) {
        let _ = understand(&words.join(" "));
    }

    #[test]
    fn case_and_closing_punctuation_do_not_matter(upper in any::<bool>(), end in "[?!.]{0,3}", at in 0..GRAMMAR.len()) {
        let row = &GRAMMAR[at];
        let example = row.example.trim_end_matches('?');
        let said = if upper { example.to_uppercase() } else { example.to_owned() };
        // Two dots are part of a name.
        prop_assume!(!end.contains(".."));
        prop_assert_eq!(understand(&format!("{said}{end}")).map(|phrase| phrase.row.wish), Some(row.wish));
    }
}
