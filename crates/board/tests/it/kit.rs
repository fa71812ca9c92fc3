//! The kit that agents are made with: the same agent as a task, as a service and as a puller.

use crate::http::{client, served};
use crate::world::{id, json, write};
use bytes::Bytes;
use placet_board::http::BoardsEndpoint;
use placet_board::kit::{Decide, Inbox, decide, pull, run_beside};
use placet_board::{
    Agent, AgentBoard, BoardClient, BoardError, BoardSpec, Boards, BoardsOptions, Bounds, Content, Control,
    DeliveryFailure, Limits, Notification, Region, SIGNATURE_HEADER, Transport, WriteRequest, signature,
};
use placet_core::{Env, Secret};
use placet_store::{MemoryStore, SharedStore, Tenant};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

struct Place {
    env: Env,
    store: SharedStore,
}

impl Place {
    fn new() -> Self {
        let env = Env::system();
        Place { store: Arc::new(MemoryStore::new(env.clock().clone())), env }
    }

    fn boards(&self, options: BoardsOptions) -> Boards {
        Boards::with_options(self.store.clone(), Tenant::new("acme"), &self.env, options)
    }

    async fn board(&self, options: BoardsOptions) -> Control {
        let spec =
            BoardSpec::new(Limits::default()).region(Region::level("questions")).region(Region::level("answers"));
        self.boards(options).open(&id("incident"), &spec).await.unwrap()
    }
}

/// Writes one answer for each question that it is told of. The first time it fails, and the second time it panics.
fn answering() -> Arc<dyn Decide> {
    let tries = Arc::new(AtomicU32::new(0));
    decide(move |board: Arc<dyn AgentBoard>, notification: Notification| {
        let tries = tries.clone();
        async move {
            match tries.fetch_add(1, Ordering::SeqCst) {
                0 => return Err(BoardError::Rule { problem: "its model is away".to_owned() }),
                1 => panic!("a bug of an agent"),
                _ => {}
            }
            let questions = board.read_level("questions", Bounds::from(notification.from_sequence)).await?;
            for question in questions.items {
                let answer = WriteRequest::new("answers", Content::of(&format!("to {}", question.content))?);
                board.write(answer.key(question.sequence.to_string())).await?;
            }
            Ok(())
        }
    })
}

/// Asks, and waits until the agent has answered and acknowledged.
async fn asks(control: &Control) {
    let asked = write(control, "bob", "questions", "1").await.sequence;
    let reader = control.reader();
    loop {
        let decided = control.decisions(0, 1000).await.unwrap().last().unwrap().number;
        if control.agents().await.unwrap()[0].acknowledged_through >= asked {
            break;
        }
        reader.decided_past(decided).await.unwrap();
    }
    let answers = reader.read_level("answers", Bounds::default()).await.unwrap().items;
    let written = |content: &Content| content.as_str().to_owned();
    assert_eq!(answers.iter().map(|answer| written(&answer.content)).collect::<Vec<_>>(), ["\"to 1\""]);
    assert_eq!(answers[0].writer.as_deref(), Some("ann"));
}

fn ann() -> Agent {
    Agent::new("ann").subscribes_to(["questions"]).writes_to(["answers"])
}

#[tokio::test]
async fn an_agent_beside_its_board_answers_what_it_failed_at() {
    let place = Place::new();
    let control = place.board(BoardsOptions::default()).await;
    let running = run_beside(&control, &place.env, ann(), answering()).await.unwrap();
    asks(&control).await;
    running.stop().await;
}

#[tokio::test]
async fn an_agent_that_pulls_answers_what_it_failed_at() {
    let place = Place::new();
    let control = place.board(BoardsOptions::default()).await;
    control.register(ann().pulls()).await.unwrap();
    let base = served(BoardsEndpoint::new(place.boards(BoardsOptions::default()), "/v1")).await;
    let far = BoardClient::new(client(&place.env), &base, id("incident"), "ann").unwrap();
    let running = pull(&place.env, far, answering());
    asks(&control).await;
    running.stop().await;
}

/// Hands notifications to an inbox as they would come over a network.
struct Post {
    inbox: Inbox,
    env: Env,
    secret: Secret,
}

#[async_trait::async_trait]
impl Transport for Post {
    async fn reach(&self, address: &str, notification: &Notification) -> Result<(), DeliveryFailure> {
        let body = serde_json::to_vec(notification).unwrap();
        let seconds = self.env.now().as_millis().div_euclid(1000);
        let signed = signature(&self.secret, seconds, &body);
        let request = http::Request::post(address).header(SIGNATURE_HEADER, signed).body(Bytes::from(body)).unwrap();
        match self.inbox.handle(&request).status().as_u16() {
            202 => Ok(()),
            status => Err(DeliveryFailure::refused(status.to_string())),
        }
    }
}

#[tokio::test]
async fn an_agent_that_is_called_answers_what_it_failed_at() {
    let (place, secret) = (Place::new(), Secret::new("TEST", "secret"));
    let agents_board = place.board(BoardsOptions::default()).await.as_agent("ann");
    let inbox = Inbox::new(&place.env, agents_board, answering(), Some(secret.clone()));
    let post = Post { inbox, env: place.env.clone(), secret };
    let control = place.board(BoardsOptions::default().transport(Arc::new(post))).await;
    control.register(ann().address("http://ann")).await.unwrap();
    asks(&control).await;
}

#[tokio::test]
async fn an_inbox_takes_only_what_is_signed_and_young() {
    let (place, secret) = (Place::new(), Secret::new("TEST", "secret"));
    let board = place.board(BoardsOptions::default()).await.as_agent("ann");
    let inbox = Inbox::new(&place.env, board, decide(|_, _| async { Ok(()) }), Some(secret.clone()));
    let told = Notification {
        board_id: id("incident"),
        notification_id: 1,
        agent: "ann".into(),
        from_sequence: 1,
        to_sequence: 1,
        regions: ["questions".to_owned()].into(),
    };
    let body = serde_json::to_vec(&told).unwrap();
    let now = place.env.now().as_millis().div_euclid(1000);
    let post = |signed: Option<String>, body: &[u8]| {
        let request = http::Request::post("/").header("x-other", "1");
        let request = signed.into_iter().fold(request, |request, signed| request.header(SIGNATURE_HEADER, signed));
        inbox.handle(&request.body(Bytes::copy_from_slice(body)).unwrap()).status().as_u16()
    };
    assert_eq!(post(Some(signature(&secret, now, &body)), &body), 202);
    assert_eq!(post(None, &body), 401);
    assert_eq!(post(Some(signature(&Secret::new("TEST", "other"), now, &body)), &body), 401);
    assert_eq!(post(Some(signature(&secret, now - 301, &body)), &body), 401, "it is old");
    assert_eq!(post(Some(signature(&secret, now + 400, &body)), &body), 401, "it is of another time");
    let other = json("{}");
    assert_eq!(post(Some(signature(&secret, now, &body)), other.as_bytes()), 401, "it is of another body");
    assert_eq!(post(Some(signature(&secret, now, other.as_bytes())), other.as_bytes()), 400);
    for junk in ["", "t=,v1=", "t=9223372036854775807,v1=00", "t=-9223372036854775808,v1=00", "v1=00"] {
        assert_eq!(post(Some(junk.to_owned()), &body), 401, "{junk}");
    }
}
