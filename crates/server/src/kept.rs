//! Answers of the Responses protocol that are kept, so that a later request can go on from them.
//!
//! A provider that speaks the protocol keeps its own. Where a request is translated, the gateway keeps the answer and what
//! it answered, for the key that asked.

use crate::body::Body;
use crate::endpoint::ResponseAction;
use crate::gateway::{Gateway, Heading, json};
use crate::principal::Principal;
use crate::refusal::Refusal;
use crate::turn::TurnAsked;
use bytes::Bytes;
use http::Response;
use placet_core::ErrorKind;
use placet_store::{Batch, Key, StoreError, Value as Stored};
use placet_wire::passing::Speech;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
                let mut refusal = Refusal::new(
                    400,
                    ErrorKind::NotFound,
                    format!(
                        "the answer `{}` of `previous_response_id` is not kept here; send the whole conversation",
                        short(&id)
                    ),
                )
                .code("previous_response_not_found");
                refusal.field = Some("previous_response_id".to_owned());
                return Err(refusal);
            };
            next = kept.previous.clone();
            links.push(kept);
            if links.len() > MOST_LINKS {
                return Err(Refusal::new(400, ErrorKind::LimitReached, "the conversation goes back too far"));
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
                let mut refusal = Refusal::new(400, ErrorKind::NotFound, message);
                refusal.field = Some("input".to_owned());
                Err(refusal)
            }
        }
    }

    /// Keeps an answer. Nobody waits for it but a request that goes on from it.
    pub(crate) fn keep(&self, keeping: Keeping, response: &Value) {
        let Some(id) = response.get("id").and_then(Value::as_str) else { return };
        let mut batch = Batch::new();
        for item in items(response.get("output")).iter().chain(&keeping.input) {
            let item_id = item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty() && id.len() <= 128);
            if let (Some(item_id), false) = (item_id, is_reference(item))
                && let Ok(value) = Stored::json(FORMAT, item)
            {
                batch.put(self.item_key(&keeping.key, item_id), value);
            }
        }
        let kept = Kept { response: response.clone(), input: keeping.input, previous: keeping.previous };
        let Ok(value) = Stored::json(FORMAT, &kept) else { return };
        batch.put(self.kept_key(&keeping.key, id), value);
        let store = self.store.clone();
        drop(self.env.spawn("kept answer", async move {
            // An answer that cannot be kept has still been given; a request that goes on from it says that it is not there.
            let _ = store.commit(batch).await;
        }));
    }

    /// Looks up, deletes or cancels a kept answer.
    pub(crate) async fn kept(
        &self,
        heading: &Heading,
        principal: &Principal,
        id: &str,
        action: ResponseAction,
    ) -> Result<Response<Body>, Refusal> {
        let _ = heading;
        let Some(kept) = self.load(&principal.key, id).await? else {
            return Err(Refusal::not_found(format!("no answer `{}` is kept here", short(id))));
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
                self.store.commit(batch).await.map_err(store_failed)?;
                Ok(json(&json!({"id": id, "object": "response", "deleted": true})))
            }
            ResponseAction::Cancel => {
                let message = "only answers that are made in the background can be cancelled; this one is whole";
                Err(Refusal::new(400, ErrorKind::InvalidRequest, message))
            }
            ResponseAction::InputItems => {
                let ids = |item: Option<&Value>| item.and_then(|item| item.get("id")).cloned().unwrap_or(Value::Null);
                Ok(json(&json!({
                    "object": "list", "first_id": ids(kept.input.first()), "last_id": ids(kept.input.last()),
                    "has_more": false, "data": kept.input,
                })))
            }
        }
    }
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
    Refusal::new(503, ErrorKind::Storage, "what is kept cannot be read at present; try again")
}
