//! Argument validation: a schema compiled once, and problems in words that a model can act on.

use super::InvalidSchema;
use jsonschema::error::ValidationErrorKind;
use serde::Serialize;
use serde_json::Value;
use std::fmt::{self, Write as _};

/// How many problems of one value are told.
const PROBLEMS: usize = 16;
/// How long one problem's text may be, in bytes.
const PROBLEM_LENGTH: usize = 300;
/// Up to how many bytes of JSON an offending value is quoted whole.
const QUOTED: usize = 80;

/// One thing that is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where, as a JSON pointer; empty for the whole.
    pub path: String,
    /// What was expected and what arrived.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.problem),
            path => write!(f, "{path}: {}", self.problem),
        }
    }
}

/// A compiled JSON Schema (drafts 2020-12, which is the default, and 7; older ones where `$schema` names them).
///
/// References lead within the schema only: nothing is fetched. As these drafts have it, `format` is an annotation and is
/// not checked; what a handler's type demands of a text it checks itself.
pub struct Validator {
    compiled: jsonschema::Validator,
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validator").finish_non_exhaustive()
    }
}

impl Validator {
    /// Compiles a schema.
    ///
    /// # Errors
    /// [`InvalidSchema`] when it is no JSON Schema, or refers to something outside of itself.
    pub fn compile(schema: &Value) -> Result<Self, InvalidSchema> {
        Self::compile_with(schema, jsonschema::options().offline().should_validate_formats(false))
    }

    pub(crate) fn compile_with(
        schema: &Value,
        options: jsonschema::ValidationOptions<'_>,
    ) -> Result<Self, InvalidSchema> {
        match options.build(schema) {
            Ok(compiled) => Ok(Validator { compiled }),
            Err(error) => Err(InvalidSchema(match error.instance_path().as_str() {
                "" => clipped(&error.to_string()),
                path => format!("at {path}: {}", clipped(&error.to_string())),
            })),
        }
    }

    /// Whether the value follows the schema.
    #[must_use]
    pub fn is_valid(&self, value: &Value) -> bool {
        self.compiled.is_valid(value)
    }

    /// What is wrong with the value: nothing, or up to 16 problems in the order of the schema.
    #[must_use]
    pub fn problems(&self, value: &Value) -> Vec<Problem> {
        if self.compiled.is_valid(value) {
            return Vec::new();
        }
        self.compiled.iter_errors(value).take(PROBLEMS).map(|error| problem(&error)).collect()
    }
}

fn problem(error: &jsonschema::ValidationError<'_>) -> Problem {
    let path = error.instance_path().as_str().to_owned();
    let mut text = match error.kind() {
        ValidationErrorKind::Required { property } => format!("the field {property} is missing"),
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            format!("unexpected field {}; only the fields of the schema are taken", unexpected.join(", "))
        }
        ValidationErrorKind::Enum { options } => {
            format!("expected one of {options}, got {}", shown(error.instance()))
        }
        ValidationErrorKind::Constant { expected_value } => {
            format!("expected {expected_value}, got {}", shown(error.instance()))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let mut text = format!("{} fits none of the alternatives", shown(error.instance()));
            for (number, branch) in context.iter().take(3).enumerate() {
                if let Some(first) = branch.first() {
                    let _ = write!(text, "; {}: {}", number + 1, one_line(first));
                }
            }
            text
        }
        _ => one_line(error),
    };
    if text.len() > PROBLEM_LENGTH {
        text = clipped(&text);
    }
    Problem { path, problem: text }
}

/// The library's own words, with a long value left out.
fn one_line(error: &jsonschema::ValidationError<'_>) -> String {
    let value = shown(error.instance());
    if value.ends_with('…') { error.masked_with(value).to_string() } else { error.to_string() }
}

/// A value as JSON, or its beginning where it is long.
fn shown(value: &Value) -> String {
    let json = value.to_string();
    if json.len() <= QUOTED { json } else { format!("{}…", crate::pipeline::bound::head(&json, QUOTED)) }
}

fn clipped(text: &str) -> String {
    if text.len() <= PROBLEM_LENGTH {
        text.to_owned()
    } else {
        format!("{}…", crate::pipeline::bound::head(text, PROBLEM_LENGTH))
    }
}

#[cfg(test)]
mod suite_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn problems_say_where_what_was_expected_and_what_arrived() {
        let schema = json!({
            "type": "object",
            "properties": {
                "dx": {"type": "integer", "minimum": -1},
                "mode": {"enum": ["walk", "run"]},
                "to": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["x"]}]},
                "tags": {"type": "array", "items": {"type": "string"}}
            },
            "required": ["dx"],
            "additionalProperties": false
        });
        let validator = Validator::compile(&schema).expect("a schema");
        for (value, path, says) in [
            (json!({"dx": "east"}), "/dx", "\"east\" is not of type \"integer\""),
            (json!({"dx": -2}), "/dx", "-2 is less than the minimum of -1"),
            (json!({}), "", "the field \"dx\" is missing"),
            (json!({"dx": 0, "dz": 1}), "", "unexpected field dz"),
            (json!({"dx": 0, "mode": "fly"}), "/mode", "expected one of [\"walk\",\"run\"], got \"fly\""),
            (json!({"dx": 0, "tags": ["a", 5]}), "/tags/1", "5 is not of type \"string\""),
            (json!({"dx": 0, "to": 5}), "/to", "5 fits none of the alternatives; 1: 5 is not of type \"string\""),
        ] {
            let problems = validator.problems(&value);
            assert_eq!(problems.len(), 1, "{value}: {problems:?}");
            assert_eq!(problems[0].path, path);
            assert!(problems[0].problem.contains(says), "{problems:?}");
        }
        assert_eq!(validator.problems(&json!({"dx": 1, "mode": "walk"})), []);
    }

    #[test]
    fn a_long_value_is_not_quoted_whole() {
        let validator = Validator::compile(&json!({"properties": {"a": {"type": "integer"}}})).expect("a schema");
        let problems = validator.problems(&json!({"a": "ä".repeat(100_000)}));
        assert!(problems[0].problem.len() <= PROBLEM_LENGTH + 3, "{}", problems[0].problem.len());
        assert!(problems[0].problem.contains("is not of type \"integer\""), "{problems:?}");
    }

    #[test]
    fn what_is_no_schema_or_leads_outside_is_refused() {
        for (schema, says) in [
            (json!({"type": "strin"}), "strin"),
            (json!({"properties": {"a": {"$ref": "https://example.org/a.json"}}}), "example.org"),
            (json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "passwd"),
            (json!({"properties": {"a": {"$ref": "#/$defs/none"}}}), "none"),
        ] {
            let error = Validator::compile(&schema).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
