//! `placet board serve`: boards over HTTP.

use super::args::ServeArgs;
use super::test_mode::TestMode;
use crate::failure::{Code, Done, Failure};
use crate::house::House;
use crate::interrupt::Interrupts;
use crate::vars;
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Either, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use placet_board::http::{BODY_BYTES, Body, Grant, Service, Tokens};
use placet_board::{Boards, BoardsOptions, Outgoing, SweepOptions};
use placet_net::{AddressPolicy, Client, ClientOptions, ProxySettings};
use placet_store::{MemoryStore, SharedStore};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// How long connections may go on once the program is asked to end.
const DRAIN: Duration = Duration::from_secs(5);

type Answered = http::Response<
    Either<Full<Bytes>, StreamBody<futures_util::stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>,
>;

/// What answers requests.
#[derive(Clone)]
enum Answering {
    Boards(Service),
    Tests(Arc<TestMode>),
}

pub(super) async fn serve(house: &House, args: &ServeArgs) -> Done {
    if args.tokens.is_none() && !args.listen.ip().is_loopback() {
        return Err(Failure::new(
            Code::Usage,
            format!("without tokens, {} is open to everybody who reaches it", args.listen),
        )
        .hint("give --tokens FILE, or listen on 127.0.0.1"));
    }
    let outgoing = Outgoing::new(client(house, args)?);
    let answering = if args.test_mode {
        Answering::Tests(Arc::new(TestMode::new(house.env.clone(), outgoing)))
    } else {
        let store: SharedStore = if args.memory {
            Arc::new(MemoryStore::new(house.env.clock().clone()))
        } else {
            house.open_store().await?
        };
        let options = BoardsOptions::default().transport(Arc::new(outgoing.clone())).webhooks(Arc::new(outgoing));
        let boards = Boards::with_options(store, house.tenant.clone(), &house.env, options);
        let mut service = Service::new(boards, "/v1");
        if let Some(path) = &args.tokens {
            service = service.access(Arc::new(tokens(&super::file(path)?)?));
        }
        Answering::Boards(service)
    };
    // Runs that are overdue are closed, and what is owed is sent, also where nobody writes.
    let sweep = match &answering {
        Answering::Boards(service) => Some(service.boards().sweep(SweepOptions::default())),
        Answering::Tests(_) => None,
    };
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        Failure::new(Code::Failed, format!("cannot listen on {}: {error}", args.listen))
            .hint("--listen names another address; port 0 takes a free one")
    })?;
    let address = listener.local_addr().map_err(|error| Failure::new(Code::Failed, error.to_string()))?;
    if house.output.json {
        house.output.json_line(&serde_json::json!({"listening": address.to_string()}));
    } else {
        let place = if args.memory || args.test_mode { "memory".to_owned() } else { house.place() };
        house.output.line(&format!("boards of {place}: http://{address}/v1/boards"));
    }
    listen(house, listener, answering).await;
    if let Some(sweep) = sweep {
        sweep.stop().await;
    }
    Ok(())
}

async fn listen(house: &House, listener: TcpListener, answering: Answering) {
    let server = auto::Builder::new(TokioExecutor::new());
    let graceful = GracefulShutdown::new();
    let mut interrupts = Interrupts::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Out of files, for instance: the connections that there are go on.
                Err(_) => {
                    house.env.sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = interrupts.next() => break,
        };
        // Answers are small: waiting for more of them helps nobody.
        let _ = stream.set_nodelay(true);
        let answering = answering.clone();
        let service = service_fn(move |request| {
            let answering = answering.clone();
            async move { Ok::<_, Infallible>(answer(&answering, request).await) }
        });
        let connection = server.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        house.env.spawn("connection", async move {
            // A client that goes away is no fault of ours.
            let _ = connection.await;
        });
    }
    tokio::select! {
        () = graceful.shutdown() => {}
        () = house.env.sleep(DRAIN) => {}
    }
}

async fn answer(answering: &Answering, request: http::Request<Incoming>) -> Answered {
    let (parts, body) = request.into_parts();
    let body = match Limited::new(body, BODY_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => {
            let told = format!(r#"{{"error":"too_large","detail":"a body has at most {BODY_BYTES} bytes"}}"#);
            let mut refused = http::Response::new(Either::Left(Full::new(Bytes::from(told))));
            *refused.status_mut() = http::StatusCode::PAYLOAD_TOO_LARGE;
            return refused;
        }
    };
    let request = http::Request::from_parts(parts, body);
    let answer = match answering {
        Answering::Boards(service) => service.handle(request).await,
        Answering::Tests(tests) => tests.handle(request).await,
    };
    answer.map(|body| match body {
        Body::Whole(bytes) => Either::Left(Full::new(bytes)),
        Body::Stream(pieces) => {
            let frames = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
            Either::Right(StreamBody::new(frames.boxed()))
        }
    })
}

/// The client that calls agents and rules: of hosts that are not public, those that were named.
fn client(house: &House, args: &ServeArgs) -> Result<Client, Failure> {
    let mut policy = AddressPolicy::public_only();
    for host in &args.call_host {
        policy = policy.allow_host(host);
    }
    if args.test_mode {
        policy = policy.allow_host("127.0.0.1").allow_host("localhost");
    }
    let proxies = ProxySettings::from_vars(|name: &str| vars::var(name))?;
    let options = ClientOptions::default().proxies(proxies).address_policy(policy);
    Ok(Client::new(options, house.env.clone())?)
}

/// Reads the file of tokens.
fn tokens(text: &str) -> Result<Tokens, Failure> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        sha256: String,
        boards: Option<BTreeSet<String>>,
        agents: Option<BTreeSet<String>>,
        regions: Option<BTreeSet<String>>,
        #[serde(default)]
        manages: bool,
    }
    let lines: Vec<Line> = serde_json::from_str(text).map_err(|error| {
        Failure::new(Code::Usage, format!("the file of tokens cannot be read: {error}"))
            .hint(r#"it is a list of objects: [{"sha256": "…", "agents": ["ann"], "manages": false}]"#)
            .hint("`printf %s TOKEN | sha256sum` gives the digest of a token")
    })?;
    Ok(lines.into_iter().fold(Tokens::new(), |tokens, line| {
        let Line { sha256, boards, agents, regions, manages } = line;
        tokens.with(sha256, Grant { boards, agents, regions, manages })
    }))
}
