//! Recorded traffic, where `PLACET_CASSETTES` names a folder of it; the project holds none.
//!
//! The folder holds JSON files, one case each, in subfolders: `endpoint`, `request` (`path`, `body`), `response` (`status`,
//! `headers`, and `sse` or `body`) and `expect`, what a reference reader made of it. Files with `turns` are sequences: the
//! consecutive calls of one run. There is a module for each protocol, which says what it takes and how to drive it; the rules
//! stand here and are the same for all:
//!
//! 1. The answer, decoded, is what is expected, however the stream is cut and whatever ends its lines.
//! 2. The request, decoded and encoded onto its own body, is that body; with one typed edit it differs there only.
//! 3. An answer that was decoded goes back in the next request of its sequence as the recorded client sent it.
//!
//! Every case counts, and every one that fails is named. What nothing serves yet is named as skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test run says what it counted and what it skipped")]

mod anthropic;
mod chat;
mod gemini;
mod responses;
mod translated;

use placet_core::{
    Accumulator, Effect, Env, Item, ItemBody, Part, ProviderError, ProviderId, Schema, ToolDefinition, Turn, TurnEvent,
    TurnRequest,
};
use placet_wire::{DecodedRequest, RequestError};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Endpoints that nothing serves yet.
const UNSERVED: [&str; 5] = ["websocket", "realtime", "interactions", "cached_contents", "conversations"];

/// One call.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name; in a sequence with the number of the turn.
    pub name: String,
    /// The protocol family in the folder's words: `openai_chat`, `anthropic`, `gemini`, `other` …
    pub api: String,
    /// The endpoint in the folder's words: `chat`, `responses`, `messages`, `generateContent`, `embeddings`, `models` …
    pub endpoint: String,
    /// The whole case.
    pub value: Value,
}

impl Case {
    fn read(value: Value, outer: &Value, name: String) -> Self {
        let word = |key: &str| {
            let found = value.get(key).or_else(|| outer.get(key));
            found.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Case { name, api: word("api"), endpoint: word("endpoint"), value }
    }

    /// The body of the request, where there is one.
    pub fn request_body(&self) -> Option<&Value> {
        self.value["request"].get("body").filter(|body| body.is_object())
    }

    /// The path of the request, which names the model in some protocols.
    pub fn request_path(&self) -> &str {
        self.value["request"]["path"].as_str().unwrap_or_default()
    }

    /// The status of the answer.
    pub fn status(&self) -> u16 {
        self.value["response"]["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(200)
    }

    /// The headers of the answer.
    pub fn headers(&self) -> http::HeaderMap {
        let fields = self.value["response"]["headers"].as_object().into_iter().flatten();
        fields
            .filter_map(|(name, value)| {
                let name = http::HeaderName::from_bytes(name.as_bytes()).ok()?;
                Some((name, http::HeaderValue::from_str(value.as_str()?).ok()?))
            })
            .collect()
    }

    /// The answer as a stream, where it is one.
    pub fn sse(&self) -> Option<&str> {
        self.value["response"]["sse"].as_str()
    }

    /// The body of an answer that came whole.
    pub fn body(&self) -> String {
        let body = &self.value["response"]["body"];
        body.as_str().map_or_else(|| body.to_string(), str::to_owned)
    }

    /// What is expected.
    pub fn expect(&self) -> &Value {
        &self.value["expect"]
    }
}

/// How one protocol is driven.
pub trait Served {
    /// What to call it.
    const NAME: &'static str;
    /// Whether a case is this protocol's.
    fn takes(case: &Case) -> bool;
    /// A whole stream, in these pieces.
    fn stream(pieces: &[&[u8]]) -> Vec<TurnEvent>;
    /// A whole body.
    fn response(body: &[u8]) -> Result<Vec<TurnEvent>, ProviderError>;
    /// An answer with a status of 400 or more.
    fn error(status: u16, headers: &http::HeaderMap, body: &[u8]) -> ProviderError;
    /// The request of a case, with this body.
    fn request(case: &Case, body: &[u8], env: &Env) -> Result<DecodedRequest, RequestError>;
    /// The request encoded onto a client's body.
    fn onto(decoded: &DecodedRequest, request: &TurnRequest) -> Result<Value, ProviderError>;
    /// What differs between what was read and what is expected.
    fn compare(case: &Case, partial: &str, result: &Result<Turn, ProviderError>) -> Vec<String>;
    /// What differs between what was read of an error and what is expected.
    fn compare_error(case: &Case, error: &ProviderError) -> Vec<String>;
    /// A case of an endpoint that is no turn (embeddings, lists of models, token counts); `None` where it is a turn.
    fn other(case: &Case) -> Option<Vec<String>>;
    /// What differs between the next request of a sequence and the one before it with its answer and the further items of
    /// the next one, encoded by us.
    fn replayed(before: &DecodedRequest, turn: &Turn, after: &DecodedRequest) -> Vec<String>;
}

/// The provider of all cases.
pub fn provider() -> ProviderId {
    ProviderId::new("recorded")
}

/// Events as text that may be shown, and the turn.
pub fn fold(events: &[TurnEvent]) -> (String, Result<Turn, ProviderError>) {
    let mut accumulator = Accumulator::new();
    events.iter().for_each(|event| accumulator.push(event));
    (accumulator.text(), accumulator.finish(&provider(), &Env::system()))
}

/// All thinking that may be read.
pub fn thought(turn: &Turn) -> String {
    let thoughts = turn.items.iter().filter_map(|item| match &item.body {
        ItemBody::Reasoning(reasoning) => Some(reasoning.text.as_str()),
        _ => None,
    });
    thoughts.collect()
}

/// What differs between the calls of a turn and `[{id, name, arguments | arguments_raw}]`.
pub fn compare_calls(turn: &Turn, expected: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let wanted = expected.as_array().cloned().unwrap_or_default();
    let calls: Vec<_> = turn.calls().collect();
    if calls.len() != wanted.len() {
        problems.push(format!("{} calls, expected {}", calls.len(), wanted.len()));
    }
    for (call, wanted) in calls.iter().zip(&wanted) {
        if Some(call.name.as_str()) != wanted["name"].as_str() {
            problems.push(format!("the call is named {} for {wanted}", call.name));
        }
        let id = wanted["id"].as_str().filter(|id| !id.is_empty());
        if call.provider_id.as_deref() != id {
            problems.push(format!("the call has the id {:?} for {wanted}", call.provider_id));
        }
        match wanted.get("arguments").filter(|arguments| arguments.is_object()) {
            Some(arguments) => {
                let parsed = call.arguments.parse().map(Value::Object);
                if parsed.as_ref() != Ok(arguments) {
                    problems.push(format!("the arguments {parsed:?} are not {arguments}"));
                }
            }
            None => {
                let raw = wanted["arguments_raw"].as_str().unwrap_or_default();
                if call.arguments.as_text() != raw {
                    problems.push(format!("the arguments {:?} are not {raw:?}", call.arguments));
                }
            }
        }
    }
    problems
}

#[expect(clippy::disallowed_methods, reason = "an extra test run is pointed at its data by a variable")]
fn root() -> Option<PathBuf> {
    std::env::var_os("PLACET_CASSETTES").map(PathBuf::from)
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
}

/// The single cases and the sequences.
fn cases() -> Option<(Vec<Case>, Vec<Vec<Case>>)> {
    let mut paths = Vec::new();
    files(&root()?, &mut paths);
    paths.sort();
    let (mut singles, mut sequences) = (Vec::new(), Vec::new());
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a readable case");
        let value: Value = serde_json::from_str(&text).expect("a case is JSON");
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(turns) = value["turns"].as_array() {
            let turns = turns.iter().enumerate();
            sequences.push(turns.map(|(i, turn)| Case::read(turn.clone(), &value, format!("{name}[{i}]"))).collect());
        } else if value.is_object() && (value.get("response").is_some() || value["api"] == "realtime") {
            singles.push(Case::read(value.clone(), &Value::Null, name));
        }
    }
    Some((singles, sequences))
}

/// What is wrong with one case.
fn check<P: Served>(case: &Case) -> Vec<String> {
    if let Some(problems) = P::other(case) {
        return problems;
    }
    let mut problems = answer::<P>(case);
    problems.extend(request::<P>(case));
    problems
}

fn answer<P: Served>(case: &Case) -> Vec<String> {
    if case.status() >= 400 {
        let error = P::error(case.status(), &case.headers(), case.body().as_bytes());
        return P::compare_error(case, &error);
    }
    let Some(text) = case.sse() else {
        return match P::response(case.body().as_bytes()) {
            Ok(events) => {
                let (partial, result) = fold(&events);
                P::compare(case, &partial, &result)
            }
            Err(error) => P::compare(case, "", &Err(error)),
        };
    };
    let events = P::stream(&[text.as_bytes()]);
    let (partial, result) = fold(&events);
    let mut problems = P::compare(case, &partial, &result);
    // The law is checked at every offset of small streams elsewhere; recordings get some two hundred cuts each.
    let step = (text.len() / 200).max(1) | 1;
    for cut in (0..=text.len()).step_by(step) {
        let (head, tail) = text.as_bytes().split_at(cut);
        if P::stream(&[head, tail]) != events {
            problems.push(format!("cut at {cut} it gives other events"));
            break;
        }
    }
    if P::stream(&[text.replace('\n', "\r\n").as_bytes()]) != events {
        problems.push("with CRLF it gives other events".to_owned());
    }
    problems
}

/// A tool that no recorded client has.
fn edit_tool() -> ToolDefinition {
    let schema = json!({"type": "object", "properties": {"zig": {"type": "string"}}, "additionalProperties": false});
    ToolDefinition::new("zag_appended", "Appended.", Schema::new(schema), Effect::Once)
}

/// The paths at which two values differ.
pub fn differences(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let none = Value::Null;
                differences(a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none), &format!("{path}.{key}"), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{path}[{i}]"), found);
            }
        }
        // Appended.
        (Value::Array(a), Value::Array(b)) if b.len() > a.len() && b[..a.len()] == **a => {
            found.extend((a.len()..b.len()).map(|i| format!("{path}[{i}]")));
        }
        (a, b) if a == b => {}
        _ => found.push(path.to_owned()),
    }
}

/// What is wrong with the request of a case.
pub fn request<P: Served>(case: &Case) -> Vec<String> {
    let Some(body) = case.request_body() else { return Vec::new() };
    let decoded = match P::request(case, body.to_string().as_bytes(), &Env::system()) {
        Ok(decoded) => decoded,
        Err(error) => return vec![format!("the request is not read: {error}")],
    };
    let mut problems = Vec::new();
    match P::onto(&decoded, &decoded.request) {
        Ok(same) if same == *body => {}
        Ok(other) => {
            let mut found = Vec::new();
            differences(body, &other, "", &mut found);
            problems.push(format!("the request does not come back as it was: {found:?}"));
        }
        Err(error) => return vec![format!("the request is not written: {error}")],
    }
    // A tool appended.
    let mut edited = decoded.request.clone();
    edited.tools.push(Arc::new(edit_tool()));
    match P::onto(&decoded, &edited) {
        Ok(after) => {
            let mut found = Vec::new();
            differences(body, &after, "", &mut found);
            if found.len() != 1 || !found[0].contains("tools") || !after.to_string().contains("zag_appended") {
                problems.push(format!("a tool appended differs at {found:?}"));
            }
        }
        Err(error) => problems.push(format!("with a tool appended it is not written: {error}")),
    }
    // The last text of a message changed.
    let mut edited = decoded.request.clone();
    let texts = edited.items.iter_mut().rev().filter(|item| matches!(item.body, ItemBody::Message(_)));
    for item in texts {
        let mut changed = Item::clone(item);
        let ItemBody::Message(message) = &mut changed.body else { continue };
        let Some(Part::Text(text)) = message.parts.iter_mut().rev().find(|part| part.as_text().is_some()) else {
            continue;
        };
        text.text = "zag changed".into();
        *item = Arc::new(changed);
        match P::onto(&decoded, &edited) {
            Ok(after) => {
                let mut found = Vec::new();
                differences(body, &after, "", &mut found);
                if found.len() != 1 || !after.to_string().contains("zag changed") {
                    problems.push(format!("a text changed differs at {found:?}"));
                }
            }
            Err(error) => problems.push(format!("with a text changed it is not written: {error}")),
        }
        break;
    }
    problems
}

fn sequence<P: Served>(turns: &[Case]) -> Vec<String> {
    let mut problems = Vec::new();
    for turn in turns {
        problems.extend(check::<P>(turn).into_iter().map(|problem| format!("{}: {problem}", turn.name)));
    }
    let decode = |case: &Case| {
        let body = case.request_body()?.to_string();
        P::request(case, body.as_bytes(), &Env::system()).ok()
    };
    for (turn, next) in turns.iter().zip(turns.iter().skip(1)) {
        let (Some(before), Some(after)) = (decode(turn), decode(next)) else { continue };
        let events = turn.sse().map_or_else(
            || P::response(turn.body().as_bytes()).unwrap_or_default(),
            |text| P::stream(&[text.as_bytes()]),
        );
        let Ok(answer) = fold(&events).1 else { continue };
        let found = P::replayed(&before, &answer, &after);
        problems.extend(found.into_iter().map(|problem| format!("{}: replayed: {problem}", next.name)));
    }
    problems
}

/// Runs everything of one protocol.
fn run<P: Served>() {
    let Some((singles, sequences)) = cases() else {
        eprintln!("SKIPPED {}: PLACET_CASSETTES names no folder", P::NAME);
        return;
    };
    let mut failed = Vec::new();
    let mut note = |name: &str, problems: Vec<String>| {
        if !problems.is_empty() {
            failed.push(format!("FAILED {name}\n    {}", problems.join("\n    ")));
        }
        problems.is_empty()
    };
    let singles: Vec<_> = singles.iter().filter(|case| P::takes(case)).collect();
    let passed = singles.iter().filter(|case| note(&case.name, check::<P>(case))).count();
    let sequences: Vec<_> = sequences.iter().filter(|turns| turns.first().is_some_and(P::takes)).collect();
    let whole = sequences.iter().filter(|turns| note(&turns[0].name, sequence::<P>(turns))).count();
    let (all, runs) = (singles.len(), sequences.len());
    eprintln!("{}: {passed} of {all} single cases and {whole} of {runs} sequences passed", P::NAME);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(!singles.is_empty(), "the folder holds no case of this protocol");
}

#[test]
fn chat() {
    run::<chat::Chat>();
}

#[test]
fn gemini() {
    run::<gemini::Gemini>();
}

#[test]
fn gemini_clients() {
    clients::<gemini::Gemini>(|path| path.contains("enerateContent"));
}

#[test]
fn responses() {
    run::<responses::Responses>();
}

/// Gives each call of a recording its own id again, where all were blotted out: the first call has the first result.
fn restore_ids(value: &mut Value, counts: &mut [usize; 2]) {
    match value {
        Value::Object(fields) => {
            let is_call = fields.get("type").is_some_and(|kind| kind == "tool_use");
            for (key, count) in [("id", 0), ("tool_use_id", 1)] {
                if let Some(Value::String(id)) = fields.get_mut(key).filter(|_| is_call || key != "id")
                    && id.contains("<id>")
                {
                    *id = id.replace("<id>", &counts[count].to_string());
                    counts[count] += 1;
                }
            }
            fields.values_mut().for_each(|value| restore_ids(value, counts));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| restore_ids(value, counts)),
        _ => {}
    }
}

/// What real clients send, where `PLACET_CLIENTS` names a folder of it: JSON files with `requests`, each with `path` and `body`.
/// Every body whose path the protocol takes comes back as it was, and with one typed edit differs there only.
#[expect(clippy::disallowed_methods, reason = "an extra test run is pointed at its data by a variable")]
fn clients<P: Served>(takes: impl Fn(&str) -> bool) {
    let Some(folder) = std::env::var_os("PLACET_CLIENTS").map(PathBuf::from) else {
        eprintln!("SKIPPED clients of {}: PLACET_CLIENTS names no folder", P::NAME);
        return;
    };
    let mut paths = Vec::new();
    files(&folder, &mut paths);
    paths.sort();
    let (mut passed, mut failed) = (0usize, Vec::new());
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a readable recording");
        let value: Value = serde_json::from_str(&text).expect("a recording is JSON");
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for (i, recorded) in value["requests"].as_array().into_iter().flatten().enumerate() {
            if !recorded["path"].as_str().is_some_and(&takes) || !recorded["body"].is_object() {
                continue;
            }
            let mut recorded = recorded.clone();
            restore_ids(&mut recorded, &mut [0, 0]);
            let case = Case::read(json!({"request": recorded}), &Value::Null, format!("{name}[{i}]"));
            match request::<P>(&case) {
                problems if problems.is_empty() => passed += 1,
                problems => failed.push(format!("FAILED {}\n    {}", case.name, problems.join("\n    "))),
            }
        }
    }
    eprintln!("{}: {passed} bodies of real clients passed, {} failed", P::NAME, failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(passed > 0, "the folder holds no request of this protocol");
}

#[test]
fn responses_clients() {
    clients::<responses::Responses>(|path| path.contains("/responses"));
}

#[test]
fn anthropic() {
    run::<anthropic::Anthropic>();
}

#[test]
fn anthropic_clients() {
    clients::<anthropic::Anthropic>(|path| path.contains("/messages"));
}

/// Whether some protocol takes a case.
fn is_taken(case: &Case) -> bool {
    [chat::Chat::takes, responses::Responses::takes, anthropic::Anthropic::takes, gemini::Gemini::takes]
        .iter()
        .any(|takes| takes(case))
}

#[test]
fn nothing_is_passed_over_unsaid() {
    let Some((singles, sequences)) = cases() else {
        eprintln!("SKIPPED nothing_is_passed_over_unsaid: PLACET_CASSETTES names no folder");
        return;
    };
    let (mut taken, mut skipped, mut left) = (0usize, 0usize, Vec::new());
    for case in singles.iter().chain(sequences.iter().filter_map(|turns| turns.first())) {
        if is_taken(case) {
            taken += 1;
        } else if UNSERVED.contains(&case.endpoint.as_str()) || case.api == "realtime" {
            skipped += 1;
            eprintln!("SKIPPED {}: nothing serves `{}`", case.name, case.endpoint);
        } else {
            left.push(format!("{} ({}, {})", case.name, case.api, case.endpoint));
        }
    }
    eprintln!("{taken} cases taken, {skipped} skipped, {} left over", left.len());
    assert!(left.is_empty(), "no protocol takes these:\n{}", left.join("\n"));
}
