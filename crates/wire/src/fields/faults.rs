//! An encoder held against its table of fields.

use super::examples::example;
use super::{ALL_FIELDS, Class, FieldRule, Support, class_of};
use placet_core::{ErrorKind, ProviderError, ProviderId, TurnRequest};
use serde_json::Value;

/// How an encoder answers: the body and what was left out, or the error.
pub(crate) type Answer = Result<(Value, Vec<String>), ProviderError>;

/// What an encoder does otherwise than its table says, a sentence each. Every field of the table of all fields must have its
/// row.
pub(crate) fn faults(rules: &[FieldRule], own: &ProviderId, encode: impl Fn(&TurnRequest) -> Answer) -> Vec<String> {
    let mut faults = Vec::new();
    for (field, class) in ALL_FIELDS {
        let Some(rule) = rules.iter().find(|rule| rule.field == *field) else {
            faults.push(format!("{field}: has no row"));
            continue;
        };
        let support = rule.support;
        if rule.class != *class {
            faults.push(format!("{field}: is a {class:?}, not a {:?}", rule.class));
        }
        if matches!(support, Support::Omitted | Support::Told) && !matches!(class, Class::Hint | Class::State) {
            faults.push(format!("{field}: a {class:?} may not be left out"));
        }
        let (without, with) = example(field, own);
        let base = match encode(&without) {
            Ok((body, _)) => body,
            Err(error) => {
                // What is a detail of something that is refused itself is refused with it.
                let whole: Vec<&str> = field.splitn(3, '.').take(2).collect();
                if support != Support::Refused || !error.message.contains(&format!("`{}", whole.join("."))) {
                    faults.push(format!("{field}: the request without it is refused: {error}"));
                }
                continue;
            }
        };
        match (support, encode(&with)) {
            (Support::Expressed, Ok((body, omitted))) => {
                if omitted.iter().any(|what| what == field) {
                    faults.push(format!("{field}: is left out"));
                } else if body == base {
                    faults.push(format!("{field}: makes no difference"));
                }
            }
            (Support::Omitted, Ok((body, omitted))) => {
                if !omitted.iter().any(|what| what == field) {
                    faults.push(format!("{field}: is not reported, but {omitted:?}"));
                } else if body != base {
                    faults.push(format!("{field}: is reported as left out, but makes a difference"));
                }
            }
            (Support::Told, Ok((body, omitted))) => {
                if !omitted.iter().any(|what| what == field) {
                    faults.push(format!("{field}: is not reported, but {omitted:?}"));
                } else if body == base {
                    faults.push(format!("{field}: is not told"));
                }
            }
            (Support::Implied, Ok((body, omitted))) => {
                if body != base || omitted.iter().any(|what| what == field) {
                    faults.push(format!("{field}: is no matter of course: {body} without {omitted:?}"));
                }
            }
            (Support::Refused, Err(error)) => {
                if error.kind != ErrorKind::Unsupported || !error.message.contains(&format!("`{field}`")) {
                    faults.push(format!("{field}: the refusal does not name it: {error:?}"));
                }
            }
            (support, Ok((body, omitted))) => {
                faults.push(format!("{field}: should be {support:?}; {body} without {omitted:?}"))
            }
            (support, Err(error)) => faults.push(format!("{field}: should be {support:?}; {error}")),
        }
    }
    faults.extend(
        rules
            .iter()
            .filter(|rule| class_of(rule.field).is_none())
            .map(|rule| format!("{}: there is no such field", rule.field)),
    );
    faults
}
