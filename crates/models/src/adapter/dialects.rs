//! What a server and a model take of each protocol, in the words of that protocol: from the server's row and the model's profile.

use super::{AdapterOptions, Protocol};
use crate::catalog::CatalogModel;
use crate::profile::{FeatureStatus, Profile};
use crate::vendor::{Flavour, Quirk, chat_dialect};
use placet_wire::anthropic_messages::{self, ApiVersion};
use placet_wire::{gemini, openai_chat, openai_responses};

/// What a server takes, by protocol.
#[derive(Clone, Debug)]
pub(super) enum Dialect {
    Chat(openai_chat::Dialect),
    Responses(openai_responses::Dialect),
    Anthropic(anthropic_messages::Dialect),
    Gemini(gemini::Dialect),
}

impl Dialect {
    pub(super) fn new(options: &AdapterOptions, model: &str, profile: &Profile, known: Option<&CatalogModel>) -> Self {
        match options.protocol {
            Protocol::OpenaiChat => {
                let quirks: Vec<Quirk> = options.quirks_of(model).collect();
                let mut dialect = chat_dialect(&options.id, &quirks);
                // The catalog knows better than the beginning of a name.
                dialect.reasoning_effort |= known.is_some() && takes(profile, "reasoning_effort");
                Dialect::Chat(dialect)
            }
            Protocol::OpenaiResponses => Dialect::Responses(responses(options, model, profile)),
            Protocol::AnthropicMessages => Dialect::Anthropic(anthropic(options, profile, known)),
            Protocol::Gemini => Dialect::Gemini(gemini_of(options, model, profile)),
        }
    }
}

/// The most tokens that an answer may have which comes whole from Anthropic: longer ones may take more than the ten minutes for which
/// connections stay open in silence, as its own clients reckon.
const MOST_WHOLE: u64 = 21_333;

impl Dialect {
    /// Asks for the answer in one piece, where that may be done: `limit` is how long the request lets it become.
    pub(super) fn ask_whole(&mut self, limit: Option<u64>) {
        match self {
            Dialect::Chat(dialect) => dialect.stream = false,
            Dialect::Responses(dialect) => dialect.stream = false,
            Dialect::Anthropic(dialect) => dialect.stream = limit.unwrap_or(dialect.max_tokens) > MOST_WHOLE,
            Dialect::Gemini(dialect) => dialect.stream = false,
        }
    }
}

fn takes(profile: &Profile, field: &str) -> bool {
    profile.status(field) != FeatureStatus::Unsupported
}

fn responses(options: &AdapterOptions, model: &str, profile: &Profile) -> openai_responses::Dialect {
    let id = options.id.clone();
    let mut dialect = match options.flavour {
        Flavour::Xai => openai_responses::Dialect::xai(id),
        Flavour::Local => openai_responses::Dialect::local(id),
        _ => openai_responses::Dialect::new(id),
    };
    let thinks = takes(profile, "reasoning_effort");
    dialect.encrypted_reasoning &= thinks;
    dialect.reasoning_effort &= thinks;
    dialect.sampling &= takes(profile, "temperature");
    dialect.verbosity &= takes(profile, "verbosity");
    dialect.images &= takes(profile, "image");
    if options.quirks_of(model).any(|quirk| quirk == Quirk::DeveloperRole) {
        dialect.operator = openai_responses::OperatorRole::Developer;
    }
    dialect
}

fn anthropic(options: &AdapterOptions, profile: &Profile, known: Option<&CatalogModel>) -> anthropic_messages::Dialect {
    use anthropic_messages::Thinking;
    let mut dialect = anthropic_messages::Dialect::new(options.id.clone());
    dialect.version = match options.api_version.as_deref() {
        Some(version) if version == ApiVersion::V2026.header() => ApiVersion::V2026,
        _ => ApiVersion::V2023,
    };
    if let Some(most) = profile.output {
        dialect.max_tokens = dialect.max_tokens.min(most);
    }
    dialect.sampling = takes(profile, "temperature");
    dialect.forced_choice = takes(profile, "tool_choice.required");
    dialect.structured_output = takes(profile, "output.strict");
    dialect.compaction = takes(profile, "compaction");
    dialect.images = takes(profile, "image");
    // Of a model that nobody knows nothing is held back.
    let Some(known) = known else { return dialect };
    dialect.thinking = match (known.can("reasoning"), known.can("adaptive_thinking"), known.can("legacy_thinking")) {
        (false, false, _) => Thinking::None,
        (_, true, true) => Thinking::Any,
        (_, true, false) => Thinking::Adaptive,
        (true, false, _) => Thinking::Budget,
    };
    dialect.effort = known.can("output_config") || known.can("adaptive_thinking");
    dialect.thinking_display = known.can("adaptive_thinking");
    dialect.mid_system = known.can("mid_conversation_system");
    dialect
}

/// The first generation of which everything holds that the protocol can say.
const CURRENT: [&str; 5] = ["gemini-3", "gemini-4", "gemini-omni", "gemini-pro-latest", "gemini-flash"];

fn gemini_of(options: &AdapterOptions, model: &str, profile: &Profile) -> gemini::Dialect {
    let id = options.id.clone();
    let mut dialect = match options.flavour {
        Flavour::Vertex => gemini::Dialect::vertex(id),
        _ => gemini::Dialect::gemini_api(id),
    };
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_named = name.starts_with("gemini-") || name.starts_with("gemma-");
    if is_named && !CURRENT.iter().any(|beginning| name.starts_with(beginning)) {
        dialect.output_with_tools = false;
        dialect.mixed_tools = false;
        dialect.result_media = false;
        dialect.part_resolution = false;
        dialect.thinking = gemini::Thinking::Budgets;
    } else if is_named {
        // Calls that another model made have no signature, which these insist on.
        dialect.placeholder_signature = true;
    }
    if !takes(profile, "reasoning_effort") {
        dialect.thinking = gemini::Thinking::None;
    }
    dialect
}
