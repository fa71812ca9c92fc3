//! What a stranger, or somebody in a hurry, may send: it is refused, says why, changes nothing and gives nothing away.

use crate::http::{ask, ask_as, incident};
use crate::world::{World, id, json, limits, spec};
use placet_board::http::{BoardsEndpoint, Grant, Tokens};
use placet_board::rules::{StoredRule, StoredRules, StoredTermination};
use placet_board::{
    Agent, BoardError, BoardSpec, BoardsOptions, MAX_DEPTH, Outgoing, Region, SetRequest, WriteRequest,
};
use placet_core::{Digest, Env};
use placet_net::{AddressPolicy, Client, ClientOptions};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn a_malformed_body_gives_away_nothing_to_whoever_may_not_look() {
    let world = World::memory();
    let names = |name: &str| Some(BTreeSet::from([name.to_owned()]));
    let elsewhere = Grant { boards: names("other"), ..Grant::default() };
    let endpoint =
        incident(&world).await.access(Arc::new(Tokens::new().with(Digest::of(b"elsewhere").to_hex(), elsewhere)));
    for board in ["inc%2F1", "no"] {
        for (method, rest) in [("POST", "levels/notes"), ("PUT", "premises/phase"), ("POST", "acknowledgements")] {
            let path = format!("/v1/boards/{board}/{rest}");
            for (token, status) in [(None, 401), (Some("wrong"), 401), (Some("elsewhere"), 403)] {
                let answer = ask_as(&endpoint, token, method, &path, "{").await;
                assert_eq!(answer.status, status, "{token:?} {method} {path}: {}", answer.body);
            }
        }
    }
}

#[tokio::test]
async fn bodies_of_ours_are_objects_with_fields_that_are_known() {
    let world = World::memory();
    let endpoint = incident(&world).await;
    let at = "/v1/boards/inc%2F1";
    for (method, rest, body) in [
        ("PUT", "/regions/more", r#"["level", 0]"#),
        ("PUT", "/regions/more", r#"{"kind": "level", "window": 3}"#),
        ("PUT", "/agents/ann", r#"[null, null, null, null, null, true]"#),
        ("PUT", "/agents/ann", r#"{"subscribe_to": ["notes"]}"#),
        ("POST", "/abort", r#"["enough"]"#),
        ("PUT", "", "[]"),
        ("PUT", "", r#"{"regoins": []}"#),
        ("PUT", "", r#"{"regions": [{"kind": "level"}]}"#),
        ("PUT", "", r#"{"regions": [{"name": "more", "kind": "level", "window": 3}]}"#),
        ("PUT", "", r#"{"agents": [{"name": "ann", "writes": []}]}"#),
        ("PUT", "", r#"{"rules": {"admision": [{"expression": "false"}]}}"#),
        ("PUT", "", r#"{"limits": {"idle": 3}}"#),
    ] {
        let answer = ask(&endpoint, method, &format!("{at}{rest}"), body).await;
        assert_eq!(answer.status, 400, "{method} {rest} {body}: {}", answer.body);
    }
    let board = ask(&endpoint, "GET", at, "").await.json();
    assert_eq!((board["regions"].as_array().unwrap().len(), board["agents"].as_array().unwrap().len()), (2, 0));
    assert_eq!(board["open"], true);
}

#[tokio::test]
async fn what_could_never_work_is_told_when_a_board_is_opened() {
    let world = World::memory();
    let rule = |rule: StoredRule| spec().rules(StoredRules::new().rule(rule));
    let ends = |ends: StoredTermination| spec().rules(StoredRules::new().termination(ends));
    let (text, url) = (|text: &str| Some(text.to_owned()), |url: &str| Some(url.to_owned()));
    let window = Duration::from_secs(u64::MAX);
    for (spec, told) in [
        (rule(StoredRule { webhook: url("nowhere"), ..StoredRule::default() }), "nowhere"),
        (rule(StoredRule { webhook: url("ftp://rules"), ..StoredRule::default() }), "scheme"),
        (rule(StoredRule { expression: text("contents.n > 1"), ..StoredRule::default() }), "contents is not known"),
        (rule(StoredRule { expression: text("premises.goal == 1"), ..StoredRule::default() }), "premises is not known"),
        (
            ends(StoredTermination { expression: text("content == 1"), ..StoredTermination::default() }),
            "content is not",
        ),
        (ends(StoredTermination { webhook: url("nowhere"), ..StoredTermination::default() }), "nowhere"),
        (spec().region(Region::level("slow").window(window)), "batch window"),
    ] {
        let error = world.boards().open(&id("new"), &spec).await.unwrap_err();
        assert!(matches!(error, BoardError::InvalidSpec { .. }) && error.to_string().contains(told), "{error}");
        assert!(world.boards().list(None, 10).await.unwrap().is_empty());
    }
    let control = world.incident().await;
    let declared = control.declare(&Region::level("slow").window(window)).await;
    assert!(matches!(declared, Err(BoardError::InvalidSpec { .. })));
    let known = rule(StoredRule {
        expression: text("has(content.n) || [size, -expected_version] == [1, len(lower(writer))] && !(region == kind)"),
        ..StoredRule::default()
    });
    world.boards().open(&id("new"), &known).await.unwrap();
}

#[tokio::test]
async fn a_board_has_only_so_many_regions_and_agents() {
    let world = World::memory();
    let many = (0..2001).fold(spec(), |spec, number| spec.region(Region::level(format!("more-{number}"))));
    let agents = (0..2001).fold(spec(), |spec, number| spec.agent(Agent::new(format!("a-{number}")).pulls()));
    for spec in [many, agents] {
        let opened = world.boards().open(&id("new"), &spec).await;
        assert!(matches!(opened, Err(BoardError::InvalidSpec { .. })), "{opened:?}");
    }
    assert!(world.boards().list(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn content_lies_only_so_deep() {
    let world = World::memory();
    let control = world.incident().await;
    let nested = |depth: usize| json(&("[".repeat(depth) + &"]".repeat(depth)));
    control.write("ann", &WriteRequest::new("findings", nested(MAX_DEPTH))).await.unwrap().written().unwrap();
    let deep = nested(MAX_DEPTH + 1);
    let written = control.write("ann", &WriteRequest::new("findings", deep.clone())).await;
    assert!(matches!(written, Err(BoardError::TooDeep { .. })));
    assert!(matches!(
        control.set_premise("ann", &SetRequest::new("goal", deep.clone(), 1)).await,
        Err(BoardError::TooDeep { .. })
    ));
    let opening = BoardSpec::new(limits()).premise("goal", deep.clone());
    assert!(matches!(world.boards().open(&id("new"), &opening).await, Err(BoardError::TooDeep { .. })));
    let endpoint = BoardsEndpoint::new(world.boards(), "");
    let body = format!(r#"{{"writer": "ann", "content": {deep}}}"#);
    assert_eq!(ask(&endpoint, "POST", "/boards/incident/levels/findings", &body).await.status, 400);
    assert_eq!(control.reader().head().await.unwrap(), 2);
}

#[tokio::test]
async fn an_agent_that_can_never_be_called_is_not_registered() {
    let world = World::memory();
    let policy = AddressPolicy::public_only().allow_host("10.0.0.7");
    let client = Client::new(ClientOptions::default().address_policy(policy), Env::system()).unwrap();
    let boards = world.boards_with(BoardsOptions::default().transport(Arc::new(Outgoing::new(client))));
    let control = boards.open(&id("incident"), &spec()).await.unwrap();
    for address in [
        "nowhere",
        "file:///etc/passwd",
        "http://127.0.0.1:8080/",
        "http://localhost/",
        "http://[::1]/",
        "http://169.254.169.254/",
        "http://10.0.0.8/",
    ] {
        let agent = Agent::new("ann").address(address).subscribes_to(["findings"]);
        let refused = control.register(agent.clone()).await;
        assert!(matches!(refused, Err(BoardError::InvalidSpec { .. })), "{address}: {refused:?}");
        // A board that is opened with it is not half opened.
        assert!(boards.open(&id("new"), &spec().agent(agent)).await.is_err());
        assert!(!boards.reader(&id("new")).exists().await.unwrap(), "{address}");
    }
    assert!(control.agents().await.unwrap().is_empty());
    for address in ["http://10.0.0.7/", "https://agents.example/ann"] {
        control.register(Agent::new("ann").address(address).subscribes_to(["findings"])).await.unwrap();
    }
}
