//! Reading a body into nodes that borrow from it.

use crate::surrogates;
use placet_core::json_text::{JsonText, SharedText};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// As deep as `serde_json` reads.
const DEEPEST: u8 = 127;
/// Up to how many fields an object is searched field by field for two of one name.
const FEW: usize = 16;

/// Up to how many letters a number is held exactly, however it is written.
const MOST_DIGITS: usize = 15;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    Number(Number),
    /// A number of which a [`Number`] would lose digits, as it is written.
    Digits(&'a str),
    Text(Text<'a>),
    List(Vec<Node<'a>>),
    Object(Fields<'a>),
    /// A schema, which is only looked through.
    Schema(Schema<'a>),
}

/// An object as it stands in the body, which is as we would write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Schema<'a> {
    pub(crate) text: &'a str,
    /// Whether it has the fields `type` and `properties`.
    pub(crate) is_typed: bool,
}

/// Fields that hold schemas.
const SCHEMAS: [&str; 3] = ["parameters", "input_schema", "parametersJsonSchema"];

/// A text: as it stands in the body, or, where something in it is escaped, to be made of it.
#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    /// What stands between the quotes, and the body.
    There(&'a str, &'a Arc<str>),
    Made(SharedText),
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Text<'_> {
    fn as_str(&self) -> &str {
        match self {
            Text::There(text, _) => text,
            Text::Made(text) => text,
        }
    }
}

/// The fields of an object, in their order; no two have the same name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields<'a> {
    fields: Vec<(Text<'a>, Node<'a>)>,
}

impl<'a> Fields<'a> {
    pub(crate) fn get(&self, key: &str) -> Option<&Node<'a>> {
        self.fields.iter().find(|(name, _)| name.as_str() == key).map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Node<'a>)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The text at `key`.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// Whether every field is one of these, or null.
    pub(crate) fn are_among(&self, known: &[&str]) -> bool {
        self.iter().all(|(name, value)| known.contains(&name) || *value == Node::Null)
    }

    /// The value at `key`, if there is one and it is not null.
    pub(crate) fn given(&self, key: &str) -> Option<&Node<'a>> {
        self.get(key).filter(|value| **value != Node::Null)
    }

    pub(crate) fn to_map(&self) -> Map<String, Value> {
        self.to_map_at("")
    }

    /// As [`Fields::to_map`], of an object that stands in a field called `place`.
    fn to_map_at(&self, place: &str) -> Map<String, Value> {
        let mut map = Map::with_capacity(self.fields.len());
        for (name, value) in self.iter() {
            let is_exact = self.are_arguments(place, name) && value.has_digits();
            let exact = is_exact.then(|| super::to_vec(value).ok().and_then(|json| String::from_utf8(json).ok()));
            let value = exact.flatten().map_or_else(|| value.to_value_at(name), Value::String);
            map.insert(name.to_owned(), value);
        }
        map
    }

    /// Whether a field holds the arguments of a call. They may be given as a text everywhere, which keeps all digits.
    fn are_arguments(&self, place: &str, name: &str) -> bool {
        match name {
            "args" => matches!(place, "functionCall" | "function_call"),
            "input" => self.text("type") == Some("tool_use"),
            "arguments" => matches!(place, "function" | "function_call") || self.text("type") == Some("function_call"),
            _ => false,
        }
    }
}

impl<'a> Node<'a> {
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Node::Text(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// The text, to be kept.
    pub(crate) fn shared(&self) -> Option<SharedText> {
        match self {
            Node::Text(Text::There(text, body)) => {
                Some(JsonText::around(body, text).map_or_else(|| (*text).into(), |text| text.held(body)))
            }
            Node::Text(Text::Made(text)) => Some(text.clone()),
            _ => None,
        }
    }

    pub(crate) fn as_list(&self) -> Option<&[Node<'a>]> {
        match self {
            Node::List(list) => Some(list),
            _ => None,
        }
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self, Node::Object(_) | Node::Schema(_))
    }

    /// The fields of an object that is no schema.
    pub(crate) fn as_fields(&self) -> Option<&Fields<'a>> {
        match self {
            Node::Object(fields) => Some(fields),
            _ => None,
        }
    }

    /// Whether there is a number in it that a `Value` would round.
    fn has_digits(&self) -> bool {
        match self {
            Node::Digits(_) => true,
            Node::List(list) => list.iter().any(Node::has_digits),
            Node::Object(fields) => fields.iter().any(|(_, value)| value.has_digits()),
            Node::Null | Node::Bool(_) | Node::Number(_) | Node::Text(_) | Node::Schema(_) => false,
        }
    }

    /// The value as a tree. Long numbers are rounded, but for the arguments of calls, which become a text then.
    pub(crate) fn to_value(&self) -> Value {
        self.to_value_at("")
    }

    fn to_value_at(&self, place: &str) -> Value {
        match self {
            Node::Null => Value::Null,
            Node::Bool(truth) => Value::Bool(*truth),
            Node::Number(number) => Value::Number(number.clone()),
            Node::Digits(digits) => serde_json::from_str(digits).unwrap_or_default(),
            Node::Text(text) => Value::from(text.as_str()),
            Node::List(list) => list.iter().map(Node::to_value).collect(),
            Node::Object(fields) => Value::Object(fields.to_map_at(place)),
            // It has been read once.
            Node::Schema(schema) => serde_json::from_str(schema.text).unwrap_or_default(),
        }
    }
}

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Node::Null => serializer.serialize_unit(),
            Node::Bool(truth) => serializer.serialize_bool(*truth),
            Node::Number(number) => number.serialize(serializer),
            Node::Digits(digits) => match serde_json::from_str::<&RawValue>(digits) {
                Ok(digits) => digits.serialize(serializer),
                Err(_) => self.to_value().serialize(serializer),
            },
            Node::Text(text) => serializer.serialize_str(text.as_str()),
            Node::List(list) => serializer.collect_seq(list),
            Node::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.fields.len()))?;
                for (name, value) in fields.iter() {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
            Node::Schema(_) => self.to_value().serialize(serializer),
        }
    }
}

/// Reads a body. Its longer texts hold it, so that they need not be copied.
///
/// # Errors
/// As `serde_json` gives them.
pub(crate) fn read(body: &Arc<str>) -> Result<Node<'_>, serde_json::Error> {
    let mut reader = Reader { text: body, at: 0, depth: 0, inexact: 0, names: Vec::new() };
    let read = reader.value().filter(|_| {
        reader.space();
        reader.at == body.len()
    });
    match read {
        Some(node) => Ok(node),
        // What is wrong, and where, in the words that everybody knows.
        None => serde_json::from_str::<Value>(body).map(|value| Node::from(&value)).or_else(|error| {
            // Halves of letters by themselves are no reason to refuse the rest.
            let repaired = surrogates::repaired(body);
            repaired.and_then(|text| serde_json::from_str::<Value>(&text).ok()).as_ref().map(Node::from).ok_or(error)
        }),
    }
}

impl From<&Value> for Node<'_> {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Node::Null,
            Value::Bool(truth) => Node::Bool(*truth),
            Value::Number(number) => Node::Number(number.clone()),
            Value::String(text) => Node::Text(Text::Made(text.into())),
            Value::Array(list) => Node::List(list.iter().map(Node::from).collect()),
            Value::Object(map) => {
                let fields = map.iter().map(|(key, value)| (Text::Made(key.into()), Node::from(value)));
                Node::Object(Fields { fields: fields.collect() })
            }
        }
    }
}

/// Reads values from a text; `None` is what is no JSON.
struct Reader<'a> {
    text: &'a Arc<str>,
    at: usize,
    depth: u8,
    /// How often so far there was space, or a field in an object that had one of its name.
    inexact: usize,
    /// The names of fields in the objects that are open, where those are only looked through.
    names: Vec<&'a str>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
            self.inexact += 1;
        }
    }

    /// Whether this byte comes next, which is then passed over.
    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn word(&mut self, word: &str, node: Node<'a>) -> Option<Node<'a>> {
        self.text.as_bytes().get(self.at..)?.starts_with(word.as_bytes()).then(|| self.at += word.len())?;
        Some(node)
    }

    fn value(&mut self) -> Option<Node<'a>> {
        self.space();
        match self.peek()? {
            b'"' => self.string().map(Node::Text),
            b'{' => self.within(Reader::object),
            b'[' => self.within(Reader::list),
            b'n' => self.word("null", Node::Null),
            b't' => self.word("true", Node::Bool(true)),
            b'f' => self.word("false", Node::Bool(false)),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        }
    }

    fn within(&mut self, read: impl FnOnce(&mut Self) -> Option<Node<'a>>) -> Option<Node<'a>> {
        self.depth += 1;
        let node = if self.depth <= DEEPEST { read(self) } else { None };
        self.depth -= 1;
        node
    }

    fn list(&mut self) -> Option<Node<'a>> {
        self.at += 1;
        let mut list = Vec::new();
        self.space();
        if self.takes(b']') {
            return Some(Node::List(list));
        }
        loop {
            list.push(self.value()?);
            self.space();
            if self.takes(b']') {
                return Some(Node::List(list));
            }
            self.takes(b',').then_some(())?;
        }
    }

    fn object(&mut self) -> Option<Node<'a>> {
        self.at += 1;
        let mut fields = Vec::new();
        self.space();
        if !self.takes(b'}') {
            loop {
                self.space();
                let name = self.string()?;
                self.space();
                self.takes(b':').then_some(())?;
                let is_schema = SCHEMAS.contains(&name.as_str()) && self.peek() == Some(b'{');
                let value = match is_schema.then(|| self.schema()).flatten() {
                    Some(schema) => Node::Schema(schema),
                    None => self.value()?,
                };
                fields.push((name, value));
                self.space();
                if self.takes(b'}') {
                    break;
                }
                self.takes(b',').then_some(())?;
            }
        }
        let fields = self.without_repeated(fields);
        Some(Node::Object(Fields { fields }))
    }

    /// A schema that is as we would write it; else nothing is read.
    fn schema(&mut self) -> Option<Schema<'a>> {
        let (start, inexact, depth) = (self.at, self.inexact, self.depth);
        let read = self.pass_object().filter(|_| self.inexact == inexact);
        let schema = read.zip(self.text.get(start..self.at)).map(|(is_typed, text)| Schema { text, is_typed });
        if schema.is_none() {
            (self.at, self.inexact, self.depth) = (start, inexact, depth);
        }
        self.names.clear();
        schema
    }

    /// Passes over a value in which nothing stands twice and no name is escaped.
    fn pass(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.json_text().map(drop),
            b'{' => self.pass_object().map(|_| ()),
            b'[' => {
                self.depth += 1;
                (self.depth <= DEEPEST).then(|| self.at += 1)?;
                if !self.takes(b']') {
                    loop {
                        self.pass()?;
                        if self.takes(b']') {
                            break;
                        }
                        self.takes(b',').then_some(())?;
                    }
                }
                self.depth -= 1;
                Some(())
            }
            _ => self.value().map(|_| ()),
        }
    }

    /// Passes over an object; whether it has the fields `type` and `properties`.
    fn pass_object(&mut self) -> Option<bool> {
        self.depth += 1;
        (self.depth <= DEEPEST).then(|| self.at += 1)?;
        let first = self.names.len();
        if !self.takes(b'}') {
            loop {
                let name = self.json_text()?.unescaped()?;
                self.takes(b':').then_some(())?;
                let is_new = self.names.len() < first + FEW && !self.names.get(first..)?.contains(&name);
                is_new.then(|| self.names.push(name))?;
                self.pass()?;
                if self.takes(b'}') {
                    break;
                }
                self.takes(b',').then_some(())?;
            }
        }
        self.depth -= 1;
        let names = self.names.get(first..)?;
        let is_typed = names.contains(&"type") && names.contains(&"properties");
        self.names.truncate(first);
        Some(is_typed)
    }

    /// Fields of which no two have the same name: each stands where its name stood first and has the value that came last.
    fn without_repeated(&mut self, fields: Vec<(Text<'a>, Node<'a>)>) -> Vec<(Text<'a>, Node<'a>)> {
        let is_few = fields.len() <= FEW;
        let is_first = |(at, (name, _)): (usize, &(Text<'a>, Node<'a>))| {
            fields.iter().take(at).all(|(known, _)| known.as_str() != name.as_str())
        };
        if is_few && fields.iter().enumerate().all(is_first) {
            return fields;
        }
        let all = fields.len();
        let mut places: HashMap<String, usize> = HashMap::with_capacity(all);
        let mut kept: Vec<(Text<'a>, Node<'a>)> = Vec::with_capacity(all);
        for (name, value) in fields {
            let place = *places.entry(name.as_str().to_owned()).or_insert(kept.len());
            match kept.get_mut(place) {
                Some(known) => known.1 = value,
                None => kept.push((name, value)),
            }
        }
        self.inexact += all - kept.len();
        kept
    }

    fn number(&mut self) -> Option<Node<'a>> {
        let rest = self.text.get(self.at..)?;
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.bytes().take_while(is_part).count();
        let text = rest.get(..length)?;
        let number = serde_json::from_str::<Number>(text).ok()?;
        self.at += length;
        // Short ones are never rounded.
        let is_rounded = length > MOST_DIGITS && number.to_string() != text;
        Some(if is_rounded { Node::Digits(text) } else { Node::Number(number) })
    }

    /// A text, of which the opening quote comes next.
    fn string(&mut self) -> Option<Text<'a>> {
        let text = self.json_text()?;
        Some(text.unescaped().map_or_else(|| Text::Made(text.held(self.text)), |there| Text::There(there, self.text)))
    }

    fn json_text(&mut self) -> Option<JsonText<'a>> {
        let text = JsonText::at(self.text, self.at)?;
        self.at += text.written().len();
        Some(text)
    }
}
