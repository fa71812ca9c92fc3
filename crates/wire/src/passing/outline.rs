//! The few fields of a request that decide where it goes, found in its bytes.

use super::Speech;
use super::scan::Walk;
use crate::RequestError;
use bytes::{Bytes, BytesMut};
use memchr::memchr;
use std::borrow::Cow;
use std::ops::Range;

/// Where the fields of a request stand that a gateway has to know. Ranges are of bytes of the body and cover whole values,
/// quotes and brackets included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The model's name.
    pub model: Option<Range<usize>>,
    /// Whether the answer is wanted as a stream, if the body says so either way.
    pub stream: Option<bool>,
    /// How it is to be streamed (Chat).
    pub stream_options: Option<Range<usize>>,
    /// What the client says that requests with a common beginning have in common.
    pub cache_key: Option<Range<usize>>,
    /// What the operator says, where the protocol has a field for it.
    pub system: Option<Range<usize>>,
    /// The conversation.
    pub conversation: Option<Range<usize>>,
    /// The answer that this request goes on from (Responses).
    pub previous: Option<Range<usize>>,
    /// The tools that the client offers.
    pub tools: Option<Range<usize>>,
}

/// One change of a body: these bytes instead of those.
pub type Edit<'a> = (Range<usize>, Cow<'a, [u8]>);

/// Makes changes to a body. They stand in order and do not overlap; without any, the body is the same bytes.
#[must_use]
pub fn splice(body: &Bytes, edits: &[Edit<'_>]) -> Bytes {
    if edits.is_empty() {
        return body.clone();
    }
    let more: usize = edits.iter().map(|(_, new)| new.len()).sum();
    let mut spliced = BytesMut::with_capacity(body.len() + more);
    let mut at = 0;
    for (range, new) in edits {
        spliced.extend_from_slice(body.get(at..range.start).unwrap_or_default());
        spliced.extend_from_slice(new);
        at = range.end;
    }
    spliced.extend_from_slice(body.get(at..).unwrap_or_default());
    spliced.freeze()
}

/// As [`splice`], as pieces one after the other, so that what does not change of a long body need not be copied.
#[must_use]
pub fn splice_apart(body: &Bytes, edits: &[Edit<'_>]) -> Vec<Bytes> {
    let mut pieces = Vec::with_capacity(2 * edits.len() + 1);
    let mut at = 0;
    for (range, new) in edits {
        pieces.push(body.get(at..range.start).map_or_else(Bytes::new, |before| body.slice_ref(before)));
        pieces.push(Bytes::copy_from_slice(new));
        at = range.end;
    }
    pieces.push(body.get(at..).map_or_else(Bytes::new, |rest| body.slice_ref(rest)));
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

impl Outline {
    /// Reads a body. Every field at the top is looked at, so that none can stand there twice with two meanings; what lies
    /// within them is stepped over and not checked.
    ///
    /// # Errors
    /// [`RequestError`] where the body is no object, is cut, or holds one of these fields twice.
    pub fn read(body: &[u8]) -> Result<Self, RequestError> {
        let mut outline = Outline::default();
        Walk::from(body, 0).object(|name, value| outline.note(body, name, value))?;
        Ok(outline)
    }

    fn note(&mut self, body: &[u8], name: Range<usize>, value: Range<usize>) -> Result<(), RequestError> {
        let raw = body.get(name.start + 1..name.end - 1).unwrap_or_default();
        // A name may be written with escapes, and is the same name to whoever reads it.
        let decoded: Option<String> =
            if raw.contains(&b'\\') { serde_json::from_slice(&body[name]).ok() } else { None };
        let name = decoded.as_deref().map_or(raw, str::as_bytes);
        let place = match name {
            b"model" => &mut self.model,
            b"stream" => {
                if self.stream.is_some() {
                    return Err(twice("stream"));
                }
                self.stream = Some(body[value].starts_with(b"true"));
                return Ok(());
            }
            b"stream_options" => &mut self.stream_options,
            b"prompt_cache_key" => &mut self.cache_key,
            b"system" | b"instructions" | b"systemInstruction" | b"system_instruction" => &mut self.system,
            b"messages" | b"input" | b"contents" => &mut self.conversation,
            b"previous_response_id" => &mut self.previous,
            b"tools" => &mut self.tools,
            _ => return Ok(()),
        };
        if place.is_some() {
            return Err(twice(&String::from_utf8_lossy(name)));
        }
        *place = Some(value);
        Ok(())
    }

    /// The text at a range that holds a JSON text; `None` where it holds something else.
    #[must_use]
    pub fn text<'b>(body: &'b [u8], range: &Range<usize>) -> Option<Cow<'b, str>> {
        text_of(body.get(range.clone())?)
    }

    /// The names of the tools that the client offers, in their order; one that the provider runs itself goes by its type. Nothing
    /// where they cannot be read.
    #[must_use]
    pub fn tool_names<'b>(&self, body: &'b [u8]) -> Vec<Cow<'b, str>> {
        let mut names = Vec::new();
        if let Some(range) = &self.tools {
            // What cannot be read ends the list.
            let _ = Walk::from(body, range.start).elements(|walk| {
                let tool = OfferedTool::read(walk)?;
                if tool.declared.is_empty() {
                    names.extend(tool.inner.or(tool.name).or(tool.kind).and_then(text_of));
                } else {
                    names.extend(tool.declared.into_iter().filter_map(text_of));
                }
                Ok(())
            });
        }
        names
    }

    /// The first element of the conversation, or all of it where it is no list.
    #[must_use]
    pub fn first_message<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        let range = self.conversation.clone()?;
        let whole = body.get(range.clone())?;
        if !whole.starts_with(b"[") {
            return Some(whole);
        }
        Walk::from(body, range.start + 1).next().ok()
    }

    /// The change that makes a streamed Chat answer end with what it used, where the request does not ask for it already.
    #[must_use]
    pub fn ask_for_usage(&self, speech: Speech, body: &[u8]) -> Option<Edit<'static>> {
        if speech != Speech::OpenaiChat || self.stream != Some(true) {
            return None;
        }
        const WHOLE: &[u8] = br#"{"include_usage":true}"#;
        match &self.stream_options {
            None => {
                let start = body.iter().position(|byte| *byte == b'{')? + 1;
                Some((start..start, Cow::Borrowed(br#""stream_options":{"include_usage":true},"#)))
            }
            Some(range) => {
                let mut options: serde_json::Value = serde_json::from_slice(body.get(range.clone())?).ok()?;
                let Some(options) = options.as_object_mut() else {
                    return Some((range.clone(), Cow::Borrowed(WHOLE)));
                };
                if options.get("include_usage") == Some(&serde_json::Value::Bool(true)) {
                    return None;
                }
                options.insert("include_usage".to_owned(), true.into());
                serde_json::to_vec(options).ok().map(|new| (range.clone(), Cow::Owned(new)))
            }
        }
    }
}

/// A tool in the words of any protocol, as far as its name goes: the JSON of it.
#[derive(Default)]
struct OfferedTool<'b> {
    name: Option<&'b [u8]>,
    kind: Option<&'b [u8]>,
    /// The name of what lies within (Chat).
    inner: Option<&'b [u8]>,
    /// The names of all that lie within (Gemini).
    declared: Vec<&'b [u8]>,
}

impl<'b> OfferedTool<'b> {
    fn read(walk: &mut Walk<'b>) -> Result<Self, RequestError> {
        let mut tool = OfferedTool::default();
        walk.members(|walk, name| {
            match walk.unquoted(&name) {
                b"name" => tool.name = Some(walk.next()?),
                b"type" => tool.kind = Some(walk.next()?),
                b"function" | b"custom" => tool.inner = name_within(walk)?,
                b"functionDeclarations" | b"function_declarations" => walk.elements(|walk| {
                    tool.declared.extend(name_within(walk)?);
                    Ok(())
                })?,
                _ => drop(walk.next()?),
            }
            Ok(())
        })?;
        Ok(tool)
    }
}

/// The name in what lies within a tool.
fn name_within<'b>(walk: &mut Walk<'b>) -> Result<Option<&'b [u8]>, RequestError> {
    let mut found = None;
    walk.members(|walk, name| {
        let is_name = walk.unquoted(&name) == b"name";
        let value = walk.next()?;
        found = found.or(is_name.then_some(value));
        Ok(())
    })?;
    Ok(found)
}

/// The text that a JSON text means.
fn text_of(raw: &[u8]) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice::<String>(raw).ok().map(Cow::Owned)
}

fn twice(field: &str) -> RequestError {
    RequestError::field(field, "it stands there twice, expected once")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn spliced(body: &str, speech: Speech, model: &str) -> String {
        let bytes = Bytes::copy_from_slice(body.as_bytes());
        let outline = Outline::read(&bytes).unwrap();
        let mut edits: Vec<Edit<'_>> = Vec::new();
        edits.extend(outline.ask_for_usage(speech, &bytes));
        edits.extend(outline.model.clone().map(|range| (range, Cow::Owned(json!(model).to_string().into_bytes()))));
        edits.sort_by_key(|(range, _)| range.start);
        String::from_utf8(splice(&bytes, &edits).to_vec()).unwrap()
    }

    #[test]
    fn only_what_must_change_changes() {
        let body = r#" { "a" : {"model":"no \" ]}"}, "model" : "house", "stream":true , "n":1.50 } "#;
        assert_eq!(spliced(body, Speech::OpenaiResponses, "gpt"), body.replace(r#""house""#, r#""gpt""#));
        assert_eq!(
            spliced(r#"{"model":"a","stream":true}"#, Speech::OpenaiChat, "b"),
            r#"{"stream_options":{"include_usage":true},"model":"b","stream":true}"#
        );
        assert_eq!(
            spliced(
                r#"{"stream":true,"stream_options":{"include_obfuscation":false,"include_usage":false}}"#,
                Speech::OpenaiChat,
                ""
            ),
            r#"{"stream":true,"stream_options":{"include_obfuscation":false,"include_usage":true}}"#
        );
        for same in [r#"{"stream":true,"stream_options":{"include_usage":true}}"#, r#"{"stream":false}"#, "{}"] {
            assert_eq!(spliced(same, Speech::OpenaiChat, "b"), same);
        }
    }

    #[test]
    fn a_field_that_stands_twice_is_refused_in_any_spelling() {
        for body in
            [r#"{"model":"a","model":"b"}"#, r#"{"model":"a","mod\u0065l":"b"}"#, r#"{"stream":true,"stream":false}"#]
        {
            let error = Outline::read(body.as_bytes()).unwrap_err();
            assert!(error.problem.contains("twice"), "{error}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused_with_its_place() {
        for body in [
            "",
            "[]",
            "{",
            r#"{"a""#,
            r#"{"a":}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":"x"#,
            "{} x",
            r#"{"a":[1,2}"#,
            r#"{"a":"\"#,
        ] {
            let error = Outline::read(body.as_bytes());
            assert!(error.is_err() || body == r#"{"a":[1,2}"#, "{body}: {error:?}");
        }
        assert!(Outline::read(b"{\"a\":1 2}").unwrap_err().problem.contains("at byte 7"));
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        assert!(Outline::read(deep.as_bytes()).unwrap_err().problem.contains("deep"));
    }

    #[test]
    fn the_first_message_is_found() {
        for (body, first) in [
            (r#"{"messages":[ {"role":"user","content":"a"},{"role":"user"}]}"#, r#"{"role":"user","content":"a"}"#),
            (r#"{"input":"hello"}"#, r#""hello""#),
        ] {
            let outline = Outline::read(body.as_bytes()).unwrap();
            assert_eq!(outline.first_message(body.as_bytes()), Some(first.as_bytes()));
        }
        assert_eq!(Outline::read(b"{\"input\":[]}").unwrap().first_message(b"{\"input\":[]}"), None);
    }

    #[test]
    fn long_values_end_where_they_end() {
        // Texts full of what would end a value, at every distance to the ends of blocks.
        for before in 0..130 {
            for text in [r#"}]\\"#, r#"\"}"#, r#"{["#, "", "\\\\\\\\"] {
                let body = format!(
                    r#"{{"messages":[{{"a":"{}{text}","b":[[{{}}],"{text}"]}}],"model":"m","tools":[{{"x":"{}"}}]}}"#,
                    "x".repeat(before),
                    text.repeat(before)
                );
                let value: Value = serde_json::from_str(&body).unwrap();
                let outline = Outline::read(body.as_bytes()).unwrap();
                let messages: Value = serde_json::from_slice(&body.as_bytes()[outline.conversation.unwrap()]).unwrap();
                assert_eq!(messages, value["messages"], "{body}");
                assert_eq!(&body[outline.model.unwrap()], "\"m\"");
                let tools: Value = serde_json::from_slice(&body.as_bytes()[outline.tools.unwrap()]).unwrap();
                assert_eq!(tools, value["tools"], "{body}");
            }
        }
    }

    #[test]
    fn what_is_spliced_apart_is_the_same_in_pieces() {
        let body = Bytes::from_static(b"{\"model\":\"a\",\"n\":1}");
        let edits: [Edit<'_>; 2] = [(1..1, Cow::Borrowed(b"\"s\":2,")), (9..12, Cow::Borrowed(b"\"bb\""))];
        assert_eq!(splice_apart(&body, &edits).concat(), splice(&body, &edits));
        assert_eq!(splice_apart(&body, &[]), std::slice::from_ref(&body));
        assert_eq!(splice_apart(&body, &[(0..body.len(), Cow::Borrowed(b"x"))]), [Bytes::from_static(b"x")]);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,40}".prop_map(Value::from),
            "[\"\\\\{}\\[\\],:model\n]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"\\\\]{0,6}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_field_is_found_where_it_stands(
            before in prop::collection::btree_map("[b-d\"\\\\é]{1,5}", any_value(), 0..4),
            model in "\\PC{0,20}",
            after in any_value(),
            pretty: bool,
        ) {
            let mut object: serde_json::Map<String, Value> = before.into_iter().collect();
            object.insert("model".into(), model.clone().into());
            object.insert("messages".into(), after.clone());
            let object = Value::Object(object);
            let body = if pretty { serde_json::to_vec_pretty(&object) } else { serde_json::to_vec(&object) }.unwrap();
            let outline = Outline::read(&body).unwrap();
            let range = outline.model.unwrap();
            prop_assert_eq!(Outline::text(&body, &range).unwrap(), model.as_str());
            let found: Value = serde_json::from_slice(&body[outline.conversation.unwrap()]).unwrap();
            prop_assert_eq!(found, after);
        }

        #[test]
        fn no_bytes_bring_it_down(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Outline::read(&bytes);
        }
    }
}
