//! What is asked beside turns: counts of tokens, embeddings, kept answers.

use crate::body::Body;
use crate::endpoint::Endpoint;
use crate::gateway::{Gateway, Heading, PROVIDER, ROUTE, Snapshot};
use crate::headers::{answer_headers, request_headers};
use crate::metrics::Outcome;
use crate::passage::Passing;
use crate::principal::Principal;
use crate::refusal::Refusal;
use crate::routing::{Asked, Target, Upstream};
use crate::turn::{Missed, escaped, named_model, passed_query};
use bytes::Bytes;
use http::{HeaderValue, Response};
use placet_core::ErrorKind;
use placet_net::Request as Sent;
use placet_wire::passing::{Outline, Speech, Watch, splice};
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

impl Gateway {
    /// A request that is handed on to a server that knows it, and to no other.
    pub(crate) async fn side_request(
        self: &Arc<Self>,
        snapshot: Arc<Snapshot>,
        heading: &mut Heading,
        endpoint: &Endpoint<'_>,
        principal: Arc<Principal>,
        place: OwnedSemaphorePermit,
        body: Bytes,
    ) -> Result<Response<Body>, Refusal> {
        let outline = Outline::read(&body)?;
        let (model, speech) = match endpoint {
            Endpoint::GeminiCount { model } | Endpoint::GeminiEmbed { model, .. } => {
                (placet_net::percent_decoded(model), Speech::Gemini)
            }
            Endpoint::CountTokens => (named_model(&outline, &body)?, Speech::AnthropicMessages),
            Endpoint::InputTokens => (named_model(&outline, &body)?, Speech::OpenaiResponses),
            _ => (named_model(&outline, &body)?, Speech::OpenaiChat),
        };
        let route = self.permitted(&snapshot, &principal, &model)?;
        let found = route.targets.iter().enumerate().find_map(|(index, target)| match &target.asked {
            Asked::Upstream(upstream) if upstream.speaks(speech) => Some((index, target, upstream.clone())),
            _ => None,
        });
        let Some((index, target, upstream)) = found else {
            return self.count_ourselves(endpoint, &model, &body);
        };
        let mut account = self.account(heading, principal, route.clone(), &model, place, body.len())?;
        account.target = index;
        account.speech = speech;
        let path = side_path(endpoint, target, passed_query(heading.path_and_query.query()).as_deref());
        let body = match outline.model.clone().filter(|_| speech != Speech::Gemini) {
            Some(range) => splice(&body, &[(range, Cow::Borrowed(&target.model_json))]),
            None => body,
        };
        let headers = request_headers(std::mem::take(&mut heading.headers), &account);
        let sent = self.send_to(&upstream, speech, &path, headers, body).await;
        let mut answer = match sent {
            Ok(response) => {
                account.status = response.status.as_u16();
                let head = answer_headers(response.headers, false);
                let passing = Passing::new(response.body, Watch::body(speech), account, false, true);
                let mut answer = Response::new(Body::passing(passing));
                *answer.status_mut() = response.status;
                *answer.headers_mut() = head;
                answer
            }
            Err(missed) => {
                account.status = missed.refusal.status;
                account.close(Outcome::Failed, None);
                match missed.response {
                    Some(response) => *response,
                    None => missed.refusal.into_response(heading.speech, heading.id.as_str()),
                }
            }
        };
        answer.headers_mut().insert(ROUTE, route.header.clone());
        answer.headers_mut().insert(PROVIDER, target.provider_header.clone());
        Ok(answer)
    }

    async fn send_to(
        &self,
        upstream: &Upstream,
        speech: Speech,
        path: &str,
        mut headers: http::HeaderMap,
        body: Bytes,
    ) -> Result<placet_net::Response, Missed> {
        let url = upstream.base_url.join(path).map_err(|error| Missed::net(&error))?;
        for (name, value) in &upstream.headers {
            headers.insert(name.clone(), value.clone());
        }
        if speech == Speech::AnthropicMessages && !headers.contains_key("anthropic-version") {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        let mut request = Sent::post(url, body);
        request.headers = headers;
        request.timeouts = Some(upstream.timeouts);
        let sent = self.client.send(request, &CancellationToken::new()).await;
        let response = sent.map_err(|error| Missed::net(&error))?;
        if response.status.is_success() { Ok(response) } else { Err(self.refused(upstream, speech, response).await) }
    }

    /// A count for a model whose provider has no way to count: an estimate, and marked as one.
    fn count_ourselves(&self, endpoint: &Endpoint<'_>, model: &str, body: &Bytes) -> Result<Response<Body>, Refusal> {
        let tokens = estimate(body);
        let value = match endpoint {
            Endpoint::CountTokens => serde_json::json!({"input_tokens": tokens}),
            Endpoint::InputTokens => serde_json::json!({"object": "response.input_tokens", "input_tokens": tokens}),
            Endpoint::GeminiCount { .. } => serde_json::json!({"totalTokens": tokens}),
            _ => {
                let message = format!("the provider of `{model}` makes no embeddings in this protocol");
                return Err(Refusal::new(400, ErrorKind::Unsupported, message));
            }
        };
        let mut response = crate::gateway::json(&value);
        response.headers_mut().insert("x-placet-estimated", HeaderValue::from_static("input_tokens"));
        Ok(response)
    }
}

/// About four letters of text make a token.
fn estimate(body: &[u8]) -> u64 {
    fn letters(value: &serde_json::Value) -> usize {
        match value {
            serde_json::Value::String(text) => text.chars().count(),
            serde_json::Value::Array(list) => list.iter().map(letters).sum(),
            serde_json::Value::Object(map) => map.iter().map(|(key, value)| key.len() / 2 + letters(value)).sum(),
            _ => 2,
        }
    }
    let counted = serde_json::from_slice(body).map_or(body.len(), |value| letters(&value));
    u64::try_from(counted.div_ceil(4)).unwrap_or(u64::MAX).max(1)
}

fn side_path(endpoint: &Endpoint<'_>, target: &Target, query: Option<&str>) -> String {
    let mut path = match endpoint {
        Endpoint::CountTokens => "messages/count_tokens".to_owned(),
        Endpoint::InputTokens => "responses/input_tokens".to_owned(),
        Endpoint::GeminiCount { .. } => format!("models/{}:countTokens", escaped(&target.model)),
        Endpoint::GeminiEmbed { action, .. } => format!("models/{}:{action}", escaped(&target.model)),
        _ => "embeddings".to_owned(),
    };
    if let Some(query) = query {
        path.push('?');
        path.push_str(query);
    }
    path
}
