//! The one place of the program that prints.
//!
//! What was asked for goes to standard output; everything about it (progress, tool calls, hints) goes to standard
//! error, so that `placet run … > answer.txt` keeps the answer alone. A reader that closes the pipe ends the output
//! quietly.

use crate::args::ColorChoice;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

/// The first thing that went wrong with printing what was asked for. One process has one standard output, so this is its.
static FAILED: OnceLock<String> = OnceLock::new();

/// What kept the output from being written, if anything did.
pub(crate) fn failed() -> Option<&'static str> {
    FAILED.get().map(String::as_str)
}

/// Where the program prints, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
    color_out: bool,
    color_err: bool,
}

/// What a colour means, everywhere in the program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tone {
    /// Not the thing itself: ids, times, costs.
    Quiet,
    /// A name to look at.
    Strong,
    /// It went as it should.
    Good,
    /// The answer was no.
    Warn,
    /// It went wrong.
    Bad,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Tone::Quiet => "2",
            Tone::Strong => "1",
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
        }
    }
}

impl Output {
    pub(crate) fn new(json: bool, color: ColorChoice, no_color: bool) -> Self {
        let colored = |terminal: bool| match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !no_color,
        };
        Output { json, color_out: colored(io::stdout().is_terminal()), color_err: colored(io::stderr().is_terminal()) }
    }

    /// Text to standard output, as it is.
    pub(crate) fn out(&self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Bytes to standard output, as they are: a piece of a text may end within a character.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        match io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()) {
            // A closed pipe is the reader's way of saying "enough".
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                FAILED.get_or_init(|| format!("the output cannot be written: {error}"));
            }
            _ => {}
        }
    }

    /// A line to standard output.
    pub(crate) fn line(&self, text: &str) {
        self.out(&format!("{text}\n"));
    }

    /// A value to standard output, as one line of JSON.
    pub(crate) fn json_line(&self, value: &impl serde::Serialize) {
        if let Ok(text) = serde_json::to_string(value) {
            self.line(&text);
        }
    }

    /// A line to standard error.
    pub(crate) fn note(&self, text: &str) {
        let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
    }

    /// `text` in the colour of `tone`, for standard output.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        painted(self.color_out, tone, text)
    }

    /// `text` in the colour of `tone`, for standard error.
    pub(crate) fn paint_note(&self, tone: Tone, text: &str) -> String {
        painted(self.color_err, tone, text)
    }
}

fn painted(on: bool, tone: Tone, text: &str) -> String {
    if on { format!("\x1b[{}m{text}\x1b[0m", tone.code()) } else { text.to_owned() }
}

/// Text that came from a model, a tool or a file, made safe for a terminal: control characters but newline and tab are
/// shown, never obeyed.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => safe.push(letter),
            // C0, DEL, C1, and the marks that reorder what is shown.
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                safe.extend(letter.escape_unicode());
            }
            other => safe.push(other),
        }
    }
    safe
}

/// JSON that holds texts of a model, made safe for a terminal: what would be obeyed is escaped, and stays the same value.
pub(crate) fn printable_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '\u{7f}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                safe.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            other => safe.push(other),
        }
    }
    safe
}

/// The first line of a text, cut to `width` characters, with a mark where something was left out.
pub(crate) fn headline(text: &str, width: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let more = text.lines().nth(1).is_some();
    let mut short: String = printable(line).chars().take(width).collect();
    if more || line.chars().count() > width {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_never_driven_by_what_a_tool_returns() {
        assert_eq!(printable("a\x1b[2Jb\r\u{202e}c\n"), "a\\u{1b}[2Jb\\u{d}\\u{202e}c\n");
    }

    #[test]
    fn json_is_the_same_value_when_it_is_safe() {
        let value = serde_json::json!({"a": "\x1b[2J\u{9b}\u{202e}é"});
        let safe = printable_json(&serde_json::to_string_pretty(&value).unwrap_or_default());
        assert!(safe.contains("\\u001b") && safe.contains("\\u009b") && safe.contains("\\u202e") && safe.contains('é'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).ok(), Some(value));
    }

    #[test]
    fn a_headline_says_that_it_is_cut() {
        assert_eq!(headline("one", 10), "one");
        assert_eq!(headline("one\ntwo", 10), "one…");
        assert_eq!(headline("abcdef", 3), "abc…");
    }
}
