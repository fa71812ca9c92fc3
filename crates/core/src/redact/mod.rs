//! placeholder
use serde::{Deserialize, Serialize};
/// placeholder
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Redactions(std::collections::BTreeMap<String, u64>);
impl Redactions {
    /// p
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
/// p
#[derive(Debug, Clone)]
pub struct Redactor;
