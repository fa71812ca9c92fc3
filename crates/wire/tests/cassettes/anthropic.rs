//! Anthropic Messages.

use super::{Case, Served, compare_calls, differences, provider, thought};
use placet_core::{Env, ErrorKind, Item, ItemBody, ProviderError, Turn, TurnEvent, TurnRequest};
use placet_wire::anthropic_messages::{self, Dialect};
use placet_wire::names::Names;
use placet_wire::{DecodedRequest, RequestError};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) struct Anthropic;

fn dialect(decoded: &DecodedRequest) -> Dialect {
    Dialect { stream: decoded.stream, ..Dialect::new(provider()) }
}

/// The blocks of a turn in the provider's form.
fn blocks(turn: &Turn) -> Vec<Value> {
    let mut request = TurnRequest { items: turn.items.clone(), ..TurnRequest::default() };
    // Calls have to be answered before anything is encoded.
    for call in turn.calls() {
        let outcome = placet_core::Outcome::new(placet_core::Status::Completed, placet_core::Stage::Execute, None, "x");
        let result = placet_core::ToolResult::of(call, outcome);
        let item = Item::new(Env::system().new_id(), placet_core::Origin::Model, result);
        request.items.push(Arc::new(item));
    }
    let encoded = anthropic_messages::encode_request(&request, &Dialect::new(provider())).expect("a turn goes back");
    let body: Value = serde_json::from_slice(&encoded.body).expect("a body is JSON");
    body["messages"][0]["content"].as_array().cloned().unwrap_or_default()
}

impl Served for Anthropic {
    const NAME: &'static str = "anthropic";

    fn takes(case: &Case) -> bool {
        case.api == "anthropic" && matches!(case.endpoint.as_str(), "messages" | "count_tokens" | "models")
    }

    fn stream(pieces: &[&[u8]]) -> Vec<TurnEvent> {
        let mut decoder = anthropic_messages::decode_events(&Dialect::new(provider()), Names::default());
        let mut events = Vec::new();
        pieces.iter().for_each(|piece| decoder.push(piece, &mut events));
        decoder.end(&mut events);
        events
    }

    fn response(body: &[u8]) -> Result<Vec<TurnEvent>, ProviderError> {
        anthropic_messages::decode_response(&provider(), Names::default(), body)
    }

    fn error(status: u16, headers: &http::HeaderMap, body: &[u8]) -> ProviderError {
        anthropic_messages::decode_error(&provider(), status, headers, body)
    }

    fn request(_case: &Case, body: &[u8], env: &Env) -> Result<DecodedRequest, RequestError> {
        anthropic_messages::decode_request(body, &provider(), env)
    }

    fn onto(decoded: &DecodedRequest, request: &TurnRequest) -> Result<Value, ProviderError> {
        let encoded =
            anthropic_messages::encode_request_onto(&decoded.body, &decoded.request, request, &dialect(decoded))?;
        Ok(serde_json::from_slice(&encoded.body).expect("a body is JSON"))
    }

    fn compare(case: &Case, partial: &str, result: &Result<Turn, ProviderError>) -> Vec<String> {
        let expected = case.expect();
        let text = |key: &str| expected[key].as_str().unwrap_or_default().to_owned();
        let mut problems = Vec::new();
        let mut check = |what: &str, ok: bool, detail: String| {
            if !ok {
                problems.push(format!("{what}: {detail}"));
            }
        };
        let expects_error = expected.get("error").is_some_and(|error| !error.is_null());
        let turn = match result {
            Ok(turn) => turn,
            Err(error) => {
                let may_fail = expects_error || expected["alternative"] == "stream error";
                check("error", may_fail, format!("unexpected {error:?}"));
                if let Some(retryable) = expected["error"]["retryable"].as_bool() {
                    check("retry", error.kind.is_transient() == retryable, format!("{:?}", error.kind));
                }
                if let Some(wanted) = expected["partial_text"].as_str() {
                    check("partial text", partial == wanted, format!("{partial:?} is not {wanted:?}"));
                }
                return problems;
            }
        };
        check("error", !expects_error, format!("none, expected {}", expected["error"]));
        if expected.get("text").is_some() {
            check("text", turn.text() == text("text"), format!("{:?} is not {:?}", turn.text(), text("text")));
        }
        if expected.get("reasoning").is_some() {
            let (thought, wanted) = (thought(turn), text("reasoning"));
            check("reasoning", thought == wanted, format!("{thought:?} is not {wanted:?}"));
        }
        if let Some(stop) = expected["stop"].as_str() {
            let wanted = match stop {
                "end_turn" => "end",
                "tool_use" => "tool_calls",
                "pause_turn" => "pause",
                other => other,
            };
            check("stop", turn.stop.as_str() == wanted, format!("{} for {stop}", turn.stop));
        }
        for key in ["stop_sequence", "stop_details"] {
            if let Some(wanted) = expected.get(key).filter(|wanted| !wanted.is_null()) {
                let ours = turn.native.as_ref().and_then(|native| native.value.get(key));
                check(key, ours == Some(wanted), format!("{ours:?} is not {wanted}"));
            }
        }
        if let Some(usage) = expected.get("usage").filter(|usage| usage.is_object()) {
            let ours = turn.usage.unwrap_or_default();
            let count = |key: &str| usage[key].as_u64().unwrap_or_default();
            let total = count("input_tokens") + count("cache_creation_input_tokens") + count("cache_read_input_tokens");
            check("input", ours.input == count("input_tokens"), format!("{ours:?} for {usage}"));
            check("all input", ours.total_input() == total, format!("{ours:?} for {usage}"));
            check("cached", ours.cache_read == count("cache_read_input_tokens"), format!("{ours:?} for {usage}"));
            check("output", ours.output == count("output_tokens"), format!("{ours:?} for {usage}"));
            let thinking = usage["output_tokens_details"]["thinking_tokens"].as_u64().unwrap_or_default();
            check("thinking", ours.reasoning == thinking, format!("{ours:?} for {usage}"));
            // Nothing of it is lost.
            let beyond = turn.native.as_ref().and_then(|native| native.value.get("usage"));
            if let Some(wanted) = usage.get("iterations") {
                check(
                    "iterations",
                    beyond.and_then(|beyond| beyond.get("iterations")) == Some(wanted),
                    usage.to_string(),
                );
            }
        }
        for (key, ours) in [("id", &turn.response_id), ("model", &turn.model)] {
            if let Some(wanted) = expected[key].as_str() {
                check(key, ours.as_deref() == Some(wanted), format!("{ours:?} is not {wanted:?}"));
            }
        }
        let signed = turn.items.iter().filter(|item| match &item.body {
            ItemBody::Reasoning(reasoning) => {
                reasoning.native.as_ref().is_some_and(|native| native.value.get("signature").is_some())
            }
            _ => false,
        });
        if let Some(wanted) = expected["signatures"].as_u64() {
            let signed = signed.count() as u64;
            check("signatures", signed == wanted, format!("{signed} of {wanted}"));
        }
        let is_cut = turn.stop.is_cut();
        if let Some(wanted) = expected.get("truncated_tool_call") {
            let call = turn.calls().next().expect("a cut call");
            check("cut", is_cut && call.provider_id.as_deref() == wanted["id"].as_str(), format!("{call:?}"));
            check("cut arguments", call.arguments.parse().is_err(), format!("{call:?}"));
        } else if let Some(wanted) = expected.get("tool_calls") {
            problems.extend(compare_calls(turn, wanted));
        }
        let written = blocks(turn);
        if let Some(wanted) = expected["block_types"].as_array() {
            let types: Vec<Value> = written.iter().map(|block| block["type"].clone()).collect();
            if types != *wanted {
                problems.push(format!("the blocks {types:?} are not {wanted:?}"));
            }
        }
        if let Some(wanted) = expected.get("replay_blocks")
            && json!(written) != *wanted
        {
            problems.push(format!("goes back as {written:?}, not as {wanted}"));
        }
        // What came whole goes back block by block as it came, but for what says nothing.
        if case.sse().is_none()
            && let Ok(body) = serde_json::from_str::<Value>(&case.body())
        {
            let mut found = Vec::new();
            differences(&body["content"], &json!(written), "content", &mut found);
            found.retain(|path| !path.ends_with(".citations"));
            if !found.is_empty() {
                problems.push(format!("goes back otherwise at {found:?}"));
            }
        }
        problems
    }

    fn compare_error(case: &Case, error: &ProviderError) -> Vec<String> {
        let told = &case.value["response"]["body"]["error"];
        let mut problems = Vec::new();
        if told["message"].as_str().is_some_and(|message| error.message != message) {
            problems.push(format!("the message is {:?}", error.message));
        }
        if told["type"].as_str().is_some() && error.code.as_deref() != told["type"].as_str() {
            problems.push(format!("the code is {:?}", error.code));
        }
        let retryable = case.expect()["error"]["retryable"].as_bool();
        if retryable.is_some_and(|retryable| retryable != error.kind.is_transient()) {
            problems.push(format!("the kind is {}", error.kind));
        }
        if matches!(error.status, Some(404)) && error.kind != ErrorKind::NotFound {
            problems.push(format!("the kind is {}", error.kind));
        }
        problems
    }

    fn other(case: &Case) -> Option<Vec<String>> {
        if case.status() >= 400 || case.endpoint == "messages" {
            return None;
        }
        let mut problems = super::request::<Anthropic>(case);
        if case.endpoint == "count_tokens" {
            let count = anthropic_messages::decode_count(&provider(), case.body().as_bytes());
            let wanted = case.value["response"]["body"]["input_tokens"].as_u64();
            if count.as_ref().ok() != wanted.as_ref() {
                problems.push(format!("{count:?} tokens, not {wanted:?}"));
            }
        } else {
            let listed = anthropic_messages::decode_models(&provider(), case.body().as_bytes());
            if listed.map_or(0, |listed| listed.len()) == 0 {
                problems.push("no model is listed".to_owned());
            }
        }
        Some(problems)
    }

    fn replayed(before: &DecodedRequest, turn: &Turn, after: &DecodedRequest) -> Vec<String> {
        // What the recorded client sent back of the answer, beside what we do.
        let known = before.body["messages"].as_array().map_or(0, Vec::len);
        let Some(theirs) = after.body["messages"].get(known).filter(|message| message["role"] == "assistant") else {
            return Vec::new();
        };
        let theirs = theirs["content"].as_array().cloned().unwrap_or_default();
        let ours = blocks(turn);
        let mut found = Vec::new();
        differences(&json!(theirs), &json!(ours), "content", &mut found);
        // Clients leave out what says nothing, and may or may not send citations and callers back.
        found.retain(|path| !path.ends_with(".citations") && !path.ends_with(".caller"));
        if found.is_empty() { found } else { vec![format!("{found:?}: {} is not {}", json!(ours), json!(theirs))] }
    }
}
