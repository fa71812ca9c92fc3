//! The parts that run as processes of their own: the model server, the plain proxy, the gateway.

use crate::Failure;
use crate::table::{EVENTS, Protocol};
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use placet_core::Env;
use placet_server::{Config, Gateway, Listener, Parts};
use placet_store::{SqliteOptions, SqliteStore, Tenant};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A protocol's answer, whole and as the pieces of a stream.
type Prepared = (Protocol, Vec<u8>, Vec<Vec<u8>>);

/// Answers every request at once: whole, or as events of which each is written by itself.
pub(crate) fn models(port: u16) -> Result<(), Failure> {
    let answers: Arc<Vec<Prepared>> =
        Arc::new(Protocol::ALL.into_iter().map(|protocol| (protocol, whole(protocol), pieces(protocol))).collect());
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async move {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let answers = answers.clone();
            // A client that goes away ends its own connection.
            tokio::spawn(async move { drop(converse(stream, &answers).await) });
        }
    })
}

async fn converse(mut stream: TcpStream, answers: &[Prepared]) -> std::io::Result<()> {
    let mut bytes = Vec::with_capacity(64 << 10);
    loop {
        let (head, length) = loop {
            if let Some(head) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
                let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
                let length = length.and_then(|length| length.trim().parse::<usize>().ok()).unwrap_or(0);
                if bytes.len() >= head + 4 + length {
                    break (head, length);
                }
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        let line = &bytes[..memchr::memchr(b'\r', &bytes).unwrap_or(0)];
        let has = |text: &[u8], word: &str| memchr::memmem::find(text, word.as_bytes()).is_some();
        let found = answers.iter().find(|(protocol, ..)| has(line, protocol.word()));
        let is_stream = has(line, "stream") || has(&bytes[head..], "\"stream\":true");
        if let Some((_, whole, pieces)) = found {
            if is_stream {
                for piece in pieces {
                    stream.write_all(piece).await?;
                }
            } else {
                stream.write_all(whole).await?;
            }
        }
        bytes.drain(..head + 4 + length);
    }
}

fn whole(protocol: Protocol) -> Vec<u8> {
    let body = protocol.answer().to_string();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into()
}

fn pieces(protocol: Protocol) -> Vec<Vec<u8>> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let events = protocol.events(EVENTS);
    let last = events.len() - 1;
    let piece = |(number, event): (usize, String)| {
        let before = if number == 0 { head } else { "" };
        let after = if number == last { "0\r\n\r\n" } else { "" };
        format!("{before}{:x}\r\n{event}\r\n{after}", event.len()).into()
    };
    events.into_iter().enumerate().map(piece).collect()
}

type Handed = BoxBody<Bytes, hyper::Error>;

/// Hands everything on to the model server as it comes.
pub(crate) fn proxy(port: u16, models: u16) -> Result<(), Failure> {
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?.block_on(async move {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client: Client<_, Handed> = Client::builder(TokioExecutor::new()).build(connector);
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let client = client.clone();
            let hand_on = service_fn(move |request| hand_on(client.clone(), models, request));
            tokio::spawn(async move {
                let serving =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), hand_on);
                drop(serving.await);
            });
        }
    })
}

async fn hand_on(
    client: Client<HttpConnector, Handed>,
    models: u16,
    request: Request<Incoming>,
) -> Result<Response<Handed>, Box<dyn std::error::Error + Send + Sync>> {
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = format!("http://127.0.0.1:{models}{path}").parse()?;
    head.headers.remove("host");
    let answer = client.request(Request::from_parts(head, body.boxed())).await?;
    Ok(answer.map(BodyExt::boxed))
}

/// A gateway of this crate, as `placet serve` has it.
pub(crate) fn gateway(file: &str) -> Result<(), Failure> {
    let lookup: placet_models::Lookup = Arc::new(|name: &str| std::env::var(name).ok());
    let config = Config::read(Path::new(file), &lookup)?;
    let lanes = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async move {
        let env = Env::system();
        let listener = Listener::bind(config.listen).await?.lanes(lanes);
        let path = config.store.clone().ok_or("name a [store] path")?;
        let parts = Parts {
            client: placet_net::Client::new(placet_net::ClientOptions::default(), env.clone())?,
            store: Arc::new(SqliteStore::open(path, SqliteOptions::new(env.clock().clone()))?),
            tenant: Tenant::new("beside"),
            mounts: Vec::new(),
            flows: None,
            limiter: None,
            env,
        };
        listener.serve(Gateway::new(config, parts)?, CancellationToken::new()).await;
        Ok(())
    })
}
