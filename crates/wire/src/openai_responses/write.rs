//! JSON, written straight into a buffer.

use crate::json;
use serde::Serialize;
use serde_json::{Map, Value};

/// Appends a value. Texts and JSON values always can be written; what cannot (a map with keys that are no texts) is `null`.
pub(super) fn value(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let start = out.len();
    if json::append(out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// An object that is being written.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Object { out, is_empty: true }
    }

    /// Writes a key of the protocol's, in which nothing needs escaping; its value is to be written to what comes back.
    pub(super) fn key(&mut self, key: &'static str) -> &mut Vec<u8> {
        self.out.extend_from_slice(if std::mem::replace(&mut self.is_empty, false) { b"\"" } else { b",\"" });
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Writes a key that somebody else chose.
    pub(super) fn any_key(&mut self, key: &str) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
        value(self.out, key);
        self.out.push(b':');
        self.out
    }

    pub(super) fn field(&mut self, key: &'static str, content: &(impl Serialize + ?Sized)) {
        value(self.key(key), content);
    }

    /// A field whose value is JSON already.
    pub(super) fn raw(&mut self, key: &'static str, json: &[u8]) {
        self.key(key).extend_from_slice(json);
    }

    /// All fields of a map but these.
    pub(super) fn merge(&mut self, map: &Map<String, Value>, but: &[&str]) {
        for (key, content) in map {
            if !but.contains(&key.as_str()) {
                value(self.any_key(key), content);
            }
        }
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

/// A list that is being written.
pub(super) struct List<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> List<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'[');
        List { out, is_empty: true }
    }

    /// Begins the next element, which is to be written to what comes back.
    pub(super) fn next(&mut self) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
        self.out
    }

    pub(super) fn push(&mut self, content: &(impl Serialize + ?Sized)) {
        value(self.next(), content);
    }

    pub(super) fn end(self) {
        self.out.push(b']');
    }
}
