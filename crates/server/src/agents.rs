//! Agents behind names of models: flows, served in the client's protocol.

use crate::account::Account;
use crate::body::Body;
use crate::gateway::{Gateway, Heading, OMITTED, PROVIDER, Snapshot};
use crate::metrics::Outcome;
use crate::principal::Principal as Caller;
use crate::refusal::{Refusal, status_of};
use crate::routing::Route;
use crate::speech::{decode_request, nobody};
use crate::telling;
use crate::translate::{answer_head, omitted_value};
use crate::turn::{Missed, TurnAsked};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use indexmap::IndexMap;
use placet_core::{ErrorKind, Redactor, RunId, Usage};
use placet_flows::{Exchange, FlowError, HookAnswer, Principal};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

const RUN_ID: HeaderName = HeaderName::from_static("x-run-id");

impl Gateway {
    /// Lets an agent answer.
    pub(crate) async fn ask_agent(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        route: &Arc<Route>,
        asked: TurnAsked,
        mut account: Account,
    ) -> Result<Response<Body>, Refusal> {
        let id = account.id;
        let key = account.principal.key.clone();
        let answered = self.agent_answer(snapshot, route, &asked, &key, &mut account).await;
        let (answer, head, keeping, run) = match answered {
            Ok(answered) => answered,
            Err(missed) => {
                account.missed(&missed);
                return Ok(missed.refusal.into_response(asked.speech, id.as_str()));
            }
        };
        let tab = answer.tab();
        let omitted = answer.omitted().join("; ");
        let events: placet_models::TurnStream = Box::pin(answer.events());
        drop(answer);
        let mut account = Some(account);
        let mut response = if asked.stream {
            let Some(account) = account.take() else { return Err(Missed::gone().refusal) };
            self.streamed(&asked, head, events, account, keeping, nobody())
        } else {
            match self.whole(asked.speech, &head, events, &mut account, keeping, &nobody()).await {
                Ok(response) => response,
                Err(missed) => {
                    if let Some(account) = &mut account {
                        account.missed(&missed);
                    }
                    missed.refusal.into_response(asked.speech, id.as_str())
                }
            }
        };
        let headers = response.headers_mut();
        headers.insert(crate::gateway::ROUTE, route.header.clone());
        if let Some((provider, _)) = tab.bill().answered
            && let Ok(value) = HeaderValue::try_from(provider.as_str())
        {
            headers.insert(PROVIDER, value);
        }
        if let Ok(value) = HeaderValue::try_from(run.as_str()) {
            headers.insert(RUN_ID, value);
        }
        if let Some(value) = omitted_value(&omitted) {
            headers.insert(OMITTED, value);
        }
        Ok(response)
    }

    /// Calls a webhook: what follows it answers as text, or is done behind the caller's back.
    pub(crate) async fn hook(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        heading: &mut Heading,
        id: &str,
        principal: Arc<Caller>,
        place: OwnedSemaphorePermit,
        body: &[u8],
    ) -> Result<Response<Body>, Refusal> {
        let payload = match body.trim_ascii() {
            [] => Value::Null,
            body => serde_json::from_slice(body).map_err(|error| {
                let message = format!("the body is no JSON: {error}");
                Refusal::new(400, ErrorKind::InvalidRequest, message)
            })?,
        };
        let mut metadata = metadata(&heading.headers);
        if crate::headers::trace(&heading.headers).is_none() {
            metadata.shift_remove(crate::headers::TRACEPARENT.as_str());
        }
        let found = self.flows.iter().chain(&snapshot.flows).find_map(|flows| Some((flows, flows.hooked(id)?)));
        // What a key may not ask for by a model's name it may not set off either.
        let Some((flows, flow)) = found.filter(|(_, flow)| principal.may_use(flow)) else {
            return Err(Refusal::not_found(format!(
                "there is no webhook {:?}",
                id.chars().take(64).collect::<String>()
            )));
        };
        let caller = Principal::new(&*principal.key);
        let route = snapshot.routing.unlisted(flow);
        let mut account = self.account(heading, principal, route, flow, place, body.len())?;
        account.is_hook = true;
        let rung = match flows.hook(id, caller, payload, metadata).await {
            Ok(HookAnswer::Answer(answer)) => {
                account.tab = Some(answer.tab());
                answer.collect().await.map(|turn| Some((turn, answer.run().clone(), answer.spent())))
            }
            Ok(HookAnswer::Accepted(job)) => {
                account.status = 202;
                account.close(Outcome::Whole, None);
                let mut response = crate::gateway::json(&serde_json::json!({"accepted": job}));
                *response.status_mut() = StatusCode::ACCEPTED;
                return Ok(response);
            }
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        let missed = match rung {
            Ok(Some((turn, run, spent))) => {
                let mut response = crate::gateway::text(turn.text());
                if let Ok(value) = HeaderValue::try_from(run.as_str()) {
                    response.headers_mut().insert(RUN_ID, value);
                }
                account.status = 200;
                account.close(Outcome::Whole, used(spent));
                return Ok(response);
            }
            Ok(None) => Missed::refused(Refusal::new(500, ErrorKind::Internal, "the webhook gave no answer")),
            Err(error) => told(&error),
        };
        account.missed(&missed);
        Ok(missed.refusal.into_response(heading.speech, heading.id.as_str()))
    }

    async fn agent_answer(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        route: &Arc<Route>,
        asked: &TurnAsked,
        key: &str,
        account: &mut Account,
    ) -> Result<(placet_flows::Answer, placet_wire::AnswerHead, Option<crate::kept::Keeping>, RunId), Missed> {
        let own = self.flows.as_ref().filter(|flows| flows.names().any(|name| name == &*route.name));
        let flows = own.or(snapshot.flows.as_ref()).ok_or_else(|| Missed::refused(Refusal::no_model(&route.name)))?;
        let (body, keeping) = self.with_kept(asked, key).await.map_err(Missed::refused)?;
        let decoded = decode_request(asked, &body, &self.env).map_err(|error| Missed::refused(error.into()))?;
        let head = answer_head(self, asked.speech, account, &decoded);
        let mut request = decoded.request;
        if request.items.is_empty() {
            let message = "the request holds no message, expected at least one for the agent to answer";
            return Err(Missed::refused(Refusal::new(400, ErrorKind::InvalidRequest, message)));
        }
        if request.controls.background == Some(true) {
            let message = "an agent answers while it is waited for, and not in the background; leave `background` out";
            let mut refusal = Refusal::new(400, ErrorKind::Unsupported, message);
            refusal.field = Some("background".to_owned());
            return Err(Missed::refused(refusal));
        }
        request.model = route.name.to_string();
        account.tools = request.tools.iter().map(|tool| tool.name.as_str().to_owned()).collect();
        let mut exchange = Exchange::new(request).from(Principal::new(key));
        exchange.metadata = metadata(&asked.headers);
        if let Some(run) = asked.headers.get(&RUN_ID) {
            let run = run.to_str().ok().and_then(|run| RunId::parse(run).ok());
            let wrong = || {
                let message =
                    "`x-run-id` is no id of a run: expected `run_` and up to 64 letters, digits, `-`, `_`, `.`";
                Missed::refused(Refusal::new(400, ErrorKind::InvalidRequest, message))
            };
            exchange = exchange.run(run.ok_or_else(wrong)?);
        }
        if asked.stream {
            exchange = exchange.streaming();
        }
        let answer = flows.serve(exchange).await.map_err(|error| told(&error))?;
        account.tab = Some(answer.tab());
        if let Err(error) = answer.first().await {
            // What was used is used, whether or not an answer came of it.
            account.usage = used(answer.spent());
            return Err(told(&error));
        }
        let run = answer.run().clone();
        Ok((answer, head, keeping, run))
    }
}

/// Tokens, where there were any.
fn used(spent: Usage) -> Option<Usage> {
    Some(spent).filter(|spent| *spent != Usage::default())
}

/// An error of a flow as a client may know it.
fn told(error: &FlowError) -> Missed {
    let shown = error.to_client();
    let wait = shown.retry_after();
    let is_of_a_model = matches!(error.code(), "upstream" | "run");
    let kinds = [ErrorKind::InvalidRequest, ErrorKind::Conflict, ErrorKind::NotFound];
    let is_ours = !is_of_a_model && kinds.contains(&shown.kind);
    let mut refusal = Refusal::new(status_of(&shown), shown.kind.clone(), shown.message);
    refusal.code = shown.code;
    refusal.retry_after = wait;
    let problem = (!is_ours).then(|| telling::kept(&Redactor::default().redact_text(&telling::chain(error))));
    Missed { refusal, class: None, wait, response: None, problem, is_ours }
}

/// What flows are told of a request's headers: the first value of each, and nothing that lets anybody in anywhere.
fn metadata(headers: &HeaderMap) -> IndexMap<String, String> {
    let mut metadata = IndexMap::new();
    for (name, value) in headers {
        if let (false, Ok(value)) = (placet_net::is_sensitive_header(name), value.to_str()) {
            metadata.entry(name.as_str().to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    metadata
}
