#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
//! Keys are put together here, so that no file of the project holds anything that looks like one.

use super::table::Shape;
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// `length` characters that look random.
fn body(length: usize) -> String {
    const LETTERS: &[u8] = b"aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAbCcDfFhG";
    (0..length).map(|i| char::from(LETTERS[(i * 7 + i / 11) % LETTERS.len()])).collect()
}

fn capitals(length: usize) -> String {
    body(length * 2).chars().filter(|c| !c.is_ascii_lowercase()).take(length).collect()
}

fn found(text: &str) -> Vec<(&'static str, &str)> {
    let mut spans = Vec::new();
    scan(text.as_bytes(), 0, true, &mut spans);
    spans.sort_by_key(|span| (span.start, usize::MAX - span.end, span.rank));
    spans.dedup_by_key(|span| (span.start, span.end));
    spans.into_iter().map(|span| (span.kind, &text[span.start..span.end])).collect()
}

#[track_caller]
fn assert_found(text: &str, kind: &str, secret: &str) {
    assert_eq!(found(text), [(kind, secret)], "in {text:?}");
}

#[track_caller]
fn assert_nothing(text: &str) {
    assert_eq!(found(text), [], "in {text:?}");
}

#[test]
fn every_row_finds_a_key_of_its_form() {
    for shape in SHAPES {
        let Some(least) = shape.least_body() else { continue };
        let tail = if least == 16 { capitals(least) } else { body(least) };
        let key = format!("{}{tail}", shape.needle);
        let finds = found(&key);
        assert!(finds.iter().any(|(_, secret)| *secret == key), "{}: {finds:?} in {key}", shape.needle);
        for (before, after) in [
            ("", ""),
            ("key: ", "\n"),
            ("\"", "\""),
            ("KEY=", "&x"),
            (r"line\n", r"\nline"),
            ("%3D", "%26"),
            (r"\u0022", r"\u0022"),
            ("\x1b[1;31m", "\x1b[0m"),
            ("\x1b[K", "\x1b[m"),
            ("\u{2192}", "\u{20ac}"),
            ("(", ")."),
        ] {
            let text = format!("{before}{key}{after}");
            assert!(found(&text).iter().any(|(_, secret)| *secret == key), "{text:?}: {:?}", found(&text));
        }
        let inside = format!("word{key}");
        assert!(!found(&inside).iter().any(|(_, secret)| *secret == key), "within a word: {inside}");
        // `sk-proj-` with too little behind it may still be enough for `sk-`.
        let more_general = |other: &Shape| other.needle != shape.needle && shape.needle.starts_with(other.needle);
        if !SHAPES.iter().any(more_general) {
            let short = format!("{}{}", shape.needle, &tail[..least - 1]);
            assert!(!found(&short).iter().any(|(kind, _)| *kind == shape.kind), "too short: {short}");
            let repeated = format!("{}{}", shape.needle, "x".repeat(least));
            assert!(!found(&repeated).iter().any(|(kind, _)| *kind == shape.kind), "a placeholder: {repeated}");
        }
    }
}

#[test]
fn the_first_row_names_the_kind() {
    for (prefix, kind) in
        [("sk-ant-api03-", "anthropic_key"), ("sk-or-v1-", "openrouter_key"), ("sk-proj-", "openai_key")]
    {
        let key = format!("{prefix}{}", body(60));
        assert_found(&format!("x {key} y"), kind, &key);
    }
}

#[test]
fn a_full_stop_ends_the_sentence_not_the_token() {
    let key = format!("glpat-{}", body(24));
    assert_found(&format!("Use {key}."), "gitlab_token", &key);
    let routable = format!("glpat-{}.01.{}", body(30), body(7));
    assert_found(&routable, "gitlab_token", &routable);
}

#[test]
fn words_that_begin_like_keys_stay() {
    for text in [
        "sk-folding-cube-with-a-very-long-class-name",
        "a task-management-system-for-everyone-and-all",
        "fw_version_of_the_device_firmware_loader",
        "hf_hub_download_with_progress_and_resume",
        "npm_config_registry_and_other_settings",
        "AKIAIOSFODNN7EXAMPLE",
        "ASIAPACIFICREGIONS",
        "eyJ is how a token begins",
        "sk-...",
        "sk-your-key-here",
        "ciorfrazzanoplentyofothercharacters",
        "Bearer of bad news",
        "bearer authentication-is-required-here",
        "The bearer token scheme",
        "Authorization: required for everyone",
        "authorization: Basic authentication",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "api_key: str = Field(default=None)",
        "api_key = os.environ.get_the_api_key_variable",
        "api_key=YOUR_API_KEY_GOES_HERE_PLEASE",
        "client_secret: the secret of the client",
        "https://example.com/a@b:c",
        "http://localhost:8080/x?y=a@b",
        "ssh://git@github.com:22/x",
        "git+https://someone@example.com/x",
        "postgres://user:${PASSWORD}@host",
        "postgres://user:$DB_PASSWORD@host",
        "postgres://user:<password>@host",
        "postgres://user:password@host",
        "postgres://user:{password}@host",
        "postgres://user:%s@host",
        "postgres://user:*****@host",
        "postgres://user:[redacted]@host",
        "postgres://user:@host",
        "://a:b@c",
        "-----BEGIN PRIVATE KEY-----",
        "if text.startswith('-----BEGIN RSA PRIVATE KEY-----'): return True  # and more words follow here",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCARygAwIBAgIUabcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789\n-----END CERTIFICATE-----",
    ] {
        assert_nothing(text);
    }
}

#[test]
fn json_web_tokens() {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let (head, claims, signature) =
        (part(r#"{"alg":"HS256","typ":"JWT"}"#), part(r#"{"sub":"1234567890","name":"Ada"}"#), body(43));
    let token = format!("{head}.{claims}.{signature}");
    assert_found(&format!("token={token}; path=/"), "jwt", &token);
    assert_found(&format!("It is {token}."), "jwt", &token);
    let unsigned = format!("{head}.{claims}");
    assert_found(&unsigned, "jwt", &unsigned);
    let encrypted = format!("{}..{}.{}.{}", part(r#"{"alg":"dir","enc":"A128GCM"}"#), body(16), body(40), body(22));
    assert_found(&encrypted, "jwt", &encrypted);
    assert_nothing(&format!("{head} is a header"));
    assert_nothing(&format!("{head}.json.gz"));
}

#[test]
fn private_keys() {
    let line = body(64);
    let footer = "-----END RSA PRIVATE KEY-----";
    let pem = format!("-----BEGIN RSA PRIVATE KEY-----\n{line}\n{line}\n{}\n{footer}", body(20));
    assert_found(&format!("before\n{pem}\nafter"), "private_key", &pem);
    for changed in [
        pem.replace('\n', "\\n"),
        pem.replace('\n', "\\\\n"),
        pem.replace('\n', "\r\n"),
        pem.replace('\n', " "),
        pem.replace('\n', ""),
        pem.replace('\n', "\n    "),
        pem.replace('\n', "\n> "),
        pem.replace('\n', "\",\n\""),
        pem.replace("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF\n\n"),
        pem.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK").replace("-----END", "=aB3d\n-----END"),
        pem.replace("RSA ", "OPENSSH "),
        pem.replace("RSA ", ""),
        pem.replace(&format!("{line}\n{line}\n"), ""),
    ] {
        assert_found(&format!("x {changed} y"), "private_key", &changed);
    }
    let numbered: String = pem.lines().enumerate().map(|(i, line)| format!("{:>6}\u{2192}{line}\n", i + 1)).collect();
    let finds = found(&numbered);
    assert_eq!(finds.len(), 1, "{finds:?}");
    assert!(finds[0].1.contains(&line) && finds[0].1.ends_with(footer), "{finds:?}");

    // Cut anywhere after its first line it is still a key, and what follows another text's words is left.
    for cut in 31 + 1 + 64..pem.len() {
        let finds = found(&pem[..cut]);
        assert_eq!(finds.len(), 1, "cut at {cut}");
        assert_eq!(finds[0].0, "private_key");
        assert!(
            pem[..cut].ends_with(finds[0].1) || pem[..cut].trim_end().ends_with(finds[0].1),
            "cut at {cut}: {finds:?}"
        );
    }
    let followed = format!("-----BEGIN PRIVATE KEY-----\n{line}\n{line}\n\nand then (some words follow)");
    let finds = found(&followed);
    assert!(finds[0].1.contains(&line) && !finds[0].1.contains("then"), "{finds:?}");
}

#[test]
fn passwords_in_addresses() {
    for (text, secret) in [
        ("postgres://ada:hunter2@db:5432/app", "hunter2"),
        ("x=redis://:s3cret!@cache/0", "s3cret!"),
        ("https://ada:p@ss:word@host/path", "p@ss:word"),
        ("(amqp://u:pä%20s,w;d@h)", "pä%20s,w;d"),
        ("postgres://postgres:postgres@localhost", "postgres"),
        ("mongodb+srv://u:pw1@h1,h2/x", "pw1"),
    ] {
        assert_found(text, "url_password", secret);
    }
    let user = body(32);
    assert_found(&format!("https://{user}@o1.ingest.sentry.io/2"), "url_password", &user);
}

#[test]
fn authorization_headers() {
    let token = body(30);
    let pair = STANDARD.encode("ada:lovelace");
    for (text, secret) in [
        (format!("Authorization: Bearer {token}"), &token),
        (format!("authorization: bearer {token}\r\n"), &token),
        (format!(r#"{{"Authorization": "Bearer {token}"}}"#), &token),
        (format!(r#"{{\"authorization\":\"Bearer {token}\"}}"#), &token),
        (format!("curl -H 'Authorization: token {token}'"), &token),
        (format!("-H \"Authorization: {token}\""), &token),
        (format!("Authorization: Basic {pair}"), &pair),
        (format!("Bearer  {token}"), &token),
        (format!("BEARER {token}."), &token),
    ] {
        assert_found(&text, "authorization", secret);
    }
}

#[test]
fn named_values() {
    let value = body(32);
    for text in [
        format!("x-api-key: {value}"),
        format!("API_KEY={value}"),
        format!(r#""apiKey": "{value}","#),
        format!(r#"{{\"client_secret\": \"{value}\"}}"#),
        format!("https://host/x?api_key={value}&y=1"),
        format!("access_token => '{value}'"),
        format!("X-Goog-Api-Key: {value}"),
    ] {
        assert_found(&text, "named_value", &value);
    }
    let uuid = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
    assert_found(&format!("client_secret: {uuid}"), "named_value", uuid);
    let aws = format!("{}/{}+{}", body(12), body(13), body(13));
    for name in ["aws_secret_access_key = ", "AWS_SECRET_ACCESS_KEY=", r#""SecretAccessKey": ""#] {
        assert_found(&format!("{name}{aws}"), "aws_secret", &aws);
    }
    assert_eq!(named_value("X-Api-Key", &value), Some("named_value"));
    assert_eq!(named_value("secretAccessKey", &aws), Some("aws_secret"));
    assert_eq!(named_value("api_key", "not a key"), None);
    assert_eq!(named_value("key", &value), None);
}

#[test]
fn a_run_of_beginnings_is_read_once() {
    let text = "sk-".repeat(1000);
    let mut runs = Runs::default();
    for at in (0..text.len()).step_by(3) {
        assert_eq!(runs.end(text.as_bytes(), table::Class::Url, at), text.len());
    }
    assert_eq!(runs.read, text.len());
    let words = "ghp_ ".repeat(1000);
    for at in (0..words.len()).step_by(5) {
        assert_eq!(runs.end(words.as_bytes(), table::Class::Alnum, at), at + 3);
    }
}

#[test]
fn search_without_the_automaton_begins_at_the_same_places() {
    let text = "SK-x sk-ant-1 https://a EYJ AuthOrization ghp_";
    let hits: Vec<(usize, &str)> = (0..text.len())
        .flat_map(|at| {
            SHAPES.iter().filter(move |shape| shape.begins(&text.as_bytes()[at..])).map(move |s| (at, s.needle))
        })
        .collect();
    let mut automatic: Vec<(usize, &str)> = BEGINNINGS
        .as_ref()
        .unwrap()
        .find_overlapping_iter(text)
        .map(|hit| (hit.start(), SHAPES[hit.pattern().as_usize()].needle))
        .collect();
    automatic.sort_by_key(|(at, needle)| (*at, SHAPES.iter().position(|shape| shape.needle == *needle)));
    assert_eq!(hits, automatic);
}

#[test]
fn no_beginning_stands_twice() {
    let mut needles: Vec<String> = SHAPES.iter().map(|shape| shape.needle.to_ascii_lowercase()).collect();
    needles.sort_unstable();
    let all = needles.len();
    needles.dedup();
    assert_eq!(needles.len(), all);
}
