//! Texts as vectors, whose distance says how much they have in common.

use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A request to embed some texts, in no provider's words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingRequest {
    /// The provider's name of the model, without the provider.
    pub model: String,
    /// The texts, each of which gets one vector.
    pub inputs: Vec<String>,
    /// How many numbers a vector should have. A constraint; absent: as many as the model makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<u64>,
    /// What the vectors are for, in the provider's words: `RETRIEVAL_QUERY`, `search_document` … A hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Fields of the provider's own protocol, merged last.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// Embedded texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Embeddings {
    /// The model that made them, where the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// One vector for each text, in the order of the texts. Single precision, as models compute them.
    pub vectors: Vec<Vec<f32>>,
    /// What it used; absent where the provider did not say. Never estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_form_leaves_out_what_is_absent() {
        let request = EmbeddingRequest {
            model: "embed-1".into(),
            inputs: vec!["one".into()],
            dimensions: Some(3),
            ..EmbeddingRequest::default()
        };
        let form = serde_json::to_value(&request).expect("a value");
        assert_eq!(form, json!({"model": "embed-1", "inputs": ["one"], "dimensions": 3}));
        assert_eq!(serde_json::from_value::<EmbeddingRequest>(form).expect("a request"), request);
        let answer = Embeddings { vectors: vec![vec![0.5, -0.25]], ..Embeddings::default() };
        let form = serde_json::to_value(&answer).expect("a value");
        assert_eq!(form, json!({"vectors": [[0.5, -0.25]]}));
        assert_eq!(serde_json::from_value::<Embeddings>(form).expect("embeddings"), answer);
    }
}
