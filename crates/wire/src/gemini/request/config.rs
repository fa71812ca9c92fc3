//! What a client's body asks for beside the conversation: a choice of tools, and `generationConfig`.

use super::super::encode::OUTPUT;
use super::super::hosted::{take_count, take_words};
use super::super::parts::{take, take_object, take_text};
use crate::schema::{fits_strict, from_openapi, without_google};
use placet_core::turn::{AllowedTools, OutputFormat};
use placet_core::{Schema, ToolChoice, ToolName, TurnRequest};
use serde_json::{Map, Value, json};

/// What of `toolConfig` has words of ours; the rest stays.
pub(super) fn tool_choice(rest: &mut Map<String, Value>, request: &mut TurnRequest) {
    let Some(mut config) = take_object(rest, "toolConfig") else { return };
    if let Some(mut calling) = take_object(&mut config, "functionCallingConfig") {
        let mode = take_text(&mut calling, "mode");
        let names = take_words(&mut calling, "allowedFunctionNames");
        let names: Vec<ToolName> = names.iter().map(ToolName::new).collect();
        let hosted = !request.hosted.is_empty();
        request.tool_choice = match (mode.as_deref(), names.as_slice()) {
            (Some("ANY"), []) => ToolChoice::Required,
            (Some("ANY"), [name]) => ToolChoice::Tool(name.clone()),
            (Some("ANY"), _) => ToolChoice::Allowed(AllowedTools { names, required: true, hosted }),
            // It says nothing of tools that the provider runs itself.
            (Some("NONE"), _) if hosted => ToolChoice::Allowed(AllowedTools { hosted, ..AllowedTools::default() }),
            (Some("NONE"), _) => ToolChoice::None,
            (Some("VALIDATED"), [_, ..]) => ToolChoice::Allowed(AllowedTools { names, required: false, hosted }),
            (None | Some("AUTO" | "MODE_UNSPECIFIED"), []) => ToolChoice::Auto,
            (mode, _) => {
                if let Some(mode) = mode {
                    calling.insert("mode".to_owned(), mode.into());
                }
                if !names.is_empty() {
                    let names: Vec<&str> = names.iter().map(ToolName::as_str).collect();
                    calling.insert("allowedFunctionNames".to_owned(), json!(names));
                }
                ToolChoice::Auto
            }
        };
        calling.retain(|_, value| !value.is_null());
        if !calling.is_empty() {
            config.insert("functionCallingConfig".to_owned(), Value::Object(calling));
        }
    }
    config.retain(|_, value| !value.is_null());
    // Said anyway where tools of both sorts are offered.
    let is_mixed = !request.tools.is_empty() && !request.hosted.is_empty();
    if is_mixed && config.get("includeServerSideToolInvocations") == Some(&Value::Bool(true)) {
        config.shift_remove("includeServerSideToolInvocations");
    }
    if !config.is_empty() {
        rest.insert("toolConfig".to_owned(), Value::Object(config));
    }
}

/// What of `generationConfig` has words of ours; the rest stays.
pub(super) fn generation(config: &mut Map<String, Value>, request: &mut TurnRequest) {
    let controls = &mut request.controls;
    for (key, place) in [
        ("temperature", &mut controls.temperature),
        ("topP", &mut controls.top_p),
        ("frequencyPenalty", &mut controls.frequency_penalty),
        ("presencePenalty", &mut controls.presence_penalty),
    ] {
        match take(config, key) {
            Some(Value::Number(number)) => *place = number.as_f64(),
            Some(other) => drop(config.insert(key.to_owned(), other)),
            None => {}
        }
    }
    controls.top_k = take_count(config, "topK");
    controls.seed = take_count(config, "seed");
    controls.max_output_tokens = take_count(config, "maxOutputTokens");
    controls.stop = take_words(config, "stopSequences");
    // One answer is what is given anyway.
    if let Some(count) = take_count(config, "candidateCount").filter(|count| *count != 1) {
        config.insert("candidateCount".to_owned(), count.into());
    }
    if let Some(Value::Bool(true)) = take(config, "responseLogprobs") {
        controls.top_logprobs = Some(take_count(config, "logprobs").unwrap_or(0));
    }
    let modalities = take_words(config, "responseModalities");
    // Text is what is answered anyway.
    if modalities != ["TEXT"] {
        controls.modalities = modalities.iter().map(|word| word.to_ascii_lowercase()).collect();
    }
    if let Some(mut thinking) = take_object(config, "thinkingConfig") {
        match take(&mut thinking, "includeThoughts") {
            Some(Value::Bool(include)) => {
                controls.reasoning_summary = Some(if include { "auto" } else { "none" }.to_owned());
            }
            Some(other) => drop(thinking.insert("includeThoughts".to_owned(), other)),
            None => {}
        }
        controls.reasoning_budget = take_count(&mut thinking, "thinkingBudget");
        match take_text(&mut thinking, "thinkingLevel") {
            Some(level) if level.to_ascii_uppercase().starts_with("THINKING_") => {
                thinking.insert("thinkingLevel".to_owned(), level.into());
            }
            level => controls.reasoning_effort = level.map(|level| level.to_ascii_lowercase()),
        }
        thinking.retain(|_, value| !value.is_null());
        if !thinking.is_empty() {
            config.insert("thinkingConfig".to_owned(), Value::Object(thinking));
        }
    }
    output(config, request);
}

fn output(config: &mut Map<String, Value>, request: &mut TurnRequest) {
    let Some(mime) = take_text(config, "responseMimeType") else { return };
    if mime != "application/json" {
        config.insert("responseMimeType".to_owned(), mime.into());
        return;
    }
    let schema = match (take(config, "responseJsonSchema"), take(config, "responseSchema")) {
        (Some(schema), _) => Some(schema),
        (None, Some(known)) => {
            let schema = from_openapi(&known);
            // It goes out again in these words.
            config.insert("responseSchema".to_owned(), known);
            Some(schema)
        }
        (None, None) => None,
    };
    let word = |key: &str| schema.as_ref().and_then(|schema| schema.get(key)?.as_str().map(str::to_owned));
    let is_name = |text: &String| {
        !text.is_empty()
            && text.len() <= 64
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    request.output = Some(OutputFormat {
        name: word("title").filter(is_name).unwrap_or_else(|| OUTPUT.to_owned()),
        description: word("description"),
        // The model is held to it either way; only some schemas are such that others can be told to do so.
        strict: schema.as_ref().is_some_and(|schema| match without_google(schema) {
            Some(plain) => fits_strict(&plain),
            None => fits_strict(schema),
        }),
        schema: Schema::new(schema.unwrap_or_else(|| json!({"type": "object"}))),
    });
}
