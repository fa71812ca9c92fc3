//! The rules of the loop: rounds, limits, ends.

use crate::support::{Say, Silent, echo_tool, kinds, results, scripted, world};
use async_trait::async_trait;
use placet_core::event::{Event, EventBody};
use placet_core::hosted::{HostedTool, McpUse, RemoteMcp};
use placet_core::item::HostedCall;
use placet_core::price::Meter;
use placet_core::tool::Schema;
use placet_core::turn::{TextDelta, TurnFinished, TurnStarted, WholeItem};
use placet_core::{
    Billing, Cursor, Effect, ErrorKind, ItemBody, Limits, Markup, ModelPrice, Money, ProviderError, ProviderId, Reason,
    RunId, Status, StopReason, ToolChoice, ToolDefinition, TurnEvent, TurnRequest, Usage,
};
use placet_models::{AskContext, ModelListing, ModelProvider, ScriptTurn, TurnStream};
use placet_runtime::{Ending, RuntimeError};
use placet_tools::{Bounds, Capability, Grant, Lifecycle, PolicyFn, Verdict, capability, tool};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn outer() -> ToolDefinition {
    ToolDefinition {
        name: "outer".into(),
        description: "Somebody else's.".into(),
        schema: Schema::empty_object(),
        effect: Effect::Read,
        revision_argument: None,
        strict: None,
        cache: None,
        native: None,
    }
}

/// Answers with what an MCP server gave the provider, and keeps what it was asked.
#[derive(Debug)]
struct Hosting {
    id: ProviderId,
    asked: Mutex<Vec<Arc<TurnRequest>>>,
}

#[async_trait]
impl ModelProvider for Hosting {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    async fn ask(&self, request: Arc<TurnRequest>, _context: AskContext) -> Result<TurnStream, ProviderError> {
        self.asked.lock().unwrap().push(request);
        let held = |index: u32, kind: &str, value: serde_json::Value| {
            let call = HostedCall { provider: self.id().clone(), kind: kind.into(), value };
            TurnEvent::Whole(Box::new(WholeItem { index, body: call.into() }))
        };
        let events = vec![
            TurnEvent::Started(TurnStarted::default()),
            held(0, "mcp_list_tools", json!({"server_label": "crm", "tools": [{"name": "find"}]})),
            held(1, "mcp_call", json!({"server_label": "crm", "name": "find", "error": "no such person"})),
            held(2, "mcp_call", json!({"server_label": "crm", "name": "find", "output": "Anna"})),
            TurnEvent::Text(TextDelta { index: 3, text: "Anna.".into() }),
            TurnEvent::Finished(TurnFinished::new(StopReason::End)),
        ];
        Ok(Box::pin(futures_util::stream::iter(events)))
    }

    async fn models(&self, _context: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        Ok(Vec::new())
    }
}

/// A run offers the provider's own tools; its result tells what became of the MCP servers among them, and no record holds a
/// credential.
#[tokio::test]
async fn the_result_tells_of_the_servers_that_the_provider_talked_to() {
    let world = world();
    let provider = Arc::new(Hosting { id: "hosting".into(), asked: Mutex::default() });
    let server = HostedTool::RemoteMcp(RemoteMcp {
        label: "crm".into(),
        url: Some("https://crm.example".into()),
        authorization: Some("token-0123456789".into()),
        ..RemoteMcp::default()
    });
    let runtime = world.builder(provider.clone()).build();
    let result = runtime.run("hosting:m").input("who?").hosted(server.clone()).await.unwrap();
    assert_eq!(result.text, "Anna.");
    let crm =
        McpUse { server: "crm".into(), listings: 1, tools: vec!["find".into()], calls: 2, failures: 1, approvals: 0 };
    assert_eq!(result.mcp, [crm]);
    assert_eq!(provider.asked.lock().unwrap()[0].hosted, [server]);
    world.check(&result).await;
    let journal = world.journal(&result.run).await;
    let records = format!("{:?}", journal.records());
    assert!(records.contains("remote_mcp:crm") && !records.contains("token-0123456789"));
}

/// A run's record tells what is billed for it beside what it costs: at rates of its own, or with a markup on the cost.
#[tokio::test]
async fn what_is_billed_for_a_run_stands_in_its_record() {
    let world = world();
    let usage = Usage { input: 1_000_000, output: 100_000, ..Usage::default() };
    let turns = || {
        let asks = ScriptTurn::call("echo", json!({"word": "a"})).with_usage(usage);
        vec![asks, ScriptTurn::text("Done.").with_usage(usage)]
    };
    let price = |input: &str, output: &str| {
        let rate = |text: &str| text.parse().unwrap();
        ModelPrice::new().with(Meter::Input, None, None, rate(input)).with(Meter::Output, None, None, rate(output))
    };
    let markup = Markup {
        multiplier: "1.5".parse().unwrap(),
        fixed_per_run: "0.005".parse().unwrap(),
        round_to: Some(2),
        ..Markup::default()
    };
    let money = |text: &str| Some(Money::parse(text).unwrap());
    let nothing_of_output = ModelPrice::new().with(Meter::Input, None, None, "1".parse().unwrap());
    for (rates, billing, cost, billed) in [
        // Two turns, each of 2 and of 1 dollar; once half as much again, and half a cent for the whole run.
        (Some(price("2", "10")), Some(Billing::Markup(markup.clone())), money("6"), money("9.01")),
        (Some(price("2", "10")), Some(Billing::Rates(Arc::new(price("5", "0")))), money("6"), money("10")),
        (None, Some(Billing::Rates(Arc::new(price("5", "0")))), None, money("10")),
        (None, Some(Billing::Markup(markup)), None, None),
        (None, Some(Billing::Rates(Arc::new(nothing_of_output))), None, None),
        (Some(price("2", "10")), None, money("6"), None),
    ] {
        let result = world
            .runtime(turns())
            .run("scripted:m")
            .input("hi")
            .tool(echo_tool("echo").0)
            .rates(rates.map(Arc::new))
            .billing(billing.clone())
            .await
            .unwrap();
        assert_eq!((result.cost, result.billed), (cost, billed), "{billing:?}");
        world.check(&result).await;
    }
}

#[tokio::test]
async fn a_text_run_is_two_commits_and_its_result_is_the_fold_of_its_events() {
    let world = world();
    let usage = Usage { input: 10, output: 5, ..Usage::default() };
    let turns = vec![ScriptTurn { text: vec!["Hel".into(), "lo.".into()], usage: Some(usage), ..Default::default() }];
    let seen: Arc<Mutex<Vec<Event>>> = Arc::default();
    let sink = seen.clone();
    let result = world
        .runtime(turns)
        .run("scripted:m")
        .input("hi")
        .observer(move |event| sink.lock().unwrap().push(event.clone()))
        .await
        .unwrap();
    assert_eq!((result.text.as_str(), &result.end, result.turns, result.rounds), ("Hello.", &Ending::Completed, 1, 0));
    assert_eq!((result.usage, result.cost), (usage, None));
    world.check(&result).await;
    let events: Vec<Arc<Event>> = seen.lock().unwrap().iter().cloned().map(Arc::new).collect();
    assert_eq!(
        kinds(&events),
        [
            "run.started",
            "model.request.started",
            "model.text.delta",
            "model.text.delta",
            "model.completed",
            "run.completed"
        ]
    );
}

#[tokio::test]
async fn the_calls_of_a_round_run_side_by_side_and_are_answered_in_their_order() {
    let world = world();
    // Each waits for the other: they end only if they run at the same time, and the second ends first.
    let (meet, ran) = (Arc::new(tokio::sync::Barrier::new(2)), Arc::new(tokio::sync::Notify::new()));
    let pair = tool("pair", "Waits for its sibling.", move |say: Say, _| {
        let (meet, ran) = (meet.clone(), ran.clone());
        async move {
            meet.wait().await;
            if say.word == "first" {
                ran.notified().await
            } else {
                ran.notify_one()
            }
            say.word
        }
    });
    let turns = vec![
        ScriptTurn::call("pair", json!({"word": "first"})).and_call("pair", json!({"word": "second"})),
        ScriptTurn::text("done"),
    ];
    let model = scripted(turns);
    let result = world.builder(model.clone()).build().run("scripted:m").input("go").tool(pair).await.unwrap();
    let words: Vec<String> = results(&result).iter().map(|result| result.outcome.text()).collect();
    assert_eq!(words, ["first", "second"]);
    assert_eq!(model.requests().len(), 2, "one turn after the whole round");
    world.check(&result).await;
}

#[tokio::test]
async fn unknown_and_ungranted_tools_read_the_same_and_the_run_goes_on() {
    let world = world();
    let (echo, ran) = echo_tool("echo");
    let (hidden, never) = echo_tool("hidden");
    let pair = capability("pair").tool(echo).tool(hidden);
    let turns = vec![
        ScriptTurn::call("nowhere", json!({}))
            .and_call("hidden", json!({"word": "x"}))
            .and_call("echo", json!({"word": "y"}))
            .and_call("echo", json!({"wrong": 1})),
        ScriptTurn::text("done"),
    ];
    let result =
        world.runtime(turns).run("scripted:m").input("go").grant(Grant::new(pair).only(["echo"])).await.unwrap();
    let answers = results(&result);
    assert_eq!(answers[0].outcome.text(), answers[1].outcome.text());
    assert_eq!(answers[0].outcome.reason, Some(Reason::UnknownTool));
    assert_eq!(answers[1].outcome.reason, Some(Reason::NotAuthorised));
    assert_eq!(answers[2].outcome.text(), "y");
    assert_eq!(answers[3].outcome.status, Status::Mistaken);
    assert_eq!((ran.load(Ordering::SeqCst), never.load(Ordering::SeqCst)), (1, 0));
    assert_eq!(result.text, "done");
    world.check(&result).await;
}

/// Some models wrap their calls into one of a tool that nobody has. It is refused like any unknown tool, nothing of what it wraps runs,
/// and the model may ask again for what it meant.
#[tokio::test]
async fn a_made_up_tool_that_wraps_calls_is_refused_and_the_model_asks_again() {
    let world = world();
    let wrapped = json!({"tool_uses": [
        {"recipient_name": "functions.echo", "parameters": {"word": "a"}},
        {"recipient_name": "functions.echo", "parameters": {"word": "b"}}]});
    for name in ["parallel", "multi_tool_use.parallel"] {
        let (echo, ran) = echo_tool("echo");
        let turns = vec![
            ScriptTurn::call(name, wrapped.clone()),
            ScriptTurn::call("echo", json!({"word": "a"})).and_call("echo", json!({"word": "b"})),
            ScriptTurn::text("done"),
        ];
        let result = world.runtime(turns).run("scripted:m").input("go").tool(echo).await.unwrap();
        let answers = results(&result);
        assert_eq!(answers[0].outcome.reason, Some(Reason::UnknownTool));
        assert!(answers[0].outcome.is_error());
        assert_eq!((answers[1].outcome.text(), answers[2].outcome.text()), ("a".into(), "b".into()));
        assert_eq!((ran.load(Ordering::SeqCst), result.text.as_str()), (2, "done"));
        world.check(&result).await;
    }
}

#[tokio::test]
async fn at_the_limit_of_rounds_the_last_calls_are_answered_as_not_run_and_everything_is_kept() {
    let world = world();
    let (echo, ran) = echo_tool("echo");
    let call = || ScriptTurn::call("echo", json!({"word": "x"}));
    let result = world
        .runtime(vec![call(), call(), call(), ScriptTurn::text("never asked")])
        .run("scripted:m")
        .input("go")
        .tool(echo)
        .limits(Limits { rounds: 2, ..Limits::default() })
        .await
        .unwrap();
    assert_eq!((&result.end, result.turns, result.rounds), (&Ending::LimitReached, 3, 2));
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    let answers = results(&result);
    assert_eq!(answers.len(), 3, "the third is answered too");
    assert_eq!(answers[2].outcome.reason, Some(Reason::NotRun));
    assert!(!answers[2].outcome.is_error());
    assert_eq!(result.detail.as_deref(), Some("all 2 rounds of tool calls have run"));
    world.check(&result).await;
}

#[tokio::test]
async fn a_forced_choice_is_free_after_the_first_round() {
    let world = world();
    let (echo, _) = echo_tool("echo");
    let model = scripted(vec![ScriptTurn::call("echo", json!({"word": "x"})), ScriptTurn::text("done")]);
    let run = world.builder(model.clone()).build().run("scripted:m").input("go").tool(echo);
    run.tool_choice(ToolChoice::Required).await.unwrap();
    let choices: Vec<_> = model.requests().iter().map(|request| request.tool_choice.clone()).collect();
    assert_eq!(choices, [ToolChoice::Required, ToolChoice::Auto]);
}

#[tokio::test]
async fn a_mixed_round_is_handed_back_whole_and_unrun() {
    let world = world();
    let (echo, ran) = echo_tool("echo");
    let model = scripted(vec![ScriptTurn::call("echo", json!({"word": "x"})).and_call("outer", json!({}))]);
    let runtime = world.builder(model.clone()).build();
    let result = runtime.run("scripted:m").input("go").tool(echo).declare(outer()).await.unwrap();
    assert_eq!(result.end, Ending::HandedBack);
    let owed: Vec<&str> = result.owed.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(owed, ["echo", "outer"]);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert!(results(&result).is_empty());
    let offered: Vec<String> = model.requests()[0].tools.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(offered, ["echo", "outer"], "ours first");
    world.check(&result).await;
}

#[tokio::test]
async fn the_calls_of_a_cut_turn_are_told_so_and_never_run() {
    for stop in [StopReason::MaxTokens, StopReason::ContentFilter] {
        let world = world();
        let (echo, ran) = echo_tool("echo");
        let turns =
            vec![ScriptTurn::call("echo", json!("{\"word\": \"ha")).with_stop(stop), ScriptTurn::text("shorter")];
        let result = world.runtime(turns).run("scripted:m").input("go").tool(echo).await.unwrap();
        let answers = results(&result);
        assert_eq!(answers[0].outcome.reason, Some(Reason::TurnCut));
        assert_eq!(answers[0].outcome.status, Status::Mistaken);
        assert_eq!((ran.load(Ordering::SeqCst), result.text.as_str()), (0, "shorter"));
        world.check(&result).await;
    }
}

#[tokio::test]
async fn a_turn_that_breaks_off_fails_the_run_with_its_text_as_partial_and_its_calls_gone() {
    let world = world();
    let (echo, ran) = echo_tool("echo");
    let mut broken = ScriptTurn::call("echo", json!({"word": "x"}));
    broken.text = vec!["half an ".into()];
    broken.fail = ScriptTurn::fail(ErrorKind::Overloaded, "too busy: sk-ant-REDACTED").fail;
    let result = world.runtime(vec![broken]).run("scripted:m").input("go").tool(echo).await.unwrap();
    assert_eq!(result.end, Ending::Failed);
    let failure = result.failure.clone().unwrap();
    assert_eq!(failure.kind, ErrorKind::Overloaded);
    assert!(!failure.message.contains("AAAAAAAA"), "{}", failure.message);
    assert_eq!((result.partial.as_deref(), result.text.as_str(), result.turns), (Some("half an "), "", 0));
    assert!(result.items.is_empty());
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(world.kinds(&result.run).await, ["run.started", "run.failed"]);
    world.check(&result).await;
    assert!(result.ok().is_err());

    let cut = world.runtime(vec![ScriptTurn::text("and then").cut()]).run("scripted:m").input("go").await.unwrap();
    assert_eq!(cut.failure.clone().unwrap().kind, ErrorKind::Interrupted);
    assert_eq!(cut.partial.as_deref(), Some("and then"));
    world.check(&cut).await;
}

#[tokio::test]
async fn cancelling_within_a_turn_closes_the_connection_and_keeps_the_text() {
    let world = world();
    let dropped = Arc::new(AtomicUsize::new(0));
    let silent: Arc<dyn ModelProvider> = Arc::new(Silent { id: "silent".into(), dropped: dropped.clone() });
    let runtime = world.builder(silent).build();
    let handle = runtime.run("silent:m").input("go").start().await.unwrap();
    let mut events = handle.events(Cursor::START);
    while let Some(event) = events.next().await {
        if matches!(event.unwrap().body, EventBody::TextDelta(_)) {
            break;
        }
    }
    handle.cancel();
    let result = handle.wait().await.unwrap();
    assert_eq!((&result.end, result.partial.as_deref()), (&Ending::Cancelled, Some("Let me")));
    assert_eq!(result.usage.input, 3, "what the broken turn used counts");
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    world.check(&result).await;
}

#[tokio::test]
async fn the_time_limit_ends_a_turn_that_takes_too_long() {
    let world = world();
    let silent: Arc<dyn ModelProvider> = Arc::new(Silent { id: "silent".into(), dropped: Arc::default() });
    let limits = Limits { time_ms: Some(500), ..Limits::default() };
    let handle = world.builder(silent).build().run("silent:m").input("go").limits(limits).start().await.unwrap();
    let mut events = handle.events(Cursor::START);
    while !matches!(events.next().await.unwrap().unwrap().body, EventBody::TextDelta(_)) {}
    world.clock.advance(Duration::from_millis(501));
    let result = handle.wait().await.unwrap();
    assert_eq!((&result.end, result.detail.as_deref()), (&Ending::LimitReached, Some("the time of 500 ms is over")));
    assert_eq!(result.partial.as_deref(), Some("Let me"));
    world.check(&result).await;
}

#[tokio::test]
async fn cancelling_within_a_round_drops_reads_and_waits_for_what_changes_something() {
    let world = world();
    let (started, finish) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (begun, end) = (started.clone(), finish.clone());
    let once = tool("send", "Sends.", move |say: Say, cx| {
        let (begun, end) = (begun.clone(), end.clone());
        async move {
            begun.notify_one();
            end.notified().await;
            assert!(cx.is_cancelled(), "the handler was told");
            say.word
        }
    })
    .effect(Effect::Once);
    let turns = vec![
        ScriptTurn::call("send", json!({"word": "sent"})).and_call("send", json!({"word": "late"})),
        ScriptTurn::text("never asked"),
    ];
    let handle = world.runtime(turns).run("scripted:m").input("go").tool(once).start().await.unwrap();
    started.notified().await;
    handle.cancel();
    finish.notify_one();
    let result = handle.wait().await.unwrap();
    assert_eq!(result.end, Ending::Cancelled);
    let answers = results(&result);
    assert_eq!(answers[0].outcome.text(), "sent", "it ran to its end, and its result is kept");
    assert_eq!(answers[1].outcome.reason, Some(Reason::Cancelled), "its sibling never started");
    world.check(&result).await;

    let world = crate::support::world();
    let hang = tool("hang", "Hangs.", move |_: Say, _| {
        started.notify_one();
        std::future::pending::<String>()
    });
    let begun = Arc::new(tokio::sync::Notify::new());
    drop(begun);
    let runtime = world.runtime(vec![ScriptTurn::call("hang", json!({"word": ""}))]);
    let handle = runtime.run("scripted:m").input("go").tool(hang).start().await.unwrap();
    let mut events = handle.events(Cursor::START);
    while !matches!(events.next().await.unwrap().unwrap().body, EventBody::CallStarted(_)) {}
    handle.cancel();
    let result = handle.wait().await.unwrap();
    assert_eq!((&result.end, results(&result)[0].outcome.status), (&Ending::Cancelled, Status::Failed));
    world.check(&result).await;
}

#[tokio::test]
async fn everything_wrong_is_told_at_once_and_nothing_is_recorded() {
    let world = world();
    let (echo, _) = echo_tool("echo");
    let limits = Limits { cost: Some(Money::parse("1").unwrap()), concurrency: 0, ..Limits::default() };
    let run = world
        .runtime(Vec::new())
        .run("nobody:m")
        .tool(echo.clone())
        .grant(capability("other").tool(echo))
        .declare(outer())
        .declare(outer())
        .tool_choice(ToolChoice::Tool("absent".into()))
        .limits(limits);
    let Err(RuntimeError::Wiring { problems }) = run.start().await else { panic!("it started") };
    let text = problems.to_string();
    for part in ["nobody", "\"echo\"", "nothing was asked", "\"outer\"", "\"absent\"", "no price", "is 0"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let runs = placet_observe::list_runs(&*world.store, &placet_store::Tenant::new(""), None, 9).await.unwrap();
    assert!(runs.is_empty());
}

#[tokio::test]
async fn an_id_is_taken_once() {
    let world = world();
    let runtime = world.runtime(vec![ScriptTurn::text("hi")]);
    let id = RunId::parse("run_mine").unwrap();
    runtime.run("scripted:m").id(id.clone()).input("go").await.unwrap();
    let again = runtime.run("scripted:m").id(id.clone()).input("go").await;
    assert!(matches!(again, Err(RuntimeError::Exists { run }) if run == id));
}

#[tokio::test]
async fn capabilities_are_started_before_the_first_turn_and_stopped_whatever_happens() {
    #[derive(Clone)]
    struct Lab(Arc<Mutex<Vec<&'static str>>>, bool);
    #[async_trait::async_trait]
    impl Capability for Lab {
        fn id(&self) -> placet_core::CapabilityId {
            "lab".into()
        }
        fn tools(&self) -> Vec<placet_tools::BoundTool> {
            Vec::new()
        }
        async fn start(&self, lifecycle: &Lifecycle) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            assert!(lifecycle.run.is_some());
            self.0.lock().unwrap().push("start");
            if self.1 { Err("no power".into()) } else { Ok(()) }
        }
        async fn stop(&self, _: &Lifecycle) {
            self.0.lock().unwrap().push("stop");
        }
    }
    let world = world();
    for turn in [ScriptTurn::text("hi"), ScriptTurn::fail(ErrorKind::Network, "gone")] {
        let told = Arc::default();
        world.runtime(vec![turn]).run("scripted:m").input("go").grant(Lab(Arc::clone(&told), false)).await.unwrap();
        assert_eq!(*told.lock().unwrap(), ["start", "stop"]);
    }
    let run = world.runtime(Vec::new()).run("scripted:m").input("go").grant(Lab(Arc::default(), true));
    assert!(matches!(run.start().await, Err(RuntimeError::Start(error)) if error.to_string().contains("no power")));
}

#[tokio::test]
async fn a_policy_sees_where_the_conversation_came_from() {
    let world = world();
    let web = tool("fetch", "Reads a page.", |_: Say, _| async { "buy now" })
        .origin(placet_core::Origin::Web(Some("example.org".into())));
    let send = tool("send", "Sends.", |say: Say, _| async { say.word }).effect(Effect::Once);
    let policy = PolicyFn(|request: &placet_tools::PolicyRequest<'_>| {
        if request.tool.effect == Effect::Once && request.origins.is_untrusted() {
            Verdict::deny("untrusted content has entered the run")
        } else {
            Verdict::Allow
        }
    });
    let turns = vec![
        ScriptTurn::call("send", json!({"word": "before"})),
        ScriptTurn::call("fetch", json!({"word": ""})),
        ScriptTurn::call("send", json!({"word": "after"})),
        ScriptTurn::text("done"),
    ];
    let run = world.runtime(turns).run("scripted:m").input("go").tool(web).tool(send).policy(Arc::new(policy));
    let result = run.await.unwrap();
    let statuses: Vec<Status> = results(&result).iter().map(|result| result.outcome.status).collect();
    assert_eq!(statuses, [Status::Completed, Status::Completed, Status::Refused]);
}

#[tokio::test]
async fn instructions_and_tools_are_the_same_bytes_in_every_turn() {
    let world = world();
    let (echo, _) = echo_tool("echo");
    let model = scripted(vec![ScriptTurn::call("echo", json!({"word": "x"})), ScriptTurn::text("done")]);
    let house = capability("house").instructions("Echo when asked.").tool(echo);
    let run = world.builder(model.clone()).build().run("scripted:m").instructions("Be brief.").input("go");
    let grant = Grant::new(house).bounds(Bounds::default());
    run.grant(grant).declare(outer()).await.unwrap();
    let requests = model.requests();
    assert_eq!(requests[0].instructions.as_deref(), Some("Be brief.\n\nEcho when asked."));
    let prefix = |at: usize| {
        let request = &requests[at];
        serde_json::to_string(&(&request.instructions, &request.tools, &request.items[..1])).unwrap()
    };
    assert_eq!(prefix(0), prefix(1));
    assert!(matches!(requests[1].items.last().unwrap().body, ItemBody::ToolResult(_)));
}

#[tokio::test]
async fn ask_runs_nothing_and_resolve_goes_on_until_there_is_an_answer() {
    let world = world();
    let (echo, ran) = echo_tool("echo");
    let model = scripted(vec![
        ScriptTurn::call("echo", json!({"word": "x"})),
        ScriptTurn::text("done"),
        ScriptTurn::call("echo", json!({"word": "y"})),
        ScriptTurn::text("never mind"),
    ]);
    let mut chat = world.builder(model.clone()).build().chat("scripted:m");
    chat.add("go");
    let turn = chat.ask(|run| run.tool(echo.clone())).await.unwrap();
    assert_eq!((turn.calls().count(), ran.load(Ordering::SeqCst)), (1, 0));
    let result = chat.resolve(|run| run.tool(echo.clone())).await.unwrap();
    assert_eq!((result.text.as_str(), ran.load(Ordering::SeqCst), result.turns), ("done", 1, 2));
    assert_eq!(model.requests().len(), 2, "the turn that was asked is not asked again");
    world.check(&result).await;

    // A round that nobody resolves is answered before the conversation goes on.
    chat.add("again");
    let turn = chat.ask(|run| run.tool(echo.clone())).await.unwrap();
    assert_eq!(turn.calls().count(), 1);
    chat.add("stop");
    let answered = chat.items().iter().filter(|item| matches!(item.body, ItemBody::ToolResult(_))).count();
    assert_eq!(answered, 2);
    assert_eq!(chat.ask(|run| run).await.unwrap().text(), "never mind");
    assert!(model.requests()[3].tools.is_empty(), "each ask names its tools");
}

#[tokio::test]
async fn a_panic_of_the_provider_ends_the_run_as_failed() {
    #[derive(Debug)]
    struct Broken(placet_core::ProviderId);
    #[async_trait::async_trait]
    impl ModelProvider for Broken {
        fn id(&self) -> &placet_core::ProviderId {
            &self.0
        }
        async fn ask(
            &self,
            _: Arc<placet_core::TurnRequest>,
            _: placet_models::AskContext,
        ) -> Result<placet_models::TurnStream, placet_core::ProviderError> {
            panic!("out of cheese")
        }
        async fn models(
            &self,
            _: placet_models::AskContext,
        ) -> Result<Vec<placet_models::ModelListing>, placet_core::ProviderError> {
            Ok(Vec::new())
        }
    }
    let world = world();
    let broken: Arc<dyn ModelProvider> = Arc::new(Broken("broken".into()));
    let result = world.builder(broken).build().run("broken:m").input("go").await.unwrap();
    let failure = result.failure.clone().unwrap();
    assert_eq!(failure.kind, ErrorKind::Internal);
    assert!(failure.message.contains("out of cheese"));
    world.check(&result).await;
}

#[tokio::test]
async fn a_text_run_is_two_commits_and_a_run_of_one_tool_at_most_four() {
    #[derive(Default)]
    struct Commits(Mutex<Vec<Vec<String>>>);
    impl placet_runtime::JournalWitness for Commits {
        fn committed(&self, point: &placet_runtime::CommitPoint<'_>) {
            let kinds = point.events.iter().map(|event| event.body.kind().to_owned()).collect();
            self.0.lock().unwrap().push(kinds);
        }
    }
    let intent = || vec!["model.completed".to_owned(), "tool.call.requested".to_owned()];
    let result = || vec!["tool.call.completed".to_owned()];
    let start = || vec!["run.started".to_owned()];
    let end = || vec!["model.completed".to_owned(), "run.completed".to_owned()];
    let riding = || [result(), end()].concat();
    let cases = [
        (None, false, vec![start(), end()]),
        (Some(Effect::Read), false, vec![start(), intent(), riding()]),
        (Some(Effect::Read), true, vec![start(), intent(), result(), end()]),
        (Some(Effect::Idempotent), false, vec![start(), intent(), result(), end()]),
        (Some(Effect::Once), false, vec![start(), intent(), result(), end()]),
    ];
    for (effect, watched, expected) in cases {
        let world = world();
        let commits = Arc::new(Commits::default());
        let mut turns = vec![ScriptTurn::text("done")];
        if effect.is_some() {
            turns.insert(0, ScriptTurn::call("work", json!({"word": ""})));
        }
        let runtime = world.builder(scripted(turns)).witness(commits.clone()).build();
        let mut run = runtime.run("scripted:m").input("go");
        if let Some(effect) = effect {
            run = run.tool(tool("work", "Works.", |say: Say, _| async { say.word }).effect(effect));
        }
        if watched {
            run = run.observer(|_| {});
        }
        run.await.unwrap();
        assert_eq!(*commits.0.lock().unwrap(), expected, "{effect:?}, watched: {watched}");
    }
}

#[tokio::test]
async fn an_answer_that_no_store_could_keep_ends_the_run_as_failed() {
    // Control characters take six bytes each in a record: it is what is written that counts.
    for piece in ["x".repeat(1 << 20), "\u{1}".repeat(1 << 18)] {
        let world = world();
        let turn = ScriptTurn { text: vec![piece; 9], ..Default::default() };
        let result = world.runtime(vec![turn.clone()]).run("scripted:m").input("go").await.unwrap();
        let failure = result.failure.as_ref().unwrap();
        assert_eq!(result.end, Ending::Failed);
        assert_eq!(failure.kind, ErrorKind::LimitReached);
        assert!(failure.message.contains("larger than 8 MiB"), "{}", failure.message);
        world.check(&result).await;

        let asked = world.runtime(vec![turn]).chat("scripted:m").add("go").ask(|with| with).await;
        assert!(matches!(&asked, Err(RuntimeError::Provider(error)) if error.kind == ErrorKind::LimitReached));
    }
}
