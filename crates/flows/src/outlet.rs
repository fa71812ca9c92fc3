//! The way out: what an exchange says, as one answer.

use crate::error::Result;
use crate::reply::Reply;
use placet_core::turn::{CallDelta, TextDelta, TurnFinished, TurnStarted};
use placet_core::{StopReason, TurnEvent, Usage};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// What stands between two messages of one answer, streamed or not.
pub(crate) const BETWEEN: &str = "\n\n";

/// Where an exchange's answer goes.
#[derive(Clone)]
pub(crate) struct Outlet(Arc<Inner>);

struct Inner {
    reply: Reply,
    cancel: CancellationToken,
    out: Mutex<Out>,
}

#[derive(Default)]
struct Out {
    /// The next free place of the answer.
    place: u32,
    /// Everything that was said so far, what the client has from before included.
    said: String,
    /// What the client has from before, as far as it was not said again yet.
    before: Option<String>,
    /// What was said again of that, and so not sent.
    swallowed: String,
    /// Whether anything was sent.
    sent: bool,
    calls: Vec<CallDelta>,
    finished: Option<TurnFinished>,
    closed: bool,
}

/// One message on its way out, piece by piece.
pub(crate) struct LiveMessage {
    base: u32,
    begun: bool,
    /// Set where calls and usage go out with it as they come: what was used before it.
    whole: Option<Usage>,
}

impl Outlet {
    /// A way out to a client that has `before` of the answer already.
    pub(crate) fn new(cancel: CancellationToken, before: String) -> Self {
        let out = Out { before: (!before.is_empty()).then_some(before), ..Out::default() };
        Outlet(Arc::new(Inner { reply: Reply::new(), cancel, out: Mutex::new(out) }))
    }

    pub(crate) fn reply(&self) -> &Reply {
        &self.0.reply
    }

    /// Everything that was said so far.
    pub(crate) async fn said(&self) -> String {
        self.0.out.lock().await.said.clone()
    }

    /// Says a whole message.
    pub(crate) async fn message(&self, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let mut message = self.begin(None).await;
        let event = TurnEvent::Text(TextDelta { index: 0, text: text.to_owned() });
        self.pass(&mut message, event).await
    }

    /// Begins a message that is said piece by piece. With what was used before it, its calls and its usage go out as they
    /// come.
    pub(crate) async fn begin(&self, whole: Option<Usage>) -> LiveMessage {
        let out = self.0.out.lock().await;
        LiveMessage { base: out.place, begun: false, whole }
    }

    /// Passes on an event of a model, as a piece of a message.
    pub(crate) async fn pass(&self, message: &mut LiveMessage, event: TurnEvent) -> Result<()> {
        let mut out = self.0.out.lock().await;
        if out.closed {
            return Ok(());
        }
        let base = message.base;
        let mut place = |index: u32| {
            let at = base.saturating_add(index);
            out.place = out.place.max(at.saturating_add(1));
            at
        };
        let event = match event {
            TurnEvent::Text(delta) | TurnEvent::Refusal(delta) if delta.text.is_empty() => {
                place(delta.index);
                return Ok(());
            }
            TurnEvent::Text(delta) => {
                let index = place(delta.index);
                let Some(text) = out.say(message, delta.text) else { return Ok(()) };
                TurnEvent::Text(TextDelta { index, text })
            }
            TurnEvent::Refusal(delta) => {
                let index = place(delta.index);
                let Some(text) = out.say(message, delta.text) else { return Ok(()) };
                TurnEvent::Refusal(TextDelta { index, text })
            }
            TurnEvent::Reasoning(mut delta) => {
                delta.index = place(delta.index);
                TurnEvent::Reasoning(delta)
            }
            TurnEvent::ReasoningState(mut state) => {
                state.index = place(state.index);
                TurnEvent::ReasoningState(state)
            }
            TurnEvent::TextState(mut state) => {
                state.index = place(state.index);
                TurnEvent::TextState(state)
            }
            TurnEvent::Whole(mut whole) => {
                whole.index = place(whole.index);
                TurnEvent::Whole(whole)
            }
            TurnEvent::Call(mut delta) if message.whole.is_some() => {
                delta.index = place(delta.index);
                TurnEvent::Call(delta)
            }
            TurnEvent::Usage(usage) if message.whole.is_some() => {
                TurnEvent::Usage(message.whole.unwrap_or_default() + usage)
            }
            TurnEvent::Finished(finished) => {
                out.finished = Some(finished);
                return Ok(());
            }
            // The exchange tells of all its turns together, and of an error at its own end.
            TurnEvent::Started(started) if !out.sent => TurnEvent::Started(started),
            TurnEvent::Unknown(unknown) => TurnEvent::Unknown(unknown),
            TurnEvent::Started(_) | TurnEvent::Usage(_) | TurnEvent::Failed(_) | TurnEvent::Call(_) => return Ok(()),
            // A kind of a newer version goes out as it is.
            other => other,
        };
        if out.before.is_some() && !matches!(event, TurnEvent::Text(_) | TurnEvent::Refusal(_)) {
            return Ok(());
        }
        out.sent |= !matches!(event, TurnEvent::Started(_) | TurnEvent::Usage(_));
        // The lock is held while the client is waited for: the answer has one order.
        self.0.reply.push(event, &self.0.cancel).await
    }

    /// Keeps a call for the end of the answer.
    pub(crate) async fn call(&self, call: CallDelta) {
        self.0.out.lock().await.calls.push(call);
    }

    /// Ends the answer. `whole` says that the model's own end is the answer's.
    pub(crate) async fn finish(&self, usage: Usage, whole: bool) -> Result<()> {
        let mut out = self.0.out.lock().await;
        if std::mem::replace(&mut out.closed, true) {
            return Ok(());
        }
        // An answer that only repeats the beginning of what was there is an answer all the same.
        if out.before.take().is_some() && !out.sent && !out.swallowed.is_empty() && out.calls.is_empty() {
            let text = std::mem::take(&mut out.swallowed);
            let event = TurnEvent::Text(TextDelta { index: out.place, text });
            out.place += 1;
            self.0.reply.push_now(event)?;
        }
        if self.0.reply.is_empty() {
            self.0.reply.push_now(TurnEvent::Started(TurnStarted::default()))?;
        }
        let calls = std::mem::take(&mut out.calls);
        let handed_out = !calls.is_empty();
        for mut call in calls {
            call.index = out.place;
            out.place += 1;
            self.0.reply.push_now(TurnEvent::Call(call))?;
        }
        if usage != Usage::default() {
            self.0.reply.push_now(TurnEvent::Usage(usage))?;
        }
        let finished = match out.finished.take() {
            Some(finished) if whole && !handed_out => finished,
            last => {
                let stop = match last.map(|finished| finished.stop) {
                    _ if handed_out => StopReason::ToolCalls,
                    Some(stop @ (StopReason::MaxTokens | StopReason::ContentFilter | StopReason::Refusal)) => stop,
                    _ => StopReason::End,
                };
                TurnFinished::new(stop)
            }
        };
        self.0.reply.push_now(TurnEvent::Finished(finished))
    }
}

impl Out {
    /// What of a piece of text is to be sent.
    fn say(&mut self, message: &mut LiveMessage, text: String) -> Option<String> {
        let text = if !message.begun && !self.said.is_empty() { [BETWEEN, &text].concat() } else { text };
        message.begun = true;
        self.said.push_str(&text);
        let Some(before) = self.before.take() else { return Some(text) };
        if let Some(rest) = before.strip_prefix(&text) {
            self.swallowed.push_str(&text);
            self.before = Some(rest.to_owned());
            return None;
        }
        let fresh = match text.strip_prefix(&before) {
            Some(fresh) => fresh.trim_start_matches('\n').to_owned(),
            // It is another answer than before, so it is told from its beginning.
            None => [self.swallowed.as_str(), &text].concat(),
        };
        (!fresh.is_empty()).then_some(fresh)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    async fn answer(before: &str, messages: &[&str]) -> String {
        let outlet = Outlet::new(CancellationToken::new(), before.to_owned());
        for message in messages {
            outlet.message(message).await.unwrap();
        }
        outlet.finish(Usage::default(), false).await.unwrap();
        outlet.reply().text_so_far()
    }

    #[tokio::test]
    async fn messages_are_told_apart_by_a_blank_line() {
        assert_eq!(answer("", &["one", "two"]).await, "one\n\ntwo");
    }

    #[tokio::test]
    async fn what_the_client_has_from_before_is_not_said_again() {
        assert_eq!(answer("Let me look.", &["Let me look.", "It is 5."]).await, "It is 5.");
        assert_eq!(answer("Let me look.", &["Let me look.\n\nIt is 5."]).await, "It is 5.");
        assert_eq!(answer("Let me look.", &["Let me say: 5."]).await, "Let me say: 5.");
        assert_eq!(answer("Let me look.", &["Let me"]).await, "Let me");
        assert_eq!(answer("a\n\nb", &["a", "b", "c"]).await, "c");
    }
}
