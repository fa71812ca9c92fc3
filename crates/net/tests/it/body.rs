use crate::support::{CHUNKED, Server, get, never, plain};
use placet_net::{Body, NetError, Response};

/// The answer to one request that a server writes as it stands, closing the connection behind it.
async fn answered(wire: &str) -> Response {
    let server = Server::start().await;
    let client = plain();
    let (response, ()) = tokio::join!(client.send(get(server.url("/")), never()), async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.send(wire).await;
    });
    response.unwrap()
}

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello world";

fn hello_in_chunks() -> String {
    format!("{CHUNKED}5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
}

#[tokio::test]
async fn a_limit_is_kept_whether_the_length_is_declared_or_not() {
    for (wire, declared) in [(HELLO.to_owned(), Some(11)), (hello_in_chunks(), None)] {
        assert_eq!(answered(&wire).await.bytes(11).await.unwrap(), "hello world");
        for limit in [0, 3, 5, 10] {
            let error = answered(&wire).await.bytes(limit).await.unwrap_err();
            let NetError::BodyTooLarge { limit: named, declared: length } = &error else { panic!("{error:?}") };
            assert_eq!((*named, *length), (limit, declared));
        }
    }
    let error = answered(HELLO).await.bytes(10).await.unwrap_err();
    assert_eq!(error.to_string(), "the body is longer than the limit of 10 bytes (it has 11)");
}

#[tokio::test]
async fn an_excerpt_says_what_it_cut() {
    let excerpt = answered(HELLO).await.excerpt(5).await;
    let cut = excerpt.cut.clone().unwrap();
    assert_eq!((excerpt.text().as_str(), cut.kept, cut.total), ("hello", 5, 11));
    assert_eq!(excerpt.to_string(), "hello … (cut: 5 of at least 11 bytes)");
    let excerpt = answered(&hello_in_chunks()).await.excerpt(7).await;
    assert_eq!((excerpt.text().as_str(), excerpt.cut.unwrap().total), ("hello w", 11));
    let excerpt = answered(HELLO).await.excerpt(11).await;
    assert_eq!((excerpt.text().as_str(), excerpt.cut, excerpt.broken.is_none()), ("hello world", None, true));
}

#[tokio::test]
async fn a_look_ahead_takes_nothing_away() {
    for limit in [0, 3, 5, 11, 100] {
        for wire in [HELLO.to_owned(), hello_in_chunks()] {
            let mut response = answered(&wire).await;
            let seen = response.body.peek(limit).await;
            assert_eq!(seen.text(), "hello world"[..limit.min(11)]);
            assert_eq!(response.text(11).await.unwrap(), "hello world", "{limit}");
        }
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_says_how_much_had_come() {
    for wire in [
        "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello".to_owned(),
        format!("{CHUNKED}5\r\nhello\r\n"),
        format!("{CHUNKED}5\r\nhello\r\n9\r\n wo"),
    ] {
        let mut body = answered(&wire).await.body;
        let mut text = Vec::new();
        let error = loop {
            match body.chunk().await {
                Some(Ok(bytes)) => text.extend_from_slice(&bytes),
                Some(Err(error)) => break error,
                None => panic!("it ended as if it were whole: {wire}"),
            }
        };
        let NetError::Interrupted { received, .. } = error else { panic!("{error:?}") };
        assert!(received >= 5 && text.starts_with(b"hello"));
        assert_eq!(usize::try_from(received).unwrap(), text.len());
        assert!(body.chunk().await.is_none());

        let mut response = answered(&wire).await;
        let seen = response.body.peek(100).await;
        assert!(seen.broken.is_some() && seen.text().starts_with("hello"), "{seen}");
        assert_eq!(response.body.chunk().await.unwrap().unwrap(), "hello");
        assert!(matches!(response.text(100).await, Err(NetError::Interrupted { .. })));
    }
}

#[tokio::test]
async fn text_that_is_none_is_told() {
    let wire = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nab\u{e4}";
    assert_eq!(answered(wire).await.text(10).await.unwrap(), "ab\u{e4}");
    let body = Body::ready(&b"ab\xe4c"[..]);
    assert_eq!(body.declared(), Some(4));
    let mut response = answered(wire).await;
    response.body = body;
    assert!(matches!(response.text(10).await, Err(NetError::NotText { at: 2 })));
}

#[tokio::test]
async fn a_shown_response_hides_its_cookies() {
    let response = answered("HTTP/1.1 200 OK\r\nset-cookie: s=hunter2\r\ncontent-length: 0\r\n\r\n").await;
    let shown = format!("{response:?}");
    assert!(shown.contains("set-cookie") && !shown.contains("hunter2"), "{shown}");
    assert_eq!(response.into_http().headers()["set-cookie"], "s=hunter2");
}
