//! Gemini.

use super::{Case, Served, compare_calls, fold, provider, thought};
use placet_core::part::Native;
use placet_core::{Env, ErrorKind, ItemBody, Part, ProviderError, StopReason, Turn, TurnEvent, TurnRequest};
use placet_wire::gemini::{self, Dialect};
use placet_wire::names::Names;
use placet_wire::{AnswerHead, DecodedRequest, RequestError};
use serde_json::{Value, json};

pub(crate) struct Gemini;

/// The models of these recordings need not be told of both sorts of tools.
fn dialect() -> Dialect {
    Dialect { show_invocations: false, ..Dialect::new(provider()) }
}

fn head() -> AnswerHead {
    AnswerHead {
        id: "resp_1".into(),
        model: "model-1".into(),
        created: 0,
        provider: provider(),
        stream_usage: true,
        request: None,
    }
}

/// What stands beside the parts of a turn, in order.
fn signatures(turn: &Turn) -> Vec<String> {
    let of = |native: &Option<Native>| {
        native.as_ref().and_then(|native| native.value.get("thoughtSignature")?.as_str().map(str::to_owned))
    };
    let found = turn.items.iter().flat_map(|item| match &item.body {
        ItemBody::Reasoning(reasoning) => vec![of(&reasoning.native)],
        ItemBody::ToolCall(call) => vec![of(&call.native)],
        ItemBody::HostedCall(call) => vec![call.value["thoughtSignature"].as_str().map(str::to_owned)],
        ItemBody::Native(native) => vec![of(&Some(native.clone()))],
        ItemBody::Message(message) => {
            let parts = message.parts.iter().map(|part| match part {
                Part::Text(text) => of(&text.native),
                Part::Image(media) | Part::Audio(media) | Part::File(media) => of(&media.native),
                _ => None,
            });
            parts.collect()
        }
        _ => Vec::new(),
    });
    found.flatten().collect()
}

/// A turn without what is made anew with every reading.
fn bare(turn: &Turn) -> Value {
    fn scrub(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("id");
                map.values_mut().for_each(scrub);
            }
            Value::Array(list) => list.iter_mut().for_each(scrub),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(turn).expect("a turn is JSON");
    scrub(&mut value);
    for key in ["model", "response_id"] {
        value.as_object_mut().expect("an object").remove(key);
    }
    value
}

/// Parts as any client may send them back: other ids, another alphabet, shortened in the recording.
fn plain(parts: &Value) -> Value {
    let mut parts = parts.clone();
    for part in parts.as_array_mut().into_iter().flatten() {
        let Some(part) = part.as_object_mut() else { continue };
        part.retain(|key, value| !(value.is_null() || key == "thought" && *value == json!(false)));
        if let Some(call) = part.get_mut("functionCall").and_then(Value::as_object_mut) {
            call.remove("id");
        }
        if let Some(Value::String(signature)) = part.get_mut("thoughtSignature") {
            *signature = signature.replace('-', "+").replace('_', "/").chars().take(40).collect();
        }
    }
    parts
}

impl Served for Gemini {
    const NAME: &'static str = "gemini";

    fn takes(case: &Case) -> bool {
        case.api == "gemini"
            && matches!(case.endpoint.as_str(), "generateContent" | "embeddings" | "models" | "countTokens")
    }

    fn stream(pieces: &[&[u8]]) -> Vec<TurnEvent> {
        let mut decoder = gemini::decode_events(&dialect(), Names::default());
        let mut events = Vec::new();
        pieces.iter().for_each(|piece| decoder.push(piece, &mut events));
        decoder.end(&mut events);
        events
    }

    fn response(body: &[u8]) -> Result<Vec<TurnEvent>, ProviderError> {
        gemini::decode_response(&provider(), Names::default(), body)
    }

    fn error(status: u16, headers: &http::HeaderMap, body: &[u8]) -> ProviderError {
        gemini::decode_error(&provider(), status, headers, body)
    }

    fn request(case: &Case, body: &[u8], env: &Env) -> Result<DecodedRequest, RequestError> {
        let mut decoded = gemini::decode_request(body, &provider(), env)?;
        if let Some(target) = gemini::target(case.request_path(), None) {
            decoded.request.model = target.model;
            decoded.stream = target.stream;
        }
        Ok(decoded)
    }

    fn onto(decoded: &DecodedRequest, request: &TurnRequest) -> Result<Value, ProviderError> {
        let encoded = gemini::encode_request_onto(&decoded.body, &decoded.request, request, &dialect())?;
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
        let blocked = expected["prompt_feedback"]["blockReason"].as_str().or_else(|| expected["blocked"].as_str());
        let turn = match result {
            Ok(turn) => turn,
            Err(error) => {
                let code = error.code.as_deref();
                let fits = match expected["error"]["kind"].as_str() {
                    Some("stream_interrupted") => error.kind == ErrorKind::Interrupted,
                    _ => expected["is_error"] == true && code == expected["stop"].as_str(),
                };
                check("error", fits, format!("unexpected {error:?}"));
                let wanted = expected["partial_text"].as_str().map_or_else(|| text("text"), str::to_owned);
                check("partial text", partial == wanted, format!("{partial:?} is not {wanted:?}"));
                return problems;
            }
        };
        if let Some(reason) = blocked {
            let told = turn.native.as_ref().map(|native| &native.value["response"]["promptFeedback"]["blockReason"]);
            let is_told = turn.stop == StopReason::ContentFilter && told.is_some_and(|told| told == reason);
            check("blocked", is_told, format!("{:?} with {told:?}", turn.stop));
            return problems;
        }
        let is_error = expected["is_error"] == true || !expected["error"].is_null();
        check("error", !is_error, format!("none, expected {expected}"));
        if expected.get("text").is_some() {
            check("text", turn.text() == text("text"), format!("{:?} is not {:?}", turn.text(), text("text")));
        }
        if expected.get("reasoning").is_some() {
            let thought = thought(turn);
            check("reasoning", thought == text("reasoning"), format!("{thought:?} is not {:?}", text("reasoning")));
        }
        if let Some(stop) = expected["stop"].as_str() {
            let has_calls = turn.calls().next().is_some();
            let ours = match stop {
                "STOP" if has_calls => "tool_calls",
                "STOP" => "end",
                "MAX_TOKENS" => "max_tokens",
                "SAFETY" | "MODEL_ARMOR" => "content_filter",
                other => other,
            };
            check("stop", turn.stop.as_str() == ours, format!("{} for {stop}", turn.stop));
        }
        let found = signatures(turn);
        match &expected["signatures"] {
            Value::Number(count) => {
                check("signatures", count.as_u64() == Some(found.len() as u64), format!("{} for {count}", found.len()));
            }
            Value::Array(list) => check("signatures", json!(list) == json!(found), format!("{found:?} for {list:?}")),
            _ => {}
        }
        let ours = turn.usage.unwrap_or_default();
        if let Some(usage) = expected.get("usage").filter(|usage| usage.is_object()) {
            let count = |key: &str| usage[key].as_u64().unwrap_or_default();
            let input = count("promptTokenCount") + count("toolUsePromptTokenCount");
            check("input", ours.total_input() == input, format!("{ours:?} for {usage}"));
            check("cached", ours.cache_read == count("cachedContentTokenCount"), format!("{ours:?} for {usage}"));
            let output = count("candidatesTokenCount") + count("thoughtsTokenCount");
            check("output", ours.output == output, format!("{ours:?} for {usage}"));
            check("reasoning tokens", ours.reasoning == count("thoughtsTokenCount"), format!("{ours:?} for {usage}"));
        }
        if let Some(total) = expected["usage_total"].as_u64() {
            check("total", ours.total() == total, format!("{ours:?} for {total}"));
        }
        for (key, ours) in [("id", &turn.response_id), ("model", &turn.model)] {
            if let Some(wanted) = expected[key].as_str() {
                check(key, ours.as_deref() == Some(wanted), format!("{ours:?} is not {wanted:?}"));
            }
        }
        problems.extend(compare_calls(turn, &expected["tool_calls"]));
        // What we would tell a client of it is read as the same turn.
        let again = gemini::encode_response(&head(), turn).to_string();
        match Self::response(again.as_bytes()).map(|events| fold(&events).1) {
            Ok(Ok(again)) if bare(&again) == bare(turn) => {}
            Ok(Ok(again)) => problems.push(format!("told again it is {} and not {}", bare(&again), bare(turn))),
            Ok(Err(error)) | Err(error) => problems.push(format!("told again it is {error:?}")),
        }
        problems
    }

    fn compare_error(case: &Case, error: &ProviderError) -> Vec<String> {
        let body = &case.value["response"]["body"];
        let said = if body.is_array() { &body[0]["error"] } else { &body["error"] };
        let mut problems = Vec::new();
        if said["message"].as_str().is_some_and(|message| error.message != message) {
            problems.push(format!("the message is {:?}", error.message));
        }
        if said["status"].as_str() != error.code.as_deref() {
            problems.push(format!("the code is {:?}", error.code));
        }
        if let Some(retryable) = case.expect()["error"]["retryable"].as_bool()
            && error.kind.is_transient() != retryable
        {
            problems.push(format!("the kind is {}", error.kind));
        }
        problems
    }

    fn other(case: &Case) -> Option<Vec<String>> {
        let mut problems = Vec::new();
        match case.endpoint.as_str() {
            "embeddings" => {
                if let Some(body) = case.request_body() {
                    match gemini::decode_embedding_request(body.to_string().as_bytes()) {
                        Ok(request) => {
                            let encoded = gemini::encode_embedding_request(&request, &dialect()).expect("a request");
                            let again = gemini::decode_embedding_request(&encoded.body).expect("a request");
                            if again != request || request.dimensions.is_none() {
                                problems.push(format!("the request is {request:?} and then {again:?}"));
                            }
                        }
                        Err(error) => problems.push(error.to_string()),
                    }
                }
                if case.status() < 400 {
                    problems.extend(
                        gemini::decode_embeddings(&provider(), case.body().as_bytes())
                            .err()
                            .map(|error| error.to_string()),
                    );
                }
            }
            "models" if case.status() < 400 => {
                let models = gemini::decode_models(&provider(), case.body().as_bytes());
                problems.extend(models.err().map(|error| error.to_string()));
            }
            "countTokens" if case.status() < 400 => {
                let count = gemini::decode_count(&provider(), case.body().as_bytes());
                problems.extend(count.err().map(|error| error.to_string()));
            }
            "generateContent" => return None,
            _ => {}
        }
        if case.status() >= 400 {
            let error = Self::error(case.status(), &case.headers(), case.body().as_bytes());
            problems.extend(Self::compare_error(case, &error));
        }
        Some(problems)
    }

    fn replayed(before: &DecodedRequest, turn: &Turn, after: &DecodedRequest) -> Vec<String> {
        let mut request = before.request.clone();
        request.items.extend(turn.items.iter().cloned());
        let encoded = match gemini::encode_request(&request, &dialect()) {
            Ok(encoded) => encoded,
            Err(error) => return vec![error.to_string()],
        };
        let ours: Value = serde_json::from_slice(&encoded.body).expect("a body is JSON");
        let at = before.body["contents"].as_array().map_or(0, Vec::len);
        let (ours, theirs) = (plain(&ours["contents"][at]["parts"]), plain(&after.body["contents"][at]["parts"]));
        if ours == theirs { Vec::new() } else { vec![format!("{ours} is not {theirs}")] }
    }
}
