#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::{Node, *};
use crate::{ClientBody, RequestError};
use proptest::prelude::*;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Whether a text may hold a number that a `Value` would round.
fn has_long_number(json: &str) -> bool {
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.');
    json.as_bytes().split(|byte| !is_part(byte)).any(|number| number.len() > 15)
}

/// A body is read through whoever holds it; here it is held to the end.
fn read(text: &[u8]) -> Result<Node<'static>, RequestError> {
    Box::leak(Box::new(ClientBody::new(text)?)).read()
}

/// Both readers say the same of a text: that it is none, with the same words, or what it is. Halves of letters are read here alone.
fn agree(text: &[u8]) {
    if let Some(repaired) = std::str::from_utf8(text).ok().and_then(crate::surrogates::repaired)
        && let Ok(theirs) = serde_json::from_str::<Value>(&repaired)
    {
        assert_eq!(read(text).unwrap().to_value(), theirs);
        return;
    }
    match (read(text), serde_json::from_slice::<Value>(text)) {
        (Ok(ours), Ok(theirs)) => {
            let value = ours.to_value();
            assert_eq!(value, theirs);
            // The order of fields too.
            assert_eq!(value.to_string(), theirs.to_string());
            let written = to_vec(&ours).unwrap();
            match serde_json::from_slice::<Value>(&written) {
                // Digits are kept here alone.
                Ok(again) if has_long_number(&String::from_utf8_lossy(text)) => assert_eq!(again, theirs),
                _ => assert_eq!(written, theirs.to_string().into_bytes()),
            }
        }
        (Err(ours), Err(theirs)) => assert_eq!(ours, RequestError::not_json(&theirs)),
        (ours, theirs) => panic!("{ours:?} and {theirs:?} of {}", String::from_utf8_lossy(text)),
    }
}

fn write_alike(value: &(impl Serialize + ?Sized)) {
    let ours = to_vec(value).map(|bytes| String::from_utf8(bytes).unwrap());
    match (ours, serde_json::to_string(value)) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs),
        (Err(_), Err(_)) => {}
        (ours, theirs) => panic!("{ours:?} and {theirs:?}"),
    }
}

#[test]
fn what_is_json_and_what_is_none_is_told_alike() {
    let deep = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
    for levels in [1, 126, 127, 128, 129] {
        agree(&deep(levels));
    }
    let texts: &[&[u8]] = &[
        b"",
        b" ",
        b"null",
        b" null ",
        b"nul",
        b"nulll",
        b"true",
        b"false",
        b"truefalse",
        b"0",
        b"-0",
        b"-",
        b"01",
        b"1.",
        b"1.5",
        b".5",
        b"1e5",
        b"1e",
        b"1E+2",
        b"1e-2",
        b"1e400",
        b"-1e400",
        b"18446744073709551615",
        b"18446744073709551616",
        b"-9223372036854775809",
        b"0.1",
        b"123456789012345678901234567890",
        b"1+1",
        b"--1",
        b"[",
        b"]",
        b"[]",
        b"[ ]",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"[1,2]x",
        b"{}",
        b"{ }",
        b"{\"a\"}",
        b"{\"a\":}",
        b"{\"a\":1,}",
        b"{,}",
        b"{a:1}",
        b"{\"a\":1 \"b\":2}",
        b"{\"a\":1,\"b\":2}",
        b"{\"a\":1}}",
        b"\"",
        b"\"a",
        b"\"a\"",
        b"\"\\\"",
        b"\"\\\"\"",
        b"\"\\x\"",
        b"\"\\/\\b\\f\\n\\r\\t\\\\\"",
        b"\"\\u0041\"",
        b"\"\\u00e9\\u00C9\"",
        b"\"\\ud83d\\ude00\"",
        b"\"\\ud83d\"",
        b"\"\\ude00\"",
        b"\"\\ud83dx\"",
        b"\"\\ud83d\\n\"",
        b"\"\\ud83d\\ud83d\"",
        b"\"\\u12\"",
        b"\"\\u12g4\"",
        b"\"\\u+123\"",
        b"\"\\u0000\"",
        b"\"a\nb\"",
        b"\"a\x00b\"",
        b"\"\x1f\"",
        b"\"\x7f\"",
        b"\"\xff\"",
        b"\"\xc3\xa9\"",
        b"\"\xc3\"",
        b"\xef\xbb\xbf{}",
        b"{\"a\":1,\"a\":2}",
        b"{\"a\":1,\"b\":3,\"a\":{\"c\":1,\"c\":2}}",
        b"{\"\\u0061\":1,\"a\":2}",
        b"\x0c1",
        b"'a'",
        b"NaN",
        b"[\"12345678\",\"1234567\\n90\",\"123456789012345\\\"\"]",
    ];
    for text in texts {
        agree(text);
    }
    let many: String = (0..40).map(|n| format!("\"k{}\":{n},", n % 30)).collect();
    agree(format!("{{{many}\"last\":[1]}}").as_bytes());
}

#[test]
fn a_schema_is_taken_as_it_stands_where_it_is_as_we_would_write_it() {
    let taken = |text: &str| {
        let body = format!("{{\"parameters\":{text}}}");
        agree(body.as_bytes());
        let node = read(body.as_bytes()).unwrap();
        match node.as_fields().and_then(|fields| fields.get("parameters")) {
            Some(Node::Schema(schema)) => {
                assert_eq!(schema.text, text);
                Some(schema.is_typed)
            }
            Some(_) => None,
            None => panic!("no field"),
        }
    };
    for (text, is_typed) in [
        ("{}", Some(false)),
        (r#"{"type":"object"}"#, Some(false)),
        (r#"{"type":"object","properties":{}}"#, Some(true)),
        (r#"{"properties":{"a \"b\" \\ ":1},"type":1}"#, None),
        (r#"{"properties":{"a":[1,[],{"c":null,"parameters":{"c":true}},"\"é\\"]},"type":"\u00e9"}"#, Some(true)),
        (r#"{"a":{"type":1,"properties":2}}"#, Some(false)),
        (r#"{"type":"object", "properties":{}}"#, None),
        (r#"{"type":1,"type":2,"properties":{}}"#, None),
        (r#"{"properties":{"a":1,"a":2},"type":1}"#, None),
        ("[]", None),
        ("null", None),
    ] {
        assert_eq!(taken(text), is_typed, "{text}");
    }
    for rest in [r#"{"a":1}"#, r#"{"a":[1,]}}"#, r#"{"a":"\x"}}"#, r#"{"a":01}}"#, r#"{"a" "b"}}"#, "{\"a\":\"\n\"}}"] {
        agree(format!("{{\"parameters\":{rest}").as_bytes());
    }
    let deep = |levels: usize| {
        [b"{\"parameters\":{\"a\":".to_vec(), vec![b'['; levels], vec![b']'; levels], b"}}".to_vec()].concat()
    };
    for levels in [123, 124, 125, 126, 127] {
        agree(&deep(levels));
    }
}

#[test]
fn every_sort_of_value_is_written_as_serde_json_writes_it() {
    #[derive(Serialize)]
    enum Sort {
        Unit,
        New(i8),
        Tuple(u8, bool),
        Named { a: f64 },
    }
    #[derive(Serialize)]
    struct All<'a> {
        text: &'a str,
        raw: &'a RawValue,
        none: Option<u8>,
        some: Option<&'a str>,
        sorts: [Sort; 4],
        numbers: (u64, i64, f32, f64, f64, i128),
        by_number: BTreeMap<u32, char>,
        by_truth: BTreeMap<bool, ()>,
        empty: Map<String, Value>,
        nothing: [u8; 0],
    }
    let raw = RawValue::from_string("{\"a\" : [1.50, \"\\u00e9\"]}".to_owned()).unwrap();
    let every: String = (0..0x180u32).filter_map(char::from_u32).collect();
    write_alike(&All {
        text: &every,
        raw: &raw,
        none: None,
        some: Some("ü\u{1f600}\u{2028}"),
        sorts: [Sort::Unit, Sort::New(-1), Sort::Tuple(1, true), Sort::Named { a: 0.1 }],
        numbers: (u64::MAX, i64::MIN, 0.1, 1e300, f64::NAN, 1),
        by_number: BTreeMap::from([(1, '"'), (2, 'é')]),
        by_truth: BTreeMap::from([(true, ())]),
        empty: Map::new(),
        nothing: [],
    });
    let text = "{\"a\" : 1.50}";
    let known = verbatim(text).unwrap();
    assert_eq!((known.get(), to_vec(&known).unwrap()), (text, text.as_bytes().to_vec()));
    write_alike(&BTreeMap::from([(vec![1], 1)]));
    write_alike(&BTreeMap::from([(Some(1), 1)]));
    write_alike(&json!([{"a": [null, true, {"b": "\u{0}\u{8}\u{c}"}]}]));
}

#[test]
fn digits_are_kept_and_arguments_with_them() {
    let number = "123456789012345678901234567890";
    let node = read(number.as_bytes()).unwrap();
    assert_eq!((to_vec(&node).unwrap(), node.to_value()), (number.as_bytes().to_vec(), json!(1.2345678901234568e29)));
    for exact in ["18446744073709551615", "-9223372036854775808", "0.1", "1234567890.12345678"] {
        assert_eq!(to_vec(&read(exact.as_bytes()).unwrap()).unwrap(), exact.as_bytes());
    }
    let arguments = format!("{{\"n\":[{number}],\"x\":0.12345678901234567890123}}");
    for (body, place) in [
        (format!("[{{\"type\":\"tool_use\",\"input\":{arguments}}}]"), "/0/input"),
        (format!("{{\"functionCall\":{{\"args\":{arguments}}}}}"), "/functionCall/args"),
        (format!("{{\"function\":{{\"arguments\":{arguments}}}}}"), "/function/arguments"),
    ] {
        let value = read(body.as_bytes()).unwrap().to_value();
        assert_eq!(value.pointer(place), Some(&Value::from(arguments.as_str())), "{body}");
    }
    // What is no arguments of a call stays what it is.
    let other = format!("{{\"type\":\"thing\",\"input\":{arguments}}}");
    assert!(read(other.as_bytes()).unwrap().to_value()["input"].is_object());
}

fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["\\PC{0,20}", "[\"\\\\\n\t\u{0}-\u{30}a]{0,40}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_written_and_read_as_serde_json_does(value in value()) {
        write_alike(&value);
        agree(value.to_string().as_bytes());
        agree(serde_json::to_string_pretty(&value).unwrap().as_bytes());
        agree(json!({"parameters": value}).to_string().as_bytes());
    }

    #[test]
    fn any_bytes_are_told_alike(bytes in prop::collection::vec(prop::sample::select(b"\"\\{}[],:nu1e.-+ \n\xc3\xa9d8ta".to_vec()), 0..24)) {
        agree(&bytes);
    }

    #[test]
    fn a_cut_text_is_told_alike(value in value(), cut in any::<prop::sample::Index>()) {
        let text = value.to_string().into_bytes();
        agree(&text[..cut.index(text.len() + 1)]);
    }
}
