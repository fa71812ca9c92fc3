//! How the gateway ends, and how connections do.

use crate::support::{provider, serve};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use placet_core::Env;
use placet_testkit::upstream::{Answer, Upstream, chat};
use serde_json::json;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn upstream(answers: impl IntoIterator<Item = Answer>) -> Upstream {
    Upstream::start(&Env::system(), answers).await.unwrap()
}

/// A request on a connection of its own, whose first piece of an answer has come.
async fn begun(address: SocketAddr, path: &str, body: &str) -> (TcpStream, Vec<u8>) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = Vec::new();
    while !String::from_utf8_lossy(&told).contains("data: ") {
        assert_ne!(stream.read_buf(&mut told).await.unwrap(), 0);
    }
    (stream, told)
}

async fn rest(mut stream: TcpStream, mut told: Vec<u8>) -> String {
    let _ = stream.read_to_end(&mut told).await;
    String::from_utf8_lossy(&told).into_owned()
}

#[tokio::test]
async fn what_outlasts_the_drain_ends_with_the_error_of_its_protocol() {
    let upstream = upstream((0..3).map(|_| Answer::stream([chat::text("a")]).then_silence())).await;
    let more =
        "[limits]\ndrain = \"50ms\"\n[agents.house]\nmodel = \"mine:real\"\n[models.real]\ntarget = \"mine:real\"\n";
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", more)).await;
    let ask = |model: &str| {
        json!({"model": model, "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "hi"}]})
            .to_string()
    };
    // Handed on, translated, and of an agent.
    let passed = begun(served.address, "/v1/chat/completions", &ask("real")).await;
    let translated = begun(served.address, "/v1/messages", &ask("real")).await;
    let agent = begun(served.address, "/v1/messages", &ask("house")).await;
    let ledger = served.ledger().await;
    let passed = rest(passed.0, passed.1).await;
    assert!(passed.contains("data: {\"error\"") && passed.contains("stopping"), "{passed}");
    for told in [rest(translated.0, translated.1).await, rest(agent.0, agent.1).await] {
        assert!(
            told.contains("event: error") && !told.contains("message_stop") && !told.ends_with("0\r\n\r\n"),
            "{told}"
        );
    }
    assert_eq!(ledger.len(), 3, "{ledger:?}");
    assert!(ledger.iter().all(|line| line.outcome == "cut" || line.outcome == "failed"), "{ledger:?}");
}

#[tokio::test]
async fn while_it_ends_it_says_so_and_takes_nothing_new() {
    let upstream = upstream([Answer::stream([chat::text("a")]).then_silence()]).await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "[limits]\ndrain = \"60s\"\n")).await;
    let body = r#"{"model":"m","stream":true,"messages":[]}"#;
    let under_way = begun(served.address, "/v1/chat/completions", body).await;
    assert_eq!(served.get("/readyz", "").await.status, 200);
    served.stop();
    while served.get("/readyz", "").await.status == 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(served.get("/readyz", "").await.status, 503);
    assert_eq!(served.get("/healthz", "").await.status, 200);
    let mut refused = served.post("/v1/messages", r#"{"model":"m","messages":[]}"#).await;
    while refused.status != 503 {
        tokio::task::yield_now().await;
        refused = served.post("/v1/messages", r#"{"model":"m","messages":[]}"#).await;
    }
    assert_eq!((refused.header("retry-after"), refused.json()["type"].as_str()), (Some("1"), Some("error")));
    // What had begun goes on; when it is over, so is the gateway.
    drop(under_way);
    let ledger = served.ledger().await;
    assert!(ledger.iter().any(|line| line.outcome == "cancelled"), "{ledger:?}");
}

#[tokio::test]
async fn before_that_it_may_serve_on_while_it_says_that_it_will_not() {
    let served = serve("[limits]\ndrain_delay = \"60s\"\n").await;
    served.stop();
    while served.get("/readyz", "").await.status == 200 {
        tokio::task::yield_now().await;
    }
    let body = json!({"model": "echo", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    assert_eq!(served.post("/v1/chat/completions", &body).await.status, 200);
}

/// A connection of HTTP/2.
async fn multiplexed<B>(address: SocketAddr) -> (hyper::client::conn::http2::SendRequest<B>, placet_core::env::Task)
where
    B: http_body::Body<Data = Bytes, Error = std::io::Error> + Send + Unpin + 'static,
{
    let stream = TcpStream::connect(address).await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "what is said on the connection is what is tested")]
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let task = Env::system().spawn("client", async move {
        let _ = connection.await;
    });
    (sender, task)
}

#[tokio::test]
async fn a_silent_connection_of_http2_is_closed_like_any_other() {
    let served = serve("[limits]\nclient_idle = \"50ms\"\n").await;
    let (mut sender, over) = multiplexed(served.address).await;
    let request = http::Request::get(format!("http://{}/healthz", served.address))
        .body(Full::new(Bytes::new()).map_err(|never| match never {}))
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok\n");
    // It has asked, and now asks nothing: the connection ends, and not before all was said.
    over.join().await.unwrap();
}

#[tokio::test]
async fn a_long_answer_keeps_its_connection_of_http2() {
    let upstream = upstream([Answer::stream([chat::text("a")]).then_silence()]).await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "[limits]\nclient_idle = \"50ms\"\n")).await;
    let (mut sender, over) = multiplexed(served.address).await;
    let body = r#"{"model":"m","stream":true,"messages":[]}"#;
    let request = http::Request::post(format!("http://{}/v1/chat/completions", served.address))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)).map_err(|never| match never {}))
        .unwrap();
    let mut answer = sender.send_request(request).await.unwrap().into_body();
    let first = answer.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&first).contains('a'));
    let env = Env::system();
    tokio::select! {
        _ = over.join() => panic!("an answer was under way"),
        () = env.sleep(std::time::Duration::from_millis(300)) => {}
    }
}

/// A body that comes in pieces, and tells how many of them were left when nobody takes more.
struct Sending {
    left: usize,
    over: Option<tokio::sync::oneshot::Sender<usize>>,
}

impl futures_util::Stream for Sending {
    type Item = Result<http_body::Frame<Bytes>, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from_static(&[b' '; 8192])))))
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let _ = self.over.take().map(|over| over.send(self.left));
    }
}

#[tokio::test]
async fn who_is_refused_at_the_door_of_http2_hears_the_status_although_more_is_sent() {
    let key = format!("[keys.ann]\nsha256 = \"{}\"\n", placet_core::record::Digest::of(b"k-ann"));
    let served = serve(&format!("{key}[limits]\nbody = \"64KB\"\n")).await;
    let post = |headers: &[(&str, &str)]| {
        let mut request = http::Request::post(format!("http://{}/v1/chat/completions", served.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request
    };
    let json = ("content-type", "application/json");
    let ann = ("x-api-key", "k-ann");
    for (wanted, headers) in [
        (401, vec![json]),
        (415, vec![("content-type", "text/plain"), ann]),
        (403, vec![json, ann, ("origin", "https://evil.example")]),
        (421, vec![json, ann, ("host", "evil.example")]),
        (413, vec![json, ann]),
    ] {
        for _ in 0..20 {
            let (mut sender, _task) = multiplexed(served.address).await;
            // Pieces that keep coming after the answer has been given.
            let (over, sent) = tokio::sync::oneshot::channel();
            let body = StreamBody::new(Sending { left: 40, over: Some(over) });
            let request = post(&headers).body(body).unwrap();
            let answer = sender.send_request(request).await.unwrap_or_else(|error| panic!("{wanted}: {error:?}"));
            assert_eq!(answer.status().as_u16(), wanted);
            let text = answer.into_body().collect().await.unwrap().to_bytes();
            assert!(text.starts_with(b"{"), "{text:?}");
            assert_eq!(
                sent.await,
                Ok(0),
                "{wanted}: there are clients that lose the answer where they may not send the rest"
            );
        }
    }
}
