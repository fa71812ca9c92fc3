//! Answers of a shape, on the command line.

use crate::bench::Bench;
use serde_json::{Value, json};

fn schema(bench: &Bench) {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    bench.file("count.json", &schema.to_string());
}

#[test]
fn only_the_answer_goes_to_standard_output_and_it_is_json() {
    let bench = Bench::new();
    schema(&bench);
    let model = bench.script(json!([
        { "text": "I would say two.", "usage": { "input": 10, "output": 5 } },
        { "text": "```json\n{\"n\": 2}\n```", "usage": { "input": 20, "output": 4 } },
    ]));
    let ran = bench.placet(&["run", "How many?", "--model", &model, "--output-schema", "count.json"]).done();
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), json!({"n": 2}), "{ran:#?}");
    assert!(ran.err.contains("does not have the wanted shape: it is not JSON"), "{ran:#?}");
    let run = bench.last_run();
    let shown = bench.placet(&["runs", "show", &run]).done();
    assert!(
        shown.out.contains("rejected: it does not have the wanted shape") && shown.out.contains("\"n\": 2"),
        "{shown:#?}"
    );
    assert_eq!(bench.placet(&["runs", "replay", &run]).done().out, ran.out);
    let replay = &bench.placet(&["--json", "runs", "show", &run]).done().json()[0];
    assert_eq!(replay["result"]["output"], json!({"n": 2}));
}

#[test]
fn an_answer_that_misses_the_shape_is_a_failure_that_says_why() {
    let bench = Bench::new();
    schema(&bench);
    let model = bench.script(json!([{ "text": "{\"n\": \"two\"}" }]));
    let args = ["run", "How many?", "--model", &model, "--output-schema", "count.json", "--output-repairs", "0"];
    let ran = bench.placet(&args);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:#?}");
    assert!(ran.err.contains("/n: \"two\" is not of type \"integer\"") && ran.err.contains("said last"), "{ran:#?}");
}

#[test]
fn a_file_that_is_no_schema_is_a_wrong_command_line() {
    let bench = Bench::new();
    bench.file("no.json", "{\"type\": \"strin\"}");
    let ran = bench.placet(&["run", "How many?", "--model", "echo:echo", "--output-schema", "no.json"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert!(ran.err.contains("no.json is no JSON Schema"), "{ran:#?}");
    let ran = bench.placet(&["run", "How many?", "--model", "echo:echo", "--output-schema", "none.json"]);
    assert_eq!(ran.code, Some(4), "{ran:#?}");
}

#[test]
fn what_a_turn_adds_to_what_is_billed_is_shown_with_it() {
    let bench = Bench::new();
    let million = json!({ "input": 1_000_000, "output": 0 });
    let model = bench.script(json!([
        { "text": "Let me see. ", "calls": [{ "name": "list", "arguments": {} }], "usage": million },
        { "text": "Nothing.", "usage": million },
    ]));
    let rates = |input: &str| json!({ model.as_str(): { "input": input, "output": "0" } });
    let prices = json!({ "costs": rates("1"), "billed": rates("5") });
    std::fs::create_dir_all(bench.home()).unwrap();
    std::fs::write(bench.home().join("prices.json"), prices.to_string()).unwrap();
    bench.placet(&["run", "What is here?", "--files", ".", "--model", &model]).done();
    let shown = bench.placet(&["runs", "show", "last"]).done();
    assert_eq!(shown.out.matches("$1 · billed $5").count(), 2, "{shown:#?}");
    assert!(shown.out.contains("$2 · billed $10"), "{shown:#?}");
}
