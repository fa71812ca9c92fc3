//! Lists of models and counts of tokens.

use super::decode::NOT_JSON;
use crate::ListedModel;
use crate::reading::read_json;
use placet_core::{ErrorKind, ProviderError, ProviderId};
use serde_json::{Value, json};

/// What stands for the time of a model of which nobody knows it.
const LONG_AGO: &str = "1970-01-01T00:00:00Z";

/// Reads the answer to `GET /v1/models`. The display name is taken as the description.
///
/// # Errors
/// [`ProviderError`] of kind *protocol* where there is no list.
pub fn decode_models(provider: &ProviderId, body: &[u8]) -> Result<Vec<ListedModel>, ProviderError> {
    let value = read(provider, body)?;
    let Some(list) = value.get("data").and_then(Value::as_array) else {
        return Err(ProviderError::new(ErrorKind::Protocol, provider.clone(), "the answer holds no list of models"));
    };
    let models = list.iter().filter_map(|entry| {
        let word = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some(ListedModel { id: word("id")?.to_owned(), description: word("display_name").map(str::to_owned) })
    });
    Ok(models.collect())
}

/// The answer to `GET /v1/models`, all on one page.
#[must_use]
pub fn encode_models(models: &[ListedModel]) -> Value {
    let entry = |model: &ListedModel| {
        json!({
            "type": "model",
            "id": model.id,
            "display_name": model.description.as_deref().unwrap_or(&model.id),
            "created_at": LONG_AGO,
            "lifecycle": "active",
            "max_input_tokens": null,
            "max_tokens": null,
            "capabilities": null,
        })
    };
    let data: Vec<Value> = models.iter().map(entry).collect();
    let id = |model: Option<&ListedModel>| model.map(|model| model.id.clone());
    json!({"data": data, "has_more": false, "first_id": id(models.first()), "last_id": id(models.last())})
}

/// Reads the answer to a count: tokens of input.
///
/// # Errors
/// [`ProviderError`] of kind *protocol* where there is no count.
pub fn decode_count(provider: &ProviderId, body: &[u8]) -> Result<u64, ProviderError> {
    let count = read(provider, body)?.get("input_tokens").and_then(Value::as_u64);
    count.ok_or_else(|| {
        ProviderError::new(ErrorKind::Protocol, provider.clone(), "the answer holds no count; expected `input_tokens`")
    })
}

/// The answer to a count.
#[must_use]
pub fn encode_count(tokens: u64) -> Value {
    json!({"input_tokens": tokens})
}

fn read(provider: &ProviderId, body: &[u8]) -> Result<Value, ProviderError> {
    read_json(provider, NOT_JSON, body)
}
