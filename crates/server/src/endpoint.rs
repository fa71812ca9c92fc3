//! Which endpoint a method and a path mean.

use http::Method;
use placet_wire::passing::Speech;

/// What a path stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint<'p> {
    /// A turn of a model, in this protocol.
    Turn(Speech),
    /// A turn in Gemini's protocol, whose path names the model and how it is answered.
    GeminiTurn { model: &'p str, stream: bool },
    /// Counting the tokens of a request (Messages).
    CountTokens,
    /// Counting the tokens of a request (Responses).
    InputTokens,
    /// Counting the tokens of a request (Gemini).
    GeminiCount { model: &'p str },
    /// Embeddings (OpenAI).
    Embeddings,
    /// Embeddings (Gemini).
    GeminiEmbed { model: &'p str, action: &'p str },
    /// The list of models.
    Models { gemini: bool },
    /// One model.
    Model { id: &'p str, gemini: bool },
    /// A kept answer (Responses).
    Response { id: &'p str, action: ResponseAction },
    /// A webhook of a flow.
    Hook { id: &'p str },
    /// Whether the process is alive.
    Health,
    /// Whether it can serve.
    Ready,
    /// Figures for Prometheus.
    Metrics,
    /// The path is known, and not with this method.
    Method(&'static str),
    /// Nothing of ours.
    Unknown,
}

/// What is done with a kept answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseAction {
    Retrieve,
    Delete,
    Cancel,
    InputItems,
}

impl Endpoint<'_> {
    /// Whether a model or a flow is asked, so that each request leaves a line in the ledger.
    pub(crate) fn asks(&self) -> bool {
        use Endpoint as E;
        matches!(self, E::Turn(_) | E::GeminiTurn { .. } | E::CountTokens | E::InputTokens | E::GeminiCount { .. })
            || matches!(self, E::Embeddings | E::GeminiEmbed { .. } | E::Hook { .. })
    }

    /// The protocol whose errors this endpoint answers with.
    pub(crate) fn speech(&self) -> Speech {
        match self {
            Endpoint::Turn(speech) => *speech,
            Endpoint::CountTokens => Speech::AnthropicMessages,
            Endpoint::GeminiTurn { .. }
            | Endpoint::GeminiCount { .. }
            | Endpoint::GeminiEmbed { .. }
            | Endpoint::Models { gemini: true }
            | Endpoint::Model { gemini: true, .. } => Speech::Gemini,
            _ => Speech::OpenaiChat,
        }
    }
}

/// Reads a path. A version that stands there twice (a base URL that ends with `/v1` in a client that adds it) or not at all
/// is understood all the same.
pub(crate) fn endpoint<'p>(method: &Method, path: &'p str) -> Endpoint<'p> {
    match path {
        // What nearly every request asks for.
        "/v1/chat/completions" => return post(method, Endpoint::Turn(Speech::OpenaiChat)),
        "/v1/messages" => return post(method, Endpoint::Turn(Speech::AnthropicMessages)),
        "/v1/responses" => return post(method, Endpoint::Turn(Speech::OpenaiResponses)),
        "/healthz" => return get(method, Endpoint::Health),
        "/readyz" => return get(method, Endpoint::Ready),
        "/metrics" => return get(method, Endpoint::Metrics),
        _ => {}
    }
    let mut rest = path.trim_matches('/');
    let mut is_beta = false;
    let mut has_version = false;
    loop {
        if let Some(after) = rest.strip_prefix("v1/") {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("v1beta/") {
            (rest, is_beta) = (after, true);
        } else {
            break;
        }
        has_version = true;
    }
    match rest {
        "chat/completions" => return post(method, Endpoint::Turn(Speech::OpenaiChat)),
        "messages" => return post(method, Endpoint::Turn(Speech::AnthropicMessages)),
        "messages/count_tokens" => return post(method, Endpoint::CountTokens),
        "responses" => return post(method, Endpoint::Turn(Speech::OpenaiResponses)),
        "responses/input_tokens" => return post(method, Endpoint::InputTokens),
        "embeddings" => return post(method, Endpoint::Embeddings),
        "models" => return get(method, Endpoint::Models { gemini: is_beta }),
        _ => {}
    }
    if let Some(rest) = rest.strip_prefix("models/").filter(|_| has_version) {
        return model(method, rest, is_beta);
    }
    if let Some(id) = rest.strip_prefix("hooks/").filter(|id| has_version && !id.is_empty()) {
        return post(method, Endpoint::Hook { id });
    }
    if let Some(rest) = rest.strip_prefix("responses/").filter(|_| has_version) {
        return response(method, rest);
    }
    Endpoint::Unknown
}

fn post<'p>(method: &Method, endpoint: Endpoint<'p>) -> Endpoint<'p> {
    if method == Method::POST { endpoint } else { Endpoint::Method("POST") }
}

fn get<'p>(method: &Method, endpoint: Endpoint<'p>) -> Endpoint<'p> {
    if method == Method::GET || method == Method::HEAD { endpoint } else { Endpoint::Method("GET, HEAD") }
}

fn model<'p>(method: &Method, rest: &'p str, is_beta: bool) -> Endpoint<'p> {
    // A model's name may hold slashes and colons; Gemini's actions stand after the last colon.
    if let Some((model, action)) = rest.rsplit_once(':')
        && method == Method::POST
    {
        return match action {
            "generateContent" => Endpoint::GeminiTurn { model, stream: false },
            "streamGenerateContent" => Endpoint::GeminiTurn { model, stream: true },
            "countTokens" => Endpoint::GeminiCount { model },
            "embedContent" | "batchEmbedContents" => Endpoint::GeminiEmbed { model, action },
            _ => Endpoint::Unknown,
        };
    }
    if rest.is_empty() { Endpoint::Unknown } else { get(method, Endpoint::Model { id: rest, gemini: is_beta }) }
}

fn response<'p>(method: &Method, rest: &'p str) -> Endpoint<'p> {
    match rest.split_once('/') {
        None if rest.is_empty() => Endpoint::Unknown,
        None if method == Method::DELETE => Endpoint::Response { id: rest, action: ResponseAction::Delete },
        None if method == Method::GET || method == Method::HEAD => {
            Endpoint::Response { id: rest, action: ResponseAction::Retrieve }
        }
        None => Endpoint::Method("GET, HEAD, DELETE"),
        Some((id, "cancel")) => post(method, Endpoint::Response { id, action: ResponseAction::Cancel }),
        Some((id, "input_items")) => get(method, Endpoint::Response { id, action: ResponseAction::InputItems }),
        Some(_) => Endpoint::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_mean_what_clients_mean_by_them() {
        let (get, post) = (Method::GET, Method::POST);
        let gemini = |stream| Endpoint::GeminiTurn { model: "gemini-4-argon", stream };
        for (method, path, wanted) in [
            (&post, "/v1/chat/completions", Endpoint::Turn(Speech::OpenaiChat)),
            (&post, "/chat/completions/", Endpoint::Turn(Speech::OpenaiChat)),
            (&post, "/v1/v1/messages", Endpoint::Turn(Speech::AnthropicMessages)),
            (&post, "/v1/messages/count_tokens", Endpoint::CountTokens),
            (&post, "/v1/models/gemini-4-argon:generateContent", gemini(false)),
            (&post, "/v1beta/models/gemini-4-argon:streamGenerateContent", gemini(true)),
            (&get, "/v1beta/models", Endpoint::Models { gemini: true }),
            (&get, "/v1/models/meta/llama:4", Endpoint::Model { id: "meta/llama:4", gemini: false }),
            (&get, "/v1/responses/resp_1", Endpoint::Response { id: "resp_1", action: ResponseAction::Retrieve }),
            (&post, "/v1/responses/resp_1/cancel", Endpoint::Response { id: "resp_1", action: ResponseAction::Cancel }),
            (&post, "/v1/hooks/doorbell", Endpoint::Hook { id: "doorbell" }),
            (&get, "/v1/chat/completions", Endpoint::Method("POST")),
            (&post, "/healthz", Endpoint::Method("GET, HEAD")),
            (&get, "/", Endpoint::Unknown),
            (&get, "/v1/models/", Endpoint::Models { gemini: false }),
            (&post, "/v1/models/x:fly", Endpoint::Unknown),
            (&get, "/../etc/passwd", Endpoint::Unknown),
        ] {
            assert_eq!(endpoint(method, path), wanted, "{method} {path}");
        }
    }
}
