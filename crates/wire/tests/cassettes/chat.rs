//! OpenAI Chat Completions.

use super::{Case, Served, compare_calls, provider, thought};
use placet_core::{Env, ProviderError, Turn, TurnEvent, TurnRequest};
use placet_wire::names::Names;
use placet_wire::openai_chat::{self, Dialect};
use placet_wire::{DecodedRequest, RequestError};
use serde_json::Value;

pub struct Chat;

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

    fn request(_case: &Case, _body: &[u8], _env: &Env) -> Result<DecodedRequest, RequestError> {
        let problem = "requests of this protocol are not read yet".to_owned();
        Err(RequestError { kind: placet_core::ErrorKind::Unsupported, problem, field: None })
    }

    fn onto(decoded: &DecodedRequest, _request: &TurnRequest) -> Result<Value, ProviderError> {
        Ok(decoded.body.clone())
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

    fn other(_case: &Case) -> Option<Vec<String>> {
        None
    }

    fn replayed(_before: &DecodedRequest, _turn: &Turn, _after: &DecodedRequest) -> Vec<String> {
        Vec::new()
    }
}
