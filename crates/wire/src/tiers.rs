//! How urgent and how dear an answer is, in the words of each protocol.
//!
//! Ours are `auto`, `default`, `flex`, `scale`, `priority`, `fast`, `ultrafast`. Two protocols call the usual one `standard`.

/// The word in OpenAI's protocols; none where they have none. One word is Responses' alone.
pub(crate) fn openai(tier: &str, is_chat: bool) -> Option<&str> {
    match tier {
        "standard" | "standard_only" => Some("default"),
        "unspecified" => Some("auto"),
        "auto" | "default" | "flex" | "scale" | "priority" | "fast" => Some(tier),
        "ultrafast" if !is_chat => Some(tier),
        _ => None,
    }
}

/// The word in Gemini's protocol.
pub(crate) fn gemini(tier: &str) -> Option<&str> {
    match tier {
        "default" | "standard" | "standard_only" => Some("standard"),
        "auto" | "unspecified" => Some("unspecified"),
        "flex" | "priority" => Some(tier),
        _ => None,
    }
}

/// Whether the provider takes its most urgent tier where it may, in Anthropic's words; none where there is no word.
pub(crate) fn anthropic(tier: &str) -> Option<&'static str> {
    match tier {
        "auto" | "priority" | "unspecified" => Some("auto"),
        "default" | "standard" | "standard_only" => Some("standard_only"),
        _ => None,
    }
}
