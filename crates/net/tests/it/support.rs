//! Servers that do exactly what a test says, byte by byte.

use placet_core::env::ManualClock;
use placet_core::{BoxFuture, Env, Timestamp};
use placet_net::{Client, ClientOptions, Request, Resolver, Timeouts, Url};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A listening server on a free port.
pub(crate) struct Server {
    listener: TcpListener,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Server { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://127.0.0.1:{}{path}", self.port())).unwrap()
    }

    pub(crate) async fn accept_stream(&self) -> TcpStream {
        let stream = self.listener.accept().await.unwrap().0;
        stream.set_nodelay(true).unwrap();
        stream
    }

    pub(crate) async fn accept(&self) -> Peer<TcpStream> {
        Peer::new(self.accept_stream().await)
    }

    /// Whether somebody has connected by now.
    pub(crate) async fn is_visited(&self) -> bool {
        let accept = std::pin::pin!(self.listener.accept());
        futures_util::poll!(accept).is_ready()
    }
}

/// One connection, seen from the server.
pub(crate) struct Peer<S> {
    pub(crate) stream: S,
    read: Vec<u8>,
}

/// A request as it came over the wire.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Request line and headers, names in small letters.
    pub(crate) head: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn line(&self) -> &str {
        &self.head[0]
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub(crate) fn new(stream: S) -> Self {
        Peer { stream, read: Vec::new() }
    }

    async fn fill(&mut self) {
        let mut buffer = [0; 4096];
        let count = self.stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the client closed within a request");
        self.read.extend_from_slice(&buffer[..count]);
    }

    pub(crate) async fn request(&mut self) -> Seen {
        let end = loop {
            match self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(at) => break at,
                None => self.fill().await,
            }
        };
        let head = String::from_utf8(self.read.drain(..end + 4).collect()).unwrap();
        let head: Vec<String> = head.trim_end().split("\r\n").map(ToOwned::to_owned).collect();
        let mut seen = Seen { head, body: Vec::new() };
        let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.read.len() < length {
            self.fill().await;
        }
        seen.body = self.read.drain(..length).collect();
        seen
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    pub(crate) async fn answer(&mut self, status: &str, headers: &str, body: &str) {
        self.send(format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())).await;
    }

    /// Returns when the client has closed the connection.
    pub(crate) async fn closed(&mut self) {
        let mut buffer = [0; 64];
        // A reset is as good as an end.
        if let Ok(count) = self.stream.read(&mut buffer).await {
            assert_eq!(count, 0, "expected the end, got {:?}", String::from_utf8_lossy(&buffer[..count]));
        }
    }
}

/// The head of an answer in chunks.
pub(crate) const CHUNKED: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";

/// A client on the real clock. Its time limit bites only where a test would otherwise hang.
pub(crate) fn client(options: ClientOptions) -> Client {
    let options = options.timeouts(Timeouts::default().within(Duration::from_secs(20)));
    Client::new(options, Env::system()).unwrap()
}

pub(crate) fn plain() -> Client {
    client(ClientOptions::new())
}

/// A client on a clock that stands still.
pub(crate) fn on_manual_clock(options: ClientOptions) -> (Client, Arc<ManualClock>) {
    let clock = ManualClock::new(Timestamp::EPOCH);
    (Client::new(options, Env::deterministic(clock.clone(), 1)).unwrap(), clock)
}

pub(crate) fn get(url: Url) -> Request {
    Request::get(url)
}

/// A token that nobody cancels.
pub(crate) fn never() -> &'static CancellationToken {
    static NEVER: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
    &NEVER
}

/// Knows a few names and no others.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<&'static str, Vec<IpAddr>>);

impl Names {
    pub(crate) fn local(names: &[&'static str]) -> Arc<Self> {
        Arc::new(Names(names.iter().map(|name| (*name, vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])).collect()))
    }
}

impl Resolver for Names {
    fn resolve(&self, host: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        let found = self.0.get(host).cloned();
        Box::pin(async move { found.ok_or_else(|| std::io::Error::other("no such name")) })
    }
}

/// An error with everything underneath it, as it may be shown.
pub(crate) fn whole_text(error: &dyn std::error::Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(&format!(" | {error} {error:?}"));
        next = error.source();
    }
    text
}
