//! What a model can: a profile of every field of a request, from data.
//!
//! A [`Profile`] is put together from these, of which a later one wins: what the protocol can say at all
//! (`placet_wire::fields`), the quirks of the server, what the catalog knows of the model, the rules of
//! `data/profiles.json`, what a probe found, and what a user says. [`Profile::check`] holds a request against it before
//! anything is sent: content, constraints and restrictions that the model cannot do are refused with the feature, the model
//! and the reason; hints are left out and reported.

mod check;
mod request;
mod strategies;

pub use check::Checked;
pub use placet_core::OutputStrategy;

use crate::adapter::Protocol;
use crate::catalog::CatalogModel;
use crate::probe::ToolAnswer;
use crate::reference::ModelRef;
use crate::vendor::Quirk;
use placet_wire::fields::{ALL_FIELDS, Class, FieldRule, Support, class_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

/// The rules that come with this crate.
const RULES: &str = include_str!("../../data/profiles.json");

/// How a feature stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureStatus {
    /// It works.
    #[default]
    Supported,
    /// It does not: a hint is left out, anything else is refused.
    Unsupported,
    /// It works under conditions that nobody can tell beforehand: it is sent, and the provider decides.
    Conditional,
    /// It is sent as it is, in the provider's own words.
    Passthrough,
}

/// Who says how a feature stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureSource {
    /// The protocol, or a rule that came with this crate.
    #[default]
    Static,
    /// It follows from what the catalog knows.
    Derived,
    /// The model itself was asked.
    Discovered,
    /// The user.
    User,
}

/// How one feature stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// Whether it works.
    pub status: FeatureStatus,
    /// Why it does not, or not always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The only values that are taken; empty where any is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Who says so.
    pub source: FeatureSource,
}

/// Features that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// It fires where a request uses all of these.
    pub when: Vec<String>,
    /// The hint that is left out then; without one, the request is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave_out: Option<String>,
    /// Why.
    pub because: String,
    /// Models whose names begin so are free of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unless: Vec<String>,
}

/// What one model can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// Which model.
    #[serde(serialize_with = "as_text")]
    pub model: ModelRef,
    /// What it is asked in.
    pub protocol: Protocol,
    /// The most tokens it reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The most tokens it writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// How it calls tools, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolAnswer>,
    /// Every feature that is not simply supported, or was found out, by the name of its field.
    pub features: BTreeMap<String, Feature>,
    /// Features that do not go together.
    pub exclusions: Vec<Exclusion>,
}

fn as_text<S: serde::Serializer>(model: &ModelRef, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(model)
}

/// One or several words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WordsForm")]
struct Words(Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum WordsForm {
    One(String),
    Many(Vec<String>),
}

impl From<WordsForm> for Words {
    fn from(form: WordsForm) -> Self {
        match form {
            WordsForm::One(word) => Words(vec![word]),
            WordsForm::Many(words) => Words(words),
        }
    }
}

/// One rule: for which models, and what holds for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileRule {
    provider: Option<Words>,
    protocol: Option<Protocol>,
    /// Beginnings of names.
    models: Option<Vec<String>>,
    /// Something that the catalog says it can.
    can: Option<String>,
    /// Something that the catalog does not say it can. Holds for models of the catalog only.
    lacks: Option<String>,
    /// Holds for models of the catalog only.
    known: bool,
    because: Option<String>,
    yes: Vec<String>,
    no: Vec<String>,
    maybe: Vec<String>,
    through: Vec<String>,
    values: BTreeMap<String, Vec<String>>,
    window: Option<u64>,
    output: Option<u64>,
    constraints: Vec<Exclusion>,
}

/// Rules, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileRules {
    rules: Vec<ProfileRule>,
}

/// A text holds no rules of profiles.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no rules of profiles: {problem}")]
pub struct InvalidRules {
    /// What is wrong, with its place.
    pub problem: String,
}

impl ProfileRules {
    /// Reads rules in the form of `data/profiles.json`.
    ///
    /// # Errors
    /// [`InvalidRules`] where the text has another form or names a field that no request has.
    pub fn parse(text: &str) -> Result<Self, InvalidRules> {
        let invalid = |problem: String| InvalidRules { problem };
        let rules: ProfileRules = serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
        for rule in &rules.rules {
            let named =
                rule.yes.iter().chain(&rule.no).chain(&rule.maybe).chain(&rule.through).chain(rule.values.keys());
            let excluded = rule.constraints.iter().flat_map(|one| one.when.iter().chain(&one.leave_out));
            if let Some(unknown) = named.chain(excluded).find(|name| !is_field(name)) {
                return Err(invalid(format!("`{unknown}` is no field of a request")));
            }
        }
        Ok(rules)
    }

    /// The rules that come with this crate.
    fn bundled() -> &'static ProfileRules {
        static READ: OnceLock<ProfileRules> = OnceLock::new();
        READ.get_or_init(|| ProfileRules::parse(RULES).unwrap_or_default())
    }
}

/// Whether it names a field of a request, or the beginning of several.
fn is_field(name: &str) -> bool {
    class_of(name).is_some() || ALL_FIELDS.iter().any(|(field, _)| is_within(field, name))
}

/// Whether a field is this one or below it: `image.url` is within `image`.
fn is_within(field: &str, name: &str) -> bool {
    // Asked some thousand times a request, nearly always in vain.
    field.as_bytes().first() == name.as_bytes().first()
        && field.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What a profile is put together from.
#[derive(Clone, Copy, Debug)]
pub struct ProfileGround<'a> {
    /// Whose model it is by the catalog; else the provider's own id.
    pub family: &'a str,
    /// What the model is asked in.
    pub protocol: Protocol,
    /// How its server differs from what is usual.
    pub quirks: &'a [Quirk],
    /// What the catalog knows of it.
    pub known: Option<&'a CatalogModel>,
    /// What the user says.
    pub user: Option<&'a ProfileRules>,
}

/// That the model asks for one call at a time. A server that cannot be told so may ask for several at once: then they are handed
/// on one by one, each after the result of the one before. That is said of every such answer.
pub const ONE_CALL: &str = "parallel_tool_calls.false";

impl Profile {
    /// The profile of a model.
    #[must_use]
    pub fn new(model: ModelRef, ground: ProfileGround<'_>) -> Self {
        let ProfileGround { family, protocol, quirks, known, user } = ground;
        let mut profile = Profile {
            model,
            protocol,
            window: known.and_then(|known| known.window),
            output: known.and_then(|known| known.output),
            tools: None,
            features: BTreeMap::new(),
            exclusions: Vec::new(),
        };
        for rule in protocol.fields() {
            profile.of_protocol(rule);
        }
        for quirk in quirks {
            for field in quirk.refuses() {
                profile.set(field, FeatureStatus::Unsupported, Some("the server takes none"), FeatureSource::Static);
            }
            if *quirk == Quirk::Effort {
                profile.features.remove("reasoning_effort");
            }
        }
        if profile.status(ONE_CALL) == FeatureStatus::Unsupported {
            let how = "kept here: several calls at once are handed on one by one";
            profile.set(ONE_CALL, FeatureStatus::Conditional, Some(how), FeatureSource::Static);
        }
        if let Some(known) = known {
            profile.of_catalog(known);
        }
        for rule in &ProfileRules::bundled().rules {
            let is_derived = rule.can.is_some() || rule.lacks.is_some();
            let source = if is_derived { FeatureSource::Derived } else { FeatureSource::Static };
            profile.apply(rule, family, known, source);
        }
        for rule in user.iter().flat_map(|rules| &rules.rules) {
            profile.apply(rule, family, known, FeatureSource::User);
        }
        profile
    }

    fn of_protocol(&mut self, rule: &FieldRule) {
        let refused = match rule.support {
            Support::Refused => true,
            Support::Omitted => rule.class != Class::State,
            Support::Told => {
                let how = "the model is told of it in words, and nobody else keeps to it";
                return self.set(rule.field, FeatureStatus::Conditional, Some(how), FeatureSource::Static);
            }
            Support::Expressed | Support::Implied => false,
        };
        if refused {
            let reason = "the protocol has no word for it";
            self.set(rule.field, FeatureStatus::Unsupported, Some(reason), FeatureSource::Static);
        }
    }

    /// The efforts that follow from what the catalog says.
    fn of_catalog(&mut self, known: &CatalogModel) {
        if !known.can("reasoning") {
            return;
        }
        let values: Vec<String> = if known.efforts.is_empty() {
            let maybe = |effort: &'static str| known.can(&format!("effort_{effort}")).then_some(effort);
            let usual = ["low", "medium", "high"].map(Some);
            let all = [maybe("none"), maybe("minimal")].into_iter().chain(usual).chain([maybe("xhigh"), maybe("max")]);
            all.flatten().map(str::to_owned).collect()
        } else {
            known.efforts.clone()
        };
        // Where there are no levels but a budget, any effort becomes one.
        let has_levels = match self.protocol {
            Protocol::OpenaiChat | Protocol::OpenaiResponses => true,
            _ => known.can("adaptive_thinking"),
        };
        if has_levels {
            let feature = Feature { values, source: FeatureSource::Derived, ..Feature::default() };
            self.features.insert("reasoning_effort".to_owned(), feature);
        }
    }

    fn apply(&mut self, rule: &ProfileRule, family: &str, known: Option<&CatalogModel>, source: FeatureSource) {
        let fits = rule.provider.as_ref().is_none_or(|words| words.0.iter().any(|word| word == family))
            && rule.protocol.is_none_or(|protocol| protocol == self.protocol)
            && rule
                .models
                .as_ref()
                .is_none_or(|all| all.iter().any(|name| self.model.model.starts_with(name.as_str())))
            && rule.can.as_ref().is_none_or(|what| known.is_some_and(|known| known.can(what)))
            && rule.lacks.as_ref().is_none_or(|what| known.is_some_and(|known| !known.can(what)))
            && (!rule.known || known.is_some());
        if !fits {
            return;
        }
        let because = rule.because.as_deref();
        for (fields, status) in [
            (&rule.yes, FeatureStatus::Supported),
            (&rule.maybe, FeatureStatus::Conditional),
            (&rule.through, FeatureStatus::Passthrough),
            (&rule.no, FeatureStatus::Unsupported),
        ] {
            for field in fields {
                // What the protocol cannot say, no model can.
                let is_wordless = source != FeatureSource::User && self.status(field) == FeatureStatus::Unsupported;
                if !is_wordless {
                    self.set(field, status, because.filter(|_| status != FeatureStatus::Supported), source);
                }
            }
        }
        for (field, values) in &rule.values {
            if self.status(field) != FeatureStatus::Unsupported || source == FeatureSource::User {
                let reason = because.map(str::to_owned);
                let feature = Feature { status: FeatureStatus::Supported, reason, values: values.clone(), source };
                self.features.insert(field.clone(), feature);
            }
        }
        self.window = rule.window.or(self.window);
        self.output = rule.output.or(self.output);
        let is_free = |one: &Exclusion| one.unless.iter().any(|name| self.model.model.starts_with(name.as_str()));
        let bound: Vec<Exclusion> = rule.constraints.iter().filter(|one| !is_free(one)).cloned().collect();
        self.exclusions.extend(bound);
    }

    /// Says how a feature stands.
    pub fn set(&mut self, field: &str, status: FeatureStatus, reason: Option<&str>, source: FeatureSource) {
        let reason = reason.map(str::to_owned);
        self.features.insert(field.to_owned(), Feature { status, reason, values: Vec::new(), source });
    }

    /// How a feature stands: what is said of it, or of what it is within.
    #[must_use]
    pub fn feature(&self, field: &str) -> Option<&Feature> {
        let mut name = field;
        loop {
            if let Some(feature) = self.features.get(name) {
                return Some(feature);
            }
            name = name.rsplit_once('.')?.0;
        }
    }

    /// Whether a feature works.
    #[must_use]
    pub fn status(&self, field: &str) -> FeatureStatus {
        self.feature(field).map_or(FeatureStatus::Supported, |feature| feature.status)
    }
}

impl fmt::Display for FeatureStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FeatureStatus::Supported => "supported",
            FeatureStatus::Unsupported => "unsupported",
            FeatureStatus::Conditional => "conditional",
            FeatureStatus::Passthrough => "passthrough",
        })
    }
}

#[cfg(test)]
mod tests;
