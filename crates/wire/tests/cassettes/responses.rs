//! OpenAI Responses, and those who speak it.

use super::{Case, Served, compare_calls, differences, provider, thought};
use placet_core::{Env, ItemBody, ProviderError, Turn, TurnEvent, TurnRequest};
use placet_wire::names::Names;
use placet_wire::openai_responses::{self, Dialect};
use placet_wire::{DecodedRequest, RequestError};
use serde_json::Value;

pub(crate) struct Responses;

fn dialect() -> Dialect {
    Dialect::new(provider())
}

impl Served for Responses {
    const NAME: &'static str = "responses";

    fn takes(case: &Case) -> bool {
        case.endpoint == "responses"
            || (case.api == "openai_responses" && matches!(case.endpoint.as_str(), "count_tokens" | "models"))
            || (case.api == "xai" && case.endpoint == "models")
    }

    fn stream(pieces: &[&[u8]]) -> Vec<TurnEvent> {
        let mut decoder = openai_responses::decode_events(&dialect(), Names::default());
        let mut events = Vec::new();
        pieces.iter().for_each(|piece| decoder.push(piece, &mut events));
        decoder.end(&mut events);
        events
    }

    fn response(body: &[u8]) -> Result<Vec<TurnEvent>, ProviderError> {
        openai_responses::decode_response(&provider(), Names::default(), body)
    }

    fn error(status: u16, headers: &http::HeaderMap, body: &[u8]) -> ProviderError {
        openai_responses::decode_error(&provider(), status, headers, body)
    }

    fn request(_case: &Case, body: &[u8], env: &Env) -> Result<DecodedRequest, RequestError> {
        openai_responses::decode_request(body, &provider(), env)
    }

    fn onto(decoded: &DecodedRequest, request: &TurnRequest) -> Result<Value, ProviderError> {
        let dialect = Dialect { stream: decoded.stream, ..dialect() };
        let encoded = openai_responses::encode_request_onto(&decoded.body, &decoded.request, request, &dialect)?;
        Ok(serde_json::from_slice(&encoded.body).expect("JSON"))
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
        if let Some(pending) = openai_responses::pending(case.body().as_bytes()).filter(|_| case.sse().is_none()) {
            check("status", pending.status == text("status"), format!("{pending:?}"));
            check("id", pending.id == text("id"), format!("{pending:?}"));
            check("end", result.is_err(), "an answer that is not there yet has an end".to_owned());
            return problems;
        }
        let turn = match result {
            Ok(turn) => turn,
            Err(error) => {
                let is_cut =
                    expected["status"].is_null() && expected["stop"].is_null() && expected["terminal"].is_null();
                check("error", expects_error || is_cut, format!("unexpected {error:?}"));
                let wanted = expected["partial_text"].as_str().or_else(|| expected["text"].as_str());
                check("partial text", partial == wanted.unwrap_or_default(), format!("{partial:?} is not {wanted:?}"));
                if let Some(message) = expected["error"]["message"].as_str() {
                    check("message", error.message == message, format!("{:?} is not {message:?}", error.message));
                }
                return problems;
            }
        };
        check("error", !expects_error, format!("none, expected {}", expected["error"]));
        let wanted = text("text") + &text("refusal");
        check("text", turn.text() == wanted, format!("{:?} is not {wanted:?}", turn.text()));
        if expected.get("reasoning").is_some() {
            let (thought, wanted) = (thought(turn), text("reasoning"));
            check("reasoning", thought == wanted, format!("{thought:?} is not {wanted:?}"));
        }
        let has_calls = turn.calls().next().is_some();
        let reason = expected["incomplete_details"]["reason"].as_str().or(expected["incomplete_reason"].as_str());
        let stop = match (expected["status"].as_str(), reason) {
            (Some("incomplete"), Some("content_filter")) => "content_filter",
            (Some("incomplete"), _) => "max_tokens",
            _ if has_calls => "tool_calls",
            _ if expected["refusal"].is_string() => "refusal",
            _ => "end",
        };
        check("stop", turn.stop.as_str() == stop, format!("{} for {expected}", turn.stop));
        if let Some(usage) = expected.get("usage").filter(|usage| usage.is_object()) {
            let ours = turn.usage.unwrap_or_default();
            let at = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or_default();
            check("input", ours.total_input() == at("/input_tokens"), format!("{ours:?} for {usage}"));
            check("output", ours.output == at("/output_tokens"), format!("{ours:?} for {usage}"));
            check("cached", ours.cache_read == at("/input_tokens_details/cached_tokens"), format!("{ours:?}"));
            check("written", ours.cache_write == at("/input_tokens_details/cache_write_tokens"), format!("{ours:?}"));
            check("reasoning", ours.reasoning == at("/output_tokens_details/reasoning_tokens"), format!("{ours:?}"));
        }
        for (key, ours) in [("id", &turn.response_id), ("model", &turn.model)] {
            if let Some(wanted) = expected[key].as_str() {
                // A proxy may give another id with every event; the first counts.
                let rotates = case.name.contains("id_rotation") && key == "id";
                check(key, rotates || ours.as_deref() == Some(wanted), format!("{ours:?} is not {wanted:?}"));
            }
        }
        if let Some(wanted) = expected["item_types"].as_array() {
            let kinds: Vec<String> = turn.items.iter().map(|item| kind(&item.body)).collect();
            let mut wanted: Vec<&str> = wanted.iter().filter_map(Value::as_str).collect();
            // A message without content says nothing.
            if turn.text().is_empty() {
                wanted.retain(|kind| *kind != "message");
            }
            check("items", kinds == wanted, format!("{kinds:?} are not {wanted:?}"));
        }
        let mut calls = expected["tool_calls"].clone();
        for call in calls.as_array_mut().into_iter().flatten() {
            if let Some(input) = call["custom_input"].as_str() {
                call["arguments"] = serde_json::json!({ "input": input });
            }
        }
        // A call that was cut is there, and not run because the answer was cut; some readers leave it out.
        let is_left_out = turn.stop.is_cut() && calls.as_array().is_some_and(Vec::is_empty);
        if expected.get("tool_calls").is_some() && !is_left_out {
            problems.extend(compare_calls(turn, &calls));
        }
        problems
    }

    fn compare_error(case: &Case, error: &ProviderError) -> Vec<String> {
        let body = &case.value["response"]["body"];
        let message = body["error"]["message"].as_str().or(body["error"].as_str());
        let differs = message.filter(|message| error.message != *message);
        differs.map(|_| format!("the message is {:?}", error.message)).into_iter().collect()
    }

    fn other(case: &Case) -> Option<Vec<String>> {
        match case.endpoint.as_str() {
            "count_tokens" => {
                let count = openai_responses::decode_count(&provider(), case.body().as_bytes());
                let wanted = case.value["response"]["body"]["input_tokens"].as_u64();
                let mut problems = Vec::new();
                if count.as_ref().ok().copied() != wanted {
                    problems.push(format!("{count:?} is not {wanted:?}"));
                }
                if wanted.map(openai_responses::encode_count).as_ref() != Some(&case.value["response"]["body"]) {
                    problems.push("the count is written otherwise".to_owned());
                }
                problems.extend(super::request::<Responses>(case));
                Some(problems)
            }
            "models" if case.status() < 400 => {
                let models = openai_responses::decode_models(&provider(), case.body().as_bytes());
                Some(models.err().map(|error| error.to_string()).into_iter().collect())
            }
            _ => None,
        }
    }

    fn replayed(before: &DecodedRequest, turn: &Turn, after: &DecodedRequest) -> Vec<String> {
        // Where the provider keeps the conversation, nothing goes back.
        if after.request.provider_state.is_some() {
            return Vec::new();
        }
        let mut next = before.request.clone();
        let wire = |value: &Value| value["input"].as_array().cloned().unwrap_or_default();
        let recorded = wire(&after.body);
        let is_unstored = after.request.controls.store == Some(false);
        next.items.extend(turn.items.iter().cloned());
        let ours = openai_responses::encode_request(&next, &dialect()).expect("it is written");
        let ours = wire(&serde_json::from_slice(&ours.body).expect("JSON"));
        let mut problems = Vec::new();
        let first = before.request.items.len();
        let of_answer: Vec<&Value> = ours[first..].iter().collect();
        // The recorded client may leave items out (it is a reference, not the only form); those it sends are ours, too.
        for item in recorded.iter().skip(first).take_while(|item| item["role"] != "user") {
            let kind = item["type"].as_str().unwrap_or_default();
            if kind.ends_with("_output") || item.get("role").is_some_and(|role| role == "system") {
                continue;
            }
            // Where nothing is kept, ids are left out, and thinking is known by what it came encrypted in.
            let key = match kind {
                "function_call" | "custom_tool_call" => "call_id",
                "reasoning" if !item["encrypted_content"].is_null() => "encrypted_content",
                _ if is_unstored => continue,
                _ => "id",
            };
            if kind.is_empty() || item[key].is_null() {
                continue;
            }
            let Some(ours) = of_answer.iter().find(|ours| ours[key] == item[key]) else {
                problems.push(format!("{kind} {} is not sent back", item[key]));
                continue;
            };
            // What a provider ran itself some clients shorten.
            if !matches!(kind, "function_call" | "custom_tool_call" | "reasoning" | "message") {
                continue;
            }
            let mut found = Vec::new();
            for (name, value) in item.as_object().into_iter().flatten() {
                let same = ours.get(name) == Some(value) || value.is_null();
                let is_empty = value.as_array().is_some_and(Vec::is_empty) && ours.get(name).is_none();
                let is_left_out = name == "status" || (is_unstored && name == "id");
                if !(same || is_empty || is_left_out) {
                    differences(value, ours.get(name).unwrap_or(&Value::Null), name, &mut found);
                }
            }
            if !found.iter().all(|path| path.contains("annotations") || path.contains("logprobs")) {
                problems.push(format!("{kind} {} differs at {found:?}", item[key]));
            }
        }
        problems
    }
}

/// What the wire calls an item.
fn kind(body: &ItemBody) -> String {
    let of = |value: &Value| value["type"].as_str().unwrap_or_default().to_owned();
    match body {
        ItemBody::ToolCall(call) => {
            let native = call.native.as_ref().map(|native| of(&native.value)).unwrap_or_default();
            if native.is_empty() { "function_call".to_owned() } else { native }
        }
        ItemBody::HostedCall(call) => call.kind.clone(),
        ItemBody::Native(native) => of(&native.value),
        other => other.kind().to_owned(),
    }
}
