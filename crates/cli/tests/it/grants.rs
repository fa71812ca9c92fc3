//! No capability, no tool, no way in.

use crate::bench::Bench;
use serde_json::json;

#[test]
fn what_is_not_granted_and_what_does_not_exist_read_the_same() {
    let bench = Bench::new();
    bench.file("a.txt", "alpha\n");
    let refusal = |grants: &[&str], tool: &str| {
        let model = bench.script(json!([
            { "calls": [{ "name": tool, "arguments": { "path": "a.txt", "content": "x" } }] },
            { "text": "So be it." },
        ]));
        let mut args = vec!["run", "Write", "--model", &model, "--json"];
        args.extend(grants);
        let events = bench.placet(&args).done().json();
        let failed =
            events.iter().find(|event| event["body"]["type"] == "tool.call.failed").expect("a refusal").clone();
        failed["body"]["result"]["outcome"]["content"].to_string().replace(tool, "TOOL")
    };
    let ungranted = refusal(&["--files", "."], "write");
    assert_eq!(ungranted, refusal(&["--files", "."], "no_such_tool"));
    assert_eq!(ungranted, refusal(&[], "write"));
    assert_eq!(std::fs::read_to_string(bench.folder().join("a.txt")).unwrap(), "alpha\n");
}

#[test]
fn a_command_that_must_be_asked_about_is_refused_without_a_terminal() {
    let bench = Bench::new();
    let model = bench.script(json!([
        { "calls": [{ "name": "run_command", "arguments": { "argv": ["touch", "made"] } }] },
        { "text": "Done." },
    ]));
    let asked = bench.placet(&["run", "Go", "--command", "--model", &model]).done();
    assert!(asked.err.contains("refused"), "{asked:#?}");
    assert!(!bench.folder().join("made").exists());

    let ran = bench.placet(&["run", "Go", "--command=unsandboxed", "--model", &model]).done();
    assert!(ran.err.contains("sandbox L1"), "{ran:#?}");
    assert!(bench.folder().join("made").exists());
}

#[test]
fn a_secret_of_the_environment_reaches_neither_model_nor_journal_nor_terminal() {
    let bench = Bench::new();
    let secret = "correct-horse-battery-staple-42";
    bench.file("notes.txt", &format!("the key is {secret}\n"));
    let model = bench.script(json!([
        { "calls": [{ "name": "read", "arguments": { "path": "notes.txt" } }] },
        { "text": "Read." },
    ]));
    let read = ["run", "Read", "--files", ".", "--model", &model, "--json"];
    let output = bench.program(&read).env("MY_SERVICE_TOKEN", secret).output().unwrap();
    let said = crate::bench::said(output).done();
    assert!(said.out.contains("[redacted]") && !said.out.contains(secret), "{said:#?}");
    let exported = bench.placet(&["runs", "export", "last"]).done();
    assert!(!exported.out.contains(secret));

    // Only an explicit option lets it through, and the journal shows that it did.
    let mut open = read.to_vec();
    open.push("--no-redaction");
    let output = bench.program(&open).env("MY_SERVICE_TOKEN", secret).output().unwrap();
    let said = crate::bench::said(output).done();
    assert!(said.out.contains(secret));
    assert!(said.out.contains("\"unredacted\":true"));
}

#[test]
fn tools_are_shown_as_each_provider_is_told_of_them() {
    let bench = Bench::new();
    let shown = bench.placet(&["tools", "--files", ".", "--calculator"]).done();
    assert!(shown.out.contains("list") && shown.out.contains("calculate"), "{shown:#?}");
    assert!(!shown.out.contains("write"), "not granted, not shown");
    let plain = bench.placet(&["tools", "--command"]).done();
    let shell = bench.placet(&["tools", "--command", "--shell"]).done();
    assert!(plain.out.contains("there is no shell") && shell.out.contains("give a script to a shell"), "{shell:#?}");
    for form in ["anthropic", "openai-responses", "openai-chat", "gemini", "mcp"] {
        let form = bench.placet(&["tools", "--files", ".", "--form", form]).done();
        let _: serde_json::Value = serde_json::from_str(&form.out).expect("JSON");
    }
    let none = bench.placet(&["tools"]).done();
    assert!(none.out.contains("only talk"), "{none:#?}");
}
