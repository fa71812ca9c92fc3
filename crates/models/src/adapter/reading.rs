//! An answer as it comes in.

use super::failure::{from_net, redact};
use super::protocol::Decoder;
use futures_util::{Stream, StreamExt};
use placet_core::{Env, ProviderId, Redactor, TurnEvent};
use placet_net::Body;
use placet_wire::openai_chat::decode_page;
use std::collections::VecDeque;
use std::time::Duration;

/// How long the end of a body is waited for after the answer has ended.
const GRACE: Duration = Duration::from_millis(100);

/// A body on its way to being events.
pub(super) struct Reading {
    pub(super) env: Env,
    pub(super) body: Option<Body>,
    pub(super) decoder: Decoder,
    /// Whether anything but spaces has come.
    pub(super) has_begun: bool,
    pub(super) ready: VecDeque<TurnEvent>,
    pub(super) redactor: Redactor,
    pub(super) provider: ProviderId,
    pub(super) request_id: Option<String>,
}

impl Reading {
    pub(super) async fn next(&mut self) -> Option<TurnEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.decoder.is_done() {
                self.give_back().await;
            }
            let piece = match &mut self.body {
                Some(body) => body.next().await,
                None => return None,
            };
            let mut events = Vec::new();
            match piece {
                Some(Ok(bytes)) if self.begins_a_page(&bytes) => {
                    self.body = None;
                    events.push(TurnEvent::Failed(Box::new(decode_page(&self.provider, &bytes))));
                }
                Some(Ok(bytes)) => self.decoder.push(&bytes, &mut events),
                Some(Err(error)) if !self.decoder.is_whole() => {
                    self.body = None;
                    events.push(TurnEvent::Failed(Box::new(from_net(&self.provider, &error))));
                }
                // A connection that breaks after the answer is whole took nothing with it.
                Some(Err(_)) | None => {
                    self.body = None;
                    self.decoder.end(&mut events);
                }
            }
            for mut event in events {
                name_request(&mut event, self.request_id.as_deref());
                if let TurnEvent::Failed(error) = &mut event {
                    **error = redact((**error).clone(), &self.redactor);
                }
                self.ready.push_back(event);
            }
        }
    }

    /// Whether an answer begins with these bytes that is a web page, whatever its headers say: no event begins with `<`.
    fn begins_a_page(&mut self, bytes: &[u8]) -> bool {
        let first = bytes.trim_ascii_start().first().filter(|_| !self.has_begun);
        self.has_begun |= first.is_some();
        first == Some(&b'<')
    }

    /// Reads the end of the body, which usually is here already, so that the connection can serve the next request. A server
    /// that does not end its body loses the connection instead.
    async fn give_back(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        let rest = async { while let Some(Ok(_)) = body.next().await {} };
        tokio::select! {
            () = rest => {}
            () = self.env.sleep(GRACE) => {}
        }
    }

    pub(super) fn stream(self) -> impl Stream<Item = TurnEvent> + Send {
        futures_util::stream::unfold(
            self,
            |mut reading| async move { reading.next().await.map(|event| (event, reading)) },
        )
    }
}

/// Puts the id of the request where the answer names none of its own.
pub(super) fn name_request(event: &mut TurnEvent, request_id: Option<&str>) {
    let place = match event {
        TurnEvent::Started(started) => &mut started.response_id,
        TurnEvent::Failed(error) => &mut error.request_id,
        _ => return,
    };
    if let (None, Some(id)) = (&place, request_id) {
        *place = Some(id.to_owned());
    }
}
