#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use crate::answer::Answer;
use placet_core::outcome::Status;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use tempfile::TempDir;

/// A folder with some files, an outside beside it, and both ways of opening it.
struct Place {
    _all: TempDir,
    root: std::path::PathBuf,
    outside: std::path::PathBuf,
}

fn place() -> Place {
    let all = tempfile::tempdir().expect("a temporary directory");
    let (root, outside) = (all.path().join("root"), all.path().join("outside"));
    for dir in [&root, &outside] {
        fs::create_dir(dir).expect("made");
    }
    fs::write(outside.join("secret.txt"), "outside content\n").expect("written");
    Place { root, outside, _all: all }
}

fn env() -> Env {
    Env::deterministic(placet_core::env::ManualClock::new(placet_core::Timestamp::EPOCH), 7)
}

impl Place {
    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, content).expect("written");
    }

    fn files(&self, options: FilesOptions) -> Files {
        Files::open(&env(), &self.root, options).expect("opens")
    }

    /// The same folder, opened by whole paths and step by step.
    fn both(&self, options: FilesOptions) -> [Files; 2] {
        let whole = self.files(options.clone());
        let stepwise = self.files(options);
        let stepwise = Files { root: stepwise.root.stepwise(), ..stepwise };
        [whole, stepwise]
    }
}

fn go() -> CancellationToken {
    CancellationToken::new()
}

fn text(answer: Result<Answer, WorkspaceError>) -> String {
    match answer {
        Ok(answer) => answer.text,
        Err(error) => panic!("{error}"),
    }
}

fn refused(answer: Result<Answer, WorkspaceError>, status: Status, words: &str) {
    match answer {
        Ok(answer) => panic!("answered {:?} instead of {words:?}", answer.text),
        Err(error) => {
            assert_eq!(error.status(), status, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}

#[test]
fn a_list_is_sorted_and_marked() {
    let place = place();
    place.put("b.txt", "b");
    place.put("src/main.rs", "fn main() {}");
    place.put("src/deep/x.rs", "");
    place.put(".hidden", "h");
    place.put(".env", "KEY=1");
    place.put(".git/config", "");
    place.put("target/out", "");
    place.put(".gitignore", "target/\n");
    place.put("a\nb", "");
    fs::create_dir(place.root.join("empty")).expect("made");
    symlink("src", place.root.join("link")).expect("linked");
    symlink(&place.outside, place.root.join("out")).expect("linked");
    symlink("nowhere", place.root.join("broken")).expect("linked");
    for files in place.both(FilesOptions::new()) {
        let wanted = ".env (closed: credentials)\n.git/\n.gitignore\n.hidden\na\\nb\nb.txt\nbroken -> nowhere (broken)\n\
            empty/\nlink -> src/\nout -> (outside the folder, not followed)\nsrc/\ntarget/";
        assert_eq!(text(files.list(None, None, &go())), wanted);
        let deep = text(files.list(Some("."), Some(2), &go()));
        assert!(deep.contains("\nsrc/\nsrc/deep/\nsrc/main.rs\ntarget/"), "{deep}");
        assert!(!deep.contains(".git/config") && !deep.contains("target/out"), "not into hidden or ignored: {deep}");
        assert_eq!(text(files.list(Some("src"), Some(3), &go())), "deep/\ndeep/x.rs\nmain.rs");
        assert_eq!(text(files.list(Some("link"), None, &go())), "deep/\nmain.rs");
        assert_eq!(text(files.list(Some("empty"), None, &go())), "(empty directory)");
        refused(files.list(Some("out"), None, &go()), Status::Refused, "leads out of the folder");
        refused(files.list(Some("b.txt"), None, &go()), Status::Mistaken, "is a file, not a directory");
        refused(files.list(Some("gone"), None, &go()), Status::Mistaken, "there is no `gone`");
        refused(files.list(Some("/"), None, &go()), Status::Mistaken, "absolute");
        refused(files.list(None, Some(0), &go()), Status::Mistaken, "from 1 to 10");
    }
}

#[test]
fn a_cut_says_what_it_cut() {
    let place = place();
    for number in 0..30 {
        place.put(&format!("f{number:02}.txt"), format!("needle {number}\n"));
    }
    let limits = FileLimits { entries: 10, paths: 10, matches: 10, ..FileLimits::default() };
    let files = place.files(FilesOptions::new().limits(limits));
    let list = files.list(None, None, &go()).expect("lists");
    assert!(list.text.ends_with("f09.txt\n(10 of 30 entries shown)"), "{}", list.text);
    assert_eq!(list.cut.map(|cut| (cut.kept, cut.total)), Some((10, 30)));
    let found = text(files.find("*.txt", None, &go()));
    assert!(found.ends_with("f09.txt\n(10 of 30 files shown)"), "{found}");
    let found = text(files.search("needle", None, None, &go()));
    assert!(found.ends_with("f09.txt:1:needle 9\n(10 of 30 matches shown)"), "{found}");
}

#[test]
fn find_passes_over_what_is_hidden_or_ignored() {
    let place = place();
    for path in [
        "a.rs",
        "src/b.rs",
        "src/deep/c.rs",
        "target/d.rs",
        ".config/e.rs",
        ".git/f.rs",
        "src/gen/g.rs",
        "src/keep.log",
        "h.log",
        "tls.key",
    ] {
        place.put(path, "x");
    }
    place.put(".gitignore", "/target\n*.log\n!keep.log\n");
    place.put("src/.ignore", "gen/\n");
    for files in place.both(FilesOptions::new()) {
        assert_eq!(text(files.find("*.rs", None, &go())), "a.rs\nsrc/b.rs\nsrc/deep/c.rs");
        assert_eq!(text(files.find("**/*.rs", Some("src"), &go())), "src/b.rs\nsrc/deep/c.rs");
        assert_eq!(text(files.find("src/*.rs", None, &go())), "src/b.rs");
        assert_eq!(text(files.find("*.log", None, &go())), "src/keep.log");
        assert_eq!(text(files.find("*.rs", Some("target"), &go())), "target/d.rs", "named, so walked");
        assert_eq!(text(files.find(".config/*", None, &go())), ".config/e.rs");
        assert_eq!(text(files.find("*.rs", Some("src/gen"), &go())), "src/gen/g.rs");
        assert_eq!(text(files.find("*.zip", None, &go())), "(no files found)");
        let keys = text(files.find("*.key", None, &go()));
        assert_eq!(keys, "(no files found)\n(1 file that may hold credentials not shown)");
    }
}

#[test]
fn search_finds_lines_and_says_what_it_skipped() {
    let place = place();
    place.put("a.txt", "one needle\ntwo\nthree needle\r\n");
    place.put("src/b.rs", "let needle = 1;\n");
    place.put("bin.dat", b"needle\0needle");
    place.put(".env", "needle=1");
    place.put("long.txt", "needle ".repeat(200));
    place.put(".hidden.txt", "needle");
    for files in place.both(FilesOptions::new()) {
        let found = text(files.search("needle", None, None, &go()));
        let wanted = "a.txt:1:one needle\na.txt:3:three needle\nlong.txt:1:";
        assert!(found.starts_with(wanted), "{found}");
        assert!(
            found.contains("… (1000 more bytes)\nsrc/b.rs:1:let needle = 1;\n(1 file skipped as binary)"),
            "{found}"
        );
        assert_eq!(text(files.search("needle", None, Some("*.rs"), &go())), "src/b.rs:1:let needle = 1;");
        assert_eq!(text(files.search("^two$", Some("a.txt"), None, &go())), "a.txt:2:two");
        assert_eq!(text(files.search("needle", Some(".hidden.txt"), None, &go())), ".hidden.txt:1:needle");
        let hidden = text(files.search("needle", None, Some(".*"), &go()));
        assert_eq!(hidden, ".hidden.txt:1:needle\n(1 file that may hold credentials skipped)");
        assert_eq!(text(files.search("(?i)NEEDLE = \\d", Some("src"), None, &go())), "src/b.rs:1:let needle = 1;");
        assert_eq!(text(files.search("nothing like it", Some("src"), None, &go())), "(no matches)");
        refused(files.search("a(", None, None, &go()), Status::Mistaken, "unclosed group");
        refused(files.search("", None, None, &go()), Status::Mistaken, "empty");
        refused(files.search("x", Some(".env"), None, &go()), Status::Refused, "closed");
        let stop = go();
        stop.cancel();
        assert!(matches!(files.search("needle", None, None, &stop), Err(WorkspaceError::Cancelled)));
    }
}

#[test]
fn a_read_is_the_text_or_says_what_it_left_out() {
    let place = place();
    place.put("a.txt", "one\ntwo\nthree\n");
    place.put("no-end.txt", "one\ntwo");
    place.put("empty.txt", "");
    place.put("bin.dat", [0_u8, 1, 2, 3]);
    place.put("latin.txt", b"caf\xe9 au lait, with a longer text around it\n");
    symlink("a.txt", place.root.join("link")).expect("linked");
    symlink(place.outside.join("secret.txt"), place.root.join("out")).expect("linked");
    symlink("../outside/secret.txt", place.root.join("out2")).expect("linked");
    symlink("loop", place.root.join("loop")).expect("linked");
    fs::create_dir(place.root.join("dir")).expect("made");
    symlink("../a.txt", place.root.join("dir/up")).expect("linked");
    symlink("../../root/a.txt", place.root.join("dir/around")).expect("linked");
    for files in place.both(FilesOptions::new()) {
        let read = |path: &str, offset, limit| files.read(path, offset, limit, &go());
        let whole = read("a.txt", None, None).expect("reads");
        assert_eq!(whole.text, "one\ntwo\nthree\n");
        assert_eq!(whole.facts["lines"], 3);
        assert!(whole.from_files && whole.cut.is_none());
        assert_eq!(text(read("a.txt", Some(2), Some(1))), "two\n(line 2 of 3 shown; the next one is `offset` 3)");
        assert_eq!(
            text(read("a.txt", None, Some(2))),
            "one\ntwo\n(lines 1 to 2 of 3 shown; the next one is `offset` 3)"
        );
        assert_eq!(text(read("no-end.txt", Some(2), None)), "two\n(line 2 of 2 shown)");
        assert_eq!(text(read("empty.txt", None, None)), "(empty file)");
        assert_eq!(text(read("bin.dat", None, None)), "(bin.dat is binary, 4 bytes: not shown)");
        assert!(text(read("latin.txt", None, None)).ends_with("(1 byte is not UTF-8, shown as \u{fffd})"));
        assert_eq!(text(read("link", None, None)), "one\ntwo\nthree\n");
        assert_eq!(text(read("dir/up", None, None)), "one\ntwo\nthree\n");
        refused(read("out", None, None), Status::Refused, "leads out of the folder through the link `out`");
        refused(read("out2", None, None), Status::Refused, "leads out of the folder");
        refused(read("dir/around", None, None), Status::Refused, "leads out of the folder");
        refused(read("loop", None, None), Status::Mistaken, "too many links");
        refused(read("dir", None, None), Status::Mistaken, "is a directory, not a file");
        refused(read("a.txt/b", None, None), Status::Mistaken, "is a file, not a directory");
        refused(read("a.txt", Some(9), None), Status::Mistaken, "`offset` is 9");
        refused(read("../outside/secret.txt", None, None), Status::Mistaken, "holds `..`");
        refused(read("/etc/passwd", None, None), Status::Mistaken, "absolute");
        refused(read("a\0", None, None), Status::Mistaken, "NUL");
    }
}

#[test]
fn a_read_that_is_cut_by_bytes_ends_at_a_line_and_leaves_no_half_of_a_secret() {
    let place = place();
    let line = "0123456789012345678901234567890\n";
    place.put("big.txt", line.repeat(100));
    let limits = FileLimits { read_bytes: 1_000, ..FileLimits::default() };
    let mut registry = placet_core::redact::SecretRegistry::new();
    let secret = "S3".repeat(300);
    registry.register(placet_core::Secret::new("SOME_TOKEN", secret.clone()));
    place.put("secret.txt", format!("{}{secret} tail\n", "x".repeat(900)));
    let files = place.files(FilesOptions::new().limits(limits).redactor(registry.redactor()));
    let cut = files.read("big.txt", Some(11), None, &go()).expect("reads");
    assert_eq!(cut.text, format!("{}(lines 11 to 41 of 100 shown; the next one is `offset` 42)", line.repeat(31)));
    assert_eq!(cut.facts["shown"], 31);
    let cut = text(files.read("secret.txt", None, None, &go()));
    assert!(!cut.contains("S3S3S3"), "{cut}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_holds_nobody() {
    let place = place();
    rustix::fs::mknodat(rustix::fs::CWD, place.root.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .expect("made");
    for files in place.both(FilesOptions::new().writable()) {
        refused(files.read("pipe", None, None, &go()), Status::Mistaken, "is a named pipe");
        refused(files.write("pipe", "x", &go()), Status::Mistaken, "is a named pipe");
        assert_eq!(text(files.list(None, None, &go())), "pipe (a named pipe)");
        assert_eq!(text(files.search("x", None, None, &go())), "(no matches)");
    }
}

#[test]
fn writing_is_whole_and_keeps_permissions() {
    let place = place();
    for files in place.both(FilesOptions::new().writable()) {
        assert_eq!(
            text(files.write("new/deep/a.txt", "one\ntwo\n", &go())),
            "created new/deep/a.txt (8 bytes, 2 lines)"
        );
        let path = place.root.join("new/deep/a.txt");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4750)).expect("set");
        let before = fs::metadata(&path).expect("there").ino();
        assert_eq!(text(files.write("new/deep/a.txt", "größe", &go())), "replaced new/deep/a.txt (7 bytes, 1 line)");
        let after = fs::metadata(&path).expect("there");
        assert_eq!(after.permissions().mode() & 0o7777, 0o750, "kept, but for the right to act as somebody else");
        assert_ne!(after.ino(), before, "a new file took the name");
        assert_eq!(fs::read_to_string(&path).expect("read"), "größe");
        let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["a.txt"], "nothing is left beside it");
        refused(files.write("new", "x", &go()), Status::Mistaken, "is a directory");
        refused(files.write("new/deep/a.txt/b", "x", &go()), Status::Mistaken, "not a directory");
        refused(files.write("", "x", &go()), Status::Mistaken, "the folder itself");
        fs::remove_dir_all(place.root.join("new")).expect("removed");
    }
    let limits = FileLimits { written_bytes: 4, ..FileLimits::default() };
    let files = place.files(FilesOptions::new().writable().limits(limits));
    refused(files.write("a", "12345", &go()), Status::Mistaken, "5 bytes, more than the 4");
    let files = place.files(FilesOptions::new());
    refused(files.write("a", "x", &go()), Status::Refused, "reading only");
    refused(files.edit("a", "x", "y", &go()), Status::Refused, "reading only");
    refused(files.delete("a", &go()), Status::Refused, "reading only");
}

#[test]
fn links_are_neither_written_through_nor_deleted_through() {
    let place = place();
    place.put("a.txt", "kept");
    symlink("a.txt", place.root.join("inner")).expect("linked");
    symlink(place.outside.join("secret.txt"), place.root.join("out")).expect("linked");
    symlink(place.outside.join("made.txt"), place.root.join("dangling")).expect("linked");
    symlink(&place.outside, place.root.join("outdir")).expect("linked");
    let outside = || fs::read_dir(&place.outside).unwrap().count();
    for files in place.both(FilesOptions::new().writable()) {
        for path in ["inner", "out", "dangling"] {
            refused(files.write(path, "x", &go()), Status::Mistaken, "is a link");
            refused(files.edit(path, "kept", "x", &go()), Status::Mistaken, "is a link");
        }
        refused(files.write("outdir/x", "x", &go()), Status::Refused, "leads out of the folder");
        refused(files.write("outdir/new/x", "x", &go()), Status::Refused, "leads out of the folder");
        refused(files.edit("outdir/secret.txt", "outside", "x", &go()), Status::Refused, "leads out of the folder");
        refused(files.delete("outdir/secret.txt", &go()), Status::Refused, "leads out of the folder");
        assert_eq!(text(files.delete("outdir", &go())), "deleted the link outdir");
        assert_eq!(text(files.delete("out", &go())), "deleted the link out");
        assert_eq!(text(files.delete("inner", &go())), "deleted the link inner");
        assert_eq!(fs::read_to_string(place.root.join("a.txt")).unwrap(), "kept");
        assert_eq!(fs::read_to_string(place.outside.join("secret.txt")).unwrap(), "outside content\n");
        assert_eq!(outside(), 1);
        symlink("a.txt", place.root.join("inner")).expect("linked");
        symlink(place.outside.join("secret.txt"), place.root.join("out")).expect("linked");
        symlink(&place.outside, place.root.join("outdir")).expect("linked");
    }
}

#[test]
fn an_edit_verifies_what_it_replaces() {
    let place = place();
    for files in place.both(FilesOptions::new().writable()) {
        place.put("a.txt", "one\ntwo\nthree\ntwo and more\n");
        let edit = |old: &str, new: &str| files.edit("a.txt", old, new, &go());
        assert_eq!(text(edit("three\n", "3\nthree\n")), "edited a.txt: 1 line by 2 at line 3");
        assert_eq!(fs::read_to_string(place.root.join("a.txt")).unwrap(), "one\ntwo\n3\nthree\ntwo and more\n");
        refused(edit("two", "2"), Status::Mistaken, "2 times (lines 2, 5)");
        refused(edit("four", "4"), Status::Mistaken, "does not hold the text");
        refused(edit("two  and", "4"), Status::Mistaken, "with other spaces");
        refused(edit("", "4"), Status::Mistaken, "empty");
        refused(edit("one", "one"), Status::Mistaken, "same text");
        refused(files.edit("gone", "a", "b", &go()), Status::Mistaken, "there is no `gone`");
        assert_eq!(text(edit("one\n", "")), "edited a.txt: 1 line by 0 at line 1");
        place.put("aaa.txt", "aaa");
        refused(files.edit("aaa.txt", "aa", "b", &go()), Status::Mistaken, "2 times");
        place.put("crlf.txt", "a\r\nb\r\n");
        refused(files.edit("crlf.txt", "a\nb", "c", &go()), Status::Mistaken, "CR LF");
        place.put("bin.dat", b"a\0b");
        refused(files.edit("bin.dat", "a", "b", &go()), Status::Mistaken, "is binary");
    }
}

#[test]
fn deleting_is_for_single_things_and_may_be_repeated() {
    let place = place();
    for files in place.both(FilesOptions::new().writable()) {
        place.put("dir/a.txt", "x");
        refused(files.delete("dir", &go()), Status::Mistaken, "holds 1 entries");
        assert_eq!(text(files.delete("dir/a.txt", &go())), "deleted dir/a.txt");
        assert_eq!(text(files.delete("dir/a.txt", &go())), "nothing to delete: there is no dir/a.txt");
        assert_eq!(text(files.delete("dir", &go())), "deleted the empty directory dir");
        assert_eq!(text(files.delete("no/such/thing", &go())), "nothing to delete: there is no no/such/thing");
        refused(files.delete(".", &go()), Status::Mistaken, "the folder itself");
    }
}

#[test]
fn credentials_are_closed_by_every_way() {
    let place = place();
    place.put(".env", "KEY=1");
    place.put(".ssh/config", "Host x");
    symlink(".env", place.root.join("harmless.txt")).expect("linked");
    symlink(".ssh", place.root.join("docs")).expect("linked");
    for files in place.both(FilesOptions::new().writable()) {
        for path in
            [".env", "./.env", ".ssh/config", "harmless.txt", "docs/config", ".ssh/none", "x/.env", "server.pem"]
        {
            refused(files.read(path, None, None, &go()), Status::Refused, "Only the operator could hand them over");
        }
        for path in [".env", ".ssh/new", "docs/new", "deploy.key", "a/b/.env"] {
            refused(files.write(path, "x", &go()), Status::Refused, "Only the operator could hand them over");
            refused(files.edit(path, "x", "y", &go()), Status::Refused, "Only the operator could hand them over");
            refused(files.delete(path, &go()), Status::Refused, "Only the operator could hand them over");
        }
        refused(files.list(Some(".ssh"), None, &go()), Status::Refused, "Only the operator could hand them over");
        refused(files.find("*", Some("docs"), &go()), Status::Refused, "Only the operator could hand them over");
        assert!(!place.root.join("a").exists(), "no directory was made on the way to a refusal");
    }
    for files in place.both(FilesOptions::new().allow_credentials()) {
        assert_eq!(text(files.read("harmless.txt", None, None, &go())), "KEY=1");
        assert_eq!(text(files.search("Host", Some("docs"), None, &go())), ".ssh/config:1:Host x");
    }
    let inside = place.root.join(".ssh");
    assert!(Files::open(&env(), &inside, FilesOptions::new()).is_err(), "a place of credentials is no folder to grant");
    assert!(Files::open(&env(), &inside, FilesOptions::new().allow_credentials()).is_ok());
    assert!(Files::open(&env(), place.root.join("none"), FilesOptions::new()).is_err());
    assert!(Files::open(&env(), place.root.join("harmless.txt"), FilesOptions::new()).is_err());
}

#[test]
fn what_belongs_to_a_repository_is_not_changed() {
    let place = place();
    place.put(".git/config", "[core]\n");
    place.put(".git/HEAD", "ref: refs/heads/main\n");
    place.put("sub/.git/hooks/pre-commit", "x");
    place.put(".github/workflows/ci.yml", "on: push\n");
    place.put("plain/.git", "gitdir: ../elsewhere\n");
    symlink(".git", place.root.join("docs")).expect("linked");
    for files in place.both(FilesOptions::new().writable().allow_credentials()) {
        for path in [
            ".git/config",
            ".git/hooks/post-checkout",
            ".GIT/HEAD",
            "sub/.git/hooks/pre-commit",
            "plain/.git",
            "new/.git",
            "docs/HEAD",
            "docs/hooks/new",
            "git~1/config",
            ".g\u{200c}it/config",
        ] {
            for answer in
                [files.write(path, "x", &go()), files.edit(path, "ref", "y", &go()), files.delete(path, &go())]
            {
                let error = answer.expect_err(path);
                assert_eq!((error.status(), error.reason().as_str()), (Status::Refused, "protected"), "{path}");
            }
        }
        assert_eq!(fs::read_to_string(place.root.join(".git/HEAD")).unwrap(), "ref: refs/heads/main\n");
        assert!(!place.root.join("new").exists() && !place.root.join(".git/hooks").exists());
        assert_eq!(text(files.read(".git/HEAD", None, None, &go())), "ref: refs/heads/main\n");
        assert_eq!(
            text(files.edit(".github/workflows/ci.yml", "push", "pull", &go())),
            "edited .github/workflows/ci.yml: 1 line by 1 at line 1"
        );
        place.put(".github/workflows/ci.yml", "on: push\n");
        assert_eq!(text(files.write(".gitignore", "target\n", &go())).split(' ').nth(1), Some(".gitignore"));
    }
    let files = place.files(FilesOptions::new());
    refused(files.read(".git/config", None, None, &go()), Status::Refused, "Git credentials");
    let own = Files::open(&env(), place.root.join(".git"), FilesOptions::new().writable()).expect("opens");
    refused(own.write("hooks/x", "x", &go()), Status::Refused, "repository's own");
}

/// What a random tree is made of.
#[derive(Clone, Debug)]
enum Piece {
    Dir(String),
    File(String),
    Link(String, String),
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let name = "[abc](/[abc]){0,2}";
    let target = "(/|\\.\\./|\\./){0,3}(outside/|[abc]/){0,2}(secret\\.txt|[abc]|\\.\\.)?";
    let piece = prop_oneof![
        name.prop_map(Piece::Dir),
        name.prop_map(Piece::File),
        (name, target).prop_map(|(name, target)| Piece::Link(name, target)),
    ];
    prop::collection::vec(piece, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn nothing_leads_out_of_a_random_tree(
        pieces in pieces(),
        paths in prop::collection::vec("(\\.\\./|/|\\./)?([abc]/|\\.\\./){0,3}([abc]|\\.\\.|secret\\.txt)", 1..8),
    ) {
        let place = place();
        for piece in &pieces {
            // Some cannot be made, for another stands in their way.
            let _ = match piece {
                Piece::Dir(path) => fs::create_dir_all(place.root.join(path)),
                // Not through a link that is there already: this is the test's own hand.
                Piece::File(path) if place.root.join(path).is_symlink() => Ok(()),
                Piece::File(path) => fs::File::create_new(place.root.join(path))
                    .and_then(|mut file| std::io::Write::write_all(&mut file, b"inside content\n")),
                Piece::Link(path, target) if target.is_empty() => fs::create_dir_all(place.root.join(path)),
                // Absolute ones lead to the outside of this very place.
                Piece::Link(path, target) if target.starts_with('/') => {
                    symlink(place.outside.join(target.trim_start_matches(['/', '.'])), place.root.join(path))
                }
                Piece::Link(path, target) => symlink(target, place.root.join(path)),
            };
        }
        let entries = |dir: &std::path::Path| -> Vec<_> {
            let mut found: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            found.sort();
            found
        };
        // The making itself may have gone through a link.
        let before = (entries(&place.outside), entries(place._all.path()));
        let real_root = place.root.canonicalize().unwrap();
        for files in place.both(FilesOptions::new().writable()) {
            for path in &paths {
                if let Ok(answer) = files.read(path, None, None, &go()) {
                    prop_assert!(!answer.text.contains("outside"), "{path} of {pieces:?}");
                    let real = place.root.join(path).canonicalize().unwrap();
                    prop_assert!(real.starts_with(&real_root), "{path} of {pieces:?}");
                }
                // What is inside by the system's own word, and a file, is read.
                let plain = !path.starts_with('/') && !path.split('/').any(|name| name == "..");
                let absolute = pieces.iter().any(|p| matches!(p, Piece::Link(_, target) if target.starts_with('/')));
                let around = pieces.iter().any(|p| matches!(p, Piece::Link(_, target) if target.contains("..")));
                if plain && !absolute && !around && place.root.join(path).is_file() {
                    prop_assert!(files.read(path, None, None, &go()).is_ok(), "{path} of {pieces:?}");
                }
            }
            for path in &paths {
                let _ = files.write(path, "written", &go());
                let _ = files.edit(path, "content", "edited", &go());
                let _ = files.delete(path, &go());
            }
            let _ = files.search("content", None, None, &go()).map(|answer| assert!(!answer.text.contains("outside content")));
            prop_assert_eq!(fs::read_to_string(place.outside.join("secret.txt")).unwrap(), "outside content\n");
            prop_assert_eq!(&before, &(entries(&place.outside), entries(place._all.path())));
        }
    }
}
