//! What the answers of each protocol say they used, read from one event or body at a time.

use super::Speech;
use super::scan::Walk;
use placet_core::Usage;

/// What one event or one whole body says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// What was used so far, where it is said.
    pub(super) usage: Option<Usage>,
    /// Whether the event holds usage and nothing else (Chat).
    pub(super) is_only_usage: bool,
}

/// Reads one JSON text. What cannot be read says nothing.
pub(super) fn read(speech: Speech, json: &[u8], before: Usage) -> Said {
    match speech {
        Speech::OpenaiChat => chat(json),
        Speech::OpenaiResponses => responses(json),
        Speech::AnthropicMessages => messages(json, before),
        Speech::Gemini => gemini(json),
    }
}

/// Reads the usage of a whole body. It stands near the end in every protocol, so that is where it is looked for first.
pub(super) fn read_whole(speech: Speech, json: &[u8]) -> Option<Usage> {
    let near_end = match speech {
        Speech::Gemini => last_field(json, "usageMetadata"),
        _ => last_field(json, "usage"),
    };
    let found = near_end.and_then(|usage| match speech {
        Speech::OpenaiChat => chat_usage(usage),
        Speech::OpenaiResponses => responses_usage(usage),
        Speech::AnthropicMessages => messages_usage(usage, Usage::default()),
        Speech::Gemini => gemini_usage(usage),
    });
    found.or_else(|| read(speech, json, Usage::default()).usage)
}

/// The value of a field at the top of an object, if the last text of that name in it is the field's name: from there on other
/// fields follow, and then the end of both the object and the text. What stands before is not looked at.
fn last_field<'j>(json: &'j [u8], name: &str) -> Option<&'j [u8]> {
    let quoted = |at: &usize| {
        let at = at.checked_sub(1)?;
        let rest = json.get(at..)?.strip_prefix(b"\"")?.strip_prefix(name.as_bytes())?;
        rest.starts_with(b"\"").then_some(at)
    };
    let at = memchr::memrchr_iter(*name.as_bytes().first()?, json).find_map(|at| quoted(&at))?;
    let mut found = None;
    let walked = Walk::from(json, at).fields(|_, value| {
        found = found.or(json.get(value));
        Ok(())
    });
    walked.ok().and(found)
}

/// The values of the fields at the top of an object that have these names; of one that stands there twice, the last.
/// Nothing where it is no object. All the rest of the text is stepped over.
fn fields<'j, const N: usize>(json: &'j [u8], names: [&str; N]) -> Option<[Option<&'j [u8]>; N]> {
    let mut found = [None; N];
    let noted = Walk::from(json, 0).object(|name, value| {
        let name = json.get(name.start + 1..name.end - 1).unwrap_or_default();
        if let Some(place) = names.iter().position(|known| known.as_bytes() == name) {
            found[place] = json.get(value);
        }
        Ok(())
    });
    noted.ok().map(|()| found)
}

/// The counts among the fields of an object.
fn counts<const N: usize>(json: Option<&[u8]>, names: [&str; N]) -> [Option<u64>; N] {
    json.and_then(|json| fields(json, names)).unwrap_or([None; N]).map(|value| count(value?))
}

/// A count: digits and nothing else.
fn count(value: &[u8]) -> Option<u64> {
    let digit = |total: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        total.checked_mul(10)?.checked_add(digit)
    };
    (!value.is_empty()).then(|| value.iter().try_fold(0, digit)).flatten()
}

/// The object that stands at the top under that name, or else in the object of the other name.
fn at_top_or_in<'j>(json: &'j [u8], name: &str) -> Option<&'j [u8]> {
    let is_object = |value: &&[u8]| value.starts_with(b"{");
    let [usage, nested] = fields(json, ["usage", name])?;
    usage.filter(is_object).or_else(|| fields(nested?, ["usage"])?[0].filter(is_object))
}

/// OpenAI counts cached input within input; ours are apart.
fn disjoint(input: u64, output: u64, details: [Option<u64>; 3], more: [Option<u64>; 2]) -> Usage {
    let [cached, written, input_audio] = details.map(Option::unwrap_or_default);
    let [reasoning, output_audio] = more.map(Option::unwrap_or_default);
    Usage {
        input: input.saturating_sub(cached).saturating_sub(written),
        cache_read: cached,
        cache_write: written,
        output,
        reasoning,
        input_audio,
        output_audio,
        ..Usage::default()
    }
}

const INPUT_DETAILS: [&str; 3] = ["cached_tokens", "cache_write_tokens", "audio_tokens"];
const OUTPUT_DETAILS: [&str; 2] = ["reasoning_tokens", "audio_tokens"];

fn number(value: Option<&[u8]>) -> Option<u64> {
    value.and_then(count)
}

fn chat(json: &[u8]) -> Said {
    let Some([usage, choices]) = fields(json, ["usage", "choices"]) else { return Said::default() };
    let usage = usage.and_then(chat_usage);
    let has_none = |list: &[u8]| list.first() == Some(&b'[') && list[1..].trim_ascii_start() == b"]";
    Said { usage, is_only_usage: usage.is_some() && choices.is_some_and(has_none) }
}

fn chat_usage(usage: &[u8]) -> Option<Usage> {
    let names = [
        "prompt_tokens",
        "completion_tokens",
        // DeepSeek's name for what came from its cache.
        "prompt_cache_hit_tokens",
        "prompt_tokens_details",
        "completion_tokens_details",
    ];
    let [input, output, hit, details, more] = fields(usage, names)?;
    let [cached, written, audio] = counts(details, INPUT_DETAILS);
    let details = [cached.or(number(hit)), written, audio];
    let more = counts(more, OUTPUT_DETAILS);
    Some(disjoint(number(input).unwrap_or(0), number(output).unwrap_or(0), details, more))
}

fn responses(json: &[u8]) -> Said {
    Said { usage: at_top_or_in(json, "response").and_then(responses_usage), is_only_usage: false }
}

fn responses_usage(usage: &[u8]) -> Option<Usage> {
    let names = ["input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details"];
    let [input, output, details, more] = fields(usage, names)?;
    let (details, more) = (counts(details, INPUT_DETAILS), counts(more, OUTPUT_DETAILS));
    Some(disjoint(number(input).unwrap_or(0), number(output).unwrap_or(0), details, more))
}

/// Counts are of the whole answer so far; one that is left out stays as it was.
fn messages(json: &[u8], before: Usage) -> Said {
    let usage = at_top_or_in(json, "message").and_then(|usage| messages_usage(usage, before));
    Said { usage, is_only_usage: false }
}

fn messages_usage(usage: &[u8], before: Usage) -> Option<Usage> {
    let names = [
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "cache_creation",
        "server_tool_use",
        "output_tokens_details",
    ];
    let [input, output, read, written, creation, tools, details] = fields(usage, names)?;
    let [long] = counts(creation, ["ephemeral_1h_input_tokens"]);
    let long = long.unwrap_or(before.cache_write_long);
    Some(Usage {
        input: number(input).unwrap_or(before.input),
        cache_read: number(read).unwrap_or(before.cache_read),
        cache_write: number(written).map_or(before.cache_write, |written| written.saturating_sub(long)),
        cache_write_long: long,
        output: number(output).unwrap_or(before.output),
        reasoning: counts(details, ["thinking_tokens"])[0].unwrap_or(before.reasoning),
        searches: counts(tools, ["web_search_requests"])[0].unwrap_or(before.searches),
        ..before
    })
}

fn gemini(json: &[u8]) -> Said {
    let usage = fields(json, ["usageMetadata", "usage_metadata"]);
    Said { usage: usage.and_then(|[usage, also]| gemini_usage(usage.or(also)?)), is_only_usage: false }
}

/// Thinking is counted beside the answer's text and not within it.
fn gemini_usage(usage: &[u8]) -> Option<Usage> {
    let names = [
        "promptTokenCount",
        "candidatesTokenCount",
        "cachedContentTokenCount",
        "thoughtsTokenCount",
        "toolUsePromptTokenCount",
    ];
    let found = fields(usage, names)?;
    let [input, output, cached, thoughts, tools] = found.map(|value| number(value).unwrap_or(0));
    Some(Usage {
        input: input.saturating_sub(cached).saturating_add(tools),
        cache_read: cached,
        output: output.saturating_add(thoughts),
        reasoning: thoughts,
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_found_from_the_end_where_it_stands_at_the_top() {
        let used = |input, output| Some(Usage { input, output, ..Usage::default() });
        let usage = r#"{"prompt_tokens":3,"completion_tokens":5}"#;
        for (body, found) in [
            (format!(r#"{{"choices":[],"usage":{usage}}}"#), used(3, 5)),
            (format!(r#"{{"usage" : {usage} , "x":[1] }} "#), used(3, 5)),
            (format!(r#"{{"usage":{usage},"choices":[{{"text":"\"usage\":{{}}"}}]}}"#), used(3, 5)),
            // What is named so elsewhere is not what was used.
            (format!(r#"{{"usage":{usage},"choices":[{{"usage":{{"prompt_tokens":9}}}}]}}"#), used(3, 5)),
            (format!(r#"{{"usage":{usage},"kind":"usage"}}"#), used(3, 5)),
            (format!(r#"{{"choices":[{{"usage":{usage}}}]}}"#), None),
            (r#"{"usage":null}"#.to_owned(), None),
            (format!(r#"{{"usage":{usage}"#), None),
            ("\"usage\"".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(read_whole(Speech::OpenaiChat, body.as_bytes()), found, "{body}");
        }
    }
}
