//! `scripted`: a model that says what a script tells it to. For tests, demonstrations and crash drills.
//!
//! A script is a list of turns, built in code ([`Script`], [`ScriptTurn`]) or read from a JSON file by the reference
//! `scripted:path.json`:
//!
//! ```json
//! {
//!   "follow": "conversation",
//!   "turns": [
//!     {"text": ["Let me ", "look."], "calls": [{"name": "list", "arguments": {"path": "."}}],
//!      "usage": {"input": 10, "output": 5}},
//!     {"fail": {"kind": "rate_limited", "message": "slow down"}},
//!     {"reasoning": "Two files.", "text": "There are two files."}
//!   ]
//! }
//! ```
//!
//! | field of a turn | meaning |
//! |---|---|
//! | `text` | what it says: a text, or a list of pieces to stream |
//! | `reasoning` | thinking that is shown before |
//! | `calls` | tools it asks for: `name`, `arguments` (an object, or a text to be sent as it is), optionally `id` |
//! | `usage` | counters as in [`placet_core::Usage`] |
//! | `stop` | why it ends; by default `tool_calls` with calls, else `end` |
//! | `delay_ms` | how long it waits before it begins, on the clock that is passed in |
//! | `fail` | an error: `kind`, `message`, optionally `status`, `retry_after_ms`. A turn that says nothing else fails before its first event, any other after what it says |
//! | `cut` | `true`: the stream ends after what it says, without an end |
//!
//! `follow` says which turn comes next. `sequence` (the default): the next one at every request, failed ones included.
//! `conversation`: the one after as many answers as the conversation holds, so that a resumed run goes on where it was, in
//! another process too. After the last turn a request is answered with an error of kind *not found*.

use crate::provider::{AskContext, ModelListing, ModelProvider, TurnStream};
use async_trait::async_trait;
use futures_util::StreamExt;
use placet_core::turn::{CallDelta, TextDelta, TurnFinished, TurnStarted};
use placet_core::{
    Arguments, ErrorKind, ItemBody, ProviderError, ProviderId, Role, StopReason, TurnEvent, TurnRequest, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A list of turns to be said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Which turn comes next.
    #[serde(default)]
    pub follow: Follow,
    /// The turns.
    pub turns: Vec<ScriptTurn>,
}

/// Which turn of a script comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Follow {
    /// The next one at every request.
    #[default]
    Sequence,
    /// The one after as many answers as the conversation holds.
    Conversation,
}

/// One turn of a script.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptTurn {
    /// What it says, piece by piece.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub text: Vec<String>,
    /// Thinking that is shown before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Tools it asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ScriptCall>,
    /// What it says it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// How long it waits before it begins, in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    /// The error it ends with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail: Option<ScriptFailure>,
    /// Whether its stream ends without an end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A tool call of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptCall {
    /// Which tool.
    pub name: String,
    /// With what: an object, or a text that is sent as it is.
    #[serde(default)]
    pub arguments: Value,
    /// The id that the provider gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// An error of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptFailure {
    /// What sort.
    pub kind: ErrorKind,
    /// What it says.
    pub message: String,
    /// The HTTP status it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long it asks to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(vec![text]),
        other => serde_json::from_value(other)
            .map_err(|_| serde::de::Error::custom("`text` is neither a text nor a list of texts")),
    }
}

impl ScriptTurn {
    /// A turn that says this.
    pub fn text(text: impl Into<String>) -> Self {
        ScriptTurn { text: vec![text.into()], ..ScriptTurn::default() }
    }

    /// A turn that asks for a tool.
    pub fn call(name: impl Into<String>, arguments: Value) -> Self {
        ScriptTurn::default().and_call(name, arguments)
    }

    /// A turn that fails.
    pub fn fail(kind: ErrorKind, message: impl Into<String>) -> Self {
        let fail = ScriptFailure { kind, message: message.into(), status: None, retry_after_ms: None };
        ScriptTurn { fail: Some(fail), ..ScriptTurn::default() }
    }

    /// Asks for one more tool.
    #[must_use]
    pub fn and_call(mut self, name: impl Into<String>, arguments: Value) -> Self {
        self.calls.push(ScriptCall { name: name.into(), arguments, id: None });
        self
    }

    /// Sets what it says it used.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Sets why it ends.
    #[must_use]
    pub fn with_stop(mut self, stop: StopReason) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Sets how long it waits before it begins.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Lets its stream end without an end.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.cut = true;
        self
    }

    fn is_silent(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_none() && self.calls.is_empty()
    }

    fn events(&self, provider: &ProviderId, model: &str) -> Vec<TurnEvent> {
        let delta = |text: &str| TextDelta { index: 0, text: text.to_owned() };
        let mut events = vec![TurnEvent::Started(TurnStarted { model: Some(model.to_owned()), response_id: None })];
        events.extend(self.reasoning.iter().map(|text| TurnEvent::Reasoning(delta(text))));
        events.extend(self.text.iter().map(|text| TurnEvent::Text(delta(text))));
        for (place, call) in (1..).zip(&self.calls) {
            let arguments = match &call.arguments {
                Value::Null => String::new(),
                arguments => Arguments::from_value(arguments).as_text().to_owned(),
            };
            events.push(TurnEvent::Call(CallDelta {
                index: place,
                provider_id: call.id.clone(),
                name: Some(call.name.clone()),
                arguments,
                native: None,
            }));
        }
        events.extend(self.usage.map(TurnEvent::Usage));
        if let Some(failure) = &self.fail {
            events.push(TurnEvent::Failed(Box::new(failure.error(provider))));
        } else if !self.cut {
            let usual = if self.calls.is_empty() { StopReason::End } else { StopReason::ToolCalls };
            let stop = self.stop.clone().unwrap_or(usual);
            events.push(TurnEvent::Finished(TurnFinished::new(stop)));
        }
        events
    }
}

impl ScriptFailure {
    fn error(&self, provider: &ProviderId) -> ProviderError {
        let mut error = ProviderError::new(self.kind.clone(), provider.clone(), self.message.clone());
        error.status = self.status;
        error.retry_after_ms = self.retry_after_ms;
        error
    }
}

impl Script {
    /// A script of these turns, one at every request.
    pub fn new(turns: impl IntoIterator<Item = ScriptTurn>) -> Self {
        Script { follow: Follow::Sequence, turns: turns.into_iter().collect() }
    }

    /// Which turn comes next is seen from the conversation.
    #[must_use]
    pub fn following_the_conversation(mut self) -> Self {
        self.follow = Follow::Conversation;
        self
    }

    /// Reads a script from JSON.
    ///
    /// # Errors
    /// A sentence on what is wrong, with line and column.
    pub fn parse(json: &str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }
}

/// A model that follows one script, and keeps the requests it received.
#[derive(Debug)]
pub struct ScriptedModel {
    id: ProviderId,
    script: Script,
    requests: Mutex<Vec<Arc<TurnRequest>>>,
}

impl ScriptedModel {
    /// The provider `scripted` with a script.
    #[must_use]
    pub fn new(script: Script) -> Arc<Self> {
        ScriptedModel::named("scripted", script)
    }

    /// A provider of another name with a script.
    #[must_use]
    pub fn named(id: &str, script: Script) -> Arc<Self> {
        Arc::new(ScriptedModel { id: ProviderId::new(id), script, requests: Mutex::default() })
    }

    /// The requests it received, in order, those that failed included.
    #[must_use]
    pub fn requests(&self) -> Vec<Arc<TurnRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl ModelProvider for ScriptedModel {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    async fn ask(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<TurnStream, ProviderError> {
        let asked = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.push(request.clone());
            requests.len() - 1
        };
        let place = match self.script.follow {
            Follow::Sequence => asked,
            Follow::Conversation => answers_in(&request),
        };
        play(&self.id, &self.script, place, &request.model, context).await
    }

    async fn models(&self, _context: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        Ok(vec![ModelListing { id: "scripted".into(), description: Some("says what its script tells it".into()) }])
    }
}

/// The provider `scripted` for references such as `scripted:path.json`. A script is read once.
#[derive(Debug)]
pub struct ScriptFiles {
    id: ProviderId,
    open: Mutex<BTreeMap<String, (Arc<Script>, usize)>>,
}

impl Default for ScriptFiles {
    fn default() -> Self {
        ScriptFiles { id: ProviderId::new("scripted"), open: Mutex::default() }
    }
}

impl ScriptFiles {
    /// The script at `path`, and how often it was asked for a turn before.
    fn next(&self, path: &str) -> Result<(Arc<Script>, usize), ProviderError> {
        let script = self.script(path)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = open.get_mut(path).map_or(0, |(_, asked)| std::mem::replace(asked, *asked + 1));
        Ok((script, asked))
    }

    /// The script at `path`, read at the first time.
    fn script(&self, path: &str) -> Result<Arc<Script>, ProviderError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((script, _)) = open.get(path) {
            return Ok(script.clone());
        }
        let error = |kind, message: String| ProviderError::new(kind, self.id.clone(), message);
        let text = std::fs::read_to_string(Path::new(path)).map_err(|cause| {
            error(ErrorKind::NotFound, format!("the script `{path}` cannot be read: {cause}"))
                .with_hint("give the path of a JSON file: scripted:turns.json")
        })?;
        let script = Script::parse(&text).map_err(|problem| {
            error(ErrorKind::InvalidRequest, format!("the script `{path}` is malformed: {problem}"))
        })?;
        let script = Arc::new(script);
        open.insert(path.to_owned(), (script.clone(), 0));
        Ok(script)
    }
}

#[async_trait]
impl ModelProvider for ScriptFiles {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    async fn ask(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<TurnStream, ProviderError> {
        let (script, asked) = self.next(&request.model)?;
        let place = match script.follow {
            Follow::Sequence => asked,
            Follow::Conversation => answers_in(&request),
        };
        play(&self.id, &script, place, &request.model, context).await
    }

    async fn ready(&self, path: &str) -> Result<(), ProviderError> {
        self.script(path).map(drop)
    }

    async fn models(&self, _context: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        Ok(Vec::new())
    }
}

/// How many answers of a model a conversation holds: stretches of what it said and asked for, ended by anything else.
fn answers_in(request: &TurnRequest) -> usize {
    let is_models = |body: &ItemBody| match body {
        ItemBody::Message(message) => message.role == Role::Assistant,
        ItemBody::Reasoning(_) | ItemBody::ToolCall(_) | ItemBody::HostedCall(_) => true,
        _ => false,
    };
    let mut answers = 0;
    let mut inside = false;
    for item in &request.items {
        let models = is_models(&item.body);
        answers += usize::from(models && !inside);
        inside = models;
    }
    answers
}

async fn play(
    provider: &ProviderId,
    script: &Script,
    place: usize,
    model: &str,
    context: AskContext,
) -> Result<TurnStream, ProviderError> {
    let Some(turn) = script.turns.get(place) else {
        let turns = script.turns.len();
        return Err(ProviderError::new(
            ErrorKind::NotFound,
            provider.clone(),
            format!("the script is over: turn {} was asked for, and it has {turns}", place + 1),
        ));
    };
    if turn.delay_ms > 0 {
        tokio::select! {
            () = context.env.sleep(Duration::from_millis(turn.delay_ms)) => {}
            () = context.cancel.cancelled() => {
                return Err(ProviderError::new(ErrorKind::Cancelled, provider.clone(), "the request was cancelled"));
            }
        }
    }
    if let Some(failure) = turn.fail.as_ref().filter(|_| turn.is_silent()) {
        return Err(failure.error(provider));
    }
    let events = turn.events(provider, model).into_iter();
    let provider = provider.clone();
    let stream =
        futures_util::stream::unfold((events, context.cancel, provider), |(mut events, cancel, provider)| async {
            let event = events.next()?;
            if cancel.is_cancelled() {
                let error = ProviderError::new(ErrorKind::Cancelled, provider.clone(), "the request was cancelled");
                return Some((TurnEvent::Failed(Box::new(error)), (Vec::new().into_iter(), cancel, provider)));
            }
            Some((event, (events, cancel, provider)))
        });
    Ok(stream.boxed())
}

#[cfg(test)]
mod tests;
