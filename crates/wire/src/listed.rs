//! What a provider's list says of a model.

/// One model of a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel {
    /// Its id.
    pub id: String,
    /// What the server says of it.
    pub description: Option<String>,
}
