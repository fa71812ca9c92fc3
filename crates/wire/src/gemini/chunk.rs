//! A piece of an answer as typed structs, read without a tree of values in between, that bear whatever comes: what stands in a
//! place where it makes no sense is passed over, what has no name here is kept beside.

use crate::names::Names;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// What a place may hold. What it may not leaves the default there.
pub(super) trait Take<'de>: Default {
    fn text(_text: Cow<'de, str>) -> Self {
        Self::default()
    }
    fn whole(_number: u64) -> Self {
        Self::default()
    }
    fn flag(_flag: bool) -> Self {
        Self::default()
    }
    fn list<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

/// Reads a [`Take`].
#[derive(Debug, Default)]
pub(super) struct Lenient<T>(pub(super) T);

struct Taker<T>(PhantomData<T>);

impl<'de, T: Take<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Taker(PhantomData)).map(Lenient)
    }
}

impl<'de, T: Take<'de>> Visitor<'de> for Taker<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<T, E> {
        Ok(T::text(Cow::Borrowed(text)))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(T::text(Cow::Owned(text.to_owned())))
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        Ok(T::whole(number))
    }
    fn visit_i64<E: Error>(self, _number: i64) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        let is_whole = (0.0..9.0e15).contains(&number) && number.fract() == 0.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "just checked")]
        Ok(if is_whole { T::whole(number as u64) } else { T::default() })
    }
    fn visit_bool<E: Error>(self, flag: bool) -> Result<T, E> {
        Ok(T::flag(flag))
    }
    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_none<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T, A::Error> {
        T::list(seq)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::object(map)
    }
}

/// The value at the key just read.
pub(super) fn value<'de, T: Take<'de>, A: MapAccess<'de>>(map: &mut A) -> Result<T, A::Error> {
    Ok(map.next_value::<Lenient<T>>()?.0)
}

/// The next key of an object.
pub(super) fn key<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<Cow<'de, str>>, A::Error> {
    Ok(map.next_key::<Lenient<Word<'de>>>()?.map(|key| key.0.0.unwrap_or_default()))
}

/// Keeps what has no name here; `null` says nothing.
fn keep<'de, A: MapAccess<'de>>(
    rest: &mut Map<String, Value>,
    key: Cow<'de, str>,
    map: &mut A,
) -> Result<(), A::Error> {
    let value: Value = map.next_value()?;
    if !value.is_null() {
        rest.insert(key.into_owned(), value);
    }
    Ok(())
}

/// A text.
#[derive(Debug, Default)]
pub(super) struct Word<'de>(pub(super) Option<Cow<'de, str>>);

impl<'de> Word<'de> {
    /// The text; an empty one is taken for an absent one.
    pub(super) fn filled(self) -> Option<Cow<'de, str>> {
        self.0.filter(|text| !text.is_empty())
    }
}

impl<'de> Take<'de> for Word<'de> {
    fn text(text: Cow<'de, str>) -> Self {
        Word(Some(text))
    }
}

/// A whole number, also where it came as a text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count(pub(super) Option<u64>);

impl<'de> Take<'de> for Count {
    fn whole(number: u64) -> Self {
        Count(Some(number))
    }
    fn text(text: Cow<'de, str>) -> Self {
        Count(text.parse().ok())
    }
}

/// Yes or no; absent is no.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flag(pub(super) bool);

impl<'de> Take<'de> for Flag {
    fn flag(flag: bool) -> Self {
        Flag(flag)
    }
}

/// A list; where something else stands it is empty. Nearly every list of a stream holds one thing, which needs no room of its
/// own.
#[derive(Debug)]
pub(super) struct Few<T> {
    first: Option<T>,
    more: Vec<T>,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Few { first: None, more: Vec::new() }
    }
}

impl<T> Few<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}

impl<'de, T: Take<'de>> Take<'de> for Few<T> {
    fn list<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let first = seq.next_element::<Lenient<T>>()?.map(|element| element.0);
        let mut more = Vec::new();
        while let Some(Lenient(element)) = seq.next_element()? {
            more.push(element);
        }
        Ok(Few { first, more })
    }
}

/// One `GenerateContentResponse`.
#[derive(Debug, Default)]
pub(super) struct Chunk<'de> {
    pub(super) candidates: Few<Candidate<'de>>,
    pub(super) usage: Option<&'de RawValue>,
    pub(super) model: Option<Cow<'de, str>>,
    pub(super) response_id: Option<Cow<'de, str>>,
    pub(super) feedback: Option<Value>,
    pub(super) error: Option<Value>,
    pub(super) rest: Map<String, Value>,
}

impl<'de> Take<'de> for Chunk<'de> {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut chunk = Chunk::default();
        while let Some(key) = key(&mut map)? {
            match &*key {
                "candidates" => chunk.candidates = value::<Few<Candidate<'de>>, A>(&mut map)?,
                "usageMetadata" | "usage_metadata" => chunk.usage = Some(map.next_value()?),
                "modelVersion" | "model_version" => chunk.model = value::<Word<'de>, A>(&mut map)?.filled(),
                "responseId" | "response_id" => chunk.response_id = value::<Word<'de>, A>(&mut map)?.filled(),
                "promptFeedback" | "prompt_feedback" => {
                    chunk.feedback = map.next_value::<Option<Value>>()?;
                }
                "error" => chunk.error = map.next_value::<Option<Value>>()?,
                _ => keep(&mut chunk.rest, key, &mut map)?,
            }
        }
        Ok(chunk)
    }

    /// Errors come as an array of one, too.
    fn list<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let first = seq.next_element::<Lenient<Chunk<'de>>>()?;
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(first.map(|chunk| chunk.0).unwrap_or_default())
    }
}

/// One of the alternatives of an answer. Only one is ever asked for.
#[derive(Debug, Default)]
pub(super) struct Candidate<'de> {
    pub(super) parts: Few<Part<'de>>,
    pub(super) finish: Option<Cow<'de, str>>,
    pub(super) index: Option<u64>,
    pub(super) rest: Map<String, Value>,
}

impl<'de> Take<'de> for Candidate<'de> {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut candidate = Candidate::default();
        while let Some(key) = key(&mut map)? {
            match &*key {
                "content" => candidate.parts = value::<Content<'de>, A>(&mut map)?.0,
                "finishReason" | "finish_reason" => candidate.finish = value::<Word<'de>, A>(&mut map)?.filled(),
                "index" => candidate.index = value::<Count, A>(&mut map)?.0,
                _ => keep(&mut candidate.rest, key, &mut map)?,
            }
        }
        Ok(candidate)
    }
}

#[derive(Debug, Default)]
struct Content<'de>(Few<Part<'de>>);

impl<'de> Take<'de> for Content<'de> {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut parts = Few::default();
        while let Some(key) = key(&mut map)? {
            match &*key {
                "parts" => parts = value::<Few<Part<'de>>, A>(&mut map)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Content(parts))
    }
}

/// A part: a text, a call, or something whole in `rest`, which also holds what stands beside (a signature).
#[derive(Debug, Default)]
pub(super) struct Part<'de> {
    pub(super) text: Option<Cow<'de, str>>,
    pub(super) thought: bool,
    pub(super) call: Option<Box<Call<'de>>>,
    pub(super) rest: Map<String, Value>,
}

impl<'de> Take<'de> for Part<'de> {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut part = Part::default();
        while let Some(key) = key(&mut map)? {
            match &*key {
                "text" => part.text = value::<Word<'de>, A>(&mut map)?.0,
                "thought" => part.thought = value::<Flag, A>(&mut map)?.0,
                "functionCall" | "function_call" => {
                    part.call = value::<Maybe<Call<'de>>, A>(&mut map)?.0;
                }
                "thought_signature" => keep(&mut part.rest, Cow::Borrowed("thoughtSignature"), &mut map)?,
                _ => keep(&mut part.rest, key, &mut map)?,
            }
        }
        Ok(part)
    }
}

impl Part<'_> {
    /// The part as it came, with the tool's own name.
    pub(super) fn into_value(self, names: &Names) -> Value {
        let mut out = Map::new();
        if let Some(text) = self.text {
            out.insert("text".to_owned(), text.into_owned().into());
        }
        if self.thought {
            out.insert("thought".to_owned(), true.into());
        }
        if let Some(call) = self.call {
            let mut inner = Map::new();
            inner.extend(call.id.map(|id| ("id".to_owned(), id.into_owned().into())));
            inner.extend(call.name.map(|name| ("name".to_owned(), names.original(&name).as_str().into())));
            let arguments = call.arguments.and_then(|text| serde_json::from_str(text.get()).ok());
            inner.extend(arguments.map(|arguments: Value| ("args".to_owned(), arguments)));
            if !call.partial.is_empty() {
                inner.insert("partialArgs".to_owned(), call.partial.into());
            }
            if call.continues {
                inner.insert("willContinue".to_owned(), true.into());
            }
            inner.extend(call.rest);
            out.insert("functionCall".to_owned(), inner.into());
        }
        out.extend(self.rest);
        out.into()
    }
}

/// An object, or nothing where something else stands.
#[derive(Debug)]
struct Maybe<T>(Option<Box<T>>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Maybe(None)
    }
}

impl<'de, T: Take<'de>> Take<'de> for Maybe<T> {
    fn object<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        T::object(map).map(|taken| Maybe(Some(Box::new(taken))))
    }
}

/// A call, whole or a piece of one.
#[derive(Debug, Default)]
pub(super) struct Call<'de> {
    pub(super) id: Option<Cow<'de, str>>,
    pub(super) name: Option<Cow<'de, str>>,
    pub(super) arguments: Option<&'de RawValue>,
    pub(super) partial: Vec<Value>,
    pub(super) continues: bool,
    pub(super) rest: Map<String, Value>,
}

impl<'de> Take<'de> for Call<'de> {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut call = Call::default();
        while let Some(key) = key(&mut map)? {
            match &*key {
                "id" => call.id = value::<Word<'de>, A>(&mut map)?.filled(),
                "name" => call.name = value::<Word<'de>, A>(&mut map)?.filled(),
                "args" => call.arguments = map.next_value::<Option<&'de RawValue>>()?,
                "partialArgs" | "partial_args" => {
                    if let Value::Array(partial) = map.next_value::<Value>()? {
                        call.partial = partial;
                    }
                }
                "willContinue" | "will_continue" => call.continues = value::<Flag, A>(&mut map)?.0,
                _ => keep(&mut call.rest, key, &mut map)?,
            }
        }
        Ok(call)
    }
}
