//! Streams of server-sent events: what an agent is owed, and the tail.

use crate::http::ask;
use crate::world::{World, id, write};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use placet_board::Agent;
use placet_board::http::{BoardsEndpoint, Body, Broken};
use placet_wire::sse::{SseDecoder, SseEvent};
use serde_json::Value;

/// Events as they come.
struct Events {
    pieces: BoxStream<'static, Result<Bytes, Broken>>,
    decoder: SseDecoder,
}

impl Events {
    async fn of(endpoint: &BoardsEndpoint, path: &str, last: Option<&str>) -> Self {
        let mut request = http::Request::get(path).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = endpoint.handle(request.body(Bytes::new()).unwrap()).await;
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let Body::Stream(pieces) = answer.into_body() else { panic!("no stream") };
        Events { pieces, decoder: SseDecoder::new() }
    }

    /// The next; nothing at the end.
    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(event) = self.decoder.next_event() {
                return Some(event);
            }
            self.decoder.push(&self.pieces.next().await?.unwrap()).unwrap();
        }
    }

    async fn told(&mut self) -> (String, u64, u64) {
        let event = self.next().await.unwrap();
        let told: Value = serde_json::from_str(&event.data).unwrap();
        assert_eq!(event.id.as_deref(), Some(told["notification_id"].to_string().as_str()));
        (event.id.unwrap(), told["from_sequence"].as_u64().unwrap(), told["to_sequence"].as_u64().unwrap())
    }
}

#[tokio::test]
async fn an_agent_hears_of_everything_by_one_request() {
    let world = World::memory();
    let control = world.incident().await;
    control.register(Agent::new("ann").subscribes_to(["findings"]).pulls()).await.unwrap();
    let endpoint = BoardsEndpoint::new(world.boards(), "");
    write(&control, "bob", "findings", "1").await;
    let path = "/boards/incident/agents/ann/notifications";
    let mut events = Events::of(&endpoint, path, None).await;
    assert_eq!(events.told().await, ("2".into(), 1, 2));
    // At work on the first, it is told of the next all the same, and of nothing twice.
    write(&control, "bob", "findings", "2").await;
    assert_eq!(events.told().await, ("3".into(), 1, 3));
    control.ack("ann", 3).await.unwrap();
    write(&control, "bob", "findings", "3").await;
    assert_eq!(events.told().await, ("4".into(), 4, 4));
    write(&control, "bob", "findings", "4").await;
    // Who comes back goes on after what it was given; who comes anew is told of all that it has not answered.
    assert_eq!(Events::of(&endpoint, path, Some("4")).await.told().await, ("5".into(), 4, 5));
    assert_eq!(Events::of(&endpoint, path, None).await.told().await, ("5".into(), 4, 5));
    assert_eq!(events.told().await, ("5".into(), 4, 5));
    control.abort("enough").await.unwrap();
    let end = events.next().await.unwrap();
    assert_eq!(end.event.as_deref(), Some("closed"));
    assert_eq!(serde_json::from_str::<Value>(&end.data).unwrap()["outcome"]["closed_as"], "aborted");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn who_is_owed_nothing_for_ever_is_told_so_by_the_status() {
    let world = World::memory();
    let control = world.incident().await;
    let endpoint = BoardsEndpoint::new(world.boards(), "");
    let status = async |path: &str| {
        let request = http::Request::get(path).header("accept", "text/event-stream").body(Bytes::new()).unwrap();
        endpoint.handle(request).await.status().as_u16()
    };
    assert_eq!(status("/boards/incident/agents/nobody/notifications").await, 404);
    assert_eq!(status("/boards/no/agents/ann/notifications").await, 404);
    control.abort("enough").await.unwrap();
    assert_eq!(status("/boards/incident/agents/ann/notifications").await, 410);
}

#[tokio::test]
async fn a_stream_ends_when_the_server_does() {
    let world = World::memory();
    let control = world.incident().await;
    control.register(Agent::new("ann").subscribes_to(["findings"]).pulls()).await.unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let endpoint = BoardsEndpoint::new(world.boards(), "").until(stop.clone());
    let mut events = Events::of(&endpoint, "/boards/incident/agents/ann/notifications", None).await;
    stop.cancel();
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn whoever_comes_back_to_a_tail_goes_on_where_it_was() {
    let world = World::memory();
    let control = world.incident().await;
    write(&control, "bob", "findings", "1").await;
    write(&control, "bob", "findings", "2").await;
    let endpoint = BoardsEndpoint::new(world.boards(), "");
    let mut events = Events::of(&endpoint, "/boards/incident/tail?from_sequence=1", Some("2")).await;
    assert_eq!(events.next().await.unwrap().id.as_deref(), Some("3"));
}

#[tokio::test]
async fn a_deleted_board_ends_a_stream_with_an_error() {
    let world = World::memory();
    let control = world.incident().await;
    control.register(Agent::new("ann").subscribes_to(["findings"]).pulls()).await.unwrap();
    let endpoint = BoardsEndpoint::new(world.boards(), "");
    let mut events = Events::of(&endpoint, "/boards/incident/agents/ann/notifications", None).await;
    assert_eq!(ask(&endpoint, "DELETE", "/boards/incident", "").await.status, 204);
    assert_eq!(world.boards().reader(&id("incident")).exists().await.ok(), Some(false));
    assert_eq!(events.next().await.unwrap().event.as_deref(), Some("error"));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_deleted_board_ends_a_tail_with_an_error() {
    let world = World::memory();
    let control = world.incident().await;
    write(&control, "bob", "findings", "1").await;
    let endpoint = BoardsEndpoint::new(world.boards(), "");
    let mut events = Events::of(&endpoint, "/boards/incident/tail?from_sequence=2", None).await;
    assert_eq!(events.next().await.unwrap().id.as_deref(), Some("2"));
    assert_eq!(ask(&endpoint, "DELETE", "/boards/incident", "").await.status, 204);
    // The stream waits before the clock moves.
    let (end, ()) = tokio::join!(events.next(), async { world.clock.advance(std::time::Duration::from_secs(15)) });
    let end = end.unwrap();
    assert_eq!((end.event.as_deref(), end.data.contains("unknown_board")), (Some("error"), true), "{end:?}");
    assert_eq!(events.next().await, None);
}
