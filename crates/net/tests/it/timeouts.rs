use crate::support::{CHUNKED, Server, get, never, on_manual_clock};
use placet_core::BoxFuture;
use placet_net::{ClientOptions, NetError, Resolver, TimeoutKind, Timeouts, Url};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const SECOND: Duration = Duration::from_secs(1);

fn timeouts() -> Timeouts {
    Timeouts { connect: Some(2 * SECOND), first_byte: Some(10 * SECOND), idle: Some(5 * SECOND), whole: None }
}

fn ran_out(error: &NetError, kind: TimeoutKind, length: Duration) -> bool {
    matches!(error, NetError::Timeout { which, after, .. } if *which == kind && *after == length)
}

/// Tells that it was asked and never answers.
#[derive(Debug, Default)]
struct Silent(Arc<Notify>);

impl Resolver for Silent {
    fn resolve(&self, _: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn connecting_is_bounded() {
    let asked = Arc::new(Notify::new());
    let (client, clock) = on_manual_clock(ClientOptions::new().resolver(Arc::new(Silent(asked.clone()))));
    let request = get(Url::parse("http://slow.test/").unwrap()).timeouts(timeouts());
    let (response, ()) = tokio::join!(client.send(request, never()), async {
        asked.notified().await;
        clock.advance(2 * SECOND);
    });
    let error = response.unwrap_err();
    assert!(ran_out(&error, TimeoutKind::Connect, 2 * SECOND), "{error:?}");
    assert_eq!(error.to_string(), "connecting took longer than 2s (slow.test)");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn the_first_byte_is_bounded_from_the_ready_connection_on() {
    let server = Server::start().await;
    let (client, clock) = on_manual_clock(ClientOptions::new().timeouts(timeouts()));
    let (response, ()) = tokio::join!(client.send(get(server.url("/")), never()), async {
        let mut peer = server.accept().await;
        peer.request().await;
        clock.advance(10 * SECOND);
        peer.closed().await;
    });
    let error = response.unwrap_err();
    assert!(ran_out(&error, TimeoutKind::FirstByte, 10 * SECOND), "{error:?}");
}

#[tokio::test]
async fn silence_within_the_body_is_bounded() {
    let server = Server::start().await;
    let (client, clock) = on_manual_clock(ClientOptions::new().timeouts(timeouts()));
    let ask = async {
        let mut body = client.send(get(server.url("/")), never()).await.unwrap().body;
        assert_eq!(body.chunk().await.unwrap().unwrap(), "hello");
        {
            let mut next = std::pin::pin!(body.chunk());
            assert!(futures_util::poll!(&mut next).is_pending());
            clock.advance(4 * SECOND);
            assert!(futures_util::poll!(&mut next).is_pending());
            clock.advance(SECOND);
            let error = next.await.unwrap().unwrap_err();
            assert!(ran_out(&error, TimeoutKind::Idle, 5 * SECOND), "{error:?}");
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
async fn a_slow_reader_is_not_the_other_sides_silence() {
    let server = Server::start().await;
    let (client, clock) = on_manual_clock(ClientOptions::new().timeouts(timeouts()));
    let more = Notify::new();
    let ask = async {
        let mut body = client.send(get(server.url("/")), never()).await.unwrap().body;
        for piece in ["one", "two", "six"] {
            more.notify_one();
            // Each wait is shorter than the limit, together they are longer, and so is the time between them.
            {
                let mut next = std::pin::pin!(body.chunk());
                if futures_util::poll!(&mut next).is_pending() {
                    clock.advance(3 * SECOND);
                    assert_eq!(next.await.unwrap().unwrap(), piece);
                }
            }
            clock.advance(60 * SECOND);
        }
        more.notify_one();
        assert!(body.chunk().await.is_none());
    };
    tokio::join!(ask, async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.send(CHUNKED).await;
        for piece in ["one", "two", "six"] {
            more.notified().await;
            peer.send(format!("3\r\n{piece}\r\n")).await;
        }
        more.notified().await;
        peer.send("0\r\n\r\n").await;
    });
}

#[tokio::test]
async fn the_whole_request_is_bounded_in_every_phase() {
    let within = timeouts().within(SECOND);
    let asked = Arc::new(Notify::new());
    let (client, clock) = on_manual_clock(ClientOptions::new().resolver(Arc::new(Silent(asked.clone()))));
    let request = get(Url::parse("http://slow.test/").unwrap()).timeouts(within);
    let (response, ()) = tokio::join!(client.send(request, never()), async {
        asked.notified().await;
        clock.advance(SECOND);
    });
    assert!(ran_out(&response.unwrap_err(), TimeoutKind::Whole, SECOND));

    let server = Server::start().await;
    let (client, clock) = on_manual_clock(ClientOptions::new().timeouts(within));
    let (response, ()) = tokio::join!(client.send(get(server.url("/")), never()), async {
        let mut peer = server.accept().await;
        peer.request().await;
        clock.advance(SECOND);
        peer.closed().await;
    });
    let error = response.unwrap_err();
    assert!(ran_out(&error, TimeoutKind::Whole, SECOND) && !error.is_retryable());

    // While waiting for a piece, and when a piece is there but the time is over.
    for is_there in [false, true] {
        let ask = async {
            let mut body = client.send(get(server.url("/")), never()).await.unwrap().body;
            assert_eq!(body.chunk().await.unwrap().unwrap(), "hello");
            let mut next = std::pin::pin!(body.chunk());
            if !is_there {
                assert!(futures_util::poll!(&mut next).is_pending());
            }
            clock.advance(SECOND);
            let error = next.await.unwrap().unwrap_err();
            assert!(ran_out(&error, TimeoutKind::Whole, SECOND), "{error:?}");
        };
        tokio::join!(ask, async {
            let mut peer = server.accept().await;
            peer.request().await;
            peer.send(format!("{CHUNKED}5\r\nhello\r\n")).await;
            if is_there {
                peer.send("5\r\nworld\r\n").await;
            }
            peer.closed().await;
        });
    }
}
