//! What a model's tokens and tools cost, along every axis that providers charge by.
//!
//! [`Price`] is what a person types: a few numbers. [`ModelPrice`] is what a catalog knows: a rate for each [`Meter`], by
//! the length of the context and by the tier that served the turn. Costs are reckoned turn by turn, because both are a
//! turn's own; what a run costs is the sum of its turns.

use crate::open::open_words;
use crate::usage::{Money, Price, Usage};
use rust_decimal::Decimal;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

open_words! {
    /// What is counted and charged for.
    pub enum Meter {
        /// Tokens read afresh.
        Input = "input",
        /// Tokens written, thinking included where that has no rate of its own.
        Output = "output",
        /// Tokens served from a prompt cache.
        CacheRead = "cache_read",
        /// Tokens written to a prompt cache of the usual lifetime.
        CacheWrite = "cache_write",
        /// Tokens written to a prompt cache that lives an hour.
        CacheWrite1h = "cache_write_1h",
        /// Tokens written to a prompt cache that lives 12 hours and more.
        CacheWrite12h = "cache_write_12h",
        /// Tokens of thinking.
        Reasoning = "reasoning",
        /// Tokens of sound, read.
        InputAudio = "input_audio",
        /// Tokens of sound, written.
        OutputAudio = "output_audio",
        /// Tokens of sound, served from a cache.
        CacheReadAudio = "cache_read_audio",
        /// Tokens of sound, written to a cache.
        CacheWriteAudio = "cache_write_audio",
        /// Tokens of pictures, read.
        InputImage = "input_image",
        /// Tokens of pictures, written.
        OutputImage = "output_image",
        /// Tokens of pictures, served from a cache.
        CacheReadImage = "cache_read_image",
        /// Tokens of moving pictures, read.
        InputVideo = "input_video",
        /// Tokens of moving pictures, written.
        OutputVideo = "output_video",
        /// A search of the web.
        Search = "search",
        /// A search that reads little.
        SearchLow = "search_low",
        /// A search that reads much.
        SearchHigh = "search_high",
        /// A look at a map.
        Maps = "maps",
        /// A sandbox for code, each time one is opened.
        CodeSession = "code_session",
    }
}

impl Meter {
    /// Whether its rates are for a million tokens; else they are for one.
    #[must_use]
    pub fn is_per_million(&self) -> bool {
        !matches!(
            self,
            Meter::Search | Meter::SearchLow | Meter::SearchHigh | Meter::Maps | Meter::CodeSession | Meter::Other(_)
        )
    }

    /// What stands in where it has no rate.
    fn otherwise(&self) -> Option<Meter> {
        Some(match self {
            Meter::CacheRead | Meter::CacheWrite | Meter::InputAudio | Meter::InputImage | Meter::InputVideo => {
                Meter::Input
            }
            Meter::CacheWrite1h | Meter::CacheWrite12h => Meter::CacheWrite,
            Meter::Reasoning | Meter::OutputAudio | Meter::OutputImage | Meter::OutputVideo => Meter::Output,
            Meter::CacheReadAudio | Meter::CacheReadImage => Meter::CacheRead,
            Meter::CacheWriteAudio => Meter::CacheWrite,
            Meter::SearchLow | Meter::SearchHigh => Meter::Search,
            _ => return None,
        })
    }
}

/// Where a rate holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RateKey {
    /// What is charged for.
    pub meter: Meter,
    /// From more than so many thousand tokens of input on.
    pub above: Option<u32>,
    /// Which tier serves it: `batches`, `flex`, `priority` …; absent: the usual one.
    pub tier: Option<String>,
}

/// Written as `input`, `input@272k`, `input+flex`, `input@272k+flex`.
impl fmt::Display for RateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.meter)?;
        if let Some(thousands) = self.above {
            write!(f, "@{thousands}k")?;
        }
        self.tier.as_ref().map_or(Ok(()), |tier| write!(f, "+{tier}"))
    }
}

impl RateKey {
    fn parse(text: &str) -> Option<Self> {
        let (text, tier) = match text.split_once('+') {
            Some((text, tier)) if !tier.is_empty() => (text, Some(tier.to_owned())),
            Some(_) => return None,
            None => (text, None),
        };
        let (meter, above) = match text.split_once('@') {
            Some((meter, above)) => (meter, Some(above.strip_suffix('k')?.parse().ok()?)),
            None => (text, None),
        };
        (!meter.is_empty()).then(|| RateKey { meter: meter.into(), above, tier })
    }
}

/// The rates of one model in US dollars: for a million tokens, or for one of what is no token.
///
/// Serialised as an object from [`RateKey`]s to decimal texts; `*fast` and the like are factors on everything, for a tier
/// or a region of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelPrice {
    rates: BTreeMap<RateKey, Decimal>,
    factors: BTreeMap<String, Decimal>,
}

/// What a cost depends on beside the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// The tier that served the turn, in the provider's words.
    pub tier: Option<String>,
    /// Where it was served, where that costs more: `us`, `eu` …
    pub region: Option<String>,
    /// How much searches read: `low`, `medium`, `high`.
    pub search_size: Option<String>,
    /// What else was used, and how often.
    pub uses: Vec<(Meter, u64)>,
}

impl Circumstances {
    /// A turn that this tier served.
    #[must_use]
    pub fn of_tier(tier: Option<&str>) -> Self {
        Circumstances { tier: tier.map(str::to_owned), ..Circumstances::default() }
    }

    /// The tier in the words of rates; none for the usual one.
    fn tier(&self) -> Option<&str> {
        match self.tier.as_deref()? {
            "" | "auto" | "default" | "standard" | "standard_only" | "on_demand" | "on-demand" => None,
            "batch" => Some("batches"),
            tier => Some(tier),
        }
    }
}

/// One line of a bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostLine {
    /// What was counted.
    pub meter: Meter,
    /// How much of it.
    pub count: u64,
    /// The rate, factors included.
    pub rate: Decimal,
    /// What it comes to.
    pub amount: Money,
}

impl ModelPrice {
    /// No rates at all: every cost is unknown.
    #[must_use]
    pub fn new() -> Self {
        ModelPrice::default()
    }

    /// Sets a rate.
    #[must_use]
    pub fn with(mut self, meter: Meter, above: Option<u32>, tier: Option<&str>, rate: Decimal) -> Self {
        self.rates.insert(RateKey { meter, above, tier: tier.map(str::to_owned) }, rate);
        self
    }

    /// Sets a factor on everything for a tier or region.
    #[must_use]
    pub fn with_factor(mut self, name: &str, factor: Decimal) -> Self {
        self.factors.insert(name.to_owned(), factor);
        self
    }

    /// The rates, in order.
    pub fn rates(&self) -> impl Iterator<Item = (&RateKey, Decimal)> {
        self.rates.iter().map(|(key, rate)| (key, *rate))
    }

    /// The tiers that it has prices or factors for, beside the usual one.
    #[must_use]
    pub fn tiers(&self) -> Vec<String> {
        let rates = self.rates.keys().filter_map(|key| key.tier.clone());
        let mut tiers: Vec<String> = rates.chain(self.factors.keys().cloned()).collect();
        tiers.sort();
        tiers.dedup();
        tiers
    }

    /// Whether something served by a tier is reckoned in a way of its own, or at the usual price because the tier is the usual one.
    #[must_use]
    pub fn has_tier(&self, tier: &str) -> bool {
        let with = Circumstances::of_tier(Some(tier));
        with.tier().is_none_or(|tier| self.tiers().iter().any(|known| known == tier))
    }

    /// The factors for tiers and regions.
    pub fn factors(&self) -> impl Iterator<Item = (&str, Decimal)> {
        self.factors.iter().map(|(name, factor)| (name.as_str(), *factor))
    }

    /// Whether there is any rate.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// The rate of a meter itself, for the usual tier and a short context.
    #[must_use]
    pub fn base(&self, meter: Meter) -> Option<Decimal> {
        self.get(&meter, None, None)
    }

    /// The rate that holds for a meter in a tier, with so many tokens of input in all.
    ///
    /// A rate for exactly the tier and the length comes first. Where there is one for each alone, both are taken together
    /// in proportion. Where a meter has none for the tier, it changes as `input` does. A meter without any rate has that of
    /// a broader one: caches that of `input`, thinking that of `output`.
    #[must_use]
    pub fn rate(&self, meter: &Meter, tier: Option<&str>, total_input: u64) -> Option<Decimal> {
        let mut meter = meter.clone();
        while !self.rates.keys().any(|key| key.meter == meter) {
            meter = meter.otherwise()?;
        }
        let lengths = self.rates.keys().filter(|key| key.meter == meter).filter_map(|key| key.above);
        let above = lengths.filter(|thousands| u64::from(*thousands) * 1000 < total_input).max();
        if let Some(exact) = self.get(&meter, above, tier) {
            return Some(exact);
        }
        let base = self.get(&meter, None, None);
        let long = above.and_then(|_| self.get(&meter, above, None));
        let tiered = tier.and_then(|_| self.get(&meter, None, tier));
        match (tiered, long) {
            (Some(tiered), Some(long)) => proportion(tiered, long, base).or(Some(tiered)),
            (Some(tiered), None) => Some(tiered),
            (None, plain) => {
                let plain = plain.or(base)?;
                let input = (self.get(&Meter::Input, None, tier), self.get(&Meter::Input, None, None));
                match input {
                    (Some(of_tier), usual) if tier.is_some() && meter.is_per_million() => {
                        proportion(plain, of_tier, usual).or(Some(plain))
                    }
                    _ => Some(plain),
                }
            }
        }
    }

    fn get(&self, meter: &Meter, above: Option<u32>, tier: Option<&str>) -> Option<Decimal> {
        self.rates.get(&RateKey { meter: meter.clone(), above, tier: tier.map(str::to_owned) }).copied()
    }

    /// What a turn costs; nothing where something was used that has no rate.
    #[must_use]
    pub fn cost(&self, usage: &Usage, circumstances: &Circumstances) -> Option<Money> {
        let lines = self.bill(usage, circumstances)?;
        Some(lines.into_iter().fold(Money::ZERO, |sum, line| sum + line.amount))
    }

    /// What a turn costs, line by line; nothing where something was used that has no rate.
    #[must_use]
    pub fn bill(&self, usage: &Usage, circumstances: &Circumstances) -> Option<Vec<CostLine>> {
        let total = usage.total_input();
        let has = |meter: &Meter| self.rates.keys().any(|key| key.meter == *meter);
        // Parts that have a rate of their own are taken out of the whole.
        let part = |meter: Meter, count: u64| if has(&meter) { count } else { 0 };
        let audio_in = part(Meter::InputAudio, usage.input_audio.min(usage.input));
        let audio_out = part(Meter::OutputAudio, usage.output_audio.min(usage.output));
        let thought = part(Meter::Reasoning, usage.reasoning.min(usage.output - audio_out));
        let long = if has(&Meter::CacheWrite1h) { Meter::CacheWrite1h } else { Meter::CacheWrite12h };
        let search = match circumstances.search_size.as_deref() {
            Some("low") => Meter::SearchLow,
            Some("high") => Meter::SearchHigh,
            _ => Meter::Search,
        };
        let counted = [
            (Meter::Input, usage.input - audio_in),
            (Meter::InputAudio, audio_in),
            (Meter::CacheRead, usage.cache_read),
            (Meter::CacheWrite, usage.cache_write),
            (long, usage.cache_write_long),
            (Meter::Output, usage.output - audio_out - thought),
            (Meter::OutputAudio, audio_out),
            (Meter::Reasoning, thought),
            (search, usage.searches),
        ];
        let tier = circumstances.tier();
        let factor = [tier, circumstances.region.as_deref()].into_iter().flatten();
        let factor = factor.filter_map(|name| self.factors.get(name)).fold(Decimal::ONE, |all, one| times(all, *one));
        counted
            .into_iter()
            .chain(circumstances.uses.iter().cloned())
            .filter(|(_, count)| *count > 0)
            .map(|(meter, count)| {
                let rate = self.rate(&meter, tier, total)?;
                let rate = if meter.is_per_million() { times(rate, factor) } else { rate };
                let whole = times(rate, Decimal::from(count));
                let amount = if meter.is_per_million() { whole / Decimal::from(1_000_000) } else { whole };
                Some(CostLine { meter, count, rate, amount: Money(amount) })
            })
            .collect()
    }
}

/// What a turn costs that used so much, served by this tier. A price that was given comes before the rates of a catalog;
/// nothing where there is neither, or where the rates do not cover what was used.
#[must_use]
pub fn cost(price: Option<&Price>, rates: Option<&ModelPrice>, usage: &Usage, tier: Option<&str>) -> Option<Money> {
    match price {
        Some(price) => Some(usage.cost(price)),
        None => rates?.cost(usage, &Circumstances::of_tier(tier)),
    }
}

/// A product; one beyond all measure is the largest amount there is.
fn times(a: Decimal, b: Decimal) -> Decimal {
    a.checked_mul(b).unwrap_or(Decimal::MAX)
}

/// `rate` changed as `from` becomes `to`.
fn proportion(rate: Decimal, to: Decimal, from: Option<Decimal>) -> Option<Decimal> {
    let from = from.filter(|from| !from.is_zero())?;
    times(rate, to).checked_div(from).map(|rate| rate.normalize())
}

impl From<Price> for ModelPrice {
    fn from(price: Price) -> Self {
        let mut rates =
            ModelPrice::new().with(Meter::Input, None, None, price.input).with(Meter::Output, None, None, price.output);
        let optional = [
            (Meter::CacheRead, price.cache_read),
            (Meter::CacheWrite, price.cache_write),
            (Meter::CacheWrite1h, price.cache_write_long),
        ];
        for (meter, rate) in optional {
            if let Some(rate) = rate {
                rates = rates.with(meter, None, None, rate);
            }
        }
        rates
    }
}

impl Serialize for ModelPrice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rates = self.rates.iter().map(|(key, rate)| (key.to_string(), rate));
        let factors = self.factors.iter().map(|(name, factor)| (format!("*{name}"), factor));
        serializer.collect_map(rates.chain(factors))
    }
}

impl<'de> Deserialize<'de> for ModelPrice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut price = ModelPrice::default();
        for (key, rate) in BTreeMap::<String, Decimal>::deserialize(deserializer)? {
            if rate.is_sign_negative() && !rate.is_zero() {
                return Err(D::Error::custom(format!("the price `{key}` is below zero")));
            }
            if let Some(name) = key.strip_prefix('*') {
                price.factors.insert(name.to_owned(), rate);
                continue;
            }
            let Some(parsed) = RateKey::parse(&key) else {
                return Err(D::Error::custom(format!(
                    "`{key}` is no name of a price: expected a meter such as `input`, `input@272k`, `input+flex`"
                )));
            };
            price.rates.insert(parsed, rate);
        }
        Ok(price)
    }
}

#[cfg(test)]
#[path = "price_tests.rs"]
mod tests;
