//! Which licences a dependency may have, and how an SPDX expression is read.

/// Licences under which a dependency may be used in a program that is handed out as Apache-2.0 or MIT.
const ALLOWED: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether `expression` leaves a choice of which every part is allowed.
///
/// # Errors
/// The words of an expression that is none.
pub(crate) fn allowed(expression: &str) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let answer = any(&mut rest);
    match (answer, rest) {
        (Some(answer), []) => Ok(answer),
        _ => Err(format!("`{expression}` is no licence expression")),
    }
}

fn any(rest: &mut &[&str]) -> Option<bool> {
    let mut answer = all(rest)?;
    while take(rest, "OR") {
        let other = all(rest)?;
        answer = answer || other;
    }
    Some(answer)
}

fn all(rest: &mut &[&str]) -> Option<bool> {
    let mut answer = one(rest)?;
    while take(rest, "AND") {
        let other = one(rest)?;
        answer = answer && other;
    }
    Some(answer)
}

fn one(rest: &mut &[&str]) -> Option<bool> {
    if take(rest, "(") {
        let answer = any(rest)?;
        return take(rest, ")").then_some(answer);
    }
    let (&name, tail) = rest.split_first()?;
    if matches!(name, ")" | "OR" | "AND" | "WITH") {
        return None;
    }
    *rest = tail;
    if take(rest, "WITH") {
        let (exception, tail) = rest.split_first()?;
        *rest = tail;
        return Some(ALLOWED.contains(&format!("{name} WITH {exception}").as_str()));
    }
    Some(ALLOWED.contains(&name))
}

fn take(rest: &mut &[&str], word: &str) -> bool {
    let found = rest.first() == Some(&word);
    if found {
        *rest = &rest[1..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_needs_one_allowed_licence_and_a_sum_needs_all() {
        for (expression, expected) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0-only OR MIT", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("GPL-3.0-only", false),
            ("MIT AND GPL-3.0-only", false),
            ("MIT AND (GPL-3.0-only OR LGPL-3.0-only)", false),
            ("GPL-2.0 WITH Classpath-exception-2.0", false),
        ] {
            assert_eq!(allowed(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn nonsense_is_an_error_and_not_a_yes() {
        for expression in ["", "MIT OR", "(MIT", "MIT MIT", "AND", "MIT WITH"] {
            assert!(allowed(expression).is_err(), "{expression:?}");
        }
    }
}
