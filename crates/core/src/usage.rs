//! Tokens and money.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign};

/// What a turn (or a run) used, in disjoint counters of tokens.
///
/// All input is `input + cache_read + cache_write + cache_write_long`; `reasoning` is a part of `output`. Protocols that
/// count otherwise are converted where they are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input read afresh.
    pub input: u64,
    /// Input served from a prompt cache.
    pub cache_read: u64,
    /// Input written to a prompt cache of the provider's usual lifetime.
    pub cache_write: u64,
    /// Input written to a prompt cache of an extended lifetime.
    pub cache_write_long: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// The part of the output that was reasoning.
    pub reasoning: u64,
    /// The part of `input` that was sound.
    #[serde(skip_serializing_if = "is_zero")]
    pub input_audio: u64,
    /// The part of `output` that was sound.
    #[serde(skip_serializing_if = "is_zero")]
    pub output_audio: u64,
    /// How many searches the provider ran and charges for. No tokens.
    #[serde(skip_serializing_if = "is_zero")]
    pub searches: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// All input, whatever its price.
    #[must_use]
    pub fn total_input(&self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.cache_write_long)
    }

    /// All tokens.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total_input().saturating_add(self.output)
    }

    /// What it costs at `price`.
    #[must_use]
    pub fn cost(&self, price: &Price) -> Money {
        let share = |tokens: u64, per_million: Decimal| Decimal::from(tokens) * per_million / Decimal::from(1_000_000);
        Money(
            share(self.input, price.input)
                + share(self.cache_read, price.cache_read.unwrap_or(price.input))
                + share(self.cache_write, price.cache_write.unwrap_or(price.input))
                + share(self.cache_write_long, price.cache_write_long.or(price.cache_write).unwrap_or(price.input))
                + share(self.output, price.output),
        )
    }
}

impl Add for Usage {
    type Output = Usage;
    fn add(self, other: Usage) -> Usage {
        Usage {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            cache_write_long: self.cache_write_long.saturating_add(other.cache_write_long),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            input_audio: self.input_audio.saturating_add(other.input_audio),
            output_audio: self.output_audio.saturating_add(other.output_audio),
            searches: self.searches.saturating_add(other.searches),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        *self = *self + other;
    }
}

/// An exact amount of US dollars. Serialised as a decimal text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Money(pub Decimal);

impl Money {
    /// Nothing.
    pub const ZERO: Money = Money(Decimal::ZERO);

    /// Reads an amount such as `0.25`.
    ///
    /// # Errors
    /// [`InvalidMoney`] when the text is not a plain decimal number, or negative.
    pub fn parse(text: &str) -> Result<Self, InvalidMoney> {
        match Decimal::from_str_exact(text.trim().trim_start_matches('$')) {
            Ok(amount) if !amount.is_sign_negative() || amount.is_zero() => Ok(Money(amount)),
            _ => Err(InvalidMoney { given: text.chars().take(40).collect() }),
        }
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", self.0.normalize())
    }
}

impl Add for Money {
    type Output = Money;
    fn add(self, other: Money) -> Money {
        Money(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Money) {
        *self = *self + other;
    }
}

/// A text is no amount of money.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no amount of money: expected a decimal number of US dollars, for example 0.25")]
pub struct InvalidMoney {
    /// What arrived, cut to 40 characters.
    pub given: String,
}

/// Prices in US dollars per million tokens. An absent cache price is the price of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Input read afresh.
    pub input: Decimal,
    /// Output, reasoning included.
    pub output: Decimal,
    /// Input served from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Decimal>,
    /// Input written to a cache of the usual lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Decimal>,
    /// Input written to a cache of an extended lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<Decimal>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_exact_over_disjoint_counters() {
        let usage = Usage { input: 1, cache_read: 10, cache_write: 3, output: 7, reasoning: 5, ..Usage::default() };
        let price = Price {
            input: Decimal::from(3),
            output: Decimal::from(15),
            cache_read: Some("0.3".parse().expect("a decimal")),
            cache_write: None,
            cache_write_long: None,
        };
        assert_eq!(usage.cost(&price).to_string(), "$0.00012");
        assert_eq!(usage.total(), 21);
    }

    #[test]
    fn amounts_are_checked() {
        assert_eq!(Money::parse("$0.250").map(|money| money.to_string()), Ok("$0.25".to_owned()));
        for text in ["", "-1", "1e9", "a", "1.0.0"] {
            assert!(Money::parse(text).is_err(), "{text}");
        }
    }
}
