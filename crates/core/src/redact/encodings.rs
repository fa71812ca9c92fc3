//! The forms in which a known value may appear.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Every form of one value that is looked for.
#[derive(Default)]
pub(super) struct Forms {
    /// Forms that stand on one line as they are.
    pub(super) plain: BTreeSet<Vec<u8>>,
    /// Forms that programs break into lines: base64 and hexadecimal.
    pub(super) wrapped: BTreeSet<Vec<u8>>,
}

impl Forms {
    /// Adds all forms of `value`.
    pub(super) fn add(&mut self, value: &str) {
        self.plain.insert(value.as_bytes().to_vec());
        for once in json_forms(value) {
            self.plain.extend(json_forms(&once).into_iter().map(String::into_bytes));
            self.plain.insert(once.into_bytes());
        }
        self.plain.extend(percent_forms(value).into_iter().map(String::into_bytes));
        self.wrapped.insert(hexadecimal(value.as_bytes(), "0123456789abcdef"));
        self.wrapped.insert(hexadecimal(value.as_bytes(), "0123456789ABCDEF"));
        self.wrapped.extend(base64_forms(value.as_bytes()));
    }
}

/// The inside of a JSON string as its common writers produce it: as little escaped as possible, only ASCII (Python), safe in HTML
/// (Go), with slashes escaped (PHP).
fn json_forms(value: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    for (ascii, html, slash) in
        [(false, false, false), (true, false, false), (false, true, false), (false, false, true), (true, false, true)]
    {
        let mut out = String::with_capacity(value.len() + 8);
        for c in value.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '/' if slash => out.push_str("\\/"),
                c if (c as u32) < 0x20 || (html && matches!(c, '<' | '>' | '&')) || (ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        forms.insert(out);
    }
    forms
}

/// Percent-encodings by what their writers leave alone: RFC 3986's unreserved characters, those and the marks of
/// `encodeURIComponent`, HTML forms (space as plus), userinfo's sub-delimiters, and nothing but letters and digits.
fn percent_forms(value: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    for (kept, plus) in [("-._~", false), ("-._~!*'()", false), ("-._*", true), ("-._~!$&'()*+,;=", false), ("", false)]
    {
        for upper in [true, false] {
            let mut out = String::with_capacity(value.len() + 16);
            for &b in value.as_bytes() {
                if b.is_ascii_alphanumeric() || kept.as_bytes().contains(&b) {
                    out.push(char::from(b));
                } else if b == b' ' && plus {
                    out.push('+');
                } else if upper {
                    let _ = write!(out, "%{b:02X}");
                } else {
                    let _ = write!(out, "%{b:02x}");
                }
            }
            forms.insert(out);
        }
    }
    forms
}

fn hexadecimal(value: &[u8], digits: &str) -> Vec<u8> {
    let digits = digits.as_bytes();
    value.iter().flat_map(|b| [digits[usize::from(b >> 4)], digits[usize::from(b & 15)]]).collect()
}

/// The characters of base64 that `value` alone decides, at each of its three positions within a longer text, in both
/// alphabets; and the whole of it with padding.
fn base64_forms(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::from([STANDARD.encode(value).into_bytes(), URL_SAFE.encode(value).into_bytes()]);
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(value);
        // A character carries six bits: drop those that hold a bit of a neighbour.
        let (first, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for text in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            forms.insert(text.as_bytes()[first..end].to_vec());
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(value: &str, form: &str) -> bool {
        let mut forms = Forms::default();
        forms.add(value);
        forms.plain.contains(form.as_bytes()) || forms.wrapped.contains(form.as_bytes())
    }

    #[test]
    fn forms_are_those_of_known_writers() {
        let value = "pä/s \"w<or+d";
        for form in [
            value,
            r#"pä/s \"w<or+d"#,
            r#"p\u00e4/s \"w<or+d"#,
            r#"pä/s \"w\u003cor+d"#,
            r#"pä\/s \"w<or+d"#,
            r#"p\u00e4\/s \"w<or+d"#,
            r#"pä/s \\\"w<or+d"#,
            "p%C3%A4%2Fs%20%22w%3Cor%2Bd",
            "p%c3%a4%2fs%20%22w%3cor%2bd",
            "p%C3%A4%2Fs+%22w%3Cor%2Bd",
            "p%C3%A4%2Fs%20%22w%3Cor+d",
            "70c3a42f73202277 3c6f722b64".replace(' ', "").as_str(),
            "70C3A42F732022773C6F722B64",
            "cMOkL3MgInc8b3IrZA==",
        ] {
            assert!(has(value, form), "{form}");
        }
    }

    #[test]
    fn base64_is_found_at_every_alignment() {
        let value = "s3cr3t-välue?>";
        for before in 0..7 {
            for after in 0..4 {
                let text = format!("{}{value}{}", "x".repeat(before), "~".repeat(after));
                for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                    let forms = base64_forms(value.as_bytes());
                    let found = forms.iter().any(|f| encoded.as_bytes().windows(f.len()).any(|w| w == f.as_slice()));
                    assert!(found, "{before} before, {after} after: {encoded}");
                }
            }
        }
    }

    #[test]
    fn no_form_is_shorter_than_the_least_value() {
        let mut forms = Forms::default();
        forms.add("8letters");
        assert!(forms.plain.iter().chain(&forms.wrapped).all(|form| form.len() >= 8));
    }
}
