//! Schemas of answers, for servers that hold a model to a part of JSON Schema only.

use super::openapi::are_disjoint;
use super::{MANY, NAMED, ONE, SchemaError, is_cyclic, is_note, resolve};
use serde_json::{Map, Value};

/// Formats that OpenAI's strict mode and Anthropic know.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// What OpenAI's strict mode takes in a schema.
const STRICT: [&str; 21] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "definitions",
    "title",
    "description",
    "pattern",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
];

/// The schemas within a schema, each with its place.
fn children(map: &Map<String, Value>) -> impl Iterator<Item = (String, &Value)> {
    map.iter().flat_map(|(key, value)| {
        let name = key.as_str();
        let inner: Vec<(String, &Value)> = match value {
            Value::Object(_) | Value::Bool(_) if ONE.contains(&name) => vec![(format!("/{name}"), value)],
            Value::Array(list) if MANY.contains(&name) => {
                list.iter().enumerate().map(|(i, value)| (format!("/{name}/{i}"), value)).collect()
            }
            Value::Object(named) if NAMED.contains(&name) => {
                named.iter().map(|(key, value)| (format!("/{name}/{key}"), value)).collect()
            }
            _ => Vec::new(),
        };
        inner
    })
}

/// Whether OpenAI's strict mode takes a schema as it is: closed objects, every field required, and only words that it knows.
#[must_use]
pub fn fits_strict(schema: &Value) -> bool {
    let is_object = |map: &Map<String, Value>| says_object(map);
    schema.as_object().is_some_and(|root| is_object(root) && !root.contains_key("anyOf")) && is_strict(schema)
}

fn says_object(map: &Map<String, Value>) -> bool {
    let is_object = |kind: &Value| kind == "object";
    match map.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_object),
        Some(kind) => is_object(kind),
        None => map.contains_key("properties"),
    }
}

fn is_strict(schema: &Value) -> bool {
    let Value::Object(map) = schema else { return false };
    let is_known = |(key, value): (&String, &Value)| match key.as_str() {
        "format" => value.as_str().is_some_and(|format| FORMATS.contains(&format) && format != "uri"),
        key => STRICT.contains(&key),
    };
    let is_closed = || {
        let required = map.get("required").and_then(Value::as_array);
        let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|known| known == name));
        let mut names = map.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        map.get("additionalProperties") == Some(&Value::Bool(false)) && names.all(is_required)
    };
    map.iter().all(is_known)
        && (!says_object(map) || is_closed())
        && children(map).all(|(place, schema)| place == "/additionalProperties" || is_strict(schema))
}

/// A schema without the words that are Google's alone and say nothing of what is accepted: the order of fields, and that a text of a
/// list is one of a list. `None` where there are none.
pub(crate) fn without_google(schema: &Value) -> Option<Value> {
    let map = schema.as_object()?;
    let is_google = |(key, value): (&String, &Value)| {
        key == "propertyOrdering" && value.is_array() || key == "format" && value == "enum"
    };
    let mut out = None;
    if map.iter().any(is_google) {
        let kept = map.iter().filter(|entry| !is_google(*entry));
        out = Some(kept.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>());
    }
    for (key, value) in map {
        let name = key.as_str();
        let changed = match value {
            Value::Object(_) if ONE.contains(&name) => without_google(value),
            Value::Array(list) if MANY.contains(&name) => {
                let inner: Vec<Option<Value>> = list.iter().map(without_google).collect();
                inner.iter().any(Option::is_some).then(|| {
                    let both = inner.into_iter().zip(list);
                    both.map(|(changed, value)| changed.unwrap_or_else(|| value.clone())).collect()
                })
            }
            Value::Object(named) if NAMED.contains(&name) => {
                let inner: Vec<Option<Value>> = named.values().map(without_google).collect();
                inner.iter().any(Option::is_some).then(|| {
                    let both = inner.into_iter().zip(named);
                    let both =
                        both.map(|(changed, (name, value))| (name.clone(), changed.unwrap_or_else(|| value.clone())));
                    Value::Object(both.collect())
                })
            }
            _ => None,
        };
        if let Some(changed) = changed {
            out.get_or_insert_with(|| map.clone()).insert(key.clone(), changed);
        }
    }
    out.map(Value::Object)
}

/// The first reference of a schema that leads to nothing in it: out of it, or to a place that is not there.
pub(crate) fn lost_reference(schema: &Value) -> Option<&str> {
    /// Whether some schema within is called so.
    fn is_called(schema: &Value, name: &str) -> bool {
        let Value::Object(map) = schema else { return false };
        let is_so = |key: &str, said: &str| map.get(key).is_some_and(|value| value == said);
        let anchor = name.strip_prefix('#');
        let is_here = match anchor {
            Some(anchor) => is_so("$anchor", anchor) || is_so("$dynamicAnchor", anchor) || is_so("$id", name),
            None => is_so("$id", name) || map.get("$id").and_then(Value::as_str).is_some_and(|id| id.ends_with(name)),
        };
        is_here || children(map).any(|(_, inner)| is_called(inner, name))
    }
    fn leads(root: &Value, target: &str) -> bool {
        if resolve(root, target).is_some() || is_called(root, target) {
            return true;
        }
        // The address of the schema itself may stand before the place in it.
        let id = root.get("$id").and_then(Value::as_str).filter(|id| !id.is_empty());
        let within = id.and_then(|id| target.strip_prefix(id.trim_end_matches('#')));
        within.is_some_and(|place| place.starts_with('#') && resolve(root, place).is_some())
    }
    fn find<'s>(root: &Value, schema: &'s Value) -> Option<&'s str> {
        let map = schema.as_object()?;
        let own = map.get("$ref").and_then(Value::as_str).filter(|target| !leads(root, target));
        own.or_else(|| children(map).find_map(|(_, inner)| find(root, inner)))
    }
    find(schema, schema)
}

/// A schema of an answer in the words that Anthropic takes.
///
/// An object that is left open is closed: every answer of the closed one fits the open one. Words that the provider does not hold a model
/// to are an error; of a schema that is only a hint (`is_loose`) they are left out, each named in the second value.
///
/// # Errors
/// [`SchemaError`] for such a word, for references that lead back to themselves or to nothing, and for objects with fields of any name.
pub(crate) fn to_anthropic(schema: &Value, is_loose: bool) -> Result<(Value, Vec<String>), SchemaError> {
    let mut writer = Writer { root: schema, is_loose, dropped: Vec::new() };
    let written = writer.schema(schema, "")?;
    Ok((written, writer.dropped))
}

struct Writer<'s> {
    root: &'s Value,
    is_loose: bool,
    dropped: Vec<String>,
}

/// Words that narrow what is accepted and that the provider does not know.
const UNKNOWN: [&str; 26] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "unevaluatedProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "not",
    "if",
    "then",
    "else",
];

impl Writer<'_> {
    fn schema(&mut self, schema: &Value, at: &str) -> Result<Value, SchemaError> {
        let fault = |problem: String| Err(SchemaError::new(at, problem));
        if at.matches('/').count() > 2 * super::MAX_DEPTH {
            return fault("it is nested too deeply".to_owned());
        }
        let Value::Object(map) = schema else {
            return fault(format!("the target has no word for the schema `{schema}`"));
        };
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            if resolve(self.root, target).is_none() {
                return fault(format!("the reference `{target}` leads to nothing in the schema"));
            }
            if is_cyclic(self.root, target) {
                return fault(format!("`{target}` refers to itself, which the target cannot express"));
            }
        }
        let mut out = Map::with_capacity(map.len() + 1);
        for (key, value) in map {
            let here = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
            let name = key.as_str();
            let value = match (name, value) {
                ("additionalProperties", _) => continue,
                ("minItems", least) if least.as_u64().is_none_or(|least| least > 1) => {
                    self.unknown(name, &here)?;
                    continue;
                }
                ("uniqueItems", Value::Bool(false)) => continue,
                ("enum", Value::Array(words)) if words.iter().any(|word| word.is_object() || word.is_array()) => {
                    return fault("the target knows lists of plain values only".to_owned());
                }
                ("format", Value::String(format)) if !FORMATS.contains(&format.as_str()) => continue,
                (name, _) if UNKNOWN.contains(&name) => {
                    self.unknown(name, &here)?;
                    continue;
                }
                ("oneOf", Value::Array(list)) => {
                    if map.contains_key("anyOf") || !are_disjoint(list) {
                        self.unknown(name, &here)?;
                    }
                    let list = self.list(list, &here)?;
                    out.entry("anyOf").or_insert(list);
                    continue;
                }
                (name, Value::Object(_)) if ONE.contains(&name) && !is_note(name) => self.schema(value, &here)?,
                (name, Value::Array(list)) if MANY.contains(&name) => self.list(list, &here)?,
                (name, Value::Object(named)) if NAMED.contains(&name) => {
                    let mut inner = Map::with_capacity(named.len());
                    for (key, value) in named {
                        inner.insert(key.clone(), self.schema(value, &format!("{here}/{key}"))?);
                    }
                    Value::Object(inner)
                }
                (_, value) => value.clone(),
            };
            out.insert(key.clone(), value);
        }
        if says_object(map) {
            let has_fields = map.get("properties").and_then(Value::as_object).is_some_and(|fields| !fields.is_empty());
            match map.get("additionalProperties") {
                Some(Value::Bool(false)) => {}
                Some(Value::Bool(true)) | None if has_fields => {}
                Some(Value::Object(any)) if any.is_empty() && has_fields => {}
                _ => return fault("an object with fields of any name cannot be said".to_owned()),
            }
            out.insert("additionalProperties".to_owned(), false.into());
        }
        Ok(Value::Object(out))
    }

    fn list(&mut self, list: &[Value], at: &str) -> Result<Value, SchemaError> {
        list.iter().enumerate().map(|(i, value)| self.schema(value, &format!("{at}/{i}"))).collect()
    }

    /// A word that the provider does not know.
    fn unknown(&mut self, name: &str, at: &str) -> Result<(), SchemaError> {
        if !self.is_loose {
            return Err(SchemaError::new(at, format!("the target does not hold a model to `{name}`")));
        }
        if !self.dropped.iter().any(|known| known == name) {
            self.dropped.push(name.to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use serde_json::json;

    #[test]
    fn strict_is_what_openai_takes_as_it_is() {
        let object = |more: Value| {
            let mut schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
                "additionalProperties": false});
            schema.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            schema
        };
        assert!(fits_strict(&object(json!({}))));
        for odd in [
            json!({"required": []}),
            json!({"additionalProperties": true}),
            json!({"propertyOrdering": ["n"]}),
            json!({"properties": {"n": {"type": "string", "format": "enum", "enum": ["a"]}}}),
            json!({"properties": {"n": {"type": "object", "properties": {"a": {"type": "string"}}}}}),
            json!({"properties": {"n": {"oneOf": [{"type": "string"}]}}}),
            json!({"anyOf": [{"type": "object"}]}),
        ] {
            assert!(!fits_strict(&object(odd.clone())), "{odd}");
        }
        let recursive = object(json!({"properties": {"n": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}));
        assert!(fits_strict(&recursive));
    }

    #[test]
    fn words_of_google_are_taken_out_where_they_stand_as_words() {
        let schema = json!({"type": "object", "propertyOrdering": ["format", "list"], "properties": {
            "format": {"type": "string", "format": "enum", "enum": ["a"]},
            "list": {"type": "array", "items": {"type": "object", "propertyOrdering": ["x"],
                "properties": {"x": {"type": "string", "format": "date"}}}},
            "propertyOrdering": {"type": "string"}}});
        let plain = json!({"type": "object", "properties": {
            "format": {"type": "string", "enum": ["a"]},
            "list": {"type": "array", "items": {"type": "object",
                "properties": {"x": {"type": "string", "format": "date"}}}},
            "propertyOrdering": {"type": "string"}}});
        assert_eq!(without_google(&schema), Some(plain.clone()));
        assert_eq!(without_google(&plain), None);
    }

    #[test]
    fn references_that_lead_nowhere_are_found() {
        for (schema, lost) in [
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}), None),
            (json!({"$ref": "#/$defs/b", "$defs": {"a": {"type": "string"}}}), Some("#/$defs/b")),
            (json!({"properties": {"a": {"$ref": "https://example.com/a.json"}}}), Some("https://example.com/a.json")),
            (json!({"properties": {"$ref": {"type": "string"}, "b": {"$ref": "#"}}}), None),
            (json!({"items": {"$ref": "#node"}, "$defs": {"n": {"$anchor": "node"}}}), None),
            (json!({"$id": "https://x.y/z", "items": {"$ref": "https://x.y/z#/$defs/n"}, "$defs": {"n": {}}}), None),
            (json!({"items": {"$ref": "item"}, "$defs": {"n": {"$id": "item"}}}), None),
            (json!({"default": {"$ref": "#/nowhere"}, "enum": [{"$ref": "x"}]}), None),
        ] {
            assert_eq!(lost_reference(&schema), lost, "{schema}");
        }
    }

    #[test]
    fn an_answer_for_anthropic_is_closed_and_says_all_or_nothing() {
        let open = json!({"type": "object", "properties": {"n": {"type": "array", "items": {"type": "object",
            "properties": {"a": {"type": "string", "format": "odd"}}}, "minItems": 1}}});
        let closed = json!({"type": "object", "properties": {"n": {"type": "array", "items": {"type": "object",
            "properties": {"a": {"type": "string"}}, "additionalProperties": false}, "minItems": 1}},
            "additionalProperties": false});
        assert_eq!(to_anthropic(&open, false).unwrap(), (closed, Vec::new()));
        let field = |field: Value| {
            json!({"type": "object", "properties": {"n": field}, "required": ["n"], "additionalProperties": false,
                "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}}})
        };
        for (odd, named) in [
            (json!({"type": "string", "minLength": 2}), "minLength"),
            (json!({"type": "integer", "minimum": 2}), "minimum"),
            (json!({"type": "array", "items": {"type": "string"}, "minItems": 2}), "minItems"),
        ] {
            let schema = json!({"type": "object", "properties": {"n": odd}, "additionalProperties": false});
            let error = to_anthropic(&schema, false).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("/properties/n"), "{error}");
            let (loose, dropped) = to_anthropic(&schema, true).unwrap();
            assert!(!loose.to_string().contains(named) && dropped == [named], "{loose}");
        }
        for odd in [json!({"$ref": "#/$defs/node"}), json!({"type": "object"}), json!({"$ref": "#/$defs/none"})] {
            for is_loose in [false, true] {
                to_anthropic(&field(odd.clone()), is_loose).expect_err("it cannot be said");
            }
        }
        let either = json!({"oneOf": [{"type": "string"}, {"type": "null"}]});
        assert_eq!(to_anthropic(&either, false).unwrap().0, json!({"anyOf": [{"type": "string"}, {"type": "null"}]}));
    }
}
