#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use proptest::prelude::*;

#[test]
fn parses_what_can_be_sent_to() {
    for (text, authority, port, shown) in [
        ("https://api.example.com/v1", "api.example.com", 443, "https://api.example.com/v1"),
        ("http://localhost:11434", "localhost:11434", 11434, "http://localhost:11434/"),
        ("HTTP://[::1]:80/x?y=1#frag", "[::1]:80", 80, "http://[::1]:80/x?y=1"),
        (" https://u:p%40ss@h.example/ ", "h.example", 443, "https://***@h.example/"),
        ("https://h/?key=abc&alt=sse", "h", 443, "https://h/?key=***&alt=sse"),
        ("https://h/?X-Amz-Signature=abc&api%5Fkey=d", "h", 443, "https://h/?X-Amz-Signature=***&api%5Fkey=***"),
    ] {
        let url = Url::parse(text).unwrap();
        assert_eq!((url.authority(), url.port()), (authority, port), "{text}");
        assert_eq!(url.to_string(), shown);
        assert_eq!(format!("{url:?}"), format!("\"{shown}\""));
    }
}

#[test]
fn refuses_with_a_masked_text() {
    for (text, reason) in [
        ("api.example.com/v1", "scheme"),
        ("ftp://u:hunter2@h/", "scheme"),
        ("https:///v1?key=hunter2", ""),
        ("https://u:hunter2@/", "authority"),
        ("https://h:99999/", "port"),
        ("https://h:/", "port"),
        ("https://u:hunter2@h:x/", ""),
        ("https://u:hunter2@ho st/", ""),
        ("https://u:hun?ter2@ho st/", ""),
        ("hunter2@host", "scheme"),
        ("localhost:11434", "scheme"),
    ] {
        let error = Url::parse(text).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        for part in ["hunter2", "hun", "ter2"] {
            assert!(!error.contains(part), "{error}");
        }
    }
}

#[test]
fn joins_below_the_base() {
    for (base, path, joined) in [
        ("https://h/v1", "chat/completions", "https://h/v1/chat/completions"),
        ("https://h/v1/", "/models", "https://h/v1/models"),
        ("https://h", "models", "https://h/models"),
        ("https://h/v1?api-version=7", "models?limit=2", "https://h/v1/models?api-version=7&limit=2"),
        ("https://u:p@h/v1", "//evil.example/x", "https://u:p@h/v1/evil.example/x"),
    ] {
        assert_eq!(Url::parse(base).unwrap().join(path).unwrap().expose(), joined);
    }
    assert!(Url::parse("https://h/").unwrap().join("a b").is_err());
}

#[test]
fn queries_are_encoded() {
    let url = Url::parse("https://h/x").unwrap().with_query("q", "a b&c=ü").unwrap().with_query("z", "").unwrap();
    assert_eq!(url.query(), Some("q=a%20b%26c%3D%C3%BC&z="));
}

#[test]
fn user_and_password_become_basic_authorization() {
    let url = Url::parse("https://user:p%40ss@h/").unwrap();
    let value = url.basic_authorization().unwrap();
    assert_eq!(value.to_str().unwrap(), "Basic dXNlcjpwQHNz");
    assert!(value.is_sensitive());
    assert_eq!(Url::parse("https://h/").unwrap().basic_authorization(), None);
}

proptest! {
    #[test]
    fn no_text_panics_and_no_password_shows(
        user in "[a-z]{1,4}", password in "Q[a-zA-Z0-9/?:@ %#]{0,12}Z", host in "[a-z.:\\[\\]0-9 ]{0,10}", rest in ".{0,10}",
    ) {
        let text = format!("https://{user}:{password}@{host}{}", rest.replace('@', ""));
        let shown = match Url::parse(&text) {
            // A `/`, `?` or `#` ends the authority: the "password" is then the host's, the path's or the query's.
            Ok(url) if !password.contains(['/', '?', '#']) => url.to_string(),
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        prop_assert!(!shown.contains(&password), "{shown}");
    }

    #[test]
    fn any_value_survives_as_a_query(value in ".{0,40}") {
        let url = Url::parse("https://h/").unwrap().with_query("v", &value).unwrap();
        let coded = url.query().unwrap().strip_prefix("v=").unwrap();
        prop_assert_eq!(percent_decoded(coded), value);
    }
}

#[test]
fn a_segment_is_one_segment_whatever_it_holds() {
    let base = Url::parse("http://h/base/").unwrap();
    let url = base.below(&["boards", "tenant/44 71é", "levels", "a?b#c"]).unwrap();
    assert_eq!(url.expose(), "http://h/base/boards/tenant%2F44%2071%C3%A9/levels/a%3Fb%23c");
}
