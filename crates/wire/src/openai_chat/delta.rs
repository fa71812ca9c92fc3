//! What the deltas of a stream are written of.

use serde::Serialize;
use serde_json::{Map, Value};

/// Writes a value as JSON. What is written here is made of texts, numbers and trees, which always succeeds.
pub(super) fn put(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let _ = serde_json::to_writer(out, value);
}

/// A piece of text as the one field of a delta.
pub(super) fn piece(out: &mut Vec<u8>, key: &str, text: &str) {
    out.push(b'"');
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    put(out, text);
}

/// A field, its name before it.
pub(super) fn field(out: &mut Vec<u8>, key: &str, value: &Value) {
    put(out, key);
    out.push(b':');
    put(out, value);
}

/// Further fields of an object that has some.
pub(super) fn more(out: &mut Vec<u8>, fields: &Map<String, Value>) {
    for (key, value) in fields {
        out.push(b',');
        field(out, key, value);
    }
}

/// The beginning of a piece of a call.
pub(super) fn call_head(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(b"\"tool_calls\":[{\"index\":");
    put(out, &number);
}
