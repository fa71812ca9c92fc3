//! Everything works on a fresh machine with no key.

use crate::bench::{Bench, said};

#[test]
fn with_no_key_and_no_file_it_says_that_it_is_no_language_model_and_still_answers() {
    let bench = Bench::new();
    bench.file("src/long.rs", "a\nb\nc\nd\n").file("src/short.rs", "a\n").file("notes.md", "hello\n");
    let asked = bench.placet(&["run", "Which Rust files are the longest?", "--files", "."]).done();
    assert!(asked.err.contains("no language model"), "{asked:#?}");
    let (long, short) = (asked.out.find("src/long.rs"), asked.out.find("src/short.rs"));
    assert!(matches!((long, short), (Some(long), Some(short)) if long < short), "{asked:#?}");
    let doctor = bench.placet(&["doctor"]).done();
    assert!(doctor.out.contains("offline"), "{doctor:#?}");
}

#[test]
fn it_calculates_when_it_is_handed_a_calculator_and_not_otherwise() {
    let bench = Bench::new();
    let handed = bench.placet(&["run", "What is 6 * 7?", "--calculator"]).done();
    assert!(handed.out.contains("42"), "{handed:#?}");
    let empty_handed = bench.placet(&["run", "What is 6 * 7?"]).done();
    assert!(!empty_handed.out.contains("42"), "{empty_handed:#?}");
}

#[test]
fn a_wrong_command_line_is_told_in_json_where_json_is_asked_for() {
    let bench = Bench::new();
    let told = bench.placet(&["run", "hello", "--max-rounds", "many", "--json"]).ended_with(2);
    let line = &told.json()[0];
    assert_eq!(line["error"]["exit_code"], 2, "{told:#?}");
    assert!(line["error"]["message"].as_str().is_some_and(|text| text.contains("--max-rounds")), "{told:#?}");
    let plain = bench.placet(&["run", "--max-rounds", "many", "--", "--json"]).ended_with(2);
    assert!(plain.out.is_empty() && plain.err.contains("--max-rounds"), "{plain:#?}");
}

#[test]
fn the_doctor_looks_at_what_it_can_without_a_home_and_names_foreign_servers() {
    let bench = Bench::new();
    let mut homeless = bench.program(&["doctor"]);
    homeless.env_remove("PLACET_HOME").env("OPENAI_API_KEY", "sk-x").env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
    let told = said(homeless.output().unwrap()).ended_with(1);
    assert!(told.out.contains("HOME") && told.out.contains("version"), "{told:#?}");
    assert!(told.out.contains("asks the server at http://127.0.0.1:9/v1"), "{told:#?}");
    assert!(!told.out.contains("sk-x") && !told.err.contains("sk-x"), "{told:#?}");
}

#[test]
fn doctor_shows_where_a_key_is_used_and_no_secret_of_the_address() {
    let bench = Bench::new();
    for (address, shown) in [
        ("http://me:passSECRET@127.0.0.1:1/v1", "//***@127.0.0.1:1/v1"),
        ("http://127.0.0.1:1/v1?api_key=SECRET", "127.0.0.1:1/v1"),
    ] {
        let mut doctor = bench.program(&["doctor"]);
        let told = said(doctor.env("OPENAI_API_KEY", "k").env("OPENAI_BASE_URL", address).output().unwrap());
        assert!(told.out.contains(shown) && !told.out.contains("SECRET"), "{address}: {told:#?}");
    }
}
