//! Embeddings, both ways.

use super::models::NOT_JSON;
use crate::reading::read_json;
use crate::{Encoded, Omission, RequestError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use placet_core::embedding::{EmbeddingRequest, Embeddings};
use placet_core::{ErrorKind, ProviderError, ProviderId, Usage};
use serde_json::{Map, Value, json};

/// The body of a request for embeddings.
///
/// # Errors
/// None at present; the form is that of every encoder.
pub fn encode_embedding_request(request: &EmbeddingRequest) -> Result<Encoded, ProviderError> {
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    body.insert("input".into(), request.inputs.clone().into());
    if let Some(dimensions) = request.dimensions {
        body.insert("dimensions".into(), dimensions.into());
    }
    body.insert("encoding_format".into(), "float".into());
    body.extend(request.extra.iter().map(|(key, value)| (key.clone(), value.clone())));
    let mut omitted = Vec::new();
    if request.task.is_some() {
        omitted.push(Omission { what: "task".to_owned(), why: super::encode::NO_PLACE });
    }
    Ok(Encoded { body: Value::from(body).to_string().into(), omitted, names: crate::names::Names::default() })
}

/// Reads an answer of embeddings, whose vectors are lists of numbers or base64 of little-endian floats.
///
/// # Errors
/// [`ProviderError`] where it is an error in spite of its status, or no answer of this protocol.
pub fn decode_embeddings(provider: &ProviderId, body: &[u8]) -> Result<Embeddings, ProviderError> {
    let value = read_json(provider, NOT_JSON, body)?;
    if value.get("error").is_some_and(|error| !error.is_null()) {
        return Err(crate::failure::decode_error_value(provider, &value));
    }
    let wrong = |problem: &str| ProviderError::new(ErrorKind::Protocol, provider.clone(), problem);
    let data = value["data"].as_array().ok_or_else(|| wrong("the answer holds no embeddings; expected `data`"))?;
    let mut vectors = Vec::with_capacity(data.len());
    for (place, entry) in data.iter().enumerate() {
        let vector = read_vector(&entry["embedding"]).ok_or_else(|| wrong("an embedding is no list of numbers"))?;
        vectors.push((entry["index"].as_u64().unwrap_or(place as u64), vector));
    }
    vectors.sort_by_key(|(index, _)| *index);
    let usage = value["usage"].as_object().map(|usage| {
        let count = |key: &str| usage.get(key).and_then(Value::as_u64);
        Usage { input: count("prompt_tokens").or_else(|| count("total_tokens")).unwrap_or(0), ..Usage::default() }
    });
    let model = value["model"].as_str().map(str::to_owned);
    Ok(Embeddings { model, vectors: vectors.into_iter().map(|(_, vector)| vector).collect(), usage })
}

#[expect(clippy::cast_possible_truncation, reason = "models compute in single precision")]
fn read_vector(value: &Value) -> Option<Vec<f32>> {
    match value {
        Value::Array(numbers) => numbers.iter().map(|number| number.as_f64().map(|number| number as f32)).collect(),
        Value::String(text) => {
            let bytes = STANDARD.decode(text).ok()?;
            let (floats, rest) = bytes.as_chunks::<4>();
            rest.is_empty().then(|| floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
        }
        _ => None,
    }
}

/// A client's request for embeddings.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedEmbeddings {
    /// What is to be embedded.
    pub request: EmbeddingRequest,
    /// Whether the client wants the vectors in base64, as the official clients do by default.
    pub base64: bool,
    /// The body as it came.
    pub body: Value,
}

/// Reads a client's request for embeddings.
///
/// # Errors
/// [`RequestError`] where the body is no such request; of kind *unsupported* for texts that were cut into tokens already.
pub fn decode_embedding_request(body: &[u8]) -> Result<DecodedEmbeddings, RequestError> {
    let body: Value = serde_json::from_slice(body).map_err(|error| RequestError::not_json(&error))?;
    let model = body["model"].as_str().ok_or_else(|| RequestError::field("model", "expected the name of a model"))?;
    let tokens = || RequestError {
        kind: ErrorKind::Unsupported,
        problem: "`input`: tokens are of one model only; send the texts themselves".to_owned(),
        field: Some("input".to_owned()),
    };
    let inputs = match &body["input"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) if list.iter().any(|entry| entry.is_number() || entry.is_array()) => return Err(tokens()),
        Value::Array(list) => {
            let texts = list.iter().map(|entry| entry.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
            texts.ok_or_else(|| RequestError::field("input", "expected a text or a list of texts"))?
        }
        _ => return Err(RequestError::field("input", "expected a text or a list of texts")),
    };
    let dimensions = match &body["dimensions"] {
        Value::Null => None,
        value => Some(value.as_u64().ok_or_else(|| RequestError::field("dimensions", "expected a whole number"))?),
    };
    let known = ["model", "input", "dimensions", "encoding_format"];
    let extra = body.as_object().map(|fields| super::request::beyond(fields, &known)).unwrap_or_default();
    let request = EmbeddingRequest { model: model.to_owned(), inputs, dimensions, task: None, extra };
    Ok(DecodedEmbeddings { request, base64: body["encoding_format"] == "base64", body })
}

/// The answer to a client: vectors as lists of numbers, or in base64. `model` is what the client calls the model.
#[must_use]
pub fn encode_embeddings(embeddings: &Embeddings, model: &str, base64: bool) -> Value {
    let data = embeddings.vectors.iter().enumerate().map(|(index, vector)| {
        let form: Value = if base64 {
            let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            STANDARD.encode(bytes).into()
        } else {
            vector.iter().map(|number| Value::from(*number)).collect()
        };
        json!({"object": "embedding", "index": index, "embedding": form})
    });
    let data: Vec<Value> = data.collect();
    let tokens = embeddings.usage.map_or(0, |usage| usage.total_input());
    json!({
        "object": "list", "data": data, "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })
}
