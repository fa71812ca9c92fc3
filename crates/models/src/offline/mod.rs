//! `offline`: a model without a key, a network or a language.
//!
//! It holds what the user said last against a fixed set of forms, and uses the tools that it is offered as any model does:
//! it asks, reads the answers and goes on. It knows tools by the shapes of their parameters alone, so a tool may be called
//! anything. It says plainly what it is, what it understands and what it would need; it never guesses a number, and it
//! tells where an answer was cut.
//!
//! Nothing is kept between turns: what to do next is read from the conversation, so that a run resumes where it was. What
//! tools answer is data: only the user's last message is held against the forms.
//!
//! It counts no tokens, so it reports no usage. Where the request limits the tokens of an answer, a token is a word of it.
//! A request that wants its answer in a shape (JSON) is refused as unsupported.
#![doc = ""]
#![doc = include_str!("tables.md")]
//!
//! # What it relies on in the answers of tools
//!
//! | a tool that | answers | which means |
//! |---|---|---|
//! | lists, finds, searches | one entry a line; `(no files found)`, `(empty directory)`, `(no matches)` where there is none | a last line such as `(3 of 10 files shown)` counts only where it says how many lines stand before it |
//! | searches | `path:line:text` | |
//! | reads | the text; where lines were left out a last line such as `(line 1 of 20 shown; …)`; `(empty file)`; `(x is binary, 9 bytes: not shown)` | one line is read to learn how many there are, so that what a file holds cannot pass for that last line |
//! | any | `[cut: the first 9 of 90 bytes are shown]` | lines beside it may be halves and are left out |
//!
//! The cut that an outcome reports stands above these texts. What a run may take is known only by its default of eight
//! rounds: one finds, seven measure, and where these do not suffice it says how many of how many files it measured.

mod desk;
mod grammar;
mod phrase;
mod plan;
mod results;
mod roles;

pub use grammar::{AFTER, BEFORE, GRAMMAR, KINDS, Row, SLOTS, Slot, Wish};
pub use roles::{Kind, Parameter, Role, SHAPES, Shape};

use crate::provider::{AskContext, ModelListing, ModelProvider, TurnStream};
use async_trait::async_trait;
use futures_util::StreamExt;
use placet_core::turn::{CallDelta, TextDelta, TurnFinished, TurnStarted};
use placet_core::{ErrorKind, ProviderError, ProviderId, StopReason, TurnEvent, TurnRequest};
use plan::Reply;
use serde_json::Value;
use std::sync::Arc;

/// The provider `offline` with its one model `offline`.
#[derive(Debug)]
pub struct Offline {
    id: ProviderId,
}

impl Default for Offline {
    fn default() -> Self {
        Offline { id: ProviderId::new("offline") }
    }
}

impl Offline {
    /// The provider.
    #[must_use]
    pub fn new() -> Self {
        Offline::default()
    }
}

#[async_trait]
impl ModelProvider for Offline {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    async fn ask(&self, request: Arc<TurnRequest>, context: AskContext) -> Result<TurnStream, ProviderError> {
        if request.output.is_some() {
            let message = "the model `offline` answers in sentences and cannot keep to a schema";
            return Err(ProviderError::new(ErrorKind::Unsupported, self.id.clone(), message)
                .with_hint("ask without an output format, or choose another model"));
        }
        let events = events(&request);
        let cancel = context.cancel;
        Ok(futures_util::stream::iter(events).take_while(move |_| std::future::ready(!cancel.is_cancelled())).boxed())
    }

    async fn models(&self, _context: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        let description = "no language model: understands a small set of phrases, and uses the tools it is offered";
        Ok(vec![ModelListing { id: "offline".into(), description: Some(description.into()) }])
    }
}

fn events(request: &TurnRequest) -> Vec<TurnEvent> {
    let mut events = vec![TurnEvent::Started(TurnStarted { model: Some("offline".into()), response_id: None })];
    let stop = match plan::next(request) {
        Reply::Say(text) => {
            let (text, stop) = limited(&text, request);
            events.extend(pieces(text).map(|text| TurnEvent::Text(TextDelta { index: 0, text })));
            stop
        }
        Reply::Ask(calls, before) => {
            for (place, call) in (0_u32..).zip(calls) {
                events.push(TurnEvent::Call(CallDelta {
                    index: place,
                    provider_id: Some(format!("call_{}", before + place as usize + 1)),
                    name: Some(call.tool.as_str().to_owned()),
                    arguments: Value::Object(call.arguments).to_string(),
                    native: None,
                }));
            }
            StopReason::ToolCalls
        }
    };
    events.push(TurnEvent::Finished(TurnFinished::new(stop)));
    events
}

/// The text as far as the request lets it go: to the first of its stop texts, and to its most words.
fn limited<'t>(text: &'t str, request: &TurnRequest) -> (&'t str, StopReason) {
    let controls = &request.controls;
    let stops = controls.stop.iter().filter(|stop| !stop.is_empty());
    let stopped = stops.filter_map(|stop| text.find(stop.as_str())).min();
    let words = controls.max_output_tokens.and_then(|most| usize::try_from(most).ok());
    let worded = words.and_then(|most| {
        text.split_inclusive(char::is_whitespace)
            .scan(0, |end, word| {
                *end += word.len();
                Some(*end)
            })
            .take(most)
            .last()
            .or(Some(0))
            .filter(|end| *end < text.len())
    });
    match (stopped, worded) {
        (Some(stopped), worded) if worded.is_none_or(|worded| stopped <= worded) => {
            (&text[..stopped], StopReason::StopSequence)
        }
        (_, Some(worded)) => (&text[..worded], StopReason::MaxTokens),
        _ => (text, StopReason::End),
    }
}

/// A text in pieces of a few words each, so that what streams can be seen to.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    const LEAST: usize = 24;
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest
            .char_indices()
            .find(|(at, c)| *at >= LEAST && c.is_whitespace())
            .map_or(rest.len(), |(at, c)| at + c.len_utf8());
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then(|| piece.to_owned())
    })
}

#[cfg(test)]
mod tests;
