//! Blocks of Anthropic's that say something in several pieces, as texts and pictures.

use super::Parts;
use placet_core::Part;
use placet_core::part::{Inline, Media, MediaSource, Text, Url};
use serde_json::Value;

/// The texts and pictures of blocks of Anthropic's; none where something else is among them.
fn blocks(content: &Value) -> Option<Parts> {
    let list = match content {
        Value::String(text) => return Some(vec![Part::text(text.as_str())]),
        Value::Array(list) => list,
        _ => return None,
    };
    let block = |block: &Value| match block["type"].as_str()? {
        "text" => block["text"].as_str().map(Part::text),
        "image" => {
            let source = &block["source"];
            let word = |key: &str| source[key].as_str().map(str::to_owned);
            let media = match source["type"].as_str()? {
                "base64" => Media {
                    mime_type: word("media_type"),
                    ..Media::new(MediaSource::Inline(Inline { base64: word("data")?.into() }))
                },
                "url" => Media::new(MediaSource::Url(Url { url: word("url")? })),
                _ => return None,
            };
            Some(Part::Image(media))
        }
        _ => None,
    };
    list.iter().map(block).collect()
}

/// Texts side by side are one, under a line that says what they are of.
fn under(heading: String, parts: Parts) -> Parts {
    let mut out = vec![Part::text(heading)];
    for part in parts {
        match (out.last_mut(), part) {
            (Some(Part::Text(known)), Part::Text(text)) => {
                *known = Text::new(format!("{}\n{}", known.text, text.text));
            }
            (_, part) => out.push(part),
        }
    }
    out
}

pub(super) fn search_result(value: &Value) -> Option<Parts> {
    let word = |key: &str| value[key].as_str().filter(|text| !text.is_empty());
    let mut heading = "Search result".to_owned();
    if let Some(title) = word("title") {
        heading = format!("{heading}: {title}");
    }
    if let Some(source) = word("source") {
        heading = format!("{heading}\nSource: {source}");
    }
    Some(under(heading, blocks(&value["content"])?))
}

pub(super) fn document(value: &Value) -> Option<Parts> {
    let word = |key: &str| value[key].as_str().filter(|text| !text.is_empty());
    let mut heading = "Document".to_owned();
    if let Some(title) = word("title") {
        heading = format!("{heading}: {title}");
    }
    if let Some(context) = word("context") {
        heading = format!("{heading}\nContext: {context}");
    }
    Some(under(heading, blocks(&value["source"]["content"])?))
}
