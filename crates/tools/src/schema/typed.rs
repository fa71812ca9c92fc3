//! Schemas from Rust types and from the short form.

use super::InvalidSchema;
use placet_core::Schema;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The arguments of a tool that takes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoArguments {}

/// The schema of a type, as it is offered to models: JSON Schema 2020-12, references written in place as far as the type
/// is not recursive, objects closed to fields that the type does not have, no formats that only Rust knows (`uint32`).
///
/// A type that says itself that it takes further fields (a flattened map, for instance) stays open.
#[must_use]
pub fn schema_of<T: JsonSchema>() -> Schema {
    let mut settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Value::Object(root) = &mut schema {
        root.remove("$schema");
        root.remove("title");
        if root.get("type").is_some_and(|kind| kind == "object") && !root.contains_key("properties") {
            root.insert("properties".into(), Value::Object(Map::new()));
        }
    }
    close(&mut schema);
    drop_rust_formats(&mut schema);
    Schema::new(schema)
}

/// Closes an object and what lies in it, where nothing else of the schema may allow further fields.
fn close(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    let composed = ["$ref", "allOf", "anyOf", "oneOf", "unevaluatedProperties", "if", "patternProperties"];
    if map.contains_key("properties") && !composed.iter().any(|key| map.contains_key(*key)) {
        map.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(close);
    }
    if let Some(items) = map.get_mut("items") {
        close(items);
    }
    for list in ["prefixItems", "anyOf"] {
        if let Some(Value::Array(schemas)) = map.get_mut(list) {
            schemas.iter_mut().for_each(close);
        }
    }
}

fn drop_rust_formats(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let rust = |format: &Value| {
                let known = format.as_str().unwrap_or_default();
                known.starts_with("int") || known.starts_with("uint") || matches!(known, "float" | "double")
            };
            if map.get("format").is_some_and(rust) {
                map.remove("format");
            }
            map.values_mut().for_each(drop_rust_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_rust_formats),
        _ => {}
    }
}

/// The schema of parameters that are written down as JSON, in full or in the short form.
///
/// The short form is a map of fields: `{"path": {"type": "string", "description": "…", "required": true}}` is an object
/// with one field that has to be there; `required` is lifted out, everything else of a field is its schema. An empty map is
/// an object without fields. Objects made from the short form are closed to other fields.
///
/// A map whose `type` is the text `"object"` is a schema in full and stays as it is. The two cannot be mixed up: in the
/// short form every field's value is an object, so a field named `type` is written `{"type": {"type": "string"}}`.
///
/// # Errors
/// [`InvalidSchema`] when it is neither, or when a field's `required` is no boolean.
pub fn parameters(parameters: Value) -> Result<Schema, InvalidSchema> {
    let Value::Object(fields) = parameters else {
        return Err(InvalidSchema(format!(
            "parameters are of type {}; expected a JSON Schema of an object, or a map of fields",
            placet_core::tool::json_kind(&parameters)
        )));
    };
    if fields.get("type").is_some_and(|kind| kind == "object") {
        return Ok(Schema::new(Value::Object(fields)));
    }
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, field) in fields {
        let Value::Object(mut field) = field else {
            return Err(InvalidSchema(format!(
                "the field {name:?} is of type {}; expected an object such as {{\"type\": \"string\", \"required\": true}}, \
                 or, for a schema in full, \"type\": \"object\" beside it",
                placet_core::tool::json_kind(&field)
            )));
        };
        // A nested object in full has a list of required fields of its own, which is not lifted out.
        match field.get("required") {
            Some(Value::Bool(needed)) => {
                if *needed {
                    required.push(Value::String(name.clone()));
                }
                field.remove("required");
            }
            Some(Value::Array(_)) | None => {}
            Some(other) => {
                return Err(InvalidSchema(format!(
                    "`required` of the field {name:?} is {other}; expected true or false"
                )));
            }
        }
        properties.insert(name, Value::Object(field));
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = Value::Array(required);
    }
    schema["additionalProperties"] = Value::Bool(false);
    Ok(Schema::new(schema))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_becomes_a_closed_schema_without_rust_formats() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Step {
            /// How far to the right.
            dx: i8,
            steps: Option<u32>,
            via: Vec<Point>,
        }
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Point {
            x: f64,
        }
        let schema = schema_of::<Step>();
        assert_eq!(
            schema.as_value(),
            &json!({
                "type": "object",
                "properties": {
                    "dx": {"description": "How far to the right.", "type": "integer", "minimum": -128, "maximum": 127},
                    "steps": {"type": ["integer", "null"], "minimum": 0},
                    "via": {"type": "array", "items": {
                        "type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"],
                        "additionalProperties": false
                    }}
                },
                "required": ["dx", "via"],
                "additionalProperties": false
            })
        );
        assert_eq!(schema_of::<NoArguments>().as_value()["properties"], json!({}));
    }

    #[test]
    fn open_maps_and_tagged_choices_stay_open() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Open {
            name: String,
            #[serde(flatten)]
            rest: Map<String, Value>,
        }
        assert_ne!(schema_of::<Open>().as_value()["additionalProperties"], json!(false));
        assert_ne!(schema_of::<Map<String, Value>>().as_value()["additionalProperties"], json!(false));
    }

    #[test]
    fn the_short_form_lifts_required_and_a_full_schema_stays_as_it_is() {
        let short = json!({
            "path": {"type": "string", "description": "Where.", "required": true},
            "depth": {"type": "integer", "required": false},
            "type": {"type": "string"}
        });
        assert_eq!(
            parameters(short).expect("a short form").as_value(),
            &json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Where."},
                    "depth": {"type": "integer"},
                    "type": {"type": "string"}
                },
                "required": ["path"],
                "additionalProperties": false
            })
        );
        let full = json!({"type": "object", "properties": {"a": {}}, "required": ["a"]});
        assert_eq!(parameters(full.clone()).expect("a full one").as_value(), &full);
        assert_eq!(parameters(json!({})).expect("empty").as_value(), Schema::empty_object().as_value());
    }

    #[test]
    fn what_is_neither_says_what_was_expected() {
        for (wrong, says) in [
            (json!([]), "of type array"),
            (json!({"path": "string"}), "the field \"path\" is of type string"),
            (json!({"path": {"type": "string", "required": "yes"}}), "expected true or false"),
        ] {
            let error = parameters(wrong).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
