//! A look at a shell script: which commands stand in it. Enough for a seatbelt, far from a shell.

/// One command of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Simple {
    /// The words, quotes taken off. What the shell would fill in stays as it is written: `$HOME`, `$()` for a command.
    pub(crate) words: Vec<String>,
    /// Where its output and input are redirected to.
    pub(crate) redirects: Vec<String>,
    /// Scripts in it whose output it takes: `$(…)`, backquotes, `<(…)`.
    pub(crate) inner: Vec<String>,
}

impl Simple {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.redirects.is_empty() && self.inner.is_empty()
    }
}

/// Commands whose output is the next one's input.
pub(crate) type Pipeline = Vec<Simple>;

/// Words that begin or end something at the place where a command stands.
const RESERVED: &[&str] =
    &["if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "{", "}", "time", "esac", "coproc"];

/// The pipelines of a script, in order, those of all branches and functions.
pub(crate) fn pipelines(text: &str) -> Vec<Pipeline> {
    let mut reader = Reader { chars: text.chars().collect(), ..Reader::default() };
    reader.read();
    reader.pipelines
}

#[derive(Default)]
struct Reader {
    chars: Vec<char>,
    at: usize,
    word: Option<String>,
    simple: Simple,
    pipeline: Pipeline,
    pipelines: Vec<Pipeline>,
    /// The next word is where something is redirected to.
    redirects: bool,
    /// The next word ends a text that stands below.
    ends_text: bool,
    texts: Vec<String>,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn read(&mut self) {
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '\\' => {
                    if let Some(next) = self.peek(0) {
                        self.at += 1;
                        if next != '\n' {
                            self.push(next);
                        }
                    }
                }
                '\'' => {
                    self.word.get_or_insert_default();
                    while let Some(c) = self.peek(0) {
                        self.at += 1;
                        if c == '\'' {
                            break;
                        }
                        self.push(c);
                    }
                }
                '"' => self.quoted(),
                '`' => self.backquoted(),
                '$' if self.peek(0) == Some('(') => self.substituted('$'),
                '<' | '>' if self.peek(0) == Some('(') => self.substituted(c),
                '#' if self.word.is_none() => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '\n' => {
                    self.end_pipeline();
                    self.skip_texts();
                }
                c if c.is_whitespace() => self.end_word(),
                ';' | '(' | ')' => self.end_pipeline(),
                '&' if self.peek(0) == Some('>') => self.end_word(),
                '&' => self.end_pipeline(),
                '|' if self.peek(0) == Some('|') => {
                    self.at += 1;
                    self.end_pipeline();
                }
                '|' => {
                    if self.peek(0) == Some('&') {
                        self.at += 1;
                    }
                    self.end_simple();
                }
                '<' | '>' => self.redirect(c),
                c => self.push(c),
            }
        }
        self.end_pipeline();
    }

    fn quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '"' => break,
                '\\' => {
                    if let Some(next) = self.peek(0) {
                        self.at += 1;
                        self.push(next);
                    }
                }
                '`' => self.backquoted(),
                '$' if self.peek(0) == Some('(') => self.substituted('$'),
                c => self.push(c),
            }
        }
    }

    fn backquoted(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(|c| c != '`') {
            self.at += 1;
        }
        self.simple.inner.push(self.chars[start..self.at].iter().collect());
        self.at += 1;
        self.word.get_or_insert_default().push_str("$()");
    }

    /// From the opening parenthesis to the one that closes it.
    fn substituted(&mut self, mark: char) {
        self.at += 1;
        let start = self.at;
        let (mut depth, mut quote) = (1_usize, None);
        while let Some(c) = self.peek(0) {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"') => quote = Some(c),
                (None, '(') => depth += 1,
                (None, ')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            self.at += 1;
        }
        self.simple.inner.push(self.chars[start..self.at.min(self.chars.len())].iter().collect());
        self.at += 1;
        self.word.get_or_insert_default().push_str(&format!("{mark}()"));
    }

    fn redirect(&mut self, c: char) {
        // The number of a descriptor is no word.
        if self.word.as_ref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        if c == '<' && self.peek(0) == Some('<') {
            self.at += 1;
            if self.peek(0) == Some('<') {
                // A text on the same line.
                self.at += 1;
                return;
            }
            if self.peek(0) == Some('-') {
                self.at += 1;
            }
            self.ends_text = true;
            return;
        }
        while matches!(self.peek(0), Some('>' | '|' | '&')) {
            self.at += 1;
        }
        self.redirects = true;
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.redirects) {
            self.simple.redirects.push(word);
        } else if std::mem::take(&mut self.ends_text) {
            self.texts.push(word);
        } else if self.simple.words.is_empty() && (RESERVED.contains(&word.as_str()) || is_assignment(&word)) {
            // What stands before a command.
        } else {
            self.simple.words.push(word);
        }
    }

    fn end_simple(&mut self) {
        self.end_word();
        let simple = std::mem::take(&mut self.simple);
        if !simple.is_empty() {
            self.pipeline.push(simple);
        }
    }

    fn end_pipeline(&mut self) {
        self.end_simple();
        if !self.pipeline.is_empty() {
            self.pipelines.push(std::mem::take(&mut self.pipeline));
        }
    }

    fn skip_texts(&mut self) {
        for end in std::mem::take(&mut self.texts) {
            while self.at < self.chars.len() {
                let start = self.at;
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
                let line: String = self.chars[start..self.at].iter().collect();
                self.at += 1;
                if line.trim_start_matches('\t') == end {
                    break;
                }
            }
        }
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.trim_end_matches('+').chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<Vec<Vec<String>>> {
        let words = |pipeline: Pipeline| pipeline.into_iter().map(|simple| simple.words).collect();
        pipelines(text).into_iter().map(words).collect()
    }

    #[test]
    fn a_script_is_taken_apart() {
        assert_eq!(
            words("a b | c; d && e || f & g"),
            [vec![vec!["a", "b"], vec!["c"]], vec![vec!["d"]], vec![vec!["e"]], vec![vec!["f"]], vec![vec!["g"]],]
        );
        assert_eq!(
            words("echo 'a; b' \"c | d\" e\\ f # g\nh"),
            [vec![vec!["echo", "a; b", "c | d", "e f"]], vec![vec!["h"]]]
        );
        assert_eq!(words("X=1 if true; then { a; }; fi"), [vec![vec!["true"]], vec![vec!["a"]]]);
        assert_eq!(words("cat <<EOF\nrm -rf /\nEOF\nls"), [vec![vec!["cat"]], vec![vec!["ls"]]]);
        assert_eq!(words("f() { x | f & }"), [vec![vec!["f"]], vec![vec!["x"], vec!["f"]]]);
        let found = pipelines("a \"$(b (c) ')')\" `d` <(e) >/dev/x 2>&1 <in");
        assert_eq!(found[0][0].inner, ["b (c) ')'", "d", "e"]);
        assert_eq!(found[0][0].redirects, ["/dev/x", "1", "in"]);
        assert_eq!(found[0][0].words, ["a", "$()", "$()", "<()"]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-c '\"\\\\`$()<>|&;#\n{}=-]{0,60}") {
            let _ = pipelines(&text);
        }
    }
}
