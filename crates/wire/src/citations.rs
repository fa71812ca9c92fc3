//! Where an answer has something from: the one reading of what every provider says in a form of its own.
//!
//! It stands in the state of a text, which goes back to its own provider byte for byte. A client of another protocol sees the addresses
//! in its own form beside that.

use placet_core::part::Native;
use placet_core::{ItemBody, Part, ProviderId, TurnEvent};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

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

/// How many letters stand before a byte of a text.
fn letters(text: &str, byte: usize) -> usize {
    text.char_indices().take_while(|(at, _)| *at < byte).count()
}

/// Where a letter of a text stands.
fn byte(text: &str, letter: usize) -> usize {
    text.char_indices().nth(letter).map_or(text.len(), |(at, _)| at)
}

/// A place of an answer: its text, and how many bytes of other text stand before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'t> {
    pub(crate) text: &'t str,
    pub(crate) before: usize,
}

impl Citation {
    /// From which letter to which of the place.
    fn in_letters(&self, place: Place<'_>) -> (usize, usize) {
        match self.span {
            Span::Place => (0, place.text.chars().count()),
            Span::Letters(start, end) => (start, end),
            Span::Bytes(start, end) => {
                let at = |byte: usize| letters(place.text, byte.saturating_sub(place.before));
                (at(start), at(end))
            }
        }
    }

    /// From which byte to which of all that the answer says.
    fn in_bytes(&self, place: Place<'_>) -> (usize, usize) {
        match self.span {
            Span::Place => (place.before, place.before + place.text.len()),
            Span::Letters(start, end) => (place.before + byte(place.text, start), place.before + byte(place.text, end)),
            Span::Bytes(start, end) => (start, end),
        }
    }

    /// In OpenAI's words, where each place is a text of its own.
    pub(crate) fn annotation(&self, place: Place<'_>) -> Map<String, Value> {
        self.annotated(self.in_letters(place))
    }

    /// In OpenAI's words, where all places are one text.
    pub(crate) fn annotation_of_all(&self, place: Place<'_>, all: &str) -> Map<String, Value> {
        let (start, end) = self.in_bytes(place);
        self.annotated((letters(all, start), letters(all, end)))
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
    said: Vec<(u32, String)>,
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
        match self.said.iter_mut().rfind(|(at, _)| *at == index) {
            Some((_, said)) => said.push_str(text),
            None => self.said.push((index, text.to_owned())),
        }
    }

    fn cites(&mut self, index: u32, native: &Native, own: &ProviderId) {
        if native.provider != *own {
            self.cited.insert(index, of(&native.value));
        }
    }

    fn all(&self) -> String {
        self.said.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Each citation with its place. State without a text of its own is of all the text.
    fn each<'s>(&'s self, all: &'s str) -> impl Iterator<Item = (&'s Citation, Place<'s>)> {
        self.cited.iter().flat_map(move |(index, citations)| {
            let place = match self.said.iter().position(|(at, _)| at == index) {
                Some(at) => {
                    let (before, rest) = self.said.split_at(at);
                    let text = rest.first().map_or("", |(_, text)| text.as_str());
                    Place { text, before: before.iter().map(|(_, text)| text.len()).sum() }
                }
                None => Place { text: all, before: 0 },
            };
            citations.iter().map(move |citation| (citation, place))
        })
    }

    /// In OpenAI's words, of all that the answer says.
    pub(crate) fn annotations(&self) -> Vec<Map<String, Value>> {
        let all = self.all();
        self.each(&all).map(|(citation, place)| citation.annotation_of_all(place, &all)).collect()
    }

    /// In Gemini's words; `None` where there are none.
    pub(crate) fn grounding(&self) -> Option<Value> {
        let all = self.all();
        let mut urls: Vec<&str> = Vec::new();
        let (mut chunks, mut supports) = (Vec::new(), Vec::new());
        for (citation, place) in self.each(&all) {
            let at = urls.iter().position(|url| *url == citation.url).unwrap_or_else(|| {
                urls.push(&citation.url);
                let title = citation.title.as_deref().unwrap_or(&citation.url);
                chunks.push(json!({"web": {"uri": citation.url, "title": title}}));
                urls.len() - 1
            });
            let (start, end) = citation.in_bytes(place);
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
            assert_eq!(Value::Object(found[0].annotation(place)), wanted, "{state}");
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
        assert_eq!(citation.annotation_of_all(Place { text: "b", before: 2 }, "ü b")["start_index"], 1);
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
}
