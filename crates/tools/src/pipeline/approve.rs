//! *approved*: the policy, and a human where the policy or the tool wants one to be asked. It fails closed.

use super::bound::{LINE, clip};
use super::{PipelineError, State, Step, Stop, own, texts};
use crate::policy::{Decision, PolicyRequest, Verdict};
use futures_util::FutureExt;
use placet_core::env::panic_text;
use placet_core::event::{ApprovalDecided, ApprovalRequested};
use placet_core::{Reason, Stage, Status};
use serde_json::{Map, Value};
use std::panic::AssertUnwindSafe;
use std::sync::LazyLock;
use std::time::Duration;

static NO_ARGUMENTS: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// Policy first. A denial stands; a wish to ask, of policy or tool, is put to a human; else the call may run.
pub(super) async fn approved(state: &mut State) -> Step {
    let own_question = match (&state.entry, &state.ready) {
        (Some(entry), Some(ready)) if entry.asks => {
            Some(ready.question().unwrap_or_else(|| texts::may_run(entry.tool.name())))
        }
        (Some(entry), Some(ready)) if !entry.preapproved => ready.question(),
        _ => None,
    };
    let question = match (judge(state).await?, own_question) {
        (Verdict::Allow, None) => return Ok(()),
        (Verdict::Deny { reason }, _) => {
            let reason = clip(reason.trim(), LINE);
            return state.stop(Status::Refused, Stage::Approved, Reason::Denied, texts::denied(&reason));
        }
        (Verdict::Ask { question }, _) if question.trim().is_empty() => {
            return denied(state, texts::POLICY_FAILED, "the policy asks without a question");
        }
        (Verdict::Ask { question }, None) | (Verdict::Allow, Some(question)) => question,
        (Verdict::Ask { question }, Some(own)) if question == own => own,
        (Verdict::Ask { question }, Some(own)) => format!("{question}\n{own}"),
    };
    state.waited = true;
    state.seen = super::stages::seen(state).await?;
    ask(state, &question).await
}

async fn judge(state: &State) -> Result<Verdict, Stop> {
    let options = &state.pipeline.options;
    let Some(request) = request(state) else { return Ok(Verdict::Allow) };
    let mut judged = AssertUnwindSafe(options.policy.judge(&request)).catch_unwind();
    // Most policies answer at once: they need no clock.
    let judged = match futures_util::poll!(&mut judged) {
        std::task::Poll::Ready(judged) => judged,
        std::task::Poll::Pending => tokio::select! {
            biased;
            judged = judged => judged,
            stop = state.held_up(Stage::Approved) => return Err(stop),
            () = state.cx.env.sleep(options.policy_timeout) => {
                return fails(denied(state, texts::POLICY_FAILED, "the policy did not answer in time"));
            }
        },
    };
    match judged {
        Ok(Ok(verdict)) => Ok(verdict),
        Ok(Err(failure)) => fails(denied(state, texts::POLICY_FAILED, &failure.to_string())),
        Err(panic) => fails(denied(state, texts::POLICY_FAILED, &panic_text(panic.as_ref()))),
    }
}

fn request(state: &State) -> Option<PolicyRequest<'_>> {
    let entry = state.entry.as_ref()?;
    Some(PolicyRequest {
        call: &state.call,
        arguments: state.arguments.as_ref().ok().and_then(Value::as_object).unwrap_or(&NO_ARGUMENTS),
        tool: entry.tool.definition(),
        capability: &entry.capability,
        run: state.cx.run.as_ref(),
        revision: state.cx.revision.as_deref(),
        origins: &state.cx.origins,
        private: &state.cx.private,
    })
}

/// Who decided, what, and why.
struct Answer {
    approved: bool,
    by: String,
    reason: Option<String>,
    /// What the call is answered with where it is not approved.
    stop: Option<(Reason, String, Option<String>)>,
}

async fn ask(state: &State, question: &str) -> Step {
    let options = &state.pipeline.options;
    let Some(approver) = &options.approver else {
        return state.stop(Status::Refused, Stage::Approved, Reason::Denied, texts::NOBODY_TO_ASK);
    };
    let Some(request) = request(state) else { return Ok(()) };
    let asked = ApprovalRequested {
        approval: state.cx.env.new_id(),
        call: state.call.id.clone(),
        tool: state.call.name.clone(),
        capability: state.capability.clone(),
        question: clip(&clean(state, question), LINE).into_owned(),
        content_hash: state.content.to_hex(),
    };
    options.recorder.approval_requested(&asked).await.map_err(|error| Stop::Broken(PipelineError::Record(error)))?;
    let patience = patience(state);
    let answer = tokio::select! {
        biased;
        decided = AssertUnwindSafe(approver.decide(&asked, &request)).catch_unwind() => match decided {
            Ok(Ok(decision)) => read(&asked, decision),
            Ok(Err(failure)) => unasked(failure.to_string()),
            Err(panic) => unasked(panic_text(panic.as_ref())),
        },
        // The question stands: whoever goes on with the run asks it again.
        () = state.cx.leave.cancelled() => return Err(Stop::Broken(PipelineError::Left)),
        () = state.cx.cancel.cancelled() => Answer {
            approved: false,
            by: "cancellation".into(),
            reason: None,
            stop: Some((Reason::Cancelled, texts::CANCELLED.into(), None)),
        },
        () = state.cx.env.sleep(patience) => {
            let text = texts::nobody_answered(patience.as_secs_f64());
            Answer {
                approved: false,
                by: "timeout".into(),
                reason: Some(text.clone()),
                stop: Some((Reason::ApprovalTimeout, text, None)),
            }
        }
    };
    let decided = ApprovalDecided {
        approval: asked.approval,
        call: asked.call,
        tool: asked.tool,
        capability: asked.capability,
        by: clip(&clean(state, &answer.by), LINE).into_owned(),
        reason: answer.reason.map(|reason| clip(&clean(state, &reason), LINE).into_owned()),
    };
    let recorded = options.recorder.approval_decided(answer.approved, &decided).await;
    recorded.map_err(|error| Stop::Broken(PipelineError::Record(error)))?;
    match answer.stop {
        None => Ok(()),
        Some((reason, text, cause)) => {
            let mut outcome = own(Status::Refused, Stage::Approved, reason, text);
            outcome.cause = cause;
            Err(Stop::Answer(Box::new(state.worded(outcome))))
        }
    }
}

/// What is approved is this question about this content and nothing else.
fn read(asked: &ApprovalRequested, decision: Decision) -> Answer {
    let fits = decision.approval == asked.approval && decision.content_hash == asked.content_hash;
    let stop = if !fits {
        let cause = "the decision names another question or other content".to_owned();
        Some((Reason::Denied, texts::ANSWER_TO_SOMETHING_ELSE.to_owned(), Some(cause)))
    } else if !decision.approved {
        let reason = decision.reason.as_deref().map(|reason| clip(reason, LINE).into_owned());
        Some((Reason::Denied, texts::not_approved(reason.as_deref()), None))
    } else {
        None
    };
    Answer { approved: stop.is_none(), by: decision.by, reason: decision.reason, stop }
}

fn unasked(cause: String) -> Answer {
    let stop = Some((Reason::Denied, texts::NOBODY_TO_ASK.to_owned(), Some(cause)));
    Answer { approved: false, by: "nobody".into(), reason: None, stop }
}

/// The human's time, or what is left of the caller's where that is less.
fn patience(state: &State) -> Duration {
    let most = state.pipeline.options.approval_timeout;
    let now = state.cx.env.clock().steady();
    state.cx.deadline.map_or(most, |deadline| most.min(deadline.saturating_sub(now)))
}

fn clean<'t>(state: &State, text: &'t str) -> std::borrow::Cow<'t, str> {
    let off = state.pipeline.options.unredacted || state.entry.as_ref().is_some_and(|entry| entry.unredacted);
    if off { text.into() } else { state.pipeline.options.redactor.redact_text(text) }
}

fn denied(state: &State, text: &str, cause: &str) -> Step {
    let mut outcome = own(Status::Refused, Stage::Approved, Reason::Denied, text);
    outcome.cause = Some(cause.to_owned());
    Err(Stop::Answer(Box::new(state.worded(outcome))))
}

/// A step that never passes, as the end of whatever was asked for.
fn fails<T>(step: Step) -> Result<T, Stop> {
    match step {
        Err(stop) => Err(stop),
        Ok(()) => Err(Stop::Broken(PipelineError::TaskLost)),
    }
}
