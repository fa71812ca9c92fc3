//! What the model reads when a stage, not a handler, answers. One place, so that one thing has one wording.

use crate::schema::Problem;

/// For an unknown tool and for one that was not granted: word for word the same, whatever was asked for, so that nobody
/// learns by asking what there is.
pub(crate) const NOT_AVAILABLE: &str = "no tool of that name is available; nothing was run";
pub(crate) const ID_REUSED: &str =
    "this call id was used before, with another tool or other arguments; nothing was run; use a new id";
pub(crate) const CANCELLED: &str = "the run was cancelled; nothing was run";
pub(crate) const CANCELLED_MIDWAY: &str = "the run was cancelled before the tool had answered";
pub(crate) const EFFECT_UNKNOWN: &str =
    "the run was cancelled while the tool was running; whether it took effect is not known";
pub(crate) const INTERRUPTED: &str =
    "this call was started before and interrupted; whether it took effect is not known; it is not run again";
pub(crate) const PANICKED: &str = "the tool failed unexpectedly; the operator can read the cause";
pub(crate) const CHECK_PANICKED: &str = "a check of this call failed unexpectedly; nothing was run";
pub(crate) const POLICY_FAILED: &str = "the call is not permitted: the policy could not be asked";
pub(crate) const NOBODY_TO_ASK: &str = "the call is not permitted: it needs an approval, and there is nobody to ask";
pub(crate) const NOT_APPROVED: &str = "the call was not approved";
pub(crate) const ANSWER_TO_SOMETHING_ELSE: &str =
    "the call is not permitted: the approval that came was for something else";

pub(crate) fn too_large(what: &str, size: usize, most: usize) -> String {
    format!("the {what} of {size} bytes is larger than the {most} bytes that are taken; nothing was run; send less")
}

pub(crate) fn invalid(problems: &[Problem]) -> String {
    let mut text = String::from("the arguments are not valid; nothing was run:");
    for Problem { path, problem } in problems {
        text.push_str("\n- ");
        if !path.is_empty() {
            text.push_str(path);
            text.push_str(": ");
        }
        text.push_str(problem);
    }
    text
}

pub(crate) fn stale(sent: &str, current: Option<&str>) -> String {
    let current = match current {
        Some(current) => format!("the current one is {current}"),
        None => "there is none now".to_owned(),
    };
    format!("the call rests on revision {sent}, but {current}; nothing was run; look again, then decide anew")
}

pub(crate) fn may_run(tool: &placet_core::ToolName) -> String {
    format!("May `{tool}` run?")
}

pub(crate) const CHANGED_MEANWHILE: &str = "what the call is about was changed while somebody was asked to approve it; \
                                            nothing was run; look again, then decide anew";

pub(crate) fn denied(reason: &str) -> String {
    format!("the call is not permitted: {reason}")
}

pub(crate) fn not_approved(reason: Option<&str>) -> String {
    match reason.map(str::trim).filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("{NOT_APPROVED}: {reason}"),
        None => NOT_APPROVED.to_owned(),
    }
}

pub(crate) fn nobody_answered(seconds: f64) -> String {
    format!("{NOT_APPROVED}: nobody answered within {seconds} s")
}

pub(crate) fn timed_out(seconds: f64, effect_unknown: bool) -> String {
    let unknown = if effect_unknown { "; whether it took effect is not known" } else { "" };
    format!("the tool did not answer within {seconds} s{unknown}")
}
