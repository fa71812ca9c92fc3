//! `echo`: answers with what the user said last. For trying pipes, streams and clients.

use crate::provider::{AskContext, ModelListing, ModelProvider, TurnStream};
use async_trait::async_trait;
use placet_core::turn::{TextDelta, TurnFinished, TurnStarted};
use placet_core::{ItemBody, Part, ProviderError, ProviderId, Role, StopReason, TurnEvent, TurnRequest};
use std::sync::Arc;

/// The provider `echo`. It has no usage, because it counts no tokens.
#[derive(Debug)]
pub struct EchoModel {
    id: ProviderId,
}

impl Default for EchoModel {
    fn default() -> Self {
        EchoModel { id: ProviderId::new("echo") }
    }
}

#[async_trait]
impl ModelProvider for EchoModel {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    async fn ask(&self, request: Arc<TurnRequest>, _context: AskContext) -> Result<TurnStream, ProviderError> {
        let mut events = vec![TurnEvent::Started(TurnStarted { model: Some("echo".into()), response_id: None })];
        events.extend(pieces(&said_last(&request)).map(|text| TurnEvent::Text(TextDelta { index: 0, text })));
        events.push(TurnEvent::Finished(TurnFinished::new(StopReason::End)));
        Ok(Box::pin(futures_util::stream::iter(events)))
    }

    async fn models(&self, _context: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        Ok(vec![ModelListing { id: "echo".into(), description: Some("answers with what the user said last".into()) }])
    }
}

/// What the user said last; what is no text is named in brackets.
fn said_last(request: &TurnRequest) -> String {
    let message = request.items.iter().rev().find_map(|item| match &item.body {
        ItemBody::Message(message) if message.role == Role::User => Some(message),
        _ => None,
    });
    let parts = message.map(|message| message.parts.as_slice()).unwrap_or_default();
    parts.iter().map(|part| part.as_text().map_or_else(|| format!("[{}]", Part::kind(part)), str::to_owned)).collect()
}

/// A text in pieces of one word each, so that what streams can be seen to.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = String> {
    text.split_inclusive(' ').map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use futures_util::StreamExt;
    use placet_core::{Accumulator, Env, Item};

    #[tokio::test]
    async fn the_last_words_of_the_user_come_back_in_pieces() {
        let env = Env::system();
        let item = |text: &str| Arc::new(Item::user(env.new_id(), text));
        let request = TurnRequest { items: vec![item("before"), item("one two  three")], ..TurnRequest::default() };
        let echo = EchoModel::default();
        let events: Vec<TurnEvent> =
            echo.ask(Arc::new(request), AskContext::new(env.clone())).await.unwrap().collect().await;
        let texts = events.iter().filter(|event| matches!(event, TurnEvent::Text(_))).count();
        let mut accumulator = Accumulator::new();
        events.iter().for_each(|event| accumulator.push(event));
        let turn = accumulator.finish(echo.id(), &env).unwrap();
        assert_eq!((turn.text().as_str(), texts, turn.usage), ("one two  three", 4, None));
    }
}
