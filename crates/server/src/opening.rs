//! How a streamed answer begins: one that begins with an error is none, and the next target may do better.

use crate::gateway::Gateway;
use crate::routing::Upstream;
use crate::turn::{HELD, Missed, has_type};
use futures_util::StreamExt as _;
use http::{HeaderMap, StatusCode};
use placet_core::{Env, ErrorKind, ProviderError, TurnEvent};
use placet_models::TurnStream;
use placet_net::NetError;
use placet_wire::passing::{Opening, Speech};
use std::time::Duration;

/// How long an answer is waited for that has only said that it will come.
const OPENING: Duration = Duration::from_secs(1);

impl Gateway {
    /// Waits for the beginning of a stream: one that begins with an error is a refusal, and nothing of it has been handed on. An
    /// answer that only says that it will come is not waited for long.
    pub(crate) async fn opened(
        &self,
        upstream: &Upstream,
        response: &mut placet_net::Response,
        speech: Speech,
    ) -> Result<(), Missed> {
        let unsent = |error: NetError| Missed::net(upstream, &error);
        let Some(first) = response.body.first().await.map_err(unsent)? else { return Ok(()) };
        if !has_type(&response.headers, b"text/event-stream") {
            return Ok(());
        }
        let mut beginning = first.to_vec();
        let mut patience = std::pin::pin!(self.env.sleep(OPENING));
        loop {
            match Opening::read(speech, &beginning) {
                Opening::Failed(told) => return Err(Missed::told(upstream, &response.headers, speech, &told)),
                Opening::Said => return Ok(()),
                Opening::Nothing if beginning.len() > HELD => return Ok(()),
                Opening::Nothing => {}
            }
            tokio::select! {
                biased;
                further = response.body.further() => match further.map_err(unsent)? {
                    Some(piece) => beginning.extend_from_slice(&piece),
                    None => return Ok(()),
                },
                () = &mut patience => return Ok(()),
            }
        }
    }
}

impl Missed {
    /// A stream began with an error. `told` is the data of its event.
    fn told(upstream: &Upstream, headers: &HeaderMap, speech: Speech, told: &[u8]) -> Self {
        let clean = upstream.redactor.redact_bytes(told);
        // The error of an answer that has failed stands within it.
        let within = serde_json::from_slice::<serde_json::Value>(&clean)
            .ok()
            .and_then(|mut event| event.pointer_mut("/response/error").map(serde_json::Value::take))
            .map(|error| error.to_string().into_bytes());
        let provider = placet_core::ProviderId::new(&*upstream.id);
        let said = within.as_deref().unwrap_or(&clean);
        let mut error = placet_wire::decode_error(&provider, StatusCode::OK.as_u16(), headers, said);
        error.status = error.status.filter(|status| *status >= 400);
        if speech == Speech::AnthropicMessages && error.kind == ErrorKind::Overloaded {
            error.status = Some(529);
        }
        Missed::provider(&error, upstream.hidden.as_deref())
    }
}

/// Waits for the beginning of an answer: one that begins with an error is none, and nothing of it has been told. An answer that
/// only says that it will come is not waited for long.
pub(crate) async fn opened(mut events: TurnStream, env: &Env) -> Result<TurnStream, ProviderError> {
    let mut begun = Vec::new();
    let mut patience = std::pin::pin!(env.sleep(OPENING));
    loop {
        let event = tokio::select! {
            biased;
            event = events.next() => event,
            () = &mut patience, if !begun.is_empty() => break,
        };
        match event {
            Some(TurnEvent::Failed(error)) => return Err(*error),
            Some(event @ (TurnEvent::Started(_) | TurnEvent::Usage(_))) => begun.push(event),
            Some(event) => {
                begun.push(event);
                break;
            }
            None => break,
        }
    }
    Ok(Box::pin(futures_util::stream::iter(begun).chain(events)))
}
