//! JSON Schemas for servers that know only a part of JSON Schema.
//!
//! A schema that goes out says the same as the one that came in: it accepts the same values. What cannot be said in the words
//! of the target is an error, never left out. Notes for readers (titles, descriptions, examples) are no such thing.

mod openapi;
mod output;

pub use openapi::{from_openapi, to_openapi};
pub use output::fits_strict;
pub(crate) use output::{lost_reference, to_anthropic, without_google};

use serde_json::{Map, Value};
use std::borrow::Cow;

/// The most nodes of a schema whose references are put in place: a few references to one another can stand for millions.
const MAX_NODES: usize = 5_000;
/// The deepest nesting.
const MAX_DEPTH: usize = 100;

/// A schema that the target has no words for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schema at `{at}`: {problem}")]
pub struct SchemaError {
    /// Where in the schema, as a JSON pointer; `#` is the root.
    pub at: String,
    /// What cannot be said.
    pub problem: String,
}

impl SchemaError {
    pub(crate) fn new(at: &str, problem: impl Into<String>) -> Self {
        SchemaError { at: if at.is_empty() { "#".to_owned() } else { at.to_owned() }, problem: problem.into() }
    }
}

/// Keywords that say something to a reader and nothing of what is accepted.
pub(crate) fn is_note(keyword: &str) -> bool {
    matches!(
        keyword,
        "$schema"
            | "$id"
            | "$comment"
            | "$defs"
            | "definitions"
            | "title"
            | "description"
            | "default"
            | "example"
            | "examples"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
            | "format"
            | "contentEncoding"
            | "contentMediaType"
            | "contentSchema"
            | "propertyOrdering"
    )
}

/// Keywords whose value is one schema.
const ONE: [&str; 12] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "additionalItems",
    "contentSchema",
];
/// Keywords whose value is a list of schemas.
const MANY: [&str; 5] = ["anyOf", "oneOf", "allOf", "prefixItems", "items"];
/// Keywords whose value maps names to schemas.
const NAMED: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

/// A schema in which no reference has anything beside it, which some servers refuse. Where none has, it is the schema itself.
/// Definitions stay, so that those that refer to themselves can be said.
///
/// # Errors
/// [`SchemaError`] where a reference cannot be followed, or has a constraint beside it that cannot be put into it.
pub fn bare_refs(schema: &Value) -> Result<Cow<'_, Value>, SchemaError> {
    if !has_dressed_ref(schema) {
        return Ok(Cow::Borrowed(schema));
    }
    let mut walk = Walk { root: schema, nodes: 0, keep_cycles: true };
    walk.schema(schema, "", &mut Vec::new(), false).map(Cow::Owned)
}

/// A schema without references: each is replaced by what it refers to.
///
/// # Errors
/// [`SchemaError`] where a definition refers to itself, a reference leads out of the schema, or the whole becomes too large.
pub fn inline_refs(schema: &Value) -> Result<Value, SchemaError> {
    let mut walk = Walk { root: schema, nodes: 0, keep_cycles: false };
    let mut out = walk.schema(schema, "", &mut Vec::new(), true)?;
    if let Value::Object(root) = &mut out {
        root.shift_remove("$defs");
        root.shift_remove("definitions");
    }
    Ok(out)
}

/// A schema whose root is an object that says so: a reference at the root is followed, an absent `type` is `object`.
///
/// # Errors
/// [`SchemaError`] where the reference cannot be followed.
pub fn object_root(schema: &Value) -> Result<Value, SchemaError> {
    let Value::Object(root) = schema else {
        return Err(SchemaError::new("", format!("a tool's arguments are an object, which `{schema}` does not say")));
    };
    let mut root = root.clone();
    for _ in 0..MAX_DEPTH {
        let Some(target) = root.get("$ref").and_then(Value::as_str).map(str::to_owned) else { break };
        let found = resolve(schema, &target)
            .ok_or_else(|| SchemaError::new("", format!("the reference `{target}` leads to nothing in the schema")))?;
        root.shift_remove("$ref");
        let Value::Object(merged) = merge(found.clone(), root, "")? else {
            return Err(SchemaError::new("", format!("`{target}` is no object")));
        };
        root = merged;
    }
    if !root.contains_key("type") {
        root.insert("type".to_owned(), "object".into());
    }
    if !root.contains_key("properties") && root.get("type").and_then(Value::as_str) == Some("object") {
        root.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    Ok(Value::Object(root))
}

/// Whether some value holds a key anywhere.
pub(crate) fn has_key(value: &Value, keys: &[&str]) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, value)| keys.contains(&key.as_str()) || has_key(value, keys)),
        Value::Array(list) => list.iter().any(|value| has_key(value, keys)),
        _ => false,
    }
}

fn has_dressed_ref(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            let is_ref = map.get("$ref").is_some_and(Value::is_string);
            is_ref && map.keys().any(|key| !key.starts_with('$')) || map.values().any(has_dressed_ref)
        }
        Value::Array(list) => list.iter().any(has_dressed_ref),
        _ => false,
    }
}

struct Walk<'a> {
    root: &'a Value,
    nodes: usize,
    keep_cycles: bool,
}

impl Walk<'_> {
    /// A schema with its references treated. `path` holds the references that led here; `all` says to replace each of them.
    fn schema(&mut self, schema: &Value, at: &str, path: &mut Vec<String>, all: bool) -> Result<Value, SchemaError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES || path.len() > MAX_DEPTH || at.matches('/').count() > 2 * MAX_DEPTH {
            return Err(SchemaError::new("", "with its references in place it would be too large"));
        }
        let Value::Object(map) = schema else { return Ok(schema.clone()) };
        let Some(target) = map.get("$ref").and_then(Value::as_str) else {
            return self.children(map, at, path, all).map(Value::Object);
        };
        if !all && map.keys().all(|key| key.starts_with('$')) {
            // Only its definitions may stand beside it.
            return self.children(map, at, path, all).map(Value::Object);
        }
        let found = resolve(self.root, target)
            .ok_or_else(|| SchemaError::new(at, format!("the reference `{target}` leads to nothing in the schema")))?;
        if path.iter().any(|known| known == target) || !all && is_cyclic(self.root, target) {
            return self.cycle(map, target, at);
        }
        let found = found.clone();
        path.push(target.to_owned());
        let inlined = self.schema(&found, at, path, all);
        path.pop();
        let mut beside = map.clone();
        beside.shift_remove("$ref");
        let beside = self.children(&beside, at, path, all)?;
        merge(inlined?, beside, at)
    }

    /// A reference to something that holds it. Notes beside it are not worth an error.
    fn cycle(&self, map: &Map<String, Value>, target: &str, at: &str) -> Result<Value, SchemaError> {
        if !self.keep_cycles {
            let problem = format!("`{target}` refers to itself, which the target cannot express");
            return Err(SchemaError::new(at, problem));
        }
        if let Some(keyword) = map.keys().find(|key| !key.starts_with('$') && !is_note(key)) {
            let problem = format!("`{keyword}` stands beside a reference to `{target}`, which refers to itself");
            return Err(SchemaError::new(at, problem));
        }
        let mut bare = map.clone();
        bare.retain(|key, _| key.starts_with('$'));
        Ok(Value::Object(bare))
    }

    fn children(
        &mut self,
        map: &Map<String, Value>,
        at: &str,
        path: &mut Vec<String>,
        all: bool,
    ) -> Result<Map<String, Value>, SchemaError> {
        let mut out = Map::with_capacity(map.len());
        for (key, value) in map {
            let here = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
            let name = key.as_str();
            let is_definitions = matches!(name, "$defs" | "definitions");
            let value = match value {
                Value::Object(_) if ONE.contains(&name) => self.schema(value, &here, path, all)?,
                Value::Array(list) if MANY.contains(&name) => {
                    let mut children = Vec::with_capacity(list.len());
                    for (i, value) in list.iter().enumerate() {
                        children.push(self.schema(value, &format!("{here}/{i}"), path, all)?);
                    }
                    Value::Array(children)
                }
                Value::Object(named) if NAMED.contains(&name) && !(all && is_definitions) => {
                    let mut children = Map::with_capacity(named.len());
                    for (key, value) in named {
                        children.insert(key.clone(), self.schema(value, &format!("{here}/{key}"), path, all)?);
                    }
                    Value::Object(children)
                }
                other => other.clone(),
            };
            out.insert(key.clone(), value);
        }
        Ok(out)
    }
}

/// What a reference within a schema leads to.
fn resolve<'a>(root: &'a Value, target: &str) -> Option<&'a Value> {
    let pointer = target.strip_prefix('#')?;
    if pointer.is_empty() { Some(root) } else { root.pointer(pointer) }
}

/// Whether following a reference leads back to it.
fn is_cyclic(root: &Value, target: &str) -> bool {
    fn targets<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                let inner = map.iter().filter(|(key, _)| !matches!(key.as_str(), "$defs" | "definitions"));
                inner.for_each(|(_, value)| targets(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| targets(value, found)),
            _ => {}
        }
    }
    let (mut open, mut seen) = (vec![target], std::collections::BTreeSet::new());
    while let Some(next) = open.pop() {
        let mut found = Vec::new();
        if let Some(schema) = resolve(root, next) {
            targets(schema, &mut found);
        }
        if found.contains(&target) {
            return true;
        }
        open.extend(found.into_iter().filter(|target| seen.insert(*target)));
    }
    false
}

/// One schema that accepts what both accept. Of notes the second's count.
///
/// # Errors
/// [`SchemaError`] where one schema cannot say it.
pub(crate) fn merge(first: Value, second: Map<String, Value>, at: &str) -> Result<Value, SchemaError> {
    let mut out = match first {
        Value::Object(map) => map,
        Value::Bool(true) => return Ok(Value::Object(second)),
        other => return Ok(other),
    };
    let closes = |map: &Map<String, Value>| {
        ["additionalProperties", "unevaluatedProperties", "patternProperties"]
            .iter()
            .any(|key| map.get(*key).is_some_and(|value| *value != Value::Bool(true)))
    };
    let names = |map: &Map<String, Value>| -> Vec<String> {
        let named = map.get("properties").and_then(Value::as_object).into_iter().flatten();
        named.map(|(name, _)| name.clone()).collect()
    };
    let (ours, theirs) = (names(&out), names(&second));
    // What one of them closes, the other one's fields do not open.
    if closes(&out) && theirs.iter().any(|name| !ours.contains(name))
        || closes(&second) && ours.iter().any(|name| !theirs.contains(name))
    {
        return Err(SchemaError::new(at, "two schemas for one value, of which one is closed, cannot be put together"));
    }
    for (key, value) in second {
        let Some(known) = out.get(&key).cloned() else {
            out.insert(key, value);
            continue;
        };
        let merged = match (key.as_str(), known, value) {
            (key, _, value) if is_note(key) => value,
            (_, known, value) if known == value => known,
            ("required", Value::Array(mut known), Value::Array(more)) => {
                known.extend(more.iter().filter(|name| !known.contains(name)).cloned().collect::<Vec<_>>());
                Value::Array(known)
            }
            ("properties", Value::Object(mut known), Value::Object(more)) => {
                for (name, value) in more {
                    let value = match (known.get(&name).cloned(), value) {
                        (Some(known), Value::Object(more)) => merge(known, more, &format!("{at}/properties/{name}"))?,
                        (Some(known), Value::Bool(true)) => known,
                        (_, value) => value,
                    };
                    known.insert(name, value);
                }
                Value::Object(known)
            }
            ("minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties", known, more) => {
                if known.as_f64() >= more.as_f64() { known } else { more }
            }
            ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties", known, more) => {
                if known.as_f64() <= more.as_f64() { known } else { more }
            }
            ("enum", Value::Array(known), Value::Array(more)) => {
                Value::Array(known.into_iter().filter(|value| more.contains(value)).collect())
            }
            (key, _, _) => {
                return Err(SchemaError::new(
                    at,
                    format!("two values of `{key}` for one value cannot be put together"),
                ));
            }
        };
        out.insert(key, merged);
    }
    Ok(Value::Object(out))
}

#[cfg(test)]
mod tests;
