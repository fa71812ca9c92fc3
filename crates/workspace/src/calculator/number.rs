//! Numbers: arithmetic within bounds, and how they are written.

use super::{DIGITS, MOST_BITS, MOST_DECIMALS};
use num::bigint::Sign;
use num::{BigInt, BigRational, BigUint, Integer, One, Signed, ToPrimitive, Zero};

/// How many digits a root that is no fraction keeps.
const ROOT_DIGITS: u64 = 60;
/// The largest exponent.
const MOST_EXPONENT: i64 = 1_000_000;

/// A value, and whether nothing was rounded on the way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Number {
    pub(super) value: BigRational,
    pub(super) exact: bool,
}

/// What has no value: the words for it.
pub(super) type Problem = String;

impl Number {
    pub(super) fn exact(value: BigRational) -> Self {
        Number { value, exact: true }
    }

    fn of(value: BigRational, exact: bool) -> Result<Self, Problem> {
        if value.numer().bits() > MOST_BITS || value.denom().bits() > MOST_BITS {
            return Err(too_large());
        }
        Ok(Number { value, exact })
    }

    pub(super) fn add(self, other: Number) -> Result<Self, Problem> {
        Number::of(self.value + other.value, self.exact && other.exact)
    }

    pub(super) fn subtract(self, other: Number) -> Result<Self, Problem> {
        Number::of(self.value - other.value, self.exact && other.exact)
    }

    pub(super) fn multiply(self, other: Number) -> Result<Self, Problem> {
        Number::of(self.value * other.value, self.exact && other.exact)
    }

    pub(super) fn divide(self, other: Number) -> Result<Self, Problem> {
        if other.value.is_zero() {
            return Err("division by zero".into());
        }
        Number::of(self.value / other.value, self.exact && other.exact)
    }

    pub(super) fn remainder(self, other: Number) -> Result<Self, Problem> {
        if other.value.is_zero() {
            return Err("remainder of a division by zero".into());
        }
        let whole = (&self.value / &other.value).trunc();
        Number::of(self.value - other.value * whole, self.exact && other.exact)
    }

    pub(super) fn negate(self) -> Self {
        Number { value: -self.value, exact: self.exact }
    }

    pub(super) fn power(self, exponent: Number) -> Result<Self, Problem> {
        if !exponent.value.is_integer() {
            return Err("the exponent must be a whole number; for a square root write sqrt(…)".into());
        }
        let exact = self.exact && exponent.exact;
        let base = self.value;
        let Some(power) = exponent.value.to_integer().to_i64().filter(|power| power.abs() <= MOST_EXPONENT) else {
            return Err(format!("the exponent is too large; at most {MOST_EXPONENT} is allowed"));
        };
        if base.is_zero() && power < 0 {
            return Err("division by zero: zero to a negative power".into());
        }
        // A number of `bits` bits has at least `(bits - 1) * power` bits in its power: known before it is computed.
        let bits = base.numer().bits().max(base.denom().bits()).saturating_sub(1);
        if bits.saturating_mul(power.unsigned_abs()) > MOST_BITS {
            return Err(too_large());
        }
        let Ok(size) = u32::try_from(power.unsigned_abs()) else { return Err(too_large()) };
        if base.numer().magnitude().is_one() && base.denom().is_one() {
            let negative = base.is_negative() && size % 2 == 1;
            return Ok(Number { value: if negative { -BigRational::one() } else { BigRational::one() }, exact });
        }
        // Both parts below 2: then the power is as large as its base.
        let raised = BigRational::new(base.numer().pow(size), base.denom().pow(size));
        Number::of(if power < 0 { raised.recip() } else { raised }, exact)
    }

    pub(super) fn root(self) -> Result<Self, Problem> {
        if self.value.is_negative() {
            return Err("the square root of a negative number is no real number".into());
        }
        let (numer, denom) = (self.value.numer().sqrt(), self.value.denom().sqrt());
        let found = BigRational::new(numer, denom);
        if &found * &found == self.value {
            return Number::of(found, self.exact);
        }
        // Enough decimals for the wanted digits, however small the number is.
        let small = self.value.denom().bits().saturating_sub(self.value.numer().bits()) / 6;
        let scale = BigInt::from(10).pow(u32::try_from(ROOT_DIGITS + small).unwrap_or(u32::MAX));
        let scaled = (self.value.numer() * &scale * &scale).div_floor(self.value.denom()).sqrt();
        Number::of(BigRational::new(scaled, scale), false)
    }

    pub(super) fn rounded(self, digits: &Number) -> Result<Self, Problem> {
        let whole = digits.value.is_integer().then(|| digits.value.to_integer().to_u32()).flatten();
        let Some(digits) = whole.filter(|digits| *digits <= 1_000) else {
            return Err("the number of decimals must be a whole number from 0 to 1000".into());
        };
        let scale = BigInt::from(10).pow(digits);
        let scaled = half_away(&(self.value * &scale));
        Number::of(BigRational::new(scaled, scale), self.exact)
    }

    pub(super) fn map(self, change: fn(&BigRational) -> BigRational) -> Self {
        Number { value: change(&self.value), exact: self.exact }
    }
}

fn too_large() -> Problem {
    format!("the number is too large: it needs more than {MOST_BITS} bits")
}

/// The nearest whole number, a half away from zero.
fn half_away(value: &BigRational) -> BigInt {
    let twice = value.numer().magnitude() * 2_u32 + value.denom().magnitude();
    let whole = twice / (value.denom().magnitude() * 2_u32);
    let sign = if value.is_negative() { Sign::Minus } else { Sign::Plus };
    if whole.is_zero() { BigInt::zero() } else { BigInt::from_biguint(sign, whole) }
}

/// The number in decimal notation, and whether that is exact.
pub(super) fn written(number: &Number) -> (String, bool) {
    let value = &number.value;
    let decimals = decimals_needed(value.denom().magnitude()).filter(|decimals| *decimals <= MOST_DECIMALS);
    // Whole numbers of a rounded way are written in full: their digits are no decimals to cut.
    match decimals {
        Some(decimals) if number.exact || decimals == 0 => return (fixed(value, decimals), number.exact),
        _ => {}
    }
    let places = i64::from(DIGITS) - 1 - magnitude(value);
    // Very small ones in scientific notation, any other in full.
    if places > 2 * i64::from(DIGITS) {
        let power = -magnitude(value);
        let shift = BigInt::from(10).pow(u32::try_from(power).unwrap_or(0));
        let (shifted, power) = (value * shift, power);
        let mantissa = fixed(&shifted, u64::from(DIGITS) - 1);
        return (format!("{}e-{power}", trimmed(&mantissa)), false);
    }
    let decimals = u64::try_from(places).unwrap_or(0);
    (trimmed(&fixed(value, decimals)).to_owned(), false)
}

/// The power of ten of the first digit: 0 for 1 to 9.99…, -1 for 0.1 to 0.99….
fn magnitude(value: &BigRational) -> i64 {
    let (numer, denom) = (value.numer().magnitude(), value.denom().magnitude());
    let digits = |number: &BigUint| i64::try_from(number.to_str_radix(10).len()).unwrap_or(i64::MAX);
    let guess = digits(numer) - digits(denom);
    let ten = |power: i64| BigUint::from(10_u32).pow(u32::try_from(power.unsigned_abs()).unwrap_or(0));
    let reaches = if guess >= 0 { *numer >= denom * ten(guess) } else { numer * ten(guess) >= *denom };
    if reaches { guess } else { guess - 1 }
}

/// How many decimals write it exactly: only where the denominator has no prime factors but 2 and 5.
fn decimals_needed(denom: &BigUint) -> Option<u64> {
    let twos = denom.trailing_zeros().unwrap_or(0);
    let mut rest = denom >> twos;
    let (mut fives, five) = (0, BigUint::from(5_u32));
    while rest > BigUint::one() {
        let (whole, left) = rest.div_rem(&five);
        if !left.is_zero() {
            return None;
        }
        rest = whole;
        fives += 1;
    }
    Some(twos.max(fives))
}

/// With exactly so many decimals.
fn fixed(value: &BigRational, decimals: u64) -> String {
    let decimals = usize::try_from(decimals).unwrap_or(0);
    let scale = BigInt::from(10).pow(u32::try_from(decimals).unwrap_or(0));
    let scaled = half_away(&(value * scale));
    let digits = scaled.magnitude().to_str_radix(10);
    let sign = if scaled.is_negative() { "-" } else { "" };
    if decimals == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    format!("{sign}{whole}.{fraction}")
}

/// Without zeros at the end of its decimals.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}
