//! What models cost whoever pays the provider, and what they cost whoever is billed.
//!
//! [`PriceBook`] answers both. A cost to the provider is reckoned with, in this order: a price that the user registered; the
//! catalog's; none (then it is unknown). What is billed: a price that the user registered for billing; a [`Markup`] on the
//! cost to the provider; nothing.

use crate::catalog::Catalog;
use crate::reference::{InvalidModelRef, ModelRef};
use crate::vendor::vendor;
use indexmap::IndexMap;
use placet_core::price::Meter;
use placet_core::{Billing, Circumstances, Markup, ModelPrice, Money, Usage};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

/// Where a price comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceSource {
    /// Somebody registered it.
    User,
    /// The catalog says so.
    Catalog,
}

/// What a user says that models cost, in a file:
///
/// ```json
/// {"costs": {"openai:gpt-x": {"input": "2", "output": "8"}},
///  "billed": {"openai:gpt-x": {"input": "4", "output": "16"}},
///  "markup": {"multiplier": "1.2", "round_to": 4}}
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UserPrices {
    /// What models cost, by reference.
    #[serde(skip_serializing_if = "IndexMap::is_empty", deserialize_with = "of_known_meters")]
    pub costs: IndexMap<String, ModelPrice>,
    /// What is billed for them.
    #[serde(skip_serializing_if = "IndexMap::is_empty", deserialize_with = "of_known_meters")]
    pub billed: IndexMap<String, ModelPrice>,
    /// What is billed for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markup: Option<Markup>,
}

impl UserPrices {
    /// The providers whose models it names; a name that is no reference is passed over.
    pub fn providers(&self) -> impl Iterator<Item = String> {
        let references = self.costs.keys().chain(self.billed.keys());
        references.filter_map(|name| Some(ModelRef::parse(name).ok()?.provider.as_str().to_owned()))
    }
}

/// Prices whose meters are all known: one that is misspelt would never be charged.
fn of_known_meters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IndexMap<String, ModelPrice>, D::Error> {
    let prices = IndexMap::<String, ModelPrice>::deserialize(deserializer)?;
    for (model, price) in &prices {
        if let Some((key, _)) = price.rates().find(|(key, _)| matches!(key.meter, Meter::Other(_))) {
            let known = Meter::WORDS.join("`, `");
            let problem = format!("`{key}` of `{model}` is nothing that is charged for; expected one of `{known}`");
            return Err(D::Error::custom(problem));
        }
    }
    Ok(prices)
}

/// Prices of models, by reference.
#[derive(Clone, Debug, Default)]
pub struct PriceBook {
    own: IndexMap<ModelRef, Arc<ModelPrice>>,
    billed: IndexMap<ModelRef, Arc<ModelPrice>>,
    markup: Option<Markup>,
    catalog: Facts,
}

/// Where prices come from that nobody registered.
#[derive(Clone, Debug, Default)]
enum Facts {
    #[default]
    None,
    /// The bundled catalog, which is read only where it knows the provider.
    Bundled,
    Given(Arc<Catalog>),
}

/// Whose prices the bundled catalog knows.
const KNOWN: [&str; 4] = ["openai", "anthropic", "google", "xai"];

impl PriceBook {
    /// Knows no price: usage without cost.
    #[must_use]
    pub fn new() -> Self {
        PriceBook::default()
    }

    /// Takes prices from a catalog where nobody registered one.
    #[must_use]
    pub fn of_catalog(catalog: Arc<Catalog>) -> Self {
        PriceBook { catalog: Facts::Given(catalog), ..PriceBook::default() }
    }

    /// Takes prices from the bundled catalog where nobody registered one.
    #[must_use]
    pub fn bundled() -> Self {
        PriceBook { catalog: Facts::Bundled, ..PriceBook::default() }
    }

    /// Takes in what a user says.
    ///
    /// # Errors
    /// [`InvalidModelRef`] for a name that is no reference.
    pub fn take_in(&mut self, user: UserPrices) -> Result<(), InvalidModelRef> {
        for (reference, price) in user.costs {
            self.set(ModelRef::parse(&reference)?, price);
        }
        for (reference, price) in user.billed {
            self.set_billed(ModelRef::parse(&reference)?, price);
        }
        self.markup = user.markup.or(self.markup.take());
        Ok(())
    }

    /// Registers what a model costs; it comes before the catalog.
    pub fn set(&mut self, model: ModelRef, price: impl Into<Arc<ModelPrice>>) {
        self.own.insert(model, price.into());
    }

    /// Registers what is billed for a model; it comes before the markup.
    pub fn set_billed(&mut self, model: ModelRef, price: impl Into<Arc<ModelPrice>>) {
        self.billed.insert(model, price.into());
    }

    /// Bills what the provider takes, and something on top.
    pub fn set_markup(&mut self, markup: Markup) {
        self.markup = Some(markup);
    }

    /// What a model costs, and who says so.
    #[must_use]
    pub fn price(&self, model: &ModelRef) -> Option<(Arc<ModelPrice>, PriceSource)> {
        if let Some(own) = self.own.get(model) {
            return Some((own.clone(), PriceSource::User));
        }
        // Another protocol of the same vendor costs the same; another vendor's offer of its models may not.
        let provider = model.provider.as_str();
        let payee = vendor(provider).and_then(|row| row.variant_of).unwrap_or(provider);
        let catalog = match &self.catalog {
            Facts::Given(catalog) => catalog.clone(),
            Facts::Bundled if KNOWN.contains(&payee) => Catalog::bundled(),
            _ => return None,
        };
        Some((catalog.find(payee, &model.model)?.prices.clone()?, PriceSource::Catalog))
    }

    /// What one turn costs; nothing where that is not known.
    #[must_use]
    pub fn cost(&self, model: &ModelRef, usage: &Usage, circumstances: &Circumstances) -> Option<Money> {
        self.price(model)?.0.cost(usage, circumstances)
    }

    /// What is billed for a run: for its turns, each with what it used and under which circumstances. Nothing where no
    /// amount can be told.
    #[must_use]
    pub fn billable(&self, model: &ModelRef, turns: &[(Usage, Circumstances)]) -> Option<Money> {
        let sum = |price: &ModelPrice| {
            turns.iter().try_fold(Money::ZERO, |sum, (usage, with)| Some(sum + price.cost(usage, with)?))
        };
        match self.billing(model)? {
            Billing::Rates(rates) => sum(&rates),
            Billing::Markup(markup) => Some(markup.on(sum(&self.price(model)?.0)?)),
        }
    }

    /// How the amount is reckoned that is billed for a run of a model: at the price that was registered for billing, else by the
    /// markup; nothing where neither is there.
    #[must_use]
    pub fn billing(&self, model: &ModelRef) -> Option<Billing> {
        let rates = self.billed.get(model).map(|rates| Billing::Rates(rates.clone()));
        rates.or_else(|| self.markup.clone().map(Billing::Markup))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    fn rates(input: &str) -> ModelPrice {
        let rate = input.parse().unwrap();
        ModelPrice::new().with(Meter::Input, None, None, rate).with(Meter::Output, None, None, rate)
    }

    fn used(input: u64) -> (Usage, Circumstances) {
        (Usage { input, ..Usage::default() }, Circumstances::default())
    }

    #[test]
    fn whose_price_counts() {
        let model = ModelRef::new("openai", "gpt-5.4");
        let (usage, with) = used(1_000_000);
        let cost = |book: &PriceBook| book.cost(&model, &usage, &with).map(|cost| cost.to_string());
        let mut book = PriceBook::new();
        assert_eq!(cost(&book), None);
        assert_eq!(book.billable(&model, &[used(1)]), None);
        book = PriceBook::of_catalog(Catalog::bundled());
        // More than 272 thousand tokens of input: twice the price.
        assert_eq!(cost(&book).as_deref(), Some("$5"));
        assert_eq!(book.price(&model).unwrap().1, PriceSource::Catalog);
        book.set(model.clone(), rates("7"));
        assert_eq!(cost(&book).as_deref(), Some("$7"));
        assert_eq!(book.price(&model).unwrap().1, PriceSource::User);
        assert_eq!(book.billable(&model, &[used(1)]), None);
        book.set_markup(Markup { multiplier: "1.5".parse().unwrap(), ..Markup::default() });
        let turns = [used(1_000_000), used(1_000_000)];
        assert_eq!(book.billable(&model, &turns).unwrap().to_string(), "$21");
        book.set_billed(model.clone(), rates("100"));
        assert_eq!(book.billable(&model, &turns).unwrap().to_string(), "$200");
        assert_eq!(book.price(&ModelRef::new("openai", "no-such")), None);
        let bundled = PriceBook::bundled();
        let knows = |provider: &str, name: &str| bundled.price(&ModelRef::new(provider, name)).is_some();
        assert!(knows("openai-chat", "gpt-5.4") && knows("xai", "grok-4.7") && knows("google", "gemini-3.8-flash"));
        assert!(!knows("azure", "gpt-5.4") && !knows("ollama", "llama") && !knows("vertex", "gemini-3.8-flash"));
    }

    #[test]
    fn a_file_of_the_users_is_taken_in() {
        let text = r#"{"costs": {"gpt-5.4": {"input": "1"}, "own:m": {"input": "2", "*us": "1.1"}}, "markup": {"multiplier": "3"}}"#;
        let mut book = PriceBook::of_catalog(Catalog::bundled());
        book.take_in(serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(book.price(&ModelRef::new("openai", "gpt-5.4")).unwrap().1, PriceSource::User);
        let billed = book.billable(&ModelRef::new("own", "m"), &[used(1_000_000)]);
        assert_eq!(billed.unwrap().to_string(), "$6");
        assert!(serde_json::from_str::<UserPrices>(r#"{"cost": {}}"#).is_err());
        for text in [
            r#"{"costs": {"own:m": {"input": "1", "cache_raed@272k": "2"}}}"#,
            r#"{"billed": {"own:m": {"cache_raed": "1"}}}"#,
        ] {
            let problem = serde_json::from_str::<UserPrices>(text).unwrap_err().to_string();
            assert!(problem.contains("`cache_raed") && problem.contains("`own:m`"), "{problem}");
        }
        for text in [r#"{"markup": {"multiplier": "-1"}}"#, r#"{"costs": {"own:m": {"*fast": "-1"}}}"#] {
            assert!(serde_json::from_str::<UserPrices>(text).unwrap_err().to_string().contains("below zero"), "{text}");
        }
        let nameless = UserPrices { costs: [("nonsense".to_owned(), rates("1"))].into(), ..UserPrices::default() };
        assert!(PriceBook::new().take_in(nameless).is_err());
    }

    proptest! {
        #[test]
        fn a_run_costs_what_its_turns_cost(turns in proptest::collection::vec((0u64..2_000_000, 0u64..200_000, 0u64..50_000), 0..6)) {
            let model = ModelRef::new("openai", "gpt-5.4");
            let mut book = PriceBook::of_catalog(Catalog::bundled());
            book.set_markup(Markup::default());
            let turns: Vec<_> = turns
                .into_iter()
                .map(|(input, cache_read, output)| {
                    (Usage { input, cache_read, output, reasoning: output / 2, ..Usage::default() }, Circumstances::default())
                })
                .collect();
            let each: Money = turns
                .iter()
                .map(|(usage, with)| book.cost(&model, usage, with).unwrap())
                .fold(Money::ZERO, |sum, cost| sum + cost);
            prop_assert_eq!(book.billable(&model, &turns), Some(each));
        }
    }
}
