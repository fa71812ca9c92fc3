//! The subset of JSON Schema that the older Gemini field `parameters` knows: OpenAPI's, in Google's spelling.

use super::{SchemaError, inline_refs, is_note, merge};
use serde_json::{Map, Value, json};

/// Keywords that the subset knows and that go out as they are.
const KNOWN: [&str; 16] = [
    "title",
    "description",
    "default",
    "example",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "propertyOrdering",
    "required",
    "nullable",
];

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];

/// Which types a keyword says something about.
fn types_of(keyword: &str) -> &'static [&'static str] {
    match keyword {
        "pattern" | "minLength" | "maxLength" => &["string"],
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => &["number", "integer"],
        "items" | "minItems" | "maxItems" | "uniqueItems" => &["array"],
        "properties" | "required" | "additionalProperties" | "minProperties" | "maxProperties" | "propertyOrdering" => {
            &["object"]
        }
        _ => &TYPES,
    }
}

/// A JSON Schema in the words of the subset.
///
/// # Errors
/// [`SchemaError`] for what the subset cannot say: closed objects, alternatives that exclude one another without showing it,
/// values of any type, references to themselves, and every keyword that it does not know.
pub fn to_openapi(schema: &Value) -> Result<Value, SchemaError> {
    convert(&inline_refs(schema)?, "").map(Value::Object)
}

fn convert(schema: &Value, at: &str) -> Result<Map<String, Value>, SchemaError> {
    let fault = |problem: String| Err(SchemaError::new(at, problem));
    let Value::Object(map) = schema else {
        return fault(format!("the target has no word for the schema `{schema}`"));
    };
    let mut map = map.clone();
    if let Some(Value::Array(all)) = map.shift_remove("allOf") {
        let mut merged = Value::Object(map);
        for part in all {
            let part = match part {
                Value::Object(part) => part,
                Value::Bool(true) => Map::new(),
                other => return fault(format!("the target has no word for the schema `{other}`")),
            };
            merged = merge(merged, part, at)?;
        }
        // What was put together may itself be alternatives of parts.
        return convert(&merged, at);
    }
    if let Some(value) = map.shift_remove("const") {
        constant(&mut map, value, at)?;
    }
    let mut types = types(&map, at)?;
    let alternatives = match (map.shift_remove("anyOf"), map.shift_remove("oneOf")) {
        (Some(Value::Array(any)), None) => Some(any),
        (None, Some(Value::Array(one))) => {
            if !are_disjoint(&one) {
                return fault(
                    "the alternatives of `oneOf` may hold at once, which the target cannot exclude".to_owned(),
                );
            }
            Some(one)
        }
        (None, None) => None,
        _ => return fault("the target cannot hold `anyOf` and `oneOf` at once".to_owned()),
    };
    let mut out = Map::new();
    if let Some(alternatives) = alternatives {
        return choose(&alternatives, map, types, at);
    }
    let nullable = types.len() > 1 && types.contains(&"null") || map.get("nullable") == Some(&Value::Bool(true));
    if nullable {
        types.retain(|name| *name != "null");
    }
    if types.len() > 1 {
        // One alternative for each type, with the keywords that concern it.
        let mut branches = Vec::with_capacity(types.len());
        for name in &types {
            let mut branch = map.clone();
            branch.retain(|key, _| key != "nullable" && !is_note(key) && types_of(key).contains(name));
            branch.insert("type".to_owned(), Value::from(*name));
            if let Some(Value::Array(words)) = branch.get_mut("enum") {
                words.retain(|word| is_of(word, name));
                if words.is_empty() {
                    continue;
                }
            }
            branches.push(Value::Object(convert(&Value::Object(branch), at)?));
        }
        keep_notes(&map, &mut out);
        out.insert("anyOf".to_owned(), Value::Array(branches));
        if nullable {
            out.insert("nullable".to_owned(), true.into());
        }
        return Ok(out);
    }
    let Some(name) = types.first().copied() else {
        return fault("a value of any type cannot be said; give it a `type`".to_owned());
    };
    out.insert("type".to_owned(), name.to_ascii_uppercase().into());
    if nullable {
        out.insert("nullable".to_owned(), true.into());
    }
    for (key, value) in &map {
        keyword(&mut out, key, value, name, nullable, at)?;
    }
    let fields = out.get("properties").and_then(Value::as_object);
    let demanded = out.get("required").and_then(Value::as_array).into_iter().flatten();
    let unknown =
        demanded.filter_map(Value::as_str).find(|name| fields.is_none_or(|fields| !fields.contains_key(*name)));
    if let Some(unknown) = unknown {
        return fault(format!("`{unknown}` is required but not among the `properties`"));
    }
    if name == "array" && !out.contains_key("items") {
        return fault("an array of anything cannot be said; give it `items`".to_owned());
    }
    Ok(out)
}

/// One keyword of a schema of one type.
fn keyword(
    out: &mut Map<String, Value>,
    key: &str,
    value: &Value,
    name: &str,
    nullable: bool,
    at: &str,
) -> Result<(), SchemaError> {
    let here = format!("{at}/{key}");
    let fault = |problem: String| Err(SchemaError::new(&here, problem));
    match (key, value) {
        ("type" | "nullable", _) => {}
        // It says nothing about this type.
        (key, _) if !types_of(key).contains(&name) => {}
        ("format", Value::String(format)) => {
            let is_known = matches!(
                (name, format.as_str()),
                ("string", "date-time" | "enum") | ("integer", "int32" | "int64") | ("number", "float" | "double")
            );
            if is_known {
                out.insert("format".to_owned(), value.clone());
            }
        }
        ("enum", Value::Array(words)) => {
            let words: Vec<Value> = words.iter().filter(|word| !(nullable && word.is_null())).cloned().collect();
            if name != "string" || !words.iter().all(Value::is_string) {
                return fault("the target knows lists of texts only".to_owned());
            }
            out.insert("enum".to_owned(), Value::Array(words));
        }
        ("properties", Value::Object(properties)) => {
            let mut converted = Map::with_capacity(properties.len());
            for (name, schema) in properties {
                let schema = convert(schema, &format!("{here}/{name}"))?;
                converted.insert(name.clone(), Value::Object(schema));
            }
            out.insert("properties".to_owned(), Value::Object(converted));
        }
        ("required", Value::Array(_)) => {
            out.insert("required".to_owned(), value.clone());
        }
        ("items", Value::Object(_)) => {
            let items = convert(value, &here)?;
            out.insert("items".to_owned(), Value::Object(items));
        }
        ("additionalProperties", value) if *value == Value::Bool(true) || *value == json!({}) => {}
        ("uniqueItems", Value::Bool(false)) => {}
        ("multipleOf", value) if name == "integer" && value.as_f64() == Some(1.0) => {}
        ("exclusiveMinimum" | "exclusiveMaximum", value) if name == "integer" => {
            let limit = value.as_i64().filter(|limit| limit.abs() < i64::MAX);
            let Some(limit) = limit else { return fault("the target knows whole limits only".to_owned()) };
            let (key, limit) = if key == "exclusiveMinimum" { ("minimum", limit + 1) } else { ("maximum", limit - 1) };
            let known = out.get(key).and_then(Value::as_i64);
            let limit = match (known, key) {
                (Some(known), "minimum") => known.max(limit),
                (Some(known), _) => known.min(limit),
                (None, _) => limit,
            };
            out.insert(key.to_owned(), limit.into());
        }
        ("minimum" | "maximum", value) if name == "integer" => {
            let known = out.get(key).and_then(Value::as_f64);
            let is_tighter = |known: f64| {
                let limit = value.as_f64().unwrap_or(known);
                if key == "minimum" { limit > known } else { limit < known }
            };
            if known.is_none_or(is_tighter) {
                out.insert(key.to_owned(), value.clone());
            }
        }
        (key, value) if KNOWN.contains(&key) => {
            out.insert(key.to_owned(), value.clone());
        }
        (key, _) if is_note(key) || !is_assertion(key) => {}
        (key, _) => return fault(format!("the target has no word for `{key}`")),
    }
    Ok(())
}

/// The keywords of JSON Schema that restrict a value. Any other unknown word is a note.
fn is_assertion(keyword: &str) -> bool {
    matches!(
        keyword,
        "not"
            | "if"
            | "then"
            | "else"
            | "allOf"
            | "anyOf"
            | "oneOf"
            | "const"
            | "enum"
            | "type"
            | "items"
            | "prefixItems"
            | "additionalItems"
            | "contains"
            | "minContains"
            | "maxContains"
            | "uniqueItems"
            | "unevaluatedItems"
            | "properties"
            | "patternProperties"
            | "propertyNames"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "required"
            | "dependentRequired"
            | "dependentSchemas"
            | "dependencies"
            | "multipleOf"
            | "exclusiveMinimum"
            | "exclusiveMaximum"
            | "minimum"
            | "maximum"
            | "$ref"
            | "$dynamicRef"
            | "$recursiveRef"
    )
}

/// A schema of exactly one value.
fn constant(map: &mut Map<String, Value>, value: Value, at: &str) -> Result<(), SchemaError> {
    let only = match value {
        Value::String(_) => json!({"type": "string", "enum": [value]}),
        Value::Null => json!({"type": "null"}),
        Value::Number(number) if number.is_f64() => json!({"type": "number", "minimum": number, "maximum": number}),
        Value::Number(number) => json!({"type": "integer", "minimum": number, "maximum": number}),
        other => return Err(SchemaError::new(at, format!("the target has no word for the constant `{other}`"))),
    };
    let Value::Object(only) = only else { return Ok(()) };
    // A number that is whole fits both types.
    let is_number = map.get("type") == Some(&json!("number")) && only.get("type") == Some(&json!("integer"));
    if is_number {
        map.shift_remove("type");
    }
    if let Value::Object(merged) = merge(Value::Object(std::mem::take(map)), only, at)? {
        *map = merged;
    }
    Ok(())
}

/// The types of a schema; those of its words where it names none.
fn types(map: &Map<String, Value>, at: &str) -> Result<Vec<&'static str>, SchemaError> {
    let known = |word: &Value| {
        let word = word.as_str().unwrap_or_default().to_ascii_lowercase();
        TYPES.iter().copied().find(|name| *name == word)
    };
    let types: Option<Vec<_>> = match map.get("type") {
        Some(Value::Array(words)) => words.iter().map(known).collect(),
        Some(word) => known(word).map(|name| vec![name]),
        None => match map.get("enum") {
            Some(Value::Array(words)) if words.iter().all(|word| word.is_string() || word.is_null()) => {
                let has_null = words.iter().any(Value::is_null);
                Some(if has_null { vec!["string", "null"] } else { vec!["string"] })
            }
            _ => Some(Vec::new()),
        },
    };
    types.ok_or_else(|| SchemaError::new(at, "its `type` is none of JSON Schema's"))
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => value.is_null(),
    }
}

fn keep_notes(map: &Map<String, Value>, out: &mut Map<String, Value>) {
    for key in ["title", "description", "default", "example"] {
        if let Some(value) = map.get(key) {
            out.insert(key.to_owned(), value.clone());
        }
    }
}

/// Alternatives. What stands beside them concerns each of them, and `null` among them is a flag.
fn choose(
    alternatives: &[Value],
    map: Map<String, Value>,
    types: Vec<&'static str>,
    at: &str,
) -> Result<Map<String, Value>, SchemaError> {
    let mut beside = map.clone();
    beside.retain(|key, _| !is_note(key));
    let is_null = |value: &Value| value.get("type") == Some(&json!("null"));
    let allows_null = types.is_empty() || types.contains(&"null");
    let nullable = allows_null && alternatives.iter().any(is_null);
    let mut branches = Vec::with_capacity(alternatives.len());
    for (i, alternative) in alternatives.iter().enumerate() {
        let at = format!("{at}/anyOf/{i}");
        let Value::Object(branch) = alternative else {
            return Err(SchemaError::new(&at, format!("the target has no word for the schema `{alternative}`")));
        };
        if nullable && is_null(alternative) {
            continue;
        }
        let merged = merge(Value::Object(beside.clone()), branch.clone(), &at)?;
        branches.push(Value::Object(convert(&merged, &at)?));
    }
    let mut out = Map::new();
    match <[Value; 1]>::try_from(branches) {
        Ok([Value::Object(only)]) => {
            out = only;
            keep_notes(&map, &mut out);
        }
        Ok(_) => {}
        Err(branches) if branches.is_empty() => {
            out.insert("type".to_owned(), "NULL".into());
            return Ok(out);
        }
        Err(branches) => {
            keep_notes(&map, &mut out);
            out.insert("anyOf".to_owned(), Value::Array(branches));
        }
    }
    if nullable {
        out.insert("nullable".to_owned(), true.into());
    }
    Ok(out)
}

/// Whether no value fits two of these: they are of different types, or a field that all demand tells them apart.
pub(super) fn are_disjoint(schemas: &[Value]) -> bool {
    let types: Option<Vec<&str>> = schemas.iter().map(|schema| schema.get("type").and_then(Value::as_str)).collect();
    if let Some(types) = &types {
        let kinds: std::collections::BTreeSet<&str> =
            types.iter().map(|name| if *name == "integer" { "number" } else { *name }).collect();
        if kinds.len() == types.len() {
            return true;
        }
    }
    let words = |schema: &Value| -> Option<Vec<Value>> {
        match (schema.get("const"), schema.get("enum")) {
            (Some(value), _) => Some(vec![value.clone()]),
            (None, Some(Value::Array(words))) => Some(words.clone()),
            _ => None,
        }
    };
    let apart = |words: &[Option<Vec<Value>>]| {
        words.iter().enumerate().all(|(i, first)| {
            words[i + 1..].iter().all(|second| match (first, second) {
                (Some(first), Some(second)) => first.iter().all(|word| !second.contains(word)),
                _ => false,
            })
        })
    };
    if apart(&schemas.iter().map(words).collect::<Vec<_>>()) {
        return true;
    }
    // Only objects have fields, and only a field that is there tells anything.
    if types.is_none_or(|types| types.iter().any(|name| *name != "object")) {
        return false;
    }
    let Some(first) = schemas.first().and_then(|schema| schema.get("properties")).and_then(Value::as_object) else {
        return false;
    };
    first.keys().any(|name| {
        let is_demanded = |schema: &Value| {
            let required = schema.get("required").and_then(Value::as_array);
            required.is_some_and(|required| required.iter().any(|field| field.as_str() == Some(name)))
        };
        let fields: Vec<_> = schemas
            .iter()
            .map(|schema| schema.get("properties").and_then(|fields| fields.get(name)).and_then(words))
            .collect();
        schemas.iter().all(is_demanded) && apart(&fields)
    })
}

/// The JSON Schema that a schema of the subset is. What is unknown in it stays.
#[must_use]
pub fn from_openapi(schema: &Value) -> Value {
    let Value::Object(map) = schema else { return schema.clone() };
    let mut out = Map::with_capacity(map.len());
    let nullable = map.get("nullable") == Some(&Value::Bool(true));
    for (key, value) in map {
        let name = crate::gemini::camel_case(key);
        let value = match (&*name, value) {
            ("nullable", _) | (_, Value::Null) => continue,
            ("type", Value::String(word)) => {
                let word = word.to_ascii_lowercase();
                if word == "type_unspecified" {
                    continue;
                }
                if nullable && word != "null" { json!([word, "null"]) } else { Value::String(word) }
            }
            ("properties", Value::Object(properties)) => {
                Value::Object(properties.iter().map(|(name, schema)| (name.clone(), from_openapi(schema))).collect())
            }
            ("items" | "additionalProperties", Value::Object(_)) => from_openapi(value),
            ("anyOf", Value::Array(list)) => {
                let mut list: Vec<Value> = list.iter().map(from_openapi).collect();
                if nullable && !map.contains_key("type") {
                    list.push(json!({"type": "null"}));
                }
                Value::Array(list)
            }
            ("enum", Value::Array(words)) if nullable && !words.contains(&Value::Null) => {
                words.iter().cloned().chain([Value::Null]).collect()
            }
            // Whole numbers of 64 bits come as texts.
            (
                "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties",
                Value::String(n),
            ) => n.parse::<u64>().map_or_else(|_| value.clone(), Value::from),
            _ => value.clone(),
        };
        out.insert(name.into_owned(), value);
    }
    Value::Object(out)
}
