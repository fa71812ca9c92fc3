#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
//! Secrets stay home: not in encoded form, not cut at a limit, not across a chunk boundary.

use super::encodings::Forms;
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;

/// Values as people have them: tokens, passwords with every kind of mark, values that begin or overlap others.
fn secrets() -> impl Strategy<Value = Vec<String>> {
    let one = prop_oneof![
        "[a-zA-Z0-9_-]{8,40}",
        "[a-z]{8,12}",
        "[ab]{8,12}",
        "[ -Z^-~\\\\äß€🦀\n\t]{8,24}",
        "[0-9]{8,12}",
        "sk-[a-z]{8,12}",
    ];
    proptest::collection::vec(one, 1..4).prop_flat_map(|values| {
        let first = values[0].clone();
        prop_oneof![
            Just(values.clone()),
            "[a-z]{1,9}".prop_map(move |tail| {
                let middle: String = first.chars().skip(2).collect();
                let mut values = values.clone();
                values.extend([format!("{first}{tail}"), format!("{middle}{tail}-more")]);
                values
            }),
        ]
    })
}

/// A piece of a text; secrets are chosen by number.
#[derive(Clone, Debug)]
enum Piece {
    Plain(String),
    /// A secret's form, and how many of its bytes are there (in thousandths).
    Form(usize, usize, usize),
    /// base64 of a text with a secret, wrapped.
    Base64(String, usize, usize),
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        3 => "[a-zA-Z ,.\n:/@=_-]{0,12}".prop_map(Piece::Plain),
        1 => "[ab]{0,20}".prop_map(Piece::Plain),
        1 => "(\n|\r\n|\r|ä|€|🦀|\\\\|\"| ){1,3}".prop_map(Piece::Plain),
        2 => proptest::sample::select(SHAPED).prop_map(|text| Piece::Plain(text.to_owned())),
        3 => (0..8usize, 0..64usize).prop_map(|(secret, form)| Piece::Form(secret, form, 1000)),
        2 => (0..8usize, 0..64usize, 0..1000usize).prop_map(|(secret, form, part)| Piece::Form(secret, form, part)),
        1 => ("[a-z]{0,8}", 0..8usize, 3..30usize).prop_map(|(before, secret, width)| Piece::Base64(before, secret, width)),
    ]
}

const SHAPED: &[&str] = &[
    "sk-",
    "sk-ant-",
    "eyJ",
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "\nProc-Type: 4,ENCRYPTED\n",
    "https://",
    "https://ada:hunter22@host/",
    "https://ada:",
    "@host",
    "Bearer ",
    "Authorization: ",
    "Basic YWRhOmxvdmVsYWNl",
    "api_key=",
    "\u{2192}",
    "\\n",
    "%3D",
    "\\u0022",
    "\x1b[31m",
    "AKIA",
    "AKIAQWERTYUI12345678",
    "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAaB3dE5gH7jK9",
    "eyJhbGciOiJIUzI1NiJ9",
    ".eyJzdWIiOiIxMjM0NTY3ODkwIn0",
    ".c2lnbmF0dXJl",
    ".",
    "ghp_",
];

fn forms(value: &str) -> Vec<String> {
    let mut forms = Forms::default();
    forms.add(value);
    forms.plain.into_iter().chain(forms.wrapped).map(|form| String::from_utf8(form).unwrap()).collect()
}

fn text(pieces: &[Piece], secrets: &[String]) -> String {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Plain(plain) => text.push_str(plain),
            Piece::Form(secret, form, part) => {
                let forms = forms(&secrets[secret % secrets.len()]);
                let form = &forms[form % forms.len()];
                let chars = form.chars().count() * part / 1000;
                text.extend(form.chars().take(chars));
            }
            Piece::Base64(before, secret, width) => {
                let inner = format!("{before}{} after", secrets[secret % secrets.len()]);
                let encoded = STANDARD.encode(inner);
                for line in encoded.as_bytes().chunks(*width) {
                    text.push_str(std::str::from_utf8(line).unwrap());
                    text.push('\n');
                }
            }
        }
    }
    text
}

fn registered(values: &[String]) -> (Redactor, Vec<String>) {
    let mut registry = SecretRegistry::new();
    let kept: Vec<String> = values
        .iter()
        .map(|value| value.trim().to_owned())
        .filter(|value| registry.register(Secret::new("x", value)) == Registration::Added)
        .collect();
    (registry.redactor(), kept)
}

fn streamed(redactor: &Redactor, chunks: &[&[u8]]) -> (Vec<u8>, Redactions) {
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    for chunk in chunks {
        out.extend(stream.push_bytes(chunk));
    }
    out.extend(stream.finish_bytes());
    (out, stream.report().clone())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_cut_anywhere_gives_what_the_whole_gives(
        values in secrets(),
        pieces in proptest::collection::vec(piece(), 0..9),
        cuts in proptest::collection::vec(0..1000usize, 0..6),
    ) {
        let (redactor, kept) = registered(&values);
        prop_assume!(!kept.is_empty());
        let text = text(&pieces, &kept);
        let mut report = Redactions::default();
        let whole = redactor.redact_bytes_reporting(text.as_bytes(), &mut report).into_owned();
        let bytes = text.as_bytes();
        for cut in 0..=bytes.len() {
            let (out, counted) = streamed(&redactor, &[&bytes[..cut], &bytes[cut..]]);
            prop_assert!(out == whole, "cut at {cut} of {text:?}: {:?} for {:?}", String::from_utf8_lossy(&out), String::from_utf8_lossy(&whole));
            prop_assert_eq!(&counted, &report);
        }
        let singles: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&streamed(&redactor, &singles).0, &whole);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut * bytes.len() / 1000).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let chunks: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(&streamed(&redactor, &chunks).0, &whole);
    }

    #[test]
    fn no_secret_survives_in_any_form(values in secrets(), pieces in proptest::collection::vec(piece(), 0..12)) {
        let (redactor, kept) = registered(&values);
        prop_assume!(!kept.is_empty());
        let text = text(&pieces, &kept);
        let clean = redactor.redact_text(&text).into_owned();
        // The forms are written down once more here, by the writers themselves.
        for value in &kept {
            let json = serde_json::to_string(value).unwrap();
            let twice = serde_json::to_string(&json).unwrap();
            let hex: String = value.bytes().map(|b| format!("{b:02x}")).collect();
            for form in [
                value.clone(),
                json[1..json.len() - 1].to_owned(),
                twice[3..twice.len() - 3].to_owned(),
                STANDARD.encode(value),
                URL_SAFE_NO_PAD.encode(value),
                hex.to_uppercase(),
                hex,
            ] {
                prop_assert!(!clean.contains(&form), "{form:?} in {clean:?} from {text:?}");
            }
            // Empty lines are no wrapping; a text that has them is looked at as it is.
            let empty_lines = text.contains("\n\n") || text.contains("\n\r");
            let unwrapped = if empty_lines { clean.clone() } else { clean.replace("\r\n", "").replace('\n', "") };
            for before in 0..3 {
                let encoded = STANDARD.encode(format!("{}{value}", "x".repeat(before)));
                let decided = &encoded[(before * 8_usize).div_ceil(6)..(before + value.len()) * 8 / 6];
                prop_assert!(!unwrapped.contains(decided), "{decided} in {clean:?} from {text:?}");
            }
        }
    }

    #[test]
    fn a_secret_cut_at_a_limit_does_not_survive(
        values in secrets(),
        before in "[A-Z .]{0,20}",
        form in 0..64usize,
        kept_part in 0..1000usize,
    ) {
        let (redactor, kept) = registered(&values);
        prop_assume!(!kept.is_empty());
        let forms = forms(&kept[0]);
        let form = &forms[form % forms.len()];
        let chars = (form.chars().count() * kept_part / 1000).max(FRAGMENT);
        let part: String = form.chars().take(chars).collect();
        let clean = redactor.redact_text(&format!("{before}{part}")).into_owned();
        prop_assert!(!clean.contains(&part), "{part:?} in {clean:?}");
        prop_assert!(clean.ends_with(MARK));
    }

    #[test]
    fn redacting_again_finds_no_known_value(values in secrets(), pieces in proptest::collection::vec(piece(), 0..9)) {
        let (redactor, kept) = registered(&values);
        prop_assume!(!kept.is_empty());
        // A value that is made of marks and their neighbours would be found in the result; no such value is looked at.
        prop_assume!(kept.iter().all(|value| !value.contains(['[', ']'])));
        let once = redactor.redact_text(&text(&pieces, &kept)).into_owned();
        let mut report = Redactions::default();
        let again = redactor.redact_text_reporting(&once, &mut report);
        prop_assert!(report.count("known_value") == 0, "{once:?} became {again:?}");
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..300), name in "\\PC{0,20}", path in "\\PC{0,30}") {
        let redactor = registered(&["secret-value".to_owned()]).0;
        let whole = redactor.redact_bytes(&bytes).into_owned();
        prop_assert_eq!(&streamed(&redactor, &bytes.chunks(3).collect::<Vec<_>>()).0, &whole);
        let _ = (classify_name(&name), credential_path(&path), is_secret_variable(&name, &path));
    }
}
