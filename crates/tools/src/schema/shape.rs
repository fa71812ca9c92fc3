//! Whether a handler's argument type fits a definition that was written elsewhere.
//!
//! Compared is structure: property names, types, enumerated values, nesting, and `required` as a set. Descriptions,
//! titles, defaults, bounds and formats are not structure. That a field which need not be there may also be `null` makes
//! no difference: an `Option` in Rust takes both.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// How deep references are followed before a shape counts as "anything": enough for every type, and an end for recursive ones.
const DEPTH: usize = 24;

/// A schema reduced to its structure. Without anything set it stands for any value.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shape {
    kinds: BTreeSet<String>,
    values: Option<BTreeSet<String>>,
    properties: BTreeMap<String, Property>,
    items: Option<Box<Shape>>,
    extra: Option<Box<Shape>>,
    choices: Vec<Shape>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Property {
    shape: Shape,
    required: bool,
}

/// What a definition's schema and the schema of a handler's argument type do not agree on, in sentences.
pub(crate) fn differences(definition: &Value, handler: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(&shape(definition, definition, 0), &shape(handler, handler, 0), "", &mut found);
    found
}

fn shape(schema: &Value, root: &Value, depth: usize) -> Shape {
    let mut out = Shape::default();
    let Value::Object(map) = schema else { return out };
    if depth < DEPTH {
        collect(map, root, depth, &mut out);
    }
    out
}

fn collect(map: &Map<String, Value>, root: &Value, depth: usize, out: &mut Shape) {
    if let Some(reference) = map.get("$ref").and_then(Value::as_str)
        && let Some(target) = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer))
    {
        merge(out, shape(target, root, depth + 1));
    }
    match map.get("type") {
        Some(Value::String(kind)) => drop(out.kinds.insert(kind.clone())),
        Some(Value::Array(kinds)) => out.kinds.extend(kinds.iter().filter_map(Value::as_str).map(str::to_owned)),
        _ => {}
    }
    if map.get("nullable") == Some(&Value::Bool(true)) {
        out.kinds.insert("null".into());
    }
    if let Some(values) = map.get("enum").and_then(Value::as_array) {
        out.values = Some(values.iter().map(Value::to_string).collect());
    } else if let Some(value) = map.get("const") {
        out.values = Some([value.to_string()].into());
    }
    let required: BTreeSet<&str> =
        map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if let Some(properties) = map.get("properties").and_then(Value::as_object) {
        out.kinds.insert("object".into());
        for (name, schema) in properties {
            let property = Property { shape: shape(schema, root, depth + 1), required: required.contains(&**name) };
            out.properties.insert(name.clone(), property);
        }
    }
    match map.get("additionalProperties") {
        Some(Value::Bool(true)) => out.extra = Some(Box::default()),
        Some(extra @ Value::Object(_)) => out.extra = Some(Box::new(shape(extra, root, depth + 1))),
        _ => {}
    }
    if let Some(items) = map.get("items") {
        out.items = Some(Box::new(shape(items, root, depth + 1)));
    }
    for part in map.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        merge(out, shape(part, root, depth + 1));
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(choices) = map.get(choice).and_then(Value::as_array) {
            choose(out, choices.iter().map(|choice| shape(choice, root, depth + 1)).collect());
        }
    }
}

/// A choice of plain values is an enumeration, and one between something and `null` is that thing, or null.
fn choose(out: &mut Shape, choices: Vec<Shape>) {
    let null = |shape: &Shape| shape.kinds.len() == 1 && shape.kinds.contains("null");
    let (nulls, mut others): (Vec<_>, Vec<_>) = choices.into_iter().partition(null);
    if !others.is_empty() && others.iter().all(|shape| shape.values.is_some()) {
        let values = others.iter().flat_map(|shape| shape.values.iter().flatten().cloned()).collect();
        let kinds = others.iter().flat_map(|shape| shape.kinds.iter().cloned()).collect();
        others = vec![Shape { values: Some(values), kinds, ..Shape::default() }];
    }
    match others.len() {
        1 => others.into_iter().for_each(|only| merge(out, only)),
        _ => out.choices.extend(others),
    }
    if !nulls.is_empty() {
        out.kinds.insert("null".into());
    }
}

fn merge(into: &mut Shape, from: Shape) {
    into.kinds.extend(from.kinds);
    if into.values.is_none() {
        into.values = from.values;
    }
    for (name, property) in from.properties {
        let place = into.properties.entry(name).or_default();
        place.required |= property.required;
        merge(&mut place.shape, property.shape);
    }
    into.items = into.items.take().or(from.items);
    into.extra = into.extra.take().or(from.extra);
    into.choices.extend(from.choices);
}

impl Shape {
    fn is_anything(&self) -> bool {
        *self == Shape::default()
    }

    /// `serde_json::Map` and its like: an object about which nothing is said.
    fn is_any_object(&self) -> bool {
        self.kinds.iter().eq(["object"])
            && self.properties.is_empty()
            && self.extra.as_ref().is_some_and(|extra| extra.is_anything())
    }

    /// The shape without the right to be null.
    fn without_null(mut self) -> Self {
        self.kinds.remove("null");
        if let Some(values) = &mut self.values {
            values.remove("null");
        }
        self
    }

    fn kinds_in_words(&self) -> String {
        if self.kinds.is_empty() { "anything".into() } else { join(&self.kinds) }
    }
}

fn join(words: &BTreeSet<String>) -> String {
    words.iter().map(String::as_str).collect::<Vec<_>>().join(" or ")
}

fn compare(definition: &Shape, handler: &Shape, path: &str, found: &mut Vec<String>) {
    if handler.is_anything() || (handler.is_any_object() && definition.kinds.iter().eq(["object"])) {
        return;
    }
    let at = if path.is_empty() { "the arguments".to_owned() } else { format!("`{path}`") };
    if definition.values != handler.values {
        let words = |shape: &Shape| {
            shape.values.as_ref().map_or_else(|| shape.kinds_in_words(), |values| format!("one of {}", join(values)))
        };
        found.push(format!("{at}: the definition says {}, the handler takes {}", words(definition), words(handler)));
        return;
    }
    if definition.values.is_none() && definition.kinds != handler.kinds {
        let (says, takes) = (definition.kinds_in_words(), handler.kinds_in_words());
        found.push(format!("{at}: the definition says {says}, the handler takes {takes}"));
        return;
    }
    for (name, property) in &definition.properties {
        let path = format!("{path}/{name}");
        match handler.properties.get(name) {
            None => found.push(format!("`{path}` is in the definition, but the handler does not take it")),
            Some(other) if property.required != other.required => {
                let words = |required| if required { "required" } else { "optional" };
                let (says, takes) = (words(property.required), words(other.required));
                found.push(format!("`{path}` is {says} in the definition and {takes} for the handler"));
            }
            Some(other) if property.required => compare(&property.shape, &other.shape, &path, found),
            Some(other) => {
                let (ours, theirs) = (property.shape.clone().without_null(), other.shape.clone().without_null());
                compare(&ours, &theirs, &path, found);
            }
        }
    }
    for name in handler.properties.keys().filter(|name| !definition.properties.contains_key(*name)) {
        found.push(format!("`{path}/{name}` is taken by the handler, but is not in the definition"));
    }
    for (ours, theirs, place) in
        [(&definition.items, &handler.items, "items of"), (&definition.extra, &handler.extra, "other fields of")]
    {
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => compare(ours, theirs, &format!("{path}/*"), found),
            (None, None) => {}
            (ours, theirs) => {
                let anything = |shape: &Option<Box<Shape>>| shape.as_ref().is_none_or(|shape| shape.is_anything());
                if !(anything(ours) && anything(theirs)) {
                    found.push(format!("{place} {at}: only one of definition and handler says what they are"));
                }
            }
        }
    }
    if definition.choices.len() == handler.choices.len() {
        for (number, (ours, theirs)) in definition.choices.iter().zip(&handler.choices).enumerate() {
            compare(ours, theirs, &format!("{path}/choice {}", number + 1), found);
        }
    } else {
        let (ours, theirs) = (definition.choices.len(), handler.choices.len());
        found.push(format!("{at}: the definition has {ours} alternatives, the handler {theirs}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::schema_of;
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Weather {
        city: String,
        unit: Option<Unit>,
        days: Vec<Day>,
    }
    #[derive(Deserialize, JsonSchema)]
    enum Unit {
        /// The one with the freezing point at zero.
        Celsius,
        Fahrenheit,
    }
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Day {
        number: u32,
    }

    fn definition() -> Value {
        json!({
            "$defs": {"day": {"type": "object", "properties": {"number": {"type": "integer", "minimum": 1}}, "required": ["number"]}},
            "type": "object",
            "description": "written by hand",
            "properties": {
                "days": {"type": "array", "items": {"$ref": "#/$defs/day"}},
                "unit": {"type": "string", "enum": ["Fahrenheit", "Celsius"], "default": "Celsius"},
                "city": {"type": "string", "minLength": 1}
            },
            "required": ["days", "city"]
        })
    }

    #[test]
    fn order_descriptions_bounds_references_and_nullable_options_make_no_difference() {
        assert_eq!(differences(&definition(), schema_of::<Weather>().as_value()), Vec::<String>::new());
    }

    #[test]
    fn every_structural_difference_is_named_with_its_place() {
        let cases: [(&str, Value, &str); 7] = [
            (
                "/properties/city/type",
                json!("integer"),
                "`/city`: the definition says integer, the handler takes string",
            ),
            ("/properties/unit/enum", json!(["Celsius"]), "`/unit`: the definition says one of \"Celsius\""),
            ("/required", json!(["city"]), "`/days` is optional in the definition and required for the handler"),
            ("/$defs/day/properties/number/type", json!("string"), "`/days/*/number`: the definition says string"),
            ("/$defs/day/required", json!([]), "`/days/*/number` is optional in the definition"),
            ("/properties", json!({}), "`/city` is taken by the handler, but is not in the definition"),
            ("/properties/days", json!({"type": "array"}), "items of `/days`: only one"),
        ];
        for (pointer, value, says) in cases {
            let mut changed = definition();
            *changed.pointer_mut(pointer).expect(pointer) = value;
            let found = differences(&changed, schema_of::<Weather>().as_value());
            assert!(found.iter().any(|problem| problem.contains(says)), "{pointer}: {found:?}");
        }
        let mut more = definition();
        more["properties"]["extra"] = json!({"type": "boolean"});
        let found = differences(&more, schema_of::<Weather>().as_value());
        assert_eq!(found, ["`/extra` is in the definition, but the handler does not take it"]);
    }

    #[test]
    fn a_handler_of_any_object_fits_every_definition() {
        assert_eq!(differences(&definition(), schema_of::<Map<String, Value>>().as_value()), Vec::<String>::new());
        assert_eq!(differences(&definition(), schema_of::<Value>().as_value()), Vec::<String>::new());
    }

    #[test]
    fn a_recursive_type_is_compared_and_ends() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Tree {
            name: String,
            children: Vec<Tree>,
        }
        let schema = schema_of::<Tree>();
        assert_eq!(differences(schema.as_value(), schema.as_value()), Vec::<String>::new());
    }
}
