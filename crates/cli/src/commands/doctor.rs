//! `placet doctor`: what is found on this machine, and what is missing.

use crate::args::DoctorArgs;
use crate::failure::{Code, Done, Failure};
use crate::house::House;
use crate::models::{self, Found};
use crate::output::{Output, Tone, printable};
use crate::vars;
use placet_models::vendor::VENDORS;
use placet_models::vendor_base_url;
use serde::Serialize;

/// One thing that was looked at.
#[derive(Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Good,
    Note,
    Bad,
}

impl Finding {
    fn new(what: &'static str, state: State, text: impl Into<String>) -> Self {
        Finding { what, state, text: text.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn of(what: &'static str, failure: Failure) -> Self {
        let mut finding = Finding::new(what, State::Bad, failure.message.unwrap_or_default());
        finding.hint = failure.hints.into_iter().next();
        finding
    }
}

pub(crate) async fn doctor(house: &House, args: &DoctorArgs) -> Done {
    let mut findings = vec![Finding::new("version", State::Good, env!("CARGO_PKG_VERSION")), store(house).await];
    findings.push(match models::choose(house, &args.model, false).await {
        Ok(target) => {
            let text = format!("`placet run` asks {}:{}", target.provider.id(), target.model);
            Finding::new("model", State::Good, text)
        }
        Err(failure) => Finding::of("model", failure),
    });
    findings.extend(keys());
    findings.extend(ollama(house).await);
    findings.push(Finding::new(
        "sandbox",
        State::Note,
        "L1: commands run with a clean environment, limits and a process group of their own, but can read and reach \
         what you can",
    ));
    told(&house.output, &findings)
}

/// Where not even a folder for runs can be told.
pub(crate) fn homeless(global: &crate::args::Global, failure: Failure) -> Done {
    let output = Output::new(global.json, global.color, vars::var(vars::NO_COLOR).is_some());
    let version = Finding::new("version", State::Good, env!("CARGO_PKG_VERSION"));
    let findings: Vec<Finding> = [version, Finding::of("home", failure)].into_iter().chain(keys()).collect();
    told(&output, &findings)
}

fn told(output: &Output, findings: &[Finding]) -> Done {
    for finding in findings {
        if output.json {
            output.json_line(finding);
            continue;
        }
        let mark = match finding.state {
            State::Good => output.paint(Tone::Good, "✓"),
            State::Note => output.paint(Tone::Warn, "–"),
            State::Bad => output.paint(Tone::Bad, "✗"),
        };
        output.line(&format!("{mark} {:<8} {}", finding.what, printable(&finding.text)));
        if let Some(hint) = &finding.hint {
            output.line(&output.paint(Tone::Quiet, &format!("           {}", printable(hint))));
        }
    }
    if findings.iter().any(|finding| finding.state == State::Bad) { Err(Failure::told(Code::Failed)) } else { Ok(()) }
}

async fn store(house: &House) -> Finding {
    if !house.has_store() {
        return match crate::home::can_be_made(&house.home) {
            Ok(()) => {
                let text = format!("{} is made by the first run", house.store_path().display());
                Finding::new("store", State::Note, text)
            }
            Err(failure) => Finding::of("store", failure),
        };
    }
    let opened = async {
        let store = house.open_store().await?;
        let runs = placet_observe::list_runs(&*store, &house.tenant, None, 1).await?;
        Ok::<_, Failure>((store.describe(), runs.is_empty(), house.damage().await?))
    };
    match opened.await {
        Ok((place, _, damage)) if !damage.is_empty() => {
            Finding::new("store", State::Bad, format!("{place} is damaged: {}", damage.join("; ")))
                .hint("`placet audit verify` names the journals that are hit; a copy from before has them whole")
        }
        Ok((place, empty, _)) => {
            Finding::new("store", State::Good, if empty { format!("{place}, no runs yet") } else { place })
        }
        Err(failure) => Finding::of("store", failure),
    }
}

/// Which keys are set, never what they are.
fn keys() -> Vec<Finding> {
    let mut findings = Vec::new();
    let lookup: placet_models::Lookup = std::sync::Arc::new(|name: &str| vars::var(name));
    for row in VENDORS.iter().filter(|row| row.variant_of.is_none() && !row.key_variables.is_empty()) {
        if let Some(name) = row.key_variables.iter().find(|name| vars::var(name).is_some()) {
            let (url, said_by) = vendor_base_url(row, &lookup);
            let whom = match said_by {
                None => row.name.to_owned(),
                // An address may hold a password, which its own form hides.
                Some(variable) => match placet_net::Url::parse(&url) {
                    Ok(url) => format!("the server at {url}"),
                    Err(_) => format!("the server of {variable}, whose address cannot be used"),
                },
            };
            findings.push(Finding::new(
                "key",
                State::Good,
                format!("{name} is set: --model {}:NAME asks {whom}", row.id),
            ));
        }
    }
    if findings.is_empty() {
        findings
            .push(Finding::new("key", State::Note, "no provider's key is set").hint(
                "set OPENAI_API_KEY (and OPENAI_BASE_URL for another OpenAI-compatible server), or start Ollama",
            ));
    }
    findings
}

async fn ollama(house: &House) -> Option<Finding> {
    let found = Found::new(house, None, None).ok()?;
    let provider = found.providers.get("ollama")?.clone();
    let asked = provider.models(placet_models::AskContext::new(house.env.clone()));
    let models = tokio::select! {
        models = asked => models.ok()?,
        () = house.env.sleep(std::time::Duration::from_secs(1)) => return None,
    };
    let names: Vec<&str> = models.iter().map(|model| model.id.as_str()).take(8).collect();
    Some(match names.as_slice() {
        [] => Finding::new("ollama", State::Note, "Ollama is running, but has no model").hint("`ollama pull` gets one"),
        names => Finding::new("ollama", State::Good, format!("Ollama has {}", names.join(", "))),
    })
}
