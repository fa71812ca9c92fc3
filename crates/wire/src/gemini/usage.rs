//! Counters of tokens, both ways.

use super::chunk::{Count, Few, Lenient, Take, Word, key, value};
use placet_core::Usage;
use serde::de::{IgnoredAny, MapAccess};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The counters as the server gives them: cumulative, and each field on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    prompt: Option<u64>,
    cached: Option<u64>,
    candidates: Option<u64>,
    thoughts: Option<u64>,
    tool_use: Option<u64>,
    prompt_audio: Option<u64>,
    output_audio: Option<u64>,
    /// How many searches were run, which another field of the answer says.
    pub(super) searches: u64,
}

#[derive(Debug, Default)]
struct Modality {
    is_audio: bool,
    count: u64,
}

impl<'de> Take<'de> for Modality {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut modality = Modality::default();
        while let Some(key) = key(&mut map)? {
            match &*key {
                "modality" => modality.is_audio = value::<Word<'de>, A>(&mut map)?.0.as_deref() == Some("AUDIO"),
                "tokenCount" | "token_count" => modality.count = value::<Count, A>(&mut map)?.0.unwrap_or(0),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(modality)
    }
}

impl<'de> Take<'de> for Counters {
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut counters = Counters::default();
        while let Some(key) = key(&mut map)? {
            let field = match &*key {
                "promptTokenCount" | "prompt_token_count" => &mut counters.prompt,
                "cachedContentTokenCount" | "cached_content_token_count" => &mut counters.cached,
                "candidatesTokenCount" | "candidates_token_count" | "responseTokenCount" => &mut counters.candidates,
                "thoughtsTokenCount" | "thoughts_token_count" => &mut counters.thoughts,
                "toolUsePromptTokenCount" | "tool_use_prompt_token_count" => &mut counters.tool_use,
                "promptTokensDetails" | "candidatesTokensDetails" | "responseTokensDetails" => {
                    let of_prompt = key.starts_with("prompt");
                    let details = value::<Few<Modality>, A>(&mut map)?;
                    let audio = details.into_iter().filter(|detail| detail.is_audio).map(|detail| detail.count).sum();
                    let field = if of_prompt { &mut counters.prompt_audio } else { &mut counters.output_audio };
                    *field = Some(audio);
                    continue;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = value::<Count, A>(&mut map)?.0;
        }
        Ok(counters)
    }
}

impl Counters {
    /// Takes over what is given; the last value of a field counts.
    pub(super) fn update(&mut self, raw: &RawValue) {
        // It was read as JSON once, so that it is JSON.
        let given: Counters =
            serde_json::from_str::<Lenient<Counters>>(raw.get()).map(|taken| taken.0).unwrap_or_default();
        for (field, value) in [
            (&mut self.prompt, given.prompt),
            (&mut self.cached, given.cached),
            (&mut self.candidates, given.candidates),
            (&mut self.thoughts, given.thoughts),
            (&mut self.tool_use, given.tool_use),
            (&mut self.prompt_audio, given.prompt_audio),
            (&mut self.output_audio, given.output_audio),
        ] {
            *field = value.or(*field);
        }
    }

    /// The disjoint counters; `None` while nothing was counted. Cached input is within the prompt; what the provider's own
    /// tools read is input beside it; thoughts are output beside the candidates.
    pub(super) fn counted(&self) -> Option<Usage> {
        let fields = [self.prompt, self.cached, self.candidates, self.thoughts, self.tool_use];
        if fields.iter().all(Option::is_none) {
            return None;
        }
        let [prompt, cached, candidates, thoughts, tool_use] = fields.map(|field| field.unwrap_or(0));
        Some(Usage {
            input: prompt.saturating_sub(cached).saturating_add(tool_use),
            cache_read: cached,
            output: candidates.saturating_add(thoughts),
            reasoning: thoughts,
            input_audio: self.prompt_audio.unwrap_or(0),
            output_audio: self.output_audio.unwrap_or(0),
            searches: self.searches,
            ..Usage::default()
        })
    }
}

/// What of the last usage no counter of ours says.
pub(super) fn rest_of(raw: &str) -> Map<String, Value> {
    let mut rest: Map<String, Value> = serde_json::from_str(raw).unwrap_or_default();
    rest.retain(|key, value| !value.is_null() && !COUNTERS.contains(&key.as_str()));
    rest
}

/// Those that follow from ours. What the provider's tools read is kept beside, because ours has it within the input.
const COUNTERS: [&str; 6] = [
    "promptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "responseTokenCount",
    "thoughtsTokenCount",
    "totalTokenCount",
];

/// Usage in this protocol's words, with what was kept beside it.
pub(super) fn encode(usage: &Usage, rest: Option<&Map<String, Value>>) -> Value {
    let mut form = Map::new();
    let tool_use = rest.and_then(|rest| rest.get("toolUsePromptTokenCount")).and_then(Value::as_u64).unwrap_or(0);
    let prompt = usage.total_input().saturating_sub(tool_use);
    form.insert("promptTokenCount".into(), prompt.into());
    if usage.cache_read > 0 {
        form.insert("cachedContentTokenCount".into(), usage.cache_read.into());
    }
    form.insert("candidatesTokenCount".into(), usage.output.saturating_sub(usage.reasoning).into());
    if usage.reasoning > 0 {
        form.insert("thoughtsTokenCount".into(), usage.reasoning.into());
    }
    form.insert("totalTokenCount".into(), usage.total().into());
    for (field, audio, whole) in [
        ("promptTokensDetails", usage.input_audio, prompt),
        ("candidatesTokensDetails", usage.output_audio, usage.output.saturating_sub(usage.reasoning)),
    ] {
        if audio > 0 {
            let text = whole.saturating_sub(audio);
            form.insert(
                field.into(),
                json!([{"modality": "TEXT", "tokenCount": text}, {"modality": "AUDIO", "tokenCount": audio}]),
            );
        }
    }
    for (key, value) in rest.into_iter().flatten() {
        form.insert(key.clone(), value.clone());
    }
    Value::Object(form)
}
