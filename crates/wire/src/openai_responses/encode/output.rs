//! The shape of the answer, onto the wire.

use super::{Body, Encoder};
use crate::names::alias;
use crate::openai_responses::OutputSupport;
use placet_core::ProviderError;
use serde_json::json;

impl Encoder<'_> {
    pub(super) fn output(&mut self, body: &mut Body<'_>) -> Result<(), ProviderError> {
        let Some(output) = &self.request.output else { return Ok(()) };
        let is_any_object = !output.strict && *output.schema.as_value() == json!({"type": "object"});
        let format = match self.dialect.output {
            OutputSupport::Schema if !is_any_object => {
                let mut format = json!({
                    "type": "json_schema", "name": alias(&output.name), "schema": output.schema.as_value(),
                    "strict": output.strict,
                });
                if let Some(description) = &output.description {
                    format["description"] = description.as_str().into();
                }
                format
            }
            OutputSupport::Schema | OutputSupport::Object if !output.strict => {
                if !is_any_object {
                    self.omitted.add("output.loose", "the server takes no schema; it is only told to answer with JSON");
                }
                if output.description.is_some() {
                    self.omitted.add("output.description", "the server takes it with a schema only");
                }
                json!({"type": "json_object"})
            }
            _ if output.strict => return Err(self.unsupported("output.strict")),
            // An answer that is to be JSON is more than a hint, whatever its schema is.
            _ => return Err(self.unsupported(if is_any_object { "output.any_object" } else { "output.loose" })),
        };
        body.put_in("text", "format", format);
        Ok(())
    }
}
