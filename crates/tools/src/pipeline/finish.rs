//! *redact*, *bound* and *record*: what every outcome passes, whichever stage answered.

use super::{PipelineError, State, Way, bound as bounds};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use placet_core::outcome::Outcome;
use placet_core::part::{Inline, Media, MediaSource};
use placet_core::{Part, Redactions, Redactor, ToolResult};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Takes secrets out of everything that tools, configuration and errors contribute, before anything is cut.
pub(super) fn redact(state: &State, outcome: &mut Outcome) {
    bounds::join_texts(&mut outcome.content);
    let options = &state.pipeline.options;
    if options.unredacted || state.entry.as_ref().is_some_and(|entry| entry.unredacted) {
        outcome.unredacted = true;
        return;
    }
    let redactor = &options.redactor;
    let mut report = std::mem::take(&mut outcome.redactions);
    for part in &mut outcome.content {
        redact_part(redactor, part, &mut report);
    }
    for value in [&mut outcome.payload, &mut outcome.detail].into_iter().flatten() {
        report.merge(&redactor.redact_json(value));
    }
    if let Some(cause) = &mut outcome.cause
        && let Cow::Owned(clean) = redactor.redact_text_reporting(cause, &mut report)
    {
        *cause = clean;
    }
    if !outcome.facts.is_empty() {
        let mut facts = Value::Object(std::mem::take(&mut outcome.facts));
        report.merge(&redactor.redact_json(&mut facts));
        outcome.facts = match facts {
            Value::Object(facts) => facts,
            _ => Map::new(),
        };
    }
    if let Some(revision) = &mut outcome.revision {
        for text in [&mut revision.before, &mut revision.after] {
            if let Cow::Owned(clean) = redactor.redact_text_reporting(text, &mut report) {
                *text = clean;
            }
        }
    }
    outcome.redactions = report;
}

fn redact_part(redactor: &Redactor, part: &mut Part, report: &mut Redactions) {
    match part {
        Part::Text(text) => {
            if let Cow::Owned(clean) = redactor.redact_text_reporting(&text.text, report) {
                text.text = clean.into();
            }
        }
        Part::Image(media) | Part::Audio(media) | Part::File(media) => redact_media(redactor, media, report),
        Part::Native(native) => report.merge(&redactor.redact_json(&mut native.value)),
        Part::Unknown(unknown) => {
            let mut value = Value::Object(std::mem::take(&mut unknown.0));
            report.merge(&redactor.redact_json(&mut value));
            if let Value::Object(map) = value {
                unknown.0 = map;
            }
        }
        _ => {}
    }
}

/// Bytes that are text are searched as text. Pictures and sounds are not: whatever looks like a credential there is chance.
fn redact_media(redactor: &Redactor, media: &mut Media, report: &mut Redactions) {
    if let Some(name) = &mut media.name
        && let Cow::Owned(clean) = redactor.redact_text_reporting(name, report)
    {
        *name = clean;
    }
    match &mut media.source {
        MediaSource::Inline(Inline { base64 }) => {
            let Ok(bytes) = STANDARD.decode(base64.as_bytes()) else { return };
            if std::str::from_utf8(&bytes).is_ok()
                && let Cow::Owned(clean) = redactor.redact_bytes_reporting(&bytes, report)
            {
                *base64 = STANDARD.encode(clean).into();
            }
        }
        MediaSource::Url(url) => {
            if let Cow::Owned(clean) = redactor.redact_text_reporting(&url.url, report) {
                url.url = clean;
            }
        }
        _ => {}
    }
}

/// Cuts what is too much. A capability may bound its content itself; what is around it nobody owns.
pub(super) fn bound(state: &State, outcome: &mut Outcome) {
    let entry = state.entry.as_ref();
    if !entry.is_some_and(|entry| entry.ownership.bounds) {
        let bounds = entry.and_then(|entry| entry.bounds).unwrap_or(state.pipeline.options.bounds);
        bounds::content(outcome, &bounds);
    }
    bounds::aside(outcome);
}

/// Tells the recorder, then keeps the result for repetitions. What has run stays known as run even if the recorder fails.
pub(super) async fn record(state: &mut State, outcome: Outcome) -> Result<ToolResult, PipelineError> {
    let result = ToolResult { capability: state.capability.clone(), ..ToolResult::of(&state.call, outcome) };
    // A misused call id already has a result; this answer is to the misuse, and no second one.
    let misused = result.outcome.reason == Some(placet_core::Reason::RequestIdConflict);
    let recorded = if misused {
        Ok(())
    } else {
        let took = state.cx.env.clock().steady().saturating_sub(state.started);
        state.pipeline.options.recorder.ended(&result, took).await
    };
    let settled = match &mut state.ticket {
        Some(ticket) => {
            let settled = ticket.calls.settle(&ticket.key, &result).await;
            if settled.is_ok() {
                ticket.stage = Way::Ended;
            }
            settled
        }
        None => Ok(()),
    };
    recorded.map_err(PipelineError::Record)?;
    settled.map_err(PipelineError::Calls)?;
    Ok(result)
}

/// The stored result of an earlier, equal call, for this one.
pub(super) fn repeated(state: &State, result: &ToolResult) -> ToolResult {
    let mut result = result.clone();
    result.provider_id.clone_from(&state.call.provider_id);
    result.outcome.repeated = true;
    result
}
