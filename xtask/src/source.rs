//! Reads Rust source just far enough to tell code from comments and strings, and tests from the rest.

use std::path::{Path, PathBuf};

/// One line of a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The line with comments, strings and character literals blanked out.
    pub(crate) code: String,
    /// Whether it belongs to an item under `#[cfg(test)]`.
    pub(crate) test: bool,
}

/// The lines of `source`.
pub(crate) fn lines(source: &str) -> Vec<Line> {
    let masked = masked(source);
    let spans = test_spans(&masked);
    let mut start = 0;
    masked
        .split_inclusive('\n')
        .map(|line| {
            let end = start + line.len();
            let test = spans.iter().any(|&(from, to)| from < end && start < to);
            start = end;
            Line { code: line.trim_end().to_owned(), test }
        })
        .collect()
}

/// Whether a whole file is test code, by its path: `tests.rs`, `*_tests.rs`, or a `tests`, `benches` or `examples` folder.
pub(crate) fn is_test_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name == "tests.rs"
        || name.ends_with("_tests.rs")
        || path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "benches" | "examples")))
}

/// Every `.rs` file under `folder`, sorted; build output and hidden folders are left out.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
                open.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// `source` with every byte of a comment, string or character literal replaced by a space; line breaks stay.
fn masked(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let word_before = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
        let rest = &bytes[at..];
        let length = if rest.starts_with(b"//") {
            rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            block_comment(rest)
        } else if rest[0] == b'"' {
            quoted(rest, 0)
        } else if !word_before && matches!(rest[0], b'r' | b'b' | b'c') {
            prefixed_string(rest)
        } else if rest[0] == b'\'' {
            character(rest)
        } else {
            0
        };
        if length == 0 {
            out.push(rest[0]);
            at += 1;
        } else {
            out.extend(rest[..length].iter().map(|&b| if b == b'\n' { b'\n' } else { b' ' }));
            at += length;
        }
    }
    // Only whole literals and comments were replaced, so what is left is still UTF-8.
    String::from_utf8_lossy(&out).into_owned()
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of a string with escapes whose opening quote is at `open`.
fn quoted(rest: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of `r"…"`, `r#"…"#`, `b"…"`, `b'…'`, `br"…"`, `c"…"`; 0 where none of these begins.
fn prefixed_string(rest: &[u8]) -> usize {
    let mut at = usize::from(matches!(rest[0], b'b' | b'c'));
    if rest.get(at) == Some(&b'\'') && rest[0] == b'b' {
        return at + character(&rest[at..]);
    }
    if rest.get(at) != Some(&b'r') {
        return if rest.get(at) == Some(&b'"') { quoted(rest, at) } else { 0 };
    }
    at += 1;
    let hashes = rest[at..].iter().take_while(|&&b| b == b'#').count();
    at += hashes;
    if rest.get(at) != Some(&b'"') {
        return 0;
    }
    at += 1;
    while at < rest.len() {
        if rest[at] == b'"' && rest[at + 1..].iter().take_while(|&&b| b == b'#').count() >= hashes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    rest.len()
}

/// The length of a character literal; 0 where a lifetime begins.
fn character(rest: &[u8]) -> usize {
    match rest.get(1) {
        Some(b'\\') => {
            let tail = rest.get(3..).unwrap_or_default();
            tail.iter().position(|&b| b == b'\'').map_or(0, |end| end + 4)
        }
        Some(_) => {
            let text = std::str::from_utf8(&rest[1..rest.len().min(6)]).unwrap_or_else(|error| {
                // A cut in the middle of the character after ours: what comes before it is whole.
                std::str::from_utf8(&rest[1..1 + error.valid_up_to()]).unwrap_or_default()
            });
            let width = text.chars().next().map_or(1, char::len_utf8);
            if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
        }
        None => 0,
    }
}

/// The byte ranges of items under an attribute such as `#[cfg(test)]`.
fn test_spans(masked: &str) -> Vec<(usize, usize)> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let mut from = 0;
    while let Some(found) = masked[from..].find("#[cfg(") {
        let start = from + found;
        let Some(length) = masked[start..].find(']') else { break };
        let attribute = &masked[start..start + length];
        from = start + length + 1;
        if mentions_test(attribute) {
            from = item_end(masked, from);
            spans.push((start, from));
        }
    }
    spans
}

fn mentions_test(attribute: &str) -> bool {
    let mut words = attribute.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let mut before = "";
    words.any(|word| {
        let test = word == "test" && before != "not";
        before = word;
        test
    })
}

/// Where the item that begins after its `#[cfg]` attribute ends: at a `;`, a closing brace or, for a field, a comma.
fn item_end(masked: &str, from: usize) -> usize {
    const ITEMS: [&str; 16] = [
        "mod",
        "fn",
        "impl",
        "use",
        "struct",
        "enum",
        "pub",
        "const",
        "static",
        "type",
        "trait",
        "async",
        "unsafe",
        "extern",
        "macro_rules",
        "let",
    ];
    let mut at = from;
    // Attributes between the condition and the item.
    loop {
        let rest = &masked[at..];
        let blank = rest.len() - rest.trim_start().len();
        if !rest[blank..].starts_with("#[") {
            at += blank;
            break;
        }
        at += rest.find(']').map_or(rest.len(), |end| end + 1);
    }
    let word: String = masked[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let item = ITEMS.contains(&word.as_str());
    let mut depth = 0_i32;
    for (offset, c) in masked[at..].char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth -= 1;
                if depth < 0 || (depth == 0 && c == '}') {
                    return at + offset + usize::from(depth == 0);
                }
            }
            ';' if depth == 0 => return at + offset + 1,
            ',' if depth == 0 && !item => return at + offset + 1,
            _ => {}
        }
    }
    masked.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_lines(source: &str) -> Vec<usize> {
        lines(source).iter().enumerate().filter(|(_, line)| line.test).map(|(index, _)| index + 1).collect()
    }

    #[test]
    fn comments_strings_and_characters_are_blank() {
        let source = "let a = \"}\\\"\"; // }\nlet b = r#\"}\"}\"#; /* } /* } */ } */ let c = '}';\nlet d: &'static str = b\"}\"; b'}'; 'ä'; '\\u{7d}'\n";
        let code: String = lines(source).into_iter().map(|line| line.code + "\n").collect();
        assert!(!code.contains('}'), "{code}");
        assert!(code.contains("let c =") && code.contains("&'static str"), "{code}");
        assert_eq!(code.lines().count(), source.lines().count());
    }

    #[test]
    fn the_items_under_cfg_test_are_tests_and_nothing_else() {
        let source = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn b() { \"}\"; }\n}\nfn c() {}\n";
        assert_eq!(test_lines(source), [2, 3, 4, 5, 6]);
        assert_eq!(test_lines("#[cfg(test)]\nmod tests;\nfn c() {}\n"), [1, 2]);
        assert_eq!(test_lines("#[cfg(all(test, unix))]\nuse x;\n#[cfg(not(test))]\nfn c() {}\n"), [1, 2]);
        assert_eq!(test_lines("struct S {\n    #[cfg(test)]\n    seen: Vec<u8>,\n    kept: u8,\n}\n"), [2, 3]);
        assert_eq!(test_lines("#[cfg(feature = \"test\")]\nfn c() {}\n"), [0; 0]);
    }

    #[test]
    fn test_files_are_known_by_their_path() {
        for path in
            ["crates/a/src/b/tests.rs", "crates/a/src/b_tests.rs", "crates/a/tests/it/main.rs", "a/benches/b.rs"]
        {
            assert!(is_test_file(Path::new(path)), "{path}");
        }
        assert!(!is_test_file(Path::new("crates/testkit/src/contests.rs")));
    }
}
