//! Where an answer has something from: the one reading of what every provider says in a form of its own.
//!
//! It stands in the state of a text, which goes back to its own provider byte for byte. A client of another protocol sees the addresses
//! in its own form beside that.

use placet_core::part::Native;
use placet_core::{ItemBody, Part, ProviderId, TurnEvent};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};

/// An address that some text is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Citation {
    pub(crate) url: String,
    pub(crate) title: Option<String>,
    /// The words of the source.
    quote: Option<String>,
    span: Span,
}

/// Which text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    /// All of the place that it stands at.
    Place,
    /// From one letter of the place to another.
    Letters(usize, usize),
    /// From one byte to another of all that the answer says.
    Bytes(usize, usize),
}

fn word(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn number(value: &Value, key: &str) -> Option<usize> {
    usize::try_from(value.get(key)?.as_u64()?).ok()
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// What the state of a text says of addresses, whoever wrote it.
pub(crate) fn of(state: &Value) -> Vec<Citation> {
    let mut found = Vec::new();
    // OpenAI: flat in one protocol, one level deeper in the other.
    for annotation in list(state, "annotations") {
        if annotation.get("type").and_then(Value::as_str).is_none_or(|kind| kind == "url_citation") {
            let inner = annotation.get("url_citation").filter(|inner| inner.is_object()).unwrap_or(annotation);
            let span = match (number(inner, "start_index"), number(inner, "end_index")) {
                (Some(start), Some(end)) if start < end => Span::Letters(start, end),
                _ => Span::Place,
            };
            let url = word(inner, "url");
            found.extend(url.map(|url| Citation { url, title: word(inner, "title"), quote: None, span }));
        }
    }
    // Anthropic: a block of text is one that something is cited for.
    for citation in list(state, "citations") {
        let (title, quote) = (word(citation, "title"), word(citation, "cited_text"));
        found.extend(word(citation, "url").map(|url| Citation { url, title, quote, span: Span::Place }));
    }
    // Gemini: addresses, and which of them which text is from.
    if let Some(grounding) = state.get("groundingMetadata") {
        let sources: Vec<Option<(String, Option<String>)>> = list(grounding, "groundingChunks")
            .map(|chunk| {
                let source = chunk.as_object()?.values().find(|source| source.get("uri").is_some())?;
                Some((word(source, "uri")?, word(source, "title")))
            })
            .collect();
        let mut has_supports = false;
        for support in list(grounding, "groundingSupports") {
            has_supports = true;
            let segment = support.get("segment").unwrap_or(&Value::Null);
            let span = match (number(segment, "startIndex").unwrap_or(0), number(segment, "endIndex")) {
                (start, Some(end)) if start < end => Span::Bytes(start, end),
                _ => Span::Place,
            };
            for at in list(support, "groundingChunkIndices") {
                let source = at.as_u64().and_then(|at| sources.get(usize::try_from(at).ok()?)?.clone());
                found.extend(source.map(|(url, title)| Citation { url, title, quote: None, span }));
            }
        }
        if !has_supports {
            let all = sources.into_iter().flatten();
            found.extend(all.map(|(url, title)| Citation { url, title, quote: None, span: Span::Place }));
        }
    }
    if let Some(cited) = state.get("citationMetadata") {
        for source in list(cited, "citationSources").chain(list(cited, "citations")) {
            let span = match (number(source, "startIndex").unwrap_or(0), number(source, "endIndex")) {
                (start, Some(end)) if start < end => Span::Bytes(start, end),
                _ => Span::Place,
            };
            let url = word(source, "uri");
            found.extend(url.map(|url| Citation { url, title: word(source, "title"), quote: None, span }));
        }
    }
    found
}

/// A place in one text, in bytes and in letters. The next one is found from it, because the places of many citations mostly follow one
/// another.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    byte: usize,
    letter: usize,
}

impl Cursor {
    /// How many letters stand before a byte of the text.
    fn letters(&mut self, text: &str, byte: usize) -> usize {
        let count = |from: usize, to: usize| {
            let bytes = text.as_bytes().get(from..to).unwrap_or_default();
            bytes.iter().filter(|byte| begins(**byte)).count()
        };
        let byte = byte.min(text.len());
        if byte < self.byte {
            self.letter -= count(byte, self.byte);
        } else {
            self.letter += count(self.byte, byte);
        }
        self.byte = byte;
        self.letter
    }

    /// Where a letter of the text stands.
    fn byte(&mut self, text: &str, letter: usize) -> usize {
        let is_begun = |at: usize| text.as_bytes().get(at).is_some_and(|byte| begins(*byte));
        while self.letter > letter {
            self.byte -= 1;
            self.letter -= usize::from(is_begun(self.byte));
        }
        while self.byte < text.len() && !(is_begun(self.byte) && self.letter == letter) {
            self.letter += usize::from(is_begun(self.byte));
            self.byte += 1;
        }
        self.byte
    }
}

/// Whether a letter begins with this byte.
fn begins(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// A place of an answer: its text, and how many bytes of other text stand before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'t> {
    pub(crate) text: &'t str,
    pub(crate) before: usize,
}

impl Citation {
    /// From which letter to which of the place.
    fn in_letters(&self, place: Place<'_>, cursor: &mut Cursor) -> (usize, usize) {
        match self.span {
            Span::Place => (0, cursor.letters(place.text, place.text.len())),
            Span::Letters(start, end) => (start, end),
            Span::Bytes(start, end) => {
                let mut at = |byte: usize| cursor.letters(place.text, byte.saturating_sub(place.before));
                (at(start), at(end))
            }
        }
    }

    /// From which byte to which of all that the answer says.
    fn in_bytes(&self, place: Place<'_>, cursor: &mut Cursor) -> (usize, usize) {
        match self.span {
            Span::Place => (place.before, place.before + place.text.len()),
            Span::Letters(start, end) => {
                let mut at = |letter: usize| place.before + cursor.byte(place.text, letter);
                (at(start), at(end))
            }
            Span::Bytes(start, end) => (start, end),
        }
    }

    /// In OpenAI's words, where each place is a text of its own. The cursor is one of the place.
    pub(crate) fn annotation(&self, place: Place<'_>, cursor: &mut Cursor) -> Map<String, Value> {
        self.annotated(self.in_letters(place, cursor))
    }

    fn annotated(&self, (start, end): (usize, usize)) -> Map<String, Value> {
        let mut form = Map::new();
        form.insert("type".into(), "url_citation".into());
        form.insert("url".into(), self.url.as_str().into());
        form.insert("title".into(), self.title.as_deref().unwrap_or(&self.url).into());
        form.insert("start_index".into(), start.into());
        form.insert("end_index".into(), end.into());
        form
    }

    /// In Anthropic's words. Its own mark of the place in the source nobody else has.
    pub(crate) fn citation(&self) -> Value {
        json!({
            "type": "web_search_result_location", "url": self.url, "title": self.title,
            "cited_text": self.quote.as_deref().unwrap_or_default(), "encrypted_index": "",
        })
    }
}

/// What an answer says, and where that is from as providers say whose state its reader does not know.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// The text of each place, in the order in which they began.
    said: Vec<String>,
    /// Which of them stands at a place.
    places: HashMap<u32, usize>,
    cited: BTreeMap<u32, Vec<Citation>>,
}

impl Sources {
    /// Takes in one event of the answer. State of `own` is told in its own words by whoever writes it.
    pub(crate) fn note(&mut self, event: &TurnEvent, own: &ProviderId) {
        match event {
            TurnEvent::Text(delta) => self.says(delta.index, &delta.text),
            TurnEvent::TextState(state) => self.cites(state.index, &state.native, own),
            TurnEvent::Whole(whole) => {
                let ItemBody::Message(message) = &whole.body else { return };
                for part in &message.parts {
                    let Part::Text(text) = part else { continue };
                    self.says(whole.index, &text.text);
                    if let Some(native) = &text.native {
                        self.cites(whole.index, native, own);
                    }
                }
            }
            _ => {}
        }
    }

    fn says(&mut self, index: u32, text: &str) {
        let place = *self.places.entry(index).or_insert(self.said.len());
        match self.said.get_mut(place) {
            Some(said) => said.push_str(text),
            None => self.said.push(text.to_owned()),
        }
    }

    fn cites(&mut self, index: u32, native: &Native, own: &ProviderId) {
        if native.provider != *own {
            self.cited.insert(index, of(&native.value));
        }
    }

    fn all(&self) -> String {
        self.said.concat()
    }

    /// Each citation with from which byte to which of all the text it is. State without a text of its own is of all the text.
    fn each<'s>(&'s self, all: &'s str) -> impl Iterator<Item = (&'s Citation, (usize, usize))> {
        let begins = self.said.iter().scan(0, |end, text| {
            let begin = *end;
            *end += text.len();
            Some(begin)
        });
        let begins: Vec<usize> = begins.collect();
        self.cited.iter().flat_map(move |(index, citations)| {
            let said = self.places.get(index).and_then(|at| Some((self.said.get(*at)?, *begins.get(*at)?)));
            let place = said.map_or(Place { text: all, before: 0 }, |(text, before)| Place { text, before });
            let mut cursor = Cursor::default();
            citations.iter().map(move |citation| (citation, citation.in_bytes(place, &mut cursor)))
        })
    }

    /// In OpenAI's words, of all that the answer says.
    pub(crate) fn annotations(&self) -> Vec<Map<String, Value>> {
        let all = self.all();
        let mut cursor = Cursor::default();
        let letters = self.each(&all).map(|(citation, (start, end))| {
            citation.annotated((cursor.letters(&all, start), cursor.letters(&all, end)))
        });
        letters.collect()
    }

    /// In Gemini's words; `None` where there are none.
    pub(crate) fn grounding(&self) -> Option<Value> {
        let all = self.all();
        let mut urls: HashMap<&str, usize> = HashMap::new();
        let (mut chunks, mut supports) = (Vec::new(), Vec::new());
        for (citation, (start, end)) in self.each(&all) {
            let at = *urls.entry(&citation.url).or_insert_with(|| {
                let title = citation.title.as_deref().unwrap_or(&citation.url);
                chunks.push(json!({"web": {"uri": citation.url, "title": title}}));
                chunks.len() - 1
            });
            let mut segment = json!({"startIndex": start, "endIndex": end});
            if let Some(said) = all.get(start..end) {
                segment["text"] = said.into();
            }
            supports.push(json!({"segment": segment, "groundingChunkIndices": [at]}));
        }
        (!chunks.is_empty()).then(|| json!({"groundingChunks": chunks, "groundingSupports": supports}))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use placet_core::turn::{ReasoningState, TextDelta};

    #[test]
    fn every_providers_form_is_read_alike() {
        let text = "Grüezi. Bern is the capital.";
        let place = Place { text, before: 0 };
        let wanted = json!({"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 8, "end_index": 28});
        let flat = json!({"annotations": [wanted, {"type": "file_citation", "file_id": "f"}]});
        let inner = json!({"url": "https://a.example", "title": "A", "start_index": 8, "end_index": 28});
        let deep = json!({"annotations": [{"type": "url_citation", "url_citation": inner}]});
        let gemini = json!({"groundingMetadata": {
            "groundingChunks": [{"web": {"uri": "https://b.example"}}, {"web": {"uri": "https://a.example", "title": "A"}}],
            "groundingSupports": [{"segment": {"startIndex": 9, "endIndex": 29}, "groundingChunkIndices": [1, 7]}]}});
        for state in [flat, deep, gemini] {
            let found = of(&state);
            assert_eq!(found.len(), 1, "{state}");
            assert_eq!(Value::Object(found[0].annotation(place, &mut Cursor::default())), wanted, "{state}");
            let mut sources = Sources::default();
            sources.note(&TurnEvent::Text(TextDelta { index: 3, text: text.into() }), &"own".into());
            let native = Native { provider: "other".into(), value: state };
            sources.note(&TurnEvent::TextState(ReasoningState { index: 3, native }), &"own".into());
            assert_eq!(
                sources.grounding().unwrap()["groundingSupports"][0]["segment"],
                json!({"startIndex": 9, "endIndex": 29, "text": "Bern is the capital."})
            );
            assert_eq!(Value::Object(sources.annotations()[0].clone()), wanted);
        }
        let anthropic = json!({"citations": [{"type": "web_search_result_location", "url": "https://a.example",
            "title": null, "cited_text": "It is.", "encrypted_index": "x"}, {"type": "char_location"}]});
        let [citation] = &*of(&anthropic) else { panic!("one") };
        assert_eq!(citation.in_bytes(Place { text: "b", before: 2 }, &mut Cursor::default()), (2, 3));
        assert_eq!(citation.citation()["cited_text"], "It is.");
        for nothing in [
            json!(null),
            json!({}),
            json!({"annotations": [{"type": "url_citation"}, 7], "citations": {}}),
            json!({"groundingMetadata": {"groundingChunks": [{}, null]}}),
        ] {
            assert_eq!(of(&nothing), []);
        }
    }
    #[test]
    fn places_are_found_from_one_another() {
        let text = "aü☃𝄞z";
        let mut cursor = Cursor::default();
        for byte in (0..=text.len() + 2).chain((0..=text.len()).rev()).chain([7, 1, 9, 3]) {
            let counted = text.char_indices().take_while(|(at, _)| *at < byte).count();
            assert_eq!(cursor.letters(text, byte), counted, "{byte}");
            for letter in [0, 5, 2, 7, 1, 4, 3] {
                let found = text.char_indices().nth(letter).map_or(text.len(), |(at, _)| at);
                assert_eq!(cursor.byte(text, letter), found, "{letter}");
            }
            assert_eq!(cursor.letters(text, byte), counted, "{byte}");
        }
    }
}
