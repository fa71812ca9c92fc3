use crate::support::{CHUNKED, Names, Server, client, get, never, plain, whole_text};
use placet_core::Secret;
use placet_net::{ClientOptions, NetError, Request, Url};
use std::error::Error;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_request_arrives_as_it_was_made() {
    let server = Server::start().await;
    let url = server.url("/v1/chat?stream=true").with_query("q", "a b").unwrap();
    let request =
        Request::post_json(url, r#"{"model":"x"}"#).credential("x-api-key", &Secret::new("K", "sk-1")).unwrap();
    let client = plain();
    let (response, seen) = tokio::join!(client.send(request, never()), async {
        let mut peer = server.accept().await;
        let seen = peer.request().await;
        peer.answer("404 Not Found", "x-request-id: r-1\r\n", "nothing here").await;
        seen
    });
    assert_eq!(seen.line(), "POST /v1/chat?stream=true&q=a%20b HTTP/1.1");
    assert_eq!(seen.header("x-api-key"), Some("sk-1"));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("host"), Some(format!("127.0.0.1:{}", server.port()).as_str()));
    assert!(seen.header("user-agent").unwrap().starts_with("placet/"));
    assert_eq!(seen.header("proxy-authorization"), None);
    assert_eq!(seen.body, br#"{"model":"x"}"#);
    let response = response.unwrap();
    assert_eq!(response.status, 404);
    assert_eq!(response.header("x-request-id"), Some("r-1"));
    assert_eq!(response.text(100).await.unwrap(), "nothing here");
}

#[tokio::test]
async fn user_and_password_of_the_url_are_sent_as_basic_authorization() {
    let server = Server::start().await;
    let url = Url::parse(&format!("http://u:p@127.0.0.1:{}/", server.port())).unwrap();
    let client = plain();
    let (response, seen) = tokio::join!(client.send(get(url), never()), async {
        let mut peer = server.accept().await;
        let seen = peer.request().await;
        peer.answer("200 OK", "", "").await;
        seen
    });
    response.unwrap();
    assert_eq!(seen.header("authorization"), Some("Basic dTpw"));
    assert_eq!(seen.line(), "GET / HTTP/1.1");
}

#[tokio::test]
async fn a_stream_survives_writes_cut_anywhere() {
    let server = Server::start().await;
    let wire = format!("{CHUNKED}5\r\nhello\r\n4;x=y\r\n wö\r\n4\r\nrld\n\r\n0\r\n\r\n");
    let client = plain();
    // Every way to cut the wire in two, over one kept connection.
    let bytes = wire.as_bytes();
    let serve = async {
        let mut peer = server.accept().await;
        for cut in 1..bytes.len() {
            peer.request().await;
            peer.send(&bytes[..cut]).await;
            tokio::task::yield_now().await;
            peer.send(&bytes[cut..]).await;
        }
        assert!(!server.is_visited().await, "the connection was not reused");
    };
    let ask = async {
        for _ in 1..bytes.len() {
            let response = client.send(get(server.url("/")), never()).await.unwrap();
            assert_eq!(response.text(1000).await.unwrap(), "hello wörld\n");
        }
    };
    tokio::join!(serve, ask);
}

#[tokio::test]
async fn pieces_are_handed_on_as_they_arrive() {
    let server = Server::start().await;
    let client = plain();
    let mut peer = None;
    let (response, ()) = tokio::join!(client.send(get(server.url("/")), never()), async {
        let mut accepted = server.accept().await;
        accepted.request().await;
        accepted.send(CHUNKED).await;
        peer = Some(accepted);
    });
    let (mut body, mut peer) = (response.unwrap().body, peer.unwrap());
    // The server writes the next piece only after the last one was read: nothing may be held back.
    for piece in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
        peer.send(format!("{:x}\r\n{piece}\r\n", piece.len())).await;
        assert_eq!(body.chunk().await.unwrap().unwrap(), piece);
    }
    peer.send("0\r\n\r\n").await;
    assert!(body.chunk().await.is_none());
    assert!(body.chunk().await.is_none());
}

#[tokio::test]
async fn redirects_are_answers() {
    let server = Server::start().await;
    let client = plain();
    let (response, ()) = tokio::join!(client.send(get(server.url("/")), never()), async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.answer("302 Found", "location: http://169.254.169.254/\r\n", "").await;
    });
    assert_eq!(response.unwrap().status, 302);
}

#[tokio::test]
async fn cancelling_closes_the_connection_before_the_answer() {
    let server = Server::start().await;
    let (client, cancel) = (plain(), CancellationToken::new());
    let (response, ()) = tokio::join!(client.send(get(server.url("/")), &cancel), async {
        let mut peer = server.accept().await;
        peer.request().await;
        cancel.cancel();
        peer.closed().await;
    });
    assert!(matches!(response, Err(NetError::Cancelled)));
    assert!(matches!(client.send(get(server.url("/")), &cancel).await, Err(NetError::Cancelled)));
    assert!(!server.is_visited().await);
}

#[tokio::test]
async fn cancelling_closes_the_connection_within_the_body() {
    let server = Server::start().await;
    let (client, cancel) = (plain(), CancellationToken::new());
    let ask = async {
        let mut body = client.send(get(server.url("/")), &cancel).await.unwrap().body;
        assert_eq!(body.chunk().await.unwrap().unwrap(), "hello");
        {
            let mut next = std::pin::pin!(body.chunk());
            assert!(futures_util::poll!(&mut next).is_pending());
            cancel.cancel();
            assert!(matches!(next.await, Some(Err(NetError::Cancelled))));
        }
        assert!(body.chunk().await.is_none());
    };
    tokio::join!(ask, async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.send(format!("{CHUNKED}5\r\nhello\r\n")).await;
        peer.closed().await;
    });
}

#[tokio::test]
async fn dropping_the_response_closes_the_connection() {
    let server = Server::start().await;
    let client = plain();
    let ask = async {
        let mut response = client.send(get(server.url("/")), never()).await.unwrap();
        assert_eq!(response.body.chunk().await.unwrap().unwrap(), "hello");
    };
    tokio::join!(ask, async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.send(format!("{CHUNKED}5\r\nhello\r\n")).await;
        peer.closed().await;
    });
}

#[tokio::test]
async fn a_refused_connection_says_where() {
    let server = Server::start().await;
    let url = server.url("/secret-path?key=hunter2");
    let port = server.port();
    drop(server);
    let error = plain().send(get(url), never()).await.unwrap_err();
    assert!(
        matches!(&error, NetError::Connect { authority, .. } if *authority == format!("127.0.0.1:{port}")),
        "{error:?}"
    );
    assert!(error.is_retryable());
    let text = whole_text(&error);
    assert!(text.contains("refused") && !text.contains("hunter2") && !text.contains("secret-path"), "{text}");
}

#[tokio::test]
async fn an_unknown_name_is_a_dns_error() {
    let client = client(ClientOptions::new().resolver(Names::local(&[])));
    let url = Url::parse("http://nowhere.test:1/").unwrap();
    let error = client.send(get(url), never()).await.unwrap_err();
    assert!(matches!(&error, NetError::Dns { host, .. } if host == "nowhere.test"), "{error:?}");
    assert_eq!(error.source().unwrap().to_string(), "no such name");
}

#[tokio::test]
async fn the_systems_resolver_knows_this_machine() {
    let server = Server::start().await;
    let url = Url::parse(&format!("http://localhost:{}/", server.port())).unwrap();
    let client = plain();
    let (response, ()) = tokio::join!(client.send(get(url), never()), async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.answer("204 No Content", "", "").await;
    });
    assert_eq!(response.unwrap().status, 204);
}

#[tokio::test]
async fn what_is_not_http_is_a_protocol_error() {
    let server = Server::start().await;
    let client = plain();
    let (response, ()) = tokio::join!(client.send(get(server.url("/")), never()), async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.send("SSH-2.0-OpenSSH_9.2\r\n\r\n").await;
    });
    let error = response.unwrap_err();
    assert!(matches!(error, NetError::Protocol { .. }), "{error:?}");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_may_be_tried_again() {
    let server = Server::start().await;
    let client = plain();
    let (response, ()) = tokio::join!(client.send(get(server.url("/")), never()), async {
        server.accept().await.request().await;
    });
    let error = response.unwrap_err();
    assert!(matches!(error, NetError::Interrupted { received: 0, .. }), "{error:?}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_malformed_body_is_a_protocol_error() {
    let server = Server::start().await;
    let client = plain();
    let (response, ()) = tokio::join!(client.send(get(server.url("/")), never()), async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.send(format!("{CHUNKED}3\r\nhello\r\n")).await;
    });
    assert!(matches!(response.unwrap().bytes(100).await, Err(NetError::Protocol { .. })));
}
