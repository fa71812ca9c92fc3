//! A small language for rules: comparisons of what is known, joined by `&&`, `||` and `!`.
//!
//! ```text
//! region != "findings" || (content.severity >= 3 && content.kind in ["disk", "net"])
//! len(content.text) <= 500 && starts_with(writer, "agent-")
//! ```
//!
//! Paths go through objects by name and through lists by number (`content.tags[0]`, `premises["the status"]`); what is not
//! there is `null`. Numbers are compared as numbers, whatever their form. Only `true` and `false` are conditions. Functions: `len` (of
//! a text in characters, of a list, of an object), `has` (is not `null`), `type` (JSON Schema's word), `contains` (a text in a text, an
//! element in a list, a name in an object), `starts_with`, `ends_with`, `lower`.

use placet_core::tool::json_kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// The longest expression, in bytes.
const LONGEST: usize = 4096;
/// How deep parentheses and paths may be nested.
const DEEPEST: usize = 48;

/// What an expression knows, by name.
pub(crate) type Scope = BTreeMap<&'static str, Value>;

/// An expression is none, or has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the expression {text:?}: {problem}")]
pub struct ExpressionError {
    /// The expression.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
}

/// A condition that is data.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Literal(Value),
    Name(String),
    List(Vec<Node>),
    Part(Box<Node>, Box<Node>),
    Call(String, Vec<Node>),
    Not(Box<Node>),
    Negative(Box<Node>),
    Binary(&'static str, Box<Node>, Box<Node>),
}

impl Node {
    /// Looks at every name in it.
    fn names<E>(&self, look: &mut impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
        match self {
            Node::Literal(_) => Ok(()),
            Node::Name(name) => look(name),
            Node::List(nodes) | Node::Call(_, nodes) => nodes.iter().try_for_each(|node| node.names(look)),
            Node::Not(node) | Node::Negative(node) => node.names(look),
            Node::Part(one, other) | Node::Binary(_, one, other) => {
                one.names(look)?;
                other.names(look)
            }
        }
    }
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// [`ExpressionError`] says what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let error = |problem| ExpressionError { text: text.chars().take(200).collect(), problem };
        if text.len() > LONGEST {
            return Err(error(format!("it has {} bytes, {LONGEST} are allowed", text.len())));
        }
        let tokens = tokens(text).map_err(error)?;
        let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
        let root = parser.binary(0).map_err(error)?;
        match parser.peek() {
            None => Ok(Expression { text: text.trim().to_owned(), root }),
            Some(token) => Err(error(format!("unexpected {token}"))),
        }
    }

    /// Checks that it asks for nothing but what is known.
    pub(crate) fn check_names(&self, known: &[&str]) -> Result<(), ExpressionError> {
        let unknown = |name: &str| ExpressionError {
            text: self.text.chars().take(200).collect(),
            problem: format!("{name} is not known here; {} are", known.join(", ")),
        };
        self.root.names(&mut |name| if known.contains(&name) { Ok(()) } else { Err(unknown(name)) })
    }

    /// Whether it is true of what is known.
    pub(crate) fn holds(&self, scope: &Scope) -> Result<bool, ExpressionError> {
        let error = |problem| ExpressionError { text: self.text.chars().take(200).collect(), problem };
        condition(&evaluate(&self.root, scope).map_err(error)?).map_err(error)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Value(Value),
    Name(String),
    Sign(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Value(value) => write!(f, "{value}"),
            Token::Name(name) => f.write_str(name),
            Token::Sign(sign) => f.write_str(sign),
        }
    }
}

/// Longer signs before those that they begin with.
const SIGNS: [&str; 21] =
    ["&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",", ".", "in"];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = if first == '"' || first.is_ascii_digit() {
            let len = if first == '"' { text_len(rest) } else { number_len(rest) };
            match serde_json::from_str(&rest[..len]) {
                Ok(value) => tokens.push(Token::Value(value)),
                Err(_) => return Err(format!("no value begins at {:?}", head(rest))),
            }
            len
        } else if first.is_alphabetic() || first == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(match &rest[..len] {
                "true" => Token::Value(Value::Bool(true)),
                "false" => Token::Value(Value::Bool(false)),
                "null" => Token::Value(Value::Null),
                "in" => Token::Sign("in"),
                name => Token::Name(name.to_owned()),
            });
            len
        } else {
            let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) else {
                return Err(format!("nothing begins with {:?}", head(rest)));
            };
            tokens.push(Token::Sign(sign));
            sign.len()
        };
        rest = rest[len..].trim_start();
    }
    Ok(tokens)
}

/// How long the text is that begins here, quotes included.
fn text_len(rest: &str) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// How long the number is that begins here.
fn number_len(rest: &str) -> usize {
    let mut before = ' ';
    for (at, character) in rest.char_indices() {
        let exponent = matches!(character, '+' | '-') && matches!(before, 'e' | 'E');
        if !character.is_ascii_digit() && !matches!(character, '.' | 'e' | 'E') && !exponent {
            return at;
        }
        before = character;
    }
    rest.len()
}

fn head(text: &str) -> String {
    text.chars().take(12).collect()
}

/// Signs between two sides, those that bind weakest first.
const BINARY: [&[&str]; 5] =
    [&["||"], &["&&"], &["==", "!=", "<=", ">=", "<", ">", "in"], &["+", "-"], &["*", "/", "%"]];

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn sign(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        match self.peek() {
            Some(Token::Sign(sign)) if signs.contains(sign) => {
                let sign = *sign;
                self.at += 1;
                Some(sign)
            }
            _ => None,
        }
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), String> {
        match self.sign(&[sign]) {
            Some(_) => Ok(()),
            None => Err(format!("expected {sign} {}", self.found())),
        }
    }

    fn found(&self) -> String {
        self.peek().map_or_else(|| "at its end".to_owned(), |token| format!("before {token}"))
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("it is nested more than {DEEPEST} deep"));
        }
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn binary(&mut self, level: usize) -> Result<Node, String> {
        let Some(signs) = BINARY.get(level) else { return self.unary() };
        let mut node = self.binary(level + 1)?;
        let mut count = 0;
        while let Some(sign) = self.sign(signs) {
            count += 1;
            if count > 256 {
                return Err("it has too many parts".to_owned());
            }
            let right = self.binary(level + 1)?;
            node = Node::Binary(sign, Box::new(node), Box::new(right));
        }
        Ok(node)
    }

    fn unary(&mut self) -> Result<Node, String> {
        match self.sign(&["!", "-"]) {
            Some("!") => Ok(Node::Not(Box::new(self.deeper(Self::unary)?))),
            Some(_) => Ok(Node::Negative(Box::new(self.deeper(Self::unary)?))),
            None => self.path(),
        }
    }

    fn path(&mut self) -> Result<Node, String> {
        let mut node = self.primary()?;
        let mut parts = 0;
        while let Some(sign) = self.sign(&[".", "["]) {
            parts += 1;
            if parts > DEEPEST {
                return Err(format!("a path has more than {DEEPEST} parts"));
            }
            let part = if sign == "." {
                match self.tokens.get(self.at) {
                    Some(Token::Name(name)) => {
                        self.at += 1;
                        Node::Literal(Value::String(name.clone()))
                    }
                    _ => return Err(format!("expected a name {}", self.found())),
                }
            } else {
                let part = self.deeper(|parser| parser.binary(0))?;
                self.expect("]")?;
                part
            };
            node = Node::Part(Box::new(node), Box::new(part));
        }
        Ok(node)
    }

    fn primary(&mut self) -> Result<Node, String> {
        if self.sign(&["("]).is_some() {
            let node = self.deeper(|parser| parser.binary(0))?;
            self.expect(")")?;
            return Ok(node);
        }
        if self.sign(&["["]).is_some() {
            return Ok(Node::List(self.list("]")?));
        }
        match self.tokens.get(self.at) {
            Some(Token::Value(value)) => {
                self.at += 1;
                Ok(Node::Literal(value.clone()))
            }
            Some(Token::Name(name)) => {
                self.at += 1;
                if self.sign(&["("]).is_none() {
                    return Ok(Node::Name(name.clone()));
                }
                let arguments = self.list(")")?;
                match FUNCTIONS.iter().find(|(known, _)| known == name) {
                    Some((_, count)) if *count == arguments.len() => Ok(Node::Call(name.clone(), arguments)),
                    Some((_, count)) => Err(format!("{name} takes {count}, and here it is given {}", arguments.len())),
                    None => Err(format!("there is no function {name}")),
                }
            }
            _ => Err(format!("expected a value {}", self.found())),
        }
    }

    fn list(&mut self, end: &'static str) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        if self.sign(&[end]).is_some() {
            return Ok(nodes);
        }
        loop {
            nodes.push(self.deeper(|parser| parser.binary(0))?);
            match self.sign(&[",", end]) {
                Some(",") => {}
                Some(_) => return Ok(nodes),
                None => return Err(format!("expected {end} {}", self.found())),
            }
        }
    }
}

const FUNCTIONS: [(&str, usize); 7] =
    [("len", 1), ("has", 1), ("type", 1), ("contains", 2), ("starts_with", 2), ("ends_with", 2), ("lower", 1)];

fn condition(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("expected true or false, found {}", shown(value)))
}

fn shown(value: &Value) -> String {
    format!("{} of type {}", head(&value.to_string()), json_kind(value))
}

fn number(value: &Value) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| format!("expected a number, found {}", shown(value)))
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("expected a text, found {}", shown(value)))
}

fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => left == right,
    }
}

fn evaluate(node: &Node, scope: &Scope) -> Result<Value, String> {
    match node {
        Node::Literal(value) => Ok(value.clone()),
        Node::Name(name) => match scope.get(name.as_str()) {
            Some(value) => Ok(value.clone()),
            None => {
                let known: Vec<_> = scope.keys().copied().collect();
                Err(format!("{name} is not known here; {} are", known.join(", ")))
            }
        },
        Node::List(nodes) => {
            Ok(Value::Array(nodes.iter().map(|node| evaluate(node, scope)).collect::<Result<_, _>>()?))
        }
        Node::Part(whole, part) => {
            let (whole, part) = (evaluate(whole, scope)?, evaluate(part, scope)?);
            Ok(match (&whole, &part) {
                (Value::Object(map), Value::String(name)) => map.get(name),
                (Value::Array(list), Value::Number(at)) => {
                    at.as_u64().and_then(|at| list.get(usize::try_from(at).ok()?))
                }
                _ => None,
            }
            .cloned()
            .unwrap_or(Value::Null))
        }
        Node::Call(name, arguments) => {
            let arguments: Vec<_> = arguments.iter().map(|node| evaluate(node, scope)).collect::<Result<_, _>>()?;
            call(name, &arguments)
        }
        Node::Not(node) => Ok(Value::Bool(!condition(&evaluate(node, scope)?)?)),
        Node::Negative(node) => Ok(Value::from(-number(&evaluate(node, scope)?)?)),
        Node::Binary(sign, left, right) => {
            let left = evaluate(left, scope)?;
            match *sign {
                "&&" if !condition(&left)? => return Ok(Value::Bool(false)),
                "||" if condition(&left)? => return Ok(Value::Bool(true)),
                _ => {}
            }
            binary(sign, &left, &evaluate(right, scope)?)
        }
    }
}

fn binary(sign: &str, left: &Value, right: &Value) -> Result<Value, String> {
    let ordered = || match (left, right) {
        (Value::String(a), Value::String(b)) => Ok(a.partial_cmp(b)),
        _ => Ok::<_, String>(number(left)?.partial_cmp(&number(right)?)),
    };
    let order = |wanted: fn(std::cmp::Ordering) -> bool| Ok(Value::Bool(ordered()?.is_some_and(wanted)));
    match sign {
        "&&" | "||" => Ok(Value::Bool(condition(right)?)),
        "==" => Ok(Value::Bool(same(left, right))),
        "!=" => Ok(Value::Bool(!same(left, right))),
        "<" => order(std::cmp::Ordering::is_lt),
        "<=" => order(std::cmp::Ordering::is_le),
        ">" => order(std::cmp::Ordering::is_gt),
        ">=" => order(std::cmp::Ordering::is_ge),
        "in" => call("contains", &[right.clone(), left.clone()]),
        "+" if left.is_string() => Ok(Value::from([text(left)?, text(right)?].concat())),
        "+" => Ok(Value::from(number(left)? + number(right)?)),
        "-" => Ok(Value::from(number(left)? - number(right)?)),
        "*" => Ok(Value::from(number(left)? * number(right)?)),
        "/" => Ok(Value::from(number(left)? / number(right)?)),
        _ => Ok(Value::from(number(left)? % number(right)?)),
    }
}

fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
    let (first, second) = (arguments.first().unwrap_or(&Value::Null), arguments.get(1).unwrap_or(&Value::Null));
    match name {
        "has" => Ok(Value::Bool(!first.is_null())),
        "type" => Ok(Value::from(json_kind(first))),
        "lower" => Ok(Value::from(text(first)?.to_lowercase())),
        "starts_with" => Ok(Value::Bool(text(first)?.starts_with(text(second)?))),
        "ends_with" => Ok(Value::Bool(text(first)?.ends_with(text(second)?))),
        "contains" => match first {
            Value::String(whole) => Ok(Value::Bool(whole.contains(text(second)?))),
            Value::Array(list) => Ok(Value::Bool(list.iter().any(|element| same(element, second)))),
            Value::Object(map) => Ok(Value::Bool(map.contains_key(text(second)?))),
            other => Err(format!("expected a text, a list or an object, found {}", shown(other))),
        },
        _ => match first {
            Value::String(text) => Ok(Value::from(text.chars().count())),
            Value::Array(list) => Ok(Value::from(list.len())),
            Value::Object(map) => Ok(Value::from(map.len())),
            other => Err(format!("expected a text, a list or an object, found {}", shown(other))),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn scope() -> Scope {
        let content =
            json!({"severity": 3, "kind": "disk", "tags": ["a", "b"], "note": {"text": "full é"}, "list": []});
        Scope::from([("writer", json!("agent-1")), ("content", content), ("size", json!(12))])
    }

    #[test]
    fn conditions_hold_or_not() {
        for (text, holds) in [
            ("content.severity >= 3 && content.kind in [\"disk\", \"net\"]", true),
            ("content.severity > 3 || writer == \"bob\"", false),
            ("!has(content.missing.deep) && content.missing == null", true),
            ("content.tags[1] == \"b\" && content[\"kind\"] == \"disk\"", true),
            ("len(content.note.text) == 6 && len(content.tags) == 2", true),
            ("starts_with(writer, \"agent-\") && !ends_with(writer, \"2\")", true),
            ("content.severity == 3.0 && 1 + 2 * 3 == 7 && -1 < 0 && 7 % 4 == 3", true),
            ("contains(content.note, \"text\") && contains(\"abc\", lower(\"B\"))", true),
            ("type(content.list) == \"array\" && \"a\" + \"b\" == \"ab\" && \"a\" < \"b\"", true),
            ("true || content.nothing > 3", true),
            ("false && content.nothing > 3", false),
        ] {
            assert_eq!(Expression::parse(text).unwrap().holds(&scope()), Ok(holds), "{text}");
        }
    }

    #[test]
    fn what_is_no_condition_is_told() {
        for (text, says) in [
            ("content.severity", "expected true or false"),
            ("content.kind > 3", "expected a number"),
            ("nobody == 3", "nobody is not known here; content, size, writer are"),
            ("len(3) == 1", "expected a text, a list or an object"),
        ] {
            let error = Expression::parse(text).unwrap().holds(&scope()).unwrap_err();
            assert!(error.problem.contains(says), "{error}");
        }
        for (text, says) in [
            ("", "expected a value at its end"),
            ("a ==", "expected a value at its end"),
            ("(a", "expected ) at its end"),
            ("a b", "unexpected b"),
            ("f(a)", "there is no function f"),
            ("len()", "len takes 1, and here it is given 0"),
            ("a # b", "nothing begins with"),
            ("\"open", "no value begins at"),
            (&"(".repeat(1000), "nested more than"),
            (&"!".repeat(1000), "nested more than"),
            (&"a".repeat(5000), "4096 are allowed"),
        ] {
            let error = Expression::parse(text).unwrap_err();
            assert!(error.problem.contains(says), "{error}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_read_panics(text in "[a-c \"0-9.()\\[\\]!&|<>=+*/%,-]{0,60}") {
            if let Ok(expression) = Expression::parse(&text) {
                let _ = expression.holds(&scope());
            }
        }
    }
}
