#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;

#[test]
fn strict_closes_objects_and_requires_every_field() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Who.", "minLength": 1, "default": "x"},
            "age": {"type": "integer", "minimum": 0, "format": "uint8"},
            "born": {"type": ["string", "null"], "format": "date"},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
            "kind": {"oneOf": [{"const": "a"}, {"const": "b"}]}
        },
        "required": ["name", "tags", "kind"],
        "$defs": {"tag": {"enum": ["x", "y"]}}
    });
    let form = strict(&schema).unwrap();
    assert_eq!(
        form,
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Who. (minLength: 1)"},
                "age": {"anyOf": [
                    {"type": "integer", "description": "(minimum: 0, format: \"uint8\")"}, {"type": "null"}
                ]},
                "born": {"type": ["string", "null"], "format": "date"},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
                "kind": {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["b"]}]}
            },
            "required": ["name", "age", "born", "tags", "kind"],
            "additionalProperties": false,
            "$defs": {"tag": {"type": "string", "enum": ["x", "y"]}}
        })
    );
    assert_eq!(strict(&form).unwrap(), form, "a strict form is its own");
}

#[test]
fn what_no_provider_holds_a_model_to_is_said() {
    for (schema, why) in [
        (json!({"type": "object"}), "`#` is open to any fields"),
        (json!({"type": "object", "properties": {}, "additionalProperties": true}), "`#` is open to further fields"),
        (json!({"type": "object", "properties": {"a": {}}}), "`#/properties/a` says nothing of its value"),
        (json!({"type": "object", "properties": {}, "required": ["a"]}), "`#` requires a field \"a\""),
        (json!({"type": "array"}), "`#` is a list of anything"),
        (json!({"type": "array", "items": {"not": {"type": "null"}}}), "`#/items` has `not`"),
        (json!(true), "`#` says nothing of its value"),
        (json!({"allOf": [{"type": "string"}, {"minLength": 1}]}), "`#` has `allOf`"),
    ] {
        let told = strict(&schema).unwrap_err();
        assert!(told.starts_with(why), "{schema}: {told}");
    }
}

#[test]
fn what_is_no_object_becomes_a_field_of_one() {
    let schema = json!({
        "type": "array",
        "items": {"anyOf": [{"$ref": "#/$defs/leaf"}, {"$ref": "#"}, {"const": {"$ref": "#"}}]},
        "$defs": {"leaf": {"type": "string"}}
    });
    assert_eq!(
        wrapped(&schema),
        json!({
            "$defs": {"leaf": {"type": "string"}},
            "type": "object",
            "properties": {"answer": {
                "type": "array",
                "items": {"anyOf": [
                    {"$ref": "#/$defs/leaf"}, {"$ref": "#/properties/answer"}, {"const": {"$ref": "#"}}
                ]}
            }},
            "required": ["answer"],
            "additionalProperties": false
        })
    );
}
