//! The checks before *execute*, but for *approved*.

use super::{PipelineError, State, Step, Stop, Ticket, Way, own, texts};
use crate::answer::ToolError;
use crate::calls::{Admission, CallKey};
use crate::context::{Inner, ToolContext};
use crate::pipeline::bound::clip;
use crate::registry::Known;
use crate::schema::Problem;
use crate::tool::Unprepared;
use placet_core::{Digest, Origin, Origins, Outcome, Reason, Stage, Status};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// No tool has a longer name, so a longer one is not looked up.
const NAME: usize = 256;
/// How long a wrong argument's path may be.
const PATH: usize = 512;

/// Size first, then whether the call was seen before.
pub(super) async fn admit(state: &mut State) -> Step {
    let options = &state.pipeline.options;
    let (name, arguments) = (state.call.name.as_str(), state.call.arguments.as_text());
    if name.len() > NAME {
        let text = texts::too_large("name", name.len(), NAME);
        return state.stop(Status::Mistaken, Stage::Admit, Reason::TooLarge, text);
    }
    if arguments.len() > options.arguments {
        let text = texts::too_large("argument text", arguments.len(), options.arguments);
        return state.stop(Status::Mistaken, Stage::Admit, Reason::TooLarge, text);
    }
    state.arguments = state.call.arguments.parse().map(Value::Object);
    state.content = hash(name, &state.arguments, arguments);
    if let Known::Granted(entry) = state.pipeline.registry.look_up(&state.call.name)
        && entry.ownership.repeats
    {
        return Ok(());
    }
    let key = CallKey { run: state.cx.run.clone(), turn: state.cx.turn.clone(), call: state.call.id.clone() };
    let calls = options.calls.clone();
    match calls.admit(&key, state.content).await {
        Ok(Admission::New) => {
            state.ticket = Some(Ticket { calls, key, stage: Way::Open });
            Ok(())
        }
        Ok(Admission::Stored(result)) => Err(Stop::Repeated(result)),
        Ok(Admission::Conflict) => {
            state.stop(Status::Mistaken, Stage::Admit, Reason::RequestIdConflict, texts::ID_REUSED)
        }
        Ok(Admission::Interrupted) => {
            state.ticket = Some(Ticket { calls, key, stage: Way::RunsOnce });
            state.stop(Status::Interrupted, Stage::Admit, Reason::Interrupted, texts::INTERRUPTED)
        }
        Err(error) => Err(Stop::Broken(PipelineError::Calls(error))),
    }
}

/// Whether anybody has a tool of that name.
pub(super) async fn registered(state: &mut State) -> Step {
    if matches!(state.pipeline.registry.look_up(&state.call.name), Known::Unknown) {
        return state.stop(Status::Refused, Stage::Registered, Reason::UnknownTool, texts::NOT_AVAILABLE);
    }
    Ok(())
}

/// Whether it was handed to this caller, and offered in this ask.
pub(super) async fn granted(state: &mut State) -> Step {
    let entry = match state.pipeline.registry.look_up(&state.call.name) {
        Known::Granted(entry) => {
            state.capability = Some(entry.capability.clone());
            let offered = state.cx.offered.as_ref().is_none_or(|offered| offered.contains(&state.call.name));
            offered.then(|| entry.clone())
        }
        Known::Withheld(capability) => {
            state.capability = Some(capability.clone());
            None
        }
        Known::Unknown => None,
    };
    if entry.is_none() {
        return state.stop(Status::Refused, Stage::Granted, Reason::NotAuthorised, texts::NOT_AVAILABLE);
    }
    state.entry = entry;
    Ok(())
}

/// JSON, schema, the handler's type, then the tool's own rules.
pub(super) async fn arguments(state: &mut State) -> Step {
    let Some(entry) = state.entry.clone() else { return Ok(()) };
    let arguments = match &state.arguments {
        Ok(arguments) => arguments,
        Err(malformed) => {
            let problem = Problem { path: String::new(), problem: malformed.to_string() };
            return Err(Stop::Answer(Box::new(state.worded(invalid(vec![problem])))));
        }
    };
    let problems = entry.validator.problems(arguments);
    if !problems.is_empty() {
        return Err(Stop::Answer(Box::new(state.worded(invalid(problems)))));
    }
    match entry.tool.prepare(arguments) {
        Ok(ready) => state.ready = Some(ready),
        Err(Unprepared::Type { path, problem }) => {
            let problem = clip(&problem, PATH).into_owned();
            return Err(Stop::Answer(Box::new(state.worded(invalid(vec![Problem { path, problem }])))));
        }
        Err(Unprepared::Rule(error)) => return Err(Stop::Answer(Box::new(answered(state, Stage::Arguments, error)))),
    }
    if state.cx.revision.is_none()
        && let Some(argument) = &entry.tool.definition().revision_argument
    {
        state.cx.revision = match arguments.get(argument) {
            Some(Value::String(revision)) => Some(revision.clone()),
            Some(Value::Null) | None => None,
            Some(other) => Some(other.to_string()),
        };
    }
    let options = &state.pipeline.options;
    let unredacted = options.unredacted || entry.unredacted;
    state.tool_cx = Some(ToolContext::new(Inner {
        call: state.call.id.clone(),
        tool: state.call.name.clone(),
        capability: entry.capability.clone(),
        cancel: state.cx.cancel.child_token(),
        context: state.cx.clone(),
        deadline: OnceLock::new(),
        recorder: Some(options.recorder.clone()),
        redactor: (!unredacted).then(|| options.redactor.clone()),
        arguments: state.call.arguments.clone(),
    }));
    Ok(())
}

/// Whether the revision that the decision rests on is still current.
pub(super) async fn fresh(state: &mut State) -> Step {
    still_current(state, Stage::Fresh).await
}

/// The same again, where time has passed.
pub(super) async fn fresh_again(state: &mut State) -> Step {
    if !state.waited {
        return Ok(());
    }
    still_current(state, Stage::FreshAgain).await?;
    let Some(seen) = &state.seen else { return Ok(()) };
    let current = current(state, Stage::FreshAgain).await?;
    if current.as_ref() == Some(seen) {
        return Ok(());
    }
    state.stop(Status::Conflict, Stage::FreshAgain, Reason::StaleRevision, texts::CHANGED_MEANWHILE)
}

/// What a human who is about to be asked sees: the revision that is current, where the call does not say on which it rests.
pub(super) async fn seen(state: &State) -> Result<Option<Option<String>>, Stop> {
    if state.cx.revision.is_some() { Ok(None) } else { current(state, Stage::Approved).await }
}

async fn still_current(state: &State, stage: Stage) -> Step {
    let Some(sent) = &state.cx.revision else { return Ok(()) };
    let Some(current) = current(state, stage).await? else { return Ok(()) };
    if current.as_deref() == Some(sent) {
        return Ok(());
    }
    let text = texts::stale(&clip(sent, 100), current.as_deref());
    let mut outcome = own(Status::Conflict, stage, Reason::StaleRevision, text);
    outcome.detail = Some(json!({"sent": sent, "current": current}));
    Err(Stop::Answer(Box::new(state.worded(outcome))))
}

/// The revision that is current, where the tool can tell one.
async fn current(state: &State, stage: Stage) -> Result<Option<Option<String>>, Stop> {
    let (Some(ready), Some(cx)) = (&state.ready, &state.tool_cx) else { return Ok(None) };
    let Some(current) = ready.current_revision(cx) else { return Ok(None) };
    // A source that never answers would hold the call for good.
    let current = tokio::select! {
        biased;
        current = current => current,
        stop = state.held_up(stage) => return Err(stop),
        () = state.cx.env.sleep(state.pipeline.options.timeout) => Err(timed_out(state)),
    };
    current.map(Some).map_err(|error| Stop::Answer(Box::new(answered(state, stage, error))))
}

/// The tool's own dry check.
pub(super) async fn possible(state: &mut State) -> Step {
    let (Some(ready), Some(cx)) = (&state.ready, &state.tool_cx) else { return Ok(()) };
    let Some(check) = ready.possible(cx) else { return Ok(()) };
    let checked = tokio::select! {
        biased;
        checked = check => checked,
        stop = state.held_up(Stage::Possible) => return Err(stop),
        () = state.cx.env.sleep(state.pipeline.options.timeout) => Err(timed_out(state)),
    };
    checked.map_err(|error| Stop::Answer(Box::new(answered(state, Stage::Possible, error))))
}

fn timed_out(state: &State) -> ToolError {
    ToolError::failed(texts::timed_out(state.pipeline.options.timeout.as_secs_f64(), false))
        .reason(Reason::Timeout.as_str())
}

fn invalid(mut problems: Vec<Problem>) -> Outcome {
    for problem in &mut problems {
        if problem.path.len() > PATH {
            problem.path = clip(&problem.path, PATH).into_owned();
        }
    }
    let mut outcome = own(Status::Mistaken, Stage::Arguments, Reason::InvalidArguments, texts::invalid(&problems));
    outcome.detail = serde_json::to_value(problems).ok();
    outcome
}

/// What a tool's own code answered with at a stage.
pub(super) fn answered(state: &State, stage: Stage, error: ToolError) -> Outcome {
    let usual = match error.status {
        Status::Mistaken => Reason::InvalidArguments,
        Status::Conflict => Reason::StaleRevision,
        Status::Failed | Status::Interrupted => Reason::ToolError,
        Status::Refused | Status::Completed => Reason::Impossible,
    };
    let text = if error.text.trim().is_empty() { format!("the tool answered: {}", error.status) } else { error.text };
    let mut outcome = Outcome::new(error.status, stage, Some(error.reason.unwrap_or(usual)), text);
    outcome.detail = error.detail;
    outcome.cause = error.cause;
    outcome.facts = error.facts;
    outcome.origin = tool_origin(state);
    outcome
}

/// Where a tool's words come from, where it does not say so itself.
pub(super) fn tool_origin(state: &State) -> Origins {
    match &state.entry {
        Some(entry) if !entry.tool.settings().origin.is_empty() => entry.tool.settings().origin.clone(),
        _ => Origins::from(Origin::Tool(state.call.name.as_str().to_owned())),
    }
}

/// SHA-256 of the tool's name and of the arguments by meaning: fields in the order of their names, no spaces. Text that
/// means nothing stands for itself.
fn hash<E>(name: &str, arguments: &Result<Value, E>, text: &str) -> Digest {
    let mut content = Vec::with_capacity(name.len() + text.len() + 2);
    content.extend_from_slice(name.as_bytes());
    match arguments {
        Ok(arguments) => {
            content.push(0);
            canonical(arguments, &mut content);
        }
        Err(_) => {
            content.push(1);
            content.extend_from_slice(text.as_bytes());
        }
    }
    Digest::of(&content)
}

fn canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            out.push(b'{');
            for (name, value) in fields {
                // Writing a text or a number into memory cannot fail.
                let _ = serde_json::to_writer(&mut *out, name);
                out.push(b':');
                canonical(value, out);
                out.push(b',');
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for item in items {
                canonical(item, out);
                out.push(b',');
            }
            out.push(b']');
        }
        plain => {
            let _ = serde_json::to_writer(&mut *out, plain);
        }
    }
}

/// The hash that identifies what a call asks for: the tool and the arguments by meaning.
#[must_use]
pub fn content_hash(call: &placet_core::ToolCall) -> Digest {
    hash(call.name.as_str(), &call.arguments.parse().map(Value::Object), call.arguments.as_text())
}
