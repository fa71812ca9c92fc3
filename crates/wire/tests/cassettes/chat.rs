//! OpenAI Chat Completions.

use super::{Case, Served, compare_calls, provider, thought};
use placet_core::{Env, Item, ItemBody, ProviderError, Role, Turn, TurnEvent, TurnRequest};
use placet_wire::names::Names;
use placet_wire::openai_chat::{self, Dialect};
use placet_wire::{DecodedRequest, RequestError};
use serde_json::Value;
use std::sync::Arc;

pub(crate) struct Chat;

impl Served for Chat {
    const NAME: &'static str = "chat";

    fn takes(case: &Case) -> bool {
        case.endpoint == "chat"
            || (matches!(case.api.as_str(), "openai_chat" | "other")
                && matches!(case.endpoint.as_str(), "embeddings" | "models"))
    }

    fn stream(pieces: &[&[u8]]) -> Vec<TurnEvent> {
        let mut decoder = openai_chat::decode_events(&Dialect::new(provider()), Names::default());
        let mut events = Vec::new();
        pieces.iter().for_each(|piece| decoder.push(piece, &mut events));
        decoder.end(&mut events);
        events
    }

    fn response(body: &[u8]) -> Result<Vec<TurnEvent>, ProviderError> {
        openai_chat::decode_response(&provider(), Names::default(), body)
    }

    fn error(status: u16, headers: &http::HeaderMap, body: &[u8]) -> ProviderError {
        openai_chat::decode_error(&provider(), status, headers, body)
    }

    fn request(_case: &Case, body: &[u8], env: &Env) -> Result<DecodedRequest, RequestError> {
        openai_chat::decode_request(body, &provider(), env)
    }

    fn onto(decoded: &DecodedRequest, request: &TurnRequest) -> Result<Value, ProviderError> {
        let (stream, stream_usage) = (decoded.stream, decoded.stream_usage);
        let dialect = Dialect { stream, stream_usage, ..Dialect::new(provider()) };
        let encoded = openai_chat::encode_request_onto(&decoded.body, &decoded.request, request, &dialect)?;
        Ok(serde_json::from_slice(&encoded.body).expect("a body is JSON"))
    }

    fn compare(case: &Case, partial: &str, result: &Result<Turn, ProviderError>) -> Vec<String> {
        let expected = case.expect();
        let text = |key: &str| expected[key].as_str().unwrap_or_default().to_owned();
        let expects_error = expected.get("error").is_some_and(|error| !error.is_null());
        let mut problems = Vec::new();
        let mut check = |what: &str, ok: bool, detail: String| {
            if !ok {
                problems.push(format!("{what}: {detail}"));
            }
        };
        let turn = match result {
            Ok(turn) => turn,
            Err(error) => {
                check("error", expects_error || expected["stop"].is_null(), format!("unexpected {error:?}"));
                let wanted =
                    expected["partial_text"].as_str().or_else(|| expected["text"].as_str()).unwrap_or_default();
                check("partial text", partial == wanted, format!("{partial:?} is not {wanted:?}"));
                return problems;
            }
        };
        check("error", !expects_error, format!("none, expected {}", expected["error"]));
        let wanted = text("text") + &text("refusal");
        check("text", turn.text() == wanted, format!("{:?} is not {wanted:?}", turn.text()));
        let (thought, wanted) = (thought(turn), text("reasoning"));
        check("reasoning", thought == wanted, format!("{thought:?} is not {wanted:?}"));
        if let Some(stop) = expected["stop"].as_str() {
            let has_calls = turn.calls().next().is_some();
            let ours = match stop {
                "length" => "max_tokens",
                "stop" | "" if has_calls => "tool_calls",
                "stop" if expected["refusal"].is_string() => "refusal",
                "stop" => "end",
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
        problems.extend(compare_calls(turn, &expected["tool_calls"]));
        problems
    }

    fn compare_error(case: &Case, error: &ProviderError) -> Vec<String> {
        let message = case.value["response"]["body"]["error"]["message"].as_str();
        message
            .filter(|message| error.message != *message)
            .map(|_| format!("the message is {:?}", error.message))
            .into_iter()
            .collect()
    }

    fn other(case: &Case) -> Option<Vec<String>> {
        let body = case.body();
        if case.status() >= 400 {
            let error = Chat::error(case.status(), &case.headers(), body.as_bytes());
            return (case.endpoint != "chat").then(|| Chat::compare_error(case, &error));
        }
        match case.endpoint.as_str() {
            "models" => {
                let models = openai_chat::decode_models(&provider(), body.as_bytes());
                let wanted = case.value["response"]["body"]["data"].as_array().map_or(0, Vec::len);
                let is_right = models.as_ref().is_ok_and(|models| models.len() == wanted && wanted > 0);
                Some(if is_right { Vec::new() } else { vec![format!("{models:?} are not {wanted} models")] })
            }
            "embeddings" => Some(embeddings(case, &body)),
            _ => None,
        }
    }

    fn replayed(before: &DecodedRequest, turn: &Turn, after: &DecodedRequest) -> Vec<String> {
        let common = before.request.items.len();
        let mut request = after.request.clone();
        // The recorded client may leave out or say otherwise what changes nothing; the calls and texts are the same.
        let said = |items: &[Arc<Item>]| -> Vec<(String, String)> {
            let told = items.iter().filter_map(|item| match &item.body {
                ItemBody::Message(message) if message.role == Role::Assistant => {
                    Some(("text".to_owned(), message.text()))
                }
                ItemBody::ToolCall(call) => Some((call.provider_id.clone()?, format!("{:?}", call.arguments.parse()))),
                _ => None,
            });
            told.filter(|(_, text)| !text.is_empty()).collect()
        };
        let ours = said(&turn.items);
        let theirs = said(request.items.get(common..).unwrap_or_default());
        let mut problems = Vec::new();
        if !theirs.starts_with(&ours) && theirs.iter().any(|told| ours.contains(told)) {
            problems.push(format!("{ours:?} came back as {theirs:?}"));
        }
        // The answer in the place of what the client made of it, with its results.
        let results = request.items.split_off(common).into_iter();
        let calls: Vec<_> = turn.calls().cloned().collect();
        request.items.extend(turn.items.iter().cloned());
        for item in results {
            let mut item = Item::clone(&item);
            if let ItemBody::ToolResult(result) = &mut item.body
                && let Some(call) = calls.iter().find(|call| call.provider_id == result.provider_id)
            {
                result.call = call.id.clone();
                request.items.push(Arc::new(item));
            }
        }
        if !request.items.iter().any(|item| matches!(item.body, ItemBody::ToolResult(_))) && !calls.is_empty() {
            return problems;
        }
        let dialect = Dialect { replay_reasoning: openai_chat::ReplayReasoning::Always, ..Dialect::new(provider()) };
        match openai_chat::encode_request(&request, &dialect) {
            Ok(encoded) => {
                let body: Value = serde_json::from_slice(&encoded.body).expect("a body is JSON");
                let decoded = openai_chat::decode_request(&encoded.body, &provider(), &Env::system()).expect("our own");
                if said(&decoded.request.items) != said(&request.items) {
                    problems.push(format!("the conversation changes on its way: {body}"));
                }
            }
            Err(error) => problems.push(format!("it is not written: {error}")),
        }
        problems
    }
}

/// Both directions of a case of embeddings.
fn embeddings(case: &Case, body: &str) -> Vec<String> {
    let mut problems = Vec::new();
    match openai_chat::decode_embeddings(&provider(), body.as_bytes()) {
        Ok(read) => {
            let data = case.value["response"]["body"]["data"].as_array().cloned().unwrap_or_default();
            if read.vectors.len() != data.len() || data.is_empty() || read.vectors.iter().any(Vec::is_empty) {
                problems.push(format!("{} vectors of {}", read.vectors.len(), data.len()));
            }
            let ours = openai_chat::encode_embeddings(&read, "m", true);
            let again = openai_chat::decode_embeddings(&provider(), ours.to_string().as_bytes());
            if again.as_ref().map(|again| &again.vectors) != Ok(&read.vectors) {
                problems.push("the vectors change in base64".to_owned());
            }
        }
        Err(error) => problems.push(format!("it is not read: {error}")),
    }
    if let Some(request) = case.request_body() {
        match openai_chat::decode_embedding_request(request.to_string().as_bytes()) {
            Ok(decoded) => {
                let encoded = openai_chat::encode_embedding_request(&decoded.request).expect("it is written");
                let ours: Value = serde_json::from_slice(&encoded.body).expect("a body is JSON");
                for key in ["model", "dimensions"] {
                    if ours.get(key) != request.get(key) {
                        problems.push(format!("{key} changes"));
                    }
                }
            }
            Err(error) => problems.push(format!("the request is not read: {error}")),
        }
    }
    problems
}
