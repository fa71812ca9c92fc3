//! The shape of the answer, onto the wire.

use super::{Encoder, Fields};
use crate::names::alias;
use crate::openai_chat::OutputSupport;
use placet_core::{ProviderError, TurnRequest};
use serde_json::{Map, json};

impl<'a> Encoder<'a> {
    pub(super) fn output(&mut self, request: &'a TurnRequest, fields: &mut Fields<'a>) -> Result<(), ProviderError> {
        let Some(output) = &request.output else { return Ok(()) };
        let is_any_object = !output.strict && *output.schema.as_value() == json!({"type": "object"});
        let any_object = json!({"type": "json_object"});
        match self.dialect.output {
            OutputSupport::Schema | OutputSupport::Object if is_any_object => {
                if output.description.is_some() {
                    self.omitted.add("output.description", "the server takes it with a schema only");
                }
                fields.put("response_format", &any_object)
            }
            OutputSupport::Schema => {
                let mut form = Map::new();
                form.insert("name".into(), alias(&output.name).into());
                if let Some(description) = &output.description {
                    form.insert("description".into(), description.as_str().into());
                }
                form.insert("schema".into(), output.schema.as_value().clone());
                form.insert("strict".into(), output.strict.into());
                fields.put("response_format", &json!({"type": "json_schema", "json_schema": form}))
            }
            _ if output.strict => Err(self.unsupported("output.strict", "a schema for its answer")),
            OutputSupport::Object => {
                self.omitted.add("output.loose", "the server takes no schema; it is only told to answer with JSON");
                fields.put("response_format", &any_object)
            }
            // An answer that is to be JSON is more than a hint, whatever its schema is.
            OutputSupport::None => {
                let field = if is_any_object { "output.any_object" } else { "output.loose" };
                Err(self.unsupported(field, "a demand for JSON as its answer"))
            }
        }
    }
}
