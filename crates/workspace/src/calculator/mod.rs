//! Exact arithmetic on an expression.
//!
//! Numbers are fractions of integers of any size (up to [`MOST_BITS`] bits), so that `0.1 + 0.2` is `0.3` and
//! `1 / 3 * 3` is `1`. Only a square root that is no fraction is rounded on the way, to 60 digits.
//!
//! | form | meaning | binds |
//! |---|---|---|
//! | `a + b`, `a - b` | sum, difference | least |
//! | `a * b`, `a / b`, `a % b` | product, quotient, remainder with the sign of `a` | more |
//! | `-a`, `+a` | sign | more |
//! | `a ^ b`, `a ** b` | power with a whole exponent, right to left: `-2 ^ 2` is `-4`, `2 ^ 3 ^ 2` is `512` | most |
//! | `abs(a)`, `sqrt(a)`, `floor(a)`, `ceil(a)` | | |
//! | `round(a)`, `round(a, digits)` | to whole numbers or to so many decimals, a half away from zero | |
//! | `min(a, …)`, `max(a, …)`, `sum(a, …)` | of one or more | |
//!
//! Numbers are written `12`, `0.5`, `.5`, `1_000`, `2.5e-3`. `×`, `·`, `÷` and `−` are taken as they are meant.
//!
//! A result is exact where it has an end in decimal notation within [`MOST_DECIMALS`] decimals; any other is rounded to
//! [`DIGITS`] significant digits, a half away from zero, and says so.

mod capability;
mod number;
mod parse;

#[cfg(test)]
mod tests;

pub use capability::calculator;

use crate::answer::Answer;
use crate::error::WorkspaceError;

/// The longest expression, in characters.
pub const LONGEST: usize = 2_000;
/// The deepest nesting of parentheses, signs and powers.
pub const DEEPEST: usize = 64;
/// The largest numerator and denominator, in bits.
pub const MOST_BITS: u64 = 16_384;
/// The most decimals that an exact result is written with.
pub const MOST_DECIMALS: u64 = 100;
/// How many significant digits a rounded result has.
pub const DIGITS: u32 = 28;

/// Evaluates an expression. The answer is the number alone where it is exact, and otherwise the number and a remark.
///
/// # Errors
/// [`WorkspaceError::Expression`] with the column, where it cannot be read or has no value.
pub fn calculate(expression: &str) -> Result<Answer, WorkspaceError> {
    let (text, exact) = number::written(&parse::evaluate(expression)?);
    let said = if exact { text.clone() } else { format!("{text} (rounded to {DIGITS} digits)") };
    Ok(Answer::new(said).fact("value", text).fact("exact", exact))
}
