//! Everything works on a fresh machine with no key.

use crate::bench::Bench;

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
