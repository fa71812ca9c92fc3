//! Arguments of a call that come value by value, each with its place: `$.who.name`, `$.list[0]['odd key']`.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The most steps of a place.
const MAX_STEPS: usize = 64;
/// How far beyond the end of a list a place may lie.
const MAX_GAP: usize = 64;

/// The arguments of one call as far as they have come.
#[derive(Debug)]
pub(super) struct Assembly {
    root: Value,
    /// The places of texts that go on.
    open: BTreeSet<String>,
}

#[derive(Debug, PartialEq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Assembly {
    /// Arguments of which these have come whole.
    pub(super) fn new(base: Option<&str>) -> Self {
        let base = base.and_then(|text| serde_json::from_str::<Value>(text).ok()).filter(Value::is_object);
        Assembly { root: base.unwrap_or_else(|| Value::Object(Map::new())), open: BTreeSet::new() }
    }

    /// Takes one entry of `partialArgs`.
    ///
    /// # Errors
    /// The place, where it is none.
    pub(super) fn set(&mut self, entry: &Value) -> Result<(), String> {
        let field = |camel: &str, snake: &str| entry.get(camel).or_else(|| entry.get(snake));
        let path = field("jsonPath", "json_path").and_then(Value::as_str).unwrap_or_default();
        let text = field("stringValue", "string_value");
        let continues = field("willContinue", "will_continue").and_then(Value::as_bool).unwrap_or(false);
        let value = text.or_else(|| field("numberValue", "number_value")).or_else(|| field("boolValue", "bool_value"));
        let value = match value {
            Some(value) => value.clone(),
            None if field("nullValue", "null_value").is_some() => Value::Null,
            // It opens a text.
            None => Value::String(String::new()),
        };
        let steps = steps(path).ok_or_else(|| path.to_owned())?;
        let goes_on = self.open.contains(path);
        let place = place(&mut self.root, &steps).ok_or_else(|| path.to_owned())?;
        match (place, value) {
            (Value::String(known), Value::String(more)) if goes_on => known.push_str(&more),
            (place, value) => *place = value,
        }
        if continues {
            self.open.insert(path.to_owned());
        } else {
            self.open.remove(path);
        }
        Ok(())
    }

    /// The arguments as a text.
    pub(super) fn text(&self) -> String {
        self.root.to_string()
    }
}

/// The steps of a place; `None` where it is none.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == MAX_STEPS {
            return None;
        }
        if let Some(inner) = rest.strip_prefix('[') {
            let quote = inner.chars().next().filter(|c| matches!(c, '\'' | '"'));
            match quote {
                Some(quote) => {
                    let (name, after) = quoted(&inner[1..], quote)?;
                    steps.push(Step::Key(name));
                    rest = after.strip_prefix(']')?;
                }
                None => {
                    let (number, after) = inner.split_once(']')?;
                    steps.push(Step::Index(number.trim().parse().ok()?));
                    rest = after;
                }
            }
        } else {
            let inner = rest.strip_prefix('.').unwrap_or(rest);
            let end = inner.find(['.', '[']).unwrap_or(inner.len());
            if end == 0 {
                return None;
            }
            steps.push(Step::Key(inner[..end].to_owned()));
            rest = &inner[end..];
        }
    }
    Some(steps)
}

/// A name up to its closing quote, and what follows.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            c if c == quote => return Some((name, &text[at + c.len_utf8()..])),
            c => name.push(c),
        }
    }
    None
}

/// The place in the arguments, made where it is not there yet. What stands in its way is replaced.
fn place<'a>(root: &'a mut Value, steps: &[Step]) -> Option<&'a mut Value> {
    let mut at = root;
    for step in steps {
        at = match step {
            Step::Key(key) => {
                if !at.is_object() {
                    *at = Value::Object(Map::new());
                }
                at.as_object_mut()?.entry(key.as_str()).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if !at.is_array() {
                    *at = Value::Array(Vec::new());
                }
                let list = at.as_array_mut()?;
                if *index > list.len() + MAX_GAP {
                    return None;
                }
                if list.len() <= *index {
                    list.resize(index + 1, Value::Null);
                }
                list.get_mut(*index)?
            }
        };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use serde_json::json;

    #[test]
    fn values_find_their_places() {
        let mut arguments = Assembly::new(None);
        for entry in [
            json!({"jsonPath": "$.who.name", "stringValue": "An", "willContinue": true}),
            json!({"jsonPath": "$.n[0]", "numberValue": 3}),
            json!({"jsonPath": "$.who.name", "stringValue": "na"}),
            json!({"jsonPath": "$['odd.key'][1].x", "boolValue": true}),
            json!({"jsonPath": "$.z", "nullValue": null}),
            json!({"jsonPath": "$.y", "nullValue": "NULL_VALUE"}),
            json!({"jsonPath": "$.t", "willContinue": true}),
            json!({"json_path": "$.t", "string_value": "it's", "will_continue": true}),
            json!({"jsonPath": "$.t", "stringValue": ""}),
            // A text that does not go on is replaced.
            json!({"jsonPath": "$.t2", "stringValue": "a"}),
            json!({"jsonPath": "$.t2", "stringValue": "b"}),
        ] {
            arguments.set(&entry).unwrap();
        }
        let wanted = json!({
            "who": {"name": "Anna"}, "n": [3], "odd.key": [null, {"x": true}], "z": null, "y": null, "t": "it's", "t2": "b"
        });
        assert_eq!(serde_json::from_str::<Value>(&arguments.text()).unwrap(), wanted);
    }

    #[test]
    fn a_place_that_is_none_is_told() {
        for path in ["$.a[", "$.a[x]", "$..a", "$['a", "$.a[99999999]", &".a".repeat(MAX_STEPS + 1)] {
            let entry = json!({"jsonPath": path, "numberValue": 1});
            assert_eq!(Assembly::new(None).set(&entry), Err(path.to_owned()));
        }
        assert_eq!(steps("$[\"a\\\"b\"].c"), Some(vec![Step::Key("a\"b".into()), Step::Key("c".into())]));
    }
}
