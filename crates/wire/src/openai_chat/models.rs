//! Lists of models, and what is no list.

use crate::ListedModel;
use crate::failure::{RAW_BYTES, cut};
use crate::reading::read_json;
use placet_core::{ErrorKind, ProviderError, ProviderId};
use serde_json::{Value, json};

/// Reads the answer to `GET /models`: an object with `data` or `models`, or a bare array; entries are objects with an `id`
/// or `name`, or texts.
///
/// # Errors
/// [`ProviderError`] of kind *protocol* where there is no list.
pub fn decode_models(provider: &ProviderId, body: &[u8]) -> Result<Vec<ListedModel>, ProviderError> {
    let value = read_json(provider, NOT_JSON, body)?;
    let list = value.as_array().or_else(|| ["data", "models"].iter().find_map(|key| value.get(key)?.as_array()));
    let Some(list) = list else {
        return Err(ProviderError::new(ErrorKind::Protocol, provider.clone(), "the answer holds no list of models"));
    };
    let models = list.iter().filter_map(|entry| {
        let word = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let id = entry.as_str().or_else(|| word("id")).or_else(|| word("name")).or_else(|| word("model"))?;
        Some(ListedModel { id: id.to_owned(), description: word("description").map(str::to_owned) })
    });
    Ok(models.collect())
}

/// What a person can do about an answer of something that is no such API.
pub(super) const NOT_JSON: &str =
    "check that the base URL points to an OpenAI-compatible API; it usually ends with /v1";

/// The error that a web page in place of an answer is, of kind *protocol*: whoever sent it will send it again.
#[must_use]
pub fn decode_page(provider: &ProviderId, body: &[u8]) -> ProviderError {
    let mut failure = ProviderError::new(ErrorKind::Protocol, provider.clone(), "the answer is a web page, not JSON")
        .with_hint(NOT_JSON);
    failure.raw = Some(cut(&String::from_utf8_lossy(body), RAW_BYTES));
    failure
}

/// The list of models in the form that clients of this protocol expect.
#[must_use]
pub fn encode_models(models: &[ListedModel]) -> Value {
    let data: Vec<Value> = models
        .iter()
        .map(|model| {
            let mut form = json!({"id": model.id, "object": "model", "created": 0, "owned_by": "placet"});
            if let Some(description) = &model.description {
                form["description"] = description.as_str().into();
            }
            form
        })
        .collect();
    json!({"object": "list", "data": data})
}
