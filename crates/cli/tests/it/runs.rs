//! What runs leave behind, and how it is read.

use crate::bench::Bench;
use serde_json::json;

fn two_turns(bench: &Bench) -> String {
    bench.script(json!([
        { "text": "Let me see. ", "calls": [{ "name": "list", "arguments": {} }], "usage": { "input": 10, "output": 5 } },
        { "text": "There is one file.", "usage": { "input": 20, "output": 4 } },
    ]))
}

#[test]
fn a_run_is_shown_listed_replayed_exported_and_verified() {
    let bench = Bench::new();
    bench.file("a.txt", "alpha\n");
    let model = two_turns(&bench);
    let ran = bench.placet(&["run", "What is here?", "--files", ".", "--model", &model, "--price", "1,2"]).done();
    assert!(ran.out.ends_with("There is one file.\n"), "{ran:#?}");
    assert!(ran.err.contains("✓ list"), "{ran:#?}");
    assert!(ran.err.contains("30 tokens in, 9 out · $0.000048"), "{ran:#?}");

    let run = bench.last_run();
    let listed = bench.placet(&["runs", "list"]).done();
    assert!(listed.out.contains(&run) && listed.out.contains("completed") && listed.out.contains("What is here?"));
    for name in [run.as_str(), "last", &run[..20], &run["run_".len()..20]] {
        let shown = bench.placet(&["runs", "show", name]).done();
        assert!(shown.out.contains("list of files completed"), "{shown:#?}");
    }
    let replayed = bench.placet(&["runs", "replay", &run]).done();
    assert_eq!(replayed.out, ran.out, "a replay says what the run said");
    let followed = bench.placet(&["runs", "follow", &run]).done();
    assert_eq!(followed.out, ran.out, "so does following one that has ended");

    let exported = bench.placet(&["runs", "export", &run]).done().json();
    assert_eq!(exported[0]["record"]["event"]["type"], "run.started");
    assert_eq!(exported.last().unwrap()["record"]["event"]["type"], "run.completed");
    let verified = bench.placet(&["audit", "verify"]).done();
    assert!(
        verified.out.contains("sound") && verified.out.contains("1 journal verified, 0 not sound"),
        "{verified:#?}"
    );
}

#[test]
fn two_runs_are_compared_record_by_record() {
    let bench = Bench::new();
    bench.file("a.txt", "alpha\n");
    let model = two_turns(&bench);
    let args = ["run", "What is here?", "--files", ".", "--model", &model];
    bench.placet(&args).done();
    let first = bench.last_run();
    bench.placet(&args).done();
    let second = bench.last_run();
    let same = bench.placet(&["runs", "diff", &first, &second]).done();
    assert!(same.out.contains("the same in all"), "{same:#?}");
    bench.file("b.txt", "beta\n");
    bench.placet(&args).done();
    let third = bench.last_run();
    let parted = bench.placet(&["runs", "diff", &second, &third]).done();
    assert!(parted.out.contains("part at record") && parted.out.contains("b.txt"), "{parted:#?}");
}

#[test]
fn json_is_one_object_a_line_and_begins_and_ends_with_the_run() {
    let bench = Bench::new();
    let model = bench.script(json!([{ "text": ["Hel", "lo."] }]));
    let ran = bench.placet(&["run", "Hi", "--model", &model, "--json"]).done();
    let events = ran.json();
    assert_eq!(events[0]["body"]["type"], "run.started");
    assert_eq!(events.last().unwrap()["body"]["type"], "run.completed");
    let deltas: String = events.iter().filter_map(|event| event["body"]["delta"].as_str()).collect();
    assert_eq!(deltas, "Hello.");
}

#[test]
fn what_goes_wrong_has_its_exit_code_and_a_hint() {
    let bench = Bench::new();
    let named = bench.placet(&["runs", "show", "run_nothing"]).ended_with(4);
    assert!(named.err.contains("hint:"), "{named:#?}");
    bench.placet(&["run", "Hi", "--files", "no/such/folder"]).ended_with(2);
    bench.placet(&["run", "   "]).ended_with(2);
    bench.placet(&["run", "Hi", "--model", "nobody:x"]).ended_with(4);
    bench.placet(&["run", "Hi", "--max-cost", "1"]).ended_with(2);
    bench.placet(&["nonsense"]).ended_with(2);
    let model = bench.script(json!([{ "fail": { "kind": "authentication", "message": "no such key" } }]));
    let failed = bench.placet(&["run", "Hi", "--model", &model]).ended_with(1);
    assert!(failed.err.contains("no such key"), "{failed:#?}");
    let json = bench.placet(&["runs", "show", "run_nothing", "--json"]).ended_with(4).json();
    assert_eq!(json[0]["error"]["exit_code"], 4);
}

#[test]
fn a_limit_keeps_everything_and_has_its_own_exit_code() {
    let bench = Bench::new();
    let asks = json!({ "calls": [{ "name": "list", "arguments": {} }] });
    let model = bench.script(json!([asks, asks, asks, { "text": "never reached" }]));
    let ran = bench.placet(&["run", "Go", "--files", ".", "--model", &model, "--max-rounds", "1"]).ended_with(3);
    assert!(ran.err.contains("limit_reached"), "{ran:#?}");
    let verified = bench.placet(&["audit", "verify", "last"]).done();
    assert!(verified.out.contains("sound"), "{verified:#?}");
}

#[test]
fn a_text_that_broke_off_is_shown_to_its_last_letter() {
    let bench = Bench::new();
    let model = bench.script(
        json!([{ "text": ["The password: ", "hunter2", "abcd end of my ", "longish answer here"], "cut": true }]),
    );
    let said = "The password: hunter2abcd end of my longish answer here";
    let ran = bench.placet(&["run", "Hi", "--model", &model]).ended_with(1);
    assert!(ran.out.contains(said), "{ran:#?}");
    assert!(bench.placet(&["runs", "replay", "last"]).ended_with(1).out.contains(said));
    assert!(bench.placet(&["runs", "show", "last"]).done().out.contains(said));
}

#[test]
fn a_base_url_with_a_credential_is_refused_before_anything_is_recorded() {
    let bench = Bench::new();
    for url in ["http://user:passw0rdXYZ@127.0.0.1:9/v1", "http://127.0.0.1:9/v1?api_key=qkey99887766", "nonsense"] {
        let refused = bench.placet(&["run", "Hi", "--base-url", url, "--model", "openai:m"]).ended_with(2);
        assert!(!refused.err.contains("passw0rdXYZ") && !refused.err.contains("qkey99887766"), "{refused:#?}");
    }
    assert_eq!(bench.placet(&["runs", "list", "--json"]).done().out, "");
}

#[test]
fn a_run_remembers_where_its_model_is() {
    let bench = Bench::new();
    let mut program = bench.program(&["run", "Hi", "--model", "openai:m"]);
    program.env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1").output().unwrap();
    let exported = bench.placet(&["runs", "export", "last"]).done().json();
    assert_eq!(exported[0]["record"]["event"]["launch"]["base_url"], "http://127.0.0.1:9/v1");
}

#[test]
#[cfg(target_os = "linux")]
fn an_output_that_cannot_be_written_is_no_success() {
    let bench = Bench::new();
    let model = bench.script(json!([{ "text": "Hello." }]));
    bench.placet(&["run", "Hi", "--model", &model]).done();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut program = bench.program(&["runs", "export", "last"]);
    let said = crate::bench::said(program.stdout(full).output().unwrap()).ended_with(1);
    assert!(said.err.contains("cannot be written"), "{said:#?}");
}
