//! What is known of models, and what runs cost where nobody gave a price.

use crate::bench::{Bench, said};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;

#[test]
fn models_are_listed_with_their_lives_and_prices() {
    let bench = Bench::new();
    let listed = bench.placet(&["models", "list", "--provider", "openai"]).done();
    let line = listed.out.lines().find(|line| line.starts_with("openai:gpt-5.4 ")).expect("gpt-5.4");
    assert!(line.contains("$2.5 / $15") && line.contains("1050k"), "{line}");
    assert!(!listed.out.contains("anthropic:") && !listed.out.contains("text-embedding"), "{listed:#?}");
    let all = bench.placet(&["models", "list", "--all", "--json"]).done().json();
    assert!(all.len() > 250);
    assert!(all.iter().all(|model| model["lifecycle"].is_string() && model["id"].is_string()));
    let none = bench.placet(&["models", "list", "--provider", "nobody"]).done();
    assert!(none.out.contains("knows no model of nobody"), "{none:#?}");
}

#[test]
fn a_model_is_shown_with_what_it_can_and_refuses() {
    let bench = Bench::new();
    let shown = &bench.placet(&["models", "show", "gpt-6-astra", "--json"]).done().json()[0];
    assert_eq!(shown["model"], "openai:gpt-6-astra");
    assert_eq!(shown["profile"]["features"]["temperature"]["status"], "unsupported");
    assert_eq!(
        shown["profile"]["features"]["reasoning_effort"]["values"],
        json!(["low", "medium", "high", "xhigh", "max"])
    );
    assert_eq!(shown["price"]["source"], "catalog");
    assert_eq!(shown["output_strategies"]["provider_native"]["status"], "supported");
    let text = bench.placet(&["models", "show", "claude-opus-5-5"]).done();
    assert!(text.out.contains("anthropic_messages") && text.out.contains("1000000 tokens"), "{text:#?}");
    let unknown = bench.placet(&["models", "show", "ollama:mine"]).done();
    assert!(unknown.out.contains("the catalog does not know it"), "{unknown:#?}");
    bench.placet(&["models", "show", "nobody:x"]).ended_with(4);
}

#[test]
fn costs_are_reckoned_by_the_users_prices_before_the_catalogs() {
    let bench = Bench::new();
    let ask = ["models", "price", "gpt-5.4", "--input", "1000000", "--output", "1000"];
    // More than 272 thousand tokens: 5 and 22.5 dollars per million.
    let priced = bench.placet(&ask).done();
    assert!(priced.out.contains("cost $5.0225") && priced.out.contains("litellm"), "{priced:#?}");
    let flex = bench.placet(&[&ask[..], &["--tier", "flex"]].concat()).done();
    assert!(flex.out.contains("cost $2.51125"), "{flex:#?}");
    let odd = bench.placet(&[&ask[..], &["--tier", "nosuch"]].concat()).ended_with(2);
    assert!(odd.err.contains("nosuch") && odd.err.contains("flex"), "{odd:#?}");
    let off = bench.program(&ask).env("PLACET_CATALOG", "off").output().unwrap();
    assert!(said(off).ended_with(4).err.contains("no price is known"));
    std::fs::create_dir_all(bench.home()).unwrap();
    std::fs::write(bench.home().join("prices.json"), r#"{"costs": {"openai:gpt-5.4": {"input": "1", "output": "2"}}}"#)
        .unwrap();
    let own = &bench.placet(&[&ask[..], &["--json"]].concat()).done().json()[0];
    assert_eq!((&own["source"], own["cost"].as_str()), (&json!("user"), Some("1.002")));
    // What is billed is a markup on the cost, unless a price for billing is given.
    let markup = r#""markup": {"multiplier": "1.2", "minimum_charge": "2"}"#;
    for (more, billed) in [("", "2"), (r#", "billed": {"openai:gpt-5.4": {"input": "5", "output": "5"}}"#, "5.005")] {
        let prices = format!(r#"{{"costs": {{"openai:gpt-5.4": {{"input": "1", "output": "2"}}}}, {markup}{more}}}"#);
        std::fs::write(bench.home().join("prices.json"), prices).unwrap();
        let own = &bench.placet(&[&ask[..], &["--json"]].concat()).done().json()[0];
        assert_eq!((own["cost"].as_str(), own["billed"].as_str()), (Some("1.002"), Some(billed)), "{own}");
        assert!(bench.placet(&ask).done().out.contains(&format!("billed ${billed}")));
    }
    std::fs::write(bench.home().join("prices.json"), r#"{"costs": {"opnai:gpt-5.4": {"input": "1"}}}"#).unwrap();
    let wrong = bench.placet(&ask).ended_with(2);
    assert!(wrong.err.contains("prices.json") && wrong.err.contains("opnai"), "{wrong:#?}");
    std::fs::write(bench.home().join("prices.json"), r#"{"cots": {}}"#).unwrap();
    let wrong = bench.placet(&ask).ended_with(2);
    assert!(wrong.err.contains("prices.json") && wrong.err.contains("cots"), "{wrong:#?}");
}

#[test]
fn a_probe_is_kept_and_shown() {
    let bench = Bench::new();
    let model = bench.script(json!([{ "calls": [{ "name": "note_number", "arguments": { "number": 7 } }] }]));
    let probed = bench.placet(&["models", "probe", &model]).done();
    assert!(probed.out.contains("native tool calls"), "{probed:#?}");
    let shown = bench.placet(&["models", "show", &model]).done();
    assert!(shown.out.contains("it answers native tool calls"), "{shown:#?}");
    let talker = bench.script(json!([{ "text": "I would rather talk." }]));
    let probed = &bench.placet(&["models", "probe", &talker, "--json"]).done().json()[0];
    assert_eq!(probed["answers"], "none");
}

#[test]
fn what_cannot_answer_starts_no_run() {
    let bench = Bench::new();
    let script = bench.placet(&["run", "go", "--model", "scripted:nowhere.json"]).ended_with(4);
    assert!(script.err.contains("nowhere.json"), "{script:#?}");
    let key = bench.placet(&["run", "go", "--model", "openai:gpt-5.4"]);
    assert!(key.code != Some(0) && key.err.contains("OPENAI_API_KEY"), "{key:#?}");
    assert_eq!(bench.placet(&["runs", "list", "--json"]).done().out, "", "nothing was recorded");
}

/// Answers one request after the other with the same stream.
fn server(times: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for _ in 0..times {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = Vec::new();
            let mut piece = [0; 4096];
            // The body is JSON and ends with its object.
            while !seen.ends_with(b"}") {
                let read = stream.read(&mut piece).unwrap();
                seen.extend_from_slice(&piece[..read]);
            }
            let chunk = |choices: Value, usage: Value| {
                format!("data: {}\n\n", json!({"id": "c", "model": "gpt-5.4", "choices": choices, "usage": usage}))
            };
            let said =
                chunk(json!([{"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}]), Value::Null);
            let used = chunk(json!([]), json!({"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}));
            let body = format!("{said}{used}data: [DONE]\n\n");
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn a_run_costs_what_the_catalog_says_unless_a_price_is_given() {
    let bench = Bench::new();
    let url = server(4);
    let run = |more: &[&str], catalog: Option<&str>| {
        let mut program =
            bench.program(&[&["run", "go", "--model", "openai:gpt-5.4", "--base-url", &url], more].concat());
        if let Some(catalog) = catalog {
            program.env("PLACET_CATALOG", catalog);
        }
        said(program.output().unwrap())
    };
    // 1000 tokens at 2.5 and 100 at 15 dollars per million.
    let known = run(&[], None).done();
    assert!(known.out.contains("hello") && known.err.contains("$0.004"), "{known:#?}");
    let given = run(&["--price", "10,10", "--max-cost", "1"], None).done();
    assert!(given.err.contains("$0.011"), "{given:#?}");
    let off = run(&[], Some("off")).done();
    assert!(!off.err.contains('$'), "{off:#?}");
    let refused = run(&["--max-cost", "1"], Some("off")).ended_with(2);
    assert!(refused.err.contains("--price"), "{refused:#?}");
    // What is billed is told beside it.
    std::fs::write(bench.home().join("prices.json"), r#"{"markup": {"multiplier": "2"}}"#).unwrap();
    let billed = run(&[], None).done();
    assert!(billed.err.contains("$0.004 · billed $0.008"), "{billed:#?}");
}

#[test]
fn an_empty_name_is_none_and_half_a_name_is_refused() {
    let bench = Bench::new();
    for name in ["", "  "] {
        let ran = bench.placet(&["run", "What is 19 + 23?", "--calculator", "--model", name]).done();
        assert!(ran.err.contains("model offline: "), "it says what is asked, and why: {ran:#?}");
    }
    for name in ["openai:", "llama"] {
        let refused = bench.placet(&["run", "Hi", "-m", name]).ended_with(2);
        assert!(refused.err.contains("hint:"), "{refused:#?}");
    }
}

#[test]
fn a_script_is_found_again_from_another_folder() {
    let bench = Bench::new();
    bench.file("turns.json", &json!({ "turns": [{ "text": "Slow.", "delay_ms": 3_600_000 }] }).to_string());
    let mut program = bench.program(&["run", "Hi", "--model", "scripted:turns.json", "--json"]);
    let mut child = program.spawn().unwrap();
    // It has begun when it says so.
    let mut byte = [0; 1];
    child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    bench.file("turns.json", &json!({ "turns": [{ "text": "Quick." }] }).to_string());
    let elsewhere = said(bench.program(&["runs", "resume", "last"]).current_dir("/").output().unwrap()).done();
    assert!(elsewhere.out.ends_with("Quick.\n"), "{elsewhere:#?}");
}

/// Answers one request with these bytes.
fn answering(status: &'static str, headers: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n");
            let _ = stream.write_all(format!("{head}{headers}Connection: close\r\n\r\n{body}").as_bytes());
        }
    });
    format!("http://{address}/v1")
}

#[test]
fn what_a_server_refuses_is_told_with_its_status_and_what_to_do() {
    let bench = Bench::new();
    let slow = answering("429 Too Many Requests", "Retry-After: 99999\r\n", r#"{"error":{"message":"slow"}}"#);
    let told = bench.placet(&["run", "Hi", "-m", "openai:m", "--base-url", &slow]).ended_with(1);
    assert!(told.err.contains("slow (HTTP status 429)") && told.err.contains("99999 s"), "{told:#?}");
    let wrong = answering("400 Bad Request", "", r#"{"error":{"message":"oops"}}"#);
    let told = bench.placet(&["run", "Hi", "-m", "openai:m", "--base-url", &wrong]).ended_with(1);
    assert!(told.err.contains("oops (HTTP status 400)"), "{told:#?}");
}
