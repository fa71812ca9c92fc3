//! The capability *calculator*.

use super::calculate;
use crate::bind::output;
use placet_tools::{PlainCapability, capability, tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Calculate {
    /// The expression, such as `(12.5 + 3) * 2 ^ 10`.
    expression: String,
}

/// The capability `calculator` with the tool `calculate`.
#[must_use]
pub fn calculator() -> PlainCapability {
    let calculate = tool(
        "calculate",
        "Evaluates an arithmetic expression exactly: + - * / % (remainder) ^ (power), parentheses, and the functions abs, \
         ceil, floor, max, min, round, sqrt, sum. A result without an end is rounded to 28 digits and says so.",
        |args: Calculate, _cx| async move { output(calculate(&args.expression)) },
    );
    capability("calculator")
        .instructions("Calculate with the calculator, not in your head: it is exact.")
        .tool(calculate)
}
