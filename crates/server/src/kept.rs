//! Answers of the Responses protocol that are kept, so that a later request can go on from them.
//!
//! A provider that speaks the protocol keeps its own; where there are several clients or providers, the gateway notes whose
//! they are. Where a request is translated, the gateway keeps the answer and what it answered, for the key that asked.

use crate::body::{Body, Broken};
use crate::config::ErrorClass;
use crate::endpoint::ResponseAction;
use crate::gateway::{Gateway, Heading, PROVIDER, Snapshot, json};
use crate::headers::{answer_headers, passed_headers};
use crate::principal::Principal;
use crate::refusal::Refusal;
use crate::routing::{Route, Upstream};
use crate::turn::{GoesOn, Missed, TurnAsked, escaped, passed_query};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderValue, Response};
use placet_core::record::Digest;
use placet_core::{BoxFuture, ErrorKind};
use placet_store::{Batch, Key, StoreError, Value as Stored};
use placet_wire::passing::{Outline, Speech, response_id};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// The format of what is kept.
const FORMAT: u16 = 1;
/// How many answers one request may go back.
const MOST_LINKS: usize = 1000;

/// What is kept of an answer.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// The answer as the client was given it.
    response: Value,
    /// What the client sent for it, in this request alone.
    input: Vec<Value>,
    /// The answer before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
}

/// An answer that is to be kept once it is whole.
pub(crate) struct Keeping {
    key: String,
    input: Vec<Value>,
    previous: Option<String>,
}

impl Gateway {
    fn kept_key(&self, principal: &str, id: &str) -> Key {
        Key::new(&self.tenant).text("response").text(principal).text(id)
    }

    fn item_key(&self, principal: &str, id: &str) -> Key {
        Key::new(&self.tenant).text("response-item").text(principal).text(id)
    }

    /// The body with everything that it only refers to, and whether the answer is to be kept.
    pub(crate) async fn with_kept(
        &self,
        asked: &TurnAsked,
        principal: &str,
    ) -> Result<(Bytes, Option<Keeping>), Refusal> {
        if asked.speech != Speech::OpenaiResponses {
            return Ok((asked.body.clone(), None));
        }
        let Ok(Value::Object(mut body)) = serde_json::from_slice::<Value>(&asked.body) else {
            // The decoder says what is wrong with it.
            return Ok((asked.body.clone(), None));
        };
        if body.get("conversation").is_some_and(|conversation| !conversation.is_null()) {
            let message = "a conversation that a provider keeps can go on at that provider alone, in its own protocol; send what was \
                           said, or name the last answer in `previous_response_id`";
            let mut refusal = Refusal::new(400, ErrorKind::Unsupported, message);
            refusal.field = Some("conversation".to_owned());
            return Err(refusal);
        }
        let keeps = body.get("store") != Some(&Value::Bool(false));
        let previous = body.get("previous_response_id").and_then(Value::as_str).map(str::to_owned);
        let input = items(body.get("input"));
        let refers = previous.is_some() || input.iter().any(is_reference);
        let keeping =
            keeps.then(|| Keeping { key: principal.to_owned(), input: input.clone(), previous: previous.clone() });
        if !refers {
            return Ok((asked.body.clone(), keeping));
        }
        let mut whole = Vec::new();
        if let Some(previous) = &previous {
            whole = self.history(principal, previous).await?;
        }
        for item in input {
            whole.push(if is_reference(&item) { self.referred(principal, &item).await? } else { item });
        }
        body.remove("previous_response_id");
        body.insert("input".to_owned(), Value::Array(whole));
        let bytes = serde_json::to_vec(&Value::Object(body)).map_err(|_| unreadable())?;
        Ok((bytes.into(), keeping))
    }

    /// Everything that was said up to an answer, in order.
    async fn history(&self, principal: &str, last: &str) -> Result<Vec<Value>, Refusal> {
        let mut links = Vec::new();
        let mut next = Some(last.to_owned());
        while let Some(id) = next {
            let Some(kept) = self.load(principal, &id).await? else {
                return Err(not_kept(&id));
            };
            next = kept.previous.clone();
            links.push(kept);
            if links.len() > MOST_LINKS {
                return Err(Refusal::new(400, ErrorKind::InvalidRequest, "the conversation goes back too far"));
            }
        }
        let mut whole = Vec::new();
        for kept in links.into_iter().rev() {
            whole.extend(kept.input);
            whole.extend(items(kept.response.get("output")));
        }
        // References within what was sent then are answered by what was answered before.
        let mut resolved = Vec::with_capacity(whole.len());
        for item in whole {
            resolved.push(if is_reference(&item) { self.referred(principal, &item).await? } else { item });
        }
        Ok(resolved)
    }

    async fn load(&self, principal: &str, id: &str) -> Result<Option<Kept>, Refusal> {
        if id.len() > 128 {
            return Ok(None);
        }
        let cell = self.store.cell(&self.kept_key(principal, id)).await.map_err(store_failed)?;
        cell.map(|cell| cell.value.from_json(FORMAT).map_err(store_failed)).transpose()
    }

    async fn referred(&self, principal: &str, reference: &Value) -> Result<Value, Refusal> {
        let id = reference.get("id").and_then(Value::as_str).unwrap_or_default();
        let cell = if id.len() > 128 {
            None
        } else {
            self.store.cell(&self.item_key(principal, id)).await.map_err(store_failed)?
        };
        match cell {
            Some(cell) => cell.value.from_json(FORMAT).map_err(store_failed),
            None => {
                let message = format!(
                    "the item `{}` is not kept here; send it whole, or set `store` to false so that your client does",
                    short(id)
                );
                let mut refusal = Refusal::new(400, ErrorKind::InvalidRequest, message);
                refusal.field = Some("input".to_owned());
                Err(refusal)
            }
        }
    }

    /// Keeps an answer: who has read its end may go on from it at once, so it is kept before its end is told.
    pub(crate) fn keep(&self, keeping: Keeping, response: &Value) -> BoxFuture<'static, ()> {
        let nothing = || -> BoxFuture<'static, ()> { Box::pin(std::future::ready(())) };
        let Some(id) = response.get("id").and_then(Value::as_str) else { return nothing() };
        let mut batch = Batch::new();
        let input = keeping.input.iter().enumerate().map(|(at, item)| whole_item(id, at, item.clone()));
        for item in items(response.get("output")).iter().chain(&input.collect::<Vec<_>>()) {
            let item_id = item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty() && id.len() <= 128);
            if let (Some(item_id), false) = (item_id, is_reference(item))
                && let Ok(value) = Stored::json(FORMAT, item)
            {
                batch.put(self.item_key(&keeping.key, item_id), value);
            }
        }
        let kept = Kept { response: response.clone(), input: keeping.input, previous: keeping.previous };
        let Ok(value) = Stored::json(FORMAT, &kept) else { return nothing() };
        batch.put(self.kept_key(&keeping.key, id), value);
        let store = self.store.clone();
        Box::pin(async move {
            // An answer that cannot be kept has still been given; a request that goes on from it says that it is not there.
            let _ = store.commit(batch).await;
        })
    }

    fn owner_key(&self, principal: &str, id: &str) -> Key {
        Key::new(&self.tenant).text("response-owner").text(principal).text(id)
    }

    /// Notes whose answer it is that a provider keeps, so that nobody else goes on from it, and that it is found again.
    pub(crate) async fn note_owner(&self, principal: &Principal, provider: &str, body: &mut placet_net::Body) {
        let Ok(Some(beginning)) = body.first().await else { return };
        let Some(id) = response_id(&beginning) else { return };
        let mut batch = Batch::new();
        let Ok(value) = Stored::json(FORMAT, &provider) else { return };
        batch.put(self.owner_key(&principal.key, &id), value);
        // Who has the answer may go on from it at once, so it is not handed out before it is noted whose it is.
        let _ = self.store.commit(batch).await;
    }

    async fn owner(&self, principal: &str, id: &str) -> Result<Option<String>, Refusal> {
        if id.len() > 128 {
            return Ok(None);
        }
        let cell = self.store.cell(&self.owner_key(principal, id)).await.map_err(store_failed)?;
        cell.map(|cell| cell.value.from_json(FORMAT).map_err(store_failed)).transpose()
    }

    /// Where the answer is that a request goes on from.
    pub(crate) async fn goes_on_from(
        &self,
        snapshot: &Snapshot,
        route: &Route,
        asked: &TurnAsked,
        principal: &Principal,
    ) -> Result<GoesOn, Refusal> {
        let range = asked.outline.previous.as_ref().filter(|_| asked.speech == Speech::OpenaiResponses);
        let Some(id) = range.and_then(|range| Outline::text(&asked.body, range)) else { return Ok(GoesOn::Nothing) };
        if self.load(&principal.key, &id).await?.is_some() {
            return Ok(GoesOn::Here);
        }
        let owner = self.owner(&principal.key, &id).await?;
        match owner {
            Some(owner) if route.targets.iter().any(|target| *target.provider == *owner) => Ok(GoesOn::At(owner)),
            // With one client and one provider everything is theirs.
            None if !snapshot.notes_owners => Ok(GoesOn::Nothing),
            _ => Err(not_kept(&id)),
        }
    }

    /// Looks up, deletes or cancels a kept answer: one of ours, or one that a provider keeps.
    pub(crate) async fn kept(
        &self,
        snapshot: &Snapshot,
        heading: &mut Heading,
        principal: &Principal,
        id: &str,
        action: ResponseAction,
    ) -> Result<Response<Body>, Refusal> {
        let Some(kept) = self.load(&principal.key, id).await? else {
            return self.kept_elsewhere(snapshot, heading, principal, id, action).await;
        };
        match action {
            ResponseAction::Retrieve => Ok(json(&kept.response)),
            ResponseAction::Delete => {
                let mut batch = Batch::new();
                batch.delete_cell(self.kept_key(&principal.key, id));
                for item in items(kept.response.get("output")) {
                    if let Some(item) = item.get("id").and_then(Value::as_str) {
                        batch.delete_cell(self.item_key(&principal.key, item));
                    }
                }
                // Items that the client named itself may stand in other answers too.
                let unnamed = |(at, item): (usize, &Value)| {
                    let has_id = item.get("id").and_then(Value::as_str).is_some_and(|id| !id.is_empty());
                    (!has_id).then(|| whole_item(id, at, item.clone()))
                };
                for item in kept.input.iter().enumerate().filter_map(unnamed) {
                    if let Some(item) = item.get("id").and_then(Value::as_str) {
                        batch.delete_cell(self.item_key(&principal.key, item));
                    }
                }
                self.store.commit(batch).await.map_err(store_failed)?;
                Ok(json(&json!({"id": id, "object": "response", "deleted": true})))
            }
            ResponseAction::Cancel => {
                let message = "only answers that are made in the background can be cancelled; this one is whole";
                Err(Refusal::new(400, ErrorKind::InvalidRequest, message))
            }
            ResponseAction::InputItems => {
                listed(id, kept.input, heading.path_and_query.query()).map(|list| json(&list))
            }
        }
    }
}

impl Gateway {
    /// An answer that a provider keeps: asked of the one that it is noted with, else, where one client has all there is, of
    /// each that keeps answers.
    async fn kept_elsewhere(
        &self,
        snapshot: &Snapshot,
        heading: &mut Heading,
        principal: &Principal,
        id: &str,
        action: ResponseAction,
    ) -> Result<Response<Body>, Refusal> {
        let owner = self.owner(&principal.key, id).await?;
        let upstreams: Vec<Arc<Upstream>> = match &owner {
            Some(owner) => snapshot.routing.upstream(owner).into_iter().cloned().collect(),
            None if snapshot.config.keys.is_empty() => snapshot.routing.keepers().cloned().collect(),
            None => Vec::new(),
        };
        let mut path = format!("responses/{}", escaped(id));
        path.push_str(match action {
            ResponseAction::Retrieve | ResponseAction::Delete => "",
            ResponseAction::Cancel => "/cancel",
            ResponseAction::InputItems => "/input_items",
        });
        if let Some(query) = passed_query(heading.path_and_query.query()) {
            path.push('?');
            path.push_str(&query);
        }
        let headers = passed_headers(std::mem::take(&mut heading.headers));
        let mut missed = None;
        for upstream in upstreams {
            let method = heading.method.clone();
            match self.send_to(&upstream, Speech::OpenaiResponses, method, &path, headers.clone(), Bytes::new()).await {
                Ok(response) => {
                    if action == ResponseAction::Delete && owner.is_some() {
                        let mut batch = Batch::new();
                        batch.delete_cell(self.owner_key(&principal.key, id));
                        // A note that stays leads to a provider that says there is no such answer.
                        let _ = self.store.commit(batch).await;
                    }
                    let mut answer =
                        Response::new(Body::pieces(Box::pin(response.body.map(|piece| piece.map_err(|_| Broken)))));
                    *answer.status_mut() = response.status;
                    *answer.headers_mut() = answer_headers(response.headers, false);
                    answer.headers_mut().insert(PROVIDER, provider_header(&upstream));
                    return Ok(answer);
                }
                Err(failure) if failure.class == Some(ErrorClass::NotFound) => {}
                Err(failure) => missed = Some(failure),
            }
        }
        match missed {
            Some(Missed { response: Some(response), .. }) => Ok(*response),
            Some(missed) => Err(missed.refusal),
            None => Err(Refusal::not_found(format!("no answer `{}` is kept here", short(id)))),
        }
    }
}

/// An item of a request as the protocol lists it: with an id, a type, and its text in parts.
fn whole_item(response: &str, at: usize, item: Value) -> Value {
    let Value::Object(mut item) = item else { return item };
    if is_reference(&Value::Object(item.clone())) {
        return Value::Object(item);
    }
    if item.get("type").and_then(Value::as_str).is_none() && item.contains_key("role") {
        item.insert("type".to_owned(), "message".into());
    }
    let is_message = item.get("type").is_some_and(|kind| kind == "message");
    if is_message && let Some(Value::String(text)) = item.get("content") {
        let part = match item.get("role").and_then(Value::as_str) {
            Some("assistant") => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
            _ => json!({"type": "input_text", "text": text}),
        };
        item.insert("content".to_owned(), json!([part]));
    }
    if is_message && !item.contains_key("status") {
        item.insert("status".to_owned(), "completed".into());
    }
    if item.get("id").and_then(Value::as_str).is_none_or(str::is_empty) {
        let digits = Digest::of(format!("{response} {at}").as_bytes()).to_hex();
        let prefix = match item.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message" => "msg",
            "function_call" => "fc",
            "function_call_output" => "fco",
            "reasoning" => "rs",
            _ => "item",
        };
        item.insert("id".to_owned(), format!("{prefix}_{}", &digits[..32]).into());
    }
    Value::Object(item)
}

/// What was sent for an answer, page by page: `limit`, `order` and `after` of the query.
fn listed(response: &str, input: Vec<Value>, query: Option<&str>) -> Result<Value, Refusal> {
    let asked = |name: &str| {
        let mut pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| placet_net::percent_decoded(value))
    };
    let wrong = |field: &str, expected: &str| {
        let mut refusal =
            Refusal::new(400, ErrorKind::InvalidRequest, format!("`{field}` is wrong, expected {expected}"));
        refusal.field = Some(field.to_owned());
        refusal
    };
    let limit = match asked("limit") {
        None => 20,
        Some(text) => match text.parse::<usize>() {
            Ok(limit) if (1..=100).contains(&limit) => limit,
            _ => return Err(wrong("limit", "a number from 1 to 100")),
        },
    };
    let mut list: Vec<Value> = input.into_iter().enumerate().map(|(at, item)| whole_item(response, at, item)).collect();
    match asked("order").as_deref() {
        None | Some("desc") => list.reverse(),
        Some("asc") => {}
        Some(_) => return Err(wrong("order", "`asc` or `desc`")),
    }
    if let Some(after) = asked("after") {
        let found = list.iter().position(|item| item.get("id").and_then(Value::as_str) == Some(after.as_str()));
        let place = found.ok_or_else(|| wrong("after", "the id of an item of this list"))?;
        list.drain(..=place);
    }
    let has_more = list.len() > limit;
    list.truncate(limit);
    let id = |item: Option<&Value>| item.and_then(|item| item.get("id")).cloned().unwrap_or(Value::Null);
    let (first, last) = (id(list.first()), id(list.last()));
    Ok(json!({"object": "list", "data": list, "first_id": first, "last_id": last, "has_more": has_more}))
}

fn provider_header(upstream: &Upstream) -> HeaderValue {
    HeaderValue::try_from(&*upstream.id).unwrap_or(HeaderValue::from_static("unnamed"))
}

fn not_kept(id: &str) -> Refusal {
    let id = short(id);
    let message = format!("the answer `{id}` of `previous_response_id` is not kept here; send the whole conversation");
    let mut refusal = Refusal::new(400, ErrorKind::InvalidRequest, message).code("previous_response_not_found");
    refusal.field = Some("previous_response_id".to_owned());
    refusal
}

/// The items of an input or output; a text is a message of the user.
fn items(value: Option<&Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(list)) => list.clone(),
        Some(Value::String(text)) => vec![json!({"role": "user", "content": text})],
        _ => Vec::new(),
    }
}

fn is_reference(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::as_str);
    // The type may be left out where nothing but an id is there.
    kind == Some("item_reference") || (kind.is_none() && item.get("id").is_some() && item.get("role").is_none())
}

fn short(id: &str) -> String {
    id.chars().take(100).collect()
}

fn unreadable() -> Refusal {
    Refusal::new(500, ErrorKind::Internal, "the conversation cannot be put together")
}

fn store_failed(_: StoreError) -> Refusal {
    Refusal::new(503, ErrorKind::Storage, "what is kept cannot be read at present")
}
