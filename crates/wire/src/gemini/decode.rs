//! From what a Gemini server answers to turn events.

use super::chunk::{Call, Candidate, Chunk, Lenient, Part};
use super::framing::Framing;
use super::partial::Assembly;
use super::usage::{self, Counters};
use super::{TEXT_STATE, parts};
use crate::failure::{RAW_BYTES, cut, decode_error_value};
use crate::names::Names;
use crate::reading::{Reading, Waiting, not_json};
use placet_core::part::Native;
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnFinished, TurnStarted, WholeItem};
use placet_core::{ErrorKind, ItemBody, ProviderError, ProviderId, StopReason, TurnEvent};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Reads the stream of one answer: bytes in, events out, whether it comes as server-sent events or as one JSON array. Unknown
/// fields, parts and words are kept.
///
/// The protocol has no end marker. The answer is finished when a finish reason has come and then the end of the stream; a
/// server may say a finish reason and go on. A stream that ends without one was interrupted. After [`TurnEvent::Finished`]
/// or [`TurnEvent::Failed`] nothing more is given.
#[derive(Debug)]
pub struct EventDecoder {
    framing: Framing,
    waiting: Waiting,
    answer: Answer,
}

impl EventDecoder {
    pub(super) fn new(provider: ProviderId, names: Names) -> Self {
        let answer = Answer::new(provider, names);
        EventDecoder { framing: Framing::new(), waiting: Waiting::default(), answer }
    }

    /// Takes the next bytes and appends what they mean to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<TurnEvent>) {
        let (answer, waiting) = (&mut self.answer, &mut self.waiting);
        if let Err(error) = self.framing.push(bytes, |text| answer.event(waiting, None, text, false, out)) {
            self.answer.fail(ErrorKind::LimitReached, error.to_string(), out);
        }
    }

    /// The stream has ended, well or not: appends what follows from that.
    pub fn end(&mut self, out: &mut Vec<TurnEvent>) {
        let (answer, waiting) = (&mut self.answer, &mut self.waiting);
        self.framing.finish(|text| answer.event(waiting, None, text, true, out));
        answer.settle(waiting, out);
        answer.end(out);
    }

    /// Whether a finish reason has come, so that the answer is whole even if the connection breaks now.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.answer.is_whole()
    }

    /// Whether nothing more will be given.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.answer.is_done()
    }
}

/// Reads an answer that came whole: one response, or the array of a stream.
///
/// # Errors
/// [`ProviderError`] where it is an error in spite of its status, a prompt that was blocked, a malformed answer of the model,
/// or no answer of this protocol.
pub fn decode_response(provider: &ProviderId, names: Names, body: &[u8]) -> Result<Vec<TurnEvent>, ProviderError> {
    let text = String::from_utf8_lossy(body);
    let mut answer = Answer::new(provider.clone(), names);
    let (mut events, mut waiting) = (Vec::new(), Waiting::default());
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        return Err(not_json(provider, NOT_JSON, &error, &text));
    }
    if text.trim_start().starts_with('[') {
        let mut framing = Framing::new();
        let framed = framing.push(body, |text| answer.event(&mut waiting, None, text, false, &mut events));
        if let Err(error) = framed {
            answer.fail(ErrorKind::LimitReached, error.to_string(), &mut events);
        }
    } else {
        answer.event(&mut waiting, None, &text, false, &mut events);
    }
    answer.settle(&mut waiting, &mut events);
    if !answer.is_done && !answer.has_candidate && answer.finish.is_none() {
        let is_ours = answer.is_started || answer.usage.counted().is_some();
        let (kind, said) = if is_ours {
            (ErrorKind::Unavailable, "the answer holds no candidate and no reason why")
        } else {
            (ErrorKind::Protocol, "the answer holds no candidate; expected a response with `candidates`")
        };
        let mut error = ProviderError::new(kind, provider.clone(), said);
        error.raw = Some(cut(&text, RAW_BYTES));
        return Err(error);
    }
    // A whole body is not cut, so a missing finish reason is only a forgotten one.
    answer.finish.get_or_insert_with(|| "STOP".to_owned());
    answer.end(&mut events);
    match events.pop_if(|event| matches!(event, TurnEvent::Failed(_))) {
        Some(TurnEvent::Failed(error)) => Err(*error),
        _ => Ok(events),
    }
}

/// What to do where an answer is not JSON.
pub(super) const NOT_JSON: &str = "check that the base URL points to a Gemini API; it usually ends with /v1beta";

/// The finish reason of a request that was blocked.
const BLOCKED: &str = "SAFETY";

/// What a finish reason means.
pub(super) enum Finish {
    Stop(StopReason),
    /// It is no end but a failure.
    Failed(ErrorKind),
}

/// The meaning of a finish reason. That of a filter and that of a failure are told apart; what is unknown stays a word.
pub(super) fn finish_of(reason: &str, has_calls: bool) -> Finish {
    Finish::Stop(match reason {
        "STOP" if has_calls => StopReason::ToolCalls,
        "STOP" => StopReason::End,
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::ContentFilter,
        // The same conversation, with the token that came beside, goes on.
        "CONTINUATION" => StopReason::Pause,
        // The model wrote something that the server could not read: it may do better when it is asked again.
        "MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" => return Finish::Failed(ErrorKind::Unavailable),
        // The request lacked what has to be sent back.
        "MISSING_THOUGHT_SIGNATURE" => return Finish::Failed(ErrorKind::InvalidRequest),
        other => StopReason::Other(other.to_owned()),
    })
}

/// The finish reason that is written for a stop of ours.
pub(super) fn reason_of(stop: &StopReason) -> &str {
    match stop {
        StopReason::End | StopReason::ToolCalls | StopReason::StopSequence => "STOP",
        StopReason::MaxTokens => "MAX_TOKENS",
        StopReason::ContentFilter | StopReason::Refusal => "SAFETY",
        StopReason::Other(word) if !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') => {
            word
        }
        _ => "OTHER",
    }
}

/// The place that pieces of text are added to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Open {
    None,
    Text(u32),
    Thought(u32),
}

#[derive(Debug)]
struct OpenCall {
    index: u32,
    assembly: Assembly,
    state: Map<String, Value>,
}

#[derive(Debug)]
struct Answer {
    provider: ProviderId,
    names: Names,
    is_started: bool,
    has_candidate: bool,
    is_done: bool,
    /// The candidate that is followed: the first that comes. Others are kept aside.
    candidate: Option<u64>,
    others: BTreeMap<u64, Map<String, Value>>,
    places: u32,
    open: Open,
    call: Option<OpenCall>,
    has_calls: bool,
    finish: Option<String>,
    /// What was said of all the text: citations, sources.
    text_state: Map<String, Value>,
    /// The place of text that it was told of already, because a signature came behind it.
    cited: Option<(u32, Map<String, Value>)>,
    /// The last place of text, with what stood beside it.
    last_text: Option<(u32, Map<String, Value>)>,
    candidate_rest: Map<String, Value>,
    response_rest: Map<String, Value>,
    usage: Counters,
    told: Option<Counters>,
    last_usage: String,
}

impl Answer {
    fn new(provider: ProviderId, names: Names) -> Self {
        Answer {
            provider,
            names,
            is_started: false,
            has_candidate: false,
            is_done: false,
            candidate: None,
            others: BTreeMap::new(),
            places: 0,
            open: Open::None,
            call: None,
            has_calls: false,
            finish: None,
            text_state: Map::new(),
            cited: None,
            last_text: None,
            candidate_rest: Map::new(),
            response_rest: Map::new(),
            usage: Counters::default(),
            told: None,
            last_usage: String::new(),
        }
    }

    fn chunk(&mut self, chunk: Chunk<'_>, out: &mut Vec<TurnEvent>) {
        if !self.is_started && (chunk.model.is_some() || chunk.response_id.is_some() || !chunk.candidates.is_empty()) {
            self.is_started = true;
            let (model, response_id) =
                (chunk.model.map(std::borrow::Cow::into_owned), chunk.response_id.map(std::borrow::Cow::into_owned));
            out.push(TurnEvent::Started(TurnStarted { model, response_id }));
        }
        if let Some(raw) = chunk.usage {
            self.usage.update(raw);
            self.last_usage.clear();
            self.last_usage.push_str(raw.get());
            self.tell_usage(out);
        }
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let mut value = Map::new();
            value.insert("error".to_owned(), error);
            let error = decode_error_value(&self.provider, &Value::Object(value));
            return self.fail_with(error, out);
        }
        self.response_rest.extend(chunk.rest);
        if let Some(feedback) = chunk.feedback.filter(|feedback| !feedback.is_null()) {
            let word = |key: &str| feedback.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            // A request that was blocked is one that was refused: an answer without a word.
            let is_blocked = word("blockReason").or_else(|| word("block_reason")).is_some();
            if is_blocked && chunk.candidates.is_empty() && !self.has_candidate {
                self.finish = Some(BLOCKED.to_owned());
            }
            self.response_rest.insert("promptFeedback".to_owned(), feedback);
        }
        for candidate in chunk.candidates {
            let index = candidate.index.unwrap_or(0);
            if *self.candidate.get_or_insert(index) == index {
                self.candidate(candidate, out);
            } else {
                self.other(index, candidate);
            }
            if self.is_done {
                return;
            }
        }
        self.tell_usage(out);
    }

    fn tell_usage(&mut self, out: &mut Vec<TurnEvent>) {
        if self.told == Some(self.usage) {
            return;
        }
        if let Some(usage) = self.usage.counted() {
            self.told = Some(self.usage);
            out.push(TurnEvent::Usage(usage));
        }
    }

    fn candidate(&mut self, candidate: Candidate<'_>, out: &mut Vec<TurnEvent>) {
        self.has_candidate = true;
        for (key, value) in candidate.rest {
            let key = parts::camel(&key).into_owned();
            let is_empty = value.as_object().is_some_and(Map::is_empty);
            match key.as_str() {
                _ if is_empty => {}
                "citationMetadata" | "logprobsResult" => {
                    let place = if key == "citationMetadata" { &mut self.text_state } else { &mut self.candidate_rest };
                    append_lists(place.entry(key).or_insert(Value::Null), value);
                }
                key if TEXT_STATE.contains(&key) => {
                    if let Some(queries) = value.get("webSearchQueries").and_then(Value::as_array) {
                        self.usage.searches = queries.len() as u64;
                    }
                    self.text_state.insert(key.to_owned(), value);
                }
                _ => {
                    self.candidate_rest.insert(key, value);
                }
            }
        }
        for part in candidate.parts {
            self.part(part, out);
            if self.is_done {
                return;
            }
        }
        if let Some(reason) = candidate.finish.filter(|reason| *reason != "FINISH_REASON_UNSPECIFIED") {
            self.finish = Some(reason.into_owned());
        }
    }

    /// A candidate beside the one that is followed, put together from its pieces.
    fn other(&mut self, index: u64, candidate: Candidate<'_>) {
        let known = self.others.entry(index).or_default();
        for (key, value) in candidate.rest {
            append_lists(known.entry(parts::camel(&key).into_owned()).or_insert(Value::Null), value);
        }
        if let Some(reason) = candidate.finish.filter(|reason| *reason != "FINISH_REASON_UNSPECIFIED") {
            known.insert("finishReason".to_owned(), reason.into_owned().into());
        }
        let content = known.entry("content").or_insert_with(|| json!({"parts": [], "role": "model"}));
        let Value::Array(list) = &mut content["parts"] else { return };
        for part in candidate.parts {
            let part = part.into_value(&self.names);
            // Pieces of one text are one.
            let is_text = |part: &Value| {
                let is_plain = |(key, value): (&String, &Value)| key == "text" && value.is_string() || key == "thought";
                part.get("text").is_some() && part.as_object().is_some_and(|part| part.iter().all(is_plain))
            };
            match list.last_mut() {
                Some(last) if is_text(last) && is_text(&part) && last["thought"] == part["thought"] => {
                    let both = [&last["text"], &part["text"]].map(|text| text.as_str().unwrap_or_default()).concat();
                    last["text"] = both.into();
                }
                _ => list.push(part),
            }
        }
    }

    fn place(&mut self) -> u32 {
        let index = self.places;
        self.places = self.places.saturating_add(1);
        index
    }

    fn native(&self, value: Map<String, Value>) -> Native {
        Native { provider: self.provider.clone(), value: Value::Object(value) }
    }

    /// Ends the open place.
    fn close(&mut self, out: &mut Vec<TurnEvent>) {
        if let Open::Thought(index) = std::mem::replace(&mut self.open, Open::None) {
            // It says whose thinking it is.
            let native = self.native(Map::new());
            out.push(TurnEvent::ReasoningState(ReasoningState { index, native }));
        }
    }

    fn part(&mut self, mut part: Part<'_>, out: &mut Vec<TurnEvent>) {
        if let Some(call) = part.call.take() {
            return self.call(*call, part.rest, out);
        }
        let is_empty = part.text.as_deref().is_none_or(str::is_empty);
        let is_whole = part.rest.keys().any(|key| parts::is_content(key, is_empty));
        match part.text.take() {
            Some(text) if !is_whole => self.said(&text, part.thought, part.rest, out),
            // A signature alone.
            None if !is_whole && part.rest.contains_key("thoughtSignature") => {
                self.said("", part.thought, part.rest, out);
            }
            text => {
                let mut value = part.rest;
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    value.insert("text".to_owned(), text.into_owned().into());
                }
                if part.thought {
                    value.insert("thought".to_owned(), true.into());
                }
                if value.is_empty() {
                    return;
                }
                self.end_call(out);
                self.close(out);
                let body = self.whole(value);
                let index = self.place();
                out.push(TurnEvent::Whole(Box::new(WholeItem { index, body })));
            }
        }
    }

    /// A part that is neither text nor a call.
    fn whole(&self, value: Map<String, Value>) -> ItemBody {
        parts::model_item(value, &self.provider)
    }

    /// Text or thinking. What has something beside it (a signature) is a place of its own, which nothing may be added to.
    fn said(&mut self, text: &str, thought: bool, state: Map<String, Value>, out: &mut Vec<TurnEvent>) {
        if text.is_empty() && state.is_empty() {
            return;
        }
        self.end_call(out);
        if text.is_empty() && !thought {
            self.cite(out);
        }
        let event = if thought { TurnEvent::Reasoning } else { TurnEvent::Text };
        let index = match (self.open, thought, state.is_empty()) {
            (Open::Text(index), false, true) | (Open::Thought(index), true, true) => index,
            _ => {
                self.close(out);
                let index = self.place();
                if state.is_empty() {
                    self.open = if thought { Open::Thought(index) } else { Open::Text(index) };
                }
                index
            }
        };
        if !text.is_empty() {
            out.push(event(TextDelta { index, text: text.to_owned() }));
        }
        if !thought && self.last_text.as_ref().is_none_or(|(last, _)| *last != index) {
            self.last_text = Some((index, state.clone()));
        }
        if !state.is_empty() {
            let state = ReasoningState { index, native: self.native(state) };
            out.push(if thought { TurnEvent::ReasoningState(state) } else { TurnEvent::TextState(state) });
        }
    }

    /// What is known of where the open text is from, told before something else ends it: whoever reads on has closed it then.
    fn cite(&mut self, out: &mut Vec<TurnEvent>) {
        if let (Open::Text(index), false) = (self.open, self.text_state.is_empty()) {
            let native = self.native(self.text_state.clone());
            out.push(TurnEvent::TextState(ReasoningState { index, native }));
            self.cited = Some((index, self.text_state.clone()));
        }
    }

    /// A call that came whole, or the first or a further piece of one.
    fn call(&mut self, call: Call<'_>, mut state: Map<String, Value>, out: &mut Vec<TurnEvent>) {
        if !call.rest.is_empty() {
            state.insert("functionCall".to_owned(), Value::Object(call.rest));
        }
        if call.name.is_none() && self.call.is_some() && call.arguments.is_none() {
            return self.go_on(&call.partial, call.continues, state, out);
        }
        if call.name.is_none() && call.id.is_none() && call.arguments.is_none() && call.partial.is_empty() {
            // The end of a call that has ended already.
            return;
        }
        self.end_call(out);
        self.close(out);
        self.has_calls = true;
        let mut delta = CallDelta { index: self.place(), ..CallDelta::default() };
        delta.provider_id = call.id.map(std::borrow::Cow::into_owned);
        delta.name = call.name.map(|name| self.names.original(&name).as_str().to_owned());
        if !state.is_empty() {
            delta.native = Some(self.native(state.clone()));
        }
        let arguments = call.arguments.map(serde_json::value::RawValue::get);
        if call.continues || !call.partial.is_empty() {
            self.call = Some(OpenCall { index: delta.index, assembly: Assembly::new(arguments), state: Map::new() });
            out.push(TurnEvent::Call(delta));
            return self.go_on(&call.partial, call.continues, Map::new(), out);
        }
        delta.arguments = arguments.unwrap_or("{}").to_owned();
        out.push(TurnEvent::Call(delta));
    }

    /// A further piece of the open call.
    fn go_on(&mut self, partial: &[Value], continues: bool, state: Map<String, Value>, out: &mut Vec<TurnEvent>) {
        let Some(open) = &mut self.call else { return };
        open.state.extend(state);
        let placed = partial.iter().try_for_each(|entry| open.assembly.set(entry));
        if let Err(path) = placed {
            let path: String = path.chars().take(80).collect();
            let message = format!("a piece of a call's arguments has the place {path:?}, which is none");
            return self.fail(ErrorKind::Protocol, message, out);
        }
        if !continues {
            self.end_call(out);
        }
    }

    /// Gives the arguments of the open call. Its end may be missing on the wire.
    fn end_call(&mut self, out: &mut Vec<TurnEvent>) {
        let Some(open) = self.call.take() else { return };
        let native = (!open.state.is_empty()).then(|| self.native(open.state));
        let arguments = open.assembly.text();
        out.push(TurnEvent::Call(CallDelta { index: open.index, arguments, native, ..CallDelta::default() }));
    }
}

impl Reading for Answer {
    const NOT_JSON: &'static str = NOT_JSON;

    fn provider(&self) -> &ProviderId {
        &self.provider
    }

    fn is_started(&self) -> bool {
        self.is_started
    }

    fn data(&mut self, _name: Option<&str>, data: &str, out: &mut Vec<TurnEvent>) -> Result<(), serde_json::Error> {
        let Lenient(chunk) = serde_json::from_str::<Lenient<Chunk<'_>>>(data)?;
        self.chunk(chunk, out);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<TurnEvent>) {
        if self.is_done {
            return;
        }
        let Some(reason) = self.finish.take() else {
            return self.broke_off(out);
        };
        self.end_call(out);
        self.close(out);
        let stop = match finish_of(&reason, self.has_calls) {
            Finish::Stop(stop) => stop,
            Finish::Failed(kind) => {
                let said = self.candidate_rest.get("finishMessage").and_then(Value::as_str);
                let said = said.map(|message| format!(": {message}")).unwrap_or_default();
                let message = format!("the answer broke off with the finish reason `{reason}`{said}");
                let mut error = ProviderError::new(kind, self.provider.clone(), message);
                error.code = Some(reason);
                return self.fail_with(error, out);
            }
        };
        self.is_done = true;
        let mut state = Map::new();
        if let Some((index, told)) = self.cited.take() {
            let state = std::mem::take(&mut self.text_state);
            if state != told {
                out.push(TurnEvent::TextState(ReasoningState { index, native: self.native(state) }));
            }
        } else if let (false, Some((index, mut beside))) = (self.text_state.is_empty(), self.last_text.take()) {
            beside.extend(std::mem::take(&mut self.text_state));
            out.push(TurnEvent::TextState(ReasoningState { index, native: self.native(beside) }));
        }
        for (index, mut other) in std::mem::take(&mut self.others) {
            other.insert("candidate".to_owned(), index.into());
            let body = ItemBody::Native(self.native(other));
            let index = self.place();
            out.push(TurnEvent::Whole(Box::new(WholeItem { index, body })));
        }
        self.candidate_rest.extend(std::mem::take(&mut self.text_state));
        if reason_of(&stop) != reason {
            self.candidate_rest.insert("finishReason".to_owned(), reason.into());
        }
        let mut usage = usage::rest_of(&self.last_usage);
        let service_tier = usage.remove("serviceTier").and_then(|tier| tier.as_str().map(str::to_owned));
        for (key, rest) in [
            ("candidate", std::mem::take(&mut self.candidate_rest)),
            ("response", std::mem::take(&mut self.response_rest)),
            ("usage", usage),
        ] {
            if !rest.is_empty() {
                state.insert(key.to_owned(), Value::Object(rest));
            }
        }
        let native = (!state.is_empty()).then(|| self.native(state));
        out.push(TurnEvent::Finished(TurnFinished { service_tier, native, ..TurnFinished::new(stop) }));
    }

    fn is_whole(&self) -> bool {
        self.finish.is_some()
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn set_done(&mut self) {
        self.is_done = true;
    }
}

/// Lists of two objects are put one after the other, of the rest the last counts: pieces of a stream bring their own.
fn append_lists(known: &mut Value, more: Value) {
    match (known, more) {
        (Value::Object(known), Value::Object(more)) => {
            for (key, value) in more {
                append_lists(known.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(known), Value::Array(more)) => {
            for value in more {
                if !known.contains(&value) || value.get("logProbability").is_some() || value.get("candidates").is_some()
                {
                    known.push(value);
                }
            }
        }
        (known, more) => *known = more,
    }
}
