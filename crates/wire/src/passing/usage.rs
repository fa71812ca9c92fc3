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

fn chat(json: &[u8]) -> Said {
    let Some([usage, choices]) = fields(json, ["usage", "choices"]) else { return Said::default() };
    let names = [
        "prompt_tokens",
        "completion_tokens",
        // DeepSeek's name for what came from its cache.
        "prompt_cache_hit_tokens",
        "prompt_tokens_details",
        "completion_tokens_details",
    ];
    let Some([input, output, hit, details, more]) = usage.and_then(|usage| fields(usage, names)) else {
        return Said::default();
    };
    let number = |value: Option<&[u8]>| value.and_then(count);
    let [cached, written, audio] = counts(details, INPUT_DETAILS);
    let details = [cached.or(number(hit)), written, audio];
    let more = counts(more, OUTPUT_DETAILS);
    let usage = disjoint(number(input).unwrap_or(0), number(output).unwrap_or(0), details, more);
    let has_none = |list: &[u8]| list.first() == Some(&b'[') && list[1..].trim_ascii_start() == b"]";
    Said { usage: Some(usage), is_only_usage: choices.is_some_and(has_none) }
}

fn responses(json: &[u8]) -> Said {
    let usage = at_top_or_in(json, "response").and_then(|usage| {
        let names = ["input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details"];
        let [input, output, details, more] = fields(usage, names)?;
        let number = |value: Option<&[u8]>| value.and_then(count).unwrap_or(0);
        let (details, more) = (counts(details, INPUT_DETAILS), counts(more, OUTPUT_DETAILS));
        Some(disjoint(number(input), number(output), details, more))
    });
    Said { usage, is_only_usage: false }
}

/// Counts are of the whole answer so far; one that is left out stays as it was.
fn messages(json: &[u8], before: Usage) -> Said {
    let usage = at_top_or_in(json, "message").and_then(|usage| {
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
        let number = |value: Option<&[u8]>| value.and_then(count);
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
    });
    Said { usage, is_only_usage: false }
}

/// Thinking is counted beside the answer's text and not within it.
fn gemini(json: &[u8]) -> Said {
    let usage = fields(json, ["usageMetadata", "usage_metadata"]).and_then(|[usage, also]| {
        let names = [
            "promptTokenCount",
            "candidatesTokenCount",
            "cachedContentTokenCount",
            "thoughtsTokenCount",
            "toolUsePromptTokenCount",
        ];
        let found = fields(usage.or(also)?, names)?;
        let [input, output, cached, thoughts, tools] = found.map(|value| value.and_then(count).unwrap_or(0));
        Some(Usage {
            input: input.saturating_sub(cached).saturating_add(tools),
            cache_read: cached,
            output: output.saturating_add(thoughts),
            reasoning: thoughts,
            ..Usage::default()
        })
    });
    Said { usage, is_only_usage: false }
}
