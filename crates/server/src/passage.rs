//! An answer that is handed on as it comes.

use crate::account::Account;
use crate::body::Broken;
use crate::metrics::Outcome;
use crate::refusal::Refusal;
use crate::routing::Upstream;
use crate::telling;
use bytes::Bytes;
use http_body::{Body as _, SizeHint};
use placet_core::{Diagnose as _, ErrorKind};
use placet_wire::passing::{Passage, Watch, Whole, with_clean_errors};
use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A provider's body on its way to a client.
pub(crate) struct Passing {
    body: placet_net::Body,
    watch: Watch,
    account: Account,
    /// Whose events they are, where it is a stream of events.
    upstream: Option<Arc<Upstream>>,
    is_events: bool,
    /// Keeps its events whole that may tell of an error.
    whole: Whole,
    /// Whether the length stays what the provider said.
    keeps_length: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The error of its protocol has been told; it goes out before the connection is broken off.
    Told,
    /// The connection is to be broken off, as the provider's was: there are clients that read only that.
    Breaking,
    Done,
}

impl Passing {
    /// `upstream`: the body is a stream of its events. `keeps_length`: nothing of it is taken out.
    pub(crate) fn new(
        body: placet_net::Body,
        watch: Watch,
        account: Account,
        upstream: Option<Arc<Upstream>>,
        keeps_length: bool,
    ) -> Self {
        let is_events = upstream.is_some();
        let whole = Whole::default();
        Passing { body, watch, account, upstream, is_events, whole, keeps_length, state: State::Open }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        if self.keeps_length && !self.is_events { self.body.size_hint() } else { SizeHint::new() }
    }

    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        match self.state {
            State::Open => {}
            State::Told => {
                self.state = State::Breaking;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            State::Breaking => {
                self.state = State::Done;
                return Poll::Ready(Some(Err(Broken)));
            }
            State::Done => return Poll::Ready(None),
        }
        if self.account.gateway.is_cut() {
            return Poll::Ready(self.over(Some(&ErrorKind::Unavailable)));
        }
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Ok(piece) = frame.into_data() else { continue };
                    self.account.begins();
                    let piece = self.watch.pass(piece);
                    // A length that was declared has come: nobody asks for more.
                    if !self.is_events && self.body.is_end_stream() {
                        self.end(Passage::Whole);
                    }
                    let piece = if self.is_events { self.whole.pass(piece) } else { piece };
                    if piece.is_empty() {
                        // What is held waits for the rest of its event; a body has ended with its length.
                        if self.state == State::Done {
                            return Poll::Ready(None);
                        }
                        continue;
                    }
                    return Poll::Ready(Some(Ok(self.without_addresses(piece))));
                }
                Some(Err(error)) => return Poll::Ready(self.over(Some(&error.kind()))),
                None => return Poll::Ready(self.over(None)),
            }
        }
    }

    /// Nothing more comes: gives what was held back, or how the answer broke off. `why`: it was no end of the provider's.
    fn over(&mut self, why: Option<&ErrorKind>) -> Option<Result<Bytes, Broken>> {
        let (held, passage) = self.watch.end();
        let is_whole = if self.is_events { passage != Passage::Cut } else { why.is_none() };
        if !is_whole {
            return Some(self.broke(why.unwrap_or(&ErrorKind::Interrupted)));
        }
        // A connection that breaks after the answer was whole takes nothing with it.
        let last = self.whole.pass(held);
        let last = [last, self.whole.end()].concat();
        self.end(passage);
        (!last.is_empty()).then(|| Ok(self.without_addresses(last.into())))
    }

    /// What a provider tells of an error within a stream, without a credential or an address in it.
    fn without_addresses(&self, piece: Bytes) -> Bytes {
        let Some(upstream) = &self.upstream else { return piece };
        let clean = |data: &[u8]| {
            let clean = upstream.redactor.redact_bytes(data);
            let masked = telling::masked_body(&clean, upstream.hidden.as_deref());
            masked.or(if let Cow::Owned(clean) = clean { Some(clean) } else { None })
        };
        with_clean_errors(&piece, &clean).unwrap_or(piece)
    }

    fn end(&mut self, passage: Passage) {
        if self.state != State::Open {
            return;
        }
        self.state = State::Done;
        if !self.is_events {
            let _ = self.watch.end();
        }
        let outcome = match passage {
            Passage::Whole => Outcome::Whole,
            Passage::Failed => Outcome::Failed,
            Passage::Cut => Outcome::Cut,
        };
        self.account.close(outcome, self.watch.usage());
    }

    /// The answer broke off: the connection is closed, after the error of its protocol in a stream of events. Of an event whose
    /// end has not come nothing is told that has not gone on already.
    fn broke(&mut self, kind: &ErrorKind) -> Result<Bytes, Broken> {
        self.end(Passage::Cut);
        if !self.is_events {
            return Err(Broken);
        }
        self.state = State::Told;
        let (status, what) = match kind {
            ErrorKind::Unavailable => (503, crate::gateway::STOPPING),
            ErrorKind::Timeout => (504, "the provider fell silent before its answer was whole"),
            _ => (502, "the connection to the provider broke before its answer was whole"),
        };
        let mut last = if self.whole.is_within() { b"\n\n".to_vec() } else { Vec::new() };
        let refusal = Refusal::new(status, kind.clone(), what);
        refusal.break_off(&self.watch, self.account.speech, self.account.id.as_str(), &mut last);
        Ok(last.into())
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if self.state == State::Open {
            let (_, passage) = self.watch.end();
            // A client may close as soon as it has read the end, and before we have.
            let outcome = match passage {
                Passage::Whole if self.is_events || self.body.is_end_stream() => Outcome::Whole,
                Passage::Failed => Outcome::Failed,
                _ => Outcome::Cancelled,
            };
            self.account.close(outcome, self.watch.usage());
        }
    }
}
