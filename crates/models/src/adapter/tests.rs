#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use crate::provider::AskObserver;
use crate::vendor::chat_dialect;
use futures_util::StreamExt;
use placet_core::TurnEvent;
use placet_core::event::RetryStarted;
use placet_core::turn::Controls;
use placet_core::{Accumulator, Env, Item, Origin, Outcome, Schema, Stage, Status, ToolDefinition, ToolResult, Turn};
use placet_net::{ClientOptions, ProxySettings};
use placet_testkit::upstream::{Answer, Upstream, chat};
use serde_json::json;
use std::sync::Mutex;
use std::time::Duration;

const KEY: &str = "sk-test-2f9b61c8d04e7a35";

#[derive(Default)]
struct Heard {
    retries: Mutex<Vec<RetryStarted>>,
    omitted: Mutex<Vec<String>>,
}

impl AskObserver for Heard {
    fn retrying(&self, retry: &RetryStarted) {
        self.retries.lock().unwrap().push(retry.clone());
    }
    fn omitted(&self, what: &str) {
        self.omitted.lock().unwrap().push(what.to_owned());
    }
}

struct Bench {
    env: Env,
    upstream: Upstream,
    provider: Arc<Adapter>,
    heard: Arc<Heard>,
    context: AskContext,
}

impl Bench {
    async fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Bench::with(answers, |_| {}).await
    }

    async fn with(answers: impl IntoIterator<Item = Answer>, change: impl FnOnce(&mut AdapterOptions)) -> Self {
        let env = Env::system();
        let upstream = Upstream::start(&env, answers).await.unwrap();
        let mut options = AdapterOptions::new("mock", &upstream.url("v1")).unwrap();
        options.credential = Credential::Given(Secret::new("MOCK_API_KEY", KEY));
        options.retry.base = Duration::from_millis(1);
        change(&mut options);
        let client = Client::new(ClientOptions::new().proxies(ProxySettings::none()), env.clone()).unwrap();
        let provider = Adapter::new(options, client);
        let heard = Arc::new(Heard::default());
        let mut context = AskContext::new(env.clone());
        context.observer = Some(heard.clone());
        Bench { env, upstream, provider, heard, context }
    }

    fn request(&self) -> TurnRequest {
        let tool = ToolDefinition {
            name: "crm.lookup".into(),
            description: "d".into(),
            schema: Schema::empty_object(),
            effect: placet_core::Effect::Read,
            revision_argument: None,
            strict: None,
            cache: None,
            native: None,
        };
        TurnRequest {
            model: "m".into(),
            items: vec![Arc::new(Item::user(self.env.new_id(), "go"))],
            tools: vec![Arc::new(tool)],
            ..TurnRequest::default()
        }
    }

    async fn stream(&self) -> Result<TurnStream, ProviderError> {
        self.provider.ask(Arc::new(self.request()), self.context.clone()).await
    }

    async fn events(&self) -> Result<Vec<TurnEvent>, ProviderError> {
        Ok(self.stream().await?.collect().await)
    }

    async fn turn(&self) -> Result<Turn, ProviderError> {
        let mut accumulator = Accumulator::new();
        self.events().await?.iter().for_each(|event| accumulator.push(event));
        accumulator.finish(self.provider.id(), &self.env)
    }

    async fn error(&self) -> ProviderError {
        self.turn().await.expect_err("an error")
    }
}

fn failure(status: u16, code: &str) -> Answer {
    Answer::json(status, &json!({"error": {"message": format!("no: {code}"), "type": code, "code": code}}))
}

#[tokio::test]
async fn one_call_at_a_time_is_kept_where_the_server_has_no_word_for_it() {
    let alias = placet_wire::names::alias("crm.lookup").into_owned();
    let two = || {
        Answer::stream([
            chat::call(0, "a", &alias, &json!({"id": 7})),
            chat::call(1, "b", &alias, &json!({"id": 8})),
            chat::finish("tool_calls"),
            chat::done(),
        ])
    };
    let bench = Bench::with([two(), two()], |options| options.quirks.push(Quirk::NoParallelControl)).await;
    for (one_by_one, calls) in [(Some(false), vec!["{\"id\":7}"]), (None, vec!["{\"id\":7}", "{\"id\":8}"])] {
        let request = TurnRequest {
            controls: Controls { parallel_tool_calls: one_by_one, ..Controls::default() },
            ..bench.request()
        };
        let events: Vec<_> =
            bench.provider.ask(Arc::new(request), bench.context.clone()).await.unwrap().collect().await;
        let mut accumulator = Accumulator::new();
        events.iter().for_each(|event| accumulator.push(event));
        let turn = accumulator.finish(bench.provider.id(), &bench.env).unwrap();
        assert_eq!(turn.calls().map(|call| call.arguments.as_text()).collect::<Vec<_>>(), calls);
        let told = std::mem::take(&mut *bench.heard.omitted.lock().unwrap());
        assert_eq!(
            told.iter().any(|what| what.starts_with("parallel_tool_calls.false (kept here")),
            one_by_one.is_some()
        );
    }
    assert!(bench.upstream.received().iter().all(|asked| asked.json().get("parallel_tool_calls").is_none()));
}

/// What the bench's model asked for, put to the conversation with results of all its calls.
async fn answered(bench: &Bench, request: &mut TurnRequest) -> Vec<String> {
    let events = bench.provider.ask(Arc::new(request.clone()), bench.context.clone()).await.unwrap();
    let mut accumulator = Accumulator::new();
    events.collect::<Vec<_>>().await.iter().for_each(|event| accumulator.push(event));
    let turn = accumulator.finish(bench.provider.id(), &bench.env).unwrap();
    let calls: Vec<_> = turn.calls().cloned().collect();
    request.items.extend(turn.items);
    for call in &calls {
        let outcome = Outcome::new(Status::Completed, Stage::Execute, None, "fine");
        let result = ToolResult::of(call, outcome);
        request.items.push(Arc::new(Item::new(bench.env.new_id(), Origin::User, result)));
    }
    calls.iter().map(|call| call.arguments.as_text().to_owned()).collect()
}

#[tokio::test]
async fn calls_that_came_at_once_are_handed_on_one_by_one_without_asking_again() {
    let alias = placet_wire::names::alias("crm.lookup").into_owned();
    let three = || {
        Answer::stream([
            chat::call(0, "a", &alias, &json!({"id": 7})),
            chat::call(1, "b", &alias, &json!({"id": 8})),
            chat::call(2, "c", &alias, &json!({"id": 9})),
            chat::finish("tool_calls"),
            chat::done(),
        ])
    };
    let last = || Answer::stream([chat::text("done"), chat::finish("stop"), chat::done()]);
    let bench = Bench::with([three(), last(), three(), last(), three(), last()], |options| {
        options.quirks.push(Quirk::NoParallelControl);
    })
    .await;
    let one_by_one = |one: bool| Controls { parallel_tool_calls: one.then_some(false), ..Controls::default() };

    let mut request = TurnRequest { controls: one_by_one(true), ..bench.request() };
    for expected in [r#"{"id":7}"#, r#"{"id":8}"#, r#"{"id":9}"#] {
        assert_eq!(answered(&bench, &mut request).await, [expected]);
        assert_eq!(bench.upstream.received().len(), 1);
    }
    assert!(answered(&bench, &mut request).await.is_empty());
    let asked = bench.upstream.received().pop().unwrap().json();
    let calls = asked["messages"].as_array().unwrap().iter().filter(|message| message.get("tool_calls").is_some());
    assert_eq!(calls.count(), 3, "{asked:#}");
    assert!(!asked.to_string().contains("placet_held"), "{asked:#}");

    // Who no longer asks for one at a time gets the rest at once.
    let mut request = TurnRequest { controls: one_by_one(true), ..bench.request() };
    assert_eq!(answered(&bench, &mut request).await, [r#"{"id":7}"#]);
    request.controls = one_by_one(false);
    assert_eq!(answered(&bench, &mut request).await, [r#"{"id":8}"#, r#"{"id":9}"#]);
    assert_eq!(bench.upstream.received().len(), 3);
    assert!(answered(&bench, &mut request).await.is_empty());

    // Where the user said something in between, the model decides anew.
    let mut request = TurnRequest { controls: one_by_one(true), ..bench.request() };
    assert_eq!(answered(&bench, &mut request).await, [r#"{"id":7}"#]);
    request.items.push(Arc::new(Item::user(bench.env.new_id(), "wait")));
    assert!(answered(&bench, &mut request).await.is_empty());
    assert_eq!(bench.upstream.received().len(), 6);
}

#[tokio::test]
async fn a_streamed_answer_with_calls_usage_and_an_aliased_name() {
    let alias = placet_wire::names::alias("crm.lookup").into_owned();
    let bench = Bench::new([Answer::stream([
        chat::thinking("hm"),
        chat::text("Let me "),
        chat::text("look."),
        chat::call(0, "a", &alias, &json!({"id": 7})),
        chat::finish("tool_calls"),
        chat::usage(10, 5),
        chat::done(),
    ])])
    .await;
    let turn = bench.turn().await.unwrap();
    assert_eq!(turn.text(), "Let me look.");
    let calls: Vec<_> = turn.calls().map(|call| (call.name.as_str(), call.arguments.as_text())).collect();
    assert_eq!(calls, [("crm.lookup", "{\"id\":7}")]);
    assert_eq!(turn.usage.map(|usage| (usage.input, usage.output)), Some((10, 5)));
    assert_eq!(turn.response_id.as_deref(), Some("chatcmpl-1"));
    let [received] = &bench.upstream.received()[..] else { panic!("one request") };
    assert_eq!((received.method.as_str(), received.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(received.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(received.json()["stream_options"], json!({"include_usage": true}));
    assert_eq!(received.json()["tools"][0]["function"]["name"], alias);
}

#[tokio::test]
async fn a_server_that_answers_whole_is_read_as_well() {
    let body = json!({"model": "mock", "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]});
    let answer = Answer::json(200, &body).header("x-request-id", "req_1");
    let bench = Bench::new([answer]).await;
    let turn = bench.turn().await.unwrap();
    assert_eq!((turn.text().as_str(), turn.response_id.as_deref()), ("hello", Some("req_1")));
}

#[tokio::test]
async fn who_hears_nothing_before_the_end_asks_for_no_pieces() {
    let body = json!({"model": "mock", "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]});
    let mut bench = Bench::new([Answer::json(200, &body), Answer::stream(chat::answer("in pieces"))]).await;
    bench.context.whole = true;
    assert_eq!(bench.turn().await.unwrap().text(), "hello");
    // A server that streams all the same is read as well.
    assert_eq!(bench.turn().await.unwrap().text(), "in pieces");
    assert!(bench.upstream.received().iter().all(|received| received.json().get("stream").is_none()));
}

#[test]
fn an_answer_that_may_take_long_comes_in_pieces() {
    for (limit, streams) in [(Some(1_000), false), (Some(64_000), true), (None, true)] {
        let mut dialect = dialects::Dialect::Anthropic(placet_wire::anthropic_messages::Dialect::new("a".into()));
        dialect.ask_whole(limit);
        assert!(matches!(dialect, dialects::Dialect::Anthropic(dialect) if dialect.stream == streams), "{limit:?}");
    }
}

#[tokio::test]
async fn what_passes_is_tried_again_and_told() {
    let bench =
        Bench::new([failure(503, "overloaded"), Answer::refused(), Answer::stream(chat::answer("third time"))]).await;
    assert_eq!(bench.turn().await.unwrap().text(), "third time");
    let retries = bench.heard.retries.lock().unwrap();
    assert_eq!(retries.iter().map(|retry| retry.attempt).collect::<Vec<_>>(), [2, 3]);
    assert!(retries[0].reason.contains("503"), "{retries:?}");
    assert_eq!(bench.upstream.received().len(), 3);
}

#[tokio::test]
async fn what_does_not_pass_is_not_tried_again() {
    for (answer, kind) in [
        (failure(401, "invalid_api_key"), ErrorKind::Authentication),
        (failure(404, "model_not_found"), ErrorKind::NotFound),
        (failure(429, "insufficient_quota"), ErrorKind::QuotaExhausted),
        (failure(400, "context_length_exceeded"), ErrorKind::ContextLength),
        (Answer::bytes(200, "application/json", "<html>"), ErrorKind::Protocol),
        (Answer::bytes(200, "text/html; charset=utf-8", "<!doctype html>"), ErrorKind::Protocol),
        (Answer::bytes(200, "Text/HTML", ""), ErrorKind::Protocol),
        (Answer::stream(["  ", "\n<html><body>hello</body></html>"]), ErrorKind::Protocol),
    ] {
        let bench = Bench::new([answer.header("x-request-id", "req_9")]).await;
        let error = bench.error().await;
        assert_eq!(error.kind, kind, "{error:?}");
        assert_eq!(error.request_id.as_deref(), Some("req_9"), "{error:?}");
        assert!(!error.hints.is_empty(), "{error:?}");
        assert_eq!(bench.upstream.received().len(), 1, "{kind}");
        if kind == ErrorKind::Protocol {
            assert!(error.hints.iter().any(|hint| hint.ends_with("it usually ends with /v1")), "{error:?}");
            assert!(error.message.matches("html").count() <= 2, "the excerpt is told once: {error:?}");
        }
    }
}

#[tokio::test]
async fn the_last_error_is_told_with_how_long_to_wait() {
    let limited = || failure(429, "rate_limit_exceeded").header("retry-after-ms", "2");
    let bench = Bench::new([limited(), limited(), limited()]).await;
    let error = bench.error().await;
    assert_eq!((error.kind, error.retry_after_ms, error.status), (ErrorKind::RateLimited, Some(2), Some(429)));
    assert_eq!(bench.upstream.received().len(), 3);
    let patient = Bench::new([failure(429, "rate_limit_exceeded").header("retry-after", "3600")]).await;
    assert_eq!(patient.error().await.retry_after_ms, Some(3_600_000));
    assert_eq!(patient.upstream.received().len(), 1, "a wait beyond our patience is handed on at once");
}

#[tokio::test]
async fn an_error_before_the_first_event_is_tried_again_and_one_after_it_is_not() {
    let error = || chat::chunk(&json!({"error": {"code": 502, "message": "gone"}}));
    let bench = Bench::new([
        Answer::stream([": waiting\n\n".to_owned(), error()]),
        Answer::stream([chat::text("half"), error()]),
    ])
    .await;
    let events = bench.events().await.unwrap();
    assert!(
        matches!(events.last(), Some(TurnEvent::Failed(error)) if error.kind == ErrorKind::Unavailable),
        "{events:?}"
    );
    assert!(events.iter().any(|event| matches!(event, TurnEvent::Text(delta) if delta.text == "half")));
    assert_eq!(bench.upstream.received().len(), 2);
}

#[tokio::test]
async fn a_broken_stream_is_interrupted_unless_it_was_whole() {
    let bench = Bench::new([
        Answer::stream([chat::text("half")]).then_break(),
        Answer::stream([chat::text("half")]),
        Answer::stream([chat::text("all"), chat::finish("stop")]).then_break(),
    ])
    .await;
    for _ in 0..2 {
        assert_eq!(bench.error().await.kind, ErrorKind::Interrupted);
    }
    assert_eq!(bench.turn().await.unwrap().text(), "all");
}

#[tokio::test]
async fn cancelling_closes_the_connection() {
    let bench = Bench::new([Answer::stream([chat::text("half")]).then_silence()]).await;
    let mut stream = bench.stream().await.unwrap();
    assert!(matches!(stream.next().await, Some(TurnEvent::Started(_))));
    assert!(matches!(stream.next().await, Some(TurnEvent::Text(_))));
    bench.context.cancel.cancel();
    let end = stream.next().await;
    assert!(matches!(&end, Some(TurnEvent::Failed(error)) if error.kind == ErrorKind::Cancelled), "{end:?}");
    assert!(stream.next().await.is_none());
    bench.upstream.hung_up(1).await;
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let bench = Bench::new([Answer::stream([chat::text("half")]).then_silence()]).await;
    let mut stream = bench.stream().await.unwrap();
    stream.next().await;
    drop(stream);
    bench.upstream.hung_up(1).await;
}

#[tokio::test]
async fn cancelling_before_an_answer_ends_the_question() {
    let bench = Bench::new([]).await;
    bench.context.cancel.cancel();
    assert_eq!(bench.error().await.kind, ErrorKind::Cancelled);
    assert!(bench.upstream.received().is_empty());
}

#[tokio::test]
async fn one_connection_serves_one_answer_after_the_other() {
    let bench = Bench::new((0..3).map(|_| Answer::stream(chat::answer("yes")))).await;
    for _ in 0..3 {
        assert_eq!(bench.turn().await.unwrap().text(), "yes");
    }
    assert_eq!(bench.upstream.connections(), 1);
}

#[tokio::test]
async fn a_silent_server_runs_out_of_time() {
    let idle = Timeouts { idle: Some(Duration::from_millis(30)), ..Timeouts::default() };
    let bench = Bench::with([Answer::stream([chat::text("half")]).then_silence()], |options| {
        options.timeouts = Some(idle);
    })
    .await;
    assert_eq!(bench.error().await.kind, ErrorKind::Timeout);
    bench.upstream.hung_up(1).await;
}

#[tokio::test]
async fn no_error_shows_the_key_however_the_server_quotes_it() {
    let quoted = format!("Incorrect API key provided: {KEY}. You can find yours at …");
    let late = chat::chunk(&json!({"error": {"message": quoted, "code": KEY}}));
    let bench = Bench::with(
        [
            Answer::json(401, &json!({"error": {"message": quoted, "code": "invalid_api_key"}})),
            Answer::bytes(400, "text/plain", format!("{}{KEY}", "x".repeat(4090))),
            Answer::bytes(200, "application/json", format!("{}{KEY}", "x".repeat(190))),
            Answer::stream([chat::text("half"), late]),
        ],
        |options| options.retry = RetryPolicy::none(),
    )
    .await;
    for _ in 0..4 {
        let error = bench.error().await;
        let shown = format!("{error} {error:?} {}", serde_json::to_string(&error).unwrap());
        // Not even the beginning of it, at the edge of a cut.
        assert!(!shown.contains("sk-test-2f9b"), "{shown}");
    }
    let shown = format!("{:?}", bench.provider);
    assert!(!shown.contains(KEY), "{shown}");
}

#[tokio::test]
async fn what_is_left_out_is_told_and_what_cannot_be_is_refused_unsent() {
    let quirks = vec![Quirk::NoSampling, Quirk::NoForcedChoice];
    let bench = Bench::with([Answer::stream(chat::answer("yes"))], |options| options.quirks = quirks).await;
    let controls = Controls { temperature: Some(0.1), ..Controls::default() };
    let request = TurnRequest { controls, ..bench.request() };
    let answer = bench.provider.ask(Arc::new(request.clone()), bench.context.clone()).await.unwrap();
    drop(answer);
    assert!(bench.heard.omitted.lock().unwrap()[0].starts_with("temperature"));
    let forced = TurnRequest { tool_choice: placet_core::ToolChoice::Required, ..request };
    let refused = bench.provider.ask(Arc::new(forced), bench.context.clone()).await;
    assert_eq!(refused.err().unwrap().kind, ErrorKind::Unsupported);
    assert_eq!(bench.upstream.received().len(), 1);
}

#[tokio::test]
async fn models_are_listed() {
    let bench = Bench::new([
        Answer::json(200, &json!({"data": [{"id": "a"}, {"id": "b", "description": "big"}]})),
        failure(401, "invalid_api_key"),
    ])
    .await;
    let models = bench.provider.models(bench.context.clone()).await.unwrap();
    assert_eq!(models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(bench.upstream.received()[0].path, "/v1/models");
    let error = bench.provider.models(bench.context.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Authentication);
}

fn dialect(options: &AdapterOptions, model: &str) -> placet_wire::openai_chat::Dialect {
    chat_dialect(&options.id, &options.quirks_of(model).collect::<Vec<_>>())
}

#[test]
fn quirks_of_a_model_come_on_top_of_its_vendors() {
    let lookup: Lookup = Arc::new(|_| None);
    let options = AdapterOptions::of_vendor(crate::vendor::vendor("openai").unwrap(), &lookup).unwrap();
    let (plain, thinking) = (dialect(&options, "gpt-4.1"), dialect(&options, "gpt-5.4"));
    assert!(plain.sampling && !plain.reasoning_effort);
    assert!(!thinking.sampling && thinking.reasoning_effort);
    assert_eq!(options.base_url.to_string(), "https://api.openai.com/v1");
}

#[test]
fn a_server_of_ones_own_needs_no_key() {
    let lookup: Lookup = Arc::new(|name| (name == "OPENAI_BASE_URL").then(|| "http://localhost:8080/v1".to_owned()));
    let options = AdapterOptions::of_vendor(crate::vendor::vendor("openai").unwrap(), &lookup).unwrap();
    assert_eq!(options.credential.resolve(&options.id), Ok(None));
    let lookup: Lookup = Arc::new(|_| None);
    let options = AdapterOptions::of_vendor(crate::vendor::vendor("openai").unwrap(), &lookup).unwrap();
    assert!(options.credential.resolve(&options.id).is_err());
}

#[test]
fn a_compatible_server_is_told_the_limit_by_the_name_that_all_know() {
    use placet_wire::openai_chat::OutputLimit;
    let limit = |base: Option<&'static str>, model: &str| {
        let lookup: Lookup = Arc::new(move |name| base.filter(|_| name == "OPENAI_BASE_URL").map(str::to_owned));
        let options = AdapterOptions::of_vendor(crate::vendor::vendor("openai").unwrap(), &lookup).unwrap();
        dialect(&options, model).output_limit
    };
    assert_eq!(limit(None, "gpt-4.1"), OutputLimit::MaxCompletionTokens);
    assert_eq!(limit(Some("http://localhost:8080/v1"), "llama"), OutputLimit::MaxTokens);
    assert_eq!(limit(Some("http://proxy.local/v1"), "gpt-5.4"), OutputLimit::MaxCompletionTokens);
}

#[test]
fn tools_that_take_a_text_go_to_openai_itself_alone() {
    let takes = |vendor: &str, base: Option<&'static str>| {
        let lookup: Lookup = Arc::new(move |name| base.filter(|_| name == "OPENAI_BASE_URL").map(str::to_owned));
        let options = AdapterOptions::of_vendor(crate::vendor::vendor(vendor).unwrap(), &lookup).unwrap();
        dialect(&options, "m").custom_tools
    };
    assert!(takes("openai-chat", None));
    assert!(!takes("openai-chat", Some("http://localhost:8080/v1")));
    assert!(!takes("groq", None) && !takes("deepseek", None));
    assert!(!chat_dialect(&"own".into(), &[]).custom_tools);
}

#[tokio::test]
async fn texts_become_vectors_in_as_many_requests_as_it_takes() {
    use placet_core::embedding::EmbeddingRequest;
    let answer = |count: usize| {
        let data: Vec<_> = (0..count).map(|index| json!({"index": index, "embedding": [index, 0.5]})).collect();
        Answer::json(200, &json!({"model": "e-1", "data": data, "usage": {"prompt_tokens": 3, "total_tokens": 3}}))
    };
    let bench = Bench::new([answer(2048), answer(2), answer(1)]).await;
    let request = |count: usize| EmbeddingRequest {
        model: "e".into(),
        inputs: (0..count).map(|number| number.to_string()).collect(),
        dimensions: Some(2),
        ..EmbeddingRequest::default()
    };
    let made = bench.provider.embed(request(2050), bench.context.clone()).await.unwrap();
    assert_eq!((made.vectors.len(), &made.vectors[2049]), (2050, &vec![1.0, 0.5]));
    assert_eq!((made.model.as_deref(), made.usage.map(|usage| usage.input)), (Some("e-1"), Some(6)));
    let received = bench.upstream.received();
    assert_eq!(received[0].path, "/v1/embeddings");
    assert_eq!(
        (received[1].json()["input"].as_array().unwrap().len(), received[1].json()["dimensions"].as_u64()),
        (2, Some(2))
    );
    let error = bench.provider.embed(request(2), bench.context.clone()).await.unwrap_err();
    assert!(error.kind == ErrorKind::Protocol && error.message.contains("1 vectors"), "{error}");
    let echo = crate::EchoModel::default();
    let error = echo.embed(request(1), bench.context.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}
