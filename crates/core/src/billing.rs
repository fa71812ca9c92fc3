//! What is billed for a run, beside what it costs whoever pays the provider.

use crate::price::{Circumstances, ModelPrice};
use crate::usage::{Money, Usage};
use rust_decimal::{Decimal, RoundingStrategy};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

/// How the amount is reckoned that is billed for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Billing {
    /// At rates of its own, turn by turn, whatever the provider takes.
    Rates(Arc<ModelPrice>),
    /// What the run costs, and something on top.
    Markup(Markup),
}

impl Billing {
    /// What one turn comes to at rates of its own; nothing where a turn has no amount of its own, or something has no rate.
    #[must_use]
    pub fn of_turn(&self, usage: &Usage, tier: Option<&str>) -> Option<Money> {
        match self {
            Billing::Rates(rates) => rates.cost(usage, &Circumstances::of_tier(tier)),
            Billing::Markup(_) => None,
        }
    }

    /// What is billed for a run: its turns come to `turns` at rates of its own, and it costs `cost`. Nothing where that is not known.
    #[must_use]
    pub fn of_run(&self, turns: Option<Money>, cost: Option<Money>) -> Option<Money> {
        match self {
            Billing::Rates(_) => turns,
            Billing::Markup(markup) => cost.map(|cost| markup.on(cost)),
        }
    }

    /// What a turn adds to what is billed for its run: before it, and with it, the run comes to so much at rates of its own, and
    /// costs so much. The first turn, before which there is nothing, bears what is billed once a run.
    #[must_use]
    pub fn of_next(
        &self,
        before: Option<(Option<Money>, Option<Money>)>,
        (turns, cost): (Option<Money>, Option<Money>),
    ) -> Option<Money> {
        let whole = self.of_run(turns, cost)?;
        let billed = match before {
            Some((turns, cost)) => self.of_run(turns, cost)?,
            None => Money::ZERO,
        };
        whole.0.checked_sub(billed.0).map(Money)
    }
}

/// What is put on the cost of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Markup {
    /// The cost is multiplied by this first.
    #[serde(deserialize_with = "not_negative")]
    pub multiplier: Decimal,
    /// Then this is added, once a run.
    #[serde(deserialize_with = "not_negative")]
    pub fixed_per_run: Decimal,
    /// The least that is billed.
    #[serde(deserialize_with = "not_negative")]
    pub minimum_charge: Decimal,
    /// How many decimals are kept, half rounded up; all of them where this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_to: Option<u32>,
}

/// An amount or a factor of what is billed: nobody is billed less than nothing.
fn not_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
    let number: Decimal = Deserialize::deserialize(deserializer)?;
    if number.is_sign_negative() && !number.is_zero() {
        return Err(D::Error::custom(format!("{number} is below zero; expected 0 or more")));
    }
    Ok(number)
}

impl Default for Markup {
    fn default() -> Self {
        Markup { multiplier: Decimal::ONE, fixed_per_run: Decimal::ZERO, minimum_charge: Decimal::ZERO, round_to: None }
    }
}

impl Markup {
    /// What is billed for a run that costs so much.
    #[must_use]
    pub fn on(&self, cost: Money) -> Money {
        let scaled = cost.0.checked_mul(self.multiplier).unwrap_or(Decimal::MAX);
        let total = scaled.saturating_add(self.fixed_per_run).max(self.minimum_charge);
        Money(match self.round_to {
            Some(places) => total.round_dp_with_strategy(places, RoundingStrategy::MidpointAwayFromZero),
            None => total,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use crate::price::Meter;
    use serde_json::json;

    fn money(text: &str) -> Money {
        Money::parse(text).unwrap()
    }

    #[test]
    fn a_markup_multiplies_adds_holds_a_minimum_and_rounds_half_up() {
        let markup: Markup = serde_json::from_str(
            r#"{"multiplier": "1.1", "fixed_per_run": "0.005", "minimum_charge": "0.02", "round_to": 2}"#,
        )
        .unwrap();
        for (cost, wanted) in [("0", "$0.02"), ("0.01", "$0.02"), ("1", "$1.11"), ("0.1", "$0.12"), ("0.1091", "$0.13")]
        {
            assert_eq!(markup.on(money(cost)).to_string(), wanted, "{cost}");
        }
    }

    #[test]
    fn nobody_is_billed_less_than_nothing() {
        for field in ["multiplier", "fixed_per_run", "minimum_charge"] {
            let read = |number: &str| serde_json::from_value::<Markup>(json!({ field: number }));
            let problem = read("-1.2").unwrap_err().to_string();
            assert!(problem.contains("-1.2 is below zero"), "{field}: {problem}");
            assert!(read("0").is_ok() && read("-0").is_ok(), "{field}");
        }
    }

    #[test]
    fn rates_count_turns_and_a_markup_counts_what_the_run_costs() {
        let rates = ModelPrice::new().with(Meter::Input, None, None, "3".parse().unwrap());
        let billing = Billing::Rates(Arc::new(rates));
        let read = Usage { input: 1_000_000, ..Usage::default() };
        assert_eq!(billing.of_turn(&read, None), Some(money("3")));
        // Nothing is said of what is written.
        assert_eq!(billing.of_turn(&Usage { output: 1, ..read }, None), None);
        assert_eq!(billing.of_run(Some(money("6")), Some(money("100"))), Some(money("6")));
        assert_eq!(billing.of_run(None, Some(money("100"))), None);
        let billing = Billing::Markup(Markup { multiplier: "1.5".parse().unwrap(), ..Markup::default() });
        assert_eq!(billing.of_turn(&read, None), None);
        assert_eq!(billing.of_run(None, Some(money("2"))), Some(money("3")));
        assert_eq!(billing.of_run(None, None), None);
        let written = serde_json::to_value(&billing).unwrap();
        assert_eq!(written, json!({"markup": {"multiplier": "1.5", "fixed_per_run": "0", "minimum_charge": "0"}}));
        assert_eq!(serde_json::from_value::<Billing>(written).unwrap(), billing);
    }
}
