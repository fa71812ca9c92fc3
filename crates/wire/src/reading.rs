//! The frame of a reader of streamed answers: what is the same in every protocol that streams server-sent events.

use placet_core::{ErrorKind, TurnEvent};

/// What an answer of one protocol becomes, event by event.
pub(crate) trait Reading {
    /// Takes the data of one event, and its name where the stream gave one. The last event may be cut.
    fn event(&mut self, name: Option<&str>, data: &str, is_last: bool, out: &mut Vec<TurnEvent>);

    /// Ends the answer with an error, unless it has ended.
    fn fail(&mut self, kind: ErrorKind, message: String, out: &mut Vec<TurnEvent>);

    /// The stream has ended: appends what follows from that.
    fn end(&mut self, out: &mut Vec<TurnEvent>);

    /// Whether the answer is whole even if the connection breaks now.
    fn is_whole(&self) -> bool;

    /// Whether nothing more will be given.
    fn is_done(&self) -> bool;
}

/// The public reader around a [`Reading`].
macro_rules! event_decoder {
    ($(#[$doc:meta])* $answer:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct EventDecoder {
            sse: $crate::sse::SseDecoder,
            answer: $answer,
        }

        impl EventDecoder {
            fn of(answer: $answer) -> Self {
                EventDecoder { sse: $crate::sse::SseDecoder::new(), answer }
            }

            /// Takes the next bytes and appends what they mean to `out`.
            pub fn push(&mut self, bytes: &[u8], out: &mut Vec<placet_core::TurnEvent>) {
                use $crate::reading::Reading;
                let answer = &mut self.answer;
                let fed = self.sse.feed(bytes, &mut |name, data| answer.event(name, data, false, out));
                if let Err(error) = fed {
                    Reading::fail(answer, placet_core::ErrorKind::LimitReached, error.to_string(), out);
                }
            }

            /// The stream has ended, well or not: appends what follows from that.
            pub fn end(&mut self, out: &mut Vec<placet_core::TurnEvent>) {
                use $crate::reading::Reading;
                let answer = &mut self.answer;
                self.sse.feed_end(&mut |name, data| answer.event(name, data, true, out));
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
