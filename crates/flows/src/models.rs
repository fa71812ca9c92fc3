//! Which model an agent asks: specifications, tags, and the ladder.

use placet_core::Price;
use placet_core::turn::Controls;
use placet_models::SharedProvider;
use placet_runtime::{ModelChoice, Runtime};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A model, and how it is to be asked. Every change makes a new one: what others hold stays as it is.
#[derive(Clone, Debug)]
pub struct ModelSpec(Arc<Spec>);

#[derive(Clone, Debug)]
struct Spec {
    source: Source,
    controls: Controls,
    price: Option<Price>,
}

#[derive(Clone, Debug)]
enum Source {
    Choice(ModelChoice),
    Tags(BTreeSet<String>),
}

impl ModelSpec {
    /// This model: a reference such as `openai:gpt-5.4`, or a provider and the name of its model.
    pub fn new(model: impl Into<ModelChoice>) -> Self {
        ModelSpec::of(Source::Choice(model.into()))
    }

    /// The first registered model that has all of these tags.
    pub fn tagged<T: Into<String>>(tags: impl IntoIterator<Item = T>) -> Self {
        ModelSpec::of(Source::Tags(tags.into_iter().map(Into::into).collect()))
    }

    fn of(source: Source) -> Self {
        ModelSpec(Arc::new(Spec { source, controls: Controls::default(), price: None }))
    }

    fn with(&self, change: impl FnOnce(&mut Spec)) -> Self {
        let mut spec = (*self.0).clone();
        change(&mut spec);
        ModelSpec(Arc::new(spec))
    }

    /// The same model with these knobs: they are what is sent, whatever a client's request says.
    #[must_use]
    pub fn with_controls(&self, controls: Controls) -> Self {
        self.with(|spec| spec.controls = controls)
    }

    /// The same model at another temperature.
    #[must_use]
    pub fn with_temperature(&self, temperature: f64) -> Self {
        self.with(|spec| spec.controls.temperature = Some(temperature))
    }

    /// The same model with another most of output tokens.
    #[must_use]
    pub fn with_max_output_tokens(&self, tokens: u64) -> Self {
        self.with(|spec| spec.controls.max_output_tokens = Some(tokens))
    }

    /// The same model at a price.
    #[must_use]
    pub fn with_price(&self, price: Price) -> Self {
        self.with(|spec| spec.price = Some(price))
    }

    /// Its knobs.
    #[must_use]
    pub fn controls(&self) -> &Controls {
        &self.0.controls
    }
}

impl<T: Into<ModelChoice>> From<T> for ModelSpec {
    fn from(model: T) -> Self {
        ModelSpec::new(model)
    }
}

/// The models of a process: registered under tags, one of them the default.
#[derive(Clone, Debug, Default)]
pub struct Models {
    registered: Vec<(BTreeSet<String>, ModelSpec)>,
    default: Option<ModelSpec>,
}

impl Models {
    /// No model.
    #[must_use]
    pub fn new() -> Self {
        Models::default()
    }

    /// Registers a model under tags. The first one is the default, unless another one is.
    #[must_use]
    pub fn register<T: Into<String>>(mut self, model: impl Into<ModelSpec>, tags: impl IntoIterator<Item = T>) -> Self {
        self.registered.push((tags.into_iter().map(Into::into).collect(), model.into()));
        self
    }

    /// Sets the default.
    #[must_use]
    pub fn default_model(mut self, model: impl Into<ModelSpec>) -> Self {
        self.default = Some(model.into());
        self
    }

    /// What is asked on a ladder: the first rung that holds a model.
    pub(crate) fn climb(&self, rungs: &[(Rung, Option<&ModelSpec>)]) -> Result<(Rung, ModelSpec), String> {
        let given = rungs.iter().find_map(|(rung, model)| model.map(|model| (*rung, model.clone())));
        let fallback = || {
            let registered = || self.registered.first().map(|(_, model)| (Rung::Registered, model.clone()));
            self.default.clone().map(|model| (Rung::Default, model)).or_else(registered)
        };
        let (rung, spec) = given.or_else(fallback).ok_or("it has no model on any rung")?;
        Ok((rung, self.untag(spec, 0)?))
    }

    /// The model behind a specification by tags, with what the specification itself sets.
    fn untag(&self, spec: ModelSpec, depth: usize) -> Result<ModelSpec, String> {
        let Source::Tags(wanted) = &spec.0.source else { return Ok(spec) };
        let listed = || wanted.iter().cloned().collect::<Vec<_>>().join(", ");
        let found = self.registered.iter().find(|(tags, _)| !wanted.is_empty() && wanted.is_subset(tags));
        let Some((_, model)) = found.filter(|_| depth < 4) else {
            return Err(format!("no registered model has all of the tags [{}]", listed()));
        };
        let found = self.untag(model.clone(), depth + 1)?;
        Ok(found.with(|own| {
            if spec.0.controls != Controls::default() {
                own.controls = spec.0.controls.clone();
            }
            own.price = spec.0.price.or(own.price);
        }))
    }
}

/// Where on the ladder a model was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rung {
    /// With the agent.
    Agent,
    /// With its flow.
    Flow,
    /// With the nearest flow around it that has one.
    Enclosing,
    /// The default of the process.
    Default,
    /// The first one that was registered.
    Registered,
}

/// A model that can be asked.
#[derive(Clone, Debug)]
pub struct ResolvedModel {
    /// Who answers.
    pub provider: SharedProvider,
    /// The provider's name of it.
    pub model: String,
    /// Its knobs.
    pub controls: Controls,
    /// What its tokens cost, where that is known.
    pub price: Option<Price>,
    /// Where on the ladder it was found.
    pub rung: Rung,
}

impl ResolvedModel {
    pub(crate) fn find(runtime: &Runtime, rung: Rung, spec: &ModelSpec) -> Result<Self, String> {
        let Source::Choice(choice) = &spec.0.source else {
            return Err("its model is named by tags that nobody looked up".to_owned());
        };
        let (provider, model) = match choice {
            ModelChoice::Given(provider, model) => (provider.clone(), model.clone()),
            ModelChoice::Reference(reference) => {
                let Some((id, model)) = reference.split_once(':') else {
                    return Err(format!(
                        "{reference:?} is no model reference: expected a provider, a colon and its model, as in openai:gpt-5.4"
                    ));
                };
                let known = runtime.providers().find(|provider| provider.id().as_str() == id);
                let Some(provider) = known else {
                    let known: Vec<&str> = runtime.providers().map(|provider| provider.id().as_str()).collect();
                    return Err(format!("there is no provider {id:?}; there are [{}]", known.join(", ")));
                };
                (provider.clone(), model.to_owned())
            }
        };
        let (controls, price) = (spec.0.controls.clone(), spec.0.price);
        Ok(ResolvedModel { provider, model, controls, price, rung })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn name(spec: &ModelSpec) -> &str {
        match &spec.0.source {
            Source::Choice(ModelChoice::Reference(reference)) => reference,
            _ => "",
        }
    }

    #[test]
    fn a3_the_first_rung_that_is_set_wins() {
        let models = Models::new().register("p:first", ["cheap"]).register("p:second", ["fast", "cheap"]);
        let flow = ModelSpec::new("p:flow");
        let (rung, found) = models.climb(&[(Rung::Agent, None), (Rung::Flow, Some(&flow))]).unwrap();
        assert_eq!((rung, name(&found)), (Rung::Flow, "p:flow"));
        let (rung, found) = models.climb(&[(Rung::Agent, None)]).unwrap();
        assert_eq!((rung, name(&found)), (Rung::Registered, "p:first"));
        let (rung, found) = models.default_model("p:default").climb(&[]).unwrap();
        assert_eq!((rung, name(&found)), (Rung::Default, "p:default"));
        assert!(Models::new().climb(&[]).is_err());
    }

    #[test]
    fn a3_tags_find_the_first_model_that_has_all_of_them_and_copies_are_independent() {
        let models = Models::new().register("p:first", ["cheap"]).register("p:second", ["fast", "cheap"]);
        let spec = ModelSpec::tagged(["fast", "cheap"]).with_temperature(0.5);
        let (_, found) = models.climb(&[(Rung::Agent, Some(&spec))]).unwrap();
        assert_eq!((name(&found), found.controls().temperature), ("p:second", Some(0.5)));
        let (_, again) = models.climb(&[(Rung::Agent, Some(&ModelSpec::tagged(["fast"])))]).unwrap();
        assert_eq!(again.controls().temperature, None);
        for unknown in [ModelSpec::tagged(["slow"]), ModelSpec::tagged::<String>([])] {
            assert!(models.climb(&[(Rung::Agent, Some(&unknown))]).unwrap_err().contains("no registered model"));
        }
    }
}
