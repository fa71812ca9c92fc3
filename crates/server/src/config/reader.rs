//! Reading a TOML document by hand, so that everything that is wrong with it is told at once, each with its line.

use placet_core::Secret;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The setting, as a path such as `providers.openai.base_url`; empty where it is about the document.
    pub setting: String,
    /// What is wrong and what was expected.
    pub problem: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if !self.setting.is_empty() {
            write!(f, "`{}`: ", self.setting)?;
        }
        f.write_str(&self.problem)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// A document that is being read, and what was found wrong with it.
pub(super) struct Reading<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
}

impl<'t> Reading<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Reading { text, problems: RefCell::new(Vec::new()) }
    }

    pub(super) fn line(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
    }

    pub(super) fn problem(
        &self,
        at: usize,
        setting: impl Into<String>,
        problem: impl Into<String>,
        hint: Option<String>,
    ) {
        let problem = Problem { line: self.line(at), setting: setting.into(), problem: problem.into(), hint };
        self.problems.borrow_mut().push(problem);
    }

    /// Everything that was found, in the order of the lines.
    pub(super) fn finish(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        problems
    }
}

/// A value with the place it stands at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) at: usize,
}

/// One table of a document.
pub(super) struct Table<'r, 't> {
    reading: &'r Reading<'t>,
    table: &'r DeTable<'t>,
    span: Range<usize>,
    path: String,
    /// Every setting that was asked for, whether it is there or not.
    known: RefCell<BTreeSet<&'static str>>,
}

impl<'r, 't> Table<'r, 't> {
    pub(super) fn new(reading: &'r Reading<'t>, table: &'r Spanned<DeTable<'t>>) -> Self {
        let path = String::new();
        Table { reading, table: table.get_ref(), span: table.span(), path, known: RefCell::default() }
    }

    pub(super) fn at(&self) -> usize {
        self.span.start
    }

    pub(super) fn path(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            ("", key) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, key) => format!("{path}.{key}"),
        }
    }

    pub(super) fn wrong(&self, at: usize, key: &str, problem: impl Into<String>, hint: Option<&str>) {
        self.reading.problem(at, self.path(key), problem, hint.map(str::to_owned));
    }

    fn get(&self, key: &'static str) -> Option<&'r Spanned<DeValue<'t>>> {
        self.known.borrow_mut().insert(key);
        self.table.get(key)
    }

    /// Where a setting stands, or else the table.
    pub(super) fn place(&self, key: &'static str) -> usize {
        self.get(key).map_or(self.at(), |value| value.span().start)
    }

    pub(super) fn has(&self, key: &'static str) -> bool {
        self.get(key).is_some()
    }

    fn mistyped<T>(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) -> Option<T> {
        let problem = format!("expected {expected}, got {}", value.get_ref().type_str());
        self.wrong(value.span().start, key, problem, None);
        None
    }

    /// A text that is not empty.
    pub(super) fn text(&self, key: &'static str) -> Option<At<String>> {
        let value = self.get(key)?;
        match value.get_ref().as_str() {
            Some(text) if !text.trim().is_empty() => Some(At { value: text.to_owned(), at: value.span().start }),
            Some(_) => {
                self.wrong(value.span().start, key, "expected a text, got an empty one", Some("leave the line out"));
                None
            }
            None => self.mistyped(key, value, "a text in quotes"),
        }
    }

    pub(super) fn flag(&self, key: &'static str) -> Option<bool> {
        let value = self.get(key)?;
        value.get_ref().as_bool().or_else(|| self.mistyped(key, value, "true or false"))
    }

    /// A whole number from `least` on.
    pub(super) fn count(&self, key: &'static str, least: u64) -> Option<u64> {
        let value = self.get(key)?;
        let number = value
            .get_ref()
            .as_integer()
            .and_then(|integer| u64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok());
        match number {
            Some(number) if number >= least => Some(number),
            _ => {
                self.wrong(value.span().start, key, format!("expected a whole number from {least} on"), None);
                None
            }
        }
    }

    /// A whole number within bounds.
    pub(super) fn number(&self, key: &'static str, least: u64, most: u64) -> Option<u64> {
        let number = self.count(key, least)?;
        if number > most {
            self.wrong(self.place(key), key, format!("expected a whole number from {least} to {most}"), None);
        }
        Some(number.min(most))
    }

    /// A span of time: `250ms`, `90s`, `5m`, `1h`, `7d`.
    pub(super) fn span(&self, key: &'static str) -> Option<Duration> {
        let value = self.get(key)?;
        let wrong = |problem: &str, hint: &str| {
            self.wrong(value.span().start, key, problem, Some(hint));
            None
        };
        match value.get_ref() {
            DeValue::String(text) if text.trim().parse::<u64>().is_ok() => {
                wrong("it has no unit", &format!("write for example \"{0}s\" or \"{0}ms\"", text.trim()))
            }
            DeValue::String(text) => duration(text).or_else(|| {
                wrong("expected a span of time", "write for example \"250ms\", \"90s\", \"5m\", \"1h\" or \"7d\"")
            }),
            DeValue::Integer(number) => wrong(
                "expected a span of time, got a bare number",
                &format!("write for example \"{0}s\" or \"{0}ms\"", number.as_str()),
            ),
            _ => wrong("expected a span of time in quotes", "write for example \"250ms\", \"90s\", \"5m\" or \"1h\""),
        }
    }

    /// A span of time that is longer than none.
    pub(super) fn some_span(&self, key: &'static str) -> Option<Duration> {
        let read = self.span(key)?;
        if read.is_zero() {
            let hint = "leave the line out for the usual span";
            self.wrong(self.place(key), key, "nothing can be done in no time", Some(hint));
        }
        Some(read)
    }

    /// A number of bytes: `64KB`, `32MB`, or a whole number.
    pub(super) fn bytes(&self, key: &'static str) -> Option<usize> {
        let value = self.get(key)?;
        let read = match value.get_ref() {
            DeValue::String(text) => size(text),
            DeValue::Integer(bytes) => bytes.as_str().parse().ok(),
            _ => None,
        };
        if read.is_none() {
            self.wrong(value.span().start, key, "expected a size", Some("write for example \"64KB\" or \"32MB\""));
        }
        read
    }

    /// A list of texts; one text counts as a list of one.
    pub(super) fn texts(&self, key: &'static str) -> Option<Vec<At<String>>> {
        let value = self.get(key)?;
        if let Some(text) = value.get_ref().as_str() {
            return Some(vec![At { value: text.to_owned(), at: value.span().start }]);
        }
        let Some(list) = value.get_ref().as_array() else { return self.mistyped(key, value, "a list of texts") };
        let mut texts = Vec::with_capacity(list.len());
        for one in list.iter() {
            match one.get_ref().as_str() {
                Some(text) => texts.push(At { value: text.to_owned(), at: one.span().start }),
                None => {
                    let _: Option<()> = self.mistyped(key, one, "a text in quotes");
                }
            }
        }
        Some(texts)
    }

    /// A table below this one.
    pub(super) fn table(&self, key: &'static str) -> Option<Table<'r, 't>> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(self.below(key, table, value.span())),
            _ => self.mistyped(key, value, "a table"),
        }
    }

    fn below(&self, key: &str, table: &'r DeTable<'t>, span: Range<usize>) -> Table<'r, 't> {
        Table { reading: self.reading, table, span, path: self.path(key), known: RefCell::default() }
    }

    /// The tables below a key, by their names: `[providers.openai]`.
    pub(super) fn named(&self, key: &'static str) -> Vec<(At<String>, Table<'r, 't>)> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let DeValue::Table(tables) = value.get_ref() else {
            let _: Option<()> = self.mistyped(key, value, "tables with names");
            return Vec::new();
        };
        let mut found = Vec::new();
        for (name, value) in tables.iter() {
            let path = format!("{key}.{}", name.get_ref());
            let at = name.span().start;
            match value.get_ref() {
                DeValue::Table(table) => {
                    let name = At { value: name.get_ref().clone().into_owned(), at };
                    self.check_name(key, &name, &path);
                    // A table's own place is that of its header, which its name shows.
                    found.push((name, self.below(&path, table, at..at)));
                }
                _ => self.wrong(at, &path, format!("expected a table, got {}", value.get_ref().type_str()), None),
            }
        }
        found
    }

    /// A name stands in lists, headers and the ledger, and clients write it.
    fn check_name(&self, section: &str, name: &At<String>, path: &str) {
        let is_for_people = matches!(section, "keys" | "capabilities");
        let problem = if name.value.trim().is_empty() {
            "the name is empty"
        } else if name.value.chars().any(char::is_control) {
            "the name holds a control character"
        } else if !is_for_people && name.value.contains(char::is_whitespace) {
            "the name holds a space"
        } else if section == "providers" && name.value.contains(':') {
            "the name holds a colon, which ends a provider's name in a reference to its models"
        } else {
            return;
        };
        self.wrong(name.at, path, problem, Some("take letters, digits, `-`, `_` and `.`"));
    }

    /// The texts and tables below a key, by their names: `headers = { name = "value" }`.
    pub(super) fn map(&self, key: &'static str) -> Vec<(At<String>, Element<'r, 't>)> {
        let Some(table) = self.table(key) else { return Vec::new() };
        let mut found = Vec::new();
        for (name, value) in table.table.iter() {
            let own = At { value: name.get_ref().clone().into_owned(), at: name.span().start };
            match value.get_ref() {
                DeValue::String(text) => {
                    found.push((own, Element::Text(At { value: text.clone().into_owned(), at: value.span().start })));
                }
                DeValue::Table(below) => {
                    let below = table.below(name.get_ref(), below, value.span());
                    found.push((own, Element::Table(below)));
                }
                _ => {
                    let _: Option<()> = table.mistyped(name.get_ref(), value, "a text in quotes");
                }
            }
        }
        found
    }

    /// A list whose elements are texts or tables.
    pub(super) fn list(&self, key: &'static str) -> Vec<Element<'r, 't>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let Some(list) = value.get_ref().as_array() else {
            let _: Option<()> = self.mistyped(key, value, "a list");
            return Vec::new();
        };
        let mut found = Vec::new();
        for (index, one) in list.iter().enumerate() {
            match one.get_ref() {
                DeValue::String(text) => {
                    found.push(Element::Text(At { value: text.clone().into_owned(), at: one.span().start }));
                }
                DeValue::Table(table) => {
                    found.push(Element::Table(self.below(&format!("{key}[{index}]"), table, one.span())));
                }
                _ => {
                    let _: Option<()> = self.mistyped(key, one, "a text or a table");
                }
            }
        }
        found
    }

    /// Where the tables below this one stand, by section and name.
    pub(super) fn places(&self) -> std::collections::BTreeMap<(String, String), usize> {
        let mut places = std::collections::BTreeMap::new();
        for (section, value) in self.table.iter() {
            for (name, _) in value.get_ref().as_table().into_iter().flat_map(|table| table.iter()) {
                let key = (section.get_ref().clone().into_owned(), name.get_ref().clone().into_owned());
                places.insert(key, name.span().start);
            }
        }
        places
    }

    /// Tells of every setting that nobody asked for.
    pub(super) fn finish(self) {
        self.unknown();
    }

    /// As [`Table::finish`], for a table that is still needed.
    pub(super) fn unknown(&self) {
        let known = self.known.borrow();
        for (name, value) in self.table.iter() {
            let name_text: &str = name.get_ref();
            if known.contains(name_text) {
                continue;
            }
            let near = known.iter().map(|word| (distance(name_text, word), *word)).min();
            let hint = match near {
                Some((distance, word)) if distance <= 2.max(name_text.len() / 3) => format!("did you mean `{word}`?"),
                _ => format!("known here are {}", known.iter().copied().collect::<Vec<_>>().join(", ")),
            };
            let at = if self.path.is_empty() { name.span().start } else { name.span().start.min(value.span().start) };
            self.reading.problem(at, self.path(name_text), "there is no such setting", Some(hint));
        }
    }
}

/// An element of a list.
pub(super) enum Element<'r, 't> {
    Text(At<String>),
    Table(Table<'r, 't>),
}

/// How a secret is named in a configuration; it never stands there itself.
pub(super) fn secret(
    table: &Table<'_, '_>,
    lookup: &placet_models::Lookup,
    base: &std::path::Path,
) -> Option<At<Secret>> {
    if table.has("key") {
        let at = table.at();
        let hint = "put it into an environment variable and name that in `key_env`, or into a file and name that in `key_file`";
        table.wrong(at, "key", "a credential must not stand in the configuration", Some(hint));
    }
    let by_name = table.text("key_env");
    let by_file = table.text("key_file");
    match (by_name, by_file) {
        (Some(name), Some(_)) => {
            table.wrong(name.at, "key_env", "there is a `key_file` too, expected one of them", None);
            None
        }
        (Some(name), None) => match lookup(&name.value).map(|value| value.trim().to_owned()) {
            Some(value) if !value.is_empty() => Some(At { value: Secret::new(&name.value, value), at: name.at }),
            _ => {
                let hint = format!("set {} before the gateway is started", name.value);
                table.wrong(name.at, "key_env", format!("the variable {} is not set", name.value), Some(&hint));
                None
            }
        },
        (None, Some(file)) => match std::fs::read_to_string(base.join(&file.value)) {
            Ok(text) if !text.trim().is_empty() => {
                Some(At { value: Secret::new(&file.value, text.trim().to_owned()), at: file.at })
            }
            Ok(_) => {
                table.wrong(file.at, "key_file", "the file is empty, expected a key", None);
                None
            }
            Err(error) => {
                table.wrong(file.at, "key_file", format!("{} cannot be read: {error}", file.value), None);
                None
            }
        },
        (None, None) => None,
    }
}

/// Texts without their places.
pub(super) fn plain(texts: Option<Vec<At<String>>>) -> Vec<String> {
    texts.unwrap_or_default().into_iter().map(|text| text.value).collect()
}

/// Reads `250ms`, `90s`, `5m`, `1h`, `7d`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let count: u64 = digits.parse().ok()?;
    let millis = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    count.checked_mul(millis).map(Duration::from_millis)
}

/// Reads `64KB`, `32MB`, `1GB`; units of 1024.
fn size(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic() || letter == ' ');
    let count: usize = digits.parse().ok()?;
    let unit = match text[digits.len()..].trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => return None,
    };
    count.checked_mul(unit)
}

/// How many letters have to be changed, added or removed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let here = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], here);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_are_read_with_their_unit() {
        for (text, millis) in [("250ms", 250), ("90s", 90_000), ("5m", 300_000), ("1h", 3_600_000), ("7d", 604_800_000)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)));
        }
        for (text, bytes) in [("64KB", 65_536), ("32 MB", 33_554_432), ("1G", 1 << 30), ("10", 10)] {
            assert_eq!(size(text), Some(bytes));
        }
        assert_eq!(duration("7"), None);
        for text in ["", "s", "-1s", "1.5h", "1 day", "KB", "99999999999999999999"] {
            assert_eq!((duration(text), size(text)), (None, None), "{text}");
        }
    }

    #[test]
    fn a_near_word_is_found() {
        assert_eq!(distance("base_ulr", "base_url"), 2);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
