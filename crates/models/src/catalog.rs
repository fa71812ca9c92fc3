//! What is known of models: their names, how long they live, what they can, and what they cost.
//!
//! The bundled catalog is a file of data ([`Catalog::bundled`]); people replace it by a file of the same form, or switch it
//! off with an empty one. One line of it is one model:
//!
//! ```json
//! {"id": "gpt-x", "provider": "openai", "aliases": ["gpt-x-2026-01-02"], "kind": "chat", "window": 400000,
//!  "output": 128000, "retires": "2027-12-31", "replacement": "gpt-y", "cans": ["tools", "reasoning"],
//!  "prices": {"input": "2.5", "input@272k": "5", "output+flex": "7.5"}}
//! ```
//!
//! Prices are in the form of [`ModelPrice`]. Only `id` and `provider` are needed; what is not known is kept and passed over.

use placet_core::{ModelPrice, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The catalog that comes with this crate.
const BUNDLED: &str = include_str!("../data/catalog.json");
/// Models that are gone, which price lists do not name any more.
const RETIRED: &str = include_str!("../data/retired.json");

/// One model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogModel {
    /// The provider's name of it.
    pub id: String,
    /// Whose it is.
    pub provider: String,
    /// Other names of the very same model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// What it is for: `chat`, `responses` (a chat model of that protocol alone), `embedding`, `image_generation` …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The most tokens it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The most tokens it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// The day on which it goes, `2027-12-31`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retires: Option<String>,
    /// What its provider says to use in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    /// What it reads: `text`, `image`, `audio`, `video`. Empty where nothing is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// What it writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// What it can: `tools`, `reasoning`, `image_input`, `output_schema`, `web_search`, `effort_xhigh` …
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub cans: BTreeSet<String>,
    /// The endpoints that serve it, where that is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<String>,
    /// From how many tokens on a prompt is cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_from: Option<u64>,
    /// How long its vectors are, where it makes any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector: Option<u64>,
    /// The efforts it knows, where they are listed whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub efforts: Vec<String>,
    /// Its effort where none is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// What it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Arc<ModelPrice>>,
    /// Where these facts are published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What this version has no name for.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// How far a model's life has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// It is there to stay.
    Active,
    /// It is there to be tried, and may go at any time.
    Preview,
    /// The day is known on which it goes.
    Deprecating,
    /// It is gone.
    Retired,
}

impl fmt::Display for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lifecycle::Active => "active",
            Lifecycle::Preview => "preview",
            Lifecycle::Deprecating => "deprecating",
            Lifecycle::Retired => "retired",
        })
    }
}

impl CatalogModel {
    /// How far its life has gone at this instant.
    #[must_use]
    pub fn lifecycle(&self, now: Timestamp) -> Lifecycle {
        match &self.retires {
            Some(day) if now.to_string().get(..10).is_some_and(|today| today >= day.as_str()) => Lifecycle::Retired,
            Some(_) => Lifecycle::Deprecating,
            None if ["preview", "-beta", "-exp", "experimental"].iter().any(|word| self.id.contains(word)) => {
                Lifecycle::Preview
            }
            None => Lifecycle::Active,
        }
    }

    /// Whether it is known to be able to do something.
    #[must_use]
    pub fn can(&self, what: &str) -> bool {
        self.cans.contains(what)
    }

    /// Whether one can talk with it.
    #[must_use]
    pub fn is_chat(&self) -> bool {
        matches!(self.kind.as_deref(), None | Some("chat" | "responses"))
    }
}

/// Where a catalog's facts come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogSource {
    /// The source, with its version.
    #[serde(default)]
    pub source: String,
    /// Under which licence.
    #[serde(default)]
    pub licence: String,
    /// When it was read, `2026-11-30`.
    #[serde(default)]
    pub retrieved: String,
}

/// Models, by name.
#[derive(Debug, Default)]
pub struct Catalog {
    source: CatalogSource,
    models: Vec<Arc<CatalogModel>>,
    names: HashMap<String, usize>,
}

#[derive(Deserialize)]
struct CatalogFile {
    #[serde(default)]
    format: Option<u32>,
    #[serde(flatten)]
    source: CatalogSource,
    models: Vec<CatalogModel>,
}

/// A text is no catalog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no catalog of models: {problem}")]
pub struct InvalidCatalog {
    /// What is wrong, with its place.
    pub problem: String,
}

impl Catalog {
    /// The catalog that comes with this crate, read at the first time.
    pub fn bundled() -> Arc<Catalog> {
        static READ: OnceLock<Arc<Catalog>> = OnceLock::new();
        let read = || Catalog::parse(BUNDLED).map(Catalog::with_retired).unwrap_or_default();
        READ.get_or_init(|| Arc::new(read())).clone()
    }

    /// The same with the models that are gone, where it does not know better.
    fn with_retired(mut self) -> Self {
        for model in Catalog::parse(RETIRED).unwrap_or_default().models {
            let place = self.models.len();
            if self.names.contains_key(&key(&model.provider, &model.id)) {
                continue;
            }
            for name in std::iter::once(&model.id).chain(&model.aliases) {
                self.names.entry(key(&model.provider, name)).or_insert(place);
            }
            self.models.push(model);
        }
        self
    }

    /// Knows nothing: every cost is unknown.
    #[must_use]
    pub fn empty() -> Self {
        Catalog::default()
    }

    /// Reads a catalog.
    ///
    /// # Errors
    /// [`InvalidCatalog`] with the place of what is wrong.
    pub fn parse(text: &str) -> Result<Self, InvalidCatalog> {
        let invalid = |problem: String| InvalidCatalog { problem };
        let file: CatalogFile = serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
        if let Some(format) = file.format.filter(|format| *format != 1) {
            return Err(invalid(format!("its format is {format}, and this version knows 1")));
        }
        let mut names = HashMap::new();
        for (place, model) in file.models.iter().enumerate() {
            names.insert(key(&model.provider, &model.id), place);
        }
        for (place, model) in file.models.iter().enumerate() {
            for alias in &model.aliases {
                names.entry(key(&model.provider, alias)).or_insert(place);
            }
        }
        Ok(Catalog { source: file.source, models: file.models.into_iter().map(Arc::new).collect(), names })
    }

    /// Where its facts come from.
    #[must_use]
    pub fn source(&self) -> &CatalogSource {
        &self.source
    }

    /// Every model, in the order of the file.
    pub fn models(&self) -> impl Iterator<Item = &Arc<CatalogModel>> {
        self.models.iter()
    }

    /// The model of this name, or the one that it is a dated, tuned or pathed form of.
    #[must_use]
    pub fn find(&self, provider: &str, model: &str) -> Option<&Arc<CatalogModel>> {
        let exact = |name: &str| self.names.get(&key(provider, name)).map(|place| &self.models[*place]);
        let name = model.rsplit_once("models/").map_or(model, |(_, name)| name);
        exact(name)
            .or_else(|| {
                // `ft:gpt-x:org::id` has the facts of `ft:gpt-x`.
                let tuned = name.strip_prefix("ft:")?.split(':').next()?;
                exact(&format!("ft:{tuned}")).or_else(|| exact(tuned))
            })
            .or_else(|| exact(undated(name)?))
    }
}

fn key(provider: &str, name: &str) -> String {
    format!("{provider}:{name}")
}

/// The name without a date or `latest` at its end.
fn undated(name: &str) -> Option<&str> {
    if let Some((name, _)) = name.rsplit_once('@') {
        return Some(name);
    }
    if let Some(name) = name.strip_suffix("-latest") {
        return Some(name);
    }
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, last) = name.rsplit_once('-')?;
    if digits(last, 8) {
        return Some(rest);
    }
    let (rest, month) = rest.rsplit_once('-')?;
    let (rest, year) = rest.rsplit_once('-')?;
    (digits(last, 2) && digits(month, 2) && digits(year, 4)).then_some(rest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use placet_core::price::Meter;

    #[test]
    fn the_bundled_one_is_whole_and_names_its_source() {
        let catalog = Catalog::parse(BUNDLED).expect("the bundled catalog");
        assert!(catalog.models().count() > 250);
        assert!(catalog.source().source.contains("litellm") && catalog.source().licence.contains("MIT"));
        for provider in ["openai", "anthropic", "google", "xai"] {
            let chat = catalog.models().filter(|model| model.provider == provider && model.is_chat());
            assert!(chat.filter(|model| model.prices.is_some()).count() > 15, "{provider}");
        }
        assert!(catalog.models().all(|model| model.more.is_empty()), "a field without a name");
    }

    #[test]
    fn names_find_their_model_in_all_their_forms() {
        let catalog = Catalog::bundled();
        for (provider, name, wanted) in [
            ("openai", "gpt-5.4", "gpt-5.4"),
            ("openai", "gpt-5.4-2026-03-05", "gpt-5.4"),
            ("openai", "gpt-5.4-2031-01-01", "gpt-5.4"),
            ("anthropic", "claude-opus-4-8-20261231", "claude-opus-4-8"),
            ("anthropic", "claude-opus-5-5@20270101", "claude-opus-5-5"),
            ("google", "models/gemini-3.8-flash", "gemini-3.8-flash"),
            ("google", "publishers/google/models/gemini-3.8-flash", "gemini-3.8-flash"),
            ("openai", "ft:gpt-4.1-2025-04-14:acme::x1", "ft:gpt-4.1-2025-04-14"),
        ] {
            assert_eq!(catalog.find(provider, name).map(|model| model.id.as_str()), Some(wanted), "{name}");
        }
        assert!(catalog.find("openai", "claude-opus-5-5").is_none());
        assert!(catalog.find("openai", "gpt-5.4-no-such").is_none());
    }

    #[test]
    fn models_that_are_gone_are_known_with_what_takes_their_place() {
        let retired = Catalog::parse(RETIRED).expect("the models that are gone");
        let catalog = Catalog::bundled();
        let now = Timestamp::from_millis(1_796_000_000_000);
        for model in retired.models() {
            assert!(model.retires.is_some() && model.source.is_some() && model.more.is_empty(), "{}", model.id);
            let known = catalog.find(&model.provider, &model.id).unwrap();
            assert_eq!(known.lifecycle(now), Lifecycle::Retired, "{}", model.id);
        }
        for (provider, name, replacement) in [
            ("anthropic", "claude-3-opus-20240229", Some("claude-opus-4-8")),
            ("anthropic", "claude-3-opus-latest", Some("claude-opus-4-8")),
            ("anthropic", "claude-2.1", Some("claude-opus-4-8")),
            ("openai", "gpt-4-32k", Some("gpt-4o")),
            ("google", "gemini-1.5-pro", None),
            ("google", "models/gemini-2.0-flash", Some("gemini-2.5-flash")),
        ] {
            let found = catalog.find(provider, name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(
                (found.lifecycle(now), found.replacement.as_deref()),
                (Lifecycle::Retired, replacement),
                "{name}"
            );
        }
    }

    #[test]
    fn lifecycles_depend_on_the_day() {
        let model = |id: &str, retires: Option<&str>| CatalogModel {
            id: id.into(),
            retires: retires.map(str::to_owned),
            ..CatalogModel::default()
        };
        let now = Timestamp::EPOCH;
        assert_eq!(model("a", None).lifecycle(now), Lifecycle::Active);
        assert_eq!(model("a-preview", None).lifecycle(now), Lifecycle::Preview);
        assert_eq!(model("a", Some("1970-01-02")).lifecycle(now), Lifecycle::Deprecating);
        assert_eq!(model("a", Some("1970-01-01")).lifecycle(now), Lifecycle::Retired);
    }

    #[test]
    fn the_documented_prices_are_what_the_catalog_says() {
        let catalog = Catalog::bundled();
        for (provider, name, input, output, cached) in [
            ("openai", "gpt-6-astra", "10", "50", "1"),
            ("openai", "gpt-6-sol", "2", "10", "0.2"),
            ("openai", "gpt-6-luna", "0.1", "0.5", "0.01"),
            ("anthropic", "claude-opus-5-5", "4", "20", "0.2"),
            ("anthropic", "claude-haiku-5-5", "0.1", "0.5", "0.01"),
            ("google", "gemini-4-argon", "2", "10", "0.1"),
            ("xai", "grok-4.7", "2", "6", "0.5"),
        ] {
            let prices = catalog.find(provider, name).unwrap().prices.clone().unwrap();
            let base = |meter| prices.base(meter).unwrap().to_string();
            assert_eq!((base(Meter::Input), base(Meter::Output)), (input.into(), output.into()), "{name}");
            assert_eq!(base(Meter::CacheRead), cached, "{name}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        for (text, word) in [
            ("[]", "models"),
            (r#"{"models": [{"id": "a"}]}"#, "provider"),
            (r#"{"format": 2, "models": []}"#, "format is 2"),
            (r#"{"models": [{"id": "a", "provider": "p", "prices": {"input@x": "1"}}]}"#, "input@x"),
        ] {
            let error = Catalog::parse(text).expect_err(text).to_string();
            assert!(error.contains(word), "{error}");
        }
        let future = r#"{"models": [{"id": "a", "provider": "p", "taste": "sweet"}]}"#;
        assert_eq!(Catalog::parse(future).unwrap().find("p", "a").unwrap().more["taste"], "sweet");
    }
}
