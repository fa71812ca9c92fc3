#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use crate::error::WorkspaceError;
use proptest::prelude::*;

fn value(expression: &str) -> String {
    match calculate(expression) {
        Ok(answer) => answer.text,
        Err(error) => panic!("{expression}: {error}"),
    }
}

#[test]
fn arithmetic_is_exact() {
    for (expression, wanted) in [
        ("1+1", "2"),
        ("0.1 + 0.2", "0.3"),
        ("1 / 3 * 3", "1"),
        ("10 / 4", "2.5"),
        ("1 / 3", "0.3333333333333333333333333333 (rounded to 28 digits)"),
        ("2 / 3", "0.6666666666666666666666666667 (rounded to 28 digits)"),
        ("-2 / 3 * 1000", "-666.6666666666666666666666667 (rounded to 28 digits)"),
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("2 - 3 - 4", "-5"),
        ("100 / 10 / 2", "5"),
        ("-2 ^ 2", "-4"),
        ("(-2) ^ 2", "4"),
        ("2 ^ 3 ^ 2", "512"),
        ("2 ** 10", "1024"),
        ("2 ^ -2", "0.25"),
        ("2 ^ -1 * 3", "1.5"),
        ("2 * -3", "-6"),
        ("--5", "5"),
        ("+5 - +3", "2"),
        ("7 % 3", "1"),
        ("-7 % 3", "-1"),
        ("7.5 % 2", "1.5"),
        ("0 ^ 0", "1"),
        ("(-1) ^ 99999", "-1"),
        ("2 ^ 100", "1267650600228229401496703205376"),
        ("1_000 * 1e3", "1000000"),
        ("2.5e-3", "0.0025"),
        (".5 + 5.", "5.5"),
        ("6 × 7 − 2 ÷ 4 · 2", "41"),
        ("sqrt(144)", "12"),
        ("sqrt(0.25)", "0.5"),
        ("sqrt(2)", "1.414213562373095048801688724 (rounded to 28 digits)"),
        ("sqrt(2) ^ 2", "2 (rounded to 28 digits)"),
        ("abs(-3.5)", "3.5"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(2.345, 2)", "2.35"),
        ("floor(-1.5) + ceil(1.2)", "0"),
        ("min(3, 1, 2) + max(3, 1, 2)", "4"),
        ("sum(1, 2, 3.5)", "6.5"),
        ("1e-40", "0.0000000000000000000000000000000000000001"),
        ("1e-60 / 3", "3.333333333333333333333333333e-61 (rounded to 28 digits)"),
        ("1/1024", "0.0009765625"),
        ("-0.0", "0"),
    ] {
        assert_eq!(value(expression), wanted, "{expression}");
    }
}

#[test]
fn mistakes_name_their_column() {
    for (expression, column, words) in [
        ("", 1, "the expression ends"),
        ("1 +", 4, "the expression ends"),
        ("1 + * 2", 5, "`*` was found"),
        ("(1 + 2", 7, "a `)` was expected"),
        ("1 + 2)", 6, "without its `(`"),
        ("1 2", 3, "an operator or the end"),
        ("1,000 + 1", 2, "write 1000"),
        ("2 * x", 5, "no variables"),
        ("foo(1)", 1, "no function `foo`"),
        ("sqrt(1, 2)", 1, "one argument, but 2"),
        ("min()", 1, "at least one"),
        ("4 + 1 / 0", 7, "division by zero"),
        ("1 % 0", 3, "division by zero"),
        ("0 ^ -1", 3, "division by zero"),
        ("2 ^ 0.5", 3, "whole number"),
        ("sqrt(-1)", 1, "negative"),
        ("9 ^ 9 ^ 9", 3, "too large"),
        ("2 ^ 1000000", 3, "too large"),
        ("1e9999", 1, "up to 2000"),
        (".", 1, "needs digits"),
        ("1 $ 2", 3, "an operator or the end"),
        ("50%", 4, "the expression ends"),
        ("2³", 2, "an operator or the end"),
    ] {
        match calculate(expression) {
            Err(WorkspaceError::Expression { column: at, problem }) => {
                assert!(at == column && problem.contains(words), "{expression}: column {at}: {problem}");
            }
            other => panic!("{expression}: {other:?}"),
        }
    }
    assert!(calculate(&"(".repeat(1_000)).is_err());
    assert!(calculate(&"-".repeat(1_999)).is_err());
    assert!(calculate(&"1".repeat(LONGEST + 1)).is_err());
}

/// An expression, evaluated by another way: fractions of machine integers over a tree, without precedence.
#[derive(Clone, Debug)]
enum Tree {
    Number(i64, u32),
    Sign(Box<Tree>),
    Pair(char, Box<Tree>, Box<Tree>),
    Power(Box<Tree>, i32),
}

type Fraction = (i128, i128);

fn reduced(n: i128, d: i128) -> Option<Fraction> {
    let (mut a, mut b) = (n.unsigned_abs(), d.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let divisor = i128::try_from(a.max(1)).ok()? * d.signum();
    Some((n / divisor, d / divisor))
}

impl Tree {
    fn value(&self) -> Option<Fraction> {
        match self {
            Tree::Number(digits, decimals) => reduced(i128::from(*digits), 10_i128.pow(*decimals)),
            Tree::Sign(inner) => inner.value().map(|(n, d)| (-n, d)),
            Tree::Pair(operator, left, right) => {
                let ((a, b), (c, d)) = (left.value()?, right.value()?);
                let (ad, cb) = (a.checked_mul(d)?, c.checked_mul(b)?);
                let bd = b.checked_mul(d)?;
                match operator {
                    '+' => reduced(ad.checked_add(cb)?, bd),
                    '-' => reduced(ad.checked_sub(cb)?, bd),
                    '*' => reduced(a.checked_mul(c)?, bd),
                    '/' if c != 0 => reduced(ad, b.checked_mul(c)?),
                    '%' if c != 0 => reduced(ad.checked_rem(cb)?, bd),
                    _ => None,
                }
            }
            Tree::Power(base, exponent) => {
                let (mut n, mut d) = (1_i128, 1_i128);
                let (a, b) = base.value()?;
                for _ in 0..exponent.unsigned_abs() {
                    (n, d) = (n.checked_mul(a)?, d.checked_mul(b)?);
                }
                if *exponent < 0 { if n == 0 { None } else { reduced(d, n) } } else { reduced(n, d) }
            }
        }
    }

    /// The tree as text, with no more parentheses than precedence needs where `level` is what surrounds it.
    fn text(&self, level: u8) -> String {
        let (own, text) = match self {
            Tree::Number(digits, 0) => (9, format!("{digits}")),
            Tree::Number(digits, decimals) => {
                let scale = 10_i64.pow(*decimals);
                let width = *decimals as usize;
                (9, format!("{}.{:0width$}", digits / scale, digits % scale))
            }
            Tree::Sign(inner) => (5, format!("-{}", inner.text(5))),
            Tree::Pair(operator @ ('+' | '-'), left, right) => {
                (1, format!("{} {operator} {}", left.text(1), right.text(2)))
            }
            Tree::Pair(operator, left, right) => (3, format!("{}{operator}{}", left.text(3), right.text(4))),
            Tree::Power(base, exponent) => (7, format!("{}^{exponent}", base.text(8))),
        };
        if own < level { format!("({text})") } else { text }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let number = (0_i64..100_000, 0_u32..4).prop_map(|(digits, decimals)| Tree::Number(digits, decimals));
    number.prop_recursive(5, 24, 2, |inner| {
        let operator = prop::sample::select(vec!['+', '-', '*', '/', '%']);
        prop_oneof![
            3 => (operator, inner.clone(), inner.clone())
                .prop_map(|(operator, a, b)| Tree::Pair(operator, Box::new(a), Box::new(b))),
            1 => inner.clone().prop_map(|tree| Tree::Sign(Box::new(tree))),
            1 => (inner, -3_i32..5).prop_map(|(tree, exponent)| Tree::Power(Box::new(tree), exponent)),
        ]
    })
}

proptest! {
    #[test]
    fn it_agrees_with_an_independent_evaluator(tree in trees()) {
        let text = tree.text(0);
        if let Some((n, d)) = tree.value() {
            let wanted = num::BigRational::new(n.into(), d.into());
            let found = parse::evaluate(&text).map(|number| number.value);
            prop_assert_eq!(found.ok(), Some(wanted), "{}", text);
        }
    }

    #[test]
    fn what_is_written_exactly_reads_back_the_same(n in -10_i64.pow(15)..10_i64.pow(15), decimals in 0_u32..30) {
        let value = num::BigRational::new(n.into(), num::BigInt::from(10).pow(decimals));
        let (text, exact) = number::written(&number::Number::exact(value.clone()));
        prop_assert!(exact);
        prop_assert_eq!(parse::evaluate(&text).ok().map(|number| number.value), Some(value), "{}", text);
    }

    #[test]
    fn what_is_rounded_is_off_by_less_than_the_last_digit(n in 1_i64..10_i64.pow(15), d in 1_i64..10_i64.pow(15)) {
        let value = num::BigRational::new(n.into(), d.into());
        let (text, exact) = number::written(&number::Number::exact(value.clone()));
        let back = parse::evaluate(&text).expect("reads back").value;
        let off = (&back - &value) / &value;
        let bound = num::BigRational::new(1.into(), num::BigInt::from(10).pow(DIGITS - 1));
        prop_assert!(if exact { back == value } else { off < bound && off > -bound }, "{}", text);
    }

    #[test]
    fn no_text_panics(text in "[-0-9.+*/%^()a-z, e_×]{0,60}") {
        let _ = calculate(&text);
    }
}
