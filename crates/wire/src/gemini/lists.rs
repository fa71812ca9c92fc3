//! What is no turn: lists of models, counts of tokens, embeddings, content that the provider holds.

use super::Dialect;
use super::decode::NOT_JSON;
use super::encode::encode_request;
use super::parts::{take, take_object, take_text};
use super::request::decode_request;
use super::usage;
use crate::ListedModel;
use crate::encoded::{Encoded, Omission};
use crate::failure::{RAW_BYTES, cut};
use crate::names::Names;
use crate::reading::read_json;
use crate::request::{DecodedRequest, RequestError};
use placet_core::{EmbeddingRequest, Embeddings, Env, ErrorKind, ProviderError, ProviderId, TurnRequest, Usage};
use serde_json::{Map, Value, json};

fn parse(provider: &ProviderId, body: &[u8]) -> Result<Value, ProviderError> {
    read_json(provider, NOT_JSON, body)
}

fn no_such(provider: &ProviderId, value: &Value, said: &str) -> ProviderError {
    let mut error = ProviderError::new(ErrorKind::Protocol, provider.clone(), said);
    error.raw = Some(cut(&value.to_string(), RAW_BYTES));
    error
}

/// A model's name without what stands before it: `models/`, `publishers/google/models/`.
fn bare(name: &str) -> &str {
    name.rsplit_once("models/").map_or(name, |(_, model)| model)
}

fn resource(model: &str) -> String {
    if model.contains('/') { model.to_owned() } else { format!("models/{model}") }
}

/// Reads one page of the list of models, the Gemini API's (`models`) or Vertex's (`publisherModels`).
///
/// # Errors
/// [`ProviderError`] of kind *protocol* where there is no list.
pub fn decode_models(provider: &ProviderId, body: &[u8]) -> Result<Vec<ListedModel>, ProviderError> {
    let value = parse(provider, body)?;
    let list = ["models", "publisherModels"].iter().find_map(|key| value.get(*key)?.as_array());
    let Some(list) = list else {
        // The last page may be empty.
        if value.as_object().is_some_and(Map::is_empty) {
            return Ok(Vec::new());
        }
        return Err(no_such(provider, &value, "the answer holds no list of models"));
    };
    let models = list.iter().filter_map(|entry| {
        let word = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let description = word("description").or_else(|| word("displayName")).map(str::to_owned);
        Some(ListedModel { id: bare(word("name")?).to_owned(), description })
    });
    Ok(models.collect())
}

/// The token to ask for the next page of a list with; `None` where this was the last.
#[must_use]
pub fn next_page(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    value.get("nextPageToken")?.as_str().filter(|token| !token.is_empty()).map(str::to_owned)
}

/// The list of models as a client of the Gemini API reads it, on one page.
#[must_use]
pub fn encode_models(models: &[ListedModel]) -> Value {
    let models: Vec<Value> = models
        .iter()
        .map(|model| {
            let mut form = Map::new();
            form.insert("name".to_owned(), resource(&model.id).into());
            form.insert("displayName".to_owned(), model.id.as_str().into());
            if let Some(description) = &model.description {
                form.insert("description".to_owned(), description.as_str().into());
            }
            form.insert(
                "supportedGenerationMethods".to_owned(),
                json!(["generateContent", "streamGenerateContent", "countTokens"]),
            );
            Value::Object(form)
        })
        .collect();
    json!({"models": models})
}

/// The body of a `countTokens` request: the whole request, which the API counts with its tools and instructions.
///
/// # Errors
/// As [`super::encode_request`].
pub fn encode_count_request(request: &TurnRequest, dialect: &Dialect) -> Result<Encoded, ProviderError> {
    let mut encoded = encode_request(request, dialect)?;
    let mut inner: Map<String, Value> = serde_json::from_slice(&encoded.body).unwrap_or_default();
    inner.insert("model".to_owned(), resource(&request.model).into());
    encoded.body = json!({"generateContentRequest": inner}).to_string().into();
    Ok(encoded)
}

/// Reads a `countTokens` body: a list of contents, or a whole request.
///
/// # Errors
/// As [`super::decode_request`].
pub fn decode_count_request(body: &[u8], provider: &ProviderId, env: &Env) -> Result<DecodedRequest, RequestError> {
    let mut value: Value = serde_json::from_slice(body).map_err(|error| RequestError::not_json(&error))?;
    let inner = value.as_object_mut().and_then(|map| take_object(map, "generateContentRequest"));
    match inner {
        Some(inner) => decode_request(Value::Object(inner).to_string().as_bytes(), provider, env),
        None => decode_request(body, provider, env),
    }
}

/// Reads the answer to `countTokens`.
///
/// # Errors
/// [`ProviderError`] of kind *protocol* where there is no count.
pub fn decode_count(provider: &ProviderId, body: &[u8]) -> Result<u64, ProviderError> {
    let value = parse(provider, body)?;
    let count = value.get("totalTokens").or_else(|| value.get("total_tokens"));
    count
        .and_then(|count| count.as_u64().or_else(|| count.as_str()?.parse().ok()))
        .ok_or_else(|| no_such(provider, &value, "the answer holds no count of tokens"))
}

/// The answer to `countTokens`.
#[must_use]
pub fn encode_count(tokens: u64) -> Value {
    json!({"totalTokens": tokens})
}

/// The body of a `batchEmbedContents` request: one vector for each text.
///
/// # Errors
/// [`ProviderError`] of kind *invalid request* without a text.
pub fn encode_embedding_request(request: &EmbeddingRequest, dialect: &Dialect) -> Result<Encoded, ProviderError> {
    if request.inputs.is_empty() {
        let said = "there is no text to embed";
        return Err(ProviderError::new(ErrorKind::InvalidRequest, dialect.provider.clone(), said));
    }
    let requests: Vec<Value> = request
        .inputs
        .iter()
        .map(|text| {
            let mut form = Map::new();
            form.insert("model".to_owned(), resource(&request.model).into());
            form.insert("content".to_owned(), json!({"parts": [{"text": text}]}));
            if let Some(task) = &request.task {
                form.insert("taskType".to_owned(), task.to_ascii_uppercase().into());
            }
            if let Some(dimensions) = request.dimensions {
                form.insert("outputDimensionality".to_owned(), dimensions.into());
            }
            form.extend(request.extra.iter().map(|(key, value)| (key.clone(), value.clone())));
            Value::Object(form)
        })
        .collect();
    let omitted: Vec<Omission> = Vec::new();
    Ok(Encoded { body: json!({"requests": requests}).to_string().into(), omitted, names: Names::default() })
}

/// Reads an `embedContent` or a `batchEmbedContents` body. The model of a single one may stand in the path alone.
///
/// # Errors
/// [`RequestError`] where a text is missing, or the requests of a batch ask for different things.
pub fn decode_embedding_request(body: &[u8]) -> Result<EmbeddingRequest, RequestError> {
    let mut value: Value = serde_json::from_slice(body).map_err(|error| RequestError::not_json(&error))?;
    let Value::Object(map) = &mut value else { return Err(RequestError::field("", "expected an object")) };
    let requests = match take(map, "requests") {
        Some(Value::Array(requests)) if !requests.is_empty() => requests,
        Some(_) => return Err(RequestError::field("requests", "expected a list of at least one request")),
        None => vec![Value::Object(std::mem::take(map))],
    };
    let mut found: Option<EmbeddingRequest> = None;
    for (at, request) in requests.into_iter().enumerate() {
        let field = |name: &str| format!("requests[{at}].{name}");
        let Value::Object(mut request) = request else {
            return Err(RequestError::field(format!("requests[{at}]"), "expected an object"));
        };
        let parts = take_object(&mut request, "content").and_then(|mut content| take(&mut content, "parts"));
        let parts = match parts {
            Some(Value::Array(parts)) => parts,
            Some(part @ Value::Object(_)) => vec![part],
            _ => return Err(RequestError::field(field("content"), "expected an object with `parts`")),
        };
        let mut text = String::new();
        for part in &parts {
            let piece = part.get("text").and_then(Value::as_str);
            text.push_str(
                piece.ok_or_else(|| RequestError::field(field("content.parts"), "only texts are embedded here"))?,
            );
        }
        let model = take_text(&mut request, "model").map(|model| bare(&model).to_owned()).unwrap_or_default();
        let dimensions = super::hosted::take_count(&mut request, "outputDimensionality");
        let task = take_text(&mut request, "taskType");
        request.retain(|_, value| !value.is_null());
        let one = EmbeddingRequest { model, inputs: vec![text], dimensions, task, extra: request };
        match &mut found {
            None => found = Some(one),
            Some(known) => {
                let is_same = EmbeddingRequest { inputs: Vec::new(), ..known.clone() }
                    == EmbeddingRequest { inputs: Vec::new(), ..one.clone() };
                if !is_same {
                    let said = "all requests of a batch must ask for the same model, size and task";
                    return Err(RequestError::field(format!("requests[{at}]"), said));
                }
                known.inputs.extend(one.inputs);
            }
        }
    }
    found.ok_or_else(|| RequestError::field("requests", "expected at least one request"))
}

/// Reads embeddings in each of the shapes that Google's servers have: of a batch, of one text, of Vertex's predictions.
///
/// # Errors
/// [`ProviderError`] of kind *protocol* where there are none.
pub fn decode_embeddings(provider: &ProviderId, body: &[u8]) -> Result<Embeddings, ProviderError> {
    let value = parse(provider, body)?;
    let values = |entry: &Value| -> Option<Vec<f32>> {
        #[expect(clippy::cast_possible_truncation, reason = "models compute in single precision")]
        let number = |number: &Value| number.as_f64().map(|number| number as f32);
        entry.get("values")?.as_array()?.iter().map(number).collect()
    };
    let vectors: Option<Vec<Vec<f32>>> = if let Some(list) = value.get("embeddings").and_then(Value::as_array) {
        list.iter().map(values).collect()
    } else if let Some(one) = value.get("embedding") {
        values(one).map(|one| vec![one])
    } else if let Some(list) = value.get("predictions").and_then(Value::as_array) {
        list.iter().map(|entry| entry.get("embeddings").and_then(values)).collect()
    } else {
        None
    };
    let vectors = vectors.ok_or_else(|| no_such(provider, &value, "the answer holds no embeddings"))?;
    let count = |entry: &Value, path: &str| {
        let count = entry.pointer(path)?;
        count.as_u64().or_else(|| {
            let count = count.as_f64().filter(|count| *count >= 0.0)?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of tokens")]
            Some(count as u64)
        })
    };
    let of_each = |list: &str, path: &str| {
        let list = value.get(list).and_then(Value::as_array).into_iter().flatten();
        list.map(|entry| count(entry, path)).sum::<Option<u64>>().filter(|count| *count > 0)
    };
    let input = count(&value, "/usageMetadata/promptTokenCount")
        .or_else(|| of_each("predictions", "/embeddings/statistics/token_count"))
        .or_else(|| of_each("embeddings", "/statistics/tokenCount"));
    let usage = input.map(|input| Usage { input, ..Usage::default() });
    Ok(Embeddings { model: None, vectors, usage })
}

/// Embeddings as a client reads them: those of a batch as a list, that of `embedContent` alone.
#[must_use]
pub fn encode_embeddings(embeddings: &Embeddings, is_batch: bool) -> Value {
    let mut form = Map::new();
    let vectors: Vec<Value> = embeddings.vectors.iter().map(|values| json!({"values": values})).collect();
    if is_batch {
        form.insert("embeddings".to_owned(), Value::Array(vectors));
    } else {
        form.insert("embedding".to_owned(), vectors.into_iter().next().unwrap_or_else(|| json!({"values": []})));
    }
    if let Some(usage) = &embeddings.usage {
        let mut usage = usage::encode(usage, None);
        if let Value::Object(usage) = &mut usage {
            usage.shift_remove("candidatesTokenCount");
        }
        form.insert("usageMetadata".to_owned(), usage);
    }
    Value::Object(form)
}

/// Content that the provider holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedContent {
    /// The provider's name of it, to be given in later requests and to delete it by: `cachedContents/…`.
    pub name: String,
    /// Until when it is held, as the provider writes it (RFC 3339).
    pub expires: Option<String>,
    /// How many tokens it is.
    pub tokens: Option<u64>,
}

/// The body of a request to hold the instructions, tools and conversation of a request, for so many seconds.
///
/// # Errors
/// As [`super::encode_request`].
pub fn encode_cached_content(
    request: &TurnRequest,
    dialect: &Dialect,
    seconds: Option<u64>,
) -> Result<Encoded, ProviderError> {
    let mut encoded = encode_request(request, dialect)?;
    let whole: Map<String, Value> = serde_json::from_slice(&encoded.body).unwrap_or_default();
    let mut body = Map::new();
    body.insert("model".to_owned(), resource(&request.model).into());
    for (key, value) in whole {
        let is_empty = value.as_array().is_some_and(Vec::is_empty);
        if matches!(key.as_str(), "systemInstruction" | "tools" | "toolConfig" | "contents") && !is_empty {
            body.insert(key, value);
        }
    }
    if let Some(seconds) = seconds {
        body.insert("ttl".to_owned(), format!("{seconds}s").into());
    }
    encoded.body = Value::Object(body).to_string().into();
    Ok(encoded)
}

/// Reads what the provider says of content that it holds.
///
/// # Errors
/// [`ProviderError`] of kind *protocol* where it has no name.
pub fn decode_cached_content(provider: &ProviderId, body: &[u8]) -> Result<CachedContent, ProviderError> {
    let value = parse(provider, body)?;
    let word = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let name = word("name").ok_or_else(|| no_such(provider, &value, "the answer names no cached content"))?;
    let tokens = value.pointer("/usageMetadata/totalTokenCount").and_then(Value::as_u64);
    Ok(CachedContent { name, expires: word("expireTime"), tokens })
}
