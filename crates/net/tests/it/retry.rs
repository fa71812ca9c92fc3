use crate::support::{Server, get, on_manual_clock, plain};
use placet_net::{ClientOptions, NetError, RetryPolicy, TimeoutKind, Timeouts};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn at_once() -> RetryPolicy {
    RetryPolicy { base: Duration::ZERO, ..RetryPolicy::default() }
}

#[tokio::test]
async fn it_asks_again_until_it_is_answered() {
    let server = Server::start().await;
    let client = plain();
    let mut reports = Vec::new();
    let (policy, cancel) = (at_once(), CancellationToken::new());
    let ask = client.send_retrying(get(server.url("/")), &policy, &cancel, |attempt| reports.push(attempt.clone()));
    let (response, ()) = tokio::join!(ask, async {
        let mut peer = server.accept().await;
        peer.request().await;
        // The connection breaks, then an overloaded server, then the answer.
        drop(peer);
        let mut peer = server.accept().await;
        peer.request().await;
        peer.answer("529 Overloaded", "retry-after-ms: 0\r\n", "busy").await;
        peer.request().await;
        peer.answer("200 OK", "", "fine").await;
    });
    assert_eq!(response.unwrap().text(10).await.unwrap(), "fine");
    assert_eq!(reports.len(), 2);
    assert!(reports[0].cause.contains("broke") && reports[1].cause.contains("529"), "{reports:?}");
    assert_eq!(reports[1].next, Ok(Duration::ZERO));
}

#[tokio::test]
async fn the_last_answer_is_handed_on_with_its_body() {
    let server = Server::start().await;
    let client = plain();
    let (policy, cancel) = (at_once(), CancellationToken::new());
    let ask = client.send_retrying(get(server.url("/")), &policy, &cancel, |_| {});
    let (response, ()) = tokio::join!(ask, async {
        let mut peer = server.accept().await;
        for _ in 0..3 {
            peer.request().await;
            peer.answer("503 Service Unavailable", "", "down").await;
        }
    });
    let response = response.unwrap();
    assert_eq!(response.status, 503);
    assert_eq!(response.text(10).await.unwrap(), "down");
    assert!(!server.is_visited().await);
}

#[tokio::test]
async fn what_does_not_pass_is_asked_once() {
    let server = Server::start().await;
    let client = plain();
    let body = r#"{"error":{"code":"insufficient_quota"}}"#;
    let (policy, cancel) = (at_once(), CancellationToken::new());
    let mut reports = 0;
    let ask = client.send_retrying(get(server.url("/")), &policy, &cancel, |_| reports += 1);
    let (response, ()) = tokio::join!(ask, async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.answer("429 Too Many Requests", "retry-after: 0\r\n", body).await;
    });
    assert_eq!(response.unwrap().text(100).await.unwrap(), body);
    assert_eq!(reports, 0);
}

#[tokio::test]
async fn a_wait_longer_than_the_patience_is_left_to_the_caller() {
    let server = Server::start().await;
    let client = plain();
    let (policy, cancel) = (at_once(), CancellationToken::new());
    let mut reports = Vec::new();
    let ask = client.send_retrying(get(server.url("/")), &policy, &cancel, |attempt| reports.push(attempt.next));
    let (response, ()) = tokio::join!(ask, async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.answer("429 Too Many Requests", "retry-after: 3600\r\n", "later").await;
    });
    let response = response.unwrap();
    assert_eq!((response.status.as_u16(), response.header("retry-after")), (429, Some("3600")));
    assert!(reports.len() == 1 && reports[0].is_err(), "{reports:?}");
}

#[tokio::test]
async fn cancelling_ends_it_between_attempts() {
    let server = Server::start().await;
    let client = plain();
    let (policy, cancel) = (RetryPolicy::default(), CancellationToken::new());
    let ask = client.send_retrying(get(server.url("/")), &policy, &cancel, |_| cancel.cancel());
    let (response, ()) = tokio::join!(ask, async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.answer("503 Service Unavailable", "retry-after: 9\r\n", "down").await;
    });
    assert!(matches!(response, Err(NetError::Cancelled)));
}

#[tokio::test]
async fn the_whole_timeout_covers_all_attempts() {
    let server = Server::start().await;
    let (client, clock) = on_manual_clock(ClientOptions::new());
    let (policy, cancel) = (at_once(), CancellationToken::new());
    let request = get(server.url("/")).timeouts(Timeouts::default().within(Duration::from_secs(5)));
    let ask = client.send_retrying(request, &policy, &cancel, |_| clock.advance(Duration::from_secs(3)));
    let (response, ()) = tokio::join!(ask, async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.answer("503 Service Unavailable", "", "").await;
        peer.request().await;
        clock.advance(Duration::from_secs(2));
        peer.closed().await;
    });
    let error = response.unwrap_err();
    let NetError::Timeout { which, after, .. } = error else { panic!("{error:?}") };
    assert_eq!((which, after), (TimeoutKind::Whole, Duration::from_secs(5)));
}

/// Whoever spawns a request needs its future to move between threads.
#[tokio::test]
async fn requests_may_move_between_threads() {
    fn moves<T: Send>(value: T) -> T {
        value
    }
    let (client, policy, cancel) = (plain(), at_once(), CancellationToken::new());
    let url = placet_net::Url::parse("http://127.0.0.1:1/").unwrap();
    drop(moves(client.send(get(url.clone()), &cancel)));
    drop(moves(client.send_retrying(get(url), &policy, &cancel, |_| {})));
    drop(moves(placet_net::Body::ready("x").bytes(1)));
}
