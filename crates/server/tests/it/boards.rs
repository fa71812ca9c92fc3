//! Boards beside the models: behind the same door, under the same keys.

use crate::support::{Served, serve};
use placet_core::record::Digest;

const SPEC: &str =
    r#"{"regions":[{"name":"notes","kind":"level"},{"name":"goal","kind":"premise"}],"premises":{"goal":1}}"#;

fn request(served: &Served, method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
        served.address,
        body.len()
    );
    head.into_bytes()
}

#[tokio::test]
async fn the_door_is_before_the_boards_and_speaks_their_words() {
    let served = serve("[limits]\nbody = \"1KB\"\n[boards]\n").await;
    let json = "content-type: application/json\r\n";
    let send =
        async |method, path, headers, body: &str| served.raw(&request(&served, method, path, headers, body)).await;
    assert_eq!(send("PUT", "/v1/boards/b", json, SPEC).await.status, 201);
    let write = r#"{"writer":"ann","content":{"n":1e400}}"#;
    let written = send("POST", "/v1/boards/b/levels/notes", json, write).await;
    assert_eq!((written.status, &*written.body), (201, &br#"{"sequence":2,"version":null,"repeated":false}"#[..]));
    let page = served.get("/v1/boards/b/levels/notes", "").await;
    assert!(String::from_utf8_lossy(&page.body).contains(r#""content":{"n":1e400}"#), "the text is kept");

    let host = "GET /v1/boards/b/regions HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    let long = format!(r#"{{"writer":"ann","content":"{}"}}"#, "x".repeat(2000));
    for (status, error, answer) in [
        (421, "wrong_host", served.raw(host.as_bytes()).await),
        (403, "forbidden", served.get("/v1/boards/b/regions", "origin: https://evil.example\r\n").await),
        (415, "bad_body", send("POST", "/v1/boards/b/levels/notes", "content-type: text/plain\r\n", write).await),
        (413, "too_large", send("POST", "/v1/boards/b/levels/notes", json, &long).await),
        (405, "wrong_method", send("OPTIONS", "/v1/boards/b/levels/notes", "", "").await),
        (405, "wrong_method", send("DELETE", "/v1/boards/b/levels/notes", "", "").await),
        (404, "no_such_route", served.get("/v1/boards/b/levels/notes/", "").await),
        (404, "unknown_board", served.get("/v1/boards/c/regions", "").await),
    ] {
        assert_eq!((answer.status, answer.json()["error"].as_str()), (status, Some(error)), "{answer:?}");
        assert!(status != 405 || answer.head.contains("\r\nallow: get, post\r\n"), "{answer:?}");
    }
    let head = send("HEAD", "/v1/boards/b/levels/notes", "", "").await;
    assert_eq!((head.status, head.body.len()), (405, 0));
    // A base URL elsewhere is not that of the boards.
    assert_eq!(served.get("/boards/b/regions", "").await.json()["error"]["code"], "not_found");
}

#[tokio::test]
async fn a_key_may_do_on_boards_what_its_entry_says() {
    let key = |name: &str, rest: &str| format!("[keys.{name}]\nsha256 = \"{}\"\n{rest}", Digest::of(name.as_bytes()));
    let config = [
        "[boards]\n".to_owned(),
        key("models-only", ""),
        key("ann", "[keys.ann.boards]\nnames = [\"team/*\"]\nagents = [\"ann\"]\nregions = [\"notes\"]\n"),
        key("chief", "[keys.chief.boards]\nmanages = true\n"),
    ];
    let served = serve(&config.concat()).await;
    let as_key = async |key: &str, method: &str, path: &str, body: &str| {
        let headers = format!("content-type: application/json\r\nauthorization: Bearer {key}\r\n");
        served.raw(&request(&served, method, path, &headers, body)).await.status
    };
    assert_eq!(served.get("/v1/boards", "").await.json()["error"], "unauthorised");
    assert_eq!(as_key("models-only", "GET", "/v1/boards", "").await, 403);
    assert_eq!(as_key("ann", "PUT", "/v1/boards/team%2F1", SPEC).await, 403);
    assert_eq!(as_key("chief", "PUT", "/v1/boards/team%2F1", SPEC).await, 201);
    assert_eq!(as_key("chief", "PUT", "/v1/boards/other", SPEC).await, 201);
    let write = |writer: &str| format!(r#"{{"writer":"{writer}","content":1}}"#);
    assert_eq!(as_key("ann", "POST", "/v1/boards/team%2F1/levels/notes", &write("ann")).await, 201);
    assert_eq!(as_key("ann", "POST", "/v1/boards/team%2F1/levels/notes", &write("bob")).await, 403);
    assert_eq!(as_key("ann", "POST", "/v1/boards/other/levels/notes", &write("ann")).await, 403);
    assert_eq!(as_key("ann", "GET", "/v1/boards/other/regions", "").await, 403);
    assert_eq!(as_key("ann", "GET", "/v1/boards/team%2F1/changes", "").await, 200);
    let set = r#"{"writer":"ann","value":2,"expected_version":1}"#;
    assert_eq!(as_key("ann", "PUT", "/v1/boards/team%2F1/premises/goal", set).await, 403);
    let listed = served.get("/v1/boards", "authorization: Bearer ann\r\n").await.json();
    assert_eq!(listed["boards"].as_array().unwrap().len(), 1, "{listed}");
}

#[tokio::test]
async fn a_tail_ends_when_the_gateway_is_asked_to_stop() {
    let served = serve("[boards]\n").await;
    let json = "content-type: application/json\r\n";
    assert_eq!(served.raw(&request(&served, "PUT", "/v1/boards/b", json, SPEC)).await.status, 201);
    let (tail, _) = tokio::join!(served.get("/v1/boards/b/tail", ""), async {
        // The tail has begun once the board was asked for, which comes to the store in turn.
        while served.get("/v1/boards/b/outcome?wait_s=0.2", "").await.status != 200 {}
        served.stop();
    });
    assert!(tail.status == 0 || (tail.is_whole && String::from_utf8_lossy(&tail.body).contains("\"region\":\"goal\"")));
}
