//! Vendors as rows of data: where they are, what they speak, what holds their key, and how they differ.

mod place;
mod table;

pub(crate) use place::segment;
pub use place::{Framing, Place, ollama_base_url, vendor_base_url};
pub use table::VENDORS;

use crate::adapter::Protocol;
use placet_core::ProviderId;
use placet_wire::openai_chat::{CacheMarks, Dialect, OperatorRole, OutputLimit, OutputSupport, ReplayReasoning};
use serde::{Deserialize, Serialize};

/// One vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vendor {
    /// Its id, as it stands before the colon of a reference.
    pub id: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// Whose server it is, where it is one of another row that is spoken to in another protocol.
    pub variant_of: Option<&'static str>,
    /// What people call it.
    pub name: &'static str,
    /// What it speaks.
    pub protocol: Protocol,
    /// In what its server differs from the protocol's own.
    pub flavour: Flavour,
    /// The variable that names the version of its API, where there are several.
    pub version_variable: Option<&'static str>,
    /// What a server is expected to speak that a variable puts in its place.
    pub elsewhere: Protocol,
    /// Where it is, unless a variable says otherwise.
    pub base_url: &'static str,
    /// The variables that say where it is.
    pub base_url_variables: &'static [&'static str],
    /// How its place is made up.
    pub place: Place,
    /// Headers of every request.
    pub headers: &'static [(&'static str, &'static str)],
    /// How its key is sent.
    pub key: KeyPlace,
    /// The variables that hold its key, the first that is set counts.
    pub key_variables: &'static [&'static str],
    /// Whether it does nothing without a key.
    pub is_key_required: bool,
    /// Whose models of the catalog its models are.
    pub catalog: Option<&'static str>,
    /// How all its models differ from what is usual.
    pub quirks: &'static [Quirk],
    /// How models differ further whose names begin so; every row that fits counts.
    pub models: &'static [(&'static str, &'static [Quirk])],
}

impl Vendor {
    /// A vendor that speaks OpenAI Chat, takes its key as a bearer's, and has no quirks.
    const fn new(id: &'static str, name: &'static str, base_url: &'static str) -> Self {
        Vendor {
            id,
            aliases: &[],
            variant_of: None,
            name,
            protocol: Protocol::OpenaiChat,
            flavour: Flavour::Plain,
            version_variable: None,
            elsewhere: Protocol::OpenaiChat,
            base_url,
            base_url_variables: &[],
            place: Place::Fixed,
            headers: &[],
            key: KeyPlace::Bearer,
            key_variables: &[],
            is_key_required: true,
            catalog: None,
            quirks: &[],
            models: &[],
        }
    }
}

/// In what a server differs from the protocol's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// In nothing but its quirks.
    Plain,
    /// It is xAI's.
    Xai,
    /// It runs open models on a machine of one's own.
    Local,
    /// It is Google's cloud.
    Vertex,
}

/// How a key is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// `authorization: Bearer …`.
    Bearer,
    /// In a header of this name.
    Header(&'static str),
    /// As a bearer's token that an account of Google's cloud gets.
    GoogleAccount,
}

/// A way in which a server differs from one that takes everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quirk {
    /// The limit on output stands in `max_completion_tokens`.
    MaxCompletionTokens,
    /// Operator's messages have the role `developer`.
    DeveloperRole,
    /// It knows tools that take a text, and holds a model to a grammar of it.
    CustomTools,
    /// It does not stream.
    NoStream,
    /// It must not be asked for usage in a stream.
    NoStreamUsage,
    /// It takes no `temperature` and `top_p`.
    NoSampling,
    /// It takes no `seed`.
    NoSeed,
    /// It takes no `reasoning_effort`.
    NoEffort,
    /// It takes `reasoning_effort` after all.
    Effort,
    /// It takes no `parallel_tool_calls`.
    NoParallelControl,
    /// It heeds no `tool_choice` that forces a call.
    NoForcedChoice,
    /// It takes no `strict` in tools.
    NoStrictTools,
    /// It takes no schema for the answer, but can be told to answer with JSON.
    JsonObjectOnly,
    /// It takes nothing about the shape of the answer.
    NoOutputFormat,
    /// Thinking is never sent back to it.
    NoReasoningReplay,
    /// Thinking is sent back to it with every message.
    FullReasoningReplay,
    /// It takes no pictures.
    NoImages,
    /// It takes no sounds.
    NoAudio,
    /// It takes no documents.
    NoFiles,
    /// It takes no `top_k`.
    NoTopK,
    /// It knows none of the fields that OpenAI alone has: verbosity, tiers, metadata, cache keys and marks, searching the web,
    /// a choice among some tools, answers that are more than text.
    NoOwnFields,
    /// Marks of its cache are written as Anthropic writes them.
    CacheControlMarks,
}

impl Quirk {
    /// The fields of a request that a server with this quirk takes none of.
    pub(crate) fn refuses(self) -> &'static [&'static str] {
        match self {
            Quirk::NoSampling => &["temperature", "top_p"],
            Quirk::NoSeed => &["seed"],
            Quirk::NoEffort => &["reasoning_effort"],
            Quirk::NoParallelControl => &["parallel_tool_calls"],
            Quirk::NoForcedChoice => &["tool_choice.required", "tool_choice.tool", "tool_choice.allowed_required"],
            Quirk::NoStrictTools => &["tool.strict"],
            // What is looser becomes what the server can be told.
            Quirk::JsonObjectOnly | Quirk::NoOutputFormat => &["output.strict"],
            Quirk::NoImages => &["image", "tool_result.image"],
            Quirk::NoAudio => &["audio"],
            Quirk::NoFiles => &["file", "tool_result.file"],
            Quirk::NoTopK => &["top_k"],
            Quirk::NoOwnFields => &[
                "verbosity",
                "service_tier",
                "metadata",
                "cache.key",
                "hosted.web_search",
                "modalities",
                "tool_choice.allowed",
                "tool_choice.allowed_required",
            ],
            _ => &[],
        }
    }

    fn apply(self, dialect: &mut Dialect) {
        match self {
            Quirk::MaxCompletionTokens => dialect.output_limit = OutputLimit::MaxCompletionTokens,
            Quirk::DeveloperRole => dialect.operator = OperatorRole::Developer,
            Quirk::CustomTools => dialect.custom_tools = true,
            Quirk::NoStream => dialect.stream = false,
            Quirk::NoStreamUsage => dialect.stream_usage = false,
            Quirk::NoSampling => dialect.sampling = false,
            Quirk::NoSeed => dialect.seed = false,
            Quirk::NoEffort => dialect.reasoning_effort = false,
            Quirk::Effort => dialect.reasoning_effort = true,
            Quirk::NoParallelControl => dialect.parallel_calls = false,
            Quirk::NoForcedChoice => dialect.forced_choice = false,
            Quirk::NoStrictTools => dialect.strict_tools = false,
            Quirk::JsonObjectOnly => dialect.output = OutputSupport::Object,
            Quirk::NoOutputFormat => dialect.output = OutputSupport::None,
            Quirk::NoReasoningReplay => dialect.replay_reasoning = ReplayReasoning::Never,
            Quirk::FullReasoningReplay => dialect.replay_reasoning = ReplayReasoning::Always,
            Quirk::NoImages => dialect.images = false,
            Quirk::NoAudio => dialect.audio = false,
            Quirk::NoFiles => dialect.files = false,
            Quirk::NoTopK => dialect.top_k = false,
            Quirk::CacheControlMarks => dialect.cache_marks = CacheMarks::CacheControl,
            Quirk::NoOwnFields => {
                dialect.verbosity = false;
                dialect.service_tier = false;
                dialect.metadata = false;
                dialect.store = false;
                dialect.cache_key = false;
                dialect.cache_marks = CacheMarks::None;
                dialect.web_search = false;
                dialect.modalities = false;
                dialect.allowed_tools = false;
            }
        }
    }
}

/// The dialect of OpenAI Chat of a server with these quirks.
#[must_use]
pub fn chat_dialect(provider: &ProviderId, quirks: &[Quirk]) -> Dialect {
    // Servers that are compatible with OpenAI's hardly know them, and some pass over them in silence.
    let mut dialect = Dialect { custom_tools: false, ..Dialect::new(provider.clone()) };
    quirks.iter().for_each(|quirk| quirk.apply(&mut dialect));
    dialect
}

/// The row of a vendor, by id or alias.
#[must_use]
pub fn vendor(name: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|vendor| vendor.id == name || vendor.aliases.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_rows_share_a_name_or_variable() {
        let mut seen = BTreeSet::new();
        for vendor in VENDORS {
            let names = [vendor.id].into_iter().chain(vendor.aliases.iter().copied());
            let variables = vendor.key_variables.iter().chain(vendor.base_url_variables).copied();
            for name in names.chain(variables.filter(|_| vendor.variant_of.is_none())) {
                assert!(seen.insert(name), "{name}");
            }
            assert!(!vendor.key_variables.is_empty(), "{}", vendor.id);
        }
        assert_eq!(vendor("llama.cpp").map(|vendor| vendor.id), Some("llamacpp"));
    }
}
