//! Writing values as `serde_json` does, but for the speed of texts.

use placet_core::json_text::append as text;
use placet_core::{Arguments, SharedText};
use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde::ser::{self, Serialize, Serializer};
use serde_json::Error;
use serde_json::value::RawValue;

/// The JSON of a value of about so many bytes.
///
/// # Errors
/// As for [`to_vec`].
pub(crate) fn to_vec_within(room: usize, value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(room);
    append(&mut out, value)?;
    Ok(out)
}

/// The JSON of a value.
///
/// # Errors
/// What cannot be written: a map with keys that are no texts, what a `Serialize` of somebody else's refuses.
pub(crate) fn to_vec(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, Error> {
    to_vec_within(256, value)
}

/// Appends the JSON of a value.
///
/// # Errors
/// As for [`to_vec`]; what stands in the buffer then is not whole.
pub(crate) fn append(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
    value.serialize(Writer { out, is_json: false })
}

/// What `serde_json` calls the values that it writes in a way of its own: JSON that is written already.
const PRIVATE: &str = "$serde_json::private::";
const RAW: &str = "$serde_json::private::RawValue";

/// A text that is known to be JSON, to be written as it is.
pub(crate) fn verbatim(text: &str) -> Option<Box<RawValue>> {
    // The form in which it comes from a reader that has looked at it already: it is not looked at again.
    let form = MapDeserializer::<_, Error>::new(std::iter::once((RAW, text)));
    Box::<RawValue>::deserialize(form).ok().or_else(|| RawValue::from_string(text.to_owned()).ok())
}

/// A text, which is written as it came where it came from JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written<'a>(pub(crate) &'a SharedText);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_json() {
            Some(json) => as_is(json, serializer),
            None => serializer.serialize_str(self.0),
        }
    }
}

/// The arguments of a call as a text, to be replayed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed<'a>(pub(crate) &'a Arguments);

impl Serialize for Replayed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.replay_json() {
            Some(json) => as_is(json, serializer),
            None => serializer.serialize_str(self.0.replay_text()),
        }
    }
}

/// Writes JSON as a `RawValue` is written, without making one of it.
fn as_is<S: Serializer>(json: &str, serializer: S) -> Result<S::Ok, S::Error> {
    use ser::SerializeStruct;
    let mut raw = serializer.serialize_struct(RAW, 1)?;
    raw.serialize_field(RAW, json)?;
    raw.end()
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Whether the text that comes is JSON itself.
    is_json: bool,
}

/// A list or an object that is being written.
struct Open<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
    /// What closes it.
    close: &'static [u8],
    /// One of `serde_json`'s own values.
    is_private: bool,
}

impl<'a> Writer<'a> {
    fn open(self, open: &[u8], close: &'static [u8]) -> Open<'a> {
        self.out.extend_from_slice(open);
        Open { out: self.out, is_empty: true, close, is_private: false }
    }

    /// An object of one field, whose value is written next.
    fn variant(&mut self, name: &str) {
        self.out.push(b'{');
        text(self.out, name);
        self.out.push(b':');
    }
}

macro_rules! plain {
    ($($method:ident $kind:ty),*) => {
        $(fn $method(self, value: $kind) -> Result<(), Error> {
            serde_json::to_writer(self.out, &value)
        })*
    };
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Open<'a>;
    type SerializeTuple = Open<'a>;
    type SerializeTupleStruct = Open<'a>;
    type SerializeTupleVariant = Open<'a>;
    type SerializeMap = Open<'a>;
    type SerializeStruct = Open<'a>;
    type SerializeStructVariant = Open<'a>;

    plain! {
        serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64, serialize_i128 i128,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_u128 u128,
        serialize_f32 f32, serialize_f64 f64, serialize_bytes &[u8], serialize_char char
    }

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        if self.is_json {
            self.out.extend_from_slice(value.as_bytes());
        } else {
            text(self.out, value);
        }
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.variant(variant);
        append(self.out, value)?;
        self.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'a>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'a>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'a>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'a>, Error> {
        self.variant(variant);
        Ok(self.open(b"[", b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'a>, Error> {
        Ok(self.open(b"{", b"}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Open<'a>, Error> {
        if name.starts_with(PRIVATE) {
            return Ok(Open { out: self.out, is_empty: true, close: b"", is_private: true });
        }
        Ok(self.open(b"{", b"}"))
    }

    fn serialize_struct_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'a>, Error> {
        self.variant(variant);
        Ok(self.open(b"{", b"}}"))
    }
}

impl Open<'_> {
    fn comma(&mut self) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.comma();
        append(self.out, value)
    }

    fn field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        if self.is_private && key == RAW {
            return value.serialize(Writer { out: self.out, is_json: true });
        }
        if self.is_private {
            // Only its own serialiser knows how.
            let mut own = serde_json::Serializer::new(&mut *self.out);
            let mut open = own.serialize_struct(key, 1)?;
            ser::SerializeStruct::serialize_field(&mut open, key, value)?;
            return ser::SerializeStruct::end(open);
        }
        self.comma();
        text(self.out, key);
        self.out.push(b':');
        append(self.out, value)
    }

    fn close(self) -> Result<(), Error> {
        self.out.extend_from_slice(self.close);
        Ok(())
    }
}

impl ser::SerializeMap for Open<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.comma();
        let start = self.out.len();
        append(self.out, key)?;
        match self.out.get(start) {
            Some(b'"') => Ok(()),
            // Numbers and truths are written as texts.
            Some(b'0'..=b'9' | b'-' | b't' | b'f') => {
                self.out.insert(start, b'"');
                self.out.push(b'"');
                Ok(())
            }
            _ => Err(ser::Error::custom("key must be a string")),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.out.push(b':');
        append(self.out, value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

macro_rules! elements {
    ($($kind:ident $method:ident),*) => {
        $(impl ser::$kind for Open<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.element(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        })*
    };
}

elements! {
    SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
}

macro_rules! fields {
    ($($kind:ident),*) => {
        $(impl ser::$kind for Open<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
                self.field(key, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        })*
    };
}

fields! { SerializeStruct, SerializeStructVariant }
