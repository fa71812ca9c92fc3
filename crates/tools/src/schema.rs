//! JSON Schemas of arguments: made from a type or from a short form, compared, compiled and checked.

mod lint;
mod shape;
mod typed;
mod validator;

pub(crate) use lint::{bad_examples, bad_examples_within};
pub(crate) use shape::differences;
pub use typed::{NoArguments, parameters, schema_of};
pub use validator::{Problem, Validator};

/// A schema is not one, or not one for arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchema(pub(crate) String);
