#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn a_schema_without_dressed_references_is_itself() {
    let tree = json!({
        "type": "object", "properties": {"root": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}
    });
    assert!(matches!(bare_refs(&tree).unwrap(), Cow::Borrowed(_)));
}

#[test]
fn a_reference_with_something_beside_it_is_put_in_place() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a", "description": "An a."}, "b": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"type": "string", "minLength": 1, "description": "Any a."}}
    });
    let wanted = json!({
        "type": "object",
        "properties": {
            "a": {"type": "string", "minLength": 1, "description": "An a."}, "b": {"$ref": "#/$defs/a"}
        },
        "$defs": {"a": {"type": "string", "minLength": 1, "description": "Any a."}}
    });
    assert_eq!(*bare_refs(&schema).unwrap(), wanted);
}

#[test]
fn a_cycle_keeps_its_reference_and_loses_only_notes() {
    let node = |beside: Value| {
        let mut children = json!({"$ref": "#/$defs/node"});
        children.as_object_mut().unwrap().extend(beside.as_object().unwrap().clone());
        json!({
            "type": "object", "properties": {"root": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"type": "object", "properties": {"next": children}}}
        })
    };
    assert_eq!(*bare_refs(&node(json!({"description": "The next."}))).unwrap(), node(json!({})));
    let error = bare_refs(&node(json!({"minProperties": 1}))).unwrap_err();
    assert!(error.problem.contains("minProperties") && error.at.contains("next"), "{error}");
    let error = inline_refs(&node(json!({}))).unwrap_err();
    assert!(error.problem.contains("refers to itself"), "{error}");
}

#[test]
fn references_are_replaced_by_what_they_lead_to() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}, "list": {"type": "array", "items": {"$ref": "#/definitions/b~1c"}}},
        "$defs": {"a": {"anyOf": [{"$ref": "#/definitions/b~1c"}, {"type": "null"}]}},
        "definitions": {"b/c": {"type": "string"}}
    });
    let wanted = json!({
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "list": {"type": "array", "items": {"type": "string"}}
        }
    });
    assert_eq!(inline_refs(&schema).unwrap(), wanted);
    for target in ["https://example.com/a.json", "#/$defs/none", "other.json#/a"] {
        let error = inline_refs(&json!({"properties": {"a": {"$ref": target}}})).unwrap_err();
        assert_eq!(error.at, "/properties/a");
    }
    // A field may be called like a keyword.
    let fields = json!({"type": "object", "properties": {"$ref": {"type": "string"}, "items": {"type": "string"}}});
    assert_eq!(inline_refs(&fields).unwrap(), fields);
}

#[test]
fn references_that_stand_for_millions_are_refused() {
    let mut defs = Map::new();
    for i in 0..40 {
        let next = json!({"$ref": format!("#/$defs/n{}", i + 1)});
        defs.insert(format!("n{i}"), json!({"type": "object", "properties": {"a": next, "b": next}}));
    }
    defs.insert("n40".into(), json!({"type": "string"}));
    let schema = json!({"$ref": "#/$defs/n0", "$defs": defs});
    assert!(inline_refs(&schema).unwrap_err().problem.contains("too large"));
}

#[test]
fn the_root_of_arguments_is_an_object_that_says_so() {
    assert_eq!(object_root(&json!({})).unwrap(), json!({"type": "object", "properties": {}}));
    let schema =
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"x": {"type": "string"}}}}});
    let root = object_root(&schema).unwrap();
    assert_eq!((&root["type"], &root["properties"]["x"]["type"]), (&json!("object"), &json!("string")));
    assert!(root.get("$ref").is_none() && root.get("$defs").is_some());
    assert!(object_root(&json!({"$ref": "#"})).is_err() || object_root(&json!({"$ref": "#"})).is_ok());
    assert!(object_root(&json!(true)).is_err());
}

#[test]
fn the_subset_says_the_same_in_its_own_words() {
    for (schema, wanted) in [
        (json!({"type": "string", "$comment": "x", "format": "email"}), json!({"type": "STRING"})),
        (
            json!({"type": ["string", "null"], "maxLength": 3}),
            json!({"type": "STRING", "nullable": true, "maxLength": 3}),
        ),
        (json!({"const": "a"}), json!({"type": "STRING", "enum": ["a"]})),
        (json!({"type": "integer", "const": 5}), json!({"type": "INTEGER", "minimum": 5, "maximum": 5})),
        (json!({"enum": ["a", null]}), json!({"type": "STRING", "nullable": true, "enum": ["a"]})),
        (
            json!({"type": "integer", "exclusiveMinimum": 0, "maximum": 9}),
            json!({"type": "INTEGER", "minimum": 1, "maximum": 9}),
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"}),
            json!({"type": "STRING", "description": "d", "nullable": true}),
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
            json!({"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}),
        ),
        (
            json!({"type": ["string", "integer"], "minimum": 1, "minLength": 2}),
            json!({"anyOf": [{"type": "STRING", "minLength": 2}, {"type": "INTEGER", "minimum": 1}]}),
        ),
        (
            json!({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"required": ["a"]}]}),
            json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}),
        ),
        (
            json!({"oneOf": [
                {"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]}
            ]}),
            json!({"anyOf": [
                {"type": "OBJECT", "properties": {"k": {"type": "STRING", "enum": ["a"]}}, "required": ["k"]},
                {"type": "OBJECT", "properties": {"k": {"type": "STRING", "enum": ["b"]}}, "required": ["k"]}
            ]}),
        ),
    ] {
        assert_eq!(to_openapi(&schema).unwrap_or_else(|error| panic!("{schema}: {error}")), wanted, "{schema}");
    }
}

#[test]
fn what_the_subset_cannot_say_is_refused_where_it_stands() {
    for (inner, word) in [
        (json!({"type": "object", "additionalProperties": false}), "additionalProperties"),
        (json!({"type": "object", "patternProperties": {"^a": {"type": "string"}}}), "patternProperties"),
        (json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}), "uniqueItems"),
        (json!({"type": "number", "exclusiveMinimum": 0}), "exclusiveMinimum"),
        (json!({"type": "integer", "multipleOf": 5}), "multipleOf"),
        (json!({"type": "integer", "enum": [1, 2]}), "texts only"),
        (json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}), "oneOf"),
        (json!({"type": "string", "not": {"const": "a"}}), "not"),
        (json!({"type": "array"}), "items"),
        (json!({"type": "object", "required": ["a"]}), "required"),
        (json!({}), "any type"),
        (json!(true), "true"),
    ] {
        let schema = json!({"type": "object", "properties": {"x": inner}});
        let error = to_openapi(&schema).unwrap_err();
        assert!(error.at.starts_with("/properties/x"), "{schema}: {error}");
        assert!(error.to_string().contains(word), "{schema}: {error}");
    }
}

#[test]
fn googles_words_become_json_schema() {
    let google = json!({
        "type": "OBJECT",
        "properties": {
            "a": {"type": "STRING", "nullable": true, "enum": ["x"]},
            "b": {"type": "ARRAY", "items": {"type": "INTEGER"}, "min_items": "2"},
            "nullable": {"type": "BOOLEAN"},
            "c": {"any_of": [{"type": "STRING"}], "nullable": true, "description": null}
        },
        "required": ["a"]
    });
    let wanted = json!({
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"], "enum": ["x", null]},
            "b": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
            "nullable": {"type": "boolean"},
            "c": {"anyOf": [{"type": "string"}, {"type": "null"}]}
        },
        "required": ["a"]
    });
    assert_eq!(from_openapi(&google), wanted);
}

/// Schemas of many kinds, among them ones that the subset cannot say.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        (0u8..3, proptest::option::of(0u8..4)).prop_map(|(low, high)| {
            let mut schema = json!({"type": "string", "minLength": low});
            if let Some(high) = high {
                schema["maxLength"] = high.into();
            }
            schema
        }),
        (-2i8..3, any::<bool>()).prop_map(|(low, exclusive)| {
            let key = if exclusive { "exclusiveMinimum" } else { "minimum" };
            json!({"type": "integer", key: low})
        }),
        Just(json!({"type": ["integer", "null"], "maximum": 1})),
        Just(json!({"type": ["string", "boolean"], "minLength": 1})),
        Just(json!({"enum": ["a", "bb", null]})),
        Just(json!({"const": "a"})),
        Just(json!({"const": 1})),
        Just(json!({"type": "boolean"})),
        Just(json!({"$ref": "#/$defs/word"})),
        Just(json!({"$ref": "#/$defs/word", "minLength": 2})),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            (prop::collection::btree_map("[ab]", inner.clone(), 1..3), any::<bool>()).prop_map(|(fields, required)| {
                let names: Vec<String> = fields.keys().cloned().collect();
                let fields: Map<String, Value> = fields.into_iter().collect();
                let mut schema = json!({"type": "object", "properties": fields});
                if required {
                    schema["required"] = names.into();
                }
                schema
            }),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items, "maxItems": 2})),
            prop::collection::vec(inner.clone(), 2..3).prop_map(|list| json!({"anyOf": list})),
            prop::collection::vec(inner.clone(), 2..3).prop_map(|list| json!({"oneOf": list})),
            prop::collection::vec(inner, 2..3).prop_map(|list| json!({"allOf": list})),
        ]
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        Just(json!(0.5)),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_schema_that_goes_out_accepts_what_came_in(schema in any_schema(), values in prop::collection::vec(any_value(), 24)) {
        let mut root = schema;
        root["$defs"] = json!({"word": {"type": "string", "maxLength": 2}});
        let before = jsonschema::validator_for(&root).unwrap();
        let mut forms = vec![bare_refs(&root).unwrap().into_owned(), inline_refs(&root).unwrap()];
        forms.extend(to_openapi(&root).ok().map(|form| from_openapi(&form)));
        for form in forms {
            let after = jsonschema::validator_for(&form).unwrap();
            for value in &values {
                prop_assert_eq!(before.is_valid(value), after.is_valid(value), "{} as {} for {}", root, form, value);
            }
        }
    }
}
