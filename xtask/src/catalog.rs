//! `cargo xtask catalog FROM.json`: writes the catalog of models from a price list that the community keeps.
//!
//! The list is litellm's `model_prices_and_context_window` with its fields sorted: `sources`, and `models` of which each has
//! `id`, `provider`, `mode`, limits, `supports`, and `cost` in US dollars for one token. What is written is our own form, one
//! line a model: prices for a million tokens under the names of `placet_core::price`, abilities in our words.

use crate::json::Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Where it is written.
const TO: &str = "crates/models/data/catalog.json";

/// Names of costs, and of what is charged for. Those of tokens are multiplied by a million.
const METERS: [(&str, &str, bool); 33] = [
    ("input_cost_per_token", "input", true),
    ("output_cost_per_token", "output", true),
    ("cache_read_input_token_cost", "cache_read", true),
    ("cache_creation_input_token_cost", "cache_write", true),
    ("cache_creation_input_token_cost_above_1hr", "cache_write_1h", true),
    ("cache_creation_input_token_cost_above_12hr", "cache_write_12h", true),
    ("output_cost_per_reasoning_token", "reasoning", true),
    ("input_cost_per_audio_token", "input_audio", true),
    ("output_cost_per_audio_token", "output_audio", true),
    ("cache_read_input_audio_token_cost", "cache_read_audio", true),
    ("cache_creation_input_audio_token_cost", "cache_write_audio", true),
    ("input_cost_per_image_token", "input_image", true),
    ("output_cost_per_image_token", "output_image", true),
    ("cache_read_input_image_token_cost", "cache_read_image", true),
    ("input_cost_per_video_token", "input_video", true),
    ("output_cost_per_video_token", "output_video", true),
    ("google_maps_grounding_cost_per_query", "maps", false),
    ("code_interpreter_cost_per_session", "code_session", false),
    ("input_cost_per_image", "picture_in", false),
    ("output_cost_per_image", "picture_out", false),
    ("output_cost_per_image_1K", "picture_out_1k", false),
    ("output_cost_per_image_2K", "picture_out_2k", false),
    ("input_cost_per_second", "second_in", false),
    ("output_cost_per_second", "second_out", false),
    ("output_cost_per_second_480p", "second_out_480p", false),
    ("output_cost_per_second_720p", "second_out_720p", false),
    ("output_cost_per_second_1080p", "second_out_1080p", false),
    ("output_cost_per_second_4k", "second_out_4k", false),
    ("input_cost_per_video_per_second", "video_second_in", false),
    ("output_cost_per_video_per_second", "video_second_out", false),
    ("input_cost_per_audio_per_second", "audio_second_in", false),
    ("input_cost_per_character", "character_in", false),
    ("output_cost_per_character", "character_out", false),
];

const TIERS: [&str; 5] = ["batches", "flex", "priority", "ultrafast", "decisions"];

/// Words for abilities that are ours and not the list's own.
const ABILITIES: [(&str, &str); 16] = [
    ("function_calling", "tools"),
    ("parallel_function_calling", "parallel_tools"),
    ("forced_tool_use", "forced_tools"),
    ("vision", "image_input"),
    ("pdf_input", "file_input"),
    ("response_schema", "output_schema"),
    ("native_structured_output", "native_output_schema"),
    ("native_streaming", ""),
    ("system_messages", ""),
    ("multimodal", ""),
    ("none_reasoning_effort", "effort_none"),
    ("minimal_reasoning_effort", "effort_minimal"),
    ("xhigh_reasoning_effort", "effort_xhigh"),
    ("max_reasoning_effort", "effort_max"),
    ("anthropic_compaction", "compaction"),
    ("prompt_cache_breakpoint", "cache_marks"),
];

/// Reads the list at `from` and writes the catalog below `root`; gives a sentence on what was written.
pub(crate) fn write(root: &Path, from: &str, retrieved: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(from).map_err(|error| format!("`{from}` cannot be read: {error}"))?;
    let list = Json::parse(&text).map_err(|error| format!("`{from}`: {error}"))?;
    let mut left_out = BTreeSet::new();
    let models: Vec<Model> = list.get("models").map(Json::list).unwrap_or_default().iter().map(Model::read).collect();
    let models = fold(models);
    let mut lines = Vec::new();
    for model in &models {
        lines.push(model.line(&mut left_out)?);
    }
    let source = list.get("sources").and_then(|sources| sources.list().first());
    let said = |name: &str| source.and_then(|source| source.get(name)).and_then(Json::text).unwrap_or("unknown");
    let head = object([
        ("format", Json::Number("1".into())),
        (
            "about",
            Json::Text(
                "Facts on models: prices in US dollars for a million tokens, or for one of what is no token. \
            Written by `cargo xtask catalog`; not edited by hand."
                    .into(),
            ),
        ),
        ("source", Json::Text(format!("{}, {} ({})", said("name"), said("kind"), said("file")))),
        ("licence", Json::Text(said("licence").into())),
        ("retrieved", Json::Text(retrieved.into())),
    ]);
    let head = head.to_string();
    let mut out = head.trim_end_matches('}').to_owned();
    out.push_str(",\n\"models\":[\n");
    out.push_str(&lines.join(",\n"));
    out.push_str("\n]}\n");
    std::fs::write(root.join(TO), &out).map_err(|error| format!("`{TO}` cannot be written: {error}"))?;
    let mut told = format!("{TO}: {} models, {} bytes", models.len(), out.len());
    if !left_out.is_empty() {
        told.push_str(&format!("; costs without a name of ours: {left_out:?}"));
    }
    Ok(told)
}

/// A model of the list, with the names that mean the same.
struct Model {
    id: String,
    provider: String,
    aliases: Vec<String>,
    facts: Json,
}

impl Model {
    fn read(entry: &Json) -> Self {
        let said = |name: &str| entry.get(name).and_then(Json::text).unwrap_or_default().to_owned();
        Model { id: said("id"), provider: said("provider"), aliases: Vec::new(), facts: entry.clone() }
    }

    /// Everything but the name: equal for two names of one model.
    fn likeness(&self) -> String {
        let fields = self.facts.fields().iter().filter(|(key, _)| !matches!(key.as_str(), "id" | "extra" | "source"));
        fields.map(|(key, value)| format!("{key}={value};")).collect()
    }

    fn line(&self, left_out: &mut BTreeSet<String>) -> Result<String, String> {
        let facts = &self.facts;
        let extra = |name: &str| facts.get("extra").and_then(|extra| extra.get(name));
        let mut fields = vec![
            ("id".to_owned(), Json::Text(self.id.clone())),
            ("provider".to_owned(), Json::Text(self.provider.clone())),
        ];
        let mut put = |name: &str, value: Option<Json>| {
            match value {
                None | Some(Json::Null) => {}
                // Some whole numbers are written `4096.0`.
                Some(Json::Number(number)) => {
                    fields.push((name.to_owned(), Json::Number(decimal(&number, 0).unwrap_or(number))));
                }
                Some(value) => fields.push((name.to_owned(), value)),
            }
        };
        put("aliases", texts(self.aliases.iter().cloned()));
        put("kind", facts.get("mode").cloned());
        put("window", facts.get("max_input_tokens").cloned());
        put("output", facts.get("max_output_tokens").cloned());
        put("retires", facts.get("deprecation_date").cloned());
        // The list writes some with the provider in front.
        let next =
            extra("successor_model").and_then(Json::text).map(|id| id.rsplit('/').next().unwrap_or(id).to_owned());
        put("replacement", next.map(Json::Text));
        put("reads", facts.get("modalities").cloned());
        put("writes", facts.get("output_modalities").cloned());
        put("cans", texts(abilities(facts)));
        let endpoints = facts.get("endpoints").map(Json::list).unwrap_or_default();
        let endpoints = endpoints.iter().filter_map(Json::text).map(|path| path.trim_start_matches("/v1/").to_owned());
        put("endpoints", texts(endpoints));
        put("cache_from", extra("prompt_cache_min_tokens").cloned());
        put("vector", extra("output_vector_size").cloned());
        put("efforts", extra("reasoning_effort_levels").cloned());
        put("effort", extra("default_reasoning_effort").cloned());
        let prices = self.prices(left_out)?;
        put("prices", (!prices.is_empty()).then_some(Json::Object(prices)));
        put("source", facts.get("source").cloned());
        Ok(Json::Object(fields).to_string())
    }

    fn prices(&self, left_out: &mut BTreeSet<String>) -> Result<Vec<(String, Json)>, String> {
        let mut prices = BTreeMap::new();
        let mut put = |key: String, number: &str, shift: bool| {
            let amount = decimal(number, if shift { 6 } else { 0 })
                .ok_or_else(|| format!("{}: the cost {number:?} of {key} is no decimal number", self.id))?;
            prices.insert(key, Json::Text(amount));
            Ok::<_, String>(())
        };
        for (name, cost) in self.facts.get("cost").map(Json::fields).unwrap_or_default() {
            if name == "search_context_cost_per_query" {
                let size = |size: &str| cost.get(&format!("search_context_size_{size}")).and_then(Json::number);
                let usual = size("medium").or_else(|| size("low"));
                for (key, amount) in [("search", usual), ("search_low", size("low")), ("search_high", size("high"))] {
                    if let Some(amount) = amount.filter(|amount| key == "search" || Some(*amount) != usual) {
                        put(key.to_owned(), amount, false)?;
                    }
                }
                continue;
            }
            match (meter(name), cost.number()) {
                (Some((key, shift)), Some(number)) => put(key, number, shift)?,
                _ => drop(left_out.insert(name.clone())),
            }
        }
        let extra = self.facts.get("extra");
        let factors =
            extra.and_then(|extra| extra.get("provider_specific_entry")).map(Json::fields).unwrap_or_default();
        for (name, factor) in factors {
            if let Some(number) = factor.number() {
                put(format!("*{name}"), number, false)?;
            }
        }
        for region in ["us", "eu"] {
            let factor = extra.and_then(|extra| extra.get(&format!("regional_processing_uplift_multiplier_{region}")));
            if let Some(number) = factor.and_then(Json::number) {
                put(format!("*{region}"), number, false)?;
            }
        }
        Ok(prices.into_iter().collect())
    }
}

fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    Json::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn texts(values: impl Iterator<Item = String>) -> Option<Json> {
    let values: Vec<Json> = values.map(Json::Text).collect();
    (!values.is_empty()).then_some(Json::List(values))
}

fn abilities(facts: &Json) -> impl Iterator<Item = String> {
    let supports = facts.get("supports").map(Json::list).unwrap_or_default();
    let word = |word: &str| {
        ABILITIES.iter().find(|(theirs, _)| *theirs == word).map_or(word.to_owned(), |(_, ours)| (*ours).to_owned())
    };
    let mut words: BTreeSet<String> = supports.iter().filter_map(Json::text).map(word).collect();
    let extra = |name: &str| facts.get("extra").and_then(|extra| extra.get(name)) == Some(&Json::Bool(true));
    for (flag, word) in [("thinking_always_on", "thinks_always"), ("thinking_on_by_default", "thinks_by_default")] {
        if extra(flag) {
            words.insert(word.to_owned());
        }
    }
    words.into_iter().filter(|word| !word.is_empty())
}

/// The key of a price, such as `input@272k+flex`, and whether it is for tokens.
fn meter(name: &str) -> Option<(String, bool)> {
    let (name, tier) = TIERS
        .iter()
        .find_map(|tier| Some((name.strip_suffix(tier)?.strip_suffix('_')?, Some(*tier))))
        .unwrap_or((name, None));
    // `_above_272k_tokens` stands anywhere behind the name of the cost.
    let (name, above) = match name.split_once("k_tokens") {
        Some((before, after)) => {
            let (name, thousands) = before.rsplit_once("_above_")?;
            (format!("{name}{after}"), Some(thousands.parse::<u32>().ok()?))
        }
        None => (name.to_owned(), None),
    };
    let (_, ours, is_tokens) = METERS.iter().find(|(theirs, _, _)| *theirs == name)?;
    let mut key = (*ours).to_owned();
    if let Some(thousands) = above {
        key.push_str(&format!("@{thousands}k"));
    }
    if let Some(tier) = tier {
        key.push_str(&format!("+{tier}"));
    }
    Some((key, *is_tokens))
}

/// A number times ten to the power of `shift`, as a plain decimal without needless zeros.
fn decimal(number: &str, shift: i32) -> Option<String> {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Where the point stands, counted from the left.
    let point = i32::try_from(whole.len()).ok()? + exponent + shift;
    let (digits, point) = match usize::try_from(point) {
        Ok(point) => (format!("{digits:0<point$}"), point),
        Err(_) => (format!("{}{digits}", "0".repeat(point.unsigned_abs() as usize)), 0),
    };
    let (whole, fraction) = digits.split_at(point);
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") })
}

/// Puts names of one model together: `gpt-x-2026-01-02` and `gpt-x-latest` become other names of `gpt-x` where every fact is the
/// same. What has no price of tokens and is no model is left out.
fn fold(models: Vec<Model>) -> Vec<Model> {
    let mut kept: Vec<Model> = Vec::new();
    let mut models: Vec<Model> =
        models.into_iter().filter(|model| !model.id.contains('/') && model.id != "container").collect();
    models.sort_by(|a, b| (&a.provider, a.id.len(), &a.id).cmp(&(&b.provider, b.id.len(), &b.id)));
    for model in models {
        let is_name_of = |other: &&mut Model| {
            let rest = model.id.strip_prefix(&other.id).and_then(|rest| rest.strip_prefix('-'));
            let is_same = model.provider == other.provider && model.likeness() == other.likeness();
            is_same && (model.id == other.id || rest.is_some_and(is_version))
        };
        match kept.iter_mut().find(is_name_of) {
            Some(other) if other.id == model.id => {}
            Some(other) => other.aliases.push(model.id),
            None => kept.push(model),
        }
    }
    kept.sort_by(|a, b| (&a.provider, &a.id).cmp(&(&b.provider, &b.id)));
    kept
}

/// Whether it is a date or `latest`.
fn is_version(text: &str) -> bool {
    text == "latest" || (text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_exact() {
        for (number, shift, wanted) in [
            ("2.5e-06", 6, "2.5"),
            ("1e-05", 6, "10"),
            ("1.3e-07", 6, "0.13"),
            ("0.0", 6, "0"),
            ("0.01", 0, "0.01"),
            ("2", 0, "2"),
            ("0.00015", 6, "150"),
            ("1.234567891e-9", 6, "0.001234567891"),
        ] {
            assert_eq!(decimal(number, shift).as_deref(), Some(wanted), "{number}");
        }
        assert_eq!(decimal("x", 6), None);
    }

    #[test]
    fn names_of_costs_are_read_along_their_axes() {
        for (name, wanted) in [
            ("input_cost_per_token", Some("input")),
            ("input_cost_per_token_above_272k_tokens_flex", Some("input@272k+flex")),
            (
                "cache_creation_input_token_cost_above_12hr_above_272k_tokens_batches",
                Some("cache_write_12h@272k+batches"),
            ),
            ("cache_creation_input_token_cost_above_1hr_above_100k_tokens", Some("cache_write_1h@100k")),
            ("output_cost_per_second_1080p", Some("second_out_1080p")),
            ("something_else", None),
        ] {
            assert_eq!(meter(name).map(|(key, _)| key).as_deref(), wanted, "{name}");
        }
    }
}
