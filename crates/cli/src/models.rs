//! Which model is asked, and where it is.

use crate::args::ModelArgs;
use crate::failure::{Code, Failure};
use crate::house::House;
use crate::output::printable;
use crate::vars;
use placet_core::{Billing, Diagnose, ModelPrice, ProviderError};
use placet_models::vendor_base_url;
use placet_models::{
    Catalog, Lookup, ModelRef, PriceBook, ProfileRules, Providers, SharedProvider, UserPrices, choose as choose_model,
    vendor::vendor,
};
use placet_net::{Client, ClientOptions, ProxySettings, Url};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The model of a run.
pub(crate) struct Target {
    pub(crate) provider: SharedProvider,
    pub(crate) model: String,
    /// Where its server is, where it has one.
    pub(crate) base_url: Option<String>,
    /// What to tell about the choice, where nobody made it.
    pub(crate) note: Option<String>,
    /// What it costs, where that is known and was asked for.
    pub(crate) rates: Option<Arc<ModelPrice>>,
    /// What is billed for it, where the user says so.
    pub(crate) billing: Option<Billing>,
}

/// What is asked where the command line names no model: the environment, then a local Ollama, then `offline`.
pub(crate) async fn choose(house: &House, args: &ModelArgs, needs_rates: bool) -> Result<Target, Failure> {
    // An empty name, as of a variable that is not set, is none.
    let said = |name: &String| !name.trim().is_empty();
    let named = args.model.clone().filter(said).or_else(|| vars::var(vars::PLACET_MODEL).filter(said));
    let flag = named.as_deref();
    if let Some(problem) = flag.and_then(|name| ModelRef::parse(name).err()) {
        return Err(
            Failure::new(Code::Usage, problem.to_string()).hint("`placet models list` shows the models there are")
        );
    }
    let found = Found::new(house, named_provider(flag).as_deref(), args.base_url.as_deref())?;
    let chosen = choose_model(flag, &found.lookup, &found.providers, &found.client, &house.env).await?;
    let provider = found.provider(&chosen.reference)?;
    let note = flag.is_none().then(|| {
        let mut note = format!("model {}: {}", chosen.reference, chosen.because);
        if chosen.reference.provider.as_str() == "offline" {
            note.push_str(
                ".\n`offline` is no language model: it answers a small set of questions about files and numbers. \
                 `placet doctor` says how to use a real one.",
            );
        }
        for more in &chosen.notes {
            note.push('\n');
            note.push_str(more);
        }
        printable(&note)
    });
    let base_url = base_url(chosen.reference.provider.as_str(), &found.lookup)?;
    let model = lasting_name(model_name(&chosen.reference), &chosen.reference);
    let book = prices(house)?;
    let rates = if needs_rates { book.price(&chosen.reference).map(|(rates, _)| rates) } else { None };
    let billing = book.billing(&chosen.reference);
    Ok(Target { model, provider, base_url, note, rates, billing })
}

/// The provider of a run that is resumed.
pub(crate) fn again(house: &House, provider: &str, base_url: Option<&str>) -> Result<SharedProvider, Failure> {
    Found::new(house, Some(provider), base_url)?.provider(&ModelRef::new(provider, ""))
}

/// Everything that is known of models before one is asked.
pub(crate) struct Found {
    pub(crate) lookup: Lookup,
    pub(crate) client: Client,
    pub(crate) providers: Providers,
}

impl Found {
    /// `base_url` takes the place of what the environment says of `provider`, or of `openai`.
    pub(crate) fn new(house: &House, provider: Option<&str>, base_url: Option<&str>) -> Result<Self, Failure> {
        let lookup = lookup(provider, base_url)?;
        let proxies = ProxySettings::from_vars(|name: &str| vars::var(name))?;
        let client = Client::new(ClientOptions::default().proxies(proxies), house.env.clone())?;
        let (catalog, rules) = (catalog(house)?, rules(house)?);
        let providers = Providers::standard_with(&client, &lookup, |options| {
            options.catalog = catalog.clone();
            options.rules.clone_from(&rules);
        });
        let providers = providers.map_err(|problems| wiring(&problems))?;
        Ok(Found { lookup, client, providers })
    }

    fn provider(&self, reference: &ModelRef) -> Result<SharedProvider, Failure> {
        self.providers.get(reference.provider.as_str()).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.providers.ids().map(|id| id.as_str()).collect();
            Failure::new(Code::NotFound, format!("no provider is called {:?}", reference.provider.as_str()))
                .hint(format!("known are {}", known.join(", ")))
        })
    }
}

/// The catalog of models that counts here; none for the one that the program brings along.
///
/// It is read only where somebody asks for it.
pub(crate) fn catalog(house: &House) -> Result<Option<Arc<Catalog>>, Failure> {
    if vars::var(vars::PLACET_CATALOG).is_some_and(|said| said.eq_ignore_ascii_case("off")) {
        return Ok(Some(Arc::new(Catalog::empty())));
    }
    let Some((path, text)) = own_file(house, vars::PLACET_CATALOG, "catalog.json")? else { return Ok(None) };
    Catalog::parse(&text).map(|catalog| Some(Arc::new(catalog))).map_err(|error| misread(&path, &error))
}

/// What the user says that models can.
fn rules(house: &House) -> Result<Option<Arc<ProfileRules>>, Failure> {
    let Some((path, text)) = own_file(house, vars::PLACET_PROFILES, "profiles.json")? else { return Ok(None) };
    ProfileRules::parse(&text).map(|rules| Some(Arc::new(rules))).map_err(|error| misread(&path, &error))
}

/// What models cost: what the user says, else the catalog.
pub(crate) fn prices(house: &House) -> Result<PriceBook, Failure> {
    let mut book = catalog(house)?.map_or_else(PriceBook::bundled, PriceBook::of_catalog);
    if let Some((path, text)) = own_file(house, vars::PLACET_PRICES, "prices.json")? {
        let user: UserPrices = serde_json::from_str(&text).map_err(|error| misread(&path, &error))?;
        let local = Providers::local();
        let is_known = |provider: &str| vendor(provider).is_some() || local.get(provider).is_some();
        if let Some(provider) = user.providers().find(|provider| !is_known(provider)) {
            let problem = format!("no provider is called {provider:?}; `placet doctor` names those that there are");
            return Err(misread(&path, &problem));
        }
        book.take_in(user).map_err(|error| misread(&path, &error))?;
    }
    Ok(book)
}

/// The file that a variable names, else the one of this name in the home folder, if there is one.
fn own_file(house: &House, variable: &str, name: &str) -> Result<Option<(PathBuf, String)>, Failure> {
    let named = vars::var(variable).map(PathBuf::from);
    let path = named.clone().unwrap_or_else(|| house.home.join(name));
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        // Whether the home can be used is told by whoever needs it.
        Err(error) if named.is_none() && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(misread(&path, &error)),
    }
}

fn misread(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::Usage, format!("{}: {error}", path.display())).hint("correct the file, or move it away")
}

/// Some providers have but one model and no name for it.
pub(crate) fn model_name(reference: &ModelRef) -> String {
    if reference.model.is_empty() { reference.provider.as_str().to_owned() } else { reference.model.clone() }
}

/// A script is a file: its name must mean the same wherever the run is resumed.
fn lasting_name(model: String, reference: &ModelRef) -> String {
    if reference.provider.as_str() != "scripted" {
        return model;
    }
    match std::path::absolute(&model).map(PathBuf::into_os_string).map(std::ffi::OsString::into_string) {
        Ok(Ok(path)) => path,
        _ => model,
    }
}

fn named_provider(flag: Option<&str>) -> Option<String> {
    flag.and_then(|text| ModelRef::parse(text).ok()).map(|reference| reference.provider.as_str().to_owned())
}

/// Where the server of a provider is: what a variable or the command line says, else the vendor's own place.
fn base_url(provider: &str, lookup: &Lookup) -> Result<Option<String>, Failure> {
    let Some(row) = vendor(provider) else { return Ok(None) };
    let (url, _) = vendor_base_url(row, lookup);
    check_base_url(&url)?;
    Ok(Some(url))
}

/// A base URL is recorded with its run, so it must not hold a credential.
fn check_base_url(url: &str) -> Result<(), Failure> {
    Url::parse(url).map_err(|error| {
        Failure::new(Code::Usage, error.to_string())
            .hint("give the base URL of the API, for example http://127.0.0.1:8080/v1")
    })?;
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') || rest.contains(['?', '#']) {
        return Err(Failure::new(
            Code::Usage,
            "the base URL holds a credential or a query, and it is recorded with the run",
        )
        .hint("leave it out of the URL; a key belongs into the vendor's variable, for example OPENAI_API_KEY"));
    }
    Ok(())
}

fn lookup(provider: Option<&str>, base_url: Option<&str>) -> Result<Lookup, Failure> {
    let Some(url) = base_url.map(str::to_owned) else { return Ok(Arc::new(|name: &str| vars::var(name))) };
    check_base_url(&url)?;
    let name = provider.unwrap_or("openai");
    let Some(row) = vendor(name) else {
        return Err(Failure::new(Code::Usage, format!("the model {name} has no base URL"))
            .hint("leave --base-url out, or name a model of a server, for example --model openai:NAME"));
    };
    Ok(Arc::new(
        move |name: &str| {
            if row.base_url_variables.contains(&name) { Some(url.clone()) } else { vars::var(name) }
        },
    ))
}

fn wiring(problems: &[ProviderError]) -> Failure {
    let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let mut failure = Failure::new(Code::Usage, text.join("; "));
    for hint in problems.iter().flat_map(Diagnose::hints) {
        if !failure.hints.contains(&hint) {
            failure = failure.hint(hint);
        }
    }
    failure
}
