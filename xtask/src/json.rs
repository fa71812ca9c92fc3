//! Reads JSON, keeping numbers as they are written: prices must not pass through binary fractions.

use std::fmt;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// A number as it is written.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// A text is no JSON.
#[derive(Debug)]
pub(crate) struct NotJson {
    at: usize,
    expected: &'static str,
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no JSON at byte {}: expected {}", self.at, self.expected)
    }
}

impl Json {
    pub(crate) fn parse(text: &str) -> Result<Json, NotJson> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value()?;
        reader.space();
        if reader.at < text.len() { Err(reader.wrong("the end")) } else { Ok(value) }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<&str> {
        match self {
            Json::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> &[Json] {
        match self {
            Json::List(values) => values,
            _ => &[],
        }
    }

    pub(crate) fn fields(&self) -> &[(String, Json)] {
        match self {
            Json::Object(fields) => fields,
            _ => &[],
        }
    }
}

/// Written compactly.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(is) => write!(f, "{is}"),
            Json::Number(number) => f.write_str(number),
            Json::Text(text) => quoted(text, f),
            Json::List(values) => {
                f.write_str("[")?;
                for (place, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if place == 0 { "" } else { "," })?;
                }
                f.write_str("]")
            }
            Json::Object(fields) => {
                f.write_str("{")?;
                for (place, (key, value)) in fields.iter().enumerate() {
                    f.write_str(if place == 0 { "" } else { "," })?;
                    quoted(key, f)?;
                    write!(f, ":{value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for letter in text.chars() {
        match letter {
            '"' | '\\' => write!(f, "\\{letter}")?,
            '\n' => f.write_str("\\n")?,
            control if control < ' ' => write!(f, "\\u{:04x}", u32::from(control))?,
            other => write!(f, "{other}")?,
        }
    }
    f.write_str("\"")
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, expected: &'static str) -> NotJson {
        NotJson { at: self.at, expected }
    }

    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.text[self.at..].starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn value(&mut self) -> Result<Json, NotJson> {
        self.space();
        for (word, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))] {
            if self.take(word) {
                return Ok(value);
            }
        }
        match self.text[self.at..].chars().next() {
            Some('"') => self.string().map(Json::Text),
            Some('[') => self.many("]", Reader::value).map(Json::List),
            Some('{') => self.many("}", Reader::field).map(Json::Object),
            Some('-' | '0'..='9') => {
                let rest = &self.text[self.at..];
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(rest.len());
                self.at += end;
                Ok(Json::Number(rest[..end].to_owned()))
            }
            _ => Err(self.wrong("a value")),
        }
    }

    fn field(&mut self) -> Result<(String, Json), NotJson> {
        self.space();
        let key = self.string()?;
        self.space();
        if !self.take(":") {
            return Err(self.wrong("`:`"));
        }
        Ok((key, self.value()?))
    }

    fn many<T>(&mut self, end: &'static str, one: impl Fn(&mut Self) -> Result<T, NotJson>) -> Result<Vec<T>, NotJson> {
        self.at += 1;
        let mut found = Vec::new();
        self.space();
        if self.take(end) {
            return Ok(found);
        }
        loop {
            found.push(one(self)?);
            self.space();
            if self.take(end) {
                return Ok(found);
            }
            if !self.take(",") {
                return Err(self.wrong("`,` or the end of a list"));
            }
        }
    }

    fn string(&mut self) -> Result<String, NotJson> {
        if !self.take("\"") {
            return Err(self.wrong("`\"`"));
        }
        let mut text = String::new();
        loop {
            let Some(letter) = self.text[self.at..].chars().next() else { return Err(self.wrong("`\"`")) };
            self.at += letter.len_utf8();
            match letter {
                '"' => return Ok(text),
                '\\' => text.push(self.escape()?),
                other => text.push(other),
            }
        }
    }

    fn escape(&mut self) -> Result<char, NotJson> {
        let Some(letter) = self.text[self.at..].chars().next() else { return Err(self.wrong("an escape")) };
        self.at += letter.len_utf8();
        Ok(match letter {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let code = self.text.get(self.at..self.at + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                self.at += 4;
                code.and_then(char::from_u32).ok_or_else(|| self.wrong("a character"))?
            }
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_as_they_are_written() {
        let text = r#"{"a":[1.25e-06,-3,true,null],"b":{"c":"d\"\né"}}"#;
        let value = Json::parse(text).unwrap_or(Json::Null);
        assert_eq!(value.to_string(), text);
        assert_eq!(value.get("a").map(|list| list.list()[0].number()), Some(Some("1.25e-06")));
        for wrong in ["", "{", "[1,]", "{\"a\"}", "1 2", "\"a", "nul"] {
            assert!(Json::parse(wrong).is_err(), "{wrong}");
        }
    }
}
