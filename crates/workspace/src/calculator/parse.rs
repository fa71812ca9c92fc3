//! Reading an expression, and evaluating it on the way.

use super::number::{Number, Problem};
use super::{DEEPEST, LONGEST};
use crate::error::WorkspaceError;
use num::{BigInt, BigRational, Signed};

/// The most digits of one number, its exponent's zeros included.
const MOST_DIGITS: usize = 2_000;

const FUNCTIONS: &str = "abs, ceil, floor, max, min, round, sqrt, sum";

pub(super) fn evaluate(expression: &str) -> Result<Number, WorkspaceError> {
    let chars: Vec<char> = expression.chars().collect();
    if chars.len() > LONGEST {
        return Err(error(LONGEST, format!("the expression is longer than {LONGEST} characters")));
    }
    let mut reader = Reader { chars, at: 0, depth: 0 };
    let value = reader.expression(0)?;
    match reader.peek() {
        None => Ok(value),
        Some(')') => Err(reader.here("a `)` without its `(`")),
        Some(',') => Err(reader.here("a `,` stands only between the arguments of a function; write 1000, not 1,000")),
        Some(other) => Err(reader.here(format!("an operator or the end was expected, but `{other}` was found"))),
    }
}

fn error(at: usize, problem: impl Into<Problem>) -> WorkspaceError {
    WorkspaceError::Expression { column: at + 1, problem: problem.into() }
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

/// How strongly a sign binds: more than a product, less than a power.
const SIGN: u8 = 5;

impl Operator {
    /// How strongly it binds on its left and on its right.
    fn binds(self) -> (u8, u8) {
        match self {
            Operator::Add | Operator::Subtract => (1, 2),
            Operator::Multiply | Operator::Divide | Operator::Remainder => (3, 4),
            Operator::Power => (8, 7),
        }
    }

    fn apply(self, left: Number, right: Number) -> Result<Number, Problem> {
        match self {
            Operator::Add => left.add(right),
            Operator::Subtract => left.subtract(right),
            Operator::Multiply => left.multiply(right),
            Operator::Divide => left.divide(right),
            Operator::Remainder => left.remainder(right),
            Operator::Power => left.power(right),
        }
    }
}

impl Reader {
    fn here(&self, problem: impl Into<Problem>) -> WorkspaceError {
        error(self.at, problem)
    }

    fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.chars.get(self.at).copied()
    }

    fn operator(&mut self) -> Option<(Operator, usize)> {
        let operator = match self.peek()? {
            '+' => Operator::Add,
            '-' | '−' | '–' => Operator::Subtract,
            '*' if self.chars.get(self.at + 1) == Some(&'*') => return Some((Operator::Power, 2)),
            '*' | '×' | '·' => Operator::Multiply,
            '/' | '÷' => Operator::Divide,
            '%' => Operator::Remainder,
            '^' => Operator::Power,
            _ => return None,
        };
        Some((operator, 1))
    }

    /// What binds at least as strongly as `least`.
    fn expression(&mut self, least: u8) -> Result<Number, WorkspaceError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.here(format!("the expression is nested deeper than {DEEPEST} levels")));
        }
        let mut left = self.operand()?;
        while let Some((operator, length)) = self.operator() {
            let (binds_left, binds_right) = operator.binds();
            if binds_left < least {
                break;
            }
            let at = self.at;
            self.at += length;
            let right = self.expression(binds_right)?;
            left = operator.apply(left, right).map_err(|problem| error(at, problem))?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self) -> Result<Number, WorkspaceError> {
        match self.peek() {
            None => Err(self.here("a number was expected, but the expression ends")),
            Some('-' | '−' | '–') => {
                self.at += 1;
                Ok(self.expression(SIGN)?.negate())
            }
            Some('+') => {
                self.at += 1;
                self.expression(SIGN)
            }
            Some('(') => {
                self.at += 1;
                let value = self.expression(0)?;
                self.close()?;
                Ok(value)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() => self.function(),
            Some(other) => Err(self.here(format!("a number was expected, but `{other}` was found"))),
        }
    }

    fn close(&mut self) -> Result<(), WorkspaceError> {
        match self.peek() {
            Some(')') => {
                self.at += 1;
                Ok(())
            }
            Some(other) => Err(self.here(format!("a `)` was expected, but `{other}` was found"))),
            None => Err(self.here("a `)` was expected, but the expression ends")),
        }
    }

    fn digits(&mut self, into: &mut String) {
        while let Some(c) = self.chars.get(self.at).filter(|c| c.is_ascii_digit() || **c == '_') {
            if *c != '_' {
                into.push(*c);
            }
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<Number, WorkspaceError> {
        let start = self.at;
        let mut digits = String::new();
        self.digits(&mut digits);
        let mut scale = 0_i64;
        if self.chars.get(self.at) == Some(&'.') {
            self.at += 1;
            let before = digits.len();
            self.digits(&mut digits);
            scale = i64::try_from(digits.len() - before).unwrap_or(i64::MAX);
        }
        if digits.is_empty() {
            return Err(error(start, "a number needs digits"));
        }
        if matches!(self.chars.get(self.at), Some('e' | 'E')) {
            self.at += 1;
            let negative = self.chars.get(self.at) == Some(&'-');
            if matches!(self.chars.get(self.at), Some('-' | '+')) {
                self.at += 1;
            }
            let mut exponent = String::new();
            self.digits(&mut exponent);
            let exponent: i64 = match exponent.parse() {
                Ok(exponent) if !exponent_is_absurd(exponent) => exponent,
                _ => return Err(error(start, "the exponent after `e` must be a whole number up to 2000")),
            };
            scale -= if negative { -exponent } else { exponent };
        }
        if digits.len() > MOST_DIGITS {
            return Err(error(start, format!("the number has more than {MOST_DIGITS} digits")));
        }
        let Ok(value) = digits.parse::<BigInt>() else { return Err(error(start, "the number cannot be read")) };
        let ten = BigInt::from(10).pow(u32::try_from(scale.unsigned_abs()).unwrap_or(0));
        let value = if scale >= 0 { BigRational::new(value, ten) } else { BigRational::from_integer(value * ten) };
        Ok(Number::exact(value))
    }

    fn function(&mut self) -> Result<Number, WorkspaceError> {
        let start = self.at;
        let mut name = String::new();
        while let Some(c) = self.chars.get(self.at).filter(|c| c.is_alphanumeric() || **c == '_') {
            name.push(*c);
            self.at += 1;
        }
        if self.peek() != Some('(') {
            let problem = format!("`{name}` is no number; there are no variables, and the functions are {FUNCTIONS}");
            return Err(error(start, problem));
        }
        self.at += 1;
        let mut arguments = Vec::new();
        if self.peek() != Some(')') {
            loop {
                arguments.push(self.expression(0)?);
                if self.peek() != Some(',') {
                    break;
                }
                self.at += 1;
            }
        }
        self.close()?;
        apply(&name, arguments).map_err(|problem| error(start, problem))
    }
}

fn exponent_is_absurd(exponent: i64) -> bool {
    usize::try_from(exponent).is_ok_and(|exponent| exponent > MOST_DIGITS)
}

fn apply(name: &str, arguments: Vec<Number>) -> Result<Number, Problem> {
    let count = arguments.len();
    let mut arguments = arguments.into_iter();
    let first = arguments.next();
    let takes = |expected: &str| format!("`{name}` takes {expected}, but {count} were given");
    let one = |apply: fn(Number) -> Result<Number, Problem>| match (count, first.clone()) {
        (1, Some(number)) => apply(number),
        _ => Err(takes("one argument")),
    };
    match name {
        "abs" => one(|number| Ok(number.map(BigRational::abs))),
        "sqrt" => one(Number::root),
        "floor" => one(|number| Ok(number.map(BigRational::floor))),
        "ceil" => one(|number| Ok(number.map(BigRational::ceil))),
        "round" => match (count, first, arguments.next()) {
            (1, Some(number), None) => number.rounded(&Number::exact(BigRational::from_integer(0.into()))),
            (2, Some(number), Some(digits)) => number.rounded(&digits),
            _ => Err(takes("one or two arguments")),
        },
        "min" | "max" | "sum" => {
            let Some(first) = first else { return Err(takes("at least one argument")) };
            arguments.try_fold(first, |so_far, next| match name {
                "sum" => so_far.add(next),
                "min" => Ok(if next.value < so_far.value { next } else { so_far }),
                _ => Ok(if next.value > so_far.value { next } else { so_far }),
            })
        }
        _ => Err(format!("there is no function `{name}`; the functions are {FUNCTIONS}")),
    }
}
