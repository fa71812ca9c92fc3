#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

fn redactor(values: &[&str]) -> Redactor {
    let mut registry = SecretRegistry::new();
    for (i, value) in values.iter().enumerate() {
        assert_eq!(registry.register(Secret::new(format!("S{i}"), *value)), Registration::Added, "{value}");
    }
    registry.redactor()
}

#[test]
fn nothing_to_find_is_borrowed() {
    for redactor in [Redactor::default(), redactor(&["some-secret-value"])] {
        for text in ["", "short", "A longer text, with some-secret- and valueless words.\n"] {
            assert!(matches!(redactor.redact_text(text), Cow::Borrowed(t) if t == text), "{text}");
        }
    }
}

#[test]
fn a_secret_that_begins_another_leaves_no_tail() {
    let both = redactor(&["secret-one", "secret-one-and-more"]);
    assert_eq!(both.redact_text("<secret-one-and-more> <secret-one-and>"), "<[redacted]> <[redacted]-and>");
    let overlapping = redactor(&["abcdefghij", "ghijklmnop"]);
    assert_eq!(overlapping.redact_text("-abcdefghijklmnop-"), "-[redacted]-");
    assert_eq!(overlapping.redact_text("abcdefghijabcdefghij"), "[redacted][redacted]");
}

#[test]
fn encoded_forms_are_found() {
    let value = "p\"a/s+s wörd";
    let redactor = redactor(&[value]);
    let once = serde_json::to_string(value).unwrap();
    let twice = serde_json::to_string(&once).unwrap();
    for form in [
        value,
        &once[1..once.len() - 1],
        &twice[3..twice.len() - 3],
        "p%22a%2Fs%2Bs%20w%C3%B6rd",
        "p%22a%2fs%2bs+w%c3%b6rd",
    ] {
        assert_eq!(redactor.redact_text(&format!("x={form};")), "x=[redacted];", "{form}");
    }
    let encoded = STANDARD.encode(value);
    assert_eq!(redactor.redact_text(&format!("x={encoded};")), "x=[redacted];");
    assert_eq!(redactor.redact_text("7022612f732b732077c3b67264"), MARK);
}

#[test]
fn base64_of_a_file_that_holds_a_secret_is_found_across_its_line_breaks() {
    let value = "a-rather-long-secret-value-that-is-wrapped";
    let redactor = redactor(&[value]);
    for before in 0..80 {
        let file = format!("{}{value}\nand so on, for a line or two of other text\n", "x".repeat(before));
        let encoded = STANDARD.encode(&file);
        for (width, end) in [(76, "\n"), (64, "\r\n"), (20, "\n")] {
            let lines: Vec<&str> =
                encoded.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
            let clean = redactor.redact_text(&lines.join(end)).into_owned();
            assert_eq!(clean.matches(MARK).count(), 1, "{clean}");
            // What stands around the mark holds but a few bits of the secret's first and last byte.
            let (left, right) = clean.split_once(MARK).unwrap();
            let lost = encoded.len() - left.replace(end, "").len() - right.replace(end, "").len();
            assert!(lost >= value.len() * 8 / 6 - 2, "{lost} characters for {} bytes", value.len());
        }
    }
}

#[test]
fn hexadecimal_across_line_breaks() {
    let value = "wrapped-secret";
    let hex: String = format!("ab{value}cd").bytes().map(|b| format!("{b:02x}")).collect();
    let wrapped: Vec<&str> = hex.as_bytes().chunks(10).map(|line| std::str::from_utf8(line).unwrap()).collect();
    assert_eq!(redactor(&[value]).redact_text(&wrapped.join("\n")), "6162[redacted]6364");
}

#[test]
fn a_value_of_several_lines_is_found_line_by_line_too() {
    let value = "-----BEGIN THING-----\nAbCdEfGhIjKlMnOpQrStUvWx0123456789\nYzYzYzYzYzYzYzYzYzYzYz==\nshort\n-----END THING-----";
    let redactor = redactor(&[value]);
    assert_eq!(redactor.redact_text(value), MARK);
    assert_eq!(redactor.redact_text(&value.replace('\n', "\\n")), MARK);
    assert_eq!(
        redactor.redact_text("12: AbCdEfGhIjKlMnOpQrStUvWx0123456789\n13: short\n"),
        "12: [redacted]\n13: short\n"
    );
}

#[test]
fn a_secret_cut_at_the_end_of_a_text_does_not_survive() {
    let value = "an-entirely-secret-value";
    let redactor = redactor(&[value]);
    let text = format!("the key is {value} and so on");
    for cut in 0..text.len() {
        let clean = redactor.redact_text(&text[..cut]).into_owned();
        assert!(!clean.contains(&value[..FRAGMENT]), "cut at {cut}: {clean}");
    }
    let encoded = STANDARD.encode(value);
    for cut in FRAGMENT..encoded.len() {
        assert_eq!(redactor.redact_text(&encoded[..cut]), MARK, "cut at {cut}");
    }
}

#[test]
fn redacting_before_cutting_leaves_no_part() {
    let value = "an-entirely-secret-value";
    let redactor = redactor(&[value]);
    for before in 0..60 {
        let clean = redactor.redact_text(&format!("{}{value}{}", "x".repeat(before), "y".repeat(60))).into_owned();
        for limit in 0..clean.len() {
            for window in value.as_bytes().windows(4) {
                assert!(!clean[..limit].contains(std::str::from_utf8(window).unwrap()));
            }
        }
    }
}

#[test]
fn reports_count_kinds_and_hold_no_value() {
    let redactor = redactor(&["an-entirely-secret-value"]);
    let mut report = Redactions::default();
    redactor.redact_text_reporting("an-entirely-secret-value x an-entirely-secret-value", &mut report);
    redactor.redact_text_reporting("postgres://a:hunter2@b", &mut report);
    assert_eq!(serde_json::to_value(&report).unwrap(), json!({"known_value": 2, "url_password": 1}));
    let back: Redactions = serde_json::from_value(json!({"known_value": 2, "a_later_kind": 4})).unwrap();
    report.merge(&back);
    assert_eq!(report.iter().collect::<Vec<_>>(), [("a_later_kind", 4), ("known_value", 4), ("url_password", 1)]);
    assert_eq!((report.total(), report.count("known_value"), report.count("none")), (9, 4, 0));
    assert!(Redactions::default().is_empty() && !report.is_empty());
    assert!(!format!("{redactor:?} {report:?}").contains("entirely"));
}

#[test]
fn json_is_redacted_in_strings_keys_and_numbers() {
    let redactor = redactor(&["secret-value", "8675309123"]);
    let mut value = json!({
        "a": "x secret-value y",
        "secret-value": [1, 8675309123u64, 18675309123i64, 2.5, null, true, "c2VjcmV0LXZhbHVl"],
        "[redacted]": {"deep": {"secret-value-2": "clean"}},
        "z": 12345678
    });
    let report = redactor.redact_json(&mut value);
    assert_eq!(
        value,
        json!({
            "a": "x [redacted] y",
            "[redacted]": [1, "[redacted]", "[redacted]", 2.5, null, true, "[redacted]"],
            "[redacted] 2": {"deep": {"[redacted]-2": "clean"}},
            "z": 12345678
        })
    );
    assert_eq!(value.as_object().unwrap().keys().collect::<Vec<_>>(), ["a", "[redacted]", "[redacted] 2", "z"]);
    assert_eq!(report.count("known_value"), 6);
}

#[test]
fn json_values_are_judged_by_their_names_too() {
    let random = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA";
    let mut value = json!({"x-api-key": random, "id": random, "token_count": 12, "api_key": "none"});
    let report = Redactor::default().redact_json(&mut value);
    assert_eq!(value, json!({"x-api-key": MARK, "id": random, "token_count": 12, "api_key": "none"}));
    assert_eq!(report.count("named_value"), 1);
}

#[test]
fn allowed_values_stay() {
    let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1234");
    assert_eq!(Redactor::default().redact_text(&token), MARK);
    let mut registry = SecretRegistry::new();
    registry.allow(&token);
    registry.register(Secret::new("X", &token));
    let redactor = registry.redactor();
    assert_eq!(redactor.redact_text(&token), token);
    let random = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA";
    registry.allow(random);
    let mut value = json!({"api_key": random});
    assert!(registry.redactor().redact_json(&mut value).is_empty());
    assert_eq!(value, json!({"api_key": random}));
}

#[test]
fn bytes_that_are_no_text_are_redacted() {
    let redactor = redactor(&["secret-value"]);
    let bytes = b"\xff\xfesecret-value\x00\xc3";
    assert_eq!(redactor.redact_bytes(bytes).as_ref(), b"\xff\xfe[redacted]\x00\xc3");
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    for byte in bytes {
        out.extend(stream.push_bytes(&[*byte]));
    }
    out.extend(stream.finish_bytes());
    assert_eq!(out, b"\xff\xfe[redacted]\x00\xc3");
}

#[test]
fn a_stream_passes_harmless_text_at_once() {
    let mut stream = redactor(&["secret-value"]).stream();
    assert_eq!(stream.push("Hello, world, "), "Hello, world, ");
    assert_eq!(stream.push("here is a "), "here is a ");
    assert_eq!(stream.push("sec"), "");
    assert_eq!(stream.held(), 3);
    assert_eq!(stream.push("ond "), "second ");
    assert_eq!(stream.push("secret-val"), "");
    assert_eq!(stream.push("ue!"), "[redacted]!");
    assert_eq!(stream.push("secret-va"), "");
    assert_eq!(stream.finish(), "[redacted]");
    assert_eq!(stream.report().count("known_value"), 2);
    assert_eq!(stream.push("again!"), "again!", "a finished stream begins anew");
    assert!(!format!("{stream:?}").contains("again"));
}

#[test]
fn what_a_stream_holds_is_bounded() {
    let redactor = redactor(&["abababab", "a-longer-secret-value"]);
    let key = format!("sk-{}", "aB3dE5gH7jK9".repeat(20_000));
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}",
        "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAaB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA\n".repeat(3_000)
    );
    for text in [
        "ab".repeat(100_000),
        key,
        pem,
        "a\n".repeat(50_000),
        format!("https://{}", "x".repeat(50_000)),
        "\r".repeat(9_000),
    ] {
        let mut stream = redactor.stream();
        let (mut out, mut most) = (String::new(), 0);
        for chunk in text.as_bytes().chunks(97) {
            out.push_str(&stream.push(std::str::from_utf8(chunk).unwrap()));
            most = most.max(stream.held());
        }
        out.push_str(&stream.finish());
        assert_eq!(out, redactor.redact_text(&text));
        assert!(most <= 40 * 1024, "{most} bytes of {} held for {:?}…", text.len(), &text[..20]);
    }
}

#[test]
fn redacted_text_stays_as_it_is() {
    let redactor = redactor(&["secret-value"]);
    let text = "secret-value https://u:hunter2@h Authorization: Bearer aB3dE5gH7jK9mN1pQ2rS4 secret-v";
    let once = redactor.redact_text(text).into_owned();
    assert!(matches!(redactor.redact_text(&once), Cow::Borrowed(_)), "{once}");
}

/// A header's value that begins as a known value does, after which the text may still go on with it.
#[test]
fn what_tells_a_secret_is_held_with_it() {
    let mut registry = SecretRegistry::new();
    registry.register(Secret::new("x", "🦀\to*uä~ß'\nXp)`G</l"));
    let redactor = registry.redactor();
    let text = "i,Authorization: F09FA680096F2A75C3A47EC39F270A587\n/_ and more";
    let whole = redactor.redact_text(text);
    assert_eq!(whole, format!("i,Authorization: {MARK}\n/_ and more"));
    for cut in 0..=text.len() {
        let mut stream = redactor.stream();
        let out = [stream.push(&text[..cut]), stream.push(&text[cut..]), stream.finish()].concat();
        assert_eq!(out, whole, "{cut}");
    }
}
