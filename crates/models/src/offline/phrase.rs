//! Holding what a user said against the forms of the grammar.

use super::grammar::{AFTER, BEFORE, GRAMMAR, KINDS, Row, SLOTS, Slot};

/// More words than this are no phrase.
const MOST_WORDS: usize = 300;
/// Words that stand for no file and no directory, unless they are quoted.
const NO_NAMES: &[&str] = &[
    "me",
    "us",
    "the",
    "a",
    "an",
    "all",
    "it",
    "this",
    "that",
    "these",
    "those",
    "file",
    "files",
    "folder",
    "directory",
    "everything",
    "anything",
    "for",
    "in",
    "of",
    "and",
    "every",
    "each",
    "my",
    "your",
];
const FOLDERS: &[&str] = &["folder", "directory", "project", "repository", "repo", "workspace", "tree"];
const NUMBERS: &[&str] = &["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
/// Two words that are written as one.
const CONTRACTIONS: &[(&str, [&str; 2])] = &[
    ("what's", ["what", "is"]),
    ("whats", ["what", "is"]),
    ("where's", ["where", "is"]),
    ("who's", ["who", "is"]),
    ("how's", ["how", "is"]),
];
const QUOTES: &[(char, char)] = &[('\'', '\''), ('"', '"'), ('`', '`'), ('“', '”'), ('‘', '’'), ('«', '»'), ('„', '“')];
/// Operators that are written as words, longest first.
const OPERATORS: &[(&str, &str)] = &[
    ("to the power of", "^"),
    ("multiplied by", "*"),
    ("divided by", "/"),
    ("modulo", "%"),
    ("squared", "^ 2"),
    ("cubed", "^ 3"),
    ("minus", "-"),
    ("times", "*"),
    ("plus", "+"),
    ("mod", "%"),
    ("x", "*"),
];
const FUNCTIONS: &[&str] = &["abs", "ceil", "floor", "max", "min", "round", "sqrt", "sum"];

/// A sort of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    /// What it is called: `Rust`, `.lock`.
    pub(super) called: String,
    /// The glob that finds it.
    pub(super) glob: String,
}

impl Sort {
    fn parse(word: &str) -> Option<Self> {
        let bare = word.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(word);
        let (extension, dotted) = bare.strip_prefix('.').map_or((bare, false), |rest| (rest, true));
        let lower = extension.to_ascii_lowercase();
        let known = |(name, all): &&(&str, &[&str])| {
            !dotted && (name.eq_ignore_ascii_case(word) || (all.len() == 1 && all[0] == lower))
        };
        if let Some((name, all)) = KINDS.iter().find(known) {
            let glob = if let [one] = all { format!("**/*.{one}") } else { format!("**/*.{{{}}}", all.join(",")) };
            return Some(Sort { called: (*name).to_owned(), glob });
        }
        let letters = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_-+".contains(c));
        let listed = KINDS.iter().any(|(_, all)| all.contains(&lower.as_str()));
        let extension = if listed { lower.as_str() } else { extension };
        ((dotted || listed) && extension.split('.').all(letters))
            .then(|| Sort { called: format!(".{extension}"), glob: format!("**/*.{extension}") })
    }
}

/// Where to look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: Option<String>,
    /// Which files; `called` is absent where it is a glob of the user's.
    pub(super) sort: Option<Sort>,
}

/// What stands in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    Kind(Sort),
    Name(String),
    Path(String),
    File(String),
    Place(Place),
    Number(u64),
    Text(String),
    Expression(String),
    Command(Vec<String>),
}

/// A phrase that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Phrase {
    pub(super) row: &'static Row,
    pub(super) filled: Vec<Filled>,
    /// The words of the form that were said, in lower case.
    pub(super) words: Vec<&'static str>,
}

macro_rules! getters {
    ($($name:ident: $variant:ident => $kind:ty),*) => {
        impl Phrase {
            $( pub(super) fn $name(&self) -> Option<$kind> {
                self.filled.iter().find_map(|filled| match filled {
                    Filled::$variant(value) => Some(value),
                    _ => None,
                })
            } )*
        }
    };
}
getters!(kind: Kind => &Sort, name: Name => &String, path: Path => &String, file: File => &String, place: Place => &Place,
    number: Number => &u64, text: Text => &String, expression: Expression => &String, command: Command => &Vec<String>);

impl Phrase {
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.filled.iter().filter_map(|filled| match filled {
            Filled::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        let number = |filled: &Filled| if let Filled::Number(number) = filled { Some(*number) } else { None };
        self.filled.iter().filter_map(number).collect()
    }

    pub(super) fn says(&self, word: &str) -> bool {
        self.words.contains(&word)
    }
}

/// A word or quoted text.
#[derive(Clone, Debug)]
struct Token<'a> {
    text: &'a str,
    lower: String,
    quoted: bool,
    /// Where it stands in the source, quotes included, punctuation around it not.
    start: usize,
    end: usize,
}

/// What was said, if it is in the grammar.
pub(super) fn understand(said: &str) -> Option<Phrase> {
    let tokens = tokens(said)?;
    let tokens = without_courtesy(&tokens);
    if tokens.is_empty() {
        return None;
    }
    let said = Said { source: said, tokens };
    GRAMMAR.iter().find_map(|row| {
        row.forms.iter().find_map(|form| {
            let nodes = nodes(form);
            let mut found = Found::default();
            said.matches(&nodes.iter().collect::<Vec<_>>(), 0, &mut found).then_some(Phrase {
                row,
                filled: found.filled,
                words: found.words,
            })
        })
    })
}

fn tokens(source: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let first = rest.chars().next()?;
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        if tokens.len() >= MOST_WORDS {
            return None;
        }
        if let Some(end) = quoted_end(rest, first) {
            let close = rest[..end].chars().next_back().map_or(0, char::len_utf8);
            let text = &rest[first.len_utf8()..end - close];
            tokens.push(Token { text, lower: text.to_lowercase(), quoted: true, start: at, end: at + end });
            let after = rest[end..].find(|c: char| !",;:.!?".contains(c)).unwrap_or(rest.len() - end);
            at += end + after;
            continue;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let is_last = rest[end..].trim().is_empty();
        let text = without_punctuation(&rest[..end], is_last);
        let lower = text.to_lowercase().replace('’', "'");
        match CONTRACTIONS.iter().find(|(short, _)| *short == lower) {
            Some((_, both)) => tokens.extend(both.map(|word| Token {
                text: word,
                lower: word.to_owned(),
                quoted: false,
                start: at,
                end: at + text.len(),
            })),
            None if text.is_empty() => {}
            None => tokens.push(Token { text, lower, quoted: false, start: at, end: at + text.len() }),
        }
        at += end;
    }
    Some(tokens)
}

/// A word without the punctuation of the sentence behind it: a full stop only behind the last one, and never one of several.
fn without_punctuation(word: &str, is_last: bool) -> &str {
    let mut text = word;
    loop {
        text = text.trim_end_matches([',', ';', ':', '!', '?']);
        match text.strip_suffix('.') {
            Some(rest) if is_last && !rest.is_empty() && !rest.ends_with('.') => text = rest,
            _ => return text,
        }
    }
}

/// Where a quoted text ends that begins here: its closing quote stands before a space, punctuation or the end.
fn quoted_end(rest: &str, first: char) -> Option<usize> {
    let (_, close) = QUOTES.iter().find(|(open, _)| *open == first)?;
    let from = first.len_utf8();
    rest[from..].match_indices(*close).map(|(at, found)| from + at + found.len()).find(|end| {
        let mut after = rest[*end..].chars().skip_while(|c| ",;:.!?".contains(*c));
        after.next().is_none_or(char::is_whitespace)
    })
}

fn without_courtesy<'t, 's>(mut tokens: &'t [Token<'s>]) -> &'t [Token<'s>] {
    let is = |tokens: &[Token<'_>], words: &str| {
        tokens.iter().map(|token| if token.quoted { "" } else { token.lower.as_str() }).eq(words.split(' '))
    };
    loop {
        let length = |words: &str| words.split(' ').count();
        let before = BEFORE.iter().find(|words| {
            let count = length(words);
            tokens.len() > count && is(&tokens[..count], words)
        });
        if let Some(words) = before {
            tokens = &tokens[length(words)..];
            continue;
        }
        let after = AFTER.iter().find(|words| {
            let count = length(words);
            tokens.len() > count && is(&tokens[tokens.len() - count..], words)
        });
        match after {
            Some(words) => tokens = &tokens[..tokens.len() - length(words)],
            None => return tokens,
        }
    }
}

/// A piece of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Words(Vec<&'static str>),
    Slot(Slot),
    Optional(Vec<Node>),
}

/// Reads a form. Groups do not nest.
fn nodes(form: &'static str) -> Vec<Node> {
    let node = |word: &'static str| match SLOTS.iter().find(|(_, name, _)| *name == word) {
        Some((slot, ..)) => Node::Slot(*slot),
        None => Node::Words(word.split('/').collect()),
    };
    let mut nodes = Vec::new();
    let mut group: Option<Vec<Node>> = None;
    for word in form.split(' ') {
        let opened = word.strip_prefix('[');
        let word = opened.unwrap_or(word);
        let closed = word.strip_suffix(']');
        let word = closed.unwrap_or(word);
        if opened.is_some() {
            group = Some(Vec::new());
        }
        group.as_mut().unwrap_or(&mut nodes).push(node(word));
        if closed.is_some()
            && let Some(group) = group.take()
        {
            nodes.push(Node::Optional(group));
        }
    }
    nodes
}

#[derive(Default)]
struct Found {
    filled: Vec<Filled>,
    words: Vec<&'static str>,
}

struct Said<'a> {
    source: &'a str,
    tokens: &'a [Token<'a>],
}

impl Said<'_> {
    /// Whether the tokens from `at` on are what the nodes say, all of them.
    fn matches(&self, nodes: &[&Node], at: usize, found: &mut Found) -> bool {
        let Some((node, rest)) = nodes.split_first() else { return at == self.tokens.len() };
        match node {
            Node::Words(words) => {
                let Some(token) = self.tokens.get(at).filter(|token| !token.quoted) else { return false };
                let Some(word) = words.iter().find(|word| **word == token.lower) else { return false };
                found.words.push(word);
                if self.matches(rest, at + 1, found) {
                    return true;
                }
                found.words.pop();
                false
            }
            Node::Optional(group) => {
                let with: Vec<&Node> = group.iter().chain(rest.iter().copied()).collect();
                self.matches(&with, at, found) || self.matches(rest, at, found)
            }
            Node::Slot(slot) => self.fillings(*slot, at).into_iter().any(|(length, filled)| {
                found.filled.push(filled);
                if self.matches(rest, at + length, found) {
                    return true;
                }
                found.filled.pop();
                false
            }),
        }
    }

    /// What a slot can take from here on, and how many tokens that is.
    fn fillings(&self, slot: Slot, at: usize) -> Vec<(usize, Filled)> {
        let rest = self.tokens.get(at..).unwrap_or_default();
        let Some(first) = rest.first() else { return Vec::new() };
        match slot {
            Slot::Kind => self.kind(at).map(|sort| (1, Filled::Kind(sort))).into_iter().collect(),
            Slot::Name => {
                let dotted = first.text.contains('.') && first.text.chars().any(|c| c != '.');
                let name = (dotted || is_glob(first.text)).then(|| (1, Filled::Name(first.text.to_owned())));
                name.into_iter().collect()
            }
            Slot::Path => self.paths(at).into_iter().map(|(length, path)| (length, Filled::Path(path))).collect(),
            Slot::File => self.files(at).into_iter().map(|(length, file)| (length, Filled::File(file))).collect(),
            Slot::Place => self.places(at).into_iter().map(|(length, place)| (length, Filled::Place(place))).collect(),
            Slot::Number => number(first).map(|number| (1, Filled::Number(number))).into_iter().collect(),
            Slot::Text => (1..=rest.len()).map(|length| (length, Filled::Text(self.text(at, length)))).collect(),
            Slot::Expression => {
                let from = self.source.get(first.start..).unwrap_or_default();
                let to = rest.last().map_or(0, |last| last.end.saturating_sub(first.start));
                let expression = expression(from.get(..to).unwrap_or_default());
                expression.map(|expression| (rest.len(), Filled::Expression(expression))).into_iter().collect()
            }
            Slot::Command => vec![(rest.len(), Filled::Command(self.command(at)))],
        }
    }

    fn kind(&self, at: usize) -> Option<Sort> {
        self.tokens.get(at).filter(|token| !token.quoted).and_then(|token| Sort::parse(token.text))
    }

    fn word(&self, at: usize) -> &str {
        self.tokens.get(at).filter(|token| !token.quoted).map_or("", |token| token.lower.as_str())
    }

    fn named(&self, at: usize) -> Option<String> {
        let token = self.tokens.get(at)?;
        let is_name = !token.text.is_empty() && (token.quoted || !NO_NAMES.contains(&token.lower.as_str()));
        is_name.then(|| token.text.to_owned())
    }

    fn paths(&self, at: usize) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        let article = usize::from(matches!(self.word(at), "the" | "this" | "my"));
        if self.word(at) == "here" {
            return vec![(1, ".".to_owned())];
        }
        if article == 1 && FOLDERS.contains(&self.word(at + 1)) {
            found.extend(self.named(at + 2).map(|name| (3, name)));
            found.push((2, ".".to_owned()));
        }
        if let Some(name) = self.named(at + article) {
            if FOLDERS.contains(&self.word(at + article + 1)) {
                found.push((article + 2, name.clone()));
            }
            if FOLDERS.contains(&self.word(at)) {
                found.extend(self.named(at + 1).map(|name| (2, name)));
            }
            if article == 0 {
                found.push((1, name));
            }
        }
        found
    }

    fn files(&self, at: usize) -> Vec<(usize, String)> {
        let article = usize::from(self.word(at) == "the");
        if self.word(at + article) == "file" {
            return self.named(at + article + 1).map(|name| (article + 2, name)).into_iter().collect();
        }
        let mut found = Vec::new();
        if let Some(name) = self.named(at + article) {
            if self.word(at + article + 1) == "file" {
                found.push((article + 2, name.clone()));
            }
            found.push((article + 1, name));
        }
        found
    }

    fn places(&self, at: usize) -> Vec<(usize, Place)> {
        let mut sorts = Vec::new();
        let mut from = at;
        while matches!(self.word(from), "all" | "the" | "every" | "of") {
            from += 1;
        }
        if let Some(sort) = self.kind(from).filter(|_| matches!(self.word(from + 1), "file" | "files")) {
            sorts.push((from + 2 - at, sort));
        } else if matches!(self.word(from), "files") {
            sorts.push((from + 1 - at, Sort { called: String::new(), glob: "**/*".to_owned() }));
        }
        if let Some(token) = self.tokens.get(at).filter(|token| is_glob(token.text)) {
            sorts.push((1, Sort { called: format!("`{}`", token.text), glob: token.text.to_owned() }));
        }
        let mut found = Vec::new();
        for (length, sort) in sorts {
            if matches!(self.word(at + length), "in" | "under") {
                found.extend(
                    self.paths(at + length + 1)
                        .into_iter()
                        .map(|(more, path)| (length + 1 + more, Place { path: Some(path), sort: Some(sort.clone()) })),
                );
            }
            found.push((length, Place { path: None, sort: Some(sort) }));
        }
        let plain = self.paths(at).into_iter().chain(self.files(at));
        let plain = plain.filter(|(_, path)| !is_glob(path));
        found.extend(plain.map(|(length, path)| (length, Place { path: Some(path), sort: None })));
        found
    }

    fn text(&self, at: usize, length: usize) -> String {
        match self.tokens.get(at..at + length).unwrap_or_default() {
            [_] => {
                let tokens = &self.tokens[at..];
                words_of(self.source, tokens).into_iter().next().unwrap_or_default()
            }
            [first, .., last] => self.source.get(first.start..last.end).unwrap_or_default().to_owned(),
            [] => String::new(),
        }
    }

    /// A program and its arguments; one that is quoted whole is taken apart.
    fn command(&self, at: usize) -> Vec<String> {
        let tokens = self.tokens.get(at..).unwrap_or_default();
        match tokens {
            [one] if one.quoted => match self::tokens(one.text) {
                Some(inner) => words_of(one.text, &inner),
                None => vec![one.text.to_owned()],
            },
            tokens => words_of(self.source, tokens),
        }
    }
}

/// Words as they were written: only behind the last one is punctuation of the sentence.
fn words_of(source: &str, tokens: &[Token<'_>]) -> Vec<String> {
    let last = tokens.len().saturating_sub(1);
    let word = |(at, token): (usize, &Token<'_>)| match source.get(token.start..) {
        Some(rest) if !token.quoted && at < last => {
            rest.split(char::is_whitespace).next().unwrap_or_default().to_owned()
        }
        _ => token.text.to_owned(),
    };
    tokens.iter().enumerate().map(word).collect()
}

fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '{', '['])
}

fn number(token: &Token<'_>) -> Option<u64> {
    let word = NUMBERS.iter().position(|word| *word == token.lower).map(|number| number as u64);
    word.or_else(|| token.lower.parse().ok())
}

/// An expression in the calculator's own signs, if it is one.
fn expression(text: &str) -> Option<String> {
    let mut written = format!(" {} ", text.trim().trim_end_matches(['?', '=', '!', ' ']).to_lowercase());
    for (word, sign) in OPERATORS {
        let word = format!(" {word} ");
        while let Some(at) = written.find(&word) {
            written.replace_range(at..at + word.len(), &format!(" {sign} "));
        }
    }
    let written = written.trim().to_owned();
    let signs = "+-*/%^().,_×·÷−– ";
    let allowed = written.chars().all(|c| c.is_ascii_alphanumeric() || signs.contains(c));
    let words = written.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').filter(|word| !word.is_empty());
    let sensible = |word: &str| {
        let begins_as_number = word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let letters = word.chars().filter(char::is_ascii_alphabetic).collect::<String>();
        if begins_as_number { letters.is_empty() || letters == "e" } else { FUNCTIONS.contains(&word) }
    };
    let has_number = written.contains(|c: char| c.is_ascii_digit());
    (allowed && has_number && words.into_iter().all(sensible)).then_some(written)
}

#[cfg(test)]
#[path = "phrase_tests.rs"]
mod tests;
