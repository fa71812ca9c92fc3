//! Execution: callers that go away, private values, records that fail, context.

use crate::support::{Bench, block_on, call, reason};
use placet_core::{Effect, Origin, Status};
use placet_testkit::recording::{Recording, Told};
use placet_tools::{
    CallContext, CallLedger, Grant, NoArguments, NoCalls, Options, PipelineError, Private, ToolContext, ToolError, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A tool that says when it starts, waits for a word, and counts how often it got to its end.
struct Gate {
    started: Arc<Notify>,
    go: Arc<Notify>,
    ended: Arc<AtomicU32>,
}

fn gated(effect: Effect) -> (Gate, placet_tools::BoundTool) {
    let gate = Gate { started: Arc::default(), go: Arc::default(), ended: Arc::default() };
    let (started, go, ended) = (gate.started.clone(), gate.go.clone(), gate.ended.clone());
    let tool = tool("wait", "Waits.", move |_: NoArguments, _cx| {
        let (started, go, ended) = (started.clone(), go.clone(), ended.clone());
        async move {
            started.notify_one();
            go.notified().await;
            ended.fetch_add(1, Ordering::SeqCst);
            "done"
        }
    });
    (gate, tool.effect(effect).build())
}

async fn settle() {
    for _ in 0..30 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_caller_that_goes_away_stops_a_read_but_nothing_that_changes_something() {
    for effect in [Effect::Read, Effect::Idempotent, Effect::Once] {
        block_on(async {
            let (gate, tool) = gated(effect);
            let recording = Recording::new();
            let bench = Bench::new([Grant::tool(tool)], Options::default().recorder(recording.clone()));
            let call = bench.call("wait", json!({}));
            {
                let mut run = std::pin::pin!(bench.pipeline.run(&call, bench.cx()));
                tokio::select! {
                    biased;
                    _ = &mut run => panic!("it waits"),
                    () = gate.started.notified() => {}
                }
            }
            gate.go.notify_one();
            settle().await;
            let goes_on = effect != Effect::Read;
            assert_eq!(gate.ended.load(Ordering::SeqCst), u32::from(goes_on), "{effect:?}");
            assert_eq!(recording.results().len(), usize::from(goes_on), "its result is recorded: {effect:?}");
            // Who asks again gets the result; a read that was dropped simply runs.
            gate.go.notify_one();
            let again = bench.run(&call).await;
            assert_eq!((again.outcome.status, again.outcome.repeated), (Status::Completed, goes_on));
            assert_eq!(gate.ended.load(Ordering::SeqCst), 1);
        });
    }
}

#[test]
fn two_equal_calls_at_once_run_once() {
    block_on(async {
        let (gate, tool) = gated(Effect::Once);
        let bench = Bench::new([Grant::tool(tool)], Options::default());
        let call = bench.call("wait", json!({}));
        let go = async {
            gate.started.notified().await;
            settle().await;
            gate.go.notify_one();
        };
        let (first, second, ()) = tokio::join!(bench.run(&call), bench.run(&call), go);
        assert_eq!((first.outcome.repeated, second.outcome.repeated), (false, true));
        assert_eq!(first.outcome.text(), second.outcome.text());
        assert_eq!(gate.ended.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_handler_given_up_after_its_grace_runs_to_its_end_all_the_same() {
    block_on(async {
        let (gate, tool) = gated(Effect::Once);
        let bench = Bench::new([Grant::tool(tool)], Options::default());
        let token = CancellationToken::new();
        let call = bench.call("wait", json!({}));
        let time = async {
            gate.started.notified().await;
            token.cancel();
            settle().await;
            bench.clock.advance(Duration::from_secs(5));
        };
        let (result, ()) = tokio::join!(bench.pipeline.run(&call, bench.cx().cancelled_by(token.clone())), time);
        assert_eq!(result.unwrap().outcome.status, Status::Interrupted);
        gate.go.notify_one();
        settle().await;
        assert_eq!(gate.ended.load(Ordering::SeqCst), 1);
        // It counts as run: nobody runs it again.
        assert!(bench.run(&call).await.outcome.repeated);
    });
}

#[derive(Clone, Deserialize, JsonSchema)]
struct Who {
    /// A model may claim what it likes.
    #[serde(default)]
    user: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct User(&'static str);

#[test]
fn private_values_reach_the_handler_and_cannot_be_spoofed() {
    block_on(async {
        let who = tool("who", "Says who asks.", |args: Who, cx: ToolContext| async move {
            let known = cx.private::<User>().map_or("nobody", |user| user.0);
            format!("{known}, who says to be {:?}", args.user)
        });
        let bench = Bench::new([Grant::tool(who)], Options::default());
        let definition = serde_json::to_string(&bench.pipeline.registry().definitions()).unwrap();
        assert!(!definition.contains("ada"));
        let cx = bench.cx().private(Private::new().with(User("ada")));
        let call = bench.call("who", json!({"user": "root"}));
        let result = bench.pipeline.run(&call, cx).await.unwrap();
        assert_eq!(result.outcome.text(), "ada, who says to be Some(\"root\")");
        let without = bench.ask("who", json!({"user": "root"})).await;
        assert!(without.outcome.text().starts_with("nobody"));
    });
}

#[test]
fn a_handler_is_told_what_its_call_comes_with() {
    block_on(async {
        let look = tool("look", "Looks around.", |_: NoArguments, cx: ToolContext| async move {
            json!({
                "call": cx.call().to_string(), "tool": cx.tool().to_string(), "capability": cx.capability().to_string(),
                "run": cx.run().map(ToString::to_string), "key": cx.idempotency_key(), "revision": cx.revision(),
                "untrusted": cx.origins().is_untrusted(), "left": cx.remaining().map(|left| left.as_secs())
            })
        })
        .timeout(Duration::from_secs(30));
        let bench = Bench::new([Grant::tool(look)], Options::default());
        let (run, turn) = (bench.env.new_id(), bench.env.new_id());
        let call = bench.call("look", json!({}));
        let cx = bench
            .cx()
            .asked_by(placet_core::RunId::clone(&run), turn)
            .origins(placet_core::Origins::from(Origin::File))
            .revision("12")
            .deadline(Duration::from_secs(20));
        let payload = bench.pipeline.run(&call, cx.clone()).await.unwrap().outcome.payload.unwrap();
        let key = format!("{run}/{}", call.id);
        assert_eq!(
            payload,
            json!({
                "call": call.id.to_string(), "tool": "look", "capability": "look", "run": run.to_string(), "key": key,
                "revision": "12", "untrusted": true, "left": 20
            })
        );
        let other = bench.call("look", json!({}));
        let kept = bench.pipeline.run(&other, cx.idempotency_key("as before")).await.unwrap();
        assert_eq!(kept.outcome.payload.unwrap()["key"], "as before");
    });
}

#[test]
fn a_record_that_fails_is_an_error_of_the_caller_and_nothing_runs_again() {
    block_on(async {
        let count = Arc::new(AtomicU32::new(0));
        let recording = Recording::new();
        let (ran, breaks) = (count.clone(), recording.clone());
        let pay = tool("pay", "Pays.", move |_: NoArguments, _cx| {
            ran.fetch_add(1, Ordering::SeqCst);
            breaks.break_down();
            async { "paid" }
        })
        .effect(Effect::Once);
        let bench = Bench::new([Grant::tool(pay)], Options::default().recorder(recording.clone()));
        let call = bench.call("pay", json!({}));
        let error = bench.pipeline.run(&call, bench.cx()).await.expect_err("the record could not be kept");
        assert!(matches!(&error, PipelineError::Record(_)) && error.to_string().contains("the disk is full"));
        assert!(bench.run(&call).await.outcome.repeated, "what ran counts as run");
        assert_eq!(count.load(Ordering::SeqCst), 1);
        // And where not even the intent can be written down, nothing starts.
        let other = bench.call("pay", json!({}));
        assert!(bench.pipeline.run(&other, bench.cx()).await.is_err());
        assert_eq!(count.load(Ordering::SeqCst), 1);
        assert_eq!(recording.told().iter().filter(|told| matches!(told, Told::Starting(_))).count(), 1);
    });
}

struct NoDisk;

#[async_trait::async_trait]
impl CallLedger for NoDisk {
    async fn admit(
        &self,
        _: &placet_tools::CallKey,
        _: placet_core::Digest,
    ) -> Result<placet_tools::Admission, placet_tools::LedgerFailure> {
        Err("no disk".into())
    }
    async fn settle(
        &self,
        _: &placet_tools::CallKey,
        _: &placet_core::ToolResult,
    ) -> Result<(), placet_tools::LedgerFailure> {
        Ok(())
    }
    fn abandon(&self, _: &placet_tools::CallKey, _: bool) {}
}

#[test]
fn a_ledger_of_calls_that_fails_is_an_error_of_the_caller() {
    block_on(async {
        let say = || tool("say", "Says it.", |_: NoArguments, _cx| async { "hello" });
        let bench = Bench::new([Grant::tool(say())], Options::default().calls(Arc::new(NoDisk)));
        let error = bench.pipeline.run(&bench.call("say", json!({})), bench.cx()).await;
        assert!(matches!(error, Err(PipelineError::Calls(_))));
        let free = Bench::new([Grant::tool(say())], Options::default().calls(Arc::new(NoCalls)));
        let call = free.call("say", json!({}));
        free.run(&call).await;
        assert!(!free.run(&call).await.outcome.repeated);
    });
}

#[test]
fn a_call_that_was_abandoned_before_its_handler_may_come_again() {
    block_on(async {
        let count = Arc::new(AtomicU32::new(0));
        let ran = count.clone();
        let slow = tool("slow", "Is slow.", move |_: NoArguments, _cx| {
            ran.fetch_add(1, Ordering::SeqCst);
            async { "done" }
        })
        .effect(Effect::Once)
        .possible(|_, _| async {
            tokio::task::yield_now().await;
            Ok(())
        });
        let bench = Bench::new([Grant::tool(slow)], Options::default());
        let call = bench.call("slow", json!({}));
        {
            let mut run = std::pin::pin!(bench.pipeline.run(&call, bench.cx()));
            assert!(futures_util::poll!(&mut run).is_pending());
        }
        let result = bench.run(&call).await;
        assert_eq!((result.outcome.status, result.outcome.repeated), (Status::Completed, false));
        assert_eq!(count.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_value_that_is_no_json_is_a_failure() {
    block_on(async {
        let odd = tool("odd", "Is odd.", |_: NoArguments, _cx| async {
            std::collections::HashMap::from([((1_u8, 2_u8), 3_u8)])
        });
        let result = Bench::new([Grant::tool(odd)], Options::default()).ask("odd", json!({})).await;
        assert_eq!((result.outcome.status, reason(&result)), (Status::Failed, "tool_error"));
    });
}

#[test]
fn the_ledger_in_memory_keeps_as_many_as_it_was_told() {
    block_on(async {
        let say = tool("say", "Says it.", |_: NoArguments, _cx| async { Ok::<_, ToolError>("hello") });
        let options = Options::default().calls(Arc::new(placet_tools::MemoryCalls::keeping(2)));
        let bench = Bench::new([Grant::tool(say)], options);
        let calls: Vec<_> = (0..3).map(|_| bench.call("say", json!({}))).collect();
        for call in &calls {
            bench.run(call).await;
        }
        assert!(bench.run(&calls[1]).await.outcome.repeated);
        assert!(bench.run(&calls[2]).await.outcome.repeated);
        assert!(!bench.run(&calls[0]).await.outcome.repeated);
        // The same id in another run is another call.
        let other = CallContext::new(&bench.env).run(bench.env.new_id());
        let again = call(calls[2].id.clone(), "say", json!({}));
        assert!(!bench.pipeline.run(&again, other).await.unwrap().outcome.repeated);
    });
}

/// Panics when it is told of the first end.
#[derive(Default)]
struct Faints(AtomicU32);

#[async_trait::async_trait]
impl placet_tools::Recorder for Faints {
    async fn ended(&self, _: &placet_core::ToolResult, _: Duration) -> Result<(), placet_tools::RecordFailure> {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) > 0, "the recorder faints");
        Ok(())
    }
}

#[test]
fn a_once_call_whose_end_was_lost_is_interrupted_and_any_other_runs_again() {
    for effect in [Effect::Read, Effect::Idempotent, Effect::Once] {
        block_on(async {
            let count = Arc::new(AtomicU32::new(0));
            let ran = count.clone();
            let pay = tool("pay", "Pays.", move |_: NoArguments, _cx| {
                ran.fetch_add(1, Ordering::SeqCst);
                async { "paid" }
            })
            .effect(effect);
            let bench = Bench::new([Grant::tool(pay)], Options::default().recorder(Arc::new(Faints::default())));
            let call = bench.call("pay", json!({}));
            let error = bench.pipeline.run(&call, bench.cx()).await.expect_err("its end is lost");
            assert!(matches!(error, PipelineError::Panicked(_)), "{error}");
            let again = bench.run(&call).await;
            if effect == Effect::Once {
                assert_eq!((again.outcome.status, reason(&again)), (Status::Interrupted, "interrupted"));
                assert_eq!(count.load(Ordering::SeqCst), 1);
                assert!(bench.run(&call).await.outcome.repeated, "that is its stored outcome");
            } else {
                assert_eq!((again.outcome.status, again.outcome.repeated), (Status::Completed, false));
                assert_eq!(count.load(Ordering::SeqCst), 2);
            }
        });
    }
}
