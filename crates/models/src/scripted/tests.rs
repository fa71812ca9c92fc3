#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use placet_core::env::ManualClock;
use placet_core::{Accumulator, Env, Item, Timestamp, Turn};
use serde_json::json;

async fn turn(model: &dyn ModelProvider, request: TurnRequest, env: &Env) -> Result<Turn, ProviderError> {
    let events: Vec<TurnEvent> = model.ask(Arc::new(request), AskContext::new(env.clone())).await?.collect().await;
    let mut accumulator = Accumulator::new();
    events.iter().for_each(|event| accumulator.push(event));
    accumulator.finish(model.id(), env)
}

fn question(env: &Env) -> TurnRequest {
    TurnRequest { items: vec![Arc::new(Item::user(env.new_id(), "go"))], ..TurnRequest::default() }
}

#[tokio::test]
async fn turns_come_one_after_the_other_and_requests_are_kept() {
    let env = Env::system();
    let usage = Usage { input: 3, output: 4, ..Usage::default() };
    let model = ScriptedModel::new(Script::new([
        ScriptTurn {
            text: vec!["Let me ".into(), "look.".into()],
            reasoning: Some("hm".into()),
            ..ScriptTurn::default()
        }
        .and_call("list", json!({"path": "."}))
        .and_call("odd", json!("{\"half\": "))
        .with_usage(usage),
        ScriptTurn::fail(ErrorKind::RateLimited, "slow down"),
        ScriptTurn { fail: ScriptTurn::fail(ErrorKind::Overloaded, "later").fail, ..ScriptTurn::text("half") },
        ScriptTurn::text("half").cut(),
        ScriptTurn::text("long").with_stop(StopReason::MaxTokens),
    ]));
    let first = turn(&*model, question(&env), &env).await.unwrap();
    assert_eq!(
        (first.text().as_str(), &first.stop, first.usage),
        ("Let me look.", &StopReason::ToolCalls, Some(usage))
    );
    let calls: Vec<_> = first.calls().map(|call| (call.name.as_str(), call.arguments.as_text())).collect();
    assert_eq!(calls, [("list", "{\"path\":\".\"}"), ("odd", "{\"half\": ")]);
    for kind in [ErrorKind::RateLimited, ErrorKind::Overloaded, ErrorKind::Interrupted] {
        assert_eq!(turn(&*model, question(&env), &env).await.unwrap_err().kind, kind);
    }
    assert!(turn(&*model, question(&env), &env).await.unwrap().stop.is_cut());
    let over = turn(&*model, question(&env), &env).await.unwrap_err();
    assert!(over.message.contains("turn 6"), "{over}");
    assert_eq!(model.requests().len(), 6);
}

#[tokio::test]
async fn a_script_that_follows_the_conversation_knows_its_place() {
    let env = Env::system();
    let script =
        || Script::new([ScriptTurn::call("f", json!({})), ScriptTurn::text("done")]).following_the_conversation();
    let mut request = question(&env);
    for _ in 0..2 {
        assert_eq!(turn(&*ScriptedModel::new(script()), request.clone(), &env).await.unwrap().calls().count(), 1);
    }
    let first = turn(&*ScriptedModel::new(script()), request.clone(), &env).await.unwrap();
    request.items.extend(first.items);
    request.items.push(Arc::new(Item::user(env.new_id(), "and?")));
    assert_eq!(turn(&*ScriptedModel::new(script()), request, &env).await.unwrap().text(), "done");
}

#[tokio::test]
async fn a_file_holds_a_script_and_a_wrong_one_is_told() {
    let env = Env::system();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("turns.json");
    let script = r#"{"turns": [
        {"text": "one", "usage": {"input": 2}},
        {"text": ["t", "wo"], "calls": [{"name": "f", "arguments": {"x": 1}, "id": "a"}], "stop": "end"},
        {"fail": {"kind": "overloaded", "message": "later", "retry_after_ms": 5}}
    ]}"#;
    std::fs::write(&path, script).unwrap();
    let files = ScriptFiles::default();
    let request = || TurnRequest { model: path.display().to_string(), ..question(&env) };
    assert_eq!(turn(&files, request(), &env).await.unwrap().text(), "one");
    let second = turn(&files, request(), &env).await.unwrap();
    assert_eq!((second.text().as_str(), second.calls().count()), ("two", 1));
    assert_eq!(turn(&files, request(), &env).await.unwrap_err().retry_after_ms, Some(5));
    let missing = turn(&files, TurnRequest { model: "nowhere.json".into(), ..question(&env) }, &env).await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    assert!(Script::parse(r#"{"turns": [{"txt": "x"}]}"#).unwrap_err().contains("txt"));
    let parsed = Script::parse(script).unwrap();
    assert_eq!(Script::parse(&serde_json::to_string(&parsed).unwrap()).unwrap(), parsed);
}

#[tokio::test]
async fn a_delay_is_on_the_clock_that_is_passed_in_and_can_be_cancelled() {
    let clock = ManualClock::new(Timestamp::EPOCH);
    let env = Env::deterministic(clock.clone(), 1);
    let delayed = || ScriptedModel::new(Script::new([ScriptTurn::text("late").with_delay(Duration::from_secs(5))]));
    let model = delayed();
    let mut asking = Box::pin(turn(&*model, question(&env), &env));
    assert!(futures_util::poll!(&mut asking).is_pending());
    clock.advance(Duration::from_secs(5));
    assert_eq!(asking.await.unwrap().text(), "late");
    let context = AskContext::new(env.clone());
    context.cancel.cancel();
    let model = delayed();
    let asked = model.ask(Arc::new(question(&env)), context).await;
    assert_eq!(asked.err().map(|error| error.kind), Some(ErrorKind::Cancelled));
}

#[tokio::test]
async fn cancelling_ends_an_answer_in_its_middle() {
    let env = Env::system();
    let model =
        ScriptedModel::new(Script::new([ScriptTurn { text: vec!["a".into(), "b".into()], ..ScriptTurn::default() }]));
    let context = AskContext::new(env.clone());
    let mut stream = model.ask(Arc::new(question(&env)), context.clone()).await.unwrap();
    stream.next().await;
    stream.next().await;
    context.cancel.cancel();
    let rest: Vec<TurnEvent> = stream.collect().await;
    assert!(matches!(&rest[..], [TurnEvent::Failed(error)] if error.kind == ErrorKind::Cancelled), "{rest:?}");
}
