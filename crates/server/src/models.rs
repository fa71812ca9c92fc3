//! The lists of models, in the shape of whoever asks.

use crate::body::Body;
use crate::gateway::{Gateway, Snapshot, json};
use crate::principal::Principal;
use crate::refusal::Refusal;
use crate::routing::Listed;
use http::Response;
use placet_models::AskContext;
use placet_wire::passing::Speech;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long the lists of providers are kept.
const FRESH: Duration = Duration::from_secs(300);
/// How long a provider may take to list its models.
const PATIENCE: Duration = Duration::from_secs(3);

/// What providers said last of their models.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    kept: Mutex<Option<(Duration, Arc<Vec<Listed>>)>>,
}

impl Lists {
    pub(crate) fn forget(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Gateway {
    pub(crate) async fn list_models(
        &self,
        snapshot: &Snapshot,
        speech: Speech,
        principal: &Principal,
        uri: &http::Uri,
    ) -> Result<Response<Body>, Refusal> {
        let _ = uri;
        let mut models = self.all_models(snapshot).await;
        models.retain(|model| principal.may_use(&model.id));
        Ok(json(&shaped(speech, &models)))
    }

    pub(crate) async fn one_model(
        &self,
        snapshot: &Snapshot,
        speech: Speech,
        principal: &Principal,
        id: &str,
    ) -> Result<Response<Body>, Refusal> {
        let id = placet_net::percent_decoded(id);
        let route = self.permitted(snapshot, principal, &id)?;
        let owner = route.targets.first().map_or("placet", |target| &*target.provider);
        // A name that only the default answers for is no model of its own.
        if *route.name != *id {
            return Err(Refusal::no_model(&id));
        }
        Ok(json(&one(speech, &Listed { id, owner: owner.to_owned() })))
    }

    /// What is configured, and where models go by their own names also what providers say they have.
    async fn all_models(&self, snapshot: &Snapshot) -> Vec<Listed> {
        let mut models = snapshot.routing.listed();
        if !snapshot.routing.is_open() {
            return models;
        }
        let now = self.env.clock().steady();
        let kept = self.lists.kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let theirs = match kept {
            Some((at, list)) if now.saturating_sub(at) < FRESH => list,
            _ => {
                let list = Arc::new(self.ask_for_lists(snapshot).await);
                *self.lists.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, list.clone()));
                list
            }
        };
        let mut seen: BTreeSet<String> = models.iter().map(|model| model.id.clone()).collect();
        models.extend(theirs.iter().filter(|model| seen.insert(model.id.clone())).cloned());
        models
    }

    async fn ask_for_lists(&self, snapshot: &Snapshot) -> Vec<Listed> {
        let several = snapshot.routing.upstreams().count() > 1;
        let asking = snapshot.routing.upstreams().filter_map(|upstream| {
            let provider = upstream.provider.clone()?;
            let (env, owner) = (self.env.clone(), upstream.id.clone());
            Some(async move {
                let listed = tokio::select! {
                    listed = provider.models(AskContext::new(env.clone())) => listed.unwrap_or_default(),
                    () = env.sleep(PATIENCE) => Vec::new(),
                };
                let id = |model: String| {
                    // With one server every bare name is its own; with several the name says whose it is.
                    let is_known = placet_models::ModelRef::parse(&model)
                        .is_ok_and(|reference| reference.provider.as_str() == &*owner);
                    if several && !is_known { format!("{owner}:{model}") } else { model }
                };
                listed
                    .into_iter()
                    .map(|model| Listed { id: id(model.id), owner: owner.to_string() })
                    .collect::<Vec<_>>()
            })
        });
        futures_util::future::join_all(asking).await.into_iter().flatten().collect()
    }
}

/// A date for those who want one: models of a gateway have none.
const CREATED: &str = "2026-01-01T00:00:00Z";
const CREATED_SECONDS: u64 = 1_767_225_600;

fn shaped(speech: Speech, models: &[Listed]) -> Value {
    let data: Vec<Value> = models.iter().map(|model| one(speech, model)).collect();
    match speech {
        Speech::AnthropicMessages => json!({
            "data": data,
            "has_more": false,
            "first_id": models.first().map(|model| &model.id),
            "last_id": models.last().map(|model| &model.id),
        }),
        Speech::Gemini => json!({"models": data}),
        _ => json!({"object": "list", "data": data}),
    }
}

fn one(speech: Speech, model: &Listed) -> Value {
    match speech {
        Speech::AnthropicMessages => json!({
            "type": "model", "id": model.id, "display_name": model.id, "created_at": CREATED,
            "lifecycle": "active", "capabilities": null, "max_input_tokens": null, "max_tokens": null,
        }),
        Speech::Gemini => json!({
            "name": format!("models/{}", model.id), "baseModelId": model.id, "version": "1", "displayName": model.id,
            "description": "", "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
        }),
        _ => json!({"id": model.id, "object": "model", "created": CREATED_SECONDS, "owned_by": model.owner}),
    }
}
