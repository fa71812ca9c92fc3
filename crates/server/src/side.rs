//! What is asked beside turns: counts of tokens, embeddings, kept answers.

use crate::account::Account;
use crate::body::Body;
use crate::endpoint::Endpoint;
use crate::gateway::{Gateway, Heading, PROVIDER, ROUTE, Snapshot};
use crate::headers::{answer_headers, request_headers};
use crate::metrics::Outcome;
use crate::passage::Passing;
use crate::principal::Principal;
use crate::refusal::Refusal;
use crate::routing::{Asked, Route, Target, Upstream};
use crate::speech::nobody;
use crate::turn::{Missed, cut, escaped, named_model, passed_query};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response};
use placet_core::{ErrorKind, Usage};
use placet_models::{AskContext, SharedProvider};
use placet_net::Request as Sent;
use placet_wire::passing::{Outline, Speech, Watch, splice};
use placet_wire::{anthropic_messages, gemini, openai_chat, openai_responses};
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

const ESTIMATED: HeaderName = HeaderName::from_static("x-placet-estimated");

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
        let route = self.permitted(&snapshot, &principal, &model).inspect_err(|_| heading.model = Some(cut(&model)))?;
        let found = route.targets.iter().enumerate().find_map(|(index, target)| match &target.asked {
            Asked::Upstream(upstream) if upstream.speaks(speech) => Some((index, target, upstream.clone())),
            _ => None,
        });
        let Some((index, target, upstream)) = found else {
            let mut account = self.account(heading, principal, route.clone(), &model, place, body.len())?;
            account.speech = speech;
            return Ok(self.translated_side(endpoint, &route, &model, body, account).await);
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
        let sent = self.send_to(&upstream, speech, Method::POST, &path, headers, body).await;
        let mut answer = match sent {
            Ok(response) => {
                account.status = response.status.as_u16();
                let head = answer_headers(response.headers, false);
                let passing = Passing::new(response.body, Watch::body(speech), account, None, true);
                let mut answer = Response::new(Body::passing(passing));
                *answer.status_mut() = response.status;
                *answer.headers_mut() = head;
                answer
            }
            Err(missed) => {
                account.missed(&missed);
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

    pub(crate) async fn send_to(
        &self,
        upstream: &Upstream,
        speech: Speech,
        method: Method,
        path: &str,
        mut headers: http::HeaderMap,
        body: Bytes,
    ) -> Result<placet_net::Response, Missed> {
        let url = upstream.base_url.join(path).map_err(|error| Missed::net(upstream, &error))?;
        for (name, value) in upstream.headers(speech) {
            headers.insert(name.clone(), value.clone());
        }
        if speech == Speech::AnthropicMessages && !headers.contains_key("anthropic-version") {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        let mut request = Sent::new(method, url);
        request.body = body;
        request.headers = headers;
        request.timeouts = Some(upstream.timeouts);
        let sent = self.client.send_until_dropped(request).await;
        let response = sent.map_err(|error| Missed::net(upstream, &error))?;
        if response.status.is_success() { Ok(response) } else { Err(self.refused(upstream, response).await) }
    }

    /// A request for a provider that speaks another protocol, or none: decoded, asked, and answered as the client speaks.
    async fn translated_side(
        self: &Arc<Self>,
        endpoint: &Endpoint<'_>,
        route: &Arc<Route>,
        model: &str,
        body: Bytes,
        mut account: Account,
    ) -> Response<Body> {
        let asker = route.targets.iter().enumerate().find_map(|(index, target)| {
            let provider = target.asked.provider()?;
            Some((index, target, provider))
        });
        if let Some((index, _, _)) = &asker {
            account.target = *index;
        }
        let asker =
            asker.map(|(_, target, provider)| Asker { model: &target.model, provider, hidden: target.asked.hidden() });
        let (speech, id) = (account.speech, account.id);
        let answered = match endpoint {
            Endpoint::Embeddings | Endpoint::GeminiEmbed { .. } => self.embed(endpoint, asker, model, &body).await,
            _ => self.count(speech, asker, body).await,
        };
        let mut response = match answered {
            Ok((response, usage)) => {
                if response.headers().contains_key(ESTIMATED) {
                    // Nobody was asked.
                    account.target = usize::MAX;
                }
                account.status = 200;
                account.close(Outcome::Whole, usage);
                response
            }
            Err(missed) => {
                account.missed(&missed);
                missed.refusal.into_response(speech, id.as_str())
            }
        };
        response.headers_mut().insert(ROUTE, route.header.clone());
        if let Some(target) = route.targets.get(account.target) {
            response.headers_mut().insert(PROVIDER, target.provider_header.clone());
        }
        response
    }

    async fn embed(
        &self,
        endpoint: &Endpoint<'_>,
        asker: Option<Asker<'_>>,
        name: &str,
        body: &[u8],
    ) -> Result<(Response<Body>, Option<Usage>), Missed> {
        let none = || {
            let message = format!("the provider of `{name}` makes no embeddings");
            Missed::refused(Refusal::new(400, ErrorKind::Unsupported, message))
        };
        let Asker { model, provider, hidden } = asker.ok_or_else(none)?;
        let wrong = |error: placet_wire::RequestError| Missed::refused(error.into());
        let (mut request, form) = match endpoint {
            Endpoint::GeminiEmbed { action, .. } => {
                let request = gemini::decode_embedding_request(body).map_err(wrong)?;
                (request, Form::Gemini { is_batch: *action == "batchEmbedContents" })
            }
            _ => {
                let decoded = openai_chat::decode_embedding_request(body).map_err(wrong)?;
                (decoded.request, Form::Openai { base64: decoded.base64 })
            }
        };
        model.clone_into(&mut request.model);
        // Fields of one protocol mean nothing in another.
        request.extra.clear();
        let made = provider.embed(request, AskContext::new(self.env.clone())).await;
        let made = made.map_err(|error| Missed::provider(&error, hidden))?;
        let value = match form {
            Form::Gemini { is_batch } => gemini::encode_embeddings(&made, is_batch),
            Form::Openai { base64 } => openai_chat::encode_embeddings(&made, name, base64),
        };
        Ok((crate::gateway::json(&value), made.usage))
    }

    /// As many tokens as the provider counts; where it has no way to count, an estimate, and marked as one.
    async fn count(
        &self,
        speech: Speech,
        asker: Option<Asker<'_>>,
        body: Bytes,
    ) -> Result<(Response<Body>, Option<Usage>), Missed> {
        let mut counted = None;
        if let Some(Asker { model, provider, hidden }) = asker {
            let decoded = speech.decode_request(&body, &nobody(), &self.env);
            let mut request = decoded.map_err(|error| Missed::refused(error.into()))?.request;
            model.clone_into(&mut request.model);
            counted = match provider.count_tokens(Arc::new(request), AskContext::new(self.env.clone())).await {
                Ok(tokens) => Some(tokens),
                Err(error) if error.kind == ErrorKind::Unsupported => None,
                Err(error) => return Err(Missed::provider(&error, hidden)),
            };
        }
        let tokens = counted.unwrap_or_else(|| estimate(&body));
        let value = match speech {
            Speech::AnthropicMessages => anthropic_messages::encode_count(tokens),
            Speech::Gemini => gemini::encode_count(tokens),
            _ => openai_responses::encode_count(tokens),
        };
        let mut response = crate::gateway::json(&value);
        if counted.is_none() {
            response.headers_mut().insert(ESTIMATED, HeaderValue::from_static("input_tokens"));
        }
        Ok((response, None))
    }
}

/// Who is asked in a translation.
struct Asker<'t> {
    model: &'t str,
    provider: SharedProvider,
    hidden: Option<&'t str>,
}

/// How a client reads vectors.
enum Form {
    Openai { base64: bool },
    Gemini { is_batch: bool },
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
