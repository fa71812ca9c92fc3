//! Proposals: a tool call that a model wrote as JSON in its text, for models without a way of their own to call tools.
//!
//! A proposal becomes a [`ToolCall`] and passes the same pipeline as any other.

use placet_core::{Arguments, CallId, ToolCall, ToolName};
use serde_json::{Map, Value};

/// A tool and arguments, asked for in text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Which tool.
    pub name: ToolName,
    /// With what.
    pub arguments: Arguments,
}

impl Proposal {
    /// The call, under an id of ours.
    #[must_use]
    pub fn into_call(self, id: CallId) -> ToolCall {
        ToolCall { id, provider_id: None, name: self.name, arguments: self.arguments, native: None }
    }
}

/// A text holds no proposal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProposal {
    /// There is no JSON object in it.
    #[error("the text holds no JSON object; expected {{\"name\": \"…\", \"arguments\": {{…}}}}")]
    NoObject,
    /// There are JSON objects in it, but none that proposes a call.
    #[error(
        "the JSON object is no proposal: expected the fields \"name\" (a text) and \"arguments\" (an object), got {fields}"
    )]
    NotAProposal {
        /// The fields of the first object, cut to 200 bytes.
        fields: String,
    },
}

/// How many places of a text are tried for the beginning of an object.
const TRIES: usize = 64;

/// Finds the first proposal in a text: an object `{"name": …, "arguments": {…}}`, alone, in a fenced block or among
/// prose. Arguments may be missing, where the tool takes none, or be a JSON text; `parameters` is taken for `arguments`. An
/// object with other fields beside these is no proposal.
///
/// # Errors
/// [`InvalidProposal`] when there is none.
pub fn parse_proposal(text: &str) -> Result<Proposal, InvalidProposal> {
    let mut first: Option<String> = None;
    let mut from = 0;
    for _ in 0..TRIES {
        let Some(offset) = text[from..].find('{') else { break };
        let start = from + offset;
        let mut objects = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Map<String, Value>>();
        match objects.next() {
            Some(Ok(object)) => {
                if let Some(proposal) = read(&object) {
                    return Ok(proposal);
                }
                first.get_or_insert_with(|| {
                    let names = object.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                    crate::pipeline::bound::clip(&names, 200).into_owned()
                });
                // What lies within an object that is no proposal is part of something else.
                from = start + objects.byte_offset().max(1);
            }
            _ => from = start + 1,
        }
    }
    Err(first.map_or(InvalidProposal::NoObject, |fields| InvalidProposal::NotAProposal { fields }))
}

fn read(object: &Map<String, Value>) -> Option<Proposal> {
    let name = object.get("name")?.as_str()?;
    let arguments = match (object.get("arguments"), object.get("parameters")) {
        (Some(_), Some(_)) => return None,
        (one, other) => one.or(other),
    };
    let known = 1 + usize::from(arguments.is_some());
    if object.len() != known {
        return None;
    }
    let arguments = arguments.map_or_else(|| Arguments::from_text("{}"), Arguments::from_value);
    Some(Proposal { name: name.into(), arguments })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_proposal_is_found_alone_fenced_and_among_prose() {
        for text in [
            r#"{"name": "move", "arguments": {"dx": 1}}"#,
            "```json\n{\"name\": \"move\", \"arguments\": {\"dx\": 1}}\n```",
            r#"I go east {so to speak}: {"arguments": {"dx": 1}, "name": "move"} and look."#,
            r#"{"name": "move", "parameters": {"dx": 1}}"#,
            r#"{"name": "move", "arguments": "{\"dx\": 1}"}"#,
            r#"{"thought": {"name": "wait"}} {"name": "move", "arguments": {"dx": 1}} {"name": "wait"}"#,
        ] {
            let proposal = parse_proposal(text).unwrap();
            assert_eq!(proposal.name.as_str(), "move", "{text}");
            assert_eq!(Value::Object(proposal.arguments.parse().unwrap()), json!({"dx": 1}), "{text}");
        }
        assert_eq!(parse_proposal(r#"{"name": "wait"}"#).unwrap().arguments.as_text(), "{}");
    }

    #[test]
    fn what_is_no_proposal_is_an_error() {
        assert_eq!(parse_proposal("I would move east."), Err(InvalidProposal::NoObject));
        assert_eq!(parse_proposal("{{{{{"), Err(InvalidProposal::NoObject));
        for text in [r#"{"tool": "move"}"#, r#"{"name": 5}"#, r#"{"name": "ada", "age": 36}"#] {
            assert!(matches!(parse_proposal(text), Err(InvalidProposal::NotAProposal { .. })), "{text}");
        }
    }
}
