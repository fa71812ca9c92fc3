//! References to models, as people write them: `openai:gpt-5.4`.

use placet_core::{Diagnose, ErrorKind, ProviderId};
use std::fmt;

/// A model of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelRef {
    /// The provider's id or one of its aliases.
    pub provider: ProviderId,
    /// The provider's name of the model; empty where the provider has but one.
    pub model: String,
}

/// Beginnings of bare names, and whose they are.
const INFERRED: [(&str, &str); 8] = [
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("claude-", "anthropic"),
    ("gemini-", "google"),
    ("grok-", "xai"),
];

/// Providers that have but one model, or none to speak of.
const WITHOUT_MODEL: [&str; 2] = ["offline", "echo"];

impl ModelRef {
    /// A reference.
    pub fn new(provider: impl Into<ProviderId>, model: impl Into<String>) -> Self {
        ModelRef { provider: provider.into(), model: model.into() }
    }

    /// Reads a reference. The first `:` splits provider and model, else the first `/`; a bare name is known by its
    /// beginning (`gpt-`, `o3`, `claude-` …), or is `offline` or `echo`.
    ///
    /// # Errors
    /// [`InvalidModelRef`] where the text is none of these.
    pub fn parse(text: &str) -> Result<Self, InvalidModelRef> {
        let text = text.trim();
        let invalid = |problem| InvalidModelRef { given: text.chars().take(80).collect(), problem };
        if let Some((provider, model)) = text.split_once(':').or_else(|| text.split_once('/')) {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if provider.is_empty() || !provider.chars().all(is_name) {
                return Err(invalid("a provider's name has letters, digits, `-`, `_` and `.`"));
            }
            if model.is_empty() && !WITHOUT_MODEL.contains(&provider) {
                return Err(invalid("the model is missing"));
            }
            return Ok(ModelRef::new(provider, model));
        }
        if WITHOUT_MODEL.contains(&text) {
            return Ok(ModelRef::new(text, ""));
        }
        let is_known = |beginning: &str| {
            // `o3` and `o3-mini`, but not `o3x`; `gpt-5`, but not `gpt-`.
            match text.strip_prefix(beginning) {
                Some(rest) if beginning.ends_with('-') => !rest.is_empty(),
                Some(rest) => rest.is_empty() || rest.starts_with('-'),
                None => false,
            }
        };
        match INFERRED.iter().find(|(beginning, _)| is_known(beginning)) {
            Some((_, provider)) => Ok(ModelRef::new(*provider, text)),
            None => Err(invalid("no provider can be told from the name alone")),
        }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.provider)?;
        if self.model.is_empty() { Ok(()) } else { write!(f, ":{}", self.model) }
    }
}

impl std::str::FromStr for ModelRef {
    type Err = InvalidModelRef;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        ModelRef::parse(text)
    }
}

/// A text is no reference to a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no reference to a model: {problem}; expected provider:model, for example openai:gpt-5.4")]
pub struct InvalidModelRef {
    /// What arrived, cut to 80 characters.
    pub given: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl Diagnose for InvalidModelRef {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidRequest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_in_their_forms() {
        for (text, provider, model) in [
            ("openai:gpt-5.4", "openai", "gpt-5.4"),
            ("ollama:llama3.2:3b", "ollama", "llama3.2:3b"),
            ("openrouter:meta-llama/llama-4", "openrouter", "meta-llama/llama-4"),
            ("anthropic/claude-x", "anthropic", "claude-x"),
            ("scripted:dir/turns.json", "scripted", "dir/turns.json"),
            ("gpt-5.4-mini", "openai", "gpt-5.4-mini"),
            ("o3", "openai", "o3"),
            ("o4-mini", "openai", "o4-mini"),
            ("claude-opus-5", "anthropic", "claude-opus-5"),
            ("gemini-4-argon", "google", "gemini-4-argon"),
            ("grok-4.7", "xai", "grok-4.7"),
            (" offline ", "offline", ""),
            ("echo", "echo", ""),
        ] {
            assert_eq!(ModelRef::parse(text), Ok(ModelRef::new(provider, model)), "{text}");
        }
        assert_eq!(ModelRef::new("offline", "").to_string(), "offline");
        assert_eq!(ModelRef::new("a", "b:c").to_string(), "a:b:c");
    }

    #[test]
    fn what_is_none_says_what_was_expected() {
        for text in ["", "o3x", "llama", "gpt-", ":x", "openai:", "a b:c", "gpt"] {
            let error = ModelRef::parse(text).expect_err(text);
            assert!(error.to_string().contains("openai:gpt-5.4"), "{error}");
        }
    }
}
