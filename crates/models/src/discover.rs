//! Which model is used where nobody named one.
//!
//! In this order: what a flag says; what the environment says (`PLACET_MODEL`; `OPENAI_API_KEY` or `OPENAI_BASE_URL`, with
//! `OPENAI_MODEL`); a local Ollama that answers at once; `offline`. [`discover`] decides from names and values alone;
//! [`choose`] also asks the servers that it found which models they have.

use crate::adapter::{Adapter, AdapterOptions};
use crate::credential::{Credential, Lookup};
use crate::provider::{AskContext, ModelProvider};
use crate::providers::{Providers, ResolveError};
use crate::reference::ModelRef;
use crate::vendor::{VENDORS, vendor};
use placet_core::Env;
use placet_net::{Client, RetryPolicy, Timeouts};
use std::time::Duration;

/// The variable that names the model to use.
pub const MODEL_VARIABLE: &str = "PLACET_MODEL";
/// The model of OpenAI's own service that is used where none is named.
const OPENAI_MODEL: &str = "gpt-5.4-mini";
/// How long a local server may take to say that it is there.
const PROBE: Duration = Duration::from_millis(200);
/// How long a server that was named may take to list its models.
const LISTING: Duration = Duration::from_secs(10);

/// What flag and environment say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// This model.
    Model {
        /// The reference as it was written.
        reference: String,
        /// Where it was said, in words: `--model`, `PLACET_MODEL` …
        said_by: String,
    },
    /// A server that was named without a model: its first one.
    FirstOf {
        /// The provider's id.
        provider: &'static str,
        /// What named it.
        said_by: String,
    },
    /// Nothing: a local Ollama if it answers, else `offline`.
    Local,
}

/// Decides from a flag and the environment alone.
#[must_use]
pub fn discover(flag: Option<&str>, lookup: &Lookup) -> Discovery {
    let set = |name: &str| lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let model = |reference: String, said_by: &str| Discovery::Model { reference, said_by: said_by.to_owned() };
    if let Some(flag) = flag.map(str::trim).filter(|flag| !flag.is_empty()) {
        return model(flag.to_owned(), "--model");
    }
    if let Some(reference) = set(MODEL_VARIABLE) {
        return model(reference, MODEL_VARIABLE);
    }
    let openai = vendor("openai");
    let base_url = openai.iter().flat_map(|row| row.base_url_variables).find(|name| set(name).is_some());
    let key = openai.iter().flat_map(|row| row.key_variables).find(|name| set(name).is_some());
    let Some(said_by) = base_url.or(key) else { return Discovery::Local };
    if let Some(name) = set("OPENAI_MODEL") {
        return model(format!("openai:{name}"), &format!("{said_by} and OPENAI_MODEL"));
    }
    if base_url.is_some() {
        return Discovery::FirstOf { provider: "openai", said_by: (*said_by).to_owned() };
    }
    model(format!("openai:{OPENAI_MODEL}"), said_by)
}

/// The model to use, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its whole reference.
    pub reference: ModelRef,
    /// Why this one: a sentence without a full stop, to be shown.
    pub because: String,
    /// What else a person may want to know: keys that are set and not used, a server that gave no answer.
    pub notes: Vec<String>,
}

/// Chooses the model to use. Looks for a local Ollama only where nothing else was said, and for at most 200 ms.
///
/// # Errors
/// [`ResolveError`] where what was said names no model that is known. A server that cannot be reached is no error: it is
/// noted, and `offline` is used; a server that was named by the environment is still used, so that its own error is shown.
pub async fn choose(
    flag: Option<&str>,
    lookup: &Lookup,
    providers: &Providers,
    client: &Client,
    env: &Env,
) -> Result<Chosen, ResolveError> {
    let mut notes = Vec::new();
    let (reference, because) = match discover(flag, lookup) {
        Discovery::Model { reference, said_by } => {
            return Ok(Chosen {
                reference: providers.resolve(&reference)?.reference,
                because: format!("{said_by} says so"),
                notes,
            });
        }
        Discovery::FirstOf { provider, said_by } => match first_model(provider, LISTING, lookup, client, env).await {
            Ok(Some(name)) => {
                (ModelRef::new(provider, name), format!("{said_by} names a server, and this is its first model"))
            }
            Ok(None) => {
                (ModelRef::new(provider, OPENAI_MODEL), format!("{said_by} names a server that lists no models"))
            }
            Err(problem) => {
                notes.push(format!("the server that {said_by} names did not list its models: {problem}"));
                (ModelRef::new(provider, OPENAI_MODEL), format!("{said_by} is set"))
            }
        },
        Discovery::Local => match first_model("ollama", PROBE, lookup, client, env).await {
            Ok(Some(name)) => (ModelRef::new("ollama", name), "a local Ollama is running".to_owned()),
            Ok(None) => {
                notes.push("a local Ollama is running, but it has no model; `ollama pull` gets one".to_owned());
                offline()
            }
            Err(_) => offline(),
        },
    };
    let others = VENDORS.iter().filter(|row| row.variant_of.is_none() && row.id != reference.provider.as_str());
    for row in others.filter(|row| row.is_key_required) {
        let is_set = |name: &&&str| lookup(name).is_some_and(|value| !value.trim().is_empty());
        if let Some(name) = row.key_variables.iter().find(is_set) {
            notes.push(format!("{name} is set: --model {}:NAME uses a model of {}", row.id, row.name));
        }
    }
    Ok(Chosen { reference, because, notes })
}

fn offline() -> (ModelRef, String) {
    (ModelRef::new("offline", ""), "no model was named, no key is set and no local Ollama answers".to_owned())
}

/// The first model of a vendor's server that is none for embeddings.
async fn first_model(
    provider: &str,
    within: Duration,
    lookup: &Lookup,
    client: &Client,
    env: &Env,
) -> Result<Option<String>, String> {
    let row = vendor(provider).ok_or("there is no such vendor")?;
    let mut options = AdapterOptions::of_vendor(row, lookup).map_err(|error| error.to_string())?;
    options.retry = RetryPolicy::none();
    options.timeouts = Some(Timeouts::default().within(within));
    if let Credential::Variables { is_required, .. } = &mut options.credential {
        *is_required = false;
    }
    let listed = Adapter::new(options, client.clone()).models(AskContext::new(env.clone())).await;
    let models = listed.map_err(|error| error.message)?;
    let is_chat =
        |id: &str| !["embed", "minilm", "bge-", "rerank", "whisper", "tts"].iter().any(|word| id.contains(word));
    Ok(models.into_iter().map(|model| model.id).find(|id| is_chat(&id.to_ascii_lowercase())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn lookup(pairs: &'static [(&'static str, &'static str)]) -> Lookup {
        Arc::new(move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_order_of_what_counts() {
        let model =
            |reference: &str, said_by: &str| Discovery::Model { reference: reference.into(), said_by: said_by.into() };
        let first = |said_by: &str| Discovery::FirstOf { provider: "openai", said_by: said_by.into() };
        for (flag, set, wanted) in [
            (Some("echo"), lookup(&[("PLACET_MODEL", "x:y"), ("OPENAI_API_KEY", "k")]), model("echo", "--model")),
            (Some(" "), lookup(&[("PLACET_MODEL", "x:y"), ("OPENAI_API_KEY", "k")]), model("x:y", "PLACET_MODEL")),
            (None, lookup(&[("OPENAI_API_KEY", "k")]), model("openai:gpt-5.4-mini", "OPENAI_API_KEY")),
            (
                None,
                lookup(&[("OPENAI_API_KEY", "k"), ("OPENAI_MODEL", "m")]),
                model("openai:m", "OPENAI_API_KEY and OPENAI_MODEL"),
            ),
            (None, lookup(&[("OPENAI_BASE_URL", "http://h/v1"), ("OPENAI_API_KEY", "k")]), first("OPENAI_BASE_URL")),
            (None, lookup(&[("OPENAI_MODEL", "m"), ("OPENAI_API_KEY", " ")]), Discovery::Local),
            (None, lookup(&[]), Discovery::Local),
        ] {
            assert_eq!(discover(flag, &set), wanted);
        }
    }

    async fn chosen(lookup: Lookup) -> Chosen {
        let env = Env::system();
        let client = Client::new(placet_net::ClientOptions::new(), env.clone()).expect("a client");
        let providers = Providers::standard(&client, &lookup).expect("providers");
        choose(None, &lookup, &providers, &client, &env).await.expect("a choice")
    }

    #[tokio::test]
    async fn servers_are_asked_for_their_models() {
        use placet_testkit::upstream::{Answer, Upstream};
        let models = || Answer::json(200, &serde_json::json!({"data": [{"id": "nomic-embed-text"}, {"id": "qwen"}]}));
        let upstream = Upstream::start(&Env::system(), [models(), models()]).await.expect("a mock");
        let url = upstream.url("v1");
        let own = url.clone();
        let named = chosen(Arc::new(move |name| (name == "OPENAI_BASE_URL").then(|| own.clone()))).await;
        assert_eq!(named.reference, ModelRef::new("openai", "qwen"));
        let host = url.trim_end_matches("/v1").to_owned();
        let ollama = chosen(Arc::new(move |name| match name {
            "OLLAMA_HOST" => Some(host.clone()),
            "GROQ_API_KEY" => Some("k".into()),
            _ => None,
        }))
        .await;
        assert_eq!(ollama.reference, ModelRef::new("ollama", "qwen"));
        assert!(ollama.notes.iter().any(|note| note.contains("--model groq:NAME")), "{:?}", ollama.notes);
    }

    #[tokio::test]
    async fn where_nothing_answers_it_is_offline() {
        // A port that was free a moment ago.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port")
            .port();
        let found = chosen(Arc::new(move |name| (name == "OLLAMA_HOST").then(|| format!("127.0.0.1:{port}")))).await;
        assert_eq!(found.reference, ModelRef::new("offline", ""));
        let named =
            chosen(Arc::new(move |name| (name == "OPENAI_BASE_URL").then(|| format!("http://127.0.0.1:{port}/v1"))))
                .await;
        assert_eq!(named.reference.provider.as_str(), "openai");
        assert!(named.notes[0].contains("did not list its models"), "{:?}", named.notes);
    }
}
