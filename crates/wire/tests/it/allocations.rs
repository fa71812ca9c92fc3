//! How often handing on a body allocates: as often for a long one as for a short one.

use crate::counting::counted;
use bytes::Bytes;
use placet_wire::passing::{Edit, Outline, Speech, splice};
use std::borrow::Cow;

/// A Chat body of at least `size` bytes: a long conversation with tools, escapes and nested values.
fn body(size: usize) -> Bytes {
    let mut body = String::from(r#"{"model":"small","stream":true,"temperature":0.5,"tools":["#);
    for n in 0..20 {
        let comma = if n == 0 { "" } else { "," };
        body.push_str(&format!(
            r#"{comma}{{"type":"function","function":{{"name":"tool_{n}","description":"Does \"{n}\".","parameters":{{"type":"object","properties":{{"a":{{"type":"string"}}}}}}}}}}"#
        ));
    }
    body.push_str(r#"],"messages":[{"role":"system","content":"Be brief."}"#);
    while body.len() < size {
        body.push_str(r#",{"role":"user","content":"Wie groß ist \"es\"?\nSag \\ es."},{"role":"assistant","content":"Fünf.","tool_calls":[]}"#);
    }
    body.push_str("]}");
    body.into()
}

fn handed_on(body: &Bytes) -> (Bytes, usize) {
    let outline = Outline::read(body).expect("a body");
    let tools = outline.tool_names(body);
    let mut edits: Vec<Edit<'_>> = Vec::new();
    edits.extend(outline.ask_for_usage(Speech::OpenaiChat, body));
    let model = outline.model.expect("a model");
    edits.push((model, Cow::Borrowed(&b"\"large\""[..])));
    edits.sort_by_key(|(range, _)| range.start);
    (splice(body, &edits), tools.len())
}

#[test]
fn splicing_allocates_a_few_times_however_long_the_body_is() {
    let mut counts = Vec::new();
    for size in [63_000, 630_000] {
        let body = body(size);
        let (count, (spliced, tools)) = counted(|| handed_on(&body));
        let value: serde_json::Value = serde_json::from_slice(&spliced).expect("JSON");
        let mut wanted: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        wanted["model"] = "large".into();
        wanted["stream_options"] = serde_json::json!({"include_usage": true});
        assert_eq!(value, wanted);
        assert_eq!(tools, 20);
        counts.push(count);
    }
    eprintln!("splicing 63 KB and 630 KB allocates {counts:?} times");
    assert!(counts[0] <= 40, "{counts:?}");
    assert_eq!(counts[0], counts[1]);
}

#[test]
fn tools_are_named_in_the_words_of_every_protocol() {
    for (tools, names) in [
        (
            r#"[{"type":"function","function":{"name":"a","parameters":{"name":"no"}}},{"type":"custom","custom":{"name":"b"}}]"#,
            vec!["a", "b"],
        ),
        (r#"[{"type":"function","name":"a"},{"type":"web_search"}]"#, vec!["a", "web_search"]),
        (r#"[{"name":"a","input_schema":{}},{"type":"bash_20250124","name":"bash"}]"#, vec!["a", "bash"]),
        (r#"[{"functionDeclarations":[{"name":"a"},{"name":"b\u0021"}]},{"googleSearch":{}}]"#, vec!["a", "b!"]),
        ("{}", vec![]),
    ] {
        let body = format!(r#"{{"model":"m","tools":{tools},"messages":[]}}"#);
        let outline = Outline::read(body.as_bytes()).expect("a body");
        assert_eq!(outline.tool_names(body.as_bytes()), names, "{tools}");
    }
}
