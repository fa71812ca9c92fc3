//! Boards over HTTP: the seven operations to the letter, what stands beside them, tokens, and the client.

use crate::world::World;
use bytes::Bytes;
use futures_util::StreamExt;
use placet_board::http::{Act, BoardsEndpoint, Body, Grant, Tokens, Wanted};
use placet_board::{
    AgentBoard as _, BoardClient, BoardError, BoardId, Bounds, Content, Outgoing, Region, RegionKind, SetRequest,
    Transport as _, WriteRequest, WriteResult,
};
use placet_core::{Digest, Secret};
use placet_net::{Client, ClientOptions, RetryPolicy};
use placet_testkit::upstream::{Answer, Upstream};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Answered {
    pub(crate) status: u16,
    allow: Option<String>,
    pub(crate) body: String,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

pub(crate) async fn ask_as(
    endpoint: &BoardsEndpoint,
    token: Option<&str>,
    method: &str,
    path: &str,
    body: &str,
) -> Answered {
    let mut request = http::Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = endpoint.handle(request.body(Bytes::copy_from_slice(body.as_bytes())).unwrap()).await;
    let status = answer.status().as_u16();
    let allow = answer.headers().get("allow").map(|allow| allow.to_str().unwrap().to_owned());
    let Body::Whole(bytes) = answer.into_body() else { panic!("a stream") };
    Answered { status, allow, body: String::from_utf8(bytes.to_vec()).unwrap() }
}

pub(crate) async fn ask(endpoint: &BoardsEndpoint, method: &str, path: &str, body: &str) -> Answered {
    ask_as(endpoint, None, method, path, body).await
}

pub(crate) async fn incident(world: &World) -> BoardsEndpoint {
    let endpoint = BoardsEndpoint::new(world.boards(), "/v1");
    let spec = json!({
        "regions": [{"name": "notes", "kind": "level"}, {"name": "phase", "kind": "premise"}],
        "premises": {"phase": "open"},
        "limits": {"idle_s": 60},
    });
    let made = ask(&endpoint, "PUT", "/v1/boards/inc%2F1", &spec.to_string()).await;
    assert_eq!(made.status, 201, "{}", made.body);
    endpoint
}

#[tokio::test]
async fn the_seven_operations_answer_to_the_letter() {
    let world = World::memory();
    let endpoint = incident(&world).await;
    let at = "/v1/boards/inc%2F1";
    let regions = ask(&endpoint, "GET", &format!("{at}/regions"), "").await;
    let expected = r#"{"regions":[{"name":"notes","kind":"level"},{"name":"phase","kind":"premise"}]}"#;
    assert_eq!((regions.status, regions.body.as_str()), (200, expected));

    let write = r#"{"writer":"ann","content":{"n" : 1180591620717411303424, "f":1.0},"level":"other","idempotency_key":"k","more":1}"#;
    let written = ask(&endpoint, "POST", &format!("{at}/levels/notes"), write).await;
    assert_eq!((written.status, written.body.as_str()), (201, r#"{"sequence":2,"version":null,"repeated":false}"#));
    let repeat = r#"{"writer":"ann","content":1,"idempotency_key":"k"}"#;
    let again = ask(&endpoint, "POST", &format!("{at}/levels/notes"), repeat).await;
    assert_eq!((again.status, again.body.as_str()), (200, r#"{"sequence":2,"version":null,"repeated":true}"#));
    let level = ask(&endpoint, "GET", &format!("{at}/levels/notes?from_sequence=2&limit=1"), "").await;
    assert!(level.body.contains(r#""content":{"n" : 1180591620717411303424, "f":1.0}"#), "{}", level.body);
    assert_eq!(level.json()["has_more"], false);
    assert_eq!(level.json()["contributions"][0]["writer"], "ann");

    let set = |expected: u64| json!({"writer": "bob", "value": null, "expected_version": expected}).to_string();
    let premise = format!("{at}/premises/phase");
    let done = ask(&endpoint, "PUT", &premise, &set(1)).await;
    assert_eq!((done.status, done.body.as_str()), (201, r#"{"sequence":3,"version":2,"repeated":false}"#));
    let moved = ask(&endpoint, "PUT", &premise, &set(1)).await;
    assert_eq!((moved.status, moved.body.as_str()), (409, r#"{"current_version":2}"#));
    let read = ask(&endpoint, "GET", &premise, "").await.json();
    assert_eq!((&read["value"], &read["version"], &read["writer"]), (&Value::Null, &json!(2), &json!("bob")));
    assert!(read["written_at"].as_str().unwrap().ends_with('Z'));

    let changes = ask(&endpoint, "GET", &format!("{at}/changes?from_sequence=1&limit=2"), "").await.json();
    assert_eq!(changes["has_more"], true);
    assert_eq!(
        changes["changes"][0],
        json!({
            "sequence": 1, "region": "phase", "content": "open", "writer": null,
            "written_at": changes["changes"][0]["written_at"]
        })
    );
    let none = ask(&endpoint, "GET", &format!("{at}/changes?limit=0"), "").await.json();
    assert_eq!(none, json!({"changes": [], "has_more": true}));

    let unknown =
        ask(&endpoint, "POST", &format!("{at}/acknowledgements"), r#"{"agent":"ann","notification_id":1}"#).await;
    assert_eq!((unknown.status, unknown.json()["error"].as_str()), (404, Some("unknown_notification")));
}

#[tokio::test]
async fn every_malformed_request_has_an_answer_and_changes_nothing() {
    let world = World::memory();
    let endpoint = incident(&world).await;
    let at = "/v1/boards/inc%2F1";
    for (body, told) in [
        ("", "WriteRequest is a JSON object"),
        ("[]", "WriteRequest"),
        ("{", "WriteRequest is a JSON object"),
        (r#"{"content":1}"#, "WriteRequest needs 'writer'"),
        (r#"{"writer":"a"}"#, "WriteRequest needs 'content'"),
        (r#"{"writer":5,"content":1}"#, "'writer' takes a text"),
        (r#"{"writer":null,"content":1}"#, "WriteRequest needs 'writer'"),
        (r#"{"writer":"a","content":NaN}"#, "WriteRequest is a JSON object"),
        (r#"{"writer":"a","content":1,"idempotency_key":7}"#, "'idempotency_key' takes a text"),
    ] {
        let answer = ask(&endpoint, "POST", &format!("{at}/levels/notes"), body).await;
        assert_eq!((answer.status, answer.json()["error"].as_str()), (400, Some("bad_body")), "{body}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(told), "{body}: {}", answer.body);
        // A board that is not there is told of first.
        assert_eq!(ask(&endpoint, "POST", "/v1/boards/no/levels/notes", body).await.json()["error"], "unknown_board");
    }
    for body in [
        r#"{"writer":"a","value":1,"expected_version":"1"}"#,
        r#"{"writer":"a","value":1,"expected_version":true}"#,
        r#"{"writer":"a","value":1,"expected_version":-1}"#,
        r#"{"writer":"a","value":1}"#,
    ] {
        assert_eq!(ask(&endpoint, "PUT", &format!("{at}/premises/phase"), body).await.status, 400, "{body}");
    }
    for body in [
        r#"{"agent":"a","notification_id":"abc"}"#,
        r#"{"agent":"a","notification_id":null}"#,
        r#"{"notification_id":1}"#,
    ] {
        assert_eq!(ask(&endpoint, "POST", &format!("{at}/acknowledgements"), body).await.status, 400, "{body}");
    }
    for query in ["from_sequence=x", "from_sequence=-1", "limit=1.5", "limit="] {
        let answer = ask(&endpoint, "GET", &format!("{at}/changes?{query}"), "").await;
        assert_eq!((answer.status, answer.json()["error"].as_str()), (400, Some("bad_query")), "{query}");
    }
    let wrong = ask(&endpoint, "HEAD", &format!("{at}/levels/notes"), "").await;
    assert_eq!((wrong.status, wrong.allow.as_deref()), (405, Some("GET, POST")));
    for (path, error) in [
        ("/v1/boards/inc%2F1/levels/nowhere", "unknown_region"),
        ("/v1/boards/inc%2F1/levels/phase", "wrong_region_kind"),
        ("/v1/boards/nope/levels/notes", "unknown_board"),
        ("/v1/boards/inc%2F1/", "no_such_route"),
    ] {
        assert_eq!(ask(&endpoint, "GET", path, "").await.json()["error"], error, "{path}");
    }
    let head = world.boards().reader(&BoardId::new("inc/1").unwrap()).head().await.unwrap();
    assert_eq!(head, 1, "nothing but the opening value was written");
}

#[tokio::test]
async fn a_run_is_closed_told_of_and_opened_again_over_http() {
    let world = World::memory();
    let endpoint = incident(&world).await;
    let at = "/v1/boards/inc%2F1";
    assert_eq!(ask(&endpoint, "GET", &format!("{at}/outcome"), "").await.json(), json!({"outcome": null}));
    let register = r#"{"subscribes_to":["notes"],"writes_to":[]}"#;
    assert_eq!(ask(&endpoint, "PUT", &format!("{at}/agents/carl"), register).await.status, 204);
    let refused = ask(&endpoint, "POST", &format!("{at}/levels/notes"), r#"{"writer":"carl","content":1}"#).await;
    assert_eq!((refused.status, &refused.json()["cause"]), (422, &json!("not_permitted")));
    ask(&endpoint, "POST", &format!("{at}/levels/notes"), r#"{"writer":"ann","content":1}"#).await;
    let told = ask(&endpoint, "GET", &format!("{at}/agents/carl/notifications?wait_s=0"), "").await;
    assert_eq!((told.status, &told.json()["regions"]), (200, &json!(["notes"])), "{}", told.body);
    let agents = ask(&endpoint, "GET", &format!("{at}/agents"), "").await.json();
    assert_eq!(agents["agents"][0]["agent"], "carl");
    let ack = json!({"agent": "carl", "notification_id": told.json()["notification_id"]}).to_string();
    let acknowledged = ask(&endpoint, "POST", &format!("{at}/acknowledgements"), &ack).await;
    assert_eq!((acknowledged.status, acknowledged.body.as_str()), (204, ""));
    assert_eq!(ask(&endpoint, "GET", &format!("{at}/agents/carl/notifications"), "").await.status, 204);

    let closed = ask(&endpoint, "POST", &format!("{at}/abort"), r#"{"reason":"enough"}"#).await.json();
    assert_eq!((&closed["closed"], &closed["outcome"]["reason"]), (&json!(true), &json!("enough")));
    let late = ask(&endpoint, "POST", &format!("{at}/levels/notes"), r#"{"writer":"ann","content":2}"#).await;
    assert_eq!((late.status, late.json()["error"].as_str()), (410, Some("run_closed")));
    assert_eq!(ask(&endpoint, "POST", &format!("{at}/reopen"), "{}").await.status, 204);
    assert_eq!(ask(&endpoint, "POST", &format!("{at}/reopen"), "{}").await.json()["error"], "run_open");
    assert_eq!(
        ask(&endpoint, "POST", &format!("{at}/levels/notes"), r#"{"writer":"ann","content":2}"#).await.status,
        201
    );
    let decisions = ask(&endpoint, "GET", &format!("{at}/decisions"), "").await.json();
    let kinds: Vec<&str> =
        decisions["decisions"].as_array().unwrap().iter().map(|of| of["decision"]["kind"].as_str().unwrap()).collect();
    for kind in
        ["run_opened", "write_admitted", "write_refused", "notification_acknowledged", "run_closed", "run_reopened"]
    {
        assert!(kinds.contains(&kind), "{kind} is not among {kinds:?}");
    }
    let listed = ask(&endpoint, "GET", "/v1/boards", "").await.json();
    assert_eq!((&listed["boards"][0]["board_id"], &listed["boards"][0]["open"]), (&json!("inc/1"), &json!(true)));
    assert_eq!(ask(&endpoint, "DELETE", at, "").await.status, 204);
    assert_eq!(ask(&endpoint, "GET", at, "").await.status, 404);
}

#[tokio::test]
async fn the_tail_begins_anywhere_and_the_export_is_the_record() {
    let world = World::memory();
    let endpoint = incident(&world).await;
    let control = world.boards().control(&BoardId::new("inc/1").unwrap());
    let ann = control.as_agent("ann");
    ann.write(WriteRequest::new("notes", Content::of("one").unwrap())).await.unwrap();
    let get = |path: &str| http::Request::get(path).body(Bytes::new()).unwrap();
    let Body::Stream(mut tail) = endpoint.handle(get("/v1/boards/inc%2F1/tail?from_sequence=2")).await.into_body()
    else {
        panic!("no stream");
    };
    let mut events = placet_wire::sse::SseDecoder::new();
    let mut next = async || loop {
        if let Some(event) = events.next_event() {
            return event;
        }
        events.push(&tail.next().await.unwrap().unwrap()).unwrap();
    };
    let first = next().await;
    assert_eq!(first.id.as_deref(), Some("2"));
    assert_eq!(serde_json::from_str::<Value>(&first.data).unwrap()["content"], "one");
    ann.write(WriteRequest::new("notes", Content::of("two").unwrap())).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&next().await.data).unwrap()["content"], "two");

    let Body::Stream(export) = endpoint.handle(get("/v1/boards/inc%2F1/export")).await.into_body() else {
        panic!("no stream");
    };
    let export = export.map(|piece| piece.unwrap().to_vec()).concat().await;
    let lines: Vec<Value> = export
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines.iter().map(|line| line["sequence"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test]
async fn a_token_opens_what_it_is_for_and_nothing_else() {
    let world = World::memory();
    let open = incident(&world).await;
    let names = |name: &str| Some(BTreeSet::from([name.to_owned()]));
    let tokens = Tokens::new()
        .with(
            Digest::of(b"ann's").to_hex(),
            Grant { agents: names("ann"), regions: names("notes"), ..Grant::default() },
        )
        .with(Digest::of(b"boss").to_hex(), Grant { manages: true, ..Grant::default() });
    let endpoint = open.access(Arc::new(tokens));
    let at = "/v1/boards/inc%2F1";
    let write = |name: &str| json!({"writer": name, "content": 1}).to_string();
    for (token, method, path, body, status) in [
        (None, "GET", format!("{at}/regions"), String::new(), 401),
        (Some("wrong"), "GET", format!("{at}/regions"), String::new(), 401),
        (Some("ann's"), "GET", format!("{at}/changes"), String::new(), 200),
        (Some("ann's"), "POST", format!("{at}/levels/notes"), write("ann"), 201),
        (Some("ann's"), "POST", format!("{at}/levels/notes"), write("bob"), 403),
        (Some("ann's"), "POST", format!("{at}/abort"), "{}".to_owned(), 403),
        (Some("ann's"), "DELETE", at.to_owned(), String::new(), 403),
        (Some("boss"), "POST", format!("{at}/levels/notes"), write("anyone"), 201),
        (Some("boss"), "POST", format!("{at}/abort"), "{}".to_owned(), 200),
    ] {
        let answer = ask_as(&endpoint, token, method, &path, &body).await;
        assert_eq!(answer.status, status, "{token:?} {method} {path}: {}", answer.body);
    }
    let wanted = Wanted { act: Act::Read, board: None, agent: None, region: None };
    assert!(format!("{wanted:?}").contains("Read"));
}

pub(crate) fn client(env: &placet_core::Env) -> Client {
    Client::new(ClientOptions::default(), env.clone()).unwrap()
}

fn quick() -> RetryPolicy {
    RetryPolicy { base: Duration::ZERO, ..RetryPolicy::default() }
}

/// Answers what the endpoint answers, over a real socket.
pub(crate) async fn served(endpoint: BoardsEndpoint) -> String {
    use http_body_util::{BodyExt as _, Full};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let env = endpoint.boards().env().clone();
    let tasks = env.clone();
    env.spawn("server", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let endpoint = endpoint.clone();
            let answer = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let endpoint = endpoint.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let answer = endpoint.handle(http::Request::from_parts(parts, body)).await;
                    Ok::<_, std::convert::Infallible>(answer.map(|body| match body {
                        Body::Whole(bytes) => Full::new(bytes),
                        Body::Stream(_) => Full::new(Bytes::new()),
                    }))
                }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(hyper_util::rt::TokioIo::new(stream), answer);
            tasks.spawn("connection", async move { drop(connection.await) });
        }
    });
    format!("http://{address}/v1")
}

#[tokio::test]
async fn an_agent_runs_over_http_as_it_does_in_process() {
    let env = placet_core::Env::system();
    let store = Arc::new(placet_store::MemoryStore::new(env.clock().clone()));
    let boards = placet_board::Boards::new(store, placet_store::Tenant::new("acme"), &env);
    let id = BoardId::new("inc/1").unwrap();
    let spec = placet_board::BoardSpec::new(placet_board::Limits::default())
        .region(Region::level("notes"))
        .premise("phase", Content::of("open").unwrap())
        .region(Region::premise("unset"))
        .opening("unset", Content::NULL);
    let control = boards.open(&id, &spec).await.unwrap();
    control.register(placet_board::Agent::new("ann").subscribes_to(["notes"]).pulls()).await.unwrap();
    let base = served(BoardsEndpoint::new(boards, "/v1")).await;
    let far = BoardClient::new(client(&env), &base, id.clone(), "ann").unwrap();
    let near = control.as_agent("ann");

    assert_eq!(far.read_regions().await.unwrap(), near.read_regions().await.unwrap());
    let request = WriteRequest::new("notes", Content::from_text("{\"n\": 1.0}").unwrap()).key("k");
    let WriteResult::Written(first) = far.write(request.clone()).await.unwrap() else { panic!("refused") };
    let WriteResult::Written(again) = near.write(request).await.unwrap() else { panic!("refused") };
    assert_eq!((first.sequence, again.sequence, again.repeated), (3, 3, true));
    let (here, there) =
        (near.read_level("notes", Bounds::default()).await, far.read_level("notes", Bounds::default()).await);
    assert_eq!(here.unwrap(), there.unwrap());
    let set = |expected| SetRequest::new("phase", Content::of("fix").unwrap(), expected);
    assert!(matches!(far.set_premise(set(7)).await.unwrap(), WriteResult::Conflict(of) if of.current_version == 1));
    assert_eq!(far.set_premise(set(1)).await.unwrap().written().unwrap().version, Some(2));
    assert_eq!(far.read_premise("phase").await.unwrap(), near.read_premise("phase").await.unwrap());
    assert_eq!(far.read_board(Bounds::from(2)).await.unwrap().items.len(), 3);

    let pairs = [
        (
            far.read_level("nowhere", Bounds::default()).await.map(drop),
            near.read_level("nowhere", Bounds::default()).await.map(drop),
        ),
        (
            far.read_level("phase", Bounds::default()).await.map(drop),
            near.read_level("phase", Bounds::default()).await.map(drop),
        ),
        (far.read_premise("notes").await.map(drop), near.read_premise("notes").await.map(drop)),
        (far.ack(99).await, near.ack(99).await),
    ];
    for (there, here) in pairs {
        assert_eq!(there.unwrap_err().to_string(), here.unwrap_err().to_string());
    }
    let reused = SetRequest::new("phase", Content::NULL, 2).key("k");
    let (there, here) =
        (far.set_premise(reused.clone()).await.unwrap_err(), near.set_premise(reused).await.unwrap_err());
    assert!(matches!((&there, &here), (BoardError::KeyReused { .. }, BoardError::KeyReused { .. })), "{there} {here}");
    assert_eq!(there.to_string(), here.to_string());

    let bob = control.as_agent("bob");
    bob.write(WriteRequest::new("notes", Content::of("for ann").unwrap())).await.unwrap();
    let notification = far.notification(Duration::from_secs(5)).await.unwrap().expect("a notification");
    assert_eq!((notification.agent.as_str(), notification.to_sequence), ("ann", 5));
    far.ack(notification.notification_id).await.unwrap();
    assert_eq!(control.agents().await.unwrap()[0].acknowledged_through, 5);

    control.abort("done").await.unwrap();
    let late = far.write(WriteRequest::new("notes", Content::NULL)).await.unwrap();
    assert!(matches!(late, WriteResult::Rejected(of) if of.cause == placet_board::Cause::RunClosed));
    assert!(matches!(far.notification(Duration::ZERO).await, Err(BoardError::RunClosed)));
    let elsewhere = BoardClient::new(client(&env), &base, BoardId::new("no").unwrap(), "ann").unwrap();
    assert!(matches!(elsewhere.read_regions().await, Err(BoardError::UnknownBoard { .. })));
    assert_eq!(far.read_regions().await.unwrap()[0].kind, RegionKind::Level);
}

#[tokio::test]
async fn only_what_may_be_repeated_is_tried_again() {
    let env = placet_core::Env::system();
    let board = || BoardId::new("b").unwrap();
    let upstream = Upstream::start(&env, []).await.unwrap();
    let busy = || Answer::json(503, &json!({"error": "busy", "detail": "later"}));
    upstream.then(busy());
    upstream.then(busy());
    upstream.then(Answer::json(201, &json!({"sequence": 7, "version": null, "repeated": false})));
    let far = BoardClient::new(client(&env), &upstream.url("/v1"), board(), "ann").unwrap().retry(quick());
    let keyed = far.write(WriteRequest::new("notes", Content::NULL).key("k")).await.unwrap();
    assert_eq!(keyed.written().unwrap().sequence, 7);
    upstream.then(busy());
    let unkeyed = far.write(WriteRequest::new("notes", Content::NULL)).await;
    assert!(matches!(unkeyed, Err(BoardError::Unreachable { .. })), "{unkeyed:?}");
    assert_eq!(upstream.received().len(), 4, "a write without a key is sent once");
    let sent = &upstream.received()[0];
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("POST", "/v1/boards/b/levels/notes"));
    assert_eq!(sent.json(), json!({"writer": "ann", "content": null, "level": "notes", "idempotency_key": "k"}));
    upstream.then(Answer::bytes(502, "text/html", "<html>"));
    upstream.then(Answer::bytes(404, "text/html", "<html>"));
    let page = far.read_regions().await;
    assert!(matches!(page, Err(BoardError::Protocol { .. })), "{page:?}");
}

#[tokio::test]
async fn a_notification_is_signed_and_what_the_agent_says_is_heard() {
    let env = placet_core::Env::system();
    let upstream = Upstream::start(&env, []).await.unwrap();
    for status in [202, 503, 404] {
        upstream.then(Answer::json(status, &Value::Null));
    }
    let outgoing = Outgoing::new(client(&env)).signed_with(Secret::new("TEST", "shared"));
    let notification = serde_json::from_value(json!({
        "board_id": "b", "notification_id": 5, "agent": "ann", "from_sequence": 2, "to_sequence": 5, "regions": ["notes"]
    }))
    .unwrap();
    let address = upstream.url("/hook");
    outgoing.reach(&address, &notification).await.unwrap();
    assert!(!outgoing.reach(&address, &notification).await.unwrap_err().is_refusal);
    assert!(outgoing.reach(&address, &notification).await.unwrap_err().is_refusal);
    let sent = &upstream.received()[0];
    let shown = sent.header(placet_board::SIGNATURE_HEADER).expect("a signature");
    let seconds = shown.strip_prefix("t=").and_then(|rest| rest.split_once(',')).unwrap().0.parse().unwrap();
    assert_eq!(shown, placet_board::signature(&Secret::new("TEST", "shared"), seconds, &sent.body));
    assert_eq!(sent.json()["regions"], json!(["notes"]));
    let inside =
        Client::new(ClientOptions::default().address_policy(placet_net::AddressPolicy::public_only()), env.clone());
    let refused = Outgoing::new(inside.unwrap()).reach(&address, &notification).await.unwrap_err();
    assert!(refused.is_refusal, "an address inside is not called: {refused}");
}
