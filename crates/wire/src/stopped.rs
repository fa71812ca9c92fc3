//! Why an answer ended, as a client may be told.

use placet_core::{Arguments, StopReason};
use serde::de::IgnoredAny;

/// Whether the arguments of a call end before their end: the answer was cut within them, whatever it says of itself.
pub(crate) fn is_cut_short(arguments: &str) -> bool {
    !Arguments::from_text(arguments).is_absent()
        && serde_json::from_str::<IgnoredAny>(arguments).is_err_and(|error| error.is_eof())
}

/// Whether the arguments of a call are no JSON: they were cut, or the model wrote something else.
pub(crate) fn is_malformed(arguments: &str) -> bool {
    !Arguments::from_text(arguments).is_absent() && serde_json::from_str::<IgnoredAny>(arguments).is_err()
}

/// The stop that a client is told: an answer that holds a call which must not be run is one that was cut.
pub(crate) fn told(stop: &StopReason, has_cut_call: bool) -> &StopReason {
    match stop {
        StopReason::End | StopReason::ToolCalls | StopReason::StopSequence if has_cut_call => &StopReason::MaxTokens,
        stop => stop,
    }
}
