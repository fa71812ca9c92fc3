//! The door and the small endpoints.

use crate::support::{provider, serve};
use placet_core::record::Digest;

fn with_key() -> String {
    let hash = Digest::of(b"k-ann");
    provider(
        "http://127.0.0.1:9/v1",
        "\"openai_chat\"",
        &format!(
            "[keys.ann]\nsha256 = \"{hash}\"\nmodels = [\"house\"]\n[models.house]\ntarget = \"mine:real\"\n[models.other]\ntarget = \"mine:x\"\n"
        ),
    )
}

#[tokio::test]
async fn the_door_is_on_every_path_with_or_without_a_key() {
    for config in [String::new(), with_key()] {
        let served = serve(&config).await;
        for path in ["/healthz", "/metrics", "/v1/models", "/nothing"] {
            let evil = format!("GET {path} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
            assert_eq!(served.raw(evil.as_bytes()).await.status, 421, "{path}");
            assert_eq!(served.get(path, "origin: https://evil.example\r\n").await.status, 403, "{path}");
        }
        let post = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {}\r\ncontent-type: text/plain\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}",
            served.address
        );
        let answer = served.raw(post.as_bytes()).await;
        assert_eq!((answer.status, answer.json()["type"].as_str()), (415, Some("error")));
        let options = format!(
            "OPTIONS /v1/models HTTP/1.1\r\nhost: {}\r\norigin: http://{}\r\nconnection: close\r\n\r\n",
            served.address, served.address
        );
        let answer = served.raw(options.as_bytes()).await;
        assert_eq!(answer.status, 405);
        assert!(!answer.head.contains("access-control"));
    }
}

#[tokio::test]
async fn a_key_opens_what_it_may() {
    let served = serve(&with_key()).await;
    assert_eq!(served.get("/healthz", "").await.status, 200);
    assert_eq!(served.get("/v1/models", "").await.status, 401);
    assert_eq!(served.get("/v1/models", "x-api-key: wrong\r\n").await.status, 401);
    let answer = served.get("/v1/models", "authorization: Bearer k-ann\r\n").await;
    let ids: Vec<String> = answer.json()["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["house"]);
    assert_eq!(served.get("/v1/models/other", "authorization: Bearer k-ann\r\n").await.status, 404);
    let denied =
        served.post_with("/v1/chat/completions", "authorization: Bearer k-ann\r\n", r#"{"model":"other"}"#).await;
    let absent =
        served.post_with("/v1/chat/completions", "authorization: Bearer k-ann\r\n", r#"{"model":"nope"}"#).await;
    assert_eq!((denied.status, absent.status), (404, 404));
    assert_eq!(denied.text().replace("other", "nope"), absent.text(), "a refusal does not tell what there is");
}

#[tokio::test]
async fn lists_have_the_shape_of_who_asks() {
    let served = serve("[models.house]\ntarget = \"offline\"\n").await;
    let openai = served.get("/v1/models", "").await.json();
    assert_eq!((&openai["object"], &openai["data"][0]["object"]), (&"list".into(), &"model".into()));
    let anthropic = served.get("/v1/models?limit=1000", "anthropic-version: 2023-06-01\r\n").await.json();
    assert_eq!((&anthropic["data"][0]["type"], &anthropic["first_id"]), (&"model".into(), &"house".into()));
    for (path, headers) in [("/v1beta/models", ""), ("/v1/models", "x-goog-api-key: k\r\n")] {
        let gemini = served.get(path, headers).await.json();
        assert_eq!(gemini["models"][0]["name"], "models/house");
    }
    assert_eq!(served.get("/v1/models/house", "").await.json()["id"], "house");
}

#[tokio::test]
async fn health_readiness_and_metrics() {
    let served = serve("").await;
    assert_eq!(served.get("/healthz", "").await.text(), "ok\n");
    assert_eq!(served.get("/readyz", "").await.status, 200);
    let metrics = served.get("/metrics", "").await;
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    assert!(metrics.text().contains("placet_connections 1"), "{}", metrics.text());
    let answer = served.get("/v1/chat/completions", "").await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("post")));
}

#[tokio::test]
async fn who_opens_a_connection_and_asks_nothing_loses_it() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let served = crate::support::serve("[limits]\nclient_idle = \"50ms\"\n").await;
    for begins in [&b""[..], b"PRI * HTTP/2.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
        let mut silent = tokio::net::TcpStream::connect(served.address).await.unwrap();
        silent.write_all(begins).await.unwrap();
        // It ends, whatever it was told before.
        let mut told = Vec::new();
        let _ = silent.read_to_end(&mut told).await;
    }
}

#[tokio::test]
async fn nothing_below_geminis_version_is_told_in_geminis_words() {
    let served = serve("").await;
    for answer in [
        served.get("/v1beta/nothing", "").await,
        served.post("/v1beta/models/x:fly", "{}").await,
        served.get("/nothing", "x-goog-api-key: k\r\n").await,
    ] {
        assert_eq!(
            (answer.status, answer.json()["error"]["status"].as_str()),
            (404, Some("NOT_FOUND")),
            "{}",
            answer.text()
        );
        assert_eq!(answer.json()["error"]["code"], 404);
    }
    assert!(served.get("/nothing", "").await.json()["error"]["type"].is_string());
    // The word is one that goes with the code.
    let head = "GET /v1beta/models HTTP/1.1\r\nhost: evil.example.com\r\nconnection: close\r\n\r\n";
    let answer = served.raw(head.as_bytes()).await;
    assert_eq!((answer.status, answer.json()["error"]["status"].as_str()), (421, Some("INVALID_ARGUMENT")));
}
