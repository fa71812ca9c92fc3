//! Recorded traffic, where a folder of it is named by `PLACET_CASSETTES`: JSON files with a `response` (`status`, and `sse` or
//! `body`) and what is expected of it. The project holds none of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use placet_core::{Accumulator, Env, ProviderError, ProviderId, Turn, TurnEvent};
use placet_wire::names::Names;
use placet_wire::openai_chat::{self, Dialect};
use serde_json::Value;
use std::path::PathBuf;

#[expect(clippy::disallowed_methods, reason = "an extra test run is pointed at its data by a variable")]
fn folder(names: &[&str]) -> Option<Vec<(String, Value)>> {
    let root = PathBuf::from(std::env::var_os("PLACET_CASSETTES")?);
    let mut cases = Vec::new();
    let places = names.iter().flat_map(|name| [root.join(name), root.join("shareable").join(name)]);
    for place in places {
        let Ok(entries) = std::fs::read_dir(&place) else { continue };
        for entry in entries {
            let path = entry.expect("a readable folder").path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let text = std::fs::read_to_string(&path).expect("a readable case");
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                cases.push((name, serde_json::from_str(&text).expect("a case is JSON")));
            }
        }
    }
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    Some(cases)
}

fn provider() -> ProviderId {
    ProviderId::new("test")
}

fn stream<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<TurnEvent> {
    let mut decoder = openai_chat::decode_events(&Dialect::new(provider()), Names::default());
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut events);
    }
    decoder.end(&mut events);
    events
}

fn fold(events: &[TurnEvent]) -> (String, Result<Turn, ProviderError>) {
    let mut accumulator = Accumulator::new();
    events.iter().for_each(|event| accumulator.push(event));
    (accumulator.text(), accumulator.finish(&provider(), &Env::system()))
}

/// What differs between what was read and what is expected.
fn compare(
    name: &str,
    expected: &Value,
    partial: &str,
    result: &Result<Turn, ProviderError>,
    problems: &mut Vec<String>,
) {
    let mut check = |what: &str, ok: bool, detail: String| {
        if !ok {
            problems.push(format!("{name}: {what}: {detail}"));
        }
    };
    let expects_error = expected.get("error").is_some_and(|error| !error.is_null());
    let turn = match result {
        Ok(turn) => turn,
        Err(error) => {
            check("error", expects_error || expected["stop"].is_null(), format!("unexpected {error:?}"));
            let wanted = expected["partial_text"].as_str().or_else(|| expected["text"].as_str()).unwrap_or_default();
            check("partial text", partial == wanted, format!("{partial:?} is not {wanted:?}"));
            return;
        }
    };
    check("error", !expects_error, format!("none, expected {}", expected["error"]));
    let text = |key: &str| expected[key].as_str().unwrap_or_default().to_owned();
    let wanted = text("text") + &text("refusal");
    check("text", turn.text() == wanted, format!("{:?} is not {wanted:?}", turn.text()));
    let thought: String = turn
        .items
        .iter()
        .filter_map(|item| match &item.body {
            placet_core::ItemBody::Reasoning(reasoning) => Some(reasoning.text.clone()),
            _ => None,
        })
        .collect();
    check("reasoning", thought == text("reasoning"), format!("{thought:?} is not {:?}", text("reasoning")));
    let none = Vec::new();
    let wanted = expected["tool_calls"].as_array().unwrap_or(&none);
    let calls: Vec<_> = turn.calls().collect();
    check("calls", calls.len() == wanted.len(), format!("{} calls, expected {}", calls.len(), wanted.len()));
    for (call, wanted) in calls.iter().zip(wanted) {
        check("name", Some(call.name.as_str()) == wanted["name"].as_str(), format!("{} for {wanted}", call.name));
        let id = wanted["id"].as_str().filter(|id| !id.is_empty());
        check("id", call.provider_id.as_deref() == id, format!("{:?} for {wanted}", call.provider_id));
        match wanted.get("arguments").filter(|arguments| arguments.is_object()) {
            Some(arguments) => {
                let parsed = call.arguments.parse().map(Value::Object);
                check("arguments", parsed.as_ref() == Ok(arguments), format!("{parsed:?} is not {arguments}"));
            }
            None => {
                let raw = wanted["arguments_raw"].as_str().unwrap_or_default();
                check("raw arguments", call.arguments.as_text() == raw, format!("{:?} is not {raw:?}", call.arguments));
            }
        }
    }
    if let Some(stop) = expected["stop"].as_str() {
        let ours = match stop {
            "length" => "max_tokens",
            "stop" if !calls.is_empty() => "tool_calls",
            "stop" if expected["refusal"].is_string() => "refusal",
            "stop" => "end",
            "" if !calls.is_empty() => "tool_calls",
            other => other,
        };
        check("stop", turn.stop.as_str() == ours, format!("{} for {stop}", turn.stop));
    }
    if let Some(usage) = expected.get("usage").filter(|usage| usage.is_object()) {
        let ours = turn.usage.unwrap_or_default();
        let input = usage["prompt_tokens"].as_u64().unwrap_or_default();
        check("usage", ours.total_input() == input, format!("{ours:?} for {usage}"));
        let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or_default();
        check("cached", ours.cache_read == cached, format!("{ours:?} for {usage}"));
    }
    for (key, ours) in [("id", &turn.response_id), ("model", &turn.model)] {
        if let Some(wanted) = expected[key].as_str() {
            check(key, ours.as_deref() == Some(wanted), format!("{ours:?} is not {wanted:?}"));
        }
    }
}

#[test]
fn recorded_answers_are_read_as_expected() {
    let Some(cases) = folder(&["openai_chat", "other", "xai"]) else {
        eprintln!("SKIPPED recorded_answers_are_read_as_expected: PLACET_CASSETTES names no folder");
        return;
    };
    let (mut problems, mut streams, mut bodies, mut errors, mut cuts) = (Vec::new(), 0, 0, 0, 0);
    for (name, case) in &cases {
        let response = &case["response"];
        if case["endpoint"] != "chat" {
            continue;
        }
        let status = response["status"].as_u64().unwrap_or(200);
        let body = response["body"].as_str().map_or_else(|| response["body"].to_string(), str::to_owned);
        if status >= 400 {
            errors += 1;
            let status = u16::try_from(status).expect("a status");
            let error = openai_chat::decode_error(&provider(), status, &http::HeaderMap::new(), body.as_bytes());
            let message = case["response"]["body"]["error"]["message"].as_str();
            if message.is_some_and(|message| error.message != message) {
                problems.push(format!("{name}: message {:?}", error.message));
            }
            eprintln!("{name}: {} {:?}", error.kind, error.code);
            continue;
        }
        if let Some(text) = response["sse"].as_str() {
            streams += 1;
            let events = stream([text.as_bytes()]);
            let (partial, result) = fold(&events);
            compare(name, &case["expect"], &partial, &result, &mut problems);
            // The law is checked at every offset elsewhere; recordings get some two hundred cuts each.
            let step = (text.len() / 200).max(1) | 1;
            for cut in (0..=text.len()).step_by(step) {
                cuts += 1;
                let (head, tail) = text.as_bytes().split_at(cut);
                if stream([head, tail]) != events {
                    problems.push(format!("{name}: cut at {cut} gives other events"));
                    break;
                }
            }
            if stream([text.replace('\n', "\r\n").as_bytes()]) != events {
                problems.push(format!("{name}: CRLF gives other events"));
            }
        } else {
            bodies += 1;
            match openai_chat::decode_response(&provider(), Names::default(), body.as_bytes()) {
                Ok(events) => {
                    let (partial, result) = fold(&events);
                    compare(name, &case["expect"], &partial, &result, &mut problems);
                }
                Err(error) => problems.push(format!("{name}: {error:?}")),
            }
        }
    }
    eprintln!("{streams} streams at {cuts} cuts, {bodies} bodies, {errors} errors of {} cases", cases.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(streams > 0, "the folder holds no stream of this protocol");
}
