//! Agents behind names of models: flows, served in the client's protocol.

use crate::account::Account;
use crate::body::Body;
use crate::gateway::{Gateway, Heading, OMITTED, Snapshot};
use crate::metrics::Outcome;
use crate::principal::Principal as Caller;
use crate::refusal::{Refusal, status_of};
use crate::routing::Route;
use crate::speech::{decode_request, nobody};
use crate::translate::{answer_head, omitted_value};
use crate::turn::{Missed, TurnAsked};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use indexmap::IndexMap;
use placet_core::{ErrorKind, RunId};
use placet_flows::{Exchange, FlowError, HookAnswer, Principal};
use serde_json::Value;
use std::sync::Arc;

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
            Err(refusal) => {
                account.status = refusal.status;
                account.close(Outcome::Failed, None);
                return Ok(refusal.into_response(asked.speech, id.as_str()));
            }
        };
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
                        account.status = missed.refusal.status;
                        account.close(Outcome::Failed, None);
                    }
                    missed.refusal.into_response(asked.speech, id.as_str())
                }
            }
        };
        let headers = response.headers_mut();
        headers.insert(crate::gateway::ROUTE, route.header.clone());
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
        &self,
        snapshot: &Snapshot,
        heading: &Heading,
        id: &str,
        principal: &Caller,
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
        let unknown =
            || Refusal::not_found(format!("there is no webhook {:?}", id.chars().take(64).collect::<String>()));
        for flows in self.flows.iter().chain(&snapshot.flows) {
            // What a key may not ask for by a model's name it may not set off either.
            if flows.hooked(id).is_some_and(|flow| !principal.may_use(flow)) {
                return Err(unknown());
            }
            let principal = Principal::new(&*principal.key);
            match flows.hook(id, principal, payload.clone(), metadata.clone()).await {
                Err(FlowError::UnknownHook { .. }) => {}
                Err(error) => return Err(told(&error)),
                Ok(HookAnswer::Answer(answer)) => {
                    let turn = answer.collect().await.map_err(|error| told(&error))?;
                    return Ok(crate::gateway::text(turn.text()));
                }
                Ok(HookAnswer::Accepted(job)) => {
                    let mut response = crate::gateway::json(&serde_json::json!({"accepted": job}));
                    *response.status_mut() = StatusCode::ACCEPTED;
                    return Ok(response);
                }
                Ok(_) => {}
            }
        }
        Err(unknown())
    }

    async fn agent_answer(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        route: &Arc<Route>,
        asked: &TurnAsked,
        key: &str,
        account: &mut Account,
    ) -> Result<(placet_flows::Answer, placet_wire::AnswerHead, Option<crate::kept::Keeping>, RunId), Refusal> {
        let own = self.flows.as_ref().filter(|flows| flows.names().any(|name| name == &*route.name));
        let flows = own.or(snapshot.flows.as_ref()).ok_or_else(|| Refusal::no_model(&route.name))?;
        let (body, keeping) = self.with_kept(asked, key).await?;
        let decoded = decode_request(asked, &body, &self.env)?;
        let head = answer_head(self, asked.speech, account, &decoded);
        let mut request = decoded.request;
        if request.items.is_empty() {
            let message = "the request holds no message, expected at least one for the agent to answer";
            return Err(Refusal::new(400, ErrorKind::InvalidRequest, message));
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
                Refusal::new(400, ErrorKind::InvalidRequest, message)
            };
            exchange = exchange.run(run.ok_or_else(wrong)?);
        }
        if asked.stream {
            exchange = exchange.streaming();
        }
        let answer = flows.serve(exchange).await.map_err(|error| told(&error))?;
        if let Err(error) = answer.first().await {
            // What was used is used, whether or not an answer came of it.
            account.usage = Some(answer.spent()).filter(|spent| *spent != placet_core::Usage::default());
            return Err(told(&error));
        }
        let run = answer.run().clone();
        Ok((answer, head, keeping, run))
    }
}

/// An error of a flow as a client may know it.
fn told(error: &FlowError) -> Refusal {
    let shown = error.to_client();
    let wait = shown.retry_after();
    let mut refusal = Refusal::new(status_of(&shown), shown.kind.clone(), shown.message);
    refusal.code = shown.code;
    refusal.retry_after = wait;
    refusal
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
