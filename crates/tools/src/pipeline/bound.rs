//! Bounds: how much of an outcome is kept, and what says so where something was left out.
//!
//! Sizes are bytes of JSON text, since that is what is sent, stored and paid for: a line break counts two, a control
//! character six. So what goes out is never larger than was said.

use placet_core::outcome::{Cut, Outcome, Reason};
use placet_core::part::MediaSource;
use placet_core::{Origin, Origins, Part};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// How long a line of a log, a question to a human or a reason may be, in bytes.
pub(crate) const LINE: usize = 2048;
/// How much an underlying cause may be.
const CAUSE: usize = 4096;
/// How much detail, facts and origin labels may be, each.
const ASIDE: usize = 16 * 1024;
/// How many parts an output may have.
const PARTS: usize = 256;
/// What the words about a cut may need.
const NOTICE: usize = 128;
/// No bound on text is smaller: the words about a cut have to fit.
const LEAST: usize = 256;

/// What is kept of a text that is too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Its beginning.
    #[default]
    Head,
    /// Its end.
    Tail,
    /// A quarter from the beginning and the rest from the end: for logs and the output of commands.
    HeadAndTail,
}

/// How much of an output is kept, in bytes of JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Text that the model reads, all parts together: 64 KiB, never less than 256 bytes. More is cut between characters,
    /// and the text says how much.
    pub text: usize,
    /// Pictures, sounds, documents and provider-native parts, all together: 8 MiB. One that does not fit is left out
    /// whole, and a line says so.
    pub media: usize,
    /// The value for code: 256 KiB. A larger one is left out whole, and the fact `payload_cut` says so.
    pub payload: usize,
    /// What is kept of a text that is too long.
    pub keep: Keep,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { text: 64 * 1024, media: 8 * 1024 * 1024, payload: 256 * 1024, keep: Keep::Head }
    }
}

impl Bounds {
    /// Bounds with this much text, the rest as usual.
    #[must_use]
    pub fn text(text: usize) -> Self {
        Bounds { text, ..Bounds::default() }
    }

    /// What is kept of a text that is too long.
    #[must_use]
    pub fn keeping(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// The most that an outcome within these bounds takes, written as JSON: text, media and payload, and a fixed share for
    /// everything around them.
    #[must_use]
    pub fn ceiling(&self) -> usize {
        self.text.max(LEAST) + self.media + self.payload + 256 * 1024
    }
}

/// The longest beginning of `text` of at most `most` bytes that ends between characters.
pub(crate) fn head(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// `text`, or its beginning and an ellipsis where it is longer than `most` bytes.
pub(crate) fn clip(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most { Cow::Borrowed(text) } else { Cow::Owned(format!("{}…", head(text, most))) }
}

/// How many bytes a character takes within a JSON text.
fn cost(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => letter.len_utf8(),
    }
}

fn text_size(text: &str) -> usize {
    text.chars().map(cost).sum()
}

/// How many bytes a value takes as JSON.
fn json_size(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

/// Bounds what the model reads and what code gets.
pub(crate) fn content(outcome: &mut Outcome, bounds: &Bounds) {
    if let Some(cut) = bound_parts(&mut outcome.content, bounds) {
        outcome.cut = Some(cut);
    }
    if let Some(payload) = &outcome.payload {
        let total = json_size(payload);
        if total > bounds.payload {
            outcome.payload = None;
            outcome.facts.insert("payload_cut".into(), json!({"kept": 0, "total": total, "unit": "bytes"}));
        }
    }
}

/// Bounds everything around the content, which nobody owns.
pub(crate) fn aside(outcome: &mut Outcome) {
    if let Some(cause) = &mut outcome.cause
        && cause.len() > CAUSE
    {
        *cause = clip(cause, CAUSE).into_owned();
    }
    if let Some(detail) = &outcome.detail {
        let total = json_size(detail);
        if total > ASIDE {
            outcome.detail = Some(json!({"detail_cut": {"kept": 0, "total": total, "unit": "bytes"}}));
        }
    }
    if !outcome.facts.is_empty() {
        let total = json_size(&outcome.facts);
        if total > ASIDE {
            let payload = outcome.facts.remove("payload_cut");
            outcome.facts = Map::new();
            outcome.facts.insert("facts_cut".into(), json!({"kept": 0, "total": total, "unit": "bytes"}));
            outcome.facts.extend(payload.map(|cut| ("payload_cut".to_owned(), cut)));
        }
    }
    if outcome.origin.iter().nth(1).is_some() || outcome.origin.iter().any(|origin| origin.to_string().len() > 256) {
        bound_origins(&mut outcome.origin);
    }
    if let Some(Reason::Other(word)) = &mut outcome.reason
        && word.len() > 64
    {
        *word = head(word, 64).to_owned();
    }
    if let Some(revision) = &outcome.revision
        && revision.before.len().max(revision.after.len()) > LINE
    {
        outcome.revision = None;
        outcome.facts.insert("revision_cut".into(), Value::Bool(true));
    }
    if let Some(cut) = &mut outcome.cut
        && cut.unit.len() > 64
    {
        cut.unit = head(&cut.unit, 64).to_owned();
    }
}

/// Labels beyond the bound become one that nobody trusts, so that leaving some out never makes content look safer.
fn bound_origins(origins: &mut Origins) {
    let mut left = ASIDE;
    let mut kept = Origins::none();
    let mut dropped = false;
    for origin in origins.iter() {
        let size = json_size(origin) + 1;
        if size <= left.min(LINE) {
            left -= size;
            kept.insert(origin.clone());
        } else {
            dropped = true;
        }
    }
    if dropped {
        kept.insert(Origin::Other("more".into()));
        *origins = kept;
    }
}

/// Adjacent texts become one: they are read as one, so they are searched for secrets and bounded as one.
pub(crate) fn join_texts(parts: &mut Vec<Part>) {
    let adjacent = parts.windows(2).any(|pair| pair.iter().all(|part| matches!(part, Part::Text(_))));
    if !adjacent {
        return;
    }
    let mut joined: Vec<Part> = Vec::with_capacity(parts.len());
    let mut text = String::new();
    let mut open = false;
    for part in parts.drain(..) {
        match part {
            Part::Text(piece) => {
                text.push_str(&piece.text);
                open = true;
            }
            other => {
                if std::mem::take(&mut open) {
                    joined.push(Part::text(std::mem::take(&mut text)));
                }
                joined.push(other);
            }
        }
    }
    if open {
        joined.push(Part::text(text));
    }
    *parts = joined;
}

fn bound_parts(parts: &mut Vec<Part>, bounds: &Bounds) -> Option<Cut> {
    let most = bounds.text.max(LEAST);
    let raw: usize = parts.iter().filter_map(Part::as_text).map(str::len).sum();
    let plain = parts.iter().all(|part| matches!(part, Part::Text(_)));
    // No character takes more than six bytes for one of its own.
    if plain && parts.len() <= PARTS && raw.saturating_mul(6) <= most {
        return None;
    }
    let mut cut = None;
    if parts.len() > PARTS {
        cut = Some(Cut { kept: PARTS as u64 - 1, total: parts.len() as u64, unit: "parts".into() });
        let note = format!("[cut: {} of {} parts are shown]", PARTS - 1, parts.len());
        parts.truncate(PARTS - 1);
        parts.push(Part::text(note));
    }
    leave_out_media(parts, bounds.media, &mut cut);
    let size: usize = parts.iter().filter_map(Part::as_text).map(text_size).sum();
    if size > most {
        // The words that tell of media left out are text too, so the sum is taken of what is here now.
        let total: usize = parts.iter().filter_map(Part::as_text).map(str::len).sum();
        let kept = cut_texts(parts, most, total, bounds.keep);
        cut = Some(Cut { kept: kept as u64, total: total as u64, unit: "bytes".into() });
    }
    cut
}

fn leave_out_media(parts: &mut [Part], most: usize, cut: &mut Option<Cut>) {
    let mut left = most;
    let mut kept = 0_u64;
    let mut dropped = 0_u64;
    for part in parts.iter_mut().filter(|part| !matches!(part, Part::Text(_))) {
        let size = match *part {
            Part::Image(ref media) | Part::Audio(ref media) | Part::File(ref media) => match &media.source {
                // Base64 needs no escapes: no need to write megabytes only to count them.
                MediaSource::Inline(inline) => {
                    let names =
                        media.name.as_deref().map_or(0, text_size) + media.mime_type.as_deref().map_or(0, text_size);
                    inline.base64.len() + names + media.detail.as_deref().map_or(0, text_size) + NOTICE
                }
                _ => json_size(media),
            },
            ref other => json_size(other),
        };
        if size <= left {
            left -= size;
            kept += 1;
        } else {
            dropped += 1;
            *part = Part::text(format!("[cut: a part ({}) of {size} bytes is left out]", head(part.kind(), 32)));
        }
    }
    if dropped > 0 {
        *cut = Some(Cut { kept, total: kept + dropped, unit: "media".into() });
    }
}

/// Cuts texts so that all of them take `most`, and returns how many bytes of them are still there.
fn cut_texts(parts: &mut Vec<Part>, most: usize, total: usize, keep: Keep) -> usize {
    let mut texts = parts.iter().filter(|part| matches!(part, Part::Text(_))).count();
    let mut left = most;
    let mut kept = 0;
    let mut full = false;
    parts.retain_mut(|part| {
        let Part::Text(text) = part else { return true };
        texts -= 1;
        let size = text_size(&text.text);
        // The last text may fill what is left; before it, room is kept for the words about the cut.
        if !full && (size + NOTICE <= left || (texts == 0 && size <= left)) {
            left -= size;
            kept += text.text.len();
            return true;
        }
        if full {
            return false;
        }
        full = true;
        let (shown, words) = cut_text(&text.text, left.saturating_sub(NOTICE), total, kept, keep);
        kept += shown;
        *part = Part::text(words);
        true
    });
    kept
}

/// One text cut to `room`, with the words that say so; and how many bytes of it are still there.
fn cut_text(text: &str, room: usize, total: usize, before: usize, keep: Keep) -> (usize, String) {
    match keep {
        Keep::Head => {
            let end = fitting(text.char_indices().map(|(at, letter)| (at + letter.len_utf8(), letter)), room, 0);
            (end, format!("{}\n[cut: the first {} of {total} bytes are shown]", &text[..end], before + end))
        }
        Keep::Tail => {
            let start = fitting(text.char_indices().rev(), room, text.len());
            let shown = text.len() - start;
            (shown, format!("[cut: the last {shown} of {total} bytes are shown]\n{}", &text[start..]))
        }
        Keep::HeadAndTail => {
            let end = fitting(text.char_indices().map(|(at, letter)| (at + letter.len_utf8(), letter)), room / 4, 0);
            let room = room - text_size(&text[..end]);
            let start = fitting(text.char_indices().rev(), room, text.len()).max(end);
            let gone = start - end;
            let shown = text.len() - gone;
            (shown, format!("{}\n[cut: {gone} of {total} bytes are left out here]\n{}", &text[..end], &text[start..]))
        }
    }
}

/// How far one comes through `letters` before `room` is used up: the place that came with the last letter that fits.
fn fitting(letters: impl Iterator<Item = (usize, char)>, room: usize, start: usize) -> usize {
    let mut used = 0;
    let mut place = start;
    for (at, letter) in letters {
        used += cost(letter);
        if used > room {
            break;
        }
        place = at;
    }
    place
}

#[cfg(test)]
#[path = "bound_tests.rs"]
mod tests;
