//! The forms of a schema that providers take.
//!
//! A tool's arguments, and what a provider holds an answer to, are objects: any other shape goes out as the field
//! [`FIELD`] of one. What a provider holds a model to must further be of few words: every object closed, every field
//! required. So a field that may be missing becomes one that may be null, and bounds become a part of the description; answers
//! are held to the schema as it was given in any case.

use serde_json::{Map, Value, json};

/// The field that holds a shape that is no object.
pub(super) const FIELD: &str = "answer";

/// Whether a shape goes out as it is, being an object.
pub(super) fn is_object(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
}

/// An object whose one field has the shape. References within the schema lead where they led.
pub(super) fn wrapped(schema: &Value) -> Value {
    let mut inner = schema.clone();
    let mut outer = Map::new();
    for name in ["$defs", "definitions"] {
        if let Some(definitions) = inner.as_object_mut().and_then(|inner| inner.shift_remove(name)) {
            outer.insert(name.to_owned(), definitions);
        }
    }
    outer.insert("type".to_owned(), "object".into());
    outer.insert("properties".to_owned(), json!({ FIELD: inner }));
    outer.insert("required".to_owned(), json!([FIELD]));
    outer.insert("additionalProperties".to_owned(), Value::Bool(false));
    let mut outer = Value::Object(outer);
    move_refs(&mut outer);
    outer
}

/// Lets references to what was the root, or within it, lead to where that is now.
fn move_refs(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), &*value) {
                    ("$ref", Value::String(to)) => {
                        if let Some(rest) = to.strip_prefix('#')
                            && !["/$defs/", "/definitions/"].iter().any(|kept| rest.starts_with(kept))
                        {
                            *value = format!("#/properties/{FIELD}{rest}").into();
                        }
                    }
                    // What is a value and no schema.
                    ("const" | "enum" | "default" | "examples", _) => {}
                    _ => move_refs(value),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(move_refs),
        _ => {}
    }
}

/// The form that providers hold a model to.
///
/// # Errors
/// Why there is none, in words.
pub(super) fn strict(schema: &Value) -> Result<Value, String> {
    walk(schema, "#", 0)
}

/// Deeper than anything a provider takes.
const DEEPEST: usize = 64;

/// Formats that providers know.
const FORMATS: [&str; 9] = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// What says something of a value that a provider need not keep to.
const BOUNDS: [&str; 12] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "format",
];

/// What no provider holds a model to.
const UNSAYABLE: [&str; 16] = [
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "dependentSchemas",
    "dependentRequired",
    "prefixItems",
    "contains",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "additionalItems",
    "$dynamicRef",
];

fn walk(schema: &Value, at: &str, depth: usize) -> Result<Value, String> {
    let Value::Object(map) = schema else {
        return Err(format!("`{at}` says nothing of its value"));
    };
    if depth > DEEPEST {
        return Err(format!("`{at}` lies too deep"));
    }
    if let Some(word) = UNSAYABLE.iter().find(|word| map.contains_key(**word)) {
        return Err(format!("`{at}` has `{word}`"));
    }
    let inner = |value: &Value, name: &str| walk(value, &format!("{at}/{name}"), depth + 1);
    let mut out = Map::new();
    if let Some(to) = map.get("$ref") {
        if map.keys().any(|key| matches!(key.as_str(), "properties" | "type" | "anyOf" | "oneOf" | "allOf" | "enum")) {
            return Err(format!("`{at}` has something beside a reference"));
        }
        out.insert("$ref".to_owned(), to.clone());
        definitions(map, &mut out, at, depth)?;
        return Ok(Value::Object(out));
    }
    if let Some(Value::Array(all)) = map.get("allOf") {
        let [only] = all.as_slice() else {
            return Err(format!("`{at}` has `allOf`"));
        };
        if map.keys().any(|key| matches!(key.as_str(), "properties" | "type" | "anyOf" | "oneOf" | "enum")) {
            return Err(format!("`{at}` has `allOf`"));
        }
        return inner(only, "allOf/0");
    }
    describe(map, &mut out);
    match (map.get("type"), map.get("enum"), map.get("const")) {
        (Some(kind), ..) => drop(out.insert("type".to_owned(), kind.clone())),
        (None, Some(Value::Array(all)), _) => drop(kind_of(all).map(|kind| out.insert("type".to_owned(), kind.into()))),
        (None, _, Some(one)) => {
            drop(kind_of(std::slice::from_ref(one)).map(|kind| out.insert("type".to_owned(), kind.into())))
        }
        _ => {}
    }
    if let Some(all) = map.get("enum") {
        out.insert("enum".to_owned(), all.clone());
    } else if let Some(one) = map.get("const") {
        out.insert("enum".to_owned(), json!([one]));
    }
    for word in ["anyOf", "oneOf"] {
        if let Some(Value::Array(all)) = map.get(word) {
            if out.contains_key("anyOf") {
                return Err(format!("`{at}` has both `anyOf` and `oneOf`"));
            }
            let all: Result<Vec<Value>, String> =
                all.iter().enumerate().map(|(place, one)| inner(one, &format!("{word}/{place}"))).collect();
            out.insert("anyOf".to_owned(), all?.into());
        }
    }
    let says = |kind: &str| match map.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(all)) => all.iter().any(|one| one == kind),
        _ => false,
    };
    if says("object") || map.contains_key("properties") {
        object(map, &mut out, at, depth)?;
    }
    if says("array") || map.contains_key("items") {
        let Some(items) = map.get("items") else {
            return Err(format!("`{at}` is a list of anything"));
        };
        out.insert("items".to_owned(), inner(items, "items")?);
    }
    if !["type", "enum", "anyOf"].iter().any(|word| out.contains_key(*word)) {
        return Err(format!("`{at}` says nothing of its value"));
    }
    definitions(map, &mut out, at, depth)?;
    Ok(Value::Object(out))
}

/// An object closed, and all its fields required: those that may be missing may be null.
fn object(map: &Map<String, Value>, out: &mut Map<String, Value>, at: &str, depth: usize) -> Result<(), String> {
    if map.get("additionalProperties").is_some_and(|further| *further != Value::Bool(false)) {
        return Err(format!("`{at}` is open to further fields"));
    }
    let empty = Map::new();
    let fields = match map.get("properties") {
        Some(Value::Object(fields)) => fields,
        _ if map.get("additionalProperties") == Some(&Value::Bool(false)) => &empty,
        _ => return Err(format!("`{at}` is open to any fields")),
    };
    let required: Vec<&str> =
        map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if let Some(unknown) = required.iter().find(|name| !fields.contains_key(**name)) {
        return Err(format!("`{at}` requires a field {unknown:?} of which it says nothing"));
    }
    let mut closed = Map::new();
    for (name, field) in fields {
        let form = walk(field, &format!("{at}/properties/{name}"), depth + 1)?;
        let form = if required.contains(&name.as_str()) || takes_null(&form) {
            form
        } else {
            json!({"anyOf": [form, {"type": "null"}]})
        };
        closed.insert(name.clone(), form);
    }
    out.insert("type".to_owned(), map.get("type").cloned().unwrap_or_else(|| "object".into()));
    out.insert("required".to_owned(), closed.keys().cloned().collect::<Vec<_>>().into());
    out.insert("properties".to_owned(), closed.into());
    out.insert("additionalProperties".to_owned(), Value::Bool(false));
    Ok(())
}

fn definitions(map: &Map<String, Value>, out: &mut Map<String, Value>, at: &str, depth: usize) -> Result<(), String> {
    for word in ["$defs", "definitions"] {
        if let Some(Value::Object(all)) = map.get(word) {
            let all: Result<Map<String, Value>, String> = all
                .iter()
                .map(|(name, one)| Ok((name.clone(), walk(one, &format!("{at}/{word}/{name}"), depth + 1)?)))
                .collect();
            out.insert(word.to_owned(), all?.into());
        }
    }
    Ok(())
}

/// The description, with the bounds that are not kept otherwise.
fn describe(map: &Map<String, Value>, out: &mut Map<String, Value>) {
    if let Some(title) = map.get("title") {
        out.insert("title".to_owned(), title.clone());
    }
    let mut bounds = Vec::new();
    for word in BOUNDS {
        match map.get(word) {
            Some(Value::String(format)) if word == "format" && FORMATS.contains(&format.as_str()) => {
                out.insert(word.to_owned(), format.as_str().into());
            }
            Some(bound) => bounds.push(format!("{word}: {bound}")),
            None => {}
        }
    }
    let told = map.get("description").and_then(Value::as_str);
    let bounds = (!bounds.is_empty()).then(|| format!("({})", bounds.join(", ")));
    let text: Vec<&str> = told.into_iter().chain(bounds.as_deref()).collect();
    if !text.is_empty() {
        out.insert("description".to_owned(), text.join(" ").into());
    }
}

/// The one type that all values have, if they have one.
fn kind_of(values: &[Value]) -> Option<&'static str> {
    let kind = |value: &Value| match value {
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Null => "null",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let first = values.first().map(kind)?;
    values.iter().all(|value| kind(value) == first).then_some(first)
}

fn takes_null(form: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null";
    match (form.get("enum"), form.get("type"), form.get("anyOf")) {
        (Some(Value::Array(all)), ..) => all.contains(&Value::Null),
        (_, Some(Value::Array(kinds)), _) => kinds.iter().any(is_null),
        (_, Some(kind), _) => is_null(kind),
        (_, _, Some(Value::Array(all))) => all.iter().any(takes_null),
        _ => false,
    }
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
