//! The frame of a reader of answers: what is the same in every protocol.

use crate::failure::{RAW_BYTES, cut};
use crate::surrogates;
use placet_core::{ErrorKind, ProviderError, ProviderId, TurnEvent};
use serde_json::Value;

/// What an answer of one protocol becomes, event by event.
pub(crate) trait Reading {
    /// What to do where an answer is not JSON.
    const NOT_JSON: &'static str;

    /// Whose answer it is.
    fn provider(&self) -> &ProviderId;

    /// Whether anything of the answer has come.
    fn is_started(&self) -> bool;

    /// Takes the data of one event, which is not blank, and its name where the stream gave one.
    ///
    /// # Errors
    /// Where the data is not JSON.
    fn data(&mut self, name: Option<&str>, data: &str, out: &mut Vec<TurnEvent>) -> Result<(), serde_json::Error>;

    /// Takes the mark that some servers end a stream with.
    fn mark(&mut self, _out: &mut Vec<TurnEvent>) {}

    /// The stream has ended: appends what follows from that.
    fn end(&mut self, out: &mut Vec<TurnEvent>);

    /// Whether the answer is whole even if the connection breaks now.
    fn is_whole(&self) -> bool;

    /// Whether nothing more will be given.
    fn is_done(&self) -> bool;

    /// From now on nothing more is given.
    fn set_done(&mut self);

    /// Takes one event. The last one may be cut. One that ends with half a letter waits for the next.
    fn event(
        &mut self,
        waiting: &mut Waiting,
        name: Option<&str>,
        data: &str,
        is_last: bool,
        out: &mut Vec<TurnEvent>,
    ) {
        let data = data.trim();
        if self.is_done() || data.is_empty() {
            return;
        }
        if let Some((earlier, first)) = waiting.0.take() {
            let (first, second) = surrogates::joined(&first, data);
            self.event_of_halves(earlier.as_deref(), &first, out);
            return self.event(waiting, name, &second, is_last, out);
        }
        if data == "[DONE]" {
            return self.mark(out);
        }
        match self.data(name, data, out) {
            Err(_) if !is_last && surrogates::is_open(data) => {
                waiting.0 = Some((name.map(str::to_owned), data.to_owned()));
            }
            Err(_) if surrogates::repaired(data).is_some() => self.event_of_halves(name, data, out),
            // The stream broke off within this event, which the end of the answer will tell.
            Err(error) if !is_last => {
                let failure = not_json(self.provider(), Self::NOT_JSON, &error, data);
                self.fail_with(failure, out);
            }
            _ => {}
        }
    }

    /// Takes an event that may hold halves of letters, to which nothing more will come.
    fn event_of_halves(&mut self, name: Option<&str>, data: &str, out: &mut Vec<TurnEvent>) {
        let repaired = surrogates::repaired(data);
        if let Err(error) = self.data(name, repaired.as_deref().unwrap_or(data), out) {
            let failure = not_json(self.provider(), Self::NOT_JSON, &error, data);
            self.fail_with(failure, out);
        }
    }

    /// No more events come: takes what still waits.
    fn settle(&mut self, waiting: &mut Waiting, out: &mut Vec<TurnEvent>) {
        if let Some((name, data)) = waiting.0.take().filter(|_| !self.is_done()) {
            self.event_of_halves(name.as_deref(), &data, out);
        }
    }

    /// Ends the answer with an error, unless it has ended.
    fn fail_with(&mut self, error: ProviderError, out: &mut Vec<TurnEvent>) {
        if !self.is_done() {
            self.set_done();
            out.push(TurnEvent::Failed(Box::new(error)));
        }
    }

    /// As [`Reading::fail_with`], in these words.
    fn fail(&mut self, kind: ErrorKind, message: String, out: &mut Vec<TurnEvent>) {
        let error = ProviderError::new(kind, self.provider().clone(), message);
        self.fail_with(error, out);
    }

    /// Ends an answer that did not come to its end.
    fn broke_off(&mut self, out: &mut Vec<TurnEvent>) {
        let said = if self.is_started() { "the answer ended before its end marker" } else { "the answer is empty" };
        self.fail(ErrorKind::Interrupted, format!("{said}; what arrived is partial"), out);
    }
}

/// An event whose last letter may not be whole: its name and data.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Option<(Option<String>, String)>);

/// An answer as JSON; `hint` says what to do where it is none.
pub(crate) fn read_json(provider: &ProviderId, hint: &str, body: &[u8]) -> Result<Value, ProviderError> {
    serde_json::from_slice(body).or_else(|error| {
        let text = String::from_utf8_lossy(body);
        let repaired = surrogates::repaired(&text).and_then(|text| serde_json::from_str(&text).ok());
        repaired.ok_or_else(|| not_json(provider, hint, &error, &text))
    })
}

/// The error for an answer that is not JSON.
pub(crate) fn not_json(provider: &ProviderId, hint: &str, error: &serde_json::Error, text: &str) -> ProviderError {
    let problem = format!("the answer is not JSON ({error})");
    let mut failure = ProviderError::new(ErrorKind::Protocol, provider.clone(), problem).with_hint(hint);
    failure.raw = Some(cut(text, RAW_BYTES));
    failure
}

/// The public reader around a [`Reading`].
macro_rules! event_decoder {
    ($(#[$doc:meta])* $answer:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct EventDecoder {
            sse: $crate::sse::SseDecoder,
            waiting: $crate::reading::Waiting,
            answer: $answer,
        }

        impl EventDecoder {
            fn of(answer: $answer) -> Self {
                let (sse, waiting) = ($crate::sse::SseDecoder::new(), $crate::reading::Waiting::default());
                EventDecoder { sse, waiting, answer }
            }

            /// Takes the next bytes and appends what they mean to `out`.
            pub fn push(&mut self, bytes: &[u8], out: &mut Vec<placet_core::TurnEvent>) {
                use $crate::reading::Reading;
                let (answer, waiting) = (&mut self.answer, &mut self.waiting);
                let fed = self.sse.feed(bytes, &mut |name, data| answer.event(waiting, name, data, false, out));
                if let Err(error) = fed {
                    Reading::fail(answer, placet_core::ErrorKind::LimitReached, error.to_string(), out);
                }
            }

            /// The stream has ended, well or not: appends what follows from that.
            pub fn end(&mut self, out: &mut Vec<placet_core::TurnEvent>) {
                use $crate::reading::Reading;
                let (answer, waiting) = (&mut self.answer, &mut self.waiting);
                self.sse.feed_end(&mut |name, data| answer.event(waiting, name, data, true, out));
                answer.settle(waiting, out);
                Reading::end(answer, out);
            }

            /// Whether the answer is whole, even if the connection breaks now.
            #[must_use]
            pub fn is_whole(&self) -> bool {
                $crate::reading::Reading::is_whole(&self.answer)
            }

            /// Whether nothing more will be given.
            #[must_use]
            pub fn is_done(&self) -> bool {
                $crate::reading::Reading::is_done(&self.answer)
            }
        }
    };
}
pub(crate) use event_decoder;
